"""The verifier: a table written by hand, wrong verifiers that it must reject, properties, time, and no exceptions.

With MINIRL_FAST=1 fewer random numbers and strings are tried, and long texts have a third of a megabyte.
"""

import functools
import math
import random
import re
import time
from fractions import Fraction

import pytest
from verify_cases import CASES

from minirl.experiments import fast
from minirl.llm import verify
from minirl.llm.verify import (
    LONGEST_ENDING,
    STYLES,
    as_number,
    canonical,
    extract_answer,
    has_format,
    is_correct,
    without_thinking,
)

LETTERS = dict(zip("SLB", ("strict", "lenient", "boxed"), strict=True))


def verdicts(text, gold, verifier=is_correct):
    return "".join(letter if verifier(text, gold, style) else "." for letter, style in LETTERS.items())


def test_the_table_is_long_and_says_nothing_twice():
    assert len({(text, gold) for text, gold, _ in CASES}) == len(CASES) >= 400


@pytest.mark.parametrize("text, gold, expected", CASES)
def test_table(text, gold, expected):
    assert verdicts(text, gold) == expected


def test_lenient_finds_what_strict_finds():
    for text, _, _ in CASES:
        strict = extract_answer(text, "strict")
        assert strict is None or extract_answer(text, "lenient") == strict, text


# --- wrong verifiers, each of which someone has trained against ------------------------------------------------------


def after_mark(text, pattern=r"####\s*(\S+)"):
    found = re.findall(pattern, text)
    return found[-1] if found else ""


def last_number(text, pattern=r"-?[\d,]*\.?\d+"):
    found = re.findall(pattern, text)
    return found[-1].replace(",", "") if found else ""


def as_float(text):
    try:
        return float(text.replace(",", "").replace("$", ""))
    except ValueError:
        return None


def substring(text, gold, style):
    return gold in text


def string_equality(text, gold, style):
    return after_mark(text) == gold


def float_comparison(text, gold, style):
    answer = as_float(after_mark(text))
    return answer is not None and answer == as_float(gold)


def tolerance(text, gold, style):
    answer, truth = as_number(after_mark(text)), as_number(gold)
    return answer is not None and truth is not None and abs(answer - truth) < Fraction(1, 100)


def truncated_to_integer(text, gold, style):
    answer, truth = as_number(after_mark(text)), as_number(gold)
    return answer is not None and truth is not None and int(answer) == int(truth)


def evaluated(text, gold, style):
    try:
        return bool(eval(after_mark(text, r"#### ([-+*/\d.,() ]+)")) == eval(gold))
    except Exception:
        return False


def first_instead_of_last(text, gold, style):
    found = re.search(r"####\s*(-?[\d,]+\.?\d*)", text) or re.search(r"<answer>\s*(-?[\d,]+)\s*</answer>", text)
    return found is not None and as_number(found[1]) == as_number(gold)


def without_dotall(text, gold, style):
    found = re.fullmatch(r"<think>.*</think>\s*<answer>(.*)</answer>", text) or re.search(r"#### (.*)$", text)
    return found is not None and as_number(found[1]) == as_number(gold)


def sign_lost(text, gold, style):
    return as_number(last_number(text, r"[\d,]*\.?\d+")) == as_number(gold.lstrip("-"))


def comma_splits(text, gold, style):
    return last_number(text, r"-?\d+(?:\.\d+)?") == gold


def comma_is_a_number(text, gold, style):
    return as_number(last_number(text, r"-?[\d,]+(?:\.\d+)?")) == as_number(gold)


def thinking_counts(text, gold, style):
    return is_correct(text.replace("<think>", "").replace("</think>", ""), gold, style)


def thinking_closed_by_the_prompt(text, gold, style):
    return is_correct(re.sub(r"<think>.*?</think>", "", text, flags=re.DOTALL).replace("</think>", ""), gold, style)


def greedy_thinking(text, gold, style):
    return is_correct(re.sub(r"<think>.*</think>", "", text, flags=re.DOTALL).replace("<think>", ""), gold, style)


def past_the_end(text, gold, style):
    return is_correct(re.sub(r"<\|[a-z_]+\|>|</s>|<eos>|<end_of_turn>", " ", text), gold, style)


def empty_matches(text, gold, style):
    return (extract_answer(text, style) or "") in gold


def always_lenient(text, gold, style):
    return is_correct(text, gold, "lenient")


def always_strict(text, gold, style):
    return is_correct(text, gold, "strict")


def any_answer_of_several(text, gold, style):
    return any(as_number(found.replace("$", "")) == as_number(gold) for found in re.findall(r"[-$\d,.]*\d", text))


