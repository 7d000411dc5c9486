"""Evaluate a language policy: greedy and sampled, every response kept and every check apart, as a file that can grow.

`samples.jsonl` gets a line a problem as soon as its batch is done, so an evaluation that was stopped goes on where it
was: batch by batch each has random numbers of its own, and the end is the same. Left out: several GPUs.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

import torch

from minirl.evaluate import maj_at_k, pass_at_k, wilson_interval
from minirl.llm.problem import Problem
from minirl.llm.verify import extract_answer
from minirl.runs import write

SHOWN = ("strict", "lenient", "boxed", "format")


def evaluate(
    policy, task, problems: list[Problem], samples: int, batch_size: int, seed: int, file: Path
) -> Iterator[dict]:
    """Answer the problems that `file` lacks and append them; yields all records in order, the old ones first.

    Each problem gets one greedy response and `samples` sampled ones.
    """
    done = finished(file, batch_size, [problem.question for problem in problems])
    yield from done
    for start in range(len(done), len(problems), batch_size):
        batch = problems[start : start + batch_size]
        records = answered(policy, task, batch, samples, seed, start)
        with file.open("a", encoding="utf-8") as lines:
            lines.write("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records))
        yield from records


def finished(file: Path, batch_size: int, questions: list[str]) -> list[dict]:
    """The records of whole batches in `file`; what a stopped evaluation left after them is cut off.

    ValueError where they are not the records of these questions in their order.
    """
    if not file.exists():
        return []
    try:
        lines = file.read_text("utf-8").split("\n")
        count = len(lines) - 1  # what follows the last line break is not whole
        records = [json.loads(line) for line in lines[:count]]
    except ValueError as error:
        raise ValueError(f"cannot read {file} ({error}); remove it to start the evaluation again") from None
    if count > len(questions) or not all(map(answers, records, range(count), questions)):
        raise ValueError(f"{file} is not this evaluation's; remove it to start the evaluation again")
    if count < len(questions):
        count -= count % batch_size
    if any(lines[count:]):
        write(file, "".join(line + "\n" for line in lines[:count]))
    return records[:count]


def answers(record: object, index: int, question: str) -> bool:
    """Whether a line of the file is about this problem, and has a greedy response."""
    if not isinstance(record, dict) or "greedy" not in record:
        return False
    return (record.get("problem"), record.get("question")) == (index, question)


def answered(policy, task, problems: list[Problem], samples: int, seed: int, start: int) -> list[dict]:
    """One record a problem: the question, the gold answer, and every response with its checks."""
    batch = task.encode(problems)
    responses = {"greedy": graded(policy, task, batch, *policy.greedy(batch.prompts))}
    if samples:
        generator = torch.Generator().manual_seed(seed * 1_000_003 + start)
        responses["sampled"] = graded(policy, task, batch, *policy.sample(batch.prompts, samples, generator))
    return [
        {"problem": start + row, "question": problem.question, "answer": problem.answer}
        | {how: each[row] for how, each in responses.items()}
        for row, problem in enumerate(problems)
    ]


def graded(policy, task, batch, responses, mask) -> list[list[dict]]:
    """[batch][group] of what was said and understood, which checks it passes, its length, and whether it was cut."""
    checks = {name: scores.int().tolist() for name, scores in task.checks(SHOWN, batch, responses, mask).items()}
    lengths, cut = mask.sum(-1).tolist(), policy.truncated(responses, mask).tolist()
    return [
        [
            {"text": text, "extracted": extract_answer(text, judge_style(task), opened=task.opened)}
            | {name: scores[row][column] for name, scores in checks.items()}
            | {"tokens": lengths[row][column], "truncated": cut[row][column]}
            for column, text in enumerate(texts)
        ]
        for row, texts in enumerate(task.texts(responses, mask))
    ]


def judge_style(task) -> str:
    """How the vote reads an answer: as the task's judge does."""
    return task.judge if task.judge != "format" else "strict"


# ---- what it comes to


def parse_ks(text: str | None, samples: int) -> list[int]:
    """The numbers of draws in "1,4,16"; None: powers of 4 below `samples`, and all. ValueError for what cannot be."""
    if text is None:
        return [4**power for power in range(20) if 4**power < samples] + [samples] * (samples > 0)
    try:
        ks = sorted({int(part) for part in text.split(",")})
    except ValueError:
        raise ValueError(f"k is a list of whole numbers, such as 1,4,16; got {text!r}") from None
    if not 1 <= ks[0] <= ks[-1] <= samples:
        raise ValueError(f"each k must lie between 1 and samples, here {samples}; got {text}")
    return ks


def summary(records: list[dict], ks: list[int], judge: str = "strict") -> dict:
    """Shares with their 95 % Wilson intervals over the problems, for greedy and sampled responses; pass@k and maj@k."""
    found = {"problems": len(records), "samples": len(records[0].get("sampled", []))}
    for how in ("greedy", "sampled"):
        if how in records[0]:
            found[how] = {check: share([mean(record[how], check) for record in records]) for check in SHOWN}
            for name in ("truncated", "tokens"):
                found[how][name] = fmean(mean(record[how], name) for record in records)
    if found["samples"]:
        checks = dict.fromkeys([judge, "strict", "lenient"])
        found["pass_at_k"] = {check: {str(k): share(passes(records, check, k)) for k in ks} for check in checks}
        found["maj_at_k"] = {str(k): share([vote(record, k) for record in records]) for k in ks}
    return found


def mean(responses: list[dict], name: str) -> float:
    return fmean(response[name] for response in responses)


def share(values: list[float]) -> dict[str, float]:
    """The mean over problems of what lies between 0 and 1, with Wilson's interval for that many problems."""
    low, high = wilson_interval(min(sum(values), len(values)), len(values))
    return {"share": fmean(values), "low": low, "high": high}


def passes(records: list[dict], check: str, k: int) -> list[float]:
    correct = torch.tensor([sum(response[check] for response in record["sampled"]) for record in records])
    return pass_at_k(correct, len(records[0]["sampled"]), k).tolist()


def vote(record: dict, k: int) -> float:
    return maj_at_k([response["extracted"] for response in record["sampled"]], record["answer"], k)


def table(found: dict, judge: str = "strict") -> str:
    """The summary as lines of text, in percent."""
    checks = [check for check in SHOWN if check != "boxed" or judge == "boxed"]
    lines = [f"{'':14}" + "".join(f"{check:>22}" for check in checks)]
    for how in ("greedy", "sampled"):
        if how in found:
            cells = [percent(found[how][check]) for check in checks]
            tail = f"   {found[how]['tokens']:.0f} tokens, {found[how]['truncated']:.1%} cut"
            lines.append(f"{how:14}" + "".join(f"{cell:>22}" for cell in cells) + tail)
    for k in found.get("maj_at_k", {}):
        cells = [percent(found["pass_at_k"][c][k]) if c in found["pass_at_k"] else "" for c in checks]
        lines.append(f"{'pass@' + k:14}" + "".join(f"{cell:>22}" for cell in cells).rstrip())
    for k, votes in found.get("maj_at_k", {}).items():
        lines.append(f"{'maj@' + k:14}{percent(votes):>22}")
    return "\n".join(lines)


def percent(found: dict[str, float]) -> str:
    return f"{found['share']:.1%} [{100 * found['low']:.1f}, {100 * found['high']:.1f}]"
