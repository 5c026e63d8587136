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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar, get_args, get_origin

import numpy as np

from ipu_teach.errors import CodeletError, UnknownFieldError, VertexDefinitionError
from ipu_teach.types import DType, poison

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
        if isinstance(region, list):
            for part, given in zip(region, value, strict=True):
                part[...] = given
        else:
            region[...] = value


class Vertex:
    """A piece of work for one worker. Subclass it, declare fields, and write `compute(self)`.

    `compute` reads Inputs, writes Outputs, and may use numpy or plain loops. It is given numpy arrays (Vector) and numpy
    numbers (a single element) of the declared dtypes. What it returns is ignored.
    A class may define `cycles(target, **shapes)` as a static method: the modelled worker cycles of one vertex, with the
    shape of each field given by name.
    """

    fields: ClassVar[dict[str, Field]] = {}
    # How the tile runs it: "worker" takes one of the six workers, "supervisor" the whole tile.
    context: ClassVar[str] = "worker"
    _regions: dict[str, Any]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        frame = sys._getframe(1)
        own = inspect.get_annotations(cls)
        cls.fields = dict(cls.fields)
        for name, annotation in own.items():
            if name.startswith("_") or name == "fields" or _is_class_var(annotation):
                continue
            if isinstance(annotation, str):
                annotation = _resolve(cls, name, annotation, frame.f_globals, frame.f_locals)
            field = _parse(cls, name, annotation, cls.__dict__.get(name))
            cls.fields[name] = field
            setattr(cls, name, _FieldAccess(cls.__name__, field))

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in type(self).fields and name != "_regions":
            raise CodeletError(
                f"{type(self).__name__}.compute() assigns to self.{name}, which is no declared field.",
                next_step=f"declare it as state in the class, as in `{name}: FLOAT`, or use a local variable.",
            )
        object.__setattr__(self, name, value)

    def compute(self) -> Any:
        raise VertexDefinitionError(
            f"{type(self).__name__} has no compute().", next_step="define `def compute(self):` in the class."
        )

    @classmethod
    def bind(cls, regions: Mapping[str, Any]) -> Vertex:
        """A vertex whose fields are `regions`: arrays to be read and written in place, one for each field."""
        vertex = cls.__new__(cls)
        object.__setattr__(vertex, "_regions", dict(regions))
        return vertex

    @classmethod
    def call(cls, **values: Any) -> Any:
        """Run one vertex on host values and return what it wrote.

        Inputs, InOuts and state take values of the field's shape. A Vector Output takes its size: `out=4`, or `out=(2, 3)`
        for a matrix; a single-element Output takes nothing. Returns the value of the only written field, or a dict by
        field name if there are several. Plain Python all the way: a breakpoint in `compute` stops here.
        """
        for name in values:
            if name not in cls.fields:
                raise unknown_field(cls, name)
        regions = {name: _call_region(cls, field, values) for name, field in cls.fields.items()}
        with np.errstate(all="ignore"):
            cls.bind(regions).compute()
        written = {n: regions[n] for n, f in cls.fields.items() if f.kind in ("output", "inout")}
        results = {n: r[()] if isinstance(r, np.ndarray) and r.ndim == 0 else r for n, r in written.items()}
        return next(iter(results.values())) if len(results) == 1 else results


def unknown_field(cls: type[Vertex], name: str) -> UnknownFieldError:
    """The error for a field that `cls` does not have."""
    from difflib import get_close_matches

    near = get_close_matches(name, cls.fields, 1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    listed = ", ".join(f"{f.name}: {f.declaration()}" for f in cls.fields.values()) or "none"
    return UnknownFieldError(f"{cls.__name__} has no field {name!r}.", next_step=f"{hint}Its fields are {listed}.")


def _is_class_var(annotation: Any) -> bool:
    return get_origin(annotation) is ClassVar or (isinstance(annotation, str) and annotation.lstrip().startswith(
        ("ClassVar", "typing.ClassVar")))  # fmt: skip


def _resolve(cls: type, name: str, text: str, module: Mapping[str, Any], local: Mapping[str, Any]) -> Any:
    """The annotation `text` evaluated where the class stands, so that local classes and string annotations work."""
    try:
        return eval(text, dict(module), dict(local))
    except Exception as error:
        raise VertexDefinitionError(
            f"{cls.__name__}.{name}: the annotation {text!r} cannot be read: {error}.",
            next_step="import the names that it uses before the class.",
        ) from None


def _parse(cls: type, name: str, annotation: Any, default: Any) -> Field:
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
        raise VertexDefinitionError(
            f"{cls.__name__}.{name} is declared as {annotation!r}, which is no field.",
            next_step="write Input[T], Output[T] or InOut[T], where T is a dtype such as FLOAT, Vector[FLOAT] or "
            "Vector[Vector[FLOAT]]; or a bare dtype for state.",
        )
    return Field(name, kind, inner, depth, default)


def _call_region(cls: type[Vertex], field: Field, values: Mapping[str, Any]) -> Any:
    """The host array that stands for one field in `Vertex.call`."""
    given = values.get(field.name, field.default)
    dtype = field.dtype.numpy
    if field.kind == "output":
        if field.depth == 0:
            return np.full((), poison(field.dtype), dtype)
        if given is None:
            size = "out=4" if field.depth == 1 else "out=(2, 3)"
            raise CodeletError(
                f"{cls.__name__}.call() needs the size of its Output {field.name!r}.",
                next_step=f"pass it by name, as in {size.replace('out', field.name)}.",
            )
        if isinstance(given, int) or (isinstance(given, tuple) and all(isinstance(n, int) for n in given)):
            return np.full(given, poison(field.dtype), dtype)
    if given is None:
        raise CodeletError(
            f"{cls.__name__}.call() was given no value for {field.name!r}.",
            next_step=f"pass {field.name}=…, declared as {field.declaration()}.",
        )
    if field.depth == 2 and isinstance(given, Sequence) and not isinstance(given, str):
        rows = [np.array(row, dtype) for row in given]
        region: Any = VectorList(rows) if len({row.shape for row in rows}) > 1 else np.array(given, dtype)
    else:
        region = np.array(given, dtype)
    shape_ok = isinstance(region, list) or region.ndim == field.depth
    if not shape_ok:
        raise CodeletError(
            f"{cls.__name__}.call(): {field.name!r} is declared as {field.declaration()} and was given shape {region.shape}.",
            next_step=f"give {('a single number', 'a one-dimensional array', 'a two-dimensional array')[field.depth]}.",
        )
    if field.kind == "input" and isinstance(region, np.ndarray):
        region.flags.writeable = False
    return region


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
