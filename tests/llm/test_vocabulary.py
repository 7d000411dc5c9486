"""Qwen's vocabulary of 151,936: the logits of all tokens never exist at once, and the gradient is the same."""

import pytest
import torch
from peak import free_gigabytes, measured
from safetensors.torch import load_file

from minirl.experiments import fast

FULL = 14, 8, 512  # GB of free memory that the plain way takes with room to spare, rows, and tokens in each
QUARTER = 5, 2, 512
SIXTH = 2.5, 2, 320


def test_log_probs_take_a_quarter_of_the_memory_and_have_the_same_gradient(tmp_path):
    """Forward and backward, 8 × 512 tokens, or 2 × 512 where the plain way's 7.5 GB would be missed by others.

    With MINIRL_FAST=1 2 × 320, about the fewest of which a quarter is more than the one chunk that is always there.
    """
    needed, rows, tokens = fast(FULL if free_gigabytes() >= FULL[0] else QUARTER, SIXTH)
    if free_gigabytes() < needed:
        pytest.skip(f"the plain way needs {needed} GB of free memory, read from /proc; here are {free_gigabytes():.0f}")
    peak = measured("vocabulary.py", rows, tokens, tmp_path)
    assert peak["plain"] > 2 * 4 * rows * tokens * 151_936, "the plain way keeps logits and their log-softmax"
    assert peak["ours"] <= peak["plain"] / 4, peak
    ours, plain = (load_file(tmp_path / way) for way in ("ours", "plain"))
    assert min(values.abs().max() for values in plain.values()) > 1
    for name, expected in plain.items():
        size = expected.abs().max().item()
        torch.testing.assert_close(ours[name], expected, rtol=1e-4, atol=1e-6 * size, msg=lambda text, n=name: n + text)
