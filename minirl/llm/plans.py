"""Plans for GRPO on one GPU: what a run is made of, chosen for the card, with its memory counted before it starts.

A card's GB are taken as 10⁹ bytes, and a tenth is left to CUDA and to other programs. The shapes are those of each
model's published config.json, so that the count needs no download. Left out: LoRA and half-precision optimisers, which
would bring larger models onto small cards; several GPUs.
"""

import contextlib
import ctypes
import gc
import os
import shlex
from dataclasses import asdict, dataclass
from pathlib import Path

from minirl.llm.memory import Workload
from minirl.llm.runs import Settings
from minirl.runs import Refused, create
from minirl.runs import settings as saved_settings
from minirl.train import Config

SMALL, MIDDLE, NEW = "Qwen/Qwen2.5-0.5B-Instruct", "Qwen/Qwen2.5-1.5B-Instruct", "Qwen/Qwen3-0.6B-Base"
BOTH = {"vocab_size": 151_936, "tie_word_embeddings": True}
PUBLISHED = {  # kind, hidden, layers, query heads, key heads, feed-forward, width of a head
    SMALL: ("qwen2", 896, 24, 14, 2, 4864, 64),
    MIDDLE: ("qwen2", 1536, 28, 12, 2, 8960, 128),
    NEW: ("qwen3", 1024, 28, 16, 8, 3072, 128),
}
LONGEST_PROMPT = 352  # tokens that the table allows for; a run counts its own
CARDS = {  # GB of the card: model: prompts in a batch, prompts in one backward pass, new tokens, layers computed again
    16: {SMALL: (16, 2, 512, True)},
    24: {SMALL: (32, 4, 512, True), NEW: (8, 2, 256, True)},
    80: {SMALL: (64, 4, 512, False), MIDDLE: (32, 4, 512, True), NEW: (32, 4, 512, True)},
}


def published(model: str):
    """The model's configuration, from its published numbers."""
    from transformers import Qwen2Config, Qwen3Config

    kind, hidden, layers, queries, keys, inner, head = PUBLISHED[model]
    numbers = {"hidden_size": hidden, "num_hidden_layers": layers, "intermediate_size": inner, **BOTH}
    heads = {"num_attention_heads": queries, "num_key_value_heads": keys, "head_dim": head}
    return {"qwen2": Qwen2Config, "qwen3": Qwen3Config}[kind](**numbers, **heads)


