"""Every row of the frontends' graph where it is not smooth: at 0, ties, infinities, NaN, denormal
and large numbers, and without elements; values beside float64, gradients beside formulas in numpy
and beside torch in float64."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import ir_numpy
import numpy as np
import pytest
from test_ir import by_torch, device

from ipu_teach import BOOL, FLOAT, HALF, INT, UNSIGNED_INT
from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import Ir, Value
from ipu_teach.poplibs.popops import MASKED_LABEL_CODE
from ipu_teach.types import DType

Array = Any
INF, NAN = np.inf, np.nan
ONE = [0.0, -0.0, 0.25, 0.5, -0.5, 1, -1, 1.5, -1.5, 2.5, -2.5, 3, -3, 6, 20, -20, 100, -100]
ONE += [INF, -INF, NAN]
TWO = [0.0, -0.0, 1, -1, 2, -2.5, 0.5, INF, -INF, NAN]
EXTREMES: dict[Any, list[float]] = {FLOAT: [1e-40, -1e-40, 1e30, -1e30], HALF: [6e-8, -6e-8, 6e4]}
PRECISION: dict[Any, tuple[float, float]] = {FLOAT: (2e-5, 2e-6), HALF: (2**-9, 2**-10)}


def erf_slope(x: Array) -> Array:
    return 2 / np.sqrt(np.pi) * np.exp(-x * x)


def normal_density(x: Array) -> Array:
    return np.exp(-x * x / 2) / np.sqrt(2 * np.pi)


def gelu_tanh_slope(x: Array) -> Array:
    root, cubic = np.sqrt(2 / np.pi), 0.044715
    bend = np.tanh(root * (x + cubic * x**3))
    return (1 + bend) / 2 + x / 2 * (1 - bend * bend) * root * (1 + 3 * cubic * x * x)


def share(a: Array, b: Array, loses: Array) -> Array:
    """1 for the operand that is taken, 1/2 for each of two equal ones."""
    return np.where(loses, 0, np.where(a == b, 0.5, 1.0))


def power_by_exponent(a: Array, b: Array) -> Array:
    return np.where((a == 0) & (b >= 0), 0, a**b * np.log(a))


def squares(a: Array, b: Array) -> Array:
    """1 at the origin, where the angle has no direction in which it grows."""
    return np.where((a == 0) & (b == 0), 1, a * a + b * b)


# The derivative of each row of one operand, and both of each row of two, in float64.
SLOPES: dict[str, Callable[[Array], Array]] = {
    "neg": lambda x: -np.ones_like(x),
    "abs": np.sign,
    "exp": np.exp,
    "expm1": np.exp,
    "log": lambda x: 1 / x,
    "log1p": lambda x: 1 / (1 + x),
    "sqrt": lambda x: 0.5 / np.sqrt(x),
    "rsqrt": lambda x: -0.5 * (1 / np.sqrt(x)) ** 3,
    "inv": lambda x: -1 / x / x,
    "square": lambda x: 2 * x,
    "sin": np.cos,
    "cos": lambda x: -np.sin(x),
    "erf": erf_slope,
    **{kind: np.zeros_like for kind in ("signum", "floor", "ceil", "round", "trunc")},
    "relu": lambda x: (x > 0) * 1.0,
    "sigmoid": lambda x: ir_numpy.sigmoid(x) * (1 - ir_numpy.sigmoid(x)),
    "hard_sigmoid": lambda x: ((x > -2.5) & (x < 2.5)) * 0.2,
    "tanh": lambda x: 1 - np.tanh(x) ** 2,
    "gelu": lambda x: ir_numpy._normal_below(x) + x * normal_density(x),
    "gelu_tanh": gelu_tanh_slope,
    "silu": lambda x: ir_numpy.sigmoid(x) * (1 + x * (1 - ir_numpy.sigmoid(x))),
    "softplus": ir_numpy.sigmoid,
    "copy": np.ones_like,
}
BOTH: dict[str, Callable[[Array, Array], tuple[Array, Array]]] = {
    "add": lambda a, b: (np.ones_like(a), np.ones_like(b)),
    "sub": lambda a, b: (np.ones_like(a), -np.ones_like(b)),
    "mul": lambda a, b: (b, a),
    "div": lambda a, b: (1 / b, -a / b / b),
    "pow": lambda a, b: (np.where(b == 0, 0, b * a ** (b - 1)), power_by_exponent(a, b)),
    "max": lambda a, b: (share(a, b, a < b), share(a, b, b < a)),
    "min": lambda a, b: (share(a, b, a > b), share(a, b, b > a)),
    "atan2": lambda a, b: (b / squares(a, b), -a / squares(a, b)),
}


# torch has 0 and 1: a sign of NaN is NaN here, and PopLibs' RELU asks what is above 0
AT_NAN = {"abs": NAN, "relu": 0.0}


class Trial:
    """A graph of cases in one dtype: the variables of each, its result, and the weight of each of
    its elements in the loss, which is the gradient of the result."""

    def __init__(self, dtype: type[DType]) -> None:
        self.graph, self.dtype = Ir(), dtype
        self.cases: dict[str, tuple[list[Value], Value, Array]] = {}
        self.losses: list[Value] = []
        self.variables: list[Value] = []

    def x(self, values: Any) -> Value:
        """A variable of these values."""
        name = f"x{len(self.graph.variables)}"
        array = np.asarray(values, np.float64).astype(self.dtype.numpy)
        self.variables.append(self.graph.variable(array, name))
        return self.variables[-1]

    def op(self, kind: str, *operands: Any, **attributes: Any) -> Value:
        return self.graph.op(kind, *operands, **attributes)

    def numbers(self, values: Any) -> Value:
        return self.graph.constant(values, UNSIGNED_INT)

    def add(self, name: str, build: Callable[[Trial], Value]) -> None:
        self.variables = []
        with self.graph.at(path=name):
            y = self.graph.output(name, build(self))
        weights = np.resize([1.0, -0.5, 2.0, 0.25], y.shape)
        with self.graph.at(path="loss"):
            wide = self.graph.cast(y, FLOAT)
            weighed = self.op("mul", wide, self.graph.constant(weights, FLOAT))
            self.losses.append(ir.reduced(self.graph, "sum", weighed))
        self.cases[name] = self.variables, y, weights

    def run(self) -> tuple[dict[str, Array], dict[Value, Array]]:
        """The results, and the gradients of the variables that have one."""
        self.loss = self.losses[0]
        for loss in self.losses[1:]:
            self.loss = self.op("add", self.loss, loss)
        step, gradients = ir.autodiff(self.graph, self.loss)
        for value, gradient in gradients.items():
            step.output(f"gradient of {value.name}", gradient)
        chip = device(3)
        outputs = ir.Run(ir.Lowering(step, chip), chip)()
        slopes = {v: outputs[f"gradient of {v.name}"][0] for v in gradients}
        return {name: outputs[name][0] for name in self.cases}, slopes


def pairs() -> tuple[list[float], list[float]]:
    return [a for a in TWO for _ in TWO], [b for _ in TWO for b in TWO]


def elements(dtype: type[DType]) -> dict[str, Callable[[Trial], Value]]:
    """The rows that have formulas in `SLOPES` and `BOTH`."""
    one, (a, b) = [*ONE, *EXTREMES[dtype]], pairs()
    return {
        **{kind: lambda t, kind=kind: t.op(kind, t.x(one)) for kind in SLOPES},
        **{kind: lambda t, kind=kind: t.op(kind, t.x(a), t.x(b)) for kind in BOTH},
    }


def reducing(kind: str, rows: Any, dims: tuple[int, ...] = (1,)) -> Callable[[Trial], Value]:
    return lambda t: t.op(kind, t.x(rows), dims=dims)


TIES = [[3, 3, 1], [2, 2, 2], [-1, -3, -3], [0.0, -0.0, 0.0], [INF, INF, 1], [-INF, -INF, -INF]]
TIES += [[1, 2, 3]]
FACTORS = [[2, 3, 4], [2, 0, 4], [0, 0, 4], [0.0, -0.0, 0], [-2, 3, -0.0], [0, 2, 2.5]]
SCORES = [[0, 100, -100], [0, 17, -17], [0, 0, 0], [1, -INF, 2], [-INF, -INF, 3], [11, -3, 0.5]]
FIELD = [[[1, 1, 0, 0], [1, 2, 2, 0], [-1, 2, -3, -3]]]
MASK = np.array([[True, True, False], [False, True, False]])


def masked_attention(t: Trial) -> Value:
    mask = t.graph.constant(np.array([[True, False, True], [False] * 3]), BOOL)
    q, k, v = (
        t.x(np.linspace(a, a + 3, n * 2).reshape(n, 2)) for a, n in ((0, 2), (1, 3), (-1, 3))
    )
    return ir.attention(t.graph, q, k, v, mask)


def others(dtype: type[DType]) -> dict[str, Callable[[Trial], Value]]:
    """Rows and compositions that torch has, at their edges."""
    labels = [2, 2, 1, 2, 2, 0]
    how: Any = {"kernel": 2, "stride": 1}
    return {
        "pow by 0": lambda t: t.op("pow", t.x(ONE), 0.0),
        "pow by 1": lambda t: t.op("pow", t.x(ONE), 1.0),
        "pow by 2": lambda t: t.op("pow", t.x(ONE), 2.0),
        "pow by a half": lambda t: t.op("pow", t.x(ONE), 0.5),
        "0 to the power": lambda t: t.op("pow", 0.0, t.x(ONE)),
        "clamp": lambda t: t.op("clamp", t.x(ONE), least=-1.0, most=6.0),
        "max with a number": lambda t: t.op("max", t.x(ONE), 1.0),
        "div by a number": lambda t: t.op("div", t.x(ONE), 3.0),
        "a number by": lambda t: t.op("div", 3.0, t.x(ONE)),
        "select": lambda t: t.op(
            "select",
            t.graph.constant(np.array([True, False, True, False]), BOOL),
            t.op("sqrt", t.x([4.0, -1, 0.25, NAN])),
            t.op("log", t.x([-1.0, 2, 0, 1])),
        ),
        "cast": lambda t: t.op("cast", t.op("cast", t.x(ONE), dtype=FLOAT), dtype=HALF),
        "softplus with a threshold": lambda t: ir.softplus(t.graph, t.x(ONE), 2.0, 5.0),
        **{k: reducing(k, TIES) for k in ("sum", "reduce_max", "reduce_min")},
        "reduce_max of all": reducing("reduce_max", TIES[:4], (0, 1)),
        "reduce_max of one": reducing("reduce_max", [[2.0], [-0.0]]),
        "reduce_prod": reducing("reduce_prod", FACTORS),
        "reduce_prod with an infinity": reducing("reduce_prod", [[1, INF, 2], [3, 0.5, 1]]),
        "reduce_prod of all": reducing("reduce_prod", FACTORS[:2], (0, 1)),
        "reduce_prod of one": reducing("reduce_prod", [[0.0], [3.0]]),
        "top_k": lambda t: t.graph.emit("top_k", t.x(TIES[:4]), k=2)[0],
        "softmax": lambda t: t.op("softmax", t.x(SCORES)),
        "log_softmax": lambda t: t.op("log_softmax", t.x(SCORES)),
        "softmax of one": lambda t: t.op("softmax", t.x([[3.0], [-100]])),
        "gather again": lambda t: t.op("gather", t.x([[1, 2], [0, 3]]), t.numbers([1, 1, 0, 1])),
        "pick": lambda t: t.op("pick", t.x(SCORES), t.numbers(labels)),
        "cross_entropy": lambda t: ir.cross_entropy(
            t.graph, t.x([*SCORES, [20, 0, 0]]), t.numbers([0, 0, 1, 2, 2, 2, 0]), "none"
        ),
        "cross_entropy of classes without a chance": lambda t: ir.cross_entropy(
            t.graph, t.x([[0, -INF, 1], [0, 1, -INF]]), t.numbers([1, 2]), "none"
        ),
        "binary_cross_entropy": lambda t: ir.binary_cross_entropy(
            t.graph,
            t.x([0.0, -0.0, 0, 100, 100, -100, -100, 20, 17, -17, 1e-3]),
            t.x([0, 1, 0.5, 1, 0, 1, 0, 1, 0, 1, 0.25]),
            "none",
        ),
        "max_pool": lambda t: ir.pool(t.graph, "max_pool", t.x([FIELD]), **how),
        "avg_pool": lambda t: ir.pool(
            t.graph, "avg_pool", t.x([FIELD]), kernel=3, stride=1, lower=1
        ),
        "layer norm of equal numbers": lambda t: ir.norm(
            t.graph, "layer", t.x([[2, 2, 2], [0, 0, 0], [1, 2, 4]]), t.x([1, 2, 3]), t.x([0, 1, 0])
        ),
        "batch norm of equal numbers": lambda t: ir.norm(
            t.graph, "batch", t.x([[2, 1], [2, -1], [2, 0]]), t.x([1, 2]), t.x([0, 1])
        ),
    }


def unlike(actual: Array, expected: Array, dtype: type[DType], coarser: float = 1.0) -> str:
    """How the numbers of a dtype differ from those in float64; "" if they do not."""
    with np.errstate(all="ignore"):
        rounded = np.asarray(expected, np.float64).astype(dtype.numpy).astype(np.float64)
    relative, absolute = (coarser * p for p in PRECISION[dtype])
    actual = np.asarray(actual, np.float64)
    wrong = ~np.isclose(actual, rounded, relative, absolute, equal_nan=True)
    return f"{actual[wrong].tolist()} in place of {rounded[wrong].tolist()}" if wrong.any() else ""


@cache
def tried(dtype: type[DType], group: Any) -> tuple[Trial, dict[str, Array], dict[Value, Array]]:
    trial = Trial(dtype)
    for name, build in group(dtype).items():
        trial.add(name, build)
    return trial, *trial.run()


GROUPS = pytest.mark.parametrize("group", [elements, others])
DTYPES = pytest.mark.parametrize("dtype", [FLOAT, HALF])


@DTYPES
@GROUPS
def test_values_are_those_of_float64(dtype: type[DType], group: Any) -> None:
    trial, results, _ = tried(dtype, group)
    with np.errstate(all="ignore"):
        expected = ir_numpy.interpret(trial.graph, {})
    wrong = {}
    for name, (_, y, _) in trial.cases.items():
        if difference := unlike(results[name], expected[y], y.dtype):
            wrong[name] = difference
    assert not wrong, "\n".join(f"{name}: {text}" for name, text in wrong.items())


@DTYPES
def test_gradients_of_elements_are_those_of_their_formulas(dtype: type[DType]) -> None:
    trial, _, gradients = tried(dtype, elements)
    wrong = {}
    for name, (variables, _, weights) in trial.cases.items():
        operands = [np.asarray(v.initial, np.float64) for v in variables]
        with np.errstate(all="ignore"):
            slopes = BOTH[name](*operands) if name in BOTH else [SLOPES[name](*operands)]
            expected = [np.asarray(slope * weights) for slope in slopes]
        for n, (value, slope) in enumerate(zip(variables, expected, strict=True)):
            actual = gradients.get(value, np.zeros(value.shape))
            if difference := unlike(actual, slope, dtype, 4):
                wrong[f"{name}, operand {n}"] = difference
    assert not wrong, "\n".join(f"{name}: {text}" for name, text in wrong.items())


@DTYPES
@GROUPS
def test_gradients_are_those_of_torch(dtype: type[DType], group: Any) -> None:
    trial, _, gradients = tried(dtype, group)
    theirs = by_torch(trial.graph, trial.loss)
    wrong = {}
    for name, (variables, _, _) in trial.cases.items():
        for n, value in enumerate(variables):
            actual = gradients.get(value, np.zeros(value.shape))
            expected = theirs.get(value, np.zeros(value.shape))
            if name in AT_NAN:
                expected = np.where(np.isnan(value.initial), AT_NAN[name], expected)
            if difference := unlike(actual, expected, dtype, 4):
                wrong[f"{name}, operand {n}"] = difference
    assert not wrong, "\n".join(f"{name}: {text}" for name, text in wrong.items())
