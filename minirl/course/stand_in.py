"""What a notebook's runner starts, and takes for the kernel, where warm.py forks kernels.

It asks for a fork, passes interrupts on, ends as the fork ends or with its runner, and takes the fork with it. Where no
fork is to be had, it becomes a kernel itself, the slow way. It imports little: it is started for each submission.
"""

import ctypes
import json
import os
import signal
import socket
import sys

SET_PARENT_DEATH_SIGNAL = 1  # as in kernel.py, which would take long to import


def stand_in(place: str, settings: dict, connection_file: str) -> None:
    ctypes.CDLL(None).prctl(SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    with socket.socket(socket.AF_UNIX) as line:
        if not begun(line, place, {"settings": settings, "arguments": [connection_file]}):
            slow = [sys.executable, "-m", "minirl.course.kernel", json.dumps(settings), connection_file]
            os.execv(sys.executable, slow)
        end_as(os.waitstatus_to_exitcode(int(line.recv(20) or 256)))  # nothing was said: as if it had failed


def begun(line: socket.socket, place: str, request: dict) -> bool:
    """Ask for a fork, in these surroundings; whether there is one now."""
    try:
        line.connect(place)
        signal.signal(signal.SIGINT, lambda *_: line.send(b"!"))
        request = json.dumps({**request, "environment": dict(os.environ)})
        socket.send_fds(line, [request.encode()], [0, 1, 2])
        return bool(line.recv(1))
    except OSError:
        return False


def end_as(code: int) -> None:
    if code < 0:
        signal.signal(-code, signal.SIG_DFL) if -code != signal.SIGKILL else None
        os.kill(os.getpid(), -code)
    os._exit(abs(code))


if __name__ == "__main__":
    stand_in(sys.argv[1], json.loads(sys.argv[2]), sys.argv[3])
