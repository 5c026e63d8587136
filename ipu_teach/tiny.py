"""A tile machine in one file, to be read from top to bottom. It needs numpy and nothing else.

Tiles are small processors, each with its own memory. A program is a sequence of supersteps, and a
superstep has three phases: all tiles wait for each other (sync), numbers move (exchange), and every
tile works on its data (compute).

This is `ipu_teach` without all that makes it fast or comfortable, under the same names. It leaves
out lists of tensors, state, streams, other vertices and programs, checks of the types of fields, a
limit of memory, and a good model of time. A program that needs none of these also runs on
`ipu_teach`, with equal values, bytes and races, if this import names `ipu_teach` instead:

    from ipu_teach.tiny import FLOAT, Engine, Graph, Input, IPUModel, Output, Vertex, program
"""

from collections import Counter
from types import SimpleNamespace
from typing import Any, get_type_hints

import numpy as np

WORKERS = 6  # The number of workers of a tile. They alternate, so each has every sixth cycle.
BYTES_PER_CYCLE = 4  # A tile receives at this rate, and sends at this rate.
SYNC_CYCLES = 100  # All tiles wait for each other during these cycles.
FLOAT, HALF, INT, BOOL = (np.dtype(name) for name in ("float32", "float16", "int32", "bool"))


class MachineError(Exception):
    """The program does something that the machine does not allow."""


def attempt(what: str, act: Any, *args: Any) -> Any:
    """Return act(*args), and turn errors of Python or numpy into a MachineError."""
    try:
        return act(*args)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise MachineError(f"{what}: {error}") from error


# --- What a learner builds: tensors, vertices, a graph --------------------------------------------
class Tensor:
    """The numbers of some elements of memory, without values: a slice or reshape moves no data."""

    def __init__(self, graph: "Graph", dtype: Any, ids: Any) -> None:
        self.graph, self.dtype, self.ids = graph, dtype, np.asarray(ids)
        self.shape, self.num_elements = self.ids.shape, self.ids.size

    def __getitem__(self, key: Any) -> "Tensor":
        return Tensor(self.graph, self.dtype, attempt("no such place", lambda: self.ids[key]))

    def reshape(self, shape: tuple[int, ...]) -> "Tensor":
        return Tensor(self.graph, self.dtype, attempt("no such shape", self.ids.reshape, shape))

    def transpose(self) -> "Tensor":
        return Tensor(self.graph, self.dtype, self.ids.T)

    def elements(self) -> list[int]:
        return [int(i) for i in self.ids.reshape(-1)]


class Field:
    def __class_getitem__(cls, of_what: Any) -> Any:
        return cls  # Input[Vector[FLOAT]] is Input: the connected tensor has shape and type


# fmt: off
class Input(Field): ...   # compute() reads it
class Output(Field): ...  # compute() writes it
class InOut(Field): ...   # compute() reads and writes it
class Vector(Field): ...  # many elements, not one
# fmt: on


class Vertex:
    """A unit of work on one tile. A learner's class declares fields and writes compute().

    A field is a region of memory, so that an assignment to it fills the region.
    """

    kinds: Any  # Input, Output or InOut, by the name of the field

    def __init_subclass__(cls) -> None:
        cls.kinds = {n: k for n, k in get_type_hints(cls).items() if k in (Input, Output, InOut)}

    def __getattr__(self, name: str) -> Any:
        place = vars(self)["places"][self.known(name)]
        self.refuse_read(name, place.ndim == 0)  # out[1] = 2 reads the vector `out`, and is allowed
        return place[()]  # [()] turns an array without dimensions into a number

    def __setattr__(self, name: str, value: Any) -> None:
        place = vars(self)["places"][self.known(name)]
        self.refuse_read(name, getattr(value, "base", None) is place)  # true of self.out += 1
        place[...] = value

    def known(self, name: str) -> str:
        if name not in self.kinds:
            raise MachineError(f"{type(self).__name__} has no field {name!r}: {list(self.kinds)}")
        return name

    def refuse_read(self, name: str, is_read: bool) -> None:
        if is_read and self.kinds[name] is Output:
            raise MachineError(f"{type(self).__name__} reads its Output {name!r}: make it an InOut")


class Placed:
    """A vertex in the graph: its class, the tensors of its fields, its tile and its cycles."""

    def __init__(self, codelet: Any, edges: dict[str, Tensor]) -> None:
        kinds = attempt(f"{codelet} is not a class of vertices", lambda: vars(codelet)["kinds"])
        if edges.keys() != kinds.keys():
            raise MachineError(f"{codelet.__name__} takes {[*kinds]} and was given {[*edges]}")
        self.codelet, self.edges, self.tile = codelet, edges, -1
        self.cycles = 5 + sum(tensor.num_elements for tensor in edges.values())  # a guess

    def fields(self, *kinds: Any) -> dict[str, Tensor]:
        """Return the tensors of the fields of these kinds, by name."""
        return {name: t for name, t in self.edges.items() if self.codelet.kinds[name] in kinds}


