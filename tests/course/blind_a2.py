"""Answers to assignment a2, right and wrong, written from the notebook alone before its checks were read."""

import torch
from einops import rearrange, reduce
from torch.nn.functional import log_softmax

from minirl import SortingPolicy, SortingTask, collect, losses, sorting
from minirl.deltas import centered as minirl_centered
from minirl.deltas import normalized
from minirl.losses import token_weights
from minirl.train import Config, train

# --- Q1


def looped_centered(rewards):
    return torch.stack([group - sum(group) / len(group) for group in rewards])


def inplace_centered(rewards):
    rewards -= rewards.mean(-1, keepdim=True)
    return rewards


def looped_left_out(rewards):
    out = torch.zeros_like(rewards)
    for b, group in enumerate(rewards):
        for i in range(len(group)):
            out[b, i] = group[i] - torch.cat([group[:i], group[i + 1 :]]).mean()
    return out


def matrix_left_out(rewards):
    size = rewards.shape[1]
    others = (1 - torch.eye(size, dtype=rewards.dtype)) / (size - 1)
    return rewards - rewards @ others


def inplace_left_out(rewards):
    rewards *= rewards.shape[-1] / (rewards.shape[-1] - 1)
    return rewards - rewards.mean(-1, keepdim=True)


def later_left_out(rewards):
    columns = [rewards[:, i] - rewards[:, i + 1 :].mean(-1).nan_to_num() for i in range(rewards.shape[1])]
    return torch.stack(columns, -1)


def numpy_normalized(rewards):
    array = rewards.numpy()
    centred = array - array.mean(axis=1, keepdims=True)
    return torch.from_numpy(centred / (array.std(axis=1, ddof=1, keepdims=True) + 1e-6))


def long_normalized(rewards):
    centred = rewards - reduce(rewards, "b g -> b 1", "mean")
    variance = (centred**2).sum(1, keepdim=True) / (rewards.size(1) - 1)
    return centred / (variance.sqrt() + 1e-6)


def biased_normalized(rewards):
    return centred(rewards) / (rewards.std(-1, unbiased=False, keepdim=True) + 1e-6)


def centred(rewards):
    return rewards - rewards.mean(-1, keepdim=True)


def looped_best(rewards):
    rows = [[r if r == max(group) else 0.0 for r in group] for group in rewards.tolist()]
    return torch.tensor(rows, dtype=rewards.dtype)


def first_best(rewards):
    out = torch.zeros_like(rewards)
    index = rewards.argmax(-1, keepdim=True)
    return out.scatter(-1, index, rewards.gather(-1, index))


def inplace_best(rewards):
    rewards[rewards < rewards.max(-1, keepdim=True).values] = 0
    return rewards


def best_of(rewards):
    return rewards == rewards.amax(-1, keepdim=True)


TIES, SUM, SCALE, UNBIASED = "silent on ties", "adds up to 0", "scale-free", "unbiased"
TRUTH = {
    "raw": {UNBIASED},
    "max_only": set(),
    "centered": {TIES, SUM},
    "leave_one_out": {TIES, SUM, UNBIASED},
    "normalized": {TIES, SUM, SCALE},
}


def properties_but(**other):
    return lambda: {**TRUTH, **other}


def named_properties():
    return {
        "normalized": {"scale-free", "adds up to 0", "silent on ties"},
        "leave_one_out": {"unbiased", "adds up to 0", "silent on ties"},
        "centered": {"adds up to 0", "silent on ties"},
        "max_only": set(),
        "raw": {"unbiased"},
    }


# --- Q2, Q3


def looped_ratio(log_probs, old_log_probs):
    with torch.no_grad():
        old = old_log_probs.clone()
    return torch.stack([torch.exp(new - then) for new, then in zip(log_probs, old, strict=True)])


def late_clipped(log_probs, old_log_probs, deltas, clip_low, clip_high):
    rho = torch.exp(log_probs - old_log_probs.detach())
    push = rearrange(deltas, "b g -> b g 1")
    return torch.maximum(-rho * push, -rho.clamp(1 - clip_low, 1 + clip_high) * push)


def case_clipped(log_probs, old_log_probs, deltas, clip_low, clip_high):
    rho = (log_probs - old_log_probs.detach()).exp()
    push = deltas[:, :, None].expand_as(rho)
    up = torch.where(rho > 1 + clip_high, torch.full_like(rho, 1 + clip_high), rho)
    down = torch.where(rho < 1 - clip_low, torch.full_like(rho, 1 - clip_low), rho)
    return -torch.where(push > 0, up, down) * push


def clipped(
    lp,
    old,
    d,
    low,
    high,
    *,
    ratio=lambda lp, old: (lp - old.detach()).exp(),
    wide=lambda d: d[..., None],
    both=torch.minimum,
):
    rho, d = ratio(lp, old), wide(d)
    return -both(rho * d, rho.clamp(1 - low, 1 + high) * d)


def clipped_with(**changes):
    return lambda lp, old, d, low, high: clipped(lp, old, d, low, high, **changes)


def signs_inside(lp, old, d, low, high):
    rho, d = (lp - old.detach()).exp(), d[..., None]
    return torch.minimum(-rho * d, -rho.clamp(1 - low, 1 + high) * d)


def clip_alone(lp, old, d, low, high):
    return -(lp - old.detach()).exp().clamp(1 - low, 1 + high) * d[..., None]


def clip_around_zero(lp, old, d, low, high):
    rho, d = (lp - old.detach()).exp(), d[..., None]
    return -torch.minimum(rho * d, rho.clamp(-low, high) * d)


def clip_to_epsilons(lp, old, d, low, high):
    rho, d = (lp - old.detach()).exp(), d[..., None]
    return -torch.minimum(rho * d, rho.clamp(low, high) * d)


