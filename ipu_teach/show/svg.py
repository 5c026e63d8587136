"""A frame of a scene as an SVG file: the poster of a live view, and stills for documents.

It follows the reader's light or dark setting by itself. Equal scenes give equal bytes.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from itertools import groupby

import numpy as np

from ipu_teach.show.paint import caption, caption_height, paint
from ipu_teach.show.palette import DARK, LIGHT, Code, ink_on
from ipu_teach.show.png import indexed_png
from ipu_teach.show.scene import WIDTH, Scene
from ipu_teach.show.shapes import Boxes, Outline, Raster, Shape, Stroke, Words, colours_of
from ipu_teach.types import Array

# What a pattern draws in a square of 6 by 6.
STROKES = {
    "/": "M-1 7L7-1",
    ".": "M2.5 3h1",
    "-": "M0 3h6",
    "|": "M3 0v6",
    "x": "M0 0L6 6M6 0L0 6",
}


def svg(scene: Scene, frame: int | None = None) -> str:
    """The SVG source of a frame at its end. Left out, it is the poster: the chosen frame, with all
    of its superstep's lanes."""
    chosen = scene.poster if frame is None else frame
    shapes = [*paint(scene, chosen, whole=frame is None), *caption(scene, chosen)]
    shapes = [shape for shape in map(_visible, shapes) if shape is not None]
    used, inks = colours_of(shapes)
    patterns = "".join(_pattern(i, scene.codes[i]) for i in sorted(used) if scene.codes[i].pattern)
    patterns = PATTERN + patterns if patterns else ""
    areas = {shape.code for shape in shapes if isinstance(shape, Outline) and shape.filled}
    arrow = ARROW if any(isinstance(shape, Stroke) and shape.arrow for shape in shapes) else ""
    body = "".join(_together(list(part), scene.codes) for _, part in groupby(shapes, _kind))
    height = _n(scene.height + caption_height(scene))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 '
        f'{WIDTH} {height}">'
        f"<title>{escape(scene.title)}</title>"
        f"<style>{_style(scene.codes, used, inks, areas)}</style>"
        f"<defs>{patterns}{arrow}</defs>"
        f'<rect class="p" width="100%" height="100%" rx="4"/>{body}</svg>'
    )


STROKE = {"ink": "k", "line": "l", "paper": "z"}  # classes of lines
# What all patterns share.
PATTERN = '<pattern id="h" width="6" height="6" patternUnits="userSpaceOnUse"/>'
ARROW = (
    '<marker id="a" viewBox="0 0 6 6" refX="5" refY="3" markerWidth="5" markerHeight="5" '
    'orient="auto"><path class="i" d="M0 0L6 3L0 6z"/></marker>'
)


def _visible(shape: Shape) -> Shape | None:
    """A shape without what is too small to be seen, or None if that is all of it."""
    if not isinstance(shape, Boxes):
        return shape
    seen = np.round(shape.boxes[:, 2:], 1).min(axis=1) > 0
    return replace(shape, boxes=shape.boxes[seen]) if seen.any() else None


def _style(codes: Sequence[Code], used: set[int], inks: set[int], areas: set[int]) -> str:
    def theme(ink: dict[str, str], dark: bool) -> str:
        rules = f".p{{fill:{ink['paper']}}}.i,path.i{{fill:{ink['ink']}}}.s{{fill:{ink['soft']}}}"
        rules += "".join(f".{name}{{stroke:{ink[role]}}}" for role, name in STROKE.items())
        for i in sorted(used):
            colour = codes[i].colour(dark)
            if i in areas or codes[i].pattern:
                rules += f"path.c{i}{{fill:{colour}}}"
            if i in inks:
                rules += f".t{i}{{fill:{ink_on(colour)};stroke:{colour}}}"
            if not codes[i].pattern:
                rules += f".b{i}{{stroke:{colour}}}"
        return rules

    patterns = "".join(f".b{i}{{stroke:url(#h{i})}}" for i in sorted(used) if codes[i].pattern)
    return (
        "g{font:12px system-ui,sans-serif}path{fill:none}.d{display:none}.h{stroke:#00000059}"
        ".m{text-anchor:middle}.e{text-anchor:end}.o{paint-order:stroke;stroke-width:3}"
        + patterns
        + theme(LIGHT, False)
        + f"@media(prefers-color-scheme:dark){{{theme(DARK, True)}"
        + ".d{display:inline}.w{display:none}}"
    )


def _pattern(number: int, code: Code) -> str:
    width = ' stroke-width="2"' if code.pattern == "." else ""
    ground = f'<path class="c{number}" d="M0 0h6v6h-6z"/>'
    stroke = f'<path class="h" d="{STROKES[code.pattern]}"{width}/>'
    return f'<pattern id="h{number}" href="#h">{ground}{stroke}</pattern>'


def _kind(shape: Shape) -> object:
    """Equal for shapes that can share an element."""
    match shape:
        case Words():
            return shape.ink, shape.anchor, shape.size
        case Boxes():
            return "boxes", shape.upright, _thick(shape)
        case Stroke():
            return shape.role, shape.width if len(shape.points) == 2 and not shape.arrow else id(
                shape
            )
        case Outline() if not shape.filled:
            return "outline", shape.code, shape.width
    return id(shape)


def _thick(shape: Boxes) -> str:
    return _n(shape.boxes[0, 2 if shape.upright else 3])


