"""A tile machine in one file, to be read from top to bottom. It needs numpy and nothing else.

Tiles are small processors, each with a memory of its own. A program is a row of supersteps, and a
superstep has three phases: all tiles wait for each other (sync), numbers move (exchange), and every
tile works on what it has (compute).

This is `ipu_teach` without all that makes it fast or comfortable, under the same names. Not here
are lists of tensors, state, streams, other vertices and programs, a memory that fills up, and a
good model of time. A program that keeps to what is here runs on both, by a change of one import,
with equal values, bytes and races:

    from ipu_teach.tiny import FLOAT, Engine, Graph, Input, IPUModel, Output, Vertex, program
    from ipu_teach import FLOAT, Engine, Graph, Input, IPUModel, Output, Vertex, program
"""

from collections import Counter
from types import SimpleNamespace
from typing import Any, get_type_hints

import numpy as np

WORKERS = 6  # of a tile, which take turns: each has every sixth cycle
BYTES_PER_CYCLE = 4  # that a tile can receive, and that it can send
SYNC_CYCLES = 100  # until all tiles have met
FLOAT, HALF, INT, BOOL = (np.dtype(name) for name in ("float32", "float16", "int32", "bool"))


class MachineError(Exception):
    """The program asks for what the machine must not do."""


# --- What a learner builds: tensors, vertices, a graph --------------------------------------------
class Tensor:
    """The numbers of some elements of the machine's memory, and no values: a slice or a transpose
    moves nothing."""

    def __init__(self, graph: "Graph", dtype: Any, ids: Any) -> None:
        self.graph, self.dtype, self.ids = graph, dtype, np.asarray(ids)
        self.shape, self.num_elements = self.ids.shape, self.ids.size

    def __getitem__(self, key: Any) -> "Tensor":
        try:
            return Tensor(self.graph, self.dtype, self.ids[key])
        except IndexError:
            raise MachineError(f"a tensor of shape {self.shape} has no place {key}") from None

    def reshape(self, shape: tuple[int, ...]) -> "Tensor":
        return Tensor(self.graph, self.dtype, self.ids.reshape(shape))

    def transpose(self) -> "Tensor":
        return Tensor(self.graph, self.dtype, self.ids.T)

    def elements(self) -> list[int]:
        return [int(i) for i in self.ids.reshape(-1)]


class Field:
    def __class_getitem__(cls, of_what: Any) -> Any:
        # Input[Vector[FLOAT]] is an Input; of what, the tensor says that is connected to it
        return cls


# fmt: off
class Input(Field): ...   # compute() reads it
class Output(Field): ...  # compute() writes it
class InOut(Field): ...   # both
class Vector(Field): ...  # many elements, not one
# fmt: on


class Vertex:
    """One piece of work on one tile. A learner's class declares fields and writes compute().

    A field is a place, not a name: to assign to it is to fill the place.
    """

    kinds: Any  # Input, Output or InOut, by the name of the field

    def __init_subclass__(cls) -> None:
        cls.kinds = {
            name: kind
            for name, kind in get_type_hints(cls).items()
            if kind in (Input, Output, InOut)
        }

    def __getattr__(self, name: str) -> Any:
        place = vars(self)["places"][self.known(name)]
        self.refuse_read(name, place.ndim == 0)  # of more elements some may be filled: out[1] = 2
        return place[()]  # [()] makes a number of an array without dimensions

    def __setattr__(self, name: str, value: Any) -> None:
        place = vars(self)["places"][self.known(name)]
        self.refuse_read(name, getattr(value, "base", None) is place)  # the second half of +=
        place[...] = value

    def known(self, name: str) -> str:
        if name not in self.kinds:
            raise MachineError(f"{type(self).__name__} has no field {name!r}: {list(self.kinds)}")
        return name

    def refuse_read(self, name: str, is_read: bool) -> None:
        if is_read and self.kinds[name] is Output:
            raise MachineError(f"{type(self).__name__} reads its Output {name!r}: make it an InOut")


