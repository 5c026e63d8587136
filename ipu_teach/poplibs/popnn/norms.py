"""The common parts of norms: statistics, whitening, scaling, and the gradients.

A norm divides the elements of x [batch, channels, …] into groups, each with its own mean and
standard deviation. A group consists of a channel over the whole batch (`bn`), or in one sample of
some channels (`gn`), of all channels (`ln`) or of one channel (`in_`).

The operations and their order are those of PopLibs (poplin/Norms.cpp), and so are the dtypes:
elementwise operations round to x's dtype, sums of HALF are accumulated in FLOAT, and the returned
statistics have x's dtype. Operations between two reductions are one `popops.map`. HALF keeps more
digits than in PopLibs in three places:

* Without `stable_algo`, the variance is computed from a mean that is still FLOAT.
* The gradients of gamma and beta are FLOAT.
* Products of gradients may overflow where the result does not. They and the values computed from
  them are therefore FLOAT until the result is rounded. With `partials_type=HALF` they are HALF, as
  in PopLibs.
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
# the kinds of norms
BATCH = "batch"
GROUP = "group"
LAYER = "layer"
INSTANCE = "instance"
Together = Callable[[list[Tensor], str], list[Tensor]]  # adds tensors over replicas
Over = tuple[Together, int]  # and the number of replicas


@dataclass(frozen=True)
class Norm:
    """The groups of x: `groups` groups of channels in each sample, or 0 for channels of the batch.

    With `strided`, the channels of a group are not neighbours; see `group_norm_statistics`.
    """

    graph: Graph
    x: Tensor
    groups: int = 0
    strided: bool = True

    def _sizes(self) -> tuple[int, ...]:
        """Return the two dimensions into which x's channels are divided."""
        g = self.groups
        return (self.x.shape[1] // g, g) if self.strided else (g, self.x.shape[1] // g)

    def rows(self, x: Tensor) -> Tensor:
        """Return x as [groups, elements of a group]."""
        if not self.groups:
            return x.dim_roll(1).flatten(1)
        grouped = x.reshape((x.shape[0], *self._sizes(), prod(x.shape[2:])))
        if self.strided:
            grouped = grouped.dim_shuffle([0, 2, 1, 3])
        return grouped.reshape((self.count, self.size))

    @property
    def count(self) -> int:
        """The number of groups."""
        batch, channels = self.x.shape[:2]
        return batch * self.groups if self.groups else channels

    @property
    def size(self) -> int:
        """The number of elements of a group."""
        return self.x.num_elements // max(self.count, 1)

    def of_groups(self, statistic: Tensor) -> Tensor:
        """Return a statistic of each group, broadcast to x's shape."""
        if not self.groups:
            return self.of_channels(statistic)
        batch = self.x.shape[0]
        column = statistic.reshape(
            (batch, 1, self.groups) if self.strided else (batch, self.groups, 1)
        )
        broadcast = broadcast_to_match(column, (batch, *self._sizes()))
        return self._seen(broadcast.reshape(self.x.shape[:2]))

    def of_channels(self, vector: Tensor) -> Tensor:
        """Return a number for each channel, broadcast to x's shape."""
        return self._seen(vector.reshape((1, vector.num_elements)))

    def _seen(self, matrix: Tensor) -> Tensor:
        expanded = matrix.reshape((*matrix.shape, *(1,) * (self.x.rank - 2)))
        return broadcast_to_match(expanded, self.x.shape)

    def narrowed(self, row: Tensor, prog: Program, name: str) -> Tensor:
        """Return a statistic or a parameter in x's dtype."""
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
        """Return the value of an expression of tensors of x's shape, with the tile mapping of x.

        Each operation is computed in `works_in`, and the result is converted to `out`; both are x's
        dtype by default.
        """
        order = in_memory_order(self.x)
        operands = [tensor.dim_shuffle(order) for tensor in tensors]
        works_in = works_in or self.x.dtype
        out = out or self.x.dtype
        places: list[expr.Expr] = [expr.PlaceHolder(n + 1) for n in range(len(operands))]
        for number, operand in enumerate(operands):
            if operand.dtype is not works_in:
                places[number] = expr.Cast(places[number], works_in)
        value = expression(*places)
        value = value if out is works_in else expr.Cast(value, out)
        x = self.x.dim_shuffle(order)
        result = result_like(self.graph, [x], x.shape, out, name=name)
        map_with_output(self.graph, value, operands, result, prog=prog, debug_context=name)
        return result.dim_shuffle([order.index(d) for d in range(self.x.rank)])


def cut(kind: str, graph: Graph, x: Tensor, count: int, grouping: str) -> Norm:
    """Return the groups of x for a norm of this `kind`.

    `count` is the number of groups of channels for GROUP. Raises `PoplibsError`.
    """
    check_dtype("x", x, FLOAT, HALF)
    if not x.num_elements:
        raise refused(
            "was given x without elements.", x, "give at least one element: a norm needs a mean."
        )
    if not isinstance(grouping, str) or grouping not in GROUPINGS:
        raise as_given(grouping, "grouping", f"give {' or '.join(map(repr, GROUPINGS))}.")
    groups = {BATCH: 0, LAYER: 1, INSTANCE: x.shape[1]}.get(kind, count)
    if kind == GROUP and (not is_count(groups, 1) or x.shape[1] % groups):
        raise refused(
            f"was given {shown(groups)} groups for {x.shape[1]} channels.",
            x,
            "give a number that divides the channels.",
        )
    return Norm(graph, x, int(groups), grouping == "strided")


def cut_by(kind: str, graph: Graph, x: Tensor, grouping: str, **statistics: Tensor) -> Norm:
    """Return the groups of x, so that each statistic has one element per group.

    `statistics` are tensors by argument name. Raises `PoplibsError`.
    """
    batch = max(x.shape[0], 1)
    first = next(iter(statistics.values()))
    norm = cut(kind, graph, x, max(first.num_elements // batch, 1), grouping=grouping)
    for name, statistic in statistics.items():
        _check_row(name, statistic, norm.count, "group")
    return norm


def _check_row(name: str, row: Tensor, count: int, of: str) -> None:
    check_dtype(name, row, FLOAT, HALF)
    if row.num_elements != count:
        raise refused(
            f"needs {name} with {count} elements, one for each {of}; it has {row.num_elements}.",
            row,
            f"give one for each {of}.",
        )


def _check_like(x: Tensor, dy: Tensor) -> None:
    check_alike("give the gradient at the norm's output.", "", dy=dy, x=x)
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
    """Return the rows of matrices, each reduced by its operation and multiplied by `scale`.

    `jobs_of` contains (matrix, operation). With `over_replicas`, the results are added over
    replicas, in FLOAT. `partials` is the dtype in which partial sums leave a tile, and `dtype` that
    of the results.
    """
    jobs = [SingleReduceOp(rows, [1], ReduceParams(op, scale), FLOAT) for rows, op in jobs_of]
    options = {"accumType.interTile": partials}
    totals = reduce_many(graph, jobs, prog, name, options=options)
    totals = over_replicas(totals, name) if over_replicas else totals
    return [narrowed(graph, row, dtype, prog, name=f"{name}/Cast") for row in totals]


def narrowed(graph: Graph, row: Tensor, dtype: type[DType], prog: Program, name: str) -> Tensor:
    """Return a statistic or a parameter in `dtype`."""
    return row if row.dtype is dtype else cast(graph, row, dtype, prog, debug_context=name)


# --- the functions that each norm has; `over` adds tensors over a number of replicas -------------


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
    size = norm.size * replicas
    _check_statistics(x, eps, size, unbiased_var_estimate)
    partials = _partials(partials_type, x)
    means = partial(sums, graph, scale=1 / size, prog=prog, over_replicas=over_replicas)
    if stable_algo:
        reductions = [(norm.rows(x), "ADD")]
        (mean,) = means(reductions, name=f"{name}/mean", partials=partials, dtype=x.dtype)
        operands = [x, norm.of_groups(mean)]
        centred = norm.map(lambda x, m: x - m, operands, prog, f"{name}/centred")
        reductions = [(norm.rows(centred), "SQUARE_ADD")]
        totals = means(reductions, name=f"{name}/variance")
        variance: expr.Expr = _1
    else:
        rows = norm.rows(x)
        reductions = [(rows, "ADD"), (rows, "SQUARE_ADD")]
        totals = means(reductions, name=f"{name}/mean", partials=partials)
        mean = norm.narrowed(totals[0], prog, f"{name}/mean/Cast")
        variance = expr.Max(_2 - _1 * _1, 0.0)
    if unbiased_var_estimate:
        variance = variance * (size / (size - 1))
    inverse: expr.Expr = expr.VarianceToInvStdDev(variance, float(eps))
    if x.dtype is not FLOAT:
        inverse = expr.Cast(inverse, x.dtype)
    return mean, mapped(graph, inverse, totals, prog, debug_context=f"{name}/inverse")


def _check_statistics(x: Tensor, eps: float, size: int, is_unbiased: bool) -> None:
    """Raise `PoplibsError` unless `eps` is valid, and `size` elements have the wanted variance."""
    if not 0 <= check_number("eps", eps, FLOAT) < inf:
        raise refused(
            f"was given {shown(eps)} as eps.", next_step="give a number of 0 or more, as in 1e-5."
        )
    if is_unbiased and size < 2:
        raise refused(
            f"was asked for an unbiased variance of {size} element.",
            x,
            "give unbiased_var_estimate=False: the unbiased estimate would divide by 0.",
        )


def _partials(partials_type: type[DType], x: Tensor) -> type[DType]:
    """Return the dtype of partial results for x: HALF only if x is HALF, too.

    Raises `PoplibsError`.
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
    operands = [x, *(norm.of_groups(norm.narrowed(t, prog, name)) for t in (mean, inv_std_dev))]
    return norm.map(lambda x, m, d: (x - m) * d, operands, prog, name)


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
    white = _whiten(
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
    operands = [white, *(norm.of_channels(norm.narrowed(t, prog, name)) for t in (gamma, beta))]
    return norm.map(lambda x, g, b: x * g + b, operands, prog, name), white


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
    partials = _partials(partials_type, whitened)
    name = f"{debug_context}/product"
    product = channels.map(
        lambda x, d: x * d, [whitened, dy], prog, name, works_in=partials, out=partials
    )
    reductions = [(channels.rows(t), "ADD") for t in (product, dy)]
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
    partials = _partials(partials_type, whitened)
    over_replicas, replicas = over or (None, 1)
    size = norm.size * replicas
    x = whitened
    name = debug_context
    _check_like(x, dy)
    _check_row("gamma", gamma, x.shape[1], "channel")
    scale = narrowed(graph, gamma, partials, prog, name=f"{name}/gamma")
    operands = [dy, norm.of_channels(scale)]
    slope = norm.map(
        lambda d, g: d * g, operands, prog, f"{name}/slope", works_in=partials, out=partials
    )
    product = norm.map(
        lambda s, x: s * x, [slope, x], prog, f"{name}/product", works_in=partials, out=partials
    )
    reductions = [(norm.rows(slope), "ADD"), (norm.rows(product), "ADD")]
    means = sums(
        norm.graph,
        reductions,
        1 / size,
        prog,
        name=f"{name}/means",
        over_replicas=over_replicas,
        dtype=partials,
    )
    inverse = narrowed(graph, inv_std_dev, partials, prog, name=f"{name}/inverse")
    operands = [slope, x, *map(norm.of_groups, [*means, inverse])]

    def gradient(
        slope: expr.Expr,
        x: expr.Expr,
        mean: expr.Expr,
        mean_product: expr.Expr,
        inverse: expr.Expr,
    ) -> expr.Expr:
        return (slope - mean - x * mean_product) * inverse

    return norm.map(gradient, operands, prog, f"{name}/gradient", works_in=partials)


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
    for name, row in (("beta", beta), ("gamma_delta", gamma_delta), ("beta_delta", beta_delta)):
        _check_row(name, row, gamma.num_elements, "channel")
    parameters = concat([gamma, beta])
    deltas = concat([gamma_delta, beta_delta])
    check_finite("scale", check_factor(graph, "scale", scale, parameters.dtype, FLOAT))
    scaled_add_to(graph, parameters, deltas, scale, prog=prog, debug_context=debug_context)
