"""Assignment 4: the same answers with loops, other patterns, exact fractions, and a training loop by hand."""

import math
import re
from collections import Counter
from fractions import Fraction
from itertools import combinations
from statistics import mean, stdev

import torch

from minirl import losses
from minirl.course.a4 import CLEAR, record
from minirl.experiments import mean_interval


def prompt_mask_by_loops(prompts, pad_id):
    rows = []
    for prompt in prompts.tolist():
        started, row = False, []
        for token in prompt:
            started = started or token != pad_id
            row.append(started)
        rows.append(row)
    return torch.tensor(rows)


def response_mask_by_position(responses, end_id):
    places = torch.arange(responses.shape[-1])
    first = torch.where(responses == end_id, places, responses.shape[-1]).amin(-1, keepdim=True)
    return places <= first


def response_mask_by_shift(responses, end_id):
    ended = (responses == end_id).cummax(-1).values
    return ~torch.nn.functional.pad(ended, (1, 0))[..., :-1]


def positions_by_loops(mask):
    result = torch.zeros(mask.shape, dtype=torch.long)
    for row, inside in enumerate(mask.tolist()):
        for place in range(len(inside)):
            result[row, place] = max(sum(inside[: place + 1]) - 1, 0)
    return result


def score_by_logsumexp(logits, tokens, mask, temperature):
    scaled = logits.roll(1, dims=1) / temperature
    chosen = torch.take_along_dim(scaled, tokens.unsqueeze(-1), -1)[..., 0]
    return (chosen - scaled.logsumexp(-1)).masked_fill(~mask, 0.0)


def score_by_cross_entropy(logits, tokens, mask, temperature):
    result = torch.zeros_like(logits[..., 0])
    losses = torch.nn.functional.cross_entropy(
        logits[:, :-1].transpose(1, 2) / temperature, tokens[:, 1:], reduction="none"
    )
    result[:, 1:] = -losses
    return result * mask


def written(text):
    """A number's one way, by exact arithmetic."""
    value = Fraction(text.replace(",", "").replace("$", ""))
    return str(value.numerator) if value.denominator == 1 else f"{float(value):g}"


def aloud(text):
    parts = text.split("<think>")
    return parts[0] + "".join(part.partition("</think>")[2] for part in parts[1:])


def field_of(text):
    if "</answer>" in text:
        return text.rpartition("</answer>")[0].rpartition("<answer>")[2]
    if "####" in text:
        return text.rpartition("####")[2].partition("\n")[0]
    return None


def strict_by_splitting(text):
    field = (field_of(aloud(text)) or "").strip()
    whole = field.lstrip("+-").partition(".")[0]
    groups = whole.split(",")
    fits = len(groups) == 1 or (len(groups[0]) <= 3 and all(len(group) == 3 for group in groups[1:]))
    try:
        return written(field) if field and fits and "$" not in field and not field.endswith(".") else None
    except ValueError:
        return None


def lenient_by_splitting(text):
    said = aloud(text)
    field = field_of(said)
    if field is None and "answer is" in said:
        field = re.split(r"[.!?](?:\s|$)", said.rpartition("answer is")[2])[0]
    found = re.findall(r"-?[$]?[0-9]+(?:,[0-9]{3})*(?:\.[0-9]+)?", said if field is None else field)
    numbers = [written(number) for number in found]
    if field is not None and len(set(numbers)) > 1:
        return None
    return numbers[-1] if numbers else None


def same_fraction(answer, gold):
    try:
        return Fraction(answer.replace(",", "")) == Fraction(gold.replace(",", ""))
    except (AttributeError, ValueError):
        return False


def format_by_partition(text):
    tags = "<think>", "</think>", "<answer>", "</answer>"
    if any(text.count(tag) != 1 for tag in tags):
        return False
    pieces, rest = [], text
    for tag in tags:
        piece, _, rest = rest.partition(tag)
        pieces.append(piece.strip())
    before, thought, between, answer = pieces
    return thought != "" and answer != "" and before + between + rest.strip() == ""


