"""The view `estimate`: the modelled cycles of a step by layer, and the memory of a tile."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ipu_teach._support.flags import flagged
from ipu_teach.errors import InvalidOptionError, shown
from ipu_teach.estimate.memory import CODE, LIVE, OPTIMISER, SAVED, SUMS, TEMPORARY, WEIGHTS
from ipu_teach.estimate.result import PARTS, UPDATE, Estimate
from ipu_teach.show import palette
from ipu_teach.show.palette import NESTED
from ipu_teach.show.panels import Panels, painted
from ipu_teach.show.scene import Painted, Scene, Still, label
from ipu_teach.show.shapes import LETTER, Boxes, Shape, Stroke, Words, rectangles
from ipu_teach.show.view import View

MOST = 16  # At most this many layers are drawn; the others are joined.
WIDE, PITCH, BAR, NAMES = 640.0, 22.0, 16.0, 150.0
HOST = "host"
PIECES = (*PARTS, HOST)
FIRST_USE = len(PIECES)  # The code of the first use of memory.
# The colours of the uses of memory. None of them is like a colour of a pass or of an activity.
USES = {
    name: replace(code, name=name, listed=True)
    for name, code in (
        (WEIGHTS, palette.MEMORY["Edge pointers"]),
        (OPTIMISER, palette.MEMORY["Vertex code"]),
        (SUMS, palette.GRADIENT_SUMS),
        (SAVED, palette.MEMORY["Exchange code"]),
        (LIVE, palette.LIVE_VALUES),
        (TEMPORARY, palette.MEMORY["Control code"]),
        (CODE, palette.MEMORY["Stacks"]),
    )
}
CODES = (
    NESTED[1].lettered("F", "forward"),
    NESTED[0].lettered("B", "backward"),
    palette.SO.lettered("U", "update"),
    palette.HOST.lettered("H", HOST),
)


@flagged
def estimate(
    result: Estimate, depth: int = 2, *, stages: bool = False, scale_of: Estimate | None = None
) -> View:
    """Which layers or stages take the time of a step, and what fills the memory of a tile?

    `result` is the result of `ir.estimate` or `poptorch.estimate`. Each bar is a module, down to
    `depth` levels, with its cycles in the whole step: the forward and backward pass of all
    micro-batches, and the update. Without stages, a further bar is the time in which data moves to
    and from the host, and all bars together are the step. With `stages`, each bar is a stage of a
    pipeline instead of a module. The lowest bar is the memory of the fullest stage's tile, with a
    line at the limit.

    To compare two pictures, give the estimate of the first one as `scale_of` in the second one: the
    bars of the second one then have the same scale.

    :raises InvalidOptionError: if `result` or `scale_of` is not an estimate.
    """
    for found in (result, *(() if scale_of is None else (scale_of,))):
        if not isinstance(found, Estimate):
            raise InvalidOptionError(f"""show.estimate() was given {shown(found)}, which is not an
                estimate.
                next:  give the result of ir.estimate(step, device) or poptorch.estimate(…).""")
    bars = bars_of(result, depth, stages)
    other = {} if scale_of is None else bars_of(scale_of, depth, stages)
    longest = max((sum(parts) for parts in (other or bars).values()), default=0.0) or 1.0
    return View(_scene(result, bars, "stage" if stages else "layer", longest))


def bars_of(result: Estimate, depth: int = 2, stages: bool = False) -> dict[str, list[float]]:
    """Return the cycles of each layer or stage in a step, as a list in the order of `PIECES`.

    The layers with the fewest cycles are joined, if there are too many.
    """
    cycles = result.stages() if stages else result.layers(depth)
    times = {part: 1 if part == UPDATE else result.accumulation for part in PARTS}
    step = {
        name: [*(times[part] * parts[part] for part in PARTS), 0.0]
        for name, parts in cycles.items()
    }
    largest = sorted(step, key=lambda name: -sum(step[name]))[: MOST - 1]
    drawn = {name: step[name] for name in step if name in largest or len(step) <= MOST}
    rest = [parts for name, parts in step.items() if name not in drawn]
    if rest:
        drawn[f"other {'stages' if stages else 'layers'}"] = np.sum(rest, axis=0).tolist()
    host = result.cycles - sum(map(sum, step.values()))
    if len(result.memory) == 1 and not stages and round(host) > 0:
        drawn[HOST] = [*(0.0 for _ in PARTS), host]
    return drawn


def _scene(result: Estimate, layers: dict[str, list[float]], noun: str, longest: float) -> Scene:
    total = sum(map(sum, layers.values()))
    panels = Panels()
    panels.put(_bars(layers, noun, longest))
    panels.put(_memory(result), down=len(layers) * PITCH + 40)
    largest = max(layers, key=lambda name: sum(layers[name]), default="none")
    cycles = sum(layers.get(largest, ()))
    finding = f"Most modelled cycles: {largest}, {cycles / (total or 1.0):.0%}"
    if noun == "stage" and total and len(layers) > 1:
        ratio = cycles * len(result.memory) / total
        finding = f"Slowest: {largest}, with {ratio:.2f} times the average cycles of a stage"
    verb = "fits" if result.fits else "does not fit"
    pieces = PIECES if HOST in layers else PARTS
    rows = [
        (name, *(f"{count:,.0f}" for count in parts[: len(pieces)]), f"{sum(parts):,.0f}")
        for name, parts in layers.items()
    ]
    return panels.scene(
        "estimate",
        f"{finding}; the model {verb} on the tiles",
        " ".join(result.sentences()),
        foot=12,
        codes=(*CODES, *(USES[name] for name, _ in result.fullest.uses)),
        stills=[Still("", "", 0, 0, first=True)],
        group=noun,
        table=((noun, *pieces, "modelled cycles"), rows),
    )


def _bars(layers: dict[str, list[float]], noun: str, longest: float) -> Painted:
    """Return a horizontal bar for each layer or stage, with a piece for each pass.

    A bar of `longest` cycles has the full length. If a layer has more cycles, all are shorter.
    """
    longest = max([longest, *(sum(parts) for parts in layers.values())])
    room = 24 + LETTER * len(f"{longest:,.0f}")
    scale = (WIDE - NAMES - room) / longest
    shapes: list[Shape] = []
    for code in range(len(PIECES)):
        boxes = [
            (NAMES + scale * sum(parts[:code]), row * PITCH, scale * parts[code], BAR)
            for row, parts in enumerate(layers.values())
            if parts[code]
        ]
        shapes += [Boxes(code, np.array(boxes))] * bool(boxes)
    for row, (name, parts) in enumerate(layers.items()):
        y = row * PITCH + 12
        shapes.append(Words(NAMES - 6, y, label(name, 24), 11, anchor="end"))
        end = NAMES + scale * sum(parts) + 4
        shapes.append(Words(end, y, f"{sum(parts):,.0f}", 11, ink="soft"))
    count = len(layers)
    return painted(
        "layers",
        f"modelled cycles of a step, by {noun}",
        WIDE,
        count * PITCH,
        [shapes],
        places=rectangles(0, np.arange(count) * PITCH, WIDE, BAR),
        labels=layers,
        say="{label}: {cycles} modelled cycles",
        values={"cycles": np.array([round(sum(parts)) for parts in layers.values()])},
    )


def _memory(result: Estimate) -> Painted:
    """Return the bar of the memory of a tile, and a line at its limit."""
    memory = result.fullest
    scale = (WIDE - 10) / max(memory.total, memory.limit)
    shapes: list[Shape] = []
    ends = np.cumsum([0.0, *(size for _, size in memory.uses)])
    boxes = rectangles(ends[:-1] * scale, 0.0, np.diff(ends) * scale, BAR)
    for number in range(len(memory.uses)):
        shapes.append(Boxes(FIRST_USE + number, boxes[number : number + 1]))
    limit = memory.limit * scale
    shapes.append(Stroke(((limit, -4), (limit, BAR + 4)), 2, "ink"))
    text = f"{memory.total:,.0f} bytes, limit {memory.limit:,}"
    shapes.append(Words(limit, BAR + 16, text, 11, anchor="end", ink="soft"))
    stage = f" of stage {result.memory.index(memory)}" if len(result.memory) > 1 else ""
    return painted(
        "memory",
        f"bytes of a tile{stage}, by use",
        WIDE,
        BAR + 20,
        [shapes],
        places=boxes,
        labels=[name for name, _ in memory.uses],
        say="{label}: {bytes} bytes",
        values={"bytes": np.array([round(size) for _, size in memory.uses])},
    )
