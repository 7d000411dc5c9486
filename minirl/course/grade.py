"""One student's work, from the file handed in to a result: kernel by kernel, whatever is in it."""

import hashlib
import secrets
from dataclasses import dataclass, field, replace
from pathlib import Path

import minirl
from minirl.course import run as running
from minirl.course.answers import Found, cells, is_stub, needs, shortly
from minirl.course.intake import Entry, Submission, Unusable
from minirl.course.kernel import isolation, unreadable
from minirl.course.marks import Mark, Reference, Result, in_trouble, judged, not_started, reference_of
from minirl.course.rebuild import Part, Template, Work, rebuilt, template, work
from minirl.course.run import Budget, Limits, Ran
from minirl.course.warm import Warm

MOST_KERNELS = 12  # for one submission
MOST_NOTEBOOKS = 20  # of one submission that are looked into


@dataclass
class Course:
    """What all students share: the assignment, what its own answers do, and what a kernel may use."""

    assignment: Template
    limits: Limits
    reference: Reference = field(default_factory=dict)
    fingerprint: str = ""
    warm: Warm | None = None  # held as long as kernels are wanted from it

    def prove(self) -> None:
        """Grade the instructor's own answers first; ValueError unless they get full marks on this machine."""
        answers = {part.answer_id: Found(part.solution) for part in self.assignment.parts}
        nonce = secrets.token_hex(8)
        ran = running.run(rebuilt(self.assignment, Work(answers, []), nonce), self.limits, self.limits.whole)
        if ran.broken:
            raise ValueError(f"no kernel can be run here ({ran.broken}); more --memory, or --isolation none, may help")
        self.reference = reference_of(self.assignment, ran, nonce)


def opened(name: str, root: Path, limits: Limits, hidden: list[Path]) -> Course:
    """An assignment ready to grade with: its own answers pass here, and it is known what kernels can be kept from."""
    assignment = template(name, root)
    folders = tuple(str(each.resolve()) for each in [*hidden, root])
    limits = replace(limits, isolation=limits.isolation or isolation(), hidden=folders)
    course = Course(assignment, limits, fingerprint=described(assignment))
    if limits.isolation == "full":
        course.warm = Warm(assignment.imports)
        course.limits = replace(limits, start=course.warm.command)
    elif limits.isolation == "limits":
        unreadable()
    course.prove()
    return course


def described(assignment: Template) -> str:
    """What grades: the assignment with its hidden tests, and minirl itself; where either is mended, all begins anew."""
    package = Path(minirl.__file__).parent
    texts = b"".join(path.read_bytes() for path in sorted(package.rglob("*.py")))
    return f"{hashlib.sha256(texts).hexdigest()} {assignment}"


def graded(course: Course, submission: Submission) -> Result:
    """A student's result; whatever goes wrong is this student's alone."""
    assignment = course.assignment
    result = Result(submission.student, assignment.name, "missing", 0, assignment.points)
    result.isolation = course.limits.isolation
    try:
        taken = chosen(assignment, submission, result)
    except Exception as error:
        result.status, result.notes = "unreadable", [shortly(error, 300)]
        return result
    if taken is None:
        return result
    result.notes += taken.notes
    try:
        result.conclude(Marking(course, taken, result.notes).marks())
    except Exception as error:  # the other students go on
        result.status = "grader_error"
        result.notes.append(f"grading stopped with {type(error).__name__}: {shortly(error, 300)}")
    return result


def chosen(assignment: Template, submission: Submission, result: Result) -> Work | None:
    """The work to grade, or None where there is none; `result` is told which notebook that is, or what is missing."""
    if not submission.notebooks:
        if submission.refused:
            raise Unusable(submission.refused)
        result.notes = ["no notebook was handed in"]
        return None
    taken, entry = fullest(assignment, submission.notebooks[:MOST_NOTEBOOKS])
    result.file = entry.name
    if len(submission.notebooks) > 1:
        result.notes.append(f"{len(submission.notebooks)} notebooks were handed in; {entry.name} was graded")
    if submission.refused:
        result.notes.append(submission.refused)
    if all(found.source is None for found in taken.answers.values()):
        result.status = "wrong_assignment"
        result.notes.append(f"no cell of {assignment.name} is in it")
        return None
    return taken


def fullest(assignment: Template, notebooks: list[Entry]) -> tuple[Work, Entry]:
    """The work with most answers, and where it lies; where no notebook can be read, the first one's error."""
    works, problems = [], []
    for entry in notebooks:
        try:
            works.append((work(assignment, cells(entry.read())), entry))
        except Exception as error:  # the next file may be whole
            problems.append(error)
    if not works:
        raise problems[0]
    return max(works, key=lambda each: len(written(assignment, each[0])))


def written(assignment: Template, taken: Work) -> list[Part]:
    """The questions that something was written for."""
    sources = [(part, taken.answers[part.answer_id].source) for part in assignment.parts]
    return [part for part, source in sources if source is not None and not is_stub(source, part.stub)]


