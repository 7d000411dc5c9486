"""A critic: from rewards per token and a value for each prefix to advantages, and the network that learns the values.

`values[t]` is V(prompt, tokens before t), what the critic expects still to come when token t is about to be written. It
has no say in what token t was, so it is a baseline. Tokens outside the mask do not exist here: those inside follow one
another, holes or not, and after the last of them the value is 0. Left out: a trunk that policy and critic share, which
would tie their learning rates; a value after a response that was cut off, which here ends like any other.
"""

import copy
from math import isnan

import torch
from jaxtyping import Float, Real
from torch import Tensor, nn
from torch.nn.functional import pad

from minirl.metrics import stop_if_not_finite
from minirl.rollout import Mask, PerResponse, PerToken, Prompts, Responses, Rollout


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


class Critic(nn.Module):
    """V(prompt, prefix), learned beside a policy: `train(…, critic=…)` takes its advantages for the deltas.

    A value head, at first 0, on a copy of `body`: any module with `width` and `features(prompts, responses, mask)` of
    shape [batch group token width], made of the prompt and the tokens before t. A LanguagePolicy is one.
    After each rollout: advantages by GAE with γ and λ = `lam`, then `steps` steps of Adam on the value loss, whose
    returns have a λ of their own, `value_lam` (VAPO's decoupled GAE). `alpha` puts VAPO's length-adaptive λ for `lam`.
    From its first `warmup` rollouts only the critic learns: advantages are 0 (value pre-training, warm-up).
    """

    def __init__(
        self,
        body,
        *,
        learning_rate: float = 1e-2,
        steps: int = 4,
        gamma: float = 1.0,
        lam: float = 1.0,
        value_lam: float = 1.0,
        alpha: float | None = None,
        clip: float | None = None,
        warmup: int = 0,
        rows_per_pass: int | None = None,
    ):
        super().__init__()
        if not (hasattr(body, "features") and hasattr(body, "width")):
            wanted = "expected a body such as a LanguagePolicy, or a PrefixReader for a toy"
            raise ValueError(f"a critic reads features, which {type(body).__name__} does not have; {wanted}")
        for name, share in {"gamma": gamma, "lam": lam, "value_lam": value_lam}.items():
            _check_share(name, share)
        if steps < 1 or warmup < 0 or not learning_rate > 0:
            raise ValueError(
                f"a critic needs learning_rate > 0, steps ≥ 1 and warmup ≥ 0; got {learning_rate}, {steps} and {warmup}"
            )
        self.steps, self.warmup, self.clip, self.rows_per_pass = steps, warmup, clip, rows_per_pass
        self.gamma, self.lam, self.value_lam, self.alpha = gamma, lam, value_lam, alpha
        self.body = copy.deepcopy(body)
        like = next(self.body.parameters())
        self.head = nn.Linear(body.width, 1).to(like.device, like.dtype)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        self.register_buffer("rollouts", torch.zeros((), dtype=torch.long))
        self.optimizer = torch.optim.Adam(self.parameters(), lr=learning_rate, fused=True)
        for weight in self.parameters():  # one that no value needs has moments all the same, and a checkpoint all
            weight.grad = torch.zeros_like(weight) if weight.requires_grad else None

    def forward(self, prompts: Prompts, responses: Responses, mask: Mask) -> PerToken:
        """The value before each token, 0 outside the mask; differentiable."""
        return self.head(self.body.features(prompts, responses, mask)).squeeze(-1).masked_fill(~mask, 0)

    def values(self, rollout: Rollout) -> PerToken:
        """The same for a rollout, without a graph, in passes of `rows_per_pass` prompts."""
        with torch.no_grad():
            return torch.cat([self(part.prompts, part.responses, part.mask) for _, part in self._parts(rollout)])

    def judge(self, rollout: Rollout, price: PerToken, weights: PerToken, where: str) -> tuple[PerToken, dict]:
        """Advantages of a rollout, and then the critic learns from it; `price` is what each token pays for its KL.

        The advantages come from the values before that, so no response has a say in its own baseline. `weights` add up
        the value loss as they do the policy's. Reports the last value loss, and the explained variance before learning
        where it is defined.
        """
        values, rewards = self.values(rollout), at_the_last_token(rollout.rewards, rollout.mask) - price
        lam = self.lam if self.alpha is None else length_adaptive_lambda(rollout.mask.sum(-1), self.alpha)
        advantages, _ = gae(rewards, values, rollout.mask, self.gamma, lam)
        _, returns = gae(rewards, values, rollout.mask, self.gamma, self.value_lam)
        explained = explained_variance(values, returns, rollout.mask)
        for step in range(1, self.steps + 1):
            loss = self._learn(rollout, returns, values, weights, f"{where}, the critic's step {step}")
        self.rollouts += 1
        metrics = {"value_loss": loss} | ({} if isnan(explained) else {"explained_variance": explained})
        return (torch.zeros_like(advantages) if self.alone else advantages), metrics

    @property
    def alone(self) -> bool:
        """Whether the policy did not learn from the last rollout that was judged."""
        return self.rollouts.item() <= self.warmup

    def _parts(self, rollout: Rollout):
        for rows in torch.arange(len(rollout.rewards)).split(self.rows_per_pass or len(rollout.rewards)):
            yield rows, rollout.rows(rows)

    def _learn(self, rollout: Rollout, returns: PerToken, old: PerToken, weights: PerToken, where: str) -> float:
        self.optimizer.zero_grad(set_to_none=False)
        total = 0.0
        for rows, part in self._parts(rollout):
            values = self(part.prompts, part.responses, part.mask)
            loss = (value_loss(values, returns[rows], old[rows], self.clip) * weights[rows]).sum()
            stop_if_not_finite(where, "value loss", loss)
            loss.backward()
            total += loss.item()
        self.optimizer.step()
        stop_if_not_finite(where, "value loss", *self.parameters())
        return total


