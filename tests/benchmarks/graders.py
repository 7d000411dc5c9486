"""Eight submissions that graders are known to treat badly, marked by minirl, nbgrader and otter: points and status.

    python tests/benchmarks/graders.py

The questions and their checks are the same for all three; what differs is what each does around them. nbgrader and
otter run where an environment has them, each named by its python:

    MINIRL_NBGRADER=/path/to/python    nbgrader 0.9.6; the kernel is minirl's own
    MINIRL_OTTER=/path/to/python       otter-grader 7.0, torch and minirl, as otter's kernel is its own python
"""

import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import nbformat
import psutil

sys.path.insert(0, str(Path(__file__).parents[1] / "course"))
import demo_assignment
from demo_assignment import HIDDEN, SOLUTIONS
from handed_in import hand_in
from submissions import FULL, KINDS

CELL = 60  # seconds that a cell may take, minirl's own default
HANGS = 120  # seconds of CPU after which a command is taken to have no end
GOOD = "good-in-a-folder"
TOGETHER = {
    "a test cell copied twice": "a-check-copied-twice",
    "a good student in the same batch": GOOD,
}
OTHERS = {
    "right work, test cells deleted": "checks-deleted",
    "right work, cells reversed": "cells-reversed",
    "right work, metadata stripped": "metadata-and-ids-lost",
    "right work that warns on stderr": "warns",
    "right work that prints to stdout": "prints",
    "wrong work that patches the checker": "patches-judge",
    "os._exit in question 1": "os-exit",
    "an infinite loop in question 1": "a-loop-without-end",
}


@dataclass(frozen=True)
class Got:
    """What a grader gave, None where it gave nothing, and what it said."""

    points: float | None
    said: str = ""

    def __str__(self) -> str:
        return f"{'–' if self.points is None else format(self.points, 'g')} {self.said}"


