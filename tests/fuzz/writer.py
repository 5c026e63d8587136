"""Write a random program as lines of code, to be made smaller line by line and printed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
from graphs import random_view

from fuzz.pool import LISTS, POOL, Entry
from ipu_teach.types import Array

TYPES = ("FLOAT", "FLOAT", "HALF", "INT", "BOOL", "UNSIGNED_INT", "SHORT", "UNSIGNED_CHAR")
ARGUMENT = re.compile(r"(?<![\w'.])(-?\d+|[A-Z]+|True|False|[tscvpr]\d+)(?![\w'(])")
MISFITS = (
    "-1",
    "0",
    "1",
    "7",
    "40",
    "1.5",
    "None",
    "'x'",
    "[]",
    "(2, 3)",
    "np.nan",
    "True",
    "FLOAT",
    "INT",
    "graph",
    "Vertex",
)


@dataclass(frozen=True)
class View:
    """The text of a tensor, and the numbers of its elements by numpy's own indexing."""

    text: str
    ids: Array

    def __getitem__(self, key: tuple[Any, ...]) -> View:
        return View(f"{self.text}[{', '.join(map(_index, key))}]", self.ids[key])

    def shuffled(self, order: Sequence[int]) -> View:
        return View(f"{self.text}.dim_shuffle({list(order)})", self.ids.transpose(order))

    def flat(self) -> View:
        return View(f"{self.text}.flatten()", self.ids.reshape(-1))

    def beside(self, other: View, dim: int) -> View:
        return joined([self, other], dim)

    def reshaped(self, shape: tuple[int, ...]) -> View:
        return (
            self
            if shape == self.ids.shape
            else View(f"{self.text}.reshape({shape})", self.ids.reshape(shape))
        )


def _index(key: Any) -> str:
    if key is Ellipsis:
        return "..."
    if not isinstance(key, slice):
        return str(key)
    first, last = ("" if bound is None else str(bound) for bound in (key.start, key.stop))
    return f"{first}:{last}" + ("" if key.step is None else f":{key.step}")


def joined(views: Sequence[View], dim: int) -> View:
    return View(
        f"concat([{', '.join(v.text for v in views)}], {dim})",
        np.concatenate([v.ids for v in views], dim),
    )


