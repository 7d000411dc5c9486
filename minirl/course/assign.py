"""From one source to an assignment: `solutions/NAME/NAME.ipynb` without its solutions, hidden tests and outputs.

The source is nbgrader's format (metadata v3, its region markers), so that its own tools work on it too. Written again,
an assignment is the same to the byte. Refused are: a solution or hidden test that would survive, a check that does not
know its right answer or accepts a wrong one.
"""

import copy
import json
import re
from dataclasses import replace
from pathlib import Path

from minirl.course.check import find, judge
from minirl.course.formats import nbformat
from minirl.course.questions import Question

STUB = "# YOUR CODE HERE\nraise NotImplementedError()"
SOLUTION = re.compile(
    r"^(?P<indent>[ \t]*)### BEGIN SOLUTION\n(?P<inside>.*?)^[ \t]*### END SOLUTION[ \t]*$", re.M | re.S
)
HIDDEN = re.compile(r"^[ \t]*### BEGIN HIDDEN TESTS\n(?P<inside>.*?)^[ \t]*### END HIDDEN TESTS[ \t]*\n?", re.M | re.S)
KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
MARKER = re.compile(r"#+\s*(BEGIN|END)\s+(SOLUTION|HIDDEN).*", re.I)
CHECK = re.compile(r"""^check\(["'](?P<name>[\w.]+)["']""", re.M)


def source_path(name: str, root: Path) -> Path:
    """Where an assignment's source lies; FileNotFoundError with the ones that are there."""
    path = root / "solutions" / name / f"{name}.ipynb"
    if not path.is_file():
        known = ", ".join(sorted(each.parent.name for each in root.glob("solutions/*/*.ipynb"))) or "none"
        raise FileNotFoundError(f"there is no source {path}; expected one of: {known}")
    return path


def assign(name: str, root: Path) -> Path:
    """Write `assignments/NAME/NAME.ipynb` anew, and return its path."""
    source = nbformat.read(source_path(name, root), as_version=4)
    refuse_unsound_checks(source)
    target = root / "assignments" / name / f"{name}.ipynb"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text(without_answers(source)), "utf-8")
    return target


def text(notebook) -> str:
    """As it is written to disk, always the same way."""
    return nbformat.writes(notebook, version=4) + "\n"


def without_answers(source):
    """A copy for students: stubs for solutions, no hidden tests, no outputs; ValueError if one of those survives."""
    notebook = copy.deepcopy(source)
    notebook.metadata = nbformat.from_dict({"kernelspec": KERNEL})
    for cell in notebook.cells:
        cell.source = HIDDEN.sub("", SOLUTION.sub(stubbed, cell.source)).rstrip("\n")
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
        if left := MARKER.search(cell.source):
            raise ValueError(f"cell {cell.id} would keep {left.group()!r}: its markers are not in pairs, or misspelt")
    refuse_survivors(source, notebook)
    return notebook


def stubbed(region: re.Match) -> str:
    return "\n".join(region["indent"] + line for line in STUB.splitlines())


def secrets(source) -> list[str]:
    """The lines of all solutions and hidden tests that say something: none may be in what students get."""
    regions = [
        match["inside"] for cell in source.cells for kind in (SOLUTION, HIDDEN) for match in kind.finditer(cell.source)
    ]
    lines = {line.strip() for region in regions for line in region.splitlines()}
    return sorted(line for line in lines if len(line) > 12 and not line.startswith(("#", "import ", "from ")))


def refuse_survivors(source, notebook) -> None:
    """ValueError for a cell that shows a secret, in whatever spaces: in its text, its metadata or what is attached."""
    hidden = secrets(source)
    for cell in notebook.cells:
        shown = squeezed(json.dumps(cell, ensure_ascii=False))
        for secret in hidden:
            if squeezed(secret) in shown:
                raise ValueError(f"cell {cell.id} would show a line of a solution or hidden test: {secret!r}")


def squeezed(content: str) -> str:
    """Without blanks, and without what JSON escapes them and quotes with."""
    return re.sub(r"\\[nrt]|[\s\\]", "", content)


def asked(notebook) -> list[Question]:
    """The questions that a notebook's cells check, in order; ValueError for a graded cell without one."""
    found = []
    for cell in notebook.cells:
        if cell.metadata.get("nbgrader", {}).get("grade"):
            names = [match["name"] for match in CHECK.finditer(cell.source)]
            if len(names) != 1:
                raise ValueError(f"cell {cell.id} is graded: expected one check in it, got {len(names)}")
            question = find(names[0])
            if cell.metadata.nbgrader.points != question.points:
                raise ValueError(
                    f"cell {cell.id} has {cell.metadata.nbgrader.points} points, its check {question.points}"
                )
            found.append(question)
    return found


def refuse_unsound_checks(source) -> None:
    """ValueError for a check that rejects its right answer, or does not name one of its wrong ones."""
    for question in asked(source):
        if (verdict := judge(replace(question, forbidden=()), question.right)).status != "passed":
            raise ValueError(f"{question.id} rejects its right answer: {verdict.message}")
        for mistake, wrong in [(each, wrong) for each in question.mistakes for wrong in each.answers]:
            verdict = judge(replace(question, forbidden=()), wrong)
            if verdict.mistake != mistake.says:
                raise ValueError(f"{question.id} does not know a wrong answer, {mistake.says!r}: {verdict.message}")
