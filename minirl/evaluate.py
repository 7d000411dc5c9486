"""How good is a model, and how sure can one be: pass@k, majority votes, and an interval for a share."""

from collections import Counter
from collections.abc import Sequence
from math import comb, sqrt

import torch
from jaxtyping import Float64
from torch import Tensor


def pass_at_k(num_correct: Tensor | int, num_samples: Tensor | int, k: int) -> Float64[Tensor, "*axes"]:
    """P(at least one of k samples is correct) = 1 − C(n−c, k)/C(n, k), from c correct of n (arXiv:2107.03374).

    Unbiased, unlike 1 − (1 − c/n)^k. As a product of k factors (n−c−j)/(n−j), which never overflows.
    """
    correct, samples = torch.as_tensor(num_correct).double(), torch.as_tensor(num_samples).double()
    if not ((correct >= 0) & (correct <= samples)).all():
        raise ValueError("num_correct must lie between 0 and num_samples")
    if not 1 <= k <= samples.min():
        raise ValueError(f"k must lie between 1 and num_samples, here {int(samples.min())}; got {k}")
    drawn = torch.arange(k)
    wrong = (samples - correct)[..., None] - drawn
    return 1 - (wrong.clamp(min=0) / (samples[..., None] - drawn)).prod(-1)


def maj_at_k(answers: Sequence[str | None], gold: str, k: int | None = None) -> float:
    """P(the most frequent of k answers is `gold`), k of the given ones drawn without replacement; None: all of them.

    Answers that tie for the first place share it equally. None, where no answer could be extracted, takes one of the k
    places and does not vote. Exact: every split of the k places among the answers, counted by its number of draws.
    """
    k = len(answers) if k is None else k
    if not 1 <= k <= len(answers):
        raise ValueError(f"k must lie between 1 and the {len(answers)} answers; got {k}")
    counts = Counter(answers)
    silent, mine = counts.pop(None, 0), counts.pop(gold, 0)
    share = 0.0
    for votes in range(1, min(mine, k) + 1):
        draws = {(votes, 0): comb(mine, votes)}  # (places taken, rivals that tie) → number of draws
        for rival in counts.values():
            draws = _with_voter(draws, rival, votes, k)
        share += sum(ways * comb(silent, k - taken) / (ties + 1) for (taken, ties), ways in draws.items())
    return share / comb(len(answers), k)


def _with_voter(draws: dict[tuple[int, int], int], size: int, most: int, places: int) -> dict[tuple[int, int], int]:
    """The draws when one more answer, given `size` times, takes up to `most` places; with `most` it ties."""
    longer: Counter[tuple[int, int]] = Counter()
    for (taken, ties), ways in draws.items():
        for votes in range(min(size, most, places - taken) + 1):
            longer[taken + votes, ties + (votes == most)] += ways * comb(size, votes)
    return longer


def wilson_interval(successes: float, n: int, z: float = 1.96) -> tuple[float, float]:
    """Bounds of a share p̂ = successes/n: (p̂ + z²/2n ± z·√(p̂(1−p̂)/n + z²/4n²)) / (1 + z²/n) (Wilson 1927).

    Inside [0, 1] and honest at 0 and n, where p̂ ± z·√(p̂(1−p̂)/n) has no width. `successes` may be a sum of shares, such
    as pass rates of n problems: what varies less than a coin is then covered with room to spare.
    """
    if not (n >= 1 and 0 <= successes <= n):
        raise ValueError(f"expected 0 ≤ successes ≤ n and n ≥ 1; got {successes} of {n}")
    share = successes / n
    middle, spread = share + z**2 / (2 * n), z * sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    low, high = (middle - spread) / (1 + z**2 / n), (middle + spread) / (1 + z**2 / n)
    return max(0.0, min(low, share)), min(1.0, max(high, share))  # rounding may not move a bound past the share
