"""The class in numbers: who got what, and which mistakes were made how often."""

from collections import Counter

from minirl.course.marks import FINE, WORST

KINDS = {
    "passed": ("passed",),
    "not right": ("wrong", "error", "by_hand"),
    "not started": ("not_started",),
    "stopped or in doubt": WORST,
}
SHARES = {"all points": 100, "75 to 99 %": 75, "50 to 74 %": 50, "25 to 49 %": 25, "less": 0}


def together(found: list[dict]) -> dict:
    """All of results.json: statuses, questions with their mistakes, students."""
    questions: dict[str, dict] = {}
    for result in found:
        for mark in result["questions"]:
            new = {"title": mark["title"], "of": mark["of"], "statuses": Counter(), "mistakes": Counter(), "unnamed": 0}
            each = questions.setdefault(mark["question"], new)
            each["statuses"][mark["status"]] += 1
            each["mistakes"].update(filter(None, [mark["mistake"]]))
            each["unnamed"] += mark["status"] == "wrong" and not mark["mistake"]
    for each in questions.values():
        each["mistakes"] = dict(each["mistakes"].most_common())
        each["statuses"] = dict(sorted(each["statuses"].items()))
    statuses = dict(sorted(Counter(result["status"] for result in found).items()))
    students = [{name: value for name, value in result.items() if name != "key"} for result in found]
    return {"statuses": statuses, "questions": questions, "students": students}


def kinds(question: dict) -> dict[str, int]:
    """How many passed a question, were not right, did not start, or came into trouble."""
    return {kind: sum(question["statuses"].get(status, 0) for status in of) for kind, of in KINDS.items()}


def ranked(whole: dict) -> list[tuple[int, str, str]]:
    """The known mistakes of the class with their questions, the most frequent first."""
    made = [(count, id, says) for id, each in whole["questions"].items() for says, count in each["mistakes"].items()]
    return sorted(made, key=lambda row: -row[0])


def taken(found: list[dict]) -> list[float]:
    """The points of those that were graded without trouble."""
    return [result["points"] for result in found if result["status"] in FINE]


def shares(points: list[float], of: float) -> dict[str, int]:
    """How many have all points, three quarters of them, and so on."""
    reached = Counter(next(name for name, least in SHARES.items() if 100 * each >= least * of) for each in points)
    return {name: reached[name] for name in SHARES}


def reasons(result: dict) -> list[str]:
    """Where there was trouble, and why, each said once."""
    troubled = [mark["question"] for mark in result["questions"] if mark["status"] in WORST]
    everywhere = len(troubled) == len(result["questions"]) > 1
    where = [f"in {'every question' if everywhere else ', '.join(troubled)}"] if troubled else []
    return [*where, *dict.fromkeys(mark["review"] for mark in result["questions"] if mark["review"]), *result["notes"]]
