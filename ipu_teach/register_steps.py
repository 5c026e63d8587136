"""Programs that read and set the tiles' registers: floating-point behaviour and random seeds.

Each function appends a compute set to a program, with a vertex on each tile. In a run, a setting is
in force from the step that sets it until the next step that changes it. Before the first such step,
and again after `load`, the engine's options are in force: debug.floatPointOpException,
debug.nanOverflowException, debug.nanOverflowMode, prng.enableStochasticRounding and prng.seed.
"""

from __future__ import annotations

import numpy as np

from ipu_teach._support.flags import flagged
from ipu_teach.errors import ControlProgramError, PoplarTypeError, shown
from ipu_teach.graph import Graph, Tensor
from ipu_teach.graph.layouts import is_whole
from ipu_teach.graph.registers import (
    ESR,
    SEED_WORDS,
    STOP_ON_NANOO,
    FloatingPointBehaviour,
    GetHwSeeds,
    SetFloatingPointBehaviour,
    SetHwSeeds,
)
from ipu_teach.graph.vertex import Vertex
from ipu_teach.program import Execute, Sequence
from ipu_teach.types import UNSIGNED_INT

ALL_BITS = FloatingPointBehaviour().bits | STOP_ON_NANOO

__all__ = [
    "FloatingPointBehaviour",
    "get_hw_seeds",
    "set_floating_point_behaviour",
    "set_hw_seeds",
    "set_stochastic_rounding",
]


def set_floating_point_behaviour(
    graph: Graph,
    prog: Sequence,
    behaviour: FloatingPointBehaviour,
    tile: int | None = None,
    debug_context: str = "set_floating_point_behaviour",
) -> None:
    """Append a step to `prog` that sets the floating-point behaviour of all tiles, or of `tile`.

    The step replaces all settings of a tile. Its modelled cycles are an assumption (see
    `SetFloatingPointBehaviour`). Raises `PoplarTypeError` if `graph` or `behaviour` has another
    type, and `ControlProgramError` if `prog` is not a Sequence or there is no such tile.
    """
    _check("set_floating_point_behaviour", graph, prog)
    if not isinstance(behaviour, FloatingPointBehaviour):
        raise PoplarTypeError(f"""set_floating_point_behaviour() was given {shown(behaviour)} as
            behaviour, which is not a FloatingPointBehaviour.
            next:  give FloatingPointBehaviour(inv=…, div0=…, oflo=…, esr=…, nanoo=…).""")
    if tile is not None and (not is_whole(tile) or not 0 <= tile < graph.target.num_tiles):
        raise ControlProgramError(f"""set_floating_point_behaviour() was given the tile
            {shown(tile)}.
            next:  give a tile from 0 to {graph.target.num_tiles - 1:,}. For all tiles, leave out
            the argument tile.""")
    tiles = None if tile is None else [int(tile)]
    _add(
        graph,
        prog,
        debug_context,
        SetFloatingPointBehaviour,
        tiles,
        clear=ALL_BITS,
        on=behaviour.bits,
    )


@flagged
def set_stochastic_rounding(
    graph: Graph, prog: Sequence, enable: bool, debug_context: str = "set_stochastic_rounding"
) -> None:
    """Append a step to `prog` that switches stochastic rounding of HALF results on or off.

    The step works on all tiles, and does not change other settings. Its modelled number of cycles
    is an assumption, as Graphcore publishes none (see `SetFloatingPointBehaviour`). Raises
    `PoplarTypeError` if `graph` is not a Graph, and `ControlProgramError` if `prog` is not a
    Sequence.
    """
    _check("set_stochastic_rounding", graph, prog)
    _add(graph, prog, debug_context, SetFloatingPointBehaviour, clear=ESR, on=ESR if enable else 0)


def get_hw_seeds(graph: Graph, prog: Sequence, debug_context: str = "get_hw_seeds") -> Tensor:
    """Append a step to `prog` that reads the random seeds of all workers into a new tensor.

    Return the tensor, which is UNSIGNED_INT[tiles, workers, 4]. The seeds of a tile are mapped to
    this tile. To generate again the random numbers that followed this step, pass the tensor to
    `set_hw_seeds`. The cycles of the step are an assumption of the model (see `GetHwSeeds`). Raises
    `PoplarTypeError` if `graph` is not a Graph, and `ControlProgramError` if `prog` is not a
    Sequence.
    """
    _check("get_hw_seeds", graph, prog)
    target = graph.target
    shape = (target.num_tiles, target.num_worker_contexts, SEED_WORDS)
    seeds = graph.add_variable(UNSIGNED_INT, shape, debug_context)
    for tile in range(target.num_tiles):
        graph.set_tile_mapping(seeds[tile], tile)
    _add(graph, prog, debug_context, GetHwSeeds, out=seeds.flatten(1, 3))
    return seeds


def set_hw_seeds(
    graph: Graph, seeds: Tensor, prog: Sequence, debug_context: str = "set_hw_seeds"
) -> None:
    """Append a step to `prog` after which the random numbers of all workers continue from `seeds`.

    `seeds` is UNSIGNED_INT[tiles, workers, 4], as `get_hw_seeds` returns it. The modelled cycles
    are PopLibs' estimate for SetSeed, plus the exchange of seeds that are on other tiles. Raises
    `PoplarTypeError` if `graph` or `seeds` has another type, and `ControlProgramError` if `prog` is
    not a Sequence.
    """
    _check("set_hw_seeds", graph, prog)
    target = graph.target
    shape = (target.num_tiles, target.num_worker_contexts, SEED_WORDS)
    if not isinstance(seeds, Tensor) or seeds.dtype is not UNSIGNED_INT or seeds.shape != shape:
        raise PoplarTypeError(f"""set_hw_seeds() was given {shown(seeds)} as seeds, but it needs a
            tensor of UNSIGNED_INT{list(shape)}, with four words for each worker of each tile.
            next:  give the tensor that get_hw_seeds returned, or create such a tensor with
            graph.add_variable.""")
    _add(graph, prog, debug_context, SetHwSeeds, seeds=seeds.flatten(1, 3))


def _add(
    graph: Graph,
    prog: Sequence,
    name: str,
    codelet: type[Vertex],
    tiles: list[int] | None = None,
    **fields: Tensor | int,
) -> None:
    """Append a compute set named `name` to `prog`, with a vertex of `codelet` on each of `tiles`.

    If `tiles` is None, there is a vertex on every tile. `fields` are the fields of the vertices.
    """
    compute_set = graph.add_compute_set(name)
    graph.add_vertices(
        compute_set,
        codelet,
        np.arange(graph.target.num_tiles) if tiles is None else tiles,
        **fields,
    )
    prog.add(Execute(compute_set))


def _check(function: str, graph: object, prog: object) -> None:
    if not isinstance(graph, Graph):
        raise PoplarTypeError(
            f"{function}() was given {shown(graph)} as graph, which is not a Graph.",
            next_step="give a Graph.",
        )
    if not isinstance(prog, Sequence):
        raise ControlProgramError(f"""{function}() was given {shown(prog)} as prog, which is
            not a Sequence.
            next:  give the Sequence to which to append the step.""")
