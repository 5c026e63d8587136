"""Sentences about a report: on its memory use and its largest costs, some with advice.

Only a few rules produce these findings, and each finding states its evidence. All numbers are from
the report; its cycles and bytes are modelled.
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

FULLEST = 5  # The maximum number of tiles, copies or IPUs in the findings of one kind.
HALF_FULL = 0.5  # Only a tile that uses at least this share of its memory is listed as full.
# If a tile uses more than this share of its memory, the advice is to move data to other tiles.
NEARLY_FULL = 0.9
# If tiles or IPUs wait for more than this fraction of the run, the advice is to give all of them
# the same amount of work.
WAITING = 0.1
# If exchange takes more than this share of the run, the advice is to map data to the tiles that
# read it.
MOVING = 0.3
# If syncs and waiting take more than this share of the run, the advice is to do more in each
# superstep.
SYNCING = 0.4
# If transfers with the host or streaming memory take more than this share of the run, the advice is
# to transfer less.
STREAMING = 0.5
# If the fullest tile uses more than this many times the memory of the average tile, the advice is
# to map data evenly.
UNEVEN = 1.5
# A step is listed if copies within a tile take more than this fraction of the step's cycles.
GATHERING = 0.05
SIDE_BY_SIDE = (
    "make the data that a vertex or a Copy needs contiguous on its tile: use rows, not columns, or "
    "transpose the data once."
)
# The topics of advice. When a course is loaded, it stores the number and title of its lesson on
# each topic in `LESSONS`.
MAPPING, SUPERSTEPS = "mapping", "supersteps"
LESSONS: dict[str, str] = {}


@dataclass(frozen=True)
class Insight:
    """One finding of a report.

    - `kind` is the subject of the finding, such as "fit" or "balance".
    - `name` is the tile, variable, step or other thing that the finding is about.
    - `figure` is the amount that the finding is about, in the unit `unit`.
    - `text` states the finding in a sentence.
    - `advice` says what to try, or is "".
    - `lesson` is the name of the lesson that explains the advice, or "" if no course is loaded.
    """

    kind: str
    name: str
    figure: float
    unit: str
    text: str
    advice: str = ""
    lesson: str = ""


def insights(report: Report) -> Table[Insight]:
    """Return the findings of a report: whether it fits, the fullest tiles, and the largest costs.

    Some findings contain advice. If nothing has run, the findings are only about memory.
    """
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
    """Return the advice and the lesson on `topic`, or two empty strings if `needed` is False."""
    return (advice, _lesson(topic)) if needed else ("", "")


def _fit(report: Report) -> Iterator[Insight]:
    bytes_held = report.memory.held_per_tile
    limit = report.target.bytes_per_tile
    tile = int(np.argmax(bytes_held))
    peak_bytes = int(bytes_held[tile])
    tiles_over_limit = int((bytes_held > limit).sum())
    share = f"{peak_bytes:,} of {limit:,} bytes ({100 * peak_bytes / limit:.1f} %)"
    if tiles_over_limit:
        category, category_bytes = max(
            report.memory.by_category(tile).items(), key=lambda item: item[1]
        )
        is_data = category in (VARIABLES, CONSTANTS)
        largest_name, largest_bytes = next(iter(report.memory.at_fullest(tile).items()), ("", 0))
        # The text names the largest variable if this variable takes at least a tenth of the bytes
        # of its category. Otherwise, the text names the category.
        category, category_bytes = (
            (repr(largest_name), largest_bytes)
            if is_data and 10 * largest_bytes >= category_bytes
            else (category.lower(), category_bytes)
        )
        spread_advice = (
            f"spread {category} over more tiles"
            if tiles_over_limit < len(bytes_held)
            else "use more tiles or IPUs, because no tile has space left"
        )
        yield Insight(
            "out of memory",
            f"tile {tile}",
            figure=tiles_over_limit,
            unit="tiles",
            text=(
                "It does not fit: "
                f"{counted(tiles_over_limit, 'tile is', 'tiles are')} over the limit. Tile {tile} "
                f"holds {share}. Most of it is {category} with {category_bytes:,} bytes."
            ),
            advice=f"{spread_advice}; use a smaller dtype, or free the memory earlier."
            if is_data
            else ("use fewer vertices and copies: each of them needs code, pointers and buffers."),
            lesson=_lesson(MAPPING),
        )
        return
    text = f"It fits: the fullest tile, {tile}, holds {share}."
    advice = "this tile has little memory left; move some of its data to other tiles."
    yield Insight(
        "fit",
        f"tile {tile}",
        peak_bytes,
        "bytes",
        text,
        *_advised(peak_bytes > NEARLY_FULL * limit, advice, MAPPING),
    )


def _fullest(report: Report) -> Iterator[Insight]:
    """Yield a finding for the fullest tiles, if they use at least half of their memory."""
    bytes_held = report.memory.held_per_tile
    limit = report.target.bytes_per_tile
    for tile in np.argsort(-bytes_held, kind="stable")[:FULLEST].tolist():
        if bytes_held[tile] < HALF_FULL * limit:
            return
        variable_name, largest_bytes = next(iter(report.memory.at_fullest(tile).items()), ("", 0))
        variable_text = (
            f"its largest variable is {variable_name!r}, {largest_bytes:,} bytes"
            if largest_bytes
            else "no variable is mapped to it"
        )
        text = f"Tile {tile} holds {int(bytes_held[tile]):,} of {limit:,} bytes; {variable_text}."
        yield Insight(
            "full tile", f"tile {tile}", figure=int(bytes_held[tile]), unit="bytes", text=text
        )


def _skew(report: Report) -> Iterator[Insight]:
    bytes_held = report.memory.held_per_tile
    mean_bytes = float(bytes_held.mean())
    skew = float(bytes_held.max()) / mean_bytes if mean_bytes else 1.0
    # If the average tile is full already, an even mapping would not help.
    needs_advice = skew > UNEVEN and mean_bytes < report.target.bytes_per_tile
    text = f"The fullest tile holds {skew:.2f} times what an average tile holds."
    advice = "map the variables evenly, for example with poputil.map_tensor_linearly."
    yield Insight(
        "skew", "memory", skew, "times the mean", text, *_advised(needs_advice, advice, MAPPING)
    )


def _always_live(report: Report) -> Iterator[Insight]:
    for variable in report.variables.always_live().largest("bytes", 1):
        share_text = (
            f"{variable.bytes:,} of {int(report.memory.always_live_bytes_per_tile.sum()):,} bytes "
            "that are never freed"
        )
        text = f"The largest variable that is always live is {variable.name!r}: {share_text}."
        yield Insight("always live", variable.name, figure=variable.bytes, unit="bytes", text=text)


def _balance(report: Report) -> Iterator[Insight]:
    """Yield a finding on the compute set in which tiles wait longest for slower tiles.

    The waiting is summed over all executions of the compute set.
    """
    compute_steps = [
        execution
        for execution in executions(report)
        if report.profile.steps[execution.step].compute_set >= 0
        and execution.total(lambda longest_step: report.step_cost(longest_step).compute_duration)
    ]
    if not compute_steps:
        return
    longest_wait = max(
        compute_steps, key=lambda execution: execution.total(partial(_waited, report))
    )
    lost_cycles = longest_wait.total(partial(_waited, report))
    longest_step = longest_wait.longest(
        lambda longest_step: report.step_cost(longest_step).compute_duration
    )
    compute_set_name = report.step_cost(longest_step).name
    balance = _balance_of(report, longest_step)
    share = lost_cycles / report.total_cycles
    text = (
        f"The tiles wait longest for each other in {compute_set_name!r}: its balance is "
        f"{100 * balance:.0f} %"
    )
    text += f", and the waiting is {100 * share:.1f} % of the run."
    advice = _advised(
        share > WAITING, "give all tiles equal work: distribute the vertices evenly.", SUPERSTEPS
    )
    even_text = "In every compute set, all tiles compute equally long."
    yield Insight(
        "balance", compute_set_name, balance, "of 1", text if lost_cycles else even_text, *advice
    )


def _computing(report: Report, step_number: int) -> list[Array]:
    """Return each tile's compute cycles in a step, as one array for each set of tiles at work.

    Each IPU is a set of tiles. If there are I/O tiles, the I/O tiles of an IPU are a separate set,
    so that a step in which they have no work does not count as uneven.
    """
    cycles_of_sets = np.split(
        report.step_cost(step_number).compute_cycles, report.target.set_starts[1:]
    )
    at_work = report.profile.at_work(step_number).tolist()
    return [
        per_tile
        for per_tile, takes_part in zip(cycles_of_sets, at_work, strict=True)
        if takes_part and per_tile.any()
    ]


def _balance_of(report: Report, step_number: int) -> float:
    """Return the balance of a step: its mean compute cycles divided by the maximum.

    If there are several IPUs, each tile is compared with the maximum of its own IPU.
    """
    cycles_of_sets = _computing(report, step_number)
    available_cycles = sum(len(per_tile) * int(per_tile.max()) for per_tile in cycles_of_sets)
    return (
        sum(int(per_tile.sum()) for per_tile in cycles_of_sets) / available_cycles
        if available_cycles
        else 1.0
    )


def _waited(report: Report, step_number: int) -> float:
    """Return the cycles for which the average tile waits in a step for the slowest on its IPU.

    The average is over all tiles of the machine, including tiles that do not compute.
    """
    cycles_of_sets = _computing(report, step_number)
    waiting_cycles = sum(
        len(per_tile) * int(per_tile.max()) - int(per_tile.sum()) for per_tile in cycles_of_sets
    )
    return waiting_cycles / report.target.num_tiles


def _rearrangement(report: Report) -> Iterator[Insight]:
    rows_executed = report.exchanges.where(lambda row: row.executions)
    if not rows_executed:
        return
    largest = max(rows_executed, key=lambda row: row.executions * row.bytes_received)
    total_bytes = sum(row.executions * row.bytes_received for row in rows_executed)
    bytes_moved = largest.executions * largest.bytes_received
    share = report.proportions["exchange"]
    text = (
        f"Most bytes move in {largest.name or largest.kind!r}: {bytes_moved:,} of the "
        f"{total_bytes:,} bytes that tiles receive from other tiles."
    )
    advice = (
        f"exchange takes {100 * share:.0f} % of the run; map data that is read together to the "
        "tile that reads it."
    )
    yield Insight(
        "rearrangement",
        largest.name,
        bytes_moved,
        "bytes",
        text,
        *_advised(share > MOVING, advice, MAPPING),
    )


def _pieces(report: Report) -> Iterator[Insight]:
    """Yield a finding for each step in which a tile takes long to copy data within its memory.

    The copies must move more than one piece of data and take more than the fraction `GATHERING` of
    the step's cycles. There are at most `FULLEST` findings.
    """
    step_costs = [report.step_cost(number) for number in np.flatnonzero(report.executions).tolist()]
    copies = [
        (int(cycles.max()), int(cycles.argmax()), cost, traffic)
        for cost in step_costs
        for traffic in cost.exchange
        for cycles, _ in [traffic.copy_cycles(report.target)]
    ]
    for copy_cycles, tile, cost, traffic in sorted(copies, key=lambda entry: -entry[0])[:FULLEST]:
        if copy_cycles > GATHERING * cost.cycles and traffic.pieces[tile] > 1:
            duration_text = (
                f"In {cost.name!r}, tile {tile} takes {copy_cycles:,} of the step's "
                f"{cost.cycles:,.0f} cycles to move"
            )
            text = (
                f"{duration_text} {int(traffic.pieces[tile]):,} pieces, "
                f"{int(traffic.stayed[tile]):,} bytes, within its memory."
            )
            yield Insight(
                "pieces",
                cost.name,
                figure=copy_cycles,
                unit="cycles",
                text=text,
                advice=SIDE_BY_SIDE,
                lesson=_lesson(MAPPING),
            )


def _shares(report: Report) -> Iterator[Insight]:
    shares = report.proportions
    share_texts = ", ".join(
        f"{name} {100 * share:.1f} %" for name, share in shares.items() if share
    )
    largest_share = max(shares, key=lambda name: shares[name])
    advice = ""
    lesson = ""
    if shares["host exchange"] > STREAMING:
        advice = (
            "most of the run is spent on host transfers: transfer more data at a time, or keep "
            "data on the device between runs."
        )
    elif shares["streaming memory"] > STREAMING:
        advice = (
            "most of the run is spent on transfers with streaming memory: do more with each row "
            "while it is on the device, or load the next row during the computation."
        )
    elif shares["sync and waiting"] > SYNCING:
        advice = (
            "most of the run is spent on sync and waiting: do more in each superstep, and balance "
            "the work."
        )
        lesson = _lesson(SUPERSTEPS)
    yield Insight(
        "proportions",
        largest_share,
        figure=shares[largest_share],
        unit="of the run",
        text=f"The average tile's time: {share_texts}.",
        advice=advice,
        lesson=lesson,
    )


def _ipus(report: Report) -> Iterator[Insight]:
    """Yield a finding on the IPU for which other IPUs wait longest, and on the busiest IPUs."""
    for longest_awaited in (
        report.ipus.largest("held_cycles", 1) if report.target.num_sets > 1 else ()
    ):
        sets = report.target.sets
        share = longest_awaited.held_cycles / (
            sum(r.busy_cycles + r.waiting_cycles for r in report.ipus) or 1
        )
        waiting_text = (
            f"{sets[longest_awaited.ipu]} delays the others: they wait for it for "
            f"{100 * share:.1f} % of the time of all IPUs, longest"
        )
        waiting_text += f" while it executes {longest_awaited.held_by!r}."
        busy_texts = ", ".join(
            f"{sets[r.ipu]} {100 * r.busy:.0f} %"
            for r in report.ipus.largest("busy_cycles", FULLEST)
        )
        text = (
            f"{waiting_text if longest_awaited.held_cycles else 'No IPU waits for another.'} "
            f"Working time: {busy_texts} of the run."
        )
        advice = (
            "give all IPUs equal work between the steps that they begin together, or let them wait "
            "for each other less often."
        )
        yield Insight(
            "IPUs",
            sets[longest_awaited.ipu],
            longest_awaited.held_cycles,
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
