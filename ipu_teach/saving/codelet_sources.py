"""Vertex classes in saved executables: their descriptions, and the classes that match on loading.

Python code is never stored. The description of a class has its module and name, its fields, and a
hash of the text of its methods and of its plain constants. So another class of the same name is not
mistaken for it.
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

# A plain constant of a vertex class.
Constant: TypeAlias = bool | int | float | str | np.ufunc | type[DType] | None
DTYPES = {dtype.__name__: dtype for dtype in ALL}
FIELDS = many(pair(TEXT, TEXT, TEXT, whole(most=2)))  # (name, kind, dtype, depth) of each field


def described(codelet: type[Vertex]) -> dict[str, Json]:
    """Return the description of a class for a saved file."""
    result: dict[str, Json] = {
        "module": codelet.__module__,
        "name": codelet.__qualname__,
        "context": codelet.context,
        "fields": _fields(codelet),
        "hash": _fingerprint(codelet),
    }
    base = _made_from(codelet)
    if base is not None:
        constants = {name: _encoded(value) for name, value in _constants(codelet)}
        result["base"] = {
            "module": base.__module__,
            "name": base.__qualname__,
            "constants": constants,
        }
    return result


def resolve(part: HeaderValue, codelets: Iterable[type[Vertex]]) -> type[Vertex]:
    """Return the class that `part` describes, among `codelets` and all classes of this process.

    Raises `ExecutableLoadError` if no class matches, or classes of several modules do.
    """
    name = TEXT.read(part["name"])
    module = TEXT.read(part["module"])
    supplied = _named(name, codelets)
    known = _named(name, _every(Vertex))
    if not supplied and not known and "base" in part.value:
        remade = _remade(part, codelets)
        supplied = [remade] if remade is not None else []
    codelet = supplied or known
    if not codelet:
        raise ExecutableLoadError(f"""The executable uses the codelet {name}, and there is no such
            vertex class here.
            where: it was defined in {module}
            next:  {"define it" if module == "__main__" else f"import {module}"}, or pass it:
            Executable.load(path, codelets=[…]).""")
    misfits = [(c, _misfit(c, part)) for c in codelet]
    fitting = [c for c, misfit in misfits if not misfit]
    if not fitting:
        raise ExecutableLoadError(f"""The codelet {name} is not the one that the executable was
            saved with.
            where: {misfits[-1][1]}
            next:  load it with the code that saved it, or compile the graph again.""")
    if len({c.__module__ for c in fitting}) > 1:
        modules = ", ".join(sorted({c.__module__ for c in fitting}))
        raise ExecutableLoadError(f"""Several codelets named {name} fit.
            where: modules {modules}
            next:  pass the right one: Executable.load(path, codelets=[…]).""")
    # all are of one module: a cell ran several times, and the last class is the newest
    return fitting[-1]


def _named(name: str, classes: Iterable[type[Vertex]]) -> list[type[Vertex]]:
    return [c for c in dict.fromkeys(classes) if c.__qualname__ == name]


def _every(base: type[Vertex]) -> Iterator[type[Vertex]]:
    """Yield all subclasses of `base` at any depth, in the order in which each class got its own."""
    for child in base.__subclasses__():
        yield child
        yield from _every(child)


def _misfit(codelet: type[Vertex], part: HeaderValue) -> str:
    """Return a description of how a class differs from its saved one; "" if it does not."""
    fields_now, fields_saved = (
        {f[0]: f for f in fields} for fields in (_fields(codelet), FIELDS.read(part["fields"]))
    )
    for name in [*fields_saved, *fields_now]:
        if fields_now.get(name) != fields_saved.get(name):
            return (
                f"its field {name!r} was {_field_text(fields_saved.get(name))} and is "
                f"{_field_text(fields_now.get(name))}"
            )
    context = TEXT.read(part["context"])
    if codelet.context != context:
        return f"it ran as a {context} and runs as a {codelet.context}"
    saved = part["hash"].value
    now = _fingerprint(codelet)
    if saved is not None and now is not None and saved != now:
        return "the text of its methods has changed"
    return ""


def _fields(codelet: type[Vertex]) -> list[tuple[str, str, str, int]]:
    return [(f.name, f.kind, f.dtype.__name__, f.depth) for f in codelet.fields.values()]


def _field_text(field: tuple[str, str, str, int] | None) -> str:
    if field is None:
        return "not there"
    _, kind, dtype, depth = field
    return f"{kind} {'Vector[' * depth}{dtype}{']' * depth}"


def _fingerprint(codelet: type[Vertex]) -> str | None:
    """Return a hash of the methods' text and the plain constants of a class and its bases.

    Return None if the text of a method is not known.
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
                except (OSError, TypeError, IndentationError):  # from a prompt or exec
                    return None
                texts[name] = "\n".join(line.rstrip() for line in lines if line.strip())
    return hashlib.sha256(json.dumps(texts, sort_keys=True).encode()).hexdigest()


