"""Prompts: a question, dressed as the model should see it. No worked examples in any of them.

| name     | for                       | asks for                                      | grade with      |
| -------- | ------------------------- | --------------------------------------------- | --------------- |
| r1-zero  | base models               | <think>…</think> <answer>…</answer>           | strict, format  |
| chat     | models with a template    | the same, as a system message                 | strict, format  |
| boxed    | models with a template    | steps, then \\boxed{}, Qwen's own habit        | boxed           |
| turn     | models with a template    | nothing: the question is the user's turn      | lenient         |
| question | any model                 | nothing: the bare question                    | lenient         |

The prompt moves a model's score more than most training runs do, so name it beside every figure. `r1-zero` ends in
<think>: the response begins inside the thinking, and the verifier has to be told (`opened=True`; see `opens_thinking`).
"""

R1_ZERO = """\
This is a conversation between a User and an Assistant. The User asks a question and the Assistant solves it. The \
Assistant first reasons about the question and then gives its answer. The reasoning stands between <think> and \
</think>, and the answer, a number and nothing else, between <answer> and </answer>, like this: \
<think> reasoning </think> <answer> number </answer>
User: {question}
Assistant: <think>"""

CHAT = (
    "Solve the problem. First reason step by step between <think> and </think>. Then write the answer, a number and "
    "nothing else, between <answer> and </answer>."
)
BOXED = r"Reason step by step, and write your final answer, a number and nothing else, as \boxed{}."


def r1_zero(question: str, tokenizer=None) -> str:
    """The prompt of R1-Zero (arXiv:2501.12948) for base models, in our words and with its tags; ends in <think>."""
    return R1_ZERO.replace("{question}", question)


def chat(question: str, tokenizer) -> str:
    """The chat template, with the tags asked for in the system message."""
    return _in_template([{"role": "system", "content": CHAT}, {"role": "user", "content": question}], tokenizer)


def boxed(question: str, tokenizer) -> str:
    r"""The chat template, with steps and \boxed{} asked for in the system message."""
    return _in_template([{"role": "system", "content": BOXED}, {"role": "user", "content": question}], tokenizer)


def turn(question: str, tokenizer) -> str:
    """The chat template around the question alone; a template may still add a system message of its own."""
    return _in_template([{"role": "user", "content": question}], tokenizer)


def question(question: str, tokenizer=None) -> str:
    """The question and a line break."""
    return question + "\n"


PROMPTS = {"r1-zero": r1_zero, "chat": chat, "boxed": boxed, "turn": turn, "question": question}


def opens_thinking(prompt: str) -> bool:
    """Whether a prompt ends in <think>, so that the response begins inside the thinking."""
    return prompt.rstrip().endswith("<think>")


def _in_template(messages: list[dict[str, str]], tokenizer) -> str:
    if not getattr(tokenizer, "chat_template", None):
        raise ValueError("this tokenizer has no chat template, as is usual for a base model; use r1-zero or question")
    return tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
