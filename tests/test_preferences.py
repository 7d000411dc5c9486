"""Preference losses against plain Python, DPO against its optimum by enumeration, scores against the chances to win."""

import math
from collections import Counter
from itertools import combinations, pairwise, permutations

import oracle
import pytest
import torch
from oracle import worth
from torch import tensor

from minirl import exact
from minirl.preferences import (
    bradley_terry,
    dpo,
    dpo_gradient_weight,
    fit_bradley_terry,
    implied_reward,
    length_normalized_dpo,
    per_token,
    response_log_probs,
    sample_pairs,
    simpo,
)

pytestmark = pytest.mark.usefixtures("float64")
PAIRS = {  # summed log-probs in nats and lengths in tokens; the last pair is as the reference left it
    "chosen": [-3.0, -12.5, -0.7, -40.0, -5.0],
    "rejected": [-4.0, -2.5, -9.0, -38.0, -6.0],
    "ref_chosen": [-5.0, -11.0, -0.9, -33.0, -5.0],
    "ref_rejected": [-3.5, -4.0, -5.0, -41.0, -6.0],
    "chosen_len": [2, 7, 1, 30, 3],
    "rejected_len": [3, 1, 4, 20, 6],
}


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def bradley_terry_loop(chosen, rejected):
    return -math.log(sigmoid(chosen - rejected))


def dpo_loop(chosen, rejected, ref_chosen, ref_rejected, beta=0.3):
    return -math.log(sigmoid(beta * (chosen - ref_chosen) - beta * (rejected - ref_rejected)))


def simpo_loop(chosen, rejected, chosen_len, rejected_len, beta=2.0, margin=0.5):
    return -math.log(sigmoid(beta / chosen_len * chosen - beta / rejected_len * rejected - margin))


def normalized_loop(chosen, rejected, ref_chosen, ref_rejected, chosen_len, rejected_len, beta=3.0):
    chosen_part, rejected_part = (chosen - ref_chosen) / chosen_len, (rejected - ref_rejected) / rejected_len
    return -math.log(sigmoid(beta * chosen_part - beta * rejected_part))


REFERENCE, LENGTHS = ("ref_chosen", "ref_rejected"), ("chosen_len", "rejected_len")
LOSSES = {  # the loss, what it takes besides the two log-probs, its other settings, the formula
    "bradley_terry": (bradley_terry, (), {}, bradley_terry_loop),
    "dpo": (dpo, REFERENCE, {"beta": 0.3}, dpo_loop),
    "simpo": (simpo, LENGTHS, {"beta": 2.0, "margin": 0.5}, simpo_loop),
    "length_normalized_dpo": (length_normalized_dpo, REFERENCE + LENGTHS, {"beta": 3.0}, normalized_loop),
}
losses = pytest.mark.parametrize("name", LOSSES)


def columns(names):
    return [tensor(PAIRS[name]) for name in names]


@losses
def test_each_loss_equals_its_formula_in_plain_python(name):
    loss, extra, settings, loop = LOSSES[name]
    names = ("chosen", "rejected", *extra)
    rows = zip(*(PAIRS[name] for name in names), strict=True)
    torch.testing.assert_close(loss(*columns(names), **settings), tensor([loop(*row) for row in rows]))


@losses
def test_each_loss_has_the_slopes_of_its_formula(name):
    loss, extra, settings, loop = LOSSES[name]
    chosen, rejected, *rest = columns(("chosen", "rejected", *extra))
    chosen.requires_grad_(), rejected.requires_grad_()
    loss(chosen, rejected, *rest, **settings).sum().backward()
    step, slopes = 1e-5, []
    for c, r, *others in zip(*(PAIRS[name] for name in ("chosen", "rejected", *extra)), strict=True):
        by_chosen = loop(c + step, r, *others) - loop(c - step, r, *others)
        slopes.append([by_chosen / (2 * step), (loop(c, r + step, *others) - loop(c, r - step, *others)) / (2 * step)])
    torch.testing.assert_close(torch.stack([chosen.grad, rejected.grad], 1), tensor(slopes), rtol=1e-5, atol=1e-9)
    assert (chosen.grad < 0).all() and (rejected.grad > 0).all()


