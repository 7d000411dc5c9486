"""Assignment 5, Qwen on GSM8K: the questions' right answers, inputs and known mistakes."""

import re
import weakref
from functools import cache
from itertools import product
from statistics import fmean, median
from types import SimpleNamespace

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint

from minirl import deltas, losses, train
from minirl.course import handin
from minirl.course.questions import Mistake, Question
from minirl.llm import gsm8k, pocket, verify
from minirl.llm.policy import LanguagePolicy
from minirl.llm.task import LanguageTask, left_pad
from minirl.rollout import Rollout, response_mask

# --- a prompt in the model's own form --------------------------------------------------------------------------------


@cache
def tokenizers():
    """The pocket model's, made like Qwen's; and the same with a start token that it puts in front of every text."""
    from tokenizers.processors import TemplateProcessing
    from transformers import AutoTokenizer

    plain, started = (AutoTokenizer.from_pretrained(pocket.path("base")) for _ in range(2))
    started.add_special_tokens({"bos_token": "<s>"})
    backend, start = started.backend_tokenizer, [("<s>", started.bos_token_id)]
    backend.post_processor = TemplateProcessing(single="<s> $A", special_tokens=start)
    started.chat_template = "{{ bos_token }} " + plain.chat_template
    return plain, started


def asked():
    """Questions of several lengths, the system's message, and a tokenizer."""
    plain, started = tokenizers()
    shown = ["2 * 3 =", "Ben has 12 pens. Ben sells 5. How many pens does Ben have now?"]
    return [
        (shown, "Write the answer as a number.", plain),
        ([*shown, "9 + 5 =", "Tom has 3 bags of 4 coins."], "Add.", started),
        (["1 + 1 ="], "How many?", plain),
    ]


def messages(question, system):
    return [{"role": "system", "content": system}, {"role": "user", "content": question}]


def without_system(question, system):
    return messages(question, system)[1:]


def in_one_turn(question, system):
    return messages(f"{system} {question}", "")[1:]


def encode(questions, system, tokenizer, *, go_on=True, special=False, talk=messages, pad=None):
    """Left-padded prompts in the tokenizer's chat template, with one rule exchanged where it says so."""
    texts = [
        tokenizer.apply_chat_template(talk(each, system), tokenize=False, add_generation_prompt=go_on)
        for each in questions
    ]
    rows = tokenizer(texts, add_special_tokens=special)["input_ids"]
    return left_pad(rows, tokenizer.pad_token_id if pad is None else getattr(tokenizer, pad))


def bare(questions, system, tokenizer):
    return left_pad(tokenizer(questions, add_special_tokens=False)["input_ids"], tokenizer.pad_token_id)


def padded_behind(questions, system, tokenizer):
    rows = encode(questions, system, tokenizer)
    padding = (rows != tokenizer.pad_token_id).cumsum(-1) == 0
    return torch.stack([torch.cat([row[~front], row[front]]) for row, front in zip(rows, padding, strict=True)])


def one_conversation(questions, system, tokenizer):
    turns = [{"role": "user", "content": each} for each in questions]
    return encode([""], system, tokenizer, talk=lambda question, system: messages(question, system)[:1] + turns)


# --- log-probs where the logits do not fit ---------------------------------------------------------------------------


class Head(torch.nn.Module):
    """An output embedding that computes in `dtype`, like a real model's: hidden states [n, D] → logits [n, V]."""

    def __init__(self, vocabulary: int, width: int, dtype=torch.bfloat16):
        super().__init__()
        wave = (torch.arange(vocabulary * width).view(vocabulary, width) * 0.37).sin() * 2
        self.weight = torch.nn.Parameter(wave.to(dtype))

    def forward(self, hidden):
        return hidden.to(self.weight.dtype) @ self.weight.T


def states(tokens: int, width: int, vocabulary: int):
    """Hidden states [N, D] and the tokens [N] that came next."""
    hidden = (torch.arange(tokens * width).view(tokens, width) * 0.9).cos()
    return hidden, (torch.arange(tokens) * 7) % vocabulary


def scored():
    """(hidden, head, tokens, temperature, chunk): seven tokens in chunks of three, and others."""

    def case(count, width, vocabulary, dtype, temperature, chunk):
        hidden, tokens = states(count, width, vocabulary)
        return hidden, Head(vocabulary, width, dtype), tokens, temperature, chunk

    return [
        case(7, 6, 40, torch.bfloat16, 1.0, 3),
        case(10, 4, 30, torch.float32, 0.7, 5),
        case(5, 8, 60, torch.bfloat16, 1.5, 8),
        case(9, 3, 20, torch.bfloat16, 0.6, 1),
    ]


