"""The judge of every way of running, which shares no code with them, is itself looked at by hand.
What it judges: test_fuzz."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import judge as judge_module
import numpy as np
import pytest
import recording
from fuzz.pool import Kept
from judge import Judge

from ipu_teach import (
    BOOL,
    FLOAT,
    INT,
    Graph,
    InOut,
    Input,
    IPUModel,
    MultiVertex,
    Output,
    Vector,
    Vertex,
)
from ipu_teach.errors import ComputeSetRaceError, UninitialisedReadError
from ipu_teach.program import Copy, Execute, Sequence


class Product(Vertex):
    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self) -> None:
        self.out = self.a @ self.b


class Total(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self) -> None:
        self.out = self.x.sum()


def test_the_judge_itself_is_right_about_a_product() -> None:
    """By numpy and by hand, as nobody judges the judge: 4 rows on tiles 0 and 1, a vector on tile
    2, the sum on tile 0."""
    device = IPUModel(tiles_per_ipu=3).create_device()
    graph = Graph(device)
    matrix, vector = (
        graph.add_variable(FLOAT, (4, 8), "matrix"),
        graph.add_variable(FLOAT, (8,), "vector"),
    )
    result, total = (
        graph.add_variable(FLOAT, (4,), "result"),
        graph.add_variable(FLOAT, (), "total"),
    )
    values, weights = (
        np.arange(32, dtype=np.float32).reshape(4, 8) / 3,
        np.arange(8, dtype=np.float32) / 7,
    )
    graph.set_initial_value(matrix, values)
    graph.set_initial_value(vector, weights)
    graph.set_tile_mapping(vector, 2)
    graph.set_tile_mapping(total, 0)
    products, sums = graph.add_compute_set("products"), graph.add_compute_set("sums")
    for row in range(4):
        vertex = graph.add_vertex(products, Product, a=matrix[row], b=vector, out=result[row])
        for part in (vertex, matrix[row], result[row]):
            graph.set_tile_mapping(part, row // 2)
    graph.set_tile_mapping(graph.add_vertex(sums, Total, x=result, out=total), 2)
    judge = Judge(graph)
    judge.run(Sequence(Execute(products), Execute(sums)))
    expected = np.array([row @ weights for row in values])
    np.testing.assert_array_equal(judge.read(result), expected)
    np.testing.assert_array_equal(judge.read(total), expected.sum())
    assert judge.steps == [("products", {0: 32, 1: 32}), ("sums", {2: 16, 0: 4})]


@pytest.mark.parametrize(
    ("conditions", "copied"),
    [([True, True], [3.0, 4.0]), ([True, False], UninitialisedReadError)],
    ids=["all", "some"],
)
def test_the_judge_knows_each_element_that_was_stored(conditions: list[bool], copied: Any) -> None:
    graph = Graph(IPUModel(tiles_per_ipu=1).create_device())
    x, keep = graph.add_variable(FLOAT, (2,), "x"), graph.add_variable(BOOL, (2,), "keep")
    out, other = graph.add_variable(FLOAT, (2,), "out"), graph.add_variable(FLOAT, (2,), "other")
    for tensor in (x, keep, out, other):
        graph.set_tile_mapping(tensor, 0)
    graph.set_initial_value(x, [3, 4])
    graph.set_initial_value(keep, conditions)
    store = graph.add_compute_set("store")
    graph.set_tile_mapping(graph.add_vertex(store, Kept, x=x, keep=keep, out=out), 0)
    judge = Judge(graph)
    judge.run(Execute(store))
    assert judge.defined[np.asarray(out.positions()) * 4].tolist() == conditions
    if copied is UninitialisedReadError:
        with pytest.raises(UninitialisedReadError, match="'out'"):
            judge.run(Copy(out, other))
    else:
        judge.run(Copy(out, other))
        assert judge.read(other).tolist() == copied


class Neighbours(MultiVertex):
    """Two workers, one element each. What the first does with the other's is chosen."""

    deed: Input[INT]
    x: InOut[Vector[FLOAT]]

    def compute(self, worker_id: int) -> None:
        if worker_id > 1:
            return
        if worker_id == 0 and self.deed:
            DEEDS[self.deed](self.x)
        self.x[worker_id] = 3


def _store(x: Any) -> None:
    x[1] = 2


def _add(x: Any) -> None:
    x[1:] += 1


DEEDS: list[Any] = [
    None,
    _store,
    _add,
    lambda x: x[-1],
    sum,
    np.sum,
    lambda x: x.max(),
    lambda x: x * 2,
    lambda x: x.copy(),
]
DEEDS += [lambda x: x[:1] + 1, lambda x: len(x), lambda x: list(x[:1])]


@pytest.mark.parametrize("deed", range(len(DEEDS)))
def test_the_judge_knows_when_workers_meet(deed: int) -> None:
    graph = Graph(IPUModel(tiles_per_ipu=1).create_device())
    x, told = graph.add_variable(FLOAT, (2,), "x"), graph.add_variable(INT, (), "told")
    for tensor, value in ((x, 1), (told, deed)):
        graph.set_tile_mapping(tensor, 0)
        graph.set_initial_value(tensor, value)
    work = graph.add_compute_set("work")
    graph.set_tile_mapping(graph.add_vertex(work, Neighbours, deed=told, x=x), 0)
    judge = Judge(graph)
    if 0 < deed < 9:
        with pytest.raises(ComputeSetRaceError, match="two workers of Neighbours"):
            judge.run(Execute(work))
    else:
        judge.run(Execute(work))
        assert judge.read(x).tolist() == [3, 3]


def test_the_judge_imports_nothing_that_it_judges() -> None:
    texts = [
        Path(module.__file__ or "").read_text(encoding="utf-8")
        for module in (judge_module, recording)
    ]
    assert len(texts[0].splitlines()) <= 300
    assert not any(
        f"ipu_teach.{room}" in text
        for text in texts
        for room in ("compile", "cost", "engine", "report")
    )
