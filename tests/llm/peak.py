"""Two epochs of a random Qwen2 in a process of their own: prints the peak of main memory above what was there before.

Run with the model's and the workload's settings as JSON. Linux only: it reads and resets the peak in /proc.
"""

import gc
import json
import sys

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


if __name__ == "__main__":
    torch.set_num_threads(1)
    model, work = json.loads(sys.argv[1])
    small = {"vocab_size": 64, "hidden_size": 32, "num_attention_heads": 2, "num_key_value_heads": 1}
    small |= {"num_hidden_layers": 1, "intermediate_size": 32}
    two_epochs({**model, **small}, {**work, "batch_size": 2, "new_tokens": 4, "micro_batch_size": None})
    once = torch.ones(2, requires_grad=True)  # what checkpointing imports when it is first used
    checkpoint(torch.exp, once, use_reentrant=False).sum().backward()
    gc.collect()
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    before = memory("VmRSS")
    two_epochs(model, work)
    print(memory("VmHWM") - before)
