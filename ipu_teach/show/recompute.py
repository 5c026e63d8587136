"""The view `recompute`: which layers should keep their inputs for the backward pass?

The view compares several choices. A choice says which layers of a chain keep their inputs. On the
left are the steps of the schedule, with a lane for the input of each layer. On the right is a dot
for each choice: a lower dot means less memory, and a dot further left means less time. A line joins
the best choices: no other choice is at least as good in both memory and time and better in one of
them.
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
from ipu_teach.show.scene import Painted, Scene, Still, label
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
MOST = 64  # The maximum number of choices that are shown.
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

    A chain of `layers` layers keeps the inputs of some layers for the backward pass, and recomputes
    the others. `kept` maps the name of each choice to the layers whose inputs are kept, as for
    `schedules.recompute`. The view shows, for each choice, which inputs are alive in each step, and
    the cost.

    `reports` maps the same names to the reports of runs. With reports, the costs are the bytes of
    the fullest tile and the modelled cycles. Without reports, the costs are the maximum number of
    live inputs and the number of recomputed layers.

    :raises InvalidOptionError: if `kept` does not contain 1 to 64 choices, or if `layers` or a
        choice is invalid for `schedules.recompute`. It is also raised if `reports` has other names,
        or something other than the report of a run.
    """
    if not isinstance(kept, Mapping) or not kept or len(kept) > MOST:
        raise InvalidOptionError(f"""show.recompute() was given kept={shown(kept)}, which is not
            a dict of one to {MOST} choices.
            next:  give the layers of each choice by its name: {{"all": range(8), "every 2nd":
            range(0, 8, 2)}}.""")
    if reports is not None and (not isinstance(reports, Mapping) or reports.keys() != kept.keys()):
        names = ", ".join(map(repr, kept))
        raise InvalidOptionError(f"""show.recompute() was given reports whose names differ from
            those of the choices in kept=.
            next:  give a dict with a report for each of these names: {names}.""")
    return View(_scene(_Choices(layers, kept, reports)))


class _Choices:
    """Several choices of which layers keep their inputs, and the cost of each choice.

    Attributes:
        names: the name of each choice.
        kept: for each choice, the layers whose inputs are kept.
        plans: for each choice, the steps of the schedule.
        lives: for each choice, the result of `alive`.
        peaks_alive: for each choice, the maximum number of live inputs.
        again: for each choice, the number of recomputed layers.
        runs: the reports, or [] if there are none.
        peaks, costs: int[choices]: the memory and the time of each choice. With reports, these are
            the bytes of the fullest tile and the modelled cycles. Without reports, they are
            `peaks_alive` and `again`.
        limit: the bytes of a tile's memory, or 0 without reports.
    """

    def __init__(
        self,
        layers: int,
        kept: Mapping[str, Collection[int]],
        reports: Mapping[str, Report] | None,
    ) -> None:
        self.layers = layers
        self.kept = list(kept.values())
        self.plans = [schedule(layers, keep) for keep in self.kept]
        self.lives = [alive(layers, plan) for plan in self.plans]
        ends = [np.array(live)[:, 1:3].T for live in self.lives]
        self.peaks_alive = [
            int(np.cumsum(np.bincount(a, minlength=b.max() + 1) - np.bincount(b)).max())
            for a, b in ends
        ]
        self.again = [sum(kind == RECOMPUTE for kind, _ in plan) for plan in self.plans]
        self.runs = [] if reports is None else [checked(reports[n], "recompute") for n in kept]
        fullest = [int(r.memory.held_per_tile.max()) for r in self.runs]
        self.peaks = np.array(fullest or self.peaks_alive)
        self.costs = np.array([r.total_cycles for r in self.runs] or self.again)
        self.limit = min((r.target.bytes_per_tile for r in self.runs), default=0)
        self.names = [label(name, 24) for name in kept]

    def texts(self) -> list[str]:
        """Return a sentence on the memory and the time of each choice.

        With reports, each choice is compared with the one that keeps the most inputs alive.
        """
        base = self.peaks_alive.index(max(self.peaks_alive))
        texts = [
            f"at most {counted(self.peaks_alive[i], 'input')} of {self.layers} alive, "
            f"{counted(self.again[i], 'layer')} computed again"
            for i in range(len(self.names))
        ]
        for i in range(len(self.runs)):
            peak, cost = self.peaks[i], self.costs[i]
            texts[i] += f"; {peak:,} bytes on the fullest tile, {cost:,} modelled cycles"
            ratios = (100 * (of[i] - of[base]) / of[base] for of in (self.peaks, self.costs))
            texts[i] += (
                f" ({', '.join(f'{r:+.1f} %' for r in ratios)} of {self.names[base]})"
                if i != base
                else ""
            )
        return texts

    def rows(self) -> list[tuple[str, ...]]:
        """Return the rows of the table, one for each choice."""
        rows = []
        for i, (name, keep) in enumerate(zip(self.names, self.kept, strict=True)):
            peak, cost = self.peaks[i], self.costs[i]
            fits = "yes" if peak <= self.limit else "no"
            measured = (f"{peak:,}", f"{cost:,}", fits) if self.runs else ()
            row = (name, f"{len({0, *keep})}", f"{self.peaks_alive[i]}", f"{self.again[i]}")
            rows.append(row + measured)
        return rows


