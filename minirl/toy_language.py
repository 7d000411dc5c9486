"""The smallest policy that writes token by token and stops by itself: enumerable, and ragged enough to test masks.

And a task for it in which a response may be of any length; and a game in which it takes turns with another.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from minirl.metrics import stop_if_not_finite
from minirl.policy import ScoredByLogits
from minirl.rollout import Batch, Mask, PerResponse, Prompts, Responses, response_mask


class AutoregressivePolicy(ScoredByLogits):
    """Next token from the prompt, the step and the last token: logits[t] = P[Σ prompt] + S[t] + L[response_{t−1}].

    A response ends with `end_token` or at `length`. `prompt_size` is the number of rows of P; sums wrap around it.
    `init_scale` multiplies P, S and L at the start: the smaller, the more evenly it chooses and the more it explores.
    """

    def __init__(
        self, vocab_size: int, length: int, end_token: int, prompt_size=8, seed: int | None = None, init_scale=1.0
    ):
        super().__init__()
        if not 0 <= end_token < vocab_size:
            raise ValueError(
                f"end_token must be one of the {vocab_size} tokens, 0 to {vocab_size - 1}; got {end_token}"
            )
        generator = None if seed is None else torch.Generator().manual_seed(seed)
        self.vocab_size, self.length, self.end_token = vocab_size, length, end_token
        self.prompt = nn.Parameter(torch.randn(prompt_size, vocab_size, generator=generator) * init_scale)
        self.step = nn.Parameter(torch.randn(length, vocab_size, generator=generator) * init_scale)
        self.last = nn.Parameter(torch.randn(vocab_size + 1, vocab_size, generator=generator) * init_scale)

    def logits(self, prompts: Prompts, responses: Responses) -> Float[Tensor, "batch group token vocab"]:
        start = torch.full_like(responses[..., :1], self.vocab_size)
        last = torch.cat([start, responses[..., :-1]], -1)
        asked = self.prompt[prompts.sum(-1) % len(self.prompt)][:, None, None]
        return asked + self.step[: responses.shape[-1]] + self.last[last]

    def _generate(self, prompts: Prompts, group_size: int, choose) -> tuple[Responses, Mask]:
        responses = torch.zeros(len(prompts), group_size, self.length, dtype=torch.long)
        for step in range(self.length):
            responses[..., step] = choose(self.logits(prompts, responses)[:, :, step])
        mask = response_mask(responses, self.end_token)
        return responses.masked_fill(~mask, self.end_token), mask

    @torch.no_grad()
    def sample(self, prompts: Prompts, group_size: int, generator: torch.Generator | None = None):
        def draw(logits):
            stop_if_not_finite("sampling", "logits", logits)
            return torch.multinomial(logits.softmax(-1).flatten(0, 1), 1, generator=generator).view(logits.shape[:2])

        return self._generate(prompts, group_size, draw)

    @torch.no_grad()
    def greedy(self, prompts: Prompts) -> tuple[Responses, Mask]:
        return self._generate(prompts, 1, lambda logits: logits.argmax(-1))


class GuessingPolicy(AutoregressivePolicy):
    """Guesses a secret number in turns; after each guess the game answers "lower", "higher" or, at the end, "right".

    Tokens are the numbers, then the three answers; a guess that is no number is answered by "lower". Guesses stand at
    even places, answers between them and outside the mask: the policy is not to learn what it did not write. The prompt
    is the secret, for the game only: the policy's logits are S[t] + L[answer] + G[guess before it].
    Near its start, with a small `init_scale`, every guess is about as likely as any other.
    """

    def __init__(self, numbers: int = 7, turns: int = 3, seed: int | None = None, init_scale: float = 0.1):
        shape = {"vocab_size": numbers + 3, "length": 2 * turns - 1, "end_token": numbers + 2, "prompt_size": 1}
        super().__init__(**shape, seed=seed, init_scale=init_scale)
        self.lower, self.higher = numbers, numbers + 1
        self.guess = nn.Parameter(torch.zeros(self.vocab_size + 1, self.vocab_size))

    def logits(self, prompts: Prompts, responses: Responses) -> Float[Tensor, "batch group token vocab"]:
        start = torch.full_like(responses[..., :2], self.vocab_size)
        guesses = torch.cat([start, responses[..., :-2]], -1)[..., : responses.shape[-1]]
        return super().logits(prompts, responses) + self.guess[guesses]

    def _generate(self, prompts: Prompts, group_size: int, choose) -> tuple[Responses, Mask]:
        responses = torch.full((len(prompts), group_size, self.length), self.end_token)
        mask = torch.zeros_like(responses, dtype=torch.bool)
        going = torch.ones_like(mask[..., 0])
        for step in range(0, self.length, 2):
            guess = choose(self.logits(prompts, responses)[..., step, :])
            responses[..., step], mask[..., step] = guess.where(going, self.end_token), going
            going = going & (guess != prompts)
            answer = torch.where(guess > prompts, self.lower, self.higher)
            responses[..., step + 1 : step + 2] = answer.where(going, self.end_token)[..., None]
        return responses, mask


class GuessingTask:
    """Secrets from 0 to `numbers` − 1, drawn evenly; 1 for a response that has the right guess in it, 0 otherwise."""

    def __init__(self, numbers: int = 7):
        self.numbers = numbers

    def sample(self, batch_size: int, generator: torch.Generator | None = None) -> Batch:
        secrets = torch.randint(self.numbers, (batch_size, 1), generator=generator)
        return Batch(secrets, secrets[:, 0])

    def held_out(self) -> Batch:
        """Every secret once: there are none to keep back."""
        return Batch(torch.arange(self.numbers)[:, None], torch.arange(self.numbers))

    def rewards(self, batch: Batch, responses: Responses, mask: Mask) -> PerResponse:
        return ((responses == batch.prompts[:, None]) & mask).any(-1).float()


class LastTokenTask:
    """Think as long as you like, answer, stop: reward 1 if the token before the end token is the answer, else 0.

    The answer to a prompt is its sum modulo `answers`; the tokens after those are thoughts, which answer nothing, and
    the very last token ends a response. One that is cut off at `length`, or ends at once, is wrong. Length as such
    earns nothing, and right answers come in every length: if wrong ones become longer than right ones, the loss did it.
    For `AutoregressivePolicy(task.vocab_size, task.length, task.end_token, init_scale=0.3)`, which starts at about one
    right response in eight and learns each prompt by heart: so `held_out` are the same prompts.
    """

    def __init__(self, answers: int = 4, vocab_size: int = 8, length: int = 24, prompts: Prompts | None = None):
        if not 2 <= answers < vocab_size:
            raise ValueError(f"expected 2 ≤ answers < vocab_size, one token being the end; got {answers}, {vocab_size}")
        self.answers, self.vocab_size, self.length, self.end_token = answers, vocab_size, length, vocab_size - 1
        self.prompts = torch.arange(8)[:, None] if prompts is None else prompts

    def batch(self, prompts: Prompts) -> Batch:
        """These prompts with their answers."""
        return Batch(prompts, prompts.sum(-1) % self.answers)

    def sample(self, batch_size: int, generator=None) -> Batch:
        """In random order, and each prompt as often as any other, give or take one."""
        count = len(self.prompts)
        drawn = torch.randperm(-(-batch_size // count) * count, generator=generator)[:batch_size]
        return self.batch(self.prompts[drawn % count])

    def held_out(self) -> Batch:
        return self.batch(self.prompts)

    def rewards(self, batch: Batch, responses: Responses, mask: Mask) -> PerResponse:
        lengths = mask.sum(-1, keepdim=True)
        last, before = (responses.gather(-1, (lengths - back).clamp(min=0))[..., 0] for back in (1, 2))
        return ((last == self.end_token) & (before == batch.answers[:, None])).float()

    correct = rewards
