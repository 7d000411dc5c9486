"""Tiny random transformers and a stand-in for a tokenizer: enough to test a language policy without any text."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Qwen2Config, Qwen2ForCausalLM


class Tokens:
    """The two ids that a policy asks of a tokenizer."""

    def __init__(self, pad_token_id=0, eos_token_id=1):
        self.pad_token_id, self.eos_token_id = pad_token_id, eos_token_id


def tiny_qwen2(vocab_size=19, hidden=32, layers=2, seed=0, scale=0.4, **settings):
    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=vocab_size,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=2 * hidden,
        tie_word_embeddings=True,
        max_position_embeddings=64,
        initializer_range=scale,
        **settings,
    )
    return Qwen2ForCausalLM(config)


def tiny_gpt2(vocab_size=19, hidden=32, layers=2, seed=0, scale=0.4):
    """Absolute positions: they show a wrong position id that rotary ones hide."""
    torch.manual_seed(seed)
    config = GPT2Config(
        vocab_size=vocab_size,
        n_embd=hidden,
        n_layer=layers,
        n_head=4,
        n_positions=64,
        initializer_range=scale,
        bos_token_id=1,
        eos_token_id=1,
    )
    return GPT2LMHeadModel(config)


def ragged_prompts(batch=5, width=7, vocab_size=19, seed=1):
    """Left-padded prompts of different lengths, without token 0 (padding) and 1 (end) inside."""
    generator = torch.Generator().manual_seed(seed)
    prompts = torch.randint(2, vocab_size, (batch, width), generator=generator)
    for row in range(batch):
        prompts[row, : row % (width - 1)] = 0
    return prompts
