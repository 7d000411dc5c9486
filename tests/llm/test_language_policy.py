"""The language policy against the plainest possible computation: one row at a time, no cache, no padding."""

import pytest
import torch
from tiny import Tokens, ragged_prompts, tiny_gpt2, tiny_qwen2
from transformers import Qwen2ForCausalLM

from minirl import RECIPES, State, checkpoint, deltas, exact
from minirl.critic import Critic
from minirl.groups import joined
from minirl.llm.memory import checkpoint_layers
from minirl.llm.policy import LanguagePolicy, packed, truncate
from minirl.losses import LOSSES, naive, token_weights
from minirl.rollout import Batch, collect, response_mask
from minirl.train import learn, train

MODELS = {"qwen2": tiny_qwen2, "gpt2": tiny_gpt2}
CLOSE = {"rtol": 1e-5, "atol": 1e-5}  # Qwen2 normalises in float32, whatever its weights are
SETTINGS = [{}, {"temperature": 0.6}, {"temperature": 1.7, "top_k": 5}, {"top_p": 0.8}]


@pytest.fixture(autouse=True)
def unprobed(monkeypatch):
    """The constructor's own look at the cache is tested elsewhere: mistakes are to be found by the tests here."""
    monkeypatch.setattr("minirl.llm.policy.refuse_unknown_cache", lambda policy: None)


@pytest.fixture(params=MODELS)
def model(request):
    return MODELS[request.param]().double()


def sampled(policy, prompts=None, group_size=4, seed=0):
    prompts = ragged_prompts() if prompts is None else prompts
    return prompts, *policy.sample(prompts, group_size, torch.Generator().manual_seed(seed))


def plain_log_softmax(policy, prompt, response):
    """Next-token log-probs at every response position of one row, from one uncached forward pass without padding."""
    ids = torch.cat([prompt[prompt != policy.pad_id], response])[None]
    logits = policy.model(input_ids=ids).logits[0, -len(response) - 1 : -1]
    return truncate(logits / policy.temperature, policy.top_k, policy.top_p).log_softmax(-1)


def plain_rows(policy, prompts, responses, mask):
    for b, g in torch.cartesian_prod(torch.arange(len(prompts)), torch.arange(responses.shape[1])).tolist():
        yield b, g, plain_log_softmax(policy, prompts[b], responses[b, g, mask[b, g]])


@pytest.mark.parametrize("settings", SETTINGS)
def test_log_probs_and_entropy_equal_one_row_at_a_time(model, settings):
    policy = LanguagePolicy(model, Tokens(), 12, rows_per_pass=3, **settings)
    prompts, responses, mask = sampled(policy)
    log_probs, entropy = policy.log_probs(prompts, responses, mask), policy.entropy(prompts, responses, mask)
    assert mask.sum(-1).unique().numel() > 2, "the test needs ragged responses"
    for b, g, log_p in plain_rows(policy, prompts, responses, mask):
        inside = mask[b, g]
        expected = log_p.gather(-1, responses[b, g, inside][:, None]).squeeze(-1)
        torch.testing.assert_close(log_probs[b, g, inside], expected, **CLOSE)
        truth = torch.distributions.Categorical(logits=log_p).entropy()
        torch.testing.assert_close(entropy[b, g, inside], truth, **CLOSE)
    assert (log_probs[~mask] == 0).all() and (entropy[~mask] == 0).all()


