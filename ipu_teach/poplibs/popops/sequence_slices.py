"""`sequence_slice`: copy runs of rows from one tensor to given positions of another."""

from __future__ import annotations

from math import prod
from typing import ClassVar

import numpy as np

from ipu_teach.cost import vertices
from ipu_teach.graph import Graph, InOut, Input, SupervisorVertex, Vector
from ipu_teach.poplibs.laying import step, typed
from ipu_teach.poplibs.library import OWN, Row, Rows, check_same, library, refused
from ipu_teach.poplibs.popops.rows import check_base, on_columns
from ipu_teach.program import Sequence as Program
from ipu_teach.target import Target
from ipu_teach.types import FLOAT, UNSIGNED_INT, Array

__all__ = ["sequence_slice"]


class SequenceSlice(SupervisorVertex):
    """dst[to[i] : to[i] + count[i]] = src[start[i] : start[i] + count[i]] for each i.

    Rows outside either tensor are skipped. With `zero`, all other rows of dst become 0. Costs
    PopLibs' SequenceSlice (popopsCycleEstimators.cpp).
    """

    src: Input[Vector[Vector[FLOAT]]]
    dst: InOut[Vector[Vector[FLOAT]]]
    count: Input[Vector[UNSIGNED_INT]]
    start: Input[Vector[UNSIGNED_INT]]
    to: Input[Vector[UNSIGNED_INT]]
    zero: ClassVar[bool]

    def compute(self) -> None:
        rows = np.arange(len(self.dst))
        source: Array = np.full(len(self.dst), -1)
        for i in range(len(self.count)):
            count, start, to = (x[i].astype(np.int64) for x in (self.count, self.start, self.to))
            source = np.where((rows >= to) & (rows < to + count), rows - to + start, source)
        inside = ((source >= 0) & (source < len(self.src))).reshape((len(self.dst), 1))
        taken = np.take(self.src, source, axis=0, mode="clip")
        self.dst = np.where(inside, taken, np.zeros((), self.dst.dtype) if self.zero else self.dst)

    def cycles(self, target: Target) -> int:
        columns = self.dst.shape[1]
        rows = min(len(self.src), len(self.dst))
        return int(
            vertices.sequence_slice(
                columns, rows, len(self.count), self.fields["dst"].dtype, target=target
            )
        )


@library
def sequence_slice(
    graph: Graph,
    t_in: Rows,
    t_out: Rows,
    n: Row,
    in_offset: Row,
    out_offset: Row,
    zero_unused: bool,
    prog: Program,
    debug_context: str = OWN,
) -> None:
    """Copy n[i] rows of t_in from in_offset[i] on to t_out from out_offset[i] on, for each i.

    `t_in` and `t_out` have one dtype and two or more dimensions, all equal except the first. `n`,
    `in_offset` and `out_offset` are UNSIGNED_INT [runs]. Rows outside either tensor are skipped;
    where runs overlap, the last one remains. With `zero_unused`, all other rows of t_out become 0;
    otherwise they keep their values, which must have been written. There is one compute set, in
    which each tile works on its columns of t_out. Raises `PoplibsError`.
    """
    check_base(t_in)
    check_base(t_out)
    where = f"t_in {t_in!r} and t_out {t_out!r}"
    dtypes = t_in.dtype.__name__, t_out.dtype.__name__
    check_same("dtypes", *dtypes, where, advice="cast one of them with popops.cast.")
    rows = t_in.shape[1:], t_out.shape[1:]
    check_same("shapes of a row", *rows, where, advice="give tensors with rows of one shape.")
    for name, tensor in (("n", n), ("in_offset", in_offset), ("out_offset", out_offset)):
        if tensor.dtype is not UNSIGNED_INT or tensor.shape != n.shape:
            raise refused(f"""needs n, in_offset and out_offset of UNSIGNED_INT, equally long;
                {name} has {tensor.shape[0]:,} of {tensor.dtype.__name__}.
                where: {tensor!r}
                next:  give one of each for every run; cast them with popops.cast.""")
    source, result = (t.reshape((t.shape[0], prod(t.shape[1:]))) for t in (t_in, t_out))
    runs = {"count": n, "start": in_offset, "to": out_offset}
    work = on_columns(graph, {"dst": result, "src": source}, **runs)
    dtype = t_in.dtype
    zero = bool(zero_unused)
    zero_word = "zero" if zero else ""
    codelet = typed(SequenceSlice, [dtype, zero_word], {FLOAT: dtype}, zero=zero)
    step(graph, prog, f"{debug_context}/sequenceSlice", codelet, work=work)
