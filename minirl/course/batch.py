"""A class's submissions, side by side: each result on disk as soon as it is there, and nothing done twice."""

import hashlib
import json
import os
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from minirl.course import run as running
from minirl.course.grade import Course, graded, opened
from minirl.course.intake import Entry, Submission, submissions
from minirl.course.marks import Result
from minirl.course.run import Limits

TAKEN = re.compile(r"-[0-9a-f]{8}$|^(con|prn|aux|nul|com\d|lpt\d)(\.|$)")  # by changed names, and by Windows


def fingerprint(course: Course, submission: Submission) -> str:
    """Of all that a result depends on."""
    digest = hashlib.sha256(course.fingerprint.encode())
    for entry in submission.notebooks:
        digest.update(b"\0" + entry.name.encode("utf-8", "replace") + b"\0" + content(entry))
    digest.update(submission.refused.encode("utf-8", "replace"))
    return digest.hexdigest()


def content(entry: Entry) -> bytes:
    """What is in a file, or why it cannot be read."""
    try:
        return entry.read()
    except Exception as error:
        return str(error).encode("utf-8", "replace")


def key(student: str) -> str:
    """A file's name for a student, the same on every system; changed ones cannot collide."""
    safe = "".join(letter if letter.isalnum() or letter in "-_@+ ." else "_" for letter in student).strip(". ")[:80]
    plain = safe and safe == student and safe.isascii() and safe == safe.lower() and not TAKEN.search(safe)
    return safe if plain else f"{safe}-{hashlib.sha256(student.encode('utf-8', 'replace')).hexdigest()[:8]}"


def finished(path: Path, wanted: str) -> bool:
    """Whether a result is there, whole, and of the same submission and assignment."""
    try:
        result = json.loads(path.read_text("utf-8"))
        return result["fingerprint"] == wanted and result["status"] != "grader_error"
    except (OSError, ValueError, KeyError, TypeError):
        return False


def save(result: Result, path: Path) -> None:
    """All of it or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_name(f".{path.name}.{threading.get_ident()}")
    half.write_text(json.dumps(result.as_dict(), indent=1, ensure_ascii=True) + "\n", "utf-8")
    os.replace(half, path)


class Job:
    """A batch: what is to be graded, and what is done already."""

    def __init__(self, name: str, path: Path, out: Path, root: Path, limits: Limits, resume: bool = False):
        if (out / "results").exists() and not resume:
            raise ValueError(f"{out} has results already; give another --out, or --resume to go on")
        self.name, self.out, self.all = name, out, submissions(path, name)
        self.stopping = threading.Event()
        if not self.all:
            raise ValueError(f"nothing was handed in at {path}: expected notebooks, folders of them, or zips")
        self.course = opened(name, root, limits, [path, out])
        self.todo = [each for each in self.all if not finished(self.place(each), fingerprint(self.course, each))]

    def place(self, submission: Submission) -> Path:
        return self.out / "results" / f"{key(submission.student)}.json"

    def results(self, workers: int) -> Iterator[Result]:
        """Results as they are ready, each already on disk."""
        with ThreadPoolExecutor(workers) as pool:
            waiting = [pool.submit(self.one, submission) for submission in self.todo]
            try:
                for future in as_completed(waiting):
                    yield future.result()
            except BaseException:
                self.stopping.set()
                running.end_all()
                pool.shutdown(cancel_futures=True)
                raise

    def one(self, submission: Submission) -> Result | None:
        if self.stopping.is_set():
            return None
        result = graded(self.course, submission)
        result.fingerprint = fingerprint(self.course, submission)
        if not self.stopping.is_set():  # else it was ended, not graded
            save(result, self.place(submission))
        return result
