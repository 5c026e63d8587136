"""Group norm: the channels of a sample are divided into groups, and each group is normalised."""

from __future__ import annotations

from ipu_teach.poplibs.library import variant
from ipu_teach.poplibs.popnn import norms as _n


@variant(_n._statistics, _n.GROUP, ("over",))
def group_norm_statistics() -> None:
    """Return (mean, 1 / sqrt(variance + eps)) of each group in each sample of x.

    x is [batch, channels, …], and both results are tensors [batch * num_groups] of x's dtype. The
    other parameters are those of `bn.batch_norm_statistics`.

    `grouping` assigns channels to groups. With "strided", PopLibs' default, channel c is in group c
    % num_groups. With "correct", as in torch, a group consists of neighbouring channels. Pass the
    same `grouping` to all calls that take it.

    :raises IPUTeachError: (usually a PoplibsError) if an argument is invalid, or if x has no
        elements.
    """


@variant(_n._whiten, _n.GROUP)
def group_norm_whiten() -> None:
    """Return (x - mean) * inv_std_dev, in the shape of x [batch, channels, …].

    `mean` and `inv_std_dev` are the two results of `group_norm_statistics`, with one element per
    group of each sample. Pass the same `grouping` as to that function.

    :raises PoplibsError: if a shape or dtype does not fit.
    """


@variant(_n._normalise, _n.GROUP)
def group_normalise() -> None:
    """Return (out, whitened): out = gamma * whitened + beta, whitened = (x - mean) * inv_std_dev.

    Both results have the shape of x [batch, channels, …]. `gamma` and `beta` have one element per
    channel. `mean` and `inv_std_dev` are the two results of `group_norm_statistics`, with one
    element per group of each sample. Pass the same `grouping` as to that function.

    :raises PoplibsError: if a shape or dtype does not fit.
    """


@variant(_n._param_gradients, _n.GROUP)
def group_norm_param_gradients() -> None:
    """Return the gradients of gamma and beta, two FLOAT tensors [channels].

    `whitened` is the second result of `group_normalise`, and `dy` is the gradient of its first
    result. If `whitened` and `dy` are HALF, `partials_type` is the dtype of their products: FLOAT
    or HALF. With HALF, the products take fewer cycles than with FLOAT, but may overflow.

    :raises PoplibsError: if a shape or dtype does not fit.
    """


@variant(_n._gradients, _n.GROUP, ("over",))
def group_norm_gradients() -> None:
    """Return the gradient of the input x of the norm, in the shape of x [batch, channels, …].

    The gradient takes into account that mean and variance depend on x. `whitened` is the second
    result of `group_normalise`, and `dy` is the gradient of its first result. `inv_std_dev` is the
    second result of `group_norm_statistics`, with one element per group. `gamma` has one element
    per channel. Pass the same `grouping` as to `group_norm_statistics`. If x is HALF,
    `partials_type` is the dtype of intermediate values: FLOAT, or HALF, which takes fewer cycles
    but may overflow.

    :raises PoplibsError: if a shape or dtype does not fit.
    """


@variant(_n._param_update, _n.GROUP)
def group_norm_param_update() -> None:
    """Add `scale` * `gamma_delta` to gamma and `scale` * `beta_delta` to beta, in one compute set.

    `gamma_delta` and `beta_delta` are gradients [channels]. `scale` is a number, or a tensor of one
    element; for gradient descent it is minus the learning rate.

    :raises PoplibsError: if a shape or dtype does not fit.
    """


__all__ = [name for name in dir() if "_norm" in name]
