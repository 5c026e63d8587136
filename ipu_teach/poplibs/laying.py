"""Build codelets by dtype, vertices on tiles, variables and constants for the libraries."""

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

Edges = dict[str, Any]  # the tensors and numbers of a vertex, by field
Word = type[DType] | str | None
Field = TypeVar("Field")  # the dtype of a codelet's field before it is replaced
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

    `dtypes` maps the dtypes of the fields of `base` to new ones. `constants` become class
    attributes. The class is named as in PopLibs' profiles, such as
    `popops::ScaledAdd<half,fast>`: `words` are the dtypes and texts in the angle brackets, of which
    empty ones are left out, and `name` replaces the name of `base`.
    """
    library = base.__module__.split(".")[2]
    parameters = ",".join(w if isinstance(w, str) else w.__name__.lower() for w in words if w)
    full_name = f"{library}::{name or base.__name__}<{parameters}>"
    key = base, full_name, tuple(dtypes.items()), tuple(constants.items())
    if key not in _CODELETS:
        _CODELETS[key] = template(base, full_name, dtypes, **constants)
    return _CODELETS[key]


def put(
    graph: Graph, into: ComputeSet, tile: int, codelet: type[Vertex], edges: Edges, *results: Tensor
) -> None:
    """Add a vertex of the class `codelet` on `tile`, and map its `results` to the same tile."""
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
    """Append a compute set with a vertex for each (tile, edges) in `work`.

    `results` names the fields whose tensors are new: they are mapped to the vertex's tile.
    """
    into = graph.add_compute_set(name)
    for tile, edges in work:
        put(graph, into, tile, codelet, edges, *(edges[field] for field in results))
    prog.add(Execute(into))


def pieces_of(
    graph: Graph, placed: Tensor, operands: dict[str, Tensor], **state: Any
) -> Iterator[tuple[int, Edges]]:
    """Yield (tile, edges) for each tile that holds elements of `placed`.

    The edges contain, for each operand, the elements at the positions of `placed` on the tile, and
    `state`, which is equal for all tiles.
    """
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
    """Add the vertices of `pieces_of` in one call, in the same order and on the same tiles."""
    shares = TileShares(*graph.mapped_pieces(placed))
    columns = {field: shares.column(tensor.flatten()) for field, tensor in operands.items()}
    graph.add_columns(into, codelet, shares.tile, columns, state)


class TileShares:
    """The intervals of a flat tensor that each tile holds, computed from mapped pieces.

    Attributes:
        tile: the tiles, ascending.
        first: the beginning of the first interval on each tile.
        pattern: a number for each tile; equal for tiles whose intervals differ only in `first`.
    """

    def __init__(self, begin: Array, count: Array, tile: Array) -> None:
        order = order_of(tile)
        begin, end, tile = begin[order], (begin + count)[order], tile[order]
        is_first = np.append(True, (tile[1:] != tile[:-1]) | (begin[1:] != end[:-1]))[: len(tile)]
        self._begin = begin[is_first]
        self._end = end[np.append(is_first[1:], True)[: len(tile)]]
        tile = tile[is_first]
        begins = np.flatnonzero(np.append(True, tile[1:] != tile[:-1])[: len(tile)])
        self._bounds = np.append(begins, len(tile))
        self.tile = tile[begins]
        self.first = self._begin[begins]
        numbers: dict[bytes | int, int] = {}
        self.pattern = np.zeros(len(begins), np.int64)
        self._examples: list[int] = []  # the index of a tile with each pattern
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
        begin = self._begin[low:high].tolist()
        end = self._end[low:high].tolist()
        return list(zip(begin, end, strict=True))

    def column(self, flat: Tensor) -> Column:
        """Return the elements of `flat` on each tile, as edges of one vertex per tile."""
        strides = flat.layout.strides
        if strides is None:
            return self._listed(flat)
        examples = [take(flat, self._intervals(i)) for i in self._examples]
        origin = flat.offset + self.first * strides[0]
        shift = np.array([tensor.offset for tensor in examples], np.int64)
        shift -= origin[self._examples]
        return Column(origin + shift[self.pattern], self.pattern, [t.form for t in examples])

    def _listed(self, flat: Tensor) -> Column:
        """Return `column` for a tensor whose elements have no constant stride."""
        positions = flat.positions()

        def parts() -> Iterator[tuple[Array, Array]]:
            of_pattern = members(self.pattern, len(self._examples))
            for tiles, example in zip(of_pattern, self._examples, strict=True):
                places = [np.arange(a, b) for a, b in self._intervals(example)]
                relative = np.concatenate(places) - self.first[example]
                yield tiles, positions[self.first[tiles][:, None] + relative]

        return listed_column(flat.graph, flat.dtype, len(self.tile), parts())


def shared(
    graph: Graph, operands: dict[str, Tensor], max_vertices: int, **state: Any
) -> Iterator[tuple[int, Edges]]:
    """Yield (tile, edges) for at most `max_vertices` vertices that divide the rows of all operands.

    The vertices are spread evenly over the tiles. `state` is added to the edges of each.
    """
    rows = next(iter(operands.values())).shape[0]
    parts = balanced_partition(rows, min(rows, max_vertices)) if rows else []
    for tile, (begin, end) in dealt(parts, graph.target.num_tiles):
        yield tile, {field: tensor[begin:end] for field, tensor in operands.items()} | state


def linear(graph: Graph, dtype: type[DType], shape: Sequence[int], name: str | None) -> Tensor:
    """Return a new variable with a linear tile mapping."""
    variable = graph.add_variable(dtype, shape, name)
    map_tensor_linearly(graph, variable)
    return variable


def scalar(graph: Graph, dtype: type[DType], value: Tensor | ArrayLike, name: str) -> Tensor:
    """Return `value` if it is a tensor, and otherwise a new constant on tile 0."""
    if isinstance(value, Tensor):
        return value
    constant = graph.add_constant(dtype, (), value, name)
    graph.set_tile_mapping(constant, 0)
    return constant


def beside(graph: Graph, x: Tensor, dtype: type[DType], values: ArrayLike, name: str) -> Tensor:
    """Return a constant with the shape and tile mapping of `x`; `values` are broadcast to it."""
    constant = graph.add_constant(dtype, x.shape, np.broadcast_to(values, x.shape), name)
    graph.map_pieces(constant, *graph.mapped_pieces(x))
    return constant