def log_probs(hidden, head, tokens, temperature, chunk, *, again=True, one=None):
    """The log-prob of each token, float32 [N], a chunk of logits at a time, made again in the backward pass."""
    one = one or chosen
    run = (lambda *piece: checkpoint(one, *piece, use_reentrant=False)) if again else one
    pieces = zip(hidden.split(chunk), tokens.split(chunk), strict=True)
    return torch.cat([run(part, head, some, temperature) for part, some in pieces])


def chosen(hidden, head, tokens, temperature):
    scores = (head(hidden).float() / temperature).log_softmax(-1)
    return scores.gather(-1, tokens[:, None]).squeeze(-1)


def chosen_in_half(hidden, head, tokens, temperature):
    return (head(hidden) / temperature).log_softmax(-1).gather(-1, tokens[:, None]).squeeze(-1)


def whole_chunks_only(hidden, head, tokens, temperature, chunk):
    whole = len(hidden) // chunk * chunk
    return log_probs(hidden[:whole], head, tokens[:whole], temperature, chunk) if whole else hidden.sum(-1)[:0]


def without_a_graph(*inputs):
    with torch.no_grad():
        return log_probs(*inputs)


class Sizes(TorchDispatchMode):
    """How many numbers the largest tensor has that is made inside, forward or backward."""

    largest = 0

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        result = function(*arguments, **(keywords or {}))
        sizes = [each.numel() for each in tree_leaves(result) if isinstance(each, torch.Tensor)]
        self.largest = max([self.largest, *sizes])
        return result


NO_GRADIENT = "no gradient is left: these log-probs are to be trained."
ALL_LOGITS = "all logits exist at once; score `chunk` tokens, keep their log-probs, and let the logits go."
KEPT = (
    "the logits of every chunk are kept for the backward pass, so in the end all of them are there: wrap a chunk's "
    "work in torch.utils.checkpoint, which keeps its inputs and computes the rest again."
)


def in_chunks(answer) -> str | None:
    """Whether an answer leaves the right gradient, and never has, or keeps, more than a chunk of logits."""
    count, width, vocabulary, chunk = 24, 3, 300, 4
    hidden, tokens = states(count, width, vocabulary)
    head, kept, hidden = Head(vocabulary, width, torch.float32), {}, hidden.requires_grad_()

    def pack(tensor):
        if tensor.shape[-1:] == (vocabulary,) and tensor.data_ptr() != head.weight.data_ptr():
            kept[tensor.data_ptr()] = weakref.ref(tensor)
        return tensor

    with Sizes() as sizes:
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            result = answer(hidden, head, tokens, 1.0, chunk)
        held = sum(each().numel() for each in kept.values() if each() is not None)
        if not result.requires_grad:
            return NO_GRADIENT
        (found,) = torch.autograd.grad(result.sum(), hidden)
    (expected,) = torch.autograd.grad(chosen(hidden, head, tokens, 1.0).sum(), hidden)
    if not torch.allclose(found, expected, rtol=1e-4, atol=1e-4):
        return "the log-probs are right, and their gradient with respect to hidden is not."
    if sizes.largest > chunk * vocabulary:
        return ALL_LOGITS
    return KEPT if held > chunk * vocabulary else None


# --- a step in parts -------------------------------------------------------------------------------------------------