def plain_sample(policy, prompts, group_size, generator):
    """No cache, no shared prefill, no dropped rows: the same noise, row by row."""
    noise = torch.rand(policy.max_new_tokens, len(prompts) * group_size, generator=generator, dtype=torch.float64)
    rows = []
    for row in range(len(prompts) * group_size):
        prompt, response = prompts[row // group_size], torch.empty(0, dtype=torch.long)
        for step in range(policy.max_new_tokens):
            log_p = plain_log_softmax(policy, prompt, torch.cat([response, response.new_zeros(1)]))[-1]
            cumulative = log_p.double().exp().cumsum(-1)
            token = (cumulative <= noise[step, row] * cumulative[-1]).sum()
            response = torch.cat([response, token[None]])
            if token.item() in policy.end_ids:
                break
        rows.append(response)
    return rows


@torch.no_grad()
@pytest.mark.parametrize("settings", SETTINGS)
def test_fast_sampling_gives_the_tokens_of_plain_sampling(model, settings):
    policy = LanguagePolicy(model, Tokens(), 10, **settings)
    prompts, responses, mask = sampled(policy, group_size=3, seed=5)
    expected = plain_sample(policy, prompts, 3, torch.Generator().manual_seed(5))
    for row, (response, inside) in enumerate(zip(responses.flatten(0, 1), mask.flatten(0, 1), strict=True)):
        assert response[inside].tolist() == expected[row].tolist(), row


def test_cached_log_probs_equal_scored_ones(model):
    """What sampling believed of each token, with its cache, is what scoring says."""
    policy = LanguagePolicy(model, Tokens(), 10, temperature=0.8)
    prompts, responses, mask = sampled(policy)
    seen = torch.zeros(mask.shape, dtype=torch.float64).flatten(0, 1)

    def replay(log_probs, step, rows):
        tokens = responses.flatten(0, 1)[rows, step]
        seen[rows, step] = log_probs.gather(-1, tokens[:, None]).squeeze(-1)
        return tokens

    policy._generate(prompts, responses.shape[1], replay)
    torch.testing.assert_close(seen.view(mask.shape), policy.log_probs(prompts, responses, mask).detach(), **CLOSE)


@pytest.mark.parametrize("settings", SETTINGS)
def test_the_ratio_is_exactly_one_at_the_first_step(settings):
    policy = LanguagePolicy(tiny_qwen2(), Tokens(), 12, **settings)
    prompts, responses, mask = sampled(policy)
    with torch.no_grad():
        old = policy.log_probs(prompts, responses, mask)
    assert torch.equal((policy.log_probs(prompts, responses, mask) - old).exp(), torch.ones_like(old))


def test_scoring_at_another_temperature_is_another_distribution():
    """The classic mistake: sample at 0.6, score at 1. Then the ratio is not 1 at the first step."""
    model = tiny_qwen2()
    cool, plain = LanguagePolicy(model, Tokens(), 12, temperature=0.6), LanguagePolicy(model, Tokens(), 12)
    prompts, responses, mask = sampled(cool)
    ratio = (plain.log_probs(prompts, responses, mask) - cool.log_probs(prompts, responses, mask)).exp()
    assert (ratio[mask] - 1).abs().mean() > 0.05


def test_sampling_frequencies_are_the_probabilities():
    policy = LanguagePolicy(tiny_qwen2(vocab_size=6).double(), Tokens(), 1)
    prompt = torch.tensor([[3, 4, 2]])
    _, responses, _ = sampled(policy, prompt, group_size=20_000)
    expected = plain_log_softmax(policy, prompt[0], torch.zeros(1, dtype=torch.long))[0].exp()
    counts = torch.bincount(responses.flatten(), minlength=6) / 20_000
    assert ((counts - expected).abs() < 4 * (expected * (1 - expected) / 20_000).sqrt() + 1e-9).all()


def test_mask_ends_with_the_first_end_token_and_truncation_is_flagged():
    policy = LanguagePolicy(tiny_qwen2(vocab_size=6, scale=0.1), Tokens(), 8)
    policy.end_ids = [1, 5]
    _, responses, mask = sampled(policy, ragged_prompts(vocab_size=5), group_size=8)
    cut = policy.truncated(responses, mask)
    ends = torch.isin(responses, torch.tensor([1, 5])) & mask
    assert 0 < cut.float().mean() < 1
    for row, inside, stop, was_cut in zip(
        responses.flatten(0, 1), mask.flatten(0, 1), ends.flatten(0, 1), cut.flatten(), strict=True
    ):
        count = int(inside.sum())
        assert inside[:count].all() and not inside[count:].any()
        assert stop.sum() == (0 if was_cut else 1) and (was_cut or stop[count - 1])
        assert (row[count:] == policy.pad_id).all()
        assert count == 8 if was_cut else True


def test_pad_equal_to_end_keeps_the_gradient_at_the_end_token():
    """With the padding masked by its id, a pad that is also the end token would never be learned."""
    policy = LanguagePolicy(tiny_qwen2(vocab_size=6, scale=0.1), Tokens(pad_token_id=1, eos_token_id=1), 8)
    prompts = torch.tensor([[1, 1, 3, 4], [1, 2, 3, 4]])
    _, responses, mask = sampled(policy, prompts, group_size=8)
    ended = ~policy.truncated(responses, mask)
    assert ended.any()
    last = mask & (responses == 1)
    log_probs = policy.log_probs(prompts, responses, mask)
    grads = torch.autograd.grad(log_probs[last].sum(), list(policy.parameters()))
    assert last.sum() == ended.sum() and sum(grad.abs().sum() for grad in grads) > 0.1


def test_padding_changes_nothing(model):
    policy = LanguagePolicy(model, Tokens(), 8)
    prompts, responses, mask = sampled(policy)
    wider = torch.nn.functional.pad(prompts, (6, 0), value=0)
    torch.testing.assert_close(
        policy.log_probs(wider, responses, mask), policy.log_probs(prompts, responses, mask), **CLOSE
    )
    again, same = policy.sample(wider, 4, torch.Generator().manual_seed(0))
    assert torch.equal(again, responses) and torch.equal(same, mask)


def test_groups_belong_to_their_prompts_even_where_prompts_are_equal():
    policy = LanguagePolicy(tiny_qwen2(), Tokens(), 6)
    prompts = ragged_prompts()[[0, 3, 0]]
    _, responses, mask = sampled(policy, prompts, group_size=4)
    alone = [policy.log_probs(prompts[[b]], responses[[b]], mask[[b]]) for b in range(3)]
    torch.testing.assert_close(policy.log_probs(prompts, responses, mask), torch.cat(alone), atol=1e-5, rtol=1e-5)
    assert not torch.equal(responses[0], responses[2]), "two groups of the same prompt are drawn independently"


def test_greedy_takes_the_most_likely_token(model):
    policy = LanguagePolicy(model, Tokens(), 6)
    prompts = ragged_prompts()
    responses, mask = policy.greedy(prompts)
    for b, g, log_p in plain_rows(policy, prompts, responses, mask):
        assert torch.equal(log_p.argmax(-1), responses[b, g, mask[b, g]])


def test_an_empty_response_counts_nothing():
    policy = LanguagePolicy(tiny_qwen2(), Tokens(), 6)
    prompts, responses, mask = sampled(policy)
    mask[1] = False
    scores = policy.log_probs(prompts, responses, mask)
    assert (scores[1] == 0).all() and (scores[0][mask[0]] < 0).all()
    assert (policy.log_probs(prompts, responses, torch.zeros_like(mask)) == 0).all()


def test_dropout_and_generation_defaults_do_not_reach_the_policy():
    model = tiny_qwen2(attention_dropout=0.5)
    model.generation_config.update(temperature=0.1, top_k=1, repetition_penalty=9.0, do_sample=False)
    model.train()
    policy, clean = LanguagePolicy(model, Tokens(), 8), LanguagePolicy(tiny_qwen2(), Tokens(), 8)
    prompts, responses, mask = sampled(policy)
    assert torch.equal(policy.log_probs(prompts, responses, mask), policy.log_probs(prompts, responses, mask))
    assert torch.equal(sampled(clean)[1], responses)
    dropped = LanguagePolicy(tiny_gpt2(), Tokens(), 8)
    dropped.train()
    prompts, responses, mask = sampled(dropped)
    assert torch.equal(dropped.log_probs(prompts, responses, mask), dropped.log_probs(prompts, responses, mask))


def test_chunked_logits_give_the_same_gradient(monkeypatch):
    policy = LanguagePolicy(tiny_qwen2().double(), Tokens(), 8)
    prompts, responses, mask = sampled(policy)

    def gradients():
        policy.zero_grad()
        policy.log_probs(prompts, responses, mask).square().sum().backward()
        return [parameter.grad.clone() for parameter in policy.parameters()]

    whole = gradients()
    monkeypatch.setattr("minirl.llm.policy.LOGITS_PER_CHUNK", 19 * 7)
    for ours, expected in zip(gradients(), whole, strict=True):
        torch.testing.assert_close(ours, expected)


# ---- hidden states, for a critic's head


def plain_hidden(policy, prompt, response):
    """The state that each response token is predicted from, of one row: no cache, no padding."""
    ids = torch.cat([prompt[prompt != policy.pad_id], response])[None]
    return policy.model.base_model(input_ids=ids).last_hidden_state[0, -len(response) - 1 : -1]


@pytest.mark.parametrize("checkpointing", [False, True])
def test_features_equal_one_row_at_a_time(model, checkpointing):
    policy = LanguagePolicy(model, Tokens(), 12, rows_per_pass=3)
    prompts, responses, mask = sampled(policy)
    if checkpointing:
        checkpoint_layers(policy.model)
    found = policy.features(prompts, responses, mask)
    assert found.shape == (*mask.shape, policy.width) and found.dtype == torch.float64 and found.requires_grad
    assert mask.sum(-1).unique().numel() > 2 and (found[~mask] == 0).all()
    for b, g in torch.cartesian_prod(torch.arange(len(prompts)), torch.arange(4)).tolist():
        expected = plain_hidden(policy, prompts[b], responses[b, g, mask[b, g]])
        torch.testing.assert_close(found[b, g, mask[b, g]], expected, **CLOSE)


def test_log_probs_can_be_read_from_the_features(model):
    """They are the very states that predict the tokens, through the model's own head."""
    policy = LanguagePolicy(model, Tokens(), 12, temperature=0.7)
    prompts, responses, mask = sampled(policy)
    logits = policy.model.get_output_embeddings()(policy.features(prompts, responses, mask)[mask])
    expected = (logits / 0.7).log_softmax(-1).gather(-1, responses[mask][:, None]).squeeze(-1)
    torch.testing.assert_close(policy.log_probs(prompts, responses, mask)[mask], expected, **CLOSE)


def test_a_value_knows_what_was_written_before_and_not_its_own_token(model):
    policy = LanguagePolicy(model, Tokens(), 7)
    critic = with_some_head(Critic(policy))
    prompts, responses = ragged_prompts(), torch.randint(2, 19, (5, 2, 7), generator=torch.Generator().manual_seed(2))
    mask = torch.ones_like(responses, dtype=torch.bool)
    values = critic(prompts, responses, mask)
    for t in range(7):
        other = responses.clone()
        other[..., t] = (other[..., t] - 1) % 17 + 2
        gap = (critic(prompts, other, mask) - values).abs()
        assert gap[..., : t + 1].max() < 1e-6 and (t == 6 or gap[..., t + 1].min() > 1e-6)


def with_some_head(critic):
    weight = critic.head.weight
    with torch.no_grad():
        weight.copy_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(0)))
    return critic


