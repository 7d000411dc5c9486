"""Assignment 5: the same answers with other tools, a gradient of one's own, plain floats, and loops."""

import re
from fractions import Fraction
from statistics import mean, median, stdev

import numpy as np
import torch
from torch.utils.checkpoint import checkpoint

from minirl import deltas, losses


def encode_with_the_tokenizers_padding(questions, system, tokenizer):
    tokenizer.padding_side = "left"
    talks = [[{"role": "system", "content": system}, {"role": "user", "content": question}] for question in questions]
    texts = tokenizer.apply_chat_template(talks, tokenize=False, add_generation_prompt=True)
    return tokenizer(texts, padding=True, return_tensors="pt", add_special_tokens=False).input_ids


def encode_by_tokens(questions, system, tokenizer):
    rows = []
    for question in questions:
        talk = [{"role": "system", "content": system}, {"role": "user", "content": question}]
        ids = tokenizer.apply_chat_template(talk, add_generation_prompt=True, return_dict=False)
        rows.append(torch.tensor(ids).flip(0))
    padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=tokenizer.pad_token_id)
    return padded.flip(1)


def log_probs_by_cross_entropy(hidden, head, tokens, temperature, chunk):
    def piece(states, targets):
        return -torch.nn.functional.cross_entropy(head(states).float() / temperature, targets, reduction="none")

    found = []
    for start in range(0, len(tokens), chunk):
        part = slice(start, start + chunk)
        found.append(checkpoint(piece, hidden[part], tokens[part], use_reentrant=False))
    return torch.cat(found)


def log_probs_one_by_one(hidden, head, tokens, temperature, chunk):
    def one(state, token):
        logits = head(state[None])[0].to(torch.float32) / temperature
        return logits[token] - logits.logsumexp(0)

    pairs = zip(hidden, tokens, strict=True)
    return torch.stack([checkpoint(one, *pair, use_reentrant=False) for pair in pairs])


class Chosen(torch.autograd.Function):
    """A gradient by hand, worked out in the forward pass: nothing of the vocabulary's size is kept."""

    @staticmethod
    def forward(context, hidden, head, tokens, temperature):
        with torch.enable_grad():
            leaf = hidden.detach().requires_grad_()
            scores = (head(leaf).float() / temperature).log_softmax(-1).gather(-1, tokens[:, None])[:, 0]
            (slope,) = torch.autograd.grad(scores.sum(), leaf)
        context.save_for_backward(slope)
        return scores.detach()

    @staticmethod
    def backward(context, outward):
        return context.saved_tensors[0] * outward[:, None], None, None, None


def log_probs_by_hand(hidden, head, tokens, temperature, chunk):
    pieces = zip(hidden.split(chunk), tokens.split(chunk), strict=True)
    return torch.cat([Chosen.apply(part, head, some, temperature) for part, some in pieces])


def accumulate_by_slices(policy, rollout, micro_batch_size):
    """Everything written out, the responses' tokens counted by hand."""
    rewards, mask = rollout.rewards, rollout.mask
    push = ((rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, keepdim=True) + 1e-6)).unsqueeze(-1)
    tokens, loss = mask.sum().item(), torch.zeros(())
    for start in range(0, len(rewards), micro_batch_size):
        part = slice(start, start + micro_batch_size)
        now = policy.log_probs(rollout.prompts[part], rollout.responses[part], mask[part])
        ratio = torch.exp(now - rollout.old_log_probs[part])
        gains = torch.min(ratio * push[part], ratio.clip(0.8, 1.2) * push[part])
        here = -gains[mask[part]].sum() / tokens
        here.backward()
        loss += here.detach()
    return loss


def accumulate_with_minirl(policy, rollout, micro_batch_size):
    weights = losses.token_weights(rollout.mask, "token")
    each = zip(deltas.normalized(rollout.rewards).split(micro_batch_size), weights.split(micro_batch_size), strict=True)
    total, start = [], 0
    for push, weight in each:
        part = rollout.rows(torch.arange(start, start + len(push)))
        start += len(push)
        now = policy.log_probs(part.prompts, part.responses, part.mask)
        total.append((weight * losses.clipped(now, part.old_log_probs, push)).sum())
        total[-1].backward()
    return sum(each.item() for each in total)


def reward_by_counting(text, row):
    box = None
    for opening in text.split("\\boxed{")[1:]:
        depth, inside = 1, ""
        for sign in opening:
            depth += (sign == "{") - (sign == "}")
            if depth == 0:
                box = inside
                break
            inside += sign
    digits = re.findall(r"-?[0-9][0-9,.]*", box or "")
    gold = row["answer"].split("####")[-1].strip()
    return 1.0 if digits and Fraction(digits[0].replace(",", "")) == Fraction(gold.replace(",", "")) else 0.0


