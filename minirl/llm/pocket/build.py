"""Build the pocket model from a seed: `python -m minirl.llm.pocket.build [--clean] [--out DIR] [--steps N]`.

Writes weights, tokenizer, settings and a model card with what was measured on held-out problems. It takes about ten
minutes on one thread; the same seed gives the same model on the same machine.
"""

import argparse
import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from time import process_time

import torch
from torch import Tensor
from tqdm import tqdm

from minirl.llm import pocket
from minirl.llm.pocket.card import write_card
from minirl.llm.pocket.corpus import BASE, CLEAN, Habits, Row, rows
from minirl.llm.pocket.muon import Muon
from minirl.llm.pocket.tokenizer import END, PAD, build_tokenizer
from minirl.llm.policy import load

STEPS, BATCH, MICRO_BATCHES = 1288, 64, 4
LOSS_SCALE = 2000  # a batch's sum of token losses is divided by this constant, whatever the number of its tokens


def build_model(tokenizer, seed: int):
    """A Qwen2 of a third of a million parameters, untrained."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=96,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=288,
        max_position_embeddings=512,
        rope_theta=1000.0,
        initializer_range=0.05,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.convert_tokens_to_ids(END),
        pad_token_id=tokenizer.convert_tokens_to_ids(PAD),
    )
    return Qwen2ForCausalLM(config)


def encode(batch: list[Row], tokenizer) -> list[tuple[Tensor, Tensor]]:
    """Token ids and "is learned" of each row, shortest row first."""
    pieces = iter(tokenizer([text for row in batch for text, _ in row], add_special_tokens=False)["input_ids"])
    encoded = []
    for row in batch:
        ids, learned = [], []
        for _, is_learned in row:
            piece = next(pieces)
            ids, learned = ids + piece, learned + [is_learned] * len(piece)
        encoded.append((torch.tensor(ids), torch.tensor(learned)))
    return sorted(encoded, key=lambda pair: len(pair[0]))


def loss_of(model, batch: list[tuple[Tensor, Tensor]], pad_id: int) -> Tensor:
    """−Σ log p of the learned tokens, padded on the right, where causal attention never looks.

    The sum, not the mean: batches are sorted by length, and means would weigh a short row's tokens more than a long
    one's, which skews how often the model writes at length.
    """
    ids = torch.nn.utils.rnn.pad_sequence([ids for ids, _ in batch], batch_first=True, padding_value=pad_id)
    learned = torch.nn.utils.rnn.pad_sequence([learned for _, learned in batch], batch_first=True)[:, 1:]
    hidden = model.model(input_ids=ids[:, :-1]).last_hidden_state[learned]
    return torch.nn.functional.cross_entropy(model.lm_head(hidden), ids[:, 1:][learned], reduction="sum")


def optimizers(model, steps: int) -> list[tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]]:
    """Muon for the matrices, AdamW for embedding, norms and biases; both fall linearly to 0 over the last 40 %."""
    embedding = model.get_input_embeddings().weight
    matrices = [each for each in model.parameters() if each.ndim == 2 and each is not embedding]
    others = [each for each in model.parameters() if each.ndim < 2 or each is embedding]
    both = [Muon(matrices, lr=2e-2), torch.optim.AdamW(others, lr=3e-3, betas=(0.9, 0.95), weight_decay=0.0)]
    return [
        (each, torch.optim.lr_scheduler.LambdaLR(each, lambda step: min(1, (steps - step) / (0.4 * steps))))
        for each in both
    ]


def train(model, tokenizer, habits: Habits, seed: int, steps: int) -> Iterator[float]:
    """Train in place, and yield each batch's mean loss per learned token in nats."""
    source, pairs = rows(seed, habits, tokenizer), optimizers(model, steps)
    for _ in range(steps):
        batch = encode(list(islice(source, BATCH)), tokenizer)
        size, total = BATCH // MICRO_BATCHES, 0.0
        for start in range(0, BATCH, size):
            loss = loss_of(model, batch[start : start + size], tokenizer.pad_token_id)
            (loss / LOSS_SCALE).backward()
            total += loss.item()
        for optimizer, schedule in pairs:
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
        yield total / sum(learned[1:].sum().item() for _, learned in batch)


def save(model, tokenizer, folder: Path) -> None:
    """Write the model so that transformers 4 and 5 read the same.

    They keep the rotary base, the dtype and the chat template in different places, and 5 takes the tokenizer of every
    Qwen2 for Qwen's own one unless `auto_map` says otherwise.
    """
    from transformers import GenerationConfig

    ends = [tokenizer.eos_token_id, tokenizer.pad_token_id]
    neutral = {"do_sample": True, "temperature": 1.0, "top_p": 1.0, "top_k": 0, "repetition_penalty": 1.0}
    model.generation_config = GenerationConfig(eos_token_id=ends, pad_token_id=tokenizer.pad_token_id, **neutral)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "chat_template.jinja").unlink(missing_ok=True)
    amend(folder / "config.json", rope_theta=1000.0, torch_dtype="float32")
    amend(
        folder / "tokenizer_config.json",
        auto_map={"AutoTokenizer": [None, "transformers.PreTrainedTokenizerFast"]},
        tokenizer_class="PreTrainedTokenizerFast",
        chat_template=tokenizer.chat_template,
    )


def amend(path: Path, **entries) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | entries, indent=2) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description="Train the pocket model from scratch, measure it, write its card.")
    parser.add_argument("--clean", action="store_true", help="random errors only: the contrast model")
    parser.add_argument("--out", type=Path, help="folder to write to (default: the shipped model's own)")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"training steps (default: {STEPS})")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    name, habits = ("clean", CLEAN) if options.clean else ("base", BASE)
    folder = options.out or pocket.path(name)
    torch.set_num_threads(1)  # the order of a sum decides its last bit: one thread, one result
    started, tokenizer = process_time(), build_tokenizer()
    model = build_model(tokenizer, options.seed)
    with tqdm(train(model, tokenizer, habits, options.seed, options.steps), total=options.steps, desc=name) as losses:
        for loss in losses:
            losses.set_postfix(loss=f"{loss:.3f}", refresh=False)
    seconds = process_time() - started
    save(model, tokenizer, folder)
    measured = write_card(folder, name, load(str(folder), max_new_tokens=256), options.steps, seconds)
    print(json.dumps(measured | {"training_seconds": seconds, "all_seconds": process_time() - started}, indent=2))


if __name__ == "__main__":
    main()
