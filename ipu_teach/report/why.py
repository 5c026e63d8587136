"""Chains of causes, which explain why a step takes long, why tiles wait, or why a tile is full.

Each cause is computed from the figures of the report. A chain ends at a line of the user's program,
or where there are no more figures. A report from a file has no vertices, so its chains can be
shorter. Cycles and bytes are modelled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from html import escape
from typing import TYPE_CHECKING, SupportsFloat

import numpy as np

from ipu_teach.cost.exchange import arrival_cycles
from ipu_teach.cost.ledger import CONSTANTS, PASSING, VARIABLES
from ipu_teach.cost.phases import COMPUTE, HOST, LINKS, STREAMING, SYNC, Phase
from ipu_teach.errors import (
    GraphMemoryAllocationError,
    InvalidOptionError,
    PoplarIndexError,
    counted,
    did_you_mean,
    shown,
)
from ipu_teach.graph.layouts import is_whole
from ipu_teach.report.executions import Executions, executions
from ipu_teach.report.table import plain

if TYPE_CHECKING:
    from ipu_teach.report.report import Report

MEMORY, WAITING = "memory", "waiting"  # the questions that do not name a step or a tile
DOMINATES = 0.1  # a step with a smaller share of the run does not explain why the run takes long


@dataclass(frozen=True)
class Cause:
    """One cause of a chain: a sentence, the tiles that it mentions, and the user's line or ""."""

    text: str
    tiles: tuple[int, ...] = ()
    line: str = ""


@dataclass(frozen=True, repr=False)
class Why:
    """A chain of causes, each of which explains the one before it.

    `step` is the number of the compiled step that the question is about, -1 for memory. Views
    highlight the `tiles`, as in `show.balance(report, why=chain)`.
    """

    question: str
    causes: tuple[Cause, ...]
    step: int = -1

    @property
    def tiles(self) -> tuple[int, ...]:
        """The tiles that the causes mention, in ascending order."""
        return tuple(sorted({tile for cause in self.causes for tile in cause.tiles}))

    def __repr__(self) -> str:
        return "\n".join(
            [
                self.question,
                *(f"  {i}. {plain(cause.text)}" for i, cause in enumerate(self.causes, 1)),
            ]
        )

    def _repr_html_(self) -> str:
        causes = "".join(f"<li>{escape(plain(cause.text))}</li>" for cause in self.causes)
        return (
            '<div class="ipu-view '
            f'why"><p>{escape(plain(self.question))}</p><ol>{causes}</ol></div>'
        )


def why(report: Report, what: object = None, *, tile: int | None = None) -> Why:
    """Explain why the run or a step takes long, why tiles wait, or why a tile is full.

    The result is a numbered chain of causes that ends at a line of your program. `what` is the
    question:

    * None: why the run takes long;
    * the number of a step of the run (from 0), a step of `report.steps()`, or the name of a step:
      why it takes long;
    * "waiting": why tiles wait;
    * "memory", or a `GraphMemoryAllocationError`: why the fullest tile, or `tile`, is full.

    With `tile`, the first three explain why that tile waits. All causes are figures of the report,
    and modelled. Raises `InvalidOptionError` and `PoplarIndexError`.
    """
    tiles = report.target.num_tiles
    if tile is not None and not (is_whole(tile) and 0 <= tile < tiles):
        raise PoplarIndexError(
            f"why() was given tile {shown(tile)}.",
            next_step=f"give a tile from 0 to {tiles - 1:,}.",
        )
    if isinstance(what, GraphMemoryAllocationError) or isinstance(what, str) and what == MEMORY:
        full = int(np.argmax(report.memory.held_per_tile)) if tile is None else int(tile)
        fits = report.memory.held_per_tile[full] <= report.target.bytes_per_tile
        if isinstance(what, GraphMemoryAllocationError) and fits:  # the host's memory is full
            return Why("Why memory is full:", (Cause(what.tried), Cause(what.where)))
        return Why(f"Why tile {full} is as full as it is:", tuple(_memory(report, full)))
    if not report.num_steps:
        raise InvalidOptionError(f"""why() was called on a report in which nothing has run.
            next:  engine.run(), then engine.report; without a run, explain memory
            alone, with report.why({MEMORY!r}).""")
    executed = executions(report)
    chosen = (
        None if what is None or isinstance(what, str) and what == WAITING else _step(report, what)
    )
    if chosen is not None:
        executed = [Executions(chosen, {chosen: 1})]
    if tile is not None:
        causes = partial(_tile, report, tile=int(tile))
        question = f"Why tile {tile} waits:"
        longest = max(
            executed,
            key=lambda e: (
                e.total(lambda n: _waits(report, n, tile)),
                e.total(partial(_cycles, report)),
            ),
        )
        number = longest.longest(lambda n: _waits(report, n, tile))
    elif what is not None and chosen is None:
        causes = partial(_waiting, report)
        question = "Why tiles wait:"
        longest = max(executed, key=lambda e: e.total(partial(lost_in, report)))
        number = longest.longest(partial(lost_in, report))
    else:
        longest = max(executed, key=lambda e: e.total(partial(_cycles, report)))
        number = longest.longest(partial(_cycles, report))
        about = f"step {what}" if is_whole(what) else _name(report, number)
        if chosen is None:
            about = "the run"
        causes = partial(_long, report)
        question = f"Why {about} takes so long:"
    return Why(question, tuple(causes(executed, longest, number)), number)


