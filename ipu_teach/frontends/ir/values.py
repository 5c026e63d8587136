"""The classes of a graph: `Ir`, its values and its operations, and the table of operations.

The table `OPS` contains the definition of each kind of operation, a `Row`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypedDict

import numpy as np

from ipu_teach.arguments import (
    Among,
    Hint,
    Natural,
    Numbers,
    Taken,
    advised,
    check,
    check_calls,
    hints_of,
    is_numeric,
)
from ipu_teach.errors import ModelError, PoplibsError, UnknownOperationError, did_you_mean, shown
from ipu_teach.frontends.ir.attributes import Attribute, Element, attributes_of, misfit
from ipu_teach.graph import Tensor
from ipu_teach.graph.source import caller, in_words
from ipu_teach.types import BOOL, FLOAT, HALF, INT, UNSIGNED_INT, Array, DType

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from typing_extensions import Unpack

Shape = tuple[int, ...]
MADE = "made"  # The kind of a value that is the result of an operation.
VARIABLE = "variable"
INPUT = "input"
CONSTANT = "constant"
FORWARD, BACKWARD, UPDATE = PARTS = "forward", "backward", "update"
DTYPES: dict[str, type[DType]] = {d.__name__: d for d in (FLOAT, HALF, INT, UNSIGNED_INT, BOOL)}
MAX_ELEMENTS = 2**32  # The maximum number of elements of a value. No machine has memory for more.
CONTEXT: dict[str, Hint] = {
    "stage": Natural,
    "part": Annotated[str, Among(PARTS)],
    "phase": Natural,
    "path": str,
    "line": tuple[str, int],
}
_OF_NUMPY = {np.dtype(d.numpy): d for d in DTYPES.values()}


def misuse(problem: str, advice: str) -> ModelError:
    """Return a `ModelError` about an argument of a call, with the line of the user's call."""
    return ModelError(problem, line=in_words(caller()), next_step=advice)


@advised("give a value of the graph, such as the result of graph.op(…) or graph.input(…).")
@dataclass(eq=False, repr=False)
class Value:
    """A tensor of a graph: the result of an operation, a variable, an input, or a constant.

    A value has no elements, because the graph is compiled before it runs.

    - `kind`: MADE for a result of an operation, or VARIABLE, INPUT or CONSTANT.
    - `initial`: the initial value of a variable, or the value of a constant. An array without
      dimensions means that all elements equal this number.
    - `below`: the upper limit of an input's integers: they are from 0 to `below` - 1. None means no
      limit.
    - `ignored`: a further integer that the input may contain: the label that a loss ignores.
    - `marked`: whether the host has passed the label `ignored` in a batch.
    - `from_end`: whether the input may contain negative integers, which count from the end.
    - `remote`: whether the variable is in streaming memory, and on the tiles only while it is used.
    - `sharded`: whether each replica stores only a part of the variable.
    - `family`: an object that a graph and all its transformed versions share.
    """

    shape: Shape
    dtype: type[DType] = FLOAT
    name: str = ""
    kind: str = MADE
    initial: Annotated[Array, Taken(is_numeric, "give an array of real numbers.")] | None = None
    below: int | None = None
    ignored: int | None = None
    marked: bool = False
    from_end: bool = False
    remote: bool = False
    sharded: bool = False
    family: object = None

    @property
    def number(self) -> float | None:
        """The number that was passed as the value of a constant, or None for any other value."""
        if self.kind == CONSTANT and self.initial is not None and self.initial.ndim == 0:
            return self.initial.item()  # type: ignore[no-any-return]
        return None

    @property
    def floating(self) -> bool:
        """Whether the dtype is FLOAT or HALF, so that the value can have a gradient."""
        return self.dtype in (FLOAT, HALF)

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    def __repr__(self) -> str:
        return f"{self.name}: {self.dtype.__name__}{list(self.shape)}"


