"""The judge: the machine as plainly as it can be told, over the kit's own graphs and programs.

Every byte by itself, every vertex in turn. It shares no code with `compile`, `cost` and `engine`,
and all of them are compared with it: values, definedness, races, received bytes. It knows no
registers, rounds nothing by chance, and stamps no times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from recording import Record

from ipu_teach import ComputeSet, Graph, Tensor, program as p
from ipu_teach.errors import ApplicationRuntimeError, ComputeSetRaceError, UninitialisedReadError
from ipu_teach.graph import DataStream, RemoteBuffer, VectorList
from ipu_teach.graph.layouts import Layout
from ipu_teach.graph.vertex_table import VertexTable
from ipu_teach.types import Array, DType, poison


class Judge:
    """`memory`, `defined`, `owner`: what each byte holds, whether it was written, its tile.
    `steps`: (name, {tile: bytes})."""

    def __init__(self, graph: Graph, feeds: Mapping[str, Iterable[Array]] | None = None) -> None:
        self.graph = graph
        self.memory, self.defined = (
            np.zeros(graph.memory_bytes, np.uint8),
            np.zeros(graph.memory_bytes, bool),
        )
        self.owner = np.full(graph.memory_bytes, -1)
        self.feeds = {handle: iter(arrays) for handle, arrays in (feeds or {}).items()}
        # by stream; by remote buffer and row
        self.drains, self.rows = dict[str, list[Array]](), dict[tuple[str, int], Array]()
        self.steps, self.state = (
            list[tuple[str, dict[int, int]]](),
            dict[tuple[VertexTable, int, str], Array](),
        )
        for v in graph.variables:
            self.flat(v.dtype)[v.start // v.dtype.size : v.stop // v.dtype.size] = poison(v.dtype)
        for start, stop, tile in np.frombuffer(graph.mapping_log, np.int64).reshape(-1, 3):
            self.owner[start:stop] = tile
        for tensor, values in graph.initial_values:
            self.write(tensor, values)

    def flat(self, dtype: type[DType]) -> Array:
        return self.memory[: len(self.memory) // dtype.size * dtype.size].view(dtype.numpy)

    def read(self, tensor: Tensor, checked: bool = False) -> Array:
        if checked and not self.defined[bytes_in(tensor)].all():
            raise UninitialisedReadError(f"{tensor!r} is read, and not all of it was written")
        return self.flat(tensor.dtype)[tensor.positions()]

    def write(self, tensor: Tensor, values: Any) -> None:
        self.flat(tensor.dtype)[tensor.positions()] = np.reshape(values, tensor.shape)
        self.defined[bytes_in(tensor)] = True

    def run(self, program: p.Program) -> None:
        self.check_races(program)
        self.go(program)

    def go(self, node: p.Program) -> None:
        match node:
            case p.Execute():
                answers = self.superstep(node.compute_set)
                if node.out is not None:
                    self.write(node.out, all(answers))
            case p.Copy():
                self.copy(node)
            case p.Repeat():
                for _ in range(node.count):
                    self.go(node.body)
            case p.RepeatWhileTrue() | p.RepeatWhileFalse():
                self.go(node.condition)
                while bool(self.read(node.predicate, True)) is isinstance(node, p.RepeatWhileTrue):
                    self.go(node.body)
                    self.go(node.condition)
            case p.If():
                self.go(node.then if self.read(node.predicate, True) else node.otherwise)
            case p.Switch():
                number = int(self.read(node.control, True))
                if number not in node.cases and node.checked:
                    raise ApplicationRuntimeError(f"there is no case {number}")
                self.go(node.cases.get(number, node.default))
            case p.WriteUndef():
                self.write(node.tensor, np.full(node.tensor.shape, poison(node.tensor.dtype)))
                self.defined[bytes_in(node.tensor)] = False
            case p.PrintTensor():
                self.read(node.tensor, True)
            case p.AbortOnCondition():
                if self.read(node.predicate, True):
                    raise ApplicationRuntimeError(node.message)
            case _:
                for child in node.children():
                    self.go(child)
                if isinstance(node, (p.Abort, p.ErrorProgram)):
                    raise ApplicationRuntimeError(node.message)

    def copy(self, node: p.Copy) -> None:
        source, destination = node.source, node.destination
        if isinstance(source, RemoteBuffer) or isinstance(destination, RemoteBuffer):
            self.copy_rows(
                source,
                destination,
                [0] if node.offset is None else self.read(node.offset, True).reshape(-1),
            )
        elif isinstance(source, DataStream):
            self.write(destination, next(self.feeds[source.handle]))
        elif isinstance(destination, DataStream):
            self.drains.setdefault(destination.handle, []).append(self.read(source, True))
        else:
            moved = zip(
                self.owner[bytes_in(destination)].tolist(), bytes_in(source).tolist(), strict=True
            )
            self.note("Copy", {(tile, byte) for tile, byte in moved if self.owner[byte] != tile})
            self.write(destination, self.read(source, True))

    def copy_rows(self, source: Any, destination: Any, numbers: Iterable[Any]) -> None:
        tensor, buffer = (
            (source, destination) if isinstance(source, Tensor) else (destination, source)
        )
        held = self.read(tensor, tensor is source).reshape(-1)
        for i, number in enumerate(int(n) for n in numbers):
            if not 0 <= number < buffer.repeats:
                raise ApplicationRuntimeError(f"{buffer!r} has no row {number}")
            part, key = (
                slice(i * buffer.num_elements, (i + 1) * buffer.num_elements),
                (buffer.handle, number),
            )
            if tensor is source:
                self.rows[key] = held[part]
            elif key not in self.rows:
                raise UninitialisedReadError(
                    f"row {number} of {buffer!r} is read, and nothing has written it"
                )
            else:
                self.write(tensor.flatten()[part], self.rows[key])

    def superstep(self, compute_set: ComputeSet) -> list[bool]:
        before, after, results, answers = set(), set(), [], []
        vertices = [
            (t, row, {name: self.places(t, row, name) for name in t.edges})
            for t, row in rows_of(compute_set)
        ]
        for table, row, places in vertices:
            for name, place in places.items():
                kind, region, tile = table.edges[name].kind, bytes_of(*place), table.tiles[row]
                elsewhere = region[self.owner[region] != tile].tolist()
                if kind != "output":
                    before |= {(tile, byte) for byte in elsewhere}
                    if not self.defined[region].all():
                        raise UninitialisedReadError(
                            f"{table.codelet.__name__}.{name} reads what nothing has written"
                        )
                if kind != "input":
                    after |= {(int(self.owner[byte]), byte) for byte in elsewhere}
        for table, row, places in vertices:
            # what is the same beside it was stored
            ones, _ = self.compute(table, row, places, 1, dict(self.state))
            zeros, answer = self.compute(table, row, places, 0, self.state)
            answers += [answer]
            for a, b, (at, dtype) in [
                (zeros[n], ones[n], places[n]) for n, field in table.edges.items() if field.written
            ]:
                stored = (a == b) | (a != a) & (b != b)
                results.append(
                    (dtype, np.concatenate([part.reshape(-1) for part in at])[stored], a[stored])
                )
        for dtype, at, values in results:
            self.flat(dtype)[at] = values
            self.defined[bytes_of([at], dtype)] = True
        self.note(compute_set.name, before, after)
        return answers

    def places(self, table: VertexTable, row: int, name: str) -> tuple[list[Array], type[DType]]:
        """What a field is connected to: for each of its parts the positions of the elements, and
        their dtype."""
        layout = self.graph.layouts[table.layouts[name][row]]
        parts = [(0, layout)] if isinstance(layout, Layout) else layout.parts
        return [
            table.offsets[name][row] + delta + part.positions for delta, part in parts
        ], table.edges[name].dtype

    def compute(
        self, table: VertexTable, row: int, places: Any, filling: int, state: Any
    ) -> tuple[dict[str, Array], bool]:
        """What is in the fields of a vertex after compute(), flat, and its answer. Before, outputs
        are full of `filling`."""
        parts, regions = dict[str, list[Array]](), dict[str, Any]()
        for name, (at, dtype) in places.items():
            field, there = (
                table.edges[name],
                [a if table.edges[name].depth else a.reshape(()) for a in at],
            )
            filled = field.kind == "output"
            parts[name] = [
                np.array(np.full(a.shape, filling) if filled else self.flat(dtype)[a], dtype.numpy)
                for a in there
            ]
            for part in parts[name]:
                part.flags.writeable = field.written
            one = isinstance(self.graph.layouts[table.layouts[name][row]], Layout)
            regions[name] = parts[name][0] if one else VectorList(parts[name])
        for name, field in table.state.items():
            held = state.get((table, row, name), table.state_values[name][row])
            empty = np.full(table.sizes.get((name, row), 0), poison(field.dtype))
            regions[name] = state[table, row, name] = np.array(
                empty if held is None else held, field.dtype.numpy
            )
        count, record, multi = (
            self.graph.target.num_worker_contexts,
            Record(),
            table.codelet.context == "multi",
        )
        calls: list[Any] = [(worker,) for worker in range(count)] if multi else [()]
        regions |= {name: record.of(regions[name]) for name in places if multi}
        answers = [
            record.worker(table.codelet.bind(regions, count).compute, *call) for call in calls
        ]
        record.refuse_races(table.codelet)
        found = {
            name: np.concatenate([part.reshape(-1) for part in given])
            for name, given in parts.items()
        }
        return found, all(answer is None or bool(answer) for answer in answers)

    def check_races(self, program: p.Program) -> None:
        """What is written in a compute set is touched once: by one field of one vertex."""
        for child in program.children():
            self.check_races(child)
        rows = rows_of(program.compute_set) if isinstance(program, p.Execute) else ()
        fields = [
            (f.written, bytes_of(*self.places(t, row, f.name)).tolist())
            for t, row in rows
            for f in t.edges.values()
        ]
        touched = Counter(
            byte for written, region in fields for byte in (region if written else set(region))
        )
        if any(touched[byte] > 1 for written, region in fields if written for byte in region):
            raise ComputeSetRaceError(
                f"in {program!r} something is written that is touched once more"
            )

    def note(self, name: str, *moved: set[tuple[int, int]]) -> None:
        """A step ran in which bytes came to tiles, each once to each: sets of (tile, byte)."""
        self.steps.append((name, dict(Counter(tile for phase in moved for tile, _ in phase))))


def bytes_of(positions: list[Array], dtype: type[DType]) -> Array:
    return np.concatenate(
        [(at.reshape(-1, 1) * dtype.size + np.arange(dtype.size)).reshape(-1) for at in positions]
    )


def bytes_in(tensor: Tensor) -> Array:
    return bytes_of([tensor.positions()], tensor.dtype)


def rows_of(compute_set: ComputeSet) -> Iterator[tuple[VertexTable, int]]:
    return ((table, row) for table in compute_set.tables.values() for row in range(len(table)))
