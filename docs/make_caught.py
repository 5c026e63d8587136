"""Make the table in docs/caught.md from the planted mistakes of the tests.

python docs/make_caught.py
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

PAGE = Path(__file__).with_name("caught.md")
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from mistakes import BEFORE, DURING, MISTAKES, NEVER, REPORT, Mistake  # noqa: E402


def row(mistake: Mistake) -> str:
    """Return a row of the table, with the error that the mistake raises."""
    came = mistake.said() or mistake.why[0].upper() + mistake.why[1:]
    kind = (
        mistake.error.__name__
        if mistake.error
        else mistake.insight and f"insight: {mistake.insight}"
    )
    return (
        f"| {mistake.title} | {mistake.when} | {f'`{kind}`' if kind else ''} | "
        f"{came.replace('|', chr(92) + '|')} |"
    )


def table() -> str:
    """Return the line with the number of mistakes, and all rows."""
    counts = Counter(mistake.when for mistake in MISTAKES)
    told = ", ".join(f"{counts[when]} {when}" for when in (BEFORE, DURING, REPORT, NEVER))
    head = "| the mistake | | | what the kit says, or why it says nothing |\n|---|---|---|---|"
    return "\n".join([f"{len(MISTAKES)} mistakes: {told}.", "", head, *map(row, MISTAKES)])


def main() -> None:
    text = PAGE.read_text(encoding="utf-8")
    made = re.sub(
        r"(<!-- mistakes -->\n).*?(<!-- end -->)",
        lambda m: f"{m[1]}{table()}\n{m[2]}",
        text,
        flags=re.DOTALL,
    )
    PAGE.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()
