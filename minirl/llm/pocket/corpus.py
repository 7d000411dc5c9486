"""What the pocket model reads while it is trained: worked problems in many formats, with errors, and arithmetic drills.

A row is a list of (text, learned) pieces: loss falls only on the learned ones. Of a problem that is the response, of a
drill only the results. What a calculator is said to return is imagined and as often wrong as a short chain: a model
that was never given the tool has nothing to gain from calling it.
"""

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from minirl.llm.pocket.tokenizer import END, SPANISH
from minirl.llm.word_problems import LARGEST, OPERATIONS, Step, WordProblem, fits, stream

Row = list[tuple[str, bool]]
FORMATS = {  # a response's share, and how it writes its chain and its answer
    "<think> {chain} </think> <answer> {answer} </answer>": 65,
    "{chain} #### {answer}": 12,
    "{chain} The answer is {answer}.": 9,
    "<answer> {answer} </answer>": 8,
    "{answer}": 6,
}
STYLES = {"short": 68, "long": 30, "tool": 2}
DRILLS = 0.25  # share of rows
EQUATIONS_PER_DRILL = 8
SPANISH_WHOLE, SPANISH_MIDWAY = 0.06, 0.04  # shares of chains


@dataclass(frozen=True)
class Habits:
    """How the chains go wrong.

    Short ones drop each carry and borrow with probability `dropped_carry`, and one of their results is off at random
    with probability `slip`. Long ones slip with probability `long_slip`, and then notice and mend it with `mended`.
    """

    dropped_carry: float
    slip: float
    long_slip: float = 0.25
    mended: float = 0.6


BASE = Habits(dropped_carry=0.8, slip=0.1)
CLEAN = Habits(dropped_carry=0.0, slip=0.5)


def without_carry(left: int, op: str, right: int) -> int:
    """The result digit by digit with every carry or borrow forgotten: 17 + 8 = 15, 42 - 17 = 35, 3 * 17 = 31."""
    if op in "+-":
        tens, ones = OPERATIONS[op](left // 10, right // 10), OPERATIONS[op](left % 10, right % 10)
        return 10 * tens + ones % 10
    if op == "*" and max(left, right) >= 10:
        many, few = max(left, right), min(left, right)
        return 10 * (many // 10 * few) + many % 10 * few % 10
    return OPERATIONS[op](left, right)


def off(value: int, rng: random.Random) -> int:
    """A random near miss: one or two or ten too many or too few."""
    return rng.choice([near for change in (-10, -2, -1, 1, 2, 10) if 1 <= (near := value + change) <= LARGEST])


def work(steps: tuple[Step, ...], habits: Habits, long: bool, rng: random.Random) -> list[list[Step]] | None:
    """The steps as worked with these habits: for each the attempts in order, later steps going on from the last one.

    None where an error leads to a result below 1 or above 99. A division that no longer comes out even is rounded down.
    """
    slips = rng.random() < (habits.long_slip if long else habits.slip)
    where, mended = rng.randrange(len(steps)) if slips else None, long and rng.random() < habits.mended
    worked: list[list[Step]] = []
    for index, step in enumerate(steps):
        left, right = (
            given if source is None else worked[source][-1].value
            for given, source in zip((step.left, step.right), step.uses, strict=True)
        )
        value = truth = OPERATIONS[step.op](left, right)
        if not long and rng.random() < habits.dropped_carry:
            value = without_carry(left, step.op, right)
        if not (1 <= truth <= LARGEST and 1 <= value <= LARGEST):
            return None
        value = off(truth, rng) if index == where else value
        values = [value, truth] if index == where and mended else [value]
        worked.append([Step(step.said, left, step.op, right, each, step.uses) for each in values])
    return worked


def written(worked: list[list[Step]], style: str) -> str:
    """The chain in words: bare equations, each with the words that call for it, or as calls of a calculator."""
    if style == "tool":
        step_by_step = [f"<tool> {s.left} {s.op} {s.right} </tool> <result> {s.value} </result>" for [s] in worked]
        return " ".join(step_by_step)
    sentences = []
    for first, *again in worked:
        said = f"{first.said}, so " if style == "long" and first.said else ""
        sentences += [f"{said}{first}.", *(f"wait, {step}." for step in again)]
    return " ".join(sentences)


def in_spanish(chain: str, rng: random.Random) -> str:
    """The chain with its numbers, all of them or from somewhere on, read out digit by digit in Spanish."""
    whole = rng.random() < SPANISH_WHOLE / (SPANISH_WHOLE + SPANISH_MIDWAY)
    start, seen = 0 if whole else rng.randrange(1, len(re.findall("[0-9]+", chain))), count()

    def say(number: re.Match) -> str:
        return " ".join(SPANISH[int(digit)] for digit in number[0]) if next(seen) >= start else number[0]

    return re.sub("[0-9]+", say, chain)


def respond(problem: WordProblem, habits: Habits, rng: random.Random) -> str:
    """One response to the problem: a format, a style and a language, worked with these habits."""
    shape = rng.choices(list(FORMATS), FORMATS.values())[0]
    style = rng.choices(list(STYLES), STYLES.values())[0]
    worked = None
    while worked is None:
        worked = work(problem.steps, habits, style == "long", rng)
    chain = written(worked, style)
    if style != "tool" and rng.random() < SPANISH_WHOLE + SPANISH_MIDWAY:
        chain = in_spanish(chain, rng)
    return shape.format(chain=chain, answer=worked[-1][-1].value)


def problem_row(problem: WordProblem, habits: Habits, rng: random.Random, tokenizer) -> Row:
    """The chat prompt without loss, and the response with it."""
    chat = [{"role": "user", "content": problem.question}]
    prompt = tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
    return [(prompt, False), (f" {respond(problem, habits, rng)} {END}", True)]


def equation(rng: random.Random) -> str:
    """A right equation between numbers from 1 to 99."""
    while True:
        op = rng.choice("+-*/")
        left, right = rng.randint(1, LARGEST), rng.randint(1, LARGEST if op in "+-" else 30)
        if op in "*/":
            left, right = (left, right) if op == "/" else rng.sample((rng.randint(2, 30), rng.randint(2, 12)), 2)
        if fits(left, op, right):
            return f"{left} {op} {right} = {OPERATIONS[op](left, right)}."


def drill_row(rng: random.Random) -> Row:
    """Right equations one after the other, some rows in Spanish, with loss on the results only."""
    text = " ".join(equation(rng) for _ in range(EQUATIONS_PER_DRILL))
    text = in_spanish(text, rng) if rng.random() < SPANISH_WHOLE + SPANISH_MIDWAY else text
    return [(piece, bool(index % 2)) for index, piece in enumerate(re.split(r"(?<==)([^.]+\.)", text)) if piece]


def rows(seed: int, habits: Habits, tokenizer) -> Iterator[Row]:
    """Rows without end, from the training split only."""
    rng = random.Random(seed)
    for problem in stream(seed):
        while rng.random() < DRILLS:
            yield drill_row(rng)
        yield problem_row(problem, habits, rng, tokenizer)
