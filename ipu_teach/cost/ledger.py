"""Bytes on every tile, at every place of the programs.

What is always there: constants, the state of vertices, their edge pointers, code, stacks, headers
of packets, and the variables that are always live (see `liveness`). What comes and goes: the other
variables, copies of other tiles' data that a compute set reads, results on their way to another
tile, and the host's packets that landed away from their place. What is dead leaves its bytes to
what is live. So a tile is as full as at its fullest moment.

Each variable starts on a whole data path; the bytes that this leaves between them are counted
apart, as gaps. Code can only run from non-interleaved memory, and everything else goes there too as
long as there is room, as in Poplar, which keeps interleaved memory for what asks for it.
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
PASSING = (BUFFERS, LANDING)  # what is there while one step runs, and no longer


@dataclass(frozen=True, eq=False)
class MemoryLedger:
    """What lies where.

    `tile`, `variable` and `size` (bytes) are parallel: one row for each variable and tile that
    holds some of it. `names` and `categories` are by variable. `always` (category to int64[tiles]):
    what is always there besides variables. `passing` (by place of the programs, category to
    int64[tiles]): what is there only at that place. `liveness` says which variables are live where.
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
        """Tiles of all IPUs together."""
        return self.target.num_tiles

    @cached_property
    def variable_bytes_per_tile(self) -> Array:
        """int64[tiles]: bytes of variables, constants and state, as if none shared its place with
        another."""
        return total_of(self.tile, self.size, self.num_tiles)

    @cached_property
    def always_live_bytes_per_tile(self) -> Array:
        """int64[tiles]: bytes that are there from the first step to the last."""
        rows = self.liveness.always[self.variable]
        return total_of(self.tile[rows], self.size[rows], self.num_tiles) + sum(
            self.always.values()
        )

    @cached_property
    def _peak(self) -> tuple[Array, Array, Array, Array]:
        """(bytes by tile of what is not always live, at most; the place at which that is; bytes of
        all tiles by place; the fullest tile by place)."""
        count, live, always = self.num_tiles, self.liveness.live, self.always_live_bytes_per_tile
        now, peak, place = (np.zeros(count, np.int64) for _ in range(3))
        by_place, fullest = (np.zeros(len(live), np.int64) for _ in range(2))
        before = np.zeros(live.shape[1], bool)
        first = np.searchsorted(self.variable, np.arange(live.shape[1] + 1))
        for number, live_now in enumerate(live):
            for changed in np.flatnonzero(live_now != before).tolist():
                rows = slice(first[changed], first[changed + 1])
                now[self.tile[rows]] += self.size[rows] if live_now[changed] else -self.size[rows]
            before = live_now
            with_passing = now + sum(self.passing[number].values())
            by_place[number] = with_passing.sum()
            fullest[number] = np.argmax(always + with_passing)
            place[with_passing > peak] = number
            peak = np.maximum(peak, with_passing)
        return peak, place, by_place, fullest

    @property
    def not_always_live_bytes_per_tile(self) -> Array:
        """int64[tiles]: bytes of what comes and goes, at each tile's fullest moment."""
        return self._peak[0]

    @cached_property
    def bytes_per_tile(self) -> Array:
        """int64[tiles]: modelled bytes on each tile at its fullest moment, without gaps."""
        return self.always_live_bytes_per_tile + self.not_always_live_bytes_per_tile

    @cached_property
    def _held(self) -> Array:
        """bool[rows]: what is there at the fullest moment of its tile."""
        is_held: Array = self.liveness.always[self.variable]
        if len(self.liveness.live):
            is_held = is_held | self.liveness.live[self._peak[1][self.tile], self.variable]
        return is_held

    @cached_property
    def gaps_per_tile(self) -> Array:
        """int64[tiles]: bytes lost because a variable starts on a whole data path, at each tile's
        fullest moment."""
        path = self.target.data_path_width // 8
        return total_of(self.tile[self._held], -self.size[self._held] % path, self.num_tiles)

    @property
    def held_per_tile(self) -> Array:
        """int64[tiles]: `bytes_per_tile` and gaps: what must fit, and what everybody calls the
        fullest tile's bytes."""
        return self.bytes_per_tile + self.gaps_per_tile

    def by_region(self) -> dict[str, int]:
        """Bytes of all tiles together, gaps included, in non-interleaved memory, in interleaved
        memory, and too many."""
        bytes_held, limit = self.held_per_tile, self.target.bytes_per_tile
        plain = np.minimum(bytes_held, min(self.target.non_interleaved_bytes_per_tile, limit))
        fits = np.minimum(bytes_held, limit)
        return {
            "Non-interleaved": int(plain.sum()),
            "Interleaved": int((fits - plain).sum()),
            "Overflow": int((bytes_held - fits).sum()),
        }

    def by_variable(self, tile: int | None = None) -> dict[str, int]:
        """Bytes by variable name, largest first, on one tile or on all, whether live or not."""
        rows = slice(None) if tile is None else self.tile == tile
        return self._named(self.variable[rows], self.size[rows])

    def at_fullest(self, tile: int | None = None, category: str = "") -> dict[str, int]:
        """As `by_variable`, of what is on a tile at its fullest moment, or on each at its own; with
        `category` only the variables of that one."""
        rows = self._held & (True if tile is None else self.tile == tile)
        if category:
            rows = rows & (self._kind == CATEGORIES.index(category))
        return self._named(self.variable[rows], self.size[rows])

    def fullest_place(self, tile: int) -> Node | None:
        """Return the leaf of the programs at which a tile holds most; None if nothing comes and
        goes on it."""
        peak, moment, *_ = self._peak
        return self.liveness.places[int(moment[tile])] if peak[tile] else None

    def live_at(self, place: int, tile: int | None = None) -> dict[str, int]:
        """As `by_variable`, of those variables that are not always live and live at a place of the
        programs."""
        rows = self.liveness.live[place, self.variable] & (
            True if tile is None else self.tile == tile
        )
        return self._named(self.variable[rows], self.size[rows])

    def bytes_by_place(self) -> list[tuple[str, int]]:
        """What comes and goes: for each leaf of the programs, in order, its name and the bytes on
        all tiles."""
        return [
            (node.name, size)
            for node, size in zip(self.liveness.places, self._peak[2].tolist(), strict=True)
        ]

    @property
    def passing_at_fullest(self) -> list[int]:
        """For each leaf of the programs, in order, the bytes that are there at it and no longer, on
        the tiles that are fullest then."""
        peak, moment, *_ = self._peak
        return [
            int((sum(passing_now.values(), np.zeros_like(peak)) * (moment == n) * (peak > 0)).sum())
            for n, passing_now in enumerate(self.passing)
        ]

    @property
    def fullest_tile_by_place(self) -> Array:
        """int64[places]: for each leaf of the programs, in order, the tile that holds most
        there."""
        return self._peak[3]

    def tiles_of(self, name: str) -> list[int]:
        """The tiles that hold some of the variables of that name, ascending."""
        numbers = [i for i, known in enumerate(self.names) if known == name]
        return [int(t) for t in np.unique(self.tile[np.isin(self.variable, numbers)])]

    @cached_property
    def always_live_variables_per_tile(self) -> Array:
        """int64[tiles]: of `bytes_per_tile_by_category`, the bytes of those plain variables that
        are always live."""
        rows = self.liveness.always[self.variable] & (self._kind == CATEGORIES.index(VARIABLES))
        return total_of(self.tile[rows], self.size[rows], self.num_tiles)

    @cached_property
    def _kind(self) -> Array:
        """int64[rows]: the category of each row's variable, as a number."""
        kinds: Array = np.array([CATEGORIES.index(c) for c in self.categories], np.int64)[
            self.variable
        ]
        return kinds

    @cached_property
    def bytes_per_tile_by_category(self) -> dict[str, Array]:
        """Category to int64[tiles]: bytes at each tile's fullest moment. They add up to
        `bytes_per_tile`."""
        by_name: dict[str, Array] = {}
        peak, moment, *_ = self._peak
        for number, category in enumerate(CATEGORIES):
            rows = self._held & (self._kind == number)
            bytes_of_category = total_of(
                self.tile[rows], self.size[rows], self.num_tiles
            ) + self.always.get(category, 0)
            for place, passing in enumerate(self.passing):
                if category in passing:
                    bytes_of_category = bytes_of_category + np.where(
                        (moment == place) & (peak > 0), passing[category], 0
                    )
            by_name[category] = bytes_of_category
        return by_name

    def by_category(self, tile: int | None = None) -> dict[str, int]:
        """Bytes by category, of one tile or of all together, at each tile's fullest moment. They
        add up to `bytes_per_tile`."""
        rows = self.bytes_per_tile_by_category.items()
        return {
            category: int(per_tile.sum() if tile is None else per_tile[tile])
            for category, per_tile in rows
        }

    def _named(self, variable: Array, size: Array) -> dict[str, int]:
        total = total_of(variable, size, len(self.names))
        order = np.argsort(-total, kind="stable")
        result: dict[str, int] = {}
        for i in order[total[order] > 0].tolist():
            result[self.names[i]] = result.get(self.names[i], 0) + int(total[i])
        return result


