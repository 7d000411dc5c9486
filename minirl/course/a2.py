"""Assignment 2, GRPO: the questions' right answers, inputs and known mistakes."""

import torch

from minirl import deltas, kl, losses
from minirl.course.questions import Mistake, Question


def rewards():
    """Groups with ties, of other sizes than the one shown, and in float64: [batch group]."""
    shown = torch.tensor([[1.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 1.0]])
    uneven = torch.tensor([[3.0, -1.0, 0.5], [2.0, 2.0, 5.0], [0.25, 7.0, -4.0]])
    tied = torch.tensor([[0.1, 0.1, 0.1, 0.1, 0.1], [1.0, 0.0, 1.0, 3.0, 1.0]])
    precise = torch.tensor([[1.0, 2.0, 4.0, 8.0, 16.0, 3.0]], dtype=torch.float64) / 3
    return [(shown,), (uneven,), (tied,), (precise,)]


def ratios():
    """Log-probs now and when they were sampled, [batch group token]; some ratios are beyond any clip."""
    old = torch.tensor([[[-1.0, -0.5, -2.0], [-0.1, -3.0, -0.7]]])
    now = old + torch.tensor([[[0.0, 0.3, -0.5], [0.1, -0.2, 0.7]]])
    wide = torch.linspace(-2.5, -0.2, 24).view(2, 3, 4)
    return [
        (now, old),
        (wide + torch.linspace(-0.6, 0.6, 24).view(2, 3, 4), wide),
        (now.double() / 3, old.double() / 3),
    ]


def ratios_and_deltas():
    signs = [
        torch.tensor([[1.0, -2.0]]),
        torch.tensor([[0.5, -1.0, 0.0], [-0.25, 3.0, 1.0]]),
        torch.tensor([[-1.0, 2.0]]),
    ]
    return [(now, old, delta.to(now)) for (now, old), delta in zip(ratios(), signs, strict=True)]


def clip_cases():
    """The same with two epsilons that differ."""
    epsilons = [(0.2, 0.2), (0.1, 0.3), (0.2, 0.28)]
    return [(*case, *each) for case, each in zip(ratios_and_deltas(), epsilons, strict=True)]


def masks():
    ragged = torch.tensor([[[1, 1, 1, 0], [1, 0, 0, 0]], [[1, 1, 1, 1], [1, 1, 0, 0]]]).bool()
    empty = torch.tensor([[[1, 1, 0], [0, 0, 0], [1, 1, 1]]]).bool()
    return [(ragged,), (empty,), (torch.ones(1, 2, 5, dtype=torch.bool),)]


def in_place(rewards):
    rewards -= rewards.mean(-1, keepdim=True)
    return rewards


ACROSS = "you compare across prompts, along the batch axis; a response is compared with its own group, along axis −1."
WHOLE = "you compare with the mean of the whole batch; each group has its own."

