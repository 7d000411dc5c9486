"""The truth, in plain Python: loops and floats, no tensor arithmetic and none of minirl's own code.

A policy is read through `next_token`, the probabilities of the next token given a prompt and the tokens so far. All
else follows by listing every response, and every derivative by central differences. A response is a tuple that ends
with the end token or at full length; nothing is padded.
"""

import itertools
import math

import torch

from minirl.policy import SortingPolicy
from minirl.toy_language import AutoregressivePolicy


def softmax(logits):
    powers = [math.exp(logit - max(logits)) for logit in logits]
    return [power / sum(powers) for power in powers]


def sorting_logits(policy, prompt, position):
    """E · D_t · Σ_s C_s · E[prompt_s], one product at a time."""
    embedding, encode, decode = (p.tolist() for p in (policy.embedding, policy.encode, policy.decode))
    dims = range(len(embedding[0]))
    encoded = [sum(embedding[prompt[s]][i] * encode[s][i][j] for s in range(len(prompt)) for i in dims) for j in dims]
    decoded = [sum(encoded[i] * decode[position][i][j] for i in dims) for j in dims]
    return [sum(decoded[j] * row[j] for j in dims) for row in embedding]


def toy_logits(policy, prompt, prefix):
    """P[Σ prompt] + S[t] + L[last token], where the row after the vocabulary stands for "nothing yet"."""
    prompt_rows, step, last = (p.tolist() for p in (policy.prompt, policy.step, policy.last))
    rows = prompt_rows[sum(prompt) % len(prompt_rows)], step[len(prefix)], last[prefix[-1] if prefix else -1]
    return [sum(logits) for logits in zip(*rows, strict=True)]


def next_token(policy, prompt, prefix):
    if isinstance(policy, SortingPolicy):
        return softmax(sorting_logits(policy, prompt, len(prefix)))
    return softmax(toy_logits(policy, prompt, prefix))


def responses(vocab_size, length, end_token=None):
    """Every response once, in lexicographic order."""
    if length == 0:
        return [()]
    rest = responses(vocab_size, length - 1, end_token)
    return [
        (token, *tail) for token in range(vocab_size) for tail in ([()] if token == end_token else rest)
    ]  # an end token has no tail


def all_responses(policy):
    return responses(policy.vocab_size, policy.length, policy.end_token)


def token_probabilities(policy, prompt, response):
    return [next_token(policy, prompt, response[:t])[token] for t, token in enumerate(response)]


def probability(policy, prompt, response):
    return math.prod(token_probabilities(policy, prompt, response))


def distribution(policy, prompt):
    """{response: probability} over every response."""
    return {response: probability(policy, prompt, response) for response in all_responses(policy)}


def expectation(policy, prompt, value):
    return sum(p * value(response) for response, p in distribution(policy, prompt).items())


def kl(policy, reference, prompt):
    p, q = distribution(policy, prompt), distribution(reference, prompt)
    return sum(p[y] * math.log(p[y] / q[y]) for y in p)


@torch.no_grad()
def derivative(policy, value, step=1e-5):
    """d value() / dθ for each parameter, by central differences; `value` returns a float or a list of floats."""
    found = []
    for parameter in policy.parameters():
        flat = parameter.view(-1)
        for i, original in enumerate(flat.tolist()):
            flat[i] = original + step
            above = torch.tensor(value(), dtype=torch.float64)
            flat[i] = original - step
            found.append((above - torch.tensor(value(), dtype=torch.float64)) / (2 * step))
            flat[i] = original
    return torch.stack(found)


def probability_jacobian(policy, prompt):
    """∂π(y|prompt)/∂θ, [responses, parameters]: for fixed values h(y), the gradient of E[h] is h @ this."""
    return derivative(policy, lambda: list(distribution(policy, prompt).values())).T


def gradient_of(policy):
    """The policy's .grad fields laid end to end."""
    return torch.cat([p.grad.flatten() for p in policy.parameters()])


def tensors(policy, listed):
    """Responses as a padded tensor and a mask, each of shape [len(listed), length]."""
    pad = 0 if policy.end_token is None else policy.end_token
    length = policy.length
    padded = torch.tensor([[*response, *[pad] * (length - len(response))] for response in listed])
    mask = torch.tensor([[t < len(response) for t in range(length)] for response in listed])
    return padded, mask


def groups(policy, prompt, group_size):
    """Every ordered group of responses, and the probability that `policy` draws it."""
    listed = distribution(policy, prompt)
    every = list(itertools.product(listed, repeat=group_size))
    return every, [math.prod(listed[response] for response in group) for group in every]


def worth(response):
    """An arbitrary reward with ties, zeros and both signs: nothing about it is special to any estimator."""
    return sum(weight * (token + 1) for weight, token in zip((3, -2, 5), response, strict=False)) % 4 - 1.0


def sorting_policy(seed=0, vocab_size=3, length=2):
    """Small enough to differentiate by hand, far enough from uniform to tell estimators apart."""
    return SortingPolicy(vocab_size, length, dim=2, init_scale=0.7, seed=seed).double()


def toy_policy(seed=0, vocab_size=3, length=3):
    """Its responses have one to three tokens; token 1 ends them."""
    return AutoregressivePolicy(vocab_size, length, end_token=1, prompt_size=2, seed=seed).double()


def short_toy_policy(seed=0, length=2):
    return toy_policy(seed, length=length)


POLICIES = {"sorting": sorting_policy, "toy": toy_policy, "short toy": short_toy_policy}
