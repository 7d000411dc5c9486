"""What nbval does, pinned: each behaviour that the grader relies on, or works around, with nbval's own plugin alone.

When one of these fails after an update, minirl/course/engine.py is the file to look at.
"""

import inspect
import json
import os
import subprocess
import sys
import time

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

long = pytest.mark.skipif(not os.environ.get("MINIRL_CORPUS"), reason="takes long: set MINIRL_CORPUS=1")
RECORDER = """
import json, pytest

@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if call.when == "call":
        limit = item.config.option.nbval_cell_timeout
        found = dict(cell=item.cell.metadata.get("name"), outcome=report.outcome, xfail=hasattr(report, "wasxfail"),
                     late=item.parent.timed_out, seconds=call.duration, limit=limit,
                     outputs=[out.output_type for out in item.test_outputs or []])
        print("@" + json.dumps(found))
    return report

def pytest_runtest_call(item):
    if "limit" in item.cell.metadata:
        item.config.option.nbval_cell_timeout = item.cell.metadata.limit
"""


def cell(name: str, source: str, *outputs, count: int | None = None, **metadata):
    made = new_code_cell(source, execution_count=count, metadata={"name": name, **metadata})
    made.outputs = [*outputs]
    return made


def run(folder, *cells, options=(), kernel="python3") -> tuple[dict[str, dict], str]:
    """What pytest with nbval makes of each cell."""
    folder.mkdir(exist_ok=True)
    nbformat.write(
        new_notebook(cells=[*cells], metadata={"kernelspec": {"name": kernel, "display_name": "x"}}),
        folder / "book.ipynb",
    )
    (folder / "recorder.py").write_text(RECORDER, "utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", "utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "nbval.plugin", "-p", "recorder", "--nbval-lax"]
    command += ["-p", "no:cacheprovider", "-W", "ignore", *options, "book.ipynb"]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(folder)}
    found = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment, timeout=300)
    lines = [line.split("@", 1)[1] for line in found.stdout.splitlines() if "@{" in line]
    return {each["cell"]: each for each in map(json.loads, lines)}, found.stdout + found.stderr


def drawn(mime: str, saved, shown):
    """A checked cell that shows `shown`, where `saved` was shown before."""
    source = f"from IPython.display import display\ndisplay({{{mime!r}: {shown!r}, 'text/plain': 'x'}}, raw=True)"
    return f"{source}\n# NBVAL_CHECK_OUTPUT", new_output("display_data", {mime: saved, "text/plain": "x"})


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """One notebook with many cells."""
    text = new_output("stream", text="other\n")
    warned, address = (
        new_output("stream", name="stderr", text="old\n"),
        new_output("execute_result", {"text/plain": "0x1"}),
    )
    mime = "application/x-minirl-witness+json"
    cells = [
        cell("right", "assert True"),
        cell("wrong", "assert False"),
        cell("after", "assert True"),
        cell("tag excuses", "assert False", tags=["raises-exception"]),
        cell("tag skips", "assert False", tags=["nbval-skip"]),
        cell("comment excuses", "# NBVAL_RAISES_EXCEPTION\nassert False"),
        cell("comment skips", "x = 1\n    # NBVAL_SKIP\nassert False"),
        cell("nothing raised", "assert True", tags=["raises-exception"]),
        cell("outputs but no number", "assert True", text),
        cell("lax", "print('new')", text, count=3),
        cell("checked", "print('new')\n# NBVAL_CHECK_OUTPUT", text, count=3),
        cell("picture", *drawn("image/png", "AAAA", "BBBB"), count=3),
        cell(
            "widget", *drawn("application/vnd.jupyter.widget-view+json", {"model_id": "a"}, {"model_id": "b"}), count=3
        ),
        cell("vector picture", *drawn("image/svg+xml", "<svg id='a'/>", "<svg id='b'/>"), count=3),
        cell("warning", "import sys\nprint('new', file=sys.stderr)\n# NBVAL_CHECK_OUTPUT", warned, count=3),
        cell("address", "# NBVAL_CHECK_OUTPUT\nobject()", address, count=3),
        cell("folder", "import os\nassert os.path.exists('book.ipynb')"),
        cell("shown", f"display({{'{mime}': {{'a': [1]}}, 'text/plain': ''}}, raw=True)\nassert False"),
        cell("question", "input('?')"),
    ]
    return run(tmp_path_factory.mktemp("nbval") / "one", *cells)[0]


@pytest.mark.parametrize(
    "name, outcome",
    {
        "right": "passed",
        "wrong": "failed",
        "after": "passed",  # a failure ends nothing
        "tag excuses": "passed",  # so tags are not kept
        "tag skips": "skipped",  # so only "passed" counts
        "comment excuses": "passed",  # so markers are taken out
        "comment skips": "skipped",
        "nothing raised": "passed",
        "outputs but no number": "failed",  # so outputs are not kept
        "lax": "passed",
        "checked": "failed",
        "picture": "passed",  # not compared
        "widget": "passed",
        "vector picture": "failed",  # compared, though its ids are random
        "warning": "failed",
        "address": "failed",
        "folder": "passed",  # so a kernel is taken elsewhere
        "shown": "failed",
        "question": "failed",  # nobody answers
    }.items(),
)
def test_outcomes(seen, name, outcome):
    assert seen[name]["outcome"] == outcome, seen[name]


