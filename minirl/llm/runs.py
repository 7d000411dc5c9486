"""A language run put together from its settings: problems, prompt, reward and model, and what to watch while it runs.

Nothing here imports torch or transformers before a run is built, so that the command line answers at once.
"""

import os
import re
import warnings
from dataclasses import dataclass, fields, replace
from pathlib import Path

from minirl.llm import pocket
from minirl.llm.prompts import PROMPTS

TASKS = ("word-problems", "gsm8k")
PACKAGES = ("minirl", "torch", "transformers")
SMALL = tuple(pocket.NAMES)
TRAINING = {
    "epochs": 20,
    "inner_steps": 1,
    "batch_size": 32,
    "group_size": 8,
}  # where Config's defaults are for sorting
LEARNING_RATES = {"small": 1e-3, "other": 1e-6}
CHECKS = ("strict", "lenient", "boxed", "format")
NEW_TOKENS = {"word-problems": 128, "gsm8k": 512}
TRAIN_PROBLEMS, TEST_PROBLEMS = 4096, 200  # word problems: the same ones in every run, whatever its seed


@dataclass(frozen=True)
class Settings:
    """What a language run is made of. Where None is allowed, the task, the model or the prompt decides."""

    task: str
    model: str = "pocket"  # which one: pocket, pocket-clean, a folder with safetensors, or a name on the hub
    data: str | None = None  # for gsm8k: the folder with train.jsonl and test.jsonl; none: MINIRL_GSM8K, or ask the hub
    steps: str = "1-4"  # for word-problems: the fewest and the most steps of a problem
    prompt: str | None = None  # one of r1-zero, chat, boxed, turn, question; none: turn, or for gsm8k chat
    max_new_tokens: int | None = None  # length at which a response is cut; none: 128 for word-problems, 512 for gsm8k
    temperature: float = 1.0  # of the distribution that is sampled, and scored
    reward_strict: float | None = None  # for the right number, strictly marked; none for all: 1, and 0.2 for the format
    reward_lenient: float | None = None  # for the right number, however it is written
    reward_boxed: float | None = None  # for the right number in \\boxed{}; with the prompt boxed: 1, the others 0
    reward_format: float | None = None  # for thinking and then an answer, both in their tags, right or wrong
    reward_overlong: float = 0.0  # weight of DAPO's penalty over the last fifth of max_new_tokens
    reward_length: float = 0.0  # weight of Kimi k1.5's reward for short right answers
    length_from: int | None = None  # epoch after which reward_length counts, since early it stalls; none: half-way
    judge: str | None = None  # check that counts as correct; none: boxed with the prompt boxed, else strict
    held_out_problems: int = 100  # problems of each evaluation during training; minirl eval takes all
    gradient_checkpointing: bool = False  # keep less for the backward pass and compute it again: saves memory

    def __post_init__(self):
        choices = {"task": TASKS, "prompt": tuple(PROMPTS), "judge": CHECKS}
        for name, known in choices.items():
            if getattr(self, name) not in (*known, None):
                raise ValueError(f"{name}={getattr(self, name)!r} is unknown; expected one of {', '.join(known)}")
        if self.max_new_tokens is not None and self.max_new_tokens < 1:
            raise ValueError(f"max_new_tokens must be at least 1; got {self.max_new_tokens}")
        if not re.fullmatch(r"[1-8]-[1-8]", self.steps):
            raise ValueError(f"steps are the fewest and the most of a problem, such as 1-4 or 5-7; got {self.steps!r}")
        if self.data is not None and self.task != "gsm8k":
            raise ValueError(f"data={self.data!r} is for gsm8k; word-problems are told from a seed")


def training_defaults(model: str) -> dict:
    """Settings of Config that suit a language run: one step on each rollout, and a rate for the model's size."""
    return TRAINING | {"learning_rate": LEARNING_RATES["small" if model in SMALL else "other"]}


def resolved(settings: Settings, has_template: bool) -> Settings:
    """Every None decided, so that the run's file says what was done; local paths hold from any folder."""
    plain, dressed = {"word-problems": ("question", "turn"), "gsm8k": ("r1-zero", "chat")}[settings.task]
    prompt = settings.prompt or (dressed if has_template else plain)
    weights = {f"reward_{check}": getattr(settings, f"reward_{check}") for check in CHECKS}
    if all(weight is None for weight in weights.values()):
        weights |= {"reward_boxed": 1.0} if prompt == "boxed" else {"reward_strict": 1.0, "reward_format": 0.2}
    data = settings.data or (os.environ.get("MINIRL_GSM8K") if settings.task == "gsm8k" else None) or None
    return replace(
        settings,
        prompt=prompt,
        max_new_tokens=NEW_TOKENS[settings.task] if settings.max_new_tokens is None else settings.max_new_tokens,
        judge=settings.judge or ("boxed" if prompt == "boxed" else "strict"),
        model=settings.model if settings.model in SMALL else from_anywhere(settings.model),
        data=data and from_anywhere(data),
        **{name: weight or 0.0 for name, weight in weights.items()},
    )


