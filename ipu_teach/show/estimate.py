"""The view `estimate`: the modelled cycles of a step by layer, and the memory of a tile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ipu_teach._support.flags import flagged
from ipu_teach.errors import InvalidOptionError, shown
from ipu_teach.estimate.memory import CODE, LIVE, OPTIMISER, SAVED, SUMS, TEMPORARY, WEIGHTS
from ipu_teach.estimate.result import BACKWARD, PARTS, UPDATE, Estimate
from ipu_teach.show import palette
from ipu_teach.show.palette import NESTED, Code
from ipu_teach.show.panels import Panels, painted
from ipu_teach.show.scene import Painted, Scene, Still, label
from ipu_teach.show.shapes import LETTER, Boxes, Shape, Stroke, Words, rectangles
from ipu_teach.show.view import View
from ipu_teach.types import Array

MOST = 16  # The maximum number of layers drawn; the others are combined.
WIDE, PITCH, BAR, NAMES = 640.0, 22.0, 16.0, 180.0
WIDEST = 2 * LETTER  # A narrow page shrinks the picture, but not its letters.
HOST = "host"
PIECES = (*PARTS, HOST)
FIRST_USE = len(PIECES)  # The code of the first use of memory.
BACKWARD_CODE = PARTS.index(BACKWARD)
# The colours of the uses of memory. None of these colours is similar to a colour of a pass or of an
# activity.
USES = {
    name: replace(code, name=name, listed=True)
    for name, code in (
        (WEIGHTS, replace(palette.MEMORY["Edge pointers"], pattern="x")),
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

    `result` is the result of `ir.estimate` or `poptorch.estimate`. Each bar shows a module, down to
    `depth` levels, with its cycles in the entire step: the forward and backward pass of all
    micro-batches, and the update. Without stages, an additional bar shows the time in which data
    moves to and from the host, and all bars together add up to the step. The lowest bar shows the
    memory of a tile of the fullest stage, with a line at the limit.

    With `stages`, each row is a stage of a pipeline, and has a bar for each pass of a micro-batch,
    and a bar for the update. The bars of a pass begin at the same place, because the stages of a
    pipeline work at the same time.

    To compare two pictures, give the estimate of the first one as `scale_of` in the second one: the
    bars of the second one then have the same scale.

    :raises InvalidOptionError: if `result` or `scale_of` is not an estimate.
    """
    like = result if scale_of is None else scale_of
    for argument in (result, like):
        if not isinstance(argument, Estimate):
            raise InvalidOptionError(f"""show.estimate() was given {shown(argument)}, which is
                not an estimate.
                next:  give the result of ir.estimate(step, device) or poptorch.estimate(…).""")
    if stages:
        return View(_scene_of_stages(result, like))
    longest = max(map(sum, bars_of(like, depth).values()), default=0.0) or 1.0
    return View(_scene(result, bars_of(result, depth), longest))


def bars_of(result: Estimate, depth: int = 2) -> dict[str, list[float]]:
    """Return the cycles of each layer in a step, as a list in the order of `PIECES`.

    If there are too many layers, those with the fewest cycles are combined into one entry.
    """
    times = {part: 1 if part == UPDATE else result.accumulation for part in PARTS}
    step = {
        name: [*(times[part] * parts[part] for part in PARTS), 0.0]
        for name, parts in result.layers(depth).items()
    }
    largest = sorted(step, key=lambda name: -sum(step[name]))[: MOST - 1]
    drawn = {name: step[name] for name in step if name in largest or len(step) <= MOST}
    rest = [parts for name, parts in step.items() if name not in drawn]
    if rest:
        drawn["other layers"] = np.sum(rest, axis=0).tolist()
    host = result.cycles - sum(map(sum, step.values()))
    if len(result.memory) == 1 and round(host) > 0:
        drawn[HOST] = [*(0.0 for _ in PARTS), host]
    return drawn


def _scene(result: Estimate, layers: dict[str, list[float]], longest: float) -> Scene:
    total = sum(map(sum, layers.values()))
    panels = Panels()
    panels.put(_bars(layers, longest))
    panels.put(_memory(result), down=len(layers) * PITCH + 40)
    largest = max(layers, key=lambda name: sum(layers[name]), default="none")
    share = sum(layers.get(largest, ())) / (total or 1.0)
    pieces = PIECES if HOST in layers else PARTS
    rows = [
        (name, *map(_number, parts[: len(pieces)]), _number(sum(parts)))
        for name, parts in layers.items()
    ]
    return panels.scene(
        "estimate",
        f"Most modelled cycles: {largest}, {share:.0%}; the model {_verb(result)} on the tiles",
        " ".join(result.sentences()),
        foot=12,
        codes=grouped(
            (*CODES, *(USES[name] for name, _ in result.fullest.uses)),
            {0: "time", FIRST_USE: "memory"},
        ),
        stills=[Still("", "", 0, 0, first=True)],
        group="layer",
        table=(("layer", *pieces, "modelled cycles"), rows),
    )


