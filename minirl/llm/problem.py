"""What a problem is, wherever it comes from."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """A question in words, a worked solution, and the answer as a plain number: "18", "-7", "2.5"."""

    question: str
    solution: str
    answer: str
