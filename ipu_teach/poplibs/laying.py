"""Helpers with which the libraries create codelets, vertices, variables and constants.

An *edge* connects a field of a vertex to the tensor elements that the vertex reads or writes.
`Edges` is a dict from the names of a vertex's fields to tensors and numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from ipu_teach.graph import ComputeSet, Graph, Tensor, Vertex, template
from ipu_teach.graph.bulk import Column, listed_column, members
from ipu_teach.graph.tile_map import order_of
from ipu_teach.poplibs.placing import balanced_partition, dealt
from ipu_teach.poplibs.poputil import map_tensor_linearly, take, take_each, tile_pieces
from ipu_teach.program import Execute, Sequence as Program
from ipu_teach.types import Array, DType

Edges = dict[str, Any]  # Maps the names of a vertex's fields to tensors and numbers.
Word = type[DType] | str | None  # A word in a codelet's name; "" and None are left out.
Field = TypeVar("Field")  # A dtype in the field annotations of a codelet; `typed` replaces it.
_CODELETS: dict[tuple[object, ...], type[Vertex]] = {}


def typed(
    base: type[Vertex],
    words: Iterable[Word],
    dtypes: Mapping[Field, type[DType]],
    name: str = "",
    /,
    **constants: Any,
) -> type[Vertex]:
    """Return the codelet `base` for these dtypes and constants; equal calls return the same class.

    `dtypes` maps each dtype in the field annotations of `base` to the dtype that replaces it.
    `constants` become class attributes. The class is named as in PopLibs' profiles, for example
    `popops::ScaledAdd<half,fast>`. `words` are the dtypes and strings in the angle brackets; empty
    strings are left out. `name` replaces the name of `base`.
    """
    library = base.__module__.split(".")[2]
    parameter_text = ",".join(
        word if isinstance(word, str) else word.__name__.lower() for word in words if word
    )
    full_name = f"{library}::{name or base.__name__}<{parameter_text}>"
    key = base, full_name, tuple(dtypes.items()), tuple(constants.items())
    if key not in _CODELETS:
        _CODELETS[key] = template(base, full_name, dtypes, **constants)
    return _CODELETS[key]


def put(
    graph: Graph, into: ComputeSet, tile: int, codelet: type[Vertex], edges: Edges, *results: Tensor
) -> None:
    """Add a vertex of the class `codelet` on `tile`, and map the tensors `results` to this tile.

    `edges` maps the names of the vertex's fields to tensors and numbers.
    """
    graph.set_tile_mapping(graph.add_vertex(into, codelet, edges), tile)
    for tensor in results:
        graph.set_tile_mapping(tensor, tile)


def step(
    graph: Graph,
    prog: Program,
    name: str,
    codelet: type[Vertex],
    work: Iterable[tuple[int, Edges]],
    results: Sequence[str] = (),
) -> None:
    """Append a compute set with a vertex for each pair (tile, edges) in `work`.

    `edges` maps the names of the vertex's fields to tensors and numbers. The tensors of the fields
    in `results` are new, and are mapped to the tile of the vertex.
    """
    compute_set = graph.add_compute_set(name)
    for tile, edges in work:
        put(graph, compute_set, tile, codelet, edges, *(edges[field] for field in results))
    prog.add(Execute(compute_set))


def pieces_of(
    graph: Graph, placed: Tensor, operands: dict[str, Tensor], **state: Any
) -> Iterator[tuple[int, Edges]]:
    """Yield a pair (tile, edges) for each tile that has elements of `placed`.

    `operands` maps names of fields to tensors with the shape of `placed`. For each tile, `edges`
    maps the same names to a part of each tensor: the elements at the positions at which `placed`
    has elements on this tile. `edges` also contains `state`, which is the same for all tiles.
    """
    flat_operands = {field: tensor.flatten() for field, tensor in operands.items()}
    for tile, intervals in tile_pieces(graph, placed):
        yield (
            tile,
            dict(zip(flat_operands, take_each(flat_operands.values(), intervals), strict=True))
            | state,
        )


def add_per_tile(
    graph: Graph,
    into: ComputeSet,
    codelet: type[Vertex],
    placed: Tensor,
    operands: dict[str, Tensor],
    **state: Any,
) -> None:
    """Add a vertex on each tile that has elements of `placed`, all vertices in one call.

    `operands` maps names of fields to tensors with the shape of `placed`. A vertex is connected to
    a part of each tensor: the elements at the positions at which `placed` has elements on the
    vertex's tile. `state` contains the fields that are the same for all vertices.
    """
    shares = TileShares(*graph.mapped_pieces(placed))
    columns = {field: shares.column(tensor.flatten()) for field, tensor in operands.items()}
    graph.add_columns(into, codelet, shares.tile, columns, state)


class TileShares:
    """The intervals of a flattened tensor that are on each tile.

    The constructor gets the tensor as contiguous pieces, in three arrays int64[pieces]: the first
    element of each piece (`begin`), its number of elements (`count`) and its tile (`tile`). The
    attributes are arrays with an entry for each tile that has elements.

    - `tile`: the tiles, ascending.
    - `first`: the index at which the tile's first interval begins.
    - `pattern`: a number that is equal for tiles whose intervals differ only in `first`.
    """

    def __init__(self, begin: Array, count: Array, tile: Array) -> None:
        tile_order = order_of(tile)
        begin, ends, tile = begin[tile_order], (begin + count)[tile_order], tile[tile_order]
        begins_interval = np.append(True, (tile[1:] != tile[:-1]) | (begin[1:] != ends[:-1]))[
            : len(tile)
        ]
        self._begin = begin[begins_interval]
        self._end = ends[np.append(begins_interval[1:], True)[: len(tile)]]
        tile = tile[begins_interval]
        first_intervals = np.flatnonzero(np.append(True, tile[1:] != tile[:-1])[: len(tile)])
        self._bounds = np.append(first_intervals, len(tile))
        self.tile = tile[first_intervals]
        self.first = self._begin[first_intervals]
        pattern_numbers: dict[bytes | int, int] = {}
        self.pattern = np.zeros(len(first_intervals), np.int64)
        # For each number in `pattern`, the index of one tile whose intervals have this pattern.
        self._examples: list[int] = []
        has_several = np.diff(self._bounds) > 1
        first_lengths = (self._end[first_intervals] - self.first).tolist()
        for tile_index, is_several in enumerate(has_several.tolist()):
            key: bytes | int = first_lengths[tile_index]
            if is_several:
                first_interval, end_interval = self._bounds[tile_index : tile_index + 2]
                interval_bounds = (
                    self._begin[first_interval:end_interval],
                    self._end[first_interval:end_interval],
                )
                key = (np.concatenate(interval_bounds) - self.first[tile_index]).tobytes()
            pattern_number = pattern_numbers.setdefault(key, len(pattern_numbers))
            if pattern_number == len(self._examples):
                self._examples.append(tile_index)
            self.pattern[tile_index] = pattern_number

    def _intervals(self, tile_index: int) -> list[tuple[int, int]]:
        first_interval, end_interval = self._bounds[tile_index : tile_index + 2].tolist()
        begins = self._begin[first_interval:end_interval].tolist()
        ends = self._end[first_interval:end_interval].tolist()
        return list(zip(begins, ends, strict=True))

    def column(self, flat: Tensor) -> Column:
        """Return a `Column` that connects one vertex on each tile to elements of `flat`.

        A `Column` contains the elements to which one field of each vertex is connected. Here, these
        are the elements in the intervals of the vertex's tile.
        """
        strides = flat.layout.strides
        if strides is None:
            return self._listed(flat)
        examples = [take(flat, self._intervals(tile_index)) for tile_index in self._examples]
        first_offsets = flat.offset + self.first * strides[0]
        offset_shifts = np.array([tensor.offset for tensor in examples], np.int64)
        offset_shifts -= first_offsets[self._examples]
        return Column(
            first_offsets + offset_shifts[self.pattern],
            self.pattern,
            [example.form for example in examples],
        )

    def _listed(self, flat: Tensor) -> Column:
        """Do the work of `column` for a tensor whose elements have no constant stride.

        The `Column` then lists the position of each element.
        """
        positions = flat.positions()

        def positions_by_pattern() -> Iterator[tuple[Array, Array]]:
            tiles_of_patterns = members(self.pattern, len(self._examples))
            for tiles, example in zip(tiles_of_patterns, self._examples, strict=True):
                interval_positions = [
                    np.arange(begin, end) for begin, end in self._intervals(example)
                ]
                relative = np.concatenate(interval_positions) - self.first[example]
                yield tiles, positions[self.first[tiles][:, None] + relative]

        return listed_column(flat.graph, flat.dtype, len(self.tile), positions_by_pattern())


def shared(
    graph: Graph, operands: dict[str, Tensor], max_vertices: int, **state: Any
) -> Iterator[tuple[int, Edges]]:
    """Yield a pair (tile, edges) for each vertex, which gets an equal part of the operands' rows.

    `operands` maps names of fields to tensors with equal numbers of rows. `edges` maps the same
    names to the vertex's rows, and also contains `state`, which is the same for all vertices. There
    are as many vertices as rows, but at most `max_vertices`, and they are distributed evenly over
    the tiles.
    """
    num_rows = next(iter(operands.values())).shape[0]
    row_intervals = balanced_partition(num_rows, min(num_rows, max_vertices)) if num_rows else []
    for tile, (begin, end) in dealt(row_intervals, graph.target.num_tiles):
        yield tile, {field: tensor[begin:end] for field, tensor in operands.items()} | state


def linear(graph: Graph, dtype: type[DType], shape: Sequence[int], name: str | None) -> Tensor:
    """Return a new variable, mapped by `poputil.map_tensor_linearly`.

    Its elements are distributed over the tiles in order, in nearly equal numbers; a small variable
    uses only some tiles.
    """
    variable = graph.add_variable(dtype, shape, name)
    map_tensor_linearly(graph, variable)
    return variable


def scalar(graph: Graph, dtype: type[DType], value: Tensor | ArrayLike, name: str) -> Tensor:
    """Return `value` if it is a tensor, and otherwise a new constant with this value on tile 0."""
    if isinstance(value, Tensor):
        return value
    constant = graph.add_constant(dtype, (), value, name)
    graph.set_tile_mapping(constant, 0)
    return constant


def beside(graph: Graph, x: Tensor, dtype: type[DType], values: ArrayLike, name: str) -> Tensor:
    """Return a new constant with the shape and tile mapping of `x`, filled with `values`.

    `values` are broadcast to the shape of x.
    """
    constant = graph.add_constant(dtype, x.shape, np.broadcast_to(values, x.shape), name)
    graph.map_pieces(constant, *graph.mapped_pieces(x))
    return constant
