"""Ordinary plots, drawn by matplotlib, each with alternative text.

A picture is an `<img>` inside HTML, with the text as its `alt`: it shows in a notebook that is not
trusted, in an exported page with no network, and is read aloud by a screen reader. Matplotlib is
imported when the first picture is drawn.
"""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict

import numpy as np

from ipu_teach._support.flags import checks, flagged
from ipu_teach.errors import InvalidOptionError, shown
from ipu_teach.types import Array

if TYPE_CHECKING:
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure


HEAT_COLOURS = 48
INK = "#777777"  # titles in it are readable on light and on dark pages


class _Colours(TypedDict, total=False):
    """The arguments of matplotlib's `imshow` that choose colours."""

    cmap: str | Colormap
    vmin: float
    vmax: float


class Picture:
    """A drawn figure and its alternative text, which may not be empty. A notebook shows it as the
    last value of a cell."""

    @checks("png")
    def __init__(self, png: bytes, alt: str) -> None:
        _check_alt(alt)
        self.png = png
        self.alt = alt

    def _repr_html_(self) -> str:
        data = base64.b64encode(self.png).decode("ascii")
        return (
            f'<img src="data:image/png;base64,{data}" alt="{html.escape(self.alt, quote=True)}" '
            'style="max-width: 100%">'
        )

    def __repr__(self) -> str:
        return self.alt


def picture(figure: Figure, alt: str) -> Picture:
    """Return a matplotlib figure as a `Picture`. `alt` says in a sentence or two what it shows; it
    may not be empty."""
    _check_alt(alt)
    if not hasattr(figure, "savefig"):
        raise InvalidOptionError(
            f"picture() was given {shown(figure)}.", next_step="give a matplotlib figure."
        )
    return Picture(_png(figure), alt)


def _png(figure: Figure, *, transparent: bool = False) -> bytes:
    """Return a figure as a PNG file, of 80 pixels an inch."""
    buffer = io.BytesIO()
    figure.savefig(
        buffer,
        format="png",
        dpi=80,
        bbox_inches="tight",
        transparent=transparent,
        # otherwise the file would carry matplotlib's version, and two runs would differ
        metadata={"Software": None},
    )
    return buffer.getvalue()


@flagged
def images(
    pictures: Array,
    alt: str,
    titles: Sequence[object] | None = None,
    *,
    diverging: bool = False,
    heat: bool = False,
) -> Picture:
    """Return images in rows of up to five: grey, and black where an image has its highest value.

    `pictures` has shape (n, height, width). `alt` says what the images show. `titles` has a title
    for each, which is printed above it. With `diverging`, values below zero are red, those above
    zero blue, and zero is white. With `heat`, all images share a scale from black over red to
    yellow, and a bar beside them shows its values.

    :raises InvalidOptionError: if the text is empty; if `pictures` or `titles` have another shape;
        or if `diverging` and `heat` are both True.
    """
    if diverging and heat:
        raise InvalidOptionError(
            "images() was given diverging=True and heat=True.", next_step="give one of them."
        )
    _check_alt(alt)
    stack = _stack(pictures)
    if titles is not None and np.asarray(titles, object).shape[:1] != (len(stack),):
        raise InvalidOptionError(f"""images() was given {shown(titles)} as titles of {len(stack)}
            pictures.
            next:  give one for each.""")
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    columns = min(len(stack), 5)
    rows = -(-len(stack) // columns)
    side = min(2.2, 9.2 / columns)  # inches
    figure = Figure(figsize=(side * columns, 1.13 * side * rows), layout="constrained")
    known = stack[np.isfinite(stack)].astype(np.float64)
    colours: _Colours = {"cmap": "gray_r"}
    if diverging:
        limit = float(np.abs(known).max(initial=0)) or 1.0
        colours = {"cmap": "RdBu", "vmin": -limit, "vmax": limit}
    elif heat and known.size:
        colours = {"vmin": float(known.min()), "vmax": float(known.max())}
        # with fewer colours, the file of a smooth image is a third as large
        colours["cmap"] = colormaps["inferno"].resampled(HEAT_COLOURS)
    drawn = []
    for i, image in enumerate(stack):
        axes = figure.add_subplot(rows, columns, i + 1)
        drawn.append(axes.imshow(image, interpolation="nearest", **colours))
        axes.set_axis_off()
        if titles is not None:
            axes.set_title(str(titles[i]), fontsize=10, color=INK)
    if heat:
        bar = figure.colorbar(drawn[0], ax=figure.axes, fraction=0.05, pad=0.02)
        bar.ax.tick_params(labelsize=9, labelcolor=INK, color=INK)
    return Picture(_png(figure, transparent=True), alt)


def _stack(pictures: Array) -> Array:
    """Return the pictures as an array of numbers with three dimensions; raise an error if it is
    empty or of another shape."""
    try:
        stack = np.asarray(pictures)
    except ValueError:
        raise InvalidOptionError("""images() was given pictures of different sizes.
            next:  give (n, height, width).""") from None
    if stack.ndim != 3 or stack.size == 0:
        raise InvalidOptionError(
            f"images() was given shape {stack.shape}.", next_step="give (n, height, width)."
        )
    if stack.dtype.kind not in "buif":
        raise InvalidOptionError(
            f"images() was given values of type {stack.dtype}.", next_step="give numbers."
        )
    return stack


def _check_alt(alt: str) -> None:
    if not isinstance(alt, str) or not alt.strip():
        raise InvalidOptionError(
            "A picture was given no alternative text.",
            next_step='say what it shows: alt="Ten digits, written by hand."',
        )
