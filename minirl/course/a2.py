"""Assignment 2, GRPO: the questions' right answers, inputs and known mistakes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import process_time

import torch

from minirl import Config, Rollout, SortingPolicy, SortingTask, deltas, kl, losses, sorting
from minirl.course.questions import Mistake, Question
from minirl.losses import token_weights
from minirl.policy import ScoredByLogits
from minirl.train import learn, train, update


def rewards():
    """Groups with ties, of other sizes than the one shown, and in float64: [batch group]."""
    shown = torch.tensor([[1.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 1.0]])
    uneven = torch.tensor([[3.0, -1.0, 0.5], [2.0, 2.0, 5.0], [0.25, 7.0, -4.0]])
    tied = torch.tensor([[0.1, 0.1, 0.1, 0.1, 0.1], [1.0, 0.0, 1.0, 3.0, 1.0]])
    precise = torch.tensor([[1.0, 2.0, 4.0, 8.0, 16.0, 3.0]], dtype=torch.float64) / 3
    near = torch.tensor([[1.0, 3.0, 2.0, 2.5]], dtype=torch.float64) / 10_000  # here an epsilon counts
    return [(shown,), (uneven,), (tied,), (precise,), (near,)]


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
    old, now = torch.tensor([[[-1.0, -0.5], [-2.0, -0.3]]]), torch.tensor([[[-0.5, -1.0], [-1.6, -0.4]]])
    square = now, old, torch.tensor([[1.0, -2.0]]), 0.1, 0.3  # as many responses as tokens: a wrong axis fits as well
    return [*((*case, *each) for case, each in zip(ratios_and_deltas(), epsilons, strict=True)), square]


def smaller(ratio, low, high, deltas):
    """The clipped loss of any ratio, bounds and deltas."""
    return -torch.minimum(ratio * deltas, ratio.clamp(low, high) * deltas)


def whole_response(now, old):
    return (now - old.detach()).sum(-1, keepdim=True).exp().expand_as(now)


def turned_round(mask):
    lengths = mask.sum(-1, keepdim=True).clamp(min=1)
    return ~mask / (lengths * mask.shape[0] * mask.shape[1])


def masks():
    ragged = torch.tensor([[[1, 1, 1, 0], [1, 0, 0, 0]], [[1, 1, 1, 1], [1, 1, 0, 0]]]).bool()
    empty = torch.tensor([[[1, 1, 0], [0, 0, 0], [1, 1, 1]]]).bool()
    return [(ragged,), (empty,), (torch.ones(1, 2, 5, dtype=torch.bool),)]


def in_place(rewards):
    rewards -= rewards.mean(-1, keepdim=True)
    return rewards


def no_tokens():
    return [*masks(), (torch.zeros(1, 2, 3, dtype=torch.bool),)]


def masks_and_constants():
    return [(mask, constant) for (mask,), constant in zip(masks(), (4.0, 7.0, 2.0), strict=True)]


def top_of_the_group():
    """Also groups whose best reward is tied, 0, or below 0."""
    shown = torch.tensor([[1.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 3.0]])
    below = torch.tensor([[-3.0, -1.0, -2.0], [2.0, 2.0, 5.0], [0.0, -4.0, 0.0]])
    tied = torch.tensor([[0.5, 0.5], [1.0, 4.0], [4.0, -1.0], [0.0, 0.25]]).double()
    return [(shown,), (below,), (tied,)]


def first_best(rewards):
    return rewards * torch.nn.functional.one_hot(rewards.argmax(-1), rewards.shape[-1]).to(rewards)


def logits_of_two():
    """Logits of the policy and of the reference over all tokens [vocab], and an estimator."""
    now, ref = torch.tensor([1.0, 0.0, -0.5]), torch.tensor([0.2, 0.4, 0.0])
    wide = torch.tensor([0.3, -1.2, 2.0, 0.7, -0.4]).double()
    return [(now, ref, kl.k2), (now, ref, kl.k1), (now - 0.7, ref + 2.0, kl.k3), (wide, wide.flip(0) / 2, kl.k3)]


def expected_gradient(logits, ref_logits, estimator, weights: Callable = lambda log_p, log_q: log_p.detach().exp()):
    """The mean gradient of an estimator that is used as a loss, over all tokens with their probabilities: [vocab]."""
    logits = logits.detach().requires_grad_()
    log_p, log_q = logits.log_softmax(-1), ref_logits.log_softmax(-1)
    loss = (weights(log_p, log_q) * estimator(log_p, log_q)).sum()
    return torch.autograd.grad(loss, logits)[0]


def without_softmax(logits, ref_logits, estimator):
    logits = logits.detach().requires_grad_()
    log_p = logits.log_softmax(-1)
    return torch.autograd.grad((log_p.detach().exp() * estimator(log_p, ref_logits)).sum(), logits)[0]


def by_hand(logits, loss: Callable):
    logits = logits.detach().requires_grad_()
    return torch.autograd.grad(loss(logits), logits)[0]


def toward_the_reference(logits, ref_logits, estimator):
    log_p = logits.log_softmax(-1)
    return by_hand(ref_logits, lambda z: (log_p.exp() * estimator(log_p, z.log_softmax(-1))).sum())


def toward_the_logs(logits, ref_logits, estimator):
    log_p = logits.log_softmax(-1).detach().requires_grad_()
    loss = (log_p.detach().exp() * estimator(log_p, ref_logits.log_softmax(-1))).sum()
    return torch.autograd.grad(loss, log_p)[0]


REVERSE, FORWARD, NOTHING = "KL(policy, reference)", "KL(reference, policy)", "nothing"
GRADIENTS = {"k1": NOTHING, "k2": REVERSE, "k3": FORWARD}
GRADIENT_MISTAKES = {
    "that all three estimate KL(policy, reference), well or badly, says nothing about their gradients.": {
        "k1": REVERSE,
        "k2": REVERSE,
        "k3": REVERSE,
    },
    "k2 and k3 are exchanged: that k3 is the better value does not make it the better loss.": {
        "k2": FORWARD,
        "k3": REVERSE,
    },
    "k1 is an honest value, but as a loss it is worth nothing: its gradient is the score, whose mean is 0.": {
        "k1": REVERSE
    },
    "k1 follows neither divergence: its gradient is the score, whose mean is 0.": {"k1": FORWARD},
    "k2 is biased as a value, and yet it has a gradient: half a square, so the log-ratio times the score.": {
        "k2": NOTHING
    },
    "k3 looks in the other direction: its gradient weights the scores by π_ref/π, so it follows the reference.": {
        "k3": REVERSE
    },
    "k3 does push: its gradient is 1 − r times the score, and that does not vanish on average.": {"k3": NOTHING},
}
SILENT, BALANCED, SCALE_FREE, UNBIASED = "silent on ties", "adds up to 0", "scale-free", "unbiased"
FACTS = {
    "raw": {UNBIASED},
    "max_only": set(),
    "centered": {SILENT, BALANCED},
    "leave_one_out": {SILENT, BALANCED, UNBIASED},
    "normalized": {SILENT, BALANCED, SCALE_FREE},
}
FACT_MISTAKES = {
    "centred deltas are not unbiased: each response is in its own baseline, and the gradient shrinks by (G−1)/G.": {
        "centered": {SILENT, BALANCED, UNBIASED}
    },
    "max-only is not silent on ties: where all are equal, all are the best, and all are pushed.": {
        "max_only": {SILENT}
    },
    "raw deltas are not silent on ties: equal rewards above 0 still push every response up.": {
        "raw": {SILENT, UNBIASED}
    },
    "leave-one-out deltas add up to 0 as well: they are the centred ones, times G/(G−1).": {
        "leave_one_out": {SILENT, UNBIASED}
    },
    "raw deltas are unbiased: noisy, but right on average.": {"raw": set()},
    "only one delta is scale-free: to center is to subtract, and what is left is ten times as large for rewards ten "
    "times as large.": {
        "centered": {SILENT, BALANCED, SCALE_FREE},
        "leave_one_out": FACTS["leave_one_out"] | {SCALE_FREE},
    },
    "centred deltas are not scale-free: differences of rewards ten times as large are ten times as large.": {
        "centered": {SILENT, BALANCED, SCALE_FREE}
    },
    "leave-one-out is unbiased: no response is in its own baseline.": {"leave_one_out": {SILENT, BALANCED}},
    "max-only is not scale-free: the best reward is kept as it is, ten times as large where all are.": {
        "max_only": {SCALE_FREE}
    },
    "normalised deltas are silent on ties: 0 stands above, and ε below keeps it from being 0/0.": {
        "normalized": {BALANCED, SCALE_FREE}
    },
    "normalised deltas add up to 0: to divide all of a group by one number does not change that.": {
        "normalized": {SILENT, SCALE_FREE}
    },
    "normalised deltas are not unbiased: the std that divides them differs from group to group.": {
        "normalized": {SILENT, BALANCED, SCALE_FREE, UNBIASED}
    },
    "max-only is biased: it learns from the best of a group, which is more than an average one.": {
        "max_only": {UNBIASED}
    },
}


def named_facts(answer) -> str | None:
    """Of an answer that names the properties of each delta."""
    given = answer()
    if not isinstance(given, dict) or set(given) != set(FACTS):
        return f"return a dictionary with the keys {', '.join(FACTS)}."
    given = {name: set(facts) for name, facts in given.items()}
    if unknown := set().union(*given.values()) - {SILENT, BALANCED, SCALE_FREE, UNBIASED}:
        return f"{sorted(map(str, unknown))[0]!r} is none of the four properties."
    for sentence, told in FACT_MISTAKES.items():
        if all(given[name] == facts for name, facts in told.items()):
            return sentence
    for name, facts in FACTS.items():
        if given[name] != facts:
            return f"not these properties for {name}. Try a tied group, and one with rewards ten times as large."
    return None


def named_gradients(answer) -> str | None:
    """Of an answer that says what each estimator's gradient is, where it is used as a loss."""
    given = answer()
    if not isinstance(given, dict) or set(given) != set(GRADIENTS):
        return f"return a dictionary with the keys {', '.join(GRADIENTS)}."
    if unknown := [name for name in given.values() if name not in (NOTHING, REVERSE, FORWARD)]:
        return f"{unknown[0]!r} is none of {NOTHING!r}, {REVERSE!r} and {FORWARD!r}."
    for sentence, told in GRADIENT_MISTAKES.items():
        if all(given[name] == gradient for name, gradient in told.items()):
            return sentence
    for name, gradient in GRADIENTS.items():
        if given[name] != gradient:
            return f"not so for {name}. Compute it, with the function of the last question."
    return None


