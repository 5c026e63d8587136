"""What a library of several modules offers: each module lists its part in its own `__all__`, and
the package takes them all."""

from __future__ import annotations

from inspect import ismodule
from types import ModuleType
from typing import Any, NoReturn

from ipu_teach._support.elsewhere import not_in

_LAYERS = "rnn lstm gru augru ctc ctc_loss ctc_inference"
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


def offered(scope: dict[str, Any], *modules: str) -> list[str]:
    """The public names in a package's `globals()`. Its modules are none of them, but for those that
    are named."""
    return sorted(
        n for n, v in scope.items() if n in modules or not (n.startswith("_") or ismodule(v))
    )


def answer(library: ModuleType) -> None:
    """Let a library say what to use for a name of Poplar's that it has not."""

    def instead(name: str) -> NoReturn:
        own = vars(library).get("__all__", dir(library))
        raise not_in(library.__name__, name, NOT_HERE.get(library.__name__, {}), own)

    library.__dict__["__getattr__"] = instead
