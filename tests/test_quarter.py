"""8-bit floats in a graph: variables, copies, streams, casts, executables; and what is refused.

How numbers become codes is tested in test_numbers.py; here it is taken from ml_dtypes.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

import ml_dtypes
import numpy as np
import pytest

from ipu_teach import (
    FLOAT,
    HALF,
    INT,
    QUARTER,
    UNSIGNED_CHAR,
    Engine,
    Executable,
    FloatingPointBehaviour,
    Graph,
    Input,
    IPUModel,
    Output,
    QuarterFormat,
    QuarterMetadata,
    Tensor,
    Vector,
    Vertex,
    compile_graph,
    concat,
    get_hw_seeds,
    set_floating_point_behaviour,
    set_hw_seeds,
    types,
)
from ipu_teach.errors import (
    ExecutableLoadError,
    PoplarError,
    PoplarTypeError,
    PoplibsError,
    TensorCreationError,
    TensorMetadataError,
    VertexDefinitionError,
)
from ipu_teach.poplibs import popops
from ipu_teach.program import Copy, Execute, PrintTensor, Sequence
from ipu_teach.types import Array, DType, dtype_named, from_quarter

F143, F152 = QuarterFormat.F143, QuarterFormat.F152
SMALL, WIDE = QUARTER[F143, -2], QUARTER[F152, 3]
DEVICE = IPUModel(tiles_per_ipu=3).create_device()
NUMBERS = np.array([0.0, 0.1, -1.3, 59.9, -60.0, 1e-3, 7.0, -0.25], np.float32)


def theirs(values: Array, dtype: type[DType]) -> Array:
    """The codes of `values` by ml_dtypes."""
    metadata: QuarterMetadata = dtype.metadata  # type: ignore[attr-defined]
    known: Any = {F143: ml_dtypes.float8_e4m3fnuz, F152: ml_dtypes.float8_e5m2fnuz}[metadata.format]
    return (
        (np.asarray(values, np.float64) * 2.0**-metadata.scale)
        .astype(np.float32)
        .astype(known)
        .view(np.uint8)
    )


class Bench:
    def __init__(self) -> None:
        self.graph = Graph(DEVICE.target)
        self.prog = Sequence()

    def variable(self, dtype: type[DType], shape: Any = 8, values: Any = None) -> Tensor:
        tensor = self.graph.add_variable(dtype, shape, f"v{len(self.graph.variables)}")
        self.graph.set_tile_mapping(tensor, 1)
        if values is not None:
            self.graph.set_initial_value(tensor, values)
        return tensor

    def run(self, *tensors: Tensor, **options: Any) -> list[Array]:
        for number, tensor in enumerate(tensors):
            self.graph.create_host_read(f"read{number}", tensor)
        engine = Engine(self.graph, self.prog, **options)
        engine.load_and_run(DEVICE)
        return [engine.read_tensor(f"read{number}") for number in range(len(tensors))]


@pytest.fixture
def bench() -> Bench:
    return Bench()


# --- the dtype ------------------------------------------------------------------------------------


def test_format_and_scale_are_a_part_of_the_dtype() -> None:
    assert (
        QUARTER[F143, -2]
        is QUARTER[QuarterMetadata(F143, -2)]
        is QUARTER[F143, np.int64(-2)]
        is SMALL
    )
    assert (
        SMALL is not QUARTER[F143, -1]
        and SMALL is not QUARTER[F152, -2]
        and QUARTER[F152] is QUARTER[F152, 0]
    )
    assert (repr(SMALL), SMALL.size, SMALL.numpy) == ("QUARTER[F143, -2]", 1, np.uint8)
    assert SMALL.metadata == QuarterMetadata(F143, -2)
    assert DEVICE.target.get_vector_width(SMALL) == 8


def test_every_dtype_is_found_by_its_name() -> None:
    for dtype in (*types.ALL, SMALL, QUARTER[F152, 31], QUARTER[F143, -32]):
        assert dtype_named(dtype.__name__) is dtype
    for name in (
        "QUARTER",
        "QUARTER[F143, 32]",
        "QUARTER[F144, 0]",
        "QUARTER[F143, --1]",
        "QUARTER[F143, -0]",
        "QUARTER[F143, 02]",
        "DOUBLE",
        "",
    ):
        assert dtype_named(name) is None


def test_tensors_know_their_metadata(bench: Bench) -> None:
    x, y = bench.variable(SMALL), bench.variable(HALF)
    assert (
        x.has_metadata()
        and x[2:4].get_metadata() == QuarterMetadata(F143, -2)
        and not y.has_metadata()
    )
    assert x.reinterpret(WIDE).get_metadata() == QuarterMetadata(F152, 3)
    assert concat([x, x]).get_metadata() == x.get_metadata()
    assert bench.graph.clone(x).get_metadata() == x.get_metadata()
    assert repr(x) == "Tensor('v0', QUARTER[F143, -2], shape (8,))"
    assert (
        repr(bench.graph.variables[0]) == "Variable('v0', QUARTER[F143, -2], shape (8,), 8 bytes)"
    )


# --- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [SMALL, WIDE], ids=repr)
def test_the_host_gives_numbers_or_codes_and_gets_codes(bench: Bench, dtype: type[DType]) -> None:
    codes = np.array([0, 1, 0x80, 0xFF, 17, 34, 200, 127], np.uint8)
    from_numbers = bench.variable(dtype, values=NUMBERS)
    from_codes = bench.variable(dtype, values=codes)
    constant = bench.graph.add_constant(dtype, 4, 1.5)
    bench.graph.set_tile_mapping(constant, 0)
    got = bench.run(from_numbers, from_codes, constant)
    np.testing.assert_array_equal(got[0], theirs(NUMBERS, dtype))
    np.testing.assert_array_equal(got[1], codes)
    np.testing.assert_array_equal(got[2], theirs(np.full(4, 1.5), dtype))


def test_unwritten_memory_holds_nan(bench: Bench) -> None:
    (found,) = bench.run(bench.variable(SMALL), strict=False)
    assert found.tolist() == [0x80] * 8 and np.isnan(from_quarter(found, SMALL.metadata)).all()


def test_copies_and_streams_move_codes(bench: Bench) -> None:
    x, y = bench.variable(WIDE), bench.variable(WIDE, (2, 4))
    to_device = bench.graph.add_host_to_device_fifo("in", WIDE, 8)
    to_host = bench.graph.add_device_to_host_fifo("out", WIDE, 8)
    buffer = bench.graph.add_remote_buffer("rows", WIDE, 8, 2)
    back = bench.variable(WIDE)
    for step in (
        Copy(to_device, x),
        Copy(x, y.flatten()),
        Copy(y, to_host),
        Copy(y.flatten(), buffer),
        Copy(buffer, back),
    ):
        bench.prog.add(step)
    bench.graph.create_host_read("back", back)
    engine = Engine(bench.graph, bench.prog)
    out = np.zeros(8, np.uint8)
    engine.connect_stream("in", NUMBERS)
    engine.connect_stream("out", out)
    engine.load_and_run(DEVICE)
    np.testing.assert_array_equal(out, theirs(NUMBERS, WIDE))
    np.testing.assert_array_equal(engine.read_tensor("back"), out)
    np.testing.assert_array_equal(engine.copy_from_remote_buffer("rows"), out)


def test_a_byte_each(bench: Bench) -> None:
    bench.variable(SMALL, 800)
    bench.variable(HALF, 400)
    assert [v.stop - v.start for v in bench.graph.variables] == [800, 800]


def test_printed_are_the_numbers(bench: Bench) -> None:
    bench.prog.add(PrintTensor("x", bench.variable(SMALL, 3, [0.5, -3, float("nan")])))
    engine = Engine(bench.graph, bench.prog)
    text = io.StringIO()
    engine.set_print_tensor_stream(text)
    engine.load_and_run(DEVICE)
    assert text.getvalue() == "x: [0.5000000 -3.0000000 nan]\n"


@pytest.mark.parametrize("source", [HALF, FLOAT], ids=repr)
@pytest.mark.parametrize("dtype", [SMALL, WIDE], ids=repr)
def test_casts_there_and_back(bench: Bench, source: type[DType], dtype: type[DType]) -> None:
    given = np.concatenate([NUMBERS, [6e4, np.inf, np.nan, -1e-7]]).astype(source.numpy)
    x = bench.variable(source, (3, 4), given)
    bench.graph.set_tile_mapping(x[1], 2)
    codes = popops.cast(bench.graph, x, dtype, bench.prog)
    back = popops.cast(bench.graph, codes, source, bench.prog)
    assert (codes.shape, codes.dtype, back.dtype) == ((3, 4), dtype, source)
    got = bench.run(codes, back, options={"debug.nanOverflowMode": True})
    with np.errstate(over="ignore"):
        expected = theirs(given, dtype)
    np.testing.assert_array_equal(got[0].reshape(-1), expected)
    np.testing.assert_array_equal(
        got[1].reshape(-1), from_quarter(expected, dtype.metadata).astype(source.numpy)
    )  # type: ignore[attr-defined]


# (dtype, value, code read back as if its scale were 0, with NANOO and without): PopLibs' tests,
# QuarterTypeArithmeticTests.cpp
PUBLISHED = [
    (QUARTER[F143, 0], 2.0**33, np.nan, 240),
    (QUARTER[F143, 0], 2.0**-12, 0, 0),
    (QUARTER[F143, -10], 8, np.nan, None),
    (QUARTER[F143, 31], 2.0**33, 4, 4),
    (QUARTER[F152, 0], 2.0**46, np.nan, 57344),
    (QUARTER[F152, -13], 8, np.nan, None),
    (QUARTER[F152, 31], 2.0**46, 32768, 32768),
]


@pytest.mark.parametrize(("dtype", "value", "as_nan", "saturated"), PUBLISHED, ids=repr)
def test_what_is_too_large_is_nan_or_the_largest(
    bench: Bench, dtype: Any, value: float, as_nan: float, saturated: float | None
) -> None:
    """As the bit NANOO says; of one program, before and after it is set, and on a tile where it is
    not."""
    x = bench.variable(FLOAT, 4, [value, -value, np.inf, np.nan])
    bench.graph.set_tile_mapping(x, 1)
    without = popops.cast(bench.graph, x, dtype, bench.prog)
    quiet = FloatingPointBehaviour(False, False, False, esr=False, nanoo=True)
    set_floating_point_behaviour(bench.graph, bench.prog, quiet, tile=1)
    with_nan = popops.cast(bench.graph, x, dtype, bench.prog)
    set_floating_point_behaviour(bench.graph, bench.prog, quiet, tile=0)
    found = bench.run(without, with_nan)
    if saturated is None:  # what is largest at this scale
        saturated = dtype.metadata.format.grid.largest
    for codes, wanted in zip(found, (saturated, as_nan), strict=True):
        unscaled = from_quarter(codes, QuarterMetadata(dtype.metadata.format))
        np.testing.assert_array_equal(unscaled, np.float32([wanted, -wanted, np.nan, np.nan]))


@pytest.mark.parametrize("source", [HALF, FLOAT], ids=repr)
def test_casts_to_eight_bits_round_by_chance(bench: Bench, source: type[DType]) -> None:
    """Fairly, within four standard errors, from seeds that repeat, and only where the tile's bit
    ESR is set."""
    dtype, count, value = QUARTER[F143, 0], 4000, 1.04
    x = bench.variable(source, count, np.full(count, value))
    bench.graph.set_tile_mapping(x, 0)
    bench.graph.set_tile_mapping(x[: count // 2], 1)
    set_floating_point_behaviour(
        bench.graph, bench.prog, FloatingPointBehaviour(False, False, False, True, False), tile=1
    )
    seeds = get_hw_seeds(bench.graph, bench.prog)
    first = popops.cast(bench.graph, x, dtype, bench.prog)
    second = popops.cast(bench.graph, x, dtype, bench.prog)
    set_hw_seeds(bench.graph, seeds, bench.prog)
    third = popops.cast(bench.graph, x, dtype, bench.prog)
    a, b, c = (from_quarter(codes, dtype.metadata) for codes in bench.run(first, second, third))
    np.testing.assert_array_equal(a, c)
    assert (a != b).any() and np.unique(a[count // 2 :]).tolist() == [1.0]
    chosen, way = a[: count // 2], (float(np.array(value, source.numpy)) - 1) * 8
    assert np.unique(chosen).tolist() == [1.0, 1.125]
    assert abs((chosen > 1).mean() - way) < 4 * (way * (1 - way) / len(chosen)) ** 0.5


def test_a_cast_lies_where_its_source_lies(bench: Bench) -> None:
    x = bench.variable(HALF, 8, 1)
    bench.graph.set_tile_mapping(x[4:], 2)
    codes = popops.cast(bench.graph, x, SMALL, bench.prog)
    assert bench.graph.get_tile_mapping(codes) == bench.graph.get_tile_mapping(x)


def test_a_cast_costs_what_its_loads_and_stores_do(bench: Bench) -> None:
    """As between FLOAT and HALF, one size down (PopLibs' Cast1D): 167 of 1,000 elements for the
    busiest worker.

    From HALF in groups of 8 that take 2 cycles: 12 + 6 * (18 + 19 + 2 * 20 + 9). To FLOAT in pairs,
    each a cycle: 12 + 6 * (18 + 19 + 83 + 3).
    """
    codes = popops.cast(bench.graph, bench.variable(HALF, 1000, 1), SMALL, bench.prog)
    popops.cast(bench.graph, codes, FLOAT, bench.prog)
    engine = Engine(bench.graph, bench.prog)
    engine.load_and_run(DEVICE)
    assert [int(cs.cycles_per_tile.max()) for cs in engine.report.compute_sets] == [528, 750]


def test_executables_keep_format_and_scale(bench: Bench, tmp_path: Path) -> None:
    x = bench.variable(FLOAT, 8, NUMBERS)
    codes = popops.cast(bench.graph, x, SMALL, bench.prog)
    bench.graph.create_host_read("codes", codes)
    compile_graph(bench.graph, bench.prog).save(tmp_path / "cast.ipu")
    engine = Engine(Executable.load(tmp_path / "cast.ipu"))
    engine.load_and_run(DEVICE)
    np.testing.assert_array_equal(engine.read_tensor("codes"), theirs(NUMBERS, SMALL))


class Codes(Vertex):
    """Codes read as bytes: the sign bit cleared."""

    x: Input[Vector[UNSIGNED_CHAR]]
    out: Output[Vector[UNSIGNED_CHAR]]

    def compute(self) -> None:
        self.out = self.x & 0x7F


def test_a_codelet_may_work_on_the_codes(bench: Bench) -> None:
    x, out = bench.variable(SMALL, values=NUMBERS), bench.variable(SMALL)
    cs = bench.graph.add_compute_set()
    vertex = bench.graph.add_vertex(
        cs, Codes, x=x.reinterpret(UNSIGNED_CHAR), out=out.reinterpret(UNSIGNED_CHAR)
    )
    bench.graph.set_tile_mapping(vertex, 0)
    bench.prog.add(Execute(cs))
    (got,) = bench.run(out)
    np.testing.assert_array_equal(
        from_quarter(got, SMALL.metadata), abs(from_quarter(theirs(NUMBERS, SMALL), SMALL.metadata))
    )


# --- what is refused ------------------------------------------------------------------------------


T = TypeVar("T")


class Anything(Vertex, Generic[T]):
    x: Input[Vector[T]]

    def compute(self) -> None:
        pass


def declared() -> type[Vertex]:
    class Scale(Vertex):
        x: Input[Vector[SMALL]]  # type: ignore[valid-type]

    return Scale


FLAWS: list[tuple[Callable[[Bench], object], type[PoplarError] | type[PoplibsError], str]] = [
    (
        lambda b: b.graph.add_variable(QUARTER, 4, "x"),
        PoplarTypeError,
        """\
The variable 'x' was given QUARTER without a format and a scale.
  next:  write QUARTER[QuarterFormat.F143, 0]: 4 exponent bits, 3 mantissa bits, and numbers times 2**0.""",
    ),
    (
        lambda b: QUARTER[F143, 40],
        TensorMetadataError,
        """\
QuarterMetadata() was given the scale 40, which is not a whole number from -32 to 31.
  next:  give a number in this range. The value of a byte is its number in the format times 2**scale.""",
    ),
    (
        lambda b: QUARTER[F143, 1, 2],
        TensorMetadataError,
        """\
QuarterMetadata() was given the format (<QuarterFormat.F143: 'F143'>, 1, 2), which is not a QuarterFormat.
  next:  give QuarterFormat.F143 or QuarterFormat.F152.""",
    ),
    (
        lambda b: SMALL(),
        PoplarTypeError,
        """\
QUARTER[F143, -2] is a dtype and is never instantiated.
  next:  pass the class itself, as in graph.add_variable(QUARTER[F143, -2], (4,)); for a host value use numpy.""",
    ),
    (
        lambda b: b.graph.add_variable(FLOAT, 4, "x").get_metadata(),
        TensorMetadataError,
        """\
FLOAT has no metadata.
  where: Tensor('x', FLOAT, shape (4,))
  next:  use an 8-bit float, which has a format and a scale: QUARTER[QuarterFormat.F143, 0].""",
    ),
    (
        lambda b: b.graph.add_constant(SMALL, 2, [1, 63], "c"),
        TensorCreationError,
        """\
The constant 'c': QUARTER[F143, -2] holds numbers up to 60; element [1] is 63.
  next:  choose another dtype, or round and clip the values first.""",
    ),
    (
        lambda b: b.graph.add_constant(SMALL, 1, float("inf"), "c"),
        TensorCreationError,
        """\
The constant 'c': QUARTER[F143, -2] holds numbers up to 60; the value is inf.
  next:  choose another dtype, or round and clip the values first.""",
    ),
    (
        lambda b: Copy(b.variable(SMALL), b.variable(QUARTER[F143, -1])),
        PoplarTypeError,
        """\
Copy was given a source of QUARTER[F143, -2] and a destination of QUARTER[F143, -1].
  where: Tensor('v0', QUARTER[F143, -2], shape (8,)) to Tensor('v1', QUARTER[F143, -1], shape (8,))
  next:  use one dtype for both, or convert with popops.cast first: a copy moves bits as they are.""",
    ),
    (
        lambda b: declared(),
        VertexDefinitionError,
        """\
Scale.x is a field of QUARTER[F143, -2], and codelets do not compute with 8-bit floats.
  next:  convert with popops.cast, and declare HALF or FLOAT; to work on their bits, declare UNSIGNED_CHAR and connect \
tensor.reinterpret(UNSIGNED_CHAR).""",
    ),
    (
        lambda b: popops.add(b.graph, b.variable(SMALL), b.variable(SMALL), b.prog),
        PoplibsError,
        """\
popops::BinaryOp1D cannot compute with QUARTER[F143, -2].
  next:  convert to HALF or FLOAT with popops.cast first.""",
    ),
    (
        lambda b: popops.fill(b.graph, b.variable(SMALL), b.prog, 1),
        PoplibsError,
        """\
popops::Fill cannot compute with QUARTER[F143, -2].
  next:  convert to HALF or FLOAT with popops.cast first.""",
    ),
    (
        lambda b: Anything[SMALL],
        VertexDefinitionError,
        """\
Anything<quarter[f143, -2]>.x is a field of QUARTER[F143, -2], and codelets do not compute with 8-bit floats.
  next:  convert with popops.cast, and declare HALF or FLOAT; to work on their bits, declare UNSIGNED_CHAR and connect \
tensor.reinterpret(UNSIGNED_CHAR).""",
    ),
    (
        lambda b: b.graph.add_vertex(
            b.graph.add_compute_set(), Codes, x=b.variable(SMALL), out=b.variable(UNSIGNED_CHAR)
        ),
        PoplarTypeError,
        """\
Codes.x holds UNSIGNED_CHAR, but was given a tensor of QUARTER[F143, -2].
  where: Tensor('v0', QUARTER[F143, -2], shape (8,))
  next:  convert it with popops.cast: codelets do not compute with 8-bit floats.""",
    ),
    (
        lambda b: popops.cast(b.graph, b.variable(INT), SMALL, b.prog),
        PoplibsError,
        """\
cast() cannot convert INT to QUARTER[F143, -2] in one step.
  where: Tensor('v0', INT, shape (8,))
  next:  cast to HALF or FLOAT first, then cast that result.""",
    ),
    (
        lambda b: popops.cast(b.graph, b.variable(SMALL), WIDE, b.prog),
        PoplibsError,
        """\
cast() cannot convert QUARTER[F143, -2] to QUARTER[F152, 3] in one step.
  where: Tensor('v0', QUARTER[F143, -2], shape (8,))
  next:  cast to HALF or FLOAT first, then cast that result.""",
    ),
]


@pytest.mark.parametrize(("call", "error", "text"), FLAWS, ids=[str(n) for n in range(len(FLAWS))])
def test_refused(
    bench: Bench, call: Callable[[Bench], object], error: type[Exception], text: str
) -> None:
    with pytest.raises(error) as caught:
        call(bench)
    assert [
        line for line in str(caught.value).splitlines() if not line.startswith("  line:")
    ] == text.splitlines()


def test_a_scale_that_no_executable_can_hold(bench: Bench, tmp_path: Path) -> None:
    """A damaged dtype is refused by name."""
    bench.graph.create_host_read("x", bench.variable(SMALL, values=1))
    path = tmp_path / "x.ipu"
    compile_graph(bench.graph, bench.prog).save(path)
    path.write_bytes(path.read_bytes().replace(b"QUARTER[F143, -2]", b"QUARTER[F143, 99]"))
    with pytest.raises(ExecutableLoadError):
        Executable.load(path)
