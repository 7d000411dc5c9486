"""One frozen configuration per published method: what its paper changes in the loop, and nothing that a run decides.

A recipe sets deltas, loss, clip, aggregation, KL, critic and which groups count, and how often responses are reused
where the method needs them fresh. Learning rate, batch, group and number of epochs stay yours:
`RECIPES["dapo"].config(epochs=100)`. Left out of each: the paper's data, schedules and systems.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from minirl.config import Config


@dataclass(frozen=True)
class Recipe:
    """A published method. `reward` has the weights of `shaping.Shaped`, for responses that end by themselves."""

    title: str
    source: str
    differs: str  # from GRPO
    settings: Mapping  # of Config
    critic: Mapping | None = None  # of Critic
    reward: Mapping = field(default_factory=dict)

    def __post_init__(self):
        for name in ("settings", "critic", "reward"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))
        self.config()

    def config(self, **others) -> Config:
        """The loop's settings; `others` are added, and win."""
        return Config(**{**self.settings, **others})

    def make_critic(self, body, **others):
        """The method's critic on a copy of `body`, or None where it has none."""
        from minirl.critic import Critic

        return None if self.critic is None else Critic(body, **{**self.critic, **others})


FRESH = {"loss": "naive", "inner_steps": 1}
WHOLE_RESPONSE = {"aggregation": "constant", "constant": 1.0}  # the log-probs of a response are added up
CLIP_HIGHER = {"clip_low": 0.2, "clip_high": 0.28}
DYNAMIC = {"keep": "signal", "resample": 3}  # tied in the whole reward; the papers count right answers only

RECIPES: Mapping[str, Recipe] = MappingProxyType(
    {
        "reinforce": Recipe(
            "REINFORCE",
            "Williams 1992",
            "no baseline, no clip: rewards as they are, on fresh responses, whose log-probs are added up",
            {"delta": "raw", **FRESH, **WHOLE_RESPONSE},
        ),
        "rloo": Recipe(
            "RLOO",
            "arXiv:2402.14740",
            "the mean of the others as baseline; no std, no clip; a response is one action, the KL is in its reward",
            {"delta": "leave_one_out", **FRESH, **WHOLE_RESPONSE, "beta": 0.03, "kl": "k1", "kl_in": "reward"},
        ),
        "grpo": Recipe(
            "GRPO",
            "arXiv:2402.03300",
            "the yardstick",
            {"delta": "normalized", "aggregation": "sequence", "beta": 0.04, "kl": "k3"},
        ),
        "dr-grpo": Recipe(
            "Dr. GRPO",
            "arXiv:2503.20783",
            "neither std nor length divides, so neither difficulty nor length is preferred; no KL",
            {"delta": "centered", "aggregation": "constant"},
        ),
        "dapo": Recipe(
            "DAPO",
            "arXiv:2503.14476",
            "a higher upper clip, tied groups drawn anew, every token counts the same, long answers pay early; no KL",
            {"delta": "normalized", "aggregation": "token", **CLIP_HIGHER, **DYNAMIC},
            reward={"overlong": 1.0},
        ),
        "gpg": Recipe(
            "GPG",
            "arXiv:2504.02546",
            "plain policy gradient: no std, no clip, no KL; what tied groups do not say is made up for by a factor",
            {"delta": "rescaled", "aggregation": "token", **FRESH},
        ),
        "ppo": Recipe(
            "PPO",
            "arXiv:1707.06347, arXiv:2203.02155",
            "a critic's advantage for each token instead of the group; the KL is paid in the reward, token by token",
            {"delta": "raw", "aggregation": "token", "beta": 0.02, "kl": "k1", "kl_in": "reward"},
            critic={"gamma": 1.0, "lam": 0.95, "value_lam": 0.95},
        ),
        "vapo": Recipe(
            "VAPO",
            "arXiv:2504.05118",
            "a critic, trained alone at first, whose λ grows with the length; right answers are imitated too; no KL",
            {"delta": "raw", "aggregation": "token", **CLIP_HIGHER, "positive_weight": 0.1},
            critic={"gamma": 1.0, "alpha": 0.05, "value_lam": 1.0, "warmup": 10},
        ),
        "starpo-s": Recipe(
            "StarPO-S",
            "arXiv:2504.20073",
            "a critic; only the quarter of the prompts whose rewards vary most; a higher upper clip; no KL",
            {"delta": "raw", "aggregation": "sequence", **CLIP_HIGHER, "keep": "varied", "keep_share": 0.25},
            critic={"gamma": 1.0, "lam": 1.0, "value_lam": 1.0},
        ),
        "kimi-k1.5": Recipe(
            "Kimi k1.5",
            "arXiv:2501.12599",
            "a square holds each response near the policy that sampled it, not a clip; no std; short answers earn more",
            {"delta": "centered", "loss": "squared", "aggregation": "sequence", "tau": 0.1},
            reward={"length": 0.2},
        ),
        "gspo": Recipe(
            "GSPO",
            "arXiv:2507.18071",
            "one ratio for a whole response, so whole responses are clipped; no KL",
            {
                "delta": "normalized",
                "aggregation": "sequence",
                "ratio": "sequence",
                "clip_low": 3e-4,
                "clip_high": 4e-4,
            },
        ),
        "cispo": Recipe(
            "CISPO",
            "arXiv:2506.13585",
            "the clip bounds a token's weight and silences none; else as DAPO, with its single clip above",
            {
                "delta": "normalized",
                "loss": "clipped_weight",
                "aggregation": "token",
                "clip_low": 1.0,
                "clip_high": 0.28,
                **DYNAMIC,
            },
            reward={"overlong": 1.0},
        ),
    }
)


