"""A zip for Gradescope: minirl as it is here, one assignment's source, and two scripts that Gradescope calls.

`setup.sh` is run once, when Gradescope builds an image from the zip; `run_autograder` for each submission. The format
is that of https://gradescope-autograders.readthedocs.io/en/latest/specs/. The zip holds solutions and hidden tests.
"""

from pathlib import Path

import minirl
from minirl.course.assign import source_path
from minirl.course.release import packed

SCRIPTS = ("setup.sh", "run_autograder")
INSTALLED = ("pyproject.toml", "README.md", "LICENSE", "constraints.txt")  # what pip needs besides the package


def autograder(name: str, root: Path, out: Path, index: str = "") -> Path:
    """Write the zip; `index`: one more address where pip looks, such as PyTorch's for its small build for CPUs."""
    package = Path(minirl.__file__).parent
    files = {each: (package / "course" / "gradescope" / each).read_bytes() for each in SCRIPTS}
    files |= {each: needed(package.parent / each).read_bytes() for each in INSTALLED}
    if index:
        files["pip.conf"] = f"[global]\nextra-index-url = {index}\n".encode()
    files[f"solutions/{name}/{name}.ipynb"] = source_path(name, root).read_bytes()
    for path in package.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            files[path.relative_to(package.parent).as_posix()] = path.read_bytes()
    return packed(files, out, executable=SCRIPTS)


def needed(path: Path) -> Path:
    if not path.is_file():
        raise FileNotFoundError(f"there is no {path}; install minirl from its folder, with pip install -e")
    return path
