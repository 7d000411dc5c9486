"""Tests that cannot fail test nothing: every wrong version in `mutants` must fail the test named there.

With MINIRL_FAST=1, of those outside the core only every fifth is run.
"""

import multiprocessing
import os
import sys

import pytest
from mutants import MUTANTS, Mutant, outcome, source

CORE = {"deltas", "losses", "kl", "rollout", "policy", "sorting", "exact", "metrics", "train"}
AROUND = {"config", "objective", "variants", "groups"}
LANGUAGE = {f"llm.{name}" for name in ("policy", "task", "gsm8k", "memory", "evaluation", "word_problems")}
BEYOND = {"checkpoint", "critic", "preferences", "recipes", "shaping", "evaluate"}
STRIDE = 5 if os.environ.get("MINIRL_FAST") == "1" else 1
ASKED = [each for each in MUTANTS if each.module in CORE | AROUND]
ASKED += [each for each in MUTANTS if each.module not in CORE | AROUND][::STRIDE]
PRELOAD = ["torch._dynamo", "torch.distributed.tensor", "pytest", "einops", "jaxtyping", "beartype", "tqdm.auto"]
PRELOAD += ["transformers.models.qwen2.modeling_qwen2", "transformers.models.gpt2.modeling_gpt2"]
PRELOAD += ["transformers.generation.configuration_utils", "safetensors.torch", "psutil"]


def label(mutant: Mutant) -> str:
    return f"{mutant.module}: {mutant.what}"


def test_every_mutant_has_a_name_and_every_module_has_some():
    assert len({label(mutant) for mutant in MUTANTS}) == len(MUTANTS) >= 550
    assert {mutant.module for mutant in MUTANTS} >= CORE | AROUND | LANGUAGE | BEYOND


@pytest.mark.parametrize("mutant", MUTANTS, ids=label)
def test_every_mutant_changes_exactly_one_place_and_still_compiles(mutant):
    assert source(mutant.module).count(mutant.original) == 1
    assert mutant.mutated != mutant.original
    compile(source(mutant.module).replace(mutant.original, mutant.mutated), mutant.module, "exec")


@pytest.fixture(scope="module")
def pool():
    """Processes that each import torch once and the package never: every task runs in a fresh copy of one."""
    context = multiprocessing.get_context("spawn" if sys.platform == "win32" else "forkserver")
    if sys.platform != "win32":
        context.set_forkserver_preload(PRELOAD)
    with context.Pool(min(os.cpu_count() or 1, 4), maxtasksperchild=1) as pool:
        yield pool


@pytest.fixture(scope="module")
def results(request, pool):
    """The outcome of each mutant that this session asks for; they run while the tests wait for the first of them."""
    items = [item for item in request.session.items if "results" in getattr(item, "fixturenames", ())]
    asked = [item.callspec.params["mutant"] for item in items]
    return {mutant: pool.apply_async(outcome, ([mutant.killed_by], mutant)) for mutant in asked}


@pytest.mark.parametrize("mutant", ASKED, ids=label)
def test_the_mutant_is_killed(mutant, results):
    _, failures, printed = results[mutant].get(timeout=300)
    assert failures, f"{mutant.killed_by} did not notice that {label(mutant)}\n{printed}"
    own, how = failures[0]
    assert own, f"{mutant.killed_by} failed, but not by an assertion of its own: {how}"


@pytest.mark.parametrize("file", sorted({mutant.killed_by.split("::")[0] for mutant in MUTANTS}))
def test_the_code_as_it_is_passes_the_same_tests(file, pool):
    tests = sorted({mutant.killed_by for mutant in MUTANTS if mutant.killed_by.startswith(file)})
    ran, failures, printed = pool.apply(outcome, (tests,))
    assert not failures, printed
    assert ran >= len(tests)
