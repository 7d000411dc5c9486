"""Wrong versions of the core, one small change each, and the test that must notice.

A mutant is killed when that test fails by its own assertion: an import error, a crash or a wrong shape does not count.
The change is made in a copy of the package, which the test then imports in a process of its own. Each `original` stands
in its module exactly once, so a list that no longer fits the code is noticed too.
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
        "test_losses.py::test_a_step_down_the_loss_makes_the_better_answer_likelier": [
            ("naive has the wrong sign", "-deltas[..., None] * log_probs", "deltas[..., None] * log_probs"),
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
            ("naive puts deltas on tokens", "-deltas[..., None] * log_probs", "-deltas[:, None] * log_probs"),
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
            ("clipped has the wrong sign", "return -(ratio * deltas)", "return (ratio * deltas)"),
        ],
        "test_losses.py::test_clipped_is_right_at_points_on_every_side": [
            ("clipped has max for min", ".minimum(", ".maximum("),
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
            ("one zero makes a group without signal", "(deltas == 0).all(-1)", "(deltas == 0).any(-1)"),
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
            ("every response is scored", "live = part.mask & ~silent[rows]", "live = part.mask"),
            ("a KL in the loss skips responses", ' & (not config.beta or config.kl_in == "reward")', ""),
            ("a KL in the reward scores them all", 'not config.beta or config.kl_in == "reward"', "not config.beta"),
        ],
        "test_train.py::test_update_returns_the_loss_the_norm_and_the_log_probs_before_the_step": [
            ("what was not scored has probability 1", ".where(live, part.old_log_probs)", ""),
            ("what has a signal is silent", "(deltas == 0)[..., None]", "(deltas != 0)[..., None]"),
            ("the loss is a mean over the tensor", "* weights[rows]).sum()", "* weights[rows]).mean()"),
        ],
        "test_train.py::test_a_batch_without_signal_leaves_adam_its_momentum": [
            ("a batch without signal stops Adam", "zero_grad(set_to_none=False)", "zero_grad()"),
            (
                "a first batch without signal is no step",
                "            weight.grad = torch.zeros_like(weight)",
                "            pass",
            ),
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
            ("KL is paid for in the reward", "rewards - config.beta *", "rewards + config.beta *"),
            ("KL is averaged in the reward", "rollout.ref_log_probs).sum(-1)", "rollout.ref_log_probs).mean(-1)"),
        ],
        "test_train.py::test_the_kl_in_the_reward_comes_before_the_deltas": [
            (
                "KL comes after the deltas",
                "DELTAS[config.delta](rewards)",
                "DELTAS[config.delta](rollout.rewards) + rewards - rollout.rewards",
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
        "test_train.py::test_every_epoch_samples_other_prompts_and_responses": [
            (
                "every epoch samples the same",
                "task.sample(config.batch_size, state.generator)",
                "task.sample(config.batch_size, state.generator.manual_seed(config.seed))",
            ),
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
        "test_train.py::test_an_unknown_choice_is_refused_with_the_known_ones": [
            ("unknown choices pass", "value not in choices[name]", "value in ()"),
        ],
        "test_train.py::test_a_setting_that_is_not_a_number_is_refused": [
            ("NaN passes as a setting", "not value >= least", "value < least"),
        ],
        "test_train.py::test_a_number_that_must_be_positive_is_refused_if_it_is_not": [
            ("zero passes as a setting", "else 1e-12", "else 0"),
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
}

MUTANTS = [
    Mutant(module, test, *change)
    for module, tests in MUTANTS_BY_MODULE_AND_TEST.items()
    for test, changes in tests.items()
    for change in changes
]


def source(module: str) -> str:
    return (PACKAGE / f"{module}.py").read_text(encoding="utf-8")


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
        copy.mkdir()
        for file in PACKAGE.glob("*.py"):
            shutil.copy(file, copy)
        if mutant:
            text = source(mutant.module).replace(mutant.original, mutant.mutated)
            (copy / f"{mutant.module}.py").write_text(text, encoding="utf-8")
        sys.path.insert(0, folder)
        options = ["-x", "-q", "--tb=line", "--assert=plain", "-oaddopts="]
        options += ["-pno:cacheprovider", "-pno:unraisableexception"]
        pytest.main([*options, *(str(TESTS / test) for test in tests)], plugins=[recorder])
        assert Path(sys.modules["minirl"].__file__).parent == copy, "the tests did not import the copy"
    return recorder.ran, recorder.failures, printed.getvalue()
