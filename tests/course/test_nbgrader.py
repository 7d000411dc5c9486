"""nbgrader reads our sources as we do: it makes the same assignments of them, and gives answers the same points.

Optional, for nbgrader has an environment of its own, which MINIRL_NBGRADER names: CONTRIBUTING.md says how to make it.
All assignments take minutes; `-k a1` is the short one.
"""

import csv
import os
import shutil
import subprocess
from pathlib import Path

import nbformat
import pytest
from filled import NAMES, ROOT, alone, filled, mistake, read

from minirl.course.assign import secrets
from minirl.course.rebuild import Part, template

PYTHON = os.environ.get("MINIRL_NBGRADER")
COMMAND = [os.path.abspath(PYTHON), "-m", "nbgrader"] if PYTHON else [shutil.which("nbgrader") or ""]
pytestmark = pytest.mark.skipif(not COMMAND[0], reason="no nbgrader here: set MINIRL_NBGRADER to a Python that has it")


def nbgrader(course: Path, *words: str) -> None:
    """Run one of its commands, with this minirl, and with the kernel beside it."""
    beside = Path(COMMAND[0]).parent
    own = {"PATH": f"{beside}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "HOME": str(course)}
    settings = {"MINIRL_FAST": "1", "OMP_NUM_THREADS": "1", "MPLBACKEND": "agg"}
    environment = {**os.environ, **own, **settings}
    command = [*COMMAND, *words, "--ExecutePreprocessor.timeout=900"]
    ran = subprocess.run(command, cwd=course, env=environment, capture_output=True, text=True, timeout=3000)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def slip(name: str) -> Part:
    """The question that is answered wrong."""
    return next(part for part in alone(name) if mistake(part))


@pytest.fixture(scope="module", params=NAMES)
def course(request, tmp_path_factory):
    """An assignment released and graded by nbgrader: its name, the course's folder, the points of each student."""
    name, folder = request.param, tmp_path_factory.mktemp("nbgrader") / request.param
    shutil.copytree(ROOT / "solutions" / name, folder / "source" / name)
    (folder / "nbgrader_config.py").write_text("")
    nbgrader(folder, "generate_assignment", name)
    released = nbformat.read(folder / "release" / name / f"{name}.ipynb", as_version=4)
    books = {"right": filled(name), "untouched": released, "wrong": filled(name, wrong=[slip(name)])}
    for student, notebook in books.items():
        place = folder / "submitted" / student / name
        place.mkdir(parents=True)
        nbformat.write(notebook, place / f"{name}.ipynb")
    nbgrader(folder, "autograde", name, "--create")
    nbgrader(folder, "export", "--to", "grades.csv")
    with open(folder / "grades.csv", encoding="utf-8", newline="") as file:
        return name, folder, {row["student_id"]: row for row in csv.DictReader(file)}


def failed(folder: Path, student: str, name: str) -> dict[str, str]:
    """The cells that stopped when nbgrader ran them, and with what."""
    notebook = nbformat.read(folder / "autograded" / student / name / f"{name}.ipynb", as_version=4)
    errors = {cell.id: [out.ename for out in cell.get("outputs", []) if "ename" in out] for cell in notebook.cells}
    return {id: names[0] for id, names in errors.items() if names}


def without_its_own(notebook):
    """Without what nbgrader writes into each cell: checksums, types, and that it cannot be changed."""
    for cell in notebook.cells:
        for name in ("checksum", "cell_type"):
            cell.metadata.get("nbgrader", {}).pop(name, None)
        for name in ("editable", "deletable"):
            cell.metadata.pop(name, None)
    return notebook


def test_its_assignment_is_ours(course):
    name, folder, _ = course
    path = folder / "release" / name / f"{name}.ipynb"
    assert without_its_own(nbformat.read(path, as_version=4)) == without_its_own(read("assignments", name))


def test_its_assignment_shows_no_solution_and_no_hidden_test(course):
    name, folder, _ = course
    shown = "\n".join(cell.source for cell in nbformat.read(folder / "release" / name / f"{name}.ipynb", 4).cells)
    hidden = secrets(read("solutions", name))
    assert hidden and not [line for line in hidden if line in shown] and "hidden(" not in shown


def test_right_answers_get_all_points(course):
    name, folder, grades = course
    points = template(name, ROOT).points
    assert not failed(folder, "right", name)
    assert float(grades["right"]["score"]) == float(grades["right"]["max_score"]) == points


def test_an_untouched_one_gets_none(course):
    name, folder, grades = course
    checks = [part.check_id for part in template(name, ROOT).parts]
    assert failed(folder, "untouched", name) == dict.fromkeys(checks, "NotStarted")
    assert float(grades["untouched"]["score"]) == 0


def test_a_wrong_answer_costs_its_own_points(course):
    name, folder, grades = course
    wrong = slip(name)
    assert failed(folder, "wrong", name) == {wrong.check_id: "Wrong"}
    assert float(grades["wrong"]["score"]) == float(grades["wrong"]["max_score"]) - wrong.points
