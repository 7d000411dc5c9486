"""What single methods add to deltas and losses: formulas in plain Python, and expected gradients by enumeration.

The expectation is over every group of responses, through the loop's own `token_losses` and `token_weights`; the truth
is `oracle`'s: −Σ_y merit(y)·∇π(y), by central differences, where the merit is worked out by hand.
"""

import itertools
import math
import statistics

import oracle
import pytest
import torch
from oracle import worth
from test_gradients import PROMPT, descent, given_first, parallel, truth
from torch import tensor

from minirl.config import DELTAS, LOSSES
from minirl.deltas import normalized
from minirl.losses import clipped, naive, token_weights, unclipped
from minirl.objective import silent, token_losses, with_imitation
from minirl.policy import SortingPolicy
from minirl.rollout import Rollout, collect
from minirl.sorting import LECTURE_PROMPTS, SortingTask
from minirl.train import Config, State, learn, train
from minirl.variants import batch_normalized, clipped_weight, rescaled, sequence_level, squared

pytestmark = pytest.mark.usefixtures("float64")
every_policy = pytest.mark.parametrize("kind", ["sorting", "toy"])
SUM = {"aggregation": "constant", "constant": 1.0}


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def ragged(batch=3, group=4, length=5, seed=0):
    """Old and current log-probs, deltas and a mask, with one response that has no tokens."""
    old, moved = -numbers(batch, group, length, seed=seed).abs(), numbers(batch, group, length, seed=seed + 1)
    lengths = torch.arange(batch * group).view(batch, group) % (length + 1)
    mask = torch.arange(length) < lengths[..., None]
    deltas = numbers(batch, group, seed=seed + 2)
    return (old + moved).masked_fill(~mask, 0), old.masked_fill(~mask, 0), deltas, mask


def slope(loss, log_probs):
    """∂ Σ loss/∂ log π."""
    log_probs = log_probs.clone().requires_grad_()
    return torch.autograd.grad(loss(log_probs).sum(), log_probs)[0]


# --- Deltas ----------------------------------------------------------------------------------------------------------

REWARDS = [[1.0, 0.0, 0.0], [1.0, 1.0, 1.0], [3.0, -2.0, 0.5], [0.1, 0.1, 0.1]]


def test_batch_normalized_has_one_scale_for_all_prompts():
    differences = [reward - statistics.mean(group) for group in REWARDS for reward in group]
    expected = tensor([d / (statistics.stdev(differences) + 1e-6) for d in differences]).view(4, 3)
    torch.testing.assert_close(batch_normalized(tensor(REWARDS)), expected)


def test_batch_normalized_keeps_how_much_prompts_vary_and_normalized_does_not():
    rewards = tensor([[1.0, 0.0], [3.0, 1.0]])
    found = batch_normalized(rewards)
    torch.testing.assert_close(found[1], 2 * found[0])
    torch.testing.assert_close(*normalized(rewards), rtol=1e-5, atol=0)
    torch.testing.assert_close(batch_normalized(1000 * rewards - 7), found, rtol=1e-5, atol=0)


def test_rescaled_is_what_is_left_when_tied_groups_are_not_counted():
    """Four groups, two of them tied: twice the centred rewards, whose mean over all is that of the other two."""
    rewards = tensor(REWARDS)
    centred = rewards - rewards.mean(-1, keepdim=True)
    found = rescaled(rewards)
    torch.testing.assert_close(found[[0, 2]], 2 * centred[[0, 2]])
    assert (found[[1, 3]] == 0).all()
    torch.testing.assert_close(found.abs().mean(), centred[[0, 2]].abs().mean())
    torch.testing.assert_close(rescaled(rewards[[0, 2]]), centred[[0, 2]])


@pytest.mark.parametrize("delta", [batch_normalized, rescaled])
def test_where_all_are_tied_deltas_are_exactly_zero(delta):
    assert (delta(tensor([[0.1] * 10, [0.7] * 10])) == 0).all()


@pytest.mark.parametrize("delta", [batch_normalized, rescaled])
def test_a_group_of_one_cannot_be_compared(delta):
    with pytest.raises(ValueError, match="this delta compares the responses to a prompt; got 1"):
        delta(torch.ones(3, 1))


