"""The critic in the loop: what it judges, what it learns, and what its advantages do to the expected gradient."""

import copy
import dataclasses
import itertools
import math
import statistics

import oracle
import pytest
import torch
from oracle import worth
from test_critic import exact_value, gae_loop
from torch import nn, tensor

from minirl import RECIPES
from minirl.critic import Critic, PrefixReader
from minirl.deltas import raw
from minirl.experiments import run_seeds
from minirl.losses import token_weights
from minirl.policy import SortingPolicy
from minirl.rollout import Batch, Rollout, collect
from minirl.sorting import LECTURE_PROMPTS, SortingTask, position_match
from minirl.train import Config, State, learn, train

SMALL = Config(epochs=4, inner_steps=2, batch_size=3, group_size=4, delta="raw", evaluate_every=100, learning_rate=0.05)
LECTURE = SortingTask(prompts=LECTURE_PROMPTS)
PROMPT = (1, 2)


def reader(seed=0, **shape):
    return PrefixReader(**{"vocab_size": 5, "length": 3, "prompt_length": 3, **shape}, seed=seed)


def toy_reader(seed=0, width=32):
    return PrefixReader(3, 3, 2, width=width, seed=seed)


def equal(one, other):
    """To the bit."""
    return all((a == b).all() for a, b in zip(one.state_dict().values(), other.state_dict().values(), strict=True))


def timeless(history):
    return [{name: value for name, value in row.items() if not name.startswith("seconds")} for row in history]


class WorthTask:
    """For the toy policy: the arbitrary reward of the oracle, or another."""

    def __init__(self, pay=worth):
        self.pay = pay

    def sample(self, batch_size, generator=None):
        return Batch(tensor(PROMPT).expand(batch_size, -1), [None] * batch_size)

    def held_out(self):
        return self.sample(4)

    def rewards(self, batch, responses, mask):
        lists = zip(responses.flatten(0, 1).tolist(), mask.flatten(0, 1).sum(-1).tolist(), strict=True)
        return tensor([float(self.pay(tuple(row[:length]))) for row, length in lists]).view(responses.shape[:2])


def drawn(pay=worth, batch_size=6, group_size=4, seed=0):
    task, generator = WorthTask(pay), torch.Generator().manual_seed(seed)
    return collect(oracle.toy_policy(), task, task.sample(batch_size), group_size, generator=generator)


# --- What it judges --------------------------------------------------------------------------------------------------


class Values(nn.Module):
    """A body of width 1 whose feature is the value, whatever was written."""

    width = 1

    def __init__(self, values):
        super().__init__()
        self.table = nn.Parameter(values)

    def features(self, prompts, responses, mask):
        return self.table[prompts[:, 0], ..., None]


def ragged(seed=0):
    """A rollout with values, prices and a mask of every kind: short, full, empty, and with holes."""
    generator = torch.Generator().manual_seed(seed)
    values, price, old = torch.randn(3, 3, 4, 6, generator=generator)
    mask = torch.rand(3, 4, 6, generator=generator) < 0.6
    mask[0, 0], mask[0, 1], mask[0, 2], mask[0, 3] = True, False, torch.arange(6) < 3, torch.arange(6) == 2
    rewards = torch.randn(3, 4, generator=generator)
    rollout = Rollout(torch.arange(3)[:, None], mask.long(), mask, rewards, old.masked_fill(~mask, 0))
    return rollout, values, price.masked_fill(~mask, 0)


def knowing(values, **settings):
    """A critic whose values are these."""
    critic = Critic(Values(values), **settings)
    nn.init.ones_(critic.head.weight)
    return critic


def loops(rollout, values, price, gamma, lam):
    """Advantages and returns [B][G][T] in plain Python; `lam` is a number or a function of the length."""
    found = []
    for b, g in itertools.product(range(3), range(4)):
        kept = rollout.mask[b, g].nonzero().flatten().tolist()
        paid = [-each for each in price[b, g].tolist()]
        if kept:
            paid[kept[-1]] += rollout.rewards[b, g].item()
        own = lam(max(len(kept), 1)) if callable(lam) else lam
        found.append(gae_loop(paid, values[b, g].tolist(), kept, gamma, own))
    return ([each[i] for each in found] for i in (0, 1))


