"""Expressions for `popops.map`: several elementwise operations that one vertex computes.

    from ipu_teach.poplibs.popops import expr
    y = popops.map(graph, expr.Tanh(expr._1 * 2 + expr._2), [a, b], prog)

`_1` stands for the first tensor of the list, `_2` for the second, and so on to `_8`;
`PlaceHolder(n)` is the same as `_n`. Numbers are constants of the other operand's dtype, and
`Const(value, dtype)` is a constant of a given dtype. Python's operators have their usual meaning;
comparisons such as `<` and `==` also build expressions. `&`, `|`, `^` and `~` are bitwise, and
`And`, `Or` and `Not` work on BOOL.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from ipu_teach.errors import PoplibsError, shown
from ipu_teach.graph.layouts import is_whole
from ipu_teach.poplibs.popops.operations import OPERATIONS
from ipu_teach.types import (
    BOOL,
    FLOAT,
    HALF,
    INT,
    LONGLONG,
    QUARTER,
    UNSIGNED_LONGLONG,
    DType,
    as_dtype,
    to_host_array,
)

# The maximum number of tensors in an expression; the codelet has a field for each tensor.
MOST_TENSORS = 8


class Expr(ABC):
    """An expression of tensors and numbers; profiles show it in the form of `str(expression)`."""

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        raise PoplibsError(f"""Python asked whether the expression {self} is true.
            next:  use expr.Select, expr.And or expr.Or, which decide for each element; an
            expression has no value while the graph is built.""")

    @property
    def own(self) -> type[DType]:
        """The dtype of the result if no operand determines it."""
        return FLOAT

    @abstractmethod
    def dtype(self, inputs: Sequence[type[DType]]) -> type[DType] | None:
        """Return the dtype of the result for tensors with the dtypes `inputs`.

        Return None for a constant that gets the dtype of the other operand.

        :raises PoplibsError: if the operands do not fit the operation.
        """

    @abstractmethod
    def code(self, inputs: Sequence[type[DType]], wanted: type[DType]) -> list[str]:
        """Return the steps that compute the expression on a stack.

        A step is `_1` (push the first tensor), `FLOAT:2` (push a number), `CAST:HALF` (convert the
        top of the stack) or `ADD@FLOAT` (replace the operands by the result of an operation).
        `inputs` are the dtypes of the tensors. A constant without a dtype becomes a constant of the
        dtype `wanted`.
        """

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
    """A tensor in an expression: tensor number `number` of the list that is passed to `map`.

    The numbers are from 1 to 8.
    """

    def __init__(self, number: int) -> None:
        if not is_whole(number) or not 1 <= int(number) <= MOST_TENSORS:
            raise PoplibsError(f"""PlaceHolder() was given {shown(number)}.
                next:  give a number from 1 to {MOST_TENSORS}.""")
        self.number = int(number)

    def dtype(self, inputs: Sequence[type[DType]]) -> type[DType]:
        if self.number > len(inputs):
            raise PoplibsError(f"""The expression contains {self}, but the list of tensors has only
                {len(inputs)}.
                next:  add the missing tensors to the list; _1 is its first tensor.""")
        return inputs[self.number - 1]

    def code(self, inputs: Sequence[type[DType]], wanted: type[DType]) -> list[str]:
        return [str(self)]

    def __repr__(self) -> str:
        return f"_{self.number}"


class Const(Expr):
    """A constant of `dtype`, or of the other operand's dtype if `dtype` is None."""

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


def _kind(value: float) -> type[DType]:
    """Return the dtype of a constant for which no other operand determines the dtype.

    The dtype is BOOL for a bool and FLOAT for a float. For an int, it is the first of INT, LONGLONG
    and UNSIGNED_LONGLONG that can represent the number.
    """
    if not is_whole(value):
        return BOOL if isinstance(value, bool) else FLOAT
    if -(2**31) <= value < 2**31:
        return INT
    return LONGLONG if value < 2**63 else UNSIGNED_LONGLONG


