"""Log-probs and deltas → losses per token, and the weights that add them up: loss = (per_token * weights).sum()."""

from minirl.kl import KL
from minirl.rollout import Mask, PerResponse, PerToken, Rollout


def naive(log_probs: PerToken, deltas: PerResponse) -> PerToken:
    """−δ·log π: the policy gradient, right only for samples of the current policy (Williams 1992)."""
    return -deltas[..., None] * log_probs


def probability_ratio(log_probs: PerToken, old_log_probs: PerToken) -> PerToken:
    """ρ = exp(log π − log π_old), with π_old frozen: left in the graph, ρ would be constantly 1 and its gradient 0."""
    return (log_probs - old_log_probs.detach()).exp()


def unclipped(log_probs: PerToken, old_log_probs: PerToken, deltas: PerResponse) -> PerToken:
    """−ρδ: importance-weighted for samples of an older policy, token by token; at ρ = 1 its gradient is naive's.

    Unbiased off-policy for responses of one token; for longer ones the exact weight is the whole response's ratio.
    """
    return -probability_ratio(log_probs, old_log_probs) * deltas[..., None]


def clipped(
    log_probs: PerToken, old_log_probs: PerToken, deltas: PerResponse, clip_low: float = 0.2, clip_high: float = 0.2
) -> PerToken:
    """−min(ρδ, clip(ρ, 1−ε_low, 1+ε_high)·δ) (PPO, arXiv:1707.06347; two epsilons: DAPO, arXiv:2503.14476).

    No gradient where the policy has gone far enough its own way: ρ > 1+ε_high with δ > 0, ρ < 1−ε_low with δ < 0.
    """
    ratio, deltas = probability_ratio(log_probs, old_log_probs), deltas[..., None]
    return -(ratio * deltas).minimum(ratio.clamp(1 - clip_low, 1 + clip_high) * deltas)


LOSSES = {"naive": naive, "unclipped": unclipped, "clipped": clipped}


def token_losses(log_probs: PerToken, rollout: Rollout, deltas: PerResponse, config) -> PerToken:
    """The configured policy loss of each token, plus β·KL where the KL belongs to the loss."""
    old, clip = rollout.old_log_probs, (config.clip_low, config.clip_high)
    arguments = {"naive": (deltas,), "unclipped": (old, deltas), "clipped": (old, deltas, *clip)}
    losses = LOSSES[config.loss](log_probs, *arguments[config.loss])
    if config.beta and config.kl_in == "loss":
        losses = losses + config.beta * KL[config.kl](log_probs, rollout.ref_log_probs)
    return losses


AGGREGATIONS = {  # the divisor of each token's loss, from the mask [batch group token] and `constant`
    "sequence": lambda mask, constant: mask.sum(-1, keepdim=True).clamp(min=1) * float(mask.shape[0] * mask.shape[1]),
    "token": lambda mask, constant: mask.sum().clamp(min=1),
    "constant": lambda mask, constant: mask.shape[0] * mask.shape[1] * float(constant or mask.shape[2]),
}


def token_weights(mask: Mask, how: str = "sequence", constant: float | None = None) -> PerToken:
    """The weight of each token, set for the whole batch at once: then any split into micro-batches adds up exactly.

    "sequence": 1/(B·G·response length), every response counts the same (GRPO).  "token": 1/number of tokens, every
    token counts the same (DAPO).  "constant": 1/(B·G·constant), no length bias (Dr. GRPO); `constant` defaults to T.
    A response without tokens is one of the B·G and weighs nothing.
    """
    if how not in AGGREGATIONS:
        raise ValueError(f"unknown aggregation {how!r}; expected one of {', '.join(AGGREGATIONS)}")
    if constant is not None and not constant > 0:
        raise ValueError(f"constant divides the loss and must be positive; got {constant}")
    return mask / AGGREGATIONS[how](mask, constant)
