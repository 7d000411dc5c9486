"""Assignment 3 as a class would hand it in, written from the notebook alone: right answers, and wrong ones with why."""

import math
from itertools import combinations

import torch
from einops import einsum, rearrange, reduce
from torch.nn.functional import logsigmoid, softplus

# Q1a: generalised advantage estimation


@torch.no_grad()
def gae_backwards(rewards, values, mask, gamma, lam):
    next_value, next_advantage = torch.zeros_like(values[..., 0]), torch.zeros_like(values[..., 0])
    found = []
    for t in reversed(range(rewards.shape[-1])):
        inside = mask[..., t]
        advantage = rewards[..., t] + gamma * next_value - values[..., t] + gamma * lam * next_advantage
        found.insert(0, torch.where(inside, advantage, 0.0))
        next_value = torch.where(inside, values[..., t], next_value)
        next_advantage = torch.where(inside, advantage, next_advantage)
    return torch.stack(found, -1)


def gae_row_by_row(rewards, values, mask, gamma, lam):
    """Cut the tokens of each response out, work in double, put them back."""
    result = torch.zeros_like(rewards)
    for b in range(rewards.shape[0]):
        for g in range(rewards.shape[1]):
            inside = mask[b, g]
            r, v = rewards[b, g][inside].double().tolist(), [*values[b, g][inside].double().tolist(), 0.0]
            deltas = [r[i] + gamma * v[i + 1] - v[i] for i in range(len(r))]
            sums = [
                sum((gamma * lam) ** (k - i) * deltas[k] for k in range(i, len(deltas))) for i in range(len(deltas))
            ]
            result[b, g, inside] = torch.tensor(sums, dtype=rewards.dtype)
    return result


def gae_recursive(rewards, values, mask, gamma, lam):
    """One column after the other, the rest of the row first."""

    def rest(t):
        if t == rewards.shape[-1]:
            zero = rewards[..., :1].squeeze(-1) * 0
            return [], zero.nan_to_num(), zero.nan_to_num()
        columns, value, advantage = rest(t + 1)
        new = rewards[..., t] - values[..., t] + gamma * (value + lam * advantage)
        m = mask[..., t]
        return [torch.where(m, new, 0), *columns], value.where(~m, values[..., t]), advantage.where(~m, new)

    return torch.stack(rest(0)[0], dim=2)


def gae_wrong(
    next_value=lambda values, t: values[..., t + 1],
    fade=lambda gamma, lam: gamma * lam,
    after=lambda values: torch.zeros_like(values[..., 0]),
):
    """The textbook loop over positions, the mask applied to what goes in and out, with one part changed."""

    def answer(rewards, values, mask, gamma, lam):
        values, rewards = values * mask, rewards * mask
        length, result = rewards.shape[-1], torch.zeros_like(rewards)
        carried = torch.zeros_like(rewards[..., 0])
        for t in range(length - 1, -1, -1):
            coming = next_value(values, t) if t + 1 < length else after(values)
            delta = rewards[..., t] + gamma * coming - values[..., t]
            carried = delta + fade(gamma, lam) * carried
            result[..., t] = carried
        return result * mask

    return answer


def gae_changed(change):
    """Right but for what `change` does to (rewards, values, mask, gamma, lam) or to the result."""
    return lambda *given: change(gae_backwards, *given)


def gae_unmasked(rewards, values, mask, gamma, lam):
    everything = torch.ones_like(mask)
    return gae_backwards(rewards, values, everything, gamma, lam) * mask


def gae_signs(rewards, values, mask, gamma, lam):
    next_value, carried = torch.zeros_like(values[..., 0]), torch.zeros_like(values[..., 0])
    result = torch.zeros_like(rewards)
    for t in reversed(range(rewards.shape[-1])):
        m = mask[..., t]
        new = rewards[..., t] + values[..., t] - gamma * next_value + gamma * lam * carried
        next_value, carried = torch.where(m, values[..., t], next_value), torch.where(m, new, carried)
        result[..., t] = new * m
    return result


def gae_leading(rewards, values, mask, gamma, lam):
    """Loops over the axis 1 as if it were the tokens."""
    carried, coming, result = 0, 0, torch.zeros_like(rewards)
    for t in reversed(range(rewards.shape[1])):
        delta = rewards[:, t] + gamma * coming - values[:, t]
        carried = delta + gamma * lam * carried
        coming = values[:, t]
        result[:, t] = carried
    return result * mask


def gae_forwards(rewards, values, mask, gamma, lam):
    flipped = [each.flip(-1) for each in (rewards, values, mask)]
    return gae_backwards(*flipped, gamma, lam).flip(-1)


def gae_in_place(rewards, values, mask, gamma, lam):
    rewards[~mask], values[~mask] = 0, 0
    return gae_backwards(rewards, values, mask, gamma, lam)


