"""The view `bsp` of two runs with `paired`: the two lanes of a tile are next to each other.

The picture rests at the step whose cycles differ most.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np

from ipu_teach.errors import counted
from ipu_teach.show.scene import Drawing, Scene, Still, Tape, label, number
from ipu_teach.types import Array


def paired(scene: Scene) -> Scene:
    """Return a copy of a scene in which two tapes of equal size are merged into one.

    The two tapes have the same number of lanes. In the merged tape, the lanes of the two runs
    alternate.
    """
    tapes = [mark for mark in scene.marks if isinstance(mark, Tape)]
    first = tapes[0]
    lanes = tapes[0].count
    labels = tuple(f"{lane} {letter}" for lane in range(lanes) for letter in "ab")
    heading = label(
        "; ".join(f"{letter}, {tape.heading}" for letter, tape in zip("ab", tapes, strict=True)),
        104,
    )
    merged_mark = replace(
        first, heading=heading, labels=labels, count=2 * lanes, height=2 * first.height
    )
    # The names of the second run are below those of the first.
    merged_mark = replace(merged_mark, y=first.y + 28, named=19.0)
    marks = (merged_mark, replace(merged_mark, name=tapes[1].name, heading="", named=5.0))
    names = [tape.name for tape in tapes]
    drawings = list(scene.drawings)
    stills = list[Still]()
    for still in scene.stills:
        ((name, (number, *_)),) = still.lanes.items()
        which = names.index(name)
        drawings[number] = _every_other(scene.drawings[number], which, lanes)
        say, values = still.about[name]
        texts = (
            say.replace(f"{{i}} of the {name}", "{label}"),
            {key: _spread(v, which, lanes, -1) for key, v in values.items()},
        )
        stills.append(replace(still, about=dict.fromkeys(names, texts)))
    lower = scene.height - (tapes[1].y - merged_mark.y) - tapes[1].height + merged_mark.height
    differs, poster = _differs(scene)
    return replace(
        scene,
        sentence=f"{scene.sentence} {differs}",
        marks=marks,
        drawings=tuple(drawings),
        stills=tuple(stills),
        height=lower,
        poster=poster,
        notes=(differs, *scene.notes),
    )


def _differs(scene: Scene) -> tuple[str, int]:
    """Return `(text, frame)`: a sentence on the step whose cycles differ most, and its frame."""
    # Maps the name of a step to its cycles in each of the two runs.
    spent: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    # Maps the name of a step to a frame of that step, in the second run if the step occurs there.
    frames: dict[str, int] = {}
    for frame, which in enumerate(scene.frames.tolist()):
        still = scene.stills[which]
        run, _, name = still.label.partition(": ")
        frames[name] = frames[name] if spent[name][run != "first report"] else frame
        spent[name][run != "first report"] += still.cycles
    differences = {name: abs(second - first) for name, (first, second) in spent.items()}
    name = max(differences, key=lambda name: differences[name])
    a, b = map(number, spent[name])
    if a == b:
        return "No step takes another time.", scene.poster
    equal = sum(difference == differences[name] for difference in differences.values()) - 1
    others = f", like {counted(equal, 'other step')}" if equal else ""
    return f"{name} differs most{others}: {a} cycles in the first, {b} in the second.", frames[name]


def _spread(values: Any, which: int, lanes: int, base_value: Any) -> Array:
    """Return int64[2 * lanes]: the values of `lanes` lanes, spread over twice as many lanes.

    Every second lane, beginning with lane `which` (0 or 1), gets its value from `values`. All other
    lanes get `base_value`.
    """
    spread = np.empty((lanes, 2), np.int64)
    spread[:, which] = values
    spread[:, 1 - which] = base_value
    return spread.reshape(-1)


def _every_other(drawing: Drawing, which: int, lanes: int) -> Drawing:
    """Return a copy of a drawing whose bars are spread over every second lane.

    `which` (0 or 1) is the first lane with a bar. The lanes in between are empty.
    """
    bars = []
    for bar in drawing.bars:
        begin = _spread(bar.start, which, lanes, bar.end)
        length = _spread(bar.length, which, lanes, 0)
        code = _spread(bar.code, which, lanes, 0) if np.ndim(bar.code) else bar.code
        bars.append(replace(bar, code=code, start=begin, length=length))
    return replace(drawing, bars=tuple(bars))
