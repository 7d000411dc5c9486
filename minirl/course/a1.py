"""Assignment 1, policy gradient: the questions' right answers, inputs and known mistakes."""

import itertools
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from minirl import losses, sorting
from minirl.course.questions import Mistake, Question


def token_log_probs(logits, responses):
    """log π of each sampled token; logits [batch, token, vocab], responses [batch, group, token]."""
    rows = logits.log_softmax(-1)[:, None].expand(-1, responses.shape[1], -1, -1)
    return rows.gather(-1, responses[..., None]).squeeze(-1)


def listed_loss(log_probs, rewards):
    """−Σ_y π(y)·R(y)·log π(y) with π(y) frozen, mean over the prompts; both [batch, response]."""
    return -(log_probs.detach().exp() * rewards * log_probs).sum(-1).mean()


def silent_share(rewards):
    """The share of prompts whose responses all have reward 0; rewards [batch, group]."""
    return (rewards == 0).all(-1).float().mean()


def silence_chance(chances, group_size):
    """The probability that a group is all right or all wrong; chances [batch]."""
    return chances**group_size + (1 - chances) ** group_size


def state_deltas(states, rewards):
    """Each reward minus the mean reward in its state; both [samples]."""
    same = (states[:, None] == states).to(rewards)
    return rewards - same @ rewards / same.sum(-1)


def moments(probs, scores, rewards, baseline):
    """Mean [D] and total variance of the guess ∇log π·(R − b); probs [N], scores [N, D], rewards [N]."""
    guesses = scores * (rewards - baseline)[:, None]
    mean = (probs[:, None] * guesses).sum(0)
    return mean, (probs[:, None] * (guesses - mean) ** 2).sum()


def optimal_baseline(probs, scores, rewards):
    """E[‖∇log π‖²·R] / E[‖∇log π‖²]."""
    weights = probs * (scores**2).sum(-1)
    return (weights * rewards).sum() / weights.sum()


def loophole(prompt, vocab_size):
    """A response with full marks for inclusion and ordering that is not sorted(prompt), or None; prompt [P]."""
    kinds, truth = sorted(set(prompt.tolist())), prompt.sort().values
    spare = len(prompt) - len(kinds)
    for extra in range(vocab_size if spare else 0):
        response = torch.tensor(sorted(kinds + [extra] * spare))
        if not torch.equal(response, truth):
            return response
    return None


def wave(*shape: int, scale: float = 2.0) -> Tensor:
    """Fixed values between ±scale without any order to them."""
    count = torch.Size(shape).numel()
    return scale * torch.sin(torch.arange(1, count + 1) ** 2 * 0.7).view(shape)


def sampled_logits():
    """Logits [batch token vocab] and sampled tokens [batch group token]; the first fits in the head."""
    shown = torch.tensor([[[0.1, 0.2, 0.7], [0.5, 0.4, 0.1]]]).log() + torch.tensor([[[1.0], [-2.0]]])
    three = torch.tensor([[[0, 3, 1, 1], [2, 2, 0, 4], [4, 1, 3, 0]], [[1, 1, 0, 2], [0, 4, 4, 3], [2, 0, 1, 1]]])
    return [
        (shown, torch.tensor([[[2, 0], [1, 1]]])),
        (wave(2, 4, 5), three),
        (wave(3, 1, 2).double(), torch.tensor([[[0]], [[1]], [[1]]])),
    ]


def shifted(logits, responses):
    return token_log_probs(logits, responses.roll(-1, -1))


def weighted_log_probs():
    """Log-probs [batch group token] and deltas [batch group]; in the second, as many responses as tokens."""
    return [
        (torch.tensor([[[-1.0, -2.0, -0.5], [-0.25, -3.0, -1.5]]]), torch.tensor([[3.0, -2.0]])),
        (-wave(2, 3, 3).abs(), torch.tensor([[1.0, 0.0, -0.5], [2.0, 4.0, 0.25]])),
        (-wave(1, 4, 2).abs().double(), torch.tensor([[0.1, 1.0, 0.0, -1.0]]).double()),
    ]


def last_only(log_probs, deltas):
    weights = torch.zeros_like(log_probs)
    weights[..., -1] = deltas
    return -weights * log_probs


def listed():
    """Logits of all responses and their rewards, both [batch response]."""
    return [
        (torch.tensor([[0.0, 0.0]]), torch.tensor([[2.0, 1.0]])),
        (wave(3, 4), torch.tensor([[1.0, 0.0, 0.0, 0.0], [0.0, 3.0, 1.0, -1.0], [0.5, 0.5, 2.0, 0.0]])),
        (wave(2, 5).double(), wave(2, 5, scale=3).double()),
    ]


