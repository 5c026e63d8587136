"""Count the bytes on every tile, at every leaf of the programs (a node that executes a step).

Some bytes are always on a tile: constants, the state of vertices, the pointers of vertex fields to
their data, code, stacks, packet headers, and the variables that are always live (see `liveness`).
Other bytes are on a tile only for some time: the other variables, copies of other tiles' data that
a compute set reads, results for other tiles, and packets from the host that arrive on another tile
than the tile of their data. Variables that are never live at the same time share bytes. So the
number of bytes that a tile needs is the number at its peak, which is the leaf at which the tile has
the most bytes.

Each variable starts on a new data path. The bytes lost between variables are counted separately, as
gaps. Code can only run from non-interleaved memory. As in Poplar, everything else is placed there
too while there is space, and interleaved memory is kept for data that needs it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np

from ipu_teach.compile.freeze import FrozenGraph, FrozenTable, numbers_in
from ipu_teach.compile.programs import ExecuteStep, Node, Step, moves
from ipu_teach.cost.exchange import WORD, Traffic, reads, total_of
from ipu_teach.cost.host_transfers import landing, with_host
from ipu_teach.cost.liveness import Liveness, liveness
from ipu_teach.errors import GraphMemoryAllocationError, counted
from ipu_teach.graph.layouts import Layout, ListLayout
from ipu_teach.graph.remote_buffer import RemoteBuffer
from ipu_teach.graph.variable_table import Variable
from ipu_teach.graph.vector_layout import VectorLayout
from ipu_teach.graph.vertex import Field
from ipu_teach.target import Target
from ipu_teach.types import Array

if TYPE_CHECKING:
    from ipu_teach.compile import Compiled

VARIABLES, CONSTANTS, STATE = "Variables", "Constants", "Vertex state"
POINTERS = "Edge pointers"
CODE = "Vertex code"
EXCHANGE_CODE = "Exchange code"
CONTROL = "Control code"
STACKS = "Stacks"
HEADERS = "Host packet headers"
BUFFERS = "Exchange buffers"
LANDING = "Host buffers"
CATEGORIES = (
    VARIABLES,
    CONSTANTS,
    STATE,
    POINTERS,
    CODE,
    EXCHANGE_CODE,
    CONTROL,
    STACKS,
    HEADERS,
    BUFFERS,
    LANDING,
)
EXECUTABLE = (CODE, EXCHANGE_CODE, CONTROL)
PASSING = (BUFFERS, LANDING)  # The categories of bytes that exist only while one step runs.


def _category(variable: Variable) -> str:
    if variable.constant:
        return CONSTANTS
    return STATE if variable.state else VARIABLES


@dataclass(frozen=True, eq=False)
class MemoryLedger:
    """The bytes of variables, and of everything else, on each tile.

    - `names`, `categories`: the name and category of each variable.
    - `tile`, `variable`, `size`: the columns of a table. It has a row for each pair of a variable
      and a tile that has some of the variable's elements; `size` is the number of their bytes.
    - `always`: the bytes that are always present, except variables: int64[tiles] keyed by category.
    - `passing`: for each leaf of the programs, the bytes that are present only while it runs:
      int64[tiles] keyed by category.
    - `liveness`: the variables that are live at each leaf.
    """

    target: Target
    names: tuple[str, ...]
    categories: tuple[str, ...]
    tile: Array
    variable: Array
    size: Array
    always: dict[str, Array]
    passing: tuple[dict[str, Array], ...]
    liveness: Liveness

    @property
    def num_tiles(self) -> int:
        """The number of tiles of all IPUs together."""
        return self.target.num_tiles

    @cached_property
    def variable_bytes_per_tile(self) -> Array:
        """The bytes of all variables, constants and state on each tile, summed up: int64[tiles].

        Variables that are live at different times could share memory, but all of them are counted.
        """
        return total_of(self.tile, self.size, self.num_tiles)

    @cached_property
    def always_live_bytes_per_tile(self) -> Array:
        """The bytes that are present from the first step to the last: int64[tiles]."""
        rows = self.liveness.always[self.variable]
        return total_of(self.tile[rows], self.size[rows], self.num_tiles) + sum(
            self.always.values()
        )

    @cached_property
    def _peak(self) -> tuple[Array, Array, Array, Array]:
        """The peaks of the bytes that are not always live, over all leaves of the programs.

        The tuple is `(peak_bytes, peak_leaf, bytes_by_leaf, fullest_tile)`. `peak_bytes`
        (int64[tiles]) is the maximum on each tile, and `peak_leaf` (int64[tiles]) is the number of
        the leaf at which this maximum occurs. `bytes_by_leaf` (int64[leaves]) is the sum over all
        tiles. `fullest_tile` (int64[leaves]) is the tile with the most bytes at each leaf,
        including the bytes that are always live.
        """
        live_by_leaf = self.liveness.live
        always = self.always_live_bytes_per_tile
        current_bytes, peak_bytes, peak_leaf = (
            np.zeros(self.num_tiles, np.int64) for _ in range(3)
        )
        bytes_by_leaf, fullest_tile = (np.zeros(len(live_by_leaf), np.int64) for _ in range(2))
        was_live = np.zeros(live_by_leaf.shape[1], bool)
        first_rows = np.searchsorted(self.variable, np.arange(live_by_leaf.shape[1] + 1))
        for leaf, is_live in enumerate(live_by_leaf):
            for variable in np.flatnonzero(is_live != was_live).tolist():
                rows = slice(first_rows[variable], first_rows[variable + 1])
                row_bytes = self.size[rows]
                current_bytes[self.tile[rows]] += row_bytes if is_live[variable] else -row_bytes
            was_live = is_live
            with_passing = current_bytes + sum(self.passing[leaf].values())
            bytes_by_leaf[leaf] = with_passing.sum()
            fullest_tile[leaf] = np.argmax(always + with_passing)
            peak_leaf[with_passing > peak_bytes] = leaf
            peak_bytes = np.maximum(peak_bytes, with_passing)
        return peak_bytes, peak_leaf, bytes_by_leaf, fullest_tile

    @property
    def not_always_live_bytes_per_tile(self) -> Array:
        """The bytes that are not always live, at each tile's peak: int64[tiles]."""
        return self._peak[0]

    @cached_property
    def bytes_per_tile(self) -> Array:
        """The modelled bytes on each tile at its peak, without gaps: int64[tiles]."""
        return self.always_live_bytes_per_tile + self.not_always_live_bytes_per_tile

    @cached_property
    def _at_peak(self) -> Array:
        """Whether the variable of each row is present at the peak of the row's tile: bool[rows].

        A row of the table belongs to one variable on one tile.
        """
        present: Array = self.liveness.always[self.variable]
        if len(self.liveness.live):
            present = present | self.liveness.live[self._peak[1][self.tile], self.variable]
        return present

    @cached_property
    def gaps_per_tile(self) -> Array:
        """The bytes of gaps between variables at each tile's peak: int64[tiles].

        A variable starts on a new data path, so the unused end of the previous variable's last data
        path is lost.
        """
        path = self.target.data_path_width // 8
        return total_of(self.tile[self._at_peak], -self.size[self._at_peak] % path, self.num_tiles)

    @property
    def held_per_tile(self) -> Array:
        """The bytes of each tile at its peak, including the gaps between variables: int64[tiles].

        These bytes must fit into the memory of a tile. The fullest tile is the tile with the
        largest number.
        """
        return self.bytes_per_tile + self.gaps_per_tile

    def by_region(self) -> dict[str, int]:
        """Return the bytes at each tile's peak, summed over all tiles, keyed by memory region.

        The keys are "Non-interleaved", "Interleaved" and "Overflow". The non-interleaved memory of
        a tile is filled first. Overflow is the bytes that do not fit into the memory of the tile.
        Gaps are included.
        """
        bytes_held = self.held_per_tile
        limit = self.target.bytes_per_tile
        plain = np.minimum(bytes_held, min(self.target.non_interleaved_bytes_per_tile, limit))
        fits = np.minimum(bytes_held, limit)
        return {
            "Non-interleaved": int(plain.sum()),
            "Interleaved": int((fits - plain).sum()),
            "Overflow": int((bytes_held - fits).sum()),
        }

    def by_variable(self, tile: int | None = None) -> dict[str, int]:
        """Return the bytes of each variable, by name, largest first, on one tile or all tiles.

        Variables that are not live at the peak are included.
        """
        rows = slice(None) if tile is None else self.tile == tile
        return self._named(self.variable[rows], self.size[rows])

    def at_fullest(self, tile: int | None = None, category: str = "") -> dict[str, int]:
        """Return the bytes of each variable that is present at a tile's peak, keyed by name.

        The largest comes first. If `tile` is None, the bytes are summed over all tiles, each at its
        own peak. With `category`, only variables of that category count.
        """
        rows = self._at_peak & (True if tile is None else self.tile == tile)
        if category:
            rows = rows & (self._category_index == CATEGORIES.index(category))
        return self._named(self.variable[rows], self.size[rows])

    def fullest_place(self, tile: int) -> Node | None:
        """Return the leaf of the programs at which a tile has its peak.

        The result is None if the bytes on the tile are always the same.
        """
        peak, place, *_ = self._peak
        return self.liveness.places[int(place[tile])] if peak[tile] else None

    def live_at(self, place: int, tile: int | None = None) -> dict[str, int]:
        """Return the bytes of each variable that is live at leaf number `place`, keyed by name.

        Leaves are numbered in program order. Variables that are always live are left out. With
        `tile`, only the bytes on that tile count.
        """
        rows = self.liveness.live[place, self.variable] & (
            True if tile is None else self.tile == tile
        )
        return self._named(self.variable[rows], self.size[rows])

    def bytes_by_place(self) -> list[tuple[str, int]]:
        """Return (name, bytes that are not always live) for each leaf of the programs.

        The bytes are those of all tiles together.
        """
        return [
            (node.name, size)
            for node, size in zip(self.liveness.places, self._peak[2].tolist(), strict=True)
        ]

    @property
    def passing_at_fullest(self) -> list[int]:
        """The bytes that exist only while a leaf runs, for each leaf in program order.

        The bytes of a leaf are added up over those tiles that have their peak at this leaf.
        """
        peak, peak_place, *_ = self._peak
        return [
            int(sum(passing.values(), np.zeros_like(peak))[(peak_place == n) & (peak > 0)].sum())
            for n, passing in enumerate(self.passing)
        ]

    @property
    def fullest_tile_by_place(self) -> Array:
        """The fullest tile at each leaf of the programs, in program order: int64[leaves].

        It is the tile with the most bytes, without gaps.
        """
        return self._peak[3]

    def tiles_of(self, name: str) -> list[int]:
        """Return, in ascending order, the tiles that have elements of a variable called `name`."""
        numbers = [i for i, variable_name in enumerate(self.names) if variable_name == name]
        return [int(t) for t in np.unique(self.tile[np.isin(self.variable, numbers)])]

    @cached_property
    def always_live_variables_per_tile(self) -> Array:
        """The bytes of always-live variables, without constants and state: int64[tiles]."""
        is_plain = self._category_index == CATEGORIES.index(VARIABLES)
        rows = self.liveness.always[self.variable] & is_plain
        return total_of(self.tile[rows], self.size[rows], self.num_tiles)

    @cached_property
    def _category_index(self) -> Array:
        """The index in `CATEGORIES` of each row of the table: int64[rows].

        A row of the table belongs to one variable on one tile.
        """
        by_variable = np.array([CATEGORIES.index(c) for c in self.categories], np.int64)
        by_row: Array = by_variable[self.variable]
        return by_row

    @cached_property
    def bytes_per_tile_by_category(self) -> dict[str, Array]:
        """The bytes at each tile's peak, int64[tiles] for each category.

        The sum over all categories is `bytes_per_tile`.
        """
        by_category: dict[str, Array] = {}
        peak_bytes, peak_leaf, *_ = self._peak
        for category_index, category in enumerate(CATEGORIES):
            rows = self._at_peak & (self._category_index == category_index)
            bytes_per_tile = total_of(self.tile[rows], self.size[rows], self.num_tiles)
            bytes_per_tile = bytes_per_tile + self.always.get(category, 0)
            for leaf, passing in enumerate(self.passing):
                if category in passing:
                    peaks_at_leaf = (peak_leaf == leaf) & (peak_bytes > 0)
                    bytes_per_tile = bytes_per_tile + np.where(peaks_at_leaf, passing[category], 0)
            by_category[category] = bytes_per_tile
        return by_category

    def by_category(self, tile: int | None = None) -> dict[str, int]:
        """Return the bytes at the peak of one tile, or of all tiles together, keyed by category.

        For all tiles, the peaks of the tiles are added up. The sum over all categories is
        `bytes_per_tile[tile]`, or `bytes_per_tile.sum()` for all tiles.
        """
        return {
            category: int(size.sum() if tile is None else size[tile])
            for category, size in self.bytes_per_tile_by_category.items()
        }

    def _named(self, variable: Array, size: Array) -> dict[str, int]:
        """Return the bytes of variables by name, largest first; names without bytes are omitted."""
        total = total_of(variable, size, len(self.names))
        order = np.argsort(-total, kind="stable")
        result: dict[str, int] = {}
        for i in order[total[order] > 0].tolist():
            result[self.names[i]] = result.get(self.names[i], 0) + int(total[i])
        return result


