"""Codelets by name, and what their vertices are said to cost.

A graph finds a vertex class under the name it was added with (`graph.add_codelets`), else among the
classes marked `@codelet`, which every graph knows. A template is added once and found with its
dtypes: "Scale<float>".
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
from typing import TYPE_CHECKING, Any, TypeVar

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
from ipu_teach.graph.layouts import ListLayout, is_whole
from ipu_teach.graph.templates import instance, placeholders, type_name
from ipu_teach.graph.vertex import VectorList, Vertex
from ipu_teach.graph.vertex_table import MOST_CYCLES, UNCONNECTED, VertexRef
from ipu_teach.types import ALL

if TYPE_CHECKING:
    from ipu_teach.target import Target

Codelet = TypeVar("Codelet", bound=type[Vertex])
Shapes = Mapping[str, tuple[Any, ...]]
# (the shape of every field, the target) -> modelled cycles.
Estimator = Callable[[Shapes, "Target"], int]

_marked: dict[str, type[Vertex]] = {}
_numbers = count()


def codelet(cls: Codelet) -> Codelet:
    """Mark a vertex class, so that every graph knows it by its name. A later class of the same name
    takes its place."""
    _marked[vertex_class(cls, "@codelet").__name__] = cls
    return cls


@dataclass(eq=False)
class Codelets:
    """The vertex classes of one graph by name, and the estimators registered for them."""

    named: dict[str, type[Vertex]] = field(default_factory=dict)
    estimators: dict[type[Vertex], Estimator] = field(default_factory=dict)

    def add(self, *sources: object) -> None:
        """Add vertex classes, or all that a module or a Python file defines. Nothing is added if
        anything is wrong."""
        found: dict[str, type[Vertex]] = {}
        for source in [
            s for given in sources for s in (given if isinstance(given, (list, tuple)) else [given])
        ]:
            for cls in _classes(source):
                name = cls.__name__
                if name in self.named or name in found:
                    raise GraphObjectLoadError(f"""There is already a codelet {name!r}.
                        where: add_codelets({shown(source)})
                        next:  give the class another name, or add it once.""")
                found[name] = cls
        self.named.update(found)

    def has(self, name: object) -> bool:
        """True if `find(name)` would find something."""
        return self._find(name) is not None

    def find(self, name: str) -> type[Vertex]:
        """The class under `name`. Raises `UnknownVertexTypeError`, which lists the names there
        are."""
        found = self._find(name)
        if found is None:
            known = sorted({*self.named, *_marked})
            raise UnknownVertexTypeError(
                f"There is no codelet {shown(name)}.",
                next_step=f"{did_you_mean(name, known)}"
                + (f"The codelets are {', '.join(map(repr, known))}; " if known else "")
                + "graph.add_codelets(…) adds one, and a class can be given itself.",
            )
        return found

    def _find(self, name: object) -> type[Vertex] | None:
        if not isinstance(name, str):
            return None
        found = self.named.get(name) or _marked.get(name)
        if found is None and name.endswith(">"):
            base, _, inside = name[:-1].partition("<")
            generic = self.named.get(base) or _marked.get(base)
            dtypes = [
                {type_name(t): t for t in ALL}.get(part.strip()) for part in inside.split(",")
            ]
            if (
                generic is not None
                and None not in dtypes
                and len(placeholders(generic)) == len(dtypes)
            ):
                return instance(generic, tuple(dtypes))
        return found

    def register(self, given: object, function: object) -> None:
        """Let `function(shapes, target)` give the cycles of a codelet's vertices."""
        cls = (
            self.find(given)
            if isinstance(given, str)
            else vertex_class(given, "register_perf_estimator()")
        )
        if not callable(function):
            raise GraphObjectCreationError(f"""register_perf_estimator() was given {shown(function)}
                for {cls.__name__}.
                next:  give a function of (shapes, target) that returns cycles.""")
        self.estimators[cls] = function


def vertex_class(given: object, call: str) -> type[Vertex]:
    """What `call` was given, if it is a vertex class. Raises `GraphObjectCreationError`."""
    if not isinstance(given, type) or not issubclass(given, Vertex):
        raise GraphObjectCreationError(f"""{call} was given {shown(given)}, which is no vertex
            class.
            next:  give a class that derives from Vertex.""")
    return given


def _classes(source: object) -> list[type[Vertex]]:
    """The vertex classes that `source` stands for."""
    if isinstance(source, (str, os.PathLike)):
        source = _load(Path(source))
    if not isinstance(source, ModuleType):
        return [vertex_class(source, "add_codelets()")]
    found = [
        c
        for c in vars(source).values()
        if isinstance(c, type)
        and issubclass(c, Vertex)
        and c.__module__ == source.__name__
        and c.compute is not Vertex.compute
    ]
    if not found:
        raise GraphObjectLoadError(f"""The module {source.__name__!r} defines no vertex class.
            where: {shown(getattr(source, "__file__", None) or source.__name__)}
            next:  write a class that derives from Vertex and has a compute() in it.""")
    return list(dict.fromkeys(found))


