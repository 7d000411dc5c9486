"""Results in the forms that others read: grades.csv, results.json, pages, one screen, and Gradescope's."""

import csv
import io
import json
import os
import shutil
import textwrap
from pathlib import Path
from statistics import mean

from minirl.course import by_hand
from minirl.course.answers import shortly
from minirl.course.class_page import ISOLATION, MOST, class_page
from minirl.course.marks import FINE
from minirl.course.pages import WORDS, found_out, page
from minirl.course.tally import kinds, ranked, reasons, taken, together

NBGRADER = (
    "assignment", "duedate", "timestamp", "student_id", "last_name", "first_name", "email",
    "raw_score", "late_submission_penalty", "score", "max_score",
)  # fmt: skip
FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n")  # what a spreadsheet would run
WIDTH = 20  # letters of a bar


def results(out: Path) -> list[dict]:
    """All results in a folder, by student, with what was decided by hand; ValueError with the file that is not one."""
    found = []
    for path in sorted((out / "results").glob("*.json")):
        try:
            result = json.loads(path.read_text("utf-8"))
            result["student"], result["questions"], result["points"]
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path} is not a result that minirl grade wrote ({type(error).__name__})") from None
        found.append(result | {"key": path.stem})
    if not found:
        raise ValueError(f"there are no results in {out}: expected files in {out / 'results'}")
    by_hand.apply(
        out / "by_hand.csv", {name: each for each in found for name in (each["student"], safe(each["student"]))}
    )
    return sorted(found, key=lambda result: result["student"])


def write(out: Path, gradescope: bool = False) -> list[dict]:
    """Write everything anew from RESULTS/results; returns the results."""
    found = results(out)
    whole = together(found)
    put(out / "grades.csv", table(found))
    put(out / "results.json", json.dumps(whole, indent=1) + "\n")
    put(out / "report.html", class_page(found, whole))
    for result in found:
        put(out / "feedback" / f"{result['key']}.html", page(result))
        if gradescope:
            put(out / "gradescope" / f"{result['key']}.json", json.dumps(for_gradescope(result), indent=1) + "\n")
    return found


def put(path: Path, text: str) -> None:
    """A whole file or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_name(f".{path.name}.half")
    half.write_text(text, "utf-8", errors="backslashreplace", newline="")
    os.replace(half, path)


def safe(text) -> str:
    """A cell that no spreadsheet runs."""
    line = str(text).replace("\0", "")
    return f"'{line}" if line.lstrip(" ").startswith(FORMULAS) else line


def table(found: list[dict]) -> str:
    """nbgrader's columns, so that what reads them goes on working; then status, page, and points of each question."""
    ids = list(dict.fromkeys(mark["question"] for result in found for mark in result["questions"]))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*NBGRADER, "status", "feedback", *ids])
    for result in found:
        own = {mark["question"]: f"{mark['points']:g}" for mark in result["questions"]}
        score = f"{result['points']:g}"
        row = [result["assignment"], "", "", result["student"], "", "", "", score, "0", score, f"{result['of']:g}"]
        row += [result["status"], f"feedback/{result['key']}.html", *(own.get(id, "0") for id in ids)]
        writer.writerow(map(safe, row))
    return text.getvalue()


def summary(found: list[dict]) -> str:
    """The class on one screen."""
    whole, points = together(found), taken(found)
    said = f", these with {mean(points):.1f} of {found[0]['of']:g} points on average" if points else ""
    lines = [f"{len(found)} submissions, {len(points)} graded without trouble{said}"]
    lines += [bar(id, each) for id, each in whole["questions"].items()]
    made = ranked(whole)
    lines += ["Most frequent mistakes:"] if made else []
    lines += [hung(f"  {count:>4} × {id:<8} ", says) for count, id, says in made[:MOST]]
    look = [result for result in found if result["status"] not in FINE]
    lines += [f"To look at: {len(look)}"] if look else []
    lines += [hung(f"  {safe(each['student'])}: ", ": ".join([each["status"], *reasons(each)])) for each in look]
    by_hand = [safe(result["student"]) for result in found if result.get("by_hand")]
    lines += [hung("Decided by hand: ", ", ".join(by_hand))] if by_hand else []
    kept = sorted({result["isolation"] for result in found} & set(ISOLATION))
    return "\n".join([*lines, *(hung("Isolation: ", f"{kind} ({ISOLATION[kind]})") for kind in kept)])


def bar(id: str, question: dict) -> str:
    """How many passed a question, as a line of text."""
    passed, count = kinds(question)["passed"], sum(question["statuses"].values())
    return f"  {id:<8} {'█' * round(WIDTH * passed / count):░<{WIDTH}} {passed:>4} of {count}  {question['title']}"


def hung(head: str, text: str) -> str:
    """A paragraph as wide as the terminal, with its first words in the margin."""
    indent = " " * min(len(head), 18)
    return textwrap.fill(shortly(head + text, 2000), shutil.get_terminal_size().columns, subsequent_indent=indent)


def for_gradescope(result: dict) -> dict:
    """https://gradescope-autograders.readthedocs.io: one test a question."""
    tests = [
        {
            "name": f"{mark['question']} {mark['title']}",
            "score": mark["points"],
            "max_score": mark["of"],
            "status": "passed" if mark["status"] == "passed" else "failed",
            "output": "\n".join(found_out(mark)),
            "output_format": "text",
        }
        for mark in result["questions"]
    ]
    said = [WORDS.get(result["status"], result["status"]), *result["notes"]]
    shown = {"output": "\n".join(said), "output_format": "text", "stdout_visibility": "hidden"}
    return {"score": result["points"], **shown, "tests": tests}
