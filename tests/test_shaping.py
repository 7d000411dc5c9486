"""Parts of a reward against loops in plain Python; per-token rewards against the reward of the whole response."""

import copy
import math

import oracle
import pytest
import torch
from oracle import worth
from torch import tensor

from minirl.exact import distribution
from minirl.kl import k1
from minirl.rollout import Batch, response_mask
from minirl.shaping import (
    Shaped,
    combined,
    kimi_length_reward,
    language_consistency,
    per_token_rewards,
    share_of_tokens,
    soft_overlong_penalty,
)
from minirl.sorting import SortingTask
from minirl.train import Config, train

pytestmark = pytest.mark.usefixtures("float64")
LENGTHS = [[10, 30, 20, 14], [7, 7, 7, 7], [1, 0, 400, 3]]
CORRECT = [[1.0, 0.0, 1.0, 0.0], [1.0, 0.0, 1.0, 0.0], [0.0, 0.0, 1.0, 1.0]]


def kimi_loop(lengths, correct):
    least, most = min(lengths), max(lengths)
    if least == most:
        return [0.0] * len(lengths)
    scores = [0.5 - (length - least) / (most - least) for length in lengths]
    return [score if right else min(0.0, score) for score, right in zip(scores, correct, strict=True)]


def test_kimis_length_reward_equals_its_formula_in_plain_python():
    expected = tensor([kimi_loop(*rows) for rows in zip(LENGTHS, CORRECT, strict=True)])
    torch.testing.assert_close(kimi_length_reward(tensor(LENGTHS), tensor(CORRECT)), expected)
    torch.testing.assert_close(kimi_length_reward(tensor(LENGTHS), tensor(CORRECT) == 1), expected)


def test_a_group_that_fits_in_the_head():
    """10 to 30 tokens: the shortest gets ½, the longest −½, the middle 0; a short wrong answer gets nothing for it."""
    lengths, correct = tensor([[10, 20, 30, 10, 20, 30]]), tensor([[1.0, 1, 1, 0, 0, 0]])
    expected = tensor([[0.5, 0.0, -0.5, 0.0, 0.0, -0.5]])
    torch.testing.assert_close(kimi_length_reward(lengths, correct), expected)


def test_equal_lengths_and_a_group_of_one_get_exactly_zero():
    ones = torch.ones(2, 3)
    assert (kimi_length_reward(0.1 * ones, ones) == 0).all()
    assert (kimi_length_reward(tensor([[5], [9]]), tensor([[1.0], [0.0]])) == 0).all()


def test_the_length_reward_is_blind_to_the_unit_of_length_and_follows_its_responses():
    lengths, correct, order = tensor(LENGTHS), tensor(CORRECT), tensor([2, 0, 3, 1])
    found = kimi_length_reward(lengths, correct)
    torch.testing.assert_close(kimi_length_reward(3.5 * lengths + 11, correct), found)
    torch.testing.assert_close(kimi_length_reward(lengths[:, order], correct[:, order]), found[:, order])
    torch.testing.assert_close(kimi_length_reward(lengths[1:], correct[1:]), found[1:])


def test_partial_credit_is_refused():
    with pytest.raises(ValueError, match="correct must be 0 or 1"):
        kimi_length_reward(tensor([[1, 2]]), tensor([[0.5, 1.0]]))


def overlong_loop(length, max_length, buffer):
    if length <= max_length - buffer:
        return 0.0
    return -1.0 if length > max_length else (max_length - buffer - length) / buffer


@pytest.mark.parametrize("max_length, buffer", [(20, 5), (16, 16), (7, 0.5)])
def test_the_overlong_penalty_equals_its_formula_for_every_length(max_length, buffer):
    lengths = [length / 2 for length in range(2 * max_length + 10)]
    expected = tensor([overlong_loop(length, max_length, buffer) for length in lengths])
    torch.testing.assert_close(soft_overlong_penalty(tensor(lengths), max_length, buffer), expected)


def test_the_overlong_penalty_of_dapos_own_setting():
    """Up to 16,384 tokens free, half of the penalty 2,048 later, all of it at 20,480 and beyond."""
    lengths = tensor([[100, 16_384, 18_432], [20_480, 20_481, 99_999]])
    expected = tensor([[0, 0, -0.5], [-1, -1, -1]])
    torch.testing.assert_close(soft_overlong_penalty(lengths, 20_480, 4096), expected)


