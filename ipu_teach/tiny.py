"""A tile machine in one file, to be read from top to bottom. It needs only numpy.

Tiles are small processors, each with its own memory. A program is a sequence of supersteps, and a
superstep has three phases: all tiles wait for each other (sync), numbers move (exchange), and every
tile works on its data (compute).

The names are those of `ipu_teach`. This file leaves out much of it: lists of tensors, state,
streams, other kinds of vertices and programs, checks of the types of fields, a memory limit, a good
model of time, and everything that makes it fast. A program that needs none of these also runs on
`ipu_teach`, with equal values, bytes and races, if this import names `ipu_teach` instead:

    from ipu_teach.tiny import FLOAT, Engine, Graph, Input, IPUModel, Output, Vertex, program
"""

from collections import Counter
from types import SimpleNamespace
from typing import Any, get_type_hints

import numpy as np

WORKERS = 6  # The worker threads of a tile. They take turns: each runs in every sixth cycle.
BYTES_PER_CYCLE = 4  # A tile receives at this rate, and sends at this rate.
SYNC_CYCLES = 100  # All tiles wait for each other during these cycles.
FLOAT, HALF, INT, BOOL = (np.dtype(name) for name in ("float32", "float16", "int32", "bool"))


class MachineError(Exception):
    """The program does something that the machine does not allow."""


def attempt(message: str, function: Any, *args: Any) -> Any:
    """Return function(*args); raise a MachineError with `message` if Python or numpy fails."""
    try:
        return function(*args)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise MachineError(f"{message}: {error}") from error


# --- Tensors, vertices and the graph --------------------------------------------------------------
class Tensor:
    """The numbers of some elements of memory, without their values. A view moves no data."""

    def __init__(self, graph: "Graph", dtype: Any, ids: Any) -> None:
        self.graph, self.dtype, self.ids = graph, dtype, np.asarray(ids)
        self.shape, self.num_elements = self.ids.shape, self.ids.size

    def __getitem__(self, key: Any) -> "Tensor":
        return Tensor(self.graph, self.dtype, attempt("no such element", lambda: self.ids[key]))

    def reshape(self, shape: tuple[int, ...]) -> "Tensor":
        return Tensor(self.graph, self.dtype, attempt("no such shape", self.ids.reshape, shape))

    def transpose(self) -> "Tensor":
        return Tensor(self.graph, self.dtype, self.ids.T)

    def elements(self) -> list[int]:
        return [int(i) for i in self.ids.reshape(-1)]


class Field:
    def __class_getitem__(cls, content: Any) -> Any:
        return cls  # Input[Vector[FLOAT]] is just Input: the tensor has the shape and the type


# fmt: off
class Input(Field): ...   # compute() reads it
class Output(Field): ...  # compute() writes it
class InOut(Field): ...   # compute() reads and writes it
class Vector(Field): ...  # many elements, not one
# fmt: on


class Vertex:
    """A unit of work on one tile. You write a class with fields and a method compute().

    Each field has an array, and an assignment to the field fills this array.
    """

    kinds: Any  # a dict: the name of a field, and Input, Output or InOut

    def __init_subclass__(cls) -> None:
        cls.kinds = {n: k for n, k in get_type_hints(cls).items() if k in (Input, Output, InOut)}

    def __getattr__(self, name: str) -> Any:
        array = vars(self)["arrays"][self.valid_field(name)]
        self.refuse_read(name, array.ndim == 0)  # out[1] = 2 also calls this, and is allowed
        return array[()]  # [()] turns an array without dimensions into a number

    def __setattr__(self, name: str, value: Any) -> None:
        array = vars(self)["arrays"][self.valid_field(name)]
        self.refuse_read(name, getattr(value, "base", None) is array)  # refuse self.out += 1
        array[...] = value

    def valid_field(self, name: str) -> str:
        if name not in self.kinds:
            raise MachineError(f"{type(self).__name__} has no field {name!r}, only {[*self.kinds]}")
        return name

    def refuse_read(self, name: str, is_read: bool) -> None:
        if is_read and self.kinds[name] is Output:
            raise MachineError(f"{type(self).__name__} reads its Output {name!r}: make it an InOut")


