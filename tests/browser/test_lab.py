"""Notebook 00 in a real browser: opened as `make lab` opens it, run from the top, every explorer moved.

Each step leaves a screenshot in `artefacts/` beside this file.
"""

import json

import pytest
from jupyterlab_page import MISSING, choose, opened, served, shoot, wait_for

WIDGET = "application/vnd.jupyter.widget-view+json"
NOTEBOOK = "notebooks/00_start_here.ipynb"

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [pytest.mark.skipif(missing, reason=reason) for reason, missing in MISSING.items()]

EXPLORERS = {  # good input, bad input, what the message says
    "deltas": ("1, 1, 1, 4, 0", "one, two", "“one” is not a finite number"),
    "clipping": ("1.5, 0.1, 0.3", "1, 7, 0.2", "ε_low is 7; expected a number from 0 to 1"),
    "kl": ("3, -1, 0, 0", "1, 2", "π has 2 tokens, π_ref has 4"),
    "policy": ("4, 0, 2", "4, 0, 9", "number 3 is 9; expected a whole number from 0 to 4"),
}
BUTTONS = {"clipping": "δ < 0", "kl": "16"}
PICTURE = """async selector => {
    const image = document.querySelector(selector);
    try { await image.decode() } catch { return null }  // it is just being replaced
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
    canvas.getContext("2d").drawImage(image, 0, 0);
    return canvas.toDataURL();
}"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """JupyterLab's folder, and the address that `make lab` opens."""
    folder = tmp_path_factory.mktemp("lab")
    with served(folder, "notebooks") as (address, token):
        yield folder, f"{address}/?token={token}"


@pytest.fixture(scope="module")
def page(lab):
    """The page that `make lab` opens, in a fresh browser."""
    with opened(lab[1]) as page:
        yield page


def code_cells(lab) -> list[dict]:
    cells = json.loads((lab[0] / NOTEBOOK).read_text("utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def prompts(page) -> list[str]:
    return [text.strip() for text in page.locator(".jp-CodeCell .jp-InputPrompt").all_text_contents()]


def test_before_running_each_explorer_is_a_still_picture(lab, page):
    shoot(page, "00-opened")
    cells = page.locator(".jp-CodeCell")
    for name in EXPLORERS:
        cell = cells.filter(has_text=f"explore_{name}(").last
        cell.scroll_into_view_if_needed()
        assert cell.locator("img").count() == 1 and cell.locator("text=Error displaying widget").count() == 0
        shoot(cell, f"01-still-{name}")


def test_notebook_runs_from_the_top_without_an_error(lab, page):
    choose(page, "Edit", "Clear Outputs of All Cells")
    choose(page, "Run", "Run All Cells")
    count = len(code_cells(lab))
    done = [f"[{number}]:" for number in range(1, count + 1)]
    wait_for(lambda: prompts(page) == done or page.locator("[data-mime-type*=error]").count(), 120, "running 00")
    shoot(page, "02-ran")
    page.locator(".jp-NotebookPanel-toolbar [data-jp-item-name=save] *").first.click()
    wait_for(lambda: WIDGET in (lab[0] / NOTEBOOK).read_text("utf-8"), 30, "saving")
    for cell in code_cells(lab):
        for output in cell["outputs"]:
            assert output["output_type"] != "error", output["evalue"]


def test_what_is_saved_holds_widget_and_picture(lab, page):
    for name in EXPLORERS:
        (cell,) = (cell for cell in code_cells(lab) if "".join(cell["source"]).startswith(f"explore_{name}("))
        (output,) = cell["outputs"]
        assert {WIDGET, "image/png"} <= set(output["data"])


@pytest.fixture(params=EXPLORERS)
def name(request):
    return request.param


class Shown:
    """An explorer in the page, and its picture as the browser has it."""

    def __init__(self, page, name: str):
        self.page, self.name, self.selector = page, name, f".explore-{name}"
        self.part = page.locator(self.selector)
        self.part.scroll_into_view_if_needed()
        self.text, self.alert = self.part.locator("input[type=text]").first, self.part.get_by_role("alert")

    def picture(self) -> str:
        return wait_for(lambda: self.page.evaluate(PICTURE, f"{self.selector} img"), 10, f"the picture of {self.name}")

    def type(self, text: str) -> None:
        self.text.fill(text)
        self.text.press("Enter")

    def wait_for_another_picture_than(self, old: str) -> str:
        return wait_for(lambda: (new := self.picture()) != old and new, 20, f"a new picture of {self.name}")


@pytest.fixture
def explorer(page, name):
    return Shown(page, name)


def test_one_live_picture_and_no_label_cut_off(explorer, name):
    output = explorer.page.locator(".jp-OutputArea-child", has=explorer.part)
    assert output.locator("img").count() == 1
    cut = "labels => labels.filter(label => label.scrollWidth > label.clientWidth).map(label => label.textContent)"
    assert explorer.part.locator(".widget-label, .jupyter-button").evaluate_all(cut) == []
    shoot(explorer.part, f"03-{name}-start")


def test_slider_moves_the_picture(explorer, name):
    handle, before, typed = explorer.part.locator(".noUi-handle").first, explorer.picture(), explorer.text.input_value()
    handle.focus()
    handle.press("ArrowRight")
    explorer.wait_for_another_picture_than(before)
    assert explorer.text.input_value() != typed
    shoot(explorer.part, f"04-{name}-slider")


def test_typed_numbers_move_the_picture(explorer, name):
    before = explorer.picture()
    explorer.type(EXPLORERS[name][0])
    explorer.wait_for_another_picture_than(before)
    assert explorer.alert.count() == 0
    shoot(explorer.part, f"05-{name}-typed")


@pytest.mark.parametrize("name", BUTTONS, indirect=True)
def test_buttons_move_the_picture(explorer, name):
    before = explorer.picture()
    explorer.part.get_by_role("button", name=BUTTONS[name], exact=True).click()
    explorer.wait_for_another_picture_than(before)
    shoot(explorer.part, f"06-{name}-button")


def test_bad_input_gets_one_sentence_and_leaves_the_picture(explorer, name):
    good, bad, sentence = EXPLORERS[name]
    before = explorer.picture()
    explorer.type(bad)
    explorer.alert.wait_for()
    assert sentence in explorer.alert.inner_text() and explorer.picture() == before
    shoot(explorer.part, f"07-{name}-bad")
    explorer.type(good)
    explorer.alert.wait_for(state="detached")
    assert explorer.picture() == before


def test_nothing_went_wrong_in_the_page(page):
    shoot(page, "08-end")
    assert page.locator("[data-mime-type*='jupyter.error']").count() == 0
    assert page.errors == []
