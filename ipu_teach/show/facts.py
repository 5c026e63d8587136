"""What several views ask of a report, in one place: whether something ran, and the text of its codelets."""

from __future__ import annotations

from ipu_teach.errors import InvalidOptionError, shown
from ipu_teach.report import Report
from ipu_teach.show.scene import label, number

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


def run_names(report: Report, program: int | None = None) -> str:
    """The names that `Engine.run` was given for its runs, or for those of one program, each once; "" if there are none."""
    runs = [r.name for r in report.runs if r.name and program in (None, r.program)]
    return label(", ".join(dict.fromkeys(runs)), 48)


def titled(report: Report, what: str) -> str:
    """The title of a picture of a run: `what` it is, after the names of the runs."""
    names = run_names(report)
    return f"{names}: {what}" if names else what


def sorted_lanes(lanes: int, tiles: int, ipus: int = 1) -> str:
    """What lanes are that stand for more tiles than there are lanes."""
    where = "" if ipus == 1 else "of each IPU "
    return (
        f"The {lanes} lanes are the tiles {where}sorted by time, in each phase anew, {number(tiles / lanes)} to a lane, which "
        "shows their mean. A lane is no tile; the shares of time are those of all tiles."
    )


def ipus_at_work(report: Report, most: int = 8) -> str:
    """How much of a run each of several IPUs is at work, and whose steps hold up the others."""
    rows = report.ipus
    shares = ", ".join(f"IPU {row.ipu} {100 * row.busy:.1f} %" for row in rows[:most])
    held = rows.largest("held_cycles", 1)[0]
    more = f", and {len(rows) - most:,} more" if len(rows) > most else ""
    if not held.held_cycles:
        return f"At work are {shares}{more}: none waits for another."
    by = f"IPU {held.ipu}, while it is in {label(held.held_by, 40)}" if held.held_by else f"IPU {held.ipu}"
    return f"At work are {shares}{more}; the others wait longest for {by}."


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