def earned():
    """Rewards [batch group]: some prompts all 0, some tied above or below 0, one that only adds up to 0."""
    return [
        (torch.tensor([[0.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0]]),),
        (torch.tensor([[1.0, -1.0], [0.0, 0.0], [2.0, 2.0]]),),
        (
            torch.tensor(
                [[0.0, 0, 0], [0, 0.5, 0], [0, 0, 0], [1, 3, 0], [0, 0, 0], [-1, 0, -2], [-1, -1, -1]]
            ).double(),
        ),
        (torch.tensor([[1.0, 2.0, 3.0, 4.0, 0.0]]),),
    ]


def chances():
    """The chance of a right response [batch], and how many responses a group has."""
    return [
        (torch.tensor([0.5, 1 / 125, 1.0]), 2),
        (torch.tensor([0.0, 0.1, 0.5, 0.9]), 16),
        (torch.tensor([0.25]).double(), 3),
        (torch.tensor([0.3, 0.6]), 1),
    ]


def visits():
    """States [samples] and rewards [samples]: the lecture's example, then mixed and uneven ones."""
    return [
        (torch.tensor([0, 0, 1, 1]), torch.tensor([11.0, 9.0, 0.0, 2.0])),
        (torch.tensor([2, 0, 2, 1, 0, 2]), torch.tensor([1.0, 5.0, 4.0, -3.0, 6.0, 1.5])),
        (torch.tensor([7, 7, 7, 3, 7]), torch.tensor([0.1, 0.7, 0.4, 2.0, 0.2]).double()),
    ]


def fixed_baselines(states, rewards):
    return rewards - torch.where(states == 0, 10.0, 1.0).to(rewards)


def blocks(states, rewards):
    pairs = rewards.view(-1, 2)
    return (pairs - pairs.mean(-1, keepdim=True)).flatten()


def in_place(states, rewards):
    rewards.copy_(state_deltas(states, rewards))
    return rewards


def without_own(states, rewards):
    same = (states[:, None] == states).to(rewards) - torch.eye(len(rewards)).to(rewards)
    return rewards - same @ rewards / same.sum(-1).clamp(min=1)


def summed(states, rewards):
    return rewards - (states[:, None] == states).to(rewards) @ rewards


def only_two_states(states, rewards):
    deltas = rewards.clone()
    for state in (0, 1):
        deltas[states == state] -= rewards[states == state].mean()
    return deltas


def so_far(states, rewards):
    seen = (states[:, None] == states).tril().to(rewards)
    return rewards - seen @ rewards / seen.sum(-1)


def guesses():
    """Probabilities [N], scores [N D], rewards [N] of all responses, and a baseline."""
    dial = torch.tensor([1 / 3, 1 / 3, 1 / 3]), torch.tensor([[-1.0], [0.0], [1.0]]), torch.tensor([4.0, 0.0, 8.0])
    halves = torch.tensor([0.5, 0.5]).double(), torch.tensor([[0.5, -0.5], [-0.5, 0.5]]).double()
    uneven = torch.tensor([0.1, 0.2, 0.3, 0.4]), wave(4, 3), torch.tensor([1.0, 0.0, 2.0, -3.0])
    return [(*dial, 4.0), (*uneven, 0.5), (*halves, torch.tensor([11.0, 9.0]).double(), -2.0)]


def unsquared(probs, scores, rewards, baseline):
    mean, guess = moments(probs, scores, rewards, baseline)[0], scores * (rewards - baseline)[:, None]
    return mean, probs @ (guess - mean).norm(dim=-1)


def weighted_twice(probs, scores, rewards, baseline):
    guess = probs[:, None] * scores * (rewards - baseline)[:, None]
    return guess.sum(0), (probs[:, None] * (guess - guess.sum(0)) ** 2).sum()


def baseline_too_late(probs, scores, rewards, baseline):
    guess = scores * rewards[:, None] - baseline
    return probs @ guess, (probs[:, None] * (guess - probs @ guess) ** 2).sum()


def scored():
    return [inputs[:3] for inputs in guesses()]


def weighted_by(weights: Callable):
    """A baseline that averages the rewards with other weights."""

    def baseline(probs, scores, rewards):
        each = weights(probs, scores)
        return (each * rewards).sum() / each.sum()

    return baseline


def answered():
    """Prompts [batch place] and responses [batch group place]: repeats, near misses, other lengths."""
    shown = torch.tensor([[3, 1, 0, 2]]), torch.tensor([[[0, 1, 2, 3], [7, 2, 2, 5], [0, 3, 1, 2]]])
    repeats = (
        torch.tensor([[1, 1, 2], [4, 0, 4], [2, 1, 0]]),
        torch.tensor(
            [
                [[1, 2, 2], [1, 1, 2], [2, 1, 1], [0, 1, 2]],
                [[0, 4, 4], [4, 0, 4], [4, 4, 0], [0, 4, 4]],
                [[2, 1, 0], [0, 1, 2], [0, 0, 1], [2, 2, 2]],
            ]
        ),
    )
    longer = (
        torch.tensor([[5, 3, 3, 1, 0], [2, 2, 2, 2, 2]]),
        torch.tensor([[[0, 1, 3, 3, 5], [0, 1, 5, 3, 3]], [[2, 2, 2, 2, 2], [2, 2, 2, 2, 0]]]),
    )
    return [shown, repeats, longer, (torch.tensor([[6, 2]]), torch.tensor([[[2, 6], [6, 2], [2, 2]]]))]


