"""Assignment 4, language models: the questions' right answers, inputs and known mistakes."""

import math
import re
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from itertools import combinations
from itertools import product as with_replacement

import torch

from minirl import evaluate, rollout
from minirl.course import improving
from minirl.course.questions import Mistake, Question
from minirl.llm import verify
from minirl.llm.policy import LanguagePolicy

# --- masks and positions ---------------------------------------------------------------------------------------------


def prompts():
    """Left-padded prompts and their padding token; some have that token inside as well, some no padding."""
    shown = torch.tensor([[0, 0, 5, 6], [0, 7, 8, 9]])
    inside = torch.tensor([[3, 3, 1, 3, 2], [1, 2, 3, 3, 4], [3, 7, 3, 3, 3]])
    return [(shown, 0), (inside, 3), (torch.tensor([[4, 4, 9]]), 2)]


def prompt_mask(prompts, pad_id):
    return (prompts != pad_id).cumsum(-1) > 0


def responses():
    """Responses and the end token: one that ends late, at once, twice, never."""
    shown = torch.tensor([[[5, 6, 2, 2], [2, 2, 2, 2], [5, 6, 7, 8]]])
    twice = torch.tensor([[[1, 9, 4, 9, 4]], [[9, 1, 1, 1, 9]], [[1, 1, 1, 1, 9]], [[1, 3, 1, 3, 1]]])
    zero = torch.tensor([[[5, 0, 2, 0]], [[0, 2, 0, 4]]])
    return [(shown, 2), (twice, 9), (torch.tensor([[[7]], [[3]]]), 7), (zero, 2)]


def response_mask(responses, end_id):
    return rollout.response_mask(responses, end_id)


def last_end(responses, end_id):
    """Up to the last end token instead of the first."""
    ends = responses == end_id
    after = ends.flip(-1).cumsum(-1).flip(-1) > 0
    return after | ~ends.any(-1, keepdim=True)


def by_argmax(responses, end_id):
    """A response without an end token gets a mask of one token: argmax of nothing is 0."""
    length = (responses == end_id).int().argmax(-1, keepdim=True) + 1
    return torch.arange(responses.shape[-1]) < length


def prompt_masks():
    padded = torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1], [0, 0, 0, 1]]).bool()
    return [(padded[:2],), (padded,), (torch.tensor([[0] * 5 + [1] * 3, [0] + [1] * 7]).bool(),)]


def positions(mask):
    return (mask.cumsum(-1) - 1).clamp(min=0)


# --- what was sampled ------------------------------------------------------------------------------------------------


def scored():
    """(logits, tokens, mask, temperature): rows of prompt and response; logits at a place are for the *next* token."""
    shown = torch.tensor([[[2.0, 0.0, -1.0], [0.0, 1.0, 3.0], [1.0, 1.0, -2.0], [0.5, 0.0, 0.0]]])
    grid = torch.arange(120.0).view(3, 8, 5)
    tokens = (torch.arange(24).view(3, 8) * 7) % 5
    mask = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 1], [0, 0, 0, 1, 1, 0, 0, 0], [0, 1, 1, 1, 1, 1, 1, 0]]).bool()
    return [
        (shown, torch.tensor([[0, 2, 1, 0]]), torch.tensor([[0, 0, 1, 1]]).bool(), 0.5),
        ((grid * 1.3).sin() * 3, tokens, mask, 0.7),
        ((grid * 0.7).cos().double() * 200, tokens, mask, 2.0),
        ((grid * 7 % 5) * 60, tokens, mask, 1.0),
    ]


def score(logits, tokens, mask, temperature):
    return placed((logits / temperature).log_softmax(-1), tokens, mask)


def placed(scores, tokens, mask, shift=True):
    """Each token's own score, at its own place; nothing predicts the first one."""
    if not shift:
        return scores.gather(-1, tokens[..., None]).squeeze(-1) * mask
    found = scores[:, :-1].gather(-1, tokens[:, 1:, None]).squeeze(-1)
    return torch.nn.functional.pad(found, (1, 0)) * mask


def logs_where(mask, scores, tokens):
    """As `placed`, with the mask by choice and not by a product, which makes nan of −∞."""
    return placed(scores, tokens, torch.ones_like(mask)).where(mask, 0)


def one_place_early(logits, tokens, mask, temperature):
    """The right numbers, each at the place that predicts, which for the first token is the prompt's last one."""
    scores = (logits / temperature).log_softmax(-1)
    found = scores[:, :-1].gather(-1, tokens[:, 1:, None]).squeeze(-1)
    return torch.nn.functional.pad(found, (0, 1)) * mask


# --- the verifier ----------------------------------------------------------------------------------------------------

STRICT = (
    "9 * 2 = 18. #### 18",
    "<think> 9 * 2 = 18. </think> <answer> 18 </answer>",
    "#### 1,080",
    "#### -7",
    "#### 18.0",
    "#### 2.50",
    "#### $18.00",
    "#### 18 dollars",
    "#### 18.",
    "#### 12\nNo, I forgot one.\n#### 18",
    "#### 18\nThat is 3 more than 15.",
    "<think> #### 18\n</think> I don't know.",
    "<think> #### 18 </think> I don't know.",
    "<think> 9 * 2 = 18. #### 18",
    "<think> 9 * 2 </think> #### 18 <think> Yes. </think>",
    "#### 1,8",
    "<answer>\n18\n</answer>",
    "The answer is 18.",
    "",
)
LENIENT = (
    "The answer is 18.",
    "#### $18.00",
    "So she earns $1,080 in all.",
    "The answer is -7.",
    "In the end there are **18** apples left.",
    "<answer> 18% </answer>",
    "#### 18 dollars",
    "#### 18 or 20",
    "#### 18.00, that is 18",
    "#### -$5",
    "#### 12\nNo, I forgot one.\n#### 18",
    "<answer> 18 </answer> It was 3 before.",
    "The answer is $2.50. It was 3 before.",
    "<think> It is 18. </think> I don't know.",
    "<think> It is 18.",
    "She has 18 apples, sells 3 and keeps 15.",
    "The answer is 18. It was 3 before.",
    "12 + 6 = 18",
    "#### 18\nThat is 3 more than 15.",
    "I don't know.",
    "",
)
FORMATS = (
    "<think> 9 + 9 = 18. </think> <answer> 18 </answer>",
    "<think> 9 + 9 = 20. </think>\n<answer> 20 </answer>\n",
    "<think> 9 + 9\n= 18. </think><answer>18</answer>",
    "9 + 9 = 18. #### 18",
    "<answer> 18 </answer> <think> 9 + 9 = 18. </think>",
    "<think> 9 + 9 = 18. </think> <answer> </answer>",
    "<think></think> <answer> 18 </answer>",
    "<think> 9 + 9 = 18. </think> <answer> 18 </answer> I am sure.",
    "Well. <think> 9 + 9 = 18. </think> <answer> 18 </answer>",
    "<think> 9 + 9 = 18. </think> so <answer> 18 </answer>",
    "<think> 9. </think> <answer> 18 </answer> <answer> 20 </answer>",
    "<think> 9. </think> <think> 9. </think> <answer> 18 </answer>",
    "<think> How many? </think> <answer> not many </answer>",
    "<think> 9 + 9 = 18. <answer> 18 </answer>",
    "<THINK> 9 + 9 = 18. </THINK> <ANSWER> 18 </ANSWER>",
    "",
)
PAIRS = (
    ("18", "18"),
    ("180", "18"),
    ("18", "180"),
    ("18.0", "18"),
    ("1080", "1,080"),
    ("-7", "7"),
    ("2.5", "2.50"),
    ("9007199254740993", "9007199254740992"),
    ("", "18"),
    (None, "18"),
    ("eighteen", "18"),
    ("eighteen", "eighteen"),
)
ONE_NUMBER = re.compile(r"[+-]?\$?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?")