def from_anywhere(name: str) -> str:
    """The whole path of what lies here, and any other name as it is."""
    path = Path(name).expanduser()
    return str(path.resolve()) if path.exists() else name


def weights(settings: Settings) -> dict[str, float]:
    """The checks that earn something."""
    found = {check: getattr(settings, f"reward_{check}") for check in CHECKS}
    return {check: weight for check, weight in found.items() if weight}


def problems(settings: Settings, split: str) -> list:
    """The training problems, or the "test" ones: GSM8K's, or a fixed set of word problems."""
    if settings.task == "gsm8k":
        from minirl.llm.gsm8k import load

        return load(split, settings.data)
    from minirl.llm.word_problems import generate

    fewest, most = map(int, settings.steps.split("-"))
    if split == "train":
        return generate(TRAIN_PROBLEMS, seed=0, steps=(fewest, most))
    return generate(TEST_PROBLEMS, seed=0, steps=(fewest, most), split="held_out")


def peek(name: str):
    """A model's shape and its tokenizer, before its weights are read."""
    from transformers import AutoConfig, AutoTokenizer

    from minirl.llm.policy import load

    source, local = pocket.located(name)
    try:
        return (
            AutoConfig.from_pretrained(source, local_files_only=local),
            AutoTokenizer.from_pretrained(source, local_files_only=local),
        )
    except (OSError, ValueError):
        load(name)  # which says in one sentence what is missing
        raise


def build(settings: Settings, config, critic: bool = False):
    """Policy and task of a training run, and its settings with nothing left open; refused before weights are read.

    ValueError for settings that do not fit together, OSError for what is not there, MemoryError for what is too large.
    """
    import torch

    from minirl.config import DELTAS
    from minirl.llm.task import LanguageTask
    from minirl.shaping import PARTS, Shaped

    DELTAS[config.delta](torch.zeros(1, config.group_size))  # refuses a group of one now, not after the first epoch
    model, tokenizer = peek(settings.model)
    settings = resolved(settings, bool(tokenizer.chat_template))
    if settings.data and Path(settings.data).is_file():
        raise ValueError(f"{settings.data} is one file; training needs a folder with train.jsonl and test.jsonl")
    task = LanguageTask(
        tokenizer,
        problems(settings, "train"),
        problems(settings, "test"),
        PROMPTS[settings.prompt],
        weights(settings),
        settings.judge,
        settings.held_out_problems,
    )
    if parts := {name: weight for name in PARTS if (weight := getattr(settings, f"reward_{name}"))}:
        settings = replace(settings, length_from=late(settings, config))
        task = Shaped(task, parts, settings.max_new_tokens, length_from=settings.length_from)
    task.sample(config.batch_size, torch.Generator())
    longest = task.encode([*task.train, *task.test]).prompts.shape[1]
    refuse_if_too_large(model, settings, longest, config, critic)
    return open_policy(settings, longest), task, settings


def late(settings: Settings, config) -> int:
    """The epoch after which the reward for length counts."""
    return config.epochs // 2 if settings.length_from is None else settings.length_from


def refuse_if_too_large(model, settings: Settings, longest: int, config, critic: bool = False) -> None:
    """MemoryError with the numbers where the run will not fit into what is free."""
    from minirl.llm import memory

    device = best_device()
    work = memory.Workload(
        config.batch_size,
        config.group_size,
        longest,
        settings.max_new_tokens,
        config.micro_batch_size,
        settings.held_out_problems,
        reference=bool(config.beta or config.reference_every),
        critic=critic,
        checkpointing=settings.gradient_checkpointing,
        bfloat16=device.type == "cuda",
    )
    memory.refuse_if_too_large(model, work, memory.available(device))


def build_evaluation(settings: Settings, limit: int | None, batch_size: int, samples: int):
    """Policy, task and problems of an evaluation, and its settings with nothing left open; refused as `build` does."""
    from minirl.llm import memory
    from minirl.llm.task import LanguageTask

    model, tokenizer = peek(settings.model)
    settings = resolved(settings, bool(tokenizer.chat_template))
    test = problems(settings, "test")[:limit]
    task = LanguageTask(tokenizer, test, test, PROMPTS[settings.prompt], judge=settings.judge)
    longest, device = task.held_out().prompts.shape[1], best_device()
    work = memory.Workload(
        batch_size,
        max(1, samples),
        longest,
        settings.max_new_tokens,
        training=False,
        bfloat16=device.type == "cuda",
    )
    memory.refuse_if_too_large(model, work, memory.available(device))
    return open_policy(settings, longest), task, test, settings


