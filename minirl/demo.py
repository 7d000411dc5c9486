"""What `make demo` shows: the same policy trained with each delta, over several seeds, and tested on new prompts."""

import os
import signal
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from time import process_time

import matplotlib.pyplot as plt
import torch
from tqdm import tqdm

from minirl.deltas import DELTAS
from minirl.experiments import fast, final, mean_interval
from minirl.plotting import learning_curves, style
from minirl.policy import SortingPolicy
from minirl.sorting import SortingTask
from minirl.train import Config, train

SPLIT = 3  # trains on [0, 0, 0] and [4, 4, 4]: no other prompt teaches that 0 may come last, or 4 first
Runs = dict[str, list[list[dict]]]
COLUMNS = {"sampled": "held_out_exact", "greedy": "held_out_greedy", "CPU seconds a run": "seconds"}


def one_run(delta: str, seed: int) -> list[dict]:
    """The metrics of each epoch of one run; the last has the run's `seconds` too."""
    start = process_time()
    config = Config(delta=delta, seed=seed, epochs=fast(300, 20))
    history = list(train(SortingPolicy(seed=seed), SortingTask(seed=SPLIT), config))
    history[-1]["seconds"] = process_time() - start
    return history


def prepare_worker() -> None:
    """One thread each, since the tensors are tiny; Ctrl-C is the parent's to answer."""
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def run_all(num_seeds: int) -> Runs:
    """Every delta with every seed, on all cores, with one progress bar."""
    jobs = [(delta, seed) for delta in DELTAS for seed in range(num_seeds)]
    workers = ProcessPoolExecutor(min(os.cpu_count() or 1, len(jobs)), get_context("spawn"), prepare_worker)
    try:
        futures = {workers.submit(one_run, *job): job for job in jobs}
        with tqdm(total=len(jobs), desc="training", unit="run") as bar:
            for future in as_completed(futures):
                share = future.result()[-1]["held_out_exact"]
                bar.set_postfix_str(f"{futures[future][0]} sorts {share:.0%} of new prompts", refresh=False)
                bar.update()
    finally:
        workers.shutdown(cancel_futures=True)
    results = {job: future.result() for future, job in futures.items()}
    return {delta: [results[delta, seed] for seed in range(num_seeds)] for delta in DELTAS}


def table(runs: Runs) -> str:
    """One line a delta: each column's mean over the seeds ± its 95 % interval."""
    lines = [f"{'delta':<16}" + "".join(f"{name:>18}" for name in COLUMNS)]
    for delta, histories in runs.items():
        cells = ["{:.2f} ± {:.2f}".format(*mean_interval(final(histories, metric))) for metric in COLUMNS.values()]
        lines.append(f"{delta:<16}" + "".join(f"{cell:>18}" for cell in cells))
    return "\n".join(lines)


def describe(runs: Runs) -> str:
    """What was run, and what guessing would reach."""
    task, policy, epochs = SortingTask(seed=SPLIT), SortingPolicy(), len(runs["raw"][0])
    chance = policy.vocab_size**-policy.length
    return (
        f"Sorting {policy.length} numbers from 0 to {policy.vocab_size - 1}: {len(task.train_prompts)} prompts to "
        f"train on, {len(task.test_prompts)} held out.\nHeld-out prompts sorted exactly after {epochs} epochs, "
        f"mean of {len(runs['raw'])} seeds ± 95 % interval (a blind guess: {chance:.3f})"
    )


def draw(runs: Runs, path: Path) -> Path:
    """The reward of the training prompts beside held-out accuracy, as a PNG."""
    plt.switch_backend("Agg")
    style()
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6))
    learning_curves(runs, "reward_mean", "mean reward, training prompts (of 3)", left)
    learning_curves(runs, "held_out_exact", "share of held-out prompts sorted", right).set(ylim=(0, 1.02))
    left.get_legend().remove()
    legend = right.legend(loc="lower right", ncols=2, fontsize="small")
    for line, handle in zip(right.lines, legend.get_lines(), strict=True):
        if line.get_label() == "leave_one_out":  # a multiple of centered, and Adam does not feel the factor
            plt.setp([line, handle], linestyle="--")
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return path
