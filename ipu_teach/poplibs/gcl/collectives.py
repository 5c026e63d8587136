"""The collectives over the IPUs of one replica, and over the replicas of a graph.

    gcl.all_reduce_cross_replica(graph, gradient, "ADD", prog)
    gcl.all_reduce_within_replica(graph, [on_ipu_0, on_ipu_1], "ADD", prog)

For functions across replicas, `data` is a tensor of a replicated graph. For functions within a
replica, it is a list of tensors, one on each IPU. The results have the same form, and are new
tensors unless the function works in place. All replicas or IPUs of a group get the same bits,
because each chunk of the data is combined on a single replica or IPU. `group` is a `CommGroup`, and
`op` a `CollectiveOperator` or its name. `options` may contain "method", which is "auto" or a method
of `ring.METHODS`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ipu_teach.graph import Graph, Tensor
from ipu_teach.poplibs.gcl.groups import CollectiveOperator, CommGroup
from ipu_teach.poplibs.gcl.ranks import Ipus, Ranks, Replicas
from ipu_teach.poplibs.library import OWN, variant
from ipu_teach.poplibs.options import Options
from ipu_teach.program import Sequence as Program

__all__ = [
    "all_gather_cross_replica",
    "all_gather_within_replica",
    "all_reduce_cross_replica",
    "all_reduce_in_place_cross_replica",
    "all_reduce_in_place_within_replica",
    "all_reduce_within_replica",
    "all_to_all_cross_replica",
    "all_to_all_within_replica",
    "broadcast_cross_replica",
    "broadcast_within_replica",
    "reduce_scatter_cross_replica",
    "reduce_scatter_within_replica",
]
Data = Tensor | Sequence[Tensor] | Sequence[Sequence[Tensor]]
# A result has the same type as `data`, but the decorator `variant` cannot express this.
Result = Any
Kind = type[Ipus] | type[Replicas]
ALL = CommGroup()


def _combining(
    collective: tuple[Kind, Callable[..., Result]],
    graph: Graph,
    data: Data,
    op: CollectiveOperator | str,
    prog: Program,
    group: CommGroup = ALL,
    debug_context: str = OWN,
    options: Options | None = None,
) -> Result:
    kind, method = collective
    ranks = kind(graph, data, group, name=debug_context, options=options)
    return method(ranks, op, prog)


def _moving(
    collective: tuple[Kind, Callable[..., Result]],
    graph: Graph,
    data: Data,
    prog: Program,
    group: CommGroup = ALL,
    debug_context: str = OWN,
    options: Options | None = None,
) -> Result:
    kind, method = collective
    return method(kind(graph, data, group, name=debug_context, options=options), prog)


def _from_root(
    kind: Kind,
    graph: Graph,
    data: Data,
    prog: Program,
    group: CommGroup = ALL,
    debug_context: str = OWN,
    root_replica: int = 0,
) -> Result:
    ranks = kind(graph, data, group, name=debug_context, options=None)
    return ranks.broadcast(root_replica, prog)


@variant(_combining, (Replicas, Ranks.all_reduce))
def all_reduce_cross_replica() -> None:
    """Return a new tensor: the values of `data` in all replicas of a group, combined elementwise.

    `data` may also be a list of tensors; they are concatenated and reduced together, and the result
    is a list. On a ring of R replicas, n bytes take 2 (R - 1) rounds, or 2 (R // 2) with the
    method "meet_in_middle_ring". Each link transfers 2 (R - 1) / R * n bytes.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    """


@variant(_combining, (Replicas, Ranks.all_reduce_in_place))
def all_reduce_in_place_cross_replica() -> None:
    """Combine the values of `data` in all replicas of a group, and write the result to `data`.

    The arguments and rounds are those of `all_reduce_cross_replica`.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    """


@variant(_combining, (Replicas, Ranks.reduce_scatter))
def reduce_scatter_cross_replica() -> None:
    """Return a new tensor [ceil(n / R)]: share i of the reduced data on replica i of a group of R.

    The n elements of `data` are combined elementwise over the group, and divided into R shares. The
    last shares are padded with zeros. There are R - 1 rounds, or R // 2 with the method
    "meet_in_middle_ring".

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    """


@variant(_moving, (Replicas, Ranks.all_gather))
def all_gather_cross_replica() -> None:
    """Return a new tensor [R, …] that stacks `data` of all replicas of a group of R replicas.

    There are R - 1 rounds, or R // 2 with the method "meet_in_middle_ring".

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    """


@variant(_moving, (Replicas, Ranks.all_to_all))
def all_to_all_cross_replica() -> None:
    """Return a new tensor of the shape of `data`, with a part from each replica of a group of R.

    `data`, flattened, is divided into R equal parts. Part i of the result on replica j of the group
    is part j of `data` on replica i, where i and j are positions in the group. There is one
    exchange.

    :raises PoplibsError: if `data` cannot be divided into R equal parts, or an argument is wrong.
    """


@variant(_from_root, Replicas)
def broadcast_cross_replica() -> None:
    """Return a new tensor like `data`, with the values of replica `root_replica` of its group.

    The values are copied in one exchange.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    """


@variant(_combining, (Ipus, Ranks.all_reduce))
def all_reduce_within_replica() -> None:
    """Return a new tensor on each IPU: the tensors of all IPUs of a group, combined elementwise.

    `data` is a list with a tensor on each IPU. To reduce several tensors per IPU, give a list of
    such lists. For a group of R IPUs there are 2 (R - 1) rounds, or 2 (R // 2) with the method
    "meet_in_middle_ring".

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    """


@variant(_combining, (Ipus, Ranks.all_reduce_in_place))
def all_reduce_in_place_within_replica() -> None:
    """Combine the tensors of all IPUs of a group elementwise, and write the results to `data`.

    The arguments and rounds are those of `all_reduce_within_replica`.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    """


@variant(_combining, (Ipus, Ranks.reduce_scatter))
def reduce_scatter_within_replica() -> None:
    """Return a new tensor [ceil(n / R)] on each of R IPUs: share i of the reduced data on IPU i.

    The n elements are combined elementwise over the IPUs, and divided into R shares. The last
    shares are padded with zeros. There are R - 1 rounds, or R // 2 with the method
    "meet_in_middle_ring".

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    """


@variant(_moving, (Ipus, Ranks.all_gather))
def all_gather_within_replica() -> None:
    """Return a new tensor [R, …] on each of R IPUs, which stacks the tensors of all IPUs.

    There are R - 1 rounds, or R // 2 with the method "meet_in_middle_ring".

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    """


@variant(_moving, (Ipus, Ranks.all_to_all))
def all_to_all_within_replica() -> None:
    """Return a new tensor on each of R IPUs, with a part from the tensor of each IPU.

    Each tensor is divided into R equal parts. Part i of the result on IPU j is part j of the tensor
    on IPU i. There is one exchange.

    :raises PoplibsError: if the tensors cannot be divided into R equal parts, or an argument is
        wrong.
    """


@variant(_from_root, Ipus)
def broadcast_within_replica() -> None:
    """Return a new tensor on each IPU, with the values of tensor number `root_replica` in `data`.

    The values are copied in one exchange.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    """