@cache
def small_policy() -> LanguagePolicy:
    """A Qwen2 of one layer, with fixed random weights and the pocket model's tokenizer."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    tokenizer = tokenizers()[0]
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1}
    config = Qwen2Config(vocab_size=len(tokenizer), intermediate_size=32, initializer_range=0.3, **sizes)
    config.pad_token_id, config.eos_token_id, config.bos_token_id = 0, 2, None
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Qwen2ForCausalLM(config)
    return LanguagePolicy(model, tokenizer, max_new_tokens=8)


@cache
def small_rollout(prompts: int, group: int, length: int) -> Rollout:
    """Responses of every length, rewards of several kinds, and log-probs of a policy that was a little different."""
    asked = (torch.arange(prompts * 5).view(prompts, 5) * 11) % 80 + 4
    asked[::2, :2] = 0
    said = (torch.arange(prompts * group * length).view(prompts, group, length) * 17) % 80 + 4
    ends = (torch.arange(prompts * group).view(prompts, group, 1) * 3 + torch.arange(length)) % (length + 2) == 1
    said = said.masked_fill(ends, 2)
    mask = response_mask(said, 2)
    rewards = ((torch.arange(prompts * group).view(prompts, group) * 7) % 5).float() / 4
    rewards[prompts // 2] = 1.0  # a group that is tied
    with torch.no_grad():
        now = small_policy().log_probs(asked, said, mask)
    old = (now + 0.4 * (torch.arange(now.numel()).view(now.shape) * 1.3).sin()) * mask
    return Rollout(asked, said, mask, rewards, old)


def rollouts():
    """(policy, rollout, micro_batch_size)."""
    sizes = [((4, 3, 6), 2), ((5, 4, 5), 2), ((3, 2, 4), 1)]
    return [(small_policy(), small_rollout(*size), micro) for size, micro in sizes]


def accumulate(
    policy,
    rollout,
    micro_batch_size,
    *,
    weigh=None,
    deltas_of=deltas.normalized,
    share=1.0,
    before_each=None,
    parts=None,
    old=None,
    sign=1,
):
    """The gradient of a whole step, part by part, with one rule exchanged where it says so; returns the loss."""
    pushes, total = deltas_of(rollout.rewards), 0.0
    weights = losses.token_weights(rollout.mask, "token")
    for rows in (parts or torch.Tensor.split)(torch.arange(len(rollout.prompts)), micro_batch_size):
        part = rollout.rows(rows)
        if before_each:
            before_each(policy)
        now = policy.log_probs(part.prompts, part.responses, part.mask)
        each = losses.clipped(now, now if old else part.old_log_probs, pushes[rows])
        loss = sign * share * (each * (weigh(part.mask) if weigh else weights[rows])).sum()
        loss.backward()
        total += loss.item()
    return total


def token_share(mask):
    return losses.token_weights(mask, "token")


def mean_of_means(policy, rollout, micro_batch_size):
    parts = -(-len(rollout.prompts) // micro_batch_size)
    return accumulate(policy, rollout, micro_batch_size, weigh=token_share, share=1 / parts)


def at_once(policy, rollout, micro_batch_size):
    return accumulate(policy, rollout, len(rollout.prompts))


def backward_at_the_end(policy, rollout, micro_batch_size):
    pushes, weights, total = deltas.normalized(rollout.rewards), losses.token_weights(rollout.mask, "token"), 0.0
    for rows in torch.arange(len(rollout.prompts)).split(micro_batch_size):
        part = rollout.rows(rows)
        now = policy.log_probs(part.prompts, part.responses, part.mask)
        total = total + (losses.clipped(now, part.old_log_probs, pushes[rows]) * weights[rows]).sum()
    total.backward()
    return total.item()


def over_the_batch(rewards):
    return (rewards - rewards.mean()) / (rewards.std() + 1e-6)


def whole_parts_only(index, size):
    return index[: len(index) // size * size].split(size)


def stepped(answer, policy, rollout, micro_batch_size):
    """What an answer returns, the gradient that it leaves, and how much went through the policy at a time."""
    most, graphs, waiting, score = 0, [], 0, policy.log_probs

    def watched(prompts, responses, mask):
        nonlocal most, waiting
        result = score(prompts, responses, mask)
        most = max(most, len(prompts))
        if result.requires_grad:
            graphs.append(done := [])
            result.register_hook(done.append)
        waiting = max(waiting, sum(not done for done in graphs))
        return result

    policy.log_probs = watched
    try:
        loss = answer(policy, rollout, micro_batch_size)
    finally:
        del policy.log_probs
    gradient = [torch.zeros_like(each) if each.grad is None else each.grad for each in policy.parameters()]
    held = "one part at a time" if most <= micro_batch_size else f"{most} prompts at once"
    graph = "one graph at a time" if waiting <= 1 else f"{waiting} graphs that wait for their gradient"
    return loss, torch.cat([each.flatten() for each in gradient]), held, graph


# --- the reward ------------------------------------------------------------------------------------------------------


def row(number: str, steps: str = "16 - 3 = <<16-3=13>>13 eggs are left. 13 + 5 = <<13+5=18>>18.") -> dict:
    """A problem as GSM8K's files have it."""
    return {"question": "How many?", "answer": f"{steps}\n#### {number}"}


BOXES = (
    (r"16 - 3 = 13 and 13 + 5 = 18, so \boxed{18}.", row("18")),
    (r"She has \boxed{13} first. Then she has \boxed{18}.", row("18")),
    (r"It is \boxed{18}. No, I forgot the five: \boxed{13}.", row("18")),
    (r"\[ \boxed{\$1,080} \]", row("1,080")),
    (r"\boxed{1080}", row("1,080")),
    (r"\boxed{18.00}", row("18")),
    (r"\boxed{\text{eggs: }18}", row("18")),
    (r"\boxed{18\text{ eggs}} because 16 - 3 + 5 = 18, and not 20", row("18")),
    (r"\boxed{118}", row("18")),
    (r"\boxed{-18}", row("18")),
    (r"\boxed{-7}", row("-7", "3 - 10 = <<3-10=-7>>-7.")),
    (r"\boxed{16}", row("18")),
    (r"The answer is 18.", row("18")),
    (r"So the answer is \boxed{18", row("18")),
    (r"\boxed{} 18", row("18")),
    (r"", row("18")),
)
NUMBER = r"-?\d[\d,]*(?:\.\d+)?"