def _load(path: Path) -> ModuleType:
    """Run a Python file as a module of its own."""
    advice = "give the path of a Python file, a module, or vertex classes."
    others = path.suffix in (".cpp", ".hpp", ".gp", ".s", ".S")
    if others:
        advice = (
            "write the codelet in Python, as a class that derives from Vertex: "
            "docs/coming-from-poplar.md shows one twice."
        )
    found = others or path.is_file()
    if not found or path.suffix != ".py":
        said = f"{str(path)!r} is no Python file." if found else f"There is no file {str(path)!r}."
        raise FileLoadError(said, where="add_codelets()", next_step=advice)
    # A file may be loaded more than once: each time is a module of its own. Dataclasses and pickles
    # look it up by name.
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
            next_step="the file is run as a whole, once; run it by itself to see where it stops.",
        ) from error
    return module


# What a vertex is said to cost


def said_cycles(
    cls: type[Vertex], estimator: Estimator | None, shapes: Shapes, target: Target, who: str
) -> int | None:
    """The cycles that a registered estimator, else the class's own `cycles`, gives; None if there
    is neither.

    Raises `InvalidPerfEstimateError`, which names `who` (a vertex), if it fails or gives no whole
    number.
    """
    what = (
        f"The perf estimator of {cls.__name__}"
        if estimator is not None
        else f"{cls.__name__}.cycles()"
    )
    own: Any = getattr(cls, "cycles", None)
    if estimator is None and own is None:
        return None
    try:
        given = (
            estimator(dict(shapes), target)
            if estimator is not None
            else own(_hollow(cls, shapes, target), target)
        )
    except Exception as error:
        raise InvalidPerfEstimateError(
            f"{what} failed: {type(error).__name__}: {error}.",
            where=who,
            next_step="it knows shapes, and no values.",
        ) from error
    whole = is_whole(given)
    if not whole and isinstance(given, (float, np.floating)) and np.isfinite(given):
        given, whole = int(given), True
    if not whole or not 0 <= given <= MOST_CYCLES:
        raise InvalidPerfEstimateError(
            f"{what} returned {shown(given)}.",
            where=who,
            next_step=f"return a whole number from 0 to {MOST_CYCLES:,}.",
        )
    return int(given)


def _hollow(cls: type[Vertex], shapes: Shapes, target: Target) -> Vertex:
    """A vertex whose fields have these shapes and hold nothing, for `cycles(self, target)` to
    measure."""
    regions: dict[str, Any] = {}
    for name, declared in cls.fields.items():
        shape, zero = shapes[name], np.zeros((), declared.dtype.numpy)
        listed = bool(shape) and isinstance(shape[0], tuple)
        regions[name] = (
            VectorList(np.broadcast_to(zero, s) for s in shape)
            if listed
            else np.broadcast_to(zero, shape)
        )
    return cls.bind(regions, target.num_worker_contexts)


def get_perf_estimate(
    estimators: Mapping[type[Vertex], Estimator], target: Target, vertex: VertexRef
) -> int:
    """`Graph.get_perf_estimate`."""
    table, row = vertex.table, vertex.row
    if table.estimates is not None and row < len(table.estimates) and table.estimates[row] >= 0:
        return table.estimates[row]
    estimator = estimators.get(table.codelet)
    if estimator is None and not hasattr(table.codelet, "cycles"):
        raise MissingPerfEstimateError(f"""{table.codelet.__name__} has no estimate of its cycles.
            where: {vertex!r}
            next:  graph.set_perf_estimate(vertex, cycles), graph.register_perf_estimator(…), or
            `def cycles(self, target)` in the class. What is counted from compute() stands in the
            report.""")
    cycles = said_cycles(table.codelet, estimator, _shapes(vertex), target, repr(vertex))
    assert cycles is not None
    return cycles


def _shapes(vertex: VertexRef) -> dict[str, tuple[Any, ...]]:
    """The shapes of a vertex's regions. All of its fields must be connected."""
    from ipu_teach.graph.sizes import state_size

    table, row = vertex.table, vertex.row
    shapes: dict[str, tuple[Any, ...]] = {}
    for name, declared in table.codelet.fields.items():
        if name in table.state:
            shapes[name] = (state_size(table, row, name),) if declared.depth else ()
            continue
        number = table.layouts[name][row]
        if number == UNCONNECTED:
            raise MissingPerfEstimateError(f"""The cycles of {table.codelet.__name__} depend on its
                field {name!r}, which is not connected.
                where: {vertex!r}
                next:  connect it first.""")
        layout = table.graph.layouts[number]
        shape: Any = (
            tuple(p.shape for _, p in layout.parts)
            if isinstance(layout, ListLayout)
            else layout.shape
        )
        shapes[name] = shape if declared.depth else ()
    return shapes
