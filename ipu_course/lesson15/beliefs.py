"""Gaussian belief propagation on tiles, for lesson 15: codelets and programs.

A network has variables and factors, which exchange messages. Each variable and each factor is a
vertex of the machine. A message is a Gaussian over one variable, given by two numbers: eta is the
mean divided by the variance, and lam is 1 divided by the variance. A variable sums the messages of
its factors. A factor weakens the message of each of its two variables, and passes it to the other
variable.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ipu_teach import FLOAT, Device, Engine, Graph, Input, Output, Tensor, Vector, Vertex
from ipu_teach._support.own_code import add_library
from ipu_teach.program import Execute, Program, Repeat, Sequence as Steps
from ipu_teach.types import Array

# Errors must not show the codelets of this module, because some are answers of lesson 15.
add_library(__name__)

# An edge is (variable, side of this variable, other variable, side of the other variable).
Edge = tuple[int, int, int, int]


class Belief(Vertex):
    """A variable, which sends each factor the sum of the prior and the other factors' messages."""

    prior: Input[Vector[FLOAT]]
    came: Input[Vector[Vector[FLOAT]]]
    sent: Output[Vector[Vector[FLOAT]]]
    belief: Output[Vector[FLOAT]]

    def compute(self) -> None:
        eta = self.prior[0] + self.came[:, 0].sum()
        lam = self.prior[1] + self.came[:, 1].sum()
        self.sent[:, 0] = eta - self.came[:, 0]
        self.sent[:, 1] = lam - self.came[:, 1]
        self.belief[0] = eta / lam
        self.belief[1] = 1 / lam


class Spring(Vertex):
    """A factor that pulls its two variables together."""

    from_a: Input[Vector[FLOAT]]
    from_b: Input[Vector[FLOAT]]
    stiff: Input[FLOAT]
    to_a: Output[Vector[FLOAT]]
    to_b: Output[Vector[FLOAT]]

    def compute(self) -> None:
        self.to_b = self.from_a * (self.stiff / (self.stiff + self.from_a[1]))
        self.to_a = self.from_b * (self.stiff / (self.stiff + self.from_b[1]))


class Robust(Vertex):
    """A factor whose pull is limited: it no longer grows with the distance beyond `far`."""

    from_a: Input[Vector[FLOAT]]
    from_b: Input[Vector[FLOAT]]
    mean_a: Input[FLOAT]
    mean_b: Input[FLOAT]
    stiff: Input[FLOAT]
    far: Input[FLOAT]
    to_a: Output[Vector[FLOAT]]
    to_b: Output[Vector[FLOAT]]

    def compute(self) -> None:
        pull = self.stiff * self.far / np.maximum(abs(self.mean_a - self.mean_b), self.far)
        self.to_b = self.from_a * (pull / (pull + self.from_a[1]))
        self.to_a = self.from_b * (pull / (pull + self.from_b[1]))


def chain(n: int) -> list[Edge]:
    """Return the edges of a chain of `n` variables, each of which is connected to the next one.

    Messages from the previous variable arrive at index 0, and those from the next one at index 1.
    """
    return [(i, 1, i + 1, 0) for i in range(n - 1)]


def grid(height: int, width: int) -> list[Edge]:
    """Return the edges of an image: first those to the right neighbours, then those downwards.

    The sides of a variable (indices of its messages) are 0 left, 1 right, 2 up and 3 down.
    """
    at = np.arange(height * width).reshape(height, width)
    right = zip(at[:, :-1].ravel().tolist(), at[:, 1:].ravel().tolist(), strict=True)
    down = zip(at[:-1].ravel().tolist(), at[1:].ravel().tolist(), strict=True)
    return [(a, 1, b, 0) for a, b in right] + [(a, 3, b, 2) for a, b in down]


def network(
    graph: Graph,
    tensors: dict[str, Tensor],
    edges: Sequence[Edge],
    lies: tuple[Sequence[int], Sequence[int]],
    codelets: tuple[type[Vertex], type[Vertex]],
    rounds: int,
) -> Program:
    """Return a program that executes `rounds` rounds of messages.

    `tensors` maps names to tensors of these shapes: prior [n, 2], came and sent [n, sides, 2],
    belief [n, 2], stiff [edges] and far []. `lies` is (tile of each variable, tile of each factor),
    and `codelets` is (codelet of variables, codelet of factors).
    """
    variables = graph.add_compute_set("variables")
    factors = graph.add_compute_set("factors")
    sent, actual, belief = (tensors[name] for name in ("sent", "came", "belief"))
    for i, tile in enumerate(lies[0]):
        fields = {name: tensors[name][i] for name in ("prior", "came", "sent", "belief")}
        graph.set_tile_mapping(graph.add_vertex(variables, codelets[0], fields), tile)
        for part in fields.values():
            graph.set_tile_mapping(part, tile)
    for k, ((a, i, b, j), tile) in enumerate(zip(edges, lies[1], strict=True)):
        fields = {"from_a": sent[a, i], "from_b": sent[b, j], "stiff": tensors["stiff"][k]}
        fields |= {"to_a": actual[a, i], "to_b": actual[b, j]}
        if "far" in codelets[1].fields:
            fields |= {"mean_a": belief[a, 0], "mean_b": belief[b, 0], "far": tensors["far"]}
        graph.set_tile_mapping(graph.add_vertex(factors, codelets[1], fields), tile)
        graph.set_tile_mapping(tensors["stiff"][k], tile)
    step = Steps(Execute(factors), Execute(variables))
    return Steps(Execute(variables), Repeat(rounds, step))


def messages(
    device: Device,
    prior: Array,
    edges: Sequence[Edge],
    rounds: int,
    codelets: tuple[type[Vertex], type[Vertex]] = (Belief, Spring),
    *,
    stiff: float,
    far: float = 1.0,
    lies: tuple[Sequence[int], Sequence[int]] | None = None,
) -> tuple[Engine, dict[str, Tensor]]:
    """Return `(engine, tensors by name)` for a network; the engine is loaded.

    `prior` [n, 2] has the eta and lam of each variable. Each run of the engine executes `rounds`
    rounds and continues from the previous run. After a run, `read_tensor("belief")` returns the
    means and variances, [n, 2].

    `stiff` is the strength of all springs, and `far` is the distance beyond which the pull of
    robust springs no longer grows.

    `lies` is (tile of each variable, tile of each factor). If it is None, variables are distributed
    over the tiles in order, and each factor is on the tile of its first variable.
    """
    n = len(prior)
    tiles = device.target.num_tiles
    graph = Graph(device)
    sides = 1 + max((max(i, j) for _, i, _, j in edges), default=0)
    shapes: dict[str, tuple[int, ...]] = {"prior": (n, 2), "belief": (n, 2), "far": ()}
    shapes |= {"came": (n, sides, 2), "sent": (n, sides, 2), "stiff": (len(edges),)}
    tensors = {name: graph.add_variable(FLOAT, shape, name) for name, shape in shapes.items()}
    graph.set_tile_mapping(tensors["far"], 0)
    if lies is None:
        dealt = [i * tiles // n for i in range(n)]
        lies = dealt, [dealt[a] for a, *_ in edges]
    program = network(graph, tensors, edges, lies=lies, codelets=codelets, rounds=rounds)
    values: dict[str, Array | float] = {"prior": prior, "came": 0, "stiff": stiff, "far": far}
    for name, value in values.items():
        graph.set_initial_value(tensors[name], np.broadcast_to(value, shapes[name]))
    graph.create_host_read("belief", tensors["belief"])
    engine = Engine(graph, program)
    engine.load(device)
    return engine, tensors
