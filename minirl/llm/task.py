"""Problems in words as a Task: questions become left-padded prompts, responses are decoded once and then graded."""

from collections.abc import Callable, Iterable

import torch
from jaxtyping import Int
from torch import Tensor

from minirl.llm.problem import Problem
from minirl.llm.prompts import opens_thinking
from minirl.llm.verify import has_format, is_correct
from minirl.rollout import Batch, Mask, PerResponse, Responses

CHECKS: dict[str, Callable[[str, str, bool], bool]] = {  # of a response, the gold answer, and whether thinking is open
    "strict": lambda text, gold, opened: is_correct(text, gold, "strict", opened=opened),
    "lenient": lambda text, gold, opened: is_correct(text, gold, "lenient", opened=opened),
    "boxed": lambda text, gold, opened: is_correct(text, gold, "boxed", opened=opened),
    "format": lambda text, gold, opened: has_format(text, opened=opened),
}


def left_pad(sequences: list[list[int]], pad_id: int) -> Int[Tensor, "batch prompt"]:
    """Token lists of any length as one matrix, padded in front: every prompt ends where its response begins."""
    width = max(len(sequence) for sequence in sequences)
    return torch.tensor([[pad_id] * (width - len(sequence)) + sequence for sequence in sequences])


class LanguageTask:
    """Training and held-out problems for one tokenizer.

    `prompt(question, tokenizer)` is the text to go on from. The reward is a weighted sum of checks, such as
    {"strict": 1.0, "format": 0.2}; `correct` is the check `judge`, whatever the reward. `max_held_out` bounds the test.
    """

    def __init__(
        self,
        tokenizer,
        train: list[Problem],
        test: list[Problem],
        prompt,
        weights=None,
        judge="strict",
        max_held_out=None,
    ):
        self.weights = {"strict": 1.0} if weights is None else weights
        if unknown := ({*self.weights, judge} - set(CHECKS)):
            raise ValueError(f"unknown check {', '.join(sorted(unknown))}; expected some of {', '.join(CHECKS)}")
        if not self.weights:
            raise ValueError(f"expected at least one check to reward; choose from {', '.join(CHECKS)}")
        if max_held_out is not None and max_held_out < 1:
            raise ValueError(f"max_held_out bounds the held-out problems and must be at least 1; got {max_held_out}")
        if not train or not test:
            raise ValueError(f"expected training and held-out problems; got {len(train)} and {len(test)}")
        self.tokenizer, self.prompt, self.judge = tokenizer, prompt, judge
        self.train, self.test = train, test[:max_held_out]
        self.opened = opens_thinking(prompt(train[0].question, tokenizer))
        self.passed: dict[str, float] = {}
        self.epoch = 0  # epochs done, where someone counts them

    def encode(self, problems: list[Problem]) -> Batch:
        """Left-padded prompts, with the gold answers beside them."""
        texts = [self.prompt(problem.question, self.tokenizer) for problem in problems]
        sequences = self.tokenizer(texts, add_special_tokens=False)["input_ids"]
        pad = self.tokenizer.pad_token_id if self.tokenizer.pad_token_id is not None else self.tokenizer.eos_token_id
        if any(not sequence or sequence[0] == pad for sequence in sequences):
            raise ValueError("a prompt is empty or begins with the padding token, which would be taken for padding")
        return Batch(left_pad(sequences, pad), [problem.answer for problem in problems])

    def sample(self, batch_size: int, generator=None) -> Batch:
        """`batch_size` different training problems in random order."""
        if not 1 <= batch_size <= len(self.train):
            raise ValueError(
                f"batch_size must lie between 1 and the {len(self.train)} training problems; got {batch_size}"
            )
        order = torch.randperm(len(self.train), generator=generator)[:batch_size]
        return self.encode([self.train[index] for index in order.tolist()])

    def held_out(self) -> Batch:
        return self.encode(self.test)

    def texts(self, responses: Responses, mask: Mask) -> list[list[str]]:
        """The responses in words, [batch][group]: only what is inside the mask, without end tokens."""
        pairs = zip(responses.flatten(0, 1).cpu(), mask.flatten(0, 1).cpu(), strict=True)
        rows = [row[inside].tolist() for row, inside in pairs]
        texts = self.tokenizer.batch_decode(rows, skip_special_tokens=True)
        group = responses.shape[1]
        return [texts[start : start + group] for start in range(0, len(texts), group)]

    def checks(self, names: Iterable[str], batch: Batch, responses: Responses, mask: Mask) -> dict[str, PerResponse]:
        """1 where a response passes the check, else 0, for each name; every response is decoded once."""
        graded = list(zip(self.texts(responses, mask), batch.answers, strict=True))
        passed = {
            name: [[float(CHECKS[name](text, gold, self.opened)) for text in group] for group, gold in graded]
            for name in names
        }
        return {name: torch.tensor(rows, device=responses.device) for name, rows in passed.items()}

    def check(self, name: str, batch: Batch, responses: Responses, mask: Mask) -> PerResponse:
        """1 where a response passes the check `name`, else 0."""
        return self.checks([name], batch, responses, mask)[name]

    def rewards(self, batch: Batch, responses: Responses, mask: Mask) -> PerResponse:
        """The weighted sum of checks. Afterwards `passed` has the share of these responses that pass each of them."""
        found = self.checks(dict.fromkeys([*self.weights, self.judge, "format"]), batch, responses, mask)
        self.passed = {name: scores.mean().item() for name, scores in found.items()}
        return sum(weight * found[name] for name, weight in self.weights.items())

    def correct(self, batch: Batch, responses: Responses, mask: Mask) -> PerResponse:
        return self.check(self.judge, batch, responses, mask)