def strict(text):
    return verify.extract_answer(text, "strict")


def lenient(text):
    return verify.extract_answer(text, "lenient")


def one_way(number):
    """A number's string, written the one way: no commas, no dollar, no plus, no zeros at the end."""
    if number is None:
        return None
    plain = number.replace(",", "").replace("$", "").lstrip("+")
    return plain.rstrip("0").rstrip(".") if "." in plain else plain


CLOSED = re.compile(r"<think>.*?</think>", re.S)


def marked(text, *, think=True, last=True, dotall=True, line=r"####([^\n]*)", tidy=str.strip):
    """What stands after a #### or in an <answer>; None where there is neither."""
    if think:
        text = re.sub(r"<think>.*?(</think>|$)", " ", text, flags=re.S)
    found = re.findall(line + r"|<answer>(.*?)</answer>", text, flags=re.S if dotall else 0)
    fields = [tidy("".join(each)) for each in found]
    return text, (fields[-1 if last else 0] if fields else None)


def strict_variant(
    text, *, bare=r"[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?", write=one_way, search=False, fits=re.fullmatch, **where
):
    """The strict reading with one rule exchanged."""
    _, field = marked(text, **where)
    found = (re.search if search else fits)(bare, field or "")
    return write(found[0]) if found else None


def last_number(text, pick=-1, think=True):
    """The text's last number outside the thinking, whatever stands before it."""
    found = ONE_NUMBER.findall(marked(text, think=think)[0])
    return one_way(found[pick]) if found else None


UNSIGNED = re.compile(r"\$?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?")


def lenient_variant(
    text,
    *,
    number=ONE_NUMBER,
    write=one_way,
    pick=-1,
    agree=True,
    claim=True,
    ends=r"[.!?](?=\s|$)",
    twice=False,
    everywhere=False,
    only_marked=False,
    **where,
):
    """The lenient reading with one rule exchanged."""
    text, field = marked(text, **where)
    if field is None and claim and "answer is" in text:
        field = re.split(ends, text.split("answer is")[-1])[0]
    found = [write(each) for each in number.findall(text if field is None else field)]
    different = len(found if twice else set(found)) > 1
    if agree and (everywhere or field is not None) and different:
        return None
    return found[-1 if only_marked and field is None else pick] if found else None


def same_number(answer, gold):
    one, other = (None if text is None else verify.as_number(text) for text in (answer, gold))
    return one is not None and one == other


def number_variant(answer, gold, kind):
    try:
        return kind(answer.replace(",", "")) == kind(gold.replace(",", ""))
    except (AttributeError, ValueError, InvalidOperation):
        return False


def truth(answer, *inputs):
    """A match counts as true, None as false."""
    return bool(answer(*inputs))


def tags(text, pattern, flags=re.S):
    return re.fullmatch(pattern, text.strip(), flags) is not None


def once_each(text):
    return all(text.count(tag) == 1 for tag in TAGS)


TAGS = ("<think>", "</think>", "<answer>", "</answer>")
GREEDY = r"<think>(?=.*\S.*</think>).*\S\s*</think>\s*<answer>.*\S\s*</answer>"
THOUGHT, ANSWER = (
    r"<think>((?!</?think>|</?answer>).)*\S\s*</think>",
    r"<answer>((?!</?think>|</?answer>).)*\S\s*</answer>",
)

# --- how good --------------------------------------------------------------------------------------------------------


def counted():
    """(right answers of each problem, samples, k): the last with binomial coefficients beyond any float."""
    counts = torch.tensor([0, 1, 3, 4]), torch.tensor([5, 0, 10, 1, 7]), torch.tensor([1, 50, 195, 0, 200])
    return [(counts[0], 4, 2), (counts[1], 10, 5), (counts[2], 200, 10), (torch.tensor([1, 2]), 2000, 1000)]


def pass_at_k(correct, samples, k):
    return evaluate.pass_at_k(correct, samples, k).float()


def of_each(chance):
    """A formula of c, n and k, for every problem."""
    return lambda correct, n, k: torch.tensor([float(chance(c, n, k)) for c in correct.tolist()])


def in_floats(n, k):
    """C(n, k) by factorials as floats, which end at 170!."""
    made = [float(math.factorial(each)) for each in (n, k, max(n - k, 0))]
    return 0.0 if k > n else made[0] / made[1] / made[2]


def by_lgamma(correct, samples, k):
    """exp of a difference of log-factorials, in float32."""
    wrong = samples - correct.float()
    logs = [torch.lgamma(n + 1) - torch.lgamma((n - k).clamp(min=0) + 1) for n in (wrong, torch.tensor(float(samples)))]
    return torch.where(wrong < k, 1.0, 1 - (logs[0] - logs[1]).exp())


def votes():
    """(answers, gold, k): ties, answers that are none, a gold that nobody gives."""
    return [
        (["18", "18", "20"], "18", 2),
        (["7", "7", None, None, None, "5", "5", "3"], "7", 4),
        (["1", "2", "3", "1", "4"], "1", 5),
        (["5", "4", "4", "5", "6", None], "4", 3),
        (["4", None, "4"], "5", 2),
        ([None, None], "1", 1),
    ]


def share(answers, gold, *, tie="shared", silent=None, most=False):
    """What one vote is worth: 1, 0, or a part of a tie."""
    voting = [answer for answer in answers if silent or answer is not None]
    counts = {answer: voting.count(answer) for answer in voting}
    mine, best = counts.get(gold, 0), max(counts.values(), default=0)
    if not mine or mine < best or (most and 2 * mine <= len(answers)):
        return Fraction(0)
    rivals = sum(count == best for count in counts.values())
    first = max(counts, key=counts.get) == gold
    worth = {
        "shared": Fraction(1, rivals),
        "won": 1,
        "lost": rivals == 1,
        "first": first,
        "half": Fraction(1, 1 + (rivals > 1)),
    }
    return Fraction(worth[tie])


def majority(answers, gold, k, draws=combinations, **rules):
    found = [share(draw, gold, **rules) for draw in draws(answers, k)]
    return float(sum(found) / len(found)) if found else 0.0


def mean_over(answers, k, worth):
    found = [worth(draw) for draw in combinations(answers, k)]
    return sum(found) / len(found)


