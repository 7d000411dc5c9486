"""The one loop: exact micro-batches, runs that repeat and resume to the bit, the reference, the KL, its diagnoses."""

import copy
import dataclasses
import math
from time import perf_counter

import oracle
import pytest
import torch
from oracle import worth
from torch import nn, tensor

from minirl import exact
from minirl.kl import KL
from minirl.losses import AGGREGATIONS, token_weights
from minirl.policy import SortingPolicy
from minirl.rollout import Batch, Rollout, collect, response_mask
from minirl.sorting import LECTURE_PROMPTS, SortingTask, exact_match, inclusion_ordering, position_match
from minirl.train import Config, State, learn, token_losses, train, update

LECTURE = SortingTask(prompts=LECTURE_PROMPTS)
SMALL = Config(epochs=6, inner_steps=3, batch_size=3, group_size=5, evaluate_every=2, learning_rate=0.05)


def run(policy, config, task=LECTURE, **options):
    """All metrics of a run, without the seconds, which no two runs share."""
    history = list(train(policy, task, config, **options))
    return [{name: value for name, value in row.items() if not name.startswith("seconds")} for row in history]


def equal(one, other):
    """To the bit."""
    return all((a == b).all() for a, b in zip(one.state_dict().values(), other.state_dict().values(), strict=True))


# --- Training ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_sorting_is_solved_on_prompts_never_trained_on(seed):
    """From rewards only. In this split no held-out prompt is a corner (0 0 0 or 4 4 4), to be guessed from outside."""
    task = SortingTask(reward=position_match, seed=5)
    config = Config(delta="normalized", seed=seed, evaluate_every=1000)
    *_, last = train(SortingPolicy(init_scale=0.02, seed=seed), task, config)
    assert last["held_out_exact"] >= 0.95
    assert last["held_out_greedy"] >= 0.95


def test_rewards_are_climbed_not_descended():
    *_, last = run(SortingPolicy(seed=0), dataclasses.replace(SMALL, epochs=30))
    first = run(SortingPolicy(seed=0), dataclasses.replace(SMALL, epochs=1))[0]
    assert last["reward_mean"] > first["reward_mean"] + 0.5


EVERY_EPOCH = {
    *("epoch", "reward_mean", "reward_std", "response_length", "entropy", "zero_signal_groups", "clip_low"),
    *(
        "sampled_tokens",
        "kept_groups",
        "clip_high",
        "loss",
        "grad_norm",
        "seconds_sampling",
        "seconds_scoring",
        "seconds_updating",
    ),
}


def test_each_epoch_reports_every_metric_as_a_number():
    start = perf_counter()
    history = list(train(SortingPolicy(seed=0), LECTURE, dataclasses.replace(SMALL, epochs=5, beta=0.1)))
    elapsed = perf_counter() - start
    held_out = {"held_out_exact", "held_out_greedy"}
    for row in history:
        evaluated = held_out if row["epoch"] in (2, 4, 5) else set()
        assert row.keys() == EVERY_EPOCH | {"kl_k1", "kl_k3"} | evaluated
        assert all(type(value) in (float, int) and math.isfinite(value) for value in row.values())
        assert min(row["seconds_sampling"], row["seconds_scoring"], row["seconds_updating"]) > 0
    assert [row["epoch"] for row in history] == [1, 2, 3, 4, 5]
    assert sum(value for row in history for name, value in row.items() if name.startswith("seconds")) <= elapsed


def test_without_a_reference_no_kl_is_reported():
    assert next(train(SortingPolicy(seed=0), LECTURE, SMALL)).keys() == EVERY_EPOCH


class MinimalPolicy(nn.Module):
    """What a policy must offer, and nothing else."""

    def __init__(self):
        super().__init__()
        self.inside = [SortingPolicy(seed=0)]  # in a list, so that it isn't a submodule
        self.weights = nn.ParameterList(self.inside[0].parameters())

    def sample(self, prompts, group_size, generator=None):
        return self.inside[0].sample(prompts, group_size, generator)

    def log_probs(self, prompts, responses, mask):
        return self.inside[0].log_probs(prompts, responses, mask)


class MinimalTask:
    """What a task must offer, and nothing else."""

    def sample(self, batch_size, generator=None):
        return Batch(LECTURE_PROMPTS[torch.randperm(3, generator=generator)[:batch_size]], ["anything"] * batch_size)

    def held_out(self):
        return Batch(LECTURE_PROMPTS, ["anything"] * 3)

    def rewards(self, batch, responses, mask):
        return exact_match(batch.prompts, responses) + 0.1 * (responses == 0).any(-1)


