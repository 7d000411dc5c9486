"""Assignment 4 as a class would hand it in, written from the notebook alone: right answers, and wrong ones with why."""

import copy
import math
import re
import statistics
from collections import Counter
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import partial
from itertools import combinations, permutations, product

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from minirl.config import Config
from minirl.experiments import mean_interval, run_seeds
from minirl.llm.policy import load
from minirl.policy import SortingPolicy
from minirl.sorting import SortingTask, inclusion_ordering
from minirl.train import train

# Q1: masks and positions


def prompt_mask_by_loops(prompts, pad_id):
    rows = []
    for row in prompts.tolist():
        begun, inside = False, []
        for token in row:
            begun = begun or token != pad_id
            inside.append(begun)
        rows.append(inside)
    return torch.tensor(rows)


def prompt_mask_by_cummax(prompts, pad_id):
    return torch.cummax((prompts != pad_id).int(), dim=1).values == 1


def prompt_mask_by_first(prompts, pad_id):
    tokens = prompts != pad_id
    first = tokens.int().argmax(1, keepdim=True)
    return (torch.arange(prompts.shape[1]) >= first) & tokens.any(1, keepdim=True)


def response_mask_by_loops(responses, end_id):
    mask = torch.ones(responses.shape, dtype=torch.bool)
    for b, group in enumerate(responses.tolist()):
        for g, row in enumerate(group):
            if end_id in row:
                mask[b, g, row.index(end_id) + 1 :] = False
    return mask


def response_mask_by_length(responses, end_id):
    length = responses.shape[-1]
    places = torch.where(responses == end_id, torch.arange(length), length).amin(-1, keepdim=True)
    return torch.arange(length).expand(responses.shape) <= places


def end_count(responses, end_id):
    return (responses == end_id).cumsum(-1)


def response_mask_last(responses, end_id):
    is_end = responses == end_id
    later = is_end.flip(-1).cumsum(-1).flip(-1)
    return (later > 0) | ~is_end.any(-1, keepdim=True)


def positions_by_loops(mask):
    rows = []
    for row in mask.tolist():
        count, found = 0, []
        for inside in row:
            found.append(count if inside else max(count - 1, 0))
            count += inside
        rows.append(found)
    return torch.tensor(rows)


def positions_from_first(mask):
    first = mask.int().argmax(-1, keepdim=True)
    return (torch.arange(mask.shape[-1])[None] - first).clamp(min=0)


# Q2: scores


def score_by_log_softmax(logits, tokens, mask, temperature):
    logs = (logits[:, :-1] / temperature).log_softmax(-1)
    own = logs.gather(-1, tokens[:, 1:].unsqueeze(-1)).squeeze(-1)
    return torch.cat([torch.zeros_like(own[:, :1]), torch.where(mask[:, 1:], own, 0)], -1)


def score_by_cross_entropy(logits, tokens, mask, temperature):
    rows = (logits / temperature).roll(1, dims=1).transpose(1, 2)
    return (-cross_entropy(rows, tokens, reduction="none")).masked_fill(~mask, 0)


def score_by_loops(logits, tokens, mask, temperature):
    result = torch.zeros(tokens.shape, dtype=logits.dtype)
    for b, i in mask.nonzero().tolist():
        z = logits[b, i - 1] / temperature
        result[b, i] = z[tokens[b, i]] - z.logsumexp(0)
    return result


def score_wrong(
    logs=lambda logits, temperature: (logits / temperature).log_softmax(-1),
    own=lambda logs, tokens: logs.gather(-1, tokens.unsqueeze(-1)).squeeze(-1),
    shift=lambda own_logs: own_logs.roll(1, 1),
    final=lambda mask, new: torch.where(mask, new, 0),
):
    def answer(logits, tokens, mask, temperature):
        made = shift(logs(logits, temperature))
        return final(mask, own(made, tokens))

    return answer


def score_one_place_early(logits, tokens, mask, temperature):
    found = score_by_log_softmax(logits, tokens, mask, temperature)
    return torch.cat([found[:, 1:], torch.zeros_like(found[:, :1])], -1)


def score_without_first(logits, tokens, mask, temperature):
    return score_by_log_softmax(logits, tokens, mask, temperature)[:, 1:]


def score_next_token(logits, tokens, mask, temperature):
    """Shifts the logits the other way."""
    return score_wrong(shift=lambda logs: logs.roll(-1, 1))(logits, tokens, mask, temperature)


def score_mask_shifted(logits, tokens, mask, temperature):
    own = (logits[:, :-1] / temperature).log_softmax(-1).gather(-1, tokens[:, 1:, None])[..., 0] * mask[:, :-1]
    return torch.cat([own[:, :1] * 0, own], 1)


def score_in_place(logits, tokens, mask, temperature):
    logits /= temperature
    return score_by_log_softmax(logits, tokens, mask, 1.0)


def score_raw(logits, tokens, mask, temperature):
    own = logits.roll(1, 1).gather(-1, tokens[..., None])[..., 0] / temperature
    return torch.where(mask, own, 0)


def score_over_time(logits, tokens, mask, temperature):
    return score_wrong(logs=lambda z, t: (z / t).log_softmax(1))(logits, tokens, mask, temperature)


def score_normalised_twice(logits, tokens, mask, temperature):
    return score_wrong(logs=lambda z, t: z.log_softmax(-1) / t)(logits, tokens, mask, temperature)


# Q3: the verifier

NUMBER = r"[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?"


def one_way(number):
    plain = number.replace("$", "").replace(",", "").lstrip("+")
    return plain.rstrip("0").rstrip(".") if "." in plain else plain


def without_thought(text):
    return re.sub(r"<think>.*?(</think>|$)", "", text, flags=re.DOTALL)


def without_thought_by_find(text):
    while (start := text.find("<think>")) >= 0:
        end = text.find("</think>", start)
        text = text[:start] + ("" if end < 0 else text[end + len("</think>") :])
    return text


def strict_by_patterns(text):
    text = without_thought(text)
    places = re.findall(r"####([^\n]*)", text) or re.findall(r"<answer>(.*?)</answer>", text, flags=re.DOTALL)
    if not places or not re.fullmatch(NUMBER, places[-1].strip()):
        return None
    return one_way(places[-1].strip())


def strict_by_splitting(text):
    text = without_thought_by_find(text)
    if "####" in text:
        place = text.rpartition("####")[2].split("\n")[0].strip()
    elif "</answer>" in text:
        inside = text.rpartition("</answer>")[0]
        if "<answer>" not in inside:
            return None
        place = inside.rpartition("<answer>")[2].strip()
    else:
        return None
    digits = place[1:] if place[:1] in ("+", "-") else place
    whole, dot, decimals = digits.partition(".")
    groups = whole.split(",")
    good = all(group.isdigit() for group in groups) and (not dot or decimals.isdigit())
    if len(groups) > 1:
        good = good and len(groups[0]) <= 3 and all(len(group) == 3 for group in groups[1:])
    return one_way(place) if good else None


