"""Answers that are looked at and not compared, what hidden tests say of them, and parts that wait for an answer."""

import pytest
import torch

from minirl.course import a1, a2
from minirl.course.check import NotPassed, check, find, hidden, judge, passed
from minirl.course.observe import close


def honest(prompt, vocab_size):
    return prompt.sort().values


def unguarded_loophole(prompt, vocab_size):
    """The right answer, in other code than the one that is refused."""
    spare, truth = len(prompt) - len(prompt.unique()), prompt.sort().values
    for extra in range(vocab_size if spare else 0):
        response = torch.cat([prompt.unique(), torch.full((spare,), extra)]).sort().values
        if not torch.equal(response, truth):
            return response
    return None


def wider():
    return a1.every_prompt([(7, 2)])


def test_a_mistake_is_named_with_what_it_did():
    verdict = judge(find("a1.q7"), honest)
    assert verdict.mistake == a1.HONEST and "For [1, 1, 2], tokens below 5, you return [1, 1, 2]." in verdict.message


def test_a_hidden_look_says_the_mistake_and_shows_no_input():
    with pytest.raises(NotPassed) as failure:
        hidden("a1.q7", honest, look=lambda answer: a1.hunted(answer, wider))
    assert failure.value.mistake == a1.HONEST
    assert a1.HONEST in str(failure.value) and "[" not in str(failure.value)


def test_a_hidden_look_replaces_that_of_the_notebook():
    other = unguarded_loophole
    hidden("a1.q7", lambda prompt, size: other(prompt, size), look=lambda answer: a1.hunted(answer, wider))
    with pytest.raises(NotPassed):
        hidden(
            "a1.q7",
            lambda prompt, size: other(prompt, size) if size <= 5 else None,
            look=lambda answer: a1.hunted(answer, lambda: a1.every_prompt([(7, 2)])),
        )


def test_a_hidden_fault_without_a_name_says_where_it_lies():
    with pytest.raises(NotPassed, match="not for the grader's") as failure:
        hidden("a1.q7", unguarded_loophole, look=lambda answer: "something with 1 2 3")
    assert "1 2 3" not in str(failure.value)


@pytest.mark.parametrize(
    "response, sentence",
    [
        ("none", a1.NO_TENSOR),
        ([1, 1], a1.LENGTH),
        ([1, 2, 5], a1.OUTSIDE),
        ([-1, 1, 2], a1.OUTSIDE),
        ([2, 1, 2], a1.DISORDER),
        ([1, 1, 1], a1.MISSING),
        ([1, 1, 2], a1.HONEST),
        ([1, 2, 3], None),
        (torch.tensor([0, 1, 2]), None),
        (None, a1.GAVE_UP),
    ],
)
def test_a_response_to_1_1_2_is_judged_by_its_first_fault(response, sentence):
    assert a1.not_a_loophole(torch.tensor([1, 1, 2]), response, 5) == sentence


def test_where_nothing_can_be_found_none_is_right():
    assert a1.not_a_loophole(torch.tensor([0, 0]), None, 1) is None
    assert a1.not_a_loophole(torch.tensor([3, 1]), None, 5) is None
    assert a1.not_a_loophole(torch.tensor([0, 0]), None, 2) == a1.ALL_SAME


def test_a_part_waits_until_its_answer_is_right(capsys):
    def stub(chances, group_size):
        raise NotImplementedError

    assert not passed("a1.q3b", stub)
    assert capsys.readouterr().out == "This part waits for a1.q3b, the chance of silence.\n"
    assert passed("a1.q3b", lambda p, g: p**g + (1 - p) ** g)
    assert capsys.readouterr().out == ""


def test_pythons_own_floats_are_compared_in_full():
    third = torch.tensor(1 / 3, dtype=torch.float64)
    assert close(third, 1 / 3, 1e-6) and not close(third, 1 / 3 + 1e-8, 1e-6)
    check("a1.q3a", lambda rewards: sum(not any(group) for group in rewards.tolist()) / len(rewards))


def own_step(policy, rollout, optimizer):
    pushes, weights = a2.settled(rollout)
    now = policy.log_probs(rollout.prompts, rollout.responses, rollout.mask)
    loss = (a2.clipped_with(now, rollout, pushes) * weights).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def test_a_look_needs_no_answer_that_refuses_to_run(capsys):
    check("a2.q6", own_step)
    assert "passed" in capsys.readouterr().out
