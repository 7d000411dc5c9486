"""GSM8K: the loader on small files, its sentences, and every gold solution of the real files where they are at hand."""

import hashlib
import json
import os
import random
import sys
import types
import warnings
from pathlib import Path

import pytest
from folder import word_tokenizer

from minirl.llm import gsm8k
from minirl.llm.gsm8k import SHA256, contaminated, duplicates, fingerprint, load
from minirl.llm.problem import Problem
from minirl.llm.prompts import PROMPTS, opens_thinking
from minirl.llm.verify import as_number, canonical, extract_answer, has_format, is_correct

DATA = Path(os.environ.get("MINIRL_GSM8K") or Path(__file__).resolve().parents[3] / "shared/data/gsm8k")
real = pytest.mark.skipif(
    not all((DATA / f"{split}.jsonl").is_file() for split in SHA256),
    reason=f"GSM8K is not at {DATA}; set MINIRL_GSM8K to the folder with train.jsonl and test.jsonl",
)
ROWS = [
    {"question": "How many?", "answer": "She has 48/2 = <<48/2=24>>24.\n#### 24"},
    {"question": "How\u2028much?\r\nSay.", "answer": "$<<540*2=1080>>1,080\n#### 1,080"},
    {"question": "How cold, in °C?", "answer": "It is -7.\n####  -7 "},
    {"question": "How long?", "answer": "1/2 + 2\n#### 2.50"},
]


@pytest.fixture(autouse=True)
def no_folder_from_outside(monkeypatch):
    monkeypatch.delenv("MINIRL_GSM8K", raising=False)


def write(folder, rows, name="test.jsonl", **json_options):
    file = folder / name
    file.write_bytes("".join(json.dumps(row, **json_options) + "\n" for row in rows).encode())
    return file


@pytest.mark.parametrize("ascii_only", [True, False])
def test_rows_become_problems(tmp_path, ascii_only):
    write(tmp_path, ROWS, ensure_ascii=ascii_only)
    problems = load("test", tmp_path, check=False)
    assert [problem.answer for problem in problems] == ["24", "1080", "-7", "2.5"]
    assert problems[0] == Problem("How many?", "She has 48/2 = 24.\n#### 24", "24")
    assert problems[1].question == "How\u2028much?\r\nSay." and problems[1].solution == "$1,080\n#### 1,080"


def test_marks_can_stay(tmp_path):
    file = write(tmp_path, ROWS, "mine.jsonl")
    assert "<<48/2=24>>" in load("train", file, marks=True, check=False)[0].solution


def test_the_last_mark_has_the_answer_and_each_calculator_mark_goes():
    row = {"question": "How many?", "answer": "#### first 2+2=<<2+2=4>>4, then 4+1=<<4+1=5>>5.\n#### 5"}
    assert gsm8k.problem(row) == Problem("How many?", "#### first 2+2=4, then 4+1=5.\n#### 5", "5")


def test_blank_lines_and_a_byte_order_mark_are_harmless(tmp_path):
    file = write(tmp_path, ROWS)
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes().replace(b"\n", b"\r\n\r\n") + b"\n  \n")
    assert len(load("test", file, check=False)) == 4


def test_the_environment_names_the_folder(tmp_path, monkeypatch):
    write(tmp_path, ROWS)
    monkeypatch.setenv("MINIRL_GSM8K", str(tmp_path))
    assert len(load("test", check=False)) == 4


def test_a_path_comes_before_the_environment(tmp_path, monkeypatch):
    for name in ("mine", "theirs"):
        (tmp_path / name).mkdir()
    write(tmp_path / "mine", ROWS[:1]), write(tmp_path / "theirs", ROWS)
    monkeypatch.setenv("MINIRL_GSM8K", str(tmp_path / "theirs"))
    assert len(load("test", tmp_path / "mine", check=False)) == 1


def test_a_fingerprint_is_that_of_the_lines_as_the_official_files_have_them():
    text = b'{"question": "How much, in \\u00a3?", "answer": "#### 1"}\n{"question": "b", "answer": "#### 2"}\n'
    rows = [{"question": "How much, in £?", "answer": "#### 1"}, {"question": "b", "answer": "#### 2"}]
    assert fingerprint(rows) == hashlib.sha256(text).hexdigest()


def test_official_rows_pass_in_silence(tmp_path, monkeypatch):
    write(tmp_path, ROWS)
    monkeypatch.setitem(gsm8k.SHA256, "test", fingerprint(ROWS))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        load("test", tmp_path)
    assert said == []


