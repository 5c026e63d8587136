"""Print the size of each package in tokens and lines: python3 run.py size [COMMIT]

A token is a word, a number, a text or a sign of the language; comments, docstrings, blanks and
indentation are not counted, so the figures do not depend on how wide the formatter sets lines.
Budgets are in tokens. With a commit, the last column is the change since then. It needs the standard
library alone, so run.py prints it without setting up an environment.
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
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("ipu_teach", "ipu_course", "validation")
GROUND, JAVASCRIPT, ENGINE = "ground", "show: JavaScript", "compile and engine"
MISTAKES = "known mistakes"  # wrong answers, written as learners write them
# About 470 lines of the engine are only for speed. In brackets: the lines, and the row of the
# benchmark that would suffer without them. Full regions in compiled loops (130; such codelets would be
# 45 to 131 times slower), elementwise work across vertices (100; w2), products of halves (80), loops
# for long unrolled batches (48; w1b), index checks ahead of loops (40; w5c), delayed WriteUndefs (40;
# b6), joined products (30; w3).
BUDGETS = {  # tokens
    "tiny": 3100,
    GROUND: 34100,
    "graph": 38500,
    ENGINE: 114500,
    "cost": 40600,
    "report": 39600,
    "saving": 14000,
    "poplibs": 145100,
    "host": 3800,
    "sweeps": 1700,
    "observer": 2300,
    "show": 142900,
    JAVASCRIPT: 36700,
    "frontends": 169000,
    "estimate": 18250,
    "course: checking": 47450,
    "course: lessons": 117500,
    MISTAKES: 140500,
    "course: classroom": 19200,
    "validation": 21500,
}
QUIET = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
# A token of JavaScript: a text, a number, a name, or a sign. Comments are matched first.
SCRIPT = re.compile(
    r"(?P<comment>//[^\n]*|/\*.*?\*/)|"
    r"(?P<text>'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\"|`(?:\\.|[^`\\])*`)|"
    r"\d[\w.]*|[A-Za-z_$][\w$]*|=>|\.\.\.|[-+*/%&|^=<>!?]+|\S",
    re.DOTALL,
)


class Size(NamedTuple):
    """Tokens of code, and the lines that hold them."""

    tokens: int = 0
    lines: int = 0

    def plus(self, other: Size) -> Size:
        return Size(self.tokens + other.tokens, self.lines + other.lines)


def python_size(text: str) -> Size:
    """Return the size of a module of Python, without its docstrings and comments."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
            docstrings.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    tokens = [
        token
        for token in _whole_strings(tokenize.generate_tokens(io.StringIO(text).readline))
        if token.type not in QUIET and token.start[0] not in docstrings
    ]
    lines = {line for t in tokens for line in range(t.start[0], t.end[0] + 1)}
    return Size(len(tokens), len(lines))


def _whole_strings(tokens: Iterable[tokenize.TokenInfo]) -> Iterator[tokenize.TokenInfo]:
    """Yield the tokens with each f-string as one, as every Python before 3.12 has them."""
    starts, ends = (
        {getattr(tokenize, f"{kind}STRING_{side}", None) for kind in "FT"} - {None}
        for side in ("START", "END")
    )
    depth, first = 0, (0, 0)
    for token in tokens:
        if token.type in starts:
            first, depth = (first if depth else token.start), depth + 1
        elif token.type in ends:
            depth -= 1
            if not depth:
                yield tokenize.TokenInfo(tokenize.STRING, "", first, token.end, token.line)
        elif not depth:
            yield token


def javascript_size(text: str) -> Size:
    """Return the size of a script, without its comments."""
    tokens, lines = 0, set()
    for match in SCRIPT.finditer(text):
        if match["comment"] is None:
            tokens += 1
            first = text.count("\n", 0, match.start()) + 1
            lines.update(range(first, first + match[0].count("\n") + 1))
    return Size(tokens, len(lines))


def room_of(path: str) -> str:
    """Return the room in which a file counts: "ground" for modules outside all packages."""
    top, *parts = Path(path).with_suffix("").parts
    if path.endswith(".js"):
        return JAVASCRIPT
    if top == "validation":
        return top
    if top == "ipu_course" or parts[0] == "lessons":  # `lessons` is the former place of the course
        if re.fullmatch(r"lesson\d\d\w?", parts[0]):
            return MISTAKES if parts[-1] == "mistakes" else "course: lessons"
        return {"classroom": "course: classroom"}.get(parts[0], "course: checking")
    if parts[0] in ("compile", "engine"):
        return ENGINE
    if parts[0] in ("keras", "popart", "poptorch"):  # modules that only import from the frontends
        return "frontends"
    if parts[0] in ("types", "_support"):
        return GROUND
    return parts[0] if len(parts) > 1 or parts[0] == "tiny" else GROUND