def steps():
    """A seed, a learning rate, and a rollout: prompts, responses, mask, rewards."""
    torch.optim.SGD([torch.zeros(1, requires_grad=True)]).step()  # imports a lot, which is slow while calls are watched
    prompts = torch.tensor([[1, 0, 2], [3, 2, 1]])
    responses = torch.tensor([[[0, 1, 2], [1, 0, 2], [2, 2, 0]], [[1, 2, 3], [3, 3, 3], [0, 2, 3]]])
    whole = torch.ones(2, 3, 3, dtype=torch.bool)
    rewards = torch.tensor([[3.0, 1.0, 0.0], [3.0, 1.0, 2.0]]).double()
    ragged = torch.tensor([[[1, 1, 0], [1, 0, 0], [1, 1, 1]], [[1, 1, 1], [1, 1, 0], [1, 0, 0]]]).bool()
    return [
        (0, 0.004, prompts, responses, whole, rewards),
        (1, 0.0015, prompts.flip(0), responses.flip(1), ragged, rewards.flip(1) * 2 - 1),
    ]


def small_run(seed, learning_rate, prompts, responses, mask, rewards):
    """A small policy, a rollout of it, and its optimizer."""
    policy = SortingPolicy(vocab_size=4, length=3, dim=4, init_scale=0.5, seed=seed).double()
    old = policy.log_probs(prompts, responses, mask).detach()
    rollout = Rollout(prompts, responses, mask, rewards, old)
    return policy, rollout, torch.optim.SGD(policy.parameters(), lr=learning_rate)


