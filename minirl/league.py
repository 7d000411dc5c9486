"""The league: every recipe on the same work with the same budget of sampled tokens, and a table of what came of it.

Each recipe takes the best of a task's learning rates, found with other seeds and, where prompts are held out, with
other ones of these. A run stops with the rollout that uses up its budget, and is judged after that. `make league` runs
all; runs/league.jsonl grows by a line a run, so a league that was stopped goes on where it was.
Left out: a search of anything but the rate, and budgets on which most recipes would reach the same ceiling.
"""

import argparse
import csv
import json
import math
import os
import signal
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from itertools import product
from multiprocessing import active_children, get_context
from pathlib import Path
from statistics import fmean
from textwrap import fill
from time import process_time

import torch
from torch import Tensor
from tqdm.auto import tqdm

from minirl.critic import PrefixReader
from minirl.experiments import mean_interval
from minirl.policy import SortingPolicy
from minirl.recipes import RECIPES, find
from minirl.shaping import Shaped
from minirl.sorting import SortingTask
from minirl.toy_language import AutoregressivePolicy, LastTokenTask
from minirl.train import train

ROOT = Path(__file__).parents[1]
RESULTS, PICTURE = ROOT / "notebooks" / "results" / "league.csv", ROOT / ".github" / "images" / "league.png"
UNTRAINED = "untrained"  # the row that all others start from
SEARCH_SEED = 100  # the first seed of the search for a rate; the league's own begin at 0
WITHOUT_END = 10**9
PRELOAD = ["minirl.toy_language", "minirl.train", "tqdm.auto", "transformers.models.qwen2.modeling_qwen2"]

# ---- the work


@dataclass(frozen=True)
class Work:
    """A task of the league, and all that its recipes share there. `task(searching)` has other held-out prompts then."""

    title: str
    make_policy: Callable
    make_task: Callable
    make_body: Callable  # what a critic reads with, from policy and seed
    settings: Mapping  # of Config
    critic: Mapping  # of Critic
    budget: int  # sampled tokens of a run
    rates: tuple[float, ...]
    seeds: int
    search_seeds: int
    search_share: float  # of the budget, for each run of the search
    samples: int  # to each held-out prompt, after training
    max_length: int | None = None  # where responses end by themselves, and length can earn something


def sorting_task(searching: bool) -> SortingTask:
    return SortingTask(seed=4 if searching else 3)


def word_problems(searching: bool):
    from minirl.llm.prompts import PROMPTS
    from minirl.llm.task import LanguageTask
    from minirl.llm.word_problems import generate

    test = generate(300, split="held_out")
    test = test[200:] if searching else test[:200]
    return LanguageTask(pocket(0).tokenizer, generate(4096), test, PROMPTS["turn"], {"strict": 1.0, "format": 0.2})


def pocket(seed: int):
    from minirl.llm.policy import load

    return load("pocket")


WORK = {
    "sorting": Work(
        "sorting",
        lambda seed: SortingPolicy(seed=seed),
        sorting_task,
        lambda policy, seed: PrefixReader(policy.vocab_size, policy.length, policy.length, seed=seed),
        {"batch_size": 64, "group_size": 16, "inner_steps": 4, "positive_above": 2.5},
        {},
        budget=300_000,
        rates=(1e-2, 3e-2, 1e-1),
        seeds=5,
        search_seeds=2,
        search_share=1.0,
        samples=64,
    ),
    "lengths": Work(
        "answers of any length",
        lambda seed: AutoregressivePolicy(8, 24, 7, seed=seed, init_scale=0.3),
        lambda searching: LastTokenTask(),
        lambda policy, seed: PrefixReader(policy.vocab_size, policy.length, 1, seed=seed),
        {"batch_size": 8, "group_size": 8, "inner_steps": 4},
        {},
        budget=20_000,
        rates=(3e-2, 1e-1, 3e-1),
        seeds=5,
        search_seeds=2,
        search_share=1.0,
        samples=256,
        max_length=24,
    ),
    "pocket": Work(
        "word problems, pocket model",
        pocket,
        word_problems,
        lambda policy, seed: policy,
        {"batch_size": 8, "group_size": 8, "inner_steps": 2, "positive_above": 0.5},
        {"learning_rate": 1e-3, "steps": 2},
        budget=90_000,
        rates=(2e-4, 5e-4, 1e-3),
        seeds=3,
        search_seeds=1,
        search_share=0.5,
        samples=4,
        max_length=128,
    ),
}


