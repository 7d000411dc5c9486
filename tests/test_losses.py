"""Losses at points on every side of the clip, and token weights on ragged masks, against plain Python.

Their expected gradients are in test_gradients.
"""

import math

import pytest
import torch

from minirl.losses import AGGREGATIONS, LOSSES, clipped, naive, probability_ratio, token_weights, unclipped

RATIOS = [0.01, 0.45, 0.75, 0.85, 0.95, 1.0, 1.05, 1.15, 1.25, 1.35, 1.8, 30.0]
DELTAS = [2.0, -1.5, 0.0]
EPSILONS = [(0.2, 0.2), (0.2, 0.28), (0.1, 0.5), (0.5, 0.1), (0.0, 0.3), (0.9, 0.0)]

pytestmark = pytest.mark.usefixtures("float64")


def at_ratios():
    """Log-probs whose ratio to the old ones runs over RATIOS along the tokens; one response for each of DELTAS."""
    old = torch.linspace(-3, -0.1, len(RATIOS)).expand(1, len(DELTAS), -1).clone().requires_grad_()
    log_probs = (old.detach() + torch.tensor(RATIOS).log()).requires_grad_()
    return log_probs, old, torch.tensor([DELTAS])


def ppo(ratio, delta, low, high):
    """Loss and its slope in log π, by cases: PPO stops pushing where the policy already went that way by ε."""
    if delta > 0 and ratio > 1 + high:
        return -delta * (1 + high), 0.0
    if delta < 0 and ratio < 1 - low:
        return -delta * (1 - low), 0.0
    return -delta * ratio, -delta * ratio


@pytest.mark.parametrize("low, high", EPSILONS)
def test_clipped_is_right_at_points_on_every_side(low, high):
    log_probs, old, deltas = at_ratios()
    loss = clipped(log_probs, old, deltas, low, high)
    loss.sum().backward()
    cases = [[[ppo(ratio, delta, low, high) for ratio in RATIOS] for delta in DELTAS]]
    value, slope = torch.tensor(cases).unbind(-1)
    torch.testing.assert_close(loss, value)
    torch.testing.assert_close(log_probs.grad, slope)
    assert ((log_probs.grad == 0) == (slope == 0)).all()


def test_clipped_clips_at_a_fifth_by_default_on_both_sides():
    log_probs, old, deltas = at_ratios()
    torch.testing.assert_close(
        clipped(log_probs, old, deltas), clipped(log_probs, old, deltas, 0.2, 0.2), rtol=0, atol=0
    )


def test_clipped_keeps_the_gradient_at_ratio_one_even_with_nothing_to_spare():
    """The first inner step has ρ = 1 everywhere: clipping must not stop it, whatever ε."""
    log_probs = torch.tensor([[[-1.0], [-2.0]]], requires_grad=True)
    clipped(log_probs, log_probs.detach(), torch.tensor([[1.0, -3.0]]), 0.0, 0.0).sum().backward()
    torch.testing.assert_close(log_probs.grad, torch.tensor([[[-1.0], [3.0]]]))


def test_clipped_is_a_bound_on_the_side_of_caution():
    """−min: never a smaller loss than unclipped, for either sign. With max in its place it would be never larger."""
    log_probs, old, deltas = at_ratios()
    assert (clipped(log_probs, old, deltas) >= unclipped(log_probs, old, deltas)).all()


def test_unclipped_is_minus_ratio_times_delta():
    log_probs, old, deltas = at_ratios()
    loss = unclipped(log_probs, old, deltas)
    loss.sum().backward()
    expected = torch.tensor([[[-ratio * delta for ratio in RATIOS] for delta in DELTAS]])
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(log_probs.grad, expected)


def test_naive_is_minus_delta_times_log_prob():
    log_probs, _, deltas = at_ratios()
    loss = naive(log_probs, deltas)
    loss.sum().backward()
    expected = [[[-delta * logp for logp in row] for delta, row in zip(DELTAS, log_probs[0].tolist(), strict=True)]]
    torch.testing.assert_close(loss, torch.tensor(expected))
    torch.testing.assert_close(log_probs.grad, torch.tensor([[[-delta] * len(RATIOS) for delta in DELTAS]]))


def test_the_ratio_is_the_exp_of_a_difference_not_a_quotient_of_logs():
    log_probs, old, _ = at_ratios()
    torch.testing.assert_close(probability_ratio(log_probs, old)[0, 0], torch.tensor(RATIOS))


@pytest.mark.parametrize("loss", [unclipped, clipped])
def test_the_old_log_probs_are_frozen(loss):
    """Left in the graph, π/π_old has slope 0 where the two are one; frozen, the slope is −δ."""
    log_probs = torch.tensor([[[-1.0, -2.0]]], requires_grad=True)
    loss(log_probs, log_probs, torch.tensor([[2.0]])).sum().backward()
    torch.testing.assert_close(log_probs.grad, torch.tensor([[[-2.0, -2.0]]]))
    fresh, old, deltas = at_ratios()
    loss(fresh, old, deltas).sum().backward()
    assert old.grad is None


@pytest.mark.parametrize("name", LOSSES)
def test_a_step_down_the_loss_makes_the_better_answer_likelier(name):
    """With a quotient of two negative logs for the ratio, the better answer's logit would go down."""
    logits = torch.tensor([0.3, -0.2, 0.1], requires_grad=True)
    log_probs = logits.log_softmax(-1).view(1, 3, 1)
    deltas = torch.tensor([[1.0, 0.0, -1.0]])
    arguments = (log_probs, deltas) if name == "naive" else (log_probs, log_probs, deltas)
    LOSSES[name](*arguments).sum().backward()
    after = (logits - 0.1 * logits.grad).softmax(-1)
    assert after[0] > logits.softmax(-1)[0]
    assert after[2] < logits.softmax(-1)[2]


