"""The view `recompute`: the live inputs of a chain and their cost, for several choices.

On the left are the steps of the schedule, with a lane for the input of each layer. On the right is
a dot for each choice: further down means less memory, further left means faster. A line joins the
choices that no other choice beats in both.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import pairwise

import numpy as np

from ipu_teach.errors import InvalidOptionError, counted, shown
from ipu_teach.report import Report
from ipu_teach.schedules import FORWARD, RECOMPUTE, Step, recompute as schedule
from ipu_teach.show import palette
from ipu_teach.show.palette import Code
from ipu_teach.show.panels import Panels, painted
from ipu_teach.show.report_facts import checked
from ipu_teach.show.scene import Still, label
from ipu_teach.show.shapes import LETTER, Boxes, Shape, Stroke, Words, rectangles
from ipu_teach.show.view import View
from ipu_teach.types import Array

KEPT, BRIEF, AGAIN, CHOSEN, BEST, BEATEN = range(6)
CODES = (
    palette.FIRST.lettered("K", "kept for its backward"),
    palette.STEADY.lettered("N", "until the next layer has it"),
    palette.COMPUTE.lettered("R", "computed again"),
    palette.CHOSEN.lettered("!", "this choice"),
    Code("no other is smaller and quicker", "B", "#009e73", "#1cb288", pattern="."),
    palette.GAPS.lettered("O", "another is smaller and quicker"),
)
MOST = 64  # choices
WIDE = 280.0
HIGH = 180.0
UNDER = 32.0
LEFT = 40.0
RIGHT = 414.0


def recompute(
    layers: int,
    kept: Mapping[str, Collection[int]],
    reports: Mapping[str, Report] | None = None,
) -> View:
    """How much memory does recomputation save, and what does it cost?

    The view shows what is alive when in a chain of `layers` layers, and what that costs, for
    several choices of the layers whose inputs are `kept`, by name, as `schedules.recompute` takes
    them. With `reports` by the same names, costs are the bytes of the fullest tile and the modelled
    cycles of these runs; else the maximum number of live inputs, and the number of recomputed
    layers.

    :raises InvalidOptionError: if `kept` does not name 1 to 64 choices, or the names of `reports`
        are others.
    """
    if not isinstance(kept, Mapping) or not kept or len(kept) > MOST:
        raise InvalidOptionError(f"""show.recompute() was given {shown(kept)} as its choices.
            next:  name one to {MOST} of them: {{"all": range(8), "every 2nd": range(0, 8, 2)}}.""")
    if reports is not None and (not isinstance(reports, Mapping) or reports.keys() != kept.keys()):
        raise InvalidOptionError(f"""show.recompute() was given reports whose names are not those
            of its choices.
            next:  give one for each of {", ".join(map(repr, kept))}, by these names.""")
    plans = [schedule(layers, keep) for keep in kept.values()]
    lives = [alive(layers, plan) for plan in plans]
    ends = [np.array(live)[:, 1:3].T for live in lives]
    peaks_alive = [
        int(np.cumsum(np.bincount(a, minlength=b.max() + 1) - np.bincount(b)).max())
        for a, b in ends
    ]
    again = [sum(kind == RECOMPUTE for kind, _ in plan) for plan in plans]
    runs = [] if reports is None else [checked(reports[name], "recompute") for name in kept]
    peaks = np.array([int(r.memory.held_per_tile.max()) for r in runs] or peaks_alive)
    costs = np.array([r.total_cycles for r in runs] or again)
    limit = min((r.target.bytes_per_tile for r in runs), default=0)
    names = [label(name, 24) for name in kept]
    base = peaks_alive.index(max(peaks_alive))
    panels = Panels()
    pitch = HIGH / layers
    rows = rectangles(0, np.arange(layers) * pitch, WIDE, pitch * 0.9)
    pictures = [_triangle(live, len(p), layers) for live, p in zip(lives, plans, strict=True)]
    say = "the input of layer {label}"
    heading = "inputs that are alive, step by step"
    numbers = map(str, range(layers))
    inputs = painted(
        "alive",
        heading,
        WIDE,
        HIGH + UNDER,
        pictures=pictures,
        places=rows,
        labels=numbers,
        say=say,
    )
    x, up = (0.06 + 0.88 * (v - v.min()) / max(1, int(np.ptp(v))) for v in (costs, peaks))
    x = WIDE * x
    y = HIGH * (1 - up)
    beaten = [
        bool(((costs <= c) & (peaks <= p) & ((costs < c) | (peaks < p))).any())
        for c, p in zip(costs, peaks, strict=True)
    ]
    title_text = (
        ("bytes of the fullest tile", "modelled cycles")
        if runs
        else ("inputs alive at most", "layers computed again")
    )
    places = rectangles(x - 6, y - 6, 12.0, 12.0)
    dots = np.stack((x, y, costs, peaks))
    pictures = [_dots(dots, beaten, names, i, unit=title_text[1]) for i in range(len(names))]
    say = f"{{label}}: {{peak}} {title_text[0]}, {{cost}} {title_text[1]}"
    heading = " over ".join(title_text)
    values = {"peak": peaks, "cost": costs}
    choices = painted(
        "choices",
        heading,
        WIDE,
        HIGH + UNDER,
        pictures=pictures,
        places=places,
        labels=names,
        say=say,
        values=values,
    )
    panels.put(inputs, left=LEFT)
    panels.put(choices, left=RIGHT)
    texts = [
        f"at most {counted(peaks_alive[i], 'input')} of {layers} alive, "
        f"{counted(again[i], 'layer')} computed again"
        for i in range(len(names))
    ]
    for i in range(len(runs)):
        texts[i] += f"; {peaks[i]:,} bytes on the fullest tile, {costs[i]:,} modelled cycles"
        ratios = (100 * (of[i] - of[base]) / of[base] for of in (peaks, costs))
        texts[i] += (
            f" ({', '.join(f'{r:+.1f} %' for r in ratios)} of {names[base]})" if i != base else ""
        )
    stills = [
        Still(name, note, CHOSEN, 0, first=True, pictures={"alive": i, "choices": i})
        for i, (name, note) in enumerate(zip(names, texts, strict=True))
    ]
    cheapest = int(np.lexsort((costs, peaks))[0])
    cells = [
        (name, f"{len({0, *keep})}", f"{peaks_alive[i]}", f"{again[i]}")
        + ((f"{peaks[i]:,}", f"{costs[i]:,}", "yes" if peaks[i] <= limit else "no") if runs else ())
        for i, (name, keep) in enumerate(zip(names, kept.values(), strict=True))
    ]
    least = f"keeps the fewest inputs alive: {peaks_alive[cheapest]} of {layers}"
    if runs:
        least = f"needs the fewest bytes on the fullest tile: {peaks[cheapest]:,}"
    heads = ("choice", "inputs kept", "alive at most", "computed again")
    return View(
        panels.scene(
            "recompute",
            f"{names[cheapest][:1].upper()}{names[cheapest][1:]} {least}",
            f"Of {counted(len(names), 'choice')} the smallest is {names[cheapest]}: "
            f"{texts[cheapest]}.",
            foot=12,
            codes=CODES,
            stills=stills,
            poster=cheapest,
            group="choice",
            table=(heads + (*title_text, "fits") * bool(runs), cells),
        )
    )


def alive(layers: int, plan: Collection[Step]) -> list[tuple[int, int, int, int]]:
    """Return (layer, begin, end, code) for each input of a layer, in half steps of the plan.

    The result of a step exists from the middle of the step on, and its last operand until the
    step's end.
    """
    recomputed = {layer + 1 for kind, layer in plan if kind == RECOMPUTE}
    begin_of = {0: (0, KEPT)}
    alive_spans = list[tuple[int, int, int, int]]()

    def end_of_life(layer: int, time: int) -> None:
        alive_spans.append((layer, begin_of[layer][0], time, begin_of[layer][1]))

    for step, (kind, layer) in enumerate(plan):
        if kind in (FORWARD, RECOMPUTE) and layer + 1 < layers:
            code = BRIEF if layer + 1 in recomputed else KEPT
            begin_of[layer + 1] = 2 * step + 1, code if kind == FORWARD else AGAIN
        if kind not in (FORWARD, RECOMPUTE) or kind == FORWARD and layer in recomputed:
            end_of_life(layer, 2 * step + 2)
    return alive_spans


def _triangle(live: list[tuple[int, int, int, int]], steps: int, layers: int) -> tuple[Shape, ...]:
    """Return the lanes of the inputs that are alive, step by step."""
    wide = WIDE / (2 * steps)
    pitch = HIGH / layers
    shapes: list[Shape] = []
    for code in (KEPT, BRIEF, AGAIN):
        boxes = [
            (a * wide, i * pitch, (b - a) * wide, pitch * 0.9) for i, a, b, c in live if c == code
        ]
        shapes += [Boxes(code, np.array(boxes))] * bool(boxes)
    for i in (0, layers - 1):
        shapes.append(Words(-4, (i + 0.7) * pitch, f"{i}", 11, anchor="end", ink="soft"))
    return (*shapes, Words(WIDE, HIGH + 14, counted(steps, "step"), 11, anchor="end", ink="soft"))


def _dots(
    dots: Array, beaten: list[bool], names: list[str], chosen: int, unit: str
) -> tuple[Shape, ...]:
    """Return a dot for each choice, and a line through the choices that are not `beaten`.

    A choice is beaten if another one is not worse in memory and in cost, and better in one of
    them. `dots` is [x, y, cost, peak] of each choice.
    """
    x, y, costs, peaks = dots
    bottom = ((0.0, HIGH), (WIDE, HIGH))
    left_side = ((0.0, 0.0), (0.0, HIGH))
    shapes: list[Shape] = [Stroke(bottom, 1, "line"), Stroke(left_side, 1, "line")]
    front = [(float(x[i]), float(y[i])) for i in np.argsort(x) if not beaten[i]]
    shapes += [Stroke(ends, 1.5) for ends in pairwise(front)]
    for i in sorted(range(len(names)), key=lambda i: (i == chosen, not beaten[i])):
        code = CHOSEN if i == chosen else BEATEN if beaten[i] else BEST
        shapes.append(Boxes(code, rectangles(x[i] - 5, y[i] - 5, 10.0, 10.0)))
    at = (float(x[chosen]), float(y[chosen]) - 10)
    end = "end" if x[chosen] > WIDE / 2 else "start"
    text_width = LETTER * len(names[chosen]) * (-1 if end == "end" else 1)
    # the line through the best choices does not strike the name through
    shapes.append(Stroke(((at[0], at[1] - 4), (at[0] + text_width, at[1] - 4)), 13, "paper"))
    shapes.append(Words(*at, names[chosen], 11, end))
    for choice in (int(np.argmin(x)), int(np.argmax(x))):
        where = float(x[choice]), HIGH + 14
        shapes.append(Words(*where, f"{costs[choice]:,.0f}", 11, "middle", "soft"))
    for choice in (int(np.argmin(y)), int(np.argmax(y))):
        shapes.append(
            Words(-5, float(y[choice]) + 4, f"{peaks[choice]:,.0f}", 11, anchor="end", ink="soft")
        )
    return (*shapes, Words(WIDE, HIGH + 28, unit, 11, anchor="end", ink="soft"))
