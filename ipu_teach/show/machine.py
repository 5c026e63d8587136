"""The view `machine`: a zoom from a tile to an IPU, and to machines of 4, 16 and 64 IPUs.

Each size is drawn with its parts, and with pipes, which are connections whose width shows their
bandwidth. The first part is the next smaller size. Below are the links of a machine of several
IPUs, and the bytes that a run sends over them. The constants and their sources come from
`target.py`. If Graphcore has published no value of a constant, `target.py` says that its value is
assumed.
"""

from __future__ import annotations

import numpy as np

from ipu_teach.cost.links import link_rate
from ipu_teach.device import Device, target_of
from ipu_teach.errors import InvalidOptionError, counted, shown
from ipu_teach.report import Report
from ipu_teach.show import palette
from ipu_teach.show.ladder import BESIDE, LOADS, Ladder
from ipu_teach.show.measures import SIDE
from ipu_teach.show.panels import Panels
from ipu_teach.show.scene import Scene, Still, Zoom
from ipu_teach.show.view import View
from ipu_teach.target import GIVEN, MACHINES, TORUS, Target, ground, source

CODES = (
    palette.VARIABLES.lettered("M", "memory of the tiles"),
    palette.EXCHANGE.lettered("X", "exchange between tiles"),
    palette.LINKS.lettered("L", "links between IPUs"),
    palette.HOST.lettered("H", "link to the host"),
    palette.FILL[2].lettered("P", "a part of it"),
    palette.FILL[0].lettered("B", "the size before"),
    *LOADS,
)
PIPES = {  # Maps each pipe to the target's constant that determines its bandwidth.
    "memory": "data_path_width",
    "exchange": "exchange_bytes_per_cycle",
    "links": "link_bytes_per_cycle",
    "host": "host_bytes_per_second",
}
# The numbers of IPUs that can be shown. 0 stands for a single tile.
SIZES = (0, 1, 4, 16, 64)


def machine(given: Target | Device | Report) -> View:
    """How fast is each path between memories, tiles, IPUs and the host?

    The view zooms out from a tile to 64 IPUs. Paths are drawn as pipes, whose width shows the
    bandwidth. Machines of several IPUs are drawn with their links. For a report, the view shows the
    machine on which the program ran, and how long each link is busy in the run. A bandwidth is the
    sum over all tiles, IPUs or links.

    :raises InvalidOptionError: if the argument is not a target, a device or a report.
    """
    report = given if isinstance(given, Report) else None
    target = report.target if report else target_of(given)
    if target is None:
        raise InvalidOptionError(f"""show.machine() was given {shown(given)}, which is not a
            machine.
            next:  give a target, a device or a report: show.machine(device).""")
    return View(_scene(target, report))


def pipes(target: Target, num_ipus: int) -> list[int]:
    """Return the bytes per second of the memories, the exchange, the links and the host links.

    Each number is the sum over a machine of `num_ipus` IPUs; 0 IPUs means a single tile.
    """
    clock = target.tile_clock_frequency
    tiles = max(1, num_ipus * target.tiles_per_ipu)
    memory = tiles * target.data_path_width / 8 * clock
    exchange = tiles * target.exchange_bytes_per_cycle * clock
    rungs, rails = rungs_and_rails(target, num_ipus)
    links = (rungs * target.link_bytes_per_cycle + rails * target.rail_bytes_per_cycle) * clock
    host = num_ipus * target.host_bytes_per_second
    return [round(rate) for rate in (memory, exchange, links, host)]


def rungs_and_rails(target: Target, num_ipus: int) -> tuple[int, int]:
    """Return `(rungs, rails)`: the numbers of links in a machine of `num_ipus` IPUs.

    The IPUs form a ladder: a rung joins the two IPUs of a pair, and a rail joins neighbouring
    pairs.
    """
    is_ring = target.ipu_link_topology == TORUS and num_ipus > 4
    return num_ipus // 2, max(0, num_ipus - 2) + 2 * is_ring


def rate(bytes_a_second: float) -> str:
    """Return a bandwidth with its unit, such as 7.83 TB/s."""
    unit, size = next(
        ((u, s) for u, s in (("PB/s", 1e15), ("TB/s", 1e12), ("GB/s", 1e9)) if bytes_a_second >= s),
        ("MB/s", 1e6),
    )
    return f"{bytes_a_second / size:.3g} {unit}"


