"""Every reported number against loops over a ragged rollout, and the sentence that stands in place of a NaN."""

import math
import statistics

import oracle
import pytest
import torch
from torch import tensor

from minirl.metrics import CAUSES, clip_shares, describe_rollout, held_out_accuracy, stop_if_not_finite, token_mean
from minirl.policy import SortingPolicy
from minirl.rollout import Batch, Rollout, collect
from minirl.sorting import SortingTask, exact_match, position_match

pytestmark = pytest.mark.usefixtures("float64")
PROMPTS = [(1, 2), (0, 2), (2, 2), (1, 0)]


class LengthTask:
    """Judges only by rewards: one per token, which varies within groups."""

    def rewards(self, batch, responses, mask):
        return mask.sum(-1).double()

    def held_out(self):
        return Batch(tensor(PROMPTS), PROMPTS)


@pytest.fixture
def policy():
    return oracle.toy_policy(0)


@pytest.fixture
def rollout(policy):
    generator, batch = torch.Generator().manual_seed(0), Batch(tensor(PROMPTS), PROMPTS)
    rollout = collect(policy, LengthTask(), batch, 5, generator=generator, reference=oracle.toy_policy(1))
    assert 0.3 < rollout.mask.double().mean() < 0.9, "a rollout that is not ragged would not test the masks"
    return rollout


def prefixes(rollout):
    """Each token that counts, as (prompt, tokens before it, itself)."""
    for prompt, group, masks in zip(PROMPTS, rollout.responses.tolist(), rollout.mask.tolist(), strict=True):
        for response, mask in zip(group, masks, strict=True):
            for t in range(sum(mask)):
                yield prompt, tuple(response[:t]), response[t]


def mean_over_tokens(rollout, value):
    return statistics.mean(value(*token) for token in prefixes(rollout))


def test_rewards_and_lengths_are_described_as_they_are(policy, rollout):
    found = describe_rollout("epoch 1", rollout, policy)
    groups = rollout.rewards.tolist()
    assert found["reward_mean"] == pytest.approx(statistics.mean(reward for group in groups for reward in group))
    assert found["reward_std"] == pytest.approx(statistics.mean(statistics.stdev(group) for group in groups))
    assert found["response_length"] == pytest.approx(len(list(prefixes(rollout))) / 20)
    assert found["seconds_sampling"] == rollout.seconds_sampling
    assert found["seconds_scoring"] == rollout.seconds_scoring


def test_the_spread_of_rewards_is_that_within_groups():
    """Each group is tied and the groups differ: nothing to learn from, whatever the spread over the batch."""
    mask = torch.ones(2, 3, 1, dtype=torch.bool)
    rewards = tensor([[1.0, 1.0, 1.0], [5.0, 5.0, 5.0]])
    rollout = Rollout(torch.zeros(2, 1, dtype=torch.long), mask.long(), mask, rewards, torch.zeros(2, 3, 1))
    assert describe_rollout("epoch 1", rollout, None)["reward_std"] == 0


def test_entropy_is_the_real_one_averaged_over_tokens_once(policy, rollout):
    def entropy(prompt, prefix, token):
        return -sum(p * math.log(p) for p in oracle.next_token(policy, prompt, prefix))

    def surprise(prompt, prefix, token):
        return -math.log(oracle.next_token(policy, prompt, prefix)[token])

    found = describe_rollout("epoch 1", rollout, policy)["entropy"]
    assert found == pytest.approx(mean_over_tokens(rollout, entropy))
    assert found != pytest.approx(mean_over_tokens(rollout, surprise))


def test_kl_is_estimated_per_token_by_k1_and_k3(policy, rollout):
    reference = oracle.toy_policy(1)

    def log_ratio(prompt, prefix, token):
        p, q = (oracle.next_token(model, prompt, prefix)[token] for model in (policy, reference))
        return math.log(p / q)

    found = describe_rollout("epoch 1", rollout, policy)
    k3 = mean_over_tokens(rollout, lambda *token: math.exp(-log_ratio(*token)) - 1 + log_ratio(*token))
    assert found["kl_k1"] == pytest.approx(mean_over_tokens(rollout, log_ratio))
    assert found["kl_k3"] == pytest.approx(k3)


