"""Vertices: the classes a learner writes, their fields, and how one of them runs.

    class DotProduct(Vertex):
        a: Input[Vector[FLOAT]]
        b: Input[Vector[FLOAT]]
        out: Output[FLOAT]

        def compute(self):
            self.out = self.a @ self.b

A field without Input, Output or InOut is plain state: a number of the vertex's own that lives from run to run. Reading a
Vector gives a numpy array, reading a single element a numpy number. Assigning to a field writes its region, like
`[...] =`; everything else is refused with an error that says what to write instead.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, TypeVar, get_args, get_origin

import numpy as np

from ipu_teach.errors import (
    CodeletError,
    TensorCreationError,
    UndeclaredNameError,
    UnknownFieldError,
    VertexDefinitionError,
    did_you_mean,
    shown,
)
from ipu_teach.types import DType, poison, to_host_array

T = TypeVar("T")


class Vector(Generic[T]):
    """Several elements side by side: `Vector[FLOAT]`, or `Vector[Vector[FLOAT]]` for a matrix or a list of vectors."""

    def __get__(self, vertex: object, owner: type) -> Any: ...
    def __set__(self, vertex: object, value: Any) -> None: ...


class _Edge(Generic[T]):
    def __get__(self, vertex: object, owner: type) -> Any: ...
    def __set__(self, vertex: object, value: Any) -> None: ...


class Input(_Edge[T]):
    """A region that the vertex reads: `Input[FLOAT]`, `Input[Vector[FLOAT]]`, `Input[Vector[Vector[FLOAT]]]`."""


class Output(_Edge[T]):
    """A region that the vertex writes. What it does not write keeps its old value."""


class InOut(_Edge[T]):
    """A region that the vertex reads and writes."""


class VectorList(list[Any]):
    """The regions of a list of tensors on one field. Assigning to an item writes that region, as with a matrix's row."""

    def __setitem__(self, index: Any, value: Any) -> None:
        if value is not self[index]:
            self[index][...] = value


_KINDS = {Input: "input", Output: "output", InOut: "inout"}
# Names of the kit's own, which no field may take.
_RESERVED = frozenset(("bind", "call", "compute", "context", "cycles", "debug_context", "fields"))
MOST_ELEMENTS = 2**28  # of an Output of `Vertex.call`


@dataclass(frozen=True)
class Field:
    """One declared field: `kind` is input, output, inout or state; `depth` 0 for a number, 1 for Vector, 2 for a matrix."""

    name: str
    kind: str
    dtype: type[DType]
    depth: int
    default: Any = None

    @property
    def written(self) -> bool:
        return self.kind != "input"

    def declaration(self) -> str:
        """The field as its author wrote it."""
        text = self.dtype.__name__
        for _ in range(self.depth):
            text = f"Vector[{text}]"
        return text if self.kind == "state" else f"{'InOut' if self.kind == 'inout' else self.kind.capitalize()}[{text}]"


class _FieldAccess:
    """The descriptor behind a declared name: reads and writes the region that the running vertex has there."""

    def __init__(self, owner: str, field: Field) -> None:
        self.owner = owner
        self.field = field

    def __get__(self, vertex: Vertex | None, owner: type) -> Any:
        if vertex is None:
            return self.field
        region = vertex._regions[self.field.name]
        if self.field.depth:
            return region
        if self.field.kind == "output":
            raise CodeletError(
                f"{self.owner}.compute() reads its Output {self.field.name!r}.",
                next_step=f"an Output is only written. For +=, declare {self.field.name}: "
                f"InOut[{self.field.dtype.__name__}], or add up in a local variable and assign once.",
            )
        return region[()]

    def __set__(self, vertex: Vertex, value: Any) -> None:
        field = self.field
        region = vertex._regions[field.name]
        if field.kind == "input":
            raise CodeletError(
                f"{self.owner}.compute() assigns to its Input {field.name!r}.",
                next_step=f"an Input is only read; declare {field.name}: "
                f"{field.declaration().replace('Input', 'InOut', 1)} to change it.",
            )
        if value is region:
            if field.kind == "output":
                raise CodeletError(
                    f"{self.owner}.compute() changes its Output {field.name!r} in place.",
                    next_step=f"an Output is only written. For +=, declare {field.name}: "
                    f"{field.declaration().replace('Output', 'InOut', 1)}.",
                )
            return
        try:
            if isinstance(region, list):
                for part, given in zip(region, value, strict=True):
                    part[...] = given
            else:
                region[...] = value
        except (ValueError, TypeError) as error:
            raise CodeletError(
                f"{self.owner}.compute() assigns to {field.name!r} what does not fit: {_misfit(region, value, error)}.",
                next_step="give it one number, or as many as the field has.",
            ) from None


