"""Results in the forms that others read: grades.csv, results.json, a page for each student, and Gradescope's."""

import csv
import html
import io
import json
import os
from collections import Counter
from pathlib import Path

from minirl.course.marks import FINE

NBGRADER = (
    "assignment", "duedate", "timestamp", "student_id", "last_name", "first_name", "email",
    "raw_score", "late_submission_penalty", "score", "max_score",
)  # fmt: skip
FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n")  # what a spreadsheet would run
THREATS = (
    "Grading stops accidents and casual cheating: your code runs with the checks in one process, so it does not "
    "protect against somebody who attacks it in earnest."
)
ISOLATION = {
    "full": "no network, no other processes, no files but its own, and limits on time and memory",
    "limits": "limits on time and memory, but with the network and all files of this user",
    "none": "no protection at all on this system",
    "": "not run",
}
STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem;color:#222}"
    "table{border-collapse:collapse;width:100%}td,th{border-bottom:1px solid #ccc;padding:.4rem;text-align:left;"
    "vertical-align:top}.points{white-space:nowrap}small{color:#555}"
)
WORDS = {
    "passed": "✔ passed", "wrong": "✘ not right", "error": "✘ error in your code", "not_started": "– not started",
    "timeout": "✘ too slow", "kernel_died": "✘ ended Python", "out_of_memory": "✘ too much memory",
    "needs_review": "? to be looked at",
    "graded": "graded", "not_attempted": "nothing was written yet", "missing": "nothing was handed in",
    "unreadable": "the file could not be read", "wrong_assignment": "this is another notebook",
    "grader_error": "grading failed; it is not your fault and will be done again",
}  # fmt: skip


def results(out: Path) -> list[dict]:
    """All results in a folder, by student; ValueError with the file that is not one."""
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
    return sorted(found, key=lambda result: result["student"])


def write(out: Path, gradescope: bool = False) -> list[dict]:
    """Write everything anew from RESULTS/results; returns the results."""
    found = results(out)
    put(out / "grades.csv", table(found))
    put(out / "results.json", json.dumps(together(found), indent=1) + "\n")
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
    return f"'{line}" if line.startswith(FORMULAS) else line


def table(found: list[dict]) -> str:
    """nbgrader's columns, so that what reads them goes on working; then the status, and the points of each question."""
    ids = list(dict.fromkeys(mark["question"] for result in found for mark in result["questions"]))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*NBGRADER, "status", *ids])
    for result in found:
        own = {mark["question"]: f"{mark['points']:g}" for mark in result["questions"]}
        score = f"{result['points']:g}"
        row = [result["assignment"], "", "", result["student"], "", "", "", score, "0", score, f"{result['of']:g}"]
        writer.writerow([safe(each) for each in [*row, result["status"], *(own.get(id, "0") for id in ids)]])
    return text.getvalue()


def together(found: list[dict]) -> dict:
    """The class: how many got what, and which mistakes were made how often."""
    questions: dict[str, dict] = {}
    for result in found:
        for mark in result["questions"]:
            each = questions.setdefault(mark["question"], {"title": mark["title"], "of": mark["of"]})
            each.setdefault("statuses", Counter())[mark["status"]] += 1
            if mark["mistake"]:
                each.setdefault("mistakes", Counter())[mark["mistake"]] += 1
    for each in questions.values():
        each["mistakes"] = dict(each.get("mistakes", Counter()).most_common())
        each["statuses"] = dict(sorted(each["statuses"].items()))
    statuses = dict(sorted(Counter(result["status"] for result in found).items()))
    students = [{name: value for name, value in result.items() if name != "key"} for result in found]
    return {"statuses": statuses, "questions": questions, "students": students}


def summary(found: list[dict]) -> str:
    """The class on one screen."""
    whole = together(found)
    taken = [result["points"] for result in found if result["status"] in FINE]
    mean = f", {sum(taken) / len(taken):.1f} of {found[0]['of']:g} points on average" if taken else ""
    lines = [f"{len(found)} submissions, {len(taken)} graded without trouble{mean}"]
    for id, each in whole["questions"].items():
        count = sum(each["statuses"].values())
        lines.append(f"  {id:<10} {each['statuses'].get('passed', 0):>4} of {count} passed   {each['title']}")
        lines += [f"  {'':<10} {number:>4} × {says}" for says, number in list(each["mistakes"].items())[:3]]
    look = [result for result in found if result["status"] not in FINE]
    lines += [f"To look at: {len(look)}"] if look else []
    lines += [f"  {safe(result['student'])}: {result['status']}{reasons(result)}" for result in look]
    kinds = sorted({result["isolation"] for result in found} - {""})
    lines += [f"Isolation: {kind} ({ISOLATION[kind]})" for kind in kinds]
    return "\n".join(lines)


def reasons(result: dict) -> str:
    said = [mark["review"] for mark in result["questions"] if mark["review"]] + result["notes"]
    return f" ({said[0]})" if said else ""


def page(result: dict) -> str:
    """What a student gets back: sentences and hints, no test."""
    rows = "".join(
        f"<tr><th scope='row'>{escaped(mark['question'])}<br><small>{escaped(mark['title'])}</small></th>"
        f"<td>{'<br>'.join(map(escaped, found_out(mark)))}</td>"
        f"<td class='points'>{mark['points']:g} of {mark['of']:g}</td></tr>"
        for mark in result["questions"]
    )
    notes = "".join(f"<li>{escaped(note)}</li>" for note in result["notes"])
    heading = f"{escaped(result['assignment'])} · {escaped(result['student'])}"
    table = f"<table><tr><th>Question</th><th>What was found</th><th>Points</th></tr>{rows}</table>" if rows else ""
    return (
        f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{heading}</title><style>{STYLE}</style>"
        f"<h1>{heading}</h1><p><strong>{result['points']:g} of {result['of']:g} points</strong>, "
        f"{escaped(WORDS.get(result['status'], result['status']))}.</p>{table}{notes and f'<ul>{notes}</ul>'}"
        f"<p><small>{THREATS} Isolation: {escaped(ISOLATION.get(result['isolation'], ''))}.</small></p></html>\n"
    )


def found_out(mark: dict) -> list[str]:
    """What a question got, in a word, and the sentence beside it where there is one."""
    return [WORDS.get(mark["status"], mark["status"]), *filter(None, [mark["message"]])]


def escaped(text) -> str:
    return html.escape(str(text), quote=True)


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
    return {"score": result["points"], "output": "\n".join(said), "output_format": "text", "tests": tests}
