"""Assignments: made from their sources to the byte, without an answer, and harmless before anything is written."""

import re
import shutil
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from minirl.course import assign
from minirl.course.check import find
from minirl.course.questions import Mistake

ROOT = Path(__file__).parents[2]
NAMES = sorted(path.stem for path in ROOT.glob("solutions/*/*.ipynb"))
REGION = re.compile(r"### BEGIN (SOLUTION|HIDDEN TESTS)\n(.*?)### END \1", re.S)
every = pytest.mark.parametrize("name", NAMES)


def source_of(name):
    return nbformat.read(ROOT / "solutions" / name / f"{name}.ipynb", as_version=4)


def assignment_of(name):
    return nbformat.read(ROOT / "assignments" / name / f"{name}.ipynb", as_version=4)


def nbgrader(cell):
    return cell.metadata.get("nbgrader", {})


@pytest.fixture
def unproven(monkeypatch):
    """Without trying all wrong answers, which test_questions does."""
    monkeypatch.setattr(assign, "refuse_unsound_checks", lambda source: None)


@every
def test_the_assignment_is_what_assign_writes(name, tmp_path, unproven):
    shutil.copytree(ROOT / "solutions" / name, tmp_path / "solutions" / name)
    written = assign.assign(name, tmp_path)
    assert written.read_bytes() == (ROOT / "assignments" / name / f"{name}.ipynb").read_bytes()
    again = written.read_bytes()
    assert assign.assign(name, tmp_path).read_bytes() == again


@every
def test_no_line_of_an_answer_is_left(name):
    shown = "\n".join(cell.source for cell in assignment_of(name).cells)
    inside = "\n".join(match[2] for cell in source_of(name).cells for match in REGION.finditer(cell.source))
    lines = {line.strip() for line in inside.splitlines()} - {""}
    assert lines
    for line in lines:
        assert len(line) <= 12 or line.startswith(("import ", "from ")) or line not in shown
    assert "### " not in re.sub(r"^### .*", "", shown, flags=re.M) and "BEGIN" not in shown and "hidden(" not in shown


@every
def test_an_assignment_comes_without_outputs(name):
    for cell in assignment_of(name).cells:
        assert cell.cell_type != "code" or (not cell.outputs and cell.execution_count is None)


@every
def test_an_untouched_assignment_runs_to_its_end(name, tmp_path):
    """Every check says that nothing is there yet, and nothing else fails."""
    notebook = assignment_of(name)
    NotebookClient(notebook, kernel_name="python3", timeout=120, allow_errors=True).execute(cwd=str(tmp_path))
    for cell in notebook.cells:
        errors = [o.ename for o in cell.get("outputs", []) if o.output_type == "error"]
        assert errors == (["NotStarted"] if nbgrader(cell).get("grade") else []), cell.id
        assert cell.cell_type != "code" or cell.execution_count is not None


@every
def test_the_source_asks_every_question_once(name):
    questions = import_module(f"minirl.course.{name}").QUESTIONS
    assert [question.id for question in assign.asked(source_of(name))] == list(questions)
    total = sum(question.points for question in questions.values())
    assert f"**Points** {total}" in source_of(name).cells[0].source


@every
def test_the_source_is_nbgraders_format(name):
    cells = source_of(name).cells
    graded = [cell for cell in cells if nbgrader(cell)]
    fields = {"schema_version", "grade", "solution", "locked", "task", "grade_id"}
    for cell in graded:
        data = nbgrader(cell)
        assert set(data) == fields | ({"points"} if data["grade"] else set())
        assert data["schema_version"] == 3 and data["grade_id"] == cell.id and data["grade"] != data["solution"]
        assert data["locked"] == data["grade"] and not data["task"]
    answers = [cell for cell in graded if nbgrader(cell)["solution"]]
    checks = [cell.id for cell in graded if nbgrader(cell)["grade"]]
    assert checks == [f"{cell.id}-check" for cell in answers]
    for cell in answers:
        assert cell.source.startswith(f"# GRADED: {cell.id.removeprefix(name + '-')} (do not edit this line)\n")
    assert len({cell.id for cell in cells}) == len(cells)


@every
def test_the_source_keeps_its_outputs(name):
    assert any(cell.get("outputs") for cell in source_of(name).cells)
    assert not any(o.output_type == "error" for cell in source_of(name).cells for o in cell.get("outputs", []))


def notebook_of(answer, test='check("a2.q1a", centered)', points=2, says="Centre the rewards."):
    """A source with one question."""
    meta = {"schema_version": 3, "grade": False, "solution": True, "locked": False, "task": False, "grade_id": "q"}
    graded = {**meta, "grade": True, "solution": False, "locked": True, "grade_id": "q-check", "points": points}
    return nbformat.v4.new_notebook(
        cells=[
            nbformat.v4.new_markdown_cell(says, id="q-text"),
            nbformat.v4.new_code_cell(answer, id="q", metadata={"nbgrader": meta}),
            nbformat.v4.new_code_cell(test, id="q-check", metadata={"nbgrader": graded}),
        ]
    )


ANSWER = (
    "def centered(rewards):\n    ### BEGIN SOLUTION\n    return rewards - rewards.mean(-1, keepdim=True)\n"
    "    ### END SOLUTION"
)


