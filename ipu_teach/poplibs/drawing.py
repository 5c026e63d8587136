"""A plan as a picture: both operands and the result, with the lines along which they are cut."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from html import escape

from ipu_teach.graph.text import table

_LONGEST = 150.0  # pixels of the longest side
_LEAST = 14.0
_MOST_LINES = 40  # closer lines would be a grey area
_GAP, _MARGIN = 16.0, 8.0


def drawn(sizes: tuple[int, int, int], blocks: tuple[int, int, int], caption: str, parts: Sequence[tuple[str, str]]) -> str:
    """HTML: A left, B above, C between them, each with its cuts; below it the cycles of each part.

    `sizes` and `blocks`: of rows, inner dimension and columns.
    """
    largest = max(sizes)
    m, k, n = (max(_LEAST, _LONGEST * size / largest) for size in sizes)
    rows, inner, columns = blocks
    left, top = _MARGIN + k + _GAP, _MARGIN + k + _GAP
    body = [
        *_matrix("A", _MARGIN, top, k, m, inner, rows),
        *_matrix("B", left, _MARGIN, n, k, columns, inner),
        *_matrix("C", left, top, n, m, columns, rows),
    ]
    width, height = left + n + _MARGIN, top + m + _MARGIN
    svg = (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width:.0f}' height='{height:.0f}' font-family='sans-serif' "
        f"font-size='12'><rect width='100%' height='100%' fill='#fff'/>{''.join(body)}</svg>"
    )
    picture = f"data:image/svg+xml;base64,{b64encode(svg.encode()).decode()}"
    return f"<img src='{picture}' alt='{escape(caption, quote=True)}'>" + table(
        caption, ("part", "modelled cycles"), parts, "parts"
    )


def _matrix(name: str, x: float, y: float, width: float, height: float, across: int, down: int) -> list[str]:
    """A rectangle cut into `across` by `down` blocks. Where there are too many for lines, it is shaded."""
    dense = max(across, down) > _MOST_LINES
    marks = [
        f"<rect x='{x:.1f}' y='{y:.1f}' width='{width:.1f}' height='{height:.1f}' fill='{'#c6dbef' if dense else '#eff3ff'}' "
        "stroke='#08519c'/>"
    ]
    for i in range(1, across if across <= _MOST_LINES else 0):
        at = x + width * i / across
        marks.append(f"<path d='M{at:.1f} {y:.1f}v{height:.1f}' stroke='#6baed6'/>")
    for i in range(1, down if down <= _MOST_LINES else 0):
        at = y + height * i / down
        marks.append(f"<path d='M{x:.1f} {at:.1f}h{width:.1f}' stroke='#6baed6'/>")
    marks.append(f"<text x='{x + width / 2 - 4:.1f}' y='{y + height / 2 + 4:.1f}'>{name}</text>")
    return marks
