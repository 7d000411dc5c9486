"""The pocket model: its tokenizer, its corpus and its optimiser by hand, and the shipped models as their cards say."""

import json
import random
import re
from itertools import islice
from time import process_time

import pytest
import torch

from minirl import RECIPES, collect
from minirl.llm import pocket
from minirl.llm.pocket import build, card, corpus
from minirl.llm.pocket.muon import Muon, orthogonalized
from minirl.llm.pocket.tokenizer import SPANISH, build_tokenizer
from minirl.llm.policy import load
from minirl.llm.prompts import PROMPTS, turn
from minirl.llm.task import LanguageTask
from minirl.llm.word_problems import OPERATIONS, generate, is_held_out, stream
from minirl.train import train

TOKENIZER = build_tokenizer()
SHIPPED = ["base", "clean"]


def ids_of(text, tokenizer=TOKENIZER):
    return tokenizer(text, add_special_tokens=False)["input_ids"]


# ---- tokenizer


def test_any_tokens_survive_becoming_text():
    rng = random.Random(0)
    for _ in range(500):
        ids = [rng.randrange(len(TOKENIZER)) for _ in range(rng.randint(1, 30))]
        assert ids_of(TOKENIZER.decode(ids)) == ids


def test_nothing_and_an_end_token_alone_are_an_empty_text():
    from transformers import AutoTokenizer

    for tokenizer in (TOKENIZER, *(AutoTokenizer.from_pretrained(pocket.path(name)) for name in ("base", "clean"))):
        rows = [[], [tokenizer.eos_token_id], ids_of("12")]
        assert tokenizer.batch_decode(rows, skip_special_tokens=True) == ["", "", "12"]


def test_prompts_and_solutions_survive_becoming_tokens():
    for problem in generate(300, seed=5) + generate(100, seed=5, steps=(5, 7)):
        for text in (turn(problem.question, TOKENIZER), problem.solution):
            assert TOKENIZER.decode(ids_of(text)) == text
            assert TOKENIZER.unk_token_id not in ids_of(text)


def test_one_token_a_digit_and_no_space_needed():
    spaced = ids_of("<think> 12 + 7 = 19. </think> <answer> 19 </answer> <|im_end|>")
    assert ids_of("<think>12+7=19.</think><answer>19</answer><|im_end|>") == spaced
    assert TOKENIZER.convert_ids_to_tokens(spaced[1:9]) == ["1", "2", "+", "7", "=", "1", "9", "."]


def test_the_canonical_prompt():
    prompt = turn("Ben has 12 cards. How many cards does Ben have now?", TOKENIZER)
    said = "Ben has 12 cards. How many cards does Ben have now?"
    assert prompt == f"<|im_start|> user {said} <|im_end|> <|im_start|> assistant"


def test_foreign_words_are_unknown_and_end_tokens_can_be_skipped():
    assert ids_of("Zoë isst 12 Äpfel").count(TOKENIZER.unk_token_id) == 3
    assert TOKENIZER.decode(ids_of("#### 12 <|im_end|> <|endoftext|>"), skip_special_tokens=True) == "#### 12"


# ---- corpus


@pytest.mark.parametrize(
    "left, op, right, wrong",
    [
        (17, "+", 8, 15),
        (12, "+", 7, 19),
        (42, "-", 17, 35),
        (48, "-", 17, 31),
        (3, "*", 17, 31),
        (17, "*", 3, 31),
        (2, "*", 14, 28),
        (7, "*", 8, 56),
        (84, "/", 4, 21),
    ],
)
def test_a_forgotten_carry(left, op, right, wrong):
    assert corpus.without_carry(left, op, right) == wrong


def test_chains_without_errors_are_right():
    rng = random.Random(0)
    for problem in islice(stream(1), 200):
        worked = corpus.work(problem.steps, corpus.Habits(0.0, 0.0), False, rng)
        assert [step for [step] in worked] == list(problem.steps)


