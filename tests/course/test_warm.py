"""A forked kernel is as closed in as one that was started alone, knows nothing of those before, and ends alike."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from minirl.course import kernel, stand_in
from minirl.course.formats import nbformat
from minirl.course.run import Limits, run
from minirl.course.warm import Warm

pytestmark = pytest.mark.skipif(kernel.isolation() != "full", reason="kernels get no namespaces of their own here")
long = pytest.mark.skipif(os.environ.get("MINIRL_FAST") == "1", reason="takes long: leave MINIRL_FAST out")


@pytest.fixture(scope="module")
def warm():
    made = Warm("import fractions")
    yield made
    made.close()


@pytest.fixture(params=["forked", "alone"])
def limits(request, warm) -> Limits:
    return Limits(cell=20, isolation="full", start=warm.command if request.param == "forked" else ())


def ran(limits: Limits, *sources: str):
    cells = [nbformat.v4.new_code_cell(source, metadata={"minirl": {"kind": "answer", "of": str(number)}})
             for number, source in enumerate(sources)]  # fmt: skip
    about = {"kernelspec": {"name": "minirl-grade", "display_name": "grading", "language": "python"}}
    found = run(nbformat.v4.new_notebook(cells=cells, metadata=about), limits, 60)
    assert not found.broken
    return found


def troubles(limits: Limits, *sources: str) -> list:
    found = ran(limits, *sources)
    return [found.trouble, *(cell.get("error") for cell in found.cells.values())]


CLOSED_IN = {
    "it is the first process of its own": "import os; assert os.getpid() == 1",
    "it sees no other process": "import os; assert [each for each in os.listdir('/proc') if each.isdigit()] == ['1']",
    "it has no network": "import socket; assert [name for _, name in socket.if_nameindex()] == ['lo']",
    "it has given up its capabilities": """
facts = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines())
assert {int(facts[f"Cap{each}"], 16) for each in ("Eff", "Prm", "Inh", "Bnd")} == {0} and facts["NoNewPrivs"] == "1"
""",
    "it can write at home alone": """
import os, pathlib, minirl
pathlib.Path.home().joinpath("x").write_text("x")
assert pathlib.Path.home() == pathlib.Path.cwd() and not os.access(minirl.__file__, os.W_OK)
""",
    "it has no file of another process": """
