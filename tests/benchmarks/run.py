"""`make bench`: what minirl costs and what it reaches, measured in one run. Machines differ, so speed is a ratio.

Times are CPU seconds of one thread, which other programs on the machine disturb little. "min / median / max" is over
repeats that take turns, so that both sides of a ratio see the same machine. The comparison with TRL, in against_trl.py,
runs where TRL is installed.
"""

import statistics
import subprocess
import sys
from functools import partial
from pathlib import Path
from time import process_time

import python_loops
import torch
from plain_sampling import plain_sample

import minirl
from minirl import Config, SortingPolicy, SortingTask
from minirl.demo import SPLIT
from minirl.sorting import LECTURE_PROMPTS, inclusion_ordering
from minirl.train import train

CORE = ("sorting", "policy", "rollout", "deltas", "losses", "kl", "metrics", "train", "exact")
EPOCHS, STEPS, GROUP_SIZE, LEARNING_RATE = 100, 10, 10, 1e-2


def seconds(work, *arguments) -> float:
    start = process_time()
    work(*arguments)
    return process_time() - start


def line(name: str, values: list[float], how: str) -> None:
    """A quantity's min, median and max over the repeats."""
    print(f"  {name:<60}" + " / ".join(format(f(values), how) for f in (min, statistics.median, max)))


def lecture_by_minirl() -> None:
    task = SortingTask(inclusion_ordering, prompts=LECTURE_PROMPTS)
    settings = {"epochs": EPOCHS, "inner_steps": STEPS, "batch_size": 3, "group_size": GROUP_SIZE, "delta": "raw"}
    config = Config(loss="naive", learning_rate=LEARNING_RATE, evaluate_every=EPOCHS, **settings)
    for _ in train(SortingPolicy(init_scale=1.0, seed=0), task, config):
        pass


def lecture_by_loops(loss_of) -> None:
    policy, prompts = SortingPolicy(init_scale=1.0, seed=0), LECTURE_PROMPTS.tolist()
    python_loops.train(policy, prompts, loss_of, EPOCHS, STEPS, GROUP_SIZE, LEARNING_RATE)


def bench_lecture(repeats: int = 3) -> None:
    print(f"The lecture's workload: 3 prompts × {GROUP_SIZE} responses, {EPOCHS} epochs × {STEPS} steps, raw, naive")
    ours, theirs = [], {way: [] for way in python_loops.WAYS}
    for _ in range(repeats):
        ours.append(seconds(lecture_by_minirl))
        for way, loss_of in python_loops.WAYS.items():
            theirs[way].append(seconds(lecture_by_loops, loss_of))
    for way, times in theirs.items():
        line("minirl ÷ " + way, [mine / other for mine, other in zip(ours, times, strict=True)], ".3f")
    line("seconds of minirl, with all its metrics", ours, ".2f")


def bench_import(repeats: int = 7) -> None:
    code = "import time, torch; start = time.process_time(); import minirl; print(time.process_time() - start)"
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True) for _ in range(repeats)]
    print("import minirl, in processes of their own")
    line("CPU seconds beyond torch (target: at most 0.15)", [float(run.stdout) for run in runs], ".3f")


def bench_lines() -> None:
    counts = {name: len((Path(minirl.__file__).parent / f"{name}.py").read_text("utf-8").splitlines()) for name in CORE}
    print("Lines of the core")
    print(f"  {', '.join(f'{name} {count}' for name, count in counts.items())}")
    print(f"  {sum(counts.values())} in all, {max(counts.values())} in the longest file")


def bench_solved(seeds: int = 5) -> None:
    print(
        f"Sorting 3 of 5 numbers, from reward only, {seeds} seeds, 25 prompts held out: explore with a KL, then sharpen"
    )
    task, found = SortingTask(seed=SPLIT), []
    for seed in range(seeds):
        start, policy = process_time(), SortingPolicy(init_scale=0.05, seed=seed)
        both = {"delta": "leave_one_out", "evaluate_every": 50, "seed": seed}
        for stage in (Config(epochs=150, beta=0.3, kl="k2", **both), Config(epochs=50, learning_rate=3e-3, **both)):
            *_, last = train(policy, task, stage)
        found.append((last["held_out_exact"], last["held_out_greedy"], process_time() - start))
    sampled, greedy, times = zip(*found, strict=True)
    print(f"  sampled exact: mean {statistics.mean(sampled):.3f} (target 0.99), worst {min(sampled):.3f} (target 0.95)")
    print(f"  greedy exact:  mean {statistics.mean(greedy):.3f}, worst {min(greedy):.3f}")
    line("seconds a seed (target: at most 10)", times, ".1f")


def bench_explorers(moves: int = 30) -> None:
    from minirl import explorers

    print("Explorers: milliseconds from a slider's move to the new picture (target: under 100)")
    policies = SortingPolicy(seed=0), SortingPolicy(seed=1)
    for make in (explorers.explore_deltas, explorers.explore_clipping, explorers.explore_kl, explorers.explore_policy):
        explorer = make(*policies) if make is explorers.explore_policy else make()
        slider, times = explorer.controls[0].sliders.children[0], []
        for move in range(moves):
            place = slider.min + (1 + move % 3) * slider.step
            times.append(1000 * seconds(setattr, slider, "value", place))
        line(make.__name__, times, ".0f")


def bench_sampling(repeats: int = 5) -> None:
    from minirl.llm.policy import load
    from minirl.llm.prompts import PROMPTS
    from minirl.llm.task import LanguageTask
    from minirl.llm.word_problems import generate

    print("Sampling 32 × 8 responses from the pocket model: each prompt read once, ended rows dropped; or neither")
    policy, problems, times = load("pocket", device="cpu"), generate(32), {"fast": [], "plain": []}
    prompts = LanguageTask(policy.tokenizer, problems, problems, PROMPTS["turn"]).held_out().prompts
    for seed in range(repeats):
        found = {}
        for name, sample in {"fast": policy.sample, "plain": partial(plain_sample, policy)}.items():
            start = process_time()
            found[name] = sample(prompts, 8, torch.Generator().manual_seed(seed))
            times[name].append(process_time() - start)
        (tokens, mask), (plain_tokens, plain_mask) = found.values()
        assert torch.equal(mask, plain_mask) and torch.equal(tokens[mask], plain_tokens[mask])
    print(f"  the same tokens, bit for bit, with {repeats} seeds")
    line("plain ÷ fast", [plain / fast for fast, plain in zip(*times.values(), strict=True)], ".2f")


def bench_trl() -> None:
    subprocess.run([sys.executable, Path(__file__).parent / "against_trl.py"], check=True)


def main() -> None:
    torch.set_num_threads(1)
    benches = (bench_lecture, bench_solved, bench_sampling, bench_trl, bench_import, bench_explorers, bench_lines)
    for bench in benches:
        bench()
        print(flush=True)


if __name__ == "__main__":
    main()