CRITICS = {
    "Monte Carlo": {},
    "PPO": {"gamma": 0.97, "lam": 0.8, "value_lam": 0.8},
    "decoupled": {"gamma": 0.9, "lam": 0.3, "value_lam": 0.7},
    "length-adaptive": {"alpha": 0.4},
}


@pytest.mark.parametrize("settings", CRITICS.values(), ids=CRITICS)
def test_it_judges_by_gae_in_plain_python(settings, float64):
    rollout, values, price = ragged()
    critic = knowing(values, steps=1, **settings)
    found, metrics = critic.judge(rollout, price, token_weights(rollout.mask, "token"), "here")
    gamma = settings.get("gamma", 1.0)
    lam = settings.get("lam", 1.0) if "alpha" not in settings else lambda n: max(0.0, 1 - 1 / (0.4 * n))
    advantages, _ = loops(rollout, values, price, gamma, lam)
    assert (tensor(advantages).view(3, 4, 6)[rollout.mask] != 0).all()
    torch.testing.assert_close(found, tensor(advantages).view(3, 4, 6))
    _, returns = loops(rollout, values, price, gamma, settings.get("value_lam", 1.0))
    returns = tensor(returns).view(3, 4, 6)[rollout.mask].tolist()
    inside = values[rollout.mask].tolist()
    errors = [r - v for r, v in zip(returns, inside, strict=True)]
    assert metrics["value_loss"] == pytest.approx(statistics.mean(error**2 / 2 for error in errors))
    explained = 1 - statistics.variance(errors) / statistics.variance(returns)
    assert metrics["explained_variance"] == pytest.approx(explained)
    assert not found.requires_grad


@pytest.mark.parametrize("aggregation", ["sequence", "token", "constant"])
@pytest.mark.parametrize("clip", [None, 0.2])
def test_its_first_step_goes_down_the_slope_of_the_value_loss(aggregation, clip, float64):
    """½(V − R)², added up by the weights of the policy's loss; a clip changes nothing at the old values themselves."""
    rollout, values, price = ragged()
    weights = token_weights(rollout.mask, aggregation)
    critic = knowing(values, steps=1, value_lam=0.7, clip=clip)
    critic.judge(rollout, price, weights, "here")
    _, returns = loops(rollout, values, price, 1.0, 0.7)
    expected = (values - tensor(returns).view(3, 4, 6)) * weights
    torch.testing.assert_close(critic.body.table.grad, expected)


def test_a_clip_holds_the_values_near_the_old_ones(float64):
    """Ten large steps: with the clip, a value stops once it is further than that from where it was."""
    rollout, values, price = ragged()
    moved = {}
    for clip in (None, 0.05):
        critic = knowing(values, steps=10, clip=clip, learning_rate=0.03)
        critic.judge(rollout, price, token_weights(rollout.mask), "here")
        moved[clip] = (critic.values(rollout) - values)[rollout.mask].abs()
    assert moved[None].median() > 0.2
    assert moved[0.05].median() < 0.75 * moved[None].median()


def test_each_token_pays_its_own_price(float64):
    """With nothing known, γ = λ = 1: the outcome, less the prices from this token on."""
    rollout, values, price = ragged()
    critic = Critic(Values(values), steps=1)
    found, _ = critic.judge(rollout, price, token_weights(rollout.mask), "here")
    to_come = price.flip(-1).cumsum(-1).flip(-1)
    torch.testing.assert_close(found, (rollout.rewards[..., None] - to_come).masked_fill(~rollout.mask, 0))


def test_before_it_has_learned_it_knows_nothing():
    """Values of 0: then the advantages are the rewards themselves, as with delta="raw"."""
    rollout = drawn()
    critic = Critic(toy_reader())
    assert (critic.values(rollout) == 0).all()
    found, metrics = critic.judge(rollout, torch.zeros_like(rollout.old_log_probs), token_weights(rollout.mask), "here")
    assert found.equal(raw(rollout.rewards)[..., None] * rollout.mask)
    assert metrics["explained_variance"] == pytest.approx(0)