def reward_by_nested_pattern(text, row):
    boxes = re.findall(r"\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}", text)
    number = re.search(r"-?\d[\d,]*(\.\d+)?", boxes[-1]) if boxes else None
    gold = float(re.search(r"#### (\S+)", row["answer"])[1].replace(",", ""))
    return number is not None and float(number[0].replace(",", "")) == gold


def fits_in_floats(shape, parameters, tokens, card):
    always = (4 + 4 + 8 + 2) * parameters
    a_token = 4 * shape.num_hidden_layers * shape.num_key_value_heads * shape.head_dim
    rows = int(max((0.9 * card * 1e9 - always) / (a_token * tokens), 0))
    return float(always), a_token, rows


def fits_by_counting(shape, parameters, tokens, card):
    token = sum(2 * 2 * shape.num_key_value_heads * shape.head_dim for _ in range(shape.num_hidden_layers))
    rows = 0
    while 18 * parameters + (rows + 1) * tokens * token <= card * 900_000_000:
        rows += 1
    return [18 * parameters, token, rows]


def what_happened_backwards(epochs):
    right = [epoch["strict_rate"] for epoch in epochs]
    start = len(epochs)
    while start and right[start - 1] < max(right[:start]) / 2:
        start -= 1
    if start == len(epochs):
        return None, None
    for place, now in enumerate(epochs[: start + 1]):
        before = epochs[:place]
        if before and now["grad_norm"] > 10 * median(epoch["grad_norm"] for epoch in before):
            return epochs[start]["epoch"], "step"
        if now["truncated"] > 0.2:
            return epochs[start]["epoch"], "cut"
        best = max(right[:place], default=0)
        if right[place] < 0.75 * best and now["reward_mean"] > max(epoch["reward_mean"] for epoch in before):
            return epochs[start]["epoch"], "hacked"
    return epochs[start]["epoch"], None


def what_happened_with_arrays(epochs):
    column = {name: np.array([epoch[name] for epoch in epochs]) for name in epochs[0]}
    right, reward, norm = column["strict_rate"], column["reward_mean"], column["grad_norm"]
    below = right < np.maximum.accumulate(right) / 2
    lasting = np.logical_and.accumulate(below[::-1])[::-1]
    if not lasting.any():
        return (None, None)
    first = int(lasting.argmax())
    middles = np.array([np.inf, *(np.median(norm[:place]) for place in range(1, len(norm)))])
    best = [np.concatenate([[np.inf], np.maximum.accumulate(each)[:-1]]) for each in (reward, right)]
    shown = {
        "step": norm > 10 * middles,
        "cut": column["truncated"] > 0.2,
        "hacked": (reward > best[0]) & (right < 0.75 * best[1]),
    }
    for place in range(first + 1):
        for name, where in shown.items():
            if where[place]:
                return int(column["epoch"][first]), name
    return int(column["epoch"][first]), None


def gain_by_statistics(before, after, judge):
    shares = [
        {each["question"]: mean(response[judge] for response in each["sampled"]) for each in side}
        for side in (before, after)
    ]
    gains = [shares[1][question] - shares[0][question] for question in shares[0]]
    half = 1.96 * stdev(gains) / len(gains) ** 0.5
    return mean(gains), mean(gains) - half, mean(gains) + half


def gain_with_numpy(before, after, judge):
    def table(side):
        return np.array([[one[judge] for one in each["sampled"]] for each in sorted(side, key=lambda e: e["question"])])

    gains = table(after).mean(1) - table(before).mean(1)
    error = gains.std(ddof=1) / np.sqrt(len(gains))
    return np.array([gains.mean(), gains.mean() - 1.96 * error, gains.mean() + 1.96 * error]).tolist()


A5 = {
    "a5.q1": {"the tokenizer's padding": encode_with_the_tokenizers_padding, "by tokens": encode_by_tokens},
    "a5.q2": {
        "cross entropy": log_probs_by_cross_entropy,
        "one by one": log_probs_one_by_one,
        "a gradient by hand": log_probs_by_hand,
    },
    "a5.q3": {"slices": accumulate_by_slices, "minirl's losses": accumulate_with_minirl},
    "a5.q4": {"counting braces": reward_by_counting, "a nested pattern": reward_by_nested_pattern},
    "a5.q5": {"floats": fits_in_floats, "counting": fits_by_counting},
    "a5.q6": {"backwards": what_happened_backwards, "arrays": what_happened_with_arrays},
    "a5.q7": {"statistics": gain_by_statistics, "numpy": gain_with_numpy},
}
