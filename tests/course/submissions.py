"""Submissions as they come: good, unfinished, mangled by editors, broken, hostile. Each with what it must get.

Made by code from the demo assignment; nothing of it is meant to run outside the grader.
"""

# ruff: noqa: E501 (students' code, one string each)

import io
import json
import os
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
from demo_assignment import POINTS, SOLUTIONS, answer

FULL = sum(POINTS.values())
RIGHT = {label: body for label, (_, _, body, _) in SOLUTIONS.items()}
WRONG = "    return rewards - rewards.mean(0, keepdim=True)"
UPON = "    return centered(rewards) * rewards.shape[-1] / (rewards.shape[-1] - 1)"
NAMED = "you compare across prompts, along the batch axis; a response is compared with its own group, along axis −1."
Files = dict[str, bytes | Callable[[Path], None]]


@dataclass(frozen=True)
class Kind:
    """What a student hands in below the folder, and the status, points and questions' statuses it must get."""

    files: Callable[[Path, str], Files]
    status: str
    points: float
    questions: dict[str, str] = field(default_factory=dict)  # those that are not passed
    full_only: bool = False  # safe only where isolation is full


KINDS: dict[str, Kind] = {}


def book(root: Path, **bodies: str):
    """The students' notebook with these bodies of functions, or whole cells where they begin with a #."""
    notebook = nbformat.read(root / "assignments" / "a2" / "a2.ipynb", as_version=4)
    for label, body in bodies.items():
        cell(notebook, label).source = body if body.startswith("# GRADED") else answer(label, body)
    return notebook


def cell(notebook, label: str):
    return next(each for each in notebook.cells if each.id == f"a2-{label}")


def before(notebook, label: str, *sources: str):
    """Put helper cells in front of an answer."""
    place = notebook.cells.index(cell(notebook, label))
    notebook.cells[place:place] = [nbformat.v4.new_code_cell(source) for source in sources]
    return notebook


def saved(notebook) -> bytes:
    return json.dumps(notebook, ensure_ascii=False).encode("utf-8", "surrogatepass")


def kind(name: str, status: str = "graded", points: float = FULL, full_only: bool = False, **questions: str):
    """Register what makes the student's notebook, or its files."""

    def register(make):
        def files(root: Path, student: str) -> Files:
            made = make(root)
            if type(made) is dict:  # a notebook is a dict, too
                return {path.replace("STUDENT", student): content for path, content in made.items()}
            return {f"{student}/a2.ipynb": made if isinstance(made, bytes) else saved(made)}

        KINDS[name] = Kind(files, status, points, questions, full_only)
        return make

    return register


def answers(name: str, status: str = "graded", points: float = FULL, questions: dict | None = None, **bodies: str):
    """All answers right but for these."""
    kind(name, status, points, **(questions or {}))(lambda root: book(root, **(RIGHT | bodies)))


def helpers(name: str, *sources: str, status: str = "graded", points: float = FULL, questions=None, **bodies: str):
    """All answers right but for these, and these cells in front of the first one."""
    made = {**(questions or {})}
    kind(name, status, points, **made)(lambda root: before(book(root, **(RIGHT | bodies)), "q1a", *sources))


def zipped(files: dict[str, bytes], link: str = "", declare: int = 0) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
        if link:
            entry = zipfile.ZipInfo(link)
            entry.external_attr = 0o120777 << 16
            archive.writestr(entry, "/etc/passwd")
    return data.getvalue()


def good(root: Path):
    return book(root, **RIGHT)


# Handed in in other ways: nothing of it may cost a point.

