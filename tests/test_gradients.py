"""Every delta with every loss against the exact policy gradient: the expectation over all groups, not a sample of it.

The estimator's side is minirl's log-probs, deltas, losses and weights, summed over every ordered group of responses
with the probability of drawing it. The truth is `oracle`: plain Python and central differences.
"""

import functools
import itertools
import statistics

import oracle
import pytest
import torch
from oracle import worth

from minirl import losses
from minirl.deltas import DELTAS
from minirl.losses import LOSSES, token_weights

pytestmark = pytest.mark.usefixtures("float64")
PROMPT = (1, 2)
every_policy = pytest.mark.parametrize("kind", ["sorting", "toy"])
every_group = pytest.mark.parametrize(
    "kind, group_size", [("sorting", 2), ("sorting", 3), ("toy", 2), ("short toy", 3)]
)


def policy_loss(name, log_probs, old_log_probs, deltas):
    if name == "naive":
        return losses.naive(log_probs, deltas)
    return LOSSES[name](log_probs, old_log_probs, deltas)


def expected_gradient(policy, delta, loss, group_size, how="constant", constant=1.0, behaviour=None, prompt=PROMPT):
    """E[∇ loss] where `behaviour`, or else the policy itself, draws the group."""
    every, probs = oracle.groups(behaviour or policy, prompt, group_size)
    padded, mask = oracle.tensors(policy, list(itertools.chain(*every)))
    shape = (len(every), group_size, policy.length)
    prompts, padded, mask = torch.tensor(prompt).expand(len(every), -1), padded.view(shape), mask.view(shape)
    log_probs = policy.log_probs(prompts, padded, mask)
    old_log_probs = (behaviour or policy).log_probs(prompts, padded, mask)
    rewards = torch.tensor([[worth(response) for response in group] for group in every])
    weights = torch.cat([token_weights(group[None], how, constant) for group in mask])
    per_token = policy_loss(loss, log_probs, old_log_probs, DELTAS[delta](rewards))
    (torch.tensor(probs)[:, None, None] * weights * per_token).sum().backward()
    return oracle.gradient_of(policy)


@functools.cache
def truth(kind):
    """{response: probability}, and the derivative of each of these probabilities."""
    policy = oracle.POLICIES[kind]()
    return oracle.distribution(policy, PROMPT), oracle.probability_jacobian(policy, PROMPT)


def descent(kind, merit):
    """−∇E[merit(y)] with the merit itself held fixed: the loss gradient to expect."""
    listed, jacobian = truth(kind)
    return -torch.tensor([merit(response) for response in listed], dtype=torch.float64) @ jacobian


def given_first(kind, group_size, value):
    """E[value(rewards of the group, its responses) | y₁ = y], as a function of y, over every choice of the others."""
    listed, _ = truth(kind)

    def merit(first):
        total = 0.0
        for others in itertools.product(listed, repeat=group_size - 1):
            chance = 1.0
            for response in others:
                chance *= listed[response]
            group = (first, *others)
            total += chance * value([worth(response) for response in group], group)
        return total

    return merit


def standardised(rewards, group=None):
    """(r₁ − mean) / (std + 1e-6), and 0 in a tied group."""
    return (rewards[0] - statistics.mean(rewards)) / (statistics.stdev(rewards) + 1e-6)


def parallel(a, b):
    return torch.allclose(a / a.norm(), b / b.norm())


def chance_of_at_most(kind, reward):
    return sum(p for response, p in truth(kind)[0].items() if worth(response) <= reward)


@every_group
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("delta", ["raw", "leave_one_out"])
def test_unbiased_deltas_give_the_policy_gradient(kind, delta, loss, group_size):
    found = expected_gradient(oracle.POLICIES[kind](), delta, loss, group_size)
    torch.testing.assert_close(found, descent(kind, worth))


@every_group
@pytest.mark.parametrize("loss", LOSSES)
def test_centered_shrinks_the_policy_gradient_by_one_part_in_g(kind, loss, group_size):
    found = expected_gradient(oracle.POLICIES[kind](), "centered", loss, group_size)
    torch.testing.assert_close(found, (group_size - 1) / group_size * descent(kind, worth))


@every_policy
@pytest.mark.parametrize("loss", LOSSES)
def test_raw_and_max_only_of_a_single_response_give_the_policy_gradient(kind, loss):
    for delta in ("raw", "max_only"):
        found = expected_gradient(oracle.POLICIES[kind](), delta, loss, group_size=1)
        torch.testing.assert_close(found, descent(kind, worth))


@every_group
@pytest.mark.parametrize("loss", LOSSES)
def test_max_only_climbs_the_reward_times_the_chance_of_being_the_best(kind, loss, group_size):
    """E = ∇E[R · P(another's reward ≤ R)^(G−1)] with P held fixed: not the policy gradient."""
    found = expected_gradient(oracle.POLICIES[kind](), "max_only", loss, group_size)
    expected = descent(kind, lambda y: worth(y) * chance_of_at_most(kind, worth(y)) ** (group_size - 1))
    torch.testing.assert_close(found, expected)
    assert not parallel(found, descent(kind, worth))


@every_group
@pytest.mark.parametrize("loss", LOSSES)
def test_normalized_climbs_the_standardised_reward(kind, loss, group_size):
    found = expected_gradient(oracle.POLICIES[kind](), "normalized", loss, group_size)
    torch.testing.assert_close(found, descent(kind, given_first(kind, group_size, standardised)))
    assert not parallel(found, descent(kind, worth))


