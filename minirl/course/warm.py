"""Kernels without the wait for torch: one process imports what an assignment needs, and each kernel is a fork of it.

Nothing of a student's ever runs in that process. A fork goes into namespaces of its own, and behind the walls of
kernel.py, before it hears of a cell; so this is for machines where a kernel gets namespaces. Between the two stands
one more process, which sees the kernel end, or ends it when its stand_in.py is gone; it outlives the one that forks.
"""

import ctypes
import gc
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
import weakref
from contextlib import suppress
from pathlib import Path

from minirl.course import kernel, stand_in
from minirl.course.run import environment

# The last two are what torch imports at the first gradient of many outputs and at the first step of an optimiser.
EVERY_KERNEL = """import ipykernel.kernelapp, IPython.core.pylabtools, matplotlib_inline.backend_inline
import minirl.course.check, minirl.course.witness
import torch.func, torch._dynamo
"""
LONGEST = 1_000_000  # bytes of a request
# What Linux calls CLONE_NEW... in <linux/sched.h>: mount, ipc, user, pid and net.
NAMESPACES = 0x00020000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
OWN = "mount --make-rprivate / && mount -t proc none /proc || exit 1\n"  # what `unshare --mount-proc` does


class Warm:
    """The process that forks kernels; it ends with this one, or when this is needed no longer."""

    def __init__(self, imports: str):
        folder = tempfile.mkdtemp(prefix="minirl-")
        Path(folder, "home").mkdir()
        self.socket = f"{folder}/socket"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "minirl.course.warm", self.socket, EVERY_KERNEL + imports],
            cwd=folder, env=environment(Path(folder)), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            start_new_session=True,
        )  # fmt: skip
        self.close = weakref.finalize(self, end, self.process, folder)
        self.process.stdout.read(1)  # comes when all is imported, or it is gone

    @property
    def command(self) -> tuple[str, ...]:
        """What starts a kernel, but for its settings and its connection file."""
        return sys.executable, "-I", "-S", stand_in.__file__, self.socket


def end(process: subprocess.Popen, folder: str) -> None:
    process.stdin.close()
    process.wait()
    process.stdout.close()
    shutil.rmtree(folder, ignore_errors=True)


def main(place: str, imports: str) -> None:
    """Fork kernels until standard input ends."""
    exec(imports, {})
    gc.freeze()  # or a fork that collects garbage would copy all of it
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that stand between
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(place)
        listener.listen(64)
        os.write(1, b"!")
        while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
            line, _ = listener.accept()
            with line, suppress(OSError):  # where there is no room for one more, it starts alone
                if not os.fork():
                    listener.close()
                    stand_between(line)


def stand_between(line: socket.socket) -> None:
    """Fork a kernel into new namespaces, and tell how it ends."""
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        data, streams, _, _ = socket.recv_fds(line, LONGEST, 3)
        request = json.loads(data)
        for stream, theirs in enumerate(streams):
            os.dup2(theirs, stream)
        settings = {**request["settings"], "isolation": "limits", "running": kernel.count_running()}
        leave()
        child = os.fork()
        if not child:
            become_kernel(settings, request, line)
        line.send(str(watch(child, line)).encode())
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


def leave() -> None:
    """Into namespaces of its own, as `unshare` would; the first child is the first process there."""
    uid, gid = os.getuid(), os.getgid()
    if ctypes.CDLL(None, use_errno=True).unshare(NAMESPACES):
        raise OSError(ctypes.get_errno(), "no namespaces of its own")
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
        Path("/proc/self", name).write_text(text)


def watch(child: int, line: socket.socket) -> int:
    """Wait for a kernel, and end it when nobody is there to be told; how it ended."""
    ended = os.pidfd_open(child)
    while ended not in select.select([ended, line], [], [])[0]:
        os.kill(child, signal.SIGINT if line.recv(1) else signal.SIGKILL)
    return os.waitpid(child, 0)[1]


def become_kernel(settings: dict, request: dict, line: socket.socket) -> None:
    kernel.die_with_parent()
    line.send(b"!")
    os.setsid()  # or it could signal the process group of all
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.environ.clear()
    os.environ.update(request["environment"])
    tempfile.tempdir = None  # its home is another now
    subprocess.run(
        ["sh", "-c", OWN + kernel.walls(Path(settings["box"]), settings["hidden"]), "sh", "true"], check=True
    )
    kernel.begin(settings, request["arguments"])
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