from pathlib import Path
open_now = [str(each.readlink()) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
assert not [each for each in open_now if each.endswith(("/socket", "work.ipynb"))], open_now
""",
    "it can change nothing of the machine": """
import os
for at in "/proc", "/proc/sys", "/sys", *filter(os.path.isdir, ["/sys/fs/cgroup"]):
    assert os.statvfs(at).f_flag & os.ST_RDONLY, at
""",
    "it shares no memory with those before": """
import ctypes
assert ctypes.CDLL(None).shmget(0x6D72, 4096, 0) == -1
assert ctypes.CDLL(None).shmget(0x6D72, 4096, 0o1600) >= 0  # for those behind
""",
    "it has limits": """
from resource import RLIMIT_AS, RLIMIT_NOFILE, getrlimit
assert getrlimit(RLIMIT_AS)[0] == 6_000_000_000 and getrlimit(RLIMIT_NOFILE)[1] == 512
""",
    "its temporary files lie at home": "import tempfile; assert tempfile.gettempdir() == str(pathlib.Path.home())",
}


def test_it_is_as_closed_in(limits):
    assert troubles(limits, CLOSED_IN["it shares no memory with those before"]) == ["", None]
    assert troubles(limits, *CLOSED_IN.values()) == ["", *[None] * len(CLOSED_IN)]


def test_it_has_what_was_imported_and_nothing_of_those_before(warm):
    limits = Limits(cell=20, isolation="full", start=warm.command)
    before = "import sys, torch; assert 'fractions' in sys.modules; torch.ones = sys.modules['torch.func'] = None"
    for _ in range(2):
        assert troubles(
            limits, "import sys; assert 'torch.func' in sys.modules; import torch; torch.ones(1)", before
        ) == ["", None, None]


def test_it_cannot_reach_the_process_that_forks(warm):
    limits = Limits(cell=20, isolation="full", start=warm.command)
    ran(limits, "import os; os.kill(0, 9)", "os.kill(-1, 9)")
    assert warm.process.poll() is None
    reach = f"import socket; socket.socket(socket.AF_UNIX).connect({warm.socket!r})"
    assert troubles(limits, reach)[1][0] == "FileNotFoundError"


@pytest.mark.parametrize(
    "source, trouble", [("import os; os._exit(3)", "died"), ("exit()", "died"), ("while True: pass", "timeout")]
)
def test_how_it_ends_is_known(warm, source, trouble):
    found = ran(Limits(cell=2, isolation="full", start=warm.command), source, "1")
    assert found.trouble == trouble and found.at == ("answer", "0")


def test_its_processor_time_is_its_own_and_how_it_was_ended_is_known(warm):
    one_second = "import resource; resource.setrlimit(resource.RLIMIT_CPU, (1, 1))"
    found = ran(Limits(cell=20, isolation="full", start=warm.command), one_second, "while True: pass")
    assert found.trouble == "killed" and found.at == ("answer", "1")


def test_nothing_is_left_of_it(warm):
    ran(
        Limits(cell=2, isolation="full", start=warm.command),
        "import subprocess; subprocess.Popen(['sleep', '999'])",
        "while True: pass",
    )
    children = Path(f"/proc/{warm.process.pid}/task/{warm.process.pid}/children")
    until = time.monotonic() + 20
    while children.read_text().strip() and time.monotonic() < until:
        time.sleep(0.1)
    assert not children.read_text().strip()


def test_where_nobody_answers_a_kernel_starts_alone(tmp_path):
    nobody = (sys.executable, "-I", "-S", stand_in.__file__, str(tmp_path / "socket"))
    assert troubles(Limits(cell=20, isolation="full", start=nobody), "import os; assert os.getpid() == 1") == ["", None]


def test_where_no_fork_is_to_be_had_a_kernel_starts_alone(tmp_path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        listener.listen()
        refusing = threading.Thread(target=lambda: listener.accept()[0].close())
        refusing.start()
        command = (sys.executable, "-I", "-S", stand_in.__file__, str(tmp_path / "socket"))
        assert troubles(Limits(cell=20, isolation="full", start=command), "1") == ["", None]
        refusing.join()


CANNOT_FORK = """
import os, sys
from minirl.course import warm
def fork(): raise BlockingIOError("no room")
os.fork = fork
warm.main(sys.argv[1], "")
"""


def test_the_process_that_forks_goes_on_when_it_cannot(tmp_path):
    command = [sys.executable, "-c", CANNOT_FORK, tmp_path / "socket"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.read(1)
        for _ in range(2):
            with socket.socket(socket.AF_UNIX) as line:
                line.connect(str(tmp_path / "socket"))
                assert line.recv(1) == b""


@long
def test_a_kernel_outlives_the_process_that_forks():
    own = Warm("")
    children = Path(f"/proc/{own.process.pid}/task/{own.process.pid}/children")

    def kill():
        while not children.read_text().strip():
            time.sleep(0.05)
        time.sleep(0.5)
        own.process.kill()

    killing = threading.Thread(target=kill)
    killing.start()
    limits = Limits(cell=20, isolation="full", start=own.command)
    assert troubles(limits, "import time; time.sleep(3)", "1") == ["", None, None]
    killing.join()
    own.close()


GRADER = """
import glob, os, sys, threading, time
sys.path.insert(0, sys.argv[1])
from test_warm import STAYS, Limits, Warm, ran
warm = Warm("")
limits = Limits(cell=60, isolation="full", start=warm.command)
threading.Thread(target=ran, args=(limits, STAYS), daemon=True).start()
while not glob.glob(os.environ["TMPDIR"] + "/*/run/begun"):
    time.sleep(0.1)
os.kill(os.getpid(), 9)
"""
STAYS = """
import ctypes, os, time
ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)  # not to die with its parent
open(os.environ["JUPYTER_RUNTIME_DIR"] + "/begun", "w")
time.sleep(60)
"""


@long
def test_no_kernel_outlives_a_grader_that_is_killed(tmp_path):
    command = [sys.executable, "-c", GRADER, Path(__file__).parent]
    subprocess.run(command, env={**os.environ, "TMPDIR": str(tmp_path)}, timeout=120)
    until = time.monotonic() + 20
    while str(tmp_path) in (left := subprocess.run(["ps", "-ewwo", "args"], capture_output=True, text=True).stdout):
        assert time.monotonic() < until, left
        time.sleep(0.1)


def test_a_place_too_long_for_sockets_is_refused_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / ("long" * 20)))
    Path(tempfile.tempdir).mkdir()
    with pytest.raises(ValueError, match="set TMPDIR to a shorter one"):
        ran(Limits(isolation="full"), "1")


@pytest.mark.parametrize("status, code", [(0, 0), (3 << 8, 3), (9, -9), (24, -24), (None, 1)])
def test_a_stand_in_passes_interrupts_on_and_ends_as_it_is_told(tmp_path, status, code):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        listener.listen()
        command = [
            sys.executable,
            "-I",
            "-S",
            stand_in.__file__,
            str(tmp_path / "socket"),
            '{"box": 1}',
            "connection.json",
        ]
        process = subprocess.Popen(command, env={"HOME": "here"})
        line, _ = listener.accept()
        with line:
            request, streams, _, _ = socket.recv_fds(line, 10_000, 3)
            line.send(b"!")
            process.send_signal(signal.SIGINT)
            assert line.recv(1) == b"!"
            if status is not None:
                line.send(str(status).encode())
    for each in streams:
        os.close(each)
    request = json.loads(request)
    assert len(streams) == 3 and request["settings"] == {"box": 1} and request["environment"]["HOME"] == "here"
    assert request["arguments"] == ["connection.json"] and process.wait(20) == code


WATCHED = """
import os, signal, socket, sys, time
from minirl.course import warm
ours, theirs = socket.socketpair()
child = os.fork()
if not child:
    signal.signal(signal.SIGINT, lambda *_: os._exit(7))
    ours.send(b"?")
    time.sleep(60)
theirs.recv(1)
{what}
print(os.waitstatus_to_exitcode(warm.watch(child, theirs)))
"""


@pytest.mark.parametrize("what, code", [("ours.send(b'!')", 7), ("ours.close()", -9)])
def test_an_interrupt_reaches_the_kernel_and_a_closed_line_ends_it(what, code):
    # The child's own end of the line must not keep it open.
    script = WATCHED.format(what=what).replace('    ours.send(b"?")\n', '    ours.send(b"?"); ours.close()\n')
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == [str(code)], done.stderr


@long
def test_it_ends_with_the_process_that_wanted_it():
    script = "import os; from minirl.course.warm import Warm; print(Warm('').process.pid, flush=True); os._exit(0)"
    pid = int(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120).stdout)
    until = time.monotonic() + 20
    while Path(f"/proc/{pid}/cmdline").exists() and b"course.warm" in Path(f"/proc/{pid}/cmdline").read_bytes():
        assert time.monotonic() < until
        time.sleep(0.1)
