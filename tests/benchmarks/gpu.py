"""What one GPU does with the 0.5B architecture: speed of sampling, seconds of a GRPO step by part, memory by estimate.

    python tests/benchmarks/gpu.py          # every card's settings that fit into this GPU; a few minutes
    python tests/benchmarks/gpu.py --tiny   # the same script with a tiny model on the CPU, to see that it runs

The weights are random and the rewards are coins, so nothing is downloaded, and hardly a response ends before its limit:
speed and memory are those of full-length responses. Prompts have 150 to 250 tokens.
"""

import argparse
import gc
import sys
from dataclasses import replace
from time import perf_counter

import torch
from transformers import AutoModelForCausalLM, Qwen2Config

from minirl import Batch
from minirl.llm import memory, plans
from minirl.llm.policy import LanguagePolicy
from minirl.rollout import collect
from minirl.train import State, learn

SHAPE = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
TINY = Qwen2Config(vocab_size=512, intermediate_size=128, tie_word_embeddings=True, **SHAPE)
SMALL = {"batch_size": 4, "micro_batch_size": 2, "group_size": 4, "new_tokens": 32, "held_out": 1}
PARTS = ("sampling", "scoring", "updating")


class Ids:
    """All that a policy asks of a tokenizer."""

    pad_token_id, eos_token_id = 0, 1


class Coins:
    """Random prompts of different lengths, and a coin for every response."""

    def __init__(self, vocab_size: int, device, shortest: int = 150, longest: int = 250):
        self.vocab_size, self.device, self.shortest, self.longest = vocab_size, device, shortest, longest

    def sample(self, batch_size: int, generator=None) -> Batch:
        prompts = torch.randint(2, self.vocab_size, (batch_size, self.longest), generator=generator)
        for row, prompt in enumerate(prompts):
            prompt[: row * (self.longest - self.shortest) // batch_size] = Ids.pad_token_id
        return Batch(prompts.to(self.device), [""] * batch_size)

    def rewards(self, batch, responses, mask):
        return torch.randint(2, mask.shape[:2], generator=torch.Generator().manual_seed(0)).to(mask.device)


def wait(device) -> float:
    """The time, once the GPU has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return perf_counter()


def step(policy, task, plan: plans.Plan, state: State) -> dict[str, float]:
    """One GRPO step as `train` takes it: seconds of each part, and how many tokens were sampled."""
    batch = task.sample(plan.batch_size, state.generator)
    rollout = collect(policy, task, batch, plan.group_size, generator=state.generator)
    start = wait(policy.device)
    learn(policy, rollout, plan.config(), state)
    seconds = rollout.seconds_sampling, rollout.seconds_scoring, wait(policy.device) - start
    return dict(zip(PARTS, seconds, strict=True)) | {"tokens": rollout.mask.sum().item()}


def measured(plan: plans.Plan, shape, device) -> dict[str, float]:
    """A short step to warm up, then one of full size: its parts, and the peak of memory and its estimate in bytes."""
    torch.manual_seed(0)
    task, short = Coins(shape.vocab_size, device), replace(plan, batch_size=1, micro_batch_size=1, group_size=2)
    with plans.PeakMemory(device) as peak:
        policy = LanguagePolicy(AutoModelForCausalLM.from_config(shape).to(device), Ids(), 4)
        if plan.gradient_checkpointing:
            memory.checkpoint_layers(policy.model)
        state = State(policy, plan.config())
        step(policy, task, short, state)
        policy.max_new_tokens = plan.new_tokens
        found = step(policy, task, plan, state)
    work = replace(plan, held_out=1).workload(task.longest, bfloat16=device.type == "cuda")
    return found | {"peak": peak.bytes or float("nan"), "expected": memory.estimate(shape, work).peak}


def line(name: str, plan: plans.Plan, found: dict[str, float]) -> str:
    """A row of the table."""
    sizes = f"{plan.batch_size} × {plan.group_size} × {plan.new_tokens}"
    seconds = [*(found[part] for part in PARTS), sum(found[part] for part in PARTS)]
    sizes = f"{name:9}{sizes:>14}{found['tokens'] / found['sampling']:>12,.0f}"
    return sizes + "".join(f"{each:>11.2f}" for each in (*seconds, found["peak"] / 1e9, found["expected"] / 1e9))


def choose(arguments) -> tuple[dict[str, plans.Plan], object, torch.device]:
    """The plans to measure, by their card, the model's shape, and where; ValueError without a GPU."""
    if arguments.tiny:
        small = replace(plans.plan_for(plans.SMALL, 16), gradient_checkpointing=False, **SMALL)
        return {"tiny": small, "again": replace(small, gradient_checkpointing=True)}, TINY, torch.device("cpu")
    if not torch.cuda.is_available():
        raise ValueError("this measures a GPU, and PyTorch finds none; --tiny runs the script on the CPU")
    cards = [card for card in plans.CARDS if card <= plans.card_here()]
    shape, device = plans.published(plans.SMALL), torch.device("cuda")
    return {f"{card} GB": plans.plan_for(plans.SMALL, card) for card in cards}, shape, device


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="a tiny model on the CPU, to see that the script runs")
    try:
        chosen, shape, device = choose(parser.parse_args(words))
    except ValueError as problem:
        print(problem, file=sys.stderr)
        return 2
    where = torch.cuda.get_device_name(device) if device.type == "cuda" else "the CPU, which says nothing about a GPU"
    print(f"{memory.parameter_count(shape):,} random parameters on {where}; seconds of one step, memory in 10⁹ bytes")
    heads = (*PARTS, "step", "peak", "expected")
    print(f"{'settings':9}{'B × G × T':>14}{'tokens/s':>12}" + "".join(f"{head:>11}" for head in heads))
    for name, plan in chosen.items():
        try:
            print(line(name, plan, measured(plan, shape, device)), flush=True)
        except torch.OutOfMemoryError as problem:
            print(f"{name:9}out of memory, against the estimate: {str(problem).splitlines()[0]}", flush=True)
        gc.collect()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
