"""The notebook that is run: the instructor's set-up and checks, the student's answers and helper cells, nothing else.

First come all answers, each with the check that students have, so that no hidden test is in the kernel while anything
is said that a student will read. Then, for each question, three cells: the hidden tests; the canary, which is all of it
on an answer that is surely wrong (if that passes, something in this kernel has changed what a check is); and the
witness, which writes down what the answer does, for a comparison outside the kernel. They see the notebook's names and
change none: a hidden test that calls something `steps` costs no student's `steps`.
"""

import ast
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

import nbformat

from minirl.course.answers import Cell, Found, cleaned, defines, find, needs
from minirl.course.assign import HIDDEN, KERNEL, SOLUTION, STUB, asked, source_path, stubbed

CHECKERS = "from minirl.course.check import check, hidden\nfrom minirl.course.witness import witness\n"


@dataclass(frozen=True)
class Part:
    """One question as the instructor wrote it: its answer's cell, and the cell that checks it."""

    question: str
    points: float
    answer_id: str
    check_id: str
    label: str
    names: tuple[str, ...]
    solution: str
    stub: str
    check: str
    hidden: str  # what of it students do not have
    imports: str
    checked: tuple[str, ...]  # the names that the check looks at: the answer's, or what was made with it
    witness: str  # all of it, with witness(...) for each check(...) and hidden(...)
    calls: int  # how many these are

    def whole(self, source: str) -> str:
        """A cell of the instructor's with all that it needs, whatever the notebook has made of these names."""
        return f"{self.imports}\n{CHECKERS}{source}"


@dataclass(frozen=True)
class Template:
    """An assignment: its questions in order, and what the instructor wrote around them."""

    name: str
    setup: list[str]
    between: list[tuple[int, str]]  # code after the first so many answers
    parts: list[Part]
    given: dict[str, None] = field(default_factory=dict)  # its code cells as students get them, without blanks

    @property
    def points(self) -> float:
        return sum(part.points for part in self.parts)


def template(name: str, root: Path, public: bool = False) -> Template:
    """Read from the source; `public`: from what students have, without solutions and hidden tests."""
    path = root / "assignments" / name / f"{name}.ipynb" if public else source_path(name, root)
    notebook = nbformat.read(path, as_version=4)
    made = Template(name, [], [], [])
    questions, answers = iter(asked(notebook)), []
    for cell in notebook.cells:
        marks = cell.metadata.get("nbgrader", {})
        if cell.cell_type != "code":
            continue
        made.given[squeezed(HIDDEN.sub("", SOLUTION.sub(stubbed, cell.source)))] = None
        if marks.get("solution"):
            answers.append(cell)
        elif marks.get("grade"):
            made.parts.append(part(next(questions), answers[-1], cell, "\n".join(map(import_lines, made.setup))))
        elif cell.metadata.get("minirl", {}).get("grading") == "left out":  # a training that no grader needs to repeat
            continue
        elif answers:
            made.between.append((len(answers), cell.source))
        else:
            made.setup.append(cell.source)
    if not made.parts:
        raise ValueError(f"{path} has no graded cells")
    return made


def part(question, answer, check, imports: str) -> Part:
    stub = SOLUTION.sub(stubbed, answer.source)
    stub = stub if STUB.splitlines()[0] in stub else ""  # a student's own copy, already written into
    names = tuple(sorted(defines(answer.source)))
    tree = ast.parse(check.source)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    calls = [node for node in calls if node.func.id in ("check", "hidden")]
    looked = [name for node in calls for name in ast.walk(node.args[1]) if isinstance(name, ast.Name)]
    checked = tuple(sorted({name.id for name in looked}))
    for node in calls:
        node.func.id = "witness"
    label = question.id.split(".")[-1]
    ids = answer.metadata.nbgrader.grade_id, check.metadata.nbgrader.grade_id
    public, hidden = HIDDEN.sub("", check.source), "\n".join(each["inside"] for each in HIDDEN.finditer(check.source))
    how = public, hidden, imports, checked, ast.unparse(tree), len(calls)
    return Part(question.id, question.points, *ids, label, names, answer.source, stub, *how)


def squeezed(source: str) -> str:
    return "".join(source.split())


@dataclass(frozen=True)
class Work:
    """A student's work, taken apart: an answer to each question, and helper cells."""

    answers: dict[str, Found]  # by answer_id
    helpers: list[str]

    @property
    def notes(self) -> list[str]:
        return [found.note for found in self.answers.values() if found.note]