def reward(text, row):
    return float(verify.is_correct(text, gsm8k.problem(row).answer, "boxed"))


def boxed_fields(text, closed=True):
    """What stands in each box, in order; `closed=False` takes an open one as well."""
    found = []
    for start in (match.end() for match in re.finditer(r"\\boxed\{", text)):
        depth = 1
        for place in range(start, len(text)):
            depth += {"{": 1, "}": -1}.get(text[place], 0)
            if not depth:
                found.append(text[start:place])
                break
        else:
            found += [] if closed else [text[start:]]
    return found


def value(number, comma=True, sign=True):
    """The number as a float, with one part lost where it says so."""
    number = number if comma else number.split(",")[0]
    return float(number.replace(",", "").lstrip("" if sign else "-"))


def reward_variant(text, row, *, fields=boxed_fields, place=-1, gold="####", closed=True, same=None, **lost):
    """The reward with one rule exchanged."""
    fields = fields(text, closed) if fields is boxed_fields else fields(text)
    found = re.findall(NUMBER, fields[place]) if fields else []
    truth = re.findall(NUMBER, row["answer"].rpartition("####")[2] if gold == "####" else row["answer"])
    truth = truth[-1 if gold == "####" else 0]
    if same:
        return float(bool(found) and same(found[-1], truth))
    return float(bool(found) and value(found[-1], **lost) == value(truth, **lost))


def number(answer, *inputs):
    """True counts as 1 and False as 0."""
    return float(answer(*inputs))


# --- does it fit -----------------------------------------------------------------------------------------------------

SHAPES = {  # layers, hidden size, query heads, key heads, width of a head; and the parameters
    "Qwen2.5-0.5B": ((24, 896, 14, 2, 64), 494_032_768),
    "Qwen2.5-1.5B": ((28, 1536, 12, 2, 128), 1_543_714_304),
    "Qwen3-0.6B": ((28, 1024, 16, 8, 128), 596_049_920),
}
FIELDS = ("num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim")


def shape(name):
    return SimpleNamespace(**dict(zip(FIELDS, SHAPES[name][0], strict=True)))


def cards():
    """(shape, parameters, tokens of a row, GB of the card)."""
    tries = [
        ("Qwen2.5-0.5B", 864, 16),
        ("Qwen3-0.6B", 864, 24),
        ("Qwen2.5-1.5B", 864, 24),
        ("Qwen2.5-1.5B", 4448, 80),
    ]
    return [(shape(name), SHAPES[name][1], tokens, card) for name, tokens, card in tries]


def fits(
    shape,
    parameters,
    tokens,
    card,
    *,
    each=18,
    heads="num_key_value_heads",
    width=None,
    pair=2,
    size=2,
    layers=True,
    usable=(9, 10),
    unit=10**9,
    least=0,
    whole=None,
):
    """(bytes that are always there, bytes of a token in the cache, rows that fit), with one rule exchanged."""
    width = width(shape) if width else shape.head_dim
    token = pair * (shape.num_hidden_layers if layers else 1) * getattr(shape, heads) * width * size
    left = card * unit * usable[0] // usable[1] - each * parameters
    rows = whole(left / (token * tokens)) if whole else left // (token * tokens)
    return each * parameters, token, rows if least is None else max(least, rows)


# --- reading a run ---------------------------------------------------------------------------------------------------

SIGNS = ("step", "cut", "hacked")


def recorded(right, reward=None, norms=None, cut=None, first=1):
    """A run's metrics, made up: so it is known what happened in it."""
    reward, norms, cut = reward or right, norms or [1.0] * len(right), cut or [0.0] * len(right)
    columns = zip(right, reward, norms, cut, strict=True)
    names = "strict_rate", "reward_mean", "grad_norm", "truncated"
    return [{"epoch": epoch, **dict(zip(names, each, strict=True))} for epoch, each in enumerate(columns, first)]


