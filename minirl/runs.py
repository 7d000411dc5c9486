"""Run folders: `config.json` says what a run was, `metrics.jsonl` grows by a line an epoch, nothing is overwritten."""

import contextlib
import json
import os
import platform
import shutil
from importlib.metadata import version
from pathlib import Path

PACKAGES = ("minirl", "torch")


class Refused(Exception):
    """Something the user can mend, in one sentence."""

    exit_code = 2

    def format_message(self) -> str:
        return str(self)


def make_folder(path: Path, new: bool = False) -> None:
    """The folder with its parents; Refused where that cannot be, or if it should be `new` and is there."""
    try:
        path.mkdir(parents=True, exist_ok=not new)
    except FileExistsError:
        raise Refused(f"{path} exists already and was left as it is; name another folder, or remove it") from None
    except OSError as error:
        raise Refused(f"cannot write to {path}: {error.strerror}") from None


def create(folder: Path, settings: dict, packages: tuple[str, ...] = PACKAGES) -> None:
    """Make a run's folder and its `config.json`: the settings, and the versions that they ran with; both or neither."""
    text = described(settings, packages)
    make_folder(folder, new=True)
    try:
        write(folder / "config.json", text)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def describe(folder: Path, settings: dict, packages: tuple[str, ...] = PACKAGES) -> None:
    """Write the run's `config.json`, or write it anew."""
    write(folder / "config.json", described(settings, packages))


def described(settings: dict, packages: tuple[str, ...]) -> str:
    """The text of `config.json`."""
    return json.dumps(settings | {"versions": versions(packages)}, indent=2) + "\n"


def versions(packages: tuple[str, ...]) -> dict[str, str]:
    """What ran: a result is not known without it."""
    return {name: version(name) for name in packages} | {"python": platform.python_version()}


def settings(folder: Path) -> dict:
    """What `create` wrote, without the versions."""
    path = folder / "config.json"
    if not folder.is_dir():
        raise Refused(f"there is no run folder {folder}")
    try:
        saved = json.loads(path.read_text("utf-8"))
        saved.pop("versions")
    except OSError as error:
        raise Refused(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, AttributeError, KeyError, TypeError):
        raise Refused(f"cannot read {path}: it is not what minirl train wrote") from None
    return saved


def write(path: Path, text: str) -> None:
    """The whole file or none of it, even if the process is killed: written beside it, then renamed.

    Refused where that cannot be, with the file as it was.
    """
    draft = path.with_name(path.name + ".tmp")
    try:
        with draft.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise Refused(f"cannot write {path}: {error.strerror}") from error


def append(folder: Path, metrics: dict, sync: bool = False) -> None:
    """Add one epoch as one whole line, so that a run may stop at any time; `sync` waits until it is on the disk."""
    with (folder / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(metrics) + "\n")
        file.flush()
        if sync:
            os.fsync(file.fileno())


def keep_epochs(folder: Path, last: int) -> None:
    """Take out the epochs after `last`, which a run that goes on from there will write again."""
    path = folder / "metrics.jsonl"
    epochs = read(folder)[0] if last else []
    kept = [metrics for metrics in epochs if metrics["epoch"] <= last]
    if len(kept) < last:
        raise Refused(f"{path} lacks epochs before the checkpoint of epoch {last}, so the run cannot go on")
    write(path, "".join(json.dumps(metrics) + "\n" for metrics in kept))


def last_epoch(folder: Path) -> int:
    """The newest epoch in `metrics.jsonl`; 0 where no line is whole yet."""
    path = folder / "metrics.jsonl"
    if not path.exists() or b"\n" not in path.read_bytes():
        return 0
    return int(read(folder)[0][-1]["epoch"])


def parse(line: str) -> dict[str, float]:
    """One line's metrics; ValueError if it is anything else."""
    metrics = json.loads(line)
    if not isinstance(metrics, dict) or not all(isinstance(value, int | float) for value in metrics.values()):
        raise ValueError(f"{line!r} is not a set of numbers")
    if "epoch" not in metrics:
        raise ValueError(f"{line!r} names no epoch")
    return metrics


def read(folder: Path) -> tuple[list[dict[str, float]], bool]:
    """A run's epochs, and whether its last line was cut off and had to be left out."""
    path, epochs = folder / "metrics.jsonl", []
    if not folder.is_dir():
        raise Refused(f"there is no run folder {folder}")
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"cannot read {path}: {getattr(error, 'strerror', None) or 'it is not text'}") from None
    for number, line in enumerate(lines, 1):
        try:
            epochs.append(parse(line))
        except ValueError:
            if number < len(lines):
                raise Refused(f"cannot read {path}: line {number} is not one epoch's metrics") from None
    if not epochs:
        raise Refused(f"{path} has no complete epoch yet")
    return epochs, len(epochs) < len(lines)
