r"""What did the response answer, and is it right? Exact rationals, no eval, linear time, never an exception on a text.

Thinking is not an answer: what stands between <think> and </think> is dropped first, and so is everything from the
first end token on. A </think> that closes nothing closes what the prompt opened, so all before it was thinking. A
<think> that is never closed runs to the end; pass `opened=True` where the prompt itself ends in <think>.

| style   | where it looks                                                          | what it takes there             |
| ------- | ----------------------------------------------------------------------- | ------------------------------- |
| strict  | the last `#### …` (to the line's end) or closed `<answer>…</answer>`    | a bare number: 18 -7 1,080 18.0 |
| boxed   | the last closed `\boxed{…}`                                             | one number, in whatever dress   |
| lenient | as strict; else as boxed; else "answer is …", "answer: …"; else the     | one number, in whatever dress   |
|         | last number of the text. The first of these that is there decides       |                                 |

Dress is a currency, a unit, a percent sign, a full stop, bold, LaTeX: $18.00, 18 apples, 18%, **18**, \boxed{\$18},
\frac{1}{2}, 2½, -$7, minus 7, −7, 1 080, 12,34,567, 1.5 million. In a chain of equals signs the last member counts, and
brackets are an aside. No number is read in part: "1,0800", "5-7", "3x6", "1e3", "10:30" are none at all.

| text                                  | strict | lenient | why                                                       |
| ------------------------------------- | ------ | ------- | --------------------------------------------------------- |
| `#### 18 … #### 20`                   | 20     | 20      | two answers: the last counts                              |
| `#### 18 dollars`                     | –      | 18      | strict wants the number alone                             |
| `#### 18 or 20`                       | –      | –       | two numbers in one place are no answer                    |
| `#### 18`, then `#### Summary`        | 18     | 18      | a heading without a digit is passed over                  |
| `The answer is 18. <answer></answer>` | –      | –       | the most explicit sign decides, even with nothing in it   |
| `So she has 48 + 24`                  | –      | –       | an unfinished sum is no answer                            |
| `#### 1,5` or `#### 1.080,00`         | –      | –       | decimal commas are not guessed at; `1.080` is 1.08        |

What strict finds, lenient finds too. Left out: number words ("eighteen"), powers of ten, roots, sums of units ("2 hours
30 minutes"), rounding (33.3 is not 100/3). A model that invents the next question is graded on its last answer.
"""

import re
from fractions import Fraction
from unicodedata import normalize

STYLES = ("strict", "lenient", "boxed")
LONGEST_NUMBER = 100  # characters: int() of a very long string is slow or refused, and no word problem needs one
LONGEST_FIELD = 1_000  # characters: what is longer is an essay and not an answer
LONGEST_ENDING = 10_000  # characters: without a mark or a box, the answer is looked for in the end of the text only

# --- numbers ---------------------------------------------------------------------------------------------------------

_DIGITS = r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,2}(?:,[0-9]{2})+,[0-9]{3}|[0-9]+)"  # 1,080 or 12,34,567 or 1080
_DECIMAL = rf"(?:{_DIGITS}(?:\.[0-9]+)?|\.[0-9]+)"
_BARE = re.compile(r"[+-]?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]+)?")
_NUMBER = re.compile(rf"([+-]?)(?:({_DIGITS})\ (?=[0-9,]+/))?({_DECIMAL})(?:/({_DECIMAL}))?")


def as_number(text: str) -> Fraction | None:
    """One number and nothing else, exactly: "1,080", "-7", "2.50", "1/2", "2 1/2"; anything else is None."""
    text = text.strip().replace("−", "-")
    match = _NUMBER.fullmatch(text) if len(text) <= LONGEST_NUMBER else None
    if match is None:
        return None
    sign, *parts = match.groups(default="")
    whole, top, bottom = (
        Fraction(part.replace(",", "") or default) for part, default in zip(parts, "001", strict=True)
    )
    if bottom == 0:
        return None
    return (whole + top / bottom) * (-1 if sign == "-" else 1)


