"""Score the similarity of two strands of letters by aligning them from their first letters.

A match counts 1. A letter that differs, or that one strand lacks, counts -1. Cell (i, j) of a table
has the best score of the first i letters of one strand and the first j letters of the other. The
table is computed diagonal by diagonal, each from the two diagonals before it. A score that is more
than `DROP` below the best score of the previous diagonals is dropped. The computation ends at the
first diagonal on which all scores are dropped.

Paper: "Space Efficient Sequence Alignment for SRAM-Based Computing: X-Drop on the Graphcore IPU",
Luk Burchard, Max Xiaohang Zhao, Johannes Langguth and others.

It is right, and slow. Where the time goes is for you to find.
"""

from __future__ import annotations

import numpy as np

from ipu_teach import INT, Device, Engine, Graph, Input, Output, Report, Target, Vector, Vertex
from ipu_teach.poplibs import poputil
from ipu_teach.program import Execute

Data = dict[str, np.ndarray]
DROP = 6
NEVER = -(10**6)  # The score of cells that were dropped.


class Extend(Vertex):
    """Computes the best alignment score of one pair of strands."""

    a: Input[Vector[INT]]
    b: Input[Vector[INT]]
    best: Output[INT]

    def compute(self) -> None:
        # The three rows contain the last three diagonals. A new diagonal replaces the oldest one.
        scores = np.full((3, len(self.a) + 1), NEVER, np.int32)
        scores[0, 0] = 0
        best = 0
        remaining = 1
        d = 0
        while remaining > 0 and d < len(self.a) + len(self.b):
            d += 1
            now = d % 3
            last = (d - 1) % 3
            before = (d - 2) % 3
            remaining = 0
            reached = best
            for i in range(len(self.a) + 1):
                j = d - i  # The cell of the first i letters of a and j letters of b.
                score = NEVER
                if 0 <= j <= len(self.b):
                    if i > 0:
                        score = scores[last, i - 1] - 1
                    if j > 0:
                        score = max(score, scores[last, i] - 1)
                    if i > 0 and j > 0:
                        step = 1 if self.a[i - 1] == self.b[j - 1] else -1
                        score = max(score, scores[before, i - 1] + step)
                if score < best - DROP:
                    score = NEVER
                else:
                    remaining += 1
                    reached = max(reached, score)
                scores[now, i] = score
            best = reached
        self.best = best


def make(seed: int = 1, pairs: int = 104) -> Data:
    """Return `a` and `b`, int32: the first and the second strands of all pairs, one after another.

    The letters are the numbers 0 to 3. The two strands of a pair have the same length, and
    `lengths` has this length for each pair. The longest pairs come first.
    """
    rng = np.random.default_rng(seed)
    lengths = np.sort(rng.geometric(0.05, pairs).clip(4, 40))[::-1]
    a = rng.integers(0, 4, lengths.sum(), np.int32)
    b = np.where(rng.random(len(a)) < 0.1, rng.integers(0, 4, len(a), np.int32), a)
    return {"a": a, "b": b, "lengths": lengths}


def run(target: Target, data: Data | None = None) -> tuple[Report, Data]:
    """Return the report of a run, and its results: `scores`, int32 [pairs].

    A score is the best alignment score of the two strands of a pair.
    """
    data = data or make()
    graph = Graph(target)
    lengths = data["lengths"]
    a, b = (graph.add_variable(INT, data[name].shape, name) for name in "ab")
    scores = graph.add_variable(INT, lengths.shape, "scores")
    for tensor in (a, b, scores):
        poputil.map_tensor_linearly(graph, tensor)
    extend = graph.add_compute_set("extend")
    for pair, end in enumerate(np.cumsum(lengths)):
        letters = slice(end - lengths[pair], end)
        vertex = graph.add_vertex(extend, Extend, a=a[letters], b=b[letters], best=scores[pair])
        graph.set_tile_mapping(vertex, pair * target.num_tiles // len(lengths))
    graph.set_initial_value(a, data["a"])
    graph.set_initial_value(b, data["b"])
    graph.create_host_read("scores", scores)
    engine = Engine(graph, Execute(extend))
    engine.load_and_run(Device(target))
    return engine.report, {"scores": engine.read_tensor("scores")}


def expected(data: Data) -> Data:
    """Return the results of `run`, computed by numpy, a whole diagonal at a time.

    The results of `run` must be equal to these.
    """
    best_scores = []
    cuts = np.cumsum(data["lengths"])[:-1]
    for a, b in zip(np.split(data["a"], cuts), np.split(data["b"], cuts), strict=True):
        n = len(a)
        i = np.arange(len(a) + 1)
        best = 0
        before, last = np.full((2, n + 1), NEVER)
        last[0] = 0
        for d in range(1, 2 * n + 1):
            step = np.where(a[(i - 1) % n] == b[(d - i - 1) % n], 1, -1)
            now = np.maximum(np.roll(last, 1), last) - 1
            now = np.maximum(now, np.roll(before, 1) + step)
            now[(i > d) | (i < d - n) | (now < best - DROP)] = NEVER
            before, last, best = last, now, max(best, now.max())
            if now.max() == NEVER:
                break
        best_scores.append(best)
    return {"scores": np.array(best_scores, np.int32)}