def gae_whitened(rewards, values, mask, gamma, lam):
    advantages = gae_backwards(rewards, values, mask, gamma, lam)
    inside = advantages[mask]
    return torch.where(mask, (advantages - inside.mean()) / (inside.std() + 1e-8), 0)


def gae_bare_v(rewards, values, mask, gamma, lam):
    next_value, carried, result = values[..., 0] * 0, values[..., 0] * 0, torch.zeros_like(rewards)
    for t in reversed(range(rewards.shape[-1])):
        m = mask[..., t]
        new = rewards[..., t] + next_value - values[..., t] + gamma * lam * carried
        next_value, carried = torch.where(m, values[..., t], next_value), torch.where(m, new, carried)
        result[..., t] = new * m
    return result


# Q1b: the same at γ = λ = 1


@torch.no_grad()
def to_go_by_flips(rewards, values, mask):
    inside = rewards.masked_fill(~mask, 0)
    return (inside.flip(-1).cumsum(-1).flip(-1) - values).masked_fill(~mask, 0)


def to_go_by_triangle(rewards, values, mask):
    later = torch.ones(mask.shape[-1], mask.shape[-1], dtype=rewards.dtype).tril()
    coming = einsum(torch.where(mask, rewards, 0), later, "b g k, k t -> b g t")
    return torch.where(mask, coming - values, 0)


def to_go_by_difference(rewards, values, mask):
    clean = torch.where(mask, rewards, 0.0)
    return torch.where(mask, clean.sum(-1, keepdim=True) - clean.cumsum(-1) + clean - values, 0.0)


def kept(mask, new):
    return torch.where(mask, new, 0)


def from_right(rewards):
    return rewards.flip(-1).cumsum(-1).flip(-1)


def to_go_in_place(rewards, values, mask):
    rewards[~mask] = 0
    return kept(mask, from_right(rewards) - values)


# Q2: the value loss


def value_loss_by_where(values, returns, old_values, clip):
    target, old = returns.detach(), old_values.detach()
    error = (values - target).square()
    if clip is None:
        return error / 2
    held = torch.where(values > old + clip, old + clip, torch.where(values < old - clip, old - clip, values))
    return 0.5 * torch.maximum(error, (held - target).square())


def value_loss_by_offset(values, returns, old_values, clip):
    bound = math.inf if clip is None else clip
    returns, old_values = returns.data, old_values.data
    step = (values - old_values).clamp(-bound, bound)
    if clip is None:
        return ((values - returns) ** 2) * 0.5
    return torch.stack([(values - returns) ** 2, (old_values + step - returns) ** 2]).amax(0) * 0.5


def value_loss_wrong(
    half=0.5,
    choose=torch.maximum,
    low=lambda old, clip: old - clip,
    high=lambda old, clip: old + clip,
    targets=torch.Tensor.detach,
    old=torch.Tensor.detach,
    unclipped=lambda clip: clip is None,
    final=lambda loss: loss,
):
    def answer(values, returns, old_values, clip):
        target, before = targets(returns), old(old_values)
        plain = (values - target) ** 2
        if unclipped(clip):
            return final(half * plain)
        held = torch.maximum(torch.minimum(values, high(before, clip)), low(before, clip))
        return final(half * choose(plain, (held - target) ** 2))

    return answer


def value_loss_around_the_return(values, returns, old_values, clip):
    returns = returns.detach()
    plain = (values - returns) ** 2
    if clip is None:
        return plain / 2
    return torch.max(plain, (values.clamp(returns - clip, returns + clip) - returns) ** 2) / 2


def value_loss_frozen_value(values, returns, old_values, clip):
    return value_loss_by_where(values.detach(), returns, old_values, clip) + 0 * (values - values)


# Q3: the price of the KL at each token


@torch.no_grad()
def shaped_by_cumsum(rewards, log_probs, ref_log_probs, mask, beta):
    last = mask & (mask.cumsum(-1) == mask.sum(-1, keepdim=True))
    return torch.where(mask, -beta * (log_probs - ref_log_probs), 0) + last * rewards[..., None]


def shaped_by_loops(rewards, log_probs, ref_log_probs, mask, beta):
    result = torch.zeros_like(log_probs).detach()
    for b, g in torch.cartesian_prod(torch.arange(mask.shape[0]), torch.arange(mask.shape[1])).tolist():
        places = [t for t in range(mask.shape[2]) if mask[b, g, t]]
        for t in places:
            result[b, g, t] = beta * (ref_log_probs[b, g, t].item() - log_probs[b, g, t].item())
        if places:
            result[b, g, places[-1]] += rewards[b, g].item()
    return result


def shaped_by_argmax(rewards, log_probs, ref_log_probs, mask, beta):
    places = torch.arange(1, mask.shape[-1] + 1) * mask
    where = places.argmax(-1, keepdim=True)
    outcome = torch.zeros_like(log_probs).scatter(-1, where, rewards.unsqueeze(-1).to(log_probs.dtype))
    return ((beta * (ref_log_probs - log_probs) + outcome) * 1).masked_fill(~mask, 0).detach()


