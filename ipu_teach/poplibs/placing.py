"""How elements are dealt out, and where a tensor had best lie: near those that use it, beside a
larger one, or begun at another tile than the last one.

Names of `poputil`, which takes them from here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from ipu_teach.errors import PoplibsError, shown
from ipu_teach.graph import Graph, Tensor
from ipu_teach.graph.layouts import is_whole
from ipu_teach.graph.tensor import as_shape
from ipu_teach.poplibs.library import Loose, as_given, check_shape, is_count, library, refused
from ipu_teach.target import MOST_TILES
from ipu_teach.types import Array, DType, as_dtype

T = TypeVar("T")
_SEED = 0x9E3779B9
NEAR = 8  # places of each dimension that show how a view lies
_64_BITS = (1 << 64) - 1


def balanced_partition(count: int, parts: int) -> list[tuple[int, int]]:
    """`count` items as `parts` consecutive (begin, end) intervals whose sizes differ by at most
    one."""
    if not is_count(count, 0) or not is_count(parts, 1) or parts > MOST_TILES:
        raise PoplibsError(f"""balanced_partition() was asked for {shown(count)} items in
            {shown(parts)} parts.
            next:  give whole numbers: items of 0 or more, and parts from 1 to {MOST_TILES:,}.""")
    return [(i * count // parts, (i + 1) * count // parts) for i in range(parts)]


def dealt(parts: Sequence[T], tiles: int) -> list[tuple[int, T]]:
    """A tile for each part, spread evenly over all of them."""
    return [(number * tiles // len(parts), part) for number, part in enumerate(parts)]


def sensible_parts(size: int, most: int) -> Array:
    """Numbers of parts, up to `most`: of those that make parts equally large, the fewest."""
    found: Array = np.unique(-(-size // -(-size // np.arange(1, max(1, min(size, most)) + 1))))
    return found


def split_regions(
    regions: Sequence[tuple[int, int]],
    grain_size: int,
    max_parts: int,
    min_elements_per_part: int = 0,
) -> list[list[tuple[int, int]]]:
    """Intervals dealt out, in order, to at most `max_parts` parts of nearly the same number of
    grains.

    A part begins at a whole number of grains, counted over all regions, and has at least
    `min_elements_per_part` elements where there are as many.
    """
    spans = (
        [as_shape(region) for region in regions] if isinstance(regions, (list, tuple)) else [None]
    )
    good = all(s is not None and len(s) == 2 and s[0] <= s[1] for s in spans)
    if (
        not good
        or not is_count(grain_size, 1)
        or not is_count(max_parts, 1)
        or not is_count(min_elements_per_part, 0)
    ):
        raise PoplibsError(f"""split_regions() was given {shown(regions)}, grain
            {shown(grain_size)}, {shown(max_parts)} parts and at least
            {shown(min_elements_per_part)} elements.
            next:  give a list of (begin, end) intervals, and whole numbers; grain and parts are 1
            or more.""")
    total = sum(end - begin for begin, end in regions)
    grains, least = -(-total // grain_size), max(-(-min_elements_per_part // grain_size), 1)
    parts = max(min(max_parts, grains // least), 1) if total else 0
    found: list[list[tuple[int, int]]] = []
    for first, last in balanced_partition(grains, parts) if parts else []:
        low, high, seen, part = first * grain_size, last * grain_size, 0, []
        for begin, end in regions:
            a, b = max(low - seen, 0), min(high - seen, end - begin)
            if a < b:
                part.append((begin + a, begin + b))
            seen += end - begin
        found.append(part)
    return found


@library
def choose_mapping_offset(num_tiles: int, shape: Sequence[int], seed: int = _SEED) -> int:
    """A tile to begin at, from 0 to num_tiles - 1, by a hash of the shape: for
    `map_tensor_linearly_with_offset`.

    Tensors of different shapes begin at different tiles, so that the first tiles do not hold the
    ends of them all. The numbers are PopLibs' own (a 64-bit MurmurHash step for each size;
    poputil/TileMapping.hpp).
    """
    sizes = check_shape(shape)
    for name, value, least in (("num_tiles", num_tiles, 1), ("seed", seed, 0)):
        if not is_whole(value) or value < least:
            raise as_given(value, name, f"give a whole number of {least} or more.")
    found = int(seed) & _64_BITS
    for size in sizes:
        mixed = size * 0xC6A4A7935BD1E995 & _64_BITS
        mixed = (mixed ^ mixed >> 47) * 0xC6A4A7935BD1E995 & _64_BITS
        found = ((found ^ mixed) * 0xC6A4A7935BD1E995 + 0xE6546B64) & _64_BITS
    return found % int(num_tiles)


def factor_dims(tensor: Tensor, factors: Sequence[int], start_dim: int) -> Tensor:
    """`tensor` with the dimensions from `start_dim` on split by `factors`, the factors behind them
    all. A view.

    Shape (4, 6, 4) by factors (1, 2) from 0 becomes (4, 3, 1, 2, 4): each block of 1 x 2 side by
    side. Raises `PoplibsError` where a factor does not divide its dimension.
    """
    if not isinstance(tensor, Tensor):
        raise PoplibsError(
            f"factor_dims() was given {shown(tensor)} as tensor.", next_step="give a tensor."
        )
    listed = isinstance(factors, (list, tuple)) and all(is_whole(f) and f > 0 for f in factors)
    start = int(start_dim) if is_whole(start_dim) else -1
    count = len(factors) if listed else 0
    sizes = tensor.shape[start : start + count] if start >= 0 else ()
    if (
        not listed
        or len(sizes) != count
        or any(size % f for size, f in zip(sizes, factors, strict=True))
    ):
        raise PoplibsError(f"""factor_dims() was given the factors {shown(factors)} from dimension
            {shown(start_dim)} on.
            where: {tensor!r}
            next:  give a list of whole numbers, each of which divides its dimension.""")
    split = [n for size, f in zip(sizes, factors, strict=True) for n in (size // f, f)]
    apart = tensor.reshape([*tensor.shape[:start], *split, *tensor.shape[start + count :]])
    order = [
        *range(start),
        *range(start, start + 2 * count, 2),
        *range(start + 1, start + 2 * count, 2),
    ]
    return apart.dim_shuffle([*order, *range(start + 2 * count, apart.rank)])


def unfactor_dims(tensor: Tensor, num_dims: int, start_dim: int) -> Tensor:
    """The inverse of `factor_dims`: `num_dims` dimensions from `start_dim` on, each times its
    factor. A view."""
    if not isinstance(tensor, Tensor):
        raise PoplibsError(
            f"unfactor_dims() was given {shown(tensor)} as tensor.", next_step="give a tensor."
        )
    good = all(is_whole(n) and n >= 0 for n in (num_dims, start_dim))
    if not good or start_dim + 2 * num_dims > tensor.rank:
        raise PoplibsError(f"""unfactor_dims() was given {shown(num_dims)} dimensions from
            {shown(start_dim)} on.
            where: {tensor!r}
            next:  the tensor has that many dimensions there, and their factors behind them.""")
    start, count = int(start_dim), int(num_dims)
    pairs = [d for i in range(count) for d in (start + i, start + count + i)]
    apart = tensor.dim_shuffle([*range(start), *pairs, *range(start + 2 * count, tensor.rank)])
    sizes = [apart.shape[start + 2 * i] * apart.shape[start + 2 * i + 1] for i in range(count)]
    return apart.reshape([*apart.shape[:start], *sizes, *apart.shape[start + 2 * count :]])


class TensorUseTracker:
    """Which tiles use which elements, and a mapping that puts every element on one of those that
    use it.

        uses = poputil.TensorUseTracker(graph.target.num_tiles)
        for tile, part in enumerate(parts):
            uses.add(graph, tile, part)
        uses.map_tensors_by_use(graph, grain_size=2, min_elements_per_tile=1)

    What several tiles use is spread evenly among them, in whole grains.
    """

    def __init__(self, num_tiles: int) -> None:
        if not is_whole(num_tiles) or num_tiles < 1:
            raise PoplibsError(f"""TensorUseTracker() was given {shown(num_tiles)} as num_tiles.
                next:  give graph.target.num_tiles.""")
        self._num_tiles = int(num_tiles)
        self._uses: list[tuple[int, Tensor]] = []

    @property
    def empty(self) -> bool:
        """Whether no use was added."""
        return not self._uses

    @library
    def add(self, graph: Graph, tile: int, tensor: Loose) -> None:
        """The tile uses these elements. Raises `PoplibsError`."""
        if not is_whole(tile) or not 0 <= tile < self._num_tiles:
            raise refused(
                f"was given tile {shown(tile)} of {self._num_tiles:,}.",
                next_step="tiles are counted from 0.",
            )
        if tensor.num_elements:
            self._uses.append((int(tile), tensor.flatten()))

    @library
    def map_tensors_by_use(self, graph: Graph, grain_size: int, min_elements_per_tile: int) -> None:
        """Map every element that was added to a tile that uses it.

        `grain_size`: elements that are not parted; `min_elements_per_tile`: of those that the same
        tiles use, at least so many lie together. Raises `PoplibsError`.
        """
        for users, runs in self._by_users().items():
            regions = [(0, end - begin) for _, begin, end in runs]
            starts = np.cumsum([0, *(end for _, end in regions)])
            regions = [(int(starts[i]), int(starts[i + 1])) for i in range(len(runs))]
            for tile, part in zip(
                users,
                split_regions(regions, grain_size, len(users), min_elements_per_tile),
                strict=False,
            ):
                for low, high in part:
                    number = int(np.searchsorted(starts, low, "right")) - 1
                    flat, begin, _ = runs[number]
                    graph.set_tile_mapping(
                        flat[
                            begin + low - int(starts[number]) : begin + high - int(starts[number])
                        ],
                        tile,
                    )

    def _by_users(self) -> dict[tuple[int, ...], list[tuple[Tensor, int, int]]]:
        """For each set of tiles the runs (tensor, begin, end) of elements that just they use."""
        if not self._uses:
            return {}
        positions = [flat.positions() * flat.dtype.size for _, flat in self._uses]
        place = np.concatenate(positions)
        source = np.concatenate([np.full(len(p), i) for i, p in enumerate(positions)])
        within = np.concatenate([np.arange(len(p)) for p in positions])
        tiles: dict[int, set[int]] = defaultdict(set)
        first: dict[int, tuple[int, int]] = {}
        for where, use, offset in zip(
            place.tolist(), source.tolist(), within.tolist(), strict=True
        ):
            tiles[where].add(self._uses[use][0])
            first.setdefault(where, (use, offset))
        found: dict[tuple[int, ...], list[tuple[Tensor, int, int]]] = defaultdict(list)
        last: tuple[tuple[int, ...], int, int] | None = None
        for where in sorted(first):
            users, (use, offset) = tuple(sorted(tiles[where])), first[where]
            if last == (users, use, offset):
                tensor, begin, _ = found[users].pop()
                found[users].append((tensor, begin, offset + 1))
            else:
                found[users].append((self._uses[use][1], offset, offset + 1))
            last = (users, use, offset + 1)
        return found


@library
def create_broadcast_operand(
    graph: Graph, full_tensor: Tensor, dtype: type[DType], dim: int, name: str = "broadcast_operand"
) -> Tensor:
    """A variable [full_tensor.shape[dim]] for an operation with `full_tensor` that broadcasts it: a
    bias, say.

    Each element lies on a tile that holds elements of `full_tensor` which it will meet. Raises
    `PoplibsError`.
    """
    axis = full_tensor._axis(dim)
    kind = as_dtype(dtype, "create_broadcast_operand()")
    made = graph.add_variable(kind, (full_tensor.shape[axis],), name)
    places = np.moveaxis(
        graph.tile_map().at(full_tensor.positions() * full_tensor.dtype.size), axis, 0
    )
    uses = TensorUseTracker(graph.target.num_tiles)
    for number, tiles in enumerate(places.reshape(made.num_elements, -1) if places.size else []):
        for tile in np.unique(tiles).tolist():
            uses.add(graph, tile, made[number : number + 1])
    uses.map_tensors_by_use(graph, graph.target.get_vector_width(kind), 1)
    if not places.size:
        graph.set_tile_mapping(made, 0)
    return made


def in_memory_order(tensor: Tensor) -> list[int]:
    """The dimensions of a tensor, that in which neighbours lie farthest apart first."""
    strides = tensor.layout.strides or _typical_strides(tensor)
    return sorted(range(tensor.rank), key=lambda d: -abs(strides[d]))


def _typical_strides(tensor: Tensor) -> list[int]:
    """How far apart neighbours lie in each dimension of a view without strides, by its first
    elements.

    Where a view is interleaved of several tensors, as the input gradient of a convolution with a
    stride, an element's neighbour in memory is a few places away.
    """
    corner = tensor.layout.positions[(slice(NEAR),) * tensor.rank]
    strides = []
    for axis, size in enumerate(corner.shape):
        places = np.moveaxis(corner, axis, 0)
        distances = [np.abs(places[lag:] - places[:-lag]) for lag in range(1, (size + 1) // 2 + 1)]
        strides.append(min((int(np.median(d)) for d in distances if d.size), default=0))
    return strides
