"""k1, k2, k3 as values and as losses, and the exact KL, against sums over the whole vocabulary in plain Python."""

import math

import oracle
import pytest
import torch
from torch.distributions import Categorical, kl_divergence

from minirl import kl
from minirl.kl import KL

pytestmark = pytest.mark.usefixtures("float64")
seeds = pytest.mark.parametrize("seed", range(4))


def two_categoricals(seed, size=5):
    generator = torch.Generator().manual_seed(seed)
    logits, ref_logits = torch.randn(2, size, generator=generator)
    return logits.requires_grad_(), ref_logits


def plain_kl(p, q):
    return sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))


def slopes(value, logits, step=1e-5):
    """d value(probabilities) / d logits by central differences, without tensors."""
    found = []
    for i in range(len(logits)):
        up, down = ([x + sign * step * (i == j) for j, x in enumerate(logits)] for sign in (1, -1))
        found.append((value(oracle.softmax(up)) - value(oracle.softmax(down))) / (2 * step))
    return torch.tensor(found)


@pytest.mark.parametrize("difference", [-3.0, -0.5, 0.0, 0.1, 2.0])
def test_each_estimator_equals_its_formula(difference):
    """With r = π_ref/π: k1 = −log r, k2 = ½(log r)², k3 = r − 1 − log r; a token π likes more has k1 > 0."""
    log_p, r = torch.tensor([-1.0]), math.exp(-difference)
    log_ref = log_p - difference
    torch.testing.assert_close(kl.k1(log_p, log_ref), torch.tensor([-math.log(r)]))
    torch.testing.assert_close(kl.k2(log_p, log_ref), torch.tensor([math.log(r) ** 2 / 2]))
    torch.testing.assert_close(kl.k3(log_p, log_ref), torch.tensor([r - 1 - math.log(r)]))


def expectation(name, logits, ref_logits):
    """E[k] where π draws the token; π's probabilities as weights carry no gradient, as in a sample."""
    log_p, log_q = logits.log_softmax(-1), ref_logits.log_softmax(-1)
    return (log_p.detach().exp() * KL[name](log_p, log_q)).sum()


@seeds
def test_as_values_k1_and_k3_are_unbiased_and_k2_is_not(seed):
    logits, ref_logits = two_categoricals(seed)
    p, q = oracle.softmax(logits.tolist()), oracle.softmax(ref_logits.tolist())
    truth = torch.tensor(plain_kl(p, q))
    torch.testing.assert_close(expectation("k1", logits, ref_logits), truth)
    torch.testing.assert_close(expectation("k3", logits, ref_logits), truth)
    second_moment = sum(a * math.log(a / b) ** 2 / 2 for a, b in zip(p, q, strict=True))
    torch.testing.assert_close(expectation("k2", logits, ref_logits), torch.tensor(second_moment))
    assert not torch.isclose(expectation("k2", logits, ref_logits), truth)


@seeds
def test_as_losses_k1_does_nothing_k2_is_right_and_k3_pulls_the_other_kl(seed):
    """The expected gradients: 0, ∇KL(π‖π_ref), ∇KL(π_ref‖π)."""
    logits, ref_logits = two_categoricals(seed)
    q = oracle.softmax(ref_logits.tolist())
    forward = slopes(lambda p: plain_kl(p, q), logits.tolist())
    backward = slopes(lambda p: plain_kl(q, p), logits.tolist())
    found = {name: torch.autograd.grad(expectation(name, logits, ref_logits), logits)[0] for name in KL}
    torch.testing.assert_close(found["k1"], torch.zeros(5))
    torch.testing.assert_close(found["k2"], forward)
    torch.testing.assert_close(found["k3"], backward)
    assert not torch.allclose(forward, backward)


@seeds
def test_k2_and_k3_are_never_negative_and_k1_is(seed):
    logits, ref_logits = two_categoricals(seed, 50)
    log_p, log_q = logits.log_softmax(-1), ref_logits.log_softmax(-1)
    assert (kl.k2(log_p, log_q) >= 0).all()
    assert (kl.k3(log_p, log_q) >= 0).all()
    assert (kl.k1(log_p, log_q) < 0).any()


@pytest.mark.parametrize("name", KL)
def test_two_equal_policies_have_an_estimate_of_exactly_zero(name):
    log_probs = torch.tensor([[-0.1, -2.3]], dtype=torch.float32)
    assert (KL[name](log_probs, log_probs.clone()) == 0).all()


def test_k3_keeps_its_digits_when_the_policies_are_close():
    """r − 1 − log r ≈ ½(log r)² = 5e-13; in float32, exp and then − 1 would leave noise of 1e-8."""
    near = kl.k3(torch.tensor([0.0], dtype=torch.float32), torch.tensor([-1e-3], dtype=torch.float32))
    torch.testing.assert_close(near, torch.tensor([math.expm1(-1e-3) + 1e-3], dtype=torch.float32), rtol=2e-4, atol=0)


@pytest.mark.parametrize("shape", [(5,), (2, 5), (2, 3, 4, 5)])
def test_exact_kl_equals_that_of_torch_distributions(shape):
    generator = torch.Generator().manual_seed(0)
    logits, ref_logits = torch.randn(2, *shape, generator=generator)
    expected = kl_divergence(Categorical(logits=logits), Categorical(logits=ref_logits))
    torch.testing.assert_close(kl.exact(logits, ref_logits), expected)


def test_exact_kl_takes_tokens_that_are_never_picked():
    """A logit of −inf adds 0 to the sum, also where both policies have it, and leaves the gradient finite."""
    logits = torch.tensor([[1.0, -torch.inf, 0.5, -torch.inf]], requires_grad=True)
    ref_logits = torch.tensor([[0.2, 0.3, 0.1, -torch.inf]], requires_grad=True)
    p = oracle.softmax([1.0, 0.5])
    q = oracle.softmax([0.2, 0.3, 0.1])
    found = kl.exact(logits, ref_logits)
    torch.testing.assert_close(found, torch.tensor([plain_kl(p, [q[0], q[2]])]))
    found.sum().backward()
    expected = slopes(lambda p: plain_kl(p, [q[0], q[2]]), [1.0, 0.5])
    torch.testing.assert_close(logits.grad, torch.tensor([[expected[0], 0.0, expected[1], 0.0]]))
    assert ref_logits.grad.isfinite().all()


def test_exact_kl_is_infinite_where_the_reference_lacks_support():
    assert kl.exact(torch.zeros(1, 2), torch.tensor([[0.0, -torch.inf]])).tolist() == [math.inf]


def test_exact_kl_does_not_depend_on_the_level_of_logits():
    logits, ref_logits = two_categoricals(0)
    torch.testing.assert_close(kl.exact(logits + 7, ref_logits - 2), kl.exact(logits, ref_logits))
