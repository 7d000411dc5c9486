"""A known mistake keeps its name beside another one that concerns gradients alone."""

import pytest
import torch

from minirl.course.a3 import QUESTIONS
from minirl.course.check import find, judge

DPO = QUESTIONS["a3.q5"]


def dpo(chosen, rejected, ref_chosen, ref_rejected, beta, *, sign=1):
    margin = (chosen - ref_chosen) - (rejected - ref_rejected)
    return -torch.nn.functional.logsigmoid(sign * beta * margin)


def test_the_missing_detach_is_named_where_it_is_all():
    assert "left in the graph" in judge(DPO, dpo).mistake


def test_what_else_is_wrong_comes_first():
    verdict = judge(DPO, lambda *inputs: dpo(*inputs, sign=-1))
    assert verdict.status == "wrong" and "changed places" in verdict.mistake


def test_a_known_value_with_an_unknown_gradient_is_no_known_mistake():
    verdict = judge(DPO, lambda chosen, *others: dpo(chosen.detach(), *others))
    assert verdict.status == "wrong" and verdict.mistake is None and "gradient" in verdict.message


def centred(rewards):
    return rewards - rewards.mean(-1, keepdim=True)


def ratio(log_probs, old_log_probs):
    return (log_probs - old_log_probs.detach()).exp()


SLIPS = {
    "a2.q1b": (lambda r: -centred(r) * r.shape[1] / (r.shape[1] - 1), "sign is turned round"),
    "a2.q4c": (lambda now, ref: ((now - ref) ** 2 / 2).sum(-1), "add up along the last axis"),
    "a2.q2": (lambda now, old: ratio(now, old).mean(-1), "take the mean along the last axis"),
    "a2.q4a": (lambda now, ref: (now - ref).sum(), "add everything up"),
    "a2.q4b": (lambda now, ref: ((ref - now).exp() - 1 + now - ref).mean(), "take the mean of everything"),
    "a1.q1": (
        lambda logits, tokens: torch.distributions.Categorical(logits=logits[:, None]).log_prob(tokens).detach(),
        "gradient is cut off",
    ),
}


@pytest.mark.parametrize("name, slip", SLIPS.items(), ids=SLIPS)
def test_what_any_right_answer_can_be_spoilt_by_is_named_everywhere(name, slip):
    answer, words = slip
    verdict = judge(find(name), answer)
    assert verdict.status == "wrong" and words in verdict.mistake
