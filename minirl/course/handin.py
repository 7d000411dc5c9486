"""What is handed in for assignment 5: a run's own files, and two evaluations, before and after. Nothing is believed.

    HANDIN/config.json, metrics.jsonl          from minirl train
    HANDIN/before/eval.json, samples.jsonl     from minirl eval --model …
    HANDIN/after/eval.json, samples.jsonl      from minirl eval --run …

Every figure is computed again from the samples, and every sample is graded again from its text. Files cannot show that
a model wrote these samples, or which one: for that, run `minirl eval` on the checkpoint yourself.
"""

import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from minirl.llm import evaluation
from minirl.llm.verify import extract_answer, has_format, is_correct
from minirl.runs import Refused, write
from minirl.runs import read as read_run
from minirl.runs import settings as read_settings

LARGEST = 200_000_000  # bytes of one file
SIDES = ("before", "after")
SAME = ("task", "data", "prompt", "judge", "max_new_tokens", "temperature", "problems", "samples")


class Inconsistent(Exception):
    """A sentence about what does not fit."""


@dataclass(frozen=True)
class Handin:
    """The files of one hand-in, read."""

    settings: dict
    epochs: list[dict]
    evals: dict[str, dict]
    records: dict[str, list[dict]]

    @property
    def judge(self) -> str:
        return self.evals["after"]["settings"]["judge"]

    def share(self, side: str, how: str = "sampled") -> list[float]:
        """Per problem, the share of responses that the judge passes."""
        return [evaluation.mean(record[how], self.judge) for record in self.records[side]]


def read(folder: Path) -> Handin:
    """Inconsistent with one sentence where a file is missing, too large, or not what minirl writes."""
    try:
        epochs, cut = read_run(folder)
        if cut:
            raise Inconsistent("the last line of metrics.jsonl is cut off; hand in the whole file")
        settings = read_settings(folder)
        evals = {side: json.loads(text_of(folder / side / "eval.json")) for side in SIDES}
        lines = {side: text_of(folder / side / "samples.jsonl").splitlines() for side in SIDES}
        records = {side: [json.loads(line) for line in each] for side, each in lines.items()}
    except Refused as error:
        raise Inconsistent(str(error)) from None
    except ValueError as error:
        raise Inconsistent(f"a file is not JSON as minirl writes it: {error}") from None
    for side in SIDES:
        if not isinstance(evals[side], dict) or not isinstance(evals[side].get("settings"), dict):
            raise Inconsistent(f"{side}/eval.json is not what minirl eval wrote: it has no settings")
        if not records[side] or not all(map(is_record, records[side])):
            raise Inconsistent(f"{side}/samples.jsonl is not what minirl eval wrote")
    return Handin(settings, epochs, evals, records)


def text_of(path: Path) -> str:
    if not path.is_file() or path.is_symlink():
        raise Inconsistent(f"{path.parent.name}/{path.name} is missing")
    if path.stat().st_size > LARGEST:
        raise Inconsistent(f"{path.name} is larger than {LARGEST:,} bytes")
    return path.read_text("utf-8")


def is_record(record: object) -> bool:
    fields = {"problem", "question", "answer", "greedy", "sampled"}
    if not isinstance(record, dict) or not fields <= record.keys():
        return False
    responses = [*record["greedy"], *record["sampled"]] if isinstance(record["greedy"], list) else [None]
    needed = {"text", "extracted", "tokens", "truncated", *evaluation.SHOWN}
    return bool(record["sampled"]) and all(isinstance(each, dict) and needed <= each.keys() for each in responses)


# ---- what is checked, in this order


