"""Both ways to score, with and without a shared cache, against one plain pass a row: values and gradients at the edges.

GPT-2 counts its positions from the left edge and notices each that is wrong; Qwen2 turns only with their differences.
"""

from unittest import mock

import pytest
import torch
from tiny import Tokens, ragged_prompts, tiny_gpt2, tiny_qwen2

from minirl import Config
from minirl.llm.memory import checkpoint_layers
from minirl.llm.policy import LanguagePolicy, end_token_ids, truncate
from minirl.rollout import Batch
from minirl.train import train

MODELS = {"gpt2": (tiny_gpt2, {}), "qwen2": (tiny_qwen2, {"rtol": 1e-4, "atol": 1e-4})}  # its norms are float32
BATCH, GROUP, LENGTH = 4, 3, 6


@pytest.fixture(autouse=True)
def unprobed(monkeypatch):
    """The constructor's own look at the cache is tested elsewhere: mistakes are to be found by the tests here."""
    monkeypatch.setattr("minirl.llm.policy.refuse_unknown_cache", lambda policy: None)


def drawn(seed=0, lengths=None):
    """Ragged prompts and responses that need not be likely."""
    draw = torch.Generator().manual_seed(seed)
    responses = torch.randint(2, 19, (BATCH, GROUP, LENGTH), generator=draw)
    lengths = torch.randint(1, LENGTH + 1, (BATCH, GROUP), generator=draw) if lengths is None else lengths
    mask = torch.arange(LENGTH) < lengths[..., None]
    ended = mask & ~mask.roll(-1, -1)
    return ragged_prompts(BATCH), responses.masked_fill(ended, 1), mask


def where(change):
    """The case with its mask changed in place."""
    prompts, responses, mask = drawn()
    change(mask)
    return prompts, responses, mask


def with_prompts(change):
    prompts, responses, mask = drawn()
    return change(prompts), responses, mask


def cut():
    """Nobody comes to an end."""
    prompts, responses, _ = drawn()
    return prompts, responses.masked_fill(responses == 1, 2), torch.ones(BATCH, GROUP, LENGTH, dtype=torch.bool)


def lone(mask):
    mask[1, 0], mask[0], mask[1, 1:], mask[2:] = True, False, False, False


CASES = {
    "as sampled": drawn,
    "holes in the mask": lambda: where(lambda mask: mask.bitwise_and_(torch.rand(mask.shape).argsort(-1) > 1)),
    "a silent response": lambda: where(lambda mask: mask[2, 1].fill_(False)),
    "a silent group": lambda: where(lambda mask: mask[1].fill_(False)),
    "only one response speaks": lambda: where(lone),
    "only end tokens": lambda: drawn(lengths=torch.ones(BATCH, GROUP, dtype=torch.long)),
    "one end token among longer ones": lambda: drawn(lengths=torch.tensor([[1, 6, 3]]).expand(BATCH, -1)),
    "every response is cut": cut,
    "equal prompts": lambda: with_prompts(lambda prompts: prompts[[2, 2, 0, 2]]),
    "no padding": lambda: with_prompts(lambda prompts: prompts[:, -2:]),
    "padding that none needs": lambda: with_prompts(lambda prompts: torch.nn.functional.pad(prompts, (5, 0))),
}


def one_row_at_a_time(policy, prompts, responses, mask):
    """Log-probs from a whole forward pass over each row alone, 0 outside the mask."""
    found = torch.zeros(mask.shape, dtype=torch.float64)
    for b, g in torch.cartesian_prod(torch.arange(BATCH), torch.arange(GROUP)).tolist():
        prompt = prompts[b, (prompts[b] != 0).nonzero().min() :]
        logits = policy.model(input_ids=torch.cat([prompt, responses[b, g]])[None]).logits[0, len(prompt) - 1 : -1]
        log_p = (logits / policy.temperature).log_softmax(-1)
        found[b, g] = log_p.gather(-1, responses[b, g, :, None]).squeeze(-1)
    return found * mask


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("way", ["shared", "packed"])
@pytest.mark.parametrize("name", MODELS)
def test_values_and_gradients_equal_one_row_at_a_time(name, way, case):
    make, close = MODELS[name]
    torch.manual_seed(0)
    prompts, responses, mask = CASES[case]()
    plain, ours = (LanguagePolicy(make().double(), Tokens(), LENGTH, 0.7, rows_per_pass=5) for _ in range(2))
    if way == "packed":
        checkpoint_layers(ours.model)
    expected, scores = one_row_at_a_time(plain, prompts, responses, mask), ours.log_probs(prompts, responses, mask)
    torch.testing.assert_close(scores, expected, **close)
    weights = torch.randn(mask.shape, dtype=torch.float64)
    for values in (expected, scores):
        (values * weights).sum().backward()
    for mine, theirs in zip(ours.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, **close)


