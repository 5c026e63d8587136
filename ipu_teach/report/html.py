"""Reports as HTML pages: a sentence and a picture, followed by sections that the reader can unfold.

A page has no script, no colours of its own, and no content that changes with time. It consists of
standard HTML elements (`details`, `table`, `meter`), so it works with a keyboard, with screen
readers, and on light and dark pages. The picture is drawn in the colour of the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from ipu_teach.errors import counted
from ipu_teach.report.table import Table, plain

if TYPE_CHECKING:
    from ipu_teach.report.host_trace import HostTrace
    from ipu_teach.report.report import Report

MOST_ROWS = 24  # The maximum number of rows shown of a table.
# The width of the picture in pixels, and the maximum number of its columns. The columns show tiles.
PICTURE_WIDTH, MOST_COLUMNS = 480, 60
MOST_NODES = 200  # The maximum number of nodes shown of the program trees.
# Maps each table to the column to sort by ("" for none), the columns to show, and the caption.
TABLES = {
    "Insights": ("", "kind text advice lesson", "What stands out, and what to try"),
    "Liveness": ("", "number type name bytes variables", "What comes and goes, all tiles together"),
    "Variables": (
        "bytes",
        "name dtype shape bytes tiles always_live first last line",
        "The largest first",
    ),
    "Operations": (
        "cycles",
        "name executions cycles bytes_received flops code_bytes",
        "By library call and name",
    ),
    "Compute sets": (
        "cycles",
        "name executions num_vertices cycles balance",
        "Of one execution, the longest first",
    ),
    "Exchanges": (
        "bytes_received",
        "name executions bytes_received most_received tile cycles",
        "Of one execution each",
    ),
    "Steps": (
        "",
        "index kind name start cycles balance active_tiles bytes_received vertex_types",
        "The run, in order",
    ),
    "IPUs": (
        "busy_cycles",
        "ipu busy_cycles shared_cycles waiting_cycles waits_for held_cycles held_by",
        "Who works, and who waits",
    ),
}


def page(report: Report) -> str:
    """Return the report as one HTML element: a sentence, a picture, and sections."""
    insights, *tables = (_table(name, rows) for name, rows in report.tables.items())
    sections = [_summary(report), insights, _memory(report), *tables, _programs(report)]
    if report.sources:
        sections.append(_sources(report))
    return (
        f'<div class="ipu-view report"><p>{_text(_sentence(report))}</p>{_picture(report)}'
        f"{''.join(sections)}</div>"
    )


def _picture(report: Report) -> str:
    """Return an SVG of how the average tile spends its time, and of the bytes on each tile.

    If there are more than 60 tiles, each column stands for several tiles and shows the bytes of the
    fullest of these tiles.
    """
    shares = [(name, share) for name, share in report.proportions.items() if share >= 0.0005]
    parts = ['<text y="14">Time of the average tile, modelled</text>'] if shares else []
    for row, (name, share) in enumerate(shares, start=1):
        y = 20 * row + 14
        parts += [
            f'<text y="{y}">{name}</text><text x="424" y="{y}">{100 * share:.1f} %</text>'
            f'<path d="M160 {y - 12}h{256 * share:.1f}v14H160z" opacity=".7"/>'
        ]
    top = 20 * len(shares) + (54 if shares else 14)
    bytes_per_tile = report.memory.held_per_tile
    group = -(-len(bytes_per_tile) // MOST_COLUMNS)
    columns = np.maximum.reduceat(bytes_per_tile, range(0, len(bytes_per_tile), group))
    step = PICTURE_WIDTH / len(columns)
    path = "".join(
        f"M{step * i:.1f} {top + 60}v{-height:.1f}h{0.8 * step:.1f}v{height:.1f}z"
        for i, height in enumerate((48 * columns / max(columns.max(), 1)).tolist())
    )
    grouped = f", the fullest of each {group}" if group > 1 else ""
    memory = f"Bytes on tiles 0 to {len(bytes_per_tile) - 1:,}{grouped}"
    described = ", ".join([*(f"{name} {100 * share:.1f} %" for name, share in shares), memory])
    return (
        f'<svg viewBox="0 0 {PICTURE_WIDTH} {top + 66}" role="img" aria-label="{described}" '
        'font-size="13" fill="currentColor" style="display:block;width:100%;max-width:480px">'
        f'{"".join(parts)}<text y="{top}">{memory}</text><path d="{path}" opacity=".7"/></svg>'
    )


def _table(name: str, table: Sequence[Any]) -> str:
    """Return the HTML section for the table `name` of `Report.tables`.

    The section shows the first rows of the table, or the rows with the largest values in a column.
    """
    maximum_column, columns, caption = TABLES[name]
    return _section(
        f"{name}: {len(table):,}",
        _rows(table, columns.split(), f"{caption}; modelled", maximum_column),
    )


def _sentence(report: Report) -> str:
    target = report.target
    bytes_per_tile = report.memory.held_per_tile
    fullest_tile = int(np.argmax(bytes_per_tile))
    run_text = "Nothing has run."
    if report.num_steps:
        run_text = (
            f"{counted(report.num_steps, 'step')} in {report.total_cycles:,.0f} modelled cycles."
        )
    return (
        f"{run_text} The fullest of {counted(target.num_tiles, 'tile')} is tile {fullest_tile}, "
        f"with {int(bytes_per_tile[fullest_tile]):,} of {target.bytes_per_tile:,} bytes "
        f"({100 * int(bytes_per_tile[fullest_tile]) / target.bytes_per_tile:.1f} %)."
    )


def _summary(report: Report) -> str:
    # Importing this at the top would be circular: `summary` imports `report` and so this module.
    from ipu_teach.report.summary import summary_text

    sections = [
        "Target",
        "Graph",
        "Execution",
        *(["Runs"] if len(report.runs) > 1 else []),
        "Cycles by vertex type",
    ]
    text = summary_text(report, sections)
    share_bars = [(name, _bar(share, 1)) for name, share in report.proportions.items()]
    share_table = tabled(("of the average tile's time", "share"), share_bars, "Modelled")
    return _section(
        "Summary", f"<pre>{escape(text)}</pre>" + (share_table if report.num_steps else "")
    )


def _memory(report: Report) -> str:
    memory = report.memory
    bytes_per_tile = memory.held_per_tile
    total_bytes = int(memory.bytes_per_tile.sum())
    categories = [
        (name, f"{num_bytes:,}", _bar(num_bytes, total_bytes))
        for name, num_bytes in memory.by_category().items()
        if num_bytes
    ]
    fullest_tiles = np.argsort(-bytes_per_tile, kind="stable")[:5].tolist()
    limit = report.target.bytes_per_tile
    tile_rows = [
        (f"tile {tile}", f"{int(bytes_per_tile[tile]):,}", _bar(int(bytes_per_tile[tile]), limit))
        for tile in fullest_tiles
    ]
    regions = ", ".join(
        f"{name.lower()} {num_bytes:,}" for name, num_bytes in memory.by_region().items()
    )
    return _section(
        f"Memory: {total_bytes:,} bytes",
        tabled(
            ("category", "bytes", "share"),
            categories,
            "Bytes of all tiles, each at its fullest moment",
        )
        + tabled(("tile", "bytes", "of its memory"), tile_rows, "The fullest tiles")
        + f"<p>Bytes by region, gaps included: {regions}.</p>",
    )


def _programs(report: Report) -> str:
    nodes = [
        (depth, node)
        for program in report.profile.programs
        for depth, node in islice(program.walk(), MOST_NODES + 1)
    ]
    names = (
        (depth, n.name if n.kind in n.name else f"{n.kind} {n.name}".strip())
        for depth, n in nodes[:MOST_NODES]
    )
    tree = "\n".join(f"{'  ' * min(depth, 30)}{_text(name)}" for depth, name in names)
    note = ""
    if len(nodes) > MOST_NODES:
        note = f"<p>The first {MOST_NODES} parts; report.profile.programs has all.</p>"
    return _section(f"Programs: {len(report.profile.programs)}", f"<pre>{tree}</pre>{note}")


def table_page(table: Table[Any]) -> str:
    """Return the first rows of a table as one HTML element."""
    if not table:
        return '<div class="ipu-view"><p>A table without rows.</p></div>'
    modelled = "; cycles are modelled" if any("cycles" in name for name in table.columns) else ""
    rows = _rows(table, table.columns, counted(len(table), "row") + modelled)
    return f'<div class="ipu-view">{rows}</div>'


def host_page(host: HostTrace) -> str:
    """Return the host's timeline as one HTML element: a sentence, followed by tables to unfold."""
    tables: dict[str, Table[Any]] = {
        "Streams": host.streams(),
        "Remote buffers": host.buffers(),
        "What the device waited for": host.waiting(),
        "Counters": host.values,
        "Events": host.events,
    }
    sections = (
        _section(
            f"{name}: {len(rows):,}",
            _rows(rows, rows.columns, ("Measured, in seconds" if name != "Remote buffers" else "")),
        )
        for name, rows in tables.items()
        if rows
    )
    return f'<div class="ipu-view report"><p>{_text(host.sentence())}</p>{"".join(sections)}</div>'


