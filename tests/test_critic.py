"""GAE against loops in plain Python and, with the exact value of a toy, against the policy gradient by enumeration."""

import math
import statistics
from functools import partial
from itertools import pairwise

import oracle
import pytest
import torch
from oracle import worth
from torch import tensor

from minirl import exact
from minirl.critic import explained_variance, gae, length_adaptive_lambda, value_loss
from minirl.losses import token_weights
from minirl.shaping import per_token_rewards

pytestmark = pytest.mark.usefixtures("float64")
NAN = float("nan")
SHARES = [0.0, 0.4, 0.95, 1.0]
lambdas = pytest.mark.parametrize("lam", SHARES)
gammas = pytest.mark.parametrize("gamma", [0.0, 0.9, 1.0])
PROMPT = (1, 2)


def ragged(seed=0):
    """Rewards, values and a mask for 3 × 4 responses of up to 6 tokens: cut short, with holes, full, and empty."""
    generator = torch.Generator().manual_seed(seed)
    rewards, values = torch.randn(2, 3, 4, 6, generator=generator)
    mask = torch.rand(3, 4, 6, generator=generator) < 0.6
    mask[0, 0], mask[0, 1], mask[0, 2], mask[0, 3] = True, False, torch.arange(6) < 3, torch.arange(6) == 2
    return rewards, values, mask


def gae_loop(rewards, values, kept, gamma, lam):
    """The sum of the definition for one response, given as lists; `kept` are the positions inside its mask."""
    value = [values[t] for t in kept] + [0.0]
    errors = [rewards[t] + gamma * value[j + 1] - value[j] for j, t in enumerate(kept)]
    advantages, returns = [0.0] * len(rewards), [0.0] * len(rewards)
    for j, t in enumerate(kept):
        advantages[t] = sum((gamma * lam) ** k * error for k, error in enumerate(errors[j:]))
        returns[t] = advantages[t] + values[t]
    return advantages, returns


def each(rewards, values, mask, lam):
    """b, g, the response's rewards and values as lists, the positions inside its mask, its λ."""
    for b, g in torch.cartesian_prod(torch.arange(len(mask)), torch.arange(mask.shape[1])).tolist():
        own = lam[b, g].item() if isinstance(lam, torch.Tensor) else lam
        yield b, g, rewards[b, g].tolist(), values[b, g].tolist(), mask[b, g].nonzero().flatten().tolist(), own


@gammas
@pytest.mark.parametrize("lam", [*SHARES, "per response"])
def test_gae_equals_its_formula_in_plain_python(gamma, lam):
    rewards, values, mask = ragged()
    lam = torch.linspace(0, 1, 12).view(3, 4) if lam == "per response" else lam
    advantages, returns = gae(rewards, values, mask, gamma, lam)
    for b, g, *response, own in each(rewards, values, mask, lam):
        expected = tensor(gae_loop(*response, gamma, own))
        torch.testing.assert_close(torch.stack([advantages[b, g], returns[b, g]]), expected)


def test_a_response_that_fits_in_the_head():
    """V = 0.5, 0.75, 0.25 and a reward of 1 at the end: errors 0.25, −0.5, 0.75, at λ = ½ added up from the right."""
    rewards, values = tensor([[[0.0, 0.0, 1.0]]]), tensor([[[0.5, 0.75, 0.25]]])
    advantages, returns = gae(rewards, values, values > 0, lam=0.5)
    torch.testing.assert_close(advantages, tensor([[[0.1875, -0.125, 0.75]]]))
    torch.testing.assert_close(returns, tensor([[[0.6875, 0.625, 1.0]]]))


def test_what_is_not_said_is_gamma_one_and_lambda_one():
    given = ragged()
    for found, expected in zip(gae(*given), gae(*given, 1.0, 1.0), strict=True):
        assert found.equal(expected)


