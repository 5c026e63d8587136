"""Other published profiles: a halo exchange, a chain of products, two operations on a chip."""

from __future__ import annotations

from ipu_teach.cost import vertices
from ipu_teach.golden import halo
from ipu_teach.golden.programs import chained_products, machine, operations, profile
from ipu_teach.golden.row import MODEL, SILICON, Row, not_modelled
from ipu_teach.graph.graph import Graph
from ipu_teach.types import FLOAT

LBM = "thorbenlouw/lbm-graphcore, experiments/halo-exchange-approaches/results.txt"
TUT4 = "graphcore/tutorials, tutorials/poplar/tut4_profiling, screenshots"
LIGHT = "graphcore/examples, tutorials/popvision/lightweight_profiling, README"


def halos() -> list[Row]:
    """Ten times forth and back between two grids of 100 x 100 FLOAT a tile, on Graphcore's model of the first generation."""
    graph = Graph(machine("ipu1"))
    report = profile(graph, halo.build(graph))
    set_up, average = "halo exchange, implicit, ipu1 model", "cycles, average of tiles"
    older = "the profile is of 2020, when zeroing had an estimator of its own; ours is PopLibs' Fill of 2023"
    return [
        Row(f"{set_up}: compute including idle threads ({average})", MODEL, LBM, 12_000,
            float(report.compute_cycles_per_tile.mean()), 0, "20 supersteps of one vertex of 100 cycles, six workers"),
        Row(f"{set_up}: compute excluding idle threads ({average})", MODEL, LBM, 2_000,
            float(report.active_cycles_per_tile.mean()), 0, "20 supersteps of one vertex of 100 cycles"),
        Row(f"{set_up}: exchange ({average})", MODEL, LBM, 5_682, float(report.exchange_cycles_per_tile.mean()), 0.05,
            "Poplar's schedule of sends is not published; ours is a perfect one, without collisions between senders"),
        Row(f"{set_up}: sync ({average})", MODEL, LBM, 3_328, float(report.sync_cycles_per_tile.mean()), 0.05,
            "fixed auto_sync_delay of ipu1", calibrates=True),
        Row(f"{set_up}: total (cycles)", MODEL, LBM, 21_010, report.total_cycles, 0.02,
            "what the exchange lacks; the sync, 16 % of it, fixed a constant"),
        Row("halo exchange, ipu1 model: 48 vertices popops::Zero<float> of 17 elements (worker cycles)", MODEL, LBM, 1_368,
            48 * float(vertices.fill(17, FLOAT)), 0.15, older),
        Row("halo exchange, ipu1 model: 14,592 vertices popops::Zero2d<float> of 17 x 1 (worker cycles)", MODEL, LBM, 4_961_280,
            14_592 * float(vertices.fill_2d([1] * 17, FLOAT)), 0.15, older),
    ]  # fmt: skip


def products() -> list[Row]:
    """Two matrix products in a chain."""
    target = machine("ipu2")
    report = profile(*chained_products(target))
    memory = report.memory.by_variable()
    set_up, printed = "tut4, three matrices, ipu2 model", "printed with two or three digits"
    plan = "PopLibs' plan of the products is not published; ours comes to {:,} "
    products = {name: sum(int(c.cost.compute_cycles.sum()) for c in report.compute_sets if c.name.startswith(name))
                for name in ("m4", "m5")}  # fmt: skip
    return [
        Row(f"{set_up}: memory of a tile (kB of 1,024 bytes)", MODEL, TUT4, 624, target.bytes_per_tile / 1024, 0,
            "one of two sources of memory_bytes_per_tile", calibrates=True),
        Row(f"{set_up}: memory of the IPU (MB of 1,048,576 bytes)", MODEL, TUT4, 897,
            target.num_tiles * target.bytes_per_tile / 2**20, 0.001, printed),
        Row(f"{set_up}: m1, always live (MB)", MODEL, TUT4, 1.5, memory["m1"] / 2**20, 0.034, printed),
        Row(f"{set_up}: m2, always live (kB)", MODEL, TUT4, 781, memory["m2"] / 1024, 0.001, printed),
        Row(f"{set_up}: m3, always live (kB)", MODEL, TUT4, 313, memory["m3"] / 1024, 0.002, printed),
        Row(f"{set_up}: total (cycles)", MODEL, TUT4, 34_655, report.total_cycles, 0.15,
            "PopLibs' plan is not published: ours computes less, exchanges more, and has no compute sets that rearrange"),
        not_modelled(f"{set_up}: product m4 (cycles of all tiles)", MODEL, TUT4, 29_772_428,
                     plan.format(products["m4"]) + "of compute"),
        not_modelled(f"{set_up}: product m5 (cycles of all tiles)", MODEL, TUT4, 15_494_904,
                     plan.format(products["m5"]) + "of compute"),
        not_modelled(f"{set_up}: vertices", MODEL, TUT4, 16_877, plan.format(report.graph_size()["vertices"]) + "vertices"),
        not_modelled(f"{set_up}: variables (bytes)", MODEL, TUT4, 6_624_000,
                     plan.format(report.memory.by_category()["Variables"]) + "bytes, as it holds more partial sums"),
        not_modelled(f"{set_up}: all memory but gaps (bytes)", MODEL, TUT4, 59_894_241,
                     plan.format(sum(report.memory.by_category().values())) + "bytes, as it holds more partial sums"),
    ]  # fmt: skip


def two_operations() -> list[Row]:
    """A stage of two operations of about 3,600 cycles each, measured on tile 0."""
    stage, single = (profile(*operations(machine("ipu2"), n)).total_cycles for n in (2, 1))
    why = "the kit's sync of 100 cycles a superstep is assumed; here sync and instrumentation together leave about {} a step"
    set_up = "lightweight profiling, ipu2 chip"
    return [
        Row(f"{set_up}: stage of two operations of about 3,600 (cycles)", SILICON, LIGHT, 7_238, stage, 0.03,
            why.format(19)),
        Row(f"{set_up}: stage with a block inside (cycles)", SILICON, LIGHT, 7_377, stage, 0.03,
            why.format(90)),
        Row(f"{set_up}: block of one operation of about 3,600 (cycles)", SILICON, LIGHT, 3_623, single, 0.03,
            why.format(23)),
        not_modelled(f"{set_up}: fifth of five growing operations (cycles)", SILICON, LIGHT, 18_505,
                     "a vertex whose cycles depend on its data has one estimate in the kit, for all runs"),
        not_modelled(f"{set_up}: instrumentation of a block (cycles)", SILICON, LIGHT, 36,
                     "profiling costs nothing in the kit"),
        not_modelled(f"{set_up}: middle of a StreamCopy (cycles)", SILICON, LIGHT, 1_513,
                     "the host's latency is not modelled, its rate is"),
    ]  # fmt: skip