def _cycles(report: Report, number: int) -> int:
    return report.step_cost(number).cycles


def lost(phase: Phase) -> float:
    """Return the cycles that a tile waits in a phase, on average over all tiles."""
    return 0.0 if phase.busy is None else phase.cycles - float(phase.busy.mean())


def lost_in(report: Report, number: int) -> float:
    """Return the cycles that a tile waits in one execution of a step, on average over all tiles.

    Only waiting for tiles that take part in the step counts.
    """
    target = report.target
    if target.num_sets == 1:
        return sum(map(lost, report.phases(number)))
    ends = np.append(target.set_starts, target.num_tiles)
    waits = 0.0
    for ipu in np.flatnonzero(report.profile.at_work(number)).tolist():
        tiles = slice(ends[ipu], ends[ipu + 1])
        for phase in report.phases(number, ipu):
            if phase.busy is not None:
                waits += float((phase.cycles - phase.busy[tiles]).sum())
    return waits / target.num_tiles


def _lost_between_sets(report: Report) -> float:
    """Return the cycles that a tile waits because its IPU waits, on average over all tiles.

    The I/O tiles of an IPU count as a separate IPU.
    """
    target = report.target
    if target.num_sets == 1:
        return 0.0
    sizes = np.diff(np.append(target.set_starts, target.num_tiles))
    waiting = np.array([row.waiting_cycles for row in report.ipus])
    return float((waiting * sizes).sum() / target.num_tiles)


def codelets_on(report: Report, number: int, tile: int) -> list[tuple[str, int]]:
    """Return (codelet, number of tiles that have it) for the codelets of a step on a tile."""
    parts_on_tile = (p for p in report.profile.parts(number) if tile in p.on)
    return [(report.profile.codelets[p.codelet].name, len(p.on)) for p in parts_on_tile]


def _n(value: SupportsFloat) -> str:
    return f"{float(value):,.15g}"


def _name(report: Report, number: int, times: int = 1) -> str:
    cost = report.step_cost(number)
    return f"{cost.kind} {cost.name!r}".removesuffix(" ''") + (
        f", which ran {times:,} times" if times > 1 else ""
    )


def _step(report: Report, step: object) -> int:
    """Return the number of the compiled step that `step` stands for."""
    order = report.step_numbers
    if is_whole(step):
        if not 0 <= step < len(order):
            raise PoplarIndexError(
                f"why() was given step {step}.",
                next_step=f"give one from 0 to {len(order) - 1:,}.",
            )
        return int(order[step])
    named = {
        report.step_cost(n).name: n
        for n in sorted(set(order.tolist()), key=lambda n: report.step_cost(n).cycles)
    }
    # a StepRun has the number of its step
    number = named.get(step) if isinstance(step, str) else getattr(step, "step", None)
    if not is_whole(number) or number not in order:
        raise InvalidOptionError(f"""why() was given {shown(step)}.
            next:  {did_you_mean(step, named)}give the number of a step, its name, a step of
            report.steps(), {WAITING!r}, {MEMORY!r}, or the error of a full memory.""")
    return number


