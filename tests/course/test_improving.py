"""What is trained within a budget, and what an experiment's record must hold, beyond the mistakes with a name."""

import pytest
import torch

from minirl.course import improving
from minirl.course.a4 import CLEAR, QUESTIONS, better, record
from minirl.course.check import judge
from minirl.experiments import run_seeds
from minirl.policy import SortingPolicy
from minirl.sorting import SortingTask
from minirl.train import Config

EXPERIMENT = QUESTIONS["a4.q6b"]


@pytest.fixture(scope="module")
def policy():
    return improving.pocket()


def test_when_the_budget_is_spent_nothing_more_is_graded(policy):
    task = improving.Budgeted(policy.tokenizer, budget=6, seed=0)
    batch = task.sample(3)
    said, mask = policy.sample(batch.prompts, 2, torch.Generator().manual_seed(0))
    assert task.rewards(batch, said, mask).shape == (3, 2) and task.graded == 6 and not task.peeked
    for spent in (lambda: task.sample(1), lambda: task.rewards(batch, said, mask)):
        with pytest.raises(improving.BudgetSpent):
            spent()
    assert task.correct(batch, said, mask).shape == (3, 2), "to measure is free"


def test_learning_without_the_given_task_is_refused():
    def by_other_means(policy, task, seed):
        with torch.no_grad():
            next(policy.parameters()).add_(0.01)

    assert judge(QUESTIONS["a4.q5"], by_other_means).mistake == improving.NOTHING


def test_a_lower_temperature_is_no_improvement():
    cold = improving.pocket()
    cold.temperature = 1e-3
    assert improving.accuracy(cold, 0, 4) == improving.accuracy(improving.pocket(), 0, 4)


def test_only_a_function_improves():
    assert "expected a function" in judge(QUESTIONS["a4.q5"], Config(epochs=3)).message


def test_a_record_of_real_runs_passes():
    task = SortingTask(vocab_size=3, length=2, seed=0)
    names = ("normalized", "centered")
    configs = (Config(epochs=2, batch_size=4, group_size=4, delta=name) for name in names)
    runs = dict(
        zip(
            names, (run_seeds(lambda seed: SortingPolicy(3, 2, 4), task, one, range(3)) for one in configs), strict=True
        )
    )
    ends = [torch.tensor([history[-1]["held_out_exact"] for history in runs[name]]) for name in names]
    difference, _, side = better(*ends)
    claim = {"difference": difference, "winner": {"first": names[0], "second": names[1], None: None}[side]}
    kept = {
        "question": "Which of the two?",
        "metric": "held_out_exact",
        "runs": runs,
        "compared": names,
        "claim": claim,
    }
    assert judge(EXPERIMENT, lambda: kept).status == "passed"


@pytest.mark.parametrize(
    "change, says",
    [
        ({"runs": None}, "'runs' is missing"),
        ({"runs": {"this": 1, "that": 2}}, "a list of metrics"),
        ({"runs": {"this": [[]] * 3, "that": [[]] * 3}}, "a list of metrics"),
        ({"compared": ("this", "other")}, "two of the settings"),
        ({"claim": {}}, improving.NOT_RECORDED),
    ],
)
def test_a_record_that_is_not_whole_is_told_what_it_lacks(change, says):
    verdict = judge(EXPERIMENT, record(*CLEAR) | change)
    assert verdict.status == "wrong" and says in verdict.message


@pytest.mark.parametrize(
    "first, asked, says", [(("too little", True), [0, 100], None), (("a sign is wrong", False), [0], "a sign is wrong")]
)
def test_what_may_be_bad_luck_has_a_second_seed(monkeypatch, first, asked, says):
    found, seeds = [first, (None, False)], []
    monkeypatch.setattr(improving, "improved", lambda improve, seed, goal: seeds.append(seed) or found.pop(0))
    assert improving.improves()(lambda policy, task, seed: None) == says
    assert seeds == asked
