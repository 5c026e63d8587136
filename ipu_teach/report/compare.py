"""The differences between two reports.

Variables, steps, memory categories and codelets are matched by name. The costs of steps with equal
names are added up. The largest differences come first. If a variable, step or other item is in only
one report, its value in the other report is 0.
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

MOST_LINES = 12  # The maximum number of changes that the text shows for each aspect.
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
    """One difference between two reports.

    `aspect` is one of `ASPECTS`, and `name` is the variable, step or other item that differs.
    `share` is the absolute change divided by the larger of the two reports' totals, or 1 for a
    setting of the machine.
    """

    COLUMNS: ClassVar = ("aspect", "name", "before", "after", "change", "share", "note")

    aspect: str
    name: str
    before: float
    after: float
    share: float
    note: str = ""

    @property
    def change(self) -> float:
        """The difference `after` - `before`."""
        return self.after - self.before


class Comparison:
    """The differences between two reports, which can be shown as text, as a table and as HTML.

    `compare` returns such an object. The object is true if there are any differences.
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
        """Return the changes of one aspect (one of `ASPECTS`), the largest first.

        :raises InvalidOptionError: if there is no such aspect.
        """
        if aspect not in ASPECTS:
            raise InvalidOptionError(
                f"A comparison has no aspect {shown(aspect)}.",
                next_step=f"choose one of {', '.join(ASPECTS)}.",
            )
        return self.changes.where(lambda change: change.aspect == aspect)

    @property
    def largest(self) -> Change | None:
        """The largest change of cycles, if any; otherwise of variables; otherwise of memory.

        The result is None if nothing changed in these three aspects. Changed settings of the
        machine are left out, because they are causes, not effects.
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
        """Return one or two sentences: the cycles before and after, and the largest change."""
        cycles_before = self.before.total_cycles
        cycles_after = self.after.total_cycles
        ratio = (
            f", {cycles_after / cycles_before:.2f} times as many"
            if cycles_before and cycles_before != cycles_after
            else ""
        )
        text = f"{cycles_before:,.0f} modelled cycles before, {cycles_after:,.0f} after{ratio}."
        largest = self.largest
        if largest is None:
            return text
        hidden = largest.aspect == "cycles" and cycles_before == cycles_after
        note = ", which other steps hide" if hidden else ""
        return text + (
            f" The largest effect: {largest.aspect} of {plain(largest.name)}, "
            f"{largest.change:+,.0f}{note}."
        )

    def __repr__(self) -> str:
        return self.sentence() if self.changes else "The two reports are the same."

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th scope=row style='text-align:left'>{escape(plain(change.name))}</th>"
            f"<td>{change.aspect}</td><td>{change.before:,.0f}</td><td>{change.after:,.0f}</td>"
            f"<td>{change.change:+,.0f}</td>"
            f"<td style='text-align:left'>{escape(plain(change.note))}</td></tr>"
            for change in self.changes[:50]
        )
        note = ""
        if len(self.changes) > 50:
            note = f"<p>{len(self.changes) - 50:,} smaller ones are in .changes</p>"
        headings = "".join(
            f"<th scope=col>{name}</th>"
            for name in ("name", "of", "before", "after", "change", "note")
        )
        table = (
            f"<table><thead><tr>{headings}</tr></thead><tbody>{rows}</tbody></table>"
            if rows
            else ""
        )
        return f"<div class=ipu-view><p>{escape(repr(self))}</p>{table}{note}</div>"


def _line(change: Change) -> str:
    name = plain(change.name)
    note = plain(change.note)
    numbers = f"{change.before:>14,.0f} {change.after:>14,.0f} {change.change:>+14,.0f}"
    return f"  {name[:34]:<34} {numbers}" + (f"  {note}" if note else "")


def compare(before: Report, after: Report) -> Comparison:
    """Return the differences between two reports, the largest of each aspect first.

    :raises InvalidOptionError: if an argument is not a report.
    """
    for argument in (before, after):
        if not isinstance(argument, Report):
            raise InvalidOptionError(f"""compare() was given {shown(argument)}, which is not a
                report.
                next:  give two reports: compare(before, after), each from engine.report.""")
    changes: list[Change] = []
    for aspect in ASPECTS:
        changes += sorted(
            _MAKERS[aspect](aspect, before, after),
            key=lambda change: (-abs(change.change), change.name),
        )
    return Comparison(before, after, Table(changes))


def _by_name(
    aspect: str,
    values_before: Mapping[str, float],
    values_after: Mapping[str, float],
    notes: dict[str, str] | None = None,
) -> list[Change]:
    total = max(sum(values_before.values()), sum(values_after.values())) or 1
    presence = dict.fromkeys(values_before.keys() - values_after.keys(), "only before")
    presence |= dict.fromkeys(values_after.keys() - values_before.keys(), "only after")
    return [
        Change(
            aspect,
            name,
            before=values_before.get(name, 0),
            after=values_after.get(name, 0),
            share=abs(values_after.get(name, 0) - values_before.get(name, 0)) / total,
            note=(notes or {}).get(name, presence.get(name, "")),
        )
        for name in dict.fromkeys([*values_before, *values_after])
        if values_before.get(name, 0) != values_after.get(name, 0) or (notes or {}).get(name)
    ]


def _measured(
    values_of: Callable[[Report], Mapping[str, float]],
) -> Callable[[str, Report, Report], list[Change]]:
    return lambda aspect, before, after: _by_name(aspect, values_of(before), values_of(after))


def _steps(
    cost_of: Callable[[Report, int], float],
) -> Callable[[str, Report, Report], list[Change]]:
    """Return a function that lists how a cost of the steps changed, summed by step name.

    `cost_of(report, step_number)` is the cost of one execution of a compiled step.
    """

    def sums_by_name(report: Report) -> dict[str, float]:
        sums: dict[str, float] = {}
        for step_number, executions in enumerate(report.executions.tolist()):
            cost = report.step_cost(step_number)
            name = f"{cost.kind} {cost.name}" if cost.kind != "Execute" else cost.name
            sums[name] = sums.get(name, 0) + executions * cost_of(report, step_number)
        return sums

    return _measured(sums_by_name)


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
    fields_before = vars(before.target)
    fields_after = vars(after.target)
    changed_names = [name for name in fields_before if fields_before[name] != fields_after[name]]
    return [
        Change(
            aspect,
            name,
            before=0,
            after=0,
            share=1,
            note=f"{fields_before[name]} before, {fields_after[name]} after",
        )
        if isinstance(fields_before[name], str)
        else Change(aspect, name, before=fields_before[name], after=fields_after[name], share=1)
        for name in changed_names
    ]


def _variables(aspect: str, before: Report, after: Report) -> list[Change]:
    """Return the variables that differ in bytes, dtype, shape, tiles, liveness or tile mapping."""
    bytes_by_name = [report.memory.by_variable() for report in (before, after)]
    variables = [{v.name: v for v in report.variables} for report in (before, after)]
    mappings = [_places(report) for report in (before, after)]
    notes = {}
    for name in variables[0].keys() & variables[1].keys():
        variable_before = variables[0][name]
        variable_after = variables[1][name]
        attributes = [
            (attribute, getattr(variable_before, attribute), getattr(variable_after, attribute))
            for attribute in ("dtype", "shape", "tiles", "always_live")
        ]
        differences = [
            f"{attribute.replace('_', ' ')} {value_before} before, {value_after} after"
            for attribute, value_before, value_after in attributes
            if value_before != value_after
        ]
        if (
            not differences
            and before.target.num_tiles == after.target.num_tiles
            and mappings[0][name] != mappings[1][name]
        ):
            differences = ["on other tiles, or in other parts"]
        if differences:
            notes[name] = "; ".join(differences)
    return _by_name(aspect, bytes_by_name[0], bytes_by_name[1], notes)


def _places(report: Report) -> dict[str, bytes]:
    """Return a dict that maps each variable name to the tile mapping of the variable, as bytes.

    Two mappings are equal if their bytes are equal.
    """
    memory = report.memory
    row_bounds = memory.variable.searchsorted(range(len(memory.names) + 1)).tolist()
    mapping_bytes: dict[str, bytes] = {}
    for name, first, last in zip(memory.names, row_bounds, row_bounds[1:], strict=False):
        mapping_bytes[name] = (
            mapping_bytes.get(name, b"")
            + memory.tile[first:last].tobytes()
            + memory.size[first:last].tobytes()
        )
    return mapping_bytes


def _nodes(report: Report) -> dict[str, float]:
    """Count the program nodes of each kind and name."""
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
