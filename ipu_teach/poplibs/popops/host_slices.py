"""Functions that create tensors for copies from and to the host, and map them to tiles."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from ipu_teach.graph import Graph, Tensor
from ipu_teach.poplibs.library import calling, check_shape, library, refused
from ipu_teach.poplibs.poputil import calc_linear_tile_mapping
from ipu_teach.types import UNSIGNED_INT, DType, as_dtype

__all__ = ["IndicesAndTensor", "create_host_sliceable_tensor", "create_host_transferable_tensor"]


class IndicesAndTensor(NamedTuple):
    """The tensors for copies of rows: `indices` contains row numbers, and `tensor` the rows."""

    indices: Tensor
    tensor: Tensor


@library
def create_host_sliceable_tensor(
    graph: Graph,
    dtype: type[DType],
    shape: Sequence[int],
    is_read: bool,
    debug_context: str = "host_sliceable",
) -> IndicesAndTensor:
    """Return variables for a copy of rows of a remote buffer: the row numbers and the rows.

    `indices` [rows] is UNSIGNED_INT, and `tensor` has the shape `shape`, (rows, length). `is_read`
    is true if the device reads the rows from the host; a tile then gets whole packets of
    `Target.host_packet_bytes` bytes. Otherwise, each row is distributed as evenly as 64-bit words
    allow. All rows have the same tile mapping.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    """
    valid_shape = check_shape(shape)
    if len(valid_shape) != 2:
        raise refused(
            f"was given the shape {valid_shape}.", next_step="give a shape (rows, length of a row)."
        )
    tensor = graph.add_variable(
        as_dtype(dtype, f"{calling()}()"), valid_shape, f"{debug_context}/tensor"
    )
    for row in range(valid_shape[0]):
        _map(graph, tensor[row], is_read)
    indices = graph.add_variable(UNSIGNED_INT, (valid_shape[0],), f"{debug_context}/indices")
    graph.set_tile_mapping(indices, 0)
    return IndicesAndTensor(indices, tensor)


@library
def create_host_transferable_tensor(
    graph: Graph,
    dtype: type[DType],
    shape: Sequence[int],
    is_read: bool,
    debug_context: str = "host_transferable",
) -> Tensor:
    """Return a variable of `shape`, mapped for copies of the whole variable from or to the host.

    `is_read` is true if the device reads the variable from the host; a tile then gets whole packets
    of `Target.host_packet_bytes` bytes.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    """
    valid_shape = check_shape(shape)
    tensor = graph.add_variable(as_dtype(dtype, f"{calling()}()"), valid_shape, debug_context)
    _map(graph, tensor.reshape((prod(valid_shape),)), is_read)
    return tensor


def _map(graph: Graph, row: Tensor, is_read: bool) -> None:
    bytes_per_group = graph.target.host_packet_bytes if is_read else 8
    elements_per_group = max(1, bytes_per_group // row.dtype.size)
    graph.set_tile_mapping(
        row,
        calc_linear_tile_mapping(
            graph, row.shape, row.dtype, elements_per_group, grain_size=elements_per_group
        ),
    )