def best_device():
    import torch

    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def open_policy(settings: Settings, longest: int):
    """The model with its weights; ValueError where the longest prompt and a response exceed its context.

    A pocket model gets one thread unless OMP_NUM_THREADS says otherwise: on a busy machine, two that wait for each
    other at every small tensor are many times slower than one.
    """
    import torch

    from minirl.llm.memory import checkpoint_layers
    from minirl.llm.policy import load

    if settings.model in SMALL and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)
    policy = load(settings.model, settings.max_new_tokens, temperature=settings.temperature)
    limit = getattr(policy.model.config, "max_position_embeddings", None)
    if limit is not None and longest + settings.max_new_tokens > limit:
        raise ValueError(
            f"the longest prompt has {longest} tokens, and {settings.max_new_tokens} new ones exceed the context of "
            f"{limit}; lower max_new_tokens"
        )
    if settings.gradient_checkpointing:
        checkpoint_layers(policy.model)
    return policy


def plainly(work, *arguments):
    """`work(*arguments)` and the sentences of the warnings that it raised, which would otherwise come with code."""
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always", UserWarning)
        result = work(*arguments)
    for each in raised:
        if each.category is not UserWarning:
            warnings.showwarning(each.message, each.category, each.filename, each.lineno)
    return result, [str(each.message) for each in raised if each.category is UserWarning]


def evaluated(options: dict, given: set[str], run: dict) -> Settings:
    """Settings of an evaluation: what was given, else the run's, else the defaults."""
    if run and run.get("task") not in TASKS:
        raise ValueError(
            f"a run on {run.get('task')} is evaluated while it trains; expected one on {' or '.join(TASKS)}"
        )
    wanted = {name: options[name] for name in names() & {*options}} | {name: run[name] for name in names() & {*run}}
    return Settings(**wanted | {name: options[name] for name in names() & given})


def load_newest(policy, run: Path) -> str:
    """Put the weights of the run's newest checkpoint into the policy; returns the checkpoint's name."""
    from minirl import checkpoint

    path = checkpoint.newest(run / "checkpoints")
    checkpoint.load_weights(path, policy)
    return path.name


def names() -> set[str]:
    """The settings of a language run."""
    return {field.name for field in fields(Settings)}


# ---- while it runs


def with_checks(metrics: dict, task) -> dict:
    """The epoch's metrics with the share of its responses that pass each check: strict_rate, format_rate."""
    return metrics | {f"{check}_rate": share for check, share in task.passed.items()}


def glance(metrics: dict) -> dict[str, str]:
    """What the progress bar shows."""
    seconds = sum(metrics[f"seconds_{part}"] for part in ("sampling", "scoring", "updating"))
    shown = {"reward": f"{metrics['reward_mean']:.2f}", "length": f"{metrics['response_length']:.0f}"}
    if "truncated" in metrics:
        shown["cut"] = f"{metrics['truncated']:.0%}"
    if "held_out_exact" in metrics:
        shown["held out"] = f"{metrics['held_out_exact']:.0%}"
    return shown | {"tokens/s": f"{metrics['sampled_tokens'] / max(seconds, 1e-9):,.0f}"}


MISSING = {
    "tied": (
        lambda metrics: metrics["zero_signal_groups"] == 1,
        "every group is tied, so there is nothing to learn from: use problems that are neither hopeless nor solved, "
        "a larger group_size, or a reward with partial credit",
    ),
    "truncated": (
        lambda metrics: metrics.get("truncated", 0) > 0.2,
        "more than 20 % of the responses were cut before their end: raise max_new_tokens",
    ),
    "format": (
        lambda metrics: metrics.get("format_rate", 1) == 0,
        "no response has the format <think>…</think> <answer>…</answer>: use a prompt that asks for it, or reward what "
        "the model writes with reward_lenient or reward_boxed",
    ),
}


def missing_signal(metrics: dict, told: set[str]) -> list[str]:
    """One sentence for each kind of signal that this epoch lacks and that was not yet `told`."""
    found = [name for name, (lacks, _) in MISSING.items() if name not in told and lacks(metrics)]
    told.update(found)
    return [f"epoch {metrics['epoch']}: {MISSING[name][1]}" for name in found]
