"""What is handed in for assignment 5: a run's own files, and two evaluations, before and after. Nothing is believed.

    HANDIN/config.json, metrics.jsonl          from minirl train
    HANDIN/before/eval.json, samples.jsonl     from minirl eval --model …
    HANDIN/after/eval.json, samples.jsonl      from minirl eval --run …

Every figure is computed again from the samples, and every sample is graded again from its text. What files cannot show:
that a model wrote these samples, or which one; on what it was trained; how many evaluations were thrown away. Where
that matters, run `minirl eval` on the checkpoint yourself.
"""

import hashlib
import json
import math
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from minirl.llm import evaluation, pocket
from minirl.llm.verify import extract_answer, has_format, is_correct
from minirl.runs import Refused, write
from minirl.runs import read as read_run
from minirl.runs import settings as read_settings

LARGEST = 100_000_000  # bytes of one file; all of GSM8K with 16 samples takes about a quarter
MOST_SAMPLES = 256  # to a problem
SIDES = ("before", "after")
OF_A_SIDE = ("eval.json", "samples.jsonl")
FILES = ("config.json", "metrics.jsonl", *(f"{side}/{name}" for side in SIDES for name in OF_A_SIDE))
HOW = ("task", "steps", "prompt", "judge", "max_new_tokens", "temperature", "problems", "samples", "seed")
SAME = (*HOW, "model", "data", "batch_size")


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
    def tested(self) -> dict:
        """The settings of the evaluation after the run."""
        return self.evals["after"]["settings"]

    @property
    def judge(self) -> str:
        return self.tested["judge"]

    @property
    def smoke(self) -> bool:
        """Whether the run only shows that everything works: word problems, or a model that ships with minirl."""
        return self.settings["task"] != "gsm8k" or self.settings["model"] in pocket.NAMES

    def share(self, side: str, how: str = "sampled") -> list[float]:
        """Per problem, the share of responses that the judge passes."""
        return [evaluation.mean(record[how], self.judge) for record in self.records[side]]


def read(folder: Path) -> Handin:
    """Inconsistent with one sentence where a file is missing, too large, or not what minirl writes."""
    for name in FILES:
        refuse_file(folder, name)
    try:
        epochs, cut = read_run(folder)
        if cut:
            raise Inconsistent("the last line of metrics.jsonl is cut off; hand in the whole file")
        settings = read_settings(folder)
        evals = {side: json.loads((folder / side / "eval.json").read_text("utf-8")) for side in SIDES}
        texts = {side: (folder / side / "samples.jsonl").read_text("utf-8") for side in SIDES}
        records = {side: [json.loads(line) for line in text.split("\n") if line] for side, text in texts.items()}
    except Refused as error:
        raise Inconsistent(str(error).replace(f"{folder}/", "")) from None
    except ValueError as error:
        raise Inconsistent(f"a file is not JSON as minirl writes it: {error}") from None
    for side in SIDES:
        if not isinstance(evals[side], dict) or not isinstance(evals[side].get("settings"), dict):
            raise Inconsistent(f"{side}/eval.json is not what minirl eval wrote: it has no settings")
        if not records[side] or not all(map(is_record, records[side])):
            raise Inconsistent(f"{side}/samples.jsonl is not what minirl eval wrote")
    return Handin(settings, epochs, evals, records)


def refuse_file(folder: Path, name: str) -> None:
    """Before it is opened: a file of its own, no link to somebody else's, and not too large."""
    path = folder / name
    if folder.is_symlink() or path.parent.is_symlink() or path.is_symlink():
        raise Inconsistent(f"{name} is a link; hand in the file itself")
    if not path.is_file():
        raise Inconsistent(f"{name} is missing")
    if path.stat().st_size > LARGEST:
        raise Inconsistent(f"{name} is larger than {LARGEST:,} bytes")


def is_record(record: object) -> bool:
    fields = {"problem", "question", "answer", "greedy", "sampled"}
    if not isinstance(record, dict) or not fields <= record.keys():
        return False
    if not all(isinstance(record[how], list) and record[how] for how in ("greedy", "sampled")):
        return False
    responses, checks = [*record["greedy"], *record["sampled"]], {"extracted", *evaluation.SHOWN}
    return all(
        isinstance(each, dict)
        and checks <= each.keys()
        and isinstance(each.get("text"), str)
        and type(each.get("tokens")) is int
        and type(each.get("truncated")) is bool
        for each in responses
    )


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
        if not all(abs(value) < math.inf for value in metrics.values()):
            raise Inconsistent(f"epoch {metrics['epoch']} of metrics.jsonl has a number that is not finite")