def test_no_response_has_a_say_in_its_own_baseline():
    """The advantages are of the values before the critic learned from these very responses."""
    rollout = drawn()
    price, weights = torch.zeros_like(rollout.old_log_probs), token_weights(rollout.mask)
    few, many = (Critic(toy_reader(), steps=steps, learning_rate=0.1) for steps in (1, 50))
    assert few.judge(rollout, price, weights, "here")[0].equal(many.judge(rollout, price, weights, "here")[0])
    assert not few.judge(rollout, price, weights, "here")[0].equal(many.judge(rollout, price, weights, "here")[0])


def test_equal_outcomes_leave_no_dust_and_no_explained_variance():
    rollout = dataclasses.replace(drawn(), rewards=torch.full((6, 4), 0.1))
    critic = Critic(toy_reader())
    _, metrics = critic.judge(rollout, torch.zeros_like(rollout.old_log_probs), token_weights(rollout.mask), "here")
    assert metrics.keys() == {"value_loss"}


# --- What it sees ----------------------------------------------------------------------------------------------------


def trained_head(critic, seed=0):
    with torch.no_grad():
        critic.head.weight.copy_(torch.randn(critic.head.weight.shape, generator=torch.Generator().manual_seed(seed)))
    return critic


def test_a_value_knows_the_prompt_and_what_was_written_before_and_nothing_else():
    """Another token at t changes, to the bit, no value up to t, and every one after it; another prompt all."""
    critic = trained_head(Critic(reader(length=6)))
    generator = torch.Generator().manual_seed(1)
    prompts, responses = (torch.randint(5, shape, generator=generator) for shape in [(4, 3), (4, 3, 6)])
    mask = torch.ones_like(responses, dtype=torch.bool)
    values = critic(prompts, responses, mask)
    for t in range(6):
        other = responses.clone()
        other[..., t] = (other[..., t] + 1) % 5
        changed = critic(prompts, other, mask) != values
        assert not changed[..., : t + 1].any() and changed[..., t + 1 :].all()
    assert (critic((prompts + 1) % 5, responses, mask) != values).all()


def test_a_value_depends_on_the_place():
    critic = trained_head(Critic(reader(length=4)))
    with torch.no_grad():
        critic.body.written.zero_()
    values = critic(
        torch.zeros(1, 3, dtype=torch.long), torch.zeros(1, 1, 4, dtype=torch.long), torch.ones(1, 1, 4) > 0
    )
    assert values.unique().numel() == 4


def test_a_shorter_response_is_read_as_its_beginning():
    critic = trained_head(Critic(reader(length=6)))
    generator = torch.Generator().manual_seed(1)
    prompts, responses = (torch.randint(5, shape, generator=generator) for shape in [(4, 3), (4, 3, 6)])
    mask = torch.ones_like(responses, dtype=torch.bool)
    short = critic(prompts, responses[..., :4], mask[..., :4])
    assert short.equal(critic(prompts, responses, mask)[..., :4])


def test_outside_the_mask_values_are_zero():
    rollout = drawn()
    values = trained_head(Critic(toy_reader())).values(rollout)
    assert (values[~rollout.mask] == 0).all() and (values[rollout.mask] != 0).all()


def test_the_features_of_a_prefix_by_hand(float64):
    body = toy_reader(width=4)
    asked, written, step = (weight.tolist() for weight in (body.asked, body.written, body.step))
    prompt, response = (1, 2), (2, 0, 1)
    found = body.features(tensor([prompt]), tensor([[response]]), torch.ones(1, 1, 3) > 0)
    for t, j in itertools.product(range(3), range(4)):
        before = sum(written[place][response[place]][j] for place in range(t))
        total = sum(asked[place][token][j] for place, token in enumerate(prompt)) + before + step[t][j]
        assert found[0, 0, t, j].item() == pytest.approx(math.tanh(total))


def test_the_same_seed_reads_the_same_and_another_does_not():
    assert equal(reader(3), reader(3)) and not equal(reader(3), reader(4))


# --- What it learns --------------------------------------------------------------------------------------------------