def clip_product(lp, old, d, low, high):
    product = (lp - old.detach()).exp() * d[..., None]
    return -torch.minimum(product, product.clamp(1 - low, 1 + high))


def clip_logs(lp, old, d, low, high):
    log_ratio, d = lp - old.detach(), d[..., None]
    return -torch.minimum(log_ratio.exp() * d, log_ratio.clamp(-low, high).exp() * d)


def minimum_first(lp, old, d, low, high):
    rho = (lp - old.detach()).exp()
    return -torch.minimum(rho, rho.clamp(1 - low, 1 + high)) * d[..., None]


def unclipped(lp, old, d, low, high):
    return -(lp - old.detach()).exp() * d[..., None]


# --- Q4


def stable_k3(log_probs, ref_log_probs):
    log_r = ref_log_probs - log_probs
    return torch.expm1(log_r) - log_r


def r_of(lp, ref):
    return torch.exp(ref - lp)


def func_gradient(logits, ref_logits, estimator):
    weights, ref = logits.softmax(-1), log_softmax(ref_logits, -1)
    return torch.func.grad(lambda z: (weights * estimator(log_softmax(z, -1), ref)).sum())(logits)


def jacobian_gradient(logits, ref_logits, estimator):
    def each(z):
        return estimator(z - z.logsumexp(0), ref_logits - ref_logits.logsumexp(0))

    return logits.softmax(0) @ torch.autograd.functional.jacobian(each, logits)


def looped_gradient(logits, ref_logits, estimator):
    z = logits.clone().detach().requires_grad_(True)
    total = torch.zeros_like(logits)
    for v, weight in enumerate(logits.softmax(-1).tolist()):
        k = estimator(log_softmax(z, -1)[v], log_softmax(ref_logits, -1)[v])
        total += weight * torch.autograd.grad(k, z)[0]
    return total


def gradient_with(loss, keep=lambda found: found[0]):
    """`loss` is a function of the two kinds of logits and the estimator."""

    def gradient(logits, ref_logits, estimator):
        z = logits.detach().requires_grad_()
        return keep(torch.autograd.grad(loss(z, ref_logits, estimator), z))

    return gradient


def unfrozen(z, ref, k):
    return (z.softmax(-1) * k(log_softmax(z, -1), log_softmax(ref, -1))).sum()


def unweighted(z, ref, k):
    return k(log_softmax(z, -1), log_softmax(ref, -1)).sum()


def averaged(z, ref, k):
    return k(log_softmax(z, -1), log_softmax(ref, -1)).mean()


def reference_weighted(z, ref, k):
    return (ref.softmax(-1) * k(log_softmax(z, -1), log_softmax(ref, -1))).sum()


def unnormalised(z, ref, k):
    return (z.softmax(-1).detach() * k(z, ref)).sum()


def half_normalised(z, ref, k):
    return (z.softmax(-1).detach() * k(log_softmax(z, -1), ref)).sum()


def swapped(z, ref, k):
    return (z.softmax(-1).detach() * k(log_softmax(ref, -1), log_softmax(z, -1))).sum()


def frozen(z, ref, k):
    return (z.softmax(-1).detach() * k(log_softmax(z, -1), log_softmax(ref, -1))).sum()


def by_probabilities(z, ref, k):
    return (z.softmax(-1).detach() * k(z.softmax(-1), ref.softmax(-1))).sum()


def log_weighted(z, ref, k):
    return (log_softmax(z, -1).detach() * k(log_softmax(z, -1), log_softmax(ref, -1))).sum()


def likeliest_only(z, ref, k):
    return k(log_softmax(z, -1), log_softmax(ref, -1))[z.argmax()]


def reference_gradient(logits, ref_logits, estimator):
    ref = ref_logits.detach().requires_grad_()
    return torch.autograd.grad(frozen(logits, ref, estimator), ref)[0]


FORWARD, BACKWARD, NOTHING = "KL(policy, reference)", "KL(reference, policy)", "nothing"


def says(one, two, three):
    return lambda: {"k1": one, "k2": two, "k3": three}


# --- Q5


def looped_sequence(mask):
    weights = torch.zeros(mask.shape)
    batch, group, _ = mask.shape
    for b in range(batch):
        for g in range(group):
            length = int(mask[b, g].sum())
            if length:
                weights[b, g, mask[b, g]] = 1 / (batch * group * length)
    return weights


def epsilon_sequence(mask):
    inside = mask.float()
    return inside / (inside.sum(-1, keepdim=True) + 1e-8) / (inside.shape[0] * inside.shape[1])


def double_sequence(mask):
    lengths = reduce(mask.double(), "b g t -> b g 1", "sum")
    return torch.where(mask, 1 / (mask[..., 0].numel() * lengths), 0.0)


def lengths(mask):
    return mask.sum(-1, keepdim=True).clamp(min=1)


def number(mask):
    return mask.shape[0] * mask.shape[1]


def looped_equal(mask):
    count = sum(mask.flatten().tolist())
    return torch.tensor([[[float(m) / count if count else 0.0 for m in r] for r in g] for g in mask.tolist()])


def padded_after(mask):
    """The lengths without the end token."""
    return (mask.sum(-1, keepdim=True) - 1).clamp(min=1)


# --- Q6


def step(
    policy,
    rollout,
    optimizer,
    *,
    deltas=normalized,
    old=lambda rollout, lp: rollout.old_log_probs,
    loss=lambda lp, old, d: losses.clipped(lp, old, d, 0.2, 0.28),
    weights=token_weights,
    total=lambda per_token, weights: (per_token * weights).sum(),
    clear=True,
    sign=1,
    give=lambda loss: loss.item(),
):
    log_probs = policy.log_probs(rollout.prompts, rollout.responses, rollout.mask)
    per_token = loss(log_probs, old(rollout, log_probs), deltas(rollout.rewards))
    value = sign * total(per_token, weights(rollout.mask))
    if clear:
        optimizer.zero_grad()
    value.backward()
    optimizer.step()
    return give(value)


