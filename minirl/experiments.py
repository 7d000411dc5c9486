"""Experiments over several seeds: run them, line up their curves, and say how sure the mean is."""

import os
from collections.abc import Callable, Iterable

import numpy as np
from tqdm.auto import tqdm

from minirl.train import Config, train

T_975 = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131]
T_975 += [2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042]


def fast(full, quick):
    """`quick` where MINIRL_FAST=1 (the tests set it), else `full`: the same cells, with fewer seeds and steps."""
    return quick if os.environ.get("MINIRL_FAST") == "1" else full


def run_seeds(
    make_policy: Callable, task, config: Config, seeds: Iterable[int], label: str = "", make_critic=None
) -> list[list[dict]]:
    """One run a seed, from `make_policy(seed)`, with one progress bar; returns each run's list of metrics.

    `make_critic(policy, seed)`, where there is one, makes a critic to learn beside that policy.

    `config.seed` is replaced by each seed in turn, the task and its split stay the same.
    """
    seeds, histories = list(seeds), []
    with tqdm(total=len(seeds) * config.epochs, desc=label or config.delta, unit="epoch", leave=False) as bar:
        for seed in seeds:
            histories.append([])
            settings = Config(**{**vars(config), "seed": seed})
            policy = make_policy(seed)
            critic = None if make_critic is None else make_critic(policy, seed)
            for metrics in train(policy, task, settings, critic=critic):
                histories[-1].append(metrics)
                bar.update()
    return histories


def curve(histories: list[list[dict]], name: str) -> tuple[np.ndarray, np.ndarray]:
    """The epochs [E] at which a metric was measured, and its values [seeds, E]; nan where a run lacks one."""
    if not any(name in metrics for history in histories for metrics in history):
        known = sorted({key for history in histories for metrics in history for key in metrics})
        raise KeyError(f"no metric {name!r} in these runs; they have {', '.join(known)}")
    measured = [{metrics["epoch"]: metrics[name] for metrics in history if name in metrics} for history in histories]
    epochs = sorted(set().union(*measured))
    return np.array(epochs), np.array([[each.get(epoch, np.nan) for epoch in epochs] for each in measured])


def final(histories: list[list[dict]], name: str) -> np.ndarray:
    """The last value of a metric in each run, [seeds]."""
    return curve(histories, name)[1][:, -1]


def mean_interval(values, axis: int = 0) -> tuple[np.ndarray | float, np.ndarray | float]:
    """Mean over seeds and the half-width of its 95 % Student t interval (normal from 32 seeds on); nan for one seed."""
    values = np.asarray(values, dtype=float)
    count = values.shape[axis]
    if count < 2:
        return values.mean(axis), np.full_like(values.mean(axis), np.nan)
    quantile = T_975[count - 2] if count - 2 < len(T_975) else 1.96
    return values.mean(axis), quantile * values.std(axis, ddof=1) / np.sqrt(count)
