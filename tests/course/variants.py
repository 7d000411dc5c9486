"""Right answers in other styles than the package's own: each must pass its check."""

from variants_a2 import A2
from variants_a3 import A3

VARIANTS = {**A2, **A3}
