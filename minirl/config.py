"""A run's settings: every choice that the loop offers, each with its default."""

from collections import ChainMap
from dataclasses import dataclass

from minirl import deltas, losses, variants
from minirl.groups import KEEP
from minirl.kl import KL
from minirl.losses import AGGREGATIONS

DELTAS = ChainMap(variants.DELTAS, deltas.DELTAS)
LOSSES = ChainMap(variants.LOSSES, losses.LOSSES)
CHOICES = {
    "delta": DELTAS,
    "loss": LOSSES,
    "ratio": ("token", "sequence"),
    "aggregation": AGGREGATIONS,
    "kl": KL,
    "kl_in": ("loss", "reward"),
    "keep": KEEP,
}
MAY_BE_0 = ("beta", "clip_low", "clip_high", "positive_weight", "resample", "warmup_steps", "reference_every", "seed")


@dataclass(frozen=True)
class Config:
    """A run's settings, checked when made; the README has their names in TRL, verl and CS336."""

    epochs: int = 300  # rollouts, each sampled anew
    inner_steps: int = 4  # gradient steps on each rollout
    batch_size: int = 64  # prompts in a rollout
    group_size: int = 16  # responses to each prompt
    delta: str = "centered"
    loss: str = "clipped"
    clip_low: float = 0.2  # no further push once a ratio is below 1 − clip_low
    clip_high: float = 0.2  # no further push once a ratio is above 1 + clip_high
    aggregation: str = "sequence"
    constant: float | None = None  # divisor for aggregation="constant"; None: the response length T
    beta: float = 0.0  # weight of the KL penalty
    kl: str = "k3"
    kl_in: str = "loss"  # "loss": added per token (k2, k3); "reward": its sum over tokens is subtracted (k1)
    reference_every: int = 0  # epochs between refreshes of the reference; 0: never
    learning_rate: float = 1e-2  # Adam's
    max_grad_norm: float | None = 1.0  # None: no gradient clipping
    micro_batch_size: int | None = None  # prompts in one backward pass; None: all
    evaluate_every: int = 10  # epochs between held-out evaluations; the last epoch always has one
    seed: int = 0  # of the prompts and the sampled responses
    # what single methods add; `minirl.recipes` has them put together
    ratio: str = "token"  # whose ratio π/π_old a token has: its own, or with "sequence" the mean one of its response
    dual_clip: float | None = None  # bounds the loss of a bad token that became likely, in deltas; None: no bound
    tau: float = 0.1  # how strongly loss="squared" holds the policy near the one that sampled
    positive_weight: float = 0.0  # weight of −log π, per token, of responses with a reward above positive_above
    positive_above: float = 0.0  # rewards above this are those of right answers
    keep: str = "all"  # groups to learn from: "signal", whose rewards differ; "varied", those that differ most
    keep_share: float = 0.25  # share of the groups that keep="varied" keeps
    resample: int = 0  # at most so many more batches are drawn until batch_size groups are kept
    warmup_steps: int = 0  # gradient steps over which the learning rate grows to its value

    def __post_init__(self):
        for name, value in vars(self).items():
            if name in CHOICES and value not in CHOICES[name]:
                raise ValueError(f"{name}={value!r} is unknown; expected one of {', '.join(CHOICES[name])}")
            least = 0 if name in MAY_BE_0 else 1e-12
            if not isinstance(value, str | None) and name != "positive_above" and not value >= least:
                raise ValueError(f"{name} must be {'positive' if least else 'at least 0'}; got {value}")
        if self.dual_clip is not None and self.dual_clip <= 1:
            raise ValueError(
                f"dual_clip bounds what a token costs that became likelier, so it must be above 1; got {self.dual_clip}"
            )
        if self.keep != "all" and self.group_size < 2:
            raise ValueError(f"keep={self.keep!r} compares the responses to a prompt; expected group_size ≥ 2, got 1")
        if self.keep_share > 1:
            raise ValueError(f"keep_share is a share of the groups and must be at most 1; got {self.keep_share}")
