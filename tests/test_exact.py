"""The oracle of the package against the oracle of the tests: lists, loops and central differences in plain Python."""

import itertools

import oracle
import pytest
import torch
from oracle import worth
from torch import tensor

from minirl import exact
from minirl.policy import SortingPolicy
from minirl.rollout import response_mask
from minirl.toy_language import AutoregressivePolicy

pytestmark = pytest.mark.usefixtures("float64")
PROMPTS = [(1, 2), (0, 2), (2, 2)]
policies = pytest.mark.parametrize("make", [oracle.sorting_policy, oracle.toy_policy])


def reward(prompts, responses):
    """`worth` of each response plus its prompt's first token, for padded tensors."""
    pairs = zip(prompts.tolist(), responses.tolist(), strict=True)
    return tensor([[worth(strip(response)) + prompt[0] for response in group] for prompt, group in pairs])


def loop_reward(policy, prompt):
    return oracle.expectation(policy, prompt, lambda response: worth(response) + prompt[0])


def strip(response):
    """Cut after the first end token. The sorting policy has none, but there the token 1 must not end anything."""
    return response if len(response) == 2 else response[: response.index(1) + 1] if 1 in response else response


@pytest.mark.parametrize("vocab_size, length, end_token", [(3, 2, None), (2, 3, 0), (3, 3, 1), (4, 2, 3), (1, 2, 0)])
def test_every_response_is_listed_once_in_order(vocab_size, length, end_token):
    """With an end token, a response stops there, and the rest is filled with it: for 3 tokens, length 3, 15 of 27."""
    listed = oracle.responses(vocab_size, length, end_token)
    expected = [[*response, *[end_token] * (length - len(response))] for response in listed]
    assert exact.responses(vocab_size, length, end_token).tolist() == expected


@policies
def test_the_distribution_is_that_of_loops_and_sums_to_one(make):
    policy = make()
    responses, log_probs = exact.distribution(policy, tensor(PROMPTS))
    expected = tensor([list(oracle.distribution(policy, prompt).values()) for prompt in PROMPTS])
    torch.testing.assert_close(log_probs.exp(), expected)
    torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(3))
    padded, _ = oracle.tensors(policy, oracle.all_responses(policy))
    assert (responses == padded).all()


@policies
def test_expected_reward_is_a_sum_over_every_response(make):
    policy = make()
    expected = tensor([loop_reward(policy, prompt) for prompt in PROMPTS])
    torch.testing.assert_close(exact.expected_reward(policy, tensor(PROMPTS), reward), expected)


@policies
def test_gradient_is_the_derivative_of_the_mean_expected_reward(make):
    policy = make()
    expected = oracle.derivative(policy, lambda: sum(loop_reward(policy, prompt) for prompt in PROMPTS) / len(PROMPTS))
    torch.testing.assert_close(exact.gradient(policy, tensor(PROMPTS), reward), expected)


@policies
def test_kl_and_its_gradients_in_both_policies(make):
    policy, reference = make(0), make(1)

    def expected():
        return [oracle.kl(policy, reference, prompt) for prompt in PROMPTS]

    slopes = {model: oracle.derivative(model, expected).T for model in (policy, reference)}
    found = exact.kl(policy, reference, tensor(PROMPTS))
    torch.testing.assert_close(found, tensor(expected()))
    for model, slope in slopes.items():
        torch.testing.assert_close(exact.gradients(found, model), slope)


@policies
def test_kl_of_a_policy_from_itself_is_zero(make):
    torch.testing.assert_close(exact.kl(make(), make(), tensor(PROMPTS)), torch.zeros(3))


def test_gradients_beyond_one_chunk_are_each_their_own():
    """More values than are differentiated at once (64): each row still belongs to its value."""
    policy = oracle.toy_policy()
    _, log_probs = exact.distribution(policy, tensor(PROMPTS).repeat(2, 1))
    values = log_probs.flatten()
    assert len(values) == 90
    found = exact.gradients(values, policy)
    for row in (0, 63, 64, 89):
        one = torch.autograd.grad(values[row], list(policy.parameters()), retain_graph=True)
        torch.testing.assert_close(found[row], torch.cat([part.flatten() for part in one]))


def some_statistic(prompts, responses, mask):
    """Three numbers a group that mix all it holds: its prompt, its tokens in their order, its lengths."""
    tokens = (responses * mask).double()
    order = torch.arange(1.0, 1 + responses.shape[1])
    first = (tokens.sum(-1) * order).sum(-1)
    return torch.stack([first, mask.sum(-1).double().prod(-1), first * prompts.sum(-1) - tokens[:, 0, 0] ** 2], -1)


@policies
@pytest.mark.parametrize("group_size", [1, 2])
def test_moments_of_any_estimator_are_sums_over_every_ordered_group(make, group_size):
    policy, prompt = make(), PROMPTS[0]
    mean, covariance = exact.estimator_moments(policy, tensor(prompt), some_statistic, group_size)
    groups, probs = oracle.groups(policy, prompt, group_size)
    values = []
    for group in groups:
        responses, mask = oracle.tensors(policy, list(group))
        values.append(some_statistic(tensor([prompt]), responses[None], mask[None])[0].tolist())
    expected = [sum(p * v[i] for p, v in zip(probs, values, strict=True)) for i in range(3)]
    torch.testing.assert_close(mean, tensor(expected))
    spread = [
        [
            sum(p * (v[i] - expected[i]) * (v[j] - expected[j]) for p, v in zip(probs, values, strict=True))
            for j in range(3)
        ]
        for i in range(3)
    ]
    torch.testing.assert_close(covariance, tensor(spread))


