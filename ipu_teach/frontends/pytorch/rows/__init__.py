"""Functional core ATen, forward and backward, as operations of the IR.

`ROWS[name](graph, results, *arguments, **keywords)` emits an operation of torch and returns its
value, or a list of them; rows in `SAVING` also take a dict `saved`, the same for forward and
backward. `narrowed` then wraps integers to the width of their dtype. Rows in `KEPT` must be left
out of torch's decompositions, and those in `KEPT_IF` for the calls of which it says so. Rows raise
`Unfit` for what the kit does not do as torch does.
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
from ipu_teach.frontends.pytorch.rows.integers import narrowed
from ipu_teach.frontends.pytorch.rows.registry import KEPT, KEPT_IF, ROWS, SAVING, Results

__all__ = ["KEPT", "KEPT_IF", "ROWS", "SAVING", "Results", "narrowed"]
