"""Every exception a learner can meet.

Each says three things: what was tried, where it went wrong, and what to do next. The class names are those of
Poplar, in Python's spelling, so that a search for one finds the original's documentation too.
"""

from __future__ import annotations


class IPUTeachError(Exception):
    """The root of every error the kit raises.

    `tried` is the sentence that says what went wrong, `where` names the place (vertex, field, element, tile, line),
    `next_step` is the advice. All three appear in `str(error)`.
    """

    def __init__(self, tried: str, *, where: str = "", next_step: str = "") -> None:
        self.tried = tried
        self.where = where
        self.next_step = next_step
        lines = [tried]
        if where:
            lines.append(f"  where: {where}")
        if next_step:
            lines.append(f"  next:  {next_step}")
        super().__init__("\n".join(lines))


class PoplarError(IPUTeachError):
    """Something is wrong with a graph, a program or a run."""


class PoplibsError(IPUTeachError):
    """A PopLibs function was called with arguments it cannot use."""


class DatasetError(IPUTeachError):
    """A data file is missing, truncated, corrupt or not what its name says."""


class LessonError(IPUTeachError):
    """A lesson was asked for that does not exist, or could not be run to its end."""
