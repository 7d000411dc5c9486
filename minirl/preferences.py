"""Which of two responses is better: pairs from a true reward, Bradley–Terry scores, and losses that learn from pairs.

A policy enters as the summed log-probs of the chosen and of the rejected responses, in nats, and every loss here is
Bradley–Terry's on some reward. Left out: soft labels, rankings of more than two, a reward model's network; whatever
gives each response a number can be trained with `bradley_terry`.
"""

import torch
from jaxtyping import Bool, Float, Float64, Int, Real
from torch import Tensor
from torch.nn.functional import logsigmoid

from minirl.metrics import stop_if_not_finite
from minirl.rollout import Mask, PerResponse, Prompts, Responses

Pairs = Float[Tensor, "*pairs"]
Lengths = Real[Tensor, "*pairs"]  # in tokens
PairIndex = Int[Tensor, " pairs"]


def bradley_terry(chosen_rewards: Pairs, rejected_rewards: Pairs) -> Pairs:
    """−log σ(r_c − r_r), where σ(r_c − r_r) is the chance that c beats r (Bradley and Terry 1952; arXiv:2203.02155).

    Only differences count: adding a constant to every reward of a prompt changes nothing.
    """
    return -logsigmoid(chosen_rewards - rejected_rewards)


def implied_reward(log_probs: Pairs, ref_log_probs: Pairs, beta: float) -> Pairs:
    """r̂ = β·(log π − log π_ref): the reward, but for a constant per prompt, whose best policy at KL weight β is π.

    π_ref is frozen: left in the graph, a policy compared with itself would have no gradient (DPO, arXiv:2305.18290).
    """
    return _positive(beta) * (log_probs - ref_log_probs.detach())


def dpo(chosen: Pairs, rejected: Pairs, ref_chosen: Pairs, ref_rejected: Pairs, beta: float) -> Pairs:
    """−log σ(β·(log π/π_ref of the chosen − log π/π_ref of the rejected)) (DPO, arXiv:2305.18290).

    Least at π ∝ π_ref·exp(r/β) for pairs that reward r draws at noise 1; at noise 0 it has no least, and π runs away.
    """
    return bradley_terry(implied_reward(chosen, ref_chosen, beta), implied_reward(rejected, ref_rejected, beta))


def dpo_gradient_weight(chosen: Pairs, rejected: Pairs, ref_chosen: Pairs, ref_rejected: Pairs, beta: float) -> Pairs:
    """β·σ(r̂_r − r̂_c), the weight w in ∇dpo = −w·(∇log π(chosen) − ∇log π(rejected)) (arXiv:2305.18290).

    Near β where the implied rewards have the pair the wrong way round, near 0 where they are sure and right.
    """
    margin = implied_reward(chosen, ref_chosen, beta) - implied_reward(rejected, ref_rejected, beta)
    return beta * (-margin).sigmoid().detach()


def length_normalized_dpo(
    chosen: Pairs,
    rejected: Pairs,
    ref_chosen: Pairs,
    ref_rejected: Pairs,
    chosen_len: Lengths,
    rejected_len: Lengths,
    beta: float,
) -> Pairs:
    """DPO on log π/π_ref per token, each response's own divided by its length (Tülu 3, arXiv:2411.15124).

    Length alone no longer makes an implied reward large; β must grow by about a length to weigh as much as before.
    """
    return dpo(
        per_token(chosen, chosen_len),
        per_token(rejected, rejected_len),
        per_token(ref_chosen, chosen_len),
        per_token(ref_rejected, rejected_len),
        beta,
    )


def simpo(
    chosen: Pairs, rejected: Pairs, chosen_len: Lengths, rejected_len: Lengths, beta: float, margin: float
) -> Pairs:
    """−log σ(β·mean log π(chosen) − β·mean log π(rejected) − margin), means per token (SimPO, arXiv:2405.14734).

    No reference to store or score, and so nothing that holds the policy near its start.
    """
    chosen_reward = _positive(beta) * per_token(chosen, chosen_len)
    return bradley_terry(chosen_reward - margin, beta * per_token(rejected, rejected_len))


def per_token(log_probs: Pairs, lengths: Lengths) -> Pairs:
    """Σ log π / length, in nats per token."""
    if not (lengths >= 1).all():
        raise ValueError(f"a mean per token needs at least one token; got a length of {lengths.min().item()}")
    return log_probs / lengths


