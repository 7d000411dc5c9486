"""Log-probs and their gradient with Qwen's vocabulary of 151,936, in a process of its own.

Run with a number of rows, a number of tokens and a folder: "ours" scores with LanguagePolicy, "plain" takes the
log-softmax of all the logits. The gradients and log-probs are written to a file of that name in the folder; printed are
the peaks of main memory, as in `peak`.
"""

import gc
import json
import sys
from pathlib import Path

import torch
from peak import Tokens, memory, reset_peak
from safetensors.torch import save_file
from transformers import Qwen2Config, Qwen2ForCausalLM

from minirl.llm.policy import LanguagePolicy

VOCAB_SIZE = 151_936
PROMPT = (3, 1, 4, 1, 5)


def model(vocab_size=VOCAB_SIZE):
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=vocab_size,
        hidden_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        intermediate_size=64,
        tie_word_embeddings=True,
        initializer_range=0.2,
    )
    return Qwen2ForCausalLM(config)


def plain(network, prompts, responses, mask):
    """Logits at every response position, their log-softmax, and of that the tokens that were said."""
    rows = torch.cat([prompts, responses[0]], 1)
    logits = network(input_ids=rows).logits[:, prompts.shape[1] - 1 : -1]
    return logits.log_softmax(-1).gather(-1, responses[0][..., None]).squeeze(-1)[None] * mask


def ours(network, prompts, responses, mask):
    return LanguagePolicy(network, Tokens(), responses.shape[2]).log_probs(prompts[:1], responses, mask)


def scored(way, network, rows, tokens):
    """Log-probs of random responses to one prompt, after a backward pass of a sum with weights of both signs."""
    draw = torch.Generator().manual_seed(1)
    responses = torch.randint(2, network.config.vocab_size, (1, rows, tokens), generator=draw)
    log_probs = way(network, torch.tensor(PROMPT).expand(rows, -1), responses, torch.ones_like(responses).bool())
    (log_probs * torch.randn(log_probs.shape, generator=draw)).sum().backward()
    return log_probs.detach()


def peak(way, rows, tokens):
    """How far main memory rose, the log-probs and the gradients."""
    network = model()
    gc.collect()
    reset_peak()
    before = memory("VmRSS")
    log_probs = scored(way, network, rows, tokens)
    return memory("VmHWM") - before, log_probs, {name: weight.grad for name, weight in network.named_parameters()}


if __name__ == "__main__":
    torch.set_num_threads(1)
    rows, tokens, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    found = {}
    for name, way in {"ours": ours, "plain": plain}.items():
        scored(way, model(vocab_size=50), 2, 4)
        found[name], log_probs, gradients = peak(way, rows, tokens)
        save_file(gradients | {"log_probs": log_probs}, folder / name)
        del log_probs, gradients
    print(json.dumps(found))
