"""The rooms of the house and what each imports, as a table: python tests/rooms.py

A dot is an import that runs when a program does; those for types alone are left out. Rows go from
the roof to the ground.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("ipu_teach", "ipu_course")
ROOMS = (
    "cli",
    "classroom",
    "course",
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


FACES = ("keras", "popart", "poptorch")  # names by which users import what is in frontends


def modules() -> dict[str, str]:
    """The texts of the package's modules by name."""
    return {name: path.read_text(encoding="utf-8") for name, path in files().items()}


def files() -> dict[str, Path]:
    """The files of the package's modules by name."""
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def room_of(module: str) -> str:
    """The room of a module; what stands beside the rooms is the ground."""
    top, part = (module.split(".") + [""])[:2]
    # the former place of the course is counted with it
    named = {"__main__": "cli", "lessons": "course"} | dict.fromkeys(FACES, "frontends")
    beside = "course" if top == "ipu_course" and part != "jobs" else "ground"
    return part if part in ROOMS else named.get(part, beside)


def imports(
    text: str, known: Collection[str], late: bool = True, types: bool = False
) -> Iterator[tuple[str, str, int]]:
    """(module, name or "", line) for every import of the package at run time; with `late` those
    within functions too, with `types` those for types alone. ruff sees to it that none is
    relative."""
    waiting: list[ast.AST] = [ast.parse(text)]
    while waiting:
        node = waiting.pop()
        if not types and isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting += node.orelse
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in PACKAGES:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield (
                    (inner, "", node.lineno)
                    if inner in known
                    else (str(node.module), alias.name, node.lineno)
                )
        elif isinstance(node, ast.Import):
            yield from (
                (alias.name, "", node.lineno) for alias in node.names if alias.name in known
            )
        elif late or not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            waiting += ast.iter_child_nodes(node)


def doors() -> dict[str, set[str]]:
    """For each room those that it imports."""
    known, found = modules(), {room: set[str]() for room in ROOMS}
    for module, text in known.items():
        found[room_of(module)] |= (
            {room_of(other) for other, _, _ in imports(text, known)}
            if module not in ("ipu_teach", "ipu_teach._api")
            else set()
        )
    return {room: others - {room} for room, others in found.items()}


def back_doors() -> list[str]:
    """Where a room takes a name of another one that begins with an underscore."""
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
    """Modules that import each other when they are imported: a list for each circle."""
    known = modules()
    found = {
        module: {other for other, _, _ in imports(text, known, late=False)} - {module}
        for module, text in known.items()
    }
    reached = {module: set(others) for module, others in found.items()}
    for middle in known:  # after Warshall
        for others in reached.values():
            if middle in others:
                others |= reached[middle]
    around = [
        frozenset(other for other in others if module in reached[other])
        for module, others in reached.items()
    ]
    return sorted(sorted(circle) for circle in set(around) if circle)


def way(words: set[str], run: Callable[[], object]) -> list[str]:
    """The rooms that a value comes to, known by these names, in the order in which `run` first
    comes to the lines that have one of them. What is beside the rooms is told apart."""
    lines, found = {}, [""]
    for module, path in files().items():
        room = room_of(module) if room_of(module) != "ground" else module
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text if any(word in text for word in words) else "")):
            names = {getattr(node, kind, None) for kind in ("id", "attr", "arg")}
            if words & names and not isinstance(node, ast.arg):
                lines[str(path), getattr(node, "lineno", 0)] = room
    entered = {file for file, _ in lines}

    def trace(frame: Any, event: str, _: object) -> Any:
        if frame.f_code.co_filename in entered:
            room = lines.pop((frame.f_code.co_filename, frame.f_lineno), found[-1])
            found.extend([room] * (event == "line" and room != found[-1]))
            return trace
        return None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(before)
    return found[1:]


def table() -> str:
    """The rooms and their imports."""
    found = doors()
    rows = [f"{'imports':<11}" + "".join(f"{room:>10}" for room in ROOMS[2:])]
    rows += [
        f"{room:<11}"
        + "".join(f"{'●' if other in found[room] else '·':>10}" for other in ROOMS[2:])
        for room in ROOMS
    ]
    return "\n".join(row.rstrip() for row in rows)


if __name__ == "__main__":
    print(table())