QUESTIONS = {
    question.id: question
    for question in (
        Question(
            "a2.q1a",
            "centred deltas",
            2,
            deltas.centered,
            rewards,
            (
                Mistake(ACROSS, lambda r: r - r.mean(0, keepdim=True)),
                Mistake(WHOLE, lambda r: r - r.mean()),
                Mistake(
                    "the sign is turned round: a better response should get a larger delta.",
                    lambda r: r.mean(-1, keepdim=True) - r,
                ),
                Mistake(
                    "you return the baseline itself; the delta is what is left of the reward without it.",
                    lambda r: r.mean(-1, keepdim=True).expand_as(r),
                ),
                Mistake(
                    "you change the rewards in place, so whoever uses them next finds deltas; work on a copy.", in_place
                ),
                Mistake(
                    "you subtract the group's median, not its mean.", lambda r: r - r.median(-1, keepdim=True).values
                ),
                Mistake(
                    "you lost the group axis: keepdim=True keeps it for the subtraction.",
                    lambda r: (r - r.mean(-1, keepdim=True)).mean(-1),
                ),
            ),
            "Subtract from each reward the mean of its own group, which is the last axis.",
            (deltas.centered, deltas.leave_one_out, deltas.normalized),
        ),
        Question(
            "a2.q1b",
            "leave-one-out deltas",
            2,
            deltas.leave_one_out,
            rewards,
            (
                Mistake(
                    "a response is still in its own baseline: this is the centred delta, too small by (G−1)/G.",
                    deltas.centered,
                ),
                Mistake(
                    "the factor is upside down: G/(G−1) makes a delta larger.",
                    lambda r: (r - r.mean(-1, keepdim=True)) * (r.shape[-1] - 1) / r.shape[-1],
                ),
                Mistake(
                    "you divide the sum of the others by G; there are G−1 of them.",
                    lambda r: r - (r.sum(-1, keepdim=True) - r) / r.shape[-1],
                ),
                Mistake(
                    "you count prompts (the first axis) where you should count responses.",
                    lambda r: (r - r.mean(-1, keepdim=True)) * r.shape[0] / max(r.shape[0] - 1, 1),
                ),
                Mistake(
                    "the sign is turned round: a better response should get a larger delta.",
                    lambda r: -deltas.leave_one_out(r),
                ),
            ),
            "The baseline of a response is the mean of the other rewards in its group.",
            (deltas.centered, deltas.leave_one_out, deltas.normalized),
        ),
        Question(
            "a2.q1c",
            "normalised deltas",
            2,
            deltas.normalized,
            rewards,
            (
                Mistake(
                    "you divide by the biased std (over G); the unbiased one divides by G−1, as torch does by default.",
                    lambda r: (r - r.mean(-1, keepdim=True)) / (r.std(-1, keepdim=True, unbiased=False) + 1e-6),
                ),
                Mistake(
                    "you divide by the std of the whole batch; each group has its own.",
                    lambda r: (r - r.mean(-1, keepdim=True)) / (r.std() + 1e-6),
                ),
                Mistake(
                    "you divide by the variance, not by its root.",
                    lambda r: (r - r.mean(-1, keepdim=True)) / (r.var(-1, keepdim=True) + 1e-6),
                ),
                Mistake("the mean is not subtracted.", lambda r: r / (r.std(-1, keepdim=True) + 1e-6)),
                Mistake(
                    "a tied group gives nan: its std is 0, which is what ε in the denominator is for.",
                    lambda r: (r - r.mean(-1, keepdim=True)) / r.std(-1, keepdim=True),
                ),
                Mistake(ACROSS, lambda r: (r - r.mean(0, keepdim=True)) / (r.std(0, keepdim=True) + 1e-6)),
                Mistake("you divide by nothing: these are the centred deltas.", deltas.centered),
            ),
            "Centre the rewards of a group, then divide by its standard deviation plus 1e-6.",
            (deltas.centered, deltas.leave_one_out, deltas.normalized),
            tolerance=1e-5,
        ),
        Question(
            "a2.q2",
            "the frozen ratio",
            3,
            losses.probability_ratio,
            ratios,
            (
                Mistake(
                    "you divided log-probs; the ratio is exp of their difference.", lambda now, old: now / old.detach()
                ),
                Mistake(
                    "the old log-probs are left in the graph: for one and the same policy gradients cancel. Detach.",
                    lambda now, old: (now - old).exp(),
                ),
                Mistake("this is the difference of the logs; exp is missing.", lambda now, old: now - old.detach()),
                Mistake(
                    "the ratio is upside down: the new policy stands above the old one.",
                    lambda now, old: (old.detach() - now).exp(),
                ),
                Mistake(
                    "you detached the new log-probs too, so nothing has a gradient.",
                    lambda now, old: (now - old).exp().detach(),
                ),
                Mistake(
                    "you detached the wrong one: the new policy is what learns.",
                    lambda now, old: (now.detach() - old).exp(),
                ),
            ),
            "Log-probs are logs: a ratio of probabilities is exp of a difference. The old policy is frozen.",
            (losses.probability_ratio,),
            gradients=(0, 1),
        ),
        Question(
            "a2.q3",
            "the clipped loss",
            4,
            losses.clipped,
            clip_cases,
            (
                Mistake(
                    "you took the larger where the smaller belongs: the gradient is kept where it must be cut.",
                    lambda now, old, d, low, high: (
                        -torch.maximum(
                            (now - old).exp() * d[..., None], (now - old).exp().clamp(1 - low, 1 + high) * d[..., None]
                        )
                    ),
                ),
                Mistake(
                    "without the minimum, a policy that went the wrong way gets no gradient back.",
                    lambda now, old, d, low, high: -(now - old).exp().clamp(1 - low, 1 + high) * d[..., None],
                ),
                Mistake(
                    "the sign is missing: a loss goes down when the objective goes up.",
                    lambda now, old, d, low, high: -losses.clipped(now, old, d, low, high),
                ),
                Mistake(
                    "the two epsilons are swapped: the first bounds the ratio from below.",
                    lambda now, old, d, low, high: losses.clipped(now, old, d, high, low),
                ),
                Mistake(
                    "one epsilon serves both sides; there are two.",
                    lambda now, old, d, low, high: losses.clipped(now, old, d, low, low),
                ),
                Mistake(
                    "you clip the product, not the ratio.",
                    lambda now, old, d, low, high: (
                        -torch.minimum(
                            (now - old).exp() * d[..., None],
                            ((now - old).exp() * d[..., None]).clamp(1 - low, 1 + high),
                        )
                    ),
                ),
                Mistake(
                    "nothing is clipped.",
                    lambda now, old, d, low, high: losses.unclipped(now, old, d),
                ),
            ),
            "−min(ρδ, clip(ρ, 1−ε_low, 1+ε_high)·δ), token by token; a response's delta goes to each of its tokens.",
            (losses.clipped, losses.unclipped, losses.probability_ratio),
            gradients=(0,),
        ),
        Question(
            "a2.q4a",
            "k1",
            1,
            kl.k1,
            ratios,
            (
                Mistake(
                    "the sign is turned round: −log(π_ref/π) is log π − log π_ref. This would pay for drifting.",
                    lambda now, ref: ref - now,
                ),
                Mistake("this is the ratio; k1 is the difference of the logs.", lambda now, ref: (now - ref).exp()),
                Mistake(
                    "a divergence can be negative on a sample: there is no absolute value in k1.",
                    lambda now, ref: (now - ref).abs(),
                ),
                Mistake(
                    "this clamps at 0, which makes it biased: on a sample k1 may be negative.",
                    lambda now, ref: (now - ref).clamp(min=0),
                ),
            ),
            "−log r with r = π_ref/π.",
            (kl.k1, kl.k2, kl.k3),
        ),
        Question(
            "a2.q4b",
            "k3",
            2,
            kl.k3,
            ratios,
            (
                Mistake("r is upside down: here it is π_ref/π.", lambda now, ref: (now - ref).exp() - 1 - (now - ref)),
                Mistake("this is k2, half the square of the log-ratio.", kl.k2),
                Mistake("this is k1.", kl.k1),
                Mistake(
                    "the −1 is missing, so that equal policies would have a divergence of 1.",
                    lambda now, ref: (ref - now).exp() - (ref - now),
                ),
                Mistake("the sign of log r is turned round.", lambda now, ref: (ref - now).exp() - 1 + (ref - now)),
            ),
            "r − 1 − log r with r = π_ref/π, never negative.",
            (kl.k1, kl.k2, kl.k3),
        ),
        Question(
            "a2.q5",
            "token weights",
            4,
            lambda mask: losses.token_weights(mask, "sequence"),
            masks,
            (
                Mistake(
                    "you divide by the number of positions, padding included; count the tokens inside the mask.",
                    lambda m: m / (m.shape[0] * m.shape[1] * m.shape[2]),
                ),
                Mistake(
                    "every token counts the same here; under a sequence mean every response does.",
                    lambda m: m / m.sum(),
                ),
                Mistake(
                    "the number of responses does not divide: the sum of the weights should be 1, not B·G.",
                    lambda m: m / m.sum(-1, keepdim=True).clamp(min=1),
                ),
                Mistake(
                    "the padding has weight: multiply by the mask.",
                    lambda m: (1 / (m.sum(-1, keepdim=True).clamp(min=1) * m.shape[0] * m.shape[1])).expand(m.shape),
                ),
                Mistake(
                    "a response without tokens gives nan: guard the division.",
                    lambda m: m / (m.sum(-1, keepdim=True) * m.shape[0] * m.shape[1]),
                ),
                Mistake(
                    "you divide by the number of prompts only; there are B·G responses.",
                    lambda m: m / (m.sum(-1, keepdim=True).clamp(min=1) * m.shape[0]),
                ),
                Mistake(
                    "you divide by the size of the group only; there are B·G responses.",
                    lambda m: m / (m.sum(-1, keepdim=True).clamp(min=1) * m.shape[1]),
                ),
            ),
            "1/(B·G·length of the response) inside the mask, 0 outside.",
            (losses.token_weights,),
        ),
    )
}