def response_log_probs(policy, prompts: Prompts, responses: Responses, mask: Mask) -> PerResponse:
    """log π(response | prompt) = Σ_t log π(token_t | prompt, tokens before it), over the tokens inside the mask."""
    return policy.log_probs(prompts, responses, mask).sum(-1)


def sample_pairs(rewards: PerResponse, noise: float, generator=None) -> tuple[PairIndex, PairIndex]:
    """Compares every two responses of a group once: i beats j with chance σ((r_i − r_j)/noise) (Bradley–Terry).

    Returns where the chosen and the rejected stand in `values.flatten()`, for `values` of shape [batch group]. With
    noise 0 the better one always wins. Equal rewards make no pair, whatever the noise. Pairs that share a response are
    not independent; for pairs that are, pass groups of two.
    """
    stop_if_not_finite("drawing pairs", "rewards", rewards)
    if not noise >= 0:
        raise ValueError(f"noise is the temperature of the comparisons and must be at least 0; got {noise}")
    batch, group = rewards.shape
    first, second = torch.triu_indices(group, group, offset=1, device=rewards.device)
    gap = rewards[:, first] - rewards[:, second]
    chance = (gap / noise).sigmoid() if noise else (gap > 0).to(gap)
    won = torch.rand(gap.shape, generator=generator, dtype=gap.dtype, device=gap.device) < chance
    start = group * torch.arange(batch, device=rewards.device)[:, None]
    chosen, rejected = torch.where(won, first, second), torch.where(won, second, first)
    return (start + chosen)[gap != 0], (start + rejected)[gap != 0]


def fit_bradley_terry(wins: Real[Tensor, "items items"]) -> Float64[Tensor, " items"]:
    """The scores, of mean 0, under which `wins` is most likely: the least Σ_ij wins_ij·bradley_terry(s_i, s_j).

    `wins[i, j]` counts how often i beat j; half a win each for a tie. By Newton's method, since the sum is convex. Its
    least exists only if wins lead from every item to every other (Ford 1957): who never lost would be infinitely good.
    """
    wins = wins.double()
    _check_comparisons(wins)
    scores = wins.new_zeros(len(wins))
    for _ in range(1000):
        chance = (scores[:, None] - scores).sigmoid()  # chance.T is 1 − chance, without its rounding
        surprise = wins * chance.T
        curvature = (wins + wins.T) * chance * chance.T
        hessian = curvature.sum(1).diag() - curvature + curvature.mean()  # the mean holds the sum of the scores at 0
        step = torch.linalg.solve(hessian, (surprise - surprise.T).sum(1))
        longest = step.max() - step.min()
        if longest < 1e-9:
            return scores + step - (scores + step).mean()
        # A full step may overshoot. Along it the curvature grows at most like exp(longest·t): this t surely descends.
        scores = scores + step * longest.log1p() / longest
    raise FloatingPointError("fitting: 1000 steps did not settle; likely cause: a win so rare that it is none")


NEVER_MET = "items {} and {} were never compared, not even by way of others: their scores have no common zero"
NEVER_BEATEN = "item {} never beat item {}, not even by way of others: a score would be infinite; compare more often"


def _check_comparisons(wins: Float64[Tensor, "items items"]) -> None:
    """ValueError unless each item has beaten each other one, perhaps by way of others."""
    if len(wins) < 2:
        raise ValueError(f"scores compare at least two items; got {len(wins)}")
    if not (wins.isfinite() & (wins >= 0)).all() or wins.diagonal().any():
        raise ValueError("wins counts who beat whom: finite, at least 0, and 0 for an item against itself")
    for edges, complaint in ((wins + wins.T > 0, NEVER_MET), (wins > 0, NEVER_BEATEN)):
        for pair in (~_reachable(edges)).nonzero()[:1]:
            raise ValueError(complaint.format(*pair.tolist()))


def _reachable(edges: Bool[Tensor, "items items"]) -> Bool[Tensor, "items items"]:
    """Whether a path leads from i to j, for all i and j: paths of up to 1, 2, 4, 8, … edges."""
    paths = (edges | torch.eye(len(edges), dtype=torch.bool, device=edges.device)).double()
    for _ in range(len(edges).bit_length()):
        paths = (paths @ paths > 0).double()
    return paths > 0


def _positive(beta: float) -> float:
    if not beta > 0:
        raise ValueError(f"beta scales the implied reward and must be positive; got {beta}")
    return beta
