"""One GRPO step on the pocket model, by minirl and by TRL's GRPOTrainer, side by side.

32 word problems × 8 responses of at most 128 tokens at temperature 1, rewarded for the right answer and with 0.2 for
the format; normalized deltas, one update with Adam, no KL, float32. Both sides get the same prompts and the same
reward, and take turns step by step in one process. The learning rate is next to nothing, so that lengths stay what they
are. Times are of whole steps: prompts, sampling, rewards, loss, update and all metrics that either side computes. Two
threads wait for each other, so they need two free cores. On a busy machine set OMP_WAIT_POLICY=passive, or they burn
what they wait for, and trust the CPU seconds of one thread.

TRL's settings are the fastest we found on a CPU: generation by transformers with its cache and without vLLM; all 256
rows in one pass, no gradient checkpointing, no log-probs of an older policy where they would be the same, no reference
model, no logging, evaluation or saving, no workers for data, fused AdamW without weight decay. Passes of 128, 64 or 32
rows and plain AdamW make no difference that stands out of the noise; continuous batching takes three times as long.

Memory is the growth of a process's peak (VmHWM, so on Linux only) over two steps, in a process of each side's own,
after a small warm-up; with all rows in one backward pass, and in eight passes. Run this file on its own, or through
`make bench`; TRL comes with the extra trl.
"""

import gc
import importlib.util
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time

import torch
from run import line

from minirl import Config
from minirl.llm.policy import load
from minirl.llm.prompts import PROMPTS
from minirl.llm.task import CHECKS, LanguageTask
from minirl.llm.word_problems import generate
from minirl.train import train

WEIGHTS = {"strict": 1.0, "format": 0.2}
LEARNING_RATE, WARM_UP = 1e-9, 2


@dataclass(frozen=True)
class Work:
    steps: int
    prompts: int = 32
    group_size: int = 8
    new_tokens: int = 128
    passes: int = 1  # backward passes that a step is split into


class InOrder(LanguageTask):
    """The next prompts at every step, as TRL takes them: both sides answer the same ones."""

    def sample(self, batch_size: int, generator=None):
        self.taken = getattr(self, "taken", 0) + batch_size
        return self.encode(self.train[self.taken - batch_size : self.taken])


