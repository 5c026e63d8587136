"""`sequence_slice`, which copies groups of consecutive rows from one tensor to another."""

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
    """Set dst[to[i] : to[i] + count[i]] to src[start[i] : start[i] + count[i]] for each i.

    Rows outside either tensor are skipped. If `zero` is true, all other rows of dst become 0. The
    cycles are those of PopLibs' SequenceSlice (popopsCycleEstimators.cpp).
    """

    src: Input[Vector[Vector[FLOAT]]]
    dst: InOut[Vector[Vector[FLOAT]]]
    count: Input[Vector[UNSIGNED_INT]]
    start: Input[Vector[UNSIGNED_INT]]
    to: Input[Vector[UNSIGNED_INT]]
    zero: ClassVar[bool]

    def compute(self) -> None:
        row_numbers = np.arange(len(self.dst))
        source_rows: Array = np.full(len(self.dst), -1)
        for run in range(len(self.count)):
            num_rows, first_source, first_target = (
                field[run].astype(np.int64) for field in (self.count, self.start, self.to)
            )
            of_group = row_numbers - first_target + first_source
            source_rows = np.where(
                (row_numbers >= first_target)
                & (row_numbers < first_target + num_rows)
                & (of_group < len(self.src)),
                of_group,
                source_rows,
            )
        is_inside = (source_rows >= 0).reshape((len(self.dst), 1))
        taken = np.take(self.src, source_rows, axis=0, mode="clip")
        self.dst = np.where(
            is_inside, taken, np.zeros((), self.dst.dtype) if self.zero else self.dst
        )

    def cycles(self, target: Target) -> int:
        num_columns = self.dst.shape[1]
        num_rows = min(len(self.src), len(self.dst))
        return int(
            vertices.sequence_slice(
                num_columns, num_rows, len(self.count), self.fields["dst"].dtype, target=target
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
    """Copy groups of rows: n[i] rows from row in_offset[i] of t_in to row out_offset[i] of t_out.

    `t_in` and `t_out` have the same dtype and two or more dimensions, of equal sizes except in the
    first dimension. `n`, `in_offset` and `out_offset` [groups] are UNSIGNED_INT. Rows outside
    either tensor are skipped. If groups overlap in t_out, the last group overwrites the others. If
    `zero_unused` is true, all other rows of t_out become 0; otherwise they keep their values, which
    must have been written before. The call adds one compute set, in which each tile works on its
    columns of t_out.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    """
    check_base(t_in)
    check_base(t_out)
    context = f"t_in {t_in!r} and t_out {t_out!r}"
    dtypes = t_in.dtype.__name__, t_out.dtype.__name__
    check_same("dtypes", *dtypes, context, advice="cast one of them with popops.cast.")
    row_shapes = t_in.shape[1:], t_out.shape[1:]
    check_same(
        "shapes of a row", *row_shapes, context, advice="give tensors with rows of one shape."
    )
    for name, tensor in (("n", n), ("in_offset", in_offset), ("out_offset", out_offset)):
        if tensor.dtype is not UNSIGNED_INT or tensor.shape != n.shape:
            raise refused(f"""needs n, in_offset and out_offset with the dtype UNSIGNED_INT and
                with equal lengths, but {name} has the dtype {tensor.dtype.__name__} and the length
                {tensor.shape[0]:,}.
                where: {tensor!r}
                next:  give each of the three tensors one element for each group of rows, and cast
                them with popops.cast.""")
    source, result = (t.reshape((t.shape[0], prod(t.shape[1:]))) for t in (t_in, t_out))
    run_fields = {"count": n, "start": in_offset, "to": out_offset}
    edges_by_tile = on_columns(graph, {"dst": result, "src": source}, **run_fields)
    dtype = t_in.dtype
    sets_zero = bool(zero_unused)
    zero_word = "zero" if sets_zero else ""
    codelet = typed(SequenceSlice, [dtype, zero_word], {FLOAT: dtype}, zero=sets_zero)
    step(graph, prog, f"{debug_context}/sequenceSlice", codelet, work=edges_by_tile)
