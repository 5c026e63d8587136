"""Instance norm: each channel of each sample is normalised over all field positions."""

from __future__ import annotations

from ipu_teach.poplibs.library import variant
from ipu_teach.poplibs.popnn import norms as _n


@variant(_n._statistics, _n.INSTANCE, ("num_groups", "grouping", "over"))
def instance_norm_statistics() -> None:
    """Return (mean, 1 / sqrt(variance + eps)) of each channel in each sample of x.

    x is [batch, channels, …], and both results are tensors [batch * channels] of x's dtype. The
    other parameters are those of `bn.batch_norm_statistics`.

    :raises IPUTeachError: (usually a PoplibsError) if an argument is invalid, or if x has no
        elements.
    """


@variant(_n._whiten, _n.INSTANCE, ("grouping",))
def instance_norm_whiten() -> None:
    """Return (x - mean) * inv_std_dev, in the shape of x [batch, channels, …].

    `mean` and `inv_std_dev` are the two results of `instance_norm_statistics`, with one element per
    channel of each sample.

    :raises PoplibsError: if a shape or dtype does not fit.
    """


@variant(_n._normalise, _n.INSTANCE, ("grouping",))
def instance_normalise() -> None:
    """Return (out, whitened): out = gamma * whitened + beta, whitened = (x - mean) * inv_std_dev.

    Both results have the shape of x [batch, channels, …]. `gamma` and `beta` have one element per
    channel. `mean` and `inv_std_dev` are the two results of `instance_norm_statistics`, with one
    element per channel of each sample.

    :raises PoplibsError: if a shape or dtype does not fit.
    """


@variant(_n._param_gradients, _n.INSTANCE)
def instance_norm_param_gradients() -> None:
    """Return the gradients of gamma and beta, two FLOAT tensors [channels].

    `whitened` is the second result of `instance_normalise`, and `dy` is the gradient of its first
    result. If `whitened` and `dy` are HALF, `partials_type` is the dtype of their products: FLOAT,
    or HALF, which takes fewer cycles but may overflow.

    :raises PoplibsError: if a shape or dtype does not fit.
    """


@variant(_n._gradients, _n.INSTANCE, ("grouping", "over"))
def instance_norm_gradients() -> None:
    """Return the gradient of the input x of the norm, in the shape of x [batch, channels, …].

    The gradient takes into account that mean and variance depend on x. It is correct for statistics
    that were computed with `unbiased_var_estimate=False`. `whitened` is the second result of
    `instance_normalise`, and `dy` is the gradient of its first result. `inv_std_dev` is the second
    result of `instance_norm_statistics`, with one element per channel of each sample. `gamma` has
    one element per channel. If x is HALF, `partials_type` is the dtype of intermediate values:
    FLOAT, or HALF, which takes fewer cycles but may overflow.

    :raises PoplibsError: if a shape or dtype does not fit.
    """


@variant(_n._param_update, _n.INSTANCE)
def instance_norm_param_update() -> None:
    """Add `scale` * `gamma_delta` to gamma and `scale` * `beta_delta` to beta, in one compute set.

    `gamma_delta` and `beta_delta` are gradients [channels]. `scale` is a number, or a tensor of one
    element; for gradient descent it is minus the learning rate.

    :raises PoplibsError: if a shape or dtype does not fit, or if `scale` is NaN or infinite.

    :raises PoplarTypeError: if gamma and beta, or the two gradients, have different dtypes.

    :raises TensorCreationError: if the number `scale` is too large for the dtype of gamma.
    """


__all__ = [name for name in dir() if "_norm" in name]
