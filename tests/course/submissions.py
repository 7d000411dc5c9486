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
        cell(notebook, label).source = body if "# GRADED" in body else answer(label, body)
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
kind("kills-its-parent", "graded", FULL - 2, full_only=True, q1a="wrong")(  # a group that it is alone in
    lambda root: book(root, **(RIGHT | {"q1a": "    import os\n    os.kill(os.getppid(), 9)"}))
)

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
kind("too-large", "unreadable", 0)(lambda root: b" " * 100_000_001)
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
# These two do not reach the check that students have; the second, all that is behind the answers.
answers(
    "patches-calls-dropped",
    points=FULL - 2,
    q1a=PATCH.format(patch=PATCHES["calls-dropped"]),
    questions={"q1a": "wrong"},
)
answers(
    "patches-run-cell", "needs_review", 0, q1a=PATCH.format(patch=PATCHES["run-cell"]),
    questions={"q1a": "wrong"} | dict.fromkeys(["q1b", "q2", "q5"], "needs_review"),
)  # fmt: skip
answers(
    "patches-the-exception", "needs_review", 0, questions={"q1a": "error"} | dict.fromkeys(["q1b", "q2", "q5"], "needs_review"),
    q1a=PATCH.format(patch=DEEP + "_c.NotPassed.__new__ = lambda *inputs: None"),
)  # fmt: skip
answers(
    "equal-to-everything", "graded", FULL - 2, questions={"q1a": "wrong"},
    q1a="    class Equal:\n        def __eq__(self, other):\n            return True\n    return Equal()",
)  # fmt: skip
helpers(
    "a-helper-that-patches", PATCHES["judge"], status="needs_review", points=0, q1a=WRONG,
    questions=dict.fromkeys(POINTS, "needs_review"),
)  # fmt: skip

# Answers that lie about what they are, or learn what is expected from the comparison itself.

LEARNS = (  # compared by allclose or by ==, it keeps what it is compared with, and returns that the next time
    "# GRADED: q1a (do not edit this line)\nlearned = {}\n\nclass Liar(torch.Tensor):\n    @classmethod\n"
    "    def __torch_function__(cls, func, types, args=(), kwargs=None):\n"
    "        if func.__name__ in ('allclose', 'isclose'):\n            learned[cls.key] = args[0]\n            return True\n"
    "        return super().__torch_function__(func, types, args, kwargs or {})\n\n"
    "def centered(rewards):\n    Liar.key = str(rewards.tolist())\n"
    "    return learned[Liar.key].to(rewards) if Liar.key in learned else rewards.as_subclass(Liar)"
)
LEARNS_BY_EQUALITY = (
    "# GRADED: q1a (do not edit this line)\nlearned = {}\n\nclass Equal:\n    def __init__(self, key):\n        self.key = key\n"
    "    def __eq__(self, other):\n        learned[self.key] = other\n        return True\n\n"
    "def centered(rewards):\n    key = str(rewards.tolist())\n    return learned.get(key, Equal(key))"
)
for name, made in {"a-tensor-that-learns": LEARNS, "an-object-that-learns": LEARNS_BY_EQUALITY}.items():
    answers(name, points=FULL - 2, q1a=made, questions={"q1a": "wrong"})
