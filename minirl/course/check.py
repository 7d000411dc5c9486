"""`check("a2.q1a", my_function)`: not started, an error in your code, wrong (and which known mistake), or passed.

What is wrong is said in a few lines and raised as an AssertionError, so that a test runner sees it too; no traceback of
ours is shown. Nothing depends on what an answer prints.
"""

import operator
import textwrap
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from minirl.course.observe import CalledTheAnswer, Seen, WroteNothingYet, close, in_full, observe, place, taped, watched
from minirl.course.questions import Mistake, Question

ASSIGNMENTS = ("a1", "a2", "a3", "a4", "a5")
WIDTH = 96  # characters of a line in a notebook


class NotPassed(AssertionError):
    """A check that was not passed; `mistake` is the sentence of a known one. Its subclasses say in which way."""

    def __init__(self, message: str, mistake: str | None = None):
        super().__init__(message)
        self.mistake = mistake

    def _render_traceback_(self) -> list[str]:
        """What IPython shows: the sentence, in lines as wide as a notebook, and no frames of ours."""
        return textwrap.wrap(str(self), WIDTH, break_long_words=False, break_on_hyphens=False)


class NotStarted(NotPassed):
    """The stub is still there."""


class CodeStopped(NotPassed):
    """The student's own code raised an error."""


class Wrong(NotPassed):
    """The answer is not right."""


FAILED = {"not_started": NotStarted, "error": CodeStopped, "wrong": Wrong}
CALLS = "your code calls minirl's own {}; here you write it yourself."
HIDDEN_FAILED = "right for the inputs in the notebook, not for the grader's: other sizes, other values, other dtypes."


@dataclass(frozen=True)
class Verdict:
    """What a check found: passed, not_started, error or wrong; the sentences; and the known mistake, if it is one."""

    status: str
    message: str
    mistake: str | None = None

    def insist(self) -> None:
        """Raise what is wrong, if something is."""
        if self.status != "passed":
            raise FAILED[self.status](self.message, self.mistake)


def check(name: str, answer) -> None:
    """Check an answer, for example check("a2.q1a", centered): prints that it passed, or raises NotPassed."""
    verdict = judge(find(name), answer)
    verdict.insist()
    with suppress(ValueError, OSError):  # the notebook closed its standard output: that costs nothing
        print(verdict.message, "Grading uses other inputs too.")


def hidden(name: str, answer, cases: Sequence[tuple] = (), look: Callable[[Any], str | None] | None = None) -> None:
    """The same on inputs that only the grader has, too, or with another `look`. What is said shows none of them."""
    question = find(name)
    question = replace(question, look=look or question.look)
    verdict = judge(question, answer, [*(question.cases() if question.cases else ()), *cases])
    if verdict.status in ("wrong", "error"):
        verdict = not_passed(question, verdict.status, verdict.mistake or HIDDEN_FAILED, verdict.mistake)
    verdict.insist()


def passed(name: str, answer) -> bool:
    """Whether an answer is right; if it is not yet, a line says so. For what a notebook draws with it."""
    question = find(name)
    right = judge(question, answer).status == "passed"
    if not right:
        print(f"This part waits for {question.id}, {question.title}.")
    return right


def find(name: str) -> Question:
    """The question of that name, such as "a2.q1a", its own right answer forbidden; ValueError with the known ones."""
    assignment = name.split(".")[0]
    if assignment not in ASSIGNMENTS:
        raise ValueError(f"there is no check {name!r}; expected a name like 'a2.q1a', of {', '.join(ASSIGNMENTS)}")
    questions = import_module(f"minirl.course.{assignment}").QUESTIONS
    if name not in questions:
        raise ValueError(f"there is no check {name!r}; {assignment} has {', '.join(questions)}")
    return replace(questions[name], forbidden=(*questions[name].forbidden, questions[name].right))


def judge(question: Question, answer, cases: Sequence[tuple] | None = None) -> Verdict:
    """What is to be said of an answer, on the question's own cases or on others."""
    try:
        failing = compared(question, answer, cases) if question.cases else None
        if failing is None and question.look is not None:
            failing = looked_at(question, answer)
    except WroteNothingYet:
        return not_passed(question, "not_started", "not started yet. " + question.hint)
    except CalledTheAnswer as cheat:
        return not_passed(question, "wrong", CALLS.format(cheat.name))
    if failing is not None:
        return failing
    points = f"{question.points} point{'s' * (question.points != 1)}"
    return Verdict("passed", f"✔ {question.id} {question.title}: passed ({points}).")


def not_passed(question: Question, status: str, sentence: str, mistake: str | None = None) -> Verdict:
    return Verdict(status, f"✘ {question.id} {question.title}: {sentence.strip()}", mistake)