def canonical(value: Fraction) -> str:
    """The one way to write a number: "18", "-7", "2.5", and "1/3" where the decimals do not end."""
    places = next((k for k in range(value.denominator.bit_length()) if 10**k % value.denominator == 0), None)
    if not places:
        return str(value)
    whole, rest = divmod(int(abs(value) * 10**places), 10**places)
    return f"{'-' if value < 0 else ''}{whole}.{rest:0{places}d}"


# --- the three questions ---------------------------------------------------------------------------------------------


def extract_answer(text: str, style: str = "strict", *, opened: bool = False) -> str | None:
    """The answer that the text gives, written the one `canonical` way, or None: equal answers are equal strings."""
    if style not in STYLES:
        raise ValueError(f"a verifier's style is one of {', '.join(STYLES)}; got {style!r}")
    aloud = without_thinking("<think>" + text if opened else text)
    value = {"strict": _strict, "lenient": _lenient, "boxed": _boxed}[style](aloud)
    return None if value is None else canonical(value)


def is_correct(text: str, gold: str, style: str = "strict", *, opened: bool = False) -> bool:
    """Whether the extracted answer equals `gold` as a number; a gold that is no number matches nothing."""
    answer, truth = extract_answer(text, style, opened=opened), as_number(gold)
    return answer is not None and truth is not None and answer == canonical(truth)


def has_format(text: str, *, opened: bool = False) -> bool:
    """R1-Zero's format: <think>…</think><answer>…</answer> and nothing else (arXiv:2501.12948).

    Each tag once, in this order, in lower case, with something in both; only white space before, between and after. An
    end token may follow. The answer need not be a number: whether it is right is `is_correct`'s question.
    """
    text = _END.split("<think>" + text if opened else text, maxsplit=1)[0].strip()
    if any(text.count(tag) != 1 for tag in _TAGS):
        return False
    before, _, rest = text.partition("<think>")
    thinking, _, rest = rest.partition("</think>")
    between, _, rest = rest.partition("<answer>")
    answer, closed, after = rest.partition("</answer>")
    return bool(closed and thinking.strip() and answer.strip()) and not (before or between.strip() or after)


_TAGS = ("<think>", "</think>", "<answer>", "</answer>")
_END = re.compile(r"<\|(?:im_end|endoftext|end_of_text|eot_id)\|>|</s>|<eos>|<end_of_turn>")
_THINK = re.compile(r"(</?think>)", re.IGNORECASE)


def without_thinking(text: str) -> str:
    """What the response says aloud: up to the first end token, without the thinking."""
    aloud, thinking = [], False
    for piece in _THINK.split(_END.split(text, maxsplit=1)[0]):
        if piece.lower() == "<think>":
            thinking = True
        elif piece.lower() == "</think>":
            if not thinking:
                aloud.clear()
            thinking = False
        elif not thinking:
            aloud.append(piece)
    return "\n".join(aloud)  # a line break, so that digits before and after a thought do not grow together


# --- where the answer stands -----------------------------------------------------------------------------------------
# Each text is passed over a fixed number of times, and no pattern looks further ahead than a bound or the next mark.

_MARK = re.compile(r"((?<!#)####(?!#)|</?answer>)")
_LINE = re.compile(r"\s*[^\n]*")
_ANY_DIGIT = re.compile("[0-90-9¼-¾⅐-⅞]")
_BRACE = re.compile(r"(\\boxed\s*\{)|\\.|[{}]", re.DOTALL)
_PHRASE = re.compile(
    r"\banswer(?:\s(?:to|for|of)\s[^\n.:=0-9]{1,80}?)?\s{0,3}"
    r"(?:(?:is|was|equals|(?:would|will|must|should) be)(?![A-Za-z])\s{0,3}:?|[:=])",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"[.!?](?=\s|$)|\n")
_STARTS_WITH_NUMBER = re.compile(r"\W{0,8}(?:minus |negative )?[0-9]", re.IGNORECASE)


