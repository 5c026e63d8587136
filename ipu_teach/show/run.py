"""The view `run`: the numbers of a recorded run, the messages that carry them, and their changes.

Every tile is drawn as a box with its elements. A superstep plays in four parts: sync, exchange,
compute, and the change of the written elements. In each part, a thin line marks the elements that
are sent or read, and a thick line marks the elements that the superstep writes. A message contains
the recorded elements that the superstep moves. The arrival time is modelled: a message arrives when
its receiver has received all the data that it waits for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from ipu_teach.cost.phases import LINKS
from ipu_teach.errors import InvalidOptionError, counted, shown
from ipu_teach.graph.tensor import Tensor
from ipu_teach.graph.variable_table import without_replica
from ipu_teach.report import Recording
from ipu_teach.report.recording import HOST as BY_HOST
from ipu_teach.show import palette
from ipu_teach.show.board import FOOT, Places
from ipu_teach.show.measures import GUTTER, HEAD, LINE, ROW
from ipu_teach.show.palette import STATE
from ipu_teach.show.panels import LEFT, RIGHT, Panels
from ipu_teach.show.report_facts import (
    At,
    resting,
    short_name,
    tiles_of,
    titled,
)
from ipu_teach.show.run_cells import DrawnCells
from ipu_teach.show.run_steps import BEATS, RecordedSteps
from ipu_teach.show.run_values import CellValues
from ipu_teach.show.scene import (
    Board,
    CellTexts,
    Detail,
    Flows,
    Scene,
    Sheet,
    Still,
    Table,
    Track,
    Trail,
    label,
    number,
)
from ipu_teach.show.view import View
from ipu_teach.types import Array

UNWRITTEN = len(BEATS)
STEPS = UNWRITTEN + 2  # The index of the colour for the lowest values.

HIGHEST = 220.0  # The maximum height of the image of a tensor.
MOST_TENSORS = 6
# These pairs are tried until the scene is small enough: (maximum number of cells of a tensor on a
# tile, maximum number of changes).
SIZES = ((16, 8000), (16, 5000), (8, 5000), (8, 3000), (4, 3000), (4, 1500), (2, 1500), (1, 700))
# The maximum size of a scene. Its page, with script and picture, then has less than 150 kB.
MOST_BYTES = 70_000


def run(recording: Recording, *tensors: Tensor, at: At = None) -> View:
    """Which numbers move between tiles in each superstep, and which change?

    The view shows the values of a recorded run: the content of every tile, the messages, and the
    changes in each superstep. Values are those of the run; cycles are modelled. `tensors` selects
    the recorded tensors to show, by default all of them. At most 64 tiles and 512 elements are
    drawn, and as many supersteps as fit into a scene of 70 kB. A note below the picture says what
    is left out.

    A thick line marks the elements that the superstep writes, and a thin line marks those that it
    sends or reads. `at` is the superstep at which the picture rests: its number, counted from 0,
    the name of a step, or a kind of phase. By default, the picture rests where the most data moves
    between tiles.

    :raises InvalidOptionError: if `recording` is not a recording, if nothing has run, if a tensor
        was not recorded, or if there are more than six tensors.
    """
    if not isinstance(recording, Recording):
        raise InvalidOptionError(f"""show.run() was given {shown(recording)}, which is not a
            recording.
            next:  recording = engine.record(tensor, …), then engine.run(), then
            show.run(recording).""")
    if recording.report is None or not recording.steps:
        raise InvalidOptionError("""show.run() was given a recording in which nothing has run.
            next:  engine.run() after engine.record(…), then show.run(recording).""")
    tracks = [recording.track(tensor, "show.run()") for tensor in tensors] or list(recording.tracks)
    if len(tracks) > MOST_TENSORS:
        raise InvalidOptionError(f"""show.run() was given {len(tracks)} tensors, but it draws at
            most {MOST_TENSORS}.
            next:  name the tensors to draw: show.run(recording, a, b).""")
    for per, changes in SIZES:
        scene = _Picture(DrawnCells(recording, tracks, per)).scene(changes, at)
        if len(scene.json()) <= MOST_BYTES:
            break
    return View(scene)


class _Picture:
    """The builder of the scene of a recording: the board with its numbers, and its descriptions."""

    def __init__(self, cells: DrawnCells) -> None:
        self.cells = cells
        self.recording = cells.recording
        self.report = cells.report
        self.tracks = cells.tracks
        self.steps = RecordedSteps(cells)

    def scene(self, max_frames: int, at: At = None) -> Scene:
        """Return the scene of the first supersteps, which rests at the superstep `at`.

        It shows as many supersteps as together change at most `max_frames` cells.
        """
        frames, changed_in, device_steps, clock = self.steps.frames(max_frames)
        values = CellValues(self.steps, changed_in)
        numbers = values.numbers
        spans, bounds, ramp = values.ramp()
        poster = self._poster(frames, values, at)
        tensors = " and ".join(dict.fromkeys(self.cells.titles))
        rims = tuple(
            replace(rim, name=f"{label(name, 44)} (its rim), {span}")
            for name, span, rim in zip(self._legend_names(), spans, palette.RIMS, strict=False)
        )
        unwritten = replace(palette.UNWRITTEN, name="not written yet (?)")
        codes = (*BEATS, unwritten, palette.NOT_A_NUMBER, *ramp, *rims)
        panels = Panels()
        board = self._board(numbers, spans, bounds, range(len(codes) - len(rims), len(codes)))
        self._put(panels, board)
        panels.notes += self._notes(device_steps)
        return panels.scene(
            "run",
            titled(self.report, self._title(frames, poster)),
            self._sentence(tensors, numbers, spans),
            foot=22,
            codes=codes,
            stills=tuple(self.steps.stills),
            frames=frames,
            table=self._table(board, numbers, frames),
            poster=poster,
            sources=tuple(self.steps.sources),
            numbers={"board": numbers},
            data={"rounds": self.steps.rounds, "times": self.steps.times},
            clock=clock if self.report.target.num_sets > 1 else None,
        )

    def _legend_names(self) -> list[str]:
        """Return the name of each tensor in the legend.

        If several tensors belong to the same variable, their names include the first and the last
        element.
        """
        names = []
        for title, track in zip(self.cells.titles, self.tracks, strict=True):
            first, last = self.cells.element_names(track.address[[0, -1]])
            is_shared = self.cells.titles.count(title) > 1
            names.append(f"{first} to {last}" if is_shared and first != last else title)
        return [
            f"tensor {i}: {name}" if names.count(name) > 1 else name
            for i, name in enumerate(names, start=1)
        ]

    def _poster(self, frames: Array, values: CellValues, at: At) -> int:
        """Return the frame at which the picture rests: the longest frame that shows `at`.

        If `at` is None, it is the frame in which the most data moves between tiles.
        """
        if at is not None:
            stills = [self.steps.stills[i] for i in frames.tolist()]
            begins = np.arange(self.recording.first, len(self.report.step_numbers))
            return resting("run", stills, self.report, at, begins=begins)
        # If several frames move the same number of bytes, choose the one nearest to the middle.
        middle = len(frames) // 2
        known = values.known(len(frames))
        # Skip frames in which most cells are unwritten, because they show little.
        enough = known >= known.max() / 2

        def rank(frame: int) -> tuple[bool, bool, int, int]:
            moves, size = self.steps.moved.get(int(frames[frame]), (False, 0))
            return moves, bool(enough[frame]), size, -abs(frame - middle)

        return max(range(len(frames)), key=rank)

    def _board(
        self,
        numbers: CellTexts,
        spans: Sequence[str],
        bounds: tuple[tuple[float, ...], ...],
        rims: Iterable[int],
    ) -> Board:
        """Return the mark with a box for each tile, and the cells in it.

        For each tensor, `spans` has the range of its values as a string, `bounds` has the values
        that separate its colours, and `rims` has the code of the border around its cells.
        """
        changes_of_cell = np.bincount(numbers.cell, minlength=len(self.cells.box))
        count = len(self.cells.tiles)
        heading = counted(count, "tile")
        ipu = self.cells.tiles // self.report.target.tiles_per_ipu
        widest = int(np.bincount(ipu).max())  # Each IPU begins a new row of boxes.
        if count < len(self.cells.held):
            heading = f"{count} of {counted(len(self.cells.held), 'tile')}"
        if len(self.cells.titles) == 1:
            heading += f"; {label(self.cells.titles[0], 32)}, {spans[0]}"
        if self.cells.left.any():
            heading += "; +n: n more elements"
        return Board(
            "board",
            heading,
            count=len(self.cells.box),
            tiles=tuple(self.cells.tiles.tolist()),
            across=min(widest, 2 if count <= 4 else 4 if count <= 16 else 8),
            high=HEAD + ROW * len(self.tracks) + FOOT,
            width=456 - LEFT + (GUTTER if self.cells.ipus > 1 else 0.0),
            per=tuple(self.cells.per.tolist()),
            box=self.cells.box,
            row=self.cells.row,
            place=self.cells.place,
            named=self.cells.named,
            index=self.cells.index,
            names=self.cells.names.names,
            shapes=self.cells.names.shapes,
            rims=tuple(rims),
            left=self.cells.left,
            bounds=bounds,
            steps=STEPS,
            unwritten=UNWRITTEN,
            focus=int(np.flatnonzero(changes_of_cell == changes_of_cell.max())[-1]),
            block=self.cells.per_ipu if self.cells.ipus > 1 else 0,
        )

    def _put(self, panels: Panels, board: Board) -> None:
        """Put the board and, beside it, the tensor as an image and the numbers on one tile.

        Below them are the history of one element and the strip of the run.
        """
        edge = LEFT + board.width
        board_high = Places(board).tall
        tall = max(board_high, 200.0)
        panels.put(board, right=edge, high=board_high)
        image = self._sheet(edge + 24)
        if image is not None:
            panels.put(image, left=edge + 24, high=image.height)
        down = 0.0 if image is None else image.height + 26
        listed = LINE * int(np.bincount(self.cells.box).max()) + 4
        high = max(5.0 * LINE, min(tall - down, listed))
        panels.put(Detail("detail", of="board"), left=edge + 24, down=down, high=high)
        tall = max(tall, panels.bottom - panels.y)
        panels.marks.append(Flows("messages", "board"))
        panels.bottom = panels.y + tall
        panels.below(32)
        panels.put(Trail("trail", of="board"), high=34)
        panels.below(20)
        panels.put(Track(), high=18)

    def _sheet(self, left: float) -> Sheet | None:
        """Return the tensor as an image, or None.

        The image exists only if exactly one tensor is shown, if this tensor has two dimensions, and
        if all its elements are drawn.
        """
        shape = self.tracks[0].tensor.shape
        if len(self.tracks) > 1 or len(shape) != 2 or min(shape) < 2:
            return None
        if len(self.cells.box) < self.tracks[0].tensor.num_elements:
            return None
        side = min((RIGHT - left) / shape[1], HIGHEST / shape[0])
        heading = f"{label(self.cells.titles[0], 20)} as an image of {shape[0]} x {shape[1]}"
        return Sheet(
            "sheet",
            heading,
            of="board",
            columns=shape[1],
            place=self.cells.own[0],
            height=side * shape[0],
        )

    def _notes(self, device_steps: int) -> tuple[str, ...]:
        """Return the notes: how to read the picture, and what it leaves out."""
        notes = [
            "Values are of the run, cycles are modelled. Phases play equally long; the strip is to "
            "scale.",
            "A message is under way until its receiver has all it waits for; their order is not "
            "modelled.",
        ]
        steps_run = (
            len(self.recording.steps) - self.recording.steps.count(BY_HOST) + self.recording.missed
        )
        if device_steps < steps_run:
            notes.append(
                f"The picture shows the first {device_steps:,} of "
                f"{counted(steps_run, 'superstep')} of the "
                "recorded run."
            )
        if self.recording.first:
            notes.append(
                f"{counted(self.recording.first, 'superstep')} ran before the recording began."
            )
        if self.report.target.num_sets > 1:
            notes.append(
                "The IPUs run steps of their own at the same time. Here the steps play one after "
                "the other; in the strip, a step is as long as it makes the run longer."
            )
        drawn = len(self.cells.box)
        tiles = len(self.cells.held)
        scope = " of each IPU" if self.cells.ipus > 1 else ""
        undrawn = int(self.cells.left.sum())
        if undrawn:
            notes.append(f"Of {drawn + undrawn:,} elements on these tiles {drawn:,} are drawn.")
        if tiles > len(self.cells.tiles):
            notes.append(
                f"Of {tiles:,} tiles with such elements, the first {self.cells.most}{scope} "
                "are drawn."
            )
        return tuple(notes)

    def _title(self, frames: Array, poster: int) -> str:
        """Return the title: the messages and changes in the superstep at which the picture rests.

        `poster` is the index of the frame at which the picture rests.
        """
        place = self.steps.place_of[poster]
        in_step = [
            self.steps.stills[i]
            for i, at in zip(frames, self.steps.place_of, strict=True)
            if at == place
        ]
        resting_at = self.steps.stills[frames[poster]]
        still = max(
            (resting_at, *in_step), key=lambda still: _bytes_moved(still, still is resting_at)
        )
        name = short_name(resting_at.label.partition(": ")[2], 48)
        moved = [m for m in still.flows.get("messages", ()) if m.source >= 0 <= int(m.receivers[0])]
        changing, drawn, changed = self._changing(place)
        changes = "change" + "s" * (changing == 1)
        numbers = f"{counted(changing, 'number')} of {changed} {changes}"
        marked = f", {drawn:,} of them drawn" if 0 < drawn < changing else ""
        marked += " (thick lines)" if drawn else ""
        if not moved:
            numbers = numbers if changing else "no recorded number changes"
            return f"In {name} {numbers}{marked}; no drawn number moves between tiles"
        is_far = self.cells.ipus > 1 and still.code == STATE[LINKS]
        where = "from IPU to IPU" if is_far else "from tile to tile"
        drawn_bytes = sum(message.size for message in moved)
        number_of_still = next(i for i, s in enumerate(self.steps.stills) if s is still)
        undrawn_bytes = self.steps.undrawn.get(number_of_still, 0)
        size = f"{drawn_bytes:,} of " * (undrawn_bytes > 0)
        size += counted(drawn_bytes + undrawn_bytes, "byte")
        go = "goes" if len(moved) == 1 else "go"
        cells = np.concatenate([np.asarray(message.cells, np.int64) for message in moved])
        names = [self.cells.names.names[i] for i in dict.fromkeys(self.cells.named[cells].tolist())]
        of = f" of {_variables(names)}" if names else ""
        if names and _variables(names) == changed:
            numbers = f"{changing:,} of its numbers {changes}"
        messages = f"{counted(len(moved), 'message')}{of}, {size}, {go} {where} in {name}"
        if not changing:
            return f"{messages}; no recorded number changes"
        return f"{messages}; then {numbers}{marked}"

    def _changing(self, place: int) -> tuple[int, int, str]:
        """Return `(changing, drawn, names)`: the changes in a step.

        `changing` is the number of recorded elements that the step changes, `drawn` is how many of
        them are drawn, and `names` is a text with their variables. `place` is the index of the step
        in the recording.
        """
        changing = drawn = 0
        names: dict[str, None] = {}
        for own_cells, track in zip(self.cells.own, self.tracks, strict=True):
            for at_place, at, *_ in track.changes:
                if at_place == place:
                    changing += len(at)
                    drawn += int(np.isin(at, own_cells).sum())
                    named, _ = self.cells.elements.named(track.address[at])
                    numbers = dict.fromkeys(named.tolist())
                    names |= dict.fromkeys(self.cells.names.names[i] for i in numbers)
        return changing, drawn, _variables(list(names))

    def _sentence(self, tensors: str, numbers: CellTexts, spans: Sequence[str]) -> str:
        named = zip(self._legend_names(), spans, strict=True)
        span = "; ".join(f"{label(name, 44)}, {span}" for name, span in named)
        steps_run = len(self.recording.steps) - self.recording.steps.count(BY_HOST)
        changes = counted(len(numbers.cell), "change")
        elements = counted(len(self.cells.box), "element")
        return (
            f"The numbers of {tensors} in {counted(steps_run, 'superstep')} on "
            f"{tiles_of(self.report)}, "
            f"{number(sum(self.steps.gains))} modelled cycles. "
            f"The picture has {changes} of {elements}. Values: {span}."
        )

    def _table(self, board: Board, numbers: CellTexts, frames: Array) -> Table:
        now = [numbers.texts[i] for i in numbers.first.tolist()]
        rows = []
        superstep = np.cumsum([self.steps.stills[i].first for i in frames.tolist()])
        for frame, cell, text in zip(
            numbers.frame.tolist(), numbers.cell.tolist(), numbers.value.tolist(), strict=True
        ):
            old = now[cell]
            now[cell] = numbers.texts[text]
            steps_run = f"{superstep[frame]:,}"
            tile = f"{self.cells.tiles[self.cells.box[cell]]}"
            rows.append((steps_run, tile, board.said(cell), old, now[cell]))
        return ("superstep", "tile", "element", "old", "new"), tuple(rows)


def _variables(names: Sequence[str]) -> str:
    """Return the names of variables in quotes for a title.

    If there are more than two, the text has the first name and the number of the others. All
    replicas of a variable count as one name.
    """
    plain = list(dict.fromkeys(without_replica(name)[0] for name in names))
    quoted = [f"'{label(name, 40)}'" for name in plain[: 2 if len(plain) < 3 else 1]]
    more = [f"{len(plain) - 1} more variables"] if len(plain) > 2 else []
    return " and ".join(quoted + more)


def _bytes_moved(still: Still, is_resting: bool) -> tuple[bool, int]:
    """Return the sort key by which the title chooses one of the stills of a superstep.

    If the still at which the picture rests has messages between tiles, it has the highest key.
    Otherwise, the still with the most bytes between tiles has the highest key.
    """
    messages = still.flows.get("messages", ())
    size = sum(m.size for m in messages if m.source >= 0 <= int(m.receivers[0]))
    return is_resting and size > 0, size