def inclusion(prompts, responses):
    return (prompts[:, None, :, None] == responses[:, :, None, :]).any(-1).sum(-1).float()


def ordering(prompts, responses):
    return (responses[..., :-1] <= responses[..., 1:]).sum(-1).float()


def counted(prompts, responses):
    """Inclusion without the loophole: a number that is asked for twice must be there twice."""
    size = int(torch.cat([prompts.flatten(), responses.flatten()]).max()) + 1
    asked, given = (torch.nn.functional.one_hot(each, size).sum(-2) for each in (prompts, responses))
    return torch.minimum(asked[:, None], given).sum(-1)


def sort_in_place(prompts, responses):
    prompts.copy_(prompts.sort(-1).values)
    return (responses == prompts[:, None]).all(-1).float()


def exact_share(prompts, responses):
    return sorting.position_match(prompts, responses) / prompts.shape[1]


def until_first_miss(prompts, responses):
    return (responses == prompts.sort(-1).values[:, None]).cumprod(-1).sum(-1).float()


HONEST = "you returned the sorted prompt: full marks, but honest. A loophole pays for something else."
NONE_HERE = "a prompt has no loophole, and you return something: where all numbers differ, full marks mean sorted."
GAVE_UP = "you return None for a prompt that has a loophole: with a repeated number, one copy answers for all of them."
ALL_SAME = "you return None where all numbers are the same; any other number of the vocabulary fills the freed places."
FIXED = "you return the same response for every prompt; its numbers must come from the prompt."
OUTSIDE = "you use a number outside the vocabulary: tokens go from 0 to vocab_size − 1."
LENGTH = "your response has not as many numbers as the prompt."
MISSING = "your response leaves out a number of the prompt, which costs an inclusion point."
DISORDER = "your response is not in ascending order, which costs an ordering point."
CHANGED = "you change the prompt in place; work on a copy."
NO_TENSOR = "return a tensor of whole numbers, or None."


def every_prompt(sizes: Iterable[tuple[int, int]] = ((5, 3), (3, 4), (1, 2), (2, 2), (4, 1))):
    """All prompts of some sizes, the lecture's [1, 1, 2] of 5 first."""
    yield torch.tensor([1, 1, 2]), 5
    for vocab_size, length in sizes:
        for prompt in itertools.product(range(vocab_size), repeat=length):
            yield torch.tensor(prompt), vocab_size


def hunted(answer, prompts: Callable[[], Iterable] = every_prompt) -> str | None:
    """What is wrong with the first response that is no loophole, or with None where there is one."""
    seen = set()
    for prompt, vocab_size in prompts():
        given = prompt.clone()
        response = answer(given, vocab_size)
        if not torch.equal(given, prompt):
            return CHANGED
        shown = response.tolist() if isinstance(response, Tensor) else response
        first, seen = not seen, seen | {str(shown)}
        if sentence := not_a_loophole(prompt, response, vocab_size):
            sentence = FIXED if len(seen) == 1 and not first and response is not None else sentence
            return f"{sentence} (For {prompt.tolist()}, tokens below {vocab_size}, you return {shown}.)"
    return None


def not_a_loophole(prompt: Tensor, response, vocab_size: int) -> str | None:
    kinds = set(prompt.tolist())
    if response is None and len(kinds) == len(prompt):
        return None
    if response is None:
        return GAVE_UP if len(kinds) > 1 else ALL_SAME if vocab_size > 1 else None
    try:
        tokens = [int(token) for token in torch.as_tensor(response).flatten()]
    except (TypeError, ValueError, RuntimeError):
        return NO_TENSOR
    if len(kinds) == len(prompt) and tokens != sorted(prompt.tolist()):
        return NONE_HERE
    faults = {
        LENGTH: len(tokens) != len(prompt),
        OUTSIDE: not all(0 <= token < vocab_size for token in tokens),
        MISSING: not kinds <= set(tokens),
        DISORDER: tokens != sorted(tokens),
        HONEST: tokens == sorted(prompt.tolist()),
    }
    return next((sentence for sentence, there in faults.items() if there), None)


def filled_with(extra: Callable[[list[int], int], int]):
    """The repeated numbers once each, the freed places filled with one number."""

    def answer(prompt, vocab_size):
        kinds = sorted(set(prompt.tolist()))
        spare = len(prompt) - len(kinds)
        return torch.tensor(sorted(kinds + [extra(kinds, vocab_size)] * spare)) if spare else None

    return answer