def braces_not_matched(text, gold, style):
    return as_number(after_mark(text, r"\\boxed\{(.*?)\}")) == as_number(gold) or is_correct(text, gold, "strict")


def none_equals_none(text, gold, style):
    return as_number(extract_answer(text, style) or "") == as_number(gold)


MUTANTS = [
    substring,
    string_equality,
    float_comparison,
    tolerance,
    truncated_to_integer,
    evaluated,
    first_instead_of_last,
    without_dotall,
    sign_lost,
    comma_splits,
    comma_is_a_number,
    thinking_counts,
    thinking_closed_by_the_prompt,
    greedy_thinking,
    past_the_end,
    empty_matches,
    always_lenient,
    always_strict,
    any_answer_of_several,
    braces_not_matched,
    none_equals_none,
]


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_table_rejects_wrong_verifiers(mutant):
    assert mutant("She sells 9 eggs.\n#### 18", "18", "strict"), "a mutant has to get the easy case right"
    assert any(verdicts(text, gold, mutant) != expected for text, gold, expected in CASES)


# --- properties ------------------------------------------------------------------------------------------------------


def grouped(x):
    return f"{abs(x):,}"


def sign(x):
    return "-" if x < 0 else ""


BARE = {  # every way to write the integer x that strict takes
    "plain": str,
    "decimals": lambda x: f"{x}.00",
    "grouped": lambda x: f"{x:,}",
    "grouped with decimals": lambda x: f"{x:,}.0",
    "leading zero": lambda x: f"{sign(x)}0{abs(x)}",
    "plus": lambda x: f"{x:+}",
}
DRESSED = {  # and that lenient takes besides
    "unicode minus": lambda x: str(x).replace("-", "−"),
    "en dash": lambda x: str(x).replace("-", "–"),
    "minus in words": lambda x: str(x).replace("-", "minus "),
    "full stop": lambda x: f"{x}.",
    "dollars": lambda x: f"{sign(x)}${grouped(x)}",
    "dollars and cents": lambda x: f"{sign(x)}${grouped(x)}.00",
    "escaped dollar": lambda x: rf"{sign(x)}\${grouped(x)}",
    "euros behind": lambda x: f"{x} €",
    "unit": lambda x: f"{x} apples",
    "unit without space": lambda x: f"{x}cm",
    "unit in LaTeX": lambda x: rf"{x}\text{{ dollars}}",
    "percent": lambda x: f"{x}%",
    "percent in LaTeX": lambda x: rf"{x}\%",
    "bold": lambda x: f"**{x}**",
    "italic": lambda x: f"*{x}*",
    "code": lambda x: f"`{x}`",
    "mathematics": lambda x: f"${x}$",
    "LaTeX brackets": lambda x: rf"\({x}\)",
    "narrow spaces": lambda x: f"{x:,}".replace(",", "\u202f"),
    "apostrophes": lambda x: f"{x:,}".replace(",", "'"),
    "LaTeX commas": lambda x: f"{x:,}".replace(",", "{,}"),
    "thin spaces in LaTeX": lambda x: f"{x:,}".replace(",", r"\,"),
    "full width": lambda x: str(x).translate({ord(c): chr(ord(c) + 0xFEE0) for c in "-0123456789"}),
    "equation": lambda x: f"{x - 5} + 5 = {x}",
    "named": lambda x: f"x = {x}",
    "fraction": lambda x: f"{2 * x}/2",
    "LaTeX fraction": lambda x: rf"{sign(x)}\frac{{{3 * abs(x)}}}{{3}}",
    "aside": lambda x: f"{x} (that is, 3 more than {x - 3})",
    "reason": lambda x: f"{x} dollars, since she has 3 of them",
}
MARKED = {"#### ": "#### {}", "tag": "<answer>{}</answer>", "tag on lines": "<answer>\n{}\n</answer>"}
LOOSE = {"box": r"\boxed{{{}}}", "box in prose": r"So in 3 days we get $\boxed{{{}}}$, I think."}
IN_PROSE = {
    "answer is": "She has 3 hens.\nThe answer is {}",
    "answer:": "It takes 3 steps.\n**Answer:** {}",
    "bare": "{}",
}
AROUND = {
    "alone": "{}",
    "after thinking": "<think>\nIs it 3? #### 4\n</think>\n{}",
    "after a chain": "First 16 - 3 = 13.\nThen on.\n{}",
    "before the end token": "{}<|im_end|>\n#### 5",
}


def numbers(seed):
    draw = random.Random(seed)
    large = [draw.choice((-1, 1)) * int(10 ** draw.uniform(0, 8)) for _ in range(fast(12, 4))]
    return [0, 1, -1, 18, -7, 1000, -1080, 1_000_000, *large]


