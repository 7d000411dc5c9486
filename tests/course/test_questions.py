"""Every question of every assignment: its right answer passes, each of its wrong ones is named, and by its own name.

With MINIRL_FAST=1, of the mistakes of a question that takes long only the first is tried; and where it trains, no right
answer but the one that runs in its notebook in `solutions/`.
"""

from dataclasses import replace
from importlib import import_module

import pytest
from variants import VARIANTS

from minirl.course.check import ASSIGNMENTS, judge
from minirl.experiments import fast

QUESTIONS = {
    name: each for part in ASSIGNMENTS for name, each in import_module(f"minirl.course.{part}").QUESTIONS.items()
}
TRAINED = {"a2.q7", "a4.q5"}  # many seconds for each answer
LONG = TRAINED | {"a2.q6", "a5.q3"}  # a second
questions = pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
MISTAKES = {
    f"{name}: {mistake.says} {number or ''}": (each, mistake, wrong)
    for name, each in QUESTIONS.items()
    for mistake in (each.mistakes if name not in LONG else each.mistakes[: fast(None, 1)])
    for number, wrong in enumerate(mistake.answers)
}


def unguarded(question):
    """Without what is forbidden: the right answer is minirl's own."""
    return replace(question, forbidden=())


def skip_if_it_trains(name):
    if name in TRAINED and fast(False, True):
        pytest.skip("under MINIRL_FAST=1, its notebook in solutions/ trains, and nothing else")


@questions
def test_the_right_answer_passes(question):
    skip_if_it_trains(question.id)
    assert judge(unguarded(question), question.right).status == "passed"


@questions
def test_a_question_is_whole(question):
    assert question.points > 0 and question.hint and len(question.mistakes) >= 4
    assert len({mistake.says for mistake in question.mistakes}) == len(question.mistakes)


@pytest.mark.parametrize("question, mistake, wrong", MISTAKES.values(), ids=MISTAKES)
def test_a_wrong_answer_is_rejected_by_its_own_name(question, mistake, wrong):
    verdict = judge(unguarded(question), wrong)
    assert (verdict.status, verdict.mistake) == ("wrong", mistake.says)


@pytest.mark.parametrize("name, style", [(name, style) for name, styles in VARIANTS.items() for style in styles])
def test_a_right_answer_in_another_style_passes(name, style):
    skip_if_it_trains(name)
    verdict = judge(QUESTIONS[name], VARIANTS[name][style])
    assert verdict.status == "passed", verdict.message


@questions
def test_an_answer_that_is_minirls_own_is_refused(question):
    """Where minirl has what is asked, whatever it is called here."""
    for own in question.forbidden:
        verdict = judge(question, lambda *inputs, own=own: own(*inputs))
        assert verdict.status != "passed"


def stub(*inputs):
    raise NotImplementedError


@questions
def test_a_stub_is_not_started(question):
    verdict = judge(question, stub if question.cases else None)
    assert verdict.status == "not_started" and question.hint in verdict.message
