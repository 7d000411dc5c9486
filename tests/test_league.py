"""The league: equal budgets, runs that go on where they stopped, and what is made of the rows."""

import csv
import subprocess
import sys
from dataclasses import asdict, replace

import matplotlib.pyplot as plt
import pytest
import torch

from minirl import league
from minirl.recipes import RECIPES, Recipe

SORTING = replace(league.WORK["sorting"], budget=7000, samples=4, seeds=2, search_seeds=1, rates=(1e-2, 3e-2))
TIMED = {"seconds", "grown_mb"}


def same_every_time(rows):
    return [{name: value for name, value in row.items() if name not in TIMED} for row in rows]


def row(task="sorting", recipe="grpo", seed=0, sampled=0.5, **others):
    blank = asdict(league.Job(task, recipe, seed, 1e-2, 1000)) | {"broken": "", "sampled": sampled, "greedy": sampled}
    numbers = {"length": 3.0, "tokens": 1000, "rollouts": 4, "steps": 16, "seconds": 2.0}
    return blank | numbers | {"counted_mb": 0.25, "grown_mb": None} | others


ROWS = [
    *(row(recipe=league.UNTRAINED, seed=seed, sampled=0.1, tokens=0, steps=0, rate=0.0) for seed in (0, 1)),
    *(row(seed=seed, sampled=sampled) for seed, sampled in enumerate((0.4, 0.6))),
    *(row(recipe="ppo", seed=seed, sampled=0.7) for seed in (0, 1)),
    *(row(recipe="reinforce", seed=seed, sampled=0.2) for seed in (0, 1)),
    *(row("pocket", seed=seed, sampled=0.3, counted_mb=200.0, grown_mb=210.0) for seed in (0, 1)),
    row(seed=100, sampled=0.99, stage="search"),
]


# ---- one run


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_spends_the_budget_and_no_more_than_one_rollout_above_it(name):
    found = league.run(league.make_job(SORTING, "sorting", name, 0, 1e-2))
    rollout = 64 * 16 * 3 * (1 + RECIPES[name].config().resample)
    assert SORTING.budget <= found["tokens"] < SORTING.budget + rollout
    assert (
        found["steps"]
        == found["rollouts"]
        * RECIPES[name].config(**({} if "inner_steps" in RECIPES[name].settings else {"inner_steps": 4})).inner_steps
    )
    assert 0 <= found["sampled"] <= 1 and found["length"] == 3 and found["broken"] == ""


def test_a_run_is_the_same_every_time():
    job = league.make_job(SORTING, "sorting", "ppo", 3, 1e-2)
    assert same_every_time([league.run(job)]) == same_every_time([league.run(job)])


@pytest.mark.parametrize("name", ["dapo", "kimi-k1.5"])
def test_parts_of_a_reward_count_where_responses_end_by_themselves(name, monkeypatch):
    seen = []

    class Watched(league.Shaped):
        def rewards(self, *arguments):
            seen.append((self.epoch, self.weights, self.max_length))
            return super().rewards(*arguments)

    monkeypatch.setattr(league, "Shaped", Watched)
    league.run(league.make_job(SORTING, "sorting", name, 0, 1e-2))
    assert not seen
    league.run(league.make_job(replace(league.WORK["lengths"], budget=20_000, samples=2), "lengths", name, 0, 1e-2))
    assert {each[1:] for each in [(epoch, tuple(weights), most) for epoch, weights, most in seen]} == {
        (tuple(RECIPES[name].reward), 24)
    }
    epochs = [epoch for epoch, *_ in seen]
    assert epochs == sorted(epochs) and epochs[0] == 0 and 50 < epochs[-1] < 100  # hundredths of the budget


def test_the_pocket_model_is_trained_and_judged(monkeypatch):
    def few(searching):
        task = league.word_problems(searching)
        task.test = task.test[:20]
        return task

    work = replace(league.WORK["pocket"], budget=1, samples=2, make_task=few)
    monkeypatch.setitem(league.WORK, "pocket", work)
    found = league.run(league.make_job(work, "pocket", "ppo", 0, 5e-4))
    assert found["rollouts"] == 1 and found["steps"] == 2 and found["tokens"] >= 64
    assert 0.1 < found["sampled"] < 0.9 and 0.1 < found["greedy"] < 0.9
    parameters = sum(weight.numel() for weight in league.pocket(0).parameters())
    assert found["counted_mb"] > (4 + 4 + 1) * 4 * parameters / 1e6  # policy and critic with Adam's, and the reference


def test_a_run_that_breaks_off_says_so_and_earns_nothing():
    found = league.run(league.make_job(SORTING, "sorting", "gpg", 0, 1e30))
    assert "not finite" in found["broken"] and found["sampled"] == found["greedy"] == 0


