"""Group norm: some channels of a sample are normalised together."""

from __future__ import annotations

from ipu_teach.poplibs.library import variant
from ipu_teach.poplibs.popnn import norms as _n


@variant(_n._statistics, _n.GROUP, ("over",))
def group_norm_statistics() -> None:
    """Return (mean, 1 / sqrt(variance + eps)) of each group of x [batch, channels, …].

    They are two tensors [batch * num_groups], of x's dtype. The other parameters are those of
    `bn.batch_norm_statistics`.

    With the `grouping` "strided", PopLibs' default, channel c is in group c % num_groups. With
    "correct", as in torch, a group consists of neighbouring channels. Pass the same `grouping` to
    all calls that take it. Raises `PoplibsError`.
    """


@variant(_n._whiten, _n.GROUP)
def group_norm_whiten() -> None:
    """Return (x - mean) * inv_std_dev, in the shape of x.

    The statistics `mean` and `inv_std_dev` have an element per group. `grouping` is as for
    `group_norm_statistics`. Raises `PoplibsError`.
    """


@variant(_n._normalise, _n.GROUP)
def group_normalise() -> None:
    """Return (out, whitened): out = gamma whitened + beta, whitened = (x - mean) * inv_std_dev.

    gamma and beta have one element per channel. Raises `PoplibsError`.
    """


@variant(_n._param_gradients, _n.GROUP)
def group_norm_param_gradients() -> None:
    """Return the gradients of gamma and beta, two FLOAT tensors [channels].

    `whitened` is the second result of `group_normalise`, and `dy` the gradient of the first.
    `partials_type` is as for `bn.batch_norm_param_gradients`. Raises `PoplibsError`.
    """


@variant(_n._gradients, _n.GROUP, ("over",))
def group_norm_gradients() -> None:
    """Return the gradient of x, which takes into account that the statistics depend on x.

    `whitened` is the second result of `group_normalise`, and `dy` the gradient of the first.
    `partials_type` is as for `bn.batch_norm_param_gradients`. Raises `PoplibsError`.
    """


@variant(_n._param_update, _n.GROUP)
def group_norm_param_update() -> None:
    """Add `scale` * `gamma_delta` to gamma and `scale` * `beta_delta` to beta, in one compute set.

    `scale` is a number, or a tensor of one element; it is negative for gradient descent. Raises
    `PoplibsError`.
    """


__all__ = [name for name in dir() if "_norm" in name]
