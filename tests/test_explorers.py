"""The explorers without a browser: what moves, what is refused, and what stays where widgets don't run."""

import base64
import io
import statistics
import time

import nbformat
import pytest
import torch
from nbconvert import HTMLExporter, LatexExporter
from PIL import Image

from minirl import SortingPolicy, explorers

POLICIES = SortingPolicy(seed=0), SortingPolicy(seed=1)
EXPLORERS = {
    "deltas": explorers.explore_deltas,
    "clipping": explorers.explore_clipping,
    "kl": explorers.explore_kl,
    "policy": lambda: explorers.explore_policy(*POLICIES),
}
START = {
    "deltas": ["1, 0, 0, 2"],
    "clipping": ["1.1, 0.2, 0.2", 1.0],
    "kl": ["1, 0, 0, -1", "0, 0, 0, 0", 1],
    "policy": ["2, 1, 0"],
}
GOOD = {"deltas": "[0, 1, −2.5]", "clipping": "0.5 0.1 0.3", "kl": "2, 0, 0, 1", "policy": "4; 4; 0"}
BAD = [
    ("deltas", "one, two", "“one” is not a finite number; please type numbers with commas between them."),
    ("deltas", "", "Expected 2 to 12 numbers in “rewards”, got 0."),
    ("deltas", "1", "Expected 2 to 12 numbers in “rewards”, got 1."),
    ("deltas", "1 2 3 4 5 6 7 8 9 10 11 12 13", "Expected 2 to 12 numbers in “rewards”, got 13."),
    ("deltas", "1, nan", "“nan” is not a finite number"),
    ("deltas", "1, 1e999", "“1e999” is not a finite number"),
    ("deltas", "1, 1001", "response 2 is 1001; expected a number from -1000 to 1000."),
    ("deltas", "<img src=x>, 1", "“&lt;img” is not a finite number"),
    ("clipping", "0, 0.2, 0.2", "ratio ρ is 0; expected a number from 0.05 to 2.5."),
    ("clipping", "1, -0.1, 0.2", "ε_low is -0.1; expected a number from 0 to 1."),
    ("clipping", "1, 0.2, 1.5", "ε_high is 1.5; expected a number from 0 to 1."),
    ("clipping", "1, inf, 0.2", "“inf” is not a finite number"),
    ("clipping", "1, 0.2", "Expected 3 numbers in “ρ, ε_low, ε_high”, got 2."),
    ("kl", "1, 2, 3", "π has 3 tokens, π_ref has 4; expected the same number."),
    ("kl", "9, 0, 0, 0", "token 0 is 9; expected a number from -5 to 5."),
    ("policy", "1, 2", "Expected 3 numbers in “prompt”, got 2."),
    ("policy", "1, 2, 5", "number 3 is 5; expected a whole number from 0 to 4."),
    ("policy", "1, 2, 0.5", "number 3 is 0.5; expected a whole number from 0 to 4."),
    ("policy", "a b c", "“a” is not a finite number"),
]


@pytest.fixture(params=EXPLORERS)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def made():
    return {name: make() for name, make in EXPLORERS.items()}


@pytest.fixture
def explorer(name, made):
    for control, value in zip(made[name].controls, START[name], strict=True):
        getattr(control, "text", control).value = value
    return made[name]


def sliders(explorer):
    return [
        slider for control in explorer.controls if hasattr(control, "sliders") for slider in control.sliders.children
    ]


def count_redraws(explorer, monkeypatch):
    drawn, draw = [], explorer.screen.draw
    monkeypatch.setattr(explorer.screen, "draw", lambda *args, **named: (drawn.append(args), draw(*args, **named)))
    return drawn


def test_output_holds_the_widget_and_the_same_picture_as_a_png(explorer):
    bundle = explorer._repr_mimebundle_()
    assert bundle["application/vnd.jupyter.widget-view+json"]["model_id"] == explorer.model_id
    assert base64.b64decode(bundle["image/png"]) == bytes(explorer.picture.value)
    assert "still picture" in bundle["text/plain"]
    assert Image.open(io.BytesIO(explorer.picture.value)).size == (700, 320)


