"""Evaluation by hand: a policy that reads its answers off a list, and shares that are counted in plain Python."""

import json
from itertools import combinations
from statistics import fmean

import pytest
import torch
from folder import word_tokenizer, written

from minirl.evaluate import wilson_interval
from minirl.llm import evaluation
from minirl.llm.problem import Problem
from minirl.llm.prompts import PROMPTS, question
from minirl.llm.task import LanguageTask

TOKENIZER = word_tokenizer()
PROBLEMS = [Problem(f"{n} apples", "", str(n)) for n in range(7)]


class Digits:
    """Greedy says the question's own number; a sample says #### and a digit of the generator's, or rambles on."""

    longest = 3

    def greedy(self, prompts):
        return written(TOKENIZER, *(f"#### {TOKENIZER.decode(row[-2])}" for row in prompts))

    def sample(self, prompts, group_size, generator):
        digits = torch.randint(10, (len(prompts) * group_size,), generator=generator).tolist()
        return written(TOKENIZER, *(f"#### {n}" if n else "apples apples apples" for n in digits), group=group_size)

    def truncated(self, responses, mask):
        return mask.sum(-1) > self.longest


def task(**settings):
    return LanguageTask(TOKENIZER, PROBLEMS, PROBLEMS, settings.pop("prompt", question), **settings)


def evaluated(file, samples=4, batch_size=3, seed=0, problems=PROBLEMS, judge="strict"):
    return list(evaluation.evaluate(Digits(), task(judge=judge), problems, samples, batch_size, seed, file))


def test_a_record_has_the_problem_and_every_response_with_its_checks(tmp_path):
    records = evaluated(tmp_path / "samples")
    assert [record["problem"] for record in records] == [*range(7)]
    for number, record in enumerate(records):
        assert (record["question"], record["answer"]) == (f"{number} apples", str(number))
        right = {"strict": 1, "lenient": 1, "boxed": 0, "format": 0, "tokens": 3, "truncated": False}
        assert record["greedy"] == [{"text": f"#### {number}", "extracted": str(number), **right}]
        for response in record["sampled"]:
            said = response["extracted"]
            assert response["text"] == (f"#### {said}" if said else "apples apples apples")
            assert response["strict"] == (said == str(number)) and response["truncated"] == (said is None)
            assert response["tokens"] == (3 if said else 4)
    assert [json.loads(line) for line in (tmp_path / "samples").read_text("utf-8").splitlines()] == records


def test_each_batch_has_random_numbers_of_its_own_and_the_seed_decides(tmp_path):
    first, again, other = (evaluated(tmp_path / name, 8, seed=seed) for name, seed in (("a", 0), ("b", 0), ("c", 1)))
    said = [[response["text"] for response in record["sampled"]] for record in first]
    assert first == again != other and said[:3] != said[3:6]


@pytest.mark.parametrize("lines", [1, 3, 5, 6, 7])
def test_what_was_stopped_goes_on_batch_by_batch(tmp_path, lines):
    whole = evaluated(tmp_path / "whole")
    text = (tmp_path / "whole").read_text("utf-8").splitlines(keepends=True)
    (tmp_path / "cut").write_text("".join(text[:lines]) + "".join(text[lines:])[:20], "utf-8")
    questions = [problem.question for problem in PROBLEMS]
    assert len(evaluation.finished(tmp_path / "cut", 3, questions)) == (7 if lines == 7 else lines - lines % 3)
    assert evaluated(tmp_path / "cut") == whole
    assert (tmp_path / "cut").read_text("utf-8").splitlines(keepends=True) == text


FOREIGN = {
    "a line twice at the end": lambda lines: [*lines, lines[-1]],
    "a line twice in the middle": lambda lines: [*lines[:2], lines[1], *lines[2:6]],
    "another order": lambda lines: lines[::-1],
    "another question": lambda lines: [lines[0].replace("0 apples", "9 apples"), *lines[1:]],
    "no greedy response": lambda lines: [lines[0].replace("greedy", "greedier"), *lines[1:]],
    "not a record": lambda lines: ["7\n", *lines[1:]],
    "a problem that is a list": lambda lines: [lines[0].replace('"problem": 0', '"problem": [0]'), *lines[1:]],
}


@pytest.mark.parametrize("change", FOREIGN.values(), ids=FOREIGN)
def test_records_of_another_evaluation_are_refused_and_left(tmp_path, change):
    evaluated(tmp_path / "samples")
    lines = (tmp_path / "samples").read_text("utf-8").splitlines(keepends=True)
    (tmp_path / "samples").write_text("".join(change(lines)), "utf-8")
    with pytest.raises(ValueError, match="samples is not this evaluation's; remove it to start the evaluation again"):
        evaluated(tmp_path / "samples")
    assert (tmp_path / "samples").read_text("utf-8") == "".join(change(lines))


def test_records_that_cannot_be_read_are_refused_with_the_files_name(tmp_path):
    for content in (b"{\n", b"\xff\n"):
        (tmp_path / "samples").write_bytes(content)
        with pytest.raises(ValueError, match=r"cannot read .*samples .* remove it to start the evaluation again"):
            evaluated(tmp_path / "samples")