def ledger(
    compiled: Compiled, exchanges: list[tuple[Traffic, ...]], target: Target
) -> MemoryLedger:
    """Return the ledger of the bytes of a compiled program, on the machine `target`.

    `exchanges[i]` has the exchanges of compiled step i.
    """
    graph = compiled.graph
    variable_starts = np.array([v.start for v in graph.variables], np.int64)
    variable_stops = np.array([v.stop for v in graph.variables], np.int64)
    variable_of_piece, piece_begin, piece_end, owner = graph.tile_map.split(
        variable_starts, variable_stops
    )
    is_mapped = (owner >= 0) & (piece_end > piece_begin)
    # Rows are ordered by variable, then by tile.
    pairs = variable_of_piece[is_mapped] * target.num_tiles + owner[is_mapped]
    distinct_pairs, row_of_piece = np.unique(pairs, return_inverse=True)
    variable, tile = np.divmod(distinct_pairs, target.num_tiles)
    live = liveness(compiled)
    by_step = [
        _passing(graph, step, exchanges[step_number])
        for step_number, step in enumerate(compiled.steps)
    ]
    return MemoryLedger(
        target=target,
        names=tuple(v.name for v in graph.variables),
        categories=tuple(_category(v) for v in graph.variables),
        tile=tile,
        variable=variable,
        size=total_of(row_of_piece, (piece_end - piece_begin)[is_mapped], len(distinct_pairs)),
        always=_always(compiled, exchanges, target),
        passing=tuple(by_step[node.step] for node in live.places),
        liveness=live,
    )


