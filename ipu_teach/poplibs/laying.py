"""How a library lays out what it makes: vertices on tiles, with their results beside them, and of
which class; variables linearly, and numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np

from ipu_teach.graph import ComputeSet, Graph, Tensor, Vertex, template
from ipu_teach.graph.bulk import Column, listed_column, members
from ipu_teach.graph.tile_map import order_of
from ipu_teach.poplibs.placing import balanced_partition, dealt
from ipu_teach.poplibs.poputil import map_tensor_linearly, take, take_each, tile_pieces
from ipu_teach.program import Execute, Sequence as Program
from ipu_teach.types import Array, DType

Edges = dict[str, Any]  # a vertex's tensors and numbers, by field


def typed(
    base: Any, words: Iterable[Any], dtypes: dict[Any, type[DType]], name: str = "", /, **fixed: Any
) -> type[Vertex]:
    """`base` for these dtypes, with constants that are `fixed`; the same class each time.

    Its name is one that a profile's reader recognises: popops::ScaledAdd<half,fast>. `words`:
    dtypes and text; what is empty is left out. `name`: if it is not that of the class.
    """
    library = base.__module__.split(".")[2]
    said = ",".join(w if isinstance(w, str) else w.__name__.lower() for w in words if w)
    whole = f"{library}::{name or base.__name__}<{said}>"
    return _template(base, whole, tuple(dtypes.items()), tuple(fixed.items()))


@cache
def _template(base: type[Vertex], name: str, dtypes: Any, fixed: Any) -> type[Vertex]:
    return template(base, name, dict(dtypes), **dict(fixed))


def put(
    graph: Graph, into: ComputeSet, tile: int, codelet: type[Vertex], edges: Edges, *made: Tensor
) -> None:
    """A vertex on a tile, and beside it what it makes."""
    graph.set_tile_mapping(graph.add_vertex(into, codelet, edges), tile)
    for tensor in made:
        graph.set_tile_mapping(tensor, tile)


def step(
    graph: Graph,
    prog: Program,
    name: str,
    codelet: type[Vertex],
    work: Iterable[tuple[int, Edges]],
    made: Sequence[str] = (),
) -> None:
    """A compute set with a vertex for each (tile, edges). What its fields `made` are connected to
    is new, and lies where the vertex does."""
    into = graph.add_compute_set(name)
    for tile, edges in work:
        put(graph, into, tile, codelet, edges, *(edges[field] for field in made))
    prog.add(Execute(into))


def pieces_of(
    graph: Graph, placed: Tensor, operands: dict[str, Tensor], **state: Any
) -> Iterator[tuple[int, Edges]]:
    """For each tile that holds some of `placed` the matching elements of every operand, in the
    order of `placed`; and `state`, the same for all."""
    flat = {field: tensor.flatten() for field, tensor in operands.items()}
    for tile, pieces in tile_pieces(graph, placed):
        yield tile, dict(zip(flat, take_each(flat.values(), pieces), strict=True)) | state


def add_per_tile(
    graph: Graph,
    into: ComputeSet,
    codelet: type[Vertex],
    placed: Tensor,
    operands: dict[str, Tensor],
    **state: Any,
) -> None:
    """Add the vertices of `pieces_of` in one call, in the same order, each on its tile."""
    shares = TileShares(*graph.mapped_pieces(placed))
    columns = {field: shares.column(tensor.flatten()) for field, tensor in operands.items()}
    graph.add_columns(into, codelet, shares.tile, columns, state)


class TileShares:
    """The intervals of a flat tensor that each of its tiles holds, from mapped pieces of it.

    `tile`: the tiles, ascending. `first`: where the first interval of each begins. `pattern`: a
    number for each tile, equal where the intervals of two tiles differ only in `first`.
    """

    def __init__(self, begin: Array, count: Array, tile: Array) -> None:
        order = order_of(tile)
        begin, end, tile = begin[order], (begin + count)[order], tile[order]
        is_first = np.append(True, (tile[1:] != tile[:-1]) | (begin[1:] != end[:-1]))[: len(tile)]
        self._begin, self._end = begin[is_first], end[np.append(is_first[1:], True)[: len(tile)]]
        tile = tile[is_first]
        begins = np.flatnonzero(np.append(True, tile[1:] != tile[:-1])[: len(tile)])
        self._bounds = np.append(begins, len(tile))
        self.tile, self.first = tile[begins], self._begin[begins]
        numbers: dict[bytes | int, int] = {}
        self.pattern = np.zeros(len(begins), np.int64)
        self._examples: list[int] = []  # a tile of each pattern
        several = np.diff(self._bounds) > 1
        lengths = (self._end[begins] - self.first).tolist()
        for i, is_several in enumerate(several.tolist()):
            key: bytes | int = lengths[i]
            if is_several:
                low, high = self._bounds[i : i + 2]
                relative = self._begin[low:high], self._end[low:high]
                key = (np.concatenate(relative) - self.first[i]).tobytes()
            number = numbers.setdefault(key, len(numbers))
            if number == len(self._examples):
                self._examples.append(i)
            self.pattern[i] = number

    def _intervals(self, i: int) -> list[tuple[int, int]]:
        low, high = self._bounds[i : i + 2].tolist()
        begin, end = self._begin[low:high].tolist(), self._end[low:high].tolist()
        return list(zip(begin, end, strict=True))

    def column(self, flat: Tensor) -> Column:
        """The elements of `flat` for each tile, as an edge of a vertex on that tile."""
        strides = flat.layout.strides
        if strides is None:
            return self._listed(flat)
        examples = [take(flat, self._intervals(i)) for i in self._examples]
        origin = flat.offset + self.first * strides[0]
        shift = np.array([tensor.offset for tensor in examples], np.int64)
        shift -= origin[self._examples]
        return Column(origin + shift[self.pattern], self.pattern, [t.form for t in examples])

    def _listed(self, flat: Tensor) -> Column:
        """`column` of a tensor whose elements are in no regular order."""
        positions = flat.positions()

        def parts() -> Iterator[tuple[Array, Array]]:
            of_pattern = members(self.pattern, len(self._examples))
            for tiles, example in zip(of_pattern, self._examples, strict=True):
                places = [np.arange(a, b) for a, b in self._intervals(example)]
                relative = np.concatenate(places) - self.first[example]
                yield tiles, positions[self.first[tiles][:, None] + relative]

        return listed_column(flat.graph, flat.dtype, len(self.tile), parts())


def shared(
    graph: Graph, operands: dict[str, Tensor], most: int, **state: Any
) -> Iterator[tuple[int, Edges]]:
    """The rows of all operands, for `most` vertices at most, evenly over all tiles; and `state`,
    the same for all."""
    rows = next(iter(operands.values())).shape[0]
    parts = balanced_partition(rows, min(rows, most)) if rows else []
    for tile, (begin, end) in dealt(parts, graph.target.num_tiles):
        yield tile, {field: tensor[begin:end] for field, tensor in operands.items()} | state


def linear(graph: Graph, dtype: type[DType], shape: Sequence[int], name: str | None) -> Tensor:
    """A new variable, mapped linearly."""
    made = graph.add_variable(dtype, shape, name)
    map_tensor_linearly(graph, made)
    return made


def scalar(graph: Graph, dtype: type[DType], value: Any, name: str) -> Tensor:
    """A tensor as it is; a number as a constant on tile 0."""
    if isinstance(value, Tensor):
        return value
    made = graph.add_constant(dtype, (), value, name)
    graph.set_tile_mapping(made, 0)
    return made


def beside(graph: Graph, x: Tensor, dtype: type[DType], values: Any, name: str) -> Tensor:
    """A constant of x's shape, to which `values` are broadcast; it lies where x does."""
    made = graph.add_constant(dtype, x.shape, np.broadcast_to(values, x.shape), name)
    graph.map_pieces(made, *graph.mapped_pieces(x))
    return made
