"""The students' notebooks of the course, with right answers, known mistakes, and questions that are left open."""

from collections.abc import Collection
from pathlib import Path

import nbformat

from minirl.course.answers import needs
from minirl.course.assign import SOLUTION
from minirl.course.check import find, judge
from minirl.course.questions import Mistake
from minirl.course.rebuild import Part, template

ROOT = Path(__file__).parents[2]
NAMES = sorted(path.stem for path in ROOT.glob("solutions/*/*.ipynb"))


def read(kind: str, name: str):
    return nbformat.read(ROOT / kind / name / f"{name}.ipynb", as_version=4)


def alone(name: str) -> list[Part]:
    """Questions that no other builds upon: a wrong answer costs its own points, and no others."""
    parts = template(name, ROOT).parts
    uses = {part: needs(f"{part.solution}\n{part.check}\n{part.hidden}") for part in parts}
    used = {part: set().union(*(names for other, names in uses.items() if other is not part)) for part in parts}
    return [part for part in parts if part.names == part.checked and not used[part] & set(part.names)]


def mistake(part: Part) -> Mistake | None:
    """The first known mistake that is named as such, if there is one; some are made with what is forbidden."""
    question = find(part.question)
    return next((each for each in question.mistakes if judge(question, each.wrong).mistake == each.says), None)


def filled(name: str, wrong: Collection[Part] = (), untouched: Collection[Part] = ()):
    """An assignment with the right answers, except for those that make a known mistake, or are not there."""
    notebook = read("assignments", name)
    answers = {
        cell.id: SOLUTION.sub(lambda match: match["inside"].rstrip(), cell.source)
        for cell in read("solutions", name).cells
    }
    for part in wrong:
        number = find(part.question).mistakes.index(mistake(part))
        made = f'find("{part.question}").mistakes[{number}].wrong'
        answers[part.answer_id] += f"\n\nfrom minirl.course.check import find\n{part.names[0]} = {made}"
    left = {part.answer_id for part in untouched}
    for cell in notebook.cells:
        if cell.metadata.get("nbgrader", {}).get("solution") and cell.id not in left:
            cell.source = answers[cell.id]
    return notebook