def only_two_kinds(prompt, vocab_size):
    return loophole(prompt, vocab_size) if len(set(prompt.tolist())) > 1 else None


def always_something(prompt, vocab_size):
    in_order, found = prompt.sort().values, loophole(prompt, vocab_size)
    return torch.cat([in_order[1:], in_order[-1:]]) if found is None else found


def reorders(prompt, vocab_size):
    found = loophole(prompt, vocab_size)
    return None if found is None else found.flip(0)


def takes_over(prompt, vocab_size):
    found = loophole(prompt, vocab_size)
    if found is None:
        return None
    prompt.copy_(found)
    return prompt


SIGN = "the sign is missing: a loss goes down when what is rewarded becomes more likely."

QUESTIONS = {
    question.id: question
    for question in (
        Question(
            "a1.q1",
            "log-probs by gather",
            3,
            token_log_probs,
            sampled_logits,
            (
                Mistake(
                    "these are logits, not log-probs: normalise over the vocabulary first.",
                    lambda x, y: x[:, None].expand(-1, y.shape[1], -1, -1).gather(-1, y[..., None]).squeeze(-1),
                ),
                Mistake("these are probabilities; their log is asked for.", lambda x, y: token_log_probs(x, y).exp()),
                Mistake(
                    "you normalise over the positions; probabilities add up to 1 over the vocabulary, the last axis.",
                    lambda x, y: (
                        x.log_softmax(-2)[:, None].expand(-1, y.shape[1], -1, -1).gather(-1, y[..., None]).squeeze(-1)
                    ),
                ),
                Mistake(
                    "you took the likeliest token at each position, not the one that was sampled.",
                    lambda x, y: x.log_softmax(-1).amax(-1)[:, None].expand(y.shape),
                ),
                Mistake("you are one position off: the row at position t scores the token at position t.", shifted),
                Mistake(
                    "you added up the tokens; here each token keeps its own log-prob.",
                    lambda x, y: token_log_probs(x, y).sum(-1),
                ),
                Mistake(
                    "all responses of a group have the log-probs of the first; each has tokens of its own.",
                    lambda x, y: token_log_probs(x, y[:, :1]).expand(y.shape),
                ),
                Mistake(
                    "the values are right, but the gradient is cut off: nothing could learn from them.",
                    lambda x, y: token_log_probs(x, y).detach(),
                ),
                Mistake(
                    "a position is missing: nothing is predicted ahead, the row at position t is for its own token.",
                    lambda x, y: token_log_probs(x[:, :-1], y[..., 1:]),
                ),
                Mistake(
                    "you score each token by the row before it, as for a model that predicts the next one; here the "
                    "row at position t is for the token at position t.",
                    lambda x, y: torch.nn.functional.pad(token_log_probs(x[:, :-1], y[..., 1:]), (1, 0)),
                ),
            ),
            "Log-softmax over the vocabulary, then pick the entry of each sampled token; every response of a group "
            "shares the rows of its prompt.",
            (token_log_probs,),
            gradients=(0,),
        ),
        Question(
            "a1.q2a",
            "the naive loss",
            2,
            losses.naive,
            weighted_log_probs,
            (
                Mistake(SIGN, lambda logp, d: d[..., None] * logp),
                Mistake(
                    "you weight the probabilities; the policy gradient is that of their log.",
                    lambda logp, d: -d[..., None] * logp.exp(),
                ),
                Mistake(
                    "you spread the deltas along the group axis; a response's delta goes to each of its own tokens.",
                    lambda logp, d: -d[:, None, :] * logp,
                ),
                Mistake("only the last token gets the delta; all tokens of a response led to its reward.", last_only),
                Mistake(
                    "you added up the tokens; the loss is wanted token by token, [batch, group, token].",
                    lambda logp, d: losses.naive(logp, d).sum(-1),
                ),
                Mistake(
                    "you averaged everything to one number; the loss is wanted token by token.",
                    lambda logp, d: losses.naive(logp, d).mean(),
                ),
                Mistake(
                    "you share the delta out among the tokens; each token gets all of it.",
                    lambda logp, d: losses.naive(logp, d) / logp.shape[-1],
                ),
                Mistake(
                    "you subtract a baseline; the naive loss takes the deltas as they are.",
                    lambda logp, d: losses.naive(logp, d - d.mean(-1, keepdim=True)),
                ),
                Mistake(
                    "the log-probs are detached, so the loss has no gradient.",
                    lambda logp, d: losses.naive(logp.detach(), d),
                ),
            ),
            "−δ·log π for each token; the delta of a response needs a token axis before it can multiply.",
            (losses.naive,),
            gradients=(0,),
        ),
        Question(
            "a1.q2b",
            "the gradient, with every response listed",
            3,
            listed_loss,
            listed,
            (
                Mistake(
                    "the weights π(y) are left in the graph, so that they are moved as well; they stand for how often "
                    "a response is drawn, and are frozen.",
                    lambda logp, r: -(logp.exp() * r * logp).sum(-1).mean(),
                ),
                Mistake(
                    "this is −E[R] itself. Its gradient is right, but it cannot be estimated from samples: write the "
                    "loss that has log π in it.",
                    lambda logp, r: -(logp.exp() * r).sum(-1).mean(),
                ),
                Mistake(
                    "all responses weigh the same; a response is drawn with its probability.",
                    lambda logp, r: -(r * logp).mean(-1).mean(),
                ),
                Mistake(SIGN, lambda logp, r: -listed_loss(logp, r)),
                Mistake(
                    "you add up the prompts; take the mean over them.",
                    lambda logp, r: listed_loss(logp, r) * len(logp),
                ),
                Mistake(
                    "you divide by the number of responses; their probabilities are weights enough.",
                    lambda logp, r: -(logp.detach().exp() * r * logp).mean(),
                ),
                Mistake(
                    "nothing has a gradient: log π must keep its past, so no detach() and no item() there.",
                    lambda logp, r: listed_loss(logp.detach(), r),
                ),
                Mistake(
                    "the reward is missing: this only makes the policy surer of what it does already.",
                    lambda logp, r: listed_loss(logp, torch.ones_like(r)),
                ),
                Mistake(
                    "you froze the wrong factor: log π keeps its past, the weight π(y) loses it.",
                    lambda logp, r: -(logp.exp() * r * logp.detach()).sum(-1).mean(),
                ),
                Mistake(
                    "the weight π(y) is missing: with all responses listed, each counts as often as it is drawn.",
                    lambda logp, r: -(r * logp).sum(-1).mean(),
                ),
                Mistake(
                    "this is a number for each prompt; take their mean.",
                    lambda logp, r: -(logp.detach().exp() * r * logp).sum(-1),
                ),
                Mistake(
                    "the weight is the log-prob; the probability is its exp.",
                    lambda logp, r: -(logp.detach() * r * logp).sum(-1).mean(),
                ),
            ),
            "−Σ_y π(y)·R(y)·log π(y), mean over the prompts, with π(y) detached.",
            (listed_loss,),
            gradients=(0,),
            call=lambda answer, logits, rewards: answer(logits.log_softmax(-1), rewards),
        ),
        Question(
            "a1.q3a",
            "prompts that teach nothing",
            2,
            silent_share,
            earned,
            (
                Mistake(
                    "this is the share of responses without a reward; a prompt is silent only if all of its are.",
                    lambda r: (r == 0).float().mean(),
                ),
                Mistake(
                    "one response without a reward does not silence a prompt: all of them must be 0.",
                    lambda r: (r == 0).any(-1).float().mean(),
                ),
                Mistake("this is how many they are; the share is asked for.", lambda r: (r == 0).all(-1).float().sum()),
                Mistake("this is the share of prompts that do teach something.", lambda r: 1 - silent_share(r)),
                Mistake(
                    "rewards that add up to 0 are not all 0: −1 pushes down and 1 pushes up.",
                    lambda r: (r.sum(-1) == 0).float().mean(),
                ),
                Mistake(
                    "equal rewards above 0 still push under the naive loss; only 0 pushes nothing.",
                    lambda r: (r == r[:, :1]).all(-1).float().mean(),
                ),
                Mistake(
                    "you ask along the batch axis; the responses to one prompt lie along the last.",
                    lambda r: (r == 0).all(0).float().mean(),
                ),
                Mistake("this says it for each prompt; the share is one number.", lambda r: (r == 0).all(-1).float()),
                Mistake(
                    "negative rewards push as well, away from a response; only 0 pushes nothing.",
                    lambda r: (r <= 0).all(-1).float().mean(),
                ),
                Mistake(
                    "where the best reward is 0, others may be below it, and they push.",
                    lambda r: (r.amax(-1) == 0).float().mean(),
                ),
            ),
            "The naive loss is −δ·log π with δ = reward. Count the prompts whose rewards are all 0, as a share.",
            (silent_share,),
        ),
        Question(
            "a1.q3b",
            "the chance of silence",
            2,
            silence_chance,
            chances,
            (
                Mistake(
                    "all wrong is not the only silent group: where all are right, there is nothing to compare either.",
                    lambda p, g: (1 - p) ** g,
                ),
                Mistake("all right is not the only silent group: all wrong is the other.", lambda p, g: p**g),
                Mistake("this is the chance that a group has a signal.", lambda p, g: 1 - silence_chance(p, g)),
                Mistake(
                    "a group is all right or all wrong, never both at once: the chances are added.",
                    lambda p, g: p**g * (1 - p) ** g,
                ),
                Mistake(
                    "you leave one response out: all G of them must agree.",
                    lambda p, g: p ** (g - 1) + (1 - p) ** (g - 1),
                ),
                Mistake(
                    "this is the chance that not all are right; most of those groups have a signal.",
                    lambda p, g: 1 - p**g,
                ),
                Mistake(
                    "independent chances are multiplied, so G responses make a power, not a factor.",
                    lambda p, g: torch.full_like(p, float(g)),
                ),
                Mistake(
                    "you take away the chance of both at once; no group is all right and all wrong.",
                    lambda p, g: p**g + (1 - p) ** g - p**g * (1 - p) ** g,
                ),
            ),
            "Responses are drawn independently: G right ones have the chance p·p·…·p.",
            (silence_chance,),
        ),
        Question(
            "a1.q4a",
            "a baseline for each state",
            3,
            state_deltas,
            visits,
            (
                Mistake(
                    "you subtract the mean of all rewards; a rich state and a poor one have different baselines.",
                    lambda s, r: r - r.mean(),
                ),
                Mistake("10 and 1 are the baselines of the example; compute them from the rewards.", fixed_baselines),
                Mistake(
                    "you take the samples two by two; those of a state may lie anywhere, and be any number.", blocks
                ),
                Mistake(
                    "the sign is turned round: better than usual should be above 0.", lambda s, r: -state_deltas(s, r)
                ),
                Mistake("you return the baselines; subtract them.", lambda s, r: r - state_deltas(s, r)),
                Mistake(
                    "a sample is left out of its own baseline; here the baseline is the mean of the whole state.",
                    without_own,
                ),
                Mistake("you change the rewards in place; work on a copy.", in_place),
                Mistake(
                    "you divide by a standard deviation as well; only the baseline is subtracted.",
                    lambda s, r: state_deltas(s, r) / state_deltas(s, r).std(),
                ),
                Mistake("you subtract the sum of the state's rewards, not their mean.", summed),
                Mistake("you look for the states 0 and 1 only; go through all that occur.", only_two_states),
                Mistake("the baseline is the mean so far; all samples in the state are meant, later ones too.", so_far),
            ),
            "For each sample, the mean reward over the samples with the same state; subtract it.",
            (state_deltas,),
        ),
        Question(
            "a1.q4b",
            "mean and variance of a guess",
            3,
            moments,
            guesses,
            (
                Mistake("the baseline is not subtracted.", lambda p, s, r, b: moments(p, s, r, 0)),
                Mistake(
                    "all responses weigh the same; each has its probability.",
                    lambda p, s, r, b: moments(torch.full_like(p, 1 / len(p)), s, r, b),
                ),
                Mistake(
                    "this is the standard deviation, the root of the variance.",
                    lambda p, s, r, b: (moments(p, s, r, b)[0], moments(p, s, r, b)[1].sqrt()),
                ),
                Mistake(
                    "this is the mean square; a variance is taken around the mean.",
                    lambda p, s, r, b: (
                        moments(p, s, r, b)[0],
                        moments(p, s, r, b)[1] + (moments(p, s, r, b)[0] ** 2).sum(),
                    ),
                ),
                Mistake(
                    "there is a variance for each parameter; add them up.",
                    lambda p, s, r, b: (
                        moments(p, s, r, b)[0],
                        torch.stack([moments(p, column[:, None], r, b)[1] for column in s.T]),
                    ),
                ),
                Mistake(
                    "you take the mean of the parameters' variances; the total is their sum.",
                    lambda p, s, r, b: (moments(p, s, r, b)[0], moments(p, s, r, b)[1] / s.shape[1]),
                ),
                Mistake(
                    "this is the variance of the rewards; what disturbs learning is that of the gradient's guess.",
                    lambda p, s, r, b: (moments(p, s, r, b)[0], (p * (r - (p * r).sum()) ** 2).sum()),
                ),
                Mistake(
                    "you return the variance only; the mean comes first.", lambda p, s, r, b: moments(p, s, r, b)[1]
                ),
                Mistake(
                    "the mean is weighted and the variance is not; weight the squared distances as well.",
                    lambda p, s, r, b: (moments(p, s, r, b)[0], (s * (r - b)[:, None]).var(0).sum()),
                ),
                Mistake("the distances from the mean are not squared.", unsquared),
                Mistake(
                    "your guesses have the probabilities in them already when you weight their distances.",
                    weighted_twice,
                ),
                Mistake(
                    "the baseline is taken from the whole guess; it is the reward that it belongs to.",
                    baseline_too_late,
                ),
                Mistake("the baseline is added, not subtracted.", lambda p, s, r, b: moments(p, s, r, -b)),
                Mistake("the mean comes first, then the variance.", lambda p, s, r, b: moments(p, s, r, b)[::-1]),
            ),
            "Each response gives the guess ∇log π·(R − b). Weight by the probabilities: first the mean, then the "
            "squared distances from it, added up over the parameters.",
            (moments,),
        ),
        Question(
            "a1.q5",
            "the optimal baseline",
            3,
            optimal_baseline,
            scored,
            (
                Mistake(
                    "this is the mean reward, the usual choice; in the best, responses with a large score count more.",
                    weighted_by(lambda p, s: p),
                ),
                Mistake(
                    "the probabilities are missing: an expectation weights each response by its own.",
                    weighted_by(lambda p, s: (s**2).sum(-1)),
                ),
                Mistake(
                    "you weight by the length of the score; the formula has its square.",
                    weighted_by(lambda p, s: p * s.norm(dim=-1)),
                ),
                Mistake(
                    "you add up the score's entries before you square; square each, then add.",
                    weighted_by(lambda p, s: p * s.sum(-1) ** 2),
                ),
                Mistake(
                    "you have a baseline for each parameter; one number serves them all.",
                    lambda p, s, r: (
                        (p[:, None] * s**2 * r[:, None]).sum(0) / (p[:, None] * s**2).sum(0).clamp(min=1e-30)
                    ),
                ),
                Mistake(
                    "the denominator is missing: this is no average.",
                    lambda p, s, r: (p * (s**2).sum(-1) * r).sum(),
                ),
                Mistake(
                    "you square the probabilities as well; they are weights.",
                    weighted_by(lambda p, s: p**2 * (s**2).sum(-1)),
                ),
                Mistake(
                    "this is the plain mean of the rewards; the weights are missing.",
                    lambda p, s, r: r.mean(),
                ),
                Mistake(
                    "you square the reward as well; only the score is squared.",
                    lambda p, s, r: optimal_baseline(p, s, r**2),
                ),
                Mistake(
                    "the denominator has no probabilities; it is an expectation as well.",
                    lambda p, s, r: (p * (s**2).sum(-1) * r).sum() / (s**2).sum(),
                ),
                Mistake(
                    "the denominator is the square of a mean; it should be the mean of the squares.",
                    lambda p, s, r: (p * (s**2).sum(-1) * r).sum() / (p * s.norm(dim=-1)).sum() ** 2,
                ),
                Mistake(
                    "you average the fractions of the parameters; add up their squares first, above and below.",
                    lambda p, s, r: ((p * r) @ s**2 / (p @ s**2)).mean(),
                ),
            ),
            "An average of the rewards with the weights π·‖∇log π‖², over the sum of these weights.",
            (optimal_baseline,),
        ),
        Question(
            "a1.q6a",
            "the exact reward",
            2,
            sorting.exact_match,
            answered,
            (
                Mistake(
                    "you compare with the prompt as it is; the answer is the sorted prompt.",
                    lambda p, y: (y == p[:, None]).all(-1).float(),
                ),
                Mistake(
                    "you sort the response too, so that the right numbers in any order pass.",
                    lambda p, y: (y.sort(-1).values == p.sort(-1).values[:, None]).all(-1).float(),
                ),
                Mistake(
                    "ascending order alone is not enough: the numbers must be those of the prompt.",
                    lambda p, y: (y[..., :-1] <= y[..., 1:]).all(-1).float(),
                ),
                Mistake(
                    "you sort in descending order.",
                    lambda p, y: (y == p.sort(-1, descending=True).values[:, None]).all(-1).float(),
                ),
                Mistake(
                    "one right place is not enough: all of them must be.",
                    lambda p, y: (y == p.sort(-1).values[:, None]).any(-1).float(),
                ),
                Mistake(
                    "this is a verdict on each token; a response gets one reward, [batch, group].",
                    lambda p, y: (y == p.sort(-1).values[:, None]).float(),
                ),
                Mistake(
                    "you sort along the batch axis, which mixes the prompts; a prompt's numbers lie along the last.",
                    lambda p, y: (y == p.sort(0).values[:, None]).all(-1).float(),
                ),
                Mistake("you sort the prompts in place; whoever uses them next finds the answers.", sort_in_place),
                Mistake("there is no partial credit here: this is the share of right places.", exact_share),
                Mistake(
                    "you compare with the indices that sort returns second; its values come first.",
                    lambda p, y: (y == p.sort(-1).indices[:, None]).all(-1).float(),
                ),
                Mistake(
                    "this is one verdict on the whole batch; each response has a reward of its own.",
                    lambda p, y: (y == p.sort(-1).values[:, None]).all().float(),
                ),
            ),
            "1 where the response equals sorted(prompt) at every place, else 0. The prompt needs a group axis.",
            (sorting.exact_match, sorting.position_match),
        ),
        Question(
            "a1.q6b",
            "the position reward",
            2,
            sorting.position_match,
            answered,
            (
                Mistake("this is the share of places; count them.", lambda p, y: exact_share(p, y)),
                Mistake(
                    "you compare with the prompt as it is; the answer is the sorted prompt.",
                    lambda p, y: (y == p[:, None]).sum(-1).float(),
                ),
                Mistake(
                    "you sort the response too, so that places no longer matter.",
                    lambda p, y: (y.sort(-1).values == p.sort(-1).values[:, None]).sum(-1).float(),
                ),
                Mistake("you stop at the first wrong place; right ones after it count as well.", until_first_miss),
                Mistake("this is the exact reward: there is no credit for near misses in it.", sorting.exact_match),
                Mistake(
                    "you count a number that occurs anywhere in the response; it must stand in its place.", inclusion
                ),
                Mistake(
                    "you sort along the batch axis, which mixes the prompts; a prompt's numbers lie along the last.",
                    lambda p, y: (y == p.sort(0).values[:, None]).sum(-1).float(),
                ),
                Mistake(
                    "you add up the wrong axis: the places are the last one.",
                    lambda p, y: (y == p.sort(-1).values[:, None]).sum(1).float(),
                ),
                Mistake(
                    "you sort in descending order.",
                    lambda p, y: (y == p.sort(-1, descending=True).values[:, None]).sum(-1).float(),
                ),
                Mistake(
                    "you give all points or none; each right place earns its own.",
                    lambda p, y: sorting.exact_match(p, y) * p.shape[1],
                ),
                Mistake("you count the wrong places.", lambda p, y: p.shape[1] - sorting.position_match(p, y)),
            ),
            "The number of places at which the response equals sorted(prompt).",
            (sorting.exact_match, sorting.position_match),
        ),
        Question(
            "a1.q6c",
            "the inclusion and ordering reward",
            3,
            sorting.inclusion_ordering,
            answered,
            (
                Mistake(
                    "you ask for each number of the response whether the prompt has it; it is the other way round.",
                    lambda p, y: (y[..., None] == p[:, None, None, :]).any(-1).sum(-1) + ordering(p, y),
                ),
                Mistake(
                    "equal neighbours are in order as well: x ≤ y.",
                    lambda p, y: inclusion(p, y) + (y[..., :-1] < y[..., 1:]).sum(-1),
                ),
                Mistake("the points for order are missing.", inclusion),
                Mistake("the points for inclusion are missing.", ordering),
                Mistake(
                    "you count copies. That is wiser than the lecture's reward, but not that reward: it only asks "
                    "whether a number occurs.",
                    lambda p, y: counted(p, y) + ordering(p, y),
                ),
                Mistake(
                    "order is not all or nothing: each pair of neighbours earns its own point.",
                    lambda p, y: inclusion(p, y) + (y[..., :-1] <= y[..., 1:]).all(-1),
                ),
                Mistake(
                    "a number that the prompt has twice earns two points.",
                    lambda p, y: (
                        torch.stack([inclusion(row.unique()[None], y[None, i])[0] for i, row in enumerate(p)])
                        + ordering(p, y)
                    ),
                ),
                Mistake(
                    "you reward descending pairs.",
                    lambda p, y: inclusion(p, y) + (y[..., :-1] >= y[..., 1:]).sum(-1),
                ),
                Mistake(
                    "you compare the last number with the first as well; they are no neighbours.",
                    lambda p, y: inclusion(p, y) + (y <= y.roll(-1, -1)).sum(-1),
                ),
                Mistake(
                    "you count how often a number occurs in the response; that it occurs earns one point.",
                    lambda p, y: (p[:, None, :, None] == y[:, :, None, :]).sum((-1, -2)) + ordering(p, y),
                ),
                Mistake(
                    "you look for order in the prompt; the response is what earns.",
                    lambda p, y: inclusion(p, y) + ordering(p, p[:, None]),
                ),
                Mistake(
                    "you divide by the highest number of points; the number itself is asked for.",
                    lambda p, y: sorting.inclusion_ordering(p, y) / (2 * p.shape[1] - 1),
                ),
            ),
            "One point per number of the prompt that occurs in the response, one per pair of neighbours with x ≤ y.",
            (sorting.inclusion_ordering,),
        ),
        Question(
            "a1.q7",
            "the loophole",
            4,
            loophole,
            None,
            (
                Mistake(HONEST, lambda prompt, vocab_size: prompt.sort().values),
                Mistake(NONE_HERE, always_something),
                Mistake(GAVE_UP, lambda prompt, vocab_size: None),
                Mistake(ALL_SAME, only_two_kinds),
                Mistake(FIXED, lambda prompt, vocab_size: torch.tensor([1, 2, 2])),
                Mistake(OUTSIDE, filled_with(lambda kinds, vocab_size: kinds[-1] + 1)),
                Mistake(LENGTH, lambda prompt, vocab_size: prompt.unique()),
                Mistake(MISSING, lambda prompt, vocab_size: prompt.max().expand(len(prompt))),
                Mistake(DISORDER, reorders),
                Mistake(CHANGED, takes_over),
            ),
            "Which points does a repeated number earn, and how many copies does it take to earn them? What may stand "
            "in the place of the others?",
            (loophole,),
            look=hunted,
        ),
    )
}