# --- Losses ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("low, high", [(0.2, 0.28), (1.0, 0.28), (0.05, 0.6)])
def test_clipped_weight_is_a_policy_gradient_with_a_bounded_weight(low, high):
    new, old, deltas, _ = ragged()
    weights = (new - old).exp().clamp(1 - low, 1 + high)
    assert (weights == 1 + high).any() and (low == 1 or (weights == 1 - low).any())
    torch.testing.assert_close(clipped_weight(new, old, deltas, low, high), -weights * deltas[..., None] * new)
    found = slope(lambda log_probs: clipped_weight(log_probs, old, deltas, low, high), new)
    torch.testing.assert_close(found, -weights * deltas[..., None])
    assert (found != 0).all()  # no token is silenced


def test_clipped_weight_clips_at_a_fifth_by_default():
    new, old, deltas, _ = ragged()
    assert clipped_weight(new, old, deltas).equal(clipped_weight(new, old, deltas, 0.2, 0.2))


def test_clipped_weight_has_the_gradient_of_unclipped_where_nothing_is_clipped():
    new, old, deltas, _ = ragged()
    found = slope(lambda log_probs: clipped_weight(log_probs, old, deltas, 1.0, 1e6), new)
    torch.testing.assert_close(found, slope(lambda log_probs: unclipped(log_probs, old, deltas), new))


def test_squared_is_the_square_of_a_whole_response_at_each_of_its_tokens():
    new, old, deltas, _ = ragged()
    for tau in (0.1, 2.0):
        found = squared(new, old, deltas, tau)
        for b, g in itertools.product(range(3), range(4)):
            drift = sum(n - o for n, o in zip(new[b, g].tolist(), old[b, g].tolist(), strict=True))
            assert found[b, g].tolist() == pytest.approx([(deltas[b, g].item() - tau * drift) ** 2] * 5)
    assert squared(new, old, deltas).equal(squared(new, old, deltas, 0.1))


def test_squared_is_a_policy_gradient_and_a_pull_back():
    """2τ times the gradient of −δ·log π + τ/2·(log π/π_old)², as its docstring says."""
    new, old, deltas, mask = ragged()
    weights, tau = token_weights(mask), 0.3

    def held(log_probs):
        drift = (log_probs - old).sum(-1)
        return 2 * tau * (-deltas * log_probs.sum(-1) + tau / 2 * drift**2) / mask.shape[0] / mask.shape[1]

    found = slope(lambda log_probs: squared(log_probs, old, deltas, tau) * weights, new)
    torch.testing.assert_close(found[mask], slope(held, new)[mask])


def test_squared_pulls_back_a_response_that_is_neither_good_nor_bad():
    new, old, _, mask = ragged()
    config = Config(loss="squared", tau=0.5)
    found = slope(lambda log_probs: squared(log_probs, old, torch.zeros(3, 4), 0.5), new)
    drift = (new - old).sum(-1, keepdim=True).expand_as(new)
    assert (found[mask].sign() == drift[mask].sign()).all()
    rollout = Rollout(torch.zeros(3, 1, dtype=torch.long), mask.long(), mask, torch.zeros(3, 4), old)
    assert not silent(rollout, rollout.rewards, config).any()
    assert silent(rollout, rollout.rewards, Config()).all()


@pytest.mark.parametrize("old_in_graph", [False, True])
def test_every_token_has_the_mean_ratio_of_its_response(old_in_graph):
    new, old, _, mask = ragged()
    found = sequence_level(new, old.clone().requires_grad_(old_in_graph), mask)
    assert not found.requires_grad and (found[~mask] == 0).all()
    for b, g in itertools.product(range(3), range(4)):
        inside = [t for t in range(5) if mask[b, g, t]]
        product = math.prod(math.exp(new[b, g, t].item() - old[b, g, t].item()) for t in inside)
        for t in inside:
            ratio = math.exp(found[b, g, t].item() - old[b, g, t].item())
            assert ratio == pytest.approx(product ** (1 / len(inside)))


