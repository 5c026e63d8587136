"""Group norm: a group consists of some of the channels of a sample."""

from __future__ import annotations

from ipu_teach.poplibs.library import variant
from ipu_teach.poplibs.popnn import norms as _n


@variant(_n._statistics, _n.GROUP, ("over",))
def group_norm_statistics() -> None:
    """Return (mean, 1 / sqrt(variance + eps)) of each group of x [batch, channels, …].

    They are two tensors [batch * num_groups], of x's dtype. The variance is the mean of squares
    less the squared mean. With `stable_algo` it is the variance of x minus its mean, which takes
    longer and loses less precision. With `unbiased_var_estimate`, it is divided by the number of
    elements less one. `partials_type` is the dtype in which sums of HALF leave a tile.

    With `grouping` "strided", PopLibs' default, channel c is in group c % num_groups. With
    "correct", as in torch, a group has neighbouring channels. Pass the same `grouping` to all
    calls. Raises `PoplibsError`.
    """


@variant(_n._whiten, _n.GROUP)
def group_norm_whiten() -> None:
    """Return (x - mean) * inv_std_dev, with the statistics of each group; it has the shape of x.

    Raises `PoplibsError`.
    """


@variant(_n._normalise, _n.GROUP)
def group_normalise() -> None:
    """Return (out, whitened): out = gamma whitened + beta, whitened = (x - mean) * inv_std_dev.

    gamma and beta have one element per channel. Raises `PoplibsError`.
    """


@variant(_n._param_gradients, _n.GROUP)
def group_norm_param_gradients() -> None:
    """Return the gradients of (gamma, beta), FLOAT [channels], from `whitened` and `dy`.

    `dy` is the gradient at the output. `partials_type` is as for `bn.batch_norm_param_gradients`.
    Raises `PoplibsError`.
    """


@variant(_n._gradients, _n.GROUP, ("over",))
def group_norm_gradients() -> None:
    """Return the gradient at x, from `whitened` and `dy`, also through the statistics.

    `dy` is the gradient at the output. `partials_type` is as for `bn.batch_norm_param_gradients`.
    Raises `PoplibsError`.
    """


@variant(_n._param_update, _n.GROUP)
def group_norm_param_update() -> None:
    """Add `scale` times `gamma_delta` to gamma, and likewise for beta, in one compute set.

    `scale` is a number, or a tensor of one element; it is negative for gradient descent. Raises
    `PoplibsError`.
    """


__all__ = [name for name in dir() if "_norm" in name]
