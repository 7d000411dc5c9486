"""Rewards → deltas: how far each response of a group should be pushed up or down, compared with its group only."""

import torch
from jaxtyping import Float
from torch import Tensor


def raw(rewards: Float[Tensor, "batch group"]) -> Float[Tensor, "batch group"]:
    """δ = r. Unbiased; every rewarded response is pushed up, the mediocre ones too (REINFORCE, Williams 1992)."""
    return rewards


def max_only(rewards: Float[Tensor, "batch group"]) -> Float[Tensor, "batch group"]:
    """δ = r at the group's maximum, else 0 (CS336 lecture 17). Biased towards the best of a group; a tie keeps all."""
    return torch.where(rewards == rewards.amax(-1, keepdim=True), rewards, 0)


def centered(rewards: Float[Tensor, "batch group"]) -> Float[Tensor, "batch group"]:
    """δ = r − mean(r). Shrinks the expected gradient by (G−1)/G: a response is in its own baseline (arXiv:2503.20783).

    Exactly 0 in a tied group: rewards are first taken relative to the group's first, so that ties leave no float dust.
    """
    if rewards.shape[-1] < 2:
        raise ValueError("this delta compares the responses to a prompt; got 1, expected group_size ≥ 2 (or use raw)")
    relative = rewards - rewards[..., :1]
    return relative - relative.mean(-1, keepdim=True)


def leave_one_out(rewards: Float[Tensor, "batch group"]) -> Float[Tensor, "batch group"]:
    """δ = r − mean of the others = G/(G−1) · centered. Unbiased (RLOO, arXiv:2402.14740)."""
    return centered(rewards) * rewards.shape[-1] / (rewards.shape[-1] - 1)


def normalized(rewards: Float[Tensor, "batch group"], eps: float = 1e-6) -> Float[Tensor, "batch group"]:
    """δ = (r − mean) / (std + ε), std unbiased (GRPO, arXiv:2402.03300). Blind to the scale of rewards.

    Up-weights prompts whose rewards hardly vary: the nearly solved and the nearly hopeless.
    """
    return centered(rewards) / (rewards.std(-1, keepdim=True) + eps)


DELTAS = {delta.__name__: delta for delta in (raw, max_only, centered, leave_one_out, normalized)}
