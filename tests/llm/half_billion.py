"""Qwen2.5-0.5B's architecture with random weights, in a process of its own: prints what `test_half_billion` asks.

First whether a left-padded batch says what each prompt says alone, then one GRPO step and the peak of main memory that
it took, weights included. With MINIRL_FAST=1 the model has fewer layers and tokens. Linux only: it reads and resets the
peak in /proc.
"""

import gc
import json
import time
from unittest import mock

import torch
from peak import Noise, Tokens, memory, reset_peak
from transformers import Qwen2Config, Qwen2ForCausalLM

from minirl import Config
from minirl.experiments import fast
from minirl.llm.memory import Workload, estimate
from minirl.llm.policy import LanguagePolicy
from minirl.train import train

CONFIG = Qwen2Config(
    vocab_size=fast(151_936, 16_384),
    hidden_size=896,
    num_hidden_layers=fast(24, 2),
    num_attention_heads=14,
    num_key_value_heads=2,
    intermediate_size=4864,
    tie_word_embeddings=True,
    rope_theta=1e6,
    max_position_embeddings=32_768,
)
LENGTHS, GROUP_SIZE, NEW_TOKENS = (3, 12, 7), 2, 8


def random_model():
    """Uniform weights with the usual spread, and a last norm that makes some tokens far likelier than others.

    Made without memory first, since 0.5 billion normal numbers take a while that no test needs.
    """
    with torch.device("meta"):
        model = Qwen2ForCausalLM(CONFIG)
    model.to_empty(device="cpu").tie_weights()
    rotary = model.model.rotary_emb
    model.model.rotary_emb = type(rotary)(CONFIG)
    torch.manual_seed(0)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.fill_(1.0) if "norm" in name else weight.uniform_(-0.04, 0.04)
        model.model.norm.weight.fill_(8.0)
    return model


def batch_and_alone(policy):
    """The largest difference of log-probs, and whether the same noise draws the same tokens, both batched and alone."""
    prompts, new_tokens = torch.randint(2, CONFIG.vocab_size, (len(LENGTHS), max(LENGTHS))), policy.max_new_tokens
    for row, length in enumerate(LENGTHS):
        prompts[row, : max(LENGTHS) - length] = policy.pad_id
    noise = torch.rand(new_tokens, len(prompts) * GROUP_SIZE, dtype=torch.float64)
    with mock.patch("torch.rand", lambda *_, **__: noise):
        responses, mask = policy.sample(prompts, GROUP_SIZE)
    log_probs, difference, same = policy.score(prompts, responses, mask)[0], 0.0, True
    for row, length in enumerate(LENGTHS):
        alone = prompts[[row], -length:]
        with mock.patch("torch.rand", lambda *_, row=row, **__: noise[:, row * GROUP_SIZE : (row + 1) * GROUP_SIZE]):
            again, _ = policy.sample(alone, GROUP_SIZE)
        same &= torch.equal(again[0], responses[row, :, : again.shape[-1]])
        scored = policy.score(alone, responses[[row]], mask[[row]])[0]
        difference = max(difference, (scored[0] - log_probs[row]).abs().max().item())
    spread = {"mean": log_probs.mean().item(), "distinct": responses.unique().numel(), "noise": noise.std().item()}
    return {"difference": difference, "same_tokens": same, **spread}


def one_step(policy):
    """One epoch of one inner step; 2 prompts × 2 responses, prompt by prompt."""
    before = [weight[:8].detach().clone() for weight in policy.parameters()]
    settings = {"batch_size": 2, "group_size": GROUP_SIZE, "micro_batch_size": 1}
    (metrics,) = train(policy, Noise(12, CONFIG.vocab_size), Config(epochs=1, inner_steps=1, **settings))
    moved = [not torch.equal(old, weight[:8]) for old, weight in zip(before, policy.parameters(), strict=True)]
    expected = estimate(CONFIG, Workload(prompt_tokens=12, new_tokens=NEW_TOKENS, **settings)).peak
    size = sum(weight.numel() for weight in policy.parameters())
    return {"metrics": metrics, "moved": sum(moved) / len(moved), "weights": size, "estimate": expected}


def timed(work, *arguments):
    start = time.perf_counter()
    return work(*arguments), time.perf_counter() - start


if __name__ == "__main__":
    torch.set_num_threads(1)
    gc.collect()
    before = memory("VmRSS")
    model, making = timed(random_model)
    found, comparing = timed(batch_and_alone, LanguagePolicy(model, Tokens(), 5))
    gc.collect()
    reset_peak()
    step, training = timed(one_step, LanguagePolicy(model, Tokens(), NEW_TOKENS))
    found |= {**step, "peak": memory("VmHWM") - before}
    print(json.dumps({**found, "seconds": {"making": making, "comparing": comparing, "training": training}}))