def test_the_values_of_a_batch_are_those_of_each_response_alone(model):
    policy = LanguagePolicy(model, Tokens(), 9)
    critic = with_some_head(Critic(policy, rows_per_pass=2))
    rollout = collect(policy, CountTwos(), Batch(ragged_prompts(), [None] * 5), 3)
    values = critic.values(rollout)
    assert (values[rollout.mask] != 0).all()
    for b in range(5):
        for g in range(3):
            alone = [part[[b]][:, [g]] for part in (rollout.responses, rollout.mask)]
            torch.testing.assert_close(critic(rollout.prompts[[b]], *alone)[0, 0], values[b, g], **CLOSE)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_where_there_are_no_tokens_there_are_no_values(dtype):
    policy = LanguagePolicy(tiny_qwen2().to(dtype), Tokens(), 6)
    prompts, responses, mask = sampled(policy)
    assert policy.features(prompts, responses, torch.zeros_like(mask)).dtype == dtype
    values = Critic(policy)(prompts, responses, torch.zeros_like(mask))
    assert values.dtype == dtype and (values == 0).all()


def test_a_critic_learns_beside_a_language_policy_and_both_resume_to_the_bit(tmp_path):
    """A value head on a copy of the policy; the copy's own head, which is not tied here, needs no gradient."""
    shape = tiny_qwen2().config
    shape.tie_word_embeddings = False

    def fresh(seed):
        torch.manual_seed(seed)
        policy = LanguagePolicy(Qwen2ForCausalLM(shape), Tokens(), 6)
        return policy, RECIPES["ppo"].make_critic(policy, learning_rate=1e-3)

    config = RECIPES["ppo"].config(epochs=3, batch_size=5, group_size=3, learning_rate=1e-3, evaluate_every=3)
    (policy, critic), (other, same) = fresh(0), fresh(0)
    start = [weight.clone() for weight in critic.body.parameters()]
    whole = list(train(policy, CountTwos(), config, critic=critic))
    assert all(row["value_loss"] > 0 for row in whole)
    assert not any(map(torch.equal, start[:-1], list(critic.body.parameters())[:-1]))
    assert not any(map(torch.equal, policy.parameters(), critic.body.parameters()))
    state = State(other, config, critic=same)
    for _, _ in zip(range(2), train(other, CountTwos(), config, resume_from=state), strict=False):
        checkpoint.save(tmp_path, other, state, config)
    assert len(same.optimizer.state) == len(list(same.parameters()))
    back, judge = fresh(1)
    state = checkpoint.load(tmp_path, back, config, judge)
    last = list(train(back, CountTwos(), config, resume_from=state))[-1]
    assert {name: value for name, value in last.items() if not name.startswith("seconds")} == {
        name: value for name, value in whole[-1].items() if not name.startswith("seconds")
    }
    assert all(map(torch.equal, back.parameters(), policy.parameters()))
    assert all(map(torch.equal, judge.state_dict().values(), critic.state_dict().values()))


