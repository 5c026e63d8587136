"""The matrix-vector tutorial against the figures that Graphcore published for it.

Planner costs and profile: graphcore/examples, tutorials/poplar/tut6_matrix_vector_opt (README and
its expected output).
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator

import numpy as np
import pytest

from ipu_teach import Engine, Graph, IPUModel, Report, Target, print_profile_summary
from ipu_teach.types import Array
from validation import tut6
from validation.programs import profile

ROWS, COLS = 10_000, 1_000


def target(version: str) -> Target:
    return IPUModel(version).create_device().target


def best_plan(rows: int, cols: int, target: Target) -> tut6.PhaseEstimates:
    return min(tut6.plans(rows, cols, target), key=lambda plan: plan.total)


def test_the_planner_chooses_what_the_tutorial_chose() -> None:
    machine = target("ipu2")
    assert machine.num_tiles == 1472
    best = best_plan(ROWS, COLS, machine)
    assert best == tut6.PhaseEstimates(
        split=7, multiply=3696, exchange=143, reduce_exchange=49, reduce=108
    )
    assert best.total == 3996
    assert max(plan.total for plan in tut6.plans(ROWS, COLS, machine)) == 53_807


def test_the_planner_on_the_first_generation() -> None:
    """The worst total is published; the best follows from the same formulae."""
    machine = target("ipu1")
    assert machine.num_tiles == 1216
    assert max(plan.total for plan in tut6.plans(ROWS, COLS, machine)) == 64_373
    best = best_plan(ROWS, COLS, machine)
    assert (best.split, best.total) == (5, 4751)


@pytest.mark.parametrize("version", ["ipu1", "ipu2", "bow"])
def test_the_planner_is_its_formulae(version: str) -> None:
    machine = target(version)
    tiles = machine.num_tiles
    for rows, cols, split in [
        (1, 2, 1),
        (7, 5, 4),
        (1000, 100, 13),
        (10_000, 1_000, 999),
        (3, 5000, 17),
        (1472, 1216, 2),
    ]:
        pieces, piece = -(-rows * split // tiles), -(-cols // split)
        sums = -(-rows // tiles)
        assert tut6.estimate(rows, cols, split, machine) == tut6.PhaseEstimates(
            split,
            -(-pieces // 6) * 6 * (5 + (piece + 1) // 2),
            -(-pieces // rows) * piece,
            sums * split,
            -(-sums // 6) * 6 * (5 + (split + 1) // 2),
        )


# What the tutorials print, each number as the letter N, in the widths of the print: "Execution" of
# tut6's README (SDK 3), the vertex types of the same program's older README (SDK 1), and "Graph"
# and "Target" of a program on a Bow-2000.
PRINTED = """\
  Total cycles:                                         N (approx N microseconds)
  Tile average compute cycles (including idle threads): N (N% of total)
  Tile average compute cycles (excluding idle threads): N (N% of total)
  Tile average IPU exchange cycles:                     N (N% of total)
  Tile average global exchange cycles:                  N (N% of total)
  Tile average host exchange cycles:                    N (N% of total)
  Tile average sync cycles:                             N (N% of total)
"""
VERTEX_TYPES = """\
  DotProductVertex            (50000 instances):    5,250,000
  ReduceVertex                (10000 instances):       80,000
  poplar_rt::ShortMemcpy         (63 instances):        4,536
"""
GRAPH = """\
  Number of vertices:            5,466
  Number of edges:              16,256
  Number of variables:          41,059
  Number of compute sets:           20
"""


def test_the_summary_has_poplars_lines() -> None:
    """Words and widths of every line that Poplar prints too; beside the total stands that it is
    modelled."""
    graph = Graph(IPUModel("ipu2", tiles_per_ipu=4).create_device())
    report = profile(graph, tut6.build(graph, 40, 24, 2))

    def printed(section: str) -> list[str]:
        out = io.StringIO()
        print_profile_summary(report, [section], file=out)
        return out.getvalue().splitlines()[1:]

    numbers = [
        re.sub(r"[0-9][0-9,.]*", "N", line).replace(", modelled)", ")")
        for line in printed("Execution")
    ]
    assert numbers[: len(PRINTED.splitlines())] == PRINTED.splitlines()
    places = [
        (line.index("("), line.index(":  "), len(line)) for line in VERTEX_TYPES.splitlines()[:2]
    ]
    assert {place[1:] for place in places} == {(47, 61)}
    for line in printed("Cycles by vertex type"):
        assert (line.index(":  "), len(line)) == (47, 61) and re.fullmatch(
            r"  \w+ +\(\d+ instances\): +[0-9,]+", line
        )
    for ours, theirs in zip(printed("Graph"), GRAPH.splitlines(), strict=True):
        assert ours[:24] == theirs[:24] and len(ours) == len(theirs)


class Ran:
    """The tutorial's program, run once on the full chip."""

    def __init__(self) -> None:
        device = IPUModel("ipu2", relative_sync_delay="NO_DELAY").create_device()
        graph = Graph(device.target)
        program = tut6.build(graph, ROWS, COLS, best_plan(ROWS, COLS, device.target).split)
        random = np.random.default_rng(6)
        self.matrix = random.standard_normal((ROWS, COLS), dtype=np.float32)
        self.vector = random.standard_normal(COLS, dtype=np.float32)
        self.report: Report
        self.result, self.looped = (
            self.run(Engine(graph, program, vertex_loop=way), device) for way in (False, True)
        )

    def run(self, engine: Engine, device: object) -> Array:
        result = np.full(ROWS, np.nan, np.float32)
        engine.load(device)  # type: ignore[arg-type]
        for handle, array in (("matrix", self.matrix), ("vector", self.vector), ("result", result)):
            engine.connect_stream(handle, array)
        engine.run()
        self.report = engine.report
        return result


