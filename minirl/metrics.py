"""What a run reports of itself: the state of a rollout, held-out accuracy, and a diagnosis instead of NaN."""

import torch
from torch import Tensor

from minirl.kl import k1, k3
from minirl.losses import Deltas, probability_ratio, spread
from minirl.rollout import PerToken, Rollout, Task

CAUSES = {
    "logits": "the weights have grown too large to multiply; lower learning_rate",
    "rewards": "the task's reward function returned it",
    "old_log_probs": "a sampled token has probability 0 under the policy",
    "ref_log_probs": "the reference gives a sampled token probability 0; use one with full support",
    "loss": "the exp of a log-ratio overflowed, so the policy moved too far; lower learning_rate, inner_steps or beta",
    "gradient": "a finite loss had an infinite slope; lower learning_rate",
    "value loss": "the critic's last step was too large; lower its learning_rate",
    "weight": "the last step was too large, so lower learning_rate; or it was not finite to begin with",
}


def stop_if_not_finite(where: str, name: str, *tensors: Tensor) -> None:
    """FloatingPointError that says which number, where and the likely cause: to go on would hide a broken run."""
    if not all(tensor.isfinite().all() for tensor in tensors):
        raise FloatingPointError(f"{where}: {name} is not finite; likely cause: {CAUSES[name]}")


def token_mean(values: Tensor, rollout: Rollout) -> float:
    """Mean over the tokens inside the mask."""
    return (values * rollout.mask).sum().item() / max(rollout.mask.sum().item(), 1)


def describe_rollout(where: str, rollout: Rollout, policy) -> dict[str, float]:
    """Rewards over the batch, their spread within groups, length in tokens; KL and entropy in nats per token."""
    rewards, old, ref = rollout.rewards, rollout.old_log_probs, rollout.ref_log_probs
    for name, tensor in {"rewards": rewards, "old_log_probs": old, "ref_log_probs": ref}.items():
        stop_if_not_finite(where, name, *([] if tensor is None else [tensor]))
    metrics = {
        "reward_mean": rewards.mean().item(),
        "reward_std": rewards.std(-1).mean().item() if rewards.shape[-1] > 1 else 0.0,
        "sampled_tokens": float(rollout.mask.sum()),
        "response_length": rollout.mask.sum(-1).float().mean().item(),
        "seconds_sampling": rollout.seconds_sampling,
        "seconds_scoring": rollout.seconds_scoring,
    }
    if ref is not None:
        metrics |= {"kl_k1": token_mean(k1(old, ref), rollout), "kl_k3": token_mean(k3(old, ref), rollout)}
    if hasattr(policy, "truncated"):
        metrics["truncated"] = policy.truncated(rollout.responses, rollout.mask).float().mean().item()
    if rollout.entropy is not None:
        metrics["entropy"] = token_mean(rollout.entropy, rollout)
    return metrics


def clip_shares(log_probs: PerToken, rollout: Rollout, deltas: Deltas, clip_low: float, clip_high: float) -> dict:
    """Share of tokens whose gradient the clip cuts, or would cut, on either side; share of groups with deltas all 0."""
    ratio, sign = probability_ratio(log_probs, rollout.old_log_probs), spread(deltas).sign()
    return {
        "clip_low": token_mean((ratio < 1 - clip_low) & (sign < 0), rollout),
        "clip_high": token_mean((ratio > 1 + clip_high) & (sign > 0), rollout),
        "zero_signal_groups": (deltas == 0).flatten(1).all(-1).float().mean().item(),
    }


def held_out_accuracy(policy, task: Task, group_size: int, seed: int) -> dict[str, float]:
    """Share of held-out answers that are right, sampled and greedy; its own random numbers leave training alone.

    A task without `correct` is judged by its rewards.
    """
    batch, score = task.held_out(), getattr(task, "correct", task.rewards)
    sampled = policy.sample(batch.prompts, group_size, torch.Generator().manual_seed(seed))
    accuracy = {"held_out_exact": score(batch, *sampled).mean().item()}
    if hasattr(policy, "greedy"):
        accuracy["held_out_greedy"] = score(batch, *policy.greedy(batch.prompts)).mean().item()
    return accuracy
