"""Draw a frame of a scene as SVG, such as the poster of a live view.

The drawing follows the reader's light or dark setting by itself. Equal scenes give equal bytes.
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

# Each pattern is a path in a square of 6 x 6 units.
STROKES = {
    "/": "M-1 7L7-1",
    ".": "M2.5 3h1",
    "-": "M0 3h6",
    "|": "M3 0v6",
    "x": "M0 0L6 6M6 0L0 6",
}


def svg(scene: Scene, frame: int | None = None) -> str:
    """Return the SVG source of a picture that shows the frame with index `frame`.

    The default is the poster, the frame at which the picture rests; its lanes are complete. The
    picture shows the moment `Still.at` of the frame.
    """
    frame_number = scene.poster if frame is None else frame
    title_height = headline_height(scene)
    title = "".join(
        f'<text class="i" font-weight="bold" x="{_n(line.x)}" y="{_n(line.y)}">'
        f"{escape(line.text, quote=False)}</text>"
        for line in headline(scene)
    )
    shapes = [*paint(scene, frame_number, is_whole=frame is None), *caption(scene, frame_number)]
    shapes = [shape for shape in map(_visible, shapes) if shape is not None]
    codes_used, text_codes = colours_of(shapes)
    patterns = "".join(
        _pattern(code, scene.codes[code])
        for code in sorted(codes_used)
        if scene.codes[code].pattern
    )
    patterns = PATTERN + patterns if patterns else ""
    filled_codes = {shape.code for shape in shapes if isinstance(shape, Outline) and shape.filled}
    arrow_marker = (
        ARROW if any(isinstance(shape, Stroke) and shape.arrow for shape in shapes) else ""
    )
    body_elements = "".join(
        _together(list(part), scene.codes) for _, part in groupby(shapes, _kind)
    )
    height = _n(title_height + scene.height + caption_height(scene))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 {_n(-title_height)} {WIDTH} {height}">'
        f"<title>{escape(scene.title, quote=False)}</title>"
        f"<style>{_style(scene.codes, codes_used, text_codes, filled_codes)}</style>"
        f"<defs>{patterns}{arrow_marker}</defs>"
        f'<rect class="p" y="{_n(-title_height)}" width="100%" height="100%" rx="4"/>'
        f'<g style="font-size:16px">{title}</g>{body_elements}</svg>'
    ).replace(" %", f"{NO_BREAK}%")


NO_BREAK = "\u00a0"  # Separates a number from a percent sign.
STROKE = {"ink": "k", "line": "l", "paper": "z"}  # The CSS classes of lines, by their role.
# The two elements that all patterns share.
PATTERN = (
    '<rect id="g" width="6" height="6"/><pattern id="h" width="6" height="6" '
    'patternUnits="userSpaceOnUse"/>'
)
ARROW = (
    '<marker id="a" viewBox="0 0 6 6" refX="5" refY="3" markerWidth="5" markerHeight="5" '
    'orient="auto"><path class="i" d="M0 0L6 3L0 6z"/></marker>'
)


def _visible(shape: Shape) -> Shape | None:
    """Return a copy of a shape without boxes too small to be seen; None if no box remains."""
    if not isinstance(shape, Boxes):
        return shape
    is_visible = np.round(shape.boxes[:, 2:], 1).min(axis=1) > 0
    return replace(shape, boxes=shape.boxes[is_visible]) if is_visible.any() else None


def _style(
    codes: Sequence[Code], codes_used: set[int], text_codes: set[int], filled_codes: set[int]
) -> str:
    def theme(colours: dict[str, str], dark: bool) -> dict[str, str]:
        rules = {"p{fill": colours["paper"], "i{fill": colours["ink"], "s{fill": colours["soft"]}
        rules |= {f"{name}{{stroke": colours[role] for role, name in STROKE.items()}
        for code in sorted(codes_used):
            colour = codes[code].colour(dark)
            if code in filled_codes or codes[code].pattern:
                rules[f"c{code}{{fill"] = colour
            if code in text_codes:
                rules |= {f"t{code}{{stroke": colour, f"t{code}{{fill": ink_on(colour)}
            if not codes[code].pattern:
                rules[f"b{code}{{stroke"] = colour
        return rules

    def rules_text(rules: dict[str, str], default_rules: dict[str, str]) -> str:
        return "".join(
            f".{selector}:{colour}}}"
            for selector, colour in rules.items()
            if colour != default_rules.get(selector, "#000000")
        )

    light = theme(LIGHT, False)
    patterns = "".join(
        f".b{code}{{stroke:url(#h{code})}}" for code in sorted(codes_used) if codes[code].pattern
    )
    return (
        "g{font:12px system-ui,sans-serif}.f{font-size:11px}path{fill:none}.d{display:none}"
        ".h{stroke:#00000059}.m{text-anchor:middle}.e{text-anchor:end}"
        ".o{paint-order:stroke;stroke-width:3}"
        + patterns
        + rules_text(light, {})
        + f"@media(prefers-color-scheme:dark){{{rules_text(theme(DARK, True), light)}"
        + ".d{display:inline}.w{display:none}}"
    )


def _pattern(number: int, code: Code) -> str:
    width = ' stroke-width="2"' if code.pattern == "." else ""
    stroke = f'<path class="h" d="{STROKES[code.pattern]}"{width}/>'
    return f'<pattern id="h{number}" href="#h"><use href="#g" class="c{number}"/>{stroke}</pattern>'


def _kind(shape: Shape) -> object:
    """Return a key that is equal for shapes that can share an SVG element."""
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
    """Return the SVG elements of consecutive shapes of the same kind and style."""
    sample = shapes[0]
    if isinstance(sample, Boxes):
        # A box is drawn as a thick stroke along its middle, because its outline would take twice as
        # many characters.
        stroke_width = f'stroke-width="{_thick(sample)}"'
        paths = [
            f'<path class="b{box_shape.code}"{dash} d="{_middles(boxes, box_shape.upright)}"/>'
            for box_shape in shapes
            if isinstance(box_shape, Boxes)
            for dash, boxes in dashed(box_shape).items()
        ]
        return (
            f"<g {stroke_width}>{''.join(paths)}</g>"
            if len(paths) > 1
            else paths[0].replace(" d=", f" {stroke_width} d=")
        )
    if isinstance(sample, Stroke) and len(shapes) > 1:
        path_data = _path(*(line.points for line in shapes if isinstance(line, Stroke)))
        css_class = STROKE[sample.role]
        return f'<path class="{css_class}" stroke-width="{_n(sample.width)}" d="{path_data}"/>'
    if isinstance(sample, Outline) and not sample.filled:
        path_data = _path(
            *(outline.points.tolist() for outline in shapes if isinstance(outline, Outline))
        )
        return f'<path class="b{sample.code}" stroke-width="{_n(sample.width)}" d="{path_data}"/>'
    if not isinstance(sample, Words):
        return _shape(sample, codes)
    css_class = {"ink": "i", "soft": "s"}.get(str(sample.ink), f"t{sample.ink}")
    css_class += {"start": "", "middle": " m", "end": " e"}[sample.anchor] + (
        " o" if isinstance(sample.ink, int) else ""
    )
    css_class += " f" if sample.size == 11 else ""
    size_style = "" if sample.size in (11, 12) else f' style="font-size:{_n(sample.size)}px"'
    texts_by_line = groupby(
        (text for text in shapes if isinstance(text, Words)),
        lambda text: (text.y, len(text.text) == 1 or id(text)),
    )
    lines = "".join(_line(list(line)) for _, line in texts_by_line)
    return f'<g class="{css_class}"{size_style}>{lines}</g>'


def _line(words: list[Words]) -> str:
    """Return the SVG element of texts on one line.

    `words` is either a single text or several texts of one character each. The element contains the
    position of each text.
    """
    places = " ".join(_n(word.x) for word in words)
    text = "".join(word.text for word in words)
    return f'<text x="{places}" y="{_n(words[0].y)}">{escape(text, quote=False)}</text>'


def dashed(shape: Boxes) -> dict[str, list[list[float]]]:
    """Return boxes (x, y, width, height), grouped by the value of the attribute `stroke-dasharray`.

    Four or more consecutive boxes with equal lengths and equal distances become one box, which is
    drawn with dashes. All other boxes are in the group "".
    """
    axis = int(shape.upright)
    boxes_by_dash = dict[str, list[list[float]]]()
    boxes = shape.boxes.tolist()
    first_box = 0
    # Box k is evenly spaced if it is as far from box k - 1 as box k - 1 is from box k - 2. It is
    # aligned if it differs from box k - 1 only in its position along the axis.
    differences = np.diff(shape.boxes, axis=0, prepend=np.nan)
    is_even = np.abs(np.diff(differences, axis=0, prepend=np.nan)).max(axis=1) < 0.02
    is_aligned = np.abs(np.delete(differences, axis, axis=1)).max(axis=1) < 0.02
    while first_box < len(boxes):
        end_box = first_box + 1
        while (
            end_box < len(boxes)
            and is_aligned[end_box]
            and (is_even[end_box] or end_box == first_box + 1)
        ):
            end_box += 1
        box = boxes[first_box]
        length = boxes[first_box][2 + axis]
        pitch = (boxes[end_box - 1][axis] - box[axis]) / max(1, end_box - 1 - first_box)
        dash = ""
        if end_box - first_box > 3 and pitch > length:
            dash = f' stroke-dasharray="{round(length, 2):g} {round(pitch - length, 2):g}"'
            box[2 + axis] = pitch * (end_box - 1 - first_box) + length
        else:
            end_box = first_box + 1
        boxes_by_dash.setdefault(dash, []).append(box)
        first_box = end_box
    return boxes_by_dash


def _middles(boxes: list[list[float]], upright: bool) -> str:
    """Return the centre lines of boxes as an SVG path.

    For each line, the shortest notation is chosen: from either end, with absolute or relative
    coordinates.
    """
    path = ""
    pen = (0.0, 0.0)
    stroke = "v" if upright else "h"
    for x, y, width, height in np.round(boxes, 1).tolist():
        (start_x, start_y), length = (
            ((x + width / 2, y), height) if upright else ((x, y + height / 2), width)
        )
        start_x, start_y = round(start_x, 1), round(start_y, 1)
        both_ends = (
            (start_x, start_y),
            (start_x, start_y + length) if upright else (start_x + length, start_y),
        )
        candidates = []
        for (from_x, from_y), end, signed_length in (
            (*both_ends, length),
            (*both_ends[::-1], -length),
        ):
            dx, dy = _n(from_x - pen[0]), _n(from_y - pen[1])
            for move in (f"M{_n(from_x)} {_n(from_y)}", f"m{dx} {dy}".replace(" -", "-")):
                candidates.append((f"{move}{stroke}{_n(signed_length)}", end))
        shortest, pen = min(candidates, key=lambda candidate: len(candidate[0]))
        path += shortest
    return path


def _path(*lines: Sequence[Sequence[float]]) -> str:
    """Return polylines as an SVG path, without a new move if a line begins at the last point."""
    path = ""
    pen = ("", "")
    for line in lines:
        for place, point in enumerate(line):
            x, y = _n(point[0]), _n(point[1])
            if (x, y) == pen:
                continue
            segment = f"V{y}" if x == pen[0] else f"H{x}" if y == pen[1] else f"L{x} {y}"
            path += segment if place else f"M{x} {y}"
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
            style = 'preserveAspectRatio="none" style="image-rendering:pixelated"'
            pngs = (
                (css_class, raster_png(shape.codes, codes, css_class == "d")) for css_class in "wd"
            )
            encoded = (
                (css_class, base64.b64encode(image).decode("ascii")) for css_class, image in pngs
            )
            return "".join(
                f'<image class="{css_class}" {box} {style} '
                f'href="data:image/png;base64,{png_text}"/>'
                for css_class, png_text in encoded
            )
        case Stroke():
            (x, y), *rest = shape.points
            path_data = (
                _path(shape.points)
                if len(rest) == 1
                else f"M{_n(x)} {_n(y)}Q"
                + " ".join(f"{_n(to_x)} {_n(to_y)}" for to_x, to_y in rest)
            )
            role = STROKE[shape.role]
            marker = ' marker-end="url(#a)"' if shape.arrow else ""
            return (
                f'<path class="{role}" stroke-width="{_n(shape.width)}" d="{path_data}"{marker}/>'
            )
        case Boxes() | Words():
            return _together([shape], codes)


def raster_png(pixels: Array, codes: Sequence[Code], dark: bool) -> bytes:
    """Return the bytes of a PNG file of int[rows, columns] codes.

    Code -1 is the background. There may be at most 16 different values, including -1.
    """
    codes_present = np.unique(pixels)
    colours = [
        (DARK if dark else LIGHT)["paper"] if code < 0 else codes[code].colour(dark)
        for code in codes_present.tolist()
    ]
    return indexed_png(np.searchsorted(codes_present, pixels), colours)


def _n(value: float) -> str:
    """Return a length as text with at most one digit after the point."""
    text = f"{value:.1f}".replace("-0.0", "0.0")
    return text[:-2] if text.endswith(".0") else text
