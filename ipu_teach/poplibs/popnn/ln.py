"""Layer norm: each sample is a group, all channels and the whole field."""

from __future__ import annotations

from ipu_teach.poplibs.library import variant
from ipu_teach.poplibs.popnn import norms as _n


@variant(_n._statistics, _n.LAYER, ("num_groups", "grouping", "over"))
def layer_norm_statistics() -> None:
    """Mean and 1 / sqrt(variance + eps) of each sample of x [batch, channels, …], FLOAT or HALF.

    Two tensors [batch], of x's dtype; see `bn.batch_norm_statistics`. Raises `PoplibsError`.
    """


@variant(_n._whiten, _n.LAYER, ("grouping",))
def layer_norm_whiten() -> None:
    """(x - mean) times `inv_std_dev`, each sample by its own: like x. Raises `PoplibsError`."""


@variant(_n._normalise, _n.LAYER, ("grouping",))
def layer_normalise() -> None:
    """(out, whitened): x whitened, and that times gamma plus beta, of which each channel has one.

    Raises `PoplibsError`.
    """


@variant(_n._param_gradients, _n.LAYER)
def layer_norm_param_gradients() -> None:
    """The gradients of gamma and beta, FLOAT [channels], of whitened x and that at the output.

    `partials_type`: as in `bn.batch_norm_param_gradients`. Raises `PoplibsError`.
    """


@variant(_n._gradients, _n.LAYER, ("grouping", "over"))
def layer_norm_gradients() -> None:
    """The gradient at x, of whitened x and the gradient at the output, through the statistics, too.

    `partials_type`: as in `bn.batch_norm_param_gradients`. Raises `PoplibsError`.
    """


@variant(_n._param_update, _n.LAYER)
def layer_norm_param_update() -> None:
    """gamma += scale times `gamma_delta`, beta += scale times `beta_delta`, in one compute set.

    `scale`: a number, or a tensor of one element; below 0 to descend. Raises `PoplibsError`.
    """


__all__ = [name for name in dir() if "_norm" in name]