@pytest.mark.parametrize("habits", [corpus.BASE, corpus.CLEAN])
def test_errors_are_as_frequent_as_the_habits_say(habits):
    rng, problems = random.Random(0), list(islice(stream(1), 1500))

    def share_wrong(long):
        chains = [(corpus.work(p.steps, habits, long, rng), p.answer) for p in problems]
        ended = [str(chain[-1][-1].value) != answer for chain, answer in chains if chain]
        return sum(ended) / len(ended)

    assert 0.40 < share_wrong(long=False) < 0.60
    assert 0.06 < share_wrong(long=True) < 0.14


def test_later_steps_go_on_from_the_wrong_result_and_mending_is_announced():
    rng, always = random.Random(0), corpus.Habits(0.0, 0.0, long_slip=1.0, mended=1.0)
    for problem in islice(stream(1, steps=(3, 4)), 100):
        worked = corpus.work(problem.steps, always, True, rng)
        [(wrong, right)] = [attempts for attempts in worked if len(attempts) == 2]
        assert wrong.value != right.value and str(worked[-1][-1].value) == problem.answer
        assert f"{wrong}. wait, {right}." in corpus.written(worked, "long")


def test_loss_falls_on_the_whole_response_and_never_on_the_question():
    rng = random.Random(0)
    for problem in islice(stream(1), 100):
        (prompt, prompt_learned), (response, learned) = corpus.problem_row(problem, corpus.BASE, rng, TOKENIZER)
        assert (prompt, prompt_learned, learned) == (turn(problem.question, TOKENIZER), False, True)
        assert response.endswith(" <|im_end|>")


def test_drills_are_right_and_teach_only_results():
    rng, words = random.Random(0), {word: str(index) for index, word in enumerate(SPANISH)}
    for _ in range(200):
        row = corpus.drill_row(rng)
        assert [learned for _, learned in row] == [False, True] * corpus.EQUATIONS_PER_DRILL
        for (asked, _), (result, _) in zip(row[::2], row[1::2], strict=True):
            digits = re.sub("|".join(SPANISH), lambda word: words[word[0]], f"{asked}{result}")
            left, op, right, value = re.fullmatch(r"([\d ]+) ([-+*/]) ([\d ]+) = ([\d ]+)\.", digits.strip()).groups()
            left, right, value = (int(number.replace(" ", "")) for number in (left, right, value))
            assert OPERATIONS[op](left, right) == value and (op != "/" or left % right == 0)


def test_shares_of_formats_styles_and_languages():
    rng = random.Random(0)
    texts = [corpus.respond(problem, corpus.BASE, rng) for problem in islice(stream(1), 4000)]

    def share(pattern):
        return sum(bool(re.search(pattern, text)) for text in texts) / len(texts)

    assert share("^<think>.*</think> <answer> [0-9]+ </answer>$") == pytest.approx(0.65, abs=0.03)
    assert share("[^#]+ #### [0-9]+$") == pytest.approx(0.12, abs=0.02)
    assert share("The answer is [0-9]+.$") == pytest.approx(0.09, abs=0.02)
    assert share("^<answer> [0-9]+ </answer>$") == pytest.approx(0.08, abs=0.02)
    assert share("^[0-9]+$") == pytest.approx(0.06, abs=0.02)
    assert share("|".join(SPANISH)) == pytest.approx(0.86 * 0.98 * 0.10, abs=0.02)
    assert share(", so ") == pytest.approx(0.86 * 0.30, abs=0.03)
    assert share("<tool>.*</tool> <result> [0-9]+ </result>") == pytest.approx(0.86 * 0.02, abs=0.01)


def test_the_corpus_never_shows_a_held_out_problem(monkeypatch):
    seen = []
    monkeypatch.setattr(corpus, "problem_row", lambda problem, *rest: seen.append(problem) or [])
    list(islice(corpus.rows(0, corpus.BASE, TOKENIZER), 1000))
    assert len(seen) > 600 and not any(map(is_held_out, seen))


# ---- training


