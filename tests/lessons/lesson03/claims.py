"""The comparisons in the text of lesson 03; what this file is: test_claims.py."""

import re
from collections.abc import Callable

import numpy as np
from printed import whole_numbers

from ipu_teach import FLOAT, HALF, Engine, Graph, IPUModel, Tensor
from ipu_teach.poplibs import popops
from ipu_teach.poplibs.popops import expr
from ipu_teach.program import Sequence
from ipu_teach.report import Report
from ipu_teach.types import DType

DEVICE = IPUModel("ipu2", tiles_per_ipu=13).create_device()


def _report(
    form: Callable[..., object], *shapes: tuple[int, ...], dtype: type[DType] = FLOAT
) -> Report:
    """Return the report of an operation on tensors of ones, with row i of each on tile i."""
    graph, program = Graph(DEVICE), Sequence()
    tensors: list[Tensor] = []
    for k, shape in enumerate(shapes):
        tensor = graph.add_variable(dtype, shape, f"tensor {k}")
        for row in range(shape[0]):
            graph.set_tile_mapping(tensor[row], row)
        graph.set_initial_value(tensor, 1)
        tensors.append(tensor)
    form(graph, *tensors, program)
    engine = Engine(graph, program)
    engine.load(DEVICE)
    engine.run()
    return engine.report


def every_tile_sends(outputs: dict[str, str]) -> None:
    """Every tile sends to every other tile. Only the diagonal is empty"""
    assert (
        "each of 13 tiles sends to all others: 624 bytes arrive from 156 messages"
        in (outputs["code-08"])
    )


def the_nearest_half(outputs: dict[str, str]) -> None:
    """the product has 2483, and after the cast it is 2484."""
    assert re.findall(r"2483|2484", outputs["code-12"]) == ["2483", "2484"]
    assert np.float16(2483) == 2484


def nothing_is_sent(outputs: dict[str, str]) -> None:
    """with the reference answer, they are about three times as many as by rows."""
    by_rows, mapped = (
        whole_numbers(row) for row in re.findall(r".*bytes are sent.*", outputs["code-21"])
    )
    assert mapped[0] == 0 < by_rows[0] and 2.8 < mapped[1] / by_rows[1] < 3.3


def fused_takes_half(outputs: dict[str, str]) -> None:
    """The fused call takes about half of the cycles, and the results have the same bits."""
    four, _, one, _ = whole_numbers(outputs["code-27"].partition("bits:")[2])
    assert "the same bits: True" in outputs["code-27"] and 0.45 < one / four < 0.55


def two_ways_to_add_up(outputs: dict[str, str]) -> None:
    """For 52 numbers, the library sends all of them and needs one compute set. That sends more bytes
    than the two calls above, but takes fewer cycles than their 896"""
    few, many = (whole_numbers(row) for row in outputs["code-32b"].strip().splitlines())
    two_calls = re.findall(r"2 supersteps on 13 tiles, (\d+) modelled cycles", outputs["code-32"])[
        0
    ]
    assert few[3] == 1 and few[1] == 48 * 4 and few[2] < int(two_calls)
    assert many[1] == 12 * 4 and many[3] == 2


def two_numbers_from_each_tile(outputs: dict[str, str]) -> None:
    """Each tile except one sent two FLOATs"""
    assert "and 96 bytes are sent" in outputs["code-36"] and 96 == 12 * 2 * 4
    assert "mean 41.5, variance 8.87" in outputs["code-36"]
    assert "numpy: 41.5 and 8.87" in outputs["code-36"]


def the_same_seed(outputs: dict[str, str]) -> None:
    """The first and the third run have the same seed, so the same numbers become 0. With another seed,
    other numbers do."""
    first, second, third = re.findall(r"\(\d, \d\) (.*)", outputs["code-40"])
    assert first == third != second


def estimates_of_the_library(outputs: dict[str, str]) -> None:
    """adding 1,000 FLOATs on a tile takes 1,697 cycles, dividing them 5,225, and adding 1,000 HALFs
    923."""
    cycles = [
        _report(form, (1, 1000), (1, 1000), dtype=dtype).compute_sets[0].cost.compute_duration
        for form, dtype in ((popops.add, FLOAT), (popops.div, FLOAT), (popops.add, HALF))
    ]
    assert cycles == [1697, 5225, 923]


def two_more_calls(outputs: dict[str, str]) -> None:
    """two more calls take 1,710 cycles in three compute sets. Within the expression it is 1,248 cycles
    in one compute set."""
    length = expr.Sqrt(expr._1 * expr._1 + expr._2 * expr._2)
    doubled = expr.Sqrt(2 * expr._1 * (2 * expr._1) + 2 * expr._2 * (2 * expr._2))

    def by_calls(graph: Graph, x: Tensor, y: Tensor, program: Sequence) -> None:
        both = [popops.mul(graph, tensor, 2, program) for tensor in (x, y)]
        popops.map(graph, length, both, program)

    def by_expression(graph: Graph, x: Tensor, y: Tensor, program: Sequence) -> None:
        popops.map(graph, doubled, [x, y], program)

    reports = [_report(form, (13, 100), (13, 100)) for form in (by_calls, by_expression)]
    assert [report.total_cycles for report in reports] == [1710, 1248]
    assert [len(report.compute_sets) for report in reports] == [3, 1]


def four_compute_sets(outputs: dict[str, str]) -> None:
    """Four compute sets in place of five."""
    assert "['reduce', 'sub', 'exp', 'reduce', 'div']" in outputs["code-17"]


def eight_bytes_each(outputs: dict[str, str]) -> None:
    """Twelve tiles send 8 bytes each to tile 0, which are two FLOATs."""
    ways = [popops.ReduceParams(word) for word in ("ADD", "SQUARE_ADD")]

    def moments(graph: Graph, x: Tensor, program: Sequence) -> None:
        both = [popops.SingleReduceOp(x, [0, 1], params, FLOAT) for params in ways]
        popops.reduce_many(graph, both, program)

    received, sent = _report(moments, (13, 250), dtype=HALF).exchange_bytes_per_tile
    assert sent.tolist() == [0] + [8] * 12 and received.tolist() == [96] + [0] * 12