def others(x):
    return {str(y) for y in (x + 1, x - 1, 10 * x, -x, x // 10, x % 1000, abs(x), abs(x) % 10)} - {str(x)}


@pytest.fixture
def read_once(monkeypatch):
    """A text is read once, however many numbers `is_correct` then compares it with."""
    monkeypatch.setattr(verify, "extract_answer", functools.cache(extract_answer))


def accepts_only(text, x, style):
    return is_correct(text, str(x), style) and not any(is_correct(text, other, style) for other in others(x))


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("way", BARE)
@pytest.mark.usefixtures("read_once")
def test_strict_accepts_every_bare_way_of_writing_a_number(way, around):
    for x in numbers(way):
        for mark in MARKED.values():
            text = AROUND[around].format(mark.format(BARE[way](x)))
            assert accepts_only(text, x, "strict") and accepts_only(text, x, "lenient"), text


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("way", {**BARE, **DRESSED})
@pytest.mark.usefixtures("read_once")
def test_lenient_accepts_every_way_of_writing_a_number(way, around):
    for x in numbers(way):
        for frame in (MARKED | LOOSE).values():
            text = AROUND[around].format(frame.format((BARE | DRESSED)[way](x)))
            assert accepts_only(text, x, "lenient"), text
            assert not (frame in LOOSE.values() and not accepts_only(text, x, "boxed")), text


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("way", sorted({**BARE, **DRESSED}.keys() - {"aside", "reason"}))
@pytest.mark.usefixtures("read_once")
def test_lenient_accepts_every_way_of_writing_a_number_in_prose(way, around):
    for x in numbers(way):
        for frame in IN_PROSE.values():
            text = AROUND[around].format(frame.format((BARE | DRESSED)[way](x)))
            assert accepts_only(text, x, "lenient"), text


@pytest.mark.parametrize("way", DRESSED)
def test_strict_takes_no_dress(way):
    x = -1234567
    assert not is_correct(f"#### {DRESSED[way](x)}", str(x), "strict")


def test_decimals_are_exact():
    draw = random.Random(0)
    for _ in range(300):
        x = Fraction(draw.randrange(-(10**9), 10**9), 10 ** draw.randrange(7))
        text = f"#### {canonical(x)}"
        assert is_correct(text, canonical(x)) and not is_correct(text, canonical(x + Fraction(1, 10**30)))


def test_canonical_is_one_to_one():
    values = {Fraction(top, bottom) for top in range(-40, 41) for bottom in range(1, 41)}
    assert len({canonical(x) for x in values}) == len(values)
    assert all(as_number(canonical(x)) == x for x in values)
    assert [canonical(Fraction(x, 8)) for x in (144, -56, 20, -1)] == ["18", "-7", "2.5", "-0.125"]
    assert canonical(Fraction(-1, 3)) == "-1/3"


@pytest.mark.parametrize(
    "text", ["", " ", "-", "+", ".", ",", "1,", ",1", "1,00", "1e3", "0x1", "1_0", "1/0", "٣", "²", "∞"]
)
def test_as_number_takes_nothing_but_a_number(text):
    assert as_number(text) is None


# --- format ----------------------------------------------------------------------------------------------------------

FORMATS = [
    ("<think>9 * 2 = 18</think><answer>18</answer>", True),
    ("<think>9 * 2 = 18</think> <answer>18</answer>", True),
    ("<think>\n9 * 2\n= 18\n</think>\n\n<answer>\n18\n</answer>\n", True),
    ("\n<think>a</think><answer>b</answer><|im_end|>", True),
    ("<think>a</think><answer>b</answer><|im_end|>and more", True),
    ("<think>a < b > c</think><answer>$18</answer>", True),
    ("", False),
    ("18", False),
    ("<answer>18</answer>", False),
    ("<think>a</think>18", False),
    ("<think>a</think>", False),
    ("<think>a<answer>18</answer></think>", False),
    ("<think>a<answer>18</think></answer>", False),
    ("<answer>18</answer><think>a</think>", False),
    ("a</think><answer>18</answer>", False),
    ("<think>a<answer>18</answer>", False),
    ("<think>a</think><answer>18", False),
    ("<think>a</think>18</answer>", False),
    ("<think>a</think>So<answer>18</answer>", False),
    ("So<think>a</think><answer>18</answer>", False),
    ("<think>a</think><answer>18</answer>So", False),
    ("<think>a</think><answer>18</answer><answer>18</answer>", False),
    ("<think>a</think><think>b</think><answer>18</answer>", False),
    ("<think><think>a</think></think><answer>18</answer>", False),
    ("<think>a</think><answer><answer>18</answer></answer>", False),
    ("<think></think><answer>18</answer>", False),
    ("<think> \n</think><answer>18</answer>", False),
    ("<think>a</think><answer></answer>", False),
    ("<think>a</think><answer> </answer>", False),
    ("<THINK>a</THINK><ANSWER>18</ANSWER>", False),
    ("<think>a</think><answer>18<|im_end|></answer>", False),
    ("<|im_end|><think>a</think><answer>18</answer>", False),
    ("</think><think>a<answer>18</answer>", False),
]


@pytest.mark.parametrize("text, right", FORMATS)
def test_format(text, right):
    assert has_format(text) is right
    if text.startswith("<think>"):
        assert has_format(text.removeprefix("<think>"), opened=True) is right


def test_a_prompt_that_opens_the_thinking():
    response = " 9 * 2 = 18 </think> <answer>18</answer>"
    assert has_format(response, opened=True) and not has_format(response)
    assert is_correct(response, "18") and is_correct(response, "18", opened=True)
    assert is_correct("so #### 18", "18") and not is_correct("so #### 18", "18", opened=True)
    assert is_correct("<think> again </think>#### 18", "18", opened=True)


def test_thoughts_do_not_glue_what_surrounds_them():
    assert without_thinking("1<think>x</think>8").split() == ["1", "8"]


# --- any string, quickly ---------------------------------------------------------------------------------------------

SHREDS = [
    *"{}-−$%½=*_()01x٣🎉１/';., \\\n\u2028\ud800\x00",
    "<think>",
    "</think>",
    "<answer>",
    "</answer>",
    "<|im_end|>",
]
SHREDS += [
    "#### ",
    "####",
    r"\boxed{",
    r"\frac{1}{2}",
    r"\frac",
    "**",
    "18",
    "-7",
    "1,080",
    "1e9",
    "answer is ",
    "Answer: ",
]
SHREDS += [" is ", " or ", "minus ", "million"]


def test_never_raises_and_strict_implies_lenient():
    draw = random.Random(0)
    for _ in range(fast(20_000, 5_000)):
        text = "".join(draw.choices(SHREDS, k=draw.randrange(12)))
        strict, lenient, boxed = (extract_answer(text, style) for style in ("strict", "lenient", "boxed"))
        assert strict is None or strict == lenient, text
        assert all(x is None or canonical(as_number(x)) == x for x in (strict, lenient, boxed)), text
        assert has_format(text) in (True, False) and is_correct(text, text) in (True, False)


MEGABYTES = fast(1, 1 / 3)
UNITS = [
    "<think>",
    "</think>",
    "<answer>",
    "</answer>",
    "#### ",
    "#### a\n",
    "####",
    r"\boxed{",
    "{",
    "}",
    r"\frac{",
    "\\",
]
UNITS += [
    "answer is ",
    "answer to a",
    "18 ",
    "1",
    "1,",
    "1/",
    "1½",
    "minus ",
    " * ",
    "1, a",
    "((1)",
    "<a",
    " ",
    "\n",
    "-",
]
PAIRS = [("", ""), ("<answer>", "</answer>"), (r"\boxed{", "}")]


@pytest.mark.parametrize("unit", UNITS)
def test_a_megabyte_takes_less_than_a_second(unit):
    for start, end in PAIRS:
        text = start + unit * math.ceil(MEGABYTES * 1_000_000 / len(unit)) + end
        for style in STYLES:
            before = time.process_time()
            is_correct(text, "18", style)
            assert time.process_time() - before < MEGABYTES, (start, style)
        before = time.process_time()
        has_format(text), as_number(text), is_correct("18", text)
        assert time.process_time() - before < MEGABYTES, start


def test_a_long_response_is_still_read():
    chain = "Then 9 + 9 is the sum of two numbers. " * 30_000
    assert all(is_correct(f"<think>{chain}</think>#### 18", "18", style) for style in ("strict", "lenient"))
    assert is_correct(chain + "So the answer is 18.", "18", "lenient")
    assert is_correct(chain + r"\boxed{18} " + chain, "18", "boxed")
    assert not is_correct("#### 1" + "0" * 200, "1" + "0" * 200), "a number of 200 digits is none"


def test_no_number_is_cut_in_two_where_the_ending_begins():
    text = "188" + " a" * (LONGEST_ENDING // 2 - 1) + "a"  # the last LONGEST_ENDING characters begin with its last 8
    assert text[-LONGEST_ENDING:].startswith("8 a") and extract_answer(text, "lenient") is None


def test_an_unknown_style_is_refused():
    with pytest.raises(ValueError, match="strict, lenient, boxed"):
        extract_answer("18", "loose")