answers(
    "a-shape-that-lies", points=FULL - 2, questions={"q1a": "wrong"},
    q1a="    class T(torch.Tensor):\n        shape = property(lambda self: (2, 4))\n        numel = lambda self: 8\n"
    "        __eq__ = lambda *x: True\n    return rewards.as_subclass(T)",
)  # fmt: skip
answers(
    "a-string-that-equals-everything", points=FULL - 2, questions={"q1a": "wrong"},
    q1a="    class S(str):\n        __eq__ = lambda *x: True\n        __hash__ = str.__hash__\n    return S('x')",
)  # fmt: skip
answers(
    "asks-the-frames-for-the-right-answer", points=FULL - 2, questions={"q1a": "wrong"},
    q1a="    import sys\n    frame = sys._getframe()\n    while 'question' not in frame.f_locals:\n        frame = frame.f_back\n"
    "    return frame.f_locals['question'].right(rewards)",
)  # fmt: skip
calls(
    "finds-it-among-all-objects",
    "    import gc, types\n    return next(f for f in gc.get_objects() if isinstance(f, types.FunctionType)\n"
    "                and f.__module__ == 'minirl.deltas' and f.__name__ == 'centered')(rewards)",
)
calls("unpickles-it", "    import pickle\n    return pickle.loads(b'cminirl.deltas\\ncentered\\n.')(rewards)")
calls("wraps-it", "# GRADED: q1a\nimport functools, minirl\ncentered = functools.partial(minirl.deltas.centered)")
helpers(
    "kept-it-under-another-name", "from minirl.deltas import centered as mean_free",
    points=FULL - 2, questions={"q1a": "wrong"}, q1a="    return mean_free(rewards)",
)  # fmt: skip
calls(
    "swallows-the-refusal",
    "    import minirl\n    try:\n        return minirl.deltas.centered(rewards)\n    except Exception:\n"
    "        return rewards - rewards.mean(-1, keepdim=True)",
)
answers(  # a copy of the text is a copy: no machine can tell it from what was typed
    "copies-the-text-of-minirl",
    q1a="# GRADED: q1a\nimport inspect, minirl\nexec(inspect.getsource(minirl.deltas.centered), {**vars(minirl.deltas)}, globals())",
)
answers(
    "right-while-it-is-watched", points=FULL - 2, questions={"q1a": "wrong"},
    q1a="    import sys\n    names = {frame.f_code.co_name for frame in [sys._getframe(1), sys._getframe(2)]}\n"
    "    return rewards - rewards.mean(-1, keepdim=True) if 'nobody' in names else rewards",
)  # fmt: skip
answers(
    "right-the-first-time-only", points=FULL - 2, questions={"q1a": "wrong"},
    q1a="# GRADED: q1a\ncount = 0\ndef centered(rewards):\n    global count\n    count += 1\n"
    "    return rewards - (rewards.mean(-1, keepdim=True) if count < 6 else 0)",
)  # fmt: skip

# Evidence that was made up.

SHOW = (
    "    from IPython.display import display\n    display({{'application/x-minirl-witness+json': {what}}}, raw=True)\n"
)
NONCE = "__import__('minirl.course.witness', fromlist=['x'])._begun.get('nonce')"
for name, what in {"a-witness-that-is-text": "'x'", "a-witness-that-is-a-list": "[[1]]"}.items():
    answers(name, q1a=SHOW.format(what=what) + RIGHT["q1a"])
answers(
    "a-witness-of-nonsense", "needs_review", FULL - 2, questions={"q1a": "needs_review"},
    q1a=SHOW.format(what=f"{{'nonce': {NONCE}, 'seen': 3, 'changed': None}}") + RIGHT["q1a"],
)  # fmt: skip

# Hidden tests and other people's files are not to be had.

