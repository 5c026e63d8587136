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

from ipu_teach.show.paint import caption, caption_height, headline, headline_height, paint
from ipu_teach.show.palette import DARK, LIGHT, Code, ink_on
from ipu_teach.show.png import indexed_png
from ipu_teach.show.scene import WIDTH, Scene
from ipu_teach.show.shapes import Boxes, Outline, Raster, Shape, Stroke, Words, colours_of
from ipu_teach.types import Array

# The shapes of a pattern in a square of 6 by 6.
STROKES = {
    "/": "M-1 7L7-1",
    ".": "M2.5 3h1",
    "-": "M0 3h6",
    "|": "M3 0v6",
    "x": "M0 0L6 6M6 0L0 6",
}


def svg(scene: Scene, frame: int | None = None) -> str:
    """Return the SVG source of the end of a frame; by default, of the frame at which the picture
    rests, with all lanes of its superstep."""
    chosen = scene.poster if frame is None else frame
    above = headline_height(scene)
    title = "".join(
        f'<text class="i" font-weight="bold" x="{_n(w.x)}" y="{_n(w.y)}">{escape(w.text)}</text>'
        for w in headline(scene)
    )
    shapes = [*paint(scene, chosen, is_whole=frame is None), *caption(scene, chosen)]
    shapes = [shape for shape in map(_visible, shapes) if shape is not None]
    used, inks = colours_of(shapes)
    patterns = "".join(_pattern(i, scene.codes[i]) for i in sorted(used) if scene.codes[i].pattern)
    patterns = PATTERN + patterns if patterns else ""
    areas = {shape.code for shape in shapes if isinstance(shape, Outline) and shape.filled}
    arrow = ARROW if any(isinstance(shape, Stroke) and shape.arrow for shape in shapes) else ""
    body = "".join(_together(list(part), scene.codes) for _, part in groupby(shapes, _kind))
    height = _n(above + scene.height + caption_height(scene))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 {_n(-above)} {WIDTH} {height}">'
        f"<title>{escape(scene.title)}</title>"
        f"<style>{_style(scene.codes, used, inks, areas)}</style>"
        f"<defs>{patterns}{arrow}</defs>"
        f'<rect class="p" y="{_n(-above)}" width="100%" height="100%" rx="4"/>'
        f'<g style="font-size:16px">{title}</g>{body}</svg>'
    ).replace(" %", f"{NO_BREAK}%")


NO_BREAK = "\u00a0"  # before a percent sign
STROKE = {"ink": "k", "line": "l", "paper": "z"}  # classes of lines
# What all patterns share.
PATTERN = (
    '<rect id="g" width="6" height="6"/><pattern id="h" width="6" height="6" '
    'patternUnits="userSpaceOnUse"/>'
)
ARROW = (
    '<marker id="a" viewBox="0 0 6 6" refX="5" refY="3" markerWidth="5" markerHeight="5" '
    'orient="auto"><path class="i" d="M0 0L6 3L0 6z"/></marker>'
)


def _visible(shape: Shape) -> Shape | None:
    """Return a shape without its parts that are too small to be seen, or None if nothing is
    left."""
    if not isinstance(shape, Boxes):
        return shape
    is_visible = np.round(shape.boxes[:, 2:], 1).min(axis=1) > 0
    return replace(shape, boxes=shape.boxes[is_visible]) if is_visible.any() else None


