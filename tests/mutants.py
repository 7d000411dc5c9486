"""Wrong versions of the package, one small change each, and the test that must notice.

A mutant is killed when that test fails by its own assertion: an import error, a crash or a wrong shape does not count.
The change is made in a copy of the package, which the test then imports in a process of its own. Each `original` stands
in its module exactly once, so a list that no longer fits the code is noticed too.
The verifier's are in `llm/test_verify.py`, those of what lies beyond the core in `mutants_beyond.py`.
"""

import contextlib
import io
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest
from mutants_beyond import BEYOND_BY_MODULE_AND_TEST

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "minirl"


class Mutant(NamedTuple):
    module: str
    killed_by: str  # the test that must fail
    what: str  # is wrong
    original: str
    mutated: str


MUTANTS_BY_MODULE_AND_TEST = {
    "deltas": {
        "test_deltas.py::test_each_delta_equals_its_formula_in_plain_python": [
            ("raw has the wrong sign", "return rewards", "return -rewards"),
            ("centered averages over the batch", "relative.mean(-1, keepdim=True)", "relative.mean()"),
            ("normalized has the std of the batch", "rewards.std(-1, keepdim=True)", "rewards.std()"),
        ],
        "test_deltas.py::test_a_group_that_fits_in_the_head": [
            ("max_only keeps the worst", "amax(", "amin("),
            ("max_only pays 1", "keepdim=True), rewards, 0)", "keepdim=True), 1.0, 0)"),
            (
                "centered has the wrong sign",
                "relative - relative.mean(-1, keepdim=True)",
                "relative.mean(-1, keepdim=True) - relative",
            ),
            (
                "leave_one_out turned upside down",
                "rewards.shape[-1] / (rewards.shape[-1] - 1)",
                "(rewards.shape[-1] - 1) / rewards.shape[-1]",
            ),
        ],
        "test_deltas.py::test_a_group_knows_nothing_of_the_others": [
            ("max_only looks across prompts", "amax(-1", "amax(0"),
            ("centered averages over prompts", "relative.mean(-1, keepdim=True)", "relative.mean(0, keepdim=True)"),
        ],
        "test_deltas.py::test_without_a_comparison_a_tied_group_keeps_its_rewards": [
            (
                "max_only breaks ties",
                "rewards == rewards.amax(-1, keepdim=True)",
                "torch.nn.functional.one_hot(rewards.argmax(-1), rewards.shape[-1]) == 1",
            ),
        ],
        "test_gradients.py::test_centered_shrinks_the_policy_gradient_by_one_part_in_g": [
            (
                "centered takes the median",
                "relative.mean(-1, keepdim=True)",
                "relative.median(-1, keepdim=True).values",
            ),
        ],
        "test_deltas.py::test_a_tied_group_gives_exactly_zero": [
            ("a tie leaves float dust", "rewards - rewards[..., :1]", "rewards"),
            ("normalized lacks ε", " + eps)", ")"),
        ],
        "test_deltas.py::test_a_group_of_one_is_refused_with_a_sentence": [
            ("a group of one passes", "rewards.shape[-1] < 2", "rewards.shape[-1] < 1"),
        ],
        "test_gradients.py::test_unbiased_deltas_give_the_policy_gradient": [
            ("leave_one_out is only centered", " * rewards.shape[-1] / (rewards.shape[-1] - 1)", ""),
        ],
        "test_deltas.py::test_leave_one_out_is_centered_times_g_over_g_minus_1": [
            (
                "leave_one_out counts prompts for responses",
                "rewards.shape[-1] / (rewards.shape[-1] - 1)",
                "rewards.shape[0] / (rewards.shape[0] - 1)",
            ),
        ],
        "test_gradients.py::test_normalized_climbs_the_standardised_reward": [
            (
                "normalized has the biased std",
                "rewards.std(-1, keepdim=True)",
                "rewards.std(-1, keepdim=True, correction=0)",
            ),
        ],
        "test_deltas.py::test_a_shift_of_rewards_changes_nothing_and_a_scale_only_where_it_should": [
            ("normalized divides by the variance", "rewards.std(", "rewards.var("),
        ],
        "test_deltas.py::test_the_deltas_of_a_group_sum_to_zero": [
            ("normalized does not centre", "return centered(rewards) / (", "return rewards / ("),
        ],
    },
    "losses": {
        "test_losses.py::test_a_step_down_the_loss_makes_the_better_answer_likelier": [
            ("naive has the wrong sign", "-spread(deltas) * log_probs", "spread(deltas) * log_probs"),
            (
                "the ratio is a quotient of logs",
                "(log_probs - old_log_probs.detach()).exp()",
                "log_probs / old_log_probs.detach()",
            ),
            (
                "the new log-probs are frozen instead",
                "log_probs - old_log_probs.detach()",
                "log_probs.detach() - old_log_probs",
            ),
        ],
        "test_losses.py::test_a_delta_belongs_to_one_response_and_covers_all_its_tokens": [
            ("naive puts deltas on tokens", "-spread(deltas) * log_probs", "-deltas[:, None] * log_probs"),
        ],
        "test_losses.py::test_the_ratio_is_the_exp_of_a_difference_not_a_quotient_of_logs": [
            ("the ratio lacks exp", "old_log_probs.detach()).exp()", "old_log_probs.detach())"),
        ],
        "test_gradients.py::test_unclipped_is_unbiased_off_policy_for_the_importance_weighted_objective": [
            (
                "the ratio is upside down",
                "(log_probs - old_log_probs.detach())",
                "(old_log_probs.detach() - log_probs)",
            ),
        ],
        "test_losses.py::test_the_old_log_probs_are_frozen": [
            ("old log-probs stay in the graph", "old_log_probs.detach()", "old_log_probs"),
        ],
        "test_gradients.py::test_unbiased_deltas_give_the_policy_gradient": [
            ("unclipped has the wrong sign", "-probability_ratio(", "probability_ratio("),
            ("clipped has the wrong sign", "losses = -(ratio * deltas)", "losses = (ratio * deltas)"),
        ],
        "test_losses.py::test_clipped_is_right_at_points_on_every_side": [
            ("clipped has max for min", "(ratio * deltas).minimum(", "(ratio * deltas).maximum("),
            (
                "clipped has max for min where δ < 0",
                "-(ratio * deltas).minimum(ratio.clamp(1 - clip_low, 1 + clip_high) * deltas)",
                "-ratio.minimum(ratio.clamp(1 - clip_low, 1 + clip_high)) * deltas",
            ),
            ("clipped has the epsilons swapped", "1 - clip_low, 1 + clip_high", "1 - clip_high, 1 + clip_low"),
            ("clipped never clips below", "clamp(1 - clip_low, 1 + clip_high)", "clamp(max=1 + clip_high)"),
            ("clipped never clips above", "clamp(1 - clip_low, 1 + clip_high)", "clamp(min=1 - clip_low)"),
        ],
        "test_losses.py::test_clipped_is_a_bound_on_the_side_of_caution": [
            (
                "clipped only clamps",
                "(ratio * deltas).minimum(ratio.clamp(1 - clip_low, 1 + clip_high) * deltas)",
                "(ratio.clamp(1 - clip_low, 1 + clip_high) * deltas)",
            ),
        ],
        "test_losses.py::test_clipped_clips_at_a_fifth_by_default_on_both_sides": [
            ("clipped defaults to clip-higher", "clip_high: float = 0.2", "clip_high: float = 0.28"),
        ],
        "test_gradients.py::test_sequence_weights_climb_reward_per_token": [
            ("sequence weights divide by T", "mask.sum(-1, keepdim=True).clamp(min=1)", "mask.shape[2]"),
        ],
        "test_losses.py::test_token_weights_sum_to_what_they_say": [
            ("sequence weights sum over the group", "float(mask.shape[0] * mask.shape[1])", "float(mask.shape[0])"),
            ("token weights count padding", "mask.sum().clamp(min=1)", "mask.numel()"),
        ],
        "test_losses.py::test_token_weights_equal_their_definition": [
            ("an empty response is not counted", "float(mask.shape[0] * mask.shape[1])", "mask.any(-1).sum()"),
            ("an empty response gives NaN", "mask.sum(-1, keepdim=True).clamp(min=1)", "mask.sum(-1, keepdim=True)"),
            ("the constant is ignored", "constant or mask.shape[2]", "mask.shape[2]"),
            ("padding has weight", "return mask / ", "return (mask | ~mask) / "),
        ],
        "test_losses.py::test_every_nonempty_response_weighs_the_same_by_sequence_and_every_token_by_token": [
            (
                "token weights are set for each prompt",
                "mask.sum().clamp(min=1)",
                "mask.sum((1, 2), keepdim=True).clamp(min=1) * mask.shape[0]",
            ),
        ],
        "test_losses.py::test_a_constant_that_is_not_positive_is_refused": [
            ("any constant passes", "not constant > 0", "constant == 0"),
        ],
    },
    "objective": {
        "test_train.py::test_inner_steps_reuse_responses_and_old_log_probs": [
            ("old log-probs follow the policy", "old, clip = rollout.old_log_probs,", "old, clip = log_probs,"),
        ],
        "test_train.py::test_each_epsilon_of_the_config_acts_on_its_own_side": [
            (
                "the epsilons are swapped on the way",
                "rollout.old_log_probs, (config.clip_low, config.clip_high)",
                "rollout.old_log_probs, (config.clip_high, config.clip_low)",
            ),
        ],
        "test_train.py::test_the_kl_in_the_loss_is_added_token_by_token_before_the_weights": [
            ("KL is paid for in the loss", "losses + config.beta *", "losses - config.beta *"),
            (
                "KL in the loss compares with the old policy",
                "KL[config.kl](log_probs, rollout.ref_log_probs)",
                "KL[config.kl](log_probs, rollout.old_log_probs)",
            ),
            (
                "KL is summed while the loss is averaged",
                "config.beta * KL[config.kl](log_probs, rollout.ref_log_probs)",
                "config.beta * KL[config.kl](log_probs, rollout.ref_log_probs).sum(-1, keepdim=True).expand_as(losses)",
            ),
        ],
        "test_train.py::test_kl_in_the_loss_has_the_gradient_of_its_estimator": [
            (
                "KL is turned round in the loss",
                "KL[config.kl](log_probs, rollout.ref_log_probs)",
                "KL[config.kl](rollout.ref_log_probs, log_probs)",
            ),
        ],
        "test_train.py::test_other_estimators_in_the_reward_are_subtracted_too": [
            ("KL is in the loss and in the reward", 'if config.beta and config.kl_in == "loss":', "if config.beta:"),
        ],
        "test_train.py::test_a_response_with_delta_0_is_scored_again_only_for_the_kl_in_the_loss": [
            ("a KL in the loss skips responses", ' or (config.beta and config.kl_in == "loss")', ""),
            ("a KL in the reward scores them all", '(config.beta and config.kl_in == "loss")', "config.beta"),
        ],
        "test_train.py::test_update_returns_the_loss_the_norm_and_the_log_probs_before_the_step": [
            ("what has a signal is silent", "(moved == 0).all(", "(moved != 0).all("),
        ],
    },
    "kl": {
        "test_kl.py::test_as_values_k1_and_k3_are_unbiased_and_k2_is_not": [
            ("k1 has the wrong sign", "return log_probs - ref_log_probs", "return ref_log_probs - log_probs"),
            (
                "k3 has π/π_ref for r",
                "torch.expm1(ref_log_probs - log_probs) - (ref_log_probs - log_probs)",
                "torch.expm1(log_probs - ref_log_probs) - (log_probs - ref_log_probs)",
            ),
        ],
        "test_kl.py::test_as_losses_k1_does_nothing_k2_is_right_and_k3_pulls_the_other_kl": [
            ("k2 lacks the half", "** 2 / 2", "** 2"),
        ],
        "test_kl.py::test_each_estimator_equals_its_formula": [
            ("k2 is not squared", "(ref_log_probs - log_probs) ** 2 / 2", "(ref_log_probs - log_probs).abs() / 2"),
        ],
        "test_kl.py::test_k2_and_k3_are_never_negative_and_k1_is": [
            ("k3 adds log r", " - (ref_log_probs - log_probs)", " + (ref_log_probs - log_probs)"),
        ],
        "test_kl.py::test_two_equal_policies_have_an_estimate_of_exactly_zero": [
            ("k3 lacks the −1", "torch.expm1(", "torch.exp("),
        ],
        "test_kl.py::test_k3_keeps_its_digits_when_the_policies_are_close": [
            ("k3 loses its digits", "torch.expm1(ref_log_probs - log_probs)", "(ref_log_probs - log_probs).exp() - 1"),
        ],
        "test_kl.py::test_exact_kl_equals_that_of_torch_distributions": [
            (
                "exact is the other KL",
                "log_p, log_q = logits.log_softmax(-1), ref_logits.log_softmax(-1)",
                "log_q, log_p = logits.log_softmax(-1), ref_logits.log_softmax(-1)",
            ),
            ("exact weighs by the reference", "(log_p.exp() * (log_p - log_q)", "(log_q.exp() * (log_p - log_q)"),
        ],
        "test_kl.py::test_exact_kl_does_not_depend_on_the_level_of_logits": [
            (
                "exact takes logits for log-probs",
                "= logits.log_softmax(-1), ref_logits.log_softmax(-1)",
                "= logits, ref_logits",
            ),
        ],
        "test_kl.py::test_exact_kl_takes_tokens_that_are_never_picked": [
            ("exact is NaN at probability 0", ".masked_fill(log_p == -torch.inf, 0)", ""),
        ],
    },
    "rollout": {
        "test_rollout.py::test_the_mask_includes_the_first_end_token_and_nothing_after_it": [
            ("the end token is masked out", "ends.cumsum(-1) - ends == 0", "ends.cumsum(-1) == 0"),
            ("the mask goes on after the end", "ends.cumsum(-1) - ends == 0", "ends.cumsum(-1) <= 1"),
            ("the mask starts late", "ends.cumsum(-1) - ends == 0", "(ends.cumsum(-1) - ends == 0).roll(1, -1)"),
        ],
        "test_rollout.py::test_an_end_token_of_zero_is_one_like_any_other": [
            ("an end token of 0 is none", "if end_token is None", "if not end_token"),
        ],
        "test_rollout.py::test_a_rollout_has_the_shapes_batch_group_token_and_no_graph": [
            ("a rollout keeps its graph", "@torch.no_grad()\ndef collect", "def collect"),
        ],
        "test_rollout.py::test_collect_keeps_what_was_true_at_sampling": [
            ("the reference is the policy", "else reference.log_probs(", "else policy.log_probs("),
            (
                "the generator is not used",
                "policy.sample(batch.prompts, group_size, generator)",
                "policy.sample(batch.prompts, group_size)",
            ),
        ],
        "test_rollout.py::test_rows_of_a_rollout_are_those_of_each_of_its_tensors": [
            ("rows takes the first ones", "value[index]", "value[: len(index)]"),
        ],
        "test_rollout.py::test_an_empty_group_is_refused": [
            ("an empty group passes", "if group_size < 1:", "if group_size < 0:"),
        ],
    },
    "policy": {
        "test_policy.py::test_log_probs_equal_the_formula_in_plain_python": [
            (
                "log-probs are logits",
                "log_softmax(-1).expand(",
                "clone().expand(",
            ),
            (
                "log-probs are normalised over tokens",
                "log_softmax(-1).expand(",
                "log_softmax(-2).expand(",
            ),
        ],
        "test_policy.py::test_scores_are_zero_where_the_mask_is_false": [
            ("log-probs ignore the mask", "squeeze(-1).masked_fill(~mask, 0)", "squeeze(-1)"),
            ("log-probs mask what counts", "squeeze(-1).masked_fill(~mask, 0)", "squeeze(-1).masked_fill(mask, 0)"),
            ("entropy counts padding", "sum(-1).masked_fill(~mask, 0)", "sum(-1).masked_fill(~mask, 0.5)"),
        ],
        "test_policy.py::test_entropy_does_not_depend_on_what_was_sampled": [
            (
                "entropy is sampled",
                "torch.special.entr(probs).sum(-1)",
                "-probs.log().expand(-1, responses.shape[1], -1, -1).gather(-1, responses[..., None]).squeeze(-1)",
            ),
        ],
        "test_policy.py::test_entropy_is_that_of_torch_distributions": [
            ("entropy has the wrong sign", "torch.special.entr(probs).sum(-1)", "-torch.special.entr(probs).sum(-1)"),
            (
                "entropy is divided by the vocabulary",
                "torch.special.entr(probs).sum(-1)",
                "torch.special.entr(probs).mean(-1)",
            ),
        ],
        "test_policy.py::test_logits_equal_the_formula_in_plain_python": [
            (
                "encoding is transposed",
                "batch source i, source i j -> batch j",
                "batch source i, source j i -> batch j",
            ),
            (
                "decoding is transposed",
                "batch i, target i j -> batch target j",
                "batch i, target j i -> batch target j",
            ),
        ],
        "test_policy.py::test_init_scale_scales_the_logits_and_nothing_else": [
            ("init_scale is not applied", " / dim**0.5 * init_scale", " / dim**0.5"),
        ],
        "test_policy.py::test_the_matrices_keep_the_size_of_what_they_multiply": [
            ("the start is not scaled down by the dimension", " / dim**0.5 * init_scale", " * init_scale"),
        ],
        "test_policy.py::test_samples_have_the_frequencies_of_the_probabilities": [
            (
                "samples at another temperature than it scores",
                "logits.softmax(-1), group_size",
                "(logits / 0.8).softmax(-1), group_size",
            ),
            (
                "samples of one prompt go to another",
                '"batch token vocab -> (batch token) vocab"',
                '"batch token vocab -> (token batch) vocab"',
            ),
        ],
        "test_policy.py::test_samples_are_the_generators_choice": [
            ("samples ignore the generator", "replacement=True, generator=generator", "replacement=True"),
        ],
        "test_policy.py::test_greedy_takes_the_likeliest_token_of_every_position": [
            ("greedy takes the unlikeliest", ".argmax(-1)", ".argmin(-1)"),
        ],
        "test_policy.py::test_a_policy_is_the_same_for_the_same_seed_and_leaves_the_global_one_alone": [
            ("the seed is ignored", "None if seed is None else torch.Generator().manual_seed(seed)", "None"),
        ],
    },
    "sorting": {
        "test_sorting.py::test_too_many_or_no_sequences_are_refused": [
            ("no sequences at all pass", "if vocab_size < 1 or length < 1 or vocab_size", "if vocab_size"),
        ],
        "test_sorting.py::test_the_lectures_values": [
            ("exact forgives one position", ".eq(prompts.shape[1])", ".ge(prompts.shape[1] - 1)"),
            ("position match compares with the prompt", "prompts.sort(-1).values[:, None])", "prompts[:, None])"),
            ("inclusion counts pairs", ".any(-1).sum(-1)", ".sum((-2, -1))"),
            (
                "ordering is strict",
                "responses[..., :-1] <= responses[..., 1:]",
                "responses[..., :-1] < responses[..., 1:]",
            ),
            (
                "ordering goes downwards",
                "responses[..., :-1] <= responses[..., 1:]",
                "responses[..., :-1] >= responses[..., 1:]",
            ),
        ],
        "test_sorting.py::test_rewards_equal_loops_for_any_vocabulary_and_length": [
            (
                "position match sorts downwards",
                "prompts.sort(-1).values[:, None])",
                "prompts.sort(-1, descending=True).values[:, None])",
            ),
            ("inclusion counts response tokens", ".any(-1).sum(-1)", ".any(-2).sum(-1)"),
        ],
        "test_sorting.py::test_the_split_is_disjoint_and_covers_every_prompt_once": [
            ("training sees held-out prompts", "pool[order[num_test:]]", "pool[order]"),
            ("held-out is training", "pool[order[:num_test]] if num_test", "pool[order[num_test:]] if num_test"),
        ],
        "test_sorting.py::test_the_split_depends_on_its_seed_only": [
            ("the split ignores its seed", "torch.Generator().manual_seed(seed)", "torch.Generator()"),
        ],
        "test_sorting.py::test_the_held_out_prompts_are_not_the_first_in_order": [
            (
                "the split is in order",
                "order = torch.randperm(len(pool), generator=torch.Generator().manual_seed(seed))",
                "order = torch.arange(len(pool))",
            ),
        ],
        "test_sorting.py::test_a_sample_has_different_training_prompts_and_their_sorted_answers": [
            (
                "a sample is always the same",
                "generator=generator)[:batch_size]",
                "generator=torch.Generator())[:batch_size]",
            ),
            (
                "a sample repeats prompts",
                "torch.randperm(most, generator=generator)[:batch_size]",
                "torch.randint(most, (batch_size,), generator=generator)",
            ),
        ],
        "test_sorting.py::test_the_task_pays_by_its_reward_and_judges_by_exact_match": [
            (
                "judged by the reward",
                "return exact_match(batch.prompts, responses)",
                "return self.reward(batch.prompts, responses)",
            ),
            (
                "paid by exact match",
                "return self.reward(batch.prompts, responses)",
                "return exact_match(batch.prompts, responses)",
            ),
        ],
    },
    "exact": {
        "test_exact.py::test_every_response_is_listed_once_in_order": [
            (
                "responses are listed more than once",
                "return every[(response_mask(every, end_token) | (every == end_token)).all(-1)]",
                "return every",
            ),
        ],
        "test_exact.py::test_the_distribution_is_that_of_loops_and_sums_to_one": [
            (
                "log-probs are averaged over tokens",
                "response_mask(every, policy.end_token)).sum(-1)",
                "response_mask(every, policy.end_token)).mean(-1)",
            ),
            (
                "the distribution goes on after the end",
                "policy.log_probs(prompts, every, response_mask(every, policy.end_token))",
                "policy.log_probs(prompts, every, response_mask(every, None))",
            ),
        ],
        "test_exact.py::test_expected_reward_is_a_sum_over_every_response": [
            (
                "expected reward lacks exp",
                "(log_probs.exp() * reward(prompts, every))",
                "(log_probs * reward(prompts, every))",
            ),
            (
                "expected reward is a plain mean",
                "(log_probs.exp() * reward(prompts, every)).sum(-1)",
                "reward(prompts, every).double().mean(-1)",
            ),
        ],
        "test_exact.py::test_kl_and_its_gradients_in_both_policies": [
            (
                "KL is the other one",
                "(log_p.exp() * (log_p - log_q).masked_fill(log_p == -torch.inf, 0)).sum(-1)",
                "(log_q.exp() * (log_q - log_p)).sum(-1)",
            ),
            (
                "KL weighs by the reference",
                "(log_p.exp() * (log_p - log_q).masked_fill(log_p == -torch.inf, 0)).sum(-1)",
                "(log_q.exp() * (log_p - log_q).masked_fill(log_p == -torch.inf, 0)).sum(-1)",
            ),
            (
                "KL forgets that its weights move",
                "(log_p.exp() * (log_p - log_q).masked_fill(log_p == -torch.inf, 0)).sum(-1)",
                "(log_p.exp().detach() * (log_p - log_q).masked_fill(log_p == -torch.inf, 0)).sum(-1)",
            ),
        ],
        "test_exact.py::test_gradient_is_the_derivative_of_the_mean_expected_reward": [
            ("the gradient is summed over prompts", "reward).mean()[None]", "reward).sum()[None]"),
        ],
        "test_exact.py::test_gradients_beyond_one_chunk_are_each_their_own": [
            (
                "each chunk is the first one",
                "pick = one_hot(rows, len(values))",
                "pick = one_hot(rows % 64, len(values))",
            ),
        ],
        "test_exact.py::test_moments_of_any_estimator_are_sums_over_every_ordered_group": [
            (
                "covariance is not centred",
                "(probs * (values - mean)).T @ (values - mean)",
                "(probs * values).T @ values",
            ),
            (
                "covariance is not weighted",
                "(probs * (values - mean)).T @ (values - mean)",
                "(values - mean).T @ (values - mean) / len(values)",
            ),
        ],
        "test_exact.py::test_an_estimators_arguments_are_every_group_as_rows": [
            (
                "groups have the probability of one response",
                "log_probs[0].detach()[groups].sum(-1, keepdim=True)",
                "log_probs[0].detach()[groups].mean(-1, keepdim=True)",
            ),
            (
                "an estimator sees no end",
                "response_mask(drawn, policy.end_token)).detach()",
                "response_mask(drawn, None)).detach()",
            ),
        ],
        "test_exact.py::test_moments_carry_no_graph": [
            (
                "moments keep a graph",
                "response_mask(drawn, policy.end_token)).detach()",
                "response_mask(drawn, policy.end_token))",
            ),
        ],
    },
    "metrics": {
        "test_metrics.py::test_a_token_mean_counts_only_what_the_mask_lets_through": [
            ("a token mean counts padding", "(values * rollout.mask).sum()", "values.sum()"),
        ],
        "test_metrics.py::test_entropy_is_the_real_one_averaged_over_tokens_once": [
            ("a token mean divides by padding too", "max(rollout.mask.sum().item(), 1)", "rollout.mask.numel()"),
            (
                "entropy is the surprise of the sample",
                "token_mean(rollout.entropy, rollout)",
                "token_mean(-old, rollout)",
            ),
        ],
        "test_metrics.py::test_the_spread_of_rewards_is_that_within_groups": [
            ("the spread is that of the batch", "rewards.std(-1).mean()", "rewards.std()"),
        ],
        "test_metrics.py::test_rewards_and_lengths_are_described_as_they_are": [
            (
                "the length is that of the tensor",
                "rollout.mask.sum(-1).float().mean()",
                "(rollout.mask | ~rollout.mask).sum(-1).float().mean()",
            ),
        ],
        "test_metrics.py::test_kl_is_estimated_per_token_by_k1_and_k3": [
            ("k1 is turned round", "k1(old, ref)", "k1(ref, old)"),
            ("k3 is turned round", "k3(old, ref)", "k3(ref, old)"),
        ],
        "test_metrics.py::test_clip_shares_count_tokens_whose_gradient_is_cut": [
            ("clipped below counts the other sign", "(sign < 0)", "(sign > 0)"),
            ("clipped above counts any sign", " & (sign > 0)", ""),
            ("clip shares have the epsilons swapped", "ratio < 1 - clip_low", "ratio < 1 - clip_high"),
        ],
        "test_metrics.py::test_a_group_without_signal_has_only_zero_deltas": [
            (
                "one zero makes a group without signal",
                "(deltas == 0).flatten(1).all(-1)",
                "(deltas == 0).flatten(1).any(-1)",
            ),
        ],
        "test_metrics.py::test_evaluation_leaves_the_global_random_numbers_alone": [
            ("evaluation uses the global random numbers", "torch.Generator().manual_seed(seed))", "None)"),
        ],
        "test_metrics.py::test_held_out_accuracy_is_that_of_samples_and_of_greedy": [
            ("accuracy is the reward", 'getattr(task, "correct", task.rewards)', "task.rewards"),
            ("greedy is sampled", "*policy.greedy(batch.prompts)", "*policy.sample(batch.prompts, 1)"),
        ],
        "test_metrics.py::test_a_number_that_is_not_finite_stops_with_its_place_name_and_cause": [
            ("one finite tensor is enough", "not all(tensor.isfinite()", "not any(tensor.isfinite()"),
            ("infinity passes", "tensor.isfinite().all()", "(~tensor.isnan()).all()"),
        ],
    },
    "train": {
        "test_train.py::test_a_response_with_delta_0_is_scored_again_only_for_the_kl_in_the_loss": [
            ("every response is scored", "live = part.mask & ~skipped[rows]", "live = part.mask"),
        ],
        "test_train.py::test_update_returns_the_loss_the_norm_and_the_log_probs_before_the_step": [
            ("what was not scored has probability 1", " + part.old_log_probs.masked_fill(live, 0)", ""),
            ("the loss is a mean over the tensor", "* weights[rows]).sum()", "* weights[rows]).mean()"),
        ],
        "test_train.py::test_a_batch_without_signal_leaves_adam_its_momentum": [
            ("a batch without signal stops Adam", "zero_grad(set_to_none=False)", "zero_grad()"),
            (
                "a first batch without signal is no step",
                "torch.zeros_like(weight) if weight.requires_grad else None",
                "None",
            ),
        ],
        "test_checkpoint.py::test_a_weight_that_does_not_learn_has_no_moments_and_does_not_stop_a_resume": [
            ("a frozen weight gets moments", " if weight.requires_grad else None", ""),
        ],
        "test_train.py::test_inner_steps_reuse_responses_and_old_log_probs": [
            ("climbs the loss", "loss = (token_losses(", "loss = -(token_losses("),
            ("gradients pile up", "    optimizer.zero_grad(set_to_none=False)\n", ""),
            ("an inner step is lost", "range(1, config.inner_steps + 1)", "range(1, max(config.inner_steps, 2))"),
        ],
        "test_train.py::test_any_split_into_micro_batches_gives_the_gradient_of_the_whole": [
            (
                "weights are set for each micro-batch",
                "* weights[rows]).sum()",
                "* token_weights(part.mask, config.aggregation, config.constant)).sum()",
            ),
            (
                "a mean of micro-batch means",
                "* weights[rows]).sum()",
                "* token_weights(part.mask, config.aggregation) * len(rows) / len(weights)).sum()",
            ),
            ("micro-batches take the first deltas", "deltas[rows]", "deltas[: len(rows)]"),
            (
                "only the last micro-batch counts",
                "        loss.backward()",
                "        optimizer.zero_grad()\n        loss.backward()",
            ),
            ("only the last micro-batch is reported", "total + loss.item()", "loss.item()"),
        ],
        "test_train.py::test_the_gradient_is_cut_to_its_greatest_norm_and_reported_as_it_was": [
            ("the gradient is never cut", "config.max_grad_norm or torch.inf", "torch.inf"),
        ],
        "test_train.py::test_the_metrics_count_clipping_with_the_epsilons_of_the_config": [
            (
                "the metrics have the epsilons swapped",
                "deltas, config.clip_low, config.clip_high)",
                "deltas, config.clip_high, config.clip_low)",
            ),
        ],
        "test_train.py::test_k1_in_the_reward_descends_the_kl_of_whole_responses": [
            ("KL is paid for in the reward", "rewards - price.sum(-1)", "rewards + price.sum(-1)"),
            ("KL is averaged in the reward", "price.sum(-1)", "price.mean(-1)"),
        ],
        "test_train.py::test_the_kl_in_the_reward_comes_before_the_deltas": [
            (
                "KL comes after the deltas",
                "DELTAS[config.delta](rollout.rewards - price.sum(-1))",
                "DELTAS[config.delta](rollout.rewards) - price.sum(-1)",
            ),
        ],
        "test_train.py::test_the_reference_is_refreshed_exactly_every_so_many_epochs": [
            ("the reference is never refreshed", "state.reference.load_state_dict(policy.state_dict())", "pass"),
            (
                "the reference is refreshed an epoch late",
                "state.epoch % config.reference_every == 0",
                "state.epoch % config.reference_every == 1",
            ),
            ("the reference is refreshed every epoch", "state.epoch % config.reference_every == 0", "True"),
        ],
        "test_train.py::test_a_reference_that_is_never_refreshed_is_the_policy_of_the_start": [
            ("the reference is the policy itself", "copy.deepcopy(reference).requires_grad_(False)", "reference"),
        ],
        "test_train.py::test_the_callers_reference_is_never_changed": [
            (
                "the reference shares its weights",
                "copy.deepcopy(reference).requires_grad_(False)",
                "copy.copy(reference)",
            ),
        ],
        "test_train.py::test_the_reference_is_a_frozen_copy": [
            (
                "the reference is not frozen",
                "copy.deepcopy(reference).requires_grad_(False)",
                "copy.deepcopy(reference)",
            ),
        ],
        "test_train.py::test_the_same_seed_is_the_same_run_and_another_is_not": [
            ("the seed is ignored", "manual_seed(config.seed)", "manual_seed(0)"),
        ],
        "test_train.py::test_a_run_that_was_stopped_and_resumed_is_the_run_that_went_on": [
            ("resuming starts anew", "state = resume_from or State(", "state = State("),
        ],
        "test_train.py::test_each_epoch_reports_every_metric_as_a_number": [
            ("the last epoch is not evaluated", " or state.epoch == config.epochs", ""),
        ],
        "test_train.py::test_a_ratio_that_overflows_stops_the_run": [
            ("a loss that is not finite passes", '        stop_if_not_finite(where, "loss", loss)\n', ""),
        ],
        "test_train.py::test_an_infinite_slope_stops_the_run": [
            ("a gradient that is not finite passes", '    stop_if_not_finite(where, "gradient", norm)\n', ""),
        ],
        "test_train.py::test_a_step_beyond_all_numbers_stops_the_run": [
            (
                "a weight that is not finite passes",
                '    stop_if_not_finite(where, "weight", *policy.parameters())\n',
                "",
            ),
        ],
        "test_train.py::test_weights_that_are_not_finite_stop_the_run_before_it_starts": [
            (
                "a start that is not finite passes",
                '        stop_if_not_finite("before training", "weight", *policy.parameters())\n',
                "",
            ),
        ],
    },
    "config": {
        "test_train.py::test_an_unknown_choice_is_refused_with_the_known_ones": [
            ("unknown choices pass", "value not in CHOICES[name]", "value in ()"),
        ],
        "test_train.py::test_a_setting_that_is_not_a_number_is_refused": [
            ("NaN passes as a setting", "not value >= least", "value < least"),
        ],
        "test_train.py::test_a_number_that_must_be_positive_is_refused_if_it_is_not": [
            ("zero passes as a setting", "else 1e-12", "else 0"),
        ],
    },
    "groups": {
        "test_train.py::test_every_epoch_samples_other_prompts_and_responses": [
            (
                "every epoch samples the same",
                "task.sample(config.batch_size, state.generator)",
                "task.sample(config.batch_size, state.generator.manual_seed(config.seed))",
            ),
        ],
    },
    "toy_language": {
        "test_toy_language.py::test_log_probs_equal_the_formula_in_plain_python_and_are_zero_outside_the_mask": [
            ("a token sees itself", "torch.cat([start, responses[..., :-1]], -1)", "responses"),
            (
                "the first token sees token 0",
                "torch.full_like(responses[..., :1], self.vocab_size)",
                "torch.zeros_like(responses[..., :1])",
            ),
        ],
        "test_toy_language.py::test_samples_have_the_frequencies_of_the_probabilities": [
            (
                "every step is the first",
                "self.logits(prompts, responses)[:, :, step]",
                "self.logits(prompts, responses)[:, :, 0]",
            ),
        ],
    },
    "experiments": {
        "test_experiments.py::test_the_interval_covers_95_percent_of_student_t": [
            ("intervals have the biased std", "ddof=1", "ddof=0"),
            ("intervals have one degree too many", "T_975[count - 2]", "T_975[min(count - 1, 29)]"),
            ("intervals are standard deviations", " / np.sqrt(count)", ""),
        ],
        "test_experiments.py::test_final_is_the_last_value_of_each_run": [
            ("final is the best", "curve(histories, name)[1][:, -1]", "curve(histories, name)[1].max(1)"),
        ],
        "test_experiments.py::test_each_seed_is_one_run_with_its_own_policy_and_random_numbers": [
            ("every seed is the same", '"seed": seed}', '"seed": config.seed}'),
        ],
    },
    "checkpoint": {
        "test_checkpoint.py::test_a_resumed_run_is_the_uninterrupted_one": [
            ("resuming starts at epoch 0", 'state.epoch = saved["epoch"]', "state.epoch = 0"),
            (
                "the generator starts anew",
                'state.generator.set_state(tensors["generator"])',
                "pass",
            ),
            (
                "Adam forgets its moments",
                '{"state": moments, "param_groups": optimizer',
                '{"state": {}, "param_groups": optimizer',
            ),
            (
                "the reference is the policy of today",
                "        _load_model(state.reference, reference)",
                "        pass",
            ),
            (
                "the policy is the reference",
                'save_model(policy, str(draft / "policy.safetensors"))',
                'save_model(state.reference, str(draft / "policy.safetensors"))',
            ),
            ("the oldest checkpoint is resumed", "return found[-1]", "return found[0]"),
        ],
        "test_checkpoint.py::test_pytorchs_own_random_numbers_go_on_too": [
            (
                "PyTorch's random numbers start anew",
                'torch.set_rng_state(tensors["torch_generator"])',
                "pass",
            ),
        ],
        "test_checkpoint.py::test_only_the_newest_are_kept": [
            ("one more is kept", "[: -max(1, keep)]", "[: -max(1, keep) - 1]"),
        ],
        "test_checkpoint.py::test_more_epochs_are_welcome_and_nothing_else_may_change": [
            ("other settings pass", "if ours[name] != theirs[name]", "if name not in theirs"),
        ],
        "test_checkpoint.py::test_what_was_left_unfinished_is_not_a_checkpoint_and_is_swept_away": [
            ("a draft stays", "        shutil.rmtree(unfinished)", "        pass"),
        ],
        "test_checkpoint.py::test_a_full_disk_leaves_the_last_good_checkpoint": [
            ("half a checkpoint stays", "        shutil.rmtree(draft, ignore_errors=True)", "        pass"),
        ],
    },
    "llm.policy": {
        "llm/test_language_policy.py::test_log_probs_and_entropy_equal_one_row_at_a_time": [
            ("the temperature is not applied", "truncate(logits / self.temperature,", "truncate(logits,"),
            (
                "the truncation is not applied",
                "truncate(logits / self.temperature, self.top_k, self.top_p)",
                "(logits / self.temperature)",
            ),
            ("log-softmax in half precision", ".log_softmax(-1)", ".bfloat16().log_softmax(-1).double()"),
            (
                "each token is predicted from itself",
                "torch.cat([first, later], 1)",
                "torch.cat([later, later[:, -1:]], 1)",
            ),
            (
                "responses count from their prompt's last place",
                "torch.arange(1, width + 1, device=self.device)",
                "torch.arange(width, device=self.device)",
            ),
            (
                "responses do not see themselves",
                "nn.functional.pad(seen[prompt], (0, int(width)), value=1)",
                "nn.functional.pad(seen[prompt], (0, int(width)), value=0)",
            ),
            ("rows go on from another prompt", "source[rows // group]", "source[rows // group].flip(0)"),
            ("the group is the outer axis", "source[rows // group]", "source[rows % len(prompts)]"),
            (
                "scores go to the first rows",
                "rows[row] * inside.shape[1] + step",
                "row * inside.shape[1] + step",
            ),
            (
                "entropy has the wrong sign",
                "torch.special.entr(log_probs.exp())",
                "-torch.special.entr(log_probs.exp())",
            ),
            (
                "entropy is divided by the vocabulary",
                "torch.special.entr(log_probs.exp()).sum(-1)",
                "torch.special.entr(log_probs.exp()).mean(-1)",
            ),
            (
                "the log-prob is that of another token",
                "log_probs.gather(-1, tokens[:, None])",
                "log_probs.gather(-1, tokens.roll(1)[:, None])",
            ),
        ],
        "llm/test_language_policy.py::test_padding_changes_nothing": [
            (
                "places are counted from the left edge",
                "places = (seen.cumsum(-1) - 1).clamp(min=0)",
                "places = torch.arange(seen.shape[1]).expand_as(seen)",
            ),
            (
                "the left padding is read",
                "input_ids=prompts, attention_mask=seen",
                "input_ids=prompts, attention_mask=torch.ones_like(seen)",
            ),
        ],
        "llm/test_language_policy.py::test_cached_log_probs_equal_scored_ones": [
            ("sampling stays in one place", "places, seen = places + 1,", "places, seen = places,"),
            (
                "sampling does not see itself",
                "nn.functional.pad(seen, (0, 1), value=1)",
                "nn.functional.pad(seen, (0, 1), value=0)",
            ),
        ],
        "llm/test_language_policy.py::test_fast_sampling_gives_the_tokens_of_plain_sampling": [
            (
                "the caches of the first rows go on",
                "cache.batch_select_indices(going)",
                "cache.batch_select_indices(torch.arange(len(going)))",
            ),
            (
                "caches are repeated in the order of groups",
                "cache.batch_repeat_interleave(group_size)",
                "cache.batch_select_indices(torch.arange(len(prompts)).repeat(group_size))",
            ),
            (
                "places are repeated in the order of groups",
                "each.repeat_interleave(group_size, 0) for each in rest",
                "each.repeat(group_size, *[1] * (each.dim() - 1)) for each in rest",
            ),
            ("rows share their noise", "noise[step, rows, None]", "noise[step, :1, None]"),
            ("steps share their noise", "noise[step, rows, None]", "noise[0, rows, None]"),
            ("noise follows those that go on", "noise[step, rows, None]", "noise[step, : len(rows), None]"),
            ("the last step is lost", "longest = step + 1", "longest = step"),
            (
                "responses are sorted into other groups",
                "unflatten(0, (len(prompts), group_size)) for",
                "unflatten(0, (group_size, len(prompts))).transpose(0, 1) for",
            ),
        ],
        "llm/test_language_policy.py::test_mask_ends_with_the_first_end_token_and_truncation_is_flagged": [
            (
                "the end token is masked out",
                "mask[rows, step] = tokens, True",
                "mask[rows, step] = tokens, ~torch.isin(tokens, self._ends(tokens))",
            ),
            (
                "responses go on after their end",
                "(~torch.isin(tokens, self._ends(tokens))).nonzero().squeeze(-1)",
                "torch.arange(len(tokens))",
            ),
            ("only the first end token ends", "torch.tensor(self.end_ids,", "torch.tensor(self.end_ids[:1],"),
            (
                "what ended is flagged",
                "return ~(torch.isin(responses",
                "return (torch.isin(responses",
            ),
            (
                "what follows the end is not padding",
                "torch.full((len(rows), self.max_new_tokens), self.pad_id,",
                "torch.full((len(rows), self.max_new_tokens), self.pad_id + 2,",
            ),
        ],
        "llm/test_language_policy.py::test_greedy_takes_the_most_likely_token": [
            ("greedy takes the unlikeliest", "log_probs.argmax(-1)", "log_probs.argmin(-1)"),
        ],
        "llm/test_language_policy.py::test_dropout_and_generation_defaults_do_not_reach_the_policy": [
            (
                "the checkpoint's own temperature is used",
                "self.rows_per_pass = temperature, top_k",
                "self.rows_per_pass = temperature * (model.generation_config.temperature or 1), top_k",
            ),
        ],
        "llm/test_language_policy.py::test_chunked_logits_give_the_same_gradient": [
            (
                "chunks lose the gradient of the model",
                "checkpoint(measured, *piece, use_reentrant=False)",
                "checkpoint(measured, piece[0].detach() + 0 * piece[0], piece[1], use_reentrant=False)",
            ),
        ],
        "llm/test_language_policy.py::test_the_loop_accepts_a_language_policy": [
            ("log-probs have no graph", "mask, chosen_log_prob)[0]", "mask, chosen_log_prob)[0].detach()"),
        ],
        "llm/test_language_policy.py::test_packed_removes_the_left_padding": [
            (
                "starts are repeated in the order of groups",
                "prompt_mask.sum(-1).repeat_interleave(responses.shape[1])",
                "prompt_mask.sum(-1).repeat(responses.shape[1])",
            ),
            (
                "prompts are repeated in the order of groups",
                "prompts.repeat_interleave(responses.shape[1], 0)",
                "prompts.repeat(responses.shape[1], 1)",
            ),
            (
                "what follows is not padding",
                ".masked_fill(beyond, pad_id), starts",
                ", starts",
            ),
        ],
        "llm/test_language_policy.py::test_truncate_keeps_what_it_says": [
            (
                "top p stops before the token that reaches it",
                "probs.cumsum(-1) - probs >= top_p",
                "probs.cumsum(-1) >= top_p",
            ),
            ("top k keeps one more", "logits.topk(top_k).values", "logits.topk(top_k + 1).values"),
            ("top k drops the last that it should keep", "logits < logits.topk", "logits <= logits.topk"),
        ],
        "llm/test_language_policy.py::test_prompts_that_cannot_be_continued_get_a_sentence": [
            ("a prompt may fill the context", "longest + self.max_new_tokens > limit", "longest > limit"),
            ("a prompt without tokens passes", ".sum(-1).min()) == 0", ".sum(-1).max()) == 0"),
        ],
        "llm/test_language_policy.py::test_a_model_that_changes_its_logits_is_refused": [
            ("logits may change after the head", "        refuse_unknown_head(model)", "        pass"),
        ],
        "llm/test_scoring.py::test_truncate_keeps_the_likeliest_in_whatever_order": [
            (
                "top p cuts in the order of the ranks",
                "cut = torch.zeros_like(probs, dtype=torch.bool).scatter(-1, ordered.indices, ",
                "cut = (",
            ),
            ("top p counts from the unlikeliest", "logits.sort(descending=True)", "logits.sort()"),
            (
                "top p comes before top k",
                "probs = ordered.values.softmax(-1)",
                "probs = ordered.values.nan_to_num(neginf=0.0).softmax(-1)",
            ),
        ],
        "llm/test_scoring.py::test_values_and_gradients_equal_one_row_at_a_time": [
            (
                "prompts get no gradient",
                "last = self._read(prompts[asked])",
                "last = torch.no_grad()(self._read)(prompts[asked])",
            ),
            (
                "responses of one token are not scored",
                "lengths.argsort()[(lengths == 0).sum() :]",
                "lengths.argsort()[(lengths <= 1).sum() :]",
            ),
            (
                "holes in the mask are scored",
                "row, step = inside[rows].nonzero(as_tuple=True)",
                "row, step = inside[rows].flip(-1).cummax(-1).values.flip(-1).nonzero(as_tuple=True)",
            ),
            (
                "groups that speak are counted down",
                "lengths.view(-1, group).any(-1)",
                "lengths.view(group, -1).any(0)",
            ),
            (
                "prompts that speak are those at the front",
                "self._read(prompts[asked])",
                "self._read(prompts[: len(asked)])",
            ),
        ],
        "llm/test_scoring.py::test_values_and_gradients_equal_one_row_at_a_time[gpt2-packed-as sampled]": [
            (
                "packed: each token is predicted from itself",
                "starts[rows][:, None] - 1 + torch.arange",
                "starts[rows][:, None] + torch.arange",
            ),
            (
                "packed: the last token is not reached",
                "(starts + lengths)[rows].max() - 1]",
                "(starts + lengths)[rows].max() - 2]",
            ),
            (
                "packed: each response has its neighbour's start",
                "steps = starts[rows][:, None]",
                "steps = starts[rows].roll(1)[:, None]",
            ),
        ],
        "llm/test_scoring.py::test_a_token_behind_a_hole_counts_as_read": [
            (
                "what is masked out is not read",
                "in passes(prompts, responses, lengths)",
                "in passes(prompts, responses * mask, lengths)",
            ),
        ],
        "llm/test_scoring.py::test_dropout_stays_off_when_training_begins": [
            ("dropout stays", "        without_dropout(model)", "        pass"),
            (
                "dropout of attention stays",
                '(name == "p" or "drop" in name or',
                '(name == "p" or',
            ),
        ],
        "llm/test_scoring.py::test_score_is_log_probs_and_entropy_and_neither_it_nor_entropy_keeps_a_graph": [
            ("entropy keeps a graph", "    @torch.no_grad()\n    def entropy", "    def entropy"),
            ("scores keep a graph", "    @torch.no_grad()\n    def score", "    def score"),
            (
                "entropy comes before log-probs",
                "chosen_log_prob, entropy_in_nats)",
                "entropy_in_nats, chosen_log_prob)",
            ),
        ],
        "llm/test_scoring.py::test_a_half_precision_model_is_scored_in_float32": [
            (
                "half-precision logits stay so",
                "logits.float() if logits.dtype in (torch.bfloat16, torch.float16) else logits",
                "logits",
            ),
        ],
        "llm/test_scoring.py::test_in_the_loop_the_ratio_is_exactly_one_at_the_first_inner_step": [
            (
                "what takes a gradient is scored at temperature 1",
                "truncate(logits / self.temperature,",
                "truncate(logits / (self.temperature if not torch.is_grad_enabled() else 1),",
            ),
            (
                "what takes no gradient is scored in half precision",
                "return self._score(prompts, responses, mask, chosen_log_prob, entropy_in_nats)",
                "return tuple(each.half().float() for each in "
                "self._score(prompts, responses, mask, chosen_log_prob, entropy_in_nats))",
            ),
        ],
        "llm/test_scoring.py::test_every_end_token_of_tokenizer_and_checkpoint_counts_once_if_the_model_has_it": [
            (
                "the checkpoint's end tokens are ignored",
                "dict.fromkeys([tokenizer.eos_token_id, *ids])",
                "dict.fromkeys([tokenizer.eos_token_id])",
            ),
            ("the model need not have an end token", "is not None and 0 <= each < size", "is not None and 0 <= each"),
        ],
        "llm/test_refusals.py::test_a_cache_that_is_ignored_is_noticed": [
            ("a cache may be ignored", "    if not same:\n", "    if False:\n"),
        ],
        "llm/test_language_policy.py::test_every_kind_of_dropout_is_off": [
            ("jitter stays", ' or "jitter" in name', ""),
            ("the configuration keeps its dropout", ", model.config, model.config.get_text_config())", ",)"),
        ],
        "llm/test_language_policy.py::test_tokens_without_an_embedding_are_refused": [
            ("a padding token needs no embedding", "if not 0 <= self.pad_id <", "if self.pad_id < 0 and self.pad_id <"),
            ("an end token may be negative", "0 <= each < size", "each < size"),
        ],
        "llm/test_scoring.py::test_a_response_is_cut_where_no_end_token_is_inside_the_mask": [
            (
                "padding ends a response",
                "(torch.isin(responses, self._ends(responses)) & mask).any(-1)",
                "torch.isin(responses, self._ends(responses)).any(-1)",
            ),
        ],
        "llm/test_scoring.py::test_only_padding_in_front_is_padding": [
            (
                "a padding token inside a prompt is padding",
                "return (prompts != self.pad_id).cumsum(-1) > 0",
                "return prompts != self.pad_id",
            ),
        ],
        "llm/test_scoring.py::test_a_draw_is_as_fine_as_float64": [
            (
                "draws are as coarse as float32",
                "log_probs.double().exp().cumsum(-1)",
                "log_probs.exp().cumsum(-1).double()",
            ),
            ("every draw is a token late", "squeeze(-1).clamp(max=log", "squeeze(-1).add(1).clamp(max=log"),
        ],
    },
    "llm.task": {
        "llm/test_task.py::test_left_pad_puts_every_end_in_the_last_column": [
            (
                "padding stands behind",
                "[pad_id] * (width - len(sequence)) + sequence",
                "sequence + [pad_id] * (width - len(sequence))",
            ),
        ],
        "llm/test_task.py::test_only_what_is_inside_the_mask_is_read": [
            ("end tokens are spelled out", "skip_special_tokens=True", "skip_special_tokens=False"),
            ("what is outside the mask is read", "row[inside].tolist()", "row.tolist()"),
        ],
        "llm/test_task.py::test_the_reward_is_the_weighted_sum_and_the_judge_stays_the_truth": [
            ("weights are ignored", "weight * found[name]", "found[name]"),
            ("the judge is the reward", "return self.check(self.judge,", "return self.check(next(iter(self.weights)),"),
            ("what passed is counted", "scores.mean().item()", "scores.sum().item()"),
        ],
        "llm/test_task.py::test_evaluating_does_not_disturb_what_the_last_rollout_passed": [
            (
                "an evaluation counts as a rollout",
                "return self.check(self.judge, batch, responses, mask)",
                "return self.rewards(batch, responses, mask)",
            ),
        ],
        "llm/test_task.py::test_responses_stay_in_their_groups": [
            (
                "responses are dealt out",
                "texts[start : start + group] for start in range(0, len(texts), group)",
                "texts[start :: len(texts) // group] for start in range(len(texts) // group)",
            ),
        ],
        "llm/test_task.py::test_thinking_that_the_prompt_opened_is_no_answer": [
            (
                "thinking that the prompt opened is an answer",
                "opens_thinking(prompt(train[0].question, tokenizer))",
                "False",
            ),
        ],
        "llm/test_task.py::test_sampling_draws_different_problems_and_repeats_with_the_seed": [
            (
                "the generator is not used",
                "torch.randperm(len(self.train), generator=generator)",
                "torch.randperm(len(self.train))",
            ),
            (
                "a problem may come twice",
                "torch.randperm(len(self.train), generator=generator)[:batch_size]",
                "torch.randint(len(self.train), (batch_size,), generator=generator)",
            ),
        ],
        "llm/test_task.py::test_training_and_held_out_problems_are_not_mixed_up": [
            ("training sees the test", "self.encode([self.train[index]", "self.encode([self.test[index]"),
            ("held-out is training", "return self.encode(self.test)", "return self.encode(self.train)"),
        ],
        "llm/test_task.py::test_held_out_problems_are_the_test_set_or_its_beginning": [
            ("the bound on the test is ignored", "test[:max_held_out]", "test"),
        ],
        "llm/test_task.py::test_a_prompt_gets_no_special_tokens_that_it_does_not_write_itself": [
            ("prompts begin twice", "add_special_tokens=False", "add_special_tokens=True"),
        ],
        "llm/test_task.py::test_a_prompt_that_padding_would_swallow_is_refused": [
            ("a prompt may begin with padding", "not sequence or sequence[0] == pad", "not sequence"),
        ],
        "llm/test_task.py::test_each_check_stands_for_itself": [
            ("lenient is strict", 'is_correct(text, gold, "lenient"', 'is_correct(text, gold, "strict"'),
            (
                "a format needs a right answer",
                "has_format(text, opened=opened)",
                "has_format(text, opened=opened) and gold in text",
            ),
        ],
    },
    "llm.gsm8k": {
        "llm/test_gsm8k.py::test_rows_become_problems": [
            ("calculator marks stay", 'row["answer"] if marks else', 'row["answer"] if not marks else'),
            ("answers stay as they are written", "canonical(answer))", "last.strip())"),
        ],
        "llm/test_gsm8k.py::test_the_last_mark_has_the_answer_and_each_calculator_mark_goes": [
            ("all between two calculator marks goes", "<<[^<>\\n]*>>", "<<.*>>"),
        ],
        "llm/test_gsm8k.py::test_a_path_comes_before_the_environment": [
            (
                "the environment comes before the path",
                'path or os.environ.get("MINIRL_GSM8K")',
                'os.environ.get("MINIRL_GSM8K") or path',
            ),
        ],
        "llm/test_gsm8k.py::test_a_fingerprint_is_that_of_the_lines_as_the_official_files_have_them": [
            ("keys are sorted before they are hashed", "json.dumps(row) +", "json.dumps(row, sort_keys=True) +"),
            ("letters are hashed as they are", "json.dumps(row) +", "json.dumps(row, ensure_ascii=False) +"),
        ],
        "llm/test_gsm8k.py::test_other_rows_warn": [
            ("other rows pass in silence", "if found != SHA256[split]:", "if not found:"),
        ],
        "llm/test_gsm8k.py::test_official_rows_pass_in_silence": [
            ("official rows warn", "if found != SHA256[split]:", "if found:"),
        ],
        "llm/test_gsm8k.py::test_a_task_trains_on_its_split_and_is_judged_on_the_test": [
            ("training sees the test", "load(split, path), load", 'load("test", path), load'),
            ("it is judged on its split", 'load("test", path), prompt', "load(split, path), prompt"),
        ],
        "llm/test_gsm8k.py::test_contamination_by_hand": [
            ("the last source is named", "seen.setdefault(gram, index)", "seen[gram] = index"),
            ("the last match is named", "min((seen[gram]", "max((seen[gram]"),
            ("case counts", "text.lower()", "text"),
            ("short questions are skipped", "range(max(1, len(words) - n + 1))", "range(len(words) - n + 1)"),
        ],
        "llm/test_gsm8k.py::test_duplicates_by_hand": [
            ("every question is its own duplicate", "if later != earlier", "if later >= earlier"),
        ],
    },
    "llm.memory": {
        "llm/test_memory.py::test_a_layer_keeps_what_is_counted": [
            ("an input is not counted", "4 * (6 * hidden + 2 * queries", "4 * (5 * hidden + 2 * queries"),
            ("half copies are shared", "2 * (5 * hidden + 2 * queries", "2 * (2 * hidden + 2 * queries"),
        ],
        "llm/test_memory.py::test_a_micro_batch_keeps_what_is_counted": [
            ("attention keeps nothing", "layers * attended + tokens", "tokens"),
            (
                "micro-batches keep the whole batch",
                "return min(self.micro_batch_size or self.batch_size, self.batch_size)",
                "return self.batch_size",
            ),
            (
                "every response reads its prompt",
                "work.micro_prompts * work.prompt_tokens",
                "work.micro_rows * work.prompt_tokens",
            ),
        ],
        "llm/test_memory.py::test_parameters_are_counted_without_making_them": [
            (
                "tied weights are counted twice",
                "from_config(config).parameters())",
                "from_config(config).state_dict().values())",
            ),
        ],
        "llm/test_memory.py::test_the_0_5b_model_has_its_published_size": [
            ("Adam has one moment", "optimizer=8 * count", "optimizer=4 * count"),
        ],
        "llm/test_memory.py::test_an_evaluation_keeps_no_gradients": [
            ("an evaluation has gradients", "gradients=4 * count * work.training", "gradients=4 * count"),
        ],
        "llm/test_memory.py::test_larger_workloads_need_more": [
            ("the reference is free", "reference=4 * count * work.reference", "reference=0"),
        ],
        "llm/test_memory.py::test_the_peak_is_what_is_always_there_the_largest_phase_and_an_eighth": [
            (
                "the phases come at once",
                "max(sampling, self.scoring, updating)",
                "sum((sampling, self.scoring, updating))",
            ),
            ("scoring takes nothing", "max(sampling, self.scoring, updating)", "max(sampling, updating)"),
            ("half copies take nothing", " + self.half_copies", ""),
        ],
        "llm/test_memory.py::test_what_fits_is_let_through_and_what_does_not_gets_the_smallest_change": [
            ("twice of what is there fits", "if memory.peak <= available:", "if memory.peak <= 2 * available:"),
            ("any change is offered", "if estimate(config, other).peak <= available)", "if other)"),
        ],
        "llm/test_memory.py::test_checkpointing_keeps_a_layers_input": [
            ("checkpointing is never on", "module.train(torch.is_grad_enabled())", "module.eval()"),
        ],
        "llm/test_memory.py::test_available_memory_is_what_the_machine_has": [
            ("memory in use is free", '"SC_AVPHYS_PAGES"', '"SC_PHYS_PAGES"'),
        ],
    },
    "llm.evaluation": {
        "llm/test_evaluation.py::test_a_record_has_the_problem_and_every_response_with_its_checks": [
            ("problems are numbered by batch", '"problem": start + row', '"problem": row'),
            ("every problem has the first responses", "{how: each[row] for how", "{how: each[0] for how"),
            ("the end token is no token", "mask.sum(-1).tolist()", "(mask.sum(-1) - 1).tolist()"),
        ],
        "llm/test_evaluation.py::test_each_batch_has_random_numbers_of_its_own_and_the_seed_decides": [
            ("every batch has the same random numbers", "seed * 1_000_003 + start", "seed * 1_000_003"),
            ("the seed is ignored", "seed * 1_000_003 + start", "start"),
        ],
        "llm/test_evaluation.py::test_what_was_stopped_goes_on_batch_by_batch": [
            ("half a batch counts as done", "count -= count % batch_size", "pass"),
            (
                "what is done is done again",
                "range(len(done), len(problems), batch_size)",
                "range(0, len(problems), batch_size)",
            ),
        ],
        "llm/test_evaluation.py::test_the_vote_reads_as_the_judge_does": [
            (
                "the vote is always strict",
                'return task.judge if task.judge != "format" else "strict"',
                'return "strict"',
            ),
        ],
        "llm/test_evaluation.py::test_thinking_that_the_prompt_opened_is_not_extracted": [
            ("opened thinking is extracted", "judge_style(task), opened=task.opened)", "judge_style(task))"),
        ],
        "llm/test_evaluation.py::test_the_summary_is_counted_over_problems": [
            ("the interval has one problem more", "len(values)), len(values))", "len(values)), len(values) + 1)"),
            ("the best response counts", "return fmean(response[name]", "return max(response[name]"),
        ],
        "llm/test_evaluation.py::test_passes_and_votes_are_those_of_every_draw": [
            (
                "pass@k is that of one draw",
                'len(records[0]["sampled"]), k).tolist()',
                'len(records[0]["sampled"]), 1).tolist()',
            ),
            ("the vote is over all samples", 'record["answer"], k)', 'record["answer"])'),
            ("every pass is strict", "sum(response[check] for response", 'sum(response["strict"] for response'),
        ],
        "llm/test_evaluation.py::test_the_table_says_it_in_percent": [
            ("bounds are shares", "[{100 * found['low']:.1f}", "[{found['low']:.1f}"),
        ],
    },
    "llm.word_problems": {
        "llm/test_word_problems.py::test_every_equation_of_every_solution_is_exact": [
            (
                "a division leaves a rest",
                "return left % right == 0 and left // right >= 2",
                "return left // right >= 2",
            ),
        ],
        "llm/test_word_problems.py::test_given_numbers_and_results_keep_their_limits": [
            ("nothing may be left", "return 1 <= OPERATIONS", "return 0 <= OPERATIONS"),
        ],
        "llm/test_word_problems.py::test_a_comparison_is_worked_out_for_whom_it_asks": [
            ("the other has as much", "self.other, self.cast = before,", "self.other, self.cast = self.count,"),
            (
                "the wrong person is asked about",
                '"n": self.cast["m"], "m": self.cast["n"]}',
                '"n": self.cast["n"], "m": self.cast["m"]}',
            ),
        ],
        "llm/test_word_problems.py::test_the_split_looks_at_the_arithmetic_and_at_no_word": [
            ("the split is by words", '" ".join(map(str, problem.steps)).encode()', "problem.question.encode()"),
        ],
        "llm/test_word_problems.py::test_the_share_that_is_held_out_is_a_fifth_of_what_is_told": [
            ("a quarter is held out", "% 5 == 0", "% 4 == 0"),
        ],
        "llm/test_word_problems.py::test_a_fifth_is_held_out": [
            ("the splits are swapped", '(split == "held_out")', '(split == "train")'),
        ],
        "llm/test_word_problems.py::test_the_same_seed_tells_the_same_problems_and_another_seed_others": [
            ("the seed is ignored", "random.Random(seed)", "random.Random(0)"),
        ],
    },
}