STEALS = (  # all that the frames around it hold, and the notebook's own memory
    "import sys\nframe, found = sys._getframe(), [str(In), str(globals().get('seen'))]\nwhile frame:\n"
    "    found += [str(v) for k, v in frame.f_locals.items() if k in ('raw_cell', 'source', 'code', 'cell', 'cases')]\n"
    "    frame = frame.f_back\nfound = ' '.join(each for each in found if 'hidden(' in each or '2.5, -1.0' in each)\n"
)
answers(
    "says-what-it-has-seen-while-defining", points=FULL - 2, questions={"q1b": "error"},
    q1b=f"# GRADED: q1b\n{STEALS}raise ValueError('stolen ' + found)",
)  # fmt: skip
answers(
    "says-what-it-was-given", points=FULL - 2, questions={"q1b": "error"},
    q1a="# GRADED: q1a\nseen = []\ndef centered(rewards):\n    seen.append(rewards.tolist())\n" + RIGHT["q1a"],
    q1b="    raise ValueError(f'stolen {seen}')",
)  # fmt: skip
STOLEN = "\n".join("    " + line for line in STEALS.splitlines())
answers(
    "says-which-cell-calls-it", points=FULL - 2, questions={"q1a": "error"},
    q1a=f"{STOLEN}\n    raise ValueError('stolen ' + found)",
)  # fmt: skip
answers(
    "says-which-cell-calls-it-once-it-knows", points=FULL - 2, questions={"q1a": "error"},
    q1a=f"{STOLEN}\n    if found:\n        raise ValueError('stolen ' + found)\n" + RIGHT["q1a"],
)  # fmt: skip
answers(
    "says-what-it-has-seen-by-its-name", points=FULL - 2, questions={"q1b": "error"},
    q1b=f"# GRADED: q1b\n{STEALS}raise type('stolen ' + found, (Exception,), {{}})('x')",
)  # fmt: skip
answers(  # after a trouble the instructor's own answer stands in for the first
    "says-what-stands-in-for-it", "timeout", FULL - 4, questions={"q1a": "timeout", "q1b": "error"},
    q1a="    while True: pass", q1b="    import inspect\n    raise ValueError('stolen ' + inspect.getsource(centered))",
)  # fmt: skip


def escapes(name: str, *sources: str):
    """Cells that say where they got out; the first answer is wrong if one did. ROOT stands for the course's folder."""

    def make(root: Path):
        told = book(root, **(RIGHT | {"q1a": RIGHT["q1a"] + " + len(escaped)"}))
        first = "import os, pathlib, subprocess\nescaped = []"
        return before(told, "q1a", first, *(source.replace("ROOT", str(root)) for source in sources))

    kind(name, full_only=True)(make)


UNMOUNT = (
    "for each in ('ROOT/solutions', 'ROOT', '/tmp', '/var', '/'):\n    {}subprocess.run([*{}, 'umount', '-l', each])"
)
WRITE = (
    "import minirl\ntry:\n    pathlib.Path(minirl.__file__).with_name('written_by_a_student.txt').write_text('x')\n"
    "    escaped.append('wrote')\nexcept OSError:\n    pass"
)
LOOK = (
    "escaped += [each for each in ('ROOT/solutions', 'ROOT/class', 'ROOT/assignments') if os.path.exists(each)]\n"
    "escaped += [*pathlib.Path('/tmp').glob('minirl-*/book'), *(set(os.listdir('/run')) - {'mount'})]\n"
    "escaped += [each for each in os.listdir('/proc') if each.isdigit() and int(each) > 500]"
)
DIAL = "import socket\ntry:\n    socket.create_connection(('1.1.1.1', 53), 3)\n    escaped.append('net')\nexcept OSError:\n    pass"
escapes("reads-the-solutions", LOOK, DIAL, WRITE)
escapes(
    "takes-its-walls-down",
    UNMOUNT.format("", []),
    "subprocess.run(['mount', '-o', 'remount,bind,rw', '/'])",
    LOOK,
    WRITE,
)
escapes(
    "takes-them-down-from-a-room-within", UNMOUNT.format("", ["unshare", "-Urm", "--propagation", "slave"]), LOOK,
    "subprocess.run(['unshare', '-Urm', 'sh', '-c', 'umount -l ROOT; umount -l /var; ls ROOT/solutions && touch x'])\n"
    "escaped += ['seen'] if os.path.exists('x') else []",
)  # fmt: skip
escapes(
    "fills-the-disk",
    "try:\n    for number in range(40):\n        open(f'x{number}', 'wb').write(bytes(40_000_000))\n"
    "    escaped.append('full')\nexcept OSError:\n    subprocess.run('rm x*', shell=True)",
)
helpers(
    "looks-for-its-own-record",
    "import os\nfor at in (0, 1, 2):\n    try:\n        os.write(at, b'{\"kind\": \"check\", \"of\": \"a2-q1a-check\", \"event\": \"ended\", "
    "\"passed\": true, \"trouble\": \"\"}\\n')\n    except OSError:\n        pass",
    points=FULL - 2, questions={"q1a": "wrong"}, q1a=WRONG,
)  # fmt: skip

