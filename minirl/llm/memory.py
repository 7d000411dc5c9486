"""How much memory a run will need, counted before it starts, part by part, in bytes.

Counted from the model's shape: parameters exactly, activations from the tensors that autograd keeps for a layer of the
Llama family (two norms, attention, gated feed-forward). Left out: fragmentation, and what Python itself holds.
"""

from dataclasses import dataclass, fields, replace

import torch

GIB = 2**30


@dataclass(frozen=True)
class Workload:
    """What of a run decides its memory. `checkpointing` keeps one tensor a layer and recomputes the rest."""

    batch_size: int
    group_size: int
    prompt_tokens: int
    new_tokens: int
    micro_batch_size: int | None = None
    reference: bool = False
    checkpointing: bool = False
    bfloat16: bool = False  # autocast, as on a GPU: weights stay float32, most activations take 2 bytes
    logits_per_chunk: int = 2**24

    @property
    def micro_rows(self) -> int:
        return (self.micro_batch_size or self.batch_size) * self.group_size


@dataclass(frozen=True)
class Memory:
    """Bytes of each part; the cache and the sampler's logits come and go before the activations of an update do."""

    weights: int
    gradients: int
    optimizer: int
    reference: int
    half_copies: int
    kv_cache: int
    sampling_logits: int
    activations: int
    logits_chunk: int

    @property
    def fixed(self) -> int:
        return self.weights + self.gradients + self.optimizer + self.reference + self.half_copies

    @property
    def peak(self) -> int:
        """The larger of the two phases, sampling and updating, on top of what is always there."""
        return self.fixed + max(self.kv_cache + self.sampling_logits, self.activations + self.logits_chunk)

    def table(self) -> str:
        """One line a part, in GiB."""
        parts = [f"{each.name.replace('_', ' '):16} {getattr(self, each.name) / GIB:8.3f} GiB" for each in fields(self)]
        return "\n".join([*parts, f"{'peak':16} {self.peak / GIB:8.3f} GiB"])


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


def activation_numbers(config, checkpointing: bool) -> int:
    """Numbers that autograd keeps for each token.

    A layer keeps its input, two norms of three tensors each less what they share, queries before and after rotation and
    the attention's output, keys and values, and four tensors of the feed-forward: 5D + 3Q + 2K + 4F.
    """
    layers, hidden, queries, keys, inner = shape(config)
    layer = 5 * hidden + 3 * queries + 2 * keys + 4 * inner
    return (layers * hidden + layer if checkpointing else layers * layer) + 4 * hidden


def estimate(config, work: Workload) -> Memory:
    """Memory of one GRPO run with Adam on the model that `config` describes."""
    count, (layers, _, _, keys, _) = parameter_count(config), shape(config)
    width = 2 if work.bfloat16 else 4
    rows, length = work.batch_size * work.group_size, work.prompt_tokens + work.new_tokens
    return Memory(
        weights=4 * count,
        gradients=4 * count,
        optimizer=8 * count,
        reference=4 * count * work.reference,
        half_copies=2 * count * work.bfloat16,
        kv_cache=2 * layers * keys * rows * length * width,
        sampling_logits=rows * config.vocab_size * 24,
        activations=activation_numbers(config, work.checkpointing) * work.micro_rows * length * width,
        logits_chunk=4 * 4 * min(work.logits_per_chunk, work.micro_rows * work.new_tokens * config.vocab_size),
    )


def smaller(work: Workload) -> list[tuple[str, Workload]]:
    """Changes that save memory, the least painful first: each with its words."""
    micro = work.micro_batch_size or work.batch_size
    halves = [micro // 2**power for power in range(1, 11) if micro // 2**power >= 1]
    found = [(f"micro_batch_size={size}", replace(work, micro_batch_size=size)) for size in halves]
    if not work.checkpointing:
        checkpointed = [("gradient checkpointing", replace(work, checkpointing=True))]
        found = [
            *found,
            *checkpointed,
            *((f"{a} and gradient checkpointing", replace(b, checkpointing=True)) for a, b in found),
        ]
    if work.reference:
        found.append(("beta=0, so that no reference is kept", replace(work, reference=False)))
    return found


def refuse_if_too_large(config, work: Workload, available: int) -> Memory:
    """The estimate, or a MemoryError with the numbers and the smallest change that fits into `available` bytes."""
    memory = estimate(config, work)
    if memory.peak <= available:
        return memory
    fitting = (words for words, other in smaller(work) if estimate(config, other).peak <= available)
    advice = next(fitting, None)
    way_out = (
        f"it fits with {advice}" if advice else "no smaller batch fits either: use a smaller model or fewer new tokens"
    )
    raise MemoryError(
        f"needs about {memory.peak / GIB:.1f} GiB, {available / GIB:.1f} GiB are there; {way_out}\n{memory.table()}"
    )