def _strict(text: str) -> Fraction | None:
    field = _marked(text)
    return as_number(field) if field is not None and _BARE.fullmatch(field) else None


def _boxed(text: str) -> Fraction | None:
    field = _last_box(text)
    return None if field is None else _only_number(field)


def _lenient(text: str) -> Fraction | None:
    field = _marked(text)
    scope = text if field is None else field
    box = _last_box(scope)
    if box is not None:
        return _only_number(box)
    ending = _plain(_ending(scope))
    claim = _last_claim(ending)
    if claim is not None:
        return _agreed(_without_asides(claim))
    return _last_number(ending) if field is None else _only_number(scope)


def _marked(text: str) -> str | None:
    """What follows the last #### on its line, or stands in the last closed <answer>, whichever comes later."""
    pieces = _MARK.split(text)  # text, mark, text, mark, …, text
    for i in range(len(pieces) - 2, 0, -2):
        if pieces[i] == "####":
            line = _LINE.match(pieces[i + 1])[0].strip(" \t\r")
            if not line.strip() or _ANY_DIGIT.search(line):
                return line
        elif pieces[i] == "</answer>" and i > 1 and pieces[i - 2] == "<answer>":
            return pieces[i - 1].strip()
    return None


def _last_box(text: str) -> str | None:
    r"""What stands in the closed \boxed{…} that opens last; braces are matched on a stack, in one pass."""
    stack, last = [], (-1, -1)
    for brace in _BRACE.finditer(text) if r"\boxed" in text else ():
        if brace[0].endswith("{") and brace[0] != r"\{":
            stack.append(brace.end() if brace[1] else -1)
        elif brace[0] == "}" and stack:
            last = max(last, (stack.pop(), brace.start()))
    return None if last[0] < 0 else text[slice(*last)]


def _ending(text: str) -> str:
    """The last characters of a text, from a white space on, so that no number is cut in two."""
    return text if len(text) <= LONGEST_ENDING else re.sub(r"^\S+", "", text[-LONGEST_ENDING:])


def _last_claim(text: str) -> str | None:
    """The sentence after the last "answer is …" that names a number, if it starts with it and works nothing out."""
    for phrase in reversed(list(_PHRASE.finditer(text))):
        field = text[phrase.end() : phrase.end() + 200].lstrip()
        sentence = _SENTENCE_END.split(field, maxsplit=1)[0]
        if _ANY_DIGIT.search(sentence):
            return sentence if _STARTS_WITH_NUMBER.match(sentence) and "=" not in sentence else None
    return None


def _last_number(text: str) -> Fraction | None:
    word = None
    for word in _WORD.finditer(text):  # noqa: B007 (the last one is wanted)
        pass
    return None if word is None else _value(text, word)


# --- what is written there -------------------------------------------------------------------------------------------