def finals():
    """The last values of two settings in the same seeds: one clearly ahead, the other, and a tie within noise."""
    one = torch.tensor([0.80, 0.84, 0.79, 0.83])
    return [
        (one, torch.tensor([0.70, 0.72, 0.71, 0.69])),
        (torch.tensor([0.3, 0.5, 0.4]), torch.tensor([0.35, 0.62, 0.31])),
        (torch.tensor([0.1, 0.5, 0.9, 0.3, 0.7]), torch.tensor([0.2, 0.61, 0.98, 0.41, 0.79])),
        (torch.tensor([0.61, 0.50, 0.40]), torch.tensor([0.50, 0.44, 0.35])),
        (torch.tensor([0.70, 0.72, 0.71]), torch.tensor([0.80, 0.84, 0.79])),
    ]


def better(one, other, *, t=improving.T, ddof=1, root=math.sqrt, take=None, paired=True, spread=None, side=None):
    """(mean difference, half of its 95 % interval, "first", "second" or None)."""
    gaps, n = (one - other).double(), len(one)
    mean = gaps.mean().item() if take is None else take(one, other)
    width = gaps.std(correction=ddof).item() if spread is None else spread(gaps).item()
    if not paired:
        width = math.sqrt(one.double().var().item() + other.double().var().item())
    half = t(n) * width / root(n)
    winner = None if abs(mean) <= half else "first" if mean > 0 else "second"
    return mean, half, winner if side is None else side(mean, half)


def overlapping(one, other):
    """A winner only if the two settings' own intervals do not overlap."""
    mean, half, _ = better(one, other)
    widths = [improving.T(len(each)) * each.double().std().item() / math.sqrt(len(each)) for each in (one, other)]
    return mean, half, None if abs(mean) <= sum(widths) else "first" if mean > 0 else "second"


def renamed(names):
    """The right answer, with other names for the winner."""
    return lambda one, other: (*better(one, other)[:2], names.get(better(one, other)[2], better(one, other)[2]))


def compared(one, other):
    mean, half, side = improving.paired(one.tolist(), other.tolist())
    return mean, half, {1: "first", -1: "second", 0: None}[side]


# --- what is trained, and what was run -------------------------------------------------------------------------------


def steps(policy, task, *, learning_rate=1e-3, epochs=1, prompts=4, group=4):
    """A few steps of GRPO."""
    from minirl.train import Config, train

    sizes = {"batch_size": prompts, "group_size": group, "inner_steps": 1, "evaluate_every": 1000}
    return train(policy, task, Config(epochs, **sizes, delta="normalized", learning_rate=learning_rate))


def improved(policy, task, seed):
    list(steps(policy, task, epochs=1000, prompts=16, group=8))


def on_a_copy(policy, task, seed):
    import copy

    list(steps(copy.deepcopy(policy), task))


def on_the_test(policy, task, seed):
    task.sample = lambda batch_size, generator=None: task.held_out()
    list(steps(policy, task))


def for_the_format(policy, task, seed):
    task.weights = {"format": 1.0}
    list(steps(policy, task))


def record(
    first, second, *, question="Which of the two learns faster?", winner="this", difference=None, metric="right"
):
    """An experiment's record with these last values."""
    runs = {
        name: [[{"epoch": 1, "right": 0.1}, {"epoch": 2, "right": value}] for value in values]
        for name, values in {"this": first, "that": second}.items()
    }
    mean = sum(first) / len(first) - sum(second) / max(len(second), 1) if difference is None else difference
    claim = {"winner": winner, "difference": mean}
    return {"question": question, "metric": metric, "runs": runs, "compared": ("this", "that"), "claim": claim}


CLEAR = (0.5, 0.52, 0.53), (0.4, 0.41, 0.44)
ALONE = record(*CLEAR) | {"runs": {"this": record(*CLEAR)["runs"]["this"]}}

