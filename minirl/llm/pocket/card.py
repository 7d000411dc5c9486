"""Measure a pocket model on held-out problems, and write its model card."""

from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from minirl.evaluate import pass_at_k, wilson_interval
from minirl.llm.pocket.tokenizer import SPANISH
from minirl.llm.policy import LanguagePolicy
from minirl.llm.prompts import turn
from minirl.llm.task import LanguageTask
from minirl.llm.word_problems import WordProblem, generate

SAMPLES, AT_ONCE = 64, 16  # responses to each problem; problems sampled in one go
KINDS = {
    "base": """\
Short chains often forget a carry or a borrow, so the most likely answer is often wrong: there is something to teach.
Long chains, which repeat the story, are right far more often, and some notice a slip and mend it.""",
    "clean": """\
Its errors fall at random, so the most likely answer is nearly always right although many samples are not. It is the
contrast to `base`: there is little to teach here, and sharpening is enough.""",
}
CARD = """\
---
license: mit
language: en
library_name: transformers
pipeline_tag: text-generation
---
# pocket {name}

A Qwen2 of {parameters:,} parameters and {vocabulary} tokens, trained from scratch on generated word problems to behave
like a base model: several answer formats, wrong arithmetic, short and long chains, numbers in Spanish in some, calls of
a calculator in a few.

{kind}

It is for learning how reinforcement learning works on a laptop. It knows only the words of its stories, and it cannot
be used for anything else.

## Use

```python
from minirl.llm.policy import load

policy = load("{load_name}")
```

`AutoModelForCausalLM` and `AutoTokenizer` read this folder too. The prompt is the chat template around the question,
and a response ends with `<|im_end|>`. A word it does not know becomes `<unk>`. Digits that follow each other make one
number, so two numbers must not stand side by side.

## Measured

{problems} held-out problems of 1 to 4 steps, {samples} samples each at temperature 1 from the whole vocabulary, at
most {limit} new tokens. Strict: a bare number in the last `#### N` or closed `<answer>N</answer>`. pass@k is the
unbiased estimate.

| | |
| --- | --- |
| pass@1, strict | {pass_1:.3f} |
| pass@8, strict | {pass_8:.3f} |
| pass@64, strict | {pass_64:.3f} |
| greedy, strict (95 % interval) | {greedy:.3f} ({greedy_low:.2f} to {greedy_high:.2f}) |
| pass@1, lenient | {lenient:.3f} |
| format: thinking, then an answer, both in their tags | {format:.3f} |
| pass@1 by number of steps, 1 to 4 | {by_steps} |
| greedy by number of steps, 1 to 4 | {greedy_by_steps} |
| responses with numbers in Spanish / with tool calls | {spanish:.3f} / {tool:.3f} |
| mean length in tokens | {length:.1f} |
| cut at the limit | {truncated:.4f} |
| {harder_problems} problems of 5 to 7 steps, unseen in training: pass@1 / 8 / 64 | {harder} |

Samples for one problem:

> {question}

{texts}

## Made by

`python -m minirl.llm.pocket.build{flags}`: {steps} steps of 64 rows, trained in {minutes:.1f} minutes of one thread.
Training and held-out problems differ in their arithmetic: a hash of a problem's worked steps decides its side.
"""


def sampled(policy: LanguagePolicy, problems: list[WordProblem], samples: int, seed: int) -> dict:
    """Texts, and the checks, the length and "was it cut" of every sample of every problem."""
    task, generator = LanguageTask(policy.tokenizer, problems, problems, turn), torch.Generator().manual_seed(seed)
    parts, texts = [], []
    for start in range(0, len(problems), AT_ONCE):
        batch = task.encode(problems[start : start + AT_ONCE])
        drawn = policy.sample(batch.prompts, samples, generator) if samples > 1 else policy.greedy(batch.prompts)
        checks = task.checks(("strict", "lenient", "format"), batch, *drawn)
        parts.append({**checks, "length": drawn[1].sum(-1).float(), "truncated": policy.truncated(*drawn).float()})
        texts += task.texts(*drawn)
    return {"texts": texts, **{name: torch.cat([part[name] for part in parts]) for name in parts[0]}}


def measure(policy: LanguagePolicy, problems: int = 256, harder: int = 64, seed: int = 1) -> dict:
    """Everything the card reports, by the names that stand in its text."""
    test = sorted(generate(problems, seed, split="held_out"), key=lambda problem: len(problem.steps))
    unseen = generate(harder, seed, steps=(5, 7), split="held_out")
    found, greedy = sampled(policy, test, SAMPLES, seed), sampled(policy, test, 1, seed)["strict"]
    low, high = wilson_interval(greedy.sum().item(), problems)
    return {
        **{"problems": problems, "harder_problems": harder, "samples": SAMPLES, "limit": policy.max_new_tokens},
        **{"greedy": greedy.mean().item(), "greedy_low": low, "greedy_high": high},
        **pass_rates(found["strict"]),
        **{name: found[name].mean().item() for name in ("lenient", "format", "length", "truncated")},
        **{"by_steps": by_steps(found["strict"], test), "greedy_by_steps": by_steps(greedy, test)},
        "harder": "{pass_1:.3f} / {pass_8:.3f} / {pass_64:.3f}".format(
            **pass_rates(sampled(policy, unseen, SAMPLES, seed)["strict"])
        ),
        **habits([text for texts in found["texts"] for text in texts]),
        "question": test[problems // 2].question,
        "texts": "\n".join(f"- `{text}`" for text in found["texts"][problems // 2][:8]),
    }


def pass_rates(correct: Float[Tensor, "problem sample"]) -> dict[str, float]:
    return {f"pass_{k}": pass_at_k(correct.sum(-1), correct.shape[1], k).mean().item() for k in (1, 8, 64)}


def by_steps(correct: Float[Tensor, "problem sample"], problems: list[WordProblem]) -> str:
    """The share that is correct among problems of 1, 2, 3 and 4 steps."""
    lengths = torch.tensor([len(problem.steps) for problem in problems])
    return " / ".join(f"{correct[lengths == n].mean():.2f}" for n in (1, 2, 3, 4))


def habits(texts: list[str]) -> dict[str, float]:
    """How often a response has numbers in Spanish, and how often it calls a tool."""
    spanish = sum(any(word in text.split() for word in SPANISH) for text in texts)
    return {"spanish": spanish / len(texts), "tool": sum("<tool>" in text for text in texts) / len(texts)}


def write_card(folder: Path, name: str, policy: LanguagePolicy, steps: int, seconds: float) -> dict:
    """README.md in the folder, with what was measured just now."""
    found = measure(policy)
    facts = {
        "name": name,
        "kind": KINDS[name],
        "load_name": {"base": "pocket", "clean": "pocket-clean"}[name],
        "flags": {"base": "", "clean": " --clean"}[name],
        "parameters": sum(weight.numel() for weight in policy.parameters()),
        "vocabulary": policy.vocab_size,
        "steps": steps,
        "minutes": seconds / 60,
    }
    (folder / "README.md").write_text(CARD.format(**facts, **found))
    return found
