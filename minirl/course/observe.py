"""What an answer does on one input, in a form that two answers can be compared by: values, gradients, side effects."""

import copy
import inspect
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor


class WroteNothingYet(Exception):
    """The stub is still there."""


class CalledTheAnswer(Exception):
    """The answer calls minirl's own function for what is asked."""

    def __init__(self, name: str):
        super().__init__(name)
        self.name = name


@dataclass
class Seen:
    """One call: `parts` of what came back, gradients, inputs that were changed, or the error that it ended with."""

    parts: list = field(default_factory=list)
    returned: str = ""  # the kind of thing: "tensor", "3 things", "nothing"
    gradients: list = field(default_factory=list)
    changed: list[int] = field(default_factory=list)
    error: BaseException | None = None
    where: str = ""


def fresh(inputs: Sequence, wanted: Sequence[int]) -> list:
    """The inputs as leaves of their own, those in `wanted` with a gradient to come."""
    copies = [each.clone() if isinstance(each, Tensor) else copy.deepcopy(each) for each in inputs]
    for index in wanted:
        copies[index].requires_grad_()
    return copies


def observe(
    answer: Callable,
    inputs: Sequence,
    wanted: Sequence[int] = (),
    forbidden: Sequence[Callable] = (),
    call: Callable | None = None,
) -> Seen:
    """Call `answer` on copies of `inputs`; whatever it raises is part of what is seen, but for a stub and a cheat."""
    given, seen = fresh(inputs, wanted), Seen()
    # A leaf that wants a gradient cannot be changed in place: what the answer gets is one step further.
    passed = [each * 1 if index in wanted else each for index, each in enumerate(given)]
    try:
        result = watched(call or apply, [answer, *passed], forbidden)
        seen.returned, seen.parts = taken_apart(result)
        seen.gradients = gradients(seen.parts, [given[index] for index in wanted])
    except NotImplementedError as error:
        raise WroteNothingYet from error
    except CalledTheAnswer:
        raise
    except Exception as error:
        seen.error, seen.where = error, place(error)
    seen.changed = [index for index, new in enumerate(passed) if not the_same(inputs[index], new)]
    return seen


def apply(answer: Callable, *inputs):
    return answer(*inputs)


def watched(answer: Callable, inputs: list, forbidden: Sequence[Callable]):
    """What `answer` returns; CalledTheAnswer if the code of a forbidden function ran, under whatever name."""
    codes = {inspect.unwrap(function).__code__: function.__name__ for function in forbidden}
    ran = []

    def notice(frame, event, argument):
        if event == "call" and frame.f_code in codes:
            ran.append(codes[frame.f_code])

    previous = sys.getprofile()
    sys.setprofile(notice if codes else previous)
    try:
        return answer(*inputs)
    finally:
        sys.setprofile(previous)
        if ran:
            raise CalledTheAnswer(ran[0])


def taken_apart(result) -> tuple[str, list]:
    if result is None:
        return "nothing", []
    if isinstance(result, tuple | list):
        return f"{len(result)} things", list(result)
    return ("a tensor" if isinstance(result, Tensor) else f"a {type(result).__name__}"), [result]


def gradients(parts: list, leaves: list[Tensor]) -> list:
    """Of the sum of all parts, weighted so that they do not cancel; None where a leaf has no part in it."""
    floating = [part for part in parts if isinstance(part, Tensor) and part.is_floating_point() and part.requires_grad]
    if not leaves or not floating:
        return [None] * len(leaves)
    total = sum((part * torch.linspace(1, 2, part.numel()).to(part).view(part.shape)).sum() for part in floating)
    return list(torch.autograd.grad(total, leaves, allow_unused=True))


def the_same(old, new) -> bool:
    """Whether an input is as it was; of a policy or a generator that is not asked."""
    if isinstance(old, Tensor):
        return old.shape == new.shape and torch.equal(old.detach(), new.detach())
    return old == new if isinstance(old, list | tuple | dict | int | float | str) else True


def place(error: BaseException) -> str:
    """The last line of the student's own code that led to an error, or nothing where there is none."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if is_theirs(f.filename)]
    return f"line {frames[-1].lineno}: {frames[-1].line}" if frames else ""


def is_theirs(filename: str) -> bool:
    return not any(part in filename for part in ("site-packages", "minirl/", "minirl\\", "lib/python"))


def close(one, other, tolerance: float) -> bool:
    """Whether `other` is the same part, or gradient, as `one`; numbers may differ by the rounding of `one`'s type."""
    if isinstance(one, str | bool | None) or isinstance(other, str | bool | None):
        return type(one) is type(other) and one == other
    try:
        one, other = torch.as_tensor(one).detach(), in_full(other)
    except (TypeError, ValueError, RuntimeError):
        return one == other
    if one.shape != other.shape:
        return False
    tolerance = tolerance / 1000 if one.dtype == torch.float64 else tolerance
    return torch.allclose(one.double(), other.double(), rtol=tolerance, atol=tolerance, equal_nan=True)


def in_full(thing) -> Tensor:
    """An answer as a tensor; Python's own numbers keep their double precision."""
    return torch.as_tensor(thing, dtype=torch.float64 if isinstance(thing, float) else None).detach()
