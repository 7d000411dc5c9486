"""Names, arguments and fields that notebooks, assignments and students rely on, and what importing them may cost."""

import ast
import dataclasses
import inspect
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import minirl
from minirl import deltas, exact, kl, losses, policy, rollout, sorting, toy_language, train

PACKAGE = Path(minirl.__file__).parent
CORE = ["sorting", "policy", "rollout", "deltas", "losses", "kl", "metrics", "train", "exact"]
AROUND = ["config", "objective", "variants", "groups"]  # what the loop offers beyond the lecture's methods
OWN = {f"minirl.{module}" for module in (*CORE, *AROUND)}
CORE_MAY_IMPORT = {"torch", "einops", "jaxtyping"} | OWN | sys.stdlib_module_names

SIGNATURES = {  # function: the names of its arguments, with a default where it is part of the contract
    rollout.collect: ["policy", "task", "batch", "group_size", ("generator", None), ("reference", None)],
    rollout.response_mask: ["responses", "end_token"],
    sorting.exact_match: ["prompts", "responses"],
    sorting.position_match: ["prompts", "responses"],
    sorting.inclusion_ordering: ["prompts", "responses"],
    sorting.all_prompts: ["vocab_size", "length"],
    deltas.raw: ["rewards"],
    deltas.centered: ["rewards"],
    deltas.leave_one_out: ["rewards"],
    deltas.normalized: ["rewards", ("eps", 1e-6)],
    deltas.max_only: ["rewards"],
    losses.naive: ["log_probs", "deltas"],
    losses.unclipped: ["log_probs", "old_log_probs", "deltas"],
    losses.clipped: [
        "log_probs",
        "old_log_probs",
        "deltas",
        ("clip_low", 0.2),
        ("clip_high", 0.2),
        ("dual_clip", None),
    ],
    losses.token_weights: ["mask", ("how", "sequence"), ("constant", None)],
    kl.k1: ["log_probs", "ref_log_probs"],
    kl.k2: ["log_probs", "ref_log_probs"],
    kl.k3: ["log_probs", "ref_log_probs"],
    kl.exact: ["logits", "ref_logits"],
    exact.responses: ["vocab_size", "length", ("end_token", None)],
    exact.distribution: ["policy", "prompts"],
    exact.expected_reward: ["policy", "prompts", "reward"],
    exact.gradient: ["policy", "prompts", "reward"],
    exact.gradients: ["values", "policy"],
    exact.kl: ["policy", "reference", "prompts"],
    exact.estimator_moments: ["policy", "prompt", "estimator", ("group_size", 1)],
    train.train: ["policy", "task", "config", ("reference", None), ("resume_from", None), ("critic", None)],
    train.State: ["policy", "config", ("reference", None), ("critic", None)],
    sorting.SortingTask: [
        ("reward", sorting.position_match),
        ("vocab_size", 5),
        ("length", 3),
        ("held_out", 0.2),
        ("seed", 0),
        ("prompts", None),
    ],
    sorting.SortingTask.sample: ["self", "batch_size", ("generator", None)],
    sorting.SortingTask.held_out: ["self"],
    sorting.SortingTask.rewards: ["self", "batch", "responses", "mask"],
    policy.SortingPolicy: [("vocab_size", 5), ("length", 3), ("dim", 10), ("init_scale", 0.1), ("seed", None)],
    policy.SortingPolicy.sample: ["self", "prompts", "group_size", ("generator", None)],
    policy.SortingPolicy.log_probs: ["self", "prompts", "responses", "mask"],
    toy_language.AutoregressivePolicy.sample: ["self", "prompts", "group_size", ("generator", None)],
}


@pytest.mark.parametrize("function", SIGNATURES, ids=lambda function: f"{function.__module__}.{function.__qualname__}")
def test_arguments_are_those_of_the_contract(function):
    parameters = inspect.signature(function).parameters
    expected = [name if isinstance(name, str) else name[0] for name in SIGNATURES[function]]
    assert list(parameters) == expected
    for name in SIGNATURES[function]:
        if isinstance(name, tuple):
            assert parameters[name[0]].default == name[1]


@pytest.mark.parametrize(
    "function, names",
    [(rollout.collect, ["generator", "reference"]), (train.train, ["reference", "resume_from", "critic"])],
)
def test_optional_arguments_of_the_loop_are_given_by_name(function, names):
    kinds = {name: parameter.kind for name, parameter in inspect.signature(function).parameters.items()}
    assert [name for name, kind in kinds.items() if kind is inspect.Parameter.KEYWORD_ONLY] == names


