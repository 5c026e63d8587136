"""Prices (modelled cycles) of elementwise operations, reductions, views, random numbers, copies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import ceil, prod

from ipu_teach.cost import vertices
from ipu_teach.estimate.pricing import Price, Pricer
from ipu_teach.estimate.result import COSTS
from ipu_teach.frontends.ir.rows import softplus
from ipu_teach.frontends.ir.values import Ir, Op, Value
from ipu_teach.poplibs.popops.sort_plan import planned as planned_sort
from ipu_teach.types import UNSIGNED_INT

# PopLibs' names of operations with one input (UNARY) and with two (BINARY).
UNARY = {
    "neg": "NEGATE",
    "abs": "ABSOLUTE",
    "exp": "EXPONENT",
    "expm1": "EXPONENT_MINUS_ONE",
    "log": "LOGARITHM",
    "log1p": "LOGARITHM_ONE_PLUS",
    "inv": "INVERSE",
    "bitwise_not": "BITWISE_NOT",
    "logical_not": "LOGICAL_NOT",
    **{kind: kind.upper() for kind in ("sqrt", "rsqrt", "square", "sin", "cos", "erf", "signum")},
    **{kind: kind.upper() for kind in ("floor", "ceil", "round", "nearby_int", "trunc")},
    **{kind: kind.upper() for kind in ("is_nan", "is_finite")},
}
BINARY = {
    "add": "ADD",
    "sub": "SUBTRACT",
    "mul": "MULTIPLY",
    "div": "DIVIDE",
    "pow": "POWER",
    "max": "MAXIMUM",
    "min": "MINIMUM",
    "atan2": "ATAN2",
    "rem": "REMAINDER",
    "shift_left": "SHIFT_LEFT",
    "shift_right": "SHIFT_RIGHT_SIGN_EXTEND",
    "eq": "EQUAL",
    "neq": "NOT_EQUAL",
    "lt": "LESS_THAN",
    "lteq": "LESS_THAN_EQUAL",
    "gt": "GREATER_THAN",
    "gteq": "GREATER_THAN_EQUAL",
    **{kind: kind.upper() for kind in ("bitwise_and", "bitwise_or", "bitwise_xor")},
    **{kind: kind.upper() for kind in ("logical_and", "logical_or")},
}
NON_LINEARITIES = {
    "relu": "RELU",
    "sigmoid": "SIGMOID",
    "hard_sigmoid": "HARD_SIGMOID",
    "tanh": "TANH",
    "gelu": "GELU_ERF",
    "gelu_tanh": "GELU",
    "silu": "SWISH",
}
# The operations whose estimates are added up for a hard sigmoid, for which PopLibs has no estimate.
HARD_SIGMOID = ("MULTIPLY", "ADD", "MAXIMUM", "MINIMUM")


def free(pricer: Pricer, op: Op) -> None:
    """Add nothing, for an operation that moves and computes nothing, such as a view."""
    if op.kind == "permute" and op.inputs[0] in pricer.splits:
        pricer.splits[op.outs[0]] = pricer.splits[op.inputs[0]]


def unary(pricer: Pricer, op: Op) -> None:
    """Add the cycles of an elementwise operation with one input."""
    pricer.elementwise(UNARY[op.kind], op.inputs[0])


def binary(pricer: Pricer, op: Op) -> None:
    """Add the cycles of an elementwise operation with two inputs, one of which may be broadcast."""
    first, second = op.inputs
    if first.size >= second.size:
        pricer.elementwise(BINARY[op.kind], first, second)
    else:
        pricer.elementwise(BINARY[op.kind], second, first)


def non_linearity(pricer: Pricer, op: Op) -> None:
    """Add the cycles of a non-linearity, such as GELU."""
    value, kind = op.inputs[0], NON_LINEARITIES[op.kind]
    pricer.superstep(_non_linearity(pricer, kind, value))


def _non_linearity(pricer: Pricer, kind: str, value: Value) -> float:
    """Return the tile cycles of a non-linearity on `value`; `kind` is PopLibs' name for it."""
    count, target = pricer.elements(value), pricer.target
    if kind != "HARD_SIGMOID":
        return float(vertices.non_linearity_1d(kind, count, value.dtype, target))
    return float(
        sum(
            int(vertices.broadcast_scalar_1d(name, count, value.dtype, target))
            for name in HARD_SIGMOID
        )
    )


