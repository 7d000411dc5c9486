"""Every kind of submission, each with exactly the status and points that are its own. Takes some minutes: run it with

    MINIRL_CORPUS=1 pytest tests/course/test_grade_corpus.py

Besides: the order of students and the number of kernels at once change no result, and a batch that was killed
in the middle and gone on with leaves the same files as one that was not.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import demo_assignment
import pytest
from handed_in import LIMITS, differences, hand_in
from submissions import FULL, KINDS

from minirl.course.batch import Job
from minirl.course.kernel import isolation
from minirl.course.run import Limits

pytestmark = pytest.mark.skipif(not os.environ.get("MINIRL_CORPUS"), reason="takes minutes: set MINIRL_CORPUS=1")
COURSE = Path(__file__).parents[2]
REAL = sorted(path.parent.name for path in COURSE.glob("solutions/*/*.ipynb"))
MIXED = ("good-in-a-folder", "patches-torch-allclose", "good-flat", "os-exit", "a-known-mistake", "a-bomb")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return demo_assignment.written(tmp_path_factory.mktemp("course"))


def grade(root, name, kinds, jobs=2) -> dict[str, bytes]:
    handed = hand_in(root, root / f"{name} class", kinds)
    job = Job("a2", handed, root / name, root, LIMITS)
    assert {result.student for result in job.results(jobs)} == set(kinds)
    return files(root / name)


def files(out) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (out / "results").iterdir()}


def test_every_kind_gets_what_is_its_own(root):
    kinds = [name for name, kind in KINDS.items() if not kind.full_only or isolation() == "full"]
    found = grade(root, "all", kinds)
    assert differences(map(json.loads, found.values())) == {}
    assert not list((root / "..").glob("a2.ipynb"))
    import minirl

    assert not (root / minirl.__file__).with_name("written_by_a_student.txt").exists()


@pytest.mark.parametrize("kinds, jobs", [(MIXED, 1), (MIXED[::-1], 1), (MIXED, 4)], ids=["one", "reversed", "four"])
def test_neither_order_nor_number_changes_a_result(root, kinds, jobs):
    found = grade(root, f"mixed {jobs} {kinds[0]}", kinds, jobs)
    points = {result["student"]: result["points"] for result in map(json.loads, found.values())}
    assert points["good-in-a-folder"] == points["good-flat"] == FULL
    first = root / f"mixed 1 {MIXED[0]}"
    assert found == (files(first) if first.exists() else found)


@pytest.mark.parametrize("name", REAL)
def test_a_source_of_the_course_gets_full_marks_when_handed_in(tmp_path, name):
    handed = tmp_path / "class"
    handed.mkdir()
    for student, kind in (("teacher", "solutions"), ("nobody", "assignments")):
        shutil.copy(COURSE / kind / name / f"{name}.ipynb", handed / f"{student}.ipynb")
    job = Job(name, handed, tmp_path / "out", COURSE, Limits(cell=300, whole=900))
    found = {result.student: result for result in job.results(1)}
    assert found["teacher"].points == found["teacher"].of and found["teacher"].status == "graded"
    assert found["nobody"].points == 0 and found["nobody"].status == "not_attempted"


def test_a_batch_killed_in_the_middle_ends_as_if_it_had_not_been(root):
    handed = hand_in(root, root / "killed class", MIXED)
    command = [sys.executable, "-m", "minirl.cli", "grade", "a2", str(handed), "--root", str(root), "-j", "1"]
    command += ["--cell-limit", str(LIMITS.cell), "--limit", str(LIMITS.whole), "--out", str(root / "killed")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ})
    until = time.monotonic() + 200
    while len(list((root / "killed").glob("results/*.json"))) < 3 and time.monotonic() < until:
        time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = files(root / "killed")
    assert 3 <= len(before) < len(MIXED)
    again = subprocess.run([*command, "--resume"], capture_output=True, text=True)
    assert again.returncode == 1, again.stderr
    after = files(root / "killed")
    assert before.items() <= after.items()
    assert after == grade(root, "not killed", MIXED, 1)
