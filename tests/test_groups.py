"""Which groups are learned from: chosen, drawn anew until there are enough, cut to the batch, and all counted."""

import copy
import dataclasses
import statistics

import oracle
import pytest
import torch
from torch import tensor

from minirl.groups import joined, most_varied, stacked, with_signal
from minirl.metrics import describe_rollout
from minirl.rollout import Batch, Rollout, collect
from minirl.train import Config, State, learn, train

REWARDS = tensor([[1.0, 1.0, 1.0], [0.0, 1.0, 0.0], [0.1, 0.1, 0.1], [5.0, -5.0, 0.0], [2.0, 2.0, 3.0]])
ONE_STEP = {"inner_steps": 1, "group_size": 3, "evaluate_every": 1000, "epochs": 2, "max_grad_norm": None}


class Planned:
    """Groups that are tied (t), vary (v) or vary a lot (w), as written, `batch_size` of them at a time."""

    def __init__(self, plan):
        self.plan, self.asked, self.drawn = plan, [], 0

    def sample(self, batch_size, generator=None):
        rows = torch.arange(self.drawn, self.drawn + batch_size)
        self.drawn += batch_size
        self.asked.append(batch_size)
        return Batch(rows[:, None], rows)

    def held_out(self):
        return Batch(torch.zeros(1, 1, dtype=torch.long), torch.zeros(1, dtype=torch.long))

    def rewards(self, batch, responses, mask):
        scale = tensor([{"t": 0.0, "v": 1.0, "w": 3.0}[self.plan[row]] for row in batch.answers.tolist()])
        return 0.1 + scale[:, None] * torch.arange(responses.shape[1])


def first_epoch(plan, policy=None, **settings):
    policy, task = policy or oracle.toy_policy(), Planned(plan)
    return next(train(policy, task, Config(**{**ONE_STEP, **settings}))), task


# --- Which -----------------------------------------------------------------------------------------------------------


def test_groups_with_signal_are_those_whose_rewards_differ():
    assert with_signal(REWARDS).tolist() == [1, 3, 4]
    assert with_signal(REWARDS[[0, 2]]).tolist() == []
    assert with_signal(REWARDS[:, :1]).tolist() == []  # one response differs from none


def test_the_most_varied_are_a_share_by_std_in_their_order():
    generator = torch.Generator().manual_seed(0)
    for size in range(1, 13):
        rewards = torch.randn(size, 4, generator=generator)
        spreads = [statistics.stdev(row) for row in rewards.tolist()]
        for share in (0.01, 0.25, 0.5, 0.75, 1.0):
            best = sorted(range(size), key=lambda row: -spreads[row])[: max(round(share * size), 1)]
            assert most_varied(rewards, share).tolist() == sorted(best)


def test_among_equals_the_first_are_kept():
    assert most_varied(tensor([[0.0, 1.0], [3.0, 2.0], [0.0, 1.0], [5.0, 6.0]]), 0.5).tolist() == [0, 1]


# --- How many --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "plan, resample, batches, kept",
    [
        ("vtvt", 0, 1, 2),  # nothing is drawn anew
        ("vvvv" + "vvvv" * 3, 3, 1, 4),  # nothing has to be
        ("vttt" + "vvtv" + "vvvv", 3, 2, 4),
        ("vttt" + "vttt" + "vttt" + "tttv", 3, 4, 4),
        ("vttt" + "vttt" + "tttt" + "tttt" + "vvvv", 3, 4, 2),  # at most three more
        ("tttv" + "vvvv", 1, 2, 4),  # of five, the first four
    ],
)
def test_batches_are_drawn_until_enough_groups_are_kept(plan, resample, batches, kept):
    metrics, task = first_epoch(plan, keep="signal", resample=resample, batch_size=4)
    assert task.asked == [4] * batches
    assert metrics["kept_groups"] == kept / (4 * batches)
    signal = [row for row in range(4 * batches) if plan[row] == "v"][:4]
    assert metrics["zero_signal_groups"] == 0 and len(signal) == kept


def test_whoever_keeps_all_never_draws_twice():
    metrics, task = first_epoch("tttt" * 4, keep="all", resample=3, batch_size=4)
    assert task.asked == [4]
    assert metrics["kept_groups"] == 1 and metrics["zero_signal_groups"] == 1


def test_a_share_of_one_batch_is_a_smaller_batch():
    metrics, task = first_epoch("tvwtvwtv", keep="varied", keep_share=0.25, batch_size=8)
    assert task.asked == [8] and metrics["kept_groups"] == 0.25