def sizes(files: Iterable[tuple[str, str]]) -> dict[str, Size]:
    """Return the size of each room; `files` are (path from the root, text)."""
    result: dict[str, Size] = {}
    for path, text in files:
        if path.endswith((".py", ".js")):
            measured = javascript_size(text) if path.endswith(".js") else python_size(text)
            room = room_of(path)
            result[room] = result.get(room, Size()).plus(measured)
    return result


def files_here() -> Iterator[tuple[str, str]]:
    """Yield (path from the root, text) for the files of the packages."""
    for package in PACKAGES:
        for kind in ("*.py", "*.js"):
            for path in sorted((ROOT / package).rglob(kind)):
                yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")


def files_at(commit: str) -> Iterator[tuple[str, str]]:
    """Yield (present path, text) for the files of the packages at a commit."""
    names = _git("ls-tree", "--name-only", commit).decode().split()
    packages = [name for name in PACKAGES if name in names]
    archive = io.BytesIO(_git("archive", commit, *packages))
    with tarfile.open(fileobj=archive) as members:
        for member in members:
            held = members.extractfile(member)
            if held is not None and member.name.endswith((".py", ".js")):
                yield _present_place(member.name), held.read().decode("utf-8")


def _git(*words: str) -> bytes:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True)
    if done.returncode:
        sys.exit(f"size: git {words[0]} {words[-1]}: {done.stderr.decode().strip()}")
    return done.stdout


def _present_place(path: str) -> str:
    """Return the path that a file of an older commit would have today."""
    for pattern, place in (
        (r"ipu_teach/lessons/mistakes_(\d\d\w?)\.py", r"ipu_course/lesson\1/mistakes.py"),
        (r"ipu_teach/lessons/lesson(\d\d\w?)\.py", r"ipu_course/lesson\1/checks.py"),
        (r"ipu_teach/lessons/(.+)", r"ipu_course/checking/\1"),
        (r"ipu_teach/classroom/(.+)", r"ipu_course/classroom/\1"),
        (r"ipu_teach/(cli|jobs)\.py", r"ipu_course/\1.py"),
        (r"ipu_teach/golden/(.+)", r"validation/\1"),
        (r"ipu_teach/saved/(.+)", r"ipu_teach/saving/\1"),
        (r"ipu_teach/(schema|archive)\.py", r"ipu_teach/saving/\1.py"),
    ):
        if match := re.fullmatch(pattern, path):
            return str(match.expand(place))
    return path


def table(now: dict[str, Size], before: dict[str, Size] | None) -> str:
    """Return a table of the sizes, with the budgets or the sizes before."""
    last = "over" if before is None else "change"
    rows = [("room", "tokens", "budget", last, "lines", "tokens/line")]
    names = [*BUDGETS, *sorted({*now, *(before or ())} - set(BUDGETS))]
    for room in names:
        size, budget = now.get(room, Size()), BUDGETS.get(room, 0)
        change = (
            (max(size.tokens - budget, 0) if budget else 0)
            if before is None
            else size.tokens - before.get(room, Size()).tokens
        )
        rows.append(_row(room, size, f"{budget:,}" if budget else "", change))
    for label, rooms in (
        ("all Python", [name for name in names if name != JAVASCRIPT]),
        ("all", names),
    ):
        total, was = _total(now, rooms), _total(before or {}, rooms)
        change = 0 if before is None else total.tokens - was.tokens
        rows.append(_row(label, total, "", change))
    return "\n".join(
        f"{room:<20}{tokens:>10}{budget:>10}{change:>9}{lines:>9}{dense:>13}".rstrip()
        for room, tokens, budget, change, lines, dense in rows
    )


def _total(found: dict[str, Size], rooms: list[str]) -> Size:
    total = Size()
    for room in rooms:
        total = total.plus(found.get(room, Size()))
    return total


def _row(room: str, size: Size, budget: str, change: int) -> tuple[str, str, str, str, str, str]:
    dense = f"{size.tokens / size.lines:.1f}" if size.lines else ""
    signed = f"{change:+,}" if change else ""
    return room, f"{size.tokens:,}", budget, signed, f"{size.lines:,}", dense


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python3 run.py size", description=(__doc__ or "").split("\n\n")[1]
    )
    parser.add_argument("commit", nargs="?", help="show the change since this commit")
    commit = parser.parse_args().commit
    print(table(sizes(files_here()), sizes(files_at(commit)) if commit else None))


if __name__ == "__main__":
    main()