class Placed:
    """A vertex in the graph: its class, the tensors of its fields, its tile, how long it takes."""

    def __init__(self, codelet: Any, edges: dict[str, Tensor]) -> None:
        if edges.keys() != codelet.kinds.keys():
            fields = f"{list(codelet.kinds)} and was given {list(edges)}"
            raise MachineError(f"{codelet.__name__} has the fields {fields}")
        self.codelet, self.edges, self.tile = codelet, edges, -1
        self.cycles = 5 + sum(tensor.num_elements for tensor in edges.values())  # a guess

    def fields(self, *kinds: Any) -> dict[str, Tensor]:
        """Those of these kinds."""
        return {name: t for name, t in self.edges.items() if self.codelet.kinds[name] in kinds}


class Graph:
    """Elements, each with a type, a name and a tile (-1: none yet), and the vertices that work on
    them."""

    def __init__(self, device: "IPUModel") -> None:
        self.num_tiles = device.num_tiles
        self.dtype, self.name, self.tile = list[Any](), list[str](), list[int]()
        self.initial, self.handles = list[tuple[Tensor, Any]](), dict[str, Tensor]()

    def add_variable(self, dtype: Any, shape: tuple[int, ...], name: str) -> Tensor:
        first, count = len(self.tile), int(np.prod(shape))
        self.dtype += [dtype] * count
        self.name += [f"element {i} of {name!r}" for i in range(count)]
        self.tile += [-1] * count
        return Tensor(self, dtype, np.arange(first, first + count).reshape(shape))

    def set_tile_mapping(self, what: Tensor | Placed, tile: int) -> None:
        if not 0 <= tile < self.num_tiles:
            raise MachineError(f"there is no tile {tile}, only 0 to {self.num_tiles - 1}")
        if isinstance(what, Placed):
            what.tile = tile
        else:
            for element in what.elements():
                self.tile[element] = tile

    def set_initial_value(self, tensor: Tensor, values: Any) -> None:
        self.initial.append((tensor, values))

    def create_host_read(self, handle: str, tensor: Tensor) -> None:
        self.handles[handle] = tensor  # the name under which the host asks for it

    def add_compute_set(self, name: str) -> Any:
        return SimpleNamespace(name=name, vertices=[])  # the work of one superstep

    def add_vertex(self, compute_set: Any, codelet: Any, **edges: Tensor) -> Placed:
        compute_set.vertices.append(Placed(codelet, edges))
        return compute_set.vertices[-1]  # type: ignore[no-any-return]

    def set_perf_estimate(self, vertex: Placed, cycles: int) -> None:
        vertex.cycles = cycles


class IPUModel:
    # of chips there is one kind here
    def __init__(self, ipu_version: str = "ipu2", tiles_per_ipu: int = 1472) -> None:
        self.num_tiles = tiles_per_ipu

    def create_device(self) -> "IPUModel":
        return self


# --- What runs in which order ---------------------------------------------------------------------
class Program:
    def __init__(self, *parts: Any) -> None:
        self.parts = parts


# fmt: off
class Sequence(Program): ...         # (part, part, …)
class Execute(Program): ...          # (compute set)
class Copy(Program): ...             # (source, destination): tensors of as many elements
class Repeat(Program): ...           # (count, body)
class RepeatWhileTrue(Program): ...  # (condition, predicate, body): condition; while predicate
                                     # is not 0, body and condition
class If(Program): ...               # (predicate, then, otherwise)
# fmt: on


program = SimpleNamespace(**{kind.__name__: kind for kind in Program.__subclasses__()})


