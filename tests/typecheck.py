"""The run-time type checker that the tests put on every function of minirl: shapes by jaxtyping, types by beartype."""

import functools

from beartype import BeartypeConf, beartype


def check(function):
    """Beartype, with an int welcome where a float is asked for (PEP 484) and protocols left to duck typing.

    A function's checks are written when it is first called: a mutant's test starts from nothing and calls few.
    """
    hints = getattr(function, "__annotations__", {})
    for name, hint in hints.items():
        if getattr(hint, "_is_protocol", False):
            hints[name] = object
    beartyped = functools.cache(lambda: beartype(function, conf=BeartypeConf(is_pep484_tower=True)))

    @functools.wraps(function)
    def checked(*positional, **named):
        return beartyped()(*positional, **named)

    return checked
