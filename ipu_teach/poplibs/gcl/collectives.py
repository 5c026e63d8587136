"""The collectives, over the IPUs of one replica and over replicas.

    gcl.all_reduce_cross_replica(graph, gradient, "ADD", prog)
    gcl.all_reduce_within_replica(graph, [on_ipu_0, on_ipu_1], "ADD", prog)

Across replicas, `data` is a tensor of a replicated graph; within a replica, it is a list of
tensors, one on each IPU. Results are new tensors of the same form. All replicas or IPUs of a group
get the same bits, because each chunk of the data is combined in one place. `group` is a
`CommGroup`, and `op` a `CollectiveOperator` or its name. `options` may contain "method", which is
"auto" or a method of `ring.METHODS`.
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
Result = Any  # it has the form of `data`, but the decorator `variant` cannot relate the two types
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
    is a list. On a ring of R replicas, n bytes take 2 (R - 1) rounds, and each link transfers 2 (R
    - 1) / R * n bytes. Raises `PoplibsError`.
    """


@variant(_combining, (Replicas, Ranks.all_reduce_in_place))
def all_reduce_in_place_cross_replica() -> None:
    """Reduce as `all_reduce_cross_replica` does, and write the result into `data`."""


@variant(_combining, (Replicas, Ranks.reduce_scatter))
def reduce_scatter_cross_replica() -> None:
    """Return a new tensor [ceil(n / R)]: share i of the reduced data on replica i of a group of R.

    The n elements of `data` are combined over the group, and divided into R shares; the last one is
    padded with zeros. There are R - 1 rounds. Raises `PoplibsError`.
    """


@variant(_moving, (Replicas, Ranks.all_gather))
def all_gather_cross_replica() -> None:
    """Return a new tensor [R, …] on each replica of a group of R: `data` of all replicas, stacked.

    There are R - 1 rounds. Raises `PoplibsError`.
    """


@variant(_moving, (Replicas, Ranks.all_to_all))
def all_to_all_cross_replica() -> None:
    """Return a new tensor of the shape of `data`, with a part from each replica of a group of R.

    `data` is divided into R equal parts. Part i of the result on replica j is part j of `data` on
    replica i. There is one exchange. Raises `PoplibsError` if the parts cannot be equal.
    """


@variant(_from_root, Replicas)
def broadcast_cross_replica() -> None:
    """Return a new tensor like `data`, with the values of replica `root_replica` of its group.

    The values are copied in one exchange. Raises `PoplibsError`.
    """


@variant(_combining, (Ipus, Ranks.all_reduce))
def all_reduce_within_replica() -> None:
    """Return a new tensor on each IPU: the tensors of all IPUs of a group, combined elementwise.

    For several tensors per IPU, `data` is a list of such lists. The rounds are as for
    `all_reduce_cross_replica`. Raises `PoplibsError`.
    """


@variant(_combining, (Ipus, Ranks.all_reduce_in_place))
def all_reduce_in_place_within_replica() -> None:
    """Reduce as `all_reduce_within_replica` does, and write the results into `data`."""


@variant(_combining, (Ipus, Ranks.reduce_scatter))
def reduce_scatter_within_replica() -> None:
    """Return a new tensor [ceil(n / R)] on each of R IPUs: a share of the reduced data.

    It is computed as by `reduce_scatter_cross_replica`. Raises `PoplibsError`.
    """


@variant(_moving, (Ipus, Ranks.all_gather))
def all_gather_within_replica() -> None:
    """Return a new tensor [R, …] on each of R IPUs, as `all_gather_cross_replica` does."""


@variant(_moving, (Ipus, Ranks.all_to_all))
def all_to_all_within_replica() -> None:
    """Return a new tensor with parts from all IPUs on each, as `all_to_all_cross_replica` does."""


@variant(_from_root, Ipus)
def broadcast_within_replica() -> None:
    """Return a new tensor on each IPU with the values of tensor number `root_replica` in `data`.

    The values are copied in one exchange. Raises `PoplibsError`.
    """