def _always(
    compiled: Compiled, exchanges: list[tuple[Traffic, ...]], target: Target
) -> dict[str, Array]:
    """Return the bytes that are always present, except variables: int64[tiles] keyed by category.

    The categories are the pointers of vertices, code, exchange code, control code, stacks and
    packet headers.
    """
    graph = compiled.graph
    pointers, code, stacks, headers, moving, control = (
        np.zeros(target.num_tiles, np.int64) for _ in range(6)
    )
    codelets: dict[object, Array] = {}
    for _, table in graph.tables():
        has_vertices: Array = np.zeros(target.num_tiles, bool)
        has_vertices[table.tiles] = True
        codelets[table.codelet] = codelets.get(table.codelet, False) | has_vertices
        pointers += pointer_bytes(graph, table, target)
    for has_vertices in codelets.values():
        code += np.where(has_vertices, target.vertex_code_bytes, 0)
        worker_stacks = target.num_worker_contexts * target.worker_stack_bytes
        stacks = np.maximum(stacks, np.where(has_vertices, worker_stacks, 0))
    # Poplar has two codelets for copies: one for contiguous bytes, and one for several pieces.
    copying = np.zeros((2, target.num_tiles), bool)
    for step, exchange in zip(compiled.steps, exchanges, strict=True):
        for traffic in exchange:
            moving += exchange_code_bytes(traffic, target)
            copying |= np.array((traffic.pieces == 1, traffic.pieces > 1))
        transfer = None if isinstance(step, ExecuteStep) else with_host(step)
        if transfer is not None:
            headers += landing(graph, *transfer[0]).packets * target.host_packet_header_bytes
        tiles = [table.tiles for table in graph.executed(step)]
        control += control_code_bytes(exchange, tiles, transfer is not None, target)
    return {
        POINTERS: pointers,
        CODE: code + copying.sum(0) * target.vertex_code_bytes,
        EXCHANGE_CODE: moving,
        CONTROL: control,
        STACKS: stacks + target.supervisor_stack_bytes,
        HEADERS: headers,
    }


