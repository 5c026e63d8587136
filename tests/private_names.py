"""Count what tests reach into: python tests/private_names.py [--list]

Tests read as a specification if they use what a reader of the documentation knows. So no test module
imports from another one, and private names of the kit appear only where they are the subject.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from trees import walk

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests"
KIT = ("ipu_teach", "ipu_course", "validation", "bench", "pack", "docs")
# By these methods Jupyter asks an object how to show it. They are public, in spite of their names.
PROTOCOL = {
    "_render_traceback_",
    "_repr_html_",
    "_repr_mimebundle_",
    "_repr_pretty_",
    "_repr_svg_",
}


class Use(NamedTuple):
    """A private name in a file of the tests: its line, and "attribute", "import" or "text"."""

    file: str
    line: int
    kind: str
    name: str


def is_private(name: str) -> bool:
    """Return whether a name is private: it begins with one underscore.

    `_1` and `_2` are not: expressions of popops have them as the names of their operands.
    """
    if name.startswith("__") or name in PROTOCOL:
        return False
    return name.startswith("_") and name.strip("_0123456789") != ""


def tests_imported(source: str) -> list[str]:
    """Return the modules named test_* from which a module imports, or that it imports."""
    names: list[str] = []
    if not re.search(r"(?<!def )\btest_", source):
        return names  # Most modules of tests define such names, and have no others.
    for node in walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names += [f"{node.module or ''}.{alias.name}" for alias in node.names]
    return [name for name in names if any(p.startswith("test_") for p in name.split("."))]


def private_uses(file: str, source: str, known: frozenset[str]) -> Iterator[Use]:
    """Yield the uses of the private names in `known`, except those that the file binds itself.

    Texts count as in `monkeypatch.setattr(module, "_name", value)` and `setattr("module._name", value)`:
    as a later argument, or with a dot.
    """
    written = known.intersection(re.findall(r"\w+", source))
    if not written:
        return
    tree = ast.parse(source)
    others = written - _bound(tree)
    for node in walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in others:
            if not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")):
                yield Use(file, node.lineno, "attribute", node.attr)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if alias.name in others and (node.module or "").split(".")[0] in KIT:
                    yield Use(file, node.lineno, "import", alias.name)
        elif isinstance(node, ast.Call):
            for number, argument in enumerate(node.args):
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    owner, _, name = argument.value.rpartition(".")
                    if name in others and (number or owner):
                        yield Use(file, argument.lineno, "text", name)


def all_private_uses() -> list[Use]:
    """Return the uses of the kit's private names in all files of the tests."""
    return [
        use
        for path in sorted(TESTS.rglob("*.py"))
        for use in private_uses(
            path.relative_to(TESTS).as_posix(), path.read_text(encoding="utf-8"), names_of_kit()
        )
    ]


@cache
def names_of_kit() -> frozenset[str]:
    """Return the private names that the kit binds: functions, classes, variables and attributes."""
    names: set[str] = set()
    for path in [ROOT / "run.py", *(p for top in KIT for p in (ROOT / top).rglob("*.py"))]:
        names |= _bound(ast.parse(path.read_text(encoding="utf-8")))
        names.add(path.stem)
    return frozenset(filter(is_private, names))


def _bound(tree: ast.AST) -> set[str]:
    """Return the names and attributes that a module binds, except those that it imports."""
    names: set[str] = set()
    for node in walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.add(node.attr)
    return names


def main() -> None:
    uses = all_private_uses()
    if "--list" in sys.argv:
        for use in uses:
            print(f"{use.file}:{use.line}: {use.name}")
    for file, count in Counter(use.file for use in uses).most_common():
        print(f"{count:5} {file}")
    print(f"{len(uses):5} uses of private names")


if __name__ == "__main__":
    main()
