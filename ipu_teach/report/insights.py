"""The findings of a report as sentences, on memory and on the largest costs, with advice.

There are few rules, and each states its evidence. Every figure is from the report, and modelled.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ipu_teach.cost.ledger import CONSTANTS, VARIABLES
from ipu_teach.errors import counted
from ipu_teach.report.executions import executions
from ipu_teach.report.table import Table
from ipu_teach.types import Array

if TYPE_CHECKING:
    from ipu_teach.report.report import Report

FULLEST = 5
# the limits from which a rule gives its finding or its advice: shares of the run or the memory
HALF_FULL = 0.5
NEARLY_FULL = 0.9
UNEVEN = 1.5
WAITING = 0.1
MOVING = 0.3
SYNCING = 0.4
STREAMING = 0.5
GATHERING = 0.05
SIDE_BY_SIDE = (
    "let what a vertex or a Copy takes lie side by side on its tile: rows, not columns, or a copy "
    "transposed once."
)
# The topics of advice. A course that teaches them enters its lessons in `LESSONS`.
MAPPING, SUPERSTEPS = "mapping", "supersteps"
LESSONS: dict[str, str] = {}  # from a topic to the number and title of its lesson


@dataclass(frozen=True)
class Insight:
    """One finding of a report.

    `kind` is its subject, `name` the tile, variable or step, and `figure` an amount in `unit`;
    `text` is the finding as a sentence. `advice` says what to try, or is empty. `lesson` is the
    lesson that teaches it, or empty without the course.
    """

    kind: str
    name: str
    figure: float
    unit: str
    text: str
    advice: str = ""
    lesson: str = ""


def insights(report: Report) -> Table[Insight]:
    """Return the findings: the fit, the fullest tiles, the largest costs, and advice."""
    insights_found = [*_fit(report), *_fullest(report), *_skew(report), *_always_live(report)]
    if report.num_steps:
        insights_found += [
            *_balance(report),
            *_rearrangement(report),
            *_pieces(report),
            *_shares(report),
            *_ipus(report),
        ]
        insights_found += _unknown(report)
    return Table(insights_found)


def _lesson(topic: str) -> str:
    """Return the lesson on a topic, or "" if no course that teaches it is loaded."""
    return LESSONS.get(topic, "")


def _advised(needed: bool, advice: str, topic: str) -> tuple[str, str]:
    """Return the advice and the lesson on its topic, or two empty strings if it is not needed."""
    return (advice, _lesson(topic)) if needed else ("", "")


def _fit(report: Report) -> Iterator[Insight]:
    bytes_held = report.memory.held_per_tile
    limit = report.target.bytes_per_tile
    tile = int(np.argmax(bytes_held))
    peak = int(bytes_held[tile])
    over = int((bytes_held > limit).sum())
    share = f"{peak:,} of {limit:,} bytes ({100 * peak / limit:.1f} %)"
    if over:
        part, size = max(report.memory.by_category(tile).items(), key=lambda item: item[1])
        data = part in (VARIABLES, CONSTANTS)
        name, own_bytes = next(iter(report.memory.at_fullest(tile).items()), ("", 0))
        # the causes that the text can name: a large variable, or else a category of memory
        part, size = (
            (repr(name), own_bytes) if data and 10 * own_bytes >= size else (part.lower(), size)
        )
        spread = (
            f"spread {part} over more tiles"
            if over < len(bytes_held)
            else "use more tiles or IPUs: none has room"
        )
        yield Insight(
            "out of memory",
            f"tile {tile}",
            figure=over,
            unit="tiles",
            text=(
                f"It does not fit: {counted(over, 'tile')} over the limit. Tile {tile} holds "
                f"{share}, most of all {part} with {size:,} bytes."
            ),
            advice=f"{spread}; use a smaller dtype, or free it earlier."
            if data
            else (
                "let fewer vertices and copies do the work: each takes code, pointers and buffers."
            ),
            lesson=_lesson(MAPPING),
        )
        return
    text = f"It fits: the fullest tile, {tile}, holds {share}."
    advice = "there is little room left on this tile; move some of it to emptier ones."
    yield Insight(
        "fit",
        f"tile {tile}",
        peak,
        "bytes",
        text,
        *_advised(peak > NEARLY_FULL * limit, advice, MAPPING),
    )


def _fullest(report: Report) -> Iterator[Insight]:
    """Yield a finding for the fullest tiles, if they use at least half of their memory."""
    bytes_held = report.memory.held_per_tile
    limit = report.target.bytes_per_tile
    for tile in np.argsort(-bytes_held, kind="stable")[:FULLEST].tolist():
        if bytes_held[tile] < HALF_FULL * limit:
            return
        name, size = next(iter(report.memory.at_fullest(tile).items()), ("", 0))
        largest = (
            f"its largest variable is {name!r}, {size:,} bytes"
            if size
            else "no variable lies on it"
        )
        text = f"Tile {tile} holds {int(bytes_held[tile]):,} of {limit:,} bytes; {largest}."
        yield Insight(
            "full tile", f"tile {tile}", figure=int(bytes_held[tile]), unit="bytes", text=text
        )


def _skew(report: Report) -> Iterator[Insight]:
    bytes_held = report.memory.held_per_tile
    mean = float(bytes_held.mean())
    skew = float(bytes_held.max()) / mean if mean else 1.0
    uneven = skew > UNEVEN and mean < report.target.bytes_per_tile  # else no mapping fits
    text = f"The fullest tile holds {skew:.2f} times what an average tile holds."
    advice = "map the variables evenly, with poputil.map_tensor_linearly say."
    yield Insight(
        "skew", "memory", skew, "times the mean", text, *_advised(uneven, advice, MAPPING)
    )


def _always_live(report: Report) -> Iterator[Insight]:
    for row in report.variables.always_live().largest("bytes", 1):
        part = (
            f"{row.bytes:,} of {int(report.memory.always_live_bytes_per_tile.sum()):,} bytes that "
            "never come free"
        )
        text = f"The largest variable that is always live is {row.name!r}: {part}."
        yield Insight("always live", row.name, figure=row.bytes, unit="bytes", text=text)


def _balance(report: Report) -> Iterator[Insight]:
    """Yield the compute set in which tiles wait longest for each other."""
    computed = [
        execution
        for execution in executions(report)
        if report.profile.steps[execution.step].compute_set >= 0
        and execution.total(lambda number: report.step_cost(number).compute_duration)
    ]
    if not computed:
        return
    worst = max(computed, key=lambda execution: execution.total(partial(_waited, report)))
    lost = worst.total(partial(_waited, report))
    number = worst.longest(lambda number: report.step_cost(number).compute_duration)
    name = report.step_cost(number).name
    balance = _balance_of(report, number)
    share = lost / report.total_cycles
    text = (
        f"The tiles wait longest for each other in {name!r}: its balance is {100 * balance:.0f} %"
    )
    text += f", and the waiting is {100 * share:.1f} % of the run."
    advice = _advised(
        share > WAITING, "give each tile as much work: spread its vertices evenly.", SUPERSTEPS
    )
    even = "Every compute set keeps all tiles busy for as long."
    yield Insight("balance", name, balance, "of 1", text if lost else even, *advice)


def _computing(report: Report, number: int) -> list[Array]:
    """Return the compute cycles of the tiles in each of `Target.sets` that takes part in a step.

    I/O tiles are separate sets, so a step that does not use them is not uneven.
    """
    cycles = np.split(report.step_cost(number).compute_cycles, report.target.set_starts[1:])
    at_work = report.profile.at_work(number).tolist()
    return [
        per_tile
        for per_tile, works in zip(cycles, at_work, strict=True)
        if works and per_tile.any()
    ]


def _balance_of(report: Report, number: int) -> float:
    """Return the mean over the maximum of the compute cycles of the tiles that take part in a step.

    With several IPUs, each is compared with its own maximum.
    """
    sets = _computing(report, number)
    possible = sum(len(per_tile) * int(per_tile.max()) for per_tile in sets)
    return sum(int(per_tile.sum()) for per_tile in sets) / possible if possible else 1.0


def _waited(report: Report, number: int) -> float:
    """Return the cycles that a tile waits in a step for the slowest tile of its set.

    They are an average over all tiles of the machine.
    """
    sets = _computing(report, number)
    waits = sum(len(per_tile) * int(per_tile.max()) - int(per_tile.sum()) for per_tile in sets)
    return waits / report.target.num_tiles


def _rearrangement(report: Report) -> Iterator[Insight]:
    exchanges_run = report.exchanges.where(lambda row: row.executions)
    if not exchanges_run:
        return
    worst = max(exchanges_run, key=lambda row: row.executions * row.bytes_received)
    total = sum(row.executions * row.bytes_received for row in exchanges_run)
    moved = worst.executions * worst.bytes_received
    share = report.proportions["exchange"]
    text = (
        f"Most bytes move in {worst.name or worst.kind!r}: {moved:,} of {total:,} that cross "
        "between tiles."
    )
    advice = (
        f"exchange takes {100 * share:.0f} % of the run; put what is read together on the tile "
        "that reads it."
    )
    yield Insight(
        "rearrangement",
        worst.name,
        moved,
        "bytes",
        text,
        *_advised(share > MOVING, advice, MAPPING),
    )


def _pieces(report: Report) -> Iterator[Insight]:
    """Yield the steps in which moving pieces inside a tile takes longest.

    A step is left out if the moving takes less than a twentieth of it.
    """
    costs = [report.step_cost(number) for number in np.flatnonzero(report.executions).tolist()]
    pieces = [
        (int(cycles.max()), int(cycles.argmax()), cost, traffic)
        for cost in costs
        for traffic in cost.exchange
        for cycles, _ in [traffic.copy_cycles(report.target)]
    ]
    for largest, tile, cost, traffic in sorted(pieces, key=lambda entry: -entry[0])[:FULLEST]:
        if largest > GATHERING * cost.cycles and traffic.pieces[tile] > 1:
            duration = (
                f"In {cost.name!r} tile {tile} takes {largest:,} of the step's {cost.cycles:,.0f} "
                "cycles to move"
            )
            text = (
                f"{duration} {int(traffic.pieces[tile]):,} pieces, {int(traffic.stayed[tile]):,} "
                "bytes, within its memory."
            )
            yield Insight(
                "pieces",
                cost.name,
                figure=largest,
                unit="cycles",
                text=text,
                advice=SIDE_BY_SIDE,
                lesson=_lesson(MAPPING),
            )


def _shares(report: Report) -> Iterator[Insight]:
    shares = report.proportions
    words = ", ".join(f"{name} {100 * share:.1f} %" for name, share in shares.items() if share)
    dominant = max(shares, key=lambda name: shares[name])
    advice = ""
    lesson = ""
    if shares["host exchange"] > STREAMING:
        advice = (
            "most of the run is the host's link: stream more at a time, or keep data on the device "
            "between runs."
        )
    elif shares["streaming memory"] > STREAMING:
        advice = (
            "most of the run is the link to streaming memory: do more with each row while it is on "
            "the device, or load the next one beside the computation."
        )
    elif shares["sync and waiting"] > SYNCING:
        advice = "most of the run is sync and waiting: do more in each superstep, and balance it."
        lesson = _lesson(SUPERSTEPS)
    yield Insight(
        "proportions",
        dominant,
        figure=shares[dominant],
        unit="of the run",
        text=f"The average tile's time: {words}.",
        advice=advice,
        lesson=lesson,
    )


def _ipus(report: Report) -> Iterator[Insight]:
    """Yield the IPU that the others wait for longest."""
    for row in report.ipus.largest("held_cycles", 1) if report.target.num_sets > 1 else ():
        sets = report.target.sets
        share = row.held_cycles / (sum(r.busy_cycles + r.waiting_cycles for r in report.ipus) or 1)
        waiting = (
            f"{sets[row.ipu]} holds up the others: they wait for it {100 * share:.1f} % of the "
            "time of all IPUs, longest"
        )
        waiting += f" while it is in {row.held_by!r}."
        busy = ", ".join(
            f"{sets[r.ipu]} {100 * r.busy:.0f} %"
            for r in report.ipus.largest("busy_cycles", FULLEST)
        )
        text = (
            f"{waiting if row.held_cycles else 'No IPU waits for another.'} At work are {busy} of "
            "the run."
        )
        advice = (
            "give each IPU as much to do between two transfers of all, or let them meet less often."
        )
        yield Insight(
            "IPUs",
            sets[row.ipu],
            row.held_cycles,
            "cycles",
            text,
            *_advised(share > WAITING, advice, SUPERSTEPS),
        )


def _unknown(report: Report) -> Iterator[Insight]:
    for name in report.unknown_codelets:
        text = f"{name} ran without a cost model; its cycles are missing from every sum."
        advice = (
            f"give it `cycles(target)`, or set_perf_estimate for its vertices; {name}'s line is in "
            "report.unbatched()."
        )
        yield Insight("no estimate", name, figure=0, unit="cycles", text=text, advice=advice)
