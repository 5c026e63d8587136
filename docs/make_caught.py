"""Make the table in docs/caught.md from the planted mistakes of the tests.

python docs/make_caught.py
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

PAGE = Path(__file__).with_name("caught.md")
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from marks import write_between  # noqa: E402
from mistakes import BEFORE, DURING, MISTAKES, NEVER, REPORT, Mistake  # noqa: E402


def row(mistake: Mistake) -> str:
    """Return a table row: a planted mistake, and its error or the reason for none."""
    response = mistake.said() or mistake.why[0].upper() + mistake.why[1:]
    kind = (
        mistake.error.__name__
        if mistake.error
        else mistake.insight and f"insight: {mistake.insight}"
    )
    return (
        f"| {mistake.title} | {mistake.when} | {f'`{kind}`' if kind else ''} | "
        f"{response.replace('|', chr(92) + '|')} |"
    )


def table() -> str:
    """Return the text of the table of mistakes, below a line that counts them."""
    counts = Counter(mistake.when for mistake in MISTAKES)
    counts_text = ", ".join(f"{counts[when]} {when}" for when in (BEFORE, DURING, REPORT, NEVER))
    head = "| mistake | when | error | message, or why there is none |\n|---|---|---|---|"
    return "\n".join([f"{len(MISTAKES)} mistakes: {counts_text}.", "", head, *map(row, MISTAKES)])


def main() -> None:
    write_between(PAGE, "mistakes", table())


if __name__ == "__main__":
    main()