def _rows(
    table: Sequence[Any], columns: Sequence[str], caption: str, maximum_column: str = ""
) -> str:
    """Return an HTML table with the first rows of `table`; `columns` are the columns to show.

    If `maximum_column` is given, the HTML table instead shows the rows with the largest values in
    that column, and draws these values as bars.
    """
    rows = (
        table.largest(maximum_column, MOST_ROWS)
        if maximum_column and isinstance(table, Table)
        else table[:MOST_ROWS]
    )
    row_cells = [{name: getattr(row, name) for name in columns} for row in rows]
    maximum = max((row[maximum_column] for row in row_cells), default=0) if maximum_column else 0
    cells = (
        [
            _bar(value, maximum, _cell(value)) if name == maximum_column else _cell(value)
            for name, value in row.items()
        ]
        for row in row_cells
    )
    remaining = len(table) - MOST_ROWS
    note = f"<p>{remaining:,} more are in the report's data.</p>" if remaining > 0 else ""
    return tabled((name.replace("_", " ") for name in columns), cells, caption) + note


def _cell(value: object) -> str:
    """Return the string that shows a value in a table cell."""
    if isinstance(value, float):
        return f"{value:,.1f}" if abs(value) >= 1000 else f"{value:.4g}"
    if isinstance(value, dict):
        return ", ".join(list(value)[:4])
    if isinstance(value, tuple):
        return " x ".join(map(str, value))
    if value == -1:  # In the tables, -1 means "no leaf", "no IPU" or "not counted".
        return "-"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _sources(report: Report) -> str:
    methods = (
        (name, map(plain, text.expandtabs(4).splitlines())) for name, text in report.sources.items()
    )
    texts = "".join(
        f"<h4>{_text(name)}</h4><pre>{escape(chr(10).join(lines))}</pre>" for name, lines in methods
    )
    return _section(f"Codelets: {counted(len(report.sources), 'method')}", texts)


