"""Vertex templates, whose fields name a TypeVar, and the vertex classes made from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from ipu_teach.errors import VertexDefinitionError, counted
from ipu_teach.graph.vertex import Vertex, template
from ipu_teach.types import DType, as_dtype


def placeholders(codelet: type[Vertex]) -> list[TypeVar]:
    """Return the TypeVars of a template's fields: first those of its Generic, in their order."""
    open_ = list(
        dict.fromkeys(f.dtype for f in codelet.fields.values() if isinstance(f.dtype, TypeVar))
    )
    order = [p for p in getattr(codelet, "__parameters__", ()) if p in open_]
    return order + [p for p in open_ if p not in order]


def instance(codelet: type[Vertex], dtypes: Sequence[object]) -> type[Vertex]:
    """Return the vertex class that a template gives for `dtypes`, which replace its TypeVars.

    For equal dtypes, it is the same class. Its name is as in C++, such as `Scale<float>`. If
    `dtypes` are TypeVars, return the template itself.
    """
    wanted = placeholders(codelet)
    if all(isinstance(d, TypeVar) for d in dtypes) and wanted:
        # The class `codelet` is used as a base class, as in `class Other(Scale[T])`, and stays a
        # template.
        return codelet
    if not wanted:
        raise VertexDefinitionError(f"""{codelet.__name__} is not a template.
            next:  use it as it is: {codelet.__name__}, without brackets.""")
    if len(dtypes) != len(wanted):
        raise VertexDefinitionError(f"""{codelet.__name__}[…] was given {len(dtypes)} dtypes, but
            the template has {counted(len(wanted), "parameter")}:
            {", ".join(p.__name__ for p in wanted)}.
            next:  give one dtype for each, as in
            {codelet.__name__}[{", ".join(["FLOAT"] * len(wanted))}].""")
    element_types = tuple(as_dtype(d, f"{codelet.__name__}[…]") for d in dtypes)
    if element_types not in codelet._instances:
        name = template_name(codelet.__name__, *element_types)
        codelet._instances[element_types] = template(
            codelet, name, dict(zip(wanted, element_types, strict=True))
        )
    return codelet._instances[element_types]


def open_template(codelet: type[Vertex]) -> VertexDefinitionError:
    """Return the error for a template that is used without dtypes."""
    wanted = placeholders(codelet)
    return VertexDefinitionError(f"""{codelet.__name__} is a template:
        {", ".join(p.__name__ for p in wanted)} has no dtype yet.
        next:  give the dtype, as in {codelet.__name__}[{", ".join(["FLOAT"] * len(wanted))}].""")


def type_name(dtype: type[DType]) -> str:
    """Return a dtype's name in C++, such as "unsigned int". Names of templates contain it."""
    return dtype.__name__.lower().replace("_", " ").replace("longlong", "long long")


def template_name(name: str, *dtypes: type[DType]) -> str:
    """Return the name of a template's instance, such as "Scale<float>"."""
    return f"{name}<{','.join(type_name(d) for d in dtypes)}>"