def quickly(work: Work) -> Work:
    """The same with a budget of a few rollouts, for tests."""
    return replace(work, budget=work.budget // 20, rates=work.rates[-2:], seeds=2, search_seeds=1, samples=2)


# ---- one run


@dataclass(frozen=True)
class Job:
    """One run. `stage` is "search" while a rate is looked for, else "league"."""

    task: str
    recipe: str
    seed: int
    rate: float
    budget: int
    stage: str = "league"
    samples: int = 64
    settings: str = ""  # a fingerprint: with other settings it is another run


def make_job(work: Work, task: str, recipe: str, seed: int, rate: float, stage: str = "league") -> Job:
    """A run of the league, or of the search before it; ValueError for a recipe that is not there."""
    budget = 0 if recipe == UNTRAINED else round(work.budget * (work.search_share if stage == "search" else 1))
    parts = () if recipe == UNTRAINED else [sorted(part.items()) for part in parts_of(recipe)]
    text = repr((parts, sorted(work.settings.items()), sorted(work.critic.items())))
    return Job(task, recipe, seed, rate, budget, stage, work.samples, f"{zlib.crc32(text.encode()):08x}")


def parts_of(name: str) -> tuple[Mapping, Mapping, Mapping]:
    recipe = find(name)
    return recipe.settings, recipe.critic or {}, recipe.reward


def run(job: Job) -> dict:
    """Train until the budget is used, then judge: the job as a row, with what was measured."""
    work, used, row = WORK[job.task], Usage(), asdict(job)
    policy, task = work.make_policy(job.seed), work.make_task(job.stage == "search")
    try:
        if job.recipe != UNTRAINED:
            trained(policy, task, job, used)
        row |= judged(policy, task, job.samples, job.seed) | {"broken": ""}
    except FloatingPointError as error:
        row |= {"sampled": 0.0, "greedy": 0.0, "length": None, "broken": str(error)}
    return row | used.summary()


def trained(policy, task, job: Job, used: "Usage") -> None:
    """Train `policy` in place by the job's recipe; `used` is told what that took."""
    work, recipe = WORK[job.task], find(job.recipe)
    shared = {name: value for name, value in work.settings.items() if name not in recipe.settings}
    settings = {"learning_rate": job.rate, "epochs": WITHOUT_END, "evaluate_every": WITHOUT_END, "seed": job.seed}
    config = recipe.config(**shared, **settings)
    if recipe.reward and work.max_length:
        task = Shaped(task, recipe.reward, work.max_length, length_from=50)  # its epochs are hundredths of the budget
    critic = recipe.make_critic(work.make_body(policy, job.seed), **work.critic)
    used.start(policy, critic, bool(config.beta or config.reference_every), config.inner_steps)
    with torch.autograd.graph.saved_tensors_hooks(used.keep, lambda kept: kept.tensor):
        for metrics in train(policy, task, config, critic=critic):
            used.add(metrics)
            if used.tokens >= job.budget:
                break
            if isinstance(task, Shaped):
                task.epoch = 100 * used.tokens // job.budget
    used.stop()


def judged(policy, task, samples: int, seed: int) -> dict[str, float]:
    """Share of held-out prompts that are answered right, sampled at temperature 1 and greedy; mean length in tokens."""
    batch = task.held_out()
    responses, mask = policy.sample(batch.prompts, samples, torch.Generator().manual_seed(seed))
    return {
        "sampled": task.correct(batch, responses, mask).mean().item(),
        "greedy": task.correct(batch, *policy.greedy(batch.prompts)).mean().item(),
        "length": mask.sum(-1).float().mean().item(),
    }


class Usage:
    """What a training takes: sampled tokens, rollouts, steps, CPU seconds of its one thread, memory.

    Memory is counted: weights, gradients and Adam's two moments of policy and critic, the reference's weights, and the
    most that autograd keeps for a backward pass. Where the system says so, the growth of the process's peak stands
    beside it: that has caches, temporary tensors and the allocator's gaps in it too.
    """

    def __init__(self):
        self.tokens = self.rollouts = self.steps = self.always = self.now = self.most = 0
        self.seconds, self.grown, self.times = 0.0, None, Counter()

    def start(self, policy, critic, reference: bool, inner_steps: int) -> None:
        self.inner_steps = inner_steps
        learned = [*policy.parameters(), *([] if critic is None else critic.parameters())]
        self.times.update(weight.untyped_storage().data_ptr() for weight in learned)  # they are counted here, once
        self.always = sum(4 * weight.nbytes for weight in learned)
        self.always += reference * sum(weight.nbytes for weight in policy.parameters())
        self.before, self.began = resident("VmRSS"), process_time()

    def add(self, metrics: dict) -> None:
        self.tokens, self.rollouts = self.tokens + round(metrics["sampled_tokens"]), self.rollouts + 1
        self.steps += self.inner_steps

    def stop(self) -> None:
        self.seconds = process_time() - self.began
        self.grown = resident("VmHWM") - self.before if self.before else None

    def keep(self, tensor: Tensor) -> "Kept":
        return Kept(self, tensor)

    def summary(self) -> dict:
        return {
            "tokens": self.tokens,
            "rollouts": self.rollouts,
            "steps": self.steps,
            "seconds": self.seconds,
            "counted_mb": (self.always + self.most) / 1e6,
            "grown_mb": self.grown and self.grown / 1e6,
        }


class Kept:
    """A tensor that waits for its backward pass. What several of them share is counted once."""

    def __init__(self, used: Usage, tensor: Tensor):
        storage = tensor.untyped_storage()
        self.used, self.place, self.size = used, storage.data_ptr(), storage.nbytes()
        self.tensor = tensor.detach()  # with its graph, an output would hold the step that keeps it, for ever
        used.now += self.size * (not used.times[self.place])
        used.times[self.place] += 1
        used.most = max(used.most, used.now)

    def __del__(self):
        self.used.times[self.place] -= 1
        self.used.now -= self.size * (not self.used.times[self.place])


def resident(name: str) -> int | None:
    """VmRSS or, at its peak, VmHWM of this process in bytes; None where there is no /proc."""
    try:
        lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(name)), None)


