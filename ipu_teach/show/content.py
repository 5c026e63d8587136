"""The content of the messages of a recorded run as text: the recorded elements and their values."""

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

MOST_LETTERS = 20_000  # The approximate maximum number of letters in the texts of a scene.
MOST_NAMED = 4  # The maximum number of elements of a message that a text names.
MOST_PAIRS = 64  # The maximum number of tile pairs in an exchange that have texts.
# Maps (superstep, exchange) to lines of text. The number 0 stands for the exchange before the
# computation of the superstep, and 1 for the exchange after it.
Carried = dict[tuple[int, int], list[str]]


def said(track: Track, values: Array, written: Array) -> list[str]:
    """Return the recorded values as strings. An unwritten element is "?"."""
    pairs = zip(track.readable(values), written.tolist(), strict=True)
    return [str(value) if is_written else "?" for value, is_written in pairs]


def carried(recording: Recording, once: bool = False) -> Carried:
    """Return lines of text about the messages of a recording: one for each pair of tiles.

    The result is a dict with keys (superstep, exchange). The exchange number 0 stands for the
    exchange before the computation of the superstep, and 1 for the exchange after it. A line lists
    the recorded elements in the messages and their values. Transfers with the host have no lines.
    With `once`, only the first execution of each compiled step has lines. If the lines would become
    too long in total, later supersteps are left out.
    """
    report = recording.report
    names = Names()
    tracks = recording.tracks
    assert report is not None
    address = np.concatenate([track.address for track in tracks])
    elements = Elements(model_of(report, "run"), address, names, np.arange(report.target.num_tiles))
    names_of_cells, indices_of_cells = elements.named(elements.address)
    texts = [text for track in tracks for text in said(track, track.first, track.first_written)]
    changes: dict[int, list[tuple[int, str]]] = defaultdict(list)
    first_cell = 0
    for track in tracks:
        for place, changed_elements, values, written in track.changes:
            new_texts = said(track, values, written)
            changes[place] += zip((first_cell + changed_elements).tolist(), new_texts, strict=True)
        first_cell += len(track.address)

    def lines(cells_by_pair: dict[Pair, Array]) -> list[str]:
        line_list = []
        for (source, receiver), cells in list(cells_by_pair.items())[:MOST_PAIRS]:
            element_texts = [
                f"{names.element(int(names_of_cells[cell]), int(indices_of_cells[cell]))} = "
                f"{texts[cell]}"
                for cell in cells[:MOST_NAMED].tolist()
            ]
            more_text = f" and {len(cells) - MOST_NAMED:,} more" if len(cells) > MOST_NAMED else ""
            line_list.append(f"{source} to {receiver}: {', '.join(element_texts)}{more_text}")
        return line_list

    lines_by_exchange = Carried()
    step_index = recording.first - 1
    letters_left = MOST_LETTERS
    visited = {HOST}
    for place, step in enumerate(recording.steps):
        step_index += step != HOST
        exchanges = None
        if step not in visited:
            exchanges = elements.step(step, report.profile.steps[step].compute_set)
            exchanges = None if exchanges.by_host else exchanges
            visited |= {step} if once else set()
        lines_received = lines(exchanges.comes) if exchanges and not exchanges.after else []
        for cell, text in changes[place]:
            texts[cell] = text
        if exchanges:
            lines_by_exchange[step_index, 0] = lines_received + lines(
                exchanges.comes if exchanges.after else exchanges.copied
            )
            lines_by_exchange[step_index, 1] = lines(exchanges.goes)
            letters_left -= sum(
                map(len, lines_by_exchange[step_index, 0] + lines_by_exchange[step_index, 1])
            )
        if letters_left < 0:
            break
    return lines_by_exchange


def with_content(scene: Scene, told: Carried, frames: dict[int, tuple[int, int]]) -> Scene:
    """Return a copy of the scene that also contains the lines of text in `told` for its frames.

    `frames` maps each frame that has lines to its (superstep, exchange).
    """
    lines_by_frame = {f"{frame}": told[key] for frame, key in frames.items() if told.get(key)}
    return replace(scene, data={**scene.data, "content": lines_by_frame}) if told else scene


def report_of(what: Report | Recording, once: bool = False) -> tuple[Report | Recording, Carried]:
    """Return `(report, lines)` for a recording, where `lines` is the result of `carried`.

    For anything else, return `(what, {})`.
    """
    if isinstance(what, Recording) and what.report is not None:
        return what.report, carried(what, once)
    return what, {}