def test_prompts_of_several_batches_are_padded_to_one_width():
    """As a batch drawn anew brings them: log-probs, gradient and loss are those of the batches side by side."""
    policy = LanguagePolicy(tiny_qwen2().double(), Tokens(), 6)
    prompts = ragged_prompts()
    pairs = [Batch(prompts[[0, 2]], [None] * 2), Batch(prompts[[3, 4]][:, 3:], [None] * 2)]
    rollouts = [collect(policy, CountTwos(), batch, 3) for batch in pairs]
    whole = joined(rollouts, policy.pad_id)
    assert whole.prompts.shape == (4, 7)
    found = policy.log_probs(whole.prompts, whole.responses, whole.mask)
    for rows, part in zip(found.split(2), rollouts, strict=True):
        torch.testing.assert_close(rows[..., : part.mask.shape[-1]].detach(), part.old_log_probs, **CLOSE)
    config = RECIPES["dapo"].config(inner_steps=1, batch_size=4, group_size=3)
    metrics = learn(policy, whole, config, State(policy, config))
    assert metrics["clip_low"] == metrics["clip_high"] == 0 and metrics["grad_norm"] > 0


class CountTwos:
    """Pays for tokens 2; prompts are those of these tests."""

    def sample(self, batch_size, generator=None):
        return Batch(ragged_prompts(batch_size), [None] * batch_size)

    def held_out(self):
        return self.sample(3)

    def rewards(self, batch, responses, mask):
        return ((responses == 2) & mask).sum(-1).float()