class ComputeSet(SimpleNamespace):
    """The work of one superstep."""


class Graph:
    """The elements of memory, each with a type, a name and a tile (-1 until it is mapped)."""

    def __init__(self, device: "IPUModel") -> None:
        self.num_tiles = device.num_tiles
        self.dtype, self.name, self.tile = list[Any](), list[str](), list[int]()
        self.initial, self.handles = list[tuple[Tensor, Any]](), dict[str, Tensor]()

    def add_variable(self, dtype: Any, shape: tuple[int, ...], name: str) -> Tensor:
        attempt(f"{name!r} needs another type", [FLOAT, HALF, INT, BOOL].index, dtype)
        first, count = len(self.tile), int(np.prod(shape))
        self.dtype += [dtype] * count
        self.name += [f"element {i} of {name!r}" for i in range(count)]
        self.tile += [-1] * count
        return Tensor(self, dtype, np.arange(first, first + count).reshape(shape))

    def set_tile_mapping(self, what: Tensor | Placed, tile: int) -> None:
        if tile not in range(self.num_tiles):
            raise MachineError(f"there is no tile {tile!r}, only 0 to {self.num_tiles - 1}")
        if isinstance(what, Placed):
            what.tile = tile
        else:
            for element in self.own(Tensor, what).elements():
                self.tile[element] = tile

    def set_initial_value(self, tensor: Tensor, values: Any) -> None:
        self.initial.append((self.own(Tensor, tensor), values))

    def create_host_read(self, handle: str, tensor: Tensor) -> None:
        self.handles[handle] = self.own(Tensor, tensor)  # the host's name for the tensor

    def add_compute_set(self, name: str) -> ComputeSet:
        return ComputeSet(graph=self, name=name, vertices=[])

    def add_vertex(self, compute_set: Any, codelet: Any, **edges: Tensor) -> Placed:
        placed = Placed(codelet, {name: self.own(Tensor, edges[name]) for name in edges})
        self.own(ComputeSet, compute_set).vertices.append(placed)
        return placed

    def set_perf_estimate(self, vertex: Placed, cycles: int) -> None:
        vertex.cycles = cycles

    def own(self, kind: Any, what: Any) -> Any:
        """Return `what` if it is a `kind` of this graph, else raise an error."""
        if not isinstance(what, kind) or what.graph is not self:
            raise MachineError(f"this {type(what).__name__} is not a {kind.__name__} of this graph")
        return what


class IPUModel:
    def __init__(self, ipu_version: str = "ipu2", tiles_per_ipu: int = 1472) -> None:
        self.num_tiles = tiles_per_ipu

    def create_device(self) -> "IPUModel":
        return self


# --- What runs in which order ---------------------------------------------------------------------
class Program:
    def __init__(self, *parts: Any) -> None:
        takes = getattr(self, "takes", [Program] * len(parts))  # the classes of its parts
        if len(parts) != len(takes) or not all(map(isinstance, parts, takes)):
            due, given = ([kind.__name__ for kind in row] for row in (takes, map(type, parts)))
            raise MachineError(f"{type(self).__name__} takes {due} and was given {given}")
        self.parts = parts


# fmt: off
class Sequence(Program): ...                         # part, part, …
class Execute(Program): takes = (ComputeSet,)
class Copy(Program): takes = Tensor, Tensor          # source, destination
class Repeat(Program): takes = int, Program          # count, body
class If(Program): takes = Tensor, Program, Program  # predicate, then, otherwise
# condition, predicate, body: run condition; while predicate is not 0, run body and condition
class RepeatWhileTrue(Program): takes = Program, Tensor, Program
# fmt: on


program = SimpleNamespace(**{kind.__name__: kind for kind in Program.__subclasses__()})


