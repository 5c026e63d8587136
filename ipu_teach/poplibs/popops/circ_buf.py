"""`CircBuf`: a circular buffer of tensors."""

from __future__ import annotations

from collections.abc import Sequence

from ipu_teach.cost import vertices
from ipu_teach.errors import shown
from ipu_teach.graph import Graph, InOut, Input, Output, Tensor, Vertex
from ipu_teach.graph.layouts import is_whole
from ipu_teach.poplibs.laying import step
from ipu_teach.poplibs.library import as_given, check_same, check_shape, library, refused
from ipu_teach.poplibs.popops.dynamic import create_sliceable_tensor, dynamic_slice, dynamic_update
from ipu_teach.program import Sequence as Program
from ipu_teach.target import Target
from ipu_teach.types import UNSIGNED_INT, DType

__all__ = ["CircBuf"]


class CircBufIncrIndex(Vertex):
    """Set `index` to (index + 1) mod size.

    The cycles are those of PopLibs' CircBufIncrIndex (popopsCycleEstimators.cpp).
    """

    index: InOut[UNSIGNED_INT]
    size: UNSIGNED_INT

    def compute(self) -> None:
        self.index = (self.index + 1) % self.size

    def cycles(self, target: Target) -> int:
        return vertices.circ_buf_incr_index()


class CircOffset(Vertex):
    """Set `place` to (index + offset) mod size.

    The cycles are those of PopLibs' CircOffset (popopsCycleEstimators.cpp).
    """

    index: Input[UNSIGNED_INT]
    place: Output[UNSIGNED_INT]
    offset: UNSIGNED_INT
    size: UNSIGNED_INT

    def compute(self) -> None:
        self.place = (self.index + self.offset) % self.size

    def cycles(self, target: Target) -> int:
        return vertices.circ_offset()


CircBufIncrIndex.__name__ = "popops::CircBufIncrIndex"
CircOffset.__name__ = "popops::CircOffset"


class CircBuf:
    """A circular buffer that keeps the last `size` tensors that were added.

    The tensors have the dtype `dtype` and the shape `shape`. `add` overwrites the oldest entry, and
    `prev(i)` reads the entry that was the newest `i` additions ago. All entries are initially 0.
    The buffer is mapped like a tensor of `create_sliceable_tensor`. If the added tensor has the
    same tile mapping, `add` and `prev` exchange only the index.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    """

    @library
    def __init__(
        self,
        graph: Graph,
        dtype: type[DType],
        size: int,
        shape: int | Sequence[int],
        debug_context: str = "circ_buf",
    ) -> None:
        if not is_whole(size) or size < 1:
            raise as_given(size, "size", "give a whole number of 1 or more.")
        self._graph = graph
        self.size = int(size)
        self._shape = check_shape(shape)
        self._entries = create_sliceable_tensor(
            graph, dtype, (self.size, *self._shape), [0], debug_context=f"{debug_context}/entries"
        )
        graph.set_initial_value(self._entries, 0)
        self.index = graph.add_variable(UNSIGNED_INT, (1,), f"{debug_context}/index")
        graph.set_initial_value(self.index, 0)
        graph.set_tile_mapping(self.index, 0)

    @library
    def add(self, tensor: Tensor, prog: Program, debug_context: str = "circ_buf_add") -> None:
        """Overwrite the oldest entry with `tensor`, which becomes the newest entry.

        `tensor` must have the shape and dtype of the entries. The call adds two compute sets.

        :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
        """
        advice = "give a tensor of the shape for which the buffer was created."
        check_same("shapes", tensor.shape, self._shape, repr(tensor), advice=advice)
        dtypes = tensor.dtype.__name__, self._entries.dtype.__name__
        check_same("dtypes", *dtypes, repr(tensor), "cast it with popops.cast.")
        edges = {"index": self.index[0], "size": self.size}
        step(self._graph, prog, f"{debug_context}/incrIndex", CircBufIncrIndex, work=[(0, edges)])
        dynamic_update(
            self._graph,
            self._entries,
            tensor.expand([0]),
            self.index,
            dims=[0],
            sizes=[1],
            prog=prog,
            debug_context=debug_context,
        )

    @library
    def prev(self, i: int, prog: Program, debug_context: str = "circ_buf_prev") -> Tensor:
        """Return a copy of the entry that was the newest `i` additions ago.

        `i` is an integer from 0, for the newest entry, to size - 1, for the oldest. The call adds
        two compute sets.

        :raises PoplibsError: if there is no such entry.
        """
        if not is_whole(i) or not 0 <= i < self.size:
            raise refused(
                f"was given {shown(i)} as i, but the buffer has size {self.size:,}.",
                next_step=f"give a number from 0, the newest entry, to {self.size - 1:,}.",
            )
        place = self._graph.add_variable(UNSIGNED_INT, (1,), f"{debug_context}/place")
        edges = {"index": self.index[0], "offset": self.size - int(i), "size": self.size}
        edges_by_tile = [(0, edges | {"place": place[0]})]
        step(
            self._graph,
            prog,
            f"{debug_context}/offset",
            CircOffset,
            work=edges_by_tile,
            results=["place"],
        )
        return dynamic_slice(
            self._graph,
            self._entries,
            place,
            [0],
            sizes=[1],
            prog=prog,
            debug_context=debug_context,
        ).reshape(self._shape)

    def __repr__(self) -> str:
        return f"CircBuf({self.size:,} of {self._entries.dtype.__name__}, shape {self._shape})"
