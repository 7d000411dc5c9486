"""What `minirl train` and `minirl eval` run: settings chosen or read back, policy and task built, progress watched.

Settings are one flat dict, the content of config.json: the task's own, `checkpoint_every`, and Config's.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, fields
from itertools import chain
from pathlib import Path

from minirl.llm import runs as language
from minirl.runs import PACKAGES, Refused, create, last_epoch, versions, write
from minirl.runs import settings as saved_settings

TASKS = ("sorting", *language.TASKS)
SORTING = ("reward", "vocab_size", "length", "held_out", "dim", "init_scale")
LANGUAGE_CHECKPOINT_EVERY = 5
EVALUATED = ("model", "data", "steps", "prompt", "max_new_tokens", "temperature", "judge")


def chosen(options: dict, given: set[str]) -> dict:
    """Settings of a new run: what was given, and for the rest what suits its task."""
    from minirl.train import Config

    if (task := options["task"]) not in TASKS:
        raise ValueError(f"task={task!r} is unknown; expected one of {', '.join(TASKS)}")
    own, foreign = (SORTING, language.names()) if task == "sorting" else (language.names(), {*SORTING})
    if wrong := sorted(given & set(foreign) - {"task"}):
        raise ValueError(f"{option(wrong[0])} does not go with the task {task}; leave it out")
    settings = {"task": task} | {name: options[name] for name in own}
    recipe, own = with_recipe(options["recipe"], task)
    config = {field.name: options[field.name] for field in fields(Config)}
    defaults = {"checkpoint_every": options["checkpoint_every"]}
    if task != "sorting":
        defaults = {"checkpoint_every": LANGUAGE_CHECKPOINT_EVERY, **language.training_defaults(options["model"])}
    defaults |= own
    return settings | config | defaults | {name: options[name] for name in given & {*defaults}} | recipe


def name(settings: dict) -> str:
    """What a run's folder is called unless it is given a name."""
    return f"{settings['task']}-{settings['recipe'] or settings['delta']}-seed{settings['seed']}"


def with_recipe(name: str | None, task: str) -> tuple[dict, dict]:
    """A recipe's name and critic, and the settings that it brings, which the command line may override.

    Its reward for length is for responses that end by themselves, so not for sorting. Problems in words pay a bit for
    the format too: what a method imitates must have earned more.
    """
    if name in (None, "none"):
        return {"recipe": None, "critic": None}, {}
    from minirl.recipes import find

    recipe = find(name)
    parts = {f"reward_{part}": weight for part, weight in recipe.reward.items() if task != "sorting"}
    if recipe.settings.get("positive_weight") and task != "sorting":
        parts["positive_above"] = 0.5
    return {"recipe": name, "critic": recipe.critic and dict(recipe.critic)}, {**recipe.settings, **parts}


def resumed(run: Path, options: dict, given: set[str]) -> dict:
    """Settings of a run that goes on: those of its config.json, with as many epochs as are asked for now."""
    if wrong := sorted(given - {"resume", "epochs"}):
        raise ValueError(f"a resumed run keeps its settings, so leave out {', '.join(map(option, wrong))}")
    return saved_settings(run) | {name: options[name] for name in given & {"epochs"}}


def option(name: str) -> str:
    return "--" + name.replace("_", "-")


def prepare(settings: dict) -> "Job":
    """The job that these settings describe, ready to start."""
    from minirl.train import Config

    rest = dict(settings)
    try:
        added = {name: rest.pop(name, None) for name in ("recipe", "critic")}
        later = {field.name: field.default for field in fields(Config) if field.name not in rest}  # than an older run
        config = Config(**later, **{field.name: rest.pop(field.name) for field in fields(Config) if field.name in rest})
        every = rest.pop("checkpoint_every")
        if rest["task"] == "sorting":
            return SortingJob(config, every, added, **{name: rest[name] for name in SORTING})
        wanted = language.Settings(**rest)
    except (KeyError, TypeError) as error:
        raise ValueError(f"these are not the settings of a run: {error}") from error
    return LanguageJob(config, every, added, wanted)