def find(name: str) -> Recipe:
    """A recipe by its name; ValueError with the known ones."""
    if name not in RECIPES:
        raise ValueError(f"recipe={name!r} is unknown; expected one of {', '.join(RECIPES)}")
    return RECIPES[name]


def table() -> str:
    """All recipes side by side, in Markdown."""
    heads = ("recipe", "delta", "loss", "aggregation", "clip", "KL", "critic", "extras", "source")
    rows = [heads, ("---",) * len(heads), *(row(name, recipe) for name, recipe in RECIPES.items())]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def row(name: str, recipe: Recipe) -> tuple[str, ...]:
    """What a recipe says in each column of the table."""
    config = recipe.config()
    clip = f"{config.clip_low:g} / {config.clip_high:g}" + (" per response" if config.ratio == "sequence" else "")
    if config.loss == "clipped_weight":
        clip = f"weight ≤ {1 + config.clip_high:g}"
    return (
        f"`{name}`",
        "advantages" if recipe.critic is not None else config.delta,
        config.loss,
        "sum" if config.constant == 1 else config.aggregation,
        clip if config.loss.startswith("clipped") else "–",
        f"{config.kl} in {config.kl_in}, β {config.beta:g}" if config.beta else "–",
        critic_cell(recipe.critic),
        "; ".join(extras(config, recipe)) or "–",
        recipe.source,
    )


def critic_cell(critic: Mapping | None) -> str:
    if critic is None:
        return "–"
    lam = f"λ 1 − 1/({critic['alpha']:g}·length)" if "alpha" in critic else f"λ {critic['lam']:g}"
    return f"{lam}, for values {critic['value_lam']:g}"


def extras(config: Config, recipe: Recipe) -> list[str]:
    """What a method has besides, in words."""
    warmup = (recipe.critic or {}).get("warmup", 0)
    said = {
        "fresh responses": config.inner_steps == 1,
        "tied groups drawn anew": config.keep == "signal",
        f"most varied {config.keep_share:.0%} of groups": config.keep == "varied",
        f"{config.positive_weight:g} · imitation of right answers": config.positive_weight > 0,
        f"{warmup} rollouts for the critic alone": warmup > 0,
        f"τ {config.tau:g}": config.loss == "squared",
        "soft overlong penalty": "overlong" in recipe.reward,
        "length reward, late": "length" in recipe.reward,
    }
    return [words for words, true in said.items() if true]
