"""What a question gets, from what happened to its cells: points where its checks ran, passed and are believed.

What a student reads comes from the check that students have, made before any hidden test was in the kernel. Of all that
came later only the status is told, in sentences of our own: an answer could say there what it was given.
"""

import re
from dataclasses import asdict, dataclass, field, replace

from minirl.course.answers import shortly
from minirl.course.check import CALLS, HIDDEN_FAILED, find, judge, mistake_in
from minirl.course.rebuild import Part, Template
from minirl.course.run import Ran
from minirl.course.witness import agrees, replayed

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


def judged(part: Part, ran: Ran, nonce: str, reference: Reference, frank: bool = True) -> Mark:
    """The mark of a question whose cells have been run; not `frank`: in a kernel with answers of the instructor's."""
    cells = {kind: ran.cells.get((kind, part.check_id), {}) for kind in ("check", "hidden", "canary", "witness")}
    shown = {kind: evidence(cell, nonce) for kind, cell in cells.items()}
    failing = next((kind for kind in ("check", "hidden") if cells[kind] and not cells[kind]["passed"]), None)
    if failing is None:
        return believed(part, shown, cells["canary"], reference)
    made = failed(part, cells[failing].get("error", ["", "the check did not end well"]), error_before(part, ran))
    if not shown[failing] or shown[failing][0]["changed"]:
        made.mistake = None  # not to be counted: who knows what said so
    return made if frank and failing == "check" else reserved(made, part, failing)


def evidence(cell: dict, nonce: str) -> list[dict]:
    """What a cell has shown in this run, and in no other."""
    return [each for each in cell.get("witnesses", []) if isinstance(each, dict) and each.get("nonce") == nonce]


def error_before(part: Part, ran: Ran) -> list[str] | None:
    """What stopped the answer's own cell, or one of the instructor's that comes of it."""
    errors = [ran.cells.get((kind, part.answer_id), {}).get("error") for kind in ("answer", "between")]
    return errors[0] or errors[1]


def failed(part: Part, error: list[str], before: list[str] | None) -> Mark:
    """What a check said, or what kept it from saying something."""
    kind, words = error
    if MEMORY.search(kind + words):
        return mark(part, "out_of_memory", SAID["out_of_memory"])
    if kind in FAILED:
        question = find(part.question)
        said = words.removeprefix(f"✘ {question.id} {question.title}: ")
        return mark(part, FAILED[kind], said, mistake=mistake_in(question, said))
    if before:
        return mark(part, "error", f"the cell with your answer stopped with {told(*before)}")
    if kind == "NameError" and (lost := next((name for name in part.checked if f"'{name}'" in words), None)):
        return mark(part, "error", f"there is no {lost} in your notebook; keep the names that the question gives.")
    return mark(part, "error", f"the check stopped with {told(kind, words)}")


def reserved(made: Mark, part: Part, failing: str) -> Mark:
    """The same in a sentence that an answer had no part in."""
    fixed = HIDDEN_FAILED if failing == "hidden" else "it does not pass its check; run that to read why."
    made.message = SAID.get(made.status) or mistake_in(find(part.question), made.message) or fixed
    return made


def told(kind: str, words: str) -> str:
    """An exception in one line; of a cell's file only the line is kept."""
    words = re.sub(r"\(\S+\.py, line (\d+)\)", r"(line \1)", words)
    return f"{shortly(kind, 80)}: {shortly(words, 200)}" if words else shortly(kind, 80)


def believed(part: Part, shown: dict[str, list[dict]], canary: dict, reference: Reference) -> Mark:
    """The mark of a question whose checks passed: of its points, unless what was shown of the answer speaks against."""
    try:
        called = [each["called"] for report in shown["witness"] for each in report.get("seen", []) if "called" in each]
        reason = doubt(part, shown, canary, reference)
    except Exception as error:  # what was shown is not of our making
        called, reason = [], f"what was shown of it cannot be read ({type(error).__name__})"
    if called:
        return mark(part, "wrong", CALLS.format(shortly(called[0], 40)))
    if reason:
        return mark(part, "needs_review", SAID["needs_review"], review=reason)
    return mark(part, "passed")


def doubt(part: Part, shown: dict[str, list[dict]], canary: dict, reference: Reference) -> str:
    """Why a passed check is not believed."""
    if canary["passed"] or canary.get("error", [""])[0] not in FAILED:
        return "its check accepts an answer that returns nothing: the notebook changes what a check does"
    seen = [report for report in shown["witness"] if "seen" in report]
    if len(seen) != part.calls:
        return "what the answer does could not be seen from outside, though its check passed"
    if changed := [name for kind in shown.values() for report in kind for name in report["changed"]]:
        return f"the notebook replaces {', '.join(map(shortly, changed[:3]))}"
    if not reference:  # a student's own look has none
        return ""
    pairs = zip(reference[part.check_id], [report["seen"] for report in seen], strict=True)
    tape = [call for kind in ("check", "hidden") for report in shown[kind] for call in report["tape"]]
    if all(agrees(find(part.question), *pair) for pair in pairs) and passes(part, tape):
        return ""
    return "its check passed, but compared outside the kernel its results are not right"


def passes(part: Part, tape: list[dict]) -> bool:
    """Whether the instructor's own cell, run here, accepts what an answer that is looked at did in the kernel."""
    if find(part.question).cases is not None:
        return True
    names: dict = {}
    exec(part.imports, names)

    def witness(name: str, answer, cases=(), look=None) -> None:
        judge(replace(find(name), look=look or find(name).look), answer).insist()

    try:
        exec(part.witness, names | {name: replayed(tape) for name in part.checked} | {"witness": witness})
    except Exception:
        return False
    return True


def reference_of(assignment: Template, ran: Ran, nonce: str) -> Reference:
    """What the instructor's own answers do; ValueError where they do not get full marks here."""
    found = {part.check_id: [] for part in assignment.parts}
    for part in assignment.parts:
        shown = evidence(ran.cells.get(("witness", part.check_id), {}), nonce)
        found[part.check_id] = [report["seen"] for report in shown if "seen" in report]
        if ran.trouble:
            raise ValueError(f"the source's own answer to {part.question} does not pass here: {ran.trouble}")
        made = judged(part, ran, nonce, found)
        if made.status != "passed":
            said = made.review or made.message
            raise ValueError(f"the source's own answer to {part.question} does not pass here: {said}")
    return found