def test_no_samples_are_no_samples(tmp_path):
    assert all("sampled" not in record for record in evaluated(tmp_path / "samples", samples=0))


@pytest.mark.parametrize("judge, style", [("strict", "strict"), ("lenient", "lenient"), ("format", "strict")])
def test_the_vote_reads_as_the_judge_does(judge, style):
    assert evaluation.judge_style(task(judge=judge)) == style


def test_what_is_extracted_is_what_the_judge_reads():
    said = written(TOKENIZER, "3 apples")
    for judge, extracted in (("strict", None), ("lenient", "3")):
        ((response,),) = evaluation.graded(Digits(), task(judge=judge), task().encode(PROBLEMS[:1]), *said)
        assert response["extracted"] == extracted


def test_thinking_that_the_prompt_opened_is_not_extracted():
    said = written(TOKENIZER, "#### 3")
    for name, extracted in (("question", "3"), ("r1-zero", None)):
        opened = task(prompt=PROMPTS[name])
        ((response,),) = evaluation.graded(Digits(), opened, opened.encode(PROBLEMS[:1]), *said)
        assert response["extracted"] == extracted


# ---- what it comes to


def response(strict, lenient, tokens, truncated=False, extracted=None):
    return {"strict": strict, "lenient": lenient, "boxed": 0, "format": 1 - strict, "tokens": tokens} | {
        "truncated": truncated,
        "extracted": extracted,
    }


RECORDS = [
    {
        "answer": "3",
        "greedy": [response(1, 1, 5, extracted="3")],
        "sampled": [
            response(1, 1, 5, extracted="3"),
            response(0, 1, 9, extracted="3"),
            response(0, 0, 2, True, "4"),
            response(0, 0, 8, True),
        ],
    },
    {
        "answer": "7",
        "greedy": [response(0, 1, 11, True)],
        "sampled": [
            response(0, 0, 4, extracted="1"),
            response(0, 0, 4, extracted="1"),
            response(0, 1, 4, extracted="7"),
            response(1, 1, 4, extracted="7"),
        ],
    },
    {"answer": "2", "greedy": [response(0, 0, 2)], "sampled": [response(0, 0, 6)] * 4},
]


def drawn(record, k):
    return list(combinations(record["sampled"], k))


def won(draw, gold):
    """1 where the gold answer has the most votes, a share of it where others have as many."""
    votes = [each["extracted"] for each in draw if each["extracted"]]
    most = [answer for answer in set(votes) if votes.count(answer) == max(map(votes.count, votes))]
    return (gold in most) / len(most) if most else 0


def test_the_summary_is_counted_over_problems():
    found = evaluation.summary(RECORDS, [1, 2, 4])
    assert (found["problems"], found["samples"]) == (3, 4)
    expected = {"greedy": {"strict": 1 / 3, "lenient": 2 / 3, "format": 2 / 3, "boxed": 0}}
    expected |= {"sampled": {"strict": 2 / 12, "lenient": 4 / 12, "format": 10 / 12, "boxed": 0}}
    for how, shares in expected.items():
        for check, share in shares.items():
            low, high = wilson_interval(3 * share, 3)
            assert found[how][check] == pytest.approx({"share": share, "low": low, "high": high})
    assert found["greedy"]["tokens"] == pytest.approx(6) and found["greedy"]["truncated"] == pytest.approx(1 / 3)
    assert found["sampled"]["tokens"] == pytest.approx(64 / 12) and found["sampled"]["truncated"] == pytest.approx(
        1 / 6
    )


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_passes_and_votes_are_those_of_every_draw(k):
    found = evaluation.summary(RECORDS, [k])
    for check in ("strict", "lenient"):
        passed = [fmean(any(each[check] for each in draw) for draw in drawn(record, k)) for record in RECORDS]
        assert found["pass_at_k"][check][str(k)]["share"] == pytest.approx(fmean(passed))
    votes = [fmean(won(draw, record["answer"]) for draw in drawn(record, k)) for record in RECORDS]
    assert found["maj_at_k"][str(k)]["share"] == pytest.approx(fmean(votes))
    assert list(found["pass_at_k"]) == ["strict", "lenient"]
    assert list(evaluation.summary(RECORDS, [k], "boxed")["pass_at_k"]) == ["boxed", "strict", "lenient"]


def test_the_table_says_it_in_percent():
    text = evaluation.table(evaluation.summary(RECORDS, [1, 4]))
    low, high = (100 * bound for bound in wilson_interval(1, 3))
    lines = {line.split()[0]: line for line in text.splitlines()[1:]}
    assert [*lines] == ["greedy", "sampled", "pass@1", "pass@4", "maj@1", "maj@4"]
    assert f"33.3% [{low:.1f}, {high:.1f}]" in lines["greedy"] and lines["greedy"].endswith("6 tokens, 33.3% cut")
    assert "boxed" not in text and "boxed" in evaluation.table(evaluation.summary(RECORDS, [1], "boxed"), "boxed")