def test_a_policy_that_only_samples_and_scores_learns_a_task_that_only_rewards():
    policy = MinimalPolicy()
    before = copy.deepcopy(policy.weights)
    rows = run(policy, SMALL, MinimalTask())
    assert "entropy" not in rows[-1]
    assert "held_out_greedy" not in rows[-1]
    assert math.isfinite(rows[-1]["held_out_exact"])
    assert not equal(policy.weights, before)


class EndingTask:
    """For the toy policy: pays for tokens 2, so that lengths and rewards vary."""

    def sample(self, batch_size, generator=None):
        return Batch(torch.randint(3, (batch_size, 2), generator=generator), [None] * batch_size)

    def held_out(self):
        return self.sample(4, torch.Generator().manual_seed(9))

    def rewards(self, batch, responses, mask):
        return ((responses == 2) & mask).sum(-1) + 0.25 * mask.sum(-1)


def test_ragged_responses_are_learnt_too():
    policy = oracle.toy_policy()
    rows = run(policy, dataclasses.replace(SMALL, epochs=40, batch_size=8, aggregation="token"), EndingTask())
    assert rows[-1]["reward_mean"] > rows[0]["reward_mean"] + 1
    assert rows[-1]["response_length"] > rows[0]["response_length"]


# --- To the bit ----------------------------------------------------------------------------------------------------


def test_the_same_seed_is_the_same_run_and_another_is_not():
    policies = [SortingPolicy(seed=0) for _ in range(3)]
    torch.manual_seed(1)
    first = run(policies[0], SMALL)
    torch.manual_seed(2)
    assert run(policies[1], SMALL) == first
    assert equal(policies[0], policies[1])
    assert run(policies[2], dataclasses.replace(SMALL, seed=1)) != first
    assert not equal(policies[0], policies[2])


def test_a_run_leaves_the_global_random_numbers_alone():
    state = torch.random.get_rng_state()
    run(SortingPolicy(seed=0), SMALL)
    assert (torch.random.get_rng_state() == state).all()


RESUMED = {"plain": {}, "reference": {"beta": 0.1, "kl": "k2", "reference_every": 2}}


@pytest.mark.parametrize("settings", RESUMED.values(), ids=RESUMED)
@pytest.mark.parametrize("stop", [1, 3, 4])
def test_a_run_that_was_stopped_and_resumed_is_the_run_that_went_on(settings, stop):
    config = dataclasses.replace(SMALL, **settings)
    policy, straight = SortingPolicy(seed=0), SortingPolicy(seed=0)
    state = State(policy, config)
    first = run(policy, dataclasses.replace(config, epochs=stop, evaluate_every=100), resume_from=state)
    kept_policy, kept_state = copy.deepcopy((policy, state))
    run(policy, config, resume_from=state)  # what goes on elsewhere must not reach the copy
    second = run(kept_policy, config, resume_from=kept_state)
    whole = run(straight, config)
    assert [row["epoch"] for row in first + second] == [1, 2, 3, 4, 5, 6]
    assert second == whole[stop:]
    assert equal(kept_policy, straight)
    assert equal(policy, straight)


def test_how_often_a_run_is_evaluated_does_not_change_it():
    often, seldom = SortingPolicy(seed=0), SortingPolicy(seed=0)
    run(often, dataclasses.replace(SMALL, evaluate_every=1))
    run(seldom, dataclasses.replace(SMALL, evaluate_every=100))
    assert equal(often, seldom)


def test_every_epoch_samples_other_prompts_and_responses():
    """One generator goes through the run; a new one per epoch with the same seed would repeat the first batch."""
    seen = []

    class Spy(EndingTask):
        def rewards(self, batch, responses, mask):
            seen.append((batch.prompts, responses))
            return super().rewards(batch, responses, mask)

    run(oracle.toy_policy(), dataclasses.replace(SMALL, epochs=2, batch_size=8, learning_rate=1e-9), Spy())
    (prompts, responses), (later_prompts, later_responses) = seen[0], seen[1]
    assert (prompts != later_prompts).any()
    assert (responses != later_responses).any()


# --- Micro-batches -------------------------------------------------------------------------------------------------


def ragged_rollout(policy, batch_size=7, group_size=4, reference=None):
    generator = torch.Generator().manual_seed(1)
    batch = EndingTask().sample(batch_size, generator)
    return collect(policy, EndingTask(), batch, group_size, generator=generator, reference=reference)


def moved(policy):
    """The policy after a few steps: ratios to its old log-probs are not 1."""
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(5))
    return policy


