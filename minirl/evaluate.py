"""How good is a model, and how sure can one be: pass@k, majority votes, intervals for a share, calibration."""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from math import comb, sqrt
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Float64, Int, Real
from torch import Tensor


def pass_at_k(num_correct: Tensor | int, num_samples: Tensor | int, k: int) -> Float64[Tensor, "*axes"]:
    """P(at least one of k samples is correct) = 1 − C(n−c, k)/C(n, k), from c correct of n (arXiv:2107.03374).

    Unbiased, unlike 1 − (1 − c/n)^k. As a product of k factors (n−c−j)/(n−j), which never overflows.
    """
    correct, samples = torch.as_tensor(num_correct).double(), torch.as_tensor(num_samples).double()
    if not (correct.numel() and samples.numel()):
        raise ValueError("expected the counts of at least one problem; got none")
    if not ((correct >= 0) & (correct <= samples)).all():
        raise ValueError("num_correct must lie between 0 and num_samples")
    if k % 1 or not 1 <= k <= samples.min():
        raise ValueError(f"k must lie between 1 and num_samples, here {int(samples.min())}, and be whole; got {k}")
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
    won: Counter[int] = Counter()  # rivals that tie with the gold answer → number of draws
    for votes in range(1, min(mine, k) + 1):
        draws = {(votes, 0): comb(mine, votes)}  # (places taken, rivals that tie) → number of draws
        for rival in counts.values():
            draws = _with_voter(draws, rival, votes, k)
        for (taken, ties), ways in draws.items():
            won[ties] += ways * comb(silent, k - taken)
    return float(sum(Fraction(ways, ties + 1) for ties, ways in won.items()) / comb(len(answers), k))


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


def win_rate(wins: float, ties: float, losses: float, z: float = 1.96) -> tuple[float, float, float]:
    """(wins + ties/2)/n, with n = wins + ties + losses, and its Wilson bounds: share, low, high.

    A tie counts half for each side, so that the two win rates sum to 1; many ties make the bounds wider than need be.
    """
    if not (min(wins, ties, losses) >= 0 and (n := wins + ties + losses) >= 1):
        raise ValueError(f"expected at least one comparison and no negative counts; got {wins}, {ties} and {losses}")
    return (wins + ties / 2) / n, *wilson_interval(wins + ties / 2, n, z)


class Reliability(NamedTuple):
    """Of each bin of confidence: the mean confidence, the share that was right, and how many there were."""

    confidence: Float64[Tensor, " bins"]
    accuracy: Float64[Tensor, " bins"]
    count: Int[Tensor, " bins"]


def reliability(
    confidence: Float[Tensor, "*answers"], correct: Bool[Tensor, "*answers"] | Real[Tensor, "*answers"], bins: int = 10
) -> Reliability:
    """What a reliability diagram shows, for bins (0, 1/bins], (1/bins, 2/bins], …; confidence 0 is in the first.

    Calibrated: of the answers given with confidence c, the share c is right. An empty bin has 0 in all three, so leave
    out of a picture where `count` is 0.
    """
    _check_calibration(confidence, correct, bins)
    confidence, correct = confidence.detach().flatten(), correct.flatten().double()
    edges = torch.arange(1, bins, dtype=confidence.dtype, device=confidence.device) / bins
    place = torch.bucketize(confidence, edges)
    count = place.bincount(minlength=bins)
    sums = (place.bincount(values, minlength=bins) for values in (confidence.double(), correct))
    return Reliability(*(total / count.clamp(min=1) for total in sums), count)


def expected_calibration_error(
    confidence: Float[Tensor, "*answers"], correct: Bool[Tensor, "*answers"] | Real[Tensor, "*answers"], bins: int = 10
) -> float:
    """Σ_b n_b/n · |accuracy_b − mean confidence_b| over the bins of `reliability` (arXiv:1706.04599).

    The number depends on the bins, so compare only equal ones; few answers in a bin make it large for a calibrated
    model too.
    """
    found = reliability(confidence, correct, bins)
    return ((found.accuracy - found.confidence).abs() * found.count).sum().item() / found.count.sum().item()


def _check_calibration(confidence: Tensor, correct: Tensor, bins: int) -> None:
    if not bins >= 1:
        raise ValueError(f"expected at least one bin; got {bins}")
    if confidence.shape != correct.shape or not confidence.numel():
        shapes = f"{tuple(confidence.shape)} and {tuple(correct.shape)}"
        raise ValueError(f"expected one confidence for each answer, and at least one; got shapes {shapes}")
    for name, values in (("confidence", confidence), ("correct", correct)):
        if not ((values >= 0) & (values <= 1)).all():
            raise ValueError(f"{name} must lie between 0 and 1; got {values.min().item()} to {values.max().item()}")
