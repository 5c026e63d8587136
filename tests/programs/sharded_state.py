"""Training on four IPUs with weights and momentum in streaming memory.

Each IPU has all of them there, or a quarter. With quarters (shards), each IPU loads its own, the
weights are gathered, gradients are reduced and scattered, and each IPU updates and stores its
quarter. Gather and scatter go around a ring of links, one chunk at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ipu_teach import FLOAT, Engine, Graph, IPUModel, Report, Tensor, concat
from ipu_teach.poplibs import popops, poputil
from ipu_teach.program import Copy, Sequence

TILES, RING = 13, (0, 1, 3, 2)  # a link joins each IPU with the next
COUNT = len(RING)
OWNED = [
    (place + 1) % COUNT for place in range(COUNT)
]  # by position in the ring, the chunk that this IPU sums


class Places:
    """Variables of which each IPU in the ring has its own."""

    def __init__(self, graph: Graph, width: int) -> None:
        self.width = width
        self.parts = [graph.create_virtual_graph(ipu * TILES, (ipu + 1) * TILES) for ipu in RING]

    def add(self, name: str, chunks: int = COUNT) -> list[Tensor]:
        """Return a tensor for each IPU in the ring: `chunks` chunks, each on all of its tiles."""
        made = []
        for place, part in enumerate(self.parts):
            tensor = part.add_variable(FLOAT, (chunks, self.width), f"{name}{place}")
            for chunk in range(chunks):
                poputil.map_tensor_linearly(part, tensor[chunk])
            made.append(tensor)
        return made


def scatter(graph: Graph, summed: list[Tensor], inbox: list[Tensor], prog: Sequence) -> None:
    """Send the chunks around the ring and add them, until each IPU has one complete sum."""
    for k in range(COUNT - 1):
        out = [summed[i][(i - k) % COUNT] for i in range(COUNT)]
        prog.add(Copy(concat(out), concat([inbox[(i + 1) % COUNT][0] for i in range(COUNT)])))
        into = concat([summed[i][(i - k - 1) % COUNT] for i in range(COUNT)])
        popops.add_in_place(graph, into, concat([one[0] for one in inbox]), prog, "sum")


def gather(whole: list[Tensor], prog: Sequence) -> None:
    """Send the chunks around the ring, until each IPU has all."""
    for k in range(COUNT - 1):
        out = [whole[i][(i + 1 - k) % COUNT] for i in range(COUNT)]
        into = [whole[(i + 1) % COUNT][(i + 1 - k) % COUNT] for i in range(COUNT)]
        prog.add(Copy(concat(out), concat(into)))


def main(
    weights: Any, data: Any, steps: int, sharded: bool, rate: float = 0.5, momentum: float = 0.9
) -> tuple[Any, Report]:
    """Return the weights after `steps` steps, and the report.

    The gradient at position i in the ring is weights * data[i]. Zeros pad the last shard.
    """
    width = -(-len(weights) // COUNT)
    device = IPUModel("ipu2", tiles_per_ipu=TILES, num_ipus=COUNT).create_device()
    graph, prog = Graph(device), Sequence()
    places = Places(graph, width)
    w, g, x, inbox = places.add("w"), places.add("g"), places.add("x"), places.add("inbox", 1)
    state = places.add("m", 1 if sharded else COUNT)
    for place, tensor in enumerate(x):
        padded = np.zeros(COUNT * width, np.float32)
        padded[: len(weights)] = data[place]
        graph.set_initial_value(tensor, padded.reshape(COUNT, width))
    home = [OWNED.index(chunk) for chunk in range(COUNT)]
    if sharded:  # a row of a buffer has all chunks, each on its IPU
        here = concat([w[home[chunk]][chunk] for chunk in range(COUNT)])
        moments = concat([state[home[chunk]].flatten() for chunk in range(COUNT)])
    else:
        here, moments = (concat([v.flatten() for v in each]) for each in (w, state))
    stored = [
        graph.add_remote_buffer(name, FLOAT, here.num_elements) for name in ("weights", "momentum")
    ]
    prog.add(Copy(stored[0], here))
    if sharded:
        gather(w, prog)
    every, all_w, all_x = (concat([v.flatten() for v in each]) for each in (g, w, x))
    prog.add(Copy(all_w, every))
    popops.mul_in_place(graph, every, all_x, prog, "gradient")
    scatter(graph, g, inbox, prog)
    if not sharded:
        gather(g, prog)
    prog.add(Copy(stored[1], moments))
    gradient = concat([g[home[c]][c] for c in range(COUNT)]) if sharded else every
    popops.mul_in_place(graph, moments, momentum, prog, "decay")
    popops.add_in_place(graph, moments, gradient, prog, "momentum")
    popops.scaled_add_to(graph, here, moments, -rate / COUNT, prog, "update")
    prog.add(Copy(moments, stored[1]))
    prog.add(Copy(here, stored[0]))
    engine = Engine(graph, prog)
    engine.load(device)
    first = np.zeros(COUNT * width, np.float32)
    first[: len(weights)] = weights
    engine.copy_to_remote_buffer(first if sharded else np.tile(first, COUNT), "weights")
    engine.copy_to_remote_buffer(np.zeros(here.num_elements, np.float32), "momentum")
    for _ in range(steps):
        engine.run()
    found = engine.copy_from_remote_buffer("weights").reshape(-1, COUNT * width)
    assert all(np.array_equal(found[0], other) for other in found)
    return found[0][: len(weights)], engine.report