def gradient_of_update(config, change=None):
    """Loss, norm, log-probs and gradient of one update on a ragged rollout with old policy and reference apart."""
    policy = oracle.toy_policy(0)
    rollout = ragged_rollout(policy, reference=oracle.toy_policy(1))
    deltas = rollout.rewards - rollout.rewards.mean(-1, keepdim=True)
    weights = token_weights(rollout.mask, config.aggregation, config.constant)
    weights = weights if change is None else change(rollout, weights)
    optimizer = torch.optim.SGD(moved(policy).parameters(), lr=0.0)
    found = update(policy, rollout, deltas, weights, config, optimizer, "here")
    return *found, oracle.gradient_of(policy)


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("size", [1, 2, 3, 6, 7, 100])
def test_any_split_into_micro_batches_gives_the_gradient_of_the_whole(aggregation, size, float64):
    config = Config(aggregation=aggregation, max_grad_norm=None, beta=0.1, batch_size=7, group_size=4)
    whole = gradient_of_update(config)
    split = gradient_of_update(dataclasses.replace(config, micro_batch_size=size))
    for found, expected in zip(split, whole, strict=True):
        torch.testing.assert_close(found, expected)


def test_weights_set_for_each_micro_batch_would_give_another_gradient(float64):
    """A mean of token means is not the token mean: the ragged rollout of these tests tells them apart."""

    def of_each_row(rollout, weights):
        return torch.cat([token_weights(row[None], "token") for row in rollout.mask]) / len(weights)

    config = Config(aggregation="token", max_grad_norm=None)
    wrong = gradient_of_update(config, of_each_row)[-1]
    assert not torch.allclose(wrong, gradient_of_update(config)[-1], rtol=1e-2)