@pytest.mark.parametrize("seed", range(3))
def test_gamma_and_lambda_one_give_the_outcome_less_the_value_at_every_token(seed):
    """Reward at the last token only: the baselined policy gradient, with V(s_t) for a baseline."""
    _, values, mask = ragged(seed)
    outcomes = torch.randn(3, 4, generator=torch.Generator().manual_seed(seed))
    zeros = torch.zeros_like(values)
    advantages, returns = gae(per_token_rewards(outcomes, zeros, zeros, mask, 0.0), values, mask)
    for b, g, _, value, kept, _ in each(values, values, mask, 1.0):
        outcome = outcomes[b, g].item()
        expected = [outcome - value[t] if t in kept else 0.0 for t in range(6)]
        torch.testing.assert_close(advantages[b, g], tensor(expected))
        assert returns[b, g].tolist() == [outcome if t in kept else 0.0 for t in range(6)]


def test_equal_outcomes_give_equal_returns_to_the_last_digit():
    """Values added and taken away again would leave dust, which a division by a variance blows up."""
    values = 5 * torch.randn(50, 4, 9, generator=torch.Generator().manual_seed(0), dtype=torch.float32)
    rewards = torch.zeros_like(values)
    rewards[..., -1] = 0.7
    _, returns = gae(rewards, values, rewards == rewards)
    assert (returns == tensor(0.7, dtype=torch.float32)).all()
    assert math.isnan(explained_variance(values, returns, rewards == rewards))


@gammas
def test_lambda_zero_is_the_error_of_one_step(gamma):
    rewards, values, mask = ragged()
    advantages, _ = gae(rewards, values, mask, gamma, 0.0)
    for b, g, reward, value, kept, _ in each(rewards, values, mask, 0.0):
        value_after = {t: value[after] for t, after in pairwise(kept)}
        for t in kept:
            assert advantages[b, g, t].item() == pytest.approx(reward[t] + gamma * value_after.get(t, 0.0) - value[t])


def test_a_price_per_token_is_charged_to_the_tokens_before_it():
    """γ = λ = 1, −β·k1 at each token and the outcome r at the end: A_t = r − β·Σ_{s ≥ t} k1_s − V_t."""
    log_probs, ref, values = torch.randn(3, 1, 1, 4, generator=torch.Generator().manual_seed(0))
    rewards = per_token_rewards(tensor([[2.0]]), log_probs, ref, values == values, beta=0.3)
    gaps = (log_probs - ref).flatten().tolist()
    expected = [2.0 - 0.3 * sum(gaps[t:]) - values[0, 0, t].item() for t in range(4)]
    torch.testing.assert_close(gae(rewards, values, values == values)[0], tensor([[expected]]))


@lambdas
def test_holes_change_nothing_but_the_place(lam):
    """Tool output between two tokens of the policy: the same as if the two stood side by side."""
    mask = tensor([True, True, False, False, True, False, True])
    rewards, values = torch.randn(2, 7, generator=torch.Generator().manual_seed(0))
    found = gae(rewards[None, None], values[None, None], mask[None, None], 0.9, lam)
    close = [part[mask][None, None] for part in (rewards, values, mask)]
    for spread, expected in zip(found, gae(*close, 0.9, lam), strict=True):
        torch.testing.assert_close(spread[0, 0, mask], expected[0, 0])
        assert (spread[0, 0, ~mask] == 0).all()


@lambdas
def test_what_stands_outside_the_mask_is_never_looked_at(lam):
    rewards, values, mask = ragged()
    hidden = gae(rewards.where(mask, NAN), values.where(mask, NAN), mask, 0.9, lam)
    for found, expected in zip(hidden, gae(rewards, values, mask, 0.9, lam), strict=True):
        assert found.equal(expected)
        assert (found[~mask] == 0).all()


@pytest.mark.parametrize("length", [0, 3])
def test_a_response_without_tokens_has_no_advantage(length):
    nothing = torch.zeros(2, 2, length)
    for found in gae(nothing + 1, nothing + 1, nothing > 0):
        assert found.shape == nothing.shape and (found == 0).all()


@lambdas
def test_responses_know_nothing_of_each_other(lam):
    rewards, values, mask = ragged()
    rows, columns = tensor([2, 0, 1])[:, None], tensor([3, 1, 0, 2])
    moved = gae(rewards[rows, columns], values[rows, columns], mask[rows, columns], 0.9, lam)
    for found, expected in zip(moved, gae(rewards, values, mask, 0.9, lam), strict=True):
        assert found.equal(expected[rows, columns])


