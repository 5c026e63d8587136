"""Batch norm: each channel is normalised over all samples of the batch and all field positions."""

from __future__ import annotations

from collections.abc import Callable

from ipu_teach.errors import shown
from ipu_teach.graph import Graph, Tensor
from ipu_teach.poplibs.gcl.collectives import all_reduce_cross_replica
from ipu_teach.poplibs.gcl.groups import CommGroup, CommGroupType
from ipu_teach.poplibs.library import (
    OWN,
    Row,
    Rows,
    as_given,
    is_count,
    library,
    refused,
    variant,
)
from ipu_teach.poplibs.popnn import norms as _n
from ipu_teach.program import Sequence as Program
from ipu_teach.types import FLOAT, DType

ReduceCallback = Callable[[Graph, list[Tensor], Program, int, str], list[Tensor]]


@variant(_n._statistics, _n.BATCH, ("num_groups", "grouping", "over"))
def batch_norm_statistics() -> None:
    """Return (mean, 1 / sqrt(variance + eps)) of each channel of x [batch, channels, …].

    Both results are tensors [channels] of x's dtype. By default, the variance is the mean of the
    squares minus the square of the mean. With `stable_algo`, the mean is subtracted from x first,
    which takes longer but loses less precision. With `unbiased_var_estimate`, the sum of squared
    differences is divided by the number of elements minus 1. `partials_type` is the dtype in which
    partial sums are sent from tile to tile if x is HALF.

    :raises IPUTeachError: (usually a PoplibsError) if an argument is invalid, or if x has no
        elements.
    """


@variant(_n._whiten, _n.BATCH, ("grouping",))
def batch_norm_whiten() -> None:
    """Return (x - mean) * inv_std_dev, in the shape of x [batch, channels, …].

    `mean` and `inv_std_dev` are the two results of `batch_norm_statistics`, with one element per
    channel.

    :raises PoplibsError: if a shape or dtype does not fit.
    """


@variant(_n._normalise, _n.BATCH, ("grouping",))
def batch_normalise() -> None:
    """Return (out, whitened): out = gamma * whitened + beta, whitened = (x - mean) * inv_std_dev.

    Both results have the shape of x [batch, channels, …]. `gamma` and `beta` have one element per
    channel. `mean` and `inv_std_dev` are the two results of `batch_norm_statistics`, with one
    element per channel.

    :raises PoplibsError: if a shape or dtype does not fit.
    """


@variant(_n._param_gradients, _n.BATCH)
def batch_norm_param_gradients() -> None:
    """Return the gradients of gamma and beta, two FLOAT tensors [channels].

    `whitened` is the second result of `batch_normalise`, and `dy` is the gradient of its first
    result. If `whitened` and `dy` are HALF, `partials_type` is the dtype of their products: FLOAT,
    or HALF, which takes fewer cycles but may overflow.

    :raises PoplibsError: if a shape or dtype does not fit.
    """


@variant(_n._gradients, _n.BATCH, ("grouping", "over"))
def batch_norm_gradients() -> None:
    """Return the gradient of the input x of the norm, in the shape of x [batch, channels, …].

    The gradient takes into account that mean and variance depend on x. `whitened` is the second
    result of `batch_normalise`, and `dy` is the gradient of its first result. `inv_std_dev` is the
    second result of `batch_norm_statistics`, with one element per channel. `gamma` has one element
    per channel. If x is HALF, `partials_type` is the dtype of intermediate values: FLOAT, or HALF,
    which takes fewer cycles but may overflow.

    :raises PoplibsError: if a shape or dtype does not fit.
    """


@variant(_n._param_update, _n.BATCH)
def batch_norm_param_update() -> None:
    """Add `scale` * `gamma_delta` to gamma and `scale` * `beta_delta` to beta, in one compute set.

    `gamma_delta` and `beta_delta` are gradients [channels]. `scale` is a number, or a tensor of one
    element; for gradient descent it is minus the learning rate.

    :raises PoplibsError: if a shape or dtype does not fit.
    """


