"""One program on machines of several sizes.

    def build(device):
        graph = Graph(device)
        ...
        return graph, program

    sweep(build, num_tiles=[13, 46, 184, 1472])

A report can be costed again at other rates (`report.what_if`), but another number of tiles means another placement. So the
learner's own function builds the program for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ipu_teach.device import Device, IPUModel
from ipu_teach.engine.engine import Engine
from ipu_teach.engine.executable import Executable
from ipu_teach.errors import GraphMemoryAllocationError, InvalidOptionError, shown
from ipu_teach.graph.layouts import is_whole
from ipu_teach.report import Report
from ipu_teach.report.html import tabled

COLUMNS = ("tiles", "modelled cycles", "time", "compute", "exchange", "sync", "host", "fullest tile", "speed-up")


@dataclass(frozen=True, eq=False, repr=False)
class Sweep:
    """What `sweep` found: `num_tiles` and `reports`, one for each, and a table of them.

    Where a program does not fit, its report is that of the compiled program, in which nothing has run, and `fits` says so.
    """

    num_tiles: tuple[int, ...]
    reports: tuple[Report, ...]
    fits: tuple[bool, ...]

    def __len__(self) -> int:
        return len(self.reports)

    def __iter__(self) -> Iterator[tuple[int, Report]]:
        return iter(zip(self.num_tiles, self.reports, strict=True))

    def rows(self) -> list[tuple[str, ...]]:
        """The table, a row for each number of tiles, as text under `COLUMNS`. Speed-up: against the first that ran."""
        ran = [report for report, fits in zip(self.reports, self.fits, strict=True) if fits and report.num_steps]
        first = ran[0].total_seconds if ran else 0.0
        return [self._row(i, first) for i in range(len(self))]

    def _row(self, number: int, first: float) -> tuple[str, ...]:
        report = self.reports[number]
        fullest = f"{int(report.memory.held_per_tile.max()) / report.target.bytes_per_tile:.1%}"
        if not self.fits[number]:
            return (f"{self.num_tiles[number]:,}", "does not fit", *[""] * 5, fullest, "")
        cycles = (
            report.compute_cycles_per_tile.mean(),
            report.exchange_cycles_per_tile.mean() + report.global_exchange_cycles,
            report.sync_cycles_per_tile.mean(),
            report.host_exchange_cycles,
        )
        speed = f"{first / report.total_seconds:.2f}x" if report.total_seconds else ""
        return (
            f"{self.num_tiles[number]:,}",
            f"{report.total_cycles:,.0f}",
            f"{report.total_seconds * 1e6:,.1f} us",
            *(f"{c:,.0f}" for c in cycles),
            fullest,
            speed,
        )

    def __repr__(self) -> str:
        rows = [COLUMNS, *self.rows()]
        widths = [max(len(row[i]) for row in rows) for i in range(len(COLUMNS))]
        lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return tabled(COLUMNS, self.rows(), "Modelled; compute, exchange and sync are averages over the tiles, in cycles")


def sweep(
    build: Callable[[Device], Any],
    num_tiles: Iterable[int],
    *,
    version: str = "ipu2",
    progress: bool = True,
    **fields: Any,
) -> Sweep:
    """Build, compile and run a program for each number of tiles, and return a `Sweep`: its `reports`, and a table.

    `build(device)` is called with a device of that many tiles on each IPU. It returns `(graph, program)`, an `Engine`, an
    `Executable`, or a `Report`. Program 0 is run, unless the engine has run already; a program with streams returns its
    engine, with the streams connected. `version` and `fields` describe the machine, as for `IPUModel`. `progress` shows a
    bar. A program that does not fit into the memory of the tiles is a row that says so.

    Raises `InvalidOptionError` for a bad argument, and what `build` and the engine raise.
    """
    if not callable(build):
        raise InvalidOptionError(f"""sweep() was given {shown(build)}, which is no function.
            next:  give a function of a device that returns (graph, program) or an Engine.""")
    counts = list(num_tiles) if isinstance(num_tiles, Iterable) and not isinstance(num_tiles, (str, bytes)) else []
    if not counts or not all(is_whole(n) and n > 0 for n in counts):
        raise InvalidOptionError(f"""sweep() was given the numbers of tiles {shown(num_tiles)}.
            next:  give a list of whole numbers, 1 or more: num_tiles=[13, 46, 1472].""")
    from tqdm import tqdm

    reports: list[Report] = []
    fits: list[bool] = []
    with tqdm(counts, desc="sweep", unit="machine", disable=None if progress else True) as bar:
        for count in bar:
            bar.set_postfix_str(f"{count:,} tiles")
            device = IPUModel(version, **{**fields, "tiles_per_ipu": int(count)}).create_device()
            try:
                reports.append(_report(build(device), device))
                fits.append(True)
            except GraphMemoryAllocationError as error:
                if error.report is None:
                    raise
                reports.append(error.report)
                fits.append(False)
    return Sweep(tuple(int(n) for n in counts), tuple(reports), tuple(fits))


def _report(built: Any, device: Device) -> Report:
    if isinstance(built, tuple) and len(built) == 2:
        built = Engine(*built, {"debug.allowOutOfMemory": True})  # loading fails then, with the report
    elif isinstance(built, Executable):
        built = Engine(built)
    if isinstance(built, Engine):
        if not built.is_loaded:
            built.load(device)
        if not built.report.num_steps:
            built.run()
        built = built.report
    if not isinstance(built, Report):
        raise InvalidOptionError(f"""The function given to sweep() returned {shown(built)}.
            next:  return (graph, program), an Engine, an Executable or a Report.""")
    return built