def compared(question: Question, answer, cases: Sequence[tuple] | None) -> Verdict | None:
    """An answer beside the right one, on every case: what is wrong with it, or None."""
    if not callable(answer):
        sentence = f"expected a function, got {type(answer).__name__}: pass it without calling it."
        return not_passed(question, "error", sentence)
    cases = list(question.cases() if cases is None else cases)
    found = on_each(question, answer, cases, question.forbidden)
    expected = on_each(question, question.right, cases)
    pairs = enumerate(zip(expected, found, strict=True))
    first = next((place for place, (ours, theirs) in pairs if theirs.error or difference(question, ours, theirs)), None)
    if first is None:
        return None
    if mistake := known_mistake(question, cases, expected, found):
        return not_passed(question, "wrong", mistake, mistake)
    start = after(first) + given(cases[first])
    if found[first].error is not None:
        return not_passed(question, "error", start + crash(found[first]))
    sentence = difference(question, expected[first], found[first])
    return not_passed(question, "wrong", f"{start}{sentence} {question.hint}")


def on_each(question: Question, answer: Callable, cases: list[tuple], forbidden: Sequence[Callable] = ()) -> list[Seen]:
    """What an answer does on each case."""
    return [observe(answer, inputs, question.gradients, forbidden, question.call) for inputs in cases]


def known_mistake(question: Question, cases: list[tuple], expected: list[Seen], found: list[Seen]) -> str | None:
    """The sentence of the mistake whose answer does the same as this one on every case, or None."""
    if all(each.error is not None for each in found):  # to stop with the same error is not yet the same mistake
        return None
    mistakes = [(mistake.says, wrong) for mistake in known_of(question) for wrong in mistake.answers]
    likely = [(says, seen) for says, wrong in mistakes if (seen := same_on_each(question, wrong, cases, found))]
    # Whoever makes a mistake and forgets a detach as well is told of the mistake first. Where the values are right,
    # only the gradients tell one mistake from another.
    for says, seen in likely:
        if all(alike(*pair, question) for pair in zip(seen, found, strict=True)):
            return says
    right_values = all(same_values(*pair, question) for pair in zip(expected, found, strict=True))
    return likely[0][0] if likely and not right_values else None


def same_on_each(question: Question, wrong: Callable, cases: list[tuple], found: list[Seen]) -> list[Seen]:
    """What a wrong answer does on each case if its values are those found, else nothing: most differ on the first."""
    made = []
    for inputs, theirs in zip(cases, found, strict=True):
        made.append(observe(wrong, inputs, question.gradients, (), question.call))
        if not same_values(made[-1], theirs, question):
            return []
    return made


GENERAL = {
    "the sign is turned round: this is minus what is asked for.": operator.neg,
    "you add up along the last axis, which the result should keep.": lambda right: right.sum(-1),
    "you take the mean along the last axis, which the result should keep.": lambda right: right.mean(-1),
    "you add everything up to one number; the result should keep its axes.": Tensor.sum,
    "you take the mean of everything; the result should keep its axes.": Tensor.mean,
}
CUT = {"the values are right, but the gradient is cut off: nothing could learn from them.": Tensor.detach}


def known_of(question: Question) -> list[Mistake]:
    """Its own mistakes, and those of any question: one more thing done to what its right answer returns."""

    def changed(change: Callable) -> Callable:
        return lambda *inputs: change(question.right(*inputs))

    slips = GENERAL | (CUT if question.gradients else {})
    return [*question.mistakes, *(Mistake(says, changed(change)) for says, change in slips.items())]


def after(passed: int) -> str:
    """Where an answer is right at first, that is the news."""
    return f"right for the first {'input' if passed == 1 else f'{passed} inputs'}, then not: " if passed else ""


def given(inputs: Sequence) -> str:
    """The input itself where it is a text, or a few: there it says more than its number."""
    texts = all(isinstance(each, str | None) for each in inputs)
    return f"for {', '.join(map(repr, inputs))} " if texts and inputs else ""


def looked_at(question: Question, answer) -> Verdict | None:
    """What `look` says of an answer, or None; where that begins with the sentence of a mistake, it is that mistake."""
    if answer is None or answer is ...:
        raise WroteNothingYet
    try:
        sentence = watched(question.look, [taped(answer)], question.forbidden)
    except NotImplementedError as error:
        raise WroteNothingYet from error
    except CalledTheAnswer:
        raise
    except Exception as error:
        return not_passed(question, "error", crash(Seen(error=error, where=place(error))))
    return not_passed(question, "wrong", sentence, mistake_in(question, sentence)) if sentence else None


def mistake_in(question: Question, sentence: str) -> str | None:
    """The sentence of a known mistake that something begins with."""
    return next((mistake.says for mistake in question.mistakes if sentence.startswith(mistake.says)), None)


def alike(one: Seen, other: Seen, question: Question) -> bool:
    """Whether two answers did the same on one input, errors included."""
    gradients = zip(one.gradients, other.gradients)  # noqa: B905 (an answer that stopped has none)
    same = all(close(ours, theirs, question.tolerance) for ours, theirs in gradients)
    return same_values(one, other, question) and (same or one.error is not None)