def test_its_steps_lower_the_value_loss():
    rollout = drawn(batch_size=16)
    price, weights = torch.zeros_like(rollout.old_log_probs), token_weights(rollout.mask)
    losses = [
        Critic(toy_reader(), steps=steps).judge(rollout, price, weights, "")[1]["value_loss"] for steps in (1, 5, 20)
    ]
    assert losses[0] > losses[1] > losses[2] > 0


def prefixes(policy):
    """Every prefix after which a token may follow, with its probability."""
    found = {}
    for response, chance in oracle.distribution(policy, PROMPT).items():
        for t in range(len(response)):
            found[response[:t]] = found.get(response[:t], 0) + chance
    return found


def values_of(critic, policy, listed):
    """Its value of each prefix."""
    padded = tensor([[*prefix, *[0] * (policy.length - len(prefix))] for prefix in listed])[None]
    with torch.no_grad():
        found = critic(tensor([PROMPT]), padded, torch.ones_like(padded, dtype=torch.bool))[0]
    return [found[row, len(prefix)].item() for row, prefix in enumerate(listed)]


def early(response):
    """A reward that is mostly decided by the first token."""
    return 2.0 * (response[0] == 2) + len(response)


def paid_early_at_the_end(policy, prefix):
    return early(prefix) if prefix[-1] == policy.end_token or len(prefix) == policy.length else 0.0


def explained_by(exact, rollout):
    """1 − Var(outcome − V)/Var(outcome) over all tokens, with the exact values."""
    outcomes, errors = [], []
    for b, g in itertools.product(range(len(rollout.rewards)), range(rollout.rewards.shape[1])):
        response = rollout.responses[b, g, : rollout.mask[b, g].sum()].tolist()
        for t in range(len(response)):
            outcomes.append(rollout.rewards[b, g].item())
            errors.append(outcomes[-1] - exact[tuple(response[:t])])
    return 1 - statistics.variance(errors) / statistics.variance(outcomes)


@pytest.mark.parametrize("value_lam", [1.0, 0.5])
def test_its_values_approach_the_exact_ones(value_lam, float64):
    """By enumeration in plain Python, for every prefix, of a policy that stands still: it explains what can be."""
    policy = oracle.toy_policy()
    chances = prefixes(policy)
    exact = [exact_value(policy, paid_early_at_the_end, prefix) for prefix in chances]
    critic, errors, explained = Critic(toy_reader(), value_lam=value_lam, learning_rate=0.01), [], []
    for epoch in range(40):
        rollout = drawn(early, batch_size=64, seed=epoch)
        price = torch.zeros_like(rollout.old_log_probs)
        explained.append(
            critic.judge(rollout, price, token_weights(rollout.mask, "token"), "")[1]["explained_variance"]
        )
        pairs = zip(values_of(critic, policy, chances), exact, chances.values(), strict=True)
        errors.append(sum(chance * (found - truth) ** 2 for found, truth, chance in pairs) ** 0.5)
    assert max(exact) - min(exact) > 1.5
    assert errors[-1] < 0.2 < errors[0] / 2
    assert explained[0] == pytest.approx(0, abs=1e-9)
    if value_lam == 1:
        assert explained[-1] > 0.9 * explained_by(dict(zip(chances, exact, strict=True)), rollout) > 0.2


# --- In the loop -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"positive_weight": 0.5}, {"beta": 0.3}, {"loss": "squared"}])
def test_while_it_warms_up_the_policy_stands_still_to_the_bit(settings):
    """Not moved by what is imitated either, nor by a reference that lies elsewhere."""
    policy, critic = SortingPolicy(seed=0), Critic(reader(), warmup=2)
    config = dataclasses.replace(SMALL, **settings)
    reference = SortingPolicy(seed=9) if config.beta else None
    start, before = copy.deepcopy(policy), copy.deepcopy(critic)
    for metrics in train(policy, LECTURE, config, reference=reference, critic=critic):
        if metrics["epoch"] <= 2:
            assert equal(policy, start) and metrics["grad_norm"] == 0 and metrics["zero_signal_groups"] == 1
            assert not equal(critic, before)
        else:
            assert not equal(policy, start) and metrics["grad_norm"] > 0


