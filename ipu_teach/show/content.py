"""The content of messages in a recorded run, in words: the recorded elements that are exchanged in
a superstep, with their values."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np

from ipu_teach.report import Recording, Report
from ipu_teach.report.recording import HOST, Track
from ipu_teach.show.origins import Elements, Names, Pair
from ipu_teach.show.report_facts import model_of
from ipu_teach.show.scene import Scene
from ipu_teach.types import Array

MOST_LETTERS = 20_000  # of a scene
MOST_NAMED = 4  # elements of a message
MOST_PAIRS = 64  # of an exchange
# by the number of the step in the report, and of its exchange
Carried = dict[tuple[int, int], list[str]]


def said(track: Track, values: Array, written: Array) -> list[str]:
    """Return the recorded values as texts; "?" stands for an unwritten element."""
    pairs = zip(track.readable(values), written.tolist(), strict=True)
    return [str(value) if known else "?" for value, known in pairs]


def carried(recording: Recording, once: bool = False) -> Carried:
    """Return, by (superstep, exchange), a line for each pair of tiles that exchange recorded
    elements, as far as there is room. Transfers with the host have none. With `once`, only
    the first execution of each compiled step counts."""
    report = recording.report
    names = Names()
    tracks = recording.tracks
    assert report is not None
    address = np.concatenate([t.address for t in tracks])
    elements = Elements(model_of(report, "run"), address, names, np.arange(report.target.num_tiles))
    name, index = elements.named(elements.address)
    texts = [text for track in tracks for text in said(track, track.first, track.first_written)]
    changes: dict[int, list[tuple[int, str]]] = defaultdict(list)
    base = 0
    for track in tracks:
        for place, at, values, written in track.changes:
            changed = said(track, values, written)
            changes[place] += zip((base + at).tolist(), changed, strict=True)
        base += len(track.address)

    def lines(crossing: dict[Pair, Array]) -> list[str]:
        by_frame = []
        for (source, to), cells in list(crossing.items())[:MOST_PAIRS]:
            parts = [
                f"{names.element(int(name[c]), int(index[c]))} = {texts[c]}"
                for c in cells[:MOST_NAMED].tolist()
            ]
            rest = f" and {len(cells) - MOST_NAMED:,} more" if len(cells) > MOST_NAMED else ""
            by_frame.append(f"{source} to {to}: {', '.join(parts)}{rest}")
        return by_frame

    told = Carried()
    number = recording.first - 1
    room = MOST_LETTERS
    visited = {HOST}
    for place, step in enumerate(recording.steps):
        number += step != HOST
        does = None
        if step not in visited:
            does = elements.step(step, report.profile.steps[step].compute_set)
            does = None if does.by_host else does
            visited |= {step} if once else set()
        received = lines(does.comes) if does and not does.after else []
        for cell, text in changes[place]:
            texts[cell] = text
        if does:
            told[number, 0] = received + lines(does.comes if does.after else does.copied)
            told[number, 1] = lines(does.goes)
            room -= sum(map(len, told[number, 0] + told[number, 1]))
        if room < 0:
            break
    return told


def with_content(scene: Scene, told: Carried, frames: dict[int, tuple[int, int]]) -> Scene:
    """Return the scene with the recorded elements in its messages as source texts. `frames`
    gives the (superstep, exchange) of each frame."""
    by_frame = {f"{frame}": told[key] for frame, key in frames.items() if told.get(key)}
    return replace(scene, data={**scene.data, "content": by_frame}) if told else scene


def report_of(what: Report | Recording, once: bool = False) -> tuple[Report | Recording, Carried]:
    """Return (the report, the recorded elements in its messages) of a report or a recording."""
    if isinstance(what, Recording) and what.report is not None:
        return what.report, carried(what, once)
    return what, {}
