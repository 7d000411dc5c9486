"""One notebook in one pytest process in one fresh folder, and what came of each of its cells."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

import minirl
from minirl.course import engine
from minirl.course.formats import nbformat

KEPT = ("PATH", "LANG", "LC_ALL", "SYSTEMROOT", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX")
ALWAYS = {
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "OMP_NUM_THREADS": "1",
    "MINIRL_FAST": "1",
    "MPLBACKEND": "agg",
    "CUDA_VISIBLE_DEVICES": "",
    "HF_HUB_OFFLINE": "1",
    "PIP_NO_INDEX": "1",
}
STARTING = 150  # seconds that a kernel may take to start on a busy machine
MOST_LETTERS = 95  # of a folder in which sockets lie: with "/run/k-1" no system's limit is reached
_alive: set[subprocess.Popen] = set()


@dataclass(frozen=True)
class Limits:
    """What a submission may use."""

    cell: float = 60  # seconds
    whole: float = 600  # seconds, all cells and all kernels together
    memory: int = 6_000_000_000  # bytes of addresses; torch alone takes about one
    file_size: int = 50_000_000  # bytes
    processes: int = 200  # and threads, more than there were
    isolation: str = ""  # full, limits or none: what kernel.isolation found
    hidden: tuple[str, ...] = ()  # folders that a kernel should not see
    start: tuple[str, ...] = ()  # a command that starts a kernel sooner, where there is one


@dataclass
class Ran:
    """What happened to each cell, by (kind, of); the first trouble, where it was, and whether pytest itself failed."""

    cells: dict[tuple[str, str], dict] = field(default_factory=dict)
    trouble: str = ""
    at: tuple[str, str] | None = None
    broken: str = ""

    def ended(self, check: str) -> bool:
        """Whether all is known of a question: its last cell ended, or one of its checks was not passed."""
        known = {kind: cell for (kind, of), cell in self.cells.items() if of == check and (kind, of) != self.at}
        return "witness" in known or any(not known[kind]["passed"] for kind in ("check", "hidden") if kind in known)


def run(notebook, limits: Limits, seconds: float) -> Ran:
    """Run a rebuilt notebook; it ends after `seconds` whatever happens."""
    box = Path(tempfile.mkdtemp(prefix="minirl-"))
    try:
        prepare(box, notebook, limits, seconds)
        record, code = watched(engine.command(box / "book" / "work.ipynb", limits.cell), box, seconds)
        return what_happened(record, code, box)
    finally:
        sweep(box)
        shutil.rmtree(box, ignore_errors=True)


def prepare(box: Path, notebook, limits: Limits, seconds: float) -> None:
    """Everything a run reads or writes, in one folder."""
    if os.name == "posix" and len(str(box)) > MOST_LETTERS:  # a kernel would wait for ever
        raise ValueError(f"sockets cannot have so long a path; set TMPDIR to a shorter one than {box.parent}")
    for name in ("book", "home", "run", "shade", "kernels/minirl-grade"):
        (box / name).mkdir(parents=True)
    nbformat.write(notebook, box / "book" / "work.ipynb")
    (box / "book" / "pytest.ini").write_text("[pytest]\n")
    settings = {**asdict(limits), "seconds": int(seconds) + 60, "box": str(box)}  # of processor time: the last resort
    command = limits.start or (sys.executable, "-m", "minirl.course.kernel")
    launch = [*command, json.dumps(settings), "{connection_file}"]
    spec = {"argv": launch, "display_name": "grading", "language": "python", "env": {}}
    (box / "kernels" / "minirl-grade" / "kernel.json").write_text(json.dumps(spec))


def environment(box: Path) -> dict[str, str]:
    """What a run may know of this machine: little."""
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    home = str(box / "home")
    return kept | {
        **ALWAYS,
        "HOME": home,
        "TMPDIR": home,
        "IPYTHONDIR": f"{home}/ipython",
        "MPLCONFIGDIR": f"{home}/matplotlib",
        "JUPYTER_PATH": str(box),
        "JUPYTER_RUNTIME_DIR": str(box / "run"),
        "JUPYTER_CONFIG_DIR": f"{home}/jupyter",
        "JUPYTER_DATA_DIR": f"{home}/jupyter-data",
        "PYTHONPATH": str(Path(minirl.__file__).parent.parent),
    }


def watched(command: list[str], box: Path, seconds: float) -> tuple[str, int | None]:
    """What it recorded, over a pipe that no kernel has; and its exit code, None when it had to be ended."""
    with open(box / "book" / "log", "wb") as log:
        process = subprocess.Popen(
            command, cwd=box / "book", env=environment(box), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=log, start_new_session=os.name == "posix", encoding="utf-8",
        )  # fmt: skip
        _alive.add(process)
        try:
            return process.communicate(timeout=seconds + STARTING)[0], process.returncode
        except subprocess.TimeoutExpired:
            end(process)
            return process.communicate()[0], None
        finally:
            end(process)
            _alive.discard(process)


def end(process: subprocess.Popen) -> None:
    """A process and those it started; a kernel that was left goes with them."""
    if process.poll() is None:
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
        process.wait()


def sweep(box: Path) -> None:
    """On Linux, end what a kernel without namespaces of its own has left running: its home is this one."""
    for each in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"HOME={box}/home\0".encode() in each.read_bytes():
                os.kill(int(each.parent.name), signal.SIGKILL)
        except OSError:
            continue


def end_all() -> None:
    """Everything that runs now, when grading is stopped."""
    for process in list(_alive):
        end(process)


def what_happened(record: str, code: int | None, box: Path) -> Ran:
    """Read from the record; a cell that began and did not end has the trouble, if none was recorded before."""
    lines = [json.loads(line) for line in record.split("\n")[:-1]]  # a last one without its end was cut off
    ran = Ran()
    for line in lines:
        if line["event"] == "ended":
            take_down(ran, line)
    if lines and lines[-1]["event"] == "begins" and not ran.trouble:
        ran.trouble, ran.at = ("timeout" if code is None else "died"), cell_of(lines[-1])
    if not ran.broken and (ran.trouble == "no kernel" or not lines):
        hung = not lines and code is None
        ran.broken = f"no cell had begun after {STARTING} seconds" if hung else last_line(box / "book" / "log")
    return ran


def take_down(ran: Ran, line: dict) -> None:
    """How a cell ended. Where one fails in which nothing of the student's runs, the run itself is broken."""
    place = cell_of(line)
    ran.cells[place] = line
    if place[0] in engine.OURS and not line["passed"]:
        ran.broken = ran.broken or f"in {place[0]}: {' '.join(line.get('error', [line['trouble']]))}"
    if line["trouble"] and not ran.trouble:
        ran.trouble, ran.at = line["trouble"], place


def cell_of(line: dict) -> tuple[str, str]:
    return line.get("kind", ""), line.get("of", "")


def last_line(log: Path) -> str:
    lines = [line for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
    return lines[-1] if lines else "pytest said nothing"


class Budget:
    """Seconds that are left."""

    def __init__(self, seconds: float):
        self.until = time.monotonic() + seconds

    @property
    def left(self) -> float:
        return max(self.until - time.monotonic(), 0)
