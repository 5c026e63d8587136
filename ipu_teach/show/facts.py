"""What several views ask of a report, in one place: whether something ran, and the text of its codelets."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ipu_teach.compile.groups import Group
from ipu_teach.compile.programs import MeasuredStep
from ipu_teach.cost import CostModel
from ipu_teach.cost.codelets import vertex_cycles
from ipu_teach.errors import InvalidOptionError, shown
from ipu_teach.report import Report
from ipu_teach.report.compiled import CompiledProfile
from ipu_teach.show.scene import label, number
from ipu_teach.types import Array

LONGEST_SOURCE = 40  # lines of a method


def checked(report: object, call: str, ran: bool = True) -> Report:
    """`report`, if it is one, and with `ran` if something has run in it. Raises `InvalidOptionError`."""
    if not isinstance(report, Report):
        raise InvalidOptionError(f"""show.{call}() was given {shown(report)}, which is no report.
            next:  give it engine.report.""")
    if ran and not report.num_steps:
        raise InvalidOptionError(f"""show.{call}() was given a report in which nothing has run.
            next:  engine.run(), then engine.report.""")
    return report


def model_of(report: object, call: str) -> CostModel:
    """What a run has cost, vertex by vertex. Raises as `checked` does, and for a report that was read from a file."""
    profile = checked(report, call).profile
    if not isinstance(profile, CompiledProfile):
        raise InvalidOptionError(f"""show.{call}() was given a report from a file, which holds tiles and no vertices.
            next:  give it engine.report of the engine that ran.""")
    return profile.model


def vertices(model: CostModel, step: int) -> Iterator[tuple[Group, Array]]:
    """(a group, int64 modelled cycles of its vertices, -1 if unknown) for all that a step executes."""
    compiled, found = model.compiled.steps[step], model.compute_set(step)
    measured = compiled.cycles if isinstance(compiled, MeasuredStep) else {}
    for place, group in enumerate(model.compiled.groups[found.id] if found is not None else ()):
        yield group, np.broadcast_to(vertex_cycles(group, model.target, measured.get(place)), len(group.rows))


def run_names(report: Report, program: int | None = None) -> str:
    """The names that `Engine.run` was given for its runs, or for those of one program, each once; "" if there are none."""
    runs = [r.name for r in report.runs if r.name and program in (None, r.program)]
    return label(", ".join(dict.fromkeys(runs)), 48)


def titled(report: Report, what: str) -> str:
    """The title of a picture of a run: `what` it is, after the names of the runs."""
    names = run_names(report)
    return f"{names}: {what}" if names else what


def sorted_lanes(lanes: int, tiles: int) -> str:
    """What lanes are that stand for more tiles than there are lanes."""
    return (
        f"The {lanes} lanes are the tiles sorted by time, in each phase anew, {number(tiles / lanes)} to a lane, which shows "
        "their mean. A lane is no tile; the shares of time are those of all tiles."
    )


def sources(report: Report, number: int) -> tuple[tuple[str, str], ...]:
    """(class and method, its text) of every codelet that compiled step `number` executes, where the text is to be had."""
    which = report.profile.steps[number].compute_set
    parts = report.profile.compute_sets[which].parts if which >= 0 else ()
    codelets = dict.fromkeys(part.codelet for part in parts)
    return tuple(found for codelet in codelets for found in report.profile.codelets[codelet].sources)


def numbered(name: str, text: str) -> str:
    """A method under its name, each line with its number within it."""
    lines = text.splitlines()
    kept = [f"{n:>3}  {line}" for n, line in enumerate(lines[:LONGEST_SOURCE], start=1)]
    more = [f"     … {len(lines) - LONGEST_SOURCE} more lines"] if len(lines) > LONGEST_SOURCE else []
    return "\n".join((name, *kept, *more))
