"""One program on machines of several sizes.

    def build(device):
        graph = Graph(device)
        ...
        return graph, program

    sweep(build, num_tiles=[13, 46, 184, 1472])
    sweep(build, num_ipus=[1, 2, 4, 8, 16])

`report.what_if` changes the rates of a machine in a finished report. But a different number of
tiles or IPUs needs a different tile mapping, so a sweep builds the program again for each number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from html import escape
from typing import TypeAlias

from ipu_teach._support.flags import flagged
from ipu_teach._support.outcomes import Outcome, check_travels, outcomes
from ipu_teach.cost.phases import HOST, LINKS, STREAMING
from ipu_teach.device import Device, IPUModel
from ipu_teach.engine.engine import Engine
from ipu_teach.engine.executable import Executable
from ipu_teach.errors import GraphMemoryAllocationError, InvalidOptionError, counted, shown
from ipu_teach.graph import Graph
from ipu_teach.graph.layouts import is_whole
from ipu_teach.program import Program
from ipu_teach.report import Report
from ipu_teach.report.html import tabled
from ipu_teach.target import Setting

# What `build` may return: a program that is ready to run, or the report of a program that has run.
Built: TypeAlias = tuple[Graph, Program | Sequence[Program]] | Engine | Executable | Report
COLUMNS = (
    "modelled cycles",
    "time",
    "compute",
    "exchange",
    "sync",
    "host and streaming",
    "fullest tile",
    "speed-up",
)


@dataclass(frozen=True, eq=False, repr=False)
class Sweep:
    """The reports of a sweep, one for each machine, and a table of them.

    - `num_tiles` (tiles per IPU), `num_ipus`, `reports` and `fits` have an entry for each machine.
    - `fits` is False if the program does not fit on the machine. The report then describes the
      compiled program, which has not run.
    - `failed` maps the number of tiles or IPUs to the error of `build` or of the run.
    - `left` has the numbers of tiles or IPUs whose runs had not ended before Ctrl-C.
    - `what` is the unit of these numbers: "tile" or "IPU".

    Machines in `failed` and `left` have no entry in the other fields.
    """

    num_tiles: tuple[int, ...]
    reports: tuple[Report, ...]
    fits: tuple[bool, ...]
    failed: Mapping[int, Exception] = field(default_factory=dict)
    left: tuple[int, ...] = ()
    num_ipus: tuple[int, ...] = ()
    what: str = "tile"

    @property
    def counts(self) -> tuple[int, ...]:
        """The varied number for each machine: the number of tiles per IPU, or of IPUs."""
        return self.num_tiles if self.what == "tile" else self.num_ipus

    def __len__(self) -> int:
        return len(self.reports)

    def __iter__(self) -> Iterator[tuple[int, Report]]:
        return iter(zip(self.counts, self.reports, strict=True))

    @property
    def columns(self) -> tuple[str, ...]:
        """The headings of the table."""
        return (f"{self.what}s", *COLUMNS)

    def rows(self) -> list[tuple[str, ...]]:
        """Return the table as text: a row for each machine, with a cell for each of `columns`.

        The speed-up is relative to the first machine that ran the program.
        """
        finished = [
            report
            for report, fits in zip(self.reports, self.fits, strict=True)
            if fits and report.num_steps
        ]
        first_seconds = finished[0].total_seconds if finished else 0.0
        return [self._row(machine_number, first_seconds) for machine_number in range(len(self))]

    def _row(self, machine_number: int, first_seconds: float) -> tuple[str, ...]:
        """Return the row of one machine. `first_seconds` is the time on the first machine."""
        report = self.reports[machine_number]
        fullest_text = (
            f"{int(report.memory.held_per_tile.max()) / report.target.bytes_per_tile:.1%}"
        )
        if not self.fits[machine_number]:
            return (f"{self.counts[machine_number]:,}", "does not fit", *[""] * 5, fullest_text, "")
        link_cycles = report.link_cycles_per_tile
        average_cycles = (
            report.compute_cycles_per_tile.mean(),
            report.exchange_cycles_per_tile.mean() + link_cycles[LINKS].mean(),
            report.sync_cycles_per_tile.mean(),
            (link_cycles[HOST] + link_cycles[STREAMING]).mean(),
        )
        speed_up = f"{first_seconds / report.total_seconds:.2f}x" if report.total_seconds else ""
        return (
            f"{self.counts[machine_number]:,}",
            f"{report.total_cycles:,.0f}",
            f"{report.total_seconds * 1e6:,.1f} us",
            *(f"{cycles:,.0f}" for cycles in average_cycles),
            fullest_text,
            speed_up,
        )

    def __repr__(self) -> str:
        rows = [self.columns, *self.rows()]
        widths = [max(len(row[column]) for row in rows) for column in range(len(self.columns))]
        lines = [
            "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        return "\n".join([*lines, *self._missing()])

    def _missing(self) -> list[str]:
        """Return a line of text for each machine that is not in the table."""
        message_by_number = {
            number: f"{type(error).__name__}: {error}".split("\n")[0]
            for number, error in self.failed.items()
        }
        lines = [
            f"{counted(number, self.what)} failed: {text}"
            for number, text in message_by_number.items()
        ]
        return lines + [f"stopped before {number:,} {self.what}s were done" for number in self.left]

    def _repr_html_(self) -> str:
        caption = "Modelled; compute, exchange and sync are averages over the tiles, in cycles"
        return tabled(self.columns, self.rows(), caption) + "".join(
            f"<p>{escape(line)}</p>" for line in self._missing()
        )


@flagged
def sweep(
    build: Callable[[Device], Built],
    num_tiles: Iterable[int] | None = None,
    *,
    num_ipus: int | Iterable[int] = 1,
    version: str = "ipu2",
    progress: bool = True,
    executor: Executor | None = None,
    **fields: Setting,
) -> Sweep:
    """Build, compile and run a program for each number of tiles or IPUs, and return a `Sweep`.

    Either `num_tiles` or `num_ipus` is a list: `num_tiles=[13, 46, 184]` varies the number of tiles
    of each IPU, and `num_ipus=[1, 2, 4]` varies the number of IPUs. `version` and `fields` describe
    the machine, as for `IPUModel`. `progress` shows a progress bar.

    `build(device)` is called for each machine, and returns `(graph, program)`, an `Engine`, an
    `Executable` or a `Report`. If the program has streams, it must return an engine with the
    streams connected. Program 0 is run, unless the engine has already run.

    If a program does not fit into the memory of the tiles, its row in the table shows that. If
    `build` or the run fails, the error is in `failed`. Ctrl-C ends the sweep, which returns the
    finished runs.

    `executor` runs the machines in parallel. It is an executor of `concurrent.futures`, such as a
    process pool, or `client.get_executor()` of a Dask client. If the executor uses other processes,
    `build` must be picklable, so it must be defined in an imported file; with Dask, it may also be
    defined in a notebook. The reports are then like reports from a file (`Report.open`).

    If all machines fail, the error of `build` or of the engine is raised.

    :raises InvalidOptionError: if an argument is not valid.
    """
    if not callable(build):
        raise InvalidOptionError(f"""sweep() was given {shown(build)}, which is not a function.
            next:  give a function of a device that returns (graph, program) or an Engine.""")
    unit = "tile"
    example = "num_tiles=[13, 46, 1472]"
    numbers: int | Iterable[int] | None = num_tiles
    if not is_whole(num_ipus):
        unit = "IPU"
        example = "num_ipus=[1, 2, 4]"
        numbers = num_ipus
    counts = _counts(numbers, unit, example)
    if unit == "IPU" and num_tiles is not None:
        raise InvalidOptionError("""sweep() was given several numbers of tiles and of IPUs.
            next:  give a list for one of them, as in num_ipus=[1, 2, 4], tiles_per_ipu=1472.""")
    if unit == "tile":
        fields["num_ipus"] = num_ipus
    if executor is not None:
        check_travels("sweep()", executor, {"The function": build, **fields})
    labelled_counts = [(f"{count:,} {unit}s", count) for count in counts]
    run_for = partial(_run, build, version, fields, unit)
    outcomes_of_runs = outcomes(
        run_for, labelled_counts, executor, title="sweep", hidden=not progress
    )
    return _sweep_of(list(zip(counts, outcomes_of_runs, strict=True)), unit)


def _counts(numbers: int | Iterable[int] | None, unit: str, example: str) -> list[int]:
    """Return the numbers of tiles or IPUs as integers.

    :raises InvalidOptionError: if they are not a list of positive integers. The error contains
        `unit` and `example`.
    """
    is_list = isinstance(numbers, Iterable) and getattr(numbers, "ndim", 1) > 0
    is_list = is_list and not isinstance(numbers, (str, bytes, set, frozenset))
    counts = list(numbers) if is_list and isinstance(numbers, Iterable) else []
    if not counts or not all(is_whole(number) and number > 0 for number in counts):
        raise InvalidOptionError(f"""sweep() was given {shown(numbers)} as the numbers of {unit}s.
            next:  give a list of whole numbers from 1, as in {example}.""")
    return [int(count) for count in counts]


def _sweep_of(outcome_by_count: list[tuple[int, Outcome | None]], unit: str) -> Sweep:
    """Return the sweep with these outcomes, which are pairs (number of tiles or IPUs, outcome).

    The outcome is None for a run that Ctrl-C prevented. If no run succeeded, the first error is
    raised.
    """
    ended_runs = [(count, outcome) for count, outcome in outcome_by_count if outcome is not None]
    results = [(count, *outcome.value) for count, outcome in ended_runs if outcome.error is None]
    failed = {count: outcome.error for count, outcome in ended_runs if outcome.error is not None}
    if not results:
        raise next(iter(failed.values()), KeyboardInterrupt())
    counts, reports, fits = zip(*results, strict=True)
    if unit == "tile":
        num_tiles = counts
        num_ipus = tuple(report.target.num_ipus for report in reports)
    else:
        num_tiles = tuple(report.target.tiles_per_ipu for report in reports)
        num_ipus = counts
    return Sweep(
        num_tiles=num_tiles,
        reports=reports,
        fits=fits,
        failed=failed,
        left=tuple(count for count, outcome in outcome_by_count if outcome is None),
        num_ipus=num_ipus,
        what=unit,
    )


def _run(
    build: Callable[[Device], Built],
    version: str,
    fields: Mapping[str, Setting],
    unit: str,
    count: int,
) -> tuple[Report, bool]:
    """Return `(report, fits)` for a machine with `count` tiles per IPU or IPUs.

    `fits` is False if the program does not fit on the machine.
    """
    field_name = {"tile": "tiles_per_ipu", "IPU": "num_ipus"}[unit]
    device = IPUModel(version, **{**fields, field_name: count}).create_device()
    try:
        return _report(build(device), device), True
    except GraphMemoryAllocationError as error:
        if error.report is None:
            raise
        return error.report, False


def _report(built: Built, device: Device) -> Report:
    """Return the report of `built`, which the function `build` returned for one machine.

    `built` is an object of a type in `Built`. If it has not run yet, it is run on `device`.
    """
    if isinstance(built, tuple) and len(built) == 2:
        # With this option, a program that is too large for the memory fails when it is loaded, not
        # when it is compiled. The error then has a report of the compiled program.
        built = Engine(*built, {"debug.allowOutOfMemory": True})
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
