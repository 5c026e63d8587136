"""Codelets, which a graph finds by name, and the cycle estimates that programs give for them.

A graph looks up a name first among the vertex classes that were added to it (`graph.add_codelets`),
then among the classes marked `@codelet`, which every graph knows. A template is added once and is
looked up with its dtypes: "Scale<float>".
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from ipu_teach.errors import (
    FileLoadError,
    GraphObjectCreationError,
    GraphObjectLoadError,
    InvalidPerfEstimateError,
    MissingPerfEstimateError,
    ParseError,
    UnknownVertexTypeError,
    did_you_mean,
    shown,
)
from ipu_teach.graph.layouts import ListLayout, Shape, is_whole
from ipu_teach.graph.templates import instance, placeholders, type_name
from ipu_teach.graph.vertex import VectorList, Vertex
from ipu_teach.graph.vertex_table import MOST_CYCLES, UNCONNECTED, VertexRef
from ipu_teach.types import ALL, Array

if TYPE_CHECKING:
    from ipu_teach.target import Target

Codelet = TypeVar("Codelet", bound=type[Vertex])
# The shape of a region; for a list of vectors, a tuple with the shape of each vector.
RegionShape: TypeAlias = Shape | tuple[Shape, ...]
Shapes = Mapping[str, RegionShape]  # Maps each field's name to its shape.
# A function that takes the shapes and the target, and returns the modelled cycles.
Estimator = Callable[[Shapes, "Target"], int]

_marked: dict[str, type[Vertex]] = {}
_numbers = count()


def codelet(cls: Codelet) -> Codelet:
    """Mark a vertex class so that every graph finds it by its name.

    A later class of the same name replaces it. Returns `cls`.
    """
    _marked[vertex_class(cls, "@codelet").__name__] = cls
    return cls


@dataclass(eq=False)
class Codelets:
    """The vertex classes of one graph, keyed by name, and the estimators registered for them."""

    named: dict[str, type[Vertex]] = field(default_factory=dict)
    estimators: dict[type[Vertex], Estimator] = field(default_factory=dict)

    def add(self, *sources: object) -> None:
        """Add vertex classes, or all vertex classes that a module or a Python file defines.

        If any source is wrong, an error is raised and nothing is added.
        """
        classes: dict[str, type[Vertex]] = {}
        for source in [
            s
            for argument in sources
            for s in (argument if isinstance(argument, (list, tuple)) else [argument])
        ]:
            for cls in _classes(source):
                name = cls.__name__
                if name in self.named or name in classes:
                    raise GraphObjectLoadError(f"""There is already a codelet {name!r}.
                        where: add_codelets({shown(source)})
                        next:  give the class another name, or add it only once.""")
                classes[name] = cls
        self.named.update(classes)

    def has(self, name: str) -> bool:
        """Return whether `find(name)` would return a class."""
        return self._find(name) is not None

    def find(self, name: str) -> type[Vertex]:
        """Return the vertex class with the name `name`.

        Raises `UnknownVertexTypeError`, which lists the known names, if there is none.
        """
        codelet = self._find(name)
        if codelet is None:
            known = sorted({*self.named, *_marked})
            raise UnknownVertexTypeError(
                f"There is no codelet {shown(name)}.",
                next_step=f"{did_you_mean(name, known)}"
                + (f"The codelets are {', '.join(map(repr, known))}; " if known else "")
                + "add one with graph.add_codelets(…), or give the class itself.",
            )
        return codelet

    def _find(self, name: str) -> type[Vertex] | None:
        if not isinstance(name, str):
            return None
        codelet = self.named.get(name) or _marked.get(name)
        if codelet is None and name.endswith(">"):
            generic_name, _, dtype_names = name[:-1].partition("<")
            generic = self.named.get(generic_name) or _marked.get(generic_name)
            dtypes = [
                {type_name(dtype): dtype for dtype in ALL}.get(dtype_name.strip())
                for dtype_name in dtype_names.split(",")
            ]
            if (
                generic is not None
                and None not in dtypes
                and len(placeholders(generic)) == len(dtypes)
            ):
                return instance(generic, tuple(dtypes))
        return codelet

    def register(self, codelet: type[Vertex] | str, function: Estimator) -> None:
        """Register `function(shapes, target)`, which returns the cycles of a codelet's vertex."""
        cls = (
            self.find(codelet)
            if isinstance(codelet, str)
            else vertex_class(codelet, "register_perf_estimator()")
        )
        if not callable(function):
            raise GraphObjectCreationError(f"""register_perf_estimator() was given {shown(function)}
                for {cls.__name__}, which is not a function.
                next:  give a function of (shapes, target) that returns cycles.""")
        self.estimators[cls] = function


