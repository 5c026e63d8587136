"""A graph as data: values, operations in the order in which they run, and the rows that say what an
operation is."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from math import prod
from typing import Annotated, Any, NamedTuple

import numpy as np

from ipu_teach.arguments import (
    Among,
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
from ipu_teach.frontends.ir.attributes import Element, attributes_of, misfit
from ipu_teach.graph.source import caller, in_words
from ipu_teach.types import BOOL, FLOAT, HALF, INT, UNSIGNED_INT, Array, DType

Shape = tuple[int, ...]
MADE, VARIABLE, INPUT, CONSTANT = "made", "variable", "input", "constant"
FORWARD, BACKWARD, UPDATE = PARTS = "forward", "backward", "update"
DTYPES: dict[str, type[DType]] = {d.__name__: d for d in (FLOAT, HALF, INT, UNSIGNED_INT, BOOL)}
MOST_ELEMENTS = 2**32  # of a value: more than the memory of any machine holds
HERE: dict[str, Any] = {
    "stage": Natural,
    "part": Annotated[str, Among(PARTS)],
    "phase": Natural,
    "path": str,
    "line": tuple[str, int],
}
_OF_NUMPY = {np.dtype(d.numpy): d for d in DTYPES.values()}


def misuse(problem: str, advice: str) -> ModelError:
    """Return the error of a call with an argument that it cannot use, with the caller's line."""
    return ModelError(problem, line=in_words(caller()), next_step=advice)


@advised("give a value of the graph, as graph.op(…) and graph.input(…) return.")
@dataclass(eq=False, repr=False)
class Value:
    """A tensor of a graph: what an operation makes, a variable that stays on the device, what the
    host feeds, or a constant.

    `initial`: of a variable or a constant; with no dimensions it stands for each element. `below`:
    the host feeds whole numbers from 0 to one less. `ignored`: but for this one, which stands for
    no class. `marked`: the host has fed such a number. `remote`: a variable that lies in streaming
    memory, and on the tiles while it is used.
    """

    shape: Shape
    dtype: type[DType] = FLOAT
    name: str = ""
    kind: str = MADE
    initial: Annotated[Array, Taken(is_numeric, "give an array of real numbers.")] | None = None
    below: int | None = None
    ignored: int | None = None
    marked: bool = False
    remote: bool = False
    sharded: bool = False
    family: object = None  # shared by a graph and what transforms make of it

    @property
    def number(self) -> float | None:
        """What each element of a constant is, if they are all the same."""
        alike = self.kind == CONSTANT and self.initial is not None and self.initial.ndim == 0
        return self.initial.item() if alike and self.initial is not None else None

    @property
    def floating(self) -> bool:
        """Whether it can have a gradient."""
        return self.dtype in (FLOAT, HALF)

    @property
    def size(self) -> int:
        """How many elements it has."""
        return prod(self.shape)

    def __repr__(self) -> str:
        return f"{self.name}: {self.dtype.__name__}{list(self.shape)}"


@dataclass(frozen=True, eq=False)
class Op:
    """An operation: a row of `OPS` by its name, with its inputs, what it makes, and its attributes.

    `stage`: on which of the IPUs; `part`: "forward", "backward" or "update"; `phase`: for what lies
    in streaming memory between two of them; `path`: the module that asked for it, and `line` the
    learner's line, (file, number).
    """

    kind: str
    inputs: tuple[Value, ...]
    outs: tuple[Value, ...]
    attrs: Mapping[str, Any]
    stage: int = 0
    part: str = FORWARD
    phase: int = 0
    path: str = ""
    line: tuple[str, int] = ("", 0)

    @property
    def name(self) -> str:
        """`encoder.layer1/matmul`: what stands in debug names, reports and errors."""
        return f"{self.path}/{self.kind}" if self.path else self.kind

    @property
    def here(self) -> dict[str, Any]:
        """Where it stands: what `Ir.at` takes."""
        return {n: getattr(self, n) for n in ("stage", "part", "phase", "path", "line")}

    @property
    def where(self) -> str:
        """What it was asked for, as an error names it."""
        given = " and ".join(f"{list(v.shape)} {v.dtype.__name__}" for v in self.inputs)
        return f"{self.kind} of {given or 'nothing'}" + (f", in {self.path}" if self.path else "")

    def error(self, tried: str, advice: str) -> ModelError:
        """An error about this operation."""
        return ModelError(tried, where=self.where, line=in_words(self.line), next_step=advice)


Swaps = dict[Value, Value]


