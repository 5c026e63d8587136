"""The code that all norms share: statistics, whitening, scaling, and the gradients.

A norm divides the elements of x [batch, channels, …] into groups, each with its own mean and
standard deviation. In a batch norm (`bn`), a group is one channel of all samples. In the other
norms, a group is a part of one sample: some channels (`gn`), all channels (`ln`) or one channel
(`in_`). Whitening subtracts the mean and divides by the standard deviation.

The operations and their order are those of PopLibs (poplin/Norms.cpp), and so are the dtypes:
elementwise operations round to x's dtype, sums of HALF are accumulated in FLOAT, and the returned
statistics have x's dtype. The elementwise operations that compute one tensor are fused into one
`popops.map`. If x is HALF, the results are more precise than in PopLibs in three places:

* Without `stable_algo`, the variance is computed from a mean that is still FLOAT.
* The gradients of gamma and beta are FLOAT.
* Products of gradients may overflow in HALF even if the final result does not. All values computed
  from them are therefore FLOAT until the final rounding. With `partials_type=HALF`, they are HALF,
  as in PopLibs.

The functions `_statistics` to `_param_update` implement the public functions of every norm. Their
parameter `kind` selects the norm, such as BATCH.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import inf, prod

from ipu_teach.errors import shown
from ipu_teach.graph import Graph, Tensor, concat
from ipu_teach.poplibs.library import (
    OWN,
    Row,
    Rows,
    as_given,
    check_alike,
    check_dtype,
    check_number,
    is_count,
    refused,
)
from ipu_teach.poplibs.placing import in_memory_order
from ipu_teach.poplibs.popops import expr
from ipu_teach.poplibs.popops.casts import cast
from ipu_teach.poplibs.popops.fused import map as mapped, map_with_output
from ipu_teach.poplibs.popops.operands import check_factor, check_finite, result_like
from ipu_teach.poplibs.popops.reductions import ReduceParams, SingleReduceOp, reduce_many
from ipu_teach.poplibs.popops.scaled import scaled_add_to
from ipu_teach.poplibs.poputil import broadcast_to_match
from ipu_teach.program import Sequence as Program
from ipu_teach.types import FLOAT, HALF, DType

_1 = expr._1
_2 = expr._2
GROUPINGS = ("strided", "correct")
# The values of the parameter `kind`, which determines the norm that is computed.
BATCH = "batch"
GROUP = "group"
LAYER = "layer"
INSTANCE = "instance"
# The type of a function that gets tensors and a name, adds each tensor over all replicas, and
# returns the sums.
Together = Callable[[list[Tensor], str], list[Tensor]]
# A pair: (function that adds tensors over replicas, number of replicas).
Over = tuple[Together, int]


@dataclass(frozen=True)
class Norm:
    """The groups into which a norm divides the elements of x [batch, channels, …].

    `groups` is the number of groups in each sample. If it is 0, a group is one channel of all
    samples. If `strided` is true, channel c is in group c % `groups`; otherwise a group consists of
    neighbouring channels.
    """

    graph: Graph
    x: Tensor
    groups: int = 0
    strided: bool = True

    def _sizes(self) -> tuple[int, ...]:
        """Return the sizes of the two dimensions into which the channels of x are divided.

        They are (channels of a group, groups) if the groups are strided, and otherwise (groups,
        channels of a group).
        """
        num_groups = self.groups
        return (
            (self.x.shape[1] // num_groups, num_groups)
            if self.strided
            else (num_groups, self.x.shape[1] // num_groups)
        )

    def rows(self, x: Tensor) -> Tensor:
        """Return a view of x with a row for each group: [groups, elements of a group]."""
        if not self.groups:
            return x.dim_roll(1).flatten(1)
        grouped = x.reshape((x.shape[0], *self._sizes(), prod(x.shape[2:])))
        if self.strided:
            grouped = grouped.dim_shuffle([0, 2, 1, 3])
        return grouped.reshape((self.count, self.size))

    @property
    def count(self) -> int:
        """The number of groups in the whole batch."""
        batch, channels = self.x.shape[:2]
        return batch * self.groups if self.groups else channels

    @property
    def size(self) -> int:
        """The number of elements of a group."""
        return self.x.num_elements // max(self.count, 1)

    def of_groups(self, statistic: Tensor) -> Tensor:
        """Return `statistic`, which has one element per group, broadcast to x's shape.

        Each element of the result is the value for the group of this element of x.
        """
        if not self.groups:
            return self.of_channels(statistic)
        batch_size = self.x.shape[0]
        statistic_column = statistic.reshape(
            (batch_size, 1, self.groups) if self.strided else (batch_size, self.groups, 1)
        )
        broadcast = broadcast_to_match(statistic_column, (batch_size, *self._sizes()))
        return self._broadcast(broadcast.reshape(self.x.shape[:2]))

    def of_channels(self, vector: Tensor) -> Tensor:
        """Return `vector`, which has one element per channel, broadcast to x's shape.

        Each element of the result is the value for the channel of this element of x.
        """
        return self._broadcast(vector.reshape((1, vector.num_elements)))

    def _broadcast(self, matrix: Tensor) -> Tensor:
        expanded = matrix.reshape((*matrix.shape, *(1,) * (self.x.rank - 2)))
        return broadcast_to_match(expanded, self.x.shape)

    def narrowed(self, row: Tensor, prog: Program, name: str) -> Tensor:
        """Return the vector `row` (statistics or parameters), converted to x's dtype."""
        return narrowed(self.graph, row, self.x.dtype, prog, name=name)

    def map(
        self,
        expression: Callable[..., expr.Expr],
        tensors: list[Tensor],
        prog: Program,
        name: str,
        works_in: type[DType] | None = None,
        out: type[DType] | None = None,
    ) -> Tensor:
        """Return the value of an elementwise expression, in x's shape and mapped to x's tiles.

        `expression` is a function that gets a placeholder for each tensor in `tensors`, which have
        x's shape. `works_in` is the dtype in which each operation is computed, and `out` the dtype
        to which the result is converted; both are x's dtype by default.
        """
        memory_order = in_memory_order(self.x)
        operands = [tensor.dim_shuffle(memory_order) for tensor in tensors]
        works_in = works_in or self.x.dtype
        out = out or self.x.dtype
        placeholders: list[expr.Expr] = [
            expr.PlaceHolder(index + 1) for index in range(len(operands))
        ]
        for index, operand in enumerate(operands):
            if operand.dtype is not works_in:
                placeholders[index] = expr.Cast(placeholders[index], works_in)
        value = expression(*placeholders)
        value = value if out is works_in else expr.Cast(value, out)
        x = self.x.dim_shuffle(memory_order)
        result = result_like(self.graph, [x], x.shape, out, name=name)
        map_with_output(self.graph, value, operands, result, prog=prog, debug_context=name)
        return result.dim_shuffle([memory_order.index(d) for d in range(self.x.rank)])


