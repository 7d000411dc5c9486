"""Save and resume a run: policy, optimiser, reference, random numbers, epoch and settings, one folder a checkpoint.

A checkpoint is written beside the others and renamed when complete, so one that is cut short is never taken for whole
and the last good one stays. Tensors are safetensors and the rest is JSON: nothing is unpickled. Left out: sharding.
"""

import json
import os
import shutil
from pathlib import Path

import torch

from minirl.train import Config, State


def save(folder: str | Path, policy, state: State, config: Config, keep: int = 2) -> Path:
    """Write `folder/epoch-000012`, then remove all but the newest `keep`. Any error leaves the older ones alone."""
    target = Path(folder) / f"epoch-{state.epoch:06d}"
    draft = target.with_suffix(".tmp")
    shutil.rmtree(draft, ignore_errors=True)
    try:
        draft.mkdir(parents=True)
        _write(draft, policy, state, config)
        shutil.rmtree(target, ignore_errors=True)
        draft.rename(target)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    for old in checkpoints(folder)[:-keep]:
        shutil.rmtree(old)
    return target


def checkpoints(folder: str | Path) -> list[Path]:
    """The complete checkpoints in a run's folder, oldest first."""
    return sorted(path for path in Path(folder).glob("epoch-*") if path.is_dir() and path.suffix != ".tmp")


def load(folder: str | Path, policy, config: Config) -> State:
    """Restore the newest checkpoint into `policy`, and return the State to pass to `train` as `resume_from`.

    `config` may raise `epochs`; any other difference from the saved settings is refused with a ValueError.
    """
    from safetensors.torch import load_file, load_model

    if not (found := checkpoints(folder)):
        raise FileNotFoundError(f"no checkpoint in {folder}; expected a folder like epoch-000010, so start a new run")
    saved = json.loads((found[-1] / "state.json").read_text())
    ours, theirs = vars(config) | {"epochs": 0}, saved["config"] | {"epochs": 0}
    if changed := [name for name in ours if ours[name] != theirs.get(name)]:
        raise ValueError(
            f"cannot resume with another {', '.join(changed)}; expected the settings in {found[-1] / 'state.json'}"
        )
    load_model(policy, found[-1] / "policy.safetensors")
    reference = found[-1] / "reference.safetensors"
    state = State(policy, config, policy if reference.exists() else None)
    if reference.exists():
        load_model(state.reference, reference)
    tensors = load_file(found[-1] / "state.safetensors")
    state.epoch = saved["epoch"]
    state.generator.set_state(tensors.pop("generator"))
    torch.set_rng_state(tensors.pop("torch_generator"))
    moments: dict[int, dict] = {}
    for name, tensor in tensors.items():
        index, moment = name.split(".", 1)
        moments.setdefault(int(index), {})[moment] = tensor
    state.optimizer.load_state_dict({"state": moments, "param_groups": saved["param_groups"]})
    return state


def _write(draft: Path, policy, state: State, config: Config) -> None:
    from safetensors.torch import save_file, save_model

    save_model(policy, str(draft / "policy.safetensors"))
    if state.reference is not None:
        save_model(state.reference, str(draft / "reference.safetensors"))
    save_file(_tensors(state), str(draft / "state.safetensors"))
    groups = state.optimizer.state_dict()["param_groups"]
    text = json.dumps({"epoch": state.epoch, "config": vars(config), "param_groups": groups}, indent=1)
    (draft / "state.json").write_text(text)
    for file in draft.iterdir():
        with open(file, "rb") as handle:
            os.fsync(handle.fileno())


def _tensors(state: State) -> dict[str, torch.Tensor]:
    moments = state.optimizer.state_dict()["state"]
    named = {f"{index}.{name}": value for index, each in moments.items() for name, value in each.items()}
    rng = {"generator": state.generator.get_state(), "torch_generator": torch.get_rng_state()}
    return {name: value.contiguous() for name, value in (named | rng).items()}
