"""Single vertices that others wrote and measured on a chip, and the STREAM benchmark."""

from __future__ import annotations

from ipu_teach.cost import vertices
from ipu_teach.graph import Graph, InOut, Input, MultiVertex, Output, Vector, Vertex, template
from ipu_teach.graph.vertex_table import FieldValue
from ipu_teach.poplibs import popops, poputil
from ipu_teach.program import Copy, Sequence
from ipu_teach.target import BY_HAND, COMPILED
from ipu_teach.types import FLOAT, HALF, DType
from validation.programs import machine, one_vertex, profile
from validation.row import PROGRAMS, SILICON, TOLERANCES, VERTICES, Row, Source

IPU_STACK = Source(
    SILICON, "osmarks/ipu-stack, crates/ipu-codegen/src/kernel/cost.rs, measured on a C600"
)
EXPLORER = Source(
    SILICON, "markp-gc/poplar_explorer, src/codelets/OptimisingVertices/matrix4x4.cpp"
)
SIMEHAA = Source(SILICON, "simehaa/IPU, STREAMTriad/README.md")
JACOBI, DOT, QR = (
    Source(SILICON, f"graphcore-research/tessellate-ipu, tests/{file}.py")
    for file in (
        "linalg/test_tile_linalg_jacobi",
        "lax/test_tile_lax_small_dot",
        "linalg/test_tile_linalg_qr",
    )
)
BABEL = Source(
    SILICON,
    "Louw and McIntosh-Smith, Using the Graphcore IPU for traditional HPC applications (2021), "
    "table I",
)
# The number of elements in each of three arrays: the largest number for which the arrays fit on a
# GC2 (BabelStream, pull request 70).
BABEL_LARGEST = 16_185_000
# The clock frequency of boards with a GC2 in Hz. Graphcore's model of the GC2 has a clock of 1.6
# GHz. Source: UoB-HPC/ipu-hpc-cookbook
BOARD_CLOCK = 1.3e9
WITHIN = TOLERANCES[VERTICES]

# {number of elements: cycles between two readings of the tile's counter}
SCALED_ADD = {64: 375, 128: 467, 256: 665, 512: 1_043}
# Each item is (rows, depth, columns, cycles).
PRODUCTS = (
    (184, 288, 48, 48_654),
    (182, 288, 48, 48_180),
    (184, 288, 32, 32_538),
    (146, 576, 32, 53_718),
    (120, 80, 272, 55_344),
)


def libraries() -> list[Row]:
    """Return the table rows for popops.scaled_add_to on a tile, and for matrix products.

    The products multiply HALF matrices with the AMP units. The figures for scaled_add_to include
    the sync of the superstep.
    """
    target = machine("ipu2")
    rows = []
    for num_columns, published in SCALED_ADD.items():
        graph = Graph(target)
        program = Sequence()
        x, y, factor = (
            graph.add_variable(FLOAT, shape, name)
            for name, shape in (("x", (num_columns,)), ("y", (num_columns,)), ("factor", ()))
        )
        for tensor in (x, y, factor):
            graph.set_tile_mapping(tensor, 0)
            graph.set_initial_value(tensor, 1)
        popops.scaled_add_to(graph, x, y, factor, program)
        rows.append(
            JACOBI.row(
                f"popops::ScaledAdd of {num_columns} float on a tile of a Bow, with its sync "
                "(cycles)",
                published,
                modelled=profile(graph, program).total_cycles,
                tolerance=WITHIN,
                why="PopLibs' estimate, and the 100 cycles of a sync that the kit assumes",
            )
        )
    for num_rows, depth, num_columns, published in PRODUCTS:
        cycles = float(
            vertices.conv_partial_1x1(num_rows, depth, num_columns, HALF, target, interleaved=True)
        )
        rows.append(
            IPU_STACK.row(
                f"product of half, {num_rows} x {depth} by {depth} x {num_columns}, weights in "
                "interleaved memory, C600 chip (cycles)",
                published,
                modelled=cycles,
                tolerance=WITHIN,
                why=(
                    "PopLibs' estimate for ConvPartial1x1; the chip ran a kernel of that "
                    "project's own"
                ),
            )
        )
    return rows