class Watch:
    """What is said of an epoch besides its metrics; this one says what fits any task."""

    done = 0  # epochs before this process
    every = 0  # epochs between checkpoints

    def described(self, metrics: dict) -> dict:
        """What goes into metrics.jsonl."""
        return metrics

    def glance(self, metrics: dict) -> dict[str, str]:
        """What the progress bar shows."""
        return {name: f"{metrics[name]:.2f}" for name in ("reward_mean", "held_out_exact") if name in metrics}

    def notices(self, metrics: dict) -> list[str]:
        """Sentences for who watches."""
        return []

    def due(self, epoch: int) -> bool:
        """Whether a checkpoint follows this epoch."""
        return False


class Job(Watch):
    """A policy, its task, and how far its training is. Checkpoints go into the run's folder `checkpoints`."""

    packages = PACKAGES

    def __init__(self, config, every: int, added: dict, policy, body, task, settings: dict):
        from minirl.train import State

        self.config, self.every, self.policy, self.task = config, every, policy, task
        self.settings = {**settings, **added, "checkpoint_every": every, **asdict(config)}
        self.critic = self.make_critic(body, added["critic"])
        self.state = State(policy, config, critic=self.critic)
        self.said: list[str] = []  # sentences that were not yet passed on

    def make_critic(self, body, settings: dict | None):
        """A value head on a copy of `body`, which learns at the policy's rate; None where the method has none."""
        if settings is None:
            return None
        from minirl.critic import Critic

        shared = {"learning_rate": self.config.learning_rate, "rows_per_pass": self.config.micro_batch_size}
        return Critic(body, **{**shared, **settings})

    def go_on(self, run: Path) -> None:
        """Take up the newest checkpoint of the run, or its beginning where none was due yet."""
        from minirl import checkpoint

        if checkpoint.checkpoints(run / "checkpoints"):
            self.state = checkpoint.load(run / "checkpoints", self.policy, self.config, self.critic)
        else:
            self.start_over(run)
        self.done = self.state.epoch
        if self.done >= self.config.epochs:
            raise ValueError(f"{run} has all its {self.config.epochs} epochs; ask for more with --epochs")

    def start_over(self, run: Path) -> None:
        """Say that the epochs of a run come again; ValueError where that would lose more than was still to be saved."""
        last = last_epoch(run)
        if last > self.every or last >= saved_settings(run)["epochs"]:
            raise ValueError(f"{run} has {last} epochs and no checkpoint to go on from; start a new run")
        if last:
            self.said = [*self.said, f"{run} has no checkpoint yet, so it starts over from epoch 1"]

    def notices(self, metrics: dict) -> list[str]:
        said, self.said = self.said, []
        return said

    def start(self) -> Iterator[dict]:
        from minirl.train import train

        return train(self.policy, self.task, self.config, resume_from=self.state)

    def due(self, epoch: int) -> bool:
        return self.every > 0 and (epoch % self.every == 0 or epoch == self.config.epochs)

    def save(self, run: Path) -> None:
        from minirl import checkpoint

        checkpoint.save(run / "checkpoints", self.policy, self.state, self.config)