def last_token(mask):
    return mask & (mask.cumsum(-1) == mask.sum(-1, keepdim=True))


def shaped_wrong(price=lambda log_probs, ref, beta: -beta * (log_probs - ref), where=last_token, final=kept):
    def answer(rewards, log_probs, ref_log_probs, mask, beta):
        with torch.no_grad():
            return final(mask, price(log_probs, ref_log_probs, beta) + where(mask) * rewards[..., None])

    return answer


def at_column(mask, column):
    result = torch.zeros_like(mask)
    result[..., column] = True
    return result


def at_count(mask):
    return torch.arange(mask.shape[-1]) == mask.sum(-1, keepdim=True) - 1


def shaped_at_the_end(rewards, log_probs, ref_log_probs, mask, beta):
    price = (kept(mask, log_probs - ref_log_probs).sum(-1) * beta).detach()
    return last_token(mask) * (rewards - price)[..., None]


def shaped_with_gradient(rewards, log_probs, ref_log_probs, mask, beta):
    return kept(mask, -beta * (log_probs - ref_log_probs)) + last_token(mask) * rewards[..., None]


def shaped_k3(rewards, log_probs, ref_log_probs, mask, beta):
    gap = (ref_log_probs - log_probs).detach()
    return kept(mask, -beta * (gap.exp() - 1 - gap)) + last_token(mask) * rewards[..., None]


# Q7a: the favourite of a noisy judge


def favourite_by_weights(proxy, true, n):
    m = proxy.shape[-1]
    weights = torch.tensor([math.comb(i, n - 1) / math.comb(m, n) for i in range(m)], dtype=true.dtype)
    return true.gather(-1, proxy.argsort(-1)) @ weights


def favourite_by_choices(proxy, true, n):
    means = []
    for judged, worth in zip(proxy.tolist(), true.tolist(), strict=True):
        picks = [max(choice, key=judged.__getitem__) for choice in combinations(range(len(judged)), n)]
        means.append(math.fsum(worth[i] for i in picks) / len(picks))
    return torch.tensor(means, dtype=true.dtype)


def favourite_by_ranks(proxy, true, n):
    below = (proxy[:, None, :] < proxy[:, :, None]).sum(-1)
    m = proxy.shape[1]
    chance = below.clone().to(torch.float64).apply_(lambda count: math.comb(int(count), n - 1) / math.comb(m, n))
    return reduce(chance * true.double(), "prompt sample -> prompt", "sum").to(true.dtype)


def by_place(chance, order=lambda proxy, true: true.gather(-1, proxy.argsort(-1))):
    """The mean over the sorted samples, the one in place i of m (from 0) with chance(i, m, n)."""

    def answer(proxy, true, n):
        m = proxy.shape[-1]
        weights = torch.tensor([chance(i, m, n) for i in range(m)], dtype=true.dtype)
        return order(proxy, true) @ weights

    return answer


def comb_chance(i, m, n):
    return math.comb(i, n - 1) / math.comb(m, n)


def favourite_mislabelled(proxy, true, n):
    m = proxy.shape[-1]
    weights = torch.tensor([comb_chance(i, m, n) for i in range(m)], dtype=true.dtype)
    return (weights[proxy.argsort(-1)] * true).sum(-1)


# Q7b: where to stop


def stop_by_means(proxy, true):
    real = true.mean(0)
    best = real.argmax().item()
    return best, (real[best] - real[proxy.mean(0).argmax()]).item()


def stop_by_lists(proxy, true):
    columns = [sum(column) / len(column) for column in zip(*true.tolist(), strict=True)]
    judged = [sum(column) / len(column) for column in zip(*proxy.tolist(), strict=True)]
    best, chosen = (max(range(len(each)), key=each.__getitem__) for each in (columns, judged))
    return best, columns[best] - columns[chosen]


def stop_with_tensors(proxy, true):
    top, best = reduce(true, "seed checkpoint -> checkpoint", "mean").max(0)
    return best, top - true[:, proxy.sum(0).argmax()].mean()


def stop_wrong(place, loss):
    def answer(proxy, true):
        return place(proxy, true), loss(proxy, true)

    return answer


def stop_place(proxy, true):
    return true.mean(0).argmax().item()


def stop_loss(proxy, true):
    return stop_by_means(proxy, true)[1]