QUESTIONS = {
    question.id: question
    for question in (
        Question(
            "a4.q1a",
            "the prompt's mask",
            1,
            prompt_mask,
            prompts,
            (
                Mistake(
                    "a padding token *inside* a prompt belongs to it; only what stands in front of its first token is "
                    "padding.",
                    lambda p, pad: p != pad,
                ),
                Mistake(
                    "the mask is turned round: True is for the prompt.",
                    lambda p, pad: (p != pad).cumsum(-1) == 0,
                    (lambda p, pad: p == pad,),
                ),
                Mistake(
                    "you count down the batch; the places of a row are the last axis.",
                    lambda p, pad: (p != pad).cumsum(0) > 0,
                ),
                Mistake(
                    "the padding token is not always 0: compare with pad_id.",
                    lambda p, pad: p != 0,
                    (lambda p, pad: (p != 0).cumsum(-1) > 0,),
                ),
                Mistake(
                    "these are counts; a mask is True wherever the count is above 0.",
                    lambda p, pad: (p != pad).cumsum(-1),
                ),
                Mistake(
                    "you count every padding token of a row; those inside the prompt are no padding.",
                    lambda p, pad: torch.arange(p.shape[-1]) >= (p == pad).sum(-1, keepdim=True),
                ),
                Mistake(
                    "every row begins where the first one does; prompts have different lengths.",
                    lambda p, pad: torch.arange(p.shape[-1]).expand(p.shape) >= (p[0] != pad).int().argmax(),
                ),
                Mistake(
                    "True stops at the first padding token; here the padding comes before the prompt.",
                    lambda p, pad: (p == pad).cumsum(-1) == 0,
                ),
                Mistake(
                    "this is for padding on the right; here it stands on the left.",
                    lambda p, pad: (p != pad).flip(-1).cumsum(-1).flip(-1) > 0,
                ),
                Mistake("the prompt's first token is lost.", lambda p, pad: (p != pad).cumsum(-1) > 1),
                Mistake(
                    "the padding is counted, but not from the left: the mask starts at the wrong place.",
                    lambda p, pad: torch.arange(p.shape[-1]) < (p != pad).sum(-1, keepdim=True),
                ),
                Mistake("everything is True, padding too.", lambda p, pad: torch.ones_like(p, dtype=torch.bool)),
            ),
            "True from the first token on that is no padding: has one been seen up to here?",
            (LanguagePolicy.prompt_mask,),
        ),
        Question(
            "a4.q1b",
            "the response's mask",
            2,
            response_mask,
            responses,
            (
                Mistake(
                    "the first end token is left out, so the policy never learns to stop.",
                    lambda r, end: (r == end).cumsum(-1) == 0,
                ),
                Mistake(
                    "whatever is no end token is inside: the end is lost, and what follows it comes back.",
                    lambda r, end: r != end,
                ),
                Mistake(
                    "you go on to the *second* end token; after the first nobody sampled.",
                    lambda r, end: ((r == end).cumsum(-1) - (r == end).long()) <= 1,
                    (lambda r, end: (r == end).cumsum(-1) <= 1,),
                ),
                Mistake(
                    "you count along the group or the batch; the places of a response are the last axis.",
                    lambda r, end: (r == end).cumsum(1) - (r == end).long() == 0,
                    (
                        lambda r, end: (r == end).cumsum(0) - (r == end).long() == 0,
                        lambda r, end: (r == end).cumsum(1) == 0,
                    ),
                ),
                Mistake(
                    "the mask is turned round: True is up to the first end token, not behind it.",
                    lambda r, end: ~response_mask(r, end),
                    (lambda r, end: (r == end).cumsum(-1) > 0,),
                ),
                Mistake(
                    "roll brings the last place round to the first; nothing stands before the first token.",
                    lambda r, end: (r == end).cumsum(-1).roll(1, -1) == 0,
                ),
                Mistake(
                    "every end token is inside; only the first one is, the others are padding.",
                    lambda r, end: ((r == end).cumsum(-1) == 0) | (r == end),
                ),
                Mistake("the end tokens alone are True; the response before them is inside.", lambda r, end: r == end),
                Mistake(
                    "you look for padding by its number; a response ends with its first end token, whatever follows.",
                    lambda r, end: r != 0,
                ),
                Mistake("you go on to the last end token; the response ends at the first.", last_end),
                Mistake(
                    "a response that was cut off has no end token: all of it counts, not its first token alone.",
                    by_argmax,
                ),
                Mistake(
                    "everything after the first end token is True too.",
                    lambda r, end: torch.ones_like(r, dtype=torch.bool),
                ),
                Mistake(
                    "the mask is one token too long: it ends with the first end token, not behind it.",
                    lambda r, end: torch.nn.functional.pad(response_mask(r, end), (1, 0), value=True)[..., :-1],
                ),
            ),
            "True where no end token stands *before*: count those up to here, and leave the present one out.",
            (rollout.response_mask,),
        ),
        Question(
            "a4.q1c",
            "positions",
            2,
            positions,
            prompt_masks,
            (
                Mistake(
                    "you count from the left edge: a padded prompt then has other positions than the same one alone.",
                    lambda m: torch.arange(m.shape[-1]).expand(m.shape),
                ),
                Mistake(
                    "the first token has position 0, not 1.", lambda m: m.cumsum(-1), (lambda m: m.cumsum(-1) * m,)
                ),
                Mistake(
                    "on the tokens you still count from the left edge: the prompt's first token has position 0.",
                    lambda m: torch.arange(m.shape[-1]) * m,
                ),
                Mistake(
                    "you count down the batch; the places of a row are the last axis.",
                    lambda m: (m.cumsum(0) - 1).clamp(min=0),
                    (lambda m: (m.cumsum(0) - 1) * m,),
                ),
                Mistake(
                    "you count the padding; the tokens are counted.",
                    lambda m: ((~m).cumsum(-1) - 1).clamp(min=0),
                    (lambda m: (~m).cumsum(-1), lambda m: (~m).cumsum(-1) - 1),
                ),
                Mistake(
                    "the padding has position 1, as in some libraries; here it has 0.",
                    lambda m: (m.cumsum(-1) - 1).masked_fill(~m, 1),
                ),
                Mistake("this is the mask as numbers, not a count.", lambda m: m.long()),
                Mistake(
                    "you take off the prompt's length; take off how much padding stands in front.",
                    lambda m: (torch.arange(m.shape[-1]) - m.sum(-1, keepdim=True)).clamp(min=0),
                ),
                Mistake(
                    "the padding has position −1, for which no model has an embedding; 0 does no harm there.",
                    lambda m: m.cumsum(-1) - 1,
                ),
                Mistake(
                    "the padding has negative positions, for which no model has an embedding; 0 does no harm there.",
                    lambda m: torch.arange(m.shape[-1]) - (~m).sum(-1, keepdim=True),
                ),
                Mistake(
                    "you count backwards, from the last token.",
                    lambda m: (m.flip(-1).cumsum(-1).flip(-1) - 1).clamp(min=0),
                ),
                Mistake("every token gets the prompt's length.", lambda m: m.sum(-1, keepdim=True).expand(m.shape)),
            ),
            "How many tokens of the prompt stood before this one: 0, 1, 2, … inside the mask, and 0 on the padding.",
        ),
        Question(
            "a4.q2",
            "scoring what was sampled",
            4,
            score,
            scored,
            (
                Mistake(
                    "off by one: the logits at a place predict the *next* token, so look one place before a token.",
                    lambda z, x, m, tau: placed((z / tau).log_softmax(-1), x, m, shift=False),
                ),
                Mistake(
                    "each number stands where it is predicted; put it where its token is, under that token's mask.",
                    one_place_early,
                    (lambda z, x, m, tau: torch.nn.functional.pad(score(z, x, m, tau)[:, 1:], (0, 1)),),
                ),
                Mistake(
                    "one place is missing: the first token, which nothing predicts, has a place too, with 0.",
                    lambda z, x, m, tau: score(z, x, m, tau)[:, 1:],
                    (lambda z, x, m, tau: score(z, x, m, tau)[:, :-1],),
                ),
                Mistake(
                    "shifted the wrong way: a token is predicted one place *before* it, not after.",
                    lambda z, x, m, tau: placed((z / tau).log_softmax(-1).roll(-1, 1), x, m, shift=False),
                ),
                Mistake(
                    "the mask is not shifted with the tokens: it is the token's own, not the predicting place's.",
                    lambda z, x, m, tau: placed(
                        (z / tau).log_softmax(-1), x, torch.nn.functional.pad(m[:, :-1], (1, 0))
                    ),
                ),
                Mistake(
                    "this is minus the log-prob, a loss; the log-prob itself is 0 or less.",
                    lambda z, x, m, tau: -score(z, x, m, tau),
                ),
                Mistake(
                    "the token with the highest score is taken; asked is the one that was sampled.",
                    lambda z, x, m, tau: placed((z / tau).log_softmax(-1), z.argmax(-1).roll(1, 1), m),
                ),
                Mistake(
                    "one number for each row; leave one for each token.",
                    lambda z, x, m, tau: score(z, x, m, tau).sum(-1),
                    (lambda z, x, m, tau: score(z, x, m, tau).sum(-1) / m.sum(-1),),
                ),
                Mistake(
                    "the logits are detached, or no graph is made: the values are right, and nothing can learn.",
                    lambda z, x, m, tau: score(z.detach(), x, m, tau),
                ),
                Mistake(
                    "a small number inside the log: where a probability is tiny, it replaces it. Use log_softmax.",
                    lambda z, x, m, tau: placed(((z / tau).softmax(-1) + 1e-10).log(), x, m),
                    tuple(
                        (lambda z, x, m, tau, least=least: placed(((z / tau).softmax(-1) + least).log(), x, m))
                        for least in (1e-12, 1e-9, 1e-8, 1e-6)
                    ),
                ),
                Mistake(
                    "the temperature is ignored: this is another distribution than the one that was sampled, and the "
                    "first ratio is not 1.",
                    lambda z, x, m, tau: score(z, x, m, 1.0),
                ),
                Mistake(
                    "the temperature multiplies; it divides the logits, so that a small one makes sure.",
                    lambda z, x, m, tau: score(z, x, m, 1 / tau),
                ),
                Mistake(
                    "you divide the log-probs: they no longer sum to 1 over the vocabulary. Divide the logits first.",
                    lambda z, x, m, tau: placed(z.log_softmax(-1) / tau, x, m),
                ),
                Mistake("these are probabilities.", lambda z, x, m, tau: placed((z / tau).softmax(-1), x, m)),
                Mistake(
                    "the softmax runs over the places; it belongs over the vocabulary, the last axis.",
                    lambda z, x, m, tau: placed((z / tau).log_softmax(1), x, m),
                ),
                Mistake("these are logits; nothing normalises them.", lambda z, x, m, tau: placed(z / tau, x, m)),
                Mistake(
                    "prompt and padding are scored too; outside the mask it is 0.",
                    lambda z, x, m, tau: placed((z / tau).log_softmax(-1), x, torch.ones_like(m)),
                    (
                        lambda z, x, m, tau: placed(
                            (z / tau).log_softmax(-1).roll(1, 1), x, torch.ones_like(m), shift=False
                        ),
                    ),
                ),
                Mistake(
                    "the log of a softmax: where a probability is 0 in floats, its log is −∞. Use log_softmax.",
                    lambda z, x, m, tau: logs_where(m, (z / tau).softmax(-1).log(), x),
                    (
                        lambda z, x, m, tau: placed((z / tau).softmax(-1).log(), x, m),
                        lambda z, x, m, tau: placed((z / tau).float().softmax(-1).log(), x, m),
                    ),
                ),
            ),
            "log_softmax(logits / temperature) over the vocabulary, one place before the token; 0 outside the mask.",
            gradients=(0,),
        ),
        Question(
            "a4.q3a",
            "the strict answer",
            3,
            strict,
            lambda: [(text,) for text in STRICT],
            (
                Mistake("two answers were given: the last one counts.", lambda t: strict_variant(t, last=False)),
                Mistake(
                    "what is only thought is no answer: drop the thinking first.",
                    lambda t: strict_variant(t, think=False),
                ),
                Mistake(
                    "a thought of several lines is not dropped: “.” matches a line break only with re.DOTALL.",
                    lambda t: strict_variant(re.sub(r"<think>.*?(</think>|$)", "", t), think=False),
                ),
                Mistake(
                    "a <think> that is never closed runs to the end of the text; what stands there is only thought.",
                    lambda t: strict_variant(CLOSED.sub("", t), think=False),
                ),
                Mistake(
                    "“.*” takes as much as it can, from the first <think> to the last </think>: write “.*?”.",
                    lambda t: strict_variant(re.sub(r"<think>.*</think>", "", t, flags=re.S), think=False),
                    (lambda t: strict_variant(re.sub(r"<think>.*(</think>|$)", "", t, flags=re.S), think=False),),
                ),
                Mistake(
                    "the dollar sign is taken off; strict wants a bare number, and “$18.00” is none.",
                    lambda t: strict_variant(t.replace("$", "")),
                ),
                Mistake(
                    "a full stop after the number is taken off; strict wants a bare number, and “18.” is none.",
                    lambda t: strict_variant(re.sub(r"\.\s*$", "", t)),
                ),
                Mistake(
                    "the place need only *begin* with a number: fullmatch asks whether all of it is one.",
                    lambda t: strict_variant(t, fits=re.match),
                    (lambda t: strict_variant(re.sub(r"(#### \S+)[^\n]*", r"\1", t)),),
                ),
                Mistake(
                    "what follows a #### is read to the end of the text; its line is enough.",
                    lambda t: strict_variant(t, line=r"####(.*)"),
                ),
                Mistake(
                    "only #### is looked at; an answer may also stand in <answer> … </answer>.",
                    lambda t: strict_variant(re.sub("</?answer>", "", t)),
                ),
                Mistake(
                    "only <answer> is looked at; an answer may also follow a ####.",
                    lambda t: strict_variant(t.replace("####", "")),
                ),
                Mistake(
                    "commas may stand anywhere in your numbers; they part thousands, three digits each.",
                    lambda t: strict_variant(t, bare=r"[+-]?[\d,]+(?:\.\d+)?"),
                    (lambda t: strict_variant(t, bare=r"[+-]?\d[\d,]*(?:\.\d+)?"),),
                ),
                Mistake(
                    "numbers with decimals are lost.",
                    lambda t: strict_variant(t, bare=r"[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)"),
                ),
                Mistake(
                    "numbers with commas are lost.",
                    lambda t: strict_variant(t, bare=r"[+-]?\d+(?:\.\d+)?"),
                ),
                Mistake(
                    "white space around the number is allowed, as after “#### ”: strip the place first.",
                    lambda t: strict_variant(t, tidy=lambda place: place),
                ),
                Mistake(
                    "the answer is a string, not a number: “18”, written the one way.",
                    lambda t: strict_variant(t, write=lambda number: float(number.replace(",", ""))),
                    (
                        lambda t: strict_variant(t, write=lambda number: Fraction(number.replace(",", ""))),
                        lambda t: strict_variant(t, write=lambda number: int(float(number.replace(",", "")))),
                    ),
                ),
                Mistake(
                    "a number is read in part: “1,080” has a comma for thousands.",
                    lambda t: strict_variant(t, bare=r"[+-]?\d+(?:\.\d+)?", search=True),
                ),
                Mistake(
                    "strict wants a bare number: “$18.00”, “18 dollars” and “18.” are lenient's business.",
                    lambda t: strict_variant(t, bare=r"[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?", search=True),
                ),
                Mistake(
                    "equal numbers must be equal strings: 18.0 is 18, and 1,080 is 1080.",
                    lambda t: strict_variant(t, write=lambda number: number),
                ),
                Mistake(
                    "“.” in a pattern does not match a line break, unless you say re.DOTALL: an answer on a line of "
                    "its own is lost.",
                    lambda t: strict_variant(t, dotall=False),
                ),
                Mistake(
                    "the sign is lost, or numbers with a sign are.",
                    lambda t: (strict_variant(t) or "").lstrip("-") or None,
                    (lambda t: strict_variant(t, bare=r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?"),),
                ),
                Mistake(
                    "without a mark there is no strict answer: the text's last number is not one.",
                    lambda t: strict_variant(t) or (re.findall(r"-?\d+", t) or [None])[-1],
                    (
                        lambda t: strict_variant(t) or last_number(t),
                        lambda t: last_number(t),
                    ),
                ),
                Mistake(
                    "where there is no answer, return None and not an empty string.", lambda t: strict_variant(t) or ""
                ),
            ),
            "Drop the thinking; take the last #### line or <answer>; it must be one bare number; write it the one way.",
            (verify.extract_answer, verify.as_number, verify.canonical),
        ),
        Question(
            "a4.q3b",
            "the lenient answer",
            3,
            lenient,
            lambda: [(text,) for text in LENIENT],
            (
                Mistake(
                    "you take the text's *first* number; on the way to an answer there are others.",
                    lambda t: lenient_variant(t, pick=0),
                    (lambda t: last_number(t, 0),),
                ),
                Mistake(
                    "you take the text's last number, whatever is said: first look in the mark and after “answer is”.",
                    last_number,
                    (lambda t: last_number(t, think=False),),
                ),
                Mistake("two answers were given: the last one counts.", lambda t: lenient_variant(t, last=False)),
                Mistake(
                    "a <think> that is never closed runs to the end of the text; what stands there is only thought.",
                    lambda t: lenient_variant(CLOSED.sub("", t), think=False),
                ),
                Mistake(
                    "a full stop inside a number ends no sentence: the right one has white space or nothing behind it.",
                    lambda t: lenient_variant(t, ends=r"[.!?]"),
                ),
                Mistake(
                    "what follows “answer is” is read to the end of the text; its sentence is enough.",
                    lambda t: lenient_variant(t, ends=r"\Z"),
                ),
                Mistake(
                    "the same number twice is one answer: write both the one way, then compare.",
                    lambda t: lenient_variant(t, twice=True),
                ),
                Mistake(
                    "two different numbers are no answer where it is *marked*; anywhere else the last one counts.",
                    lambda t: lenient_variant(t, everywhere=True),
                ),
                Mistake(
                    "only #### is looked at; an answer may also stand in <answer> … </answer>.",
                    lambda t: lenient_variant(re.sub("</?answer>", "", t)),
                ),
                Mistake(
                    "where the strict answer fails, you take the text's last number: look in the mark itself, and "
                    "after “answer is”.",
                    lambda t: strict_variant(t) or last_number(t),
                ),
                Mistake(
                    "numbers are cut off at the decimal point.",
                    lambda t: lenient_variant(t, number=re.compile(r"-?\$?(?:\d{1,3}(?:,\d{3})+|\d+)")),
                    (lambda t: lenient_variant(t, number=re.compile(r"-?\$?(?:\d{1,3}(?:,\d{3})+|\d+)"), agree=False),),
                ),
                Mistake(
                    "what is only thought is no answer: drop the thinking first.",
                    lambda t: lenient_variant(t, think=False),
                ),
                Mistake(
                    "a number is read in part: in “1,080” the comma belongs to it.",
                    lambda t: lenient_variant(t, number=re.compile(r"[+-]?\$?\d+(?:\.\d+)?"), agree=False),
                    (lambda t: lenient_variant(t, number=re.compile(r"[+-]?\$?\d+(?:\.\d+)?")),),
                ),
                Mistake(
                    "two numbers in one place are no answer: “18 or 20” is a guess twice.",
                    lambda t: lenient_variant(t, agree=False),
                    (
                        lambda t: lenient_variant(t) or last_number(t),
                        lambda t: lenient_variant(t, agree=False, pick=0, only_marked=True),
                        lambda t: lenient_variant(t, agree=False, pick=0),
                    ),
                ),
                Mistake(
                    "“The answer is 18.” says what the answer is; a number after it does not change that.",
                    lambda t: lenient_variant(t, claim=False),
                ),
                Mistake(
                    "the sign is lost.",
                    lambda t: (lenient_variant(t) or "").lstrip("-") or None,
                    (
                        lambda t: lenient_variant(t, number=UNSIGNED),
                        lambda t: lenient_variant(t, number=re.compile(rf"-?{UNSIGNED.pattern[3:]}")),
                    ),
                ),
                Mistake(
                    "equal numbers must be equal strings: $18.00 is 18, and 1,080 is 1080.",
                    lambda t: lenient_variant(t, write=lambda number: number and number.replace("$", "")),
                    (
                        lambda t: lenient_variant(t, write=str),
                        lambda t: lenient_variant(t, write=lambda number: number.replace(",", "").replace("$", "")),
                    ),
                ),
                Mistake(
                    "where there is no answer, return None and not an empty string: two of those would be equal.",
                    lambda t: lenient_variant(t) or "",
                ),
                Mistake("this is still strict: a number in its dress is a number.", strict_variant),
            ),
            "Drop the thinking; look in the last mark, else after “answer is”, else for the last number; undress it.",
            (verify.extract_answer, verify.as_number, verify.canonical),
        ),
        Question(
            "a4.q3c",
            "the same number",
            2,
            same_number,
            lambda: list(PAIRS),
            (
                Mistake(
                    "as strings, 18.0 and 18 differ, and so do 1080 and 1,080: right answers are lost.",
                    lambda a, g: a == g,
                ),
                Mistake(
                    "a part is not the whole: 18 is in 180, and nothing is in everything.",
                    lambda a, g: (a or "") in g,
                    (lambda a, g: a is not None and a in g,),
                ),
                Mistake(
                    "what is no number equals nothing, not even itself: equal texts are not enough.",
                    lambda a, g: a == g or same_number(a, g),
                    (lambda a, g: a is not None and one_way(a) == one_way(g),),
                ),
                Mistake(
                    "a text that is no number, or None, is a wrong answer and no error: catch what Fraction raises.",
                    lambda a, g: Fraction(a.replace(",", "")) == Fraction(g.replace(",", "")),
                    (
                        lambda a, g: a is not None and Fraction(a.replace(",", "")) == Fraction(g.replace(",", "")),
                        lambda a, g: float(a.replace(",", "")) == float(g.replace(",", "")),
                        lambda a, g: a is not None and float(a.replace(",", "")) == float(g.replace(",", "")),
                        lambda a, g: Decimal(a.replace(",", "")) == Decimal(g.replace(",", "")),
                        lambda a, g: a is not None and Decimal(a.replace(",", "")) == Decimal(g.replace(",", "")),
                    ),
                ),
                Mistake("a part is not the whole: 180 contains 18.", lambda a, g: g in (a or "")),
                Mistake(
                    "floats have 53 bits: two large numbers that differ become equal. Compare exactly.",
                    lambda a, g: number_variant(a, g, float),
                ),
                Mistake("the sign is lost.", lambda a, g: number_variant((a or "").lstrip("-"), g, Decimal)),
                Mistake("no answer is not a right answer.", lambda a, g: not a or number_variant(a, g, Decimal)),
                Mistake(
                    "the comma for thousands is not removed.",
                    lambda a, g: "," not in (a or "") + g and number_variant(a, g, Decimal),
                ),
                Mistake("only whole numbers are compared.", lambda a, g: number_variant(a, g, int)),
            ),
            "Read both as exact numbers, for example with Fraction or Decimal; what is no number equals nothing.",
            (verify.as_number, verify.canonical, verify.is_correct, verify.extract_answer),
            call=truth,
        ),
        Question(
            "a4.q3d",
            "the format",
            2,
            verify.has_format,
            lambda: [(text,) for text in FORMATS],
            (
                Mistake(
                    "you ask whether the tags are there, not in which order and what stands around them.",
                    lambda t: all(tag in t for tag in TAGS),
                    (once_each,),
                ),
                Mistake(
                    "text before or after is let through: search finds the format in the midst of anything.",
                    lambda t: re.search(rf"{THOUGHT}\s*{ANSWER}", t, re.S) and t.count("<answer>") == 1,
                    (lambda t: re.search(rf"{THOUGHT}\s*{ANSWER}", t, re.S) and once_each(t),),
                ),
                Mistake(
                    "text after the answer is let through: match asks only how a text begins. Use fullmatch.",
                    lambda t: re.match(rf"\s*{THOUGHT}\s*{ANSWER}", t, re.S) and once_each(t),
                    (lambda t: re.match(rf"\s*{THOUGHT}\s*{ANSWER}", t, re.S),),
                ),
                Mistake(
                    "you look at how the text begins and ends, not at what stands in between.",
                    lambda t: t.strip().startswith("<think>") and t.strip().endswith("</answer>"),
                ),
                Mistake(
                    "white space alone is nothing: strip what is in the tags before you ask whether it is empty.",
                    lambda t: once_each(t) and tags(t, r"<think>.+</think>\s*<answer>.+</answer>"),
                ),
                Mistake(
                    "whether the answer is a number, or one word, is not asked here.",
                    lambda t: verify.has_format(t) and strict_variant(t) is not None,
                    (lambda t: once_each(t) and tags(t, rf"{THOUGHT}\s*<answer>\s*\S+\s*</answer>"),),
                ),
                Mistake(
                    "several thoughts pass: each tag once.",
                    lambda t: tags(t, rf"(?:{THOUGHT}\s*)+{ANSWER}"),
                ),
                Mistake(
                    "“.” does not match a line break unless you say re.DOTALL: thoughts of several lines are rejected.",
                    lambda t: tags(t, rf"{THOUGHT}\s*{ANSWER}", 0),
                ),
                Mistake(
                    "an empty thought or answer passes: a policy soon finds that out.",
                    lambda t: tags(t, r"<think>((?!<).)*</think>\s*<answer>((?!<).)*</answer>"),
                ),
                Mistake(
                    "several answers pass, and one of them may be right: each tag once.",
                    lambda t: tags(t, rf"{THOUGHT}\s*(?:{ANSWER}\s*)+"),
                ),
                Mistake(
                    "“.*” takes other tags along, so several thoughts or answers pass: count each tag.",
                    lambda t: tags(t, GREEDY),
                ),
                Mistake(
                    "between thinking and answer there is other text; only white space may stand there.",
                    lambda t: tags(t, rf"{THOUGHT}[^<]*{ANSWER}"),
                ),
                Mistake(
                    "tags in capitals are other tokens, which no verifier looks for.",
                    lambda t: tags(t.lower(), rf"{THOUGHT}\s*{ANSWER}"),
                    (lambda t: tags(t.lower(), GREEDY),),
                ),
                Mistake(
                    "white space around the tags is no fault: allow it at both ends and in between.",
                    lambda t: re.fullmatch(rf"{THOUGHT} {ANSWER}", t, re.S),
                    (
                        lambda t: tags(t, rf"{THOUGHT} {ANSWER}"),
                        lambda t: re.fullmatch(rf"{THOUGHT}\s*{ANSWER}", t, re.S),
                    ),
                ),
            ),
            "One thought, then one answer, each in its tags and not empty; nothing but white space around them.",
            (verify.has_format,),
            call=truth,
        ),
        Question(
            "a4.q4a",
            "pass@k",
            3,
            pass_at_k,
            counted,
            (
                Mistake(
                    "1 − (1 − c/n)^k is biased downwards: it draws the same sample twice. Draw without replacement.",
                    lambda c, n, k: 1 - (1 - c / n) ** k,
                ),
                Mistake("this is pass@1: k is not used.", lambda c, n, k: c / n),
                Mistake(
                    "this is the chance that all k are wrong; asked is the opposite.",
                    lambda c, n, k: 1 - pass_at_k(c, n, k),
                ),
                Mistake(
                    "this is the chance that all k are right; one right answer is enough.",
                    lambda c, n, k: 1 - pass_at_k(n - c, n, k),
                ),
                Mistake(
                    "k·c/n counts a draw with two right answers twice.",
                    lambda c, n, k: (k * c / n).clamp(max=1),
                    (lambda c, n, k: k * c / n,),
                ),
                Mistake(
                    "one right sample of n gives you 1, as “//” does for /; it must be among the k that are drawn.",
                    lambda c, n, k: (c > 0).float(),
                    (of_each(lambda c, n, k: 1 - math.comb(n - c, k) // math.comb(n, k)),),
                ),
                Mistake("k right answers are not needed: one of the k is enough.", lambda c, n, k: (c >= k).float()),
                Mistake(
                    "this is the chance that exactly one of the k is right; more are welcome.",
                    of_each(lambda c, n, k: Fraction(c * math.comb(n - c, k - 1), math.comb(n, k))),
                ),
                Mistake(
                    "the wrong binomial coefficients: all k are wrong in C(n − c, k) of C(n, k) choices.",
                    of_each(lambda c, n, k: 1 - Fraction(math.comb(c, k), math.comb(n, k))),
                    (
                        of_each(lambda c, n, k: 1 - Fraction(math.comb(n - c, k), math.comb(n, n - c))),
                        of_each(lambda c, n, k: 1 - Fraction(math.comb(n - k, c), math.comb(n, k))),
                        of_each(lambda c, n, k: 1 - Fraction(math.comb(n - c, k), math.comb(n, c))),
                    ),
                ),
                Mistake(
                    "lgamma in float32 loses the digits that count: differences of large logs. Divide whole numbers.",
                    by_lgamma,
                ),
                Mistake(
                    "with fewer than k wrong answers, one of the k must be right: pass@k is 1, not more and not nan.",
                    lambda c, n, k: torch.where(n - c < k, torch.nan, pass_at_k(c, n, k)),
                ),
                Mistake("one number for all problems; return one for each.", lambda c, n, k: pass_at_k(c, n, k).mean()),
                Mistake(
                    "C(2000, 1000) has 601 digits and is infinite as a float: divide whole numbers, or use a product.",
                    lambda c, n, k: (
                        torch.full_like(c, torch.nan, dtype=torch.float) if n > 1000 else pass_at_k(c, n, k)
                    ),
                    (
                        of_each(lambda c, n, k: 1 - in_floats(n - c, k) / in_floats(n, k)),
                        of_each(lambda c, n, k: 1 - float(math.comb(n - c, k)) / float(math.comb(n, k))),
                    ),
                ),
            ),
            "1 − C(n − c, k)/C(n, k): the chance that not all of k different samples are wrong.",
            (evaluate.pass_at_k,),
            tolerance=1e-4,
        ),
        Question(
            "a4.q4b",
            "maj@k",
            3,
            lambda answers, gold, k: evaluate.maj_at_k(answers, gold, k),
            votes,
            (
                Mistake("a tie for the first place is shared, not won.", lambda *a: majority(*a, tie="won")),
                Mistake("a tie for the first place is shared, not lost.", lambda *a: majority(*a, tie="lost")),
                Mistake(
                    "of equals, the answer that was given first wins everything; a tie for the first place is shared.",
                    lambda *a: majority(*a, tie="first"),
                ),
                Mistake(
                    "a tie is always worth ½; among three it is ⅓.",
                    lambda *a: majority(*a, tie="half"),
                ),
                Mistake(
                    "all answers vote, whatever k; average over every choice of k of them.",
                    lambda answers, gold, k: float(share(answers, gold)),
                ),
                Mistake(
                    "equal choices count once; every choice of k samples counts, with equal answers one by one.",
                    lambda *a: majority(*a, draws=lambda pool, k: set(combinations(pool, k))),
                ),
                Mistake(
                    "equal answers are taken together before the choice, so nothing has more than one vote.",
                    lambda *a: majority(*a, draws=lambda pool, k: combinations(set(pool), k)),
                ),
                Mistake(
                    "you cut the answers into groups of k; average over every choice of k.",
                    lambda *a: majority(
                        *a, draws=lambda pool, k: [pool[start : start + k] for start in range(0, len(pool), k)]
                    ),
                ),
                Mistake(
                    "one vote is enough: this is pass@k. The winner has the most votes.",
                    lambda answers, gold, k: mean_over(answers, k, lambda draw: gold in draw),
                ),
                Mistake(
                    "this is the share of the votes, not who wins the vote.",
                    lambda answers, gold, k: mean_over(
                        answers, k, lambda draw: draw.count(gold) / max(len(draw) - draw.count(None), 1)
                    ),
                ),
                Mistake(
                    "None is no answer: it takes a place among the k and does not vote.",
                    lambda *a: majority(*a, silent=True),
                ),
                Mistake(
                    "you take the Nones out before drawing; they are samples, and some of the k are of their kind.",
                    lambda answers, gold, k: majority([each for each in answers if each is not None], gold, k),
                ),
                Mistake(
                    "you vote among the first k answers only; average over every choice of k.",
                    lambda answers, gold, k: float(share(answers[:k], gold)),
                ),
                Mistake(
                    "this is the share of right answers; a majority can be right where most single answers are not.",
                    lambda answers, gold, k: sum(each == gold for each in answers) / len(answers),
                ),
                Mistake(
                    "the most frequent answer wins; it need not have more than half of the votes.",
                    lambda *a: majority(*a, most=True),
                ),
                Mistake(
                    "the same sample is drawn twice: draw k different ones.",
                    lambda answers, gold, k: majority(
                        answers, gold, k, draws=lambda pool, size: with_replacement(pool, repeat=size)
                    ),
                ),
            ),
            "For every choice of k answers: the most frequent one but for None; 1/ties where gold is among the first.",
            (evaluate.maj_at_k,),
        ),
        Question(
            "a4.q5",
            "GRPO on the pocket model",
            6,
            improved,
            None,
            (
                Mistake(improving.NOT_ITERATED, lambda policy, task, seed: steps(policy, task)),
                Mistake(improving.NOTHING, lambda policy, task, seed: []),
                Mistake(improving.A_COPY, on_a_copy),
                Mistake(improving.ON_THE_TEST, on_the_test),
                Mistake(
                    improving.WORSE, lambda policy, task, seed: list(steps(policy, task, learning_rate=1.0, group=8))
                ),
                Mistake(improving.FORMAT_ALONE, for_the_format),
                Mistake(
                    improving.HARDLY_MOVED, lambda policy, task, seed: list(steps(policy, task, learning_rate=1e-6))
                ),
                Mistake(improving.FEW, lambda policy, task, seed: list(steps(policy, task))),
            ),
            "Let minirl's train, or a loop of your own, run over task with a Config of your choice; notebook 05 has "
            "one that works.",
            look=improving.improves(),
        ),
        Question(
            "a4.q6a",
            "which one is better",
            2,
            compared,
            finals,
            (
                Mistake(
                    "the mean alone names a winner: where the interval includes 0, there is none.",
                    lambda a, b: (*better(a, b)[:2], "first" if better(a, b)[0] > 0 else "second"),
                ),
                Mistake(
                    "1.96 is for many seeds; for few, Student's t asks for more (4.303 for three seeds).",
                    lambda a, b: better(a, b, t=lambda n: 1.96),
                ),
                Mistake(
                    "this is the spread of single seeds; that of their mean is smaller by √n.",
                    lambda a, b: better(a, b, root=lambda n: 1),
                ),
                Mistake(
                    "you divide by n; the spread of a mean is smaller by √n.",
                    lambda a, b: better(a, b, root=lambda n: n),
                ),
                Mistake(
                    "t is missing: this is the standard error, and the interval is t of them on each side.",
                    lambda a, b: better(a, b, t=lambda n: 1),
                ),
                Mistake(
                    "t belongs to n − 1: 4.303 for three seeds, 3.182 for four, 2.776 for five.",
                    lambda a, b: better(a, b, t=lambda n: improving.T(n + 1)),
                    (lambda a, b: better(a, b, t=lambda n: 4.303), lambda a, b: better(a, b, t=lambda n: 2.776)),
                ),
                Mistake(
                    "this is the whole width; *half* of the interval is asked for.",
                    lambda a, b: better(a, b, t=lambda n: 2 * improving.T(n), side=lambda *_: better(a, b)[2]),
                    (lambda a, b: better(a, b, t=lambda n: 2 * improving.T(n)),),
                ),
                Mistake(
                    "this is the variance; its root, the standard deviation, has the units of the metric.",
                    lambda a, b: better(a, b, spread=torch.var),
                ),
                Mistake(
                    "that two intervals overlap does not decide; ask whether that of the *difference* includes 0.",
                    overlapping,
                ),
                Mistake(
                    "the winner is the other one: higher is better.", renamed({"first": "second", "second": "first"})
                ),
                Mistake(
                    "only the first can win with you; below 0 and outside the interval it is the second.",
                    renamed({"second": None}),
                ),
                Mistake(
                    "None is no name: return None itself, without quotes.",
                    renamed({None: "None"}),
                    (renamed({None: ""}),),
                ),
                Mistake(
                    "the winner is a word: “first”, “second”, or None.",
                    renamed({"first": 0, "second": 1}),
                    (renamed({"first": 1, "second": 2}), renamed({"first": True, "second": False})),
                ),
                Mistake(
                    "the differences have lost their signs: seeds may disagree about which one is better.",
                    lambda a, b: better((a - b).abs(), 0 * b),
                ),
                Mistake(
                    "you divide by n in the standard deviation; from few seeds that is too small: n − 1.",
                    lambda a, b: better(a, b, ddof=0),
                ),
                Mistake(
                    "you compare the best seeds; that rewards whoever was luckier.",
                    lambda a, b: better(a, b, take=lambda a, b: (a.max() - b.max()).item()),
                ),
                Mistake("the sign is turned round: first less second.", lambda a, b: better(b, a)),
                Mistake(
                    "the same seed in both is a pair: what it does to both cancels in their difference.",
                    lambda a, b: better(a, b, paired=False),
                ),
            ),
            "The differences seed by seed: their mean, t·std/√n, and a winner only if 0 lies outside.",
            tolerance=1e-3,
        ),
        Question(
            "a4.q6b",
            "an experiment of your own",
            4,
            lambda: record(*CLEAR),
            None,
            (
                Mistake(improving.NO_QUESTION, lambda: record(*CLEAR, question="group size")),
                Mistake(improving.ONE_SETTING, lambda: ALONE),
                Mistake(improving.FEW_SEEDS, lambda: record((0.5, 0.52), (0.4, 0.41))),
                Mistake(improving.UNEVEN, lambda: record((0.5, 0.52, 0.53, 0.51), CLEAR[1])),
                Mistake(improving.SAME_RUN, lambda: record((0.5, 0.5, 0.5), CLEAR[1])),
                Mistake(improving.NO_METRIC, lambda: record(*CLEAR, metric="left")),
                Mistake(improving.NOT_RECORDED, lambda: record(*CLEAR, difference=0.5)),
                Mistake(improving.NOT_DECIDED, lambda: record((0.5, 0.3, 0.45), CLEAR[1], winner="that")),
                Mistake(improving.WRONG_WINNER, lambda: record(*CLEAR, winner="that")),
            ),
            "A function that runs at least two settings with at least three seeds each and returns the record: "
            "question, metric, runs, compared, claim.",
            look=improving.look_at_experiment,
        ),
    )
}