def test_a_critic_needs_rewards_as_they_are():
    with pytest.raises(ValueError, match="a critic judges rewards as they are: expected delta='raw'; got 'centered'"):
        next(train(SortingPolicy(), LECTURE, dataclasses.replace(SMALL, delta="centered"), critic=Critic(reader())))


def test_metrics_of_a_critic_are_reported_and_without_one_are_not():
    with_critic = next(train(SortingPolicy(seed=0), LECTURE, SMALL, critic=Critic(reader())))
    without = next(train(SortingPolicy(seed=0), LECTURE, SMALL))
    assert with_critic.keys() - without.keys() == {"value_loss", "explained_variance"}
    assert all(type(value) in (int, float) and math.isfinite(value) for value in with_critic.values())


def test_the_body_is_copied_and_the_policy_is_no_part_of_the_critic():
    body = reader()
    before = copy.deepcopy(body)
    critic = Critic(body, learning_rate=0.1)
    list(train(SortingPolicy(seed=0), LECTURE, SMALL, critic=critic))
    assert equal(body, before) and not equal(critic.body, before)


@pytest.mark.parametrize("rows, micro", [(1, None), (2, 2), (None, 1)])
def test_passes_and_micro_batches_do_not_change_a_run(rows, micro, float64):
    runs = []
    for settings, passes in [({}, None), ({"micro_batch_size": micro}, rows)]:
        policy, critic = oracle.toy_policy(), Critic(toy_reader(), lam=0.9, rows_per_pass=passes)
        config = dataclasses.replace(SMALL, aggregation="token", batch_size=5, **settings)
        history = list(train(policy, WorthTask(), config, critic=critic))
        runs.append((timeless(history), [*policy.parameters(), *critic.parameters()]))
    for one, other in zip(*(history for history, _ in runs), strict=True):
        assert one == pytest.approx(other, rel=1e-6)
    for one, other in zip(*(weights for _, weights in runs), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-8)


def test_a_run_with_a_critic_repeats_and_resumes_to_the_bit():
    def fresh():
        policy = SortingPolicy(seed=0)
        return policy, Critic(reader(), warmup=1, lam=0.9)

    (policy, critic), (other, same) = fresh(), fresh()
    whole = timeless(train(policy, LECTURE, SMALL, critic=critic))
    state = State(other, SMALL, critic=same)
    parts = timeless(train(other, LECTURE, dataclasses.replace(SMALL, epochs=2, evaluate_every=100), resume_from=state))
    parts = parts[:2] + timeless(train(other, LECTURE, SMALL, resume_from=state))
    for one, expected in zip(parts, whole, strict=True):
        assert {name: one[name] for name in expected} == expected
    assert equal(policy, other) and equal(critic, same)


def test_each_seed_gets_a_policy_and_a_critic_of_its_own():
    made = []

    def make_critic(policy, seed):
        made.append((policy, seed))
        return Critic(reader(seed))

    runs = run_seeds(lambda seed: SortingPolicy(seed=seed), LECTURE, SMALL, [0, 1], make_critic=make_critic)
    config = dataclasses.replace(SMALL, seed=1)
    alone = train(SortingPolicy(seed=1), LECTURE, config, critic=Critic(reader(1)))
    assert timeless(alone) == timeless(runs[1]) != timeless(runs[0])
    assert [seed for _, seed in made] == [0, 1] and made[0][0] is not made[1][0]


def test_a_value_that_is_not_finite_stops_the_run():
    critic = Critic(reader(), learning_rate=1e38)
    with pytest.raises(
        FloatingPointError, match=r"^epoch \d, the critic's step \d: value loss is not finite; likely .*"
    ):
        list(train(SortingPolicy(seed=0), LECTURE, SMALL, critic=critic))


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"gamma": 1.5}, "gamma is a share of what comes later and must lie between 0 and 1; got 1.5"),
        ({"lam": -0.1}, "lam is a share"),
        ({"value_lam": 2.0}, "value_lam is a share"),
        ({"steps": 0}, "a critic needs learning_rate > 0, steps ≥ 1 and warmup ≥ 0; got 0.01, 0 and 0"),
        ({"warmup": -1}, "got 0.01, 4 and -1"),
        ({"learning_rate": 0.0}, "got 0.0, 4 and 0"),
    ],
)
def test_settings_of_a_critic_that_cannot_be_are_refused(settings, message):
    with pytest.raises(ValueError, match=message.replace(".", r"\.")):
        Critic(reader(), **settings)


