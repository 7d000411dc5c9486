"""Every recipe through the whole loop, against its paper's formula in plain Python: loops and floats, no tensors.

The policy is a table of log-probs, so that the gradient with respect to them can be read off it; the truth's gradient
is by central differences. Numbers of the papers (ε, β, τ, μ, λ) are written here once more, not read from the recipe.
"""

import dataclasses
import functools
import math
import random
import statistics

import pytest
import torch
from torch import nn, tensor

from minirl import RECIPES, Config
from minirl.critic import Critic, PrefixReader
from minirl.policy import SortingPolicy
from minirl.recipes import Recipe, find, table
from minirl.rollout import Batch
from minirl.shaping import Shaped
from minirl.sorting import SortingTask
from minirl.train import State, train

pytestmark = pytest.mark.usefixtures("float64")
ROWS, BATCH, GROUP, LENGTH, BUFFER = 16, 8, 3, 6, 3


def drawn(seed=24):
    """Lengths, right or wrong, rewards, and log-probs of three policies, values: nested lists [row][group][token]."""
    chance = random.Random(seed)
    shape = [[range(LENGTH) for _ in range(GROUP)] for _ in range(ROWS)]
    lengths = [[chance.randint(1, LENGTH) for _ in group] for group in shape]
    right = [[float(chance.random() < 0.5) for _ in group] for group in shape]
    right[1], right[9], lengths[1] = [1.0] * GROUP, [0.0] * GROUP, [2, 1, 3]  # tied, and none of them is long
    lengths[4] = [LENGTH, 1, LENGTH - 1]
    rewards = [[value + (value - 1) * (row % 3) / 4 for value in group] for row, group in enumerate(right)]
    old = [[[-chance.uniform(0.2, 3) for _ in tokens] for tokens in group] for group in shape]
    near = [[chance.random() < 0.25 for _ in group] for group in shape]  # so near that GSPO's narrow clip is open
    new = [
        [
            [value + (chance.uniform(-2e-4, 2e-4) if near[row][g] else chance.uniform(-0.6, 0.6)) for value in tokens]
            for g, tokens in enumerate(group)
        ]
        for row, group in enumerate(old)
    ]
    ref = [[[value + chance.uniform(-0.8, 0.8) for value in tokens] for tokens in group] for group in old]
    values = [[[chance.uniform(-0.5, 1) for _ in tokens] for tokens in group] for group in shape]
    return lengths, right, rewards, old, new, ref, values


LENGTHS, RIGHT, REWARDS, OLD, NEW, REF, VALUES = drawn()


# --- The formulas --------------------------------------------------------------------------------------------------


def mean(numbers):
    return sum(numbers) / len(numbers)


def tokens(rows):
    """(row, response, token) of every token inside a response."""
    return [(b, g, t) for b in rows for g in range(GROUP) for t in range(LENGTHS[b][g])]


def responses(rows):
    return [(b, g) for b in rows for g in range(GROUP)]


def ratio(new, b, g, t):
    return math.exp(new[b][g][t] - OLD[b][g][t])


def clipped(rho, advantage, low, high):
    return -min(rho * advantage, min(max(rho, 1 - low), 1 + high) * advantage)


def k3(new, b, g, t):
    r = math.exp(REF[b][g][t] - new[b][g][t])
    return r - 1 - math.log(r)


def standardised(rewards):
    return [(reward - mean(rewards)) / (statistics.stdev(rewards) + 1e-6) for reward in rewards]


def centred(rewards):
    return [reward - mean(rewards) for reward in rewards]


def overlong(length):
    """0, then down to −1 over the last BUFFER of LENGTH tokens."""
    return min(0.0, max(-1.0, (LENGTH - BUFFER - length) / BUFFER))


def brevity(row):
    """Kimi's λ of each response of a group; min(0, λ) for a wrong one."""
    lengths = LENGTHS[row]
    if min(lengths) == max(lengths):
        return [0.0] * GROUP
    shares = [0.5 - (length - min(lengths)) / (max(lengths) - min(lengths)) for length in lengths]
    return [share if right else min(0.0, share) for share, right in zip(shares, RIGHT[row], strict=True)]


def tied(rewards):
    return len(set(rewards)) == 1


def with_overlong():
    return [[r + overlong(n) for r, n in zip(*rows, strict=True)] for rows in zip(REWARDS, LENGTHS, strict=True)]


def first_with_signal(rewards):
    """Tied groups are replaced by the next ones, until the batch is full."""
    return [row for row in range(ROWS) if not tied(rewards[row])][:BATCH]