def test_the_cases_are_those_that_they_are_called():
    masks = {case: CASES[case]()[2] for case in CASES}
    holes = masks["holes in the mask"]
    assert (~holes[..., :-1] & holes[..., 1:]).any()
    assert masks["only one response speaks"].any(-1).sum() == 1 and masks["a silent response"].any(-1).sum() == 11
    assert masks["only end tokens"].sum() == BATCH * GROUP and masks["every response is cut"].all()
    assert (CASES["no padding"]()[0] != 0).all() and (CASES["as sampled"]()[0] == 0).any()


@pytest.mark.parametrize("way", ["shared", "packed"])
def test_a_token_behind_a_hole_counts_as_read(way):
    """Masked out is not scored; it stays what the next token was drawn after."""
    policy = LanguagePolicy(tiny_gpt2().double(), Tokens(), LENGTH)
    if way == "packed":
        checkpoint_layers(policy.model)
    prompts, responses, mask = cut()
    holed, other = mask.clone(), responses.clone()
    holed[:, :, 2], other[:, :, 2] = False, (responses[:, :, 2] + 1) % 17 + 2
    ours, whole = (policy.log_probs(prompts, responses, each) for each in (holed, mask))
    torch.testing.assert_close(ours, whole * holed)
    assert not torch.allclose(policy.log_probs(prompts, other, holed)[..., 3], ours[..., 3])


def test_score_is_log_probs_and_entropy_and_neither_it_nor_entropy_keeps_a_graph():
    policy, rollout = LanguagePolicy(tiny_qwen2(), Tokens(), LENGTH), drawn()
    log_probs, entropy = policy.score(*rollout)
    assert torch.equal(log_probs, policy.log_probs(*rollout)) and torch.equal(entropy, policy.entropy(*rollout))
    assert not log_probs.requires_grad and not entropy.requires_grad and not policy.entropy(*rollout).requires_grad


def test_a_half_precision_model_is_scored_in_float32():
    model = tiny_qwen2().bfloat16()
    policy, prompt = LanguagePolicy(model, Tokens(), 1), torch.tensor([[3, 4, 5]])
    responses = torch.arange(19).view(1, -1, 1)
    scores = policy.log_probs(prompt, responses, torch.ones_like(responses).bool())
    expected = model(input_ids=prompt).logits[0, -1].float().log_softmax(-1)
    assert scores.dtype == torch.float32
    torch.testing.assert_close(scores.flatten(), expected)
    assert scores.exp().sum().item() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("model", [tiny_gpt2(), tiny_qwen2(attention_dropout=0.5)], ids=MODELS)
def test_dropout_stays_off_when_training_begins(model):
    policy, rollout = LanguagePolicy(model.eval(), Tokens(), LENGTH).train(), drawn()
    assert torch.equal(policy.log_probs(*rollout), policy.log_probs(*rollout))


# ---- through the loop


class Anything:
    """Ragged prompts and rewards that never tie."""

    def __init__(self):
        self.draw = torch.Generator().manual_seed(0)

    def sample(self, batch_size, generator=None):
        return Batch(ragged_prompts(batch_size), [None] * batch_size)

    def held_out(self):
        return self.sample(2)

    def rewards(self, batch, responses, mask):
        return torch.rand(responses.shape[:2], generator=self.draw)


@pytest.mark.parametrize("settings", [{}, {"temperature": 0.6}, {"temperature": 1.7, "top_k": 5}, {"top_p": 0.8}])
def test_in_the_loop_the_ratio_is_exactly_one_at_the_first_inner_step(settings):
    """With both epsilons 0, a ratio that is not exactly 1 shows as clipped."""
    policy = LanguagePolicy(tiny_qwen2(), Tokens(), 8, **settings)
    exact = {"batch_size": 5, "group_size": 4, "clip_low": 0.0, "clip_high": 0.0}
    for inner_steps, moved in ((1, False), (2, True)):
        config = Config(epochs=2, inner_steps=inner_steps, **exact)
        for metrics in train(policy, Anything(), config):
            assert (metrics["clip_low"] > 0.1) == (metrics["clip_high"] > 0.1) == moved and metrics["grad_norm"] > 0
            assert moved or metrics["clip_low"] == metrics["clip_high"] == 0


