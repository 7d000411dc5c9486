"""GSM8K, 7,473 training and 1,319 test problems (Cobbe et al. 2021, arXiv:2110.14168), from the hub or from a file.

`load("test")` reads the folder or file that MINIRL_GSM8K names, else asks the Hugging Face hub through `datasets`, an
optional package. Nothing here reaches for the network unless `load` is called without a file.

Checksums: the rows are written again the way the official files write them and hashed, so that the same problems from
the hub or from a re-encoded copy count as the same. Other rows are a *warning*, since a slice or a set of your own is
legitimate (pass check=False), but no result on them is a GSM8K result. Training problems under the name of the test
split, or the reverse, are an *error*: a score on them would mean nothing.
"""

import hashlib
import json
import os
import re
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

from minirl.llm.problem import Problem
from minirl.llm.prompts import PROMPTS
from minirl.llm.verify import as_number, canonical

SHA256 = {
    "train": "17f347dc51477c50d4efb83959dbb7c56297aba886e5544ee2aaed3024813465",
    "test": "3730d312f6e3440559ace48831e51066acaca737f6eabec99bccb9e4b3c39d14",
}
REPOSITORY = "https://raw.githubusercontent.com/openai/grade-school-math/master/grade_school_math/data"
HOW_TO_GET_IT = (
    "To work from a file, download {base}/{split}.jsonl into a folder and pass that folder as `path`, "
    "or set the environment variable MINIRL_GSM8K to it."
)
MARKS = re.compile(r"<<[^<>\n]*>>")  # <<48/2=24>>: written for a calculator, not for readers


def load(split: str, path: str | Path | None = None, *, marks: bool = False, check: bool = True) -> list[Problem]:
    """The problems of "train" or "test", with plain numbers as answers: "1,080" becomes "1080".

    A solution keeps its closing line `#### 18`, so that it can be graded; `marks=True` keeps its calculator marks too.
    """
    if split not in SHA256:
        raise ValueError(f"GSM8K has the splits train and test; got {split!r}")
    path = path or os.environ.get("MINIRL_GSM8K") or None
    rows, source = _from_hub(split) if path is None else _from_file(split, Path(path).expanduser())
    if check:
        _check(split, rows, source)
    return [problem(row, f"{source}, problem {number}", marks) for number, row in enumerate(rows, 1)]


def problem(row: object, where: str = "a problem", marks: bool = False) -> Problem:
    """One row of the data, {"question", "answer"}, as a Problem; a row without a number after #### is refused."""
    if not (isinstance(row, dict) and all(isinstance(row.get(key), str) for key in ("question", "answer"))):
        raise ValueError(f"{where}: expected a question and an answer, both texts; got {str(row)[:80]!r}")
    if re.search(r"[\ud800-\udfff]", row["question"] + row["answer"]):
        raise ValueError(f"{where}: holds half a character (a lone surrogate), which no tokenizer can read")
    _, mark, last = row["answer"].rpartition("####")
    answer = as_number(last) if mark else None
    if answer is None:
        raise ValueError(
            f"{where}: expected a solution that closes with #### and a number; got {row['answer'][-80:]!r}"
        )
    solution = row["answer"] if marks else MARKS.sub("", row["answer"])
    return Problem(row["question"].strip(), solution.strip(), canonical(answer))


def fingerprint(rows: list) -> str:
    """sha256 of the rows as JSON lines, written as the official files write them."""
    return hashlib.sha256("".join(json.dumps(row) + "\n" for row in rows).encode()).hexdigest()


def _check(split: str, rows: list, source: str) -> None:
    found, other = fingerprint(rows), "test" if split == "train" else "train"
    if found == SHA256[other]:
        raise ValueError(f"{source} holds GSM8K's {other} split; you asked for {split}. Nothing was loaded")
    if found != SHA256[split]:
        warnings.warn(
            f"{source} is not the official GSM8K {split} split: {len(rows)} problems with sha256 {found[:12]}…, "
            f"expected {SHA256[split][:12]}…. What you measure on it is not a GSM8K result. "
            "Pass check=False where that is meant",
            stacklevel=3,
        )


def _from_file(split: str, path: Path) -> tuple[list, str]:
    file = path / f"{split}.jsonl" if path.is_dir() else path
    if not file.is_file():
        raise FileNotFoundError(f"there is no {file}. {HOW_TO_GET_IT.format(base=REPOSITORY, split=split)}")
    with file.open(encoding="utf-8-sig", newline="\n") as lines:
        try:
            return list(_parse(lines, file)), str(file)
        except UnicodeDecodeError as error:
            raise ValueError(f"{file} is not text in UTF-8 ({error}); save it anew in UTF-8") from None


def _parse(lines: Iterable[str], file: Path) -> Iterator:
    """Line by line, where a line ends at a line feed only: a few questions hold other line separators."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield json.loads(line)
            except ValueError as error:
                raise ValueError(f"{file}, line {number}: not JSON ({error}); expected one object a line") from None


def _from_hub(split: str) -> tuple[list, str]:
    help_text = HOW_TO_GET_IT.format(base=REPOSITORY, split=split)
    try:
        from datasets import load_dataset
    except ImportError:
        raise ModuleNotFoundError(
            f"GSM8K comes from the hub through a package that is missing here: pip install datasets. {help_text}"
        ) from None
    try:
        table = load_dataset("openai/gsm8k", "main", split=split)
    except Exception as error:  # no network, no such data set, no disk: `datasets` has an exception for each
        raise ConnectionError(
            f"GSM8K could not be read from the hub ({type(error).__name__}: {error}). {help_text}"
        ) from error
    return [{"question": row["question"], "answer": row["answer"]} for row in table], "openai/gsm8k on the hub"


# --- clean data: what the test split shares with the training split -------------------------------------------------


def contaminated(train: list[Problem], test: list[Problem], n: int = 13) -> list[tuple[int, int]]:
    """(index in test, index in train) of test questions that share `n` words in a row with a training question.

    Case and punctuation do not count; numbers do. A question shorter than `n` words has to be shared as a whole. Of
    several such training questions the first is named. 13 words is the usual length (GPT-3, arXiv:2005.14165).
    """
    seen: dict[tuple[str, ...], int] = {}
    for index, source in enumerate(train):
        for gram in _grams(source.question, n):
            seen.setdefault(gram, index)
    matches = (
        min((seen[gram] for gram in _grams(target.question, n) if gram in seen), default=None) for target in test
    )
    return [(index, match) for index, match in enumerate(matches) if match is not None]


def duplicates(problems: list[Problem]) -> list[tuple[int, int]]:
    """(later, earlier) for every question that was there before, but for case and punctuation."""
    first: dict[tuple[str, ...], int] = {}
    pairs = ((index, first.setdefault(_words(one.question), index)) for index, one in enumerate(problems))
    return [(later, earlier) for later, earlier in pairs if later != earlier]


def _words(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"\w+", text.lower()))


def _grams(text: str, n: int) -> set[tuple[str, ...]]:
    words = _words(text)
    return {words[start : start + n] for start in range(max(1, len(words) - n + 1))}


def GSM8KTask(tokenizer, split: str = "train", *, path=None, prompt=PROMPTS["r1-zero"], max_held_out=None, **settings):
    """GSM8K as a LanguageTask: trains on `split`, judged on the test split, all of it unless `max_held_out` is set.

    `settings` go to LanguageTask: the reward's `weights` and the `judge`.
    """
    from minirl.llm.task import LanguageTask

    return LanguageTask(tokenizer, load(split, path), load("test", path), prompt, max_held_out=max_held_out, **settings)