def the_run_is_whole(handin: Handin) -> None:
    """Epochs 1, 2, 3, … with finite numbers, and no more of them than the settings say."""
    numbers = [metrics["epoch"] for metrics in handin.epochs]
    if numbers != list(range(1, len(numbers) + 1)):
        raise Inconsistent("metrics.jsonl does not have the epochs 1, 2, 3, … once each and in order")
    if len(numbers) > handin.settings.get("epochs", 0):
        raise Inconsistent(f"metrics.jsonl has {len(numbers)} epochs, config.json says {handin.settings.get('epochs')}")
    needed = {"reward_mean", "response_length", "loss", "grad_norm", "zero_signal_groups"}
    for metrics in handin.epochs:
        if missing := needed - metrics.keys():
            raise Inconsistent(f"epoch {metrics['epoch']} of metrics.jsonl lacks {', '.join(sorted(missing))}")
        if not all(math.isfinite(value) for value in metrics.values()):
            raise Inconsistent(f"epoch {metrics['epoch']} of metrics.jsonl has a number that is not finite")


def both_sides_are_comparable(handin: Handin) -> None:
    """The same problems, prompt, judge and limits before and after; the run's own prompt and task."""
    before, after = (handin.evals[side]["settings"] for side in SIDES)
    if differing := [name for name in SAME if before.get(name) != after.get(name)]:
        raise Inconsistent(f"before and after were evaluated with another {', '.join(differing)}")
    if differing := [name for name in ("task", "prompt") if handin.settings.get(name) != after.get(name)]:
        raise Inconsistent(f"the run and its evaluation have another {', '.join(differing)}")
    questions = [[(each["question"], each["answer"]) for each in handin.records[side]] for side in SIDES]
    if questions[0] != questions[1]:
        raise Inconsistent("before and after are not about the same problems in the same order")
    if len({question for question, _ in questions[0]}) < len(questions[0]):
        raise Inconsistent("a problem is counted twice")
    if before.get("run") or not after.get("run"):
        raise Inconsistent("expected the bare model before, and a checkpoint of the run after")


def every_response_is_graded_right(handin: Handin) -> None:
    """Each check of each response, computed again from its text."""
    for side in SIDES:
        opened = handin.evals[side]["settings"].get("prompt") == "r1-zero"
        for record in handin.records[side]:
            for response in (*record["greedy"], *record["sampled"]):
                if (name := wrongly_graded(response, record["answer"], handin.judge, opened)) is not None:
                    raise Inconsistent(f"{side}, problem {record['problem']}: {name} is not what the text says")


def wrongly_graded(response: dict, answer: str, judge: str, opened: bool) -> str | None:
    """The first check that does not fit the text."""
    text = response["text"]
    for style in ("strict", "lenient", "boxed"):
        if response[style] != int(is_correct(text, answer, style, opened=opened)):
            return style
    if response["format"] != int(has_format(text, opened=opened)):
        return "format"
    style = "strict" if judge == "format" else judge
    return None if response["extracted"] == extract_answer(text, style, opened=opened) else "extracted"


def the_summaries_are_those_of_the_samples(handin: Handin) -> None:
    """eval.json, computed again."""
    for side in SIDES:
        written, settings = handin.evals[side], handin.evals[side]["settings"]
        ks = [int(k) for k in written.get("maj_at_k", {})]
        found = evaluation.summary(handin.records[side], ks, settings.get("judge", "strict"))
        for name, value in found.items():
            if not nearly(value, written.get(name)):
                raise Inconsistent(f"{side}/eval.json: {name} is not that of its samples")
        if found["problems"] != settings.get("problems"):
            raise Inconsistent(f"{side} has {found['problems']} of {settings.get('problems')} problems")


def nearly(ours, theirs) -> bool:
    if isinstance(ours, dict):
        return (
            isinstance(theirs, dict) and ours.keys() == theirs.keys() and all(nearly(ours[k], theirs[k]) for k in ours)
        )
    return isinstance(theirs, int | float) and math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-12)


def the_problems_are_the_test_set(handin: Handin, known: dict[str, str] | None) -> None:
    """Questions and gold answers, where the data set is at hand: `known` maps the one to the other."""
    for record in handin.records["after"] if known else ():
        if known.get(record["question"]) != record["answer"]:
            raise Inconsistent(f"problem {record['problem']} is not one of the test set, or has another answer there")


