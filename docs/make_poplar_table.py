"""Make docs/poplar.md and docs/poplibs.md from their rows and the package; or `--check` them."""

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

Names are Poplar's in snake_case; enums and dtypes keep theirs. A getter without arguments is a
property. Constants, programs and helpers stand under `ipu_teach` as the table shows: `program.Copy`
is `from ipu_teach.program import Copy`. Where the last column is empty, nothing differs that you
would notice. "Not here" rows say what to use instead.

Start with [coming-from-poplar.md](coming-from-poplar.md). The libraries have a page of their own:
[poplibs.md](poplibs.md). This page is made by `docs/make_poplar_table.py`.
"""
LIBRARIES_PAGE = Path(__file__).with_name("poplibs.md")
LIBRARIES_HEAD = """# PopLibs' functions and ours

Names are PopLibs' in snake_case. `poplibs.popops.add` is `from ipu_teach.poplibs import popops`,
then `popops.add`. Every call has the form `fn(graph, inputs…, prog, debug_context="name")`: it
appends to the Sequence `prog`, maps what it makes, and runs nothing. The name is that of its
compute sets in a profile. Wrong arguments raise `PoplibsError` at the call.

A few things differ from PopLibs throughout. There is nothing to load before the first call. Options
stand in a dict, under PopLibs' names or in snake case: `options={"accumType.interTile": "half"}`;
what a call does not know is an error that says what was meant, and those that choose between
implementations of which there is one here are taken and change nothing. Numbers may stand where C++
wants a constant tensor. Integers wrap. A HALF result is the exact one rounded once, and sums of
HALF are carried in FLOAT. Cycles are those of PopLibs' estimators, as far as they are published;
where one had to be assumed, the docstring of the vertex says so. Rows that say "not here" name what
to use instead.

This page is made by `docs/make_poplar_table.py` from the modules in `docs/poplibs_rows`.
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
    """Return the object with this path in `ipu_teach`, such as "program.Copy".

    :raises AttributeError: if there is none.
    """
    found: Any = ipu_teach
    for part in path.split("."):
        if inspect.ismodule(found) and not hasattr(found, part):
            try:
                importlib.import_module(f"{found.__name__}.{part}")
            except ModuleNotFoundError:
                raise AttributeError(f"ipu_teach has no {path}") from None
        if not hasattr(found, part) and found in SAMPLES:
            found = SAMPLES[found]()
        found = (
            inspect.getattr_static(found, part) if inspect.isclass(found) else getattr(found, part)
        )
    return found


def _device() -> ipu_teach.Device:
    return ipu_teach.IPUModel("ipu2", tiles_per_ipu=2).create_device()


# the classes whose instances have attributes that the class does not have
SAMPLES: dict[Any, Any] = {
    ipu_teach.Device: _device,
    ipu_teach.Graph: lambda: ipu_teach.Graph(_device()),
}


def signature(path: str) -> str:
    """Return `path` as a call, with parameters and defaults but without types.

    If the object is not callable, return only the path.
    """
    found = resolve(path)
    if isinstance(found, (classmethod, staticmethod)):
        found = found.__func__
    known = inspect.isfunction(found) or (inspect.isclass(found) and _called(found))
    if not known or path.endswith("__getitem__"):
        return "Tensor[…]" if path.endswith("__getitem__") else path
    parameters = [
        p for p in inspect.signature(found).parameters.values() if p.name not in ("self", "cls")
    ]
    listed, starred = [], False
    for p in parameters:
        if p.kind is p.VAR_POSITIONAL:
            listed.append(f"*{p.name}")
            starred = True
        elif p.kind is p.VAR_KEYWORD:
            listed.append(f"**{p.name}")
        else:
            if p.kind is p.KEYWORD_ONLY and not starred:
                listed.append("*")
                starred = True
            listed.append(p.name if p.default is p.empty else f"{p.name}={_default(p.default)}")
    return f"{path}({', '.join(listed)})"


def _called(found: type) -> bool:
    """Return whether users create objects of the class themselves, with arguments to be shown."""
    declared = (ipu_teach.Vertex, ipu_teach.types.DType, BaseException, enum.Enum)
    made = found.__init__ is not object.__init__ and not issubclass(found, declared)
    return made and found.__name__ not in MADE_BY_THE_KIT


def _default(value: Any) -> str:
    return f"{type(value).__name__}.{value.name}" if isinstance(value, enum.Enum) else repr(value)


def does(row: Row) -> str:
    """Return a description: the row's own text, or the first sentence of our docstring."""
    if row.does:
        return row.does
    found = resolve(row.ours)
    text = inspect.getdoc(found)
    if not text:
        raise ValueError(f"{row.ours} has no docstring; give the row for {row.cpp} a `does`.")
    paragraph = " ".join(text.split("\n\n")[0].split())
    return re.split(r"(?<=[.])\s(?=[A-Z`])", paragraph)[0].rstrip(":")


def page(head: str = HEAD, sections: dict[str, list[Row]] = SECTIONS) -> str:
    """Return docs/poplar.md, or another page of tables."""
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