def both_sides_are_comparable(handin: Handin) -> None:
    """One model and the same problems, prompt, judge and limits before and after; the run's own model and task."""
    before, after = (handin.evals[side]["settings"] for side in SIDES)
    if differing := [name for name in SAME if before.get(name) != after.get(name)]:
        raise Inconsistent(f"before and after were evaluated with another {', '.join(differing)}")
    own = ("task", "steps", "model", "prompt")
    if differing := [name for name in own if handin.settings.get(name) != after.get(name)]:
        raise Inconsistent(f"the run and its evaluation have another {', '.join(differing)}")
    if after.get("judge") == "format":
        raise Inconsistent("the judge is the format; expected one that asks whether the answer is right")
    if before.get("run") or not after.get("run"):
        raise Inconsistent("expected the bare model before, and a checkpoint of the run after")
    last = re.fullmatch(r"epoch-(\d+)", str(after.get("checkpoint")))
    if not last or not 1 <= int(last[1]) <= len(handin.epochs):
        raise Inconsistent("the checkpoint that was evaluated is none of this run's epochs")
    questions = [[(each["question"], each["answer"]) for each in handin.records[side]] for side in SIDES]
    if questions[0] != questions[1]:
        raise Inconsistent("before and after are not about the same problems in the same order")
    if len({question for question, _ in questions[0]}) < len(questions[0]):
        raise Inconsistent("a problem is counted twice")


def every_response_is_graded_right(handin: Handin) -> None:
    """As many responses as the settings say, and each check of each of them, computed again from its text."""
    for side in SIDES:
        settings = handin.evals[side]["settings"]
        samples, limit, opened = settings["samples"], settings["max_new_tokens"], settings["prompt"] == "r1-zero"
        if samples > MOST_SAMPLES:
            raise Inconsistent(f"{samples} samples to a problem; at most {MOST_SAMPLES} are checked")
        for number, record in enumerate(handin.records[side]):
            if record["problem"] != number or (len(record["greedy"]), len(record["sampled"])) != (1, samples):
                raise Inconsistent(f"{side}, line {number + 1}: expected problem {number} with {samples} samples")
            for response in (*record["greedy"], *record["sampled"]):
                if (name := wrongly_graded(response, record["answer"], handin.judge, opened)) is not None:
                    raise Inconsistent(f"{side}, problem {number}: {name} is not what the text says")
                if not 1 <= response["tokens"] <= limit or (response["truncated"] and response["tokens"] < limit):
                    raise Inconsistent(f"{side}, problem {number}: a response cannot have that many tokens")


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
        if not all(1 <= k <= settings["samples"] for k in ks):
            raise Inconsistent(f"{side}/eval.json: a k of maj@k is none between 1 and the number of samples")
        found = evaluation.summary(handin.records[side], ks, settings["judge"])
        for name, value in found.items():
            if not nearly(value, written.get(name)):
                raise Inconsistent(f"{side}/eval.json: {name} is not that of its samples")
        if found["problems"] != settings["problems"]:
            raise Inconsistent(f"{side} has {found['problems']} of {settings['problems']} problems")


def nearly(ours, theirs) -> bool:
    if isinstance(ours, dict):
        return (
            isinstance(theirs, dict) and ours.keys() == theirs.keys() and all(nearly(ours[k], theirs[k]) for k in ours)
        )
    return isinstance(theirs, int | float) and math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-12)


def the_problems_are_the_tests(handin: Handin, known: dict[str, list[tuple[str, str]]]) -> None:
    """The first of the test split, in its order: nobody chose them. `known` has the splits that are at hand."""
    asked = [(record["question"], record["answer"]) for record in handin.records["after"]]
    task, trained = handin.settings["task"], {question for question, _ in known.get("train", ())}
    if task == "word-problems":
        known = {"test": word_problems(handin.settings["steps"])}
    for number, (one, other) in enumerate(zip(asked, known.get("test", asked), strict=False)):
        if one != other:
            where = "a training problem" if one[0] in trained else "not that problem of the test split"
            raise Inconsistent(f"problem {number} is {where}; minirl eval takes the test split from its beginning")
    if len(asked) > len(known.get("test", asked)):
        raise Inconsistent("there are more problems than the test split has")


