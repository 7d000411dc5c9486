"""The command line: what it writes, and that each mistake gets one sentence, exit code 2, and nothing overwritten."""

import dataclasses
import json
import signal
import subprocess
import sys
import time

import matplotlib
import pytest
import typer

from minirl.cli import main, record
from minirl.recipes import RECIPES
from minirl.runs import create
from minirl.train import Config

QUICK = ["--epochs", "3", "--batch-size", "8", "--group-size", "4", "--evaluate-every", "2"]


@pytest.fixture(autouse=True)
def default_style():
    """The commands draw in the course's style; other tests start from Matplotlib's own."""
    with matplotlib.rc_context():
        yield


@pytest.fixture
def minirl(capsys, tmp_path, monkeypatch):
    """Run `minirl WORDS` in an empty folder: exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        with pytest.raises(SystemExit) as exit:
            main([str(word) for word in words])
        captured = capsys.readouterr()
        return exit.value.code or 0, captured.out, captured.err

    return run


def sentence(err: str) -> str:
    """The one line that a mistake is answered with."""
    (line,) = err.strip().splitlines()
    assert line.startswith("minirl: ")
    return line


def epochs(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def test_train_writes_a_run_that_can_be_repeated(minirl, tmp_path):
    code, out, _ = minirl("train", *QUICK, "--delta", "raw", "--seed", 5)
    run = tmp_path / "runs" / "sorting-raw-seed5"
    assert code == 0 and "minirl plot runs/sorting-raw-seed5" in out
    assert [metrics["epoch"] for metrics in epochs(run)] == [1, 2, 3]
    assert ["held_out_exact" in metrics for metrics in epochs(run)] == [False, True, True]
    config = json.loads((run / "config.json").read_text())
    assert config["delta"] == "raw" and config["seed"] == 5 and set(config["versions"]) == {"minirl", "torch", "python"}
    again = []
    for name, value in config.items():
        if name not in ("versions", "critic"):
            again += [f"--{name.replace('_', '-')}", "none" if value is None else str(value)]
    assert minirl("train", *again, "--run", "again")[0] == 0

    def timeless(metrics):
        return {name: value for name, value in metrics.items() if not name.startswith("seconds")}

    assert [*map(timeless, epochs(tmp_path / "again"))] == [*map(timeless, epochs(run))]


def test_a_recipe_brings_its_settings_and_what_is_given_wins(minirl, tmp_path):
    assert minirl("train", *QUICK, "--recipe", "vapo", "--clip-high", 0.5, "--run", "run")[0] == 0
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    recipe = RECIPES["vapo"]
    assert config["recipe"] == "vapo" and config["critic"] == recipe.critic
    assert {name: config[name] for name in recipe.settings} == {**recipe.settings, "clip_high": 0.5}
    assert {"value_loss", "explained_variance"} <= epochs(tmp_path / "run")[0].keys()


def test_recipes_are_listed(minirl):
    code, out, _ = minirl("recipes")
    assert code == 0
    assert all(f"{name} " in out and recipe.differs in out for name, recipe in RECIPES.items())
    assert minirl("recipes", "--markdown")[1].count("\n") == len(RECIPES) + 2


def test_every_setting_is_an_option(minirl, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    code, out, _ = minirl("train", "--help")
    assert code == 0
    assert [field.name for field in dataclasses.fields(Config) if f"--{field.name.replace('_', '-')} " not in out] == []
    assert "raw, max_only, centered, leave_one_out, normalized" in out


def test_options_reach_the_run(minirl, tmp_path):
    settings = {"vocab-size": 4, "length": 2, "held-out": 0.25, "dim": 6, "init-scale": 1.0, "max-grad-norm": 0.5}
    words = [word for name, value in settings.items() for word in (f"--{name}", value)]
    assert minirl("train", *QUICK, *words, "--micro-batch-size", 3, "--constant", "none", "--run", "here")[0] == 0
    config = json.loads((tmp_path / "here" / "config.json").read_text())
    for name, value in settings.items():
        assert config[name.replace("-", "_")] == value
    assert config["micro_batch_size"] == 3 and config["constant"] is None


MISTAKES = {
    "an unknown delta": (["--delta", "center"], "delta='center' is unknown; expected one of raw, max_only, centered"),
    "an unknown recipe": (["--recipe", "gpro"], "recipe='gpro' is unknown; expected one of reinforce, rloo, grpo"),
    "a critic beside a delta": (["--recipe", "ppo", "--delta", "centered"], "a critic judges rewards as they are"),
    "an unknown task": (["--task", "chess"], "task='chess' is unknown; expected one of sorting"),
    "an unknown reward": (["--reward", "exact"], "reward='exact' is unknown; expected one of exact_match"),
    "an unknown option": (["--epoch", "3"], "--epoch"),
    "a word for a number": (["--epochs", "many"], "--epochs"),
    "a word for a number or none": (["--max-grad-norm", "all"], "'all' is neither a valid float nor none"),
    "a negative number": (["--clip-low", "-1"], "clip_low must be at least 0"),
    "no epochs": (["--epochs", "0"], "epochs must be positive"),
    "a group of one": (["--group-size", "1"], "group_size ≥ 2"),
    "more prompts than there are": (["--batch-size", "101"], "between 1 and the 100 training prompts"),
    "too many prompts": (["--vocab-size", "100", "--length", "9"], "use a smaller task"),
    "a seed that no generator takes": (["--seed", str(2**63)], "--seed"),
    "no width": (["--dim", "0"], "--dim"),
    "all prompts held out": (["--held-out", "1"], "held_out is a share"),
}


@pytest.mark.parametrize("words, expected", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_gets_one_sentence_and_leaves_nothing(minirl, tmp_path, words, expected):
    code, out, err = minirl("train", *words)
    assert (code, out) == (2, "")
    assert expected in sentence(err)
    assert list(tmp_path.iterdir()) == []


def test_an_existing_run_is_left_as_it_is(minirl, tmp_path):
    run = tmp_path / "run"
    minirl("train", *QUICK, "--run", run)
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    code, _, err = minirl("train", *QUICK, "--run", run, "--seed", 1)
    assert code == 2 and f"{run} exists already and was left as it is" in sentence(err)
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before


@pytest.mark.parametrize("words", [["train", *QUICK, "--run"], ["demo", "--out"]], ids=["train", "demo"])
def test_an_unwritable_folder_gets_a_sentence(minirl, tmp_path, words):
    (tmp_path / "file").write_text("a file, not a folder")
    code, _, err = minirl(*words, "file/below")
    assert code == 2 and sentence(err) == "minirl: cannot write to file/below: Not a directory"
    assert (tmp_path / "file").read_text() == "a file, not a folder"


def full_disk(*_):
    raise OSError(28, "No space left on device")


def test_a_full_disk_leaves_no_half_of_a_run(minirl, tmp_path, monkeypatch):
    """Else the folder would stand in the way of the same command."""
    command = ["train", *QUICK, "--run", "run"]
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full_disk)
        code, _, err = minirl(*command)
    assert code == 2 and sentence(err) == "minirl: cannot write run/config.json: No space left on device"
    assert list(tmp_path.iterdir()) == []
    assert minirl(*command)[0] == 0


def test_a_disk_that_is_full_at_the_first_epoch_leaves_nothing(minirl, tmp_path, monkeypatch):
    def half(folder, metrics, sync):
        (folder / "metrics.jsonl").write_text('{"epoch": 1, "rew')
        full_disk()

    monkeypatch.setattr("minirl.cli.append", half)
    code, _, err = minirl("train", *QUICK, "--run", "run")
    assert code == 1 and err.strip().endswith("No space left on device; no epoch was finished")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_changes_no_run_that_is_resumed(minirl, tmp_path, monkeypatch):
    minirl("train", *QUICK, "--run", "run", "--checkpoint-every", 1)
    before = {path: path.read_bytes() for path in (tmp_path / "run").iterdir() if path.is_file()}
    monkeypatch.setattr("os.fsync", full_disk)
    code, _, err = minirl("train", "--resume", "run", "--epochs", 5)
    assert code == 2 and sentence(err) == "minirl: cannot write run/metrics.jsonl: No space left on device"
    assert {path: path.read_bytes() for path in (tmp_path / "run").iterdir() if path.is_file()} == before


def test_what_cannot_be_written_down_makes_no_folder(tmp_path):
    with pytest.raises(TypeError):
        create(tmp_path / "run", {"folder": tmp_path})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("where", ["minirl.cli.add_settings", "minirl.jobs.chosen"])
def test_ctrl_c_before_a_run_starts_has_no_traceback(minirl, tmp_path, monkeypatch, where):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(where, interrupted)
    code, out, err = minirl("train", *QUICK)
    assert (code, out, err) == (130, "", "")
    assert list(tmp_path.iterdir()) == []


def test_a_broken_run_ends_with_its_diagnosis(tmp_path, capsys):
    def breaks():
        yield {"epoch": 1, "reward_mean": 1.0}
        raise FloatingPointError("epoch 2: loss is not finite")

    with pytest.raises(typer.Exit) as exit:
        record(breaks(), 3, tmp_path)
    assert exit.value.exit_code == 1
    assert f"minirl: epoch 2: loss is not finite; {tmp_path} keeps the first 1 of 3 epochs" in capsys.readouterr().err
    assert epochs(tmp_path) == [{"epoch": 1, "reward_mean": 1.0}]


def test_a_run_that_breaks_at_once_leaves_nothing(minirl, tmp_path):
    code, out, err = minirl("train", *QUICK, "--init-scale", "nan")
    assert (code, out) == (1, "") and "before training: weight is not finite; likely cause" in sentence(err)
    assert list(tmp_path.iterdir()) == []


def heed_ctrl_c():
    """What a shell runs in the background ignores Ctrl-C, and its children inherit that: start from the default."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def interrupted(tmp_path, how):
    """A long run in a process of its own, stopped when it has written a few epochs."""
    run = tmp_path / "run"
    command = [sys.executable, "-m", "minirl.cli", "train", "--epochs", "100000", "--run", str(run)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, cwd=tmp_path, preexec_fn=heed_ctrl_c, **pipes)
    while not (run / "metrics.jsonl").exists() or len((run / "metrics.jsonl").read_text().splitlines()) < 5:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.05)
    process.send_signal(how)
    _, err = process.communicate(timeout=60)
    return run, process.returncode, err


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signal to send to one process")
def test_ctrl_c_keeps_whole_epochs_and_says_so(tmp_path):
    run, code, err = interrupted(tmp_path, signal.SIGINT)
    assert code == 130 and "Traceback" not in err
    assert f"stopped by hand; {run} keeps the first {len(epochs(run))} of 100000 epochs" in err


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signal to send to one process")
def test_a_killed_run_can_be_drawn(tmp_path, minirl):
    run, _, _ = interrupted(tmp_path, signal.SIGKILL)
    assert minirl("plot", run)[0] == 0
    assert (run / "curves.png").read_bytes().startswith(b"\x89PNG")