kind("good-in-a-folder")(good)
kind("good-flat")(lambda root: {"STUDENT.ipynb": saved(good(root))})
kind("good-with-the-assignment-in-its-name")(lambda root: {"STUDENT_a2.ipynb": saved(good(root))})
kind("good-in-a-zip")(lambda root: {"STUDENT.zip": zipped({"a2.ipynb": saved(good(root))})})
kind("good-in-a-deep-zip")(lambda root: {"STUDENT.zip": zipped({"x/a2/a2.ipynb": saved(good(root)), "x/a.txt": b""})})
kind("good-by-another-name")(lambda root: {"STUDENT/homework final (2).ipynb": saved(good(root))})
kind("good-and-an-old-copy")(
    lambda root: {"STUDENT/mine.ipynb": saved(good(root)), "STUDENT/mine (1).ipynb": saved(book(root, q1a=WRONG))}
)
kind("good-and-a-checkpoint")(
    lambda root: {
        "STUDENT/a2.ipynb": saved(good(root)),
        "STUDENT/.ipynb_checkpoints/a2-checkpoint.ipynb": saved(book(root)),
        "STUDENT/__MACOSX/._a2.ipynb": b"\0\5\26\7",
    }
)
kind("good-beside-their-own-conftest")(
    lambda root: {
        "STUDENT/a2.ipynb": saved(good(root)),
        "STUDENT/conftest.py": b"raise SystemExit",
        "STUDENT/pytest.ini": b"[pytest]\naddopts = --collect-only",
        "STUDENT/torch.py": b"raise ImportError",
    }
)

# Saved by other programs.

kind("utf-8-with-a-mark")(lambda root: b"\xef\xbb\xbf" + saved(good(root)))
kind("utf-16")(lambda root: json.dumps(good(root)).encode("utf-16"))


@kind("windows-line-ends")
def _(root):
    notebook = good(root)
    for each in notebook.cells:
        each.source = each.source.replace("\n", "\r\n")
    return saved(notebook)


@kind("format-3")
def _(root):
    return in_format_3(good(root))


def in_format_3(notebook) -> bytes:
    """As IPython 2 saved it: worksheets, and `input` where later formats say source."""
    cells = []
    for each in notebook.cells:
        text = {"input": each.source, "outputs": [], "language": "python", "collapsed": False}
        kept = text if each.cell_type == "code" else {"source": each.source}
        cells.append({"cell_type": each.cell_type, "metadata": each.metadata, **kept})
    old = {"metadata": {"name": ""}, "nbformat": 3, "nbformat_minor": 0, "worksheets": [{"cells": cells}]}
    return json.dumps(old).encode()


@kind("metadata-and-ids-lost")
def _(root):
    notebook = good(root)
    for each in notebook.cells:
        each.metadata = {}
        del each["id"]
    notebook.nbformat_minor, notebook.metadata = 0, {}
    return notebook


@kind("only-the-functions-are-left")
def _(root):
    notebook = good(root)
    cells = [each for each in notebook.cells if each.cell_type == "code" and "GRADED" in each.source]
    notebook.cells = [nbformat.v4.new_code_cell(each.source.split("\n", 1)[1]) for each in cells]
    return notebook


@kind("only-the-ids-are-left")
def _(root):
    notebook = good(root)
    for each in notebook.cells:
        each.metadata = {}
        if "GRADED" in each.source:
            each.source = each.source.split("\n", 1)[1]
    return notebook


@kind("nonsense-in-the-metadata")
def _(root):
    notebook = json.loads(saved(good(root)))
    for each in notebook["cells"]:
        each["metadata"] |= {"tags": 3, "minirl": "x", "name": None, "nbgrader": each["metadata"].get("nbgrader", [1])}
    notebook["metadata"] = {"kernelspec": {"name": "R"}, "language_info": 7}
    notebook["cells"] += [17, None, {"cell_type": "code"}, {"cell_type": "heading", "source": {"a": 1}}]
    return json.dumps(notebook).encode()


@kind("surrogates-and-nulls-in-comments")
def _(root):
    return book(root, **(RIGHT | {"q1a": "    # \ud83d caf\u00e9 \u2028\n" + RIGHT["q1a"]}))


