"""The pocket model: a Qwen2 of a third of a million parameters, trained here from scratch to behave like a base model.

`base/` has systematic errors, so its most likely answer is often wrong and there is something to teach it; `clean/` has
random errors only, so its most likely answer is nearly always right. `python -m minirl.llm.pocket.build` makes both.
"""

from pathlib import Path


def path(name: str = "base") -> Path:
    """The folder of a shipped model, "base" or "clean", for `from_pretrained`."""
    if name not in ("base", "clean"):
        raise ValueError(f"there is no pocket model {name!r}; expected 'base' or 'clean'")
    return Path(__file__).parent / name