class Enumerable(LanguagePolicy):
    """With what the oracle asks for: a length and one end token."""

    length, end_token = 3, 1


@pytest.mark.parametrize("delta, factor", [("raw", 1.0), ("leave_one_out", 1.0), ("centered", 0.5)])
def test_policy_gradient_equals_the_exact_one(delta, factor):
    """A transformer with 3 tokens and responses up to 3: all 15 responses, all 225 pairs of them."""
    policy = Enumerable(tiny_gpt2(vocab_size=3, hidden=8, layers=1).double(), Tokens(), 3)
    prompt = torch.tensor([2, 2, 1])

    def reward(prompts, responses):
        return (responses == 2).sum(-1).double()

    every, log_probs = exact.distribution(policy, prompt[None])
    torch.testing.assert_close(log_probs.exp().sum(), torch.tensor(1.0, dtype=torch.float64))
    truth = torch.autograd.grad((log_probs.exp() * reward(None, every)).sum(), list(policy.parameters()))
    pairs = torch.cartesian_prod(torch.arange(15), torch.arange(15))
    responses = every[0][pairs]
    mask = response_mask(responses, 1)
    prompts = prompt.expand(len(pairs), -1)
    probability = log_probs[0].detach()[pairs].sum(-1).exp()
    weights = token_weights(mask, "constant", constant=1.0).double() * len(pairs) * probability[:, None, None]
    loss = naive(policy.log_probs(prompts, responses, mask), deltas.DELTAS[delta](reward(prompts, responses)))
    ours = torch.autograd.grad(-(loss * weights).sum(), list(policy.parameters()))
    for mine, exactly in zip(ours, truth, strict=True):
        torch.testing.assert_close(mine, factor * exactly)


