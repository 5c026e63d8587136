"""The comparisons in the text of lesson 04; what this file is: test_claims.py."""

import re

import numpy as np
from printed import whole

from ipu_teach import FLOAT, Engine, Graph, Input, IPUModel, Output, Vector, Vertex, observe
from ipu_teach.program import Execute, Sequence


def _cycles(output: str, pattern: str) -> int:
    match = re.search(pattern, output)
    assert match is not None, pattern
    return whole(match[1])


def the_seventh_waits(outputs: dict[str, str]) -> None:
    """and six vertices take no longer than one."""
    one, seven = (
        _cycles(outputs["code-06c"], rf"{name}: ([\d,]+)") for name in ("one vertex", "seven")
    )
    assert 0 < one < seven == 2 * one  # 7 vertices are two rounds of six workers
    assert "7 vertices on 6 workers" in outputs["code-06"]


def no_faster_alone(outputs: dict[str, str]) -> None:
    """cycles of the tile = 6 x cycles of its busiest worker"""
    assert "it takes 1,152 modelled cycles = 6 x 192, its busiest worker" in outputs["code-06"]


def the_second_run_continues(outputs: dict[str, str]) -> None:
    """The second run continues where the first one ended."""
    assert "[2, 6, 5, 3, 5] gives [5. 6. 6. 6. 6.]" in outputs["code-11"]


def three_cycles_for_the_if(outputs: dict[str, str]) -> None:
    """So the line with the `if` costs three cycles"""
    rows = re.findall(r"(\d+) +(\d+) +[\d.]+ % +(\d): (\S+)", outputs["code-14"])
    cost = {line: (int(cycles), int(times)) for times, cycles, line, _ in rows}
    assert cost["4"][0] == 3 * cost["4"][1] and cost["3"][0] == 0  # the if; counting is free
    assert cost["5"][0] == cost["5"][1] < cost["4"][1]  # "An iteration that finds a new largest"
    assert re.search(r"\b5 +16.7 % +start of vertices", outputs["code-14"])


def six_workers_are_faster(outputs: dict[str, str]) -> None:
    """Still, they need less than a third of the time."""
    one, six = (_cycles(outputs["code-25"], rf"{name} +([\d,]+)") for name in ("in_one", "in_six"))
    assert six < one / 3


def three_results(outputs: dict[str, str]) -> None:
    """We get three different results."""
    rows = re.findall(r"\[(.*?)\]", outputs["code-28"])
    assert len(rows) == len({tuple(map(float, row.split())) for row in rows}) == 3
    assert list(map(float, rows[0].split())) == [0.5, 2.5, 6.5, 12.5, 20.5, 30.5]


def an_error_by_default(outputs: dict[str, str]) -> None:
    """Then this program ends with an error:"""
    assert "is written by one vertex and read by another" in outputs["code-30"]


def the_same_in_any_order(outputs: dict[str, str]) -> None:
    """Now the result is the same in any order."""
    rows = re.findall(r"\[ *(.*?) *\]", outputs["code-34"])[:3]
    assert len(rows) == 3 and len({tuple(map(float, row.split())) for row in rows}) == 1


def the_price_is_a_superstep(outputs: dict[str, str]) -> None:
    """it is the first superstep in the picture, and costs memory and cycles."""
    assert "A run of 2 supersteps" in outputs["code-34"] and "'a' to 'clone'" in outputs["code-34"]


def right_about_three(outputs: dict[str, str]) -> None:
    """`accepts` is right about all three"""
    assert "{'PrefixMax': True, 'Peaks': True, 'RunningSum': False}" in outputs["code-40"]


def the_estimate_is_right(outputs: dict[str, str]) -> None:
    """Both lines agree. Only 7 of the 600 numbers are a new largest one."""
    estimate = _cycles(outputs["code-45"], r"times 6: ([\d,]+)")
    assert estimate == _cycles(outputs["code-45"], r"engine: +([\d,]+)")
    assert "7 of 600 numbers" in outputs["code-45"]


class _Largest(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):  # type: ignore[no-untyped-def]
        self.out = np.max(self.x)


class _PrefixFrom(Vertex):
    before: Input[Vector[FLOAT]]
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self):  # type: ignore[no-untyped-def]
        best = -np.inf
        for i in range(len(self.before)):
            best = np.maximum(best, self.before[i])
        for i in range(len(self.x)):
            if self.x[i] > best:
                best = self.x[i]
            self.out[i] = best


class _PrefixByMaximum(_PrefixFrom):
    def compute(self):  # type: ignore[no-untyped-def]
        best = -np.inf
        for i in range(len(self.before)):
            best = np.maximum(best, self.before[i])
        for i in range(len(self.x)):
            best = np.maximum(best, self.x[i])
            self.out[i] = best


def _in_six(prefix_from: type[Vertex]) -> float:
    """Return the modelled cycles of the reference answer of 04.2 with these codelets."""
    device = IPUModel("ipu2", tiles_per_ipu=13).create_device()
    graph = Graph(device)
    x, out = (graph.add_variable(FLOAT, (600,), name) for name in ("x", "out"))
    maxima = graph.add_variable(FLOAT, (6,), "maxima")
    largest, prefix = graph.add_compute_set("largest"), graph.add_compute_set("prefix")
    vertices = []
    for k in range(6):
        piece = slice(100 * k, 100 * k + 100)
        vertices.append(graph.add_vertex(largest, _Largest, x=x[piece], out=maxima[k]))
        fields = {"before": maxima[:k], "x": x[piece], "out": out[piece]}
        vertices.append(graph.add_vertex(prefix, prefix_from, fields))
    for part in (x, out, maxima, *vertices):
        graph.set_tile_mapping(part, 0)
    graph.set_initial_value(x, np.random.default_rng(4).integers(0, 9999, 600))
    engine = Engine(graph, Sequence(Execute(largest), Execute(prefix)))
    engine.load_and_run(device)
    return engine.report.total_cycles


def one_instruction_for_each_maximum(outputs: dict[str, str]) -> None:
    """`Largest` takes 112 worker cycles for 100 numbers. `in_six` takes 3,368 cycles in place of
    4,586. (If `in_six` is the reference answer, its cycles do not change, because it has a `Largest`
    of its own.)
    * With both changes, `in_six` takes 2,762 cycles."""
    assert observe(_Largest, x=np.arange(100.0)).cycles == 112
    assert _cycles(outputs["code-25"], r"in_six +([\d,]+)") == 4_586
    assert (_in_six(_PrefixFrom), _in_six(_PrefixByMaximum)) == (3_368, 2_762)