def test_a_task_trains_on_its_split_and_is_judged_on_the_test(tmp_path):
    for split, answer in (("train", 1), ("test", 2)):
        write(tmp_path, [{"question": "1 apples", "answer": f"#### {answer}"}] * 3, f"{split}.jsonl")
    settings = {"prompt": PROMPTS["question"], "max_held_out": 2, "judge": "lenient", "weights": {"format": 0.5}}
    with pytest.warns(UserWarning, match="is not the official GSM8K"):
        task = gsm8k.GSM8KTask(word_tokenizer(), path=tmp_path, **settings)
    assert [problem.answer for problem in task.train] == ["1"] * 3 and task.held_out().answers == ["2"] * 2
    assert (task.judge, task.weights) == ("lenient", {"format": 0.5})


def test_other_rows_warn(tmp_path):
    write(tmp_path, ROWS)
    with pytest.warns(UserWarning, match=r"4 problems .* is not a GSM8K result"):
        assert len(load("test", tmp_path)) == 4


def test_swapped_splits_are_refused(tmp_path, monkeypatch):
    write(tmp_path, ROWS)
    monkeypatch.setitem(gsm8k.SHA256, "train", fingerprint(ROWS))
    with pytest.raises(ValueError, match="holds GSM8K's train split; you asked for test"):
        load("test", tmp_path)


@pytest.mark.parametrize(
    "line, sentence",
    [
        ('{"question": "How many?"}', "problem 2: expected a question and an answer"),
        ('{"question": "How many?", "answer": 18}', "problem 2: expected a question and an answer"),
        ('["How many?", "18"]', "problem 2: expected a question and an answer"),
        ('{"question": "How many?", "answer": "18"}', "problem 2: expected a solution that closes with ####"),
        ('{"question": "How many?", "answer": "#### none"}', "problem 2: expected a solution that closes with ####"),
        ('{"question": "How many?", "answer"', "line 2: not JSON"),
        ('{"question": "\\ud83d apples?", "answer": "#### 1"}', "problem 2: holds half a character"),
        ('{"question": "How many?", "answer": "\\udc00 #### 1"}', "problem 2: holds half a character"),
    ],
)
def test_bad_rows_are_named(tmp_path, line, sentence):
    file = write(tmp_path, ROWS[:1])
    file.write_text(file.read_text() + line + "\n")
    with pytest.raises(ValueError, match=sentence):
        load("test", file, check=False)


def test_a_file_in_another_encoding_is_named(tmp_path):
    file = write(tmp_path, ROWS[:1])
    file.write_bytes(file.read_bytes() + '{"question": "Café?", "answer": "#### 1"}\n'.encode("latin-1"))
    with pytest.raises(ValueError, match=rf"{file.name} is not text in UTF-8 \(.*\); save it anew in UTF-8"):
        load("test", file, check=False)


def test_an_empty_variable_names_no_folder(tmp_path, monkeypatch):
    """Else it would be the current folder, and what lies in it would be evaluated."""
    write(tmp_path, ROWS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINIRL_GSM8K", "")
    monkeypatch.setattr(gsm8k, "_from_hub", lambda split: ([], "the hub"))
    assert load("test", check=False) == []


def test_a_missing_file_says_how_to_get_it(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no .*test.jsonl.* download https://.*/test.jsonl .*MINIRL_GSM8K"):
        load("test", tmp_path)
    with pytest.raises(ValueError, match="train and test; got 'validation'"):
        load("validation", tmp_path)


def test_without_datasets_a_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install datasets. To work from a file, download"):
        load("train")


def hub(monkeypatch, load_dataset):
    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=load_dataset))


def test_without_a_network_a_sentence(monkeypatch):
    def load_dataset(*arguments, **settings):
        raise OSError("no route to host")

    hub(monkeypatch, load_dataset)
    with pytest.raises(ConnectionError, match=r"\(OSError: no route to host\)\. To work from a file"):
        load("train")


def test_rows_from_the_hub_are_checked_like_those_of_a_file(monkeypatch):
    asked = []
    hub(monkeypatch, lambda *arguments, **settings: asked.append((arguments, settings)) or ROWS)
    with pytest.warns(UserWarning, match="openai/gsm8k on the hub is not the official GSM8K train split"):
        assert [problem.answer for problem in load("train")] == ["24", "1080", "-7", "2.5"]
    assert asked == [(("openai/gsm8k", "main"), {"split": "train"})]


# --- contamination ---------------------------------------------------------------------------------------------------


def asks(*questions):
    return [Problem(question, "", "0") for question in questions]