def _long(
    report: Report, executed: list[Executions], longest: Executions, number: int
) -> Iterator[Cause]:
    cost = report.step_cost(number)
    phases = report.phases(number)
    total = report.total_cycles
    taken = longest.total(partial(_cycles, report))
    if len(executed) > 1 and taken < DOMINATES * total:
        yield from _none_dominates(report, executed, longest)
        return
    varies = len(longest.times) > 1
    if len(executed) > 1 or varies:
        name = _name(report, number, longest.count)
        yield Cause(f"The run takes {_n(total)} modelled cycles: {_n(taken)} of them go to {name}.")
    slowest = max(phases, key=lambda p: p.cycles, default=Phase("nothing", 0))
    subject = _name(report, number)
    if varies:
        subject = (
            f"Its cycles depend on data: in {longest.times[number]:,} of "
            f"{counted(longest.count, 'execution')} it"
        )
    yield Cause(
        f"{subject} takes {_n(cost.cycles)} modelled cycles: {slowest.kind} is "
        f"{_n(slowest.cycles)} of them."
    )
    if phases:
        yield from _slowest(report, number, slowest)


def _none_dominates(
    report: Report, executed: list[Executions], longest: Executions
) -> Iterator[Cause]:
    """Yield two causes: no step takes a large share, and the kind of phase that takes most."""
    steps = len(executed)
    taken = longest.total(partial(_cycles, report))
    yield Cause(
        f"The run takes {_n(report.total_cycles)} modelled cycles, and none of its {steps:,} steps "
        f"dominates: the longest, {_name(report, longest.step, longest.count)}, takes "
        f"{_n(taken)} of them."
    )
    by_kind: Counter[str] = Counter()
    for execution in executed:
        for number, times in execution.times.items():
            for phase in report.phases(number):
                by_kind[phase.kind] += times * phase.cycles
    kind, cycles = by_kind.most_common(1)[0]
    runs = sum(execution.count for execution in executed)
    share = 100 * cycles / (sum(by_kind.values()) or 1)
    yield Cause(
        f"Over all steps, {kind} takes most: {_n(cycles)} cycles ({share:.1f} %), on average "
        f"{_n(round(cycles / runs, 1))} in each of {counted(runs, 'execution')}."
    )


def _waiting(
    report: Report, executed: list[Executions], longest: Executions, number: int
) -> Iterator[Cause]:
    waits = partial(lost_in, report)
    between = _lost_between_sets(report)
    within = sum(e.total(waits) for e in executed)
    longest_wait = longest.total(waits)
    total = report.total_cycles or 1
    share = f"{100 * (within + between) / total:.1f} %"
    yield Cause(f"{share} of the tiles' modelled time is waiting for other tiles.")
    if between > longest_wait:
        sets = report.target.sets
        row = max(report.ipus, key=lambda row: row.held_cycles)
        yield Cause(
            f"Most of it, {100 * between / total:.1f} % of all time, is IPUs, or their I/O tiles, "
            f"that wait for each other: longest for {sets[row.ipu]} while it is in {row.held_by!r}."
        )
    elif longest_wait:
        name = _name(report, number, longest.count)
        yield Cause(f"Most of it, {100 * longest_wait / total:.1f} % of all time, is in {name}.")
        yield from _slowest(report, number, max(report.phases(number), key=lost))


def _waits(report: Report, number: int, tile: int) -> int:
    return sum(p.cycles - int(p.busy[tile]) for p in report.phases(number) if p.busy is not None)


def _tile(
    report: Report, executed: list[Executions], longest: Executions, number: int, tile: int
) -> Iterator[Cause]:
    waits = partial(_waits, report, tile=tile)
    waited = sum(e.total(waits) for e in executed)
    cycles = sum(e.total(partial(_cycles, report)) for e in executed)
    yield Cause(
        f"Tile {tile} waits {_n(waited)} of {_n(cycles)} modelled cycles for others.",
        (tile,),
    )
    if longest.total(waits):
        shared = ((p, p.busy) for p in report.phases(number) if p.busy is not None)
        phase, busy = max(shared, key=lambda entry: entry[0].cycles - int(entry[1][tile]))
        where = f"It waits longest in {_name(report, number, longest.count)}"
        yield Cause(
            f"{where}: there its {phase.kind} is over after {_n(busy[tile])} cycles.", (tile,)
        )
        yield from _slowest(report, number, phase)


