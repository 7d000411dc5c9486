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

from minirl.course.answers import Cell, Found, answer_to, cleaned, defines, needs, without_blanks
from minirl.course.assign import HIDDEN, KERNEL, SOLUTION, STUB, asked, source_path, stubbed
from minirl.course.formats import nbformat
from minirl.course.questions import Question

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

    @property
    def imports(self) -> str:
        """What its set-up cells import."""
        return "\n".join(map(import_lines, self.setup))


def template(name: str, root: Path, public: bool = False) -> Template:
    """An assignment, read from the source; `public`: from what students have, without solutions and hidden tests."""
    path = root / "assignments" / name / f"{name}.ipynb" if public else source_path(name, root)
    made = sorted_out(name, nbformat.read(path, as_version=4))
    if not made.parts:
        raise ValueError(f"{path} has no graded cells")
    return made


def sorted_out(name: str, notebook) -> Template:
    """The code cells by what they are for: before all answers, an answer, its check, or between the answers."""
    made = Template(name, [], [], [])
    questions, answers = iter(asked(notebook)), []
    for cell in (each for each in notebook.cells if each.cell_type == "code"):
        marks = cell.metadata.get("nbgrader", {})
        made.given[without_blanks(HIDDEN.sub("", SOLUTION.sub(stubbed, cell.source)))] = None
        if marks.get("solution"):
            answers.append(cell)
        elif marks.get("grade"):
            made.parts.append(part(next(questions), answers[-1], cell, made.imports))
        elif cell.metadata.get("minirl", {}).get("grading") == "left out":  # a training that no grader needs to repeat
            continue
        elif answers:
            made.between.append((len(answers), cell.source))
        else:
            made.setup.append(cell.source)
    return made


def part(question: Question, answer, check, imports: str) -> Part:
    stub = SOLUTION.sub(stubbed, answer.source)
    witness, checked, calls = witnessing(check.source)
    return Part(
        question=question.id,
        points=question.points,
        answer_id=answer.metadata.nbgrader.grade_id,
        check_id=check.metadata.nbgrader.grade_id,
        label=question.id.split(".")[-1],
        names=tuple(sorted(defines(answer.source))),
        solution=answer.source,
        stub=stub if STUB.splitlines()[0] in stub else "",  # a student's own copy, already written into
        check=HIDDEN.sub("", check.source),
        hidden="\n".join(each["inside"] for each in HIDDEN.finditer(check.source)),
        imports=imports,
        checked=checked,
        witness=witness,
        calls=calls,
    )


def witnessing(check: str) -> tuple[str, tuple[str, ...], int]:
    """A check's cell with witness(...) for check(...) and hidden(...), the names they look at, and their number."""
    tree = ast.parse(check)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    calls = [node for node in calls if node.func.id in ("check", "hidden")]
    looked_at = {name.id for node in calls for name in ast.walk(node.args[1]) if isinstance(name, ast.Name)}
    for node in calls:
        node.func.id = "witness"
    return ast.unparse(tree), tuple(sorted(looked_at)), len(calls)


def import_lines(source: str) -> str:
    """The imports of a set-up cell, so that a name taken for something else costs nothing."""
    tree = ast.parse("\n".join(line for line in source.splitlines() if not line.lstrip().startswith(("%", "!"))))
    return "\n".join(ast.unparse(node) for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom))


@dataclass(frozen=True)
class Work:
    """A student's work, taken apart: an answer to each question, and helper cells."""

    answers: dict[str, Found]  # by answer_id
    helpers: list[str]
    stood: list[int] = field(default_factory=list)  # after how many answers each helper is in the student's notebook

    @property
    def notes(self) -> list[str]:
        return [found.note for found in self.answers.values() if found.note]


def work(assignment: Template, notebook: list[Cell]) -> Work:
    """Find the answers; what is neither an answer nor a cell of the assignment's own is a helper."""
    student = cleaned(notebook)
    parts = assignment.parts
    answers = {each.answer_id: answer_to(each.answer_id, each.label, each.names, each.stub, student) for each in parts}
    taken = {place for found in answers.values() for place in found.places}
    others = {place: cell.source for place, cell in enumerate(student) if cell.code and place not in taken}
    helpers = {at: each for at, each in others.items() if each.strip() and without_blanks(each) not in assignment.given}
    ends = [max(answers[part.answer_id].places, default=len(student)) for part in parts]
    stood = [max((number for number, end in enumerate(ends, 1) if end < at), default=0) for at in helpers]
    return Work(answers, [*helpers.values()], stood)