def test_a_lambda_per_response_moves_with_it():
    given, lam, order = ragged(), torch.linspace(0, 1, 12).view(3, 4), tensor([2, 0, 1])
    moved = gae(*(part[order] for part in given), 0.9, lam[order])
    for found, expected in zip(moved, gae(*given, 0.9, lam), strict=True):
        assert found.equal(expected[order])


def test_the_unit_of_reward_is_free():
    rewards, values, mask = ragged()
    for found, expected in zip(gae(-3 * rewards, -3 * values, mask, 0.9, 0.4), gae(*ragged(), 0.9, 0.4), strict=True):
        torch.testing.assert_close(found, -3 * expected)


def test_decoupled_is_two_calls():
    """A λ for the policy's advantages, another for the value's returns: neither knows of the other."""
    given = ragged()
    advantages, returns = gae(*given, lam=0.4)[0], gae(*given, lam=1.0)[1]
    for b, g, *response, _ in each(*given, 1.0):
        expected = gae_loop(*response, 1.0, 0.4)[0], gae_loop(*response, 1.0, 1.0)[1]
        torch.testing.assert_close(torch.stack([advantages[b, g], returns[b, g]]), tensor(expected))


def test_advantages_and_returns_have_no_graph():
    """They are coefficients and targets. Differentiated, the policy's loss would move the critic."""
    rewards, values, mask = ragged()
    advantages, returns = gae(rewards, values.requires_grad_(), mask, 0.9, torch.ones(3, 4, requires_grad=True))
    assert not advantages.requires_grad and not returns.requires_grad


@pytest.mark.parametrize("share", [-0.1, 1.5, NAN])
def test_gamma_and_lambda_are_between_zero_and_one(share):
    with pytest.raises(ValueError, match=f"gamma is a share .* between 0 and 1; got {share:g}"):
        gae(*ragged(), gamma=share)
    with pytest.raises(ValueError, match=f"lam is a share .* between 0 and 1; got {share:g}"):
        gae(*ragged(), lam=share)
    with pytest.raises(ValueError, match=f"lam is a share .* got {share:g}"):
        gae(*ragged(), lam=tensor([[1.0, 0.5, 0.0, share]]).expand(3, 4))


# With the exact value of a toy ---------------------------------------------------------------------------------------


def paid_at_the_end(policy, prefix):
    """Worth, at the last token of a whole response; 0 before."""
    return worth(prefix) if prefix[-1] == policy.end_token or len(prefix) == policy.length else 0.0


def paid_on_the_way(policy, prefix):
    """A reward of its own for each token."""
    return worth(prefix)


payments = pytest.mark.parametrize("pay", [paid_at_the_end, paid_on_the_way])


def exact_value(policy, pay, prefix=()):
    """V(prompt, tokens so far): the mean of all that is still to be paid, by listing it."""
    if len(prefix) == policy.length or (prefix and prefix[-1] == policy.end_token):
        return 0.0
    after = [(*prefix, token) for token in range(policy.vocab_size)]
    worths = [pay(policy, longer) + exact_value(policy, pay, longer) for longer in after]
    return sum(p * value for p, value in zip(oracle.next_token(policy, PROMPT, prefix), worths, strict=True))


def wrong_value(policy, pay, prefix=()):
    """Off by another amount at each prefix, but a function of the prefix alone."""
    return exact_value(policy, pay, prefix) + math.sin(1 + len(prefix) + 2 * sum(prefix))


def listed_advantages(policy, pay, value, lam):
    """Every response to the prompt as one group, its mask, and its advantages [1, responses, token] at γ = 1."""
    listed = oracle.all_responses(policy)
    responses, mask = oracle.tensors(policy, listed)
    rewards, values = torch.zeros(2, *mask.shape)
    for g, response in enumerate(listed):
        for t in range(len(response)):
            rewards[g, t], values[g, t] = pay(policy, response[: t + 1]), value(policy, pay, response[:t])
    lam = lam if isinstance(lam, float) else lam(mask.sum(-1)[None])
    return responses[None], mask[None], gae(rewards[None], values[None], mask[None], 1.0, lam)[0]


