"""Hand-ins of assignment 5: a real one from a short run of the pocket model, and the same one edited in many ways."""

import json
import os
import shutil
from pathlib import Path

import pytest

from minirl import cli
from minirl.course import handin
from minirl.course.rebuild import template
from minirl.llm import evaluation
from minirl.llm.word_problems import generate

ROOT = Path(__file__).parents[2]
QWEN = "Qwen/Qwen2.5-0.5B-Instruct"


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """Six epochs of GRPO on word problems, evaluated before and after on the same 12 problems."""
    folder = tmp_path_factory.mktemp("handins") / "ada"
    small = ["--epochs", "6", "--batch-size", "8", "--group-size", "4", "--held-out-problems", "4"]
    same = ["--problems", "12", "--samples", "4", "--batch-size", "12"]
    commands = (
        ["train", "--task", "word-problems", *small, "--run", folder],
        ["eval", "--task", "word-problems", *same, "--out", folder / "before"],
        ["eval", "--run", folder, *same, "--out", folder / "after"],
    )
    for words in commands:
        with pytest.raises(SystemExit) as end:
            cli.main([str(word) for word in words])
        assert not end.value.code
    return folder


@pytest.fixture
def copy(real, tmp_path):
    return shutil.copytree(real, tmp_path / "ada")


def test_a_real_hand_in_is_consistent_and_its_gain_is_that_of_its_samples(real):
    result = handin.assess(real)
    assert all(line.startswith("✔") for line in result.said[:4]), result.said
    written = {side: json.loads((real / side / "eval.json").read_text()) for side in handin.SIDES}
    shares = [written[side]["sampled"]["strict"]["share"] for side in handin.SIDES]
    assert [result.before, result.after] == pytest.approx(shares)
    assert result.gain[0] == pytest.approx(shares[1] - shares[0])
    assert result.gain[1] < result.gain[0] < result.gain[2]
    assert result.points == 9 and handin.NO_GAIN in result.said[-1], "a smoke run"


def edited(folder, name, change):
    """Rewrite one file: JSON whole, or its lines."""
    file = folder / name
    if name.endswith(".jsonl"):
        records = change([json.loads(line) for line in file.read_text("utf-8").splitlines()])
        file.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    else:
        file.write_text(json.dumps(change(json.loads(file.read_text("utf-8")))), "utf-8")


def setting(path, value):
    """A change of what stands at a path."""

    def change(content):
        place = content
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
        return content

    return change


def made_right(records):
    """Every check of the first wrong response set to 1, and its text left as it was."""
    wrong = next(response for record in records for response in record["sampled"] if not response["strict"])
    wrong["strict"] = 1
    return records


def renamed(records):
    return [{**record, "question": "What is 1 + 1?", "answer": "2"} for record in records]