def rebuilt(
    assignment: Template,
    taken: Work,
    nonce: str,
    reference: Collection[str] = (),
    checked: Collection[str] | None = None,
    dropped: Collection[int] = (),
):
    """The notebook to run. `reference`: answers replaced by the instructor's; `checked`: the only checks to make;
    `dropped`: helper cells to leave out."""
    begin = f"from minirl.course.witness import begin\nbegin({nonce!r}, {assignment.parts[0].question!r})"
    cells = [code("begin", begin), *(code("setup", source) for source in assignment.setup)]
    own = [each for each in assignment.parts if each.answer_id not in reference]
    wanted = [each for each in own if checked is None or each.check_id in checked]
    cells += answers_and_checks(assignment, taken, reference, wanted, dropped)
    cells += [cell for each in wanted for cell in behind(each)]
    return nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": {**KERNEL, "name": "minirl-grade"}})


def answers_and_checks(
    assignment: Template, taken: Work, reference: Collection[str], wanted: list[Part], dropped: Collection[int]
) -> list:
    """Each answer, then what needs it: the instructor's cells, the helper cells, and its check if that is wanted."""
    places, between = placed(assignment, taken), needed_between(assignment, taken)
    cells = helper_cells(taken, places, dropped, 0)
    again = set(map(str, redefining(taken.helpers)))
    for number, each in enumerate(assignment.parts, 1):
        answer = each.solution if each.answer_id in reference else taken.answers[each.answer_id].source
        cells.append(code("answer", answer or each.stub, each.answer_id))
        cells += [code("between", source, each.answer_id) for place, source in between if place == number]
        helpers = helper_cells(taken, places, dropped, number)
        named = set(each.names)
        renaming = [one for one in helpers if named & defines(one.source) or one.metadata.minirl.of in again]
        cells += [cell for cell in helpers if cell not in renaming]
        if each in wanted:
            cells.append(beside(each, "check", each.check))
        cells += renaming  # they give a name to something else: no check so far should see that
    return cells


def helper_cells(taken: Work, places: list[int], dropped: Collection[int], number: int) -> list:
    """Those that stand after so many answers."""
    here = [index for index, place in enumerate(places) if place == number and index not in dropped]
    return [code("helper", taken.helpers[index], str(index)) for index in here]


def placed(assignment: Template, taken: Work) -> list[int]:
    """After how many answers each helper cell stands: as soon as the names are there which it needs while it runs.

    So neither cells in another order nor a plot of one's own results cost anything. One that gives a helper's name to
    something else stands no earlier than in the student's notebook.
    """
    after, places, again = {}, [], redefining(taken.helpers)
    for number, each in enumerate(assignment.parts, 1):
        after |= dict.fromkeys(each.names, number)
    for index, source in enumerate(taken.helpers):
        place = max((after.get(name, 0) for name in needs(source, at_once=True)), default=0)
        place = max(place, taken.stood[index]) if index in again else place
        after |= {name: max(place, after.get(name, 0)) for name in defines(source)}
        places.append(place)
    return places


def redefining(helpers: list[str]) -> set[int]:
    """Those that define what one before them has, otherwise; imports do not count."""
    known, again = {}, set()
    for index, source in enumerate(helpers):
        names = dict.fromkeys(defines(source, imports=False), source)
        if any(known.get(name, source) != source for name in names):
            again.add(index)
        known |= names
    return again


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


def behind(each: Part) -> list:
    """What comes after all that a student will read about: the hidden tests, the canary and the witness."""
    cells = [beside(each, "hidden", each.hidden)] if each.hidden else []
    cells.append(beside(each, "canary", f"{each.check}\n{each.hidden}", each.checked))
    return [*cells, beside(each, "witness", each.witness)]


def beside(each: Part, kind: str, source: str, nothing: Collection[str] = ()):
    """A cell that runs among the student's names and leaves them as they are."""
    call = f"_aside({each.check_id!r}, {each.whole(source)!r}, {tuple(nothing)!r})"
    return code(kind, f"from minirl.course.witness import aside as _aside\n{call}", each.check_id)


def code(kind: str, source: str, of: str = ""):
    return nbformat.v4.new_code_cell(source, metadata={"minirl": {"kind": kind, "of": of}})
