"""Policies: what one must offer, and the lecture's sorting model."""

from typing import Protocol

import torch
from einops import einsum, rearrange
from jaxtyping import Float
from torch import Tensor, nn

from minirl.metrics import stop_if_not_finite
from minirl.rollout import Mask, PerToken, Prompts, Responses


class Policy(Protocol):
    """π(response | prompt), an nn.Module. Scores are 0 where `mask` is False. `greedy` and `score` are optional."""

    def sample(self, prompts: Prompts, group_size: int, generator=None) -> tuple[Responses, Mask]: ...
    def greedy(self, prompts: Prompts) -> tuple[Responses, Mask]: ...
    def log_probs(self, prompts: Prompts, responses: Responses, mask: Mask) -> PerToken: ...
    def score(self, prompts: Prompts, responses: Responses, mask: Mask) -> tuple[PerToken, PerToken]: ...


class ScoredByLogits(nn.Module):
    """Scores, in nats, for a policy that has `logits(prompts, responses) -> Float[batch, group or 1, token, vocab]`."""

    def log_probs(self, prompts: Prompts, responses: Responses, mask: Mask) -> PerToken:
        """log π(token): log softmax of the logits, gathered at the tokens that were sampled."""
        log_p = self.logits(prompts, responses).log_softmax(-1).expand(-1, responses.shape[1], -1, -1)
        return log_p.gather(-1, responses[..., None]).squeeze(-1).masked_fill(~mask, 0)

    def entropy(self, prompts: Prompts, responses: Responses, mask: Mask) -> PerToken:
        """−Σ p log p over the whole vocabulary; the sampled −log p only estimates it."""
        probs = self.logits(prompts, responses).softmax(-1)
        return torch.special.entr(probs).sum(-1).masked_fill(~mask, 0)

    def score(self, prompts: Prompts, responses: Responses, mask: Mask) -> tuple[PerToken, PerToken]:
        """Log-probs and entropy, for which a large model needs no second pass."""
        return self.log_probs(prompts, responses, mask), self.entropy(prompts, responses, mask)


class SortingPolicy(ScoredByLogits):
    """The lecture's model: it decodes every response position on its own, without looking at the others.

    logits[t] = E · D_t · Σ_s C_s · E[prompt_s]: an encoding matrix C_s per prompt position, a decoding matrix D_t per
    response position, tied embeddings E. `init_scale` multiplies every D_t: 1 is the lecture's start, nearly
    deterministic before any training; 0.1 starts close to uniform, so that there is something to explore.
    """

    end_token = None

    def __init__(self, vocab_size=5, length=3, dim=10, init_scale: float = 0.1, seed: int | None = None):
        super().__init__()
        generator = None if seed is None else torch.Generator().manual_seed(seed)
        self.vocab_size, self.length = vocab_size, length
        self.embedding = nn.Parameter(torch.randn(vocab_size, dim, generator=generator))
        self.encode = nn.Parameter(torch.randn(length, dim, dim, generator=generator) / dim**0.5)
        self.decode = nn.Parameter(torch.randn(length, dim, dim, generator=generator) / dim**0.5 * init_scale)

    def position_logits(self, prompts: Prompts) -> Float[Tensor, "batch token vocab"]:
        """The logits of each response position: the whole model."""
        encoded = einsum(self.embedding[prompts], self.encode, "batch source i, source i j -> batch j")
        decoded = einsum(encoded, self.decode, "batch i, target i j -> batch target j")
        return einsum(decoded, self.embedding, "batch target j, vocab j -> batch target vocab")

    def logits(self, prompts: Prompts, responses: Responses) -> Float[Tensor, "batch 1 token vocab"]:
        """The same for every response of a group, since no position looks at another."""
        return self.position_logits(prompts)[:, None]

    @torch.no_grad()
    def sample(self, prompts: Prompts, group_size: int, generator=None) -> tuple[Responses, Mask]:
        logits = rearrange(self.position_logits(prompts), "batch token vocab -> (batch token) vocab")
        stop_if_not_finite("sampling", "logits", logits)
        drawn = torch.multinomial(logits.softmax(-1), group_size, replacement=True, generator=generator)
        responses = rearrange(drawn, "(batch token) group -> batch group token", batch=len(prompts))
        return responses, torch.ones_like(responses, dtype=torch.bool)

    @torch.no_grad()
    def greedy(self, prompts: Prompts) -> tuple[Responses, Mask]:
        responses = self.position_logits(prompts).argmax(-1)[:, None]
        return responses, torch.ones_like(responses, dtype=torch.bool)
