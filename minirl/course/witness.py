"""What an answer does, written down inside the kernel for a comparison outside it, where no answer can reach.

It leaves the kernel as an output of a type of its own, and not as a verdict: changing minirl's checks, torch, or
IPython in a notebook changes no number that is compared elsewhere.
"""

import base64
import builtins
import sys
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from minirl.course import MIME
from minirl.course import check as checks
from minirl.course.observe import CalledTheAnswer, Seen, WroteNothingYet, observe, tape
from minirl.policy import SortingPolicy

LONGEST = 200_000  # numbers in one result
LENIENT = 100  # times a check's tolerance: here it is asked whether a check was honest, not whether it was met
VARYING = ("input",)  # the kernel's own, made anew for each cell
RELIED_UPON = ("allclose", "isclose", "equal", "as_tensor", "tensor", "linspace")  # torch itself changes others, later
_begun: dict = {}  # the nonce, and what everything was
_names: dict[str, dict] = {}  # by check: what every name stood for when its question was checked


def begin(nonce: str, question: str) -> None:
    """Remember what everything is before a student's cell runs."""
    checks.find(question)
    _begun.update(nonce=nonce, things=identities())


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


def changed() -> list[str]:
    """What was replaced since the beginning; what came anew does not count."""
    now = identities()
    return sorted(name for name, what in _begun["things"].items() if now.get(name, what) != what)


def aside(of: str, source: str, nothing: Sequence[str] = ()) -> None:
    """Run a cell of the instructor's with the notebook's names as they were when `of` was first checked, changing none.

    For names in `nothing`, a function that does nothing stands. What was looked at is shown.
    """
    names = sys._getframe(1).f_globals
    names.update(_names.setdefault(of, dict(names)))
    tape.clear()
    try:
        exec(source, names | dict.fromkeys(nothing, lambda *inputs, **options: None))
    finally:
        show("tape", [{"given": [kept(each) for each in given], "made": packed(made)} for given, made in tape])


def witness(name: str, answer, cases=None, look=None) -> None:
    """Show what an answer does on a question's own inputs, or on the grader's."""
    question, seen = checks.find(name), []
    for inputs in [] if question.cases is None else question.cases() if cases is None else cases:
        try:
            seen.append(to_json(observe(answer, inputs, question.gradients, question.forbidden, question.call)))
        except CalledTheAnswer as cheat:
            seen.append({"called": cheat.name})
        except WroteNothingYet:
            seen.append({"error": "WroteNothingYet"})
    show("seen", seen)


def show(kind: str, what: list) -> None:
    from IPython.display import display

    display({MIME: {"nonce": _begun["nonce"], "changed": changed(), kind: what}, "text/plain": ""}, raw=True)


def to_json(seen: Seen) -> dict:
    """What was seen of one call, as JSON."""
    if seen.error is not None:
        return {"error": type(seen.error).__name__}
    parts = [packed(each) for each in seen.parts]
    return {"parts": parts, "gradients": [packed(each) for each in seen.gradients], "changed": seen.changed}


def kept(thing):
    """Of what a looked-at answer was given, what it may have changed: weights and counters."""
    weights = [packed(each) for each in thing.parameters()] if isinstance(thing, torch.nn.Module) else []
    numbers = {name: value for name, value in getattr(thing, "__dict__", {}).items() if type(value) in (bool, int)}
    return {"weights": weights, "numbers": {} if weights else numbers}


def packed(thing):
    """As JSON, numbers to the last bit; of what cannot be written so, the name of its type."""
    if thing is None or isinstance(thing, bool | int | str):
        return {"is": thing}
    if isinstance(thing, float):
        return {"float": thing.hex()}
    if isinstance(thing, SortingPolicy):
        return {"policy": [packed(each) for each in (thing.embedding, thing.encode, thing.decode)]}
    if isinstance(thing, dict):
        return {"dict": [[packed(name), packed(value)] for name, value in thing.items()]}
    if not isinstance(thing, Tensor):
        try:
            thing = torch.as_tensor(thing)
        except (TypeError, ValueError, RuntimeError):
            several = isinstance(thing, list | tuple | set | frozenset)
            return {"several": [packed(each) for each in thing]} if several else {"kind": type(thing).__name__}
    if thing.numel() > LONGEST:
        return {"kind": f"tensor of {thing.numel()}"}
    data = base64.b64encode(thing.detach().cpu().double().contiguous().numpy().tobytes()).decode()
    return {"dtype": str(thing.dtype).removeprefix("torch."), "shape": list(thing.shape), "data": data}


def agrees(question, reference: list[dict], found: list[dict]) -> bool:
    """Whether an answer did on each input what the instructor's did."""
    if len(reference) != len(found) or not all("parts" in each for each in found):
        return False
    question = replace(question, tolerance=LENIENT * question.tolerance)
    pairs = zip(reference, found, strict=True)
    return all(checks.alike(from_json(ours), from_json(theirs), question) for ours, theirs in pairs)


def from_json(record: dict) -> Seen:
    """What `to_json` wrote, read outside the kernel."""
    if "parts" not in record:
        return Seen(error=RuntimeError(record.get("error", record.get("called", "nothing"))))
    parts, gradients = ([unpacked(each) for each in record[name]] for name in ("parts", "gradients"))
    return Seen(parts, "", gradients, list(record["changed"]))


def replayed(records: Sequence[dict]):
    """An answer that does again what is on a tape."""
    left = iter(records)

    def again(*inputs):
        record = next(left)
        for ours, theirs in zip(inputs, record["given"], strict=True):
            for weight, found in zip(ours.parameters() if theirs["weights"] else (), theirs["weights"], strict=True):
                weight.data.copy_(unpacked(found))
            for name in theirs["numbers"].keys() & getattr(ours, "__dict__", {}).keys():
                setattr(ours, name, theirs["numbers"][name])
        return unpacked(record["made"])

    return again


def unpacked(part: dict):
    if "is" in part:
        return part["is"]
    if "float" in part:
        return float.fromhex(part["float"])
    if "several" in part:
        return [unpacked(each) for each in part["several"]]
    if "dict" in part:
        return {unpacked(name): unpacked(value) for name, value in part["dict"]}
    if "policy" in part:
        return policy(*map(unpacked, part["policy"]))
    if "kind" in part:
        return part["kind"]
    data = bytearray(base64.b64decode(part["data"]))
    values = torch.frombuffer(data, dtype=torch.float64) if data else torch.empty(0, dtype=torch.float64)
    return values.view(part["shape"]).to(getattr(torch, part["dtype"]))


def policy(embedding: Tensor, encode: Tensor, decode: Tensor) -> SortingPolicy:
    """The weights alone: whatever else was done to a policy is left behind."""
    made = SortingPolicy(len(embedding), len(encode), embedding.shape[1])
    for ours, theirs in zip(made.parameters(), (embedding, encode, decode), strict=True):
        ours.data.copy_(theirs)
    return made