def non_linearity_grad(pricer: Pricer, op: Op) -> None:
    """Add the cycles of a non-linearity's gradient, computed on the tiles of the activations."""
    value, gradient = op.inputs
    kind, target = str(op.attrs["kind"]), pricer.target
    count = pricer.elements(value)
    if kind == "HARD_SIGMOID":
        share = ceil(count / pricer.workers)
        cycles = float(vertices.broadcast_scalar_1d("MULTIPLY", count, value.dtype, target))
        cycles += pricer.workers * float(vertices.select([share]))
    else:
        cycles = float(
            vertices.non_linearity_grad_1d(
                "GELU" if kind == "GELU_ERF" else kind, count, value.dtype, target
            )
        )
        if kind == "GELU_ERF":  # The kit's vertex computes both the gradient and the function.
            cycles += _non_linearity(pricer, kind, value)
    pricer.superstep(cycles, pricer.fetched(value, gradient))


def softplus_price(pricer: Pricer, op: Op) -> None:
    """Add the cycles of a softplus, which is one expression."""
    pricer.map(softplus, op.outs[0].dtype, *op.inputs)


def select(pricer: Pricer, op: Op) -> None:
    """Add the cycles of a select, which chooses between two values by a mask."""
    out = op.outs[0]
    share = ceil(pricer.elements(out) / pricer.workers)
    tensors = [v for v in op.inputs if v.number is None]
    largest = max(tensors, key=lambda value: value.size)
    received = sum(pricer.fetched(largest, value) for value in tensors if value is not largest)
    pricer.superstep(pricer.workers * float(vertices.select([share])), received)


def clamp(pricer: Pricer, op: Op) -> None:
    """Add the cycles of a clamp, which limits a value to an interval."""
    value = op.inputs[0]
    share = ceil(pricer.elements(value) / pricer.workers)
    pricer.superstep(pricer.workers * float(vertices.clamp([share], value.dtype, pricer.target)))


def cast(pricer: Pricer, op: Op) -> None:
    """Add the cycles of a conversion to another dtype."""
    value, out = op.inputs[0], op.outs[0]
    pricer.superstep(
        float(vertices.cast_1d(pricer.elements(value), value.dtype, out.dtype, pricer.target))
    )


def copy(pricer: Pricer, op: Op) -> None:
    """Add the cycles of a copy; for "assign", also the cycles of fetching data from other tiles."""
    value = op.inputs[-1] if op.kind == "assign" else op.inputs[0]
    moved = pricer.elements(value) * value.dtype.size / pricer.target.memcpy_bytes_per_cycle
    received = pricer.fetched(op.inputs[0], value) if op.kind == "assign" else 0
    pricer.superstep(moved, received)


def put(pricer: Pricer, op: Op) -> None:
    """Add the cycles of writing a value into a new tensor of zeros."""
    clear_value(pricer, op.outs[0])
    pricer.moved(op.inputs[0])


def clear(pricer: Pricer, op: Op) -> None:
    """Add the cycles of setting a variable to zero."""
    clear_value(pricer, op.inputs[0])


def clear_value(pricer: Pricer, value: Value) -> None:
    """Add the vertices that set all elements of `value` to zero."""
    share = ceil(pricer.elements(value) / pricer.workers)
    pricer.superstep(pricer.workers * float(vertices.fill(share, value.dtype)))


def accumulate(pricer: Pricer, op: Op) -> None:
    """Add the cycles of adding a value to a variable."""
    pricer.elementwise("ADD", op.inputs[0], op.inputs[1])


def next_seed(pricer: Pricer, op: Op) -> None:
    """Add the cycles of computing the next seed: a sum of two integers."""
    pricer.elementwise("ADD", Value((), op.inputs[0].dtype), Value((), op.inputs[0].dtype))


def blend(pricer: Pricer, op: Op) -> None:
    """Add the cycles of updating a running mean."""
    pricer.map(lambda v, x: v * 0.9 + x * 0.1, op.inputs[0].dtype, *op.inputs)


