"""Draw a scene with matplotlib as a png, pdf or gif file.

This module is imported only when needed, because matplotlib is optional.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PatchCollection
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, PathPatch, Polygon, Rectangle
from matplotlib.path import Path as Curve
from matplotlib.patheffects import withStroke

from ipu_teach.show.paint import caption, caption_height, headline, headline_height, paint
from ipu_teach.show.palette import DARK, LIGHT, Code, ink_on
from ipu_teach.show.scene import WIDTH, Scene
from ipu_teach.show.shapes import Boxes, Outline, Raster, Shape, Stroke, Words

POINT = 72 / 96  # The size of a unit of the drawing in points. An inch has 96 units.
HATCH = {"": "", "/": "////", ".": "..", "-": "---", "|": "|||", "x": "xxx"}
STEPS = 4  # The number of images in a GIF for each frame of the scene.
MOST_PICTURES = 400  # The maximum number of images in a GIF, without the poster.
# The time for which a GIF shows the poster, and that for every other image, in milliseconds.
POSTER_TIME, PICTURE_TIME = 1400, 150


def figure(
    scene: Scene, frame: int | None = None, progress: float | None = None, dark: bool = False
) -> Figure:
    """Return a frame as a matplotlib figure that is 7.5 inches wide.

    By default, the frame is the poster with complete lanes. `progress` is the fraction of the
    frame's cycles that have passed, from 0 to 1.
    """
    theme = DARK if dark else LIGHT
    frame_number = scene.poster if frame is None else frame
    title_height = headline_height(scene)
    height = scene.height + caption_height(scene)
    canvas_figure = Figure(
        figsize=(WIDTH / 96, (title_height + height) / 96), facecolor=theme["paper"]
    )
    FigureCanvasAgg(canvas_figure)
    axes = canvas_figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, WIDTH)
    axes.set_ylim(height, -title_height)
    axes.set_axis_off()
    for shape in (
        *paint(scene, frame_number, progress, is_whole=frame is None),
        *caption(scene, frame_number),
    ):
        _add(axes, shape, scene.codes, dark)
    for words in headline(scene):
        _add(axes, words, scene.codes, dark)
        axes.texts[-1].set_fontweight("bold")
    axes.set_ylim(height, -title_height)
    return canvas_figure


def write(scene: Scene, path: Path, ending: str, frame: int | None, width: int, dark: bool) -> None:
    """Write a picture to `path`, in the format `ending`: "png", "pdf" or "gif".

    A png or pdf file shows frame number `frame`, by default the poster. A gif begins with the
    poster, because some pages show only its first picture, and then shows all frames. While a gif
    is drawn, a progress bar is printed. `width` is in pixels. Equal scenes result in equal files.
    """
    if ending != "gif":
        metadata = (
            {"CreationDate": None, "Producer": None, "Creator": None}
            if ending == "pdf"
            else {"Software": None}
        )
        figure(scene, frame, dark=dark).savefig(
            path, format=ending, dpi=width * 96 / WIDTH, metadata=metadata
        )
        return
    from PIL import Image
    from tqdm import tqdm

    moments = [(None, None), *_places(len(scene.frames))]
    pictures = []
    for frame_number, progress in tqdm(moments, desc=path.name, unit="picture", leave=False):
        drawn_figure = figure(scene, frame_number, progress, dark)
        drawn_figure.set_dpi(width * 96 / WIDTH)
        drawn_figure.canvas.draw()
        pixels = np.asarray(drawn_figure.canvas.buffer_rgba())[:, :, :3]  # type: ignore[attr-defined]
        pictures.append(Image.fromarray(pixels).quantize(64))
    times = [POSTER_TIME] + [PICTURE_TIME] * (len(pictures) - 1)
    pictures[0].save(path, save_all=True, append_images=pictures[1:], duration=times, loop=0)


def _places(frames: int) -> Iterator[tuple[int, float]]:
    """Yield `(frame, progress)` for each moving picture of a gif file.

    If there are too many frames, the gif shows only the ends of evenly spaced frames.
    """
    if frames * STEPS <= MOST_PICTURES:
        yield from (
            (frame, (index + 1) / STEPS) for frame in range(frames) for index in range(STEPS)
        )
    else:
        yield from (
            (int(frame), 1.0)
            for frame in np.unique(np.linspace(0, frames - 1, MOST_PICTURES).astype(int))
        )


def _filled(code: Code, dark: bool) -> dict[str, Any]:
    """Return matplotlib's arguments for an area with the colour and the pattern of a code."""
    style = {"facecolor": code.colour(dark), "hatch": HATCH[code.pattern]}
    return {"edgecolor": "#00000055", "linewidth": 0, **style}