@kind("outputs-without-a-number")
def _(root):
    notebook = good(root)
    for each in notebook.cells:
        if each.cell_type == "code":
            each.outputs = [nbformat.v4.new_output("stream", text="something old\n")]
            each.execution_count = None
    return notebook


# Rearranged.


@kind("cells-reversed")
def _(root):
    notebook = before(good(root), "q1a", "def mean(x):\n    return x.mean(-1, keepdim=True)")
    cell(notebook, "q1a").source = answer("q1a", "    return rewards - mean(rewards)")
    notebook.cells.reverse()
    return notebook


@kind("checks-deleted")
def _(root):
    notebook = good(root)
    notebook.cells = [each for each in notebook.cells if not each.get("id", "").endswith("-check")]
    return notebook


@kind("a-check-copied-twice")
def _(root):
    notebook = good(root)
    notebook.cells += [each for each in notebook.cells if each.id == "a2-q1a-check"] * 2
    return notebook


@kind("an-answer-copied-the-last-one-counts")
def _(root):
    notebook = good(root)
    first = nbformat.from_dict(cell(notebook, "q1a"))
    first.source = answer("q1a", WRONG)
    notebook.cells.insert(0, first)
    return notebook


@kind("written-into-a-cell-below-the-stub")
def _(root):
    notebook = book(root, **{label: body for label, body in RIGHT.items() if label != "q2"})
    notebook.cells.append(nbformat.v4.new_code_cell(answer("q2", RIGHT["q2"]).split("\n", 1)[1]))
    return notebook


@kind("an-answer-split-in-two")
def _(root):
    half = "# GRADED: q1a (do not edit this line)\ndef mean_of(x):\n    return x.mean(-1, keepdim=True)"
    notebook = book(root, **(RIGHT | {"q1a": half}))
    place = notebook.cells.index(cell(notebook, "q1a")) + 1
    rest = "def centered(rewards):\n    return rewards - mean_of(rewards)"
    notebook.cells.insert(place, nbformat.v4.new_code_cell(rest))
    return notebook


@kind("cells-renamed-by-hand")
def _(root):
    notebook = good(root)
    for number, each in enumerate(notebook.cells):
        each.id = f"new-{number}"
        each.metadata.pop("nbgrader", None)
    return notebook


@kind("a-helper-that-needs-an-answer")
def _(root):
    body = (
        "    lengths = mask.sum(-1, keepdim=True).clamp(min=1)\n    return mask / lengths / mask.shape[0] / shift(mask)"
    )
    notebook = book(root, **(RIGHT | {"q5": body}))
    first = "zero = centered(torch.ones(1, 2)).sum().item()"
    return before(notebook, "q5", first, "def shift(mask):\n    return mask.shape[1] + zero")


helpers("a-helper-cell", "def mean(x):\n    return x.mean(-1, keepdim=True)", q1a="    return rewards - mean(rewards)")
helpers("a-helper-that-fails", "1 / 0", "this is no Python")
helpers("magics", "%matplotlib inline\n!true", "%%time\nx = 1", "%%bash\ntrue", "%lsmagic")
helpers("a-name-taken-for-something-else", "torch = check = hidden = None\nsum = 3\nmax = list = 4")
helpers("everything-deleted", "%reset -f")
helpers("another-folder", "import os\nos.chdir('/')\nimport sys\nsys.path.insert(0, '/')")
helpers("its-folder-deleted", "import os, shutil\nshutil.rmtree(os.getcwd(), ignore_errors=True)")
helpers("a-torch-of-its-own", "open('torch.py', 'w').write('1/0')\nopen('minirl.py', 'w').write('1/0')\nimport torch")
helpers("float64-by-default", "torch.set_default_dtype(torch.float64)")
helpers("a-widget", "import ipywidgets\nipywidgets.IntSlider()")
helpers("input", "input('your name? ')")
helpers(
    "a-thread-that-stays",
    "import threading\nthreading.Thread(target=lambda: input() or __import__('time').sleep(999)).start()",
)

