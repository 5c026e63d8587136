"""Rows of figures from datasheets: threads, memory, peak rates and bandwidths.

The modelled rates are computed by the cost model: no constants in this module contain them.
"""

from __future__ import annotations

from dataclasses import replace

from ipu_teach.cost import vertices
from ipu_teach.cost.exchange import exchange_cycles
from ipu_teach.graph.vertex import Input, Output, Vector, Vertex
from ipu_teach.target import Target
from ipu_teach.types import FLOAT, HALF, QUARTER, DType
from validation.programs import machine
from validation.row import DATASHEET, SILICON, Row, Source
from validation.single_vertices import traced_cycles

BOW_SLIDES = Source(DATASHEET, "Graphcore slides, ImageNet training in a few minutes (2024)")
SOFTWARE_SLIDES = Source(
    DATASHEET, "Graphcore slides, Software stack: TensorFlow PyTorch Poplar (2024)"
)
MACHINE_BLOG = Source(
    DATASHEET, "Graphcore blog, Intelligent Memory for Intelligent Computing (2020)"
)
CITADEL = Source(DATASHEET, "Jia, Tillman, Maggioni, Scarpazza, arXiv:1912.03413")
MEASURED = replace(CITADEL, kind=SILICON)
POD128 = Source(DATASHEET, "Graphcore, IPU-POD128 datasheet")
BLAKE = Source(DATASHEET, "thecharlieblake.co.uk/ipus")
C600_SHEET = Source(DATASHEET, "Graphcore, C600 datasheet, overview")
C600_NEWS = Source(
    DATASHEET,
    "gfmreview.com, Graphcore makes China push with Mk2 AI chip (2022), from Graphcore's figures",
)
CAMBRIAN = Source(DATASHEET, "cambrian-ai.com, Mk2 figures")
AT_1325 = "the datasheet counts with 1.325 GHz, Graphcore's model with 1.33"
AMP_REASON = "the limit of PopLibs' estimate for a long product"
ROUNDED = "rounded in the source"


class Add(Vertex):
    """The vector sum out = a + b: two loads and a store in as many cycles as possible."""

    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self) -> None:
        self.out = self.a + self.b


def peak(target: Target, dtype: type[DType]) -> float:
    """Return the FLOP/s of a very long matrix product on all tiles, with the faster partials type.

    `dtype` is HALF, FLOAT, or QUARTER for any 8-bit float.
    """
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
    """Return the bytes per second that `Add` moves on all tiles together.

    `per_element` is the number of bytes that `Add` moves for each element.
    """
    num_elements = 10_000
    per_cycle = num_elements * per_element / traced_cycles(Add, num_elements)
    return per_cycle * target.num_tiles * target.tile_clock_frequency


def peaks() -> list[Row]:
    """Return the table rows for peak rates of matrix products."""
    return [*_peaks_of_chips(), *_peaks_of_boards()]


def _peaks_of_chips() -> list[Row]:
    """Return the rows of the peak rates of the GC2, the GC200 and the Bow IPU."""
    ipu1, ipu2, bow = (machine(version) for version in ("ipu1", "ipu2", "bow"))
    return [
        CITADEL.row(
            "GC2: fp16 peak (TFLOP/s)",
            124.5,
            modelled=peak(ipu1, HALF) / 1e12,
            tolerance=0.002,
            why=AMP_REASON,
        ),
        CITADEL.row(
            "GC2: fp32 peak (TFLOP/s)",
            31.1,
            modelled=peak(ipu1, FLOAT) / 1e12,
            tolerance=0.01,
            why="fixed conv_units_fp32 of ipu1",
            calibrates=True,
        ),
        POD128.row(
            "GC200: fp16 peak (TFLOP/s)",
            250,
            modelled=peak(ipu2, HALF) / 1e12,
            tolerance=0.005,
            why=AT_1325,
        ),
        CAMBRIAN.row(
            "GC200: fp32 peak (TFLOP/s)",
            62.5,
            modelled=peak(ipu2, FLOAT) / 1e12,
            tolerance=0.01,
            why="fixed conv_units_fp32 of ipu2",
            calibrates=True,
        ),
        BOW_SLIDES.row(
            "Bow: fp16 peak (TFLOP/s)",
            350,
            modelled=peak(bow, HALF) / 1e12,
            tolerance=0.005,
            why="rounded in the slides",
        ),
    ]