class Cast(Expr):
    """An expression, converted to `dtype`.

    Conversions between floats round to the nearest value. Conversions of floats to an integer dtype
    truncate towards 0.
    """

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
    """An operation of `popops.operations` on one, two or three expressions."""

    def __init__(self, name: str, node: str, *operands: ExprLike) -> None:
        self.operation = OPERATIONS[name]
        self.node = node
        if len(operands) != self.operation.arity:
            raise PoplibsError(f"""{node}() was given {len(operands)} operands, but needs
                {self.operation.arity}.
                next:  give {self.operation.arity}: {node} computes {self.operation.says}.""")
        self.operands = tuple(as_expr(x, f"{node}()") for x in operands)

    def _operands(self) -> tuple[Expr, ...]:
        """Return the operands that must have the same dtype: all but the condition of a Select."""
        return self.operands[:2] if self.operation.name == "SELECT" else self.operands

    @property
    def own(self) -> type[DType]:
        dtypes = [operand.own for operand in self._operands()]
        if self.operation.asks:
            return BOOL
        return FLOAT if FLOAT in dtypes else dtypes[0]

    def _common(self, inputs: Sequence[type[DType]]) -> type[DType] | None:
        """Return the common dtype of the operands, or None if all are constants without a dtype.

        :raises PoplibsError: if two operands have different dtypes.
        """
        typed_operands = [
            (operand, operand_dtype)
            for operand in self._operands()
            if (operand_dtype := operand.dtype(inputs)) is not None
        ]
        for other_operand, other_dtype in typed_operands[1:]:
            if other_dtype is not typed_operands[0][1]:
                dtypes = typed_operands[0][1], other_dtype
                wide = next((dtype for dtype in (FLOAT, HALF) if dtype in dtypes), other_dtype)
                narrow = typed_operands[0][0] if other_dtype is wide else other_operand
                raise PoplibsError(f"""{self.node} was given two dtypes: {typed_operands[0][0]} is
                    {typed_operands[0][1].__name__}, and {other_operand} is {other_dtype.__name__}.
                    where: in {self}
                    next:  convert one of them: expr.Cast({narrow}, {wide.__name__}).""")
        return typed_operands[0][1] if typed_operands else None

    def _check(self, dtype: type[DType]) -> None:
        if not self.operation.accepts(dtype):
            raise PoplibsError(f"""{self.node} works on {self.operation.takes}, but was given
                {dtype.__name__}.
                where: in {self}
                next:  convert the operand: expr.Cast(_1, FLOAT).""")

    def dtype(self, inputs: Sequence[type[DType]]) -> type[DType] | None:
        dtype = self._common(inputs)
        if dtype is not None:
            self._check(dtype)
        for mask in self.operands[len(self._operands()) :]:
            mask_dtype = mask.dtype(inputs) or mask.own
            if mask_dtype is not BOOL:
                raise PoplibsError(f"""Select needs a condition of BOOL, but {mask} is
                    {mask_dtype.__name__}.
                    where: in {self}
                    next:  give the condition last, as in expr.Select(_1, _2, _3 > 0).""")
        return BOOL if self.operation.asks else dtype

    def code(self, inputs: Sequence[type[DType]], wanted: type[DType]) -> list[str]:
        operands = self._operands()
        constant_dtype = (
            FLOAT if FLOAT in [operand.own for operand in operands] else operands[0].own
        )
        dtype = self._common(inputs) or (constant_dtype if self.operation.asks else wanted)
        self._check(dtype)
        steps = [step for operand in operands for step in operand.code(inputs, dtype)]
        for mask in self.operands[len(operands) :]:
            steps += mask.code(inputs, BOOL)
        return [*steps, f"{self.operation.name}@{dtype.__name__}"]

    def __repr__(self) -> str:
        return f"{self.node}({', '.join(map(repr, self.operands))})"


def as_expr(value: ExprLike, subject: str) -> Expr:
    """Return `value` as an expression; a number becomes a constant.

    `subject` is the name of the call in errors.

    :raises PoplibsError: if `value` is neither an expression nor a number.
    """
    if isinstance(value, Expr):
        return value
    if is_whole(value) or isinstance(value, (bool, float)):
        return Const(value)
    raise PoplibsError(f"""{subject} was given {shown(value)}, which is not an expression.
        next:  give placeholders, numbers, or expressions of them: expr._1 + 2. Tensors go into the
        list of map().""")


