"""A critic's arithmetic: from rewards per token and a value for each prefix to advantages, and the loss of the values.

`values[t]` is V(prompt, tokens before t), what the critic expects still to come when token t is about to be written. It
has no say in what token t was, so it is a baseline. Tokens outside the mask do not exist here: those inside follow one
another, holes or not, and after the last of them the value is 0. Left out: the network that makes the values; a value
after a response that was cut off, which here ends like any other.
"""

import torch
from jaxtyping import Float, Real
from torch import Tensor

from minirl.rollout import Mask, PerResponse, PerToken


@torch.no_grad()
def gae(
    rewards: PerToken, values: PerToken, mask: Mask, gamma: float = 1.0, lam: float | PerResponse = 1.0
) -> tuple[PerToken, PerToken]:
    """A_t = Σ_k (γλ)^k·(r_{t+k} + γ·V_{t+k+1} − V_{t+k}) and returns A + V, 0 outside the mask (arXiv:1506.02438).

    λ = 1, γ = 1: the rewards still to come, less V_t; unbiased whatever V is. λ = 0: the error of one step, of little
    noise and with all of V's bias. Under the exact value and γ = 1, every λ in between gives the same policy gradient.
    VAPO's decoupled GAE is two calls: advantages with one λ, returns with another. `lam` may be one per response.
    """
    _check_share("gamma", gamma)
    _check_share("lam", lam)
    returns = torch.zeros_like(rewards + values)
    next_value = next_return = rewards.new_zeros(rewards.shape[:2])
    for t in reversed(range(mask.shape[-1])):
        # A + V backwards: at γ = λ = 1 no value is added and taken away again, so equal outcomes leave no float dust.
        to_come = (1 - lam) * next_value + lam * next_return
        next_return = (rewards[..., t] + gamma * to_come).where(mask[..., t], next_return)
        next_value = values[..., t].where(mask[..., t], next_value)
        returns[..., t] = next_return
    return (returns - values).masked_fill(~mask, 0), returns.masked_fill(~mask, 0)


def value_loss(
    values: PerToken, returns: PerToken, old_values: PerToken | None = None, clip: float | None = None
) -> PerToken:
    """½(V − R)², or with `clip` ½·max((V − R)², (V held within ±clip of V_old − R)²) (PPO's code, arXiv:2005.12729).

    Unreduced: `token_weights` add it up, as they do a policy's loss. R and V_old are targets, without a graph. Clipped,
    a value gets no gradient once it is further than `clip` from V_old and nearer to R than the held one; `clip` is in
    units of reward, so it fits one scale of rewards only.
    """
    returns = returns.detach()
    loss = (values - returns) ** 2 / 2
    if clip is None:
        return loss
    if old_values is None or not clip > 0:
        raise ValueError(f"clip holds values near the old ones: it must be positive and needs old_values; got {clip}")
    old_values = old_values.detach()
    held = values.clamp(old_values - clip, old_values + clip)
    return loss.maximum((held - returns) ** 2 / 2)


def length_adaptive_lambda(lengths: Real[Tensor, "*axes"], alpha: float = 0.05) -> Float[Tensor, "*axes"]:
    """λ = 1 − 1/(α·length), but at least 0: errors count over about α·length tokens (VAPO, arXiv:2504.05118).

    Responses of up to 1/α tokens get λ = 0. The length is not known while a token is written: with a λ that depends on
    it, even the exact value leaves a bias in the policy gradient.
    """
    if not alpha > 0:
        raise ValueError(f"alpha is a share of the length and must be positive; got {alpha}")
    return (1 - 1 / (alpha * lengths)).clamp(min=0)


def explained_variance(values: PerToken, returns: PerToken, mask: Mask) -> float:
    """1 − Var(R − V) / Var(R) over the tokens inside the mask; nan where all returns are equal.

    1 for a perfect critic, 0 for one that knows no more than a constant, negative for one that does harm. Blind to
    values that are all wrong by the same amount, which the loss sees.
    """
    values, returns = values[mask].double(), returns[mask].double()
    if (returns == returns[:1]).all():
        return float("nan")
    return 1 - ((returns - values).var() / returns.var()).item()


def _check_share(name: str, share: float | Tensor) -> None:
    share = torch.as_tensor(share)
    wrong = share[~((share >= 0) & (share <= 1))]
    if len(wrong):
        raise ValueError(f"{name} is a share of what comes later and must lie between 0 and 1; got {wrong[0].item():g}")
