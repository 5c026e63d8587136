"""Lowering functions: they translate torch's core ATen operations into `frontends.ir`.

`ROWS` maps torch's name of an operation, such as "add" or "gelu_backward", to its lowering
function. `ROWS[name](graph, results, *arguments, **keywords)` adds the operation to a graph, and
returns its value or a list of values. It raises `Unfit` if the device cannot compute the same
result as torch.

- The functions in `SAVING` also have the argument `saved`, a dict in which the forward operation
  stores values for the backward operation.
- `wrap_to_width` wraps a result to the width of torch's integer dtype.
- Torch must not decompose the operations in `KEPT` into simpler ones. `KEPT_IF` contains functions
  that decide this for each call of an operation.
"""

from __future__ import annotations

from ipu_teach.frontends.pytorch.rows import (  # noqa: F401
    elementwise,
    gradients,
    integers,
    likelihoods,
    lookups,
    norms,
    order,
    pools,
    products,
    random_numbers,
    reductions,
    views,
)
from ipu_teach.frontends.pytorch.rows.integers import wrap_to_width
from ipu_teach.frontends.pytorch.rows.registry import (
    KEPT,
    KEPT_IF,
    ROWS,
    SAVING,
    Drawn,
    Results,
    Saved,
)

__all__ = ["KEPT", "KEPT_IF", "ROWS", "SAVING", "Drawn", "Results", "Saved", "wrap_to_width"]
