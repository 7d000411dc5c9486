"""The lecture's training run in Python loops: what minirl.train is compared with.

The same model, rewards and steps as in lecture 17, in three ways: one sample at a time, as one first writes it; one
prompt at a time; and the model in tensors with loops over the rewards only, as the lecture's own program has it.
"""

from itertools import pairwise

import torch

Tokens = list[int]


def position_distributions(policy, prompt: Tokens) -> list[torch.Tensor]:
    """log π of each response position."""
    encoded = sum(policy.embedding[token] @ policy.encode[position] for position, token in enumerate(prompt))
    return [(policy.embedding @ (encoded @ matrix)).log_softmax(-1) for matrix in policy.decode]


@torch.no_grad()
def respond(policy, prompt: Tokens) -> Tokens:
    return [torch.multinomial(log_p.exp(), 1).item() for log_p in position_distributions(policy, prompt)]


def log_prob(distributions: list[torch.Tensor], response: Tokens) -> torch.Tensor:
    return sum(log_p[token] for log_p, token in zip(distributions, response, strict=True)) / len(response)


def inclusion_ordering(prompt: Tokens, response: Tokens) -> float:
    reward = 0.0
    for token in prompt:
        if token in response:
            reward += 1
    for first, second in pairwise(response):
        if first <= second:
            reward += 1
    return reward


def by_sample(policy, prompt: Tokens, group: list[Tokens]) -> list[torch.Tensor]:
    """The naive loss of each response with its raw reward as delta, scored one by one."""
    return [
        -inclusion_ordering(prompt, response) * log_prob(position_distributions(policy, prompt), response)
        for response in group
    ]


def by_prompt(policy, prompt: Tokens, group: list[Tokens]) -> list[torch.Tensor]:
    """The same, with one pass through the model for the whole group."""
    distributions = position_distributions(policy, prompt)
    return [-inclusion_ordering(prompt, response) * log_prob(distributions, response) for response in group]


def in_tensors(policy, prompts: list[Tokens], groups: list[list[Tokens]]) -> torch.Tensor:
    """The mean loss of all responses, from one pass of tensors through the model; the rewards still come from loops."""
    rewards = [
        [inclusion_ordering(prompt, response) for response in group]
        for prompt, group in zip(prompts, groups, strict=True)
    ]
    responses = torch.tensor(groups)
    log_probs = policy.log_probs(torch.tensor(prompts), responses, torch.ones_like(responses, dtype=torch.bool))
    return (-torch.tensor(rewards)[..., None] * log_probs).mean()


def mean_loss(losses_of):
    def mean(policy, prompts: list[Tokens], groups: list[list[Tokens]]) -> torch.Tensor:
        losses = [losses_of(policy, prompt, group) for prompt, group in zip(prompts, groups, strict=True)]
        return sum(map(sum, losses)) / sum(map(len, losses))

    return mean


def train(policy, prompts: list[Tokens], loss_of, epochs: int, steps: int, group_size: int, learning_rate: float):
    optimizer = torch.optim.Adam(policy.parameters(), lr=learning_rate)
    for _ in range(epochs):
        groups = [[respond(policy, prompt) for _ in range(group_size)] for prompt in prompts]
        for _ in range(steps):
            optimizer.zero_grad()
            loss_of(policy, prompts, groups).backward()
            torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
            optimizer.step()


WAYS = {
    "one sample at a time (target: at most 0.25)": mean_loss(by_sample),
    "one prompt at a time": mean_loss(by_prompt),
    "tensors, with rewards in loops and no metrics": in_tensors,
}
