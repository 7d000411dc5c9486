"""Assignment 3: the same answers with loops, other dtypes, other orders of the same sums."""

from itertools import combinations

import torch
from torch.nn.functional import softplus


def rows(mask):
    """Where the tokens of each response are, holes left out: (prompt, response, places)."""
    for batch, group in torch.cartesian_prod(*map(torch.arange, mask.shape[:2])).tolist():
        yield batch, group, mask[batch, group].nonzero().flatten().tolist()


def gae_by_rows(rewards, values, mask, gamma, lam):
    advantages = torch.zeros(mask.shape, dtype=torch.float64)
    for batch, group, places in rows(mask):
        r, v = rewards[batch, group, places].tolist(), [*values[batch, group, places].tolist(), 0.0]
        errors = [r[k] + gamma * v[k + 1] - v[k] for k in range(len(places))]
        for k, place in enumerate(places):
            fading = [(gamma * lam) ** later * error for later, error in enumerate(errors[k:])]
            advantages[batch, group, place] = sum(fading)
    return advantages


def gae_by_columns(rewards, values, mask, gamma, lam):
    inside, result = mask.to(values), []
    advantage = following = torch.zeros_like(values[..., 0])
    for r, v, m in zip(*(each.flip(-1).unbind(-1) for each in (rewards, values, inside)), strict=True):
        advantage = m * (r + gamma * following - v + gamma * lam * advantage) + (1 - m) * advantage
        following = m * v + (1 - m) * following
        result.append(m * advantage)
    return torch.stack(result[::-1], -1)


def to_go_by_a_matrix(rewards, values, mask):
    later = torch.ones(mask.shape[-1], mask.shape[-1]).tril().to(rewards)
    return torch.where(mask, rewards.masked_fill(~mask, 0) @ later - values, 0)


def to_go_from_the_total(rewards, values, mask):
    earned = (rewards * mask).double()
    return (earned.sum(-1, keepdim=True) - earned.cumsum(-1) + earned - values) * mask


def value_loss_by_where(values, returns, old_values, clip):
    errors = values - returns.detach()
    if clip is None:
        return errors.square() / 2
    before = old_values.detach()
    held = before + torch.clamp(values - before, -clip, clip)
    other = held - returns.detach()
    return torch.where(errors.abs() > other.abs(), errors, other).pow(2) * 0.5


def shaped_by_loops(rewards, log_probs, ref_log_probs, mask, beta):
    result = torch.zeros(mask.shape, dtype=torch.float64)
    for batch, group, places in rows(mask):
        for place in places:
            result[batch, group, place] = beta * (ref_log_probs - log_probs)[batch, group, place].item()
        if places:
            result[batch, group, places[-1]] += rewards[batch, group].item()
    return result


@torch.no_grad()
def shaped_by_a_flip(rewards, log_probs, ref_log_probs, mask, beta):
    last = mask & (mask.flip(-1).cumsum(-1).flip(-1) == 1)
    return (beta * (ref_log_probs - log_probs)).masked_fill(~mask, 0) + last * rewards.unsqueeze(-1)


def dpo_by_ratios(chosen, rejected, ref_chosen, ref_rejected, beta):
    now, before = chosen - rejected, (ref_chosen - ref_rejected).detach()
    return softplus(-beta * (now - before))


def best_of_every_choice(proxy, true, n):
    choices = [list(choice) for choice in combinations(range(proxy.shape[1]), n)]
    means = []
    for judged, worth in zip(proxy, true, strict=True):
        found = [worth[choice][judged[choice].argmax()].item() for choice in choices]
        means.append(sum(found) / len(found))
    return torch.tensor(means)


def stop_by_loops(proxy, true):
    def mean(rows):
        return [sum(column) / len(column) for column in zip(*rows.tolist(), strict=True)]

    judged, worth = mean(proxy), mean(true)
    best = max(range(len(worth)), key=worth.__getitem__)
    return best, worth[best] - worth[judged.index(max(judged))]


A3 = {
    "a3.q1a": {"one response at a time": gae_by_rows, "columns and products": gae_by_columns},
    "a3.q1b": {"a triangle": to_go_by_a_matrix, "the total less the past": to_go_from_the_total},
    "a3.q2": {"the larger error": value_loss_by_where},
    "a3.q3": {"loops": shaped_by_loops, "counted from the right": shaped_by_a_flip},
    "a3.q4": {
        "softplus": lambda chosen, rejected: softplus(rejected - chosen),
        "logaddexp": lambda chosen, rejected: torch.logaddexp(torch.zeros_like(chosen), rejected - chosen),
    },
    "a3.q5": {"the policy's margin less the reference's": dpo_by_ratios},
    "a3.q6": {
        "rewards first": lambda chosen, rejected, long, short, beta, margin: softplus(
            beta * rejected / short + margin - beta * chosen / long
        ),
    },
    "a3.q7a": {"every choice": best_of_every_choice},
    "a3.q7b": {
        "loops": stop_by_loops,
        "tensors": lambda proxy, true: (
            true.mean(0).argmax().item(),
            float(true.mean(0).max() - true.mean(0)[proxy.sum(0).argmax()]),
        ),
    },
}