def advantages(b, g, price, lam, gamma=1.0):
    """GAE by its sum: the outcome at the last token, and each token pays its price."""
    n = LENGTHS[b][g]
    rewards = [-price(b, g, t) + (REWARDS[b][g] if t == n - 1 else 0.0) for t in range(n)]
    values = [*VALUES[b][g][:n], 0.0]
    errors = [rewards[t] + gamma * values[t + 1] - values[t] for t in range(n)]
    return [sum((gamma * lam) ** k * error for k, error in enumerate(errors[t:])) for t in range(n)]


def free(b, g, t):
    return 0.0


def reinforce(new, frozen):
    whole = responses(range(BATCH))
    return -mean([REWARDS[b][g] * sum(new[b][g][: LENGTHS[b][g]]) for b, g in whole])


def rloo(new, frozen, beta=0.03):
    """The KL of the policy that sampled is in the reward of the whole response."""

    def paid(b, g):
        return REWARDS[b][g] - beta * sum(OLD[b][g][t] - REF[b][g][t] for t in range(LENGTHS[b][g]))

    def others(b, g):
        return mean([paid(b, other) for other in range(GROUP) if other != g])

    whole = responses(range(BATCH))
    return -mean([(paid(b, g) - others(b, g)) * sum(new[b][g][: LENGTHS[b][g]]) for b, g in whole])


def grpo(new, frozen, beta=0.04, epsilon=0.2):
    losses = []
    for b, g in responses(range(BATCH)):
        advantage, each = standardised(REWARDS[b])[g], range(LENGTHS[b][g])
        policy = [clipped(ratio(new, b, g, t), advantage, epsilon, epsilon) for t in each]
        losses.append(mean([loss + beta * k3(new, b, g, t) for t, loss in zip(each, policy, strict=True)]))
    return mean(losses)


def dr_grpo(new, frozen, epsilon=0.2):
    """No std; the divisor of a response is the longest length there can be."""
    losses = [
        clipped(ratio(new, b, g, t), centred(REWARDS[b])[g], epsilon, epsilon) for b, g, t in tokens(range(BATCH))
    ]
    return sum(losses) / (BATCH * GROUP * LENGTH)


def dapo(new, frozen):
    rewards = with_overlong()
    rows = first_with_signal(rewards)
    return mean([clipped(ratio(new, b, g, t), standardised(rewards[b])[g], 0.2, 0.28) for b, g, t in tokens(rows)])


def gpg(new, frozen):
    """α = B/(B − M) for M tied groups of B, and the mean over the tokens."""
    alpha = BATCH / (BATCH - sum(tied(REWARDS[b]) for b in range(BATCH)))
    return -mean([alpha * centred(REWARDS[b])[g] * new[b][g][t] for b, g, t in tokens(range(BATCH))])


def ppo(new, frozen, beta=0.02, lam=0.95):
    def price(b, g, t):
        return beta * (OLD[b][g][t] - REF[b][g][t])

    found = {(b, g): advantages(b, g, price, lam) for b, g in responses(range(BATCH))}
    return mean([clipped(ratio(new, b, g, t), found[b, g][t], 0.2, 0.2) for b, g, t in tokens(range(BATCH))])


def vapo(new, frozen, mu=0.1, alpha=0.05):
    found = {}
    for b, g in responses(range(BATCH)):
        found[b, g] = advantages(b, g, free, max(0.0, 1 - 1 / (alpha * LENGTHS[b][g])))
    policy = mean([clipped(ratio(new, b, g, t), found[b, g][t], 0.2, 0.28) for b, g, t in tokens(range(BATCH))])
    positive = [new[b][g][t] for b, g, t in tokens(range(BATCH)) if REWARDS[b][g] > 0]
    return policy - mu * mean(positive)


def vapo_with_more_of_lambda(new, frozen):
    return vapo(new, frozen, alpha=0.5)