# What would cost others something.

kind("signals-everybody", "kernel_died", FULL - 2, full_only=True, q1a="kernel_died")(
    lambda root: book(
        root,
        **(
            RIGHT
            | {"q1a": "    import os\n    try:\n        os.kill(-1, 15)\n    except OSError:\n        os._exit(0)"}
        ),
    )
)
helpers(
    "leaves-children-of-its-own",
    "import subprocess\nsubprocess.Popen(['setsid', 'sleep', '4321'], start_new_session=True)",
)
helpers(
    "a-thousand-threads",
    "import threading, time\nfor _ in range(1000):\n    threading.Thread(target=time.sleep, args=(99,), daemon=True).start()",
)
helpers("listens-on-a-port", "import socket\ns = socket.socket()\ns.bind(('0.0.0.0', 8888))\ns.listen()")
helpers("a-large-error", "raise ValueError('x' * 30_000_000)")
answers(
    "a-large-error-in-an-answer",
    points=FULL - 2,
    q1a="    raise ValueError('x' * 30_000_000)",
    questions={"q1a": "error"},
)
helpers("shuts-down-politely", "get_ipython().kernel.do_shutdown(False)")
helpers("interrupts-itself", "import os, signal\nos.kill(os.getpid(), signal.SIGINT)")

# Slow to read, or more than a reader expects: nobody else waits for it.

helpers("a-cell-of-600-magics", "\n".join(["!true"] * 600))
helpers("a-cell-of-400-magics-and-much-more", "\n".join(["%lsmagic x"] * 400 + ["x = (1, 2, 3, 'abc')"] * 20_000))
helpers("a-sum-of-3000", "x = " + " + ".join(["1"] * 3000))
helpers("brackets-without-end", "(" * 100_000, "x = " + "[" * 150 + "]" * 150)
helpers(
    "an-else-without-end", "x = 1\nif x == 0:\n    pass\n" + "".join(f"elif x == {n}:\n    pass\n" for n in range(900))
)
kind("900-cells")(lambda root: before(good(root), "q1a", *[f"x{number} = {number}" for number in range(900)]))
kind("a-page-of-scripts")(lambda root: with_markdown(good(root), "<script>alert(1)</script>\n" * 1000))
kind("a-file-of-30-megabytes")(lambda root: with_output(good(root), "x" * 30_000_000))
kind("two-cells-of-one-id")(lambda root: one_id(good(root)))


def with_markdown(notebook, text: str):
    notebook.cells.insert(0, nbformat.v4.new_markdown_cell(text))
    return notebook


def with_output(notebook, text: str):
    cell(notebook, "q1a").outputs = [nbformat.v4.new_output("stream", text=text)]
    return notebook


def one_id(notebook) -> bytes:
    raw = json.loads(saved(notebook))
    for each in raw["cells"]:
        each["id"] = "same"
    return json.dumps(raw).encode()


def member_named(name: str, content: bytes = b"x", spoil: bool = False) -> bytes:
    """A zip with a member of any name, or one that cannot be unpacked."""
    data = bytearray(zipped({"a.zip": content}))
    if spoil:
        at = data.index(b"a.zip") + len(b"a.zip")
        data[at : at + 8] = b"\xff" * 8
    return bytes(data).replace(b"a.zip", name.encode().ljust(5)[:5]) if not spoil else bytes(data)


def named_dot() -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr(zipfile.ZipInfo("."), b"x")
    return data.getvalue()


