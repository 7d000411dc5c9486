"""Starts a kernel inside limits: `python -m minirl.course.kernel SETTINGS CONNECTION`, from a kernelspec.

On Linux, where it is allowed, the kernel gets namespaces of its own: no network, no other processes to see, nothing
to write to but its own folder, and no sight of solutions and submissions. Everywhere but on Windows there are limits on
time, memory, file sizes and processes.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile

NAMESPACES = ("--user", "--map-root-user", "--net", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc")
CLOSE = """mount -o remount,bind,ro /
while read -r _ at _; do
  case "$at" in
    /|/dev|/dev/*|/proc|/proc/*|/sys|/sys/*|{opened}) ;;
    *) mount -o remount,bind,ro,nosuid,nodev "$at" 2>/dev/null || true ;;
  esac
done < /proc/self/mounts
mount -t tmpfs -o size=64m none /dev/shm 2>/dev/null || true"""


def walls(opened: list[str], hidden: list[str]) -> str:
    """A shell script that leaves only `opened` to write to and nothing of `hidden` to see, then runs its arguments."""
    lines = ["set -e", *(f"mount --bind {shlex.quote(each)} {shlex.quote(each)}" for each in opened)]
    lines += [CLOSE.format(opened="|".join(map(shlex.quote, opened)))]
    lines += [f"mount -t tmpfs -o ro,size=4k none {shlex.quote(each)}" for each in hidden]
    return "\n".join([*lines, 'exec "$@"'])


def isolation() -> str:
    """What this machine allows: full (limits and namespaces), limits, or none."""
    if os.name != "posix":
        return "none"
    if not shutil.which("unshare"):
        return "limits"
    with tempfile.TemporaryDirectory(prefix="minirl-") as folder:
        test = f"touch {shlex.quote(folder)}/x && test $$ -lt 9 && test ! -w {shlex.quote(os.path.dirname(__file__))}"
        probe = ["unshare", *NAMESPACES, "sh", "-c", walls([folder], []), "sh", "sh", "-c", test]
        try:
            allowed = subprocess.run(probe, capture_output=True, timeout=20).returncode == 0
        except (OSError, subprocess.TimeoutExpired):
            allowed = False
    return "full" if allowed else "limits"


def enter(settings: dict, arguments: list[str]) -> None:
    """Run this again in namespaces of its own; ends with whoever started it."""
    die_with_parent()
    inside = {**settings, "isolation": "limits", "running": running()}
    again = [sys.executable, "-m", "minirl.course.kernel", json.dumps(inside), *arguments]
    script = walls(settings["open"], settings["hidden"])
    os.execvp("unshare", ["unshare", *NAMESPACES, "sh", "-c", script, "sh", *again])


def die_with_parent() -> None:
    """On Linux; elsewhere the kernel looks for its parent itself."""
    if sys.platform == "linux":
        import ctypes
        import signal

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def limit(settings: dict) -> None:
    import resource

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


def running() -> int:
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


def main() -> None:
    settings, arguments = json.loads(sys.argv[1]), sys.argv[2:]
    if settings["isolation"] == "full":
        enter(settings, arguments)
    if settings["isolation"] == "limits":
        if "running" not in settings:
            die_with_parent()
            settings["running"] = running()
        limit(settings)
    os.environ.pop("JPY_PARENT_PID", None)  # counted in other namespaces
    os.chdir(settings["home"])
    sys.path[:] = [each for each in sys.path if each not in ("", os.getcwd())]
    sys.argv[:] = ["ipykernel", "-f", *arguments]
    app().launch_instance()


def app():
    import zmq
    from ipykernel.kernelapp import IPKernelApp

    class Kernel(IPKernelApp):
        """A kernel that loses no output, however much there is at once."""

        def init_iopub(self, context):
            context.setsockopt(zmq.SNDHWM, 0)
            super().init_iopub(context)

    return Kernel


if __name__ == "__main__":
    main()
