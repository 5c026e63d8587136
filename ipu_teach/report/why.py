"""Chains of causes, which explain why a step takes long, why tiles wait, or why a tile is full.

Each cause is computed from the numbers in the report. A chain ends at a line of the user's program,
or at the last cause that the report shows. A report from a file has no vertices, so its chains can
be shorter. Cycles and bytes are modelled.
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

MEMORY, WAITING = "memory", "waiting"  # The two words that `why(report, what)` accepts.
# If every step takes less than this share of the run, no single step explains the run's time.
DOMINATES = 0.1


@dataclass(frozen=True)
class Cause:
    """One cause: a sentence, the tiles that the sentence mentions, and the user's line in it.

    `line` is "" if the sentence names no line.
    """

    text: str
    tiles: tuple[int, ...] = ()
    line: str = ""


@dataclass(frozen=True, repr=False)
class Why:
    """A chain of causes, in which each cause explains the previous one.

    `step` is the number of the compiled step that the causes describe, or -1 if they describe
    memory. Views can highlight the `tiles`, for example with `show.balance(report, why=chain)`.
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

    The result is a numbered chain of causes. It ends at a line of your program, if the report has
    the line. `what` is the question:

    * None: why the run takes long;
    * the index of a step of the run, a step of `report.steps()`, or the name of a step: why that
      step takes long;
    * "waiting": why tiles wait;
    * "memory", or a `GraphMemoryAllocationError`: why the fullest tile is full, or why `tile` is
      full.

    If `tile` is given and the question is not about memory, the answer explains why that tile waits
    in the run or step. All cycles and bytes in the causes are modelled.

    :raises PoplarIndexError: if there is no such tile or step number.
    :raises InvalidOptionError: if `what` is anything else, or if nothing has run and the question
        is not about memory.
    """
    tiles = report.target.num_tiles
    if tile is not None and not (is_whole(tile) and 0 <= tile < tiles):
        raise PoplarIndexError(
            f"why() was given tile {shown(tile)}, which does not exist.",
            next_step=f"give a tile from 0 to {tiles - 1:,}.",
        )
    if isinstance(what, GraphMemoryAllocationError) or isinstance(what, str) and what == MEMORY:
        full_tile = int(np.argmax(report.memory.held_per_tile)) if tile is None else int(tile)
        fits = report.memory.held_per_tile[full_tile] <= report.target.bytes_per_tile
        # If the tile's memory is large enough, the error was about streaming memory.
        if isinstance(what, GraphMemoryAllocationError) and fits:
            return Why("Why memory is full:", (Cause(what.tried), Cause(what.where)))
        return Why(f"Why tile {full_tile} is as full as it is:", tuple(_memory(report, full_tile)))
    if not report.num_steps:
        raise InvalidOptionError(f"""why() was called on a report in which nothing has run.
            next:  call engine.run(), then engine.report.why(). Without a run, only
            report.why({MEMORY!r}) has an answer.""")
    executed = executions(report)
    chosen_step = (
        None if what is None or isinstance(what, str) and what == WAITING else _step(report, what)
    )
    if chosen_step is not None:
        executed = [Executions(chosen_step, {chosen_step: 1})]
    if tile is not None:
        causes_of = partial(_tile, report, tile=int(tile))
        question = f"Why tile {tile} waits:"
        longest = max(
            executed,
            key=lambda e: (
                e.total(lambda n: _waits(report, n, tile)),
                e.total(partial(_cycles, report)),
            ),
        )
        step_number = longest.longest(lambda n: _waits(report, n, tile))
    elif what is not None and chosen_step is None:
        causes_of = partial(_waiting, report)
        question = "Why tiles wait:"
        longest = max(executed, key=lambda e: e.total(partial(lost_in, report)))
        step_number = longest.longest(partial(lost_in, report))
    else:
        longest = max(executed, key=lambda e: e.total(partial(_cycles, report)))
        step_number = longest.longest(partial(_cycles, report))
        subject = f"step {what}" if is_whole(what) else _name(report, step_number)
        if chosen_step is None:
            subject = "the run"
        causes_of = partial(_long, report)
        question = f"Why {subject} takes so long:"
    return Why(question, tuple(causes_of(executed, longest, step_number)), step_number)


def _cycles(report: Report, step_number: int) -> int:
    return report.step_cost(step_number).cycles


def lost(phase: Phase) -> float:
    """Return the cycles for which the average tile waits in a phase.

    The result is 0 for a phase in which all tiles take the same time, such as a sync; `phase.busy`
    is then None.
    """
    return 0.0 if phase.busy is None else phase.cycles - float(phase.busy.mean())


def lost_in(report: Report, step_number: int) -> float:
    """Return the cycles for which the average tile waits in one execution of a step.

    IPUs that take no part in the step add no waiting cycles. The I/O tiles of an IPU count as a
    separate IPU.
    """
    target = report.target
    if target.num_sets == 1:
        return sum(map(lost, report.phases(step_number)))
    set_bounds = np.append(target.set_starts, target.num_tiles)
    waited_cycles = 0.0
    for ipu in np.flatnonzero(report.profile.at_work(step_number)).tolist():
        tiles_of_ipu = slice(set_bounds[ipu], set_bounds[ipu + 1])
        for phase in report.phases(step_number, ipu):
            if phase.busy is not None:
                waited_cycles += float((phase.cycles - phase.busy[tiles_of_ipu]).sum())
    return waited_cycles / target.num_tiles


def _lost_between_sets(report: Report) -> float:
    """Return the cycles for which the average tile waits because its entire IPU waits.

    The I/O tiles of an IPU count as a separate IPU.
    """
    target = report.target
    if target.num_sets == 1:
        return 0.0
    tiles_per_set = np.diff(np.append(target.set_starts, target.num_tiles))
    waiting_cycles = np.array([row.waiting_cycles for row in report.ipus])
    return float((waiting_cycles * tiles_per_set).sum() / target.num_tiles)


def codelets_on(report: Report, step_number: int, tile: int) -> list[tuple[str, int]]:
    """Return (codelet name, number of tiles) for each codelet that a step executes on `tile`.

    The number of tiles counts all tiles on which the step executes the codelet.
    """
    parts_on_tile = (p for p in report.profile.parts(step_number) if tile in p.on)
    return [(report.profile.codelets[p.codelet].name, len(p.on)) for p in parts_on_tile]


def _n(value: SupportsFloat) -> str:
    return f"{float(value):,.15g}"


def _name(report: Report, step_number: int, times: int = 1) -> str:
    cost = report.step_cost(step_number)
    return f"{cost.kind} {cost.name!r}".removesuffix(" ''") + (
        f", which ran {times:,} times" if times > 1 else ""
    )


def _step(report: Report, step: object) -> int:
    """Return the number of the compiled step that `step`, an argument of `why`, refers to.

    :raises PoplarIndexError: if `step` is an index, and there is no such step.
    :raises InvalidOptionError: if `step` is not an index and refers to no step of the run.
    """
    order = report.step_numbers
    if is_whole(step):
        if not 0 <= step < len(order):
            raise PoplarIndexError(
                f"why() was given step {step}, which does not exist.",
                next_step=f"give a step from 0 to {len(order) - 1:,}.",
            )
        return int(order[step])
    number_by_name = {
        report.step_cost(n).name: n
        for n in sorted(set(order.tolist()), key=lambda n: report.step_cost(n).cycles)
    }
    # In a StepRun, the attribute `step` is the number of the compiled step.
    step_number = number_by_name.get(step) if isinstance(step, str) else getattr(step, "step", None)
    if not is_whole(step_number) or step_number not in order:
        raise InvalidOptionError(f"""why() was given {shown(step)}, which it cannot explain.
            next:  {did_you_mean(step, number_by_name)}give the number of a step, its name, a step
            of report.steps(), {WAITING!r}, {MEMORY!r}, or a GraphMemoryAllocationError.""")
    return step_number


def _long(
    report: Report, executed: list[Executions], longest: Executions, step_number: int
) -> Iterator[Cause]:
    cost = report.step_cost(step_number)
    phases = report.phases(step_number)
    cycles_of_run = report.total_cycles
    cycles_of_longest = longest.total(partial(_cycles, report))
    if len(executed) > 1 and cycles_of_longest < DOMINATES * cycles_of_run:
        yield from _none_dominates(report, executed, longest)
        return
    cycles_vary = len(longest.times) > 1
    if len(executed) > 1 or cycles_vary:
        name = _name(report, step_number, longest.count)
        yield Cause(
            f"The run takes {_n(cycles_of_run)} modelled cycles: {_n(cycles_of_longest)} of them "
            f"are spent in {name}."
        )
    slowest = max(phases, key=lambda p: p.cycles, default=Phase("nothing", 0))
    subject = _name(report, step_number)
    if cycles_vary:
        subject = (
            f"Its cycles depend on data: in {longest.times[step_number]:,} of "
            f"{counted(longest.count, 'execution')} it"
        )
    yield Cause(
        f"{subject} takes {_n(cost.cycles)} modelled cycles: {slowest.kind} is "
        f"{_n(slowest.cycles)} of them."
    )
    if phases:
        yield from _slowest(report, step_number, slowest)


def _none_dominates(
    report: Report, executed: list[Executions], longest: Executions
) -> Iterator[Cause]:
    """Yield two causes: no step takes a large share of the run, and one kind of phase takes most.

    This function is for a run in which each step takes less than the fraction `DOMINATES` of the
    run.
    """
    num_steps = len(executed)
    cycles_of_longest = longest.total(partial(_cycles, report))
    yield Cause(
        f"The run takes {_n(report.total_cycles)} modelled cycles, and none of its {num_steps:,} "
        f"steps dominates: the longest, {_name(report, longest.step, longest.count)}, takes "
        f"{_n(cycles_of_longest)} of them."
    )
    cycles_by_kind: Counter[str] = Counter()
    for execution in executed:
        for step_number, times in execution.times.items():
            for phase in report.phases(step_number):
                cycles_by_kind[phase.kind] += times * phase.cycles
    longest_kind, cycles = cycles_by_kind.most_common(1)[0]
    num_executions = sum(execution.count for execution in executed)
    share = 100 * cycles / (sum(cycles_by_kind.values()) or 1)
    yield Cause(
        f"Over all steps, {longest_kind} takes most: {_n(cycles)} cycles ({share:.1f} %), on "
        f"average {_n(round(cycles / num_executions, 1))} in each of "
        f"{counted(num_executions, 'execution')}."
    )


def _waiting(
    report: Report, executed: list[Executions], longest: Executions, step_number: int
) -> Iterator[Cause]:
    waits_in_step = partial(lost_in, report)
    wait_between_sets = _lost_between_sets(report)
    wait_within_sets = sum(e.total(waits_in_step) for e in executed)
    longest_wait = longest.total(waits_in_step)
    total_cycles = report.total_cycles or 1
    share_waiting = f"{100 * (wait_within_sets + wait_between_sets) / total_cycles:.1f} %"
    yield Cause(f"{share_waiting} of the tiles' modelled time is waiting for other tiles.")
    if wait_between_sets > longest_wait:
        sets = report.target.sets
        longest_awaited = max(report.ipus, key=lambda ipu: ipu.held_cycles)
        yield Cause(
            f"Most of it, {100 * wait_between_sets / total_cycles:.1f} % of all time, is the "
            "waiting of IPUs, or of their I/O tiles, for each other. They wait longest for "
            f"{sets[longest_awaited.ipu]} while it executes {longest_awaited.held_by!r}."
        )
    elif longest_wait:
        name = _name(report, step_number, longest.count)
        yield Cause(
            f"Most of it, {100 * longest_wait / total_cycles:.1f} % of all time, is spent in "
            f"{name}."
        )
        yield from _slowest(report, step_number, max(report.phases(step_number), key=lost))


def _waits(report: Report, step_number: int, tile: int) -> int:
    return sum(
        p.cycles - int(p.busy[tile]) for p in report.phases(step_number) if p.busy is not None
    )


def _tile(
    report: Report, executed: list[Executions], longest: Executions, step_number: int, tile: int
) -> Iterator[Cause]:
    waits_in_step = partial(_waits, report, tile=tile)
    waited_cycles = sum(execution.total(waits_in_step) for execution in executed)
    total_cycles = sum(execution.total(partial(_cycles, report)) for execution in executed)
    yield Cause(
        f"Tile {tile} waits for other tiles for {_n(waited_cycles)} of {_n(total_cycles)} modelled "
        "cycles.",
        (tile,),
    )
    if longest.total(waits_in_step):
        phases_with_tiles = (
            (candidate, candidate.busy)
            for candidate in report.phases(step_number)
            if candidate.busy is not None
        )
        phase, busy = max(
            phases_with_tiles, key=lambda entry: entry[0].cycles - int(entry[1][tile])
        )
        where = f"It waits longest in {_name(report, step_number, longest.count)}"
        yield Cause(
            f"{where}, where it finishes its {phase.kind} after {_n(busy[tile])} cycles.", (tile,)
        )
        yield from _slowest(report, step_number, phase)


def _slowest(report: Report, step_number: int, phase: Phase) -> Iterator[Cause]:
    """Yield the causes why a phase of a step takes long.

    If the report has the lines of the user's program, the last causes name them.
    """
    cost = report.step_cost(step_number)
    cycles_per_tile = phase.busy
    line = report.profile.steps[step_number].line
    mapping_line = ""
    if cycles_per_tile is None:
        bytes_between_ipus = sum(int(t.links.sum()) for t in cost.exchange)
        reason_by_kind = {
            HOST: f"{cost.host_bytes:,} bytes cross the link to the host",
            STREAMING: f"{cost.host_bytes:,} bytes cross the link to streaming memory",
            LINKS: f"{bytes_between_ipus:,} bytes leave their IPU",
        }
        reason = reason_by_kind.get(phase.kind, "A sync takes equally long after any work")
        yield Cause(f"{reason}, and all tiles wait.")
    else:
        slowest_tile = int(np.argmax(cycles_per_tile))
        median_cycles = _n(float(np.median(cycles_per_tile)))
        text_if_uneven = (
            f"It lasts until its slowest tile is done: tile {slowest_tile} takes "
            f"{_n(phase.cycles)} cycles, and the median tile {median_cycles}."
        )
        text_if_even = (
            f"All tiles take {median_cycles} cycles for it. The causes for tile {slowest_tile} "
            "apply to all tiles."
        )
        yield Cause(
            text_if_even if cycles_per_tile.min() == cycles_per_tile.max() else text_if_uneven,
            (slowest_tile,),
        )
        yield from (_moved if phase.exchange >= 0 else _computed)(
            report, step_number, phase, slowest_tile
        )
        line, mapping_line = _lines(report, step_number, phase, slowest_tile)
    if line and phase.kind != SYNC:
        yield Cause(
            f"{'This work is added' if phase.kind == COMPUTE else 'This data movement is caused'} "
            f"by {line}.",
            (),
            line,
        )
        if mapping_line not in ("", line) and phase.kind == COMPUTE:
            yield Cause(
                f"It is on tile {slowest_tile} because of {mapping_line}.",
                (slowest_tile,),
                mapping_line,
            )


def _lines(report: Report, step_number: int, phase: Phase, tile: int) -> tuple[str, str]:
    """Return `(line, mapping_line)`: the user's lines behind a tile's work in a phase of a step.

    `line` added most of the tile's work in the phase, and `mapping_line` mapped this work to the
    tile. A line that is not known is "".
    """
    profile = report.profile
    cost = report.step_cost(step_number)
    adding_line, mapping_line = profile.lines_on(step_number, tile)
    copying_line = profile.steps[step_number].line
    if profile.steps[step_number].compute_set < 0:
        return copying_line, ""
    if not copying_line:
        return adding_line, mapping_line
    # The compiler merged copies into the superstep of this compute set.
    if phase.exchange == 0:
        line = profile.line_of_move(step_number, tile, within=False)
    elif (
        phase.kind == COMPUTE
        and 2 * _gathered(report, step_number, tile) > cost.compute_cycles[tile]
    ):
        line = profile.line_of_move(step_number, tile, within=True)
    else:
        line = adding_line
    return line, mapping_line if line == adding_line else ""


def _gathered(report: Report, step_number: int, tile: int) -> int:
    """Return the cycles that a tile spends in a step on copies within its own memory."""
    exchanges = report.step_cost(step_number).exchange
    return sum(int(traffic.copy_cycles(report.target)[0][tile]) for traffic in exchanges)


def _computed(report: Report, step_number: int, phase: Phase, tile: int) -> Iterator[Cause]:
    """Yield the causes why a tile computes longest, as far as the report shows them."""
    cost = report.step_cost(step_number)
    target = report.target
    vertices = report.profile.vertices_on(step_number)
    names = codelets_on(report, step_number, tile)
    compute_cycles = int(cost.compute_cycles[tile])
    copy_cycles = _gathered(report, step_number, tile)
    if 2 * copy_cycles > compute_cycles:
        num_pieces, bytes_moved = (
            sum(int(getattr(t, name)[tile]) for t in cost.exchange) for name in ("pieces", "stayed")
        )
        text = (
            f"It spends {_n(copy_cycles)} of them on moving {counted(num_pieces, 'piece')}, "
            f"{bytes_moved:,} bytes, within its memory."
        )
    elif vertices is None:
        codelet_texts = (
            f"{name}, which is on {num_tiles:,} of {counted(target.num_tiles, 'tile')}"
            for name, num_tiles in names[:2]
        )
        text = f"Tile {tile} executes {' and '.join(codelet_texts)}."
    else:
        vertices_per_tile, longest_per_tile = vertices[:2]
        text = (
            f"Tile {tile} executes {counted(int(vertices_per_tile[tile]), 'vertex', 'vertices')} "
            f"of {names[0][0]}"
        )
        if vertices_per_tile[tile] > np.median(vertices_per_tile):
            text += f"; the median tile has {_n(np.median(vertices_per_tile))}"
        if longest_per_tile[tile] > np.median(longest_per_tile[vertices_per_tile > 0]):
            text += (
                f"; its longest vertex takes {_n(longest_per_tile[tile])} cycles, and that of the "
                f"median tile {_n(np.median(longest_per_tile[vertices_per_tile > 0]))}"
            )
        text += "."
    yield Cause(text, (tile,))
    if vertices is not None and 2 * copy_cycles <= compute_cycles and not vertices[2][tile]:
        workers = target.num_worker_contexts
        busiest_cycles = _n((compute_cycles - copy_cycles) // workers)
        idle_workers = workers - int(vertices[0][tile])
        idle_note = (
            f", and {counted(idle_workers, 'worker has', 'workers have')} no vertex"
            if idle_workers > 0
            else ""
        )
        yield Cause(
            f"{workers} workers share the vertices{idle_note}. Each worker runs in every "
            f"{workers}th cycle of the tile, and the busiest needs {busiest_cycles} such cycles.",
            (tile,),
        )


def _moved(report: Report, step_number: int, phase: Phase, tile: int) -> Iterator[Cause]:
    """Yield the causes why a tile exchanges data longest, as far as the report shows them."""
    traffic = report.step_cost(step_number).exchange[phase.exchange]
    target = report.target
    bytes_received = int(traffic.received[tile])
    bytes_sent = int(traffic.sent[tile])
    arrival = int(arrival_cycles(target)[tile]) if bytes_received else 0
    receiving, sending, issuing = (int(b[tile]) for b in traffic.bounds(target))
    senders_and_pieces = (
        f"receives from {counted(int(traffic.sources[tile]), 'sender')} and sends "
        f"{counted(int(traffic.sends[tile]), 'piece')}"
    )
    transfers = report.transfers(step_number)[phase.exchange]
    bytes_by_source = np.zeros(target.num_tiles, np.int64)
    for source_tile, message_bytes, receiving_tiles in zip(
        transfers.source.tolist(), transfers.size.tolist(), transfers.receivers, strict=True
    ):
        bytes_by_source[source_tile] += message_bytes * bool((receiving_tiles == tile).any())
    main_source = int(np.argmax(bytes_by_source))
    text = {
        arrival: (
            f"It receives {bytes_received:,} bytes, and the first of them arrives after {arrival} "
            "cycles."
        ),
        issuing: (
            f"It {senders_and_pieces}, and issuing the instructions for this takes {issuing:,} "
            "cycles."
        ),
        sending: (
            f"It sends {bytes_sent:,} bytes, and the median tile {_n(np.median(traffic.sent))}."
        ),
        receiving: (
            f"It receives {bytes_received:,} bytes, and the median tile "
            f"{_n(np.median(traffic.received))}. Most of its bytes, "
            f"{int(bytes_by_source[main_source]):,}, come from tile {main_source}."
        ),
    }[max(arrival, receiving, sending, issuing)]
    yield Cause(text, (tile, main_source) if "come from" in text else (tile,))


def _memory(report: Report, tile: int) -> Iterator[Cause]:
    memory = report.memory
    limit = report.target.bytes_per_tile
    tiles = counted(report.target.num_tiles, "tile")
    bytes_held = int(memory.held_per_tile[tile])
    median_bytes = _n(np.median(memory.held_per_tile))
    excess_note = f", {bytes_held - limit:,} more than it has" if bytes_held > limit else ""
    yield Cause(
        f"Tile {tile} holds {bytes_held:,} of {limit:,} bytes{excess_note}; the median tile holds "
        f"{median_bytes}.",
        (tile,),
    )
    category, category_bytes = max(memory.by_category(tile).items(), key=lambda item: item[1])
    if category not in (VARIABLES, CONSTANTS):
        fullest_place = memory.fullest_place(tile) if category in PASSING else None
        during = (
            f", while {fullest_place.kind} {fullest_place.name!r} runs" if fullest_place else ""
        )
        yield Cause(
            f"Most of it is for {category.lower()}: {category_bytes:,} bytes{during}.", (tile,)
        )
        line = _line_of_buffers(report, fullest_place.step, tile) if fullest_place else ""
        if line:
            yield Cause(f"This data movement is caused by {line}.", (), line)
        return
    bytes_by_name = memory.at_fullest(tile, category)
    name, largest_bytes = next(iter(bytes_by_name.items()))
    if 2 * largest_bytes < category_bytes:
        yield from _several(report, tile, category, bytes_by_name)
        return
    variable = max(
        (candidate for candidate in report.variables if candidate.name == name),
        key=lambda candidate: candidate.bytes,
    )
    yield Cause(
        f"Most of it is {name!r}: {largest_bytes:,} bytes. In total, {name!r} has "
        f"{variable.bytes:,} bytes on {variable.tiles:,} of {tiles}.",
        (tile,),
    )
    live_range = (
        "from the first step to the last"
        if variable.always_live
        else f"from step {variable.first + 1} to step {variable.last + 1}"
    )
    yield Cause(f"It is live {live_range} of the programs.")
    if variable.line:
        yield Cause(f"It is added by {variable.line}.", (), variable.line)


def _several(
    report: Report, tile: int, category: str, bytes_by_name: dict[str, int]
) -> Iterator[Cause]:
    """Yield causes: how many variables or constants fill a tile, and which line adds most bytes.

    This function is for a tile on which no single variable takes half of the bytes of its
    `category`.
    """
    name, largest_bytes = next(iter(bytes_by_name.items()))
    noun = category.lower()
    yield Cause(
        f"Most of it is {len(bytes_by_name):,} {noun}: {sum(bytes_by_name.values()):,} bytes. The "
        f"largest, {name!r}, takes {largest_bytes:,}.",
        (tile,),
    )
    line_by_name = {row.name: row.line for row in report.variables}
    bytes_by_line: Counter[str] = Counter()
    count_by_line: Counter[str] = Counter()
    for variable, bytes_held in bytes_by_name.items():
        line = line_by_name.get(variable, "")
        bytes_by_line[line] += bytes_held
        count_by_line[line] += 1
    line, bytes_held = bytes_by_line.most_common(1)[0]
    if line:
        yield Cause(
            f"{count_by_line[line]:,} of them, {bytes_held:,} bytes, are added by {line}.",
            (tile,),
            line,
        )


def _line_of_buffers(report: Report, step_number: int, tile: int) -> str:
    """Return the user's line that causes the exchange buffers of a step on a tile.

    The result is the line that adds most of the step's vertices on the tile. If there is no such
    line, or if it is not known, the result is the line of the copy.
    """
    return report.profile.lines_on(step_number, tile)[0] or report.profile.steps[step_number].line
