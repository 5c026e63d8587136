"""Modelled cycles of the library's vertices: one function for each vertex that PopLibs estimates,
named after it.

One module for each of PopLibs' libraries. Every formula is PopLibs' own estimator, restated; each
says in which file it stands. Sizes are ints or int64 arrays, as in `parts`. A function says whether
it gives tile cycles, where PopLibs runs the vertex on all six workers, or worker cycles, where it
runs on one.
"""

from ipu_teach.cost.vertices.poplin import (
    conv_partial_1x1,
    conv_partial_1x1_quarter,
    conv_partial_horizontal_mac,
    transpose,
)
from ipu_teach.cost.vertices.popnn import (
    calc_accuracy,
    loss_cross_entropy,
    loss_sum_squared,
    max_class,
    non_linearity_1d,
    non_linearity_grad_1d,
    pooling,
    softmax,
)
from ipu_teach.cost.vertices.popops import (
    binary_op_1d,
    binary_op_2d,
    broadcast_scalar_1d,
    cast_1d,
    fill,
    fill_2d,
    scaled_add,
    select,
    unary_op_1d,
    unary_op_2d,
)
from ipu_teach.cost.vertices.poprand import (
    bernoulli,
    dropout,
    normal,
    set_seed,
    truncated_normal,
    uniform,
)
from ipu_teach.cost.vertices.reduce import (
    conv_reduce,
    reduce_contiguous,
    reduce_regions,
    reduce_strided,
    reduce_to_scalar,
)
from ipu_teach.cost.vertices.slices import (
    circ_buf_incr_index,
    circ_offset,
    clamp,
    clamp_loop,
    dynamic_slice_1d,
    has_nan,
    heap_sort,
    iota,
    multi_slice,
    multi_update_op,
    sequence_slice,
)

__all__ = [
    "bernoulli",
    "binary_op_1d",
    "binary_op_2d",
    "broadcast_scalar_1d",
    "calc_accuracy",
    "cast_1d",
    "circ_buf_incr_index",
    "circ_offset",
    "clamp",
    "clamp_loop",
    "conv_partial_1x1",
    "conv_partial_1x1_quarter",
    "conv_partial_horizontal_mac",
    "conv_reduce",
    "dropout",
    "dynamic_slice_1d",
    "fill",
    "fill_2d",
    "has_nan",
    "heap_sort",
    "iota",
    "loss_cross_entropy",
    "loss_sum_squared",
    "max_class",
    "multi_slice",
    "multi_update_op",
    "non_linearity_1d",
    "non_linearity_grad_1d",
    "normal",
    "pooling",
    "reduce_contiguous",
    "reduce_regions",
    "reduce_strided",
    "reduce_to_scalar",
    "scaled_add",
    "select",
    "sequence_slice",
    "set_seed",
    "softmax",
    "transpose",
    "truncated_normal",
    "unary_op_1d",
    "unary_op_2d",
    "uniform",
]
