"""A whole model in a folder: a tiny random Qwen2 whose tokenizer knows digits, tags and little else."""

import json

import torch
from tiny import tiny_qwen2

SPECIAL = ("<|pad|>", "<|end|>", "<unk>")
WORDS = (*"0123456789", "####", "<think>", "</think>", "<answer>", "</answer>", "apples")
TEMPLATE = "{% for message in messages %}{{ message['role'] }} {{ message['content'] }} {% endfor %}assistant"


def word_tokenizer(template=TEMPLATE):
    """One token a digit or a known word; every other word is <unk>."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.WordLevel({word: i for i, word in enumerate((*SPECIAL, *WORDS))}, unk_token="<unk>"))
    digits = pre_tokenizers.Split(Regex("[0-9]"), "isolated")
    core.pre_tokenizer = pre_tokenizers.Sequence([digits, pre_tokenizers.WhitespaceSplit()])
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token="<|pad|>",
        eos_token="<|end|>",
        unk_token="<unk>",
        clean_up_tokenization_spaces=False,
        chat_template=template,
    )


def save_model(folder, template=TEMPLATE):
    """The folder that `--model` is given: safetensors, config and tokenizer."""
    tiny_qwen2(vocab_size=len(SPECIAL) + len(WORDS), scale=0.1).save_pretrained(folder)
    word_tokenizer(template).save_pretrained(folder)
    file = folder / "tokenizer_config.json"
    settings = json.loads(file.read_text())
    settings |= {"auto_map": {"AutoTokenizer": [None, "transformers.PreTrainedTokenizerFast"]}}
    settings |= {"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": template}
    file.write_text(json.dumps(settings))
    return folder


def save_data(folder, train=40, test=12):
    """GSM8K's two files in miniature: answers of one digit, which a random model hits now and then."""
    folder.mkdir()
    for split, count in {"train": train, "test": test}.items():
        rows = [{"question": f"{split} {n} apples", "answer": f"It is {n % 10}.\n#### {n % 10}"} for n in range(count)]
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def written(tokenizer, *texts, group=1):
    """Responses as a policy writes them: an end token last, padding behind, and the mask up to the end token."""
    rows = [tokenizer(text)["input_ids"] + [tokenizer.eos_token_id] for text in texts]
    width = max(map(len, rows))
    responses = torch.tensor([row + [tokenizer.pad_token_id] * (width - len(row)) for row in rows])
    mask = torch.arange(width) < torch.tensor([len(row) for row in rows])[:, None]
    return responses.unflatten(0, (-1, group)), mask.unflatten(0, (-1, group))
