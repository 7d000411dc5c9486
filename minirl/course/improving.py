"""Answers of assignment 4 that are judged by what happens: a policy that was trained, and an experiment's record."""

import inspect
import math
import re
from collections.abc import Callable
from functools import cache

import torch

from minirl.experiments import T_975, fast, mean_interval
from minirl.llm.prompts import PROMPTS
from minirl.llm.task import LanguageTask
from minirl.llm.word_problems import generate

SAMPLES = 8  # to each held-out problem
ANOTHER = 100  # added to the seed of a second try

NOT_ITERATED = "train is a generator: it does nothing until you iterate over it, for example with list(train(…))."
NOTHING = (
    "no response was graded by the task that you were given: learn from its sample and rewards, and iterate over "
    "train, which does nothing until then."
)
A_COPY = (
    "the policy that you were given is as it was: train that one in place, not a copy, with an optimiser's steps and "
    "deltas that differ."
)
ON_THE_TEST = "held-out problems were rewarded: train on those of task.sample, or nobody can tell what was learned."
WORSE = "the policy is worse than before: the steps were too large, or the sign of the loss is wrong."
FORMAT_ALONE = "nobody is paid for a right answer any more: a policy that is paid for tags alone learns tags."
HARDLY_MOVED = "the weights have hardly moved: the learning rate is too small for so few steps."
FEW = "you used less than a quarter of the responses that you may sample; what is rare needs samples to be learned."


class BudgetSpent(Exception):
    """No more responses will be graded; what was learned until here is measured."""


class Budgeted(LanguageTask):
    """Training problems, graded up to `budget` responses; it notices a rollout on its held-out problems."""

    def __init__(self, tokenizer, budget: int, seed: int):
        train, test = generate(4096, seed=seed), generate(16, seed=seed, split="held_out")
        super().__init__(tokenizer, train, test, PROMPTS["turn"], {"strict": 1.0, "format": 0.2})
        self.budget, self.graded, self.peeked = budget, 0, False

    def sample(self, batch_size, generator=None):
        """Training problems, as long as there is budget."""
        self._stop_if_spent()
        return super().sample(batch_size, generator)

    def rewards(self, batch, responses, mask):
        """The weighted checks; every response counts."""
        self._stop_if_spent()
        self.graded += mask.shape[0] * mask.shape[1]
        asked = {tuple(row) for row in self.held_out().prompts.tolist()}
        self.peeked |= any(tuple(row) in asked for row in batch.prompts.tolist())
        return super().rewards(batch, responses, mask)

    def _stop_if_spent(self) -> None:
        if self.graded >= self.budget:
            raise BudgetSpent


def pocket():
    """A fresh pocket model, on the CPU."""
    from minirl.llm.policy import load

    return load("pocket", device="cpu")


def accuracy(policy, seed: int, problems: int) -> float:
    """The share of strictly right answers to held-out problems that no training task shows.

    They are sampled as the pocket model samples: what counts are the weights, and not a lower temperature.
    """
    weights, policy = policy.state_dict(), pocket()
    policy.load_state_dict(weights)
    test = generate(problems, seed=1000 + seed, split="held_out")
    task = LanguageTask(policy.tokenizer, test, test, PROMPTS["turn"])
    batch = task.held_out()
    sampled = policy.sample(batch.prompts, SAMPLES, torch.Generator().manual_seed(seed))
    return task.correct(batch, *sampled).mean().item()


@cache
def base_accuracy(seed: int, problems: int) -> float:
    """The same before training."""
    return accuracy(pocket(), seed, problems)


def improves(seed: int = 0, goal: float = 0.15) -> Callable[[Callable], str | None]:
    """What is to be said of `improve(policy, task, seed)`: trained within a budget, measured on held-out problems.

    Seeds differ by tens of percentage points. So one that falls short for no reason that is known has a second seed.
    """

    def look(improve) -> str | None:
        if not callable(improve):
            return f"expected a function, improve(policy, task, seed); got {type(improve).__name__}."
        sentence, by_chance = improved(improve, seed, goal)
        return improved(improve, seed + ANOTHER, goal)[0] if by_chance else sentence

    return look


def improved(improve: Callable, seed: int, goal: float) -> tuple[str | None, bool]:
    """What is to be said of one training, and whether its seed may be to blame."""
    policy = pocket()
    before = [weight.detach().clone() for weight in policy.parameters()]
    task = Budgeted(policy.tokenizer, fast(1536, 512), seed)
    try:
        result = improve(policy, task, seed)
    except BudgetSpent:
        result = None
    moved = max((new - old).abs().max().item() for new, old in zip(policy.parameters(), before, strict=True))
    if sentence := untrained(result, task, moved):
        return sentence, False
    problems, least = fast(64, 24), fast(goal, goal / 3)
    start, end = base_accuracy(seed, problems), accuracy(policy, seed, problems)
    return (None, False) if end >= start + least else too_little(task, moved, start, end, least)


