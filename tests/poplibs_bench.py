"""Run calls of PopLibs on small graphs, and the values to call them with."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings, strategies as st

from ipu_teach import (
    BOOL,
    CHAR,
    FLOAT,
    HALF,
    INT,
    LONGLONG,
    SHORT,
    UNSIGNED_CHAR,
    UNSIGNED_INT,
    UNSIGNED_LONGLONG,
    UNSIGNED_SHORT,
    Engine,
    Graph,
    IPUModel,
    Tensor,
    concat,
)
from ipu_teach.poplibs import poputil
from ipu_teach.program import Sequence
from ipu_teach.report import Report
from ipu_teach.target import Target
from ipu_teach.types import Array, DType

# Every run draws the same examples.
RANDOMLY = settings(
    deadline=None, derandomize=True, max_examples=60, suppress_health_check=list(HealthCheck)
)
FLOATS = (FLOAT, HALF)
NUMERIC = (
    FLOAT,
    HALF,
    INT,
    UNSIGNED_INT,
    CHAR,
    UNSIGNED_CHAR,
    SHORT,
    UNSIGNED_SHORT,
    LONGLONG,
    UNSIGNED_LONGLONG,
)


def target_of(tiles: int) -> Target:
    """Return the target of one IPU with `tiles` tiles."""
    return IPUModel("ipu2", tiles_per_ipu=tiles).create_device().target


class Bench:
    """A graph whose variables have initial values, and a program that library calls append to."""

    def __init__(self, tiles: int = 13) -> None:
        self.device = IPUModel("ipu2", tiles_per_ipu=tiles).create_device()
        self.graph = Graph(self.device)
        self.prog = Sequence()
        self._handles: dict[int, str] = {}
        self.report: Report | None = None

    def variable(self, values: Any, dtype: type[DType] = FLOAT, name: str | None = None) -> Tensor:
        """Return a linearly mapped variable whose initial value is `values`."""
        array = np.asarray(values, dtype.numpy)
        tensor = self.graph.add_variable(dtype, array.shape, name)
        poputil.map_tensor_linearly(self.graph, tensor)
        self.graph.set_initial_value(tensor, array)
        return tensor

    def run(self, *tensors: Tensor, times: int = 1, vertex_loop: bool = False) -> list[Array]:
        """Return the values of `tensors` after `times` runs of the program."""
        for tensor in tensors:
            if id(tensor) not in self._handles:
                self._handles[id(tensor)] = f"{len(self._handles)} {tensor!r}"
                self.graph.create_host_read(self._handles[id(tensor)], tensor)
        engine = Engine(self.graph, self.prog, vertex_loop=vertex_loop)
        engine.load(self.device)
        for _ in range(times):
            engine.run()
        self.report = engine.report
        return [engine.read_tensor(self._handles[id(tensor)]) for tensor in tensors]

    def check_mapped(self, tensor: Tensor) -> list[int]:
        """Return the tile of each element; check that each is mapped to exactly one."""
        tiles = np.full(tensor.num_elements, -1)
        for tile, pieces in enumerate(self.graph.get_tile_mapping(tensor)):
            for begin, end in pieces:
                assert np.all(tiles[begin:end] == -1)
                tiles[begin:end] = tile
        assert np.all(tiles >= 0)
        return tiles.tolist()


def assert_same_bits(got: Array, wanted: Any) -> None:
    """Check that dtype, shape and every bit are equal; any NaN equals any other."""
    wanted = np.asarray(wanted)
    assert got.dtype == wanted.dtype
    assert got.shape == wanted.shape
    if got.dtype.kind == "f":
        assert np.array_equal(np.isnan(got), np.isnan(wanted))
        got, wanted = np.where(np.isnan(got), 0, got), np.where(np.isnan(wanted), 0, wanted)
    assert got.tobytes() == np.ascontiguousarray(wanted).tobytes()


def sample(rng: np.random.Generator, shape: tuple[int, ...], dtype: type[DType]) -> Array:
    """Return values over the full range of an integer type, or over six powers of ten."""
    if dtype.numpy.kind == "f":
        powers = rng.uniform(-3, 3, shape)
        return np.asarray(rng.standard_normal(shape) * 10.0**powers).astype(dtype.numpy)
    bounds = np.iinfo(dtype.numpy)
    return np.asarray(rng.integers(bounds.min, bounds.max, shape, dtype.numpy, endpoint=True))


def as_view(bench: Bench, values: Array, dtype: type[DType], kind: str) -> Tensor:
    """Return a tensor with the elements `values`, as a view of this kind (one of `VIEWS`).

    Where the shape does not allow that view, it is a variable.
    """
    if kind == "transposed" and values.ndim == 2:
        return bench.variable(values.T, dtype).transpose()
    if kind == "sliced" and values.ndim:
        padded = np.zeros((values.shape[0] * 2 + 1, *values.shape[1:]), dtype.numpy)
        padded[1::2] = values
        return bench.variable(padded, dtype)[1::2]
    if kind == "concat" and values.ndim and values.shape[0] > 1:
        cut = values.shape[0] // 2
        back, front = bench.variable(values[cut:], dtype), bench.variable(values[:cut], dtype)
        return concat([front, back])
    return bench.variable(values, dtype)


DTYPES = st.sampled_from((FLOAT, FLOAT, FLOAT, HALF, HALF, *NUMERIC))


VIEWS = st.sampled_from(["plain", "transposed", "sliced", "concat"])


LENGTHS = st.sampled_from([1, 2, 3, 5, 7, 13, 31, 64, 67])


SHAPES = st.one_of(
    st.just(()),
    st.tuples(LENGTHS),
    st.tuples(LENGTHS, LENGTHS),
    st.tuples(LENGTHS, st.just(2), st.just(3)),
)


SEEDS = st.integers(0, 2**32 - 1)


class TensorKinds:
    """Tensors of every kind on one graph, two unmapped ones, and one of another graph."""

    def __init__(self) -> None:
        self.graph, self.prog = Graph(target_of(5)), Sequence()
        self.x, self.y = self._mapped(FLOAT, (4, 3), "x"), self._mapped(FLOAT, (4, 3), "y")
        self.v, self.one = self._mapped(FLOAT, (4,), "v"), self._mapped(FLOAT, (1,), "one")
        self.h, self.flag = self._mapped(HALF, (4, 3), "h"), self._mapped(BOOL, (4, 3), "flag")
        self.labels, self.count = (
            self._mapped(UNSIGNED_INT, (4,), "labels"),
            self._mapped(INT, (), "count"),
        )
        self.empty, self.cube = (
            self._mapped(FLOAT, (0, 3), "empty"),
            self._mapped(FLOAT, (2, 2, 2), "cube"),
        )
        self.lost = self.graph.add_variable(FLOAT, (4, 3), "lost")
        self.lost_count = self.graph.add_variable(INT, (), "lost count")
        self.other = Graph(target_of(5)).add_variable(FLOAT, (4, 3), "elsewhere")

    def _mapped(self, dtype: type[DType], shape: tuple[int, ...], name: str) -> Tensor:
        tensor = self.graph.add_variable(dtype, shape, name)
        poputil.map_tensor_linearly(self.graph, tensor)
        return tensor

    def state(self) -> tuple[int, ...]:
        """Return the counts that a refused call must leave as they were."""
        graph = self.graph
        vertices = sum(c.num_vertices for c in graph.compute_sets)
        return (
            len(graph.variables),
            len(graph.compute_sets),
            vertices,
            len(graph.mapping_log),
            len(self.prog.programs),
        )


WRONG_VALUES: list[Any] = [
    None,
    True,
    0,
    1,
    -1,
    3,
    2.5,
    -0.0,
    float("nan"),
    float("inf"),
    10**30,
    1j,
    "",
    "ADD",
    "x",
    b"x",
    [],
    [0],
    [0, 0],
    (1, 2),
    {},
    {0},
    object(),
    object,
    print,
    ...,
    np.arange(3),
    np.float32(2),
    np.int64(-5),
    np.bool_(True),
    np.array(None),
    FLOAT,
    HALF,
    INT,
    BOOL,
    DType,
    float,
    np.float32,
    range(2),
    iter([1]),
    slice(1),
]