def stepped(answer, *inputs):
    """The weights of a small policy after one step and after ten on the same rollout, each laid end to end."""
    (policy, rollout, optimizer), found = small_run(*inputs), []
    for _ in range(10):
        answer(policy, rollout, optimizer)
        found.append(torch.cat([weight.detach().flatten().clone() for weight in policy.parameters()]))
    return found[0], found[-1]


def settled(rollout):
    return deltas.normalized(rollout.rewards), token_weights(rollout.mask)


def training_step(policy, rollout, optimizer, objective: Callable | None = None, clear: bool = True, high=0.28):
    """One step on the clipped loss with normalised deltas and a mean over responses."""
    pushes, weights = settled(rollout)
    now = policy.log_probs(rollout.prompts, rollout.responses, rollout.mask)
    if objective is None:
        loss = (losses.clipped(now, rollout.old_log_probs, pushes, 0.2, high) * weights).sum()
    else:
        loss = objective(now, rollout, pushes, weights)
    if clear:
        optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def with_objective(objective: Callable):
    return lambda policy, rollout, optimizer: training_step(policy, rollout, optimizer, objective)


def clipped_with(now, rollout, pushes, old=None):
    return losses.clipped(now, rollout.old_log_probs if old is None else old, pushes, 0.2, 0.28)


SAYS_NOTHING = "the step is right, but it returns nothing; return the loss, as a float."
WITH_ITS_GRAPH = (
    "the step is right, but it returns a tensor, which may keep its whole graph alive; loss.item() is a float."
)


def told_loss(answer) -> str | None:
    """Of a right step: whether it returns its loss as a float."""
    inputs = steps()[1]
    policy, rollout, _ = small_run(*inputs)
    pushes, weights = settled(rollout)
    now = policy.log_probs(rollout.prompts, rollout.responses, rollout.mask)
    expected = (clipped_with(now, rollout, pushes) * weights).sum().item()
    loss = answer(*small_run(*inputs))
    if loss is None:
        return SAYS_NOTHING
    if isinstance(loss, torch.Tensor):
        return WITH_ITS_GRAPH
    if not isinstance(loss, float) or abs(loss - expected) > 1e-5:
        return "the step is right, but what it returns is not the loss that it went down."
    return None


TASK = {"vocab_size": 8, "length": 3, "held_out": 0.2}
ENOUGH, SECONDS = 0.95, 30.0  # the right answer takes about three, on a busy machine up to ten
NO_POLICY = "return the policy that you trained."
UNTRAINED = "your policy still answers almost at random: it has hardly learned."
REVERSED = "your policy has fewer right places than chance: it learns the wrong way round. Look for a sign."
CHEATS = (
    "where a prompt has a number twice, many of your policy's answers are wrong with full marks for inclusion and "
    "ordering; if that is your reward, mind its loophole and train on another."
)
STUCK = (
    "your policy is sure of itself and wrong: it has seen too few different prompts to find the rule, or a learning "
    "rate that is far too high has thrown it there."
)
HALF = (
    "your policy has stopped half-way: deltas that push mediocre responses up as well, or a start that is nearly "
    "deterministic, keep it there."
)
SEEDLESS = (
    "two seeds give the very same policy: the seed is for its start and for the samples, and weights are learned."
)
PEEKED = "you train on the held-out prompts; they are for the check, so take the prompts that task.sample gives."
TAUGHT = (
    "your policy never answers while it learns: you show it the right answers. Here it samples, and learns by reward."
)
ALMOST = (
    "your policy is nearly there: more prompts in a batch, more epochs, a lower learning rate at the end, or a start "
    "that is closer to uniform (init_scale=0.1)."
)


def split(seed: int = 3, reward=sorting.position_match, held_out: float = TASK["held_out"]) -> SortingTask:
    """Question 7's task: 8 numbers, length 3, a fifth of the prompts held out."""
    return SortingTask(reward, **TASK | {"held_out": held_out}, seed=seed)


@contextmanager
def overheard() -> Iterator[tuple[set, list]]:
    """Which prompts any sorting policy learns from meanwhile, and how many responses to a prompt it is asked for."""
    learned, asked, own = set(), [], (ScoredByLogits.log_probs, SortingPolicy.sample)

    def log_probs(self, prompts, responses, mask):
        if torch.is_grad_enabled():
            learned.update(map(tuple, prompts.tolist()))
        return own[0](self, prompts, responses, mask)

    def sample(self, prompts, group_size, generator=None):
        asked.append(group_size)
        return own[1](self, prompts, group_size, generator)

    ScoredByLogits.log_probs, SortingPolicy.sample = log_probs, sample
    try:
        yield learned, asked
    finally:
        ScoredByLogits.log_probs, SortingPolicy.sample = own