# ---- all runs


def play(
    recipes: Iterable[str], task: str = "sorting", seeds: Iterable[int] = range(3), budget: int = 60_000, rates=None
) -> list[dict]:
    """A small league here and now, without a search: `rates` by recipe, or else the middle one of the task."""
    recipes, seeds, work = list(recipes), list(seeds), replace(known(task), budget=budget)
    middle = work.rates[len(work.rates) // 2]
    chosen = dict.fromkeys(recipes, middle) | dict(rates or {}) | {UNTRAINED: 0.0}
    jobs = [make_job(work, task, recipe, seed, chosen[recipe]) for recipe in [UNTRAINED, *recipes] for seed in seeds]
    return [run(job) for job in tqdm(jobs, desc=work.title, unit="run", leave=False)]


def known(task: str) -> Work:
    if task not in WORK:
        raise ValueError(f"task={task!r} is unknown; expected one of {', '.join(WORK)}")
    return WORK[task]


def search_jobs(work: Work, task: str, recipes: list[str]) -> list[Job]:
    """Every rate with every recipe."""
    seeds = range(SEARCH_SEED, SEARCH_SEED + work.search_seeds)
    return [make_job(work, task, *each, "search") for each in product(recipes, seeds, work.rates)]


def league_jobs(work: Work, task: str, recipes: list[str], rates: dict[tuple[str, str], float]) -> list[Job]:
    """Every seed with every recipe at its rate, and without any training."""
    chosen = {UNTRAINED: 0.0} | {recipe: rates[task, recipe] for recipe in recipes}
    return [make_job(work, task, recipe, seed, chosen[recipe]) for recipe in chosen for seed in range(work.seeds)]


def chosen_rates(rows: list[dict]) -> dict[tuple[str, str], float]:
    """For each task and recipe the rate with the best mean accuracy in the search; the lowest of equal ones."""
    found: dict[tuple, list[float]] = {}
    for row in rows:
        if row["stage"] == "search":
            found.setdefault((row["task"], row["recipe"], row["rate"]), []).append(row["sampled"])
    best: dict[tuple[str, str], float] = {}
    for task, recipe, rate in sorted(found, key=lambda each: (fmean(found[each]), -each[2])):
        best[task, recipe] = rate
    return best


def play_all(tasks: list[str], recipes: list[str], file: Path, workers: int = 2, quick: bool = False) -> list[dict]:
    """The whole league: first the search, then the runs that count. What `file` has already is not run again."""
    works = {task: quickly(known(task)) if quick else known(task) for task in tasks}
    searches = [job for task, work in works.items() for job in search_jobs(work, task, recipes)]
    searched = finished(searches, file, "rates", workers)
    rates = chosen_rates(searched)
    jobs = [job for task, work in works.items() for job in league_jobs(work, task, recipes, rates)]
    return searched + finished(jobs, file, "league", workers)


def finished(jobs: list[Job], file: Path, label: str, workers: int) -> list[dict]:
    """A row for each job: those in the file, and the others as they end, each appended at once."""
    done = {key(row): row for row in lines(file)}
    open_jobs = [job for job in jobs if key(asdict(job)) not in done]
    file.parent.mkdir(parents=True, exist_ok=True)
    pool = ThreadPoolExecutor(max(1, workers))
    try:
        futures = [pool.submit(in_its_own_process, job) for job in open_jobs]
        with tqdm(total=len(jobs), initial=len(jobs) - len(open_jobs), desc=label, unit="run") as bar:
            for future in as_completed(futures):
                row = future.result()
                with file.open("a", encoding="utf-8") as grown:
                    grown.write(json.dumps(row) + "\n")
                done[key(row)] = row
                bar.set_postfix_str(f"{row['recipe']}, {row['task']}: {row['sampled']:.0%}", refresh=False)
                bar.update()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in active_children():
            process.terminate()
        pool.shutdown()
    return [done[key(asdict(job))] for job in jobs]


def key(row: dict) -> tuple:
    """What tells one run from another."""
    return tuple(row[name] for name in Job.__dataclass_fields__)


def lines(file: Path) -> list[dict]:
    """The rows of a file that grows; a last line that was cut off is taken out of it, so that the next one is whole."""
    if not file.exists():
        return []
    text = file.read_text("utf-8")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        file.write_text(whole, "utf-8")
    return [json.loads(line) for line in whole.splitlines()]


def in_its_own_process(job: Job) -> dict:
    """The job's row from a fresh process, whose peak of memory is the job's own."""
    context = get_context("spawn" if sys.platform == "win32" else "forkserver")
    if sys.platform != "win32":
        context.set_forkserver_preload(PRELOAD)
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=send_row, args=(theirs, job), daemon=True)
    process.start()
    theirs.close()
    try:
        return ours.recv()
    except EOFError:
        process.join()
        raise RuntimeError(f"{job} ended without a result; its exit code is {process.exitcode}") from None
    finally:
        process.join()


