"""Expressions for `popops.map`: several operations on single elements, done by one vertex.

    from ipu_teach.poplibs.popops import expr
    y = popops.map(graph, expr.Tanh(expr._1 * 2 + expr._2), [a, b], prog)

`_1` stands for the first tensor of the list, `_2` for the second, and so on to `_8`;
`PlaceHolder(n)` is the same. Numbers are constants of the other operand's dtype; `Const(value,
dtype)` fixes one. Python's operators have their usual meaning, and `<`, `==` and so on build
expressions too. `&`, `|`, `^` and `~` work on bits; `And`, `Or`, `Not` on BOOL.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from ipu_teach.errors import PoplibsError, shown
from ipu_teach.graph.layouts import is_whole
from ipu_teach.poplibs.popops.operations import OPERATIONS
from ipu_teach.types import (
    BOOL,
    FLOAT,
    INT,
    LONGLONG,
    QUARTER,
    UNSIGNED_LONGLONG,
    DType,
    as_dtype,
    to_host_array,
)

MOST_TENSORS = 8  # inputs of one expression: a vertex class has a field for each


class Expr(ABC):
    """An expression. `str()` of it is what a profile shows."""

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        raise PoplibsError(f"""Python asked whether the expression {self} is true.
            next:  use expr.Select, expr.And or expr.Or, which choose by element; an
            expression has no value while the graph is built.""")

    @property
    def own(self) -> type[DType]:
        """The dtype of the result if no operand has one."""
        return FLOAT

    @abstractmethod
    def dtype(self, inputs: Sequence[type[DType]]) -> type[DType] | None:
        """Return what it gives for tensors of these dtypes; None for a constant that takes any.
        Raises `PoplibsError`."""

    @abstractmethod
    def code(self, inputs: Sequence[type[DType]], wanted: type[DType]) -> list[str]:
        """Return its steps for a machine with a stack: `_1` a tensor, `FLOAT:2` a number,
        `CAST:HALF`, `ADD@FLOAT`."""

    def __add__(self, other: ExprLike) -> Expr:
        return Add(self, other)

    def __radd__(self, other: ExprLike) -> Expr:
        return Add(other, self)

    def __sub__(self, other: ExprLike) -> Expr:
        return Sub(self, other)

    def __rsub__(self, other: ExprLike) -> Expr:
        return Sub(other, self)

    def __mul__(self, other: ExprLike) -> Expr:
        return Mul(self, other)

    def __rmul__(self, other: ExprLike) -> Expr:
        return Mul(other, self)

    def __truediv__(self, other: ExprLike) -> Expr:
        return Divide(self, other)

    def __rtruediv__(self, other: ExprLike) -> Expr:
        return Divide(other, self)

    def __mod__(self, other: ExprLike) -> Expr:
        return Rem(self, other)

    def __pow__(self, other: ExprLike) -> Expr:
        return Pow(self, other)

    def __neg__(self) -> Expr:
        return Neg(self)

    def __abs__(self) -> Expr:
        return Abs(self)

    def __and__(self, other: ExprLike) -> Expr:
        return BitwiseAnd(self, other)

    def __or__(self, other: ExprLike) -> Expr:
        return BitwiseOr(self, other)

    def __xor__(self, other: ExprLike) -> Expr:
        return BitwiseXor(self, other)

    def __invert__(self) -> Expr:
        return BitwiseNot(self)

    def __lshift__(self, other: ExprLike) -> Expr:
        return Shl(self, other)

    def __rshift__(self, other: ExprLike) -> Expr:
        return Shr(self, other)

    def __lt__(self, other: ExprLike) -> Expr:
        return Lt(self, other)

    def __le__(self, other: ExprLike) -> Expr:
        return Lte(self, other)

    def __gt__(self, other: ExprLike) -> Expr:
        return Gt(self, other)

    def __ge__(self, other: ExprLike) -> Expr:
        return Gte(self, other)

    def __eq__(self, other: ExprLike) -> Expr:  # type: ignore[override]
        return Equal(self, other)

    def __ne__(self, other: ExprLike) -> Expr:  # type: ignore[override]
        return NotEqual(self, other)


ExprLike = Expr | float | int | bool


class PlaceHolder(Expr):
    """The tensor of that number in the list given to `map`, counted from 1."""

    def __init__(self, number: int) -> None:
        if not is_whole(number) or not 1 <= int(number) <= MOST_TENSORS:
            raise PoplibsError(f"""PlaceHolder() was given {shown(number)}.
                next:  give a number from 1 to {MOST_TENSORS}.""")
        self.number = int(number)

    def dtype(self, inputs: Sequence[type[DType]]) -> type[DType]:
        if self.number > len(inputs):
            raise PoplibsError(f"""The expression names {self}, and {len(inputs)} tensors were
                given.
                next:  give as many tensors as the expression names; _1 is the first.""")
        return inputs[self.number - 1]

    def code(self, inputs: Sequence[type[DType]], wanted: type[DType]) -> list[str]:
        return [str(self)]

    def __repr__(self) -> str:
        return f"_{self.number}"


class Const(Expr):
    """A number of `dtype`, by default of the other operand's dtype."""

    def __init__(self, value: float | int | bool, dtype: type[DType] | None = None) -> None:
        self.given = None if dtype is None else as_dtype(dtype, "Const()")
        self.value = value
        self._own = self.given or _kind(value)
        to_host_array(value, self._own, "Const()")

    @property
    def own(self) -> type[DType]:
        return self._own

    def dtype(self, inputs: Sequence[type[DType]]) -> type[DType] | None:
        return self.given

    def code(self, inputs: Sequence[type[DType]], wanted: type[DType]) -> list[str]:
        number = to_host_array(self.value, wanted, f"The constant {self}")[()]
        return [
            f"{wanted.__name__}:{float(number).hex() if wanted.numpy.kind == 'f' else int(number)}"
        ]

    def __repr__(self) -> str:
        return repr(self.value)


