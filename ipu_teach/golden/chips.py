"""Datasheets: threads, memory, peaks, bandwidths. Rates come out of the cost functions, not of
constants of their own."""

from __future__ import annotations

from ipu_teach.cost import vertices
from ipu_teach.cost.exchange import exchange_cycles
from ipu_teach.golden.programs import machine
from ipu_teach.golden.row import DATASHEET, SILICON, Row, not_modelled
from ipu_teach.golden.single_vertices import traced_cycles
from ipu_teach.graph.vertex import Input, Output, Vector, Vertex
from ipu_teach.target import Target
from ipu_teach.types import FLOAT, HALF, QUARTER, DType

BOW_SLIDES = "Graphcore slides, ImageNet training in a few minutes (2024)"
SOFTWARE_SLIDES = "Graphcore slides, Software stack: TensorFlow PyTorch Poplar (2024)"
MACHINE_BLOG = "Graphcore blog, Intelligent Memory for Intelligent Computing (2020)"
CITADEL = "Jia, Tillman, Maggioni, Scarpazza, arXiv:1912.03413"
POD128 = "Graphcore, IPU-POD128 datasheet"
BLAKE = "thecharlieblake.co.uk/ipus"
C600_SHEET = "Graphcore, C600 datasheet, overview"
C600_NEWS = (
    "gfmreview.com, Graphcore makes China push with Mk2 AI chip (2022), from Graphcore's figures"
)
CAMBRIAN = "cambrian-ai.com, Mk2 figures"
AT_1325 = "the datasheet counts with 1.325 GHz, Graphcore's model with 1.33"


class Add(Vertex):
    """out = a + b: the codelet that moves most in a cycle, two loads and a store beside each
    addition."""

    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self) -> None:
        self.out = self.a + self.b


def peak(target: Target, dtype: type[DType]) -> float:
    """FLOP/s that a very long product comes to on all tiles, with the sums that make it fastest; of
    8-bit floats for `QUARTER`."""
    rows, depth, columns = 6_000_000, 16_000, 16
    if dtype is QUARTER:
        cycles = int(vertices.conv_partial_1x1_quarter(rows, depth, columns, target))
    else:
        cycles = min(
            int(vertices.conv_partial_1x1(rows, depth, columns, dtype, target, partials=sums))
            for sums in (dtype, FLOAT)
        )
    return 2 * rows * depth * columns / cycles * target.num_tiles * target.tile_clock_frequency


def memory_rate(target: Target, per_element: int) -> float:
    """Bytes a second of all tiles' memories while `Add` runs, with `per_element` bytes counted for
    each element."""
    elements = 10_000
    per_cycle = elements * per_element / traced_cycles(Add, elements)
    return per_cycle * target.num_tiles * target.tile_clock_frequency


def peaks() -> list[Row]:
    """Matrix products."""
    ipu1, ipu2, bow, c600 = (machine(version) for version in ("ipu1", "ipu2", "bow", "c600"))
    amp = "the limit of PopLibs' estimate for a long product"
    return [
        Row(
            "GC2: fp16 peak (TFLOP/s)",
            DATASHEET,
            CITADEL,
            124.5,
            peak(ipu1, HALF) / 1e12,
            0.002,
            amp,
        ),
        Row(
            "GC2: fp32 peak (TFLOP/s)",
            DATASHEET,
            CITADEL,
            31.1,
            peak(ipu1, FLOAT) / 1e12,
            0.01,
            "fixed conv_units_fp32 of ipu1",
            calibrates=True,
        ),
        Row(
            "GC200: fp16 peak (TFLOP/s)",
            DATASHEET,
            POD128,
            250,
            peak(ipu2, HALF) / 1e12,
            0.005,
            AT_1325,
        ),
        Row(
            "GC200: fp32 peak (TFLOP/s)",
            DATASHEET,
            CAMBRIAN,
            62.5,
            peak(ipu2, FLOAT) / 1e12,
            0.01,
            "fixed conv_units_fp32 of ipu2",
            calibrates=True,
        ),
        Row(
            "Bow: fp16 peak (TFLOP/s)",
            DATASHEET,
            BOW_SLIDES,
            350,
            peak(bow, HALF) / 1e12,
            0.005,
            "rounded in the slides",
        ),
        Row(
            "IPU-POD128: fp16 peak (PFLOP/s)",
            DATASHEET,
            POD128,
            31.955,
            128 * peak(ipu2, HALF) / 1e15,
            0.005,
            AT_1325,
        ),
        Row(
            "IPU-POD128: fp32 peak (PFLOP/s)",
            DATASHEET,
            POD128,
            7.989,
            128 * peak(ipu2, FLOAT) / 1e15,
            0.005,
            AT_1325,
        ),
        Row(
            "Bow-2000: fp16 peak (PFLOP/s)",
            DATASHEET,
            BOW_SLIDES,
            1.4,
            4 * peak(bow, HALF) / 1e15,
            0.005,
            "four IPUs, rounded",
        ),
        Row(
            "C600: fp16 peak (TFLOP/s)",
            DATASHEET,
            C600_NEWS,
            280,
            peak(c600, HALF) / 1e12,
            0.01,
            amp + ", at 1.5 GHz",
        ),
        Row(
            "C600: 8-bit floats, peak (TFLOP/s)",
            DATASHEET,
            C600_NEWS,
            560,
            peak(c600, QUARTER) / 1e12,
            0.01,
            amp + ", at 1.5 GHz",
        ),
    ]