EDITS = {
    "a better figure": ("after/eval.json", setting(["sampled", "strict", "share"], 0.99), "sampled is not that of its"),
    "a better interval": ("after/eval.json", setting(["greedy", "strict", "low"], 0.5), "greedy is not that of its"),
    "a better pass@k": ("after/eval.json", setting(["pass_at_k", "strict", "4", "share"], 1.0), "pass_at_k is not"),
    "a wrong answer called right": ("after/samples.jsonl", made_right, "strict is not what the text says"),
    "another gold answer": ("after/samples.jsonl", setting([0, "answer"], "7777"), "not about the same problems"),
    "the good problems only": ("after/samples.jsonl", lambda records: records[:6], "not about the same problems"),
    "a problem twice": (
        "after/samples.jsonl",
        lambda records: [*records[:-1], records[0]],
        "not about the same problems",
    ),
    "another prompt": ("after/eval.json", setting(["settings", "prompt"], "chat"), "with another prompt"),
    "more problems than there are": ("after/eval.json", setting(["settings", "problems"], 99), "with another problems"),
    "another temperature": ("before/eval.json", setting(["settings", "temperature"], 0.1), "with another temperature"),
    "another seed": ("after/eval.json", setting(["settings", "seed"], 7), "with another seed"),
    "another model before": ("before/eval.json", setting(["settings", "model"], "pocket-clean"), "with another model"),
    "another model in the run": ("config.json", setting(["model"], QWEN), "have another model"),
    "a checkpoint that never was": (
        "after/eval.json",
        setting(["settings", "checkpoint"], "epoch-000099"),
        "none of this run's epochs",
    ),
    "more samples of one problem": (
        "after/samples.jsonl",
        lambda records: [{**records[0], "sampled": records[0]["sampled"] * 2}, *records[1:]],
        "line 1: expected problem 0 with 4 samples",
    ),
    "a response of no length": ("after/samples.jsonl", setting([0, "greedy", 0, "tokens"], 0), "that many tokens"),
    "a response cut too early": ("after/samples.jsonl", setting([0, "greedy", 0, "truncated"], True), "that many tok"),
    "tokens without end": ("after/samples.jsonl", setting([0, "greedy", 0, "tokens"], float("inf")), "is not what"),
    "a text that is none": ("after/samples.jsonl", setting([1, "sampled", 0, "text"], 5), "after/samples.jsonl is not"),
    "a judge that is none": ("after/eval.json", setting(["settings", "judge"], []), "with another judge"),
    "a figure that is no number": ("after/eval.json", setting(["sampled", "strict", "share"], float("nan")), "sampled"),
    "a k that is none": ("after/eval.json", setting(["maj_at_k", "9999"], {}), "a k of maj@k"),
    "no run": ("after/eval.json", setting(["settings", "run"], None), "a checkpoint of the run after"),
    "an epoch left out": ("metrics.jsonl", lambda epochs: [*epochs[:2], *epochs[3:]], "epochs 1, 2, 3, …"),
    "an epoch too many": (
        "metrics.jsonl",
        lambda epochs: [*epochs, {**epochs[-1], "epoch": 7}],
        "has 7 epochs, config.js",
    ),
    "no gradient norm": ("metrics.jsonl", lambda epochs: [{"epoch": 1, "reward_mean": 1.0}], "lacks grad_norm, loss"),
    "not finite": ("metrics.jsonl", setting([2, "loss"], float("nan")), "not finite"),
    "an infinite number": ("metrics.jsonl", setting([2, "loss"], float("inf")), "not finite"),
    "as many epochs as you like": ("config.json", setting(["epochs"], "many"), "is not what minirl writes"),
    "another task": ("config.json", setting(["task"], "gsm8k"), "have another task"),
    "no samples": ("after/samples.jsonl", lambda records: [], "after/samples.jsonl is not what minirl eval wrote"),
    "a record without responses": ("before/samples.jsonl", setting([0, "sampled"], []), "before/samples.jsonl is not"),
    "no settings": ("after/eval.json", lambda content: {}, "it has no settings"),
}


@pytest.mark.parametrize("name, change, expected", EDITS.values(), ids=EDITS)
def test_an_edited_hand_in_is_found_out(copy, name, change, expected):
    edited(copy, name, change)
    result = handin.assess(copy)
    assert result.gain is None and result.points < 9
    assert expected in result.said[-1] and result.said[-1].startswith("✘")


@pytest.mark.parametrize("name", ["metrics.jsonl", "config.json", "after/eval.json", "before/samples.jsonl"])
@pytest.mark.parametrize("damage", ["missing", "cut", "binary"])
def test_a_damaged_hand_in_gets_a_sentence(copy, name, damage):
    file = copy / name
    if damage == "missing":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:-9] if damage == "cut" else b"\xff\x00")
    result = handin.assess(copy)
    assert result.points == 0 and result.said[-1].startswith("✘") and "\n" not in result.said[-1]


def both(folder, change):
    """Change both evaluations in the same way, and write the figures that follow from it."""
    for side in handin.SIDES:
        edited(folder, f"{side}/samples.jsonl", change)
        records = [json.loads(line) for line in (folder / side / "samples.jsonl").read_text("utf-8").splitlines()]
        written = json.loads((folder / side / "eval.json").read_text("utf-8"))
        ks, judge = [int(k) for k in written["maj_at_k"]], written["settings"]["judge"]
        written["settings"]["problems"] = len(records)
        (folder / side / "eval.json").write_text(json.dumps(written | evaluation.summary(records, ks, judge)), "utf-8")


def renumbered(records):
    return [{**record, "problem": number} for number, record in enumerate(records)]


def as_gsm8k(folder, model=QWEN):
    """The same files as if they were of another task and model: files cannot show that they are not."""
    edited(folder, "config.json", lambda settings: {**settings, "task": "gsm8k", "model": model})
    for side in handin.SIDES:
        for name, value in {"task": "gsm8k", "model": model}.items():
            edited(folder, f"{side}/eval.json", setting(["settings", name], value))
    lines = (folder / "after" / "samples.jsonl").read_text("utf-8").splitlines()
    return [(each["question"], each["answer"]) for each in map(json.loads, lines)]


def test_problems_that_were_chosen_are_found_out(copy):
    both(copy, lambda records: renumbered(records[1:]))
    assert "problem 0 is not that problem of the test split" in handin.assess(copy).said[-1]


