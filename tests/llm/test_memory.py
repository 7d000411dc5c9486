"""The estimate against what autograd keeps, number by number, and against the peak that the machine saw."""

import json
import os
import sys
from dataclasses import asdict, replace

import pytest
import torch
from peak import measured
from tiny import Tokens, ragged_prompts, tiny_gpt2, tiny_qwen2
from transformers import Qwen2Config, Qwen2ForCausalLM

from minirl.experiments import fast
from minirl.llm.memory import (
    GIB,
    Memory,
    Workload,
    activation_bytes,
    available,
    checkpoint_layers,
    estimate,
    layer_bytes,
    parameter_count,
    refuse_if_too_large,
    smaller,
)
from minirl.llm.plans import SMALL, published
from minirl.llm.policy import LanguagePolicy

SHAPE = {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 176}
MEDIUM = {"hidden_size": 384, "num_attention_heads": 6, "num_key_value_heads": 2, "intermediate_size": 1536}
MEDIUM |= {"vocab_size": 16_000, "num_hidden_layers": 6, "tie_word_embeddings": True}


def kept_bytes(model, ids, bfloat16=False):
    """Bytes that autograd keeps from one forward pass over the layers."""
    with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
        return kept_by(model, lambda: model.base_model(input_ids=ids, use_cache=False))


def kept_by(model, work):
    """Bytes that autograd keeps from what `work` does, each storage once, without weights and their half copies."""
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    shapes = {parameter.shape for parameter in model.parameters() if parameter.dim() == 2}
    shapes |= {tuple(reversed(shape)) for shape in shapes}
    kept = {}

    def keep(tensor):
        place = tensor.untyped_storage()
        if place.data_ptr() not in weights and tuple(tensor.shape) not in shapes:
            kept[place.data_ptr()] = (place.nbytes(), tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        graph = work()  # noqa: F841 (what is kept lives as long as this)
    return sum(size for size, _ in kept.values())


@pytest.mark.parametrize("bfloat16", [False, True])
@pytest.mark.parametrize("other", [{}, {"hidden_size": 96, "num_key_value_heads": 4}, {"intermediate_size": 80}])
def test_a_layer_keeps_what_is_counted(bfloat16, other):
    """The difference between three layers and two; a few numbers a token, such as a norm's own, are left out."""
    ids, kept = torch.randint(0, 50, (8, 40)), []
    for layers in (2, 3):
        config = Qwen2Config(**{**SHAPE, **other}, vocab_size=50, num_hidden_layers=layers, tie_word_embeddings=True)
        kept.append(kept_bytes(Qwen2ForCausalLM(config), ids, bfloat16))
    assert (kept[1] - kept[0]) / ids.numel() == pytest.approx(layer_bytes(config, bfloat16), rel=0.01)


@pytest.mark.parametrize("micro_batch_size", [None, 2])
def test_a_micro_batch_keeps_what_is_counted(micro_batch_size):
    """All that autograd keeps from scoring a batch of equally long rows; the vocabulary weighs nothing."""
    config = Qwen2Config(**SHAPE, vocab_size=3, num_hidden_layers=4, tie_word_embeddings=True)
    policy = LanguagePolicy(Qwen2ForCausalLM(config), Tokens(), 24)
    prompts, responses = torch.randint(1, 3, (6, 40)), torch.full((6, 4, 24), 2)
    work = Workload(6, 4, 40, 24, micro_batch_size=micro_batch_size)
    some = slice(0, micro_batch_size)
    kept = kept_by(policy.model, lambda: policy.log_probs(prompts[some], responses[some], responses[some] == 2))
    assert kept == pytest.approx(activation_bytes(config, work), rel=0.1)


def test_checkpointing_keeps_a_layers_input(monkeypatch):
    ids, kept = torch.randint(0, 50, (8, 40)), []
    for layers in (2, 5):
        config = Qwen2Config(**SHAPE, vocab_size=50, num_hidden_layers=layers, tie_word_embeddings=True)
        model = Qwen2ForCausalLM(config)
        checkpoint_layers(model)
        kept.append(kept_bytes(model, ids))
    assert (kept[1] - kept[0]) / ids.numel() == pytest.approx(3 * 4 * config.hidden_size, rel=0.01)


@pytest.mark.parametrize("tied", [True, False])
def test_parameters_are_counted_without_making_them(tied):
    config = Qwen2Config(**SHAPE, vocab_size=50, num_hidden_layers=2, tie_word_embeddings=tied)
    assert parameter_count(config) == sum(weight.numel() for weight in Qwen2ForCausalLM(config).parameters())


def test_the_0_5b_model_has_its_published_size():
    """Qwen2.5-0.5B: 494,032,768 parameters."""
    config = published(SMALL)
    assert parameter_count(config) == 494_032_768
    memory = estimate(config, Workload(32, 8, 150, 300, micro_batch_size=1, bfloat16=True))
    assert memory.weights + memory.gradients + memory.optimizer == 16 * 494_032_768


def test_the_peak_is_what_is_always_there_the_largest_phase_and_an_eighth():
    parts = {
        "weights": 1,
        "gradients": 2,
        "optimizer": 4,
        "reference": 8,
        "half_copies": 16,
        "critic": 32,
    }  # always: 63
    phases = {"kv_cache": 3, "sampling_logits": 5, "scoring": 8, "activations": 2, "update_logits": 6}
    assert Memory(**parts, **phases).peak == (63 + 8) * 9 // 8
    for name, more, largest in (("scoring", 9, 9), ("sampling_logits", 7, 10), ("activations", 5, 11)):
        assert Memory(**parts, **{**phases, name: more}).peak == (63 + largest) * 9 // 8


SIZES = fast((8, 4, 24, 40), (4, 4, 24, 24))
PEAKS = {
    "plain": Workload(*SIZES),
    "checkpointing": Workload(*SIZES, checkpointing=True),
    "reference, one prompt at a time": Workload(*SIZES, micro_batch_size=1, reference=True),
}


@pytest.fixture(scope="module")
def peaks():
    """The measured ones, one workload after the other in one process."""
    settings = [{each: value for each, value in asdict(work).items() if each != "held_out"} for work in PEAKS.values()]
    return dict(zip(PEAKS, measured("peak.py", json.dumps([MEDIUM, settings])), strict=True))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak is read from /proc, which only Linux has")
@pytest.mark.parametrize("name", PEAKS)
def test_the_estimate_is_within_25_percent_of_the_measured_peak(name, peaks):
    """19 million parameters; glibc is told to give every freed tensor back, so that tensors are what is measured.

    With MINIRL_FAST=1 half the prompts and shorter responses: fewer activations beside the same weights.
    """
    assert estimate(Qwen2Config(**MEDIUM), PEAKS[name]).peak == pytest.approx(peaks[name], rel=0.25)


# ---- refusing


def test_what_fits_is_let_through_and_what_does_not_gets_the_smallest_change():
    config, work = Qwen2Config(**MEDIUM), Workload(32, 8, 100, 200, reference=True, held_out=100)
    peak = estimate(config, work).peak
    assert refuse_if_too_large(config, work, peak).peak == peak
    with pytest.raises(MemoryError, match=rf"needs about {peak / GIB:.1f} GiB .* it fits with micro_batch_size=16\n"):
        refuse_if_too_large(config, work, peak - 1)
    halved = estimate(config, replace(work, micro_batch_size=8)).peak
    with pytest.raises(MemoryError, match="it fits with micro_batch_size=8\n"):
        refuse_if_too_large(config, work, halved)
    with pytest.raises(MemoryError, match=r"use a smaller batch_size, fewer new tokens or a smaller model\nweights"):
        refuse_if_too_large(config, work, 10**6)


def test_every_change_that_is_offered_saves_memory_or_comes_with_one_that_does():
    config, work = Qwen2Config(**MEDIUM), Workload(8, 4, 50, 50, reference=True, held_out=64)
    offered = list(smaller(work))
    peak = estimate(config, work).peak
    assert all(estimate(config, other).peak <= peak for _, other in offered)
    words = [words for words, _ in offered]
    assert words[:3] == ["micro_batch_size=4", "micro_batch_size=2", "micro_batch_size=1"]
    assert "gradient_checkpointing" in words and "held_out_problems=8" in words
    assert words[-1] == (
        "micro_batch_size=1 and gradient_checkpointing and held_out_problems=8 and beta=0, so that no reference is kept"
    )


def test_an_evaluation_keeps_no_gradients():
    config, work = Qwen2Config(**MEDIUM), Workload(8, 4, 50, 50, training=False)
    memory = estimate(config, work)
    assert (memory.gradients, memory.optimizer, memory.activations, memory.update_logits) == (0, 0, 0, 0)
    assert [words for words, _ in smaller(work)] == ["batch_size=4", "batch_size=2", "batch_size=1"]


def test_larger_workloads_need_more():
    config, work = Qwen2Config(**MEDIUM), Workload(8, 4, 50, 50)
    least = estimate(config, work).peak
    for more in (
        {"batch_size": 16},
        {"group_size": 8},
        {"new_tokens": 100},
        {"prompt_tokens": 100},
        {"reference": True},
    ):
        assert estimate(config, replace(work, **more)).peak > least, more
    assert estimate(config, replace(work, bfloat16=True)).activations < estimate(config, work).activations
    assert activation_bytes(config, replace(work, checkpointing=True)) < activation_bytes(config, work) / 2


def test_available_memory_is_what_the_machine_has(monkeypatch):
    free = available(torch.device("cpu"))
    assert 10**8 < free < os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    monkeypatch.setitem(sys.modules, "psutil", None)
    assert 10**7 < available(torch.device("cpu")) < os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (7, 80))
    assert available(torch.device("cuda")) == 7