CHECKS: tuple[tuple[str, int, Callable], ...] = (
    ("the run is whole", 2, the_run_is_whole),
    ("before and after are comparable", 2, both_sides_are_comparable),
    ("every response is graded as its text says", 3, every_response_is_graded_right),
    ("the summaries are those of the samples", 2, the_summaries_are_those_of_the_samples),
)
GAINS = ((0.0, 2), (0.03, 2), (0.06, 2))  # points for a lower bound of the gain above each of these


@dataclass(frozen=True)
class Result:
    """Points and sentences about one hand-in; accuracies are the judge's, sampled, recomputed."""

    name: str
    points: int
    most: int
    said: list[str]
    before: float | None = None
    after: float | None = None
    gain: tuple[float, float, float] | None = None  # mean over the problems, and its 95 % interval


def assess(folder: Path, known: dict[str, str] | None = None) -> Result:
    """All checks of one hand-in. One that fails ends it there: what follows would rest on it."""
    most = sum(points for _, points, _ in CHECKS) + sum(points for _, points in GAINS)
    points, said = 0, []
    try:
        handin = read(folder)
        for name, worth, test in CHECKS:
            test(handin)
            points += worth
            said.append(f"✔ {name} ({worth})")
        the_problems_are_the_test_set(handin, known)
    except Inconsistent as error:
        return Result(folder.name, points, most, [*said, f"✘ {error}"])
    before, after = (handin.share(side) for side in SIDES)
    gain = paired(before, after)
    for least, worth in GAINS:
        reached = gain[1] > least
        points += worth * reached
        said.append(
            f"{'✔' if reached else '✘'} the gain is above {100 * least:.0f} points, interval included ({worth})"
        )
    means = [sum(each) / len(each) for each in (before, after)]
    return Result(folder.name, points, most, said, *means, gain)


def assess_all(root: Path, known: dict[str, str] | None = None) -> list[Result]:
    """Every folder of `root`, one at a time and with a progress bar; ValueError where there is none."""
    from tqdm import tqdm

    folders = sorted(each for each in root.iterdir() if each.is_dir()) if root.is_dir() else []
    if not folders:
        raise ValueError(f"{root} has no hand-ins; expected a folder for each, with config.json and metrics.jsonl")
    return [assess(folder, known) for folder in tqdm(folders, desc="hand-ins", unit="hand-in")]


def test_set(data: Path | None) -> dict[str, str] | None:
    """Question → gold answer of GSM8K's test split, or None where no data is named."""
    if data is None:
        return None
    from minirl.llm.gsm8k import load

    return {problem.question: problem.answer for problem in load("test", data)}


def write_results(file: Path, results: list[Result]) -> None:
    write(file, json.dumps([asdict(each) for each in results], indent=1, ensure_ascii=False) + "\n")


def paired(before: list[float], after: list[float]) -> tuple[float, float, float]:
    """The mean gain over problems and its normal 95 % interval, problem by problem: the same ones on both sides."""
    gains = [new - old for old, new in zip(before, after, strict=True)]
    mean, n = sum(gains) / len(gains), len(gains)
    spread = math.sqrt(sum((gain - mean) ** 2 for gain in gains) / max(n - 1, 1) / n)
    return mean, mean - 1.96 * spread, mean + 1.96 * spread


def leaderboard(results: list[Result]) -> str:
    """Ranked by accuracy after the run; what is not consistent stands below, with the reason."""
    ranked = sorted((each for each in results if each.gain), key=lambda each: -each.after)
    lines = ["| rank | name | before | after | gain, 95 % interval | points |", "| --- | --- | --- | --- | --- | --- |"]
    for rank, each in enumerate(ranked, 1):
        gain = "{:+.1f} [{:+.1f}, {:+.1f}]".format(*(100 * value for value in each.gain))
        lines.append(
            f"| {rank} | {each.name} | {each.before:.1%} | {each.after:.1%} | {gain} | {each.points}/{each.most} |"
        )
    lines += [
        f"| – | {each.name} | | | {each.said[-1]} | {each.points}/{each.most} |" for each in results if not each.gain
    ]
    return "\n".join(lines)