@losses
def test_a_pair_knows_nothing_of_the_others_and_any_shape_will_do(name):
    loss, extra, settings, _ = LOSSES[name]
    given = columns(("chosen", "rejected", *extra))
    order = tensor([3, 0, 4, 2])
    expected = loss(*given, **settings)[order].view(2, 2)
    torch.testing.assert_close(loss(*(column[order].view(2, 2) for column in given), **settings), expected)


def test_a_pair_that_fits_in_the_head():
    """A tie costs log 2; three times as likely as not costs log 4/3; hopelessly wrong costs the gap, not infinity."""
    gaps = tensor([0.0, math.log(3), -1000.0, 1000.0])
    expected = tensor([math.log(2), math.log(4 / 3), 1000.0, 0.0])
    torch.testing.assert_close(bradley_terry(gaps + 5, torch.full_like(gaps, 5)), expected)


def test_the_chances_of_both_orders_sum_to_one():
    chosen, rejected = columns(("chosen", "rejected"))
    both = (-bradley_terry(chosen, rejected)).exp() + (-bradley_terry(rejected, chosen)).exp()
    torch.testing.assert_close(both, torch.ones(5))


def test_the_implied_reward_is_zero_at_the_reference_and_grows_with_beta():
    log_probs, ref = tensor([-2.0, -3.0, -1.0]), tensor([-2.0, -5.0, -4.0])
    torch.testing.assert_close(implied_reward(log_probs, ref, 0.5), tensor([0.0, 1.0, 1.5]))
    torch.testing.assert_close(implied_reward(log_probs, ref, 1.0), tensor([0.0, 2.0, 3.0]))


def test_a_reward_that_its_own_best_policy_implies():
    """With π ∝ π_ref·exp(r/β), the implied reward is r − β·log Z: r, but for a constant."""
    policy, beta = oracle.toy_policy(), 0.7
    ref = oracle.distribution(policy, (1, 2))
    rewards = [worth(response) for response in ref]
    tilted = [p * math.exp(r / beta) for p, r in zip(ref.values(), rewards, strict=True)]
    log_probs, ref_log_probs = (tensor(weights).log() for weights in (tilted, list(ref.values())))
    found = implied_reward(log_probs - math.log(sum(tilted)), ref_log_probs, beta)
    torch.testing.assert_close(found, tensor(rewards) - beta * math.log(sum(tilted)))


def test_lengths_of_one_token_leave_dpo_as_it_is():
    given, ones = columns(("chosen", "rejected", *REFERENCE)), torch.ones(5, dtype=torch.long)
    torch.testing.assert_close(length_normalized_dpo(*given, ones, ones, beta=0.2), dpo(*given, beta=0.2))


def said_twice(names):
    """The chosen response and its reference, over twice the tokens."""
    return [column * (2 if "chosen" in name else 1) for name, column in zip(names, columns(names), strict=True)]


@pytest.mark.parametrize("name", ["simpo", "length_normalized_dpo"])
def test_a_response_said_twice_as_long_at_the_same_rate_counts_the_same(name):
    """Twice the tokens with twice the log-prob: the same mean, so the same loss. DPO takes it for twice the reward."""
    loss, extra, settings, _ = LOSSES[name]
    names = ("chosen", "rejected", *extra)
    torch.testing.assert_close(loss(*said_twice(names), **settings), loss(*columns(names), **settings))
    names = ("chosen", "rejected", *REFERENCE)
    assert (dpo(*said_twice(names), beta=0.3) - dpo(*columns(names), beta=0.3)).abs()[:4].min() > 0.01


def test_a_margin_asks_for_more():
    given = columns(("chosen", "rejected", *LENGTHS))
    gap = 2.0 * (given[0] / given[2] - given[1] / given[3])
    torch.testing.assert_close(simpo(*given, beta=2.0, margin=0.0), bradley_terry(gap, torch.zeros(5)))
    assert (simpo(*given, beta=2.0, margin=1.0) > simpo(*given, beta=2.0, margin=0.0)).all()


