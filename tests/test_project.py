"""What stands in several files must agree: versions, pins, Pythons, commands, names. And nothing private is in any."""

import ast
import dataclasses
import re
import shutil
import subprocess
import sys
from itertools import groupby
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import minirl
from minirl import recipes
from minirl.train import Config

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
PYTHONS = ["3.10", "3.11", "3.12", "3.13"]
git = pytest.mark.skipif(not (ROOT / ".git").exists() or not shutil.which("git"), reason="not a git checkout")


def read(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def direct() -> list[Requirement]:
    """What pyproject.toml asks for, the extras included."""
    extras = PROJECT["optional-dependencies"].values()
    return [Requirement(text) for text in PROJECT["dependencies"] + [text for extra in extras for text in extra]]


def pins() -> list[Requirement]:
    lines = [line for line in read("constraints.txt").splitlines() if line and not line.startswith("#")]
    return [Requirement(line) for line in lines]


def on(python: str, requirement: Requirement) -> bool:
    """Whether a pin is meant for this Python, on Linux."""
    system = {
        "python_version": python,
        "python_full_version": f"{python}.9",
        "sys_platform": "linux",
        "os_name": "posix",
    }
    return requirement.marker is None or requirement.marker.evaluate(system)


@pytest.mark.parametrize("python", PYTHONS)
def test_every_dependency_has_one_pin_that_fits(python):
    pinned = {canonicalize_name(pin.name): pin for pin in pins() if on(python, pin)}
    for wanted in direct():
        (version,) = pinned[canonicalize_name(wanted.name)].specifier
        assert version.operator == "=="
        assert wanted.specifier.contains(version.version), f"{wanted} does not allow the tested {version.version}"


@pytest.mark.parametrize("python", PYTHONS)
def test_no_package_is_pinned_twice(python):
    names = sorted(canonicalize_name(pin.name) for pin in pins() if on(python, pin))
    assert [name for name, group in groupby(names) if len([*group]) > 1] == []


def test_what_is_installed_is_what_is_pinned():
    from importlib.metadata import PackageNotFoundError, version

    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    different = {}
    for pin in pins():
        try:
            if on(here, pin) and not pin.specifier.contains(version(pin.name)):
                different[pin.name] = version(pin.name)
        except PackageNotFoundError:  # pinned for another system
            continue
    assert different == {}


def test_conda_installs_the_same():
    environment = yaml.safe_load(read("environment.yml"))
    *_, pip = environment["dependencies"]
    assert pip == {"pip": ["-c constraints.txt", "-e .[dev]"]}
    (python,) = [text for text in environment["dependencies"] if str(text).startswith("python=")]
    assert python.removeprefix("python=") in PYTHONS
    assert environment["name"] == "minirl"


def test_the_pythons_are_the_same_everywhere():
    assert PROJECT["requires-python"] == ">=3.10,<3.14"
    classifiers = [text.rsplit(" ", 1)[1] for text in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", text)]
    assert classifiers == PYTHONS
    assert "(3, 10) <= sys.version_info[:2] <= (3, 13)" in read("Makefile")
    assert "minirl needs Python 3.10 to 3.13" in read("Makefile") and "Python 3.10 to 3.13" in read("README.md")
    assert yaml.safe_load(read(".github/workflows/test.yml"))["jobs"]["test"]["strategy"]["matrix"]["python"] == PYTHONS


def test_the_version_is_the_same_everywhere():
    citation = yaml.safe_load(read("CITATION.cff"))
    assert PROJECT["version"] == minirl.__version__ == str(citation["version"])
    assert PROJECT["license"] == citation["license"] == "MIT" and read("LICENSE").startswith("MIT License")
    assert re.search(rf"^## \[({re.escape(minirl.__version__)}|Unreleased)\]", read("CHANGELOG.md"), re.M)


def test_ci_and_the_workflow_run_make_test():
    assert read(".ci/run").rstrip().splitlines()[-1] == "make test"
    steps = yaml.safe_load(read(".github/workflows/test.yml"))["jobs"]["test"]["steps"]
    assert "bash .ci/run" in [step.get("run") for step in steps]
    recipe = read("Makefile").split("\ntest:", 1)[1].split("\n\n", 1)[0]
    for part in (
        "ruff check .",
        "ruff format --check .",
        "MINIRL_FAST=1",
        "pytest -n 2",
        "--nbval-lax tests notebooks",
    ):
        assert part in recipe


@pytest.mark.skipif(shutil.which("make") is None, reason="no make found")
def test_make_names_every_command_that_the_documents_name():
    listed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    commands = set(re.findall(r"^make (\w+)", listed, re.M))
    for document in ("README.md", "CONTRIBUTING.md", ".pre-commit-config.yaml"):
        assert set(re.findall(r"`?make (demo|lab|test|\w+)`", read(document))) <= commands
    assert {"demo", "lab", "test", "bench", "notebooks", "clean"} <= commands


@pytest.mark.skipif(shutil.which("make") is None, reason="no make found")
def test_a_python_that_does_not_fit_gets_one_sentence(tmp_path):
    (tmp_path / "old python").write_text("#!/bin/sh\n[ $1 = -V ] && echo Python 3.9.18 || exit 1\n")
    (tmp_path / "old python").chmod(0o755)
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    command = ["make", "--silent", "demo", f"PYTHON={tmp_path / 'old python'}"]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert found.returncode != 0 and found.stdout == ""
    sentence = "minirl needs Python 3.10 to 3.13, found Python 3.9.18: make PYTHON=/path/to/python3.11"
    assert found.stderr.splitlines()[0] == sentence
    assert not (tmp_path / ".venv").exists()


def test_the_readme_maps_every_notebook_and_every_link_leads_somewhere():
    text = read("README.md")
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        assert f"](notebooks/{path.name})" in text, f"{path.name} is not in the README's map"
    for link in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", text):
        assert "://" in link or (ROOT / link).exists(), f"the README links to {link}, which is not there"


def test_the_readme_uses_the_names_of_the_code():
    table = read("README.md").split("| minirl | TRL |", 1)[1].split("\n\n", 1)[0]
    ours = {name for row in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    fields = {field.name for field in dataclasses.fields(Config)}
    assert ours - {"sequence", "token", "constant"} <= fields
    for block in re.findall(r"```python\n(.*?)```", read("README.md"), re.S):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom):
                module = __import__(node.module, fromlist=["_"])
                assert all(hasattr(module, alias.name) for alias in node.names)


@git
def test_the_readme_has_the_table_of_recipes_as_it_is_generated():
    text = read("README.md").split("<!-- recipes: minirl recipes --markdown -->\n", 1)[1]
    assert text.split("\n<!-- end of recipes -->", 1)[0] == recipes.table()


def test_no_file_names_a_place_that_exists_on_one_machine_only():
    private = r"/(root|home/[a-z]+|Users/[A-Za-z]+|work|tmp)/[A-Za-z.]"
    found = subprocess.run(["git", "grep", "-nIE", private], cwd=ROOT, capture_output=True, text=True).stdout
    lines = [line for line in found.splitlines() if not line.startswith("tests/test_project.py:")]
    assert lines == []


@git
def test_nothing_large_is_tracked():
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True).stdout.split("\0")
    paths = [ROOT / name for name in names if name and (ROOT / name).exists()]
    assert [path.name for path in paths if path.stat().st_size > 2_000_000] == []
