"""Print which package imports which, as a table: python tests/rooms.py

A dot is an import at run time; imports for types alone are left out. The packages (rooms) are in the
order of their layers, from the top down.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Collection, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from trees import walk

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("ipu_teach", "ipu_course")
ROOMS = (
    "cli",
    "classroom",
    "course",
    "estimate",
    "frontends",
    "show",
    "sweeps",
    "observer",
    "engine",
    "poplibs",
    "host",
    "saving",
    "report",
    "cost",
    "compile",
    "graph",
    "ground",
)


FACES = ("keras", "popart", "poptorch")  # the modules by which users import the frontends


def modules() -> dict[str, str]:
    """Return the text of each module of both packages, by name."""
    return {name: path.read_text(encoding="utf-8") for name, path in files().items()}


def files() -> dict[str, Path]:
    """Return the file of each module of both packages, by name."""
    paths = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            paths[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return paths


def room_of(module: str) -> str:
    """Return the room of a module: "ground" for modules that are in none of the others."""
    top, part = (module.split(".") + [""])[:2]
    # `ipu_teach.lessons` is the former name of the course.
    named = {"__main__": "cli", "lessons": "course"} | dict.fromkeys(FACES, "frontends")
    beside = "course" if top == "ipu_course" and part != "jobs" else "ground"
    return part if part in ROOMS else named.get(part, beside)


def imports(
    text: str, known: Collection[str], late: bool = True, types: bool = False
) -> Iterator[tuple[str, str, int]]:
    """Yield (module, name or "", line) for each import of both packages in `text`.

    `known` are the names of all modules. With `late` imports within functions count, with `types`
    those for types alone. ruff forbids relative imports.
    """
    for node in _import_nodes(text, late, types):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield (
                    (inner, "", node.lineno)
                    if inner in known
                    else (str(node.module), alias.name, node.lineno)
                )
        else:
            yield from (
                (alias.name, "", node.lineno) for alias in node.names if alias.name in known
            )


@cache
def _import_nodes(text: str, late: bool, types: bool) -> list[ast.Import | ast.ImportFrom]:
    """Return the nodes that `imports` looks at. Only statements have statements in them."""
    found = list[ast.Import | ast.ImportFrom]()
    waiting: list[ast.AST] = [ast.parse(text)]
    while waiting:
        node = waiting.pop()
        if not types and isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting += node.orelse
        elif isinstance(node, ast.ImportFrom):
            if (node.module or "").split(".")[0] in PACKAGES:
                found.append(node)
        elif isinstance(node, ast.Import):
            found.append(node)
        elif late or not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for part in ("body", "orelse", "finalbody", "handlers", "cases"):
                inner = getattr(node, part, [])
                waiting += inner if isinstance(inner, list) else []
    return found


def doors() -> dict[str, set[str]]:
    """Return for each room the rooms that it imports; the module `ipu_teach` itself does not count."""
    known = modules()
    imported = {room: set[str]() for room in ROOMS}
    for module, text in known.items():
        if module not in ("ipu_teach", "ipu_teach._api"):
            imported[room_of(module)] |= {room_of(other) for other, _, _ in imports(text, known)}
    return {room: others - {room} for room, others in imported.items()}


def back_doors() -> list[str]:
    """Return the places where a room imports a private name of another one."""
    known = modules()
    return [
        f"{module}, line {line}: {other}.{name}"
        for module, text in known.items()
        for other, name, line in imports(text, known)
        if room_of(module) != room_of(other)
        and any(
            p.startswith("_")
            for p in (*other.split("."), name)
            if not p.endswith("__") and p != "_support"  # for all rooms of both packages
        )
    ]


def circles() -> list[list[str]]:
    """Return the import cycles: for each a list of modules that import each other."""
    known = modules()
    imported = {
        module: {other for other, _, _ in imports(text, known, late=False)} - {module}
        for module, text in known.items()
    }
    reached = {module: set(others) for module, others in imported.items()}
    for middle in known:  # Warshall's algorithm
        for others in reached.values():
            if middle in others:
                others |= reached[middle]
    around = [
        frozenset(other for other in others if module in reached[other])
        for module, others in reached.items()
    ]
    return sorted(sorted(circle) for circle in set(around) if circle)


def way(words: set[str], run: Callable[[], object]) -> list[str]:
    """Return the rooms that handle a value, in the order in which `run` executes their lines.

    A line handles the value if it has one of the names `words`; its first execution counts. Modules
    of the ground count by themselves.
    """
    lines: dict[tuple[str, int], str] = {}
    visited = [""]
    for module, path in files().items():
        room = room_of(module) if room_of(module) != "ground" else module
        text = path.read_text(encoding="utf-8")
        for node in walk(ast.parse(text if any(word in text for word in words) else "")):
            names = {getattr(node, kind, None) for kind in ("id", "attr", "arg")}
            if words & names and not isinstance(node, ast.arg):
                lines[str(path), getattr(node, "lineno", 0)] = room
    traced = {file for file, _ in lines}

    def trace(frame: Any, event: str, _: object) -> Any:
        if frame.f_code.co_filename in traced:
            room = lines.pop((frame.f_code.co_filename, frame.f_lineno), visited[-1])
            if event == "line" and room != visited[-1]:
                visited.append(room)
            return trace
        return None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(before)
    return visited[1:]


def table() -> str:
    """Return the table of the rooms and their imports."""
    imported = doors()
    rows = [f"{'imports':<11}" + "".join(f"{room:>10}" for room in ROOMS[2:])]
    rows += [
        f"{room:<11}"
        + "".join(f"{'●' if other in imported[room] else '·':>10}" for other in ROOMS[2:])
        for room in ROOMS
    ]
    return "\n".join(row.rstrip() for row in rows)


if __name__ == "__main__":
    print(table())
