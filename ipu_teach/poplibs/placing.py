"""Functions that partition elements, and that choose the tiles of a tensor.

Users call these functions through `poputil`.
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
# The maximum number of elements that `_typical_strides` examines in each dimension of a view.
NEAR = 8
_64_BITS = (1 << 64) - 1


def balanced_partition(count: int, parts: int) -> list[tuple[int, int]]:
    """Partition `count` items into `parts` consecutive intervals (begin, end) of nearly equal size.

    The sizes differ by at most one.

    :raises PoplibsError: if an argument is not an integer, if `count` is negative, or if there are
        less than 1 or more than 2**22 parts.
    """
    if not is_count(count, 0) or not is_count(parts, 1) or parts > MOST_TILES:
        raise PoplibsError(f"""balanced_partition() was given {shown(count)} items in
            {shown(parts)} parts.
            next:  give whole numbers: items of 0 or more, and parts from 1 to {MOST_TILES:,}.""")
    # Convert to Python's integers, because numpy's would overflow in the products below.
    count, parts = int(count), int(parts)
    return [(i * count // parts, (i + 1) * count // parts) for i in range(parts)]


def dealt(parts: Sequence[T], tiles: int) -> list[tuple[int, T]]:
    """Return a pair (tile, part) for each of `parts`, which are spread evenly over all tiles.

    `tiles` is the number of tiles, which are numbered from 0.
    """
    return [(index * tiles // len(parts), part) for index, part in enumerate(parts)]


def sensible_parts(size: int, limit: int) -> Array:
    """Return int[n], ascending: the useful numbers of parts for a division of `size` elements.

    Each number is at most `limit`. A number is left out if a smaller number gives parts of the same
    largest size.
    """
    counts: Array = np.unique(-(-size // -(-size // np.arange(1, max(1, min(size, limit)) + 1))))
    return counts


def split_regions(
    regions: Sequence[tuple[int, int]],
    grain_size: int,
    max_parts: int,
    min_elements_per_part: int = 0,
) -> list[list[tuple[int, int]]]:
    """Distribute intervals (begin, end), in order, over at most `max_parts` parts.

    Return a list of intervals for each part. Groups of `grain_size` consecutive elements, counted
    over all regions, stay together, and the sizes of the parts differ by at most one group. Only
    the last group may be incomplete. A part has at least as many groups as `min_elements_per_part`
    elements need, unless there are fewer groups in total.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    """
    valid_regions = (
        [as_shape(region) for region in regions] if isinstance(regions, (list, tuple)) else [None]
    )
    are_regions_valid = all(
        span is not None and len(span) == 2 and span[0] <= span[1] for span in valid_regions
    )
    if (
        not are_regions_valid
        or not is_count(grain_size, 1)
        or not is_count(max_parts, 1)
        or not is_count(min_elements_per_part, 0)
    ):
        raise PoplibsError(f"""split_regions() was given regions={shown(regions)},
            grain_size={shown(grain_size)}, max_parts={shown(max_parts)} and
            min_elements_per_part={shown(min_elements_per_part)}.
            next:  give a list of (begin, end) intervals, and whole numbers; grain_size and
            max_parts are 1 or more.""")
    # Convert to Python's integers, because numpy's would overflow in the products below.
    regions = [(int(begin), int(end)) for begin, end in regions]
    grain_size, max_parts = int(grain_size), int(max_parts)
    min_elements_per_part = int(min_elements_per_part)
    num_elements = sum(end - begin for begin, end in regions)
    num_grains = -(-num_elements // grain_size)
    min_grains = max(-(-min_elements_per_part // grain_size), 1)
    num_parts = max(min(max_parts, num_grains // min_grains), 1) if num_elements else 0
    parts: list[list[tuple[int, int]]] = []
    for grain_begin, grain_end in balanced_partition(num_grains, num_parts) if num_parts else []:
        element_begin = grain_begin * grain_size
        element_end = grain_end * grain_size
        elements_before = 0  # The number of elements in all earlier regions.
        part = []
        for begin, end in regions:
            begin_in_region = max(element_begin - elements_before, 0)
            end_in_region = min(element_end - elements_before, end - begin)
            if begin_in_region < end_in_region:
                part.append((begin + begin_in_region, begin + end_in_region))
            elements_before += end - begin
        parts.append(part)
    return parts


@library
def choose_mapping_offset(num_tiles: int, shape: Sequence[int], seed: int = _SEED) -> int:
    """Return a first tile from 0 to `num_tiles` - 1, chosen by a hash of the shape.

    Pass it to `map_tensor_linearly_with_offset` as the offset. Tensors of different shapes then
    mostly begin on different tiles, instead of all on tile 0. PopLibs uses the same hash: a 64-bit
    MurmurHash step for each size (poputil/TileMapping.hpp).

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    """
    sizes = check_shape(shape)
    for argument_name, argument, minimum in (("num_tiles", num_tiles, 1), ("seed", seed, 0)):
        if not is_whole(argument) or argument < minimum:
            raise as_given(argument, argument_name, f"give a whole number of {minimum} or more.")
    hash_value = int(seed) & _64_BITS
    for size in sizes:
        mixed_size = size * 0xC6A4A7935BD1E995 & _64_BITS
        mixed_size = (mixed_size ^ mixed_size >> 47) * 0xC6A4A7935BD1E995 & _64_BITS
        hash_value = ((hash_value ^ mixed_size) * 0xC6A4A7935BD1E995 + 0xE6546B64) & _64_BITS
    return hash_value % int(num_tiles)


def factor_dims(tensor: Tensor, factors: Sequence[int], start_dim: int) -> Tensor:
    """Return a view in which `len(factors)` neighbouring dimensions are each split in two.

    The first of these dimensions is `start_dim`. A dimension of size s with the factor f becomes
    two dimensions, s / f and f. The dimensions of size s / f come first, then those of size f. For
    example, shape (4, 6, 4) with factors (1, 2) from dimension 0 becomes (4, 3, 1, 2, 4). In this
    view, each block of 1 x 2 rows of 4 elements is a slice.

    :raises IPUTeachError: (usually a PoplibsError) if an argument is wrong, or if a factor does
        not divide its dimension.
    """
    if not isinstance(tensor, Tensor):
        raise PoplibsError(
            f"factor_dims() was given {shown(tensor)} as tensor.", next_step="give a tensor."
        )
    are_factors_valid = isinstance(factors, (list, tuple)) and all(
        is_whole(factor) and factor > 0 for factor in factors
    )
    first_dim = int(start_dim) if is_whole(start_dim) else -1
    num_factors = len(factors) if are_factors_valid else 0
    sizes = tensor.shape[first_dim : first_dim + num_factors] if first_dim >= 0 else ()
    if (
        not are_factors_valid
        or len(sizes) != num_factors
        or any(size % factor for size, factor in zip(sizes, factors, strict=True))
    ):
        raise PoplibsError(f"""factor_dims() was given the factors {shown(factors)} and
            start_dim={shown(start_dim)}.
            where: {tensor!r}
            next:  give a list of whole numbers, each of which divides its dimension.""")
    split_shape = [
        new_size
        for size, factor in zip(sizes, factors, strict=True)
        for new_size in (size // factor, factor)
    ]
    split_tensor = tensor.reshape(
        [*tensor.shape[:first_dim], *split_shape, *tensor.shape[first_dim + num_factors :]]
    )
    dim_order = [
        *range(first_dim),
        *range(first_dim, first_dim + 2 * num_factors, 2),
        *range(first_dim + 1, first_dim + 2 * num_factors, 2),
    ]
    return split_tensor.dim_shuffle(
        [*dim_order, *range(first_dim + 2 * num_factors, split_tensor.rank)]
    )


def unfactor_dims(tensor: Tensor, num_dims: int, start_dim: int) -> Tensor:
    """Return a view that reverses `factor_dims`: pairs of dimensions are merged.

    For each i below `num_dims`, dimension start_dim + i is merged with dimension start_dim +
    num_dims + i, which becomes the inner one. For example, shape (4, 3, 1, 2, 4) with num_dims 2
    from dimension 0 becomes (4, 6, 4).

    :raises IPUTeachError: (usually a PoplibsError) if an argument is wrong, or if the tensor has
        too few dimensions.
    """
    if not isinstance(tensor, Tensor):
        raise PoplibsError(
            f"unfactor_dims() was given {shown(tensor)} as tensor.", next_step="give a tensor."
        )
    are_counts_valid = all(is_whole(n) and n >= 0 for n in (num_dims, start_dim))
    if not are_counts_valid or start_dim + 2 * num_dims > tensor.rank:
        raise PoplibsError(f"""unfactor_dims() was given num_dims={shown(num_dims)} and
            start_dim={shown(start_dim)}, which do not fit a tensor of {tensor.rank} dimensions.
            where: {tensor!r}
            next:  give whole numbers for which start_dim + 2 * num_dims is at most
            {tensor.rank}: num_dims dimensions, and then num_dims factors.""")
    first_dim = int(start_dim)
    num_factors = int(num_dims)
    paired_dims = [
        d for i in range(num_factors) for d in (first_dim + i, first_dim + num_factors + i)
    ]
    paired = tensor.dim_shuffle(
        [*range(first_dim), *paired_dims, *range(first_dim + 2 * num_factors, tensor.rank)]
    )
    sizes = [
        paired.shape[first_dim + 2 * i] * paired.shape[first_dim + 2 * i + 1]
        for i in range(num_factors)
    ]
    return paired.reshape(
        [*paired.shape[:first_dim], *sizes, *paired.shape[first_dim + 2 * num_factors :]]
    )


class TensorUseTracker:
    """A record of which tiles use which elements, from which a tile mapping is computed.

        uses = poputil.TensorUseTracker(graph.target.num_tiles)
        for tile, part in enumerate(parts):
            uses.add(graph, tile, part)
        uses.map_tensors_by_use(graph, grain_size=2, min_elements_per_tile=1)

    Every element is mapped to a tile that uses it. Elements that several tiles use are distributed
    evenly over these tiles, in multiples of the grain size.

    :raises PoplibsError: if `num_tiles` is not an integer of at least 1.
    """

    def __init__(self, num_tiles: int) -> None:
        if not is_whole(num_tiles) or num_tiles < 1:
            raise PoplibsError(f"""TensorUseTracker() was given {shown(num_tiles)} as num_tiles.
                next:  give graph.target.num_tiles.""")
        self._num_tiles = int(num_tiles)
        self._uses: list[tuple[int, Tensor]] = []

    @property
    def empty(self) -> bool:
        """Whether no use has been recorded."""
        return not self._uses

    @library
    def add(self, graph: Graph, tile: int, tensor: Loose) -> None:
        """Record that `tile` uses all elements of `tensor`.

        :raises PoplibsError: if there is no such tile.
        """
        if not is_whole(tile) or not 0 <= tile < self._num_tiles:
            raise refused(
                f"was given tile {shown(tile)}, but the number of tiles is {self._num_tiles:,}.",
                next_step=f"give a tile from 0 to {self._num_tiles - 1:,}.",
            )
        if tensor.num_elements:
            self._uses.append((int(tile), tensor.flatten()))

    @library
    def map_tensors_by_use(self, graph: Graph, grain_size: int, min_elements_per_tile: int) -> None:
        """Map every recorded element to a tile that uses it.

        Elements that are used by the same tiles are distributed over these tiles, in groups of
        `grain_size` elements, of which only the last may be incomplete. A tile gets either none of
        these groups, or at least as many groups as `min_elements_per_tile` elements need, unless
        there are fewer groups in total.

        :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
        """
        for users, use_runs in self._by_users().items():
            run_bounds = [(0, end - begin_in_tensor) for _, begin_in_tensor, end in use_runs]
            run_starts = np.cumsum([0, *(end for _, end in run_bounds)]).tolist()
            run_bounds = [(run_starts[i], run_starts[i + 1]) for i in range(len(use_runs))]
            regions_of_tiles = split_regions(
                run_bounds, grain_size, len(users), min_elements_per_tile
            )
            for tile, tile_regions in zip(users, regions_of_tiles, strict=False):
                for region_begin, region_end in tile_regions:
                    run_index = bisect_right(run_starts, region_begin) - 1
                    flat_tensor, begin_in_tensor, _ = use_runs[run_index]
                    shift_to_tensor = begin_in_tensor - run_starts[run_index]
                    graph.set_tile_mapping(
                        flat_tensor[shift_to_tensor + region_begin : shift_to_tensor + region_end],
                        tile,
                    )

    def _by_users(self) -> dict[tuple[int, ...], list[tuple[Tensor, int, int]]]:
        """Return a dict from each tuple of tiles to the elements that exactly these tiles use.

        The elements are a list of tuples (flat tensor, begin, end), each of which is an interval of
        the tensor.
        """
        if not self._uses:
            return {}
        addresses_of_uses = [
            flat_tensor.positions() * flat_tensor.dtype.size for _, flat_tensor in self._uses
        ]
        all_addresses = np.concatenate(addresses_of_uses)
        use_numbers = np.concatenate(
            [np.full(len(addresses), i) for i, addresses in enumerate(addresses_of_uses)]
        )
        offsets_in_use = np.concatenate(
            [np.arange(len(addresses)) for addresses in addresses_of_uses]
        )
        tiles_of_address: dict[int, set[int]] = defaultdict(set)
        first_use_of_address: dict[int, tuple[int, int]] = {}
        for address, use_number, offset_in_use in zip(
            all_addresses.tolist(), use_numbers.tolist(), offsets_in_use.tolist(), strict=True
        ):
            tiles_of_address[address].add(self._uses[use_number][0])
            first_use_of_address.setdefault(address, (use_number, offset_in_use))
        runs_of_users: dict[tuple[int, ...], list[tuple[Tensor, int, int]]] = defaultdict(list)
        next_of_last_run: tuple[tuple[int, ...], int, int] | None = None
        for address in sorted(first_use_of_address):
            users = tuple(sorted(tiles_of_address[address]))
            (use_number, offset_in_use) = first_use_of_address[address]
            if next_of_last_run == (users, use_number, offset_in_use):
                tensor, begin, _ = runs_of_users[users].pop()
                runs_of_users[users].append((tensor, begin, offset_in_use + 1))
            else:
                runs_of_users[users].append(
                    (self._uses[use_number][1], offset_in_use, offset_in_use + 1)
                )
            next_of_last_run = (users, use_number, offset_in_use + 1)
        return runs_of_users


@library
def create_broadcast_operand(
    graph: Graph, full_tensor: Tensor, dtype: type[DType], dim: int, name: str = "broadcast_operand"
) -> Tensor:
    """Return a new variable, such as a bias, that will be broadcast to `full_tensor` along `dim`.

    The variable has the shape [full_tensor.shape[dim]]. Each of its elements is mapped to a tile
    that has elements of `full_tensor` with the same index in that dimension.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    """
    axis = full_tensor._axis(dim)
    operand_dtype = as_dtype(dtype, "create_broadcast_operand()")
    operand = graph.add_variable(operand_dtype, (full_tensor.shape[axis],), name)
    tiles_along_axis = np.moveaxis(
        graph.tile_map().at(full_tensor.positions() * full_tensor.dtype.size), axis, 0
    )
    use_tracker = TensorUseTracker(graph.target.num_tiles)
    for element_index, element_tiles in enumerate(
        tiles_along_axis.reshape(operand.num_elements, -1) if tiles_along_axis.size else []
    ):
        for tile in np.unique(element_tiles).tolist():
            use_tracker.add(graph, tile, operand[element_index : element_index + 1])
    use_tracker.map_tensors_by_use(graph, graph.target.get_vector_width(operand_dtype), 1)
    if not tiles_along_axis.size:
        graph.set_tile_mapping(operand, 0)
    return operand


def in_memory_order(tensor: Tensor) -> list[int]:
    """Return the dimensions of a tensor in descending order of their absolute strides."""
    strides = tensor.layout.strides or _typical_strides(tensor)
    return sorted(range(tensor.rank), key=lambda d: -abs(strides[d]))


def _typical_strides(tensor: Tensor) -> list[int]:
    """Estimate the strides of a view without regular strides, from its first elements.

    A view may interleave several tensors; an example is the input gradient of a convolution with a
    stride. Elements that are neighbours in memory are then a few indices apart in the view. For
    each dimension, the function therefore computes the median distance in memory between elements
    that are 1, 2, … indices apart, up to half of the examined elements. The smallest of these
    distances is the estimate.
    """
    corner_positions = tensor.layout.positions[(slice(NEAR),) * tensor.rank]
    strides = []
    for axis, size in enumerate(corner_positions.shape):
        axis_positions = np.moveaxis(corner_positions, axis, 0)
        distances = [
            np.abs(axis_positions[lag:] - axis_positions[:-lag])
            for lag in range(1, (size + 1) // 2 + 1)
        ]
        strides.append(
            min(
                (
                    int(np.median(lag_distances))
                    for lag_distances in distances
                    if lag_distances.size
                ),
                default=0,
            )
        )
    return strides