def word_problems(steps: str) -> list[tuple[str, str]]:
    """Question and answer of each word problem that minirl eval asks."""
    from minirl.llm.runs import Settings, problems

    return [(each.question, each.answer) for each in problems(Settings("word-problems", steps=steps), "test")]


CHECKS: tuple[tuple[str, int, Callable], ...] = (
    ("the run is whole", 2, the_run_is_whole),
    ("before and after are comparable", 2, both_sides_are_comparable),
    ("every response is graded as its text says", 3, every_response_is_graded_right),
    ("the summaries are those of the samples", 2, the_summaries_are_those_of_the_samples),
)
GAINS = ((0.0, 2), (0.03, 2), (0.06, 2))  # points for a lower bound of the gain above each of these
MOST = sum(points for _, points, _ in CHECKS) + sum(points for _, points in GAINS)
NO_GAIN = "a smoke run: a gain on word problems, or of a pocket model, earns no points"


@dataclass(frozen=True)
class Result:
    """Points and sentences about one hand-in; accuracies are the judge's, sampled, recomputed."""

    name: str
    points: int
    most: int
    said: list[str]
    model: str = ""
    group: dict = field(default_factory=dict)  # how it was measured; only equals are ranked together
    before: float | None = None
    after: float | None = None
    gain: tuple[float, float, float] | None = None  # mean over the problems, and its 95 % interval
    notes: list[str] = field(default_factory=list)  # for somebody who looks
    marks: dict = field(default_factory=dict)  # fingerprints, to find the same work under two names


def assess(folder: Path, known: dict[str, list[tuple[str, str]]] | None = None) -> Result:
    """All checks of one hand-in. One that fails ends it there: what follows would rest on it."""
    points, said = 0, []
    try:
        handin = read(folder)
        for name, worth, test in CHECKS:
            test(handin)
            points += worth
            said.append(f"✔ {name} ({worth})")
        the_problems_are_the_tests(handin, known or {})
        return measured(folder.name, handin, points, said, bool(known))
    except Inconsistent as error:
        return Result(folder.name, points, MOST, [*said, f"✘ {error}"])
    except Exception as error:  # whatever else may stand in a file; the other hand-ins go on
        reason = f"{type(error).__name__}: {error}"[:120]
        return Result(folder.name, points, MOST, [*said, f"✘ something in it is not what minirl writes ({reason})"])


def measured(name: str, handin: Handin, points: int, said: list[str], known: bool) -> Result:
    """The gain of a hand-in in which everything fits, and what it earns."""
    before, after = (handin.share(side) for side in SIDES)
    gain = paired(before, after)
    for least, worth in () if handin.smoke else GAINS:
        reached = gain[1] > least
        points += worth * reached
        mark = "✔" if reached else "✘"
        said = [*said, f"{mark} the gain is above {100 * least:.0f} points, interval included ({worth})"]
    said = [*said, f"– {NO_GAIN}"] if handin.smoke else said
    group = {key: handin.tested[key] for key in HOW} | {
        "asked": digest(each["question"] for each in handin.records["after"])
    }
    unknown = handin.settings["task"] == "gsm8k" and not known
    notes = ["not checked: are these GSM8K's test problems? (--data)"] if unknown else []
    means = [sum(each) / len(each) for each in (before, after)]
    return Result(name, points, MOST, said, handin.settings["model"], group, *means, gain, notes, fingerprints(handin))


def paired(before: list[float], after: list[float]) -> tuple[float, float, float]:
    """The mean gain over problems and its normal 95 % interval, problem by problem: the same ones on both sides."""
    gains = [new - old for old, new in zip(before, after, strict=True)]
    mean, n = sum(gains) / len(gains), len(gains)
    spread = math.sqrt(sum((gain - mean) ** 2 for gain in gains) / max(n - 1, 1) / n)
    return mean, mean - 1.96 * spread, mean + 1.96 * spread


def digest(texts) -> str:
    """A short name for these texts in this order."""
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()[:8]


def fingerprints(handin: Handin) -> dict[str, str]:
    """Of the responses after the run, and of the seconds that its epochs took, which no two runs share."""
    responses = (each["text"] for record in handin.records["after"] for each in (*record["greedy"], *record["sampled"]))
    seconds = (str(metrics.get("seconds_sampling", metrics)) for metrics in handin.epochs)
    return {"responses": digest(responses), "seconds": digest(seconds)}