def test_micro_batches_do_not_change_a_run(float64):
    """Up to the order of additions."""
    whole, split = SortingPolicy(seed=0), SortingPolicy(seed=0)
    run(whole, SMALL)
    run(split, dataclasses.replace(SMALL, micro_batch_size=2))
    for one, other in zip(whole.parameters(), split.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_update_returns_the_loss_the_norm_and_the_log_probs_before_the_step(float64):
    config = Config(loss="unclipped", max_grad_norm=None, aggregation="token")
    loss, norm, before, gradient = gradient_of_update(config)
    policy = oracle.toy_policy(0)
    rollout = ragged_rollout(policy, reference=oracle.toy_policy(1))
    log_probs = moved(policy).log_probs(rollout.prompts, rollout.responses, rollout.mask)
    deltas = rollout.rewards - rollout.rewards.mean(-1, keepdim=True)
    per_token = -(log_probs - rollout.old_log_probs).exp() * deltas[..., None]
    silent = (deltas == 0)[..., None]
    assert 0 < silent.float().mean() < 1
    torch.testing.assert_close(before, log_probs.detach().where(~silent, rollout.old_log_probs))
    assert loss == pytest.approx(per_token[rollout.mask].mean().item())
    assert norm == pytest.approx(gradient.norm().item())
    assert not before.requires_grad


@pytest.mark.parametrize("limit, expected", [(None, None), (1e-3, 1e-3), (1e3, None)])
def test_the_gradient_is_cut_to_its_greatest_norm_and_reported_as_it_was(limit, expected, float64):
    _, norm, _, gradient = gradient_of_update(Config(max_grad_norm=limit))
    _, free, _, _ = gradient_of_update(Config(max_grad_norm=None))
    assert norm == pytest.approx(free)
    assert gradient.norm().item() == pytest.approx(expected or free, rel=1e-4)


class CountingPolicy(SortingPolicy):
    """Counts the tokens it scores, and like a large model builds no graph where there are none."""

    scored = 0

    def log_probs(self, prompts, responses, mask):
        self.scored = int(mask.sum())
        return super().log_probs(prompts, responses, mask) if self.scored else torch.zeros(mask.shape)


@pytest.mark.parametrize(
    "settings, every", [({}, False), ({"beta": 0.1, "kl_in": "reward"}, False), ({"beta": 0.1}, True)]
)
def test_a_response_with_delta_0_is_scored_again_only_for_the_kl_in_the_loss(settings, every):
    policy = CountingPolicy(seed=0)
    rollout = collect(policy, LECTURE, LECTURE.held_out(), 4, reference=SortingPolicy(seed=1))
    deltas = torch.tensor([[0.0, 1.0, 0.0, -1.0], [0.0] * 4, [2.0, -1.0, -1.0, 0.0]])
    config, weights = Config(**settings), token_weights(rollout.mask)
    update(policy, rollout, deltas, weights, config, torch.optim.SGD(policy.parameters(), lr=0.0), "here")
    assert policy.scored == (12 if every else 5) * 3


def test_a_batch_without_signal_leaves_adam_its_momentum():
    """The first step as ever; then every group is tied, and Adam goes on as with a gradient of 0."""
    policy = CountingPolicy(seed=0)
    start = [weight.detach().clone() for weight in policy.parameters()]
    tied = dataclasses.replace(collect(policy, LECTURE, LECTURE.held_out(), 4), rewards=torch.ones(3, 4))
    config = Config(inner_steps=1, learning_rate=0.1)
    state = State(policy, config)
    assert learn(policy, tied, config, state)["zero_signal_groups"] == 1
    assert policy.scored == 0
    assert all(map(torch.equal, policy.parameters(), start))
    learn(policy, dataclasses.replace(tied, rewards=torch.arange(12.0).view(3, 4)), config, state)
    after = [weight.detach().clone() for weight in policy.parameters()]
    moments = [state.optimizer.state[weight] for weight in policy.parameters()]
    first, second = ([each[name].clone() for each in moments] for name in ("exp_avg", "exp_avg_sq"))
    learn(policy, tied, config, state)
    for weight, before, mean, square in zip(policy.parameters(), after, first, second, strict=True):
        step = 0.1 * (0.9 * mean / (1 - 0.9**3)) / ((0.999 * square / (1 - 0.999**3)).sqrt() + 1e-8)
        torch.testing.assert_close(weight.detach(), before - step)


# --- Inner steps ---------------------------------------------------------------------------------------------------


def one_epoch(policy, settings, rollout=None, reference=None):
    config = Config(max_grad_norm=None, **settings)
    state = State(policy, config, reference)
    rollout = rollout or ragged_rollout(policy, reference=state.reference)
    return learn(policy, rollout, config, state)


@pytest.mark.parametrize("loss", ["unclipped", "clipped"])
def test_centred_deltas_make_the_first_loss_zero_and_that_is_no_fault(loss, float64):
    """At ρ = 1 the loss is −mean δ = 0 with equal lengths, while its gradient is the policy gradient."""
    policy = SortingPolicy(seed=0)
    rollout = collect(policy, LECTURE, LECTURE.held_out(), 6, generator=torch.Generator().manual_seed(0))
    rollout = dataclasses.replace(rollout, rewards=rollout.rewards.double())
    metrics = one_epoch(policy, {"loss": loss, "inner_steps": 1}, rollout)
    assert metrics["loss"] == pytest.approx(0, abs=1e-12)
    assert metrics["grad_norm"] > 1e-3


def test_inner_steps_reuse_responses_and_old_log_probs(float64):
    """Two inner steps are two updates of Adam by hand, the second with ratios to the policy of before the first."""
    policy, by_hand = oracle.toy_policy(), oracle.toy_policy()
    rollout = ragged_rollout(policy)
    one_epoch(policy, {"loss": "unclipped", "inner_steps": 2, "delta": "raw", "learning_rate": 0.1}, rollout)
    optimizer = torch.optim.Adam(by_hand.parameters(), lr=0.1)
    for _ in range(2):
        log_probs = by_hand.log_probs(rollout.prompts, rollout.responses, rollout.mask)
        objective = (log_probs - rollout.old_log_probs).exp() * rollout.rewards[..., None]
        optimizer.zero_grad()
        (-(objective * rollout.mask).sum(-1) / rollout.mask.sum(-1)).mean().backward()
        optimizer.step()
    for one, other in zip(policy.parameters(), by_hand.parameters(), strict=True):
        torch.testing.assert_close(one, other)


def test_nothing_is_clipped_on_the_first_inner_step_and_something_later():
    policy = SortingPolicy(seed=0)
    rollout = collect(policy, LECTURE, LECTURE.held_out(), 16, generator=torch.Generator().manual_seed(0))
    first = one_epoch(copy.deepcopy(policy), {"inner_steps": 1, "learning_rate": 0.3}, rollout)
    later = one_epoch(copy.deepcopy(policy), {"inner_steps": 4, "learning_rate": 0.3}, rollout)
    assert first["clip_low"] == first["clip_high"] == 0
    assert later["clip_low"] > 0
    assert later["clip_high"] > 0


@pytest.mark.parametrize("side, delta", [("clip_low", -1.0), ("clip_high", 1.0)])
def test_each_epsilon_of_the_config_acts_on_its_own_side(side, delta, float64):
    """A token pushed down far below 1 − ε_low, or up far above 1 + ε_high, has no gradient until ε lets it."""
    ratio = {"clip_low": 0.55, "clip_high": 1.45}[side]
    mask = torch.ones(1, 1, 1, dtype=torch.bool)
    rollout = Rollout(torch.zeros(1, 1, dtype=torch.long), mask.long(), mask, tensor([[delta]]), tensor([[[-1.0]]]))
    slopes = {}
    for low, high in [(0.1, 0.1), (0.5, 0.1), (0.1, 0.5)]:
        log_probs = (rollout.old_log_probs + math.log(ratio)).requires_grad_()
        config = Config(clip_low=low, clip_high=high)
        token_losses(log_probs, rollout, rollout.rewards, config).sum().backward()
        slopes[low, high] = log_probs.grad.item()
    open_side = (0.5, 0.1) if side == "clip_low" else (0.1, 0.5)
    assert slopes.pop(open_side) == pytest.approx(-ratio * delta)
    assert list(slopes.values()) == [0, 0]


def test_the_metrics_count_clipping_with_the_epsilons_of_the_config():
    policy = SortingPolicy(seed=0)
    rollout = collect(policy, LECTURE, LECTURE.held_out(), 16, generator=torch.Generator().manual_seed(0))
    settings = {"inner_steps": 4, "learning_rate": 0.3}
    tight_low = one_epoch(copy.deepcopy(policy), {**settings, "clip_low": 0.01, "clip_high": 99.0}, rollout)
    tight_high = one_epoch(copy.deepcopy(policy), {**settings, "clip_low": 1.0, "clip_high": 0.01}, rollout)
    assert tight_low["clip_low"] > 0
    assert tight_low["clip_high"] == 0
    assert tight_high["clip_high"] > 0
    assert tight_high["clip_low"] == 0


def test_zero_signal_groups_are_counted():
    policy = SortingPolicy(seed=0)
    rollout = collect(policy, LECTURE, LECTURE.held_out(), 4)
    rewards = tensor([[0.7, 0.7, 0.7, 0.7], [1.0, 0.0, 0.0, 0.0], [0.1, 0.1, 0.1, 0.1]])
    rollout = dataclasses.replace(rollout, rewards=rewards)
    assert one_epoch(policy, {"delta": "normalized"}, rollout)["zero_signal_groups"] == pytest.approx(2 / 3)


def test_groups_without_signal_move_nothing():
    """Rewards of 0.1 are not exact in binary; a tied group's delta and gradient are exactly 0 all the same."""
    policy = SortingPolicy(seed=0)
    before = copy.deepcopy(policy)
    rollout = collect(policy, LECTURE, LECTURE.held_out(), 10)
    rollout = dataclasses.replace(rollout, rewards=torch.full((3, 10), 0.1))
    for delta in ("centered", "leave_one_out", "normalized"):
        assert one_epoch(policy, {"delta": delta, "loss": "unclipped"}, rollout)["grad_norm"] == 0
    assert equal(policy, before)


# --- The reference and the KL --------------------------------------------------------------------------------------


@pytest.mark.parametrize("every", [1, 2, 3])
def test_the_reference_is_refreshed_exactly_every_so_many_epochs(every):
    """In the epoch after a refresh, policy and reference are one, and the KL is exactly 0; in the others it is not."""
    rows = run(SortingPolicy(seed=0), dataclasses.replace(SMALL, epochs=7, reference_every=every))
    fresh = [row["epoch"] for row in rows if row["kl_k3"] == 0]
    assert fresh == list(range(1, 8, every))
    assert [row["epoch"] for row in rows if row["kl_k1"] == 0] == fresh


def test_a_reference_that_is_never_refreshed_is_the_policy_of_the_start():
    policy = SortingPolicy(seed=0)
    start = copy.deepcopy(policy)
    config = dataclasses.replace(SMALL, beta=0.1)
    state = State(policy, config)
    rows = run(policy, config, resume_from=state)
    assert [row["epoch"] for row in rows if row["kl_k3"] == 0] == [1]
    assert equal(state.reference, start)
    assert not equal(state.reference, policy)


def test_the_reference_is_a_frozen_copy():
    policy = SortingPolicy(seed=0)
    state = State(policy, dataclasses.replace(SMALL, beta=0.1))
    assert not any(parameter.requires_grad for parameter in state.reference.parameters())
    assert all(parameter.requires_grad for parameter in policy.parameters())
    assert not {p.data_ptr() for p in policy.parameters()} & {p.data_ptr() for p in state.reference.parameters()}


@pytest.mark.parametrize("every", [0, 1, 2])
def test_the_callers_reference_is_never_changed(every):
    mine = SortingPolicy(seed=7)
    before = copy.deepcopy(mine)
    config = dataclasses.replace(SMALL, reference_every=every, beta=0.1)
    rows = run(SortingPolicy(seed=0), config, reference=mine)
    assert equal(mine, before)
    assert all(parameter.requires_grad for parameter in mine.parameters())
    assert rows[0]["kl_k3"] > 0


def test_a_reference_may_be_watched_without_a_penalty():
    watched, alone = SortingPolicy(seed=0), SortingPolicy(seed=0)
    rows = run(watched, SMALL, reference=SortingPolicy(seed=7))
    run(alone, SMALL)
    assert all(row["kl_k3"] > 0 for row in rows)
    assert equal(watched, alone)


def test_without_need_no_reference_is_kept():
    assert State(SortingPolicy(), SMALL).reference is None
    assert State(SortingPolicy(), dataclasses.replace(SMALL, reference_every=2)).reference is not None


@pytest.mark.parametrize("name", KL)
def test_the_kl_in_the_loss_is_added_token_by_token_before_the_weights(name, float64):
    """Policy loss and KL share the weights: neither is summed over positions while the other is averaged."""
    policy = oracle.toy_policy(0)
    rollout = ragged_rollout(policy, reference=oracle.toy_policy(1))
    log_probs = moved(policy).log_probs(rollout.prompts, rollout.responses, rollout.mask)
    config = Config(loss="unclipped", beta=0.3, kl=name)
    r = (rollout.ref_log_probs - log_probs).exp()
    k = {"k1": -r.log(), "k2": r.log() ** 2 / 2, "k3": r - 1 - r.log()}[name]
    expected = -(log_probs - rollout.old_log_probs).exp() * rollout.rewards[..., None] + 0.3 * k
    torch.testing.assert_close(token_losses(log_probs, rollout, rollout.rewards, config), expected)


def expected_gradient_of_learning(settings, make=oracle.toy_policy, prompt=(1, 2)):
    """−E[gradient], where each response in turn is the whole rollout, weighted with its probability."""
    total = 0
    listed = oracle.distribution(make(0), prompt)
    for response, chance in listed.items():
        policy, reference = make(0), make(1)
        padded, mask = (part[None] for part in oracle.tensors(policy, [response]))
        prompts = tensor([prompt])
        old, ref = (model.log_probs(prompts, padded, mask).detach() for model in (policy, reference))
        rollout = Rollout(prompts, padded, mask, tensor([[worth(response)]]), old, ref)
        constant = {"aggregation": "constant", "constant": 1.0, "delta": "raw", "inner_steps": 1}
        one_epoch(policy, {**constant, **settings}, rollout, reference)
        total = total - chance * oracle.gradient_of(policy)
    return total


def slope(value, make, prompt):
    """∇ value(policy, reference) of the two that `expected_gradient_of_learning` uses."""
    policy, reference = make(0), make(1)
    return oracle.derivative(policy, lambda: value(policy, reference, prompt))


def expected_worth(policy, reference, prompt):
    return oracle.expectation(policy, prompt, worth)


def reverse_kl(policy, reference, prompt):
    return oracle.kl(reference, policy, prompt)


@pytest.mark.parametrize("make", [oracle.sorting_policy, oracle.toy_policy])
@pytest.mark.parametrize("loss", ["naive", "unclipped", "clipped"])
def test_k1_in_the_reward_descends_the_kl_of_whole_responses(make, loss, float64):
    """∇E[R] − β·∇KL(π‖π_ref): drifting from the reference costs, and is never paid for."""
    found = expected_gradient_of_learning({"loss": loss, "beta": 0.7, "kl": "k1", "kl_in": "reward"}, make)
    expected = slope(expected_worth, make, (1, 2)) - 0.7 * slope(oracle.kl, make, (1, 2))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("name", ["k2", "k3"])
def test_other_estimators_in_the_reward_are_subtracted_too(name, float64):
    """The reward is R − β Σ_t k, each k a number without a gradient of its own."""
    policy, reference = oracle.toy_policy(0), oracle.toy_policy(1)
    listed, jacobian = oracle.distribution(policy, (1, 2)), oracle.probability_jacobian(policy, (1, 2))

    def penalty(response):
        pairs = zip(*(oracle.token_probabilities(m, (1, 2), response) for m in (reference, policy)), strict=True)
        ratios = [q / p for q, p in pairs]
        return sum(math.log(r) ** 2 / 2 if name == "k2" else r - 1 - math.log(r) for r in ratios)

    found = expected_gradient_of_learning({"loss": "unclipped", "beta": 0.7, "kl": name, "kl_in": "reward"})
    torch.testing.assert_close(found, tensor([worth(y) - 0.7 * penalty(y) for y in listed]) @ jacobian)


def no_kl(policy, reference, prompt):
    return 0.0


def one_token_policy(seed):
    return oracle.toy_policy(seed, length=1)


@pytest.mark.parametrize("name, kl", [("k1", no_kl), ("k2", oracle.kl), ("k3", reverse_kl)])
def test_kl_in_the_loss_has_the_gradient_of_its_estimator(name, kl, float64):
    """k1: none at all; k2: that of KL(π‖π_ref); k3: that of KL(π_ref‖π)."""
    settings = {"loss": "unclipped", "beta": 0.7, "kl": name, "kl_in": "loss"}
    found = expected_gradient_of_learning(settings, one_token_policy)
    expected = slope(expected_worth, one_token_policy, (1, 2)) - 0.7 * slope(kl, one_token_policy, (1, 2))
    torch.testing.assert_close(found, expected)


def test_the_kl_in_the_reward_comes_before_the_deltas(float64):
    """A tied group whose responses drift differently has a signal: the penalty, centred within the group."""
    policy, reference = oracle.toy_policy(0), oracle.toy_policy(1)
    rollout = ragged_rollout(policy, reference=reference)
    rollout = dataclasses.replace(rollout, rewards=torch.ones_like(rollout.rewards))
    settings = {"beta": 0.5, "kl": "k1", "inner_steps": 1}
    assert one_epoch(copy.deepcopy(policy), {**settings, "kl_in": "loss"}, rollout)["zero_signal_groups"] == 1
    assert one_epoch(policy, {**settings, "kl_in": "reward", "loss": "naive"}, rollout)["zero_signal_groups"] < 0.5
    drift = (rollout.old_log_probs - rollout.ref_log_probs).sum(-1)
    deltas = -0.5 * (drift - drift.mean(-1, keepdim=True))
    by_hand = oracle.toy_policy(0)
    log_probs = by_hand.log_probs(rollout.prompts, rollout.responses, rollout.mask)
    (-(deltas * (log_probs.sum(-1) / rollout.mask.sum(-1)))).mean().backward()
    torch.testing.assert_close(oracle.gradient_of(policy), oracle.gradient_of(by_hand))


@pytest.mark.parametrize("settings", [{"kl_in": "loss", "kl": "k2"}, {"kl_in": "reward", "kl": "k1"}])
def test_a_strong_penalty_keeps_the_policy_near_its_reference(settings):
    drift = {}
    for beta in (0.0, 3.0):
        policy, start = SortingPolicy(seed=0), SortingPolicy(seed=0)
        config = dataclasses.replace(SMALL, epochs=20, group_size=64, learning_rate=0.01, beta=beta, **settings)
        run(policy, config, reference=start)
        drift[beta] = exact.kl(policy, start, LECTURE_PROMPTS).mean()
    assert drift[3.0] < drift[0.0] / 4


# --- Stops and refusals --------------------------------------------------------------------------------------------


def stops(policy, message, task=LECTURE, reference=None, **settings):
    with pytest.raises(FloatingPointError, match=message):
        run(policy, dataclasses.replace(SMALL, **settings), task, reference=reference)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_reward_that_is_not_finite_stops_the_run(bad):
    def reward(prompts, responses):
        return torch.where(responses[..., 0] == 0, bad, 1.0)

    task = SortingTask(reward=reward, prompts=LECTURE_PROMPTS)
    stops(SortingPolicy(seed=0), r"^epoch 1: rewards is not finite; likely cause: the task's reward function", task)


def test_weights_that_are_not_finite_stop_the_run_before_it_starts():
    policy = SortingPolicy(seed=0)
    policy.idle = nn.Parameter(tensor([1.0, math.nan]))
    stops(policy, r"^before training: weight is not finite; likely cause: .*not finite to begin with")


def test_a_ratio_that_overflows_stops_the_run():
    """After a step this large, the policy gives sampled tokens a probability of e^-1000: π_ref/π is infinite."""
    message = r"^epoch 1, inner step 2: loss is not finite; likely cause: .*lower learning_rate, inner_steps or beta"
    stops(SortingPolicy(seed=0), message, beta=0.1, learning_rate=100.0)


def test_a_step_beyond_all_numbers_stops_the_run():
    class AtTheEdge(SortingPolicy):
        def __init__(self):
            super().__init__(seed=0)
            self.edge = nn.Parameter(tensor(3e38))  # float32 ends at 3.4e38

        def log_probs(self, prompts, responses, mask):
            return super().log_probs(prompts, responses, mask).detach() + (self.edge - self.edge.detach())

    message = r"^epoch 1, inner step 2: weight is not finite; likely cause: the last step was too large"
    task = SortingTask(reward=lambda prompts, responses: torch.ones(responses.shape[:2]), prompts=LECTURE_PROMPTS)
    stops(AtTheEdge(), message, task, delta="raw", loss="naive", learning_rate=3e37)


class WithoutSupport(SortingPolicy):
    """Gives token 0 no probability, whatever was sampled."""

    def position_logits(self, prompts):
        return super().position_logits(prompts).index_fill(-1, tensor([0]), -math.inf)


def test_a_reference_without_support_stops_the_run():
    message = r"^epoch 1: ref_log_probs is not finite; likely cause: the reference gives a sampled token probability 0"
    stops(SortingPolicy(seed=0), message, reference=WithoutSupport(seed=0), beta=0.1)


def test_a_policy_that_samples_what_it_gives_no_probability_stops_the_run():
    class Confused(WithoutSupport):
        def sample(self, prompts, group_size, generator=None):
            responses = torch.zeros(len(prompts), group_size, 3, dtype=torch.long)
            return responses, response_mask(responses, None)

    message = r"^epoch 1: old_log_probs is not finite; likely cause: a sampled token has probability 0 under the policy"
    stops(Confused(seed=0), message)


def test_an_infinite_slope_stops_the_run():
    class Steep(SortingPolicy):
        def log_probs(self, prompts, responses, mask):
            return super().log_probs(prompts, responses, mask) + (self.decode - self.decode.detach()).sum().abs().sqrt()

    message = r"^epoch 1, inner step 1: gradient is not finite; likely cause: a finite loss had an infinite slope"
    stops(Steep(seed=0), message, loss="naive")


CHOICES = {"delta": "center", "loss": "ppo", "aggregation": "mean", "kl": "k4", "kl_in": "both"}
CHOICES |= {"ratio": "group", "keep": "best"}


@pytest.mark.parametrize("name, value", CHOICES.items())
def test_an_unknown_choice_is_refused_with_the_known_ones(name, value):
    known = {
        "delta": "raw, max_only, centered, leave_one_out, normalized, batch_normalized, rescaled",
        "loss": "naive, unclipped, clipped, clipped_weight, squared",
        "aggregation": "sequence, token, constant",
        "kl": "k1, k2, k3",
        "kl_in": "loss, reward",
        "ratio": "token, sequence",
        "keep": "all, signal, varied",
    }
    with pytest.raises(ValueError, match=f"^{name}='{value}' is unknown; expected one of {known[name]}$"):
        Config(**{name: value})


POSITIVE = ["epochs", "inner_steps", "batch_size", "group_size", "constant", "learning_rate", "max_grad_norm"]
POSITIVE += ["micro_batch_size", "evaluate_every"]


@pytest.mark.parametrize("name", POSITIVE)
@pytest.mark.parametrize("value", [0, -1])
def test_a_number_that_must_be_positive_is_refused_if_it_is_not(name, value):
    with pytest.raises(ValueError, match=f"^{name} must be positive; got {value}"):
        Config(**{name: value})


@pytest.mark.parametrize("name", ["beta", "clip_low", "clip_high", "reference_every", "seed"])
def test_a_number_that_may_be_zero_is_refused_below(name):
    Config(**{name: 0})
    with pytest.raises(ValueError, match=f"^{name} must be at least 0; got -1"):
        Config(**{name: -1})


@pytest.mark.parametrize("name", ["beta", "learning_rate", "clip_low", "max_grad_norm", "constant"])
def test_a_setting_that_is_not_a_number_is_refused(name):
    with pytest.raises(ValueError, match=f"^{name} must be .*; got nan"):
        Config(**{name: math.nan})


def test_a_config_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        SMALL.epochs = 7


@pytest.mark.parametrize("delta", ["centered", "leave_one_out", "normalized"])
def test_a_run_with_one_response_a_prompt_is_refused_where_responses_are_compared(delta):
    with pytest.raises(ValueError, match="this delta compares the responses to a prompt; got 1"):
        run(SortingPolicy(seed=0), dataclasses.replace(SMALL, delta=delta, group_size=1))


@pytest.mark.parametrize("delta", ["raw", "max_only"])
def test_a_run_with_one_response_a_prompt_is_fine_elsewhere(delta):
    rows = run(SortingPolicy(seed=0), dataclasses.replace(SMALL, delta=delta, group_size=1))
    assert rows[-1]["reward_std"] == 0


def test_the_lectures_hyperparameters_run():
    """100 epochs × 10 inner steps on three prompts with inclusion and ordering; here the first few."""
    task = SortingTask(reward=inclusion_ordering, prompts=LECTURE_PROMPTS)
    config = Config(epochs=3, inner_steps=10, batch_size=3, group_size=10, delta="raw", loss="naive")
    rows = run(SortingPolicy(init_scale=1.0, seed=0), config, task)
    assert 0 <= rows[-1]["reward_mean"] <= 5


def test_a_state_without_the_reference_that_the_settings_need_is_refused():
    policy = SortingPolicy(seed=0)
    state = State(policy, Config(epochs=2))
    with pytest.raises(ValueError, match="has no reference, but beta or reference_every needs one"):
        next(train(policy, SortingTask(), Config(epochs=2, beta=0.1), resume_from=state))