def vertex_class(codelet: object, call: str) -> type[Vertex]:
    """Return `codelet` if it is a vertex class.

    Otherwise raise `GraphObjectCreationError`, which names `call`.
    """
    if not isinstance(codelet, type) or not issubclass(codelet, Vertex):
        raise GraphObjectCreationError(f"""{call} was given {shown(codelet)}, which is not a vertex
            class.
            next:  give a class that derives from Vertex.""")
    return codelet


def _classes(source: object) -> list[type[Vertex]]:
    """Return the vertex classes in `source`: a path, a module, or a vertex class."""
    if isinstance(source, (str, os.PathLike)):
        source = _load(Path(source))
    if not isinstance(source, ModuleType):
        return [vertex_class(source, "add_codelets()")]
    classes = [
        c
        for c in vars(source).values()
        if isinstance(c, type)
        and issubclass(c, Vertex)
        and c.__module__ == source.__name__
        and c.compute is not Vertex.compute
    ]
    if not classes:
        raise GraphObjectLoadError(f"""The module {source.__name__!r} defines no vertex class.
            where: {shown(getattr(source, "__file__", None) or source.__name__)}
            next:  write a class that derives from Vertex and has a compute() in it.""")
    return list(dict.fromkeys(classes))


def _load(path: Path) -> ModuleType:
    """Run the Python file at `path` as a new module."""
    advice = "give the path of a Python file, a module, or vertex classes."
    others = path.suffix in (".cpp", ".hpp", ".gp", ".s", ".S")
    if others:
        advice = (
            "write the codelet in Python, as a class that derives from Vertex: "
            "docs/coming-from-poplar.md shows one twice."
        )
    is_known = others or path.is_file()
    if not is_known or path.suffix != ".py":
        message = (
            f"{str(path)!r} is not a Python file."
            if is_known
            else f"There is no file {str(path)!r}."
        )
        raise FileLoadError(message, where="add_codelets()", next_step=advice)
    # A file may be loaded more than once, each time as a separate module. Dataclasses and pickles
    # look the module up by its name.
    name = f"codelets_{next(_numbers)}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        del sys.modules[name]
        raise ParseError(
            f"{path.name!r} is not Python: {error.msg}.",
            where=f"line {error.lineno or 1}",
            next_step="correct the line.",
        ) from None
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise GraphObjectLoadError(
            f"{path.name!r} failed while it was loaded: {type(error).__name__}: {error}.",
            next_step="run the file by itself to see where it stops: add_codelets() runs all of it "
            "once.",
        ) from error
    return module


# Functions for the estimates of a vertex's cycles


