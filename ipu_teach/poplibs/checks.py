"""What several libraries share: a check of operands, and the call that loads nothing."""

from __future__ import annotations

from ipu_teach.graph import Graph, Tensor
from ipu_teach.poplibs.library import check_tensor, library, refused
from ipu_teach.types import FLOAT, HALF, DType


@library
def add_codelets(graph: Graph) -> None:
    """For programs that come from C++, where the library's codelets are loaded first: here each call finds its own."""


def check_float(
    graph: Graph,
    argument: str,
    tensor: object,
    ranks: tuple[int, ...] = (),
    dtypes: tuple[type[DType], ...] = (FLOAT, HALF),
) -> None:
    """Raise `PoplibsError` unless `tensor` is one of `graph`, of FLOAT or HALF, with one of the `ranks` (any if empty)."""
    check_tensor(graph, argument, tensor, ranks)
    assert isinstance(tensor, Tensor)
    if tensor.dtype not in dtypes:
        raise refused(f"""works on {" and ".join(t.__name__ for t in dtypes)}; {argument} is {tensor.dtype.__name__}.
            where: {tensor!r}
            next:  cast it with popops.cast.""")
