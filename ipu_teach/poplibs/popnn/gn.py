"""Group norm: in each sample, some of the channels are a group."""

from __future__ import annotations

from ipu_teach.poplibs.library import variant
from ipu_teach.poplibs.popnn import norms as _n


@variant(_n._statistics, _n.GROUP, ("over",))
def group_norm_statistics() -> None:
    """Return the mean and 1 / sqrt(variance + eps) of each group of x [batch, channels, …].

    They are two tensors [batch * num_groups], of x's dtype. The variance is the mean of squares
    less the squared mean. With `stable_algo` it is the variance of x minus its mean, which takes
    longer and loses less precision. With `unbiased_var_estimate`, it is divided by the number of
    elements less one. `partials_type` is the dtype in which sums of HALF leave a tile.

    With `grouping` "strided", PopLibs' default, channel c is in group c % num_groups; with
    "correct", as in torch, a group has neighbouring channels. Give the same to all calls. Raises
    `PoplibsError`.
    """


@variant(_n._whiten, _n.GROUP)
def group_norm_whiten() -> None:
    """(x - mean) times `inv_std_dev`, each group by its own: like x. Raises `PoplibsError`."""


@variant(_n._normalise, _n.GROUP)
def group_normalise() -> None:
    """(out, whitened): x whitened, and that times gamma plus beta, of which each channel has one.

    Raises `PoplibsError`.
    """


@variant(_n._param_gradients, _n.GROUP)
def group_norm_param_gradients() -> None:
    """The gradients of gamma and beta, FLOAT [channels], of whitened x and that at the output.

    `partials_type`: as in `bn.batch_norm_param_gradients`. Raises `PoplibsError`.
    """


@variant(_n._gradients, _n.GROUP, ("over",))
def group_norm_gradients() -> None:
    """The gradient at x, of whitened x and the gradient at the output, through the statistics, too.

    `partials_type`: as in `bn.batch_norm_param_gradients`. Raises `PoplibsError`.
    """


@variant(_n._param_update, _n.GROUP)
def group_norm_param_update() -> None:
    """gamma += scale times `gamma_delta`, beta += scale times `beta_delta`, in one compute set.

    `scale`: a number, or a tensor of one element; below 0 to descend. Raises `PoplibsError`.
    """


__all__ = [name for name in dir() if "_norm" in name]