def said_cycles(
    cls: type[Vertex], estimator: Estimator | None, shapes: Shapes, target: Target, who: str
) -> int | None:
    """Return the modelled cycles of a vertex, from its estimator or else its method `cycles`.

    A float is rounded down. Return None if the class has neither. Raises
    `InvalidPerfEstimateError`, which names the vertex as `who`, if the function fails or does not
    return a number from 0 to `MOST_CYCLES`.
    """
    description = (
        f"The perf estimator of {cls.__name__}"
        if estimator is not None
        else f"{cls.__name__}.cycles()"
    )
    method: Any = getattr(cls, "cycles", None)
    if estimator is None and method is None:
        return None
    try:
        stated = (
            estimator(dict(shapes), target)
            if estimator is not None
            else method(_hollow(cls, shapes, target), target)
        )
    except Exception as error:
        raise InvalidPerfEstimateError(
            f"{description} failed: {type(error).__name__}: {error}.",
            where=who,
            next_step="use shapes only: an estimator gets the shapes of the fields, not their "
            "values.",
        ) from error
    is_integer = is_whole(stated)
    if not is_integer and isinstance(stated, (float, np.floating)) and np.isfinite(stated):
        stated = int(stated)
        is_integer = True
    if not is_integer or not 0 <= stated <= MOST_CYCLES:
        raise InvalidPerfEstimateError(
            f"{description} returned {shown(stated)}.",
            where=who,
            next_step=f"return a whole number from 0 to {MOST_CYCLES:,}.",
        )
    return int(stated)


def _hollow(cls: type[Vertex], shapes: Shapes, target: Target) -> Vertex:
    """Return a vertex whose fields have `shapes` but no values, for `cycles(self, target)`."""
    regions: dict[str, Array | list[Array]] = {}
    for name, declared in cls.fields.items():
        shape: Any = shapes[name]
        zero = np.zeros((), declared.dtype.numpy)
        listed = bool(shape) and isinstance(shape[0], tuple)
        regions[name] = (
            VectorList(np.broadcast_to(zero, part_shape) for part_shape in shape)
            if listed
            else np.broadcast_to(zero, shape)
        )
    return cls.bind(regions, target.num_worker_contexts)


def get_perf_estimate(
    estimators: Mapping[type[Vertex], Estimator], target: Target, vertex: VertexRef
) -> int:
    """Return the modelled cycles of `vertex`, which a program gave or a function computes.

    The first of these sources counts: `set_perf_estimate`, the estimator registered for the
    codelet, and the codelet's own `cycles`. Raises `MissingPerfEstimateError` if the vertex has no
    such source.
    """
    table = vertex.table
    row = vertex.row
    if table.estimates is not None and row < len(table.estimates) and table.estimates[row] >= 0:
        return table.estimates[row]
    estimator = estimators.get(table.codelet)
    if estimator is None and not hasattr(table.codelet, "cycles"):
        raise MissingPerfEstimateError(f"""{table.codelet.__name__} has no estimate of its cycles.
            where: {vertex!r}
            next:  graph.set_perf_estimate(vertex, cycles), graph.register_perf_estimator(…), or
            `def cycles(self, target)` in the class. The report shows the cycles that are counted
            from compute().""")
    cycles = said_cycles(table.codelet, estimator, _shapes(vertex), target, repr(vertex))
    assert cycles is not None
    return cycles


def _shapes(vertex: VertexRef) -> dict[str, RegionShape]:
    """Return the shape of each field of a vertex.

    Raises `MissingPerfEstimateError` if a field is not connected.
    """
    from ipu_teach.graph.sizes import state_size

    table = vertex.table
    row = vertex.row
    shapes: dict[str, RegionShape] = {}
    for name, declared in table.codelet.fields.items():
        if name in table.state:
            shapes[name] = (state_size(table, row, name),) if declared.depth else ()
            continue
        layout_number = table.layouts[name][row]
        if layout_number == UNCONNECTED:
            raise MissingPerfEstimateError(f"""The cycles of {table.codelet.__name__} depend on its
                field {name!r}, which is not connected.
                where: {vertex!r}
                next:  connect it first.""")
        layout = table.graph.layouts[layout_number]
        shape: RegionShape = (
            tuple(part.shape for _, part in layout.parts)
            if isinstance(layout, ListLayout)
            else layout.shape
        )
        shapes[name] = shape if declared.depth else ()
    return shapes
