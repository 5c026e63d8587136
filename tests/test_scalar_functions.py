"""Functions of single numbers in scalar loops: the bits of a plain loop over numpy's and Python's own
functions, for every kind of number, and the reference's cycles."""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graphs import same_bits
from scalar_vertices import VertexRows

from ipu_teach import FLOAT, HALF, INT, InOut, Vector, Vertex
from ipu_teach.compile.scalar import ScalarCode, scalar_code
from ipu_teach.engine.scalar import compiled, run as scalar_run
from ipu_teach.engine.scalar.functions import program_of
from ipu_teach.errors import CodeletError
from ipu_teach.report import Report
from ipu_teach.report.summary import summary_text
from ipu_teach.target import make_target
from ipu_teach.types import Array, DType

pytestmark = [
    pytest.mark.skipif(not compiled.numba_is_here(), reason="numba is not installed"),
    pytest.mark.usefixtures("compiled_loops_folder"),
]

# Expressions of two numbers x and y, by the share of vertices that may go back to CPython: where a
# function of `math` raises, and where only it can say which zero or NaN it is.
NUMPY = {
    "questions": ["np.isnan(x)", "np.isinf(x)", "np.isfinite(x)", "np.sign(x)", "np.round(x)"],
    "angles": ["np.degrees(x)", "np.radians(y)", "np.deg2rad(x)", "np.rad2deg(y)"],
    "logic": [
        "np.logical_not(x)",
        "np.logical_and(x, y)",
        "np.logical_or(x, y)",
        "np.logical_xor(x, y)",
        "np.where(x > y, x, y)",
        "np.where(x, 1.0, y)",
    ],
    "loops of one number": [
        *(f"np.{name}(x)" for name in ("exp", "cbrt", "arctan", "arcsin", "sin", "log10", "expm1")),
        *(f"np.{name}(x)" for name in ("arcsinh", "arccosh", "arctanh", "cos", "tan", "cosh")),
    ],
    "loops of two numbers": [
        *(f"np.{name}(x, y)" for name in ("hypot", "arctan2", "fmod", "power", "heaviside")),
        *(f"np.{name}(x, y)" for name in ("logaddexp", "logaddexp2", "fmax", "fmin")),
        "np.power(x, 2)",
    ],
    "signs": ["np.signbit(x)", "np.copysign(y, x)"],
    "extremes": ["np.clip(x, -1.5, y)", "np.clip(x, y, y)"],
}
MATH = {
    "questions of math": ["math.isnan(x)", "math.isinf(x)", "math.isfinite(x)"],
    "functions of math": [
        *(f"math.{name}(x)" for name in ("erf", "erfc", "asinh", "degrees", "radians")),
        "math.acosh(1 + abs(x))",
        "math.atanh(x / (1 + abs(x))) if abs(x) < 1000 else 0.0",
        "math.gamma(x) if 0.01 < x < 30 else 0.0",
        "math.lgamma(x) if 0.01 < x < 1e4 else 0.0",
        "math.trunc(float(x)) if abs(x) < 1e4 else 0",
        "math.hypot(x)",
        "math.hypot(x, y)",
        "math.hypot(x, y, 0.5)",
        "math.fmod(x, y) if abs(x) < 1e30 and y != 0 else 0.0",
        "math.remainder(x, y) if abs(x) < 1e30 and y != 0 else 0.0",
        "math.pow(x, y) if 0.01 < x < 100 and abs(y) < 9 else 0.0",
        "math.pow(x, 2) if abs(x) < 1e9 else 0.0",
        "pow(x, 2)",
    ],
    "signs of math": ["math.copysign(x, y)"],
}
SINCE_3_11 = [f"math.{name}(x) if abs(x) < 60 else 0.0" for name in ("exp2", "cbrt")]
INTEGERS = {
    "integers": [
        *(f"np.{name}(x)" for name in ("isnan", "isfinite", "signbit", "sign", "round")),
        "np.logical_not(x)",
        "np.where(x > y, x, y)",
        "np.power(x, 2)",
        "math.isinf(x)",
        "math.copysign(x, y)",
        "math.hypot(x, y)",
        "divmod(x, 3)[0] * 10 + divmod(x, 3)[1]",
        "divmod(int(x), 7)[1]",
        "pow(x, 2)",
        "np.fmax(x, y)",
    ]
}
EXPRESSIONS = NUMPY | MATH | INTEGERS | {"since 3.11": SINCE_3_11}
GO_BACK = {"signs", "signs of math", "extremes"}
TEXT = """
import math
import numpy as np
from ipu_teach import FLOAT, HALF, INT, Input, Output, Vector, Vertex

class Loop(Vertex):
    x: Input[{dtype}]
    y: Input[{dtype}]
    out: Output[Vector[{dtype}]]

    def compute(self):
        x, y = self.x, self.y
        if x < 1 or not x < 1:
{stores}
"""


