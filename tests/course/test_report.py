"""What is made of results: the class in numbers, its page, the students' pages, and what was decided by hand."""

import csv
import json

import pytest

from minirl.cli import main
from minirl.course import report
from minirl.course.pages import page
from minirl.course.tally import kinds, ranked, reasons, shares, together

MISTAKE = "this is the mean; the best weighs <b>more</b>."


def mark(question, status, points, of, message="", mistake=None, review=""):
    what = {"question": question, "check": f"{question}-check", "title": f"title of {question}", "status": status}
    return what | {"points": points, "of": of, "message": message, "mistake": mistake, "review": review}


def result(student, status, *marks, notes=(), **more):
    what = {"student": student, "assignment": "a1", "status": status, "points": sum(each["points"] for each in marks)}
    what |= {"of": 5, "file": f"{student}.ipynb", "fingerprint": "", "isolation": "full", "notes": list(notes)}
    return what | {"questions": list(marks)} | more


DOUBT = {"message": "by hand.", "review": "the secret reason"}
STUB = "not started yet. Think of <i>."
CLASS = [
    result("ann", "graded", mark("q1", "passed", 2, 2), mark("q2", "passed", 3, 3)),
    result("ben", "graded", mark("q1", "passed", 2, 2), mark("q2", "wrong", 0, 3, MISTAKE + " At 0.", MISTAKE)),
    result("cy", "graded", mark("q1", "wrong", 0, 2, "the shape is off."), mark("q2", "wrong", 0, 3, MISTAKE, MISTAKE)),
    result("di", "timeout", mark("q1", "timeout", 0, 2, "it did not end."), mark("q2", "passed", 3, 3)),
    result("ed", "needs_review", mark("q1", "needs_review", 0, 2, **DOUBT), mark("q2", "needs_review", 0, 3, **DOUBT)),
    result("=fay", "not_attempted", mark("q1", "not_started", 0, 2, STUB), mark("q2", "not_started", 0, 3, STUB)),
    result("gil", "unreadable", notes=["it is cut off"]),
]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "results").mkdir()
    for each in CLASS:
        (tmp_path / "results" / f"{each['student'].strip('=')}.json").write_text(json.dumps(each), "utf-8")
    return tmp_path


def decided(folder, *lines, head="student_id,question,points,comment"):
    (folder / "by_hand.csv").write_text("\n".join([head, *lines]), "utf-8")
    return {each["student"]: each for each in report.write(folder)}


def test_the_class_is_counted():
    whole = together(CLASS)
    assert kinds(whole["questions"]["q1"]) == {"passed": 2, "not right": 1, "not started": 1, "stopped or in doubt": 2}
    assert kinds(whole["questions"]["q2"]) == {"passed": 2, "not right": 2, "not started": 1, "stopped or in doubt": 1}
    assert ranked(whole) == [(2, "q2", MISTAKE)] and whole["questions"]["q1"]["unnamed"] == 1
    assert [*shares([5, 4, 3.75, 2.5, 2.4, 1.25, 0], 5).values()] == [1, 2, 1, 2, 1]
    assert reasons(CLASS[3]) == ["in q1"] and reasons(CLASS[4]) == ["in every question", "the secret reason"]


def test_the_screen_shows_what_was_not_understood(folder):
    said = report.summary(report.write(folder))
    assert f"q2       {'█' * 7}{'░' * 13}    2 of 6  title of q2" in said
    assert f"2 × q2 {MISTAKE}" in " ".join(said.split()) and "ed: needs_review: in every question" in said
    assert max(map(len, said.splitlines())) <= 80


def test_the_class_has_a_page(folder):
    report.write(folder)
    text = (folder / "report.html").read_text("utf-8")
    assert "2 passed, 2 not right, 1 not started, 1 stopped or in doubt" in text
    assert "this is the mean; the best weighs &lt;b&gt;more&lt;/b&gt;." in text and "<b>" not in text
    assert "mean 1.8, median 1 of 5 points" in text  # of ann, ben, cy and fay
    assert "the secret reason" in text and "To look at: 3" in text and 'href="' not in text
    for each in report.results(folder):
        assert f"<a href='feedback/{each['key']}.html'>" in text and (folder / f"feedback/{each['key']}.html").exists()