# --- vertices that others wrote -------------------------------------------------------------------


class Transform(MultiVertex):
    """A 4 x 4 matrix times each vector of four numbers in `vectors`, in place.

    It computes element by element, as a plain C++ loop does.
    """

    matrix: Input[Vector[FLOAT]]
    vectors: InOut[Vector[FLOAT]]

    def compute(self, worker_id: int) -> None:
        for v in range(4 * worker_id, len(self.vectors), 4 * self.num_workers):
            x, y, z, w = (
                self.vectors[v],
                self.vectors[v + 1],
                self.vectors[v + 2],
                self.vectors[v + 3],
            )
            for i in range(4):
                left = self.matrix[4 * i] * x + self.matrix[4 * i + 1] * y
                self.vectors[v + i] = left + self.matrix[4 * i + 2] * z + self.matrix[4 * i + 3] * w


class VectorTransform(MultiVertex):
    """`Transform` with operations on pairs of numbers instead of single numbers.

    A vector, like a row of the matrix, has four numbers and takes two loads.
    """

    matrix: Input[Vector[FLOAT]]
    vectors: InOut[Vector[FLOAT]]

    def compute(self, worker_id: int) -> None:
        for v in range(4 * worker_id, len(self.vectors), 4 * self.num_workers):
            xy = self.vectors[v : v + 2] * 1
            zw = self.vectors[v + 2 : v + 4] * 1
            for i in range(4):
                pair = self.matrix[4 * i : 4 * i + 2] * xy + self.matrix[4 * i + 2 : 4 * i + 4] * zw
                self.vectors[v + i] = pair[0] + pair[1]


class Rotate(MultiVertex):
    """A rotation of two rows by an angle; `cs` has the cosine and the sine of the angle."""

    cs: Input[Vector[FLOAT]]
    row0: Input[Vector[FLOAT]]
    row1: Input[Vector[FLOAT]]
    out0: Output[Vector[FLOAT]]
    out1: Output[Vector[FLOAT]]

    def compute(self, worker_id: int) -> None:
        n = len(self.row0)
        begin = n * worker_id // self.num_workers
        end = n * (worker_id + 1) // self.num_workers
        self.out0[begin:end] = self.cs[0] * self.row0[begin:end] - self.cs[1] * self.row1[begin:end]
        self.out1[begin:end] = self.cs[1] * self.row0[begin:end] + self.cs[0] * self.row1[begin:end]


class RowUpdate(MultiVertex):
    """Householder's update of a row `x`: it subtracts s * s * v, in place."""

    x: InOut[Vector[FLOAT]]
    v: Input[Vector[FLOAT]]
    s: Input[FLOAT]

    def compute(self, worker_id: int) -> None:
        n = len(self.x)
        begin = n * worker_id // self.num_workers
        end = n * (worker_id + 1) // self.num_workers
        self.x[begin:end] = self.x[begin:end] - self.s * self.s * self.v[begin:end]


class PartialSums(MultiVertex):
    """The sum of the rows of `parts`, element by element."""

    parts: Input[Vector[Vector[HALF]]]
    out: Output[Vector[HALF]]

    def compute(self, worker_id: int) -> None:
        n = len(self.out)
        begin = n * worker_id // self.num_workers
        end = n * (worker_id + 1) // self.num_workers
        total = self.parts[0, begin:end] + self.parts[1, begin:end]
        for k in range(2, len(self.parts)):
            total = total + self.parts[k, begin:end]
        self.out[begin:end] = total


class Triad(Vertex):
    """STREAM's triad on vectors: a = b + alpha c."""

    b: Input[Vector[FLOAT]]
    c: Input[Vector[FLOAT]]
    a: Output[Vector[FLOAT]]
    alpha: FLOAT

    def compute(self) -> None:
        self.a = self.b + self.alpha * self.c


