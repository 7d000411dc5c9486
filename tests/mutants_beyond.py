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
        "test_critic_in_loop.py::test_it_judges_by_gae_in_plain_python": [
            ("the price of the KL is paid to the policy", "rollout.mask) - price", "rollout.mask) + price"),
            ("no λ is length-adaptive", "self.lam if self.alpha is None else", "self.lam if True else"),
            ("returns have the policy's λ", "self.gamma, self.value_lam)", "self.gamma, lam)"),
            ("returns are not discounted", "self.gamma, self.value_lam)", "1.0, self.value_lam)"),
            ("advantages are not discounted", "self.gamma, lam)", "1.0, lam)"),
            (
                "what is explained is measured on the advantages",
                "(values, returns, rollout.mask)",
                "(values, advantages, rollout.mask)",
            ),
        ],
        "test_critic_in_loop.py::test_its_first_step_goes_down_the_slope_of_the_value_loss": [
            ("the value loss is a mean", "* weights[rows]).sum()", "* weights[rows]).mean()"),
        ],
        "test_critic_in_loop.py::test_passes_and_micro_batches_do_not_change_a_run": [
            ("passes take the first weights", "* weights[rows])", "* weights[: len(rows)])"),
            ("passes take the first returns", "values, returns[rows]", "values, returns[: len(rows)]"),
            ("only the last pass is reported", "total += loss.item()", "total = loss.item()"),
        ],
        "test_critic_in_loop.py::test_a_clip_holds_the_values_near_the_old_ones": [
            ("the value clip is not handed on", "old[rows], self.clip)", "old[rows], None)"),
        ],
        "test_critic_in_loop.py::test_its_steps_lower_the_value_loss": [
            ("the critic takes one step", "range(1, self.steps + 1)", "range(1, 2)"),
        ],
        "test_critic_in_loop.py::test_no_response_has_a_say_in_its_own_baseline": [
            (
                "advantages are of the values after the steps",
                "        self.rollouts += 1\n",
                "        advantages, _ = gae(rewards, self.values(rollout), rollout.mask, self.gamma, lam)\n"
                "        self.rollouts += 1\n",
            ),
        ],
        "test_critic_in_loop.py::test_while_it_warms_up_the_policy_stands_still_to_the_bit": [
            (
                "the warm-up is a rollout short",
                "self.rollouts.item() <= self.warmup",
                "self.rollouts.item() < self.warmup",
            ),
            ("the warm-up never ends", "        self.rollouts += 1\n", ""),
            (
                "in the warm-up advantages count",
                "torch.zeros_like(advantages) if self.alone else advantages",
                "advantages",
            ),
        ],
        "test_critic_in_loop.py::test_the_body_is_copied_and_the_policy_is_no_part_of_the_critic": [
            ("the critic learns on the body itself", "self.body = copy.deepcopy(body)", "self.body = body"),
        ],
        "test_critic_in_loop.py::test_before_it_has_learned_it_knows_nothing": [
            ("the head starts anywhere", "        nn.init.zeros_(self.head.weight)\n", ""),
        ],
        "test_critic_in_loop.py::test_outside_the_mask_values_are_zero": [
            (
                "padding has a value",
                "features(prompts, responses, mask)).squeeze(-1).masked_fill(~mask, 0)",
                "features(prompts, responses, mask)).squeeze(-1)",
            ),
        ],
        "test_critic_in_loop.py::test_a_value_knows_the_prompt_and_what_was_written_before_and_nothing_else": [
            ("a token has a say in its own value", "pad(written, (0, 0, 1, -1)).cumsum(2)", "written.cumsum(2)"),
            ("float dust tells of the token", "pad(written, (0, 0, 1, -1)).cumsum(2)", "written.cumsum(2) - written"),
            ("only the last token is read", "pad(written, (0, 0, 1, -1)).cumsum(2)", "pad(written, (0, 0, 1, -1))"),
            ("the prompt is not read", "return (asked + before +", "return (0 * asked + before +"),
        ],
        "test_critic_in_loop.py::test_a_value_depends_on_the_place": [
            ("every place is the same", " + self.step[:length])", ")"),
        ],
        "test_critic_in_loop.py::test_equal_outcomes_leave_no_dust_and_no_explained_variance": [
            ("what is not defined is reported", "{} if isnan(explained) else", "{} if False else"),
        ],
        "test_checkpoint.py::test_a_run_with_a_critic_goes_on_to_the_bit": [
            ("the value's gradients pile up", "        self.optimizer.zero_grad(set_to_none=False)\n", ""),
        ],
        "llm/test_language_policy.py::test_a_critic_learns_beside_a_language_policy_and_both_resume_to_the_bit": [
            (
                "what no value needs has no moments",
                "weight.grad = torch.zeros_like(weight) if weight.requires_grad else None",
                "weight.grad = None",
            ),
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
        "test_shaping.py::test_shaped_adds_its_parts_to_the_tasks_own_reward": [
            (
                "long ones are paid in the loop",
                'rewards + self.weights["overlong"]',
                'rewards - self.weights["overlong"]',
            ),
            ("the length reward has no weight", 'rewards + self.weights["length"] * kimi', "rewards + kimi"),
            (
                "brevity pays what was rewarded",
                "kimi_length_reward(lengths, correct)",
                "kimi_length_reward(lengths, 0 * correct)",
            ),
        ],
        "test_shaping.py::test_the_buffer_is_a_fifth_of_what_is_allowed_and_at_least_a_token": [
            ("the buffer is a quarter", "max_length // 5", "max_length // 4"),
            ("there may be no buffer", "max(max_length // 5, 1)", "(max_length // 5)"),
        ],
        "test_shaping.py::test_the_length_reward_may_come_late": [
            (
                "the length reward comes an epoch late",
                "self.epoch >= self.length_from",
                "self.epoch > self.length_from",
            ),
        ],
        "test_shaping.py::test_an_unknown_part_is_refused": [
            ("unknown parts pass", "if unknown := weights.keys() - set(PARTS):", "if unknown := set():"),
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
    "recipes": {
        "test_recipes.py::test_loss_and_gradient_equal_the_papers_formula_in_plain_python[reinforce-None]": [
            (
                "REINFORCE averages over tokens",
                '{"aggregation": "constant", "constant": 1.0}',
                '{"aggregation": "sequence"}',
            ),
        ],
        "test_recipes.py::test_loss_and_gradient_equal_the_papers_formula_in_plain_python[rloo-None]": [
            ("RLOO's KL is in the loss", '"beta": 0.03, "kl": "k1", "kl_in": "reward"', '"beta": 0.03, "kl": "k1"'),
            ("RLOO is in its own baseline", '"delta": "leave_one_out"', '"delta": "centered"'),
        ],
        "test_recipes.py::test_loss_and_gradient_equal_the_papers_formula_in_plain_python[grpo-None]": [
            ("GRPO has another β", '"beta": 0.04', '"beta": 0.05'),
            ("GRPO has k2", '"kl": "k3"', '"kl": "k2"'),
        ],
        "test_recipes.py::test_loss_and_gradient_equal_the_papers_formula_in_plain_python[dr-grpo-None]": [
            ("Dr. GRPO divides by the length", '"delta": "centered", "aggregation": "constant"', '"delta": "centered"'),
        ],
        "test_recipes.py::test_loss_and_gradient_equal_the_papers_formula_in_plain_python[dapo-None]": [
            ("no clip is higher", '"clip_low": 0.2, "clip_high": 0.28}', '"clip_low": 0.2, "clip_high": 0.2}'),
            ("tied groups stay", '{"keep": "signal", "resample": 3}', '{"resample": 3}'),
            ("tied groups are not drawn anew", '"keep": "signal", "resample": 3}', '"keep": "signal"}'),
            (
                "DAPO averages over responses",
                '"aggregation": "token", **CLIP_HIGHER, **DYNAMIC',
                "**CLIP_HIGHER, **DYNAMIC",
            ),
        ],
        "test_recipes.py::test_loss_and_gradient_equal_the_papers_formula_in_plain_python[gpg-None]": [
            ("GPG makes up for nothing", '"delta": "rescaled"', '"delta": "centered"'),
        ],
        "test_recipes.py::test_loss_and_gradient_equal_the_papers_formula_in_plain_python[ppo-None]": [
            ("PPO's λ is 1", '"lam": 0.95, "value_lam": 0.95', '"lam": 1.0, "value_lam": 0.95'),
            ("PPO pays no price", '"beta": 0.02', '"beta": 0.0'),
        ],
        "test_recipes.py::test_loss_and_gradient_equal_the_papers_formula_in_plain_python[vapo-None]": [
            ("VAPO imitates less", '"positive_weight": 0.1', '"positive_weight": 0.01'),
            ("VAPO's λ is fixed", '"alpha": 0.05, ', ""),
        ],
        "test_recipes.py::test_loss_and_gradient_equal_the_papers_formula_in_plain_python[starpo-s-None]": [
            ("StarPO-S keeps half", '"keep_share": 0.25', '"keep_share": 0.5'),
            (
                "StarPO-S averages over tokens",
                '{"delta": "raw", "aggregation": "sequence"',
                '{"delta": "raw", "aggregation": "token"',
            ),
        ],
        "test_recipes.py::test_loss_and_gradient_equal_the_papers_formula_in_plain_python[kimi-k1.5-None]": [
            ("Kimi's τ is 1", '"tau": 0.1}', '"tau": 1.0}'),
            ("Kimi pays for length", 'reward={"length": 0.2}', 'reward={"length": -0.2}'),
        ],
        "test_recipes.py::test_loss_and_gradient_equal_the_papers_formula_in_plain_python[gspo-None]": [
            ("GSPO's ratio is a token's", '                "ratio": "sequence",\n', ""),
            ("GSPO's clips are swapped", '"clip_low": 3e-4,', '"clip_low": 5e-4,'),
        ],
        "test_recipes.py::test_loss_and_gradient_equal_the_papers_formula_in_plain_python[cispo-None]": [
            ("CISPO's weight is bounded from below", '"clip_low": 1.0,', '"clip_low": 0.2,'),
            ("CISPO clips as PPO does", '"loss": "clipped_weight"', '"loss": "clipped"'),
        ],
        "test_recipes.py::test_a_critic_learns_the_papers_returns": [
            ("PPO's returns are outcomes", '"lam": 0.95, "value_lam": 0.95', '"lam": 0.95, "value_lam": 1.0'),
        ],
        "test_recipes.py::test_vapo_and_no_other_lets_its_critic_learn_alone_at_first": [
            ("VAPO has no value pre-training", ', "warmup": 10}', "}"),
        ],
        "test_recipes.py::test_responses_are_fresh_where_nothing_corrects_for_old_ones": [
            ("plain policy gradients reuse responses", '{"loss": "naive", "inner_steps": 1}', '{"loss": "naive"}'),
        ],
        "test_recipes.py::test_a_setting_of_yours_wins_and_nothing_else_changes": [
            ("the recipe wins", "{**self.settings, **others}", "{**others, **self.settings}"),
        ],
        "test_recipes.py::test_a_critic_only_where_the_method_has_one_and_with_the_methods_numbers": [
            ("the recipe's critic wins", "{**self.critic, **others}", "{**others, **self.critic}"),
        ],
        "test_recipes.py::test_recipes_are_frozen": [
            ("settings can be changed", "MappingProxyType(dict(getattr(self, name)))", "dict(getattr(self, name))"),
        ],
        "test_recipes.py::test_a_recipe_that_no_loop_could_run_is_refused_when_made": [
            ("a recipe is checked when it runs", "        self.config()\n", ""),
        ],
        "test_recipes.py::test_an_unknown_recipe_is_refused_with_the_known_ones": [
            ("what is known is not said", "expected one of {', '.join(RECIPES)}", "expected another"),
        ],
    },
    "variants": {
        "test_variants.py::test_batch_normalized_has_one_scale_for_all_prompts": [
            ("the spread is that of the rewards", "differences / (differences.std()", "differences / (rewards.std()"),
            ("the spread is each prompt's", "(differences.std() + eps)", "(differences.std(-1, keepdim=True) + eps)"),
        ],
        "test_variants.py::test_where_all_are_tied_deltas_are_exactly_zero": [
            ("batch_normalized lacks ε", "(differences.std() + eps)", "differences.std()"),
        ],
        "test_variants.py::test_rescaled_is_what_is_left_when_tied_groups_are_not_counted": [
            ("nothing is made up for", "max(len(with_signal(rewards)), 1)", "len(rewards)"),
            ("responses are counted for groups", "* len(rewards) /", "* rewards.numel() /"),
        ],
        "test_variants.py::test_every_token_has_the_mean_ratio_of_its_response": [
            ("the ratio is the product", " / mask.sum(-1, keepdim=True).clamp(min=1)", ""),
            ("the root is the tensor's length", "mask.sum(-1, keepdim=True).clamp(min=1)", "mask.shape[-1]"),
            (
                "the old policy is in the graph",
                "(log_probs - old_log_probs.detach()).masked_fill",
                "(log_probs - old_log_probs).masked_fill",
            ),
        ],
        "test_variants.py::test_what_stands_outside_the_mask_is_not_in_the_mean_ratio": [
            (
                "padding is in the mean ratio",
                "(log_probs - old_log_probs.detach()).masked_fill(~mask, 0)",
                "(log_probs - old_log_probs.detach())",
            ),
        ],
        "test_variants.py::test_clipped_weight_is_a_policy_gradient_with_a_bounded_weight": [
            ("the weight is in the graph", "old_log_probs).detach().clamp(", "old_log_probs).clamp("),
            ("small weights are not bounded", "clamp(1 - clip_low, 1 + clip_high)", "clamp(max=1 + clip_high)"),
            ("large weights are not bounded", "clamp(1 - clip_low, 1 + clip_high)", "clamp(min=1 - clip_low)"),
        ],
        "test_variants.py::test_squared_is_the_square_of_a_whole_response_at_each_of_its_tokens": [
            (
                "the drift is a mean",
                ".sum(-1, keepdim=True)\n    return (spread",
                ".mean(-1, keepdim=True)\n    return (spread",
            ),
            ("drifting is paid", "(spread(deltas) - tau * drift)", "(spread(deltas) + tau * drift)"),
            ("nothing is squared", "* drift).square()", "* drift).abs()"),
        ],
    },
    "objective": {
        "test_variants.py::test_what_is_imitated_is_a_mean_over_right_tokens_whatever_adds_up_the_rest": [
            ("what is imitated is weighed twice", "positive / weights.where(weights > 0, 1)", "positive"),
            ("every reward above 0 is right", "rewards > config.positive_above", "rewards > 0"),
            ("wrong responses are imitated", "(rollout.rewards > config", "(rollout.rewards < config"),
            (
                "right responses are unlearned",
                "losses - rollout.imitation * log_probs",
                "losses + rollout.imitation * log_probs",
            ),
            ("imitation has no weight", "imitation=config.positive_weight * relative", "imitation=relative"),
        ],
        "test_variants.py::test_without_right_responses_there_is_nothing_to_imitate": [
            ("a reward of 0 is right", "(rollout.rewards > config", "(rollout.rewards >= config"),
        ],
        "test_variants.py::test_a_response_that_is_imitated_is_not_silent": [
            (
                "who is imitated may be silent",
                "spread(deltas) if rollout.imitation is None else",
                "spread(deltas) if True else",
            ),
        ],
        "test_variants.py::test_squared_pulls_back_a_response_that_is_neither_good_nor_bad": [
            ("a square may be silent", 'pulled = config.loss == "squared" or ', "pulled = "),
        ],
        "test_variants.py::test_a_clip_of_whole_responses_keeps_or_drops_them": [
            (
                "every ratio is a token's",
                'if config.ratio == "sequence" else log_probs',
                'if config.ratio == "" else log_probs',
            ),
        ],
        "test_variants.py::test_a_kl_in_the_loss_stays_one_of_each_token": [
            (
                "the KL is of the whole response",
                "KL[config.kl](log_probs, rollout.ref_log_probs)",
                "KL[config.kl](current, rollout.ref_log_probs)",
            ),
        ],
        "test_variants.py::test_the_dual_clip_of_the_config_reaches_the_loss": [
            ("the dual clip is not handed on", '"clipped": (*clip, config.dual_clip)', '"clipped": clip'),
        ],
        "test_variants.py::test_every_delta_and_loss_of_the_config_can_be_chosen": [
            ("τ is not handed on", '"squared": (config.tau,)', '"squared": ()'),
            ("a weight's clip is not handed on", '"clipped_weight": clip', '"clipped_weight": ()'),
        ],
    },
    "losses": {
        "test_variants.py::test_the_dual_clip_equals_its_formula_in_plain_python": [
            ("the dual clip is a floor", "losses.minimum(dual_clip", "losses.maximum(dual_clip"),
            ("the dual clip forgets how bad a token is", "dual_clip * deltas.abs()", "dual_clip * deltas.abs().sign()"),
        ],
    },
    "groups": {
        "test_groups.py::test_groups_with_signal_are_those_whose_rewards_differ": [
            (
                "all must differ from the first",
                "(rewards != rewards[:, :1]).any(-1)",
                "(rewards != rewards[:, :1]).all(-1)",
            ),
            ("tied groups are kept", "(rewards != rewards[:, :1])", "(rewards == rewards[:, :1])[:, 1:]"),
        ],
        "test_groups.py::test_the_most_varied_are_a_share_by_std_in_their_order": [
            ("the least varied are kept", "descending=True", "descending=False"),
            ("nothing may be kept", "max(round(share * len(rewards)), 1)", "round(share * len(rewards))"),
            ("kept groups change places", "[:count].sort().values", "[:count]"),
            ("shares are rounded down", "max(round(share", "max(int(share"),
        ],
        "test_groups.py::test_batches_are_drawn_until_enough_groups_are_kept": [
            ("one batch fewer is drawn", "len(rollouts) <= config.resample", "len(rollouts) < config.resample"),
            ("batches are drawn though there are enough", "len(kept) < config.batch_size and len", "len"),
            ("more than a batch is kept", ", kept[: config.batch_size]", ", kept"),
        ],
        "test_groups.py::test_more_than_a_batch_of_varied_groups_is_cut_to_the_most_varied": [
            (
                "the last ones are cut",
                "min(config.keep_share, config.batch_size / len(rewards))",
                "config.keep_share",
            ),
        ],
        "test_groups.py::test_joined_pads_prompts_on_the_left_and_responses_on_the_right": [
            ("prompts are padded behind", "left=True, value=pad_id", "value=pad_id"),
            ("prompts are padded with token 0", "left=True, value=pad_id", "left=True"),
            ("responses are padded in front", "else stacked(each) for name", "else stacked(each, left=True) for name"),
            (
                "time is not added up",
                'sum(each) if name.startswith("seconds")',
                'each[0] if name.startswith("seconds")',
            ),
        ],
    },
    "config": {
        "test_variants.py::test_a_dual_clip_that_would_silence_fresh_responses_is_refused": [
            ("a dual clip may be 1", "self.dual_clip <= 1", "self.dual_clip < 0"),
        ],
        "test_variants.py::test_what_compares_responses_needs_two_of_them": [
            (
                "a group of one may be compared",
                'self.keep != "all" and self.group_size < 2',
                'self.keep != "all" and False',
            ),
            ("a share may be more than all", "if self.keep_share > 1:", "if self.keep_share > 2:"),
        ],
    },
    "train": {
        "test_groups.py::test_metrics_count_all_that_was_sampled": [
            (
                "what was dropped is not counted",
                'describe_rollout(f"epoch {state.epoch}", rollout, policy)',
                'describe_rollout(f"epoch {state.epoch}", rollout.rows(kept), policy)',
            ),
            ("kept groups are a share of a batch", "len(kept) / len(rollout.rewards)", "len(kept) / config.batch_size"),
        ],
        "test_groups.py::test_the_gradient_is_that_of_the_kept_groups_alone": [
            ("dropped groups are learned from", "rollout.rows(kept) if len(kept) else rollout", "rollout"),
        ],
        "test_critic_in_loop.py::test_while_it_warms_up_the_policy_stands_still_to_the_bit": [
            (
                "what is no advantage moves the policy in the warm-up",
                "if state.critic.alone else config",
                "if False else config",
            ),
        ],
        "test_variants.py::test_the_learning_rate_grows_over_the_first_gradient_steps": [
            (
                "the learning rate grows on",
                "min(1, (done + step) / max(config.warmup_steps, 1))",
                "(done + step) / max(config.warmup_steps, 1)",
            ),
            ("every epoch warms up", "max(state.epoch - 1, 0) * config.inner_steps", "0"),
            (
                "the learning rate grows by epochs",
                "max(state.epoch - 1, 0) * config.inner_steps",
                "max(state.epoch - 1, 0)",
            ),
        ],
        "test_variants.py::test_where_whole_responses_are_clipped_the_metrics_count_them": [
            ("the metrics count tokens", '    if config.ratio == "sequence":\n', "    if False:\n"),
        ],
        "test_critic_in_loop.py::test_a_critic_needs_rewards_as_they_are": [
            ("a critic judges any delta", 'config.delta != "raw":', 'config.delta == "":'),
        ],
        "test_recipes.py::test_loss_and_gradient_equal_the_papers_formula_in_plain_python[grpo-None]": [
            (
                "a KL in the loss is paid in the reward too",
                'if config.beta and config.kl_in == "reward":',
                "if config.beta:",
            ),
        ],
    },
    "checkpoint": {
        "test_checkpoint.py::test_a_run_with_a_critic_goes_on_to_the_bit": [
            ("the critic starts anew", '        _load_model(critic, path / "critic.safetensors")\n', ""),
            (
                "the critic's moments start anew",
                '        _load_moments(path / "critic_optimizer.safetensors", critic, critic.optimizer)\n',
                "",
            ),
        ],
        "test_checkpoint.py::test_a_critic_is_asked_for_where_there_was_one_and_refused_where_there_was_none": [
            ("a critic may be forgotten", "if (critic is not None) != (path", "if (critic is not None) > (path"),
        ],
    },
    "llm.policy": {
        "llm/test_language_policy.py::test_features_equal_one_row_at_a_time": [
            (
                "features go to the first places",
                "features.index_copy(0, places,",
                "features.index_copy(0, torch.arange(len(places)),",
            ),
        ],
        "llm/test_language_policy.py::test_log_probs_can_be_read_from_the_features": [
            ("features are of half precision", "hidden.to(wide))", "hidden.bfloat16().to(wide))"),
        ],
        "llm/test_language_policy.py::test_where_there_are_no_tokens_there_are_no_values": [
            ("features without tokens are of another type", "device=self.device, dtype=wide)", "device=self.device)"),
        ],
    },
}
