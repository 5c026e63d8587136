"""Collectives over the IPUs of one replica: each takes a list of tensors, one on each IPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ipu_teach.graph import Graph, Tensor, concat
from ipu_teach.poplibs.gcl.ranks import Ranks
from ipu_teach.poplibs.gcl.ring import METHOD
from ipu_teach.poplibs.library import (
    OWN,
    as_given,
    check_mapped,
    check_same,
    check_tensor,
    library,
    refused,
)
from ipu_teach.poplibs.options import Options, settled
from ipu_teach.poplibs.poputil import like, map_tensor_linearly, tile_pieces
from ipu_teach.program import Sequence as Program

__all__ = [
    "all_gather_within_replica",
    "all_reduce_in_place_within_replica",
    "all_reduce_within_replica",
    "all_to_all_within_replica",
    "broadcast_within_replica",
    "reduce_scatter_within_replica",
]
Tensors = Sequence[Tensor]  # one on each IPU


class _Ipus(Ranks):
    """A tensor on each IPU: ranks in the order of the list."""

    def __init__(
        self, graph: Graph, tensors: object, name: str, options: Options | None = None
    ) -> None:
        method = settled(METHOD, options)["method"]
        if not isinstance(tensors, (list, tuple)) or not tensors:
            raise as_given(tensors, "tensors", "give a list of tensors, one on each IPU.")
        top, at = graph.get_top_level_graph(), list[int]()
        each = top.target.tiles_per_ipu
        for i, tensor in enumerate(tensors):
            check_tensor(graph, f"tensors[{i}]", tensor)
            check_mapped(top, f"tensors[{i}]", tensor)
            alike(tensors[0], tensor)
            ipus = sorted({tile // each for tile, _ in tile_pieces(top, tensor)}) or [i]
            if len(ipus) > 1 or ipus[0] in at:
                raise refused(f"""was given tensors[{i}] on IPU
                    {" and ".join(map(str, ipus))}{", where another one is" * (ipus[0] in at)}.
                    where: {tensor!r}
                    next:  give one tensor on each IPU.""")
            at.append(ipus[0])
        super().__init__(top, [list(range(len(at)))], at, 1, name, method)
        self.parts = [top.create_virtual_graph(ipu * each, ipu * each + each) for ipu in at]

    def rows(self, value: Tensors) -> list[Tensor]:
        return [tensor.flatten() for tensor in value]

    def like(self, value: Tensors) -> Tensors:
        return [like(self.graph, tensor, f"{self.name}/out") for tensor in value]

    def linear(self, value: Tensors, count: int) -> Tensors:
        made = [
            part.add_variable(value[0].dtype, (count,), f"{self.name}/out") for part in self.parts
        ]
        for part, tensor in zip(self.parts, made, strict=True):
            map_tensor_linearly(part, tensor)
        return made

    def stacked(self, values: list[Tensors]) -> Tensors:
        return [concat([t.expand([0]) for t in of]) for of in zip(*values, strict=True)]


def alike(first: Tensor, other: Tensor) -> None:
    """Raise `PoplibsError` unless two tensors have the same dtype and length."""
    names = first.dtype.__name__, other.dtype.__name__
    check_same("dtypes", *names, repr(other), "cast one with popops.cast.")
    if first.num_elements != other.num_elements:
        raise refused(f"""was given tensors of {first.num_elements:,} and {other.num_elements:,}
            elements.
            where: {other!r}
            next:  all bring as many; pad the shorter one with popops.pad.""")


@library
def all_reduce_within_replica(
    graph: Graph,
    tensors: Any,
    op: object,
    prog: Program,
    debug_context: str = OWN,
    options: Options | None = None,
) -> Any:
    """On each IPU a new tensor: all `tensors`, one on each IPU, combined element by element.

    `tensors` may also be a list of such lists: they are taken as one long tensor, which takes as
    many rounds as a short one, and a list of lists comes back. `op` is a `CollectiveOperator` or
    its name. `options`: {"method": "auto"} (see `choose`), "clockwise_ring", "anticlockwise_ring",
    "bidirectional_ring_pair" or "meet_in_middle_ring". On a ring of R a tensor of n bytes takes 2
    (R - 1) rounds, and 2 (R - 1) / R n bytes over each link. All IPUs get the same bits. Raises
    `PoplibsError`.
    """
    return _all_reduce(graph, tensors, op, prog, debug_context, options, False)


@library
def all_reduce_in_place_within_replica(
    graph: Graph,
    tensors: Any,
    op: object,
    prog: Program,
    debug_context: str = OWN,
    options: Options | None = None,
) -> None:
    """As `all_reduce_within_replica`, into the tensors themselves."""
    _all_reduce(graph, tensors, op, prog, debug_context, options, True)


def _all_reduce(
    graph: Graph,
    tensors: Any,
    op: object,
    prog: Program,
    name: str,
    options: Options | None,
    in_place: bool,
) -> Any:
    several = (
        isinstance(tensors, (list, tuple)) and tensors and isinstance(tensors[0], (list, tuple))
    )
    every = list(tensors) if several else [tensors]
    ranks = [_Ipus(graph, one, name, options) for one in every][0]
    made = every if in_place else [ranks.like(one) for one in every]
    ranks.all_reduce(every, op, made, prog)
    return made if several else made[0]


@library
def reduce_scatter_within_replica(
    graph: Graph,
    tensors: Any,
    op: object,
    prog: Program,
    debug_context: str = OWN,
    options: Options | None = None,
) -> list[Tensor]:
    """On IPU number i of R a new tensor [ceil(n / R)]: share i of all `tensors` of n elements,
    combined. Behind the end stand zeros. See `all_reduce_within_replica`; R - 1 rounds."""
    ranks = _Ipus(graph, tensors, debug_context, options)
    return list(ranks.reduce_scatter(tensors, op, prog))


@library
def all_gather_within_replica(
    graph: Graph,
    tensors: Any,
    prog: Program,
    debug_context: str = OWN,
    options: Options | None = None,
) -> list[Tensor]:
    """On each IPU a new tensor [R, …]: the `tensors` of all R IPUs, one below the other. See
    `all_reduce_within_replica`; R - 1 rounds."""
    return list(_Ipus(graph, tensors, debug_context, options).all_gather(tensors, prog))


@library
def all_to_all_within_replica(
    graph: Graph, tensors: Any, prog: Program, debug_context: str = OWN
) -> list[Tensor]:
    """On IPU number j of R a new tensor [R, …], of which row i is row j of the one on IPU i. All at
    once. Raises `PoplibsError`."""
    ranks = _Ipus(graph, tensors, debug_context)
    for tensor in tensors:
        ranks.check_parts(tensor)
    return list(ranks.all_to_all(tensors, prog))


@library
def broadcast_within_replica(
    graph: Graph, tensors: Any, prog: Program, debug_context: str = OWN, root: int = 0
) -> list[Tensor]:
    """On each IPU a new tensor with what number `root` of the `tensors` holds. All at once. Raises
    `PoplibsError`."""
    ranks = _Ipus(graph, tensors, debug_context)
    number = ranks.root(root, "root", "tensor")
    return list(ranks.broadcast(tensors, number, prog))