class LoopTriad(Vertex):
    """STREAM's triad as a loop over single numbers."""

    b: Input[Vector[FLOAT]]
    c: Input[Vector[FLOAT]]
    a: Output[Vector[FLOAT]]
    alpha: FLOAT

    def compute(self) -> None:
        for i in range(len(self.a)):
            self.a[i] = self.b[i] + self.alpha * self.c[i]


# Each item is (length of a vector, number of vectors, cycles).
SUMS = (
    (8, 2, 360),
    (56, 2, 438),
    (1_472, 2, 2_700),
    (2_208, 4, 4_974),
    (1_472, 4, 3_444),
    (576, 15, 3_090),
    (2_208, 28, 18_222),
)


def own() -> list[Row]:
    """Return rows for vertices that were written in plain C++, with intrinsics or in assembly.

    The figures are cycles, or operations per cycle, of a vertex on one tile.
    """
    return [*_transforms(), *_triads(), *_linear_algebra(), *_sums()]


def _transforms() -> list[Row]:
    """Return the rows of a 4 x 4 matrix times many vectors, in C++ and with intrinsics."""
    num_vectors = 204  # The chip processed 2,004 vectors, but each takes the same time.

    def flops_per_cycle(codelet: type[Vertex]) -> float:
        cycles = one_vertex(
            codelet, {"matrix": (16,), "vectors": (4 * num_vectors,)}, codelet_prices=COMPILED
        )
        return num_vectors * 28 / cycles

    register_reason = (
        "the chip's compiler keeps a part of the matrix in registers; the model loads "
        "this part for every vector"
    )
    return [
        EXPLORER.row(
            "4 x 4 matrix times 2,004 vectors, MultiVertex, ipu2 chip, C++ (flop a cycle)",
            0.68,
            modelled=flops_per_cycle(Transform),
            tolerance=WITHIN,
            why=register_reason,
            explained=True,
        ),
        EXPLORER.row(
            "4 x 4 matrix times 2,004 vectors, MultiVertex, ipu2 chip, intrinsics (flop a cycle)",
            1.03,
            modelled=flops_per_cycle(VectorTransform),
            tolerance=WITHIN,
            why=register_reason,
            explained=True,
        ),
    ]


def _triads() -> list[Row]:
    """Return the rows of STREAM's triad in assembly, on all tiles."""
    num_elements = 12_000
    chip = machine("ipu2")
    triad_cycles = one_vertex(
        Triad, {**_shapes(num_elements, "a", "b", "c"), "alpha": 2}, codelet_prices=BY_HAND
    )
    # The number of elements that all tiles process in a second, with six workers on each tile.
    elements_per_second = (
        6 * num_elements / triad_cycles * chip.num_tiles * chip.tile_clock_frequency
    )
    pipeline_reason = (
        "two loads, a store and f32v2axpy in one cycle; the model reaches "
        "this limit except for the start of the vertex"
    )
    return [
        SIMEHAA.row(
            "triad, GC200, assembly (TFLOP/s)",
            7.76,
            modelled=2 * elements_per_second / 1e12,
            tolerance=WITHIN,
            why=pipeline_reason,
        ),
        SIMEHAA.row(
            "triad, GC200, assembly (TB/s)",
            46.55,
            modelled=12 * elements_per_second / 1e12,
            tolerance=WITHIN,
            why=pipeline_reason,
        ),
    ]


def _linear_algebra() -> list[Row]:
    """Return the rows of a rotation and of Householder's update, with intrinsics."""

    def by_hand_and_compiled(codelet: type[Vertex], fields: dict[str, FieldValue]) -> list[int]:
        return [
            one_vertex(codelet, fields, codelet_prices=prices) for prices in (BY_HAND, COMPILED)
        ]

    rotation_cycles, rotation_cycles_in_c = by_hand_and_compiled(
        Rotate, {"cs": (2,), **_shapes(512, "row0", "row1", "out0", "out1")}
    )
    update_cycles, update_cycles_in_c = by_hand_and_compiled(
        RowUpdate, {"s": (), **_shapes(256, "x", "v")}
    )
    intrinsics_reason = (
        "written with intrinsics, and timed with its sync; ours is by hand, as compiled it comes "
        "to {:,}"
    )
    return [
        DOT.row(
            "rotation of 2 x 512 float on a tile of an Mk2 (cycles)",
            1_916,
            modelled=rotation_cycles,
            tolerance=WITHIN,
            why=intrinsics_reason.format(rotation_cycles_in_c),
            explained=True,
        ),
        QR.row(
            "Householder's update of 256 float on a tile of an Mk2 (cycles)",
            683,
            modelled=update_cycles,
            tolerance=WITHIN,
            why=intrinsics_reason.format(update_cycles_in_c),
            explained=True,
        ),
    ]


