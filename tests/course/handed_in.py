"""Put submissions where a class would, and compare what they got with what they must get."""

from collections.abc import Iterable
from pathlib import Path

from submissions import KINDS

from minirl.course.run import Limits

LIMITS = Limits(cell=15, whole=300)  # a machine may be busy
COMPARED = {"graded", "timeout", "kernel_died", "out_of_memory", "needs_review"}


def hand_in(root: Path, folder: Path, names: Iterable[str]) -> Path:
    """Each kind's files below a folder, by a student called like the kind."""
    folder.mkdir()
    for name in names:
        for place, content in KINDS[name].files(root, name).items():
            path = folder / place
            if place.endswith("/"):
                path.mkdir()
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            if callable(content):
                content(path)
            else:
                path.write_bytes(content)
    return folder


def differences(results: Iterable[dict]) -> dict[str, str]:
    """Students who did not get what their kind must get."""
    wrong = {}
    for result in results:
        kind = KINDS[result["student"]]
        short = {mark["question"].split(".")[1]: mark["status"] for mark in result["questions"]}
        found = {label: status for label, status in short.items() if status != "passed"}
        same = (result["status"], result["points"]) == (kind.status, kind.points)
        if not same or (result["status"] in COMPARED and found != kind.questions):
            said = [mark["review"] or mark["message"] for mark in result["questions"] if mark["status"] != "passed"]
            wrong[result["student"]] = f"{result['status']} {result['points']} {found} {result['notes']} {said}"
    return wrong