def test_in_the_loop_a_reference_that_is_the_policy_has_a_kl_of_exactly_zero():
    policy = LanguagePolicy(tiny_qwen2(), Tokens(), 8, temperature=0.8)
    first, second = train(policy, Anything(), Config(epochs=2, batch_size=5, group_size=4, beta=0.1))
    assert first["kl_k1"] == first["kl_k3"] == 0 < second["kl_k3"]


@pytest.mark.parametrize("micro_batch_size", [1, 2, 5])
def test_in_the_loop_micro_batches_keep_the_ratio_at_one_but_for_rounding(micro_batch_size):
    policy = LanguagePolicy(tiny_qwen2(), Tokens(), 8)
    near = {"batch_size": 5, "group_size": 4, "clip_low": 1e-5, "clip_high": 1e-5}
    (metrics,) = train(policy, Anything(), Config(epochs=1, inner_steps=1, micro_batch_size=micro_batch_size, **near))
    assert metrics["clip_low"] == metrics["clip_high"] == 0


# ---- ends, padding, draws


def test_every_end_token_of_tokenizer_and_checkpoint_counts_once_if_the_model_has_it():
    model = tiny_qwen2()
    model.generation_config.eos_token_id = [5, 1, 40]
    assert end_token_ids(model, Tokens()) == [1, 5] == LanguagePolicy(model, Tokens(), 2).end_ids
    assert end_token_ids(model, Tokens(eos_token_id=None)) == [5, 1]


def test_a_response_is_cut_where_no_end_token_is_inside_the_mask():
    policy = LanguagePolicy(tiny_qwen2(), Tokens(pad_token_id=1), 2)
    policy.end_ids = [1, 5]
    responses = torch.tensor([[[2, 1], [2, 5], [5, 1], [2, 2], [2, 1]]])
    mask = torch.tensor([[[True, True], [True, True], [True, False], [True, True], [True, False]]])
    assert policy.truncated(responses, mask).tolist() == [[False, False, False, True, True]]


def test_only_padding_in_front_is_padding():
    """A chat ends each turn with a token that may be the padding token too."""
    policy = LanguagePolicy(tiny_gpt2().double(), Tokens(pad_token_id=1), 2)
    prompts = torch.tensor([[1, 1, 4, 1, 5], [3, 1, 4, 1, 5]])
    assert policy.prompt_mask(prompts).int().tolist() == [[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]]
    responses = torch.tensor([[[6]], [[6]]])
    scores = policy.log_probs(prompts, responses, torch.ones_like(responses).bool()).flatten()
    for row, prompt in enumerate([prompts[0, 2:], prompts[1]]):
        torch.testing.assert_close(scores[row], policy.model(input_ids=prompt[None]).logits[0, -1].log_softmax(-1)[6])


@pytest.mark.parametrize("shift", [-1e-4, 1e-4])
def test_a_draw_is_as_fine_as_float64(shift):
    """Among equally likely tokens, noise of (k ± 0.0001) / V draws token k, or the one before it."""
    policy = LanguagePolicy(tiny_gpt2(vocab_size=5000, hidden=8, layers=1), Tokens(), 1)
    torch.nn.init.zeros_(policy.model.transformer.ln_f.weight)
    levels = torch.arange(100, 5000, 97)
    noise = (levels.double()[None] + shift) / 5000
    with mock.patch("torch.rand", lambda *_, **__: noise):
        responses, _ = policy.sample(torch.tensor([[3, 4]]), len(levels))
    assert responses.flatten().tolist() == (levels - int(shift < 0)).tolist()


@pytest.mark.parametrize("top_k, top_p", [(3, None), (None, 0.7), (4, 0.5), (None, 0.05), (1, 0.9), (19, 1.0)])
def test_truncate_keeps_the_likeliest_in_whatever_order(top_k, top_p):
    for logits in torch.randn(20, 9, generator=torch.Generator().manual_seed(0), dtype=torch.float64):
        order = sorted(range(9), key=lambda token: -logits[token])[: top_k or 9]
        probs = {token: logits[token].exp() / logits[order].exp().sum() for token in order}
        kept = [token for place, token in enumerate(order) if sum(probs[each] for each in order[:place]) < (top_p or 2)]
        expected = [logits[token].item() if token in kept else -torch.inf for token in range(9)]
        assert truncate(logits, top_k, top_p).tolist() == expected
