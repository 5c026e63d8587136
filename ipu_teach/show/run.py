"""The view `run`: the numbers of a recorded run, the messages that carry them, and their changes.

Every tile is a box with its elements. A superstep plays in beats: sync, exchange, compute, and the
change of the written elements. In all beats, a thin line marks the elements that are sent or read,
and a thick line those that the superstep writes. A message carries the recorded elements that the
step moves. Its arrival is modelled: the moment when its receiver has all that it waits for.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from ipu_teach.cost.phases import COMPUTE, EXCHANGE, HOST, LINKS, STREAMING, SYNC, Phase
from ipu_teach.cost.transfers import Transfers
from ipu_teach.errors import InvalidOptionError, counted, shown
from ipu_teach.graph.tensor import Tensor
from ipu_teach.graph.variable_table import without_replica
from ipu_teach.report import Recording
from ipu_teach.report.recording import HOST as BY_HOST, Track as Recorded
from ipu_teach.show import palette
from ipu_teach.show.board import FOOT, Places, value
from ipu_teach.show.content import said
from ipu_teach.show.measures import GUTTER, HEAD, LINE, ROW
from ipu_teach.show.origins import Elements, Names, Step
from ipu_teach.show.palette import REST, STATE, STATES
from ipu_teach.show.panels import LEFT, RIGHT, Panels
from ipu_teach.show.report_facts import (
    At,
    model_of,
    numbered,
    resting,
    sources,
    step_name,
    tiles_of,
    titled,
    waited_for,
)
from ipu_teach.show.scene import (
    Board,
    CellTexts,
    Detail,
    Flows,
    Message,
    Origins,
    Scene,
    Sheet,
    Still,
    Table,
    Track,
    Trail,
    label,
    number,
)
from ipu_teach.show.segments import at_work, parts
from ipu_teach.show.view import View
from ipu_teach.types import Array

BEATS = (
    *STATES,
    replace(palette.CHANGE, name="values change (thick line: written)"),
)
WAIT = BEATS.index(palette.WAIT)
CHANGE = len(STATES)
UNWRITTEN = len(BEATS)
STEPS = UNWRITTEN + 2  # the first code of the values

HIGHEST = 220.0  # height of a tensor as an image
MOST_TILES = 64
MOST_CELLS = 512
MOST_TENSORS = 6
MOST_FRAMES = 3000
# (cells of a tensor on a tile, changes), until the scene is small enough.
SIZES = ((16, 8000), (16, 5000), (8, 5000), (8, 3000), (4, 3000), (4, 1500), (2, 1500), (1, 700))
# The page of such a scene, with the script and the picture, has less than 150 kB.
MOST_BYTES = 70_000


def run(recording: Recording, *tensors: Tensor, at: At = None) -> View:
    """Which numbers move between tiles in each superstep, and which change?

    The view shows a recorded run with its numbers: the content of every tile, the messages, and the
    changes of each superstep. `tensors` selects those of the recording to show. At most 64 tiles
    and 512 elements are drawn, and as many supersteps as a scene of 70 kB holds; the view says what
    it leaves out. Cycles are modelled, values are those of the run. `at` is where it rests, as for
    `show.bsp`; by default where the most data is moving between tiles. A thick line marks the
    elements that the superstep writes, a thin line those that it sends or reads.

    Raises `InvalidOptionError` if the argument is not a recording, if nothing has run, or if a
    tensor is not in it.
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
        raise InvalidOptionError(f"""show.run() was asked for {len(tracks)} tensors.
            next:  name at most {MOST_TENSORS} of them: show.run(recording, a, b).""")
    for per, changes in SIZES:
        scene = _Maker(recording, tracks, per).scene(changes, at)
        if len(scene.json()) <= MOST_BYTES:
            break
    return View(scene)


