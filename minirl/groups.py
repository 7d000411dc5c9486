"""Which groups to learn from, and what to do when there are too few: more batches, before anything is averaged.

A group is kept or dropped whole: without some of its responses it would have another mean.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from minirl.rollout import Rollout, Task, collect


def with_signal(rewards: Float[Tensor, "batch group"]) -> Int[Tensor, " kept"]:
    """The groups whose rewards differ: the others compare equals (DAPO's dynamic sampling, arXiv:2503.14476)."""
    return (rewards != rewards[:, :1]).any(-1).nonzero().squeeze(-1)


def most_varied(rewards: Float[Tensor, "batch group"], share: float) -> Int[Tensor, " kept"]:
    """The given share of the groups, at least one: those of the largest std (StarPO-S, arXiv:2504.20073)."""
    count = max(round(share * len(rewards)), 1)
    return rewards.std(-1).argsort(descending=True, stable=True)[:count].sort().values


KEEP = {
    "all": lambda rewards, share: torch.arange(len(rewards), device=rewards.device),
    "signal": lambda rewards, share: with_signal(rewards),
    "varied": most_varied,
}


def stacked(tensors: Sequence[Tensor], left: bool = False, value: float = 0) -> Tensor:
    """Along the first axis; what is narrower than the widest is padded on one side."""
    gaps = [max(each.shape[-1] for each in tensors) - each.shape[-1] for each in tensors]
    sides = [(gap, 0) if left else (0, gap) for gap in gaps]
    return torch.cat([pad(each, side, value=value) for each, side in zip(tensors, sides, strict=True)])


def joined(rollouts: Sequence[Rollout], pad_id: int = 0) -> Rollout:
    """Several rollouts of one policy as one; `pad_id` goes in front of shorter prompts."""
    fields = {name for name, value in vars(rollouts[0]).items() if value is not None} - {"prompts"}
    parts = {name: [getattr(rollout, name) for rollout in rollouts] for name in fields}
    prompts = stacked([rollout.prompts for rollout in rollouts], left=True, value=pad_id)
    whole = {name: sum(each) if name.startswith("seconds") else stacked(each) for name, each in parts.items()}
    return Rollout(prompts=prompts, **whole)


def sample_groups(policy, task: Task, config, state) -> tuple[Rollout, Int[Tensor, " kept"]]:
    """All that was sampled in an epoch, and which of its groups to learn from, at most `config.batch_size`.

    One batch, and while too few groups are kept at most `config.resample` more. What is not learned from was sampled
    all the same: the epoch's metrics and its bill count it.
    """
    rollouts, kept = [], []
    while not rollouts or (len(kept) < config.batch_size and len(rollouts) <= config.resample):
        batch = task.sample(config.batch_size, state.generator)
        frozen = {"generator": state.generator, "reference": state.reference}
        rollouts.append(collect(policy, task, batch, config.group_size, **frozen))
        rewards = torch.cat([each.rewards for each in rollouts])
        kept = KEEP[config.keep](rewards, min(config.keep_share, config.batch_size / len(rewards)))
    return joined(rollouts, getattr(policy, "pad_id", 0)), kept[: config.batch_size]
