"""Wrong versions beyond the core: preferences, critic, shaping, evaluation. `mutants` adds them to its own."""

BEYOND_BY_MODULE_AND_TEST = {
    "preferences": {
        "test_preferences.py::test_each_loss_equals_its_formula_in_plain_python": [
            ("the loss is paid for being right", "return -logsigmoid(", "return logsigmoid("),
            (
                "chosen and rejected are swapped",
                "chosen_rewards - rejected_rewards",
                "rejected_rewards - chosen_rewards",
            ),
            ("SimPO pays the margin", "chosen_reward - margin", "chosen_reward + margin"),
            ("SimPO scales the margin by beta", "chosen_reward - margin", "chosen_reward - beta * margin"),
            ("SimPO divides the rejected by the other length", "(rejected, rejected_len))", "(rejected, chosen_len))"),
            ("SimPO forgets beta", "beta * per_token(rejected", "per_token(rejected"),
            ("the reference keeps its length", "per_token(ref_chosen, chosen_len)", "ref_chosen"),
            ("the reference takes the other length", "(ref_rejected, rejected_len)", "(ref_rejected, chosen_len)"),
            ("DPO's references are swapped", "(rejected, ref_rejected, beta))", "(rejected, ref_chosen, beta))"),
        ],
        "test_preferences.py::test_a_pair_that_fits_in_the_head": [
            ("the sigmoid is rounded to 0 before its log", "-logsigmoid(chosen_r", "-torch.sigmoid(chosen_r"),
            (
                "the log of a sigmoid overflows",
                "-logsigmoid(chosen_rewards - rejected_rewards)",
                "-(chosen_rewards - rejected_rewards).sigmoid().log()",
            ),
        ],
        "test_preferences.py::test_the_implied_reward_is_zero_at_the_reference_and_grows_with_beta": [
            ("the implied reward has the wrong sign", "log_probs - ref_log", "-log_probs + ref_log"),
            ("the implied reward is the ratio", "(log_probs - ref_log_probs.detach())", "(log_probs / ref_log_probs)"),
            ("beta divides", "_positive(beta) * (log_probs", "1 / _positive(beta) * (log_probs"),
        ],
        "test_preferences.py::test_a_policy_that_is_its_own_reference_still_learns": [
            ("the reference is left in the graph", "ref_log_probs.detach()", "ref_log_probs"),
        ],
        "test_preferences.py::test_dpos_gradient_is_its_weight_times_the_difference_of_scores": [
            ("the weight lacks beta", "return beta * (-margin).sigmoid()", "return (-margin).sigmoid()"),
            ("the weight looks for pairs that are right", "(-margin).sigmoid()", "margin.sigmoid()"),
        ],
        "test_preferences.py::test_the_weight_is_beta_when_wrong_half_of_it_when_undecided_and_nothing_when_sure": [
            ("the weight carries a graph", ".sigmoid().detach()", ".sigmoid()"),
        ],
        "test_preferences.py::test_a_response_without_tokens_has_no_mean": [
            ("no tokens pass", "(lengths >= 1).all()", "(lengths >= 0).all()"),
            ("one response with tokens is enough", "(lengths >= 1).all()", "(lengths >= 1).any()"),
        ],
        "test_preferences.py::test_response_log_probs_are_logs_of_products": [
            (
                "the mean for the sum",
                "policy.log_probs(prompts, responses, mask).sum(-1)",
                "policy.log_probs(prompts, responses, mask).mean(-1)",
            ),
            (
                "the mask is ignored",
                "policy.log_probs(prompts, responses, mask)",
                "policy.log_probs(prompts, responses, mask | True)",
            ),
        ],
        "test_preferences.py::test_without_noise_the_better_always_wins_and_ties_make_no_pair": [
            ("the worse wins", "(gap > 0).to(gap)", "(gap < 0).to(gap)"),
            (
                "ties make pairs",
                "(start + chosen)[gap != 0], (start + rejected)[gap != 0]",
                "(start + chosen)[gap == gap], (start + rejected)[gap == gap]",
            ),
            ("an index forgets its prompt", "start = group * torch.arange(batch", "start = 0 * torch.arange(batch"),
            ("an index counts prompts for responses", "start = group * torch", "start = batch * torch"),
            ("only neighbours meet", "offset=1, device", "offset=2, device"),
        ],
        "test_preferences.py::test_with_noise_the_better_wins_as_often_as_bradley_terry_says": [
            ("noise multiplies", "(gap / noise).sigmoid()", "(gap * noise).sigmoid()"),
            ("noise is left out", "(gap / noise).sigmoid()", "gap.sigmoid()"),
            ("a normal for a logistic", "(gap / noise).sigmoid()", "torch.special.ndtr(gap / noise)"),
        ],
        "test_preferences.py::test_with_noise_every_two_responses_that_differ_meet_once": [
            ("the generator is not used", "generator=generator, dtype", "generator=None, dtype"),
        ],
        "test_preferences.py::test_at_the_most_likely_scores_everyone_wins_as_often_as_expected": [
            ("half a win is none", "wins = wins.double()", "wins = wins.double().round()"),
            ("the scores keep their sum", "scores + step - (scores + step).mean()", "scores + step + 1"),
        ],
        "test_preferences.py::test_exact_chances_give_back_the_scores": [
            ("losses count as wins", "wins * chance.T", "wins.T * chance.T"),
            ("the fit stops early", "longest < 1e-9", "longest < 1e-1"),
        ],
        "test_preferences.py::test_the_fit_settles_where_full_newton_steps_run_away": [
            ("a full step overshoots", "step * longest.log1p() / longest", "step"),
        ],
        "test_preferences.py::test_a_fit_refuses_what_has_no_answer": [
            ("whoever was compared may be fitted", "(wins > 0, NEVER_BEATEN)", "(wins + wins.T > 0, NEVER_BEATEN)"),
            ("an island may be fitted", "(wins + wins.T > 0, NEVER_MET)", "(wins + wins.T >= 0, NEVER_MET)"),
            ("one may play oneself", " or wins.diagonal().any()", ""),
        ],
        "test_preferences.py::test_beta_must_be_positive": [
            ("beta may be 0", "if not beta > 0", "if not beta >= 0"),
            ("SimPO takes any beta", "_positive(beta) * per_token", "beta * per_token"),
        ],
    },
    "critic": {
        "test_critic.py::test_gae_equals_its_formula_in_plain_python": [
            ("gamma is left out", "+ gamma * to_come)", "+ to_come)"),
            (
                "gamma discounts the reward of its own step",
                "(rewards[..., t] + gamma * to_come)",
                "(gamma * (rewards[..., t] + to_come))",
            ),
            (
                "lambda is turned round",
                "(1 - lam) * next_value + lam * next_return",
                "lam * next_value + (1 - lam) * next_return",
            ),
            ("lambda discounts what comes later", "(1 - lam) * next_value + lam", "lam"),
            ("the reward is left out", "(rewards[..., t] + gamma * to_come)", "(gamma * to_come)"),
            (
                "the first lambda counts for all",
                "+ lam * next_return",
                "+ torch.as_tensor(lam).flatten()[0] * next_return",
            ),
        ],
        "test_critic.py::test_a_response_that_fits_in_the_head": [
            ("advantages have the wrong sign", "(returns - values).masked", "(values - returns).masked"),
            ("advantages lack their baseline", "(returns - values).masked", "returns.masked"),
            ("the recursion runs forwards", "reversed(range(mask.shape[-1]))", "range(mask.shape[-1])"),
            ("the first token is left out", "reversed(range(mask.shape[-1]))", "reversed(range(1, mask.shape[-1]))"),
        ],
        "test_critic.py::test_what_is_not_said_is_gamma_one_and_lambda_one": [
            ("gamma is 0.99 by default", "gamma: float = 1.0, lam: float |", "gamma: float = 0.99, lam: float |"),
            ("lambda is 0.95 by default", "lam: float | PerResponse = 1.0", "lam: float | PerResponse = 0.95"),
        ],
        "test_shaping.py::test_per_token_rewards_equal_their_formula_in_plain_python": [
            (
                "the outcome comes at the first token",
                "mask.cumsum(-1) == mask.sum(-1, keepdim=True)",
                "mask.cumsum(-1) == 1",
            ),
            (
                "the outcome comes at every token",
                "return (mask & (mask.cumsum(-1) == mask.sum(-1, keepdim=True)))",
                "return mask",
            ),
            ("the outcome falls outside the mask", "return (mask & (mask", "return ((mask"),
        ],
        "test_critic.py::test_equal_outcomes_give_equal_returns_to_the_last_digit": [
            (
                "a value is added and taken away again",
                "(1 - lam) * next_value + lam * next_return",
                "next_value + lam * (next_return - next_value)",
            ),
        ],
        "test_critic.py::test_holes_change_nothing_but_the_place": [
            (
                "a hole ends the response",
                "next_value = values[..., t].where(mask[..., t], next_value)",
                "next_value = values[..., t].where(mask[..., t], 0)",
            ),
            ("a hole forgets the return", ".where(mask[..., t], next_return)", ".where(mask[..., t], 0)"),
            ("a hole has a value", "values[..., t].where(mask[..., t], next_value)", "values[..., t]"),
            (
                "a hole pays",
                "(rewards[..., t] + gamma * to_come).where(mask[..., t], next_return)",
                "rewards[..., t] + gamma * to_come",
            ),
        ],
        "test_critic.py::test_what_stands_outside_the_mask_is_never_looked_at": [
            ("advantages outside the mask", "(returns - values).masked_fill(~mask, 0)", "(returns - values)"),
            ("nan times 0 outside the mask", "(returns - values).masked_fill(~mask, 0)", "(returns - values) * mask"),
            ("returns outside the mask", "returns.masked_fill(~mask, 0)", "returns"),
        ],
        "test_critic.py::test_under_the_exact_value_every_lambda_gives_the_policy_gradient": [
            (
                "after the last token its own value comes again",
                "next_value = next_return = rewards.new_zeros(rewards.shape[:2])",
                "next_value = next_return = values[torch.arange(len(mask))[:, None], torch.arange(mask.shape[1]), "
                "mask.sum(-1) - 1]",
            ),
        ],
        "test_critic.py::test_under_the_exact_value_the_advantage_is_zero_on_average_after_every_prefix": [
            ("the value after is the value before", "(1 - lam) * next_value +", "(1 - lam) * values[..., t] +"),
        ],
        "test_critic.py::test_advantages_and_returns_have_no_graph": [
            ("advantages carry a graph", "@torch.no_grad()\n", ""),
        ],
        "test_critic.py::test_gamma_and_lambda_are_between_zero_and_one": [
            ("any gamma passes", '    _check_share("gamma", gamma)\n', ""),
            ("any lambda passes", '    _check_share("lam", lam)\n', ""),
            ("nan passes", "~((share >= 0) & (share <= 1))", "(share < 0) | (share > 1)"),
            ("above one passes", "(share >= 0) & (share <= 1)", "(share >= 0)"),
            ("below zero passes", "(share >= 0) & (share <= 1)", "(share <= 1)"),
        ],
        "test_critic.py::test_the_loss_is_half_the_square_and_its_slope_the_difference": [
            ("the half is left out", "loss = (values - returns) ** 2 / 2", "loss = (values - returns) ** 2"),
            ("the distance for its square", "loss = (values - returns) ** 2 / 2", "loss = (values - returns).abs()"),
        ],
        "test_critic.py::test_the_clipped_loss_case_by_case": [
            ("the smaller loss", "loss.maximum(", "loss.minimum("),
            ("only the held value", "loss.maximum((held - returns) ** 2 / 2)", "(held - returns) ** 2 / 2"),
            ("the held loss lacks its half", "(held - returns) ** 2 / 2", "(held - returns) ** 2"),
            ("values are held near 0", "clamp(old_values - clip, old_values + clip)", "clamp(-clip, clip)"),
            ("held on one side only", "clamp(old_values - clip, old_values + clip)", "clamp(max=old_values + clip)"),
            (
                "held near the return",
                "clamp(old_values - clip, old_values + clip)",
                "clamp(returns - clip, returns + clip)",
            ),
            (
                "the clip is a share of the old value, as a ratio's is",
                "clamp(old_values - clip, old_values + clip)",
                "clamp(old_values * (1 - clip), old_values * (1 + clip))",
            ),
        ],
        "test_critic.py::test_only_the_values_get_a_gradient": [
            ("the return is moved towards the value", "returns = returns.detach()", "returns = returns + 0"),
            ("the old value is left in the graph", "old_values.detach()", "old_values + 0"),
        ],
        "test_critic.py::test_a_clip_needs_old_values_and_room": [
            ("a clip of 0 passes", "not clip > 0", "not clip >= 0"),
            ("a clip that is nan passes", "not clip > 0", "clip <= 0"),
        ],
        "test_critic.py::test_lambda_grows_with_the_length": [
            ("lambda falls below 0", ".clamp(min=0)", ""),
            ("alpha divides", "1 / (alpha * lengths)", "alpha / lengths"),
            ("alpha is 0.5 by default", "alpha: float = 0.05", "alpha: float = 0.5"),
            ("the share that is not kept", "(1 - 1 / (alpha * lengths))", "(1 / (alpha * lengths))"),
        ],
        "test_critic.py::test_alpha_must_be_positive": [
            ("alpha may be 0", "if not alpha > 0", "if not alpha >= 0"),
        ],
        "test_critic.py::test_explained_variance_equals_its_formula_in_plain_python": [
            ("the variance of the wrong one", "/ returns.var())", "/ values.var())"),
            ("what is not explained", "return 1 - ((returns", "return ((returns"),
            (
                "standard deviations",
                "((returns - values).var() / returns.var())",
                "((returns - values).std() / returns.std())",
            ),
            (
                "tokens outside the mask count",
                "values[mask].double(), returns[mask].double()",
                "values.double().flatten(), returns.double().flatten()",
            ),
        ],
        "test_critic.py::test_one_for_the_perfect_critic_zero_for_a_constant_and_negative_for_a_harmful_one": [
            ("squares for variances", "(returns - values).var()", "(returns - values).square().mean()"),
        ],
        "test_critic.py::test_explained_variance_keeps_its_digits_far_from_zero": [
            (
                "rounded to half precision",
                "values[mask].double(), returns[mask].double()",
                "values[mask].bfloat16(), returns[mask].bfloat16()",
            ),
        ],
        "test_critic.py::test_without_spread_there_is_nothing_to_explain": [
            ("ties are perfect", 'return float("nan")', "return 1.0"),
        ],
    },
    "shaping": {
        "test_shaping.py::test_kimis_length_reward_equals_its_formula_in_plain_python": [
            ("the longest is the best", "0.5 - (lengths - least)", "0.5 - (most - lengths)"),
            ("short wrong answers are paid", "score.clamp(max=0)", "score"),
            ("wrong answers cost nothing", "score.clamp(max=0)", "0 * score"),
            ("right answers lose what is positive", "correct == 1, score,", "correct == 0, score,"),
            ("lengths are compared across prompts", "aminmax(dim=-1", "aminmax(dim=0"),
            ("the score is relative to the longest", "torch.where(spread > 0, spread, 1)", "most"),
        ],
        "test_shaping.py::test_equal_lengths_and_a_group_of_one_get_exactly_zero": [
            ("equal lengths get a half", "torch.where(spread > 0, 0.5 - ", "torch.where(spread >= 0, 0.5 - "),
        ],
        "test_shaping.py::test_the_length_reward_is_blind_to_the_unit_of_length_and_follows_its_responses": [
            ("the score is not scaled", " / torch.where(spread > 0, spread, 1), 0)", " / 20, 0)"),
        ],
        "test_shaping.py::test_the_overlong_penalty_equals_its_formula_for_every_length": [
            (
                "long ones are paid",
                "(max_length - buffer - lengths) / buffer",
                "(lengths + buffer - max_length) / buffer",
            ),
            ("the slope begins at max_length", "(max_length - buffer - lengths)", "(max_length - lengths)"),
            ("the slope does not end", ".clamp(-1, 0)", ".clamp(max=0)"),
            ("short ones are paid", ".clamp(-1, 0)", ".clamp(-1)"),
        ],
        "test_shaping.py::test_shares_equal_counts_in_plain_python": [
            ("padding counts", "mask & torch.isin(responses, allowed)", "torch.isin(responses, allowed)"),
            ("the share is of all positions", "mask.sum(-1).clamp(min=1)", "mask.shape[-1]"),
            ("the share of what is not allowed", "torch.isin(responses, allowed)", "~torch.isin(responses, allowed)"),
        ],
        "test_shaping.py::test_a_response_without_tokens_has_share_zero": [
            ("no tokens divide by zero", ".clamp(min=1)", ""),
        ],
        "test_shaping.py::test_consistency_counts_words_and_nothing_else": [
            ("digits are foreign words", "mask & words, target", "mask, target"),
            ("the other language counts", "mask & words, target", "mask & words, other"),
        ],
        "test_shaping.py::test_per_token_rewards_equal_their_formula_in_plain_python": [
            ("drifting pays", "-beta * k1(log", "beta * k1(log"),
            (
                "the last token has no price",
                "return penalty + at_the_last_token(rewards, mask)",
                "return penalty * (mask & (mask.cumsum(-1) != mask.sum(-1, keepdim=True))) "
                "+ at_the_last_token(rewards, mask)",
            ),
        ],
        "test_shaping.py::test_a_reward_has_no_graph_and_no_token_outside_the_mask_has_one": [
            ("the price is differentiated", ".detach().masked_fill(~mask, 0)", ".masked_fill(~mask, 0)"),
            ("infinity times 0 outside the mask", ".masked_fill(~mask, 0)", " * mask"),
        ],
        "test_shaping.py::test_a_negative_price_is_refused": [
            ("a negative price passes", "if not beta >= 0", "if not beta >= -1"),
        ],
        "test_shaping.py::test_combined_is_a_sum_by_name_in_any_order": [
            (
                "parts are taken in their order",
                "parts[name] for name, weight in weights.items()",
                "part for weight, part in zip(weights.values(), parts.values())",
            ),
            ("weights are left out", "sum(weight * parts[name]", "sum(parts[name]"),
        ],
        "test_shaping.py::test_combined_refuses_what_does_not_match": [
            (
                "a part without a weight is dropped in silence",
                "weights.keys() != parts.keys()",
                "weights.keys() - parts.keys()",
            ),
        ],
        "test_shaping.py::test_parts_of_different_shapes_are_refused_even_where_they_would_broadcast": [
            ("shapes broadcast", "parts.values()}) > 1", "parts.values()}) > 2"),
        ],
    },
    "evaluate": {
        "test_evaluate.py::test_a_tie_is_half_a_win": [
            ("a tie is a win", "return (wins + ties / 2) / n", "return (wins + ties) / n"),
            ("a tie is no comparison", "(n := wins + ties + losses)", "(n := wins + losses)"),
            ("the interval forgets ties", "wilson_interval(wins + ties / 2, n, z)", "wilson_interval(wins, n, z)"),
        ],
        "test_evaluate.py::test_the_win_rates_of_the_two_sides_are_mirror_images": [
            ("z is not handed on", "wilson_interval(wins + ties / 2, n, z)", "wilson_interval(wins + ties / 2, n)"),
        ],
        "test_evaluate.py::test_bins_hold_what_lies_in_them_and_their_right_edge": [
            (
                "bins are closed on the left",
                "torch.bucketize(confidence, edges)",
                "torch.bucketize(confidence, edges, right=True)",
            ),
            (
                "confidence is multiplied into its bin",
                "torch.bucketize(confidence, edges)",
                "((confidence * bins).ceil().long() - 1).clamp(min=0)",
            ),
            ("edges are of another type", "dtype=confidence.dtype, device", "dtype=torch.float16, device"),
            ("means are sums", "total / count.clamp(min=1)", "total"),
            ("accuracy and confidence are swapped", "(confidence.double(), correct)", "(correct, confidence.double())"),
        ],
        "test_evaluate.py::test_a_calibration_that_fits_in_the_head": [
            ("empty bins are NaN", "count.clamp(min=1)", "count"),
            (
                "the error has a sign",
                "(found.accuracy - found.confidence).abs()",
                "(found.accuracy - found.confidence)",
            ),
        ],
        "test_evaluate.py::test_the_calibration_error_is_the_mean_gap_weighted_by_count": [
            ("every bin counts the same", ".abs() * found.count)", ".abs() * found.count.double().mean())"),
            ("gaps are squared", ".abs() * found.count", ".square() * found.count"),
        ],
        "test_evaluate.py::test_calibration_refuses_what_cannot_be": [
            ("any confidence passes", "if not ((values >= 0) & (values <= 1)).all()", "if False"),
            ("no answers pass", " or not confidence.numel()", ""),
        ],
    },
}