class Vertex:
    """A piece of work for one worker. Subclass it, declare fields, and write `compute(self)`.

    `compute` reads Inputs, writes Outputs, and may use numpy or plain loops. It is given numpy arrays (Vector) and numpy
    numbers (a single element) of the declared dtypes. What it returns is ignored.
    A class may define `cycles(self, target)`: the modelled worker cycles of one vertex. There `self.a.shape` and the like
    are known, and the values are not.
    """

    fields: ClassVar[dict[str, Field]] = {}
    # How the tile runs it: "worker" takes one of the six workers, "supervisor" the whole tile.
    context: ClassVar[str] = "worker"
    _regions: dict[str, Any]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        frame = sys._getframe(1)
        own = inspect.get_annotations(cls)
        # What each base declares itself; what it only inherits may be declared anew by another base.
        inherited = {
            name: field
            for base in reversed(cls.__mro__[1:])
            for name, field in base.__dict__.get("fields", {}).items()
            if name in base.__dict__
        }
        cls.fields = dict(inherited)
        for name in ("compute", "cycles"):
            if not callable(getattr(cls, name, cls)):
                raise VertexDefinitionError(f"{cls.__name__}.{name} is no method.", next_step=f"write `def {name}(self, …):`.")
        for name, annotation in own.items():
            if _is_class_var(annotation):
                continue
            if isinstance(annotation, str) and not name.startswith("_"):
                annotation = _resolve(cls, name, annotation, frame.f_globals, frame.f_locals)
            _check_name(cls, name, annotation)
            if not name.startswith("_"):
                cls._declare(_parse(cls, name, annotation, cls.__dict__.get(name)))
        for name in sorted(inherited.keys() & cls.__dict__.keys() - own.keys()):
            cls._declare(_checked_default(cls, replace(inherited[name], default=cls.__dict__[name])))

    @classmethod
    def _declare(cls, field: Field) -> None:
        cls.fields[field.name] = field
        setattr(cls, field.name, _FieldAccess(cls.__name__, field))

    def __init__(self, *args: Any, **values: Any) -> None:
        raise VertexDefinitionError(
            f"{type(self).__name__}() was called: a vertex is made by a graph.",
            next_step=f"graph.add_vertex(compute_set, {type(self).__name__}, …); to try one, {type(self).__name__}.call(…).",
        )

    if not TYPE_CHECKING:  # a type checker is to complain about undeclared names

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("__"):
                raise AttributeError(name)
            raise UndeclaredNameError(
                f"{type(self).__name__}.compute() reads self.{name}, which is no declared field.",
                next_step=f"{did_you_mean(name, type(self).fields)}Its fields are {_listed(type(self))}.",
            )

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in type(self).fields:
            raise UndeclaredNameError(
                f"{type(self).__name__}.compute() assigns to self.{name}, which is no declared field.",
                next_step=f"{did_you_mean(name, type(self).fields)}Use a local variable, or declare it as state in the class.",
            )
        object.__setattr__(self, name, value)

    def compute(self) -> Any:
        raise no_compute(type(self))

    @classmethod
    def bind(cls, regions: Mapping[str, Any]) -> Vertex:
        """A vertex whose fields are `regions`: arrays to be read and written in place, one for each field."""
        vertex = cls.__new__(cls)
        object.__setattr__(vertex, "_regions", dict(regions))
        return vertex

    @classmethod
    def call(cls, /, **values: Any) -> Any:
        """Run one vertex on host values and return what it wrote.

        Inputs, InOuts and state take values of the field's shape. A Vector Output takes its size: `out=4`, or `out=(2, 3)`
        for a matrix and `out=[2, 3]` for a list of vectors; a single-element Output takes nothing. Returns the value of the
        only written edge, or a dict by field name if there are several. Plain Python all the way: a breakpoint in `compute`
        stops here.
        """
        if cls.compute is Vertex.compute:
            raise no_compute(cls)
        for name in values:
            if name not in cls.fields:
                raise unknown_field(cls, name)
        regions = {name: _call_region(cls, field, values) for name, field in cls.fields.items()}
        with np.errstate(all="ignore"):
            cls.bind(regions).compute()
        written = {n: regions[n] for n, f in cls.fields.items() if f.kind in ("output", "inout")}
        results = {n: r[()] if isinstance(r, np.ndarray) and r.ndim == 0 else r for n, r in written.items()}
        return next(iter(results.values())) if len(results) == 1 else results