class Context(TypedDict, total=False):
    """The stage, part, phase, path and line of an operation, as in `Op`. All keys are optional."""

    stage: int
    part: str
    phase: int
    path: str
    line: tuple[str, int]


@dataclass(frozen=True, eq=False)
class Op:
    """An operation of a graph.

    - `kind`: the kind of operation, such as "matmul": a key of the table `OPS`.
    - `inputs`: the input values.
    - `outs`: the results; empty if the operation changes a variable in place.
    - `attrs`: the attributes, such as the dimensions of a sum.
    - `stage`: the number of the IPU within a replica.
    - `part`: "forward", "backward" or "update", the pass that the operation belongs to.
    - `phase`: the execution phase. Values that a later phase reads are stored in streaming memory.
    - `path`: the module that the operation belongs to, such as "encoder.layer1".
    - `line`: the line of the user's code, as (file, line number).
    """

    kind: str
    inputs: tuple[Value, ...]
    outs: tuple[Value, ...]
    attrs: Mapping[str, Attribute]
    stage: int = 0
    part: str = FORWARD
    phase: int = 0
    path: str = ""
    line: tuple[str, int] = ("", 0)

    @property
    def name(self) -> str:
        """The path and the kind, such as `encoder.layer1/matmul`, for debug names and reports."""
        return f"{self.path}/{self.kind}" if self.path else self.kind

    @property
    def context(self) -> Context:
        """The stage, part, phase, path and line of the operation, as arguments of `Ir.at`."""
        return Context(
            stage=self.stage, part=self.part, phase=self.phase, path=self.path, line=self.line
        )

    @property
    def where(self) -> str:
        """A description for error messages: the kind, the inputs' shapes and dtypes, the path."""
        inputs = " and ".join(
            f"{list(value.shape)} {value.dtype.__name__}" for value in self.inputs
        )
        return f"{self.kind} of {inputs or 'nothing'}" + (f", in {self.path}" if self.path else "")

    def error(self, problem: str, advice: str) -> ModelError:
        """Return a `ModelError` about this operation, with its description and its source line."""
        return ModelError(problem, where=self.where, line=in_words(self.line), next_step=advice)


def is_part(op: Op) -> bool:
    """Return whether the result of `op` is a slice that has fewer elements than its input."""
    return op.kind == "slice" and op.outs[0].size < op.inputs[0].size


Swaps = dict[Value, Value]


def swapped(op: Op, swaps: Swaps) -> Op:
    """Return `op`, in which each input that is a key of `swaps` is replaced by the key's value."""
    if not any(value in swaps for value in op.inputs):
        return op
    return replace(op, inputs=tuple(swaps.get(value, value) for value in op.inputs))


class Out(NamedTuple):
    """The shape and dtype of a result of an operation."""

    shape: Shape
    dtype: type[DType]


class Unfit(Exception):
    """The reason why an operation cannot be applied, and advice to the user.

    The function `shape` of a `Row` raises `Unfit`, and so do the lowering functions of a front end.
    The caller converts the `Unfit` to a `ModelError`, whose message ends with the reason `why`.
    """

    def __init__(self, why: str, advice: str = "give it other tensors.") -> None:
        super().__init__(why)
        self.why = why
        self.advice = advice


