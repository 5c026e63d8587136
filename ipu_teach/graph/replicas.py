"""Replicated graphs: the graph of one replica, and the top-level graph of all replicas.

A learner builds the graph of one replica, which has the tiles of one replica. The top-level graph
has the tiles of all replicas. Its memory begins with an image of each replica's memory. The images
are far apart from each other, and the top-level graph's own variables follow them. In the top-level
graph, a variable of shape s is a view of shape (R, *s) (`Graph.get_non_replicated_tensor`), so the
author of a collective works with ordinary tensors. The compiler removes the gaps between the images
(`compile.replicas`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ipu_teach.errors import GraphReplicationError, counted, shown
from ipu_teach.graph.layouts import is_whole
from ipu_teach.graph.tensor import Tensor
from ipu_teach.graph.variable_table import MOST_BYTES

if TYPE_CHECKING:
    from ipu_teach.graph.graph import Graph
    from ipu_teach.target import Target

# The number of bytes in the top-level graph from the start of one replica's memory to the start of
# the next. A tensor of one replica covers at most half of these bytes.
APART = 2 * MOST_BYTES
# The maximum number of replicas. More replicas would need addresses of more than 63 bits.
MOST_REPLICAS = 2**12


@dataclass
class Replication:
    """The replicas of a graph.

    In the graph of one replica, `count` is the number of replicas, and `whole` is the top-level
    graph. In the top-level graph, `part` is the graph of one replica.
    """

    count: int = 1
    part: Graph | None = None
    whole: Graph | None = None

    def fits(self, count: int) -> bool:
        """Return whether an object with `count` replicas can be used with tensors of this graph."""
        return self.count == count or self.part is self.whole


def target_of_one(target: Target, count: int) -> Target:
    """Return the machine of one replica, if `count` replicas share `target` equally.

    Raises `GraphReplicationError`.
    """
    ipus = target.num_ipus
    if not is_whole(count) or not 1 <= count <= MOST_REPLICAS:
        raise GraphReplicationError(f"""Graph() was given the replication factor {shown(count)},
            which is not valid.
            next:  give a whole number of 1 or more that divides the IPUs of the machine, which has
            {ipus:,}.""")
    if ipus % count:
        fits = ", ".join(str(n) for n in range(1, min(ipus, MOST_REPLICAS) + 1) if ipus % n == 0)
        raise GraphReplicationError(f"""Graph() was given the replication factor {count:,}, but
            {counted(ipus, "IPU")} cannot be divided equally among {count:,} replicas.
            next:  give a number that divides {ipus:,} ({fits}), or take a machine of more IPUs:
            IPUModel(num_ipus={count}).""")
    return replace(target, num_ipus=ipus // count)


def join(top_level: Graph, part: Graph, count: int) -> None:
    """Make the empty graph `part` the graph of one replica; `top_level` gets `count` replicas."""
    if top_level.variables or top_level.replication.part is not None:
        raise GraphReplicationError(f"""create_replicated_graph() was called on a graph that has
            {"been replicated" if top_level.replication.part is not None else "variables"} already.
            next:  call it once, before the first add_variable; or write Graph(target,
            replication_factor={count}).""")
    top_level.replication.part = part
    part.replication.count = count
    part.replication.whole = top_level
    # A handle or a codelet's name has the same meaning in both graphs.
    part.streams = top_level.streams
    part.host_accesses = top_level.host_accesses
    part.remote_buffers = top_level.remote_buffers
    part.codelets = top_level.codelets
    top_level._variables.follow(part._variables, APART, count)
    tiles = part.target.num_tiles
    done = 0
    log = top_level._mapping

    def images() -> None:
        """Append the mapping calls of `part` that the log lacks, once for each replica."""
        nonlocal done
        rows = np.array(part.mapping_log[done:], np.int64).reshape(-1, 3)
        done = len(part.mapping_log)
        for r in range(count) if len(rows) else ():
            log.extend(*(rows + [r * APART, r * APART, r * tiles]).T)

    log.images = images


def whole_tensor(tensor: Tensor, graph: Graph, count: int, distance: int) -> Tensor:
    """Return a tensor of shape (count, *s) that contains `tensor`, of shape s, of each replica.

    The result belongs to `graph`. `distance` is the number of bytes from one replica's memory to
    the next.
    """
    layout = tensor.layout
    replica_stride = distance // tensor.dtype.size
    if layout.strides is None:
        replica_starts = replica_stride * np.arange(count).reshape((-1,) + (1,) * len(layout.shape))
        return graph.listed(tensor.dtype, tensor.offset + replica_starts + layout.positions)
    layout_of_all = graph.strided((count, *layout.shape), (replica_stride, *layout.strides))
    return Tensor.of(graph, tensor.dtype, tensor.offset, layout_of_all)
