"""What a check says of an answer that no catalogue lists, and that nothing of ours is shown."""

import contextlib
import importlib
import io
import re
import sys
from dataclasses import replace

import pytest
import torch

from minirl import deltas
from minirl.course import a2, a4
from minirl.course.check import CodeStopped, NotStarted, Wrong, check, find, hidden, judge

CENTRED = a2.QUESTIONS["a2.q1a"]


def unknown(question):
    """A question as it is for a mistake that nobody has foreseen."""
    return replace(question, mistakes=(), forbidden=())


strict = a4.QUESTIONS["a4.q3a"].right


def centred(rewards):
    return rewards - rewards.mean(-1, keepdim=True)


def test_a_right_answer_is_told_its_points(capsys):
    check("a2.q1a", centred)
    assert capsys.readouterr().out == "✔ a2.q1a centred deltas: passed (2 points). Grading uses other inputs too.\n"


def test_a_stub_is_not_started_and_gets_the_hint():
    def stub(rewards):
        # YOUR CODE HERE
        raise NotImplementedError()

    with pytest.raises(NotStarted, match=r"not started yet\. Subtract from each reward"):
        check("a2.q1a", stub)


def test_an_error_shows_the_students_own_line():
    def broken(rewards):
        return rewards - undefined

    with pytest.raises(CodeStopped, match=r"NameError: name 'undefined' is not defined \(line \d+: return rewards"):
        check("a2.q1a", broken)


FOR_A_TEXT = {
    "a text for None": (
        lambda text: "7" if "$" in text else strict(text),
        r"for '#### \$18.00' the result should be None, got '7'",
    ),
    "None for a text": (
        lambda text: None if "-7" in text else strict(text),
        r"for '#### -7' your function returns nothing, not '-7'",
    ),
    "another text": (
        lambda text: strict(text) and "7",
        "for '9 \\* 2 = 18. #### 18' the result should be '18', got '7'",
    ),
}


@pytest.mark.parametrize("answer, words", FOR_A_TEXT.values(), ids=FOR_A_TEXT)
def test_of_a_text_the_input_and_both_results_are_said(answer, words):
    assert re.search(words, judge(unknown(a4.QUESTIONS["a4.q3a"]), answer).message)


def test_a_name_that_is_missing_or_too_much_is_said():
    """Of a part of the result that is no number; "missing" is a word for gradients."""
    question = unknown(a4.QUESTIONS["a4.q6a"])

    def answer(one, other):
        mean, half, winner = question.right(one, other)
        return mean, half, {"first": None, None: "first"}.get(winner, winner)

    assert "part 3 of the result should be 'first', got None." in judge(question, answer).message
    two = replace(question, cases=lambda: question.cases()[1:])
    assert "part 3 of the result should be None, got 'first'." in judge(two, answer).message


SAID = {
    "nothing returned": (lambda rewards: None, "returns nothing; is there a return?"),
    "two things": (lambda rewards: (rewards, rewards), "expected a tensor, got 2 things"),
    "another shape": (lambda rewards: centred(rewards).flatten(), r"shape \(2, 4\), got \(8,\)"),
    "the shown sizes only": (
        lambda rewards: rewards - (rewards.sum(-1) / 4)[:, None],
        r"right for the first input, then not: .* wrong at index \[0, 0\]: expected 2.16667, got 2.375",
    ),
    "the shown answer": (
        lambda rewards: centred(CENTRED.cases()[0][0]),
        r"for the first input, then not: .*shape",
    ),
    "float32 inside": (lambda rewards: centred(rewards.float()).to(rewards), "too coarse: float64 went in"),
    "nan": (lambda rewards: centred(rewards) / 0 * 0, "has nan in it, first at index"),
    "a text": (lambda rewards: "3.5", "should be a tensor, got str"),
    "something else": (lambda rewards: centred(rewards) + 1, r"wrong at index \[0, 0\]: expected 0.5, got 1.5\."),
    "a factor": (lambda rewards: 3 * centred(rewards), "expected 0.5, got 1.5; all of it is 3 times what it should be"),
    "one thing in a list": (lambda rewards: [centred(rewards)], "expected a tensor, got it inside a tuple or list"),
}


def test_whole_numbers_and_truth_values_are_no_floats():
    """Their values are right, but a reward of that type has no mean."""
    reward = find("a1.q6a")

    def agree(prompts, responses):
        return (responses == prompts.sort(-1).values[:, None]).all(-1)

    assert judge(reward, lambda *inputs: agree(*inputs).double()).status == "passed"
    assert "right values, but as bool; floats" in judge(reward, agree).message
    assert "right values, but as int64; floats" in judge(reward, lambda *inputs: agree(*inputs).long()).message


