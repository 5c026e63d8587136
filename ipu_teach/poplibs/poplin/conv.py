"""Convolutions on a graph: products by the planner of `mat_mul`.

A row of the left operand is the patch of one window of the kernel: a strided slice of the padded
input for each place of the kernel, concatenated along the channels. That is a view: patches
overlap, and nothing is copied except the data sent to each tile. The right operand is the weights,
with a column for each channel of the output:

    forward         [windows, places * channels] x [places * channels, out_channels]
    input gradient  the same with the output's gradient, its channels and flipped weights
    weight update   [places * channels, windows] x [windows, out_channels]

Groups are one grouped product. A dilated input, such as the gradient of a convolution with a
stride, is divided into classes of outputs that use the same weights. Each class is a separate
product, without the zeros in between.

The padding in a patch is zeros that are sent and multiplied: in the gradient of a kernel as wide as
its field, that is nearly all of it. Exchange code grows with the number of pieces that a tile
receives. A known deviation: PopLibs uses a vertical multiply-add (ConvPartialVerticalMac) for
depthwise convolutions, with one channel in a group. Here they are products that leave most of the
units idle, and the four published ones in the kit take 0.57 to 1.38 of their cycles.
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
Combination = tuple[Class, ...]  # a class of outputs for each dimension
_BACKWARD, _UPDATE = PASSES[3:]
_WHAT = "its params"


@advised("give what plan_convolution returns.")
@dataclass(frozen=True, repr=False)
class ConvPlan:
    """The plan of one pass of a convolution: `products`, a `MatMulPlan` for each product, in order.

    Print it.
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
        """The multiply-adds of all products, including those of the padding."""
        return sum(prod((p.product.groups, p.m, p.k, p.n)) for p in self.products)

    @property
    def utilisation(self) -> float:
        """The share of the multiply-accumulates that the units could do in the same cycles.

        The units are the matrix-multiply units; the share is from 0 to 1.
        """
        sums = self.products[0].product.partials if self.products else None
        peak_macs = macs_per_cycle(self.params.dtype, sums, self.target) * self.cycles
        return self.macs / peak_macs if peak_macs else 0.0

    def __repr__(self) -> str:
        products = "".join(f"\n  {plan!r}" for plan in self.products) or "\n  no product"
        return (
            f"ConvPlan({self.pass_}, {self.cycles:,} modelled cycles, {self.utilisation:.0%} of "
            f"the units' time):{products}"
        )


