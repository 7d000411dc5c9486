"""What all tests share: shapes checked at run time, one thread, and float64 for those that compare with exact truth."""

import sys

import jaxtyping
import pytest
import torch

assert "minirl" not in sys.modules, "minirl was imported before its type checker: its shapes would go unchecked"
jaxtyping.install_import_hook("minirl", "typecheck.check")
torch.set_num_threads(1)


@pytest.fixture
def float64():
    """Compute in float64 by default, so that a comparison with the truth can be a strict one."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)
