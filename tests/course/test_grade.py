"""The grader from end to end, on a few submissions of each sort; all of them: test_grade_corpus.py."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import demo_assignment
import pytest
from handed_in import differences, hand_in
from submissions import FULL, KINDS, NAMED, PATCHES, RIGHT, book, saved

from minirl.cli import main
from minirl.course import kernel

FEW = (
    "good-in-a-folder", "cells-reversed", "a-known-mistake", "a-loop-without-end", "os-exit", "patches-judge",
    "untouched", "cut-off", "an-empty-folder", "another-assignment",
)  # fmt: skip


def run(*words) -> int:
    with pytest.raises(SystemExit) as exit:
        main([str(word) for word in words])
    return exit.value.code or 0


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    return demo_assignment.written(tmp_path_factory.mktemp("course"))


@pytest.fixture(scope="module")
def graded(root):
    """One batch that all tests below look at: its folder and exit code."""
    handed = hand_in(root, root / "class", FEW)
    out = root / "results of the class"
    code = run("grade", "a2", handed, "--out", out, "--root", root, "-j", 2, "--cell-limit", 8, "--gradescope")
    return out, code


def results(out: Path) -> list[dict]:
    return [json.loads(path.read_text("utf-8")) for path in sorted((out / "results").glob("*.json"))]


def test_everyone_gets_what_is_theirs(graded):
    out, code = graded
    found = results(out)
    assert [result["student"] for result in found] == sorted(FEW) and not differences(found)
    assert code == 1  # some need a look
    assert {result["isolation"] for result in found} == {kernel.isolation()}


def test_a_mistake_is_named(graded):
    by_student = {result["student"]: result for result in results(graded[0])}
    mark = by_student["a-known-mistake"]["questions"][0]
    assert mark["mistake"] == mark["message"] == NAMED
    together = json.loads((graded[0] / "results.json").read_text("utf-8"))
    assert together["questions"]["a2.q1a"]["mistakes"] == {NAMED: 1}
    assert together["statuses"]["needs_review"] == 1


def test_the_table_begins_with_nbgraders_columns(graded):
    with open(graded[0] / "grades.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    nbgrader = "assignment duedate timestamp student_id last_name first_name email raw_score late_submission_penalty"
    assert list(rows[0]) == [
        *nbgrader.split(), "score", "max_score", "status", "feedback", "a2.q1a", "a2.q1b", "a2.q2", "a2.q5",
    ]  # fmt: skip
    by_student = {row["student_id"]: row for row in rows}
    assert by_student["good-in-a-folder"]["score"] == by_student["good-in-a-folder"]["max_score"] == str(FULL)
    assert by_student["a-known-mistake"]["a2.q1a"] == "0" and by_student["a-known-mistake"]["a2.q5"] == "4"


def test_no_page_and_no_file_shows_a_hidden_test(graded):
    written = [path for path in graded[0].rglob("*") if path.is_file()]
    assert len(written) == 3 * len(FEW) + 3
    for path in written:
        text = path.read_text("utf-8")
        assert "hidden(" not in text and "2.5, -1.0" not in text and "BEGIN" not in text


def test_going_on_changes_nothing_that_is_finished(graded, root):
    out, _ = graded
    before = {path: path.stat().st_mtime_ns for path in (out / "results").iterdir()}
    again = run("grade", "a2", root / "class", "--out", out, "--root", root, "--resume")
    assert again == 1 and before == {path: path.stat().st_mtime_ns for path in (out / "results").iterdir()}


def test_results_are_not_written_over(graded, root, capsys):
    assert run("grade", "a2", root / "class", "--out", graded[0], "--root", root) == 2
    assert "has results already" in capsys.readouterr().err


def test_report_follows_a_hand_that_changed_a_result(graded, capsys):
    out, _ = graded
    path = out / "results" / "patches-judge.json"
    whole = path.read_text("utf-8")
    path.write_text(json.dumps(json.loads(whole) | {"status": "graded", "points": 1}), "utf-8")
    try:
        assert run("report", out) == 1
        said = capsys.readouterr().out
        assert (
            "patches-judge" not in said
            and "a-loop-without-end: timeout" in said
            and f"1 × a2.q1a   {NAMED}" in " ".join(said.split()).replace("a2.q1a ", "a2.q1a   ")
        )
        assert "patches-judge,,,,1,0,1,11,graded" in (out / "grades.csv").read_text("utf-8")
    finally:
        path.write_text(whole, "utf-8")
        run("report", out)


def test_a_student_sees_what_counts_before_handing_in(root, capsys):
    file = hand_in(root, root / "mine", ["a-known-mistake"]) / "a-known-mistake" / "a2.ipynb"
    assert run("check", file, "--root", root) == 1
    said = capsys.readouterr().out
    assert f"✘ a2.q1a centred deltas: {NAMED}" in said and "✔ a2.q5 token weights: passed." in said
    assert f"{FULL - 2} of {FULL} points in these checks" in said


def test_a_student_may_have_written_into_the_only_copy(root, tmp_path, capsys):
    (tmp_path / "assignments" / "a2").mkdir(parents=True)
    file = tmp_path / "assignments" / "a2" / "a2.ipynb"
    file.write_bytes(saved(book(root, **RIGHT)))
    assert run("check", file, "--root", tmp_path) == 0
    assert f"graded, {FULL} of {FULL} points" in capsys.readouterr().out


@pytest.mark.skipif(os.name != "posix", reason="no signal asks a process to end there")
def test_a_batch_that_is_told_to_end_leaves_nothing_behind(root, tmp_path):
    boxes, handed = tmp_path / "tmp", hand_in(root, tmp_path / "class", ["good-flat"])
    boxes.mkdir()
    command = [sys.executable, "-m", "minirl.cli", "grade", "a2", handed, "--root", root, "--out", tmp_path / "out"]
    process = subprocess.Popen(command, env={**os.environ, "TMPDIR": str(boxes)}, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 200
    while not list(boxes.glob("*/run/kernel.json")) and time.monotonic() < until:
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    assert "Traceback" not in process.communicate(timeout=60)[1] and process.returncode == 130
    assert not list(boxes.iterdir())
    assert str(boxes) not in subprocess.run(["ps", "-ewwo", "args"], capture_output=True, text=True).stdout


@pytest.mark.parametrize(
    "words, sentence",
    [
        (["a9", "class"], "there is no source"),
        (["a2", "nowhere"], "there is nothing at"),
        (["a2", "solutions/a2", "--isolation", "some"], "expected one of: full, limits, none"),
        (["a2", "assignments/a2/a2.ipynb", "-j", "0"], "greater than or equal to 1"),
    ],
)
def test_what_cannot_be_begun_is_said_in_one_sentence(root, graded, capsys, words, sentence):
    name, path, *more = words
    assert run("grade", name, root / path, "--out", root / "no results", "--root", root, *more) == 2
    said = capsys.readouterr().err
    assert sentence in said and "Traceback" not in said and not (root / "no results").exists()


def test_there_are_kinds_enough():
    assert len(KINDS) >= 60 and len(PATCHES) >= 10