# --- The machine ----------------------------------------------------------------------------------
class Engine:
    """Runs a program. What the machine holds is two arrays: the value of each element, and whether
    one was put there."""

    def __init__(self, graph: Graph, program: Program) -> None:
        self.graph, self.program, self.steps = graph, program, list[Superstep]()
        self.check(program)

    def check(self, node: Program) -> None:
        """Races, before anything runs: what is written in a superstep is touched once, by one field
        of one vertex."""
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
        # of 64 bits, which hold all our numbers exactly
        self.values = np.full(len(self.graph.tile), np.nan)
        self.written = np.zeros(len(self.graph.tile), bool)
        for tensor, values in self.graph.initial:
            self.write(tensor, values)

    def run(self) -> None:
        self.go(self.program)

    def read_tensor(self, handle: str) -> Any:
        if handle not in self.graph.handles:
            raise MachineError(f"no tensor is read as {handle!r}: {list(self.graph.handles)}")
        return self.read(self.graph.handles[handle])

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
                # equal whatever was there before; NaN differs from itself
                stored = (a == b) | (a != a) & (b != b)
                results.append((tensor[stored], a[stored]))
            busy = step.busy.setdefault(vertex.tile, [0] * WORKERS)
            # each vertex goes to the worker that is free first
            busy[busy.index(min(busy))] += vertex.cycles
        # only now: no vertex sees what another one has made in the same superstep
        for tensor, values in results:
            self.write(tensor, values)
        self.steps.append(step)

    def compute(self, vertex: Placed, filling: int) -> dict[str, Any]:
        """What is in the fields of a vertex when compute() is done. Before, its outputs are full of
        `filling`."""
        places = {name: self.read(tensor) for name, tensor in vertex.fields(Input, InOut).items()}
        for name in vertex.fields(Input):
            places[name].flags.writeable = False
        for name, tensor in vertex.fields(Output).items():
            places[name] = np.full(tensor.shape, filling, tensor.dtype)
        worker = vertex.codelet()
        vars(worker)["places"] = places
        worker.compute()
        return places

    def print_profile_summary(self) -> None:
        rows: list[Any] = [["superstep", "sync", "exchange", "compute", "cycles", "bytes"]]
        for s in self.steps:
            phases = SYNC_CYCLES, s.exchange(), s.compute()
            rows.append((s.name, *phases, sum(phases), s.received().total()))
        for name, sync, *others in rows:
            print(f"{name:<20}{sync:>8}" + "".join(f"{number:>10}" for number in others))


class Superstep:
    """What moved and what was computed in one superstep, and how long it took: in each phase the
    slowest tile decides."""

    def __init__(self, name: str, graph: Graph) -> None:
        self.name, self.graph = name, graph
        # (element, from tile, to tile) before computing, and after it
        self.moves: tuple[set[Any], set[Any]] = (set(), set())
        self.busy: dict[int, list[int]] = {}  # how many cycles each worker of a tile has to do

    def move(self, phase: int, tensor: Tensor, tile: int) -> None:
        """Before the tiles compute (phase 0) elements come to `tile`; afterwards (phase 1) they go
        from there to their own."""
        for element in tensor.elements():
            home = self.graph.tile[element]
            if min(home, tile) < 0:
                unplaced = f"{self.graph.name[element]}, or a vertex that is connected to it,"
                raise MachineError(f"{unplaced} is on no tile")
            if home != tile:  # into a set: what two vertices of a tile need comes to it once
                self.moves[phase].add((element, tile, home) if phase else (element, home, tile))

    def traffic(self, phase: int) -> tuple[Counter[int], Counter[int]]:
        """The bytes that each tile receives and sends. An element is sent once, however many tiles
        listen."""
        coming, going, size = Counter[int](), Counter[int](), self.graph.dtype
        for element, _, target in self.moves[phase]:
            coming[target] += size[element].itemsize
        for element, source in {(element, source) for element, source, _ in self.moves[phase]}:
            going[source] += size[element].itemsize
        return coming, going

    def received(self) -> Counter[int]:
        return self.traffic(0)[0] + self.traffic(1)[0]

    def exchange(self) -> int:
        busiest = [
            max([*coming.values(), *going.values()], default=0)
            for coming, going in map(self.traffic, (0, 1))
        ]
        # a cycle that has begun is paid
        return sum(-(-moved // BYTES_PER_CYCLE) for moved in busiest)

    def compute(self) -> int:
        return max((WORKERS * max(busy) for busy in self.busy.values()), default=0)
