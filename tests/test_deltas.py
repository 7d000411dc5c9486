"""Deltas against their formulas in plain Python, and what must hold for any rewards. Their bias: test_gradients."""

import statistics

import pytest
import torch

from minirl.deltas import DELTAS, centered, leave_one_out, max_only, normalized, raw

COMPARING = [centered, leave_one_out, normalized]
all_deltas = pytest.mark.parametrize("delta", DELTAS.values(), ids=DELTAS)
comparing = pytest.mark.parametrize("delta", COMPARING)
seeds = pytest.mark.parametrize("seed", range(3))

FORMULAS = {
    "raw": lambda group: group,
    "max_only": lambda group: [reward if reward == max(group) else 0.0 for reward in group],
    "centered": lambda group: [reward - statistics.mean(group) for reward in group],
    "leave_one_out": lambda group: [
        reward - statistics.mean(group[:i] + group[i + 1 :]) for i, reward in enumerate(group)
    ],
    "normalized": lambda group: [
        (reward - statistics.mean(group)) / (statistics.stdev(group) + 1e-6) for reward in group
    ],
}


def random_rewards(seed, batch=5, group=4):
    """Half-integers, so that ties within a group are frequent."""
    return torch.randint(-3, 4, (batch, group), generator=torch.Generator().manual_seed(seed)) / 2


def test_the_dictionary_names_every_delta():
    assert {
        "raw": raw,
        "max_only": max_only,
        "centered": centered,
        "leave_one_out": leave_one_out,
        "normalized": normalized,
    } == DELTAS


@seeds
@pytest.mark.parametrize("name", DELTAS)
@pytest.mark.parametrize("shape", [(5, 4), (1, 2), (3, 7)])
def test_each_delta_equals_its_formula_in_plain_python(name, seed, shape, float64):
    rewards = random_rewards(seed, *shape).double()
    expected = torch.tensor([FORMULAS[name](group) for group in rewards.tolist()])
    torch.testing.assert_close(DELTAS[name](rewards), expected)


def test_a_group_that_fits_in_the_head():
    rewards = torch.tensor([[3.0, 1.0, 2.0]])  # mean 2, unbiased standard deviation 1, means of the others 1.5, 2.5, 2
    torch.testing.assert_close(max_only(rewards), torch.tensor([[3.0, 0.0, 0.0]]))
    torch.testing.assert_close(centered(rewards), torch.tensor([[1.0, -1.0, 0.0]]))
    torch.testing.assert_close(leave_one_out(rewards), torch.tensor([[1.5, -1.5, 0.0]]))
    torch.testing.assert_close(normalized(rewards, eps=0.0), torch.tensor([[1.0, -1.0, 0.0]]))
    torch.testing.assert_close(normalized(rewards, eps=1.0), torch.tensor([[0.5, -0.5, 0.0]]))


@comparing
@pytest.mark.parametrize("value", [0.1, 0.7, 1 / 3, 1e6 + 0.1, -0.3])
@pytest.mark.parametrize("size", [2, 3, 7, 10, 16])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_tied_group_gives_exactly_zero(delta, value, size, dtype):
    """0.1 is not exact in binary: a mean of ten of them is off by dust, which ÷ (std + ε) would blow up."""
    assert (delta(torch.full((2, size), value, dtype=dtype)) == 0).all()


def test_without_a_comparison_a_tied_group_keeps_its_rewards():
    rewards = torch.full((2, 3), 0.7)
    assert (raw(rewards) == rewards).all()
    assert (max_only(rewards) == rewards).all()


def test_the_best_of_an_all_negative_group_is_pushed_down_by_max_only():
    assert max_only(torch.tensor([[-2.0, -1.0]])).tolist() == [[0.0, -1.0]]


@comparing
def test_a_group_of_one_is_refused_with_a_sentence(delta):
    with pytest.raises(ValueError, match=r"compares the responses to a prompt; got 1, expected group_size ≥ 2"):
        delta(torch.ones(3, 1))


@pytest.mark.parametrize("delta", [raw, max_only])
def test_a_group_of_one_is_fine_where_nothing_is_compared(delta):
    assert delta(torch.tensor([[0.5], [2.0]])).tolist() == [[0.5], [2.0]]


@comparing
@seeds
@pytest.mark.parametrize("scale, shift", [(1.0, 10.0), (3.0, 0.0), (0.01, -5.0), (-2.0, 1.0)])
def test_a_shift_of_rewards_changes_nothing_and_a_scale_only_where_it_should(delta, seed, scale, shift, float64):
    """Centred and leave-one-out are linear in the scale; normalised sees only its sign, up to ε."""
    rewards = random_rewards(seed).double()
    rewards[0] = torch.tensor([0.0, 0.0, 1.0, 0.0])
    moved = delta(scale * rewards + shift)
    if delta is normalized:
        torch.testing.assert_close(moved, (1 if scale > 0 else -1) * delta(rewards), rtol=1e-3, atol=1e-12)
    else:
        torch.testing.assert_close(moved, scale * delta(rewards))


@all_deltas
@seeds
def test_the_order_within_a_group_does_not_matter(delta, seed, float64):
    rewards = random_rewards(seed).double()
    order = torch.randperm(4, generator=torch.Generator().manual_seed(seed))
    torch.testing.assert_close(delta(rewards[:, order]), delta(rewards)[:, order])


@all_deltas
@seeds
def test_a_group_knows_nothing_of_the_others(delta, seed, float64):
    """Not even of a group for the same prompt: the group is an axis, and rows are never merged."""
    rewards = random_rewards(seed).double()
    together = delta(torch.cat([rewards, rewards + 5, rewards[:2]]))
    torch.testing.assert_close(together[:5], delta(rewards))
    torch.testing.assert_close(together[-2:], delta(rewards[:2]))


@comparing
@seeds
def test_the_deltas_of_a_group_sum_to_zero(delta, seed, float64):
    torch.testing.assert_close(delta(random_rewards(seed).double()).sum(-1), torch.zeros(5))


@seeds
@pytest.mark.parametrize("group", [2, 3, 8])
def test_leave_one_out_is_centered_times_g_over_g_minus_1(seed, group, float64):
    rewards = random_rewards(seed, group=group).double()
    torch.testing.assert_close(leave_one_out(rewards), group / (group - 1) * centered(rewards))


@seeds
def test_normalized_has_unit_unbiased_standard_deviation(seed, float64):
    rewards = torch.randn(5, 6, generator=torch.Generator().manual_seed(seed))
    deviations = [statistics.stdev(group) for group in normalized(rewards, eps=0.0).tolist()]
    torch.testing.assert_close(torch.tensor(deviations), torch.ones(5))


@all_deltas
def test_the_rewards_are_left_as_they_were(delta):
    rewards = random_rewards(0)
    before = rewards.clone()
    delta(rewards)
    assert (rewards == before).all()