def pass_at_k_by_product(correct, samples, k):
    wrong = samples - correct
    factors = [(wrong - j).clamp(min=0) / (samples - j) for j in range(k)]
    return 1 - torch.stack(factors).prod(0)


def pass_at_k_by_comb(correct, samples, k):
    shares = [math.comb(samples - c, k) / math.comb(samples, k) for c in correct.tolist()]
    return 1 - torch.tensor(shares, dtype=torch.float64)


def maj_at_k_by_counting(answers, gold, k):
    total, draws = 0.0, 0
    for places in combinations(range(len(answers)), k):
        draws += 1
        ranking = Counter(answers[place] for place in places if answers[place] is not None).most_common()
        first = [answer for answer, count in ranking if count == ranking[0][1]]
        total += gold in first and 1 / len(first)
    return total / draws


def improve_by_hand(policy, task, seed):
    """The loop written out, with leave-one-out deltas and the naive loss: on-policy, so no ratio is needed."""
    generator, optimizer = torch.Generator().manual_seed(seed), torch.optim.Adam(policy.parameters(), lr=1e-3)
    while True:
        batch = task.sample(16, generator)
        responses, mask = policy.sample(batch.prompts, 8, generator)
        rewards = task.rewards(batch, responses, mask)
        deltas = (rewards - rewards.mean(-1, keepdim=True)) / (rewards.std(-1, keepdim=True) + 1e-6)
        log_probs = policy.log_probs(batch.prompts, responses, mask)
        loss = (losses.naive(log_probs, deltas) * losses.token_weights(mask, "sequence")).sum()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()


def better_by_statistics(one, other):
    gaps = [a - b for a, b in zip(one.tolist(), other.tolist(), strict=True)]
    half = {3: 4.3027, 4: 3.1824, 5: 2.7764}[len(gaps)] * stdev(gaps) / len(gaps) ** 0.5
    if abs(mean(gaps)) <= half:
        return mean(gaps), half, None
    return mean(gaps), half, "first" if mean(gaps) > 0 else "second"


def better_with_minirl(one, other):
    mean, half = mean_interval((one - other).numpy())
    low, high = mean - half, mean + half
    return mean, half, "first" if low > 0 else "second" if high < 0 else None


A4 = {
    "a4.q1a": {"loops": prompt_mask_by_loops, "cummax": lambda p, pad: (p != pad).long().cummax(-1).values.bool()},
    "a4.q1b": {"the first end's place": response_mask_by_position, "a shift": response_mask_by_shift},
    "a4.q1c": {
        "loops": positions_by_loops,
        "from the number of pads": lambda m: (torch.arange(m.shape[-1]) - (~m).sum(-1, keepdim=True)).clamp(min=0),
    },
    "a4.q2": {"logsumexp": score_by_logsumexp, "cross entropy": score_by_cross_entropy},
    "a4.q3a": {"splitting": strict_by_splitting},
    "a4.q3b": {"splitting": lenient_by_splitting},
    "a4.q3c": {"fractions": same_fraction},
    "a4.q3d": {
        "partition": format_by_partition,
        "a match": lambda t: re.fullmatch(r"\s*<think>\s*[^<\s][^<]*</think>\s*<answer>\s*[^<\s][^<]*</answer>\s*", t),
    },
    "a4.q4a": {"a product": pass_at_k_by_product, "whole numbers": pass_at_k_by_comb},
    "a4.q4b": {"counting": maj_at_k_by_counting},
    "a4.q5": {"by hand": improve_by_hand},
    "a4.q6a": {"statistics": better_by_statistics, "minirl's interval": better_with_minirl},
    "a4.q6b": {
        "a winner": lambda: record(*CLEAR),
        "the other way round": lambda: record(*CLEAR[::-1], winner="that"),
        "no winner": lambda: record((0.5, 0.3, 0.45), CLEAR[1], winner=None),
    },
}