def _kind(value: object) -> type[DType]:
    """Return the dtype of a number that meets nothing: BOOL, FLOAT, or the first integer that holds
    it."""
    if not is_whole(value):
        return BOOL if isinstance(value, bool) else FLOAT
    return INT if -(2**31) <= value < 2**31 else LONGLONG if value < 2**63 else UNSIGNED_LONGLONG


class Cast(Expr):
    """An expression, converted to `dtype`: floats round to nearest, to integers they are cut
    towards 0."""

    def __init__(self, of: ExprLike, dtype: type[DType]) -> None:
        self.of = as_expr(of, "Cast()")
        self.to = as_dtype(dtype, "Cast()")
        if issubclass(self.to, QUARTER):
            raise PoplibsError(
                f"Cast() was given {self.to}.", next_step="use popops.cast for 8-bit floats."
            )

    def dtype(self, inputs: Sequence[type[DType]]) -> type[DType]:
        self.of.dtype(inputs)
        return self.to

    def code(self, inputs: Sequence[type[DType]], wanted: type[DType]) -> list[str]:
        dtype = self.of.dtype(inputs) or self.of.own
        return [*self.of.code(inputs, dtype), f"CAST:{self.to.__name__}"]

    def __repr__(self) -> str:
        return f"Cast({self.of}, {self.to.__name__})"


class Operator(Expr):
    """One of the operations of `popops.operations` on one, two or three expressions."""

    def __init__(self, name: str, node: str, *operands: ExprLike) -> None:
        self.operation = OPERATIONS[name]
        self.node = node
        if len(operands) != self.operation.arity:
            raise PoplibsError(f"""{node}() was given {len(operands)} operands.
                next:  give {self.operation.arity}: it computes {self.operation.says}.""")
        self.operands = tuple(as_expr(x, f"{node}()") for x in operands)

    def _operands(self) -> tuple[Expr, ...]:
        """Return those that must agree in dtype: all but the mask of a Select."""
        return self.operands[:2] if self.operation.name == "SELECT" else self.operands

    @property
    def own(self) -> type[DType]:
        dtypes = [x.own for x in self._operands()]
        return BOOL if self.operation.asks else FLOAT if FLOAT in dtypes else dtypes[0]

    def _common(self, inputs: Sequence[type[DType]]) -> type[DType] | None:
        """Return the dtype of the operands; None if they are all constants that take any."""
        known = [(x, d) for x in self._operands() if (d := x.dtype(inputs)) is not None]
        for name, kind in known[1:]:
            if kind is not known[0][1]:
                raise PoplibsError(f"""{self.node} was given two dtypes: {known[0][0]} is
                    {known[0][1].__name__}, and {name} is {kind.__name__}.
                    where: in {self}
                    next:  convert one of them: expr.Cast(_1, HALF).""")
        return known[0][1] if known else None

    def _check(self, dtype: type[DType]) -> None:
        if not self.operation.accepts(dtype):
            raise PoplibsError(f"""{self.node} works on {self.operation.takes}; it was given
                {dtype.__name__}.
                where: in {self}
                next:  convert it: expr.Cast(_1, FLOAT).""")

    def dtype(self, inputs: Sequence[type[DType]]) -> type[DType] | None:
        dtype = self._common(inputs)
        if dtype is not None:
            self._check(dtype)
        for mask in self.operands[len(self._operands()) :]:
            kind = mask.dtype(inputs) or mask.own
            if kind is not BOOL:
                raise PoplibsError(f"""Select chooses by BOOL, but {mask} is {kind.__name__}.
                    where: in {self}
                    next:  give the condition last, as in expr.Select(_1, _2, _3 > 0).""")
        return BOOL if self.operation.asks else dtype

    def code(self, inputs: Sequence[type[DType]], wanted: type[DType]) -> list[str]:
        operands = self._operands()
        alone = FLOAT if FLOAT in [x.own for x in operands] else operands[0].own
        dtype = self._common(inputs) or (alone if self.operation.asks else wanted)
        self._check(dtype)
        steps = [step for x in operands for step in x.code(inputs, dtype)]
        for mask in self.operands[len(operands) :]:
            steps += mask.code(inputs, BOOL)
        return [*steps, f"{self.operation.name}@{dtype.__name__}"]

    def __repr__(self) -> str:
        return f"{self.node}({', '.join(map(repr, self.operands))})"