def work(assignment: Template, notebook: list[Cell]) -> Work:
    """Find the answers; what is neither an answer nor a cell of the assignment's own is a helper."""
    student = cleaned(notebook)
    answers = {
        part.answer_id: find(part.answer_id, part.label, part.names, part.stub, student) for part in assignment.parts
    }
    taken = {place for found in answers.values() for place in found.places}
    helpers = [cell.source for place, cell in enumerate(student) if cell.code and place not in taken]
    return Work(answers, [source for source in helpers if source.strip() and squeezed(source) not in assignment.given])


def placed(assignment: Template, taken: Work) -> list[int]:
    """After how many answers each helper cell stands: as soon as the names are there which it needs while it runs.

    So neither cells in another order nor a plot of one's own results cost anything.
    """
    after, places = {}, []
    for number, each in enumerate(assignment.parts, 1):
        after |= dict.fromkeys(each.names, number)
    for source in taken.helpers:
        place = max((after.get(name, 0) for name in needs(source, at_once=True)), default=0)
        after |= {name: max(place, after.get(name, 0)) for name in defines(source)}
        places.append(place)
    return places


def needed_between(assignment: Template, taken: Work) -> list[tuple[int, str]]:
    """The instructor's cells between the questions that define something used by a check or by the student."""
    answers = [found.source or "" for found in taken.answers.values()]
    wanted = set().union(*map(needs, [*answers, *taken.helpers, *(part.check for part in assignment.parts)]))
    kept = []
    for place, source in reversed(assignment.between):
        if wanted & defines(source):
            kept.append((place, source))
            wanted |= needs(source)
    return kept[::-1]


def rebuilt(
    assignment: Template,
    taken: Work,
    nonce: str,
    reference: Collection[str] = (),
    checked: Collection[str] | None = None,
    dropped: Collection[int] = (),
):
    """The notebook to run. `reference`: answers replaced by the instructor's; `checked`: the only checks to make."""
    cells = [
        code("begin", f"from minirl.course.witness import begin\nbegin({nonce!r}, {assignment.parts[0].question!r})")
    ]
    cells += [code("setup", source) for source in assignment.setup]
    places, between, behind = placed(assignment, taken), needed_between(assignment, taken), []
    for number in range(len(assignment.parts) + 1):
        if number:
            each = assignment.parts[number - 1]
            source = each.solution if each.answer_id in reference else taken.answers[each.answer_id].source
            cells.append(code("answer", source or each.stub, each.answer_id))
        owner = each.answer_id if number else ""
        cells += [code("between", source, owner) for place, source in between if place == number]
        here = [index for index, place in enumerate(places) if place == number and index not in dropped]
        spent = [index for index in here if number and set(each.names) & defines(taken.helpers[index])]
        cells += [code("helper", taken.helpers[index], str(index)) for index in here if index not in spent]
        if number and (checked is None or each.check_id in checked) and each.answer_id not in reference:
            cells.append(beside(each, "check", each.check))
            behind += [beside(each, "hidden", each.hidden)] if each.hidden else []
            behind += [beside(each, "canary", f"{each.check}\n{each.hidden}", each.checked)]
            behind += [beside(each, "witness", each.witness)]
        cells += [code("helper", taken.helpers[index], str(index)) for index in spent]
    kernel = {"kernelspec": {**KERNEL, "name": "minirl-grade"}}
    return nbformat.v4.new_notebook(cells=cells + behind, metadata=kernel)


def beside(each: Part, kind: str, source: str, nothing: Collection[str] = ()):
    """A cell that runs among the student's names and leaves them as they are."""
    call = f"_aside({each.check_id!r}, {each.whole(source)!r}, {tuple(nothing)!r})"
    return code(kind, f"from minirl.course.witness import aside as _aside\n{call}", each.check_id)


def import_lines(source: str) -> str:
    """The imports of a set-up cell, so that a name taken for something else costs nothing."""
    tree = ast.parse("\n".join(line for line in source.splitlines() if not line.lstrip().startswith(("%", "!"))))
    return "\n".join(ast.unparse(node) for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom))


def code(kind: str, source: str, of: str = ""):
    return nbformat.v4.new_code_cell(source, metadata={"minirl": {"kind": kind, "of": of}})