def step_with(**changes):
    return lambda policy, rollout, optimizer: step(policy, rollout, optimizer, **changes)


def written_out_step(policy, rollout, optimizer):
    r = rollout.rewards
    advantage = ((r - r.mean(1, keepdim=True)) / (r.std(1, keepdim=True) + 1e-6)).unsqueeze(2)
    new = policy.log_probs(rollout.prompts, rollout.responses, rollout.mask)
    rho = torch.exp(new - rollout.old_log_probs)
    per_token = torch.max(-advantage * rho, -advantage * torch.clamp(rho, 0.8, 1.28))
    loss = ((per_token * rollout.mask).sum(-1) / rollout.mask.sum(-1)).mean()
    for parameter in policy.parameters():
        parameter.grad = None
    loss.backward()
    optimizer.step()
    return loss.item()


def cleared_late(policy, rollout, optimizer):
    log_probs = policy.log_probs(rollout.prompts, rollout.responses, rollout.mask)
    per_token = losses.clipped(log_probs, rollout.old_log_probs, normalized(rollout.rewards), 0.2, 0.28)
    loss = (per_token * token_weights(rollout.mask)).sum()
    loss.backward()
    optimizer.zero_grad()
    optimizer.step()
    return loss.item()


def stepped_early(policy, rollout, optimizer):
    log_probs = policy.log_probs(rollout.prompts, rollout.responses, rollout.mask)
    per_token = losses.clipped(log_probs, rollout.old_log_probs, normalized(rollout.rewards), 0.2, 0.28)
    loss = (per_token * token_weights(rollout.mask)).sum()
    optimizer.step()
    optimizer.zero_grad()
    loss.backward()
    return loss.item()


def never_stepped(policy, rollout, optimizer):
    log_probs = policy.log_probs(rollout.prompts, rollout.responses, rollout.mask)
    per_token = losses.clipped(log_probs, rollout.old_log_probs, normalized(rollout.rewards), 0.2, 0.28)
    loss = (per_token * token_weights(rollout.mask)).sum()
    optimizer.zero_grad()
    loss.backward()
    return loss.item()


def from_old_log_probs(policy, rollout, optimizer):
    old = rollout.old_log_probs.clone().requires_grad_()
    per_token = losses.clipped(old, rollout.old_log_probs, normalized(rollout.rewards), 0.2, 0.28)
    optimizer.zero_grad()
    loss = (per_token * token_weights(rollout.mask)).sum()
    loss.backward()
    optimizer.step()
    return loss.item()


# --- Q7


def the_task(reward=sorting.position_match, held_out=0.2):
    return SortingTask(reward, vocab_size=8, length=3, held_out=held_out, seed=3)


def trained(seed, *, task=None, start=None, take=None, epochs=250, lr=4e-3, settle=True, group=8, inner=4):
    task, generator = task or the_task(), torch.Generator().manual_seed(seed)
    policy = start or SortingPolicy(8, 3, dim=32, seed=seed)
    optimizer = torch.optim.Adam(policy.parameters(), lr=lr)
    for epoch in range(epochs):
        if settle and epoch == int(0.8 * epochs):
            optimizer.param_groups[0]["lr"] = lr / 10
        rollout = collect(policy, task, task.sample(256, generator), group, generator=generator)
        for _ in range(inner):
            (take or step)(policy, rollout, optimizer)
    return policy


def by_train(seed):
    policy = SortingPolicy(8, 3, dim=32, seed=seed)
    start = Config(epochs=200, batch_size=256, group_size=8, inner_steps=4, learning_rate=4e-3, seed=seed)
    for _ in train(policy, the_task(), start):
        pass
    end = Config(epochs=50, batch_size=256, group_size=8, inner_steps=4, learning_rate=4e-4, seed=seed + 100)
    for _ in train(policy, the_task(), end):
        pass
    return policy


def taught(seed):
    """Cross-entropy on the sorted prompts: supervised, no reward."""
    policy, task = SortingPolicy(8, 3, dim=32, seed=seed), the_task()
    optimizer = torch.optim.Adam(policy.parameters(), lr=5e-3)
    prompts = task.train_prompts
    answers = prompts.sort(-1).values[:, None]
    for _ in range(400):
        optimizer.zero_grad()
        (-policy.log_probs(prompts, answers, torch.ones_like(answers, dtype=torch.bool)).mean()).backward()
        optimizer.step()
    return policy


def trained_and_listed(seed):
    return [trained(seed, epochs=2)]


RIGHT = {
    "a2.q1a": [looped_centered, lambda r: r - reduce(r, "b g -> b 1", "mean")],
    "a2.q1b": [looped_left_out, matrix_left_out, lambda r: centred(r) * r.shape[1] / (r.shape[1] - 1)],
    "a2.q1c": [numpy_normalized, long_normalized],
    "a2.q1d": [looped_best, lambda r: r * best_of(r), lambda r: r.masked_fill(~best_of(r), 0)],
    "a2.q1e": [lambda: TRUTH, named_properties],
    "a2.q2": [looped_ratio, lambda lp, old: lp.sub(old.data).exp()],
    "a2.q3": [late_clipped, case_clipped],
    "a2.q4a": [lambda lp, ref: lp - ref, lambda lp, ref: -torch.log(torch.exp(ref - lp))],
    "a2.q4b": [stable_k3, lambda lp, ref: r_of(lp, ref) - 1 + lp - ref],
    "a2.q4c": [lambda lp, ref: torch.square(ref - lp) / 2, lambda lp, ref: 0.5 * (lp - ref) * (lp - ref)],
    "a2.q4d": [func_gradient, jacobian_gradient, looped_gradient],
    "a2.q4e": [says(NOTHING, FORWARD, BACKWARD), lambda: {"k3": BACKWARD, "k2": FORWARD, "k1": NOTHING}],
    "a2.q5": [looped_sequence, epsilon_sequence, double_sequence],
    "a2.q5b": [looped_equal, lambda mask: mask / mask.sum().clamp(min=1)],
    "a2.q5c": [
        lambda mask, constant: mask / (mask.shape[0] * mask.shape[1] * constant),
        lambda mask, constant: torch.where(mask, 1 / (mask[:, :, 0].numel() * constant), torch.zeros(mask.shape)),
    ],
    "a2.q6": [step_with(), written_out_step],
    "a2.q7": [trained, by_train],
}

