"""Convolutions, computed as matrix products with the planner of `mat_mul`.

The left operand has a row for each position of the kernel's window on the padded input. The row is
the patch of the input that the window covers. It contains, for each element of the kernel (a tap),
the channels of one input element. This operand is a view: patches overlap, and only the data that a
tile needs is copied to it. The right operand is the weights, with a column for each output channel:

    forward         [windows, taps * channels] x [taps * channels, out_channels]
    input gradient  the same product for the output's gradient, with flipped weights
    weight update   [taps * channels, windows] x [windows, out_channels]

A single grouped product computes all groups of channels. If the input is dilated, as in the
gradient of a convolution with a stride, the outputs are divided into classes that use the same
weights (`conv_params.Class`). Each class is a separate product, which leaves out the zeros between
the input elements.

Zeros of the padding are exchanged and multiplied like other elements. If the kernel is as wide as
its field, nearly all elements of the input gradient's patches are padding. Exchange code grows with
the number of separate pieces that a tile receives.

Depthwise convolutions have one channel in a group. PopLibs computes them with a vertical
multiply-add (ConvPartialVerticalMac). Here they are products that use few of the matrix-multiply
units. For four depthwise convolutions, cycles have been published; the kit's cycles are 0.58 to
1.41 times as many.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from ipu_teach.cost.vertices.poplin import conv_units, panel_depth
from ipu_teach.graph import Graph, Tensor, concat
from ipu_teach.poplibs.laying import linear
from ipu_teach.poplibs.library import (
    OWN,
    advised,
    as_given,
    check_alike,
    check_same,
    check_sizes,
    library,
    refused,
)
from ipu_teach.poplibs.options import Options
from ipu_teach.poplibs.poplin.conv_params import Class, ConvParams
from ipu_teach.poplibs.poplin.matmul import mat_mul_grouped
from ipu_teach.poplibs.poplin.operands import map_blocks
from ipu_teach.poplibs.poplin.plan import MatMulPlan, PlanningCache, planned, product_of
from ipu_teach.poplibs.poplin.wishes import MEMORY_PROPORTION, PASSES, Wish, wish_of
from ipu_teach.poplibs.popops import add_in_place, pad, reduce_with_output, scaled_add_to, zero
from ipu_teach.poplibs.popops.operands import check_factor, check_finite
from ipu_teach.poplibs.popops.reductions import ReduceParams
from ipu_teach.program import Copy, Sequence as Program
from ipu_teach.target import Target
from ipu_teach.types import FLOAT, HALF, DType

__all__ = [
    "ConvPlan",
    "add_bias",
    "calculate_weight_deltas",
    "convolution",
    "convolution_bias_update",
    "convolution_input_gradient",
    "convolution_weight_update",
    "create_biases",
    "create_input",
    "create_weights",
    "get_bwd_flops",
    "get_fwd_flops",
    "get_fwd_perfect_cycle_count",
    "get_wu_flops",
    "plan_convolution",
    "weights_transpose_chans_flip_xy",
]

Factor = Tensor | float
# A set of outputs that use the same weights, with one `Class` for each dimension of the field.
Combination = tuple[Class, ...]
_BACKWARD, _UPDATE = PASSES[3:]


@advised("give what plan_convolution returns.")
@dataclass(frozen=True, repr=False)
class ConvPlan:
    """The plan of one pass of a convolution. Print it to see its partition and cycles.

    `params` describes the forward convolution. `pass_` is the name of the pass, as in
    `plan_convolution`. The outputs are divided into classes that use the same weights, and each
    class is a matrix product. `products` contains the `MatMulPlan` of each class; a class that uses
    no weights has no plan.
    """

    params: ConvParams
    pass_: str
    products: tuple[MatMulPlan, ...]
    target: Target

    @property
    def cycles(self) -> int:
        """The modelled cycles of all products."""
        return sum(plan.cycles for plan in self.products)

    @property
    def macs(self) -> int:
        """The number of multiply-accumulates of all products, including those with padding."""
        return sum(prod((plan.product.groups, plan.m, plan.k, plan.n)) for plan in self.products)

    @property
    def utilisation(self) -> float:
        """The multiply-accumulates of the products, as a fraction (0 to 1) of the peak.

        The peak is the number of multiply-accumulates that the matrix-multiply units of all tiles
        could perform in the modelled cycles of the plan.
        """
        partials_dtype = self.products[0].product.partials if self.products else None
        peak_macs = macs_per_cycle(self.params.dtype, partials_dtype, self.target) * self.cycles
        return self.macs / peak_macs if peak_macs else 0.0

    def __repr__(self) -> str:
        products = "".join(f"\n  {plan!r}" for plan in self.products) or "\n  no product"
        return (
            f"ConvPlan({self.pass_}, {self.cycles:,} modelled cycles, {self.utilisation:.0%} of "
            f"the units' time):{products}"
        )


def macs_per_cycle(dtype: type[DType], partials: type[DType] | None, target: Target) -> int:
    """Return the number of multiply-accumulates that all tiles together can do in a cycle.

    A matrix-multiply unit multiplies a row by a panel of weights in 8 cycles for FLOAT, and in 4
    cycles for other dtypes.
    """
    panel = conv_units(dtype, partials, target) * panel_depth(dtype, target)
    return target.num_tiles * panel // (8 if dtype is FLOAT else 4)


@library
def plan_convolution(
    params: ConvParams,
    target: Target,
    pass_: str = "TRAINING_FWD",
    *,
    partials_type: type[DType] | str | None = None,
    available_memory_proportion: float | str = MEMORY_PROPORTION,
    options: Options | None = None,
) -> ConvPlan:
    """Return the plan for one pass of a convolution.

    `pass_` is "INFERENCE_FWD", "TRAINING_FWD", "TRAINING_BWD" (the gradient of the input) or
    "TRAINING_WU" (the gradient of the weights). In every pass, `params` describes the forward
    convolution. `options` are the options of `mat_mul`; the keywords `partials_type` and
    `available_memory_proportion` set two of these options.

    :raises IPUTeachError: (usually a PoplibsError) if an argument is invalid, or if no plan fits
        on a tile.
    :raises InvalidOptionError: if an option is invalid.
    """
    check_sizes(target, 0)
    if pass_ not in PASSES[1:]:
        raise as_given(pass_, "pass_", f"use {', '.join(PASSES[1:-1])} or {PASSES[-1]}.")
    wish = wish_of(options, partials_type, available_memory_proportion)
    return _plan(params, target, pass_, wish)


def _plan(
    params: ConvParams, target: Target, pass_: str, wish: Wish, cache: PlanningCache | None = None
) -> ConvPlan:
    pass_params = params.gradient() if pass_ == _BACKWARD else params
    out_dtype = params.out_type if pass_params is params and pass_ != _UPDATE else params.dtype
    products = []
    for combination in product(*pass_params.classes()):
        groups, windows, depth, columns = _sizes(pass_params, combination)
        sides = (depth, windows) if pass_ == _UPDATE else (windows, depth)
        whole_product = product_of((groups, *sides, columns), params.dtype, out_dtype, wish)
        if depth:
            plan = planned(whole_product, target, wish, cache)
            assert plan is not None, "every size is 1 or more"
            products.append(plan)
    return ConvPlan(params, pass_, tuple(products), target)


def _sizes(params: ConvParams, combination: Combination) -> tuple[int, int, int, int]:
    """Return `(groups, windows, patch_size, columns)`: the sizes of the matrix product of a class.

    The class `combination` is a set of outputs that use the same weights. `windows` is the number
    of these outputs per channel, `patch_size` the number of input elements from which an output is
    computed, and `columns` the number of output channels in a group.
    """
    groups, out_channels, in_channels, *_ = params.weights_shape
    num_windows = params.batch_size * prod(residue.count for residue in combination)
    return (
        groups,
        num_windows,
        in_channels * prod(len(residue.taps) for residue in combination),
        out_channels,
    )


def _check_given(params: ConvParams, **tensors: tuple[Tensor, tuple[int, ...]]) -> None:
    """Raise `PoplibsError` unless each tensor has its expected shape, and the dtype of `params`.

    `tensors` maps the name of an argument to a pair (tensor, expected shape).
    """
    for name, (tensor, shape) in tensors.items():
        context = f"{name} {tensor!r}"
        params_dtype = params.dtype.__name__
        check_same("shapes", tensor.shape, shape, context, f"give {name} the shape in the params.")
        tensor_dtype = tensor.dtype.__name__
        check_same(
            "dtypes",
            tensor_dtype,
            params_dtype,
            context,
            f"give {name} the dtype in the params, or cast it.",
        )


# --- variables ------------------------------------------------------------------------------------


@library
def create_input(
    graph: Graph, params: ConvParams, name: str | None = None, *, options: Options | None = None
) -> Tensor:
    """Return a variable [batch_size, in_channels, *input_field] for the input of `convolution`.

    The channels of a field position are contiguous in memory. The variable is normally mapped
    linearly, one position after the other. There is one exception: if the kernel has one element,
    and the convolution is a single product without padding, each element that the product uses is
    on a tile that multiplies it. `options` are those of the convolution.

    :raises PoplibsError: if no plan fits on a tile.
    :raises InvalidOptionError: if an option is invalid.
    """
    # This call checks the options even if no plan uses them.
    wish_of(options, None, MEMORY_PROPORTION)
    batch, channels, *field = params.input_shape
    tensor = linear(graph, params.dtype, (batch, *field, channels), name)
    channels_first = tensor.dim_roll(tensor.rank - 1, 1)
    combinations = list(product(*params.classes()))
    if len(combinations) == prod(params.weights_shape[3:]) == 1:
        plan = plan_convolution(params, graph.target, options=options)
        [(_, patches)] = _patches(graph, channels_first, params)
        if patches is not None and not patches.contains_constant():
            map_blocks(graph, plan.products[0], patches, "a")
    return channels_first


@library
def create_weights(
    graph: Graph, params: ConvParams, name: str | None = None, *, options: Options | None = None
) -> Tensor:
    """Return a variable for the weights of `convolution`, mapped to the tiles that need them.

    Its shape is [num_groups, out_channels / num_groups, in_channels / num_groups, *kernel].
    `options` are those of the convolution.

    :raises PoplibsError: if no plan fits on a tile.
    :raises InvalidOptionError: if an option is invalid.
    """
    plan = plan_convolution(params, graph.target, options=options)
    groups, out_channels, in_channels, *kernel = params.weights_shape
    weights = linear(graph, params.dtype, (groups, *kernel, in_channels, out_channels), name)
    channels_first = weights.dim_roll(weights.rank - 1, 1).dim_roll(weights.rank - 1, 2)
    nonempty_classes = [
        combination
        for combination in product(*params.classes())
        if all(plan_of_product.taps for plan_of_product in combination)
    ]
    for combination, plan_of_product in zip(nonempty_classes, plan.products, strict=True):
        map_blocks(graph, plan_of_product, _right_operand(channels_first, combination), "b")
    return channels_first


@library
def create_biases(graph: Graph, out: Tensor, name: str | None = None) -> Tensor:
    """Return a variable with a bias for each channel of `out` [batch, channels, *field].

    `out` is the output of a convolution, and the variable has its dtype. It is mapped linearly.

    :raises PoplibsError: if `out` is not a tensor of the graph.
    """
    return linear(graph, out.dtype, out.shape[1:2], name)


# --- views ----------------------------------------------------------------------------------------


def _patches(
    graph: Graph, x: Tensor, params: ConvParams
) -> list[tuple[Combination, Tensor | None]]:
    """Return a pair (class, left operand) for each class of outputs.

    A class consists of the outputs that use the same weights. The left operand of its product is
    [groups, windows, taps * channels], or None if the class uses no weights.
    """
    classes = params.classes()
    lower_padding = [0, 0]
    upper_padding = [0, 0]
    x = _flip(x, params)
    for axis, classes_of_axis in enumerate(classes, 2):
        first_and_last = [
            (start_index, start_index + (residue.count - 1) * residue.step)
            for residue in classes_of_axis
            for _, start_index in residue.taps
        ]
        lower_padding.append(max([0, *(-begin for begin, _ in first_and_last)]))
        upper_padding.append(max([0, *(end + 1 - x.shape[axis] for _, end in first_and_last)]))
    padded = pad(graph, x, lower_padding, upper_padding)
    grouped = padded.reshape_partial(1, 2, (params.num_groups, x.shape[1] // params.num_groups))
    # The shape is [groups, samples, *field, input channels of a group].
    channels_last = grouped.dim_roll(1, 0).dim_roll(2, grouped.rank - 1)
    patches: list[tuple[Combination, Tensor | None]] = []
    positions = None
    for combination in product(*classes):
        product_sizes = _sizes(params, combination)
        tap_slices = []
        for taps in product(*(residue.taps for residue in combination)):
            field_slices = []
            for residue, (_, start), padding in zip(
                combination, taps, lower_padding[2:], strict=True
            ):
                begin = start + padding
                field_slices.append(
                    slice(begin, begin + (residue.count - 1) * residue.step + 1, residue.step)
                )
            tap_slices.append((slice(None), slice(None), *field_slices))
        if not tap_slices:
            patches.append((combination, None))
        elif len(tap_slices) == 1:
            patches.append((combination, channels_last[tap_slices[0]].reshape(product_sizes[:3])))
        else:
            # `positions` has an entry for each input element. All classes use the same array.
            positions = channels_last.positions() if positions is None else positions
            patch_positions = np.stack(
                [positions[field_slices] for field_slices in tap_slices], x.rank
            )
            patches.append(
                (combination, graph.listed(x.dtype, patch_positions.reshape(product_sizes[:3])))
            )
    return patches


def _right_operand(weights: Tensor, combination: Combination) -> Tensor:
    """Return [groups, taps * channels, out_channels]: the weights for a class of outputs.

    The result is the right operand of the product. It contains only the weights that the class
    `combination` uses. The input channels vary faster than the taps.
    """
    for axis, residue in enumerate(combination, 3):
        tap_indices = [tap for tap, _ in residue.taps]
        if tap_indices != list(range(weights.shape[axis])):
            weights = concat(
                [weights.slice(tap_index, tap_index + 1, axis) for tap_index in tap_indices], axis
            )
    groups, out_channels, in_channels, *kernel = weights.shape
    rolled = weights.dim_roll(1, weights.rank - 1).dim_roll(1, weights.rank - 2)
    return rolled.reshape((groups, prod(kernel) * in_channels, out_channels))


def _interleave(parts: list[Tensor], axis: int) -> Tensor:
    """Return the outputs of all classes of dimension `axis` in their order in the output's field.

    `parts` contains a tensor for each class. The result contains the first output of each class,
    then the second output of each class, and so on. Each tensor has as many outputs as the last
    tensor, or one more.
    """
    if len(parts) == 1:
        return parts[0]
    common_length = parts[-1].shape[axis]
    interleaved = concat(
        [part.slice(0, common_length, axis).expand([axis + 1]) for part in parts], axis + 1
    )
    last_outputs = [
        part.slice(common_length, common_length + 1, axis)
        for part in parts
        if part.shape[axis] > common_length
    ]
    return concat([interleaved.flatten(axis, axis + 2), *last_outputs], axis)


def _transpose_and_flip(weights: Tensor) -> Tensor:
    for axis in range(3, weights.rank):
        weights = weights.reverse(axis)
    return weights.dim_shuffle([0, 2, 1, *range(3, weights.rank)])


# --- passes ---------------------------------------------------------------------------------------


@library
def convolution(
    graph: Graph,
    x: Tensor,
    weights: Tensor,
    params: ConvParams,
    prog: Program,
    transpose_and_flip_weights: bool = False,
    debug_context: str = OWN,
    *,
    partials_type: type[DType] | str | None = None,
    available_memory_proportion: float | str = MEMORY_PROPORTION,
    options: Options | None = None,
    plan: ConvPlan | None = None,
    cache: PlanningCache | None = None,
) -> Tensor:
    """Return the convolution of x [batch_size, in_channels, *input_field] with `weights`.

    `weights` is [num_groups, out_channels / num_groups, in_channels / num_groups, *kernel], and the
    result is [batch_size, out_channels, *output_field]. As in torch, the operation is the
    cross-correlation unless `params` flips the kernel. For a transposed convolution, pass
    `params.gradient()`, the weights of the forward pass and `transpose_and_flip_weights=True`.

    Sums are computed as in `mat_mul`, in the order of the kernel's elements and then of the
    channels. The options are those of `mat_mul`. `plan` is a result of `plan_convolution` for the
    same params; by default, the call computes the plan itself.

    :raises PoplibsError: if a tensor or `plan` does not fit `params`, or if no plan fits on a tile.
    :raises InvalidOptionError: if an option is invalid, or given as an option and as a keyword.
    """
    effective_weights = _transpose_and_flip(weights) if transpose_and_flip_weights else weights
    _check_given(
        params, x=(x, params.input_shape), weights=(effective_weights, params.weights_shape)
    )
    wish = wish_of(options, partials_type, available_memory_proportion)
    if plan is None:
        plan = _plan(params, graph.target, PASSES[1], wish, cache)
    elif plan.params != params or plan.target != graph.target or plan.pass_ in PASSES[3:]:
        raise refused(f"""was given a plan for another convolution. The plan is for the pass
            {plan.pass_}, input {plan.params.input_shape} and weights {plan.params.weights_shape} on
            {plan.target.num_tiles:,} tiles. The call has input {params.input_shape} and weights
            {params.weights_shape} on {graph.target.num_tiles:,} tiles.
            next:  plan this convolution: poplin.plan_convolution(params, graph.target).""")
    return _convolve(graph, x, effective_weights, params, plan, prog, debug_context)


def _convolve(
    graph: Graph,
    x: Tensor,
    weights: Tensor,
    params: ConvParams,
    plan: ConvPlan,
    prog: Program,
    name: str,
) -> Tensor:
    """Return the output of the convolution that `params` describes; `plan` plans its products."""
    batch, channels, *_ = params.output_shape
    by_combination: dict[Combination, Tensor] = {}
    products = iter(plan.products)
    for combination, patches in _patches(graph, x, params):
        suffix = name if len(plan.products) == 1 else f"{name}/{len(by_combination)}"
        if patches is None:  # The outputs are 0, because their windows contain only zeros.
            out_dtype = plan.params.out_type if params is plan.params else params.dtype
            shape = params.num_groups, _sizes(params, combination)[1], channels // params.num_groups
            out = linear(graph, out_dtype or params.dtype, shape, f"{suffix}/out")
            zero(graph, out, prog, f"{suffix}/zero")
        else:
            out = _multiply(
                graph, patches, _right_operand(weights, combination), next(products), prog, suffix
            )
        class_field = [residue.count for residue in combination]
        by_combination[combination] = out.reshape(
            (params.num_groups, batch, *class_field, out.shape[2])
        )

    def joined(chosen_classes: Combination, other_dims: list[list[Class]]) -> Tensor:
        if not other_dims:
            return by_combination[chosen_classes]
        outputs_of_classes = [
            joined((*chosen_classes, residue), other_dims[1:]) for residue in other_dims[0]
        ]
        return _interleave(outputs_of_classes, 2 + len(chosen_classes))

    # The shape is [groups, batch, *field, channels of a group].
    full_field = joined((), params.classes())
    return full_field.dim_roll(full_field.rank - 1, 1).dim_roll(2, 0).flatten(1, 3)


def _multiply(
    graph: Graph, left: Tensor, right: Tensor, plan: MatMulPlan, prog: Program, name: str
) -> Tensor:
    dtypes = {"out_type": plan.product.out, "partials_type": plan.product.partials}
    return mat_mul_grouped(graph, left, right, prog, name, plan=plan, **dtypes)  # type: ignore[arg-type]


@library
def convolution_input_gradient(
    graph: Graph,
    dy: Tensor,
    weights: Tensor,
    params: ConvParams,
    prog: Program,
    debug_context: str = OWN,
    *,
    options: Options | None = None,
) -> Tensor:
    """Return the gradient of the input of `convolution`: [batch_size, in_channels, *input_field].

    `dy` [batch_size, out_channels, *output_field] is the gradient of the output. `params` and
    `weights` are those of the forward pass. The result is the convolution of `dy` with the
    parameters `params.gradient()` and with the weights that `weights_transpose_chans_flip_xy`
    returns; it is then reversed in dimensions with `flip_input`. The options are those of
    `mat_mul`.

    :raises PoplibsError: if a tensor does not fit `params`, or if no plan fits on a tile.
    :raises InvalidOptionError: if an option is invalid.
    """
    _check_given(params, dy=(dy, params.output_shape), weights=(weights, params.weights_shape))
    plan = plan_convolution(params, graph.target, _BACKWARD, options=options)
    input_gradient = _convolve(
        graph, dy, _transpose_and_flip(weights), params.gradient(), plan, prog, debug_context
    )
    return _flip(input_gradient, params)


def _flip(x: Tensor, params: ConvParams) -> Tensor:
    """Return a view of x [batch, channels, *field], reversed in dimensions with `flip_input`."""
    for axis, flip in enumerate(params.flip_input, 2):  # type: ignore[arg-type]
        x = x.reverse(axis) if flip else x
    return x


@library
def calculate_weight_deltas(
    graph: Graph,
    dy: Tensor,
    x: Tensor,
    params: ConvParams,
    prog: Program,
    debug_context: str = OWN,
    *,
    options: Options | None = None,
) -> Tensor:
    """Return the gradient of the weights of `convolution`, in the shape of the weights.

    `dy` [batch_size, out_channels, *output_field] is the gradient of the output. x [batch_size,
    in_channels, *input_field] is the input. `params` are those of the forward pass. The options are
    those of `mat_mul`.

    :raises PoplibsError: if a tensor does not fit `params`, or if no plan fits on a tile.
    :raises InvalidOptionError: if an option is invalid.
    """
    _check_given(params, dy=(dy, params.output_shape), x=(x, params.input_shape))
    plan = plan_convolution(params, graph.target, _UPDATE, options=options)
    groups, out_channels, in_channels, *kernel = params.weights_shape
    gradient_rows = (
        dy.reshape_partial(1, 2, (groups, out_channels)).dim_roll(1, 0).dim_roll(2, dy.rank)
    )
    deltas_by_tap: dict[tuple[int, ...], Tensor] = {}
    products = iter(plan.products)
    for product_number, (combination, left) in enumerate(_patches(graph, x, params)):
        if left is None:
            continue
        # The shape is [groups, batch, *field, channels of a group].
        class_gradient = gradient_rows
        for axis, residue in enumerate(combination, 2):
            class_gradient = class_gradient.slice(
                residue.first, class_gradient.shape[axis], axis
            ).sub_sample(residue.period, axis)
        suffix = debug_context if len(plan.products) == 1 else f"{debug_context}/{product_number}"
        right = class_gradient.flatten(1, class_gradient.rank - 1)
        product_result = _multiply(
            graph, left.dim_shuffle([0, 2, 1]), right, next(products), prog, suffix
        )
        class_deltas = product_result.reshape(
            (groups, product_result.shape[1] // in_channels, in_channels, out_channels)
        )
        taps = product(*([tap for tap, _ in residue.taps] for residue in combination))
        deltas_by_tap |= {tap: class_deltas[:, tap_number] for tap_number, tap in enumerate(taps)}
    all_taps = list(product(*map(range, kernel)))
    if len(deltas_by_tap) < len(all_taps):  # Some weights are unused, and their gradient is 0.
        zero_deltas = linear(
            graph, params.dtype, (groups, in_channels, out_channels), f"{debug_context}/none"
        )
        zero(graph, zero_deltas, prog, f"{debug_context}/zero")
        deltas_by_tap = dict.fromkeys(all_taps, zero_deltas) | deltas_by_tap
    deltas = concat([deltas_by_tap[tap].expand([1]) for tap in all_taps], 1)
    deltas = deltas.reshape((groups, *kernel, in_channels, out_channels))
    return deltas.dim_roll(deltas.rank - 1, 1).dim_roll(deltas.rank - 1, 2)


@library
def convolution_weight_update(
    graph: Graph,
    dy: Tensor,
    weights: Tensor,
    x: Tensor,
    params: ConvParams,
    scale: Factor,
    prog: Program,
    debug_context: str = OWN,
    *,
    options: Options | None = None,
) -> None:
    """Add `scale` times the gradient of the weights to `weights`, in place.

    `calculate_weight_deltas` computes the gradient from `dy`, x and `params`. For a training step,
    `scale` is minus the learning rate. It is a number, or a tensor of one element of the dtype of
    the weights; if they are HALF, it may also be FLOAT. `popops.scaled_add_to` adds the product.

    :raises PoplibsError: if a tensor or `scale` does not fit, or if no plan fits on a tile.
    :raises TensorCreationError: if a number is out of range of its dtype.
    :raises InvalidOptionError: if an option is invalid.
    """
    _check_given(params, weights=(weights, params.weights_shape))
    check_finite("scale", check_factor(graph, "scale", scale, FLOAT, HALF))
    deltas = calculate_weight_deltas(graph, dy, x, params, prog, debug_context, options=options)
    scaled_add_to(graph, weights, deltas, scale, prog, f"{debug_context}/add")


@library
def convolution_bias_update(
    graph: Graph, dy: Tensor, biases: Tensor, scale: Factor, prog: Program, debug_context: str = OWN
) -> None:
    """Add `scale` times the gradient of the biases to `biases` [out_channels], in place.

    The gradient is the sum of `dy` [batch, out_channels, *field] over all dimensions except the
    channels. `scale` is a number, or a FLOAT tensor of one element.

    :raises PoplibsError: if `biases` or `scale` does not fit `dy`.
    :raises TensorCreationError: if a number is out of range of its dtype.
    """
    _check_biases(dy, biases)
    check_finite("scale", check_factor(graph, "scale", scale, FLOAT))
    dims = [0, *range(2, dy.rank)]
    reduce_with_output(
        graph, dy, biases, dims, prog, ReduceParams("ADD", scale, update=True), debug_context
    )


@library
def add_bias(
    graph: Graph, out: Tensor, biases: Tensor, prog: Program, debug_context: str = OWN
) -> None:
    """Add `biases` [out_channels] to `out` [batch, out_channels, *field], in place.

    :raises PoplibsError: if there is not one bias for each channel, or if the dtypes differ.
    """
    _check_biases(out, biases)
    add_in_place(graph, out, biases.expand([1] * (out.rank - 2)), prog, debug_context)


def _check_biases(out: Tensor, biases: Tensor) -> None:
    context = f"biases {biases!r} of {out!r}"
    advice = "give a bias for each channel."
    check_same("shapes", biases.shape, out.shape[1:2], context, advice)


@library
def weights_transpose_chans_flip_xy(
    graph: Graph, weights_in: Tensor, weights_out: Tensor, prog: Program, debug_context: str = OWN
) -> None:
    """Copy weights with the two channel dimensions exchanged and the kernel flipped.

    `weights_in` is [groups, out_channels, in_channels, *kernel], and `weights_out` is [groups,
    in_channels, out_channels, *kernel]. `out_channels` and `in_channels` count the channels of one
    group.

    :raises PoplibsError: if the shapes or dtypes do not fit.
    """
    turned = _transpose_and_flip(weights_in)
    tensors = {"weights_in": weights_in, "weights_out": weights_out}
    advice = "create weights_out with the two dimensions of channels exchanged."
    check_alike(advice, "cast one of them.", turned.shape, **tensors)
    prog.add(Copy(turned, weights_out))


# --- operation counts -----------------------------------------------------------------------------


@library
def get_fwd_flops(params: ConvParams) -> int:
    """Return the number of floating-point operations of the forward pass.

    A multiply-accumulate counts as two operations. Products with the zeros of padding and dilation
    do not count.
    """
    return 2 * params.macs


@library
def get_bwd_flops(params: ConvParams) -> int:
    """Return the number of floating-point operations of the input gradient.

    `params` are those of the forward pass, which has the same number of operations.
    """
    return 2 * params.macs


@library
def get_wu_flops(params: ConvParams) -> int:
    """Return the number of floating-point operations of the weight gradient.

    `params` are those of the forward pass, which has the same number of operations.
    """
    return 2 * params.macs


@library
def get_fwd_perfect_cycle_count(graph: Graph, params: ConvParams) -> int:
    """Return the cycles of the forward pass if all matrix-multiply units were busy all the time.

    The units multiply in the dtype of `params` and add in FLOAT. Cycles of the exchange are not
    included.
    """
    return -(-params.macs // macs_per_cycle(params.dtype, FLOAT, graph.target))
