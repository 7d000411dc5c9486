"""The same batch through TRL's GRPOTrainer: its own loss, gradient and advantages against minirl's.

Skipped where TRL is not installed; `pip install -e '.[trl]' -c constraints.txt` brings it. Nothing of TRL's is typed
again here: the trainer is built from a GRPOConfig, and its loss and its advantages are what its methods return.

How the sums are divided: "grpo" is our "sequence"; "dapo" divides by `num_items_in_batch`, the tokens of the whole
batch, as our "token"; "dr_grpo" by responses × `max_completion_length`, as our "constant" with that constant. By
default TRL multiplies the KL by the ratio (`use_bias_correction_kl`); here that is off, as in GRPO and in minirl.
"""

import copy
import warnings

import pytest
import torch
from tiny import ragged_prompts, tiny_qwen2

from minirl import RECIPES
from minirl.deltas import centered, normalized
from minirl.llm.policy import LanguagePolicy, load
from minirl.losses import token_weights
from minirl.metrics import clip_shares
from minirl.objective import token_losses
from minirl.rollout import Rollout
from minirl.train import Config
from minirl.variants import sequence_level

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of TRL's and its dependencies' own
    trl = pytest.importorskip("trl", reason="TRL is not installed: it is in the extra trl")
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

pytestmark = pytest.mark.filterwarnings("ignore")

PROMPTS, GROUP_SIZE, NEW_TOKENS, LIMIT = 5, 4, 8, 20  # LIMIT: TRL's max_completion_length, more than any response has
AGGREGATIONS = {"grpo": "sequence", "dapo": "token", "dr_grpo": "constant"}
EPSILONS = [(0.2, 0.2), (0.2, 0.28), (0.05, 0.6)]
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


def perturbed(policy: LanguagePolicy, seed: int, scale: float) -> LanguagePolicy:
    """The policy a few updates away, as far as log-probs are concerned."""
    generator, other = torch.Generator().manual_seed(seed), copy.deepcopy(policy)
    with torch.no_grad():
        for parameter in other.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
            parameter += scale * parameter.std(unbiased=False) * noise
    return other


@pytest.fixture(scope="module")
def tokenizer():
    return load("pocket").tokenizer


@pytest.fixture(scope="module")
def folder(tmp_path_factory, tokenizer):
    """A tiny random Qwen2 on disk: TRL reads its reference model from there."""
    path = tmp_path_factory.mktemp("tiny")
    tiny_qwen2(vocab_size=len(tokenizer)).save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def policy(folder, tokenizer):
    from transformers import Qwen2ForCausalLM

    policy = LanguagePolicy(Qwen2ForCausalLM.from_pretrained(folder, dtype=torch.float64), tokenizer, NEW_TOKENS)
    policy.end_ids = list(range(10))  # many ends: the responses of a random model become ragged
    return policy


@pytest.fixture(scope="module")
def batch(policy):
    """A rollout of an older policy with a reference, ragged on both sides, one response without tokens; and deltas."""
    prompts = ragged_prompts(PROMPTS, vocab_size=policy.vocab_size)
    prompts = prompts.where(prompts != 0, policy.pad_id)
    old, reference = perturbed(policy, 1, 0.03), perturbed(policy, 2, 0.1)
    generator = torch.Generator().manual_seed(3)
    responses, mask = old.sample(prompts, GROUP_SIZE, generator)
    mask[2, 1] = False
    with torch.no_grad():
        scores = [each.log_probs(prompts, responses, mask) for each in (old, reference)]
    rewards = torch.randn(PROMPTS, GROUP_SIZE, generator=generator, dtype=torch.float64)
    return Rollout(prompts, responses, mask, rewards, *scores), centered(rewards)


def trainer(path, folder, policy, reward=None, **settings):
    """TRL's trainer around the very model of `policy`, in the state in which it calls its loss."""
    model = copy.deepcopy(policy.model)
    model.config._name_or_path = str(folder)
    batch = {"per_device_train_batch_size": PROMPTS * GROUP_SIZE, "num_generations": GROUP_SIZE}
    plain = {"use_cpu": True, "bf16": False, "gradient_checkpointing": False, "report_to": "none"}
    plain |= {"max_completion_length": LIMIT, "use_bias_correction_kl": False}
    config = GRPOConfig(str(path), **batch, **plain, **settings)
    data = Dataset.from_dict({"prompt": ["2 + 3"] * PROMPTS})
    made = GRPOTrainer(model, reward or (lambda **_: None), config, data, processing_class=policy.tokenizer)
    made.current_gradient_accumulation_steps = 1  # its loop sets this before the first step
    return made