def by_minirl(work: Work) -> Iterator[dict]:
    """A step at each `next`, which returns its metrics."""
    policy = load("pocket", work.new_tokens, device="cpu")
    problems = generate(work.prompts * work.steps)
    task = InOrder(policy.tokenizer, problems, problems[:1], PROMPTS["turn"], WEIGHTS)
    sizes = {"batch_size": work.prompts, "group_size": work.group_size, "inner_steps": 1}
    sizes |= {"micro_batch_size": work.prompts // work.passes}
    never = work.steps + 1  # the last epoch would be evaluated: it is not reached
    settings = {"delta": "normalized", "learning_rate": LEARNING_RATE, "epochs": never, "evaluate_every": never}
    return train(policy, task, Config(**sizes, **settings))


def by_trl(work: Work, folder: str, after_step: Callable[[], None]) -> list[int]:
    """All steps, calling `after_step` after each; returns the length of every response."""
    from transformers import PrinterCallback, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    class Told(TrainerCallback):
        def on_step_end(self, *arguments, **_):
            after_step()

    policy, lengths = load("pocket", work.new_tokens, device="cpu"), []

    def reward(completions, completion_ids, answer, **_):
        lengths.extend(map(len, completion_ids))
        return [earned(text, gold) for text, gold in zip(completions, answer, strict=True)]

    settings, data = GRPOConfig(folder, **trl_settings(work)), trl_data(work, policy.tokenizer)
    trainer = GRPOTrainer(policy.model, reward, settings, data, processing_class=policy.tokenizer, callbacks=[Told()])
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    return lengths


def earned(text: str, gold: str) -> float:
    """What the task of minirl's side pays for a response."""
    return sum(weight * CHECKS[name](text, gold, False) for name, weight in WEIGHTS.items())


def trl_settings(work: Work) -> dict:
    return {
        **{"per_device_train_batch_size": work.prompts * work.group_size // work.passes},
        **{"gradient_accumulation_steps": work.passes, "num_generations": work.group_size},
        **{"max_completion_length": work.new_tokens, "max_steps": work.steps, "num_iterations": 1, "beta": 0.0},
        **{"loss_type": "grpo", "scale_rewards": "group", "temperature": 1.0, "shuffle_dataset": False},
        **{"learning_rate": LEARNING_RATE, "lr_scheduler_type": "constant", "weight_decay": 0.0, "max_grad_norm": 1.0},
        **{"use_cpu": True, "bf16": False, "gradient_checkpointing": False, "optim": "adamw_torch_fused"},
        **{"save_strategy": "no", "logging_strategy": "no", "report_to": "none", "disable_tqdm": True},
    }


def trl_data(work: Work, tokenizer):
    from datasets import Dataset

    problems = generate(work.prompts * work.steps)
    prompts = [PROMPTS["turn"](problem.question, tokenizer) for problem in problems]
    return Dataset.from_dict({"prompt": prompts, "answer": [problem.answer for problem in problems]})


class Clock:
    """Wall and CPU seconds since it was last looked at."""

    def __init__(self):
        self.start = perf_counter(), process_time()

    def lap(self) -> tuple[float, float]:
        now = perf_counter(), process_time()
        laps, self.start = tuple(end - begin for end, begin in zip(now, self.start, strict=True)), now
        return laps


def side_by_side(repeats: int):
    """(wall, CPU) seconds of each step of either side, minirl's metrics, and the lengths of TRL's responses."""
    work, ours, theirs, metrics = Work(repeats + WARM_UP), [], [], []
    steps = by_minirl(work)
    clock = Clock()

    def after_step():
        theirs.append(clock.lap())
        metrics.append(next(steps))
        ours.append(clock.lap())

    with tempfile.TemporaryDirectory() as folder:
        lengths = by_trl(work, folder, after_step)
    return ours[WARM_UP:], theirs[WARM_UP:], metrics[WARM_UP:], lengths[WARM_UP * work.prompts * work.group_size :]


def memory(name: str) -> int:
    """VmRSS or VmHWM of this process, in bytes."""
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


def take_steps(side: str, work: Work) -> None:
    if side == "minirl":
        for _ in itertools.islice(by_minirl(work), work.steps):
            pass
    else:
        with tempfile.TemporaryDirectory() as folder:
            by_trl(work, folder, lambda: None)


def growth(side: str, passes: int) -> int:
    """Bytes that the peak of this process grows by in two steps, after small ones have loaded what loads lazily."""
    take_steps(side, Work(steps=2, prompts=2, group_size=2, new_tokens=4))
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    before = memory("VmRSS")
    take_steps(side, Work(steps=2, passes=passes))
    return memory("VmHWM") - before


def report_speed(repeats: int, threads: int) -> None:
    torch.set_num_threads(threads)
    print(f"A GRPO step of 32 × 8 on the pocket model, threads: {threads}, against TRL; {repeats} steps of each")
    ours, theirs, metrics, lengths = side_by_side(repeats)
    for index, kind in enumerate(("seconds", "CPU seconds")):
        line(f"{kind} of a step, minirl", [each[index] for each in ours], ".2f")
        line(f"{kind} of a step, TRL", [each[index] for each in theirs], ".2f")
        ratios = [other[index] / mine[index] for mine, other in zip(ours, theirs, strict=True)]
        line(f"TRL ÷ minirl, {kind} (target: at least 2.5)", ratios, ".2f")
    for part in ("sampling", "scoring", "updating"):
        line(f"seconds of minirl's {part}", [each[f"seconds_{part}"] for each in metrics], ".2f")
    mine, other = statistics.mean(each["response_length"] for each in metrics), statistics.mean(lengths)
    tied = statistics.mean(each["zero_signal_groups"] for each in metrics)
    print(f"  mean length of a response: minirl {mine:.1f} tokens, TRL {other:.1f}; groups without signal: {tied:.0%}")


def report_memory(passes: int) -> None:
    found = {}
    for side in ("minirl", "trl"):
        command = [sys.executable, __file__, side, str(passes)]
        run = subprocess.run(command, capture_output=True, text=True, check=True)
        found[side] = int(run.stdout.split()[-1]) / 2**20
    sides = f"minirl {found['minirl']:.0f} MiB, TRL {found['trl']:.0f} MiB"
    print(f"Peak memory, backward passes: {passes}")
    print(f"  {sides}, minirl ÷ TRL {found['minirl'] / found['trl']:.2f} (target: at most 1)")


def main(repeats: int = 5) -> None:
    if importlib.util.find_spec("trl") is None:
        print("Against TRL: skipped, for it is not installed (pip install -e '.[trl]' -c constraints.txt)")
        return
    for threads in (1, 2):
        report_speed(repeats, threads)
    if sys.platform == "linux":
        for passes in (1, 8):
            report_memory(passes)


if __name__ == "__main__":
    from transformers.utils.logging import disable_progress_bar

    warnings.simplefilter("ignore")  # of TRL's and its dependencies' own
    os.environ |= {"TRANSFORMERS_VERBOSITY": "error", "HF_HUB_OFFLINE": "1"}
    disable_progress_bar()
    if sys.argv[1:2] in (["minirl"], ["trl"]):
        torch.set_num_threads(1)
        print(growth(sys.argv[1], int(sys.argv[2])))
    else:
        main(*map(int, sys.argv[1:]))
