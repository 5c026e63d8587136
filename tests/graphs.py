"""Random graphs for the tests, whose tensors know their elements.

A `View` pairs a tensor with a numpy array of element numbers. Every operation applies to both, so
the tests know which elements a vertex touches without asking the code under test.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
from codelets import (
    AddToParts,
    AllPositive,
    Axpy,
    Counter,
    DotProduct,
    Evens,
    FlipWhereNegative,
    HalfScale,
    Increment,
    IntegerMix,
    PairwiseSum,
    Softmax,
    Sum,
    SumOfParts,
    SuperScale,
    Swap,
)

from ipu_teach import (
    BOOL,
    FLOAT,
    HALF,
    INT,
    ComputeSet,
    Device,
    Engine,
    Graph,
    Tensor,
    Vertex,
    concat,
)
from ipu_teach.program import Copy, Program
from ipu_teach.types import Array, DType

FAMILY = [
    AddToParts,
    AllPositive,
    Axpy,
    Counter,
    DotProduct,
    Evens,
    FlipWhereNegative,
    HalfScale,
    Increment,
    IntegerMix,
    PairwiseSum,
    Softmax,
    Sum,
    SumOfParts,
    SuperScale,
    Swap,
]
MAY_BE_EMPTY = {
    AllPositive,
    Axpy,
    DotProduct,
    Evens,
    HalfScale,
    Increment,
    PairwiseSum,
    Sum,
    SuperScale,
}
TAKES_LISTS = {AddToParts, SumOfParts}


@dataclass(frozen=True, eq=False)
class View:
    """A tensor, and the numbers of its elements in an array of the same shape."""

    tensor: Tensor
    ids: Array

    def __getitem__(self, key: Any) -> View:
        return View(self.tensor[key], self.ids[key])

    def shuffled(self, order: Sequence[int]) -> View:
        """Return the view with its axes in this order."""
        return View(self.tensor.dim_shuffle(order), self.ids.transpose(order))

    def reshaped(self, shape: Sequence[int]) -> View:
        """Return the view in another shape."""
        return View(self.tensor.reshape(shape), self.ids.reshape(shape))

    def flat(self) -> View:
        """Return the view as a vector."""
        return View(self.tensor.flatten(), self.ids.reshape(-1))

    def beside(self, other: View, dim: int) -> View:
        """Return this view and `other`, joined along the axis `dim`."""
        return joined([self, other], dim)

    @property
    def elements(self) -> set[int]:
        """The numbers of the elements."""
        return set(self.ids.reshape(-1).tolist())


def joined(views: Sequence[View], dim: int = 0) -> View:
    """Return the views joined along the axis `dim`."""
    return View(concat([v.tensor for v in views], dim), np.concatenate([v.ids for v in views], dim))


class Space:
    """A graph whose elements have numbers from 0 on, through all its variables.

    `tile[i]` is the tile of element `i`, -1 if it is unmapped, and `size[i]` its bytes.
    """

    def __init__(self, device: Device, rng: Random, tiles: int | None = None) -> None:
        self.device = device
        self.graph = Graph(device.target)
        self.rng = rng
        self.tiles = device.target.num_tiles if tiles is None else tiles
        self.tile: list[int] = []
        self.size: list[int] = []
        self.variable_of: list[str] = []
        self.variables: dict[str, View] = {}

    def variable(self, dtype: type[DType], shape: Sequence[int], values: bool = True) -> View:
        """Add a variable with a random mapping, which the host can read under its name.

        `values`: it starts with random values; otherwise it is unwritten.
        """
        name = f"t{len(self.variables)}"
        tensor = self.graph.add_variable(dtype, shape, name)
        first, count = len(self.tile), int(np.prod(shape, dtype=int))
        view = View(tensor, np.arange(first, first + count).reshape(shape))
        self.tile += [-1] * count
        self.size += [dtype.size] * count
        self.variable_of += [name] * count
        self.variables[name] = view
        self.graph.create_host_read(name, tensor)
        if values:
            self.graph.set_initial_value(tensor, random_values(self.rng, dtype, shape))
        self.map(view, self.rng.randrange(self.tiles))
        for _ in range(self.rng.randrange(4) if count else 0):
            self.map(random_view(self.rng, view), self.rng.randrange(self.tiles))
        return view

    def map(self, view: View, tile: int) -> None:
        """Map the elements of the view to the tile."""
        self.graph.set_tile_mapping(view.tensor, tile)
        for i in view.elements:
            self.tile[i] = tile

    def bytes_of(self, elements: set[int]) -> int:
        """Return the bytes of these elements together."""
        return sum(self.size[i] for i in elements)


SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.0, 0.5, np.inf, -np.inf, np.nan, 1e-7, 6e4]


def random_values(rng: Random, dtype: type[DType], shape: Sequence[int]) -> Array:
    """Return random numbers, mostly small.

    One array in three also has special floats (`SPECIAL`), or integers at the limits of the dtype.
    """
    source = np.random.default_rng(rng.randrange(2**16))
    kind = dtype.numpy.kind
    if kind == "b":
        return source.random(shape) < 0.5
    if kind != "f":
        bounds = np.iinfo(dtype.numpy)
        values = source.integers(-50 if bounds.min else 0, 50, shape)
        if rng.randrange(3) == 0:
            values = np.where(
                source.random(shape) < 0.2, source.choice([bounds.min, bounds.max], shape), values
            )
        return values.astype(dtype.numpy)
    values = source.standard_normal(shape) * 3
    if rng.randrange(3) == 0:
        values = np.where(source.random(shape) < 0.2, source.choice(SPECIAL, shape), values)
    return values.astype(dtype.numpy)


def random_view(rng: Random, view: Any, steps: int = 3) -> Any:
    """Return `view` after up to `steps` random slices, flips, transpositions and joins.

    No element appears twice. `view` may be any object with `ids` and the methods of `View`.
    """
    for _ in range(rng.randrange(steps + 1)):
        rank, shape = view.ids.ndim, view.ids.shape
        if rank == 0 or 0 in shape:
            return view
        action = rng.randrange(7)
        axis = rng.randrange(rank)
        lead = (slice(None),) * axis
        if action == 0:
            begin = rng.randrange(shape[axis] + 1)
            view = view[(*lead, slice(begin, rng.randint(begin, shape[axis])))]
        elif action == 1:
            view = view[(*lead, slice(None, None, rng.choice([-1, 2, -2, 3])))]
        elif action == 2 and rank > 1:
            view = view[(*lead, rng.randrange(-shape[axis], shape[axis]))]
        elif action == 3:
            view = view.shuffled(rng.sample(range(rank), rank))
        elif action == 4:
            view = view.flat()
        elif action == 5:
            cut = rng.randrange(shape[axis] + 1)
            view = view[(*lead, slice(cut, None))].beside(view[(*lead, slice(None, cut))], axis)
        elif action == 6:
            view = view[..., :: rng.choice([1, -1])]
    return view


def random_vector(
    rng: Random, space: Space, dtype: type[DType], length: int, avoid: frozenset[int] | set[int]
) -> View:
    """Return a vector of `length` elements, none of them in `avoid`.

    It is a view of the variables so far, or of a new one if three attempts find no such view.
    """
    known = [v for v in space.variables.values() if v.tensor.dtype is dtype]
    for _ in range(3 if known else 0):
        flat = random_view(rng, rng.choice(known)).flat()
        if len(flat.ids) >= length:
            begin = rng.randrange(len(flat.ids) - length + 1)
            vector = flat[begin : begin + length]
            if not vector.elements & avoid:
                return vector
    return space.variable(dtype, (length,))


def regions(
    rng: Random, space: Space, dtype: type[DType], shape: tuple[int, ...], count: int, written: bool
) -> list[View]:
    """Return `count` regions of this shape, arranged in a random way that graphs use.

    With `written` they are disjoint.
    """
    size = int(np.prod(shape, dtype=int))
    way = rng.randrange(7 if written else 10)
    if way == 0 or way == 1:
        whole = space.variable(dtype, (count, *shape))
        return [whole[i] for i in range(count)]
    if way == 2:
        # The vertices follow each other along the last axis, so regions are strided.
        whole = space.variable(dtype, (*shape, count))
        return [whole[(..., i)] for i in range(count)]
    if way == 3:
        whole = space.variable(dtype, (count, *shape))[::-1]
        return [whole[i][(..., slice(None, None, -1))] if shape else whole[i] for i in range(count)]
    if way == 4:
        whole = space.variable(dtype, (count, *shape))
        order = rng.sample(range(count), count)
        return [whole[i] for i in order]
    if way == 5:
        gap = rng.randrange(3)
        flat = space.variable(dtype, (count * (size + gap) + 1,))
        return [
            flat[1 + i * (size + gap) : 1 + i * (size + gap) + size].reshaped(shape)
            for i in range(count)
        ]
    if way == 6:  # each region has pieces of two variables
        cut = rng.randrange(size + 1)
        first = space.variable(dtype, (count, cut))
        second = space.variable(dtype, (count, size - cut))
        parts = [(first[i], second[-1 - i]) for i in range(count)]
        return [joined(p if rng.randrange(2) else p[::-1]).reshaped(shape) for p in parts]
    if way == 7:
        whole = space.variable(dtype, shape)
        return [whole] * count
    if way == 8:
        step = rng.randrange(size + 1)
        flat = space.variable(dtype, (count * step + size,))
        return [flat[i * step : i * step + size].reshaped(shape) for i in range(count)]
    flat = space.variable(dtype, (2 * size + count,))
    starts = [rng.randrange(size + count + 1) for _ in range(count)]
    return [flat[s : s + size].reshaped(shape) for s in starts]


def side_by_side(
    space: Space, dtype: type[DType], shapes: dict[str, tuple[int, ...]], count: int
) -> dict[str, list[View]]:
    """Return views by field and vertex: one variable has a row for each vertex, with all fields."""
    sizes = {name: int(np.prod(shape, dtype=int)) for name, shape in shapes.items()}
    whole = space.variable(dtype, (count, sum(sizes.values())))
    result, begin = {}, 0
    for name, shape in shapes.items():
        part = whole[:, begin : begin + sizes[name]]
        result[name] = [part[i].reshaped(shape) for i in range(count)]
        begin += sizes[name]
    return result


def random_fields(
    rng: Random, space: Space, codelet: type[Vertex], shapes: dict[str, tuple[int, ...]], count: int
) -> dict[str, list[View]]:
    """Return for each field of `codelet` the views of `count` vertices.

    All fields are in the rows of one variable, or each in regions of its own.
    """
    types = {name: codelet.fields[name].dtype for name in shapes}
    if rng.randrange(3) == 0 and len(set(types.values())) == 1:
        return side_by_side(space, types.popitem()[1], shapes, count)
    return {
        f: regions(rng, space, types[f], s, count, codelet.fields[f].written)
        for f, s in shapes.items()
    }


@dataclass
class Placed:
    """A vertex of a random graph: its codelet, its tile, and the views of its fields.

    `cycles` is the estimate that the graph was given, or -1.
    """

    codelet: type[Vertex]
    tile: int
    fields: dict[str, list[View]]
    cycles: int = -1

    def touched(self, kinds: Sequence[str]) -> list[set[int]]:
        """Return the elements of each field whose kind ("input", "output", "inout") is in `kinds`."""
        chosen = [
            views for name, views in self.fields.items() if self.codelet.fields[name].kind in kinds
        ]
        return [set().union(*(view.elements for view in views)) for views in chosen]


@dataclass
class Superstep:
    """A compute set and its vertices."""

    compute_set: ComputeSet
    vertices: list[Placed]


def random_superstep(
    rng: Random, space: Space, most: int = 6, careful: bool = True, costed: bool = False
) -> Superstep:
    """Return a compute set of one to four codelets, with up to `most` vertices of each.

    `careful`: it has no race. `costed`: each vertex has an estimate of its cycles.
    """
    step = Superstep(space.graph.add_compute_set(), [])
    read: set[int] = set()
    written: set[int] = set()

    def pick(dtype: type[DType], length: int, kind: str) -> View:
        avoid = (written if kind == "input" else read | written) if careful else frozenset()
        vector = random_vector(rng, space, dtype, length, avoid)
        (read if kind == "input" else written).update(vector.elements)
        return vector

    for codelet in rng.sample(FAMILY, rng.randint(1, 4)):
        for _ in range(rng.randint(1, most)):
            fields = {}
            n, k = rng.choice([1, 2, 3, 4, 5, 7, 8, 11, 16]), rng.randint(1, 3)
            if codelet is Swap:
                n = max(n, 2)
            elif codelet in MAY_BE_EMPTY and rng.randrange(6) == 0:
                n = 0
            for name, field in codelet.fields.items():
                if field.kind == "state":
                    continue
                if field.depth == 0:
                    fields[name] = [pick(field.dtype, 1, field.kind)[0]]
                elif field.depth == 1:
                    fields[name] = [pick(field.dtype, n, field.kind)]
                elif codelet in TAKES_LISTS and rng.randrange(4):
                    lengths = [rng.randrange(5) for _ in range(rng.randint(1, 3))]
                    fields[name] = [pick(field.dtype, length, field.kind) for length in lengths]
                else:
                    fields[name] = [pick(field.dtype, k * n, field.kind).reshaped((k, n))]
            placed = Placed(codelet, rng.randrange(space.tiles), fields)
            step.vertices.append(placed)
            add(
                space,
                step.compute_set,
                placed,
                rng.randrange(40) if costed or rng.randrange(3) == 0 else -1,
            )
    return step


def add(space: Space, compute_set: ComputeSet, placed: Placed, cycles: int = -1) -> None:
    """Add one vertex to the graph, with an estimate of `cycles` unless that is -1.

    A field of several views is connected to a list, as is one vector of a list of vectors.
    """
    edges = {}
    for name, views in placed.fields.items():
        is_single = len(views) == 1 and (
            placed.codelet.fields[name].depth < 2 or views[0].ids.ndim == 2
        )
        edges[name] = views[0].tensor if is_single else [view.tensor for view in views]
    vertex = space.graph.add_vertex(compute_set, placed.codelet, edges)
    space.graph.set_tile_mapping(vertex, placed.tile)
    placed.cycles = cycles
    if cycles >= 0:
        space.graph.set_perf_estimate(vertex, cycles)


def random_copy(rng: Random, space: Space) -> tuple[Copy, View, View]:
    """Return a Copy between two random views of one dtype, its source and its destination."""
    dtype = rng.choice([FLOAT, HALF, INT, BOOL])
    length = rng.randrange(20)
    source = random_vector(rng, space, dtype, length, frozenset())
    destination = random_vector(rng, space, dtype, length, source.elements)
    if length % 2 == 0:
        source = source.reshaped((2, length // 2))
    return Copy(source.tensor, destination.tensor), source, destination


def contents(
    space: Space, program: Program | list[Program], *, runs: int = 1, **options: Any
) -> dict[str, Array]:
    """Return the values of all variables after `runs` runs; `options` are those of `Engine`."""
    engine = Engine(space.graph, program, strict=False, **options)
    engine.load(space.device)
    for _ in range(runs):
        engine.run()
    return {name: engine.read_tensor(name) for name in space.variables}


def differences(a: dict[str, Array], b: dict[str, Array]) -> list[str]:
    """Return the names of the arrays that differ in any bit."""
    return [name for name in a if not same_bits(a[name], b[name])]


def same_bits(a: Array, b: Array) -> bool:
    """Return whether dtypes, shapes and all bits are equal; -0.0 differs from 0.0.

    Any NaN equals any other: its sign and payload mean nothing.
    """
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.kind != "f":
        return np.array_equal(a, b)
    plain = f"u{a.dtype.itemsize}"
    equal = np.ascontiguousarray(a).view(plain) == np.ascontiguousarray(b).view(plain)
    return bool(np.all(equal | (np.isnan(a) & np.isnan(b))))
