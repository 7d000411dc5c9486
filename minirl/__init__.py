"""minirl: reinforcement learning for language models, from a two-state bandit to Qwen, in code to read in an hour.

Names are imported when they are first used, so that the command line answers before torch is there.
"""

from importlib import import_module

__version__ = "0.1.0"

_CORE = ("deltas", "exact", "kl", "losses", "metrics", "policy", "rollout", "sorting", "train")
_MODULES = (*_CORE, "critic", "evaluate", "preferences", "recipes", "shaping")
_HOMES = {
    "Batch": "rollout",
    "Config": "config",
    "RECIPES": "recipes",
    "Rollout": "rollout",
    "SortingPolicy": "policy",
    "SortingTask": "sorting",
    "State": "train",
    "collect": "rollout",
}
__all__ = [*_HOMES, *_MODULES]


def __getattr__(name: str):
    if name in _MODULES:
        return import_module(f"minirl.{name}")
    if name in _HOMES:
        return getattr(import_module(f"minirl.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'minirl' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