def send_row(pipe, job: Job) -> None:
    """One thread, since the tensors are small; Ctrl-C is the parent's to answer."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    pipe.send(run(job))


# ---- what came of it

COLUMNS: dict[str, Callable] = {
    "stage": str,
    "task": str,
    "recipe": str,
    "seed": int,
    "rate": float,
    "sampled": float,
    "greedy": float,
    "length": float,
    "budget": int,
    "tokens": int,
    "rollouts": int,
    "steps": int,
    "seconds": float,
    "counted_mb": float,
    "grown_mb": float,
    "samples": int,
    "settings": str,
    "broken": str,
}
NOTE = """\
Accuracy: share of held-out prompts answered right, in %, mean over the seeds ± its 95 % interval; sorted by the
sampled one.{heart}{search} Length: mean response in tokens, after training. Tokens/s: sampled tokens by CPU seconds
of the whole training, on one thread. Memory: counted, at its most: weights, gradients, Adam's moments, the reference,
and what backward passes keep; in brackets the measured growth of the process, caches and gaps included, where the
system tells. Equal budgets of tokens are not equal numbers of steps: methods for fresh responses take one on each
rollout, others {steps}. Constants are those of the recipes: VAPO's λ = 1 − 1/(α·length) is made for long responses,
and here, up to 1/α = 20 tokens, it is 0; its critic learns alone for ten rollouts, which count. Parts of a reward for
length apply where responses end by themselves."""
HEART = " Answers of any length are learned by heart: there the prompts are those of the training."
SEARCH = (
    " Rate: for each recipe the best of three, in a search with other seeds and, where prompts are held out, others of "
    "these."
)


def write(rows: list[dict], path: Path) -> None:
    """One line a run, in a fixed order."""
    order = [UNTRAINED, *RECIPES]
    rows = sorted(
        rows, key=lambda row: (row["stage"], row["task"], order.index(row["recipe"]), row["seed"], row["rate"])
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        table.writeheader()
        for row in rows:
            table.writerow(
                {name: f"{row[name]:.6g}" if isinstance(row[name], float) else row[name] for name in COLUMNS}
            )


def read(path: Path | str | None = None) -> list[dict]:
    """The rows that `write` wrote, by default those of the last whole league; None where nothing was measured."""
    path = RESULTS if path is None else Path(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no league at {path}; make league plays one")
    with path.open(encoding="utf-8", newline="") as file:
        return [{name: parsed(name, text) for name, text in row.items()} for row in csv.DictReader(file)]


def parsed(name: str, text: str):
    kind = COLUMNS[name]
    return kind(text) if text or kind is str else None


def standings(rows: list[dict], task: str) -> list[dict]:
    """One entry a recipe, the best first: its rate, and each number as (mean, half of the 95 % interval)."""
    found: dict[str, list[dict]] = {}
    for row in rows:
        if row["task"] == task and row["stage"] == "league":
            found.setdefault(row["recipe"], []).append(row | {"speed": row["tokens"] / max(row["seconds"], 1e-9)})
    measured = ("sampled", "greedy", "length", "speed", "counted_mb", "grown_mb", "steps")
    entries = [
        {
            "recipe": recipe,
            "rate": runs[0]["rate"],
            "runs": len(runs),
            "broken": sum(bool(run["broken"]) for run in runs),
        }
        | {name: over_seeds([run[name] for run in runs]) for name in measured}
        for recipe, runs in found.items()
    ]
    return sorted(entries, key=lambda entry: -entry["sampled"][0])


def over_seeds(values: list[float | None]) -> tuple[float, float]:
    """Mean and half of its interval over what was measured; nan where nothing was."""
    found = [value for value in values if value is not None]
    mean, half = mean_interval(found) if found else (math.nan, math.nan)
    return float(mean), float(half)


def tasks_of(rows: list[dict]) -> list[str]:
    """The tasks that were played, in the order of `WORK`."""
    played = {row["task"] for row in rows}
    return [task for task in WORK if task in played]


def table(rows: list[dict]) -> str:
    """All tasks in Markdown, one table each, and what the columns mean."""
    tasks = tasks_of(rows)
    steps = " or ".join(f"{each}" for each in sorted({WORK[task].settings["inner_steps"] for task in tasks}))
    searched = any(row["stage"] == "search" for row in rows)
    note = NOTE.format(heart=HEART * ("lengths" in tasks), search=SEARCH * searched, steps=steps)
    return "\n\n".join([*(task_table(rows, task) for task in tasks), fill(note, 118)])


def task_table(rows: list[dict], task: str) -> str:
    """One task's recipes, sorted by their sampled accuracy on held-out prompts."""
    entries = standings(rows, task)
    budget = max(row["budget"] for row in rows if row["task"] == task)
    heads = ["recipe", "sampled, %", "greedy, %", "rate", "length", "steps", "tokens/s", "memory, MB"]
    found = [heads, ["---", *["--:"] * (len(heads) - 1)], *map(cells, entries)]
    title = f"**{WORK[task].title}**: {budget:,} sampled tokens a run, {entries[0]['runs']} runs each"
    return "\n".join([title, "", *(f"| {' | '.join(line)} |" for line in found)])