def exchange_code_bytes(exchange: Traffic, target: Target) -> Array:
    """Return the bytes of an exchange's code and of its copy vertices, on each tile: int64[tiles].

    A copy vertex takes two addresses and a count.
    """
    issued: Array = (
        exchange.sends + target.exchange_setup_instructions * exchange.sources
    ) * target.instruction_bytes
    issued += np.minimum(exchange.pieces, target.num_worker_contexts) * 3 * target.pointer_bytes
    return issued


def control_code_bytes(
    exchange: tuple[Traffic, ...], tiles: Sequence[Array], everywhere: bool, target: Target
) -> Array:
    """Return the bytes of the code that controls one step, without its exchange: int64[tiles].

    The code exists once, even if the step runs many times. All tiles need the code of a sync. Only
    tiles that exchange or copy data, or that have vertices, need the full code. `tiles` has an
    array of tiles for each table of vertices. With `everywhere`, as in a transfer with the host,
    all tiles need the full code.
    """
    busy = np.full(target.num_tiles, everywhere)
    for vertex_tiles in tiles:
        busy[vertex_tiles] = True
    for traffic in exchange:
        busy |= traffic.received + traffic.sent + traffic.stayed > 0
    full_size = target.control_code_bytes_per_step
    return np.where(busy, full_size, min(full_size, target.instruction_bytes))