@pytest.fixture
def run(tmp_path):
    """A run folder made by hand."""
    lines = [{"epoch": epoch, "reward_mean": epoch / 4, "entropy": 1.0, "grad_norm": 0.1} for epoch in (1, 2, 3)]
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return tmp_path / "run"


def test_plot_draws_several_runs_where_it_is_told(minirl, tmp_path, run):
    minirl("train", *QUICK, "--beta", "0.1", "--run", "other")
    code, out, err = minirl("plot", run, "other", "--out", "both.png")
    assert (code, out, err) == (0, "Learning curves: both.png\n", "")
    assert (tmp_path / "both.png").stat().st_size > 10_000


@pytest.mark.parametrize("name, file", [("curves", "curves.png"), ("v1.svg", "v1.svg")])
def test_plot_says_the_name_that_the_picture_has(minirl, tmp_path, run, name, file):
    assert minirl("plot", run, "--out", name) == (0, f"Learning curves: {file}\n", "")
    assert (tmp_path / file).stat().st_size > 10_000


def test_plot_leaves_out_a_line_that_was_cut_off(minirl, run):
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"epoch": 4, "rew')
    code, _, err = minirl("plot", run)
    assert code == 0 and "the last line" in sentence(err) and "is left out" in err


BROKEN = {
    "empty": ("", "has no complete epoch yet"),
    "cut off in its first line": ('{"epoch"', "has no complete epoch yet"),
    "broken in the middle": ('{"epoch": 1}\nnonsense\n{"epoch": 2}\n', "line 2 is not one epoch's metrics"),
    "of words": ('{"epoch": 1, "reward_mean": "high"}\n{"epoch": 2}\n', "line 1 is not one epoch's metrics"),
    "without epochs": ('{"reward_mean": 1}\n{"epoch": 2}\n', "line 1 is not one epoch's metrics"),
    "not text": (b"\xff\xfe\x00", "it is not text"),
}


