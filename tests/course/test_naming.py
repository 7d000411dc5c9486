"""A known mistake keeps its name beside another one that concerns gradients alone."""

import torch

from minirl.course.a3 import QUESTIONS
from minirl.course.check import judge

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
    verdict = judge(DPO, lambda *inputs: dpo(*inputs).detach())
    assert verdict.status == "wrong" and verdict.mistake is None and "gradient" in verdict.message