@pytest.mark.parametrize("name", LOSSES)
def test_a_delta_belongs_to_one_response_and_covers_all_its_tokens(name):
    """With as many groups as responses and tokens, a delta put on a wrong axis would still have a shape that fits."""
    log_probs = torch.full((3, 3, 3), -1.0)
    deltas = torch.zeros(3, 3)
    deltas[0, 1] = 1.0
    arguments = (log_probs, deltas) if name == "naive" else (log_probs, log_probs, deltas)
    hit = LOSSES[name](*arguments) != 0
    assert hit[0, 1].all()
    assert hit.sum() == 3


MASKS = {
    "full": [[[1, 1, 1], [1, 1, 1]]],
    "ragged": [[[1, 0, 0], [1, 1, 1]], [[1, 1, 0], [1, 0, 0]], [[1, 1, 1], [1, 1, 0]]],
    "with an empty response": [[[0, 0, 0], [1, 1, 1]], [[1, 1, 0], [1, 0, 0]]],
    "one token": [[[0, 1], [0, 0]]],
    "empty": [[[0, 0], [0, 0]]],
}
all_masks = pytest.mark.parametrize("mask", [torch.tensor(mask) == 1 for mask in MASKS.values()], ids=MASKS)


def weight(mask, how, constant, batch, group, token):
    """The weight of one token, from the nested lists of the mask."""
    responses = [response for responses in mask for response in responses]
    if not mask[batch][group][token]:
        return 0.0
    if how == "token":
        return 1 / sum(sum(response) for response in responses)
    divisor = sum(mask[batch][group]) if how == "sequence" else constant or len(mask[batch][group])
    return 1 / (len(responses) * divisor)


@all_masks
@pytest.mark.parametrize(
    "how, constant", [("sequence", None), ("token", None), ("constant", None), ("constant", 7.5), ("constant", 0.5)]
)
def test_token_weights_equal_their_definition(mask, how, constant):
    batch, group, token = (range(size) for size in mask.shape)
    listed = mask.tolist()
    expected = [[[weight(listed, how, constant, b, g, t) for t in token] for g in group] for b in batch]
    found = token_weights(mask, how, constant)
    torch.testing.assert_close(found, torch.tensor(expected))
    assert found.isfinite().all()


@all_masks
def test_token_weights_sum_to_what_they_say(mask):
    """Every response counts the same; every token counts the same; tokens over a constant. Empty ones weigh nothing."""
    rows = [response for responses in mask.tolist() for response in responses]
    tokens, nonempty = sum(map(sum, rows)), sum(map(any, rows))
    assert math.isclose(token_weights(mask, "sequence").sum(), nonempty / len(rows), abs_tol=1e-12)
    assert math.isclose(token_weights(mask, "token").sum(), 1 if tokens else 0, abs_tol=1e-12)
    assert math.isclose(token_weights(mask, "constant").sum(), tokens / (len(rows) * mask.shape[2]), abs_tol=1e-12)
    assert math.isclose(token_weights(mask, "constant", 5).sum(), tokens / (len(rows) * 5), abs_tol=1e-12)


@all_masks
def test_every_nonempty_response_weighs_the_same_by_sequence_and_every_token_by_token(mask):
    by_response = token_weights(mask, "sequence").sum(-1)[mask.any(-1)]
    torch.testing.assert_close(by_response, torch.full_like(by_response, 1 / (mask.shape[0] * mask.shape[1])))
    by_token = token_weights(mask, "token")[mask]
    torch.testing.assert_close(by_token, torch.full_like(by_token, 1 / max(len(by_token), 1)))


def test_sequence_is_the_default():
    mask = torch.tensor(MASKS["ragged"]) == 1
    torch.testing.assert_close(token_weights(mask), token_weights(mask, "sequence"), rtol=0, atol=0)


def test_without_ragged_responses_all_weights_are_those_of_a_mean():
    mask = torch.tensor(MASKS["full"]) == 1
    for how in AGGREGATIONS:
        torch.testing.assert_close(token_weights(mask, how), torch.full((1, 2, 3), 1 / 6))


@pytest.mark.parametrize("how", ["sequence", "token"])
def test_a_mean_of_micro_batch_means_is_not_the_mean_of_the_batch(how):
    """Why weights are set for the whole batch: by token, halves with different token counts get the wrong share."""
    mask = torch.tensor([[[1, 0, 0], [1, 0, 0]], [[1, 1, 1], [1, 1, 0]]]) == 1
    halves = torch.cat([token_weights(mask[:1], how), token_weights(mask[1:], how)]) / 2
    assert torch.allclose(halves, token_weights(mask, how)) == (how == "sequence")


def test_weights_have_the_default_float_type():
    mask = torch.tensor(MASKS["ragged"]) == 1
    assert {token_weights(mask, how).dtype for how in AGGREGATIONS} == {torch.float64}
    torch.set_default_dtype(torch.float32)
    assert {token_weights(mask, how).dtype for how in AGGREGATIONS} == {torch.float32}


def test_an_unknown_aggregation_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"unknown aggregation 'mean'; expected one of sequence, token, constant"):
        token_weights(torch.ones(1, 2, 3, dtype=torch.bool), "mean")


@pytest.mark.parametrize("constant", [0.0, -1.0, math.nan])
def test_a_constant_that_is_not_positive_is_refused(constant):
    with pytest.raises(ValueError, match=r"constant divides the loss and must be positive; got"):
        token_weights(torch.ones(1, 2, 3, dtype=torch.bool), "constant", constant)
