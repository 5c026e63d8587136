"""All rows together, as a table or as JSON: what `ipu-teach golden` prints."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from ipu_teach.golden import chips, matrix_vector, number_formats, profiles, single_vertices
from ipu_teach.golden.row import OUTSIDE, VERDICTS, Row

HELP = "print every published figure beside what the kit models, and why the two differ"
FAMILIES: tuple[tuple[str, Callable[[], list[Row]]], ...] = (
    ("A matrix times a vector", matrix_vector.planner),
    ("Its profile on Graphcore's model", matrix_vector.on_the_model),
    ("The same on a chip", matrix_vector.on_the_chip),
    ("A halo exchange", profiles.halos),
    ("A chain of products", profiles.products),
    ("Two operations, measured on a chip", profiles.two_operations),
    ("An operation that takes longer each time", profiles.growing_operations),
    ("The buffer of a chip's profiler", profiles.buffers),
    ("The AMP units of a chip", single_vertices.amp),
    ("A dot product", single_vertices.guesses),
    ("Launches", single_vertices.launches),
    ("8-bit floats", number_formats.quarters),
    ("Random numbers", number_formats.generators),
    ("Peaks", chips.peaks),
    ("Memories", chips.memories),
    ("Threads, exchange, links, and systems", chips.fabric),
)


def families() -> Iterator[tuple[str, list[Row]]]:
    """(title, rows) of each family, with a bar on a terminal while they are worked out."""
    from tqdm import tqdm

    bar = tqdm(FAMILIES, desc="golden", leave=False, disable=not sys.stderr.isatty())
    for title, rows in bar:
        bar.set_postfix_str(title)
        yield title, rows()


def number(value: float | None) -> str:
    """A figure with as many digits as it deserves."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value == int(value) else f"{value:,.4g}" if abs(value) < 100 else f"{value:,.1f}"


def lines(title: str, rows: Sequence[Row]) -> Iterator[str]:
    """A family as text: for each row its figures, and below them source and reason."""
    yield title
    for row in rows:
        error = "" if row.error is None else f"{row.error:+.2%}"
        within = "" if row.error is None else f"within {row.tolerance:.2%}"
        yield f"  {row.verdict:13}  {row.name}"
        yield f"{'':17}published {number(row.published)}, modelled {number(row.modelled)}  {error:>8} {within}".rstrip()
        yield f"{'':17}{row.kind}: {row.source}"
        yield f"{'':17}{row.why}"
    yield ""


def summary(rows: Sequence[Row]) -> str:
    """How many rows there are of each verdict."""
    count = Counter(row.verdict for row in rows)
    return f"{len(rows)} row{'' if len(rows) == 1 else 's'}: " + ", ".join(
        f"{count[verdict]} {verdict}" for verdict in VERDICTS if count[verdict]
    )


def main(arguments: Sequence[str]) -> int:
    """Print the table, or with `--json` the rows as data. 1 if a row is outside its tolerance, else 0."""
    parser = argparse.ArgumentParser(prog="ipu-teach golden", description=HELP)
    parser.add_argument("--json", action="store_true", help="print the rows as data")
    as_json = parser.parse_args(arguments).json
    found = list(families())
    rows = [row for _, members in found for row in members]
    if as_json:
        print(json.dumps({"rows": [row.as_dict() for row in rows]}, indent=1))
    else:
        for title, members in found:
            print("\n".join(lines(title, members)))
        print(summary(rows))
    return int(any(row.verdict == OUTSIDE for row in rows))
