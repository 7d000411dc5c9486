"""A student's notebook, however it was saved, and the answers in it, wherever they are."""

import ast
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

from minirl.course.formats import nbformat
from minirl.course.intake import Unusable

MOST_CELLS = 5_000
LONGEST = 200_000  # letters of a cell that are parsed
MAGIC = re.compile(r"^(\s*)((?:[\w., ]+=)?)\s*[%!].*$|^.*\?\s*$", re.M)
PYTHON_BELOW = re.compile(r"\A\s*%%(time|timeit|capture|prun)\b.*\n")


@dataclass(frozen=True)
class Cell:
    """A cell, with what it may be known by."""

    source: str
    id: str = ""
    grade_id: str = ""
    code: bool = True


def cells(data: bytes) -> list[Cell]:
    """The cells of a notebook of any format from 3 on; Unusable with a sentence otherwise."""
    notebook = parsed(data)
    version = notebook.get("nbformat")
    if version == 3:
        notebook = nbformat.convert(nbformat.from_dict(notebook), 4)
    elif version != 4:
        raise Unusable(f"its notebook format is {shortly(version)}; expected 4, or 3")
    found = notebook.get("cells")
    if not isinstance(found, list) or len(found) > MOST_CELLS:
        raise Unusable("it has no list of cells" if not isinstance(found, list) else f"over {MOST_CELLS} cells")
    return [cell(each) for each in found if isinstance(each, dict)]


def parsed(data: bytes) -> dict:
    try:
        text = data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig", "replace")
        notebook = json.loads(text)
    except (ValueError, RecursionError) as error:
        kind = "it is empty" if not data.strip() else "it is cut off, or was edited by hand"
        kind = "it has unsolved merge conflicts" if re.search(r"^<<<<<<< ", text, re.M) else kind
        raise Unusable(f"it is not a notebook: {kind} ({shortly(error)})") from None
    if not isinstance(notebook, dict):
        raise Unusable("it is JSON, and not a notebook")
    return notebook


def cell(raw: dict) -> Cell:
    source, metadata = raw.get("source", ""), raw.get("metadata")
    if isinstance(source, list):
        source = "".join(line for line in source if isinstance(line, str))
    marks = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    name = marks.get("grade_id") if isinstance(marks, dict) else None
    names = [each if isinstance(each, str) else "" for each in (raw.get("id"), name)]
    clean = source.encode("utf-8", "replace").decode() if isinstance(source, str) else ""
    return Cell(clean.replace("\r\n", "\n"), *names, raw.get("cell_type") == "code")


def cleaned(student: list[Cell]) -> list[Cell]:
    """The same cells, none of which says to nbval how it is to be run."""
    return [replace(cell, source=without_markers(cell.source)) for cell in student]


def without_markers(source: str) -> str:
    """A cell of which no line is an order to nbval."""
    if "NBVAL_" not in source and "PYTEST_VALIDATE_" not in source:
        return source
    lines = [
        line if not re.fullmatch(r"\s*#[#\s]*(NBVAL_\w+|PYTEST_VALIDATE_\w+)\s*", line) else "# (a marker was here)"
        for line in source.splitlines()
    ]
    return "\n".join(lines)


@dataclass(frozen=True)
class Found:
    """The answer to one question: its source, the places of its cells, and what is to be said of that."""

    source: str | None
    places: tuple[int, ...] = ()
    note: str = ""


Placed = tuple[int, Cell]  # where it stands in the notebook


def answer_to(answer_id: str, label: str, names: tuple[str, ...], stub: str, student: list[Cell]) -> Found:
    """The answer in the cell that is marked as its own, else in one that defines its names; the last one counts."""
    code = [(place, cell) for place, cell in enumerate(student) if cell.code]
    marked = marked_as(answer_id, label, code)
    written = [(place, cell) for place, cell in marked if not is_stub(cell.source, stub)]
    defining = [(place, cell) for place, cell in code if set(names) & named(cell.source)]
    defining = [(place, cell) for place, cell in defining if not is_stub(cell.source, stub)]
    places = tuple(place for place, _ in marked)
    if written:
        count = len(written)
        note = f"the answer to {label} is there {count} times; the last one counts" if count > 1 else ""
        return completed(written[-1], Found(written[-1][1].source, places, note), label, names, defining)
    if defining:  # it was written into a cell of its own
        place, cell = defining[-1]
        note = f"the answer to {label} was found in another cell" if marked else ""
        return Found(cell.source, (*places, place), note)
    return Found(marked[-1][1].source if marked else None, places)