def strict_wrong(
    drop=without_thought,
    line=r"####([^\n]*)",
    which=-1,
    number=NUMBER,
    fits=re.fullmatch,
    tidy=lambda place: place.strip(),
    write=one_way,
    nothing=None,
):
    def answer(text):
        text = drop(text)
        places = re.findall(line, text, flags=re.DOTALL)
        places = places or re.findall(r"<answer>(.*?)</answer>", text, flags=re.DOTALL)
        found = fits(number, tidy(places[which])) if places else None
        return write(found[0]) if found else nothing

    return answer


def strict_earlier_mark(text):
    """As minirl reads a last mark without a number: the one before it. The question leaves that open."""
    text = without_thought(text)
    places = re.findall(r"####([^\n]*)", text) or re.findall(r"<answer>(.*?)</answer>", text, flags=re.DOTALL)
    good = [place.strip() for place in places if re.fullmatch(NUMBER, place.strip())]
    return one_way(good[-1]) if good else None


def strict_or_last_number(text):
    text = without_thought(text)
    found = strict_by_patterns(text)
    return found if found or not (numbers := re.findall(NUMBER, text)) else one_way(numbers[-1])


def strict_without_tags(text):
    places = re.findall(r"####([^\n]*)", without_thought(text))
    return one_way(places[-1].strip()) if places and re.fullmatch(NUMBER, places[-1].strip()) else None


def strict_last_number(text):
    numbers = re.findall(NUMBER, without_thought(text))
    return one_way(numbers[-1]) if numbers else None


FOUND = r"-?\$?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?"


def lenient_by_patterns(text):
    text = without_thought(text)
    places = re.findall(r"####([^\n]*)", text) or re.findall(r"<answer>(.*?)</answer>", text, flags=re.DOTALL)
    places = places or [re.split(r"[.!?](?=\s|$)", rest)[0] for rest in text.split("answer is")[1:]]
    numbers = [one_way(number) for number in re.findall(FOUND, places[-1] if places else text)]
    if not numbers or (places and len(set(numbers)) > 1):
        return None
    return numbers[-1]


def lenient_step_by_step(text):
    text = without_thought_by_find(text)

    def numbers(part):
        return [one_way(match.group()) for match in re.finditer(FOUND, part)]

    if "####" in text:
        part = text[text.rindex("####") + 4 :].split("\n")[0]
    elif found := list(re.finditer(r"<answer>((?:(?!<answer>).)*?)</answer>", text, re.DOTALL)):
        part = found[-1].group(1)
    elif "answer is" in text:
        part = re.match(r".*?(?=[.!?](?:\s|$)|$)", text[text.rindex("answer is") + 9 :], re.DOTALL).group()
    else:
        return numbers(text)[-1] if numbers(text) else None
    different = {*numbers(part)}
    return different.pop() if len(different) == 1 else None


def lenient_wrong(
    drop=without_thought,
    which=-1,
    sentence=r"[.!?](?=\s|$)",
    found=FOUND,
    write=one_way,
    clash=lambda numbers, marked: marked and len(set(numbers)) > 1,
    marks=True,
    said="answer is",
    pick=-1,
):
    def answer(text):
        text = drop(text)
        places = re.findall(r"####([^\n]*)", text) or re.findall(r"<answer>(.*?)</answer>", text, flags=re.DOTALL)
        places = places if marks else []
        if not places and said and said in text:
            places = [re.split(sentence, rest)[0] if sentence else rest for rest in text.split(said)[1:]]
        numbers = [write(number) for number in re.findall(found, places[which] if places else text)]
        return None if not numbers or clash(numbers, bool(places)) else numbers[pick]

    return answer


def lenient_falls_through(text):
    """Where a mark holds no number, the rest of the text is read."""
    found = lenient_by_patterns(text)
    rest = re.findall(FOUND, without_thought(text))
    return found if found or not rest else one_way(rest[-1])


def lenient_after_strict(text):
    text = without_thought(text)
    rest = re.findall(FOUND, text)
    return strict_by_patterns(text) or (one_way(rest[-1]) if rest else None)


def lenient_no_tags(text):
    text = without_thought(text)
    places = re.findall(r"####([^\n]*)", text) or [
        re.split(r"[.!?](?=\s|$)", t)[0] for t in text.split("answer is")[1:]
    ]
    numbers = [one_way(number) for number in re.findall(FOUND, places[-1] if places else text)]
    return None if not numbers or (places and len(set(numbers)) > 1) else numbers[-1]


def same_by_fraction(answer, gold):
    def exact(text):
        try:
            return Fraction(text.replace(",", ""))
        except (ValueError, AttributeError, ZeroDivisionError):
            return None

    return exact(answer) is not None and exact(answer) == exact(gold)


def same_by_decimal(answer, gold):
    if answer is None:
        return False
    try:
        one, other = (Decimal(text.strip().replace(",", "")) for text in (answer, gold))
    except InvalidOperation:
        return False
    return one.is_finite() and other.is_finite() and one == other


def same_by_form(answer, gold):
    """Both written one way, as text."""

    def form(text):
        text = text or ""
        found = re.fullmatch(r"([+-]?)0*(\d*)(?:\.(\d*?)0*)?", text.replace(",", ""))
        return found and any(c.isdigit() for c in text) and (found[1] == "-", found[2].lstrip("0"), found[3] or "")

    return bool(form(answer)) and form(answer) == form(gold)


def same_by_float(answer, gold):
    try:
        return float(answer.replace(",", "")) == float(gold.replace(",", ""))
    except (ValueError, AttributeError):
        return False


def same_by_int(answer, gold):
    try:
        return int(answer.replace(",", "")) == int(gold.replace(",", ""))
    except (ValueError, AttributeError):
        return False


def same_or_text(answer, gold):
    return answer == gold or same_by_fraction(answer, gold)


def same_roughly(answer, gold):
    try:
        return math.isclose(float(answer.replace(",", "")), float(gold.replace(",", "")), rel_tol=1e-6)
    except (ValueError, AttributeError):
        return False


def same_commas_kept(answer, gold):
    try:
        return Fraction(answer) == Fraction(gold)
    except (ValueError, TypeError):
        return False


def same_tidied(answer, gold):
    """Text after one_way: fails at leading zeros only where they occur, and takes any equal texts."""
    return answer is not None and one_way(answer) == one_way(gold)


