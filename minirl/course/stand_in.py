"""What a notebook's runner starts, and takes for the kernel, where warm.py forks kernels.

It asks for a fork, passes interrupts on, ends as the fork ends, and takes the fork with it when it is killed. Where
nobody answers, it becomes a kernel itself, the slow way. It imports little: it is started for each submission.
"""

import json
import os
import signal
import socket
import sys


def stand_in(place: str, settings: dict, connection_file: str) -> None:
    with socket.socket(socket.AF_UNIX) as line:
        try:
            line.connect(place)
        except OSError:
            slow = [sys.executable, "-m", "minirl.course.kernel", json.dumps(settings), connection_file]
            os.execv(sys.executable, slow)
        signal.signal(signal.SIGINT, lambda *_: line.send(b"!"))
        request = {"settings": settings, "arguments": [connection_file], "environment": dict(os.environ)}
        socket.send_fds(line, [json.dumps(request).encode()], [0, 1, 2])
        end_as(os.waitstatus_to_exitcode(int(line.recv(20) or 256)))  # nothing was said: as if it had failed


def end_as(code: int) -> None:
    if code < 0:
        signal.signal(-code, signal.SIG_DFL) if -code != signal.SIGKILL else None
        os.kill(os.getpid(), -code)
    os._exit(abs(code))


if __name__ == "__main__":
    stand_in(sys.argv[1], json.loads(sys.argv[2]), sys.argv[3])
