"""minirl: reinforcement learning for language models, from a two-state bandit to Qwen, in code to read in an hour."""

from minirl import deltas, exact, kl, losses, metrics, policy, rollout, sorting, train
from minirl.policy import SortingPolicy
from minirl.rollout import Batch, Rollout, collect
from minirl.sorting import SortingTask
from minirl.train import Config, State

__version__ = "0.1.0"
__all__ = [
    "Batch",
    "Config",
    "Rollout",
    "SortingPolicy",
    "SortingTask",
    "State",
    "collect",
    "deltas",
    "exact",
    "kl",
    "losses",
    "metrics",
    "policy",
    "rollout",
    "sorting",
    "train",
]