@pytest.fixture(scope="module")
def ran() -> Iterator[Ran]:
    yield Ran()


def test_the_result(ran: Ran) -> None:
    assert ran.result.tobytes() == ran.looped.tobytes()
    exact = ran.matrix.astype(np.float64) @ ran.vector.astype(np.float64)
    np.testing.assert_allclose(ran.result, exact, rtol=1e-4, atol=1e-3)


def test_the_graph(ran: Ran) -> None:
    assert ran.report.vertex_counts() == {"DotProduct": 70_000, "Sum": 10_000}
    assert ran.report.graph_size()["edges"] == 230_000
    assert ran.report.global_exchange_cycles == 0
    assert ran.report.host_bytes == 4 * (ROWS * COLS + COLS + ROWS)


@pytest.mark.parametrize(
    ("figure", "published", "within"),
    [
        ("Tile average compute cycles (including idle threads)", 3_801.8, 0.005),
        ("Tile average compute cycles (excluding idle threads)", 3_717.6, 0.001),
        ("Tile average IPU exchange cycles", 8_697.4, 0.12),
        ("Tile average host exchange cycles", 6_663_550.8, 0.002),
        ("Tile average sync cycles", 1_134.8, 0.05),
    ],
)
def test_the_published_profile(
    ran: Ran, figure: str, published: float, within: float, capsys: pytest.CaptureFixture[str]
) -> None:
    modelled = {
        "Tile average compute cycles (including idle threads)": ran.report.compute_cycles_per_tile.mean(),
        "Tile average compute cycles (excluding idle threads)": ran.report.active_cycles_per_tile.mean(),
        "Tile average IPU exchange cycles": ran.report.exchange_cycles_per_tile.mean(),
        "Tile average host exchange cycles": ran.report.host_exchange_cycles,
        "Tile average sync cycles": ran.report.sync_cycles_per_tile.mean(),
    }[figure]
    assert modelled == pytest.approx(published, rel=within)
    print_profile_summary(ran.report, ["Execution"])
    line = next(
        line for line in capsys.readouterr().out.splitlines() if line.strip().startswith(figure)
    )
    assert f" {modelled:,.1f} " in line


def test_the_exchange_is_mostly_the_streamed_matrix(ran: Ran) -> None:
    """Each tile gets its 6,794 numbers from where the host's packets landed; that is most of what
    is published."""
    matrix = next(step for step in ran.report.steps() if step.name == "matrix")
    (exchange,) = matrix.cost.exchange
    # All but what happened to land on its own tile: one part in 1,472, more or less.
    assert 0.99 * 4 * ROWS * COLS < exchange.total < 4 * ROWS * COLS
    assert exchange.received.max() <= 4 * 48 * 143  # 48 pieces of a row at most
    assert matrix.cost.exchange_cycles.mean() > 0.85 * ran.report.exchange_cycles_per_tile.mean()
    assert ran.report.total_cycles == pytest.approx(6_681_766, rel=0.003)


def test_the_host_link_of_a_real_machine(ran: Ran) -> None:
    """The same program on hardware: 2,641,488.4 cycles of host exchange. This is the figure that
    fixed the rate."""
    real = ran.report.what_if(host_bytes_per_second=ran.report.target.silicon_host_bytes_per_second)
    assert real.host_exchange_cycles == pytest.approx(2_641_488.4, rel=0.005)
    assert real.total_cycles - real.host_exchange_cycles == pytest.approx(
        ran.report.total_cycles - ran.report.host_exchange_cycles
    )


def test_the_model_agrees_with_the_plan(ran: Ran) -> None:
    """The slowest tile computes as long as planned."""
    multiply, reduce = ran.report.compute_sets
    plan = best_plan(ROWS, COLS, ran.report.target)
    assert multiply.cycles_per_tile.max() == plan.multiply
    assert reduce.cycles_per_tile.max() == plan.reduce