def test_what_cannot_be_measured_is_left_out(policy, rollout):
    class Plain:
        sample, log_probs = policy.sample, policy.log_probs

    whole = {"reward_mean", "reward_std", "response_length", "sampled_tokens", "seconds_sampling", "seconds_scoring"}
    plain, without = (collect(each, LengthTask(), Batch(tensor(PROMPTS), PROMPTS), 3) for each in (Plain(), policy))
    assert describe_rollout("epoch 1", plain, policy).keys() == whole
    assert describe_rollout("epoch 1", without, policy).keys() == whole | {"entropy"}
    assert describe_rollout("epoch 1", rollout, policy).keys() == whole | {"entropy", "kl_k1", "kl_k3"}


def test_every_number_is_a_float(policy, rollout):
    found = describe_rollout("epoch 1", rollout, policy) | clip_shares(
        rollout.old_log_probs, rollout, rollout.rewards, 0.2, 0.2
    )
    assert {type(value) for value in found.values()} == {float}


def test_two_responses_have_a_spread(policy):
    """Of rewards 1 and 3 the unbiased standard deviation is √2."""
    pair = collect(policy, LengthTask(), Batch(tensor(PROMPTS[:1]), PROMPTS[:1]), 2)
    pair = Rollout(**{**vars(pair), "rewards": tensor([[1.0, 3.0]])})
    assert describe_rollout("epoch 1", pair, policy)["reward_std"] == pytest.approx(2**0.5)


def test_a_single_response_has_no_spread(policy):
    single = collect(policy, LengthTask(), Batch(tensor(PROMPTS), PROMPTS), 1)
    assert describe_rollout("epoch 1", single, policy)["reward_std"] == 0


def test_a_token_mean_counts_only_what_the_mask_lets_through(rollout):
    values = torch.arange(60.0).view(4, 5, 3)
    inside = [value for value, counts in zip(range(60), rollout.mask.flatten().tolist(), strict=True) if counts]
    assert token_mean(values, rollout) == pytest.approx(statistics.mean(inside))


def test_a_single_token_is_its_own_mean(rollout):
    mask = torch.zeros_like(rollout.mask)
    mask[0, 0, 0] = True
    assert token_mean(torch.full((4, 5, 3), 7.0), Rollout(**{**vars(rollout), "mask": mask})) == 7


def test_a_rollout_without_tokens_has_a_mean_of_zero(policy, rollout):
    empty = Rollout(**{**vars(rollout), "mask": torch.zeros_like(rollout.mask)})
    assert token_mean(torch.ones(4, 5, 3), empty) == 0


def test_clip_shares_count_tokens_whose_gradient_is_cut():
    ratios = tensor([[[0.5, 1.25, 1.5], [0.5, 0.75, 9.0]], [[0.7, 0.9, 2.0], [0.1, 1.4, 1.6]]])
    mask = tensor([[[1, 1, 1], [1, 1, 0]], [[1, 1, 1], [1, 0, 0]]]) == 1
    deltas = tensor([[1.0, -1.0], [0.0, -2.0]])
    old = torch.full((2, 2, 3), -1.0)
    rollout = Rollout(torch.zeros(2, 2, dtype=torch.long), mask.long(), mask, deltas, old)
    found = clip_shares(old + ratios.log(), rollout, deltas, 0.2, 0.3)
    # nine tokens count; pushed up and above 1.3: 1.5; pushed down and below 0.8: 0.5 and 0.75 by −1, and 0.1 by −2
    assert found == {"clip_high": pytest.approx(1 / 9), "clip_low": pytest.approx(3 / 9), "zero_signal_groups": 0.0}
    wide = clip_shares(old + ratios.log(), rollout, deltas, 0.6, 0.6)
    assert wide == {"clip_high": 0.0, "clip_low": pytest.approx(1 / 9), "zero_signal_groups": 0.0}


