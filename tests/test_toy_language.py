"""The autoregressive toy against its formula written as loops, its samples against its probabilities, and its mask."""

import oracle
import pytest
import torch
from torch.distributions import Categorical

from minirl.deltas import centered
from minirl.losses import naive, token_weights
from minirl.rollout import collect, response_mask
from minirl.toy_language import AutoregressivePolicy, GuessingPolicy, GuessingTask, LastTokenTask
from minirl.train import Config, train

pytestmark = pytest.mark.usefixtures("float64")
PROMPTS = [(1, 2), (0, 3), (2, 2)]


@pytest.fixture
def policy():
    return oracle.toy_policy()


def padded_batch(policy):
    """Every response to every prompt: tensors, and the list of what they stand for."""
    listed = oracle.all_responses(policy)
    responses, mask = oracle.tensors(policy, listed)
    return listed, responses.expand(len(PROMPTS), -1, -1), mask.expand(len(PROMPTS), -1, -1)


def test_log_probs_equal_the_formula_in_plain_python_and_are_zero_outside_the_mask(policy):
    listed, responses, mask = padded_batch(policy)
    found = policy.log_probs(torch.tensor(PROMPTS), responses, mask)
    assert (found[~mask] == 0).all()
    for b, prompt in enumerate(PROMPTS):
        for g, response in enumerate(listed):
            expected = torch.tensor(oracle.token_probabilities(policy, prompt, response)).log()
            torch.testing.assert_close(found[b, g, : len(response)], expected)


def test_what_comes_after_the_end_does_not_matter(policy):
    """Padding is not part of the response, whatever it is."""
    _, responses, mask = padded_batch(policy)
    other = responses.masked_fill(~mask, 2)
    assert (other != responses).any()
    prompts = torch.tensor(PROMPTS)
    assert (policy.log_probs(prompts, responses, mask) == policy.log_probs(prompts, other, mask)).all()


def test_entropy_is_that_of_torch_distributions(policy):
    _, responses, mask = padded_batch(policy)
    expected = Categorical(logits=policy.logits(torch.tensor(PROMPTS), responses)).entropy()
    found = policy.entropy(torch.tensor(PROMPTS), responses, mask)
    torch.testing.assert_close(found, torch.where(mask, expected, 0))


def test_prompt_sums_wrap_around_the_rows(policy):
    one = torch.tensor([[[0, 1, 1]]])
    logits = [policy.logits(torch.tensor([prompt]), one) for prompt in ([0, 1], [2, 1], [1, 1])]
    assert (logits[0] == logits[1]).all()
    assert (logits[0] != logits[2]).any()


def test_samples_have_the_frequencies_of_the_probabilities(policy):
    """χ² over the 15 whole responses: expected about 14, and its spread is √28 ≈ 5.3."""
    draws = 20_000
    responses, mask = policy.sample(torch.tensor(PROMPTS), draws, torch.Generator().manual_seed(0))
    assert (mask == response_mask(responses, 1)).all()
    for prompt, group, inside in zip(PROMPTS, responses.tolist(), mask.sum(-1).tolist(), strict=True):
        listed = oracle.distribution(policy, prompt)
        counts = dict.fromkeys(listed, 0)
        for response, length in zip(group, inside, strict=True):
            counts[tuple(response[:length])] += 1
        assert sum((counts[y] - draws * p) ** 2 / (draws * p) for y, p in listed.items()) < 14 + 5 * 28**0.5


def test_samples_are_padded_with_the_end_token_and_are_the_generators_choice(policy):
    prompts = torch.tensor(PROMPTS)
    (first, mask), (again, _), (other, _) = (
        policy.sample(prompts, 50, torch.Generator().manual_seed(s)) for s in (0, 0, 1)
    )
    assert first.shape == (3, 50, 3)
    assert (first[~mask] == 1).all()
    assert (first == again).all()
    assert (first != other).any()


def loop_greedy(policy, prompt):
    response = ()
    while len(response) < policy.length and response[-1:] != (policy.end_token,):
        probs = oracle.next_token(policy, prompt, response)
        response += (probs.index(max(probs)),)
    return response


