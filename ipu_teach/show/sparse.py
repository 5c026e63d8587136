"""Two views of sparse products: `sparse` shows buckets, `crossing` shows cycles by density.

The sparse matrix is divided into parts. Each tile has a bucket, which is memory for the blocks of
its part. The blocks drop into the buckets of their parts, one row of blocks after another. If a
bucket is full, a block spills into the nearest earlier bucket with room. At run time, buckets are
exchanged step by step until every block has met its part; these steps are shown at the bottom.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from math import isfinite

import numpy as np

from ipu_teach._support.flags import checks
from ipu_teach.errors import InvalidOptionError, counted, shown
from ipu_teach.poplibs.popsparse import CSRMatrix
from ipu_teach.poplibs.popsparse.buckets import EMPTY, PLACES, Cut
from ipu_teach.poplibs.popsparse.dynamic import Partitioner
from ipu_teach.show import palette
from ipu_teach.show.palette import Code
from ipu_teach.show.panels import Panels, painted, side_by_side
from ipu_teach.show.scene import Painted, Scene, Still, label, number
from ipu_teach.show.segments import MOST_NAMED, listed_names
from ipu_teach.show.shapes import LETTER, Boxes, Outline, Shape, Stroke, Words, rectangles
from ipu_teach.show.view import View
from ipu_teach.types import Array

# The codes of the view `sparse`. The first four are the states of a block.
WAITS, OWN, GUEST, OVER, DONE, COMES = range(6)
CODES = (
    palette.GAPS.lettered("W", "not dropped yet"),
    palette.SO.lettered("H", "in its own bucket"),
    palette.OTHERWISE.lettered("S", "spilled into another"),
    palette.CHOSEN.lettered("!", "no room yet"),
    Code("steps done", "D", "#009e73", "#1cb288", pattern="."),
    palette.REST.lettered("C", "steps to come"),
)
SMALL = 8.0  # The side below which squares count as small.
BINS = 64  # The maximum number of rows and of columns of squares.
MOST = 128  # The maximum number of buckets that are drawn.
MOST_WHENCE = 24  # The maximum number of spilling buckets that the last frame names.
# The maximum number of frames with dropping blocks, and with exchanges of buckets.
DROPS, STEPS = 8, 24
SIDE = 236.0
LEFT = 40.0
CURVES_LEFT = 56.0  # The left edge of curves, with room for numbers.
RIGHT = 324.0
WIDE = 372.0
HIGH = 220.0
BAR = 24.0


def sparse(partitioner: Partitioner, csr: CSRMatrix) -> View:
    """Which blocks of a sparse matrix find no room in their own bucket?

    The view shows how a dynamic sparse product distributes the blocks of a pattern over buckets. A
    bucket is memory for the blocks of one part of the matrix. The view shows which blocks find room
    in the bucket of their part, which blocks spill into another bucket and how far away it is, and
    in how many steps the buckets are exchanged. At most 128 buckets are drawn. In a matrix of more
    than 64 rows or columns of blocks, a square stands for several blocks.

    :raises InvalidOptionError: if `partitioner` is not a Partitioner.
    :raises PoplibsError: if the pattern has more blocks than the partitioner has room for.
    """
    if not isinstance(partitioner, Partitioner):
        raise InvalidOptionError(f"""show.sparse() was given {shown(partitioner)}, which is not a
            Partitioner.
            next:  give a Partitioner and a pattern: show.sparse(Partitioner(params, FLOAT, target),
            csr).""")
    return View(_scene(_Buckets(partitioner, csr), csr))


class _Buckets:
    """The buckets of a sparse pattern, frame by frame.

    First, the blocks drop into their buckets. Then, the spilled blocks are exchanged step by step.

    Attributes:
        part, bucket: for each block, the part of the matrix to which it belongs, and the bucket
            that contains it.
        steps_away: for each block, the step in which it meets its part; 0 if it is in the bucket of
            its part.
        moments: for each frame, (number of drops so far, number of steps so far).
        states: for each frame, the state of each block, which is a code.
        matrices, rings, bars: for each frame, the pictures of the matrix, the buckets and the
            steps.
        shares: for each frame, int[3, buckets]: for each bucket, how many blocks are in their own
            bucket, how many have spilled into it, and how many have no room.
    """

    def __init__(self, partitioner: Partitioner, csr: CSRMatrix) -> None:
        self.cut = cut = partitioner.cut
        data = partitioner.encode(csr)
        self.count = cut.num_buckets
        self.rounds = data.rounds
        slots = data.meta_info[1:].reshape(self.count, cut.slots, PLACES).astype(np.int64)
        self.bucket, slot = np.nonzero(slots[:, :, 0] != EMPTY)
        self.part, row, column = slots[self.bucket, slot].T
        row = row + np.array(cut.rows)[self.part // cut.column_parts, 0]
        column = column + np.array(cut.columns)[self.part % cut.column_parts, 0]
        self.steps_away = (self.part - self.bucket) % self.count
        order = np.argsort(row * csr.block_columns + column)
        drops = min(DROPS, len(order))
        # The frame in which each block drops.
        drop_frame = np.empty(len(order), np.int64)
        drop_frame[order] = 1 + np.arange(len(order)) * drops // max(1, len(order))
        num_steps = min(self.rounds, STEPS) + 1
        shown_rounds = np.unique(np.linspace(0, self.rounds, num_steps).round().astype(int))[1:]
        self.moments = [(frame, 0) for frame in range(drops + 1)] + [
            (drops, int(step)) for step in shown_rounds
        ]
        self.states = [self._state(drop_frame, *moment) for moment in self.moments]
        top = max(cut.slots, int(np.bincount(self.part, minlength=1).max(initial=1)))
        self.matrices = [_matrix(cut, csr, row, column, state=state) for state in self.states]
        self.rings = [_ring(cut, self.part, self.bucket, state, top=top) for state in self.states]
        self.bars = [
            _steps(cut, self.rounds, step if frame == drops else -1) for frame, step in self.moments
        ]
        self.shares = [
            np.stack(
                [
                    _per_bucket(state, code, self.part, self.bucket, self.count)
                    for code in (OWN, GUEST, OVER)
                ]
            )
            for state in self.states
        ]

    def _state(self, drop_frame: Array, frame: int, step: int) -> Array:
        """Return the state of each block, an index in `CODES`, after some drops and steps.

        The number of drops is `frame`, and that of steps is `step`. `drop_frame` has, for each
        block, the number of the drop in which it falls into its bucket.
        """
        away = self.steps_away
        state = np.where(away == 0, OWN, np.where(away <= step, GUEST, OVER))
        return np.where(drop_frame > frame, WAITS, state)

    def stills(self, num_shown: int) -> list[Still]:
        """Return a still for each frame, with the block counts of the first `num_shown` buckets."""
        say = "{label}: {own} of its own, {guests} of others, {over} beside it"
        stills = []
        for i, ((frame, step), share) in enumerate(zip(self.moments, self.shares, strict=True)):
            name = f"step {step}" if step else f"drop {frame}" if frame else "the pattern"
            note = f"{share[0].sum():,} blocks at home, {share[1].sum():,} spilled"
            note += f", {share[2].sum():,} without room" * bool(share[2].any())
            values = dict(zip(("own", "guests", "over"), share[:, :num_shown], strict=True))
            pictures = dict.fromkeys(("matrix", "buckets", "steps"), i)
            about = {"buckets": (say, values)}
            stills.append(Still(name, note, OWN, 0, first=True, about=about, pictures=pictures))
        return stills


def _put_panels(panels: Panels, buckets: _Buckets, csr: CSRMatrix) -> None:
    """Put the panels of the matrix and of its buckets and, below them, the steps of a product."""
    cut, count, rounds = buckets.cut, buckets.count, buckets.rounds
    shown_ = min(count, MOST)
    m, k = csr.shape
    blocks = f"blocks of {cut.b} x {cut.b}"
    heading = f"{m:,} x {k:,} in {blocks}"
    sizes = csr.block_rows, csr.block_columns
    if max(sizes) > BINS:
        up_to = "up to " * any(n > BINS and n % BINS for n in sizes)
        square = " x ".join(f"{-(-n // BINS)}" for n in sizes)
        heading = f"{m:,} x {k:,}; square: {up_to}{square} {blocks}"
    tall = SIDE * min(1, m / k)
    panels.put(painted("matrix", heading, SIDE, tall, pictures=buckets.matrices), left=LEFT)
    heading = f"{counted(count, 'bucket')} with room for {cut.slots}"
    heading += f"; the first {shown_} are drawn" * (shown_ < count)
    labels = [f"bucket {i} on tile {cut.tiles[i, 0]}" for i in range(shown_)]
    places = side_by_side(shown_, WIDE, HIGH)
    panels.put(
        painted(
            "buckets",
            heading,
            WIDE,
            HIGH + 30,
            pictures=buckets.rings,
            places=places,
            labels=labels,
        ),
        left=RIGHT,
    )
    panels.first(shown_, count, "buckets")
    panels.below()
    heading = f"the first multiplication, and {counted(rounds, 'step')} of buckets"
    panels.put(
        painted("steps", heading, RIGHT + WIDE - LEFT, BAR + 18, pictures=buckets.bars), left=LEFT
    )


def _scene(buckets: _Buckets, csr: CSRMatrix) -> Scene:
    """Return the scene of the buckets of a sparse pattern."""
    cut, count, rounds = buckets.cut, buckets.count, buckets.rounds
    panels = Panels()
    _put_panels(panels, buckets, csr)
    total = cut.cycles + rounds * cut.step_cycles
    stills = buckets.stills(min(count, MOST))
    own_share, guests, _ = buckets.shares[-1]
    sentence = (
        f"{counted(csr.num_blocks, 'block')} of {cut.b} x {cut.b} in {counted(count, 'bucket')} "
        f"with room for {cut.slots}: {own_share.sum():,} are in their own, {guests.sum():,} spill, "
        "and "
        f"buckets go round in {counted(rounds, 'step')}: {total:,} modelled cycles are planned, of "
        f"which {rounds * cut.step_cycles:,} are of these steps."
    )
    spilled = np.bincount(buckets.part[buckets.steps_away > 0], minlength=count)
    stills[-1] = replace(stills[-1], note=stills[-1].note + _whence(spilled))
    numbers = zip(range(count), cut.tiles[:, 0], own_share, guests, spilled, strict=True)
    return panels.scene(
        "sparse",
        f"{guests.sum():,} of {counted(csr.num_blocks, 'block')} spill into other buckets"
        f"{_from(spilled)}",
        sentence,
        foot=8,
        codes=CODES,
        stills=stills,
        poster=len(stills) - 1,
        group="moment",
        table=(
            ("bucket", "tile", "blocks of its own", "of others", "of its own elsewhere"),
            ([f"{int(n):,}" for n in row] for row in numbers),
        ),
    )


def _from(spilled: Array) -> str:
    """Return a phrase that says from which buckets how many blocks spill; "" if none does.

    `spilled[i]` is the number of blocks that spill from bucket i into other buckets.
    """
    order = _spilling(spilled)
    if not order:
        return ""
    if len(order) > MOST_NAMED:
        first = order[0]
        return f", from {len(order)} buckets, at most {spilled[first]} from one, bucket {first}"
    return ": " + listed_names([f"{spilled[i]} of bucket {i}" for i in order])


def _whence(spilled: Array) -> str:
    """List the buckets from which blocks spill, by descending number of blocks; "" if none does.

    `spilled[i]` is the number of blocks that spill from bucket i into other buckets.
    """
    order = _spilling(spilled)
    parts = [f"{i} ({spilled[i]})" for i in order[:MOST_WHENCE]]
    if not parts:
        return ""
    more = f" and {len(order) - MOST_WHENCE} more" if len(order) > MOST_WHENCE else ""
    return f", from buckets (blocks): {', '.join(parts)}{more}"


def _spilling(spilled: Array) -> list[int]:
    """Return the buckets from which blocks spill, by descending number of spilled blocks.

    `spilled[i]` is the number of blocks that spill from bucket i into other buckets.
    """
    return [i for i in np.argsort(-spilled, kind="stable").tolist() if spilled[i]]


def _per_bucket(state: Array, code: int, part: Array, bucket: Array, count: int) -> Array:
    """Return int[count]: the number of blocks with the state `code` in each of `count` buckets.

    `state`, `part` and `bucket` have an entry for each block. Spilled blocks are counted for the
    bucket that contains them, and all other blocks for the bucket of their part.
    """
    bucket_of_block = bucket if code == GUEST else part
    return np.bincount(bucket_of_block[state == code], minlength=count)


def _matrix(cut: Cut, csr: CSRMatrix, row: Array, column: Array, state: Array) -> tuple[Shape, ...]:
    """Return the shapes of the matrix: its blocks, and the lines between its parts.

    `row` and `column` are the positions of the blocks, and `state` has the code of each block.
    `cut` has the intervals of rows and of columns into which the matrix is divided.
    """
    high = csr.block_rows
    wide = csr.block_columns
    rows, columns = min(high, BINS), min(wide, BINS)
    tall = SIDE * min(1.0, high / wide)
    codes = np.full((rows, columns), -1)
    np.maximum.at(codes, (row * rows // high, column * columns // wide), state)
    dy = tall / rows
    dx = SIDE / columns
    shapes: list[Shape] = []
    for code in np.unique(codes[codes >= 0]).tolist():
        y, x = np.nonzero(codes == code)
        # The squares of spilled blocks are drawn larger if all squares are small, because spilled
        # blocks are rare.
        grow = 0.3 if code > OWN and dx < SMALL else -0.06
        boxes = rectangles(
            (x - grow) * dx, (y - grow) * dy, (1 + 2 * grow) * dx, (1 + 2 * grow) * dy
        )
        shapes.append(Boxes(code, boxes))
    for upright, cuts, size in ((False, cut.rows, high), (True, cut.columns, wide)):
        ends = [0, *(end for _, end in cuts)] if len(cuts) <= BINS // 2 else [0, size]
        for at in (end / size for end in ends):
            line = ((SIDE * at, 0.0), (SIDE * at, tall))
            shapes.append(
                Stroke(line if upright else ((0, tall * at), (SIDE, tall * at)), 1, "line")
            )
    return tuple(shapes)


def _ring(cut: Cut, part: Array, bucket: Array, state: Array, top: int) -> tuple[Shape, ...]:
    """Return the shapes of the buckets next to each other, with a line at their capacity.

    `part`, `bucket` and `state` have an entry for each block. Blocks without room are above the
    line. `top` is the number of blocks at the full height.
    """
    count = cut.num_buckets
    pitch = WIDE / min(count, MOST)
    unit = HIGH / top
    shapes: list[Shape] = []
    low: Array = np.zeros(count)
    for code in (OWN, GUEST, OVER):
        many = _per_bucket(state, code, part, bucket, count)
        tall = many * unit
        x = np.arange(count) * pitch + 0.1 * pitch
        boxes = rectangles(x, HIGH - low - tall, 0.8 * pitch, tall)[:MOST]
        shapes += [Boxes(code, boxes[many[:MOST] > 0], upright=True)] * bool(many[:MOST].any())
        low = low + tall
    line = HIGH - cut.slots * unit
    shapes += [
        Stroke(((0, HIGH), (WIDE, HIGH)), 1, "line"),
        Stroke(((0, line), (WIDE, line)), 1.5),
        Words(WIDE, HIGH + 28, "buckets in their ring", 11, anchor="end", ink="soft"),
    ]
    label_step = -(-int(LETTER * len(str(count)) + 6) // max(1, int(pitch)))
    for i in range(0, min(count, MOST), max(1, label_step)):
        shapes.append(Words((i + 0.5) * pitch, HIGH + 14, f"{i}", 11, anchor="middle", ink="soft"))
    return tuple(shapes)


def _steps(cut: Cut, rounds: int, done: int) -> tuple[Shape, ...]:
    """Return bars of modelled cycles, for the first multiplication and each of `rounds` steps.

    `done` is the number of steps done; -1 means that the multiplication is not done either.
    """
    wide = RIGHT + WIDE - LEFT
    ends = np.cumsum([0, cut.cycles] + [cut.step_cycles] * rounds)
    ends = ends / ends[-1] * wide
    shapes: list[Shape] = []
    for i, (begin, end) in enumerate(pairwise(ends.tolist())):
        code = DONE if i <= done else COMES
        text = "multiply" if i == 0 else f"{i}"
        shapes.append(Boxes(code, rectangles(begin, 0, max(end - begin - 3, 0.5), BAR)))
        if LETTER * len(text) + 4 < end - begin:
            shapes.append(Words((begin + end) / 2, 16, text, 11, anchor="middle", ink=code))
    return (
        *shapes,
        Words(wide, BAR + 14, "modelled cycles, planned", 11, anchor="end", ink="soft"),
    )


@checks("unit")
def crossing(cycles: Mapping[str, Mapping[float, float]], unit: str = "modelled cycles") -> View:
    """At which density does each sparse product overtake the dense one?

    `cycles` maps the name of each product to its cycles by density. The view shows a curve for each
    product, and has a frame for each density. All products are compared with the first one:
    `show.crossing({"dense": {1 / 2: 900, 1 / 4: 900}, "blocks of 16": {1 / 2: 700, 1 / 4: 400}})`.

    :raises InvalidOptionError: unless there are two to seven products, with positive numbers for
        the same 2 to 32 densities.
    """
    names, curves = _checked_curves(cycles)
    at = sorted(curves[0], reverse=True)
    table = np.array([[cycles_by_density[d] for d in at] for cycles_by_density in curves], float)
    labels = [f"1/{1 / d:.0f}" if abs(1 / d - round(1 / d)) < 1e-6 else f"{d:.3g}" for d in at]
    wins = [[labels[i] for i in np.flatnonzero(row < table[0])[:1]] for row in table[1:]]
    by = [
        f"by {name} at {won[0]}" if won else f"never by {name}"
        for name, won in zip(names[1:], wins, strict=True)
    ]
    first = f"{names[0][:1].upper()}{names[0][1:]}"
    sentence = f"{first} is overtaken {', '.join(by)}, of the densities measured."
    if not any(wins):
        sentence = f"{first} is never overtaken, down to density {labels[-1]}."
    panels = Panels()
    panels.put(_crossing_curves(names, labels, table, unit), left=CURVES_LEFT)
    stills = []
    for i, (d, column) in enumerate(zip(labels, table.T.tolist(), strict=True)):
        words = "; ".join(f"{n}: {number(v)}" for n, v in zip(names, column, strict=True))
        about = {"curves": ("density {label}", dict[str, Array]())}
        stills.append(
            Still(f"density {d}", words, 0, 0, first=True, about=about, pictures={"curves": i})
        )
    codes = tuple(
        Code(label(name, 24), "", hue.light, hue.dark, pattern=hue.pattern, listed=True)
        for name, hue in zip(names, palette.HUES, strict=False)
    )
    last = max((labels.index(won[0]) for won in wins if won), default=0)
    return View(
        panels.scene(
            "crossing",
            sentence.rstrip("."),
            sentence,
            foot=8,
            codes=codes,
            stills=stills,
            poster=last,
            group="density",
            table=(
                ("density", *names),
                (
                    (d, *map(number, own_share))
                    for d, own_share in zip(labels, table.T.tolist(), strict=True)
                ),
            ),
        )
    )


def _checked_curves(
    cycles: Mapping[str, Mapping[float, float]],
) -> tuple[list[str], list[dict[float, float]]]:
    """Return `(names, curves)`: the names of the products, and the cycles of each by density.

    :raises InvalidOptionError: unless there are two to seven products, with positive numbers for
        the same 2 to 32 densities.
    """
    names = list(cycles) if isinstance(cycles, Mapping) else []
    curves = [dict(cycles[n]) if isinstance(cycles[n], Mapping) else {} for n in names]
    good = 2 <= len(names) <= len(palette.HUES) and 2 <= len(curves[0]) <= 32
    good = good and all(curve.keys() == curves[0].keys() for curve in curves)
    if not good or not all(_above_0(n) for curve in curves for pair in curve.items() for n in pair):
        raise InvalidOptionError(f"""show.crossing() was given {shown(cycles)}, which is not a dict
            of two to seven curves with positive numbers for the same 2 to 32 densities.
            next:  give the cycles of each product by density:
            {{"dense": {{0.5: 900, 0.25: 900}}, "sparse": {{0.5: 950, 0.25: 500}}}}.""")
    return names, curves


def _crossing_curves(names: list[str], labels: list[str], table: Array, unit: str) -> Painted:
    """Return the curves of the products, with a picture for each density.

    `table` is float[products, densities]: the cycles of each product, in `unit`.
    """
    many = len(labels)
    wide = WIDE + 150
    x = np.linspace(16, wide - 16, many)
    logs = np.log2(table)
    y = 10 + (HIGH - 20) * (logs.max() - logs) / max(1e-9, np.ptp(logs))
    heading = f"{unit} by density, both by powers of two"
    ends = [
        Words(-4, at_y + 4, _axis_text(value), 11, anchor="end", ink="soft")
        for at_y, value in ((y.min(), table.max()), (y.max(), table.min()))
    ]
    pictures = [(*_curves(x, y, names, labels, position=i), *ends) for i in range(many)]
    places = side_by_side(many, wide, HIGH)
    return painted(
        "curves", heading, wide, HIGH + 34, pictures=pictures, places=places, labels=labels
    )


def _axis_text(value: float) -> str:
    """Return a number as text for an axis; numbers of seven or more digits are in millions."""
    return number(value) if value < 1e6 else f"{value / 1e6:.3g} M"


def _above_0(n: object) -> bool:
    """Return whether an object is a finite number above 0."""
    return isinstance(n, (int, float, np.number)) and bool(isfinite(n) and n > 0)


def _curves(
    x: Array, y: Array, names: list[str], labels: list[str], position: int
) -> tuple[Shape, ...]:
    """Return the curves, a vertical line at one density, and a square where it crosses a curve.

    `x` is float[densities] and `y` is float[products, densities]. `position` is the index of the
    density of the line.
    """
    wide = WIDE + 150
    shapes = list[Shape]()
    shapes += [Stroke(((0, HIGH), (wide, HIGH)), 1, "line")]
    shapes += [Stroke(((x[position], 0), (x[position], HIGH)), 1.5)]
    for code, line in enumerate(y):
        shapes.append(Outline(code, np.stack((x, line), axis=1), False, 3.0))
        shapes.append(Boxes(code, rectangles(x[position] - 5, line[position] - 5, 10.0, 10.0)))
    below = -np.inf  # The names at the ends of the curves must not overlap.
    for code in np.argsort(y[:, -1], kind="stable").tolist():
        below = max(float(y[code, -1]) + 4, below + 13)
        shapes.append(Words(wide + 6, below, label(names[code], 24), 11))
    for i, d in enumerate(labels):
        shapes.append(
            Words(
                float(x[i]),
                HIGH + 15,
                d,
                11,
                anchor="middle",
                ink="ink" if i == position else "soft",
            )
        )
    return (*shapes, Words(wide, HIGH + 30, "density", 11, anchor="end", ink="soft"))