def test_memory_counts_what_waits_for_the_backward_pass_once():
    used, weights = league.Usage(), torch.nn.Parameter(torch.zeros(5))
    policy = torch.nn.ParameterList([weights])
    used.start(policy, None, reference=True, inner_steps=1)
    assert used.always == 5 * 4 * (4 + 1)
    with torch.autograd.graph.saved_tensors_hooks(used.keep, lambda kept: kept.tensor):
        out = weights.exp()  # keeps its output
        loss = (weights * weights).sum() + (out * out).sum()  # keeps the weights, and that output twice more
        assert (used.now, used.most) == (20, 20)
        loss.backward()
        del out, loss
        weights.exp()  # no backward pass: freed with its result
    assert (used.now, used.most) == (0, 20)
    assert weights.grad.tolist() == [2.0] * 5


# ---- all runs


@pytest.fixture
def here(monkeypatch):
    """Jobs run in this process, and `here.stop_after` of them."""

    class Here:
        stop_after, ran = 10**9, 0

        def __call__(self, job):
            if self.ran >= self.stop_after:
                raise KeyboardInterrupt
            self.ran += 1
            return league.run(job)

    here = Here()
    monkeypatch.setattr(league, "in_its_own_process", here)
    monkeypatch.setitem(league.WORK, "sorting", SORTING)
    return here


def test_a_league_that_was_stopped_goes_on_and_ends_the_same(here, tmp_path):
    whole = league.play_all(["sorting"], ["gpg", "dapo"], tmp_path / "whole.jsonl", workers=1)
    assert here.ran == len(whole) == 2 * 2 + 3 * 2
    here.stop_after = here.ran + 6
    with pytest.raises(KeyboardInterrupt):
        league.play_all(["sorting"], ["gpg", "dapo"], tmp_path / "parts.jsonl", workers=1)
    kept = (tmp_path / "parts.jsonl").read_text()
    assert len(kept.splitlines()) >= 5
    (tmp_path / "parts.jsonl").write_text(kept + kept[:40])  # a line that was cut off
    before, here.stop_after = here.ran, 10**9
    parts = league.play_all(["sorting"], ["gpg", "dapo"], tmp_path / "parts.jsonl", workers=1)
    assert here.ran - before == len(whole) - len(kept.splitlines())
    assert same_every_time(parts) == same_every_time(whole)
    league.play_all(["sorting"], ["gpg", "dapo"], tmp_path / "parts.jsonl", workers=1)
    assert here.ran - before == len(whole) - len(kept.splitlines())


def test_a_recipe_with_other_settings_is_another_run(monkeypatch):
    before = league.make_job(SORTING, "sorting", "grpo", 0, 1e-2)
    changed = {**RECIPES["grpo"].settings, "beta": 0.5}
    monkeypatch.setattr(league, "find", lambda name: Recipe("GRPO", "", "", changed))
    assert league.make_job(SORTING, "sorting", "grpo", 0, 1e-2) != before
    monkeypatch.undo()
    assert league.make_job(SORTING, "sorting", "grpo", 0, 1e-2) == before


def test_the_search_takes_the_best_rate_and_of_equal_ones_the_lowest():
    searched = [
        row(rate=rate, sampled=sampled, seed=seed, stage="search")
        for seed, scores in enumerate([(0.1, 0.9, 0.7), (0.3, 0.5, 0.7)])
        for rate, sampled in zip((1e-3, 1e-2, 1e-1), scores, strict=True)
    ]
    assert league.chosen_rates(searched) == {("sorting", "grpo"): 1e-2}  # 0.2, 0.7, 0.7
    assert league.chosen_rates([*searched, row(rate=5.0, sampled=1.0)]) == {("sorting", "grpo"): 1e-2}


def test_the_search_has_seeds_and_prompts_of_its_own():
    league_prompts, search_prompts = (
        {tuple(prompt) for prompt in league.sorting_task(searching).held_out().prompts.tolist()}
        for searching in (False, True)
    )
    assert league_prompts != search_prompts
    league_problems, search_problems = (
        {problem.question for problem in league.word_problems(searching).test} for searching in (False, True)
    )
    assert league_problems.isdisjoint(search_problems) and len(league_problems) == 200
    seeds = {job.seed for job in league.search_jobs(SORTING, "sorting", ["grpo"])}
    assert seeds.isdisjoint({job.seed for job in league.league_jobs(SORTING, "sorting", [], {})})