def format_by_patterns(text):
    if any(text.count(tag) != 1 for tag in ("<think>", "</think>", "<answer>", "</answer>")):
        return False
    found = re.fullmatch(r"\s*<think>(.*)</think>\s*<answer>(.*)</answer>\s*", text, re.DOTALL)
    return found is not None and all(part.strip() for part in found.groups())


def format_by_pieces(text):
    pieces = re.split(r"(</?(?:think|answer)>)", text)
    if pieces[1::2] != ["<think>", "</think>", "<answer>", "</answer>"]:
        return False
    before, thought, between, answer, after = (bool(piece.strip()) for piece in pieces[::2])
    return thought and answer and not (before or between or after)


FORMAT = r"\s*<think>(.*)</think>\s*<answer>(.*)</answer>\s*"


def format_wrong(pattern=FORMAT, fits=re.fullmatch, flags=re.DOTALL, once=True, filled=lambda part: part.strip()):
    def answer(text):
        tags = ("<think>", "</think>", "<answer>", "</answer>")
        if once and any(text.count(tag) != 1 for tag in tags):
            return False
        found = fits(pattern, text, flags)
        return found is not None and all(filled(part) for part in found.groups())

    return answer


def format_with_number(text):
    return format_by_patterns(text) and strict_by_patterns(text) is not None


def format_present(text):
    return all(tag in text for tag in ("<think>", "</think>", "<answer>", "</answer>"))


def format_counted(text):
    return all(text.count(tag) == 1 for tag in ("<think>", "</think>", "<answer>", "</answer>"))


# Q4: pass@k and maj@k


def pass_by_comb(correct, samples, k):
    return torch.tensor([1 - math.comb(samples - c, k) / math.comb(samples, k) for c in correct.tolist()])


def pass_by_product(correct, samples, k):
    found = []
    for c in correct.numpy():
        missed = 1.0 if samples - c >= k else 0.0
        found.append(1 - missed * np.prod(1 - k / np.arange(max(samples - c, k) + 1, samples + 1)))
    return torch.from_numpy(np.array(found))


def pass_by_fraction(correct, samples, k):
    chances = {c: float(1 - Fraction(math.comb(samples - c, k), math.comb(samples, k))) for c in set(correct.tolist())}
    return torch.DoubleTensor([chances[c] for c in correct.tolist()])


def pass_each(chance):
    return lambda correct, samples, k: torch.tensor([chance(c, samples, k) for c in correct.tolist()])


def pass_by_float_factorials(correct, samples, k):
    def choose(n, r):
        return 0.0 if r > n else float(math.factorial(n)) / float(math.factorial(r)) / float(math.factorial(n - r))

    return torch.tensor([1 - choose(samples - c, k) / choose(samples, k) for c in correct.tolist()])


def pass_by_coarse_lgamma(correct, samples, k):
    """The usual trick for large n, in float32."""
    n, c = torch.tensor(float(samples)), correct.float()

    def log_choose(n):
        return torch.lgamma(n + 1) - torch.lgamma(torch.tensor(k + 1.0)) - torch.lgamma((n - k).clamp(min=0) + 1)

    return torch.where(n - c < k, 1.0, 1 - (log_choose(n - c) - log_choose(n)).exp())


def maj_by_counters(answers, gold, k):
    total, choices = 0.0, list(combinations(answers, k))
    for choice in choices:
        votes = Counter(answer for answer in choice if answer is not None)
        top = [answer for answer in votes if votes[answer] == max(votes.values())]
        total += (gold in top) / max(len(top), 1)
    return total / len(choices)


def maj_by_orders(answers, gold, k):
    """Every order is as likely as any other, so permutations do as well."""

    def share(choice):
        votes = [answer for answer in choice if answer is not None]
        top = set(statistics.multimode(votes))
        return Fraction(gold in top, max(len(top), 1))

    shares = [share(choice) for choice in permutations(answers, k)]
    return float(sum(shares) / len(shares))


def maj_wrong(
    drop=lambda answers: answers,
    choose=combinations,
    votes=lambda choice: Counter(answer for answer in choice if answer is not None),
    share=lambda gold, votes, top, k: (gold in top) / max(len(top), 1),
):
    def answer(answers, gold, k):
        choices = list(choose(drop(answers), k))
        total = 0.0
        for choice in choices:
            counts = votes(choice)
            top = [name for name in counts if counts[name] == max(counts.values())]
            total += share(gold, counts, top, k)
        return total / max(len(choices), 1)

    return answer


def first_place(gold, votes, top, k):
    return float(bool(votes) and votes.most_common(1)[0][0] == gold)


# Q5: train it


def improve_with_train(policy, task, seed):
    config = Config(12, inner_steps=1, batch_size=16, group_size=8, learning_rate=1e-3, seed=seed, evaluate_every=100)
    for _ in train(policy, task, config):
        pass


def improve_in_small_steps(policy, task, seed):
    sizes = {"inner_steps": 1, "batch_size": 4, "group_size": 8, "evaluate_every": 1000}
    for _ in train(policy, task, Config(48, **sizes, learning_rate=5e-4, seed=seed)):
        pass


def improve_wrong(rate=1e-3, sign=-1.0, learner=lambda policy: policy, size=16, epochs=12, noticed=lambda r: r):
    def answer(policy, task, seed):
        generator, policy = torch.Generator().manual_seed(seed), learner(policy)
        optimizer = torch.optim.Adam(policy.parameters(), rate)
        for _ in range(epochs):
            batch = task.sample(size, generator)
            responses, mask = policy.sample(batch.prompts, 8, generator)
            rewards = noticed(task.rewards(batch, responses, mask))
            deltas = rewards - rewards.mean(-1, keepdim=True)
            log_probs = policy.log_probs(batch.prompts, responses, mask)
            loss = sign * (deltas[..., None] * log_probs).sum(-1).mean() / 20
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return policy

    return answer


def improve_not_iterated(policy, task, seed):
    return train(policy, task, Config(12, 1, 16, 8, learning_rate=1e-3, seed=seed))


def improve_colder(policy, task, seed):
    policy.temperature = 0.3


def improve_without_step(policy, task, seed):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(4):
        batch = task.sample(8, generator)
        responses, mask = policy.sample(batch.prompts, 8, generator)
        rewards = task.rewards(batch, responses, mask)
        (-(rewards[..., None] * policy.log_probs(batch.prompts, responses, mask)).mean()).backward()


# Q6a: which one is better


def better_by_interval(one, other):
    mean, half = mean_interval(one - other)
    winner = ("first" if mean > 0 else "second") if abs(mean) > half else None
    return mean, half, winner


TABLE = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)