@pytest.mark.parametrize(("exporter", "picture"), [(HTMLExporter, "<img"), (LatexExporter, r"\adjustimage")])
def test_web_pages_and_pdf_show_the_still_picture_once(exporter, picture):
    bundle = EXPLORERS["clipping"]()._repr_mimebundle_()
    output = nbformat.v4.new_output("display_data", bundle)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("explore_clipping()", outputs=[output])])
    page, _ = exporter().from_notebook_node(notebook)
    body = page[page.find("<body") :] if "<body" in page else page[page.find(r"\begin{document}") :]
    assert body.count(picture) == 1 and bundle["text/plain"] not in body and "widget-view" not in body


def test_a_slider_moves_text_and_picture_with_one_redraw(explorer, monkeypatch):
    drawn, before = count_redraws(explorer, monkeypatch), explorer.picture.value
    slider = explorer.controls[0].sliders.children[0]
    slider.value = slider.min if slider.value > slider.min else slider.max
    assert len(drawn) == 1 and explorer.picture.value != before
    assert explorer.controls[0].text.value.startswith(f"{slider.value:g},")


def test_typed_numbers_move_sliders_and_picture_with_one_redraw(name, explorer, monkeypatch):
    drawn, before, field = count_redraws(explorer, monkeypatch), explorer.picture.value, explorer.controls[0]
    field.text.value = GOOD[name]
    assert len(drawn) == 1 and explorer.picture.value != before and explorer.message.value == ""
    assert [slider.value for slider in field.sliders.children] == explorers.parse(GOOD[name])


@pytest.mark.parametrize(("name", "typed", "sentence"), BAD)
def test_bad_input_leaves_the_last_picture_and_says_what_is_wrong(name, typed, sentence, explorer):
    before = explorer.picture.value, [slider.value for slider in sliders(explorer)]
    explorer.controls[0].text.value = typed
    assert sentence in explorer.message.value and 'role="alert"' in explorer.message.value
    assert (explorer.picture.value, [slider.value for slider in sliders(explorer)]) == before


def test_good_input_after_bad_clears_the_message(name, explorer):
    explorer.controls[0].text.value = "abc"
    explorer.controls[0].text.value = GOOD[name]
    assert explorer.message.value == ""


def test_a_slider_after_bad_text_starts_from_the_last_good_numbers(explorer):
    field = explorer.controls[0]
    field.text.value = "abc"
    field.sliders.children[0].value += 1 if field.sliders.children[0].value < 1 else -1
    assert explorer.message.value == "" and "abc" not in field.text.value


@pytest.mark.parametrize(("name", "place", "value"), [("clipping", 1, -1.0), ("kl", 2, 64)])
def test_buttons_move_the_picture(name, place, value, explorer):
    before = explorer.picture.value
    explorer.controls[place].value = value
    assert explorer.picture.value != before


def test_the_kept_frame_gives_the_picture_that_a_new_explorer_draws(name, explorer):
    first = explorer.picture.value
    for typed in (GOOD[name], START[name][0], "abc", START[name][0]):
        explorer.controls[0].text.value = typed
    assert explorer.picture.value == first == EXPLORERS[name]().picture.value


def test_bad_numbers_in_the_call_are_refused():
    for make in (
        lambda: explorers.explore_deltas(["many"]),
        lambda: explorers.explore_deltas([1.0]),
        lambda: explorers.explore_clipping(clip_low=-0.2),
        lambda: explorers.explore_kl([0, 1], [0, 1, 2]),
        lambda: explorers.explore_policy(*POLICIES, prompt=[1, 2, 9]),
        lambda: explorers.explore_policy(POLICIES[0], SortingPolicy(length=4)),
    ):
        with pytest.raises(ValueError):
            make()


def test_tensors_are_welcome():
    assert explorers.explore_deltas(torch.tensor([0.0, 1.0])).controls[0].text.value == "0, 1"


def test_a_move_is_smooth(name, explorer):
    seconds, slider = [], explorer.controls[0].sliders.children[0]
    for step in range(12):
        start = time.process_time()
        slider.value = slider.min + (1 + step % 3) * slider.step
        seconds.append(time.process_time() - start)
    median = statistics.median(seconds) * 1000
    print(f"explore_{name}: {median:.0f} ms a move")
    assert median < 300, "expected below 100 ms on an idle machine"