def _add(axes: Any, shape: Shape, codes: tuple[Code, ...], dark: bool) -> None:
    """Add a shape to the axes."""
    match shape:
        case Boxes():
            patches = [Rectangle((x, y), w, h) for x, y, w, h in shape.boxes.tolist()]
            axes.add_collection(PatchCollection(patches, **_filled(codes[shape.code], dark)))
        case Outline() if shape.filled:
            axes.add_patch(Polygon(shape.points, **_filled(codes[shape.code], dark)))
        case Outline():
            axes.plot(
                *shape.points.T,
                color=codes[shape.code].colour(dark),
                linewidth=shape.width * POINT,
                zorder=2,
            )
        case Raster():
            _add_raster(axes, shape, codes, dark)
        case Words():
            _add_words(axes, shape, codes, dark)
        case Stroke():
            _add_stroke(axes, shape, dark)


def _add_raster(axes: Any, shape: Raster, codes: tuple[Code, ...], dark: bool) -> None:
    """Add the pixels of an image. A pixel with a code below 0 has the colour of the background."""
    theme = DARK if dark else LIGHT
    codes_present = np.unique(shape.codes)
    colours = ListedColormap(
        [
            theme["paper"] if code < 0 else codes[code].colour(dark)
            for code in codes_present.tolist()
        ]
    )
    extent = (shape.x, shape.x + shape.width, shape.y + shape.height, shape.y)
    pixels = np.searchsorted(codes_present, shape.codes)
    levels = max(1, len(codes_present) - 1)
    axes.imshow(
        pixels,
        cmap=colours,
        vmin=0,
        vmax=levels,
        extent=extent,
        interpolation="nearest",
        aspect="auto",
        zorder=1,
    )
    axes.set_xlim(0, WIDTH)
    axes.set_ylim(max(axes.get_ylim()), min(axes.get_ylim()))


def _add_words(axes: Any, shape: Words, codes: tuple[Code, ...], dark: bool) -> None:
    """Add a text. On a box, the text has an outline in the colour of the box."""
    theme = DARK if dark else LIGHT
    colour = (
        ink_on(codes[shape.ink].colour(dark)) if isinstance(shape.ink, int) else theme[shape.ink]
    )
    anchor = {"start": "left", "middle": "center", "end": "right"}[shape.anchor]
    text = shape.text.replace("$", r"\$")  # For matplotlib, $ is the start of a formula.
    text_artist = axes.text(
        shape.x,
        shape.y,
        text,
        fontsize=shape.size * POINT,
        color=colour,
        ha=anchor,
        va="baseline",
        zorder=4,
    )
    if isinstance(shape.ink, int):
        text_artist.set_path_effects(
            [withStroke(linewidth=3 * POINT, foreground=codes[shape.ink].colour(dark))]
        )


def _add_stroke(axes: Any, shape: Stroke, dark: bool) -> None:
    """Add a line or a curve, with an arrowhead if the shape has one."""
    theme = DARK if dark else LIGHT
    path_codes = (
        [Curve.MOVETO, Curve.LINETO]
        if len(shape.points) == 2
        else [Curve.MOVETO, Curve.CURVE3, Curve.CURVE3]
    )
    curve = Curve(shape.points, path_codes)
    style: dict[str, Any] = {
        "color": theme[shape.role],
        "linewidth": shape.width * POINT,
        "zorder": 3,
    }
    if shape.arrow:
        axes.add_patch(FancyArrowPatch(path=curve, arrowstyle="-|>", mutation_scale=7, **style))
    else:
        axes.add_patch(PathPatch(curve, fill=False, **style))