def better_by_hand(one, other):
    gaps = [a - b for a, b in zip(one.tolist(), other.tolist(), strict=True)]
    mean, half = statistics.mean(gaps), TABLE[len(gaps) - 2] * statistics.stdev(gaps) / math.sqrt(len(gaps))
    if mean - half > 0:
        return [mean, half, "first"]
    return [mean, half, "second"] if mean + half < 0 else [mean, half, None]


def better_in_torch(one, other):
    gaps = (one - other).double()
    half = TABLE[gaps.numel() - 2] * (gaps.var() / gaps.numel()).sqrt()
    mean = gaps.mean()
    return mean, half, [None, "first", "second"][int((mean > half).int() - 1 * (-mean > half).int())]


def better_wrong(
    gaps=lambda one, other: (one - other).double(),
    half=lambda gaps: TABLE[len(gaps) - 2] * gaps.std() / len(gaps) ** 0.5,
    winner=lambda mean, half: ("first" if mean > 0 else "second") if abs(mean) > half else None,
):
    def answer(one, other):
        differences = gaps(one, other)
        mean, width = differences.mean().item(), float(half(differences))
        return mean, width, winner(mean, width)

    return answer


def better_unpaired(one, other):
    mean = (one.mean() - other.mean()).item()
    half = TABLE[len(one) - 2] * ((one.double().var() + other.double().var()) / len(one)).sqrt().item()
    return mean, half, ("first" if mean > 0 else "second") if abs(mean) > half else None


def better_by_overlap(one, other):
    (a, x), (b, y) = mean_interval(one), mean_interval(other)
    mean, half = mean_interval(one - other)
    return mean, half, ("first" if a > b else "second") if abs(a - b) > x + y else None


# Q6b: a record


def toy_runs(seeds=3, reward=inclusion_ordering, **settings):
    config = Config(12, batch_size=16, group_size=8, evaluate_every=4, **settings)
    task = SortingTask(inclusion_ordering, vocab_size=4, length=3, held_out=0.25)
    return run_seeds(lambda seed: SortingPolicy(4, 3, 8, seed=seed), task, config, range(seeds))


def a_real_experiment():
    """An experiment as the notebook asks for it, on the sorter."""
    runs = {"lr 0.1": toy_runs(learning_rate=0.1), "lr 0.001": toy_runs(learning_rate=0.001)}
    ends = [torch.tensor([run[-1]["held_out_exact"] for run in each]) for each in runs.values()]
    mean, _, winner = better_by_interval(*ends)
    names = list(runs)
    return {
        "question": "Does a larger step sort better?",
        "metric": "held_out_exact",
        "runs": runs,
        "compared": names,
        "claim": {"difference": float(mean), "winner": {"first": names[0], "second": names[1], None: None}[winner]},
    }


def runs_of(ends, epochs=3):
    """Runs as `train` yields them, with these final values."""
    return [
        [{"epoch": float(e), "reward": 0.1 * e, "held_out_exact": end * (e + 1) / epochs} for e in range(epochs)]
        for end in ends
    ]


def record(**parts):
    made = {
        "question": "Is a group of 8 better than one of 2?",
        "metric": "held_out_exact",
        "runs": {"two": runs_of([0.30, 0.36, 0.33]), "eight": runs_of([0.70, 0.72, 0.77])},
        "compared": ("eight", "two"),
        "claim": {"difference": (0.70 + 0.72 + 0.77 - 0.30 - 0.36 - 0.33) / 3, "winner": "eight"},
    }
    return made | parts


def claim(difference, winner):
    return {"difference": difference, "winner": winner}


CLOSE = {"two": runs_of([0.30, 0.66, 0.33]), "eight": runs_of([0.35, 0.62, 0.47])}
DROPPED = {
    "two": runs_of([0.3, 0.36, 0.33]),
    "eight": [
        [*run, run[-1] | {"epoch": 3.0, "held_out_exact": end}]
        for run, end in zip(runs_of([0.9, 0.8, 0.99]), (0.70, 0.72, 0.77), strict=True)
    ],
}

RIGHT = {
    "a4.q1a": [prompt_mask_by_loops, prompt_mask_by_cummax, prompt_mask_by_first],
    "a4.q1b": [
        response_mask_by_loops,
        response_mask_by_length,
        lambda responses, end_id: end_count(responses, end_id) - (responses == end_id).long() == 0,
    ],
    "a4.q1c": [
        positions_by_loops,
        positions_from_first,
        lambda mask: (mask.cumsum(-1) - 1).clamp(min=0),
        lambda mask: (mask.cumsum(-1) - 1) * mask,
        lambda mask: (mask.cumsum(-1) - 1).clamp(min=0).float(),  # whole numbers all the same
    ],
    "a4.q2": [score_by_log_softmax, score_by_cross_entropy, score_by_loops],
    "a4.q3a": [strict_by_patterns, strict_by_splitting, strict_earlier_mark],
    "a4.q3b": [lenient_by_patterns, lenient_step_by_step],
    "a4.q3c": [same_by_fraction, same_by_decimal, same_by_form],
    "a4.q3d": [format_by_patterns, format_by_pieces],
    "a4.q4a": [
        pass_by_comb,
        pass_by_product,
        pass_by_fraction,
        pass_each(lambda c, n, k: 1 - math.prod((n - c - i) / (n - i) for i in range(k))),  # a factor is 0 in time
    ],
    "a4.q4b": [maj_by_counters, maj_by_orders],
    "a4.q5": [improve_with_train, improve_in_small_steps],
    "a4.q6a": [better_by_interval, better_by_hand, better_in_torch],
    "a4.q6b": [record(), record(runs=CLOSE, claim=claim(0.05, None)), a_real_experiment],
}

