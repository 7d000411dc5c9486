"""Hand-ins of assignment 5: a real one from a short run of the pocket model, and the same one edited in many ways."""

import json
import shutil

import pytest

from minirl import cli
from minirl.course import handin


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
    assert result.points == 9 + sum(worth for least, worth in handin.GAINS if result.gain[1] > least)


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
    "no run": ("after/eval.json", setting(["settings", "run"], None), "a checkpoint of the run after"),
    "an epoch left out": ("metrics.jsonl", lambda epochs: [*epochs[:2], *epochs[3:]], "epochs 1, 2, 3, …"),
    "an epoch too many": (
        "metrics.jsonl",
        lambda epochs: [*epochs, {**epochs[-1], "epoch": 7}],
        "has 7 epochs, config.js",
    ),
    "no gradient norm": ("metrics.jsonl", lambda epochs: [{"epoch": 1, "reward_mean": 1.0}], "lacks grad_norm, loss"),
    "not finite": ("metrics.jsonl", setting([2, "loss"], float("nan")), "not finite"),
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


def test_problems_that_are_not_the_test_sets_are_found_out(real):
    lines = (real / "after" / "samples.jsonl").read_text("utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    known = {record["question"]: record["answer"] for record in records}
    assert handin.assess(real, known).gain
    known[records[3]["question"]] = "1234567"
    assert "problem 3 is not one of the test set" in handin.assess(real, known).said[-1]


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
    assert "| 1 | ada |" in table and "| – | eve | | | ✘ after/eval.json: sampled is not that of its samples" in table
    assert [each["name"] for each in json.loads((tmp_path / "results.json").read_text())] == ["ada", "eve"]


def test_a_folder_without_hand_ins_gets_a_sentence(tmp_path, capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(["leaderboard", str(tmp_path)])
    assert end.value.code == 2 and "has no hand-ins" in capsys.readouterr().err