def expected_gradient(policy, pay, value, lam):
    """Σ_y π(y)·Σ_t A_t(y)·∇log π(y_t), over every response."""
    responses, mask, advantages = listed_advantages(policy, pay, value, lam)
    log_probs = policy.log_probs(tensor([PROMPT]), responses, mask)
    chance = log_probs.sum(-1, keepdim=True).exp().detach()
    return exact.gradients((chance * advantages * log_probs).sum()[None], policy)[0]


def policy_gradient(policy, pay):
    """∇E[Σ_t r_t], from minirl's own enumeration."""

    def reward(prompts, every):
        listed = oracle.all_responses(policy)
        assert every[0].equal(oracle.tensors(policy, listed)[0])
        return tensor([[sum(pay(policy, y[: t + 1]) for t in range(len(y))) for y in listed]])

    return exact.gradient(policy, tensor([PROMPT]), reward)


@payments
@lambdas
def test_under_the_exact_value_the_advantage_is_zero_on_average_after_every_prefix(pay, lam):
    policy = oracle.toy_policy()
    listed = oracle.distribution(policy, PROMPT)
    _, _, advantages = listed_advantages(policy, pay, exact_value, lam)
    for prefix in {response[:t] for response in listed for t in range(len(response))}:
        t = len(prefix)
        follow = [(p, a[t].item()) for (y, p), a in zip(listed.items(), advantages[0], strict=True) if y[:t] == prefix]
        assert sum(p * a for p, a in follow) == pytest.approx(0, abs=1e-12)
        assert max(abs(a) for _, a in follow) > 0.1


@payments
@lambdas
def test_under_the_exact_value_every_lambda_gives_the_policy_gradient(pay, lam):
    policy = oracle.toy_policy()
    torch.testing.assert_close(expected_gradient(policy, pay, exact_value, lam), policy_gradient(policy, pay))


@payments
def test_under_the_exact_value_noise_grows_with_lambda(pay):
    """The errors of the steps are uncorrelated, so that each adds its own noise, times λ² for each step ahead."""
    policy = oracle.toy_policy()
    chances = tensor(list(oracle.distribution(policy, PROMPT).values()))
    firsts = [listed_advantages(policy, pay, exact_value, lam)[2][0, :, 0] for lam in SHARES]
    assert all(less < more for less, more in pairwise((chances * first**2).sum().item() for first in firsts))


def test_the_policy_gradient_is_that_of_central_differences():
    """What the tests above compare with, by a second way."""
    policy = oracle.toy_policy()
    expected = oracle.derivative(policy, lambda: oracle.expectation(policy, PROMPT, worth))
    torch.testing.assert_close(policy_gradient(policy, paid_at_the_end), expected, rtol=1e-7, atol=1e-9)


@payments
def test_a_wrong_value_leaves_no_bias_at_lambda_one_and_one_below(pay):
    policy = oracle.toy_policy()
    truth = policy_gradient(policy, pay)
    torch.testing.assert_close(expected_gradient(policy, pay, wrong_value, 1.0), truth)
    biases = [(expected_gradient(policy, pay, wrong_value, lam) - truth).norm().item() for lam in (0.0, 0.4, 0.95)]
    assert biases[0] > biases[1] > biases[2] > 0.01 * truth.norm().item()


def test_a_lambda_that_knows_the_length_leaves_a_bias_even_under_the_exact_value():
    policy, adaptive = oracle.toy_policy(), partial(length_adaptive_lambda, alpha=1.0)
    truth = policy_gradient(policy, paid_at_the_end)
    found = expected_gradient(policy, paid_at_the_end, exact_value, adaptive)
    assert (found - truth).norm() > 0.01 * truth.norm()


# The value's loss -----------------------------------------------------------------------------------------------------


