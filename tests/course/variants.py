"""Right answers in other styles than the package's own: each must pass its check."""

from variants_a1 import A1
from variants_a2 import A2
from variants_a3 import A3
from variants_a4 import A4
from variants_a5 import A5

VARIANTS = {**A1, **A2, **A3, **A4, **A5}