def runs():
    """Runs that collapsed in different ways, one that dipped, one that did not learn, and one that goes on at 5."""
    fell = [0.4, 0.5, 0.6, 0.6, 0.1, 0.05, 0.0, 0.0]
    return [
        (recorded(fell, norms=[1.0, 0.9, 1.1, 14.0, 30.0, 2.0, 0.0, 0.0]),),
        (recorded(fell, cut=[0.0, 0.05, 0.15, 0.3, 0.8, 1.0, 1.0, 1.0]),),
        (
            recorded(
                [0.4, 0.5, 0.6, 0.4, 0.4, 0.2, 0.1, 0.1],
                reward=[0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.0, 1.0],
                norms=[1.0, 1.0, 1.0, 1.0, 1.0, 12.0, 1.0, 1.0],
            ),
        ),
        (recorded([0.4, 0.5, 0.1, 0.5, 0.6, 0.6], norms=[1.0, 1.0, 20.0, 1.0, 1.0, 1.0]),),
        (recorded([0.4, 0.5, 0.6, 0.2, 0.1, 0.0], cut=[0.0, 0.0, 0.0, 0.0, 0.5, 1.0]),),
        (recorded([0.05, 0.05, 0.5, 0.6, 0.7, 0.7]),),
        (recorded([0.5, 0.6, 0.2, 0.1], norms=[1.0, 2.0, 1.0, 1.0], first=5),),
        (
            recorded(
                [0.5, 0.6, 0.6, 0.6, 0.2, 0.1],
                norms=[100.0, 1.0, 1.0, 1.0, 15.0, 1.0],
                cut=[0.0, 0.0, 0.0, 0.0, 0.3, 1.0],
            ),
        ),
        (recorded([0.5, 0.6, 0.6, 0.25, 0.1], norms=[1.0, 1.0, 6.0, 1.0, 1.0]),),
        (recorded([0.5, 0.6, 0.6, 0.2, 0.25], norms=[1.0, 1.0, 1.0, 10.5, 1.0], cut=[0.0, 0.0, 0.0, 0.5, 0.0]),),
    ]


def what_happened(
    epochs,
    *,
    metric="strict_rate",
    lasting=True,
    ever=False,
    counted="epoch",
    later=False,
    middle=median,
    last=False,
    sound=True,
    lowest=False,
):
    """(epoch of the collapse, its first sign), with one rule exchanged; (None, None) where it did not collapse."""
    values = [each[metric] for each in epochs]
    half = [max(values if ever else values[: place + 1]) / 2 for place in range(len(values))]
    below = [now < bound for now, bound in zip(values, half, strict=True)]
    start = next((i for i in range(len(values)) if (all(below[i:]) if lasting else below[i])), None)
    if start is None and sound:
        return None, None
    end = len(epochs) - 1 if later or start is None else start
    shown = [(i, each) for i, each in product(range(end + 1), SIGNS) if sign(epochs[: i + 1], each, middle)]
    cause = shown[-1 if last else 0][1] if shown else None
    if start is None:
        return None, cause
    start = values.index(min(values)) if lowest else start
    return epochs[start]["epoch"] if counted == "epoch" else start, cause


def sign(epochs, name, middle=median):
    """Whether the last of these epochs shows it."""
    now, before = epochs[-1], epochs[:-1]
    if name == "cut":
        return now["truncated"] > 0.2
    if not before:
        return False
    if name == "step":
        return now["grad_norm"] > 10 * middle([each["grad_norm"] for each in before])
    best = {metric: max(each[metric] for each in before) for metric in ("reward_mean", "strict_rate")}
    return now["reward_mean"] > best["reward_mean"] and now["strict_rate"] < 0.75 * best["strict_rate"]


# --- what was gained -------------------------------------------------------------------------------------------------


def records(shares, *, order=None, greedy=None, judge="boxed"):
    """A file of samples, of which each problem's are 1 or 0 under the judge; the other check passes all of them."""
    other = "strict" if judge == "boxed" else "boxed"
    made = [
        {
            "question": f"Problem {number}?",
            "greedy": [{judge: (greedy or shares)[number][0], other: 1}],
            "sampled": [{judge: each, other: 1} for each in bits],
        }
        for number, bits in enumerate(shares)
    ]
    return [made[place] for place in order or range(len(made))]


def tested():
    """(before, after, judge)."""
    before = [[0, 0, 1, 0], [1, 1, 0, 1], [0, 0, 0, 0], [1, 1, 1, 1], [0, 1, 0, 1]]
    after = [[1, 0, 1, 1], [1, 1, 1, 1], [0, 0, 1, 0], [1, 1, 0, 1], [1, 1, 1, 1]]
    other = [[bits[0] ^ (number % 2)] for number, bits in enumerate(after)]
    few = [[1, 0], [0, 0], [1, 1], [0, 1]], [[1, 1], [0, 1], [1, 0], [0, 0]]
    return [
        (records(before), records(after, greedy=other), "boxed"),
        (records(before), records(after, order=[4, 2, 0, 3, 1]), "boxed"),
        (records(few[0], judge="strict"), records(few[1], judge="strict"), "strict"),
        (records(after, order=[1, 0, 2, 4, 3]), records(before), "boxed"),
    ]


