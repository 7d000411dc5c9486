"""The oracle: on a toy, every response can be listed, so that expectations, gradients and variances come out exact.

For policies that say `vocab_size`, `length` and `end_token`. Call `policy.double()` first to compare in float64.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import one_hot

from minirl.rollout import PerResponse, Prompts, Responses, response_mask
from minirl.sorting import all_prompts


def responses(vocab_size: int, length: int, end_token: int | None = None) -> Int[Tensor, "responses token"]:
    """Every response once; more than a million are refused. What follows the first `end_token` is filled with it."""
    every = all_prompts(vocab_size, length)
    return every[(response_mask(every, end_token) | (every == end_token)).all(-1)]


def distribution(policy, prompts: Prompts) -> tuple[Responses, PerResponse]:
    """Every response to every prompt [batch, responses, token] and its log-probability [batch, responses]."""
    every = responses(policy.vocab_size, policy.length, policy.end_token)
    if (count := len(prompts) * len(every)) > 1_000_000:
        raise ValueError(f"cannot list {count:,} responses, expected at most 1,000,000: pass fewer prompts at a time")
    every = every.expand(len(prompts), -1, -1)
    return every, policy.log_probs(prompts, every, response_mask(every, policy.end_token)).sum(-1)


def expected_reward(policy, prompts: Prompts, reward) -> Float[Tensor, " batch"]:
    """E[R] = Σ_y π(y|x)·R(x, y) for each prompt, with `reward(prompts, responses)`; differentiable."""
    every, log_probs = distribution(policy, prompts)
    return (log_probs.exp() * reward(prompts, every)).sum(-1)


def kl(policy, reference, prompts: Prompts) -> Float[Tensor, " batch"]:
    """KL(policy‖reference) of whole responses for each prompt, in nats; differentiable in both."""
    log_p, log_q = (distribution(either, prompts)[1] for either in (policy, reference))
    return (log_p.exp() * (log_p - log_q).masked_fill(log_p == -torch.inf, 0)).sum(-1)


def gradients(values: Float[Tensor, " values"], policy) -> Float[Tensor, "values parameters"]:
    """The gradient of each value with respect to all of the policy's parameters, laid end to end."""
    found, parameters = [], list(policy.parameters())
    values = values + 0 * sum(parameter.sum() for parameter in parameters)  # one that takes no part has gradient 0
    for rows in torch.arange(len(values)).split(64):
        pick = one_hot(rows, len(values)).to(values)
        parts = torch.autograd.grad(values, parameters, pick, retain_graph=True, is_grads_batched=True)
        found.append(torch.cat([part.flatten(1) for part in parts], 1))
    return torch.cat(found)


def gradient(policy, prompts: Prompts, reward) -> Float[Tensor, " parameters"]:
    """The policy gradient itself: ∇E[R], averaged over the prompts, by autograd through the enumerated expectation."""
    return gradients(expected_reward(policy, prompts, reward).mean()[None], policy)[0]


def estimator_moments(policy, prompt: Int[Tensor, " prompt"], estimator, group_size: int = 1) -> tuple[Tensor, Tensor]:
    """Mean [D] and covariance [D, D] of an estimator over every ordered group of `group_size` responses to one prompt.

    `estimator(prompts, responses, mask)` gets all groups as the rows of a batch and returns a value for each,
    [groups, D]. For the gradient of a loss per group, return `gradients(losses, policy)`.
    """
    every, log_probs = distribution(policy, prompt[None])
    groups = all_prompts(every.shape[1], group_size)
    drawn = every[0][groups]
    values = estimator(prompt.expand(len(groups), -1), drawn, response_mask(drawn, policy.end_token)).detach()
    probs = log_probs[0].detach()[groups].sum(-1, keepdim=True).exp()
    mean = (probs * values).sum(0)
    return mean, (probs * (values - mean)).T @ (values - mean)