SHARED = {
    "seconds": "its epochs took the same seconds as those of {}, to the last digit: one run, handed in twice",
    "responses": "its responses after the run are those of {}: copied, or the same settings and seed",
}


def compared(results: list[Result]) -> list[Result]:
    """With a note on each hand-in that shares with others what two runs do not."""
    return [replace(one, notes=[*one.notes, *shared(one, results)]) for one in results]


def shared(one: Result, results: list[Result]) -> list[str]:
    """The strongest sentence about each hand-in that is like this one."""
    named, said = {one.name}, []
    for kind, sentence in SHARED.items():
        same = [each.name for each in results if each.marks.get(kind) == one.marks.get(kind, "")]
        if others := [name for name in same if name not in named]:
            said.append(sentence.format(", ".join(others)))
        named.update(others)
    return said


def assess_all(root: Path, known: dict[str, list[tuple[str, str]]] | None = None) -> list[Result]:
    """Every folder of `root`, one at a time and with a progress bar; ValueError where there is none."""
    from tqdm import tqdm

    folders = sorted(each for each in root.iterdir() if each.is_dir()) if root.is_dir() else []
    if not folders:
        raise ValueError(f"{root} has no hand-ins; expected a folder for each, with config.json and metrics.jsonl")
    return compared([assess(folder, known) for folder in tqdm(folders, desc="hand-ins", unit="hand-in")])


def splits(data: Path | None) -> dict[str, list[tuple[str, str]]] | None:
    """Question and gold answer of each problem of GSM8K's splits, or None where no data is named."""
    if data is None:
        return None
    from minirl.llm.gsm8k import load

    wanted = ["test", "train"] if (data / "train.jsonl").is_file() else ["test"]
    return {split: [(each.question, each.answer) for each in load(split, data)] for split in wanted}


def write_results(file: Path, results: list[Result]) -> None:
    write(file, json.dumps([asdict(each) for each in results], indent=1, ensure_ascii=False) + "\n")


def told(folder: Path) -> str:
    """What the checks say of one's own hand-in, before it is one."""
    if not folder.exists():
        return (
            f"not started yet: there is no folder {folder}; the cells above, or their commands in a terminal, make it."
        )
    result = assess(folder)
    lines = [*result.said, *(f"Note: {note}" for note in result.notes), f"{result.points} of {result.most} points"]
    if result.gain:
        model, words = plain(result.model), "gain {:+.1f} percentage points, 95 % interval {:+.1f} to {:+.1f}"
        lines[-1] += f"; {model}: " + words.format(*(100 * value for value in result.gain))
    return "\n".join(lines)


def leaderboard(results: list[Result]) -> str:
    """A table for each way of measuring, ranked by accuracy after the run; below, what is not consistent, and notes."""
    groups = {json.dumps(each.group): each.group for each in results if each.gain}
    parts = [table(group, [each for each in results if each.gain and each.group == group]) for group in groups.values()]
    wrong = [
        f"| {plain(each.name)} | {plain(each.said[-1])} | {each.points}/{each.most} |"
        for each in results
        if not each.gain
    ]
    if wrong:
        parts.append("\n".join(["not consistent", "", "| name | why | points |", "| --- | --- | --- |", *wrong]))
    noted = [f"- {plain(each.name)}: {plain(note)}" for each in results for note in each.notes]
    return "\n\n".join(parts + ["\n".join(noted)] * bool(noted))


def table(group: dict, results: list[Result]) -> str:
    """One table, under the settings that its rows share."""
    words = ", ".join(f"{name} {plain(value)}" for name, value in group.items() if name != "task")
    lines = [f"{plain(group['task'])}: {words}", ""]
    lines += ["| rank | name | model | before | after | gain, 95 % interval | points |", "|" + " --- |" * 7]
    for rank, each in enumerate(sorted(results, key=lambda each: -each.after), 1):
        gain = "{:+.1f} [{:+.1f}, {:+.1f}]".format(*(100 * value for value in each.gain))
        shares = f"{each.before:.1%} | {each.after:.1%} | {gain} | {each.points}/{each.most}"
        lines.append(f"| {rank} | {plain(each.name)} | {plain(each.model)} | {shares} |")
    return "\n".join(lines)


def plain(text: object) -> str:
    """What a student named, fit for one cell of a table and for a terminal."""
    shown = "".join(sign if sign.isprintable() and sign != "|" else "?" for sign in str(text))
    return shown if len(shown) <= 120 else shown[:117] + "..."