def codelet_of(text: str, folder: Path) -> type[Vertex]:
    """The codelet `Loop` of a file with that text."""
    path = folder / "function.py"
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(f"function_{abs(hash(text))}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module
    spec.loader.exec_module(module)
    loop: type[Vertex] = module.Loop
    return loop


def numbers(dtype: type[DType]) -> tuple[Array, Array]:
    """All pairs of special numbers, numbers of any bits, and numbers of usual size."""
    kind, rng = np.dtype(dtype.numpy), np.random.default_rng(1)
    if kind.kind == "i":
        integers = [0, 1, -1, 2, -3, 7, 100, -4000]
        usual = rng.integers(-1000, 1000, (2, 200))
        x, y = np.array(np.meshgrid(integers, integers)).reshape(2, -1)
        return tuple(
            np.concatenate((a, b)).astype(kind) for a, b in zip((x, y), usual, strict=True)
        )  # type: ignore[return-value]
    tiny, large = np.finfo(kind).smallest_subnormal, np.finfo(kind).max
    special: list[float] = [
        0.0,
        -0.0,
        1,
        -1,
        0.5,
        2,
        3,
        -7.25,
        np.nan,
        np.inf,
        -np.inf,
        tiny,
        -3 * tiny,
        large,
    ]
    pairs = np.array(np.meshgrid(special, special)).reshape(2, -1).astype(kind)
    word = np.uint16 if kind.itemsize == 2 else np.uint32
    bits = rng.integers(0, np.iinfo(word).max, (2, 200), word).view(kind)
    usual = (rng.standard_normal((2, 400)) * 4).astype(kind)
    x, y = np.concatenate((pairs, bits, usual), axis=1)
    return x, y


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("group", "dtype"),
    [
        *((group, FLOAT) for group in NUMPY | MATH),
        *(pytest.param(group, HALF, marks=pytest.mark.thorough) for group in NUMPY | MATH),
        *((group, INT) for group in INTEGERS),
        pytest.param(
            "since 3.11",
            FLOAT,
            marks=pytest.mark.skipif(sys.version_info < (3, 11), reason="not in this Python"),
        ),
    ],
)
def test_functions_have_the_bits_of_a_plain_loop_and_the_cycles_of_the_reference(
    group: str, dtype: type[DType], tmp_path: Path, vertices_by_python: list[int]
) -> None:
    expressions = EXPRESSIONS[group]
    stores = [f"            self.out[{k}] = {text}" for k, text in enumerate(expressions)]
    loop = codelet_of(TEXT.format(dtype=dtype.__name__, stores="\n".join(stores)), tmp_path)
    code = scalar_code(loop)
    assert isinstance(code, ScalarCode) and not code.uncompiled, code
    x, y = numbers(dtype)
    expected = np.zeros((len(x), len(expressions)), dtype.numpy)
    with np.errstate(all="ignore"):
        for row in range(len(x)):
            names: dict[str, Any] = {"math": math, "np": np, "x": x[row], "y": y[row]}
            for column, text in enumerate(expressions):
                expected[row, column] = eval(text, names)
    values = {"x": x, "y": y, "out": np.zeros_like(expected)}
    engine, found = VertexRows(loop, values).run(1)
    assert engine.report.ways() == {"Loop": "scalar"}
    assert len(vertices_by_python) <= (len(x) // 3 if group in GO_BACK else 0)
    for column, text in enumerate(expressions):
        assert same_bits(found["out"][:, column], expected[:, column]), text
    reference, _ = VertexRows(loop, values).run(1, vertex_loop=True)
    assert engine.report.total_cycles == reference.report.total_cycles > 0


RAISES = """
import math
from ipu_teach import FLOAT, Input, Output, Vertex

class Loop(Vertex):
    x: Input[FLOAT]
    out: Output[FLOAT]

    def compute(self):
        if self.x == self.x:
            self.out = {expression}
"""


@pytest.mark.parametrize(
    ("expression", "bad", "message"),
    [
        ("math.acosh(self.x)", 0.5, "math domain error"),
        ("math.atanh(self.x)", 1, "math domain error"),
        ("math.gamma(self.x)", -3, "math domain error"),
        ("math.gamma(self.x)", 200, "math range error"),
        ("math.lgamma(self.x)", 0, "math domain error"),
        ("math.fmod(self.x, 0)", 2, "math domain error"),
        ("math.pow(self.x, 0.5)", -2, "math domain error"),
        ("math.pow(self.x, -2.0)", 0, "math domain error"),
        ("math.pow(self.x, 999.0)", 1e30, "math range error"),
        ("math.trunc(float(self.x))", np.inf, "cannot convert float infinity to integer"),
    ],
)
def test_an_error_of_math_is_the_learners_own(
    expression: str,
    bad: float,
    message: str,
    tmp_path: Path,
    vertices_by_python: list[int],
    capfd: Any,
) -> None:
    loop = codelet_of(RAISES.format(expression=expression), tmp_path)
    x = np.array([bad], np.float32)
    with pytest.raises(CodeletError) as caught:
        VertexRows(loop, {"x": x, "out": np.zeros(1, np.float32)}).run(1)
    assert message in str(caught.value) and "line 11" in str(caught.value)
    assert "ignored" not in capfd.readouterr().err  # none was lost in a call from C


class Ordered(Vertex):
    x: InOut[Vector[FLOAT]]

    def compute(self) -> None:
        if self.x[0] > 0:
            self.x = np.sort(self.x)


def test_a_report_says_what_keeps_a_loop_in_cpython(
    tmp_path: Path, vertices_by_python: list[int]
) -> None:
    engine, _ = VertexRows(Ordered, {"x": np.ones((2, 5), np.float32)}).run(1)
    way = f"CPython alone: line {Ordered.compute.__code__.co_firstlineno + 2}, np.sort"
    assert engine.report.ways() == {"Ordered": way}
    assert Report.deserialize(engine.report.serialize()).ways() == {"Ordered": way}
    assert f"(ran in {way})" in summary_text(engine.report)


def test_the_time_to_compile_is_the_processors_and_grows_with_the_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    code = scalar_code(Ordered)
    assert isinstance(code, ScalarCode)
    functions = program_of(code, make_target("ipu2"))
    short, long = (functions.seconds_to_compile("x" * n) for n in (2_000, 20_000))
    assert 0.2 < short < long < 20 and long - short > 1

    patience = scalar_run._Patience()
    patience.until = 5.0
    # hours pass on the clock while other programs have the processor
    monkeypatch.setattr(scalar_run, "perf_counter", lambda: 9999.0)
    monkeypatch.setattr(scalar_run, "process_time", lambda: 4.0)
    assert patience.longer(10) == 10 + scalar_run.LOOK
    monkeypatch.setattr(scalar_run, "process_time", lambda: 6.0)
    with pytest.raises(scalar_run._Long):
        patience.longer(10)
