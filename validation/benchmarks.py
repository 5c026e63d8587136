"""PopLibs' own benchmarks: cycles of whole runs on Graphcore's models of a GC2 and a GC200.

The figures are those that PopLibs' tests recorded. The table shows every third figure for each kind
of operation that the kit has. A test compares the median over all figures. Products are of HALF
with partials of FLOAT, with operands in the layout that the plan needs. Reductions and poolings are
of HALF, mapped linearly. Half of the published results are included. The figures come from a model,
so agreement shows that the kit reproduces that model, not that a chip takes the same time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

from ipu_teach.graph import Graph, Tensor
from ipu_teach.poplibs import popops, poputil
from ipu_teach.poplibs.poplin import plan_mat_mul
from ipu_teach.poplibs.popnn import pooling
from ipu_teach.program import Sequence as Steps
from ipu_teach.types import FLOAT, HALF
from validation.programs import machine, profile
from validation.row import MODEL, PROGRAMS, TOLERANCES, Row, Source

SOURCE = Source(
    MODEL, "graphcore/poplibs at f9273583, tests/benchmark_results.csv and tests/CMakeLists.txt"
)
MACHINES = ("ipu1", "ipu2")

# Each matrix product is (m, k, n, cycles on a GC2, cycles on a GC200).
PRODUCTS = (
    (600, 64, 10_000, 23_150, 19_998),
    (200, 256, 10_000, 36_346, 31_355),
    (600, 256, 10_000, 80_492, 64_309),
    (1_000, 256, 10_000, 114_311, 93_032),
    (200, 512, 10_000, 62_001, 51_094),
    (600, 512, 10_000, 157_344, 123_229),
    (1_000, 512, 10_000, 273_226, 178_134),
    (600, 64, 20_000, 43_120, 36_759),
    (200, 256, 20_000, 59_035, 50_820),
    (600, 256, 20_000, 144_473, 118_757),
    (1_000, 256, 20_000, 254_923, 170_108),
    (200, 512, 20_000, 106_118, 88_869),
    (600, 512, 20_000, 328_585, 228_667),
    (1_000, 512, 20_000, 682_097, 324_972),
    (600, 64, 30_000, 60_870, 52_059),
    (200, 256, 30_000, 78_310, 69_554),
    (600, 256, 30_000, 252_043, 164_997),
    (1_000, 256, 30_000, 494_187, 238_742),
    (200, 512, 30_000, 164_152, 123_952),
    (600, 512, 30_000, 502_572, 315_397),
    (1_000, 512, 30_000, 940_609, 506_247),
)
# A reduction is (shape, reduced dimensions, operation, number of tiles, cycles on a GC2, cycles on
# a GC200). If the number of tiles is None, all tiles are used.
Reduced = tuple[tuple[int, ...], tuple[int, ...], str, int | None, int, int]
REDUCTIONS: tuple[Reduced, ...] = (
    ((16, 4, 16, 32, 8), (1, 3), "MAX", 1_024, 1_466, 1_466),
    ((16, 4, 16, 32, 8), (1, 3), "ADD", 1_024, 1_882, 1_882),
    ((16, 256, 8, 4), (1, 3), "ADD", 1_024, 2_758, 2_758),
    ((16, 256, 8, 4), (1, 3), "SQUARE_ADD", 1_024, 2_758, 2_758),
    ((128, 16, 8, 16), (0, 2), "ADD", None, 2_446, 2_587),
    ((4, 3_136, 8), (1,), "ADD", None, 2_611, 2_536),
    ((4, 12_544, 8), (1,), "ADD", None, 3_125, 3_357),
    ((4, 6_272, 8), (1,), "ADD", 1_200, 2_811, 2_811),
    ((4, 25_088, 8), (1,), "SQUARE_ADD", None, 3_232, 3_040),
)
# Each item is (field, channels, number of contiguous channels, cycles on a GC2, cycles on a GC200).
# The cycles are for max pooling over 3 x 3 elements with padding, and for its gradient.
POOLINGS = (
    ((8, 8), 2_048, 8, 11_639, 11_819),
    ((35, 35), 192, 8, 14_026, 12_241),
    ((17, 17), 768, 8, 10_688, 12_162),
    ((8, 8), 1_280, 1, 16_852, 12_351),
)
# The benchmarks look up rows of a table, and add the gradient of these rows to the table. Each item
# is (number of rows of the table, number of columns, number of lookups), and then (bytes of the
# fullest tile, cycles) for a GC2 and for a GC200.
EMBEDDINGS = (
    (1_000, 200, 21_600, (63_108, 204_003), (59_600, 177_759)),
    (100_000, 200, 1_440, (77_080, 154_767), (71_448, 155_289)),
    (100_000, 200, 11_520, (161_452, 1_154_069), (145_112, 1_151_828)),
)
PLANS = (
    "PopLibs' plan is not published; the kit's plan is the cheapest by PopLibs' "
    "estimates of vertices"
)
PIECES = (
    "on each tile, the rows of a column are in pieces of 4 halves, and the kit first "
    "makes them contiguous, "
    "1,854 cycles"
)
TWICE = (
    "it lasts longer than twice the rows as SQUARE_ADD, 3,040, by the same table; ours take longer "
    "with every row"
)
APART = (
    "no two channels lie side by side, so Poplar interleaves halves on the tile: by the same table "
    "it lasts longer than 2,048 channels in groups of 8, which are more; ours arrive in order"
)
ONE_WORKER = (
    "theirs shared a tile's lookups among six workers (popops/PerformanceEstimation.cpp of then); "
    "ours cost what PopLibs' later vertex does at worst, where one worker has all rows"
)


@cache
def product(num_rows: int, depth: int, num_columns: int, version: str) -> int:
    """Return the modelled cycles of a matrix product, with the kit's plan for a full chip."""
    return plan_mat_mul(
        num_rows, depth, num_columns, machine(version), dtype=HALF, partials_type=FLOAT
    ).cycles