def test_what_stands_outside_the_mask_is_not_in_the_mean_ratio():
    new, old, _, mask = ragged()
    noise = numbers(3, 4, 5, seed=9).masked_fill(mask, 0)
    torch.testing.assert_close(sequence_level(new + noise, old - noise, mask), sequence_level(new, old, mask))


def test_a_clip_of_whole_responses_keeps_or_drops_them():
    new, old, deltas, mask = ragged()
    config = Config(ratio="sequence", clip_low=0.05, clip_high=0.1)
    rollout = Rollout(torch.zeros(3, 1, dtype=torch.long), mask.long(), mask, deltas, old)
    found = slope(lambda log_probs: token_losses(log_probs, rollout, deltas, config) * token_weights(mask), new)
    ratio = (sequence_level(new, old, mask) - old).exp()[..., 0]
    cut = ((ratio > 1.1) & (deltas > 0)) | ((ratio < 0.95) & (deltas < 0))
    assert 0 < cut.sum() < cut.numel()
    assert ((found != 0) == (mask & ~cut[..., None])).all()


def test_a_kl_in_the_loss_stays_one_of_each_token():
    """The ratio is the response's, the drift from the reference is each token's own."""
    new, old, deltas, mask = ragged()
    ref = (old + 0.3 * numbers(3, 4, 5, seed=8)).masked_fill(~mask, 0)
    rollout = Rollout(torch.zeros(3, 1, dtype=torch.long), mask.long(), mask, deltas, old, ref)
    config = Config(ratio="sequence", beta=0.4, kl="k2")
    expected = clipped(sequence_level(new, old, mask), old, deltas) + 0.4 * (new - ref) ** 2 / 2
    torch.testing.assert_close(token_losses(new, rollout, deltas, config), expected)


