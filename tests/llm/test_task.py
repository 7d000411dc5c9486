"""Questions become prompts, responses become rewards: what is padded, decoded, graded and counted."""

import folder
import pytest
import torch
from folder import word_tokenizer
from tokenizers.processors import TemplateProcessing

from minirl.llm.pocket.tokenizer import build_tokenizer
from minirl.llm.problem import Problem
from minirl.llm.prompts import question, r1_zero, turn
from minirl.llm.task import CHECKS, LanguageTask, left_pad
from minirl.llm.word_problems import generate
from minirl.rollout import Batch

TOKENIZER = word_tokenizer()
PROBLEMS = [Problem("1 2 apples", "", "3"), Problem("apples", "", "-7"), Problem("4 0 5 apples", "", "2.5")]
END = TOKENIZER.eos_token_id


def task(**settings):
    return LanguageTask(TOKENIZER, PROBLEMS, PROBLEMS, settings.pop("prompt", question), **settings)


def written(*texts, group=1):
    return folder.written(TOKENIZER, *texts, group=group)


def test_left_pad_puts_every_end_in_the_last_column():
    assert left_pad([[1, 2], [3], [4, 5, 6]], 9).tolist() == [[9, 1, 2], [9, 9, 3], [4, 5, 6]]


def test_prompts_are_padded_in_front_and_keep_their_answers():
    batch = task().encode(PROBLEMS)
    apples, pad = TOKENIZER.convert_tokens_to_ids("apples"), TOKENIZER.pad_token_id
    digits = {digit: TOKENIZER.convert_tokens_to_ids(digit) for digit in "12450"}
    assert batch.prompts.tolist() == [
        [pad, digits["1"], digits["2"], apples],
        [pad, pad, pad, apples],
        [digits["4"], digits["0"], digits["5"], apples],
    ]
    assert batch.answers == ["3", "-7", "2.5"]


def test_a_padding_token_is_found_where_the_tokenizer_has_none():
    tokenizer = word_tokenizer()
    tokenizer.pad_token = None
    batch = LanguageTask(tokenizer, PROBLEMS, PROBLEMS, question).encode(PROBLEMS)
    assert batch.prompts[1].tolist()[:-1] == [END] * 3


@pytest.mark.parametrize("words", ["", "<|pad|> 3"])
def test_a_prompt_that_padding_would_swallow_is_refused(words):
    with pytest.raises(ValueError, match="empty or begins with the padding token"):
        task().encode([Problem(words, "", "1")])


def test_sampling_draws_different_problems_and_repeats_with_the_seed():
    problems = [Problem(f"{n} apples", "", str(n)) for n in range(50)]
    many = LanguageTask(TOKENIZER, problems, problems, question)
    draw = [many.sample(20, torch.Generator().manual_seed(seed)).answers for seed in (0, 0, 1)]
    assert draw[0] == draw[1] != draw[2] and len(set(draw[0])) == 20
    assert len(many.sample(50).answers) == 50
    for size in (0, 51):
        with pytest.raises(ValueError, match="between 1 and the 50 training problems"):
            many.sample(size)


def test_held_out_problems_are_the_test_set_or_its_beginning():
    assert task().held_out().answers == ["3", "-7", "2.5"]
    assert task(max_held_out=2).held_out().answers == ["3", "-7"]


def test_training_and_held_out_problems_are_not_mixed_up():
    train, test = ([Problem("1 apples", "", answer)] * 3 for answer in ("1", "2"))
    split = LanguageTask(TOKENIZER, train, test, question)
    assert set(split.sample(3).answers) == {"1"} and set(split.held_out().answers) == {"2"}


def test_a_prompt_gets_no_special_tokens_that_it_does_not_write_itself():
    """Some tokenizers put a token in front of every text: a chat template has it already."""
    tokenizer = word_tokenizer()
    front = TemplateProcessing(single="<unk> $A", special_tokens=[("<unk>", tokenizer.unk_token_id)])
    tokenizer.backend_tokenizer.post_processor = front
    assert tokenizer("apples")["input_ids"][0] == tokenizer.unk_token_id
    batch = LanguageTask(tokenizer, PROBLEMS, PROBLEMS, question).encode(PROBLEMS)
    assert torch.equal(batch.prompts, task().encode(PROBLEMS).prompts)