class _Maker:
    """Makes the scene, with at most `per` cells for a tensor on a tile.

    An element has a number over all tensors, a cell is an element that is drawn, and a box is a
    tile that is drawn.

    Attributes:
        held: the tiles that have some of the tensors.
        most: how many tiles of an IPU are drawn at most.
        tiles: the tile of each box.
        per: for each tensor the cells in a box, at most.
        left: int[boxes, tensors], the elements that are not drawn.
        own: for each tensor the elements that are drawn, numbered within the tensor.
        box, row, place: for each cell its box, its tensor, and its place in that row of the box.
        cell: for each element its cell, or -1.
        size: for each element its bytes.
        place_of: for each frame the place of its step in the recording.
    """

    def __init__(self, recording: Recording, tracks: list[Recorded], per: int) -> None:
        assert recording.report is not None
        self.recording = recording
        self.report = recording.report
        self.tracks = tracks
        self.names = Names()
        self.ipus = self.report.target.num_ipus
        self.per_ipu = self.report.target.tiles_per_ipu
        self.stills: list[Still] = []
        self.sources: dict[str, int] = {}
        # for each still, whether tiles send to tiles in it, and the bytes of its messages
        self.moved: dict[int, tuple[bool, int]] = {}
        # The bytes of each still that no message contains.
        self.undrawn: dict[int, int] = {}
        # for a still with which a step of a Repeat begins, that step
        self.rounds: dict[int, int] = {}
        self._choose_cells(per)
        self._count_rounds()
        self.gains = self._gains()  # how much longer each recorded step makes the run
        # The values that the host wrote before the first step are there when it begins.
        self.begins = int(recording.steps[0] == BY_HOST)

    def _choose_cells(self, per: int) -> None:
        """Choose the tiles and the elements that are drawn, at most `per` of a tensor on a tile."""
        tile_map = self.recording.compiled.graph.tile_map
        tiles = [tile_map.at(track.address).astype(np.int64) for track in self.tracks]
        distinct_tiles = np.unique(np.concatenate(tiles))
        self.held = distinct_tiles[distinct_tiles >= 0]
        ipu = self.held // self.per_ipu
        rank = np.arange(len(ipu)) - np.searchsorted(ipu, ipu)  # within the IPU
        self.most = max(1, MOST_TILES // self.ipus)
        self.tiles = self.held[rank < self.most][:MOST_TILES]
        # elements in each box (row of the array) of each tensor (column)
        counts = np.array(
            [[np.count_nonzero(t == tile) for t in tiles] for tile in self.tiles.tolist()]
        )
        while np.minimum(counts, per).sum() > MOST_CELLS and per > 1:
            per //= 2
        self.per = np.minimum(per, counts.max(axis=0))
        self.left = np.maximum(counts - self.per, 0)
        self.own: list[Array] = []  # for each tensor the drawn elements, tile by tile
        boxes = []
        rows = []
        places = []
        for row, tile in enumerate(tiles):
            order = np.argsort(tile, kind="stable")
            order = order[np.isin(tile[order], self.tiles)]
            within = np.arange(len(order)) - np.searchsorted(tile[order], tile[order])
            drawn = order[within < per]
            self.own.append(drawn)
            boxes.append(np.searchsorted(self.tiles, tile[drawn]))
            rows.append(np.full(len(drawn), row))
            places.append(within[within < per])
        self.box = np.concatenate(boxes)
        self.row = np.concatenate(rows)
        self.place = np.concatenate(places)
        self._name_cells()

    def _name_cells(self) -> None:
        """Number the elements of all tensors, and name those that are drawn."""
        self.elements = Elements(
            model_of(self.report, "run"),
            np.concatenate([track.address for track in self.tracks]),
            self.names,
            self.tiles,
        )
        before = np.cumsum([0, *(len(track.address) for track in self.tracks)])
        drawn = np.concatenate(
            [first + own_cells for first, own_cells in zip(before, self.own, strict=False)]
        )
        self.cell = np.full(before[-1], -1)
        self.cell[drawn] = np.arange(len(drawn))
        self.named, self.index = self.elements.named(self.elements.address[drawn])
        names_by_row = [
            [self.names.names[i] for i in np.unique(self.named[self.row == row]).tolist()]
            for row in range(len(self.tracks))
        ]
        self.titles = [_joined(names) for names in names_by_row]
        self.size = np.repeat([track.tensor.dtype.size for track in self.tracks], np.diff(before))

    def _count_rounds(self) -> None:
        """Find the steps that a Repeat runs, and how often each runs.

        `times` has, by step, how often it ran before the recording and how often in all.
        """
        profile = self.report.profile
        nodes = [node for program in profile.programs for _, node in program.walk()]
        loops = [node for node in nodes if node.kind.startswith("Repeat")]
        self.repeated = {below.step for node in loops for _, below in node.walk()}
        leaves = [profile.leaf(n).step for n in range(len(profile.steps))]
        steps_run = np.array(leaves, np.int64)[self.report.step_numbers].tolist()
        earlier = Counter(steps_run[: self.recording.first])
        self.times = {
            leaf: (earlier[leaf], count)
            for leaf, count in Counter(steps_run).items()
            if leaf in self.repeated
        }

    def scene(self, max_frames: int, at: At = None) -> Scene:
        """Return the scene of the supersteps that together change at most `max_frames` cells.

        It rests `at` a superstep.
        """
        frames, changed_in, device_steps, clock = self._frames(max_frames)
        numbers = self._numbers(changed_in)
        spans, bounds, ramp = self._ramp(numbers)
        poster = self._poster(frames, numbers, at)
        tensors = " and ".join(dict.fromkeys(self.titles))
        rims = tuple(
            replace(rim, name=f"{label(name, 24)} (its rim), {span}")
            for name, span, rim in zip(self.titles, spans, palette.RIMS, strict=False)
        )
        codes = (*BEATS, palette.UNWRITTEN, palette.NOT_A_NUMBER, *ramp, *rims)
        panels = Panels()
        board = self._board(numbers, spans, bounds, range(len(codes) - len(rims), len(codes)))
        self._put(panels, board)
        panels.notes += self._notes(device_steps)
        return panels.scene(
            "run",
            titled(self.report, self._title(frames, poster)),
            self._sentence(tensors, numbers),
            foot=22,
            codes=codes,
            stills=tuple(self.stills),
            frames=frames,
            table=self._table(board, numbers, frames),
            poster=poster,
            sources=tuple(self.sources),
            numbers={"board": numbers},
            data={"rounds": self.rounds, "times": self.times},
            clock=clock if self.report.target.num_sets > 1 else None,
        )

    def _poster(self, frames: Array, numbers: CellTexts, at: At) -> int:
        """Return the frame at which the picture rests.

        It is the longest frame `at` a superstep, by default the one in which most data moves
        between tiles.
        """
        if at is not None:
            stills = [self.stills[i] for i in frames.tolist()]
            begins = np.arange(self.recording.first, len(self.report.step_numbers))
            return resting("run", stills, self.report, at, begins=begins)
        # beats that move equally much are ranked by their distance from the middle
        middle = len(frames) // 2
        known = self._known(numbers, len(frames))
        enough = known >= known.max() / 2  # a beat that writes little shows little

        def rank(frame: int) -> tuple[bool, bool, int, int]:
            moves, size = self.moved.get(int(frames[frame]), (False, 0))
            return moves, bool(enough[frame]), size, -abs(frame - middle)

        return max(range(len(frames)), key=rank)

    def _board(
        self,
        numbers: CellTexts,
        spans: Sequence[str],
        bounds: tuple[tuple[float, ...], ...],
        rims: Iterable[int],
    ) -> Board:
        """Return the boxes of the tiles.

        `spans` are the ranges of the tensors' values as texts, `bounds` the values between their
        colours, and `rims` the codes of their rims.
        """
        changes_of_cell = np.bincount(numbers.cell, minlength=len(self.box))
        count = len(self.tiles)
        heading = counted(count, "tile")
        if count < len(self.held):
            heading = f"{count} of {counted(len(self.held), 'tile')}"
        if len(self.titles) == 1:
            heading += f"; {label(self.titles[0], 32)}, {spans[0]}"
        return Board(
            "board",
            heading,
            count=len(self.box),
            tiles=tuple(self.tiles.tolist()),
            across=min(count, 2 if count <= 4 else 4 if count <= 16 else 8),
            high=HEAD + ROW * len(self.tracks) + FOOT,
            width=456 - LEFT + (GUTTER if self.ipus > 1 else 0.0),
            per=tuple(self.per.tolist()),
            box=self.box,
            row=self.row,
            place=self.place,
            named=self.named,
            index=self.index,
            names=self.names.names,
            shapes=self.names.shapes,
            rims=tuple(rims),
            left=self.left,
            bounds=bounds,
            steps=STEPS,
            unwritten=UNWRITTEN,
            focus=int(np.flatnonzero(changes_of_cell == changes_of_cell.max())[-1]),
            block=self.per_ipu if self.ipus > 1 else 0,
        )

    def _put(self, panels: Panels, board: Board) -> None:
        """Put the board, and beside it the image of its tensor and the list of a tile.

        Below them are the history of one element, and the run as a strip.
        """
        edge = LEFT + board.width
        board_high = Places(board).tall
        tall = max(board_high, 200.0)
        panels.put(board, right=edge, high=board_high)
        image = self._sheet(edge + 24)
        if image is not None:
            panels.put(image, left=edge + 24, high=image.height)
        down = 0.0 if image is None else image.height + 26
        listed = LINE * int(np.bincount(self.box).max()) + 4
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
        """Return the one tensor as an image, if it has two dimensions and all of it is drawn."""
        shape = self.tracks[0].tensor.shape
        if len(self.tracks) > 1 or len(shape) != 2 or min(shape) < 2:
            return None
        if len(self.box) < self.tracks[0].tensor.num_elements:
            return None
        side = min((RIGHT - left) / shape[1], HIGHEST / shape[0])
        heading = f"{label(self.titles[0], 20)} as an image of {shape[0]} x {shape[1]}"
        return Sheet(
            "sheet",
            heading,
            of="board",
            columns=shape[1],
            place=self.own[0],
            height=side * shape[0],
        )

    # Frames

    def _gains(self) -> list[int]:
        """Return by how many cycles each recorded step makes the run longer.

        Work of an IPU adds nothing while another works for longer.
        """
        cuts = set(self.report.overlap.cuts.tolist())
        clocks = [0] * self.report.target.num_sets
        gains = []
        at = self.recording.first
        for step in self.recording.steps:
            before = max(clocks)
            if step != BY_HOST:
                clocks = [before] * len(clocks) if at in cuts else clocks
                parts(self.report, step, clocks)
                at += 1
            gains.append(max(clocks) - before)
        return gains

    def _frames(self, max_frames: int) -> tuple[Array, dict[int, int], int, Array]:
        """Return (stills, changes, supersteps, clock) of the frames.

        * stills: for each frame the number of its still;
        * changes: by the place of a step in the recording, the frame of its change;
        * supersteps: how many are shown;
        * clock: the cycle at which each frame begins, and the end.

        The supersteps shown together change at most `max_frames` cells.
        """
        changing: Counter[int] = Counter()  # cells that each step changes, by the step's place
        for own_cells, track in zip(self.own, self.tracks, strict=True):
            drawn = np.zeros(len(track.address), bool)
            drawn[own_cells] = True
            upto = bisect_left(
                track.changes, self.begins + MOST_FRAMES, key=lambda change: change[0]
            )
            for place, at, *_ in track.changes[:upto]:
                changing[place] += int(np.count_nonzero(drawn[at]))
        kinds: dict[int, tuple[list[int], int]] = {}
        frames: list[int] = []
        self.place_of: list[int] = []
        # cycles of each frame; of overlapping steps, only the last beats count
        lasts: list[int] = []
        changed_in: dict[int, int] = {}
        device_steps = 0
        for place, step in enumerate(self.recording.steps[self.begins :], self.begins):
            if step not in kinds:
                kinds[step] = self._kind(step)
            phases, change = kinds[step]
            max_frames -= changing[place]
            if frames and (max_frames < 0 or len(frames) + len(phases) + 1 > MOST_FRAMES):
                break
            frames += phases
            left = self.gains[place] - np.cumsum([self.stills[i].cycles for i in phases[::-1]])
            left = np.append(self.gains[place], np.maximum(left, 0))
            lasts += (-np.diff(left)[::-1]).tolist()
            if changing[place] or not phases:
                changed_in[place] = len(frames)
                frames.append(change)
                lasts.append(0)
            self.place_of += [place] * (len(frames) - len(self.place_of))
            device_steps += step != BY_HOST
        return np.array(frames), changed_in, device_steps, np.cumsum([0, *lasts])

    def _kind(self, step: int) -> tuple[list[int], int]:
        """Return the stills of a step: of its phases, and of the change after them."""
        first = len(self.stills)
        if step == BY_HOST:
            self.stills.append(
                Still("change: the host writes between two runs", "", CHANGE, 0, first=False)
            )
            return [], first
        cost = self.report.step_cost(step)
        does = self.elements.step(step, self.report.profile.steps[step].compute_set)
        name = step_name(self.report, step)
        source = self._source(step)
        leaf = self.report.profile.leaf(step).step
        self.rounds |= {first: leaf} if leaf in self.repeated else {}
        # the tiles whose IPU takes part
        of = self.report.target.set_of(np.arange(self.report.target.num_tiles))
        own_cells = at_work(self.report, step)[of]
        for phase in self.report.phases(step):
            note = "every tile waits for the last one" if phase.kind == SYNC else ""
            if phase.busy is not None:
                note = waited_for(phase, own_cells)
            carried = list(self._messages(phase, does))
            messages = tuple(message for message, _ in carried)
            if phase.exchange >= 0:
                arrive = f"{cost.exchange[phase.exchange].total:,} bytes arrive; "
                arrive += self._undrawn(step, phase, messages, does.by_host)
                note = arrive + self._largest(phase, carried) + note
            self.moved[len(self.stills)] = (
                phase.kind in (EXCHANGE, LINKS) and bool(messages),
                sum(m.size for m in messages),
            )
            busy = np.where(
                own_cells, phase.cycles if phase.busy is None else phase.busy, phase.cycles
            )
            code = np.where(own_cells, STATE[phase.kind], STATES.index(REST))
            self.stills.append(
                Still(
                    f"{phase.kind}: {name}",
                    note,
                    STATE[phase.kind],
                    phase.cycles,
                    first=len(self.stills) == first,
                    cells={"board": (code[self.tiles], busy[self.tiles], WAIT)},
                    flows={"messages": messages} if messages else {},
                    source=source,
                    at=0.9 if messages else 1,
                    touches=self._touches(phase, does, messages),
                )
            )
        last = len(self.stills)
        self.stills.append(
            Still(
                f"change: {name}",
                "what was written is there",
                CHANGE,
                0,
                first=last == first,
                cells={"board": (0, 1, 0)},
                source=source,
                touches={"board": (np.zeros(0, np.int64), self._drawn(does.writes))},
                origins=self._origins(does.origins),
            )
        )
        return list(range(first, last)), last

    def _touches(
        self, phase: Phase, does: Step, messages: tuple[Message, ...]
    ) -> dict[str, tuple[Array, Array]]:
        """Return the drawn cells that a phase reads or sends, and those that its step writes."""
        if phase.kind == COMPUTE:
            return {"board": (self._drawn(does.reads), self._drawn(does.writes))}
        if not messages:
            return {}
        sent = np.unique(np.concatenate([message.cells for message in messages]))
        return {"board": (sent, self._drawn(does.writes))}

    def _messages(self, phase: Phase, does: Step) -> Iterator[tuple[Message, Array]]:
        """Yield the messages of a phase with the drawn cells of each, and the elements of each.

        There is one message for each pair of tiles of an IPU, and one for each pair of IPUs, from
        first box to first box.
        """
        if phase.kind in (HOST, STREAMING):
            under_way = [(does.comes or does.goes, does.after)]
        elif phase.kind in (EXCHANGE, LINKS) and not does.by_host:
            first = [(does.comes, does.after), (does.copied, True)]
            last = [(does.goes, True)]
            under_way = first + last if phase.kind == LINKS else last if phase.exchange else first
        else:
            return
        tiles = self.tiles.tolist()
        boxes = {tile: box for box, tile in enumerate(tiles)} | {BY_HOST: BY_HOST}
        firsts = {tile // self.per_ipu: boxes[tile] for tile in reversed(tiles)}
        messages_by_pair: dict[tuple[int, int, bool], list[Array]] = defaultdict(list)
        for crossing, after in under_way:
            for ends, cells in crossing.items():
                ipus = [tile // self.per_ipu for tile in ends]
                links = min(ends) >= 0 and ipus[0] != ipus[1]
                a, b = map(firsts.get, ipus) if links else map(boxes.get, ends)
                if a is not None and b is not None and links == (phase.kind == LINKS):
                    messages_by_pair[a, b, after].append(cells)
        for (source, to, after), subset in messages_by_pair.items():
            cells = np.concatenate(subset)
            is_drawn = self._drawn(cells)
            size = int(self.size[cells].sum())
            end = phase.cycles if phase.busy is None else int(phase.busy[tiles[to]])
            message = Message(
                source,
                np.array([to]),
                size,
                0,
                end=end,
                cells=is_drawn,
                count=len(cells),
                after=after,
            )
            yield message, cells

    def _largest(self, phase: Phase, carried: list[tuple[Message, Array]]) -> str:
        """Return a text with the bytes of all messages of a phase, and the largest message.

        `carried` has each message with its elements. With a single message, the text is "".
        """
        if len(carried) < 2 or phase.kind not in (EXCHANGE, LINKS):
            return ""
        message, elements = max(carried, key=lambda pair: pair[0].size)
        sizes = [message.size for message, _ in carried]
        address = self.elements.address[elements]
        names, index = self.elements.named(address[[0, -1]])
        ends = [
            self.names.element(name, i)
            for name, i in zip(names.tolist(), index.tolist(), strict=True)
        ]
        what = " to ".join(dict.fromkeys(ends))
        if names[0] != names[-1] or np.any(np.diff(address) != self.size[elements[0]]):
            what = f"{ends[0]} and {len(elements) - 1:,} more"
        tiles = [int(self.tiles[box]) for box in (message.source, int(message.receivers[0]))]
        if phase.kind == LINKS:
            tiles = [tile // self.per_ipu for tile in tiles]
        whose = "IPU" if phase.kind == LINKS else "tile"
        way = f"from {whose} {tiles[0]} to {whose} {tiles[1]}"
        drawn = f"{len(carried):,} messages are drawn, {sum(sizes):,} bytes together"
        if min(sizes) == max(sizes):
            return f"{drawn}, {sizes[0]:,} each, such as {what} {way}; "
        return f"{drawn}, the largest of {message.size:,}, {what} {way}; "

    def _undrawn(
        self, step: int, phase: Phase, messages: tuple[Message, ...], by_host: bool
    ) -> str:
        """Return a text with the bytes that arrive in a phase and are in none of its `messages`.

        They are of tensors that are not shown, or one of their ends is a tile without a box.
        `by_host` is whether the step copies from or to the host.
        """
        sent = self.report.transfers(step)[phase.exchange] if phase.exchange >= 0 else ()
        if not isinstance(sent, Transfers) or phase.kind not in (EXCHANGE, LINKS):
            return ""
        links = phase.kind == LINKS
        arrives = boxed = 0  # bytes in all, and those from and to tiles with boxes
        for source, size, to in zip(sent.source, sent.size, sent.receivers, strict=True):
            away = to // self.per_ipu != source // self.per_ipu
            arrives += int(size) * int(np.count_nonzero(away == links))
            has_boxes = np.isin(to, self.tiles) & np.isin(source, self.tiles)
            boxed += int(size) * int(np.count_nonzero((away == links) & has_boxes))
        drawn_bytes = sum(message.size for message in messages)
        undrawn_bytes = arrives - drawn_bytes
        if undrawn_bytes <= 0:
            return ""
        self.undrawn[len(self.stills)] = undrawn_bytes
        hidden, boxless = "are of tensors that are not shown", "go from or to tiles without a box"
        why = f"they {hidden}, or {boxless}"
        if by_host:
            why = "they are on their way from or to the host"
        elif boxed == arrives:
            why = f"they {hidden}"
        elif not links:
            others = boxed - drawn_bytes
            why = f"{others:,} {hidden}, and {arrives - boxed:,} {boxless}"
            why = why if others else f"they {boxless}"
        return f"{undrawn_bytes:,} of them are not drawn: {why}; "

    def _drawn(self, elements: Array) -> Array:
        """Return the cells of those elements that are drawn."""
        cells = self.cell[elements]
        return cells[cells >= 0]

    def _origins(self, origins: tuple[Origins, ...]) -> dict[str, tuple[Origins, ...]]:
        """Return the origins of the elements that are drawn, with their cells."""
        drawn = []
        for origin in origins:
            is_drawn = np.flatnonzero(self.cell[origin.cell] >= 0)
            columns = {key: getattr(origin, key)[is_drawn] for key in ("name", "index", "tile")}
            if len(is_drawn):
                drawn.append(replace(origin, cell=self.cell[origin.cell[is_drawn]], **columns))
        return {"board": tuple(drawn)} if drawn else {}

    def _source(self, step: int) -> int:
        """Return the number of the text beside a step, or -1.

        The text has the learner's line and the codelets that the step runs.
        """
        profile = self.report.profile
        facts = profile.steps[step]
        lines = [facts.line]
        if facts.compute_set >= 0:
            lines += [part.line for part in profile.compute_sets[facts.compute_set].parts]
        codelets = [numbered(name, source) for name, source in sources(self.report, step)]
        text = "\n".join([*dict.fromkeys(line for line in lines if line), *codelets])
        return self.sources.setdefault(text, len(self.sources)) if text else -1

    # Numbers

    def _numbers(self, changed_in: dict[int, int]) -> CellTexts:
        """Return the texts of the cells at first, and their changes frame by frame.

        `changed_in` has, by the place of a step in the recording, the frame of its change.
        """
        texts: dict[str, int] = {}
        first = []
        changes = [np.zeros((0, 3), np.int64)]
        base = 0
        for own_cells, track in zip(self.own, self.tracks, strict=True):

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

    def _known(self, numbers: CellTexts, frames: int) -> Array:
        """Return int64[frames]: the number of cells that are written in each frame."""
        written = np.array([text != "?" for text in numbers.texts], bool)
        now = numbers.first.copy()
        change = np.zeros(frames + 1, np.int64)
        columns = (numbers.frame.tolist(), numbers.cell.tolist(), numbers.value.tolist())
        for frame, cell, value_ in zip(*columns, strict=True):
            change[frame] += int(written[value_]) - int(written[now[cell]])
            now[cell] = value_
        return int(written[numbers.first].sum()) + np.cumsum(change[:frames])

    def _ramp(
        self, numbers: CellTexts
    ) -> tuple[list[str], tuple[tuple[float, ...], ...], tuple[palette.Code, ...]]:
        """Return (the range of each tensor's values, the bounds between its colours, the colours).

        Each tensor has a scale of its own. With values below zero, those near zero are white.
        """
        cells = np.append(np.arange(len(self.row)), numbers.cell)
        values = np.array([value(text) for text in numbers.texts])
        values = values[np.append(numbers.first, numbers.value)]
        ranges = []
        for row in range(len(self.tracks)):
            known = values[(self.row[cells] == row) & np.isfinite(values)]
            ranges.append((float(known.min()), float(known.max())) if len(known) else (0.0, 0.0))
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
        spans = [f"{low:,.6g} to {high:,.6g}" for low, high in ranges]
        bounds = tuple(tuple(float(f"{edge:.6g}") for edge in row.tolist()) for row in edges)
        ramp = (replace(colour, name=name) for colour, name in zip(colours, words, strict=True))
        return spans, bounds, tuple(ramp)

    # Words

    def _notes(self, device_steps: int) -> tuple[str, ...]:
        """Return the notes: how to read the picture, and what it leaves out."""
        notes = [
            "Values are those of the run, cycles are modelled. Each beat plays equally long; the "
            "strip below is to scale.",
            "A message is under way until its receiver has all that it waits for; the order of "
            "messages is not modelled.",
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
        drawn = len(self.box)
        tiles = len(self.held)
        scope = " of each IPU" if self.ipus > 1 else ""
        if self.left.any():
            notes.append(
                f"Of {drawn + int(self.left.sum()):,} elements on these tiles {drawn:,} are drawn."
            )
        if tiles > len(self.tiles):
            notes.append(
                f"Of {tiles:,} tiles with such elements, the first {self.most}{scope} are drawn."
            )
        return tuple(notes)

    def _title(self, frames: Array, poster: int) -> str:
        """Return what moves and what changes in the superstep at which the picture rests."""
        place = self.place_of[poster]
        in_step = [
            self.stills[i] for i, at in zip(frames, self.place_of, strict=True) if at == place
        ]
        resting_at = self.stills[frames[poster]]
        still = max(
            (resting_at, *in_step), key=lambda still: _bytes_moved(still, still is resting_at)
        )
        name = label(resting_at.label.partition(": ")[2], 40)
        moved = [m for m in still.flows.get("messages", ()) if m.source >= 0 <= int(m.receivers[0])]
        changing, drawn = self._changing(place)
        numbers = counted(changing, "number") + " change" + "s" * (changing == 1)
        marked = f"; {drawn:,} are drawn" if drawn < changing else ""
        marked = f" (thick lines{marked})" if drawn else ""
        if not moved:
            return f"In {name} {numbers}{marked}; no drawn number moves between tiles"
        is_far = self.ipus > 1 and still.code == STATE[LINKS]
        where = "from IPU to IPU" if is_far else "from tile to tile"
        drawn_bytes = sum(message.size for message in moved)
        number_of_still = next(i for i, s in enumerate(self.stills) if s is still)
        undrawn_bytes = self.undrawn.get(number_of_still, 0)
        size = f"{drawn_bytes:,} of " * (undrawn_bytes > 0)
        size += counted(drawn_bytes + undrawn_bytes, "byte")
        go = "goes" if len(moved) == 1 else "go"
        messages = f"{counted(len(moved), 'message')}, {size}, {go} {where} in {name}"
        return f"{messages}; then {numbers}{marked}" if changing else messages

    def _changing(self, place: int) -> tuple[int, int]:
        """Return how many recorded numbers a step changes, by its place; how many are drawn."""
        changing = drawn = 0
        for own_cells, track in zip(self.own, self.tracks, strict=True):
            for at_place, at, *_ in track.changes:
                if at_place == place:
                    changing += len(at)
                    drawn += int(np.isin(at, own_cells).sum())
        return changing, drawn

    def _sentence(self, tensors: str, numbers: CellTexts) -> str:
        known = sorted((value(text), text) for text in numbers.texts if np.isfinite(value(text)))
        span = f" Values go from {known[0][1]} to {known[-1][1]}." if known else ""
        steps_run = len(self.recording.steps) - self.recording.steps.count(BY_HOST)
        changes = counted(len(numbers.cell), "change")
        elements = counted(len(self.box), "element")
        return (
            f"The numbers of {tensors} in {counted(steps_run, 'superstep')} on "
            f"{tiles_of(self.report)}, "
            f"{number(sum(self.gains))} modelled cycles. "
            f"The picture has {changes} of {elements}.{span}"
        )

    def _table(self, board: Board, numbers: CellTexts, frames: Array) -> Table:
        now = [numbers.texts[i] for i in numbers.first.tolist()]
        rows = []
        superstep = np.cumsum([self.stills[i].first for i in frames.tolist()])
        for frame, cell, text in zip(
            numbers.frame.tolist(), numbers.cell.tolist(), numbers.value.tolist(), strict=True
        ):
            old = now[cell]
            now[cell] = numbers.texts[text]
            steps_run = f"{superstep[frame]:,}"
            tile = f"{self.tiles[self.box[cell]]}"
            rows.append((steps_run, tile, board.said(cell), old, now[cell]))
        return ("superstep", "tile", "element", "old", "new"), tuple(rows)


def _joined(names: Sequence[str]) -> str:
    """Return the names of the variables of a tensor; a variable of all replicas is named once."""
    members: dict[tuple[str, int], list[str]] = {}
    for name in names:
        members.setdefault(without_replica(name), []).append(name)
    parts: list[str] = []
    for (plain, replicas), full_names in members.items():
        is_complete = len(full_names) == replicas > 1
        parts += [f"{plain} of {replicas} replicas"] if is_complete else full_names
    return " and ".join(parts)


def _signed_bounds(low: float, high: float, whole_numbers: bool) -> Array:
    """Return float[6]: the bounds between the seven colours of values from `low` to `high`.

    For floats, both signs share a scale. For whole numbers, each sign has a scale of its own, and 0
    alone has the middle colour: a mark such as -1 then differs from 0.
    """
    sides = np.array([1, 3, 5]) / 7
    if not whole_numbers:
        furthest = max(-low, high) or 1
        return np.append(-furthest * sides[::-1], furthest * sides)
    below = np.sort([-0.5, *(min(low, -1) * sides[1:])])
    above = np.sort([0.5, *(max(high, 1) * sides[1:])])
    return np.append(below, above)


def _bytes_moved(still: Still, is_resting: bool) -> tuple[bool, int]:
    """Return the key by which the messages of a superstep are chosen: those at rest come first."""
    messages = still.flows.get("messages", ())
    size = sum(m.size for m in messages if m.source >= 0 <= int(m.receivers[0]))
    return is_resting and size > 0, size