# --- The machine ----------------------------------------------------------------------------------
class Engine:
    """A simulator. Memory is two arrays: the value of each element, and whether it was written."""

    def __init__(self, graph: Graph, program: Program) -> None:
        self.graph, self.program, self.steps = graph, program, list[Superstep]()
        self.check(Sequence(program))

    def check(self, node: Program) -> None:
        """Raise an error for a race: a superstep's written elements are in one field only."""
        for part in node.parts:
            if isinstance(part, Program):
                self.check(part)
            elif isinstance(node, Execute):
                edges = [t for vertex in part.vertices for t in vertex.edges.values()]
                outs = [t for v in part.vertices for t in v.fields(Output, InOut).values()]
                touched = Counter(e for tensor in edges for e in tensor.elements())
                for e in (e for tensor in outs for e in tensor.elements() if touched[e] > 1):
                    said = f"{self.graph.name[e]} is written in {part.name!r}"
                    raise MachineError(f"a race: {said}, and touched once more")

    def load(self, device: IPUModel) -> None:
        self.values = np.full(len(self.graph.tile), np.nan)  # 64 bits hold our numbers exactly
        self.written = np.zeros(len(self.graph.tile), bool)
        for tensor, values in self.graph.initial:
            attempt(f"initial value, shape {tensor.shape}", self.write, tensor, values)

    def run(self) -> None:
        attempt("load() comes first", getattr, self, "written")
        self.go(self.program)

    def read_tensor(self, handle: str) -> Any:
        if handle not in self.graph.handles:
            raise MachineError(f"no tensor is read as {handle!r}: {list(self.graph.handles)}")
        return attempt("load() comes first", self.read, self.graph.handles[handle])

    def go(self, node: Program) -> None:
        match node, node.parts:
            case Sequence(), parts:
                for part in parts:
                    self.go(part)
            case Execute(), [compute_set]:
                self.execute(compute_set)
            case Copy(), [source, destination]:
                self.copy(source, destination)
            case Repeat(), [count, body]:
                for _ in range(count):
                    self.go(body)
            case RepeatWhileTrue(), [condition, predicate, body]:
                self.go(condition)
                while self.read(predicate):
                    self.go(body)
                    self.go(condition)
            case If(), [predicate, then, otherwise]:
                self.go(then if self.read(predicate) else otherwise)

    def read(self, tensor: Tensor) -> Any:
        for element in (e for e in tensor.elements() if not self.written[e]):
            raise MachineError(f"{self.graph.name[element]} is read, and nothing has written it")
        return np.array(self.values[tensor.ids], tensor.dtype)

    def write(self, tensor: Tensor, values: Any) -> None:
        self.values[tensor.ids], self.written[tensor.ids] = np.asarray(values, tensor.dtype), True

    def copy(self, source: Tensor, destination: Tensor) -> None:
        ends = [(self.graph.own(Tensor, t).num_elements, t.dtype) for t in (source, destination)]
        if ends[0] != ends[1] or {*source.elements()} & {*destination.elements()}:
            raise MachineError(f"a Copy is to other elements, as many and of one type: not {ends}")
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
                stored = (a == b) | (a != a) & (b != b)  # equal in both; NaN differs from itself
                results.append((tensor[stored], a[stored]))
            busy = step.busy.setdefault(vertex.tile, [0] * WORKERS)
            busy[busy.index(min(busy))] += vertex.cycles  # the worker that is free first takes it
        # written last, so that no vertex sees another one's result of the same superstep
        for tensor, values in results:
            self.write(tensor, values)
        self.steps.append(step)

    def compute(self, vertex: Placed, filling: int) -> dict[str, Any]:
        """Return the fields after compute(), which starts with outputs that contain `filling`."""
        places = {name: self.read(tensor) for name, tensor in vertex.fields(Input, InOut).items()}
        for name in vertex.fields(Input):
            places[name].flags.writeable = False
        places |= {n: np.full(t.shape, filling, t.dtype) for n, t in vertex.fields(Output).items()}
        worker = vertex.codelet()
        vars(worker)["places"] = places
        attempt(f"{vertex.codelet.__name__}.compute() fails", worker.compute)
        return places

    def print_profile_summary(self) -> None:
        row = "{:<20}{:>8}" + "{:>10}" * 4
        print(row.format("superstep", "sync", "exchange", "compute", "cycles", "bytes"))
        for s in self.steps:
            phases = SYNC_CYCLES, s.exchange(), s.compute()
            print(row.format(s.name, *phases, sum(phases), s.received().total()))


class Superstep:
    """The data moved and the work done in one superstep; in each phase the slowest tile decides."""

    def __init__(self, name: str, graph: Graph) -> None:
        self.name, self.graph = name, graph
        self.moves = set[Any](), set[Any]()  # (element, from, to) before computing, and after it
        self.busy = dict[int, list[int]]()  # the cycles of work of each worker of a tile

    def move(self, phase: int, tensor: Tensor, tile: int) -> None:
        """Move elements to `tile` before compute (phase 0), or back from it (phase 1)."""
        for element in tensor.elements():
            home = self.graph.tile[element]
            if min(home, tile) < 0:
                raise MachineError(f"{self.graph.name[element]}, or its vertex, is on no tile")
            if home != tile:  # a set: two vertices of a tile share what moves
                self.moves[phase].add((element, tile, home) if phase else (element, home, tile))

    def traffic(self, phase: int) -> tuple[Counter[int], Counter[int]]:
        """Return the bytes that each tile receives and sends; an element is sent once to all."""
        coming, going, size = Counter[int](), Counter[int](), self.graph.dtype
        for element, _, target in self.moves[phase]:
            coming[target] += size[element].itemsize
        for element, source in {(element, source) for element, source, _ in self.moves[phase]}:
            going[source] += size[element].itemsize
        return coming, going

    def received(self) -> Counter[int]:
        return self.traffic(0)[0] + self.traffic(1)[0]

    def exchange(self) -> int:
        phases = [[0, *come.values(), *go.values()] for come, go in map(self.traffic, (0, 1))]
        return sum(-(-max(tiles) // BYTES_PER_CYCLE) for tiles in phases)  # rounded up

    def compute(self) -> int:
        return max((WORKERS * max(busy) for busy in self.busy.values()), default=0)