@pytest.mark.parametrize("buffer", [0, -1, 21])
def test_a_buffer_that_cannot_be_is_refused(buffer):
    with pytest.raises(ValueError, match=f"expected 0 < buffer ≤ max_length, .* got buffer {buffer}, max_length 20"):
        soft_overlong_penalty(tensor([3]), 20, buffer)


# Tokens 1 to 3 are words of one language, 4 and 5 of the other, 6 is a digit, 0 ends a response.
RESPONSES = tensor([[[1, 6, 4, 2, 0], [5, 6, 0, 1, 1]], [[6, 6, 0, 2, 2], [3, 1, 2, 2, 1]]])
WORDS, OTHERS, DIGIT = tensor([1, 2, 3]), tensor([4, 5]), tensor([6])


def test_shares_are_of_the_tokens_inside_the_mask():
    mask = response_mask(RESPONSES, 0)
    assert mask.sum(-1).tolist() == [[5, 3], [3, 5]]
    torch.testing.assert_close(share_of_tokens(RESPONSES, mask, WORDS), tensor([[2 / 5, 0], [0, 1]]))
    torch.testing.assert_close(share_of_tokens(RESPONSES, mask, DIGIT), tensor([[1 / 5, 1 / 3], [2 / 3, 0]]))
    torch.testing.assert_close(share_of_tokens(RESPONSES, mask, DIGIT[:0]), torch.zeros(2, 2))


def test_a_response_without_tokens_has_share_zero():
    assert (share_of_tokens(RESPONSES, torch.zeros_like(RESPONSES) > 0, WORDS) == 0).all()


def test_shares_equal_counts_in_plain_python():
    responses = torch.randint(0, 7, (3, 4, 6), generator=torch.Generator().manual_seed(0))
    mask = response_mask(responses, 0)
    for words in ([1], [2, 5], [0, 1, 2, 3, 4, 5, 6]):
        expected = []
        for row, inside in zip(responses.flatten(0, 1), mask.flatten(0, 1), strict=True):
            tokens = row[inside].tolist()
            expected.append(sum(token in words for token in tokens) / len(tokens))
        torch.testing.assert_close(share_of_tokens(responses, mask, tensor(words)), tensor(expected).view(3, 4))


def test_consistency_counts_words_and_nothing_else():
    """2 of 3 words, none of 1, no words at all, 5 of 5; digits and end tokens take no part."""
    mask = response_mask(RESPONSES, 0)
    found = language_consistency(RESPONSES, mask, WORDS, OTHERS)
    torch.testing.assert_close(found, tensor([[2 / 3, 0], [0, 1]]))
    torch.testing.assert_close(language_consistency(RESPONSES, mask, OTHERS, WORDS), tensor([[1 / 3, 1], [0, 0]]))


def test_a_word_of_two_languages_is_refused():
    with pytest.raises(ValueError, match="a token belongs to one language or to none; 5 is in both lists"):
        language_consistency(RESPONSES, RESPONSES > 0, tensor([1, 5]), OTHERS)


def every_response():
    """All responses of a toy policy as one group, their log-probs under it and under a reference, and their rewards."""
    policy, reference = oracle.toy_policy(0), oracle.toy_policy(1)
    prompts = tensor([[1, 2], [0, 1]])
    responses, _ = distribution(policy, prompts)
    mask = response_mask(responses, policy.end_token)
    logs = [model.log_probs(prompts, responses, mask) for model in (policy, reference)]
    pairs = [zip(*rows, strict=True) for rows in zip(responses, mask, strict=True)]
    rewards = tensor([[worth(row[inside].tolist()) for row, inside in group] for group in pairs])
    return rewards, *logs, mask


def per_token_loop(reward, ratios, inside, beta):
    """−β·log π/π_ref per token of the response, and its reward at the last."""
    found = [-beta * ratio if there else 0.0 for ratio, there in zip(ratios, inside, strict=True)]
    places = [place for place, there in enumerate(inside) if there]
    if places:
        found[places[-1]] += reward
    return found


