"""The architecture of Qwen2.5-0.5B, all 494,032,768 weights of it: batches, a GRPO step, and the memory estimate.

With MINIRL_FAST=1 two of its 24 layers and 16,384 of its 151,936 tokens: an eleventh of the weights, the same tests.
"""

import pytest
from peak import free_gigabytes, measured

from minirl.experiments import fast

NEEDED = fast(12, 1.5)  # GB: weights, gradient and Adam's two moments take 7.9, or 0.7
WEIGHTS = 151_936 * 896 + 24 * 14_912_384 + 896, 16_384 * 896 + 2 * 14_912_384 + 896  # embedding, layers, last norm


@pytest.fixture(scope="module")
def found():
    if free_gigabytes() < NEEDED:
        pytest.skip(f"a step needs {NEEDED} GB of free memory, read from /proc; here are {free_gigabytes():.0f}")
    return measured("half_billion.py")


def test_log_probs_in_a_padded_batch_are_those_of_each_prompt_alone(found):
    assert found["difference"] < 1e-4
    assert found["distinct"] > 20 and -6 < found["mean"] < -1, (
        "the test needs a model that is neither sure nor clueless"
    )


def test_samples_in_a_padded_batch_are_those_of_each_prompt_alone(found):
    assert found["same_tokens"] is True


def test_a_step_changes_the_weights(found):
    """Two prompts of two responses each; every matrix, bias and norm has moved."""
    assert WEIGHTS[0] == 494_032_768 and found["weights"] == fast(*WEIGHTS)
    assert found["metrics"]["grad_norm"] > 0 and found["metrics"]["zero_signal_groups"] == 0
    assert found["moved"] == 1


def test_the_estimate_is_within_25_percent_of_the_measured_peak(found):
    assert found["estimate"] == pytest.approx(found["peak"], rel=0.25)