def test_what_was_shown_before_an_error_is_kept(seen):
    assert seen["shown"]["outputs"] == ["display_data", "error"]


def test_after_a_time_out_failures_are_excused(tmp_path):
    cells = [
        cell("hangs", "import time\ntime.sleep(60)", limit=2),
        cell("false", "assert False", limit=30),
        cell("true", "assert True"),
    ]
    found, _ = run(tmp_path, *cells)
    assert found["hangs"]["outcome"] == "failed" and found["hangs"]["late"] and found["hangs"]["seconds"] < 30
    assert found["false"]["outcome"] == "skipped" and found["false"]["xfail"]
    assert found["true"]["outcome"] == "passed" and found["true"]["xfail"]
    assert found["true"]["limit"] == 30  # it is read anew for each cell


@long
def test_a_dead_kernel_is_not_noticed_before_the_cells_time_is_over(tmp_path):
    cells = [cell("dies", "import os\nos._exit(0)", limit=4), cell("next", "assert True")]
    found, _ = run(tmp_path, *cells)
    assert found["dies"]["outcome"] == "failed" and found["dies"]["seconds"] > 4
    assert found["next"]["outcome"] != "passed" or found["next"]["xfail"]


@long
def test_a_crash_in_compiled_code_looks_like_a_time_out(tmp_path):
    found, _ = run(tmp_path, cell("crashes", "import ctypes\nctypes.string_at(0)", limit=4))
    assert found["crashes"]["outcome"] == "failed" and found["crashes"]["late"] and found["crashes"]["seconds"] > 4


@long
def test_of_very_many_outputs_some_are_lost(tmp_path):
    """And with them the news that the cell has ended: five seconds later, the kernel is given up."""
    many = "from IPython.display import display\nfor number in range(20_000):\n    display(number)"
    found, said = run(tmp_path, cell("shows", many, limit=100))
    assert found["shows"]["outcome"] == "failed" and found["shows"]["late"], said
    assert "Timeout of 5 seconds exceeded waiting for output" in said and len(found["shows"]["outputs"]) < 20_000


def test_a_students_file_hides_a_module_of_that_name(tmp_path):
    """So a submission is run in a folder of its own."""
    (tmp_path / "numpy.py").write_text("theirs = True\n", "utf-8")
    found, _ = run(tmp_path, cell("imports", "import numpy\nassert numpy.theirs"))
    assert found["imports"]["outcome"] == "passed"


@pytest.mark.parametrize("options, outcome", [([], None), (["--continue-on-collection-errors"], "passed")])
def test_one_unreadable_notebook_stops_all_the_others(tmp_path, options, outcome):
    (tmp_path / "cut.ipynb").write_text('{"cells": [', "utf-8")
    found, said = run(tmp_path, cell("right", "assert True"), options=[*options, "cut.ipynb"])
    assert found.get("right", {}).get("outcome") == outcome, said


@long
def test_endless_output_outlives_the_cells_time(tmp_path):
    forever = "import time\nstart = time.time()\nwhile time.time() < start + 8:\n    print('x')\n    time.sleep(0.01)"
    stubborn = f"try:\n    {forever.replace(chr(10), chr(10) + '    ')}\nexcept KeyboardInterrupt:\n"
    stubborn += (
        "    start = time.time()\n    while time.time() < start + 8:\n        print('y')\n        time.sleep(0.01)"
    )
    found, _ = run(tmp_path, cell("prints", stubborn, limit=2))
    assert found["prints"]["seconds"] > 7


def test_the_kernel_is_the_one_that_the_notebook_names(tmp_path):
    found, said = run(tmp_path, cell("right", "assert True"), kernel="there-is-none-of-this-name")
    assert not found and "there-is-none-of-this-name" in said


def test_it_needs_the_plugin_for_old_paths(tmp_path):
    found, said = run(tmp_path, cell("right", "assert True"), options=["-p", "no:legacypath"])
    assert found.get("right", {}).get("outcome") != "passed", said


def test_the_names_that_the_grader_takes_hold_of():
    import nbval.kernel
    import nbval.plugin

    assert [*inspect.signature(nbval.kernel.RunningKernel.get_message).parameters] == ["self", "stream", "timeout"]
    assert "KernelManager" in inspect.getsource(nbval.kernel.start_new_kernel) and nbval.kernel.KernelManager
    source = inspect.getsource(nbval.plugin.IPyNbCell.runtest)
    for name in ("await_reply", "get_kernel_message", "nbval_cell_timeout", "Kernel dead on test start", "timed_out"):
        assert name in source
    for method in ("await_reply", "await_idle"):
        assert "self.get_message(" in inspect.getsource(getattr(nbval.kernel.RunningKernel, method))


def test_the_engine_notices_a_dead_kernel_at_once(tmp_path):
    from minirl.course.rebuild import code
    from minirl.course.run import Limits, run

    metadata = {"kernelspec": {"name": "minirl-grade", "display_name": "grading"}}
    cells = [code("begin", "1"), code("answer", "import os\nos._exit(0)", "a"), code("check", "1", "b")]
    start = time.monotonic()
    ran = run(new_notebook(cells=cells, metadata=metadata), Limits(cell=200, isolation="none"), 200)
    assert (ran.trouble, ran.at) == ("died", ("answer", "a")) and ("check", "b") not in ran.cells
    assert time.monotonic() - start < 100
