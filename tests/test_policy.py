"""The sorting policy against its formula written as loops, and its samples against its probabilities."""

import oracle
import pytest
import torch
from torch.distributions import Categorical

from minirl.policy import SortingPolicy

pytestmark = pytest.mark.usefixtures("float64")
PROMPTS = [(1, 2, 0), (3, 3, 1), (0, 0, 0)]


@pytest.fixture
def policy():
    return SortingPolicy(vocab_size=4, length=3, dim=5, init_scale=0.6, seed=0)


def ones(responses):
    return torch.ones_like(responses, dtype=torch.bool)


def some_responses(groups=6):
    return torch.randint(4, (len(PROMPTS), groups, 3), generator=torch.Generator().manual_seed(1))


def test_logits_equal_the_formula_in_plain_python(policy):
    expected = [[oracle.sorting_logits(policy, prompt, t) for t in range(3)] for prompt in PROMPTS]
    torch.testing.assert_close(policy.position_logits(torch.tensor(PROMPTS)), torch.tensor(expected))


def test_logits_are_the_same_for_every_response_of_a_group(policy):
    """The lecture's model decodes each position without looking at the others."""
    logits = policy.logits(torch.tensor(PROMPTS), some_responses())
    assert logits.shape == (3, 1, 3, 4)
    assert (logits == policy.position_logits(torch.tensor(PROMPTS))[:, None]).all()


def test_log_probs_equal_the_formula_in_plain_python(policy):
    responses = some_responses()
    found = policy.log_probs(torch.tensor(PROMPTS), responses, ones(responses))
    expected = [
        [oracle.token_probabilities(policy, prompt, response) for response in group]
        for prompt, group in zip(PROMPTS, responses.tolist(), strict=True)
    ]
    torch.testing.assert_close(found, torch.tensor(expected).log())


def test_scores_are_zero_where_the_mask_is_false(policy):
    responses = some_responses()
    mask = torch.rand(responses.shape, generator=torch.Generator().manual_seed(2)) < 0.5
    for score in (policy.log_probs, policy.entropy):
        found = score(torch.tensor(PROMPTS), responses, mask)
        assert ((found == 0) == ~mask).all()
        torch.testing.assert_close(found[mask], score(torch.tensor(PROMPTS), responses, ones(responses))[mask])


def test_entropy_is_that_of_torch_distributions(policy):
    responses = some_responses()
    found = policy.entropy(torch.tensor(PROMPTS), responses, ones(responses))
    expected = Categorical(logits=policy.position_logits(torch.tensor(PROMPTS))).entropy()
    torch.testing.assert_close(found, expected[:, None].expand(-1, 6, -1))


def test_entropy_does_not_depend_on_what_was_sampled(policy):
    """The sampled −log p only estimates it."""
    first, second = some_responses(), some_responses().flip(0)
    prompts = torch.tensor(PROMPTS)
    assert (policy.entropy(prompts, first, ones(first)) == policy.entropy(prompts, second, ones(second))).all()


@pytest.mark.parametrize("dim", [4, 10])
def test_init_scale_scales_the_logits_and_nothing_else(dim):
    lecture, scaled = (SortingPolicy(dim=dim, init_scale=scale, seed=3) for scale in (1.0, 0.1))
    prompts = torch.tensor([[1, 0, 2], [4, 4, 3]])
    torch.testing.assert_close(scaled.position_logits(prompts), 0.1 * lecture.position_logits(prompts))
    torch.testing.assert_close(scaled.embedding, lecture.embedding)
    torch.testing.assert_close(scaled.encode, lecture.encode)


def test_the_lectures_start_is_nearly_deterministic_and_the_default_is_not():
    """At scale 1 the likeliest token of a position has almost all the probability: little to explore."""
    prompts = torch.tensor([[1, 0, 2], [3, 2, 4], [1, 2, 3]])
    starts = {"lecture": {"init_scale": 1.0}, "default": {}}
    surest = {
        name: torch.stack(
            [SortingPolicy(**start, seed=s).position_logits(prompts).softmax(-1).amax(-1) for s in range(20)]
        )
        for name, start in starts.items()
    }
    assert surest["lecture"].mean() > 0.8
    assert surest["default"].mean() < 0.4