class PlacedVertex:
    """A vertex in the graph: its class, the tensors of its fields, its tile and its cycles."""

    def __init__(self, codelet: Any, edges: dict[str, Tensor]) -> None:
        kinds = attempt(f"{codelet} is not a class of vertices", lambda: vars(codelet)["kinds"])
        if edges.keys() != kinds.keys():
            raise MachineError(f"{codelet.__name__} takes {[*kinds]}, but got {[*edges]}")
        self.codelet, self.edges, self.tile = codelet, edges, -1
        self.cycles = 5 + sum(tensor.num_elements for tensor in edges.values())  # a rough guess

    def fields(self, *kinds: Any) -> dict[str, Tensor]:
        """Return the tensors of all fields of these kinds, by the name of the field."""
        return {name: t for name, t in self.edges.items() if self.codelet.kinds[name] in kinds}


class ComputeSet(SimpleNamespace):
    """The vertices of one superstep."""


class Graph:
    """The elements of memory, each with a type, a name and a tile (-1 until it is mapped)."""

    def __init__(self, device: "IPUModel") -> None:
        self.num_tiles = device.num_tiles
        self.dtype, self.name, self.tile = list[Any](), list[str](), list[int]()
        self.initial, self.handles = list[tuple[Tensor, Any]](), dict[str, Tensor]()

    def add_variable(self, dtype: Any, shape: tuple[int, ...], name: str) -> Tensor:
        attempt(f"{name!r} must be FLOAT, HALF, INT or BOOL", [FLOAT, HALF, INT, BOOL].index, dtype)
        first, count = len(self.tile), int(np.prod(shape))
        self.dtype += [dtype] * count
        self.name += [f"element {i} of {name!r}" for i in range(count)]
        self.tile += [-1] * count
        return Tensor(self, dtype, np.arange(first, first + count).reshape(shape))

    def set_tile_mapping(self, item: Tensor | PlacedVertex, tile: int) -> None:
        if tile not in range(self.num_tiles):
            raise MachineError(f"there is no tile {tile!r}, only 0 to {self.num_tiles - 1}")
        if isinstance(item, PlacedVertex):
            item.tile = tile
        else:
            for element in self.expect(Tensor, item).elements():
                self.tile[element] = tile

    def set_initial_value(self, tensor: Tensor, values: Any) -> None:
        self.initial.append((self.expect(Tensor, tensor), values))

    def create_host_read(self, handle: str, tensor: Tensor) -> None:
        self.handles[handle] = self.expect(Tensor, tensor)  # the name that the host uses

    def add_compute_set(self, name: str) -> ComputeSet:
        return ComputeSet(graph=self, name=name, vertices=[])

    def add_vertex(self, compute_set: Any, codelet: Any, **edges: Tensor) -> PlacedVertex:
        vertex = PlacedVertex(codelet, {name: self.expect(Tensor, edges[name]) for name in edges})
        self.expect(ComputeSet, compute_set).vertices.append(vertex)
        return vertex

    def set_perf_estimate(self, vertex: PlacedVertex, cycles: int) -> None:
        vertex.cycles = cycles

    def expect(self, kind: Any, item: Any) -> Any:
        """Return `item`; raise an error unless it is a `kind` of this graph."""
        if not isinstance(item, kind) or item.graph is not self:
            raise MachineError(f"this {type(item).__name__} is not a {kind.__name__} of this graph")
        return item


class IPUModel:
    def __init__(self, ipu_version: str = "ipu2", tiles_per_ipu: int = 1472) -> None:
        self.num_tiles = tiles_per_ipu

    def create_device(self) -> "IPUModel":
        return self