def same_values(one: Seen, other: Seen, question: Question) -> bool:
    """The same, whatever their gradients."""
    if one.error is not None or other.error is not None:
        return type(one.error) is type(other.error)
    same = len(one.parts) == len(other.parts) and one.changed == other.changed
    pairs = zip(one.parts, other.parts)  # noqa: B905
    return same and all(close(ours, theirs, question.tolerance) for ours, theirs in pairs)


def crash(seen: Seen) -> str:
    """An exception of the student's own code, with the line that it came from."""
    words = str(seen.error).splitlines() or ["no message"]
    return f"your code stopped with {type(seen.error).__name__}: {words[0]}{seen.where and f' ({seen.where})'}"


def difference(question: Question, expected: Seen, found: Seen) -> str:
    """The first thing in which an answer differs, in one sentence; nothing where it does not."""
    if sentence := kind_difference(expected, found):
        return sentence
    for number, (ours, theirs) in enumerate(zip(expected.parts, found.parts, strict=True), 1):
        which = f"part {number} of the result" if len(expected.parts) > 1 else "the result"
        if sentence := part_difference(which, ours, theirs, question.tolerance):
            return sentence
    if found.changed:
        return f"your function changes its input number {found.changed[0] + 1} in place; work on a copy."
    return gradient_difference(question, expected, found)


def kind_difference(expected: Seen, found: Seen) -> str:
    """Nothing, one thing, or several: the first thing that has to be right."""
    if found.returned == "nothing" and expected.returned != "nothing":
        wanted = "" if isinstance(expected.parts[0], Tensor) else f", not {expected.parts[0]!r}"
        return f"your function returns nothing{wanted}; is there a return?"
    if expected.returned == "nothing" and found.parts:
        return f"the result should be None, got {shortened(found.parts[0])}."
    if len(expected.parts) != len(found.parts):
        return f"expected {expected.returned}, got {found.returned}."
    if found.returned == "1 things" != expected.returned:
        return f"expected {expected.returned}, got it inside a tuple or list; take it out, with [0]."
    return ""


def gradient_difference(question: Question, expected: Seen, found: Seen) -> str:
    for index, ours, theirs in zip(question.gradients, expected.gradients, found.gradients, strict=True):
        which = f"the gradient with respect to input number {index + 1}"
        if (ours is None) != (theirs is None):
            return f"{which} is {'there and should not be' if ours is None else 'missing'}."
        if sentence := part_difference(which, ours, theirs, question.tolerance):
            return sentence
    return ""


def part_difference(which: str, ours, theirs, tolerance: float) -> str:
    if close(ours, theirs, tolerance):
        return whole_numbers(which, ours, theirs)
    if not isinstance(ours, Tensor):
        return f"{which} should be {shortened(ours)}, got {shortened(theirs)}."
    if not isinstance(theirs, Tensor | float | int):
        return f"{which} should be a tensor, got {type(theirs).__name__}."
    theirs = in_full(theirs)
    if ours.shape != theirs.shape:
        return f"{which} should have the shape {tuple(ours.shape)}, got {tuple(theirs.shape)}."
    if theirs.isnan().any() and not ours.isnan().any():
        return f"{which} has nan in it, first {first_place(theirs.isnan())}."
    wrong = ~torch.isclose(ours.detach().double(), theirs.double(), rtol=tolerance, atol=tolerance, equal_nan=True)
    if not wrong.any():
        return f"{which} is too coarse: float64 went in, so is there a float32, or another small constant?"
    at = first_place(wrong)
    index = tuple(wrong.nonzero()[0].tolist())
    numbers = f"expected {ours[index].item():.6g}, got {theirs[index].item():.6g}"
    return f"{which} is wrong {at}: {numbers}{factor(ours, theirs)}."


def whole_numbers(which: str, ours, theirs) -> str:
    """Right values of a type that has no mean and no gradient are not yet right."""
    if not (isinstance(ours, Tensor) and isinstance(theirs, Tensor)) or not ours.is_floating_point():
        return ""
    kind = str(theirs.dtype).removeprefix("torch.")
    return "" if theirs.is_floating_point() else f"{which} has the right values, but as {kind}; floats are asked for."


def factor(ours: Tensor, theirs: Tensor) -> str:
    """Whether all numbers are wrong by the same factor, which says more than one of them."""
    ours, theirs = ours.detach().double(), theirs.double()
    there = ours != 0
    if there.sum() < 2 or (theirs[~there] != 0).any():
        return ""
    times = theirs[there] / ours[there]
    same = torch.allclose(times, times[:1].expand_as(times), rtol=1e-5) and times[0] != 0
    return f"; all of it is {times[0].item():.4g} times what it should be" if same else ""


def first_place(where: Tensor) -> str:
    index = where.nonzero()[0].tolist()
    return f"at index {index}" if index else "as a whole"


def shortened(thing) -> str:
    """A number as it is read, anything else as it is written, and not more of it than fits."""
    text = f"{thing:.6g}" if isinstance(thing, float) else repr(thing)
    return text if len(text) <= 60 else text[:57] + "..."
