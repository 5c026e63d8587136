"""Whole programs in the shape of Poplar's tutorials and of public recipes: what comes out, and what
the report says."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from programs import advanced, append, halo, prefetch, tut1, tut2, tut3, tut4, tut5

from ipu_teach import FLOAT, Engine, Graph, IPUModel, Report
from ipu_teach.errors import ComputeSetRaceError, GraphConnectionError, GraphMemoryAllocationError
from ipu_teach.poplibs import poplin
from ipu_teach.program import Sequence

RNG = np.random.default_rng(5)
MATRIX = RNG.standard_normal((37, 29)).astype(np.float32)
X = RNG.standard_normal(29).astype(np.float32)
CELLS = RNG.standard_normal((15, 20)).astype(np.float32)
SMALL = [RNG.standard_normal(shape).astype(np.float32) for shape in ((9, 6), (6, 3), (3, 2))]


def test_every_program_is_run_by_a_test() -> None:
    tests = Path(__file__).parent
    texts = "\n".join(path.read_text(encoding="utf-8") for path in tests.glob("test_*.py"))
    run = set(re.findall(r"\w+", " ".join(re.findall(r"^from programs import (.*)", texts, re.M))))
    found = {path.stem for path in (tests / "programs").glob("[a-z]*.py")}
    assert len(found) > 10 and found <= run, "import it in test_programs.py, and say what comes out"


# Tutorial 1


def test_tut1_prints_every_tensor_when_the_run_comes_to_it() -> None:
    assert tut1.main().printed == (
        "v1: [1.0000000 1.5000000 2.0000000 2.5000000]\n"
        "v2: [1.0000000 1.5000000 2.0000000 2.5000000]\n"
        "v4-0: [0 1 2 3 4 5 6 7 8 9]\n"
        "v4-1: [10 11 12 13 14 15 16 17 18 19]\n"
    )


def test_tut1_copies_a_slice_into_a_row() -> None:
    expected = np.zeros((4, 4), np.float32)
    expected[1] = [0, 1, 1.5, 2]
    assert np.array_equal(tut1.main().h3, expected)


# Tutorial 2


def test_tut2_adds_and_transposes() -> None:
    results, printed = tut2.main()
    assert results["v3"].tolist() == [[5, 4.5], [4, 3.5]]
    assert results["v4"].tolist() == [[9, 7.5], [6, 4.5]]
    assert results["v5"].tolist() == [[5, 3.5], [5, 3.5]]
    assert printed.startswith("v3: [[5.0000000 4.5000000]\n [4.0000000 3.5000000]]\n")


# Tutorial 3


def test_tut3_sums_the_rest_of_a_vector() -> None:
    values, _ = tut3.main()
    assert values.tolist() == [7, 6, 4.5, 2.5]


def test_tut3_runs_a_copy_and_then_a_superstep_of_exchange_and_compute() -> None:
    _, report = tut3.main()
    copy, execute = report.steps()
    assert (copy.kind, execute.kind, execute.name) == ("Copy", "Execute", "sums")
    assert copy.start == 0 and execute.start == copy.cycles > 0
    (sums,) = report.compute_sets
    assert sums.vertices == {"SumVertex": 4}
    # the estimate, in a tile that gives each worker a sixth
    assert sums.cycles_per_tile.tolist() == [6 * 20] * 4
    # Each tile owns one element of the input; vertex i reads the 3 - i behind its own from other
    # tiles.
    cost = sums.cost
    assert sum(t.received.sum() for t in cost.exchange) == (3 + 2 + 1) * 4
    parts = cost.sync_cycles + cost.exchange_duration + cost.compute_duration
    assert cost.sync_cycles > 0 and cost.exchange_duration > 0 and execute.cycles == parts


# Tutorial 4


def test_tut4_multiplies_a_chain_and_prints_its_profile() -> None:
    matrices = tut4.inputs()
    product, report, summary = tut4.main(matrices)
    a, b, c = (m.astype(np.float64) for m in matrices)
    exact = a @ b @ c
    assert product.shape == (900, 200)
    assert np.abs(product - exact).max() < 1e-5 * np.abs(exact).max()
    assert "\nMemory Usage:\n" in summary
    assert re.search(r"^  Number of compute sets: +(\d+)$", summary, re.M)[1] == str(
        len(report.compute_sets)
    )
    assert "  Total Tiles:            1,472\n" in summary
    assert report.global_exchange_cycles == 0
    ran = [name for kind, name in ((s.kind, s.name) for s in report.steps()) if kind == "Execute"]
    assert ran[0] == "m4/multiply" and "m5/multiply" in ran[1:]


def test_tut4_a_product_too_large_for_the_chip_is_refused_and_the_report_names_the_culprit(
    tmp_path: Path,
) -> None:
    # 270 MB of operands on 400 tiles, which have 244 MB.
    with pytest.raises(GraphMemoryAllocationError) as caught:
        tut4.too_large(tiles=400)
    assert "tile" in str(caught.value)
    caught.value.report.save(tmp_path / "too_large.ipureport")
    report = Report.open(tmp_path / "too_large.ipureport")
    size = 9000 * 7500 * 4
    culprit = report.variables.largest("bytes", 1)[0]
    assert (culprit.name, culprit.bytes, culprit.tiles) == ("a", size, 400)
    assert re.fullmatch(
        r'tut4\.py, line \d+: a = graph\.add_variable\(FLOAT, \(9000, 7500\), "a"\)', culprit.line
    )
    fullest = int(np.argmax(report.memory.bytes_per_tile))
    assert next(iter(report.memory.at_fullest(fullest).items())) == ("a", size // 400)
    assert size // 400 > report.target.memory_bytes_per_tile and f"'a' {size // 400:,}" in str(
        caught.value
    )
    assert report.num_steps == 0 and report.digest() == caught.value.report.digest()
    assert report.memory.by_region()["Overflow"] == sum(
        max(0, n - 638_976) for n in report.memory.bytes_per_tile.tolist()
    )


def test_tut4_on_the_whole_chip_the_same_product_is_made_in_steps_and_fits() -> None:
    plan = poplin.plan_mat_mul(9000, 7500, 300, IPUModel("ipu2").target)
    assert plan.inner_steps * plan.column_steps > 1
    assert plan.temporary_bytes <= 0.6 * 638_976
    report = tut4.too_large().report
    assert report.memory.bytes_per_tile.max() <= 638_976


# Tutorial 5


@pytest.mark.parametrize("tiles", [1, 5, 64, 1472])
def test_tut5_equals_sums_taken_one_product_after_another(tiles: int) -> None:
    results = tut5.main(MATRIX, X, tiles)
    assert np.array_equal(results.product, tut5.sequential(MATRIX, X))


def test_tut5_counts_the_cycles_of_the_compute_set_alone() -> None:
    results = tut5.main(MATRIX, X, 64)
    steps = results.report.steps()
    (execute,) = (s for s in steps if s.kind == "Execute")
    assert results.cycles == execute.cycles
    assert results.cycles < results.report.total_cycles


def test_tut5_more_tiles_take_fewer_cycles() -> None:
    matrix = RNG.standard_normal((256, 32)).astype(np.float32)
    cycles = [tut5.main(matrix, matrix[0], tiles).cycles for tiles in (1, 4, 16)]
    assert cycles == sorted(cycles, reverse=True) and cycles[0] > 3 * cycles[1]


# The advanced example


def test_advanced_gives_the_same_sum_by_vertex_and_by_library() -> None:
    assert [z.tolist() for z in advanced.main()] == [[5, 5, 5, 5]] * 2


def test_advanced_saved_and_loaded_gives_the_same(tmp_path: Path) -> None:
    advanced.save(tmp_path / "advanced.ipu")
    assert [z.tolist() for z in advanced.load(tmp_path / "advanced.ipu")] == [[5, 5, 5, 5]] * 2


def test_advanced_programs_share_the_memory_of_the_device() -> None:
    device = IPUModel("ipu2", tiles_per_ipu=4).create_device()
    graph = Graph(device)
    engine = Engine(graph, advanced.build(graph))
    engine.load(device)
    advanced.execute(engine)
    z = np.zeros(4, np.float32)
    engine.connect_stream("read_z", z)
    engine.run(advanced.Programs.READ_RESULTS)
    assert z.tolist() == [5, 5, 5, 5]
    engine.run(advanced.Programs.WRITE_INPUTS)
    engine.run(advanced.Programs.READ_RESULTS)
    assert z.tolist() == [-1, -1, -1, -1]


# Prefetch


def test_prefetch_gives_input_plus_one_and_fills_transfers_ahead() -> None:
    results, calls = prefetch.main()
    assert results == [2, 4, 4, 10, 10]
    for value, runs in ((1, 1), (3, 2), (9, 2)):
        asked = [call for call, v in calls if v == value]
        # The first transfer has to be fetched; each later one was prefetched after the one before
        # it.
        assert asked[:3] == ["fetch", "complete", "prefetch"]
        assert (
            asked.count("fetch") == 1
            and asked.count("complete") == asked.count("prefetch") == 5 * runs
        )
    # What was filled ahead of the last transfer is of no use to the next callback.
    assert [value for call, value in calls if call == "invalidate"] == [1, 3]


def test_prefetch_one_tensor_on_an_input_and_on_an_output_is_refused() -> None:
    device = IPUModel("ipu2", tiles_per_ipu=1).create_device()
    graph = Graph(device)
    data = graph.add_variable(FLOAT, 4, "data")
    compute_set = graph.add_compute_set("add")
    vertex = graph.add_vertex(compute_set, advanced.VectorAdd, x=data, y=data, z=data)
    for part in (data, vertex):
        graph.set_tile_mapping(part, 0)
    with pytest.raises(GraphConnectionError, match="VectorAdd"):
        Engine(graph, Sequence())


# The stencil


@pytest.mark.parametrize(
    ("rows", "columns", "block"), [(3, 4, 5), (2, 2, 3), (1, 1, 4), (5, 1, 2), (4, 4, 1)]
)
def test_halo_equals_the_whole_grid_by_numpy(rows: int, columns: int, block: int) -> None:
    cells = RNG.standard_normal((rows * block, columns * block)).astype(np.float32)
    end, _ = halo.main(cells, rows, columns, pairs=3)
    assert np.array_equal(end, halo.reference(cells, 6))


@pytest.mark.parametrize("corner", [(4, 4), (4, 5), (5, 4), (5, 5)])
def test_halo_carries_a_corner_cell_to_the_right_neighbour(corner: tuple[int, int]) -> None:
    cells = np.zeros((15, 20), np.float32)
    cells[corner] = 1
    end, _ = halo.main(cells, pairs=1)
    # One cell spreads over 5 x 5 in two steps; by two one-step kernels, found without any rolling.
    kernel = halo.WEIGHTS[::-1, ::-1].astype(np.float64)
    spread = np.zeros((5, 5))
    for i in range(3):
        for j in range(3):
            spread[i : i + 3, j : j + 3] += kernel[i, j] * kernel
    i, j = corner
    assert np.allclose(end[i - 2 : i + 3, j - 2 : j + 3], spread, atol=1e-7)
    assert np.count_nonzero(end) == 25


def test_halo_exchanges_the_ring_and_nothing_else() -> None:
    _, report = halo.main(CELLS, 3, 4, pairs=2)
    received, _ = report.exchange_bytes_per_tile
    ring, weights = 4 * 5 + 4, 9
    # Tile 0 holds the nine weights; every other tile is sent them in each of the four steps.
    assert received.tolist() == [4 * 4 * ring] + [4 * 4 * (ring + weights)] * 11


def test_halo_with_a_single_buffer_is_a_race() -> None:
    with pytest.raises(ComputeSetRaceError, match="in place"):
        halo.racing()


# Appending


def test_append_goes_on_where_the_last_run_stopped_and_starts_over_after_a_load() -> None:
    first, second, again = append.main()
    assert first.tolist() == [1, 3, 7] + [0] * 9
    assert second.tolist() == [1, 3, 7, 15, 31, 63] + [0] * 6
    assert again.tolist() == first.tolist()


@pytest.mark.parametrize("tiles", [1, 2, 3, 6])
def test_append_does_not_depend_on_where_the_array_lies(tiles: int) -> None:
    assert append.main(6, tiles)[1].tolist() == [1, 3, 7, 15, 31, 63]


# All of them, both ways


def flat(value: Any) -> list[Any]:
    """Everything that a program returned, as bytes and plain values; reports are left out."""
    if isinstance(value, np.ndarray):
        return [value.dtype.str, value.shape, value.tobytes()]
    if isinstance(value, (list, tuple)):
        return [part for item in value for part in flat(item)]
    if isinstance(value, dict):
        return flat(list(value.values()))
    if isinstance(value, (tut1.Results, tut5.Results)):
        return flat(list(vars(value).values()))
    if isinstance(value, str):
        # what a summary says where that was asked for
        return [value.replace("  (ran vertex by vertex)", "")]
    return [value] if isinstance(value, (int, float)) else []


PROGRAMS: list[tuple[ModuleType, Callable[[], Any]]] = [
    (tut1, lambda: tut1.main()),
    (tut2, lambda: tut2.main()),
    (tut3, lambda: tut3.main()),
    (tut4, lambda: tut4.main(SMALL)),
    (tut5, lambda: tut5.main(MATRIX, X, 8)),
    (advanced, lambda: advanced.main()),
    (prefetch, lambda: prefetch.main()),
    (halo, lambda: halo.main(CELLS)),
    (append, lambda: append.main()),
]


@pytest.mark.parametrize(("module", "run"), PROGRAMS, ids=[m.__name__ for m, _ in PROGRAMS])
def test_one_vertex_at_a_time_gives_the_same_bits(
    module: ModuleType, run: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    batched = flat(run())
    assert batched
    for options in ({"vertex_loop": True}, {"shuffle": 7}):
        monkeypatch.setattr(module, "Engine", partial(Engine, **options))
        assert flat(run()) == batched
