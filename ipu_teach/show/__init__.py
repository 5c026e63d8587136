"""Pictures for a notebook. Each says in words what it shows, for readers who do not see it.

Beside `tiny`, which prints: a view is a function from a report, a recording or a tensor to a
`Scene`, marks placed once with what changes from frame to frame; three renderers draw all of them,
a poster, a figure for slides and a live player that needs no kernel. Every picture has its sentence
and its table, with the same numbers.

`bsp(report)` is a run as an animation of its supersteps, `bsp(report, other)` two runs on one axis,
`run(recording)` a run with its numbers, which travel and change, `timeline(report)` a run on the
axis of time, to zoom into, `program(report)` its program tree with counts and cycles,
`exchange(report)` who sends what to whom, `balance(report)` why tiles wait, `host(report)` the host
beside the device, `streaming(report)` which rows of streaming memory are on the chip when,
`pipeline(ticks, report)` which stage has which micro-batch when, `ring(report)` which chunk is on
which link between IPUs, `patches(x, matrix)` where the rows of a matrix of patches lie.
`tile(report, tile)` opens a tile, `code(report, Codelet)` has the lines of a codelet with its
prices, `turns(Codelet, element, …)` what the loops of one vertex did, turn by turn.
`memory(report)` says what each tile holds, `liveness(report)` what is live when, `recompute(layers,
kept)` what a chain of layers keeps alive and what that costs, `tiles(tensor)` where each element
lives. `sweep(found)` is a curve over several runs. `numbers(FLOAT, HALF)` are number lines,
`formats(values, HALF)` says which values a dtype holds, and by which factor it holds them all,
`sparse(partitioner, csr)` drops blocks into buckets, `crossing(cycles)` compares products by their
density, `machine(device)` is a zoom from a tile to 64 IPUs. Views of one report on a page follow
each other. `explore(build, …)` puts sliders to any of them. `picture` and `images` are plots.
"""

from ipu_teach.show.balance import balance
from ipu_teach.show.bsp import bsp
from ipu_teach.show.code import code
from ipu_teach.show.exchange import exchange
from ipu_teach.show.explore import Explore, explore
from ipu_teach.show.formats import formats
from ipu_teach.show.host import host
from ipu_teach.show.liveness import liveness
from ipu_teach.show.machine import machine
from ipu_teach.show.memory import memory
from ipu_teach.show.numbers import numbers
from ipu_teach.show.patches import patches
from ipu_teach.show.pipeline import pipeline
from ipu_teach.show.plot import Picture, images, picture
from ipu_teach.show.program import program
from ipu_teach.show.recompute import recompute
from ipu_teach.show.ring import ring
from ipu_teach.show.run import run
from ipu_teach.show.sparse import crossing, sparse
from ipu_teach.show.streaming import streaming
from ipu_teach.show.sweep import sweep
from ipu_teach.show.tile import tile
from ipu_teach.show.tiles import tiles
from ipu_teach.show.timeline import timeline
from ipu_teach.show.turns import turns
from ipu_teach.show.view import View

__all__ = [
    "Explore",
    "Picture",
    "View",
    "balance",
    "bsp",
    "code",
    "crossing",
    "exchange",
    "explore",
    "formats",
    "host",
    "images",
    "liveness",
    "machine",
    "memory",
    "numbers",
    "patches",
    "picture",
    "pipeline",
    "program",
    "recompute",
    "ring",
    "run",
    "sparse",
    "streaming",
    "sweep",
    "tile",
    "tiles",
    "timeline",
    "turns",
]
