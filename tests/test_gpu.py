"""The engine on a GPU: its path through CuPy on a stand-in everywhere, and on the device itself
where there is one."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from types import ModuleType, SimpleNamespace
from typing import Any

import fake_cupy
import numpy as np
import pytest
from codelets import (
    SHAPES,
    AllPositive,
    Axpy,
    Counter,
    DotProduct,
    Evens,
    FlipWhereNegative,
    Gather,
    HalfScale,
    IntegerMix,
    Largest,
    PairwiseSum,
    Softmax,
    Sum,
    SuperScale,
    Swap,
    random_codelet,
)
from engine_parts import step_action
from graphs import (
    Placed,
    Space,
    add,
    contents,
    differences,
    random_copy,
    random_superstep,
    regions,
    same_bits,
)
from hypothesis import given, settings, strategies as st
from vertex_loop import DEVICE, RANDOMLY, small_limits

from ipu_course import doctor
from ipu_teach import (
    BOOL,
    FLOAT,
    HALF,
    INT,
    Engine,
    Graph,
    InOut,
    Input,
    IPUModel,
    Output,
    Vector,
    Vertex,
)
from ipu_teach.engine import backend
from ipu_teach.errors import CodeletError, InvalidOptionError
from ipu_teach.program import Copy, Execute, Repeat, Sequence
from ipu_teach.types import Array

ROOT = Path(__file__).resolve().parents[1]
RANDOM = np.random.default_rng(11)


# --- which engine runs ----------------------------------------------------------------------------


def test_without_a_driver_numpy_runs(no_gpu: None) -> None:
    assert backend.cupy_module() == (None, "no CUDA driver or device")
    assert backend.choose_backend(None).name == backend.choose_backend("numpy").name == "numpy"
    assert doctor.check_gpu() == (
        "ok",
        "GPU",
        "no CUDA driver or device; the engine runs on numpy, which is all it needs",
    )


def test_looking_for_a_gpu_imports_nothing() -> None:
    probe = (
        "import sys; from ipu_teach.engine.backend import cuda_devices; cuda_devices(); "
        "print('cupy' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, timeout=120
    )
    assert done.stdout == "False\n", done.stderr


def test_where_cupy_runs_it_is_taken_unless_told_otherwise(
    stand_in: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert backend.cupy_module() == (stand_in, "CuPy stand-in on a stand-in")
    assert doctor.check_gpu() == ("ok", "GPU", "the engine runs on CuPy stand-in on a stand-in")
    assert [backend.choose_backend(name).name for name in (None, "cupy", "numpy")] == [
        "cupy",
        "cupy",
        "numpy",
    ]
    monkeypatch.setenv("IPU_TEACH_GPU", "0")
    assert backend.choose_backend(None).name == "numpy"
    assert doctor.check_gpu()[2].startswith(
        "switched off by IPU_TEACH_GPU=0; the engine runs on numpy"
    )


def broken(*args: Any, **kwargs: Any) -> Any:
    raise RuntimeError("no NVRTC\nhere")


@pytest.mark.parametrize(
    ("module", "why"),
    [
        (
            None,
            "1 CUDA device seen, but CuPy is not installed: python -m pip install "
            "'cupy-cuda13x[ctk]'",
        ),
        (
            SimpleNamespace(arange=broken),
            "1 CUDA device seen, but CuPy does not run: RuntimeError: no NVRTC here",
        ),
        (
            SimpleNamespace(
                arange=fake_cupy.arange,
                ones=fake_cupy.ones,
                matmul=lambda a, b: fake_cupy.zeros((2, 2)),
            ),
            "CuPy computes wrong results here: 6 and 0.0 instead of 6 and 2",
        ),
    ],
)
def test_a_gpu_that_cannot_be_used_is_not_used(
    module: Any, why: str, stand_in: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cupy", module)
    assert backend.cupy_module() == (None, why)
    assert backend.choose_backend(None).name == "numpy"
    assert doctor.check_gpu() == (
        "note",
        "GPU",
        f"{why}; the engine runs on numpy, which is all it needs",
    )


def test_what_cannot_be_had_is_refused(no_gpu: None) -> None:
    graph = Graph(DEVICE.target)
    with pytest.raises(InvalidOptionError) as caught:
        Engine(graph, Sequence(), backend="cupy")
    assert str(caught.value) == (
        'Engine was given backend="cupy", but CuPy does not run here: no CUDA driver or device.\n'
        "  next:  leave backend out, and the engine runs on numpy. `ipu-teach doctor` shows what is "
        "missing."
    )
    with pytest.raises(InvalidOptionError) as caught:
        Engine(graph, Sequence(), backend="cuda")
    assert str(caught.value) == (
        "Engine was given backend='cuda', which does not exist.\n"
        '  next:  give "numpy", "cupy", or None, which selects CuPy if it runs and numpy otherwise.'
    )


def test_the_stand_in_has_nothing_that_cupy_lacks() -> None:
    if importlib.util.find_spec("cupy") is None:
        pytest.skip("CuPy is not installed")
    probe = (
        f"import cupy; print([n for n in {fake_cupy._NAMES.split()} if not "
        "isinstance(getattr(cupy, n), cupy.ufunc)])"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, timeout=120
    )
    assert done.stdout == "[]\n", done.stderr


GAPS: dict[str, tuple[Callable[[Any], Any], type[BaseException], str]] = {
    "no vecdot": (lambda xp: xp.vecdot, AttributeError, "vecdot"),
    "no matvec": (lambda xp: xp.matvec, AttributeError, "matvec"),
    "no vecmat": (lambda xp: xp.vecmat, AttributeError, "vecmat"),
    "no accumulate": (lambda xp: xp.add.accumulate, AttributeError, "accumulate"),
    "reductions by ufuncs": (
        lambda xp: xp.maximum.reduce(xp.ones(3)),
        NotImplementedError,
        "by their names",
    ),
    "modes of take": (
        lambda xp: xp.take(xp.ones(3), xp.arange(2), None, xp.zeros(2), "clip"),
        TypeError,
        "argument",
    ),
    "two writers of one place": (
        lambda xp: xp.ones(3).__setitem__(xp.asarray(np.array([1, 1])), xp.ones(2)),
        AssertionError,
        "twice",
    ),
    "a result over its operand": (
        lambda xp: over(xp, xp.add, 1),
        AssertionError,
        "over an operand",
    ),
    "a copy over its source": (lambda xp: over(xp, xp.copyto), AssertionError, "over an operand"),
    "a clip over its operand": (
        lambda xp: over(xp, xp.clip, 0, 1),
        AssertionError,
        "over an operand",
    ),
    "a mask as an index": (
        lambda xp: xp.ones(3)[xp.ones(3, bool)],
        AssertionError,
        "makes the host wait",
    ),
    "an index on the host": (lambda xp: xp.ones(3)[np.array([0])], AssertionError, "on the host"),
    "an operand on the host": (
        lambda xp: xp.add(xp.ones(3), np.ones(3)),
        TypeError,
        "numpy.ndarray",
    ),
    "numpy on its arrays": (lambda xp: np.add(xp.ones(3), 1), TypeError, "ufunc"),
    "numpy's functions": (lambda xp: np.sum(xp.ones(3)), TypeError, "on an array of the device"),
    "np.asarray": (lambda xp: np.asarray(xp.ones(3)), TypeError, "Implicit conversion"),
    "one number": (lambda xp: xp.ones(3).item(), AttributeError, "item"),
}


def over(xp: Any, function: Any, *rest: Any) -> None:
    """A call whose result lies one element beside its operand."""
    memory = xp.ones(5)
    function(memory[1:], memory[:-1]) if function is xp.copyto else function(
        memory[:-1], *rest, out=memory[1:]
    )


@pytest.mark.parametrize("gap", GAPS)
def test_the_stand_in_is_as_strict_as_cupy(gap: str) -> None:
    """So that what passes on it asks nothing of CuPy that CuPy has not."""
    call, kind, text = GAPS[gap]
    with pytest.raises(kind, match=text):
        call(fake_cupy)


def test_the_stand_in_poisons_what_cupy_leaves_undefined() -> None:
    assert fake_cupy.asnumpy(fake_cupy.empty(3)).tolist() == [77] * 3
    whole = fake_cupy.zeros(4, np.int32)
    fake_cupy.copyto(
        whole, fake_cupy.asarray(np.array([1.9, -1.9, 3e9, np.nan], np.float32)), "unsafe"
    )
    assert fake_cupy.asnumpy(whole).tolist() == [1, -1, 77, 77]
    # it wraps
    assert fake_cupy.asnumpy(
        fake_cupy.arange(3)[fake_cupy.asarray(np.array([4, -1]))]
    ).tolist() == [1, 2]


class Driver:
    """A CUDA driver library with some answers."""

    def __init__(self, error: int, count: int, counted: int = 0) -> None:
        self.error, self.count, self.counted = error, count, counted

    def cuInit(self, flags: int) -> int:
        return self.error

    def cuDeviceGetCount(self, into: Any) -> int:
        into._obj.value = self.count
        return self.counted


@pytest.mark.parametrize(
    ("driver", "seen"),
    [
        (OSError("libcuda.so.1: cannot open shared object file"), 0),
        (SimpleNamespace(), 0),  # a library without these entries
        (Driver(100, 1), 0),  # CUDA_ERROR_NO_DEVICE
        (Driver(0, 3, 1), 0),
        (Driver(0, 0), 0),
        (Driver(0, 2), 2),
    ],
)
def test_a_driver_is_asked_and_not_believed(
    driver: Any, seen: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(name: str) -> Any:
        if isinstance(driver, OSError):
            raise driver
        return driver

    monkeypatch.setattr(backend.ctypes, "CDLL", load)
    assert backend.cuda_devices() == (seen if sys.platform != "darwin" else 0)


@pytest.mark.parametrize("value", ["1", "", "yes"])
def test_nothing_but_0_switches_and_no_word_makes_a_gpu(
    value: str, no_gpu: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IPU_TEACH_GPU", value)
    assert backend.cupy_module() == (None, "no CUDA driver or device")
    assert backend.choose_backend(None).name == "numpy"


# --- programs -------------------------------------------------------------------------------------

FIELDS: dict[type[Vertex], dict[str, tuple[int, ...]]] = {
    AllPositive: {"x": (4,), "out": ()},
    Axpy: {"x": (5,), "y": (5,)},
    Counter: {"out": ()},
    DotProduct: {"a": (33,), "b": (33,), "out": ()},
    Evens: {"x": (7,), "out": (7,)},
    FlipWhereNegative: {"x": ()},
    HalfScale: {"x": (6,), "out": (6,)},
    IntegerMix: {"a": (4,), "b": (4,)},
    Largest: {"x": (9,), "out": ()},
    PairwiseSum: {"x": (300,), "out": ()},
    Softmax: {"x": (3, 5), "out": (3, 5)},
    Sum: {"x": (9,), "out": ()},
    SuperScale: {"x": (3,)},
    Swap: {"x": (2,)},
}
CLOSE = {DotProduct, PairwiseSum, Softmax}  # sums and exponentials


class Mixed(Vertex):
    """Slices of itself, a selection, a power, and a product of matrices."""

    m: Input[Vector[Vector[FLOAT]]]
    x: InOut[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self):
        self.x[1:] = self.x[:-1]
        self.x[1:] += self.x[:-1] * 2
        turned = self.x * 2
        turned = turned + turned[::-1]
        self.out = (
            np.where(turned > 0, np.clip(turned, -1, 1), self.m @ np.maximum(self.x, 0.5))
            + np.abs(self.x) ** 2
        )


FIELDS[Mixed] = {"m": (4, 4), "x": (4,), "out": (4,)}
CLOSE.add(Mixed)


class Labels(Vertex):
    """Floats become integers, some of which they do not fit: a processor and a GPU make different
    ones of those."""

    x: Input[Vector[FLOAT]]
    out: Output[Vector[INT]]

    def compute(self):
        self.out = self.x * 1e9


FIELDS[Labels] = {"x": (3,), "out": (3,)}
RUNS_ON_HOST = {FlipWhereNegative, Gather, Labels}
FIELDS[Gather] = {"x": (6,), "i": (), "out": ()}


def drawn(dtype: Any, shape: tuple[int, ...], rng: Any) -> Array:
    if dtype is BOOL:
        return rng.random(shape) < 0.5
    return (
        rng.integers(0, 6, shape)
        if dtype is INT
        else (rng.standard_normal(shape) * 3).astype(dtype.numpy)
    )


def built(codelet: type[Vertex], count: int = 40, **how: Any) -> tuple[Engine, list[str]]:
    """An engine with `count` vertices of a codelet, run twice each time."""
    rng = np.random.default_rng(3)
    graph = Graph(DEVICE.target)
    tensors = {}
    for name, shape in FIELDS[codelet].items():
        tensors[name] = graph.add_variable(codelet.fields[name].dtype, (count, *shape), name)
        graph.set_initial_value(
            tensors[name], drawn(codelet.fields[name].dtype, (count, *shape), rng)
        )
        graph.set_tile_mapping(tensors[name], 0)
        graph.create_host_read(name, tensors[name])
    compute_set = graph.add_compute_set()
    graph.add_vertices(compute_set, codelet, np.arange(count) % 3, **tensors)
    engine = Engine(graph, Repeat(2, Execute(compute_set)), **how)
    engine.load(IPUModel(tiles_per_ipu=3).create_device())
    return engine, list(tensors)


def alike(codelet: type[Vertex], a: Array, b: Array) -> bool:
    if codelet in CLOSE and a.dtype.kind == "f":
        return np.allclose(a, b, rtol=1e-5, atol=1e-5)
    return same_bits(a, b)


@pytest.mark.parametrize("codelet", FIELDS)
def test_programs_give_on_the_stand_in_what_they_give_in_numpy(
    codelet: type[Vertex], stand_in: Any
) -> None:
    (gpu, names), (plain, _) = built(codelet), built(codelet, backend="numpy")
    assert (gpu.backend, plain.backend) == ("cupy", "numpy")
    stand_in.waits.clear()
    stand_in.uploads.clear()
    gpu.run()
    plain.run()
    if codelet in RUNS_ON_HOST:  # the one copy there and the one back, for each of two executions
        assert (stand_in.waits, len(stand_in.uploads)) == (["asnumpy", "asnumpy", "synchronize"], 2)
    else:
        # Only at the end of the run, for its end and for the cycles that depended on data.
        assert (
            stand_in.waits[0] == "synchronize"
            and set(stand_in.waits[1:]) <= {"asnumpy"}
            and stand_in.uploads == []
        )
    for name in names:
        assert alike(codelet, gpu.read_tensor(name), plain.read_tensor(name)), name
    assert gpu.report.total_cycles == plain.report.total_cycles


def test_streams_copies_and_predicates_cross_at_the_edges(stand_in: Any) -> None:
    graph = Graph(DEVICE.target)
    x, y = graph.add_variable(FLOAT, (6,), "x"), graph.add_variable(FLOAT, (2, 3), "y")
    for tensor in (x, y):
        graph.set_tile_mapping(tensor, 1)
    into = graph.add_host_to_device_fifo("in", FLOAT, 6)
    out = graph.add_device_to_host_fifo("out", FLOAT, 6)
    shuffled = x.reshape((3, 2)).dim_shuffle([1, 0])
    engine = Engine(graph, Sequence(Copy(into, x), Copy(shuffled, y), Copy(y, out)))
    engine.load(DEVICE)
    got: list[Array] = []
    engine.connect_stream("in", np.arange(6, dtype=np.float32))
    engine.connect_stream("out", got)
    stand_in.waits.clear()
    stand_in.uploads.clear()
    engine.run()
    assert isinstance(got[0], np.ndarray) and got[0].reshape(-1).tolist() == [0, 2, 4, 1, 3, 5]
    assert (stand_in.waits, stand_in.uploads) == (["asnumpy", "synchronize"], ["asarray"])


@settings(RANDOMLY, max_examples=60)
@given(st.randoms(use_true_random=False))
def test_random_integer_codelets_equal_the_vertex_loop(stand_in: Any, rng: Random) -> None:
    codelet, source = random_codelet(rng, INT, rng.randrange(1, 9))
    n, k, count = (
        rng.choice([1, 2, 3, 5, 8, 17]),
        rng.choice([1, 2, 3, 5]),
        rng.choice([1, 2, 7, 20]),
    )
    space = Space(DEVICE, rng)
    sizes: dict[str, tuple[int, ...]] = {"n": (n,), "k": (k,), "kn": (k, n), "": ()}
    types = codelet.fields
    fields = {
        f: regions(rng, space, types[f].dtype, sizes[s], count, types[f].written)
        for f, s in SHAPES.items()
    }
    compute_set = space.graph.add_compute_set()
    for i in range(count):
        add(
            space,
            compute_set,
            Placed(codelet, rng.randrange(3), {f: [views[i]] for f, views in fields.items()}),
        )
    found: list[Any] = []
    with small_limits(rng):
        for how in ({"backend": "cupy"}, {"backend": "numpy", "vertex_loop": True}):
            try:
                found.append(contents(space, Repeat(2, Execute(compute_set)), **how))
            except CodeletError as error:
                found.append(type(error))
    if isinstance(found[0], type) or isinstance(found[1], type):
        assert found[0] is found[1], source
    else:
        assert differences(*found) == [], source


@settings(RANDOMLY, max_examples=40)
@given(st.randoms(use_true_random=False))
def test_random_graphs_equal_the_vertex_loop(stand_in: Any, rng: Random) -> None:
    space = Space(DEVICE, rng)
    for _ in range(rng.randrange(4)):
        shape = [rng.choice([0, 1, 2, 3, 5, 8, 13]) for _ in range(rng.randint(1, 3))]
        space.variable(rng.choice([FLOAT, HALF, INT, BOOL]), shape)
    steps: list[Any] = [
        Execute(random_superstep(rng, space).compute_set) for _ in range(rng.randint(1, 3))
    ]
    steps += [random_copy(rng, space)[0] for _ in range(rng.randrange(3))]
    rng.shuffle(steps)
    program = Sequence(*steps[1:], Repeat(2, steps[0]))
    with small_limits(rng):
        gpu, looped = (
            contents(space, program, backend=b, vertex_loop=b == "numpy") for b in ("cupy", "numpy")
        )
    for name, values in gpu.items():
        if values.dtype.kind == "f":
            np.testing.assert_allclose(
                values, looped[name], rtol=1e-2 if values.itemsize == 2 else 1e-4, atol=1e-5
            )
        else:
            assert same_bits(values, looped[name])


def test_the_engines_own_tests_hold_on_the_stand_in() -> None:
    names = ["control", "streams", "remote", "branches", "stochastic_rounding", "definedness"]
    words = [
        "-q",
        "-n0",
        "-p",
        "no:cacheprovider",
        "--stand-in",
        "-k",
        "not random",
        *(f"tests/test_{n}.py" for n in names),
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout[-3000:]


# --- on a device ----------------------------------------------------------------------------------


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Any:
    if "--stand-in" in sys.argv:
        pytest.skip("this session runs on the stand-in")
    monkeypatch.delenv("IPU_TEACH_GPU", raising=False)
    cupy, why = backend.cupy_module()
    if cupy is None:
        pytest.skip(why)
    return cupy


@pytest.mark.gpu
@pytest.mark.parametrize("codelet", FIELDS)
def test_programs_give_on_a_device_what_they_give_in_numpy(
    codelet: type[Vertex], device: Any
) -> None:
    (gpu, names), (plain, _) = built(codelet, backend="cupy"), built(codelet, backend="numpy")
    gpu.run()
    plain.run()
    for name in names:
        assert alike(codelet, gpu.read_tensor(name), plain.read_tensor(name)), name
    assert gpu.report.total_cycles == plain.report.total_cycles


@pytest.mark.gpu
@pytest.mark.parametrize("codelet", [c for c in FIELDS if c not in RUNS_ON_HOST])
def test_nothing_waits_for_a_device_inside_a_step(codelet: type[Vertex], device: Any) -> None:
    import cupyx

    engine, _ = built(codelet, backend="cupy")
    engine.run()
    with cupyx.allow_synchronize(False):
        step_action(engine)()