# Classes that graph.vertex.template returned


def _made_from(codelet: type[Vertex]) -> type[Vertex] | None:
    """Return the class that `template` derived this class from, or None.

    It is None also if `template` could not derive it again.
    """
    base = codelet.__bases__[0]
    if not issubclass(base, Vertex):
        return None
    attributes = {name: value for name, value in vars(codelet).items() if not name.startswith("__")}
    plain = dict(_constants(codelet))
    rest = attributes.keys() - plain.keys() - codelet.fields.keys() - {"fields"}
    copied = not rest and bool(codelet.fields) and "__annotations__" not in vars(codelet)
    return base if copied and base.fields.keys() == codelet.fields.keys() else None


def _remade(part: HeaderValue, codelets: Iterable[type[Vertex]]) -> type[Vertex] | None:
    """Return the class that `template` derives from the base that `part` names, if it fits.

    Raises `ExecutableLoadError` if this process does not have the base.
    """
    base = part["base"]
    name, base_name, module = (
        TEXT.read(place) for place in (part["name"], base["name"], base["module"])
    )
    bases = [c for c in _named(base_name, [*codelets, *_every(Vertex)]) if c.__module__ == module]
    if not bases:
        raise ExecutableLoadError(f"""The executable uses the codelet {name}, which is made from
            {base_name}, and there is no such vertex class here.
            where: it was defined in {module}
            next:  import {module} first.""")
    codelet = bases[-1]
    dtypes: dict[type[DType], type[DType]] = {}
    for field, _, dtype_name, _ in FIELDS.read(part["fields"]):
        dtype = dtype_named(dtype_name)
        if (
            field not in codelet.fields
            or dtype is None
            or dtypes.setdefault(codelet.fields[field].dtype, dtype) is not dtype
        ):
            return None
    constants = {key: _decoded(value) for key, value in base["constants"].entries()}
    if any(key.startswith("_") or callable(getattr(Vertex, key, None)) for key in constants):
        base["constants"].fail("a list of constants")
    return template(codelet, name, dtypes, **constants)


def _constants(owner: type) -> Iterator[tuple[str, Constant]]:
    """Yield (name, value) of a class's attributes that are plain values, without its fields.

    Plain values are numbers, text, dtypes and numpy's functions.
    """
    fields = getattr(owner, "fields", {})
    for name, value in vars(owner).items():
        plain = value is None or isinstance(value, (bool, int, float, str, np.ufunc))
        if not name.startswith("__") and name not in fields and (plain or _is_dtype(value)):
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


def _decoded(part: HeaderValue) -> Constant:
    if isinstance(part.value, list):
        part.fail("a constant")
    if not isinstance(part.value, dict):
        constant: Constant = part.value
        return constant
    kind, text = next(iter(part.value.items()), ("", ""))
    decoded = _DECODED[kind](text) if kind in _DECODED and isinstance(text, str) else None
    return decoded if decoded is not None else part.fail(f"a constant ({shown(kind)})")