REDUCTIONS = {"sum": "ADD", "reduce_max": "MAX", "reduce_min": "MIN", "reduce_prod": "MUL"}


def reduction(pricer: Pricer, op: Op) -> None:
    """Add the cycles of a reduction over dimensions."""
    value, out = op.inputs[0], op.outs[0]
    pricer.reduce(value, out.size, REDUCTIONS[op.kind], out.dtype)


def extreme_index(pricer: Pricer, op: Op) -> None:
    """Add the cycles of finding the largest or smallest element of each row."""
    value = op.inputs[0]
    rows = ceil(prod(value.shape[:-1]) / (pricer.tiles * pricer.workers))
    received = rows * pricer.workers * value.shape[-1] * value.dtype.size
    cycles = rows * float(vertices.max_class(value.shape[-1]))
    pricer.superstep(pricer.workers * cycles, received)


def top_k(pricer: Pricer, op: Op) -> None:
    """Add the cycles of finding the k largest elements of each row, by PopLibs' plan for a sort."""
    value, count = op.inputs[0], int(str(op.attrs["k"]))
    rows = value.size // max(value.shape[-1], 1)
    dtypes = (value.dtype, UNSIGNED_INT)
    plan = planned_sort(rows, value.shape[-1], count, dtypes, pricer.target)
    pricer.superstep(plan.cycles)


def one_hot(pricer: Pricer, op: Op) -> None:
    """Add the cycles of creating one-hot rows, which have a single 1 among zeros."""
    clear_value(pricer, op.outs[0])
    pricer.moved(op.inputs[0])


def random_numbers(pricer: Pricer, op: Op) -> None:
    """Add the cycles of random numbers or of a dropout mask, and those of setting the seed."""
    out, target = op.outs[0], pricer.target
    count = pricer.elements(out)
    vertex = {
        "dropout_mask": vertices.dropout,
        "normal": vertices.normal,
        "uniform": vertices.uniform,
    }[op.kind]
    pricer.superstep(vertices.set_seed(target), 8)
    pricer.superstep(float(vertex(count, out.dtype, target)))


def scan(pricer: Pricer, op: Op) -> None:
    """Add the cycles of a loop: in each step, its body and the slices of its inputs and outputs."""
    body, steps = op.attrs["body"], int(str(op.attrs["steps"]))
    assert isinstance(body, Ir)
    with repeated(pricer, steps):
        for inner in body.ops:
            pricer.add(inner)
        for value in (*op.inputs, *op.outs):
            if value.shape[:1] == (steps,):
                share = ceil(pricer.elements(value) / steps)
                pricer.superstep(
                    float(vertices.dynamic_slice_1d(share, 1, value.dtype, pricer.target)), 4
                )


@contextmanager
def repeated(pricer: Pricer, steps: int) -> Iterator[None]:
    """Return a context that multiplies by `steps` what its block adds to the `LOOPED` fields."""
    before = {cost: getattr(pricer.line, cost) for cost in LOOPED}
    yield
    for cost, count in before.items():
        setattr(pricer.line, cost, count + steps * (getattr(pricer.line, cost) - count))


# The fields of a line that the steps of a loop add to.
LOOPED = (*COSTS, "supersteps", "macs", "busy")
VIEWS = ("reshape", "permute", "expand", "slice", "reverse", "concat", "pad", "load")
PRICES: Mapping[str, Price] = {
    **dict.fromkeys((*VIEWS, "reinterpret", "stop", "print"), free),
    **dict.fromkeys(UNARY, unary),
    **dict.fromkeys(BINARY, binary),
    **dict.fromkeys(NON_LINEARITIES, non_linearity),
    **dict.fromkeys(REDUCTIONS, reduction),
    **dict.fromkeys(("arg_max", "arg_min"), extreme_index),
    **dict.fromkeys(("dropout_mask", "uniform", "normal"), random_numbers),
    "non_linearity_grad": non_linearity_grad,
    "softplus": softplus_price,
    "select": select,
    "clamp": clamp,
    "cast": cast,
    "copy": copy,
    "assign": copy,
    "put": put,
    "clear": clear,
    "accumulate": accumulate,
    "next_seed": next_seed,
    "blend": blend,
    "top_k": top_k,
    "one_hot": one_hot,
    "scan": scan,
}
