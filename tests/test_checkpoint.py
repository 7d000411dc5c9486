"""A run that is killed at any moment and resumed is the run that was never killed, bit for bit, and from data only."""

import json
import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from minirl import Config, SortingPolicy, SortingTask, State, checkpoint
from minirl.critic import Critic, PrefixReader
from minirl.experiments import fast
from minirl.train import train

CONFIG = Config(epochs=12, batch_size=8, group_size=4, inner_steps=2, beta=0.1, reference_every=5, evaluate_every=4)
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")


def timeless(history):
    """The metrics without what the clock decides."""
    return [{name: value for name, value in each.items() if not name.startswith("seconds")} for each in history]


def run(config=CONFIG, folder=None, every=1, state=None, policy=None):
    """Train, saving a checkpoint every so many epochs."""
    policy = policy or SortingPolicy(seed=3)
    state = state or State(policy, config)
    history = []
    for metrics in train(policy, SortingTask(), config, resume_from=state):
        history.append(metrics)
        if folder and state.epoch % every == 0:
            checkpoint.save(folder, policy, state, config)
    return history, policy, state


def stopped(folder, epochs=7, every=1, config=CONFIG):
    """The folder of a run that got this far, under the settings of the whole."""
    policy = SortingPolicy(seed=3)
    state = State(policy, config)
    for _, _ in zip(range(epochs), train(policy, SortingTask(), config, resume_from=state), strict=False):
        if state.epoch % every == 0:
            checkpoint.save(folder, policy, state, config)


