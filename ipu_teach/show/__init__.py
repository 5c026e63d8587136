"""Pictures for a notebook. Each says in words what it shows, for readers who do not see it.

`bsp(report)` is a run as an animation of its supersteps, `bsp(report, other)` two runs on one axis, `timeline(report)` a run
on the axis of time, to zoom into, `program(report)` its program tree with counts and cycles, `exchange(report)` who sends
what to whom, `balance(report)` why tiles wait. `memory(report)` says what each tile holds, `liveness(report)` what is live
when, `tiles(tensor)` where each element lives. `sweep(found)` sets runs side by side, `host(report)` the host beside the
device; `numbers(FLOAT, HALF)` are number lines, `machine(device)` a zoom from a tile to 64 IPUs. Views of one report on a
page follow each other. `explore(build, …)` puts sliders to any of them. `picture` and `images` are ordinary plots.
"""

from ipu_teach.show.balance import balance
from ipu_teach.show.bsp import bsp
from ipu_teach.show.exchange import exchange
from ipu_teach.show.explore import Explore, explore
from ipu_teach.show.host import host
from ipu_teach.show.liveness import liveness
from ipu_teach.show.machine import machine
from ipu_teach.show.memory import memory
from ipu_teach.show.numbers import numbers
from ipu_teach.show.plot import Picture, images, picture
from ipu_teach.show.program import program
from ipu_teach.show.sweep import sweep
from ipu_teach.show.tiles import tiles
from ipu_teach.show.timeline import timeline
from ipu_teach.show.view import View

__all__ = [
    "Explore",
    "Picture",
    "View",
    "balance",
    "bsp",
    "exchange",
    "explore",
    "host",
    "images",
    "liveness",
    "machine",
    "memory",
    "numbers",
    "picture",
    "program",
    "sweep",
    "tiles",
    "timeline",
]
