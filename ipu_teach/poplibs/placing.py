"""Partition elements, and choose tiles for a tensor: those of its users, or from an offset on.

`poputil` offers the public names.
"""

from __future__ import annotations

from bisect import bisect_right
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
NEAR = 8  # elements per dimension that are examined to estimate the strides of a view
_64_BITS = (1 << 64) - 1


def balanced_partition(count: int, parts: int) -> list[tuple[int, int]]:
    """Partition `count` items into `parts` consecutive intervals (begin, end) of nearly equal size.

    The sizes differ by at most one.
    """
    if not is_count(count, 0) or not is_count(parts, 1) or parts > MOST_TILES:
        raise PoplibsError(f"""balanced_partition() was asked for {shown(count)} items in
            {shown(parts)} parts.
            next:  give whole numbers: items of 0 or more, and parts from 1 to {MOST_TILES:,}.""")
    return [(i * count // parts, (i + 1) * count // parts) for i in range(parts)]


def dealt(parts: Sequence[T], tiles: int) -> list[tuple[int, T]]:
    """Return (tile, part) for each part, with the parts spread evenly over `tiles` tiles."""
    return [(number * tiles // len(parts), part) for number, part in enumerate(parts)]


def sensible_parts(size: int, limit: int) -> Array:
    """Return the useful numbers of parts into which to divide `size` elements, ascending: int[n].

    They are at most `limit`. Among numbers that give an equally large largest part, only the
    smallest is useful.
    """
    counts: Array = np.unique(-(-size // -(-size // np.arange(1, max(1, min(size, limit)) + 1))))
    return counts


def split_regions(
    regions: Sequence[tuple[int, int]],
    grain_size: int,
    max_parts: int,
    min_elements_per_part: int = 0,
) -> list[list[tuple[int, int]]]:
    """Distribute intervals, in order, over at most `max_parts` parts of nearly equal size.

    Sizes are counted in grains of `grain_size` elements.

    A part begins at a multiple of `grain_size` elements, counted over all regions, and has at least
    `min_elements_per_part` elements, unless there are fewer in total.
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
    grains = -(-total // grain_size)
    min_grains = max(-(-min_elements_per_part // grain_size), 1)
    num_parts = max(min(max_parts, grains // min_grains), 1) if total else 0
    parts: list[list[tuple[int, int]]] = []
    for first, last in balanced_partition(grains, num_parts) if num_parts else []:
        low = first * grain_size
        high = last * grain_size
        start = 0  # counted over all regions
        part = []
        for begin, end in regions:
            a = max(low - start, 0)
            b = min(high - start, end - begin)
            if a < b:
                part.append((begin + a, begin + b))
            start += end - begin
        parts.append(part)
    return parts


@library
def choose_mapping_offset(num_tiles: int, shape: Sequence[int], seed: int = _SEED) -> int:
    """Return a first tile from 0 to `num_tiles` - 1, chosen by a hash of the shape.

    It is an offset for `map_tensor_linearly_with_offset`: tensors of different shapes begin on
    different tiles, so that the first tiles do not hold elements of all of them. The hash is that
    of PopLibs (a 64-bit MurmurHash step for each size; poputil/TileMapping.hpp).
    """
    sizes = check_shape(shape)
    for name, value, minimum in (("num_tiles", num_tiles, 1), ("seed", seed, 0)):
        if not is_whole(value) or value < minimum:
            raise as_given(value, name, f"give a whole number of {minimum} or more.")
    hashed = int(seed) & _64_BITS
    for size in sizes:
        mixed = size * 0xC6A4A7935BD1E995 & _64_BITS
        mixed = (mixed ^ mixed >> 47) * 0xC6A4A7935BD1E995 & _64_BITS
        hashed = ((hashed ^ mixed) * 0xC6A4A7935BD1E995 + 0xE6546B64) & _64_BITS
    return hashed % int(num_tiles)


def factor_dims(tensor: Tensor, factors: Sequence[int], start_dim: int) -> Tensor:
    """Return a view with the dimensions from `start_dim` on split by `factors`.

    The factors become dimensions behind all the split ones. For example, shape (4, 6, 4) with
    factors (1, 2) from dimension 0 becomes (4, 3, 1, 2, 4): the elements of each 1 x 2 block are
    neighbours. Raises `PoplibsError` if a factor does not divide its dimension.
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
    split_tensor = tensor.reshape([*tensor.shape[:start], *split, *tensor.shape[start + count :]])
    order = [
        *range(start),
        *range(start, start + 2 * count, 2),
        *range(start + 1, start + 2 * count, 2),
    ]
    return split_tensor.dim_shuffle([*order, *range(start + 2 * count, split_tensor.rank)])


def unfactor_dims(tensor: Tensor, num_dims: int, start_dim: int) -> Tensor:
    """Return a view that undoes `factor_dims`: each dimension is multiplied by its factor.

    The `num_dims` dimensions from `start_dim` on are followed by as many factors.
    """
    if not isinstance(tensor, Tensor):
        raise PoplibsError(
            f"unfactor_dims() was given {shown(tensor)} as tensor.", next_step="give a tensor."
        )
    good = all(is_whole(n) and n >= 0 for n in (num_dims, start_dim))
    if not good or start_dim + 2 * num_dims > tensor.rank:
        raise PoplibsError(f"""unfactor_dims() was given {shown(num_dims)} dimensions from
            {shown(start_dim)} on.
            where: {tensor!r}
            next:  give num_dims dimensions from start_dim on that are followed by as many
            factors.""")
    start = int(start_dim)
    count = int(num_dims)
    pairs = [d for i in range(count) for d in (start + i, start + count + i)]
    paired = tensor.dim_shuffle([*range(start), *pairs, *range(start + 2 * count, tensor.rank)])
    sizes = [paired.shape[start + 2 * i] * paired.shape[start + 2 * i + 1] for i in range(count)]
    return paired.reshape([*paired.shape[:start], *sizes, *paired.shape[start + 2 * count :]])


class TensorUseTracker:
    """A record of which tiles use which elements of tensors, from which a tile mapping is derived.

        uses = poputil.TensorUseTracker(graph.target.num_tiles)
        for tile, part in enumerate(parts):
            uses.add(graph, tile, part)
        uses.map_tensors_by_use(graph, grain_size=2, min_elements_per_tile=1)

    Every element is mapped to one of the tiles that use it. Elements with several users are
    distributed evenly among these tiles, in multiples of the grain size.
    """

    def __init__(self, num_tiles: int) -> None:
        if not is_whole(num_tiles) or num_tiles < 1:
            raise PoplibsError(f"""TensorUseTracker() was given {shown(num_tiles)} as num_tiles.
                next:  give graph.target.num_tiles.""")
        self._num_tiles = int(num_tiles)
        self._uses: list[tuple[int, Tensor]] = []

    @property
    def empty(self) -> bool:
        """Whether no use was recorded."""
        return not self._uses

    @library
    def add(self, graph: Graph, tile: int, tensor: Loose) -> None:
        """Record that `tile` uses all elements of `tensor`.

        Raises `PoplibsError` for an unknown tile.
        """
        if not is_whole(tile) or not 0 <= tile < self._num_tiles:
            raise refused(
                f"was given tile {shown(tile)} of {self._num_tiles:,}.",
                next_step=f"give a tile from 0 to {self._num_tiles - 1:,}.",
            )
        if tensor.num_elements:
            self._uses.append((int(tile), tensor.flatten()))

    @library
    def map_tensors_by_use(self, graph: Graph, grain_size: int, min_elements_per_tile: int) -> None:
        """Map every recorded element to a tile that uses it.

        Groups of `grain_size` elements are never split. Among elements with the same users, a tile
        gets at least `min_elements_per_tile`. Raises `PoplibsError`.
        """
        for users, runs in self._by_users().items():
            regions = [(0, end - begin) for _, begin, end in runs]
            starts = np.cumsum([0, *(end for _, end in regions)]).tolist()
            regions = [(starts[i], starts[i + 1]) for i in range(len(runs))]
            parts = split_regions(regions, grain_size, len(users), min_elements_per_tile)
            for tile, part in zip(users, parts, strict=False):
                for low, high in part:
                    number = bisect_right(starts, low) - 1
                    flat, begin, _ = runs[number]
                    shift = begin - starts[number]
                    graph.set_tile_mapping(flat[shift + low : shift + high], tile)

    def _by_users(self) -> dict[tuple[int, ...], list[tuple[Tensor, int, int]]]:
        """Return a dict from sets of tiles to the elements that exactly these tiles use.

        The elements are contiguous runs (flat tensor, begin, end).
        """
        if not self._uses:
            return {}
        positions = [flat.positions() * flat.dtype.size for _, flat in self._uses]
        place = np.concatenate(positions)
        source = np.concatenate([np.full(len(p), i) for i, p in enumerate(positions)])
        within = np.concatenate([np.arange(len(p)) for p in positions])
        tiles: dict[int, set[int]] = defaultdict(set)
        first: dict[int, tuple[int, int]] = {}
        for address, use, offset in zip(
            place.tolist(), source.tolist(), within.tolist(), strict=True
        ):
            tiles[address].add(self._uses[use][0])
            first.setdefault(address, (use, offset))
        runs: dict[tuple[int, ...], list[tuple[Tensor, int, int]]] = defaultdict(list)
        last: tuple[tuple[int, ...], int, int] | None = None
        for address in sorted(first):
            users = tuple(sorted(tiles[address]))
            (use, offset) = first[address]
            if last == (users, use, offset):
                tensor, begin, _ = runs[users].pop()
                runs[users].append((tensor, begin, offset + 1))
            else:
                runs[users].append((self._uses[use][1], offset, offset + 1))
            last = (users, use, offset + 1)
        return runs


@library
def create_broadcast_operand(
    graph: Graph, full_tensor: Tensor, dtype: type[DType], dim: int, name: str = "broadcast_operand"
) -> Tensor:
    """Create a variable that is broadcast to `full_tensor` along dimension `dim`, such as a bias.

    It has the shape [full_tensor.shape[dim]]. Each element is mapped to a tile that holds elements
    of `full_tensor` with which it is combined. Raises `PoplibsError`.
    """
    axis = full_tensor._axis(dim)
    kind = as_dtype(dtype, "create_broadcast_operand()")
    operand = graph.add_variable(kind, (full_tensor.shape[axis],), name)
    places = np.moveaxis(
        graph.tile_map().at(full_tensor.positions() * full_tensor.dtype.size), axis, 0
    )
    uses = TensorUseTracker(graph.target.num_tiles)
    for number, tiles in enumerate(places.reshape(operand.num_elements, -1) if places.size else []):
        for tile in np.unique(tiles).tolist():
            uses.add(graph, tile, operand[number : number + 1])
    uses.map_tensors_by_use(graph, graph.target.get_vector_width(kind), 1)
    if not places.size:
        graph.set_tile_mapping(operand, 0)
    return operand


def in_memory_order(tensor: Tensor) -> list[int]:
    """Return the dimensions of a tensor by descending stride."""
    strides = tensor.layout.strides or _typical_strides(tensor)
    return sorted(range(tensor.rank), key=lambda d: -abs(strides[d]))


def _typical_strides(tensor: Tensor) -> list[int]:
    """Estimate the strides of a view without regular strides, from its first elements.

    Where a view interleaves several tensors, such as the input gradient of a convolution with a
    stride, an element's neighbour in memory is a few elements away. The estimate for a dimension is
    therefore the smallest of the median distances at several lags.
    """
    corner = tensor.layout.positions[(slice(NEAR),) * tensor.rank]
    strides = []
    for axis, size in enumerate(corner.shape):
        places = np.moveaxis(corner, axis, 0)
        distances = [np.abs(places[lag:] - places[:-lag]) for lag in range(1, (size + 1) // 2 + 1)]
        strides.append(min((int(np.median(d)) for d in distances if d.size), default=0))
    return strides