@pytest.mark.parametrize("epochs, every", [(7, 1), (7, 3), (1, 1), (11, 5)])
def test_a_resumed_run_is_the_uninterrupted_one(tmp_path, epochs, every):
    """Beyond the reference's refresh at epoch 5, and with Adam's moments, which a fresh optimiser would not have."""
    whole, expected, end = run()
    stopped(tmp_path, epochs, every)
    torch.manual_seed(99)
    policy = SortingPolicy(seed=77)
    state = checkpoint.load(tmp_path, policy, CONFIG)
    start = epochs - epochs % every
    assert state.epoch == start
    rest, policy, state = run(state=state, policy=policy)
    assert timeless(rest) == timeless(whole[start:])
    for ours, theirs in zip(policy.parameters(), expected.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    for ours, theirs in zip(state.reference.parameters(), end.reference.parameters(), strict=True):
        assert torch.equal(ours, theirs) and not ours.requires_grad
    assert torch.equal(state.generator.get_state(), end.generator.get_state())


CRITIC = Config(epochs=8, batch_size=8, group_size=4, inner_steps=2, delta="raw", evaluate_every=4)


def with_critic(seed=3):
    policy = SortingPolicy(seed=seed)
    torch.manual_seed(seed)
    return policy, Critic(PrefixReader(5, 3, 3, seed=seed), lam=0.9, warmup=2, clip=0.5)


def stopped_with_critic(folder, epochs):
    policy, critic = with_critic()
    state = State(policy, CRITIC, critic=critic)
    for _, _ in zip(range(epochs), train(policy, SortingTask(), CRITIC, resume_from=state), strict=False):
        checkpoint.save(folder, policy, state, CRITIC)


@pytest.mark.parametrize("epochs", [1, 2, 5])
def test_a_run_with_a_critic_goes_on_to_the_bit(tmp_path, epochs):
    """In the middle of its warm-up or after it: with its weights, Adam's moments and the rollouts it has seen."""
    policy, critic = with_critic()
    whole = timeless(train(policy, SortingTask(), CRITIC, critic=critic))
    stopped_with_critic(tmp_path, epochs)
    back, judge = with_critic(seed=77)
    state = checkpoint.load(tmp_path, back, CRITIC, judge)
    assert state.epoch == judge.rollouts == epochs and state.critic is judge
    assert timeless(train(back, SortingTask(), CRITIC, resume_from=state)) == whole[epochs:]
    for ours, theirs in zip((back, judge), (policy, critic), strict=True):
        assert all(map(torch.equal, ours.state_dict().values(), theirs.state_dict().values()))
    moments, expected = (each.optimizer.state_dict()["state"] for each in (judge, critic))
    for index, each in expected.items():
        assert all(torch.equal(moments[index][name], value) for name, value in each.items())


def test_a_critic_is_asked_for_where_there_was_one_and_refused_where_there_was_none(tmp_path):
    stopped_with_critic(tmp_path / "with", 1)
    stopped(tmp_path / "without", 1)
    policy, critic = with_critic()
    with pytest.raises(ValueError, match="is of a run with a critic; expected the same now"):
        checkpoint.load(tmp_path / "with", policy, CRITIC)
    with pytest.raises(ValueError, match="is of a run without a critic; expected the same now"):
        checkpoint.load(tmp_path / "without", policy, CONFIG, critic)


@pytest.mark.parametrize("name", ["critic.safetensors", "critic_optimizer.safetensors"])
def test_a_damaged_critic_says_what_to_do(tmp_path, name):
    stopped_with_critic(tmp_path, 2)
    path = tmp_path / "epoch-000002" / name
    path.write_bytes(path.read_bytes()[:-7])
    policy, critic = with_critic()
    with pytest.raises(ValueError, match=r"cannot read .*; remove .*epoch-000002 to go on from the checkpoint before"):
        checkpoint.load(tmp_path, policy, CRITIC, critic)


def test_another_critic_is_refused(tmp_path):
    stopped_with_critic(tmp_path, 1)
    policy, _ = with_critic()
    with pytest.raises(ValueError, match="holds the weights of another model; expected Critic's"):
        checkpoint.load(tmp_path, policy, CRITIC, Critic(PrefixReader(5, 3, 3, width=8)))


def test_a_critic_without_some_of_its_moments_is_damaged(tmp_path):
    stopped_with_critic(tmp_path, 2)
    file = tmp_path / "epoch-000002" / "critic_optimizer.safetensors"
    save_file({name: tensor for name, tensor in load_file(file).items() if not name.startswith("0.")}, file)
    policy, critic = with_critic()
    with pytest.raises(ValueError, match=r"tensors are missing from it\); remove .*epoch-000002"):
        checkpoint.load(tmp_path, policy, CRITIC, critic)


def test_pytorchs_own_random_numbers_go_on_too(tmp_path):
    policy = SortingPolicy(seed=0)
    checkpoint.save(tmp_path, policy, State(policy, CONFIG), CONFIG)
    expected = torch.rand(3)
    checkpoint.load(tmp_path, policy, CONFIG)
    assert torch.equal(torch.rand(3), expected)


def test_only_the_newest_are_kept(tmp_path):
    run(folder=tmp_path)
    assert [path.name for path in checkpoint.checkpoints(tmp_path)] == ["epoch-000011", "epoch-000012"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["epoch-000011", "epoch-000012"]


def test_what_was_left_unfinished_is_not_a_checkpoint_and_is_swept_away(tmp_path):
    stopped(tmp_path, 3)
    (tmp_path / "epoch-000004.tmp").mkdir()
    (tmp_path / "epoch-000001.old.tmp").mkdir()
    policy = SortingPolicy()
    state = checkpoint.load(tmp_path, policy, CONFIG)
    assert state.epoch == 3
    checkpoint.save(tmp_path, policy, state, CONFIG)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["epoch-000002", "epoch-000003"]


# ---- what is refused


def test_more_epochs_are_welcome_and_nothing_else_may_change(tmp_path):
    stopped(tmp_path, 2)
    policy = SortingPolicy()
    assert checkpoint.load(tmp_path, policy, Config(**{**vars(CONFIG), "epochs": 500})).epoch == 2
    other = Config(**{**vars(CONFIG), "learning_rate": 0.5, "seed": 1})
    with pytest.raises(ValueError, match=r"cannot resume with another learning_rate, seed; expected the settings in"):
        checkpoint.load(tmp_path, policy, other)


def test_the_weights_of_another_policy_are_refused(tmp_path):
    stopped(tmp_path, 2)
    with pytest.raises(ValueError, match="holds the weights of another model; expected SortingPolicy's"):
        checkpoint.load(tmp_path, SortingPolicy(dim=6), CONFIG)


def test_no_checkpoint_gets_a_sentence(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no checkpoint in .*; expected a folder like epoch-000010"):
        checkpoint.load(tmp_path / "nowhere", SortingPolicy(), CONFIG)


class Trap:
    """Unpickling it leaves a file behind."""

    def __init__(self, file):
        self.file = file

    def __reduce__(self):
        return (Path.touch, (self.file,))


@pytest.mark.parametrize("name", ["policy.safetensors", "state.safetensors", "reference.safetensors", "state.json"])
def test_a_pickle_is_never_loaded_whatever_its_name(tmp_path, name):
    stopped(tmp_path / "run", 2)
    sprung = tmp_path / "sprung"
    path = tmp_path / "run" / "epoch-000002" / name
    path.write_bytes(pickle.dumps(Trap(sprung)))
    with pytest.raises(ValueError, match=r"cannot read .*; remove .*epoch-000002 to go on from the checkpoint before"):
        checkpoint.load(tmp_path / "run", SortingPolicy(), CONFIG)
    torch.save(Trap(sprung), path)
    with pytest.raises(ValueError, match="cannot read"):
        checkpoint.load(tmp_path / "run", SortingPolicy(), CONFIG)
    assert not sprung.exists()
    shutil.rmtree(path.parent)
    assert checkpoint.load(tmp_path / "run", SortingPolicy(), CONFIG).epoch == 1


@pytest.mark.parametrize("text", ["{}", "[]", '{"epoch": 2}', '{"config": {}}', '{"epoch": 2, "config": 1}'])
def test_a_state_that_is_not_one_counts_as_damaged(tmp_path, text):
    stopped(tmp_path, 2)
    (tmp_path / "epoch-000002" / "state.json").write_text(text)
    with pytest.raises(
        ValueError, match=r"cannot read .*state.json \(epoch and config .*; remove .*epoch-000002 to go"
    ):
        checkpoint.load(tmp_path, SortingPolicy(), CONFIG)


@pytest.mark.parametrize("name", ["policy.safetensors", "state.safetensors", "state.json"])
@pytest.mark.parametrize("damage", ["cut", "missing"])
def test_a_damaged_checkpoint_says_what_to_do(tmp_path, name, damage):
    stopped(tmp_path, 2)
    path = tmp_path / "epoch-000002" / name
    path.write_bytes(path.read_bytes()[:-7]) if damage == "cut" else path.unlink()
    with pytest.raises(ValueError, match=r"remove .*epoch-000002 to go on from the checkpoint before it"):
        checkpoint.load(tmp_path, SortingPolicy(), CONFIG)


@pytest.mark.parametrize("lost", ["generator", "torch_generator", "0."])
def test_a_state_without_some_of_its_tensors_is_damaged(tmp_path, lost):
    stopped(tmp_path, 2)
    file = tmp_path / "epoch-000002" / "state.safetensors"
    save_file({name: tensor for name, tensor in load_file(file).items() if not name.startswith(lost)}, file)
    with pytest.raises(ValueError, match=r"tensors are missing from it\); remove .*epoch-000002"):
        checkpoint.load(tmp_path, SortingPolicy(), CONFIG)


def test_a_weight_that_does_not_learn_has_no_moments_and_does_not_stop_a_resume(tmp_path):
    task, config = SortingTask(), Config(epochs=2, batch_size=4, group_size=4)
    policy = SortingPolicy(seed=0)
    policy.embedding.requires_grad_(False)
    start, state = policy.embedding.clone(), State(policy, config)
    list(train(policy, task, config, resume_from=state))
    assert torch.equal(policy.embedding, start) and len(state.optimizer.state) == 2
    checkpoint.save(tmp_path, policy, state, config)
    other = SortingPolicy(seed=1)
    other.embedding.requires_grad_(False)
    assert len(checkpoint.load(tmp_path, other, config).optimizer.state) == 2


# ---- a full disk


@pytest.mark.parametrize("breaks_at", range(5))
def test_a_full_disk_leaves_the_last_good_checkpoint(tmp_path, monkeypatch, breaks_at):
    """Each file in turn, and the sync at the end, meets the full disk."""
    stopped(tmp_path, 5)
    policy = SortingPolicy()
    state = checkpoint.load(tmp_path, policy, CONFIG)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    state.epoch, count = 6, iter(range(100))

    def fills_up(function):
        def write(*arguments, **settings):
            if next(count) == breaks_at:
                raise OSError(28, "No space left on device")
            return function(*arguments, **settings)

        return write

    for name in ("save_model", "save_file"):
        original = getattr(__import__("safetensors.torch", fromlist=[name]), name)
        monkeypatch.setattr(f"safetensors.torch.{name}", fills_up(original))
    monkeypatch.setattr(Path, "write_text", fills_up(Path.write_text))
    monkeypatch.setattr(os, "fsync", fills_up(os.fsync))
    with pytest.raises(OSError, match=r"cannot write the checkpoint .*epoch-000006: No space left on device; older"):
        checkpoint.save(tmp_path, policy, state, CONFIG)
    monkeypatch.undo()
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert checkpoint.load(tmp_path, policy, CONFIG).epoch == 5


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 1 MB, where the machine lets us mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = shutil.which("mount")
    command = [mount, "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    if mount is None or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("a small file system cannot be mounted here; the full disk above is a simulated one")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_disk_that_is_really_full_leaves_the_last_good_checkpoint(small_disk):
    policy = SortingPolicy(dim=80)
    state = State(policy, CONFIG)
    saved = 0
    with pytest.raises(OSError, match="No space left on device"):
        for state.epoch in range(1, 20):
            saved = state.epoch
            checkpoint.save(small_disk, policy, state, CONFIG, keep=20)
    assert saved > 1 and checkpoint.load(small_disk, policy, CONFIG).epoch == saved - 1


# ---- SIGKILL

SAVER = """
import os, sys
import torch
from minirl import Config, SortingPolicy, State, checkpoint
torch.set_num_threads(1)
config, policy = Config(), SortingPolicy(dim=100)
state = State(policy, config)
for line in sys.stdin:  # each line starts a child that saves until it is killed
    child = os.fork()
    if not child:
        for state.epoch in range(int(line), 10**6):
            checkpoint.save(sys.argv[1], policy, state, config)
    print(child, flush=True)
    os.waitpid(child, 0)
"""


@POSIX
def test_killed_while_writing_every_checkpoint_that_is_found_is_whole(tmp_path):
    command = [sys.executable, "-c", SAVER, str(tmp_path)]
    policy, config, start, cut = SortingPolicy(dim=100), Config(), 1, 0
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        for attempt in range(20):
            parent.stdin.write(f"{start}\n")
            parent.stdin.flush()
            child = int(parent.stdout.readline())
            time.sleep(random.Random(attempt).uniform(0.02, 0.12))
            os.kill(child, signal.SIGKILL)
            time.sleep(0.02)
            cut += any(path.suffix == ".tmp" for path in tmp_path.iterdir())
            for path in checkpoint.checkpoints(tmp_path):
                checkpoint.load_weights(path, policy)
            start = checkpoint.load(tmp_path, policy, config).epoch + 1 if checkpoint.checkpoints(tmp_path) else 1
        parent.stdin.close()
    assert start > 2 and cut > 0, "the test needs kills in the middle of a write"


def epochs(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def until_done(folder, words, kills, seed=0):
    """`minirl train` killed at random moments and resumed, the last time to its end; returns where each kill fell."""
    run, chance, reached = folder / "run", random.Random(seed), []
    for attempt in range(kills + 1):
        more = ["--resume", run] if (run / "config.json").exists() else [*words, "--run", run]
        command = [sys.executable, "-m", "minirl.cli", "train", *map(str, more)]
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        before = reached[-1] if reached else 0
        while attempt < kills and process.poll() is None and progress(run) <= before:
            time.sleep(0.01)
        if attempt < kills:
            time.sleep(chance.uniform(0, 0.3))
            process.kill()
        _, err = process.communicate(timeout=300)
        assert process.returncode in ((-signal.SIGKILL, 0) if attempt < kills else (0,)), err
        reached.append(progress(run))
    return run, reached


def progress(run):
    file = run / "metrics.jsonl"
    return len(file.read_text().splitlines()) if file.exists() else 0


@POSIX
def test_the_command_line_killed_at_random_moments_and_resumed(tmp_path):
    """Killed four times within 400 epochs, or twice within 200 with MINIRL_FAST=1."""
    epochs_asked, kills = fast((400, 4), (200, 2))
    settings = ["--epochs", epochs_asked, "--batch-size", 16, "--group-size", 4, "--beta", 0.1, "--reference-every", 30]
    words = [*settings, "--evaluate-every", 50, "--checkpoint-every", 3]
    whole = subprocess.run(
        [sys.executable, "-m", "minirl.cli", "train", *map(str, words), "--run", "whole"],
        cwd=tmp_path,
        text=True,
        capture_output=True,
    )
    assert whole.returncode == 0, whole.stderr
    run, reached = until_done(tmp_path, words, kills)
    assert reached[-1] == epochs_asked and sum(0 < place < epochs_asked for place in reached) >= kills / 2, reached
    assert timeless(epochs(run)) == timeless(epochs(tmp_path / "whole"))
    assert_equal_state(run, tmp_path / "whole")


def assert_equal_state(run, whole):
    """Weights, reference, Adam's moments and the loop's random numbers; PyTorch's own ones the loop does not use."""
    for file in ("policy.safetensors", "reference.safetensors", "state.safetensors"):
        ours, theirs = (load_file(checkpoint.newest(folder / "checkpoints") / file) for folder in (run, whole))
        assert ours.keys() == theirs.keys()
        assert [name for name in ours if name != "torch_generator" and not torch.equal(ours[name], theirs[name])] == []