# ---- checkpointing


@pytest.mark.parametrize("make", [tiny_qwen2, tiny_gpt2])
def test_checkpointed_layers_give_the_same_samples_scores_and_gradients(make):
    plain, saving = (LanguagePolicy(make().double(), Tokens(), 8) for _ in range(2))
    checkpoint_layers(saving.model)
    prompts, found = ragged_prompts(), []
    for policy in (plain, saving):
        responses, mask = policy.sample(prompts, 3, torch.Generator().manual_seed(0))
        scores = policy.log_probs(prompts, responses, mask)
        scores.square().sum().backward()
        again, _ = policy.sample(prompts, 3, torch.Generator().manual_seed(0))
        assert torch.equal(responses, again)
        found.append([responses, scores.detach(), *(weight.grad for weight in policy.parameters())])
    close = {"rtol": 1e-4, "atol": 1e-4} if make is tiny_qwen2 else {}  # its norms are float32
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, **close)


def test_a_model_without_attention_gets_a_sentence_and_one_inside_another_is_counted():
    from transformers import Gemma3Config, MambaConfig

    with pytest.raises(ValueError, match="MambaConfig has no num_attention_heads"):
        estimate(MambaConfig(), Workload(8, 4, 50, 50))
    text = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "head_dim": 16}
    whole = Gemma3Config(text_config={**text, "num_key_value_heads": 1, "intermediate_size": 64})
    assert estimate(whole, Workload(8, 4, 50, 50)) == estimate(whole.get_text_config(), Workload(8, 4, 50, 50))