@pytest.mark.parametrize("beta", [0.0, 0.4])
def test_per_token_rewards_equal_their_formula_in_plain_python(beta):
    rewards, log_probs, ref, mask = every_response()
    mask[0, :2] = False  # no tokens at all
    mask[1, 3, 1] = False  # a token in the middle that is not the policy's own
    ratios = (log_probs - ref).tolist()
    expected = [
        [per_token_loop(*row, beta) for row in zip(*rows, strict=True)]
        for rows in zip(rewards.tolist(), ratios, mask.tolist(), strict=True)
    ]
    torch.testing.assert_close(per_token_rewards(rewards, log_probs, ref, mask, beta), tensor(expected))


def test_per_token_rewards_sum_to_the_reward_less_beta_times_k1():
    rewards, log_probs, ref, mask = every_response()
    expected = rewards - 0.4 * k1(log_probs, ref).detach().sum(-1)
    torch.testing.assert_close(per_token_rewards(rewards, log_probs, ref, mask, 0.4).sum(-1), expected)


def test_their_expected_sum_is_the_expected_reward_less_beta_times_the_kl():
    """Erratum 9: with the sign the other way round, drifting from the reference would pay."""
    policy, reference, prompt = oracle.toy_policy(0), oracle.toy_policy(1), (1, 2)
    rewards, log_probs, ref, mask = every_response()
    sums = per_token_rewards(rewards, log_probs, ref, mask, 0.4).sum(-1)[0]
    truth = oracle.expectation(policy, prompt, worth) - 0.4 * oracle.kl(policy, reference, prompt)
    torch.testing.assert_close((log_probs[0].sum(-1).exp() * sums).sum().detach(), tensor(truth))


def test_the_outcome_comes_once_at_the_last_token_and_nowhere_for_an_empty_response():
    mask = tensor([[[True, True, True], [True, False, False], [False, False, False]]])
    zeros = torch.zeros(1, 3, 3)
    found = per_token_rewards(tensor([[5.0, 7.0, 9.0]]), zeros, zeros, mask, 0.1)
    assert found.tolist() == [[[0, 0, 5], [7, 0, 0], [0, 0, 0]]]


def test_a_reward_has_no_graph_and_no_token_outside_the_mask_has_one():
    rewards, log_probs, ref, mask = every_response()
    assert log_probs.requires_grad
    infinite = log_probs.masked_fill(~mask, -math.inf)
    found = per_token_rewards(rewards, infinite, ref, mask, 0.4)
    assert not found.requires_grad and (found[~mask] == 0).all() and found.isfinite().all()


def test_a_negative_price_is_refused():
    with pytest.raises(ValueError, match=r"price of leaving the reference and must be at least 0; got -0\.1"):
        per_token_rewards(*every_response(), -0.1)


def test_combined_is_a_sum_by_name_in_any_order():
    right, brief = tensor([[1.0, 0.0]]), tensor([[-0.5, 0.5]])
    found = combined({"right": 2.0, "brief": 0.5}, {"brief": brief, "right": right})
    torch.testing.assert_close(found, tensor([[1.75, 0.25]]))
    torch.testing.assert_close(combined({"right": 1.0, "brief": 0.0}, {"right": right, "brief": brief}), right)


@pytest.mark.parametrize(
    "weights, parts, message",
    [
        (["right", "brief"], ["right"], r"parts missing: \['brief'\], unknown: \[\]"),
        (["right"], ["right", "brief"], r"parts missing: \[\], unknown: \['brief'\]"),
        (["rihgt"], ["right"], r"parts missing: \['rihgt'\], unknown: \['right'\]"),
        ([], [], "at least one"),
    ],
)
def test_combined_refuses_what_does_not_match(weights, parts, message):
    with pytest.raises(ValueError, match=message):
        combined(dict.fromkeys(weights, 1.0), {name: torch.ones(2, 3) for name in parts})


def test_parts_of_different_shapes_are_refused_even_where_they_would_broadcast():
    with pytest.raises(ValueError, match=r"parts of one shape, \[batch group\]; got \[\(1, 3\), \(2, 3\)\]"):
        combined({"a": 1.0, "b": 1.0}, {"a": torch.ones(2, 3), "b": torch.ones(1, 3)})


class WeighedSorting(SortingTask):
    """Being right, and a bonus for everyone whose weight the caller may change between epochs."""

    def rewards(self, batch, responses, mask):
        parts = {"right": super().rewards(batch, responses, mask), "bonus": torch.ones(responses.shape[:2])}
        return combined(self.weights, parts)


