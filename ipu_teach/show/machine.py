"""The view `machine`: a tile, an IPU, and machines of 4, 16 and 64 of them, from one to the next as by a zoom.

Each with its parts, and with its pipes, as long as their bandwidth. Figures and sources are those of `target.py`, which says
where Graphcore publishes none and one is assumed.
"""

from __future__ import annotations

import numpy as np

from ipu_teach.device import Device
from ipu_teach.errors import InvalidOptionError, counted, shown
from ipu_teach.show import palette
from ipu_teach.show.scene import Bar, Cells, Drawing, Lanes, Scene, Still
from ipu_teach.show.view import View
from ipu_teach.target import Target, source

CODES = (
    palette.FILL[2].lettered("", "a part of it"),
    palette.COMPUTE.lettered("M", "memory of the tiles"),
    palette.EXCHANGE.lettered("X", "exchange between tiles"),
    palette.LINKS.lettered("L", "links between IPUs"),
    palette.HOST.lettered("H", "link to the host"),
)
PART, FIRST = range(2)  # then a code for each pipe
PIPES = {  # and the figure that says how wide it is
    "memory": "data_path_width",
    "exchange": "exchange_bytes_per_cycle",
    "links": "link_bytes_per_cycle",
    "host": "host_bytes_per_second",
}
SIZES = (0, 1, 4, 16, 64)  # IPUs; 0 is a tile
SIDE, HIGH = 84.0, 124.0  # of the square of its parts, and of a row of the picture


def machine(given: Target | Device) -> View:
    """A machine from a tile to 64 IPUs, whose pipes are as wide as their bandwidth. Raises `InvalidOptionError`."""
    target = given.target if isinstance(given, Device) else given
    if not isinstance(target, Target):
        raise InvalidOptionError(f"""show.machine() was given {shown(given)}, which is no machine.
            next:  give a target or a device: show.machine(device).""")
    return View(_scene(target))


def pipes(target: Target, num_ipus: int) -> list[int]:
    """Bytes a second through all memories of a machine of so many IPUs (0: of a tile), its exchange, links and host."""
    clock, tiles = target.tile_clock_frequency, max(1, num_ipus * target.tiles_per_ipu)
    memory, exchange = tiles * target.data_path_width / 8 * clock, tiles * target.exchange_bytes_per_cycle * clock
    links = num_ipus * target.link_bytes_per_cycle * clock if num_ipus > 1 else 0.0
    return [round(rate) for rate in (memory, exchange, links, target.host_bytes_per_second if num_ipus else 0.0)]


def rate(bytes_a_second: float) -> str:
    """A bandwidth in words: 7.83 TB/s."""
    unit, size = next(((u, s) for u, s in (("TB/s", 1e12), ("GB/s", 1e9)) if bytes_a_second >= s), ("MB/s", 1e6))
    return f"{bytes_a_second / size:.3g} {unit}"


def _scene(target: Target) -> Scene:
    sizes = sorted({*SIZES, target.num_ipus})
    names = ["a tile", *("an IPU" if n == 1 else f"{n} IPUs" for n in sizes[1:])]
    counts = [target.num_worker_contexts, target.tiles_per_ipu, *sizes[2:]]
    marks: list[Cells | Lanes] = []
    cells, lanes, about, drawings, rows, notes = {}, {}, {}, [], [], {}
    for place, (name, size, count) in enumerate(zip(names, sizes, counts, strict=True)):
        columns, y, rates = int(np.ceil(np.sqrt(count))), 34 + HIGH * place, pipes(target, size)
        part = ("worker", "tile", "IPU")[min(place, 2)]
        heading, say = name if size > 1 else f"{name}: {counted(count, part)}", f"{name}: {part} {{i}} of {count:,}"
        marks.append(Cells(f"parts {place}", heading, 16, y, round(SIDE / columns, 2), columns, count, count, say=say))
        marks.append(Lanes(f"pipes {place}", f"bandwidth of {name}", 270, y, 434, SIDE, 4, None, tuple(PIPES), whole=True))
        memory = max(1, size * target.tiles_per_ipu) * target.memory_bytes_per_tile / 2**20
        told = (f"{pipe} {rate(r)}" for pipe, r in zip(PIPES, rates, strict=True) if r)
        notes[name] = f"{name}: {memory:,.1f} MiB of memory, modelled {', '.join(told)}"
        rows += [
            (name, pipe, rate(r), f"{getattr(target, figure):g} {unit(figure)}", source(target.ipu_version, figure))
            for (pipe, figure), r in zip(PIPES.items(), rates, strict=True)
            if r
        ]
        length = np.array([r // 10**6 for r in rates])
        cells[f"parts {place}"] = (PART, 1, PART)
        lanes[f"pipes {place}"] = (place, 0, int(length.max()))
        about[f"pipes {place}"] = (f"{name}, {{label}}: {{rate}} MB/s, modelled", {"rate": length})
        drawings.append(Drawing(int(length.max()), (Bar(FIRST + np.arange(4), 0, length, 0),), "MB/s"))
    note = notes[names[sizes.index(target.num_ipus)]]
    return Scene(
        "machine",
        f"A machine of {target.ipu_version}, from a tile to {names[-1]}",
        f"A machine of {target.ipu_version}, from a tile to {names[-1]}. {'; '.join(notes.values())}.",
        34 + HIGH * len(sizes) - 18,
        CODES,
        tuple(marks),
        (Still("the machine", note, PART, 0, True, cells, lanes, say="{i}", about=about),),
        np.zeros(1, np.int64),
        (("machine", "pipe", "bandwidth", "figure", "source"), tuple(rows)),
        tuple(drawings),
        notes=("The model has one link to the host, however many IPUs there are. Bars are as long as bandwidths, row by row.",),
    )


def unit(figure: str) -> str:
    """The unit of a figure of a machine."""
    return str(Target.__dataclass_fields__[figure].metadata["unit"])
