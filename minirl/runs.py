"""Run folders: `config.json` says what a run was, `metrics.jsonl` grows by a line an epoch, nothing is overwritten."""

import json
import platform
from importlib.metadata import version
from pathlib import Path


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


def create(folder: Path, settings: dict) -> None:
    """Make a run's folder and its `config.json`: the settings, and the versions that they ran with."""
    make_folder(folder, new=True)
    versions = {name: version(name) for name in ("minirl", "torch")} | {"python": platform.python_version()}
    (folder / "config.json").write_text(json.dumps(settings | {"versions": versions}, indent=2) + "\n", "utf-8")


def append(folder: Path, metrics: dict) -> None:
    """Add one epoch as one whole line, so that a run may stop at any time."""
    with (folder / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(metrics) + "\n")


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
