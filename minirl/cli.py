"""`minirl …` on the command line: the demo, a run of one's own, and pictures of runs.

What costs torch's import is imported where it is used, so that help and mistakes are answered at once.
"""

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import Field, asdict, fields
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Annotated, get_args

import typer
from typer import Argument, Option

from minirl.runs import Refused, append, create, make_folder, read

app = typer.Typer(
    no_args_is_help=True, add_completion=False, rich_markup_mode="markdown", pretty_exceptions_enable=False
)


def show_version(wanted: bool | None) -> None:
    if wanted:
        from minirl import __version__

        print(f"minirl {__version__}")
        raise typer.Exit


VERSION = Option("--version", callback=show_version, is_eager=True, help="Print the version and exit.")
RUNS = Argument(metavar="RUN...", help="Folders that minirl train wrote.", show_default=False)


@app.callback()
def minirl(version: Annotated[bool | None, VERSION] = None) -> None:
    """Reinforcement learning for language models, from a two-state bandit to Qwen.

    Start with **minirl demo**. The course itself is in the folder notebooks: **make lab** opens it.
    """


@app.command()
def demo(
    seeds: Annotated[int, Option(min=2, help="Runs with each delta, at least two.")] = 5,
    out: Annotated[Path, Option(help="Folder for the picture.")] = Path("artefacts"),
) -> None:
    """Compare the deltas: train the sorting policy with each, and test it on prompts it has never seen.

    Takes less than a minute. Prints a table, and draws the learning curves to learning_curves.png.
    """
    make_folder(out)
    from minirl import demo as parts

    runs = parts.run_all(seeds)
    print(f"\n{parts.describe(runs)}\n\n{parts.table(runs)}\n")
    print(f"Learning curves: {parts.draw(runs, out / 'learning_curves.png')}")
    print("Now open the course: make lab (where there is no make: jupyter lab notebooks)")


@app.command()
def train(
    task: Annotated[str, Option(metavar="NAME", help="What to learn: sorting.")] = "sorting",
    run: Annotated[Path | None, Option(help="The run's folder.", show_default="runs/sorting-DELTA-seedK")] = None,
    reward: Annotated[str, Option(metavar="NAME", help="A function of minirl.sorting.")] = "position_match",
    vocab_size: Annotated[int, Option(min=1, help="How many different numbers there are.")] = 5,
    length: Annotated[int, Option(min=1, help="How many numbers a prompt has.")] = 3,
    held_out: Annotated[float, Option(help="Share of all prompts that training never sees.")] = 0.2,
    dim: Annotated[int, Option(min=1, help="Width of the policy's embedding.")] = 10,
    init_scale: Annotated[float, Option(help="Scale of its decoding matrices; 1 is the lecture's start.")] = 0.1,
    **settings,
) -> None:
    """Train a policy, and keep the run in a folder of its own.

    The folder gets config.json, with all that is needed to repeat the run, and metrics.jsonl, one line an epoch,
    written as the epoch ends. Ctrl-C ends a run early and keeps what is done. Draw it with **minirl plot**.
    """
    from minirl import Config

    made_of = {"task": task, "reward": reward, "vocab_size": vocab_size, "length": length, "held_out": held_out}
    made_of |= {"dim": dim, "init_scale": init_scale}
    try:
        config = Config(**settings)
        run = run or Path("runs") / f"{task}-{config.delta}-seed{config.seed}"
        if run.exists():
            make_folder(run, new=True)
        epochs = start(config, **made_of)
    except ValueError as error:
        raise Refused(str(error)) from error
    create(run, {**made_of, **asdict(config)})
    record(epochs, config.epochs, run)


def start(config, task, reward, vocab_size, length, held_out, dim, init_scale) -> Iterator[dict]:
    """A run that has its first epoch behind it, so that settings which do not fit together are known by now."""
    import torch

    from minirl import SortingPolicy, SortingTask
    from minirl.sorting import REWARDS
    from minirl.train import train

    for name, value, known in [("task", task, ["sorting"]), ("reward", reward, REWARDS)]:
        if value not in known:
            raise Refused(f"{name}={value!r} is unknown; expected one of {', '.join(known)}")
    torch.set_num_threads(1)  # the tensors are tiny: threads would mostly wait for each other
    policy = SortingPolicy(vocab_size, length, dim, init_scale, seed=config.seed)
    epochs = train(policy, SortingTask(REWARDS[reward], vocab_size, length, held_out), config)
    return chain([next(epochs)], epochs)


