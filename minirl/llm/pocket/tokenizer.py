"""The pocket model's tokenizer: one token a word, a digit or a sign, as a Hugging Face fast tokenizer.

Tokens and text correspond one to one: digits that follow each other make one number, a full stop, comma or question
mark follows its word at once, and one space stands between all other tokens. So encode(decode(ids)) == ids for all ids.
"""

import re

from minirl.llm import word_problems

END, PAD, UNKNOWN = "<|im_end|>", "<|endoftext|>", "<unk>"
SPECIAL = (PAD, "<|im_start|>", END, UNKNOWN)
TAGS = ("<think>", "</think>", "<answer>", "</answer>", "####", "<tool>", "</tool>", "<result>", "</result>")
SIGNS = (*".,?+-*/=",)
SPANISH = ("cero", "uno", "dos", "tres", "cuatro", "cinco", "seis", "siete", "ocho", "nueve")
WRITING = ("user", "assistant", "so", "wait", "The", "answer", "is")
CHAT = (
    "{% for message in messages %}{{ '' if loop.first else ' ' }}"
    "<|im_start|> {{ message['role'] }} {{ message['content'] }} <|im_end|>{% endfor %}"
    "{% if add_generation_prompt %} <|im_start|> assistant{% endif %}"
)


def vocabulary() -> dict[str, int]:
    """Every token and its id: special tokens, tags, digits, signs, the second language, then the stories' own words."""
    stories = word_problems.STORIES.values()
    clauses = [
        clause for story in stories for group in (*story.openings, story.turns, *story.endings) for clause in group
    ]
    told = re.findall("[A-Za-z]+", " ".join(re.sub(r"\{\w\}", "", clause.text) for clause in clauses))
    things = [thing for story in stories for thing in story.things]
    words = sorted({*told, *things, *word_problems.GOODS, *word_problems.NAMES, *WRITING})
    return {token: index for index, token in enumerate((*SPECIAL, *TAGS, *"0123456789", *SIGNS, *SPANISH, *words))}


def build_tokenizer():
    """A PreTrainedTokenizerFast with Qwen's end and padding tokens and a chat template in Qwen's shape."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.WordLevel(vocabulary(), unk_token=UNKNOWN))
    apart = pre_tokenizers.Split(Regex(r"[0-9.,?+*/=-]"), "isolated")
    core.pre_tokenizer = pre_tokenizers.Sequence([apart, pre_tokenizers.WhitespaceSplit()])
    spaced = [decoders.Replace(Regex("$"), " "), decoders.Fuse()]
    joined = decoders.Replace(Regex(r"(?<=[0-9]) (?=[0-9])| (?=[.,?])"), "")
    core.decoder = decoders.Sequence([*spaced, joined, decoders.Replace(Regex(" $"), "")])
    core.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in SPECIAL])
    core.add_tokens([AddedToken(token, normalized=False) for token in TAGS])
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        eos_token=END,
        pad_token=PAD,
        unk_token=UNKNOWN,
        clean_up_tokenization_spaces=False,
        model_max_length=512,
        chat_template=CHAT,
    )
