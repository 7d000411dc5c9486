"""Assignment 1 in a real browser, as a student does it: a check untouched, a wrong answer, the right one.

Each step leaves a screenshot in `artefacts/` beside this file.
"""

import pytest
from jupyterlab_page import MISSING, opened, served, shoot, wait_for

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [pytest.mark.skipif(missing, reason=reason) for reason, missing in MISSING.items()]

WRONG = "deltas[..., None] * log_probs"
ANSWER = '''# GRADED: q2a (do not edit this line)
def naive_loss(log_probs, deltas):
    """The loss of each token."""
    return {}
'''


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The untouched assignment, with its first cell run."""
    folder = tmp_path_factory.mktemp("lab")
    notebook = "{}/lab/tree/assignments/a1/a1.ipynb?token={}"
    with served(folder, "assignments") as where, opened(notebook.format(*where)) as page:
        run(page, cell(page, "from minirl.course.check import check"))
        yield page


def cell(page, text: str):
    return page.locator(".jp-CodeCell", has_text=text).first


def run(page, part) -> str:
    """Run one cell with the keyboard, and return what stands below it."""
    before = part.locator(".jp-InputPrompt").inner_text()
    part.scroll_into_view_if_needed()
    part.locator(".cm-content").click()
    page.keyboard.press("Control+Enter")

    def done():
        prompt = part.locator(".jp-InputPrompt").inner_text()
        return prompt != before and prompt.strip("[]: \n").isdigit()

    wait_for(done, 60, "running a cell")
    return part.locator(".jp-OutputArea").inner_text()


def write(page, part, text: str) -> None:
    """Replace what stands in a cell, as by pasting."""
    part.locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(text)
    assert "GRADED: q2a" in part.locator(".cm-content").inner_text()


def checked(page, name: str) -> str:
    part = cell(page, 'check("a1.q2a"')
    said = run(page, part)
    shoot(page, f"10-assignment-{name}")
    return said


def test_an_untouched_check_says_that_nothing_was_started(page):
    run(page, cell(page, "GRADED: q2a"))
    said = checked(page, "untouched")
    assert "a1.q2a" in said and "not started yet" in said
    assert "Traceback" not in said and "minirl/course" not in said


def test_a_wrong_answer_gets_its_mistake_named(page):
    answer = cell(page, "GRADED: q2a")
    write(page, answer, ANSWER.format(WRONG))
    run(page, answer)
    said = checked(page, "wrong")
    assert "✘ a1.q2a" in said and "sign" in said
    assert "Traceback" not in said


def test_the_right_answer_passes(page):
    answer = cell(page, "GRADED: q2a")
    write(page, answer, ANSWER.format("-" + WRONG))
    run(page, answer)
    said = checked(page, "right")
    assert "✔ a1.q2a" in said and "passed" in said
    assert page.errors == []