@pytest.mark.parametrize("seed", range(3))
def test_ppo_sorts_what_it_never_trained_on(seed):
    """As published, with a quarter of the responses that a group needs: the critic compares instead."""
    recipe = RECIPES["ppo"]
    critic = recipe.make_critic(reader(seed))
    config = recipe.config(epochs=80, group_size=4, seed=seed, evaluate_every=1000)
    task = SortingTask(reward=position_match, seed=5)
    history = list(train(SortingPolicy(init_scale=0.02, seed=seed), task, config, critic=critic))
    assert history[-1]["held_out_exact"] >= 0.9


# --- The expected gradient -------------------------------------------------------------------------------------------


def expected_gradient(make_critic, settings):
    """−E[gradient], where each response in turn is the whole rollout, weighted with its probability."""
    total = 0
    for response, chance in oracle.distribution(oracle.toy_policy(), PROMPT).items():
        policy, reference = oracle.toy_policy(0), oracle.toy_policy(1)
        padded, mask = (part[None] for part in oracle.tensors(policy, [response]))
        old, ref = (model.log_probs(tensor([PROMPT]), padded, mask).detach() for model in (policy, reference))
        rollout = Rollout(tensor([PROMPT]), padded, mask, tensor([[worth(response)]]), old, ref)
        sums = {"aggregation": "constant", "constant": 1.0, "delta": "raw", "inner_steps": 1, "max_grad_norm": None}
        config = Config(**{**sums, **settings})
        learn(policy, rollout, config, State(policy, config, reference, make_critic()))
        total = total - chance * oracle.gradient_of(policy)
    return total


def arbitrary_critic(**settings):
    """Some value for each prefix; off by a lot."""
    return trained_head(Critic(toy_reader(seed=5), steps=1, **settings), seed=6)


@pytest.mark.parametrize("loss", ["naive", "unclipped", "clipped", "clipped_weight"])
def test_any_value_leaves_the_policy_gradient_as_it_is(loss, float64):
    """γ = λ = 1: a value of the prefix is a baseline, right or wrong."""
    policy = oracle.toy_policy()
    expected = oracle.derivative(policy, lambda: oracle.expectation(policy, PROMPT, worth))
    torch.testing.assert_close(expected_gradient(arbitrary_critic, {"loss": loss}), expected)


def test_a_wrong_value_biases_every_smaller_lambda(float64):
    policy = oracle.toy_policy()
    expected = oracle.derivative(policy, lambda: oracle.expectation(policy, PROMPT, worth))
    biases = [
        (expected_gradient(lambda lam=lam: arbitrary_critic(lam=lam), {}) - expected).norm() for lam in (0.0, 0.5, 0.95)
    ]
    assert biases[0] > biases[1] > biases[2] > 0.01 * expected.norm()


def test_the_price_per_token_descends_the_kl_of_whole_responses(float64):
    """∇E[R] − β·∇KL(π‖π_ref): what PPO pays per token adds up to what the others pay for a response."""
    policy, reference = oracle.toy_policy(0), oracle.toy_policy(1)
    climb = oracle.derivative(policy, lambda: oracle.expectation(policy, PROMPT, worth))
    drift = oracle.derivative(policy, lambda: oracle.kl(policy, reference, PROMPT))
    found = expected_gradient(arbitrary_critic, {"beta": 0.7, "kl": "k1", "kl_in": "reward"})
    torch.testing.assert_close(found, climb - 0.7 * drift)


def test_a_body_without_features_is_refused_with_what_would_do():
    with pytest.raises(ValueError, match=r"which SortingPolicy does not have; expected a body such as a Lang"):
        Critic(SortingPolicy())