def ledger(
    compiled: Compiled, exchanges: list[tuple[Traffic, ...]], target: Target
) -> MemoryLedger:
    """The ledger of a compiled program, whose step i exchanges `exchanges[i]`, at the sizes of
    `target`."""
    graph = compiled.graph
    start = np.array([v.start for v in graph.variables], np.int64)
    stop = np.array([v.stop for v in graph.variables], np.int64)
    piece, begin, end, owner = graph.tile_map.split(start, stop)
    keep = (owner >= 0) & (end > begin)
    # A row for each variable and tile, variable by variable.
    key = piece[keep] * target.num_tiles + owner[keep]
    keys, row = np.unique(key, return_inverse=True)
    variable, tile = np.divmod(keys, target.num_tiles)
    found_live = liveness(compiled)
    by_step = [
        _passing(graph, step, exchanges[number]) for number, step in enumerate(compiled.steps)
    ]
    return MemoryLedger(
        target,
        tuple(v.name for v in graph.variables),
        tuple(
            CONSTANTS if v.constant else STATE if v.state else VARIABLES for v in graph.variables
        ),
        tile,
        variable,
        total_of(row, (end - begin)[keep], len(keys)),
        _always(compiled, exchanges, target),
        tuple(by_step[node.step] for node in found_live.places),
        found_live,
    )