def gain(before, after, judge, *, match=True, how="sampled", take=fmean, paired=True, count=None, ddof=1, root=True):
    """(mean gain, and both ends of its 95 % interval), with one rule exchanged where it says so."""
    old, new = (
        {each["question"] if match else place: [one[judge] for one in each[how]] for place, each in enumerate(side)}
        for side in (before, after)
    )
    olds, news = (torch.tensor([float(take(side[key])) for key in old], dtype=torch.float64) for side in (old, new))
    gains = news - olds
    spread = gains.std(correction=ddof) if paired else (olds.var() + news.var()).sqrt()
    n = len(gains) if count is None else count(before)
    half = 1.96 * spread / (n**0.5 if root else 1)
    return tuple(value.item() for value in (gains.mean(), gains.mean() - half, gains.mean() + half))


def in_one_heap(before, after, judge):
    """Every response as a unit of its own."""
    new = {each["question"]: each for each in after}
    olds, news = (
        torch.tensor([one[judge] for each in side for one in each["sampled"]]).double()
        for side in (before, [new[each["question"]] for each in before])
    )
    gains = news - olds
    half = 1.96 * gains.std() / len(gains) ** 0.5
    return tuple(value.item() for value in (gains.mean(), gains.mean() - half, gains.mean() + half))


def matched(before, after, judge):
    new = {each["question"]: each for each in after}
    pairs = [(each, new[each["question"]]) for each in before]
    shares = [[fmean(one[judge] for one in each["sampled"]) for each in side] for side in zip(*pairs, strict=True)]
    return handin.paired(*shares)