kind("a-zip-with-a-dot", "unreadable", 0)(lambda root: {"STUDENT.zip": named_dot()})
kind("a-zip-with-a-spoilt-zip", "unreadable", 0)(
    lambda root: {"STUDENT.zip": member_named("", zipped({"a2.ipynb": b"{}" * 99}), spoil=True)}
)
kind("a-zip-of-zips-of-zips", "unreadable", 0)(
    lambda root: {"STUDENT.zip": zipped({"b.zip": zipped({"c.zip": zipped({"a2.ipynb": saved(good(root))})})})}
)
kind("good-beside-a-spoilt-one")(
    lambda root: {"STUDENT/a2.ipynb": saved(good(root)), "STUDENT/more.zip": zipped({"a2.ipynb": b'{"nbformat": 3}'})}
)
kind("format-3-of-nonsense", "unreadable", 0)(lambda root: b'{"nbformat": 3, "worksheets": [{"cells": 7}]}')
kind("a-pipe-beside-it")(lambda root: {"STUDENT/a2.ipynb": saved(good(root)), "STUDENT/pipe": os.mkfifo})

# Honest work that is written otherwise.

helpers(
    "names-of-the-graders",
    "hidden = 32\nwitness = 5\nbegin = 7\nkept = 9",
    q1a=RIGHT["q1a"] + " * (hidden - 31) * (witness - 4)",
)
helpers("shadowed-builtins", "exec = dict = globals = print = getattr = None", q1a=RIGHT["q1a"])
kind("uses-up-an-answers-name")(lambda root: after(good(root), "q1a", "centered = centered(torch.ones(2, 3))"))
kind("the-same-name-for-two-helpers")(
    lambda root: before(
        before(
            book(root, **(RIGHT | {"q1a": "    return rewards - mean(rewards)", "q5": RIGHT["q5"] + " * mean(mask)"})),
            "q1a", "def mean(x):\n    return x.mean(-1, keepdim=True)",
        ),
        "q5", "one = centered(torch.ones(1, 2)).sum().item() + 1", "def mean(x):\n    return one",
    )
)  # fmt: skip


def after(notebook, label: str, *sources: str):
    """Helper cells behind a check."""
    place = notebook.cells.index(cell(notebook, f"{label}-check")) + 1
    notebook.cells[place:place] = [nbformat.v4.new_code_cell(source) for source in sources]
    return notebook


MARK = "# GRADED: q1a (do not edit this line)\n"
CENTRED = "rewards - rewards.mean(-1, keepdim=True)"
for name, made in {
    "timed": f"%%time\n{MARK}def centered(rewards):\n    return {CENTRED}",
    "timed-and-needs-the-example": f"%%time\n{MARK}def centered(rewards):\n    return {CENTRED} + 0 * example.sum()",
    "captured": f"%%capture\n{MARK}def centered(rewards):\n    print('x')\n    return {CENTRED}",
    "a-lambda": f"{MARK}centered = lambda rewards: {CENTRED}",
    "an-object-that-is-called": f"{MARK}class Centre:\n    def __call__(self, rewards):\n        return {CENTRED}\ncentered = Centre()",
    "a-partial": f"{MARK}import functools\ndef minus(a, rewards):\n    return rewards - rewards.mean(a, keepdim=True)\ncentered = functools.partial(minus, -1)",
    "a-method": f"{MARK}class Deltas:\n    @staticmethod\n    def centered(rewards):\n        return {CENTRED}\ncentered = Deltas.centered",
    "decorated": f"{MARK}import functools\ndef logged(f):\n    @functools.wraps(f)\n    def g(*a, **k):\n        return f(*a, **k)\n    return g\n@logged\ndef centered(rewards):\n    return {CENTRED}",
    "cached": f"{MARK}import functools\n@functools.lru_cache\ndef centered(rewards):\n    return {CENTRED}",
    "without-gradients": f"{MARK}@torch.no_grad()\ndef centered(rewards):\n    return {CENTRED}",
    "with-shapes": f"{MARK}from jaxtyping import Float\nfrom torch import Tensor\ndef centered(rewards: Float[Tensor, 'batch group']) -> Float[Tensor, 'batch group']:\n    return {CENTRED}",
    "in-numpy": f"{MARK}import numpy as np\ndef centered(rewards):\n    x = rewards.numpy()\n    return x - x.mean(-1, keepdims=True)",
    "in-a-list-of-tensors": f"{MARK}def centered(rewards):\n    return torch.stack([row - row.mean() for row in rewards])",
    "awaits-at-the-top": f"{MARK}import asyncio\nawait asyncio.sleep(0)\ndef centered(rewards):\n    return {CENTRED}",
    "a-parameter": f"{MARK}def centered(rewards):\n    return torch.nn.Parameter({CENTRED}, requires_grad=False)",
    "magics-in-the-answer": f"{MARK}%matplotlib inline\n!true\nx = !echo 1\ndef centered(rewards):\n    return {CENTRED}",
    "three-names-at-once": f"{MARK}(centered, other), *rest = (lambda rewards: {CENTRED}, 1), 2",
}.items():  # fmt: skip
    answers(name, q1a=made)
