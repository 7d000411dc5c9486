"""The task: read n numbers, answer with the same numbers in ascending order (CS336 lecture 17)."""

import torch

from minirl.rollout import Batch, Mask, PerResponse, Prompts, Responses

LECTURE_PROMPTS = torch.tensor([[1, 0, 2], [3, 2, 4], [1, 2, 3]])


def exact_match(prompts: Prompts, responses: Responses) -> PerResponse:
    """1 if the response is sorted(prompt), else 0: right, but silent about near misses."""
    return position_match(prompts, responses).eq(prompts.shape[1]).float()


def position_match(prompts: Prompts, responses: Responses) -> PerResponse:
    """Number of positions where the response equals sorted(prompt), 0 to length."""
    return (responses == prompts.sort(-1).values[:, None]).sum(-1).float()


def inclusion_ordering(prompts: Prompts, responses: Responses) -> PerResponse:
    """One point per prompt token that occurs in the response, one per adjacent pair x ≤ y: 0 to 2·length − 1.

    Its partial credit has a loophole: [1, 1, 2] answered by [1, 2, 2] earns the full 5.
    """
    included = (prompts[:, None, :, None] == responses[:, :, None, :]).any(-1).sum(-1)
    ordered = (responses[..., :-1] <= responses[..., 1:]).sum(-1)
    return (included + ordered).float()


REWARDS = {reward.__name__: reward for reward in (exact_match, position_match, inclusion_ordering)}


def all_prompts(vocab_size: int, length: int) -> Prompts:
    """All vocab_size ** length sequences in lexicographic order; more than a million are refused."""
    if vocab_size < 1 or length < 1 or vocab_size**length > 1_000_000:
        count = f"{vocab_size} tokens, length {length}"
        raise ValueError(f"cannot list all sequences ({count}): expected 1 to 1,000,000 of them; use a smaller task")
    return torch.cartesian_prod(*[torch.arange(vocab_size)] * length).reshape(-1, length)


class SortingTask:
    """Sorting as a Task: a seeded split of all prompts into training and held-out ones, scored by `reward`.

    `held_out` is the share never trained on. If it is 0, or `prompts` are given, nothing is split off, as in the
    lecture: then `held_out()` returns the training prompts themselves.
    """

    def __init__(self, reward=position_match, vocab_size=5, length=3, held_out=0.2, seed=0, prompts=None):
        if not 0 <= held_out < 1:
            raise ValueError(f"held_out is a share of all prompts and must lie in [0, 1); got {held_out}")
        pool = all_prompts(vocab_size, length) if prompts is None else prompts
        num_test = min(max(round(held_out * len(pool)), held_out > 0), len(pool) - 1) if prompts is None else 0
        order = torch.randperm(len(pool), generator=torch.Generator().manual_seed(seed))
        self.reward, self.train_prompts = reward, pool[order[num_test:]]
        self.test_prompts = pool[order[:num_test]] if num_test else self.train_prompts

    def sample(self, batch_size: int, generator=None) -> Batch:
        """`batch_size` different training prompts in random order, with the sorted prompts as answers."""
        most = len(self.train_prompts)
        if not 1 <= batch_size <= most:
            raise ValueError(f"batch_size must lie between 1 and the {most} training prompts; got {batch_size}")
        prompts = self.train_prompts[torch.randperm(most, generator=generator)[:batch_size]]
        return Batch(prompts, prompts.sort(-1).values)

    def held_out(self) -> Batch:
        return Batch(self.test_prompts, self.test_prompts.sort(-1).values)

    def rewards(self, batch: Batch, responses: Responses, mask: Mask) -> PerResponse:
        return self.reward(batch.prompts, responses)

    def correct(self, batch: Batch, responses: Responses, mask: Mask) -> PerResponse:
        return exact_match(batch.prompts, responses)
