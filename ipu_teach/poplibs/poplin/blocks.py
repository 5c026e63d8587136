"""The blocks of a matrix product as columns of vertices, for all blocks of a step at once."""

from __future__ import annotations

import numpy as np

from ipu_teach.graph import ComputeSet, Graph, Tensor, Vertex
from ipu_teach.graph.bulk import Column
from ipu_teach.graph.tile_map import expand
from ipu_teach.poplibs.poputil import balanced_partition
from ipu_teach.types import Array, DType

Part = tuple[int, int]


def shares_of(elements: int, parts: int, dtype: type[DType]) -> list[Part]:
    """Return `parts` intervals of complete 64-bit words, some possibly empty, of `elements`."""
    grain = 8 // dtype.size
    words = balanced_partition(-(-elements // grain), parts)
    return [(min(begin * grain, elements), min(end * grain, elements)) for begin, end in words]


def add_multiplications(
    graph: Graph,
    into: ComputeSet,
    codelet: type[Vertex],
    operands: tuple[Tensor, Tensor, Tensor],
    parts: tuple[list[Part], list[Part], list[Part], list[Part]],
    tiles: Array,
    is_first: bool,
) -> None:
    """Add a vertex for each block of a [groups, m, k] times b [groups, k, n], and each group in it.

    `operands`: a, b and the sums [inner blocks, groups, m, columns], whose first column is that of
    the first block. `parts`: of the groups, of m, of n and of k, and `tiles` the tile of each
    block, [groups, m, n, k]. If `is_first`, the sums are mapped to these tiles.
    """
    a, b, sums = operands
    groups, rows, columns, inner = parts
    g, r, c, i = (n.reshape(-1) for n in np.indices([len(p) for p in parts]))
    begin, size = _bounds(groups)
    block, group = expand(begin[g], size[g])
    tile = tiles[g, r, c, i][block]
    r = r[block]
    c = c[block]
    i = i[block]
    flat_sums = sums.reshape((sums.shape[0] * sums.shape[1], *sums.shape[2:]))
    number = i * sums.shape[1] + group
    own_columns = [(low - columns[0][0], high - columns[0][0]) for low, high in columns]
    if is_first:
        _map_blocks(graph, flat_sums, number, (rows, r), (own_columns, c), tile)
    edges = {
        "a": _blocks(a, group, (rows, r), (inner, i)),
        "b": _blocks(b, group, (inner, i), (columns, c)),
        "out": _blocks(flat_sums, number, (rows, r), (own_columns, c)),
    }
    graph.add_columns(into, codelet, tile, edges, {})


def add_sums(
    graph: Graph,
    into: ComputeSet,
    codelet: type[Vertex],
    partials: Tensor,
    out: Tensor,
    parts: tuple[list[Part], list[Part], list[Part]],
    tiles: Array,
) -> None:
    """Add the vertices that sum `partials` [inner blocks, *out.shape] into `out` [groups, m, n].

    Each block of `out`, by the `parts` of its dimensions, is divided over its tiles, `tiles[groups,
    m, n]`, which hold one partial each; the shares are mapped to them.
    """
    index = [n.reshape(-1) for n in np.indices([len(p) for p in parts])]
    bounds = [_bounds(p) for p in parts]
    begins = [begin[n] for (begin, _), n in zip(bounds, index, strict=True)]
    sizes = np.stack([size[n] for (_, size), n in zip(bounds, index, strict=True)], axis=1)
    corner_in, corner_out = (
        sum(b * s for b, s in zip(begins, strides, strict=True))
        for strides in (_strides(partials)[1:], _strides(out))
    )
    tile = tiles.reshape(len(sizes), -1)
    shape_of = np.unique(sizes, axis=0, return_inverse=True)[1].reshape(-1)
    # (blocks, share, and the sums and the result of the first block)
    rows: list[tuple[Array, int, Tensor, Tensor]] = []
    for number in range(int(shape_of.max(initial=-1)) + 1):
        blocks = np.flatnonzero(shape_of == number)
        cut = tuple(
            slice(int(b[blocks[0]]), int(b[blocks[0]] + n))
            for b, n in zip(begins, sizes[blocks[0]], strict=True)
        )
        result = out[cut].flatten()
        sums = partials[(slice(None),) + cut].reshape((partials.shape[0], result.num_elements))
        for share, (low, high) in enumerate(shares_of(len(result), tile.shape[1], out.dtype)):
            if low < high:
                rows.append((blocks, share, sums[:, low:high], result[low:high]))
    if not rows:
        return
    order = np.argsort(np.concatenate([blocks * tile.shape[1] + k for blocks, k, _, _ in rows]))
    for blocks, share, _, piece in rows:
        starts, lengths = piece.layout.extent
        begin = piece.offset - out.offset + (corner_out[blocks] - corner_out[blocks[0]])[:, None]
        graph.map_pieces(
            out.flatten(),
            (begin + starts).reshape(-1),
            np.tile(lengths, len(blocks)),
            np.repeat(tile[blocks, share], len(starts)),
        )
    edges = {
        "x": _shifted([(blocks, x) for blocks, _, x, _ in rows], corner_in, order),
        "out": _shifted([(blocks, piece) for blocks, _, _, piece in rows], corner_out, order),
    }
    number_of_tile = np.concatenate([tile[blocks, share] for blocks, share, _, _ in rows])
    graph.add_columns(into, codelet, number_of_tile[order], edges, {})


def _strides(tensor: Tensor) -> tuple[int, ...]:
    strides = tensor.layout.strides
    assert strides is not None, "a variable"
    return strides


def _shifted(rows: list[tuple[Array, Tensor]], corner: Array, order: Array) -> Column:
    """Return the column of tensors that each block has, from those of the first block.

    `corner` is the offset of each block; `order` is that of the vertices.
    """
    column = Column.of([tensor for _, tensor in rows])
    offset = [
        first + corner[blocks] - corner[blocks[0]]
        for first, (blocks, _) in zip(column.offset, rows, strict=True)
    ]
    form = np.repeat(column.form, [len(blocks) for blocks, _ in rows])
    return Column(np.concatenate(offset)[order], form[order], column.forms)


def _bounds(parts: list[Part]) -> tuple[Array, Array]:
    """Return (begin, size) of each part; an empty part begins at 0."""
    begin, end = np.array(parts, np.int64).reshape(-1, 2).T
    return np.where(end > begin, begin, 0), end - begin


def _blocks(
    tensor: Tensor, group: Array, down: tuple[list[Part], Array], across: tuple[list[Part], Array]
) -> Column:
    """Return, for each vertex, its block of a tensor [groups, rows, columns].

    `down` and `across` are the parts of the rows and columns, and the vertices' indices into them.
    """
    (rows, r), (columns, c) = down, across
    (r_begin, r_size), (c_begin, c_size) = _bounds(rows), _bounds(columns)
    strides = tensor.layout.strides
    # blocks of equal shape have one form if the elements have regular strides
    key = (group * len(rows) + r) * len(columns) + c
    if strides is not None:
        key = r_size[r] * (tensor.shape[2] + 1) + c_size[c]
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    column = Column.of(
        tensor[int(group[v]), slice(*rows[r[v]]), slice(*columns[c[v]])] for v in first.tolist()
    )
    inverse = inverse.reshape(-1)
    offset = column.offset[inverse]
    if strides is not None:
        place = group * strides[0] + r_begin[r] * strides[1] + c_begin[c] * strides[2]
        offset = offset + place - place[first][inverse]
    return Column(offset, column.form[inverse], column.forms)


def _map_blocks(
    graph: Graph,
    tensor: Tensor,
    group: Array,
    down: tuple[list[Part], Array],
    across: tuple[list[Part], Array],
    tile: Array,
) -> None:
    """Map the block of each vertex, of a variable [groups, rows, columns], to the vertex's tile."""
    (rows, r), (columns, c) = down, across
    (r_begin, r_size), (c_begin, c_size) = _bounds(rows), _bounds(columns)
    _, height, width = tensor.shape
    if len(columns) == 1:  # contiguous rows
        begin = (group * height + r_begin[r]) * width
        count = r_size[r] * c_size[c]
    else:
        vertex, row = expand(r_begin[r], r_size[r])
        begin = (group[vertex] * height + row) * width + c_begin[c[vertex]]
        count = c_size[c[vertex]]
        tile = tile[vertex]
    graph.map_pieces(tensor.flatten(), begin, count, tile)
