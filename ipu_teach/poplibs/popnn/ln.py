"""Layer norm: all elements of a sample are normalised together."""

from __future__ import annotations

from ipu_teach.poplibs.library import variant
from ipu_teach.poplibs.popnn import norms as _n


@variant(_n._statistics, _n.LAYER, ("num_groups", "grouping", "over"))
def layer_norm_statistics() -> None:
    """Return (mean, 1 / sqrt(variance + eps)) of each sample of x [batch, channels, …].

    Both results are tensors [batch] of x's dtype. The parameters have the same meaning as in
    `bn.batch_norm_statistics`.

    :raises IPUTeachError: (usually a PoplibsError) if an argument is invalid, or if x has no
        elements.
    """


@variant(_n._whiten, _n.LAYER, ("grouping",))
def layer_norm_whiten() -> None:
    """Return (x - mean) * inv_std_dev, in the shape of x [batch, channels, …].

    `mean` and `inv_std_dev` are the two results of `layer_norm_statistics`, with one element per
    sample.

    :raises PoplibsError: if a shape or dtype does not fit.
    """


@variant(_n._normalise, _n.LAYER, ("grouping",))
def layer_normalise() -> None:
    """Return (out, whitened): out = gamma * whitened + beta, whitened = (x - mean) * inv_std_dev.

    Both results have the shape of x [batch, channels, …]. `gamma` and `beta` have one element per
    channel. `mean` and `inv_std_dev` are the two results of `layer_norm_statistics`, with one
    element per sample.

    :raises PoplibsError: if a shape or dtype does not fit.
    """


@variant(_n._param_gradients, _n.LAYER)
def layer_norm_param_gradients() -> None:
    """Return the gradients of gamma and beta, two FLOAT tensors [channels].

    `whitened` is the second result of `layer_normalise`, and `dy` is the gradient of its first
    result. If both are HALF, `partials_type` is the dtype of their products: FLOAT, or HALF, which
    takes fewer cycles but may overflow.

    :raises PoplibsError: if a shape or dtype does not fit.
    """


@variant(_n._gradients, _n.LAYER, ("grouping", "over"))
def layer_norm_gradients() -> None:
    """Return the gradient of the input x of the norm, in the shape of x [batch, channels, …].

    The gradient takes into account that mean and variance depend on x. `whitened` is the second
    result of `layer_normalise`, and `dy` is the gradient of its first result. `inv_std_dev` is the
    second result of `layer_norm_statistics`, with one element per sample. `gamma` has one element
    per channel. If x is HALF, `partials_type` is the dtype of intermediate values: FLOAT, or HALF,
    which takes fewer cycles but may overflow.

    :raises PoplibsError: if a shape or dtype does not fit.
    """


@variant(_n._param_update, _n.LAYER)
def layer_norm_param_update() -> None:
    """Add `scale` * `gamma_delta` to gamma and `scale` * `beta_delta` to beta, in one compute set.

    `gamma_delta` and `beta_delta` are gradients [channels]. `scale` is a number, or a tensor of one
    element; for gradient descent it is minus the learning rate.

    :raises PoplibsError: if a shape or dtype does not fit.
    """


__all__ = [name for name in dir() if "_norm" in name]