def _scene(choices: _Choices) -> Scene:
    """Return the scene: for each choice of kept inputs, which inputs are alive, and the cost."""
    names, peaks = choices.names, choices.peaks
    title_text = (
        ("bytes of the fullest tile", "modelled cycles")
        if choices.runs
        else ("inputs alive at most", "layers computed again")
    )
    panels = Panels()
    panels.put(_inputs(choices), left=LEFT)
    panels.put(_costs(choices, *title_text), left=RIGHT)
    texts = choices.texts()
    stills = [
        Still(name, note, CHOSEN, 0, first=True, pictures={"alive": i, "choices": i})
        for i, (name, note) in enumerate(zip(names, texts, strict=True))
    ]
    cheapest = int(np.lexsort((choices.costs, peaks))[0])
    heads = ("choice", "inputs kept", "alive at most", "computed again")
    return panels.scene(
        "recompute",
        _title(choices, cheapest),
        f"Of {counted(len(names), 'choice')} the smallest is {names[cheapest]}: {texts[cheapest]}.",
        foot=12,
        codes=CODES,
        stills=stills,
        poster=cheapest,
        group="choice",
        table=(heads + (*title_text, "fits") * bool(choices.runs), choices.rows()),
    )


def _title(choices: _Choices, cheapest: int) -> str:
    """Return a title with the saving and the cost of the choice that needs the least memory.

    This choice is compared with the one that keeps the most inputs alive.
    """
    name = f"{choices.names[cheapest][:1].upper()}{choices.names[cheapest][1:]}"
    base = choices.peaks_alive.index(max(choices.peaks_alive))
    alive_text = f"{choices.peaks_alive[cheapest]} of {choices.layers}"
    again = counted(choices.again[cheapest], "layer")
    if cheapest == base:
        if choices.runs:
            peak = choices.peaks[cheapest]
            return f"{name} needs the fewest bytes on the fullest tile, {peak:,}, as it is"
        return f"{name} keeps the fewest inputs alive: {alive_text}, {again} computed again"
    if not choices.runs:
        saved = choices.peaks_alive[base] - choices.peaks_alive[cheapest]
        return (
            f"{name} keeps at most {alive_text} inputs alive, {saved} fewer than "
            f"{choices.names[base]}, and computes {again} again"
        )
    saved, more = (
        100 * (of[cheapest] - of[base]) / of[base] for of in (choices.peaks, choices.costs)
    )
    return (
        f"{name} saves {-saved:.1f} % of the bytes of the fullest tile and costs {more:.1f} % more "
        f"cycles than {choices.names[base]}"
    )