def test_packed_removes_the_left_padding():
    prompts, responses = torch.tensor([[0, 0, 5], [7, 8, 9]]), torch.tensor([[[2, 3], [4, 1]], [[6, 1], [3, 3]]])
    rows, starts = packed(prompts, responses, prompts != 0, 0)
    assert starts.tolist() == [1, 1, 3, 3]
    assert rows.tolist() == [[5, 2, 3, 0, 0], [5, 4, 1, 0, 0], [7, 8, 9, 6, 1], [7, 8, 9, 3, 3]]


def test_truncate_keeps_what_it_says():
    logits = torch.tensor([0.5, 0.2, 0.15, 0.1, 0.05]).log()
    assert torch.isfinite(truncate(logits, 2, None)).tolist() == [True, True, False, False, False]
    assert torch.isfinite(truncate(logits, None, 0.6)).tolist() == [True, True, False, False, False]
    assert torch.isfinite(truncate(logits, None, 1e-9)).tolist() == [True, False, False, False, False]
    assert torch.equal(truncate(logits, 99, 1.0), logits)


def test_the_loop_accepts_a_language_policy():
    """Every loss of the core on a rollout of a transformer."""
    policy = LanguagePolicy(tiny_qwen2(), Tokens(), 6)
    rollout = collect(policy, CountTwos(), Batch(ragged_prompts(), [None] * 5), 4)
    log_probs = policy.log_probs(rollout.prompts, rollout.responses, rollout.mask)
    assert not rollout.old_log_probs.requires_grad and log_probs.requires_grad
    assert set(LOSSES) == {"naive", "unclipped", "clipped"}


@pytest.mark.parametrize(
    "settings, sentence",
    [
        ({"temperature": 0.0}, "temperature divides the logits and must be positive"),
        ({"top_k": 0}, "top_k must be at least 1"),
        ({"top_p": 1.5}, r"top_p in \(0, 1\]"),
        ({"rows_per_pass": 0}, "must be at least 1"),
    ],
)
def test_bad_settings_get_a_sentence(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        LanguagePolicy(tiny_qwen2(), Tokens(), 6, **settings)


def test_prompts_that_cannot_be_continued_get_a_sentence():
    policy = LanguagePolicy(tiny_qwen2(), Tokens(), 60)
    with pytest.raises(ValueError, match="exceed the context of 64"):
        policy.sample(torch.full((1, 5), 3), 2)
    with pytest.raises(ValueError, match="a prompt has no tokens"):
        policy.sample(torch.tensor([[0, 0], [3, 4]]), 2)
    with pytest.raises(ValueError, match="names an end token"):
        LanguagePolicy(tiny_qwen2(), Tokens(eos_token_id=None), 6)


def test_a_model_that_changes_its_logits_is_refused():
    model = tiny_qwen2()
    forward = model.forward

    def capped(*args, **kwargs):
        output = forward(*args, **kwargs)
        output.logits = output.logits.tanh()
        return output

    model.forward = capped
    with pytest.raises(ValueError, match="changes its logits after the output embedding"):
        LanguagePolicy(model, Tokens(), 6)


def test_broken_weights_and_foreign_heads_are_named():
    model = tiny_qwen2()
    model.model.norm.weight.data.fill_(torch.nan)
    with pytest.raises(ValueError, match="its weights are broken"):
        LanguagePolicy(model, Tokens(), 6)
    headless = tiny_qwen2()
    headless.model.forward = lambda **inputs: ()
    with pytest.raises(ValueError, match="does not show its last hidden state"):
        LanguagePolicy(headless, Tokens(), 6)


def test_tokens_without_an_embedding_are_refused():
    with pytest.raises(ValueError, match="padding token 55 is none of the model's 19 embeddings"):
        LanguagePolicy(tiny_qwen2(), Tokens(pad_token_id=55), 6)
    with pytest.raises(ValueError, match="names an end token"):
        LanguagePolicy(tiny_qwen2(), Tokens(eos_token_id=-1), 6)


@pytest.mark.parametrize("name", ["attn_dropout", "hidden_dropout", "layerdrop", "router_jitter_noise"])
def test_every_kind_of_dropout_is_off(name):
    model = tiny_qwen2()
    model.model.layers[0].self_attn.register_module("odd", torch.nn.Identity())
    setattr(model.model.layers[0].self_attn.odd, name, 0.3)
    setattr(model.config, name, 0.3)
    LanguagePolicy(model, Tokens(), 6)
    assert getattr(model.model.layers[0].self_attn.odd, name) == getattr(model.config, name) == 0
