"""Answers to assignment a1, right and wrong, written from the notebook alone before its checks were read."""

import itertools

import torch
from einops import rearrange, reduce
from torch.nn.functional import cross_entropy, log_softmax, one_hot, pad

from minirl import sorting

# --- Q1


def looped_log_probs(logits, responses):
    normal = logits - torch.logsumexp(logits, 2, keepdim=True)
    batch, group, token = responses.shape
    rows = [
        torch.stack([torch.stack([normal[b, t, responses[b, g, t]] for t in range(token)]) for g in range(group)])
        for b in range(batch)
    ]
    return torch.stack(rows)


def one_hot_log_probs(logits, responses):
    chosen = one_hot(responses, logits.shape[-1]).to(logits.dtype)
    return torch.einsum("btv,bgtv->bgt", log_softmax(logits, -1), chosen)


def distribution_log_probs(logits, responses):
    each = torch.distributions.Categorical(logits=rearrange(logits, "b t v -> b 1 t v"))
    return each.log_prob(responses)


def picked(table, responses):
    return table[:, None].expand(-1, responses.shape[1], -1, -1).gather(-1, responses[..., None])[..., 0]


def cross_entropies(logits, responses):
    wide = logits[:, None].expand(-1, responses.shape[1], -1, -1)
    return cross_entropy(wide.permute(0, 3, 1, 2), responses, reduction="none")


def shifted_log_probs(logits, responses):
    return picked(log_softmax(logits[:, :-1], -1), responses[..., 1:])


def rolled_log_probs(logits, responses):
    return pad(picked(log_softmax(logits[:, :-1], -1), responses[..., 1:]), (1, 0))


def constant_log_probs(logits, responses):
    with torch.no_grad():
        return picked(log_softmax(logits, -1), responses)


def best_log_probs(logits, responses):
    return log_softmax(logits, -1).amax(-1)[:, None].expand(responses.shape)


# --- Q2


def looped_naive(log_probs, deltas):
    out = torch.empty_like(log_probs)
    for b in range(deltas.shape[0]):
        for g in range(deltas.shape[1]):
            out[b, g] = -deltas[b, g] * log_probs[b, g]
    return out


def inplace_naive(log_probs, deltas):
    log_probs *= -deltas.unsqueeze(-1)
    return log_probs


def looped_listed(log_probs, rewards):
    total = 0
    for row, pay in zip(log_probs, rewards, strict=True):
        with torch.no_grad():
            weight = torch.exp(row)
        total = total - torch.dot(weight * pay, row)
    return total / len(log_probs)


# --- Q3


def looped_share(rewards):
    silent = sum(1 for row in rewards.tolist() if not any(row))
    return silent / len(rewards)


def simulated_silence(chances, group_size):
    draws = torch.rand(10_000, group_size, len(chances), dtype=chances.dtype) < chances
    return (draws.all(1) | ~draws.any(1)).to(chances.dtype).mean(0)


# --- Q4


def looped_deltas(states, rewards):
    deltas = rewards.clone()
    for state in states.unique():
        here = states == state
        deltas[here] -= rewards[here].mean()
    return deltas


def table_deltas(states, rewards):
    same = (states[:, None] == states[None]).to(rewards.dtype)
    return rewards - same @ rewards / same.sum(1)


def numpy_deltas(states, rewards):
    names, index = states.unique(return_inverse=True)
    sums = torch.zeros(len(names), dtype=rewards.dtype).index_add(0, index, rewards)
    return rewards - (sums / torch.bincount(index))[index]


def inplace_deltas(states, rewards):
    for state in states.unique():
        rewards[states == state] -= rewards[states == state].mean()
    return rewards


def two_states(states, rewards):
    deltas = rewards.clone()
    for state in (0, 1):
        here = states == state
        deltas[here] = rewards[here] - rewards[here].mean()
    return deltas


def others_deltas(states, rewards):
    same = (states[:, None] == states[None]).to(rewards.dtype)
    others = same - torch.eye(len(states), dtype=rewards.dtype)
    return rewards - others @ rewards / others.sum(1).clamp(min=1)


def summed_deltas(states, rewards):
    same = (states[:, None] == states[None]).to(rewards.dtype)
    return rewards - same @ rewards


