"""Answers that were written from the notebooks alone, before their checks were read: right ones, and wrong ones.

`blind_a1.py` and its like have them by question: RIGHT {name: [answer]}, WRONG {name: [(answer, what is wrong with it,
words that the check says of it)]}, with None for words where the general message, or an error, is all that is said.
With MINIRL_FAST=1 a third of the wrong ones are tried.
"""

import contextlib
import io
import re
from functools import cache
from importlib import import_module, util
from pathlib import Path

import nbformat
import pytest
from matplotlib import rc_context

from minirl.course.check import NotPassed
from minirl.experiments import fast

SOURCES = Path(__file__).parents[2] / "solutions"
BLIND = {name: import_module(f"blind_{name}") for name in ("a1", "a2", "a3", "a4") if util.find_spec(f"blind_{name}")}
TRAINED = {"a2.q7", "a4.q5"}  # a minute for each answer, so only where all is run in full


def by_question(kind):
    """Each answer of that kind with its question, those that train left out where time is short."""
    names = [(each, name) for each in BLIND.values() for name in getattr(each, kind)]
    return [
        pytest.param(name, answer, id=f"{name}-{number}")
        for each, name in names
        if name not in TRAINED or fast(True, False)
        for number, answer in enumerate(getattr(each, kind)[name])
    ]


@cache
def graded(assignment):
    """The graded cells of a source by the question that they check, and the names that its first cell makes."""
    cells = nbformat.read(SOURCES / assignment / f"{assignment}.ipynb", as_version=4).cells
    names = {}
    with rc_context():  # its style is for the notebook's pictures
        exec(next(cell.source for cell in cells if cell.cell_type == "code"), names)
    checks = [(re.match(r'check\("([\w.]+)", (\w+)\)', cell.source), cell.source) for cell in cells]
    return {match[1]: (match[2], source) for match, source in checks if match}, names


def told(name, answer):
    """What the graded cell says, hidden tests included: nothing of an answer that passes."""
    cells, names = graded(name.split(".")[0])
    function, source = cells[name]
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(source, {**names, function: answer})
    except NotPassed as failure:
        return str(failure)
    return ""


@pytest.mark.parametrize("name, answer", by_question("RIGHT"))
def test_a_right_answer_passes(name, answer):
    assert told(name, answer) == ""


@pytest.mark.parametrize("name, wrong", by_question("WRONG")[:: fast(1, 3)])
def test_a_wrong_answer_is_rejected_with_the_words_for_it(name, wrong):
    answer, _, words = wrong
    said = told(name, answer)
    assert said and (words or "") in said


@pytest.mark.parametrize("assignment", BLIND)
def test_most_wrong_answers_have_words_for_them(assignment):
    words = [wrong[2] for each in BLIND[assignment].WRONG.values() for wrong in each]
    assert sum(map(bool, words)) >= 0.8 * len(words)
