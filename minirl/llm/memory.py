"""How much memory a run will need, counted before it starts, part by part, in bytes.

Parameters are counted exactly, activations from the tensors that autograd keeps for a layer of the Llama family (two
norms, attention, gated feed-forward). An eighth on top stands for the gaps that an allocator leaves between tensors.
Left out: what Python and its libraries hold, a few hundred MB.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from itertools import combinations

import torch

GIB = 2**30
SHAPE = ("num_hidden_layers", "hidden_size", "num_attention_heads")  # what a configuration must say


@dataclass(frozen=True)
class Workload:
    """What of a run decides its memory.

    `held_out` is how many problems an evaluation samples at once. `checkpointing` keeps one tensor a layer and computes
    the rest again. `rows_per_pass` and `logits_per_chunk` are those of LanguagePolicy.
    """

    batch_size: int
    group_size: int
    prompt_tokens: int
    new_tokens: int
    micro_batch_size: int | None = None
    held_out: int = 0
    reference: bool = False
    critic: bool = False  # of the policy's size, with an optimiser of its own
    checkpointing: bool = False
    training: bool = True  # False: weights and sampling only
    bfloat16: bool = False  # autocast, as on a GPU: weights stay float32, most of the rest takes 2 bytes
    rows_per_pass: int = 32
    logits_per_chunk: int = 2**24

    @property
    def sampled_rows(self) -> int:
        return max(self.batch_size, self.held_out) * self.group_size

    @property
    def micro_prompts(self) -> int:
        return min(self.micro_batch_size or self.batch_size, self.batch_size)

    @property
    def micro_rows(self) -> int:
        return self.micro_prompts * self.group_size

    @property
    def pass_rows(self) -> int:
        return min(self.micro_rows, self.rows_per_pass)


@dataclass(frozen=True)
class Memory:
    """Bytes of each part: what is always there, then what comes and goes, as the run samples, scores and updates."""

    weights: int
    gradients: int
    optimizer: int
    reference: int
    critic: int
    half_copies: int
    kv_cache: int
    sampling_logits: int
    scoring: int
    activations: int
    update_logits: int

    @property
    def peak(self) -> int:
        """What is always there, the largest of the three phases, and an eighth for gaps."""
        always = self.weights + self.gradients + self.optimizer + self.reference + self.critic + self.half_copies
        sampling, updating = self.kv_cache + self.sampling_logits, self.activations + self.update_logits
        return (always + max(sampling, self.scoring, updating)) * 9 // 8

    def table(self) -> str:
        """One line a part, in GiB."""
        parts = {each.name: getattr(self, each.name) for each in fields(self)} | {"peak": self.peak}
        return "\n".join(f"{name.replace('_', ' '):16} {size / GIB:8.3f} GiB" for name, size in parts.items())


def parameter_count(config) -> int:
    """Parameters of the causal LM that `config` describes, tied weights counted once; no memory is taken for them."""
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        return sum(parameter.numel() for parameter in AutoModelForCausalLM.from_config(config).parameters())


def shape(config) -> tuple[int, int, int, int, int]:
    """Layers, hidden size, width of all query heads, of all key heads, and of the feed-forward."""
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    keys = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    inner = getattr(config, "intermediate_size", None) or 4 * config.hidden_size
    return config.num_hidden_layers, config.hidden_size, head * config.num_attention_heads, head * keys, inner


def layer_bytes(config, bfloat16: bool) -> int:
    """What autograd keeps for one token of one layer: D hidden, Q queries, K keys, F feed-forward.

    For each norm its input, x̂ and output; rotated queries and keys, values, attention's output; four tensors of the
    feed-forward: 6D + 2Q + 2K + 4F numbers. Under autocast the inputs and x̂ stay float32, and each of the five linear
    maps that read a norm's output keeps its own half copy of it.
    """
    _, hidden, queries, keys, inner = shape(config)
    if bfloat16:
        return 4 * 4 * hidden + 2 * (5 * hidden + 2 * queries + 2 * keys + 4 * inner)
    return 4 * (6 * hidden + 2 * queries + 2 * keys + 4 * inner)


def activation_bytes(config, work: Workload) -> int:
    """Everything that is kept from a forward pass over one micro-batch until its gradient is taken.

    A prompt is read once for its group. Attention keeps the keys and values of every row, prompt included, spread over
    the queries, and its mask.
    """
    layers, hidden, queries, *_ = shape(config)
    length, a_layer = work.prompt_tokens + work.new_tokens, layer_bytes(config, work.bfloat16)
    rest = 3 * 4 * hidden  # the last norm, and the hidden states that are scored
    if not work.checkpointing:
        tokens = work.micro_prompts * work.prompt_tokens + work.micro_rows * work.new_tokens
        attended = work.micro_rows * length * (2 * queries + work.new_tokens) * (2 if work.bfloat16 else 4)
        return layers * attended + tokens * (layers * a_layer + rest)
    return work.micro_rows * length * (layers * 4 * hidden + rest) + work.pass_rows * length * a_layer


def logits_bytes(config, work: Workload, rows: int, kept: bool) -> int:
    """Logits, the same over the temperature, and their log-softmax, for a chunk of a pass over `rows`.

    Where a pass is one chunk, the log-softmax of every pass is `kept` for the backward pass.
    """
    in_a_pass = rows * work.new_tokens * config.vocab_size
    if not kept or in_a_pass > work.logits_per_chunk:
        return 4 * 3 * min(in_a_pass, work.logits_per_chunk)
    return 4 * (work.micro_rows * work.new_tokens * config.vocab_size + 2 * in_a_pass)


def scoring_bytes(config, work: Workload) -> int:
    """A pass that takes no gradient: a chunk of logits, and one layer's feed-forward and hidden states."""
    _, hidden, _, _, inner = shape(config)
    rows = min(work.batch_size * work.group_size, work.rows_per_pass)
    tokens = rows * (work.prompt_tokens + work.new_tokens)
    return tokens * (3 * inner + 4 * hidden) * (2 if work.bfloat16 else 4) + logits_bytes(config, work, rows, False)


