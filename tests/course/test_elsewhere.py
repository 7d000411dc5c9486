"""Assignments graded elsewhere: by plain nbval, by Gradescope's autograder, by a workflow in repositories on GitHub.

No site can be reached from a test. What they would run is run here: their scripts, in their folders, by bash.
MINIRL_ELSEWHERE=1 runs more of it, and setup.sh, which installs everything anew and takes minutes.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import demo_assignment
import nbformat
import pytest
import yaml
from filled import alone, filled, mistake
from jsonschema import validate
from submissions import FULL, NAMED, RIGHT, WRONG, book, saved

import minirl
from minirl.cli import main
from minirl.course.check import find
from minirl.course.grade import chosen
from minirl.course.gradescope import autograder
from minirl.course.intake import submissions
from minirl.course.marks import Result
from minirl.course.rebuild import template

COURSE = Path(__file__).parents[2]
WORKFLOW = yaml.safe_load((COURSE / ".github" / "students" / "check.yml").read_text("utf-8"))
HALF = {"q1a": WRONG, "q2": RIGHT["q2"], "q5": RIGHT["q5"]}  # one mistake, one not started
pytestmark = pytest.mark.skipif(not shutil.which("bash"), reason="there is no bash here")
long = pytest.mark.skipif(not os.environ.get("MINIRL_ELSEWHERE"), reason="takes minutes: set MINIRL_ELSEWHERE=1")

# As https://gradescope-autograders.readthedocs.io/en/latest/specs/ has it, of which we use a part.
SEEN = {"enum": ["hidden", "after_due_date", "after_published", "visible"]}
FORMAT = {"enum": ["text", "html", "simple_format", "md", "ansi"]}
TEST = {
    "type": "object",
    "additionalProperties": False,
    "required": ["name", "score", "max_score", "status", "output"],
    "properties": {
        "score": {"type": "number"},
        "max_score": {"type": "number"},
        "status": {"enum": ["passed", "failed"]},
        "name": {"type": "string"},
        "name_format": FORMAT,
        "number": {"type": "string"},
        "output": {"type": "string"},
        "output_format": FORMAT,
        "tags": {"type": "array", "items": {"type": "string"}},
        "visibility": SEEN,
        "extra_data": {"type": "object"},
    },
}
RESULTS = {
    "type": "object",
    "additionalProperties": False,
    "required": ["score", "output", "tests", "stdout_visibility"],
    "properties": {
        "score": {"type": "number"},
        "execution_time": {"type": "number"},
        "output": {"type": "string"},
        "output_format": FORMAT,
        "test_output_format": FORMAT,
        "test_name_format": FORMAT,
        "visibility": SEEN,
        "stdout_visibility": {"const": "hidden"},  # instructors alone read why somebody should look
        "extra_data": {"type": "object"},
        "tests": {"type": "array", "items": TEST},
        "leaderboard": {"type": "array"},
    },
}


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    return demo_assignment.written(tmp_path_factory.mktemp("course"))


def run(*words) -> int:
    with pytest.raises(SystemExit) as exit:
        main([str(word) for word in words])
    return exit.value.code or 0


def command(folder: Path, package: Path) -> Path:
    """A `minirl` as it would be installed: with this Python, and the package that lies in `package`."""
    folder.mkdir(parents=True)
    script = folder / "minirl"
    script.write_text(f'#!/bin/sh\nPYTHONPATH="{package}" exec "{sys.executable}" -m minirl.cli "$@"\n')
    script.chmod(0o755)
    return folder


# nbval alone


@pytest.mark.parametrize("name", ["a1", "a2"])
def test_plain_nbval_fails_exactly_where_an_answer_is_wrong_or_not_there(name, tmp_path):
    """Every third question is as it was, the next one wrong, the next one right."""
    untouched, wrong = alone(name)[::3], alone(name)[1::3]
    notebook = filled(name, wrong, untouched)
    nbformat.write(notebook, tmp_path / f"{name}.ipynb")
    plain = [sys.executable, "-m", "pytest", "--nbval-lax", f"{name}.ipynb", "-rA", "-p", "no:cacheprovider"]
    said = subprocess.run(plain, cwd=tmp_path, capture_output=True, text=True, timeout=900).stdout
    ids = [cell.id for cell in notebook.cells if cell.cell_type == "code"]
    found = {ids[int(number)]: word for word, number in re.findall(rf"^(\w+) {name}\.ipynb::Cell (\d+)", said, re.M)}
    assert {*found} == {*ids} and set(found.values()) == {"PASSED", "FAILED"}
    failing = {id for id, word in found.items() if word == "FAILED"}
    assert failing == {part.check_id for part in [*untouched, *wrong]}, said
    said = " ".join(said.split())  # a sentence stands there in lines
    assert all(mistake(part).says in said for part in wrong)
    assert all(f"{part.question} {find(part.question).title}: not started yet." in said for part in untouched)


# Gradescope


@pytest.fixture(scope="module")
def image(root, tmp_path_factory) -> Path:
    """What Gradescope has after it unpacked the zip, and installed it: its folder /autograder."""
    folder = tmp_path_factory.mktemp("gradescope") / "autograder"
    assert run("gradescope", "a2", "--root", root, "--out", root / "a2.zip") == 0
    with zipfile.ZipFile(root / "a2.zip") as archive:
        archive.extractall(folder / "source")
    command(folder / "venv" / "bin", folder / "source")
    (folder / "results").mkdir()
    shutil.copy(folder / "source" / "run_autograder", folder)
    return folder


def submitted(image: Path, files: dict[str, bytes]) -> subprocess.CompletedProcess:
    """One submission, graded as Gradescope does it."""
    shutil.rmtree(image / "submission", ignore_errors=True)
    (image / "results" / "results.json").unlink(missing_ok=True)
    (image / "submission").mkdir()
    for name, content in files.items():
        (image / "submission" / name).parent.mkdir(exist_ok=True)
        (image / "submission" / name).write_bytes(content)
    environment = {**os.environ, "AUTOGRADER_ROOT": str(image)}
    return subprocess.run(
        ["bash", "./run_autograder"], cwd=image, env=environment, capture_output=True, text=True, timeout=900
    )


def results(image: Path) -> dict:
    found = json.loads((image / "results" / "results.json").read_text("utf-8"))
    validate(found, RESULTS)
    return found


def test_the_zip_has_all_that_gradescope_needs_and_is_always_the_same(root, tmp_path):
    first, second = (autograder("a2", root, tmp_path / name) for name in ("one.zip", "two.zip"))
    assert first.read_bytes() == second.read_bytes()
    with zipfile.ZipFile(first) as archive:
        names = archive.namelist()
        modes = {each.filename: each.external_attr >> 16 for each in archive.infolist()}
    assert {
        "setup.sh",
        "run_autograder",
        "pyproject.toml",
        "constraints.txt",
        "minirl/llm/pocket/base/config.json",
    } <= {*names}
    assert all(modes[name] & 0o111 for name in ("setup.sh", "run_autograder"))
    assert [name for name in names if name.startswith("solutions/")] == ["solutions/a2/a2.ipynb"]
    assert not [name for name in names if "__pycache__" in name or "pip.conf" in name]


def test_pip_may_be_told_where_else_to_look(root, tmp_path):
    with zipfile.ZipFile(autograder("a2", root, tmp_path / "one.zip", "https://example.org/cpu")) as archive:
        assert archive.read("pip.conf").decode() == "[global]\nextra-index-url = https://example.org/cpu\n"


def test_an_assignment_that_is_not_there_is_said_in_one_sentence(root, tmp_path, capsys):
    assert run("gradescope", "a9", "--root", root, "--out", tmp_path / "a9.zip") == 2
    assert "expected one of: a2" in capsys.readouterr().err and not (tmp_path / "a9.zip").exists()


@long
def test_right_answers_get_all_points_whatever_the_file_is_called(root, image):
    ran = submitted(image, {"My work (2).ipynb": saved(book(root, **RIGHT)), "notes.txt": b"hello"})
    assert ran.returncode == 0, ran.stderr
    found = results(image)
    assert found["score"] == sum(test["max_score"] for test in found["tests"]) == FULL
    assert all(test["status"] == "passed" and test["score"] == test["max_score"] for test in found["tests"])


def test_a_mistake_is_named_and_no_hidden_test_is_shown(root, image):
    special = RIGHT | {"q1a": WRONG, "q5": "    return mask / 3 / mask.shape[0] / mask.shape[1]"}
    ran = submitted(image, {"a2/a2.ipynb": saved(book(root, **special)), "a1.ipynb": b"another"})
    assert ran.returncode == 0, ran.stderr
    found = results(image)
    by_name = {test["name"].split()[0]: test for test in found["tests"]}
    assert NAMED[1:] in by_name["a2.q1a"]["output"] and by_name["a2.q1a"]["status"] == "failed"
    assert found["score"] == FULL - by_name["a2.q1a"]["max_score"] - by_name["a2.q5"]["max_score"]
    assert not re.search(r"hidden|SOLUTION|2\.5, -1\.0", json.dumps(found["tests"]))


@long
def test_nothing_handed_in_is_no_failure_of_the_grader(image):
    assert submitted(image, {"report.pdf": b"%PDF"}).returncode == 0
    found = results(image)
    assert found["score"] == 0 and "no notebook was handed in" in found["output"]


def test_where_grading_fails_nobody_gets_a_zero(root, image):
    """Here because the source is broken: Gradescope finds no results, and says so to the instructor."""
    path = image / "source" / "solutions" / "a2" / "a2.ipynb"
    whole = path.read_text("utf-8")
    path.write_text(whole.replace("return rewards - rewards.mean", "return rewards + rewards.mean"), "utf-8")
    try:
        ran = submitted(image, {"a2.ipynb": saved(book(root, **RIGHT))})
        assert ran.returncode != 0 and "does not pass here" in ran.stderr
        assert not (image / "results" / "results.json").exists()
    finally:
        path.write_text(whole, "utf-8")


@long
def test_the_image_can_be_built(root, image, tmp_path):
    folder = tmp_path / "autograder"
    shutil.copytree(image, folder)
    environment = {**os.environ, "AUTOGRADER_ROOT": str(folder)}
    subprocess.run(["bash", folder / "source" / "setup.sh"], env=environment, check=True)
    assert submitted(folder, {"a2.ipynb": saved(book(root, **RIGHT))}).returncode == 0
    assert results(folder)["score"] == FULL


# GitHub


@pytest.fixture(scope="module")
def repository(root, tmp_path_factory) -> Path:
    """What students start from: what was packed for them."""
    folder = tmp_path_factory.mktemp("github") / "repository"
    assert run("release", "a2", "--root", root, "--out", root / "students.zip") == 0
    with zipfile.ZipFile(root / "students.zip") as archive:
        archive.extractall(folder)
    command(folder.parent / "bin", Path(minirl.__file__).parents[1])
    return folder


def pushed(repository: Path, content: bytes | None) -> tuple[int, str, str]:
    """The workflow's own lines on a notebook, as GitHub runs them: exit code, log, and what the run's page shows."""
    if content is not None:
        (repository / "a2" / "a2.ipynb").write_bytes(content)
    (job,) = WORKFLOW["jobs"].values()
    (step,) = [step for step in job["steps"] if "minirl check" in step.get("run", "")]
    page = repository.parent / "page.md"
    page.unlink(missing_ok=True)
    own = {"PATH": f"{repository.parent / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    own |= {"GITHUB_STEP_SUMMARY": str(page), "RUNNER_TEMP": str(repository.parent)}
    ran = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        cwd=repository, env=os.environ | own, capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    return ran.returncode, ran.stdout, page.read_text("utf-8")


@pytest.mark.parametrize(
    "written, code, points",
    [
        pytest.param(None, 1, "not_attempted, 0", id="untouched", marks=long),
        pytest.param(HALF, 1, f"graded, {FULL - 4}", id="half"),
        pytest.param(RIGHT, 0, f"graded, {FULL}", id="right", marks=long),
    ],
)
def test_a_push_says_what_passes(root, repository, written, code, points):
    found, log, page = pushed(repository, saved(book(root, **written)) if written else None)
    said = f"a2.ipynb: {points} of {FULL} points in these checks"
    assert found == code, log
    assert f"::notice title=a2::{said}" in log.splitlines() and f"- {said}" in page.splitlines()
    assert (NAMED in page) == (written is HALF)


def test_a_notebook_that_was_renamed_is_missed(repository, root):
    path = repository / "a2" / "a2.ipynb"
    path.rename(repository / "a2" / "mine.ipynb")
    try:
        assert pushed(repository, None)[0] == 1
    finally:
        (repository / "a2" / "mine.ipynb").rename(path)


def test_clones_of_repositories_can_be_graded(repository, root):
    """The assignment as it was given lies in them, too; what somebody wrote into counts."""
    (repository / "a2" / "a2.ipynb").write_bytes(saved(book(root, **HALF)))
    (handed,) = [each for each in submissions(repository.parent, "a2") if each.student == repository.name]
    assignment = template("a2", root)
    result = Result(handed.student, "a2", "missing", 0, assignment.points)
    assert chosen(assignment, handed, result) and result.file == "repository/a2/a2.ipynb"


def test_the_workflow_installs_what_it_runs_and_may_change_nothing():
    (job,) = WORKFLOW["jobs"].values()
    assert WORKFLOW["permissions"] == {"contents": "read"} and job["defaults"]["run"]["shell"] == "bash"
    (course,) = [step["with"] for step in job["steps"] if step.get("with", {}).get("repository")]
    assert course["repository"].startswith("OWNER/")
    assert f"pip install ./{course['path']} -c {course['path']}/constraints.txt" in [s.get("run") for s in job["steps"]]
    assert course["ref"] == f"v{minirl.__version__}"