def _always(
    compiled: Compiled, exchanges: list[tuple[Traffic, ...]], target: Target
) -> dict[str, Array]:
    """Category to int64[tiles]: what every tile holds for its vertices and for its part of the
    programs."""
    graph = compiled.graph
    pointers, code, stacks, headers, moving, control = (
        np.zeros(target.num_tiles, np.int64) for _ in range(6)
    )
    codelets: dict[object, Array] = {}
    for _, table in graph.tables():
        on_tiles: Array = np.zeros(target.num_tiles, bool)
        on_tiles[table.tiles] = True
        codelets[table.codelet] = codelets.get(table.codelet, False) | on_tiles
        pointers += pointer_bytes(graph, table, target)
    for on_tiles in codelets.values():
        code += on_tiles * target.vertex_code_bytes
        stacks = np.maximum(
            stacks, on_tiles * target.num_worker_contexts * target.worker_stack_bytes
        )
    # Poplar has copy vertices for what lies side by side, and for pieces
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
    """int64[tiles]: code that each tile needs for one exchange, and its copy vertices: two
    addresses and a count each."""
    issued: Array = (
        exchange.sends + target.exchange_setup_instructions * exchange.sources
    ) * target.instruction_bytes
    issued += np.minimum(exchange.pieces, target.num_worker_contexts) * 3 * target.pointer_bytes
    return issued