MUTANTS = [
    Mutant(module, test, *change)
    for module, tests in [*MUTANTS_BY_MODULE_AND_TEST.items(), *BEYOND_BY_MODULE_AND_TEST.items()]
    for test, changes in tests.items()
    for change in changes
]


def source(module: str) -> str:
    return place(PACKAGE, module).read_text(encoding="utf-8")


def place(package: Path, module: str) -> Path:
    """The file of a module: "llm.policy" is llm/policy.py."""
    return (package / Path(*module.split("."))).with_suffix(".py")


class Recorder:
    """A pytest plugin that keeps which tests ran, and of those that failed, how."""

    def __init__(self):
        self.ran, self.failures = 0, []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item, call):
        self.ran += call.when == "call"
        if call.excinfo is not None:
            own = call.when == "call" and issubclass(call.excinfo.type, AssertionError | pytest.fail.Exception)
            self.failures.append((own, f"{item.name}: {call.excinfo.typename}: {str(call.excinfo.value)[:300]}"))
        return (yield)


def outcome(tests: list[str], mutant: Mutant | None = None) -> tuple[int, list[tuple[bool, str]], str]:
    """Runs tests against a copy of the package with the mutant in it: how many ran, how each failed, what was printed.

    To be called in a process of its own that has not imported minirl.
    """
    assert "minirl" not in sys.modules
    sys.dont_write_bytecode = True
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    recorder, printed = Recorder(), io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(printed):
        copy = Path(folder) / "minirl"
        shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", "*.safetensors"))
        if mutant:
            text = source(mutant.module).replace(mutant.original, mutant.mutated)
            place(copy, mutant.module).write_text(text, encoding="utf-8")
        sys.path.insert(0, folder)
        options = ["-x", "-q", "--tb=line", "--assert=plain", "-oaddopts="]
        options += ["-pno:cacheprovider", "-pno:unraisableexception"]
        pytest.main([*options, *(str(TESTS / test) for test in tests)], plugins=[recorder])
        assert Path(sys.modules["minirl"].__file__).parent == copy, "the tests did not import the copy"
    return recorder.ran, recorder.failures, printed.getvalue()
