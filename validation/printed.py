"""All rows together, as a table or as JSON: the output of `ipu-teach golden`."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ipu_course.jobs import WORDS
from ipu_teach._support.places import program
from validation import (
    benchmarks,
    chips,
    kernels,
    layers,
    many,
    matrix_vector,
    networks,
    number_formats,
    overlapped,
    profiles,
    single_vertices,
    sparse,
    stencils,
    streaming,
    transformer,
)
from validation.row import (
    ALGORITHMS,
    DATASHEETS,
    EXPLAINED,
    FORMATS,
    OUTSIDE,
    PROGRAMS,
    REPRODUCED,
    TOLERANCES,
    VERDICTS,
    VERTICES,
    Row,
)

FAMILIES: tuple[tuple[str, str, Callable[[], list[Row]]], ...] = (
    ("A matrix times a vector", PROGRAMS, matrix_vector.planner),
    ("Its profile on Graphcore's model", PROGRAMS, matrix_vector.on_the_model),
    ("The same on a chip", PROGRAMS, matrix_vector.on_the_chip),
    ("A halo exchange", PROGRAMS, profiles.halos),
    ("Halo exchanges by copies", PROGRAMS, stencils.halos),
    ("Copies on a tile", VERTICES, stencils.copies),
    ("A blur", PROGRAMS, stencils.blurs),
    ("A chain of products", PROGRAMS, profiles.products),
    ("The products of a transformer", PROGRAMS, transformer.products),
    ("PopLibs' own benchmarks", PROGRAMS, benchmarks.benchmarks),
    ("PopLibs' own layers", PROGRAMS, layers.benchmarks),
    ("Sparse products", PROGRAMS, sparse.rows),
    ("Training of whole networks", PROGRAMS, networks.rows),
    ("Two operations, measured on a chip", PROGRAMS, profiles.two_operations),
    ("An operation that takes longer each time", PROGRAMS, profiles.growing_operations),
    ("The buffer of a chip's profiler", PROGRAMS, profiles.buffers),
    ("Transfers that overlap", PROGRAMS, overlapped.transfers),
    ("STREAM", PROGRAMS, kernels.streams),
    ("The AMP units of a chip", VERTICES, single_vertices.amp),
    ("A dot product", VERTICES, single_vertices.guesses),
    ("Launches", VERTICES, single_vertices.launches),
    ("Vertices of the libraries, measured on a chip", VERTICES, kernels.libraries),
    ("Vertices of one's own, measured on a chip", VERTICES, kernels.own),
    ("Streaming memory, its values and shards", ALGORITHMS, streaming.rows),
    ("Pipelines", ALGORITHMS, many.pipelines),
    ("Rings", ALGORITHMS, many.rings),
    ("8-bit floats", FORMATS, number_formats.quarters),
    ("Random numbers", FORMATS, number_formats.generators),
    ("Peaks", DATASHEETS, chips.peaks),
    ("Memories", DATASHEETS, chips.memories),
    ("Threads, exchange, links, and systems", DATASHEETS, chips.fabric),
)


def families(only: str = "") -> Iterator[tuple[str, list[Row]]]:
    """Yield (title, rows) of each family of figures whose title contains `only`.

    On a terminal, a progress bar is shown.
    """
    from tqdm import tqdm

    wanted = [family for family in FAMILIES if only.lower() in family[0].lower()]
    bar = tqdm(wanted, desc="golden", leave=False, disable=not sys.stderr.isatty())
    for title, work, rows in bar:
        bar.set_postfix_str(title)
        yield title, [replace(row, work=work) for row in rows()]


def number(value: float | None) -> str:
    """Return a figure as text, with a number of digits that depends on its size."""
    if value is None:
        return "-"
    if value == int(value):
        return f"{value:,.0f}"
    return f"{value:,.4g}" if abs(value) < 100 else f"{value:,.1f}"


def lines(title: str, rows: Sequence[Row]) -> Iterator[str]:
    """Yield the lines of a family: the figures of each row, and below them source and reason."""
    yield title
    for row in rows:
        error = "" if row.error is None else f"{row.error:+.2%}"
        within = "" if row.error is None else f"within {row.tolerance:.2%}"
        yield f"  {row.verdict:13}  {row.name}"
        yield (
            f"{'':17}published {number(row.published)}, modelled {number(row.modelled)}  "
            f"{error:>8} {within}"
        ).rstrip()
        yield f"{'':17}{row.kind}: {row.source}"
        yield f"{'':17}{row.why}"
    yield ""


def classes(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a line for each class of work: the model's errors, and how many figures are explained.

    Figures that were used to fix a constant of the kit do not count.
    """
    for work, tolerance in TOLERANCES.items():
        by = {
            verdict: [
                row.error or 0.0 for row in rows if (row.work, row.verdict) == (work, verdict)
            ]
            for verdict in VERDICTS
        }
        reproduced, explained = by[REPRODUCED], by[EXPLAINED]
        if reproduced:
            mean = sum(reproduced) / len(reproduced)
            absolute = sum(map(abs, reproduced)) / len(reproduced)
            worst = max(reproduced, key=abs)
            off = f"mean {mean:+.1%}, mean absolute {absolute:.1%}, worst {worst:+.1%}"
            further = (
                f"; {len(explained)} explained, worst {max(explained, key=abs):+.0%}"
                if explained
                else ""
            )
            yield f"{work}, within {tolerance:.0%}: {len(reproduced)} reproduced, {off}{further}"


def summary(rows: Sequence[Row]) -> str:
    """Return a text: the number of all rows, and the number of rows with each verdict."""
    count = Counter(row.verdict for row in rows)
    return f"{len(rows)} row{'' if len(rows) == 1 else 's'}: " + ", ".join(
        f"{count[verdict]} {verdict}" for verdict in VERDICTS if count[verdict]
    )


def main(arguments: Sequence[str]) -> int:
    """Print the table, or with `--json` the rows as data.

    Return 1 if a row is outside its tolerance, else 0.
    """
    parser = argparse.ArgumentParser(prog=f"{program()} golden", description=WORDS["golden"])
    parser.add_argument("--json", action="store_true", help="print the rows as data")
    parser.add_argument(
        "--only", default="", metavar="WORDS", help="the families with these words in their title"
    )
    chosen = parser.parse_args(arguments)
    chosen_families = list(families(chosen.only))
    rows = [row for _, members in chosen_families for row in members]
    if not rows:
        titles = "\n".join(f"  {family[0]}" for family in FAMILIES)
        parser.error(f"no family has {chosen.only!r} in its title. There are:\n{titles}")
    if chosen.json:
        print(json.dumps({"rows": [row.as_dict() for row in rows]}, indent=1))
    else:
        for title, members in chosen_families:
            print("\n".join(lines(title, members)))
        print("\n".join(classes(rows)))
        print(summary(rows))
    return int(any(row.verdict == OUTSIDE for row in rows))