def cells(entry: dict) -> list[str]:
    """What a recipe says in each column."""
    broken = f" ({entry['broken']} broke off)" * bool(entry["broken"])
    accuracy = [percent(*entry[how]) for how in ("sampled", "greedy")]
    length = f"{entry['length'][0]:.1f}"
    if entry["recipe"] == UNTRAINED:
        return [f"*{UNTRAINED}*", *accuracy, "–", length, "0", "–", "–"]
    memory, grown = entry["counted_mb"][0], entry["grown_mb"][0]
    memory = f"{memory:.3g}" + (f" ({grown:.0f})" if grown >= 0 and memory > 5 else "")
    speed, steps = f"{entry['speed'][0]:,.0f}", f"{entry['steps'][0]:,.0f}"
    return [f"`{entry['recipe']}`{broken}", *accuracy, f"{entry['rate']:g}", length, steps, speed, memory]


def percent(mean: float, half: float) -> str:
    """In %, with its interval where there is one."""
    return f"{100 * mean:.1f}" + ("" if math.isnan(half) else f" ± {100 * half:.1f}")


def kind(name: str) -> str:
    """What a recipe takes for a baseline, as the picture calls it."""
    recipe = find(name)
    if recipe.critic is not None:
        return "critic"
    return "no baseline" if recipe.config().delta == "raw" else "group as baseline"