class Marking:
    """One student's questions; after a trouble, what is left runs again with the instructor's answer in its place."""

    def __init__(self, course: Course, taken: Work, notes: list[str]):
        self.course, self.taken, self.notes = course, taken, notes
        self.parts = course.assignment.parts
        self.done: dict[str, Mark] = {part.check_id: not_started(part) for part in self.parts}
        self.judged: set[str] = set()  # the check_ids of those in `done` whose cells have been run
        self.open = written(course.assignment, taken)  # still to be run
        self.replaced: set[str] = set()  # the answer_ids for which the instructor's answers stand
        self.dropped: set[int] = set()  # helper cells that are left out
        self.doubted: list[Part] = []  # found doubtful together with the first, which was replaced
        self.charged: list[Part] = []  # charged with a trouble that a helper cell may have made

    def marks(self) -> list[Mark]:
        budget = Budget(self.course.limits.whole)
        for _ in range(MOST_KERNELS):
            if budget.left < 1 or not (self.open or self.carried()):
                break
            self.run_once(budget.left)
        for part in self.open:
            if part.check_id not in self.judged:
                self.done[part.check_id] = in_trouble(part, "timeout")
        return [self.done[part.check_id] for part in self.parts]

    def run_once(self, seconds: float) -> None:
        """Run all that is open in one kernel; what it cannot settle is open again afterwards."""
        nonce, checked = secrets.token_hex(8), [part.check_id for part in self.open]
        book = rebuilt(self.course.assignment, self.taken, nonce, self.replaced, checked, self.dropped)
        ran = running.run(book, self.course.limits, seconds)
        if ran.broken:
            raise RuntimeError(ran.broken)
        ended = [part for part in self.open if ran.ended(part.check_id)]
        for part in ended:
            made = judged(part, ran, nonce, self.course.reference, not self.replaced)
            if part.check_id not in self.judged or made.status in ("passed", "needs_review"):
                self.done[part.check_id] = made
            self.open.remove(part)
            self.judged.add(part.check_id)
        if ran.trouble:
            self.settle(ran)
        self.review(ended)

    def carried(self) -> bool:
        """Whether there is an answer that fails and calls another that fails: it gets the instructor's in its place."""
        own = [part for part in self.parts if part.answer_id not in self.replaced]
        failing = [part for part in own if self.done[part.check_id].status in ("wrong", "error", "not_started")]
        below = {part: self.below(part, failing) for part in failing}
        first = [part for part in failing if not below[part]]
        self.open = [part for part in failing if set(below[part]) & set(first)]
        used = {lower.answer_id for part in self.open for lower in below[part] if lower in first}
        self.replaced |= used
        self.notes += [f"{part.label} was judged as if what it builds upon were right" for part in self.open]
        return bool(self.open)

    def below(self, part: Part, others: list[Part]) -> list[Part]:
        """The other answers that a failing one calls."""
        source = self.taken.answers[part.answer_id].source
        called = needs(source or "") - set(part.names)
        return [other for other in others if other is not part and called & set(other.names)]

    def settle(self, ran: Ran) -> None:
        """Charge the trouble to the cell that it happened in."""
        kind, of = ran.at
        if kind == "helper":
            self.dropped.add(int(of))
            self.notes.append(f"one of the notebook's own cells was left out: {ran.trouble}")
            return
        guilty = next((part for part in self.parts if of in (part.answer_id, part.check_id)), None)
        if guilty is None or guilty.answer_id in self.replaced:
            self.settle_later(ran.trouble)
            return
        self.replaced.add(guilty.answer_id)
        if guilty in self.open:
            self.open.remove(guilty)
            self.charged.append(guilty)
            self.done[guilty.check_id] = in_trouble(guilty, ran.trouble)

    def settle_later(self, trouble: str) -> None:
        """In a cell of the instructor's it is the doing of one before: without the helpers, all charged try again."""
        left = set(range(len(self.taken.helpers))) - self.dropped
        if left:
            self.notes.append(f"the notebook's own cells were left out: with them there was {trouble} in others")
            self.open += self.charged
            self.replaced -= {part.answer_id for part in self.charged}
        else:
            self.done |= {part.check_id: in_trouble(part, trouble) for part in self.open}
            self.open = []
        self.dropped |= left
        self.charged = []

    def review(self, ended: list[Part]) -> None:
        """The first doubtful answer may have spoilt the kernel for the others: they get another one, without it."""
        found = [part for part in ended if self.done[part.check_id].status == "needs_review"]
        if not found or found == self.doubted:  # the same again: it is not one answer's doing
            return
        self.replaced.add(found[0].answer_id)
        self.doubted = found[1:]
        self.open += [part for part in ended if part != found[0] and self.done[part.check_id].status != "passed"]


def checked(file: Path, root: Path, seconds: float) -> Result:
    """A student's own look: the public checks alone, on the student's own machine."""
    notebook = cells(file.read_bytes())
    known = sorted(path.parent.name for path in root.glob("assignments/*/*.ipynb"))
    assignments = {name: template(name, root, public=True) for name in known}
    works = {name: work(assignment, notebook) for name, assignment in assignments.items()}
    answered = {name: sum(bool(found.source) for found in taken.answers.values()) for name, taken in works.items()}
    name = max(known, key=answered.__getitem__, default=None)
    if not name or not answered[name]:
        raise ValueError(f"{file} is none of the assignments in {root / 'assignments'}: {', '.join(known) or 'none'}")
    course = Course(assignments[name], Limits(cell=seconds, isolation="none"))
    return graded(course, Submission(file.stem, [Entry((file.name,), file.read_bytes)]))
