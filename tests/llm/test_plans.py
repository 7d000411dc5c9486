"""Plans for one GPU: they fit, they are valid, and the command they print is the run they describe."""

import json
import shlex
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from folder import save_data, save_model

from minirl.cli import main
from minirl.llm import memory, pictures, plans, runs
from minirl.llm.plans import CARDS, MIDDLE, NEW, PUBLISHED, SMALL, PeakMemory, Plan, budget, card_of, plan_for
from minirl.runs import Refused

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
import gpu

KNOWN = [(model, card) for card, models in CARDS.items() for model in models]


def test_the_published_shapes_have_the_published_sizes():
    counts = {model: memory.parameter_count(plans.published(model)) for model in PUBLISHED}
    assert counts == {SMALL: 494_032_768, MIDDLE: 1_543_714_304, NEW: 596_049_920}


@pytest.mark.parametrize(("model", "card"), KNOWN)
def test_every_plan_is_valid_and_fits_its_card(model, card):
    plan = plan_for(model, card)
    settings, config = runs.resolved(plan.settings(), has_template=True), plan.config()
    assert memory.estimate(plans.published(model), plan.workload()).peak <= budget(card)
    assert (config.batch_size, config.inner_steps, settings.max_new_tokens) == (plan.batch_size, 1, plan.new_tokens)
    assert plan.batch_size % plan.micro_batch_size == 0 and plan.held_out <= plan.batch_size
    assert plan.eval_batch * plan.eval_samples <= plan.batch_size * plan.group_size
    assert (settings.judge == "boxed") == (plan.prompt == "boxed")


def test_a_plan_takes_changes_and_unknown_ones_are_refused():
    assert plan_for(SMALL, 24, epochs=7, prompt="chat") == replace(plan_for(SMALL, 24), epochs=7, prompt="chat")
    with pytest.raises(ValueError, match=r"no settings for Qwen/Qwen2.5-1.5B-Instruct on 24 GB; there are some for Q"):
        plan_for(MIDDLE, 24)
    with pytest.raises(ValueError, match="no settings for gpt-2 on 12 GB"):
        plan_for("gpt-2", 12)


@pytest.mark.parametrize(
    ("gigabytes", "card"),
    [(15.84, 16), (16.7, 16), (23.7, 24), (25.3, 24), (47.7, 24), (79.0, 80), (85.1, 80), (150.0, 80)],
)
def test_a_card_is_known_by_what_it_reports(gigabytes, card):
    assert card_of(int(gigabytes * 1e9)) == card


def test_a_card_that_is_too_small_is_refused():
    with pytest.raises(ValueError, match="a GPU of 12 GB has no settings; SMOKE=1 runs the pocket model"):
        card_of(12 * 10**9)


def test_each_kind_of_model_has_its_prompt():
    models = ("pocket", NEW, SMALL, "/models/mine")
    assert [plans.prompt_for(model) for model in models] == ["turn", "r1-zero", "boxed", "boxed"]


def test_the_command_is_the_run(tmp_path, monkeypatch, capsys):
    """The line is given to the command line, and the run's own config.json holds the plan's settings."""
    monkeypatch.chdir(tmp_path)
    folders = {"model": str(save_model(tmp_path / "model")), "data": str(save_data(tmp_path / "data"))}
    sizes = {"batch_size": 4, "micro_batch_size": 2, "group_size": 4, "new_tokens": 4, "held_out": 4, "epochs": 1}
    plan = Plan(prompt="question", folder="unused", learning_rate=1e-3, **folders, **sizes)
    program, *words = shlex.split(plan.command())
    with pytest.raises(SystemExit) as stopped:
        main([*words, "--run", "mine"])
    assert (program, stopped.value.code or 0) == ("minirl", 0), capsys.readouterr().err
    saved = json.loads(Path("mine/config.json").read_text())
    wanted = vars(runs.resolved(plan.settings(), has_template=True)) | vars(plan.config())
    assert {name: saved[name] for name in wanted} == wanted
    assert saved["checkpoint_every"] == plan.checkpoint_every


