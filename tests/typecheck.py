"""The run-time type checker that the tests put on every function of minirl: shapes by jaxtyping, types by beartype."""

from beartype import BeartypeConf, beartype


def check(function):
    """Beartype, with an int welcome where a float is asked for (PEP 484) and protocols left to duck typing."""
    hints = getattr(function, "__annotations__", {})
    for name, hint in hints.items():
        if getattr(hint, "_is_protocol", False):
            hints[name] = object
    return beartype(function, conf=BeartypeConf(is_pep484_tower=True))