def test_a_solution_becomes_a_stub_as_deep_as_it_was():
    made = assign.without_answers(notebook_of(ANSWER))
    assert made.cells[1].source == "def centered(rewards):\n    # YOUR CODE HERE\n    raise NotImplementedError()"


def test_what_stands_beside_a_hidden_test_stays():
    test = (
        'check("a2.q1a", centered)\n### BEGIN HIDDEN TESTS\nhidden("a2.q1a", centered)\n### END HIDDEN TESTS\nprint()'
    )
    assert assign.without_answers(notebook_of(ANSWER, test)).cells[2].source == 'check("a2.q1a", centered)\nprint()'


@pytest.mark.parametrize(
    "answer",
    [
        ANSWER.replace("    ### END SOLUTION", ""),
        ANSWER.replace("    ### BEGIN SOLUTION\n", ""),
        ANSWER.replace("### END SOLUTION", "### END HIDDEN TESTS"),
        ANSWER.replace("### BEGIN", "###BEGIN"),
        ANSWER.replace("###", "##"),
        ANSWER.replace("BEGIN SOLUTION", "begin solution").replace("END SOLUTION", "end solution"),
        ANSWER.replace("SOLUTION", "HIDDEN TEST"),
    ],
    ids=["no end", "no begin", "another's end", "no space", "two signs", "small letters", "another word"],
)
def test_markers_that_are_not_in_pairs_are_refused(answer):
    with pytest.raises(ValueError, match=r"cell q would keep '##.*not in pairs"):
        assign.without_answers(notebook_of(answer))


def test_an_answer_that_would_be_shown_elsewhere_is_refused():
    with pytest.raises(ValueError, match=r"cell q-text would show a line .*mean\(-1"):
        assign.without_answers(notebook_of(ANSWER, says="Hint: return rewards - rewards.mean(-1, keepdim=True)"))


RETURN = "return rewards - rewards.mean(-1, keepdim=True)"


@pytest.mark.parametrize(
    "tell",
    [
        lambda cell: cell.update(source=RETURN.replace(" ", "").replace("return", "return\t")),
        lambda cell: cell.metadata.update(minirl={"answer": RETURN}),
        lambda cell: cell.update(attachments={"answer.txt": {"text/plain": f"# so:\n{RETURN}"}}),
    ],
    ids=["in other spaces", "in the metadata", "attached"],
)
def test_an_answer_is_found_wherever_it_would_be_shown(tell):
    source = notebook_of(ANSWER)
    tell(source.cells[0])
    with pytest.raises(ValueError, match=r"cell q-text would show a line .*mean\(-1"):
        assign.without_answers(source)


def test_points_that_differ_are_refused():
    with pytest.raises(ValueError, match=r"cell q-check has 3 points, its check 2"):
        assign.asked(notebook_of(ANSWER, points=3))


@pytest.mark.parametrize("test", ["assert True", 'check("a2.q1a", centered)\ncheck("a2.q1b", centered)'])
def test_a_graded_cell_without_its_one_check_is_refused(test):
    with pytest.raises(ValueError, match=r"expected one check in it, got [02]"):
        assign.asked(notebook_of(ANSWER, test))


def test_a_check_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match=r"there is no check 'a2.q99'"):
        assign.asked(notebook_of(ANSWER, 'check("a2.q99", centered)'))


def accepting(question):
    """The question with a wrong answer that is right."""
    return replace(question, mistakes=(*question.mistakes, Mistake("not wrong at all", question.right)))


def unnamed(question):
    """The question with a mistake that another one is taken for."""
    return replace(question, mistakes=(*question.mistakes, Mistake("twice", question.mistakes[0].wrong)))


@pytest.mark.parametrize("change", [accepting, unnamed])
def test_a_check_that_does_not_name_a_wrong_answer_is_refused(change, monkeypatch):
    monkeypatch.setattr(assign, "find", lambda name: change(find(name)))
    with pytest.raises(ValueError, match=r"a2.q1a does not know a wrong answer, '(not wrong at all|twice)'"):
        assign.refuse_unsound_checks(notebook_of(ANSWER))


def test_a_check_that_rejects_its_right_answer_is_refused(monkeypatch):
    def stops(rewards):
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr(assign, "find", lambda name: replace(find(name), right=stops))
    with pytest.raises(ValueError, match=r"a2.q1a rejects its right answer: .*ZeroDivisionError"):
        assign.refuse_unsound_checks(notebook_of(ANSWER))


def test_a_sound_question_is_not_refused():
    assign.refuse_unsound_checks(notebook_of(ANSWER))


def test_what_is_refused_is_not_written(tmp_path):
    path = tmp_path / "solutions" / "x" / "x.ipynb"
    path.parent.mkdir(parents=True)
    nbformat.write(notebook_of(ANSWER, points=3), path)
    with pytest.raises(ValueError):
        assign.assign("x", tmp_path)
    assert not (tmp_path / "assignments").exists()


def test_a_name_without_a_source_is_answered_with_those_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"expected one of: none"):
        assign.assign("a9", tmp_path)
    with pytest.raises(FileNotFoundError, match=r"expected one of: .*\ba2\b"):
        assign.assign("a9", ROOT)
