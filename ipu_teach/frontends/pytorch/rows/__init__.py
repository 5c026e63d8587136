"""The rows of functional core ATen, forward and backward, as operations of `frontends.ir`.

`ROWS[name](graph, results, *arguments, **keywords)` adds an operation of torch to a graph, and
returns its value or a list of values. Rows in `SAVING` also take `saved`, a dict in which the
forward row leaves values for the backward row. `wrap_to_width` then wraps integers to the width of
their dtype. torch must not decompose the operations in `KEPT`, nor calls for which the function in
`KEPT_IF` is true. Rows raise `Unfit` where the kit cannot compute the same as torch.
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
from ipu_teach.frontends.pytorch.rows.registry import KEPT, KEPT_IF, ROWS, SAVING, Results, Saved

__all__ = ["KEPT", "KEPT_IF", "ROWS", "SAVING", "Results", "Saved", "wrap_to_width"]
