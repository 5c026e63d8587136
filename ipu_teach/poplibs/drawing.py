"""Pictures of plans: the matrices of an operation, with lines between the parts of each matrix."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_LONGEST = 150.0  # the length of the longest side of all matrices in a picture, in pixels
_LEAST = 14.0  # the minimum length of a side, in pixels
# A matrix with more lines than this is shaded, because the lines would merge.
_MOST_LINES = 40
_GAP = 16.0
_MARGIN = 8.0


@dataclass(frozen=True)
class DrawnMatrix:
    """A matrix in a picture, with its size and its number of blocks.

    There are `across` blocks along each row and `down` blocks along each column.
    """

    name: str
    rows: int
    columns: int
    across: int
    down: int


def product(a: DrawnMatrix, b: DrawnMatrix, c: DrawnMatrix, caption: str) -> str:
    """Return HTML of a picture of the product C = A B, with A to the left of C and B above C."""
    scale = _scale((a, b, c))
    m, k, n = (_side(size, scale) for size in (c.rows, a.columns, c.columns))
    c_left = c_top = _MARGIN + k + _GAP
    marks = [
        *_matrix(a, x=_MARGIN, y=c_top, width=k, height=m),
        *_matrix(b, x=c_left, y=_MARGIN, width=n, height=k),
        *_matrix(c, x=c_left, y=c_top, width=n, height=m),
    ]
    return _picture(marks, c_left + n + _MARGIN, c_top + m + _MARGIN, caption)


def row(matrices: Sequence[DrawnMatrix], caption: str) -> str:
    """Return HTML of a picture of matrices in a row; each is computed from its left neighbour."""
    scale = _scale(matrices)
    x = _MARGIN
    marks = []
    for matrix in matrices:
        width = _side(matrix.columns, scale)
        height = _side(matrix.rows, scale)
        marks += _matrix(matrix, x=x, y=_MARGIN, width=width, height=height)
        x += width + _GAP
    tallest = max(_side(matrix.rows, scale) for matrix in matrices)
    return _picture(marks, x - _GAP + _MARGIN, tallest + 2 * _MARGIN, caption)


def _scale(matrices: Sequence[DrawnMatrix]) -> float:
    return _LONGEST / max(1, *(size for m in matrices for size in (m.rows, m.columns)))


def _side(size: int, scale: float) -> float:
    return max(_LEAST, size * scale)


def _picture(marks: Sequence[str], width: float, height: float, caption: str) -> str:
    svg = (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width:.0f}' height='{height:.0f}' "
        "font-family='sans-serif' font-size='12'><rect width='100%' height='100%' "
        f"fill='#fff'/>{''.join(marks)}</svg>"
    )
    picture = f"data:image/svg+xml;base64,{b64encode(svg.encode()).decode()}"
    return f"<img src='{picture}' alt='{escape(caption, quote=True)}'>"


def _matrix(matrix: DrawnMatrix, x: float, y: float, width: float, height: float) -> list[str]:
    """Return the SVG elements of a rectangle with lines between its blocks.

    A direction with more than `_MOST_LINES` blocks has no lines, and the rectangle is then shaded.
    """
    across = matrix.across
    down = matrix.down
    dense = max(across, down) > _MOST_LINES
    marks = [
        f"<rect x='{x:.1f}' y='{y:.1f}' width='{width:.1f}' height='{height:.1f}' "
        f"fill='{'#c6dbef' if dense else '#eff3ff'}' stroke='#08519c'/>"
    ]
    for i in range(1, across if across <= _MOST_LINES else 0):
        position = x + width * i / across
        marks.append(f"<path d='M{position:.1f} {y:.1f}v{height:.1f}' stroke='#6baed6'/>")
    for i in range(1, down if down <= _MOST_LINES else 0):
        position = y + height * i / down
        marks.append(f"<path d='M{x:.1f} {position:.1f}h{width:.1f}' stroke='#6baed6'/>")
    marks.append(
        f"<text x='{x + width / 2 - 4:.1f}' y='{y + height / 2 + 4:.1f}' paint-order='stroke' "
        f"stroke='#eff3ff' stroke-width='5'>{escape(matrix.name)}</text>"
    )
    return marks