def _section(title: str, body: str) -> str:
    return f"<details><summary>{_text(title)}</summary>{body}</details>"


class _Markup(str):
    """Text that is already HTML. It must not be escaped again."""


def _bar(value: float, maximum: float, label: str = "") -> _Markup:
    """Return a bar that shows `value` as a share of `maximum`, followed by `label`.

    If `label` is "", the percentage follows the bar instead. The bar also contains the percentage
    as text, for readers who cannot see the bar.
    """
    share = 100 * value / maximum if maximum else 0.0
    return _Markup(
        f'<meter min="0" max="100" value="{share:.1f}">{share:.1f} %</meter> '
        f"{label or f'{share:.1f} %'}"
    )


def tabled(heads: Iterable[str], rows: Iterable[Iterable[Any]], caption: str) -> str:
    """Return an HTML table of `rows`; the first cell of each row is the heading of that row.

    `heads` are the headings of the columns.
    """
    headings = "".join(f'<th scope="col">{_text(heading)}</th>' for heading in heads)
    row_texts = []
    for row_heading, *values in rows:
        cells = "".join(
            f"<td>{cell if isinstance(cell, _Markup) else _text(cell)}</td>" for cell in values
        )
        row_texts.append(f'<tr><th scope="row">{_text(row_heading)}</th>{cells}</tr>')
    headings = f"<caption>{_text(caption)}</caption><thead><tr>{headings}</tr></thead>"
    return f"<table>{headings}<tbody>{''.join(row_texts)}</tbody></table>"


def _text(value: object) -> str:
    return escape(plain(str(value)))