def their_inputs(rollout: Rollout, deltas, policy) -> dict:
    prompt_mask = policy.prompt_mask(rollout.prompts).long()
    return {
        "prompt_ids": rollout.prompts.repeat_interleave(GROUP_SIZE, 0),
        "prompt_mask": prompt_mask.repeat_interleave(GROUP_SIZE, 0),
        "completion_ids": rollout.responses.flatten(0, 1),
        "completion_mask": rollout.mask.flatten(0, 1).long(),
        "advantages": deltas.flatten(),
        "old_per_token_logps": rollout.old_log_probs.flatten(0, 1),
        "ref_per_token_logps": rollout.ref_log_probs.flatten(0, 1),
        "num_items_in_batch": rollout.mask.sum(),
    }


def our_loss(policy, rollout: Rollout, deltas, config: Config):
    weights = token_weights(rollout.mask, config.aggregation, config.constant)
    log_probs = policy.log_probs(rollout.prompts, rollout.responses, rollout.mask)
    return (token_losses(log_probs, rollout, deltas, config) * weights).sum()


def gradients(module) -> dict[str, torch.Tensor]:
    return {name: parameter.grad for name, parameter in module.named_parameters()}


def test_the_batch_is_one_that_could_tell_them_apart(policy, batch):
    rollout, deltas = batch
    assert rollout.mask.sum(-1).unique().numel() > 3 and (rollout.prompts == policy.pad_id).any()
    assert (rollout.mask.sum(-1) == 0).sum() == 1 and (deltas > 0).any() and (deltas < 0).any()
    log_probs = policy.log_probs(rollout.prompts, rollout.responses, rollout.mask).detach()
    for epsilons in EPSILONS:
        shares = clip_shares(log_probs, rollout, deltas, *epsilons)
        assert shares["clip_low"] > 0.02 and shares["clip_high"] > 0.02, f"{epsilons} hardly cut anything: {shares}"


@pytest.mark.parametrize("beta", [0.0, 0.1])
@pytest.mark.parametrize("low, high", EPSILONS)
@pytest.mark.parametrize("loss_type", AGGREGATIONS)
def test_loss_and_gradient_equal_those_of_trl(loss_type, low, high, beta, policy, batch, folder, tmp_path):
    rollout, deltas = batch
    settings = {"loss_type": loss_type, "epsilon": low, "epsilon_high": high, "beta": beta}
    theirs = trainer(tmp_path, folder, policy, **settings)
    their_loss = theirs.compute_loss(theirs.model.train(), their_inputs(rollout, deltas, policy))
    their_loss.backward()
    how = {"aggregation": AGGREGATIONS[loss_type], "constant": LIMIT}
    loss = our_loss(policy, rollout, deltas, Config(clip_low=low, clip_high=high, beta=beta, **how))
    policy.zero_grad()
    loss.backward()
    torch.testing.assert_close(loss, their_loss, **CLOSE)
    ours, expected = gradients(policy.model), gradients(theirs.model)
    assert max(gradient.abs().max() for gradient in expected.values()) > 0.01
    torch.testing.assert_close(ours, expected, **CLOSE)