QUESTIONS = {
    question.id: question
    for question in (
        Question(
            "a5.q1",
            "a prompt in the model's own form",
            3,
            encode,
            asked,
            (
                Mistake(
                    "the prompt ends before the assistant's turn begins: the model would write that header first, or "
                    "go on with the user's turn. Ask for it with add_generation_prompt=True.",
                    lambda q, s, t: encode(q, s, t, go_on=False),
                ),
                Mistake(
                    "the padding stands behind the prompts; a response must begin where its prompt ends.", padded_behind
                ),
                Mistake(
                    "the template has written the start token, and the tokenizer puts a second one in front: tokenise "
                    "with add_special_tokens=False.",
                    lambda q, s, t: encode(q, s, t, special=True),
                ),
                Mistake("these are bare questions; the chat template is missing.", bare),
                Mistake(
                    "you pad with the end token; the padding token is another one, and masks look for that.",
                    lambda q, s, t: encode(q, s, t, pad="eos_token_id"),
                ),
                Mistake(
                    "the system's message is missing.",
                    lambda q, s, t: encode(q, s, t, talk=without_system),
                ),
                Mistake(
                    "the system's message is part of the user's turn; it has a turn of its own, with the role system.",
                    lambda q, s, t: encode(q, s, t, talk=in_one_turn),
                ),
                Mistake(
                    "all questions stand in one conversation; each is a prompt of its own, a row.", one_conversation
                ),
            ),
            "One list of two messages for each question, through tokenizer.apply_chat_template; then the token lists, "
            "padded in front.",
            (LanguageTask.encode, left_pad),
        ),
        Question(
            "a5.q2",
            "log-probs where the logits do not fit",
            5,
            log_probs,
            scored,
            (
                Mistake(
                    "the softmax runs in bfloat16, with fewer than three digits: make the logits float32 before it.",
                    lambda *a: log_probs(*a, one=chosen_in_half),
                ),
                Mistake(ALL_LOGITS, lambda hidden, head, tokens, tau, chunk: chosen(hidden, head, tokens, tau)),
                Mistake(KEPT, lambda *a: log_probs(*a, again=False)),
                Mistake(
                    "the last tokens are missing where the chunks do not come out even.",
                    whole_chunks_only,
                ),
                Mistake(NO_GRADIENT, without_a_graph),
                Mistake(
                    "the temperature is ignored.",
                    lambda h, head, x, tau, chunk: log_probs(h, head, x, 1.0, chunk),
                ),
                Mistake(
                    "the temperature multiplies; it divides the logits.",
                    lambda h, head, x, tau, chunk: log_probs(h, head, x, 1 / tau, chunk),
                ),
                Mistake("one number for all; return one for each token.", lambda *a: log_probs(*a).sum()),
                Mistake("the sign is turned round: cross entropy is −log p.", lambda *a: -log_probs(*a)),
                Mistake("these are probabilities.", lambda *a: log_probs(*a).exp()),
            ),
            "Split hidden and tokens into chunks; for each, checkpoint(function, …, use_reentrant=False) around: "
            "logits in float32, divided by the temperature, log_softmax, gather. Then torch.cat.",
            (LanguagePolicy._measure,),
            look=in_chunks,
            tolerance=1e-4,
        ),
        Question(
            "a5.q3",
            "one step in parts",
            5,
            accumulate,
            rollouts,
            (
                Mistake(
                    "the weights are made anew for each part, so each part counts as if it were all: make them once, "
                    "from the whole mask.",
                    lambda *a: accumulate(*a, weigh=token_share),
                ),
                Mistake(
                    "a mean of means: a part with few tokens counts as much as one with many. Divide by the tokens of "
                    "the whole batch.",
                    mean_of_means,
                ),
                Mistake("the whole batch goes through at once, so nothing is saved.", at_once),
                Mistake(
                    "you add the losses up and go backward once: until then the graph of every part is kept. Go "
                    "backward after each part.",
                    backward_at_the_end,
                ),
                Mistake(
                    "the gradient is set to zero before each part, so only the last one is left.",
                    lambda *a: accumulate(*a, before_each=lambda policy: policy.zero_grad()),
                ),
                Mistake(
                    "the deltas compare with the whole batch; compare within the group.",
                    lambda *a: accumulate(*a, deltas_of=over_the_batch),
                ),
                Mistake(
                    "each delta is centred and not divided by its group's standard deviation.",
                    lambda *a: accumulate(*a, deltas_of=deltas.centered),
                ),
                Mistake(
                    "the last part is left out where the batch does not come out even.",
                    lambda *a: accumulate(*a, parts=whole_parts_only),
                ),
                Mistake(
                    "the ratio compares the policy with itself; take rollout.old_log_probs, what was true when it was "
                    "sampled.",
                    lambda *a: accumulate(*a, old=True),
                ),
                Mistake(
                    "every response counts the same here; asked is that every token does.",
                    lambda policy, rollout, micro: accumulate(
                        policy,
                        rollout,
                        micro,
                        weigh=lambda mask: losses.token_weights(mask) * len(mask) / len(rollout.mask),
                    ),
                ),
                Mistake(
                    "the sign is turned round: this loss falls as the reward falls.", lambda *a: accumulate(*a, sign=-1)
                ),
            ),
            "Deltas and weights once, from the whole rollout. For each part: rollout.rows(rows), its log-probs, its "
            "weighted losses, summed, backward; add up loss.item().",
            (train.update, train.learn),
            call=stepped,
            tolerance=1e-5,
        ),
        Question(
            "a5.q4",
            "a reward for Qwen's own habit",
            3,
            reward,
            lambda: list(BOXES),
            (
                Mistake(
                    "you take the text's last number; asked is what stands in the box.",
                    lambda t, r: reward_variant(t, r, fields=lambda text: [text]),
                ),
                Mistake("two boxes: the last one counts.", lambda t, r: reward_variant(t, r, place=0)),
                Mistake(
                    "the box ends at its own brace, not at the first one: \\text{…} may stand in it.",
                    lambda t, r: reward_variant(t, r, fields=lambda text: re.findall(r"\\boxed\{([^}]*)\}", text)),
                ),
                Mistake(
                    "a box that is never closed was cut, and what follows may have been another digit: no answer.",
                    lambda t, r: reward_variant(t, r, closed=False),
                ),
                Mistake(
                    "as strings, 1,080 and 1080 differ, and so do 18.00 and 18.",
                    lambda t, r: reward_variant(t, r, same=lambda one, other: one == other),
                ),
                Mistake(
                    "a part is not the whole: 118 ends in 18.",
                    lambda t, r: reward_variant(
                        t, r, same=lambda one, other: value(one) == value(other) or one.endswith(other)
                    ),
                ),
                Mistake(
                    "1,080 is read in part: the comma belongs to the number.",
                    lambda t, r: reward_variant(t, r, comma=False),
                ),
                Mistake("the sign is lost.", lambda t, r: reward_variant(t, r, sign=False)),
                Mistake(
                    "the row's answer is the number after ####; those before it are steps.",
                    lambda t, r: reward_variant(t, r, gold="first"),
                ),
            ),
            "Find every \\boxed{, count braces until it closes, keep the last one that does; one number in it, without "
            "its commas; compare it as a number with what follows #### in the row.",
            (verify.extract_answer, verify.is_correct, gsm8k.problem),
            call=number,
        ),
        Question(
            "a5.q5",
            "does it fit",
            4,
            fits,
            cards,
            (
                Mistake(
                    "the cache keeps keys and values, which have fewer heads than the queries: num_key_value_heads.",
                    lambda *a: fits(*a, heads="num_attention_heads"),
                ),
                Mistake(
                    "a head's width is head_dim; in Qwen3 that is not the hidden size over the heads.",
                    lambda *a: fits(*a, width=lambda shape: shape.hidden_size // shape.num_attention_heads),
                ),
                Mistake("keys *and* values: twice as much for a token.", lambda *a: fits(*a, pair=1)),
                Mistake("every layer has a cache of its own.", lambda *a: fits(*a, layers=False)),
                Mistake("in bfloat16 a number takes 2 bytes.", lambda *a: fits(*a, size=4)),
                Mistake(
                    "the bfloat16 copy of the weights is missing: 2 bytes more for each parameter.",
                    lambda *a: fits(*a, each=16),
                ),
                Mistake("Adam keeps *two* averages, 4 bytes each.", lambda *a: fits(*a, each=14)),
                Mistake(
                    "here is only what sampling needs; weights, gradient and Adam stay where they are.",
                    lambda *a: fits(*a, each=2),
                ),
                Mistake(
                    "a card's GB are 10⁹ bytes; with 2³⁰ you plan for 7 % that are not there.",
                    lambda *a: fits(*a, unit=2**30),
                ),
                Mistake("a tenth is left to CUDA: plan with nine tenths.", lambda *a: fits(*a, usable=(1, 1))),
                Mistake("where the weights alone do not fit, 0 rows do.", lambda *a: fits(*a, least=None)),
                Mistake(
                    "half a row does not fit: round down.", lambda *a: fits(*a, whole=lambda rows: round(rows + 0.49))
                ),
            ),
            "18 bytes a parameter; 2 · layers · num_key_value_heads · head_dim · 2 bytes a token; what is left of nine "
            "tenths of the card, divided by a row's bytes, rounded down.",
        ),
        Question(
            "a5.q6",
            "what went wrong, and when",
            3,
            what_happened,
            runs,
            (
                Mistake(
                    "the reward is not the goal: a run that is hacked collapses while its reward rises. Look at "
                    "strict_rate.",
                    lambda e: what_happened(e, metric="reward_mean"),
                ),
                Mistake(
                    "a dip that recovers is no collapse: it must stay below to the end.",
                    lambda e: what_happened(e, lasting=False),
                ),
                Mistake(
                    "the best of the *whole* run makes a slow start look like a collapse; take the best so far.",
                    lambda e: what_happened(e, ever=True, lasting=False),
                ),
                Mistake(
                    "this is a place in the list; asked is the epoch's own number, which begins at 1, or later where a "
                    "run went on.",
                    lambda e: what_happened(e, counted="place"),
                ),
                Mistake(
                    "what shows after the collapse is its consequence, not its cause.",
                    lambda e: what_happened(e, later=True),
                ),
                Mistake(
                    "one earlier spike moves the mean so far that the next one hides behind it: use the median.",
                    lambda e: what_happened(e, middle=fmean),
                ),
                Mistake(
                    "the sign that came *first* points to the cause; later ones follow from it.",
                    lambda e: what_happened(e, last=True),
                ),
                Mistake(
                    "a run that did not collapse has no cause of it: (None, None).",
                    lambda e: what_happened(e, sound=False),
                ),
                Mistake(
                    "this is the lowest point; asked is where the fall began that lasted.",
                    lambda e: what_happened(e, lowest=True),
                ),
            ),
            "First the epoch: from the first place on where every strict_rate is below half of the best so far. Then "
            "the epochs up to it, in order: the first that shows a sign.",
        ),
        Question(
            "a5.q7",
            "what was gained",
            3,
            matched,
            tested,
            (
                Mistake(
                    "four samples of one problem are not four problems: they are right or wrong together, and the "
                    "interval comes out too narrow. Average within a problem first.",
                    in_one_heap,
                ),
                Mistake(
                    "n counts problems, not responses.",
                    lambda *a: gain(*a, count=lambda before: sum(len(each["sampled"]) for each in before)),
                ),
                Mistake(
                    "two intervals, as if the problems were different ones; take the difference problem by problem.",
                    lambda *a: gain(*a, paired=False),
                ),
                Mistake(
                    "you pair by position; the two files may have another order. Pair by the question.",
                    lambda *a: gain(*a, match=False),
                ),
                Mistake(
                    "these are the greedy responses; asked are the sampled ones.", lambda *a: gain(*a, how="greedy")
                ),
                Mistake("you look at strict, whatever the judge is.", lambda b, a, judge: gain(b, a, "strict")),
                Mistake(
                    "this asks whether *any* sample is right, which is pass@k; asked is the share.",
                    lambda *a: gain(*a, take=max),
                ),
                Mistake("the sign is turned round: after less before.", lambda b, a, judge: gain(a, b, judge)),
                Mistake(
                    "you divide by n in the standard deviation: n − 1, since the mean is estimated too.",
                    lambda *a: gain(*a, ddof=0),
                ),
                Mistake(
                    "this is the spread of single problems; that of their mean is smaller by √n.",
                    lambda *a: gain(*a, root=False),
                ),
            ),
            "A share for each problem and side; their differences by question; mean ± 1.96 · std/√n over the problems.",
            (handin.paired,),
        ),
    )
}