def test_the_loss_is_half_the_square_and_its_slope_the_difference():
    _, values, _ = ragged()
    returns = ragged(1)[0]
    loss = value_loss(values.requires_grad_(), returns)
    loss.sum().backward()
    for v, r, one, slope in zip(*(x.flatten().tolist() for x in (values, returns, loss, values.grad)), strict=True):
        assert one == pytest.approx((v - r) ** 2 / 2) and slope == pytest.approx(v - r)


CLIPPED = [  # V, with V_old = 0, R = 1 and clip = 0.2; the loss; its slope; what happened to V
    (0.1, 0.405, -0.9, "still near the old one"),
    (0.5, 0.32, 0.0, "already moved towards the return"),
    (-0.5, 1.125, -1.5, "moved away from the return"),
    (1.5, 0.32, 0.0, "moved past the return, still nearer to it"),
    (3.0, 2.0, 2.0, "moved past the return, further from it"),
]


@pytest.mark.parametrize("value, loss, slope, what", CLIPPED, ids=[case[-1] for case in CLIPPED])
@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("old", [0.0, 5.0])
def test_the_clipped_loss_case_by_case(value, loss, slope, what, sign, old):
    values = tensor([[[old + sign * value]]], requires_grad=True)
    one = torch.ones_like(values).detach()
    found = value_loss(values, (old + sign) * one, old * one, 0.2)
    found.sum().backward()
    assert found.item() == pytest.approx(loss)
    assert values.grad.item() == pytest.approx(sign * slope)


def test_the_clipped_loss_equals_its_formula_in_plain_python():
    values, returns, old = (torch.randn(3, 4, 6, generator=torch.Generator().manual_seed(seed)) for seed in range(3))
    found = value_loss(values, returns, old, 0.5)
    for v, r, o, one in zip(*(x.flatten().tolist() for x in (values, returns, old, found)), strict=True):
        held = min(max(v, o - 0.5), o + 0.5)
        assert one == pytest.approx(max((v - r) ** 2, (held - r) ** 2) / 2)


def test_clipping_is_never_the_smaller_loss_and_far_away_it_is_none():
    values, returns, old = (torch.randn(3, 4, 6, generator=torch.Generator().manual_seed(seed)) for seed in range(3))
    plain = value_loss(values, returns)
    assert (value_loss(values, returns, old, 0.1) >= plain).all()
    assert (value_loss(values, returns, old, 0.1) > plain).any()
    assert value_loss(values, returns, old, 100.0).equal(plain)
    assert value_loss(values, returns, old).equal(plain)


@pytest.mark.parametrize("clip", [None, 0.2])
def test_only_the_values_get_a_gradient(clip):
    values, returns, old = torch.randn(3, 2, 2, 3, generator=torch.Generator().manual_seed(0)).requires_grad_().unbind()
    for part in (values, returns, old):
        part.retain_grad()
    value_loss(values, returns, old, clip).sum().backward()
    assert values.grad.any() and returns.grad is None and old.grad is None


@pytest.mark.parametrize("how", ["sequence", "token", "constant"])
def test_weights_add_the_loss_up_and_silence_what_is_outside_the_mask(how):
    _, values, mask = ragged()
    returns = ragged(1)[0]
    (value_loss(values.requires_grad_(), returns) * token_weights(mask, how)).sum().backward()
    lengths = [[kept.sum().item() for kept in group] for group in mask]
    divisor = {"sequence": lambda n: 12 * n, "token": lambda n: sum(map(sum, lengths)), "constant": lambda n: 12 * 6}
    for b, g, value, target, kept, _ in each(values.detach(), returns, mask, 1.0):
        expected = [(value[t] - target[t]) / divisor[how](lengths[b][g]) if t in kept else 0.0 for t in range(6)]
        torch.testing.assert_close(values.grad[b, g], tensor(expected))


def test_steps_on_the_loss_reach_the_mean_return():
    """The mean of what was paid after a prefix is its value: what a critic with no choice but a number learns."""
    value, returns = torch.zeros((), requires_grad=True), tensor([[[1.0, 0.0, 0.0, 1.0, 1.0]]])
    for _ in range(200):
        (slope,) = torch.autograd.grad(value_loss(value.expand(1, 1, 5), returns).mean(), value)
        value.data -= 0.2 * slope
    assert value.item() == pytest.approx(0.6)