def run(command: list, folder: Path, **environment: str) -> str | None:
    """What a command printed, or None where it had no end."""
    path = f"{Path(command[0]).parent}:{os.environ['PATH']}"  # nbgrader calls alembic by its name
    given = {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1", "MINIRL_FAST": "1", **environment}
    words, log = [str(word) for word in command], folder / "log"
    with open(log, "w") as out:
        process = psutil.Popen(words, cwd=folder, env=given, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
        tree = [process, *process.children(recursive=True)]
        if any(cpu(each) > HANGS for each in tree):
            for each in tree:
                with suppress(psutil.NoSuchProcess):
                    each.kill()
            process.wait()
            return None
        time.sleep(1)
    process.wait()
    return log.read_text("utf-8", "replace")


def cpu(process: psutil.Process) -> float:
    try:
        return sum(process.cpu_times()[:2])
    except psutil.NoSuchProcess:
        return 0


def by_minirl(root: Path, folder: Path, kinds: list[str]) -> dict[str, Got]:
    handed, out = hand_in(root, folder / "class", kinds), folder / "out"
    command = [sys.executable, "-m", "minirl.cli", "grade", "a2", handed, "--out", out, "--root", root]
    run([*command, "-j", 1, "--cell-limit", CELL], folder)
    found = map(json.loads, (path.read_text("utf-8") for path in out.glob("results/*.json")))
    return {each["student"]: Got(each["points"], each["status"]) for each in found}


def by_nbgrader(root: Path, folder: Path, kinds: list[str]) -> dict[str, Got]:
    nbgrader = [os.environ["MINIRL_NBGRADER"], "-m", "nbgrader"]
    settings = {"JUPYTER_PATH": str(kernel_of_minirl(folder)), "JUPYTER_CONFIG_DIR": str(folder)}
    (folder / "source" / "a2").mkdir(parents=True)
    nbformat.write(demo_assignment.source(), folder / "source" / "a2" / "a2.ipynb")
    for path in hand_in(root, folder / "handed", kinds).glob("*/a2.ipynb"):
        target = folder / "submitted" / path.parent.name / "a2" / "a2.ipynb"
        target.parent.mkdir(parents=True)
        target.write_bytes(path.read_bytes())
    run([*nbgrader, "generate_assignment", "a2"], folder, **settings)
    limit = f"--ExecutePreprocessor.timeout={CELL}"
    said = run([*nbgrader, "autograde", "a2", limit], folder, **settings)
    run([*nbgrader, "export"], folder, **settings)
    return {kind: from_nbgrader(folder, kind, said) for kind in kinds}


def from_nbgrader(folder: Path, student: str, said: str | None) -> Got:
    """Its grade, where it has one; a notebook that could not be run is taken back from `autograded`."""
    with open(folder / "grades.csv", encoding="utf-8", newline="") as file:
        rows = {row["student_id"]: row for row in csv.DictReader(file)}
    if (folder / "autograded" / student / "a2" / "a2.ipynb").exists() and student in rows:
        return Got(float(rows[student]["score"]), "graded")
    failed = said and f"processing assignment 'a2' for student '{student}'" in said
    return Got(None, "hangs" if said is None else "failed" if failed else "the batch was aborted")


def kernel_of_minirl(folder: Path) -> Path:
    """A kernelspec by the name that notebooks ask for, with torch and minirl in it."""
    place = folder / "jupyter" / "kernels" / "python3"
    place.mkdir(parents=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (place / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": "minirl", "language": "python"}))
    return folder / "jupyter"


OTTER_TEST = """OK_FORMAT = True

code = '''
>>> import torch
>>> from minirl.course.check import hidden, passed
>>> passed("a2.{label}", {function})
True
>>> hidden("a2.{label}", {function}, cases={cases})
'''
test = {{"name": "{label}", "points": {points}, "suites": [{{"cases": [{{"code": code}}], "type": "doctest"}}]}}
"""


def by_otter(root: Path, folder: Path, kinds: list[str]) -> dict[str, Got]:
    """With tests as doctests, which `otter assign` writes where nothing else is said."""
    otter = [os.environ["MINIRL_OTTER"], "-m", "otter"]
    (folder / "tests").mkdir()
    for label, (function, *_, points) in SOLUTIONS.items():
        test = OTTER_TEST.format(label=label, function=function, points=points, cases=HIDDEN[label])
        (folder / "tests" / f"{label}.py").write_text(test)
    run([*otter, "generate", "-t", "tests", "-o", "autograder.zip", "--no-environment"], folder)
    found = {}
    for path in hand_in(root, folder / "handed", kinds).glob("*/a2.ipynb"):
        out = folder / "out" / path.parent.name
        out.mkdir(parents=True)
        path.write_text(json.dumps(with_otters_cells(json.loads(path.read_bytes()))), "utf-8")
        said = run([*otter, "run", "-a", "autograder.zip", "-o", out, path], folder)
        found[path.parent.name] = from_otter(out / "results.json", said)
    return found


def with_otters_cells(notebook: dict) -> dict:
    """The same submission as otter's students have it: its own object, and its own calls for checks."""
    for cell in notebook["cells"]:
        lines = "".join(cell["source"]).splitlines()
        lines = [
            f'grader.check("{line.split(chr(34))[1][3:]}")' if line.startswith("check(") else line for line in lines
        ]
        if lines and lines[0] == "import torch":
            lines += ["import otter", 'grader = otter.Notebook(tests_dir="tests")']
        cell["source"] = "\n".join(lines)
    return notebook


def from_otter(path: Path, said: str | None) -> Got:
    if not path.exists():
        last = [line.strip() for line in (said or "").splitlines() if line.strip()]
        return Got(None, "hangs" if said is None else f"no result: {(last or ['nothing is said'])[-1][:40]}")
    tests = json.loads(path.read_text("utf-8"))["tests"]
    return Got(sum(test.get("score", 0) for test in tests), "graded")


GRADERS = {"MINIRL_NBGRADER": by_nbgrader, "MINIRL_OTTER": by_otter}


def main() -> None:
    there = [by_minirl, *(grade for where, grade in GRADERS.items() if where in os.environ)]
    with tempfile.TemporaryDirectory(prefix="graders-") as place:
        root, found = demo_assignment.written(Path(place) / "course"), {}
        for grade in there:
            found[grade] = {}
            for number, batch in enumerate((TOGETHER, OTHERS)):
                folder = Path(place) / f"{grade.__name__} {number}"
                folder.mkdir()
                found[grade] |= grade(root, folder, list(batch.values()))
    row = "{:<36} {:<9} " + " {:<32}" * len(there)
    print(row.format(f"points of {FULL}, and status", "deserved", *(grade.__name__[3:] for grade in there)))
    for title, kind in {**TOGETHER, **OTHERS}.items():
        print(row.format(title, f"{KINDS[kind].points:g}", *(str(found[grade].get(kind, "–")) for grade in there)))


if __name__ == "__main__":
    main()