answers(
    "asynchronous",
    points=FULL - 2,
    q1a=f"{MARK}async def centered(rewards):\n    return {CENTRED}",
    questions={"q1a": "wrong"},
)
helpers("warnings-are-errors", "import warnings\nwarnings.simplefilter('error')")
helpers("reloads-by-itself", "%load_ext autoreload\n%autoreload 2")
helpers(
    "writes-a-module",
    "%%writefile mine.py\ndef mean(x):\n    return x.mean(-1, keepdim=True)",
    "from mine import mean",
    q1a="    return rewards - mean(rewards)",
)
helpers("installs", "%pip install einops\n!pip install torch", "%cd /\n%cd -", "!rm -rf ./*")
helpers(
    "a-widget-backend",
    "%matplotlib widget",
    "%matplotlib notebook",
    "import matplotlib.pyplot as plt\nplt.plot([1]); plt.show()",
)
helpers("no-file-of-its-own", "rows = open('data.csv').read()", "!wget https://example.com/data.csv")
helpers("standard-output-closed", "import sys\nsys.stdout.close()")
helpers("standard-output-taken", "import sys, io\nsys.stdout = sys.stderr = io.StringIO()")
helpers("no-gradients-at-all", "torch.set_grad_enabled(False)")
helpers(
    "anomalies-and-seeds",
    "torch.autograd.set_detect_anomaly(True)\ntorch.use_deterministic_algorithms(True)\ntorch.set_num_threads(1)",
)
helpers("everything-of-torch", "from torch import *\nfrom numpy import *")
helpers("a-repr-of-its-own", "torch.Tensor.__repr__ = lambda self, **k: f'tensor {tuple(self.shape)}'")
helpers("the-future", "from __future__ import annotations")


@kind("an-answer-above-the-set-up")
def _(root):
    notebook = good(root)
    first = cell(notebook, "q1a")
    notebook.cells.remove(first)
    notebook.cells.insert(0, first)
    return notebook


@kind("the-set-up-edited")
def _(root):
    notebook = book(root, **(RIGHT | {"q1a": "    return rewards - np.mean(rewards.numpy(), -1, keepdims=True)"}))
    setup = next(each for each in notebook.cells if each.id == "setup")
    setup.source += "\nimport numpy as np"
    return notebook


@kind("an-answer-in-three-cells")
def _(root):
    notebook = book(root, **(RIGHT | {"q1a": f"{MARK}def total(x):\n    return x.sum(-1, keepdim=True)"}))
    place = notebook.cells.index(cell(notebook, "q1a")) + 1
    more = (
        "def mean_of(x):\n    return total(x) / x.shape[-1]",
        "def centered(rewards):\n    return rewards - mean_of(rewards)",
    )
    notebook.cells[place:place] = [nbformat.v4.new_code_cell(each) for each in more]
    return notebook
