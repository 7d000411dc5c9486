"""Log-probs and deltas → losses per token, and the weights that add them up: loss = (per_token * weights).sum()."""

from jaxtyping import Float
from torch import Tensor

from minirl.rollout import Mask, PerResponse, PerToken

Deltas = PerResponse | PerToken  # one for a whole response, or, from a critic, one for each token


def spread(deltas: Deltas) -> Float[Tensor, "batch group #token"]:
    """With a token axis: the delta of a response goes to each of its tokens."""
    return deltas if deltas.ndim == 3 else deltas[..., None]


def naive(log_probs: PerToken, deltas: Deltas) -> PerToken:
    """−δ·log π: the policy gradient, right only for samples of the current policy (Williams 1992)."""
    return -spread(deltas) * log_probs


def probability_ratio(log_probs: PerToken, old_log_probs: PerToken) -> PerToken:
    """ρ = exp(log π − log π_old), with π_old frozen: left in the graph, ρ would be constantly 1 and its gradient 0."""
    return (log_probs - old_log_probs.detach()).exp()


def unclipped(log_probs: PerToken, old_log_probs: PerToken, deltas: Deltas) -> PerToken:
    """−ρδ: importance-weighted for samples of an older policy, token by token; at ρ = 1 its gradient is naive's.

    Unbiased off-policy for responses of one token; for longer ones the exact weight is the whole response's ratio.
    """
    return -probability_ratio(log_probs, old_log_probs) * spread(deltas)


def clipped(
    log_probs: PerToken,
    old_log_probs: PerToken,
    deltas: Deltas,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual_clip: float | None = None,
) -> PerToken:
    """−min(ρδ, clip(ρ, 1−ε_low, 1+ε_high)·δ) (PPO, arXiv:1707.06347; two epsilons: DAPO, arXiv:2503.14476).

    No gradient where the policy has gone far enough its own way: ρ > 1+ε_high with δ > 0, ρ < 1−ε_low with δ < 0.
    `dual_clip` = c bounds what a bad token can cost that has become likely: at most −cδ where δ < 0 (arXiv:1912.09729).
    """
    ratio, deltas = probability_ratio(log_probs, old_log_probs), spread(deltas)
    losses = -(ratio * deltas).minimum(ratio.clamp(1 - clip_low, 1 + clip_high) * deltas)
    return losses if dual_clip is None else losses.minimum(dual_clip * deltas.abs())  # where δ > 0, losses are below 0


LOSSES = {"naive": naive, "unclipped": unclipped, "clipped": clipped}


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