def test_a_folder_belongs_to_one_plan(tmp_path):
    plan = Plan("pocket", "turn", str(tmp_path / "run"))
    assert plan.open_folder() == plan.open_folder() == tmp_path / "run"
    with pytest.raises(Refused, match="holds a run with other settings and was left as it is"):
        replace(plan, epochs=7).open_folder()


def test_a_plan_may_name_its_folders_by_path(tmp_path):
    plan = Plan("pocket", "turn", tmp_path / "run", data=tmp_path)
    assert plan.open_folder() == plan.open_folder() == tmp_path / "run"
    assert replace(plan, folder=str(tmp_path / "run"), data=str(tmp_path)).open_folder() == tmp_path / "run"


def test_the_command_holds_names_with_spaces_together():
    words = shlex.split(Plan("my models/first", "turn", "unused", data="it's here").command())
    assert words[words.index("--model") + 1] == "my models/first" and words[words.index("--data") + 1] == "it's here"


# ---- measuring


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc, which only Linux has")
def test_peak_memory_sees_what_came_and_went():
    with PeakMemory("cpu") as peak:
        torch.ones(50_000_000).sum()  # 200 MB, gone again
    assert peak.bytes == pytest.approx(200e6, rel=0.1)


def test_peak_memory_is_unknown_where_the_system_does_not_tell(monkeypatch):
    monkeypatch.setattr(plans.os.path, "exists", lambda path: False)
    with PeakMemory("cpu") as peak:
        pass
    assert peak.bytes is None


def test_the_gpu_benchmark_runs_on_a_tiny_model(capsys):
    assert gpu.main(["--tiny"]) == 0
    title, head, *rows = capsys.readouterr().out.splitlines()
    assert title.startswith("107,072 random parameters on the CPU, which says nothing about a GPU")
    assert [row.split()[0] for row in rows] == ["tiny", "again"]
    assert all(len(row.split()) == 5 + head.split().index("expected") - head.split().index("T") + 1 for row in rows)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_the_gpu_benchmark_refuses_kindly_without_a_gpu(capsys):
    assert gpu.main([]) == 2
    assert capsys.readouterr().err == "this measures a GPU, and PyTorch finds none; --tiny runs the script on the CPU\n"


# ---- pictures


def test_a_memory_bar_is_as_long_as_the_estimate():
    ax = pictures.memory_bars()
    ends = {round(bar.get_y(), 1): bar.get_x() + bar.get_width() for bar in ax.patches}
    peaks = [memory.estimate(plans.published(model), plan_for(model, card).workload()).peak for model, card in KNOWN]
    assert list(ends.values()) == pytest.approx([peak / 1e9 for peak in peaks])
    assert [line.get_xdata()[0] for line in ax.lines] == [budget(card) / 1e9 for _, card in KNOWN]
    always = [bar.get_width() for bar in ax.patches if bar.get_x() == 0]
    counts = [memory.parameter_count(plans.published(model)) for model, _ in KNOWN]
    assert always == pytest.approx([16 * count / 1e9 for count in counts])


def test_scores_are_drawn_where_they_are():
    low, high = ({"share": share, "low": share - 0.1, "high": share + 0.05} for share in (0.3, 0.8))
    ax = pictures.score_pairs({"strict": (low, high)})
    drawn = [place for line in ax.lines for place in line.get_xdata()]
    assert drawn == pytest.approx([20, 35, 30, 70, 85, 80])
    bars = pictures.score_bars({"chat": {"strict": low}, "turn": {"strict": high}}, ["strict"]).patches
    assert [bar.get_height() for bar in bars] == pytest.approx([30, 80])


def test_a_histogram_counts_and_marks_what_teaches_nothing():
    ax = pictures.rate_histogram([0, 0, 0.5, 0.25, 1], samples=4)
    found = {round(bar.get_x() + bar.get_width() / 2): (bar.get_height(), bar.get_hatch()) for bar in ax.patches}
    assert found == {0: (2, "//"), 1: (1, None), 2: (1, None), 3: (0, None), 4: (1, "//")}


def test_a_marked_width_says_its_number():
    ax = pictures.widths(lambda size: 100 / size**0.5, {100: "here"})
    assert [text.get_text() for text in ax.texts] == ["here: ± 10.0"]
