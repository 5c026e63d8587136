"""The differences between two reports.

Variables, steps (all executions of a compute set or a copy), memory categories and codelets are
matched by name. The largest differences come first. An item that only one report has counts as 0 in
the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any, ClassVar

from ipu_teach.errors import InvalidOptionError, shown
from ipu_teach.report.report import Report
from ipu_teach.report.table import Table, plain

MOST_LINES = 12  # the most lines of text for each aspect
ASPECTS = (
    "total",
    "machine",
    "cycles",
    "compute",
    "exchange",
    "bytes",
    "streaming",
    "memory",
    "variables",
    "vertices",
    "program",
)


@dataclass(frozen=True)
class Change:
    """One difference: `aspect` is one of `ASPECTS`, and `share` its part of the total."""

    COLUMNS: ClassVar = ("aspect", "name", "before", "after", "change", "share", "note")

    aspect: str
    name: str
    before: float
    after: float
    share: float
    note: str = ""

    @property
    def change(self) -> float:
        """The value after minus the value before."""
        return self.after - self.before


class Comparison:
    """The result of `compare`: `changes`, which can be shown as text, as a table and as HTML.

    A comparison without differences is False as a condition.
    """

    def __init__(self, before: Report, after: Report, changes: Table[Change]) -> None:
        self.before = before
        self.after = after
        self.changes = changes

    def __bool__(self) -> bool:
        return bool(self.changes)

    @property
    def data(self) -> list[dict[str, Any]]:
        """The changes as a list of dicts."""
        return self.changes.records()

    def of(self, aspect: str) -> Table[Change]:
        """Return the changes of one aspect, the largest first.

        Raises `InvalidOptionError` if there is no such aspect.
        """
        if aspect not in ASPECTS:
            raise InvalidOptionError(
                f"There is no aspect {shown(aspect)}.",
                next_step=f"choose one of {', '.join(ASPECTS)}.",
            )
        return self.changes.where(lambda change: change.aspect == aspect)

    @property
    def largest(self) -> Change | None:
        """The largest change of cycles or, if there is none, of memory; None if there is neither.

        Changed settings of the machine do not count: they are causes.
        """
        for aspect in ("cycles", "variables", "memory"):
            if changes := self.of(aspect):
                return changes[0]
        return None

    def __str__(self) -> str:
        lines = [repr(self)]
        for aspect in ASPECTS:
            rows = self.of(aspect)
            if rows:
                lines.append(f"{aspect}:")
                lines += [_line(row) for row in rows[:MOST_LINES]]
                if len(rows) > MOST_LINES:
                    lines += [f"  … and {len(rows) - MOST_LINES:,} more"]
        return "\n".join(lines)

    def sentence(self) -> str:
        """Return the comparison as one or two sentences."""
        before = self.before.total_cycles
        after = self.after.total_cycles
        ratio = f", {after / before:.2f} times as many" if before and before != after else ""
        text = f"{before:,.0f} modelled cycles before, {after:,.0f} after{ratio}."
        largest = self.largest
        if largest is None:
            return text
        hidden = largest.aspect == "cycles" and before == after
        beside = ", which other steps hide" if hidden else ""
        return text + (
            f" The largest effect: {largest.aspect} of {plain(largest.name)}, "
            f"{largest.change:+,.0f}{beside}."
        )

    def __repr__(self) -> str:
        return self.sentence() if self.changes else "The two reports are the same."

    def _repr_html_(self) -> str:
        rows = "".join(
            "<tr><th scope=row "
            f"style='text-align:left'>{escape(plain(c.name))}</th><td>{c.aspect}</td><td>{c.before:,.0f}</td>"
            f"<td>{c.after:,.0f}</td><td>{c.change:+,.0f}</td><td "
            f"style='text-align:left'>{escape(plain(c.note))}</td></tr>"
            for c in self.changes[:50]
        )
        rest = ""
        if len(self.changes) > 50:
            rest = f"<p>{len(self.changes) - 50:,} smaller ones are in .changes</p>"
        head = "".join(
            f"<th scope=col>{name}</th>"
            for name in ("name", "of", "before", "after", "change", "note")
        )
        table = (
            f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>" if rows else ""
        )
        return f"<div class=ipu-view><p>{escape(repr(self))}</p>{table}{rest}</div>"


def _line(change: Change) -> str:
    name = plain(change.name)
    note = plain(change.note)
    numbers = f"{change.before:>14,.0f} {change.after:>14,.0f} {change.change:>+14,.0f}"
    return f"  {name[:34]:<34} {numbers}" + (f"  {note}" if note else "")


def compare(before: Report, after: Report) -> Comparison:
    """Return the differences between two reports, the largest first.

    Raises `InvalidOptionError` if an argument is not a report.
    """
    for argument in (before, after):
        if not isinstance(argument, Report):
            raise InvalidOptionError(f"""compare() was given {shown(argument)}, which is not a
                report.
                next:  give it two of engine.report.""")
    changes: list[Change] = []
    for aspect in ASPECTS:
        changes += sorted(
            _MAKERS[aspect](aspect, before, after), key=lambda c: (-abs(c.change), c.name)
        )
    return Comparison(before, after, Table(changes))


def _by_name(
    aspect: str, a: Mapping[str, float], b: Mapping[str, float], notes: dict[str, str] | None = None
) -> list[Change]:
    largest_sum = max(sum(a.values()), sum(b.values())) or 1
    presence = dict.fromkeys(a.keys() - b.keys(), "only before")
    presence |= dict.fromkeys(b.keys() - a.keys(), "only after")
    return [
        Change(
            aspect,
            name,
            before=a.get(name, 0),
            after=b.get(name, 0),
            share=abs(b.get(name, 0) - a.get(name, 0)) / largest_sum,
            note=(notes or {}).get(name, presence.get(name, "")),
        )
        for name in dict.fromkeys([*a, *b])
        if a.get(name, 0) != b.get(name, 0) or (notes or {}).get(name)
    ]


def _measured(
    of: Callable[[Report], Mapping[str, float]],
) -> Callable[[str, Report, Report], list[Change]]:
    return lambda aspect, a, b: _by_name(aspect, of(a), of(b))


def _steps(of: Callable[[Report, int], float]) -> Callable[[str, Report, Report], list[Change]]:
    """Return a function that compares `of(report, number)`, summed over the steps of a name."""

    def total(report: Report) -> dict[str, float]:
        totals: dict[str, float] = {}
        for number, runs in enumerate(report.executions.tolist()):
            cost = report.step_cost(number)
            name = f"{cost.kind} {cost.name}" if cost.kind != "Execute" else cost.name
            totals[name] = totals.get(name, 0) + runs * of(report, number)
        return totals

    return _measured(total)


def _total(report: Report) -> dict[str, float]:
    memory = report.memory
    return {
        "cycles": report.total_cycles,
        "steps": report.num_steps,
        "bytes of memory": float(memory.bytes_per_tile.sum()),
        "bytes of gaps": float(memory.gaps_per_tile.sum()),
        "bytes on the fullest tile": float(memory.held_per_tile.max(initial=0)),
    }


def _machine(aspect: str, before: Report, after: Report) -> list[Change]:
    a = vars(before.target)
    b = vars(after.target)
    changed = [name for name in a if a[name] != b[name]]
    return [
        Change(aspect, name, before=0, after=0, share=1, note=f"{a[name]} before, {b[name]} after")
        if isinstance(a[name], str)
        else Change(aspect, name, before=a[name], after=b[name], share=1)
        for name in changed
    ]


def _variables(aspect: str, before: Report, after: Report) -> list[Change]:
    """Return the changes of the variables: bytes, dtype, shape, tiles and tile mapping."""
    sizes = [report.memory.by_variable() for report in (before, after)]
    rows = [{v.name: v for v in report.variables} for report in (before, after)]
    places = [_places(report) for report in (before, after)]
    notes = {}
    for name in rows[0].keys() & rows[1].keys():
        a = rows[0][name]
        b = rows[1][name]
        pairs = [
            (attribute, getattr(a, attribute), getattr(b, attribute))
            for attribute in ("dtype", "shape", "tiles", "always_live")
        ]
        texts = [
            f"{attribute.replace('_', ' ')} {x} before, {y} after"
            for attribute, x, y in pairs
            if x != y
        ]
        if (
            not texts
            and before.target.num_tiles == after.target.num_tiles
            and places[0][name] != places[1][name]
        ):
            texts = ["on other tiles, or in other parts"]
        if texts:
            notes[name] = "; ".join(texts)
    return _by_name(aspect, sizes[0], sizes[1], notes)


def _places(report: Report) -> dict[str, bytes]:
    """Return the tile mapping of each variable as bytes that can be compared, by name."""
    memory = report.memory
    cuts = memory.variable.searchsorted(range(len(memory.names) + 1)).tolist()
    digests: dict[str, bytes] = {}
    for name, first, last in zip(memory.names, cuts, cuts[1:], strict=False):
        digests[name] = (
            digests.get(name, b"")
            + memory.tile[first:last].tobytes()
            + memory.size[first:last].tobytes()
        )
    return digests


def _nodes(report: Report) -> dict[str, float]:
    """Return the number of nodes of each kind and name in the programs."""
    nodes = (node for program in report.profile.programs for _, node in program.walk())
    return dict(Counter(f"{node.kind} {node.name}".strip() for node in nodes))


_MAKERS: dict[str, Callable[[str, Report, Report], list[Change]]] = {
    "total": _measured(_total),
    "machine": _machine,
    "cycles": _steps(lambda report, number: report.step_cost(number).cycles),
    "compute": _steps(lambda report, number: report.step_cost(number).compute_duration),
    "exchange": _steps(lambda report, number: report.step_cost(number).exchange_duration),
    "bytes": _steps(lambda report, number: sum(t.total for t in report.step_cost(number).exchange)),
    "streaming": _measured(
        lambda r: {use.name: use.bytes_read + use.bytes_written for use in r.host.buffers()}
    ),
    "memory": _measured(lambda report: report.memory.by_category()),
    "variables": _variables,
    "vertices": _measured(lambda report: report.vertex_counts()),
    "program": _measured(_nodes),
}
