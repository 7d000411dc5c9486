"""The sorting task: the lecture's own values, rewards of any size against loops in plain Python, and the split."""

import itertools

import pytest
import torch

from minirl import sorting
from minirl.rollout import Batch
from minirl.sorting import REWARDS, SortingTask, all_prompts, exact_match, inclusion_ordering, position_match

LECTURE = [  # prompt, response, exact, positions, inclusion + ordering
    ([3, 1, 0, 2], [0, 1, 2, 3], 1, 4, 7),
    ([3, 1, 0, 2], [7, 2, 2, 5], 0, 1, 3),
    ([3, 1, 0, 2], [0, 3, 1, 2], 0, 1, 6),
    ([1, 1, 2], [1, 2, 2], 0, 2, 5),  # the loophole: the full 5 for a response that is not sorted(prompt)
    ([1, 1, 2], [1, 1, 2], 1, 3, 5),
]


@pytest.mark.parametrize("prompt, response, exact, positions, included_ordered", LECTURE)
def test_the_lectures_values(prompt, response, exact, positions, included_ordered):
    prompts, responses = torch.tensor([prompt]), torch.tensor([[response]])
    assert exact_match(prompts, responses).tolist() == [[exact]]
    assert position_match(prompts, responses).tolist() == [[positions]]
    assert inclusion_ordering(prompts, responses).tolist() == [[included_ordered]]


def loop_inclusion_ordering(prompt, response):
    points = 0
    for token in prompt:
        if token in response:
            points += 1
    for left, right in itertools.pairwise(response):
        if left <= right:
            points += 1
    return points


LOOPS = {
    "exact_match": lambda prompt, response: int(response == sorted(prompt)),
    "position_match": lambda prompt, response: sum(a == b for a, b in zip(sorted(prompt), response, strict=True)),
    "inclusion_ordering": loop_inclusion_ordering,
}


@pytest.mark.parametrize("name", REWARDS)
@pytest.mark.parametrize("vocab_size, length", [(2, 1), (2, 5), (3, 2), (5, 3), (10, 4), (40, 6)])
def test_rewards_equal_loops_for_any_vocabulary_and_length(name, vocab_size, length):
    """Random responses beside shuffled and sorted ones; small vocabularies have duplicates in almost every prompt."""
    generator = torch.Generator().manual_seed(vocab_size * length)
    prompts = torch.randint(vocab_size, (20, length), generator=generator)
    responses = torch.randint(vocab_size, (20, 5, length), generator=generator)
    responses[:, 0], responses[:, 1], responses[:, 2] = prompts, prompts.sort(-1).values, prompts.flip(-1)
    rewards = REWARDS[name](prompts, responses)
    pairs = zip(prompts.tolist(), responses.tolist(), strict=True)
    assert rewards.tolist() == [[LOOPS[name](prompt, response) for response in group] for prompt, group in pairs]
    assert rewards.dtype == torch.float32


def test_rewards_carry_their_names():
    named = {"exact_match": exact_match, "position_match": position_match, "inclusion_ordering": inclusion_ordering}
    assert named == REWARDS


def test_the_lectures_prompts():
    assert sorting.LECTURE_PROMPTS.tolist() == [[1, 0, 2], [3, 2, 4], [1, 2, 3]]


@pytest.mark.parametrize("vocab_size, length", [(1, 1), (1, 3), (4, 1), (2, 3), (5, 3), (3, 4)])
def test_all_prompts_are_listed_in_order(vocab_size, length):
    expected = [list(prompt) for prompt in itertools.product(range(vocab_size), repeat=length)]
    assert all_prompts(vocab_size, length).tolist() == expected


@pytest.mark.parametrize("vocab_size, length", [(0, 2), (3, 0), (10, 7), (1001, 2), (2, 20)])
def test_too_many_or_no_sequences_are_refused(vocab_size, length):
    message = rf"cannot list all sequences \({vocab_size} tokens, length {length}\): expected 1 to 1,000,000 of them"
    with pytest.raises(ValueError, match=message):
        all_prompts(vocab_size, length)


def test_a_million_sequences_are_still_listed():
    assert all_prompts(10, 6).shape == (1_000_000, 6)


def as_set(prompts):
    return set(map(tuple, prompts.tolist()))