@library
def distributed_batch_norm_statistics(
    graph: Graph,
    x: Rows,
    eps: float,
    prog: Program,
    unbiased_var_estimate: bool = False,
    reduce_callback: ReduceCallback | None = None,
    norm_batch_size: int | None = None,
    stable_algo: bool = False,
    partials_type: type[DType] = FLOAT,
    debug_context: str = OWN,
) -> tuple[Tensor, Tensor]:
    """Return (mean, 1 / sqrt(variance + eps)) of each channel, over samples of several replicas.

    Both results are tensors [channels] of x's dtype. x [batch, channels, …] contains the samples of
    one replica. `norm_batch_size` is the number of samples in the shared batch, by default the
    samples of all replicas. `reduce_callback(graph, tensors, prog, replicas, name)` adds each
    tensor over `replicas` replicas, and returns a list of the sums. Without it, gcl adds over
    consecutive replicas. The other parameters are those of `batch_norm_statistics`.

    :raises IPUTeachError: (usually a PoplibsError) if an argument is invalid, or if x has no
        elements.
    """
    over = _over(graph, x, prog, reduce_callback, samples=norm_batch_size)
    return _n._statistics(
        _n.BATCH,
        graph,
        x,
        eps,
        prog=prog,
        unbiased_var_estimate=unbiased_var_estimate,
        stable_algo=stable_algo,
        partials_type=partials_type,
        debug_context=debug_context,
        over=over,
    )


@library
def distributed_batch_norm_gradients(
    graph: Graph,
    whitened: Rows,
    dy: Rows,
    inv_std_dev: Row,
    gamma: Row,
    prog: Program,
    reduce_callback: ReduceCallback | None = None,
    norm_batch_size: int | None = None,
    partials_type: type[DType] = FLOAT,
    debug_context: str = OWN,
) -> Tensor:
    """Return the gradient of the input x of a batch norm whose batch several replicas share.

    `inv_std_dev` is the second result of `distributed_batch_norm_statistics`. `reduce_callback` and
    `norm_batch_size` must be equal to those that you passed to that function. The other parameters
    are those of `batch_norm_gradients`.

    :raises IPUTeachError: if an argument is invalid; usually it is a PoplibsError.
    """
    over = _over(graph, whitened, prog, reduce_callback, samples=norm_batch_size)
    return _n._gradients(
        _n.BATCH,
        graph,
        whitened,
        dy,
        inv_std_dev=inv_std_dev,
        gamma=gamma,
        prog=prog,
        partials_type=partials_type,
        debug_context=debug_context,
        over=over,
    )


def _over(
    graph: Graph, x: Tensor, prog: Program, callback: ReduceCallback | None, samples: int | None
) -> _n.Over:
    """Return `(together, replicas)` for a norm over several replicas.

    `together(tensors, name)` adds tensors over `replicas` replicas and returns a list of the sums.
    `samples` is the number of samples that these replicas have together, or None for all replicas.

    :raises PoplibsError: if `samples` or `callback` is invalid.
    """
    samples_per_replica = max(x.shape[0], 1)
    replica_count = graph.get_replication_factor()
    total_samples = samples_per_replica * replica_count if samples is None else samples
    if (
        not is_count(total_samples, 1)
        or total_samples % samples_per_replica
        or (callback is None and replica_count % (total_samples // samples_per_replica))
    ):
        raise refused(
            f"was given {shown(total_samples)} as norm_batch_size, for {samples_per_replica} "
            f"samples on each of {replica_count} replicas.",
            x,
            f"norm_batch_size must be {samples_per_replica} times a divisor of {replica_count}.",
        )
    if callback is not None and not callable(callback):
        raise as_given(callback, "reduce_callback", "give a function, or None to add with gcl.")
    replicas = int(total_samples) // samples_per_replica
    group = CommGroup(CommGroupType.CONSECUTIVE, replicas)

    def together(tensors: list[Tensor], name: str) -> list[Tensor]:
        totals: list[Tensor]
        if callback is None:
            totals = all_reduce_cross_replica(
                graph, tensors, "ADD", prog, group=group, debug_context=name
            )
        else:
            totals = callback(graph, tensors, prog, replicas, name)
        shapes = [tensor.shape for tensor in totals] if isinstance(totals, list) else None
        if shapes != [tensor.shape for tensor in tensors]:
            raise as_given(
                totals,
                "the result of reduce_callback",
                "return a list of sums, with the shapes of the tensors.",
            )
        return totals

    return together, replicas


__all__ = [name for name in dir() if "_norm" in name]
