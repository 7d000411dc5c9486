"""Assignment 2: the same answers with loops, einops, other dtypes, views."""

import torch
from einops import rearrange, reduce
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from minirl import Config, SortingPolicy, SortingTask
from minirl.train import train


def centred_by_loops(rewards):
    rows = [[reward - sum(group) / len(group) for reward in group] for group in rewards.tolist()]
    return torch.tensor(rows, dtype=rewards.dtype)


def left_out_by_loops(rewards):
    rows = [
        [reward - (sum(group) - reward) / (len(group) - 1) for reward in group] for group in rewards.double().tolist()
    ]
    return torch.tensor(rows, dtype=torch.float64)


def clipped_by_where(now, old, deltas, low, high):
    ratio = (now - old.detach()).exp()
    deltas = deltas.unsqueeze(-1).expand_as(ratio)
    cut = torch.where(deltas > 0, ratio.clamp(max=1 + high), ratio.clamp(min=1 - low))
    return -cut * deltas


def best_by_loops(rewards):
    rows = [[reward if reward == max(group) else 0.0 for reward in group] for group in rewards.tolist()]
    return torch.tensor(rows, dtype=rewards.dtype)


def properties_as_lists():
    """Words in a list, twice or in another order, are the same."""
    both = ["adds up to 0", "silent on ties"]
    return {
        "normalized": [*both, "scale-free"],
        "leave_one_out": ("unbiased", *both),
        "centered": frozenset(both),
        "max_only": [],
        "raw": ["unbiased"],
    }


def gradient_by_formula(logits, ref_logits, estimator):
    """Σ_v π(v)·k'(v)·(one-hot(v) − π), with the estimator's slope by autograd."""
    log_p = logits.log_softmax(-1).detach().requires_grad_()
    (slope,) = torch.autograd.grad(estimator(log_p, ref_logits.log_softmax(-1)).sum(), log_p)
    probs = log_p.detach().exp()
    return probs * slope - probs * (probs * slope).sum()


def gradient_by_backward(logits, ref_logits, estimator):
    parameter = torch.nn.Parameter(logits.clone())
    log_p = torch.log_softmax(parameter, 0)
    estimator(log_p, ref_logits.log_softmax(0)).mul(log_p.exp().detach()).sum().backward()
    return parameter.grad


def weights_by_loops(mask):
    weights = torch.zeros(mask.shape, dtype=torch.float64)
    for prompt, group in enumerate(mask):
        for place, response in enumerate(group):
            for token in range(int(response.sum())):
                weights[prompt, place, token] = 1 / (len(mask) * len(group) * int(response.sum()))
    return weights


def step_by_hand(policy, rollout, optimizer):
    """Plain gradient descent on a vector of weights, without the optimizer's help but for its rate."""
    rewards = rollout.rewards
    deltas = (rewards - rewards.mean(-1, keepdim=True)) / (rewards.std(-1, keepdim=True) + 1e-6)
    log_probs = policy.log_probs(rollout.prompts, rollout.responses, rollout.mask)
    loss = clipped_by_where(log_probs, rollout.old_log_probs, deltas, 0.2, 0.28)
    loss = ((loss * rollout.mask).sum(-1) / rollout.mask.sum(-1)).mean()
    weights = list(policy.parameters())
    gradient = torch.cat([each.flatten() for each in torch.autograd.grad(loss, weights)])
    rate = optimizer.param_groups[0]["lr"]
    vector_to_parameters(parameters_to_vector(weights).detach() - rate * gradient, weights)
    return loss.item()


def step_that_clears_last(policy, rollout, optimizer):
    """The gradients are cleared after the step: as good as before it."""
    deltas = (rollout.rewards - rollout.rewards.mean(1)[:, None]) / (rollout.rewards.std(1)[:, None] + 1e-6)
    now = policy.log_probs(rollout.prompts, rollout.responses, rollout.mask)
    loss = (clipped_by_where(now, rollout.old_log_probs, deltas, 0.2, 0.28) * weights_by_loops(rollout.mask)).sum()
    loss.backward()
    optimizer.step()
    policy.zero_grad()
    return loss.item()


def trained_by_minirl(seed):
    """In two calls of train, with fewer steps on each batch."""
    task, policy = SortingTask(vocab_size=8, length=3, seed=3), SortingPolicy(8, 3, dim=32, seed=seed)
    for epochs, rate in ((240, 4e-3), (60, 4e-4)):
        config = Config(
            epochs=epochs,
            batch_size=256,
            group_size=8,
            inner_steps=3,
            delta="normalized",
            learning_rate=rate,
            seed=seed,
        )
        for _ in train(policy, task, config):
            pass
    return policy


A2 = {
    "a2.q1a": {
        "loops": centred_by_loops,
        "einops": lambda rewards: rewards - reduce(rewards, "b g -> b 1", "mean"),
        "a view": lambda rewards: rearrange(rewards - rewards.mean(1)[:, None], "b g -> (b g)").view(rewards.shape),
        "float64": lambda rewards: rewards.double() - rewards.double().mean(-1, keepdim=True),
    },
    "a2.q1b": {
        "loops": left_out_by_loops,
        "the sum of the others": lambda r: r - (r.sum(-1, keepdim=True) - r) / (r.shape[-1] - 1),
        "a matrix": lambda r: r - r @ (1 - torch.eye(r.shape[-1]).to(r)) / (r.shape[-1] - 1),
    },
    "a2.q1c": {
        "std by hand": lambda r: (
            (r - r.mean(-1, keepdim=True))
            / (((r - r.mean(-1, keepdim=True)) ** 2).sum(-1, keepdim=True).div(r.shape[-1] - 1).sqrt() + 1e-6)
        ),
        "var and root": lambda r: (r - r.mean(-1, keepdim=True)) / (r.var(-1, keepdim=True) ** 0.5 + 1e-6),
    },
    "a2.q1d": {
        "loops": best_by_loops,
        "a product": lambda r: r * (r >= r.max(1, keepdim=True).values),
        "masked": lambda r: r.masked_fill(r < r.amax(-1)[:, None], 0),
    },
    "a2.q1e": {"lists": properties_as_lists},
    "a2.q2": {
        "a ratio of probabilities": lambda now, old: now.exp() / old.detach().exp(),
        "no_grad": lambda now, old: torch.exp(now - old.data),
    },
    "a2.q3": {"where": clipped_by_where},
    "a2.q4a": {"minus log of r": lambda now, ref: -(ref - now)},
    "a2.q4b": {"expm1": lambda now, ref: torch.expm1(ref - now) - (ref - now)},
    "a2.q4c": {"square": lambda now, ref: torch.square(now - ref).div(2)},
    "a2.q4d": {"a formula": gradient_by_formula, "backward": gradient_by_backward},
    "a2.q4e": {
        "zipped": lambda: dict(
            zip(("k3", "k2", "k1"), ("KL(reference, policy)", "KL(policy, reference)", "nothing"), strict=True)
        )
    },
    "a2.q5b": {"an average": lambda m: m.double() / max(int(m.sum()), 1)},
    "a2.q5c": {"einops": lambda m, c: m / c / reduce(torch.ones(m.shape[:2]), "b g ->", "sum")},
    "a2.q6": {"by hand": step_by_hand, "clears last": step_that_clears_last},
    "a2.q7": {"minirl's loop": trained_by_minirl},
    "a2.q5": {
        "loops": weights_by_loops,
        "mean of the responses' means": lambda m: (
            m.double() / m.sum(-1, keepdim=True).clamp(min=1).double() / m.shape[0] / m.shape[1]
        ),
    },
}