@every_policy
def test_normalized_in_pairs_only_counts_wins(kind):
    """With G = 2 the delta is ±1/√2 or 0: the gradient is that of P(win) − P(lose), over √2."""
    found = expected_gradient(oracle.POLICIES[kind](), "normalized", "naive", group_size=2)
    wins = given_first(kind, 2, lambda r, _: ((r[0] > r[1]) - (r[0] < r[1])) / 2**0.5)
    torch.testing.assert_close(
        found, descent(kind, wins), rtol=1e-5, atol=1e-6
    )  # ε = 1e-6 against a std of 0.7 or more


@every_group
def test_sequence_weights_climb_reward_per_token(kind, group_size):
    """1/length divides each reward by its response's length, which raw makes plain: ∇E[R / |y|]."""
    found = expected_gradient(oracle.POLICIES[kind](), "raw", "unclipped", group_size, how="sequence", constant=None)
    torch.testing.assert_close(found, descent(kind, lambda y: worth(y) / len(y)))


@every_group
def test_sequence_weights_keep_a_length_bias_behind_a_baseline(kind, group_size):
    """With leave-one-out: ∇E[R / |y|] − E[R]·∇E[1 / |y|], the length bias that Dr. GRPO removes."""
    policy = oracle.POLICIES[kind]()
    mean = oracle.expectation(policy, PROMPT, worth)
    found = expected_gradient(policy, "leave_one_out", "unclipped", group_size, how="sequence", constant=None)
    torch.testing.assert_close(found, descent(kind, lambda y: (worth(y) - mean) / len(y)))


@every_group
@pytest.mark.parametrize("delta", ["raw", "leave_one_out"])
def test_token_weights_share_one_divisor_in_the_batch(kind, delta, group_size):
    def shared(rewards, group):
        baseline = 0 if delta == "raw" else statistics.mean(rewards[1:])
        return group_size * (rewards[0] - baseline) / sum(len(response) for response in group)

    found = expected_gradient(oracle.POLICIES[kind](), delta, "unclipped", group_size, how="token", constant=None)
    torch.testing.assert_close(found, descent(kind, given_first(kind, group_size, shared)))


@every_policy
def test_constant_weights_divide_the_policy_gradient_by_the_length_of_the_tensor(kind):
    policy = oracle.POLICIES[kind]()
    found = expected_gradient(policy, "leave_one_out", "unclipped", 2, how="constant", constant=None)
    torch.testing.assert_close(found, descent(kind, worth) / policy.length)


def importance_weighted(policy, behaviour):
    """Σ_t E[ρ_t R] over responses of `behaviour`: what each token is worth if it alone came from `policy`."""
    total = 0.0
    for response, chance in oracle.distribution(behaviour, PROMPT).items():
        new = oracle.token_probabilities(policy, PROMPT, response)
        old = oracle.token_probabilities(behaviour, PROMPT, response)
        total += sum(chance * a / b * worth(response) for a, b in zip(new, old, strict=True))
    return total


@every_group
@pytest.mark.parametrize("delta", ["raw", "leave_one_out"])
def test_unclipped_is_unbiased_off_policy_for_the_importance_weighted_objective(kind, delta, group_size):
    policy, behaviour = oracle.POLICIES[kind](seed=0), oracle.POLICIES[kind](seed=1)
    expected = -oracle.derivative(policy, lambda: importance_weighted(policy, behaviour))
    found = expected_gradient(policy, delta, "unclipped", group_size, behaviour=behaviour)
    torch.testing.assert_close(found, expected)


@every_policy
@pytest.mark.parametrize("delta", ["raw", "leave_one_out"])
def test_unclipped_off_policy_gives_the_current_policy_gradient_for_one_token(kind, delta):
    """With one token, ρ is the ratio of whole responses: the gradient is that of the current policy's E[R]."""
    policy, behaviour = (oracle.POLICIES[kind](seed=seed, length=1) for seed in (0, 1))
    policy_gradient = oracle.derivative(policy, lambda: oracle.expectation(policy, (1,), worth))
    found = expected_gradient(policy, delta, "unclipped", group_size=2, behaviour=behaviour, prompt=(1,))
    torch.testing.assert_close(found, -policy_gradient)


@every_policy
def test_naive_off_policy_is_not_corrected(kind):
    """It weighs ∇log π by the old policy's probabilities: some gradient, but of no objective of the new policy."""
    policy, behaviour = oracle.POLICIES[kind](seed=0), oracle.POLICIES[kind](seed=1)
    old, (new, jacobian) = oracle.distribution(behaviour, PROMPT), truth(kind)
    uncorrected = -torch.tensor([old[y] / new[y] * worth(y) for y in new]) @ jacobian
    found = expected_gradient(policy, "raw", "naive", group_size=2, behaviour=behaviour)
    torch.testing.assert_close(found, uncorrected)
    assert not parallel(found, descent(kind, worth))


@every_policy
def test_clipped_off_policy_equals_unclipped_while_nothing_is_clipped(kind):
    policy, behaviour = oracle.POLICIES[kind](seed=0), oracle.POLICIES[kind](seed=0)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter += 1e-3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(2))
    found = expected_gradient(policy, "leave_one_out", "clipped", 2, behaviour=behaviour)
    policy.zero_grad()
    torch.testing.assert_close(found, expected_gradient(policy, "leave_one_out", "unclipped", 2, behaviour=behaviour))
