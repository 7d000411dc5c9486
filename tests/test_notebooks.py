"""The notebooks as files: readable, executed, short-celled, and together covering what they say they cover."""

import base64
import re
import statistics
from collections import Counter

import nbformat
import pytest
from curriculum import NOTEBOOKS, SYSTEMS, covered, covers, load

PATHS = sorted(NOTEBOOKS.glob("*.ipynb"))
GUIDES = {"instructor_guide": "Instructor guide"}  # notebooks beside the course: without a number, by their titles
NUMBERED = [path for path in PATHS if path.stem not in GUIDES]
notebooks = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)


def cells(path, kind="code"):
    return [cell for cell in load(path)["cells"] if cell["cell_type"] == kind]


def source(cell) -> str:
    return "".join(cell["source"])


def outputs(path):
    return [output for cell in cells(path) for output in cell["outputs"]]


@notebooks
def test_is_valid_and_of_one_format(path):
    notebook = load(path)
    nbformat.validate(notebook)
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    kernel = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    assert notebook["metadata"] == {"kernelspec": kernel}, "only the kernel's name belongs there"


@notebooks
def test_cells_have_ids_of_their_own(path):
    counts = Counter(cell["id"] for cell in load(path)["cells"])
    assert [id for id, count in counts.items() if count > 1] == []


@notebooks
def test_was_executed_from_top_to_bottom(path):
    assert [cell["execution_count"] for cell in cells(path)] == list(range(1, len(cells(path)) + 1))


@notebooks
def test_keeps_outputs_without_errors_warnings_or_dead_widgets(path):
    assert outputs(path), "no cell has an output"
    for output in outputs(path):
        assert output["output_type"] != "error", output["evalue"]
        assert output.get("name") != "stderr", output["text"]
        assert "application/vnd.jupyter.widget-view+json" not in output.get("data", {})


@notebooks
def test_code_cells_are_short(path):
    lengths = {cell["id"]: source(cell).count("\n") + 1 for cell in cells(path)}
    assert {id: length for id, length in lengths.items() if length > 20} == {}
    assert statistics.median(lengths.values()) <= 6


@notebooks
def test_opens_with_title_question_and_set_up(path):
    first = source(load(path)["cells"][0])
    assert first.startswith(f"# {GUIDES.get(path.stem, path.stem[:2])} · "), "the title is '# NN · Name'"
    assert "You will be able to" in "".join(source(cell) for cell in cells(path, "markdown")[:4])
    assert "manual_seed" in source(cells(path)[0]), "the first code cell sets the seed"


@notebooks
def test_some_outputs_are_checked(path):
    assert any(source(cell).startswith("# NBVAL_CHECK_OUTPUT") for cell in cells(path))


@notebooks
def test_pictures_are_pictures_and_the_file_stays_small(path):
    for output in outputs(path):
        if png := output.get("data", {}).get("image/png"):
            assert base64.b64decode("".join(png)).startswith(b"\x89PNG")
    assert path.stat().st_size < 1_000_000


@notebooks
def test_covers_known_systems_in_code_cells(path):
    for cell in load(path)["cells"]:
        assert set(covers(cell)) <= set(SYSTEMS)
        assert cell["cell_type"] == "code" or not covers(cell), "what covers a system is the cell that measures it"


def test_every_system_of_lecture_17_is_run():
    found = covered()
    assert [f"L17.{row}" for row in range(1, 23) if not found[f"L17.{row}"]] == []


ALGORITHMS = ["L16.1", "L16.2", "L16.3", "L16.4", "L16.5", "L16.6", "L16.7", "L16.8", "L16.9", "L16.10", "L16.18"]
ALGORITHMS += ["L16.19", "L16.23", "S0.2", "S0.3", "S0.4", "S0.5", "S0.7", "S0.12", "S4.1", "S4.9"]


@pytest.mark.parametrize("system", ALGORITHMS)
def test_every_algorithm_of_lecture_16_and_the_surveys_is_run(system):
    assert covered()[system]


def test_r1_zero_and_the_cleaning_of_data_are_run():
    found = covered()
    assert found["L16.13"] and found["S0.1"]


def test_the_notebooks_are_numbered_in_order_and_the_readme_says_which_are_here():
    """A number belongs to one notebook; the README's course table links those that are here, in order, and no other."""
    readme = (NOTEBOOKS.parent / "README.md").read_text("utf-8")
    rows = re.findall(r"^\| (?:\[)?(\d\d) .*?(?:\(notebooks/(.+?)\))? \|.*\| (here|planned) \|$", readme, re.MULTILINE)
    assert [number for number, *_ in rows] == [f"{number:02}" for number in range(len(rows))]
    assert [link for _, link, state in rows if state == "here"] == [path.name for path in NUMBERED]
    assert [link for _, link, state in rows if state == "planned"] == [""] * (len(rows) - len(NUMBERED))
    assert all(link[:2] == number for number, link, _ in rows if link)