def baselines_only(states, rewards):
    return rewards - table_deltas(states, rewards)


def running_deltas(states, rewards):
    total, count, deltas = {}, {}, []
    for state, reward in zip(states.tolist(), rewards, strict=True):
        total[state], count[state] = total.get(state, 0) + reward, count.get(state, 0) + 1
        deltas.append(reward - total[state] / count[state])
    return torch.stack(deltas)


def scaled_deltas(states, rewards):
    deltas = table_deltas(states, rewards)
    return deltas / (deltas.std() + 1e-6)


def paired_deltas(states, rewards):
    pairs = rewards.view(-1, 2)
    return (pairs - pairs.mean(1, keepdim=True)).view(-1)


def state_as_baseline(states, rewards):
    return rewards - torch.tensor([10.0, 1.0]).to(rewards)[states]


def looped_moments(probs, scores, rewards, baseline):
    guesses = [(reward - baseline) * score for reward, score in zip(rewards, scores, strict=True)]
    mean = sum(p * g for p, g in zip(probs, guesses, strict=True))
    return mean, sum(p * ((g - mean) ** 2).sum() for p, g in zip(probs, guesses, strict=True))


def short_moments(probs, scores, rewards, baseline):
    guesses = torch.einsum("nd,n->nd", scores, rewards - baseline)
    mean = torch.einsum("n,nd->d", probs, guesses)
    return mean, torch.einsum("n,nd,nd->", probs, guesses, guesses) - mean @ mean


def moments(probs, scores, rewards, baseline):
    guesses = scores * (rewards - baseline)[:, None]
    mean = probs @ guesses
    return guesses, mean, probs @ ((guesses - mean) ** 2).sum(1)


def plain_mean_moments(probs, scores, rewards, baseline):
    guesses = scores * (rewards - baseline)[:, None]
    return guesses.mean(0), guesses.var(0, unbiased=False).sum()


def sample_variance_moments(probs, scores, rewards, baseline):
    guesses, mean, _ = moments(probs, scores, rewards, baseline)
    return mean, guesses.var(0).sum()


def second_moment(probs, scores, rewards, baseline):
    guesses, mean, _ = moments(probs, scores, rewards, baseline)
    return mean, probs @ (guesses**2).sum(1)


def componentwise_moments(probs, scores, rewards, baseline):
    guesses, mean, _ = moments(probs, scores, rewards, baseline)
    return mean, probs @ (guesses - mean) ** 2


def rooted_moments(probs, scores, rewards, baseline):
    _, mean, variance = moments(probs, scores, rewards, baseline)
    return mean, variance.sqrt()


def unsquared_moments(probs, scores, rewards, baseline):
    guesses, mean, _ = moments(probs, scores, rewards, baseline)
    return mean, probs @ (guesses - mean).norm(dim=1)


def weighted_twice(probs, scores, rewards, baseline):
    guesses = probs[:, None] * scores * (rewards - baseline)[:, None]
    mean = guesses.sum(0)
    return mean, (probs[:, None] * (guesses - mean) ** 2).sum()


def no_baseline_moments(probs, scores, rewards, baseline):
    return moments(probs, scores, rewards, 0.0)[1:]


def late_baseline_moments(probs, scores, rewards, baseline):
    guesses = scores * rewards[:, None] - baseline
    mean = probs @ guesses
    return mean, probs @ ((guesses - mean) ** 2).sum(1)


def averaged_moments(probs, scores, rewards, baseline):
    guesses, mean, _ = moments(probs, scores, rewards, baseline)
    return mean, probs @ ((guesses - mean) ** 2).mean(1)


# --- Q5


def squares(scores):
    return (scores**2).sum(-1)


def looped_baseline(probs, scores, rewards):
    above = below = 0.0
    for p, score, reward in zip(probs.tolist(), scores.tolist(), rewards.tolist(), strict=True):
        length = sum(entry * entry for entry in score)
        above, below = above + p * length * reward, below + p * length
    return above / below


def weighted_baseline(probs, scores, rewards):
    weights = probs * torch.linalg.vector_norm(scores, dim=1) ** 2
    return (weights / weights.sum()) @ rewards