def _sums() -> list[Row]:
    """Return the rows of sums of vectors of HALF, in assembly."""
    loop_reason = (
        "its author counts 282 cycles to start, 11 around each 8 numbers, and 2 for a further "
        "vector; ours has these 2"
    )
    return [
        IPU_STACK.row(
            f"sum of {parts} vectors of {length:,} half, C600 chip, assembly (cycles)",
            published,
            modelled=one_vertex(
                PartialSums,
                {"parts": (parts, length), "out": (length,)},
                codelet_prices=BY_HAND,
            ),
            tolerance=WITHIN,
            why=loop_reason,
            explained=True,
        )
        for length, parts, published in SUMS
    ]


def _shapes(length: int, *names: str) -> dict[str, FieldValue]:
    """Return the shapes of fields that are vectors of the same length."""
    return dict.fromkeys(names, (length,))


# --- STREAM ---------------------------------------------------------------------------------------


def _with_popops(dtype: type[DType]) -> float:
    """Return the cycles of a triad on a GC2 with popops: a copy and a scaled addition."""
    graph = Graph(machine("ipu1"))
    program = Sequence()
    result, copied, scaled = (graph.add_variable(dtype, (BABEL_LARGEST,), name) for name in "abc")
    for tensor in (result, copied, scaled):
        poputil.map_tensor_linearly(graph, tensor)
        graph.set_initial_value(tensor, 1)
    program.add(Copy(copied, result))
    popops.scaled_add_to(graph, result, scaled, 0.4, program, options={"optimizeForSpeed": "true"})
    return profile(graph, program).total_cycles


def streams() -> list[Row]:
    """Return the table rows for BabelStream's triad on one GC2, which the host timed.

    For each precision, there is a row with PopLibs, and a row with a loop in each worker.
    """
    chip = machine("ipu1")
    rows = []
    elements_per_worker = -(-BABEL_LARGEST // chip.num_tiles // chip.num_worker_contexts)
    vector_reason = (
        "timed on the host; what of PopLibs it ran is not known: as compiled, a loop over vectors "
        "would come to about 7,500"
    )
    loop_reason = (
        "five instructions a number; BabelStream's array is taken as the largest that fits"
    )
    for dtype, popops_rate, loop_rate in ((FLOAT, 7_261, 3_726), (HALF, 7_490, 1_488)):
        codelet = LoopTriad if dtype is FLOAT else template(LoopTriad, "HalfTriad", {FLOAT: HALF})
        fields: dict[str, FieldValue] = {
            "a": (elements_per_worker,),
            "b": (elements_per_worker,),
            "c": (elements_per_worker,),
            "alpha": 2,
        }
        loop_cycles = (
            one_vertex(codelet, fields, "ipu1", codelet_prices=COMPILED) + chip.auto_sync_delay
        )
        for language, cycles, published in (
            ("popops", _with_popops(dtype), popops_rate),
            ("C++", loop_cycles, loop_rate),
        ):
            gigabytes_per_second = 3 * dtype.size * BABEL_LARGEST / cycles * BOARD_CLOCK / 1e9
            precision = "single" if dtype is FLOAT else "half"
            rows.append(
                BABEL.row(
                    f"BabelStream triad, {precision}, one GC2, {language} (GB/s)",
                    published,
                    modelled=gigabytes_per_second,
                    tolerance=TOLERANCES[PROGRAMS],
                    why=loop_reason if language == "C++" else vector_reason,
                    explained=True,
                )
            )
    return rows