class PrefixReader(nn.Module):
    """A body for a toy's critic: what was asked and what was written, one-hot by place, through a layer of tanh.

    A policy whose positions do not look at one another knows nothing of its own prefix; a value has to.
    """

    def __init__(self, vocab_size: int, length: int, prompt_length: int, width: int = 32, seed: int | None = None):
        super().__init__()
        generator = None if seed is None else torch.Generator().manual_seed(seed)
        self.vocab_size, self.width = vocab_size, width
        self.asked = nn.Parameter(torch.randn(prompt_length, vocab_size, width, generator=generator))
        self.written = nn.Parameter(torch.randn(length, vocab_size, width, generator=generator))
        self.step = nn.Parameter(torch.randn(length, width, generator=generator))

    def features(self, prompts: Prompts, responses: Responses, mask: Mask) -> Float[Tensor, "batch group token width"]:
        asked = self.asked[torch.arange(prompts.shape[1]), prompts].sum(1)[:, None, None]
        length = responses.shape[-1]
        written = self.written[torch.arange(length), responses]
        before = pad(written, (0, 0, 1, -1)).cumsum(2)  # what stands at t has no say in V before t
        return (asked + before + self.step[:length]).tanh()


def at_the_last_token(rewards: PerResponse, mask: Mask) -> PerToken:
    """The outcome at the last token inside the mask, 0 elsewhere; a response without tokens has nowhere to put it."""
    return (mask & (mask.cumsum(-1) == mask.sum(-1, keepdim=True))) * rewards[..., None]


def _check_share(name: str, share: float | Tensor) -> None:
    share = torch.as_tensor(share)
    wrong = share[~((share >= 0) & (share <= 1))]
    if len(wrong):
        raise ValueError(f"{name} is a share of what comes later and must lie between 0 and 1; got {wrong[0].item():g}")
