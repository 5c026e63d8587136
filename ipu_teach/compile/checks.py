"""Check a frozen graph and its programs before they run.

Each check examines all vertices together. Its error names the first vertex that fails.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ipu_teach.compile.freeze import (
    FrozenComputeSet,
    FrozenGraph,
    FrozenTable,
    Intervals,
    numbers_in,
)
from ipu_teach.errors import (
    ComputeSetRaceError,
    ControlProgramError,
    GraphConnectionError,
    GraphMemoryAllocationError,
    InvalidTileMappingError,
    NoSizeSpecifiedError,
    counted,
)
from ipu_teach.graph.source import in_words
from ipu_teach.graph.tensor import Tensor
from ipu_teach.graph.tile_map import UNMAPPED, meet
from ipu_teach.graph.vertex_table import UNCONNECTED
from ipu_teach.program import Copy, Program
from ipu_teach.types import Array


def check_graph(
    graph: FrozenGraph, *, refuse_races: bool = True, refuse_large: bool = True
) -> dict[int, str]:
    """Run every check of the graph, the most helpful ones first.

    If `refuse_races` is False, a race raises no error, and the result maps the id of each compute
    set with a race to a description of the race. If `refuse_large` is False, a field may be larger
    than a tile's memory.
    """
    for compute_set, table in graph.tables():
        check_connected(compute_set, table)
    check_variables_mapped(graph)
    for compute_set, table in graph.tables():
        check_vertices_mapped(compute_set, table)
    for compute_set, table in graph.tables() if refuse_large else ():
        check_regions_fit(graph, compute_set, table)
    racing: dict[int, str] = {}
    for compute_set in graph.compute_sets:
        try:
            check_races(graph, compute_set)
        except ComputeSetRaceError as race:
            if refuse_races:
                raise
            racing[compute_set.id] = race.tried
    return racing


def vertex_name(table: FrozenTable, row: int, field: str = "") -> str:
    """Return the description of a vertex in error messages.

    It contains the vertex's number in the compute set, the replica if there are several, the
    codelet, the name `field` if it is not empty, and the tile.
    """
    tile = table.tiles[row]
    tile_name = f"tile {tile}" if tile >= 0 else "no tile"
    per_replica = len(table) // table.replicas
    replica = f" of replica {row // per_replica} of {table.replicas}" if table.replicas > 1 else ""
    codelet = f"{table.codelet.__name__}{'.' + field if field else ''}"
    return f"vertex {table.order[row % per_replica]}{replica} ({codelet}, {tile_name})"


def check_connected(compute_set: FrozenComputeSet, table: FrozenTable) -> None:
    """Check that every field of every vertex is connected, and every state field has a value.

    A state field that is a vector may have a size instead of a value.

    :raises NoSizeSpecifiedError: if a state field that is a vector has neither a value nor a size.
    :raises GraphConnectionError: if another state field has no value, or a field is not connected.
    """
    for name, field in table.fields.items():
        missing_rows = np.flatnonzero(table.offsets[name] == UNCONNECTED)
        if missing_rows.size:
            is_state = field.kind == "state"
            vertex_text = vertex_name(table, int(missing_rows[0]), name)
            line_text = in_words(table.line(int(missing_rows[0])))
            if is_state and field.depth:
                raise NoSizeSpecifiedError(f"""The state {name!r} of {missing_rows.size}
                    {"vertex" if missing_rows.size == 1 else "vertices"} of
                    {table.codelet.__name__} has neither a value nor a size.
                    where: {vertex_text} of compute set {compute_set.name!r}
                    line:  {line_text}
                    next:  give it numbers in add_vertex: {name}=…. Or give it a size:
                    graph.set_field_size(vertex[{name!r}], size).""")
            action = f"connect the {field.declaration()} {name!r}"
            alternative = ""
            if is_state:
                action = "give it a value"
                alternative = ". Or give it a default in the class"
            raise GraphConnectionError(f"""The {"state" if is_state else "field"} {name!r} of
                {counted(missing_rows.size, "vertex", "vertices")} of {table.codelet.__name__}
                {"has no value" if is_state else "is not connected"}.
                where: {vertex_text} of compute set {compute_set.name!r}
                line:  {line_text}
                next:  {action} in add_vertex: {name}=…{alternative}.""")


def check_variables_mapped(graph: FrozenGraph) -> None:
    """Check that every element of every variable is mapped to a tile."""
    tile_map = graph.tile_map
    piece_stops = np.append(tile_map.start[1:], graph.memory_bytes)
    unmapped_pieces = np.flatnonzero(tile_map.tile == UNMAPPED)
    for variable in graph.variables if unmapped_pieces.size else []:
        gap_begins = np.maximum(tile_map.start[unmapped_pieces], variable.start)
        gap_ends = np.minimum(piece_stops[unmapped_pieces], variable.stop)
        gaps_inside = np.flatnonzero(gap_ends > gap_begins)
        if gaps_inside.size and not variable.state:
            element_bytes = variable.dtype.size
            num_unmapped = int((gap_ends - gap_begins)[gaps_inside].sum()) // element_bytes
            num_elements = (variable.stop - variable.start) // element_bytes
            subject = f"The variable {variable.name!r} is"
            first_unmapped = ""
            if num_unmapped < num_elements:
                subject = (
                    f"{num_unmapped:,} of the {num_elements:,} elements of variable "
                    f"{variable.name!r} are"
                )
                first_unmapped = (
                    f"the first of them is {graph.element(int(gap_begins[gaps_inside[0]]))}"
                )
            raise InvalidTileMappingError(f"""{subject} not mapped to any tile.
                where: {first_unmapped}
                line:  {in_words(variable.line)}
                next:  graph.set_tile_mapping(tensor, tile), or poputil.map_tensor_linearly(graph,
                tensor).""")


def check_vertices_mapped(compute_set: FrozenComputeSet, table: FrozenTable) -> None:
    """Check that every vertex is mapped to a tile."""
    missing = np.flatnonzero(table.tiles == UNMAPPED)
    if missing.size:
        subject = (
            f"{missing.size:,} of the {len(table):,} vertices" if len(table) > 1 else "The vertex"
        )
        raise InvalidTileMappingError(f"""{subject} of {table.codelet.__name__} in compute set
            {compute_set.name!r} {"is" if missing.size == 1 else "are"} not mapped to any tile.
            where: {vertex_name(table, int(missing[0]))}
            line:  {in_words(table.line(int(missing[0])))}
            next:  graph.set_tile_mapping(vertex, tile).""")


def check_regions_fit(
    graph: FrozenGraph, compute_set: FrozenComputeSet, table: FrozenTable
) -> None:
    """Check that the fields of each vertex fit into the memory of its tile.

    While a vertex runs, all bytes of all its fields are on that tile.
    """
    bytes_per_tile = graph.target.bytes_per_tile
    largest_regions = [int(graph.region_bytes(table, name).max()) for name in table.fields]
    # If even the largest regions of all fields fit together, every vertex fits.
    if sum(largest_regions) <= bytes_per_tile:
        return
    bytes_by_field = {
        name: np.repeat(graph.region_bytes(table, name), graph.stretch_lengths(table, name))
        for name in table.fields
    }
    for name, bytes_of_row in [
        *bytes_by_field.items(),
        ("", sum(bytes_by_field.values(), np.zeros(len(table), np.int64))),
    ]:
        row = int(np.argmax(bytes_of_row > bytes_per_tile))
        if bytes_of_row[row] > bytes_per_tile:
            codelet = table.codelet.__name__
            bytes_needed = f"{int(bytes_of_row[row]):,} bytes"
            if name:
                problem = f"The field {name!r} of {codelet} takes {bytes_needed}"
            else:
                problem = f"The fields of one {codelet} take {bytes_needed} together"
            error = GraphMemoryAllocationError(f"""{problem}, but a tile has {bytes_per_tile:,}.
                where: {vertex_name(table, row, name)} of compute set {compute_set.name!r}
                line:  {in_words(table.line(row))}
                next:  give each vertex a smaller part of the tensor, and spread the vertices over
                the tiles.""")
            is_mapped = graph.tile_map.tile != UNMAPPED
            piece_bytes = np.diff(np.append(graph.tile_map.start, graph.memory_bytes))[is_mapped]
            bytes_by_tile = np.bincount(
                graph.tile_map.tile[is_mapped], piece_bytes, graph.target.num_tiles
            )
            error.bytes_per_tile = bytes_by_tile.astype(np.int64)
            raise error


Owners = list[tuple[FrozenTable, str]]  # The fields that access bytes: (table, name of the field).


def _sorted(
    intervals: Callable[[FrozenTable, str], Intervals], owners: Owners
) -> tuple[Array, Array, Array, Array]:
    """Return (owner, row, start, stop): the byte intervals of all vertices, sorted by `start`.

    `owners` lists (table of vertices, field). `intervals(table, field)` returns the byte intervals
    that the table's vertices access through the field. In the result, `owner` is an index into
    `owners`, and `row` is the vertex's row in the table. Empty intervals are left out.
    """
    intervals_by_owner = [intervals(*owner) for owner in owners]
    if not intervals_by_owner:
        return (np.zeros(0, np.int64),) * 4
    owner = np.concatenate(
        [
            np.full(len(intervals_of_owner), owner_index)
            for owner_index, intervals_of_owner in enumerate(intervals_by_owner)
        ]
    )
    row, start, stop = (
        np.concatenate(
            [getattr(intervals_of_owner, column) for intervals_of_owner in intervals_by_owner]
        )
        for column in ("row", "start", "stop")
    )
    order = np.argsort(start, kind="stable")
    order = order[(stop > start)[order]]
    return owner[order], row[order], start[order], stop[order]


def check_races(graph: FrozenGraph, compute_set: FrozenComputeSet) -> None:
    """Check that no field writes to a constant, or to bytes that another field or vertex accesses.

    A fast check compares merged intervals of many vertices. Only if it finds a possible conflict
    are the intervals of each vertex compared. An InOut field counts as one write, so a vertex may
    read and write the same bytes through this field.

    :raises GraphConnectionError: if a field writes to a constant.
    :raises ComputeSetRaceError: if two accesses conflict.
    """
    reads: Owners = []
    writes: Owners = []
    for table in compute_set.tables:
        for name, field in table.fields.items():
            if field.kind == "state":
                continue
            if field.written:
                _check_aliases(graph, compute_set, table, name)
            (writes if field.written else reads).append((table, name))
    if _are_independent(graph, reads, writes):
        return
    write_owner, write_row, write_start, write_stop = _sorted(graph.intervals, writes)
    constant = _constant_in(graph, write_start, write_stop)
    if constant is not None:
        name, interval = constant
        table, field = writes[write_owner[interval]]
        raise GraphConnectionError(f"""The field {field!r} of {table.codelet.__name__} writes to the
            constant {name!r}.
            where: {vertex_name(table, int(write_row[interval]), field)} of compute set
            {compute_set.name!r}
            line:  {in_words(table.line(int(write_row[interval])))}
            next:  connect a variable, made with graph.add_variable.""")
    furthest_stops = np.maximum.accumulate(write_stop)
    second_writes = np.flatnonzero(write_start[1:] < furthest_stops[:-1]) + 1
    if second_writes.size:
        second = int(second_writes[0])
        first = int(np.flatnonzero(write_stop[:second] > write_start[second])[0])
        first_writer = writes[write_owner[first]], int(write_row[first])
        second_writer = writes[write_owner[second]], int(write_row[second])
        raise _race(
            graph,
            compute_set,
            int(write_start[second]),
            accesses=(first_writer, second_writer),
            second_access="write",
        )
    read_owner, read_row, read_start, read_stop = _sorted(graph.intervals, reads)
    overlap = meet(write_start, write_stop, read_start, read_stop)
    if overlap is not None:
        read_index, write_index, byte = overlap
        writer = writes[write_owner[write_index]], int(write_row[write_index])
        reader = reads[read_owner[read_index]], int(read_row[read_index])
        raise _race(graph, compute_set, byte, accesses=(writer, reader), second_access="read")


def _are_independent(graph: FrozenGraph, reads: Owners, writes: Owners) -> bool:
    """Return True only if no write conflicts with another write, a read or a constant.

    Two accesses conflict if they have a byte in common. The check is fast, because it compares
    merged intervals of many vertices. But its result may be False even if there is no conflict.
    """
    _, _, start, stop = _sorted(graph.touched, writes)
    if (stop - start).sum() != sum(graph.connected_bytes(*owner) for owner in writes) or np.any(
        start[1:] < stop[:-1]
    ):
        return False
    constants = [v for v in graph.variables if v.constant]
    other_intervals = [
        (np.array([v.start for v in constants]), np.array([v.stop for v in constants]))
    ]
    other_intervals += [
        (read.start, read.stop) for read in (graph.touched(*owner) for owner in reads)
    ]
    return not any(
        meet(start, stop, other_start, other_stop) for other_start, other_stop in other_intervals
    )


def _constant_in(graph: FrozenGraph, start: Array, stop: Array) -> tuple[str, int] | None:
    """Return the first constant that overlaps one of the intervals [start, stop), or None.

    The result is (name of the constant, index of the first interval that overlaps it).
    """
    for variable in graph.variables:
        overlaps = (start < variable.stop) & (stop > variable.start)
        if variable.constant and np.any(overlaps):
            return variable.name, int(overlaps.argmax())
    return None


# An access to memory: ((table of vertices, field), row of the vertex).
Access = tuple[tuple[FrozenTable, str], int]


def _race(
    graph: FrozenGraph,
    compute_set: FrozenComputeSet,
    byte: int,
    accesses: tuple[Access, Access],
    second_access: str,
) -> ComputeSetRaceError:
    """Return the error for two vertices that access the same byte in a compute set.

    `byte` is the address of the byte. `accesses` are the two accesses, the first of which is a
    write. `second_access` is "read" or "write", the kind of the second one.
    """
    ((table_a, field_a), row_a), ((table_b, field_b), row_b) = accesses
    name_a = vertex_name(table_a, row_a, field_a)
    name_b = vertex_name(table_b, row_b, field_b)
    element = graph.element(byte)
    line = in_words(table_a.line(row_a), table_b.line(row_b))
    if table_a is table_b and row_a == row_b and field_a == field_b:
        return ComputeSetRaceError(f"""The field {field_a!r} of {table_a.codelet.__name__} writes
            {element} twice.
            where: {name_a} of compute set {compute_set.name!r}
            line:  {line}
            next:  give it tensors in which every element appears once.""")
    if table_a is table_b and row_a == row_b:
        return ComputeSetRaceError(f"""Two fields of one vertex overlap, and one of them is written:
            {field_a!r} and {field_b!r} share {element}.
            where: {vertex_name(table_a, row_a)} of compute set {compute_set.name!r}
            line:  {line}
            next:  use one InOut field for elements that are both read and written. Or copy the
            elements before the compute set, and connect the other field to the copy.""")
    problem = "written twice"
    advice = (
        "give each vertex its own element. Or put the two vertices into two compute sets, one "
        "after the other."
    )
    if second_access == "read":
        problem = "written by one vertex and read by another"
        advice = (
            "to read the old value, copy it before the compute set, and read the copy. To read the "
            "new value, put the reader into a later compute set."
        )
    return ComputeSetRaceError(f"""In compute set {compute_set.name!r} {element} is {problem}.
        where: {name_a} and {name_b}
        line:  {line}
        next:  {advice}""")


def _check_aliases(
    graph: FrozenGraph, compute_set: FrozenComputeSet, table: FrozenTable, name: str
) -> None:
    """Raise `ComputeSetRaceError` if a region of a written field contains an element twice.

    `name` is the name of the field.
    """
    for layout_number in numbers_in(table.layouts[name]):
        if any(part.aliased for _, part in graph.layouts[layout_number].parts):
            row = int(np.flatnonzero(table.layouts[name] == layout_number)[0])
            raise ComputeSetRaceError(f"""The field {name!r} of {table.codelet.__name__} writes a
                region that contains an element twice.
                where: {vertex_name(table, row, name)} of compute set {compute_set.name!r}
                line:  {in_words(table.line(row))}
                next:  give it a tensor in which every element appears once.""")


def check_program(graph: FrozenGraph, program: Program) -> None:
    """Check every Copy in a program.

    A Copy must not write to a constant, write an element twice, or write an element that it also
    reads.
    """
    if isinstance(program, Copy):
        _check_copy(graph, program)
    for child in program.children():
        check_program(graph, child)


def _check_copy(graph: FrozenGraph, copy: Copy) -> None:
    destination = copy.destination
    if not isinstance(destination, Tensor) or not destination.num_elements:
        return
    if destination.layout.aliased:
        raise ControlProgramError(f"""Copy writes to a view that contains an element twice.
            where: {copy!r}
            line:  {in_words(copy.line)}
            next:  copy to a view in which every element appears once.""")
    d_start, d_stop = destination.byte_extent()
    constant = _constant_in(graph, d_start, d_stop)
    if constant is not None:
        raise ControlProgramError(f"""Copy writes to the constant {constant[0]!r}.
            where: {copy!r}
            line:  {in_words(copy.line)}
            next:  copy to a variable, made with graph.add_variable.""")
    overlap = None
    if isinstance(copy.source, Tensor):
        overlap = meet(d_start, d_stop, *copy.source.byte_extent())
    if overlap is not None:
        raise ControlProgramError(f"""The two sides of a Copy overlap: both contain
            {graph.element(overlap[2])}.
            where: {copy!r}
            line:  {in_words(copy.line)}
            next:  copy through another variable.""")