def unknown_field(cls: type[Vertex], name: object) -> UnknownFieldError:
    """The error for a field that `cls` does not have."""
    return UnknownFieldError(
        f"{cls.__name__} has no field {shown(name)}.",
        next_step=f"{did_you_mean(name, cls.fields)}Its fields are {_listed(cls)}.",
    )


def no_compute(cls: type[Vertex]) -> VertexDefinitionError:
    """The error for a vertex class that does nothing."""
    return VertexDefinitionError(f"{cls.__name__} has no compute().", next_step="define `def compute(self):` in the class.")


def _listed(cls: type[Vertex]) -> str:
    return ", ".join(f"{f.name}: {f.declaration()}" for f in cls.fields.values()) or "none"


def _misfit(region: Any, value: Any, error: Exception) -> str:
    """Why `value` cannot be written into `region`, in words."""
    if isinstance(region, list):
        return f"the field is a list of {len(region)} vectors; the value is {shown(value)}"
    try:
        return f"the field has shape {region.shape}, the value {np.shape(value)}"
    except ValueError:
        return str(error)


def _is_class_var(annotation: Any) -> bool:
    return get_origin(annotation) is ClassVar or (isinstance(annotation, str) and annotation.lstrip().startswith(
        ("ClassVar", "typing.ClassVar")))  # fmt: skip


def _resolve(cls: type, name: str, text: str, module: Mapping[str, Any], local: Mapping[str, Any]) -> Any:
    """The annotation `text` evaluated where the class stands, so that local classes and string annotations work."""
    found: Any = text
    try:
        while isinstance(found, str):
            found = eval(found, dict(module), dict(local))
        return found
    except Exception as error:
        raise VertexDefinitionError(
            f"{cls.__name__}.{name}: the annotation {text!r} cannot be read: {error}.",
            next_step="import the names that it uses before the class.",
        ) from None


def _check_name(cls: type[Vertex], name: str, annotation: Any) -> None:
    """Refuse a field under a name that the kit uses itself, or that starts with an underscore."""
    if name in _RESERVED:
        raise VertexDefinitionError(
            f"{cls.__name__} declares a field {name!r}.", next_step="the kit uses that name; take another."
        )
    text = annotation if isinstance(annotation, str) else ""
    is_field = get_origin(annotation) in _KINDS or isinstance(annotation, type) and issubclass(annotation, DType)
    if name.startswith("_") and (is_field or text.startswith(("Input[", "Output[", "InOut["))):
        raise VertexDefinitionError(f"{cls.__name__} declares a field {name!r}.", next_step="let its name start with a letter.")


def _parse(cls: type[Vertex], name: str, annotation: Any, default: Any) -> Field:
    """The field that `annotation` declares."""
    origin = get_origin(annotation) or annotation
    kind, inner, depth = "state", annotation, 0
    if origin in _KINDS:
        kind = _KINDS[origin]
        inner = get_args(annotation)[0] if get_args(annotation) else None
    while get_origin(inner) is Vector:
        inner = get_args(inner)[0]
        depth += 1
    is_dtype = isinstance(inner, type) and issubclass(inner, DType) and inner is not DType
    if not is_dtype or depth > 2 or (kind == "state" and depth):
        text = str(annotation) if get_origin(annotation) else shown(annotation)
        for module in ("ipu_teach.graph.vertex.", "ipu_teach.types."):
            text = text.replace(module, "")
        raise VertexDefinitionError(
            f"{cls.__name__}.{name} is declared as {text}, which is no field.",
            next_step="write Input[T], Output[T] or InOut[T], where T is a dtype such as FLOAT, Vector[FLOAT] or "
            "Vector[Vector[FLOAT]]; or a bare dtype for state.",
        )
    return _checked_default(cls, Field(name, kind, inner, depth, default))


def _checked_default(cls: type[Vertex], field: Field) -> Field:
    """`field`, if its default is a number that it can hold."""
    if field.default is None:
        return field
    what = f"{cls.__name__}.{field.name}"
    if field.kind != "state":
        raise VertexDefinitionError(
            f"{what} is declared as {field.declaration()} and set to {shown(field.default)}: only state has a default.",
            next_step="connect a tensor that holds the value.",
        )
    try:
        single = to_host_array(field.default, field.dtype, what).size == 1
    except TensorCreationError as error:
        raise VertexDefinitionError(error.tried, next_step=error.next_step) from None
    if not single:
        raise VertexDefinitionError(
            f"{what} is set to {shown(field.default)}: state is a single number.",
            next_step=f"give one number; for several, connect a tensor to a field Input[Vector[{field.dtype.__name__}]].",
        )
    return field