def test_moments_of_the_score_function():
    """E[∇ log π] = 0, and its covariance is the Fisher information −E[∇² log π]; here of one softmax, diag(p) − ppᵀ."""
    policy = AutoregressivePolicy(3, 1, end_token=1, prompt_size=1, seed=0)

    def score(prompts, responses, mask):
        return exact.gradients(policy.log_probs(prompts, responses, mask).sum((1, 2)), policy)

    mean, covariance = exact.estimator_moments(policy, tensor([0]), score)
    torch.testing.assert_close(mean, torch.zeros_like(mean))
    p = tensor(oracle.next_token(policy, (0,), ()))
    torch.testing.assert_close(covariance[:3, :3], p.diag() - p.outer(p))


@pytest.mark.parametrize("group_size", [1, 2, 3])
def test_the_variance_of_a_mean_falls_with_the_group(group_size):
    """Var of a mean of G independent values is Var/G: groups are drawn independently, with the right probabilities."""
    policy = oracle.short_toy_policy()

    def lengths(prompts, responses, mask):
        return mask.sum(-1).double().mean(-1, keepdim=True)

    _, one = exact.estimator_moments(policy, tensor(PROMPTS[0]), lengths, 1)
    _, many = exact.estimator_moments(policy, tensor(PROMPTS[0]), lengths, group_size)
    torch.testing.assert_close(many, one / group_size)
    assert one > 0


def test_an_estimators_arguments_are_every_group_as_rows():
    policy = oracle.toy_policy()

    def estimator(prompts, responses, mask):
        assert prompts.tolist() == [list(PROMPTS[0])] * 225
        assert len(set(itertools.chain(map(str, responses.tolist())))) == 225
        assert (mask == response_mask(responses, 1)).all()
        return torch.ones(225, 1)

    mean, covariance = exact.estimator_moments(policy, tensor(PROMPTS[0]), estimator, 2)
    torch.testing.assert_close(mean, torch.ones(1))
    torch.testing.assert_close(covariance, torch.zeros(1, 1))


def test_moments_carry_no_graph():
    policy = oracle.toy_policy()

    def estimator(prompts, responses, mask):
        return policy.log_probs(prompts, responses, mask).sum((1, 2))[:, None]

    assert not any(moment.requires_grad for moment in exact.estimator_moments(policy, tensor(PROMPTS[0]), estimator))


@pytest.mark.parametrize("vocab_size, length", [(101, 3), (2, 20)])
def test_more_than_a_million_responses_are_refused(vocab_size, length):
    with pytest.raises(ValueError, match="expected 1 to 1,000,000 of them; use a smaller task"):
        exact.responses(vocab_size, length)
    with pytest.raises(ValueError, match="cannot list all sequences"):
        exact.expected_reward(SortingPolicy(vocab_size, length), torch.zeros(1, length, dtype=torch.long), reward)


def test_more_than_a_million_responses_in_all_are_refused():
    prompts = torch.zeros(11, 5, dtype=torch.long)
    message = "cannot list 1,100,000 responses, expected at most 1,000,000: pass fewer prompts at a time"
    with pytest.raises(ValueError, match=message):
        exact.distribution(SortingPolicy(10, 5), prompts)


def test_more_than_a_million_groups_are_refused():
    with pytest.raises(ValueError, match="cannot list all sequences"):
        exact.estimator_moments(oracle.toy_policy(), tensor(PROMPTS[0]), some_statistic, group_size=6)


def certain_policy():
    """Token 2 has probability 0 at every position."""
    policy = SortingPolicy(3, 2, seed=0).double()
    honest = policy.position_logits
    policy.position_logits = lambda prompts: honest(prompts) + tensor([0.0, 0.0, -torch.inf])
    return policy


def test_kl_and_entropy_count_an_impossible_token_as_nothing():
    policy, prompts = certain_policy(), tensor([[1, 2]])
    two = policy.position_logits(prompts)[..., :2].log_softmax(-1)
    expected = (two.exp() * (two - torch.full_like(two, 1 / 3).log())).sum()
    uniform = SortingPolicy(3, 2, init_scale=0.0, seed=0).double()
    torch.testing.assert_close(exact.kl(policy, uniform, prompts), expected[None])
    response, mask = tensor([[[0, 1]]]), torch.ones(1, 1, 2, dtype=torch.bool)
    torch.testing.assert_close(policy.entropy(prompts, response, mask)[0], -(two.exp() * two).sum(-1))


def test_gradients_of_a_parameter_that_takes_no_part_are_zero():
    policy = SortingPolicy(3, 2, dim=2, seed=0).double()
    policy.spare = torch.nn.Parameter(torch.ones(3))
    gradient = exact.gradient(policy, tensor([[1, 2]]), reward)
    assert (gradient[:3] == 0).all() or (gradient[-3:] == 0).all()
    assert gradient.numel() == sum(parameter.numel() for parameter in policy.parameters()) and gradient.any()
