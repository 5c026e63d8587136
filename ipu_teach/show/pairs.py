"""Two runs with their lanes in pairs: what stands above each other, lane by lane, where tile k of
both stands side by side."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ipu_teach.show.scene import Drawing, Scene, Still, Tape, label
from ipu_teach.types import Array


def paired(scene: Scene) -> Scene:
    """The same of a scene with two tapes of as many lanes. Both are in one place then, where each
    has every other lane."""
    tapes = [mark for mark in scene.marks if isinstance(mark, Tape)]
    first, lanes = tapes[0], tapes[0].count
    labels = tuple(f"{lane} {one}" for lane in range(lanes) for one in "ab")
    heading = label(
        "; ".join(f"{one}, {tape.heading}" for one, tape in zip("ab", tapes, strict=True)), 104
    )
    whole = replace(first, heading=heading, labels=labels, count=2 * lanes, height=2 * first.height)
    marks = (whole, replace(whole, name=tapes[1].name, heading=""))
    names, drawings, stills = [tape.name for tape in tapes], list(scene.drawings), list[Still]()
    for still in scene.stills:
        (name, (number, *_)), which = (
            next(iter(still.lanes.items())),
            names.index(next(iter(still.lanes))),
        )
        drawings[number] = _every_other(scene.drawings[number], which, lanes)
        say, values = still.about[name]
        told = (
            say.replace(f"{{i}} of the {name}", "{label}"),
            {key: _spread(v, which, lanes, -1) for key, v in values.items()},
        )
        stills.append(replace(still, about=dict.fromkeys(names, told)))
    lower = scene.height - (tapes[1].y - first.y) - tapes[1].height + whole.height
    return replace(scene, marks=marks, drawings=tuple(drawings), stills=tuple(stills), height=lower)


def _spread(values: Any, which: int, lanes: int, other: Any) -> Array:
    """Values in every other one of twice as many lanes, and `other` in those between."""
    found = np.empty((lanes, 2), np.int64)
    found[:, which], found[:, 1 - which] = values, other
    return found.reshape(-1)


def _every_other(drawing: Drawing, which: int, lanes: int) -> Drawing:
    """The same in every other lane; those between are empty."""
    bars = []
    for bar in drawing.bars:
        begin, length = (
            _spread(bar.start, which, lanes, bar.end),
            _spread(bar.length, which, lanes, 0),
        )
        code = _spread(bar.code, which, lanes, 0) if np.ndim(bar.code) else bar.code
        bars.append(replace(bar, code=code, start=begin, length=length))
    return replace(drawing, bars=tuple(bars))