def record(epochs: Iterator[dict], total: int, run: Path) -> None:
    """Write each epoch as it comes, with a progress bar, and say at the end what there is."""
    from tqdm import tqdm

    shown, done = {}, 0
    try:
        with tqdm(total=total, desc=run.name, unit="epoch") as bar:
            for metrics in epochs:
                append(run, metrics)
                done = metrics["epoch"]
                shown |= {name: f"{metrics[name]:.2f}" for name in ("reward_mean", "held_out_exact") if name in metrics}
                bar.set_postfix(shown, refresh=False)
                bar.update()
    except (KeyboardInterrupt, FloatingPointError) as reason:
        print(
            f"minirl: {str(reason) or 'stopped by hand'}; {run} keeps the first {done} of {total} epochs",
            file=sys.stderr,
        )
        raise typer.Exit(130 if isinstance(reason, KeyboardInterrupt) else 1) from reason
    print(f"{run} holds config.json and metrics.jsonl; draw them with: minirl plot {run}")


@app.command()
def plot(
    runs: Annotated[list[Path], RUNS],
    out: Annotated[Path | None, Option(help="The picture's file.", show_default="curves.png in the first RUN")] = None,
) -> None:
    """Draw runs: reward, held-out accuracy, entropy, gradient norm, and KL where it was measured.

    Several runs share each picture, a line for each.
    """
    histories = {}
    for run in runs:
        histories[str(run)], cut = read(run)
        if cut:
            print(f"minirl: the last line of {run} was cut off and is left out", file=sys.stderr)
    out = out or runs[0] / "curves.png"
    from minirl import plotting

    plotting.plt.switch_backend("Agg")
    plotting.style()
    try:
        plotting.small_multiples(histories).savefig(out, dpi=150)
    except (OSError, ValueError) as error:
        raise Refused(f"cannot draw to {out}: {getattr(error, 'strerror', None) or error}") from error
    print(f"Learning curves: {out}")


def or_none(kind: type) -> Callable:
    """What reads an option's text as `kind`, or as None where the word none says so."""

    def read(text):
        try:
            return None if str(text).lower() == "none" else kind(text)
        except ValueError:
            raise typer.BadParameter(f"{text!r} is neither a valid {kind.__name__} nor none") from None

    return read


def as_option(field: Field, help: str) -> inspect.Parameter:
    """A field of Config as an option of the command line."""
    kind, how = field.type, {"help": help[:1].upper() + help[1:], "rich_help_panel": "Training"}
    if optional := get_args(kind):  # such as float | None
        how |= {"parser": or_none(optional[0]), "metavar": f"<{optional[0].__name__} or none>"}
        kind, how["show_default"] = object, str(field.default).lower()
    annotation = Annotated[kind, Option(**how)]
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=annotation)


@cache
def add_settings(command) -> None:
    """Give a command an option for each field of Config, with the comment beside the field as its help."""
    from minirl.train import AGGREGATIONS, DELTAS, KL, LOSSES, Config

    notes = dict(re.findall(r"^    (\w+): .*?  # (.*)$", inspect.getsource(Config), re.M))
    for name, known in {"delta": DELTAS, "loss": LOSSES, "aggregation": AGGREGATIONS, "kl": KL}.items():
        notes[name] = f"one of {', '.join(known)}"
    signature = inspect.signature(command)
    own = [parameter for parameter in signature.parameters.values() if parameter.kind is not parameter.VAR_KEYWORD]
    added = [as_option(field, notes.get(field.name, "")) for field in fields(Config)]
    command.__signature__ = signature.replace(parameters=[*own, *added])


def main(arguments: list[str] | None = None) -> None:
    """Run a command; what the user can mend is answered by one sentence and exit code 2, without a traceback."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if "train" in arguments:
        add_settings(train)
    try:
        sys.exit(app(arguments, standalone_mode=False))
    except FloatingPointError as diagnosis:
        print(f"minirl: {diagnosis}", file=sys.stderr)
        sys.exit(1)
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        if message := error.format_message():
            print(f"minirl: {message}", file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
