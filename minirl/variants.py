"""What published methods add to the core's deltas and losses, each a few lines; `minirl.recipes` puts them together."""

from jaxtyping import Float
from torch import Tensor

from minirl.deltas import centered
from minirl.groups import with_signal
from minirl.losses import Deltas, naive, probability_ratio, spread
from minirl.rollout import Mask, PerToken


def batch_normalized(rewards: Float[Tensor, "batch group"], eps: float = 1e-6) -> Float[Tensor, "batch group"]:
    """δ = (r − mean) / (std of all r − mean in the batch + ε): one scale for all prompts (arXiv:2501.03262).

    Blind to the scale of rewards, like `normalized`, without preferring prompts whose rewards hardly vary.
    """
    differences = centered(rewards)
    return differences / (differences.std() + eps)


def rescaled(rewards: Float[Tensor, "batch group"]) -> Float[Tensor, "batch group"]:
    """δ = B/(B − M)·(r − mean), where M of the B groups are tied (GPG, arXiv:2504.02546).

    The mean over the batch is then a mean over the groups that say something, as if the tied had not been drawn.
    """
    return centered(rewards) * len(rewards) / max(len(with_signal(rewards)), 1)


DELTAS = {"batch_normalized": batch_normalized, "rescaled": rescaled}


def sequence_level(log_probs: PerToken, old_log_probs: PerToken, mask: Mask) -> PerToken:
    """Log-probs that give every token the ratio of its response, (π/π_old)^(1/length) (GSPO, arXiv:2507.18071).

    Then a clip keeps or drops whole responses. The root is taken of a product of many ratios, so clip much closer to 1.
    """
    difference = (log_probs - old_log_probs.detach()).masked_fill(~mask, 0)
    mean = difference.sum(-1, keepdim=True) / mask.sum(-1, keepdim=True).clamp(min=1)
    return (old_log_probs.detach() + mean).masked_fill(~mask, 0)


def clipped_weight(
    log_probs: PerToken, old_log_probs: PerToken, deltas: Deltas, clip_low: float = 0.2, clip_high: float = 0.2
) -> PerToken:
    """−clip(ρ, 1−ε_low, 1+ε_high)·δ·log π, the ratio without a graph (CISPO, arXiv:2506.13585).

    The clip bounds how much a token weighs and silences none; 1 − ε_low ≤ 0 leaves only the upper bound, as published.
    """
    weight = probability_ratio(log_probs, old_log_probs).detach().clamp(1 - clip_low, 1 + clip_high)
    return weight * naive(log_probs, deltas)


def squared(log_probs: PerToken, old_log_probs: PerToken, deltas: Deltas, tau: float = 0.1) -> PerToken:
    """(δ − τ·Σ_t log π/π_old)², the same at each token, so weigh them by "sequence" (Kimi k1.5, arXiv:2501.12599).

    Its gradient is 2τ times that of −δ·log π + τ/2·(log π/π_old)²: a policy gradient held near the old policy by a
    square and not by a clip, so that even δ = 0 pulls back once the policy has moved.
    """
    drift = (log_probs - old_log_probs.detach()).sum(-1, keepdim=True)
    return (spread(deltas) - tau * drift).square().expand_as(log_probs)


LOSSES = {"clipped_weight": clipped_weight, "squared": squared}