def test_contamination_by_hand():
    train = asks("a b c d e f", "Short one?", "x y z")
    test = asks("q A, b; C d!", "b c e", "short ONE", "x y", "")
    assert contaminated(train, test, n=3) == [(0, 0), (2, 1)]
    assert contaminated(train, test, n=4) == [(0, 0), (2, 1)]
    assert contaminated(train, test, n=5) == [(2, 1)]
    assert contaminated(train, test, n=1) == [(0, 0), (1, 0), (2, 1), (3, 2)]
    assert contaminated(asks("b c d", "a b c"), asks("a b c d"), n=3) == [(0, 0)], "the first of several is named"
    assert contaminated(asks("a b c", "a b c"), asks("a b c"), n=3) == [(0, 0)]
    assert contaminated([], test) == contaminated(train, []) == []


def test_duplicates_by_hand():
    assert duplicates(asks("How many?", "How much?", "how MANY", "How many!", "How 2?")) == [(2, 0), (3, 0)]
    assert duplicates([]) == []


# --- the real files --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def splits():
    return {
        split: load(split, DATA) for split in SHA256
    }  # a checksum that differs warns, and a warning is an error here


@real
def test_sizes_and_answers(splits):
    assert {split: len(problems) for split, problems in splits.items()} == {"train": 7473, "test": 1319}
    every = splits["train"] + splits["test"]
    assert all(canonical(as_number(problem.answer)) == problem.answer for problem in every)
    assert all(as_number(problem.answer).denominator == 1 for problem in every), "GSM8K's answers are whole numbers"
    assert sum(problem.answer.startswith("-") for problem in splits["train"]) == 3
    assert not any("<<" in problem.solution or ">>" in problem.solution for problem in every)


@real
@pytest.mark.parametrize("marks", [False, True])
def test_every_gold_solution_is_right_and_no_other_answer_is(marks):
    every = [problem for split in SHA256 for problem in load(split, DATA, marks=marks)]
    answers = sorted({problem.answer for problem in every})
    assert len(every) == 8792
    assert len({as_number(answer) for answer in answers}) == len(answers), "two ways to write one answer"
    draw = random.Random(0)
    for problem in every:
        for style in ("strict", "lenient"):
            assert extract_answer(problem.solution, style) == problem.answer  # so it differs from every other answer
            assert is_correct(problem.solution, problem.answer, style)
        for other in draw.sample(answers, 2):
            assert is_correct(problem.solution, other, "lenient") == (other == problem.answer)


@real
def test_the_gold_solutions_in_other_clothes(splits):
    for problem in splits["test"]:
        chain = problem.solution.rpartition("####")[0].strip()
        tagged = f"<think>\n{chain}\n</think>\n<answer>{int(problem.answer):,}</answer>"
        assert has_format(tagged) and is_correct(tagged, problem.answer)
        assert is_correct(f"{chain}\n\\boxed{{\\${problem.answer}}}", problem.answer, "boxed")
        assert is_correct(f"{chain}\nThe answer is ${problem.answer}.00.", problem.answer, "lenient")


@real
def test_the_splits_do_not_overlap_word_for_word(splits):
    assert duplicates(splits["train"] + splits["test"]) == []


# --- prompts ---------------------------------------------------------------------------------------------------------


class Template:
    chat_template = "yes"

    def apply_chat_template(self, messages, tokenize, add_generation_prompt):
        assert not tokenize and add_generation_prompt
        return "|".join(f"{message['role']}:{message['content']}" for message in messages) + "|assistant:"


@pytest.mark.parametrize("name", PROMPTS)
def test_prompts_hold_the_question_as_it_is(name):
    question = "If {x} costs $5 & {question} 10 %s, \\1?\n</think>"
    text = PROMPTS[name](question, Template())
    assert text.count(question) == 1
    assert opens_thinking(text) == (name == "r1-zero")


@pytest.mark.parametrize("name", ["chat", "boxed", "turn"])
def test_a_tokenizer_without_a_template_is_refused(name):
    with pytest.raises(ValueError, match=r"no chat template.* use r1-zero or question"):
        PROMPTS[name]("How many?", types.SimpleNamespace(chat_template=None))


def test_the_tags_that_are_asked_for_are_those_that_are_graded():
    response = " 9 * 2 = 18 </think> <answer> 18 </answer>"
    opened = opens_thinking(PROMPTS["r1-zero"]("How many?", None))
    assert opened and has_format(response, opened=opened) and is_correct(response, "18", opened=opened)
    for tag in ("<think>", "</think>", "<answer>", "</answer>"):
        assert tag in PROMPTS["r1-zero"]("", None) and tag in PROMPTS["chat"]("", Template())