@dataclass(frozen=True)
class Row:
    """The definition of a kind of operation: an entry of the table `OPS`.

    - `shape`: `shape(*values, **attrs)` returns an `Out`, or a list with an `Out` for each result.
      It raises `Unfit` if the values or attributes do not fit.
    - `lower`: `lower(lowering, *tensors, **attrs)` adds PopLibs calls to the program, and returns
      the result as a tensor, the results as a list of tensors, or None if there is no result.
    - `grad`: `grad(graph, op, *result_gradients)` returns a list with the gradient of each input,
      or None for an input without a gradient. If `grad` is None, `autodiff` raises `ModelError`
      when it needs a gradient of an input.
    - `view`: whether the result shares memory with the input.
    - `in_place`: whether the operation changes its first input, a variable, and has no result.
    - `numbers`: whether `lower` accepts Python numbers in place of tensors.
    - `lays`: `lays(lowering, op, place)` returns a new variable with the tile mapping that the
      operation prefers for input number `place`, or None.
    - `attributes`: annotations of attributes that have another type than in the table `ATTRIBUTES`.
    """

    shape: Callable[..., Out | list[Out]]
    lower: Callable[..., Tensor | Sequence[Tensor] | None]
    grad: Callable[..., list[Value | None]] | None = None
    view: bool = False
    in_place: bool = False
    numbers: bool = False
    lays: Callable[..., Tensor | None] | None = None
    attributes: Mapping[str, Hint] = field(default_factory=dict)


OPS: dict[str, Row] = {}
REGISTERED: set[str] = set()  # The names that `register` has added to OPS.
FOLDS: dict[str, Callable[..., float]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
}
# The views that return a constant with equal elements if their input is such a constant.
UNIFORM_VIEWS = ("expand", "reshape", "permute", "slice", "reverse")


def register(name: str, row: Row) -> None:
    """Add an operation of your own to the table `OPS`, so that `graph.op(name, …)` can use it.

    :raises ModelError: if the table already contains an operation with this name.
    """
    if name in OPS:
        raise ModelError(f"""register() was given the name {name!r}, but the table of operations
            already contains an operation with this name.
            next:  choose another name, such as 'my_{name}'.""")
    OPS[name] = row
    REGISTERED.add(name)


def row_of(kind: str, where: str = "", line: str = "") -> Row:
    """Return the definition of the operation `kind` from the table `OPS`.

    `where` is the path of the calling module, and `line` is the source line of the call; both are
    used in error messages.

    :raises UnknownOperationError: if the table has no such operation. The error names the most
        similar kind.
    """
    if kind not in OPS:
        raise UnknownOperationError(
            f"The table of operations contains no operation {kind!r}.",
            where=where,
            line=line,
            next_step=f"{did_you_mean(kind, OPS)}to add an operation of your own, call "
            f"ir.register({kind!r}, Row(shape, lower, grad)).",
        )
    return OPS[kind]


def dtype_of(array: Array, name: str) -> type[DType]:
    """Return the device's dtype for an array of the host, which error messages call `name`.

    All integers become 32-bit integers.

    :raises ModelError: if the array does not contain integers, bools, float32 or float16.
    """
    dtype = _OF_NUMPY.get(array.dtype)
    if dtype is None and array.dtype.kind in "iu":
        dtype = INT if array.dtype.kind == "i" else UNSIGNED_INT
    if dtype is None:
        raise ModelError(f"""The array {name!r} has the dtype {array.dtype}, which the device does
            not support.
            next:  convert it to float32 or float16: array.astype(numpy.float32), or in PyTorch
            module.float().""")
    return dtype


class Changes(TypedDict, total=False):
    """New values of attributes of a graph, as keyword arguments of `Ir.but`."""

    ops: list[Op]
    variables: dict[str, Value]
    inputs: dict[str, Value]
    outputs: dict[str, Value]
    replicas: int
    accumulation: int
    schedule: str


class _FirstReaders:
    """The stage of the first reader of each value, for a list of operations that only grows."""

    def __init__(self, ops: list[Op]) -> None:
        self.ops = ops
        self._num_read = 0
        self._stages: dict[Value, int] = {}

    def stages(self) -> Mapping[Value, int]:
        for op in self.ops[self._num_read :]:
            for value in op.inputs:
                self._stages.setdefault(value, op.stage)
        self._num_read = len(self.ops)
        return self._stages