@pytest.mark.parametrize("answer, expected", SAID.values(), ids=SAID)
def test_what_is_not_a_known_mistake_is_described(answer, expected):
    with pytest.raises(Wrong, match=expected):
        check("a2.q1a", answer)


def test_what_is_passed_must_be_a_function():
    with pytest.raises(CodeStopped, match="expected a function, got Tensor: pass it without calling it"):
        check("a2.q1a", centred(torch.ones(2, 2)))


def taken_from(name):
    return getattr(importlib.import_module("minirl.deltas"), name)


def swallowed(rewards):
    with contextlib.suppress(Exception):
        deltas.centered(rewards)
    return deltas.centered(rewards)


CHEATS = {
    "by name": lambda rewards: deltas.centered(rewards),
    "by an alias": (lambda own: lambda rewards: own(rewards))(deltas.centered),
    "the function itself": deltas.centered,
    "by importlib and getattr": lambda rewards: taken_from("centered")(rewards),
    "from a table": lambda rewards: deltas.DELTAS["centered"](rewards),
    "through another": lambda rewards: deltas.leave_one_out(rewards) * (rewards.shape[-1] - 1) / rewards.shape[-1],
    "with errors swallowed": swallowed,
}


@pytest.mark.parametrize("answer", CHEATS.values(), ids=CHEATS)
def test_minirls_own_function_is_recognised_under_any_name(answer):
    with pytest.raises(Wrong, match=r"your code calls minirl's own .*; here you write it yourself"):
        check("a2.q1a", answer)


def test_what_an_answer_prints_or_changes_later_does_not_matter(capsys):
    def chatty(rewards):
        print("passed!", rewards)
        return centred(rewards)

    check("a2.q1a", chatty)
    assert "✔" in capsys.readouterr().out


def test_inputs_are_made_anew_so_that_no_answer_spoils_them():
    def spoils(rewards):
        rewards.zero_()
        return rewards

    for _ in range(2):
        with pytest.raises(Wrong):
            check("a2.q1a", spoils)
    check("a2.q1a", centred)


def test_a_hidden_check_shows_nothing_of_its_inputs():
    secret = torch.tensor([[123.0, 456.0, 0.0]])
    hidden("a2.q1a", centred, cases=[(secret,)])
    with pytest.raises(Wrong) as wrong:
        hidden("a2.q1a", lambda rewards: rewards * 0, cases=[(secret,)])
    assert "not for the grader's" in str(wrong.value) and "123" not in str(wrong.value)
    with pytest.raises(Wrong, match="the sign is turned round"):
        hidden("a2.q1a", lambda rewards: -centred(rewards), cases=[(secret,), (torch.rand(3, 4),)])


def test_ipython_shows_the_sentence_and_no_traceback():
    def stub(log_probs, deltas):
        raise NotImplementedError

    with pytest.raises(NotStarted) as untouched:
        check("a1.q2a", stub)
    shown = untouched.value._render_traceback_()
    assert " ".join(shown) == str(untouched.value) and "\n" not in str(untouched.value)
    assert len(shown) == 2 and max(map(len, shown)) < 100 < len(str(untouched.value))


@pytest.mark.parametrize("name", ["a2.q99", "a9.q1", "centred", ""])
def test_an_unknown_check_gets_the_known_ones(name):
    with pytest.raises(ValueError, match=r"there is no check .*; (expected a name like|a2 has a2.q1a)"):
        check(name, centred)


def test_the_gradient_counts_where_the_question_says_so():
    """Right values and a graph through the old policy: known. Right values and no graph at all: described."""
    ratio = a2.QUESTIONS["a2.q2"]
    assert "left in the graph" in judge(ratio, lambda now, old: (now - old).exp()).mistake
    assert judge(ratio, lambda now, old: (now - old.detach()).exp()).status == "passed"


def test_neither_gradients_turned_off_nor_a_closed_output_cost_a_point(monkeypatch):
    ratio = a2.QUESTIONS["a2.q2"]
    with torch.no_grad():
        assert judge(ratio, lambda now, old: (now - old.detach()).exp()).status == "passed"
        assert judge(ratio, lambda now, old: (now - old).detach().exp()).status == "wrong"
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stdout", closed)
    check("a2.q1a", centred)