WRONG = {
    "a2.q1a": [
        (lambda r: r - r.mean(), "the mean of the whole batch", "you compare with the mean of the whole batch"),
        (lambda r: r - r.mean(0), "the mean over prompts, not over the group", "you compare across prompts"),
        (lambda r: r - r.mean(-1), "no keepdim: the means stand in the wrong direction", "you lost the group axis"),
        (lambda r: -centred(r), "mean minus reward: the sign", "the sign is turned round"),
        (lambda r: r - r.median(-1, keepdim=True).values, "the median", "you subtract the group's median"),
        (
            lambda r: r - r.amax(-1, keepdim=True),
            "the best of the group as the baseline",
            "you subtract the group's best reward",
        ),
        (inplace_centered, "changes the rewards in place", "you change the rewards in place"),
        (
            lambda r: centred(r) / (r.std(-1, keepdim=True) + 1e-6),
            "divides by the standard deviation too",
            "you divide by the std as well",
        ),
        (lambda r: r.mean(-1, keepdim=True).expand_as(r), "returns the mean itself", "you return the baseline itself"),
        (lambda r: centred(r.float()), "computes in float32 where float64 came in", "too coarse"),
        (looped_left_out, "leaves the response itself out, as in Q1b", "you leave the response itself out"),
    ],
    "a2.q1b": [
        (lambda r: centred(r), "the response is part of its own baseline", "a response is still in its own baseline"),
        (
            lambda r: r - (r.sum(-1, keepdim=True) - r) / r.shape[-1],
            "divides the sum of the others by G",
            "you divide the sum of the others by G",
        ),
        (
            lambda r: r - r.sum(-1, keepdim=True) / (r.shape[-1] - 1),
            "the sum has the response's own reward in it",
            "you divide by G−1",
        ),
        (
            lambda r: centred(r) * (r.shape[-1] - 1) / r.shape[-1],
            "the factor is upside down: shrinks",
            "the factor is upside down",
        ),
        (
            lambda r: r - (r.sum(-1, keepdim=True) - r) / (r.shape[0] - 1),
            "counts the prompts, not the responses",
            "you count prompts (the first axis) where",
        ),
        (lambda r: r - (r.sum(-1, keepdim=True) - r) / 3, "works for a group of four only", None),
        (lambda r: r - (r.sum(0) - r) / (r.shape[0] - 1), "leaves out along the prompts", "you compare across prompts"),
        (
            lambda r: (r.sum(-1, keepdim=True) - r) / (r.shape[-1] - 1),
            "returns the baseline",
            "you return the baseline",
        ),
        (lambda r: r - (r.sum(-1) - r) / (r.shape[-1] - 1), "no keepdim", "you lost the group axis"),
        (later_left_out, "compares with the later responses only", None),
        (
            lambda r: r - (r.sum() - r) / (r.numel() - 1),
            "compares with all other responses of the batch",
            "you compare with all other responses of the",
        ),
        (inplace_left_out, "changes the rewards in place", "in place"),
    ],
    "a2.q1c": [
        (biased_normalized, "the biased standard deviation, with G below", "you divide by the biased std (over G)"),
        (
            lambda r: centred(r) / (r.var(-1, keepdim=True) + 1e-6),
            "the variance, without its root",
            "you divide by the variance",
        ),
        (lambda r: centred(r) / r.std(-1, keepdim=True), "no epsilon: nan for equal rewards", "a tied group gives nan"),
        (
            lambda r: centred(r) / (r.var(-1, keepdim=True) + 1e-6).sqrt(),
            "the epsilon stands under the root",
            "ε stands under the root",
        ),
        (lambda r: centred(r) / (r.std(-1, keepdim=True) + 1e-8), "another epsilon", "ε is 1e-6"),
        (
            lambda r: (r - r.mean()) / (r.std() + 1e-6),
            "mean and deviation of the whole batch",
            "mean and std are those of the whole batch",
        ),
        (
            lambda r: centred(r) / (r.std() + 1e-6),
            "the deviation of the whole batch",
            "you divide by the std of the whole batch",
        ),
        (lambda r: r / (r.std(-1, keepdim=True) + 1e-6), "does not centre", "the mean is not subtracted"),
        (
            lambda r: (r - r.mean(0)) / (r.std(0) + 1e-6),
            "over the prompts instead of the group",
            "you compare across prompts",
        ),
        (lambda r: centred(r) / (centred(r).abs().mean(-1, keepdim=True) + 1e-6), "the mean absolute deviation", None),
        (lambda r: centred(r), "does not divide", "you divide by nothing"),
        (
            lambda r: looped_left_out(r) / (r.std(-1, keepdim=True) + 1e-6),
            "leaves one out before it divides",
            "you leave the response out of its own mean",
        ),
        (
            lambda r: centred(r) * (r.std(-1, keepdim=True) + 1e-6),
            "multiplies instead of dividing",
            "you multiply by the std",
        ),
        (
            lambda r: centred(r) / r.std(-1, keepdim=True) + 1e-6,
            "epsilon outside of the fraction: a bracket missing",
            "ε stands outside of the fraction",
        ),
    ],
    "a2.q1d": [
        (
            first_best,
            "only the first of several that share the first place",
            "of several best ones you keep only the first",
        ),
        (
            lambda r: torch.where(r == r.max(), r, 0.0),
            "the best of the whole batch",
            "the best of the whole batch is not the best",
        ),
        (lambda r: best_of(r).to(r.dtype), "1 in place of the reward", "the best response keeps its reward"),
        (lambda r: r - r.amax(-1, keepdim=True), "the distance from the best", "you subtract the best reward"),
        (lambda r: torch.where(r == r.amax(0), r, 0.0), "the best of each column", "you ask along the batch axis"),
        (
            lambda r: r * best_of(r) / best_of(r).sum(-1, keepdim=True),
            "shares the reward among the winners",
            "the best ones share the reward",
        ),
        (
            lambda r: r * best_of(r) * (r > 0),
            "drops a best reward that is negative",
            "a best reward below 0 is dropped",
        ),
        (inplace_best, "changes the rewards in place", "in place"),
        (lambda r: r.amax(-1), "one number for each group", "this is one number for a group"),
        (
            lambda r: r.amax(-1, keepdim=True).expand_as(r),
            "gives everybody the best reward",
            "every response has the best one's reward",
        ),
        (lambda r: torch.where(r == r.amin(-1, keepdim=True), r, 0.0), "the lowest", "you keep the worst"),
        (lambda r: torch.where(best_of(r), centred(r), 0.0), "centres first", "you centre before you choose"),
        (
            lambda r: torch.where(r > r.mean(-1, keepdim=True), r, 0.0),
            "keeps all that is above the mean",
            "you keep all that is above the mean",
        ),
    ],
    "a2.q1e": [
        (
            properties_but(centered={TIES, SUM, UNBIASED}),
            "thinks that subtracting the group's mean keeps the length",
            "centred deltas are not unbiased",
        ),
        (
            properties_but(leave_one_out={TIES, UNBIASED}),
            "thinks that leave-one-out does not add up to 0",
            "leave-one-out deltas add up to 0 as well",
        ),
        (
            properties_but(leave_one_out={TIES, SUM}),
            "takes leave-one-out for biased, like centring",
            "leave-one-out is unbiased",
        ),
        (
            properties_but(normalized={TIES, SUM, SCALE, UNBIASED}),
            "takes division by the deviation for unbiased",
            "normalised deltas are not unbiased",
        ),
        (properties_but(max_only={UNBIASED}), "takes the selection of the best for unbiased", "max-only is biased"),
        (
            properties_but(raw=set()),
            "thinks that raw rewards are biased since they are noisy",
            "raw deltas are unbiased",
        ),
        (properties_but(raw={UNBIASED, TIES}), "thinks of ties at 0 only", "raw deltas are not silent on ties"),
        (
            properties_but(max_only={TIES}),
            "thinks that max only is silent when all are best",
            "max-only is not silent on ties",
        ),
        (
            properties_but(max_only={SCALE}),
            "thinks that only the rank counts in max only",
            "max-only is not scale-free",
        ),
        (properties_but(normalized={SUM, SCALE}), "thinks of 0/0 on ties", "normalised deltas are silent on ties"),
        (
            properties_but(normalized={TIES, SCALE}),
            "thinks that division spoils the sum",
            "normalised deltas add up to 0",
        ),
        (
            properties_but(centered={TIES, SUM, SCALE}),
            "takes centring for scale-free",
            "centred deltas are not scale-free",
        ),
        (properties_but(raw={"unbiased."}), "misspells a word", "none of the four properties"),
        (lambda: {name: TRUTH[name] for name in list(TRUTH)[1:]}, "forgets raw", "a dictionary with the keys"),
    ],
    "a2.q2": [
        (lambda lp, old: lp - old.detach(), "the difference of logs without exp", "this is the difference of the logs"),
        (lambda lp, old: lp / old.detach(), "the ratio of the logs", "you divided log-probs"),
        (lambda lp, old: (old.detach() - lp).exp(), "upside down", "the ratio is upside down"),
        (
            lambda lp, old: (lp - old).exp(),
            "the old log-probs are not frozen",
            "the old log-probs are left in the graph",
        ),
        (lambda lp, old: (lp.detach() - old).exp(), "freezes the wrong one", "you detached the wrong one"),
        (lambda lp, old: (lp - old).exp().detach(), "freezes everything", "you detached the new log-probs too"),
        (
            lambda lp, old: (lp - old.detach()).sum(-1, keepdim=True).exp().expand_as(lp),
            "the ratio of whole responses",
            "this is the ratio of whole responses",
        ),
        (lambda lp, old: (lp - old.detach()).exp().clamp(0.8, 1.2), "clips already", "you clip already"),
        (
            lambda lp, old: lp.exp() - old.detach().exp(),
            "the difference of the probabilities",
            "you subtract the probabilities",
        ),
        (lambda lp, old: lp.exp() / old.detach(), "a probability divided by a log-prob", None),
        (
            lambda lp, old: (lp - lp.detach()).exp(),
            "the policy now, detached, in place of the old log-probs",
            "the ratio is always 1",
        ),
        (lambda lp, old: lp.exp(), "the probability now, without the old one", "this is the probability of now"),
    ],
    "a2.q3": [
        (lambda *x: -clipped(*x), "no minus", "the sign is missing"),
        (clipped_with(both=torch.maximum), "max for min", "you took the larger where the smaller"),
        (
            signs_inside,
            "the minus inside of the minimum turns it into a maximum",
            "you took the larger where the smaller",
        ),
        (clip_alone, "clips without the minimum", "without the minimum"),
        (unclipped, "no clipping", "nothing is clipped"),
        (
            clipped_with(wide=lambda d: d[:, None]),
            "the deltas' new axis at the wrong place",
            "the deltas lie along the token axis",
        ),
        (
            lambda lp, old, d, low, high: clipped(lp, old, d, high, low),
            "the two epsilons swapped",
            "the two epsilons are swapped",
        ),
        (
            lambda lp, old, d, low, high: clipped(lp, old, d, low, low),
            "one epsilon for both sides",
            "one epsilon serves both sides",
        ),
        (lambda lp, old, d, low, high: clipped(lp, old, d, 0.2, 0.2), "epsilon hard-coded", "you clip at 0"),
        (clip_around_zero, "clips to −ε and ε: forgets that a ratio is about 1", "your bounds lie around 0"),
        (clip_to_epsilons, "takes the epsilons for the bounds", "your bounds lie around 0"),
        (clip_product, "clips the product, not the ratio", "you clip the product"),
        (clip_logs, "clips the log of the ratio", "you clip the log of the ratio"),
        (minimum_first, "the minimum before the product with delta", "you take the minimum before the deltas"),
        (
            clipped_with(ratio=lambda lp, old: lp - old.detach()),
            "the log-ratio in place of the ratio",
            "this has the difference of the logs for a",
        ),
        (clipped_with(ratio=lambda lp, old: lp / old.detach()), "the ratio of logs", "you divided log-probs"),
        (
            clipped_with(ratio=lambda lp, old: (lp - old).exp()),
            "the old log-probs are not frozen",
            "the old log-probs are left in the graph",
        ),
        (lambda *x: clipped(*x).mean(), "takes the mean", "you take the mean of everything"),
        (lambda *x: clipped(*x).mean(-1), "takes the mean over the tokens", "you take the mean along the last axis"),
        (
            clipped_with(ratio=lambda lp, old: (old.detach() - lp).exp()),
            "the ratio upside down",
            "the ratio is upside down",
        ),
    ],
    "a2.q4a": [
        (lambda lp, ref: ref - lp, "log r without the minus", "the sign is turned round"),
        (lambda lp, ref: (ref - lp).exp(), "r itself", "this is r"),
        (lambda lp, ref: -(ref - lp).exp(), "minus r: the log is missing", "this is −r"),
        (lambda lp, ref: (lp - ref).abs(), "the absolute value", "a divergence can be negative on a sample"),
        (
            lambda lp, ref: lp.exp() * (lp - ref),
            "weights by the probability, as for the exact sum",
            "you weight by the probability",
        ),
        (lambda lp, ref: (lp - ref).mean(), "takes the mean", "you take the mean of everything"),
        (lambda lp, ref: (lp - ref).clamp(min=0), "cuts the negative values off", "this clamps at 0"),
        (lambda lp, ref: (lp - ref).detach(), "no gradient", "the gradient is cut off"),
        (lambda lp, ref: -(ref / lp).abs().log(), "the log of the ratio of the log-probs", None),
    ],
    "a2.q4b": [
        (lambda lp, ref: (lp - ref).exp() - 1 - (lp - ref), "r upside down", "r is upside down"),
        (lambda lp, ref: r_of(lp, ref) - (ref - lp), "forgets the 1", "the −1 is missing"),
        (lambda lp, ref: r_of(lp, ref) - 1 + (ref - lp), "plus log r", "the sign of log r is turned round"),
        (lambda lp, ref: (ref - lp) - 1 - (ref - lp).exp(), "r and log r exchanged", "r and log r have changed places"),
        (lambda lp, ref: 1 + (ref - lp) - r_of(lp, ref), "the whole with the other sign", "the sign is turned round"),
        (
            lambda lp, ref: lp.exp() * (r_of(lp, ref) - 1 - (ref - lp)),
            "weights by the probability",
            "you weight by the probability",
        ),
        (lambda lp, ref: ref / lp - 1 - (ref / lp).log(), "the ratio of logs for r", "you divided log-probs"),
        (lambda lp, ref: r_of(lp, ref) - 1, "without the log", "the log is missing"),
        (lambda lp, ref: (r_of(lp, ref) - 1 - (ref - lp)).detach(), "no gradient", "the gradient is cut off"),
        (
            lambda lp, ref: r_of(lp, ref) - 1 - (lp - ref),
            "r the right way round, its log upside down",
            "the sign of log r is turned round",
        ),
        (
            lambda lp, ref: (r_of(lp, ref) - 1 - (ref - lp)).sum(-1),
            "adds up the tokens",
            "you add up along the last axis",
        ),
    ],
    "a2.q4c": [
        (lambda lp, ref: (lp - ref) ** 2, "no half", "the half is missing"),
        (lambda lp, ref: 0.5 * r_of(lp, ref) ** 2, "the square of r, without the log", "you square r"),
        (
            lambda lp, ref: 0.5 * (r_of(lp, ref) - 1) ** 2,
            "the square of r − 1",
            "you square the ratio's distance from 1",
        ),
        (lambda lp, ref: (0.5 * (lp - ref)) ** 2, "the half is inside of the square", "you square the half as well"),
        (lambda lp, ref: 0.5 * (ref - lp), "no square", "this is half of log r"),
        (
            lambda lp, ref: 0.5 * (lp**2 - ref**2),
            "the difference of the squares",
            "the difference of two squares is not the",
        ),
        (lambda lp, ref: (0.5 * (lp - ref) ** 2).detach(), "no gradient", "the gradient is cut off"),
        (lambda lp, ref: 0.5 * (lp - ref).abs(), "the absolute value in place of the square", "the square is missing"),
        (lambda lp, ref: 0.5 * ((lp - ref) ** 2).mean(), "takes the mean", "you take the mean of everything"),
        (lambda lp, ref: -0.5 * (lp - ref) ** 2, "a minus too many", "a square is never negative"),
    ],
    "a2.q4d": [
        (gradient_with(unfrozen), "the weights are not held fixed", "the probabilities are left in the graph"),
        (gradient_with(unweighted), "no weights: every token counts the same", "you add up without any weights"),
        (gradient_with(averaged), "the mean over the vocabulary in place of the weights", "all tokens weigh the same"),
        (gradient_with(reference_weighted), "weights of the reference", "the samples come from the policy"),
        (
            gradient_with(unnormalised),
            "gives the logits to the estimator, not log-probs",
            "the estimator takes log-probs and you give",
        ),
        (
            gradient_with(half_normalised),
            "the reference's logits are not normalised",
            "the reference's logits are no log-probs",
        ),
        (
            gradient_with(swapped),
            "the two arguments of the estimator exchanged",
            "the estimator's arguments are exchanged",
        ),
        (gradient_with(frozen, lambda found: -found[0]), "minus the gradient", "the sign is turned round"),
        (gradient_with(frozen, lambda found: found), "the tuple that grad returns", "inside a tuple"),
        (
            gradient_with(by_probabilities),
            "gives probabilities to the estimator",
            "the estimator takes log-probs and you give",
        ),
        (gradient_with(log_weighted), "weights by the log-probs", "the weights are log-probs"),
        (gradient_with(likeliest_only), "the likeliest token alone", None),
        (reference_gradient, "the gradient by the reference's logits", "this is the gradient with respect to the"),
        (lambda z, ref, k: frozen(z, ref, k), "the value, not its gradient", "this is the sum itself"),
    ],
    "a2.q4e": [
        (
            says(FORWARD, FORWARD, FORWARD),
            "thinks that the gradient of an unbiased value is the gradient of the KL",
            "that all three estimate KL(policy",
        ),
        (says(FORWARD, NOTHING, FORWARD), "takes the biased one for useless", "k1 is an honest value"),
        (says(FORWARD, FORWARD, BACKWARD), "takes k1 for right, since it is unbiased", "k1 is an honest value"),
        (says(NOTHING, BACKWARD, FORWARD), "k2 and k3 exchanged", "k2 and k3 are exchanged"),
        (
            says(NOTHING, FORWARD, FORWARD),
            "takes k3 for right, since it is unbiased",
            "k3 looks in the other direction",
        ),
        (says(NOTHING, NOTHING, FORWARD), "takes k2 for useless and k3 for right", "k2 is biased as a value"),
        (says(NOTHING, NOTHING, BACKWARD), "takes the biased k2 for useless", "k2 is biased as a value"),
        (says(BACKWARD, FORWARD, NOTHING), "k1 and k3 exchanged", "k1 follows neither divergence"),
        (says(NOTHING, FORWARD, NOTHING), "thinks that k3, like k1, vanishes on average", "k3 does push"),
        (says(NOTHING, "KL(policy,reference)", BACKWARD), "misspells a name", "none of 'nothing'"),
    ],
    "a2.q5": [
        (lambda m: m / lengths(m), "does not divide by B·G", "the number of responses does not divide"),
        (
            lambda m: m / m.sum().clamp(min=1),
            "each token the same: the weights of Q5b",
            "every token counts the same here",
        ),
        (
            lambda m: m / (number(m) * m.shape[-1]),
            "divides by T, padding included",
            "you divide by the number of positions",
        ),
        (
            lambda m: m / (number(m) * m.sum(-1, keepdim=True)),
            "0/0 for a response without tokens",
            "a response without tokens gives nan",
        ),
        (
            lambda m: 1 / (number(m) * lengths(m)).expand(m.shape),
            "weighs the padding as well",
            "the padding has weight",
        ),
        (lambda m: m / (number(m) * padded_after(m)), "does not count the end token", "you count one token too few"),
        (lambda m: m / (m.shape[0] * lengths(m)), "divides by B only", "you divide by the number of prompts only"),
        (lambda m: m / (m.shape[1] * lengths(m)), "divides by G only", "you divide by the size of the group only"),
        (
            lambda m: m / (m.any(-1).sum().clamp(min=1) * lengths(m)),
            "does not count empty responses",
            "you count only responses that have tokens",
        ),
        (lambda m: m.int() // (number(m) * lengths(m)), "whole-number division", "all weights are 0"),
        (
            lambda m: m / (number(m) * m.sum(1, keepdim=True).clamp(min=1)),
            "sums along the group, not the tokens",
            "you add the mask up along the group",
        ),
        (
            lambda m: (~m) / (number(m) * lengths(m)),
            "weighs the padding in place of the tokens",
            "the mask is turned round",
        ),
        (lambda m: m * lengths(m) / number(m), "multiplies by the length", None),
        (lambda m: m / (6 * lengths(m)), "B·G hard-coded", None),
    ],
    "a2.q5b": [
        (
            lambda m: m / (number(m) * lengths(m)),
            "each response the same: the weights of Q5",
            "every response counts the same here",
        ),
        (lambda m: m / m.numel(), "divides by all places, padding included", "you count the padding as well"),
        (lambda m: m / m.sum(), "0/0 where there is no token", "a batch without tokens gives nan"),
        (lambda m: torch.ones(m.shape) / m.sum().clamp(min=1), "weighs the padding as well", "the padding has weight"),
        (
            lambda m: m / m.sum((1, 2), keepdim=True).clamp(min=1) / m.shape[0],
            "a mean for each prompt first",
            "you take a mean for each prompt",
        ),
        (lambda m: m / lengths(m), "the length of its own response", "you divide by the length of the token's own"),
        (
            lambda m: m / (number(m) * m.sum().clamp(min=1)),
            "divides by B·G as well",
            "you divide by the number of responses as",
        ),
        (lambda m: m.float(), "1 for each token: does not divide", "nothing is divided"),
        (
            lambda m: m / m.sum((1, 2), keepdim=True).clamp(min=1),
            "counts the tokens of each prompt",
            "you count the tokens of each prompt apart",
        ),
        (lambda m: m.int() // m.sum().clamp(min=1), "whole-number division", "all weights are 0"),
    ],
    "a2.q5c": [
        (lambda m, c: torch.full(m.shape, 1 / (number(m) * c)), "weighs the padding as well", "the padding has weight"),
        (lambda m, c: m / c, "does not divide by B·G", "the B·G responses do not divide"),
        (lambda m, c: m / number(m), "does not divide by the constant", "the constant does not divide"),
        (
            lambda m, c: m / (number(m) * m.shape[-1]),
            "T in place of the constant",
            "you divide by the number of positions",
        ),
        (
            lambda m, c: m / (number(m) * c * lengths(m)),
            "divides by the length too",
            "you divide by the response's length as well",
        ),
        (lambda m, c: m * c / number(m), "multiplies by the constant", "you multiply by the constant"),
        (
            lambda m, c: m / (m.shape[0] * c),
            "divides by B and the constant",
            "you divide by the number of prompts only",
        ),
        (
            lambda m, c: m / (m.shape[1] * c),
            "divides by G and the constant",
            "you divide by the size of the group only",
        ),
        (
            lambda m, c: m / (m.sum().clamp(min=1) * c),
            "the number of tokens in place of B·G",
            "you divide by the number of tokens and the",
        ),
        (
            lambda m, c: m / (number(m) * lengths(m)),
            "ignores the constant: the weights of Q5",
            "you divide by each response's length",
        ),
        (lambda m, c: m / (number(m) * lengths(m).clamp(max=c)), "the length, up to the constant", None),
        (lambda m, c: m // (number(m) * c), "whole-number division", "all weights are 0"),
    ],
    "a2.q6": [
        (step_with(clear=False), "does not clear the old gradients", "gradients pile up from step to step"),
        (
            step_with(old=lambda rollout, lp: lp.detach()),
            "computes the old log-probs anew, so the ratio is always 1",
            "the ratio is always 1",
        ),
        (step_with(deltas=lambda r: r), "raw rewards for deltas", "you push with the raw rewards"),
        (step_with(deltas=minirl_centered), "centred, not normalised", "you push with the centred rewards"),
        (
            step_with(loss=lambda lp, old, d: losses.clipped(lp, old, d, 0.2, 0.2)),
            "the same epsilon on both sides",
            "the upper epsilon is 0",
        ),
        (
            step_with(loss=lambda lp, old, d: losses.clipped(lp, old, d, 0.28, 0.2)),
            "the epsilons swapped",
            "the upper epsilon is 0.28",
        ),
        (step_with(loss=losses.unclipped), "no clipping", "nothing is clipped"),
        (step_with(loss=lambda lp, old, d: losses.naive(lp, d)), "no ratio", "the ratio is always 1"),
        (step_with(weights=lambda m: token_weights(m, "token")), "each token the same", "each token counts the same"),
        (
            step_with(total=lambda per_token, weights: per_token.mean()),
            "the mean over all places, padding included",
            "you average over all positions",
        ),
        (
            step_with(total=lambda per_token, weights: (per_token * weights).mean()),
            "a mean of what has its weights",
            "the weights make a mean already",
        ),
        (
            step_with(total=lambda per_token, weights: per_token.sum()),
            "a sum without weights",
            "you add up the tokens without weights",
        ),
        (step_with(sign=-1), "climbs the loss", "the policy goes the wrong way"),
        (step_with(give=lambda loss: None), "returns nothing", "the step is right"),
        (step_with(give=lambda loss: loss), "returns the tensor with its graph, not a float", "the step is right"),
        (cleared_late, "clears the gradients after backward: the step is empty", "the weights do not move"),
        (stepped_early, "steps before backward: with the gradients of last time", None),
        (never_stepped, "never steps", "the weights do not move"),
        (
            from_old_log_probs,
            "uses the old log-probs as the new ones, so no gradient reaches the policy",
            "the weights do not move",
        ),
    ],
    "a2.q7": [
        (lambda seed: SortingPolicy(8, 3, dim=32, seed=seed), "does not train", "hardly learned"),
        (lambda seed: trained(seed, epochs=20), "stops far too early", "nearly there"),
        (lambda seed: trained(seed, take=step_with(deltas=lambda r: r)), "raw deltas", "half-way"),
        (
            lambda seed: trained(seed, start=SortingPolicy(8, 3, dim=32, init_scale=1, seed=seed)),
            "starts with opinions",
            "closer to uniform",
        ),
        (
            lambda seed: trained(seed, task=the_task(sorting.inclusion_ordering)),
            "the reward with the loophole",
            "mind its loophole",
        ),
        (lambda seed: trained(seed, take=step_with(sign=-1)), "climbs the loss", "Look for a sign"),
        (lambda seed: trained(seed, lr=0.3), "a learning rate that is far too high", "far too high"),
        (lambda seed: trained(seed, lr=1e-5), "a learning rate that is far too low", "hardly learned"),
        (lambda seed: trained(0), "ignores the seed", "two seeds give"),
        (
            lambda seed: trained(seed, task=the_task(held_out=0.0)),
            "trains on the held-out prompts",
            "held-out prompts; they are for the check",
        ),
        (taught, "supervised on sorted answers, no reward", "you show it the right answers"),
        (trained_and_listed, "returns a list", "return the policy"),
        (lambda seed: trained(seed, epochs=1) and None, "returns nothing", "return the policy"),
        (lambda seed: SortingPolicy(5, 3, dim=32, seed=seed), "the lecture's vocabulary of 5", None),
    ],
}
