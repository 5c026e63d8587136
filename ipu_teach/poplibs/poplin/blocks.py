"""Functions that add all vertices for one step of a matrix product in a single call.

A `Column` is a list of tensors to which one field of many vertices is connected, with a tensor for
each vertex. The functions compute columns from arrays, because building a tensor for each vertex
would be slow.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ipu_teach.graph import ComputeSet, Graph, Tensor, Vertex
from ipu_teach.graph.bulk import Column
from ipu_teach.graph.tile_map import expand
from ipu_teach.poplibs.poputil import balanced_partition
from ipu_teach.types import Array, DType

Part = tuple[int, int]


def shares_of(elements: int, parts: int, dtype: type[DType]) -> list[Part]:
    """Divide `elements` elements into `parts` intervals (begin, end) of complete 64-bit words.

    The last interval may end within a word, and intervals may be empty.
    """
    elements_per_word = 8 // dtype.size
    word_intervals = balanced_partition(-(-elements // elements_per_word), parts)
    return [
        (min(begin * elements_per_word, elements), min(end * elements_per_word, elements))
        for begin, end in word_intervals
    ]


def add_multiplications(
    graph: Graph,
    into: ComputeSet,
    codelet: type[Vertex],
    operands: tuple[Tensor, Tensor, Tensor],
    parts: tuple[list[Part], list[Part], list[Part], list[Part]],
    tiles: Array,
    is_first: bool,
) -> None:
    """Add vertices that multiply blocks of a [groups, m, k] and b [groups, k, n].

    There is a vertex for each block and each group in the block. `operands` is (a, b, sums), where
    `sums` is [blocks of k, groups, m, columns of this step].

    `parts` contains four lists of intervals (begin, end), which divide the groups, m, n and k into
    blocks. The intervals of n cover only the columns of this step. `tiles` contains the tile of
    each block: int64[group blocks, m blocks, n blocks, k blocks]. If `is_first`, the blocks of
    `sums` are mapped to these tiles.
    """
    a, b, sums = operands
    group_parts, row_parts, column_parts, inner_parts = parts
    group_index, row_index, column_index, inner_index = (
        index.reshape(-1) for index in np.indices([len(dim_parts) for dim_parts in parts])
    )
    group_begins, group_sizes = _bounds(group_parts)
    block_of_vertex, group_of_vertex = expand(group_begins[group_index], group_sizes[group_index])
    tile_of_vertex = tiles[group_index, row_index, column_index, inner_index][block_of_vertex]
    row_index = row_index[block_of_vertex]
    column_index = column_index[block_of_vertex]
    inner_index = inner_index[block_of_vertex]
    flat_sums = sums.reshape((sums.shape[0] * sums.shape[1], *sums.shape[2:]))
    sums_row = inner_index * sums.shape[1] + group_of_vertex
    sums_columns = [
        (begin - column_parts[0][0], end - column_parts[0][0]) for begin, end in column_parts
    ]
    if is_first:
        _map_blocks(
            graph,
            flat_sums,
            sums_row,
            (row_parts, row_index),
            (sums_columns, column_index),
            tile_of_vertex,
        )
    edges = {
        "a": _blocks(a, group_of_vertex, (row_parts, row_index), (inner_parts, inner_index)),
        "b": _blocks(b, group_of_vertex, (inner_parts, inner_index), (column_parts, column_index)),
        "out": _blocks(flat_sums, sums_row, (row_parts, row_index), (sums_columns, column_index)),
    }
    graph.add_columns(into, codelet, tile_of_vertex, edges, {})


def add_sums(
    graph: Graph,
    into: ComputeSet,
    codelet: type[Vertex],
    partials: Tensor,
    out: Tensor,
    parts: tuple[list[Part], list[Part], list[Part]],
    tiles: Array,
) -> None:
    """Add vertices that sum `partials` [blocks of k, *out.shape] into `out` [groups, m, n].

    `parts` contains a list of intervals (begin, end) for each dimension of `out`. The intervals
    divide `out` into blocks. `tiles`, int64[group blocks, m blocks, n blocks, k blocks], contains
    the tiles that have partial sums of each block. These tiles divide the elements of the block
    between them. Each tile has a vertex for its elements, which are mapped to the tile in `out`.
    """
    begins, sizes = _all_blocks(parts)
    partials_offset = begins @ np.array(_strides(partials)[1:])
    out_offset = begins @ np.array(_strides(out))
    tiles_of_block = tiles.reshape(len(sizes), -1)
    tiles_per_block = tiles_of_block.shape[1]
    shares = _shares_of_blocks(begins, sizes, partials, out, tiles_per_block)
    if not shares:
        return
    tile_of_vertex = np.concatenate(
        [tiles_of_block[share.blocks, share.number] for share in shares]
    )
    for share in shares:
        share_tiles = tiles_of_block[share.blocks, share.number]
        _map_share(graph, share, out, out_offset, share_tiles)
    vertex_order = np.argsort(
        np.concatenate([share.blocks * tiles_per_block + share.number for share in shares])
    )
    edges = {
        "x": _shifted(
            [(share.blocks, share.partials) for share in shares], partials_offset, vertex_order
        ),
        "out": _shifted([(share.blocks, share.out) for share in shares], out_offset, vertex_order),
    }
    graph.add_columns(into, codelet, tile_of_vertex[vertex_order], edges, {})


class _Share(NamedTuple):
    """The elements that one tile of a block sums, for all blocks of the same shape.

    The elements of a block are divided over the block's tiles. `number` is the index of the tile
    among the block's tiles, and `blocks` contains the indices of the blocks. `partials` [blocks of
    k, elements] and `out` [elements] are the elements of the first of these blocks. In the other
    blocks, the elements are at the same positions.
    """

    blocks: Array
    number: int
    partials: Tensor
    out: Tensor


def _all_blocks(parts: tuple[list[Part], ...]) -> tuple[Array, Array]:
    """Return `(begins, sizes)`, both int64[blocks, dimensions], of all blocks in row-major order.

    `parts` contains a list of intervals (begin, end) for each dimension. A block consists of one
    interval of each dimension.
    """
    part_indices = np.indices([len(dim_parts) for dim_parts in parts]).reshape(len(parts), -1)
    bounds_of_dims = [_bounds(dim_parts) for dim_parts in parts]
    begins, sizes = (
        np.stack(
            [
                bounds[which][part_index]
                for bounds, part_index in zip(bounds_of_dims, part_indices, strict=True)
            ],
            axis=1,
        )
        for which in (0, 1)
    )
    return begins, sizes


def _shares_of_blocks(
    begins: Array, sizes: Array, partials: Tensor, out: Tensor, tiles_per_block: int
) -> list[_Share]:
    """Return a `_Share` for each tile index and each shape of blocks, except empty shares.

    The elements of a block are divided over `tiles_per_block` tiles. `begins` and `sizes`, both
    int64[blocks, dimensions], contain the first index and the size of each block.
    """
    shares = []
    shape_number = np.unique(sizes, axis=0, return_inverse=True)[1].reshape(-1)
    for shape in range(int(shape_number.max(initial=-1)) + 1):
        blocks = np.flatnonzero(shape_number == shape)
        first_block = tuple(
            slice(int(begin), int(begin + size))
            for begin, size in zip(begins[blocks[0]], sizes[blocks[0]], strict=True)
        )
        block_out = out[first_block].flatten()
        block_partials = partials[(slice(None),) + first_block].reshape(
            (partials.shape[0], block_out.num_elements)
        )
        intervals = shares_of(len(block_out), tiles_per_block, out.dtype)
        shares += [
            _Share(blocks, number, block_partials[:, begin:end], block_out[begin:end])
            for number, (begin, end) in enumerate(intervals)
            if begin < end
        ]
    return shares


def _map_share(
    graph: Graph, share: _Share, out: Tensor, out_offset: Array, tile_of_block: Array
) -> None:
    """Map the elements of `share` in each of its blocks to tiles.

    `tile_of_block` contains the tile for each block in `share.blocks`. `out_offset` contains the
    position in memory of the first element of every block of `out`.
    """
    run_starts, run_lengths = share.out.layout.extent
    block_offsets = out_offset[share.blocks] - out_offset[share.blocks[0]]
    share_begins = share.out.offset - out.offset + block_offsets[:, None]
    graph.map_pieces(
        out.flatten(),
        (share_begins + run_starts).reshape(-1),
        np.tile(run_lengths, len(share.blocks)),
        np.repeat(tile_of_block, len(run_starts)),
    )


def _strides(tensor: Tensor) -> tuple[int, ...]:
    strides = tensor.layout.strides
    assert strides is not None, "a variable"
    return strides


def _shifted(
    share_rows: list[tuple[Array, Tensor]], block_offsets: Array, vertex_order: Array
) -> Column:
    """Return a `Column` that connects each vertex to its share of a block.

    `share_rows` contains a pair (indices of blocks, tensor) for each share. The tensor contains the
    elements of the first of these blocks, and the elements of the other blocks are shifted by the
    distance between the blocks. `block_offsets` contains the position in memory of each block.
    `vertex_order` contains, for each vertex, the index of its block in the concatenated lists of
    blocks.
    """
    column = Column.of([tensor for _, tensor in share_rows])
    offsets = [
        first_offset + block_offsets[blocks] - block_offsets[blocks[0]]
        for first_offset, (blocks, _) in zip(column.offset, share_rows, strict=True)
    ]
    form_numbers = np.repeat(column.form, [len(blocks) for blocks, _ in share_rows])
    return Column(np.concatenate(offsets)[vertex_order], form_numbers[vertex_order], column.forms)


def _bounds(parts: list[Part]) -> tuple[Array, Array]:
    """Return `(begins, sizes)`, both int64[parts], of the intervals (begin, end) in `parts`.

    The beginning of an empty interval becomes 0.
    """
    begin, end = np.array(parts, np.int64).reshape(-1, 2).T
    return np.where(end > begin, begin, 0), end - begin


def _blocks(
    tensor: Tensor,
    group_of_vertex: Array,
    row_index_pair: tuple[list[Part], Array],
    column_index_pair: tuple[list[Part], Array],
) -> Column:
    """Return a `Column` that connects each vertex to its block of `tensor` [groups, rows, columns].

    `group_of_vertex` contains the group of each vertex. `row_index_pair` is (intervals, indices):
    the intervals (begin, end) of rows, and for each vertex the index of its interval.
    `column_index_pair` contains the same two values for the columns.
    """
    (row_parts, row_index), (column_parts, column_index) = row_index_pair, column_index_pair
    (row_begins, row_sizes), (column_begins, column_sizes) = (
        _bounds(row_parts),
        _bounds(column_parts),
    )
    strides = tensor.layout.strides
    # A form is the layout of a block relative to its first element. With regular strides, all
    # blocks of one shape have the same form.
    form_key = (group_of_vertex * len(row_parts) + row_index) * len(column_parts) + column_index
    if strides is not None:
        form_key = row_sizes[row_index] * (tensor.shape[2] + 1) + column_sizes[column_index]
    _, first_vertices, form_of_vertex = np.unique(form_key, return_index=True, return_inverse=True)
    column = Column.of(
        tensor[
            int(group_of_vertex[vertex]),
            slice(*row_parts[row_index[vertex]]),
            slice(*column_parts[column_index[vertex]]),
        ]
        for vertex in first_vertices.tolist()
    )
    form_of_vertex = form_of_vertex.reshape(-1)
    offsets = column.offset[form_of_vertex]
    if strides is not None:
        block_offsets = (
            group_of_vertex * strides[0]
            + row_begins[row_index] * strides[1]
            + column_begins[column_index] * strides[2]
        )
        offsets = offsets + block_offsets - block_offsets[first_vertices][form_of_vertex]
    return Column(offsets, column.form[form_of_vertex], column.forms)


def _map_blocks(
    graph: Graph,
    tensor: Tensor,
    group_of_vertex: Array,
    row_index_pair: tuple[list[Part], Array],
    column_index_pair: tuple[list[Part], Array],
    tile_of_vertex: Array,
) -> None:
    """Map each vertex's block of a variable [groups, rows, columns] to the vertex's tile.

    `row_index_pair` is (intervals, indices): the intervals (begin, end) of rows, and for each
    vertex the index of its interval. `column_index_pair` contains the same two values for the
    columns.
    """
    (row_parts, row_index), (column_parts, column_index) = row_index_pair, column_index_pair
    (row_begins, row_sizes), (column_begins, column_sizes) = (
        _bounds(row_parts),
        _bounds(column_parts),
    )
    _, height, width = tensor.shape
    if len(column_parts) == 1:  # A block has all columns, so its rows are contiguous in memory.
        run_begins = (group_of_vertex * height + row_begins[row_index]) * width
        run_lengths = row_sizes[row_index] * column_sizes[column_index]
    else:
        vertex, row_in_tensor = expand(row_begins[row_index], row_sizes[row_index])
        run_begins = (group_of_vertex[vertex] * height + row_in_tensor) * width + column_begins[
            column_index[vertex]
        ]
        run_lengths = column_sizes[column_index[vertex]]
        tile_of_vertex = tile_of_vertex[vertex]
    graph.map_pieces(tensor.flatten(), run_begins, run_lengths, tile_of_vertex)
