"""Word problems: each worked step is right, numbers keep their limits, and nothing leaks between the splits."""

import random
import re
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from math import prod

import pytest

from minirl.experiments import fast
from minirl.llm import word_problems
from minirl.llm.word_problems import GOODS, LARGEST, LARGEST_GIVEN, NAMES, STORIES, generate, is_held_out, stream

PROBLEMS = generate(1000, seed=0)
HELD_OUT = generate(500, seed=0, split="held_out")
EQUATION = re.compile(r"(\d+) ([-+*/]) (\d+) = (\d+)\.")
EXACT = {"+": Fraction.__add__, "-": Fraction.__sub__, "*": Fraction.__mul__, "/": Fraction.__truediv__}


def equations(problem):
    return [(int(a), op, int(b), int(c)) for a, op, b, c in EQUATION.findall(problem.solution)]


def numbers(problem):
    return [int(number) for number in re.findall(r"\d+", problem.question)]


def anonymous(problem):
    """The question without its names and things: the same story with the same numbers is the same text."""
    return re.sub("|".join(NAMES + GOODS), "_", problem.question)


def test_the_same_seed_tells_the_same_problems_and_another_seed_others():
    assert generate(50, seed=7) == generate(50, seed=7)
    assert generate(50, seed=7) != generate(50, seed=8)


def test_every_equation_of_every_solution_is_exact():
    for problem in PROBLEMS + HELD_OUT:
        found = equations(problem)
        assert len(found) == len(problem.steps)
        assert all(EXACT[op](Fraction(a), Fraction(b)) == c for a, op, b, c in found), problem.solution


def test_the_answer_is_the_last_result_and_is_graded_right():
    from minirl.llm.verify import is_correct

    for problem in PROBLEMS:
        assert problem.answer == str(equations(problem)[-1][3])
        assert is_correct(problem.solution, problem.answer, "strict")
        assert not is_correct(problem.solution, str(int(problem.answer) + 1), "strict")


def test_given_numbers_and_results_keep_their_limits():
    for problem in PROBLEMS + generate(300, seed=1, steps=(5, 7)):
        assert all(2 <= number <= LARGEST_GIVEN for number in numbers(problem)), problem.question
        assert all(1 <= result <= LARGEST for *_, result in equations(problem)), problem.solution


def test_each_operand_was_given_or_is_an_earlier_result_and_every_given_number_is_used():
    for problem in PROBLEMS:
        known, used = Counter(numbers(problem)), Counter()
        for step in problem.steps:
            for value, source in zip((step.left, step.right), step.uses, strict=True):
                assert source is None or problem.steps[source].value == value
                used.update([value] if source is None else [])
        first = problem.question.split(".")[0]  # what was given first may be used twice: "in all"
        assert not known - used
        assert all(str(number) in first for number in used - known), problem


def test_a_story_told_by_hand():
    """Read the question with a second, independent reader: plain rules on its sentences."""
    simple = [p for p in PROBLEMS if p.story == "collect" and not re.search("each|bags|dollars", p.question)]
    assert len(simple) > 60
    for problem in simple:
        count = 0
        for sentence in problem.question.split(".")[:-1]:
            [number] = map(int, re.findall(r"\d+", sentence))
            sign = -1 if re.search("sells|loses|gives", sentence) else 1
            count = number if " has " in sentence else count + sign * number
        assert str(count) == problem.answer


def compared(question):
    """What each person has in the end, and the persons asked about: plain rules on the sentences of a comparison."""
    *told, asked = re.split(r"(?<=\.) ", question)
    has = {}
    for sentence in told:
        who, numbers = sentence.split()[0], [int(number) for number in re.findall(r"\d+", sentence)]
        other = re.search(r"than (\w+)|many as (\w+)", sentence)
        if other:
            base, number = has[other[1] or other[2]], numbers[0]
            has[who] = base * number if "times" in sentence else base + number * (-1 if "fewer" in sentence else 1)
        elif " has " in sentence:
            has[who] = prod(numbers)
        else:
            has[who] += numbers[0] * (-1 if re.search("sells|loses|gives", sentence) else 1)
    return has, [name for name in NAMES if name in asked]


def test_a_comparison_is_worked_out_for_whom_it_asks():
    problems = [problem for problem in PROBLEMS if problem.story == "compare"]
    together = 0
    for problem in problems:
        has, asked = compared(problem.question)
        assert str(sum(has[name] for name in asked)) == problem.answer, problem
        together += len(asked) == 2
    assert 50 < together < len(problems) - 50


def test_all_operations_stories_and_numbers_of_steps_occur():
    assert {op for problem in PROBLEMS for _, op, _, _ in equations(problem)} == set("+-*/")
    assert {problem.story for problem in PROBLEMS} == set(STORIES)
    lengths = Counter(len(problem.steps) for problem in PROBLEMS)
    assert set(lengths) == {1, 2, 3, 4} and min(lengths.values()) > 0.2 * len(PROBLEMS)


def test_longer_problems_can_be_had():
    lengths = Counter(len(problem.steps) for problem in generate(300, seed=1, steps=(5, 7)))
    assert set(lengths) == {5, 6, 7} and min(lengths.values()) > 60


def test_no_arithmetic_is_on_both_sides_whatever_the_seeds():
    """Five seeds, or two with MINIRL_FAST=1."""
    train = [p for seed in range(fast(5, 2)) for p in generate(2000, seed=seed)]
    held_out = [p for seed in range(fast(5, 2)) for p in generate(500, seed=seed, split="held_out")]
    assert not {p.question for p in train} & {p.question for p in held_out}
    assert not {anonymous(p) for p in train} & {anonymous(p) for p in held_out}
    assert not {tuple(equations(p)) for p in train} & {tuple(equations(p)) for p in held_out}


def test_a_fifth_is_held_out():
    both = PROBLEMS + HELD_OUT
    assert all(is_held_out(problem) == (index >= len(PROBLEMS)) for index, problem in enumerate(both))
    shares = [sum(is_held_out(p) for p in generate(500, seed=9, split=split)) for split in ("train", "held_out")]
    assert shares == [0, 500]


def test_the_split_looks_at_the_arithmetic_and_at_no_word():
    for problem in PROBLEMS[:100] + HELD_OUT[:100]:
        other = replace(problem, question="Retold.", solution="", story="other")
        assert is_held_out(other) == is_held_out(problem)


def test_the_share_that_is_held_out_is_a_fifth_of_what_is_told():
    rng = random.Random(0)
    told = [word_problems.told(rng, 1 + draw % 4) for draw in range(6000)]
    different = {" ".join(map(str, each.steps)): is_held_out(each) for each in told if each is not None}
    share, spread = sum(different.values()) / len(different), (0.16 / len(different)) ** 0.5
    assert len(different) > 1500 and abs(share - 0.2) < 4 * spread


def test_questions_are_different_within_one_call():
    assert len({problem.question for problem in PROBLEMS}) == len(PROBLEMS)


@pytest.mark.parametrize(
    "wrong, said",
    [
        ({"split": "test"}, "expected 'train' or 'held_out'"),
        ({"steps": (0, 4)}, "fewest, most"),
        ({"steps": (3, 2)}, "fewest, most"),
        ({"steps": (1, 9)}, "fewest, most"),
    ],
)
def test_what_cannot_be_is_refused(wrong, said):
    with pytest.raises(ValueError, match=said):
        generate(1, **wrong)


def test_a_stream_goes_on():
    told = stream(seed=3)
    assert len({next(told).question for _ in range(100)}) > 90