def swapped(op: Op, swaps: Swaps) -> Op:
    """The operation, with other values in the place of some that it reads."""
    if not any(v in swaps for v in op.inputs):
        return op
    return replace(op, inputs=tuple(swaps.get(v, v) for v in op.inputs))


class Out(NamedTuple):
    """What comes out of an operation."""

    shape: Shape
    dtype: type[DType]


class Unfit(Exception):
    """Raised by a row's `shape`: why it cannot take what it was given, and what to do."""

    def __init__(self, why: str, advice: str = "give it other tensors.") -> None:
        super().__init__(why)
        self.why, self.advice = why, advice


@dataclass(frozen=True)
class Row:
    """What an operation is.

    `shape(*values, **attrs)`: an `Out`, or a list of them; raises `Unfit`. `lower(lowering,
    *tensors, **attrs)`: the PopLibs calls; a tensor, or a list of them. `grad(graph, op, *gradients
    of what it makes)`: a list with the gradient of each input, or None. Without it the operation
    has none.

    `attributes`: annotations of those that `attributes.ATTRIBUTES` does not have in this meaning.
    `view`: what it makes shares memory with its input. `in_place`: the first input, a variable, is
    changed, and nothing is made. `numbers`: `lower` takes numbers in the place of tensors. `lays`:
    `lays(lowering, op, place)` makes a variable that lies where the operation wants that input.
    """

    shape: Callable[..., Any]
    lower: Callable[..., Any]
    grad: Callable[..., list[Value | None]] | None = None
    view: bool = False
    in_place: bool = False
    numbers: bool = False
    lays: Callable[..., Any] | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)


OPS: dict[str, Row] = {}
REGISTERED: set[str] = set()  # the names that `register` has added to OPS
FOLDS = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}  # of numbers
STILL = ("expand", "reshape", "permute", "slice", "reverse")  # and of what looks alike everywhere


def register(name: str, row: Row) -> None:
    """A row of one's own; `graph.op(name, …)` then makes the operation. Raises `ModelError` for a
    name that is taken."""
    if name in OPS:
        raise ModelError(f"""An operation {name!r} was registered, and there is one of that name.
            next:  choose another name, such as 'my_{name}'.""")
    OPS[name] = row
    REGISTERED.add(name)


def row_of(kind: str, where: str = "", line: str = "") -> Row:
    """The row of that name. Raises `UnknownOperationError`, which names the nearest."""
    if kind not in OPS:
        raise UnknownOperationError(
            f"There is no operation {kind!r} in the table.",
            where=where,
            line=line,
            next_step=f"{did_you_mean(kind, OPS)}ir.register({kind!r}, Row(shape, lower, grad)) "
            "adds one of your own.",
        )
    return OPS[kind]


def dtype_of(array: Array, name: str) -> type[DType]:
    """The device's dtype of a host's array. Raises `ModelError` for doubles."""
    found = _OF_NUMPY.get(array.dtype)
    if found is None and array.dtype.kind in "iu":
        found = INT if array.dtype.kind == "i" else UNSIGNED_INT
    if found is None:
        raise ModelError(f"""{name!r} is {array.dtype}, which the device does not have.
            next:  make it float32 or float16: array.astype(numpy.float32), or module.float().""")
    return found


