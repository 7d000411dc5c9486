"""Parts of a reward beside being right: length, language, the price of leaving the reference; and their weighted sum.

Each part is a number per response, [batch group], before any delta compares them. A part that shall come late (Kimi
k1.5's for length stalls a model that cannot answer yet) needs no schedule here: `train` yields after every epoch, and
whoever iterates may change the task's weights there.
"""

from collections.abc import Mapping

import torch
from jaxtyping import Bool, Float, Int, Real
from torch import Tensor

from minirl.critic import at_the_last_token
from minirl.kl import k1
from minirl.rollout import Batch, Mask, PerResponse, PerToken, Responses


def kimi_length_reward(
    lengths: Real[Tensor, "batch group"], correct: Bool[Tensor, "batch group"] | Float[Tensor, "batch group"]
) -> PerResponse:
    """λ = ½ − (length − min)/(max − min) within the group; a right response gets λ, a wrong one min(0, λ).

    From ½ for the shortest to −½ for the longest; a short wrong answer earns nothing by it. 0 for all where the
    lengths are equal, and so in a group of one (Kimi k1.5, arXiv:2501.12599).
    """
    if not ((correct == 0) | (correct == 1)).all():
        raise ValueError("correct must be 0 or 1 for each response; partial credit has no place in this reward")
    least, most = lengths.aminmax(dim=-1, keepdim=True)
    spread = most - least
    score = torch.where(spread > 0, 0.5 - (lengths - least) / torch.where(spread > 0, spread, 1), 0)
    return torch.where(correct == 1, score, score.clamp(max=0))


def soft_overlong_penalty(lengths: Real[Tensor, "*axes"], max_length: float, buffer: float) -> Float[Tensor, "*axes"]:
    """0 up to max_length − buffer, then down a straight line to −1 at max_length, −1 beyond (DAPO, arXiv:2503.14476).

    A response that is cut off for its length loses what it may have earned for sound reasoning; a slope before the
    cut tells the policy which way is shorter.
    """
    if not 0 < buffer <= max_length:
        raise ValueError(f"expected 0 < buffer ≤ max_length, in tokens; got buffer {buffer}, max_length {max_length}")
    return ((max_length - buffer - lengths) / buffer).clamp(-1, 0)


def share_of_tokens(responses: Responses, mask: Mask, allowed: Int[Tensor, " allowed"]) -> PerResponse:
    """The share of a response's tokens, inside the mask, that are among `allowed`; 0 for a response without tokens."""
    return (mask & torch.isin(responses, allowed)).sum(-1) / mask.sum(-1).clamp(min=1)


def language_consistency(
    responses: Responses, mask: Mask, target: Int[Tensor, " target"], other: Int[Tensor, " other"]
) -> PerResponse:
    """Words of the target language / words of either language (DeepSeek-R1, arXiv:2501.12948).

    Tokens in neither list, such as digits and the end token, count for nothing. A response without words gets 0, so
    that silence does not pay.
    """
    if len(both := target[torch.isin(target, other)]):
        raise ValueError(f"a token belongs to one language or to none; {both[0].item()} is in both lists")
    words = torch.isin(responses, torch.cat([target, other]))
    return share_of_tokens(responses, mask & words, target)


def per_token_rewards(
    rewards: PerResponse, log_probs: PerToken, ref_log_probs: PerToken, mask: Mask, beta: float
) -> PerToken:
    """−β·(log π − log π_ref) at each token, plus the outcome r at the last one inside the mask (arXiv:2203.02155).

    Sums to r − β·Σ k1, the reward of the whole response. What a critic learns from: it is told where the price was
    paid. Without a graph, since a reward is not differentiated; a response without tokens has nowhere to put r.
    """
    if not beta >= 0:
        raise ValueError(f"beta is the price of leaving the reference and must be at least 0; got {beta}")
    penalty = -beta * k1(log_probs, ref_log_probs).detach().masked_fill(~mask, 0)
    return penalty + at_the_last_token(rewards, mask)


def combined(weights: dict[str, float], parts: dict[str, PerResponse]) -> PerResponse:
    """Σ weight·part, by name. A weight of 0 keeps a part in sight of the metrics and out of the reward.

    Weights trade one good for another at a fixed price: a part that is easy to earn can outweigh being right.
    """
    if not weights or weights.keys() != parts.keys():
        missing, unknown = sorted(weights.keys() - parts.keys()), sorted(parts.keys() - weights.keys())
        raise ValueError(
            f"expected one part per weight, and at least one; parts missing: {missing}, unknown: {unknown}"
        )
    if len(shapes := {tuple(part.shape) for part in parts.values()}) > 1:
        raise ValueError(f"expected parts of one shape, [batch group]; got {sorted(shapes)}")
    return sum(weight * parts[name] for name, weight in weights.items())


PARTS = ("length", "overlong")


class Shaped:
    """A task whose reward also counts the tokens: Σ weight·part is added, by name, to what the task itself pays.

    "length" is Kimi k1.5's reward, from the epoch `length_from` on, since early it stalls; "overlong" is DAPO's penalty
    over the last `buffer` of `max_length` tokens, by default a fifth. Set `epoch` to the number of epochs done, as
    whoever iterates over `train` can. All else is the task's own.
    """

    def __init__(
        self,
        task,
        weights: Mapping[str, float],
        max_length: int,
        buffer: int | None = None,
        length_from: int = 0,
    ):
        if unknown := weights.keys() - set(PARTS):
            raise ValueError(f"unknown part {', '.join(sorted(unknown))}; expected some of {', '.join(PARTS)}")
        self.task, self.weights, self.length_from, self.epoch = task, dict(weights), length_from, 0
        self.max_length, self.buffer = max_length, max(max_length // 5, 1) if buffer is None else buffer

    def __getattr__(self, name: str):
        if name == "task":  # not there yet, while this is being copied
            raise AttributeError(name)
        return getattr(self.task, name)

    def rewards(self, batch: Batch, responses: Responses, mask: Mask) -> PerResponse:
        """The task's own reward, and its parts for length."""
        rewards, lengths = self.task.rewards(batch, responses, mask), mask.sum(-1)
        if self.weights.get("overlong"):
            rewards = rewards + self.weights["overlong"] * soft_overlong_penalty(lengths, self.max_length, self.buffer)
        if self.weights.get("length") and self.epoch >= self.length_from:
            correct = self.task.correct(batch, responses, mask)
            rewards = rewards + self.weights["length"] * kimi_length_reward(lengths, correct)
        return rewards
