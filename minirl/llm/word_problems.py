"""Word problems: GSM8K in miniature, told from a seed, each with its worked steps.

A story is told clause by clause, and each clause that changes the count is worked out as it is told. Given numbers are
at most 30, everything on the way at most 99, every division is exact. Words and things are few on purpose: a model of
a third of a million parameters learns to read them in minutes.
"""

import operator
import random
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice, product
from math import prod

from minirl.llm.problem import Problem

LARGEST_GIVEN, LARGEST = 30, 99
OPERATIONS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.floordiv}
PRODUCTS = [pair for pair in product(range(2, LARGEST_GIVEN + 1), repeat=2) if pair[0] * pair[1] <= LARGEST]
NAMES = ("Ana", "Ben", "Mia", "Tom")
GOODS = ("apples", "books", "cards", "coins", "pens")


@dataclass(frozen=True)
class Step:
    """`left op right = value`, the words that call for it, and the steps that `left` and `right` come from."""

    said: str
    left: int
    op: str
    right: int
    value: int
    uses: tuple[int | None, int | None]

    def __str__(self) -> str:
        return f"{self.left} {self.op} {self.right} = {self.value}"


@dataclass(frozen=True)
class WordProblem(Problem):
    """A problem that also knows its story's shape and its worked steps."""

    story: str
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Clause:
    """One sentence: {n} acts, {m} is compared with, {f} is a friend, {t} things, {g} goods, {a} and {b} numbers.

    `op` is what it does to the running count ("" sets it, or asks). `by` says with what: the number {a}, the product
    {a}·{b}, or the other person's count. `said` is how a worked solution restates it; None: as it stands.
    """

    text: str
    op: str = ""
    by: str = "a"
    said: str | None = None
    switch: bool = False  # from here on the count is the other person's


@dataclass(frozen=True)
class Story:
    """A shape: one clause from each opening, then turns as needed, then one of the endings."""

    things: tuple[str, ...]
    openings: tuple[tuple[Clause, ...], ...]
    turns: tuple[Clause, ...]
    endings: tuple[tuple[Clause, ...], ...]


HAS = Clause("{n} has {a} {t}.")
BAGS = Clause("{n} has {a} bags of {b} {t}.", by="product")
DAYS = Clause("{n} buys {a} {t} a day for {b} days.", by="product")
SPLIT = Clause("{n} splits them into {a} equal bags and keeps one.", "/")
GAINS = (Clause("{n} buys {a} more.", "+"), Clause("{n} finds {a} more.", "+"))
LOSSES = (Clause("{n} sells {a}.", "-"), Clause("{n} loses {a}.", "-"), Clause("{n} gives {a} to {f}.", "-"))
MORE_BAGS = Clause("{n} buys {a} bags of {b}.", "+", by="product")
PRESENTS = Clause("{n} gives {a} to each of {b} friends.", "-", by="product")
COMPARE = (
    Clause("{m} has {a} more than {n}.", "+", switch=True),
    Clause("{m} has {a} fewer than {n}.", "-", switch=True),
    Clause("{m} has {a} times as many as {n}.", "*", switch=True),
)
BUY = Clause("{n} buys {a} {g} for {b} dollars each.", "-", by="product")
SELL = Clause("{n} sells {a} {g} for {b} dollars each.", "+", by="product")
SELL_ALL = Clause("{n} sells each for {a} dollars.", "*")
ASK = Clause("How many {t} does {n} have now?", said="")
ASK_DOLLARS = Clause("How many dollars does {n} get?", said="")
ASK_ALL = Clause("How many {t} do {m} and {n} have in all?", "+", by="other", said="in all")

CHANGES = (*GAINS, *LOSSES, MORE_BAGS, PRESENTS, SPLIT, SPLIT)
STORIES = {
    "collect": Story(GOODS, ((HAS,),), CHANGES, ((ASK,), (SELL_ALL, ASK_DOLLARS))),
    "stock": Story(GOODS, ((BAGS, DAYS),), CHANGES, ((ASK,), (SPLIT, ASK), (SELL_ALL, ASK_DOLLARS))),
    "compare": Story(GOODS, ((HAS, BAGS), COMPARE), (*GAINS, *LOSSES), ((ASK,), (ASK_ALL,), (ASK_ALL,))),
    "market": Story(("dollars",), ((HAS,),), (BUY, SELL, GAINS[1], *LOSSES[1:]), ((ASK,),)),
}

Quantity = tuple[int, int | None]  # a count, and the step that it came from (None: it was given)


class Stuck(Exception):
    """No number keeps this story within its limits: tell another."""


