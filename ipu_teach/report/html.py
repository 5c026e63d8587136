"""A report on a page: a sentence, and below it sections to unfold. No script, no colour of its own, nothing from a clock.

Elements are the browser's own (`details`, `table`, `meter`), so that keys, screen readers, light and dark pages work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from ipu_teach.errors import counted
from ipu_teach.report.profile import ProgramNode
from ipu_teach.report.table import Table, plain

if TYPE_CHECKING:
    from ipu_teach.report.host_trace import HostTrace
    from ipu_teach.report.insights import Insight
    from ipu_teach.report.operations import Operation
    from ipu_teach.report.query import ExchangeRow, VariableRow
    from ipu_teach.report.report import ComputeSetProfile, Report

MOST_ROWS = 24
MOST_NODES = 200  # of a program tree


def page(report: Report) -> str:
    """The report as one HTML element."""
    sections = [_summary(report), _insights(report), _memory(report), _liveness(report), _variables(report), _programs(report)]
    if report.num_steps:
        sections += [_operations(report), _compute_sets(report), _exchanges(report), _steps(report)]
    if report.sources:
        sections.append(_sources(report))
    return f'<div class="ipu-view report"><p>{_text(_sentence(report))}</p>{"".join(sections)}</div>'


def _listing(
    title: str, heads: str, found: Table[Any], cells: Callable[[Any], Iterable[Any]], caption: str, most: str = ""
) -> str:
    """A section with the first rows of a table, or those with the most in column `most`. `heads`: apart by commas."""
    rows = found.largest(most, MOST_ROWS) if most else found[:MOST_ROWS]
    body = tabled(heads.split(", "), map(cells, rows), caption)
    return _section(f"{title}: {len(found):,}", body + _more(len(found)))


def _sentence(report: Report) -> str:
    target = report.target
    used = report.memory.held_per_tile
    full = int(np.argmax(used))
    run = "Nothing has run."
    if report.num_steps:
        run = f"{counted(report.num_steps, 'step')} in {report.total_cycles:,.0f} modelled cycles."
    return (
        f"{run} The fullest of {counted(target.num_tiles, 'tile')} is tile {full}, with {int(used[full]):,} of "
        f"{target.bytes_per_tile:,} bytes ({100 * int(used[full]) / target.bytes_per_tile:.1f} %)."
    )


def _summary(report: Report) -> str:
    from ipu_teach.report.summary import summary_text  # which prints reports, and so comes after them

    text = summary_text(report, ["Target", "Graph", "Execution", "Cycles by vertex type"])
    shares = tabled(
        ("of the average tile's time", "share"),
        [(name, _bar(share, 1)) for name, share in report.proportions.items()],
        "Modelled",
    )
    return _section("Summary", f"<pre>{escape(text)}</pre>" + (shares if report.num_steps else ""))


def _insights(report: Report) -> str:
    def cells(i: Insight) -> tuple[str, ...]:
        return i.kind, i.text, " ".join(filter(None, (i.advice, f"See {i.lesson}." if i.lesson else "")))

    return _listing("Insights", "about, what stands out, what to try", report.insights(), cells, "Modelled")


def _memory(report: Report) -> str:
    memory = report.memory
    used, whole = memory.held_per_tile, int(memory.bytes_per_tile.sum())
    categories = [(name, f"{size:,}", _bar(size, whole)) for name, size in memory.by_category().items() if size]
    fullest = np.argsort(-used, kind="stable")[:5].tolist()
    limit = report.target.bytes_per_tile
    tiles = [(f"tile {t}", f"{int(used[t]):,}", _bar(int(used[t]), limit)) for t in fullest]
    regions = ", ".join(f"{name.lower()} {size:,}" for name, size in memory.by_region().items())
    return _section(
        f"Memory: {whole:,} bytes",
        tabled(("category", "bytes", "share"), categories, "Bytes of all tiles, each at its fullest moment")
        + tabled(("tile", "bytes", "of its memory"), tiles, "The fullest tiles")
        + f"<p>Bytes by region, gaps included: {regions}.</p>",
    )


def _liveness(report: Report) -> str:
    curve = report.compilation.liveness_program_steps
    most = max((s.bytes for s in curve), default=0)
    rows = [(f"{s.number}: {s.name or s.type}", f"{s.bytes:,}", _bar(s.bytes, most), ", ".join(list(s.variables)[:4]))
            for s in curve[:MOST_ROWS]]  # fmt: skip
    always = int(report.memory.always_live_bytes_per_tile.sum())
    body = tabled(("place", "bytes", "of the most", "largest variables"), rows, "What comes and goes, all tiles together")
    return _section(f"Liveness: {always:,} bytes always, at most {most:,} more", body + _more(len(curve)))


def _variables(report: Report) -> str:
    def cells(v: VariableRow) -> tuple[str, ...]:
        live = "always" if v.always_live else f"{v.first} to {v.last}"
        return v.name, v.dtype, " x ".join(map(str, v.shape)), f"{v.bytes:,}", f"{v.tiles:,}", live, v.line

    heads = "variable, dtype, shape, bytes, tiles, live at places, made in"
    return _listing("Variables", heads, report.variables, cells, "The largest variables", "bytes")


def _programs(report: Report) -> str:
    left = [MOST_NODES]
    trees = "".join(_tree(p, left, 0) for p in report.profile.programs)
    note = "" if left[0] > 0 else f"<p>The first {MOST_NODES} parts; report.profile.programs has all.</p>"
    return _section(f"Programs: {len(report.profile.programs)}", f"<ul>{trees}</ul>{note}")


def _tree(node: ProgramNode, left: list[int], depth: int) -> str:
    left[0] -= 1
    if left[0] < 0 or depth > 30:
        return ""
    title = node.name if node.kind in node.name else f"{node.kind} {node.name}".strip()
    if not node.children:
        return f"<li>{_text(title)}</li>"
    inside = "".join(_tree(child, left, depth + 1) for child in node.children)
    return f"<li><details{' open' if depth < 2 else ''}><summary>{_text(title)}</summary><ul>{inside}</ul></details></li>"


def _operations(report: Report) -> str:
    found = report.operations()
    most = max((o.cycles for o in found), default=0)

    def cells(o: Operation) -> tuple[str, ...]:
        flops = "unknown" if o.flops < 0 else f"{o.flops:,}"
        shares = f"{o.cycles:,.0f}", _bar(o.cycles, most), f"{o.bytes_received:,}"
        return o.name, f"{o.executions:,}", *shares, flops, f"{o.code_bytes:,}"

    heads = "operation, steps, modelled cycles, of the longest, bytes received, FLOPs, code bytes"
    return _listing("Operations", heads, found, cells, "By library call and name", "cycles")


def _compute_sets(report: Report) -> str:
    def cells(c: ComputeSetProfile) -> tuple[str, ...]:
        return c.name, f"{c.executions:,}", f"{c.num_vertices:,}", f"{c.cycles:,.0f}", f"{100 * c.balance:.0f} %"

    heads = "compute set, executions, vertices, modelled cycles each, tile balance"
    return _listing("Compute sets", heads, report.compute_sets, cells, "The longest first", "cycles")


def _exchanges(report: Report) -> str:
    def cells(e: ExchangeRow) -> tuple[str, ...]:
        most = f"{e.most_received:,} on tile {e.tile}"
        return e.name, f"{e.executions:,}", f"{e.bytes_received:,}", most, f"{e.cycles:,}"

    heads, rows = "step, executions, bytes received, most on one tile, modelled cycles", report.exchanges
    ran = rows.where(lambda row: row.executions)
    return _listing("Exchanges", heads, ran, cells, "Of one execution, the largest first", "bytes_received")


def _steps(report: Report) -> str:
    rows = [
        (f"{s.index}", s.kind, s.name, f"{s.start:,.0f}", f"{s.cycles:,.0f}", f"{100 * s.balance:.0f} %", f"{s.active_tiles:,}",
         f"{s.bytes_received:,}", s.vertex_types)
        for s in report.steps(0, MOST_ROWS)
    ]  # fmt: skip
    heads = ("step", "kind", "name", "start", "modelled cycles", "balance", "active tiles", "bytes received", "vertices")
    return _section(f"Steps: {report.num_steps:,}", tabled(heads, rows, "The run, in order") + _more(report.num_steps))


def table_page(table: Table[Any]) -> str:
    """The first rows of a table as one HTML element."""
    if not table:
        return '<div class="ipu-view"><p>A table without rows.</p></div>'
    modelled = "; cycles are modelled" if any("cycles" in name for name in table.columns) else ""
    return f'<div class="ipu-view">{_rows(table, counted(len(table), "row") + modelled)}</div>'


def host_page(host: HostTrace) -> str:
    """The host's timeline as one HTML element: a sentence, and tables to unfold. Its times are measured."""
    tables: dict[str, Table[Any]] = {
        "Streams": host.streams(),
        "What the device waited for": host.waiting(),
        "Counters": host.values,
        "Events": host.events,
    }
    found = [(f"{title}: {len(rows):,}", _rows(rows, "Measured, in seconds")) for title, rows in tables.items() if rows]
    return f'<div class="ipu-view report"><p>{_text(host.sentence())}</p>{"".join(_section(*one) for one in found)}</div>'