def test_a_clip_needs_old_values_and_room():
    one = torch.ones(1, 1, 1)
    for wrong in ((None, 0.2), (one, 0.0), (one, -0.2), (one, NAN)):
        with pytest.raises(ValueError, match="must be positive and needs old_values; got"):
            value_loss(one, one, *wrong)


# λ from the length, and how good the values are -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", [torch.int64, torch.float64])
def test_lambda_grows_with_the_length(kind):
    """α = 0.05: nothing up to 20 tokens, a half at 40, 0.98 at 1000."""
    lengths = tensor([[0, 1, 20], [40, 100, 1000]], dtype=kind)
    torch.testing.assert_close(length_adaptive_lambda(lengths), tensor([[0.0, 0.0, 0.0], [0.5, 0.8, 0.98]]))
    expected = tensor([[0.0, 0.5, 0.975], [0.9875, 0.995, 0.9995]])
    torch.testing.assert_close(length_adaptive_lambda(lengths, 2.0), expected)


def test_the_weights_of_all_errors_sum_to_alpha_times_the_length():
    for length in (30, 200, 5000):
        lam = length_adaptive_lambda(tensor([length])).item()
        assert 1 / (1 - lam) == pytest.approx(0.05 * length)


@pytest.mark.parametrize("alpha", [0.0, -0.05, NAN])
def test_alpha_must_be_positive(alpha):
    with pytest.raises(ValueError, match=f"alpha is a share of the length and must be positive; got {alpha}"):
        length_adaptive_lambda(tensor([3]), alpha)


def test_a_lambda_for_each_ragged_response():
    """Lengths 6, 0, 3 and 1 in the first group: from the mask to a λ per response, an empty one included."""
    rewards, values, mask = ragged()
    lam = length_adaptive_lambda(mask.sum(-1), alpha=0.5)
    assert lam[0].tolist() == pytest.approx([1 - 1 / 3, 0.0, 1 - 1 / 1.5, 0.0])
    assert all(part.isfinite().all() for part in gae(rewards, values, mask, 1.0, lam))


def test_explained_variance_equals_its_formula_in_plain_python():
    _, values, mask = ragged()
    returns = ragged(1)[0]
    pairs = [(value[t], target[t]) for _, _, target, value, kept, _ in each(returns, values, mask, 1.0) for t in kept]
    left = statistics.pvariance([target - value for value, target in pairs])
    expected = 1 - left / statistics.pvariance([target for _, target in pairs])
    assert explained_variance(values, returns, mask) == pytest.approx(expected)
    hidden = explained_variance(values.where(mask, NAN), returns.where(mask, NAN), mask)
    assert hidden == explained_variance(values, returns, mask)


def test_one_for_the_perfect_critic_zero_for_a_constant_and_negative_for_a_harmful_one():
    returns, _, mask = ragged()
    assert explained_variance(returns, returns, mask) == 1
    assert explained_variance(returns + 7, returns, mask) == pytest.approx(1)
    assert explained_variance(torch.full_like(returns, 3.0), returns, mask) == pytest.approx(0)
    assert explained_variance(-returns, returns, mask) == pytest.approx(-3)
    assert explained_variance(0.5 * returns, returns, mask) == pytest.approx(0.75)


def test_explained_variance_keeps_its_digits_far_from_zero():
    """Returns of 4096 ± 1 in float32, half of whose spread is explained."""
    near = tensor([[[1.0, -1.0, 1.0, -1.0]]], dtype=torch.float32)
    assert explained_variance(4096 + near / 2, 4096 + near, near == near) == pytest.approx(0.75)


def test_without_spread_there_is_nothing_to_explain():
    tied, values = torch.full((1, 2, 7), 0.1, dtype=torch.float32), torch.randn(1, 2, 7, dtype=torch.float32)
    for mask in (tied > 0, tied < 0, values == values[0, 0, 0]):  # all tokens, none, one
        assert math.isnan(explained_variance(values, tied, mask))
