"""The frames of the view `run`: a still for each phase of a superstep, with its messages."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ipu_teach.cost.phases import COMPUTE, EXCHANGE, HOST, LINKS, STREAMING, SYNC, Phase
from ipu_teach.cost.transfers import Transfers
from ipu_teach.report.recording import HOST as BY_HOST
from ipu_teach.show import palette
from ipu_teach.show.origins import Step
from ipu_teach.show.palette import REST, STATE, STATES
from ipu_teach.show.report_facts import (
    numbered,
    short_step_name,
    sources,
    waited_for,
)
from ipu_teach.show.run_cells import DrawnCells
from ipu_teach.show.scene import (
    Message,
    Still,
)
from ipu_teach.show.segments import at_work, parts
from ipu_teach.types import Array

BEATS = (
    *STATES,
    replace(palette.CHANGE, name="values change (thick line: written, thin: sent or read)"),
)
WAIT = BEATS.index(palette.WAIT)
CHANGE = len(STATES)
MOST_FRAMES = 3000
STOP = 0.9  # The fraction of a phase with messages at which stepping stops.


class RecordedSteps:
    """The supersteps of a recording as stills, and the frames that show them.

    Attributes:
        moved: for each still, (whether messages between tiles are drawn, the bytes of its
            messages).
        undrawn: for each still, the bytes that arrive but are in no drawn message.
        rounds: for each still that begins a step of a Repeat, the number of that step.
        times: for each step of a Repeat, (executions before the recording, executions in all).
        gains: for each recorded step, by how many cycles it makes the run longer.
        place_of: for each frame, the index of its step in the recording.
    """

    def __init__(self, cells: DrawnCells) -> None:
        self.cells = cells
        self.recording = cells.recording
        self.report = cells.report
        self.tracks = cells.tracks
        self.stills: list[Still] = []
        self.sources: dict[str, int] = {}
        self.moved: dict[int, tuple[bool, int]] = {}
        self.undrawn: dict[int, int] = {}
        self.rounds: dict[int, int] = {}
        self._count_rounds()
        self.gains = self._gains()
        # Values that the host writes before the first step are part of the first frame.
        self.begins = int(self.recording.steps[0] == BY_HOST)

    def _count_rounds(self) -> None:
        """Set the attributes `repeated` and `times`.

        `repeated` is the set of the steps in a Repeat. `times` maps each of these steps to the
        number of its executions before the recording, and in the whole run.
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

    def _gains(self) -> list[int]:
        """Return a list with the cycles by which each recorded step makes the run longer.

        The work of an IPU adds nothing while another IPU works for longer.
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

    def frames(self, max_frames: int) -> tuple[Array, dict[int, int], int, Array]:
        """Return `(stills, changes, supersteps, clock)`.

        * stills: the index of the still of each frame.
        * changes: a dict that maps the index of a step in the recording to the frame that shows the
          values it changes.
        * supersteps: the number of supersteps that are shown.
        * clock: the cycle at which each frame begins, followed by the end of the last frame.

        The supersteps that are shown change at most `max_frames` cells in total, except that the
        first superstep is always shown.
        """
        # Maps the position of a step in the recording to the number of cells that the step changes.
        changing: Counter[int] = Counter()
        for own_cells, track in zip(self.cells.own, self.tracks, strict=True):
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
        # `lasts` contains the cycles by which each frame makes the run longer. A step that overlaps
        # another step makes the run longer by fewer cycles than the step takes; its last frames get
        # these cycles.
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
        """Add the stills of a step, and return `(indices, change)`.

        `indices` are the indices of the stills of its phases, and `change` is the index of the
        still that follows them and shows the written values. `step` is the number of a compiled
        step, or HOST for values that the host writes.
        """
        first = len(self.stills)
        if step == BY_HOST:
            self.stills.append(
                Still("change: the host writes between two runs", "", CHANGE, 0, first=False)
            )
            return [], first
        does = self.cells.elements.step(step, self.report.profile.steps[step].compute_set)
        leaf = self.report.profile.leaf(step).step
        self.rounds |= {first: leaf} if leaf in self.repeated else {}
        of = self.report.target.set_of(np.arange(self.report.target.num_tiles))
        taking_part = at_work(self.report, step)[of]
        for phase in self.report.phases(step):
            self.stills.append(self._phase_still(step, phase, does, taking_part, first))
        last = len(self.stills)
        self.stills.append(
            Still(
                f"change: {short_step_name(self.report, step, 48)}",
                "what was written is there",
                CHANGE,
                0,
                first=last == first,
                cells={"board": (0, 1, 0)},
                source=self._source(step),
                touches={"board": (np.zeros(0, np.int64), self.cells.drawn(does.writes))},
                origins=self.cells.origins(does.origins),
            )
        )
        return list(range(first, last)), last

    def _phase_still(
        self, step: int, phase: Phase, does: Step, taking_part: Array, first: int
    ) -> Still:
        """Return the still that shows a phase of a compiled step.

        `first` is the index of the step's first still. `does` contains what the step reads, writes
        and copies. `taking_part` is bool[tiles]: whether the IPU of a tile takes part in the step.
        """
        carried = list(self._messages(phase, does))
        messages = tuple(message for message, _ in carried)
        note = "every tile waits for the last one" if phase.kind == SYNC else ""
        if phase.busy is not None:
            note = waited_for(phase, taking_part)
        if phase.exchange >= 0:
            total = self.report.step_cost(step).exchange[phase.exchange].total
            arrive = f"{total:,} bytes arrive; "
            arrive += self._undrawn(step, phase, messages, does.by_host)
            note = arrive + self._largest(phase, carried) + self._own(does, messages) + note
        elif phase.kind == LINKS:
            note = (self._largest(phase, carried) + self._own(does, messages)).removesuffix("; ")
        self.moved[len(self.stills)] = (
            phase.kind in (EXCHANGE, LINKS) and bool(messages),
            sum(m.size for m in messages),
        )
        busy = np.where(
            taking_part, phase.cycles if phase.busy is None else phase.busy, phase.cycles
        )
        code = np.where(taking_part, STATE[phase.kind], STATES.index(REST))
        return Still(
            f"{phase.kind}: {short_step_name(self.report, step, 48)}",
            note,
            STATE[phase.kind],
            phase.cycles,
            first=len(self.stills) == first,
            cells={"board": (code[self.cells.tiles], busy[self.cells.tiles], WAIT)},
            flows={"messages": messages} if messages else {},
            source=self._source(step),
            at=STOP if messages else 1,
            touches=self._touches(phase, does, messages),
        )

    def _touches(
        self, phase: Phase, does: Step, messages: tuple[Message, ...]
    ) -> dict[str, tuple[Array, Array]]:
        """Return `{"board": (read, written)}`, the cells of the picture that are highlighted.

        `read` are the drawn cells that the phase reads or sends, and `written` are the drawn cells
        that its step writes. The result is {} unless the phase has messages or is a compute phase.
        """
        if phase.kind == COMPUTE:
            return {"board": (self.cells.drawn(does.reads), self.cells.drawn(does.writes))}
        if not messages:
            return {}
        sent = np.unique(np.concatenate([message.cells for message in messages]))
        return {"board": (sent, self.cells.drawn(does.writes))}

    def _messages(self, phase: Phase, does: Step) -> Iterator[tuple[Message, Array]]:
        """Yield `(message, elements)` for each message of a phase that is drawn.

        There is one message for each pair of tiles on the same IPU. All elements from one IPU to
        another form one message, which is drawn from the first box of the sending IPU to the first
        box of the receiving IPU.
        """
        if phase.kind in (HOST, STREAMING):
            under_way = [(does.comes or does.goes, does.after)]
        elif phase.kind in (EXCHANGE, LINKS) and not does.by_host:
            first = [(does.comes, does.after), (does.copied, True)]
            last = [(does.goes, True)]
            under_way = first + last if phase.kind == LINKS else last if phase.exchange else first
        else:
            return
        tiles = self.cells.tiles.tolist()
        boxes = {tile: box for box, tile in enumerate(tiles)} | {BY_HOST: BY_HOST}
        firsts = {tile // self.cells.per_ipu: boxes[tile] for tile in reversed(tiles)}
        messages_by_pair: dict[tuple[int, int, bool], list[Array]] = defaultdict(list)
        for crossing, after in under_way:
            for ends, cells in crossing.items():
                ipus = [tile // self.cells.per_ipu for tile in ends]
                links = min(ends) >= 0 and ipus[0] != ipus[1]
                a, b = map(firsts.get, ipus) if links else map(boxes.get, ends)
                if a is not None and b is not None and links == (phase.kind == LINKS):
                    messages_by_pair[a, b, after].append(cells)
        for (source, to, after), subset in messages_by_pair.items():
            cells = np.concatenate(subset)
            is_drawn = self.cells.drawn(cells)
            size = int(self.cells.size[cells].sum())
            end = phase.cycles if phase.busy is None else int(phase.busy[tiles[to]])
            # A message arrives by the moment at which stepping stops, so that it covers no cell.
            end = int(STOP * end)
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
        """Return a text with the bytes of all drawn messages of a phase, and the largest message.

        `carried` has (message, elements) of each drawn message. The text is "" if there are fewer
        than two messages, or if the messages are not between tiles or IPUs.
        """
        if len(carried) < 2 or phase.kind not in (EXCHANGE, LINKS):
            return ""
        message, elements = max(carried, key=lambda pair: pair[0].size)
        sizes = [message.size for message, _ in carried]
        address = self.cells.elements.address[elements]
        names, _ = self.cells.elements.named(address[[0, -1]])
        ends = self.cells.element_names(address[[0, -1]])
        what = " to ".join(dict.fromkeys(ends))
        if names[0] != names[-1] or np.any(np.diff(address) != self.cells.size[elements[0]]):
            what = f"{ends[0]} and {len(elements) - 1:,} more"
        tiles = [int(self.cells.tiles[box]) for box in (message.source, int(message.receivers[0]))]
        if phase.kind == LINKS:
            tiles = [tile // self.cells.per_ipu for tile in tiles]
        whose = "IPU" if phase.kind == LINKS else "tile"
        way = f"from {whose} {tiles[0]} to {whose} {tiles[1]}"
        drawn = f"{len(carried):,} messages are drawn, {sum(sizes):,} bytes together"
        if min(sizes) == max(sizes):
            return f"{drawn}, {sizes[0]:,} each, such as {what} {way}; "
        return f"{drawn}, the largest of {message.size:,}, {what} {way}; "

    def _own(self, does: Step, messages: tuple[Message, ...]) -> str:
        """Return a text about the elements that a copy writes without a message, on their own tile.

        The text is "" if there are no such elements, or if the phase has no messages.
        """
        if not messages or does.by_host or not does.after:
            return ""
        arriving = [cells for cells in (does.comes | does.copied).values() if len(cells)]
        own = np.setdiff1d(does.writes, np.concatenate(arriving) if arriving else [])
        if not len(own):
            return ""
        return (
            f"{len(own):,} of the {len(does.writes):,} written elements are copied on their own "
            "tile; "
        )

    def _undrawn(
        self, step: int, phase: Phase, messages: tuple[Message, ...], by_host: bool
    ) -> str:
        """Return a text about the bytes that arrive in a phase without a drawn message, or "".

        These bytes belong to tensors that are not shown, or are sent from or to tiles that are not
        drawn. `messages` are the drawn messages. `by_host` is whether the step copies from or to
        the host.
        """
        sent = self.report.transfers(step)[phase.exchange] if phase.exchange >= 0 else ()
        if not isinstance(sent, Transfers) or phase.kind not in (EXCHANGE, LINKS):
            return ""
        links = phase.kind == LINKS
        arrives = boxed = 0  # `boxed` counts only the bytes between tiles that are drawn.
        for source, size, to in zip(sent.source, sent.size, sent.receivers, strict=True):
            away = to // self.cells.per_ipu != source // self.cells.per_ipu
            arrives += int(size) * int(np.count_nonzero(away == links))
            has_boxes = np.isin(to, self.cells.tiles) & np.isin(source, self.cells.tiles)
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
        how_many = f"{undrawn_bytes:,} of them are not" if drawn_bytes else "none is"
        return f"{how_many} drawn: {why}; "

    def _source(self, step: int) -> int:
        """Return the index of the text that is shown below a step, or -1 if there is none.

        The text contains the line of the user's program that added the step, and the source of the
        codelets that the step executes.
        """
        profile = self.report.profile
        facts = profile.steps[step]
        lines = [facts.line]
        if facts.compute_set >= 0:
            lines += [part.line for part in profile.compute_sets[facts.compute_set].parts]
        codelets = [numbered(name, source) for name, source in sources(self.report, step)]
        text = "\n".join([*dict.fromkeys(line for line in lines if line), *codelets])
        return self.sources.setdefault(text, len(self.sources)) if text else -1
