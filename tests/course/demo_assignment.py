"""A small assignment with all that a large one has, so that the grader is tested without waiting for a large one."""

from pathlib import Path

import nbformat

from minirl.course.assign import KERNEL, assign

SOLUTIONS = {
    "q1a": ("centered", "rewards", "    return rewards - rewards.mean(-1, keepdim=True)", 2),
    "q1b": (
        "leave_one_out",
        "rewards",
        "    others = (rewards.sum(-1, keepdim=True) - rewards) / (rewards.shape[-1] - 1)\n    return rewards - others",
        2,
    ),
    "q2": ("probability_ratio", "log_probs, old_log_probs", "    return (log_probs - old_log_probs.detach()).exp()", 3),
    "q5": (
        "token_weights",
        "mask",
        "    lengths = mask.sum(-1, keepdim=True).clamp(min=1)\n"
        "    return mask / lengths / mask.shape[0] / mask.shape[1]",
        4,
    ),
}
HIDDEN = {
    "q1a": "[(torch.tensor([[2.5, -1.0, 4.0, 0.0]]),), (torch.arange(12.0, dtype=torch.float64).view(2, 6) ** 2,)]",
    "q1b": "[(torch.tensor([[2.5, -1.0, 4.0, 0.0]]),), (torch.arange(12.0, dtype=torch.float64).view(2, 6) ** 2,)]",
    "q2": "[(torch.linspace(-3, -1, 4).view(1, 2, 2), torch.linspace(-2, -0.5, 4).view(1, 2, 2))]",
    "q5": "[(torch.tensor([[[1, 0, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]]).bool(),)]",
}
POINTS = {name: points for name, (*_, points) in SOLUTIONS.items()}
SETUP = "import torch\n\nfrom minirl.course.check import check\n\ntorch.manual_seed(0)"


def marks(grade_id: str, graded: bool, points: int | None = None) -> dict:
    found = {"schema_version": 3, "grade": graded, "solution": not graded, "locked": graded, "task": False}
    return {"nbgrader": found | {"grade_id": grade_id} | ({"points": points} if graded else {})}


def answer(label: str, body: str) -> str:
    """An answer's cell as a student leaves it."""
    name, arguments, *_ = SOLUTIONS[label]
    return f'# GRADED: {label} (do not edit this line)\ndef {name}({arguments}):\n    """Short."""\n{body}'


def source():
    """The instructor's notebook."""
    new = nbformat.v4
    cells = [new.new_markdown_cell("# A2 · in small", id="title"), new.new_code_cell(SETUP, id="setup")]
    for label, (name, _, body, points) in SOLUTIONS.items():
        cell, region = f"a2-{label}", f"    ### BEGIN SOLUTION\n{body}\n    ### END SOLUTION"
        hidden = f'from minirl.course.check import hidden\n\nhidden("a2.{label}", {name}, cases={HIDDEN[label]})'
        check = f'check("a2.{label}", {name})\n### BEGIN HIDDEN TESTS\n{hidden}\n### END HIDDEN TESTS'
        cells += [
            new.new_markdown_cell(f"Write {name}.", id=f"{cell}-text"),
            new.new_code_cell(answer(label, region), id=cell, metadata=marks(cell, False)),
            new.new_code_cell(check, id=f"{cell}-check", metadata=marks(f"{cell}-check", True, points)),
        ]
    example = "example = torch.arange(6.0).view(2, 3)\nprint(example)"
    cells.insert(5, new.new_code_cell(example, id="example"))
    return new.new_notebook(cells=cells, metadata={"kernelspec": KERNEL})


def written(root: Path) -> Path:
    """The source and the students' notebook below `root`."""
    path = root / "solutions" / "a2" / "a2.ipynb"
    path.parent.mkdir(parents=True)
    nbformat.write(source(), path)
    assign("a2", root)
    return root
