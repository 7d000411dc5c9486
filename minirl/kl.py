"""KL(π‖π_ref) in nats: three estimators from samples of π, with r = π_ref/π, and the exact value.

As *values* k1 and k3 are unbiased, k2 is not. As *losses*, with the gradient taken through them, k1 gives 0 on average,
k2 the gradient of KL(π‖π_ref), k3 that of KL(π_ref‖π), each of the next token. For the KL of whole responses that are
written token by token, only k1 in the *reward* is exact. (Schulman, "Approximating KL Divergence", 2020.)
"""

import torch
from jaxtyping import Float
from torch import Tensor


def k1(log_probs: Float[Tensor, "*axes"], ref_log_probs: Float[Tensor, "*axes"]) -> Float[Tensor, "*axes"]:
    """−log r: unbiased, noisy, often negative."""
    return log_probs - ref_log_probs


def k2(log_probs: Float[Tensor, "*axes"], ref_log_probs: Float[Tensor, "*axes"]) -> Float[Tensor, "*axes"]:
    """½(log r)²: biased as a value, right as a loss for KL(π‖π_ref)."""
    return (ref_log_probs - log_probs) ** 2 / 2


def k3(log_probs: Float[Tensor, "*axes"], ref_log_probs: Float[Tensor, "*axes"]) -> Float[Tensor, "*axes"]:
    """r − 1 − log r: unbiased, never negative, usually steadier than k1; part of GRPO's loss (arXiv:2402.03300)."""
    return torch.expm1(ref_log_probs - log_probs) - (ref_log_probs - log_probs)


KL = {"k1": k1, "k2": k2, "k3": k3}


def exact(logits: Float[Tensor, "*axes vocab"], ref_logits: Float[Tensor, "*axes vocab"]) -> Float[Tensor, "*axes"]:
    """Σ_a π(a)·(log π(a) − log π_ref(a)) over the vocabulary; a token that π never picks (logit −inf) adds 0."""
    log_p, log_q = logits.log_softmax(-1), ref_logits.log_softmax(-1)
    return (log_p.exp() * (log_p - log_q).masked_fill(log_p == -torch.inf, 0)).sum(-1)