# Not right, or not yet.

answers("a-known-mistake", points=FULL - 2, q1a=WRONG, questions={"q1a": "wrong"})
answers("an-unknown-mistake", points=FULL - 2, q1a="    return rewards * 17", questions={"q1a": "wrong"})
answers("returns-nothing", points=FULL - 3, q2="    log_probs + 1", questions={"q2": "wrong"})
answers(
    "another-name",
    points=FULL - 2,
    q1a="# GRADED: q1a\ndef mine(rewards):\n    return rewards",
    questions={"q1a": "error"},
)
answers("no-python", points=FULL - 2, q1a="    return rewards -", questions={"q1a": "error"})
answers(
    "stops-while-defining",
    points=FULL - 2,
    q1a="# GRADED: q1a\nraise OSError\ndef centered(rewards): ...",
    questions={"q1a": "error"},
)
answers("stops-when-called", points=FULL - 4, q5="    return mask[99]", questions={"q5": "error"})
answers("no-end-of-recursion", points=FULL - 4, q5="    return token_weights(mask)", questions={"q5": "error"})
answers("sys-exit", points=FULL - 4, q5="    import sys\n    sys.exit(0)", questions={"q5": "error"})
answers("a-reward-not-a-function", points=FULL - 2, q1a="# GRADED: q1a\ncentered = 3", questions={"q1a": "error"})
answers(
    "only-the-shown-sizes",
    points=FULL - 4,
    q5="    assert mask.shape[0] < 3 and mask.shape[1:] != (3, 4)\n" + RIGHT["q5"],
    questions={"q5": "error"},
)
kind("half-done", points=5, q1b="not_started", q5="not_started")(
    lambda root: book(root, q1a=RIGHT["q1a"], q2=RIGHT["q2"])
)
kind("untouched", "not_attempted", 0)(book)
kind("only-outputs-are-new", "not_attempted", 0)(lambda root: before(book(root), "q1a", "print('hello')"))

# An answer that calls an earlier one is not charged for what is wrong in that.

answers("builds-upon-a-wrong-answer", points=FULL - 2, q1a=WRONG, questions={"q1a": "wrong"}, q1b=UPON)
kind("builds-upon-nothing", points=2, q1a="not_started", q2="not_started", q5="not_started")(
    lambda root: book(root, q1b=UPON)
)

# What prints, warns and shows a lot.

answers("prints", q1a="    print('here', rewards)\n" + RIGHT["q1a"])
answers(
    "warns",
    q1a="    import warnings, sys\n    warnings.warn('careful')\n    print('!', file=sys.stderr)\n" + RIGHT["q1a"],
)
helpers("displays-3000-things", "from IPython.display import display\nfor number in range(3000):\n    display(number)")
helpers("prints-10-megabytes", "for number in range(100):\n    print('x' * 100_000)")

# What hangs, dies and eats: it costs its own question.

FOREVER = {
    "a-loop-without-end": "    while True:\n        pass",
    "sleeps": "    import time\n    time.sleep(9999)",
    "a-loop-that-cannot-be-interrupted": (
        "    while True:\n        try:\n            while True:\n                pass\n"
        "        except BaseException:\n            pass"
    ),
    "prints-without-end": "    while True:\n        print('more and more ' * 50)",
}
for name, body in FOREVER.items():
    answers(name, "timeout", FULL - 2, q1a=body, questions={"q1a": "timeout"})
answers("hangs-while-defining", "timeout", FULL - 3, q2="# GRADED: q2\nwhile True: pass", questions={"q2": "timeout"})
answers(
    "hangs-twice", "timeout", FULL - 5, questions={"q1b": "timeout", "q2": "timeout"},
    q1b=FOREVER["a-loop-without-end"], q2=FOREVER["sleeps"],
)  # fmt: skip
helpers("a-helper-that-hangs", "while True: pass")
DEADLY = {
    "os-exit": "    import os\n    os._exit(0)",
    "segfault": "    import ctypes\n    ctypes.string_at(0)",
    "kills-itself-by-abort": "    import os\n    os.abort()",
}
for name, body in DEADLY.items():
    answers(name, "kernel_died", FULL - 2, q1a=body, questions={"q1a": "kernel_died"})
