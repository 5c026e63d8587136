"""The collectives by name: over the IPUs of one replica, and over replicas.

    gcl.all_reduce_cross_replica(graph, gradient, "ADD", prog)
    gcl.all_reduce_within_replica(graph, [on_ipu_0, on_ipu_1], "ADD", prog)

Across replicas `data` is a tensor of a replicated graph; within one it is a list of tensors, one on
each IPU. A result is of the same form, and new. All ranks of a group, replicas or IPUs, get the
same bits: each chunk is combined in one place. `group`: a `CommGroup`. `op`: a
`CollectiveOperator`, or its name. `options`: {"method": …}, "auto" or one of `ring.METHODS`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ipu_teach.graph import Graph
from ipu_teach.poplibs.gcl.groups import CommGroup
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
Who = type[Ipus] | type[Replicas]
ALL = CommGroup()


def _combining(
    what: tuple[Who, Callable[..., Any]],
    graph: Graph,
    data: Any,
    op: Any,
    prog: Program,
    group: CommGroup = ALL,
    debug_context: str = OWN,
    options: Options | None = None,
) -> Any:
    who, does = what
    return does(who(graph, data, group, debug_context, options), op, prog)


def _moving(
    what: tuple[Who, Callable[..., Any]],
    graph: Graph,
    data: Any,
    prog: Program,
    group: CommGroup = ALL,
    debug_context: str = OWN,
    options: Options | None = None,
) -> Any:
    who, does = what
    return does(who(graph, data, group, debug_context, options), prog)


def _from_root(
    who: Who,
    graph: Graph,
    data: Any,
    prog: Program,
    group: CommGroup = ALL,
    debug_context: str = OWN,
    root_replica: int = 0,
) -> Any:
    return who(graph, data, group, debug_context, None).broadcast(root_replica, prog)


@variant(_combining, (Replicas, Ranks.all_reduce))
def all_reduce_cross_replica() -> None:
    """Return a new tensor: the values of `data` in all replicas of a group, combined element by
    element.

    `data` may also be a list of tensors. They are reduced as one long tensor, which takes as many
    rounds as a short one, and a list is returned. On a ring of R replicas n bytes take 2 (R - 1)
    rounds, and 2 (R - 1) / R n bytes over each link. Raises `PoplibsError`.
    """


@variant(_combining, (Replicas, Ranks.all_reduce_in_place))
def all_reduce_in_place_cross_replica() -> None:
    """As `all_reduce_cross_replica`, into `data` itself."""


@variant(_combining, (Replicas, Ranks.reduce_scatter))
def reduce_scatter_cross_replica() -> None:
    """Return [ceil(n / R)] on replica number i of a group of R: share i of the n elements of `data`
    in all of them, combined. The end is padded with zeros. R - 1 rounds. Raises `PoplibsError`."""


@variant(_moving, (Replicas, Ranks.all_gather))
def all_gather_cross_replica() -> None:
    """[R, …] on each replica of a group of R: what `data` holds in all of them, one below the
    other. R - 1 rounds. Raises `PoplibsError`."""


@variant(_moving, (Replicas, Ranks.all_to_all))
def all_to_all_cross_replica() -> None:
    """A tensor like `data`, of whose R equal parts part i on replica number j is part j on number
    i. Everybody to everybody, at once. Raises `PoplibsError`."""


@variant(_from_root, Replicas)
def broadcast_cross_replica() -> None:
    """A tensor like `data` with what number `root_replica` of a group holds there, at once. Raises
    `PoplibsError`."""


@variant(_combining, (Ipus, Ranks.all_reduce))
def all_reduce_within_replica() -> None:
    """On each IPU a new tensor: those of all IPUs of a group, combined element by element. As
    `all_reduce_cross_replica`; several are a list of such lists. Raises `PoplibsError`."""


@variant(_combining, (Ipus, Ranks.all_reduce_in_place))
def all_reduce_in_place_within_replica() -> None:
    """As `all_reduce_within_replica`, into `data` itself."""


@variant(_combining, (Ipus, Ranks.reduce_scatter))
def reduce_scatter_within_replica() -> None:
    """[ceil(n / R)] on each of R IPUs; as `reduce_scatter_cross_replica`."""


@variant(_moving, (Ipus, Ranks.all_gather))
def all_gather_within_replica() -> None:
    """[R, …] on each of R IPUs; as `all_gather_cross_replica`."""


@variant(_moving, (Ipus, Ranks.all_to_all))
def all_to_all_within_replica() -> None:
    """On each of R IPUs a part of each other's; as `all_to_all_cross_replica`."""


@variant(_from_root, Ipus)
def broadcast_within_replica() -> None:
    """On each IPU what number `root_replica` of the list holds; as `broadcast_cross_replica`."""