def _peaks_of_boards() -> list[Row]:
    """Return the rows of the peak rates of a POD, of a Bow-2000 and of a card."""
    ipu2, bow, c600 = (machine(version) for version in ("ipu2", "bow", "c600"))
    return [
        POD128.row(
            "IPU-POD128: fp16 peak (PFLOP/s)",
            31.955,
            modelled=128 * peak(ipu2, HALF) / 1e15,
            tolerance=0.005,
            why=AT_1325,
        ),
        POD128.row(
            "IPU-POD128: fp32 peak (PFLOP/s)",
            7.989,
            modelled=128 * peak(ipu2, FLOAT) / 1e15,
            tolerance=0.005,
            why=AT_1325,
        ),
        BOW_SLIDES.row(
            "Bow-2000: fp16 peak (PFLOP/s)",
            1.4,
            modelled=4 * peak(bow, HALF) / 1e15,
            tolerance=0.005,
            why="four IPUs, rounded",
        ),
        C600_NEWS.row(
            "C600: fp16 peak (TFLOP/s)",
            280,
            modelled=peak(c600, HALF) / 1e12,
            tolerance=0.01,
            why=AMP_REASON + ", at 1.5 GHz",
        ),
        C600_NEWS.row(
            "C600: 8-bit floats, peak (TFLOP/s)",
            560,
            modelled=peak(c600, QUARTER) / 1e12,
            tolerance=0.01,
            why=AMP_REASON + ", at 1.5 GHz",
        ),
    ]


def memories() -> list[Row]:
    """Return the table rows for the tiles' memory: its size, its latency and its bandwidth."""
    return [*_memory_sizes(), *_memory_rates()]


def _memory_sizes() -> list[Row]:
    """Return the rows of the memory of all tiles of a chip, a board or a card."""
    ipu1, ipu2, bow, c600 = (machine(version) for version in ("ipu1", "ipu2", "bow", "c600"))

    def total_bytes(target: Target) -> int:
        return target.num_tiles * target.bytes_per_tile

    return [
        CITADEL.row(
            "GC2: memory (MiB)", 304, modelled=total_bytes(ipu1) / 2**20, tolerance=0, why="counted"
        ),
        MACHINE_BLOG.row(
            "GC200: memory (MB of 1,048,576 bytes)",
            900,
            modelled=total_bytes(ipu2) / 2**20,
            tolerance=0.005,
            why=ROUNDED,
        ),
        BOW_SLIDES.row(
            "Bow: memory (GB)",
            0.9,
            modelled=total_bytes(bow) / 1e9,
            tolerance=0.05,
            why="0.94, cut to 0.9 in the slides",
        ),
        BOW_SLIDES.row(
            "Bow-2000: memory (GB)",
            3.6,
            modelled=4 * total_bytes(bow) / 1e9,
            tolerance=0.05,
            why="3.76, counted as 4 x 0.9",
        ),
        C600_SHEET.row(
            "C600: memory (MB of 1,048,576 bytes)",
            900,
            modelled=total_bytes(c600) / 2**20,
            tolerance=0.01,
            why=ROUNDED,
        ),
    ]