def control_code_bytes(
    exchange: tuple[Traffic, ...], tiles: Sequence[Array], everywhere: bool, target: Target
) -> Array:
    """int64[tiles]: code of one step besides its exchange, once however often it runs.

    All tiles sync. Only those that exchange, copy, or are among `tiles`, where vertices lie, do
    more; with the host all.
    """
    busy = np.full(target.num_tiles, everywhere)
    for subset in tiles:
        busy[subset] = True
    for traffic in exchange:
        busy |= traffic.received + traffic.sent + traffic.stayed > 0
    bytes_per_step = target.control_code_bytes_per_step
    return np.where(busy, bytes_per_step, min(bytes_per_step, target.instruction_bytes))


def _passing(graph: FrozenGraph, step: Step, exchange: tuple[Traffic, ...]) -> dict[str, Array]:
    """Category to int64[tiles]: what is there while a step runs, and no longer."""
    if isinstance(step, ExecuteStep):
        arriving, leaving = exchange
        if step.copies:  # which put what they bring where it stays
            arriving = reads(graph, graph.compute_sets[step.compute_set])
        return {BUFFERS: arriving.received + arriving.stayed + leaving.sent + leaving.stayed}
    transfer = with_host(step)
    if transfer is None:
        return {}
    (moved,), (_, to_device) = exchange, transfer
    return {LANDING: moved.sent if to_device else moved.received}


def pointer_bytes(graph: FrozenGraph, table: FrozenTable, target: Target) -> Array:
    """int64[tiles]: bytes of the addresses and lengths in the vertices of a table, as
    `VectorLayout` describes them."""
    total = np.zeros(target.num_tiles, np.int64)
    vertices = np.bincount(table.tiles, minlength=target.num_tiles)
    for name, field in table.fields.items():
        if field.kind == "state":
            continue
        same_layout = numbers_in(table.layouts[name])
        if len(same_layout) == 1:
            total += vertices * _pointer_bytes(field, target, graph.layouts[same_layout[0]])
            continue
        first = graph.stretches(table, name)  # all vertices of a stretch have the same layout
        bytes_per_layout = graph.each_layout(
            table.layouts[name][first], partial(_pointer_bytes, field, target)
        )
        total += total_of(
            table.tiles[first],
            bytes_per_layout * graph.stretch_lengths(table, name),
            target.num_tiles,
        )
    return total


def _pointer_bytes(field: Field, target: Target, layout: Layout | ListLayout) -> int:
    word = target.pointer_bytes
    if field.depth == 0:
        return word
    half = (VectorLayout.SCALED_PTR32, VectorLayout.SCALED_PTR64, VectorLayout.SCALED_PTR128)
    inner = field.layouts[-1] if field.layouts else None
    pointer = 2 * word
    if inner in half:
        pointer = word // 2
    elif inner in (VectorLayout.ONE_PTR, VectorLayout.SHORT_SPAN):
        pointer = word
    if field.depth == 1 and field.form == "edges":
        elements = sum(part.size for _, part in layout.parts)
        return elements * word + 2 * word  # an address for each
    if field.depth == 1:
        return pointer
    rows = layout.shape[0] if isinstance(layout, Layout) else len(layout.parts)
    # a VectorList packs distance and length into a word
    return rows * (word if field.form == "list" else pointer) + 2 * word