def _passing(graph: FrozenGraph, step: Step, exchange: tuple[Traffic, ...]) -> dict[str, Array]:
    """Return the bytes that are present only while a step runs: int64[tiles] keyed by category."""
    if isinstance(step, ExecuteStep):
        arriving, leaving = exchange
        if step.copies:  # Copied data goes straight to its variable, so it needs no buffer.
            arriving = reads(graph, graph.compute_sets[step.compute_set])
        return {BUFFERS: arriving.received + arriving.stayed + leaving.sent + leaving.stayed}
    transfer = with_host(step)
    if transfer is None:
        return {}
    (moved,) = exchange
    _, to_device = transfer
    return {LANDING: moved.sent if to_device else moved.received}


def pointer_bytes(graph: FrozenGraph, table: FrozenTable, target: Target) -> Array:
    """Return the bytes of the pointers and lengths in the vertices of a table: int64[tiles].

    The class `VectorLayout` describes the sizes of pointers and lengths.
    """
    bytes_per_tile = np.zeros(target.num_tiles, np.int64)
    vertices_per_tile = np.bincount(table.tiles, minlength=target.num_tiles)
    for name, field in table.fields.items():
        if field.kind == "state":
            continue
        layout_numbers = numbers_in(table.layouts[name])
        if len(layout_numbers) == 1:
            bytes_per_tile += vertices_per_tile * _pointer_bytes(
                field, target, graph.layouts[layout_numbers[0]]
            )
            continue
        # The rows are divided into stretches of vertices with the same layout (see
        # `FrozenGraph.stretches`).
        stretch_starts = graph.stretches(table, name)
        bytes_per_vertex = graph.each_layout(
            table.layouts[name][stretch_starts], partial(_pointer_bytes, field, target)
        )
        bytes_per_tile += total_of(
            table.tiles[stretch_starts],
            bytes_per_vertex * graph.stretch_lengths(table, name),
            target.num_tiles,
        )
    return bytes_per_tile