def test_a_problem_that_is_counted_twice_is_found_out(copy):
    both(copy, lambda records: renumbered([*records[:-1], records[0]]))
    assert "a problem is counted twice" in handin.assess(copy).said[-1]


def test_the_first_problems_alone_are_another_way_of_measuring(real, copy):
    both(copy, lambda records: records[:6])
    groups = [handin.assess(folder).group for folder in (real, copy)]
    assert all(groups) and groups[0] != groups[1]


def test_what_is_not_gsm8ks_test_is_found_out(copy):
    asked = as_gsm8k(copy)
    assert handin.assess(copy, {"test": [*asked, ("One more?", "1")]}).gain
    assert "not checked" in handin.assess(copy).notes[0] and not handin.assess(copy, {"test": asked}).notes
    other = [*asked[:3], (asked[3][0], "1234567"), *asked[4:]]
    assert "problem 3 is not that problem of the test split" in handin.assess(copy, {"test": other}).said[-1]
    known = {"test": [("Another?", "1"), *asked], "train": asked}
    assert "problem 0 is a training problem" in handin.assess(copy, known).said[-1]
    assert "more problems than the test split has" in handin.assess(copy, {"test": asked[:5]}).said[-1]


def test_a_gain_on_gsm8k_earns_points_and_one_of_a_pocket_model_none(copy, real, tmp_path):
    as_gsm8k(copy)
    result = handin.assess(copy)
    assert result.points == 9 + sum(worth for least, worth in handin.GAINS if result.gain[1] > least)
    other = shutil.copytree(real, tmp_path / "pocket")
    as_gsm8k(other, "pocket")
    assert handin.assess(other).points == 9


