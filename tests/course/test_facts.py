"""What assignment 2 takes for true of deltas and KL estimators, measured, and what it says of a trained policy; and the
models that assignment 5 counts."""

import pytest
import torch
from torch.testing import assert_close

from minirl import SortingPolicy, deltas, exact, kl, losses, sorting
from minirl.course import a2, a5
from minirl.llm import memory, plans

NAMES = pytest.mark.parametrize("name", list(a2.FACTS))


def has(name, fact):
    return fact in a2.FACTS[name]


@NAMES
def test_silent_on_ties(name):
    tied = torch.tensor([[1.0] * 4, [0.3] * 4, [-2.0] * 4])
    assert (deltas.DELTAS[name](tied) == 0).all() == has(name, a2.SILENT)


@NAMES
def test_adds_up_to_0(name):
    groups = torch.tensor([[1.0, 2.0, 4.0], [0.0, 0.0, 1.0]]).double()
    assert (deltas.DELTAS[name](groups).sum(-1).abs() < 1e-12).all() == has(name, a2.BALANCED)


@NAMES
def test_scale_free(name):
    groups, delta = torch.tensor([[1.0, 2.0, 4.0], [0.0, 0.0, 1.0]]).double(), deltas.DELTAS[name]
    assert torch.allclose(delta(10 * groups), delta(groups), atol=1e-4) == has(name, a2.SCALE_FREE)


@NAMES
def test_unbiased(name):
    """Over all groups of three responses, against the policy gradient by enumeration."""
    policy = SortingPolicy(vocab_size=2, length=2, dim=2, init_scale=1.0, seed=1).double()
    prompt = torch.tensor([1, 0])

    def estimator(prompts, responses, mask):
        pushes = deltas.DELTAS[name](sorting.position_match(prompts, responses).double())
        log_probs = policy.log_probs(prompts, responses, mask)
        return exact.gradients(-losses.naive(log_probs, pushes).sum(-1).mean(-1), policy)

    mean, _ = exact.estimator_moments(policy, prompt, estimator, group_size=3)
    truth = exact.gradient(policy, prompt[None], sorting.position_match)
    assert torch.allclose(mean, truth, atol=1e-9) == has(name, a2.UNBIASED)


@pytest.mark.parametrize("name", list(a2.GRADIENTS))
def test_the_gradient_of_an_estimator_is_the_one_that_is_named(name):
    policy, reference = torch.tensor([0.3, -1.0, 0.8]).double(), torch.tensor([-0.2, 0.5, 0.1]).double()
    leaf = policy.clone().requires_grad_()
    (reverse,) = torch.autograd.grad(kl.exact(leaf, reference), leaf)
    (forward,) = torch.autograd.grad(kl.exact(reference, leaf), leaf)
    named = {a2.NOTHING: torch.zeros(3).double(), a2.REVERSE: reverse, a2.FORWARD: forward}
    assert_close(a2.expected_gradient(policy, reference, kl.KL[name]), named[a2.GRADIENTS[name]])


@pytest.mark.parametrize("given", [None, 5, {"raw": set()}, {name: {"scale-less"} for name in a2.FACTS}])
def test_properties_of_another_form_are_answered(given):
    assert a2.named_facts(lambda: given)


@pytest.mark.parametrize("given", [None, "k1", {"k1": a2.NOTHING}, dict.fromkeys(a2.GRADIENTS, "KL")])
def test_gradients_of_another_form_are_answered(given):
    assert a2.named_gradients(lambda: given)


def test_every_single_wrong_word_is_answered():
    words = (a2.SILENT, a2.BALANCED, a2.SCALE_FREE, a2.UNBIASED)
    for name in a2.FACTS:
        for word in words:
            changed = a2.FACTS | {name: a2.FACTS[name] ^ {word}}
            assert a2.named_facts(lambda changed=changed: changed), (name, word)


def test_a_training_that_takes_too_long_is_told_so():
    assert "a few are enough" in a2.trained_well(a2.set_by_hand, seconds=-1.0)


def test_two_seeds_must_give_two_policies():
    sorter = a2.set_by_hand(0)

    def moved(seed):
        policy = a2.set_by_hand(seed)
        with torch.no_grad():
            policy.embedding += 1e-6 * seed
        return policy

    assert a2.trained_well(moved) is None
    assert a2.trained_well(lambda seed: sorter).startswith(a2.SEEDLESS)


@pytest.mark.parametrize("name", list(a5.SHAPES))
def test_the_models_that_are_counted_are_the_published_ones(name):
    published = next(plans.published(model) for model in plans.PUBLISHED if name in model)
    assert vars(a5.shape(name)) == {field: getattr(published, field) for field in a5.FIELDS}
    assert a5.SHAPES[name][1] == memory.parameter_count(published)


def test_the_bytes_that_are_always_there_are_those_of_minirls_own_estimate():
    shape, count = plans.published(plans.SMALL), a5.SHAPES["Qwen2.5-0.5B"][1]
    need = memory.estimate(shape, memory.Workload(1, 1, 9, 9, bfloat16=True))
    always = need.weights + need.gradients + need.optimizer + need.half_copies
    assert a5.fits(shape, count, 864, 16)[0] == always