@pytest.mark.parametrize("text, expected", BROKEN.values(), ids=BROKEN)
def test_plot_says_what_is_wrong_with_a_run(minirl, run, text, expected):
    (run / "metrics.jsonl").write_bytes(text if isinstance(text, bytes) else text.encode())
    code, _, err = minirl("plot", run)
    assert code == 2 and expected in sentence(err)
    assert not (run / "curves.png").exists()


def test_plot_says_what_is_missing(minirl, run):
    assert "there is no run folder nowhere" in sentence(minirl("plot", "nowhere")[2])
    assert "is not supported" in sentence(minirl("plot", run, "--out", "picture.word")[2])
    assert "No such file or directory" in sentence(minirl("plot", run, "--out", "nowhere/picture.png")[2])
    (run / "metrics.jsonl").unlink()
    assert "No such file or directory" in sentence(minirl("plot", run)[2])


def test_demo_prints_a_table_and_draws(minirl, tmp_path, monkeypatch):
    monkeypatch.setenv("MINIRL_FAST", "1")
    code, out, _ = minirl("demo", "--seeds", 2, "--pocket-epochs", 0)
    assert code == 0 and "make lab" in out
    rows = [line.split()[0] for line in out.splitlines() if line.count("±") == 3]
    assert rows == ["raw", "max_only", "centered", "leave_one_out", "normalized"]
    assert (tmp_path / "artefacts" / "learning_curves.png").stat().st_size > 10_000
    assert "artefacts/learning_curves.png" in out and "pocket" not in out