def baseline_with(length):
    return lambda probs, scores, rewards: (probs * length(scores) * rewards).sum() / (probs * length(scores)).sum()


# --- Q6


def looped_exact(prompts, responses):
    target = [sorted(prompt) for prompt in prompts.tolist()]
    rows = [[float(each == right) for each in group] for group, right in zip(responses.tolist(), target, strict=True)]
    return torch.tensor(rows)


def agreeing(prompts, responses):
    return responses == torch.sort(prompts, dim=-1).values.unsqueeze(1)


def inplace_exact(prompts, responses):
    prompts.copy_(prompts.sort(-1).values)
    return (responses == prompts[:, None]).all(-1).float()


def looped_position(prompts, responses):
    out = torch.zeros(responses.shape[:2])
    for b, prompt in enumerate(prompts):
        target = sorted(prompt.tolist())
        for g, response in enumerate(responses[b].tolist()):
            out[b, g] = sum(x == y for x, y in zip(response, target, strict=True))
    return out


def inclusion(prompts, responses):
    return (prompts[:, None, :, None] == responses[:, :, None, :]).any(-1).float().sum(-1)


def ordering(responses):
    return (responses[..., :-1] <= responses[..., 1:]).float().sum(-1)


def looped_points(prompts, responses):
    out = []
    for prompt, group in zip(prompts.tolist(), responses.tolist(), strict=True):
        out.append([])
        for response in group:
            points = sum(number in response for number in prompt)
            points += sum(x <= y for x, y in itertools.pairwise(response))
            out[-1].append(float(points))
    return torch.tensor(out)


def diff_points(prompts, responses):
    here = rearrange(prompts, "b p -> b 1 p 1") == rearrange(responses, "b g r -> b g 1 r")
    return reduce(here.int().amax(-1), "b g p -> b g", "sum").float() + (responses.diff(dim=-1) >= 0).float().sum(-1)


def multiset_points(prompts, responses):
    tokens = torch.arange(int(max(prompts.max(), responses.max())) + 1)
    asked = (prompts[..., None] == tokens).sum(1)[:, None]
    given = (responses[..., None] == tokens).sum(2)
    return torch.minimum(asked, given).sum(-1).float() + ordering(responses)


def unique_points(prompts, responses):
    rows = []
    for prompt, group in zip(prompts.tolist(), responses.tolist(), strict=True):
        rows.append([float(len(set(prompt) & set(each))) for each in group])
    return torch.tensor(rows) + ordering(responses)


# --- Q7


def searched_loophole(prompt, vocab_size):
    target = sorted(prompt.tolist())
    for each in itertools.combinations_with_replacement(range(vocab_size), len(target)):
        if list(each) != target and set(target) <= set(each):
            return torch.tensor(each)
    return None


def filled_loophole(prompt, vocab_size):
    target, needed = prompt.sort().values, prompt.unique()
    spare = len(prompt) - len(needed)
    for token in range(vocab_size if spare else 0):
        found = torch.cat([needed, needed.new_full((spare,), token)]).sort().values
        if not torch.equal(found, target):
            return found


def filled_with(choose, order=sorted):
    def loophole(prompt, vocab_size):
        needed = sorted(set(prompt.tolist()))
        spare = len(prompt) - len(needed)
        if spare == 0:
            return None
        found = order(needed + [choose(needed, vocab_size)] * spare)
        return None if found == sorted(prompt.tolist()) else torch.tensor(found)

    return loophole


def only_own_numbers(prompt, vocab_size):
    target = sorted(prompt.tolist())
    for token in target:
        needed = sorted(set(target))
        found = sorted(needed + [token] * (len(target) - len(needed)))
        if found != target:
            return torch.tensor(found)
    return None


def not_zero(prompt, vocab_size):
    target, needed = sorted(prompt.tolist()), sorted(set(prompt.tolist()))
    for token in range(1, vocab_size):
        found = sorted(needed + [token] * (len(target) - len(needed)))
        if len(found) > len(needed) and found != target:
            return torch.tensor(found)
    return None


def never_safe(prompt, vocab_size):
    found = prompt.sort().values.clone()
    found[0] = 0 if found[0] else found[-1]
    return found.sort().values