def _inputs(choices: _Choices) -> Painted:
    """Return the lanes of the layer inputs, with a picture for each choice."""
    layers = choices.layers
    pitch = HIGH / layers
    return painted(
        "alive",
        "inputs that are alive, step by step",
        WIDE,
        HIGH + UNDER,
        pictures=[
            _triangle(live, len(plan), layers)
            for live, plan in zip(choices.lives, choices.plans, strict=True)
        ],
        places=rectangles(0, np.arange(layers) * pitch, WIDE, pitch * 0.9),
        labels=map(str, range(layers)),
        say="the input of layer {label}",
    )


def _costs(choices: _Choices, peak_text: str, cost_text: str) -> Painted:
    """Return the plot of the choices, with a dot for each, from left to right by time.

    `peak_text` and `cost_text` are the names of the axes.
    """
    names, costs, peaks = choices.names, choices.costs, choices.peaks
    x, up = (0.06 + 0.88 * (v - v.min()) / max(1, int(np.ptp(v))) for v in (costs, peaks))
    x = WIDE * x
    y = HIGH * (1 - up)
    beaten = [
        bool(((costs <= c) & (peaks <= p) & ((costs < c) | (peaks < p))).any())
        for c, p in zip(costs, peaks, strict=True)
    ]
    dots = np.stack((x, y, costs, peaks))
    return painted(
        "choices",
        f"{peak_text} over {cost_text}",
        WIDE,
        HIGH + UNDER,
        pictures=[_dots(dots, beaten, names, i, unit=cost_text) for i in range(len(names))],
        places=rectangles(x - 6, y - 6, 12.0, 12.0),
        labels=names,
        say=f"{{label}}: {{peak}} {peak_text}, {{cost}} {cost_text}",
        values={"peak": peaks, "cost": costs},
    )


def alive(layers: int, plan: Collection[Step]) -> list[tuple[int, int, int, int]]:
    """Return `(layer, begin, end, code)` for each interval in which the input of a layer is alive.

    Times are in half steps: step k of `plan` lasts from 2k to 2k + 2. The result of a step exists
    from the middle of the step on. The input of a step is discarded at the end of the last step
    that needs it. The code is KEPT, BRIEF (discarded after the next layer has used it) or AGAIN
    (recomputed).
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
    """Return the shapes of one choice: the lanes of the inputs that are alive, step by step."""
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

    A choice is beaten if another choice is at least as good in memory and in cost, and better in
    one of them. `dots` has [x, y, cost, peak] for each choice.
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
    named: list[tuple[float, float, float]] = []  # (left, right, baseline) of each placed name
    for i in sorted(range(len(names)), key=lambda i: (i != chosen, beaten[i])):
        # A name is above its dot or, if it would overlap the heading there, below it.
        at = (float(x[i]), float(y[i]) + (-10 if y[i] > 12 else 20))
        same = [k for k in range(len(names)) if (x[k], y[k]) == (x[i], y[i])]
        if i != chosen and (chosen in same or i != same[0]):
            continue
        # If several choices have the same dot, a single text has all their names.
        text = ", ".join(names[k] for k in (i, *(k for k in same if k != i)))
        end = "end" if x[i] > WIDE / 2 else "start"
        text_width = LETTER * len(text) * (-1 if end == "end" else 1)
        left, right = sorted((at[0], at[0] + text_width))
        if any(left < b and a < right and abs(at[1] - v) < 16 for a, b, v in named):
            continue
        named.append((left, right, at[1]))
        # This stroke in the background colour keeps the line through the best choices from crossing
        # the name out.
        shapes.append(Stroke(((at[0], at[1] - 4), (at[0] + text_width, at[1] - 4)), 13, "paper"))
        shapes.append(Words(*at, text, 11, end, "ink" if i == chosen else "soft"))
    for choice in (int(np.argmin(x)), int(np.argmax(x))):
        where = float(x[choice]), HIGH + 14
        shapes.append(Words(*where, f"{costs[choice]:,.0f}", 11, "middle", "soft"))
    for choice in (int(np.argmin(y)), int(np.argmax(y))):
        shapes.append(
            Words(-5, float(y[choice]) + 4, f"{peaks[choice]:,.0f}", 11, anchor="end", ink="soft")
        )
    return (*shapes, Words(WIDE, HIGH + 28, unit, 11, anchor="end", ink="soft"))
