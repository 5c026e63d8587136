"""The view `tile`: the worker threads of a tile with their vertices, its memory, and its code.

A tile takes as long as its busiest worker thread. The worker threads take turns, so each issues one
instruction every N cycles, where N is the number of worker threads: six on most machines. A step
then takes N x (instructions of the busiest worker thread) cycles. The vertices are assigned to
worker threads as in the schedule from which the cost model computes the cycles.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ipu_teach._support.flags import checks
from ipu_teach.compile.groups import Group
from ipu_teach.cost.ledger import VARIABLES
from ipu_teach.cost.lines import line_cycles, start_of
from ipu_teach.cost.model import CostModel, StepCost
from ipu_teach.cost.schedule import shared_out
from ipu_teach.errors import InvalidOptionError, counted, did_you_mean, shown
from ipu_teach.graph.variable_table import without_replica
from ipu_teach.graph.vertex import Vertex
from ipu_teach.report import Report
from ipu_teach.show import palette
from ipu_teach.show.code import (
    CODES,
    COLUMNS,
    PART,
    CodeRow,
    has_estimate,
    line_rows,
    row,
    tree,
    why,
)
from ipu_teach.show.formula import formula_of
from ipu_teach.show.pack import pack
from ipu_teach.show.panels import Panels
from ipu_teach.show.report_facts import linked, model_of, titled
from ipu_teach.show.scene import Bar, Drawing, Lanes, Scene, Still, label
from ipu_teach.show.segments import at_work
from ipu_teach.show.view import View
from ipu_teach.target import Target
from ipu_teach.types import Array

IDLE = palette.REST.lettered("I", "no vertex: the slot idles")
MOVES = palette.EXCHANGE.lettered("X", "moving edges into place")
BASE = (
    *CODES,
    IDLE,
    palette.WAIT,
    MOVES,
    palette.VARIABLES,
    *palette.MEMORY.values(),
    palette.GAPS,
)
# The colours of codelets, which differ from those of lines and phases. If there are more codelets
# than colours, the colours repeat.
HUES = [palette.RIMS[i] for i in (3, 1, 4, 2, 5)]
SAY = (
    "worker {i} runs {vertices} of the vertices, and is at work {busy} modelled cycles of the tile"
)
MOST_STEPS = 24
MOST_BLOCKS = 12
MOST_CODELETS = 3


class Held(NamedTuple):
    """A vertex on a tile, and when it runs.

    Attributes:
        number: the number of the vertex in the compute set.
        group, row: the group of the vertex, and the row of the vertex in the table of that group.
        cycles: the tile cycles of the vertex, or -1 if they are unknown.
        worker: the worker thread that runs it, or -1 if it has the tile to itself.
        start: the tile cycle at which it starts.
    """

    number: int
    group: Group
    row: int
    cycles: int
    worker: int
    start: int


@checks("tile", "step")
def tile(report: Report, tile: int | None = None, step: str | int | None = None) -> View:
    """What keeps the workers of a tile busy, and which worker finishes last?

    The view shows the worker threads of tile number `tile`, in each step of the run in which the
    tile executes vertices. `step` selects one step: the name of a compute set, or the number of a
    compiled step. By default, the picture rests at the step that costs the most cycles, and `tile`
    is the slowest tile in that step. At most 24 steps are shown: those that cost the tile the most
    cycles. If there are more, a note below the picture says so.

    :raises InvalidOptionError: if `report` is not a report, or is a report from a file, if no
        vertex ran, or if `step` is not a step that executes vertices.
    :raises PoplarIndexError: if there is no tile with that number.
    """
    model = model_of(report, "tile")
    begun = dict(zip(*np.unique(report.step_numbers, return_index=True), strict=True))
    order = sorted(
        np.flatnonzero(report.executions).tolist(), key=lambda n: begun.get(n, report.num_steps)
    )
    runs = {n: int(report.executions[n]) for n in order if model.compute_set(n) is not None}
    names = dict.fromkeys(report.step_cost(n).name for n in runs)
    steps = [n for n in runs if step is None or step in (n, report.step_cost(n).name)]
    if not steps:
        requested = (
            f"was given step={shown(step)}, which is not a step that executes vertices"
            if runs
            else "was given a run without vertices"
        )
        advice = (
            f"choose one of these steps: {', '.join(names)}" if names else "execute a compute set"
        )
        raise InvalidOptionError(f"""show.tile() {requested}.
            next:  {did_you_mean(step, names)}{advice}.""")
    costly = max(steps, key=lambda n: runs[n] * report.step_cost(n).compute_duration)
    where = (
        int(np.argmax(report.step_cost(costly).compute_cycles))
        if tile is None
        else report.compilation.tiles[tile].number
    )
    spent = {n: runs[n] * int(report.step_cost(n).compute_cycles[where]) for n in steps}
    taken = sorted((n for n in steps if spent[n]), key=lambda n: -spent[n])[:MOST_STEPS] or [costly]
    taken.sort(key=steps.index)
    first = taken.index(max(taken, key=lambda n: (n == costly, spent[n])))
    frames = {n: i for i, n in enumerate(taken)}
    return View(
        linked(
            _scene(report, model, where, taken, first=first, of=len(steps)),
            report,
            (),
            frames,
            tile=where,
        )
    )


def held_by(model: CostModel, step: int, tile: int) -> list[Held]:
    """Return the vertices of a tile in a step, in the order in which they start.

    Vertices that have the tile to themselves come last.
    """
    groups_found = list[tuple[int, Group, int, int]]()
    workers = model.target.num_worker_contexts
    for group, cycles in model.vertices(step):
        rows_on_tile = np.flatnonzero(group.table.tiles[group.rows] == tile)
        rows = group.rows[rows_on_tile].tolist()
        groups_found += [
            (int(group.table.order[r]), group, r, c)
            for r, c in zip(rows, cycles[rows_on_tile].tolist(), strict=True)
        ]
    groups_found.sort(key=lambda vertex: vertex[0])
    shared = [vertex for vertex in groups_found if vertex[1].table.codelet.context == "worker"]
    known = np.array([max(0, vertex[3]) for vertex in shared], np.int64)
    before = end = _moves(model.step(step), tile, model.target)[0]
    vertices_held = list[Held]()
    for (number, group, row_, spent), worker, start in zip(
        shared, *(part.tolist() for part in shared_out(known, workers)), strict=True
    ):
        cycles = workers * spent if spent > 0 else spent
        begin = before + workers * start
        vertices_held.append(Held(number, group, row_, cycles, worker=worker, start=begin))
        end = max(end, vertices_held[-1].start + max(0, vertices_held[-1].cycles))
    for vertex in groups_found:
        if vertex[1].table.codelet.context != "worker":
            vertices_held.append(Held(*vertex, -1, end))
            end += max(0, vertex[3])
    return vertices_held


def _moves(cost: StepCost, tile: int, target: Target) -> tuple[int, int]:
    """Return `(before, after)`: the tile cycles for moving data into and out of vertex fields."""
    before, *after = (int(t.copy_cycles(target)[0][tile]) for t in cost.exchange)
    return before, sum(after)


class _Steps:
    """The steps of a tile, with the vertices of each worker thread.

    Attributes:
        vertices: for each step, the vertices of the tile.
        used: the codelets of the vertices.
        lanes: for each step, a list with the vertices of each worker thread.
        stills: a still for each step.
        table: the rows of the table, one for each vertex.
        numbers: for each step and worker thread, [count, packed numbers of the vertices].
    """

    def __init__(
        self, report: Report, model: CostModel, tile: int, taken: list[int], panels: Panels
    ) -> None:
        self.report = report
        self.tile = tile
        self.workers = model.target.num_worker_contexts
        self.vertices = {n: held_by(model, n, tile) for n in taken}
        self.used = list(dict.fromkeys(vertex.group.table.codelet for vertex in self.all_vertices))
        self.lanes = dict[int, list[list[Held]]]()
        self.stills = list[Still]()
        self.table = list[tuple[str, ...]]()
        self.numbers = list[list[list[object]]]()
        for n, vertices_held in self.vertices.items():
            self._add(n, vertices_held, panels)

    @property
    def has_hatched(self) -> bool:
        """Whether some worker executes two vertices in a step."""
        lanes = [lane for lanes in self.lanes.values() for lane in lanes]
        return any(sum(vertex.worker >= 0 for vertex in lane) > 1 for lane in lanes)

    @property
    def all_vertices(self) -> list[Held]:
        """The vertices of the tile in all steps."""
        return [vertex for vertices_held in self.vertices.values() for vertex in vertices_held]

    def _add(self, n: int, vertices_held: list[Held], panels: Panels) -> None:
        """Add the still of step `n`, the bars of its worker threads, and its rows of the table."""
        report, tile = self.report, self.tile
        cost = report.step_cost(n)
        memory = panels.drawings[0]
        workers_drawn = (len(panels.drawings), 0, cost.compute_duration)
        by_worker = self.lanes[n] = [
            [vertex for vertex in vertices_held if vertex.worker in (w, -1)]
            for w in range(self.workers)
        ]
        busy = np.array([sum(max(0, vertex.cycles) for vertex in lane) for lane in by_worker])
        name = label(f"{cost.name} on tile {tile}", 60)
        why_ = _cause(cost, tile, vertices_held, by_worker, target=report.target)
        if not _taking_part(report, n)[tile]:
            why_ = "its IPU takes no part in this step"
        self.stills.append(
            Still(
                name,
                why_,
                0,
                cost.compute_duration,
                first=True,
                lanes={"workers": workers_drawn, "memory": (0, memory.span, memory.span)},
                say=SAY,
                values={"vertices": np.array(list(map(len, by_worker))), "busy": busy},
            )
        )
        panels.drawings.append(_drawing(cost, tile, by_worker, self.used, target=report.target))
        self.numbers.append(
            [
                [len(lane), pack(np.array([vertex.number for vertex in lane], np.int64))]
                for lane in by_worker
            ]
        )
        for vertex in vertices_held:
            spent = f"{vertex.cycles:,}" if vertex.cycles >= 0 else "no estimate"
            who = f"{vertex.worker}" if vertex.worker >= 0 else "all"
            codelet = vertex.group.table.codelet.__name__
            self.table.append((name, who, f"{vertex.number}", codelet, f"{vertex.start:,}", spent))


def _shades(used: list[type[Vertex]]) -> Iterator[palette.Code]:
    """Yield two colours for each codelet: a plain one, and one with stripes."""
    hues = [HUES[i % len(HUES)].lettered(f"{i + 1}", c.__name__) for i, c in enumerate(used)]
    for hue in hues:
        for pattern in ("", "/"):
            letter = "" if pattern else hue.letter
            yield replace(hue, pattern=pattern, letter=letter, listed=not pattern)


def _scene(
    report: Report, model: CostModel, tile: int, taken: list[int], first: int, of: int
) -> Scene:
    names, codes, sizes = _blocks(report, tile)
    bytes_ = int(report.memory.held_per_tile[tile])
    limit = report.target.bytes_per_tile
    panels = Panels()
    memory = Drawing(int(sizes.max()), (Bar(codes, 0, sizes, 0),), "bytes")
    panels.drawings.append(memory)
    steps = _Steps(report, model, tile, taken, panels)
    used, stills, workers = steps.used, steps.stills, steps.workers
    rows = _code(model, used, steps.all_vertices)
    codelets = "a vertex of each codelet"
    if len(used) > MOST_CODELETS:
        codelets = f"the costliest {MOST_CODELETS} of {len(used)} codelets"
    heading = f"its memory: {bytes_:,} of {limit:,} bytes, its variables first"
    labels = tuple(f"worker {i}" for i in range(workers))
    turns = "its workers, in turn"
    turns += "; every second vertex is hatched" * steps.has_hatched
    lanes_ = Lanes("workers", turns, count=workers, labels=labels)
    panels.put(lanes_, left=80, high=20.0 * min(workers, 12))
    panels.below(46)
    held_ = Lanes("memory", heading, count=len(names), labels=names, say="{label} bytes")
    panels.put(held_, left=200, high=15.0 * len(names))
    panels.below(46)
    if rows:
        panels.put(tree(f"its code: {codelets}", COLUMNS, rows))
    panels.notes.append("Cycles and bytes are modelled.")
    if len(taken) < of:
        panels.notes.append(
            f"Of {of:,} steps the picture shows {len(taken)}, those that cost the tile most."
        )
    return panels.scene(
        "tile",
        titled(report, _title(report, tile, taken[first], steps.lanes[taken[first]])),
        f"In {stills[first].label}: {stills[first].note}. I{heading[1:]}.",
        foot=10,
        codes=(*BASE, *_shades(used)),
        stills=stills,
        poster=first,
        group="step",
        data={"vertices": steps.numbers},
        table=(("step", "worker", "vertex", "codelet", "start", "cycles"), steps.table),
    )


def _title(report: Report, tile: int, step: int, by_worker: list[list[Held]]) -> str:
    """Return the title: the cycles of a tile in a step, how many tiles wait, and the last worker.

    If other tiles take the same time, the title says how many. Tiles of IPUs that take no part in
    the step do not count. `by_worker` has the vertices of each worker thread.
    """
    cost = report.step_cost(step)
    own_cycles = int(cost.compute_cycles[tile])
    name = label(cost.name, 32)
    takes_part = _taking_part(report, step)
    waiting = int((takes_part & (cost.compute_cycles < cost.compute_duration)).sum())
    # The number of further tiles that take as long as the slowest one.
    equal = int(takes_part.sum()) - waiting - 1
    if not takes_part[tile]:
        waits = ", in which its IPU takes no part"
    elif own_cycles < cost.compute_duration:
        waits = f" and waits {cost.compute_duration - own_cycles:,}"
    elif not waiting:
        waits = " and takes as long as all others" + " that take part" * (not takes_part.all())
    elif equal:
        waits = f", like {counted(equal, 'other')}; {counted(waiting, 'tile')} wait"
        waits += "s" * (waiting == 1)
    else:
        waits = f" and makes {counted(waiting, 'other')} wait"
    text = f"Tile {tile} works {own_cycles:,} modelled cycles in {name!r}{waits}"
    return f"{text}; {last}" if (last := _last_workers(by_worker)) else text


def _taking_part(report: Report, step: int) -> Array:
    """Return bool[tiles]: whether the IPU of each tile takes part in a step."""
    tiles = np.arange(report.target.num_tiles)
    return np.asarray(at_work(report, step)[report.target.set_of(tiles)])


def _last_workers(by_worker: list[list[Held]]) -> str:
    """Return a phrase with the worker threads that finish last, or "" if none has a vertex."""
    if not any(by_worker):
        return ""
    ends = [max((v.start + max(0, v.cycles) for v in lane), default=0) for lane in by_worker]
    *others, last = (worker for worker, end in enumerate(ends) if end == max(ends))
    if not others:
        return f"worker {last} is last"
    if len(others) + 1 == len(by_worker):
        return f"all {len(by_worker)} workers end together"
    return f"workers {', '.join(map(str, others))} and {last} are last"


def _drawing(
    cost: StepCost, tile: int, by_worker: list[list[Held]], used: list[Any], target: Target
) -> Drawing:
    """Return the bars of the worker threads up to the end of the slowest tile.

    Each worker thread has a bar for each of its vertices.
    """
    before, after = _moves(cost, tile, target)
    own_cycles = int(cost.compute_cycles[tile])
    span = cost.compute_duration
    bars = [
        Bar(
            BASE.index(IDLE),
            0,
            own_cycles,
            span,
            rest=BASE.index(palette.WAIT) if own_cycles < span else -1,
        )
    ]
    bars += [
        Bar(BASE.index(MOVES), start, length, 0)
        for start, length in ((0, before), (own_cycles - after, after))
        if length
    ]
    for k in range(max(map(len, by_worker))):
        kth = [lane[k] if k < len(lane) else None for lane in by_worker]
        odd = k % 2  # Hatching distinguishes neighbouring vertices of a worker thread.
        shade = [
            len(BASE)
            + 2 * used.index(vertex.group.table.codelet)
            + (odd if vertex.worker >= 0 else 0)
            if vertex
            else 0
            for vertex in kth
        ]
        start, length = (np.array([vertex[i] if vertex else 0 for vertex in kth]) for i in (5, 3))
        bars.append(Bar(np.array(shade), start, np.maximum(length, 0), 0))
    return Drawing(span, tuple(bars), "modelled cycles")


def _cause(
    cost: StepCost,
    tile: int,
    vertices_held: list[Held],
    by_worker: list[list[Held]],
    target: Target,
) -> str:
    """Return a text that explains the cycles of the tile by its busiest worker thread."""
    own_cycles = int(cost.compute_cycles[tile])
    slowest = np.flatnonzero(cost.compute_cycles == cost.compute_duration)
    workers = len(by_worker)
    alone = sum(max(0, vertex.cycles) for vertex in vertices_held if vertex.worker < 0)
    moves = sum(_moves(cost, tile, target))
    per_worker = (own_cycles - alone - moves) // workers
    parts = [f"{workers} x {per_worker:,}, its busiest worker"] * bool(per_worker)
    parts += [f"{alone:,} of vertices that use all workers"] * bool(alone)
    parts += [f"{moves:,} of moving edges into place"] * bool(moves)
    text = (
        f"it takes {own_cycles:,} modelled cycles{' = ' * bool(parts)}{' + '.join(parts)}; "
        f"{counted(len(vertices_held), 'vertex', 'vertices')}"
    )
    if any(vertex.worker >= 0 for vertex in vertices_held) or not vertices_held:
        text += f" on {counted(workers, 'worker')}"
    free = sum(not lane for lane in by_worker)
    missing = sum(vertex.cycles < 0 for vertex in vertices_held)
    text += (
        f", {free} of them without one: {free} more of up to {per_worker:,} cycles would take no "
        "longer"
        if per_worker and free
        else ""
    )
    text += f"; {missing:,} have no estimate" if missing else ""
    if own_cycles < cost.compute_duration:
        others = f" and {counted(len(slowest) - 1, 'other')}" * (len(slowest) > 1)
        text += f"; it waits {cost.compute_duration - own_cycles:,} for tile {slowest[0]}{others}"
    return text


def _blocks(report: Report, tile: int) -> tuple[tuple[str, ...], Array, Array]:
    """Return `(names, codes, bytes)` of the content of the tile when its memory is fullest.

    Variables come first, then the other categories, then gaps. `codes` are indices in `BASE`.
    """
    memory = report.memory
    variables = list(report.memory.at_fullest(tile).items())
    blocks = [
        (without_replica(name)[0], palette.VARIABLES, size)
        for name, size in variables[:MOST_BLOCKS]
    ]
    rest = sum(size for _, size in variables[MOST_BLOCKS:])
    blocks.append((f"{len(variables) - MOST_BLOCKS} more", palette.VARIABLES, rest))
    others = {
        c: size
        for c, size in memory.by_category(tile).items()
        if c not in (*memory.categories, VARIABLES)
    }
    blocks += [(c.lower(), palette.MEMORY[c], size) for c, size in others.items()]
    blocks.append(("gaps", palette.GAPS, int(memory.gaps_per_tile[tile])))
    names, codes, sizes = zip(*([b for b in blocks if b[2]] or blocks[-1:]), strict=True)
    texts = tuple(f"{label(name, 20)} {size:,}" for name, size in zip(names, sizes, strict=True))
    return texts, np.array([BASE.index(code) for code in codes]), np.array(sizes)


def _code(model: CostModel, used: list[Any], vertices_held: list[Held]) -> list[CodeRow]:
    """Return the rows of the code, for the slowest vertices of the codelets that take longest.

    The last row adds up the slowest vertices of all other codelets.
    """
    slowest = [
        max(
            (vertex for vertex in vertices_held if vertex.group.table.codelet is codelet),
            key=lambda vertex: vertex.cycles,
        )
        for codelet in used
    ]

    def worker_cycles(vertex: Held) -> int:
        workers = 1 if vertex.worker < 0 else model.target.num_worker_contexts
        return max(0, vertex.cycles) // workers

    slowest.sort(key=lambda vertex: -vertex.cycles)
    rows: list[CodeRow] = []
    for vertex in slowest[:MOST_CODELETS]:
        codelet = vertex.group.table.codelet
        lines = line_cycles(vertex.group, vertex.row, model.target)
        total = worker_cycles(vertex)
        rows.append(row(0, f"{codelet.__name__}, vertex {vertex.number}", 1, total, total, PART))
        rows_of_codelet = line_rows(codelet, lines, start_of(codelet, model.target), total)
        # Only lines with a cost are shown here. `show.code` shows all lines, and the kinds of work.
        counted_ = [vertex for vertex in rows_of_codelet if vertex[0] < 2 and any(vertex[2])]
        reason = why(codelet, bool(has_estimate(vertex.group)[vertex.group.rows == vertex.row]))
        rows += counted_ or [row(1, reason, None, total, total, PART)]
        formula = None if counted_ else formula_of(codelet, vertex.group.shapes, model.target)
        if formula is not None and formula.cycles == total:
            rows[-1] = row(1, formula.named_sizes, None, total, total, PART)
            text = f"{formula.text} = {total:,} cycles"
            rows.append((2, text, ("",) * len(COLUMNS), 0.0, CODES.index(PART)))
    others = slowest[MOST_CODELETS:]
    if others:
        text = f"{counted(len(others), 'more codelet')}, a vertex of each"
        cells = f"{len(others)}", f"{sum(map(worker_cycles, others)):,}", ""
        rows.append((0, text, cells, 0.0, CODES.index(PART)))
    return rows