FIELDS = {
    rollout.Batch: ["prompts", "answers"],
    rollout.Rollout: ["prompts", "responses", "mask", "rewards", "old_log_probs", "ref_log_probs"],
    train.Config: [
        *("epochs", "inner_steps", "batch_size", "group_size", "delta", "loss", "clip_low", "clip_high"),
        *("aggregation", "constant", "beta", "kl", "kl_in", "reference_every", "learning_rate", "max_grad_norm"),
        *("micro_batch_size", "evaluate_every", "seed"),
    ],
}


@pytest.mark.parametrize("kind", FIELDS, ids=lambda kind: kind.__name__)
def test_fields_are_those_of_the_contract_and_frozen(kind):
    found = [field.name for field in dataclasses.fields(kind)]
    assert found[: len(FIELDS[kind])] == FIELDS[kind]
    assert kind.__dataclass_params__.frozen


def test_the_default_settings_are_those_of_the_held_out_experiment():
    """300 epochs of 4 clipped steps on 64 prompts with 16 responses each, by Adam at 0.01; no penalty."""
    rollout_and_steps = train.Config(epochs=300, inner_steps=4, batch_size=64, group_size=16, learning_rate=1e-2)
    deltas_and_loss = train.Config(delta="centered", loss="clipped", clip_low=0.2, clip_high=0.2, beta=0.0)
    assert train.Config() == rollout_and_steps == deltas_and_loss


def test_names_map_to_functions():
    assert list(deltas.DELTAS) == ["raw", "max_only", "centered", "leave_one_out", "normalized"]
    assert list(losses.LOSSES) == ["naive", "unclipped", "clipped"]
    assert list(losses.AGGREGATIONS) == ["sequence", "token", "constant"]
    assert list(kl.KL) == ["k1", "k2", "k3"]
    named = [*deltas.DELTAS.items(), *losses.LOSSES.items(), *kl.KL.items(), *sorting.REWARDS.items()]
    assert all(function.__name__ == name for name, function in named)


def test_the_protocols_name_what_policies_and_tasks_must_offer():
    assert {"sample", "held_out", "rewards"} <= set(vars(rollout.Task))
    assert {"sample", "log_probs"} <= set(vars(policy.Policy))


def test_log_probs_are_float32_for_a_float32_policy():
    tokens = torch.zeros(2, 3, 3, dtype=torch.long)
    assert policy.SortingPolicy().log_probs(tokens[:, 0], tokens, tokens == 0).dtype == torch.float32


def test_everything_that_minirl_offers_is_there():
    assert all(hasattr(minirl, name) for name in minirl.__all__)
    shortcuts = {"Batch", "Rollout", "collect", "Config", "State", "SortingPolicy", "SortingTask"}
    assert {*CORE, *shortcuts} <= set(minirl.__all__)


def imported(path):
    """What a module imports, as dotted names; a name imported from minirl itself is one of its modules."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide what is imported"
            names = [f"minirl.{alias.name}" for alias in node.names] if node.module == "minirl" else [node.module]
            yield from names


@pytest.mark.parametrize("module", [*CORE, *AROUND])
def test_the_core_imports_only_torch_einops_jaxtyping_and_itself(module):
    for name in imported(PACKAGE / f"{module}.py"):
        allowed = name if name.startswith("minirl") else name.split(".")[0]
        assert allowed in CORE_MAY_IMPORT, f"minirl.{module} imports {name}"


def test_minirl_itself_imports_nothing_until_a_name_is_used():
    assert {name.split(".")[0] for name in imported(PACKAGE / "__init__.py")} == {"importlib"}
    code = "import sys, minirl; assert 'torch' not in sys.modules; minirl.Config; assert 'torch' in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=PACKAGE.parent)
    with pytest.raises(AttributeError, match="module 'minirl' has no attribute 'Sorter'"):
        minirl.Sorter  # noqa: B018
    assert {*minirl.__all__} <= {*dir(minirl)}


IMPORT = """
import time, sys, torch
before, start = set(sys.modules), time.process_time()
from minirl import *
print(time.process_time() - start)
print(*sorted({name.split(".")[0] for name in set(sys.modules) - before}))
print(*(name for name in ("transformers", "matplotlib", "IPython", "ipywidgets") if name in sys.modules))
"""


def test_importing_minirl_costs_torch_and_nothing_else():
    """At most 0.15 s beyond torch, of the process's own time, so that a busy machine does not decide."""
    command = [sys.executable, "-c", IMPORT]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=PACKAGE.parent)
    seconds, new, heavy = done.stdout.split("\n")[:3]
    assert heavy == ""
    assert set(new.split()) <= {"minirl", "einops", "jaxtyping", "numpy", *sys.stdlib_module_names}
    assert float(seconds) <= 0.15
