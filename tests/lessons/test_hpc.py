"""What lesson 14 expects of answers: from scipy, from the machine's own count of bytes, and for three
small graphs from counting by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from answers import run_cell
from attempts import RIGHT

from ipu_course.lesson14 import checks as lesson
from ipu_teach import FLOAT, Engine, Graph, IPUModel


def test_a_plate_is_that_of_a_convolution() -> None:
    ndimage = pytest.importorskip("scipy.ndimage")
    near = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]) / 4
    for trial in lesson._plates():
        (start, again), (right,) = trial.tensors["plate"].given, trial.tensors["plate"].right
        assert np.array_equal(start, again)  # the second run starts from the same values
        plate = np.array(start)
        for _ in range(2 * trial.more[1]):
            plate[1:-1, 1:-1] = ndimage.convolve(plate, near)[1:-1, 1:-1]
        assert np.array_equal(plate, right) and np.array_equal(right, np.float32(right))


@pytest.mark.parametrize("case", [(40, 30, 8, 4), (7, 9, 3, 2), (13, 5, 13, 1), (6, 6, 1, 1)])
def test_what_blocks_fetch_is_what_the_machine_sends(
    case: tuple[int, int, int, int], names_of: Any
) -> None:
    names = names_of("14")
    rows, columns, down, across = case
    device = IPUModel("ipu2", tiles_per_ipu=down * across).create_device()
    graph, blocks = Graph(device), lesson.blocks_of(*case)
    assert blocks == names["blocks_of"](*case)
    buffers = [graph.add_variable(FLOAT, (rows + 2, columns + 2), name) for name in "ab"]
    for tensor in buffers:
        lesson.lay(blocks, graph, tensor)
    graph.set_initial_value(buffers[0], 1)
    engine = Engine(graph, names["heat"](graph, *buffers, blocks, 1))
    engine.load_and_run(device)
    came, _ = engine.report.exchange_bytes_per_tile
    assert came.sum() == 2 * 4 * lesson.fetched(*case)


def _known(n: int, edges: list[tuple[int, int]]) -> Any:
    sparse = pytest.importorskip("scipy.sparse")
    a, b = np.array(edges).T
    table = sparse.coo_matrix((np.ones(len(a)), (a, b)), (n, n)).tocsr()
    return ((table + table.T) > 0).astype(int)


def _drawn(seed: int) -> tuple[int, list[tuple[int, int]]]:
    n = 6 + 5 * seed
    return n, lesson.some_edges(n, 8 + 9 * seed, seed)


@pytest.mark.parametrize("seed", range(6))
def test_distances_and_triangles_are_those_of_scipy(seed: int) -> None:
    csgraph = pytest.importorskip("scipy.sparse.csgraph")
    n, edges = _drawn(seed)
    rows, table = lesson.rows_of(n, edges), _known(n, edges)
    far = csgraph.shortest_path(table, unweighted=True, indices=0)
    right = [-1 if np.isinf(d) else int(d) for d in far]
    assert lesson.distances(rows, 0) == right
    table.setdiag(0)
    assert lesson.triples(rows) == (table @ table).multiply(table).sum() // 6


def test_three_small_graphs_are_those_counted_by_hand() -> None:
    by_hand = {
        "four that are all neighbours": 4,  # each three of the four
        "two triangles at one vertex": 2,
        "a square and its diagonal": 2,
    }
    counted = {t.tried.split(":")[0]: lesson.triples(t.more[0]) for t in lesson._knots()}
    assert by_hand.items() <= counted.items()


def test_a_search_of_the_lesson_finds_what_scipy_finds(names_of: Any) -> None:
    """The whole program of the lesson, dealt out by vertices and by edges, on graphs with loops and
    with vertices that nobody reaches."""
    csgraph = pytest.importorskip("scipy.sparse.csgraph")
    names = names_of("14")
    for n, edges in (_drawn(3), (40, lesson.star_of(40)), (20, [*lesson.star_of(9), (15, 15)])):
        offsets, neighbours = names["graph_of"](n, edges)
        far = csgraph.shortest_path(_known(n, edges), unweighted=True, indices=2)
        for pieces in (names["whole_rows"](offsets, 13), names["deal"](offsets.tolist(), 13)):
            found, _, _ = names["searched"](names["device"], offsets, neighbours, 2, pieces)
            assert np.array_equal(found, np.where(np.isinf(far), -1, far))
        count, _ = names["triangles"](names["device"], offsets, neighbours)
        assert count == lesson.triples(lesson.rows_of(n, edges))


def test_the_budget_of_triangles_is_5_per_cent_above_two_fingers(names_of: Any) -> None:
    (right,) = (one for one in RIGHT if one.about == "two fingers from the beginnings")
    (answer,) = run_cell(right.code, names_of("14"), "14.4")
    trial = lesson._knots()[-1]
    budget = lesson.PER_STEP * lesson.finger_steps(trial.more[0])
    assert 1.04 < budget / trial.of(answer).cycles < 1.06
