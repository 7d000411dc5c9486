"""Qwen's vocabulary of 151,936: the logits of all tokens never exist at once, and the gradient is the same."""

import pytest
import torch
from peak import free_gigabytes, measured
from safetensors.torch import load_file

FULL = 14, 8  # GB of free memory that the plain way takes with room to spare, and rows of 512 tokens
QUARTER = 5, 2


def test_log_probs_take_a_quarter_of_the_memory_and_have_the_same_gradient(tmp_path):
    """Forward and backward, 8 × 512 tokens, or 2 × 512 where the plain way's 7.5 GB would be missed by others."""
    needed, rows = FULL if free_gigabytes() >= FULL[0] else QUARTER
    if free_gigabytes() < needed:
        pytest.skip(f"the plain way needs {needed} GB of free memory, read from /proc; here are {free_gigabytes():.0f}")
    peak = {way: measured("vocabulary.py", way, rows, tmp_path / way)["peak"] for way in ("ours", "plain")}
    assert peak["plain"] > 2 * 4 * rows * 512 * 151_936, "the plain way keeps logits and their log-softmax"
    assert peak["ours"] <= peak["plain"] / 4, peak
    ours, plain = (load_file(tmp_path / way) for way in ("ours", "plain"))
    assert min(values.abs().max() for values in plain.values()) > 1
    for name, expected in plain.items():
        size = expected.abs().max().item()
        torch.testing.assert_close(ours[name], expected, rtol=1e-4, atol=1e-6 * size, msg=lambda text, n=name: n + text)
