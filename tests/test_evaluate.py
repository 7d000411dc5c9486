"""pass@k and majority votes against every subset of k samples, intervals and calibration against what defines them."""

from collections import Counter
from fractions import Fraction
from itertools import combinations, product
from math import comb

import pytest
import torch

from minirl.evaluate import (
    expected_calibration_error,
    maj_at_k,
    pass_at_k,
    reliability,
    wilson_interval,
    win_rate,
)


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


@pytest.mark.parametrize("k", [1.5, float("nan")])
def test_pass_at_k_takes_whole_draws(k):
    """Asked of the function itself, since the type checker of the tests would answer first."""
    with pytest.raises(ValueError, match=r"between 1 and num_samples, here 4, and be whole; got"):
        pass_at_k.__wrapped__(2, 4, k)


def test_pass_at_k_of_no_problems():
    for correct, samples in ((torch.tensor([]), 8), (torch.tensor([]), torch.tensor([]))):
        with pytest.raises(ValueError, match="the counts of at least one problem; got none"):
            pass_at_k(correct, samples, 1)


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


def test_maj_at_k_is_exact_where_binomials_exceed_a_float():
    """One rival: the vote is won by more than half of the places, and a tie by half of it."""
    mine, other, k = 1200, 800, 1000
    ways = {votes: comb(mine, votes) * comb(other, k - votes) for votes in range(k // 2, k + 1)}
    truth = (sum(ways.values()) - Fraction(ways[k // 2], 2)) / comb(mine + other, k)
    assert maj_at_k(["18"] * mine + ["20"] * other, "18", k) == pytest.approx(float(truth), rel=1e-12)
    assert maj_at_k(["18"] * 600 + ["20"] * 600, "18", 600) == pytest.approx(0.5, rel=1e-12)


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


@pytest.mark.parametrize("wins, ties, losses", [(6, 0, 4), (6, 1, 4), (6, 3, 1), (0, 5, 0), (0, 0, 1), (12, 0, 0)])
def test_a_tie_is_half_a_win(wins, ties, losses):
    share, low, high = win_rate(wins, ties, losses)
    assert share == pytest.approx((wins + 0.5 * ties) / (wins + ties + losses))
    assert (low, high) == wilson_interval(wins + 0.5 * ties, wins + ties + losses, 1.96)
    assert 0 <= low <= share <= high <= 1


def test_the_win_rates_of_the_two_sides_are_mirror_images():
    share, low, high = win_rate(7, 4, 2, z=1.0)
    assert win_rate(2, 4, 7, z=1.0) == pytest.approx((1 - share, 1 - high, 1 - low))
    wider = win_rate(7, 4, 2, z=3.0)
    assert wider[0] == share and wider[1] < low and wider[2] > high


def test_win_rate_bounds_hold_the_truth_at_least_as_often_as_they_say_when_there_are_ties():
    """Summed over every outcome of 30 comparisons that are won, tied or lost with chances 0.5, 0.3 and 0.2."""
    n, chances, held = 30, (0.5, 0.3, 0.2), 0.0
    for wins in range(n + 1):
        for ties in range(n + 1 - wins):
            _, low, high = win_rate(wins, ties, n - wins - ties)
            ways = comb(n, wins) * comb(n - wins, ties)
            often = ways * chances[0] ** wins * chances[1] ** ties * chances[2] ** (n - wins - ties)
            held += often * (low <= 0.65 <= high)
    assert held > 0.97


@pytest.mark.parametrize("counts", [(0, 0, 0), (-1, 2, 3), (3, 2, -1), (3, -2, 1)])
def test_win_rate_refuses_what_cannot_be(counts):
    with pytest.raises(ValueError, match="expected at least one comparison and no negative counts"):
        win_rate(*counts)


def random_answers(seed, n=200):
    """Confidences in hundredths, so that many lie on the edge of a bin, and whether each answer is right."""
    generator = torch.Generator().manual_seed(seed)
    hundredths = torch.randint(0, 101, (n,), generator=generator)
    return hundredths.tolist(), torch.randint(0, 2, (n,), generator=generator).tolist()


def bins_in_plain_python(hundredths, correct, bins):
    """(mean confidence, accuracy, count) of each bin (b/bins, (b + 1)/bins], without a fraction on the way."""
    found = []
    for b in range(bins):
        inside = [
            (h, c)
            for h, c in zip(hundredths, correct, strict=True)
            if 100 * b < h * bins <= 100 * (b + 1) or h == b == 0
        ]
        n = max(len(inside), 1)
        found.append((sum(h for h, _ in inside) / 100 / n, sum(c for _, c in inside) / n, len(inside)))
    return found


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("bins", [1, 5, 10, 20, 300])
def test_bins_hold_what_lies_in_them_and_their_right_edge(bins, dtype):
    hundredths, correct = random_answers(bins)
    found = reliability(torch.tensor([h / 100 for h in hundredths], dtype=dtype), torch.tensor(correct), bins)
    expected = torch.tensor(bins_in_plain_python(hundredths, correct, bins), dtype=torch.float64).T
    exactly = {} if dtype == torch.float64 else {"rtol": 1e-6, "atol": 1e-7}
    torch.testing.assert_close(found.confidence, expected[0], **exactly)
    torch.testing.assert_close(found.accuracy, expected[1])
    assert found.count.tolist() == expected[2].tolist()


@pytest.mark.parametrize("bins", [1, 5, 10, 20])
def test_the_calibration_error_is_the_mean_gap_weighted_by_count(bins):
    hundredths, correct = random_answers(bins + 100)
    rows = bins_in_plain_python(hundredths, correct, bins)
    truth = sum(count * abs(accuracy - confidence) for confidence, accuracy, count in rows) / len(correct)
    confidence = torch.tensor(hundredths, dtype=torch.float64) / 100
    assert expected_calibration_error(confidence, torch.tensor(correct), bins) == pytest.approx(truth, abs=1e-12)
    assert expected_calibration_error(confidence.view(2, -1), torch.tensor(correct).view(2, -1) == 1, bins) == (
        pytest.approx(truth, abs=1e-12)
    )


def test_a_calibration_that_fits_in_the_head():
    """Four answers at 0.75, three right: calibrated. At 1.0, the same three: a quarter too sure. Empty bins are 0."""
    right = torch.tensor([True, True, True, False])
    assert expected_calibration_error(torch.full((4,), 0.75), right) == 0
    assert expected_calibration_error(torch.ones(4), right) == 0.25
    assert expected_calibration_error(torch.zeros(4), right) == 0.75
    found = reliability(torch.ones(4), right, bins=2)
    assert [values.tolist() for values in found] == [[0, 1], [0, 0.75], [0, 4]]


def test_the_error_cannot_cancel_between_bins_but_does_within_one():
    """Too sure at 0.75 and too modest at 0.25: one bin sees nothing of it."""
    confidence, correct = torch.tensor([0.75, 0.75, 0.25, 0.25]), torch.tensor([1, 0, 1, 0])
    assert expected_calibration_error(confidence, correct, bins=2) == 0.25
    assert expected_calibration_error(confidence, correct, bins=1) == 0


def test_few_answers_make_a_calibrated_model_look_wrong():
    """Over all outcomes of n answers at confidence 0.5 that are right half of the time, the error averages above 0."""
    means = []
    for n in (2, 8, 14):
        for right in range(n + 1):
            error = expected_calibration_error(torch.full((n,), 0.5), torch.arange(n) < right)
            assert error == pytest.approx(abs(right / n - 0.5))
        means.append(sum(comb(n, right) * abs(right / n - 0.5) for right in range(n + 1)) / 2**n)
    assert means[0] > means[1] > means[2] > 0.1


@pytest.mark.parametrize(
    "confidence, correct, bins, message",
    [
        ([0.5], [1], 0, "at least one bin; got 0"),
        ([], [], 10, "at least one; got shapes"),
        ([0.5, 1.01], [1, 0], 10, "confidence must lie between 0 and 1; got 0.5 to 1.0"),
        ([-0.5, 1.0], [1, 0], 10, "confidence must lie between 0 and 1; got -0.5 to 1.0"),
        ([0.5, float("nan")], [1, 0], 10, "confidence must lie between 0 and 1; got nan"),
        ([0.5, 1.0], [1, 2], 10, "correct must lie between 0 and 1; got 1 to 2"),
    ],
)
def test_calibration_refuses_what_cannot_be(confidence, correct, bins, message):
    with pytest.raises(ValueError, match=message):
        reliability(torch.tensor(confidence), torch.tensor(correct), bins)