def test_nothing_is_clipped_at_ratio_one(rollout):
    found = clip_shares(rollout.old_log_probs, rollout, rollout.rewards - 2, 0.0, 0.0)
    assert found["clip_low"] == found["clip_high"] == 0


def test_a_group_without_signal_has_only_zero_deltas(rollout):
    deltas = torch.zeros(4, 5)
    deltas[1, 3], deltas[2] = 0.5, 1.0
    assert clip_shares(rollout.old_log_probs, rollout, deltas, 0.2, 0.2)["zero_signal_groups"] == 0.5


def test_held_out_accuracy_is_that_of_samples_and_of_greedy():
    class Lenient(SortingTask):
        def correct(self, batch, responses, mask):
            return position_match(batch.prompts, responses) / 3

    policy, task = oracle.sorting_policy(vocab_size=5, length=3), Lenient(reward=exact_match)
    prompts = task.test_prompts
    found = held_out_accuracy(policy, task, 7, seed=3)
    responses, _ = policy.sample(prompts, 7, torch.Generator().manual_seed(3))
    greedy, _ = policy.greedy(prompts)
    assert found == {
        "held_out_exact": pytest.approx(position_match(prompts, responses).mean().item() / 3),
        "held_out_greedy": pytest.approx(position_match(prompts, greedy).mean().item() / 3),
    }


def test_a_task_that_only_rewards_is_judged_by_its_rewards(policy):
    found = held_out_accuracy(policy, LengthTask(), 7, seed=3)
    _, mask = policy.sample(tensor(PROMPTS), 7, torch.Generator().manual_seed(3))
    assert found["held_out_exact"] == pytest.approx(mask.sum().item() / 28)


def test_a_policy_without_greedy_is_only_sampled():
    class Sampler:
        def sample(self, prompts, group_size, generator=None):
            return oracle.toy_policy().sample(prompts, group_size, generator)

    assert held_out_accuracy(Sampler(), LengthTask(), 2, seed=0).keys() == {"held_out_exact"}


def test_evaluation_leaves_the_global_random_numbers_alone(policy):
    before = torch.random.get_rng_state()
    held_out_accuracy(policy, LengthTask(), 7, seed=0)
    assert (torch.random.get_rng_state() == before).all()


@pytest.mark.parametrize("name", CAUSES)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_stops_with_its_place_name_and_cause(name, bad):
    with pytest.raises(FloatingPointError) as stop:
        stop_if_not_finite("epoch 3, inner step 2", name, torch.ones(2), tensor([1.0, bad]))
    expected = f"epoch 3, inner step 2: {name} is not finite; likely cause: {CAUSES[name]}"
    assert str(stop.value) == expected


@pytest.mark.parametrize("name", CAUSES)
def test_finite_numbers_pass(name):
    stop_if_not_finite("epoch 1", name, torch.full((3,), 1e300), torch.zeros(0))


@pytest.mark.parametrize("name", ["rewards", "old_log_probs", "ref_log_probs"])
def test_a_rollout_with_a_number_that_is_not_finite_is_refused(policy, rollout, name):
    broken = vars(rollout)[name].clone()
    broken.view(-1)[7] = math.nan
    with pytest.raises(FloatingPointError, match=rf"^epoch 5: {name} is not finite; likely cause: "):
        describe_rollout("epoch 5", Rollout(**{**vars(rollout), name: broken}), policy)


def test_the_share_of_cut_responses_is_told_by_policies_that_know_it():
    class Cut(SortingPolicy):
        def truncated(self, responses, mask):
            return torch.arange(responses.shape[0] * responses.shape[1]).view(responses.shape[:2]) < 2

    policy, task = Cut(seed=0), SortingTask()
    rollout = collect(policy, task, task.sample(2), 4)
    assert describe_rollout("here", rollout, policy)["truncated"] == 0.25
    assert "truncated" not in describe_rollout("here", rollout, SortingPolicy(seed=0))