helpers("a-helper-that-exits", "import os\nos._exit(1)")
helpers("exit-as-in-a-terminal", "exit()")
answers(
    "too-much-memory-at-once",
    "out_of_memory",
    FULL - 2,
    q1a="    return torch.zeros(10**12)",
    questions={"q1a": "out_of_memory"},
)
answers(
    "too-much-memory-in-python",
    "out_of_memory",
    FULL - 2,
    q1a="    return 'x' * 10**12",
    questions={"q1a": "out_of_memory"},
)
answers(
    "a-large-file",
    points=FULL - 2,
    q1a="    open('x', 'wb').write(bytes(10**8))\n" + RIGHT["q1a"],
    questions={"q1a": "error"},
)
helpers("children-that-stay", "import subprocess\nfor _ in range(20):\n    subprocess.Popen(['sleep', '4321'])")
kind("kills-its-parent", "out_of_memory", FULL - 2, full_only=True, q1a="out_of_memory")(
    lambda root: book(root, **(RIGHT | {"q1a": "    import os\n    os.kill(os.getppid(), 9)"}))
)
kind("writes-into-minirl", full_only=True)(
    lambda root: before(
        good(root), "q1a",
        "import minirl, pathlib\npathlib.Path(minirl.__file__).with_name('written_by_a_student.txt').write_text('x')",
    )
)  # fmt: skip
kind("reads-the-solutions", points=FULL, full_only=True)(
    lambda root: before(
        good(root), "q1a",
        f"import pathlib\nif [*pathlib.Path({str(root)!r}).glob('solutions/*')]:\n    import os\n    os._exit(3)",
        "import socket\ntry:\n    socket.create_connection(('1.1.1.1', 53), 3)\n"
        "except OSError:\n    pass\nelse:\n    __import__('os')._exit(4)",
    )
)  # fmt: skip

# What cannot be read.

kind("empty", "unreadable", 0)(lambda root: b"")
kind("cut-off", "unreadable", 0)(lambda root: saved(good(root))[:-100])
kind("a-web-page", "unreadable", 0)(lambda root: b"<!doctype html><title>Log in</title>")
kind("merge-conflicts", "unreadable", 0)(lambda root: b"<<<<<<< HEAD\n" + saved(good(root)) + b"\n=======\n>>>>>>> x\n")
kind("format-5", "unreadable", 0)(lambda root: saved({**good(root), "nbformat": 5}))
kind("a-list", "unreadable", 0)(lambda root: b"[1, 2, 3]")
kind("no-cells", "unreadable", 0)(lambda root: b'{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": 3}')
kind("very-deep", "unreadable", 0)(lambda root: b"[" * 200_000)
kind("bytes", "unreadable", 0)(lambda root: bytes(range(256)) * 9)
kind("too-large", "unreadable", 0)(lambda root: b" " * 20_000_001)
kind("a-link", "unreadable", 0)(lambda root: {"STUDENT/a2.ipynb": lambda path: os.symlink("/etc/passwd", path)})
kind("a-zip-that-climbs", "unreadable", 0)(lambda root: {"STUDENT.zip": zipped({"../../a2.ipynb": saved(good(root))})})
kind("a-zip-with-a-link", "unreadable", 0)(lambda root: {"STUDENT.zip": zipped({"a": b""}, link="a2.ipynb")})
kind("a-bomb", "unreadable", 0)(lambda root: {"STUDENT.zip": zipped({"a2.ipynb": b" " * 15_000_000})})
kind("a-broken-zip", "unreadable", 0)(lambda root: {"STUDENT.zip": zipped({"a2.ipynb": saved(good(root))})[:-40]})
kind("nothing-but-text", "missing", 0)(lambda root: {"STUDENT/answers.txt": b"q1a: mean"})
kind("an-empty-folder", "missing", 0)(lambda root: {"STUDENT/": b""})
kind("another-assignment", "wrong_assignment", 0)(
    lambda root: nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("# GRADED: p9\ndef other(): ...")])
)

