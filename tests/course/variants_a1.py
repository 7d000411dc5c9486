"""Assignment 1: the same answers with loops, other dtypes, other tools."""

import itertools
from collections import Counter, defaultdict

import torch
from einops import rearrange, reduce
from torch.nn.functional import cross_entropy, nll_loss, one_hot


def scored_by_loops(logits, responses):
    logs = (logits.exp() / logits.exp().sum(-1, keepdim=True)).log()
    groups = [
        [torch.stack([logs[b, t, token] for t, token in enumerate(row)]) for row in group]
        for b, group in enumerate(responses.tolist())
    ]
    return torch.stack([torch.stack(group) for group in groups])


def scored_by_cross_entropy(logits, responses):
    rows = logits[:, None].expand(-1, responses.shape[1], -1, -1)
    rows = rearrange(rows, "batch group token vocab -> (batch group token) vocab")
    return -cross_entropy(rows, responses.flatten(), reduction="none").view(responses.shape)


def scored_by_nll(logits, responses):
    logs = logits.log_softmax(-1).unsqueeze(1).repeat(1, responses.shape[1], 1, 1)
    return -nll_loss(logs.flatten(0, 2), responses.flatten(), reduction="none").view_as(responses)


def silent_by_loops(rewards):
    return sum(not any(group) for group in rewards.tolist()) / len(rewards)


def deltas_by_dictionary(states, rewards):
    earned = defaultdict(list)
    for state, reward in zip(states.tolist(), rewards.tolist(), strict=True):
        earned[state].append(reward)
    usual = [sum(earned[state]) / len(earned[state]) for state in states.tolist()]
    return rewards - torch.tensor(usual, dtype=rewards.dtype)


def deltas_by_unique(states, rewards):
    kinds, index = states.unique(return_inverse=True)
    sums = torch.zeros(len(kinds), dtype=rewards.dtype).index_add(0, index, rewards)
    return rewards - (sums / index.bincount())[index]


def deltas_state_by_state(states, rewards):
    deltas = torch.zeros_like(rewards)
    for state in states.unique():
        here = states == state
        deltas[here] = rewards[here] - rewards[here].mean()
    return deltas


def moments_by_squares(probs, scores, rewards, baseline):
    guesses = torch.einsum("n, nd -> nd", rewards - baseline, scores).double()
    mean = probs.double() @ guesses
    return mean, probs.double() @ (guesses**2).sum(-1) - mean @ mean


def baseline_by_loops(probs, scores, rewards):
    above = below = 0.0
    for p, score, reward in zip(probs.double(), scores.double(), rewards.double(), strict=True):
        above, below = above + p * score @ score * reward, below + p * score @ score
    return above / below


def included_by_loops(prompts, responses):
    return torch.tensor(
        [
            [sum(x in row for x in prompt) + sum(x <= y for x, y in itertools.pairwise(row)) for row in group]
            for prompt, group in zip(prompts.tolist(), responses.tolist(), strict=True)
        ]
    ).float()


def included_by_counts(prompts, responses):
    size = int(max(prompts.max(), responses.max())) + 1
    there = one_hot(responses, size).amax(-2)
    asked = one_hot(prompts, size).sum(-2)[:, None]
    return ((there * asked).sum(-1) + responses.diff(dim=-1).ge(0).sum(-1)).float()


def searched(prompt, vocab_size):
    """Every response, until one has full marks and is wrong."""
    numbers = prompt.tolist()
    for response in itertools.product(range(vocab_size), repeat=len(numbers)):
        marks = sum(x in response for x in numbers) + sum(x <= y for x, y in itertools.pairwise(response))
        if marks == 2 * len(numbers) - 1 and list(response) != sorted(numbers):
            return torch.tensor(response)
    return None


def one_copy_moved(prompt, vocab_size):
    """One of the copies becomes another number; a list does as well."""
    copies = Counter(prompt.tolist())
    number, count = copies.most_common(1)[0]
    others = [other for other in range(vocab_size) if other != number]
    if count == 1 or not others:
        return None
    copies[number] -= 1
    copies[others[-1]] += 1
    return sorted(copies.elements())


A1 = {
    "a1.q1": {"loops": scored_by_loops, "cross-entropy": scored_by_cross_entropy, "nll": scored_by_nll},
    "a1.q2a": {
        "einsum": lambda log_probs, deltas: torch.einsum("bgt, bg -> bgt", log_probs, -deltas),
        "rearranged": lambda log_probs, deltas: -rearrange(deltas, "b g -> b g 1") * log_probs,
    },
    "a1.q2b": {
        "einsum": lambda log_probs, rewards: (
            -torch.einsum("bn, bn, bn ->", log_probs.exp().detach(), rewards, log_probs) / len(log_probs)
        ),
        "data": lambda log_probs, rewards: -(log_probs.data.exp() * rewards * log_probs).sum(1).mean(),
    },
    "a1.q3a": {
        "loops": silent_by_loops,
        "absolute values": lambda rewards: rewards.abs().sum(-1).eq(0).double().mean(),
        "count_nonzero": lambda rewards: (rewards.count_nonzero(-1) == 0).sum() / len(rewards),
    },
    "a1.q3b": {
        "pow": lambda chances, group_size: chances.pow(group_size) + (1 - chances).pow(group_size),
        "a product": lambda chances, group_size: (
            torch.stack([chances, 1 - chances]).expand(group_size, -1, -1).prod(0).sum(0)
        ),
    },
    "a1.q4a": {
        "a dictionary": deltas_by_dictionary,
        "unique": deltas_by_unique,
        "state by state": deltas_state_by_state,
    },
    "a1.q4b": {"mean square": moments_by_squares},
    "a1.q5": {
        "loops": baseline_by_loops,
        "einsum": lambda probs, scores, rewards: (
            torch.einsum("n, nd, nd, n ->", probs, scores, scores, rewards)
            / torch.einsum("n, nd, nd ->", probs, scores, scores)
        ),
    },
    "a1.q6a": {
        "no difference": lambda p, y: ((y - p.sort(-1)[0].unsqueeze(1)).abs().amax(-1) == 0).float(),
        "einops": lambda p, y: reduce((y == rearrange(p.sort().values, "b p -> b 1 p")).float(), "b g p -> b g", "min"),
    },
    "a1.q6b": {"a count": lambda p, y: y.eq(torch.sort(p, dim=1).values[:, None, :]).count_nonzero(-1).double()},
    "a1.q6c": {"loops": included_by_loops, "counts": included_by_counts},
    "a1.q7": {"search": searched, "one copy moved": one_copy_moved},
}
