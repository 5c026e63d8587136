"""Write the tables in docs/model.md from the package: `python docs/make_model.py` [`--check`].

The rest of the page is written by hand. A table is between the lines `<!-- name -->` and `<!-- end
-->`, and the function of that name in this module generates it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path

import numpy as np
from marks import with_part

from ipu_teach.cost.traced import OPERATIONS, UNIT, array_cycles
from ipu_teach.target import PRESETS, Target, ground, make_target, source
from validation import printed

PAGE = Path(__file__).with_name("model.md")


def cells(*values: str) -> str:
    return "| " + " | ".join(value.replace("|", "\\|") for value in values) + " |"


def functions() -> Iterator[str]:
    """Yield table rows: numpy's functions and their cycles, the cheapest first.

    The cycles are for the number of elements that the 64-bit data path processes at once: 2 FLOAT
    or 4 HALF.
    """
    yield cells("numpy", "PopLibs' operation", "2 FLOAT", "4 HALF")
    yield "|---|---|---|---|"
    single, half, target = np.dtype(np.float32), np.dtype(np.float16), make_target("ipu2")
    for name in sorted(OPERATIONS, key=lambda name: array_cycles(name, single, 2, target)):
        costs = (
            f"{array_cycles(name, dtype, width, target) / UNIT:g}"
            for dtype, width in ((single, 2), (half, 4))
        )
        yield cells(f"`{name}`", " and ".join(OPERATIONS[name]), *costs)


def constants() -> Iterator[str]:
    """Yield table rows: the constants of a machine, with their sources.

    If a preset's value differs from the one of ipu2, the preset has its own row.
    """
    yield cells("constant", "machine", "value", "unit", "rests on", "source")
    yield "|---|---|---|---|---|---|"
    for field in fields(Target):
        if field.name in ("ipu_version", "num_ipus", "machine"):
            continue
        for version in ("ipu2", *(v for v in PRESETS if field.name in PRESETS[v])):
            value = getattr(make_target(version), field.name)
            value_text = (
                value
                if isinstance(value, str)
                else f"{value:,}"
                if isinstance(value, int)
                else f"{value:g}"
            )
            evidence = ground(make_target(version), field.name)
            yield cells(
                f"`{field.name}`",
                version,
                value_text,
                str(field.metadata["unit"]),
                evidence,
                source(version, field.name),
            )


def golden() -> Iterator[str]:
    """Yield lines of Markdown with the output of `ipu-teach golden`: a summary, lists and rows."""
    all_rows = [row for _, rows in printed.families() for row in rows]
    yield printed.summary(all_rows) + "."
    yield ""
    yield from (f"* {line}." for line in printed.classes(all_rows))
    yield ""
    yield cells(
        "figure", "kind", "published", "modelled", "error", "within", "verdict", "why", "source"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    for row in all_rows:
        error, tolerance = (
            ("", "") if row.error is None else (f"{row.error:+.2%}", f"{row.tolerance:.2%}")
        )
        figures = (printed.number(row.published), printed.number(row.modelled), error, tolerance)
        yield cells(row.name, row.kind, *figures, row.verdict, row.why, row.source)


TABLES: dict[str, Callable[[], Iterator[str]]] = {
    "functions": functions,
    "constants": constants,
    "golden": golden,
}


def page(text: str) -> str:
    """Return `text`, the text of docs/model.md, with its tables replaced by new ones."""
    for name, rows_of in TABLES.items():
        text = with_part(text, name, "\n".join(rows_of()))
    return text


def main(arguments: list[str]) -> int:
    text = PAGE.read_text(encoding="utf-8")
    if "--check" in arguments:
        if text == page(text):
            return 0
        print(
            "The tables in docs/model.md are not what docs/make_model.py makes; run it.",
            file=sys.stderr,
        )
        return 1
    PAGE.write_text(page(text), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
