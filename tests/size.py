"""How large the rooms of the house are, beside their budgets: python3 run.py size [COMMIT]

Counted are lines of code: no blanks, no comments, no docstrings. With a commit, the last column is
the change since then.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import sys
import tarfile
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GROUND, JAVASCRIPT, ENGINE = "ground", "show: JavaScript", "compile and engine"
BUDGETS = {
    "tiny": 235,
    GROUND: 4770,
    "graph": 3960,
    ENGINE: 10640,
    "cost": 3365,
    "report": 4325,
    "saved": 780,
    "poplibs": 11330,
    "host": 460,
    "sweeps": 175,
    "observer": 200,
    "show": 9435,
    JAVASCRIPT: 2570,
    "lessons": 14420,
    "golden": 2295,
    "classroom": 990,
    "frontends": 10165,
}
# Some 470 lines of the engine only make it quick. They could go, at the price that a row of the
# benchmark shows: whole regions in compiled loops (130; such codelets are 45 to 131 times slower
# without), elementwise work across vertices (100; w2), products of halves (80), loops for long
# unrolled batches (48; w1b), indices checked ahead of loops (40; w5c), WriteUndefs that wait (40;
# b6), joined products (30; w3).
# of the lessons: wrong answers as learners write them, which nobody counts as the kit's
MISTAKES = "known mistakes"
QUIET = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def python_lines(text: str) -> int:
    """Lines of Python that hold code."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
            docstrings.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    lines = {
        line for t in tokens if t.type not in QUIET for line in range(t.start[0], t.end[0] + 1)
    }
    return len(lines - docstrings)


def javascript_lines(text: str) -> int:
    """Lines of JavaScript that are neither blank nor comments alone."""
    return sum(
        1
        for line in map(str.strip, text.splitlines())
        if line and not line.startswith(("//", "/*", "*"))
    )


def room_of(path: str) -> str:
    """The room that a file of the package is counted in; modules beside the rooms are the ground,
    but for tiny."""
    parts = Path(path).with_suffix("").parts[1:]
    if path.endswith(".js"):
        return JAVASCRIPT
    if parts[0] in ("compile", "engine"):
        return ENGINE
    if parts[0] in ("keras", "popart", "poptorch"):  # names for what stands in frontends
        return "frontends"
    if re.fullmatch(r"mistakes_\d\d\w?", parts[-1]):
        return MISTAKES
    return parts[0] if len(parts) > 1 and parts[0] != "types" or parts[0] == "tiny" else GROUND


def sizes(files: Iterable[tuple[str, str]]) -> Counter[str]:
    """Lines of code by room, of files as (path from the root, text)."""
    found: Counter[str] = Counter()
    for path, text in files:
        if path.endswith((".py", ".js")):
            found[room_of(path)] += (
                javascript_lines(text) if path.endswith(".js") else python_lines(text)
            )
    return found


def files_here() -> Iterator[tuple[str, str]]:
    """The package as it stands."""
    for kind in ("*.py", "*.js"):
        for path in sorted((ROOT / "ipu_teach").rglob(kind)):
            yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")


def files_at(commit: str) -> Iterator[tuple[str, str]]:
    """The package as it was."""
    done = subprocess.run(["git", "archive", commit, "ipu_teach"], cwd=ROOT, capture_output=True)
    if done.returncode:
        sys.exit(
            f"size: git knows no commit {commit!r} with the package in it: "
            f"{done.stderr.decode().strip()}"
        )
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        for member in archive:
            held = archive.extractfile(member)
            if held is not None and member.name.endswith((".py", ".js")):
                yield member.name, held.read().decode("utf-8")


def table(now: Counter[str], before: Counter[str] | None) -> str:
    """The sizes in rows."""
    rows = [("room", "lines", "budget", "over" if before is None else "change")]
    python = sum(now.values()) - now[JAVASCRIPT] - now[MISTAKES]
    for room in [*BUDGETS, *sorted(set(now) - set(BUDGETS))]:
        budget = BUDGETS.get(room, 0)
        last = _signed(
            max(now[room] - budget, 0) * bool(budget)
            if before is None
            else now[room] - before[room]
        )
        rows.append((room, f"{now[room]:,}", f"{budget:,}" if budget else "", last))
    was = python if before is None else sum(before.values()) - before[JAVASCRIPT] - before[MISTAKES]
    rows.append(("all Python", f"{python:,}", "", _signed(python - was)))
    return "\n".join(
        f"{room:<20}{lines:>8}{budget:>8}{last:>8}".rstrip() for room, lines, budget, last in rows
    )


def _signed(lines: int) -> str:
    return f"{lines:+,}" if lines else ""


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python3 run.py size", description=(__doc__ or "").split("\n\n")[1]
    )
    parser.add_argument("commit", nargs="?", help="show the change since this commit")
    commit = parser.parse_args().commit
    print(table(sizes(files_here()), sizes(files_at(commit)) if commit else None))


if __name__ == "__main__":
    main()