_CHARACTERS = {code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)} | {ord(dash): "-" for dash in "−–﹣"}
_CHARACTERS |= {ord(sign): "=" for sign in "≈→⇒"} | {ord(space): " " for space in "\u00a0\u2009\u202f\u3000"}
_REWRITES = [
    (re.compile(pattern), by)
    for pattern, by in (
        (r"\\!|\\(?=[$%#&_])", ""),
        (r"\{,\}", ","),
        (r"(?<=[0-9])\s?(?=\\[dt]?frac)", " "),
        (r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}|\\[dt]?frac\s*([0-9])\s*([0-9])", r"\1\3/\2\4"),
        (r"\^\s*\{?\\circ\}?", "°"),
        (r"\\?boxed|\\(?:left|right|displaystyle|(?:text|math|mbox)[a-z]*|[()\[\]])", ""),
        (r"\\(?:times|cdot)", "×"),
        (r"\\div", "÷"),
        (r"\\pm", "±"),
        (r"\\approx", "="),
        (r"\\[,;: ]|~", " "),
        (r"((?<= )\*+(?= )|(?<=[0-9)])\*+(?=[0-9($]))|\*+", r"\1"),  # 9 * 2 and 9*2 multiply, other stars are bold
        (r"(?<![0-9A-Za-z])_+|_+(?![0-9A-Za-z])|[{}`]", ""),
        (r"</?[A-Za-z]{1,12}>", " "),
        (r"(?<=[0-9])(?=[¼-¾⅐-⅞])", " "),
        (r"(?<=[0-9])[ '’_](?=[0-9]{3}(?![0-9]))", ","),
    )
]
_RUN = r"[0-9](?:[0-9A-Za-z.,:/'_-]*[0-9])?"  # from a digit to the last digit of its run; never read in part
_MIXED = r"(?:[0-9]{1,9}\ (?=[0-9]{1,9}/[0-9]))?"
_WORD = re.compile(
    rf"(?<![0-9A-Za-z_^.])\.{_RUN}|(?<![0-9A-Za-z_^])(?<![0-9][.,:/'-])(?:(?<![0-9A-Za-z]),)?{_MIXED}{_RUN}"
)
_MONEY = r"(?:[A-Z]{0,3}[$£€¥₹]\s?)?"
_MINUS = re.compile(
    rf"(?:(?:^|[^0-9A-Za-z)%])-{_MONEY}|[=:][ ]?-[ ]|\b(?:minus|negative)\s{{1,3}}{_MONEY})$", re.IGNORECASE
)
_OPERAND = re.compile(
    r"(?:[×÷±√*^]|[\w)%$]\s?\+|[0-9)%][ \t]{0,2}(?:[-/xX]|times|plus|minus|divided by|or|to))[ \t]{0,2}[$£€]?$"
)
_OPERATOR = re.compile(r"[ \t]{0,2}(?:[×÷*^²³]|\+(?![A-Za-z])|\\?pi\b|π)")
_SCALE = re.compile(r"\s?(hundred|thousand|million|billion|trillion)s?\b|([kK])\b", re.IGNORECASE)
_SCALES = {"hundred": 10**2, "thousand": 10**3, "k": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}


def _plain(text: str) -> str:
    """The text without LaTeX, bold and typographer's signs."""
    text = text.translate(_CHARACTERS)
    for pattern, by in _REWRITES:
        text = pattern.sub(by, text)
    return re.sub("[¼-¾⅐-⅞]", lambda match: normalize("NFKC", match[0]).replace("⁄", "/"), text)


def _only_number(field: str) -> Fraction | None:
    """The one number of a short text: the last member of its equation, without asides; two numbers are none."""
    if len(field) > LONGEST_FIELD:
        return None
    text = _without_asides(_plain(field))
    result = text.rpartition("=")[2]
    return _agreed(result if _ANY_DIGIT.search(result) else text)


def _without_asides(text: str) -> str:
    """Without brackets and what follows ", because …" after the number, as long as a number is left."""
    shorter = re.sub(r"\([^()]*\)", " ", text)
    text = shorter if _ANY_DIGIT.search(shorter) else text
    return re.sub(r"([0-9][^,;]{0,40})[,;]\s(?!or\b|and\b)(?=[A-Za-z])[^=]*$", r"\1", text)


def _agreed(text: str) -> Fraction | None:
    """The value that all numbers of the text share; a space after its first minus sign is allowed."""
    text = re.sub(r"^\s*-\s+", "-", text)
    values = {_value(text, word) for word in _WORD.finditer(text)}
    return values.pop() if len(values) == 1 else None


def _value(text: str, word: re.Match) -> Fraction | None:
    """A word's value with its sign and scale; None for an operand of a sum that is not worked out."""
    before, after = text[max(0, word.start() - 24) : word.start()], text[word.end() : word.end() + 16]
    value = as_number(word[0])
    if value is None or _OPERAND.search(before) or _OPERATOR.match(after):
        return None
    scale = _SCALE.match(after)
    sign = -1 if _MINUS.search(before) else 1
    return value * sign * (_SCALES[(scale[1] or scale[2]).lower()] if scale else 1)