def _pointer_bytes(field: Field, target: Target, layout: Layout | ListLayout) -> int:
    """Return the bytes of the pointers and lengths that one vertex has for `field`."""
    word_bytes = target.pointer_bytes
    if field.depth == 0:
        return word_bytes
    scaled_layouts = (
        VectorLayout.SCALED_PTR32,
        VectorLayout.SCALED_PTR64,
        VectorLayout.SCALED_PTR128,
    )
    inner_layout = field.layouts[-1] if field.layouts else None
    vector_bytes = 2 * word_bytes
    if inner_layout in scaled_layouts:
        vector_bytes = word_bytes // 2
    elif inner_layout in (VectorLayout.ONE_PTR, VectorLayout.SHORT_SPAN):
        vector_bytes = word_bytes
    if field.depth == 1 and field.form == "edges":
        elements = sum(part.size for _, part in layout.parts)
        # The vertex has an address for each element, and two more words.
        return elements * word_bytes + 2 * word_bytes
    if field.depth == 1:
        return vector_bytes
    rows = layout.shape[0] if isinstance(layout, Layout) else len(layout.parts)
    # A VectorList packs the offset and the length of a row into one word.
    return rows * (word_bytes if field.form == "list" else vector_bytes) + 2 * word_bytes


def at_most(compiled: Compiled, target: Target) -> int:
    """Return an upper bound for the bytes on any tile.

    If the bound fits into a tile's memory, the program fits, and its ledger need not be computed.

    The bound makes these assumptions:

    - One tile has every variable and every vertex.
    - All data of a step arrives as single elements. Each element needs a SEND instruction and a
      selection of its sender.
    - The tile stores this data twice: as it was received, and rearranged. It also stores twice all
      data that it sends.
    """
    graph = compiled.graph
    workers = target.num_worker_contexts
    data_path_bytes = target.data_path_width // 8
    bound = graph.memory_bytes + len(graph.variables) * data_path_bytes
    bound += workers * target.worker_stack_bytes + target.supervisor_stack_bytes
    tables = [table for _, table in graph.tables()]
    bound += sum(int(pointer_bytes(graph, table, target).sum()) for table in tables)
    # The 2 stands for Poplar's two copy codelets.
    bound += (len({table.codelet for table in tables}) + 2) * target.vertex_code_bytes
    for step in compiled.steps:
        bound += target.control_code_bytes_per_step + 2 * workers * 3 * target.pointer_bytes
        for field_bytes, element_bytes in _moved(graph, step):
            packets = -(-field_bytes // target.host_packet_bytes) + target.num_ipus
            pieces = field_bytes // element_bytes + packets
            num_instructions = pieces * (1 + target.exchange_setup_instructions) + field_bytes // (
                WORD * target.exchange_send_words
            )
            bound += (
                2 * (num_instructions * target.instruction_bytes + 2 * field_bytes)
                + packets * target.host_packet_header_bytes
            )
    return bound