def log_probs_of(policy, prompt, listed):
    """[responses], differentiable."""
    responses, mask = oracle.tensors(policy, listed)
    return response_log_probs(policy, tensor([prompt]), responses[None], mask[None])[0]


def test_response_log_probs_are_logs_of_products():
    policy = oracle.toy_policy()
    for prompt in ((1, 2), (0, 1)):
        expected = tensor([math.log(p) for p in oracle.distribution(policy, prompt).values()])
        torch.testing.assert_close(log_probs_of(policy, prompt, oracle.all_responses(policy)), expected)


def test_response_log_probs_keep_batch_and_group():
    policy, prompts = oracle.toy_policy(), tensor([[1, 2], [0, 1], [0, 0]])
    responses, mask = policy.sample(prompts, 4, torch.Generator().manual_seed(0))
    found = response_log_probs(policy, prompts, responses, mask)
    for b, g in ((0, 0), (1, 3), (2, 2)):
        response = responses[b, g][mask[b, g]].tolist()
        assert found[b, g].item() == pytest.approx(math.log(oracle.probability(policy, prompts[b].tolist(), response)))


@pytest.mark.parametrize("beta", [0.1, 2.0])
def test_dpos_gradient_is_its_weight_times_the_difference_of_scores(beta):
    """∇dpo = −β·σ(r̂_r − r̂_c)·(∇log π(c) − ∇log π(r)), scores by central differences of products of probabilities."""
    policy, reference, prompt = oracle.toy_policy(0), oracle.toy_policy(1), (1, 2)
    pair = [(0, 2, 0), (2, 1)]
    ref = log_probs_of(reference, prompt, pair)
    policy.zero_grad()
    found = log_probs_of(policy, prompt, pair)
    dpo(found[0], found[1], ref[0], ref[1], beta).backward()

    def logs(model):
        return [math.log(oracle.probability(model, prompt, response)) for response in pair]

    scores = oracle.derivative(policy, lambda: logs(policy))  # [parameters, 2]
    (now_c, now_r), (ref_c, ref_r) = logs(policy), logs(reference)
    weight = beta * sigmoid(beta * (now_r - ref_r) - beta * (now_c - ref_c))
    torch.testing.assert_close(oracle.gradient_of(policy), -weight * (scores[:, 0] - scores[:, 1]))
    torch.testing.assert_close(dpo_gradient_weight(found[0], found[1], ref[0], ref[1], beta), tensor(weight))
    assert all(parameter.grad is None for parameter in reference.parameters())


def test_the_weight_is_beta_when_wrong_half_of_it_when_undecided_and_nothing_when_sure():
    chosen, rejected = tensor([-90.0, -5.0, -5.0]), tensor([-5.0, -5.0, -90.0])
    ref = torch.full((3,), -5.0)
    torch.testing.assert_close(dpo_gradient_weight(chosen, rejected, ref, ref, 2.0), tensor([2.0, 1.0, 0.0]))
    live = chosen.requires_grad_()
    assert not dpo_gradient_weight(live, rejected, ref, ref, 2.0).requires_grad


def test_a_policy_that_is_its_own_reference_still_learns():
    log_probs = tensor([-2.0, -3.0], requires_grad=True)
    dpo(log_probs[0], log_probs[1], log_probs[0], log_probs[1], 0.4).backward()
    torch.testing.assert_close(log_probs.grad, tensor([-0.2, 0.2]))


