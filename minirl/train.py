"""The one training loop, for any policy and any task: an epoch samples anew and freezes its log-probs, `inner_steps`
updates reuse its responses, and the reference moves rarely, if at all."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter

import torch

from minirl.deltas import DELTAS
from minirl.kl import KL
from minirl.losses import AGGREGATIONS, LOSSES, token_losses, token_weights
from minirl.metrics import clip_shares, describe_rollout, held_out_accuracy, stop_if_not_finite
from minirl.rollout import PerResponse, PerToken, Rollout, Task, collect


@dataclass(frozen=True)
class Config:
    """A run's settings, checked when made; the README has their names in TRL, verl and CS336."""

    epochs: int = 300  # rollouts, each sampled anew
    inner_steps: int = 4  # gradient steps on each rollout
    batch_size: int = 64  # prompts in a rollout
    group_size: int = 16  # responses to each prompt
    delta: str = "centered"
    loss: str = "clipped"
    clip_low: float = 0.2  # no further push once a ratio is below 1 − clip_low
    clip_high: float = 0.2  # no further push once a ratio is above 1 + clip_high
    aggregation: str = "sequence"
    constant: float | None = None  # divisor for aggregation="constant"; None: the response length T
    beta: float = 0.0  # weight of the KL penalty
    kl: str = "k3"
    kl_in: str = "loss"  # "loss": added per token (k2, k3); "reward": its sum over tokens is subtracted (k1)
    reference_every: int = 0  # epochs between refreshes of the reference; 0: never
    learning_rate: float = 1e-2  # Adam's
    max_grad_norm: float | None = 1.0  # None: no gradient clipping
    micro_batch_size: int | None = None  # prompts in one backward pass; None: all
    evaluate_every: int = 10  # epochs between held-out evaluations; the last epoch always has one
    seed: int = 0  # of the prompts and the sampled responses

    def __post_init__(self):
        choices = {"delta": DELTAS, "loss": LOSSES, "aggregation": AGGREGATIONS, "kl": KL, "kl_in": ("loss", "reward")}
        for name, value in vars(self).items():
            if name in choices and value not in choices[name]:
                raise ValueError(f"{name}={value!r} is unknown; expected one of {', '.join(choices[name])}")
            least = 0 if name in ("beta", "clip_low", "clip_high", "reference_every", "seed") else 1e-12
            if not isinstance(value, str | None) and not value >= least:
                raise ValueError(f"{name} must be {'positive' if least else 'at least 0'}; got {value}")


class State:
    """What a run changes besides the policy. Keep both, and `resume_from` this: the run goes on as if never stopped."""

    def __init__(self, policy, config: Config, reference=None):
        reference = policy if reference is None and (config.beta or config.reference_every) else reference
        self.reference = None if reference is None else copy.deepcopy(reference).requires_grad_(False)
        self.optimizer = torch.optim.Adam(policy.parameters(), lr=config.learning_rate, fused=True)
        for weight in policy.parameters():  # so that Adam's momentum goes on where a whole batch has no gradient
            weight.grad = torch.zeros_like(weight) if weight.requires_grad else None
        self.generator = torch.Generator().manual_seed(config.seed)
        self.epoch = 0
        stop_if_not_finite("before training", "weight", *policy.parameters())


def update(policy, rollout: Rollout, deltas: PerResponse, weights: PerToken, config: Config, optimizer, where: str):
    """One gradient step, in micro-batches whose sum is exact. Returns loss, gradient norm, log-probs before it.

    A response with delta 0 has no gradient unless the loss holds a KL: it keeps its old log-probs and is not scored.
    """
    optimizer.zero_grad(set_to_none=False)
    silent = (deltas == 0)[..., None] & (not config.beta or config.kl_in == "reward")
    total, before = 0.0, []
    for rows in torch.arange(len(weights)).split(config.micro_batch_size or len(weights)):
        part = rollout.rows(rows)
        live = part.mask & ~silent[rows]
        log_probs = policy.log_probs(part.prompts, part.responses, live) + part.old_log_probs.masked_fill(live, 0)
        loss = (token_losses(log_probs, part, deltas[rows], config) * weights[rows]).sum()
        stop_if_not_finite(where, "loss", loss)
        if loss.requires_grad:
            loss.backward()
        total, before = total + loss.item(), [*before, log_probs.detach()]
    norm = torch.nn.utils.clip_grad_norm_(policy.parameters(), config.max_grad_norm or torch.inf)
    stop_if_not_finite(where, "gradient", norm)
    optimizer.step()
    stop_if_not_finite(where, "weight", *policy.parameters())
    return total, norm.item(), torch.cat(before)


def learn(policy, rollout: Rollout, config: Config, state: State) -> dict[str, float]:
    """Rewards to deltas, then `inner_steps` updates on the same responses; reports the last of them."""
    rewards, start = rollout.rewards, perf_counter()
    if config.beta and config.kl_in == "reward":
        rewards = rewards - config.beta * KL[config.kl](rollout.old_log_probs, rollout.ref_log_probs).sum(-1)
    deltas, weights = DELTAS[config.delta](rewards), token_weights(rollout.mask, config.aggregation, config.constant)
    for step in range(1, config.inner_steps + 1):
        where = f"epoch {state.epoch}, inner step {step}"
        loss, norm, before = update(policy, rollout, deltas, weights, config, state.optimizer, where)
    metrics = {"loss": loss, "grad_norm": norm, "seconds_updating": perf_counter() - start}
    return metrics | clip_shares(before, rollout, deltas, config.clip_low, config.clip_high)


def train(policy, task: Task, config: Config, *, reference=None, resume_from: State | None = None) -> Iterator[dict]:
    """Train `policy` in place and yield a dict of metrics an epoch; the caller logs, draws, saves or stops."""
    state = resume_from or State(policy, config, reference)
    if state.reference is None and (config.beta or config.reference_every):
        raise ValueError("the state to resume from has no reference, but beta or reference_every needs one; start anew")
    while state.epoch < config.epochs:
        if config.reference_every and state.epoch and state.epoch % config.reference_every == 0:
            state.reference.load_state_dict(policy.state_dict())
        state.epoch += 1
        batch = task.sample(config.batch_size, state.generator)
        rollout = collect(policy, task, batch, config.group_size, generator=state.generator, reference=state.reference)
        metrics = {"epoch": state.epoch, **describe_rollout(f"epoch {state.epoch}", rollout, policy)}
        metrics |= learn(policy, rollout, config, state)
        if state.epoch % config.evaluate_every == 0 or state.epoch == config.epochs:
            metrics |= held_out_accuracy(policy, task, config.group_size, config.seed)
        yield metrics