def _node(name: str, operation: str) -> Callable[..., Expr]:
    def make(*operands: ExprLike) -> Expr:
        return Operator(operation, name, *operands)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"For each element: {OPERATIONS[operation].says}."
    return make


_1, _2, _3, _4, _5, _6, _7, _8 = (PlaceHolder(n + 1) for n in range(MOST_TENSORS))

Abs = _node("Abs", "ABSOLUTE")
Asin = _node("Asin", "ASIN")
BitwiseNot = _node("BitwiseNot", "BITWISE_NOT")
Cbrt = _node("Cbrt", "CBRT")
Ceil = _node("Ceil", "CEIL")
Cos = _node("Cos", "COS")
CountLeadingZeros = _node("CountLeadingZeros", "COUNT_LEADING_ZEROS")
Erf = _node("Erf", "ERF")
Exp = _node("Exp", "EXPONENT")
Exp2 = _node("Exp2", "EXPONENT2")
Expm1 = _node("Expm1", "EXPONENT_MINUS_ONE")
Floor = _node("Floor", "FLOOR")
GeluErf = _node("GeluErf", "GELU_ERF")
Inv = _node("Inv", "INVERSE")
IsFinite = _node("IsFinite", "IS_FINITE")
IsInf = _node("IsInf", "IS_INF")
IsNaN = _node("IsNaN", "IS_NAN")
Log = _node("Log", "LOGARITHM")
Log1p = _node("Log1p", "LOGARITHM_ONE_PLUS")
Not = _node("Not", "LOGICAL_NOT")
NearbyInt = _node("NearbyInt", "NEARBY_INT")
Neg = _node("Neg", "NEGATE")
Popcount = _node("Popcount", "POPCOUNT")
Relu = _node("Relu", "RELU")
Round = _node("Round", "ROUND")
Rsqrt = _node("Rsqrt", "RSQRT")
Sigmoid = _node("Sigmoid", "SIGMOID")
Signum = _node("Signum", "SIGNUM")
Sin = _node("Sin", "SIN")
Sqrt = _node("Sqrt", "SQRT")
Square = _node("Square", "SQUARE")
Tan = _node("Tan", "TAN")
Tanh = _node("Tanh", "TANH")
Trunc = _node("Trunc", "TRUNC")

Add = _node("Add", "ADD")
Sub = _node("Sub", "SUBTRACT")
Mul = _node("Mul", "MULTIPLY")
Divide = _node("Divide", "DIVIDE")
Pow = _node("Pow", "POWER")
Rem = _node("Rem", "REMAINDER")
Atan2 = _node("Atan2", "ATAN2")
Max = _node("Max", "MAXIMUM")
Min = _node("Min", "MINIMUM")
Equal = _node("Equal", "EQUAL")
NotEqual = _node("NotEqual", "NOT_EQUAL")
Lt = _node("Lt", "LESS_THAN")
Lte = _node("Lte", "LESS_THAN_EQUAL")
Gt = _node("Gt", "GREATER_THAN")
Gte = _node("Gte", "GREATER_THAN_EQUAL")
And = _node("And", "LOGICAL_AND")
Or = _node("Or", "LOGICAL_OR")
BitwiseAnd = _node("BitwiseAnd", "BITWISE_AND")
BitwiseOr = _node("BitwiseOr", "BITWISE_OR")
BitwiseXor = _node("BitwiseXor", "BITWISE_XOR")
BitwiseXnor = _node("BitwiseXnor", "BITWISE_XNOR")
Shl = _node("Shl", "SHIFT_LEFT")
Shr = _node("Shr", "SHIFT_RIGHT")
ShrSE = _node("ShrSE", "SHIFT_RIGHT_SIGN_EXTEND")
InvStdDevToVariance = _node("InvStdDevToVariance", "INV_STD_DEV_TO_VARIANCE")
VarianceToInvStdDev = _node("VarianceToInvStdDev", "VARIANCE_TO_INV_STD_DEV")

Select = _node("Select", "SELECT")
Clamp = _node("Clamp", "CLAMP")