def test_more_than_a_batch_of_varied_groups_is_cut_to_the_most_varied(float64):
    """0.4 of 12 groups would be 5: the least varied of them is left out, and not the last."""
    one, other = oracle.toy_policy(), oracle.toy_policy()
    metrics, task = first_epoch("vvvt" + "tttt" + "ttww", one, keep="varied", keep_share=0.4, resample=2, batch_size=4)
    assert task.asked == [4] * 3 and metrics["kept_groups"] == 4 / 12
    by_hand(other, Planned("vvvt" + "tttt" + "ttww"), [0, 1, 10, 11], batches=3)
    torch.testing.assert_close(one.step.grad, other.step.grad)


# --- From what -------------------------------------------------------------------------------------------------------


def everything(policy, task, batches, batch_size=4, seed=0):
    """All that the first epoch samples, with the loop's random numbers."""
    generator = torch.Generator().manual_seed(seed)
    drawn = [task.sample(batch_size, generator) for _ in range(batches)]
    return joined([collect(policy, task, batch, 3, generator=generator) for batch in drawn])


def by_hand(policy, task, rows, batches):
    """The gradient of the plainest loss, centred and clipped at ratio 1, of some groups alone: a mean over tokens."""
    rollout = everything(policy, task, batches).rows(tensor(rows))
    log_probs = policy.log_probs(rollout.prompts, rollout.responses, rollout.mask)
    deltas = rollout.rewards - rollout.rewards.mean(-1, keepdim=True)
    per_response = log_probs.sum(-1) / rollout.mask.sum(-1)
    (-deltas * per_response).mean().backward()
    return [weight.grad for weight in (policy.step, policy.prompt, policy.last)]


@pytest.mark.parametrize("micro_batch_size", [None, 1, 3])
def test_the_gradient_is_that_of_the_kept_groups_alone(micro_batch_size, float64):
    """Dropped groups are in no mean: not as zeros either."""
    plan, kept = "vttt" + "tvvt" + "tvvv", [0, 5, 6, 9]
    one, other = oracle.toy_policy(), oracle.toy_policy()
    first_epoch(plan, one, keep="signal", resample=5, batch_size=4, micro_batch_size=micro_batch_size)
    for found, expected in zip((one.step, one.prompt, one.last), by_hand(other, Planned(plan), kept, 3), strict=True):
        assert expected.abs().max() > 1e-3
        torch.testing.assert_close(found.grad, expected)


def test_tied_groups_that_stay_shrink_the_gradient_and_dropped_ones_do_not(float64):
    """Of four groups two are tied: with them, the mean is over four, and half as large."""
    gradients = {}
    for keep in ("all", "signal"):
        policy = oracle.toy_policy()
        first_epoch("vtvt", policy, keep=keep, batch_size=4)
        gradients[keep] = oracle.gradient_of(policy)
    torch.testing.assert_close(gradients["all"], gradients["signal"] / 2)


def test_where_nothing_is_kept_all_is_and_nothing_is_pushed():
    policy = oracle.toy_policy()
    before = copy.deepcopy(policy.state_dict())
    metrics, task = first_epoch("tttt" * 3, policy, keep="signal", resample=2, batch_size=4)
    assert task.asked == [4] * 3
    assert metrics["kept_groups"] == 0 and metrics["zero_signal_groups"] == 1 and metrics["grad_norm"] == 0
    assert all(torch.equal(weight, before[name]) for name, weight in policy.state_dict().items())


def test_metrics_count_all_that_was_sampled():
    """What was paid for is reported, learned from or not."""
    policy, plan = oracle.toy_policy(), "vttt" + "wtvv"
    rollout = everything(policy, Planned(plan), 2)
    assert rollout.mask.sum(-1).unique().numel() == 3
    metrics, _ = first_epoch(plan, policy, keep="signal", resample=1, batch_size=4)
    expected = describe_rollout("here", rollout, policy)
    for name in ("reward_mean", "reward_std", "sampled_tokens", "response_length", "entropy"):
        assert metrics[name] == pytest.approx(expected[name], rel=1e-6), name
    assert metrics["sampled_tokens"] == rollout.mask.sum() > rollout.rows(tensor([0, 4, 6, 7])).mask.sum()
    assert metrics["reward_mean"] == pytest.approx(0.1 + (3 * 1.0 + 3.0) / 8)
    assert metrics["kept_groups"] == 0.5


