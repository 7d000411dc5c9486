"""The one module that knows nbval: a plugin for the pytest process that runs one rebuilt notebook.

It writes a line of JSON as each cell begins and ends, named by what stands in the cell's metadata. Three things nbval
leaves open are closed here: a dead kernel is noticed at once, endless output ends with the cell's time, and after the
first such trouble nothing more is run in that kernel. tests/course/test_nbval_contract.py pins what is relied upon.
"""

import json
import os
import re
import sys
import time
from pathlib import Path
from queue import Empty

sys.modules.setdefault("rfc3987_syntax", None)  # as in formats.py

import nbval.kernel  # noqa: E402
import pytest  # noqa: E402
import zmq  # noqa: E402
from jupyter_client.manager import KernelManager  # noqa: E402

from minirl.course import MIME  # noqa: E402
from minirl.course.kernel import die_with_parent, unreadable  # noqa: E402

OPTIONS = (
    "-q -s --tb=no --noconftest --color=no -p no:cacheprovider -p no:terminalreporter "
    f"-p {__name__} -p nbval.plugin --nbval-lax -W ignore"
).split()
POLL = 0.2  # seconds between two looks at whether the kernel lives
MOST_OUTPUT = 20_000_000  # characters of a cell's output that are listened to
OURS = ("begin", "setup")  # cells in which nothing of the student's runs
BEHIND = ("hidden", "canary", "witness")  # cells that are for answers which pass the check that students have
IMPORTING = 100  # seconds that they may take besides, on a busy machine
IDLE = 5  # seconds that nbval waits for the end of a cell's output, and to interrupt


def command(notebook: Path, limit: float) -> list[str]:
    """The process that runs a notebook, and records it on standard output; `limit` is seconds for each cell."""
    where = ["-c", str(notebook.with_name("pytest.ini")), "--rootdir", str(notebook.parent)]
    options = [f"--minirl-limit={limit}", "--nbval-kernel-startup-timeout=120"]
    return [sys.executable, "-m", "pytest", *OPTIONS, *where, *options, str(notebook)]


class Died(RuntimeError):
    """The kernel is gone."""


class OverSockets(KernelManager):
    """A kernel that is spoken to over files, so that it needs no network."""

    def __init__(self, **options):
        run = os.environ["JUPYTER_RUNTIME_DIR"]
        where = {"transport": "ipc", "ip": f"{run}/k"} if os.name == "posix" else {}
        super().__init__(connection_file=f"{run}/kernel.json", **where, **options)
        self.context.setsockopt(zmq.RCVHWM, 0)  # or what is said beyond a thousand messages is lost


def bounded(kernel, stream: str, timeout: float | None = None):
    """`RunningKernel.get_message`: no longer than the cell has, and not from a dead kernel."""
    channel = kernel.kc.get_iopub_msg if stream == "iopub" else kernel.kc.get_shell_msg
    until = time.monotonic() + (timeout or 0)
    while True:
        now, end = time.monotonic(), min(until, getattr(kernel, "deadline", until) + IDLE)
        if now > end or getattr(kernel, "heard", 0) > MOST_OUTPUT:
            raise Empty
        try:
            message = channel(timeout=min(POLL, end - now))
        except Empty:
            if not kernel.is_alive():
                raise Died("the kernel died") from None
            continue
        kernel.heard = getattr(kernel, "heard", 0) + heard(message)
        return message


def heard(message) -> int:
    return len(str(message["content"])) if message["msg_type"] in ("stream", "display_data", "execute_result") else 0


def pytest_addoption(parser):
    parser.addoption("--minirl-limit", type=float, help="Seconds for a cell of the student's.")


def pytest_configure(config):
    die_with_parent()
    unreadable()
    config.failed, config.record = set(), os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # which a kernel inherits
    nbval.kernel.KernelManager = OverSockets
    nbval.kernel.RunningKernel.get_message = bounded


def write(item, **what) -> None:
    print(json.dumps({**item.cell.metadata.get("minirl", {}), **what}), file=item.config.record, flush=True)


def pytest_collection_finish(session):
    """What is to be run has been read: a kernel cannot look ahead in it."""
    for path in {item.path for item in session.items}:
        path.unlink()


def pytest_runtest_call(item):
    kernel, option = item.parent.kernel, item.config.option
    option.nbval_cell_timeout = item.config.getoption("minirl_limit")
    if item.cell.metadata.minirl.kind in OURS:
        option.nbval_cell_timeout += IMPORTING
    kernel.deadline, kernel.heard = time.monotonic() + item.config.option.nbval_cell_timeout, 0
    write(item, event="begins")


def pytest_runtest_protocol(item):
    cell = item.cell.metadata.minirl
    return True if cell.kind in BEHIND and cell.of in item.config.failed else None  # True: it is not run


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if call.when == "call" or report.outcome == "failed":
        trouble = troubled(item, call)
        # XFAIL, which nbval gives to all that follows a timeout, is not passed.
        passed = call.when == "call" and report.outcome == "passed"
        write(item, event="ended", passed=passed, trouble=trouble, **shown(item))
        if not passed and item.cell.metadata.minirl.kind in ("check", "hidden"):
            item.config.failed.add(item.cell.metadata.minirl.of)
        if trouble:
            item.session.shouldstop = trouble
    return report


def troubled(item, call) -> str:
    """Why nothing more can be run in this kernel, if so."""
    if call.when != "call":
        return "no kernel"
    error = call.excinfo and call.excinfo.value
    if isinstance(error, Died) or (error and "Kernel dead" in str(error)):
        process = getattr(getattr(item.parent.kernel.km, "provisioner", None), "process", None)
        code = process.poll() if process else None
        # By SIGKILL or SIGXCPU, itself (-9, -24) or in a shell that says so (128 more).
        return {-9: "killed", -24: "timeout", 137: "killed", 152: "timeout"}.get(code, "died")
    late = item.parent.timed_out or isinstance(error, Empty | RuntimeError)
    return "timeout" if late else ""


def shown(item) -> dict:
    """Errors and witnesses among a cell's outputs."""
    outputs = item.test_outputs or []
    errors = [out for out in outputs if out.get("output_type") == "error"]
    plain = re.sub(r"\x1b\[[0-9;]*m", "", str(errors[-1].get("evalue", ""))) if errors else ""
    found = {"error": [str(errors[-1].get("ename")), plain[:4000]]} if errors else {}
    witnesses = [out["data"][MIME] for out in outputs if MIME in out.get("data", {})]
    return {**found, "witnesses": witnesses} if witnesses else found