# --- Programs -------------------------------------------------------------------------------------
class Program:
    def __init__(self, *parts: Any) -> None:
        kinds = getattr(self, "kinds", [Program] * len(parts))  # the classes of its parts
        if len(parts) != len(kinds) or not all(map(isinstance, parts, kinds)):
            takes, got = ([kind.__name__ for kind in row] for row in (kinds, map(type, parts)))
            raise MachineError(f"{type(self).__name__} takes {takes}, but got {got}")
        self.parts = parts


# fmt: off
class Sequence(Program): ...                         # part, part, …
class Execute(Program): kinds = (ComputeSet,)
class Copy(Program): kinds = Tensor, Tensor          # source, destination
class Repeat(Program): kinds = int, Program          # count, body
class If(Program): kinds = Tensor, Program, Program  # predicate, then, otherwise
# condition, predicate, body: run condition; while predicate is not 0, run body and condition
class RepeatWhileTrue(Program): kinds = Program, Tensor, Program
# fmt: on


program = SimpleNamespace(**{kind.__name__: kind for kind in Program.__subclasses__()})


# --- The machine ----------------------------------------------------------------------------------
class Engine:
    """A simulator. Its memory is two arrays: each element's value, and whether it was written."""

    def __init__(self, graph: Graph, program: Program) -> None:
        self.graph, self.program, self.steps = graph, program, list[Superstep]()
        self.check(Sequence(program))

    def check(self, node: Program) -> None:
        """Raise an error for a race: an element that is written must be in only one field."""
        for part in node.parts:
            if isinstance(part, Program):
                self.check(part)
            elif isinstance(node, Execute):
                fields = [t for vertex in part.vertices for t in vertex.edges.values()]
                written = [t for v in part.vertices for t in v.fields(Output, InOut).values()]
                count = Counter(e for tensor in fields for e in tensor.elements())
                for e in (e for tensor in written for e in tensor.elements() if count[e] > 1):
                    write = f"{self.graph.name[e]} is written in {part.name!r}"
                    raise MachineError(f"a race: {write}, and is in another field, too")

    def load(self, device: IPUModel) -> None:
        self.values = np.full(len(self.graph.tile), np.nan)  # float64 has all our values exactly
        self.written = np.zeros(len(self.graph.tile), bool)
        for tensor, values in self.graph.initial:
            attempt(f"initial value, shape {tensor.shape}", self.write, tensor, values)

    def run(self) -> None:
        attempt("call load() first", getattr, self, "written")
        self.run_part(self.program)

    def read_tensor(self, handle: str) -> Any:
        if handle not in self.graph.handles:
            raise MachineError(f"no host read is named {handle!r}, only {list(self.graph.handles)}")
        return attempt("call load() first", self.read, self.graph.handles[handle])

    def run_part(self, node: Program) -> None:
        match node, node.parts:
            case Sequence(), parts:
                for part in parts:
                    self.run_part(part)
            case Execute(), [compute_set]:
                self.execute(compute_set)
            case Copy(), [source, destination]:
                self.copy(source, destination)
            case Repeat(), [count, body]:
                for _ in range(count):
                    self.run_part(body)
            case RepeatWhileTrue(), [condition, predicate, body]:
                self.run_part(condition)
                while self.read(predicate):
                    self.run_part(body)
                    self.run_part(condition)
            case If(), [predicate, then, otherwise]:
                self.run_part(then if self.read(predicate) else otherwise)

    def read(self, tensor: Tensor) -> Any:
        for element in (e for e in tensor.elements() if not self.written[e]):
            raise MachineError(f"{self.graph.name[element]} is read, but nothing has written it")
        return np.array(self.values[tensor.ids], tensor.dtype)

    def write(self, tensor: Tensor, values: Any) -> None:
        self.values[tensor.ids], self.written[tensor.ids] = np.asarray(values, tensor.dtype), True

    def copy(self, source: Tensor, destination: Tensor) -> None:
        pair = [(self.graph.expect(Tensor, t).num_elements, t.dtype) for t in (source, destination)]
        if pair[0] != pair[1] or {*source.elements()} & {*destination.elements()}:
            raise MachineError(f"a Copy needs separate tensors of equal size and type, not {pair}")
        step = Superstep("Copy", self.graph)
        for i, element in enumerate(destination.elements()):
            step.move(0, source.reshape((-1,))[i], self.graph.tile[element])
        self.write(destination, self.read(source).reshape(destination.shape))
        self.steps.append(step)

    def execute(self, compute_set: Any) -> None:
        step, results = Superstep(compute_set.name, self.graph), []
        for vertex in compute_set.vertices:
            for tensor in vertex.fields(Input, InOut).values():
                step.move(0, tensor, vertex.tile)
            zeros, ones = self.compute(vertex, 0), self.compute(vertex, 1)
            for name, tensor in vertex.fields(Output, InOut).items():
                step.move(1, tensor, vertex.tile)
                a, b = zeros[name], ones[name]
                stored = (a == b) | (a != a) & (b != b)  # the same in both runs (NaN != NaN)
                results.append((tensor[stored], a[stored]))
            busy = step.busy.setdefault(vertex.tile, [0] * WORKERS)
            busy[busy.index(min(busy))] += vertex.cycles  # the first free worker thread takes it
        # written last, so that no vertex reads a result of the same superstep
        for tensor, values in results:
            self.write(tensor, values)
        self.steps.append(step)

    def compute(self, vertex: PlacedVertex, filling: int) -> dict[str, Any]:
        """Run compute() with Outputs that contain `filling`; return the arrays of the fields."""
        arrays = {name: self.read(tensor) for name, tensor in vertex.fields(Input, InOut).items()}
        for name in vertex.fields(Input):
            arrays[name].flags.writeable = False
        arrays |= {n: np.full(t.shape, filling, t.dtype) for n, t in vertex.fields(Output).items()}
        instance = vertex.codelet()
        vars(instance)["arrays"] = arrays
        attempt(f"{vertex.codelet.__name__}.compute() fails", instance.compute)
        return arrays

    def print_profile_summary(self) -> None:
        row = "{:<20}{:>8}" + "{:>10}" * 4
        print(row.format("superstep", "sync", "exchange", "compute", "cycles", "bytes"))
        for step in self.steps:
            phases = SYNC_CYCLES, step.exchange(), step.compute()
            print(row.format(step.name, *phases, sum(phases), step.received().total()))


