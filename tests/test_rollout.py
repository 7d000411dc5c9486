"""Masks, and what `collect` puts into a rollout."""

from time import perf_counter

import oracle
import pytest
import torch
from torch import tensor

from minirl.policy import SortingPolicy
from minirl.rollout import Batch, Rollout, collect, response_mask
from minirl.sorting import SortingTask

END = 9
MASKS = [  # tokens, and 1 up to and including the first end token
    ([5, 6, 7], [1, 1, 1]),
    ([5, 6, END], [1, 1, 1]),
    ([5, END, 6], [1, 1, 0]),
    ([5, END, END], [1, 1, 0]),
    ([END, 5, 6], [1, 0, 0]),
    ([END, END, END], [1, 0, 0]),
    ([END, 5, END], [1, 0, 0]),
]


@pytest.mark.parametrize("tokens, expected", MASKS)
def test_the_mask_includes_the_first_end_token_and_nothing_after_it(tokens, expected):
    assert response_mask(tensor(tokens), END).tolist() == [bool(inside) for inside in expected]


def test_masks_come_in_any_shape():
    tokens, expected = tensor([row for row, _ in MASKS]), tensor([row for _, row in MASKS]) == 1
    assert (response_mask(tokens, END) == expected).all()
    assert (response_mask(tokens[None, None], END) == expected).all()


def test_without_an_end_token_every_position_counts():
    assert response_mask(tensor([[0, END, 0]]), None).all()


def test_an_end_token_of_zero_is_one_like_any_other():
    assert response_mask(tensor([1, 0, 1]), 0).tolist() == [True, True, False]


class LengthTask:
    """Pays 10·prompt + the number of tokens: it shows which prompt, response and mask arrived where."""

    def rewards(self, batch, responses, mask):
        return 10.0 * batch.prompts.sum(-1)[:, None] + mask.sum(-1)


@pytest.fixture
def batch():
    return Batch(tensor([[0, 1], [2, 2], [3, 0], [1, 1]]), ["a", "b", "c", "d"])


def test_collect_keeps_what_was_true_at_sampling(batch):
    policy, reference = oracle.toy_policy(0), oracle.toy_policy(1)
    rollout = collect(policy, LengthTask(), batch, 5, generator=torch.Generator().manual_seed(0), reference=reference)
    responses, mask = policy.sample(batch.prompts, 5, torch.Generator().manual_seed(0))
    assert (rollout.prompts == batch.prompts).all()
    assert (rollout.responses == responses).all()
    assert (rollout.mask == mask).all()
    assert (rollout.rewards == LengthTask().rewards(batch, responses, mask)).all()
    assert (rollout.old_log_probs == policy.log_probs(batch.prompts, responses, mask)).all()
    assert (rollout.ref_log_probs == reference.log_probs(batch.prompts, responses, mask)).all()
    assert (rollout.old_log_probs != rollout.ref_log_probs).any()


def test_a_rollout_has_the_shapes_batch_group_token_and_no_graph(batch):
    rollout = collect(oracle.toy_policy(), LengthTask(), batch, 5, reference=oracle.toy_policy(1))
    assert rollout.prompts.shape == (4, 2)
    assert rollout.rewards.shape == (4, 5)
    per_token = rollout.responses, rollout.mask, rollout.old_log_probs, rollout.ref_log_probs
    assert {tuple(tensor.shape) for tensor in per_token} == {(4, 5, 3)}
    assert not any(value.requires_grad for value in vars(rollout).values() if isinstance(value, torch.Tensor))


def test_the_old_log_probs_do_not_follow_the_policy(batch):
    policy = oracle.toy_policy()
    rollout = collect(policy, LengthTask(), batch, 5)
    before = rollout.old_log_probs.clone()
    with torch.no_grad():
        policy.step.add_(1.0)
        policy.last.mul_(2.0)
    assert (rollout.old_log_probs == before).all()
    assert (policy.log_probs(rollout.prompts, rollout.responses, rollout.mask) != before).any()


def test_without_a_reference_there_are_no_reference_log_probs(batch):
    assert collect(oracle.toy_policy(), LengthTask(), batch, 2).ref_log_probs is None


def test_sampling_and_scoring_are_timed(batch):
    start = perf_counter()
    rollout = collect(oracle.toy_policy(), LengthTask(), batch, 2)
    assert rollout.seconds_sampling > 0
    assert rollout.seconds_scoring > 0
    assert rollout.seconds_sampling + rollout.seconds_scoring <= perf_counter() - start


@pytest.mark.parametrize("size", [0, -2])
def test_an_empty_group_is_refused(batch, size):
    message = rf"group_size counts the responses to each prompt and must be at least 1; got {size}"
    with pytest.raises(ValueError, match=message):
        collect(oracle.toy_policy(), LengthTask(), batch, size)


def test_a_group_of_one_can_be_collected(batch):
    assert collect(oracle.toy_policy(), LengthTask(), batch, 1).rewards.shape == (4, 1)


@pytest.mark.parametrize("reference", [None, 1])
def test_rows_of_a_rollout_are_those_of_each_of_its_tensors(batch, reference):
    reference = reference and oracle.toy_policy(reference)
    rollout = collect(oracle.toy_policy(), LengthTask(), batch, 3, reference=reference)
    part = rollout.rows(tensor([2, 0]))
    for name, value in vars(rollout).items():
        if isinstance(value, torch.Tensor):
            assert (getattr(part, name) == torch.stack([value[2], value[0]])).all()
        else:
            assert getattr(part, name) == value


def test_the_same_prompt_twice_makes_two_groups():
    """The group is an axis: responses are never brought together by the text of their prompt."""
    task = SortingTask()
    batch = Batch(tensor([[1, 0, 2], [1, 0, 2]]), tensor([[0, 1, 2], [0, 1, 2]]))
    rollout = collect(oracle.sorting_policy(vocab_size=5, length=3), task, batch, 8)
    assert rollout.rewards.shape == (2, 8)
    assert (rollout.responses[0] != rollout.responses[1]).any()


def test_a_rollout_cannot_be_changed(batch):
    rollout = collect(oracle.toy_policy(), LengthTask(), batch, 2)
    with pytest.raises(AttributeError):
        rollout.rewards = torch.zeros(4, 2)
    with pytest.raises(AttributeError):
        batch.prompts = rollout.prompts


def test_shapes_are_checked_in_these_tests():
    """The type checker of conftest is at work: rewards of a wrong shape don't make a rollout."""
    tokens = torch.zeros(2, 3, 4, dtype=torch.long)
    arguments = [torch.zeros(2, 5, dtype=torch.long), tokens, tokens == 0]
    Rollout(*arguments, torch.zeros(2, 3), torch.zeros(2, 3, 4))
    with pytest.raises(TypeError, match="rewards"):
        Rollout(*arguments, torch.zeros(2, 4), torch.zeros(2, 3, 4))


def test_whole_number_rewards_become_floats():
    class Counting(SortingTask):
        def rewards(self, batch, responses, mask):
            return super().rewards(batch, responses, mask).long()

    task = Counting()
    rollout = collect(SortingPolicy(seed=0), task, Batch(tensor([[1, 0, 2]]), tensor([[0, 1, 2]])), 4)
    assert rollout.rewards.is_floating_point()
