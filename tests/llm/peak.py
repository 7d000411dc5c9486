"""Epochs of a random Qwen2 in a process of their own: prints the peaks of main memory above what was there before.

Run with the model's settings and each workload's as JSON. Linux only: it reads and resets the peak in /proc.
"""

import gc
import json
import os
import subprocess
import sys
from pathlib import Path

import torch
from torch.utils.checkpoint import checkpoint
from transformers import Qwen2Config, Qwen2ForCausalLM

from minirl import Batch, Config
from minirl.llm.memory import checkpoint_layers
from minirl.llm.policy import LanguagePolicy
from minirl.train import train


class Tokens:
    pad_token_id, eos_token_id = 0, 1


class Noise:
    """Random prompts and random rewards."""

    def __init__(self, length, vocab_size):
        self.length, self.vocab_size = length, vocab_size

    def sample(self, batch_size, generator=None):
        prompts = torch.randint(2, self.vocab_size, (batch_size, self.length), generator=generator)
        return Batch(prompts, [""] * batch_size)

    def held_out(self):
        return self.sample(1)

    def rewards(self, batch, responses, mask):
        return torch.rand(responses.shape[:2])


def two_epochs(model, work):
    network = Qwen2ForCausalLM(Qwen2Config(**model))
    if work["checkpointing"]:
        checkpoint_layers(network)
    policy = LanguagePolicy(network, Tokens(), work["new_tokens"])
    settings = {name: work[name] for name in ("batch_size", "group_size", "micro_batch_size")}
    config = Config(epochs=2, inner_steps=1, beta=0.1 * work["reference"], **settings)
    for _ in train(policy, Noise(work["prompt_tokens"], model["vocab_size"]), config):
        pass


def memory(name):
    """VmRSS or VmHWM of this process, in bytes."""
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


def measured(script, *words):
    """What a script of this folder prints, run so that glibc gives every freed tensor back to the system."""
    path = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, "MALLOC_MMAP_THRESHOLD_": "131072"}
    command = [sys.executable, str(Path(__file__).parent / script), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def free_gigabytes():
    """What Linux can give a new process without pushing others out, 0 elsewhere."""
    if not sys.platform.startswith("linux"):
        return 0
    with open("/proc/meminfo") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable")) / 1e9


def reset_peak():
    """VmHWM starts anew from what is in memory now."""
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def peak(model, work):
    """How far main memory rises."""
    gc.collect()
    reset_peak()
    before = memory("VmRSS")
    two_epochs(model, work)
    return memory("VmHWM") - before


if __name__ == "__main__":
    torch.set_num_threads(1)
    model, works = json.loads(sys.argv[1])
    small = {"vocab_size": 64, "hidden_size": 32, "num_attention_heads": 2, "num_key_value_heads": 1}
    small |= {"num_hidden_layers": 1, "intermediate_size": 32}
    for work in works:
        two_epochs({**model, **small}, {**work, "batch_size": 2, "new_tokens": 4, "micro_batch_size": None})
    once = torch.ones(2, requires_grad=True)  # what checkpointing imports when it is first used
    checkpoint(torch.exp, once, use_reentrant=False).sum().backward()
    print(json.dumps([peak(model, work) for work in works]))
