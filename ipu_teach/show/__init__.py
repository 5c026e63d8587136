"""The pictures of programs and runs that a notebook shows.

Compared with `tiny`, which prints text, most public functions of this package, such as
`bsp(report)`, take a report, a recording, a tensor or a device, and return a `View`. A view
contains a `Scene`: the picture as data. Three renderers draw every scene: an SVG file, a matplotlib
figure for slides, and a live player that needs no kernel. Every picture comes with a sentence and a
table that contain the same numbers.

The modules of this package use these terms:

- A *mark* is an element of a picture with a fixed position, such as a grid of cells.
- A *still* is one state of all marks: the colours of the cells, the bars, the messages, the texts.
- A *frame* is one step of the animation. A frame shows a still, and is stored as the number of this
  still.
- The *poster* is the frame at which the picture rests. It is the only frame shown where pictures
  cannot move.
- A *code* is a colour with a name, a letter and a pattern. The word is also used for the index of
  the code in `Scene.codes`.
- A *lane* is a horizontal row of bars along an axis of cycles or bytes.
- A *cell* is a square that stands for a tile, for several neighbouring tiles, or for an element.
- A *stretch* is a group of consecutive supersteps that begins and ends where all IPUs wait for each
  other. On one IPU, it is a single superstep.

Views of a run:

- `bsp(report)` animates the supersteps; `bsp(report, other)` shows two runs on one time axis.
- `run(recording)` shows the numbers of a recorded run as they move and change.
- `timeline(report)` has a time axis that you can zoom into.
- `program(report)` is the program tree with counts and cycles.
- `exchange(report)` shows which tile sends which amount of data to which tile.
- `balance(report)` shows why tiles wait.
- `host(report)` shows the work of the host next to that of the device.
- `streaming(report)` shows which rows of streaming memory are on the chip.
- `pipeline(ticks, report)` shows which stage has which micro-batch.
- `ring(report)` shows which chunk is on which link between IPUs.

Views of tiles, codelets and memory:

- `tile(report, tile)` shows the worker threads, the memory and the code of a tile.
- `code(report, Codelet)` lists the lines of a codelet with their costs.
- `turns(Codelet, element, …)` shows the loops of one vertex, iteration by iteration.
- `memory(report)` shows the content of each tile's memory.
- `liveness(report)` shows the live variables in each step.
- `recompute(layers, kept)` shows which activations of a chain of layers are alive, and the cost.
- `tiles(tensor)` shows the tile of each element.
- `patches(x, matrix)` shows where the rows of a matrix of image patches are in memory.

Further views:

- `estimate(found)` shows the layers of a network that was not built, by cost, and its memory.
- `estimates(found)` compares several such networks or settings by kinds of time and by memory.
- `sweep(found)` is a curve over several runs.
- `numbers(FLOAT, HALF)` draws number lines.
- `formats(values, HALF)` shows which values a dtype can represent, and which factor makes all of
  them representable.
- `sparse(partitioner, csr)` shows how the blocks of a sparse matrix are distributed over buckets.
- `crossing(cycles)` compares products by the density of their matrices.
- `machine(device)` zooms out from a tile to 64 IPUs.
- `explore(build, …)` adds sliders to any view.
- `picture` and `images` are plots.

If a page contains several views of the same report, choosing a superstep in one of them also
chooses it in the others.
"""

from ipu_teach.show.balance import balance
from ipu_teach.show.bsp import bsp
from ipu_teach.show.code import code
from ipu_teach.show.estimate import estimate
from ipu_teach.show.estimates import estimates
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
    "estimate",
    "estimates",
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
