"""Plots drawn by matplotlib, each with alternative text.

A plot is an `<img>` in HTML whose `alt` is the alternative text. A notebook that is not trusted and
an exported page without a network can therefore show it, and a screen reader reads the text.
matplotlib is imported when the first plot is drawn.
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


HEAT_COLOURS = 48  # The number of colours in the scale that `heat` uses.
INK = "#777777"  # The colour of titles, readable on light and on dark pages.


class _Colours(TypedDict, total=False):
    """The arguments of matplotlib's `imshow` that select the colours."""

    cmap: str | Colormap
    vmin: float
    vmax: float


class Picture:
    """A drawn figure: the bytes of a PNG file, and its alternative text.

    A notebook shows the picture if it is the last value of a cell.

    :raises InvalidOptionError: if `alt` is empty.
    :raises PoplarTypeError: if `png` is not bytes.
    """

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
    """Return a matplotlib figure as a `Picture`.

    `alt` states in one or two sentences what the figure shows.

    :raises InvalidOptionError: if `alt` is empty, or `figure` is not a figure.
    """
    _check_alt(alt)
    if not hasattr(figure, "savefig"):
        raise InvalidOptionError(
            f"picture() was given {shown(figure)}, which is not a matplotlib figure.",
            next_step="give a matplotlib figure.",
        )
    return Picture(_png(figure), alt)


def _png(figure: Figure, *, transparent: bool = False) -> bytes:
    """Return the bytes of a PNG file of a figure, with 80 pixels per inch."""
    buffer = io.BytesIO()
    figure.savefig(
        buffer,
        format="png",
        dpi=80,
        bbox_inches="tight",
        transparent=transparent,
        # Without this setting, the file would contain the version of matplotlib, so equal figures
        # would have different bytes.
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
    """Draw images in rows of up to five. In each image, the highest value is black.

    `pictures` is an array of n images of numbers, with the shape (n, height, width). `alt` states
    what the images show. `titles` has n titles, which are written above the images. With
    `diverging`, values below zero are red, values above zero are blue, and zero is white. With
    `heat`, all images share a scale from black through red to yellow, and a bar shows its values.

    :raises InvalidOptionError: if `alt` is empty, if `pictures` is empty, has another shape or does
        not contain real numbers, if `titles` has another length, or if `diverging` and `heat` are
        both True.
    """
    if diverging and heat:
        raise InvalidOptionError(
            "images() was given diverging=True and heat=True.", next_step="give one of them."
        )
    _check_alt(alt)
    image_array = _stack(pictures)
    if titles is not None and np.asarray(titles, object).shape[:1] != (len(image_array),):
        raise InvalidOptionError(f"""images() was given titles={shown(titles)}, which is not a
            title for each of {len(image_array)} pictures.
            next:  give a list with a title for each picture.""")
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    columns = min(len(image_array), 5)
    rows = -(-len(image_array) // columns)
    side_inches = min(2.2, 9.2 / columns)
    figure = Figure(
        figsize=(side_inches * columns, 1.13 * side_inches * rows), layout="constrained"
    )
    finite_values = image_array[np.isfinite(image_array)].astype(np.float64)
    colours: _Colours = {"cmap": "gray_r"}
    if diverging:
        limit = float(np.abs(finite_values).max(initial=0)) or 1.0
        colours = {"cmap": "RdBu", "vmin": -limit, "vmax": limit}
    elif heat and finite_values.size:
        colours = {"vmin": float(finite_values.min()), "vmax": float(finite_values.max())}
        # With this few colours, the file of a smooth image shrinks to a third.
        colours["cmap"] = colormaps["inferno"].resampled(HEAT_COLOURS)
    axes_images = []
    for index, image in enumerate(image_array):
        axes = figure.add_subplot(rows, columns, index + 1)
        axes_images.append(axes.imshow(image, interpolation="nearest", **colours))
        axes.set_axis_off()
        if titles is not None:
            axes.set_title(str(titles[index]), fontsize=10, color=INK)
    if heat:
        colour_bar = figure.colorbar(axes_images[0], ax=figure.axes, fraction=0.05, pad=0.02)
        colour_bar.ax.tick_params(labelsize=9, labelcolor=INK, color=INK)
    return Picture(_with_palette(_png(figure, transparent=True)), alt)


def _with_palette(png: bytes) -> bytes:
    """Reduce a PNG file to at most 256 colours, and thus to a third of its size or less."""
    from PIL import Image

    buffer = io.BytesIO()
    with Image.open(io.BytesIO(png)) as image:
        flat = image.quantize(256, method=Image.Quantize.FASTOCTREE)
        flat.save(buffer, format="png", optimize=True)
    return buffer.getvalue()


def _stack(pictures: Array) -> Array:
    """Return the pictures as an array of numbers with three dimensions.

    :raises InvalidOptionError: if they are empty, have another shape, or are not numbers.
    """
    try:
        image_array = np.asarray(pictures)
    except ValueError:
        raise InvalidOptionError("""images() was given pictures of different sizes.
            next:  give an array of shape (n, height, width).""") from None
    if image_array.ndim != 3 or image_array.size == 0:
        raise InvalidOptionError(
            f"images() was given an array of shape {image_array.shape}, which is not a list of "
            "pictures.",
            next_step="give an array of shape (n, height, width).",
        )
    if image_array.dtype.kind not in "buif":
        raise InvalidOptionError(
            f"images() was given an array of dtype {image_array.dtype}, which it cannot draw.",
            next_step="give an array of real numbers.",
        )
    return image_array


def _check_alt(alt: str) -> None:
    if not isinstance(alt, str) or not alt.strip():
        raise InvalidOptionError(
            "A picture was given no alternative text.",
            next_step='say what it shows: alt="Ten digits, written by hand."',
        )
