"""Starts a kernel inside limits: `python -m minirl.course.kernel SETTINGS CONNECTION`, from a kernelspec.

On Linux, where it is allowed, the kernel gets namespaces of its own: no network, no other processes to see, nothing
to write to but a folder in memory, and of all places where people keep files only what Python needs. It gives up the
right to change that before any cell runs. Everywhere but on Windows there are limits on time, memory, file sizes and
processes, unless the settings ask for none.
"""

import ctypes
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

PRIVATE = ("/home", "/root", "/run", "/var", "/tmp", "/mnt", "/media", "/srv")  # where people and services keep files
# --mount-proc makes the mount namespace too.
NAMESPACES = ("--user", "--map-root-user", "--net", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc")
# All that is mounted can be read only, but for the two folders that are opened; then a /dev/shm of its own.
CLOSE = """mount -o remount,bind,ro /
while read -r _ at _; do
  case "$at" in
    /|/dev|/dev/*|{opened}) ;;
    *) mount -o remount,bind,ro,nosuid,nodev "$at" 2>/dev/null || true ;;
  esac
done < /proc/self/mounts
mount -t tmpfs -o size=64m none /dev/shm 2>/dev/null || true"""
# What Linux calls PR_... in <linux/prctl.h> and <linux/capability.h>, which Python has no names for.
SET_PARENT_DEATH_SIGNAL, SET_DUMPABLE, DROP_FROM_BOUNDING_SET, SET_NO_NEW_PRIVILEGES = 1, 4, 24, 38
CAPABILITY_VERSION = 0x20080522  # the third, of 64 bits
CAPABILITIES = 64  # more than there are; those that are not there are refused, and nothing comes of it


def isolation() -> str:
    """What this machine allows: full (limits and namespaces), limits, or none."""
    if os.name != "posix":
        return "none"
    if not shutil.which("unshare"):
        return "limits"
    with tempfile.TemporaryDirectory(prefix="minirl-") as folder:
        for name in ("home", "run", "shade"):
            Path(folder, name).mkdir()
        written, kept = shlex.quote(f"{folder}/home/x"), shlex.quote(os.path.dirname(__file__))
        # It can write at home, sees a process namespace with few in it, cannot write here, and Python starts.
        test = f"touch {written} && test $$ -lt 9 && test ! -w {kept} && {shlex.quote(sys.executable)} -c 'import json'"
        probe = ["unshare", *NAMESPACES, "sh", "-c", walls(Path(folder), []), "sh", "sh", "-c", test]
        try:
            allowed = subprocess.run(probe, capture_output=True, timeout=20).returncode == 0
        except (OSError, subprocess.TimeoutExpired):
            allowed = False
    return "full" if allowed else "limits"


def main() -> None:
    settings, arguments = json.loads(sys.argv[1]), sys.argv[2:]
    if settings["isolation"] == "full":
        enter(settings, arguments)
    begin(settings, arguments)


def begin(settings: dict, arguments: list[str]) -> None:
    """Set the limits, and be a kernel from now on."""
    if settings["isolation"] == "limits":
        if "running" in settings:  # counted before the walls went up: this is behind them
            give_up_capabilities()
        else:
            die_with_parent()
            settings["running"] = count_running()
        set_limits(settings)
    os.environ.pop("JPY_PARENT_PID", None)  # counted in other namespaces
    os.chdir(Path(settings["box"], "home"))
    sys.path[:] = [each for each in sys.path if each not in ("", os.getcwd())] + [os.getcwd()]  # last: it hides nothing
    sys.argv[:] = ["ipykernel", "-f", *arguments]
    app().launch_instance()


def enter(settings: dict, arguments: list[str]) -> None:
    """Run this again in namespaces of its own; ends with whoever started it."""
    die_with_parent()
    inside = {**settings, "isolation": "limits", "running": count_running()}
    again = [sys.executable, "-m", "minirl.course.kernel", json.dumps(inside), *arguments]
    script = walls(Path(settings["box"]), settings["hidden"])
    os.execvp("unshare", ["unshare", *NAMESPACES, "sh", "-c", script, "sh", *again])


def walls(box: Path, hidden: list[str]) -> str:
    """A shell script that leaves only two folders of `box` to write to, nothing of `hidden` to see but what Python
    needs, and then runs its arguments."""
    home, run, shade = (shlex.quote(str(box / name)) for name in ("home", "run", "shade"))
    lines = ["set -e", f"mount -t tmpfs -o size=500m,mode=700 none {home}", f"mount --bind {run} {run}"]
    lines += [f"mount -t tmpfs -o size=1m none {shade}"]
    places = outermost([*PRIVATE, str(Path.home()), tempfile.gettempdir(), *hidden])
    for number, place in enumerate(sorted(places, key=box.is_relative_to)):  # that with the shades in it is the last
        lines += [f"mkdir {shade}/{number}"]
        for each in [str(box / "home"), str(box / "run"), *python_needs(hidden)]:
            if Path(each).is_relative_to(place):
                inside = f"{shade}/{number}/{shlex.quote(os.path.relpath(each, place))}"
                lines += [f"mkdir -p {inside}", f"mount --rbind {shlex.quote(each)} {inside}"]
        lines += [f"mount --rbind {shade}/{number} {shlex.quote(place)}"]
    lines += [CLOSE.format(opened=f"{home}|{run}")]
    return "\n".join([*lines, 'exec "$@"'])


def outermost(places: list[str]) -> list[str]:
    """The folders among them that are there, without those that lie in another."""
    real = {Path(each).resolve() for each in places if Path(each).is_dir()}
    return sorted(str(each) for each in real if not real & set(each.parents))


def python_needs(hidden: list[str]) -> list[str]:
    """Folders that Python runs from; one that holds something hidden is not among them."""
    import minirl

    own = Path(minirl.__file__).resolve().parent
    found = [sys.prefix, sys.base_prefix, os.path.dirname(os.path.realpath(sys.executable)), *filter(None, sys.path)]
    found += os.environ.get("LD_LIBRARY_PATH", "").split(":")
    real = {Path(each).resolve() for each in found if each and Path(each).is_dir()} - {own.parent, Path.cwd()}
    told = {above for each in hidden for above in [Path(each).resolve(), *Path(each).resolve().parents]}
    return outermost([*map(str, real - told), str(own)])


def die_with_parent() -> None:
    """On Linux; elsewhere the kernel looks for its parent itself."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)


def unreadable() -> None:
    """On Linux, no other process of this user may look into this one's memory and files."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(SET_DUMPABLE, 0, 0, 0, 0)


def give_up_capabilities() -> None:
    """Walls that were put up in a new namespace cannot be taken down: no capability is left, and none can be had."""
    libc = ctypes.CDLL(None)
    for each in range(CAPABILITIES):
        libc.prctl(DROP_FROM_BOUNDING_SET, each, 0, 0, 0)
    libc.prctl(SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    of_this_process, none = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)()
    if libc.capset(of_this_process, none):  # effective, permitted and inheritable, in two words each
        raise OSError("the kernel could not give up its capabilities")


def set_limits(settings: dict) -> None:
    import resource  # which Windows lacks

    wanted = {
        resource.RLIMIT_CPU: settings["seconds"],
        resource.RLIMIT_AS: settings["memory"],
        resource.RLIMIT_FSIZE: settings["file_size"],
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: 512,
    }
    if sys.platform == "linux":
        wanted[resource.RLIMIT_NPROC] = settings.get("running", 0) + settings["processes"]
    for which, most in wanted.items():
        try:
            hard = resource.getrlimit(which)[1]
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(which, (most, most))
        except (ValueError, OSError):  # macOS refuses some
            continue


def count_running() -> int:
    """Processes and threads that this user has now."""
    if sys.platform != "linux":
        return 0
    mine, count = os.getuid(), 0
    for each in os.listdir("/proc"):
        try:
            if each.isdigit() and os.stat(f"/proc/{each}").st_uid == mine:
                count += len(os.listdir(f"/proc/{each}/task"))
        except OSError:
            continue
    return count


def app():
    """Imported late: a kernel that starts another one needs none of it."""
    import zmq
    from ipykernel.kernelapp import IPKernelApp

    class Kernel(IPKernelApp):
        """A kernel that loses no output, however much there is at once, and ends at once where it is asked to."""

        def init_iopub(self, context):
            context.setsockopt(zmq.SNDHWM, 0)
            super().init_iopub(context)

        def init_shell(self):
            super().init_shell()
            self.shell.observe(lambda _: os._exit(0), "exit_now")  # not in a later cell, which would be charged with it

    return Kernel


if __name__ == "__main__":
    main()