def _slowest(report: Report, number: int, phase: Phase) -> Iterator[Cause]:
    """Yield the causes of the length of a phase."""
    cost = report.step_cost(number)
    busy = phase.busy
    line = report.profile.steps[number].line
    placed = ""
    if busy is None:
        across = sum(int(t.links.sum()) for t in cost.exchange)
        moved = {
            HOST: f"{cost.host_bytes:,} bytes cross the link to the host",
            STREAMING: f"{cost.host_bytes:,} bytes cross the link to streaming memory",
            LINKS: f"{across:,} bytes leave their IPU",
        }
        yield Cause(
            f"{moved.get(phase.kind, 'A sync takes as long whatever is done before it')}, and all "
            "tiles wait."
        )
    else:
        tile = int(np.argmax(busy))
        middle = _n(float(np.median(busy)))
        slow = (
            f"It lasts until its slowest tile is done: tile {tile} takes {_n(phase.cycles)}, the "
            f"median tile {middle}."
        )
        same = (
            f"All tiles are at it for {middle} cycles; what holds for tile {tile} holds for them."
        )
        yield Cause(same if busy.min() == busy.max() else slow, (tile,))
        yield from (_moved if phase.exchange >= 0 else _computed)(report, number, phase, tile)
        line, placed = _lines(report, number, phase, tile)
    if line and phase.kind != SYNC:
        yield Cause(
            f"{'That work is given to it' if phase.kind == COMPUTE else 'What moves is named'} in "
            f"{line}.",
            (),
            line,
        )
        if placed not in ("", line) and phase.kind == COMPUTE:
            yield Cause(f"It is on tile {tile} because of {placed}.", (tile,), placed)


def _lines(report: Report, number: int, phase: Phase, tile: int) -> tuple[str, str]:
    """Return the line that gives a tile most of its work in a phase, and the line that maps it.

    An unknown line is "".
    """
    profile = report.profile
    cost = report.step_cost(number)
    added, placed = profile.lines_on(number, tile)
    copied = profile.steps[number].line
    if profile.steps[number].compute_set < 0:
        return copied, ""
    if not copied:
        return added, placed
    # Copies were merged into the superstep of this compute set.
    if phase.exchange == 0:
        line = profile.line_of_move(number, tile, within=False)
    elif phase.kind == COMPUTE and 2 * _gathered(report, number, tile) > cost.compute_cycles[tile]:
        line = profile.line_of_move(number, tile, within=True)
    else:
        line = added
    return line, placed if line == added else ""


def _gathered(report: Report, number: int, tile: int) -> int:
    """Return the cycles in which a tile moves data inside its memory in a step."""
    traffic = report.step_cost(number).exchange
    return sum(int(t.copy_cycles(report.target)[0][tile]) for t in traffic)