@dataclass(frozen=True)
class Plan:
    """One run from data to test. `settings` and `config` are what `minirl train` would be given."""

    model: str
    prompt: str
    folder: str | Path  # where results and checkpoints go
    data: str | Path | None = None  # folder with train.jsonl and test.jsonl; None: MINIRL_GSM8K, or the hub
    official: bool = True  # say so where the data are not GSM8K's own
    batch_size: int = 32  # prompts in a step
    group_size: int = 8  # responses to each
    micro_batch_size: int = 4  # prompts in one backward pass
    new_tokens: int = 512
    gradient_checkpointing: bool = True
    learning_rate: float = 1e-6
    epochs: int = 100  # here an epoch is one step on a new batch
    checkpoint_every: int = 10  # epochs
    evaluate_every: int = 20  # epochs
    held_out: int = 32  # training problems kept back to watch the run
    prompt_problems: int = 128  # to compare prompts
    probe_problems: int = 512  # to find out which problems teach something
    probe_samples: int = 8
    eval_problems: int | None = None  # None: all of the test split
    eval_samples: int = 4
    expected_gain: float = -1.0  # of the test share; what a run must reach to count as working
    seed: int = 0

    def __post_init__(self):
        """Paths become text, as they are in the run's file."""
        for name in ("folder", "data"):
            if isinstance(path := getattr(self, name), Path):
                object.__setattr__(self, name, str(path))

    @property
    def eval_batch(self) -> int:
        """Problems that are answered at once: no more rows than in training."""
        return max(1, self.batch_size * self.group_size // max(1, self.eval_samples))

    def settings(self) -> Settings:
        return Settings(
            task="gsm8k",
            model=self.model,
            data=self.data,
            prompt=self.prompt,
            max_new_tokens=self.new_tokens,
            held_out_problems=self.held_out,
            gradient_checkpointing=self.gradient_checkpointing,
        )

    def config(self) -> Config:
        same = ("epochs", "batch_size", "group_size", "micro_batch_size", "learning_rate", "evaluate_every", "seed")
        return Config(inner_steps=1, delta="normalized", **{name: getattr(self, name) for name in same})

    def workload(self, prompt_tokens: int = LONGEST_PROMPT, bfloat16: bool = True) -> Workload:
        """What of the plan decides its memory."""
        return Workload(
            self.batch_size,
            self.group_size,
            prompt_tokens,
            self.new_tokens,
            self.micro_batch_size,
            self.held_out,
            checkpointing=self.gradient_checkpointing,
            bfloat16=bfloat16,
        )

    def command(self) -> str:
        """The same training in a terminal, on the training problems as they are."""
        options = {"model": self.model, "prompt": self.prompt, "max_new_tokens": self.new_tokens}
        same = ("batch_size", "group_size", "micro_batch_size", "delta", "learning_rate", "epochs", "evaluate_every")
        options |= {name: getattr(self.config(), name) for name in same}
        options |= {"held_out_problems": self.held_out, "checkpoint_every": self.checkpoint_every}
        options |= {"data": self.data} if self.data else {}
        words = [f"--{name.replace('_', '-')} {shlex.quote(str(value))}" for name, value in options.items()]
        return " ".join(
            ["minirl train --task gsm8k", *words, *["--gradient-checkpointing"] * self.gradient_checkpointing]
        )

    def open_folder(self) -> Path:
        """The run's folder, new or with the same plan in it; Refused where it holds another one."""
        folder = Path(self.folder)
        if not folder.exists():
            create(folder, asdict(self), ("minirl", "torch", "transformers"))
        elif saved_settings(folder) != asdict(self):
            raise Refused(f"{folder} holds a run with other settings and was left as it is; name another folder")
        return folder


def prompt_for(model: str) -> str:
    """Which prompt suits a model: its own turn, R1-Zero's for a base model, the box for one that was instructed."""
    if model in ("pocket", "pocket-clean"):
        return "turn"
    return "r1-zero" if model.endswith("-Base") else "boxed"


def plan_for(model: str, card: int, **changes) -> Plan:
    """The settings for a model on a card of so many GB; ValueError where there are none. `changes` are your own."""
    if model not in CARDS.get(card, {}):
        known = ", ".join(f"{each} on {size} GB" for size, models in CARDS.items() for each in models)
        raise ValueError(f"there are no settings for {model} on {card} GB; there are some for {known}")
    batch, micro, tokens, checkpointing = CARDS[card][model]
    chosen = {
        "model": model,
        "prompt": prompt_for(model),
        "folder": f"runs/12-{Path(model).name}",
        "batch_size": batch,
        "micro_batch_size": micro,
        "new_tokens": tokens,
        "gradient_checkpointing": checkpointing,
        "held_out": batch,
    }
    return Plan(**chosen | changes)


def card_of(total_bytes: int) -> int:
    """The card whose settings suit so much memory, in GB; ValueError below the smallest."""
    fitting = [card for card in CARDS if total_bytes >= 0.95e9 * card]
    if not fitting:
        raise ValueError(f"a GPU of {total_bytes / 1e9:.0f} GB has no settings; SMOKE=1 runs the pocket model on it")
    return max(fitting)


def card_here() -> int:
    """The card whose settings suit this machine's GPU."""
    import torch

    return card_of(torch.cuda.get_device_properties(0).total_memory)


def budget(card: int) -> int:
    """Bytes that a run may take on a card of so many GB."""
    return card * 10**9 * 9 // 10


class PeakMemory:
    """`with PeakMemory("cuda") as peak: …`, then `peak.bytes`: how far memory rose above its start; None if unknown.

    On a GPU what PyTorch allocated there; on Linux the process's resident memory; elsewhere it is not known.
    """

    bytes: int | None = None

    def __init__(self, device):
        import torch

        self.device = torch.device(device)

    def __enter__(self):
        import torch

        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
            self.start = torch.cuda.memory_allocated(self.device)
        elif os.path.exists("/proc/self/status"):
            give_back_freed_memory()
            with contextlib.suppress(OSError):  # then a peak before this one may be counted
                Path("/proc/self/clear_refs").write_text("5")
            self.start = resident("VmRSS")
        return self

    def __exit__(self, *_):
        import torch

        if self.device.type == "cuda":
            self.bytes = torch.cuda.max_memory_allocated(self.device) - self.start
        elif os.path.exists("/proc/self/status"):
            self.bytes = max(0, resident("VmHWM") - self.start)


def give_back_freed_memory() -> None:
    """What C's allocator keeps of freed memory goes back to the system, so that using it again counts as a rise."""
    with contextlib.suppress(AttributeError, OSError):  # glibc has it, others do not
        ctypes.CDLL(None).malloc_trim(0)


def resident(name: str) -> int:
    """VmRSS or VmHWM of this process, in bytes (Linux)."""
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))