def _style(codes: Sequence[Code], used: set[int], inks: set[int], areas: set[int]) -> str:
    def theme(ink: dict[str, str], dark: bool) -> dict[str, str]:
        rules = {"p{fill": ink["paper"], "i{fill": ink["ink"], "s{fill": ink["soft"]}
        rules |= {f"{name}{{stroke": ink[role] for role, name in STROKE.items()}
        for i in sorted(used):
            colour = codes[i].colour(dark)
            if i in areas or codes[i].pattern:
                rules[f"c{i}{{fill"] = colour
            if i in inks:
                rules |= {f"t{i}{{stroke": colour, f"t{i}{{fill": ink_on(colour)}
            if not codes[i].pattern:
                rules[f"b{i}{{stroke"] = colour
        return rules

    def told(rules: dict[str, str], known: dict[str, str]) -> str:
        return "".join(f".{k}:{v}}}" for k, v in rules.items() if v != known.get(k, "#000000"))

    light = theme(LIGHT, False)
    patterns = "".join(f".b{i}{{stroke:url(#h{i})}}" for i in sorted(used) if codes[i].pattern)
    return (
        "g{font:12px system-ui,sans-serif}.f{font-size:11px}path{fill:none}.d{display:none}"
        ".h{stroke:#00000059}.m{text-anchor:middle}.e{text-anchor:end}.o{paint-order:stroke;stroke-width:3}"
        + patterns
        + told(light, {})
        + f"@media(prefers-color-scheme:dark){{{told(theme(DARK, True), light)}"
        + ".d{display:inline}.w{display:none}}"
    )


def _pattern(number: int, code: Code) -> str:
    width = ' stroke-width="2"' if code.pattern == "." else ""
    stroke = f'<path class="h" d="{STROKES[code.pattern]}"{width}/>'
    return f'<pattern id="h{number}" href="#h"><use href="#g" class="c{number}"/>{stroke}</pattern>'


def _kind(shape: Shape) -> object:
    """Return a key that is equal for shapes that can share an element."""
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
    """Return the elements of neighbouring shapes of one kind, with their style written once."""
    first = shapes[0]
    if isinstance(first, Boxes):
        # A box is a thick stroke along its middle, which takes half as many letters as its outline.
        width = f'stroke-width="{_thick(first)}"'
        paths = [
            f'<path class="b{b.code}"{dash} d="{_middles(boxes, b.upright)}"/>'
            for b in shapes
            if isinstance(b, Boxes)
            for dash, boxes in dashed(b).items()
        ]
        return (
            f"<g {width}>{''.join(paths)}</g>"
            if len(paths) > 1
            else paths[0].replace(" d=", f" {width} d=")
        )
    if isinstance(first, Stroke) and len(shapes) > 1:
        d = _path(*(line.points for line in shapes if isinstance(line, Stroke)))
        return f'<path class="{STROKE[first.role]}" stroke-width="{_n(first.width)}" d="{d}"/>'
    if isinstance(first, Outline) and not first.filled:
        d = _path(*(outline.points.tolist() for outline in shapes if isinstance(outline, Outline)))
        return f'<path class="b{first.code}" stroke-width="{_n(first.width)}" d="{d}"/>'
    if not isinstance(first, Words):
        return _shape(first, codes)
    role = {"ink": "i", "soft": "s"}.get(str(first.ink), f"t{first.ink}")
    role += {"start": "", "middle": " m", "end": " e"}[first.anchor] + (
        " o" if isinstance(first.ink, int) else ""
    )
    role += " f" if first.size == 11 else ""
    size = "" if first.size in (11, 12) else f' style="font-size:{_n(first.size)}px"'
    words = groupby(
        (w for w in shapes if isinstance(w, Words)), lambda w: (w.y, len(w.text) == 1 or id(w))
    )
    return f'<g class="{role}"{size}>{"".join(_line(list(line)) for _, line in words)}</g>'


def _line(words: list[Words]) -> str:
    """Return the texts on a line. Several of one character are one element, which has the place
    of each character."""
    places = " ".join(_n(w.x) for w in words)
    text = "".join(w.text for w in words)
    return f'<text x="{places}" y="{_n(words[0].y)}">{escape(text)}</text>'


