"""Notebook 12 off the beaten track: a real tokenizer and Qwen's architectures in a folder, a GPU's branch, no data.

The cells themselves are run, with smaller settings; nbval runs the smoke run as it stands.
"""

import os
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import matplotlib
import pytest
import torch
from curriculum import NOTEBOOKS, load
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

from minirl.llm import memory, plans, word_problems
from minirl.llm.gsm8k import HOW_TO_GET_IT
from minirl.llm.policy import LanguagePolicy
from minirl.llm.prompts import BOXED, CHAT, R1_ZERO

NOTEBOOK = NOTEBOOKS / "12_qwen_on_gsm8k.ipynb"
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SHAPE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8}
KINDS = {"qwen2": (Qwen2Config, Qwen2ForCausalLM), "qwen3-Base": (Qwen3Config, Qwen3ForCausalLM)}
QUICK = {"epochs": 4, "batch_size": 4, "micro_batch_size": 2, "group_size": 4, "new_tokens": 12, "checkpoint_every": 2}
QUICK |= {"held_out": 4, "prompt_problems": 4, "probe_problems": 6, "probe_samples": 2, "eval_problems": 8}


def byte_pairs():
    """A byte-level BPE tokenizer with Qwen's special tokens and the shape of its chat template."""
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=special, initial_alphabet=core.pre_tokenizer.alphabet()
    )
    texts = [problem.question for problem in word_problems.generate(200)]
    core.train_from_iterator([*texts, BOXED, CHAT, R1_ZERO], trainer)
    names = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "chat_template": TEMPLATE}
    return PreTrainedTokenizerFast(tokenizer_object=core, clean_up_tokenization_spaces=False, **names)


def save_qwen(folder: Path, kind: str) -> str:
    """A tiny random Qwen of that kind with its tokenizer, as `from_pretrained` reads it."""
    torch.manual_seed(0)
    tokenizer, (config, model) = byte_pairs(), KINDS[kind]
    shape = config(vocab_size=len(tokenizer), intermediate_size=64, tie_word_embeddings=True, **SHAPE)
    model(shape).save_pretrained(folder / kind)
    tokenizer.save_pretrained(folder / kind)
    return str(folder / kind)


class Cells:
    """The notebook's code cells by id, run in one namespace, as a kernel would."""

    def __init__(self):
        self.sources = {cell["id"]: "".join(cell["source"]) for cell in load(NOTEBOOK)["cells"] if "outputs" in cell}
        self.names: dict = {"__name__": "__main__"}

    def run(self, first: str, last: str) -> dict:
        """The cells from `first` to `last`."""
        ids = list(self.sources)
        for name in ids[ids.index(first) : ids.index(last) + 1]:
            exec(compile(self.sources[name], name, "exec"), self.names)
        return self.names


@pytest.fixture
def cells(monkeypatch, tmp_path):
    """Set up as in a fresh kernel, in an empty folder, without environment variables that choose."""
    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINIRL_FAST", "1")
    for name in ("SMOKE", "MODEL", "MINIRL_GSM8K"):
        monkeypatch.delenv(name, raising=False)
    notebook = Cells()
    notebook.run("setup", "small")
    yield notebook
    matplotlib.pyplot.close("all")


@pytest.mark.parametrize(("kind", "prompt"), [("qwen2", "boxed"), ("qwen3-Base", "r1-zero")])
def test_every_cell_runs_on_a_folder_with_a_qwen(cells, tmp_path, monkeypatch, kind, prompt, capsys):
    """In bfloat16 and with layers computed again, as on a GPU; a random model is never right, and no cell stumbles."""
    half = torch.autocast("cpu", torch.bfloat16)
    monkeypatch.setattr(LanguagePolicy, "_half_precision", lambda policy: half)
    monkeypatch.setenv("MODEL", save_qwen(tmp_path, kind))
    plan = cells.run("settings", "settings")["plan"]
    assert plan.prompt == prompt
    cells.names["plan"] = replace(plan, **QUICK, expected_gain=-1.0, gradient_checkpointing=True)
    found = cells.run("settings-show", "systems-plot")
    cells.run("mixed-run", "alone-run")
    assert found["checkpoint"].newest(found["saved"]).name == "epoch-000004"
    assert type(found["policy"].model).__name__ == KINDS[kind][1].__name__
    said = capsys.readouterr().out
    assert "every group is tied" in said and "starting behind epoch-000002" in said


def test_a_second_start_goes_on_where_the_first_stopped(cells, tmp_path, monkeypatch, capsys):
    """A restarted kernel runs all cells again: tests come from their files, training from its checkpoint."""
    monkeypatch.setenv("MODEL", save_qwen(tmp_path, "qwen2"))
    plan = cells.run("settings", "settings")["plan"]
    plan = cells.names["plan"] = replace(plan, **QUICK, expected_gain=-1.0)
    first = cells.run("settings-show", "after")
    again = Cells()
    again.run("setup", "small")
    again.names |= {"plan": plan, "device": first["device"], "MODEL": plan.model}
    capsys.readouterr()
    second = again.run("settings-show", "after")
    assert capsys.readouterr().out.count("starting behind epoch-000004") == 2
    assert second["after"] == first["after"] and second["history"] == first["history"]


@pytest.mark.parametrize(("gigabytes", "model"), [(15.84, plans.SMALL), (24.1, plans.NEW), (85.1, plans.MIDDLE)])
def test_a_gpu_gets_its_plan(cells, monkeypatch, gigabytes, model):
    device = SimpleNamespace(total_memory=int(gigabytes * 1e9))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device_: device)
    monkeypatch.setenv("MODEL", model)
    found = cells.run("settings", "settings-show")
    plan = found["plan"]
    assert (plan.model, plan.data, plan.official, found["device"].type) == (model, None, True, "cuda")
    assert memory.estimate(plans.published(model), plan.workload()).peak < device.total_memory
    assert plan.config().epochs == plan.epochs and plan.settings().model == model
    assert not any(Path().glob("runs")), "nothing is written before the model is there"


def test_smoke_wins_over_a_gpu(cells, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setenv("SMOKE", "1")
    assert cells.run("settings", "settings")["plan"].model == "pocket"


def test_without_data_the_cell_says_how_to_get_them(cells, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    cells.run("settings", "settings")
    cells.names["plan"] = replace(cells.names["plan"], data=None, official=True)
    with pytest.raises(ModuleNotFoundError, match="pip install datasets") as refused:
        cells.run("data-load", "data-load")
    assert HOW_TO_GET_IT.split("{", 1)[0] in str(refused.value)


@pytest.mark.skipif("MINIRL_GSM8K" not in os.environ, reason="MINIRL_GSM8K does not name a folder with GSM8K")
def test_gsm8k_itself_is_cleaned(monkeypatch):
    """The data cells on all 8,792 problems: whole numbers throughout, no repeats, a few that share 13 words."""
    notebook = Cells()
    notebook.run("setup", "setup-llm")
    notebook.names["plan"] = plans.plan_for(plans.SMALL, 16)
    found = notebook.run("data-load", "data-clean-check")
    assert (len(found["train_problems"]), len(found["exam"])) == (7473, 1319)
    assert 0 < len(found["bad"]) < 20 and len(found["clean"]) == 7473 - len(found["bad"])
