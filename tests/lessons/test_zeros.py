"""What lesson 12 expects of answers: from the kit's own partitioner and plans, and from all ways that
rows can be dealt out."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from ipu_course.lesson12 import checks as lesson
from ipu_teach import FLOAT, HALF, IPUModel
from ipu_teach.poplibs.popsparse import COOMatrix, dynamic, static


def test_steps_block_by_block_are_those_of_the_partitioner() -> None:
    target = IPUModel("ipu2", tiles_per_ipu=13).create_device().target
    params = dynamic.MatMulParams.create_with_num_non_zero_values(60, 64, 8, 60 * 16, (4, 4))
    partitioner = dynamic.Partitioner(params, FLOAT, target)
    cut, found = partitioner.cut, set()
    for crowd in range(12):
        csr = lesson.drawn(15, 16, 4, 60 - 2 * crowd, crowd, range(crowd))
        rows, columns = (
            np.searchsorted([end for _, end in cuts], places, "right")
            for cuts, places in ((cut.rows, csr.rows), (cut.columns, csr.columns))
        )
        counts = np.bincount(rows * cut.column_parts + columns, minlength=cut.num_buckets)
        rounds = lesson.rounds(counts.tolist(), cut.slots)
        assert rounds == partitioner.encode(csr).rounds
        found.add(rounds)
    assert len(found) > 3


def test_where_sparse_overtakes_dense_is_where_the_plans_of_patterns_cross() -> None:
    target = IPUModel("bow").create_device().target
    for size, n, block in ((512, 256, 1), (512, 128, 4), (64, 1024, 16)):
        side, quick = size // block, {}
        for density in lesson.DENSITIES:
            places = np.arange(0, side * side, round(1 / density))
            values = np.zeros((len(places), block, block), np.float16)
            shape = (size, size), places // side, places % side
            csr = COOMatrix(*shape, values, (block, block)).to_csr()
            plan = static.plan_sparse_dense(csr, n, target, dtype=HALF, partials_type=HALF)
            quick[density] = plan.cycles
        dense = lesson.plan_mat_mul(size, size, n, target, dtype=HALF, partials_type=HALF).cycles
        assert lesson.overtakes(size, n, block) == max(d for d in quick if quick[d] < dense)


def test_the_least_of_the_fullest_is_that_of_all_ways_in_order() -> None:
    draw = np.random.default_rng(1)
    for parts in (1, 2, 3, 5):
        counts = draw.integers(0, 9, 8).tolist()
        ways = combinations(range(len(counts) + parts), parts - 1)  # of putting parts - 1 bars
        ends = [[0, *(bar - i for i, bar in enumerate(way)), len(counts)] for way in ways]
        loads = (
            max(sum(counts[a:b]) for a, b in zip(way, way[1:], strict=False))
            for way in ends
            if max(way) <= len(counts)
        )
        assert lesson.least(counts, parts) == min(loads)
