"""Helpers for checks on programs: devices, graphs, engines, and example layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ipu_course.checking.calling import Result, answering, call_made
from ipu_course.checking.quoting import quoted, returned
from ipu_course.checking.verdicts import NotYet
from ipu_teach import FLOAT, ComputeSet, Device, Engine, Graph, IPUModel, Tensor
from ipu_teach.poplibs import poplin, popops, poputil
from ipu_teach.program import Program, Sequence as Steps
from ipu_teach.types import Array

TILES = 13
# The number of tiles of a second machine, on which an answer fails if it works only for 13 tiles.
OTHER = 7
WORKERS = 6  # The number of worker threads of a tile.
Programs = Program | Sequence[Program]  # The argument of Engine.
SYNC = 100  # The cycles of a sync, as in Target.auto_sync_delay.
WIDTH = 78  # The number of elements of a layer's input.
BATCH = 26  # The number of inputs in a batch.


def device_of(tiles: int = TILES, ipus: int = 1, **machine: float | str) -> Device:
    """Return a device with `tiles` tiles per IPU; `machine` sets other fields of its target."""
    return IPUModel("ipu2", tiles_per_ipu=tiles, num_ipus=ipus, **machine).create_device()


def graph_of(tiles: int = TILES, ipus: int = 1, replicas: int = 1) -> Graph:
    """Return an empty graph for a machine with `tiles` tiles per IPU."""
    return Graph(device_of(tiles, ipus), replication_factor=replicas)


def tiles_of(graph: Graph, tensor: Tensor) -> Array:
    """Return the tile of each element of `tensor`: int[tensor.shape]."""
    tiles = np.zeros(tensor.num_elements, int)
    for tile, pieces in enumerate(graph.get_tile_mapping(tensor)):
        for begin, end in pieces:
            tiles[begin:end] = tile
    return tiles.reshape(tensor.shape)


def loaded(graph: Graph, program: Programs, description: str) -> Engine:
    """Return a loaded engine for a program that an answer built.

    :raises Broken: if the program cannot be loaded; the cause is then in the learner's answer.
    """
    with answering(description):
        engine = Engine(graph, program)
        engine.load(device_of(graph.target.num_tiles))
    return engine


def run_once(graph: Graph, program: Programs) -> Engine:
    """Run a program of the check itself on the machine of `graph`, and return its engine."""
    engine = Engine(graph, program)
    engine.load_and_run(Device(graph.target))
    return engine


def program_of(answer: Callable[..., Result], description: str, *arguments: object) -> Program:
    """Call `answer` and return the program that it builds.

    :raises NotYet: if the answer returns anything else.
    """
    program = call_made(answer, description, *arguments)
    if not isinstance(program, Program):
        advice = "return the program: a Repeat, a Sequence, …"
        if isinstance(program, ComputeSet):
            advice = "a compute set is not a program: return Execute(compute_set)."
        raise NotYet(description, returned(program), expected="a program", next_step=advice)
    return program


def one_program(returned_value: object, description: str) -> Program:
    """Return the program that an answer returned; a list of programs becomes one sequence.

    :raises NotYet: if the answer returned anything else.
    """
    if isinstance(returned_value, (list, tuple)):
        for part in returned_value:
            if not isinstance(part, Program):
                actual = f"{getattr(part, '__name__', quoted(part))} in the list"
                advice = (
                    "call the function that builds the program, and put the returned program into "
                    "the list."
                )
                raise NotYet(description, actual, expected="only programs", next_step=advice)
        returned_value = Steps(*returned_value)
    if not isinstance(returned_value, Program):
        actual = returned(returned_value)
        raise NotYet(description, actual, expected="a program", next_step="return the program.")
    return returned_value


def all_of(program: Program, around: tuple[Program, ...] = ()) -> Iterator[Program]:
    """Yield `program` and every program inside it, at any depth.

    `around` has the programs that contain `program`.

    :raises NotYet: if a program contains itself.
    """
    if any(program is outer for outer in around):
        why = "a program that contains itself would never end."
        raise NotYet(
            "your program",
            f"a {type(program).__name__} that contains itself",
            why=why,
            next_step="create a new Sequence, and add the program to it.",
        )
    yield program
    for child in program.children():
        yield from all_of(child, (*around, program))


def drawn_layers(layers: int) -> tuple[Array, Array]:
    """Return `(activations, weights)` of random numbers from a fixed seed, both float32.

    Their shapes are [BATCH, WIDTH] and [layers, WIDTH, WIDTH].
    """
    draw = np.random.default_rng(902).standard_normal
    weights = draw((layers, WIDTH, WIDTH)).astype(np.float32) / np.float32(WIDTH**0.5)
    return draw((BATCH, WIDTH)).astype(np.float32), weights


def layer_of(
    graph: Graph, program: Steps, name: str | int = "", rows: int = BATCH, width: int = WIDTH
) -> tuple[Tensor, Tensor, Tensor]:
    """Append the layer `tanh(input @ weights)` to `program`; return its `(input, weights, result)`.

    All three are tensors, mapped over all tiles of the graph.
    """
    x = graph.add_variable(FLOAT, (rows, width), f"x{name}")
    w = graph.add_variable(FLOAT, (width, width), f"w{name}")
    for tensor in (x, w):
        poputil.map_tensor_linearly(graph, tensor)
    y = poplin.mat_mul(graph, x, w, program, debug_context=f"product{name}")
    popops.tanh_in_place(graph, y, program, f"tanh{name}")
    return x, w, y


def gone_through(x: Array, weights: Array) -> Array:
    """Return the output of all layers `tanh(x @ w)` for the input `x`, computed in float64."""
    output: Array = x.astype(np.float64)
    for w in weights:
        output = np.tanh(output @ w)
    return output