def test_a_small_league_can_be_played_here():
    rows = league.play(["gpg", "grpo"], "sorting", seeds=range(2), budget=6000)
    assert [(each["recipe"], each["seed"]) for each in rows] == [
        (recipe, seed) for recipe in (league.UNTRAINED, "gpg", "grpo") for seed in (0, 1)
    ]
    assert {each["rate"] for each in rows} == {0.0, SORTING.rates[-1]}
    text = league.table(rows)
    assert "`gpg`" in text and "best of three" not in text and "by heart" not in text
    assert "best of three" in league.table([*rows, row(stage="search")])


def test_the_command_plays_writes_draws_and_cleans_up(tmp_path):
    command = [sys.executable, "-m", "minirl.league", "--quick", "--tasks", "sorting", "--recipes", "gpg", "--out", "."]
    done = subprocess.run([*command, "--workers", "2"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "| `gpg` |" in done.stdout and "*untrained*" in done.stdout
    assert not (tmp_path / "runs" / "league-quick.jsonl").exists()
    assert (tmp_path / "league-quick.png").stat().st_size > 5000
    rows = league.read(tmp_path / "league-quick.csv")
    assert [each["stage"] for each in rows] == ["league"] * 4 + ["search"] * 2
    if sys.platform == "linux":
        assert all((each["grown_mb"] is None) == (each["recipe"] == league.UNTRAINED) for each in rows)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--recipes", "grpo", "ppo2"), "minirl: recipe='ppo2' is unknown; expected one of reinforce, rloo, grpo, "),
        (("--tasks", "chess"), "minirl: task='chess' is unknown; expected one of sorting, lengths, pocket"),
    ],
)
def test_what_is_unknown_is_refused_in_one_sentence(words, sentence, capsys):
    with pytest.raises(SystemExit) as exit:
        league.main([*words])
    assert exit.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(sentence)
    with pytest.raises(ValueError, match="is unknown; expected one of"):
        league.play([words[-1]] if words[0] == "--recipes" else ["grpo"], words[-1] if "chess" in words else "sorting")


# ---- what came of it


def test_rows_come_back_as_they_were_written(tmp_path):
    league.write(ROWS[::-1], tmp_path / "deep" / "league.csv")
    found = league.read(tmp_path / "deep" / "league.csv")
    assert sorted(map(str, same_every_time(found))) == sorted(
        str({name: each[name] for name in league.COLUMNS if name not in TIMED}) for each in ROWS
    )
    assert found == league.read(tmp_path / "deep" / "league.csv") and found[-1]["stage"] == "search"
    with (tmp_path / "deep" / "league.csv").open() as file:
        assert next(csv.reader(file)) == [*league.COLUMNS]


def test_a_league_that_is_not_there_is_missed_in_one_sentence(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no league at .*none\.csv; make league plays one"):
        league.read(tmp_path / "none.csv")


def test_the_table_is_sorted_by_sampled_accuracy_and_leaves_the_search_out():
    lines = league.table(ROWS).splitlines()
    assert lines[0] == "**sorting**: 1,000 sampled tokens a run, 2 runs each"
    names = [line.split("|")[1].strip() for line in lines[4:8]]
    assert names == ["`ppo`", "`grpo`", "`reinforce`", "*untrained*"]
    assert (
        lines[5] == "| `grpo` | 50.0 ± 127.1 | 50.0 ± 127.1 | 0.01 | 3.0 | 16 | 500 | 0.25 |"
    )  # t of one degree: 12.7
    assert "| `grpo` | 30.0 ± 0.0 | 30.0 ± 0.0 | 0.01 | 3.0 | 16 | 500 | 200 (210) |" in lines
    assert lines[-1].endswith("end by themselves.") and "others 2 or 4." in " ".join(lines)


def test_one_seed_has_no_interval_and_a_broken_run_is_named():
    lines = league.table([row(broken="a loss is not finite")]).splitlines()
    assert lines[4].startswith("| `grpo` (1 broke off) | 50.0 | 50.0 |")


def test_the_picture_has_a_panel_a_task_and_a_dot_a_recipe():
    figure = league.draw(ROWS)
    left, right = figure.axes
    assert [text.get_text() for text in left.get_yticklabels()] == ["REINFORCE", "GRPO", "PPO"]
    dots = {container.lines[0].get_xdata()[0]: container.lines[0].get_ydata()[0] for container in left.containers}
    assert dots == pytest.approx({20: 0, 50: 1, 70: 2})
    assert [container.lines[0].get_xdata()[0] for container in right.containers] == [30]
    assert any(line.get_linestyle() == "--" and line.get_xdata()[0] == pytest.approx(10) for line in left.lines)
    plt.close(figure)
    figure = league.draw(ROWS, own := plt.figure())
    assert figure is own
    plt.close(figure)