def test_the_least_expected_dpo_loss_is_at_the_reference_tilted_by_the_reward():
    """Every pair as often as Bradley–Terry draws it: the best policy is π_ref·exp(r/β)/Z, which is best at r − β·KL."""
    policy, reference, prompt, beta = oracle.short_toy_policy(0), oracle.short_toy_policy(1), (1, 2), 0.8
    listed = oracle.all_responses(policy)
    pairs = [(i, j) for i in range(len(listed)) for j in range(len(listed)) if i != j]
    often = tensor([sigmoid(worth(listed[i]) - worth(listed[j])) for i, j in pairs])
    better, worse = tensor(pairs).T
    ref = log_probs_of(reference, prompt, listed).detach()
    optimizer = torch.optim.LBFGS(policy.parameters(), 1.0, 500, None, 1e-12, 0.0, 50, "strong_wolfe")

    def expected_loss():
        optimizer.zero_grad()
        found = log_probs_of(policy, prompt, listed)
        loss = (often * dpo(found[better], found[worse], ref[better], ref[worse], beta)).sum()
        loss.backward()
        return loss

    optimizer.step(expected_loss)
    tilted = {y: p * math.exp(worth(y) / beta) for y, p in oracle.distribution(reference, prompt).items()}
    expected = tensor([weight / sum(tilted.values()) for weight in tilted.values()])
    torch.testing.assert_close(log_probs_of(policy, prompt, listed).exp(), expected, rtol=0, atol=1e-7)


def test_without_noise_the_dpo_loss_has_no_least():
    """The further the implied rewards spread, the smaller the loss: nothing but early stopping keeps π near π_ref."""
    rewards = tensor([1.0, 0.0, 2.0])
    better, worse = tensor([[2, 0], [0, 1], [2, 1]]).T
    ref = torch.full((3,), -1.0)
    spreads = [
        dpo((ref + k * rewards)[better], (ref + k * rewards)[worse], ref[better], ref[worse], 0.5).sum()
        for k in range(1, 50)
    ]
    assert all(after < before for before, after in pairwise(spreads))


REWARDS = [[0.0, 2.0, 1.0, 2.0], [5.0, 5.0, 5.0, 5.0], [-1.0, 0.0, -3.0, 0.5]]


def pairs_of(rewards, noise, seed=0):
    chosen, rejected = sample_pairs(tensor(rewards), noise, torch.Generator().manual_seed(seed))
    return list(zip(chosen.tolist(), rejected.tolist(), strict=True))


@pytest.mark.parametrize("seed", range(3))
def test_without_noise_the_better_always_wins_and_ties_make_no_pair(seed):
    expected = {
        (4 * b + i, 4 * b + j)
        for b, group in enumerate(REWARDS)
        for i, j in permutations(range(4), 2)
        if group[i] > group[j]
    }
    found = pairs_of(REWARDS, 0, seed)
    assert len(found) == len(expected) == 11 and set(found) == expected


def test_with_noise_every_two_responses_that_differ_meet_once():
    expected = {
        frozenset((4 * b + i, 4 * b + j))
        for b, group in enumerate(REWARDS)
        for i, j in combinations(range(4), 2)
        if group[i] != group[j]
    }
    found = pairs_of(REWARDS, 1.5)
    assert len(found) == 11 and {frozenset(pair) for pair in found} == expected
    assert found == pairs_of(REWARDS, 1.5) and found != pairs_of(REWARDS, 1.5, seed=1)


@pytest.mark.parametrize("noise", [0.4, 1.0, 3.0])
def test_with_noise_the_better_wins_as_often_as_bradley_terry_says(noise):
    """A share of 20,000 within 4 standard errors of σ(gap/noise), for gaps of both signs."""
    times, rewards = 20_000, [0.0, 1.5, 0.5]
    wins = Counter((c % 3, r % 3) for c, r in pairs_of([rewards] * times, noise))
    for i, j in permutations(range(3), 2):
        chance = sigmoid((rewards[i] - rewards[j]) / noise)
        assert abs(wins[i, j] / times - chance) < 4 * math.sqrt(chance * (1 - chance) / times)


