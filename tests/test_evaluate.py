"""pass@k and majority votes against every subset of k samples, and Wilson's interval against what defines it."""

from collections import Counter
from fractions import Fraction
from itertools import combinations, product
from math import comb

import pytest
import torch

from minirl.evaluate import maj_at_k, pass_at_k, wilson_interval


@pytest.mark.parametrize("n", range(1, 8))
def test_pass_at_k_is_the_share_of_subsets_with_a_correct_sample(n):
    for correct in range(n + 1):
        samples = [True] * correct + [False] * (n - correct)
        for k in range(1, n + 1):
            subsets = [any(subset) for subset in combinations(samples, k)]
            truth = torch.tensor(sum(subsets) / len(subsets), dtype=torch.float64)
            torch.testing.assert_close(pass_at_k(correct, n, k), truth)


@pytest.mark.parametrize("k", [1, 3, 6])
def test_pass_at_k_is_unbiased(k):
    """Over all 2⁶ outcomes of six samples, its mean is 1 − (1 − p)^k; the plug-in estimate's is not."""
    n, p = 6, 0.3
    outcomes = torch.tensor(list(product([0, 1], repeat=n)))
    correct = outcomes.sum(-1)
    chance = p ** correct.double() * (1 - p) ** (n - correct).double()
    truth = torch.tensor(1 - (1 - p) ** k, dtype=torch.float64)
    torch.testing.assert_close((chance * pass_at_k(correct, n, k)).sum(), truth)
    if k > 1:
        plug_in = 1 - (1 - correct.double() / n) ** k
        assert (chance * plug_in).sum() < truth - 0.01


def test_pass_at_k_works_on_tensors_of_any_shape_and_unequal_numbers_of_samples():
    correct, samples = torch.tensor([[0, 1, 2], [3, 4, 5]]), torch.tensor([[5, 6, 7], [8, 9, 10]])
    single = [pass_at_k(c, n, 4) for c, n in zip(correct.flatten().tolist(), samples.flatten().tolist(), strict=True)]
    torch.testing.assert_close(pass_at_k(correct, samples, 4), torch.stack(single).view(2, 3))
    assert pass_at_k(correct, 10, 1).shape == (2, 3)


def test_pass_at_k_is_exact_where_binomials_are_astronomical():
    n, correct, k = 5000, 3, 1000
    truth = 1 - Fraction(comb(n - correct, k), comb(n, k))
    torch.testing.assert_close(pass_at_k(correct, n, k), torch.tensor(float(truth), dtype=torch.float64))


@pytest.mark.parametrize("correct, samples, k", [(3, 2, 1), (-1, 2, 1), (1, 2, 3), (1, 2, 0)])
def test_pass_at_k_refuses_what_cannot_be(correct, samples, k):
    with pytest.raises(ValueError, match="must lie between"):
        pass_at_k(correct, samples, k)


def vote(answers, gold):
    """What `gold` gets of one vote."""
    counts = Counter(answer for answer in answers if answer is not None)
    first = [answer for answer, count in counts.items() if count == max(counts.values())]
    return 1 / len(first) if gold in first else 0.0


@pytest.mark.parametrize("n", range(1, 7))
def test_maj_at_k_is_the_mean_vote_over_all_subsets(n):
    for answers in product(["18", "20", "7", None], repeat=n):
        if answers == tuple(sorted(answers, key=str)):  # the order of the answers does not matter
            for k in range(1, n + 1):
                votes = [vote(subset, "18") for subset in combinations(answers, k)]
                assert maj_at_k(answers, "18", k) == pytest.approx(sum(votes) / len(votes), abs=1e-12)


@pytest.mark.parametrize(
    "answers, expected",
    [
        (["18", "18", "20"], 1.0),
        (["18", "20"], 1 / 2),
        (["18", "20", "7", "7", "18"], 1 / 2),
        (["18", None, None, None], 1.0),
        ([None, None], 0.0),
        (["20", "20", "18"], 0.0),
    ],
)
def test_all_answers_vote_once(answers, expected):
    assert maj_at_k(answers, "18") == expected


def test_maj_at_k_of_one_is_accuracy_and_grows_where_the_mode_is_right():
    answers = ["18"] * 40 + ["20"] * 30 + ["7"] * 20 + [None] * 10
    assert maj_at_k(answers, "18", 1) == pytest.approx(0.4)
    by_k = [maj_at_k(answers, "18", k) for k in (1, 5, 25, 75, 100)]
    assert by_k == sorted(by_k) and by_k[-1] == 1.0


@pytest.mark.parametrize("answers, k", [([], None), (["18"], 2), (["18"], 0)])
def test_maj_at_k_refuses_what_cannot_be(answers, k):
    with pytest.raises(ValueError, match="k must lie between 1 and"):
        maj_at_k(answers, "18", k)


@pytest.mark.parametrize("successes, n", [(0, 10), (3, 10), (10, 10), (567, 1319), (0.7, 2)])
def test_wilson_bounds_are_the_shares_that_lie_z_standard_errors_from_the_data(successes, n):
    """Wilson's definition: the p that solve |p̂ − p| = z·√(p(1−p)/n)."""
    for z in (1.0, 1.96, 2.576):
        low, high = wilson_interval(successes, n, z)
        share = successes / n
        for p in (low, high):
            assert (share - p) ** 2 == pytest.approx(z**2 * p * (1 - p) / n, abs=1e-12)
        assert 0 <= low <= share <= high <= 1 and low < high


def coverage(n, p, z):
    """P(the interval holds p), summed over all n + 1 outcomes."""
    intervals = [wilson_interval(count, n, z) for count in range(n + 1)]
    return sum(
        comb(n, count) * p**count * (1 - p) ** (n - count)
        for count, (low, high) in enumerate(intervals)
        if low <= p <= high
    )


def test_wilson_covers_about_as_often_as_it_says():
    chances = [coverage(200, p / 50, 1.96) for p in range(1, 50)]
    assert abs(sum(chances) / len(chances) - 0.95) < 0.005 and min(chances) > 0.92


def test_wilson_published_example():
    """81 of 263 (Newcombe 1998, table I): 0.2553 to 0.3662."""
    assert wilson_interval(81, 263, 1.959964) == pytest.approx((0.2553, 0.3662), abs=5e-5)


@pytest.mark.parametrize("successes, n", [(1, 0), (-1, 5), (6, 5)])
def test_wilson_refuses_what_cannot_be(successes, n):
    with pytest.raises(ValueError, match="expected 0 ≤ successes ≤ n"):
        wilson_interval(successes, n)