@pytest.mark.parametrize("vocab_size, length, held_out", [(5, 3, 0.2), (3, 2, 0.5), (4, 4, 0.1)])
def test_the_split_is_disjoint_and_covers_every_prompt_once(vocab_size, length, held_out):
    task = SortingTask(vocab_size=vocab_size, length=length, held_out=held_out)
    train, test = task.train_prompts, task.held_out().prompts
    assert len(test) == round(held_out * vocab_size**length)
    assert len(train) + len(test) == vocab_size**length
    assert as_set(train) | as_set(test) == as_set(all_prompts(vocab_size, length))
    assert not as_set(train) & as_set(test)


def test_the_split_depends_on_its_seed_only():
    torch.manual_seed(1)
    first = SortingTask(seed=3)
    torch.manual_seed(2)
    again, other = SortingTask(seed=3), SortingTask(seed=4)
    assert (first.train_prompts == again.train_prompts).all()
    assert as_set(first.test_prompts) != as_set(other.test_prompts)


def test_the_held_out_prompts_are_not_the_first_in_order():
    """A split without shuffling would hold out only prompts that start with 0."""
    assert len({prompt[0] for prompt in SortingTask().test_prompts.tolist()}) == 5


@pytest.mark.parametrize("settings", [{"held_out": 0}, {"prompts": sorting.LECTURE_PROMPTS}])
def test_without_a_split_the_training_prompts_are_judged_as_in_the_lecture(settings):
    task = SortingTask(**settings)
    assert (
        as_set(task.train_prompts)
        == as_set(task.held_out().prompts)
        == as_set(settings.get("prompts", all_prompts(5, 3)))
    )


def test_a_sample_has_different_training_prompts_and_their_sorted_answers():
    task, generator = SortingTask(), torch.Generator().manual_seed(0)
    first, second = task.sample(30, generator), task.sample(30, generator)
    for batch in (first, second):
        assert isinstance(batch, Batch)
        assert len(as_set(batch.prompts)) == 30
        assert as_set(batch.prompts) <= as_set(task.train_prompts)
        assert batch.answers.tolist() == [sorted(prompt) for prompt in batch.prompts.tolist()]
    assert as_set(first.prompts) != as_set(second.prompts)


def test_a_sample_is_the_generators_choice():
    task = SortingTask()
    first, again = (task.sample(20, torch.Generator().manual_seed(5)).prompts for _ in range(2))
    assert (first == again).all()


def test_held_out_answers_are_sorted():
    batch = SortingTask().held_out()
    assert batch.answers.tolist() == [sorted(prompt) for prompt in batch.prompts.tolist()]


@pytest.mark.parametrize("size", [0, -1, 101])
def test_a_batch_larger_than_the_training_set_is_refused(size):
    with pytest.raises(ValueError, match=rf"batch_size must lie between 1 and the 100 training prompts; got {size}"):
        SortingTask().sample(size)


def test_a_batch_may_be_the_whole_training_set():
    task = SortingTask()
    assert as_set(task.sample(100).prompts) == as_set(task.train_prompts)


@pytest.mark.parametrize("share", [-0.1, 1, 1.5])
def test_a_share_outside_0_to_1_is_refused(share):
    with pytest.raises(ValueError, match=rf"held_out is a share of all prompts and must lie in \[0, 1\); got {share}"):
        SortingTask(held_out=share)


@pytest.mark.parametrize("reward", REWARDS.values(), ids=REWARDS)
def test_the_task_pays_by_its_reward_and_judges_by_exact_match(reward):
    task = SortingTask(reward=reward)
    batch = task.held_out()
    responses = torch.stack([batch.prompts, batch.answers], 1)
    mask = torch.ones_like(responses, dtype=torch.bool)
    assert (task.rewards(batch, responses, mask) == reward(batch.prompts, responses)).all()
    assert (task.correct(batch, responses, mask) == exact_match(batch.prompts, responses)).all()
    assert task.correct(batch, responses, mask)[:, 1].all()


@pytest.mark.parametrize("share, held_out", [(0.001, 1), (0.999, 124), (0.2, 25)])
def test_a_share_leaves_something_on_both_sides(share, held_out):
    task = sorting.SortingTask(held_out=share)
    assert (len(task.test_prompts), len(task.train_prompts)) == (held_out, 125 - held_out)