RIGHT = {
    "a3.q1a": [gae_backwards, gae_row_by_row, gae_recursive],
    "a3.q1b": [to_go_by_flips, to_go_by_triangle, to_go_by_difference],
    "a3.q2": [value_loss_by_where, value_loss_by_offset],
    "a3.q3": [shaped_by_cumsum, shaped_by_loops, shaped_by_argmax],
    "a3.q4": [
        lambda chosen, rejected: -logsigmoid(chosen - rejected),
        lambda chosen, rejected: torch.logaddexp(torch.zeros_like(chosen), rejected - chosen),
        lambda chosen, rejected: softplus(rejected - chosen),
        lambda chosen, rejected: -torch.stack([chosen, rejected]).log_softmax(0)[0],
    ],
    "a3.q5": [
        lambda c, r, rc, rr, beta: -logsigmoid(beta * ((c - rc.detach()) - (r - rr.detach()))),
        lambda c, r, rc, rr, beta: softplus(beta * (r - c + (rc - rr).detach())),
        lambda c, r, rc, rr, beta: (
            torch.logsumexp(rearrange([beta * (c - rc.data), beta * (r - rr.data)], "which ... -> which ..."), 0)
            - beta * (c - rc.data)
        ),
    ],
    "a3.q6": [
        lambda c, r, lc, lr, beta, margin: -logsigmoid(beta * c / lc - beta * r / lr - margin),
        lambda c, r, lc, lr, beta, margin: softplus(margin - beta * (c * lc.to(c).reciprocal() - r.div(lr))),
    ],
    "a3.q7a": [favourite_by_weights, favourite_by_choices, favourite_by_ranks],
    "a3.q7b": [stop_by_means, stop_by_lists, stop_with_tensors],
}

