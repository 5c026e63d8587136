"""Every row of the frontends' graph where it is not smooth: at 0, ties, infinities, NaN, denormal
and large numbers, and without elements; values beside float64, gradients beside formulas in numpy
and beside torch in float64."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

import ir_numpy
import numpy as np
import pytest
from ir_cases import device
from ir_torch import torch_gradients

from ipu_teach import BOOL, FLOAT, HALF, INT, UNSIGNED_INT
from ipu_teach.errors import ModelError
from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import Ir, Value
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
    **dict.fromkeys(("signum", "floor", "ceil", "round", "nearby_int", "trunc"), np.zeros_like),
    "relu": lambda x: 1.0 - (x <= 0),
    "sigmoid": lambda x: ir_numpy.sigmoid(x) * (1 - ir_numpy.sigmoid(x)),
    "hard_sigmoid": lambda x: ((x > -2.5) & (x < 2.5)) * 0.2,
    "tanh": lambda x: 1 - np.tanh(x) ** 2,
    "gelu": lambda x: ir_numpy.normal_cdf(x) + x * normal_density(x),
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


AT_NAN = {"abs": NAN}  # torch has 0: the sign of NaN is NaN here


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
        **{
            f"{kind} of small numbers, with small gradients": lambda t, kind=kind, few=few: t.op(
                "mul", t.op(kind, t.x(few)), t.graph.constant([1e-3, 0.0], t.dtype)
            )
            for kind, few in (
                ("log", [1e-5, 6e-8]),
                ("sqrt", [6e-8, 6e-8]),
                ("rsqrt", [1e-4, 1e-4]),
                ("inv", [3e-3, 3e-3]),
            )
        },
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
        "scatter_set": lambda t: t.op(
            "scatter_set", t.x(SCORES), t.numbers([1, 4, 1, 0]), t.x([*TIES[:3], TIES[4]])
        ),
        "scatter_max": lambda t: t.op(
            "scatter_max", t.x(TIES), t.numbers([1, 1, 3, 0, 5]), t.x([*TIES[1:4], *TIES[:2]])
        ),
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
        "permute": lambda t: t.op("permute", t.x([ONE]), dims=(1, 0)),
        "slice": lambda t: t.op("slice", t.x(ONE), dim=0, begin=1, end=21, step=4),
        "reverse and pad": lambda t: t.op(
            "pad", t.op("reverse", t.x(ONE), dim=0), lower=(1,), upper=(0,), value=-INF
        ),
        "stop": lambda t: t.op("mul", t.op("stop", t.x([0.0, INF, 2])), t.x([1.0, 2, 0])),
        "matmul": lambda t: t.op("matmul", t.x([[0.0, 1], [2, -0.0]]), t.x([[0.0, 3], [-1, INF]])),
        "conv": lambda t: ir.conv(
            t.graph, t.x([FIELD]), t.x(np.zeros((2, 1, 2, 2))), t.x([0.0, 1])
        ),
        "a cell of relu": lambda t: ir.recurrent(
            t.graph,
            "relu",
            t.x(np.zeros((3, 1, 2))),
            [t.x([[0.0, 1]])],
            t.x(np.eye(2)),
            t.x(-np.eye(2)),
        )[0],
        "a gated cell that is saturated": lambda t: ir.recurrent(
            t.graph,
            "gru",
            t.x([[[100.0]], [[-100]]]),
            [t.x([[0.5]])],
            t.x([[1], [-1], [1]]),
            t.x([[1], [0], [1]]),
        )[0],
        "batch norm that has learnt": lambda t: ir.batch_norm(
            t.graph,
            t.x([[2, 1], [0, -1]]),
            t.x([1, 0]),
            t.x([0, 1]),
            t.x([2, 0]),
            t.x([0, 1]),
            False,
        ),
        "layer norm of equal numbers": lambda t: ir.norm(
            t.graph, "layer", t.x([[2, 2, 2], [0, 0, 0], [1, 2, 4]]), t.x([1, 2, 3]), t.x([0, 1, 0])
        ),
        "batch norm of equal numbers": lambda t: ir.norm(
            t.graph, "batch", t.x([[2, 1], [2, -1], [2, 0]]), t.x([1, 2]), t.x([0, 1])
        ),
    }


def refusing(dtype: type[DType]) -> dict[str, Callable[[Trial], Value]]:
    """Rows that have a meaning for some dtypes, each on the smallest and largest numbers of one."""
    info: Any = {
        INT: [-(2**31), 2**31 - 1, 0, -1, 46341],
        UNSIGNED_INT: [2**32 - 1, 2**31, 0, 1, 7],
    }
    few = info.get(dtype, [0, 1, 1.0, 0, 1])
    a, b = [n for n in few for _ in few], [n for _ in few for n in few]
    one = [*SLOPES, "bitwise_not", "is_nan", "is_finite", "logical_not"]
    two = [*BOTH, "rem", "eq", "neq", "lt", "lteq", "gt", "gteq", "logical_and", "logical_or"]
    two += ["bitwise_and", "bitwise_or", "bitwise_xor"]
    is_whole = dtype in (INT, UNSIGNED_INT)
    casts = (FLOAT, INT, UNSIGNED_INT, BOOL) if is_whole or dtype is BOOL else (FLOAT, HALF, BOOL)
    return {
        **{k: lambda t, k=k: t.op(k, t.x(few)) for k in one},
        **{k: lambda t, k=k: t.op(k, t.x(a), t.x(b)) for k in two if k != "pow" or not is_whole},
        **{
            k: lambda t, k=k: t.op(k, t.x([few, few[::-1]]), dims=(1,))
            for k in ("sum", "reduce_max", "reduce_min", "reduce_prod")
        },
        **{
            k: lambda t, k=k: t.op(k, t.x([few, few[::-1]]))
            for k in ("arg_max", "arg_min", "softmax", "log_softmax")
        },
        **{
            k: lambda t, k=k: t.op(k, t.x(few), t.x([0, 1, 1, 0, 1]))
            for k in ("shift_left", "shift_right")
        },
        "reinterpret": lambda t: t.op(
            "reinterpret", t.x(few), dtype=INT if dtype is UNSIGNED_INT else UNSIGNED_INT
        ),
        "top_k": lambda t: t.graph.emit("top_k", t.x(few), k=3)[0],
        "clamp": lambda t: t.op("clamp", t.x(few), least=1, most=5),
        "select": lambda t: t.op(
            "select", t.op("eq", t.x(few), t.x(few[::-1])), t.x(few), t.x(few[::-1])
        ),
        **{f"cast to {c.__name__}": lambda t, c=c: t.op("cast", t.x(few), dtype=c) for c in casts},
        "reverse": lambda t: t.op("reverse", t.x(few), dim=0),
        "pad": lambda t: t.op("pad", t.x(few), lower=(1,), upper=(0,)),
        "concat": lambda t: t.op("concat", t.x(few), t.x(few), dim=0),
        "put": lambda t: t.op("put", t.x(few), shape=(11,), dim=0, begin=0, end=10, step=2),
        "gather": lambda t: t.op("gather", t.x([few, few[::-1]]), t.numbers([1, 0, 1])),
        "scatter_add": lambda t: t.op(
            "scatter_add", t.x([few, few]), t.numbers([1, 1]), t.x([few, few])
        ),
        **{
            k: lambda t, k=k: t.op(k, t.x([few, few]), t.numbers([1, 1]), t.x([few[::-1], few]))
            for k in ("scatter_set", "scatter_max")
        },
        "pick": lambda t: t.op("pick", t.x([few, few]), t.numbers([1, 0])),
        "matmul": lambda t: t.op("matmul", t.x([few[2:4]]), t.x([few[2:4], few[2:4]])),
    }


def empty(dtype: type[DType]) -> dict[str, Callable[[Trial], Value]]:
    """Rows without elements."""
    none: Any = np.zeros((0,))
    rows: Any = np.zeros((2, 0))
    table: Any = np.zeros((0, 2))
    return {
        **{k: lambda t, k=k: t.op(k, t.x(none)) for k in SLOPES},
        **{k: lambda t, k=k: t.op(k, t.x(none), t.x(none)) for k in BOTH},
        "add with one": lambda t: t.op("add", t.x(rows), t.x([[2.0]])),
        **{
            f"{k} of dimension {dim}": lambda t, k=k, dim=dim: t.op(k, t.x(rows), dims=(dim,))
            for k in ("sum", "reduce_max", "reduce_min", "reduce_prod")
            for dim in (0, 1)
        },
        **{
            k: lambda t, k=k: t.op(k, t.x(rows))
            for k in ("arg_max", "arg_min", "softmax", "log_softmax")
        },
        "softmax of no rows": lambda t: t.op("softmax", t.x(table)),
        "top_k": lambda t: t.graph.emit("top_k", t.x(rows), k=1)[0],
        "clamp": lambda t: t.op("clamp", t.x(none), least=0, most=1),
        "reshape": lambda t: t.op("reshape", t.x(rows), shape=(0, 7)),
        "pad": lambda t: t.op("pad", t.x(none), lower=(1,), upper=(2,), value=1),
        "concat": lambda t: t.op("concat", t.x(none), t.x([1.0, 2]), dim=0),
        "gather of no rows": lambda t: t.op("gather", t.x(table), t.numbers([0])),
        "gather of none": lambda t: t.op("gather", t.x([[1.0, 2]]), t.numbers(none.astype(int))),
        "pick": lambda t: t.op("pick", t.x(rows), t.numbers([0, 0])),
        "matmul": lambda t: t.op("matmul", t.x(rows), t.x(table)),
        "matmul of no rows": lambda t: t.op("matmul", t.x(table), t.x([[1.0, 2], [3, 4]])),
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
    theirs = torch_gradients(trial.graph, trial.loss)
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


@pytest.mark.parametrize("dtype", [FLOAT, HALF, INT, UNSIGNED_INT, BOOL])
@pytest.mark.parametrize("group", [refusing, empty])
def test_a_row_takes_a_dtype_and_a_size_or_refuses_it_with_the_line(
    dtype: type[DType], group: Any
) -> None:
    """What is taken is exact, with the wrap of 32 bits."""
    trial = Trial(dtype)
    results: dict[str, Value] = {}
    for name, build in group(dtype).items():
        try:
            y = build(trial)
        except ModelError as error:
            assert error.next_step and "test_ir_edges.py" in error.line, name
            continue
        if y.dtype is BOOL or not y.size:
            y = trial.op("cast", y, dtype=FLOAT)
        results[name] = y if y.size else ir.reduced(trial.graph, "sum", y)
        trial.graph.output(name, results[name])
    chip = device(3)
    actual = ir.Run(ir.Lowering(trial.graph, chip), chip)()
    with np.errstate(all="ignore"):
        expected = ir_numpy.interpret(trial.graph, {})
    wrong = {}
    for name, y in results.items():
        is_float = y.dtype in (FLOAT, HALF)
        values = expected[y] if is_float else np.asarray(expected[y]).astype(y.dtype.numpy)
        same = not unlike(actual[name][0], values, y.dtype) if is_float else None
        if not (np.array_equal(actual[name][0], values) if same is None else same):
            wrong[name] = f"{actual[name][0].tolist()} in place of {values.tolist()}"
    assert not wrong, "\n".join(f"{name}: {text}" for name, text in wrong.items())
    assert results


def test_every_row_is_tried_at_its_edges() -> None:
    kinds: set[str] = set()
    for group in (elements, others):
        trial, *_ = tried(FLOAT, group)
        kinds |= {op.kind for op in ir.autodiff(trial.graph, trial.loss)[0].ops}
    for dtype in (FLOAT, INT, BOOL):
        trial = Trial(dtype)
        for build in refusing(dtype).values():
            with suppress(ModelError):
                build(trial)
        kinds |= {op.kind for op in trial.graph.ops}
    drawn = {"dropout_mask", "uniform", "normal"}
    moved = {"all_reduce", "reduce_scatter", "own_share", "all_gather", "load", "print"}
    statistics = {"to_variance"}
    recurrent = {"lstm", "lstm_grad"}  # test_ir_lstm.py tries these.
    untried = {kind for kind in {*ir.OPS} - kinds if not ir.OPS[kind].in_place}
    assert untried == drawn | moved | statistics | recurrent


@DTYPES
@pytest.mark.parametrize("lowest", [0.0, -2e4])
def test_attention_hides_keys_whatever_their_scores_are(dtype: type[DType], lowest: float) -> None:
    """A query that sees no key has 0, as in torch, and so has its gradient."""
    sees = np.array([[True, False, True], [False, False, False], [False, True, True]])
    q = np.array([[1.0, 0.5], [2, 1], [-1, 3]])
    k = np.array([[lowest + 1, lowest], [1, 2], [lowest - 1, lowest]])
    v = np.array([[1.0, -2], [0.25, 5], [3, 0]])
    trial = Trial(dtype)
    mask = trial.graph.constant(sees, BOOL)
    trial.add(
        "attention",
        lambda t: ir.attention(t.graph, *(t.x(a) for a in (q, k, v)), mask=mask, scale=1.0),
    )
    results, gradients = trial.run()
    (queries, keys, values), _, weights = trial.cases["attention"]
    expected, by_value = np.zeros((3, 2)), np.zeros((3, 2))
    q, k, v = (np.asarray(x.initial, np.float64) for x in (queries, keys, values))
    for row in range(3):
        seen = np.flatnonzero(sees[row])
        if seen.size:
            scores = (k[seen] @ q[row]).astype(dtype.numpy).astype(np.float64)
            chances = np.exp(scores - scores.max())
            chances /= chances.sum()
            expected[row] = chances @ v[seen]
            by_value[seen] += chances[:, None] * weights[row]
    assert not unlike(results["attention"], expected, dtype)
    assert not unlike(gradients[values], by_value, dtype, 4)
    assert all(np.isfinite(g).all() for g in gradients.values())
    assert not gradients[queries][1].any()


def test_attention_takes_a_mask_or_hides_what_follows() -> None:
    trial = Trial(FLOAT)
    x = trial.x(np.eye(3))
    mask = trial.graph.constant(np.eye(3), FLOAT)
    with pytest.raises(ModelError, match="both a mask and causal=True") as refused:
        ir.attention(trial.graph, x, x, x, mask, causal=True)
    assert "leave out the mask" in refused.value.next_step