def test_the_matrices_keep_the_size_of_what_they_multiply():
    """Standard normal embeddings; encoding and decoding entries of variance 1/dim, decoding times init_scale."""
    policy = SortingPolicy(vocab_size=200, length=4, dim=64, init_scale=0.5, seed=0)
    for parameter, deviation in [(policy.embedding, 1.0), (policy.encode, 1 / 8), (policy.decode, 0.5 / 8)]:
        assert abs(parameter.std().item() / deviation - 1) < 0.03
        assert abs(parameter.mean().item() / deviation) < 0.03


def test_a_policy_is_the_same_for_the_same_seed_and_leaves_the_global_one_alone():
    state = torch.random.get_rng_state()
    first, again, other = SortingPolicy(seed=1), SortingPolicy(seed=1), SortingPolicy(seed=2)
    assert (torch.random.get_rng_state() == state).all()
    for one, two, three in zip(first.parameters(), again.parameters(), other.parameters(), strict=True):
        assert (one == two).all()
        assert (one != three).all()


def test_without_a_seed_the_global_generator_decides():
    torch.manual_seed(0)
    first = SortingPolicy()
    torch.manual_seed(0)
    assert (first.decode == SortingPolicy().decode).all()
    assert (first.decode != SortingPolicy().decode).all()


def test_samples_have_the_shape_of_a_group_and_no_graph(policy):
    responses, mask = policy.sample(torch.tensor(PROMPTS), 7, torch.Generator().manual_seed(0))
    assert responses.shape == mask.shape == (3, 7, 3)
    assert responses.dtype == torch.int64
    assert mask.dtype == torch.bool
    assert mask.all()
    assert not responses.is_floating_point()
    assert responses.min() >= 0
    assert responses.max() < 4


def test_samples_are_the_generators_choice(policy):
    prompts = torch.tensor(PROMPTS)
    first, again, other = (policy.sample(prompts, 9, torch.Generator().manual_seed(s))[0] for s in (0, 0, 1))
    assert (first == again).all()
    assert (first != other).any()


def test_samples_have_the_frequencies_of_the_probabilities(policy):
    """χ² over every whole response to every prompt: expected about 63, and its spread is √126 ≈ 11."""
    draws = 20_000
    responses, _ = policy.sample(torch.tensor(PROMPTS), draws, torch.Generator().manual_seed(0))
    for prompt, group in zip(PROMPTS, responses, strict=True):
        listed = oracle.distribution(policy, prompt)
        counts = (group @ torch.tensor([16, 4, 1])).bincount(minlength=64)
        expected = draws * torch.tensor(list(listed.values()))
        assert ((counts - expected) ** 2 / expected).sum() < 63 + 5 * 126**0.5


def test_greedy_takes_the_likeliest_token_of_every_position(policy):
    responses, mask = policy.greedy(torch.tensor(PROMPTS))
    expected = []
    for prompt in PROMPTS:
        logits = [oracle.sorting_logits(policy, prompt, t) for t in range(3)]
        expected.append([[row.index(max(row)) for row in logits]])
    assert responses.tolist() == expected
    assert mask.all()
    assert mask.shape == (3, 1, 3)


def test_the_gradient_of_a_log_prob_is_the_derivative_of_the_formula():
    policy = oracle.sorting_policy()
    responses = torch.tensor([[[2, 1]]])
    policy.log_probs(torch.tensor([[1, 2]]), responses, ones(responses)).sum().backward()
    expected = oracle.derivative(policy, lambda: oracle.probability(policy, (1, 2), (2, 1)))
    torch.testing.assert_close(oracle.gradient_of(policy), expected / oracle.probability(policy, (1, 2), (2, 1)))