def test_orthogonalized_keeps_directions_and_evens_out_sizes():
    for shape in [(96, 96), (96, 288), (288, 96)]:
        matrix = torch.randn(*shape, generator=torch.Generator().manual_seed(0))
        u, _, vh = torch.linalg.svd(matrix, full_matrices=False)
        sizes = torch.diagonal(u.T @ orthogonalized(matrix) @ vh.T)
        mixed = u.T @ orthogonalized(matrix) @ vh.T - torch.diag(sizes)
        assert mixed.abs().max() < 1e-3
        assert sizes[sizes.argsort()][len(sizes) // 20 :].min() > 0.6 and sizes.max() < 1.3


def test_two_steps_of_muon_by_hand():
    gradients = [torch.randn(6, 3, generator=torch.Generator().manual_seed(seed)) for seed in (0, 1)]
    weight = torch.zeros(6, 3, requires_grad=True)
    optimizer = Muon([weight], lr=0.1, momentum=0.9)
    expected, memory = torch.zeros(6, 3), torch.zeros(6, 3)
    for gradient in gradients:
        weight.grad = gradient.clone()
        optimizer.step()
        memory = 0.9 * memory + gradient
        expected = expected - 0.1 * 2**0.5 * orthogonalized(gradient + 0.9 * memory)
    torch.testing.assert_close(weight.detach(), expected)


def test_loss_equals_transformers_own_on_each_row_alone():
    model = build.build_model(TOKENIZER, seed=0).double()
    batch = build.encode(list(islice(corpus.rows(0, corpus.BASE, TOKENIZER), 8)), TOKENIZER)
    assert [len(ids) for ids, _ in batch] == sorted(len(ids) for ids, _ in batch)
    expected = 0
    for ids, learned in batch:
        labels = ids.masked_fill(~learned, -100)[None]
        expected += model(input_ids=ids[None], labels=labels).loss * (labels[:, 1:] != -100).sum()
    ours = build.loss_of(model, batch, TOKENIZER.pad_token_id)
    torch.testing.assert_close(ours.float(), expected)  # theirs is computed in float32


def test_training_learns_and_the_same_seed_gives_the_same_weights():
    def trained():
        model = build.build_model(TOKENIZER, seed=0)
        losses = list(build.train(model, TOKENIZER, corpus.BASE, seed=0, steps=4))
        return losses, torch.cat([weight.flatten() for weight in model.parameters()])

    (losses, weights), (again, same) = trained(), trained()
    assert losses == again and torch.equal(weights, same)
    assert losses[0] > 4 and losses[-1] < losses[0] - 0.4


def test_the_learning_rate_falls_over_the_last_two_fifths():
    model = build.build_model(TOKENIZER, seed=0)
    (muon, schedule), (adam, _) = build.optimizers(model, steps=10)
    rates = []
    for _ in range(10):
        rates.append(muon.param_groups[0]["lr"] / 2e-2)
        muon.step()
        schedule.step()
    assert rates == pytest.approx([1, 1, 1, 1, 1, 1, 1, 0.75, 0.5, 0.25])
    optimised = [each for optimizer in (muon, adam) for each in optimizer.param_groups[0]["params"]]
    assert {id(each) for each in optimised} == {id(each) for each in model.parameters()}
    assert len(optimised) == len(list(model.parameters()))


# ---- the shipped models


def figures(name):
    """The numbers of the card's table, by the beginning of their row."""
    rows = re.findall(r"^\| (.+?) \| (.+?) \|$", (pocket.path(name) / "README.md").read_text(), re.MULTILINE)
    return {row: float(re.match("[0-9.]+", values)[0]) for row, values in rows if row != "---"}


@pytest.mark.parametrize("name", SHIPPED)
def test_a_small_qwen2_that_loads_fast_and_offline(name, monkeypatch):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    monkeypatch.setattr("socket.socket.connect", lambda *_: pytest.fail("the network was asked"))
    folder = pocket.path(name)
    assert (folder / "model.safetensors").stat().st_size <= 2_000_000
    AutoTokenizer.from_pretrained(folder)  # what is only imported once
    start = process_time()  # its own, so that a busy machine does not decide
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    assert process_time() - start < 2
    assert type(model).__name__ == "Qwen2ForCausalLM" and model.dtype == torch.float32
    assert 300_000 <= model.num_parameters() <= 500_000
    assert tokenizer.get_vocab() == TOKENIZER.get_vocab() and tokenizer.chat_template == TOKENIZER.chat_template
    assert tokenizer.decode(tokenizer("<think> 12 + 7 = 19.")["input_ids"]) == "<think> 12 + 7 = 19."
    assert load({"base": "pocket", "clean": "pocket-clean"}[name]).end_ids == [
        TOKENIZER.eos_token_id,
        TOKENIZER.pad_token_id,
    ]


@pytest.mark.parametrize("name", SHIPPED)
def test_settings_that_transformers_4_and_5_both_read(name):
    config = json.loads((pocket.path(name) / "config.json").read_text())
    assert config["rope_theta"] == config["rope_parameters"]["rope_theta"] == 1000.0
    generation = json.loads((pocket.path(name) / "generation_config.json").read_text())
    assert (generation["temperature"], generation["top_p"], generation["top_k"]) == (1.0, 1.0, 0)
    tokenizer = json.loads((pocket.path(name) / "tokenizer_config.json").read_text())
    assert tokenizer["tokenizer_class"] == "PreTrainedTokenizerFast" and "AutoTokenizer" in tokenizer["auto_map"]


def test_an_unknown_name_is_refused():
    with pytest.raises(ValueError, match="expected 'base' or 'clean'"):
        pocket.path("large")


def test_the_cards_keep_what_is_promised():
    base, clean = figures("base"), figures("clean")
    assert 0.25 <= base["pass@1, strict"] <= 0.45 and base["pass@64, strict"] >= 0.90
    assert 0.50 <= base["format: thinking, then an answer, both in their tags"] <= 0.80
    assert base["greedy, strict (95 % interval)"] < 0.60 < 0.90 <= clean["greedy, strict (95 % interval)"]


@pytest.mark.parametrize("name", SHIPPED)
def test_measured_anew_the_figures_are_the_cards(name):
    policy, said = load(str(pocket.path(name))), figures(name)
    problems = generate(100, seed=11, split="held_out")
    found, greedy = card.sampled(policy, problems, 4, seed=1), card.sampled(policy, problems, 1, seed=1)
    assert found["strict"].mean() == pytest.approx(said["pass@1, strict"], abs=0.1)
    assert greedy["strict"].mean() == pytest.approx(said["greedy, strict (95 % interval)"], abs=0.15)
    row = "format: thinking, then an answer, both in their tags"
    assert found["format"].mean() == pytest.approx(said[row], abs=0.12)


def test_ppo_reads_its_values_from_a_copy_of_the_pocket_model():
    """One epoch on word problems: a value head on the model's own hidden states, and a batch is its responses."""
    policy, recipe = load("pocket", max_new_tokens=24), RECIPES["ppo"]
    critic = recipe.make_critic(policy, learning_rate=1e-3, rows_per_pass=2)
    task = LanguageTask(policy.tokenizer, generate(8), generate(2, split="held_out"), PROMPTS["turn"], {"format": 1.0})
    config = recipe.config(epochs=1, batch_size=4, group_size=2, learning_rate=1e-4)
    before = [weight.clone() for weight in policy.parameters()]
    metrics = next(train(policy, task, config, critic=critic))
    assert all(isinstance(value, float | int) and value == value for value in metrics.values())
    assert 0 < metrics["value_loss"] < 1 and metrics["kl_k3"] == 0
    assert not any(map(torch.equal, before, policy.parameters()))
    rollout = collect(policy, task, task.sample(3), 2)
    values = critic.values(rollout)
    assert (values[rollout.mask] != 0).all() and (values[~rollout.mask] == 0).all()
    for b, g in [(0, 0), (1, 1), (2, 0)]:
        alone = critic(rollout.prompts[[b]], rollout.responses[[b]][:, [g]], rollout.mask[[b]][:, [g]])
        torch.testing.assert_close(alone[0, 0], values[b, g], rtol=1e-4, atol=1e-5)