def _computed(report: Report, number: int, phase: Phase, tile: int) -> Iterator[Cause]:
    """Yield the causes, as far as figures show them, why a tile computes longest."""
    cost = report.step_cost(number)
    target = report.target
    vertices = report.profile.vertices_on(number)
    names = codelets_on(report, number, tile)
    cycles = int(cost.compute_cycles[tile])
    gathered = _gathered(report, number, tile)
    if 2 * gathered > cycles:
        pieces, size = (
            sum(int(getattr(t, name)[tile]) for t in cost.exchange) for name in ("pieces", "stayed")
        )
        text = (
            f"It takes {_n(gathered)} of them to move {counted(pieces, 'piece')}, {size:,} bytes, "
            "within its memory."
        )
    elif vertices is None:
        sentence = (
            f"{name}, which is on {many:,} of {counted(target.num_tiles, 'tile')}"
            for name, many in names[:2]
        )
        text = f"Tile {tile} executes {' and '.join(sentence)}."
    else:
        count, longest = vertices[:2]
        text = (
            f"Tile {tile} executes {counted(int(count[tile]), 'vertex', 'vertices')} of "
            f"{names[0][0]}"
        )
        if count[tile] > np.median(count):
            text += f"; the median tile has {_n(np.median(count))}"
        if longest[tile] > np.median(longest[count > 0]):
            text += (
                f"; its longest takes {_n(longest[tile])}, that of the median tile "
                f"{_n(np.median(longest[count > 0]))}"
            )
        text += "."
    yield Cause(text, (tile,))
    if vertices is not None and 2 * gathered <= cycles and not vertices[2][tile]:
        workers = target.num_worker_contexts
        work = _n((cycles - gathered) // workers)
        idle = workers - int(vertices[0][tile])
        without = f", {idle} of them with nothing to do" if idle > 0 else ""
        yield Cause(
            f"{workers} workers share them, each with every {workers}th cycle{without}: the "
            f"busiest has {work} to do.",
            (tile,),
        )


def _moved(report: Report, number: int, phase: Phase, tile: int) -> Iterator[Cause]:
    """Yield the causes, as far as figures show them, why a tile exchanges longest."""
    traffic = report.step_cost(number).exchange[phase.exchange]
    target = report.target
    into = int(traffic.received[tile])
    out = int(traffic.sent[tile])
    way = int(arrival_cycles(target)[tile]) if into else 0
    receiving, sending, issuing = (int(b[tile]) for b in traffic.bounds(target))
    parts = (
        f"{counted(int(traffic.sources[tile]), 'sender')} and "
        f"{counted(int(traffic.sends[tile]), 'piece')} to send"
    )
    transfers = report.transfers(number)[phase.exchange]
    sizes = np.zeros(target.num_tiles, np.int64)
    for source, size, to in zip(
        transfers.source.tolist(), transfers.size.tolist(), transfers.receivers, strict=True
    ):
        sizes[source] += size * bool((to == tile).any())
    busiest = int(np.argmax(sizes))
    text = {
        way: f"It receives {into:,} bytes, and the first of them needs {way} cycles to arrive.",
        issuing: f"It has {parts}, and to issue the instructions takes {issuing:,} cycles.",
        sending: f"It sends {out:,} bytes, the median tile {_n(np.median(traffic.sent))}.",
        receiving: (
            f"It receives {into:,} bytes, the median tile {_n(np.median(traffic.received))}; most "
            f"of them, {int(sizes[busiest]):,}, come from tile {busiest}."
        ),
    }[max(way, receiving, sending, issuing)]
    yield Cause(text, (tile, busiest) if "come from" in text else (tile,))


def _memory(report: Report, tile: int) -> Iterator[Cause]:
    memory = report.memory
    limit = report.target.bytes_per_tile
    tiles = counted(report.target.num_tiles, "tile")
    bytes_held = int(memory.held_per_tile[tile])
    usual = _n(np.median(memory.held_per_tile))
    over = f", {bytes_held - limit:,} more than it has" if bytes_held > limit else ""
    yield Cause(
        f"Tile {tile} holds {bytes_held:,} of {limit:,} bytes{over}; the median tile holds "
        f"{usual}.",
        (tile,),
    )
    category, total = max(memory.by_category(tile).items(), key=lambda item: item[1])
    if category not in (VARIABLES, CONSTANTS):
        place = memory.fullest_place(tile) if category in PASSING else None
        during = f", while {place.kind} {place.name!r} runs" if place else ""
        yield Cause(f"Most of it is for {category.lower()}: {total:,} bytes{during}.", (tile,))
        line = _line_of_buffers(report, place.step, tile) if place else ""
        if line:
            yield Cause(f"What moves there is named in {line}.", (), line)
        return
    sizes = memory.at_fullest(tile, category)
    name, size = next(iter(sizes.items()))
    if 2 * size < total:
        yield from _several(report, tile, category, sizes)
        return
    row = max((v for v in report.variables if v.name == name), key=lambda v: v.bytes)
    yield Cause(
        f"Most of it is {name!r}: {size:,} bytes, of {row.bytes:,} that lie on {row.tiles:,} of "
        f"{tiles}.",
        (tile,),
    )
    steps = (
        "from the first step to the last"
        if row.always_live
        else f"from step {row.first + 1} to step {row.last + 1}"
    )
    yield Cause(f"It is live {steps} of the programs.")
    if row.line:
        yield Cause(f"It is made in {row.line}.", (), row.line)


def _several(report: Report, tile: int, category: str, sizes: dict[str, int]) -> Iterator[Cause]:
    """Yield the number of variables or constants that fill a tile, and the line that adds most.

    It is for the case that none of them is half of the total.
    """
    name, size = next(iter(sizes.items()))
    noun = category.lower()
    yield Cause(
        f"Most of it is {len(sizes):,} {noun}: {sum(sizes.values()):,} bytes. The largest, "
        f"{name!r}, takes {size:,}.",
        (tile,),
    )
    made_in = {row.name: row.line for row in report.variables}
    by_line: Counter[str] = Counter()
    count: Counter[str] = Counter()
    for variable, bytes_held in sizes.items():
        line = made_in.get(variable, "")
        by_line[line] += bytes_held
        count[line] += 1
    line, bytes_held = by_line.most_common(1)[0]
    if line:
        yield Cause(
            f"{count[line]:,} of them, {bytes_held:,} bytes, are made in {line}.", (tile,), line
        )


def _line_of_buffers(report: Report, number: int, tile: int) -> str:
    """Return the line that causes the exchange buffers of a step on a tile.

    It is the line that gives the tile most of its vertices, or the line of the copy.
    """
    return report.profile.lines_on(number, tile)[0] or report.profile.steps[number].line