# Each with what its author believed.
WRONG = {
    "a3.q1a": [
        (
            gae_wrong(),
            "t+1 is the next position, so a hole counts as a step with value 0",
            "a hole is taken for a step",
        ),
        (
            gae_unmasked,
            "it is enough to zero the result outside the mask; what stands there counts inside",
            "the mask is left out of the",
        ),
        (gae_wrong(fade=lambda gamma, lam: lam), "the sum fades with λ alone, and holes are steps", None),
        (
            gae_changed(lambda f, r, v, m, gamma, lam: f(r, v, m, gamma, 1.0)),
            "λ is forgotten, only γ fades",
            "λ is missing",
        ),
        (
            gae_changed(lambda f, r, v, m, gamma, lam: f(r, v, m, gamma, lam / gamma)),
            "the sum fades with λ, not γλ",
            "the sum over later errors fades by",
        ),
        (gae_bare_v, "γ belongs to the sum, and the next value needs none", "γ is missing in the error of"),
        (
            gae_signs,
            "the surprise is what was expected minus what came: V_t − γV_{t+1}",
            "the values have the wrong signs",
        ),
        (
            gae_wrong(after=lambda values: values[..., -1]),
            "the value after the last token is that of the last",
            "after the last token you go on",
        ),
        (
            gae_changed(lambda f, r, v, m, *rest: f(r, v, m, *rest) + torch.where(m, v, 0)),
            "returns: the value is not taken off",
            "you return A + V",
        ),
        (
            gae_changed(lambda f, *given: f(*given) * -1),
            "the whole advantage with the other sign",
            "the sign is turned round",
        ),
        (gae_forwards, "credit flows from earlier tokens to later ones", "the recursion runs from the first token"),
        (gae_leading, "axis 1 is time, as in code for [batch, time]", "the recursion runs along the group"),
        (gae_in_place, "the inputs may be zeroed in place", "changes its input number 1 in place"),
        (gae_whitened, "advantages are always whitened, as PPO code does", "the advantages are whitened already"),
        (
            gae_changed(lambda f, *given: f(*(x.float() if i < 2 else x for i, x in enumerate(given)))),
            "computes in float32",
            "too coarse",
        ),
        (
            gae_changed(lambda f, r, v, m, gamma, lam: kept(m, r - v)),
            "one step without what comes next",
            "what comes next is missing",
        ),
    ],
    "a3.q1b": [
        (
            lambda r, v, m: kept(m, kept(m, r).cumsum(-1) - v),
            "sums the rewards so far instead of those to come",
            "you sum from the first token up",
        ),
        (
            lambda r, v, m: kept(m, kept(m, r).sum(-1, keepdim=True) - v),
            "every token gets the whole reward of the row",
            "every token gets the sum of all",
        ),
        (
            lambda r, v, m: kept(m, from_right(r) - v),
            "the mask is for the result only; rewards outside it count",
            "rewards outside the mask are summed too",
        ),
        (
            lambda r, v, m: kept(m, from_right(kept(m, r)) - kept(m, r) - v),
            "begins the sum one token too late",
            "the reward of the token itself is",
        ),
        (lambda r, v, m: kept(m, from_right(kept(m, r))), "forgets the value", "this is the return"),
        (
            lambda r, v, m: from_right(kept(m, r)) - v,
            "leaves numbers outside the mask",
            "outside the mask the result must be",
        ),
        (lambda r, v, m: kept(m, from_right(kept(m, r)) + v), "adds the value", "the value is added"),
        (
            lambda r, v, m: kept(m, kept(m, r).flip(-1).cumsum(-1) - v),
            "does not flip back",
            "the sums stand in the wrong order",
        ),
        (
            lambda r, v, m: kept(m, kept(m, r).flip(1).cumsum(1).flip(1) - v),
            "sums along the group",
            "you sum along the group",
        ),
        (
            lambda r, v, m: kept(m, v - from_right(kept(m, r))),
            "value minus return: the sign",
            "the sign is turned round",
        ),
        (
            lambda r, v, m: kept(m, from_right(kept(m, r - v))),
            "takes the value off at every later token too",
            "later values are taken off as well",
        ),
        (to_go_in_place, "the inputs may be zeroed in place", "changes its input number 1 in place"),
    ],
    "a3.q2": [
        (value_loss_wrong(half=1.0), "the half is forgotten", "the factor ½ is missing"),
        (
            value_loss_wrong(choose=torch.minimum),
            "takes the smaller of the two, as the policy loss does",
            "you took the smaller of the two",
        ),
        (
            value_loss_wrong(choose=lambda plain, held: held),
            "the clipped value alone replaces the value",
            "without the maximum",
        ),
        (value_loss_wrong(targets=lambda x: x), "the return keeps its gradient", "the returns are left in the graph"),
        (value_loss_wrong(old=lambda x: x), "the old value keeps its gradient", "the old values are left in the"),
        (
            value_loss_wrong(targets=lambda x: x, old=lambda x: x),
            "no detach at all",
            "the targets are left in the graph",
        ),
        (
            value_loss_wrong(low=lambda old, clip: old * (1 - clip), high=lambda old, clip: old * (1 + clip)),
            "clip is a share of the old value, as for the ratio",
            "clip is taken for a share",
        ),
        (
            value_loss_wrong(low=lambda old, clip: 0 * old - clip, high=lambda old, clip: 0 * old + clip),
            "holds the value itself within ±clip",
            "you hold the value between −clip and",
        ),
        (value_loss_wrong(final=torch.mean), "averages over the tokens", "the loss is averaged already"),
        (
            value_loss_around_the_return,
            "holds the value near the return instead of the old value",
            "nothing is clipped",
        ),
        (value_loss_frozen_value, "detaches the value instead of the target", None),
        (lambda v, r, o, clip: (v - r.detach()) ** 2 / 2, "clipping is left out", "nothing is clipped"),
        (
            lambda v, r, o, clip: (
                0.5 * (v - r.detach()) ** 2
                if clip is None
                else 0.5 * torch.max(v - r.detach(), v.clamp(o.detach() - clip, o.detach() + clip) - r.detach()) ** 2
            ),
            "takes the larger error before squaring it",
            "you take the larger error before it",
        ),
        (
            value_loss_wrong(final=lambda loss: (2 * loss).sqrt()),
            "an absolute error instead of a square",
            "this is the absolute error",
        ),
    ],
    "a3.q3": [
        (
            shaped_wrong(price=lambda p, ref, beta: beta * (p - ref)),
            "the KL is added, so that drift is paid",
            "the sign is turned round",
        ),
        (
            shaped_wrong(where=lambda mask: at_column(mask, -1)),
            "the last token stands in the last column",
            "the outcome is at the last position",
        ),
        (
            shaped_wrong(where=at_count),
            "the mask is a block from 0: the last token is number (count − 1)",
            "you count the tokens to find the",
        ),
        (shaped_wrong(where=lambda mask: mask), "the outcome goes to every token", "every token is paid the outcome"),
        (
            shaped_wrong(where=lambda mask: mask & (mask.cumsum(-1) == 1)),
            "the outcome goes to the first token",
            "the outcome is paid at the *first*",
        ),
        (
            shaped_wrong(price=lambda p, ref, beta: -beta * (p - ref).clamp(min=0)),
            "negative log-ratios are cut off",
            "clamped at 0 it is no KL",
        ),
        (
            shaped_wrong(price=lambda p, ref, beta: -beta * (p - ref).abs()),
            "a distance is never negative, so abs",
            "the price of a token may be",
        ),
        (shaped_at_the_end, "the whole KL is charged at the last token", "the whole price is paid at the"),
        (
            shaped_wrong(price=lambda p, ref, beta: -beta * p + ref),
            "β multiplies the policy's log-prob alone",
            "β multiplies one of the log-probs only",
        ),
        (
            shaped_wrong(price=lambda p, ref, beta: -beta * (p.exp() / ref.exp())),
            "the ratio instead of its log",
            "these are ratios",
        ),
        (
            shaped_wrong(final=lambda mask, new: new),
            "the price is charged outside the mask too",
            "the padding pays too",
        ),
        (
            shaped_with_gradient,
            "no detach: the policy's gradient flows through the reward",
            "the log-probs are left in the graph",
        ),
        (shaped_k3, "k3 is the better estimator, so it is the price", "this is k3"),
        (
            shaped_wrong(where=lambda mask: mask.cumsum(-1) == mask.sum(-1, keepdim=True), final=lambda mask, new: new),
            "the count stays the same after the last token, so the outcome comes again there",
            None,
        ),
        (shaped_wrong(price=lambda p, ref, beta: -(p - ref) / beta), "β divides", "β divides"),
        (shaped_wrong(price=lambda p, ref, beta: -(p - ref)), "β is forgotten", "β is missing"),
        (shaped_wrong(price=lambda p, ref, beta: 0 * p), "no KL at all", "the price is missing"),
    ],
    "a3.q4": [
        (
            lambda c, r: -(c - r).sigmoid().log(),
            "log of sigmoid in two steps: infinite for a wrong pair",
            "right on paper",
        ),
        (lambda c, r: logsigmoid(c - r), "the minus is forgotten", "the minus is missing"),
        (lambda c, r: -logsigmoid(r - c), "chosen and rejected are exchanged", "the sign is turned round"),
        (lambda c, r: -(c - r).sigmoid(), "the probability instead of its log", "the log is missing"),
        (
            lambda c, r: 1 - (c - r).sigmoid(),
            "one minus the probability instead of minus its log",
            "the log is missing",
        ),
        (lambda c, r: -logsigmoid(c - r).mean(), "averages over the pairs", "the losses are averaged already"),
        (lambda c, r: -((c - r).sigmoid() + 1e-8).log(), "a small number inside the log", "a bound"),
        (
            lambda c, r: -(c - r).sigmoid().clamp(min=1e-6).log(),
            "the probability is held above a small number",
            "a bound",
        ),
        (lambda c, r: -logsigmoid((c - r).clamp(-20, 20)), "the difference is held within bounds", "a bound"),
        (lambda c, r: r - c, "the difference alone, without a sigmoid", "the sigmoid is missing"),
        (
            lambda c, r: -(c / (c + r)).log(),
            "shares of raw strengths instead of a sigmoid of the difference",
            "a reward is the logarithm of a",
        ),
        (lambda c, r: (1 - (c - r)).clamp(min=0), "a hinge", "a hinge is no likelihood"),
        (lambda c, r: -logsigmoid(c / r), "the quotient instead of the difference", "you divide the rewards"),
        (
            lambda c, r: -logsigmoid(c) + logsigmoid(r),
            "a sigmoid of each, instead of one of the difference",
            "one sigmoid for each reward",
        ),
    ],
    "a3.q5": [
        (
            lambda c, r, rc, rr, beta: -logsigmoid(beta * (c - r)),
            "the reference is left out",
            "the reference is missing",
        ),
        (
            lambda c, r, rc, rr, beta: -logsigmoid(beta * ((c - rc) - (r - rr))),
            "the reference is not frozen",
            "the reference is left in the graph",
        ),
        (
            lambda c, r, rc, rr, beta: -logsigmoid(beta * ((r - rr.detach()) - (c - rc.detach()))),
            "exchanged",
            "chosen and rejected have changed places",
        ),
        (
            lambda c, r, rc, rr, beta: -beta * logsigmoid((c - rc.detach()) - (r - rr.detach())),
            "β outside",
            "β stands outside of the sigmoid",
        ),
        (
            lambda c, r, rc, rr, beta: -logsigmoid(((c - rc.detach()) - (r - rr.detach())) / beta),
            "β divides",
            "β divides",
        ),
        (
            lambda c, r, rc, rr, beta: -logsigmoid((c - rc.detach()) - (r - rr.detach())),
            "β is forgotten",
            "β is missing",
        ),
        (
            lambda c, r, rc, rr, beta: -logsigmoid(beta * (c / rc.detach() - r / rr.detach())),
            "log-probs are divided",
            "log-probs are divided",
        ),
        (
            lambda c, r, rc, rr, beta: -logsigmoid(beta * ((c + rc.detach()) - (r + rr.detach()))),
            "reference is added",
            "the reference has the wrong sign",
        ),
        (
            lambda c, r, rc, rr, beta: -logsigmoid(beta * ((c - rr.detach()) - (r - rc.detach()))),
            "references crossed",
            "the reference has the wrong sign",
        ),
        (
            lambda c, r, rc, rr, beta: logsigmoid(beta * ((c - rc.detach()) - (r - rr.detach()))),
            "minus forgotten",
            "the minus is missing",
        ),
        (
            lambda c, r, rc, rr, beta: -(beta * ((c - rc.detach()) - (r - rr.detach()))).sigmoid(),
            "log forgotten",
            "the log is missing",
        ),
        (
            lambda c, r, rc, rr, beta: -logsigmoid(beta * ((c - rc.detach()) - (r - rr.detach()))).mean(),
            "averaged",
            "the losses are averaged already",
        ),
        (
            lambda c, r, rc, rr, beta: -logsigmoid(beta * ((c - rc.detach()) - (r.detach() - rr.detach()))),
            "the rejected response is a baseline, so it is detached",
            "the rejected one is detached",
        ),
        (
            lambda c, r, rc, rr, beta: -logsigmoid(beta * ((c - rc.detach()).exp() - (r - rr.detach()).exp())),
            "the ratio itself is the implied reward, not its log",
            "these are ratios",
        ),
        (
            lambda c, r, rc, rr, beta: -(beta * ((c - rc.detach()) - (r - rr.detach()))).sigmoid().log(),
            "log of sigmoid in two steps",
            "right on paper",
        ),
        (
            lambda c, r, rc, rr, beta: -logsigmoid(beta * (c - rc.detach())) - logsigmoid(-beta * (r - rr.detach())),
            "each response has a loss of its own",
            "one sigmoid for each response",
        ),
        (
            lambda c, r, rc, rr, beta: -logsigmoid(beta * ((c - rc).detach() - (r - rr).detach())),
            "detach around the difference also freezes the policy",
            "the policy is detached as well",
        ),
    ],
    "a3.q6": [
        (
            lambda c, r, lc, lr, beta, margin: -logsigmoid(beta * (c - r) - margin),
            "the sums are not divided",
            "the lengths do not divide",
        ),
        (
            lambda c, r, lc, lr, beta, margin: -logsigmoid(beta * (c - r) / lc - margin),
            "both by the chosen one's",
            "both are divided by the length of",
        ),
        (
            lambda c, r, lc, lr, beta, margin: -logsigmoid(beta * (c / lr - r / lc) - margin),
            "lengths exchanged",
            "the lengths have changed places",
        ),
        (
            lambda c, r, lc, lr, beta, margin: -logsigmoid(beta * (c - r) / (lc + lr) - margin),
            "by both lengths at once",
            "the difference is divided by the two",
        ),
        (
            lambda c, r, lc, lr, beta, margin: -logsigmoid(beta * (c / lc - r / lr) + margin),
            "the margin is added",
            "the margin has the wrong sign",
        ),
        (
            lambda c, r, lc, lr, beta, margin: -logsigmoid(beta * (c / lc - r / lr - margin)),
            "β takes the margin too",
            "β multiplies the margin as well",
        ),
        (
            lambda c, r, lc, lr, beta, margin: -logsigmoid(beta * (c / lc - r / lr)) - margin,
            "margin off the loss",
            "the margin stands outside of the sigmoid",
        ),
        (
            lambda c, r, lc, lr, beta, margin: -logsigmoid(beta * (c / lc - r / lr)) + margin,
            "margin onto the loss",
            "the margin stands outside of the sigmoid",
        ),
        (
            lambda c, r, lc, lr, beta, margin: -logsigmoid(beta * (c / lc - r / lr)),
            "the margin is left out",
            "the margin is missing",
        ),
        (
            lambda c, r, lc, lr, beta, margin: -logsigmoid(beta * (r / lr - c / lc) - margin),
            "exchanged",
            "chosen and rejected have changed places",
        ),
        (lambda c, r, lc, lr, beta, margin: -logsigmoid(c / lc - r / lr - margin), "β is forgotten", "β is missing"),
        (
            lambda c, r, lc, lr, beta, margin: (margin - beta * (c / lc - r / lr)).clamp(min=0),
            "a hinge",
            "a hinge is no likelihood",
        ),
        (
            lambda c, r, lc, lr, beta, margin: logsigmoid(beta * (c / lc - r / lr) - margin),
            "minus forgotten",
            "the minus is missing",
        ),
        (
            lambda c, r, lc, lr, beta, margin: -beta * logsigmoid(c / lc - r / lr - margin),
            "β outside the log",
            "β stands outside of the sigmoid",
        ),
        (
            lambda c, r, lc, lr, beta, margin: -logsigmoid(beta * (c * lc - r * lr) - margin),
            "multiplied by the lengths",
            "the lengths multiply",
        ),
        (
            lambda c, r, lc, lr, beta, margin: -logsigmoid(beta * c / lc - r / lr - margin),
            "β on the chosen one alone",
            "β multiplies the chosen one alone",
        ),
        (
            lambda c, r, lc, lr, beta, margin: -logsigmoid(beta * (c / lc - r / lr) - margin).mean(),
            "averaged",
            "the losses are averaged already",
        ),
    ],
    "a3.q7a": [
        (
            by_place(comb_chance, lambda proxy, true: true.sort(-1).values),
            "the best by the truth, not by the proxy",
            "you choose by the true reward",
        ),
        (
            by_place(comb_chance, lambda proxy, true: proxy.sort(-1).values.to(true)),
            "the proxy's own value",
            "this is what the *proxy* says of",
        ),
        (
            by_place(lambda i, m, n: ((i + 1) / m) ** n - (i / m) ** n),
            "draws with replacement",
            "these are draws with replacement",
        ),
        (
            by_place(lambda i, m, n: math.comb(i + 1, n - 1) / math.comb(m, n)),
            "i for i − 1: counts from 1 and from 0",
            "off by one",
        ),
        (by_place(lambda i, m, n: math.comb(i, n) / math.comb(m, n)), "n for n − 1", "off by one"),
        (
            by_place(comb_chance, lambda proxy, true: true.gather(-1, proxy.argsort(-1, descending=True))),
            "sorts from high to low",
            "the order is turned round",
        ),
        (by_place(comb_chance, lambda proxy, true: true), "does not sort", "the samples are not sorted by the"),
        (
            lambda proxy, true, n: true[:, :n].gather(-1, proxy[:, :n].argmax(-1, keepdim=True)).squeeze(-1),
            "the first n samples are one draw, and one is enough",
            "you look at the first n samples",
        ),
        (
            lambda proxy, true, n: true.gather(-1, proxy.topk(n).indices).mean(-1),
            "the mean of the proxy's n favourites",
            "this is the mean of the n",
        ),
        (
            lambda proxy, true, n: true.gather(-1, proxy.argmax(-1, keepdim=True)).squeeze(-1),
            "the best of all m",
            "this is the favourite among all samples",
        ),
        (
            lambda proxy, true, n: favourite_by_weights(proxy, true, n).mean(),
            "averages over the prompts",
            "one number for all prompts",
        ),
        (favourite_mislabelled, "argsort gives each sample's rank", "argsort says who stands at each place"),
        (
            by_place(comb_chance, lambda proxy, true: true.gather(0, proxy.argsort(0))),
            "sorts along the prompts",
            "you sort along the prompts",
        ),
        (
            by_place(lambda i, m, n: math.comb(i, n - 1) / math.comb(m, n - 1)),
            "divides by the wrong number of choices",
            "the chances do not add up to",
        ),
    ],
    "a3.q7b": [
        (
            stop_wrong(
                lambda p, t: t.mean(1).argmax().item(),
                lambda p, t: (t.mean(1).max() - t.mean(1)[p.mean(1).argmax()]).item(),
            ),
            "averages over the checkpoints",
            "you average over the checkpoints",
        ),
        (
            stop_wrong(lambda p, t: t.argmax().item() % t.shape[1], stop_loss),
            "the best checkpoint of the best run",
            "you look at the best seed",
        ),
        (
            stop_wrong(lambda p, t: p.mean(0).argmax().item(), stop_loss),
            "stops where the proxy is highest",
            "you stop where the *proxy* is highest",
        ),
        (stop_wrong(stop_place, lambda p, t: -stop_loss(p, t)), "the loss has the other sign", "the loss is negative"),
        (
            stop_wrong(stop_place, lambda p, t: (t.mean(0).max() - t.mean(0)[-1]).item()),
            "compares with the last checkpoint",
            "the loss is counted to the last",
        ),
        (
            stop_wrong(stop_place, lambda p, t: (t.max(1).values.mean() - t.mean(0)[p.mean(0).argmax()]).item()),
            "compares with each run's own best checkpoint",
            "the loss begins at each run's own",
        ),
        (
            stop_wrong(stop_place, lambda p, t: (p.mean(0).max() - t.mean(0).max()).item()),
            "the proxy's height less the truth's",
            "the proxy's height and the truth's are",
        ),
        (
            stop_wrong(stop_place, lambda p, t: (p.mean(0).max() - p.mean(0)[t.mean(0).argmax()]).item()),
            "measures the loss in the proxy",
            "the loss is counted in the proxy's",
        ),
        (
            stop_wrong(lambda p, t: stop_place(p, t) + 1, stop_loss),
            "counts checkpoints from 1",
            "checkpoints are counted from 0",
        ),
        (
            stop_wrong(lambda p, t: t.median(0).values.argmax().item(), stop_loss),
            "the median over seeds",
            "this is the median over seeds",
        ),
        (stop_wrong(stop_loss, stop_place), "the pair in the other order", "the two parts have changed places"),
        (
            stop_wrong(lambda p, t: round(t.argmax(1).float().mean().item()), stop_loss),
            "the mean of the runs' best checkpoints",
            "you average the seeds' own peaks",
        ),
        (
            stop_wrong(
                stop_place, lambda p, t: (t.mean(0).max() - t.gather(1, p.argmax(1, keepdim=True)).mean()).item()
            ),
            "each run stops at its own highest proxy",
            "each run stops at a checkpoint of",
        ),
        (
            stop_wrong(lambda p, t: t.argmax(1)[0].item(), stop_loss),
            "looks at the first seed alone",
            "you look at one seed",
        ),
    ],
}
