"""From settings to the loss of each token: the policy's, the price of leaving the reference, and what is imitated."""

from dataclasses import replace

from jaxtyping import Bool
from torch import Tensor

from minirl.config import LOSSES, Config
from minirl.kl import KL
from minirl.losses import Deltas, spread, token_weights
from minirl.rollout import PerToken, Rollout
from minirl.variants import sequence_level


def token_losses(log_probs: PerToken, rollout: Rollout, deltas: Deltas, config: Config) -> PerToken:
    """The configured policy loss of each token, plus β·KL where the KL belongs to the loss, plus what is imitated."""
    old, clip = rollout.old_log_probs, (config.clip_low, config.clip_high)
    arguments = {"clipped": (*clip, config.dual_clip), "clipped_weight": clip, "squared": (config.tau,)}
    sampled = () if config.loss == "naive" else (old,)
    current = sequence_level(log_probs, old, rollout.mask) if config.ratio == "sequence" else log_probs
    losses = LOSSES[config.loss](current, *sampled, deltas, *arguments.get(config.loss, ()))
    if config.beta and config.kl_in == "loss":
        losses = losses + config.beta * KL[config.kl](log_probs, rollout.ref_log_probs)
    return losses if rollout.imitation is None else losses - rollout.imitation * log_probs


def silent(rollout: Rollout, deltas: Deltas, config) -> Bool[Tensor, "batch group 1"]:
    """Responses without a gradient: delta 0 at every token, and nothing else in the loss that would move them."""
    pulled = config.loss == "squared" or (config.beta and config.kl_in == "loss")
    moved = spread(deltas) if rollout.imitation is None else spread(deltas).abs() + rollout.imitation
    return (moved == 0).all(-1, keepdim=True) & (not pulled)


def with_imitation(rollout: Rollout, weights: PerToken, config: Config) -> Rollout:
    """μ·(mean of −log π over the tokens of right responses) joins the loss (VAPO, arXiv:2504.05118)."""
    if not config.positive_weight:
        return rollout
    positive = token_weights(rollout.mask & (rollout.rewards > config.positive_above)[..., None], "token")
    relative = positive / weights.where(weights > 0, 1)  # all losses are weighed once more
    return replace(rollout, imitation=config.positive_weight * relative)