def _rows(table: Table[Any], caption: str) -> str:
    """The first rows of a table, with the headings that they have as data."""
    heads = [name.replace("_", " ") for name in table.columns]
    rows = [[_cell(getattr(row, name)) for name in table.columns] for row in table[:MOST_ROWS]]
    return tabled(heads, rows, caption) + _more(len(table))


def _cell(value: object) -> str:
    """A value as a table shows it."""
    if isinstance(value, float):
        return f"{value:,.1f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _sources(report: Report) -> str:
    texts = "".join(f"<h4>{_text(name)}</h4><pre>{escape(_code(text))}</pre>" for name, text in report.sources.items())
    return _section(f"Codelets: {counted(len(report.sources), 'method')}", texts)


def _code(text: str) -> str:
    return "\n".join(plain(line.replace("\t", "    ")) for line in text.splitlines())


def _section(title: str, body: str) -> str:
    return f"<details><summary>{_text(title)}</summary>{body}</details>"


class _Markup(str):
    """Text that is HTML already."""


def _bar(value: float, most: float) -> _Markup:
    """A bar, with the share in words for those who do not see it."""
    share = 100 * value / most if most else 0.0
    return _Markup(f'<meter min="0" max="100" value="{share:.1f}">{share:.1f} %</meter> {share:.1f} %')


def tabled(heads: Iterable[str], rows: Iterable[Iterable[Any]], caption: str) -> str:
    """Rows as a table in HTML; each begins with what it is about."""
    head = "".join(f'<th scope="col">{_text(h)}</th>' for h in heads)
    lines = []
    for first, *rest in rows:
        cells = "".join(f"<td>{cell if isinstance(cell, _Markup) else _text(cell)}</td>" for cell in rest)
        lines.append(f'<tr><th scope="row">{_text(first)}</th>{cells}</tr>')
    return f"<table><caption>{_text(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def _more(count: int) -> str:
    return f"<p>{count - MOST_ROWS:,} more are in the report's data.</p>" if count > MOST_ROWS else ""


def _text(value: object) -> str:
    return escape(plain(str(value)))