def untrained(result, task: Budgeted, moved: float) -> str | None:
    """What is wrong whatever the accuracy may be."""
    if inspect.isgenerator(result) and not task.graded:
        return NOT_ITERATED
    if not task.graded:
        return NOTHING
    if not moved:
        return A_COPY
    return ON_THE_TEST if task.peeked else None


def too_little(task: Budgeted, moved: float, start: float, end: float, goal: float) -> tuple[str, bool]:
    """The likely reason why too little was learned, or else the numbers, and that it may be chance."""
    reasons = {
        WORSE: end < start - 0.1,
        FORMAT_ALONE: not task.weights.get("strict"),
        HARDLY_MOVED: moved < 5e-4,
        FEW: task.graded < task.budget / 4,
    }
    if known := next((reason for reason, is_so in reasons.items() if is_so), None):
        return known, False
    found = (
        f"held-out accuracy went from {start:.0%} to {end:.0%}, with {task.graded} responses graded; asked for are "
        f"{100 * goal:.0f} percentage points. Look at the settings of notebook 05."
    )
    return found, True


# --- an experiment of one's own --------------------------------------------------------------------------------------

PARTS = {"question": str, "metric": str, "runs": dict, "compared": tuple | list, "claim": dict}
NO_QUESTION = "what is the question? One sentence that ends in a question mark, and that the runs can answer."
ONE_SETTING = "one setting alone answers no question; a comparison takes at least two."
FEW_SEEDS = "fewer than three seeds: nobody can tell luck from an effect."
UNEVEN = "the settings have different numbers of runs; the seeds are compared pair by pair."
SAME_RUN = "two runs of a setting are the same to the last digit: a copy is not another seed."
NO_METRIC = "the last epoch of a run lacks the metric that you compare."
NOT_RECORDED = "the claim's difference is not what the runs record: recompute it from their last epochs."
NOT_DECIDED = "the interval includes 0, so these runs name no winner: claim None, or run more seeds."
WRONG_WINNER = "the runs name another winner than your claim."


def T(count: int) -> float:
    """Student's t of the 95 % interval of a mean over so many seeds."""
    return T_975[count - 2]


def paired(one, other) -> tuple[float, float, int]:
    """Mean difference over the seeds, half of its 95 % interval, and which side wins: 1, −1, or 0 for neither."""
    mean, half = mean_interval([float(a) - float(b) for a, b in zip(one, other, strict=True)])
    return float(mean), float(half), 0 if abs(mean) <= half else 1 if mean > 0 else -1


def look_at_experiment(experiment) -> str | None:
    """What is to be said of the record that `experiment()` returns: its shape, its seeds, and whether it is claimed
    what was recorded."""
    record = experiment() if callable(experiment) else experiment
    if sentence := misshapen(record):
        return sentence
    first, second = ([history[-1][record["metric"]] for history in record["runs"][name]] for name in record["compared"])
    mean, _, side = paired(first, second)
    claim = record["claim"]
    if not math.isclose(claim.get("difference", math.nan), mean, rel_tol=1e-2, abs_tol=1e-4):
        return NOT_RECORDED
    winner = {1: record["compared"][0], -1: record["compared"][1], 0: None}[side]
    if claim.get("winner") == winner:
        return None
    return WRONG_WINNER if winner else NOT_DECIDED


def misshapen(record) -> str | None:
    """What a record lacks before its numbers can be looked at."""
    if not isinstance(record, dict):
        return f"expected a dict with {', '.join(PARTS)}; got {type(record).__name__}."
    for name, kind in PARTS.items():
        if not isinstance(record.get(name), kind):
            return f"the record's part {name!r} is missing, or of another kind than asked for."
    if not re.search(r"\w+ .*\?\s*$", record["question"]):
        return NO_QUESTION
    if len(record["runs"]) < 2:
        return ONE_SETTING
    if len(record["compared"]) != 2 or not set(record["compared"]) <= set(record["runs"]):
        return "compared names two of the settings: ('this', 'that')."
    return next(filter(None, map(bad_runs, record["runs"].values())), None) or bad_numbers(record)


def bad_runs(histories) -> str | None:
    """What is wrong with the runs of one setting."""
    listed = isinstance(histories, list | tuple) and all(isinstance(each, list) and each for each in histories)
    if not listed or not all(isinstance(epoch, dict) for each in histories for epoch in each):
        return "each run is a list of metrics, one dict an epoch, as train yields them."
    if len(histories) < 3:
        return FEW_SEEDS
    measured = [str([{k: v for k, v in one.items() if "seconds" not in k} for one in each]) for each in histories]
    return SAME_RUN if len(set(measured)) < len(measured) else None


def bad_numbers(record: dict) -> str | None:
    """Whether the two settings can be compared by the metric."""
    if len({len(record["runs"][name]) for name in record["compared"]}) > 1:
        return UNEVEN
    last = [history[-1].get(record["metric"]) for name in record["compared"] for history in record["runs"][name]]
    if not all(isinstance(value, int | float) and math.isfinite(value) for value in last):
        return NO_METRIC
    return None
