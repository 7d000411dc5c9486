"""Assignment 3, value functions and preferences: the questions' right answers, inputs and known mistakes."""

from math import comb

import torch
from torch.nn.functional import logsigmoid

from minirl import critic, preferences, shaping
from minirl.course.questions import Mistake, Question

# --- value functions -------------------------------------------------------------------------------------------------


def ragged():
    """(rewards, values, mask), [batch group token]: responses of several lengths, with numbers in the padding too."""
    mask = torch.tensor([[[1, 1, 1, 1], [1, 1, 0, 0]]]).bool()
    rewards = torch.tensor([[[0.0, 0.0, 0.0, 1.0], [0.0, -1.0, 5.0, 5.0]]])
    values = torch.tensor([[[0.5, 0.25, 0.5, 0.75], [0.5, -0.5, 9.0, 9.0]]])
    return rewards, values, mask


def holed():
    """The same with holes, such as a tool's output has between tokens of the policy; one response without tokens."""
    mask = torch.tensor(
        [[[1, 1, 0, 0, 1], [0, 1, 0, 1, 1], [1, 1, 1, 0, 0]], [[0, 0, 0, 0, 0], [1, 0, 1, 0, 0], [1, 1, 1, 1, 1]]]
    )
    count = torch.arange(30.0).view(2, 3, 5)
    return (count * 1.7).sin(), (count * 0.9).cos() * 2, mask.bool()


def precise():
    rewards, values, mask = holed()
    return rewards.double() / 3, values.double() / 7, mask.flip(-1)


def for_gae():
    return [(*ragged(), 1.0, 0.5), (*holed(), 0.9, 0.5), (*precise(), 0.5, 1.0), (*holed(), 0.95, 0.0)]


def for_monte_carlo():
    return [ragged(), holed(), precise()]


def gae(rewards, values, mask, gamma, lam):
    return critic.gae(rewards, values, mask, gamma, lam)[0]


def gae_variant(rewards, values, mask, gamma, lam, *, carry=None, step=None, holes=False, padding=False, first=0.0):
    """GAE with one thing wrong: a factor, the mask, or what stands after the end."""
    carry = gamma * lam if carry is None else carry
    step = gamma if step is None else step
    inside = torch.ones_like(mask) if padding else mask
    advantages = torch.zeros_like(rewards + values)
    last = torch.zeros_like(rewards[..., 0])
    following = last + first * values[..., -1]
    for t in reversed(range(mask.shape[-1])):
        if holes and t + 1 < mask.shape[-1]:
            last, following = last * mask[..., t + 1], values[..., t + 1] * mask[..., t + 1]
        error = rewards[..., t] + step * following - values[..., t]
        last = (error + carry * last).where(inside[..., t], last)
        following = values[..., t].where(inside[..., t], following)
        advantages[..., t] = last
    return advantages * mask


def along_the_group(rewards, values, mask, gamma, lam):
    """The recursion over the group axis, as if it were time; the mask at the end."""
    turned = [each.transpose(1, 2) for each in (rewards, values, mask)]
    return gae_variant(*turned, gamma, lam, padding=True).transpose(1, 2) * mask


def whitened(*inputs):
    advantages, mask = gae(*inputs), inputs[2]
    inside = advantages[mask]
    return ((advantages - inside.mean()) / (inside.std() + 1e-8)).where(mask, 0)


def unmasked_outside(rewards, values, mask, gamma, lam):
    """The last advantage is carried on into holes and padding in front."""
    advantages = gae(rewards, values, mask, gamma, lam)
    place = torch.arange(mask.shape[-1]).expand(mask.shape).masked_fill(~mask, mask.shape[-1])
    following = place.flip(-1).cummin(-1).values.flip(-1).clamp(max=mask.shape[-1] - 1)
    there = mask.flip(-1).cumsum(-1).flip(-1) > 0
    return advantages.gather(-1, following) * there


def towards_the_end(rewards, values, mask, gamma, lam):
    """A sum over the past where the future belongs: the recursion runs forward in time."""
    backwards = [each.flip(-1) for each in (rewards, values, mask)]
    return gae(*backwards, gamma, lam).flip(-1)


def to_go(rewards, mask):
    return (rewards * mask).flip(-1).cumsum(-1).flip(-1)


def value_cases():
    """(values, returns, old_values, clip): errors inside and outside the clip, on both sides; and no clip."""
    old = torch.tensor([[[0.0, 1.0, -1.0, 0.5]]])
    values = old + torch.tensor([[[0.1, 0.6, -0.6, 0.3]]])
    returns = torch.tensor([[[1.0, 0.0, -3.0, 2.0]]])
    wide = torch.linspace(-2, 2, 24).view(2, 3, 4)
    moved, target = wide + (wide * 3).sin(), (wide * 5).cos() * 2
    return [
        (values, returns, old, 0.2),
        (moved, target, wide, 0.5),
        (moved.double() / 3, target.double(), wide.double() / 3, 0.1),
        (moved, target, wide, None),
    ]


def clipped_value(values, returns, old_values, clip):
    return critic.value_loss(values, returns, old_values, clip)


def value_variant(
    values,
    returns,
    old_values,
    clip,
    *,
    bound=lambda values, old, clip: values.clamp(old - clip, old + clip),
    pick=torch.maximum,
    square=torch.square,
    half=0.5,
    frozen=(1, 2),
):
    """½·max(…, …) with one piece exchanged."""
    given = [values, returns, old_values]
    values, returns, old_values = (each.detach() if place in frozen else each for place, each in enumerate(given))
    loss = square(values - returns) * half
    if clip is None:
        return loss
    return pick(loss, square(bound(values, old_values, clip) - returns) * half)


def larger_in_size(one, other):
    return one.where(one.abs() > other.abs(), other)


# --- the price of leaving the reference ------------------------------------------------------------------------------


