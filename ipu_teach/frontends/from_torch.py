"""Names of the package `pytorch`, for callers of the former module."""

from __future__ import annotations

import torch  # noqa: F401

from ipu_teach.frontends.pytorch.markers import (  # noqa: F401
    LIBRARY as _LIBRARY,
    LOWERINGS,
    custom,
    is_capturing,
    kept,
    lowering,
    mark_stage,
    printed,
)
from ipu_teach.frontends.pytorch.tensors import (  # noqa: F401
    array,
    dtype_of,
    filled,
    leaves,
    tensor_of,
)


def captured(*args, **kwargs):
    from ipu_teach.frontends.pytorch.capture import captured

    return captured(*args, **kwargs)