def most_varied():
    by_std = sorted(range(BATCH), key=lambda row: -statistics.stdev(REWARDS[row]))
    return sorted(by_std[: BATCH // 4])


def starpo_s(new, frozen):
    losses = []
    for b, g in responses(most_varied()):
        found = advantages(b, g, free, 1.0)
        losses.append(mean([clipped(ratio(new, b, g, t), found[t], 0.2, 0.28) for t in range(LENGTHS[b][g])]))
    return mean(losses)


def kimi(new, frozen, tau=0.1):
    squares = []
    for b in range(BATCH):
        rewards = [reward + 0.2 * part for reward, part in zip(REWARDS[b], brevity(b), strict=True)]
        for g in range(GROUP):
            drift = sum(new[b][g][t] - OLD[b][g][t] for t in range(LENGTHS[b][g]))
            squares.append((centred(rewards)[g] - tau * drift) ** 2)
    return mean(squares)


def gspo(new, frozen):
    """(π/π_old)^(1/length) of a whole response; the clip is 3e-4 and 4e-4."""
    losses = []
    for b, g in responses(range(BATCH)):
        rho = math.exp(mean([new[b][g][t] - OLD[b][g][t] for t in range(LENGTHS[b][g])]))
        losses.append(clipped(rho, standardised(REWARDS[b])[g], 3e-4, 4e-4))
    return mean(losses)


def cispo(new, frozen):
    """The weight is bounded from above only, and has no gradient: it is that of the `frozen` log-probs."""
    rewards = with_overlong()
    return mean(
        [
            -min(ratio(frozen, b, g, t), 1.28) * standardised(rewards[b])[g] * new[b][g][t]
            for b, g, t in tokens(first_with_signal(rewards))
        ]
    )


FORMULAS = {
    "reinforce": reinforce,
    "rloo": rloo,
    "grpo": grpo,
    "dr-grpo": dr_grpo,
    "dapo": dapo,
    "gpg": gpg,
    "ppo": ppo,
    "vapo": vapo,
    "starpo-s": starpo_s,
    "kimi-k1.5": kimi,
    "gspo": gspo,
    "cispo": cispo,
}
CASES = [(name, {}, formula) for name, formula in FORMULAS.items()]
CASES.append(("vapo", {"alpha": 0.5}, vapo_with_more_of_lambda))  # at 0.05 these short responses all have λ = 0


@functools.cache
def slopes(formula, step=1e-5):
    """∂ loss/∂ log π at each token, by central differences; 0 outside."""
    found = [[[0.0] * LENGTH for _ in range(GROUP)] for _ in range(ROWS)]
    moving = [[list(row) for row in group] for group in NEW]
    for b, g, t in tokens(range(ROWS if formula in (dapo, cispo) else BATCH)):
        ends = []
        for sign in (1, -1):
            moving[b][g][t] = NEW[b][g][t] + sign * step
            ends.append(formula(moving, NEW))
        moving[b][g][t] = NEW[b][g][t]
        found[b][g][t] = (ends[0] - ends[1]) / (2 * step)
    return found


# --- The loop ------------------------------------------------------------------------------------------------------


class Table(nn.Module):
    """A policy that is its log-probs: `old` when it samples, `new` when it learns. A prompt is its row's number."""

    def __init__(self, new, old=None):
        super().__init__()
        self.new, self.old = nn.Parameter(tensor(new)), tensor(new if old is None else old)

    def sample(self, prompts, group_size, generator=None):
        inside = torch.arange(LENGTH) < tensor(LENGTHS)[prompts[:, 0], :, None]
        return torch.zeros_like(inside, dtype=torch.long), inside

    def score(self, prompts, responses, mask):
        return self.old[prompts[:, 0]].masked_fill(~mask, 0), torch.zeros(mask.shape)

    def log_probs(self, prompts, responses, mask):
        return self.new[prompts[:, 0]].masked_fill(~mask, 0)


class Values(nn.Module):
    """A body of width 1 whose feature is the value."""

    width = 1

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(tensor(VALUES))

    def features(self, prompts, responses, mask):
        return self.table[prompts[:, 0], ..., None]


class Rows:
    """The rows of the tables in turn, a batch after another."""

    def __init__(self):
        self.next = 0

    def sample(self, batch_size, generator=None):
        rows = torch.arange(self.next, self.next + batch_size)
        self.next += batch_size
        return Batch(rows[:, None], rows)

    def rewards(self, batch, responses, mask):
        return tensor(REWARDS)[batch.answers]

    def correct(self, batch, responses, mask):
        return tensor(RIGHT)[batch.answers]


def one_update(name, changes, **settings):
    """The metrics of one epoch with one step, the gradient at the tables' log-probs, and the critic."""
    recipe, task, policy = RECIPES[name], Rows(), Table(NEW, OLD)
    task = Shaped(task, recipe.reward, LENGTH, BUFFER) if recipe.reward else task
    once = {"epochs": 2, "evaluate_every": 2, "inner_steps": 1, "batch_size": BATCH, "group_size": GROUP}
    config = recipe.config(**{**once, "max_grad_norm": None, "learning_rate": 1e-9, **settings})
    critic = recipe.make_critic(Values(), steps=1, **changes)
    if critic is not None:
        nn.init.ones_(critic.head.weight)
        critic.rollouts += critic.warmup  # over
    reference = Table(REF) if config.beta else None
    metrics = next(train(policy, task, config, reference=reference, critic=critic))
    return metrics, policy.new.grad, critic


def test_every_recipe_has_a_formula_here():
    assert FORMULAS.keys() == RECIPES.keys()


def test_the_batch_is_one_that_could_tell_them_apart():
    """Tied groups, of which some differ once long ones pay; lengths and signs of every kind; clips on both sides."""
    shaped = with_overlong()
    assert [row for row in range(BATCH) if tied(REWARDS[row])] == [1, 4]
    assert [row for row in range(BATCH) if tied(shaped[row])] == [1]  # in row 4 one of the equals is too long
    assert len(first_with_signal(shaped)) == BATCH and sum(not tied(rewards) for rewards in shaped) > BATCH
    assert {length for group in LENGTHS[:BATCH] for length in group} == set(range(1, LENGTH + 1))
    assert {reward > 0 for group in REWARDS[:BATCH] for reward in group} == {True, False}
    assert any(-1 < overlong(length) < 0 for group in LENGTHS for length in group)
    for name in ("grpo", "dr-grpo", "dapo", "ppo", "vapo", "starpo-s", "gspo"):
        metrics, _, _ = one_update(name, {})
        assert metrics["clip_low"] > 0.02 and metrics["clip_high"] > 0.02, name
    assert one_update("cispo", {})[0]["clip_high"] > 0.02


@pytest.mark.parametrize("micro_batch_size", [None, 3])
@pytest.mark.parametrize("name, changes, formula", CASES, ids=[*FORMULAS, "vapo with more of λ"])
def test_loss_and_gradient_equal_the_papers_formula_in_plain_python(name, changes, formula, micro_batch_size):
    metrics, gradient, _ = one_update(name, changes, micro_batch_size=micro_batch_size)
    assert metrics["loss"] == pytest.approx(formula(NEW, NEW), rel=1e-9)
    expected = tensor(slopes(formula))
    assert (expected != 0).sum() > 10
    torch.testing.assert_close(gradient, expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    "name, beta, lam, sequence", [("ppo", 0.02, 0.95, 0), ("vapo", 0, 1, 0), ("starpo-s", 0, 1, 1)]
)
def test_a_critic_learns_the_papers_returns(name, beta, lam, sequence):
    """½(V − R)² with R = A + V under a λ of its own, which for VAPO is 1; summed up as the policy's loss is."""
    metrics, _, _ = one_update(name, {})

    def price(b, g, t):
        return beta * (OLD[b][g][t] - REF[b][g][t])

    squares = {pair: [a**2 / 2 for a in advantages(*pair, price, lam)] for pair in responses(range(BATCH))}
    if sequence:
        expected = mean([mean(squares[pair]) for pair in responses(most_varied())])
    else:
        expected = mean([square for each in squares.values() for square in each])
    assert metrics["value_loss"] == pytest.approx(expected, rel=1e-9)


def test_vapo_and_no_other_lets_its_critic_learn_alone_at_first():
    warmups = {name: recipe.critic.get("warmup", 0) for name, recipe in RECIPES.items() if recipe.critic is not None}
    assert warmups == {"ppo": 0, "vapo": 10, "starpo-s": 0}


# --- The recipes themselves ----------------------------------------------------------------------------------------


def test_a_setting_of_yours_wins_and_nothing_else_changes():
    found = RECIPES["dapo"].config(clip_high=0.5, epochs=7)
    assert found == dataclasses.replace(RECIPES["dapo"].config(), clip_high=0.5, epochs=7)
    assert RECIPES["dapo"].config().clip_high == 0.28
    assert RECIPES["gpg"].config(inner_steps=2).inner_steps == 2


def test_what_is_your_choice_is_left_to_you():
    """Learning rate, batch, group, epochs and seed are nobody's but the run's."""
    for name, recipe in RECIPES.items():
        config, plain = recipe.config(), Config()
        for setting in ("epochs", "batch_size", "group_size", "learning_rate", "seed", "micro_batch_size"):
            assert getattr(config, setting) == getattr(plain, setting), name


def test_recipes_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        RECIPES["grpo"].title = "mine"
    with pytest.raises(TypeError):
        RECIPES["mine"] = RECIPES["grpo"]
    for mapping in (RECIPES["ppo"].settings, RECIPES["ppo"].critic, RECIPES["dapo"].reward):
        with pytest.raises(TypeError):
            mapping["gamma"] = 0.5


def test_responses_are_fresh_where_nothing_corrects_for_old_ones():
    fresh = {name for name, recipe in RECIPES.items() if recipe.config().inner_steps == 1}
    assert fresh == {name for name, recipe in RECIPES.items() if recipe.config().loss == "naive"}
    assert fresh == {"reinforce", "rloo", "gpg"}


def test_tied_groups_are_drawn_anew_three_times_at_most():
    again = {name: recipe.config().resample for name, recipe in RECIPES.items() if recipe.config().resample}
    assert again == {"dapo": 3, "cispo": 3}


def test_a_recipe_that_no_loop_could_run_is_refused_when_made():
    with pytest.raises(ValueError, match="loss='ppo' is unknown"):
        Recipe("Mine", "nowhere", "in name only", {"loss": "ppo"})


def test_a_critic_only_where_the_method_has_one_and_with_the_methods_numbers():
    body = Values()
    made = {name: recipe.make_critic(body, learning_rate=0.5) for name, recipe in RECIPES.items()}
    critics = {name: critic for name, critic in made.items() if critic is not None}
    assert critics.keys() == {"ppo", "vapo", "starpo-s"}
    assert all(isinstance(critic, Critic) and critic.body is not body for critic in critics.values())
    assert all(critic.optimizer.param_groups[0]["lr"] == 0.5 for critic in critics.values())
    numbers = {name: (each.gamma, each.lam, each.value_lam, each.alpha) for name, each in critics.items()}
    assert numbers == {"ppo": (1, 0.95, 0.95, None), "vapo": (1, 1, 1, 0.05), "starpo-s": (1, 1, 1, None)}
    assert RECIPES["ppo"].make_critic(body, lam=0.5).lam == 0.5
    assert all(RECIPES[name].config().delta == "raw" for name in critics)


def test_an_unknown_recipe_is_refused_with_the_known_ones():
    assert find("vapo") is RECIPES["vapo"]
    with pytest.raises(ValueError, match=r"^recipe='ppo2' is unknown; expected one of reinforce, rloo, .*, cispo$"):
        find("ppo2")


def test_the_table_has_a_row_for_each_and_says_what_the_settings_say():
    head, line, *rows = table().splitlines()
    assert [row.split("`")[1] for row in rows] == list(RECIPES)
    assert {row.count(" | ") for row in [head, *rows]} == {8} and line.count("---") == 9
    cells = {row.split("`")[1]: [cell.strip() for cell in row.strip("|").split("|")] for row in rows}
    assert cells["grpo"][1:8] == ["normalized", "clipped", "sequence", "0.2 / 0.2", "k3 in loss, β 0.04", "–", "–"]
    assert cells["ppo"][1] == "advantages" and cells["ppo"][5:7] == ["k1 in reward, β 0.02", "λ 0.95, for values 0.95"]
    assert cells["vapo"][6] == "λ 1 − 1/(0.05·length), for values 1"
    assert cells["vapo"][7] == "0.1 · imitation of right answers; 10 rollouts for the critic alone"
    assert cells["reinforce"][3] == cells["rloo"][3] == "sum" and cells["reinforce"][4] == "–"
    assert cells["gspo"][4] == "0.0003 / 0.0004 per response" and cells["cispo"][4] == "weight ≤ 1.28"
    assert cells["dapo"][4] == "0.2 / 0.28" and cells["dapo"][7] == "tied groups drawn anew; soft overlong penalty"
    assert cells["starpo-s"][7] == "most varied 25% of groups" and cells["gpg"][7] == "fresh responses"
    assert cells["kimi-k1.5"][7] == "τ 0.1; length reward, late"
    assert [cells[name][8] for name in cells] == [recipe.source for recipe in RECIPES.values()]


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_trains_a_policy(name):
    """A few epochs of sorting with the recipe as it is; that they learn is measured in the notebooks."""
    policy, recipe = SortingPolicy(vocab_size=3, length=2, seed=0), RECIPES[name]
    task = SortingTask(vocab_size=3, length=2, seed=0)
    task = Shaped(task, recipe.reward, max_length=2) if recipe.reward else task
    critic = recipe.make_critic(PrefixReader(3, 2, 2, seed=0), **({"warmup": 1} if name == "vapo" else {}))
    config = recipe.config(epochs=3, batch_size=4, group_size=6)
    before = [weight.clone() for weight in policy.parameters()]
    state = State(policy, config, None, critic)
    history = list(train(policy, task, config, resume_from=state))
    assert [row["epoch"] for row in history] == [1, 2, 3]
    assert all(math.isfinite(value) for row in history for value in row.values())
    assert any((one != other).any() for one, other in zip(before, policy.parameters(), strict=True))
