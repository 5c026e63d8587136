"""The possible results of a check.

An answer passed, is not right yet, was not attempted, raised an error, or could not be judged. A
check returns `Passed` or raises an exception such as `NotYet`. `Found` has the texts of the result
for the learner.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Any

from ipu_course.checking.bound import Bound
from ipu_course.checking.mistakes import first, suspects
from ipu_course.checking.shared import Shared
from ipu_course.checking.time_limit import half_is_over
from ipu_course.checking.verdict_panel import Bars, Picture, number

# The prefix of the names of ordinary cases.
ORDINARY = "drawn"
MODELLED = "modelled cycles"
# The maximum size of the picture of a refusal, in bytes. A larger picture is left out.
MOST_DRAWN = 40_000


class Kind(Enum):
    """The kind of a check's result."""

    PASSED = "passed"
    NOT_YET = "not yet"
    NOT_ATTEMPTED = "not attempted"
    ERROR = "error in the answer"
    UNJUDGED = "not judged"
    # The learner passed the reference answer to check(). This does not count as solving.
    SHOWN = "shown, not solved"


VerdictRows = tuple[tuple[str, str], ...]
Draws = Callable[[], Picture | None]  # A function that returns a view of the failed case, or None.


@dataclass(frozen=True)
class Found:
    """The result of a check as texts for the learner.

    If the answer passed, `shared` is the line of share() with which others can verify it, or None.
    If it was refused, `picture` is a view of the case that the text describes, or None.
    """

    kind: Kind
    rows: VerdictRows = ()
    bars: Bars | None = None
    shared: Shared | None = None
    picture: Picture | None = None


@dataclass(frozen=True)
class Passed:
    """The result for a right answer: the case that was tried, and the cost.

    * `bars`: the cost next to its budget.
    * `figure`: the cost, if it differs from the cost in `bars` or there are no bars. Its unit is
      the unit of `bound`, or `unit` if there is no bound.
    * `bound`: the lowest cost that is possible on the machine.
    * `evidence`: the numbers, arrays and reports that the check saw.
    """

    tried: str
    bars: Bars | None = None
    evidence: object = ()
    figure: float | None = None
    bound: Bound | None = None
    unit: str = MODELLED

    @property
    def cost(self) -> tuple[float | None, str]:
        """The pair (cost, unit); the cost is None if the exercise has none."""
        if self.figure is None and self.bars is not None:
            return self.bars.yours, self.bars.unit
        return self.figure, self.bound.unit if self.bound is not None else self.unit

    def refuse_the_impossible(self) -> None:
        """Raise `NotYet` if the cost is below the lower bound, which is impossible."""
        yours, unit = self.cost
        if self.bound is not None and yours is not None and self.bound.refuses(yours):
            actual = (
                f"{number(yours)} {unit}, but the machine needs at least {number(self.bound.least)}"
            )
            why = (
                f"no program for this exercise can cost less ({self.bound.why}). So the program "
                "does less than the exercise asks, or it states its own cost."
            )
            raise NotYet(
                self.tried,
                actual,
                why=why,
                next_step=(
                    "remove every cost that your answer states itself: the model counts the cost."
                ),
            )

    def rows(self) -> VerdictRows:
        """Return the rows `(label, text)` of the verdict."""
        yours, unit = self.cost
        message = self.bound.said(yours) if self.bound is not None and yours is not None else ""
        cost = f"{number(self.figure)} {unit}" if self.figure is not None else ""
        return (("tried", self.tried), ("cost", cost), ("machine", message))


class NotYet(Exception):
    """Raised for an answer that is not right yet.

    Its texts say what was tried, the actual and the expected result, the reason, and the next step.
    `draws()` returns a picture of the case, and is called only when the verdict is shown.
    """

    def __init__(
        self,
        description: str,
        came: str = "",
        expected: str = "",
        why: str = "",
        next_step: str = "",
        bars: Bars | None = None,
        draws: Draws | None = None,
    ) -> None:
        super().__init__(why or came)
        self.rows = (
            ("tried", description),
            ("came", came),
            ("expected", expected),
            ("why", why),
            ("next", next_step),
        )
        self.bars = bars
        self.draws = draws

    @property
    def picture(self) -> Picture | None:
        """A view of the failing case; None if there is none, if it fails, or if it is too large.

        It is also None if half of the check's time is already used.
        """
        if self.draws is None or half_is_over():
            return None
        with suppress(Exception):  # If the picture fails, the verdict has only words.
            view = self.draws()
            if view is not None and len(view._repr_html_().encode()) <= MOST_DRAWN:
                return view
        return None

    def with_more(self, why: str) -> NotYet:
        """Return a copy of this refusal with `why` added to its reason."""
        message = dict(self.rows)
        message["why"] = f"{message['why']} {why}".strip()
        words = (
            message["tried"],
            message["came"],
            message["expected"],
            message["why"],
            message["next"],
        )
        return NotYet(*words, self.bars, self.draws)


def refusing(exercise: str, fails_alike: Callable[[Any], bool]) -> Callable[..., NotYet]:
    """Return a function that builds the refusals of an answer to an exercise.

    The function takes the arguments of `NotYet`. However, if `fails_alike(answer)` is True for the
    answer of a known mistake, the refusal has the reason and the advice of the first such mistake.
    """

    def refused(
        description: str,
        actual: str,
        expected: str,
        advice: str,
        why: str = "",
        bars: Bars | None = None,
        draws: Draws | None = None,
    ) -> NotYet:
        known, better = first(suspects(exercise), fails_alike)
        return NotYet(
            description,
            actual,
            expected=expected,
            why=known or why,
            next_step=better or advice,
            bars=bars,
            draws=draws,
        )

    return refused


def raise_first(wrong: Sequence[tuple[NotYet, str]]) -> None:
    """Raise the first of these refusals; do nothing if there are none.

    `wrong` lists pairs (refusal, what is special about its case). The second element is "" for
    ordinary cases.
    """
    for fault, special in wrong[:1]:
        raise (
            fault.with_more(f"The ordinary cases are right. Special in this case: {special}.")
            if special
            else fault
        )


class NotAttempted(Exception):
    """Raised if the learner has not filled the gap."""
