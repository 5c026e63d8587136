"""Describe the vertex classes of a saved executable, and find these classes when it is loaded.

Python code is never stored. The description of a class has its module, its name, its fields, and a
hash. The hash shows whether the class has changed. It is computed from the source text of the
methods and from those constants of the class that are plain values.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Iterable, Iterator
from textwrap import dedent
from types import FunctionType
from typing import TypeAlias, TypeGuard

import numpy as np

from ipu_teach.errors import ExecutableLoadError, shown
from ipu_teach.graph.vertex import SupervisorVertex, Vertex, template
from ipu_teach.saving.schema import TEXT, HeaderValue, Json, many, pair, whole
from ipu_teach.types import ALL, DType, dtype_named

# The value of a plain constant of a vertex class.
Constant: TypeAlias = bool | int | float | str | np.ufunc | type[DType] | None
DTYPES = {dtype.__name__: dtype for dtype in ALL}
# The codec of a list of fields. Each field is (name, kind, dtype, depth).
FIELDS = many(pair(TEXT, TEXT, TEXT, whole(most=2)))


def described(codelet: type[Vertex]) -> dict[str, Json]:
    """Return the description of a vertex class, in the form in which a file stores it."""
    description: dict[str, Json] = {
        "module": codelet.__module__,
        "name": codelet.__qualname__,
        "context": codelet.context,
        "fields": _fields(codelet),
        "hash": _fingerprint(codelet),
    }
    template_base = _made_from(codelet)
    if template_base is not None:
        constants = {name: _encoded(value) for name, value in _constants(codelet)}
        description["base"] = {
            "module": template_base.__module__,
            "name": template_base.__qualname__,
            "constants": constants,
        }
    return description


def resolve(stored: HeaderValue, codelets: Iterable[type[Vertex]]) -> type[Vertex]:
    """Return the vertex class that `stored` describes.

    The class is searched for by name, first in `codelets`, then among all classes that this process
    has defined. If neither contains it, and `template` derived the saved class from a base class,
    then it is derived from that base class again.

    :raises ExecutableLoadError: if no class matches, or if classes of several modules match.
    """
    name = TEXT.read(stored["name"])
    module = TEXT.read(stored["module"])
    supplied_classes = _named(name, codelets)
    defined_classes = _named(name, _every(Vertex))
    if not supplied_classes and not defined_classes and "base" in stored.value:
        derived = _remade(stored, codelets)
        supplied_classes = [derived] if derived is not None else []
    candidates = supplied_classes or defined_classes
    if not candidates:
        raise ExecutableLoadError(f"""The executable uses the codelet {name}, but this process has
            not defined it.
            where: the executable was saved with {name} of module {module}
            next:  {"define it" if module == "__main__" else f"import {module}"}, or pass it:
            Executable.load(path, codelets=[…]).""")
    classes_and_misfits = [(candidate, _misfit(candidate, stored)) for candidate in candidates]
    matching = [candidate for candidate, misfit in classes_and_misfits if not misfit]
    if not matching:
        raise ExecutableLoadError(f"""The codelet {name} has changed since the executable was
            saved.
            where: {classes_and_misfits[-1][1]}
            next:  load it with the code that saved it, or compile the graph again.""")
    if len({candidate.__module__ for candidate in matching}) > 1:
        modules = ", ".join(sorted({candidate.__module__ for candidate in matching}))
        raise ExecutableLoadError(f"""Several codelets named {name} match the executable.
            where: modules {modules}
            next:  pass the right one: Executable.load(path, codelets=[…]).""")
    # Several matching classes of one module are the result of a notebook cell that ran several
    # times. The last class is the newest.
    return matching[-1]


def _named(name: str, classes: Iterable[type[Vertex]]) -> list[type[Vertex]]:
    return [c for c in dict.fromkeys(classes) if c.__qualname__ == name]


def _every(base: type[Vertex]) -> Iterator[type[Vertex]]:
    """Yield the subclasses of `base` at all levels, each before its own subclasses."""
    for child in base.__subclasses__():
        yield child
        yield from _every(child)


def _misfit(codelet: type[Vertex], stored: HeaderValue) -> str:
    """Return how a class differs from its saved description, or "" if it does not differ.

    `stored` is the description in the file. The result is a clause, such as "the text of its
    methods has changed".
    """
    fields_now, fields_saved = (
        {field[0]: field for field in fields}
        for fields in (_fields(codelet), FIELDS.read(stored["fields"]))
    )
    for name in [*fields_saved, *fields_now]:
        if fields_now.get(name) != fields_saved.get(name):
            return (
                f"its field {name!r} was {_field_text(fields_saved.get(name))} and is "
                f"{_field_text(fields_now.get(name))}"
            )
    saved_context = TEXT.read(stored["context"])
    if codelet.context != saved_context:
        return f"it ran as a {saved_context} and runs as a {codelet.context}"
    saved_hash = stored["hash"].value
    current_hash = _fingerprint(codelet)
    if saved_hash is not None and current_hash is not None and saved_hash != current_hash:
        return "the text of its methods has changed"
    return ""


def _fields(codelet: type[Vertex]) -> list[tuple[str, str, str, int]]:
    return [
        (field.name, field.kind, field.dtype.__name__, field.depth)
        for field in codelet.fields.values()
    ]


def _field_text(field: tuple[str, str, str, int] | None) -> str:
    if field is None:
        return "not there"
    _, kind, dtype, depth = field
    return f"{kind} {'Vector[' * depth}{dtype}{']' * depth}"


def _fingerprint(codelet: type[Vertex]) -> str | None:
    """Return a hash of the methods and plain constants of a class and its base classes.

    The hash is computed from the source text of the methods. The result is None if the source text
    of a method is unknown.
    """
    texts: dict[str, str] = {}
    for owner in reversed(codelet.__mro__):
        if owner in (object, Vertex, SupervisorVertex):
            continue
        for name, value in _constants(owner):
            texts[name] = json.dumps(_encoded(value), sort_keys=True)
        for name, value in vars(owner).items():
            function = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
            if isinstance(function, FunctionType):
                try:
                    lines = dedent(inspect.getsource(function)).splitlines()
                # The source text is not available, for example if `exec` defined the class.
                except (OSError, TypeError, IndentationError):
                    return None
                texts[name] = "\n".join(line.rstrip() for line in lines if line.strip())
    return hashlib.sha256(json.dumps(texts, sort_keys=True).encode()).hexdigest()


# The functions below are for classes that `graph.vertex.template` has derived from a base class.


def _made_from(codelet: type[Vertex]) -> type[Vertex] | None:
    """Return the base class from which `template` derived a class, or None.

    The result is None if `template` did not derive the class. It is also None if the class has
    changed since then, because `template` could not derive the changed class again.
    """
    base = codelet.__bases__[0]
    if not issubclass(base, Vertex):
        return None
    attributes = {name: value for name, value in vars(codelet).items() if not name.startswith("__")}
    constants = dict(_constants(codelet))
    other_names = attributes.keys() - constants.keys() - codelet.fields.keys() - {"fields"}
    is_copy = not other_names and bool(codelet.fields) and "__annotations__" not in vars(codelet)
    return base if is_copy and base.fields.keys() == codelet.fields.keys() else None


def _remade(stored: HeaderValue, codelets: Iterable[type[Vertex]]) -> type[Vertex] | None:
    """Derive a class from its base class again with `template`; return None if this is impossible.

    `stored` is the saved description of the class, which contains the name of the base. The base is
    one of `codelets`, or a class that this process has defined.

    :raises ExecutableLoadError: if there is no such base.
    """
    base = stored["base"]
    name, base_name, module = (
        TEXT.read(text) for text in (stored["name"], base["name"], base["module"])
    )
    candidates = [
        candidate
        for candidate in _named(base_name, [*codelets, *_every(Vertex)])
        if candidate.__module__ == module
    ]
    if not candidates:
        raise ExecutableLoadError(f"""The executable uses the codelet {name}, which is derived from
            {base_name}, but this process has not defined {base_name}.
            where: the executable was saved with {base_name} of module {module}
            next:  import {module} first.""")
    base_class = candidates[-1]
    dtypes: dict[type[DType], type[DType]] = {}
    for field, _, dtype_name, _ in FIELDS.read(stored["fields"]):
        dtype = dtype_named(dtype_name)
        if (
            field not in base_class.fields
            or dtype is None
            or dtypes.setdefault(base_class.fields[field].dtype, dtype) is not dtype
        ):
            return None
    constants = {key: _decoded(value) for key, value in base["constants"].entries()}
    if any(key.startswith("_") or callable(getattr(Vertex, key, None)) for key in constants):
        base["constants"].fail("a list of constants")
    return template(base_class, name, dtypes, **constants)


def _constants(owner: type) -> Iterator[tuple[str, Constant]]:
    """Yield (name, value) for each attribute of a class that is a plain value and not a field.

    Plain values are numbers, strings, None, dtypes and numpy's ufuncs. Attributes whose names begin
    with two underscores are left out.
    """
    fields = getattr(owner, "fields", {})
    for name, value in vars(owner).items():
        is_plain = value is None or isinstance(value, (bool, int, float, str, np.ufunc))
        if not name.startswith("__") and name not in fields and (is_plain or _is_dtype(value)):
            yield name, value


def _is_dtype(value: Constant) -> TypeGuard[type[DType]]:
    return isinstance(value, type) and issubclass(value, DType)


def _encoded(value: Constant) -> Json:
    if isinstance(value, np.ufunc):
        return {"ufunc": value.__name__}
    if _is_dtype(value):
        return {"dtype": value.__name__}
    return {"float": value.hex()} if isinstance(value, float) else value


def _ufunc_named(text: str) -> np.ufunc | None:
    ufunc = getattr(np, text, None)
    return ufunc if isinstance(ufunc, np.ufunc) else None


_DECODED: dict[str, Callable[[str], Constant]] = {
    "ufunc": _ufunc_named,
    "dtype": dtype_named,
    "float": float.fromhex,
}


def _decoded(stored: HeaderValue) -> Constant:
    if isinstance(stored.value, list):
        stored.fail("a constant")
    if not isinstance(stored.value, dict):
        constant: Constant = stored.value
        return constant
    kind, encoded = next(iter(stored.value.items()), ("", ""))
    decoded = _DECODED[kind](encoded) if kind in _DECODED and isinstance(encoded, str) else None
    return decoded if decoded is not None else stored.fail(f"a constant ({shown(kind)})")
