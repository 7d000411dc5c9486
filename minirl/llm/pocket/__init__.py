"""The pocket model: a Qwen2 of a third of a million parameters, trained here from scratch to behave like a base model.

`base/` has systematic errors, so its most likely answer is often wrong and there is something to teach it; `clean/` has
random errors only, so its most likely answer is nearly always right. `python -m minirl.llm.pocket.build` makes both.
"""

from pathlib import Path

NAMES = {"pocket": "base", "pocket-clean": "clean"}  # as minirl.llm.policy.load calls them


def path(name: str = "base") -> Path:
    """The folder of a shipped model, "base" or "clean", for `from_pretrained`."""
    if name not in ("base", "clean"):
        raise ValueError(f"there is no pocket model {name!r}; expected 'base' or 'clean'")
    return Path(__file__).parent / name


def located(name_or_path: str) -> tuple[str, bool]:
    """Where `from_pretrained` finds the model of this name, and whether that is on this machine."""
    if name_or_path in NAMES:
        return str(path(NAMES[name_or_path])), True
    return name_or_path, Path(name_or_path).exists()