def kl_cases():
    """(rewards, log_probs, ref_log_probs, mask, beta): ratios on both sides of 1; ragged, holed, and no tokens."""
    mask = torch.tensor([[[1, 1, 1, 1], [1, 1, 0, 0]]]).bool()
    log_probs = torch.tensor([[[-1.0, -0.5, -2.0, -0.25], [-0.5, -1.0, -9.0, -9.0]]])
    reference = torch.tensor([[[-1.5, -0.25, -1.0, -0.25], [-1.0, -3.0, -1.0, -1.0]]])
    _, wide, holes = holed()
    now, ref = -(wide.abs() + 0.1), -((wide + 1.3).abs() + 0.2)
    many = torch.tensor([[1.0, -0.5, 0.25], [2.0, 0.0, 3.0]])
    return [
        (torch.tensor([[1.0, 2.0]]), log_probs, reference, mask, 0.1),
        (many, now, ref, holes, 0.25),
        (many.double() / 3, now.double(), ref.double() / 3, holes.flip(-1), 0.5),
    ]


def penalty(log_probs, ref_log_probs, mask, beta):
    return -beta * ((log_probs - ref_log_probs) * mask).detach()


def last_inside(mask):
    return mask & (mask.cumsum(-1) == mask.sum(-1, keepdim=True))


def paid(price, rewards, mask):
    """A price at each token inside the mask, and the outcome at the last of them."""
    return price.detach() * mask + rewards[..., None] * last_inside(mask)


def at_position(rewards, mask, place):
    """The outcome at one position of each response, wherever that lies; a place that is none counts from the end."""
    place = (place % mask.shape[-1])[..., None]
    return torch.zeros(mask.shape, dtype=rewards.dtype).scatter(-1, place, rewards[..., None])


# --- preferences -----------------------------------------------------------------------------------------------------


def pairs_of_rewards():
    """Margins of both signs, one tie, and some so large that a plain exp overflows or a sigmoid is 0."""
    chosen, rejected = torch.tensor([2.0, 0.5, 1.0]), torch.tensor([1.0, 2.5, 1.0])
    far = torch.tensor([[0.0, 150.0], [-90.0, 3.0]]), torch.tensor([[200.0, 0.0], [90.0, 2.0]])
    third = torch.linspace(-2, 3, 7, dtype=torch.float64) / 3
    return [(chosen, rejected), (*far,), (third, third.flip(0) * 2)]


def pairs_of_log_probs():
    """(chosen, rejected, ref_chosen, ref_rejected, beta), summed log-probs in nats."""
    shown = [torch.tensor(each) for each in ([-4.0, -6.0], [-5.0, -3.0], [-5.0, -5.0], [-4.0, -4.0])]
    wide = [-torch.linspace(2, 20, 6).view(2, 3) * scale for scale in (1.0, 1.3, 1.1, 0.9)]
    far = [torch.tensor(each) for each in ([-900.0, -20.0], [-30.0, -700.0], [-40.0, -25.0], [-600.0, -60.0])]
    return [(*shown, 0.5), (*wide, 0.1), (*(each.double() / 3 for each in wide), 2.0), (*far, 0.5)]


def pairs_with_lengths():
    """(chosen, rejected, chosen_len, rejected_len, beta, margin): the longer one is now this side, now that one."""
    shown = (
        [torch.tensor(each) for each in ([-4.0, -12.0], [-6.0, -3.0])],
        [torch.tensor(each) for each in ([8, 4], [4, 2])],
    )
    wide = [-torch.linspace(2, 20, 6).view(2, 3) * scale for scale in (1.0, 1.3)]
    lengths = [torch.tensor([[3, 9, 1], [20, 4, 7]]), torch.tensor([[5, 2, 6], [3, 30, 7]])]
    return [
        (*shown[0], *shown[1], 2.0, 0.5),
        (*wide, *lengths, 2.5, 1.0),
        (*(each.double() / 3 for each in wide), *lengths, 10.0, 0.3),
    ]


def dpo_margin(chosen, rejected, ref_chosen, ref_rejected):
    return (chosen - ref_chosen.detach()) - (rejected - ref_rejected.detach())


def bounded(kind, size):
    """−log σ(chosen − rejected) kept finite by a number that students write."""
    return {
        "added": lambda c, r: -((c - r).sigmoid() + size).log(),
        "least": lambda c, r: -(c - r).sigmoid().clamp(min=size).log(),
        "between": lambda c, r: -(c - r).sigmoid().clamp(size, 1 - size).log(),
        "difference": lambda c, r: -logsigmoid((c - r).clamp(-size, size)),
    }[kind]


SMALL = (1e-12, 1e-10, 1e-9, 1e-7, 1e-6, 1e-5, 1e-4)
BOUNDS = {"added": SMALL, "least": (*SMALL, 1e-8), "between": (1e-6, 1e-7), "difference": (10, 20, 30, 50, 80, 100)}

# --- over-optimisation -----------------------------------------------------------------------------------------------


def pools():
    """(proxy, true, n), [prompt sample]: what a noisy judge says of each sample, and what it is worth."""
    shown = torch.tensor([[0.9, 0.1, 0.5, 0.3]]), torch.tensor([[0.0, 0.2, 1.0, 0.4]])
    count = torch.arange(24.0).view(3, 8)
    true = (count * 1.3).sin()
    proxy = true + (count * 2.9).cos()
    return [(*shown, 2), (proxy, true, 3), (proxy.double(), true.double() / 3, 1), (proxy, true, 8)]


def expected_best_of_n(proxy, true, n):
    """Σ_i true of the i-th lowest proxy × C(i−1, n−1)/C(m, n), the chance that it is the best of the n drawn."""
    samples = proxy.shape[-1]
    chance = torch.tensor([comb(i, n - 1) / comb(samples, n) for i in range(samples)], dtype=torch.float64)
    ordered = true.gather(-1, proxy.argsort(-1))
    return (ordered * chance.to(true)).sum(-1)