def test_a_part_can_be_switched_on_between_two_epochs():
    """What the module says of late parts: after the second epoch of `train`, the caller sets a weight."""
    task = WeighedSorting(vocab_size=3, length=2, seed=0)
    task.weights = {"right": 0.0, "bonus": 0.0}
    means = []
    config = Config(epochs=4, batch_size=2, group_size=2, delta="raw", inner_steps=1)
    for metrics in train(oracle.sorting_policy(), task, config):
        means.append(metrics["reward_mean"])
        task.weights["bonus"] = 3.0 * (metrics["epoch"] >= 2)
    assert means == [0, 0, 3, 3]


# A task with parts for length -----------------------------------------------------------------------------------------


class Fixed:
    """A reward of its own, the truth behind it, and something that only it has."""

    held_out_prompts = "mine"

    def rewards(self, batch, responses, mask):
        return 10 * tensor(CORRECT) + 1

    def correct(self, batch, responses, mask):
        return tensor(CORRECT)


def shaped_rewards(task):
    lengths = tensor([[10, 30, 20, 14], [7, 7, 7, 7], [1, 0, 40, 3]])
    mask = torch.arange(40) < lengths[..., None]
    batch = Batch(torch.zeros(3, 1, dtype=torch.long), [None] * 3)
    return lengths, task.rewards(batch, mask.long(), mask)


@pytest.mark.parametrize("overlong, length", [(0.0, 0.0), (1.0, 0.0), (0.0, 0.2), (0.5, 2.0)])
def test_shaped_adds_its_parts_to_the_tasks_own_reward(overlong, length):
    lengths, found = shaped_rewards(Shaped(Fixed(), {"overlong": overlong, "length": length}, 40, 25))
    for b, (row, right) in enumerate(zip(lengths.tolist(), CORRECT, strict=True)):
        for g, brevity in enumerate(kimi_loop(row, right)):
            late = min(0.0, max(-1.0, (40 - 25 - row[g]) / 25))
            assert found[b, g].item() == pytest.approx(10 * right[g] + 1 + overlong * late + length * brevity)


def test_the_buffer_is_a_fifth_of_what_is_allowed_and_at_least_a_token():
    lengths, found = shaped_rewards(Shaped(Fixed(), {"overlong": 1.0}, 24))
    torch.testing.assert_close(found, 10 * tensor(CORRECT) + 1 + soft_overlong_penalty(lengths, 24, 4))
    assert Shaped(Fixed(), {}, 3).buffer == 1 and Shaped(Fixed(), {}, 40, buffer=8).buffer == 8


def test_the_length_reward_may_come_late():
    task = Shaped(Fixed(), {"length": 1.0}, 40, length_from=3)
    own = 10 * tensor(CORRECT) + 1
    for task.epoch in range(5):
        assert shaped_rewards(task)[1].equal(own) == (task.epoch < 3)


def test_all_else_is_the_tasks_own():
    task = Shaped(SortingTask(seed=1), {"overlong": 1.0}, max_length=3)
    assert task.train_prompts.equal(SortingTask(seed=1).train_prompts)
    assert task.held_out().prompts.equal(SortingTask(seed=1).held_out().prompts)
    assert Shaped(Fixed(), {}, 3).held_out_prompts == "mine" and not hasattr(task, "nothing")
    again = copy.deepcopy(task)
    assert again.task is not task.task and again.weights == {"overlong": 1.0}


def test_an_unknown_part_is_refused():
    with pytest.raises(ValueError, match="unknown part brevity; expected some of length, overlong"):
        Shaped(Fixed(), {"brevity": 1.0}, 3)


def test_a_run_is_judged_by_the_truth_and_trained_on_the_shaped_reward():
    config = Config(epochs=1, batch_size=4, group_size=4)
    plain = next(train(oracle.sorting_policy(), SortingTask(vocab_size=3, length=2, seed=0), config))
    task = Shaped(SortingTask(vocab_size=3, length=2, seed=0), {"overlong": 0.25}, max_length=2)
    shaped = next(train(oracle.sorting_policy(), task, config))
    assert shaped["reward_mean"] == pytest.approx(plain["reward_mean"] - 0.25)
    assert shaped["held_out_exact"] == pytest.approx(plain["held_out_exact"], abs=0.3) and shaped["held_out_exact"] >= 0