def macs_per_cycle(dtype: type[DType], partials: type[DType] | None, target: Target) -> int:
    """Return the multiply-accumulates per cycle of all tiles.

    A row takes 8 cycles with a panel of FLOAT, and 4 with one of HALF.
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
    """Return the plan of a pass of a convolution with the `params` of the forward pass.

    `pass_` is "INFERENCE_FWD", "TRAINING_FWD", "TRAINING_BWD" (the gradient of the input) or
    "TRAINING_WU" (that of the weights). The options are those of `mat_mul`, and the keywords set
    the most common ones. Raises `PoplibsError`, also for a plan that fits on no tile, and
    `InvalidOptionError`.
    """
    check_sizes(target, 0)
    if pass_ not in PASSES[1:]:
        raise as_given(pass_, "pass_", f"use {', '.join(PASSES[1:-1])} or {PASSES[-1]}.")
    wish = wish_of(options, partials_type, available_memory_proportion)
    return _plan(params, target, pass_, wish)


def _plan(
    params: ConvParams, target: Target, pass_: str, wish: Wish, cache: PlanningCache | None = None
) -> ConvPlan:
    of = params.gradient() if pass_ == _BACKWARD else params
    out = params.out_type if of is params and pass_ != _UPDATE else params.dtype
    products = []
    for combination in product(*of.classes()):
        groups, windows, depth, columns = _sizes(of, combination)
        rows = (depth, windows) if pass_ == _UPDATE else (windows, depth)
        whole_product = product_of((groups, *rows, columns), params.dtype, out, wish)
        if depth:
            plan = planned(whole_product, target, wish, cache)
            assert plan is not None, "every size is 1 or more"
            products.append(plan)
    return ConvPlan(params, pass_, tuple(products), target)


def _sizes(params: ConvParams, combination: Combination) -> tuple[int, int, int, int]:
    """Return (groups, windows, depth of a patch, columns) of the product of a class."""
    groups, outs, ins, *_ = params.weights_shape
    windows = params.batch_size * prod(residue.count for residue in combination)
    return groups, windows, ins * prod(len(residue.taps) for residue in combination), outs


def _check_given(params: ConvParams, **tensors: tuple[Tensor, tuple[int, ...]]) -> None:
    """Raise `PoplibsError` unless the tensors have these shapes, and the dtype of `params`."""
    for name, (tensor, shape) in tensors.items():
        where = f"{name} {tensor!r}"
        wanted = params.dtype.__name__
        check_same("shapes", tensor.shape, shape, where, f"give {name} the shape of {_WHAT}.")
        kind = tensor.dtype.__name__
        check_same("dtypes", kind, wanted, where, f"give {name} the dtype of {_WHAT}, or cast it.")


# --- variables ------------------------------------------------------------------------------------


@library
def create_input(
    graph: Graph, params: ConvParams, name: str | None = None, *, options: Options | None = None
) -> Tensor:
    """Return a variable [batch_size, in_channels, *input_field] for `convolution`.

    The channels of a place are contiguous in memory. The variable is mapped linearly, place by
    place. For a kernel of one place without padding, it is mapped to the tiles where the product
    needs it. `options` are those of the convolution. Raises `PoplibsError`.
    """
    wish_of(options, None, MEMORY_PROPORTION)  # refuses unknown options, also if none is used
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
    `options` are those of the convolution. Raises `PoplibsError`.
    """
    plan = plan_convolution(params, graph.target, options=options)
    groups, outs, ins, *kernel = params.weights_shape
    tensor = linear(graph, params.dtype, (groups, *kernel, ins, outs), name)
    channels_first = tensor.dim_roll(tensor.rank - 1, 1).dim_roll(tensor.rank - 1, 2)
    pairs = [
        combination
        for combination in product(*params.classes())
        if all(residue.taps for residue in combination)
    ]
    for combination, residue in zip(pairs, plan.products, strict=True):
        map_blocks(graph, residue, _right(channels_first, combination), "b")
    return channels_first


@library
def create_biases(graph: Graph, out: Tensor, name: str | None = None) -> Tensor:
    """Return a variable with a bias for each channel of `out`, the output of a convolution.

    It is mapped linearly. Raises `PoplibsError`.
    """
    return linear(graph, out.dtype, out.shape[1:2], name)


# --- views ----------------------------------------------------------------------------------------


