"""Seeds, curves and intervals."""

import math

import numpy as np
import pytest

from minirl.experiments import curve, fast, final, mean_interval, run_seeds
from minirl.policy import SortingPolicy
from minirl.sorting import LECTURE_PROMPTS, SortingTask
from minirl.train import Config, train

CONFIG = Config(epochs=4, batch_size=3, group_size=4, inner_steps=2, evaluate_every=3, seed=9)
TASK = SortingTask(prompts=LECTURE_PROMPTS)
HISTORIES = [
    [{"epoch": 1, "a": 1.0}, {"epoch": 2, "a": 2.0, "b": 5.0}, {"epoch": 3, "a": 4.0, "b": 6.0}],
    [{"epoch": 1, "a": 3.0}, {"epoch": 2, "a": 2.0, "b": 7.0}, {"epoch": 3, "a": 0.0, "b": 8.0}],
]


def make_policy(seed):
    return SortingPolicy(seed=seed)


def without_seconds(history):
    return [{name: value for name, value in row.items() if not name.startswith("seconds")} for row in history]


def test_each_seed_is_one_run_with_its_own_policy_and_random_numbers():
    histories = run_seeds(make_policy, TASK, CONFIG, [0, 5])
    for seed, history in zip([0, 5], histories, strict=True):
        alone = list(train(make_policy(seed), TASK, Config(**{**vars(CONFIG), "seed": seed})))
        assert without_seconds(history) == without_seconds(alone)
    assert without_seconds(histories[0]) != without_seconds(histories[1])


def test_seeds_may_come_from_a_generator():
    assert len(run_seeds(make_policy, TASK, CONFIG, (seed for seed in range(3)))) == 3


def test_a_curve_has_the_epochs_at_which_the_metric_was_measured():
    epochs, values = curve(HISTORIES, "a")
    assert epochs.tolist() == [1, 2, 3]
    assert values.tolist() == [[1, 2, 4], [3, 2, 0]]
    epochs, values = curve(HISTORIES, "b")
    assert epochs.tolist() == [2, 3]
    assert values.tolist() == [[5, 6], [7, 8]]


def test_held_out_numbers_come_every_so_often_and_at_the_end():
    epochs, values = curve(run_seeds(make_policy, TASK, CONFIG, [0, 1, 2]), "held_out_exact")
    assert epochs.tolist() == [3, 4]
    assert values.shape == (3, 2)


def test_an_unknown_metric_is_refused_with_the_known_ones():
    with pytest.raises(KeyError, match="no metric 'c' in these runs; they have a, b, epoch"):
        curve(HISTORIES, "c")


def test_final_is_the_last_value_of_each_run():
    assert final(HISTORIES, "a").tolist() == [4, 0]
    assert final(HISTORIES, "b").tolist() == [6, 8]


def chance_within(quantile, freedom, steps=4000):
    """P(|T| ≤ quantile) of Student's t, by Simpson's rule over its density."""
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(freedom * math.pi)
    x = np.linspace(0, quantile, steps + 1)
    density = scale * (1 + x**2 / freedom) ** (-(freedom + 1) / 2)
    weights = np.array([1, *[4, 2] * (steps // 2 - 1), 4, 1])
    return 2 * (weights * density).sum() * quantile / steps / 3


@pytest.mark.parametrize("count", range(2, 32))
def test_the_interval_covers_95_percent_of_student_t(count):
    values = np.random.default_rng(count).normal(size=count)
    mean, half = (found.item() for found in mean_interval(values[:, None]))
    assert mean == pytest.approx(sum(values) / count)
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / (count - 1))
    assert chance_within(half / (deviation / math.sqrt(count)), count - 1) == pytest.approx(0.95, abs=5e-5)


def test_one_number_a_seed_gives_one_mean_and_one_interval():
    mean, half = mean_interval([1.0, 3.0])
    assert float(mean) == 2
    assert float(half) == pytest.approx(12.706, abs=1e-3)


def test_intervals_run_along_the_seeds_of_a_curve():
    values = [[1.0, 2.0, 4.0], [3.0, 2.0, 0.0]]
    mean, half = mean_interval(values)
    assert mean.tolist() == [2, 2, 2]
    assert half == pytest.approx([12.706, 0, 25.412], abs=1e-2)  # std/√2 is half the difference: 1, 0 and 2
    mean, half = mean_interval(np.transpose(values), axis=1)
    assert mean.tolist() == [2, 2, 2]
    assert half[1] == 0


def test_one_seed_has_no_interval():
    mean, half = mean_interval([[1.0, 2.0]])
    assert mean.tolist() == [1, 2]
    assert np.isnan(half).all()


def test_fast_is_chosen_by_the_environment(monkeypatch):
    monkeypatch.setenv("MINIRL_FAST", "1")
    assert fast("full", "quick") == "quick"
    monkeypatch.setenv("MINIRL_FAST", "0")
    assert fast("full", "quick") == "full"
    monkeypatch.delenv("MINIRL_FAST")
    assert fast("full", "quick") == "full"
