"""Save and resume a run: policy, optimiser, reference, random numbers, epoch and settings, one folder a checkpoint.

A checkpoint is written beside the others and renamed when complete, and an old one is renamed before it is removed: so
whatever bears the name of a checkpoint is whole, wherever the process was killed. Tensors are safetensors and the rest
is JSON: nothing is unpickled. Left out: sharding.
"""

import json
import os
import shutil
from pathlib import Path

import torch

from minirl.train import Config, State


def save(folder: str | Path, policy, state: State, config: Config, keep: int = 2) -> Path:
    """Write `folder/epoch-000012`, then remove all but the newest `keep`. OSError leaves the older ones as they are."""
    from safetensors import SafetensorError

    target = Path(folder) / f"epoch-{state.epoch:06d}"
    draft = target.with_suffix(".tmp")
    for unfinished in Path(folder).glob("epoch-*.tmp"):
        shutil.rmtree(unfinished)
    try:
        draft.mkdir(parents=True)
        _write(draft, policy, state, config)
        _remove(target)
        draft.rename(target)
    except BaseException as error:
        shutil.rmtree(draft, ignore_errors=True)
        if isinstance(error, OSError | SafetensorError):
            reason = getattr(error, "strerror", None) or error
            raise OSError(f"cannot write the checkpoint {target}: {reason}; older checkpoints are intact") from error
        raise
    for old in checkpoints(folder)[: -max(1, keep)]:
        _remove(old)
    return target


def checkpoints(folder: str | Path) -> list[Path]:
    """The complete checkpoints in a run's folder, oldest first."""
    return sorted(path for path in Path(folder).glob("epoch-*") if path.is_dir() and path.suffix != ".tmp")


def newest(folder: str | Path) -> Path:
    """The last complete checkpoint; FileNotFoundError where there is none."""
    if not (found := checkpoints(folder)):
        raise FileNotFoundError(f"no checkpoint in {folder}; expected a folder like epoch-000010, so start a new run")
    return found[-1]


def load(folder: str | Path, policy, config: Config, critic=None) -> State:
    """Restore the newest checkpoint into `policy` and `critic`; pass the State to `train` as `resume_from`.

    `config` may raise `epochs`; any other difference from the saved settings is refused with a ValueError.
    """
    path = newest(folder)
    saved = _read(path)
    ours, theirs = vars(config) | {"epochs": 0}, vars(Config()) | saved["config"] | {"epochs": 0}
    if changed := [name for name in ours if ours[name] != theirs[name]]:
        raise ValueError(f"cannot resume with another {', '.join(changed)}; expected the settings in {path}/state.json")
    if (critic is not None) != (path / "critic.safetensors").exists():
        had = "without a critic" if critic is not None else "with a critic"
        raise ValueError(f"{path} is of a run {had}; expected the same now, so pass what that run had")
    load_weights(path, policy)
    reference = path / "reference.safetensors"
    state = State(policy, config, policy if reference.exists() else None, critic)
    if reference.exists():
        _load_model(state.reference, reference)
    if critic is not None:
        _load_model(critic, path / "critic.safetensors")
        _load_moments(path / "critic_optimizer.safetensors", critic, critic.optimizer)
    tensors = _load_moments(path / "state.safetensors", policy, state.optimizer, ("generator", "torch_generator"))
    state.epoch = saved["epoch"]
    state.generator.set_state(tensors["generator"])
    torch.set_rng_state(tensors["torch_generator"])
    return state


def load_weights(path: Path, policy) -> None:
    """Only the policy's weights of one checkpoint, for an evaluation."""
    _load_model(policy, path / "policy.safetensors")


def _write(draft: Path, policy, state: State, config: Config) -> None:
    from safetensors.torch import save_file, save_model

    save_model(policy, str(draft / "policy.safetensors"))
    if state.reference is not None:
        save_model(state.reference, str(draft / "reference.safetensors"))
    if state.critic is not None:
        save_model(state.critic, str(draft / "critic.safetensors"))
        save_file(_moments(state.critic.optimizer), str(draft / "critic_optimizer.safetensors"))
    rng = {"generator": state.generator.get_state(), "torch_generator": torch.get_rng_state()}
    save_file(_moments(state.optimizer) | rng, str(draft / "state.safetensors"))
    text = json.dumps({"epoch": state.epoch, "config": vars(config)}, indent=1)
    (draft / "state.json").write_text(text, "utf-8")
    for file in draft.iterdir():
        with open(file, "r+b") as handle:
            os.fsync(handle.fileno())


def _moments(optimizer) -> dict[str, torch.Tensor]:
    moments = optimizer.state_dict()["state"]
    return {f"{index}.{name}": value.contiguous() for index, each in moments.items() for name, value in each.items()}


def _remove(path: Path) -> None:
    """Take a checkpoint's name away first: half of one is never found."""
    if path.exists():
        shutil.rmtree(path.rename(path.with_suffix(".old.tmp")))


def _read(path: Path) -> dict:
    try:
        saved = json.loads((path / "state.json").read_text("utf-8"))
        if not (isinstance(saved, dict) and "epoch" in saved and isinstance(saved.get("config"), dict)):
            raise ValueError("epoch and config are not both in it")
        return saved
    except (OSError, ValueError) as error:
        raise _damaged(path / "state.json", error) from error


def _load_model(model, file: Path) -> None:
    from safetensors import SafetensorError
    from safetensors.torch import load_model

    try:
        load_model(model, file)
    except RuntimeError as error:
        raise ValueError(f"{file} holds the weights of another model; expected {type(model).__name__}'s") from error
    except (OSError, SafetensorError) as error:
        raise _damaged(file, error) from error


def _load_tensors(file: Path) -> dict[str, torch.Tensor]:
    """Copies in memory: a tensor that still lives in the file would be gone with it."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return {name: tensor.clone() for name, tensor in load_file(file).items()}
    except (OSError, SafetensorError) as error:
        raise _damaged(file, error) from error


def _load_moments(file: Path, model, optimizer, others: tuple[str, ...] = ()) -> dict[str, torch.Tensor]:
    """Give an optimiser its moments: of every weight that learns or, before the first step, none. Returns `others`."""
    tensors, moments = _load_tensors(file), {}
    rest = {name: tensors.pop(name) for name in others if name in tensors}
    for name, tensor in tensors.items():
        index, moment = name.split(".", 1)
        moments.setdefault(int(index), {})[moment] = tensor
    weights = sum(weight.requires_grad for weight in model.parameters())
    if len(rest) < len(others) or len(moments) not in (0, weights):
        raise _damaged(file, ValueError("tensors are missing from it"))
    optimizer.load_state_dict({"state": moments, "param_groups": optimizer.state_dict()["param_groups"]})
    return rest


def _damaged(file: Path, error: Exception) -> ValueError:
    return ValueError(f"cannot read {file} ({error}); remove {file.parent} to go on from the checkpoint before it")
