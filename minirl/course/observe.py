"""What an answer does on one input, in a form that two answers can be compared by: values, gradients, side effects."""

import copy
import inspect
import traceback
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from numbers import Real
from types import GeneratorType

import torch
from torch import Tensor

HONEST = (Tensor, torch.nn.Parameter, bool, int, float, str, bytes, type(None), GeneratorType)  # as type, not as kind
called: list[str] = []  # forbidden functions, in whatever thread they were called
tape: list[tuple] = []  # what answers that are looked at were given, and what they returned: for a comparison outside


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


@torch.enable_grad()  # a notebook may have turned gradients off
def observe(
    answer: Callable,
    inputs: Sequence,
    wanted: Sequence[int] = (),
    forbidden: Sequence[Callable] = (),
    call: Callable | None = None,
) -> Seen:
    """Call `answer` on copies of `inputs`, gradients wanted by position; and see what it returns and changes."""
    given = fresh(inputs, wanted)
    # A leaf that wants a gradient cannot be changed in place: what the answer gets is one step further.
    passed = [each * 1 if index in wanted else each for index, each in enumerate(given)]
    seen = seen_in(call or apply, [answer, *passed], forbidden, [given[index] for index in wanted])
    seen.changed = [index for index, new in enumerate(passed) if not the_same(inputs[index], new)]
    return seen


def fresh(inputs: Sequence, wanted: Sequence[int]) -> list:
    """The inputs as leaves of their own, those in `wanted` with a gradient to come."""
    copies = [each.clone() if isinstance(each, Tensor) else copy.deepcopy(each) for each in inputs]
    for index in wanted:
        copies[index].requires_grad_()
    return copies


def seen_in(call: Callable, arguments: list, forbidden: Sequence[Callable], leaves: list[Tensor]) -> Seen:
    """What came of a call; whatever is raised is part of what is seen, but for a stub and a cheat."""
    seen = Seen()
    try:
        seen.returned, seen.parts = taken_apart(watched(call, arguments, forbidden))
        seen.gradients = gradients(seen.parts, leaves)
    except NotImplementedError as error:
        raise WroteNothingYet from error
    except CalledTheAnswer:
        raise
    except Exception as error:
        seen.error, seen.where = error, place(error)
    return seen


def apply(answer: Callable, *inputs):
    return answer(*inputs)


def watched(answer: Callable, inputs: list, forbidden: Sequence[Callable]):
    """What `answer` returns; CalledTheAnswer if a forbidden function was called, under whatever name."""
    called.clear()
    try:
        with sealed(forbidden):
            return answer(*inputs)
    finally:
        if called:
            raise CalledTheAnswer(called[0])


@contextmanager
def sealed(forbidden: Sequence[Callable]):
    """Forbidden functions refuse to run, in whatever thread and by whatever name they are called."""
    functions = {id(one): one for one in map(inspect.unwrap, forbidden) if inspect.isfunction(one)}.values()
    codes = [function.__code__ for function in functions]
    for function in functions:
        function.__code__ = refusing(function.__name__.strip("<>"), function.__code__.co_freevars)
    try:
        yield
    finally:
        for function, code in zip(functions, codes, strict=True):
            function.__code__ = code


def refusing(name: str, free: Sequence[str]):
    """Code that fits into a function with these variables of its surroundings."""
    space: dict = {}
    outside = "".join(f"{each} = " for each in free) + "None"
    kept = ", ".join(free) or "None"
    body = f"from {__name__} import refuse; {kept}; refuse({name!r})"
    exec(f"def outer():\n    {outside}\n    def inner(*inputs, **options): {body}\n    return inner", space)
    return space["outer"]().__code__


def refuse(name: str) -> None:
    called.append(name)
    raise CalledTheAnswer(name)


def plain(thing):
    """The same, of types that tell the truth; one of a student's own could learn from a comparison, or lie in it."""
    if type(thing) in HONEST:
        return thing
    if isinstance(thing, torch.nn.Module):  # looked at, never compared
        return thing
    if isinstance(thing, dict):
        return {plain(name): plain(value) for name, value in thing.items()}
    for kind in (list, tuple, set, frozenset):
        if isinstance(thing, kind):
            return kind(map(plain, list(thing)))
    try:
        return stand_in(type(thing).__name__) if isinstance(thing, Tensor) else torch.as_tensor(thing)
    except (TypeError, ValueError, RuntimeError):
        return float(thing) if isinstance(thing, Real) else stand_in(type(thing).__name__)


def stand_in(name: str):
    """Equal to nothing but itself, and shown by the name of what it stands for."""
    return type(name, (), {"__repr__": lambda self: name})()


def taped(answer):
    """An answer that is looked at, in plain things; what it is given and returns is kept on the tape."""
    if not callable(answer):
        tape.append(((), plain(answer)))
        return tape[-1][1]

    def played(*inputs):
        result = None
        try:
            result = plain(answer(*inputs))
        finally:
            tape.append((inputs, result))
        return result

    return played


def taken_apart(result) -> tuple[str, list]:
    if result is None:
        return "nothing", []
    if isinstance(result, tuple | list):
        return f"{len(result)} things", list(map(plain, list(result)))
    return ("a tensor" if isinstance(result, Tensor) else f"a {type(result).__name__}"), [plain(result)]


def gradients(parts: list, leaves: list[Tensor]) -> list:
    """Of the sum of all parts, weighted so that they do not cancel; None where a leaf has no part in it."""
    floating = [part for part in parts if isinstance(part, Tensor) and part.is_floating_point() and part.requires_grad]
    if not leaves or not floating:
        return [None] * len(leaves)
    total = sum((part * torch.linspace(1, 2, part.numel()).to(part).view(part.shape)).sum() for part in floating)
    return list(map(plain, torch.autograd.grad(total, leaves, allow_unused=True)))


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
