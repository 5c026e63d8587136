"""The values of the view `run`: the texts in its cells, their changes, and their colours."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ipu_teach.report.recording import Track as Recorded
from ipu_teach.show import palette
from ipu_teach.show.content import said
from ipu_teach.show.run_steps import RecordedSteps
from ipu_teach.show.scene import (
    CellTexts,
)
from ipu_teach.types import Array


class CellValues:
    """The texts in the drawn cells, and the colours of their values.

    `changed_in` maps the index of a step in the recording to the frame that shows its changes.
    """

    def __init__(self, steps: RecordedSteps, changed_in: dict[int, int]) -> None:
        self.cells = steps.cells
        self.tracks = steps.tracks
        self.begins = steps.begins
        self.numbers = self._numbers(changed_in)

    def _numbers(self, changed_in: dict[int, int]) -> CellTexts:
        """Return the texts in the cells in the first frame, and their changes frame by frame.

        `changed_in` maps the index of a step in the recording to the frame that shows its changes.
        """
        texts: dict[str, int] = {}
        first = []
        changes = [np.zeros((0, 3), np.int64)]
        base = 0
        for own_cells, track in zip(self.cells.own, self.tracks, strict=True):

            def of(values: Array, written: Array, track: Recorded = track) -> Array:
                numbers = [texts.setdefault(t, len(texts)) for t in said(track, values, written)]
                return np.array(numbers, np.int64)

            cell = np.full(len(track.address), -1)
            cell[own_cells] = base + np.arange(len(own_cells))
            start = track.first.copy()
            start_written = track.first_written.copy()
            last = max(changed_in, default=-1)
            for place, at, values, written in track.changes:
                if place > last >= self.begins:
                    break
                if place < self.begins:
                    start[at] = values
                    start_written[at] = written
                elif place in changed_in and (has_cells := cell[at] >= 0).any():
                    number_of = of(values[has_cells], written[has_cells])
                    frame = np.full(len(number_of), changed_in[place])
                    changes.append(np.stack((frame, cell[at][has_cells], number_of), axis=1))
            first.append(of(start[own_cells], start_written[own_cells]))
            base += len(own_cells)
        rows = np.concatenate(changes)
        frame, changed, value = rows[np.lexsort((rows[:, 1], rows[:, 0]))].T
        return CellTexts(tuple(texts), np.concatenate(first), frame, changed, value=value)

    def known(self, frames: int) -> Array:
        """Return int64[frames]: the number of cells that contain a written value in each frame."""
        numbers = self.numbers
        written = np.array([text != "?" for text in numbers.texts], bool)
        now = numbers.first.copy()
        change = np.zeros(frames + 1, np.int64)
        columns = (numbers.frame.tolist(), numbers.cell.tolist(), numbers.value.tolist())
        for frame, cell, value_ in zip(*columns, strict=True):
            change[frame] += int(written[value_]) - int(written[now[cell]])
            now[cell] = value_
        return int(written[numbers.first].sum()) + np.cumsum(change[:frames])

    def ramp(
        self,
    ) -> tuple[list[str], tuple[tuple[float, ...], ...], tuple[palette.Code, ...]]:
        """Return `(spans, bounds, colours)`: how the numbers of each tensor are shown as colours.

        `spans` has the range of each tensor's values as a text, and `bounds` has the values that
        separate its colours. Both cover all recorded elements, drawn or not, over the whole
        recording. Each tensor has a scale of its own. If there are values below zero, the middle
        colour means values near zero.
        """
        recorded = [_range(track) for track in self.tracks]
        ranges = [ends or (0.0, 0.0) for ends in recorded]
        whole = [track.tensor.dtype.numpy.kind in "iu" for track in self.tracks]
        if min(low for low, _ in ranges) < 0:
            edges = [
                _signed_bounds(low, high, whole_numbers)
                for (low, high), whole_numbers in zip(ranges, whole, strict=True)
            ]
            colours = (*palette.BELOW, *palette.NEAR_ZERO, *palette.ABOVE)
            zero = "0" if all(whole) else "near 0"
            words = ["far below 0", "below 0", "just below 0", zero]
            words += ["just above 0", "above 0", "far above 0"]
        else:
            edges = [low + (high - low or 1) * np.arange(1, 4) / 4 for low, high in ranges]
            colours = (*palette.NEAR_ZERO, *palette.ABOVE)
            words = ["lowest quarter of its tensor", "second", "third", "highest quarter"]
        spans = [span(ends) for ends in recorded]
        bounds = tuple(tuple(float(f"{edge:.6g}") for edge in row.tolist()) for row in edges)
        ramp = (replace(colour, name=name) for colour, name in zip(colours, words, strict=True))
        return spans, bounds, tuple(ramp)


def _range(track: Recorded) -> tuple[float, float] | None:
    """Return the lowest and the highest finite value of a recorded tensor.

    The result is None if no element of the tensor ever had a finite value.
    """
    written = [(track.first, track.first_written), *(change[2:] for change in track.changes)]
    values = np.concatenate([track.readable(v[is_written]) for v, is_written in written])
    values = values.astype(np.float64)
    finite = values[np.isfinite(values)]
    return (float(finite.min()), float(finite.max())) if len(finite) else None


def span(ends: tuple[float, float] | None) -> str:
    """Return a range of values as a text, with six significant digits."""
    if ends is None:
        return "without a value"
    low, high = (f"{end:.6g}" for end in ends)
    return f"always {low}" if low == high else f"{low} to {high}"


def _signed_bounds(low: float, high: float, whole_numbers: bool) -> Array:
    """Return float[6]: the values that separate the seven colours of values from `low` to `high`.

    For floats, positive and negative values have the same scale. For whole numbers, they have
    different scales, and 0 alone has the middle colour, so that a small number such as -1 differs
    from 0.
    """
    sides = np.array([1, 3, 5]) / 7
    if not whole_numbers:
        furthest = max(-low, high) or 1
        return np.append(-furthest * sides[::-1], furthest * sides)
    below = np.sort([-0.5, *(min(low, -1) * sides[1:])])
    above = np.sort([0.5, *(max(high, 1) * sides[1:])])
    return np.append(below, above)