def test_batches_that_are_drawn_anew_are_others():
    """One random generator goes through: the responses of the second batch are not those of the first."""
    responses = everything(oracle.toy_policy(), Planned("v" * 40), 2, batch_size=20).responses
    assert (responses[:20] != responses[20:]).any()


def test_a_run_that_draws_anew_resumes_to_the_bit():
    config = Config(**{**ONE_STEP, "keep": "signal", "resample": 2, "batch_size": 4, "epochs": 6})
    straight, stopped = oracle.toy_policy(), oracle.toy_policy()
    whole = [metrics["sampled_tokens"] for metrics in train(straight, Planned("tttv" * 30), config)]
    state, task, parts = State(stopped, config), Planned("tttv" * 30), []
    for epochs in (2, 3, 6):
        run = train(stopped, task, dataclasses.replace(config, epochs=epochs), resume_from=state)
        parts += [metrics["sampled_tokens"] for metrics in run]
    assert parts == whole
    assert all(map(torch.equal, straight.parameters(), stopped.parameters()))


# --- Joined ----------------------------------------------------------------------------------------------------------


def rollout(batch, width, length, ref=True, start=0):
    """Numbers that tell where they come from."""
    shape = (batch, 2, length)
    count = torch.arange(batch * 2 * length).view(shape) + start
    mask = count % 3 != 0
    prompts = torch.arange(batch * width).view(batch, width) + 1
    scores = -count.float()
    fields = (scores, 2 * scores if ref else None, 3 * scores)
    return Rollout(prompts, count, mask, count.sum(-1).float(), *fields, seconds_sampling=1.5, seconds_scoring=0.25)


def test_joined_pads_prompts_on_the_left_and_responses_on_the_right():
    short, long = rollout(2, 3, 2), rollout(3, 5, 4, start=100)
    whole = joined([short, long], pad_id=77)
    assert whole.prompts.tolist() == [[77, 77, *row] for row in short.prompts.tolist()] + long.prompts.tolist()
    for name in ("responses", "mask", "old_log_probs", "ref_log_probs", "entropy"):
        found, first, second = (getattr(each, name) for each in (whole, short, long))
        assert found.shape == (5, 2, 4) and found.dtype == first.dtype
        assert found[:2, :, :2].equal(first) and found[2:].equal(second)
        assert (found[:2, :, 2:] == 0).all()
    assert whole.rewards.equal(torch.cat([short.rewards, long.rewards]))
    assert whole.seconds_sampling == 3 and whole.seconds_scoring == 0.5
    assert whole.imitation is None


def test_the_longer_may_come_first():
    whole = joined([rollout(1, 4, 3), rollout(1, 2, 5)])
    assert whole.prompts[1].tolist() == [0, 0, 1, 2] and whole.prompts[0].tolist() == [1, 2, 3, 4]
    assert whole.mask.shape == (2, 2, 5) and not whole.mask[0, :, 3:].any()


def test_one_rollout_joined_is_itself_and_what_it_lacks_it_still_lacks():
    alone = rollout(2, 3, 4, ref=False)
    whole = joined([alone])
    assert whole.ref_log_probs is None
    for name, value in vars(alone).items():
        assert value is None or torch.equal(torch.as_tensor(getattr(whole, name)), torch.as_tensor(value))


def test_stacked_adds_nothing_where_widths_are_equal():
    one, other = torch.ones(2, 3), torch.zeros(1, 3)
    assert stacked([one, other], left=True, value=9).tolist() == [[1, 1, 1], [1, 1, 1], [0, 0, 0]]


def test_padding_changes_no_update(float64):
    """Groups of short responses in a tensor that is cut to them: joined with the rest, the gradient is the same."""
    found = everything(oracle.toy_policy(), Planned("v" * 80), 10, batch_size=8)
    fits = found.mask.sum(-1).amax(-1) <= 2
    short, long = (found.rows(rows.nonzero().squeeze(-1)) for rows in (fits, ~fits))
    assert short.mask.sum(-1).max() == 2 and len(short.rewards) > 5
    names = ("responses", "mask", "old_log_probs", "entropy")
    cut = dataclasses.replace(short, **{name: getattr(short, name)[..., :2] for name in names})
    gradients = []
    for rollout in (joined([short, long]), joined([cut, long])):
        policy, config = oracle.toy_policy(), Config(**{**ONE_STEP, "aggregation": "token"})
        learn(policy, rollout, config, State(policy, config))
        gradients.append(oracle.gradient_of(policy))
    assert gradients[0].abs().max() > 1e-3
    assert gradients[0].equal(gradients[1])