def as_expr(value: Any, subject: str) -> Expr:
    """Return `given`, or the constant it stands for. Raises `PoplibsError`."""
    if isinstance(value, Expr):
        return value
    if is_whole(value) or isinstance(value, (bool, float)):
        return Const(value)
    raise PoplibsError(f"""{subject} was given {shown(value)}, which is not an expression.
        next:  give placeholders, numbers, or expressions of them: expr._1 + 2; tensors go into the
        list of map().""")


def _node(name: str, operation: str) -> Callable[..., Expr]:
    def make(*operands: ExprLike) -> Expr:
        return Operator(operation, name, *operands)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"For each element: {OPERATIONS[operation].says}."
    return make


_1, _2, _3, _4, _5, _6, _7, _8 = (PlaceHolder(n + 1) for n in range(MOST_TENSORS))

Abs, Asin, BitwiseNot = (
    _node("Abs", "ABSOLUTE"),
    _node("Asin", "ASIN"),
    _node("BitwiseNot", "BITWISE_NOT"),
)
Cbrt, Ceil, Cos = _node("Cbrt", "CBRT"), _node("Ceil", "CEIL"), _node("Cos", "COS")
CountLeadingZeros, Erf = _node("CountLeadingZeros", "COUNT_LEADING_ZEROS"), _node("Erf", "ERF")
Exp, Exp2, Expm1 = (
    _node("Exp", "EXPONENT"),
    _node("Exp2", "EXPONENT2"),
    _node("Expm1", "EXPONENT_MINUS_ONE"),
)
Floor, GeluErf, Inv = _node("Floor", "FLOOR"), _node("GeluErf", "GELU_ERF"), _node("Inv", "INVERSE")
IsFinite, IsInf, IsNaN = (
    _node("IsFinite", "IS_FINITE"),
    _node("IsInf", "IS_INF"),
    _node("IsNaN", "IS_NAN"),
)
Log, Log1p, Not = (
    _node("Log", "LOGARITHM"),
    _node("Log1p", "LOGARITHM_ONE_PLUS"),
    _node("Not", "LOGICAL_NOT"),
)
NearbyInt, Neg, Popcount = (
    _node("NearbyInt", "NEARBY_INT"),
    _node("Neg", "NEGATE"),
    _node("Popcount", "POPCOUNT"),
)
Relu, Round, Rsqrt = _node("Relu", "RELU"), _node("Round", "ROUND"), _node("Rsqrt", "RSQRT")
Sigmoid, Signum, Sin = _node("Sigmoid", "SIGMOID"), _node("Signum", "SIGNUM"), _node("Sin", "SIN")
Sqrt, Square, Tan = _node("Sqrt", "SQRT"), _node("Square", "SQUARE"), _node("Tan", "TAN")
Tanh, Trunc = _node("Tanh", "TANH"), _node("Trunc", "TRUNC")

Add, Sub, Mul, Divide = (
    _node("Add", "ADD"),
    _node("Sub", "SUBTRACT"),
    _node("Mul", "MULTIPLY"),
    _node("Divide", "DIVIDE"),
)
Pow, Rem, Atan2 = _node("Pow", "POWER"), _node("Rem", "REMAINDER"), _node("Atan2", "ATAN2")
Max, Min = _node("Max", "MAXIMUM"), _node("Min", "MINIMUM")
Equal, NotEqual = _node("Equal", "EQUAL"), _node("NotEqual", "NOT_EQUAL")
Lt, Lte, Gt, Gte = (
    _node("Lt", "LESS_THAN"),
    _node("Lte", "LESS_THAN_EQUAL"),
    _node("Gt", "GREATER_THAN"),
    _node("Gte", "GREATER_THAN_EQUAL"),
)
And, Or = _node("And", "LOGICAL_AND"), _node("Or", "LOGICAL_OR")
BitwiseAnd, BitwiseOr = _node("BitwiseAnd", "BITWISE_AND"), _node("BitwiseOr", "BITWISE_OR")
BitwiseXor, BitwiseXnor = _node("BitwiseXor", "BITWISE_XOR"), _node("BitwiseXnor", "BITWISE_XNOR")
Shl, Shr, ShrSE = (
    _node("Shl", "SHIFT_LEFT"),
    _node("Shr", "SHIFT_RIGHT"),
    _node("ShrSE", "SHIFT_RIGHT_SIGN_EXTEND"),
)
InvStdDevToVariance = _node("InvStdDevToVariance", "INV_STD_DEV_TO_VARIANCE")
VarianceToInvStdDev = _node("VarianceToInvStdDev", "VARIANCE_TO_INV_STD_DEV")
Select, Clamp = _node("Select", "SELECT"), _node("Clamp", "CLAMP")
