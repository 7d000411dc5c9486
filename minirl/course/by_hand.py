"""What somebody decides by hand: RESULTS/by_hand.csv, a table that no grading writes over.

    student_id,question,points,comment
    hana,a1.q3b,1,"The idea is right, but the loop never ends."
    lea,,,We have talked about the cell that hides errors.
    mo,,20,Shown on paper in the office hour.

A line with a question gives that question other points. One without accepts the student's result as it is, or with
points, says what the whole is worth. The comment goes to the student's page. A line holds for what is handed in later,
too, until you delete it.
"""

import csv
import io
from pathlib import Path

from minirl.course.marks import WORST

COLUMNS = ("student_id", "question", "points", "comment")


def apply(path: Path, students: dict[str, dict]) -> None:
    """Put what the table says into results; ValueError with the line that cannot be followed."""
    for number, row in enumerate(rows(path), 2):
        try:
            decide(students, *row)
        except ValueError as error:
            raise ValueError(f"{path}, row {number}: {error}") from None


def rows(path: Path) -> list[list[str]]:
    """The four columns of each row, as a spreadsheet saves them: with its byte-order mark, commas or semicolons."""
    if not path.exists():
        return []
    text = path.read_text("utf-8-sig")
    reader = csv.DictReader(io.StringIO(text), delimiter=";" if ";" in text.partition("\n")[0] else ",")
    if not set(COLUMNS) <= set(reader.fieldnames or []):
        raise ValueError(f"the first row of {path} should be {','.join(COLUMNS)}")
    return [[(row[name] or "").strip() for name in COLUMNS] for row in reader]


def decide(students: dict[str, dict], student: str, question: str, points: str, comment: str) -> None:
    if student not in students:
        raise ValueError(f"no student {student!r} has a result; take the name from grades.csv")
    result = students[student]
    if question:
        question_decided(result, question, points, comment)
    else:
        whole_decided(result, points, comment)
    if not question or not any(mark["status"] in WORST for mark in result["questions"]):
        result["status"] = "graded"
    result["by_hand"] = True


def whole_decided(result: dict, points: str, comment: str) -> None:
    result["points"] = number(points, result["of"]) if points else result["points"]
    result["notes"] = [*result["notes"], *filter(None, [comment])]
    for mark in result["questions"]:
        if mark["status"] == "needs_review":  # somebody has looked
            mark |= {"status": "by_hand", "message": ""}


def question_decided(result: dict, question: str, points: str, comment: str) -> None:
    mark = next((mark for mark in result["questions"] if mark["question"] == question), None)
    if mark is None:
        known = ", ".join(mark["question"] for mark in result["questions"])
        raise ValueError(f"{result['student']} has no question {question!r}; expected one of: {known or 'none'}")
    new = number(points, mark["of"]) if points else mark["points"]
    result["points"] += new - mark["points"]
    mark |= {"points": new, "status": "by_hand", "comment": comment}
    if new == mark["of"]:
        mark |= {"status": "passed", "mistake": None}


def number(text: str, most: float) -> float:
    try:
        points = float(text.replace(",", "."))
    except ValueError:
        points = -1.0
    if not 0 <= points <= most:
        raise ValueError(f"{text!r} is no number of points from 0 to {most:g}; a bonus belongs in your gradebook")
    return points