class _Pipes:
    """The pipes of a machine in several sizes, which are connections drawn with their bandwidth.

    Attributes:
        figures: for each pipe, a text with the bandwidth of one tile, link or IPU.
        sources: for each pipe, a text with the source of this bandwidth, such as a publication.
        stills: a still for each size.
        rows: the rows of the table.
        rates: the bandwidth of each pipe as a string, size by size.
        descriptions: a sentence about each pipe, size by size.
        notes: for each size, a text with the memory and the bandwidths.
    """

    def __init__(self, target: Target, names: list[str], sizes: list[int]) -> None:
        self.figures = _figures(target)
        self.sources = {pipe: _source(target, figure) for pipe, figure in PIPES.items()}
        self.sources["links"] = f"rung {self.sources['links']}"
        self.stills = list[Still]()
        self.rows = list[tuple[str, ...]]()
        self.rates = list[str]()
        self.descriptions = list[str]()
        self.notes = list[str]()
        for name, size in zip(names, sizes, strict=True):
            bytes_per_second = pipes(target, size)
            mebibytes = max(1, size * target.tiles_per_ipu) * target.memory_bytes_per_tile / 2**20
            rate_of = {
                pipe: rate(r) if r else "none"
                for pipe, r in zip(PIPES, bytes_per_second, strict=True)
            }
            self.rates += rate_of.values()
            for pipe, text in rate_of.items():
                source = (
                    ""
                    if text == "none"
                    else f", modelled; {self.figures[pipe]}; {self.sources[pipe]}"
                )
                self.descriptions.append(f"{name}, {pipe}: {text}{source}.")
            self.rows += [
                (name, pipe, r, self.figures[pipe], self.sources[pipe])
                for pipe, r in rate_of.items()
                if r != "none"
            ]
            rate_texts = ", ".join(f"{pipe} {r}" for pipe, r in rate_of.items() if r != "none")
            self.notes.append(f"{mebibytes:,.1f} MiB of memory, modelled {rate_texts}")
            self.stills.append(
                Still(
                    name,
                    self.notes[-1],
                    4,
                    0,
                    first=True,
                    values={"rate": np.array([r // 10**6 for r in bytes_per_second])},
                )
            )


def _link_rows(
    ladder: Ladder, target: Target, machine_name: str, *, has_report: bool
) -> list[tuple[str, ...]]:
    """Return a table row for each link between IPUs, with its traffic if there is a report."""
    rows = list[tuple[str, ...]]()
    for link in ladder.links:
        figure = "link_bytes_per_cycle" if link[0] ^ link[1] == 1 else "rail_bytes_per_cycle"
        bandwidth = rate(link_rate(link, target) * target.tile_clock_frequency)
        rows.append(
            (
                machine_name,
                "IPU {} to IPU {}".format(*link),
                bandwidth,
                ladder.said(link)
                if has_report
                else f"{getattr(target, figure):,.10g} {unit(figure)}",
                _source(target, figure),
            )
        )
    return rows


def _scene(target: Target, report: Report | None) -> Scene:
    """Return the scene of a machine, with the traffic of its links if there is a report."""
    sizes = sorted({*SIZES, target.num_ipus})
    names = ["a tile", *("an IPU" if n == 1 else f"{n} IPUs" for n in sizes[1:])]
    counts = (target.num_worker_contexts, target.tiles_per_ipu, *sizes[2:])
    parts = (counted(n, ("worker", "tile", "IPU")[min(i, 2)]) for i, n in enumerate(counts))
    captions = [f"{name}: {part}" for name, part in zip(names, parts, strict=True)]
    captions[1:] = [
        f"{caption if i == 0 else names[i + 1]}; each bandwidth is that of all together"
        for i, caption in enumerate(captions[1:])
    ]
    pipes_shown = _Pipes(target, names, sizes)
    figures, sources = pipes_shown.figures, pipes_shown.sources
    notes, rows = pipes_shown.notes, pipes_shown.rows
    figure_texts = tuple(f"{figures[p]}; {sources[p]}" for p in PIPES)
    zoom = Zoom(
        "zoom",
        count=len(PIPES),
        names=tuple(captions),
        counts=counts,
        labels=tuple(PIPES),
        figures=figure_texts,
        rates=tuple(pipes_shown.rates),
        told=tuple(pipes_shown.descriptions),
        codes=(0, 1, 2, 3),
        part=4,
        first=5,
    )
    panels = Panels()
    panels.put(zoom, high=SIDE)
    sentence = ""
    if target.num_ipus > 1:
        ladder = Ladder(target, report)
        sentence = ladder.sentence()
        panels.below()
        heading = _ladder_heading(target)
        panels.put(ladder.mark(heading, first=len(CODES) - len(LOADS), plain=2, ipu=4))
        machine_name = names[sizes.index(target.num_ipus)]
        rows += _link_rows(ladder, target, machine_name, has_report=report is not None)
    called = f"A {MACHINES[target.machine][0]}" if target.machine else "A machine"
    title = f"{called} of {target.ipu_version}, from a tile to {names[-1]}"
    return panels.scene(
        "machine",
        f"{called} of {target.ipu_version}: {_finding(target)}",
        f"{title}. {'; '.join(f'{n}: {note}' for n, note in zip(names, notes, strict=True))}."
        + sentence,
        foot=16,
        codes=CODES,
        stills=pipes_shown.stills,
        poster=sizes.index(target.num_ipus),
        table=(("machine", "pipe", "bandwidth", "figure", "source"), rows),
        group="size",
        notes=(
            "The memory and the exchange of tiles, and the links of IPUs, add up over the machine. "
            "Each IPU has its own link to the host. Pipes are as wide as their bandwidth, size by "
            "size, and at least a pixel.",
            *((BESIDE,) if target.num_ipus > 1 else ()),
        ),
    )


def _figures(target: Target) -> dict[str, str]:
    """Return a dict that maps each pipe to a text with the bandwidth of one tile, link or IPU."""
    memory, exchange, *_ = pipes(target, 0)
    rung, rail = _link_rates(target)
    return {
        "memory": f"{rate(memory)} a tile ({target.data_path_width:,.10g} bits a cycle)",
        "exchange": (
            f"{rate(exchange)} a tile, each way "
            f"({target.exchange_bytes_per_cycle:,.10g} bytes a cycle)"
        ),
        "links": f"{rung} a rung, {rail} a rail, each way",
        "host": f"{rate(target.host_bytes_per_second)} an IPU",
    }


def _link_rates(target: Target) -> tuple[str, str]:
    """Return the bandwidths of a link within a pair of IPUs and between two pairs, as strings.

    In the ladder that the IPUs form, these links are a rung and a rail. The bandwidths are those of
    one direction.
    """
    clock = target.tile_clock_frequency
    return (
        rate(target.link_bytes_per_cycle * clock),
        rate(target.rail_bytes_per_cycle * clock),
    )


def _ladder_heading(target: Target) -> str:
    """Return the heading of the links: how many rungs and rails there are, and their bandwidths.

    A rung is a link within a pair of IPUs, and a rail is a link between neighbouring pairs.
    """
    rungs, rails = rungs_and_rails(target, target.num_ipus)
    rung, rail = _link_rates(target)
    parts = [f"{counted(rungs, 'rung')} (upright) of {rung}"]
    parts += [f"{counted(rails, 'rail')} (level) of {rail}"] if rails else []
    total = rate(pipes(target, target.num_ipus)[2])
    together = f"; together {total}" if rungs + rails > 1 else ""
    return f"{' and '.join(parts)}{together}, each way"


def _finding(target: Target) -> str:
    """Return a title that compares two bandwidths, added up over all tiles or host links.

    The title compares the memory and the host. If the user has set one of these two bandwidths, the
    title compares another pair.
    """
    rates = dict(zip(PIPES, pipes(target, target.num_ipus), strict=True))
    tiles = counted(target.num_tiles, "tile")
    is_single = target.num_ipus == 1
    links = "its host link" if is_single else f"{target.num_ipus} host links together"
    names = {
        "memory": f"the memory of {tiles} together",
        "exchange": f"the exchange of {tiles} together",
        "host": links,
    }
    pairs = [("memory", "host"), ("memory", "exchange"), ("exchange", "host")]
    published = [
        pair for pair in pairs if all(ground(target, PIPES[name]) != GIVEN for name in pair)
    ]
    slow, fast = sorted((published or pairs)[0], key=lambda name: rates[name])
    ratio = rates[fast] / max(1, rates[slow])
    times = f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.2g}"
    if "host" not in (fast, slow):
        names[slow] = f"their {slow}"
    verb = "are" if fast == "host" and not is_single else "is"
    return f"{names[fast]} {verb} {times} times as fast as {names[slow]}"


def _source(target: Target, figure: str) -> str:
    """Return a text with the source of a constant of the machine, such as a publication.

    For a constant that the user has set, the text is "set for this machine".
    """
    if ground(target, figure) == GIVEN:
        return "set for this machine"
    return source(target.ipu_version, figure)


def unit(figure: str) -> str:
    """Return the unit of a constant of the machine, such as bytes a cycle."""
    return str(Target.__dataclass_fields__[figure].metadata["unit"])
