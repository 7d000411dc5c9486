"""What a question is made of: a right answer, fixed inputs, and the mistakes that are known by name."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Mistake:
    """A wrong answer that students give, and what to say of it: what is wrong, and why it matters.

    `also` are other answers of which the same is true, for example with another constant.
    """

    says: str
    wrong: Any
    also: tuple = ()

    @property
    def answers(self) -> tuple:
        """All wrong answers that make this mistake."""
        return self.wrong, *self.also


@dataclass(frozen=True)
class Question:
    """One check.

    `cases()` makes its inputs anew, so that nothing which changes them lasts; each is a tuple, and the first is the one
    that the notebook shows. `right` is the answer to compare with. `call(answer, *inputs)` says how an answer is used,
    where that is not `answer(*inputs)`. Gradients of the result with respect to the inputs named by position in
    `gradients` count too. `forbidden` are functions that the answer may not run: what is asked, as minirl has it.

    `look(answer)` returns a sentence where something else is wrong with the answer, or None: for what is trained, or
    found, and not computed. With `cases` None it decides alone, and the answer may be any thing, not only a function.
    """

    id: str
    title: str
    points: int
    right: Any
    cases: Callable[[], Sequence[tuple]] | None
    mistakes: tuple[Mistake, ...]
    hint: str
    forbidden: tuple[Callable, ...] = ()
    gradients: tuple[int, ...] = ()
    call: Callable | None = None
    look: Callable[[Any], str | None] | None = None
    tolerance: float = 1e-6  # relative and absolute; a thousandth of it where float64 went in