def trained_well(answer, seeds: tuple[int, int] = (0, 1), seconds: float = SECONDS) -> str | None:
    """Train from two seeds with a student's function; what a policy does with held-out prompts says what went wrong."""
    found, prompts = [], split().held_out().prompts
    for seed in seeds:
        start = process_time()
        with overheard() as (learned, asked):
            policy = answer(seed)
        took = process_time() - start
        if not (hasattr(policy, "greedy") and hasattr(policy, "entropy")):
            return NO_POLICY
        if took > seconds:
            spent = f"your training took {took:.0f} s of processor time"
            return f"{spent}; expected at most {seconds:.0f} s, and a few are enough."
        found.append((sorting.exact_match(prompts, policy.greedy(prompts)[0]).mean().item(), policy))
        if found[-1][0] < ENOUGH - 0.1:
            return diagnosis(policy, prompts)
    (one, first), (other, second) = found
    if all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True)):
        return SEEDLESS
    if (one + other) / 2 < ENOUGH:
        return diagnosis(first if one < other else second, prompts)
    if learned & set(map(tuple, prompts.tolist())):
        return PEEKED
    return TAUGHT if learned and not asked else None


def diagnosis(policy, prompts) -> str:
    """What is wrong with a policy that does not sort well enough."""
    with torch.no_grad():
        responses, mask = policy.greedy(prompts)
        doubt = policy.entropy(prompts, responses, mask).mean() / torch.tensor(TASK["vocab_size"]).log()
    right, places = sorting.exact_match(prompts, responses), sorting.position_match(prompts, responses)
    repeated = (prompts.sort(-1).values.diff(dim=-1) == 0).any(-1)  # the others have no loophole
    exact, full = right.mean(), sorting.inclusion_ordering(prompts, responses) == 2 * TASK["length"] - 1
    faults = {
        REVERSED: places.mean() < 0.5 * TASK["length"] / TASK["vocab_size"],
        UNTRAINED: exact < 0.2 and doubt > 0.5,
        STUCK: exact < 0.2,
        CHEATS: full[right == 0].sum() > max(0.28 * repeated.sum(), 0.4 * (right == 0).sum()),
        HALF: exact < 0.65,
        ALMOST: True,
    }
    sentence = next(sentence for sentence, there in faults.items() if there)
    return f"{sentence} It sorts {exact:.0%} of the held-out prompts; {ENOUGH:.0%} are asked for."


def train_sorter(seed, task=None, phases=((200, 3e-3), (60, 3e-4)), delta="normalized", init_scale=0.1, batch_size=256):
    """A policy trained in phases of (epochs, learning rate)."""
    task = task or split()
    policy = SortingPolicy(TASK["vocab_size"], TASK["length"], dim=32, init_scale=init_scale, seed=seed)
    for epochs, learning_rate in phases:
        batch = min(batch_size, len(task.train_prompts))
        settings = {"delta": delta, "learning_rate": learning_rate, "evaluate_every": epochs + 1, "seed": seed}
        for _ in train(policy, task, Config(epochs=epochs, batch_size=batch, group_size=8, **settings)):
            pass
    return policy


def set_by_hand(seed):
    """A sorter without any learning: the number at place t has the least pinball loss."""
    size, length = TASK["vocab_size"], TASK["length"]
    tau = (torch.arange(length)[:, None, None] + 0.5) / length
    gap = torch.arange(size)[:, None] - torch.arange(size)
    weights = {"embedding": torch.eye(size), "encode": torch.eye(size).repeat(length, 1, 1)}
    policy = SortingPolicy(size, length, dim=size)
    policy.load_state_dict(weights | {"decode": -torch.maximum(tau * gap, (tau - 1) * gap)})
    return policy


def taught(seed):
    """A sorter that has been shown the sorted prompts, and never had to answer."""
    policy, prompts = SortingPolicy(TASK["vocab_size"], TASK["length"], dim=32, seed=seed), split().train_prompts
    answers, optimizer = prompts.sort(-1).values[:, None], torch.optim.Adam(policy.parameters(), lr=5e-3)
    for _ in range(400):
        optimizer.zero_grad()
        (-policy.log_probs(prompts, answers, torch.ones_like(answers, dtype=torch.bool)).mean()).backward()
        optimizer.step()
    return policy


def few_prompts() -> SortingTask:
    return SortingTask(prompts=split().train_prompts[:6])


def punished() -> SortingTask:
    return split(reward=lambda prompts, responses: -sorting.position_match(prompts, responses))