def memories() -> list[Row]:
    """Sizes and rates of the tiles' own memory."""
    ipu1, ipu2, bow, c600 = (machine(version) for version in ("ipu1", "ipu2", "bow", "c600"))

    def size(target: Target) -> int:
        return target.num_tiles * target.bytes_per_tile

    rounded = "rounded in the source"
    ceiling = (
        "two loads and a store of 64 bits a cycle, reached by an addition of vectors but for its "
        "start"
    )
    return [
        Row("GC2: memory (MiB)", DATASHEET, CITADEL, 304, size(ipu1) / 2**20, 0, "counted"),
        Row(
            "GC200: memory (MB of 1,048,576 bytes)",
            DATASHEET,
            MACHINE_BLOG,
            900,
            size(ipu2) / 2**20,
            0.005,
            rounded,
        ),
        Row(
            "Bow: memory (GB)",
            DATASHEET,
            BOW_SLIDES,
            0.9,
            size(bow) / 1e9,
            0.05,
            "0.94, cut to 0.9 in the slides",
        ),
        Row(
            "Bow-2000: memory (GB)",
            DATASHEET,
            BOW_SLIDES,
            3.6,
            4 * size(bow) / 1e9,
            0.05,
            "3.76, counted as 4 x 0.9",
        ),
        Row(
            "C600: memory (MB of 1,048,576 bytes)",
            DATASHEET,
            C600_SHEET,
            900,
            size(c600) / 2**20,
            0.01,
            rounded,
        ),
        Row(
            "GC2: latency of a tile's memory (cycles)",
            SILICON,
            CITADEL,
            6,
            ipu1.num_worker_contexts,
            0,
            "what a worker loads is there at its next turn",
        ),
        Row(
            "GC2: memory bandwidth, reads (TB/s)",
            DATASHEET,
            CITADEL,
            31.1,
            memory_rate(ipu1, 8) / 1e12,
            0.005,
            ceiling,
        ),
        Row(
            "GC2: memory bandwidth, nominal (TB/s)",
            DATASHEET,
            CITADEL,
            45,
            memory_rate(ipu1, 12) / 1e12,
            0.05,
            "a nominal figure, perhaps for another clock; ours is for 1.6 GHz",
        ),
        Row(
            "GC200: memory bandwidth (TB/s)",
            DATASHEET,
            BLAKE,
            47.5,
            memory_rate(ipu2, 12) / 1e12,
            0.02,
            ceiling,
        ),
        Row(
            "Bow: memory bandwidth (TB/s)",
            DATASHEET,
            BOW_SLIDES,
            65,
            memory_rate(bow, 12) / 1e12,
            0.01,
            rounded,
        ),
        Row(
            "Bow-2000: memory bandwidth (TB/s)",
            DATASHEET,
            BOW_SLIDES,
            260,
            4 * memory_rate(bow, 12) / 1e12,
            0.01,
            rounded,
        ),
    ]


def fabric() -> list[Row]:
    """Threads, exchange and links."""
    ipu2, bow = machine("ipu2"), machine("bow")
    sent = 1_000_000
    exchange = (
        ipu2.num_tiles * sent / float(exchange_cycles(sent, ipu2)) * ipu2.tile_clock_frequency
    )
    threads = bow.num_tiles * bow.num_worker_contexts
    return [
        Row("Bow: parallel programs", DATASHEET, BOW_SLIDES, 8_832, threads, 0, "counted"),
        Row(
            "Bow-2000: processor cores",
            DATASHEET,
            SOFTWARE_SLIDES,
            5_888,
            4 * bow.num_tiles,
            0,
            "counted",
        ),
        Row(
            "Bow-2000: parallel threads",
            DATASHEET,
            SOFTWARE_SLIDES,
            35_000,
            4 * threads,
            0.01,
            '"more than 35,000"',
        ),
        Row(
            "GC200: exchange, any pattern (TB/s)",
            DATASHEET,
            BLAKE,
            8,
            exchange / 1e12,
            0.03,
            "7.83, rounded up in the source",
        ),
        not_modelled(
            "GC200: IPU-Links (GB/s)",
            DATASHEET,
            BOW_SLIDES,
            320,
            "the kit has the six links between two neighbours at 85 %, not all ten of an IPU",
        ),
        not_modelled(
            "GC200: host link (GB/s)",
            DATASHEET,
            BLAKE,
            64,
            "the kit has the 8 GB/s of Graphcore's model; 20 GB/s were seen on a chip (tut6)",
        ),
        not_modelled(
            "M2000: memory with streaming memory (GB)",
            DATASHEET,
            MACHINE_BLOG,
            450,
            "remote buffers are as large as the host's memory allows",
        ),
        not_modelled(
            "C2 board, one IPU: sync of a float stencil (cycles)",
            SILICON,
            "thorbenlouw/lbm-graphcore, gaussian-blur-scaling/exchange-vs-compute.csv",
            117,
            "how many syncs the figure counts is not stated",
        ),
        not_modelled(
            "Citadel: slow-down of the exchange under load (%)",
            SILICON,
            CITADEL,
            24,
            "the pattern that was measured is not described where we could read it",
        ),
        not_modelled(
            "BabelStream: largest array on one GC2 (elements)",
            SILICON,
            "BabelStream, pull request 70",
            16_185_000,
            "what lies beside the three arrays on a tile is not known",
        ),
        not_modelled(
            "random numbers, GC2 against a V100 (times)",
            SILICON,
            CITADEL,
            4.9,
            "the kit has no model of a V100, and cycles a draw are not published",
        ),
        not_modelled(
            "BERT-Large on 16 Bow IPUs (sequences a second)",
            SILICON,
            "Graphcore, performance results",
            6_044,
            "frameworks, and networks of that size, are beyond the kit",
        ),
        not_modelled(
            "ResNet-50 on IPU-POD16, MLPerf 1.1 (minutes)",
            SILICON,
            "Graphcore, Performance at scale (2021)",
            28.3,
            "frameworks, and networks of that size, are beyond the kit",
        ),
    ]
