"""The grader's own inputs: a right answer passes them in every style, and a mistake keeps its name on them.

With MINIRL_FAST=1 every fifth mistake is tried; without it, all of them.
"""

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from matplotlib import rc_context
from test_questions import MISTAKES, TRAINED
from variants import VARIANTS

from minirl.course import check as checks
from minirl.course.rebuild import template
from minirl.experiments import fast

ROOT = Path(__file__).parents[2]
# What is said of a trained answer is tested in test_look.py and test_improving.py.
STYLES = [(name, style) for name, styles in VARIANTS.items() if name not in TRAINED for style in styles]
WRONG = {name: each for name, each in MISTAKES.items() if each[0].id not in TRAINED}
WRONG = dict(list(WRONG.items())[:: fast(1, 5)])


@cache
def parts(assignment: str) -> dict:
    return {part.question: part for part in template(assignment, ROOT).parts}


@cache
def set_up(assignment: str) -> dict:
    """What the assignment's first cells define."""
    found: dict = {}
    with rc_context():  # its style is for the notebook's pictures
        for source in template(assignment, ROOT).setup:
            exec(source, found)
    return found


def look(question: str, answer) -> None:
    """Run a question's hidden tests alone."""
    assignment = question.split(".")[0]
    part = parts(assignment)[question]
    (name,) = part.checked
    exec(part.hidden, {**set_up(assignment), name: answer})


@pytest.mark.parametrize("name, style", STYLES)
def test_a_right_answer_passes_the_hidden_inputs_too(name, style):
    look(name, VARIANTS[name][style])


@pytest.mark.parametrize("question, mistake, wrong", WRONG.values(), ids=WRONG)
def test_a_mistake_has_the_same_name_on_the_hidden_inputs(question, mistake, wrong, monkeypatch):
    monkeypatch.setattr(checks, "find", lambda name: replace(question, forbidden=()))
    with pytest.raises(checks.Wrong) as found:
        look(question.id, wrong)
    assert found.value.mistake == mistake.says