@cache
def reduction(
    shape: tuple[int, ...], dims: tuple[int, ...], operation: str, tiles: int | None, version: str
) -> int:
    """Return the modelled cycles of a reduction of HALF, on `tiles` tiles or on a full chip."""
    changes = {} if tiles is None else {"tiles_per_ipu": tiles}
    graph = Graph(machine(version, **changes))
    program = Steps()
    x = graph.add_variable(HALF, shape, "x")
    poputil.map_tensor_linearly(graph, x)
    graph.set_initial_value(x, 1)
    popops.reduce(graph, x, dims, program, operation)
    return int(profile(graph, program).total_cycles)


@cache
def pooled(field: tuple[int, int], channels: int, channels_per_group: int, version: str) -> int:
    """Return the modelled cycles of max pooling of one sample of HALF, and of its gradient.

    In memory, `channels_per_group` channels of the input are contiguous, as are 16 channels of the
    gradient of the output.
    """
    graph = Graph(machine(version))
    program = Steps()
    margin = (1, 1)
    further_arguments = ((3, 3), (1, 1), margin, margin, channels, 1, HALF)
    params = pooling.PoolParams("MAX", field, *further_arguments)
    tensors: list[Tensor] = []
    for name, group_size in (("x", channels_per_group), ("slope", 16)):
        tensor = graph.add_variable(HALF, (1, channels // group_size, *field, group_size), name)
        poputil.map_tensor_linearly(graph, tensor)
        graph.set_initial_value(tensor, 1)
        tensors.append(tensor.dim_shuffle([0, 1, 4, 2, 3]).reshape((1, channels, *field)))
    result = pooling.pool(graph, params, tensors[0], program)
    pooling.pool_input_gradient(graph, params, tensors[0], result, tensors[1], program)
    return int(profile(graph, program).total_cycles)


@cache
def embedded(entries: int, columns: int, lookups: int, bytes_per_tile: int, version: str) -> int:
    """Return the modelled cycles of looking up HALF rows in a table, and of adding to them.

    As in PopLibs, the cycles are those of the fastest plan that needs at most `bytes_per_tile`
    bytes on a tile.
    """
    graph = Graph(machine(version))
    table = entries * columns * HALF.size
    target = graph.target
    share = (bytes_per_tile - table / target.num_tiles) / target.bytes_per_tile
    options = {"planMinimisationTarget": "cycles", "availableMemoryProportion": share}
    return popops.embedding_plan(graph, HALF, entries, columns, [lookups], options).cycles


def benchmarks() -> list[Row]:
    """Return the table rows for both machines: every third figure for each kind of operation."""
    rows = list[Row]()
    tolerance = TOLERANCES[PROGRAMS]

    def add(set_up: str, cycles: Sequence[int], why: str, models: Iterable[int]) -> None:
        for version, published, modelled in zip(MACHINES, cycles, models, strict=True):
            name = f"PopLibs, {set_up}, {version} model (cycles)"
            is_near = abs(modelled - published) <= tolerance * published
            why_not = PLANS if is_near else why
            rows.append(
                SOURCE.row(
                    name,
                    published,
                    modelled=modelled,
                    tolerance=tolerance,
                    why=why_not,
                    explained=True,
                )
            )

    for num_rows, depth, num_columns, *cycles in PRODUCTS[::3]:
        set_up = (
            f"product of half [{num_rows:,}, {depth:,}] x [{depth:,}, {num_columns:,}], sums of "
            "float"
        )
        add(
            set_up,
            cycles,
            PLANS,
            (product(num_rows, depth, num_columns, version) for version in MACHINES),
        )
    for shape, dims, operation, tiles, *cycles in REDUCTIONS[::3]:
        set_up = f"reduction of half {list(shape)} over {list(dims)} by {operation}"
        modelled_cycles = (
            reduction(shape, dims, operation, tiles, version) for version in MACHINES
        )
        add(set_up, cycles, PIECES if len(dims) > 1 else TWICE, modelled_cycles)
    for field, channels, group, *cycles in POOLINGS[::3]:
        set_up = f"pooling of half {list(field)}, {channels:,} channels, and gradient"
        add(
            set_up, cycles, APART, (pooled(field, channels, group, version) for version in MACHINES)
        )
    for entries, columns, lookups, *figures in EMBEDDINGS[::3]:
        set_up = f"{lookups:,} rows of half [{entries:,}, {columns}], and gradient"
        modelled_cycles = (
            embedded(entries, columns, lookups, bytes_per_tile=bytes_per_tile, version=version)
            for version, (bytes_per_tile, _) in zip(MACHINES, figures, strict=True)
        )
        add(set_up, [cycles for _, cycles in figures], ONE_WORKER, modelled_cycles)
    return rows