ACROSS = "you compare across prompts, along the batch axis; a response is compared with its own group, along axis −1."
LOST = "you lost the group axis: keepdim=True keeps it for the subtraction."
WEIGHTED = "you weight by the probability; sampled tokens come as often as they should, so no weight is needed."
ALL_ZERO = "all weights are 0; whole numbers divided with // leave nothing below 1, so use /."
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
                Mistake(LOST, lambda r: r - r.mean(-1)),
                Mistake("you subtract the group's best reward, not its mean.", lambda r: r - r.amax(-1, keepdim=True)),
                Mistake("you divide by the std as well; that is two questions ahead.", deltas.normalized),
                Mistake("you leave the response itself out; that is the next question.", deltas.leave_one_out),
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
                    lambda r: r - (r.sum(-1, keepdim=True) - r) / (r.shape[0] - 1),
                ),
                Mistake(
                    "the sign is turned round: a better response should get a larger delta.",
                    lambda r: -deltas.leave_one_out(r),
                ),
                Mistake(
                    "you divide by G−1, and the response's own reward is still in the sum.",
                    lambda r: r - r.sum(-1, keepdim=True) / (r.shape[-1] - 1),
                ),
                Mistake(ACROSS, lambda r: r - (r.sum(0) - r) / (r.shape[0] - 1)),
                Mistake("you return the baseline; subtract it.", lambda r: r - deltas.leave_one_out(r)),
                Mistake(LOST, lambda r: r - (r.sum(-1) - r) / (r.shape[-1] - 1)),
                Mistake(
                    "you compare with all other responses of the batch; those of the same group are meant.",
                    lambda r: r - (r.sum() - r) / (r.numel() - 1),
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
                Mistake(
                    "ε stands under the root; it is added to the root.",
                    lambda r: (r - r.mean(-1, keepdim=True)) / (r.var(-1, keepdim=True) + 1e-6).sqrt(),
                ),
                Mistake(
                    "ε is 1e-6, not 1e-8; where rewards are nearly equal, that counts.",
                    lambda r: (r - r.mean(-1, keepdim=True)) / (r.std(-1, keepdim=True) + 1e-8),
                ),
                Mistake(
                    "ε stands outside of the fraction, where it guards nothing: put brackets around std + ε.",
                    lambda r: (r - r.mean(-1, keepdim=True)) / r.std(-1, keepdim=True) + 1e-6,
                ),
                Mistake(
                    "mean and std are those of the whole batch; each group has its own.",
                    lambda r: (r - r.mean()) / (r.std() + 1e-6),
                ),
                Mistake(
                    "you leave the response out of its own mean; here the mean is that of the whole group.",
                    lambda r: deltas.leave_one_out(r) / (r.std(-1, keepdim=True) + 1e-6),
                ),
                Mistake(
                    "you multiply by the std; divide by it.",
                    lambda r: (r - r.mean(-1, keepdim=True)) * (r.std(-1, keepdim=True) + 1e-6),
                ),
                Mistake(LOST, lambda r: (r - r.mean(-1)) / (r.std(-1) + 1e-6)),
            ),
            "Centre the rewards of a group, then divide by its standard deviation plus 1e-6.",
            (deltas.centered, deltas.leave_one_out, deltas.normalized),
            tolerance=1e-5,
        ),
        Question(
            "a2.q1d",
            "max-only deltas",
            2,
            deltas.max_only,
            top_of_the_group,
            (
                Mistake("of several best ones you keep only the first; a tie keeps them all.", first_best),
                Mistake(
                    "the best of the whole batch is not the best of each group.",
                    lambda r: torch.where(r == r.max(), r, 0),
                ),
                Mistake(
                    "you ask along the batch axis; a response competes within its own group, along axis −1.",
                    lambda r: torch.where(r == r.amax(0), r, 0),
                ),
                Mistake(
                    "the best response keeps its reward, not a 1.", lambda r: (r == r.amax(-1, keepdim=True)).to(r)
                ),
                Mistake("you keep the worst.", lambda r: torch.where(r == r.amin(-1, keepdim=True), r, 0)),
                Mistake(
                    "you subtract the best reward, so that the best response is pushed nowhere.",
                    lambda r: r - r.amax(-1, keepdim=True),
                ),
                Mistake("every response has the best one's reward.", lambda r: r.amax(-1, keepdim=True).expand_as(r)),
                Mistake(
                    "these are centred: max-only has no baseline.",
                    lambda r: deltas.max_only(r) - deltas.max_only(r).mean(-1, keepdim=True),
                ),
                Mistake(
                    "the best ones share the reward; each of them keeps all of it.",
                    lambda r: deltas.max_only(r) / (r == r.amax(-1, keepdim=True)).sum(-1, keepdim=True),
                ),
                Mistake(
                    "a best reward below 0 is dropped; the highest stays, whatever its sign.",
                    lambda r: deltas.max_only(r).clamp(min=0),
                ),
                Mistake("this is one number for a group; each response has its delta.", lambda r: r.amax(-1)),
                Mistake(
                    "you centre before you choose; the best response keeps the reward itself.",
                    lambda r: torch.where(r == r.amax(-1, keepdim=True), deltas.centered(r), 0),
                ),
                Mistake(
                    "you keep all that is above the mean; only the highest stays.",
                    lambda r: torch.where(r > r.mean(-1, keepdim=True), r, 0),
                ),
            ),
            "The reward where it is the highest of its group, 0 elsewhere.",
            (deltas.max_only,),
        ),
        Question(
            "a2.q1e",
            "what the five deltas do",
            3,
            lambda: FACTS,
            None,
            tuple(Mistake(says, lambda told=told: FACTS | told) for says, told in FACT_MISTAKES.items()),
            "Try each on a tied group, and on a group whose rewards are multiplied by ten. Unbiased: the expected "
            "gradient is the policy gradient, not a shorter one.",
            look=named_facts,
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
                Mistake("this is the ratio of whole responses; each token has its own.", whole_response),
                Mistake(
                    "you clip already; that is the next question.", lambda now, old: (now - old).exp().clamp(0.8, 1.2)
                ),
                Mistake("you subtract the probabilities; divide them.", lambda now, old: now.exp() - old.exp()),
                Mistake(
                    "the ratio is always 1: what stands below is π_old, which is passed to you, not π detached.",
                    lambda now, old: (now - now.detach()).exp(),
                ),
                Mistake("this is the probability of now; divide it by the old one.", lambda now, old: now.exp()),
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
                Mistake(
                    "the old log-probs are left in the graph; they are frozen here too.",
                    lambda now, old, d, low, high: smaller((now - old).exp(), 1 - low, 1 + high, d[..., None]),
                ),
                Mistake(
                    "the deltas lie along the token axis; give them a new last axis, so that each goes to all tokens "
                    "of its own response.",
                    lambda now, old, d, low, high: smaller((now - old).exp(), 1 - low, 1 + high, d[:, None]),
                ),
                Mistake(
                    "you clip at 0.2 whatever is passed; the two epsilons are arguments.",
                    lambda now, old, d, low, high: losses.clipped(now, old, d, 0.2, 0.2),
                ),
                Mistake(
                    "your bounds lie around 0; a ratio lies around 1, so they are 1 − ε_low and 1 + ε_high.",
                    lambda now, old, d, low, high: smaller((now - old).exp(), -low, high, d[..., None]),
                    (lambda now, old, d, low, high: smaller((now - old).exp(), low, high, d[..., None]),),
                ),
                Mistake(
                    "you clip the log of the ratio; clip the ratio itself.",
                    lambda now, old, d, low, high: (
                        -torch.minimum(
                            (now - old).exp() * d[..., None], (now - old).clamp(-low, high).exp() * d[..., None]
                        )
                    ),
                ),
                Mistake(
                    "you take the minimum before the deltas multiply; a negative delta turns it round.",
                    lambda now, old, d, low, high: -(now - old).exp().clamp(max=1 + high) * d[..., None],
                ),
                Mistake(
                    "this has the difference of the logs for a ratio; exp is missing.",
                    lambda now, old, d, low, high: smaller(now - old, 1 - low, 1 + high, d[..., None]),
                ),
                Mistake(
                    "you divided log-probs; the ratio is exp of their difference.",
                    lambda now, old, d, low, high: smaller(now / old, 1 - low, 1 + high, d[..., None]),
                ),
                Mistake(
                    "the ratio is upside down: the new policy stands above the old one.",
                    lambda now, old, d, low, high: smaller((old - now).exp(), 1 - low, 1 + high, d[..., None]),
                ),
            ),
            "−min(ρδ, clip(ρ, 1−ε_low, 1+ε_high)·δ), token by token; a response's delta goes to each of its tokens.",
            (losses.clipped, losses.unclipped, losses.probability_ratio),
            gradients=(0, 1),
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
                Mistake("this is r; its log is asked for, with a minus.", lambda now, ref: (ref - now).exp()),
                Mistake("this is −r; the log is missing.", lambda now, ref: -(ref - now).exp()),
                Mistake(WEIGHTED, lambda now, ref: now.exp() * (now - ref)),
            ),
            "−log r with r = π_ref/π.",
            (kl.k1, kl.k2, kl.k3),
            gradients=(0,),
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
                Mistake("r and log r have changed places.", lambda now, ref: ref - now - 1 - (ref - now).exp()),
                Mistake(WEIGHTED, lambda now, ref: now.exp() * kl.k3(now, ref)),
                Mistake(
                    "you divided log-probs; r is exp of their difference.",
                    lambda now, ref: ref / now - 1 - (ref / now).log(),
                ),
                Mistake(
                    "the log is missing: r − 1 alone is 0 on average, whatever the policies.",
                    lambda now, ref: (ref - now).exp() - 1,
                ),
            ),
            "r − 1 − log r with r = π_ref/π, never negative.",
            (kl.k1, kl.k2, kl.k3),
            gradients=(0,),
        ),
        Question(
            "a2.q4c",
            "k2",
            1,
            kl.k2,
            ratios,
            (
                Mistake("the half is missing.", lambda now, ref: (ref - now) ** 2),
                Mistake("the square is missing.", lambda now, ref: (ref - now).abs() / 2),
                Mistake(
                    "you square the ratio's distance from 1, not its log.",
                    lambda now, ref: ((ref - now).exp() - 1) ** 2 / 2,
                ),
                Mistake("this is k1.", kl.k1),
                Mistake("this is k3.", kl.k3),
                Mistake(
                    "a square is never negative; the sign is turned round.", lambda now, ref: -((ref - now) ** 2) / 2
                ),
                Mistake("you square r; square its log.", lambda now, ref: (ref - now).exp() ** 2 / 2),
                Mistake("you square the half as well; it stands outside.", lambda now, ref: ((ref - now) / 2) ** 2),
                Mistake("this is half of log r; it is not squared.", lambda now, ref: (ref - now) / 2),
                Mistake(
                    "the difference of two squares is not the square of the difference.",
                    lambda now, ref: (now**2 - ref**2) / 2,
                ),
            ),
            "½(log r)² with r = π_ref/π.",
            (kl.k1, kl.k2, kl.k3),
            gradients=(0,),
        ),
        Question(
            "a2.q4d",
            "the gradient of an estimator",
            3,
            expected_gradient,
            logits_of_two,
            (
                Mistake(
                    "the probabilities are left in the graph. They say how often a token is drawn, and no gradient "
                    "flows through a draw.",
                    lambda now, ref, k: expected_gradient(now, ref, k, lambda log_p, log_q: log_p.exp()),
                ),
                Mistake(
                    "all tokens weigh the same; a token is drawn with its probability.",
                    lambda now, ref, k: expected_gradient(now, ref, k, lambda log_p, log_q: 1 / log_p.numel()),
                ),
                Mistake(
                    "the samples come from the policy, not from the reference.",
                    lambda now, ref, k: expected_gradient(now, ref, k, lambda log_p, log_q: log_q.exp()),
                ),
                Mistake("the reference's logits are no log-probs: normalise them too.", without_softmax),
                Mistake(
                    "this is the gradient with respect to the log-probs; the logits are asked for.", toward_the_logs
                ),
                Mistake("the two policies are exchanged.", lambda now, ref, k: expected_gradient(ref, now, k)),
                Mistake(
                    "you add up without any weights.",
                    lambda now, ref, k: expected_gradient(now, ref, k, lambda log_p, log_q: 1.0),
                ),
                Mistake(
                    "the estimator takes log-probs and you give it logits: normalise both first.",
                    lambda now, ref, k: by_hand(now, lambda z: (z.softmax(-1).detach() * k(z, ref)).sum()),
                ),
                Mistake(
                    "the estimator takes log-probs and you give it probabilities.",
                    lambda now, ref, k: by_hand(
                        now, lambda z: (z.softmax(-1).detach() * k(z.softmax(-1), ref.softmax(-1))).sum()
                    ),
                ),
                Mistake(
                    "the estimator's arguments are exchanged: the policy comes first, the reference second.",
                    lambda now, ref, k: expected_gradient(now, ref, lambda log_p, log_q: k(log_q, log_p)),
                ),
                Mistake(
                    "the weights are log-probs; the probabilities are their exp.",
                    lambda now, ref, k: expected_gradient(now, ref, k, lambda log_p, log_q: log_p.detach()),
                ),
                Mistake("this is the gradient with respect to the reference's logits.", toward_the_reference),
                Mistake(
                    "this is the sum itself; its gradient with respect to the logits is asked for.",
                    lambda now, ref, k: (now.softmax(-1) * k(now.log_softmax(-1), ref.log_softmax(-1))).sum(),
                ),
            ),
            "Weight the estimator of each token by its probability, detached; add up; ask autograd for the gradient "
            "with respect to the logits.",
            (expected_gradient,),
            tolerance=1e-5,
        ),
        Question(
            "a2.q4e",
            "which gradient each one gives",
            2,
            lambda: GRADIENTS,
            None,
            tuple(Mistake(says, lambda told=told: GRADIENTS | told) for says, told in GRADIENT_MISTAKES.items()),
            "Compute all three with your function, and beside them the gradients of the two divergences.",
            look=named_gradients,
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
                Mistake(
                    "you count one token too few: the end token lies inside the mask.",
                    lambda m: m / ((m.sum(-1, keepdim=True) - 1).clamp(min=1) * m.shape[0] * m.shape[1]),
                ),
                Mistake(
                    "you count only responses that have tokens; the empty ones are among the B·G.",
                    lambda m: m / (m.sum(-1, keepdim=True).clamp(min=1) * m.any(-1).sum()),
                ),
                Mistake(
                    "you add the mask up along the group; the tokens of a response lie along the last axis.",
                    lambda m: m / (m.sum(1, keepdim=True).clamp(min=1) * m.shape[0] * m.shape[1]),
                ),
                Mistake("the mask is turned round: it is True where there is a token.", turned_round),
                Mistake(ALL_ZERO, lambda m: torch.zeros(m.shape)),
            ),
            "1/(B·G·length of the response) inside the mask, 0 outside.",
            (losses.token_weights,),
        ),
        Question(
            "a2.q5b",
            "token weights, each token the same",
            2,
            lambda mask: losses.token_weights(mask, "token"),
            no_tokens,
            (
                Mistake(
                    "every response counts the same here; asked for is that every token does.",
                    lambda m: losses.token_weights(m, "sequence"),
                ),
                Mistake("you count the padding as well.", lambda m: m / m.numel()),
                Mistake("a batch without tokens gives nan: guard the division.", lambda m: m / m.sum()),
                Mistake(
                    "the padding has weight: multiply by the mask.",
                    lambda m: (1 / m.sum().clamp(min=1)).expand(m.shape),
                ),
                Mistake(
                    "you count the tokens of each prompt apart; the whole batch has one number.",
                    lambda m: m / m.sum((1, 2), keepdim=True).clamp(min=1),
                ),
                Mistake(
                    "you divide by the number of responses as well; the weights should add up to 1.",
                    lambda m: m / (m.sum().clamp(min=1) * m.shape[0] * m.shape[1]),
                ),
                Mistake("you divide by the longest response.", lambda m: m / m.sum(-1).max().clamp(min=1)),
                Mistake(
                    "you take a mean for each prompt, and then their mean; one mean over all tokens is asked for.",
                    lambda m: m / (m.sum((1, 2), keepdim=True).clamp(min=1) * m.shape[0]),
                ),
                Mistake(
                    "you divide by the length of the token's own response; divide by the number of all tokens.",
                    lambda m: m / m.sum(-1, keepdim=True).clamp(min=1),
                ),
                Mistake("nothing is divided: every token weighs 1.", lambda m: m.float()),
                Mistake(ALL_ZERO, lambda m: torch.zeros(m.shape)),
            ),
            "1/(number of tokens in the batch) inside the mask, 0 outside.",
            (losses.token_weights,),
        ),
        Question(
            "a2.q5c",
            "token weights, a constant",
            2,
            lambda mask, constant: losses.token_weights(mask, "constant", constant),
            masks_and_constants,
            (
                Mistake(
                    "you divide by each response's length, which is the bias that the constant is there to remove.",
                    lambda m, c: losses.token_weights(m, "sequence"),
                ),
                Mistake("you divide by the number of tokens.", lambda m, c: losses.token_weights(m, "token")),
                Mistake("the B·G responses do not divide.", lambda m, c: m / c),
                Mistake(
                    "you divide by the number of prompts only; there are B·G responses.",
                    lambda m, c: m / (c * m.shape[0]),
                ),
                Mistake(
                    "you divide by the size of the group only; there are B·G responses.",
                    lambda m, c: m / (c * m.shape[1]),
                ),
                Mistake(
                    "the padding has weight: multiply by the mask.",
                    lambda m, c: torch.full(m.shape, 1 / (c * m.shape[0] * m.shape[1])),
                ),
                Mistake(
                    "you divide by the number of positions; the constant is passed to you.",
                    lambda m, c: losses.token_weights(m, "constant"),
                ),
                Mistake(
                    "you divide by the positions and by the constant.",
                    lambda m, c: losses.token_weights(m, "constant") / c,
                ),
                Mistake("the constant does not divide.", lambda m, c: m / (m.shape[0] * m.shape[1])),
                Mistake(
                    "you divide by the response's length as well; the constant takes its place.",
                    lambda m, c: losses.token_weights(m, "sequence") / c,
                ),
                Mistake(
                    "you divide by the number of tokens and the constant; B·G stands in place of the tokens.",
                    lambda m, c: losses.token_weights(m, "token") / c,
                ),
                Mistake("you multiply by the constant; divide by it.", lambda m, c: m * c / (m.shape[0] * m.shape[1])),
                Mistake(ALL_ZERO, lambda m, c: torch.zeros(m.shape)),
            ),
            "1/(B·G·constant) inside the mask, 0 outside, however long a response is.",
            (losses.token_weights,),
        ),
        Question(
            "a2.q6",
            "one training step",
            5,
            training_step,
            steps,
            (
                Mistake(
                    "gradients pile up from step to step: clear them before backward.",
                    lambda policy, rollout, optimizer: training_step(policy, rollout, optimizer, clear=False),
                ),
                Mistake(
                    "the ratio is always 1, as under the naive loss: the old log-probs are those in the rollout.",
                    with_objective(lambda now, rollout, d, w: (clipped_with(now, rollout, d, now.detach()) * w).sum()),
                ),
                Mistake(
                    "you push with the raw rewards; compare them within the group, and divide by its std.",
                    with_objective(lambda now, rollout, d, w: (clipped_with(now, rollout, rollout.rewards) * w).sum()),
                ),
                Mistake(
                    "you push with the centred rewards; the std does not divide them.",
                    with_objective(
                        lambda now, rollout, d, w: (
                            clipped_with(now, rollout, deltas.centered(rollout.rewards)) * w
                        ).sum()
                    ),
                ),
                Mistake(
                    "the policy goes the wrong way: minirl's losses have their minus already.",
                    with_objective(lambda now, rollout, d, w: -(clipped_with(now, rollout, d) * w).sum()),
                ),
                Mistake(
                    "you average over all positions, the padding too; the token weights do that right.",
                    with_objective(lambda now, rollout, d, w: clipped_with(now, rollout, d).mean()),
                ),
                Mistake(
                    "you add up the tokens without weights: the step grows with the batch.",
                    with_objective(lambda now, rollout, d, w: clipped_with(now, rollout, d).sum()),
                ),
                Mistake(
                    "the weights do not move: backward fills in the gradients, then the optimizer steps.",
                    lambda policy, rollout, optimizer: None,
                ),
                Mistake(
                    "nothing is clipped.",
                    with_objective(
                        lambda now, rollout, d, w: (losses.unclipped(now, rollout.old_log_probs, d) * w).sum()
                    ),
                ),
                Mistake(
                    "the upper epsilon is 0.28, not 0.2.",
                    lambda policy, rollout, optimizer: training_step(policy, rollout, optimizer, high=0.2),
                ),
                Mistake(
                    "each token counts the same; asked for is that each response does.",
                    with_objective(
                        lambda now, rollout, d, w: (
                            clipped_with(now, rollout, d) * token_weights(rollout.mask, "token")
                        ).sum()
                    ),
                ),
                Mistake(
                    "the weights make a mean already; add up what they weight, and do not average again.",
                    with_objective(lambda now, rollout, d, w: (clipped_with(now, rollout, d) * w).mean()),
                ),
                Mistake(SAYS_NOTHING, lambda *inputs: training_step(*inputs) and None),
                Mistake(WITH_ITS_GRAPH, lambda *inputs: torch.tensor(training_step(*inputs))),
            ),
            "Deltas, log-probs of now, clipped loss, token weights; then clear, backward, step.",
            (update, learn, train),
            call=stepped,
            look=told_loss,
            tolerance=1e-5,
        ),
        Question(
            "a2.q7",
            "train a sorter",
            6,
            train_sorter,
            None,
            (
                Mistake(NO_POLICY, lambda seed: [{"reward_mean": 3.0}]),
                Mistake(UNTRAINED, lambda seed: train_sorter(seed, phases=())),
                Mistake(REVERSED, lambda seed: train_sorter(seed, punished(), ((40, 4e-3),))),
                Mistake(
                    CHEATS,
                    lambda seed: train_sorter(
                        seed, split(reward=sorting.inclusion_ordering), ((100, 4e-3), (30, 4e-4))
                    ),
                ),
                Mistake(STUCK, lambda seed: train_sorter(seed, few_prompts(), ((100, 4e-3),))),
                Mistake(HALF, lambda seed: train_sorter(seed, phases=((80, 4e-3),), delta="raw")),
                Mistake(SEEDLESS, set_by_hand),
                Mistake(PEEKED, lambda seed: train_sorter(seed, split(held_out=0.0), ((150, 4e-3), (40, 4e-4)))),
                Mistake(TAUGHT, taught),
                Mistake(ALMOST, lambda seed: train_sorter(seed, phases=((15, 4e-3),))),
            ),
            "Start from SortingPolicy(8, 3, dim=32, seed=seed); each epoch samples 256 prompts and takes a few steps. "
            "A lower learning rate for the last epochs settles it.",
            look=trained_well,
        ),
    )
}
