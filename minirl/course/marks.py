"""What a question gets, from what happened to its three cells: points where a check ran, passed and is believed."""

import re
from dataclasses import asdict, dataclass, field

from minirl.course.answers import shortly
from minirl.course.check import find
from minirl.course.rebuild import Part, Template
from minirl.course.run import Ran
from minirl.course.witness import agrees

FAILED = {"NotStarted": "not_started", "CodeStopped": "error", "Wrong": "wrong"}
TROUBLES = {"timeout": "timeout", "died": "kernel_died", "killed": "out_of_memory"}
WORST = ("grader_error", "needs_review", "out_of_memory", "kernel_died", "timeout")
FINE = ("graded", "not_attempted")
MEMORY = re.compile(r"MemoryError|not enough memory|Unable to allocate|can't allocate memory")
SAID = {
    "timeout": "it did not end in the time that a cell has, so it was stopped. Is there a loop without an end?",
    "kernel_died": "it ended the whole Python process, for example by exit() or a crash in compiled code.",
    "out_of_memory": "it asked for more memory than a notebook has, or was ended by the system as if it did.",
    "needs_review": "somebody will look at this by hand.",
}
Reference = dict[str, list[list[dict]]]  # by check: for each call in it, what the instructor's answer does


@dataclass
class Mark:
    """What one question got: passed, wrong, error, not_started, or a trouble that a submission can have."""

    question: str
    check: str
    title: str
    status: str
    points: float
    of: float
    message: str = ""
    mistake: str | None = None
    review: str = ""  # why somebody should look, for the instructor alone


@dataclass
class Result:
    """What one student got; `status` is the worst that happened."""

    student: str
    assignment: str
    status: str
    points: float
    of: float
    file: str = ""
    fingerprint: str = ""
    isolation: str = ""
    notes: list[str] = field(default_factory=list)
    questions: list[Mark] = field(default_factory=list)

    def conclude(self, marks: list[Mark]) -> None:
        self.questions, self.points = marks, sum(mark.points for mark in marks)
        found = {mark.status for mark in marks}
        worst = next((status for status in WORST if status in found), "graded")
        self.status = "not_attempted" if found == {"not_started"} else worst

    def as_dict(self) -> dict:
        return asdict(self)


def mark(part: Part, status: str, message: str = "", **more) -> Mark:
    question = find(part.question)
    points = part.points if status == "passed" else 0
    return Mark(question.id, part.check_id, question.title, status, points, part.points, message, **more)


def not_started(part: Part) -> Mark:
    return mark(part, "not_started", f"not started yet. {find(part.question).hint}")


def in_trouble(part: Part, trouble: str) -> Mark:
    return mark(part, TROUBLES[trouble], SAID[TROUBLES[trouble]])


def judged(part: Part, ran: Ran, nonce: str, reference: Reference) -> Mark:
    """The mark of a question whose cells have all been run."""
    check = ran.cells["check", part.check_id]
    before = [ran.cells.get((kind, part.answer_id), {}).get("error") for kind in ("answer", "between")]
    if not check["passed"]:
        return failed(part, check.get("error", ["", "the check did not end well"]), before[0] or before[1])
    shown = [each for each in ran.cells["witness", part.check_id].get("witnesses", []) if each.get("nonce") == nonce]
    called = [each["called"] for report in shown for each in report.get("seen", []) if "called" in each]
    if called:
        return mark(part, "wrong", f"your code calls minirl's own {shortly(called[0])}; here you write it yourself.")
    if reason := doubt(part, shown, ran.cells["canary", part.check_id], reference):
        return mark(part, "needs_review", SAID["needs_review"], review=reason)
    return mark(part, "passed")


def failed(part: Part, error: list[str], before: list[str] | None) -> Mark:
    """What a check said, or what kept it from saying something."""
    kind, words = error
    if MEMORY.search(kind + words):
        return mark(part, "out_of_memory", SAID["out_of_memory"])
    if kind in FAILED:
        question = find(part.question)
        known = (mistake.says for mistake in question.mistakes)
        said = words.removeprefix(f"✘ {question.id} {question.title}: ")
        return mark(part, FAILED[kind], said, mistake=next((says for says in known if said.startswith(says)), None))
    if before:
        return mark(part, "error", f"the cell with your answer stopped with {told(*before)}")
    if kind == "NameError" and (lost := next((name for name in part.checked if f"'{name}'" in words), None)):
        return mark(part, "error", f"there is no {lost} in your notebook; keep the names that the question gives.")
    return mark(part, "error", f"the check stopped with {told(kind, words)}")


def told(kind: str, words: str) -> str:
    """An exception in one line; of a cell's file only the line is kept."""
    words = re.sub(r"\(\S+\.py, line (\d+)\)", r"(line \1)", words)
    return f"{kind}: {shortly(words, 200)}" if words else kind


def doubt(part: Part, shown: list[dict], canary: dict, reference: Reference) -> str:
    """Why a passed check is not believed."""
    if canary["passed"] or canary.get("error", [""])[0] not in FAILED:
        return "its check accepts an answer that returns nothing: the notebook changes what a check does"
    if len(shown) != len(part.calls):
        return "what the answer does could not be seen from outside, though its check passed"
    if changed := [name for report in shown for name in report["changed"]]:
        return f"the notebook replaces {', '.join(map(shortly, changed[:3]))}"
    expected = reference.get(part.check_id) or [each.get("seen", []) for each in shown]  # a student's own look has none
    question = find(part.question)
    if all(agrees(question, ours, theirs.get("seen", [])) for ours, theirs in zip(expected, shown, strict=True)):
        return ""
    return "its check passed, but compared outside the kernel its results are not right"


def reference_of(assignment: Template, ran: Ran, nonce: str) -> Reference:
    """What the instructor's own answers do; ValueError where they do not get full marks here."""
    found = {part.check_id: [] for part in assignment.parts}
    for part in assignment.parts:
        shown = ran.cells.get(("witness", part.check_id), {}).get("witnesses", [])
        found[part.check_id] = [report.get("seen", []) for report in shown]
        if ran.trouble or not ran.cells[("check", part.check_id)]["passed"]:
            said = ran.trouble or ran.cells["check", part.check_id].get("error", ["", ""])[1]
            raise ValueError(f"the source's own answer to {part.question} does not pass here: {said}")
        if doubted := doubt(part, shown, ran.cells["canary", part.check_id], found):
            raise ValueError(f"the check of {part.question} cannot be relied upon: {doubted}")
    return found