def cut(kind: str, graph: Graph, x: Tensor, count: int, grouping: str) -> Norm:
    """Return the groups into which a norm divides the elements of x, as a `Norm`.

    `kind` is "batch", "group", "layer" or "instance". For "group", `count` is the number of groups
    in each sample; for other norms, it is ignored. `grouping` is "strided" or "correct", as in
    `group_norm_statistics`.

    :raises PoplibsError: if x, `count` or `grouping` is invalid.
    """
    check_dtype("x", x, FLOAT, HALF)
    if not x.num_elements:
        raise refused(
            "was given x without elements, but a norm needs a mean.",
            x,
            "give a tensor x with at least one element.",
        )
    if not isinstance(grouping, str) or grouping not in GROUPINGS:
        raise as_given(grouping, "grouping", f"give {' or '.join(map(repr, GROUPINGS))}.")
    groups = {BATCH: 0, LAYER: 1, INSTANCE: x.shape[1]}.get(kind, count)
    if kind == GROUP and (not is_count(groups, 1) or x.shape[1] % groups):
        raise refused(
            f"was given {shown(groups)} groups for {x.shape[1]} channels.",
            x,
            "give a number of groups that divides the number of channels.",
        )
    return Norm(graph, x, int(groups), grouping == "strided")


def cut_by(kind: str, graph: Graph, x: Tensor, grouping: str, **statistics: Tensor) -> Norm:
    """Return the groups into which a norm divides the elements of x, as a `Norm`.

    `kind` is "batch", "group", "layer" or "instance". Each keyword argument in `statistics` is a
    tensor with one element per group, and its keyword names the tensor in error messages. The first
    of these tensors determines the number of groups. `grouping` is "strided" or "correct", as in
    `group_norm_statistics`.

    :raises PoplibsError: if x, a statistic or `grouping` is invalid.
    """
    batch_size = max(x.shape[0], 1)
    first_statistic = next(iter(statistics.values()))
    norm = cut(
        kind, graph, x, max(first_statistic.num_elements // batch_size, 1), grouping=grouping
    )
    for name, statistic in statistics.items():
        _check_row(name, statistic, norm.count, "group")
    return norm


def _check_row(name: str, statistic: Tensor, num_needed: int, unit: str) -> None:
    check_dtype(name, statistic, FLOAT, HALF)
    if statistic.num_elements != num_needed:
        raise refused(
            f"needs {name} with {num_needed} elements, one for each {unit}, but {name} has "
            f"{statistic.num_elements}.",
            statistic,
            f"give {name} one element for each {unit}.",
        )


def _check_like(x: Tensor, dy: Tensor) -> None:
    check_alike("give dy as the gradient of the norm's output, in its shape.", "", dy=dy, x=x)
    check_dtype("dy", dy, FLOAT, HALF)


def sums(
    graph: Graph,
    jobs_of: list[tuple[Tensor, str]],
    scale: float,
    prog: Program,
    name: str,
    over_replicas: Together | None = None,
    partials: type[DType] = FLOAT,
    dtype: type[DType] = FLOAT,
) -> list[Tensor]:
    """Reduce each row of several matrices to a single element; return a tensor [rows] per matrix.

    `jobs_of` contains pairs (matrix, operation), such as (matrix, "ADD"). The results are
    multiplied by `scale`. If `over_replicas` is not None, it is a function that adds the results
    over replicas, in FLOAT. `partials` is the dtype in which partial sums are sent from tile to
    tile, and `dtype` is the dtype of the results.
    """
    jobs = [SingleReduceOp(rows, [1], ReduceParams(op, scale), FLOAT) for rows, op in jobs_of]
    options = {"accumType.interTile": partials}
    totals = reduce_many(graph, jobs, prog, name, options=options)
    totals = over_replicas(totals, name) if over_replicas else totals
    return [narrowed(graph, row, dtype, prog, name=f"{name}/Cast") for row in totals]


def narrowed(graph: Graph, row: Tensor, dtype: type[DType], prog: Program, name: str) -> Tensor:
    """Return the vector `row` (statistics or parameters), converted to `dtype`."""
    return row if row.dtype is dtype else cast(graph, row, dtype, prog, debug_context=name)


# --- the bodies of the functions of each norm -----------------------------------------------------


def _statistics(
    kind: str,
    graph: Graph,
    x: Rows,
    eps: float,
    prog: Program,
    num_groups: int = 1,
    unbiased_var_estimate: bool = False,
    stable_algo: bool = False,
    partials_type: type[DType] = FLOAT,
    debug_context: str = OWN,
    grouping: str = "strided",
    over: Over | None = None,
) -> tuple[Tensor, Tensor]:
    norm = cut(kind, graph, x, num_groups, grouping=grouping)
    name = debug_context
    over_replicas, replicas = over or (None, 1)
    num_elements = norm.size * replicas
    _check_statistics(x, eps, num_elements, unbiased_var_estimate)
    partials_dtype = _partials(partials_type, x)
    means = partial(sums, graph, scale=1 / num_elements, prog=prog, over_replicas=over_replicas)
    if stable_algo:
        reductions = [(norm.rows(x), "ADD")]
        (mean,) = means(reductions, name=f"{name}/mean", partials=partials_dtype, dtype=x.dtype)
        operands = [x, norm.of_groups(mean)]
        centred = norm.map(lambda x, group_mean: x - group_mean, operands, prog, f"{name}/centred")
        reductions = [(norm.rows(centred), "SQUARE_ADD")]
        statistics = means(reductions, name=f"{name}/variance")
        variance: expr.Expr = _1
    else:
        rows = norm.rows(x)
        reductions = [(rows, "ADD"), (rows, "SQUARE_ADD")]
        statistics = means(reductions, name=f"{name}/mean", partials=partials_dtype)
        mean = norm.narrowed(statistics[0], prog, f"{name}/mean/Cast")
        variance = expr.Max(_2 - _1 * _1, 0.0)
    if unbiased_var_estimate:
        variance = variance * (num_elements / (num_elements - 1))
    inverse: expr.Expr = expr.VarianceToInvStdDev(variance, float(eps))
    if x.dtype is not FLOAT:
        inverse = expr.Cast(inverse, x.dtype)
    return mean, mapped(graph, inverse, statistics, prog, debug_context=f"{name}/inverse")


def _check_statistics(x: Tensor, eps: float, num_elements: int, is_unbiased: bool) -> None:
    """Raise `PoplibsError` for an invalid `eps`, or too few elements for an unbiased variance."""
    if not 0 <= check_number("eps", eps, FLOAT) < inf:
        raise refused(
            f"was given {shown(eps)} as eps.", next_step="give a number of 0 or more, such as 1e-5."
        )
    if is_unbiased and num_elements < 2:
        raise refused(
            f"cannot estimate an unbiased variance from {num_elements} element, because the "
            "estimate would divide by 0.",
            x,
            "give unbiased_var_estimate=False.",
        )


def _partials(partials_type: type[DType], x: Tensor) -> type[DType]:
    """Return the dtype of partial results for x: `partials_type` if x is HALF, or else FLOAT.

    :raises PoplibsError: if `partials_type` is neither FLOAT nor HALF.
    """
    if partials_type is FLOAT or partials_type is HALF:
        return HALF if partials_type is HALF and x.dtype is HALF else FLOAT
    raise as_given(partials_type, "partials_type", "give FLOAT or HALF.")


def _whiten(
    kind: str,
    graph: Graph,
    x: Rows,
    mean: Row,
    inv_std_dev: Row,
    prog: Program,
    debug_context: str = OWN,
    grouping: str = "strided",
) -> Tensor:
    norm = cut_by(kind, graph, x, grouping, mean=mean, inv_std_dev=inv_std_dev)
    name = f"{debug_context}/whiten"
    operands = [
        x,
        *(
            norm.of_groups(norm.narrowed(statistic, prog, name))
            for statistic in (mean, inv_std_dev)
        ),
    ]
    return norm.map(lambda x, mean_value, inverse: (x - mean_value) * inverse, operands, prog, name)


def _normalise(
    kind: str,
    graph: Graph,
    x: Rows,
    gamma: Row,
    beta: Row,
    mean: Row,
    inv_std_dev: Row,
    prog: Program,
    debug_context: str = OWN,
    grouping: str = "strided",
) -> tuple[Tensor, Tensor]:
    norm = cut_by(kind, graph, x, grouping, mean=mean, inv_std_dev=inv_std_dev)
    _check_row("gamma", gamma, x.shape[1], "channel")
    _check_row("beta", beta, x.shape[1], "channel")
    whitened = _whiten(
        kind,
        graph,
        x,
        mean,
        inv_std_dev=inv_std_dev,
        prog=prog,
        debug_context=debug_context,
        grouping=grouping,
    )
    name = f"{debug_context}/scale"
    operands = [
        whitened,
        *(norm.of_channels(norm.narrowed(parameter, prog, name)) for parameter in (gamma, beta)),
    ]
    return norm.map(lambda x, scale, shift: x * scale + shift, operands, prog, name), whitened


def _param_gradients(
    kind: str,
    graph: Graph,
    whitened: Rows,
    dy: Rows,
    prog: Program,
    partials_type: type[DType] = FLOAT,
    debug_context: str = OWN,
) -> tuple[Tensor, Tensor]:
    channels = cut(BATCH, graph, whitened, 0, grouping="strided")
    _check_like(whitened, dy)
    partials_dtype = _partials(partials_type, whitened)
    name = f"{debug_context}/product"
    product = channels.map(
        lambda x, gradient: x * gradient,
        [whitened, dy],
        prog,
        name,
        works_in=partials_dtype,
        out=partials_dtype,
    )
    reductions = [(channels.rows(tensor), "ADD") for tensor in (product, dy)]
    gamma, beta = sums(graph, reductions, 1.0, prog, name=f"{debug_context}/sums")
    return gamma, beta


def _gradients(
    kind: str,
    graph: Graph,
    whitened: Rows,
    dy: Rows,
    inv_std_dev: Row,
    gamma: Row,
    prog: Program,
    partials_type: type[DType] = FLOAT,
    debug_context: str = OWN,
    grouping: str = "strided",
    over: Over | None = None,
) -> Tensor:
    norm = cut_by(kind, graph, whitened, grouping, inv_std_dev=inv_std_dev)
    partials_dtype = _partials(partials_type, whitened)
    over_replicas, replicas = over or (None, 1)
    num_elements = norm.size * replicas
    x = whitened
    name = debug_context
    _check_like(x, dy)
    _check_row("gamma", gamma, x.shape[1], "channel")
    scale = narrowed(graph, gamma, partials_dtype, prog, name=f"{name}/gamma")
    operands = [dy, norm.of_channels(scale)]
    scaled_gradient = norm.map(
        lambda gradient_value, scale_value: gradient_value * scale_value,
        operands,
        prog,
        f"{name}/slope",
        works_in=partials_dtype,
        out=partials_dtype,
    )
    product = norm.map(
        lambda gradient_element, x: gradient_element * x,
        [scaled_gradient, x],
        prog,
        f"{name}/product",
        works_in=partials_dtype,
        out=partials_dtype,
    )
    reductions = [(norm.rows(scaled_gradient), "ADD"), (norm.rows(product), "ADD")]
    means = sums(
        norm.graph,
        reductions,
        1 / num_elements,
        prog,
        name=f"{name}/means",
        over_replicas=over_replicas,
        dtype=partials_dtype,
    )
    inverse = narrowed(graph, inv_std_dev, partials_dtype, prog, name=f"{name}/inverse")
    operands = [scaled_gradient, x, *map(norm.of_groups, [*means, inverse])]
    return norm.map(_unwhitened, operands, prog, f"{name}/gradient", works_in=partials_dtype)


def _unwhitened(
    gradient: expr.Expr,
    whitened: expr.Expr,
    mean: expr.Expr,
    mean_product: expr.Expr,
    inverse: expr.Expr,
) -> expr.Expr:
    """Return an expression for the gradient of the input of a norm.

    `gradient` is the gradient of the whitened input. `mean` is the mean of `gradient` over the
    group, `mean_product` is the mean of `gradient` * `whitened` over the group, and `inverse` is 1
    / standard deviation.
    """
    return (gradient - mean - whitened * mean_product) * inverse


def _param_update(
    kind: str,
    graph: Graph,
    gamma_delta: Row,
    beta_delta: Row,
    scale: float | Tensor,
    gamma: Row,
    beta: Row,
    prog: Program,
    debug_context: str = OWN,
) -> None:
    for name, parameter in (
        ("beta", beta),
        ("gamma_delta", gamma_delta),
        ("beta_delta", beta_delta),
    ):
        _check_row(name, parameter, gamma.num_elements, "channel")
    parameters = concat([gamma, beta])
    deltas = concat([gamma_delta, beta_delta])
    check_finite("scale", check_factor(graph, "scale", scale, parameters.dtype, FLOAT))
    scaled_add_to(graph, parameters, deltas, scale, prog=prog, debug_context=debug_context)
