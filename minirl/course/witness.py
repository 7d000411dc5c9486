"""What an answer does, written down inside the kernel for a comparison outside it, where no answer can reach.

It leaves the kernel as an output of a type of its own, and not as a verdict: changing minirl's checks, torch, or
IPython in a notebook changes no number that is compared elsewhere.
"""

import base64
import builtins
import sys
from contextlib import contextmanager
from dataclasses import replace
from inspect import unwrap

import torch
from torch import Tensor

from minirl.course import MIME
from minirl.course import check as checks
from minirl.course.observe import CalledTheAnswer, Seen, WroteNothingYet, observe

LONGEST = 200_000  # numbers in one result
LENIENT = 100  # times a check's tolerance: here it is asked whether a check was honest, not whether it was met
VARYING = ("input",)  # the kernel's own, made anew for each cell
RELIED_UPON = ("allclose", "isclose", "equal", "as_tensor", "tensor", "linspace")  # torch itself changes others, later
_begun: dict = {}
called: list[str] = []  # forbidden functions, in whatever thread they were called


def begin(nonce: str, question: str) -> None:
    """Remember what everything is before a student's cell runs."""
    checks.find(question)
    _begun[nonce] = identities()


def identities() -> dict[str, tuple]:
    """Which object stands behind each name that a check depends on, and which code behind each function of minirl."""
    places = {"torch.Tensor": Tensor, "torch.nn.functional": torch.nn.functional, "builtins": builtins}
    places |= {name: module for name, module in sys.modules.items() if name.startswith("minirl.") and module}
    tracers = ("setprofile", "getprofile", "settrace")
    found: dict[str, tuple] = {f"sys.{name}": (id(getattr(sys, name)),) for name in tracers}
    found |= {f"torch.{name}": (id(getattr(torch, name)),) for name in RELIED_UPON}
    for place, thing in places.items():
        for name, value in list(vars(thing).items()):
            ours = place.startswith("minirl")
            if callable(value) and (ours or not (name.startswith("_") or name in VARYING or isinstance(value, type))):
                found[f"{place}.{name}"] = (id(value), id(getattr(value, "__code__", None)))
    for name, module in places.items():
        for question in getattr(module, "QUESTIONS", {}).values():
            found[f"{name}.{question.id}"] = tuple(id(value) for value in vars(question).values())
    return found


def changed(nonce: str) -> list[str]:
    """What was replaced since the beginning; what came anew does not count."""
    now = identities()
    return sorted(name for name, what in _begun[nonce].items() if now.get(name, what) != what)


def witness(nonce: str, name: str, answer, cases=None, look=None) -> None:
    """Show what an answer does on a question's own inputs, or on the grader's."""
    question = checks.find(name)
    report = {"nonce": nonce, "question": name, "changed": changed(nonce)}
    if question.cases is not None:
        report["seen"] = seen = []
        with sealed(question.forbidden):
            for inputs in question.cases() if cases is None else cases:
                called.clear()
                try:
                    found = written(observe(answer, inputs, question.gradients, (), question.call))
                except (WroteNothingYet, CalledTheAnswer) as error:
                    found = {"error": type(error).__name__}
                seen.append({"called": called[0]} if called else found)
    from IPython.display import display

    display({MIME: report, "text/plain": ""}, raw=True)


@contextmanager
def sealed(forbidden):
    """Forbidden functions refuse to run, in whatever thread and by whatever name they are called."""
    functions = [unwrap(function) for function in forbidden]
    codes = [function.__code__ for function in functions]
    for function in functions:
        function.__code__ = refusing(function.__name__).__code__
    try:
        yield
    finally:
        for function, code in zip(functions, codes, strict=True):
            function.__code__ = code


def refusing(name: str):
    space: dict = {}
    text = f"def refuse(*inputs, **options):\n    from {__name__} import CalledTheAnswer, called\n"
    exec(f"{text}    called.append({name!r})\n    raise CalledTheAnswer({name!r})", space)
    return space["refuse"]


def written(seen: Seen) -> dict:
    """What was seen of one call, as JSON."""
    if seen.error is not None:
        return {"error": type(seen.error).__name__}
    parts = [packed(each) for each in seen.parts]
    return {"parts": parts, "gradients": [packed(each) for each in seen.gradients], "changed": seen.changed}


def packed(thing):
    if thing is None or isinstance(thing, bool | int | str):
        return {"is": thing}
    thing = torch.tensor(thing, dtype=torch.float64) if isinstance(thing, float) else thing
    if not isinstance(thing, Tensor):
        try:
            thing = torch.as_tensor(thing)
        except (TypeError, ValueError, RuntimeError):
            return {"kind": type(thing).__name__}
    if thing.numel() > LONGEST:
        return {"kind": f"tensor of {thing.numel()}"}
    kind, values = str(thing.dtype).removeprefix("torch."), thing.detach().cpu().double().contiguous()
    data = base64.b64encode(values.numpy().tobytes()).decode()
    return {"dtype": kind, "shape": list(thing.shape), "data": data}


def unpacked(part: dict):
    if "is" in part:
        return part["is"]
    if "kind" in part:
        return part["kind"]
    data = bytearray(base64.b64decode(part["data"]))
    values = torch.frombuffer(data, dtype=torch.float64) if data else torch.empty(0, dtype=torch.float64)
    return values.view(part["shape"]).to(getattr(torch, part["dtype"]))


def read(record: dict) -> Seen:
    """The other way round, outside."""
    if "parts" not in record:
        return Seen(error=RuntimeError(record.get("error", record.get("called", "nothing"))))
    parts, gradients = ([unpacked(each) for each in record[name]] for name in ("parts", "gradients"))
    return Seen(parts, "", gradients, list(record["changed"]))


def agrees(question, reference: list[dict], found: list[dict]) -> bool:
    """Whether an answer did on each input what the instructor's did."""
    question = replace(question, tolerance=LENIENT * question.tolerance)
    pairs = list(zip(reference, found, strict=False))
    same = len(reference) == len(found) and all("parts" in each for each in found)
    return same and all(checks.alike(read(ours), read(theirs), question) for ours, theirs in pairs)
