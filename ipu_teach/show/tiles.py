"""The view `tiles`: the tile of each element of a tensor.

At the top are the elements of one tensor or of two, each with the number of its tile. Below are the
tiles, with the bytes of these elements on each tile. If you point at an element, its tile is
highlighted, and if you point at a tile, its elements are. If you point at an element that both
tensors contain, it is highlighted in both.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ipu_teach.errors import InvalidOptionError, counted, shown
from ipu_teach.graph import Tensor
from ipu_teach.graph.tile_map import union
from ipu_teach.graph.variable_table import without_replica
from ipu_teach.show import palette
from ipu_teach.show.measures import GAP, OF_LETTER
from ipu_teach.show.palette import Code, ink_on
from ipu_teach.show.panels import Panels, grid
from ipu_teach.show.scene import (
    WIDTH,
    Bar,
    Cells,
    Drawing,
    Lanes,
    Scene,
    Still,
    Table,
    label,
    number,
    quantiles,
)
from ipu_teach.show.segments import ipu_names
from ipu_teach.show.view import View
from ipu_teach.target import Target
from ipu_teach.types import Array

# The codes of a tile without elements, of an unmapped element, and of a bar that stands for bytes.
# The codes after these three are the colours of the tiles.
EMPTY, NOWHERE, BYTES = range(3)
# The maximum number of tiles that have a lane each. More tiles are sorted and share lanes.
MOST_LANES = 64
# The maximum number of tiles on several IPUs for which there is room for tile numbers.
MOST_NAMED = 20
MOST_ACROSS = 64  # The maximum number of rows and of columns of a sheet.
MOST_SHEETS = 1024
# The maximum size of a last dimension that counts as the channels.
FEW = 4
LINE = 32  # How many elements of a one-dimensional tensor a row shows.
LARGEST = 36.0  # The maximum side of a cell.
PANEL_HEIGHT = 230.0
_NOTHING = replace(palette.REST, name="tiles without any of it", listed=True)
LONGEST_HEADING = 64  # The maximum number of characters in a heading.
# Small cells cannot show patterns, so further tiles get other shades of the first colours.
SHADES = (
    ("#1f6fa3", "#9fd3f2"),
    ("#8a5f00", "#f4cd7f"),
    ("#005c43", "#7fd8bb"),
    ("#9a8f00", "#f6efa0"),
    ("#8a3a66", "#eac1d8"),
    ("#7a3500", "#f5b38a"),
    ("#56606b", "#ced6dd"),
)
MOST_FOLLOWED = 1 << 20  # The maximum size of tensors whose title says how they are divided.
TILES = 190.0  # The side of the square with the tiles.
BYTES_LEFT = 328.0  # The left edge of the lanes, beside the heading of tiles with shades.


def tiles(tensor: Tensor, other: Tensor | None = None) -> View:
    """On which tile is each element of a tensor?

    The view shows the tile of each element of `tensor` and, next to it, those of `other`, such as
    another view of the same variable.

    - A tensor of one dimension is drawn in rows of 32 elements.
    - In a tensor of two dimensions, the last dimension is drawn across.
    - A tensor of more dimensions is drawn as sheets, each of which shows the last two dimensions.
      The dimension before these is called the channels. The sheets of different channels are next
      to each other. If the last dimension has at most 4 elements, and fewer than each of the two
      dimensions before it, then the last dimension is the channels.

    If a sheet has more than 64 rows or columns, a square stands for several elements and shows the
    tile of the first of them. If there are more than 14 tiles, several tiles share a colour. If
    there are more than 64, several tiles share a lane. The headings say how many tiles share one.

    :raises InvalidOptionError: if an argument is not a tensor, a tensor is empty, or the tensors
        belong to different graphs.
    """
    shown_ = [tensor] if other is None else [tensor, other]
    for tensor_shown in shown_:
        if not isinstance(tensor_shown, Tensor):
            raise InvalidOptionError(f"""show.tiles() was given {shown(tensor_shown)}, which is not
                a tensor.
                next:  give it a variable of a graph, or a view of one.""")
        if not tensor_shown.num_elements:
            raise InvalidOptionError(f"""show.tiles() was given {shown(tensor_shown)}, which has
                no elements.
                next:  give a tensor that has elements.""")
        if tensor_shown.graph is not tensor.graph:
            raise InvalidOptionError(
                "show.tiles() was given tensors of two graphs.",
                next_step="show them in two pictures.",
            )
    return View(_scene(shown_))


def _scene(tensors: list[Tensor]) -> Scene:
    """Return the scene of one tensor, or of two tensors next to each other."""
    target = tensors[0].graph.target
    colours, tiles_per_colour = palette.of_tiles(target.num_tiles)
    if tiles_per_colour == 1:
        first, rest = colours[: len(SHADES)], colours[len(SHADES) :]
        shaded = zip(rest, SHADES, strict=False)
        colours = (*first, *(replace(c, light=light, dark=dark) for c, (light, dark) in shaded))
    elif target.num_tiles <= MOST_LANES:
        colours = (*colours, *(replace(c, listed=False, **_shade(c)) for c in colours))
    panels = Panels()
    room = (WIDTH - 32 - 24 * (len(tensors) - 1)) / len(tensors)
    channels: dict[str, tuple[int | Array, float | Array, int]] = {}
    for which, tensor in enumerate(tensors):
        cells, where = _elements(tensor, f"elements {which}", room, panels.notes)
        panels.put(cells, left=16 + which * (room + 24))
        channels[cells.name] = _still(_code(where, target, tiles_per_colour))
    # If there are several IPUs, the name of each is above its tiles.
    panels.below(34 if target.num_ipus == 1 else 48)
    sizes = bytes_by_tile(tensors)
    numbers = np.arange(target.num_tiles)
    codes_held = np.where(sizes > 0, _code(numbers, target, tiles_per_colour), EMPTY)
    say = "tile {i}: {bytes} bytes"
    values = {"bytes": sizes}
    heading = _tiles_heading(target, tiles_per_colour)
    options: dict[str, Any] = {"key": numbers, "say": say, "values": values}
    panels.put(grid("tiles", target, TILES, heading, largest=LARGEST, **options))
    _put_bytes(panels, target, sizes, codes_held)
    words = " and ".join(map(_words, tensors))
    cells_ = {**channels, "tiles": _still(codes_held)}
    shown_: dict[str, Any] = {"values": values, "say": say}
    still = Still(
        words,
        _note(sizes),
        int(codes_held[0]),
        0,
        first=True,
        cells=cells_,
        lanes=panels.lanes,
        **shown_,
    )
    names = " and ".join(map(_name, tensors))
    title = f"Where {names} {'lives' if len(tensors) == 1 else 'live'}"
    return panels.scene(
        "tiles",
        _title(tensors, names, sizes),
        f"{title}: {still.label}; {still.note}",
        foot=12,
        stills=(still,),
        table=_table(tensors),
        codes=(_NOTHING, palette.NOWHERE, palette.BYTES, *colours),
    )


def _shade(code: Code) -> dict[str, str]:
    """Return a darker or lighter shade of a code, for tiles with odd numbers.

    The shade is three quarters of the colour, mixed with a quarter of black or white. It is the
    same on light and on dark pages.
    """
    colour, other = (
        [int(c[i : i + 2], 16) for i in (1, 3, 5)] for c in (code.light, ink_on(code.light))
    )
    mixed = "#" + "".join(f"{(3 * a + b) // 4:02x}" for a, b in zip(colour, other, strict=True))
    return {"light": mixed, "dark": mixed}


def _tiles_heading(target: Target, tiles_per_colour: int) -> str:
    """Return the heading of the tiles: how many there are, and how many tiles share a colour."""
    heading = counted(target.num_tiles, "tile")
    if target.num_ipus > 1:
        heading += f" on {target.num_ipus} IPUs"
    if tiles_per_colour > 1:
        up_to = "up to " if target.num_tiles % tiles_per_colour else ""
        heading += f"; each colour is {up_to}{tiles_per_colour} tiles"
        heading += ", odd ones shaded" * (target.num_tiles <= MOST_LANES)
    return heading


def _put_bytes(panels: Panels, target: Target, sizes: Array, codes: Array) -> None:
    """Add lanes whose bars show the bytes on each tile.

    If there are more than `MOST_LANES` tiles, they are sorted by their bytes, and several tiles
    share a lane. `sizes` has the bytes on each tile, and `codes` has the colour of each tile.
    """
    largest = int(sizes.max())
    heading = "bytes, tile by tile"
    if target.num_tiles <= MOST_LANES:
        several = target.num_ipus > 1 and target.num_tiles > MOST_NAMED
        ends = ipu_names(target.num_ipus) * several
        lanes = Lanes(
            "bytes", heading, count=target.num_tiles, key=np.arange(target.num_tiles), ends=ends
        )
        drawing = Drawing(largest, (Bar(codes, 0, sizes, largest),), "bytes")
    else:
        ranked = quantiles(sizes, MOST_LANES)
        ends = (("fullest", 0.0), ("emptiest", 1.0))
        tiles_per_lane = number(target.num_tiles / MOST_LANES)
        heading = f"bytes of a tile, fullest first; a lane is {tiles_per_lane} tiles"
        ranks = "lane {i} of the tiles sorted by bytes: {bytes} bytes a tile"
        lanes = Lanes(
            "bytes", heading, count=MOST_LANES, say=ranks, values={"bytes": ranked}, ends=ends
        )
        drawing = Drawing(largest, (Bar(BYTES, 0, ranked, largest),), "bytes")
        panels.notes.append(
            f"The {MOST_LANES} lanes are the tiles sorted by bytes, {tiles_per_lane} to a lane."
        )
    has_shades = len(palette.TILES) < target.num_tiles <= MOST_LANES
    left = BYTES_LEFT if has_shades else 300 if lanes.ends else 260
    panels.put(lanes, left=left, high=TILES, drawing=drawing)


def _title(tensors: list[Tensor], names: str, sizes: Array) -> str:
    """Return the title: on how many tiles the tensors are, and the range of bytes on a tile.

    `sizes` has the bytes on each tile.
    """
    used = sizes[sizes > 0]
    verb = "is" if len(tensors) == 1 else "are"
    tiles = counted(len(sizes), "tile")
    if not len(used):
        return f"{names} {verb} on no tile"
    even = (
        f"{used[0]:,} bytes each"
        if used.min() == used.max()
        else (f"{used.min():,} to {used.max():,} bytes each")
    )
    order = _order(tensors[0]) if len(tensors) == 1 else ""
    return f"{names} {verb} on {len(used):,} of {tiles}, {even}{order}"


def _order(tensor: Tensor) -> str:
    """Return a phrase that says how a matrix is divided among tiles; "" if no simple rule holds.

    The simple rules are:

    - Each row is on a tile of its own.
    - Each column is on a tile of its own.
    - The elements are divided row by row into equal parts, in the order of the tiles.
    """
    if tensor.rank != 2 or not 1 < tensor.num_elements <= MOST_FOLLOWED:
        return ""
    byte = (tensor.offset + _positions(tensor, np.arange(tensor.num_elements))) * tensor.dtype.size
    where = tensor.graph.tile_map().at(byte).astype(np.int64).reshape(tensor.shape)
    if where.min() < 0:
        return ""
    for name, table in (("row", where), ("column", where.T)):
        tiles = table[:, 0]
        is_own = len(np.unique(tiles)) == len(tiles) > 1
        if is_own and (table == tiles[:, None]).all():
            in_order = bool((np.diff(tiles) == 1).all())
            offset = f" + {tiles[0]}" if tiles[0] else ""
            where_is = f"the tile of its number{offset}" if in_order else "a tile of its own"
            return f"; each {name} is on {where_is}"
    along = where.reshape(-1)
    _, sizes = np.unique(along, return_counts=True)
    if len(sizes) > 1 and (np.diff(along) >= 0).all() and len(set(sizes.tolist())) == 1:
        return f"; row by row, tile {along[0]} has the first {counted(int(sizes[0]), 'element')}"
    return ""


class _Sheets(NamedTuple):
    """The division of a tensor into `num_sheets` sheets, each with rows and columns of cells.

    Attributes:
        shape: the shape of the tensor, or of the view of it that is drawn.
        axes: the dimensions of `shape` in the order of the picture; the last two are the rows and
            the columns of a sheet.
        channels: the size of the dimension before these two, or 1 if there is a single sheet.
        tall, wide: a cell stands for `tall` x `wide` elements, and shows the tile of the first of
            them.
    """

    shape: tuple[int, ...]
    axes: list[int]
    num_sheets: int
    channels: int
    tall: int
    wide: int

    def text(self) -> str:
        """Return a text with the size of a sheet and the dimensions that it shows.

        It is "" if there is a single sheet.
        """
        if self.num_sheets <= 1:
            return ""
        down, across = (self.shape[axis] for axis in self.axes[-2:])
        by = f"by dimensions {self.axes[-2]} and {self.axes[-1]}"
        return f"sheets of {down:,} x {across:,}, {by}"

    def chosen(self) -> Array:
        """Return int64[..., rows, columns]: the flat index of the first element in each cell."""
        steps = [1] * (len(self.axes) - 2) + [self.tall, self.wide]
        chosen: Array = np.zeros((), np.int64)
        for axis, step in zip(self.axes, steps, strict=True):
            along = np.arange(0, self.shape[axis], step) * prod(self.shape[axis + 1 :])
            chosen = chosen[..., None] + along
        return chosen


def _sheets(tensor: Tensor) -> _Sheets:
    """Return how a tensor is divided into sheets, and how the sheets are divided into cells."""
    count = tensor.num_elements
    shape = tensor.shape
    if tensor.rank < 2:
        shape = (-(-count // LINE), min(LINE, count)) if count <= MOST_ACROSS**2 else (1, count)
    axes = [*range(len(shape))]
    if tensor.rank > 2 and shape[-1] <= FEW and shape[-1] < min(shape[-3:-1]):
        axes[-3:] = axes[-1], *axes[-3:-1]
    sheets = prod(shape[axis] for axis in axes[:-2])
    if sheets > MOST_SHEETS:
        shape = (prod(shape[:-1]), shape[-1])
        axes = [0, 1]
        sheets = 1
    down, across = (shape[axis] for axis in axes[-2:])
    tall = -(-down // MOST_ACROSS)
    wide = -(-across // MOST_ACROSS)
    if sheets <= 1:
        return _Sheets(shape, axes, sheets, 1, tall, wide)
    while sheets * -(-down // wide) * -(-across // wide) > MOST_ACROSS**2:
        wide += 1
    return _Sheets(shape, axes, sheets, shape[axes[-3]], wide, wide)


def _heading(tensor: Tensor, sheets: _Sheets, room: float, notes: list[str]) -> str:
    """Return the heading of a tensor that is drawn `room` units wide.

    If the heading leaves something out, add a note to `notes`.
    """
    words = _words(tensor)
    tall, wide = sheets.tall, sheets.wide
    square = ""
    if wide * tall > 1:
        notes.append(
            f"A cell of {_name(tensor)} stands for up to {tall:,} x {wide:,} elements and shows "
            "the tile of the first."
        )
        square = f"a square is {tall:,} x {wide:,} elements"
    # If the panel is too narrow for the full heading, a shorter one is chosen.
    sheets_words = f": {sheets.text()}" if sheets.text() else ""
    headings = [f"{words}{sheets_words}", words]
    if square:
        headings = [f"{text}; {square}" for text in headings] + [f"{square} of {_name(tensor)}"]
    longest = min(LONGEST_HEADING, room / OF_LETTER)
    heading = next((text for text in headings if len(text) <= longest), headings[-1])
    if sheets_words and sheets_words not in heading:
        notes.append(f"{_name(tensor)} is drawn as {sheets_words[2:]}.")
    return heading


def _elements(tensor: Tensor, name: str, room: float, notes: list[str]) -> tuple[Cells, Array]:
    """Return `(cells, tiles)`: the cells of a tensor, and their tiles (-1 if unmapped).

    The cells are drawn `room` units wide. If the picture leaves something out, add a note to
    `notes`.
    """
    count = tensor.num_elements
    sheets = _sheets(tensor)
    heading = _heading(tensor, sheets, room, notes)
    chosen = sheets.chosen()
    rows, columns = chosen.shape[-2:]
    chosen = chosen.reshape(-1)
    chosen = chosen[chosen < count]
    byte = (tensor.offset + _positions(tensor, chosen)) * tensor.dtype.size
    where = tensor.graph.tile_map().at(byte).astype(np.int64)
    block = min(len(chosen), rows * columns)
    side, beside = max(
        (_side(sheets.num_sheets, n, rows, columns, room=room), n)
        for n in range(1, sheets.num_sheets + 1)
        if sheets.channels == 1 or sheets.channels % n == 0
    )
    starts = np.array([v.start for v in tensor.graph.variables], np.int64)
    index = np.unravel_index(chosen, tensor.shape if tensor.rank > 1 else (count,))
    values: dict[str, Array] = {f"i{axis}": along for axis, along in enumerate(index)}
    say = f"element [{', '.join(f'{{{name}}}' for name in values)}] of {_name(tensor)}: "
    say += "byte {byte} of its variable, tile {tile}"
    values |= {"byte": byte - starts[tensor.graph.variable_map().at(byte)], "tile": where}
    labels = tuple("?" if t < 0 else f"{t}" for t in where.tolist()) if side >= 13 else ()
    cells = Cells(
        name,
        heading,
        side=side,
        columns=columns,
        count=len(chosen),
        block=block,
        across=beside,
        key=where,
        same=byte,
        labels=labels,
        say=say,
        values=values,
    )
    return cells, where


def _side(sheets: int, beside: int, rows: int, columns: int, room: float) -> float:
    """Return the largest cell side at which `sheets` sheets fit, with `beside` sheets in a row.

    A sheet has `rows` x `columns` cells, and the panel is `room` units wide.
    """
    down = -(-sheets // beside)
    wide = beside * (columns + GAP) - GAP
    high = down * (rows + GAP) - GAP
    return round(min(LARGEST, room / wide, PANEL_HEIGHT / high), 3)


def _positions(tensor: Tensor, chosen: Array) -> Array:
    """Return the positions of elements in memory, relative to the first element of the tensor.

    `chosen` has the flat indices of the elements.
    """
    layout = tensor.layout
    if layout.strides is None:
        return layout.positions.reshape(-1)[chosen]
    index = np.unravel_index(chosen, layout.shape) if layout.shape else ()
    offsets = np.zeros(len(chosen), np.int64)
    for stride, along in zip(layout.strides, index, strict=True):
        offsets += stride * along
    return offsets


def bytes_by_tile(tensors: list[Tensor]) -> Array:
    """Return int64[tiles]: the number of bytes of the tensors on each tile.

    A byte that belongs to two tensors counts once.
    """
    graph = tensors[0].graph
    start, stop = (
        np.concatenate(ends) for ends in zip(*(t.byte_extent() for t in tensors), strict=True)
    )
    _, start, stop = union(np.zeros(len(start), np.int64), start, stop)
    _, start, stop, tile = graph.tile_map().split(start, stop)
    mapped = tile >= 0
    return np.bincount(tile[mapped], (stop - start)[mapped], graph.target.num_tiles).astype(
        np.int64
    )


def _still(codes: Array) -> tuple[Array, int, int]:
    """Return an entry of `Still.cells`, (code, end cycle, second code), for constant codes."""
    return codes, 1, int(codes[0])


def _code(tile: Array, target: Target, tiles_per_colour: int) -> Array:
    """Return colours for tile numbers, as indices of codes; tile -1 means an unmapped element.

    If several tiles share a colour but each tile has its own lane, tiles with odd numbers get the
    shade of the colour.
    """
    colour = tile // tiles_per_colour
    if tiles_per_colour > 1 and target.num_tiles <= MOST_LANES:
        colour += tile % 2 * -(-target.num_tiles // tiles_per_colour)
    return np.where(tile < 0, NOWHERE, BYTES + 1 + colour)


def _name(tensor: Tensor) -> str:
    """Return a name for a tensor: its variable with an operation, such as "x[3]".

    The operation, such as a transpose, is the one that makes the tensor from the variable. If more
    than one operation is needed, the name is "a view of x".
    """
    graph = tensor.graph
    layout = tensor.layout
    text = graph.describe(tensor).replace("'", "")
    first = tensor.offset * tensor.dtype.size
    tensor_shown = next(
        (v for v in graph.variables if v.start <= first < v.start + prod(v.shape) * v.dtype.size),
        None,
    )
    if tensor_shown is None or layout.strides is None or text.endswith(" and others"):
        return label(text, 32)
    last = (tensor.offset + layout.bounds[1]) * tensor.dtype.size
    if last >= tensor_shown.start + prod(tensor_shown.shape) * tensor_shown.dtype.size:
        return label(f"{text} of {without_replica(tensor_shown.name)[1]} replicas", 32)
    strides = tuple(prod(tensor_shown.shape[i + 1 :]) for i in range(len(tensor_shown.shape)))
    skipped = (first - tensor_shown.start) // tensor.dtype.size
    is_whole_variable = tensor.num_elements == prod(tensor_shown.shape)
    if is_whole_variable and (tensor.shape, layout.strides) == (tensor_shown.shape, strides):
        suffix = ""
    elif is_whole_variable and (tensor.shape, layout.strides) == (
        tensor_shown.shape[::-1],
        strides[::-1],
    ):
        suffix = ".transpose()"
    elif is_whole_variable and layout.strides == tuple(
        prod(tensor.shape[i + 1 :]) for i in range(tensor.rank)
    ):
        suffix = f".reshape({tensor.shape})"
    elif strides and (tensor.shape, layout.strides) == (tensor_shown.shape[1:], strides[1:]):
        suffix = f"[{skipped // strides[0]}]"
    elif strides and (tensor.shape[1:], layout.strides) == (tensor_shown.shape[1:], strides):
        suffix = f"[{skipped // strides[0]}:{skipped // strides[0] + tensor.shape[0]}]"
    else:
        return label(f"a view of {tensor_shown.name}", 32)
    return label(tensor_shown.name, 24) + suffix


def _words(tensor: Tensor) -> str:
    """Return the name of a tensor, its shape and its dtype."""
    shape = " x ".join(f"{n:,}" for n in tensor.shape) or "one"
    return f"{_name(tensor)}, {shape} {tensor.dtype.__name__}"


def _note(sizes: Array) -> str:
    """Return a text with the total bytes, and with the most and the fewest bytes on a tile.

    `sizes` has the bytes on each tile.
    """
    total = int(sizes.sum())
    holding = int((sizes > 0).sum())
    if not holding:
        return "none of it is on a tile yet"
    largest = int(sizes.max())
    smallest = int(sizes[sizes > 0].min())
    fullest = np.flatnonzero(sizes == largest)
    text = f"{total:,} bytes on {counted(holding, 'tile')}"
    if smallest == largest:
        return text + (f", {largest:,} each" if holding > 1 else "")
    where = f"tile {fullest[0]}" if len(fullest) == 1 else counted(len(fullest), "tile")
    return text + f", the most {largest:,} on {where}, the least {smallest:,}"


def _table(tensors: list[Tensor]) -> Table:
    """Return the table: a row for each tile with elements, with the bytes of each tensor."""
    bytes_per_tile = [bytes_by_tile([tensor]) for tensor in tensors]
    tiles_used = np.flatnonzero(sum(bytes_per_tile))
    names = tuple(f"bytes of {_name(tensor)}" for tensor in tensors)
    return ("tile", *names), tuple(
        (f"{tile}", *(f"{sizes[tile]:,}" for sizes in bytes_per_tile))
        for tile in tiles_used.tolist()
    )