def _memory_rates() -> list[Row]:
    """Return the rows of the latency of a tile's memory, and of the bandwidth of all tiles."""
    ipu1, ipu2, bow = (machine(version) for version in ("ipu1", "ipu2", "bow"))
    ceiling_reason = (
        "two loads and a store of 64 bits a cycle, reached by an addition of vectors but for its "
        "start"
    )
    return [
        MEASURED.row(
            "GC2: latency of a tile's memory (cycles)",
            6,
            modelled=ipu1.num_worker_contexts,
            tolerance=0,
            why="data that a worker loads is available at its next instruction",
        ),
        CITADEL.row(
            "GC2: memory bandwidth, reads (TB/s)",
            31.1,
            modelled=memory_rate(ipu1, 8) / 1e12,
            tolerance=0.005,
            why=ceiling_reason,
        ),
        CITADEL.row(
            "GC2: memory bandwidth, nominal (TB/s)",
            45,
            modelled=memory_rate(ipu1, 12) / 1e12,
            tolerance=0.05,
            why="a nominal figure, perhaps for another clock frequency; the modelled "
            "figure is for 1.6 GHz",
        ),
        BLAKE.row(
            "GC200: memory bandwidth (TB/s)",
            47.5,
            modelled=memory_rate(ipu2, 12) / 1e12,
            tolerance=0.02,
            why=ceiling_reason,
        ),
        BOW_SLIDES.row(
            "Bow: memory bandwidth (TB/s)",
            65,
            modelled=memory_rate(bow, 12) / 1e12,
            tolerance=0.01,
            why=ROUNDED,
        ),
        BOW_SLIDES.row(
            "Bow-2000: memory bandwidth (TB/s)",
            260,
            modelled=4 * memory_rate(bow, 12) / 1e12,
            tolerance=0.01,
            why=ROUNDED,
        ),
    ]


# The figures that the kit does not model.
UNMODELLED = [
    BOW_SLIDES.unmodelled(
        "GC200: IPU-Links (GB/s)",
        320,
        "the kit has the six links between two neighbours at 85 %, not all ten of an IPU",
    ),
    BLAKE.unmodelled(
        "GC200: host link (GB/s)",
        64,
        "the kit has the 8 GB/s of Graphcore's model; 20 GB/s were seen on a chip (tut6)",
    ),
    MACHINE_BLOG.unmodelled(
        "M2000: memory with streaming memory (GB)",
        450,
        "remote buffers are as large as the host's memory allows",
    ),
    Source(
        SILICON, "thorbenlouw/lbm-graphcore, gaussian-blur-scaling/exchange-vs-compute.csv"
    ).unmodelled(
        "C2 board, one IPU: sync of a float stencil (cycles)",
        117,
        "the source does not say how many syncs the figure includes",
    ),
    MEASURED.unmodelled(
        "Citadel: slow-down of the exchange under load (%)",
        24,
        "the sources that we could read do not describe the measured pattern",
    ),
    Source(SILICON, "BabelStream, pull request 70").unmodelled(
        "BabelStream: largest array on one GC2 (elements)",
        16_185_000,
        "it is not known what else is on a tile next to the three arrays",
    ),
    MEASURED.unmodelled(
        "random numbers, GC2 against a V100 (times)",
        4.9,
        "the kit has no model of a V100, and cycles a draw are not published",
    ),
    Source(SILICON, "Graphcore, performance results").unmodelled(
        "BERT-Large on 16 Bow IPUs (sequences a second)",
        6_044,
        "the source does not say whether sequences were packed; both set-ups are published",
    ),
]


def fabric() -> list[Row]:
    """Return the rows for the numbers of threads, and for the rates of exchange and links.

    Figures that the kit does not model are included.
    """
    ipu2, bow = machine("ipu2"), machine("bow")
    bytes_per_tile = 1_000_000
    exchange_rate = (
        ipu2.num_tiles
        * bytes_per_tile
        / float(exchange_cycles(bytes_per_tile, ipu2))
        * ipu2.tile_clock_frequency
    )
    num_threads = bow.num_tiles * bow.num_worker_contexts
    return [
        BOW_SLIDES.row(
            "Bow: parallel programs", 8_832, modelled=num_threads, tolerance=0, why="counted"
        ),
        SOFTWARE_SLIDES.row(
            "Bow-2000: processor cores",
            5_888,
            modelled=4 * bow.num_tiles,
            tolerance=0,
            why="counted",
        ),
        SOFTWARE_SLIDES.row(
            "Bow-2000: parallel threads",
            35_000,
            modelled=4 * num_threads,
            tolerance=0.01,
            why='"more than 35,000"',
        ),
        BLAKE.row(
            "GC200: exchange, any pattern (TB/s)",
            8,
            modelled=exchange_rate / 1e12,
            tolerance=0.03,
            why="7.83, rounded up in the source",
        ),
        *UNMODELLED,
    ]