@pytest.mark.parametrize("seed", range(5))
def test_greedy_takes_the_likeliest_token_after_its_own_and_stops(seed):
    policy = oracle.toy_policy(seed)
    responses, mask = policy.greedy(torch.tensor(PROMPTS))
    assert responses.shape == mask.shape == (3, 1, 3)
    for b, prompt in enumerate(PROMPTS):
        assert tuple(responses[b][mask[b]].tolist()) == loop_greedy(policy, prompt)


def test_the_gradient_reaches_the_end_token(policy):
    """A policy whose end is masked out would never learn to stop."""
    responses, mask = torch.tensor([[[0, 1, 1]]]), torch.tensor([[[True, True, False]]])
    policy.log_probs(torch.tensor([PROMPTS[0]]), responses, mask).sum().backward()
    expected = oracle.derivative(policy, lambda: oracle.probability(policy, PROMPTS[0], (0, 1)))
    torch.testing.assert_close(oracle.gradient_of(policy), expected / oracle.probability(policy, PROMPTS[0], (0, 1)))


@pytest.mark.parametrize("end_token", [-1, 3, 7])
def test_an_end_token_outside_the_vocabulary_is_refused(end_token):
    with pytest.raises(ValueError, match=rf"end_token must be one of the 3 tokens, 0 to 2; got {end_token}"):
        AutoregressivePolicy(3, 2, end_token=end_token)


@pytest.mark.parametrize("end_token", [0, 1, 2])
def test_any_token_of_the_vocabulary_may_end_a_response(end_token):
    policy = AutoregressivePolicy(3, 2, end_token, seed=0)
    responses, mask = policy.sample(torch.tensor(PROMPTS), 50, torch.Generator().manual_seed(0))
    assert ((responses == end_token).any(-1) | mask.all(-1)).all()
    assert not mask.all()


def test_the_same_seed_gives_the_same_policy():
    first, again, other = (AutoregressivePolicy(3, 2, 1, seed=s) for s in (0, 0, 1))
    assert (first.last == again.last).all()
    assert (first.last != other.last).all()


# Guessing a number in turns ------------------------------------------------------------------------------------------

SECRETS = torch.arange(4)[:, None]
LOWER, HIGHER, RIGHT = 4, 5, 6


@pytest.fixture
def guesser():
    """Two turns for four numbers, with a memory of guesses that is not still at zero."""
    policy = GuessingPolicy(numbers=4, turns=2, seed=0)
    torch.nn.init.normal_(policy.guess, generator=torch.Generator().manual_seed(1))
    return policy


def guesser_next(policy, prefix):
    """S[t] + L[answer] + G[guess], plus the one row of P, in plain Python."""
    prompt, step, last, guess = (p.tolist() for p in (policy.prompt, policy.step, policy.last, policy.guess))
    rows = prompt[0], step[len(prefix)], last[prefix[-1] if prefix else -1], guess[prefix[-2] if prefix else -1]
    return oracle.softmax([sum(logits) for logits in zip(*rows, strict=True)])


def games(policy, secret):
    """{guesses: (response as played, its probability)} for every game of two turns, by the rules."""
    listed = {}
    for first in range(7):
        p = guesser_next(policy, ())[first]
        answer = LOWER if first > secret else HIGHER
        if first == secret:
            listed[first,] = [first, RIGHT, RIGHT], p
            continue
        for second, q in enumerate(guesser_next(policy, (first, answer))):
            listed[first, second] = [first, answer, second], p * q
    return listed


def test_a_game_is_scored_by_its_guesses_alone(guesser):
    for secret in range(4):
        for guesses, (response, expected) in games(guesser, secret).items():
            mask = torch.tensor([True, False, len(guesses) == 2])
            played = torch.tensor([[response]]), mask[None, None]
            found = guesser.log_probs(torch.tensor([[secret]]), *played)
            torch.testing.assert_close(found.sum().exp(), torch.tensor(expected))
            assert (found[0, 0, ~mask] == 0).all()


