"""Pictures for a notebook. Each also says in words what it shows, for readers who do not see it.

Compared with `tiny`, which prints: a view is a function from a report, a recording or a tensor to a
`Scene`. A scene has marks, placed once, and the changes from frame to frame. Three renderers draw
all scenes: a poster, a figure for slides, and a live player that needs no kernel. Every picture has
a sentence and a table with the same numbers.

Views of a run: `bsp(report)` animates its supersteps, `bsp(report, other)` two runs on one axis;
`run(recording)` shows its numbers as they move and change; `timeline(report)` is an axis of time to
zoom into; `program(report)` is the program tree with counts and cycles; `exchange(report)` shows
which tile sends what to which, `balance(report)` why tiles wait, `host(report)` the host beside the
device, `streaming(report)` which rows of streaming memory are on the chip, `pipeline(ticks,
report)` which stage has which micro-batch, `ring(report)` which chunk is on which link between
IPUs.

Views of tiles and codelets: `tile(report, tile)` opens a tile, `code(report, Codelet)` lists the
lines of a codelet with their costs, `turns(Codelet, element, …)` shows the loops of one vertex,
iteration by iteration. Views of memory: `memory(report)` shows the content of each tile,
`liveness(report)` the live variables of each step, `recompute(layers, kept)` what a chain of layers
keeps alive and what that costs, `tiles(tensor)` the tile of each element, `patches(x, matrix)`
where the rows of a matrix of patches are in memory.

Further views: `sweep(found)` is a curve over several runs. `numbers(FLOAT, HALF)` draws number
lines. `formats(values, HALF)` shows which values a dtype holds, and which factor makes it hold them
all. `sparse(partitioner, csr)` distributes blocks over buckets, `crossing(cycles)` compares
products by their density, `machine(device)` zooms from a tile to 64 IPUs. `explore(build, …)` adds
sliders to any view. `picture` and `images` are plots. Views of one report on a page follow each
other.
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
