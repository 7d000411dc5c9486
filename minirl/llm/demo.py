"""The second half of `make demo`: GRPO on the pocket model, and its answers to the same questions before and after."""

from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from time import perf_counter

import matplotlib.pyplot as plt
import torch
from tqdm import tqdm

from minirl.experiments import fast
from minirl.llm import evaluation
from minirl.llm.policy import load
from minirl.llm.prompts import PROMPTS
from minirl.llm.runs import glance, with_checks
from minirl.llm.task import LanguageTask
from minirl.llm.word_problems import generate
from minirl.plotting import BLUE, ORANGE, style
from minirl.train import Config, train

SAMPLES = 8  # for each held-out problem
Records = list[dict]


@dataclass(frozen=True)
class Run:
    """Answers to held-out problems before and after training, the metrics of its epochs, and how long they took."""

    before: Records
    after: Records
    history: list[dict]
    seconds: float


def run(epochs: int, seed: int = 0) -> Run:
    """Answer, train with a progress bar, answer again; on one thread, since the tensors are small."""
    torch.set_num_threads(1)
    policy = load("pocket")
    test = generate(fast(100, 20), split="held_out")
    task = LanguageTask(policy.tokenizer, generate(4096), test, PROMPTS["turn"], {"strict": 1.0, "format": 0.2})
    settings = {"inner_steps": 1, "batch_size": 32, "group_size": 8, "learning_rate": 1e-3, "seed": seed}
    config = Config(epochs, **settings, evaluate_every=epochs)
    before, start = evaluation.answered(policy, task, test, SAMPLES, seed, 0), perf_counter()
    history = []
    with tqdm(total=epochs, desc="GRPO on the pocket model", unit="epoch") as bar:
        for metrics in train(policy, task, config):
            history.append(with_checks(metrics, task))
            bar.set_postfix(glance(metrics), refresh=False)
            bar.update()
    seconds = perf_counter() - start
    return Run(before, evaluation.answered(policy, task, test, SAMPLES, seed, 0), history, seconds)


def describe(found: Run) -> str:
    """What was measured, as a table with 95 % intervals over the problems, and how long it took."""
    columns = {"right, sampled": ("sampled", "strict"), "right, greedy": ("greedy", "strict")}
    columns |= {"format, sampled": ("sampled", "format")}
    lines = [f"{'held-out problems':<20}" + "".join(f"{name:>22}" for name in columns)]
    for when, records in {"before": found.before, "after": found.after}.items():
        summary = evaluation.summary(records, [1])
        cells = [evaluation.percent(summary[how][check]) for how, check in columns.values()]
        lines.append(f"{when:<20}" + "".join(f"{cell:>22}" for cell in cells))
    table = "\n".join(lines)
    return (
        f"A Qwen2 of a third of a million parameters on word problems: {len(found.history)} epochs of GRPO, 32 × 8 "
        f"responses each, one seed, took {found.seconds:.0f} seconds.\n{len(found.before)} problems it has never seen, "
        f"one greedy and {SAMPLES} sampled answers to each, with 95 % intervals over the problems\n\n{table}"
    )


def samples(found: Run, count: int = 2) -> str:
    """The greedy answers to some problems before and after, those first that it has learned to solve."""
    pairs = list(zip(found.before, found.after, strict=True))
    pairs.sort(key=lambda pair: pair[0]["greedy"][0]["strict"] - pair[1]["greedy"][0]["strict"])
    parts = []
    for before, after in pairs[:count]:
        parts.append(fill(f"{before['question']} (The answer is {before['answer']}.)", 110))
        for when, record in (("before", before), ("after", after)):
            said = f"{when:<8}{record['greedy'][0]['text']}"
            parts.append(fill(said, 110, initial_indent="  ", subsequent_indent=" " * 10))
    return "\n".join(parts)


def draw(found: Run, path: Path) -> Path:
    """Accuracy and format of each epoch's fresh responses, with held-out accuracy at both ends, as a PNG."""
    plt.switch_backend("Agg")
    style()
    figure, ax = plt.subplots(figsize=(7, 3.6))
    epochs = range(1, len(found.history) + 1)
    for check, label, color in (("strict", "right answer", BLUE), ("format", "right format", ORANGE)):
        ax.plot(epochs, [metrics[f"{check}_rate"] for metrics in found.history], label=label, color=color)
    for x, records in ((0, found.before), (len(found.history), found.after)):
        share = evaluation.summary(records, [1])["sampled"]["strict"]
        ends = [[share["share"] - share["low"]], [share["high"] - share["share"]]]
        label = f"right answer, {len(records)} held-out problems" if not x else None
        ax.errorbar(x, share["share"], ends, fmt="o", color="black", capsize=4, label=label)
    ax.set(xlabel="epoch (256 fresh responses to training problems each)", ylabel="share of responses", ylim=(0, 1.02))
    ax.legend(loc="lower right")
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return path