def _together(shapes: list[Shape], codes: Sequence[Code]) -> str:
    """Neighbours of one kind say their style once."""
    first = shapes[0]
    if isinstance(first, Boxes):
        # A box is a thick stroke along its middle, which takes half as many letters as its outline.
        width = f'stroke-width="{_thick(first)}"'
        if len(shapes) == 1:
            return f'<path class="b{first.code}" {width} d="{_boxes(first)}"/>'
        paths = "".join(
            f'<path class="b{b.code}" d="{_boxes(b)}"/>' for b in shapes if isinstance(b, Boxes)
        )
        return f"<g {width}>{paths}</g>"
    if isinstance(first, Stroke) and len(shapes) > 1:
        d = "".join(_straight(line) for line in shapes if isinstance(line, Stroke))
        return f'<path class="{STROKE[first.role]}" stroke-width="{_n(first.width)}" d="{d}"/>'
    if isinstance(first, Outline) and not first.filled:
        d = "".join(_path(one) for one in shapes if isinstance(one, Outline))
        return f'<path class="b{first.code}" stroke-width="{_n(first.width)}" d="{d}"/>'
    if not isinstance(first, Words):
        return _shape(first, codes)
    role = {"ink": "i", "soft": "s"}.get(str(first.ink), f"t{first.ink}")
    role += {"start": "", "middle": " m", "end": " e"}[first.anchor] + (
        " o" if isinstance(first.ink, int) else ""
    )
    size = "" if first.size == 12 else f' style="font-size:{_n(first.size)}px"'
    words = groupby(
        (w for w in shapes if isinstance(w, Words)), lambda w: (w.y, len(w.text) == 1 or id(w))
    )
    return f'<g class="{role}"{size}>{"".join(_line(list(line)) for _, line in words)}</g>'


def _line(words: list[Words]) -> str:
    """Words on a line: several of one character are one element, which says where each character
    stands."""
    places, text = " ".join(_n(w.x) for w in words), "".join(w.text for w in words)
    return f'<text x="{places}" y="{_n(words[0].y)}">{escape(text)}</text>'


def _boxes(shape: Boxes) -> str:
    """The middles of boxes as a path, each from that end, and said from there or from the last,
    that is shorter."""
    path, pen, stroke = "", (0.0, 0.0), "v" if shape.upright else "h"
    for x, y, w, h in np.round(shape.boxes, 1).tolist():
        (u, v), length = ((x + w / 2, y), h) if shape.upright else ((x, y + h / 2), w)
        u, v = round(u, 1), round(v, 1)
        ends = (u, v), (u, v + length) if shape.upright else (u + length, v)
        ways = []
        for (a, b), end, along in ((*ends, length), (*ends[::-1], -length)):
            across, down = _n(a - pen[0]), _n(b - pen[1])
            for move in (f"M{_n(a)} {_n(b)}", f"m{across} {down}".replace(" -", "-")):
                ways.append((f"{move}{stroke}{_n(along)}", end))
        way, pen = min(ways, key=lambda one: len(one[0]))
        path += way
    return path


def _path(shape: Outline) -> str:
    return "M" + "L".join(f"{_n(x)} {_n(y)}" for x, y in shape.points.tolist())


def _straight(line: Stroke) -> str:
    (x, y), (to_x, to_y) = line.points
    return f"M{_n(x)} {_n(y)}" + (
        f"H{_n(to_x)}" if _n(y) == _n(to_y) else f"L{_n(to_x)} {_n(to_y)}"
    )


def _shape(shape: Shape, codes: Sequence[Code]) -> str:
    match shape:
        case Outline():
            pattern = codes[shape.code].pattern
            paint = f'style="fill:url(#h{shape.code})"' if pattern else f'class="c{shape.code}"'
            return f'<path {paint} d="{_path(shape)}z"/>'
        case Raster():
            box = (
                f'x="{_n(shape.x)}" y="{_n(shape.y)}" width="{_n(shape.width)}" '
                f'height="{_n(shape.height)}"'
            )
            keep = 'preserveAspectRatio="none" style="image-rendering:pixelated"'
            images = ((name, raster_png(shape.codes, codes, name == "d")) for name in "wd")
            data = ((name, base64.b64encode(image).decode("ascii")) for name, image in images)
            return "".join(
                f'<image class="{name}" {box} {keep} href="data:image/png;base64,{d}"/>'
                for name, d in data
            )
        case Stroke():
            (x, y), *rest = shape.points
            d = (
                _straight(shape)
                if len(rest) == 1
                else f"M{_n(x)} {_n(y)}Q" + " ".join(f"{_n(a)} {_n(b)}" for a, b in rest)
            )
            role, head = STROKE[shape.role], ' marker-end="url(#a)"' if shape.arrow else ""
            return f'<path class="{role}" stroke-width="{_n(shape.width)}" d="{d}"{head}/>'
        case Boxes() | Words():
            return _together([shape], codes)


def raster_png(pixels: Array, codes: Sequence[Code], dark: bool) -> bytes:
    """A raster of codes as PNG; -1 is paper. At most 15 codes may occur."""
    found = np.unique(pixels)
    colours = [
        (DARK if dark else LIGHT)["paper"] if c < 0 else codes[c].colour(dark)
        for c in found.tolist()
    ]
    return indexed_png(np.searchsorted(found, pixels), colours)


def _n(value: float) -> str:
    """A length with at most one digit after the point."""
    text = f"{value:.1f}".replace("-0.0", "0.0")
    return text[:-2] if text.endswith(".0") else text
