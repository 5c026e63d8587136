"""Vertices: the classes that a user writes, their fields, and the code that runs a single vertex.

    class DotProduct(Vertex):
        a: Input[Vector[FLOAT]]
        b: Input[Vector[FLOAT]]
        out: Output[FLOAT]

        def compute(self):
            self.out = self.a @ self.b

A field without Input, Output or InOut is plain state: a number, or a Vector of numbers, that
belongs to the vertex and keeps its value from run to run. Reading a Vector returns a numpy array,
and reading a single element returns a numpy number. Assigning to a field writes its region, like
`[...] =`. Other uses raise an error that tells the user what to write instead.

A list of vectors can be declared in three equivalent ways: `Input[Vector[Vector[FLOAT]]]`,
`Vector[Input[Vector[FLOAT]]]` and `Input[VectorList[FLOAT]]`. `Vector[Input[FLOAT]]` is a list of
single elements, which may be anywhere: connect a list of such elements, or a one-dimensional
tensor. `compute` gets a one-dimensional array.

A class whose fields name a TypeVar is a template, and `Scale[FLOAT]` is the vertex class made from
it:

    T = TypeVar("T")

    class Scale(Vertex, Generic[T]):
        x: InOut[Vector[T]]
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from types import FunctionType, GenericAlias
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, TypeVar, get_args, get_origin

import numpy as np
from numpy.typing import ArrayLike

from ipu_teach.errors import (
    CodeletError,
    TensorCreationError,
    UndeclaredNameError,
    UnknownFieldError,
    VertexDefinitionError,
    did_you_mean,
    shown,
)
from ipu_teach.graph.vector_layout import RegionLayout, VectorLayout
from ipu_teach.types import QUARTER, DType, poison, to_host_array
from ipu_teach.types.regions import FieldArrays, Sized, unsigned, without_size

T = TypeVar("T")
if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    L = TypeVarWithDefault("L", default=VectorLayout.SPAN)
else:
    L = TypeVar("L")


class _Region:
    # The methods are for type checkers only. At run time, each field of a vertex class is replaced
    # by a `_FieldAccess`.
    def __get__(self, vertex: object, owner: type) -> Any: ...
    def __set__(self, vertex: object, value: Any) -> None: ...


class Vector(_Region, Generic[T, L]):
    """Several elements, as in `Vector[FLOAT]`. A `Vector[Vector[FLOAT]]` is a matrix or a list.

    The vectors of a list may have different lengths. The second argument may be a layout, as in
    `Vector[FLOAT, VectorLayout.ONE_PTR]`.
    """

    if not TYPE_CHECKING:  # At run time, Vector accepts one or two arguments.
        __class_getitem__ = classmethod(GenericAlias)


class _Edge(_Region, Generic[T]):
    pass


class Input(_Edge[T]):
    """A region that the vertex reads, such as `Input[FLOAT]` or `Input[Vector[FLOAT]]`.

    `Input[Vector[Vector[FLOAT]]]` is a matrix or a list of vectors.
    """


class Output(_Edge[T]):
    """A region that the vertex writes. Elements that it does not write keep their values."""


class InOut(_Edge[T]):
    """A region that the vertex reads and writes."""


class VectorList(Sized, list[Any], Generic[T, L]):
    """The regions of a field that is a list of vectors. Assigning to an item writes its region.

    In a declaration, write `Input[VectorList[FLOAT]]` or `Input[VectorList[FLOAT,
    VectorLayout.DELTAN]]`.
    """

    if not TYPE_CHECKING:
        __class_getitem__ = classmethod(GenericAlias)

    def __setitem__(self, index: Any, value: object) -> None:
        if value is not self[index]:
            self[index][...] = value


_KINDS = {Input: "input", Output: "output", InOut: "inout"}
# The names that the kit uses. No field may have such a name.
_RESERVED = frozenset(("bind", "call", "compute", "context", "cycles", "debug_context", "fields"))
MOST_ELEMENTS = 2**28  # The maximum number of elements of an Output of `Vertex.call`.
# The number of workers on the tile of a vertex without a graph. Every IPU has six
# (Target.num_worker_contexts).
WORKERS = 6


@dataclass(frozen=True)
class Field:
    """A declared field of a vertex class.

    `kind` is "input", "output", "inout" or "state". `depth` is 0 for a number, 1 for a Vector and 2
    for a matrix or a list of vectors. `form` is "edges" for Vector[Input[…]], "list" for a
    VectorList, and empty otherwise. `layouts` is empty if no layout was declared. Otherwise, it
    contains the layout of each Vector, outermost first, and None for a Vector without a layout. In
    a template, `dtype` may be a TypeVar.
    """

    name: str
    kind: str
    dtype: type[DType]
    depth: int
    default: ArrayLike | None = None
    form: str = ""
    layouts: tuple[type[RegionLayout] | None, ...] = ()

    @property
    def written(self) -> bool:
        return self.kind != "input"

    @property
    def takes_parts(self) -> bool:
        """Whether the field is an edge that can be connected to a list of tensors."""
        return self.depth == 2 or self.form == "edges"

    def declaration(self) -> str:
        """Return the declaration of the field as source text."""
        edge = {"state": "", "inout": "InOut"}.get(self.kind, self.kind.capitalize())
        layouts = [
            f", VectorLayout.{vector_layout.__name__}" if vector_layout else ""
            for vector_layout in self.layouts
        ] or [""] * self.depth
        text = self.dtype.__name__
        if self.form == "list":
            return f"{edge}[VectorList[{text}{layouts[0]}]]"
        for level in reversed(range(self.depth)):
            if self.form == "edges" and level == 0:
                text = f"{edge}[{text}]"
                edge = ""
            text = f"Vector[{text}{layouts[level]}]"
        return f"{edge}[{text}]" if edge else text


class _FieldAccess:
    """The descriptor of a declared field: reads and writes the region of the running vertex."""

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
            raise CodeletError(f"""{self.owner}.compute() reads its Output {self.field.name!r}.
                next:  an Output is only written. For +=, declare {self.field.name}:
                InOut[{self.field.dtype.__name__}], or add up in a local variable and assign
                once.""")
        return region[()]

    def __set__(self, vertex: Vertex, value: Any) -> None:
        field = self.field
        region = vertex._regions[field.name]
        if field.kind == "input":
            raise CodeletError(f"""{self.owner}.compute() assigns to its Input {field.name!r}.
                next:  an Input is only read; declare {field.name}:
                {field.declaration().replace("Input", "InOut", 1)} to change it.""")
        if value is region:
            if field.kind == "output":
                raise CodeletError(f"""{self.owner}.compute() changes its Output {field.name!r} in
                    place.
                    next:  an Output is only written. For +=, declare {field.name}:
                    {field.declaration().replace("Output", "InOut", 1)}.""")
            return
        try:
            if isinstance(region, list):
                for part, part_value in zip(region, value, strict=True):
                    part[...] = part_value
            else:
                region[...] = value
        except (ValueError, TypeError):
            if isinstance(value, (float, np.floating)) and not isinstance(region, list):
                raise  # The shape is right: the value is NaN, which is not an integer.
            raise CodeletError(f"""{self.owner}.compute() assigns to
                {field.name!r} a value that does not fit: {_misfit(field, region, value)}.
                next:  assign one number, or as many as the field has.""") from None


class Vertex:
    """A piece of work for one worker. Subclass it, declare fields, and write `compute(self)`.

    `compute` reads Inputs and writes Outputs, with numpy or plain loops. A Vector is a numpy array,
    and a single element is a numpy number, in the declared dtypes. The return value of `compute` is
    used only by the `out` of `Execute`.

    A class may define `cycles(self, target)`, which returns the modelled worker cycles of one
    vertex. In `cycles`, the fields have shapes, such as `self.a.shape`, but no values.
    """

    fields: ClassVar[dict[str, Field]] = {}
    # The way in which a tile runs the vertex: "worker" on one of the six workers, "supervisor" on
    # the whole tile, "multi" on all six workers.
    context: ClassVar[str] = "worker"
    _regions: dict[str, Any]
    _num_workers: int
    _instances: ClassVar[dict[tuple[type[DType], ...], type[Vertex]]]

    if not TYPE_CHECKING:  # Type checkers use Generic instead of this method.

        def __class_getitem__(cls, dtypes: object) -> type[Vertex]:
            from ipu_teach.graph.templates import instance

            return instance(cls, dtypes if isinstance(dtypes, tuple) else (dtypes,))

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        frame = sys._getframe(1)
        annotations = inspect.get_annotations(cls)
        # Take from each base only the fields that the base declares itself: another base may
        # redeclare a field that this base merely inherits.
        inherited_fields = {
            name: field
            for base in reversed(cls.__mro__[1:])
            for name, field in base.__dict__.get("fields", {}).items()
            if name in base.__dict__
        }
        cls.fields = dict(inherited_fields)
        for name in ("compute", "cycles"):
            method = getattr(cls, name, cls)
            if (
                not callable(method)
                or inspect.isgeneratorfunction(method)
                or inspect.iscoroutinefunction(method)
            ):
                raise VertexDefinitionError(f"""{cls.__name__}.{name} is not a plain method.
                    next:  write `def {name}(self{", target" if name == "cycles" else ""}):`,
                    without yield and async.""")
        _check_arguments(cls)
        cls._instances = {}
        for name, annotation in annotations.items():
            if _is_class_var(annotation):
                continue
            if isinstance(annotation, str) and not name.startswith("_"):
                annotation = _resolve(cls, name, annotation, frame.f_globals, frame.f_locals)
            _check_name(cls, name, annotation)
            if not name.startswith("_"):
                cls._declare(_parse(cls, name, annotation, cls.__dict__.get(name)))
        for name in sorted(inherited_fields.keys() & cls.__dict__.keys() - annotations.keys()):
            cls._declare(
                _checked_default(cls, replace(inherited_fields[name], default=cls.__dict__[name]))
            )

    @classmethod
    def _declare(cls, field: Field) -> None:
        cls.fields[field.name] = field
        setattr(cls, field.name, _FieldAccess(cls.__name__, field))

    def __init__(self, *args: object, **values: object) -> None:
        raise VertexDefinitionError(f"""{type(self).__name__}() was called, but only a graph
            makes vertices.
            next:  graph.add_vertex(compute_set, {type(self).__name__}, …). To try the class:
            {type(self).__name__}.call(…).""")

    # Type checkers must report undeclared names, so the method is hidden from them.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("__"):
                raise AttributeError(name)
            raise UndeclaredNameError(f"""{type(self).__name__}.compute() reads self.{name}, which
                is not a declared field.
                next:  {did_you_mean(name, type(self).fields)}Its fields are
                {_listed(type(self))}.""")

    def __setattr__(self, name: str, value: object) -> None:
        if name not in type(self).fields:
            raise UndeclaredNameError(f"""{type(self).__name__}.compute() assigns to self.{name},
                which is not a declared field.
                next:  {did_you_mean(name, type(self).fields)}Use a local variable, or declare it as
                state in the class.""")
        object.__setattr__(self, name, value)

    def compute(self, *args: Any, **kwargs: Any) -> Any:
        raise no_compute(type(self))

    @classmethod
    def bind(cls, regions: Mapping[str, Any], num_workers: int = WORKERS) -> Vertex:
        """Return a vertex whose fields are `regions`: arrays that it reads and writes in place."""
        vertex = cls.__new__(cls)
        bound = dict(regions)
        for name, field in cls.fields.items():
            if field.written and field.dtype.numpy.kind == "u":
                bound[name] = unsigned(bound[name])
            if VectorLayout.ONE_PTR in field.layouts[:1]:
                bound[name] = without_size(bound[name], f"{cls.__name__}.{name}")
        object.__setattr__(vertex, "_regions", bound)
        object.__setattr__(vertex, "_num_workers", num_workers)
        return vertex

    @classmethod
    def call(cls, /, **values: Any) -> Any:
        """Run one vertex on host values, and return the values that it wrote.

        Inputs, InOuts and state take values of the field's shape. For a Vector Output, pass the
        size: `out=4`, or `out=(2, 3)` for a matrix and `out=[2, 3]` for a list of vectors. An
        Output of one element takes no argument. If the vertex has only one edge that it writes, the
        result is the value of this edge. Otherwise, the result is a dict with field names as keys.
        `compute` runs as plain Python, so a breakpoint in it works. Raises `CodeletError`,
        `UnknownFieldError` and `VertexDefinitionError`.
        """
        return run_on(cls, regions_of(cls, values))


def regions_of(cls: type[Vertex], values: Mapping[str, Any]) -> dict[str, FieldArrays]:
    """Return arrays for the fields of one vertex, from the arguments of `Vertex.call`.

    Raises the errors of `Vertex.call`.
    """
    if cls.compute is Vertex.compute:
        raise no_compute(cls)
    if is_template(cls):
        from ipu_teach.graph.templates import open_template

        raise open_template(cls)
    for name in values:
        if name not in cls.fields:
            raise unknown_field(cls, name)
    return {name: _call_region(cls, field, values) for name, field in cls.fields.items()}


def run_on(cls: type[Vertex], regions: Mapping[str, FieldArrays]) -> Any:
    """Run one vertex on host arrays, and return the values that it wrote.

    If the vertex has only one edge that it writes, the result is the value of this edge. Otherwise,
    the result is a dict with field names as keys.
    """
    with np.errstate(all="ignore"):
        vertex = cls.bind(regions)
        for worker in workers(cls):
            vertex.compute(*worker)
    written = {n: regions[n] for n, f in cls.fields.items() if f.kind in ("output", "inout")}
    results = {
        n: r[()] if isinstance(r, np.ndarray) and r.ndim == 0 else r for n, r in written.items()
    }
    return next(iter(results.values())) if len(results) == 1 else results


def unknown_field(cls: type[Vertex], name: str) -> UnknownFieldError:
    """Return the error for a field `name` that `cls` does not have."""
    return UnknownFieldError(f"""{cls.__name__} has no field {shown(name)}.
        next:  {did_you_mean(name, cls.fields)}Its fields are {_listed(cls)}.""")


def no_compute(cls: type[Vertex]) -> VertexDefinitionError:
    """Return the error for a vertex class without compute()."""
    return VertexDefinitionError(
        f"{cls.__name__} has no compute().", next_step="define `def compute(self):` in the class."
    )


def is_template(cls: type[Vertex]) -> bool:
    """Return whether the dtype of any field is a TypeVar."""
    return any(isinstance(field.dtype, TypeVar) for field in cls.fields.values())


def _listed(cls: type[Vertex]) -> str:
    return ", ".join(f"{f.name}: {f.declaration()}" for f in cls.fields.values()) or "none"


def _misfit(field: Field, region: FieldArrays, value: Any) -> str:
    """Return a string that explains why `value` cannot be written into `region`."""
    if isinstance(region, list):
        return f"the field is a list of {len(region)} vectors; the value is {shown(value)}"
    try:
        shape = value.shape if hasattr(value, "shape") else np.shape(value)
    except ValueError:  # The value has rows of different lengths.
        shape = ()
    if shape == ():
        return (
            f"the field has shape {region.shape} of {field.dtype.__name__}, the value is "
            f"{shown(value)}"
        )
    return f"the field has shape {region.shape}, the value {shape}"


def _check_arguments(cls: type[Vertex]) -> None:
    """Raise `VertexDefinitionError` if compute() has wrong parameters for its kind of vertex."""
    method = cls.__dict__.get("compute")
    parameters = "self, worker_id" if cls.context == "multi" else "self"
    if isinstance(method, FunctionType):
        try:
            inspect.signature(method).bind(*parameters.split(", "))
        except TypeError:
            raise VertexDefinitionError(
                f"{cls.__name__}.compute{inspect.signature(method)} cannot be called: a "
                f"{'MultiVertex' if cls.context == 'multi' else 'vertex'} calls "
                f"compute({parameters}).",
                next_step=f"write `def compute({parameters}):`"
                + (", or derive from MultiVertex." if cls.context == "worker" else "."),
            ) from None


def _is_class_var(annotation: object) -> bool:
    return get_origin(annotation) is ClassVar or (
        isinstance(annotation, str)
        and annotation.lstrip().startswith(("ClassVar", "typing.ClassVar"))
    )


def _resolve(
    cls: type, name: str, text: str, module: Mapping[str, object], local: Mapping[str, object]
) -> object:
    """Return the value of the annotation `text`, evaluated in the scope of the class.

    Local classes and annotations in quotes are resolved, too. Raises `VertexDefinitionError`.
    """
    annotation: object = text
    try:
        while isinstance(annotation, str):
            annotation = eval(annotation, dict(module), dict(local))
        return annotation
    except Exception as error:
        raise VertexDefinitionError(
            f"{cls.__name__}.{name}: the annotation {text!r} cannot be read: {error}.",
            next_step="import the names that it uses before the class.",
        ) from None


def _check_name(cls: type[Vertex], name: str, annotation: object) -> None:
    """Raise `VertexDefinitionError` for a field name that the kit uses or that begins with "_"."""
    if name in _RESERVED or (name == "num_workers" and cls.context == "multi"):
        raise VertexDefinitionError(f"""{cls.__name__} declares a field {name!r}, but
            the kit uses this name itself.
            next:  choose another name.""")
    text = annotation if isinstance(annotation, str) else ""
    is_field = (
        get_origin(annotation) in (*_KINDS, Vector)
        or isinstance(annotation, type)
        and issubclass(annotation, DType)
    )
    if name.startswith("_") and (is_field or text.startswith(("Input[", "Output[", "InOut["))):
        raise VertexDefinitionError(
            f"{cls.__name__} declares a field {name!r}, whose name begins with an underscore.",
            next_step="let its name start with a letter.",
        )


def _parse(cls: type[Vertex], name: str, annotation: Any, default: ArrayLike | None) -> Field:
    """Return the field that `annotation` declares, with its default value.

    Raises `VertexDefinitionError`.
    """
    layouts: list[type[RegionLayout] | None] = []
    kind = "state"
    declared_type = annotation
    form = ""
    is_valid = True
    while get_origin(declared_type) in (*_KINDS, Vector, VectorList) and is_valid:
        origin, (declared_type, *layout) = get_origin(declared_type), get_args(declared_type)
        if origin in _KINDS:
            is_valid = kind == "state" and len(layouts) < 2
            kind = _KINDS[origin]
            form = "edges" if layouts else ""
            continue
        is_valid = len(layout) < 2 and all(
            isinstance(layout_argument, type) and issubclass(layout_argument, RegionLayout)
            for layout_argument in layout
        )
        layouts.append(layout[0] if layout else None)
        if origin is VectorList:
            is_valid = is_valid and kind != "state" and len(layouts) == 1 and not form
            form = "list"
            layouts.append(None)
    depth = len(layouts)
    is_dtype = (
        isinstance(declared_type, type)
        and issubclass(declared_type, DType)
        and declared_type is not DType
    )
    if (
        not (is_dtype or isinstance(declared_type, TypeVar))
        or not is_valid
        or depth > (1 if kind == "state" else 2)
    ):
        text = str(annotation) if get_origin(annotation) else shown(annotation)
        for module in (
            "ipu_teach.graph.vertex.",
            "ipu_teach.graph.vector_layout.",
            "ipu_teach.types.dtypes.",
        ):
            text = text.replace(module, "")
        raise VertexDefinitionError(f"""{cls.__name__}.{name} is declared as {text}, which is not a
            field.
            next:  write Input[T], Output[T] or InOut[T], where T is a dtype such as FLOAT,
            Vector[FLOAT] or Vector[Vector[FLOAT]]; or a bare dtype, or Vector[FLOAT], for
            state.""")
    _refuse_quarter(f"{cls.__name__}.{name}", declared_type)
    layout_marks = tuple(layouts) if any(layouts) else ()
    return _checked_default(
        cls,
        Field(
            name, kind, declared_type, depth=depth, default=default, form=form, layouts=layout_marks
        ),
    )


def _refuse_quarter(field: str, dtype: type | TypeVar | None) -> None:
    """Raise `VertexDefinitionError` for a field of 8-bit floats, which codelets cannot compute."""
    if isinstance(dtype, type) and issubclass(dtype, QUARTER):
        raise VertexDefinitionError(f"""{field} is a field of {dtype}, and codelets do not compute
            with 8-bit floats.
            next:  convert with popops.cast, and declare HALF or FLOAT; to work on their bits,
            declare UNSIGNED_CHAR and connect tensor.reinterpret(UNSIGNED_CHAR).""")


def _checked_default(cls: type[Vertex], field: Field) -> Field:
    """Return `field` if its default value fits its dtype, and raise an error otherwise."""
    if field.default is None or isinstance(field.dtype, TypeVar):
        return field
    subject = f"{cls.__name__}.{field.name}"
    if field.kind != "state":
        raise VertexDefinitionError(f"""{subject} is declared as {field.declaration()} and set to
            {shown(field.default)}, but only state has a default.
            next:  connect a tensor that holds the value.""")
    try:
        array = to_host_array(field.default, field.dtype, subject)
    except TensorCreationError as error:
        raise VertexDefinitionError(error.tried, next_step=error.next_step) from None
    if field.depth and array.ndim != 1:
        raise VertexDefinitionError(f"""{subject} is set to {shown(field.default)}, but is declared
            as {field.declaration()}.
            next:  give a list of numbers.""")
    if not field.depth and array.size != 1:
        raise VertexDefinitionError(f"""{subject} is set to {shown(field.default)}, but its
            declaration is for a single number.
            next:  give one number; for several, declare Vector[{field.dtype.__name__}].""")
    return field


_RANKS = (
    "a single number",
    "a one-dimensional array",
    "a two-dimensional array, or a list of one-dimensional ones",
)


def _call_region(cls: type[Vertex], field: Field, values: Mapping[str, Any]) -> FieldArrays:
    """Return the host array for one field in `Vertex.call`."""
    value = values.get(field.name, field.default)
    if field.kind == "output" and (field.depth == 0 or value is None or _is_size(value)):
        return _call_output(cls, field, value)
    if value is None:
        raise CodeletError(f"""{cls.__name__}.call() was given no value for {field.name!r}.
            next:  pass {field.name}=…, declared as {field.declaration()}.""")
    subject = f"{cls.__name__}.call(), {field.name}"
    try:
        if field.depth == 2 and isinstance(value, (list, tuple)):
            rows = [to_host_array(row, field.dtype, subject) for row in value]
            is_uneven = len({row.shape for row in rows}) > 1 and all(row.ndim == 1 for row in rows)
            region: FieldArrays = (
                VectorList(rows) if is_uneven else to_host_array(value, field.dtype, subject)
            )
        else:
            region = to_host_array(value, field.dtype, subject)
    except TensorCreationError as error:
        raise CodeletError(error.tried, next_step=error.next_step) from None
    if isinstance(region, np.ndarray) and region.ndim != field.depth:
        raise CodeletError(f"""{cls.__name__}.call(): {field.name!r} is declared as
            {field.declaration()}, but was given shape {region.shape}.
            next:  give {_RANKS[field.depth]}.""")
    if field.kind == "input":
        for part_array in region if isinstance(region, list) else [region]:
            part_array.flags.writeable = False
    return region


def _is_size(value: ArrayLike) -> bool:
    """Return whether `call` accepts `value` as the size of an Output: an int, a list or a tuple."""
    return all(
        isinstance(n, (int, np.integer))
        for n in (value if isinstance(value, (list, tuple)) else [value])
    )


def _call_output(cls: type[Vertex], field: Field, value: int | Sequence[int] | None) -> FieldArrays:
    """Return an unwritten region for an Output in `Vertex.call`.

    `value` is the size of the Output that was passed to `call`.
    """
    subject = f"{cls.__name__}.call()"
    if field.depth == 0:
        if value is not None:
            raise CodeletError(f"""{subject} was given {shown(value)} for its Output {field.name!r}.
                next:  a single-element Output takes nothing; leave {field.name}=… out.""")
        return np.full((), poison(field.dtype), field.dtype.numpy)
    example_size = "4" if field.depth == 1 else "(2, 3), or [2, 3] for a list of vectors"
    advice = f"pass it by name, as in {field.name}={example_size}."
    if value is None:
        raise CodeletError(
            f"{subject} needs the size of its Output {field.name!r}.", next_step=advice
        )
    lengths = [value] if isinstance(value, (int, np.integer)) else list(value)
    is_list = field.depth == 2 and isinstance(value, list)
    fits = is_list or len(lengths) == field.depth
    if (
        not fits
        or any(length < 0 or isinstance(length, bool) for length in lengths)
        or prod(lengths) > MOST_ELEMENTS
    ):
        raise CodeletError(
            f"{subject} was given the size {shown(value)} for its Output {field.name!r}.",
            next_step=advice,
        )
    arrays = [
        np.full(length, poison(field.dtype), field.dtype.numpy)
        for length in (lengths if is_list else [tuple(lengths)])
    ]
    return VectorList(arrays) if is_list else arrays[0]


class SupervisorVertex(Vertex):
    """A vertex that controls the whole tile and starts the workers. Its cycles are tile cycles."""

    context = "supervisor"


class MultiVertex(Vertex):
    """A vertex that all workers of its tile run together: `compute(self, worker_id)`.

    Worker ids begin at 0. compute() divides the work by `worker_id` and `self.num_workers`. Workers
    run in no particular order, so no worker may depend on elements that another worker writes. If
    one worker writes an element that another worker reads or writes, there is a race. A race is an
    error, provided that the kit can trace compute() or translate it to a loop; otherwise, the
    worker with the highest id writes last. The vertex's modelled cycles are tile cycles: the cycles
    of the slowest worker times the number of workers, plus the cycles of the supervisor that starts
    the workers.
    """

    context = "multi"

    @property
    def num_workers(self) -> int:
        """The number of workers of the tile on which this vertex runs."""
        return self._num_workers


def workers(codelet: type[Vertex], num_workers: int = WORKERS) -> list[tuple[int, ...]]:
    """Return the arguments of each call of compute() in one run of a vertex.

    A MultiVertex is called once per worker, with the worker's id. Any other vertex is called once,
    without arguments.
    """
    return [(number,) for number in range(num_workers)] if codelet.context == "multi" else [()]


def template(
    codelet: type[Vertex],
    name: str,
    dtypes: Mapping[Any, type[DType]],
    **attributes: object,
) -> type[Vertex]:
    """Return a copy of `codelet` in which the dtypes of fields are replaced by `dtypes`.

    `dtypes` maps a TypeVar or a dtype to the new dtype. `attributes` are set on the new class, and
    `compute` reads them as attributes of `self`.
    """
    for field in codelet.fields.values():
        _refuse_quarter(f"{name}.{field.name}", dtypes.get(field.dtype))
    specialised: type[Vertex] = type(name, (codelet,), attributes)
    # This class is no template, so it needs no cache of instances. Without the cache, its
    # attributes are only the constants that distinguish it from other copies of `codelet`.
    del specialised._instances
    changed = {
        copied_name: replace(copied_field, dtype=dtypes.get(copied_field.dtype, copied_field.dtype))
        for copied_name, copied_field in codelet.fields.items()
    }
    specialised.fields = {
        copied_name: _checked_default(specialised, copied_field)
        for copied_name, copied_field in changed.items()
    }
    for field_name, field in specialised.fields.items():
        setattr(specialised, field_name, _FieldAccess(name, field))
    return specialised