def _patches(
    graph: Graph, x: Tensor, params: ConvParams
) -> list[tuple[Combination, Tensor | None]]:
    """Return (class, left operand [groups, windows, places * channels]) for each class of outputs.

    The operand is None if no weight contributes to the class.
    """
    classes = params.classes()
    lower = [0, 0]
    upper = [0, 0]
    x = _flipped(x, params)
    for axis, classes_of_axis in enumerate(classes, 2):
        ends = [
            (s, s + (residue.count - 1) * residue.step)
            for residue in classes_of_axis
            for _, s in residue.taps
        ]
        lower.append(max([0, *(-first for first, _ in ends)]))
        upper.append(max([0, *(last + 1 - x.shape[axis] for _, last in ends)]))
    padded = pad(graph, x, lower, upper)
    grouped = padded.reshape_partial(1, 2, (params.num_groups, x.shape[1] // params.num_groups))
    laid = grouped.dim_roll(1, 0).dim_roll(2, grouped.rank - 1)  # [groups, samples, *field, ins]
    patches: list[tuple[Combination, Tensor | None]] = []
    positions = None
    for combination in product(*classes):
        sizes = _sizes(params, combination)
        places = []
        for taps in product(*(residue.taps for residue in combination)):
            place = []
            for residue, (_, start), low in zip(combination, taps, lower[2:], strict=True):
                first = start + low
                place.append(
                    slice(first, first + (residue.count - 1) * residue.step + 1, residue.step)
                )
            places.append((slice(None), slice(None), *place))
        if not places:
            patches.append((combination, None))
        elif len(places) == 1:
            patches.append((combination, laid[places[0]].reshape(sizes[:3])))
        else:  # all views share one array of positions
            positions = laid.positions() if positions is None else positions
            both = np.stack([positions[place] for place in places], x.rank)
            patches.append((combination, graph.listed(x.dtype, both.reshape(sizes[:3]))))
    return patches


def _right(weights: Tensor, combination: Combination) -> Tensor:
    """Return the right operand [groups, places * channels, columns] of a class of outputs."""
    for axis, residue in enumerate(combination, 3):
        picked = [place for place, _ in residue.taps]
        if picked != list(range(weights.shape[axis])):
            weights = concat([weights.slice(p, p + 1, axis) for p in picked], axis)
    groups, outs, ins, *kernel = weights.shape
    rolled = weights.dim_roll(1, weights.rank - 1).dim_roll(1, weights.rank - 2)
    return rolled.reshape((groups, prod(kernel) * ins, outs))


def _interleaved(parts: list[Tensor], axis: int) -> Tensor:
    """Return the outputs of all classes along a dimension: first of each, second of each, …"""
    if len(parts) == 1:
        return parts[0]
    count = parts[-1].shape[axis]
    both = concat([part.slice(0, count, axis).expand([axis + 1]) for part in parts], axis + 1)
    over = [part.slice(count, count + 1, axis) for part in parts if part.shape[axis] > count]
    return concat([both.flatten(axis, axis + 2), *over], axis)


def _turned(weights: Tensor) -> Tensor:
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

    `weights` are [num_groups, out_channels / num_groups, in_channels / num_groups, *kernel], and
    the result is [batch_size, out_channels, *output_field]. It is torch's convolution, the
    cross-correlation, unless the kernel is flipped. For a transposed convolution, pass
    `params.gradient()` and `transpose_and_flip_weights=True`: the weights are then those of the
    other pass. Sums are computed as in `mat_mul`, by place of the kernel and then by channel; the
    options are those of `mat_mul`. `plan` is the result of `plan_convolution` for these params, and
    determines the modelled cycles. Raises `PoplibsError` and `InvalidOptionError`.
    """
    turned_weights = _turned(weights) if transpose_and_flip_weights else weights
    _check_given(params, x=(x, params.input_shape), weights=(turned_weights, params.weights_shape))
    wish = wish_of(options, partials_type, available_memory_proportion)
    if plan is None:
        plan = _plan(params, graph.target, PASSES[1], wish, cache)
    elif plan.params != params or plan.target != graph.target or plan.pass_ in PASSES[3:]:
        raise refused(f"""was given a plan of {plan.params.input_shape} with
            {plan.params.weights_shape} on {plan.target.num_tiles:,} tiles, {plan.pass_}, for
            {params.input_shape} with {params.weights_shape} on {graph.target.num_tiles:,}.
            next:  plan the pass that is to be made: poplin.plan_convolution(params,
            graph.target).""")
    return _convolved(graph, x, turned_weights, params, plan, prog, debug_context)


def _convolved(
    graph: Graph,
    x: Tensor,
    weights: Tensor,
    params: ConvParams,
    plan: ConvPlan,
    prog: Program,
    name: str,
) -> Tensor:
    """Return the output of `params`, by the products of `plan`."""
    batch, channels, *_ = params.output_shape
    by_combination: dict[Combination, Tensor] = {}
    products = iter(plan.products)
    for combination, patches in _patches(graph, x, params):
        suffix = name if len(plan.products) == 1 else f"{name}/{len(by_combination)}"
        if patches is None:  # only zeros of the dilation are multiplied
            kind = plan.params.out_type if params is plan.params else params.dtype
            shape = params.num_groups, _sizes(params, combination)[1], channels // params.num_groups
            out = linear(graph, kind or params.dtype, shape, f"{suffix}/out")
            zero(graph, out, prog, f"{suffix}/zero")
        else:
            out = _multiplied(
                graph, patches, _right(weights, combination), next(products), prog, suffix
            )
        field = [residue.count for residue in combination]
        by_combination[combination] = out.reshape((params.num_groups, batch, *field, out.shape[2]))

    def joined(chosen: Combination, rest: list[list[Class]]) -> Tensor:
        if not rest:
            return by_combination[chosen]
        parts = [joined((*chosen, residue), rest[1:]) for residue in rest[0]]
        return _interleaved(parts, 2 + len(chosen))

    full_field = joined((), params.classes())  # [groups, batch, *field, channels of a group]
    return full_field.dim_roll(full_field.rank - 1, 1).dim_roll(2, 0).flatten(1, 3)


def _multiplied(
    graph: Graph, left: Tensor, right: Tensor, plan: MatMulPlan, prog: Program, name: str
) -> Tensor:
    types = {"out_type": plan.product.out, "partials_type": plan.product.partials}
    return mat_mul_grouped(graph, left, right, prog, name, plan=plan, **types)  # type: ignore[arg-type]


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
    """Return the gradient at the input of `convolution`, from the gradient `dy` at its output.

    The result is [batch_size, in_channels, *input_field], and `dy` is [batch_size, out_channels,
    *output_field]. `params` and `weights` are those of the forward pass. It is the convolution of
    dy with `weights_transpose_chans_flip_xy` of the weights, by `params.gradient()`. The options
    are those of `mat_mul`. Raises `PoplibsError` and `InvalidOptionError`.
    """
    _check_given(params, dy=(dy, params.output_shape), weights=(weights, params.weights_shape))
    plan = plan_convolution(params, graph.target, _BACKWARD, options=options)
    back = _convolved(graph, dy, _turned(weights), params.gradient(), plan, prog, debug_context)
    return _flipped(back, params)


def _flipped(x: Tensor, params: ConvParams) -> Tensor:
    """Return x, reversed in the dimensions that `params` flips."""
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
    """Return the gradient of the weights of `convolution`, from `dy` at its output and its input x.

    The result has the shape of the weights; `dy` is [batch_size, out_channels, *output_field].
    `params` are those of the forward pass. The options are those of `mat_mul`. Raises
    `PoplibsError` and `InvalidOptionError`.
    """
    _check_given(params, dy=(dy, params.output_shape), x=(x, params.input_shape))
    plan = plan_convolution(params, graph.target, _UPDATE, options=options)
    groups, outs, ins, *kernel = params.weights_shape
    windows = dy.reshape_partial(1, 2, (groups, outs)).dim_roll(1, 0).dim_roll(2, dy.rank)
    by_place: dict[tuple[int, ...], Tensor] = {}
    products = iter(plan.products)
    for number, (combination, left) in enumerate(_patches(graph, x, params)):
        if left is None:
            continue
        sampled = windows  # [groups, batch, *field, channels of a group]
        for axis, residue in enumerate(combination, 2):
            sampled = sampled.slice(residue.first, sampled.shape[axis], axis).sub_sample(
                residue.period, axis
            )
        suffix = debug_context if len(plan.products) == 1 else f"{debug_context}/{number}"
        right = sampled.flatten(1, sampled.rank - 1)
        product_result = _multiplied(
            graph, left.dim_shuffle([0, 2, 1]), right, next(products), prog, suffix
        )
        parts = product_result.reshape((groups, product_result.shape[1] // ins, ins, outs))
        places = product(*([place for place, _ in residue.taps] for residue in combination))
        by_place |= {place: parts[:, i] for i, place in enumerate(places)}
    every = list(product(*map(range, kernel)))
    if len(by_place) < len(every):  # some weights are not used by any output
        none = linear(graph, params.dtype, (groups, ins, outs), f"{debug_context}/none")
        zero(graph, none, prog, f"{debug_context}/zero")
        by_place = dict.fromkeys(every, none) | by_place
    deltas = concat([by_place[place].expand([1]) for place in every], 1)
    deltas = deltas.reshape((groups, *kernel, ins, outs))
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
    """Add `scale` times the result of `calculate_weight_deltas` to `weights`, in place.

    For a training step, `scale` is minus the learning rate. It is a number, or one element as for
    `popops.scaled_add_to`, which adds. Raises `PoplibsError` and `InvalidOptionError`.
    """
    _check_given(params, weights=(weights, params.weights_shape))
    check_finite("scale", check_factor(graph, "scale", scale, FLOAT, HALF))
    deltas = calculate_weight_deltas(graph, dy, x, params, prog, debug_context, options=options)
    scaled_add_to(graph, weights, deltas, scale, prog, f"{debug_context}/add")


@library
def convolution_bias_update(
    graph: Graph, dy: Tensor, biases: Tensor, scale: Factor, prog: Program, debug_context: str = OWN
) -> None:
    """Add `scale` times the sum of dy over all but the channels to `biases`, in place.

    dy is [batch, out_channels, *field], and `biases` [out_channels]. `scale` is as for
    `popops.ReduceParams`. Raises `PoplibsError`.
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

    Raises `PoplibsError`.
    """
    _check_biases(out, biases)
    add_in_place(graph, out, biases.expand([1] * (out.rank - 2)), prog, debug_context)


def _check_biases(out: Tensor, biases: Tensor) -> None:
    where = f"biases {biases!r} of {out!r}"
    advice = "give a bias for each channel."
    check_same("shapes", biases.shape, out.shape[1:2], where, advice)


@library
def weights_transpose_chans_flip_xy(
    graph: Graph, weights_in: Tensor, weights_out: Tensor, prog: Program, debug_context: str = OWN
) -> None:
    """Copy `weights_in` to `weights_out`, with channels exchanged and the kernel flipped.

    They are [groups, outs, ins, *kernel] and [groups, ins, outs, *kernel]. Raises `PoplibsError`.
    """
    turned = _turned(weights_in)
    tensors = {"weights_in": weights_in, "weights_out": weights_out}
    advice = "make weights_out with its channels the other way round."
    check_alike(advice, "cast one of them.", turned.shape, **tensors)
    prog.add(Copy(turned, weights_out))


# --- how much there is to do ----------------------------------------------------------------------


@library
def get_fwd_flops(params: ConvParams) -> int:
    """Return the floating-point operations of the forward pass.

    They are two for each pair of a weight and an element of the input; the zeros of padding and
    dilation do not count. Raises `PoplibsError`.
    """
    return 2 * params.macs


@library
def get_bwd_flops(params: ConvParams) -> int:
    """Return the floating-point operations of the input gradient, for the forward `params`.

    They are as many as in the forward pass.
    """
    return 2 * params.macs


@library
def get_wu_flops(params: ConvParams) -> int:
    """Return the floating-point operations of the weight gradient, for the forward `params`.

    They are as many as in the forward pass.
    """
    return 2 * params.macs


@library
def get_fwd_perfect_cycle_count(graph: Graph, params: ConvParams) -> int:
    """Return the cycles of the forward pass at full utilisation of all multiply-add units.

    Sums are FLOAT, and nothing is exchanged. Raises `PoplibsError`.
    """
    return -(-params.macs // macs_per_cycle(params.dtype, FLOAT, graph.target))