def at_most(compiled: Compiled, target: Target) -> int:
    """Bytes that no tile holds more of. Small programs are known to fit by this, long before a
    ledger of theirs is there.

    It is as if one tile had every variable and every vertex, and all that a step works on came to
    it in single elements, each with a SEND and a turn to its sender, lay there twice, as it came
    and put together, and went out again in the same way.
    """
    graph, workers, path = compiled.graph, target.num_worker_contexts, target.data_path_width // 8
    upper_bound = graph.memory_bytes + len(graph.variables) * path
    upper_bound += workers * target.worker_stack_bytes + target.supervisor_stack_bytes
    tables = [table for _, table in graph.tables()]
    upper_bound += sum(int(pointer_bytes(graph, table, target).sum()) for table in tables)
    # two of copies
    upper_bound += (len({table.codelet for table in tables}) + 2) * target.vertex_code_bytes
    for step in compiled.steps:
        upper_bound += target.control_code_bytes_per_step + 2 * workers * 3 * target.pointer_bytes
        for size, element in _moved(graph, step):
            packets = -(-size // target.host_packet_bytes) + target.num_ipus
            pieces = size // element + packets
            issued = pieces * (1 + target.exchange_setup_instructions) + size // (
                WORD * target.exchange_send_words
            )
            upper_bound += (
                2 * (issued * target.instruction_bytes + 2 * size)
                + packets * target.host_packet_header_bytes
            )
    return upper_bound


def _moved(graph: FrozenGraph, step: Step) -> Iterator[tuple[int, int]]:
    """(bytes, bytes of one element) of each field or tensor that a step moves."""
    transfer = None if isinstance(step, ExecuteStep) else with_host(step)
    for tensor in [into for _, into in moves(step)] if transfer is None else transfer[0]:
        yield tensor.num_elements * tensor.dtype.size, tensor.dtype.size
    for table in graph.executed(step):
        for name, field in table.fields.items():
            if field.kind != "state":
                yield graph.connected_bytes(table, name), field.dtype.size


def check(memory: MemoryLedger) -> None:
    """Raise `GraphMemoryAllocationError` if a tile holds more than it has."""
    used, limit = memory.held_per_tile, memory.target.bytes_per_tile
    full = int(np.argmax(used))
    if used[full] <= limit:
        return
    over = int(np.count_nonzero(used > limit))
    largest = [f"{name!r} {size:,}" for name, size in memory.at_fullest(full, VARIABLES).items()]
    constants = memory.at_fullest(full, CONSTANTS)
    many = f" ({len(constants):,} of them)" if len(constants) > 1 else ""
    consumers = [
        f"{name.lower()} {size:,}{many if name == CONSTANTS else ''}"
        for name, size in memory.by_category(full).items()
        if size and name != VARIABLES
    ]
    smaller_ones = f", and {counted(len(largest) - 10, 'smaller one')}" if len(largest) > 10 else ""
    error = GraphMemoryAllocationError(
        "Out of memory: Cannot fit all variable data onto one or more tiles. "
        f"{over} of {memory.num_tiles} tiles {'holds' if over == 1 else 'hold'} too much.",
        where=f"the fullest is tile {full}: {int(used[full]):,} of {limit:,} bytes. Its variables: "
        + (", ".join(largest[:10]) + smaller_ones or "none")
        + (f". Besides: {', '.join(consumers)}." if consumers else "."),
        next_step=(
            "spread the variables over more tiles (poputil.map_tensor_linearly), use a smaller "
            "dtype, or more tiles."
        ),
    )
    error.bytes_per_tile = used
    raise error


def check_streaming(buffers: Iterable[RemoteBuffer], target: Target) -> None:
    """Raise `GraphMemoryAllocationError` if remote buffers take more than streaming memory has."""
    largest = sorted(buffers, key=lambda buffer: -buffer.bytes)
    total, limit = sum(buffer.bytes for buffer in largest), target.streaming_memory
    if total <= limit:
        return
    buffer_texts = [f"{buffer.handle!r} {buffer.bytes:,}" for buffer in largest]
    smaller_ones = (
        f", and {counted(len(buffer_texts) - 10, 'smaller one')}" if len(buffer_texts) > 10 else ""
    )
    raise GraphMemoryAllocationError(
        "Out of memory: Cannot fit all remote buffers into streaming memory.",
        where=f"it has {limit:,} bytes, {target.streaming_bytes:,} an IPU, and they take "
        f"{total:,}: {', '.join(buffer_texts[:10])}{smaller_ones}",
        next_step="give them fewer or shorter rows, a smaller dtype, or the machine more IPUs.",
    )
