"""Training and evaluating a language model from the command line, with a tiny random transformer on disk."""

import json
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest
import torch
from folder import save_data, save_model
from safetensors.torch import load_file

from minirl import checkpoint, jobs
from minirl.cli import main
from minirl.llm import evaluation
from minirl.llm import runs as language
from minirl.train import Config

QUICK = ["--task", "gsm8k", "--prompt", "question", "--max-new-tokens", "4", "--reward-lenient", "1"]
QUICK += ["--batch-size", "6", "--group-size", "4", "--held-out-problems", "6", "--learning-rate", "1e-3"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A tiny random model and problems that it solves now and then."""
    place = tmp_path_factory.mktemp("tiny")
    return save_model(place / "model"), save_data(place / "data")


@pytest.fixture
def minirl(capsys, tmp_path, monkeypatch, folders):
    """Run `minirl train` or `eval` on the tiny model in an empty folder: exit code, standard output and error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MINIRL_GSM8K", raising=False)

    def run(command, *words, model=folders[0], data=folders[1]):
        where = [*(["--model", model] if model else []), *(["--data", data] if data else [])]
        with pytest.raises(SystemExit) as exit:
            main([str(word) for word in (command, *where, *words)])
        captured = capsys.readouterr()
        return exit.value.code or 0, captured.out, captured.err

    return run


def said(err):
    """The sentences for the user, among progress bars."""
    return [line for line in err.replace("\r", "\n").splitlines() if line.startswith("minirl: ")]


def epochs(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def timeless(history):
    return [{name: value for name, value in each.items() if not name.startswith("seconds")} for each in history]


# ---- train


def test_train_writes_metrics_settings_and_checkpoints(minirl, tmp_path, folders):
    code, out, _ = minirl("train", *QUICK, "--epochs", 3, "--checkpoint-every", 2, "--run", "run")
    assert code == 0 and "minirl plot run" in out
    history = epochs(tmp_path / "run")
    assert [metrics["epoch"] for metrics in history] == [1, 2, 3] and "held_out_exact" in history[-1]
    assert all({"strict_rate", "lenient_rate", "format_rate"} <= set(metrics) for metrics in history)
    assert any(metrics["reward_mean"] > 0 and metrics["grad_norm"] > 0 for metrics in history)
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["model"] == str(folders[0]) and config["data"] == str(folders[1]) and config["judge"] == "strict"
    assert (config["reward_strict"], config["reward_lenient"], config["reward_format"]) == (0, 1, 0)
    assert set(config["versions"]) == {"minirl", "torch", "transformers", "python"}
    names = [path.name for path in checkpoint.checkpoints(tmp_path / "run" / "checkpoints")]
    assert names == ["epoch-000002", "epoch-000003"]


def test_a_run_is_repeated_from_its_config(minirl, tmp_path):
    minirl("train", *QUICK, "--epochs", 2, "--seed", 4, "--run", "run")
    words = []
    for name, value in json.loads((tmp_path / "run" / "config.json").read_text()).items():
        if name not in ("versions", "critic", "model", "data", "gradient_checkpointing"):
            words += ["--" + name.replace("_", "-"), "none" if value is None else value]
    assert minirl("train", *words, "--run", "again")[0] == 0
    assert timeless(epochs(tmp_path / "again")) == timeless(epochs(tmp_path / "run"))


def test_gradient_checkpointing_changes_no_epoch(minirl, tmp_path):
    minirl("train", *QUICK, "--epochs", 2, "--run", "run")
    assert minirl("train", *QUICK, "--epochs", 2, "--gradient-checkpointing", "--run", "other")[0] == 0
    ours, theirs = epochs(tmp_path / "other")[-1], epochs(tmp_path / "run")[-1]
    for name in ("reward_mean", "grad_norm", "entropy", "response_length"):
        assert ours[name] == pytest.approx(theirs[name], rel=1e-4)


def test_defaults_suit_the_task():
    options = {field: getattr(Config, field) for field in Config.__dataclass_fields__}
    options |= {name: getattr(language.Settings, name) for name in language.names() - {"task"}}
    options |= dict.fromkeys(jobs.SORTING, 0) | {"checkpoint_every": 0, "recipe": None}
    sort = jobs.chosen({**options, "task": "sorting"}, set())
    assert (sort["epochs"], sort["learning_rate"], sort["checkpoint_every"]) == (300, 1e-2, 0)
    pocket = jobs.chosen({**options, "task": "word-problems"}, set())
    assert (pocket["inner_steps"], pocket["learning_rate"], pocket["checkpoint_every"]) == (1, 1e-3, 5)
    other = jobs.chosen({**options, "task": "gsm8k", "model": "Qwen/Qwen2.5-0.5B-Instruct", "epochs": 7}, {"epochs"})
    assert (other["epochs"], other["learning_rate"]) == (7, 1e-6)
    kimi = jobs.chosen({**options, "task": "word-problems", "recipe": "kimi-k1.5"}, set())
    assert (kimi["loss"], kimi["reward_length"], kimi["inner_steps"]) == ("squared", 0.2, 1)
    vapo = jobs.chosen({**options, "task": "word-problems", "recipe": "vapo"}, set())
    assert (vapo["positive_weight"], vapo["positive_above"]) == (0.1, 0.5) and pocket["positive_above"] == 0
    assert not set(jobs.SORTING) & set(pocket) and not set(pocket) & {"reward", "dim"}


@pytest.mark.parametrize(
    "given, template, prompt, weights, judge",
    [
        ({"task": "gsm8k"}, True, "chat", {"strict": 1.0, "format": 0.2}, "strict"),
        ({"task": "gsm8k"}, False, "r1-zero", {"strict": 1.0, "format": 0.2}, "strict"),
        ({"task": "word-problems"}, True, "turn", {"strict": 1.0, "format": 0.2}, "strict"),
        ({"task": "gsm8k", "prompt": "boxed"}, True, "boxed", {"boxed": 1.0}, "boxed"),
        ({"task": "gsm8k", "reward_lenient": 0.5, "judge": "lenient"}, True, "chat", {"lenient": 0.5}, "lenient"),
    ],
)
def test_what_is_left_open_is_decided_by_prompt_and_model(given, template, prompt, weights, judge):
    settings = language.resolved(language.Settings(**given), template)
    assert (settings.prompt, settings.judge, language.weights(settings)) == (prompt, judge, weights)
    assert language.resolved(settings, not template) == settings


MISTAKES = {
    "an unknown model": (["--model", "nowhere/nothing"], "cannot load 'nowhere/nothing'"),
    "an unknown prompt": (["--prompt", "poem"], "prompt='poem' is unknown; expected one of r1-zero, chat"),
    "an unknown judge": (["--judge", "me"], "judge='me' is unknown"),
    "no rewards": (["--reward-lenient", "0"], "at least one check to reward"),
    "a group of one": (["--group-size", "1"], "group_size ≥ 2"),
    "more prompts than there are": (["--batch-size", "41"], "between 1 and the 40 training problems"),
    "a long response": (["--max-new-tokens", "64"], "exceed the context of 64; lower max_new_tokens"),
    "no new tokens": (["--max-new-tokens", "0"], "max_new_tokens must be at least 1; got 0"),
    "no temperature": (["--temperature", "0"], "temperature divides the logits"),
    "a sorting option": (["--dim", "3"], "--dim does not go with the task gsm8k; leave it out"),
    "data that is not there": (["--data", "nowhere"], "there is no nowhere"),
    "data for word problems": (["--task", "word-problems"], "is for gsm8k; word-problems are told from a seed"),
    "steps": (["--steps", "many"], "steps are the fewest and the most"),
    "no held-out problems": (["--held-out-problems", "0"], "must be at least 1"),
}


@pytest.mark.parametrize("words, expected", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_gets_one_sentence_and_leaves_nothing(minirl, tmp_path, monkeypatch, words, expected):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    code, out, err = minirl("train", *QUICK, *words)
    assert (code, out) == (2, "")
    (sentence,) = said(err)
    assert expected in sentence and "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_language_options_are_refused_for_sorting(minirl):
    code, _, err = minirl("train", "--task", "sorting", "--prompt", "chat", model=None, data=None)
    assert code == 2 and "--prompt does not go with the task sorting" in said(err)[0]


def test_one_file_would_train_on_the_test(minirl, folders, tmp_path):
    code, _, err = minirl("train", *QUICK, data=folders[1] / "test.jsonl")
    assert code == 2 and "is one file; training needs a folder with train.jsonl and test.jsonl" in said(err)[0]
    assert list(tmp_path.iterdir()) == []


def test_a_folder_called_pocket_is_not_mistaken_for_the_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pocket").mkdir()
    (tmp_path / "mine").mkdir()
    monkeypatch.setenv("MINIRL_GSM8K", "mine")
    assert language.resolved(language.Settings("word-problems"), True).model == "pocket"
    settings = language.resolved(language.Settings("gsm8k", model="mine"), True)
    assert settings.model == settings.data == str(tmp_path / "mine")


def test_an_empty_variable_is_not_the_current_folder(monkeypatch):
    monkeypatch.setenv("MINIRL_GSM8K", "")
    assert language.resolved(language.Settings("gsm8k"), True).data is None


def test_a_run_that_will_not_fit_is_refused_with_the_numbers(minirl, tmp_path, monkeypatch):
    monkeypatch.setattr("minirl.llm.memory.available", lambda device: 300_000)
    code, _, err = minirl("train", *QUICK)
    assert code == 2 and "GiB of memory and 0.0 GiB are free" in said(err)[0]
    assert "activations" in err and "peak" in err and list(tmp_path.iterdir()) == []


# ---- what to watch


def test_missing_signal_is_said_once(minirl):
    """Nothing is ever right here, and nobody writes tags."""
    words = ["--reward-strict", "1", "--reward-lenient", "0", "--epochs", "3", "--run", "run"]
    code, _, err = minirl("train", *QUICK, *words)
    sentences = said(err)
    assert code == 0
    assert sum("every group is tied, so there is nothing to learn from" in each for each in sentences) == 1
    assert sum("no response has the format" in each for each in sentences) == 1


def test_what_each_warning_asks_for():
    told = set()
    fine = {"epoch": 1, "zero_signal_groups": 0.9, "truncated": 0.2, "format_rate": 0.01}
    assert language.missing_signal(fine, told) == [] == language.missing_signal({**fine, "truncated": 0}, told)
    (cut,) = language.missing_signal({**fine, "epoch": 2, "truncated": 0.21}, told)
    assert cut == "epoch 2: more than 20 % of the responses were cut before their end: raise max_new_tokens"
    poor = {"epoch": 3, "zero_signal_groups": 1.0, "truncated": 1.0, "format_rate": 0.0}
    assert len(language.missing_signal(poor, told)) == 2
    assert language.missing_signal(poor, told) == []


def test_a_glance_shows_reward_length_and_tokens_per_second():
    """All sampled tokens count, those of groups that were drawn in vain too."""
    metrics = {
        "reward_mean": 0.5,
        "response_length": 30.0,
        "sampled_tokens": 960.0,
        "truncated": 0.25,
        "held_out_exact": 0.4,
    }
    metrics |= {"seconds_sampling": 1.0, "seconds_scoring": 0.5, "seconds_updating": 0.5}
    shown = language.glance(metrics)
    assert shown == {"reward": "0.50", "length": "30", "cut": "25%", "held out": "40%", "tokens/s": "480"}
    del metrics["truncated"], metrics["held_out_exact"]
    assert set(language.glance(metrics)) == {"reward", "length", "tokens/s"}


def test_data_that_is_not_gsm8k_is_said_to_be_so_without_code(minirl):
    _, _, err = minirl("train", *QUICK, "--epochs", 1, "--run", "run")
    assert sum("is not the official GSM8K" in sentence for sentence in said(err)) == 2
    assert "UserWarning" not in err and "runs.py" not in err


# ---- resume


def test_resume_goes_on_as_if_nothing_had_happened(minirl, tmp_path):
    words = [*QUICK, "--beta", "0.1", "--reference-every", "2", "--checkpoint-every", "2", "--evaluate-every", "3"]
    minirl("train", *words, "--epochs", 5, "--run", "whole")
    minirl("train", *words, "--epochs", 5, "--run", "run")
    for path in checkpoint.checkpoints(tmp_path / "run" / "checkpoints")[1:]:
        shutil.rmtree(path)
    with (tmp_path / "run" / "metrics.jsonl").open("a") as file:
        file.write('{"epoch": 6, "cut o')
    code, _, err = minirl("train", "--resume", "run", model=None, data=None)
    assert code == 0, err
    assert timeless(epochs(tmp_path / "run")) == timeless(epochs(tmp_path / "whole"))


def test_more_epochs_can_be_asked_for(minirl, tmp_path):
    minirl("train", *QUICK, "--epochs", 2, "--checkpoint-every", 1, "--run", "run")
    code, _, err = minirl("train", "--resume", "run", model=None, data=None)
    assert code == 2 and said(err) == ["minirl: run has all its 2 epochs; ask for more with --epochs"]
    assert minirl("train", "--resume", "run", "--epochs", 3, model=None, data=None)[0] == 0
    assert len(epochs(tmp_path / "run")) == 3
    assert json.loads((tmp_path / "run" / "config.json").read_text())["epochs"] == 3


@pytest.mark.parametrize("every, kept", [(3, 2), (2, 2), (0, 0)])
def test_a_run_that_was_killed_before_its_first_checkpoint_starts_again(minirl, tmp_path, every, kept):
    minirl("train", *QUICK, "--epochs", 4, "--run", "run", "--checkpoint-every", every)
    expected = timeless(epochs(tmp_path / "run"))
    shutil.rmtree(tmp_path / "run" / "checkpoints", ignore_errors=True)
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "run" / "metrics.jsonl").write_text("".join(lines[:kept]) + lines[kept][:9])
    code, _, err = minirl("train", "--resume", "run", model=None, data=None)
    assert code == 0
    assert ("minirl: run has no checkpoint yet, so it starts over from epoch 1" in said(err)) == (kept > 0)
    assert timeless(epochs(tmp_path / "run")) == expected


@pytest.mark.parametrize("every, kept, more", [(0, 2, 0), (1, 2, 0), (2, 3, 0), (5, 3, 0), (5, 3, 9)])
def test_epochs_without_a_checkpoint_are_not_thrown_away(minirl, tmp_path, every, kept, more):
    minirl("train", *QUICK, "--epochs", 3, "--run", "run", "--checkpoint-every", every)
    shutil.rmtree(tmp_path / "run" / "checkpoints", ignore_errors=True)
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "run" / "metrics.jsonl").write_text("".join(lines[:kept]))
    words = ["--epochs", more] if more else []
    code, _, err = minirl("train", "--resume", "run", *words, model=None, data=None)
    assert code == 2
    assert said(err) == [f"minirl: run has {kept} epochs and no checkpoint to go on from; start a new run"]
    assert (tmp_path / "run" / "metrics.jsonl").read_text() == "".join(lines[:kept])


def test_what_cannot_be_resumed_gets_a_sentence(minirl, tmp_path):
    resume = {"model": None, "data": None}
    assert said(minirl("train", "--resume", "nowhere", **resume)[2]) == ["minirl: there is no run folder nowhere"]
    minirl("train", *QUICK, "--epochs", 2, "--run", "run", "--checkpoint-every", 1)
    _, _, err = minirl("train", "--resume", "run", "--seed", 3, **resume)
    assert said(err) == ["minirl: a resumed run keeps its settings, so leave out --seed"]
    config = tmp_path / "run" / "config.json"
    before = config.read_text()
    for text in ("{", "[]", '{"versions": {}}', before.replace('"seed": 0', '"sead": 0')):
        config.write_text(text)
        code, _, err = minirl("train", "--resume", "run", "--epochs", 3, **resume)
        assert code == 2 and len(said(err)) == 1, (text, err)
    config.write_text(before.replace('"seed": 0', '"seed": 1'))
    _, _, err = minirl("train", "--resume", "run", "--epochs", 3, **resume)
    assert "cannot resume with another seed" in said(err)[0]


def test_a_full_disk_ends_the_run_with_a_sentence(minirl, tmp_path, monkeypatch):
    original = checkpoint._write

    def fills_up(draft, policy, state, config):
        if state.epoch == 2:
            raise OSError(28, "No space left on device")
        return original(draft, policy, state, config)

    monkeypatch.setattr(checkpoint, "_write", fills_up)
    code, _, err = minirl("train", *QUICK, "--epochs", 3, "--checkpoint-every", 1, "--run", "run")
    assert code == 1 and "No space left on device; older checkpoints are intact; run keeps the first 2" in said(err)[-1]
    assert "go on with: minirl train --resume run" in said(err)[-1]
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    assert minirl("train", "--resume", "run", model=None, data=None)[0] == 0
    assert [metrics["epoch"] for metrics in epochs(tmp_path / "run")] == [1, 2, 3]


def progress(run):
    file = run / "metrics.jsonl"
    return len(file.read_text().splitlines()) if file.exists() else 0


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_killed_at_random_moments_and_resumed(tmp_path, minirl, folders):
    words = [*QUICK, "--epochs", "30", "--checkpoint-every", "2", "--evaluate-every", "10", "--beta", "0.05"]
    minirl("train", *words, "--run", "whole")
    run, chance, reached = tmp_path / "run", random.Random(1), []
    start = [*words, "--model", folders[0], "--data", folders[1], "--run", run]
    for kill in (True, True, False):
        more = ["--resume", run] if (run / "config.json").exists() else start
        command = [sys.executable, "-c", "import torch; torch.set_num_threads(1); from minirl.cli import main; main()"]
        process = subprocess.Popen([*command, "train", *map(str, more)], cwd=tmp_path, stderr=subprocess.PIPE)
        before = progress(run)
        while kill and process.poll() is None and progress(run) <= before + 2:
            time.sleep(0.01)
        if kill:
            time.sleep(chance.uniform(0, 0.3))
            process.send_signal(signal.SIGKILL)
        _, err = process.communicate(timeout=300)
        assert kill or process.returncode == 0, err.decode()
        reached.append(progress(run))
    assert 0 < reached[0] < 30 == reached[-1], reached
    assert timeless(epochs(run)) == timeless(epochs(tmp_path / "whole"))
    for file in ("policy.safetensors", "state.safetensors"):
        ours, theirs = (
            load_file(checkpoint.newest(folder / "checkpoints") / file) for folder in (run, tmp_path / "whole")
        )
        assert [name for name in ours if name != "torch_generator" and not torch.equal(ours[name], theirs[name])] == []


# ---- eval

EVAL = ["--task", "gsm8k", "--prompt", "question", "--max-new-tokens", "4", "--samples", "3", "--batch-size", "5"]


def records(folder):
    return [json.loads(line) for line in (folder / "samples.jsonl").read_text().splitlines()]


def test_eval_keeps_every_response_and_sums_up(minirl, tmp_path):
    code, out, err = minirl("eval", *EVAL, "--k", "1,3", "--out", "results")
    assert code == 0, err
    found, kept = json.loads((tmp_path / "results" / "eval.json").read_text()), records(tmp_path / "results")
    assert [record["problem"] for record in kept] == [*range(12)] and found["problems"] == 12
    assert all(len(record["greedy"]) == 1 and len(record["sampled"]) == 3 for record in kept)
    for check in ("strict", "lenient", "format"):
        values = [response[check] for record in kept for response in record["sampled"]]
        assert found["sampled"][check]["share"] == pytest.approx(sum(values) / 36)
    right = [sum(response["lenient"] for response in record["sampled"]) for record in kept]
    assert found["pass_at_k"]["lenient"]["1"]["share"] == pytest.approx(sum(right) / 36)
    assert found["pass_at_k"]["lenient"]["3"]["share"] == pytest.approx(sum(count > 0 for count in right) / 12)
    assert "greedy" in out and "pass@3" in out and "maj@3" in out and "12 problems" in out
    assert found["settings"]["seed"] == 0 and "transformers" in found["versions"]


def test_eval_goes_on_where_it_was_stopped(minirl, tmp_path):
    minirl("eval", *EVAL, "--out", "whole")
    minirl("eval", *EVAL, "--out", "cut")
    lines = (tmp_path / "cut" / "samples.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "cut" / "samples.jsonl").write_text("".join(lines[:7]) + lines[7][:40])
    (tmp_path / "cut" / "eval.json").unlink()
    assert minirl("eval", *EVAL, "--out", "cut")[0] == 0
    for name in ("samples.jsonl", "eval.json"):
        assert (tmp_path / "cut" / name).read_text() == (tmp_path / "whole" / name).read_text()


def test_eval_answers_only_what_is_missing(minirl, tmp_path, monkeypatch):
    minirl("eval", *EVAL, "--out", "results")
    before = (tmp_path / "results" / "eval.json").read_text()
    monkeypatch.setattr(evaluation, "answered", lambda *_: pytest.fail("everything was answered before"))
    assert minirl("eval", *EVAL, "--out", "results")[0] == 0
    assert (tmp_path / "results" / "eval.json").read_text() == before


def test_ctrl_c_keeps_finished_problems(minirl, tmp_path, monkeypatch):
    original, calls = evaluation.answered, iter(range(9))

    def interrupted(*arguments):
        if next(calls) == 2:
            raise KeyboardInterrupt
        return original(*arguments)

    monkeypatch.setattr(evaluation, "answered", interrupted)
    code, _, err = minirl("eval", *EVAL, "--out", "results")
    assert code == 130
    assert said(err)[-1] == "minirl: stopped by hand; results keeps 10 of 12 problems; the same command goes on"
    assert len(records(tmp_path / "results")) == 10 and not (tmp_path / "results" / "eval.json").exists()


def test_eval_of_a_run_takes_its_settings_and_newest_weights(minirl, tmp_path):
    minirl("train", *QUICK, "--epochs", 2, "--checkpoint-every", 1, "--run", "run", "--learning-rate", "0.05")
    nothing = {"model": None, "data": None}
    code, out, err = minirl("eval", "--run", "run", "--samples", 2, **nothing)
    assert code == 0 and "epoch-000002 of run" in out, err
    settings = json.loads((tmp_path / "run" / "eval-epoch-000002" / "eval.json").read_text())["settings"]
    assert (settings["task"], settings["prompt"], settings["max_new_tokens"]) == ("gsm8k", "question", 4)
    trained = records(tmp_path / "run" / "eval-epoch-000002")
    minirl("eval", *EVAL, "--samples", 2, "--batch-size", 16, "--out", "base")
    base = records(tmp_path / "base")
    assert [record["question"] for record in base] == [record["question"] for record in trained]
    assert [record["greedy"] for record in base] != [record["greedy"] for record in trained]
    _, _, err = minirl("eval", "--run", "run", "--samples", 3, **nothing)
    assert "run/eval-epoch-000002 holds another evaluation and was left as it is" in said(err)[0]


def test_the_largest_seed_of_an_evaluation_suits_its_last_batch(minirl):
    code, _, err = minirl("eval", *EVAL, "--seed", (2**63 - 1) // 1_000_003 - 1)
    assert code == 0, err


def test_greedy_alone(minirl, tmp_path):
    code, out, _ = minirl("eval", *EVAL, "--samples", 0, "--problems", 7)
    assert code == 0 and "pass@" not in out
    assert len(records(tmp_path / "evals" / "gsm8k-model")) == 7


def test_draws_are_those_asked_for_or_powers_of_four_and_all():
    assert evaluation.parse_ks("8, 2,8", 8) == [2, 8]
    assert [evaluation.parse_ks(None, samples) for samples in (0, 1, 4, 8)] == [[], [1], [1, 4], [1, 4, 8]]


EVAL_MISTAKES = {
    "a k beyond the samples": (["--k", "1,4"], "each k must lie between 1 and samples, here 3"),
    "a k of words": (["--k", "all"], "k is a list of whole numbers"),
    "a run that is not there": (["--run", "nowhere"], "there is no run folder nowhere"),
    "sorting": (["--task", "sorting"], "task='sorting' is unknown; expected one of word-problems, gsm8k"),
    "an unknown prompt": (["--prompt", "poem"], "prompt='poem' is unknown"),
    "a seed that leaves none for its batches": (["--seed", str(2**63 // 1_000_003)], "--seed"),
}


@pytest.mark.parametrize("words, expected", EVAL_MISTAKES.values(), ids=EVAL_MISTAKES)
def test_a_mistake_in_eval_gets_one_sentence(minirl, tmp_path, words, expected):
    code, out, err = minirl("eval", *EVAL, *words)
    assert (code, out) == (2, "") and expected in said(err)[0] and len(said(err)) == 1
    assert list(tmp_path.iterdir()) == []


def test_eval_of_a_run_that_does_not_fit(minirl, tmp_path):
    nothing = {"model": None, "data": None}
    minirl("train", *QUICK, "--epochs", 1, "--checkpoint-every", 0, "--run", "run")
    assert "no checkpoint in run/checkpoints" in said(minirl("eval", "--run", "run", **nothing)[2])[0]
    quick = ["--epochs", 1, "--batch-size", 8, "--group-size", 4]
    minirl("train", "--task", "sorting", *quick, "--run", "sort", **nothing)
    assert (
        "a run on sorting is evaluated while it trains; expected one on word-problems or gsm8k"
        in said(minirl("eval", "--run", "sort", **nothing)[2])[0]
    )


@pytest.mark.parametrize("asked, name, expected", [(None, "pocket", [1]), ("2", "pocket", []), (None, "tiny", [])])
def test_a_pocket_model_gets_one_thread_unless_another_number_is_asked_for(asked, name, expected, folders, monkeypatch):
    given = []
    monkeypatch.setattr(torch, "set_num_threads", given.append)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if asked:
        monkeypatch.setenv("OMP_NUM_THREADS", asked)
    model = str(folders[0]) if name == "tiny" else name
    language.open_policy(language.Settings("word-problems", model, max_new_tokens=4), longest=8)
    assert given == expected


def test_a_run_with_a_critic_goes_on_as_if_never_stopped(minirl, tmp_path):
    """Kimi's late reward too counts the epochs of the whole run."""
    settings = ["--recipe", "ppo", "--reward-length", 0.3, "--length-from", 2, "--checkpoint-every", 1]
    settings += ["--evaluate-every", 1]
    minirl("train", *QUICK, *settings, "--epochs", 4, "--run", "whole")
    minirl("train", *QUICK, *settings, "--epochs", 2, "--run", "part")
    assert minirl("train", "--resume", "part", "--epochs", 4, model=None, data=None)[0] == 0
    assert timeless(epochs(tmp_path / "part")) == timeless(epochs(tmp_path / "whole"))
    assert "value_loss" in epochs(tmp_path / "part")[-1]