class Superstep:
    """The moved data and the work of one superstep. In each phase, the slowest tile decides."""

    def __init__(self, name: str, graph: Graph) -> None:
        self.name, self.graph = name, graph
        self.moves = set[Any](), set[Any]()  # (element, from, to) before compute, and after it
        self.busy = dict[int, list[int]]()  # for each tile, the cycles of its worker threads

    def move(self, phase: int, tensor: Tensor, tile: int) -> None:
        """Move elements to `tile` before compute (phase 0), or back to their tiles (phase 1)."""
        for element in tensor.elements():
            home = self.graph.tile[element]
            if min(home, tile) < 0:
                raise MachineError(f"{self.graph.name[element]}, or its vertex, is on no tile")
            if home != tile:  # a set: two vertices of a tile share a move
                self.moves[phase].add((element, tile, home) if phase else (element, home, tile))

    def traffic(self, phase: int) -> tuple[Counter[int], Counter[int]]:
        """Return (received, sent) bytes by tile; a sent element counts once for all receivers."""
        received, sent, dtype = Counter[int](), Counter[int](), self.graph.dtype
        for element, _, target in self.moves[phase]:
            received[target] += dtype[element].itemsize
        for element, source in {(element, source) for element, source, _ in self.moves[phase]}:
            sent[source] += dtype[element].itemsize
        return received, sent

    def received(self) -> Counter[int]:
        return self.traffic(0)[0] + self.traffic(1)[0]

    def exchange(self) -> int:
        phases = [[0, *got.values(), *sent.values()] for got, sent in map(self.traffic, (0, 1))]
        return sum(-(-max(tiles) // BYTES_PER_CYCLE) for tiles in phases)  # rounded up

    def compute(self) -> int:
        return max((WORKERS * max(busy) for busy in self.busy.values()), default=0)