def neighbours_only(prompt, vocab_size):
    numbers = prompt.tolist()
    for place in range(1, len(numbers)):
        if numbers[place] == numbers[place - 1]:
            for token in range(vocab_size):
                found = sorted([*numbers[:place], token, *numbers[place + 1 :]])
                if found != sorted(numbers):
                    return torch.tensor(found)
    return None


RIGHT = {
    "a1.q1": [looped_log_probs, one_hot_log_probs, distribution_log_probs],
    "a1.q2a": [looped_naive, lambda log_probs, deltas: torch.einsum("bgt,bg->bgt", log_probs, deltas.neg())],
    "a1.q2b": [looped_listed, lambda lp, r: -torch.einsum("by,by,by->b", lp.detach().exp(), r, lp).mean()],
    "a1.q3a": [looped_share, lambda rewards: rewards.abs().amax(1).eq(0).float().mean()],
    "a1.q3b": [
        lambda chances, size: torch.pow(chances, size) + torch.pow(1 - chances, size),
        lambda chances, size: torch.tensor([p**size + (1 - p) ** size for p in chances.tolist()], dtype=chances.dtype),
    ],
    "a1.q4a": [looped_deltas, table_deltas, numpy_deltas],
    "a1.q4b": [looped_moments, short_moments],
    "a1.q5": [looped_baseline, weighted_baseline],
    "a1.q6a": [looped_exact, lambda prompts, responses: agreeing(prompts, responses).float().prod(-1)],
    "a1.q6b": [looped_position, lambda p, r: reduce(agreeing(p, r).double(), "b g t -> b g", "sum")],
    "a1.q6c": [looped_points, diff_points],
    "a1.q7": [searched_loophole, filled_loophole],
}