WRONG = {
    "a4.q1a": [
        (
            lambda p, pad: p != pad,
            "every padding token is padding, inside the prompt too",
            "a padding token *inside* a prompt belongs",
        ),
        (lambda p, pad: p == pad, "True on the padding", "the mask is turned round"),
        (
            lambda p, pad: (p != pad).flip(-1).cumsum(-1).flip(-1) > 0,
            "padding stands on the right",
            "this is for padding on the right",
        ),
        (
            lambda p, pad: (p != pad).cumsum(-1) > 1,
            "leaves out the first token of the prompt",
            "the prompt's first token is lost",
        ),
        (lambda p, pad: (p != pad).cumsum(0) > 0, "counts down the batch", "you count down the batch"),
        (lambda p, pad: torch.ones_like(p, dtype=torch.bool), "everything is inside", "everything is True"),
        (lambda p, pad: p != 0, "the padding token is 0", "the padding token is not always 0"),
        (lambda p, pad: (p != pad).cumsum(-1), "the counts themselves, not a mask", "these are counts"),
        (
            lambda p, pad: torch.arange(p.shape[1]) >= (p == pad).sum(-1, keepdim=True),
            "counts all padding tokens of a row",
            "you count every padding token of a",
        ),
        (
            lambda p, pad: torch.arange(p.shape[1]).expand(p.shape) >= (p[0] != pad).int().argmax(),
            "all rows begin where the first does",
            "every row begins where the first one",
        ),
        (
            lambda p, pad: (p == pad).cumsum(-1) == 0,
            "the prompt ends at the first padding token",
            "True stops at the first padding token",
        ),
    ],
    "a4.q1b": [
        (lambda r, end: end_count(r, end) == 0, "leaves the end token out", "the first end token is left out"),
        (lambda r, end: r != end, "everything but end tokens is inside", "whatever is no end token is inside"),
        (response_mask_last, "up to the last end token", "you go on to the last end"),
        (
            lambda r, end: end_count(r, end) <= 1,
            "what follows the first end token stays inside until the second",
            "you go on to the *second* end",
        ),
        (
            lambda r, end: torch.arange(r.shape[-1]) <= (r == end).int().argmax(-1, keepdim=True),
            "argmax of no end token is 0",
            "a response that was cut off has",
        ),
        (
            lambda r, end: (r == end).cumsum(1) - (r == end).long() == 0,
            "counts along the group",
            "you count along the group or the",
        ),
        (
            lambda r, end: torch.ones_like(r, dtype=torch.bool),
            "everything is inside",
            "everything after the first end token is",
        ),
        (
            lambda r, end: end_count(r, end) - (r == end).long() > 0,
            "what comes after the end, inverted",
            "the mask is turned round",
        ),
        (
            lambda r, end: end_count(r, end).roll(1, -1) == 0,
            "shifts by roll, which wraps around",
            "roll brings the last place round to",
        ),
        (
            lambda r, end: (end_count(r, end) == 0) | (r == end),
            "keeps every later end token as well",
            "every end token is inside",
        ),
        (lambda r, end: r == end, "the end tokens alone", "the end tokens alone are True"),
        (lambda r, end: end_count(r, end) > 0, "from the end token on", "the mask is turned round"),
        (lambda r, end: r != 0, "padding is token 0", "you look for padding by its number"),
    ],
    "a4.q1c": [
        (
            lambda m: torch.arange(m.shape[1]).expand(m.shape),
            "counts from the left edge",
            "you count from the left edge",
        ),
        (lambda m: m.cumsum(-1), "begins at 1", "the first token has position 0"),
        (lambda m: m.cumsum(-1) - 1, "leaves −1 on the padding", "the padding has position −1"),
        (
            lambda m: torch.arange(m.shape[1]) * m,
            "left edge, zero on the padding",
            "on the tokens you still count from",
        ),
        (lambda m: (m.cumsum(0) - 1).clamp(min=0), "counts down the batch", "you count down the batch"),
        (lambda m: ((~m).cumsum(-1) - 1).clamp(min=0), "counts the padding", "you count the padding"),
        (
            lambda m: (m.cumsum(-1) - 1).masked_fill(~m, 1),
            "1 on the padding, as some libraries have it",
            "the padding has position 1",
        ),
        (lambda m: (m.flip(-1).cumsum(-1).flip(-1) - 1).clamp(min=0), "counts from the end", "you count backwards"),
        (lambda m: m.cumsum(-1) * m, "begins at 1, zero on the padding", "the first token has position 0"),
        (lambda m: m.long(), "the mask as numbers", "this is the mask as numbers"),
        (
            lambda m: (torch.arange(m.shape[1]) - m.sum(-1, keepdim=True)).clamp(min=0),
            "takes the prompt's length off",
            "you take off the prompt's length",
        ),
    ],
    "a4.q2": [
        (score_wrong(shift=lambda logs: logs), "logits at a place predict the token at that place", "off by one"),
        (score_wrong(logs=lambda z, t: z.log_softmax(-1)), "the temperature is left out", "the temperature is ignored"),
        (
            score_wrong(logs=lambda z, t: (z * t).log_softmax(-1)),
            "multiplies by the temperature",
            "the temperature multiplies",
        ),
        (
            score_normalised_twice,
            "divides the log-probs, after the softmax, by the temperature",
            "you divide the log-probs",
        ),
        (score_wrong(final=lambda mask, new: new), "the mask is forgotten", "prompt and padding are scored too"),
        (
            score_wrong(logs=lambda z, t: (z / t).softmax(-1).log()),
            "log of softmax in two steps",
            "the log of a softmax",
        ),
        (
            score_one_place_early,
            "puts each score at the place that predicts",
            "each number stands where it is predicted",
        ),
        (score_without_first, "returns one place fewer", "one place is missing"),
        (score_over_time, "the softmax runs over the places", "the softmax runs over the places"),
        (score_raw, "the logit itself is the log-prob", "these are logits"),
        (score_wrong(logs=lambda z, t: (z / t).softmax(-1)), "probabilities without a log", "these are probabilities"),
        (score_next_token, "shifts the other way", "shifted the wrong way"),
        (
            lambda z, tok, m, t: score_by_log_softmax(z.detach(), tok, m, t),
            "detaches the logits",
            "the logits are detached",
        ),
        (
            lambda z, tok, m, t: score_by_log_softmax(z, tok, m, t).sum(-1),
            "sums over the tokens",
            "one number for each row",
        ),
        (lambda z, tok, m, t: -score_by_log_softmax(z, tok, m, t), "a loss: the minus", "this is minus the log-prob"),
        (score_mask_shifted, "the mask is not shifted with the tokens", "the mask is not shifted with the"),
        (score_in_place, "divides in place", "changes its input number 1 in place"),
        (lambda z, tok, m, t: score_by_log_softmax(z.float(), tok, m, t), "computes in float32", "too coarse"),
        (
            score_wrong(logs=lambda z, t: ((z / t).softmax(-1) + 1e-10).log()),
            "a small number inside the log",
            "a small number inside the log",
        ),
        (
            score_wrong(own=lambda logs, tokens: logs.max(-1).values),
            "the likeliest token instead of the sampled one",
            "the token with the highest score is",
        ),
    ],
    "a4.q3a": [
        (strict_wrong(which=0), "the first mark counts", "two answers were given"),
        (
            strict_wrong(tidy=lambda place: place.strip().replace("$", "")),
            "a dollar sign is harmless",
            "the dollar sign is taken off",
        ),
        (
            strict_wrong(tidy=lambda place: place.strip().rstrip(".")),
            "a full stop at the end is harmless",
            "a full stop after the number is",
        ),
        (strict_wrong(drop=lambda text: text), "the thinking is not dropped", "what is only thought is no answer"),
        (strict_wrong(fits=re.search), "a number somewhere in the place is enough", "strict wants a bare number"),
        (strict_wrong(fits=re.match), "the place begins with a number", "the place need only *begin* with a"),
        (
            strict_wrong(drop=partial(re.compile(r"<think>.*?</think>", re.DOTALL).sub, "")),
            "a thought always closes",
            "a <think> that is never closed runs",
        ),
        (strict_wrong(write=str), "the number as it was written", "equal numbers must be equal strings"),
        (
            strict_wrong(drop=partial(re.compile(r"<think>.*</think>", re.DOTALL).sub, "")),
            "a greedy star: unclosed or two thoughts",
            "“.*” takes as much as",
        ),
        (
            strict_wrong(drop=partial(re.compile(r"<think>.*?(</think>|$)").sub, "")),
            "the dot matches line breaks",
            "a thought of several lines is not",
        ),
        (
            strict_wrong(line=r"####(.*)"),
            "the mark's place runs to the end of the text",
            "what follows a #### is read to",
        ),
        (strict_last_number, "the last number of the text", "without a mark there is no strict"),
        (
            strict_or_last_number,
            "without a bare number the last one of the text will do",
            "without a mark there is no strict",
        ),
        (strict_without_tags, "only #### is a mark", "only #### is looked at"),
        (
            strict_wrong(number=r"[+-]?[\d,]+(?:\.\d+)?"),
            "commas may stand anywhere",
            "commas may stand anywhere in your numbers",
        ),
        (
            strict_wrong(number=r"[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)"),
            "whole numbers only",
            "numbers with decimals are lost",
        ),
        (strict_wrong(number=r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?"), "no sign", "the sign is lost"),
        (strict_wrong(number=r"[+-]?\d+(?:\.\d+)?"), "no commas", "numbers with commas are lost"),
        (
            strict_wrong(write=lambda number: float(number.replace(",", ""))),
            "a number, not a string",
            "the answer is a string",
        ),
        (strict_wrong(nothing=""), "an empty string for no answer", "where there is no answer"),
        (
            strict_wrong(tidy=lambda place: place),
            "white space is not taken off",
            "white space around the number is allowed",
        ),
        (strict_wrong(line=r"#### (\S+)"), "one word after the mark", "the place need only *begin* with a"),
    ],
    "a4.q3b": [
        (
            lenient_wrong(pick=0, marks=False, said=""),
            "the first number of the text",
            "you take the text's *first* number",
        ),
        (lenient_wrong(marks=False, said=""), "the last number of the text", "you take the text's last number"),
        (lenient_wrong(drop=lambda text: text), "the thinking is not dropped", "what is only thought is no answer"),
        (
            lenient_wrong(clash=lambda numbers, marked: False),
            "of two numbers the last one",
            "two numbers in one place are no",
        ),
        (
            lenient_wrong(clash=lambda numbers, marked: False, pick=0),
            "of two numbers the first one",
            "two numbers in one place are no",
        ),
        (
            lenient_wrong(sentence=r"[.!?]"),
            "every full stop ends the sentence, in 2.50 too",
            "a full stop inside a number ends",
        ),
        (lenient_wrong(sentence=None), "what follows 'answer is' runs to the end of the text", "what follows"),
        (
            lenient_wrong(write=str),
            "numbers are not written one way, so 18.00 and 18 differ",
            "equal numbers must be equal strings",
        ),
        (
            lenient_wrong(clash=lambda numbers, marked: marked and len(numbers) > 1),
            "the same number twice is a guess twice",
            "the same number twice is one answer",
        ),
        (lenient_wrong(which=0), "the first mark counts", "two answers were given"),
        (lenient_wrong(found=r"\$?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?"), "no sign", "the sign is lost"),
        (lenient_wrong(found=r"-?\$?\d+(?:\.\d+)?"), "no commas", "a number is read in part"),
        (lenient_wrong(found=r"-?\$?(?:\d{1,3}(?:,\d{3})+|\d+)"), "no decimals", "numbers are cut off at the decimal"),
        (
            lenient_falls_through,
            "where a mark holds no answer, the rest of the text does",
            "two numbers in one place are no",
        ),
        (lenient_after_strict, "the strict answer, else the last number", "where the strict answer fails"),
        (
            lenient_wrong(clash=lambda numbers, marked: len(set(numbers)) > 1),
            "two numbers anywhere in the text are a guess twice",
            "two different numbers are no answer where",
        ),
        (lenient_no_tags, "only #### is a mark", "only #### is looked at"),
        (lenient_wrong(said=""), "'answer is' is no place", "“The answer is 18.” says"),
        (strict_by_patterns, "the strict answer handed in again", "this is still strict"),
        (
            lenient_wrong(drop=partial(re.compile(r"<think>.*?</think>", re.DOTALL).sub, "")),
            "a thought always closes",
            "a <think> that is never closed runs",
        ),
        (
            lenient_wrong(write=lambda number: number.replace(",", "").replace("$", "")),
            "zeros after the decimals stay",
            "equal numbers must be equal strings",
        ),
        (
            lenient_wrong(found=r"-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?"),
            "the minus before a dollar is lost",
            "the sign is lost",
        ),
    ],
    "a4.q3c": [
        (lambda answer, gold: answer == gold, "the same text", "as strings"),
        (lambda answer, gold: answer is not None and answer == gold, "the same text, None aside", "as strings"),
        (
            lambda answer, gold: answer is not None and answer in gold,
            "the answer is a part of gold",
            "a part is not the whole",
        ),
        (
            lambda answer, gold: answer is not None and gold in answer,
            "gold is a part of the answer",
            "a part is not the whole",
        ),
        (same_by_float, "floats", "floats have 53 bits"),
        (same_by_int, "whole numbers only", "only whole numbers are compared"),
        (same_or_text, "equal texts are equal, words and None too", "what is no number equals nothing"),
        (same_roughly, "nearly equal is equal", "floats have 53 bits"),
        (same_commas_kept, "commas are not taken out", "the comma for thousands is not removed"),
        (
            lambda answer, gold: Fraction(answer.replace(",", "")) == Fraction(gold.replace(",", "")),
            "words and None do not occur",
            "a text that is no number",
        ),
        (same_tidied, "equal once written the one way, whatever they are", "what is no number equals nothing"),
        (
            lambda answer, gold: (
                answer is not None and same_by_fraction(re.sub(r"[^\d.]", "", answer), re.sub(r"[^\d.]", "", gold))
            ),
            "everything but digits is dropped, the sign too",
            "the sign is lost",
        ),
        (
            lambda answer, gold: answer is not None and Fraction(answer.replace(",", "")) == Fraction(gold),
            "words do not occur",
            "your code stopped with ValueError: Invalid literal",
        ),
    ],
    "a4.q3d": [
        (
            format_wrong(fits=re.search),
            "the pattern may stand anywhere in the text",
            "text before or after is let through",
        ),
        (
            format_wrong(fits=re.match, pattern=r"\s*<think>(.*)</think>\s*<answer>(.*)</answer>"),
            "what follows is not looked at",
            "text after the answer is let through",
        ),
        (format_wrong(once=False), "the star takes a second pair of tags along", "“.*” takes other tags along,"),
        (format_wrong(filled=lambda part: True), "may be empty", "an empty thought or answer passes"),
        (format_wrong(filled=bool), "white space is something", "white space alone is nothing"),
        (
            format_wrong(flags=re.DOTALL | re.IGNORECASE, once=False),
            "case does not matter",
            "tags in capitals are other tokens",
        ),
        (format_wrong(flags=0), "the dot matches line breaks", "“.” does not match a"),
        (
            format_wrong(pattern=r"\s*<think>(.*)</think> <answer>(.*)</answer>\s*"),
            "just one space between them",
            "white space around the tags is no",
        ),
        (format_present, "all tags occur", "you ask whether the tags are there"),
        (format_counted, "each tag once, in any order", "you ask whether the tags are there"),
        (format_with_number, "the answer must be a number", "whether the answer is a number"),
        (
            format_wrong(pattern=r"<think>(.*)</think>\s*<answer>(.*)</answer>"),
            "no white space around",
            "white space around the tags is no",
        ),
        (
            format_wrong(pattern=r"\s*<think>(.*)</think>.*<answer>(.*)</answer>\s*"),
            "anything may stand between",
            "between thinking and answer there is other",
        ),
        (
            lambda text: text.strip().startswith("<think>") and text.strip().endswith("</answer>"),
            "begins and ends rightly",
            "you look at how the text begins",
        ),
        (
            format_wrong(once=False, filled=lambda part: part.strip() and "<answer>" not in part),
            "one answer, but any number of thoughts",
            "several thoughts pass",
        ),
        (
            format_wrong(pattern=r"\s*<think>(.*)</think>\s*<answer>(\s*\S+\s*)</answer>\s*"),
            "the answer is one word",
            "whether the answer is a number",
        ),
    ],
    "a4.q4a": [
        (pass_each(lambda c, n, k: 1 - (1 - c / n) ** k), "draws with replacement", "1 −"),
        (pass_each(lambda c, n, k: c / n), "k is left out", "this is pass@1"),
        (
            pass_each(lambda c, n, k: math.comb(n - c, k) / math.comb(n, k)),
            "the chance that none is right",
            "this is the chance that all k",
        ),
        (
            pass_each(lambda c, n, k: math.comb(c, k) / math.comb(n, k)),
            "the chance that all are right",
            "this is the chance that all k",
        ),
        (
            pass_each(lambda c, n, k: float(c > 0)),
            "one right sample is enough, whatever k",
            "one right sample of n gives you",
        ),
        (
            pass_each(lambda c, n, k: min(1.0, k * c / n)),
            "k times the chance of one",
            "k·c/n counts a draw with two right",
        ),
        (
            pass_each(lambda c, n, k: 1 - math.comb(n - c, k) // math.comb(n, k)),
            "whole division",
            "one right sample of n gives you",
        ),
        (
            lambda correct, n, k: pass_by_comb(correct, n, k).mean(),
            "averages over the problems",
            "one number for all problems",
        ),
        (pass_by_float_factorials, "factorials as floats", "C(2000, 1000) has 601 digits"),
        (pass_by_coarse_lgamma, "lgamma in float32", "lgamma in float32 loses the digits that"),
        (
            pass_each(lambda c, n, k: 1 - math.comb(n - c, k) / math.comb(n, n - c)),
            "the wrong number of choices",
            "the wrong binomial coefficients",
        ),
        (
            pass_each(lambda c, n, k: 1 - math.comb(n - k, c) / math.comb(n, k)),
            "c and k exchanged in one place",
            "the wrong binomial coefficients",
        ),
        (
            pass_each(lambda c, n, k: 1 - math.comb(c, k) / math.comb(n, k)),
            "c instead of n − c",
            "the wrong binomial coefficients",
        ),
        (pass_each(lambda c, n, k: float(c >= k)), "k right ones are needed", "k right answers are not needed"),
        (
            pass_each(lambda c, n, k: c * math.comb(n - c, k - 1) / math.comb(n, k)),
            "exactly one is right",
            "this is the chance that exactly one",
        ),
    ],
    "a4.q4b": [
        (maj_wrong(votes=Counter), "None votes", "None is no answer"),
        (maj_wrong(share=first_place), "of equals the one that came first wins", "of equals"),
        (
            maj_wrong(share=lambda gold, votes, top, k: float(votes[gold] > k / 2)),
            "a winner needs more than half",
            "the most frequent answer wins",
        ),
        (
            maj_wrong(share=lambda gold, votes, top, k: float(gold in top)),
            "a tie is won",
            "a tie for the first place is",
        ),
        (
            maj_wrong(share=lambda gold, votes, top, k: float(top == [gold])),
            "a tie is lost",
            "a tie for the first place is",
        ),
        (
            maj_wrong(choose=lambda answers, k: [answers[:k]]),
            "the first k answers",
            "you vote among the first k answers",
        ),
        (maj_wrong(choose=lambda answers, k: [answers]), "all answers vote, whatever k", "all answers vote"),
        (
            maj_wrong(choose=lambda answers, k: set(combinations(answers, k))),
            "equal choices count once",
            "equal choices count once",
        ),
        (
            maj_wrong(drop=lambda answers: [a for a in answers if a is not None]),
            "None is dropped before the choice",
            "you take the Nones out before drawing",
        ),
        (
            maj_wrong(choose=lambda answers, k: product(answers, repeat=k)),
            "draws with replacement",
            "the same sample is drawn twice",
        ),
        (
            maj_wrong(share=lambda gold, votes, top, k: float(gold in votes)),
            "one vote is enough: pass@k",
            "one vote is enough",
        ),
        (
            maj_wrong(share=lambda gold, votes, top, k: votes[gold] / k),
            "the share of votes",
            "this is the share of right answers",
        ),
        (
            maj_wrong(share=lambda gold, votes, top, k: votes[gold] / max(sum(votes.values()), 1)),
            "the share of votes among those who vote",
            "this is the share of the votes",
        ),
        (
            maj_wrong(share=lambda gold, votes, top, k: 0.5 * (gold in top) if len(top) > 1 else float(gold in top)),
            "a tie is always between two",
            "a tie is always worth ½",
        ),
        (
            maj_wrong(choose=lambda answers, k: [answers[i : i + k] for i in range(0, len(answers), k)]),
            "cuts the answers into groups of k",
            "you cut the answers into groups of",
        ),
        (
            maj_wrong(choose=lambda answers, k: combinations(set(answers), k)),
            "different answers only",
            "equal answers are taken together before the",
        ),
    ],
    "a4.q5": [
        (improve_not_iterated, "train works when it is called", "train is a generator"),
        (improve_wrong(learner=copy.deepcopy), "trains a copy and returns it", "as it was"),
        (improve_wrong(learner=lambda policy: load("pocket")), "trains another model", "as it was"),
        (improve_wrong(rate=1e-6), "the learning rate of a large model", "hardly moved"),
        (improve_wrong(rate=0.3), "a learning rate that breaks the model", "worse than before"),
        (improve_wrong(sign=1.0), "the sign of the loss", "worse than before"),
        (improve_colder, "a lower temperature instead of training", "no response was graded"),
        (improve_without_step, "gradients without an optimiser", "as it was"),
        (improve_wrong(noticed=lambda rewards: rewards * 0 + 1), "a reward that never differs", "as it was"),
    ],
    "a4.q6a": [
        (better_unpaired, "the two settings are not paired", "the same seed in both is a"),
        (
            better_wrong(half=lambda d: TABLE[len(d) - 2] * d.std(correction=0) / len(d) ** 0.5),
            "divides by n, not n − 1",
            "you divide by n in the standard",
        ),
        (
            better_wrong(half=lambda d: TABLE[len(d) - 2] * d.std()),
            "without the root of n",
            "this is the spread of single seeds",
        ),
        (better_wrong(half=lambda d: 1.96 * d.std() / len(d) ** 0.5), "1.96 for few seeds", "1.96 is for many seeds;"),
        (better_wrong(gaps=lambda one, other: (other - one).double()), "second less first", "the sign is turned round"),
        (
            better_wrong(winner=lambda mean, half: "first" if mean > 0 else "second"),
            "the higher mean wins",
            "the mean alone names a winner",
        ),
        (
            better_wrong(half=lambda d: 2 * TABLE[len(d) - 2] * d.std() / len(d) ** 0.5),
            "the whole width",
            "this is the whole width",
        ),
        (better_wrong(half=lambda d: d.std() / len(d) ** 0.5), "the standard error without t", "t is missing"),
        (better_by_overlap, "two intervals that overlap mean no winner", "that two intervals overlap does not decide"),
        (
            better_wrong(winner=lambda mean, half: ("second" if mean > 0 else "first") if abs(mean) > half else None),
            "the lower one wins",
            "the winner is the other one",
        ),
        (
            better_wrong(winner=lambda mean, half: "first" if mean > half else None),
            "only the first can win",
            "only the first can win with you",
        ),
        (better_wrong(half=lambda d: TABLE[len(d) - 2] * d.std() / len(d)), "n instead of its root", "you divide by n"),
        (
            better_wrong(half=lambda d: TABLE[len(d) - 1] * d.std() / len(d) ** 0.5),
            "t with n degrees of freedom",
            "t belongs to n − 1",
        ),
        (better_wrong(half=lambda d: 4.303 * d.std() / len(d) ** 0.5), "t of 3 seeds always", "t belongs to n − 1"),
        (
            better_wrong(gaps=lambda one, other: (one - other).abs().double()),
            "differences without a sign",
            "the differences have lost their signs",
        ),
        (
            better_wrong(winner=lambda mean, half: ("first" if mean > 0 else "second") if abs(mean) > half else "None"),
            "a text for no winner",
            "None is no name",
        ),
        (
            better_wrong(winner=lambda mean, half: (0 if mean > 0 else 1) if abs(mean) > half else None),
            "the number of the winner",
            "the winner is a word",
        ),
        (
            better_wrong(half=lambda d: TABLE[len(d) - 2] * d.var() / len(d) ** 0.5),
            "the variance for the deviation",
            "this is the variance",
        ),
    ],
    "a4.q6b": [
        (
            record(question="We compared groups of 8 and 2."),
            "not a question",
            "what is the question? One sentence that",
        ),
        (record(claim=claim(-0.40, "eight")), "second less first", "the claim's difference is not what the"),
        (record(runs=CLOSE, claim=claim(0.05, "eight")), "the higher mean wins", "the interval includes 0"),
        (
            record(claim=claim(0.40, None)),
            "a winner is not named though there is one",
            "the runs name another winner than your",
        ),
        (record(claim=claim(0.40, "first")), "first instead of the name", "the runs name another winner than your"),
        (record(claim=claim(0.40, "two")), "the other one is named", "the runs name another winner than your"),
        (record(claim=claim(40.0, "eight")), "in per cent", "the claim's difference is not what the"),
        (
            record(claim=claim(0.5, "eight")),
            "a difference that the runs do not have",
            "the claim's difference is not what the",
        ),
        (
            record(claim=claim(0.47, "eight"), runs=DROPPED),
            "the best epoch instead of the last",
            "the claim's difference is not what the",
        ),
        (
            record(runs={"eight": runs_of([0.7, 0.72, 0.77])}, compared=("eight", "eight"), claim=claim(0.0, None)),
            "one setting",
            "one setting alone answers no question",
        ),
        (
            record(runs={"two": runs_of([0.3, 0.36]), "eight": runs_of([0.7, 0.72])}, claim=claim(0.38, "eight")),
            "two seeds",
            "fewer than three seeds",
        ),
        (
            record(runs={"two": runs_of([0.3] * 3), "eight": runs_of([0.7] * 3)}, claim=claim(0.4, "eight")),
            "one run, three times",
            "two runs of a setting are the",
        ),
        (record(compared=("eight", "four")), "a setting that was not run", "compared names two of the settings"),
        (record(metric="accuracy"), "a metric that the runs do not have", "the last epoch of a run lacks"),
        (
            record(runs={"two": [0.30, 0.36, 0.33], "eight": [0.70, 0.72, 0.77]}),
            "final values instead of runs",
            "each run is a list of metrics",
        ),
        ({key: value for key, value in record().items() if key != "claim"}, "no claim", "part 'claim' is missing"),
        (
            record(runs={"two": runs_of([0.3, 0.36, 0.33]), "eight": runs_of([0.70, 0.72, 0.77, 0.74])}),
            "not the same seeds",
            "the settings have different numbers of runs",
        ),
        (record(claim="eight is better"), "the claim in words", "part 'claim' is missing"),
        (
            record(
                runs={
                    "two": [run[-1] for run in runs_of([0.3, 0.36, 0.33])],
                    "eight": [run[-1] for run in runs_of([0.70, 0.72, 0.77])],
                }
            ),
            "the last epochs alone",
            "each run is a list of metrics",
        ),
    ],
}
