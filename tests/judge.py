"""The judge: the simplest possible machine, which runs the kit's own graphs and programs.

It handles one byte and one vertex at a time. It shares no code with `compile`, `cost` and `engine`,
and tests compare all of them with it: values, definedness, races and received bytes. It has no
registers, no stochastic rounding and no cycle stamps.
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
    """A machine with the graph in its memory.

    `memory`, `defined` and `owner` have for each byte its value, whether it is written, and its tile
    (-1: unmapped). `steps` has for each step its name and the bytes that each tile received. `feeds`
    has the arrays of each input stream; `drains` has those that each output stream received, and
    `rows` the rows of remote buffers, by handle and number.
    """

    def __init__(self, graph: Graph, feeds: Mapping[str, Iterable[Array]] | None = None) -> None:
        self.graph = graph
        self.memory = np.zeros(graph.memory_bytes, np.uint8)
        self.defined = np.zeros(graph.memory_bytes, bool)
        self.owner = np.full(graph.memory_bytes, -1)
        self.feeds = {handle: iter(arrays) for handle, arrays in (feeds or {}).items()}
        self.drains = dict[str, list[Array]]()
        self.rows = dict[tuple[str, int], Array]()
        self.steps = list[tuple[str, dict[int, int]]]()
        self.state = dict[tuple[VertexTable, int, str], Array]()
        for v in graph.variables:
            self.flat(v.dtype)[v.start // v.dtype.size : v.stop // v.dtype.size] = poison(v.dtype)
        for start, stop, tile in np.frombuffer(graph.mapping_log, np.int64).reshape(-1, 3):
            self.owner[start:stop] = tile
        for tensor, values in graph.initial_values:
            self.write(tensor, values)

    def flat(self, dtype: type[DType]) -> Array:
        """Return the memory as elements of the dtype."""
        return self.memory[: len(self.memory) // dtype.size * dtype.size].view(dtype.numpy)

    def read(self, tensor: Tensor, checked: bool = False) -> Array:
        """Return the values of a tensor.

        :raises UninitialisedReadError: with `checked`, if any of its bytes is unwritten.
        """
        if checked and not self.defined[bytes_in(tensor)].all():
            raise UninitialisedReadError(f"{tensor!r} is read, and not all of it was written")
        return self.flat(tensor.dtype)[tensor.positions()]

    def write(self, tensor: Tensor, values: Any) -> None:
        """Write the values to a tensor."""
        self.flat(tensor.dtype)[tensor.positions()] = np.reshape(values, tensor.shape)
        self.defined[bytes_in(tensor)] = True

    def run(self, program: p.Program) -> None:
        """Run a program, after a check of all its compute sets for races."""
        self.check_races(program)
        self.go(program)

    def go(self, node: p.Program) -> None:
        """Run a program or a part of one."""
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
        """Copy between tensors, streams and rows of remote buffers."""
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
        """Copy between a tensor and the rows `numbers` of a remote buffer."""
        tensor, buffer = (
            (source, destination) if isinstance(source, Tensor) else (destination, source)
        )
        values = self.read(tensor, tensor is source).reshape(-1)
        for i, number in enumerate(int(n) for n in numbers):
            if not 0 <= number < buffer.repeats:
                raise ApplicationRuntimeError(f"{buffer!r} has no row {number}")
            part = slice(i * buffer.num_elements, (i + 1) * buffer.num_elements)
            key = buffer.handle, number
            if tensor is source:
                self.rows[key] = values[part]
            elif key not in self.rows:
                raise UninitialisedReadError(
                    f"row {number} of {buffer!r} is read, and nothing has written it"
                )
            else:
                self.write(tensor.flatten()[part], self.rows[key])

    def superstep(self, compute_set: ComputeSet) -> list[bool]:
        """Execute a compute set, and return what compute() returned for each vertex."""
        before = set[tuple[int, int]]()
        after = set[tuple[int, int]]()
        results: list[tuple[type[DType], Array, Array]] = []
        answers: list[bool] = []
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
            # Outputs full of ones and full of zeros end up equal where the vertex stored.
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
        """Return the positions of the elements of each part of a field, and the dtype."""
        layout = self.graph.layouts[table.layouts[name][row]]
        parts = [(0, layout)] if isinstance(layout, Layout) else layout.parts
        return [
            table.offsets[name][row] + delta + part.positions for delta, part in parts
        ], table.edges[name].dtype

    def compute(
        self, table: VertexTable, row: int, places: Any, filling: int, state: Any
    ) -> tuple[dict[str, Array], bool]:
        """Return the fields of a vertex after compute(), as vectors, and what it returned.

        Outputs are full of `filling` before. `state` has the values of state fields, and is changed.
        """
        parts, regions = dict[str, list[Array]](), dict[str, Any]()
        for name, (at, dtype) in places.items():
            field = table.edges[name]
            positions = [a if field.depth else a.reshape(()) for a in at]
            is_output = field.kind == "output"
            parts[name] = [
                np.array(
                    np.full(a.shape, filling) if is_output else self.flat(dtype)[a], dtype.numpy
                )
                for a in positions
            ]
            for part in parts[name]:
                part.flags.writeable = field.written
            is_single = isinstance(self.graph.layouts[table.layouts[name][row]], Layout)
            regions[name] = parts[name][0] if is_single else VectorList(parts[name])
        for name, field in table.state.items():
            value = state.get((table, row, name), table.state_values[name][row])
            unwritten = np.full(table.sizes.get((name, row), 0), poison(field.dtype))
            regions[name] = state[table, row, name] = np.array(
                unwritten if value is None else value, field.dtype.numpy
            )
        count = self.graph.target.num_worker_contexts
        record = Record()
        calls: list[Any] = [()]
        if table.codelet.context == "multi":
            calls = [(worker,) for worker in range(count)]
            regions |= {name: record.of(regions[name]) for name in places}
        answers = [
            record.worker(table.codelet.bind(regions, count).compute, *call) for call in calls
        ]
        record.refuse_races(table.codelet)
        values = {
            name: np.concatenate([part.reshape(-1) for part in parts_of_field])
            for name, parts_of_field in parts.items()
        }
        return values, all(answer is None or bool(answer) for answer in answers)

    def check_races(self, program: p.Program) -> None:
        """Check every compute set: only one field of one vertex touches a byte that is written.

        :raises ComputeSetRaceError: if another one does.
        """
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
        """Record a step, from the sets of (tile, byte) that its exchanges bring to the tiles."""
        self.steps.append((name, dict(Counter(tile for phase in moved for tile, _ in phase))))


def bytes_of(positions: list[Array], dtype: type[DType]) -> Array:
    """Return the addresses of the bytes of the elements at these positions."""
    return np.concatenate(
        [(at.reshape(-1, 1) * dtype.size + np.arange(dtype.size)).reshape(-1) for at in positions]
    )


def bytes_in(tensor: Tensor) -> Array:
    """Return the addresses of the bytes of a tensor."""
    return bytes_of([tensor.positions()], tensor.dtype)


def rows_of(compute_set: ComputeSet) -> Iterator[tuple[VertexTable, int]]:
    """Return the vertices of a compute set: a table and the row in it."""
    return ((table, row) for table in compute_set.tables.values() for row in range(len(table)))