@advised("give the graph first: ir.Ir(), or what a transform returns.")
@dataclass
class Ir:
    """Operations in the order in which they run. Transforms return another one, which shares the
    values."""

    ops: list[Op] = field(default_factory=list)
    variables: dict[str, Value] = field(default_factory=dict)
    inputs: dict[str, Value] = field(default_factory=dict)
    outputs: dict[str, Value] = field(default_factory=dict)
    replicas: int = 1
    accumulation: int = 1
    schedule: str = ""
    here: dict[str, Any] = field(default_factory=dict, repr=False)
    made: int = 0  # values, to give each a name
    family: object = field(default_factory=object, repr=False)

    def _named(self, value: Value, among: dict[str, Value]) -> Value:
        self._check_size(value.name, value.shape)
        if value.name in {**self.variables, **self.inputs} or not value.name:
            raise ModelError(f"""A graph was given two values of the name {value.name!r}.
                next:  variables and inputs have names of their own, which the host uses.""")
        among[value.name] = value
        return value

    def variable(
        self, initial: Numbers, name: str, dtype: Element | None = None, remote: bool = False
    ) -> Value:
        """A tensor that stays on the device from step to step, with its initial value."""
        array = np.asarray(initial)
        kind = dtype or dtype_of(array, name)
        array = array.astype(kind.numpy)
        made = Value(array.shape, kind, name, VARIABLE, array, remote=remote, family=self.family)
        return self._named(made, self.variables)

    def input(self, shape: Sequence[Natural], name: str, dtype: Element = FLOAT) -> Value:
        """What the host feeds for each micro-batch."""
        sizes = tuple(map(int, shape))
        return self._named(Value(sizes, dtype, name, INPUT, family=self.family), self.inputs)

    def _check_size(self, name: str, shape: Sequence[int]) -> None:
        """Raise `ModelError` for a shape that no machine has memory for."""
        if prod(shape) > MOST_ELEMENTS:
            raise misuse(
                f"{name} of {list(shape)} has {prod(shape):,} elements.",
                f"give sizes whose product is {MOST_ELEMENTS:,} or less.",
            )

    def check_own(self, call: str, value: Value) -> None:
        """Raise `ModelError` for a value that another graph made."""
        if value.family is not None and value.family is not self.family:
            raise misuse(
                f"{call}() was given {value!r}, which is a value of another graph.",
                "use values of this graph, and of those that transforms made it of.",
            )

    def fed(self, value: Value) -> Value | None:
        """What the host feeds, of which `value` is a view; None if it is made."""
        maker = self.maker()
        while value in maker and OPS[maker[value].kind].view:
            value = maker[value].inputs[0]
        return value if value.kind == INPUT else None

    def classes(self, value: Value, below: Natural, ignored: int | None = None) -> Value:
        """`value`; if the host feeds it, or what it is a view of, those numbers are checked to be
        from 0 to `below` - 1, or `ignored`."""
        if (fed := self.fed(value)) is not None:
            fed.below = below if fed.below is None else min(below, fed.below)
            fed.ignored = fed.ignored if ignored is None else ignored
        return value

    def constant(
        self, value: Numbers, dtype: Element = FLOAT, shape: Sequence[Natural] | None = None
    ) -> Value:
        """A constant; one number for all elements of a `shape`, or an array."""
        given = np.asarray(value)
        if shape is not None and given.ndim and given.shape != tuple(shape):
            raise misuse(
                f"constant() was given {list(given.shape)} numbers for the shape {list(shape)}.",
                "give one number for all elements, or an array without a shape.",
            )
        try:
            array = given.astype(dtype.numpy)
        except OverflowError:  # a whole number of Python's beyond 64 bits
            array = np.asarray(None)
        if dtype not in (FLOAT, HALF) and not np.array_equal(array, given):
            raise ModelError(f"""The constant {shown(value)} cannot be {dtype.__name__}.
                next:  give whole numbers that it holds, or cast the tensor beside it: graph.op(
                'cast', x, dtype=FLOAT).""")
        sizes = array.shape if shape is None else tuple(map(int, shape))
        self._check_size("constant()", sizes)
        return Value(sizes, dtype, "constant", CONSTANT, array)

    def cast(self, x: Value, dtype: Element) -> Value:
        """x in that dtype."""
        if x.dtype is dtype:
            return x
        if x.number is not None:
            return self.constant(x.number, dtype, x.shape)
        if x.kind == CONSTANT and x.initial is not None:
            return self.constant(x.initial, dtype)
        return self.op("cast", x, dtype=dtype)

    def output(self, name: str, value: Value) -> Value:
        """Hand a value to the host, once for each micro-batch, under a name."""
        self.check_own("output", value)
        self.outputs[name] = value
        return value

    @contextmanager
    def at(self, **here: Any) -> Iterator[None]:
        """Operations made within have this `stage`, `part`, `phase`, `path` or `line`."""
        for name, value in here.items():
            if name not in HERE:
                known = did_you_mean(name, HERE)
                raise misuse(f"at() has no {name!r}.", f"{known}it takes {', '.join(HERE)}.")
            check("at", name, value, HERE[name], misuse)
        before, self.here = self.here, {**self.here, **here}
        try:
            yield
        finally:
            self.here = before

    def op(self, kind: str, /, *inputs: Any, **attrs: Any) -> Value:
        """The value that an operation makes; numbers among the inputs become constants."""
        return self.emit(kind, *inputs, **attrs)[0]

    def emit(self, kind: str, /, *inputs: Any, **attrs: Any) -> tuple[Value, ...]:
        """All values that an operation makes. Raises `ModelError`, with what it was given, the
        module's path and the learner's line."""
        here = {"line": caller(), **self.here}
        row = row_of(kind, here.get("path", ""), in_words(here["line"]))
        kinds = [v.dtype for v in inputs if isinstance(v, Value)]
        dtype = next((d for d in kinds if d is not BOOL), kinds[0] if kinds else FLOAT)
        for place, value in enumerate(inputs):
            if isinstance(value, Value):
                self.check_own(kind, value)
            elif not is_numeric(value):
                raise misuse(
                    f"{kind} was given {shown(value)} as input {place}.",
                    "give a value of the graph, or real numbers.",
                )
        given = tuple(v if isinstance(v, Value) else self.constant(v, dtype) for v in inputs)
        op = Op(kind, given, (), attrs, **here)
        fault = misfit(attributes_of(row.shape, row.lower), row.attributes, attrs)
        if fault is not None:
            raise op.error(f"{kind} {fault[0]}.", fault[1])
        try:
            found = row.shape(*given, **attrs)
        except Unfit as error:
            raise op.error(f"{kind} cannot be: {error.why}", error.advice) from None
        except PoplibsError as error:
            raise op.error(f"{kind} cannot be: {error.tried}", error.next_step) from None
        except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError) as error:
            advice = "see its row in the table of operations for what it takes."
            raise op.error(f"{kind} was given what it does not take: {error}.", advice) from None
        outs = found if isinstance(found, list) else [found]
        for out in outs:
            self._check_size(kind, out.shape)
        if folded := self._folded(kind, given, outs):
            return folded
        if row.in_place:
            if given[0].kind != VARIABLE:
                advice = "it changes its first tensor where it lies: give a variable."
                raise op.error(f"{kind} was given what is no variable.", advice)
            op = replace(op, stage=self.home(given[0], op.stage))
            outs = []
        names = [f"{kind}{self.made + i}" for i in range(len(outs))]
        made = tuple(
            Value(tuple(map(int, o.shape)), o.dtype, n, family=self.family)
            for o, n in zip(outs, names, strict=True)
        )
        self.made += len(outs)
        self.ops.append(replace(op, outs=made))
        return made

    def _folded(self, kind: str, given: tuple[Value, ...], outs: list[Out]) -> tuple[Value, ...]:
        """What numbers alone make needs no operation."""
        numbers: list[Any] = [v.number for v in given]
        if None in numbers or not numbers or kind not in (*FOLDS, *STILL):
            return ()
        value = FOLDS[kind](*numbers) if kind in FOLDS else numbers[0]
        return (self.constant(value, outs[0].dtype, tuple(outs[0].shape)),)

    def home(self, variable: Value, otherwise: int = 0) -> int:
        """The stage where a variable lies: that of the first operation that has it."""
        return next((op.stage for op in self.ops if variable in op.inputs), otherwise)

    @property
    def stages(self) -> int:
        """How many IPUs of each replica the operations are on."""
        return 1 + max((op.stage for op in self.ops), default=0)

    def maker(self) -> dict[Value, Op]:
        """The operation that makes each value."""
        return {value: op for op in self.ops for value in op.outs}

    def but(self, **changes: Any) -> Ir:
        """Another graph of the same values, but for `changes`."""
        for name, value in changes.items():
            if name not in _fields():
                near = did_you_mean(name, _fields())
                raise misuse(f"but() has no {name!r}.", f"{near}it takes {', '.join(_fields())}.")
            check("but", name, value, _fields()[name], misuse)
        made = copy.copy(self)
        for name in ("ops", "variables", "inputs", "outputs", "here"):
            setattr(made, name, copy.copy(getattr(self, name)))
        for name, value in changes.items():
            setattr(made, name, value)
        return made

    def __str__(self) -> str:
        """A line for each operation: `relu4 = relu(add3)`, with its attributes and its module."""
        lines = []
        for op in self.ops:
            given = [v.name if v.number is None else f"{v.number:g}" for v in op.inputs]
            given += [f"{k}={getattr(v, '__name__', v)}" for k, v in op.attrs.items()]
            outs = ", ".join(v.name for v in op.outs) or op.inputs[0].name
            note = f"  # {op.part}{', ' * bool(op.path)}{op.path}"
            lines.append(f"{outs} = {op.kind}({', '.join(given)}){note}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Ir({len(self.ops)} operations, {len(self.variables)} variables)"


@cache
def _fields() -> dict[str, Any]:
    """Return what a graph is made of, with the annotation of each."""
    return hints_of(Ir.__init__)


def named_value(ir: Ir, name: str) -> Value:
    """A variable or input of a graph by its name. Raises `ModelError`."""
    known = {**ir.variables, **ir.inputs}
    if name not in known:
        raise ModelError(f"""There is no variable or input {shown(name)}.
            next:  {did_you_mean(name, known)}there are {", ".join(known)}.""")
    return known[name]


# a graph makes values and operations, and no learner does
NOT_CALLED = ("Op", "Out", "Value", "dtype_of", "misuse", "row_of", "swapped")
check_calls(globals(), misuse, without=NOT_CALLED)