def draw(rows: list[dict], figure=None):
    """A panel a task: each recipe's accuracy with its interval, greedy beside it, and a line for no training."""
    import matplotlib.pyplot as plt

    tasks = tasks_of(rows)
    found = {task: {entry["recipe"]: entry for entry in standings(rows, task)} for task in tasks}
    recipes = [name for name in RECIPES if any(name in entries for entries in found.values())]
    recipes.sort(key=lambda name: fmean(found[task][name]["sampled"][0] for task in tasks if name in found[task]))
    size = (6 + len(tasks), 1.3 + 0.3 * len(recipes))
    figure = plt.figure(figsize=size, layout="constrained") if figure is None else figure
    axes = figure.subplots(1, len(tasks), sharey=True, squeeze=False)[0]
    for ax, task in zip(axes, tasks, strict=True):
        panel(ax, found[task], recipes)
        ax.set_title(WORK[task].title, fontsize="medium", loc="left")
    axes[0].set_yticks(range(len(recipes)), [find(name).title for name in recipes])
    entries = {label: handle for ax in axes for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    look = {"ncols": 5, "frameon": False, "fontsize": "small", "columnspacing": 1.2, "handletextpad": 0.4}
    figure.legend(entries.values(), entries.keys(), loc="outside upper center", **look)
    figure.supxlabel("answered right, %: sampled, with 95 % interval, and greedy", fontsize="medium")
    return figure


def panel(ax, entries: dict[str, dict], recipes: list[str]) -> None:
    """One task's accuracies, a row for each recipe."""
    from minirl.plotting import BLACK, BLUE, GREEN, ORANGE

    looks = {"group as baseline": (BLUE, "o"), "critic": (ORANGE, "s"), "no baseline": (GREEN, "^")}
    for place, name in enumerate(recipes):
        if name in entries:
            (mean, half), (color, marker) = entries[name]["sampled"], looks[kind(name)]
            greedy = entries[name]["greedy"][0]
            ax.errorbar(100 * mean, place, xerr=100 * half, color=color, fmt=marker, capsize=3, label=kind(name))
            ax.plot(100 * greedy, place + 0.28, "|", color=BLACK, markersize=7, label="greedy")
    if UNTRAINED in entries:
        start = 100 * entries[UNTRAINED]["sampled"][0]
        ax.axvline(start, color="grey", linestyle="--", linewidth=1, label="untrained")
    ax.grid(visible=True, axis="x", alpha=0.25)
    ax.set(xlim=(-3, 103), ylim=(-0.6, len(recipes) - 0.3))


# ---- the command


def main(arguments: list[str] | None = None) -> None:
    """`python -m minirl.league`: play, print the table, write the CSV and the picture."""
    options = parsed_options(arguments)
    out, name = (options.out, "league") if not options.quick else (options.out or Path("runs"), "league-quick")
    file, results = Path("runs") / f"{name}.jsonl", RESULTS if out is None else out / f"{name}.csv"
    try:
        rows = play_all(options.tasks, options.recipes, file, options.workers, options.quick)
    except KeyboardInterrupt:
        print(f"minirl: stopped by hand; {file} keeps what is done, and the same command goes on", file=sys.stderr)
        sys.exit(130)
    played = {(row["task"], row["recipe"]) for row in rows}
    others = read(results) if results.exists() else []
    rows += [row for row in others if (row["task"], row["recipe"]) not in played]
    write(rows, results)
    picture = save_picture(rows, PICTURE if out is None else out / f"{name}.png")
    file.unlink(missing_ok=True)  # the next league starts anew
    print(f"\n{table(rows)}\n\n{results} has every run; the picture: {picture}")


def parsed_options(arguments: list[str] | None) -> argparse.Namespace:
    """The options of the command line; a recipe or task that is not there is refused in a sentence, exit code 2."""
    parser = argparse.ArgumentParser("minirl.league", description="Every recipe on the same work with the same budget.")
    parser.add_argument("--quick", action="store_true", help="a twentieth of the budget, two seeds, into runs/")
    parser.add_argument("--tasks", nargs="+", default=[*WORK], metavar="TASK", help=", ".join(WORK))
    parser.add_argument("--recipes", nargs="+", default=[*RECIPES], metavar="RECIPE", help=", ".join(RECIPES))
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes at once")
    parser.add_argument("--out", type=Path, help="folder for table and picture, instead of the project's own places")
    options = parser.parse_args(arguments)
    try:
        for check, names in ((known, options.tasks), (find, options.recipes)):
            for each in names:
                check(each)
    except ValueError as error:
        parser.exit(2, f"minirl: {error}\n")
    return options


def save_picture(rows: list[dict], path: Path) -> Path:
    from minirl import plotting

    plotting.plt.switch_backend("Agg")
    plotting.style()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure = draw(rows)
    figure.savefig(path, dpi=150)
    plotting.plt.close(figure)
    return path


if __name__ == "__main__":
    from minirl import league  # so that what the workers are sent has one name

    league.main()