class SortingJob(Job):
    """The lecture's toy, on one thread: its tensors are tiny, and threads would mostly wait for each other."""

    def __init__(self, config, every: int, added: dict, reward, vocab_size, length, held_out, dim, init_scale):
        import torch

        from minirl import SortingPolicy, SortingTask
        from minirl.critic import PrefixReader
        from minirl.sorting import REWARDS

        torch.set_num_threads(1)
        if reward not in REWARDS:
            raise ValueError(f"reward={reward!r} is unknown; expected one of {', '.join(REWARDS)}")
        policy = SortingPolicy(vocab_size, length, dim, init_scale, seed=config.seed)
        task = SortingTask(REWARDS[reward], vocab_size, length, held_out)
        made_of = dict(zip(SORTING, (reward, vocab_size, length, held_out, dim, init_scale), strict=True))
        body = PrefixReader(vocab_size, length, length, seed=config.seed)
        super().__init__(config, every, added, policy, body, task, {"task": "sorting", **made_of})

    def start(self) -> Iterator[dict]:
        """With the first epoch behind it, so that settings which do not fit together are known by now."""
        epochs = super().start()
        return chain([next(epochs)], epochs)


class LanguageJob(Job):
    """A language model on problems in words."""

    packages = language.PACKAGES

    def __init__(self, config, every: int, added: dict, wanted: language.Settings):
        critic = added["critic"] is not None
        (policy, task, wanted), said = language.plainly(language.build, wanted, config, critic)
        self.told: set[str] = set()
        super().__init__(config, every, added, policy, policy, task, asdict(wanted))
        self.said = said

    def go_on(self, run: Path) -> None:
        super().go_on(run)
        self.task.epoch = self.done

    def described(self, metrics: dict) -> dict:
        self.task.epoch = metrics["epoch"]  # for a reward that comes late
        return language.with_checks(metrics, self.task)

    def glance(self, metrics: dict) -> dict[str, str]:
        return language.glance(metrics)

    def notices(self, metrics: dict) -> list[str]:
        return super().notices(metrics) + language.missing_signal(metrics, self.told)


class Evaluation:
    """A model or a run's newest checkpoint on test problems, in a folder that grows and can be gone on with."""

    def __init__(self, options: dict, given: set[str]):
        from minirl.llm import evaluation

        run = options["run"]
        self.ks = evaluation.parse_ks(options["k"], options["samples"])
        wanted = language.evaluated(options, given, saved_settings(run) if run else {})
        chosen = {name: options[name] for name in ("samples", "batch_size", "seed")}
        built = language.build_evaluation, wanted, options["problems"], chosen["batch_size"], chosen["samples"]
        (self.policy, self.task, self.problems, wanted), self.said = language.plainly(*built)
        checkpoint = language.load_newest(self.policy, run) if run else None
        self.settings = {"task": wanted.task} | {name: getattr(wanted, name) for name in EVALUATED}
        self.settings |= {"run": run and str(run), "checkpoint": checkpoint, "problems": len(self.problems), **chosen}
        here = run / f"eval-{checkpoint}" if run else Path("evals") / f"{wanted.task}-{Path(wanted.model).name}"
        self.folder = options["out"] or here
        self.model = f"{checkpoint} of {run}" if run else wanted.model

    def records(self) -> Iterator[dict]:
        """A record a problem, of the folder's first; another evaluation's folder is refused."""
        from minirl.llm import evaluation

        if not self.folder.exists():
            create(self.folder, self.settings, language.PACKAGES)
        elif saved_settings(self.folder) != self.settings:
            raise Refused(f"{self.folder} holds another evaluation and was left as it is; name another with --out")
        how = [self.settings[name] for name in ("samples", "batch_size", "seed")]
        return evaluation.evaluate(self.policy, self.task, self.problems, *how, self.folder / "samples.jsonl")

    def report(self, records: list[dict]) -> str:
        """Write eval.json, and say what is in it."""
        from minirl.llm import evaluation

        found = evaluation.summary(records, self.ks, self.task.judge)
        content = {"settings": self.settings, "versions": versions(language.PACKAGES), **found}
        write(self.folder / "eval.json", json.dumps(content, indent=2) + "\n")
        return (
            f"{self.settings['task']}, {len(records)} problems, {self.model}, prompt {self.settings['prompt']}\n"
            f"{evaluation.table(found, self.task.judge)}\n{self.folder} holds eval.json and samples.jsonl"
        )
