"""The one training loop, for any policy and any task: an epoch samples anew and freezes its log-probs, `inner_steps`
updates reuse its responses, and the reference moves rarely, if at all."""

import copy
from collections.abc import Iterator
from dataclasses import replace
from time import perf_counter

import torch

from minirl.config import DELTAS, Config
from minirl.groups import sample_groups
from minirl.kl import KL
from minirl.losses import Deltas, token_weights
from minirl.metrics import clip_shares, describe_rollout, held_out_accuracy, stop_if_not_finite
from minirl.objective import silent, token_losses, with_imitation
from minirl.rollout import PerToken, Rollout, Task
from minirl.variants import sequence_level


class State:
    """What a run changes besides the policy. Keep both, and `resume_from` this: the run goes on as if never stopped."""

    def __init__(self, policy, config: Config, reference=None, critic=None):
        if critic is not None and config.delta != "raw":
            raise ValueError(f"a critic judges rewards as they are: expected delta='raw'; got {config.delta!r}")
        reference = policy if reference is None and (config.beta or config.reference_every) else reference
        self.reference = None if reference is None else copy.deepcopy(reference).requires_grad_(False)
        self.optimizer = torch.optim.Adam(policy.parameters(), lr=config.learning_rate, fused=True)
        for weight in policy.parameters():  # so that Adam's momentum goes on where a whole batch has no gradient
            weight.grad = torch.zeros_like(weight) if weight.requires_grad else None
        self.generator = torch.Generator().manual_seed(config.seed)
        self.critic, self.epoch = critic, 0
        stop_if_not_finite("before training", "weight", *policy.parameters())


def update(policy, rollout: Rollout, deltas: Deltas, weights: PerToken, config: Config, optimizer, where: str):
    """One gradient step, in micro-batches whose sum is exact. Returns loss, gradient norm, log-probs before it.

    A silent response keeps its old log-probs and is not scored.
    """
    optimizer.zero_grad(set_to_none=False)
    skipped, total, before = silent(rollout, deltas, config), 0.0, []
    for rows in torch.arange(len(weights)).split(config.micro_batch_size or len(weights)):
        part = rollout.rows(rows)
        live = part.mask & ~skipped[rows]
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
    start, price = perf_counter(), torch.zeros_like(rollout.old_log_probs)
    if config.beta and config.kl_in == "reward":
        price = config.beta * KL[config.kl](rollout.old_log_probs, rollout.ref_log_probs)
    weights = token_weights(rollout.mask, config.aggregation, config.constant)
    if state.critic is None:
        deltas, metrics = DELTAS[config.delta](rollout.rewards - price.sum(-1)), {}
    else:
        deltas, metrics = state.critic.judge(rollout, price, weights, f"epoch {state.epoch}")
        config = replace(config, loss="naive", beta=0.0, positive_weight=0.0) if state.critic.alone else config
    rollout, done = with_imitation(rollout, weights, config), max(state.epoch - 1, 0) * config.inner_steps
    for step in range(1, config.inner_steps + 1):
        warmth = min(1, (done + step) / max(config.warmup_steps, 1))
        state.optimizer.param_groups[0]["lr"] = warmth * config.learning_rate
        where = f"epoch {state.epoch}, inner step {step}"
        loss, norm, before = update(policy, rollout, deltas, weights, config, state.optimizer, where)
    if config.ratio == "sequence":
        before = sequence_level(before, rollout.old_log_probs, rollout.mask)
    metrics |= {"loss": loss, "grad_norm": norm, "seconds_updating": perf_counter() - start}
    return metrics | clip_shares(before, rollout, deltas, config.clip_low, config.clip_high)


def train(
    policy, task: Task, config: Config, *, reference=None, resume_from: State | None = None, critic=None
) -> Iterator[dict]:
    """Train `policy` in place and yield a dict of metrics an epoch; the caller logs, draws, saves or stops.

    A `critic` learns beside it, and its advantages stand where the deltas of the rewards would: needs delta="raw".
    """
    state = resume_from or State(policy, config, reference, critic)
    if state.reference is None and (config.beta or config.reference_every):
        raise ValueError("the state to resume from has no reference, but beta or reference_every needs one; start anew")
    while state.epoch < config.epochs:
        if config.reference_every and state.epoch and state.epoch % config.reference_every == 0:
            state.reference.load_state_dict(policy.state_dict())
        state.epoch += 1
        rollout, kept = sample_groups(policy, task, config, state)
        metrics = {"epoch": state.epoch, **describe_rollout(f"epoch {state.epoch}", rollout, policy)}
        metrics |= {"kept_groups": len(kept) / len(rollout.rewards)}
        metrics |= learn(policy, rollout.rows(kept) if len(kept) else rollout, config, state)
        if state.epoch % config.evaluate_every == 0 or state.epoch == config.epochs:
            metrics |= held_out_accuracy(policy, task, config.group_size, config.seed)
        yield metrics