def test_games_have_the_frequencies_of_their_probabilities(guesser):
    """χ² over the 43 games to each secret: expected about 42, and its spread is √84 ≈ 9.2."""
    draws = 20_000
    responses, mask = guesser.sample(SECRETS, draws, torch.Generator().manual_seed(0))
    for secret, group, inside in zip(range(4), responses.tolist(), mask.tolist(), strict=True):
        listed = games(guesser, secret)
        counts = dict.fromkeys(listed, 0)
        for response, kept in zip(group, inside, strict=True):
            guesses = tuple(token for token, k in zip(response, kept, strict=True) if k)
            assert response == listed[guesses][0]
            counts[guesses] += 1
        assert sum((counts[y] - draws * p) ** 2 / (draws * p) for y, (_, p) in listed.items()) < 42 + 5 * 84**0.5


def test_the_policy_does_not_see_the_secret(guesser):
    responses, mask = guesser.sample(SECRETS[:1], 20, torch.Generator().manual_seed(0))
    same = [guesser.log_probs(torch.tensor([[secret]]), responses, mask) for secret in range(4)]
    assert all((found == same[0]).all() for found in same)


def test_what_the_game_says_has_no_gradient_of_its_own(guesser):
    """One turn played: the row of an answer's step stays untouched."""
    responses, mask = torch.tensor([[[0, HIGHER, 2]]]), torch.tensor([[[True, False, True]]])
    guesser.log_probs(torch.tensor([[2]]), responses, mask).sum().backward()
    assert (guesser.step.grad[1] == 0).all()
    assert (guesser.step.grad[[0, 2]] != 0).any(-1).all()
    assert (guesser.last.grad[HIGHER] != 0).any() and (guesser.guess.grad[0] != 0).any()


def test_halving_finds_every_secret():
    """A policy of weights set by hand: 1 first, then 0, or 2, or 3."""
    policy = GuessingPolicy(numbers=4, turns=3, seed=0)
    for weight in policy.parameters():
        torch.nn.init.zeros_(weight)
    with torch.no_grad():
        policy.step[0, 1] = 10
        policy.last[LOWER, 0] = policy.last[HIGHER, 2] = 10
        policy.guess[2, 3] = 20
    responses, mask = policy.greedy(SECRETS)
    task = GuessingTask(4)
    assert responses[3, 0].tolist() == [1, HIGHER, 2, HIGHER, 3]
    assert mask[1, 0].tolist() == [True, False, False, False, False]
    assert (task.rewards(task.held_out(), responses, mask) == 1).all()


def test_a_guess_counts_only_inside_the_mask():
    batch = GuessingTask(4).held_out()
    responses = torch.tensor([[[0, RIGHT, RIGHT]], [[0, HIGHER, 1]], [[0, HIGHER, 3]], [[0, HIGHER, 3]]])
    mask = torch.tensor([True, False, True]).expand(4, 1, 3).clone()
    mask[3, 0, 2] = False
    assert GuessingTask(4).rewards(batch, responses, mask)[:, 0].tolist() == [1, 1, 0, 0]


def test_secrets_are_drawn_from_all_numbers_by_the_generator():
    task = GuessingTask(5)
    first, again = (task.sample(200, torch.Generator().manual_seed(0)) for _ in range(2))
    assert (first.prompts == again.prompts).all() and (first.answers == first.prompts[:, 0]).all()
    assert first.prompts.unique().tolist() == [0, 1, 2, 3, 4]


def test_init_scale_multiplies_every_weight():
    wide, narrow = (AutoregressivePolicy(3, 2, 1, seed=0, init_scale=scale) for scale in (1.0, 0.25))
    for one, other in zip(wide.parameters(), narrow.parameters(), strict=True):
        torch.testing.assert_close(other, one / 4)


TASK = LastTokenTask(answers=2, vocab_size=4, length=4, prompts=torch.tensor([[0], [1], [2]]))
END = 3


def loop_reward(prompt, response):
    """Right: … answer END. The response is cut at the first END, and without one it is wrong."""
    if END not in response:
        return 0
    written = response[: response.index(END)]
    return int(written[-1:] == [sum(prompt) % 2])