def _moved(graph: FrozenGraph, step: Step) -> Iterator[tuple[int, int]]:
    """Yield (number of bytes, bytes of one element) for each field or tensor that a step moves."""
    transfer = None if isinstance(step, ExecuteStep) else with_host(step)
    for tensor in [into for _, into in moves(step)] if transfer is None else transfer[0]:
        yield tensor.num_elements * tensor.dtype.size, tensor.dtype.size
    for table in graph.executed(step):
        for name, field in table.fields.items():
            if field.kind != "state":
                yield graph.connected_bytes(table, name), field.dtype.size


def check(memory: MemoryLedger) -> None:
    """Check that the bytes on each tile fit into its memory.

    :raises GraphMemoryAllocationError: if they do not fit.
    """
    bytes_held = memory.held_per_tile
    bytes_per_tile = memory.target.bytes_per_tile
    fullest_tile = int(np.argmax(bytes_held))
    if bytes_held[fullest_tile] <= bytes_per_tile:
        return
    num_tiles_over = int(np.count_nonzero(bytes_held > bytes_per_tile))
    variable_texts = [
        f"{name!r} {size:,}" for name, size in memory.at_fullest(fullest_tile, VARIABLES).items()
    ]
    constants = memory.at_fullest(fullest_tile, CONSTANTS)
    constants_count = f" ({len(constants):,} of them)" if len(constants) > 1 else ""
    other_texts = [
        f"{name.lower()} {size:,}{constants_count if name == CONSTANTS else ''}"
        for name, size in memory.by_category(fullest_tile).items()
        if size and name != VARIABLES
    ]
    omitted = (
        f", and {counted(len(variable_texts) - 10, 'smaller one')}"
        if len(variable_texts) > 10
        else ""
    )
    error = GraphMemoryAllocationError(
        "Out of memory: Cannot fit all variable data onto one or more tiles. "
        f"{num_tiles_over} of {memory.num_tiles} tiles "
        f"{'holds' if num_tiles_over == 1 else 'hold'} too much.",
        where=f"the fullest is tile {fullest_tile}: {int(bytes_held[fullest_tile]):,} of "
        f"{bytes_per_tile:,} bytes. Its variables: "
        + (", ".join(variable_texts[:10]) + omitted or "none")
        + (f". Also: {', '.join(other_texts)}." if other_texts else "."),
        next_step=(
            "spread the variables over more tiles (poputil.map_tensor_linearly), use a smaller "
            "dtype, or more tiles."
        ),
    )
    error.bytes_per_tile = bytes_held
    raise error


def check_streaming(buffers: Iterable[RemoteBuffer], target: Target) -> None:
    """Check that the remote buffers fit into streaming memory.

    :raises GraphMemoryAllocationError: if they do not fit.
    """
    buffers_by_size = sorted(buffers, key=lambda buffer: -buffer.bytes)
    total_bytes = sum(buffer.bytes for buffer in buffers_by_size)
    available_bytes = target.streaming_memory
    if total_bytes <= available_bytes:
        return
    descriptions = [f"{buffer.handle!r} {buffer.bytes:,}" for buffer in buffers_by_size]
    omitted = (
        f", and {counted(len(descriptions) - 10, 'smaller one')}" if len(descriptions) > 10 else ""
    )
    raise GraphMemoryAllocationError(
        "Out of memory: Cannot fit all remote buffers into streaming memory.",
        where=f"streaming memory has {available_bytes:,} bytes ({target.streaming_bytes:,} for "
        f"each IPU), and the buffers take {total_bytes:,}: {', '.join(descriptions[:10])}{omitted}",
        next_step="use fewer or shorter rows, a smaller dtype, or a machine with more IPUs.",
    )
