"""Program steps that read and set the tiles' registers: how floating-point numbers behave, and the
generators' words.

Each function adds a compute set with a vertex on every tile to a program; what it says holds from
there on, in the order in which the program runs, until something else is said. Before that the
engine's options hold: debug.floatPointOpException, debug.nanOverflowMode,
prng.enableStochasticRounding and prng.seed. `load` brings those back.
"""

from __future__ import annotations

from typing import Any

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
    """From here on floating-point numbers behave as `behaviour` says, on every tile, or on `tile`
    alone.

    Modelled cycles: assumed, see `SetFloatingPointBehaviour`. Raises `ControlProgramError` and
    `PoplarTypeError`.
    """
    _check("set_floating_point_behaviour", graph, prog)
    if not isinstance(behaviour, FloatingPointBehaviour):
        raise PoplarTypeError(f"""set_floating_point_behaviour() was given {shown(behaviour)} as
            behaviour.
            next:  give FloatingPointBehaviour(inv=…, div0=…, oflo=…, esr=…, nanoo=…).""")
    if tile is not None and (not is_whole(tile) or not 0 <= tile < graph.target.num_tiles):
        raise ControlProgramError(f"""set_floating_point_behaviour() was given the tile
            {shown(tile)}.
            next:  give a tile from 0 to {graph.target.num_tiles - 1:,}, or leave it out for all of
            them.""")
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
    """From here on what is stored in a half is rounded by chance on every tile, or no more; all
    else stays as it is.

    Modelled cycles: assumed, see `SetFloatingPointBehaviour`. Raises `ControlProgramError` and
    `PoplarTypeError`.
    """
    _check("set_stochastic_rounding", graph, prog)
    _add(graph, prog, debug_context, SetFloatingPointBehaviour, clear=ESR, on=ESR if enable else 0)


def get_hw_seeds(graph: Graph, prog: Sequence, debug_context: str = "get_hw_seeds") -> Tensor:
    """Return the words of every worker's generator at this point of the program: UNSIGNED_INT
    [tiles, workers, 4].

    Given back with `set_hw_seeds`, they make the generators go on from here once more. Each tile
    holds its own. Modelled cycles: assumed, see `GetHwSeeds`. Raises `ControlProgramError` and
    `PoplarTypeError`.
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
    """The generators of all workers go on from `seeds`: UNSIGNED_INT [tiles, workers, 4], as
    `get_hw_seeds` gives them.

    Modelled cycles: PopLibs' estimate for SetSeed, and the exchange of words that lie on other
    tiles. Raises `ControlProgramError` and `PoplarTypeError`.
    """
    _check("set_hw_seeds", graph, prog)
    target = graph.target
    shape = (target.num_tiles, target.num_worker_contexts, SEED_WORDS)
    if not isinstance(seeds, Tensor) or seeds.dtype is not UNSIGNED_INT or seeds.shape != shape:
        raise PoplarTypeError(f"""set_hw_seeds() needs UNSIGNED_INT of shape {shape}: four words for
            each worker of each tile.
            where: {shown(seeds)}
            next:  give what get_hw_seeds returned, or make it with graph.add_variable.""")
    _add(graph, prog, debug_context, SetHwSeeds, seeds=seeds.flatten(1, 3))


def _add(
    graph: Graph, prog: Sequence, name: str, codelet: Any, tiles: Any = None, **fields: Any
) -> None:
    """Add to a program a compute set with a vertex on every tile, or on some."""
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
            f"{function}() was given {shown(graph)} as graph.", next_step="give a Graph."
        )
    if not isinstance(prog, Sequence):
        raise ControlProgramError(f"""{function}() was given {shown(prog)} as prog.
            next:  give a Sequence; the step is added to its end.""")
