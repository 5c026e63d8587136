"""The view `ring`: the rounds of a collective operation between IPUs.

A round is a superstep in which IPUs send data to each other. The left panel shows the IPUs in ring
order, and the chunks that they send in one round. The right panel shows all rounds, with a row for
each pair of IPUs.

A chunk is a region of the tensor that the collective sums. The module `chunks` follows it byte by
byte. A chunk has the same number and colour in all rounds. A fraction such as 2/4 says how many of
the IPUs have contributed to the sum so far. A sum over all IPUs has a border. Data that is not
summed has the colour of the IPU from which it came.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ipu_teach.cost import CostModel
from ipu_teach.cost.links import around, ring_order, route
from ipu_teach.cost.transfers import Transfers
from ipu_teach.errors import InvalidOptionError, counted
from ipu_teach.report import Recording, Report
from ipu_teach.show.board import rim
from ipu_teach.show.chunks import Chunk, Chunks, Pair
from ipu_teach.show.exchange import ring_of_ipus
from ipu_teach.show.palette import REST, Code, of_tiles
from ipu_teach.show.panels import Cell, Panels, boxes_in_rows, has_room, painted
from ipu_teach.show.report_facts import checked, model_of
from ipu_teach.show.scene import Scene, Still, label, number
from ipu_teach.show.shapes import LETTER, Boxes, Shape, Stroke, Words, rectangles
from ipu_teach.show.view import View
from ipu_teach.types import Array

MOST_ROUNDS = 32
MOST_PAIRS = 32
MOST_TOLD = 4  # The maximum number of messages that the text for a round describes.
MOST_BRIEF = 28  # The maximum number of further messages whose chunks the text names.
MOST_TRACED = 256
SIDE = 264.0
LEFT = 400.0
WIDE = 304.0
# If the boxes of the rounds beside the ring have no room for chunk numbers, the panel of all rounds
# is wider and below the ring.
BELOW_LEFT, BELOW_WIDE = 92.0, 612.0
FRACTION, NUMBER = 2, 3  # Indices of texts that `_Messages.fractions` returns.
SAY = "IPU {i} sends {sends} bytes and receives {receives}"
HEADINGS = (
    "round",
    "superstep",
    "from IPU",
    "to IPU",
    "chunk",
    "sum",
    "began on IPU",
    "bytes",
    "cycles",
)


class Round(NamedTuple):
    """A superstep in which IPUs send data to each other.

    Attributes:
        superstep: the number of the superstep in the run.
        cycles: its modelled cycles.
        sizes: the bytes from one IPU to another, keyed by (sender, receiver).
    """

    superstep: int
    cycles: int
    sizes: Counter[Pair]


def ring(run: Report | Recording) -> View:
    """Which chunk goes to which IPU in each round of a collective, and when is its sum complete?

    Chunks are numbered in the order of their first elements in the tensor. At most 32 rounds and 32
    pairs of IPUs are drawn. If there are more, a note below the picture says so, and the table of
    the picture contains all rounds. Chunks are followed through the first 256 rounds.

    :raises InvalidOptionError: if `run` is neither a report nor a recording, or is a report from a
        file; if no IPU sends data to another; or if no round forms a ring, in which each IPU that
        takes part sends to as many IPUs as send to it.
    """
    report = checked(run.report if isinstance(run, Recording) else run, "ring")
    sizes_of_step: dict[int, Counter[Pair]] = {}
    crossing = []
    for step in report.steps():
        if step.step not in sizes_of_step:
            sizes_of_step[step.step] = bytes_between_ipus(report, step.step)
        if sizes := sizes_of_step[step.step]:
            crossing.append(Round(step.index, step.cycles, sizes))
    if not crossing:
        raise InvalidOptionError("""show.ring() was given a run in which no IPU sends data to
            another IPU.
            next:  run a collective such as gcl.all_reduce_within_replica(graph, tensors, "ADD",
            prog) on several IPUs; show.exchange(report) shows the messages between tiles.""")
    model = model_of(report, "ring")
    rounds = _in_rings(crossing)
    if not rounds:
        raise InvalidOptionError("""show.ring() was given a run without a ring. In a ring, each IPU
            receives from as many IPUs as it sends to, and no superstep of this run is like that.
            next:  show the messages between IPUs with show.exchange(report).""")
    left_out = len(crossing) - len(rounds)
    return View(_RingScene(_Messages(report, model, rounds), left_out).scene())


def _in_rings(crossing: list[Round]) -> list[Round]:
    """Return the rounds that form a ring, or an exchange of all IPUs with all; [] if none does.

    `crossing` contains all supersteps in which IPUs send data to each other.
    """
    if _is_even(crossing):
        return crossing
    rounds = [candidate for candidate in crossing if _is_even([candidate])]
    # Two neighbouring IPUs in a pipeline that send to each other do not form a ring.
    if not _is_even(rounds):
        rounds = [
            candidate
            for candidate in rounds
            if any(len(group) > 2 for group in _groups(candidate.sizes))
        ]
    return rounds if _is_even(rounds) else []


def _is_even(rounds: list[Round]) -> bool:
    """Return whether, in each group, all IPUs send to and receive from the same number of IPUs.

    Two IPUs belong to the same group if a message connects them, directly or through other IPUs.
    """
    pairs = {pair for round_ in rounds for pair in round_.sizes}
    out = Counter(source for source, _ in pairs)
    into = Counter(target for _, target in pairs)
    return all(
        len({(out[ipu], into[ipu]) for ipu in group}) == 1 for group in _groups(pairs)
    ) and all(out[ipu] == into[ipu] for ipu in out | into)


def _groups(pairs: Iterable[Pair]) -> list[set[int]]:
    """Return the sets of IPUs that are connected by `pairs`, directly or through other IPUs."""
    groups: list[set[int]] = []
    for pair in pairs:
        joined = set(pair).union(*(group for group in groups if group & set(pair)))
        groups = [group for group in groups if not group & joined] + [joined]
    return groups


def bytes_between_ipus(report: Report, step: int) -> Counter[Pair]:
    """Return the bytes that a step sends between IPUs, keyed by (sender, receiver).

    Bytes that several tiles of one IPU receive are sent to that IPU once.
    """
    tiles_per_ipu = report.target.tiles_per_ipu
    sizes = Counter[Pair]()
    for transfers in (t for t in report.transfers(step) if isinstance(t, Transfers)):
        columns = zip(transfers.source, transfers.size, transfers.receivers, strict=True)
        for source_tile, size, receivers in columns:
            source = int(source_tile) // tiles_per_ipu
            for target in {int(tile) // tiles_per_ipu for tile in receivers} - {source}:
                sizes[source, target] += int(size)
    return sizes


class _Messages:
    """The messages of the rounds of a run, with the chunks of each message.

    Attributes:
        groups: the sets of IPUs that take part in the same collective.
        chunks: for each round, a dict from (sending IPU, receiving IPU) to a list of the chunks in
            that message; the largest comes first.
        after: for each round, the name of the compute set that follows it, or "".
        links: the bytes over each link, added up over all rounds.
    """

    def __init__(self, report: Report, model: CostModel, rounds: list[Round]) -> None:
        self.report = report
        self.rounds = rounds
        self.order = ring_order(report.target.num_ipus)
        self.pairs = sorted({pair for r in rounds for pair in r.sizes}, key=self._place)
        self.ipus = {ipu for pair in self.pairs for ipu in pair}
        self.groups = _groups(self.pairs)
        self.chunks, self.after = self._follow(model)
        ends = around(report.target)
        self.links = Counter[Pair]()
        for round_ in rounds:
            for (source, target), size in round_.sizes.items():
                for link in route(source, target, ends):
                    self.links[link] += size

    def _follow(self, model: CostModel) -> tuple[list[dict[Pair, list[Chunk]]], list[str]]:
        """Follow the chunks through the run, and return `(chunks, after)`.

        `chunks` has, for each round, a dict from (sending IPU, receiving IPU) to the chunks of the
        message. `after` has, for each round, the name of the compute set that follows it, or "".
        """
        masks = [(group, sum(1 << ipu for ipu in group)) for group in self.groups]
        chunks = Chunks(
            model,
            self.report.target.tiles_per_ipu,
            {ipu: mask for group, mask in masks for ipu in group},
        )
        round_of = {round_.superstep: k for k, round_ in enumerate(self.rounds)}
        steps = [
            (round_of.get(step.index, -1), step.step, step.kind, label(step.name))
            for step in self.report.steps()
        ]
        traced = round_of.get(self.rounds[:MOST_TRACED][-1].superstep, 0)
        ends = [place for place, (k, *_) in enumerate(steps) if k > traced]
        steps = steps[: min(ends, default=len(steps))]
        sent_in: list[dict[Pair, list[Chunk]]] = [{} for _ in self.rounds]
        after = [""] * len(self.rounds)
        current = -1  # The index of the latest round, or -1 before the first round.
        begin = 0
        while begin < len(steps):  # Each pass of this loop follows one collective.
            end = _end_of_collective(chunks, steps, begin)
            for round_number, step, kind, name in steps[begin:end]:
                if round_number >= 0:
                    current = round_number
                elif current >= 0 and kind == "Execute" and not after[current]:
                    after[current] = name
                sent, _ = chunks.step(step, current)
                if round_number >= 0:
                    sent_in[current] = sent
            begin = end
        for round_, sent in zip(self.rounds, sent_in, strict=True):
            # If the chunks that were found do not add up to the bytes of the message, the chunks of
            # that message count as unknown.
            for pair in list(sent):
                if sum(chunk.size for chunk in sent[pair]) != round_.sizes[pair]:
                    del sent[pair]
        return sent_in, after

    def _place(self, pair: Pair) -> tuple[bool, int, int]:
        """Return a key that sorts (sending IPU, receiving IPU) pairs around the ring.

        Clockwise pairs come first, in the clockwise order of their senders. The other pairs follow,
        in the counterclockwise order of their senders.
        """
        count = len(self.order)
        source_place, target_place = map(self.order.index, pair)
        is_back = (target_place - source_place) % count > count // 2
        return is_back, -source_place % count if is_back else source_place, target_place

    def largest(self, k: int, pair: Pair) -> Chunk | None:
        """Return the largest chunk of a message in round `k`; None if its chunks are unknown."""
        return next(iter(self.chunks[k].get(pair, ())), None)

    def _origin(self, k: int, pair: Pair) -> str:
        """Return a description of the known chunks of a message in round `k`; "" without any."""
        return " and ".join(map(self._described, self.chunks[k].get(pair, ())))

    def _described(self, chunk: Chunk) -> str:
        """Return a text with the number of a chunk, and how many IPUs contributed to its sum.

        If the chunk has no number, the text names the IPU on which it began.
        """
        name = f"chunk {chunk.number}" if chunk.number >= 0 else f"data from IPU {chunk.began}"
        if chunk.complete:
            return f"{name}, the sum of all {chunk.parts} IPUs"
        return f"{name}, the sum of {chunk.parts} IPUs" if chunk.parts > 1 else name

    def text(self, k: int, pair: Pair) -> str:
        """Return a text about a message: its IPUs, its bytes, and its chunks if they are known."""
        origin = self._origin(k, pair)
        size = counted(self.rounds[k].sizes[pair], "byte")
        text = f"IPU {pair[0]} to IPU {pair[1]}: {size}"
        return f"{text} of {origin}" if origin else text

    def chunk_text(self, k: int, pair: Pair) -> str:
        """Return a text with the IPUs of a message and the number of its largest chunk.

        The text is "" if the chunk is unknown or has no number.
        """
        chunk = self.largest(k, pair)
        if chunk is None or chunk.number < 0:
            return ""
        return f"{chunk.number} from {pair[0]} to {pair[1]}"

    def count(self, pair: Pair) -> int:
        """Return the number of IPUs in the collective to which a pair of IPUs belongs."""
        return next(len(group) for group in self.groups if pair[0] in group)

    def fractions(self, pair: Pair, chunk: Chunk) -> tuple[str, str, str, str]:
        """Return four labels for the box of a chunk, the longest first.

        The first two contain the number of the chunk, and how many IPUs have contributed to its
        sum, such as "chunk 3: 2 of 4". The label with index `FRACTION` contains only the fraction
        of IPUs, such as "2/4", and the label with index `NUMBER` only the number. If the chunk has
        no number, the labels omit the number.
        """
        count = self.count(pair)
        parts = f"{chunk.parts} of {count}"
        short = f"{chunk.parts}/{count}"
        if chunk.number < 0:
            return parts, short, short, ""
        number = f"{chunk.number}"
        return f"chunk {number}: {parts}", f"{number}: {short}", short, number

    def _columns(self, pair: Pair, chunk: Chunk) -> tuple[str, str, str, str]:
        """Return four texts about a chunk: its number, IPUs in its sum, first IPU, and bytes."""
        number = "" if chunk.number < 0 else f"{chunk.number}"
        parts = f"{chunk.parts} of {self.count(pair)}" if chunk.parts else ""
        began = "" if chunk.began < 0 or chunk.complete else f"{chunk.began}"
        return number, "complete" if chunk.complete else parts, began, f"{chunk.size:,}"

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yield the table rows, one for each chunk; a message of unknown chunks has one row."""
        for k, (superstep, cycles, sizes) in enumerate(self.rounds):
            for pair, size in sizes.items():
                numbers = [f"{n:,}" for n in (k + 1, superstep, *pair)]
                for chunk in self.chunks[k].get(pair, [Chunk(-1, -1, 0, False, size)]):
                    yield (*numbers, *self._columns(pair, chunk), f"{cycles:,}")

    @cached_property
    def complete(self) -> list[bool]:
        """A list: for each round, whether all its chunks are known to be complete sums."""
        return [
            bool(messages) and all(c.complete for chunks in messages.values() for c in chunks)
            for messages in self.chunks
        ]

    def sentence(self) -> str:
        """Return a sentence: the number of rounds, the ring, and the bytes of the busiest link."""
        cycles = sum(round_.cycles for round_ in self.rounds)
        total = self.report.total_cycles
        name = ring_of_ipus(np.array(self.pairs).T)
        (source, target), busiest = self.links.most_common(1)[0]
        largest = max(max(round_.sizes.values()) for round_ in self.rounds)
        rounds = counted(len(self.rounds), "round")
        return (
            f"{rounds} {'round the ring IPU ' + name if name else 'of IPUs'}: an IPU sends another "
            f"at most {counted(largest, 'byte')} a round. {counted(len(self.links), 'link')} carry "
            f"{sum(self.links.values()):,} bytes in all, the busiest, from IPU {source} to IPU "
            f"{target}, {busiest:,}; the rounds take {100 * cycles / total:.1f} % of "
            f"{number(total)} modelled cycles."
        )

    def title(self) -> str:
        """Return the title: the round that completes the sums, or else the number of rounds."""
        complete = self.complete
        rounds = counted(len(self.rounds), "round")
        if True in complete and (first := complete.index(True)):
            begins = f"After round {first} the sums are complete"
            owners = {c.began for chunks in self.chunks[first].values() for c in chunks}
            if owners == self.ipus:
                begins += ", one chunk on each IPU"
            last = next((k for k in range(first, len(complete)) if not complete[k]), len(complete))
            hand = "hands" if last == first + 1 else "hand"
            return f"{begins}; {counted(last - first, 'more round')} {hand} them on"
        return f"{rounds} between {counted(len(self.ipus), 'IPU')}"


