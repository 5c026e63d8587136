"""The panel in which a lesson shows a verdict or a hint: a frame with a heading and labelled rows.

It has a text form and an HTML form with the same words. Every difference in colour is also a
difference in words or signs. The frame takes its colours from the page, light or dark, except for
its left edge. All text is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from textwrap import fill
from typing import Protocol

# The number of characters in a line of the text form of the panel.
WIDTH = 100
BAR = 30  # The number of characters in a bar of the text form.

FRAME = (
    "margin:.4em 0;padding:.5em .9em;border:1px "
    "solid;border-left-width:.4em;border-radius:.3em;max-width:60em"
)
LABEL = (
    "text-align:left;vertical-align:top;font-weight:600;padding:.1em 1.2em .1em "
    "0;white-space:nowrap"
)
VALUE = (
    "text-align:left;vertical-align:top;padding:.1em 1.2em .1em "
    "0;white-space:pre-wrap;overflow-wrap:anywhere"
)

BLOCK = "flex:1 1 26em;min-width:0;margin:.4em 1.2em 0 0"
CODE = "margin:.2em 0;background:none;color:inherit;white-space:pre-wrap;overflow-wrap:anywhere"
DRAWN = "The case that failed, drawn"


def number(value: float) -> str:
    """Return a number as text in the format of the lessons.

    Whole numbers below 10**15 have thousands separators, other numbers have 4 significant digits.
    """
    return f"{value:,.0f}" if float(value).is_integer() and abs(value) < 1e15 else f"{value:.4g}"


def amount(value: float, unit: str) -> str:
    """Return a number with its unit, in the singular if the number is 1."""
    return f"{number(value)} {re.sub('s(?= |$)', '', unit, count=1) if value == 1 else unit}"


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows of a table as lines, with columns as wide as their widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(f"{cell:{w}}" for cell, w in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _row(label: str, content: str) -> str:
    """Return an HTML table row without background colour.

    Notebooks colour every second row, and readers could take the colour for information.
    """
    head = f'<th scope="row" style="{LABEL}">{escape(label)}</th>'
    return f'<tr style="background:none">{head}<td style="{VALUE}">{content}</td></tr>'


@dataclass(frozen=True)
class Bars:
    """A cost next to its budget, both in `unit`.

    `least` is the lowest cost that is possible on the machine, or None if it is unknown.
    """

    budget: float
    yours: float
    unit: str
    least: float | None = None

    def _lines(self) -> list[tuple[str, float, str]]:
        over = ""
        if self.yours > self.budget:
            over = (
                f", {number(round(100 * (self.yours / self.budget - 1), 1))} % over"
                if self.budget
                else ", over"
            )
        elif self.yours < self.budget:
            over = f", {number(round(100 * (1 - self.yours / self.budget), 1))} % under"
        minimum = [] if self.least is None else [("at least", self.least, "")]
        return [("budget", self.budget, ""), ("yours", self.yours, over), *minimum]

    def _share(self, value: float) -> float:
        return value / max(self.budget, self.yours, 1e-300)

    def text(self) -> list[tuple[str, str]]:
        """Return `(label, text)` for each bar; the text has the bar drawn with characters."""
        return [
            (
                label,
                f"|{'#' * round(BAR * self._share(value)):{BAR}}| {amount(value, self.unit)}{over}",
            )
            for label, value, over in self._lines()
        ]

    def html(self, tint: str = "") -> str:
        """Return the bars as HTML table rows; `tint` is the colour of the learner's bar.

        The text next to the bars has the same values, so screen readers skip the bars.
        """
        hatch = "repeating-linear-gradient(45deg,currentColor 0 2px,transparent 2px 5px)"
        rows = []
        for label, value, over in self._lines():
            if value > self.budget:
                look = hatch
            else:
                look = tint if tint and label == "yours" else "currentColor"
            bar = (
                f'<div style="width:{100 * self._share(value):.4g}%;height:100%;background:{look};'
                'opacity:.7"></div>'
            )
            box = (
                '<div aria-hidden="true" style="width:16em;height:.8em;border:1px '
                f'solid;margin:.2em 0">{bar}</div>'
            )
            words = escape(f"{amount(value, self.unit)}{over}")
            rows.append(_row(label, box + words))
        return "".join(rows)


class Picture(Protocol):
    """A view that a notebook can show, with a description in words."""

    @property
    def alt(self) -> str: ...

    def _repr_html_(self) -> str: ...


@dataclass(frozen=True)
class Panel:
    """A framed text below a cell: a heading and labelled rows.

    `mark` is a sign before the heading, `rows` has pairs (label, text), and `bars` shows a cost
    next to its budget. `picture` is a view below the rows, which the reader has to unfold; the text
    form prints its description. `code` has pairs (heading, lines), which are shown side by side if
    the page is wide enough.
    """

    heading: str
    mark: str = ""
    rows: tuple[tuple[str, str], ...] = ()
    bars: Bars | None = None
    picture: Picture | None = None
    code: tuple[tuple[str, str], ...] = ()

    @property
    def tint(self) -> str:
        """The colour of the frame's left edge; "" for the page's own colour.

        The colour repeats the meaning of the sign before the heading.
        """
        return ""

    @property
    def wash(self) -> str:
        """The background colour of the heading; "" for none, as in most panels."""
        return ""

    def __repr__(self) -> str:
        rows = list(self.rows) + (self.bars.text() if self.bars else [])
        rows += [("drawn", self.picture.alt)] if self.picture is not None else []
        width = max((len(label) for label, _ in rows), default=0) + 1
        lines = [fill(self.heading, WIDTH)]
        for label, code in self.code:
            lines += [f"  {label}:", *(f"    {line}".rstrip() for line in code.splitlines())]
        for label, text in rows:
            first = f"  {label + ':':{width}} "
            later = " " * (width + 3)
            for part in text.splitlines() or [""]:
                # Code (an indented line) and bars (a line that begins with "|") are not wrapped.
                lines.append(
                    first + part if part.startswith((" ", "|")) else _filled(part, first, later)
                )
                first = later
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        sign = f'<span aria-hidden="true">{escape(self.mark)} </span>' if self.mark else ""
        rows = "".join(_row(label, escape(text)) for label, text in self.rows)
        rows += self.bars.html(self.wash and self.tint) if self.bars else ""
        table = (
            f'<table style="border-collapse:collapse;margin:.3em 0 0;color:inherit">{rows}</table>'
            if rows
            else ""
        )
        if self.code:
            blocks = (
                f'<div style="{BLOCK}"><b>{escape(label)}</b>'
                f'<pre style="{CODE}">{escape(code)}</pre></div>'
                for label, code in self.code
            )
            table = f'<div style="display:flex;flex-wrap:wrap">{"".join(blocks)}</div>{table}'
        if self.picture is not None:
            drawn = self.picture._repr_html_()
            table += f"<details><summary>{DRAWN}</summary>{drawn}</details>"
        edge = f";border-left-color:{self.tint}" if self.tint else ""
        edge += (
            f";background:linear-gradient(90deg,{self.wash},transparent 70%)" if self.wash else ""
        )
        return (
            f'<div class="ipu-view" role="group" aria-label="{escape(self.heading)}" '
            f'style="{FRAME}{edge}">'
            f"<strong>{sign}{escape(self.heading)}</strong>{table}</div>"
        )


def _filled(text: str, first: str, later: str) -> str:
    filled = fill(
        text, WIDTH, initial_indent=first, subsequent_indent=later, break_on_hyphens=False
    )
    return filled or first.rstrip()