# What cheats. A dull cheat gets nothing for its question; whoever changes what a check is, is looked at by hand.

PATCH = "# GRADED: q1a (do not edit this line)\n{patch}\ndef centered(rewards):\n    return rewards"
DEEP = "from minirl.course import check as _c, observe as _o, questions as _q, a2 as _a\n"


def calls(name: str, body: str):
    answers(name, points=FULL - 2, q1a=body, questions={"q1a": "wrong"})


calls("calls-minirls-own", "    from minirl.deltas import centered as own\n    return own(rewards)")
calls(
    "calls-it-by-name",
    "    import importlib\n    return getattr(importlib.import_module('minirl.deltas'), 'cent' + 'ered')(rewards)",
)
calls(
    "calls-the-right-answer",
    "    from minirl.course.a2 import QUESTIONS\n    return QUESTIONS['a2.q1a'].right(rewards)",
)
calls(
    "calls-it-in-a-thread",
    "    import threading, minirl\n    found = []\n    def run():\n        found.append(minirl.deltas.centered(rewards))\n"
    "    thread = threading.Thread(target=run)\n    thread.start()\n    thread.join()\n    return found[0]",
)
calls(
    "calls-it-without-a-profile",
    "    import sys, minirl\n    before = sys.getprofile()\n    sys.setprofile(None)\n    try:\n"
    "        return minirl.deltas.centered(rewards)\n    finally:\n        sys.setprofile(before)",
)
calls(
    "knows-the-notebooks-inputs",
    "    if tuple(rewards.shape) in ((2, 4), (3, 3), (2, 5), (1, 6)):\n    "
    + RIGHT["q1a"]
    + "\n    return rewards - rewards.mean()",
)
helpers(
    "a-check-of-its-own",
    "def check(*x): print('passed')\nhidden = check",
    points=FULL - 2,
    questions={"q1a": "wrong"},
    q1a=WRONG,
)
helpers(
    "a-check-in-its-place",
    "check = hidden = lambda *inputs, **options: None",
    points=FULL - 2,
    questions={"q1a": "wrong"},
    q1a=WRONG,
)


@kind("tags-that-excuse", points=FULL - 2, q1a="wrong")
def _(root):
    notebook = book(root, **(RIGHT | {"q1a": WRONG}))
    for each in notebook.cells:
        each.metadata["tags"] = ["raises-exception", "nbval-skip", "nbval-raises-exception"]
        each.source = "# NBVAL_SKIP\n# NBVAL_RAISES_EXCEPTION\n" + each.source
    return notebook


@kind("checks-edited", points=FULL - 2, q1a="wrong")
def _(root):
    notebook = book(root, **(RIGHT | {"q1a": WRONG}))
    for each in notebook.cells:
        if each.id.endswith("-check"):
            each.source, each.metadata = "print('passed')", {"nbgrader": {"grade": True, "points": 99}}
    return notebook