METHODS = {  # TRL's settings and ours
    "GSPO": (
        {"loss_type": "grpo", "importance_sampling_level": "sequence", "epsilon": 0.03, "epsilon_high": 0.05},
        {"ratio": "sequence", "clip_low": 0.03, "clip_high": 0.05},
    ),
    "GSPO as published": (
        {"loss_type": "grpo", "importance_sampling_level": "sequence", "epsilon": 3e-4, "epsilon_high": 4e-4},
        dict(RECIPES["gspo"].settings),
    ),
    "LUSPO": (
        {"loss_type": "luspo", "importance_sampling_level": "sequence", "epsilon": 0.03, "epsilon_high": 0.05},
        {"ratio": "sequence", "clip_low": 0.03, "clip_high": 0.05, "aggregation": "constant", "constant": 1.0},
    ),
    "CISPO": ({"loss_type": "cispo", "epsilon_high": 1.28}, dict(RECIPES["cispo"].settings)),
    "BNPO": ({"loss_type": "bnpo", "epsilon": 0.2, "epsilon_high": 0.28}, dict(RECIPES["dapo"].settings)),
    "dual clip": (
        {"loss_type": "grpo", "epsilon": 0.2, "epsilon_high": 0.2, "delta": 1.4},
        {"clip_low": 0.2, "clip_high": 0.2, "dual_clip": 1.4},
    ),
    "GRPO": ({"loss_type": "grpo", "epsilon": 0.2, "beta": 0.04}, dict(RECIPES["grpo"].settings)),
    "DAPO": ({"loss_type": "dapo", "epsilon": 0.2, "epsilon_high": 0.28}, dict(RECIPES["dapo"].settings)),
    "Dr. GRPO": (
        {"loss_type": "dr_grpo", "epsilon": 0.2},
        {**RECIPES["dr-grpo"].settings, "constant": LIMIT},
    ),
}


@pytest.mark.parametrize("beta", [0.0, 0.1])
@pytest.mark.parametrize("theirs, ours", METHODS.values(), ids=METHODS)
def test_each_method_has_the_loss_and_gradient_that_trl_gives_it(theirs, ours, beta, policy, batch, folder, tmp_path):
    """CISPO's `epsilon_high` is in TRL the bound itself, 1 + clip_high here; `delta` is our dual_clip."""
    rollout, deltas = batch
    beta = theirs.get("beta", beta)
    made = trainer(tmp_path, folder, policy, **{**theirs, "beta": beta})
    their_loss = made.compute_loss(made.model.train(), their_inputs(rollout, deltas, policy))
    their_loss.backward()
    loss = our_loss(policy, rollout, deltas, Config(**{**ours, "beta": beta}))
    policy.zero_grad()
    loss.backward()
    torch.testing.assert_close(loss, their_loss, **CLOSE)
    expected = gradients(made.model)
    assert max(gradient.abs().max() for gradient in expected.values()) > 0.01
    torch.testing.assert_close(gradients(policy.model), expected, **CLOSE)


def test_the_batch_is_one_that_could_tell_the_methods_apart(policy, batch):
    rollout, deltas = batch
    log_probs = policy.log_probs(rollout.prompts, rollout.responses, rollout.mask).detach()
    whole = sequence_level(log_probs, rollout.old_log_probs, rollout.mask)
    shares = clip_shares(whole, rollout, deltas, 0.03, 0.05)
    assert min(shares["clip_low"], shares["clip_high"]) > 0.02 and sum(shares.values()) < 0.98, shares
    bad = (deltas < 0)[..., None] & rollout.mask
    assert ((log_probs - rollout.old_log_probs).exp()[bad] > 1.4).float().mean() > 0.02


@pytest.mark.parametrize("scale, delta", [("group", lambda rewards: normalized(rewards, eps=1e-4)), ("none", centered)])
def test_advantages_equal_those_of_trl(scale, delta, policy, folder, tmp_path):
    """TRL's ε is 1e-4 where minirl's default is 1e-6; the rewards include a tied group and one that hardly varies."""
    rewards = torch.tensor(
        [[1.2, 0, 0.2, 1], [1, 1, 1, 1], [0, 0, 0, 1], [-3, 5, 0.5, 2], [0.5, 0.5 + 2**-12, 0.5, 0.5]]
    )

    def reward(completions, **_):
        assert len(completions) == rewards.numel()
        return rewards.flatten().tolist()

    made = trainer(tmp_path, folder, policy, reward, scale_rewards=scale)
    made.model.train()
    rows = [{"prompt": "2 + 3"} for _ in range(rewards.numel())]
    advantages = made._generate_and_score_completions(rows)["advantages"].view(rewards.shape)
    torch.testing.assert_close(delta(rewards), advantages, **CLOSE)