def grouped(codes: Sequence[Code], titles: Mapping[int, str]) -> tuple[Code, ...]:
    """Return codes with a title before the first name of each group, such as "memory: weights".

    `titles` has the title of each group by the index of its first code.
    """
    return tuple(
        replace(code, name=f"{titles[k]}: {code.name}") if k in titles else code
        for k, code in enumerate(codes)
    )


def _verb(result: Estimate) -> str:
    return "fits" if result.fits else "does not fit"


def _number(cycles: float) -> str:
    return f"{cycles:,.0f}"


def _bars(layers: dict[str, list[float]], longest: float) -> Painted:
    """Return a horizontal bar for each layer, which consists of a piece for each pass.

    A bar of `longest` cycles has the full length. If a layer has more cycles than that, all bars
    are shorter.
    """
    longest = max([longest, *map(sum, layers.values())])
    scale = (WIDE - NAMES - WIDEST * len(_number(longest))) / longest
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
        shapes.append(Words(end, y, _number(sum(parts)), 11, ink="soft"))
    return _rows(
        "modelled cycles of a step, by layer", shapes, {n: sum(p) for n, p in layers.items()}
    )


def _rows(heading: str, shapes: list[Shape], cycles: dict[str, float]) -> Painted:
    """Return the picture of rows; each row has a text with its number of cycles."""
    count = len(cycles)
    return painted(
        "layers",
        heading,
        WIDE,
        count * PITCH,
        [shapes],
        places=rectangles(0, np.arange(count) * PITCH, WIDE, BAR),
        labels=cycles,
        say="{label}: {cycles} modelled cycles",
        values={"cycles": np.array([round(number) for number in cycles.values()])},
    )


def _scene_of_stages(result: Estimate, like: Estimate) -> Scene:
    """Return the picture of the stages of a pipeline, drawn to the scale of `like`."""
    cycles = _passes(result)
    main = BACKWARD_CODE if cycles[:, BACKWARD_CODE].any() else 0
    longest, average = int(cycles[:, main].argmax()), float(cycles[:, main].mean())
    finding = (
        f"Longest {PARTS[main]} pass: stage {longest}, "
        f"{cycles[longest, main] / (average or 1.0):.2f} times the average"
    )
    notes = (f"The picture shows {MOST} of {len(cycles):,} stages.",) * (len(cycles) > MOST)
    panels = Panels()
    panels.put(_stages(cycles[:MOST], _passes(like).max(axis=0)))
    rows = [
        (f"stage {k}", *map(_number, parts), f"{result.memory[k].share:.0%}")
        for k, parts in enumerate(cycles.tolist())
    ]
    return panels.scene(
        "estimate",
        f"{finding}; the model {_verb(result)} on the tiles",
        " ".join(result.sentences()),
        foot=12,
        codes=CODES[: len(PARTS)],
        stills=[Still("", "", 0, 0, first=True)],
        group="stage",
        table=(("stage", *PARTS, "memory of a tile"), rows),
        notes=notes,
    )


def _passes(result: Estimate) -> Array:
    """Return float64[stages, passes]: the cycles of each stage, in the order of `PARTS`."""
    return np.array([[*parts.values()] for parts in result.stages().values()])


def _stages(cycles: Array, longest: Array) -> Painted:
    """Return a row for each stage, with a bar for each pass.

    `cycles` is float64[stages, passes]. Each pass has a column for its bars. The column is wide
    enough for a bar of `longest` cycles (float64[passes]), or for its longest bar if that is much
    longer.
    """
    if (cycles.max(axis=0) > 1.15 * longest).any():
        longest = np.maximum(longest, cycles.max(axis=0))
    codes = [code for code in range(len(PARTS)) if longest[code]]
    names, texts = 90.0, [WIDEST * len(_number(longest[code])) for code in codes]
    scale = (WIDE - names - sum(texts)) / (longest.sum() or 1.0)
    shapes: list[Shape] = [
        Words(names - 6, row * PITCH + 12, f"stage {row}", 11, anchor="end")
        for row in range(len(cycles))
    ]
    column_x = names
    for code, room in zip(codes, texts, strict=True):
        boxes = rectangles(column_x, np.arange(len(cycles)) * PITCH, scale * cycles[:, code], BAR)
        shapes.append(Boxes(code, boxes))
        for row, number in enumerate(cycles[:, code].tolist()):
            end = column_x + scale * number + 4
            shapes.append(Words(end, row * PITCH + 12, _number(number), 11, ink="soft"))
        column_x += scale * float(longest[code]) + room
    totals = {f"stage {row}": float(sum(parts)) for row, parts in enumerate(cycles)}
    return _rows("modelled cycles of a micro-batch and of the update, by stage", shapes, totals)


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
    text = f"{memory.total:,.0f} of {memory.limit:,} bytes"
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