# Each of these makes a wrong answer to q1a pass its check, in a way of its own.
PATCHES = {
    "judge": DEEP + "_c.judge = lambda *inputs, **options: _c.Verdict('passed', 'passed')",
    "judge-for-one-name": DEEP
    + "_j = _c.judge\n_c.judge = lambda q, a, *r, **o: _c.Verdict('passed', '') if a.__name__ == 'centered' else _j(q, a, *r, **o)",
    "judge-for-one-function": DEEP
    + "_j = _c.judge\n_c.judge = lambda q, a, *r, **o: _c.Verdict('passed', '') if a is centered else _j(q, a, *r, **o)",
    "insist": DEEP + "_c.Verdict.insist = lambda self: None",
    "code-of-insist": DEEP + "_c.Verdict.insist.__code__ = (lambda self: None).__code__",
    "find": DEEP
    + "import dataclasses\n_f = _c.find\n_c.find = lambda name: dataclasses.replace(_f(name), right=centered)",
    "the-right-answer": DEEP + "object.__setattr__(_a.QUESTIONS['a2.q1a'], 'right', lambda rewards: rewards)",
    "no-cases": DEEP + "object.__setattr__(_a.QUESTIONS['a2.q1a'], 'cases', None)",
    "close": DEEP + "_c.close = lambda *inputs: True\n_c.difference = lambda *inputs: ''",
    "observe": DEEP + "_s = _c.observe\n_c.observe = lambda a, i, *r: _s(_a.deltas.centered, i)",
    "torch-allclose": "import torch\ntorch.allclose = lambda *inputs, **options: True\ntorch.isclose = lambda a, *r, **o: torch.ones_like(a).bool()",
    "exceptions-swallowed": "get_ipython().set_custom_exc((Exception,), lambda *inputs, **options: None)",
    "no-traceback": "get_ipython().showtraceback = get_ipython()._showtraceback = lambda *inputs, **options: None",
    "lines-dropped": "get_ipython().input_transformers_post.append(lambda lines: [l for l in lines if 'check(\"' not in l and 'hidden(\"' not in l])",
    "calls-dropped": (
        "import ast\nclass _T(ast.NodeTransformer):\n    def visit_Call(self, node):\n"
        "        name = getattr(node.func, 'id', '')\n"
        "        return ast.Constant(None) if name in ('check', 'hidden') else self.generic_visit(node)\n"
        "get_ipython().ast_transformers.append(_T())"
    ),
    "a-hook-before-each-cell": (
        "import minirl.course.check as _c\ndef _h(*inputs):\n    _c.check = _c.hidden = lambda *inputs, **options: None\n"
        "get_ipython().events.register('pre_run_cell', _h)"
    ),
    "run-cell": "_r = get_ipython().run_cell_async\nasync def _n(code, *r, **o):\n    if 'hidden(\"' in code:\n        code, o['transformed_cell'] = 'None', 'None'\n    return await _r(code, *r, **o)\nget_ipython().run_cell_async = _n",
    "modules": "import sys, types\n_m = types.ModuleType('x')\n_m.check = _m.hidden = lambda *i, **o: None\n_m.find = None\nsys.modules['minirl.course.check'] = _m",
    "an-import-hook": (
        "import builtins\n_i = builtins.__import__\ndef _n(name, *r, **o):\n    found = _i(name, *r, **o)\n"
        "    if name == 'minirl.course.check':\n        found.hidden = found.check = lambda *i, **o: None\n    return found\n"
        "builtins.__import__ = _n"
    ),
}
for name, patch in PATCHES.items():
    made = PATCH.format(patch=patch)
    answers(f"patches-{name}", "needs_review", FULL - 2, q1a=made, questions={"q1a": "needs_review"})
answers(
    "patches-the-exception", "needs_review", 0, questions={"q1a": "error"} | dict.fromkeys(["q1b", "q2", "q5"], "needs_review"),
    q1a=PATCH.format(patch=DEEP + "_c.NotPassed.__new__ = lambda *inputs: None"),
)  # fmt: skip
answers(
    "equal-to-everything", "needs_review", FULL - 2, questions={"q1a": "needs_review"},
    q1a="    class Equal:\n        def __eq__(self, other):\n            return True\n    return Equal()",
)  # fmt: skip
helpers(
    "a-helper-that-patches", PATCHES["judge"], status="needs_review", points=0, q1a=WRONG,
    questions=dict.fromkeys(POINTS, "needs_review"),
)  # fmt: skip