_RANKS = ("a single number", "a one-dimensional array", "a two-dimensional array, or a list of one-dimensional ones")


def _call_region(cls: type[Vertex], field: Field, values: Mapping[str, Any]) -> Any:
    """The host array that stands for one field in `Vertex.call`."""
    given = values.get(field.name, field.default)
    if field.kind == "output" and (field.depth == 0 or given is None or _is_size(given)):
        return _call_output(cls, field, given)
    if given is None:
        raise CodeletError(
            f"{cls.__name__}.call() was given no value for {field.name!r}.",
            next_step=f"pass {field.name}=…, declared as {field.declaration()}.",
        )
    what = f"{cls.__name__}.call(), {field.name}"
    try:
        if field.depth == 2 and isinstance(given, (list, tuple)):
            rows = [to_host_array(row, field.dtype, what) for row in given]
            uneven = len({row.shape for row in rows}) > 1 and all(row.ndim == 1 for row in rows)
            region: Any = VectorList(rows) if uneven else to_host_array(given, field.dtype, what)
        else:
            region = to_host_array(given, field.dtype, what)
    except TensorCreationError as error:
        raise CodeletError(error.tried, next_step=error.next_step) from None
    if isinstance(region, np.ndarray) and region.ndim != field.depth:
        raise CodeletError(
            f"{cls.__name__}.call(): {field.name!r} is declared as {field.declaration()} and was given shape {region.shape}.",
            next_step=f"give {_RANKS[field.depth]}.",
        )
    if field.kind == "input":
        for part in region if isinstance(region, list) else [region]:
            part.flags.writeable = False
    return region


def _is_size(given: Any) -> bool:
    """True for what `call` takes as the size of an Output: a whole number, or a list or tuple of them."""
    return all(isinstance(n, (int, np.integer)) for n in (given if isinstance(given, (list, tuple)) else [given]))


def _call_output(cls: type[Vertex], field: Field, given: Any) -> Any:
    """The region of an Output, of the size that `call` was given, with nothing written to it yet."""
    what = f"{cls.__name__}.call()"
    if field.depth == 0:
        if given is not None:
            raise CodeletError(
                f"{what} was given {shown(given)} for its Output {field.name!r}.",
                next_step=f"a single-element Output takes nothing; leave {field.name}=… out.",
            )
        return np.full((), poison(field.dtype), field.dtype.numpy)
    size = "4" if field.depth == 1 else "(2, 3), or [2, 3] for a list of vectors"
    advice = f"pass it by name, as in {field.name}={size}."
    if given is None:
        raise CodeletError(f"{what} needs the size of its Output {field.name!r}.", next_step=advice)
    lengths = [given] if isinstance(given, (int, np.integer)) else list(given)
    listed = field.depth == 2 and isinstance(given, list)
    fits = listed or len(lengths) == field.depth
    if not fits or any(n < 0 or isinstance(n, bool) for n in lengths) or prod(lengths) > MOST_ELEMENTS:
        raise CodeletError(f"{what} was given the size {shown(given)} for its Output {field.name!r}.", next_step=advice)
    parts = [np.full(n, poison(field.dtype), field.dtype.numpy) for n in (lengths if listed else [tuple(lengths)])]
    return VectorList(parts) if listed else parts[0]


class SupervisorVertex(Vertex):
    """A vertex that has the tile to itself: it starts the workers, so its cycles are tile cycles, not worker cycles."""

    context = "supervisor"


def template(codelet: type[Vertex], name: str, dtypes: Mapping[type[DType], type[DType]], **attributes: Any) -> type[Vertex]:
    """A copy of `codelet` for other dtypes: every field of a dtype in `dtypes` takes the one it maps to.

    `attributes` are set on the new class, where `compute` finds them as `self.…`.
    """
    made: Any = type(name, (codelet,), attributes)
    made.fields = {n: replace(f, dtype=dtypes.get(f.dtype, f.dtype)) for n, f in codelet.fields.items()}
    for field_name, field in made.fields.items():
        setattr(made, field_name, _FieldAccess(name, field))
    result: type[Vertex] = made
    return result
