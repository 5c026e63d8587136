"""The programs behind the published profiles, and functions that profile them without a run.

A profile needs no values: a program is compiled, and the costs of its steps are added up in the
order in which they would run. So a program with gigabytes of data needs memory only for its graph.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping

from ipu_teach.compile import compile_programs
from ipu_teach.compile.programs import Node
from ipu_teach.cost import CostModel
from ipu_teach.device import Device, IPUModel
from ipu_teach.engine import Engine
from ipu_teach.graph import Graph, InOut, SupervisorVertex, Vertex
from ipu_teach.graph.vertex_table import FieldValue
from ipu_teach.poplibs import poplin, poputil
from ipu_teach.program import Execute, Program, Repeat, Sequence
from ipu_teach.report import CompiledProfile, Report, StepLog
from ipu_teach.target import Target
from ipu_teach.types import FLOAT, INT, UNSIGNED_INT

# The reason why the cycles of an exchange differ from a published profile.
UNPUBLISHED_SCHEDULE = (
    "Poplar's schedule of sends is not published; the model has a perfect schedule, "
    "without collisions between senders"
)


def machine(version: str, **changes: object) -> Target:
    """Return the target of a full chip of the given version, with `changes` to its fields."""
    return IPUModel(version, **changes).create_device().target


def profile(graph: Graph, program: Program, repeats: int | None = None) -> Report:
    """Return the report of `program` as if it had run once.

    The program may contain sequences and counted loops, but no branches. If `repeats` is given,
    every loop runs that many times.
    """
    compiled = compile_programs(graph, [program])
    log = StepLog()
    log.add(array("i", _steps(compiled.programs[0], repeats)))
    return Report(CompiledProfile(CostModel(compiled)), log.snapshot())


def _steps(node: Node, repeats: int | None) -> Iterator[int]:
    if node.step >= 0:
        yield node.step
    else:
        for _ in range((repeats or node.count) if node.kind == "Repeat" else 1):
            for child in node.children:
                yield from _steps(child, repeats)


# --- profiling: graphcore/tutorials, tutorials/poplar/tut4_profiling ------------------------------


def chained_products(target: Target) -> tuple[Graph, Program]:
    """Build three matrices multiplied in a chain: 800 x 500, 500 x 400, 400 x 200."""
    graph = Graph(target)
    program = Sequence()
    matrices = []
    for name, shape in (("m1", (800, 500)), ("m2", (500, 400)), ("m3", (400, 200))):
        matrices.append(graph.add_variable(FLOAT, shape, name))
        poputil.map_tensor_linearly(graph, matrices[-1])
    m4 = poplin.mat_mul(graph, matrices[0], matrices[1], program, "m4")
    poplin.mat_mul(graph, m4, matrices[2], program, "m5")
    return graph, program


# --- lightweight profiling: graphcore/examples, tutorials/popvision/lightweight_profiling ---------


class CountToHundred(SupervisorVertex):
    """A vertex that counts to a hundred and writes nothing."""

    def compute(self) -> None:
        return


def operations(target: Target, count: int, cycles: int = 3600) -> tuple[Graph, Program]:
    """Build `count` compute sets in sequence, each with one vertex of `cycles` on tile 0."""
    graph = Graph(target)
    program = Sequence()
    for number in range(count):
        compute_set = graph.add_compute_set(f"op{number + 1}")
        vertex = graph.add_vertex(compute_set, CountToHundred)
        graph.set_tile_mapping(vertex, 0)
        graph.set_perf_estimate(vertex, cycles)
        program.add(Execute(compute_set))
    return graph, program


class Growing(SupervisorVertex):
    """The tutorial's vertex whose time depends on its data.

    It counts to a hundred in memory, and makes one more pass in each execution.
    """

    iterations: InOut[UNSIGNED_INT]
    counter: InOut[INT]

    def compute(self) -> None:
        done = 0
        while done < self.iterations:
            self.counter = 0
            while self.counter < 100:
                self.counter += 1
            done += 1
        self.iterations += 1


def growing(target: Target, times: int = 5) -> list[float]:
    """Return the modelled cycles of each of `times` executions of `Growing`.

    The cycles depend on data, so the program is run.
    """
    graph = Graph(target)
    iterations = graph.add_variable(UNSIGNED_INT, (), "iterations")
    counter = graph.add_variable(INT, (), "counter")
    compute_set = graph.add_compute_set("operation")
    vertex = graph.add_vertex(compute_set, Growing, iterations=iterations, counter=counter)
    for tensor in (iterations, counter):
        graph.set_tile_mapping(tensor, 0)
    graph.set_tile_mapping(vertex, 0)
    graph.set_initial_value(iterations, 1)
    graph.set_initial_value(counter, 0)
    engine = Engine(
        graph, Repeat(times, Execute(compute_set)), {"profiler.programs.filter": "operation"}
    )
    engine.load_and_run(Device(target))
    return [block.cycles for block in engine.report.execution.blocks()]


# --- one vertex, run ------------------------------------------------------------------------------


def one_vertex(
    codelet: type[Vertex],
    fields: Mapping[str, FieldValue],
    version: str = "ipu2",
    **changes: object,
) -> int:
    """Return the tile cycles of one vertex that runs alone on a machine of one tile.

    `fields` has the shapes of the tensors for its edges, and the values of its state.
    """
    graph = Graph(machine(version, tiles_per_ipu=1, **changes))
    edges = dict(fields)
    for field in codelet.fields.values():
        if field.kind != "state":
            tensor = graph.add_variable(field.dtype, fields[field.name], field.name)  # type: ignore[arg-type]
            graph.set_tile_mapping(tensor, 0)
            graph.set_initial_value(tensor, 1)
            edges[field.name] = tensor
    compute_set = graph.add_compute_set("one")
    graph.set_tile_mapping(graph.add_vertex(compute_set, codelet, edges), 0)
    engine = Engine(graph, Execute(compute_set))
    engine.load_and_run(Device(graph.target))
    return int(engine.report.compute_cycles_per_tile[0])
