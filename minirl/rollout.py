"""The one thing that flows: a batch of prompts becomes a rollout of responses, rewards and log-probs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Protocol

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

Prompts = Int[Tensor, "batch prompt"]
Responses = Int[Tensor, "batch group token"]
Mask = Bool[Tensor, "batch group token"]
PerToken = Float[Tensor, "batch group token"]
PerResponse = Float[Tensor, "batch group"]


@dataclass(frozen=True)
class Batch:
    """B prompts, and what a verifier needs to score a response to each."""

    prompts: Prompts
    answers: Sequence | Tensor


class Task(Protocol):
    """Where prompts come from and what a response earns. `correct`, optional, is the 0/1 truth behind the reward."""

    def sample(self, batch_size: int, generator=None) -> Batch: ...
    def held_out(self) -> Batch: ...
    def rewards(self, batch: Batch, responses: Responses, mask: Mask) -> PerResponse: ...
    def correct(self, batch: Batch, responses: Responses, mask: Mask) -> PerResponse: ...


@dataclass(frozen=True)
class Rollout:
    """B prompts × G responses × T positions, and what was true of them when they were sampled.

    `mask` is True up to and including the first end token. Log-probs and entropy are in nats, 0 outside the mask,
    without a graph. `entropy` is None for a policy that cannot `score`. `imitation`, where there is some, weighs
    −log π beside the policy's own loss.
    """

    prompts: Prompts
    responses: Responses
    mask: Mask
    rewards: PerResponse
    old_log_probs: PerToken
    ref_log_probs: PerToken | None = None
    entropy: PerToken | None = None
    seconds_sampling: float = 0.0
    seconds_scoring: float = 0.0
    imitation: PerToken | None = None

    def rows(self, index: Int[Tensor, " rows"]) -> "Rollout":
        """The same for some of the prompts."""
        return replace(self, **{name: value[index] for name, value in vars(self).items() if isinstance(value, Tensor)})


def response_mask(responses: Int[Tensor, "*axes token"], end_token: int | None) -> Bool[Tensor, "*axes token"]:
    """True up to and including the first end token: leave that one out, and the policy never learns to stop."""
    ends = torch.zeros_like(responses) if end_token is None else (responses == end_token).long()
    return ends.cumsum(-1) - ends == 0


@torch.no_grad()
def collect(policy, task: Task, batch: Batch, group_size: int, *, generator=None, reference=None) -> Rollout:
    """Sample `group_size` responses to each prompt, score them, and freeze what the ratio and the KL will need.

    Of the old policy only the log-probs are kept, never its weights.
    """
    if group_size < 1:
        raise ValueError(f"group_size counts the responses to each prompt and must be at least 1; got {group_size}")
    start = perf_counter()
    responses, mask = policy.sample(batch.prompts, group_size, generator)
    sampled = perf_counter()
    rewards = 1.0 * task.rewards(batch, responses, mask)
    scored = batch.prompts, responses, mask
    old, entropy = policy.score(*scored) if hasattr(policy, "score") else (policy.log_probs(*scored), None)
    ref = None if reference is None else reference.log_probs(*scored)
    return Rollout(*scored, rewards, old, ref, entropy, sampled - start, perf_counter() - sampled)