def cache_bytes(config, work: Workload) -> int:
    """Keys and values of all rows; those of one layer again, spread over its queries, and one more while it grows.

    Under autocast the values are bfloat16, but the keys, which are rotated in float32, stay float32.
    """
    layers, _, queries, keys, _ = shape(config)
    spread = 2 * queries if queries != keys else 0
    a_token = 4 * keys * (layers + 1) + (2 if work.bfloat16 else 4) * (keys * layers + spread)
    return work.sampled_rows * (work.prompt_tokens + work.new_tokens) * a_token


def estimate(config, work: Workload) -> Memory:
    """Memory of one run with Adam on the model that `config` describes."""
    config = config.get_text_config()
    if missing := [name for name in SHAPE if not hasattr(config, name)]:
        raise ValueError(f"{type(config).__name__} has no {missing[0]}; expected a transformer of attention layers")
    count = parameter_count(config)
    return Memory(
        weights=4 * count,
        gradients=4 * count * work.training,
        optimizer=8 * count * work.training,
        reference=4 * count * work.reference,
        critic=4 * 4 * count * work.critic,  # weights, gradients, and Adam's two moments
        half_copies=2 * count * work.bfloat16,
        kv_cache=cache_bytes(config, work),
        sampling_logits=20 * work.sampled_rows * config.vocab_size,  # float32, and float64 twice to draw from
        scoring=scoring_bytes(config, work) * work.training,
        activations=activation_bytes(config, work) * work.training,
        update_logits=logits_bytes(config, work, work.pass_rows, True) * work.training,
    )


def smaller(work: Workload) -> Iterator[tuple[str, Workload]]:
    """Changes that save memory, in words, from one that only costs time to several that change the run."""
    if not work.training:
        yield from smaller_batches(work, "batch_size", work.batch_size)
        return
    micro = smaller_batches(work, "micro_batch_size", min(work.micro_batch_size or work.batch_size, work.batch_size))
    passes = [("", work), *micro]
    options = {"gradient_checkpointing": {"checkpointing": True}} if not work.checkpointing else {}
    if work.held_out > work.batch_size:
        options[f"held_out_problems={work.batch_size}"] = {"held_out": 0}
    if work.reference:
        options["beta=0, so that no reference is kept"] = {"reference": False}
    for count in range(len(options) + 1):
        for names in combinations(options, count):
            changes = {name: value for each in names for name, value in options[each].items()}
            for words, other in passes:
                if said := [word for word in (words, *names) if word]:
                    yield " and ".join(said), replace(other, **changes)


def smaller_batches(work: Workload, name: str, size: int) -> list[tuple[str, Workload]]:
    """Half of it, a quarter, and so on."""
    halves = [size >> power for power in range(1, size.bit_length())]
    return [(f"{name}={half}", replace(work, **{name: half})) for half in halves]


def refuse_if_too_large(config, work: Workload, available: int) -> Memory:
    """The estimate, or a MemoryError with the numbers and the smallest change that fits into `available` bytes."""
    memory = estimate(config, work)
    if memory.peak <= available:
        return memory
    fitting = (words for words, other in smaller(work) if estimate(config, other).peak <= available)
    advice = next(fitting, None)
    way_out = f"it fits with {advice}" if advice else "use a smaller batch_size, fewer new tokens or a smaller model"
    raise MemoryError(
        f"the run needs about {memory.peak / GIB:.1f} GiB of memory and {available / GIB:.1f} GiB are free; {way_out}\n"
        f"{memory.table()}"
    )


def available(device: torch.device) -> int:
    """Bytes that are free on a GPU, or in main memory without pushing other programs out."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    try:
        import psutil

        return psutil.virtual_memory().available
    except ImportError:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def checkpoint_layers(model) -> None:
    """Keep only each layer's input for the backward pass, which computes the rest again; the gradients are the same.

    Hugging Face does so in training mode only, and then without a cache, so the mode follows the gradient: off while
    sampling, on while scoring what is learned. Nothing else depends on it, since LanguagePolicy has no dropout.
    """
    enable = getattr(model, "activation_checkpointing_enable", None) or model.gradient_checkpointing_enable
    enable({"use_reentrant": False})
    model.base_model.register_forward_pre_hook(_train_with_gradients)


def _train_with_gradients(module, inputs) -> None:
    module.train(torch.is_grad_enabled())