def test_a_chosen_index_finds_its_response_in_the_flattened_group():
    rewards = tensor(REWARDS)
    chosen, rejected = sample_pairs(rewards, 0.0)
    assert (rewards.flatten()[chosen] > rewards.flatten()[rejected]).all()
    assert (chosen // 4 == rejected // 4).all()


def test_a_group_of_one_has_no_pairs():
    assert pairs_of([[1.0], [2.0]], 0.5) == []


def test_pairs_refuse_what_cannot_be():
    with pytest.raises(ValueError, match=r"noise is the temperature .* must be at least 0; got -0.1"):
        sample_pairs(tensor(REWARDS), -0.1)
    with pytest.raises(FloatingPointError, match="drawing pairs: rewards is not finite"):
        sample_pairs(tensor([[math.nan, 1.0]]), 1.0)


def chances(scores, games=1.0):
    """Expected wins of i over j in `games` games each."""
    return tensor([[games * sigmoid(a - b) * (i != j) for j, b in enumerate(scores)] for i, a in enumerate(scores)])


@pytest.mark.parametrize("scores", [[1.5, -0.5, 0.25, -1.25], [0.0, 0.0, 0.0], [8.0, -9.0, 1.0]])
def test_exact_chances_give_back_the_scores(scores):
    torch.testing.assert_close(fit_bradley_terry(chances(scores, 40)), tensor(scores))


def test_scores_from_drawn_pairs_lie_within_three_standard_errors():
    """Standard errors from the Fisher information, Σ_j n·p(1 − p) on its diagonal and −n·p(1 − p) beside it."""
    truth, times = [1.2, 0.3, -0.1, -1.4], 2000
    wins = torch.zeros(4, 4)
    for i, j in pairs_of([truth] * times, 1.0):
        wins[i % 4, j % 4] += 1
    spread = tensor([[sigmoid(a - b) * sigmoid(b - a) * (a != b) for b in truth] for a in truth]) * times
    errors = torch.linalg.pinv(spread.sum(1).diag() - spread).diagonal().sqrt()
    found = fit_bradley_terry(wins)
    assert ((found - tensor(truth)).abs() < 3 * errors).all() and errors.max() < 0.05


UNEVEN = [[0, 7, 1, 0], [2, 0, 5, 0], [3, 0, 0, 900], [0, 0.5, 1, 0]]


def check_likelihood_slope(wins, scores, tolerance):
    """Σ_j wins_ij = Σ_j n_ij·σ(s_i − s_j), the likelihood's slope set to zero; the mean of the scores is 0."""
    for i, row in enumerate(wins):
        expected = sum((row[j] + wins[j][i]) * sigmoid(scores[i] - scores[j]) for j in range(len(row)))
        assert sum(row) == pytest.approx(expected, abs=tolerance)
    assert sum(scores) == pytest.approx(0, abs=1e-12)


def test_at_the_most_likely_scores_everyone_wins_as_often_as_expected():
    check_likelihood_slope(UNEVEN, fit_bradley_terry(tensor(UNEVEN)).tolist(), tolerance=1e-9)


def test_two_items_differ_by_the_log_of_their_wins():
    for wins, losses in ((3, 1), (1, 1_000_000)):
        gap = math.log(wins / losses)
        torch.testing.assert_close(fit_bradley_terry(tensor([[0, wins], [losses, 0]])), tensor([gap / 2, -gap / 2]))


def test_a_chain_of_lopsided_games_settles():
    """Each beats the next a hundred times and loses once."""
    wins = torch.diag(torch.full((29,), 100.0), 1) + torch.diag(torch.ones(29), -1)
    scores = fit_bradley_terry(wins)
    torch.testing.assert_close(scores[:-1] - scores[1:], torch.full((29,), math.log(100)))


def test_the_fit_settles_where_full_newton_steps_run_away():
    """A table found by search: with undamped steps from 0 the curvature becomes 0, and no step is defined."""
    wins = [
        [0, 100, 0, 1, 20_000],
        [20_000, 0, 10_000, 1, 20],
        [20, 1, 0, 0, 1],
        [0, 10, 200, 0, 0],
        [0, 10, 0, 2000, 0],
    ]
    try:
        check_likelihood_slope(wins, fit_bradley_terry(tensor(wins)).tolist(), tolerance=1e-6)
    except (FloatingPointError, torch.linalg.LinAlgError) as error:
        pytest.fail(f"the fit ran away: {error}")


def test_scores_follow_their_items_and_ignore_how_often_all_was_played():
    wins, order = tensor(UNEVEN), tensor([2, 0, 3, 1])
    torch.testing.assert_close(fit_bradley_terry(wins[order][:, order]), fit_bradley_terry(wins)[order])
    torch.testing.assert_close(fit_bradley_terry(wins * 50), fit_bradley_terry(wins))
    torch.testing.assert_close(fit_bradley_terry(wins.T.contiguous()), -fit_bradley_terry(wins))


def test_scores_are_not_cut_to_whole_numbers_for_counts():
    found = fit_bradley_terry(tensor([[0, 200], [100, 0]], dtype=torch.uint8))
    torch.testing.assert_close(found, tensor([math.log(2) / 2, -math.log(2) / 2]))


@pytest.mark.parametrize(
    "wins, message",
    [
        (
            [[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]],
            "items 0 and 2 were never compared, not even by way",
        ),
        ([[0, 1, 2], [1, 0, 2], [0, 0, 0]], "item 2 never beat item 0, not even by way of others"),
        ([[0, 1], [0, 0]], "item 1 never beat item 0"),
        ([[0.0]], "at least two items; got 1"),
        ([[1, 1], [1, 0]], "0 for an item against itself"),
        ([[0, -1], [1, 0]], "finite, at least 0"),
        ([[0, math.inf], [1, 0]], "finite, at least 0"),
    ],
)
def test_a_fit_refuses_what_has_no_answer(wins, message):
    with pytest.raises((ValueError, FloatingPointError, RuntimeError), match=message) as caught:
        fit_bradley_terry(tensor(wins))
    assert caught.type is ValueError


def test_a_win_by_way_of_others_is_enough():
    """A ring of twenty: 0 beat 1, 1 beat 2, …, 19 beat 0. Each is as good as any."""
    ring = torch.eye(20).roll(1, dims=1)
    torch.testing.assert_close(fit_bradley_terry(ring), torch.zeros(20))


def test_a_fit_that_does_not_settle_says_so():
    with pytest.raises(FloatingPointError, match="1000 steps did not settle"):
        fit_bradley_terry(tensor([[0, 1.0], [1e-300, 0]]))


@pytest.mark.parametrize("beta", [0.0, -0.1, math.nan])
def test_beta_must_be_positive(beta):
    pair = columns(("chosen", "rejected", *REFERENCE, *LENGTHS))
    for call in (
        lambda: implied_reward(pair[0], pair[2], beta),
        lambda: dpo(*pair[:4], beta),
        lambda: length_normalized_dpo(*pair, beta),
        lambda: simpo(*pair[:2], *pair[4:], beta, 0.0),
    ):
        with pytest.raises(ValueError, match=f"beta scales the implied reward and must be positive; got {beta}"):
            call()


def test_a_response_without_tokens_has_no_mean():
    with pytest.raises(ValueError, match="needs at least one token; got a length of 0"):
        per_token(tensor([-1.0, 0.0]), tensor([2, 0]))
    with pytest.raises(ValueError, match="needs at least one token"):
        simpo(tensor([-1.0]), tensor([0.0]), tensor([1]), tensor([0]), 1.0, 0.0)


def test_pairs_of_a_sampled_group_push_the_chosen_up_and_the_rejected_down():
    """From prompts to a gradient step: the expected reward by enumeration rises, the way a student would use it all."""
    policy, prompts = oracle.toy_policy(), tensor([[1, 2], [0, 1]])

    def reward(_, responses):
        return tensor([[float((response == 0).sum()) for response in group] for group in responses])

    responses, mask = policy.sample(prompts, 16, torch.Generator().manual_seed(0))
    chosen, rejected = sample_pairs(reward(prompts, responses), 0.0)
    found = response_log_probs(policy, prompts, responses, mask).flatten()
    ref = found.detach()
    loss = dpo(found[chosen], found[rejected], ref[chosen], ref[rejected], 0.1).mean()
    slopes = torch.autograd.grad(loss, list(policy.parameters()))
    before = exact.expected_reward(policy, prompts, reward).detach()
    with torch.no_grad():
        for parameter, slope in zip(policy.parameters(), slopes, strict=True):
            parameter -= slope
    assert (exact.expected_reward(policy, prompts, reward) > before).all()