WRONG = {
    "a1.q1": [
        (lambda z, y: picked(z.softmax(-1), y), "gives the probability, not its logarithm", "these are probabilities"),
        (
            lambda z, y: picked(log_softmax(z, 1), y),
            "normalises over the positions instead of the vocabulary",
            "you normalise over the positions",
        ),
        (lambda z, y: picked(z, y), "takes the logit itself, without normalising it", "these are logits"),
        (
            cross_entropies,
            "cross-entropy is minus the log-prob: the sign is the other way round",
            "the sign is turned round",
        ),
        (
            shifted_log_probs,
            "shifts by one, as for a language model whose logits predict the next token",
            "a position is missing",
        ),
        (
            rolled_log_probs,
            "shifts by one and fills the first place with 0",
            "you score each token by the row before it",
        ),
        (constant_log_probs, "under no_grad, so nothing can be learned", "the values are right"),
        (
            best_log_probs,
            "the log-prob of the likeliest token, not of the sampled one",
            "you took the likeliest token at each",
        ),
        (
            lambda z, y: picked(log_softmax(z, -1), y).sum(-1),
            "adds up the tokens of a response",
            "you added up the tokens",
        ),
        (
            lambda z, y: picked(log_softmax(z, -1), y[:, :1].expand_as(y)),
            "looks up the group's first response for all",
            "all responses of a group have the log-probs",
        ),
    ],
    "a1.q2a": [
        (lambda lp, d: d[..., None] * lp, "no minus: the loss would be maximised", "the sign is missing"),
        (
            lambda lp, d: -d[:, None] * lp,
            "the new axis stands at the group's place, so tokens get other deltas",
            "you spread the deltas along the group axis",
        ),
        (lambda lp, d: -(d[..., None] * lp).sum(-1), "adds up the tokens", "you added up the tokens"),
        (
            lambda lp, d: -(d[..., None] * lp).mean(),
            "takes the mean, though nothing should be added up",
            "you averaged everything to one number",
        ),
        (
            lambda lp, d: -d[..., None] * lp.exp(),
            "uses the probability in place of its logarithm",
            "you weight the probabilities",
        ),
        (lambda lp, d: -d[..., None] * lp.detach(), "cuts the log-probs from the graph", "the log-probs are detached"),
        (
            lambda lp, d: -d[..., None] * lp / lp.shape[-1],
            "splits the delta among the tokens",
            "you share the delta out among the tokens",
        ),
        (
            lambda lp, d: -(d - d.mean(-1, keepdim=True))[..., None] * lp,
            "subtracts a baseline that nobody asked for",
            "you subtract a baseline",
        ),
        (inplace_naive, "changes the log-probs in place", "in place"),
    ],
    "a1.q2b": [
        (
            lambda lp, r: -(lp.exp() * r * lp).sum(-1).mean(),
            "the weight is not held fixed",
            "the weights π(y) are left in the graph",
        ),
        (
            lambda lp, r: -(lp.exp() * r * lp.detach()).sum(-1).mean(),
            "detaches the log-prob, not the weight",
            "you froze the wrong factor",
        ),
        (
            lambda lp, r: -(lp.exp() * r).sum(-1).mean(),
            "differentiates the expected reward itself: no log in it",
            "this is −E[R] itself",
        ),
        (
            lambda lp, r: -(lp.exp().detach() * r * lp).mean(),
            "the mean over responses, where their sum is meant",
            "you divide by the number of responses",
        ),
        (
            lambda lp, r: -(lp.exp().detach() * r * lp).sum(),
            "adds up the prompts, where their mean is meant",
            "you add up the prompts",
        ),
        (
            lambda lp, r: -(r * lp).sum(-1).mean(),
            "forgets the weight: every response counts the same",
            "the weight π(y) is missing",
        ),
        (lambda lp, r: (lp.exp().detach() * r * lp).sum(-1).mean(), "no minus", "the sign is missing"),
        (
            lambda lp, r: -(lp.exp().detach() * r * lp).sum(-1),
            "one number for each prompt",
            "this is a number for each prompt",
        ),
        (
            lambda lp, r: -(lp.detach() * r * lp).sum(-1).mean(),
            "the weight is the log-prob: exp is missing",
            "the weight is the log-prob",
        ),
        (
            lambda lp, r: -(lp.exp() * r * lp).sum(-1).mean().item(),
            "item() leaves a number without a gradient",
            "nothing has a gradient",
        ),
    ],
    "a1.q3a": [
        (
            lambda r: (r.sum(-1) == 0).float().mean(),
            "rewards −1 and 1 add up to 0 and still push",
            "rewards that add up to 0 are not all 0",
        ),
        (
            lambda r: (r <= 0).all(-1).float().mean(),
            "takes negative rewards for silent",
            "negative rewards push as well",
        ),
        (
            lambda r: (r.max(-1).values == 0).float().mean(),
            "looks at the best reward only",
            "where the best reward is 0",
        ),
        (
            lambda r: (r == 0).float().mean(),
            "the share of responses, not of prompts",
            "this is the share of responses without a",
        ),
        (
            lambda r: (r == 0).any(-1).float().mean(),
            "one zero in the group is taken for silence",
            "one response without a reward does not",
        ),
        (
            lambda r: (r.std(-1) == 0).float().mean(),
            "equal rewards are silent only after a comparison in the group",
            "equal rewards above 0 still push under the",
        ),
        (
            lambda r: (r == 0).all(0).float().mean(),
            "the wrong axis: over prompts instead of over the group",
            "you ask along the batch axis",
        ),
        (
            lambda r: (r != 0).any(-1).float().mean(),
            "the share that does learn",
            "this is the share of prompts that do teach",
        ),
        (
            lambda r: (r == 0).all(-1).float().sum(),
            "the number of prompts, not their share",
            "this is how many they are",
        ),
        (
            lambda r: (r == 0).all(-1).float(),
            "one number for each prompt, not the mean over them",
            "this says it for each prompt",
        ),
    ],
    "a1.q3b": [
        (lambda p, n: (1 - p) ** n, "forgets the groups that are all right", "all wrong is not the only silent group"),
        (lambda p, n: p**n, "forgets the groups that are all wrong", "all right is not the only silent group"),
        (
            lambda p, n: p**n * (1 - p) ** n,
            "multiplies the two chances; they exclude each other, so they add up",
            "a group is all right or all wrong",
        ),
        (
            lambda p, n: 1 - p**n - (1 - p) ** n,
            "the chance of a signal, not of silence",
            "this is the chance that a group has a signal",
        ),
        (
            lambda p, n: p ** (n - 1) + (1 - p) ** (n - 1),
            "off by one: the first response is not counted",
            "you leave one response out",
        ),
        (
            lambda p, n: p * n + (1 - p) * n,
            "multiplies by G where the power of G is meant",
            "independent chances are multiplied",
        ),
        (lambda p, n: p**8 + (1 - p) ** 8, "works for a group of 8 only", None),
        (simulated_silence, "simulates, and is right to two digits only", None),
        (
            lambda p, n: p**n + (1 - p) ** n - p**n * (1 - p) ** n,
            "subtracts an overlap of two events that exclude",
            "you take away the chance of both at once",
        ),
        (
            lambda p, n: (p**n + (1 - p) ** n).mean(),
            "averages over the prompts",
            "you take the mean along the last axis",
        ),
    ],
    "a1.q4a": [
        (lambda s, r: r - r.mean(), "one baseline for all states", "you subtract the mean of all rewards"),
        (
            summed_deltas,
            "subtracts the sum of the state's rewards, not their mean",
            "you subtract the sum of the state's rewards",
        ),
        (others_deltas, "leaves the sample itself out of its baseline", "a sample is left out of its own baseline"),
        (baselines_only, "returns the baselines, not the deltas", "you return the baselines"),
        (inplace_deltas, "changes the rewards in place", "you change the rewards in place"),
        (two_states, "knows the states 0 and 1 only", "you look for the states 0 and 1 only"),
        (paired_deltas, "assumes two neighbouring samples to a state", "you take the samples two by two"),
        (state_as_baseline, "the lecture's baselines 10 and 1, instead of estimates", None),
        (lambda s, r: -table_deltas(s, r), "baseline minus reward: the sign", "the sign is turned round"),
        (running_deltas, "the mean of the samples so far, not of all", "the baseline is the mean so far"),
        (scaled_deltas, "divides by the standard deviation as well", None),
    ],
    "a1.q4b": [
        (plain_mean_moments, "mean and variance without the weights", "all responses weigh the same"),
        (
            sample_variance_moments,
            "the variance without the weights, though the mean has them",
            "the mean is weighted and the variance is not",
        ),
        (second_moment, "the mean is not subtracted in the variance", "this is the mean square"),
        (
            componentwise_moments,
            "one variance for each component, not added up",
            "there is a variance for each parameter",
        ),
        (rooted_moments, "the standard deviation, not the variance", "this is the standard deviation"),
        (unsquared_moments, "the distance is not squared", "the distances from the mean are not squared"),
        (
            weighted_twice,
            "the weight is inside the guess and weights again",
            "your guesses have the probabilities in them",
        ),
        (no_baseline_moments, "forgets the baseline", "the baseline is not subtracted"),
        (
            late_baseline_moments,
            "subtracts the baseline from the product, not from the reward",
            "the baseline is taken from the whole guess",
        ),
        (averaged_moments, "the mean over components, where the sum is meant", "you take the mean of the parameters'"),
        (lambda p, s, r, b: moments(p, s, r, -b)[1:], "adds the baseline", "the baseline is added"),
        (lambda p, s, r, b: moments(p, s, r, b)[:0:-1], "returns the two in the wrong order", "the mean comes first"),
        (lambda p, s, r, b: moments(p, s, r, b)[2], "returns the variance alone", "you return the variance only"),
    ],
    "a1.q5": [
        (
            lambda p, s, r: p @ r,
            "the mean reward: right only if all scores have the same length",
            "this is the mean reward",
        ),
        (
            baseline_with(lambda s: s.norm(dim=-1)),
            "the length of the score, not its square",
            "you weight by the length of the score",
        ),
        (
            lambda p, s, r: (squares(s) * r).sum() / squares(s).sum(),
            "forgets the probabilities",
            "the probabilities are missing",
        ),
        (
            baseline_with(lambda s: s.sum(-1) ** 2),
            "the square of the sum, not the sum of the squares",
            "you add up the score's entries before you",
        ),
        (
            lambda p, s, r: (p @ (s**2 * r[:, None])) / (p @ s**2),
            "a baseline for each component",
            "you have a baseline for each parameter",
        ),
        (
            lambda p, s, r: ((p @ (s**2 * r[:, None])) / (p @ s**2)).mean(),
            "averages the baselines of the components",
            "you average the fractions of the parameters",
        ),
        (
            lambda p, s, r: (p @ (squares(s) * r**2)) / (p @ squares(s)),
            "the reward is squared too",
            "you square the reward as well",
        ),
        (
            lambda p, s, r: (p @ (squares(s) * r)) / squares(s).sum(),
            "no probabilities in the denominator",
            "the denominator has no probabilities",
        ),
        (
            lambda p, s, r: (p @ (squares(s) * r)) / (p @ s.norm(dim=-1)) ** 2,
            "the square of the mean length below",
            "the denominator is the square of a mean",
        ),
        (lambda p, s, r: p @ (squares(s) * r), "forgets to divide", "the denominator is missing"),
        (
            lambda p, s, r: r.mean(),
            "the plain mean of the rewards, without weights",
            "this is the plain mean of the rewards",
        ),
    ],
    "a1.q6a": [
        (
            lambda p, r: (r == p[:, None]).all(-1).float(),
            "compares with the prompt as it stands, unsorted",
            "you compare with the prompt as it is",
        ),
        (
            lambda p, r: agreeing(p, r.sort(-1).values).all(-1).float(),
            "sorts the response too",
            "you sort the response too",
        ),
        (
            lambda p, r: (r.diff(dim=-1) >= 0).all(-1).float(),
            "asks only whether the response is in order",
            "ascending order alone is not enough",
        ),
        (lambda p, r: agreeing(p, r).any(-1).float(), "one right place is enough", "one right place is not enough"),
        (
            lambda p, r: agreeing(p, r).float().mean(-1),
            "partial credit: the share of right places",
            "there is no partial credit here",
        ),
        (
            lambda p, r: (r == p.sort(-1, descending=True).values[:, None]).all(-1).float(),
            "descending order",
            "you sort in descending order",
        ),
        (
            lambda p, r: (r == p.sort(-1).indices[:, None]).all(-1).float(),
            "compares with the indices that sort gives",
            "you compare with the indices that sort",
        ),
        (
            lambda p, r: (r == p.sort(0).values[:, None]).all(-1).float(),
            "sorts across the prompts",
            "you sort along the batch axis",
        ),
        (inplace_exact, "sorts the prompts in place", "you sort the prompts in place"),
        (
            lambda p, r: agreeing(p, r).all().float(),
            "one answer for the whole batch",
            "this is one verdict on the whole batch",
        ),
        (lambda p, r: agreeing(p, r).all(-1), "yes or no, where a float is asked for", "as bool"),
    ],
    "a1.q6b": [
        (
            lambda p, r: agreeing(p, r).float().mean(-1),
            "the share of the places, not their number",
            "this is the share of places",
        ),
        (
            lambda p, r: agreeing(p, r).float().cumprod(-1).sum(-1),
            "stops at the first wrong place",
            "you stop at the first wrong place",
        ),
        (
            lambda p, r: (r == p[:, None]).float().sum(-1),
            "compares with the prompt as it stands, unsorted",
            "you compare with the prompt as it is",
        ),
        (
            lambda p, r: agreeing(p, r.sort(-1).values).float().sum(-1),
            "sorts the response too",
            "you sort the response too",
        ),
        (
            lambda p, r: agreeing(p, r).float().sum(1),
            "adds up along the group, not along the places",
            "you add up the wrong axis",
        ),
        (inclusion, "counts numbers that stand anywhere", "you count a number that occurs anywhere in"),
        (
            lambda p, r: (r == p.sort(-1, descending=True).values[:, None]).float().sum(-1),
            "descending order",
            "you sort in descending order",
        ),
        (lambda p, r: agreeing(p, r).all(-1).float(), "all or nothing, as in Q6a", "this is the exact reward"),
        (
            lambda p, r: agreeing(p, r).all(-1).float() * p.shape[-1],
            "n points or none: no partial credit",
            "you give all points or none",
        ),
        (lambda p, r: (~agreeing(p, r)).float().sum(-1), "counts the wrong places", "you count the wrong places"),
        (lambda p, r: agreeing(p, r).sum(-1), "whole numbers, where floats are asked for", "as int64"),
    ],
    "a1.q6c": [
        (multiset_points, "asks for as many copies as the prompt has", "you count copies"),
        (
            lambda p, r: inclusion(p, r) + (r.diff(dim=-1) > 0).float().sum(-1),
            "equal neighbours earn nothing",
            "equal neighbours are in order as well",
        ),
        (inclusion, "the ordering is missing", "the points for order are missing"),
        (lambda p, r: ordering(r), "the inclusion is missing", "the points for inclusion are missing"),
        (
            lambda p, r: (p[:, None, :, None] == r[:, :, None, :]).any(-2).float().sum(-1) + ordering(r),
            "counts places of the response that occur in the prompt, not the other way round",
            "you ask for each number of the response",
        ),
        (
            unique_points,
            "asks for a number once, though the prompt has it twice",
            "a number that the prompt has twice earns",
        ),
        (
            lambda p, r: inclusion(p, r) + (r.diff(dim=-1) <= 0).float().sum(-1),
            "rewards falling order",
            "you reward descending pairs",
        ),
        (
            lambda p, r: inclusion(p, r) + (r <= r.roll(-1, -1)).float().sum(-1),
            "compares the last place with the first",
            "you compare the last number with the first",
        ),
        (
            lambda p, r: inclusion(p, r) + (r.diff(dim=-1) >= 0).all(-1).float(),
            "one point for order, all or nothing",
            "order is not all or nothing",
        ),
        (
            lambda p, r: (p[:, None, :, None] == r[:, :, None, :]).float().sum((-1, -2)) + ordering(r),
            "counts every occurrence in the response",
            "you count how often a number occurs in the",
        ),
        (
            lambda p, r: inclusion(p, r) + ordering(p)[:, None],
            "looks at the order of the prompt",
            "you look for order in the prompt",
        ),
        (
            lambda p, r: (inclusion(p, r) + ordering(r)) / (2 * p.shape[-1] - 1),
            "divides by the highest number of points",
            "you divide by the highest number of points",
        ),
    ],
    "a1.q7": [
        (
            only_own_numbers,
            "uses numbers of the prompt only, and misses 1 1 1",
            "you return None where all numbers are the",
        ),
        (
            filled_with(lambda needed, size: needed[-1] + 1),
            "fills with a token that the vocabulary may not have",
            "you use a number outside the vocabulary",
        ),
        (
            filled_with(lambda needed, size: needed[-1]),
            "repeats the largest number, which may be the sorted prompt",
            "you return None where all numbers are the",
        ),
        (
            filled_with(lambda needed, size: 0),
            "fills with 0, which may be the sorted prompt",
            "you return None where all numbers are the",
        ),
        (
            filled_with(lambda needed, size: next((t for t in range(size) if t not in needed), needed[0]), list),
            "does not put the filling in order",
            "your response is not in ascending order",
        ),
        (
            filled_with(lambda needed, size: needed[0], lambda x: sorted(x, reverse=True)),
            "falling order",
            "your response is not in ascending order",
        ),
        (not_zero, "begins the vocabulary at 1", "you return None where all numbers are the"),
        (never_safe, "finds one even where a prompt is safe", "you returned the sorted prompt"),
        (
            neighbours_only,
            "sees a number twice only where the two are neighbours in the prompt",
            "you return None for a prompt that has a",
        ),
        (lambda prompt, size: None, "thinks that no prompt has one", "you return None for a prompt that has a"),
        (
            lambda prompt, size: prompt.sort().values,
            "returns the sorted prompt itself",
            "you returned the sorted prompt",
        ),
        (
            lambda prompt, size: torch.zeros_like(prompt),
            "in order, but without the prompt's numbers",
            "your response leaves out a number of the",
        ),
        (
            lambda prompt, size: prompt.unique() if len(prompt.unique()) < len(prompt) else None,
            "a response too short",
            "your response has not as many numbers as",
        ),
        (
            lambda prompt, size: torch.tensor([1, 2, 2]),
            "the shown example only",
            "you return the same response for every",
        ),
        (
            lambda prompt, size: None if len(prompt.unique()) == len(prompt) else sorting.all_prompts(size, 3)[-1],
            "any other response of the right length",
            "your response leaves out a number of the",
        ),
    ],
}