def _names_of_rounds(shown: int, wide: float, y: float) -> list[Words]:
    """Return the labels of the first `shown` rounds, each below the column of the round.

    Columns are `wide` wide. If there is no room for all labels, only every n-th label is returned.
    """
    names = [f"round {k + 1}" for k in range(shown)]
    if not has_room(names[-1], wide):
        names = [f"{k + 1}" for k in range(shown)]
    # There is room for a name in one of `every` columns.
    every = int(np.ceil((len(names[-1]) + 0.5) * LETTER / wide))
    words = [
        Words((k + 0.47) * wide, y, names[k], 11, anchor="middle") for k in range(0, shown, every)
    ]
    if names[0] == "1":
        words.append(Words(-6, y, "round", 11, anchor="end"))
    return words


class _RingScene:
    """The panels of the scene. `left_out` is the number of supersteps that form no ring."""

    def __init__(self, messages: _Messages, left_out: int) -> None:
        self.messages = messages
        self.left_out = left_out

    def scene(self) -> Scene:
        """Return the scene, with a frame for each round."""
        shown = len(self.messages.rounds[:MOST_ROUNDS])
        panels = Panels()
        panels.first(shown, len(self.messages.rounds), "rounds")
        panels.first(
            len(self.messages.pairs[:MOST_PAIRS]), len(self.messages.pairs), "pairs of IPUs"
        )
        codes, chunks_per_code = self._codes()
        self._put_ring(panels, shown, codes, chunks_per_code)
        self._put_rounds(panels, shown, codes, chunks_per_code)
        return panels.scene(
            "ring",
            self.messages.title(),
            self.messages.sentence(),
            foot=12,
            codes=(*codes, REST),
            stills=map(self._still, range(shown)),
            poster=self._poster(),
            group="round",
            table=(HEADINGS, self.messages.rows()),
        )

    @cached_property
    def _keys(self) -> list[tuple[int, int]]:
        """The keys of all chunks: (number, -1), or (-1, first IPU) for a chunk without a number."""
        every = (
            chunk for sent in self.messages.chunks for chunks in sent.values() for chunk in chunks
        )
        return sorted({_key(chunk) for chunk in every}, key=lambda key: (key[0] < 0, key))

    def _codes(self) -> tuple[tuple[Code, ...], int]:
        """Return `(codes, chunks per code)`: the colours, and how many chunks share a colour.

        If there are too many chunks, neighbouring chunks share a colour.
        """
        hues, per_colour = of_tiles(max(1, len(self._keys)))
        codes = []
        for i, hue in enumerate(hues):
            keys = self._keys[i * per_colour : (i + 1) * per_colour]
            ends = [
                f"chunk {number}" if number >= 0 else f"data from IPU {ipu}"
                for number, ipu in dict.fromkeys((*keys[:1], *keys[-1:]))
            ]
            codes.append(replace(hue, name=" to ".join(ends), letter="", listed=True))
        return tuple(codes), per_colour

    def _code(self, chunk: Chunk | None, codes: int, chunks_per_code: int) -> int:
        """Return the index of the colour of a chunk, or `codes` if the chunk is None (unknown).

        `codes` is the number of colours. Each colour stands for `chunks_per_code` chunks.
        """
        return codes if chunk is None else self._keys.index(_key(chunk)) // chunks_per_code

    def _put_ring(
        self, panels: Panels, shown: int, codes: tuple[Code, ...], chunks_per_code: int
    ) -> None:
        """Put the panel with the IPUs in ring order, with a picture for each of the `shown` rounds.

        `codes` are the colours of the chunks, each of which stands for `chunks_per_code` chunks.
        """
        count = len(self.messages.order)
        angle = 2 * np.pi * np.argsort(self.messages.order) / count - np.pi / 2
        unit = np.stack((np.cos(angle), np.sin(angle)), axis=1)
        middles = SIDE / 2 + (SIDE / 2 - 26) * unit
        wide = min(48.0, 400 / count)
        high = min(24.0, 400 / count)
        places = rectangles(middles[:, 0] - wide / 2, middles[:, 1] - high / 2, wide, high)
        ipus = Boxes(len(codes), places)
        pictures = [self._round(k, middles, ipus, chunks_per_code) for k in range(shown)]
        heading = "a round: chunks (coloured) from IPU to IPU (grey)"
        panels.put(painted("ring", heading, SIDE, SIDE, pictures=pictures, places=places))

    def _put_rounds(
        self, panels: Panels, shown: int, codes: tuple[Code, ...], chunks_per_code: int
    ) -> None:
        """Put the panel with a row for each pair of IPUs and a column for each round.

        `shown` is the number of rounds that are drawn. `codes` are the colours of the chunks, each
        of which stands for `chunks_per_code` chunks.
        """
        pairs = self.messages.pairs[:MOST_PAIRS]
        pitch = min(33.0, SIDE / len(pairs))
        sums = any(
            c.parts > 1 for sent in self.messages.chunks for chunks in sent.values() for c in chunks
        )
        left, width = LEFT, WIDE
        kind = self._kind(width / shown) if sums else None
        if sums and kind is None:
            left, width = BELOW_LEFT, BELOW_WIDE
            panels.below()
            kind = self._kind(width / shown)
        wide = width / shown
        cells: list[Cell] = []
        complete: list[tuple[int, int]] = []
        for k, round_ in enumerate(self.messages.rounds[:shown]):
            for row, pair in enumerate(pairs):
                if pair in round_.sizes:
                    chunk = self.messages.largest(k, pair)
                    if chunk is not None and chunk.complete:
                        complete.append((row, k))
                    code = self._code(chunk, len(codes), chunks_per_code)
                    size = f"{round_.sizes[pair]:,}"
                    texts: tuple[str, ...] = (size,)
                    if chunk is not None and sums:
                        texts = (
                            () if kind is None else (self.messages.fractions(pair, chunk)[kind],)
                        )
                    description = f"round {k + 1}: {self.messages.text(k, pair)}"
                    cells.append((row, k, code, texts, description))
        heading = "all rounds: bytes in the colour of their chunk"
        if sums:
            heading = self._heading(kind, chunks_per_code)
        table = boxes_in_rows(
            "rounds",
            heading,
            width=width,
            pitch=pitch,
            columns=shown,
            rows=[f"IPU {source} to {target}" for source, target in pairs],
            cells=cells,
        )
        low = table.height + 4
        cursors = (Stroke(((k * wide, low), ((k + 0.94) * wide, low)), 4) for k in range(shown))
        borders = [
            shape
            for row, k in complete
            for shape in rim(k * wide, row * pitch, 0.94 * wide, 0.9 * pitch, thick=1.5)
        ]
        under = _names_of_rounds(shown, wide, low + 16)
        pictures = tuple((*table.pictures[0], *borders, *under, cursor) for cursor in cursors)
        panels.notes += self._notes(has_frames=bool(borders))
        panels.put(replace(table, height=low + 20, pictures=pictures), left=left)

    def _notes(self, has_frames: bool) -> Iterator[str]:
        """Yield the notes below the picture, about chunks, frames and omitted supersteps."""
        if any(number >= 0 for number, _ in self._keys):
            yield (
                "A chunk is a part of the tensor that is summed. Chunks are numbered in the order "
                "of their first elements. A chunk keeps its number and colour in all rounds."
            )
        if has_frames:
            yield "A frame marks a complete sum, to which all IPUs have added."
        if self.left_out:
            yield (
                f"{counted(self.left_out, 'superstep')} in which IPUs send to each other without a "
                "ring are left out; show.exchange(report) has them."
            )

    @cached_property
    def _sent(self) -> list[tuple[Pair, Chunk]]:
        """A (pair of IPUs, largest chunk) tuple for each message whose chunks are known."""
        return [
            (pair, chunk)
            for messages in self.messages.chunks
            for pair, chunks in messages.items()
            for chunk in chunks[:1]
        ]

    def _kind(self, wide: float) -> int | None:
        """Return which label of `fractions` is the longest that fits into all boxes, as an index.

        Each box is `wide` units wide. The result is None if no label fits into all boxes.
        """
        texts = [self.messages.fractions(pair, chunk) for pair, chunk in self._sent]
        kinds = range(len(texts[0]))
        return next((k for k in kinds if all(has_room(text[k], wide) for text in texts)), None)

    def _heading(self, kind: int | None, chunks_per_code: int) -> str:
        """Return the heading of the panel of all rounds.

        The heading explains what the boxes show: label `kind` of the labels that `fractions`
        returns. If `kind` is None, the boxes have no labels and the heading explains the colours,
        each of which stands for `chunks_per_code` chunks.
        """
        if kind == NUMBER:
            chunks = "chunks by colour, and by number where there is room"
            return f"all rounds: {chunks}; frame: complete sum"
        if kind is None:
            if chunks_per_code > 1:
                return f"all rounds: each colour is {chunks_per_code} chunks; frame: complete sum"
            return "all rounds: the colour of a box is its chunk; frame: complete sum"
        # The example is the largest incomplete sum, if there is one.
        pair, example = max(self._sent, key=lambda sent: (not sent[1].complete, sent[1].parts))
        text = self.messages.fractions(pair, example)[kind]
        chunk = f"chunk {example.number}, " if example.number >= 0 and kind < FRACTION else ""
        count = self.messages.count(pair)
        return f"all rounds; {text}: {chunk}the sum of {example.parts} of {count} IPUs"

    def _poster(self) -> int:
        """Return the index of the first drawn round with only complete sums, or 0."""
        complete = self.messages.complete[:MOST_ROUNDS]
        return complete.index(True) if True in complete else 0

    def _still(self, k: int) -> Still:
        """Return the still of round `k`."""
        _, cycles, sizes = self.messages.rounds[k]
        told, rest = list(sizes)[:MOST_TOLD], list(sizes)[MOST_TOLD:]
        parts = [self.messages.text(k, pair) for pair in told]
        brief = [self.messages.chunk_text(k, pair) for pair in rest[:MOST_BRIEF]]
        if brief and all(brief):  # The text names only the chunks of other messages.
            parts.append(f"chunks of others: {', '.join(brief)}")
            rest = rest[MOST_BRIEF:]
        if rest:
            parts.append(f"{len(rest)} more messages")
        if self.messages.after[k]:
            parts.append(f"then the IPUs compute {self.messages.after[k]}")
        # Row 0 has the bytes that each IPU sends, and row 1 the bytes that it receives.
        bytes_of_ipu = np.zeros((2, len(self.messages.order)), np.int64)
        for pair, size in sizes.items():
            bytes_of_ipu[(0, 1), pair] += size
        return Still(
            label=f"{counted(len(sizes), 'message')}",
            note="; ".join(parts),
            code=0,
            cycles=cycles,
            first=True,
            pictures={"ring": k, "rounds": k},
            about={"ring": (SAY, {"sends": bytes_of_ipu[0], "receives": bytes_of_ipu[1]})},
        )

    def _round(
        self, k: int, middles: Array, ipus: Boxes, chunks_per_code: int
    ) -> tuple[Shape, ...]:
        """Return the shapes of round `k`: the IPUs, and an arrow for each message.

        A square on the arrow shows the largest chunk of the message. The width of the arrow is
        proportional to the bytes of the message.
        """
        sizes = self.messages.rounds[k].sizes
        shapes: list[Shape] = [ipus]
        largest = max(sizes.values())
        side = min(16.0, 200 / len(middles))
        for (source, target), size in sizes.items():
            direction = middles[target] - middles[source]
            direction = direction / np.hypot(*direction)
            aside: Array = np.zeros(2)
            if (target, source) in sizes:  # Two arrows in opposite directions must not overlap.
                aside = 10 * np.array((-direction[1], direction[0]))
            # With many IPUs, their boxes are close together and arrows are short, so the chunks are
            # drawn outside the ring.
            distance = float(np.hypot(*(middles[target] - middles[source])))
            near = distance < 44 + 2 * side
            before, after = (14.0, 16.0) if near else (20.0, 24.0)
            begin = middles[source] + before * direction + aside
            end = middles[target] - after * direction + aside
            middle = (begin + end) / 2
            first, last = (tuple(p.tolist()) for p in (begin, end))
            bend = tuple(middle.tolist())
            if near:
                outward = middle - SIDE / 2
                middle = middle + 16 * outward / max(1.0, float(np.hypot(*outward)))
            x, y = middle.tolist()
            shapes.append(Stroke((first, bend, last), 1 + 2 * size / largest, arrow=True))
            chunk = self.messages.largest(k, (source, target))
            box = rectangles(x - side / 2, y - side / 2, side, side)
            code = self._code(chunk, ipus.code, chunks_per_code)
            shapes.append(Boxes(code, box))
            if chunk is not None and chunk.complete:
                x0, y0, wide, high = box[0].tolist()
                shapes += rim(x0, y0, wide, high, thick=1.5)
            if side > 12 and chunk is not None:
                number = chunk.number if chunk.number >= 0 else chunk.began
                shapes.append(Words(x, y + 4, f"{number}", 11, anchor="middle", ink=code))
        for ipu, (x, y) in enumerate(middles.tolist()):
            name = f"IPU {ipu}" if len(middles) < 10 else f"{ipu}"
            shapes.append(Words(x, y + 4, name, 11, anchor="middle", ink=ipus.code))
        return tuple(shapes)


def _key(chunk: Chunk) -> tuple[int, int]:
    """Return the key of a chunk's colour: (number, -1), or (-1, first IPU) if it has no number."""
    return (chunk.number, -1) if chunk.number >= 0 else (-1, chunk.began)


def _end_of_collective(chunks: Chunks, steps: list[tuple[int, int, str, str]], begin: int) -> int:
    """Return the index in `steps` after the last step of the collective that begins at `begin`.

    An entry of `steps` is (index of the round or -1, number of the compiled step, kind, name), one
    for each superstep. The function resets `chunks` to the beginning of the collective, now with
    the numbers of the chunks, so that the caller can follow the same steps again.
    """
    chunks.begin()
    current = -1
    round_begin = begin
    joins = 0  # The number of entries of `chunks.joined` before the current round.
    end = len(steps)
    for place in range(begin, len(steps)):
        round_number, step, *_ = steps[place]
        if round_number >= 0:
            current = round_number
            round_begin = place
            joins = len(chunks.joined)
        _, meets_itself = chunks.step(step, current, noted=False)
        if meets_itself and round_begin > begin:  # Another collective began with this round.
            end = round_begin
            break
    else:
        joins = len(chunks.joined)
    chunks.begin(chunks.numbers(joins))
    return end