def test_only_what_is_inside_the_mask_is_read():
    """What stands behind the first end token was never said."""
    responses, mask = written("#### 3", "1 #### 4")
    responses[0, 0, -1] = TOKENIZER.convert_tokens_to_ids("7")
    assert task().texts(responses, mask) == [["#### 3"], ["1 #### 4"]]
    assert task().texts(responses, torch.zeros_like(mask)) == [[""], [""]]


def test_an_empty_response_is_an_empty_text():
    """An end token alone says nothing."""
    tokenizer = build_tokenizer()
    end, word = tokenizer.eos_token_id, tokenizer("apples")["input_ids"][0]
    responses, mask = torch.tensor([[[end, end], [word, end], [end, end]]]), torch.tensor([[[True, False]] * 3])
    mask[0, 1] = True
    graded = LanguageTask(tokenizer, PROBLEMS, PROBLEMS, question)
    assert graded.texts(responses, mask) == [["", "apples", ""]]
    assert graded.texts(responses, torch.zeros_like(mask)) == [["", "", ""]]


def test_responses_stay_in_their_groups():
    responses, mask = written("#### 3", "#### 3", "#### 2", "#### 7", group=2)
    batch = Batch(torch.zeros(2, 1, dtype=torch.long), ["3", "7"])
    assert task().check("strict", batch, responses, mask).tolist() == [[1, 1], [0, 1]]


ANSWERS = {
    "#### 3": {"strict"},
    "3 apples": {"lenient"},
    "<think> 1 </think> <answer> 3 </answer>": {"strict", "format"},
    "<think> 1 </think> <answer> 4 </answer>": {"format"},
    "<think> 3 </think>": set(),
    "": set(),
}


@pytest.mark.parametrize("text", ANSWERS)
def test_each_check_stands_for_itself(text):
    found = task().checks(CHECKS, Batch(torch.zeros(1, 1, dtype=torch.long), ["3"]), *written(text))
    passed = {name for name, scores in found.items() if scores.item() == 1}
    assert passed == ANSWERS[text] | ({"lenient"} if "strict" in ANSWERS[text] else set())
    assert all(scores.shape == (1, 1) and scores.dtype == torch.float32 for scores in found.values())


def test_thinking_that_the_prompt_opened_is_no_answer():
    batch, (responses, mask) = Batch(torch.zeros(1, 1, dtype=torch.long), ["3"]), written("#### 3")
    assert task(prompt=question).check("strict", batch, responses, mask).item() == 1
    assert task(prompt=r1_zero).check("strict", batch, responses, mask).item() == 0
    closed = written("1 </think> <answer> 3 </answer>")
    assert task(prompt=r1_zero).check("format", batch, *closed).item() == 1
    assert task(prompt=question).check("format", batch, *closed).item() == 0


def test_the_reward_is_the_weighted_sum_and_the_judge_stays_the_truth():
    graded = task(weights={"strict": 1.0, "format": 0.25}, judge="lenient")
    batch = Batch(torch.zeros(1, 1, dtype=torch.long), ["3"])
    responses, mask = written(*ANSWERS, group=len(ANSWERS))
    assert graded.rewards(batch, responses, mask).tolist() == [[1, 0, 1.25, 0.25, 0, 0]]
    assert graded.correct(batch, responses, mask).tolist() == [[1, 1, 1, 0, 0, 0]]
    assert graded.passed == pytest.approx({"strict": 2 / 6, "format": 2 / 6, "lenient": 3 / 6})


def test_evaluating_does_not_disturb_what_the_last_rollout_passed():
    graded, batch = task(), Batch(torch.zeros(1, 1, dtype=torch.long), ["3"])
    graded.rewards(batch, *written("#### 3"))
    before = dict(graded.passed)
    graded.correct(batch, *written("#### 4"))
    assert graded.passed == before == {"strict": 1.0, "format": 0.0}


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"weights": {"exact": 1.0}}, "unknown check exact; expected some of strict, lenient, boxed, format"),
        ({"judge": "human"}, "unknown check human"),
        ({"weights": {}}, "at least one check to reward"),
        ({"max_held_out": 0}, "max_held_out bounds the held-out problems"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        task(**settings)


def test_a_prompt_that_needs_a_template_says_so():
    with pytest.raises(ValueError, match="no chat template"):
        LanguageTask(word_tokenizer(template=None), PROBLEMS, PROBLEMS, turn)


def test_word_problems_become_prompts():
    problems = generate(5)
    batch = LanguageTask(TOKENIZER, problems, problems, turn).held_out()
    assert len(batch.prompts) == 5 and batch.answers == [problem.answer for problem in problems]