def test_where_whole_responses_are_clipped_the_metrics_count_them():
    """A third of the tokens, in one response of three, is beyond the clip; none of the others is, taken together."""
    mask = torch.ones(1, 3, 2, dtype=torch.bool)
    drift = tensor([[[0.5, -0.3], [0.5, -0.5], [-0.9, 0.9]]])
    rollout = Rollout(torch.zeros(1, 1, dtype=torch.long), mask.long(), mask, tensor([[3.0, 2.0, -5.0]]), -1 - drift)

    class Still(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table = torch.nn.Parameter(torch.full((1, 3, 2), -1.0))

        def log_probs(self, prompts, responses, mask):
            return self.table.masked_fill(~mask, 0)

    settings = {"clip_low": 0.05, "clip_high": 0.05, "inner_steps": 1}
    shares = {}
    for ratio in ("token", "sequence"):
        policy, config = Still(), Config(ratio=ratio, **settings)
        metrics = learn(policy, rollout, config, State(policy, config))
        shares[ratio] = metrics["clip_low"], metrics["clip_high"]
    assert shares["sequence"] == pytest.approx((0, 1 / 3))
    assert shares["token"] == pytest.approx((1 / 6, 2 / 6))


# --- The dual clip ---------------------------------------------------------------------------------------------------


def dual_clip_loop(ratio, delta, low, high, bound):
    loss = -min(ratio * delta, min(max(ratio, 1 - low), 1 + high) * delta)
    return min(loss, -bound * delta) if delta < 0 else loss


def test_the_dual_clip_equals_its_formula_in_plain_python():
    """max(min(ρδ, clip(ρ)·δ), c·δ) where δ < 0 (arXiv:1912.09729), and nothing else elsewhere."""
    for ratio, delta in itertools.product([0.1, 0.75, 1.0, 1.25, 2.9, 3.1, 50.0], [-2.0, -0.3, 0.0, 0.3, 2.0]):
        log_probs, old = tensor([[[math.log(ratio) - 1.5]]]), tensor([[[-1.5]]])
        found = clipped(log_probs, old, tensor([[delta]]), 0.2, 0.28, 3.0)
        assert found.item() == pytest.approx(dual_clip_loop(ratio, delta, 0.2, 0.28, 3.0), rel=1e-12)


def test_the_dual_clip_silences_bad_tokens_that_became_likely_and_no_others():
    old, ratios = torch.full((1, 1, 4), -2.0), tensor([[[2.9, 3.1, 3.1, 0.9]]])
    deltas = tensor([[[-1.0, -1.0, 1.0, -1.0]]])
    found = slope(lambda log_probs: clipped(log_probs, old, deltas, 0.2, 0.2, 3.0), old + ratios.log())
    torch.testing.assert_close(found, tensor([[[2.9, 0.0, 0.0, 0.9]]]))
    without = slope(lambda log_probs: clipped(log_probs, old, deltas, 0.2, 0.2), old + ratios.log())
    torch.testing.assert_close(without, tensor([[[2.9, 3.1, 0.0, 0.9]]]))


def test_the_dual_clip_of_the_config_reaches_the_loss():
    new, old, deltas, mask = ragged()
    rollout = Rollout(torch.zeros(3, 1, dtype=torch.long), mask.long(), mask, deltas, old)
    for bound in (None, 1.5):
        config = Config(dual_clip=bound, clip_low=0.1, clip_high=0.3)
        found = token_losses(new, rollout, deltas, config)
        torch.testing.assert_close(found, clipped(new, old, deltas, 0.1, 0.3, bound))
    assert not found.equal(clipped(new, old, deltas, 0.1, 0.3))


@pytest.mark.parametrize("bound", [1.0, 0.5])
def test_a_dual_clip_that_would_silence_fresh_responses_is_refused(bound):
    with pytest.raises(ValueError, match="dual_clip bounds what a token costs that became likelier, so it must be"):
        Config(dual_clip=bound)


def test_what_compares_responses_needs_two_of_them():
    with pytest.raises(ValueError, match=r"keep='varied' compares the responses to a prompt; expected group_size ≥ 2"):
        Config(keep="varied", group_size=1)
    with pytest.raises(ValueError, match=r"keep_share is a share of the groups and must be at most 1; got 1\.5"):
        Config(keep="varied", keep_share=1.5)


# --- Imitation -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("above", [0.0, 0.5, -0.3])
@pytest.mark.parametrize("aggregation", ["sequence", "token", "constant"])
def test_what_is_imitated_is_a_mean_over_right_tokens_whatever_adds_up_the_rest(aggregation, above):
    new, old, deltas, mask = ragged()
    rewards = numbers(3, 4, seed=5)
    rollout = Rollout(torch.zeros(3, 1, dtype=torch.long), mask.long(), mask, rewards, old)
    weights = token_weights(mask, aggregation)
    config = Config(positive_weight=0.3, positive_above=above, aggregation=aggregation)
    found = token_losses(new, with_imitation(rollout, weights, config), deltas, config)
    right = mask & (rewards > above)[..., None]
    plain = (token_losses(new, rollout, deltas, config) * weights).sum()
    torch.testing.assert_close((found * weights).sum(), plain - 0.3 * new[right].mean())
    assert 0 < right.sum() < mask.sum()


def test_without_right_responses_there_is_nothing_to_imitate():
    new, old, deltas, mask = ragged()
    config, weights = Config(positive_weight=0.3), token_weights(mask)
    rollout = Rollout(torch.zeros(3, 1, dtype=torch.long), mask.long(), mask, torch.zeros(3, 4), old)
    found = token_losses(new, with_imitation(rollout, weights, config), deltas, config)
    assert found.equal(token_losses(new, rollout, deltas, config))
    assert with_imitation(rollout, weights, Config()) is rollout


def test_a_response_that_is_imitated_is_not_silent():
    """A tied group of right answers has deltas of 0, and is imitated all the same."""
    policy = SortingPolicy(seed=0)
    task = SortingTask(reward=lambda prompts, responses: torch.ones(responses.shape[:2]), prompts=LECTURE_PROMPTS)
    rollout = collect(policy, task, task.held_out(), 4)
    before = rollout.old_log_probs.sum()
    config = Config(positive_weight=0.5, inner_steps=1, learning_rate=0.01)
    metrics = learn(policy, rollout, config, State(policy, config))
    assert metrics["zero_signal_groups"] == 1 and metrics["grad_norm"] > 0
    assert metrics["loss"] == pytest.approx(-0.5 * rollout.old_log_probs.mean().item())
    assert policy.log_probs(rollout.prompts, rollout.responses, rollout.mask).sum() > before


# --- The learning rate grows -----------------------------------------------------------------------------------------


def test_the_learning_rate_grows_over_the_first_gradient_steps():
    policy, seen = SortingPolicy(seed=0), []
    config = Config(epochs=4, inner_steps=2, batch_size=3, group_size=4, learning_rate=0.6, warmup_steps=5)
    state = State(policy, config)
    original = state.optimizer.step
    state.optimizer.step = lambda: (seen.append(state.optimizer.param_groups[0]["lr"]), original())
    list(train(policy, SortingTask(prompts=LECTURE_PROMPTS), config, resume_from=state))
    assert seen == pytest.approx([0.12, 0.24, 0.36, 0.48, 0.6, 0.6, 0.6, 0.6])


# --- Other libraries' sums -------------------------------------------------------------------------------------------


def in_order(losses, mask):
    """Lists of the losses inside each response."""
    return [
        [loss for loss, inside in zip(row, kept, strict=True) if inside]
        for row, kept in zip(losses.flatten(0, 1).tolist(), mask.flatten(0, 1).tolist(), strict=True)
    ]


def test_weights_add_up_as_verl_does():
    """Its loss_agg_mode, in plain Python. Only "-norm" is a sum over responses: B·G times our mean of them."""
    losses, _, _, mask = ragged()
    mask[0, 0, 0] = True  # an empty response would be 0/0 there
    rows = in_order(losses, mask)
    modes = {
        "token-mean": sum(itertools.chain(*rows)) / sum(map(len, rows)),
        "seq-mean-token-sum": sum(map(sum, rows)) / len(rows),
        "seq-mean-token-mean": sum(sum(row) / len(row) for row in rows if row) / len(rows),
        "seq-mean-token-sum-norm": sum(map(sum, rows)) / 5,
    }
    ours = {
        "token-mean": token_weights(mask, "token"),
        "seq-mean-token-sum": token_weights(mask, "constant", 1.0),
        "seq-mean-token-mean": token_weights(mask, "sequence"),
        "seq-mean-token-sum-norm": 12 * token_weights(mask, "constant"),
    }
    for mode, expected in modes.items():
        assert (losses * ours[mode]).sum().item() == pytest.approx(expected), mode


def test_a_response_that_is_weighed_evenly_has_verls_gradient_of_the_sequence_ratio():
    """verl's is that of sg(s)·π/sg(π) at each token, −s·δ by each log π; ours shares the mean ratio: the same sum."""
    new, old, deltas, mask = ragged()
    weights, config = token_weights(mask), Config(loss="unclipped", ratio="sequence")
    rollout = Rollout(torch.zeros(3, 1, dtype=torch.long), mask.long(), mask, deltas, old)
    found = slope(lambda log_probs: token_losses(log_probs, rollout, deltas, config) * weights, new)
    ratio = ((new - old).sum(-1) / mask.sum(-1).clamp(min=1)).exp()
    torch.testing.assert_close(found, -(ratio * deltas)[..., None] * weights)


# --- Expected gradients ----------------------------------------------------------------------------------------------


def expected_gradient(kind, group_size=2, behaviour=None, batch=1, **settings):
    """E[∇ loss] over every batch of groups, where the policy itself, or else another seed's, draws them."""
    config = Config(**{**SUM, "delta": "raw", **settings})
    policy = oracle.POLICIES[kind]()
    sampler = policy if behaviour is None else oracle.POLICIES[kind](seed=behaviour)
    every, probs = oracle.groups(sampler, PROMPT, group_size * batch)
    padded, mask = oracle.tensors(policy, list(itertools.chain(*every)))
    shape = (len(every), batch, group_size, policy.length)
    padded, mask = padded.view(shape), mask.view(shape)
    rewards = tensor([[worth(response) for response in group] for group in every]).view(shape[:-1])
    deltas = torch.stack([DELTAS[config.delta](each) for each in rewards]).flatten(0, 1)
    weights = torch.stack([token_weights(each, config.aggregation, config.constant) for each in mask])
    padded, mask, weights = padded.flatten(0, 1), mask.flatten(0, 1), weights.flatten(0, 1)
    prompts = torch.tensor(PROMPT).expand(len(mask), -1)
    old = sampler.log_probs(prompts, padded, mask).detach()
    rollout = Rollout(prompts, padded, mask, rewards.flatten(0, 1), old)
    losses = token_losses(policy.log_probs(prompts, padded, mask), rollout, deltas, config)
    chances = tensor(probs).repeat_interleave(batch)[:, None, None]
    (chances * weights * losses).sum().backward()
    return oracle.gradient_of(policy)


def listed_drift(kind, seed):
    """response: its probability under the other policy, and log π/π_old of each of its tokens."""
    policy, other = oracle.POLICIES[kind](), oracle.POLICIES[kind](seed=seed)
    found = {}
    for response, chance in oracle.distribution(other, PROMPT).items():
        pairs = zip(*(oracle.token_probabilities(each, PROMPT, response) for each in (policy, other)), strict=True)
        found[response] = chance, [math.log(new / old) for new, old in pairs]
    return found


FRESH = {
    "clipped_weight": ({"loss": "clipped_weight"}, 1.0),
    "squared": ({"loss": "squared", "aggregation": "sequence", "constant": None, "tau": 0.35}, 0.7),
    "sequence_level": ({"loss": "unclipped", "ratio": "sequence"}, 1.0),
    "sequence_level clipped": ({"loss": "clipped", "ratio": "sequence", "clip_low": 3e-4, "clip_high": 4e-4}, 1.0),
    "dual clip": ({"loss": "clipped", "dual_clip": 3.0}, 1.0),
}


@every_policy
@pytest.mark.parametrize("settings, scale", FRESH.values(), ids=FRESH)
@pytest.mark.parametrize("delta, shrunk", [("raw", 1.0), ("leave_one_out", 1.0), ("centered", 0.5)])
def test_on_fresh_responses_each_loss_has_the_policy_gradient(kind, settings, scale, delta, shrunk):
    """Up to its own scale: 2τ for the square."""
    found = expected_gradient(kind, delta=delta, **settings)
    torch.testing.assert_close(found, scale * shrunk * descent(kind, worth))


@every_policy
def test_the_sequence_ratio_under_sequence_weights_divides_each_reward_by_the_length(kind):
    found = expected_gradient(kind, loss="unclipped", ratio="sequence", aggregation="sequence", constant=None)
    torch.testing.assert_close(found, descent(kind, lambda y: worth(y) / len(y)))


@pytest.mark.parametrize("how", ["sequence", "constant"])
def test_the_sequence_ratio_off_policy_climbs_the_root_of_the_importance_weight(how):
    """E_old[(π/π_old)^(1/length)·R], or by sums over tokens length times that; not the policy gradient."""
    policy, other = oracle.toy_policy(), oracle.toy_policy(seed=1)
    listed = oracle.distribution(other, PROMPT)

    def objective():
        new = oracle.distribution(policy, PROMPT)
        size = {y: 1 if how == "sequence" else len(y) for y in listed}
        return sum(p * size[y] * (new[y] / p) ** (1 / len(y)) * worth(y) for y, p in listed.items())

    settings = {"aggregation": "sequence", "constant": None} if how == "sequence" else SUM
    found = expected_gradient("toy", behaviour=1, loss="unclipped", ratio="sequence", **settings)
    torch.testing.assert_close(found, -oracle.derivative(policy, objective))
    assert not parallel(found, descent("toy", worth))


@pytest.mark.parametrize("high", [0.28, 1e6])
def test_the_clipped_weight_off_policy_weighs_each_token_by_what_the_clip_leaves(high):
    """Σ_y π_old(y)·R·Σ_t min(ρ_t, 1 + ε)·∇log π_t; with nothing to clip, unclipped's gradient."""
    policy, drift = oracle.toy_policy(), listed_drift("toy", 1)
    weights = {y: [min(math.exp(each), 1 + high) for each in logs] for y, (_, logs) in drift.items()}
    assert (high > 1e3) or any(math.exp(each) > 1 + high for _, logs in drift.values() for each in logs)

    def surrogate():
        total = 0.0
        for y, (chance, _) in drift.items():
            logs = [math.log(p) for p in oracle.token_probabilities(policy, PROMPT, y)]
            total += chance * worth(y) * sum(w * each for w, each in zip(weights[y], logs, strict=True))
        return total

    found = expected_gradient("toy", behaviour=1, loss="clipped_weight", clip_low=1.0, clip_high=high)
    torch.testing.assert_close(found, -oracle.derivative(policy, surrogate))
    unclipped = expected_gradient("toy", behaviour=1, loss="unclipped")
    assert torch.allclose(found, unclipped) == (high > 1e3)


def test_the_square_off_policy_pulls_back_by_the_drift():
    """−2τ·E_old[(R − τ·log π/π_old)·∇log π]: the drift is paid as a price would be."""
    policy, drift, tau = oracle.toy_policy(), listed_drift("toy", 1), 0.35

    def surrogate():
        now = {y: sum(map(math.log, oracle.token_probabilities(policy, PROMPT, y))) for y in drift}
        return sum(p * (worth(y) - tau * sum(logs)) * now[y] for y, (p, logs) in drift.items())

    found = expected_gradient("toy", behaviour=1, loss="squared", tau=tau, aggregation="sequence", constant=None)
    torch.testing.assert_close(found, -2 * tau * oracle.derivative(policy, surrogate))


@pytest.mark.parametrize("kind, group_size", [("sorting", 2), ("short toy", 2)])
def test_rescaled_climbs_the_policy_gradient_by_a_known_factor(kind, group_size):
    """(1 − q^B)/(1 − q) times centred's (G − 1)/G, where q is the chance that a group is tied: B groups to a prompt."""
    listed, _ = truth(kind)
    levels = {worth(y) for y in listed}
    q = sum(sum(p for y, p in listed.items() if worth(y) == level) ** group_size for level in levels)
    assert 0.1 < q < 0.9
    found = expected_gradient(kind, group_size, batch=2, delta="rescaled", loss="naive")
    factor = (1 - q**2) / (1 - q) * (group_size - 1) / group_size
    torch.testing.assert_close(found, factor * descent(kind, worth))


@pytest.mark.parametrize("kind", ["sorting", "short toy"])
def test_batch_normalized_climbs_the_reward_in_units_of_the_batchs_spread(kind):
    """Its bias: the spread is of the same responses, so that the merit is not the reward."""

    def standardised(rewards, _):
        means = [statistics.mean(rewards[:2])] * 2 + [statistics.mean(rewards[2:])] * 2
        differences = [reward - mean for reward, mean in zip(rewards, means, strict=True)]
        return differences[0] / (statistics.stdev(differences) + 1e-6)

    found = expected_gradient(kind, 2, batch=2, delta="batch_normalized", loss="naive")
    torch.testing.assert_close(found, descent(kind, given_first(kind, 4, standardised)))
    assert not parallel(found, descent(kind, worth))


def test_every_delta_and_loss_of_the_config_can_be_chosen():
    assert set(DELTAS) >= {"raw", "centered", "batch_normalized", "rescaled"}
    assert set(LOSSES) == {"naive", "unclipped", "clipped", "clipped_weight", "squared"}
    new, old, deltas, mask = ragged()
    rollout = Rollout(torch.zeros(3, 1, dtype=torch.long), mask.long(), mask, deltas, old)
    expected = {
        "naive": naive(new, deltas),
        "unclipped": unclipped(new, old, deltas),
        "clipped": clipped(new, old, deltas, 0.1, 0.4),
        "clipped_weight": clipped_weight(new, old, deltas, 0.1, 0.4),
        "squared": squared(new, old, deltas, 0.7),
    }
    for name, losses in expected.items():
        config = Config(loss=name, clip_low=0.1, clip_high=0.4, tau=0.7)
        assert token_losses(new, rollout, deltas, config).equal(losses)
        each = deltas[..., None].expand_as(new)  # a delta for each token, as a critic gives
        assert token_losses(new, rollout, each, config).equal(losses)