class Writer:
    """Writes one program.

    Its `lines` define `device`, `graph`, `program`, and the dict `feeds` for the input streams.
    """

    def __init__(self, seed: int) -> None:
        self.rng = rng = Random(seed)
        ipus, tiles = rng.choice([1, 1, 2, 3]), rng.randint(1, 5)
        self.tiles = ipus * tiles
        own = Random(f"transfers {seed}")
        pattern, aside = (
            own.choice(["FULL", "SINGLE_PIPELINE"]),
            own.choice([0, own.randrange(tiles)]),
        )
        machine = f"num_ipus={ipus}, sync_pattern={pattern!r}, io_tiles={aside}"
        self.lines = [
            f"device = IPUModel(tiles_per_ipu={tiles}, {machine}).create_device()",
            "graph = Graph(device)",
            "feeds = {}",
        ]
        self.known: dict[str, list[View]] = {}  # variables, by dtype
        self.elements = self.numbers = 0
        self.careful = rng.random() < 0.85  # the program has no races
        self.sure = rng.random() < 0.6  # all variables have initial values
        for _ in range(rng.randint(1, 4)):
            self.variable(
                rng.choice(TYPES),
                tuple(rng.choice([1, 2, 3, 5, 8, 13]) for _ in range(rng.randint(1, 3))),
            )
        self.add("program = Sequence()")
        for _ in range(rng.randint(1, 3)):
            self.part("program", 2)

    def add(self, line: str) -> None:
        self.lines.append(line)

    def name(self, letter: str) -> str:
        self.numbers += 1
        return f"{letter}{self.numbers}"

    # Tensors

    def variable(self, dtype: str, shape: tuple[int, ...]) -> View:
        name, rng = self.name("t"), self.rng
        count = int(np.prod(shape, dtype=int))
        view = View(name, np.arange(self.elements, self.elements + count).reshape(shape))
        self.elements += count
        self.add(f"{name} = graph.add_variable({dtype}, {shape}, {name!r})")
        self.add(f"graph.set_tile_mapping({name}, {rng.randrange(self.tiles)})")
        for _ in range(rng.randrange(3) if count else 0):
            self.add(f"graph.set_tile_mapping({self.view(view).text}, {rng.randrange(self.tiles)})")
        if self.sure or rng.random() < 0.85:
            self.add(
                f"graph.set_initial_value({name}, random_values(Random({rng.randrange(1000)}), "
                f"{dtype}, {shape}))"
            )
        self.known.setdefault(dtype, []).append(view)
        return view

    def view(self, view: View) -> View:
        return random_view(self.rng, view)

    def region(self, dtype: str, shape: tuple[int, ...], avoid: set[int]) -> View:
        """Return elements in this shape, none of them in `avoid`.

        They belong to old variables or to a new one.
        """
        size, rng = int(np.prod(shape, dtype=int)), self.rng
        for _ in range(2 if self.known.get(dtype) else 0):
            flat = self.view(rng.choice(self.known[dtype])).flat()
            if flat.ids.size >= size:
                first = rng.randrange(flat.ids.size - size + 1)
                found = flat[(slice(first, first + size),)] if size else flat[(slice(0, 0),)]
                if not set(found.ids.tolist()) & avoid:
                    return found[(0,)] if shape == () else found.reshaped(shape)
        return self.laid(dtype, shape)

    def laid(self, dtype: str, shape: tuple[int, ...]) -> View:
        """Return a new region, arranged in one of the ways that graphs use."""
        rng, way = self.rng, self.rng.randrange(5)
        if way == 0:
            return self.variable(dtype, (rng.randint(1, 3), *shape))[(0,)]
        if way == 1:
            return self.variable(dtype, (*shape, rng.randint(1, 3)))[(..., -1)]  # strided
        if way == 2 and shape:
            return self.variable(dtype, shape)[(slice(None, None, -1),)]
        if way == 3 and shape and shape[0] > 1:
            cut = rng.randrange(1, shape[0])
            return joined(
                [
                    self.variable(dtype, (cut, *shape[1:])),
                    self.variable(dtype, (shape[0] - cut, *shape[1:])),
                ],
                0,
            )
        return self.variable(dtype, shape)

    # Programs

    def part(self, into: str, depth: int) -> None:
        """Append a random program to the Sequence `into`."""
        rng, kind = self.rng, self.rng.randrange(12 if depth else 8)
        if kind < 3:
            answer = f", {self.single('BOOL', False)}" if rng.random() < 0.1 else ""
            self.add(f"{into}.add(Execute({self.compute_set()}{answer}))")
        elif kind < 5:
            dtype = rng.choice(TYPES)
            self.copy(into, dtype, self.region(dtype, (rng.randrange(12),), set()))
        elif kind == 5:
            self.stream(into) if rng.random() < 0.7 else self.rows(into)
        elif kind == 6:
            dtype = rng.choice(list(self.known))
            some = self.region(dtype, (rng.randint(1, 12),), set())
            self.add(f"{into}.add(WriteUndef({some.text}))")
            if rng.random() < 0.7:  # it is written again, at least in part
                self.copy(into, dtype, some if rng.random() < 0.5 else self.view(some).flat())
        elif kind == 7:
            condition = self.single("INT", 0 if rng.random() < 0.8 else 7)
            self.add(f"{into}.add(AbortOnCondition({condition}, 'enough'))")
        elif kind == 8:
            body = self.body(depth)
            self.add(f"{into}.add(Repeat({rng.randrange(4)}, {body}))")
        elif kind == 9:
            first, second, flag = (
                self.body(depth),
                self.body(depth),
                self.single("BOOL", rng.random() < 0.5),
            )
            self.add(f"{into}.add(If({flag}, {first}, {second}))")
        elif kind == 10:
            first, second, control = (
                self.body(depth),
                self.body(depth),
                self.single("INT", rng.randrange(3)),
            )
            made = rng.choice(["Switch", "Switch.switch_with_bounds_checking"])
            self.add(f"{into}.add({made}({control}, [(0, {first}), (1, {second})]))")
        else:
            self.loop(into, depth)

    def copy(self, into: str, dtype: str, target: View) -> None:
        source = self.region(dtype, target.ids.shape, set(target.ids.reshape(-1).tolist()))
        self.add(f"{into}.add(Copy({source.text}, {target.text}))")

    def body(self, depth: int) -> str:
        name = self.name("p")
        self.add(f"{name} = Sequence()")
        for _ in range(self.rng.randint(1, 2)):
            self.part(name, depth - 1)
        return name

    def single(self, dtype: str, value: object) -> str:
        """Return an element that decides a branch or a loop.

        Nothing else writes it, so loops end.
        """
        name = self.name("s")
        self.add(f"{name} = graph.add_variable({dtype}, (), {name!r})")
        self.add(f"graph.set_tile_mapping({name}, {self.rng.randrange(self.tiles)})")
        if self.sure or self.rng.random() < 0.95:
            self.add(f"graph.set_initial_value({name}, {value})")
        return name

    def loop(self, into: str, depth: int) -> None:
        left, more, down = (
            self.single("INT", self.rng.randint(0, 3)),
            self.single("INT", 1),
            self.name("c"),
        )
        self.add(f"{down} = graph.add_compute_set({down!r})")
        self.add(
            f"graph.set_tile_mapping(graph.add_vertex({down}, CountDown, left={left}, "
            f"more={more}), 0)"
        )
        if self.rng.random() < 0.8:
            self.add(f"{into}.add(RepeatWhileTrue(Execute({down}), {more}, {self.body(depth)}))")
            return
        done, body = self.single("INT", 0), self.body(depth)
        self.add(f"{into}.add(RepeatWhileFalse(Copy({done}, {more}), {more}, {body}))")
        self.add(f"{body}.add(Copy({self.single('INT', 1)}, {done}))")

    def stream(self, into: str) -> None:
        dtype = self.rng.choice(list(self.known))
        tensor = self.region(dtype, (self.rng.randint(1, 9),), set())
        name, size = self.name("f"), tensor.ids.size
        if self.rng.random() < 0.5:
            self.add(
                f"feeds[{name!r}] = [random_values(Random(seed), {dtype}, ({size},)) for seed in "
                "range(3)]"
            )
            self.add(
                f"{into}.add(Copy(graph.add_host_to_device_fifo({name!r}, {dtype}, {size}), "
                f"{tensor.text}))"
            )
        else:
            self.add(
                f"{into}.add(Copy({tensor.text}, graph.add_device_to_host_fifo({name!r}, {dtype}, "
                f"{size})))"
            )

    def rows(self, into: str) -> None:
        dtype, name, rows = (
            self.rng.choice(list(self.known)),
            self.name("r"),
            self.rng.randint(1, 2),
        )
        buffer = f"graph.add_remote_buffer({name!r}, {dtype}, 3, 4)"
        offset = self.single("UNSIGNED_INT", self.rng.choice([0, 1, 3, 4]))
        there, back = (self.region(dtype, (3 * rows,), set()).text for _ in range(2))
        offsets = f"concat([{offset}.reshape((1,))] * {rows})"
        self.add(f"{name} = {buffer}")
        self.add(f"{into}.add(Copy({there}, {name}, {offsets}))")
        self.add(f"{into}.add(Copy({name}, {back}, {offsets}))")

    def compute_set(self) -> str:
        name = self.name("c")
        self.add(f"{name} = graph.add_compute_set({name!r})")
        read: set[int] = set()
        written: set[int] = set()
        for _ in range(self.rng.randint(1, 3)):
            entry = self.rng.choice(POOL)
            n, k = (
                self.rng.choice(entry.sizes),
                6 if entry.name == "Workers" else self.rng.randint(1, 3),
            )
            for _ in range(self.rng.choice([1, 1, 2, 5])):
                self.vertex(
                    name, entry, {"": (), "n": (n,), "k": (k,), "kn": (k, n)}, read, written
                )
        return name

    def vertex(
        self,
        compute_set: str,
        entry: Entry,
        shapes: dict[str, tuple[int, ...]],
        read: set[int],
        written: set[int],
    ) -> None:
        edges = []
        for name, size in entry.fields.items():
            field, touched = (
                entry.codelet.fields[name],
                written if entry.codelet.fields[name].written else read,
            )
            avoid = (written | read if field.written else written) if self.careful else set()
            if entry.name in LISTS and size == "kn":
                parts = [
                    self.region(field.dtype.__name__, (self.rng.randrange(4),), avoid)
                    for _ in range(2)
                ]
                parts = (
                    parts[:1] if set(parts[0].ids.tolist()) & set(parts[1].ids.tolist()) else parts
                )
                edges.append(f"{name}=[{', '.join(part.text for part in parts)}]")
            else:
                parts = [self.region(field.dtype.__name__, shapes[size], avoid)]
                edges.append(f"{name}={parts[0].text}")
            touched.update(element for part in parts for element in part.ids.reshape(-1).tolist())
        name = self.name("v")
        self.add(f"{name} = graph.add_vertex({compute_set}, {entry.name}, {', '.join(edges)})")
        self.add(f"graph.set_tile_mapping({name}, {self.rng.randrange(self.tiles)})")
        if self.rng.random() < 0.3:
            self.add(f"graph.set_perf_estimate({name}, {self.rng.randrange(60)})")


def program(seed: int) -> tuple[list[str], bool]:
    """Return the lines of program number `seed`, and whether it is spoiled: each tenth is."""
    lines = Writer(seed).lines
    return (spoiled(lines, Random(seed)), True) if seed % 10 == 9 else (lines, False)


def spoiled(lines: list[str], rng: Random) -> list[str]:
    """Return the program with one or two wrong arguments; loops still end."""
    lines = list(lines)
    kept = ("random_", "RepeatWhile", "CountDown")
    for _ in range(rng.randint(1, 2)):
        places = [
            (i, m)
            for i, line in enumerate(lines)
            if not any(map(line.count, kept))
            for m in ARGUMENT.finditer(line, 4)
        ]
        number, found = rng.choice(places)
        others = [m.group() for _, m in places if not m.group().isdecimal()]
        lines[number] = (
            lines[number][: found.start()]
            + rng.choice([*MISFITS, *others[:9]])
            + lines[number][found.end() :]
        )
    return lines