def marked_as(answer_id: str, label: str, code: list[Placed]) -> list[Placed]:
    """The cells with an answer's grade_id, else with its id, else with its first line."""
    line = re.compile(rf"^#\s*GRADED:\s*{re.escape(label)}\b", re.M)
    ways = (
        lambda cell: cell.grade_id == answer_id,
        lambda cell: cell.id == answer_id,
        lambda cell: bool(line.search(cell.source)) and not elsewhere(cell, answer_id, label),
    )
    return next((hits for way in ways if (hits := [(place, cell) for place, cell in code if way(cell)])), [])


def elsewhere(cell: Cell, answer_id: str, label: str) -> bool:
    """Whether it is the answer of that label in another assignment."""
    return any(name.endswith(f"-{label}") and name != answer_id for name in (cell.id, cell.grade_id))


def completed(last: Placed, found: Found, label: str, names: tuple[str, ...], defining: list[Placed]) -> Found:
    """An answer, together with the cell that defines what is missing in it: it was split."""
    missing = set(names) - defines(found.source)
    rest = [(place, cell) for place, cell in defining if missing & defines(cell.source) and place not in found.places]
    if not rest:
        return found
    pieces = sorted([last, rest[-1]], key=lambda piece: piece[0])
    whole = "\n\n".join(cell.source for _, cell in pieces)
    return Found(whole, (*found.places, rest[-1][0]), f"the answer to {label} was found in two cells")


def is_stub(source: str, stub: str) -> bool:
    """Whether nothing was written: the cell as it was given, but for blanks."""
    return without_blanks(source) == without_blanks(stub)


def without_blanks(source: str) -> str:
    return "".join(source.split())


@lru_cache(maxsize=2 * MOST_CELLS)
def tree(source: str) -> ast.Module | None:
    """A cell as Python sees it, None in the place of magics; None where it does not parse, or is endless."""
    source = PYTHON_BELOW.sub("", source[: LONGEST + 1])
    if len(source) > LONGEST or source.lstrip().startswith("%%"):
        return None if len(source) > LONGEST else ast.Module([], [])
    for text in (source, MAGIC.sub(r"\1\2None", source)):
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
    return None


def defines(source: str, imports: bool = True) -> set[str]:
    """The names that running a cell binds: functions, classes, variables, and imports if wanted."""
    if (parsed := tree(source)) is None:
        return set(re.findall(r"^(?:def|class)\s+(\w+)", source, re.M))
    nodes = [node for node in outside_functions(parsed) if imports or not isinstance(node, ast.Import | ast.ImportFrom)]
    return set().union(*map(bound, nodes))


def named(source: str) -> set[str]:
    """The names that a cell is for: its functions, and what it assigns alone; a plot's variables are in passing."""
    if (parsed := tree(source)) is None:
        return defines(source)
    targets = [target for node in parsed.body if isinstance(node, ast.Assign) for target in node.targets]
    functions = [node for node in parsed.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    return set().union(*map(bound, [*functions, *targets]))


def bound(node: ast.AST) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {(alias.asname or alias.name).split(".")[0] for alias in node.names}
    return {node.id} if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) else set()


def outside_functions(node: ast.AST) -> Iterable[ast.AST]:
    """What runs when the cell runs: all but the bodies of functions."""
    left = [*ast.iter_child_nodes(node)]
    while left:
        child = left.pop()
        yield child
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            left += filter(None, [child.args, getattr(child, "returns", None), *getattr(child, "decorator_list", [])])
        else:
            left += ast.iter_child_nodes(child)


def needs(source: str, at_once: bool = False) -> set[str]:
    """The names that a cell reads; `at_once`: while it runs, not when its functions are called."""
    if (parsed := tree(source)) is None:
        return set() if at_once else set(re.findall(r"\w+", source))
    nodes = outside_functions(parsed) if at_once else ast.walk(parsed)
    return {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}


def shortly(thing, most: int = 120) -> str:
    """One printable line of it."""
    line = "".join(letter if letter.isprintable() else " " for letter in str(thing))
    return line if len(line) <= most else line[: most - 1] + "…"