def test_a_response_is_right_if_the_token_before_the_end_is_the_answer():
    """All 256 strings of four tokens, against a loop."""
    every = torch.cartesian_prod(*[torch.arange(4)] * 4)
    batch, responses = TASK.held_out(), every.expand(3, -1, -1)
    found = TASK.rewards(batch, responses, response_mask(responses, END))
    expected = [[loop_reward(prompt, row) for row in every.tolist()] for prompt in TASK.prompts.tolist()]
    assert found.tolist() == expected
    assert 0 < found.mean() < 0.5


@pytest.mark.parametrize(
    "response, reward",
    [([1, 3, 3, 3], 1), ([0, 2, 1, 3], 1), ([1, 2, 3, 3], 0), ([3, 3, 3, 3], 0), ([2, 2, 2, 1], 0), ([3, 1, 3, 3], 0)],
    ids=["short", "long", "a thought comes last", "ends at once", "cut off", "what follows the end does not count"],
)
def test_cases_that_fit_in_the_head(response, reward):
    responses = torch.tensor([[response]])
    batch = TASK.batch(torch.tensor([[1]]))
    assert TASK.rewards(batch, responses, response_mask(responses, END)).item() == reward
    assert TASK.correct(batch, responses, response_mask(responses, END)).item() == reward


@pytest.mark.parametrize("batch_size, counts", [(1, {0, 1}), (3, {1}), (6, {2}), (8, {2, 3})])
def test_every_prompt_comes_equally_often_give_or_take_one(batch_size, counts):
    drawn = {tuple(TASK.sample(batch_size, torch.Generator().manual_seed(seed)).prompts[:, 0]) for seed in range(20)}
    batches = [TASK.sample(batch_size, torch.Generator().manual_seed(seed)).prompts[:, 0] for seed in range(20)]
    assert {count for batch in batches for count in batch.bincount(minlength=3).tolist()} == counts
    assert len(drawn) > 1, "the order is random"
    assert {batch[0].item() for batch in batches} == {0, 1, 2}


def test_answers_are_sums_modulo_their_number():
    batch = TASK.batch(torch.tensor([[0, 0], [2, 1], [5, 1]]))
    assert batch.answers.tolist() == [0, 1, 0]


@pytest.mark.parametrize("answers, vocab_size", [(1, 4), (4, 4), (5, 4)])
def test_a_task_without_room_for_answers_and_the_end_is_refused(answers, vocab_size):
    with pytest.raises(ValueError, match=f"expected 2 ≤ answers < vocab_size.*got {answers}, {vocab_size}"):
        LastTokenTask(answers, vocab_size)


def new_policy(task, seed):
    return AutoregressivePolicy(task.vocab_size, task.length, task.end_token, seed=seed, init_scale=0.3)


def test_a_fresh_policy_is_right_in_about_one_of_eight():
    task = LastTokenTask()
    fresh = [collect(new_policy(task, seed), task, task.sample(64), 16).rewards.mean() for seed in range(10)]
    assert 0.09 < torch.stack(fresh).mean() < 0.16


@pytest.mark.parametrize("seed", range(3))
def test_the_policy_learns_the_task_in_a_hundred_small_epochs(seed):
    task, policy = LastTokenTask(), new_policy(LastTokenTask(), seed)
    config = Config(100, inner_steps=1, batch_size=32, group_size=8, learning_rate=3e-2, seed=seed)
    *_, last = train(policy, task, config)
    assert last["held_out_exact"] > 0.85
    assert last["held_out_greedy"] == 1


def test_a_loss_divided_by_the_length_pushes_wrong_responses_to_be_longer_than_right_ones():
    """To first order, a step moves a response's log-prob by its own push: compare those of long and short ones."""
    task = LastTokenTask()
    rollout = collect(new_policy(task, 0), task, task.sample(64), 16, generator=torch.Generator().manual_seed(0))
    lengths, wrong = rollout.mask.sum(-1), rollout.rewards == 0
    long = lengths > lengths.double().median()
    log_probs = rollout.old_log_probs.requires_grad_()
    for how, falls in (("sequence", True), ("constant", False)):
        loss = (naive(log_probs, centered(rollout.rewards)) * token_weights(rollout.mask, how)).sum()
        push = -torch.autograd.grad(loss, log_probs)[0].sum(-1) / lengths
        ratio = push[wrong & long].mean() / push[wrong & ~long].mean()
        assert (ratio < 0.7) == falls