def dashed(shape: Boxes) -> dict[str, list[list[float]]]:
    """Return boxes, grouped by the dashes with which they are drawn: four or more of equal
    length and equally far apart in a row are one."""
    along = int(shape.upright)
    values = dict[str, list[list[float]]]()
    boxes = shape.boxes.tolist()
    first = 0
    # for each box its distance from the last, and its other numbers
    steps = np.diff(shape.boxes, axis=0, prepend=np.nan)
    again = np.abs(np.diff(steps, axis=0, prepend=np.nan)).max(axis=1) < 0.02
    still = np.abs(np.delete(steps, along, axis=1)).max(axis=1) < 0.02
    while first < len(boxes):
        last = first + 1
        while last < len(boxes) and still[last] and (again[last] or last == first + 1):
            last += 1
        box = boxes[first]
        length = boxes[first][2 + along]
        pitch = (boxes[last - 1][along] - box[along]) / max(1, last - 1 - first)
        dash = ""
        if last - first > 3 and pitch > length:
            dash = f' stroke-dasharray="{round(length, 2):g} {round(pitch - length, 2):g}"'
            box[2 + along] = pitch * (last - 1 - first) + length
        else:
            last = first + 1
        values.setdefault(dash, []).append(box)
        first = last
    return values


def _middles(boxes: list[list[float]], upright: bool) -> str:
    """Return the middles of boxes as a path. Each begins at the end that is nearer, and is
    written in absolute or relative numbers, whichever is shorter."""
    path = ""
    pen = (0.0, 0.0)
    stroke = "v" if upright else "h"
    for x, y, w, h in np.round(boxes, 1).tolist():
        (u, v), length = ((x + w / 2, y), h) if upright else ((x, y + h / 2), w)
        u, v = round(u, 1), round(v, 1)
        ends = (u, v), (u, v + length) if upright else (u + length, v)
        ways = []
        for (a, b), end, along in ((*ends, length), (*ends[::-1], -length)):
            across, down = _n(a - pen[0]), _n(b - pen[1])
            for move in (f"M{_n(a)} {_n(b)}", f"m{across} {down}".replace(" -", "-")):
                ways.append((f"{move}{stroke}{_n(along)}", end))
        way, pen = min(ways, key=lambda outline: len(outline[0]))
        path += way
    return path


def _path(*lines: Sequence[Sequence[float]]) -> str:
    """Return straight lines as a path. A line that begins where the previous one ends continues
    it."""
    path = ""
    pen = ("", "")
    for line in lines:
        for place, point in enumerate(line):
            x, y = _n(point[0]), _n(point[1])
            if (x, y) == pen:
                continue
            way = f"V{y}" if x == pen[0] else f"H{x}" if y == pen[1] else f"L{x} {y}"
            path += way if place else f"M{x} {y}"
            pen = x, y
    return path


def _shape(shape: Shape, codes: Sequence[Code]) -> str:
    match shape:
        case Outline():
            pattern = codes[shape.code].pattern
            paint = f'style="fill:url(#h{shape.code})"' if pattern else f'class="c{shape.code}"'
            return f'<path {paint} d="{_path(shape.points.tolist())}z"/>'
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
                _path(shape.points)
                if len(rest) == 1
                else f"M{_n(x)} {_n(y)}Q" + " ".join(f"{_n(a)} {_n(b)}" for a, b in rest)
            )
            role = STROKE[shape.role]
            head = ' marker-end="url(#a)"' if shape.arrow else ""
            return f'<path class="{role}" stroke-width="{_n(shape.width)}" d="{d}"{head}/>'
        case Boxes() | Words():
            return _together([shape], codes)


def raster_png(pixels: Array, codes: Sequence[Code], dark: bool) -> bytes:
    """Return a raster of codes as a PNG file. Code -1 is paper; at most 15 codes may occur."""
    values = np.unique(pixels)
    colours = [
        (DARK if dark else LIGHT)["paper"] if c < 0 else codes[c].colour(dark)
        for c in values.tolist()
    ]
    return indexed_png(np.searchsorted(values, pixels), colours)


def _n(value: float) -> str:
    """Return a length with at most one digit after the point."""
    text = f"{value:.1f}".replace("-0.0", "0.0")
    return text[:-2] if text.endswith(".0") else text
