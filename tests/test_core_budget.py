"""The core can be read in an hour: how much of it there may be."""

import ast
from pathlib import Path

import pytest

import minirl

CORE = ["sorting", "policy", "rollout", "deltas", "losses", "kl", "train", "exact"]
AROUND = ["config", "metrics", "objective", "variants", "groups"]  # what the loop offers, reports, and adds for later
FILES = [*CORE, *AROUND]
SOURCES = {module: (Path(minirl.__file__).parent / f"{module}.py").read_text(encoding="utf-8") for module in FILES}


def functions(source):
    return [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def body_lines(function):
    """Lines of the body, without the docstring."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


def test_lines_are_counted_as_a_reader_would():
    source = 'def f(\n    x,\n):\n    """One.\n\n    Two."""\n    y = 1\n\n    return [\n        y\n    ]\n'
    assert [body_lines(function) for function in functions(source)] == [5]


@pytest.mark.parametrize("module", FILES)
def test_no_core_file_is_longer_than_120_lines(module):
    assert len(SOURCES[module].splitlines()) <= 120


def test_the_core_has_at_most_450_lines_that_are_not_blank():
    assert sum(bool(line.strip()) for module in CORE for line in SOURCES[module].splitlines()) <= 450


@pytest.mark.parametrize("module", FILES)
def test_no_function_of_the_core_is_longer_than_20_lines(module):
    too_long = {f.name: body_lines(f) for f in functions(SOURCES[module]) if body_lines(f) > 20}
    assert not too_long


@pytest.mark.parametrize("module", FILES)
def test_every_module_and_class_of_the_core_says_what_it_is(module):
    tree = ast.parse(SOURCES[module])
    assert ast.get_docstring(tree)
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    assert all(ast.get_docstring(node) for node in classes)
    public = [node for node in tree.body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")]
    assert all(ast.get_docstring(node) for node in public)