class Tale:
    """A story while it is being told: its words, its steps, and what the two people have."""

    def __init__(self, rng: random.Random, things: str):
        n, m, f = rng.sample(NAMES, 3)
        self.rng, self.cast = rng, {"n": n, "m": m, "f": f, "t": things}
        self.sentences: list[str] = []
        self.said: list[str] = []  # what was told since the last step
        self.steps: list[Step] = []
        self.count: Quantity = (0, None)
        self.other: Quantity = (0, None)

    def tell(self, clause: Clause) -> None:
        """Say the clause with numbers that fit, and work out what it does to the count."""
        options = numbers_that_fit(self.count[0], clause.op, clause.by) if "{a}" in clause.text else [()]
        if not options:
            raise Stuck
        numbers = self.rng.choice(options)
        words = {**self.cast, "g": self.rng.choice(GOODS), **dict(zip("ab", numbers, strict=False))}
        self.sentences.append(clause.text.format(**words))
        said = clause.text if clause.said is None else clause.said
        self.said += [said.format(**words)] if said else []
        before = self.count
        if numbers or clause.by == "other":
            amount = self.amount(clause, numbers)
            self.count = self.work(before, clause.op, amount) if clause.op else amount
        if clause.switch:
            self.other, self.cast = before, {**self.cast, "n": self.cast["m"], "m": self.cast["n"]}

    def amount(self, clause: Clause, numbers: tuple[int, ...]) -> Quantity:
        """What the clause speaks of: a given number, a product (a step of its own), or what the other person has."""
        if clause.by == "other":
            return self.other
        given = [(number, None) for number in numbers]
        return self.work(given[0], "*", given[1]) if clause.by == "product" else given[0]

    def work(self, left: Quantity, op: str, right: Quantity) -> Quantity:
        """Write the step down and return its value."""
        if not fits(left[0], op, right[0]):
            raise Stuck
        value = OPERATIONS[op](left[0], right[0])
        said = " ".join(self.said).rstrip(".")
        self.steps.append(Step(said, left[0], op, right[0], value, (left[1], right[1])))
        self.said = []
        return value, len(self.steps) - 1


def fits(left: int, op: str, right: int) -> bool:
    """True where `left op right` is a whole number from 1 to 99; a quotient is at least 2, or nothing is shared."""
    if op == "/":
        return left % right == 0 and left // right >= 2
    return 1 <= OPERATIONS[op](left, right) <= LARGEST


@cache
def numbers_that_fit(count: int, op: str, by: str) -> list[tuple[int, ...]]:
    """The choices for {a}, or for {a} and {b}, that keep the count whole and within the limits."""
    options = PRODUCTS if by == "product" else [(number,) for number in range(2, LARGEST_GIVEN + 1)]
    return [numbers for numbers in options if not op or fits(count, op, prod(numbers))]


def told(rng: random.Random, steps: int) -> WordProblem | None:
    """One story of that many steps, or None where it came out longer or shorter or would not fit the limits."""
    name = rng.choice(list(STORIES))
    story = STORIES[name]
    tale, ending = Tale(rng, rng.choice(story.things)), rng.choice(story.endings)
    last = sum(bool(clause.op) for clause in ending)
    try:
        for clauses in story.openings:
            tale.tell(rng.choice(clauses))
        while len(tale.steps) + last < steps:
            tale.tell(rng.choice(story.turns))
        for clause in ending:
            tale.tell(clause)
    except Stuck:
        return None
    if len(tale.steps) != steps:
        return None
    answer = str(tale.count[0])
    solution = " ".join(f"{step}." for step in tale.steps) + f" #### {answer}"
    return WordProblem(" ".join(tale.sentences), solution, answer, name, tuple(tale.steps))


def is_held_out(problem: WordProblem) -> bool:
    """True for a fifth of all problems, by a hash of the worked steps alone.

    So no arithmetic, and with it no question and no (story, numbers), is on both sides, whatever seeds are used.
    """
    return zlib.crc32(" ".join(map(str, problem.steps)).encode()) % 5 == 0


def stream(seed: int = 0, steps: tuple[int, int] = (1, 4), split: str = "train") -> Iterator[WordProblem]:
    """Problems without end, their number of steps uniform from steps[0] to steps[1]; one may come twice."""
    if split not in ("train", "held_out"):
        raise ValueError(f"split={split!r} is unknown; expected 'train' or 'held_out'")
    if not 1 <= steps[0] <= steps[1] <= 8:
        raise ValueError(f"steps must be (fewest, most) within 1 to 8; got {steps}")
    rng = random.Random(seed)
    while True:
        length, problem = rng.randint(*steps), None
        while problem is None or is_held_out(problem) != (split == "held_out"):
            problem = told(rng, length)
        yield problem


def generate(n: int, seed: int = 0, steps: tuple[int, int] = (1, 4), split: str = "train") -> list[WordProblem]:
    """n different problems of one split: the same ones for the same seed."""
    found: dict[str, WordProblem] = {}
    for problem in islice(stream(seed, steps, split), 20 * n + 1000):
        if len(found) == n:
            break
        found.setdefault(problem.question, problem)
    if len(found) < n:
        raise ValueError(f"there are fewer than {n} different problems of {steps} steps; ask for fewer")
    return list(found.values())