def test_the_splits_of_gsm8k_are_read_from_its_folder(tmp_path):
    for split in ("train", "test"):
        rows = [{"question": f"{split} {number}?", "answer": f"#### 1,00{number}"} for number in range(3)]
        (tmp_path / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.warns(UserWarning, match="is not the official GSM8K"):
        known = handin.splits(tmp_path)
    assert known["test"][1] == ("test 1?", "1001") and known["train"][0] == ("train 0?", "1000")
    assert handin.splits(None) is None


def test_word_problems_are_those_of_minirl_eval(real):
    asked = [json.loads(line)["question"] for line in (real / "after/samples.jsonl").read_text("utf-8").splitlines()]
    assert [question for question, _ in handin.word_problems("1-4")][:12] == asked
    assert asked[0] == generate(1, seed=0, split="held_out")[0].question


# ---- what is no file of one's own, or no file that one would like to open


@pytest.mark.parametrize("name", ["config.json", "metrics.jsonl", "after/samples.jsonl", "before", "."])
def test_a_link_is_refused(copy, real, name):
    place = copy / name
    if name == ".":
        shutil.rmtree(copy)
        copy.symlink_to(real)
    else:
        shutil.rmtree(place) if place.is_dir() else place.unlink()
        place.symlink_to(real / name)
    result = handin.assess(copy)
    assert result.points == 0 and "is a link; hand in the file itself" in result.said[-1]


def test_a_pipe_is_not_waited_for(copy):
    (copy / "metrics.jsonl").unlink()
    os.mkfifo(copy / "metrics.jsonl")
    assert "metrics.jsonl is missing" in handin.assess(copy).said[-1]


@pytest.mark.parametrize("name", handin.FILES)
def test_a_huge_file_is_not_read(copy, name):
    with (copy / name).open("r+b") as file:
        file.truncate(handin.LARGEST + 1)
    assert f"{name} is larger than 100,000,000 bytes" in handin.assess(copy).said[-1]


@pytest.mark.parametrize("name", ["config.json", "metrics.jsonl", "after/eval.json", "after/samples.jsonl"])
@pytest.mark.parametrize(
    "content", ["[" * 100_000, "{" * 9, "null", "7", '{"settings": {}}', '{"epoch": 1' + "0" * 400]
)
def test_no_content_ends_the_others(copy, name, content):
    (copy / name).write_text(content + "\n")
    result = handin.assess(copy)
    assert result.gain is None and result.said[-1].startswith("✘") and "Traceback" not in result.said[-1]


@pytest.mark.parametrize("number", ["1" + "0" * 400, "true"])
def test_a_number_beyond_every_float_gets_a_sentence(copy, number):
    text = (copy / "metrics.jsonl").read_text("utf-8").replace('"loss": ', f'"loss": {number}, "other": ', 1)
    (copy / "metrics.jsonl").write_text(text)
    assert handin.assess(copy).said


def test_a_line_separator_inside_a_text_is_no_end_of_a_line(copy):
    def change(records):
        for record in records:
            record["greedy"][0]["text"] = record["greedy"][0]["text"].replace(" ", "\u2028", 1)
        return records

    for side in handin.SIDES:
        edited(copy, f"{side}/samples.jsonl", change)
        file = copy / side / "samples.jsonl"
        lines = file.read_text("utf-8").splitlines()
        file.write_text("".join(json.dumps(json.loads(line), ensure_ascii=False) + "\n" for line in lines), "utf-8")
    assert "JSON" not in handin.assess(copy).said[-1]


# ---- the same work under two names


def test_one_run_under_two_names_is_noted(real, copy):
    one, other, third = (handin.assess(folder) for folder in (real, copy.rename(copy.with_name("eve")), copy))
    assert third.gain is None
    found = handin.compared([one, other, third])
    assert "the same seconds as those of eve" in found[0].notes[0] and len(found[0].notes) == 1
    assert "the same seconds as those of ada" in found[1].notes[0] and not found[2].notes


def test_the_same_responses_from_another_run_are_noted(real, copy):
    edited(copy, "metrics.jsonl", lambda epochs: [{**each, "seconds_sampling": 0.5} for each in epochs])
    found = handin.compared([handin.assess(real), handin.assess(copy.rename(copy.with_name("eve")))])
    assert "its responses after the run are those of ada" in found[1].notes[0]


def test_the_gain_is_paired():
    """By hand: gains 0, ½, 1 have mean ½ and standard deviation ½, so the bounds are ½ ± 1.96·½/√3."""
    mean, low, high = handin.paired([0.0, 0.5, 0.0], [0.0, 1.0, 1.0])
    assert (mean, low, high) == pytest.approx((0.5, 0.5 - 0.98 / 3**0.5, 0.5 + 0.98 / 3**0.5))


def test_the_leaderboard_ranks_and_says_what_is_wrong(real, copy, tmp_path, capsys):
    edited(copy, "after/eval.json", setting(["sampled", "strict", "share"], 0.99))
    folder = tmp_path / "all"
    shutil.copytree(real, folder / "ada")
    copy.rename(folder / "eve")
    with pytest.raises(SystemExit) as end:
        cli.main(["leaderboard", str(folder), "--out", str(tmp_path / "results.json")])
    assert not end.value.code
    table = capsys.readouterr().out
    assert "word-problems: steps 1-4, prompt turn, judge strict" in table and "| 1 | ada | pocket |" in table
    assert "| eve | ✘ after/eval.json: sampled is not that of its samples |" in table
    assert [each["name"] for each in json.loads((tmp_path / "results.json").read_text())] == ["ada", "eve"]


def test_only_what_was_measured_in_the_same_way_is_ranked_together(real, copy):
    as_gsm8k(copy)
    board = handin.leaderboard([handin.assess(real), handin.assess(copy.rename(copy.with_name("bob")))])
    first, second = board.split("\n\n- ")[0].split("\n\ngsm8k: ")
    assert "| 1 | ada | pocket |" in first and f"| 1 | bob | {QWEN} |" in second


def test_a_name_cannot_break_the_table(copy):
    as_gsm8k(copy, "a | b\n\x1b[31m" + "x" * 300)
    row = next(line for line in handin.leaderboard([handin.assess(copy)]).splitlines() if line.startswith("| 1 |"))
    assert row.count("|") == 8 and "\x1b" not in row and len(row) < 300


def test_ones_own_hand_in_is_told_before_it_is_one(real, copy, tmp_path):
    assert handin.told(tmp_path / "nothing").startswith("not started yet")
    told = handin.told(real).splitlines()
    assert told[0] == "✔ the run is whole (2)" and told[-1].startswith("9 of 15 points; pocket: gain ")
    edited(copy, "after/eval.json", setting(["settings", "seed"], 7))
    assert handin.told(copy).splitlines()[1:] == [
        "✘ before and after were evaluated with another seed",
        "2 of 15 points",
    ]


def test_a_folder_without_hand_ins_gets_a_sentence(tmp_path, capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(["leaderboard", str(tmp_path)])
    assert end.value.code == 2 and "has no hand-ins" in capsys.readouterr().err


def test_the_grader_never_trains():
    """The cells of the run are known to it as given, and left out of what it runs."""
    assignment = template("a5", ROOT)
    ran = "\n".join([*assignment.setup, *(source for _, source in assignment.between)])
    assert "cli.main(" not in ran and "MODEL =" not in ran and "passed(" in ran
    assert any("cli.main(" in source for source in assignment.given)