def by_place(chance, ordered=lambda proxy, true: true.gather(-1, proxy.argsort(-1))):
    """A mean of the true rewards in some order, the one at place i of m (from 0) weighing chance(i, m, n)."""

    def answer(proxy, true, n):
        samples = proxy.shape[-1]
        weights = torch.tensor([chance(i, samples, n) for i in range(samples)], dtype=torch.float64)
        return (ordered(proxy, true) * weights.to(true)).sum(-1)

    return answer


def wins(i, m, n):
    return comb(i, n - 1) / comb(m, n)


def by_order_for_rank(proxy, true, n):
    """The weights looked up with argsort, which says who stands at a place and not at which place one stands."""
    weights = torch.tensor([wins(i, proxy.shape[-1], n) for i in range(proxy.shape[-1])], dtype=torch.float64)
    return (weights.to(true)[proxy.argsort(-1)] * true).sum(-1)


def curves():
    """(proxy, true), [seed checkpoint]: the proxy goes on rising, the true reward has a peak; seeds disagree."""
    shown = (
        torch.tensor([[0.0, 0.4, 0.6, 0.8], [0.2, 0.4, 0.8, 1.0]]),
        torch.tensor([[0.0, 0.4, 0.5, 0.1], [0.2, 0.6, 0.4, 0.1]]),
    )
    time = torch.arange(8.0)
    proxy = torch.stack([1 - torch.exp(-time / 2), 1.2 - torch.exp(-time / 3), 0.9 - torch.exp(-time)])
    proxy[:, 6] += 0.5
    true = torch.tensor(
        [
            [0.0, 0.5, 2.0, 0.2, 0.9, 0.6, 0.2, 0.1],
            [0.1, 0.7, -0.4, 0.3, 1.0, 0.5, 0.4, 0.0],
            [0.0, 0.4, -0.5, 0.8, 0.7, 0.9, 0.1, 0.3],
        ]
    )
    apart = torch.tensor([[0.0, 1.0, 0.5, 0.2], [0.0, 0.1, 0.9, 0.3], [0.0, 0.3, 0.2, 0.6]])
    lucky = torch.tensor([[0.1, 1.5, 0.2, 0.4], [0.1, 0.0, 0.3, 0.5], [0.2, 0.1, 0.4, 0.3]])
    return [(*shown,), (proxy, true), (proxy.double() / 3, true.double().flip(0)), (apart, lucky)]


def where_to_stop(proxy, true):
    """The checkpoint of the highest mean true reward, and what is lost by going on to the proxy's own choice."""
    mean = true.mean(0)
    best = int(mean.argmax())
    return best, (mean[best] - mean[proxy.mean(0).argmax()]).item()


def first_fall(true):
    mean = true.mean(0)
    falls = (mean[1:] < mean[:-1]).nonzero()
    return int(falls[0]) if len(falls) else len(mean) - 1


def stops_at(place):
    """Wrong answers that stop at place(proxy, true): what is lost counted from there, or from the right place."""

    def from_there(proxy, true):
        best, mean = int(place(proxy, true)), true.mean(0)
        return best, (mean[best % len(mean)] - mean[proxy.mean(0).argmax()]).item()

    return from_there, (lambda proxy, true: (int(place(proxy, true)), where_to_stop(proxy, true)[1]),)


def loses(lost):
    """The right place, and another idea of what is lost."""
    return lambda proxy, true: (where_to_stop(proxy, true)[0], lost(proxy, true).item())