@pytest.mark.parametrize("epochs", [2])
def test_the_demo_of_the_pocket_model_measures_what_it_shows(epochs, tmp_path, monkeypatch):
    """Shares, intervals and curve are those of the records; the samples are answers to the questions beside them."""
    monkeypatch.setenv("MINIRL_FAST", "1")
    from minirl.llm import demo

    found = demo.run(epochs)
    assert found == dataclasses.replace(demo.run(epochs), seconds=found.seconds, history=found.history)
    assert [metrics["epoch"] for metrics in found.history] == [1, 2]
    text = demo.describe(found)
    for when, records in {"before": found.before, "after": found.after}.items():
        (line,) = (line for line in text.splitlines() if line.startswith(when))
        right = [sum(each["strict"] for each in record["sampled"]) / 8 for record in records]
        assert line.split()[1] == f"{sum(right) / len(right):.1%}"
    said = " ".join(demo.samples(found).split())
    shown = [pair for pair in zip(found.before, found.after, strict=True) if pair[0]["question"] in said]
    assert len(shown) == 2
    assert all(record["greedy"][0]["text"] in said for pair in shown for record in pair)
    assert demo.draw(found, tmp_path / "pocket.png").stat().st_size > 10_000


def test_demo_needs_two_seeds_for_an_interval(minirl):
    code, _, err = minirl("demo", "--seeds", 1)
    assert code == 2 and "--seeds" in sentence(err)


def test_help_and_version(minirl):
    code, out, _ = minirl("--help")
    assert code == 0 and all(command in out for command in ("demo", "train", "plot"))
    import minirl as package

    assert minirl("--version") == (0, f"minirl {package.__version__}\n", "")


@pytest.mark.parametrize("command", ["assign", "check", "grade", "report", "release", "gradescope", "leaderboard"])
def test_help_reads_like_a_page(minirl, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = minirl(command, "--help")
    assert code == 0 and max(map(len, out.splitlines())) <= 80
    examples = [line for line in out.splitlines() if line.startswith(f"  minirl {command} ")]
    assert examples
    parts = [part for part in ("Example", "Reads", "Writes", "Prints", "Exit code") if f"\n {part}" in out]
    assert {"Example", "Exit code"} <= set(parts) and {"Writes", "Prints"} & set(parts)
    assert all(f"• {exit_code}: " in out for exit_code in (0, 2))