def test_a_students_page_says_nothing_of_the_grader():
    doubted = page(CLASS[4])
    assert "secret" not in doubted and "0 of 5 points so far" in doubted and "attacks" not in doubted
    broken = page(result("hal", "grader_error", notes=["grading stopped with OSError: /srv/teacher/secret"]))
    assert "secret" not in broken and "not your fault" in broken


def test_the_line_that_stopped_is_shown_as_code_and_as_text():
    crash = 'your code stopped with ValueError: a <b> (line 4: raise ValueError("a <b>"))'
    text = page(result("ida", "graded", mark("q1", "error", 0, 2, crash)))
    assert "in line 4 of the cell:<br><code>raise ValueError(&quot;a &lt;b&gt;&quot;)</code>" in text
    assert "Not started yet" not in page(CLASS[5]) and "Think of &lt;i&gt;." in page(CLASS[5])


def test_what_is_decided_by_hand_counts_everywhere(folder):
    found = decided(folder, 'di,q1,1,"Right idea, no end."', "ed,,,We have talked.", "gil,,4,On paper.", "'=fay,,2,")
    assert [found[name]["points"] for name in ("di", "ed", "gil", "=fay")] == [4, 0, 4, 2]
    assert {found[name]["status"] for name in ("di", "ed", "gil", "=fay")} == {"graded"}
    rows = {row["student_id"]: row for row in csv.DictReader((folder / "grades.csv").read_text("utf-8").splitlines())}
    assert (rows["di"]["score"], rows["di"]["q1"], rows["di"]["q2"]) == ("4", "1", "3")
    shown = (folder / "feedback" / "di.html").read_text("utf-8")
    assert "Right idea, no end." in shown and "✎ decided by hand" in shown and "1 of 2 points" in shown
    assert "We have talked." in (folder / "feedback" / "ed.html").read_text("utf-8")
    assert "Decided by hand: =fay, di, ed, gil".replace("=", "'=") in report.summary([*found.values()])


def test_a_question_decided_does_not_settle_another(folder):
    assert decided(folder, "ed,q1,2,")["ed"]["status"] == "needs_review"
    settled = decided(folder, "ed,q1,2,", "ed,q2,3,")["ed"]
    assert (settled["status"], settled["points"]) == ("graded", 5)


def test_full_points_by_hand_are_no_mistake(folder):
    decided(folder, "ben,q2,3,")
    whole = json.loads((folder / "results.json").read_text("utf-8"))
    assert whole["questions"]["q2"]["mistakes"] == {MISTAKE: 1} and whole["questions"]["q2"]["statuses"]["passed"] == 3


def test_a_spreadsheets_table_is_read(folder):
    (folder / "by_hand.csv").write_text("student_id;question;points;comment\ndi;q1;1,5;Zoë\n", "utf-8-sig")
    assert {each["student"]: each["points"] for each in report.results(folder)}["di"] == 4.5


@pytest.mark.parametrize(
    "line, sentence",
    [
        ("zed,,1,", "row 2: no student 'zed' has a result"),
        ("di,q9,1,", "has no question 'q9'; expected one of: q1, q2"),
        ("di,q1,3,", "'3' is no number of points from 0 to 2; a bonus belongs"),
        ("di,q1,many,", "'many' is no number of points"),
        ("gil,q1,1,", "has no question 'q1'; expected one of: none"),
    ],
)
def test_what_cannot_be_followed_is_said_with_its_row(folder, capsys, line, sentence):
    (folder / "by_hand.csv").write_text(f"student_id,question,points,comment\n{line}\n", "utf-8")
    with pytest.raises(SystemExit) as exit:
        main(["report", str(folder)])
    assert exit.value.code == 2 and sentence in capsys.readouterr().err


def test_a_table_without_its_columns_is_refused(folder):
    with pytest.raises(ValueError, match="should be student_id,question,points,comment"):
        decided(folder, "di,1", head="student,points")
