"""Right answers in other styles than the package's own: each must pass its check."""

from variants_a2 import A2

VARIANTS = {**A2}