@advised("give a graph as the first argument: ir.Ir(), or the result of a transform.")
@dataclass
class Ir:
    """A graph: its operations in execution order, and its variables, inputs and outputs by name.

    A transform returns another `Ir`, which contains the same `Value` objects as the original. The
    transforms `replicate`, `accumulate` and `pipelined` set `replicas`, `accumulation` (the number
    of micro-batches in an update) and `schedule`. `context` contains the stage, part, phase, path
    and line of new operations; the method `at` sets them.
    """

    ops: list[Op] = field(default_factory=list)
    variables: dict[str, Value] = field(default_factory=dict)
    inputs: dict[str, Value] = field(default_factory=dict)
    outputs: dict[str, Value] = field(default_factory=dict)
    replicas: int = 1
    accumulation: int = 1
    schedule: str = ""
    context: dict[str, Attribute] = field(default_factory=dict, repr=False)
    result_count: int = 0  # The number of results so far is part of the next result's name.
    family: object = field(default_factory=object, repr=False)
    _readers: _FirstReaders = field(
        default_factory=lambda: _FirstReaders([]), init=False, repr=False, compare=False
    )

    def _named(self, value: Value, among: dict[str, Value]) -> Value:
        """Add a variable or an input to the dict `among`, and return it.

        `among` is `variables` or `inputs`.

        :raises ModelError: if the name is empty or already used, or if the value has more than
            `MAX_ELEMENTS` elements.
        """
        self._check_size(value.name, value.shape)
        if not value.name:
            raise ModelError("""A variable or an input without a name was added to a graph.
                next:  give it a name of its own, such as graph.input((16, 64), "x").""")
        if value.name in {**self.variables, **self.inputs}:
            raise ModelError(f"""A variable or an input was added to a graph with the name
                {value.name!r}, which the graph already uses.
                next:  give each variable and each input a name of its own.""")
        among[value.name] = value
        return value

    def variable(
        self, initial: Numbers, name: str, dtype: Element | None = None, remote: bool = False
    ) -> Value:
        """Add a variable, which keeps its elements from step to step, and return it.

        `initial` contains the initial elements. If `dtype` is None, the variable has the device's
        dtype for them. A `remote` variable is in streaming memory.

        :raises ModelError: if the device does not support the dtype, if the name is empty or
            already used, or if there are more than `MAX_ELEMENTS` elements.
        """
        array = np.asarray(initial)
        variable_dtype = dtype or dtype_of(array, name)
        array = array.astype(variable_dtype.numpy)
        variable = Value(
            array.shape,
            variable_dtype,
            name,
            kind=VARIABLE,
            initial=array,
            remote=remote,
            family=self.family,
        )
        return self._named(variable, self.variables)

    def input(self, shape: Sequence[Natural], name: str, dtype: Element = FLOAT) -> Value:
        """Add an input, whose elements the host passes for each micro-batch, and return it.

        `shape` is the shape of a micro-batch.

        :raises ModelError: if the name is empty or already used, or if there are more than
            `MAX_ELEMENTS` elements.
        """
        sizes = tuple(map(int, shape))
        return self._named(Value(sizes, dtype, name, INPUT, family=self.family), self.inputs)

    def _check_size(self, name: str, shape: Sequence[int]) -> None:
        """Raise `ModelError` if a shape has more elements than the memory of any machine."""
        if prod(shape) > MAX_ELEMENTS:
            raise misuse(
                f"{name} of {list(shape)} has {prod(shape):,} elements, more than the memory of "
                "any machine.",
                f"use sizes whose product is at most {MAX_ELEMENTS:,}.",
            )

    def check_own(self, call: str, value: Value) -> None:
        """Raise `ModelError` if `value` belongs to another graph; `call` names the caller."""
        if value.family is not None and value.family is not self.family:
            raise misuse(
                f"{call}() was given {value!r}, which is a value of another graph.",
                "use values of this graph, or of the graph that it was transformed from.",
            )

    def fed_input(self, value: Value) -> tuple[Value | None, Value]:
        """Return `(input, part)`: the input that `value` is a view of, and the part with limits.

        If a slice selects only a part of the input, `part` is the result of this slice, and
        otherwise it is the input itself. `input` is None if the elements of `value` do not come
        from an input.
        """
        maker = self.maker()
        part = None
        while value in maker and OPS[(op := maker[value]).kind].view:
            if op.kind in ("concat", "pad"):
                part = None  # The result of this view may also contain elements of other values.
            part = part or (value if is_part(op) else None)
            value = op.inputs[0]
        return (value if value.kind == INPUT else None), part or value

    def classes(self, value: Value, below: Natural, ignored: int | None = None) -> Value:
        """Return `value`, and make each run check the integers that the host passes for it.

        The integers must be from 0 to `below` - 1, or equal to `ignored`. If `value` is neither an
        input nor a view of an input, nothing is checked.
        """
        fed, part = self.fed_input(value)
        if fed is not None:
            part.below = below if part.below is None else min(below, part.below)
            if ignored is not None:
                part.ignored = ignored
                # The host replaces the ignored labels in all of the input, but only if the input is
                # UNSIGNED_INT.
                fed.ignored = ignored if fed.dtype is UNSIGNED_INT else fed.ignored
        return value

    def constant(
        self, value: Numbers, dtype: Element = FLOAT, shape: Sequence[Natural] | None = None
    ) -> Value:
        """Return a constant: an array, or one number for all elements of `shape`.

        :raises ModelError: if an integer or bool `dtype` cannot represent the numbers exactly, if
            the array has another shape than `shape`, or if there are more than `MAX_ELEMENTS`
            elements.
        """
        host_values = np.asarray(value)
        if shape is not None and host_values.ndim and host_values.shape != tuple(shape):
            raise misuse(
                f"constant() was given an array of shape {list(host_values.shape)} and "
                f"shape={list(shape)}, which differ.",
                "give one number for all elements, or leave out shape.",
            )
        try:
            array = host_values.astype(dtype.numpy)
        # numpy has no integers of more than 64 bits.
        except OverflowError:
            array = np.asarray(None)
        if dtype not in (FLOAT, HALF) and not np.array_equal(array, host_values):
            raise ModelError(f"""The constant {shown(value)} cannot be represented exactly in
                {dtype.__name__}.
                next:  use values in the range of {dtype.__name__}, or convert the other
                operand with graph.op('cast', x, dtype=FLOAT).""")
        full_shape = array.shape if shape is None else tuple(map(int, shape))
        self._check_size("constant()", full_shape)
        return Value(full_shape, dtype, "constant", CONSTANT, initial=array)

    def cast(self, x: Value, dtype: Element) -> Value:
        """Return `x` with the dtype `dtype`. A constant is converted immediately."""
        if x.dtype is dtype:
            return x
        if x.number is not None:
            return self.constant(x.number, dtype, x.shape)
        if x.kind == CONSTANT and x.initial is not None:
            return self.constant(x.initial, dtype)
        return self.op("cast", x, dtype=dtype)

    def output(self, name: str, value: Value) -> Value:
        """Mark `value` as an output, which a run returns under `name`, and return the value.

        The device sends an output to the host once per micro-batch. An output of the update is sent
        once per step.

        :raises ModelError: if `value` belongs to another graph.
        """
        self.check_own("output", value)
        self.outputs[name] = value
        return value

    @contextmanager
    def at(self, **context: Unpack[Context]) -> Iterator[None]:
        """Set the stage, part, phase, path or line of the operations added in a `with` block.

        The path is the path of the module, and the line is a line of the user's code. `Op`
        describes all five.

        :raises ModelError: for any other keyword.
        """
        for name, value in context.items():
            if name not in CONTEXT:
                nearest = did_you_mean(name, CONTEXT)
                raise misuse(
                    f"at() has no argument {name!r}.",
                    f"{nearest}use one of {', '.join(CONTEXT)}.",
                )
            check("at", name, value, CONTEXT[name], refuse=misuse)
        context_before = self.context
        self.context = {**self.context, **context}
        try:
            yield
        finally:
            self.context = context_before

    def op(self, kind: str, /, *inputs: Value | ArrayLike, **attrs: Attribute) -> Value:
        """Add an operation, and return its first result.

        Numbers and arrays among the inputs become constants.

        :raises ModelError: if the operation does not accept its inputs or attributes.
        """
        return self.emit(kind, *inputs, **attrs)[0]

    def emit(
        self, kind: str, /, *inputs: Value | ArrayLike, **attrs: Attribute
    ) -> tuple[Value, ...]:
        """Add an operation, and return a tuple of all its results.

        Numbers and arrays among the inputs become constants.

        :raises ModelError: if the operation does not accept its inputs or attributes. The error
            names the inputs, the module and the line of the user's code.
        """
        context = {"line": caller(), **self.context}
        row = row_of(kind, context.get("path", ""), in_words(context["line"]))
        values = self._as_values(kind, inputs)
        op = Op(kind, values, (), attrs, **context)
        fault = misfit(attributes_of(row.shape, row.lower), row.attributes, attrs)
        if fault is not None:
            raise op.error(f"{kind} {fault[0]}.", fault[1])
        outs = _outs_of(row, op)
        for out in outs:
            self._check_size(kind, out.shape)
        if folded := self._folded(kind, values, outs):
            return folded
        if row.in_place:
            if values[0].kind != VARIABLE:
                raise op.error(
                    f"The operation {kind} changes its first input in place, but "
                    f"{values[0].name!r} is not a variable.",
                    "pass a variable as the first input, as graph.variable(…) returns it.",
                )
            op = replace(op, stage=self.home(values[0], op.stage))
            outs = []
        names = [f"{kind}{self.result_count + i}" for i in range(len(outs))]
        results = tuple(
            Value(tuple(map(int, out.shape)), out.dtype, name, family=self.family)
            for out, name in zip(outs, names, strict=True)
        )
        self.result_count += len(outs)
        self.ops.append(replace(op, outs=results))
        return results

    def _as_values(self, kind: str, inputs: Sequence[Value | ArrayLike]) -> tuple[Value, ...]:
        """Return the inputs of an operation, with numbers and arrays converted to constants.

        These constants get the dtype of the first value among the inputs that is not BOOL. If all
        values are BOOL, the constants are BOOL. Without any value, they are FLOAT.

        :raises ModelError: if an input belongs to another graph or is not numeric.
        """
        value_dtypes = [v.dtype for v in inputs if isinstance(v, Value)]
        first_dtype = value_dtypes[0] if value_dtypes else FLOAT
        dtype = next(
            (value_dtype for value_dtype in value_dtypes if value_dtype is not BOOL), first_dtype
        )
        for position, value in enumerate(inputs):
            if isinstance(value, Value):
                self.check_own(kind, value)
            elif not is_numeric(value):
                raise misuse(
                    f"The operation {kind} was given {shown(value)} as input {position}, which is "
                    "neither a value of the graph nor numeric.",
                    "pass a value of the graph, or real numbers.",
                )
        return tuple(v if isinstance(v, Value) else self.constant(v, dtype) for v in inputs)

    def _folded(self, kind: str, inputs: tuple[Value, ...], outs: list[Out]) -> tuple[Value, ...]:
        """Return a tuple with the result of an operation as a constant, or an empty tuple.

        The result is a constant if all inputs are constants with equal elements and the operation
        is in `FOLDS` or `UNIFORM_VIEWS`.
        """
        constant_numbers = [v.number for v in inputs if v.number is not None]
        if (
            len(constant_numbers) < len(inputs)
            or not constant_numbers
            or kind not in (*FOLDS, *UNIFORM_VIEWS)
        ):
            return ()
        value = FOLDS[kind](*constant_numbers) if kind in FOLDS else constant_numbers[0]
        return (self.constant(value, outs[0].dtype, tuple(outs[0].shape)),)

    def home(self, variable: Value, otherwise: int = 0) -> int:
        """Return the stage of the first operation that reads `variable`, by default `otherwise`."""
        if self._readers.ops is not self.ops:
            self._readers = _FirstReaders(self.ops)
        return self._readers.stages().get(variable, otherwise)

    @property
    def stages(self) -> int:
        """The number of stages, which is the number of IPUs in each replica."""
        return 1 + max((op.stage for op in self.ops), default=0)

    def maker(self) -> dict[Value, Op]:
        """Return a dict that maps each result to the operation that produces it."""
        return {value: op for op in self.ops for value in op.outs}

    def but(self, **changes: Unpack[Changes]) -> Ir:
        """Return a copy of the graph with the same values and the given changes of attributes.

        :raises ModelError: for an unknown attribute, or a value of the wrong type.
        """
        for name, value in changes.items():
            if name not in _fields():
                suggestion = did_you_mean(name, _fields())
                raise misuse(
                    f"but() has no argument {name!r}.",
                    f"{suggestion}use one of {', '.join(_fields())}.",
                )
            check("but", name, value, _fields()[name], refuse=misuse)
        changed = copy.copy(self)
        for name in ("ops", "variables", "inputs", "outputs", "context"):
            setattr(changed, name, copy.copy(getattr(self, name)))
        for name, value in changes.items():
            setattr(changed, name, value)
        return changed

    def __str__(self) -> str:
        """Return a line for each operation, such as `relu4 = relu(add3)  # forward, encoder`.

        The comment contains the part and the path of the operation.
        """
        lines = []
        for op in self.ops:
            arguments = [
                value.name if value.number is None else f"{value.number:g}" for value in op.inputs
            ]
            arguments += [
                f"{attribute}={getattr(value, '__name__', value)}"
                for attribute, value in op.attrs.items()
            ]
            results = ", ".join(value.name for value in op.outs) or op.inputs[0].name
            comment = f"  # {op.part}, {op.path}" if op.path else f"  # {op.part}"
            lines.append(f"{results} = {op.kind}({', '.join(arguments)}){comment}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Ir({len(self.ops)} operations, {len(self.variables)} variables)"


@cache
def _fields() -> Mapping[str, Hint]:
    """Return a dict that maps the name of each attribute of `Ir` to the attribute's annotation."""
    return hints_of(Ir.__init__)


def _outs_of(row: Row, op: Op) -> list[Out]:
    """Return the shapes and dtypes of the results of `op`, according to its definition `row`.

    :raises ModelError: if the operation does not accept its inputs or attributes.
    """
    kind = op.kind
    try:
        outs = row.shape(*op.inputs, **op.attrs)
    except Unfit as error:
        raise op.error(f"{kind} is not possible: {error.why}.", error.advice) from None
    except PoplibsError as error:
        raise op.error(f"{kind} is not possible: {error.tried}", error.next_step) from None
    except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError) as error:
        advice = f"pass other inputs or attributes: see the function shape of ir.OPS[{kind!r}]."
        raise op.error(f"{kind} does not accept these inputs: {error}.", advice) from None
    return outs if isinstance(outs, list) else [outs]


def named_variable(ir: Ir, name: str) -> Value:
    """Return the variable with this name; raise `ModelError` if there is none."""
    if name not in ir.variables:
        raise ModelError(f"""The graph has no variable {shown(name)}.
            next:  {did_you_mean(name, ir.variables)}use the name of a variable:
            {", ".join(ir.variables) or "this graph has none"}.""")
    return ir.variables[name]


# The arguments of these functions and classes are not checked: only this package calls them.
NOT_CALLED = (
    *("Changes", "Context", "Op", "Out", "Value"),
    *("dtype_of", "misuse", "row_of", "swapped"),
)
check_calls(globals(), misuse, without=NOT_CALLED)
