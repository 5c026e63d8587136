"""The public names of the library packages, and errors for names that they do not have.

Each module lists its public names in `__all__`. A package has the public names of all its modules.
"""

from __future__ import annotations

from collections.abc import Mapping
from inspect import ismodule
from types import ModuleType
from typing import NoReturn

from ipu_teach._support.elsewhere import not_in

_LAYERS = "rnn augru ctc_inference"
_NAMED_OTHERWISE = "max_pool batch_norm group_norm layer_norm instance_norm"
_TRANSPOSED = "sparse_dense_mat_mul of both, transposed."
_DENSE_TABLE = "popops.multi_slice and multi_update_add of a dense table."
NOT_HERE = {
    "ipu_teach.poplibs.popops": dict.fromkeys(
        ("spline_basis", "spline_weighting"), "an expression of popops.map."
    ),
    "ipu_teach.poplibs.poplin": {
        "multiconv": "poplin.convolution of each, one after the other.",
    },
    "ipu_teach.poplibs.popsparse": {
        "CSCMatrix": "popsparse.CSRMatrix of the transposed matrix.",
        "experimental": "popsparse.static or popsparse.dynamic.",
    },
    "ipu_teach.poplibs.popsparse.static": {"dense_sparse_mat_mul": _TRANSPOSED},
    "ipu_teach.poplibs.popsparse.dynamic": {
        "dense_sparse_mat_mul": _TRANSPOSED,
        **dict.fromkeys(("embedding_slice", "embedding_update_add"), _DENSE_TABLE),
    },
    "ipu_teach.poplibs.popnn": {
        **dict.fromkeys(_LAYERS.split(), "popops and poplin, of which they can be composed."),
        **dict.fromkeys(
            _NAMED_OTHERWISE.split(),
            "pooling, bn (batch), gn (group), ln (layer) and in_ (instance), modules of popnn.",
        ),
    },
}


def offered(scope: Mapping[str, object], *modules: str) -> list[str]:
    """Return the public names in the `globals()` of a package, sorted.

    Modules are left out, except for those whose names are in `modules`.
    """
    return sorted(
        name
        for name, value in scope.items()
        if name in modules or not (name.startswith("_") or ismodule(value))
    )


def answer(library: ModuleType) -> None:
    """Make `library` raise an error for names that it does not have.

    The error says what to use instead.
    """

    def raise_not_here(name: str) -> NoReturn:
        public = vars(library).get("__all__", dir(library))
        raise not_in(library.__name__, name, NOT_HERE.get(library.__name__, {}), public)

    library.__dict__["__getattr__"] = raise_not_here