QUESTIONS = {
    question.id: question
    for question in (
        Question(
            "a3.q1a",
            "GAE under a mask",
            4,
            gae,
            for_gae,
            (
                Mistake(
                    "the mask is left out of the recursion: rewards and values of the padding leak into real tokens.",
                    lambda *inputs: gae_variant(*inputs, padding=True),
                ),
                Mistake(
                    "a hole is treated as the end: tokens inside the mask follow one another, hole or not, so carry "
                    "the next value and the next advantage across it.",
                    lambda *inputs: gae_variant(*inputs, holes=True),
                ),
                Mistake(
                    "a hole is taken for a step with reward and value 0: pass over it, and carry the next value and "
                    "the next advantage across.",
                    lambda r, v, m, *rest: gae_variant(r * m, v * m, m, *rest, padding=True),
                ),
                Mistake(
                    "λ is missing: with γ alone in the sum, every answer is the one of λ = 1.",
                    lambda r, v, m, gamma, lam: gae_variant(r, v, m, gamma, lam, carry=gamma),
                ),
                Mistake(
                    "the sum over later errors fades by λ alone; each step of it costs a γ too.",
                    lambda r, v, m, gamma, lam: gae_variant(r, v, m, gamma, lam, carry=lam),
                ),
                Mistake(
                    "γ is missing in the error of one step: what the next value promises comes a step later.",
                    lambda r, v, m, gamma, lam: gae_variant(r, v, m, gamma, lam, step=1.0),
                ),
                Mistake(
                    "the values have the wrong signs: in δ the next value is added and the token's own is subtracted.",
                    lambda r, v, *rest: gae(r, -v, *rest),
                ),
                Mistake(
                    "this is the error of one step alone; those of later steps count too, fainter by γλ each.",
                    lambda r, v, m, gamma, lam: gae_variant(r, v, m, gamma, lam, carry=0.0),
                ),
                Mistake(
                    "what comes next is missing: the next value in δ, and the next advantage.",
                    lambda r, v, m, gamma, lam: gae_variant(r, v, m, gamma, lam, carry=0.0, step=0.0),
                ),
                Mistake("the recursion runs along the group; time is the last axis.", along_the_group),
                Mistake("the advantages are whitened already; that comes later, over the whole batch.", whitened),
                Mistake(
                    "you return A + V, the target of the value function; the advantage is what is left without V.",
                    lambda r, v, m, gamma, lam: critic.gae(r, v, m, gamma, lam)[1],
                ),
                Mistake(
                    "after the last token you go on from its own value; nothing follows there, so the value is 0.",
                    lambda *inputs: gae_variant(*inputs, first=1.0),
                    (
                        lambda r, v, m, *rest: gae_variant(r * m, v * m, m, *rest, first=1.0),
                        lambda r, v, m, *rest: gae_variant(r * m, v * m, m, *rest, first=1.0, padding=True),
                    ),
                ),
                Mistake(
                    "there are advantages outside the mask; whoever averages them later counts tokens that are none.",
                    unmasked_outside,
                ),
                Mistake(
                    "the recursion runs from the first token on; an advantage sums what comes after its token.",
                    towards_the_end,
                ),
                Mistake(
                    "the sign is turned round: the error of one step is what came, less what was expected.",
                    lambda *inputs: -gae(*inputs),
                ),
            ),
            "From the last token to the first: δ = r + γ·V_next − V and A = δ + γλ·A_next, where `next` is the next "
            "token inside the mask; after the last one both are 0.",
            (critic.gae,),
            tolerance=1e-5,
        ),
        Question(
            "a3.q1b",
            "γ = λ = 1",
            3,
            lambda rewards, values, mask: gae(rewards, values, mask, 1.0, 1.0),
            for_monte_carlo,
            (
                Mistake(
                    "you sum from the first token up to this one; a token is answerable for what comes after it.",
                    lambda r, v, m: ((r * m).cumsum(-1) - v) * m,
                ),
                Mistake(
                    "the reward of the token itself is left out: r_t comes after token t was chosen, so it counts.",
                    lambda r, v, m: (to_go(r, m) - r * m - v) * m,
                ),
                Mistake(
                    "every token gets the sum of all rewards; what was paid before token t is not its doing.",
                    lambda r, v, m: ((r * m).sum(-1, keepdim=True) - v) * m,
                ),
                Mistake(
                    "rewards outside the mask are summed too; no token earned them.",
                    lambda r, v, m: (to_go(r, torch.ones_like(m)) - v) * m,
                ),
                Mistake(
                    "this is the return; subtract the value, the baseline that makes it an advantage.",
                    lambda r, v, m: to_go(r, m) * m,
                ),
                Mistake(
                    "the sign is turned round: better than expected is positive.", lambda r, v, m: (v - to_go(r, m)) * m
                ),
                Mistake(
                    "the value is added; it is what was expected anyway, so it is taken off.",
                    lambda r, v, m: (to_go(r, m) + v) * m,
                ),
                Mistake(
                    "later values are taken off as well: of all values only the token's own stays.",
                    lambda r, v, m: to_go(r - v, m) * m,
                ),
                Mistake(
                    "the sums stand in the wrong order: after the cumsum, flip back.",
                    lambda r, v, m: ((r * m).flip(-1).cumsum(-1) - v) * m,
                ),
                Mistake(
                    "you sum along the group; time is the last axis.",
                    lambda r, v, m: ((r * m).flip(1).cumsum(1).flip(1) - v) * m,
                    (
                        lambda r, v, m: ((r * m).flip(0).cumsum(0).flip(0) - v) * m,
                        lambda r, v, m: ((r * m).cumsum(1) - v) * m,
                    ),
                ),
                Mistake(
                    "outside the mask the result must be 0; multiply by the mask at the end as well.",
                    lambda r, v, m: to_go(r, m) - v,
                ),
            ),
            "The rewards still to come, the token's own included, less its value; a sum from the right is a flip, a "
            "cumsum and a flip.",
            (critic.gae,),
            tolerance=1e-5,
        ),
        Question(
            "a3.q2",
            "the value loss",
            3,
            clipped_value,
            value_cases,
            (
                Mistake("the factor ½ is missing.", lambda *inputs: value_variant(*inputs, half=1.0)),
                Mistake(
                    "you took the smaller of the two; the larger is the cautious one, as in PPO's clip with its sign.",
                    lambda *inputs: value_variant(*inputs, pick=torch.minimum),
                ),
                Mistake(
                    "you hold the value between −clip and clip; it is held near the *old value*.",
                    lambda *inputs: value_variant(*inputs, bound=lambda v, old, clip: v.clamp(-clip, clip)),
                ),
                Mistake(
                    "clip is taken for a share, as with the ratio; a value is held within old value ± clip.",
                    lambda *inputs: value_variant(
                        *inputs, bound=lambda v, old, clip: v.minimum(old * (1 + clip)).maximum(old * (1 - clip))
                    ),
                    (
                        lambda *inputs: value_variant(
                            *inputs, bound=lambda v, old, clip: old * (v / old).clamp(1 - clip, 1 + clip)
                        ),
                    ),
                ),
                Mistake(
                    "you take the larger error before it is squared; one far below 0 is large too. Square first.",
                    lambda v, r, old, clip: (
                        value_variant(v, r, old, None)
                        if clip is None
                        else value_variant(v, r, old, clip, square=lambda error: error, half=1.0) ** 2 / 2
                    ),
                ),
                Mistake(
                    "without the maximum, a value that went too far the wrong way gets no gradient back.",
                    lambda *inputs: value_variant(*inputs, pick=lambda loss, held: held),
                ),
                Mistake(
                    "this is the absolute error; squared, its least is the mean return, which a value is.",
                    lambda *inputs: value_variant(*inputs, square=torch.abs),
                    (lambda *inputs: value_variant(*inputs, square=torch.abs, half=1.0),),
                ),
                Mistake(
                    "nothing is clipped, or the bound is not around the old value: the larger error is then that of V.",
                    lambda values, returns, old, clip: (values - returns.detach()) ** 2 / 2,
                ),
                Mistake(
                    "the returns are left in the graph, so the target moves towards the value. Detach it.",
                    lambda *inputs: value_variant(*inputs, frozen=(2,)),
                ),
                Mistake(
                    "the old values are left in the graph; they are numbers from when the responses were sampled.",
                    lambda *inputs: value_variant(*inputs, frozen=(1,)),
                ),
                Mistake(
                    "the targets are left in the graph: detach both the returns and the old values.",
                    lambda *inputs: value_variant(*inputs, frozen=()),
                ),
                Mistake(
                    "the value itself is detached, so nothing learns; the targets are what must not move.",
                    lambda *inputs: value_variant(*inputs, frozen=(0,)),
                    (lambda *inputs: value_variant(*inputs, frozen=(0, 1, 2)),),
                ),
                Mistake(
                    "the loss is averaged already; leave it per token, so that the mask can weigh it.",
                    lambda *inputs: clipped_value(*inputs).mean(),
                ),
            ),
            "½·max((V − R)², (V held within ±clip of V_old − R)²) for each token; R and V_old are targets.",
            (critic.value_loss,),
            gradients=(0, 1, 2),
        ),
        Question(
            "a3.q3",
            "the KL in the reward, token by token",
            3,
            shaping.per_token_rewards,
            kl_cases,
            (
                Mistake(
                    "the outcome is at the last position, which for a shorter response is padding: nobody receives it.",
                    lambda r, now, ref, m, beta: penalty(now, ref, m, beta) + at_position(r, m, m.sum(-1) * 0 - 1),
                    (
                        lambda r, now, ref, m, beta: (
                            penalty(now, ref, m, beta) + at_position(r, m, m.sum(-1) * 0 - 1) * m
                        ),
                    ),
                ),
                Mistake(
                    "the outcome is paid at the *first* token; it comes when the response is finished.",
                    lambda r, now, ref, m, beta: penalty(now, ref, m, beta) + r[..., None] * (m & (m.cumsum(-1) == 1)),
                ),
                Mistake(
                    "the outcome is one token too late: counted from 0, the last of n tokens is number n − 1.",
                    lambda r, now, ref, m, beta: (
                        penalty(now, ref, m, beta) + at_position(r, m, m.sum(-1).clamp(max=m.shape[-1] - 1))
                    ),
                ),
                Mistake(
                    "you count the tokens to find the last one; after a hole it stands further on.",
                    lambda r, now, ref, m, beta: (
                        penalty(now, ref, m, beta) + at_position(r, m, (m.sum(-1) - 1).clamp(min=0)) * m
                    ),
                ),
                Mistake(
                    "the outcome stands in the padding behind the last token as well: as many tokens have been seen "
                    "there. Ask for the mask too.",
                    lambda r, now, ref, m, beta: (
                        penalty(now, ref, m, beta) + r[..., None] * (m.cumsum(-1) == m.sum(-1, keepdim=True))
                    ),
                ),
                Mistake(
                    "every token is paid the outcome, so a longer response earns it more often.",
                    lambda r, now, ref, m, beta: penalty(now, ref, m, beta) + r[..., None] * m,
                ),
                Mistake(
                    "clamped at 0 it is no KL any more: where the policy is less sure than the reference, k1 is "
                    "negative, and these tokens belong to the mean.",
                    lambda r, now, ref, m, beta: (
                        -beta * ((now - ref).clamp(min=0) * m).detach() + r[..., None] * last_inside(m)
                    ),
                ),
                Mistake(
                    "the price of a token may be negative: k1 is a plain difference. Only its mean is 0 or more.",
                    lambda r, now, ref, m, beta: paid(-beta * (now - ref).abs(), r, m),
                ),
                Mistake(
                    "this is k3; the formula asks for the log-ratio itself, k1.",
                    lambda r, now, ref, m, beta: paid(-beta * ((ref - now).exp() - 1 - (ref - now)), r, m),
                ),
                Mistake(
                    "these are ratios; the price is the difference of the log-probs, the *log* of the ratio.",
                    lambda r, now, ref, m, beta: paid(-beta * (now - ref).exp(), r, m),
                    (lambda r, now, ref, m, beta: paid(-beta * (now.exp() - ref.exp()), r, m),),
                ),
                Mistake(
                    "β multiplies one of the log-probs only: mind the brackets around their difference.",
                    lambda r, now, ref, m, beta: paid(-beta * now + ref, r, m),
                    (
                        lambda r, now, ref, m, beta: paid(-beta * now - ref, r, m),
                        lambda r, now, ref, m, beta: paid(-(now - beta * ref), r, m),
                    ),
                ),
                Mistake("β divides; it multiplies.", lambda r, now, ref, m, beta: paid(-(now - ref) / beta, r, m)),
                Mistake("β is missing.", lambda r, now, ref, m, beta: paid(-(now - ref), r, m)),
                Mistake(
                    "β multiplies the outcome as well; it is the price of the KL alone.",
                    lambda r, now, ref, m, beta: beta * paid(-(now - ref), r, m),
                ),
                Mistake(
                    "the price is missing: this is the outcome alone.", lambda r, now, ref, m, beta: paid(0 * now, r, m)
                ),
                Mistake(
                    "the sign is turned round: this pays for drifting away from the reference.",
                    lambda r, now, ref, m, beta: penalty(ref, now, m, beta) + r[..., None] * last_inside(m),
                ),
                Mistake(
                    "the whole price is paid at the last token; a critic should be told where it arose.",
                    lambda r, now, ref, m, beta: (
                        (r[..., None] + penalty(now, ref, m, beta).sum(-1, keepdim=True)) * last_inside(m)
                    ),
                ),
                Mistake(
                    "the padding pays too: multiply the penalty by the mask.",
                    lambda r, now, ref, m, beta: -beta * (now - ref).detach() + r[..., None] * last_inside(m),
                ),
                Mistake(
                    "the log-probs are left in the graph; a reward is a number that nothing is differentiated through.",
                    lambda r, now, ref, m, beta: -beta * ((now - ref) * m) + r[..., None] * last_inside(m),
                ),
            ),
            "−β·(log π − log π_ref) at each token inside the mask, and the outcome on top at the last of them.",
            (shaping.per_token_rewards, critic.at_the_last_token),
            gradients=(1, 2),
        ),
        Question(
            "a3.q4",
            "Bradley–Terry",
            2,
            preferences.bradley_terry,
            pairs_of_rewards,
            (
                Mistake(
                    "the sign is turned round: this loss falls when the rejected one gets the higher reward.",
                    lambda c, r: -logsigmoid(r - c),
                ),
                Mistake(
                    "the log is missing: this is a probability, with a sign.",
                    lambda c, r: -(c - r).sigmoid(),
                    (lambda c, r: 1 - (c - r).sigmoid(), lambda c, r: (c - r).sigmoid()),
                ),
                Mistake(
                    "the sigmoid is missing: this is the difference alone.", lambda c, r: r - c, (lambda c, r: c - r,)
                ),
                Mistake(
                    "one sigmoid for each reward; it is the *difference* that decides who wins: take its sigmoid.",
                    lambda c, r: logsigmoid(r) - logsigmoid(c),
                    (lambda c, r: -logsigmoid(c) - logsigmoid(-r), lambda c, r: -(c.sigmoid() - r.sigmoid()).log()),
                ),
                Mistake(
                    "you divide the rewards; they are compared by their difference.", lambda c, r: -logsigmoid(c / r)
                ),
                Mistake(
                    "a bound, or a small number in the log, keeps the loss finite, and wrong: beyond it a worse pair "
                    "costs no more. Use logsigmoid.",
                    lambda c, r: -((c - r).sigmoid() + 1e-8).log(),
                    tuple(bounded(kind, size) for kind, sizes in BOUNDS.items() for size in sizes),
                ),
                Mistake(
                    "the minus is missing: a loss goes down when the choice gets likelier.",
                    lambda c, r: logsigmoid(c - r),
                ),
                Mistake(
                    "right on paper, infinite in floats: far off, σ is 0 and its log −∞; use logsigmoid.",
                    lambda c, r: -(c - r).sigmoid().log(),
                ),
                Mistake(
                    "a reward is the logarithm of a strength: c/(c + r) is for strengths, and rewards may be negative.",
                    lambda c, r: -(c / (c + r)).log(),
                ),
                Mistake(
                    "the losses are averaged already; return one for each pair.", lambda c, r: -logsigmoid(c - r).mean()
                ),
                Mistake(
                    "a hinge is no likelihood: beyond the margin it learns nothing.",
                    lambda c, r: (1 - (c - r)).clamp(min=0),
                ),
            ),
            "−log σ(r_chosen − r_rejected), where σ(…) is the chance that the chosen one wins.",
            (preferences.bradley_terry,),
            gradients=(0, 1),
        ),
        Question(
            "a3.q5",
            "DPO",
            4,
            preferences.dpo,
            pairs_of_log_probs,
            (
                Mistake(
                    "the reference is left in the graph: it is frozen, and what it says is a number. Detach it.",
                    lambda c, r, rc, rr, beta: -logsigmoid(beta * ((c - rc) - (r - rr))),
                ),
                Mistake(
                    "chosen and rejected have changed places: this teaches the worse one.",
                    lambda c, r, rc, rr, beta: -logsigmoid(-beta * dpo_margin(c, r, rc, rr)),
                ),
                Mistake(
                    "the reference is missing, so nothing says what the policy was like before.",
                    lambda c, r, rc, rr, beta: -logsigmoid(beta * (c - r)),
                ),
                Mistake(
                    "the reference has the wrong sign, or the two are crossed: each has its own log π − log π_ref.",
                    lambda c, r, rc, rr, beta: -logsigmoid(beta * ((c + rc.detach()) - (r + rr.detach()))),
                ),
                Mistake(
                    "β stands outside of the sigmoid, where it is a learning rate; inside, it says how dear a nat of "
                    "drift is.",
                    lambda c, r, rc, rr, beta: -beta * logsigmoid(dpo_margin(c, r, rc, rr)),
                ),
                Mistake("β is missing.", lambda c, r, rc, rr, beta: -logsigmoid(dpo_margin(c, r, rc, rr))),
                Mistake(
                    "β divides; it multiplies the log-ratios: r̂ = β·log(π/π_ref).",
                    lambda c, r, rc, rr, beta: -logsigmoid(dpo_margin(c, r, rc, rr) / beta),
                ),
                Mistake(
                    "the losses are averaged already; return one for each pair.",
                    lambda c, r, rc, rr, beta: -logsigmoid(beta * dpo_margin(c, r, rc, rr)).mean(),
                ),
                Mistake(
                    "log-probs are divided; the log of a ratio is the *difference* of the log-probs.",
                    lambda c, r, rc, rr, beta: -logsigmoid(beta * (c / rc.detach() - r / rr.detach())),
                ),
                Mistake(
                    "the minus is missing: a loss goes down when the choice gets likelier.",
                    lambda c, r, rc, rr, beta: logsigmoid(beta * dpo_margin(c, r, rc, rr)),
                ),
                Mistake(
                    "the log is missing: this is a probability, with a sign.",
                    lambda c, r, rc, rr, beta: -(beta * dpo_margin(c, r, rc, rr)).sigmoid(),
                    (lambda c, r, rc, rr, beta: 1 - (beta * dpo_margin(c, r, rc, rr)).sigmoid(),),
                ),
                Mistake(
                    "right on paper, infinite in floats: far off, σ is 0 and its log −∞; use logsigmoid.",
                    lambda c, r, rc, rr, beta: -(beta * dpo_margin(c, r, rc, rr)).sigmoid().log(),
                ),
                Mistake(
                    "one sigmoid for each response; it is the *difference* of the two rewards that decides.",
                    lambda c, r, rc, rr, beta: (
                        -logsigmoid(beta * (c - rc.detach())) - logsigmoid(beta * (rr.detach() - r))
                    ),
                    (
                        lambda c, r, rc, rr, beta: (
                            logsigmoid(beta * (r - rr.detach())) - logsigmoid(beta * (c - rc.detach()))
                        ),
                    ),
                ),
                Mistake(
                    "the rejected one is detached; both are the policy's, and the loss moves both.",
                    lambda c, r, rc, rr, beta: -logsigmoid(beta * dpo_margin(c, r.detach(), rc, rr)),
                ),
                Mistake(
                    "the policy is detached as well, so nothing learns: only the reference is frozen.",
                    lambda c, r, rc, rr, beta: -logsigmoid(beta * dpo_margin(c, r, rc, rr).detach()),
                ),
                Mistake(
                    "these are ratios; the implied reward is the *logarithm* of π/π_ref.",
                    lambda c, r, rc, rr, beta: -logsigmoid(beta * ((c - rc.detach()).exp() - (r - rr.detach()).exp())),
                ),
            ),
            "Bradley–Terry on the implied rewards β·(log π − log π_ref), the reference frozen.",
            (preferences.dpo, preferences.bradley_terry, preferences.implied_reward),
            gradients=(0, 1, 2, 3),
        ),
        Question(
            "a3.q6",
            "SimPO",
            3,
            preferences.simpo,
            pairs_with_lengths,
            (
                Mistake(
                    "the lengths do not divide: summed log-probs make every long response look bad.",
                    lambda c, r, lc, lr, beta, margin: -logsigmoid(beta * (c - r) - margin),
                ),
                Mistake(
                    "the margin has the wrong sign: it asks for more than a bare win, so it is subtracted.",
                    lambda c, r, lc, lr, beta, margin: -logsigmoid(beta * (c / lc - r / lr) + margin),
                ),
                Mistake(
                    "β multiplies the margin as well; it belongs to the mean log-probs alone.",
                    lambda c, r, lc, lr, beta, margin: -logsigmoid(beta * (c / lc - r / lr - margin)),
                ),
                Mistake(
                    "the losses are averaged already; return one for each pair.",
                    lambda c, r, lc, lr, beta, margin: -logsigmoid(beta * (c / lc - r / lr) - margin).mean(),
                ),
                Mistake(
                    "both are divided by the length of the chosen one; each has its own.",
                    lambda c, r, lc, lr, beta, margin: -logsigmoid(beta * (c - r) / lc - margin),
                ),
                Mistake(
                    "the margin is missing.", lambda c, r, lc, lr, beta, margin: -logsigmoid(beta * (c / lc - r / lr))
                ),
                Mistake(
                    "the margin stands outside of the sigmoid, where it has no gradient and does nothing.",
                    lambda c, r, lc, lr, beta, margin: -logsigmoid(beta * (c / lc - r / lr)) + margin,
                    (lambda c, r, lc, lr, beta, margin: -logsigmoid(beta * (c / lc - r / lr)) - margin,),
                ),
                Mistake(
                    "the lengths have changed places: each response is divided by its own.",
                    lambda c, r, lc, lr, beta, margin: -logsigmoid(beta * (c / lr - r / lc) - margin),
                ),
                Mistake(
                    "the difference is divided by the two lengths together; each sum has its own length.",
                    lambda c, r, lc, lr, beta, margin: -logsigmoid(beta * (c - r) / (lc + lr) - margin),
                    (lambda c, r, lc, lr, beta, margin: -logsigmoid(beta * (c - r) / ((lc + lr) / 2) - margin),),
                ),
                Mistake("β is missing.", lambda c, r, lc, lr, beta, margin: -logsigmoid(c / lc - r / lr - margin)),
                Mistake(
                    "β multiplies the chosen one alone: mind the brackets, both rewards have it.",
                    lambda c, r, lc, lr, beta, margin: -logsigmoid(beta * c / lc - r / lr - margin),
                ),
                Mistake(
                    "β stands outside of the sigmoid, where it is a learning rate.",
                    lambda c, r, lc, lr, beta, margin: -beta * logsigmoid(c / lc - r / lr - margin),
                ),
                Mistake(
                    "the minus is missing: a loss goes down when the choice gets likelier.",
                    lambda c, r, lc, lr, beta, margin: logsigmoid(beta * (c / lc - r / lr) - margin),
                ),
                Mistake(
                    "a hinge is no likelihood: beyond the margin it learns nothing.",
                    lambda c, r, lc, lr, beta, margin: (margin - beta * (c / lc - r / lr)).clamp(min=0),
                ),
                Mistake(
                    "chosen and rejected have changed places: this teaches the worse one.",
                    lambda c, r, lc, lr, beta, margin: -logsigmoid(beta * (r / lr - c / lc) - margin),
                ),
                Mistake(
                    "the lengths multiply; a mean per token divides by them.",
                    lambda c, r, lc, lr, beta, margin: -logsigmoid(beta * (c * lc - r * lr) - margin),
                ),
            ),
            "−log σ(β·(mean log-prob per token of the chosen − that of the rejected) − margin).",
            (preferences.simpo, preferences.per_token, preferences.bradley_terry),
            gradients=(0, 1),
        ),
        Question(
            "a3.q7a",
            "the best of n, by a noisy judge",
            3,
            expected_best_of_n,
            pools,
            (
                Mistake(
                    "this is what the *proxy* says of its own favourite, which always rises with n; asked is what that "
                    "favourite is worth.",
                    lambda proxy, true, n: expected_best_of_n(proxy, proxy, n),
                ),
                Mistake(
                    "you choose by the true reward, which nobody has at that time; the proxy chooses.",
                    lambda proxy, true, n: expected_best_of_n(true, true, n),
                ),
                Mistake(
                    "these are draws with replacement; n different samples are judged.",
                    by_place(lambda i, m, n: ((i + 1) / m) ** n - (i / m) ** n),
                ),
                Mistake(
                    "off by one: below the i-th lowest there are i − 1 others, or i where you count from 0, and n − 1 "
                    "of them are drawn.",
                    by_place(lambda i, m, n: comb(i + 1, n - 1) / comb(m, n)),
                    (
                        by_place(lambda i, m, n: comb(i, n) / comb(m, n)),
                        by_place(lambda i, m, n: comb(max(i - 1, 0), n - 1) / comb(m, n)),
                    ),
                ),
                Mistake(
                    "the chances do not add up to 1: there are C(m, n) choices of n samples.",
                    by_place(lambda i, m, n: comb(i, n - 1) / comb(m, n - 1)),
                    (
                        by_place(lambda i, m, n: comb(i, n - 1) / comb(m - 1, n - 1)),
                        by_place(lambda i, m, n: comb(i, n - 1)),
                    ),
                ),
                Mistake(
                    "the samples are not sorted by the proxy.",
                    by_place(wins, lambda proxy, true: true),
                ),
                Mistake(
                    "you sort along the prompts; each prompt has its own favourite, so sort the last axis.",
                    by_place(wins, lambda proxy, true: true.gather(0, proxy.argsort(0))),
                ),
                Mistake(
                    "argsort says who stands at each place, not at which place each stands: reorder the true rewards, "
                    "not the chances.",
                    by_order_for_rank,
                ),
                Mistake(
                    "this is the favourite among all samples, whatever n.",
                    lambda proxy, true, n: true.gather(-1, proxy.argmax(-1, keepdim=True)).squeeze(-1),
                ),
                Mistake(
                    "you look at the first n samples only; every choice of n is equally likely, so average over all.",
                    lambda proxy, true, n: true[:, :n].gather(-1, proxy[:, :n].argmax(-1, keepdim=True)).squeeze(-1),
                ),
                Mistake(
                    "this is the mean of the n best by the proxy; of n samples drawn at random only the best is kept.",
                    lambda proxy, true, n: true.gather(-1, proxy.topk(n, -1).indices).mean(-1),
                ),
                Mistake(
                    "the order is turned round: the proxy's *worst* of n is taken.",
                    lambda proxy, true, n: expected_best_of_n(-proxy, true, n),
                ),
                Mistake(
                    "one number for all prompts; return one for each.",
                    lambda proxy, true, n: expected_best_of_n(proxy, true, n).mean(),
                ),
            ),
            "Sort by the proxy; the i-th lowest of m wins among n drawn ones with chance C(i−1, n−1)/C(m, n). Sum the "
            "true rewards with these chances.",
            tolerance=1e-5,
        ),
        Question(
            "a3.q7b",
            "where to stop",
            2,
            where_to_stop,
            curves,
            (
                Mistake(
                    "you stop where the *proxy* is highest: that is where it has been exploited most.",
                    *stops_at(lambda proxy, true: proxy.mean(0).argmax()),
                ),
                Mistake(
                    "you look at the best seed; you cannot choose the seed before you train. Average over seeds.",
                    *stops_at(lambda proxy, true: true.amax(0).argmax()),
                ),
                Mistake(
                    "you look at one seed; average over all of them.",
                    *stops_at(lambda proxy, true: true[0].argmax()),
                ),
                Mistake(
                    "you average the seeds' own peaks; one checkpoint is wanted, that of the highest mean.",
                    *stops_at(lambda proxy, true: true.argmax(1).double().mean().round()),
                ),
                Mistake(
                    "this is the median over seeds; the mean is asked for.",
                    *stops_at(lambda proxy, true: true.median(0).values.argmax()),
                ),
                Mistake(
                    "you average over the checkpoints; the seeds are the first axis.",
                    lambda proxy, true: where_to_stop(proxy.T, true.T),
                ),
                Mistake(
                    "you stop at the first fall; a noisy curve may rise again to a higher peak.",
                    *stops_at(lambda proxy, true: first_fall(true)),
                ),
                Mistake(
                    "the loss is counted to the last checkpoint; without the true reward you would have stopped where "
                    "the proxy is highest.",
                    loses(lambda proxy, true: true.mean(0).max() - true.mean(0)[-1]),
                ),
                Mistake(
                    "the loss is counted in the proxy's units; what is lost is true reward.",
                    loses(lambda proxy, true: proxy.mean(0).max() - proxy.mean(0)[true.mean(0).argmax()]),
                ),
                Mistake(
                    "the proxy's height and the truth's are compared; what is lost lies between two checkpoints of the "
                    "*true* reward.",
                    loses(lambda proxy, true: proxy.mean(0).max() - true.mean(0).max()),
                    (loses(lambda proxy, true: proxy.mean(0).max() - true.mean(0)[proxy.mean(0).argmax()]),),
                ),
                Mistake(
                    "each run stops at a checkpoint of its own; without the truth too, one is chosen for all, by the "
                    "mean proxy.",
                    loses(lambda p, true: true.mean(0).max() - true.gather(1, p.argmax(1, keepdim=True)).mean()),
                ),
                Mistake(
                    "the loss begins at each run's own best checkpoint; it begins at the highest mean.",
                    loses(lambda proxy, true: true.amax(1).mean() - true.mean(0)[proxy.mean(0).argmax()]),
                ),
                Mistake(
                    "the loss is negative; what is lost is the highest mean less what the proxy's choice has.",
                    loses(lambda proxy, true: true.mean(0)[proxy.mean(0).argmax()] - true.mean(0).max()),
                ),
                Mistake(
                    "the two parts have changed places: first the checkpoint, then the loss.",
                    lambda proxy, true: where_to_stop(proxy, true)[::-1],
                ),
                Mistake(
                    "checkpoints are counted from 0.",
                    lambda proxy, true: (where_to_stop(proxy, true)[0] + 1, where_to_stop(proxy, true)[1]),
                ),
            ),
            "The checkpoint at which the mean over seeds of the true reward is highest, and by how much it is higher "
            "there than where the mean proxy is highest.",
        ),
    )
}
