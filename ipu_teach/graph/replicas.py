"""Replicated graphs: the graph of one replica, and the top-level graph that sees them all.

A learner builds the graph of one replica, with the tiles of one. A top-level graph has the tiles of
all replicas. Its addresses hold an image of each replica's memory, far apart, and then variables of
its own. A variable of shape s is a view of shape (R, s) there (`Graph.get_non_replicated_tensor`),
so that the author of a collective sees ordinary tensors. `compile.replicas` moves the images
together.
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

APART = 2 * MOST_BYTES  # bytes from an image to the next: no view within one leads half as far
MOST_REPLICAS = 2**12  # whose images have addresses of 63 bits


@dataclass
class Replication:
    """The replication of a graph: `count` times, as parts of the graph `whole`. In `whole`, `part`
    is the graph of one replica."""

    count: int = 1
    part: Graph | None = None
    whole: Graph | None = None

    def fits(self, count: int) -> bool:
        """Return whether tensors of this graph can be combined with an object that exists `count`
        times."""
        return self.count == count or self.part is self.whole


def target_of_one(target: Target, count: object) -> Target:
    """Return the machine that each of `count` replicas has for itself. Raises
    `GraphReplicationError`."""
    ipus = target.num_ipus
    if not is_whole(count) or not 1 <= count <= MOST_REPLICAS:
        raise GraphReplicationError(f"""Graph() was given the replication factor {shown(count)}.
            next:  give a whole number of 1 or more that divides the IPUs of the machine, which has
            {ipus:,}.""")
    if ipus % count:
        fits = ", ".join(str(n) for n in range(1, min(ipus, MOST_REPLICAS) + 1) if ipus % n == 0)
        raise GraphReplicationError(f"""Graph() was given the replication factor {count:,}, and
            {counted(ipus, "IPU")} cannot be divided equally among {count:,} replicas.
            next:  give a number that divides {ipus:,} ({fits}), or take a machine of more IPUs:
            IPUModel(num_ipus={count}).""")
    return replace(target, num_ipus=ipus // count)


def join(top_level: Graph, part: Graph, count: int) -> None:
    """Make `part`, which is empty, the graph of each of `count` replicas of the top-level graph
    `whole`."""
    if top_level.variables or top_level.replication.part is not None:
        raise GraphReplicationError(f"""create_replicated_graph() was called on a graph that has
            {"been replicated" if top_level.replication.part is not None else "variables"} already.
            next:  call it once, before the first add_variable; or write Graph(target,
            replication_factor={count}).""")
    top_level.replication.part = part
    part.replication.count = count
    part.replication.whole = top_level
    # both graphs share one set of names
    part.streams = top_level.streams
    part.host_accesses = top_level.host_accesses
    part.remote_buffers = top_level.remote_buffers
    part.codelets = top_level.codelets
    top_level._variables.follow(part._variables, APART, count)
    tiles = part.target.num_tiles
    done = 0
    log = top_level._mapping

    def images() -> None:
        """Map the images of everything mapped since to the tiles of their replicas."""
        nonlocal done
        rows = np.array(part.mapping_log[done:], np.int64).reshape(-1, 3)
        done = len(part.mapping_log)
        for r in range(count) if len(rows) else ():
            log.extend(*(rows + [r * APART, r * APART, r * tiles]).T)

    log.images = images


def whole_tensor(tensor: Tensor, graph: Graph, count: int, distance: int) -> Tensor:
    """Return the tensor of shape (count, *s) of `graph` of which `tensor`, of shape s, is what is
    in each replica; their memories are `apart` bytes from each other."""
    layout = tensor.layout
    step = distance // tensor.dtype.size
    if layout.strides is None:
        starts = step * np.arange(count).reshape((-1,) + (1,) * len(layout.shape))
        return graph.listed(tensor.dtype, tensor.offset + starts + layout.positions)
    tensor_of_all = graph.strided((count, *layout.shape), (step, *layout.strides))
    return Tensor.of(graph, tensor.dtype, tensor.offset, tensor_of_all)
