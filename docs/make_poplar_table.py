"""Write docs/poplar.md and docs/poplibs.md from their rows; `--check` only compares them."""

from __future__ import annotations

import enum
import importlib
import inspect
import re
import sys
from pathlib import Path
from typing import Any

from poplar_rows import SECTIONS, Row
from poplibs_rows import LIBRARIES

import ipu_teach

PAGE = Path(__file__).with_name("poplar.md")
HEAD = """# Poplar's names and ours

This page lists the names of Poplar. For each name it has the name in this kit and the differences.
Start with [coming-from-poplar.md](coming-from-poplar.md). The names of PopLibs are in
[poplibs.md](poplibs.md).

* Names are Poplar's in snake_case. Enums and dtypes keep their spelling. A getter without arguments
  is a property.
* Python names are relative to `ipu_teach`. For example, `program.Copy` in the table means
  `from ipu_teach.program import Copy`.
* If the last column is empty, there is no difference. Otherwise, the last column describes how the
  name in the second column differs from Poplar.
* If the kit does not have a name, the second column says "not here", and the last column says what
  to use instead.

`docs/make_poplar_table.py` makes this page.
"""
LIBRARIES_PAGE = Path(__file__).with_name("poplibs.md")
LIBRARIES_HEAD = """# PopLibs' functions and ours

This page lists the functions of PopLibs. For each function it has the function in this kit and the
differences.

Names are PopLibs' in snake_case. `poplibs.popops.add` in the table means
`from ipu_teach.poplibs import popops`, and then `popops.add`. Every call has the form
`fn(graph, inputs…, prog, debug_context="name")`. A call appends programs to the Sequence
`prog`, and maps the tensors that it makes. A call runs nothing. In a profile, the compute sets of
the call have the name `debug_context`. Wrong arguments raise `PoplibsError` at the call.

These differences from PopLibs apply to all functions:

* You do not have to load anything before the first call.
* Options are a dict with PopLibs' names, or with the same names in snake_case, as in
  `options={"accumType.interTile": "half"}`. If you pass an unknown option, the error
  suggests a similar option. Some options choose between implementations. If the kit has only one
  implementation, such an option has no effect.
* Where C++ requires a constant tensor, you may pass a number.
* Integers that overflow wrap around.
* A HALF result is the exact result, rounded once. Sums of HALF are accumulated in FLOAT.
* The cycles of a vertex are those of PopLibs' estimator, if the estimator is published. If the
  cycles of a vertex are an assumption, the docstring of the vertex says so.

If the kit does not have a function, the second column says "not here", and the last column says
what to use instead. `docs/make_poplar_table.py` makes this page from `docs/poplibs_rows`.
"""


MADE_BY_THE_KIT = (
    "DataStream",
    "Device",
    "Executable",
    "RemoteBuffer",
    "Report",
    "SparseTensor",
    "Target",
    "Tensor",
)


def resolve(path: str) -> Any:
    """Return the object with the path `path` in `ipu_teach`, such as "program.Copy".

    :raises AttributeError: if there is no such object.
    """
    resolved: Any = ipu_teach
    for name in path.split("."):
        if inspect.ismodule(resolved) and not hasattr(resolved, name):
            try:
                importlib.import_module(f"{resolved.__name__}.{name}")
            except ModuleNotFoundError:
                raise AttributeError(f"ipu_teach has no {path}") from None
        if not hasattr(resolved, name) and resolved in SAMPLES:
            resolved = SAMPLES[resolved]()
        resolved = (
            inspect.getattr_static(resolved, name)
            if inspect.isclass(resolved)
            else getattr(resolved, name)
        )
    return resolved


def _device() -> ipu_teach.Device:
    return ipu_teach.IPUModel("ipu2", tiles_per_ipu=2).create_device()


# Instances of these classes have attributes that the class does not have.
SAMPLES: dict[Any, Any] = {
    ipu_teach.Device: _device,
    ipu_teach.Graph: lambda: ipu_teach.Graph(_device()),
}


def signature(path: str) -> str:
    """Return `path` as a call, with parameters and defaults but without types.

    If the object is not callable, return only the path.
    """
    resolved = resolve(path)
    if isinstance(resolved, (classmethod, staticmethod)):
        resolved = resolved.__func__
    has_signature = inspect.isfunction(resolved) or (
        inspect.isclass(resolved) and _called(resolved)
    )
    if not has_signature or path.endswith("__getitem__"):
        return "Tensor[…]" if path.endswith("__getitem__") else path
    parameters = [
        parameter
        for parameter in inspect.signature(resolved).parameters.values()
        if parameter.name not in ("self", "cls")
    ]
    parameter_texts, has_star = [], False
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            parameter_texts.append(f"*{parameter.name}")
            has_star = True
        elif parameter.kind is parameter.VAR_KEYWORD:
            parameter_texts.append(f"**{parameter.name}")
        else:
            if parameter.kind is parameter.KEYWORD_ONLY and not has_star:
                parameter_texts.append("*")
                has_star = True
            parameter_texts.append(
                parameter.name
                if parameter.default is parameter.empty
                else f"{parameter.name}={_default(parameter.default)}"
            )
    return f"{path}({', '.join(parameter_texts)})"


def _called(cls: type) -> bool:
    """Return whether users create objects of the class themselves, by calls with arguments."""
    declared_bases = (ipu_teach.Vertex, ipu_teach.types.DType, BaseException, enum.Enum)
    has_constructor = cls.__init__ is not object.__init__ and not issubclass(cls, declared_bases)
    return has_constructor and cls.__name__ not in MADE_BY_THE_KIT


def _default(value: Any) -> str:
    return f"{type(value).__name__}.{value.name}" if isinstance(value, enum.Enum) else repr(value)


def does(row: Row) -> str:
    """Return the description of a row: its own text, or the first sentence of the docstring.

    :raises ValueError: if it has neither.
    """
    if row.does:
        return row.does
    resolved = resolve(row.ours)
    text = inspect.getdoc(resolved)
    if not text:
        raise ValueError(f"{row.ours} has no docstring; give the row for {row.cpp} a `does`.")
    paragraph = " ".join(text.split("\n\n")[0].split())
    return re.split(r"(?<=[.])\s(?=[A-Z`])", paragraph)[0].rstrip(":")


def page(head: str = HEAD, sections: dict[str, list[Row]] = SECTIONS) -> str:
    """Return the text of docs/poplar.md, or of another page that begins with `head`."""
    parts = [head]
    for title, rows in sections.items():
        parts.append(
            f"## {title}\n\n| C++ | Python | What it does | What differs |\n|---|---|---|---|"
        )
        for row in rows:
            ours = f"`{signature(row.ours)}`" if row.ours else "not here"
            cells = (
                f"`{row.cpp}`",
                ours,
                does(row) if row.ours else "",
                row.differs if row.ours else f"Instead: {row.differs}.",
            )
            parts.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        parts.append("")
    return "\n".join(parts)


def main(arguments: list[str]) -> int:
    stale = 0
    for path, text in ((PAGE, page()), (LIBRARIES_PAGE, page(LIBRARIES_HEAD, LIBRARIES))):
        if "--check" not in arguments:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            print(
                f"docs/{path.name} is not what docs/make_poplar_table.py makes; run it.",
                file=sys.stderr,
            )
            stale = 1
    return stale


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
