"""The exercises of lesson 14, stencils and graphs: correct results and known mistakes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import pairwise, product
from typing import Any

import numpy as np

from ipu_course.checking import warmups
from ipu_course.checking.calling import Answer, call_all, call_made
from ipu_course.checking.exercise import PredictedValue, exercise, lesson, question
from ipu_course.checking.programs import TILES, all_of, device_of, one_program, run_once, tiles_of
from ipu_course.checking.quoting import call_text, plain, quoted, returned
from ipu_course.checking.trial import (
    Built,
    Parts,
    Ran,
    Trial,
    Var,
    by_rows,
    codelet,
    codelet_of,
    equal,
    lost,
    recorded,
    refuse_growing,
)
from ipu_course.checking.verdict_panel import Bars
from ipu_course.checking.verdicts import NotYet, Passed, refusing
from ipu_teach import (
    FLOAT,
    INT,
    ComputeSet,
    Graph,
    InOut,
    Input,
    Output,
    Tensor,
    Vector,
    Vertex,
    concat,
    show,
)
from ipu_teach.errors import counted, shown
from ipu_teach.program import Copy, Execute, Program, Repeat, Sequence as Steps
from ipu_teach.show.view import View
from ipu_teach.types import Array

Edges = Iterable[tuple[int, int]]
PlateBlock = tuple[int, int, int, int]  # (top, bottom, left, right) of a block, without the rim
NEAR = 1.05  # The allowed number of fetched elements, relative to the minimum.


def _ends(n: int, parts: int) -> list[tuple[int, int]]:
    """Return `(begin, end)` of each of `parts` nearly equal parts of the numbers 1 to n."""
    return [(1 + n * k // parts, 1 + n * (k + 1) // parts) for k in range(parts)]


def blocks_of(rows: int, columns: int, down: int, across: int) -> list[PlateBlock]:
    """Return the blocks of a plate that is cut into `down` x `across` blocks, one for each tile."""
    return [(*v, *level) for v in _ends(rows, down) for level in _ends(columns, across)]


def lay(blocks: Sequence[PlateBlock], graph: Graph, plate: Tensor) -> None:
    """Map each block to its tile, and the plate's rim to the tiles of the adjacent blocks."""
    for tile, (top, bottom, left, right) in enumerate(with_rim(blocks, plate.shape)):
        graph.set_tile_mapping(plate[top:bottom, left:right], tile)


def with_rim(blocks: Sequence[PlateBlock], shape: Sequence[int]) -> Iterator[PlateBlock]:
    """Yield each block, extended by the adjacent elements of the plate's rim."""
    for a, b, c, d in blocks:
        yield a - (a == 1), b + (b == shape[0] - 1), c - (c == 1), d + (d == shape[1] - 1)


# --- 14.1 -----------------------------------------------------------------------------------------


def stepped(plate: Array, steps: int) -> Array:
    """Return a plate after `steps` steps of the stencil, computed by numpy for the whole plate."""
    rows, columns = (np.arange(n) % (n - 1) > 0 for n in plate.shape)
    for _ in range(steps):
        around = [np.roll(plate, by, axis) for by in (1, -1) for axis in (0, 1)]
        plate = np.where(rows[:, None] & columns, np.mean(around, axis=0), plate)
    return plate


def _plate(message: str, shape: tuple[int, int], blocks: Sequence[PlateBlock], pairs: int) -> Trial:
    """Return a trial with a plate of random integers from -120 to 130, and 2 * `pairs` steps.

    A step divides a sum by 4, which is exact in floating point.
    """
    rows, columns = shape
    draw = np.random.default_rng(1400 + rows)
    start = draw.permutation((rows + 2) * (columns + 2)).reshape(rows + 2, -1) % 251 - 120.0
    lies = partial(lay, blocks)
    right = [stepped(start, 2 * pairs)]
    tensors = {"plate": Var(FLOAT, start.shape, lies, given=[start], right=right)}
    tensors["other"] = Var(FLOAT, start.shape, lies)
    trial = Trial(f"{message}, {2 * pairs} steps", tensors, more=(blocks, pairs))
    return replace(trial, form=_programs).twice()


def _programs(answer: Answer, trial: Trial, graph: Graph, parts: Parts) -> Built:
    """Build the program, or the list of programs, of answer(graph, *tensors, *more)."""
    program = call_made(answer, trial.tried, graph, *parts, *trial.more)
    return one_program(program, trial.tried), []


def _drawn_end(answer: Answer, trial: Trial, name: str, run: int = 0) -> View:
    """Return a view of the tensor `name` at the end of a run of an answer.

    With `run` = 0, this is the first run. With any other number, it is the trial's last run.
    """
    trial_run, recording = recorded(answer, trial, name, trial.runs if run else 1)
    report = trial_run.engine.report if run else trial_run.report
    return show.run(recording, at=len(report.execution.steps) - 1)


@cache
def _plates() -> tuple[Trial, ...]:
    """Return the trials of 14.1: first the ordinary plates, then special ones."""
    uneven = [(1, 2, 1, 9), (2, 7, 1, 3), (2, 7, 3, 9), (7, 9, 1, 8), (7, 9, 8, 9)]
    return (
        _plate("13 strips of a plate of 13 x 3", (13, 3), blocks_of(13, 3, 13, 1), pairs=1),
        _plate("3 x 4 blocks of a plate of 7 x 9", (7, 9), blocks_of(7, 9, 3, 4), pairs=2),
        _plate("blocks of five sizes", (8, 8), uneven, pairs=2),
        _plate("a plate of one number", (1, 1), [(1, 2, 1, 2)], pairs=2),
    )


def _heat(answer: Callable[..., Program]) -> Passed:
    reports = []
    for trial in _plates():
        run = trial.through(answer, "14.1")
        picture = partial(_drawn_end, answer, trial, "plate")
        if difference := run.wrong("plate"):
            advice = "compute one number of a step by hand, as the mean of its four neighbours."
            raise run.refused("14.1", difference.words, "", advice, draws=picture)
        for loop in (step for step in all_of(run.program) if isinstance(step, Repeat)):
            if any(isinstance(step, Copy) for step in all_of(loop.body)):
                why = (
                    "the Copy in the loop moves the whole plate in each iteration, although two "
                    "buffers can alternate."
                )
                advice = (
                    "put the Copy before the loop, and let the second step of an iteration read "
                    "`other` and write `plate`."
                )
                raise NotYet(
                    trial.tried, "a Copy in the loop", expected="none", why=why, next_step=advice
                )
        run.refuse_unrepeatable("plate")
        _refuse_elsewhere(run, len(trial.more[0]))
        _refuse_more_steps(run, trial.more[1])
        reports.append(run.report)
    few = _plates()[2]
    built = {n: replace(few, tried="", more=(few.more[0], n)).build(answer) for n in (2, 7)}
    why = "a Python loop adds every step to the program, and each needs memory on all tiles."
    refuse_growing(built, "pairs", why, "use Repeat(pairs, …), whose body is in the program once.")
    return Passed(f"{len(reports)} plates", evidence=reports)


def _refuse_more_steps(run: Ran, pairs: int) -> None:
    """Raise `NotYet` if vertices write more elements of a plate than 2 * `pairs` steps need."""
    plates = [run.tensors["plate"], run.tensors["other"]]
    written = sum(
        times * len(places)
        for compute_set, times in _executions(run.program)
        for tensor in plates
        for places, _ in _written(run.graph, compute_set, tensor)
    )
    steps = written / np.prod([n - 2 for n in plates[0].shape])
    if steps > 2 * pairs:
        raise NotYet(
            run.trial.tried,
            f"{steps:g} steps",
            expected=f"{2 * pairs}",
            why="`plate` is right, but some steps compute results that no step reads.",
            next_step=(
                "put only two steps into Repeat(pairs, …): one from `plate` to `other`, and one "
                "back."
            ),
        )


def _executions(program: Program, times: int = 1) -> Iterator[tuple[ComputeSet, int]]:
    """Yield (compute set, number of executions) for each compute set of a program."""
    if isinstance(program, Execute):
        yield program.compute_set, times
    for child in program.children():
        rounds = program.count if isinstance(program, Repeat) else 1
        yield from _executions(child, times * rounds)


def _refuse_elsewhere(run: Ran, blocks: int) -> None:
    """Raise `NotYet` unless vertices are on exactly those tiles that have a block."""
    tables = (
        table for compute_set in run.graph.compute_sets for table in compute_set.tables.values()
    )
    used = {int(tile) for table in tables for tile in table.tiles}
    if wrong := sorted(used ^ set(range(blocks))):
        tile = wrong[0]
        idle = wrong[0] < blocks
        actual = f"tile {tile} has {'a' if idle else 'no'} block and {'no' if idle else 'a'} vertex"
        why = (
            "a block should be computed on the tile that has it, since otherwise the whole block "
            "is sent."
        )
        raise NotYet(
            run.trial.tried, actual, why=why, next_step="map the vertex of blocks[t] to tile t."
        )
    for name in ("plate", "other"):
        tensor = run.tensors[name]
        for place, tile, home in _written_elsewhere(run.graph, tensor):
            row, column = np.unravel_index(place, tensor.shape)
            actual = (
                f"{name}[{row}, {column}] is on tile {home}, but a vertex on tile {tile} writes it"
            )
            why = (
                "the vertex is on another tile than its block, so the whole block is sent there "
                "and back in each step."
            )
            raise NotYet(
                run.trial.tried, actual, why=why, next_step="map the vertex of blocks[t] to tile t."
            )


def _written(graph: Graph, compute_set: ComputeSet, tensor: Tensor) -> Iterator[tuple[Array, int]]:
    """Yield (indices, tile) for each part of a contiguous FLOAT tensor that a vertex writes.

    `tile` is the tile of the vertex.
    """
    for table in compute_set.tables.values():
        for name, edge in table.edges.items():
            if not edge.written or edge.dtype is not FLOAT:
                continue
            columns = zip(table.offsets[name], table.layouts[name], table.tiles, strict=True)
            for offset, layout, tile in columns:
                for start, part in graph.layouts[layout].parts:
                    places = offset + start + part.positions.ravel() - tensor.offset
                    yield places[(places >= 0) & (places < tensor.num_elements)], int(tile)


def _written_elsewhere(graph: Graph, tensor: Tensor) -> Iterator[tuple[int, int, int]]:
    """Yield (element, tile of the vertex, tile of the element) for writes to another tile.

    `tensor` is a contiguous FLOAT tensor.
    """
    homes = tiles_of(graph, tensor).ravel()
    for compute_set in graph.compute_sets:
        for places, tile in _written(graph, compute_set, tensor):
            for place in places[homes[places] != tile][:1]:
                yield int(place), tile, int(homes[place])


# --- 14.2 -----------------------------------------------------------------------------------------

CUTS = {
    "the plate is square": (168, 168, 64),
    "the plate is wide": (60, 240, 16),
    "the plate is tall": (260, 60, 12),
    "the number of tiles is prime": (40, 41, 13),
    "the plate is flat, so its rim is long": (4, 16, 14),
    "three columns": (24, 3, 10),
    "there are fewer rows than tiles": (5, 400, 12),
    "one number for each tile": (3, 4, 12),
    # A division into 7 x 6 blocks would fetch only a few elements more than one into 6 x 7 blocks,
    # but the plate has only 6 rows.
    "42 numbers on 42 tiles": (6, 7, 42),
    "one tile": (7, 9, 1),
    "a chip": (1472, 1472, 1472),
}


def fetched(rows: int, columns: int, down: int, across: int) -> int:
    """Return the number of elements that all tiles together fetch in a step.

    A tile fetches the elements from other tiles that the stencil needs for its block.
    """
    blocks = blocks_of(rows, columns, down, across)
    tiles = np.empty((rows + 2, columns + 2), int)
    for tile, (top, bottom, left, right) in enumerate(with_rim(blocks, tiles.shape)):
        tiles[top:bottom, left:right] = tile
    return sum(
        int((tiles[top - 1 : bottom + 1, left - 1 : right + 1] != tile).sum())
        for tile, (top, bottom, left, right) in enumerate(blocks)
    )


@cache
def least(rows: int, columns: int, tiles: int) -> int:
    """Return the fewest elements that all tiles can fetch in a step, over all grids of blocks."""
    ways = ((d, tiles // d) for d in range(1, tiles + 1) if tiles % d == 0)
    return min(fetched(rows, columns, d, a) for d, a in ways if d <= rows and a <= columns)


def _drawn_cut(rows: int, columns: int, way: tuple[int, int]) -> View | None:
    """Return a picture of a plate's tile mapping; None for more than 64 tiles.

    `way` is (blocks down, blocks across).
    """
    if way[0] * way[1] > 64:
        return None
    graph = Graph(device_of(way[0] * way[1]))
    plate = graph.add_variable(FLOAT, (rows + 2, columns + 2), "plate")
    lay(blocks_of(rows, columns, *way), graph, plate)
    return show.tiles(plate)


def _cut(answer: Callable[[int, int, int], tuple[int, int]]) -> Passed:
    yours, budget, actual = _judged_cuts(answer, CUTS)
    small = {case: case for case in _small_plates()}
    _, _, further = _judged_cuts(answer, small)
    bars = Bars(budget, yours, "numbers fetched")
    words = f"{len(CUTS) + len(small)} plates; below, the {len(CUTS)} of different shapes"
    return Passed(words, bars, (*actual, *further))


@cache
def _small_plates() -> list[tuple[int, int, int]]:
    """Return (rows, columns, tiles) of small plates that can be divided into `tiles` blocks."""
    return [
        (rows, columns, tiles)
        for rows, columns in product((1, 2, 3, 5, 7, 9), (1, 2, 5, 6, 8))
        for tiles in (1, 2, 3, 4, 6, 8, 12)
        if any(tiles % d == 0 and tiles // d <= columns for d in range(1, rows + 1))
    ]


def _judged_cuts(
    answer: Callable[[int, int, int], tuple[int, int]],
    plates: Mapping[Any, tuple[int, int, int]],
) -> tuple[int, int, tuple[tuple[int, int], ...]]:
    """Return (elements fetched, maximum that is allowed, results) for all plates together.

    Both numbers of elements are sums. `plates` maps each description to (rows, columns, tiles).

    :raises NotYet: if a result is not a division, or if it fetches more than the maximum.
    """
    every = list(plates.values())
    actual = dict(zip(every, call_all(answer, every), strict=True))

    def cuts_alike(like: Callable[[int, int, int], tuple[int, int]]) -> bool:
        return all(np.array_equal(like(*case), way) for case, way in actual.items())

    refused = refusing("14.2", cuts_alike)
    yours = budget = 0
    for message, case in plates.items():
        rows, columns, tiles = case
        result = actual[case]
        fault = f"{rows} x {columns} on {counted(tiles, 'tile')}"
        fault = f"{message}: {fault}" if isinstance(message, str) else fault
        is_row = isinstance(result, (tuple, list, np.ndarray))
        pair = [plain(n) for n in result] if is_row else []
        if len(pair) != 2 or not all(isinstance(n, int) for n in pair):
            raise refused(
                fault,
                returned(result),
                "(down, across)",
                "return two whole numbers: `down` and `across`.",
            )
        down, across = (int(n or 0) for n in pair)
        if down < 1 or across < 1 or down * across != tiles or down > rows or across > columns:
            wanted = f"{counted(tiles, 'block')}, each with at least one row and one column"
            advice = (
                "try each down that divides tiles, and leave out choices with more parts than rows "
                "or columns."
            )
            raise refused(fault, f"{down} x {across}", wanted, advice)
        fetched_now = fetched(rows, columns, down, across)
        best = least(*case)
        yours = yours + fetched_now
        budget = budget + int(NEAR * best)
        if fetched_now > NEAR * best:
            bars = Bars(int(NEAR * best), fetched_now, "numbers fetched")
            words = f"{down} x {across}: all tiles together fetch {fetched_now:,} numbers"
            picture = partial(_drawn_cut, rows, columns, (down, across))
            advice = (
                "count for every division the numbers that tiles fetch, also those of the plate's "
                "edge and at corners, and return the division with the fewest."
            )
            wanted = f"about {best:,}, which is possible"
            sides = f"{rows // down} x {columns // across}"
            why = f"a block has about {sides} numbers, so its edge is long."
            raise refused(fault, words, wanted, advice, why=why, bars=bars, draws=picture)
    return yours, budget, tuple(actual.values())


# --- 14.3 -----------------------------------------------------------------------------------------


def rows_of(n: int, edges: Edges) -> list[list[int]]:
    """Return the sorted neighbours of each vertex of a graph."""
    near: list[set[int]] = [set() for _ in range(n)]
    for a, b in edges:
        near[a].add(b)
        near[b].add(a)
    return [sorted(neighbours) for neighbours in near]


def offsets_of(rows: Sequence[Sequence[int]]) -> list[int]:
    """Return the index of each row's first element, followed by the total length of all rows."""
    return [int(n) for n in np.cumsum([0, *map(len, rows)])]


def distances(rows: Sequence[Sequence[int]], begin: int) -> list[int]:
    """Return the distance of each vertex from `begin`; -1 if it is unreachable."""
    distance_of = {begin: 0}
    queue = [begin]
    for vertex in queue:
        new = [neighbour for neighbour in rows[vertex] if neighbour not in distance_of]
        distance_of |= dict.fromkeys(new, distance_of[vertex] + 1)
        queue += new
    return [distance_of.get(v, -1) for v in range(len(rows))]


def some_edges(n: int, many: int, seed: int) -> list[tuple[int, int]]:
    """Return `many` random edges of a graph with `n` vertices."""
    draw = np.random.default_rng(seed)
    return [(int(a), int(b)) for a, b in draw.integers(0, n, (many, 2))]


def star_of(n: int) -> list[tuple[int, int]]:
    """Return the edges of a star graph, in which vertex 0 is connected to all others."""
    return [(0, leaf) for leaf in range(1, n)]


class Wave(Vertex):
    """One step of a breadth-first search on one tile.

    Among its own graph vertices, it finds those that have no distance yet and have a neighbour at
    distance `level`, and sets their distance to `level` + 1.
    """

    ends: Input[Vector[INT]]
    neighbours: Input[Vector[INT]]
    before: Input[Vector[INT]]
    level: Input[INT]
    mine: InOut[Vector[INT]]
    grew: Output[INT]

    def compute(self) -> None:
        grew = 0
        for v in range(len(self.mine)):
            for k in range(self.ends[v], self.ends[v + 1]):
                if self.mine[v] < 0 and self.before[self.neighbours[k]] == self.level:
                    self.mine[v] = self.level + 1
                    grew += 1
        self.grew = grew


class Log(Vertex):
    """A vertex that stores the level of a search step in the first free element of `levels`."""

    level: Input[INT]
    levels: InOut[Vector[INT]]

    def compute(self) -> None:
        new = 1
        for k in range(len(self.levels)):
            if self.levels[k] < 0 and new:
                self.levels[k] = self.level
                new = 0


def _wave(graph: Graph, rows: Sequence[Sequence[int]], parts: Sequence[Tensor]) -> Program:
    """Return the program of one step of a breadth-first search, called a wave.

    `parts` is (distance, level, grew, levels). The program copies all distances to tile 0. Each
    tile reads this copy, and writes the distances of its own vertices and its element of `grew`:
    the number of vertices that it has reached. The first element of `levels` that is -1, if there
    is one, is set to the present level.
    """
    distance, level, grew, levels = parts
    before = graph.add_variable(INT, distance.shape, "before")
    reach = graph.add_compute_set("wave")
    lists = offsets_of(rows), [b for row in rows for b in row]
    offsets, neighbours = (graph.add_constant(INT, (len(x),), x, "rows") for x in lists)
    for tensor in (before, offsets, neighbours):
        graph.set_tile_mapping(tensor, 0)
    for tile, (begin, end) in enumerate(_shares(len(rows))):
        if begin == end:
            graph.set_initial_value(grew[tile], 0)
            continue
        fields = {"ends": offsets[begin : end + 1], "neighbours": neighbours, "before": before}
        fields |= {"level": level, "mine": distance[begin:end], "grew": grew[tile]}
        graph.set_tile_mapping(graph.add_vertex(reach, Wave, fields), tile)
    log = graph.add_vertex(reach, Log, {"level": level, "levels": levels})
    graph.set_tile_mapping(log, 0)
    return Steps(Copy(distance, before), Execute(reach))


def _shares(n: int) -> list[tuple[int, int]]:
    """Return `(begin, end)` for each tile, if `n` elements are divided equally among the tiles."""
    return [(n * tile // TILES, n * (tile + 1) // TILES) for tile in range(TILES)]


def _searching(answer: Answer, trial: Trial, graph: Graph, parts: Parts) -> Built:
    """Build the program of answer(graph, wave, level, grew), which returns it.

    `wave` is the program of one search step.
    """
    wave = _wave(graph, trial.more[0], parts)
    return one_program(call_made(answer, trial.tried, graph, wave, *parts[1:3]), trial.tried), []


@cache
def _graphs() -> tuple[Trial, ...]:
    """Return trials with graphs, each of which is searched twice by one engine."""
    trials = []
    streets = [(k, k + 1) for k in range(24) if k % 5 < 4] + [(k, k + 5) for k in range(20)]
    storeys = [pair for t in range(13) for pair in ((0, 3 * t + 1), (3 * t + 1, 3 * t + 2))]
    for message, n, edges, begins in (
        ("a town of 5 x 5 crossings", 25, streets, (0, 12)),
        ("a path of 14", 14, [(k, k + 1) for k in range(13)], (0, 5)),
        ("a star of 20", 20, star_of(20), (7, 0)),
        ("two parts, a loop and an isolated vertex", 26, [*some_edges(12, 14, 3),
         *((a + 12, b + 12) for a, b in some_edges(12, 14, 4)), (24, 24)], (1, 24)),
        ("a tree of three levels", 39, storeys, (0, 1)),
        ("6 in a ring, on 13 tiles", 6, [(k, (k + 1) % 6) for k in range(6)], (2, 5)),
    ):  # fmt: skip
        rows = rows_of(n, edges)
        starts = [np.where(np.arange(n) == begin, 0, -1) for begin in begins]
        right = [np.array(distances(rows, begin)) for begin in begins]
        distance = Var(INT, n, _evenly, given=starts, right=right)
        # With some mistakes, only the final level is wrong.
        level = Var(INT, (), 0, right=[values.max() for values in right])
        tensors = {"distance": distance, "level": level}
        tensors["grew"] = Var(INT, TILES, by_rows)
        levels = [np.append(np.arange(values.max() + 1), [-1] * 20)[:20] for values in right]
        tensors["levels"] = Var(INT, 20, 0, given=[np.full(20, -1)] * 2, right=levels)
        trial = Trial(f"{message}, from {begins[0]} and {begins[1]}", tensors, more=(rows,), runs=2)
        trials.append(replace(trial, form=_searching, most_rounds=60, agree=_stopped_alike))
    return tuple(trials)


def _evenly(graph: Graph, tensor: Tensor) -> None:
    """Map consecutive elements to the tiles, nearly the same number to each tile."""
    for tile, (begin, end) in enumerate(_shares(len(tensor))):
        graph.set_tile_mapping(tensor[begin:end], tile)


def _waves(run: Ran) -> int:
    """Return the number of search steps (waves) in the first run."""
    return sum(p.executions for p in run.report.compute_sets if p.name == "wave")


def _stopped_alike(run: Ran, reference_run: Ran) -> bool:
    """Return whether two answers give equal results, with the same reason if they stop.

    The reason is a RepeatWhileTrue, or reading `level` or `grew` before it is written. It counts as
    the same if the texts of both errors mention the same of these names.
    """

    def causes(error: object) -> list[bool]:
        message = getattr(error, "tried", "")
        return [part in message for part in ("RepeatWhileTrue", "'level'", "'grew'")]

    return equal(run, reference_run) and causes(run.error) == causes(reference_run.error)


def _searched_alike(run: Ran, reference_run: Ran) -> bool:
    """Return whether two answers give the same distances, and search at the same levels.

    They must also end with errors of the same class, or with none, and either both answers or
    neither must leave `level` at 0.
    """
    if len(run.came) != len(reference_run.came) or run.endless != reference_run.endless:
        return False
    return type(run.error) is type(reference_run.error) and all(
        np.array_equal(actual["distance"], expected["distance"])
        and np.array_equal(actual["levels"], expected["levels"])
        and bool(actual["level"]) == bool(expected["level"])
        for actual, expected in zip(run.came, reference_run.came, strict=True)
    )


def _levels(levels: Array) -> str:
    """Return the levels of the search steps of a run as text."""
    waves = [str(level) for level in levels if level >= 0]
    few = waves[:6] + ["…"] * (len(waves) > 6)
    more = " or more" if len(waves) == len(levels) else ""
    return f"{counted(len(waves), 'wave')}{more}, at level {', '.join(few)}" if waves else "no wave"


def _search(answer: Callable[..., Program]) -> Passed:
    runs = [trial.through(answer, "14.3") for trial in _graphs()]

    def alike(like: Answer) -> bool:
        """Return whether a known mistake gives the same results as the learner on all graphs.

        All graphs are needed, because wrong conditions for the end of the loop differ on some
        graphs only.
        """
        # The smallest runs come first.
        pairs = ((run, run.trial.outcome(like)) for run in reversed(runs))
        return all(
            _searched_alike(run, reference_run) and _waves(run) == _waves(reference_run)
            for run, reference_run in pairs
        )

    refused = refusing("14.3", alike)
    yours = budget = 0
    for run in runs:
        trial = run.trial
        if any(run.endless):
            advice = "compute the sum of `grew` after each wave, and let RepeatWhileTrue test it."
            raise refused(trial.tried, "the waves never end", "an end", advice)
        if difference := run.wrong("distance"):
            fault = f"{trial.tried}, {('first', 'second')[difference.run]} run"
            came, right = (
                run.came[difference.run]["levels"],
                trial.tensors["levels"].right[difference.run],
            )
            advice = (
                "set `level` to 0 before the first wave, and add 1 between one wave and the next."
            )
            if np.array_equal(came[came >= 0], right[: (came >= 0).sum()]):
                advice = (
                    "compute the sum of `grew` after each wave, and let RepeatWhileTrue test it."
                )
            words = f"{difference.words}, after {_levels(came)}"
            picture = partial(_drawn_end, answer, trial, "distance", difference.run)
            raise refused(fault, words, _levels(right), advice, draws=picture)
        waves = _waves(run)
        maximum = 1 + max(trial.tensors["distance"].right[0])
        yours = yours + waves
        budget = budget + maximum
        if waves > maximum:
            advice = "compute the sum of `grew` after each wave, and let RepeatWhileTrue test it."
            wanted = f"{maximum}, of which the last reaches no vertex"
            bars = Bars(maximum, waves, "waves")
            raise refused(trial.tried, counted(waves, "wave"), wanted, advice, bars=bars)
    reports = [run.report for run in runs]
    return Passed(f"{len(runs)} graphs, each twice", Bars(budget, yours, "waves"), reports)


# --- 14.4 -----------------------------------------------------------------------------------------

# The budget for one step of the two fingers, in modelled cycles, with one of six workers busy. It
# is 5 % more than a step costs if the fingers start at the beginnings of both rows.
PER_STEP = 85
FIELDS = ("offsets", "neighbours", "begin", "end", "count")


def triples(rows: Sequence[Sequence[int]]) -> int:
    """Return the number of triangles in a graph, by testing all triples of vertices."""
    near = [set(row) for row in rows]
    return sum(
        c in near[a] and c in near[b]
        for a in range(len(rows)) for b in near[a] if b > a for c in range(b + 1, len(rows))
    )  # fmt: skip


def finger_steps(rows: Sequence[Sequence[int]]) -> int:
    """Return an upper bound on the steps of two fingers that compare sorted rows, for all edges.

    Each edge counts once, from its smaller vertex to its larger one. The two fingers take at most
    as many steps as both rows have elements.
    """
    return sum(len(row) + len(rows[b]) for a, row in enumerate(rows) for b in row if b > a)


def _counting(answer: Answer, trial: Trial, graph: Graph, parts: Parts) -> Built:
    """Build a program with vertices of a codelet that counts triangles, each on its own tile.

    The last two tensors of the trial are the bounds and the counts. Vertex k gets the bounds k and
    k + 1, and writes count k.
    """
    cls = codelet_of(answer, "a check")
    compute_set = graph.add_compute_set("count")
    *lists, bounds, counts = parts
    for k in range(len(counts)):
        fields = (*lists, bounds[k], bounds[k + 1], counts[k])
        vertex = graph.add_vertex(compute_set, cls, dict(zip(FIELDS, fields, strict=True)))
        graph.set_tile_mapping(vertex, k)
    return Execute(compute_set), []


def _total(run: Ran) -> int:
    """Return the number of triangles that a run counted; -1 if it ended with an error."""
    return int(np.sum(run.came[0]["counts"])) if run.came else -1


@cache
def _knots() -> tuple[Trial, ...]:
    """Return trials that count triangles, ordinary ones first; the cost is measured in the last."""
    drawn = some_edges(20, 60, 5)
    names = np.random.default_rng(6).permutation(20)
    four = [(a, b) for a in range(4) for b in range(a)]
    two = [(0, 1), (0, 2), (1, 2), (2, 3), (2, 4), (3, 4)]
    loops = [*some_edges(12, 30, 9), (3, 3), (4, 4), (5, 5)]
    trials = []
    for message, n, edges, bounds in (
        ("20 vertices, drawn", 20, drawn, (0, 7, 20)),
        (
            "the same graph with other numbers",
            20,
            [(names[a], names[b]) for a, b in drawn],
            (0, 20),
        ),
        ("four that are all neighbours", 4, four, (0, 2, 4)),
        ("two triangles at one vertex", 5, two, (0, 5)),
        ("a square and its diagonal", 4, [(0, 1), (1, 2), (2, 3), (0, 3), (0, 2)], (0, 1, 2, 3, 4)),
        ("a star of 9", 9, star_of(9), (0, 3, 9)),
        ("a path", 4, [(0, 2), (2, 3), (3, 1)], (0, 4)),
        ("vertices that are their own neighbours", 12, loops, (0, 4, 8, 12)),
        ("40 with many neighbours", 40, some_edges(40, 600, 11), (0, 40)),
    ):
        rows = rows_of(n, edges)
        lists = {"offsets": offsets_of(rows), "neighbours": [b for row in rows for b in row]}
        lists["bounds"] = list(bounds)
        parts = len(bounds) - 1
        tensors = {name: Var(INT, len(x), 0, [np.array(x)]) for name, x in lists.items()}
        tensors["counts"] = Var(INT, parts, by_rows, right=[np.zeros(parts, int)])
        pairs = ", ".join(f"{a}-{b}" for a, row in enumerate(rows) for b in row if b >= a)
        words = f"{message}: {pairs}" if len(edges) <= 33 else message
        if parts > 1:
            words += f"; on {parts} tiles, which begin at {', '.join(map(str, bounds[:-1]))}"
        trial = Trial(words, tensors, more=(rows,), form=_counting, beside=_knots)
        trials.append(trial.twice())
    return tuple(trials)


def _triangles(answer: type[Vertex]) -> Passed:
    runs = [trial.through(answer, "14.4") for trial in _knots()]
    runs.sort(key=lambda run: finger_steps(run.trial.more[0]))  # The smallest runs come first.
    totals = [_total(run) for run in runs]

    def counts_alike(like: Answer) -> bool:
        pairs = zip(totals, runs, strict=True)
        return all(total == _total(run.trial.outcome(like)) for total, run in pairs)

    for run, total in zip(runs, totals, strict=True):
        trial, rows = run.trial, run.trial.more[0]
        right = triples(rows)
        if total != right or run.unwritten("counts"):
            why, advice = lost(run.graph, not run.unwritten("counts"))
            actual, wanted = (counted(n, "triangle") for n in (total, right))
            if run.unwritten("counts"):
                actual = "count was not written"
            if why:
                raise NotYet(trial.tried, actual, wanted, why, advice)
            advice = (
                "list the triangles of this small graph: which of them does your codelet count?"
            )
            if total < right:
                advice += " If you divide the count: a tile may find only some of the orders."
            elif right and not total % right:
                why = f"this is {total // right} times the number of triangles."
                advice = (
                    "in which orders a, b and third do your loops find one triangle? Count one."
                )
            raise refusing("14.4", counts_alike)(trial.tried, actual, wanted, advice, why)
    for run in runs:
        run.refuse_unrepeatable("counts")
    bars = Bars(PER_STEP * finger_steps(rows), run.cycles, "modelled cycles")
    if bars.yours > bars.budget:
        why = (
            "the count is right, but the vertices read far more numbers than two sorted rows need."
        )
        advice = (
            "keep one index in each of the two rows, and move only the index of the smaller number."
        )
        raise NotYet(trial.tried, "too many cycles", why=why, next_step=advice, bars=bars)
    return Passed(f"{len(totals)} graphs", bars, totals)


# --- 14.5 -----------------------------------------------------------------------------------------

# A list with the pieces of each tile. A piece is (vertex, first edge, end of the edges).
Pieces = list[list[tuple[int, int, int]]]
# The allowed number of edges on a tile, relative to the mean. If the mean rounded up is more, that
# is allowed.
FAIR = 1.1
# The allowed cycles of a search step, relative to a step with the pieces that `filled` returns.
FEW = 1.6


@cache
def _stars() -> tuple[tuple[str, list[list[int]], int], ...]:
    """Return (description, neighbours of each vertex, number of tiles) of each case."""
    graphs = (
        ("a star of 200", 200, star_of(200), 13),
        (
            "two hubs with the same 38 neighbours",
            40,
            star_of(40) + [(1, k) for k in range(2, 40)],
            7,
        ),
        ("edges drawn at random", 30, some_edges(30, 70, 8), 5),
        ("vertices without edges", 25, some_edges(9, 20, 2), 6),
        ("twice as many tiles as edges", 4, star_of(4), 12),
        ("one tile", 6, star_of(6), 1),
        # For a path of 4 vertices, 1.1 times the mean number of edges is less than 2, so the mean
        # is rounded up.
        ("a path of 4", 4, [(0, 1), (1, 2), (2, 3)], 4),
    )
    return tuple((message, rows_of(n, edges), tiles) for message, n, edges, tiles in graphs)


class Look(Vertex):
    """A vertex that marks each piece of a row that has a neighbour at distance `level`."""

    ends: Input[Vector[INT]]
    neighbours: Input[Vector[INT]]
    distance: Input[Vector[INT]]
    level: Input[INT]
    hit: Output[Vector[INT]]

    def compute(self) -> None:
        for p in range(len(self.hit)):
            self.hit[p] = 0
            for k in range(self.ends[p], self.ends[p + 1]):
                if self.distance[self.neighbours[k]] == self.level:
                    self.hit[p] = 1


class Settle(Vertex):
    """A vertex that sets the distances of the graph vertices that are reached in this step."""

    ends: Input[Vector[INT]]
    hit: Input[Vector[INT]]
    level: Input[INT]
    distance: InOut[Vector[INT]]
    grew: Output[INT]

    def compute(self) -> None:
        grew = 0
        for v in range(len(self.distance)):
            for p in range(self.ends[v], self.ends[v + 1]):
                if self.hit[p] == 1 and self.distance[v] < 0:
                    self.distance[v] = self.level + 1
                    grew += 1
        self.grew = grew


def cycles_of_wave(rows: Sequence[Sequence[int]], pieces: Pieces) -> int:
    """Return the modelled cycles of one search step from vertex 0, if tiles have these `pieces`.

    As in the notebook, all tiles first search their pieces, and then set the distances.
    """
    n, tiles = len(rows), len(pieces)
    graph = Graph(device_of(tiles))
    neighbours = [b for row in rows for b in row]
    order = sorted(piece for pieces_of_tile in pieces for piece in pieces_of_tile)
    place = {piece: number for number, piece in enumerate(order)}
    sizes = {"distance": (n,), "level": (), "hit": (len(order),), "grew": (tiles,)}
    distance, level, hit, grew = (graph.add_variable(INT, sizes[name], name) for name in sizes)
    graph.set_tile_mapping(level, 0)
    graph.set_initial_value(level, 0)
    graph.set_initial_value(distance, np.where(np.arange(n) == 0, 0, -1))
    look, settle = graph.add_compute_set("look"), graph.add_compute_set("settle")

    def constant(values: Sequence[int] | Array, tile: int) -> Tensor:
        tensor = graph.add_constant(INT, (len(values),), values, "rows")
        graph.set_tile_mapping(tensor, tile)
        return tensor

    for tile, pieces_of_tile in enumerate(pieces):
        if pieces_of_tile:
            lengths = [end - first for _, first, end in pieces_of_tile]
            found = [b for _, first, end in pieces_of_tile for b in neighbours[first:end]]
            hits = concat([hit[place[piece] : place[piece] + 1] for piece in pieces_of_tile])
            fields = {"ends": constant(np.cumsum([0, *lengths]), tile), "level": level}
            fields |= {"neighbours": constant(found, tile), "distance": distance, "hit": hits}
            for part in (hits, graph.add_vertex(look, Look, fields)):
                graph.set_tile_mapping(part, tile)
        begin, end = n * tile // tiles, n * (tile + 1) // tiles
        ends = np.searchsorted([vertex for vertex, *_ in order], np.arange(begin, end + 1))
        fields = {"ends": constant(ends - ends[0], tile), "level": level, "grew": grew[tile]}
        fields |= {"distance": distance[begin:end], "hit": hit[int(ends[0]) : int(ends[-1])]}
        for part in (grew[tile], distance[begin:end], graph.add_vertex(settle, Settle, fields)):
            graph.set_tile_mapping(part, tile)
    return int(run_once(graph, Steps(Execute(look), Execute(settle))).report.total_cycles)


def filled(offsets: Sequence[int], tiles: int) -> Pieces:
    """Return the pieces of rows of each tile, if the tiles are filled one after another.

    `offsets` has the index of the first edge of each row, followed by the number of all edges. A
    row is cut only where a tile is full.
    """
    ends = [offsets[-1] * tile // tiles for tile in range(tiles + 1)]
    return [
        [
            (vertex, max(begin, first), min(end, last))
            for vertex, (first, last) in enumerate(pairwise(offsets))
            if max(begin, first) < min(end, last)
        ]
        for begin, end in pairwise(ends)
    ]


def _drawn(offsets: Sequence[int], pieces: Pieces) -> View:
    """Return a picture that shows the tile of each element of the list of neighbours."""
    graph = Graph(device_of(len(pieces)))
    edges = graph.add_variable(INT, (offsets[-1],), "neighbours")
    for tile, pieces_of_tile in enumerate(pieces):
        for _, begin, end in pieces_of_tile:
            graph.set_tile_mapping(edges[begin:end], tile)
    return show.tiles(edges)


def _pieces(result: Pieces) -> Pieces | None:
    """Return an answer's pieces as plain integers; None if it did not return pieces."""
    dealt: Pieces = []
    try:
        for pieces_of_tile in result:
            dealt.append([])
            for piece in pieces_of_tile:
                numbers = [plain(part) for part in piece]
                integers = [n for n in numbers if isinstance(n, int)]
                if not len(integers) == len(numbers) == 3:
                    return None
                dealt[-1].append((integers[0], integers[1], integers[2]))
    except TypeError:
        return None
    return dealt


def _no_deal(offsets: Sequence[int], pieces: Pieces) -> tuple[str, str]:
    """Return `(actual, expected)` for the first wrong piece; ("", "") if all pieces are right."""
    times_dealt = np.zeros(offsets[-1], int)
    for tile, pieces_of_tile in enumerate(pieces):
        for vertex, begin, end in pieces_of_tile:
            if not 0 <= vertex < len(offsets) - 1:
                return f"tile {tile} has a piece of vertex {vertex}", f"0 to {len(offsets) - 2}"
            row = offsets[vertex], offsets[vertex + 1]
            if not row[0] <= begin < end <= row[1]:
                wanted = f"a part of its row, which is {row[0]} to {row[1]}"
                return f"tile {tile} has {begin} to {end} of vertex {vertex}", wanted
            times_dealt[begin:end] += 1
    if (wrong := np.flatnonzero(times_dealt != 1)).size:
        edge = int(wrong[0])
        times = int(times_dealt[wrong[0]])
        return f"neighbours[{edge}] is in {counted(times, 'piece')}", "each edge in one"
    return "", ""


def _deal(answer: Callable[[list[int], int], Pieces]) -> Passed:
    bars, actual = _judged_deals(answer, _stars())
    few = _short_rows()
    _, further = _judged_deals(answer, few)
    words = f"{len(actual) + len(few)} graphs; below, the {len(actual)} large ones"
    return Passed(words, bars, [*actual, *further])


@cache
def _short_rows() -> tuple[tuple[str, list[list[int]], int], ...]:
    """Return the same kind of cases as `_stars`, for small graphs without a description."""
    draw = np.random.default_rng(1405)
    return tuple(
        ("", [[0] * length for length in (*draw.integers(0, 5, n - 1).tolist(), 2)], tiles)
        for n in range(1, 8)
        for tiles in range(1, 6)
    )


def _judged_deals(
    answer: Callable[[list[int], int], Pieces],
    graphs: Sequence[tuple[str, list[list[int]], int]],
) -> tuple[Bars, list[Pieces]]:
    """Return (modelled cycles and their budget as bars, results) for all graphs together.

    `graphs` has the form that `_stars` returns. For graphs without a description, only the pieces
    are checked, and the cycles are not counted.

    :raises NotYet: if a result is wrong, or if it takes too many cycles.
    """
    cases = [(offsets_of(rows), tiles) for _, rows, tiles in graphs]
    actual = call_all(answer, cases)

    def deals_alike(like: Callable[[list[int], int], Pieces]) -> bool:
        results = (like(list(offsets), tiles) for offsets, tiles in cases)
        return all(
            _pieces(expected) == _pieces(result)
            for expected, result in zip(results, actual, strict=True)
        )

    refused = refusing("14.5", deals_alike)
    yours = budget = 0
    for (message, rows, tiles), dealt in zip(graphs, actual, strict=True):
        offsets = offsets_of(rows)
        fault = f"{message}, {counted(tiles, 'tile')}"
        fault = fault if message else call_text(answer, (offsets, tiles))
        pieces = _pieces(dealt)
        if pieces is None or len(pieces) != tiles:
            words = shown(dealt) if pieces is None else counted(len(pieces), "list")
            advice = "return a list for each tile, of pieces (vertex, first, end)."
            raise refused(fault, words, f"{counted(tiles, 'list')} of pieces", advice)
        words, wanted = _no_deal(offsets, pieces)
        if words:
            advice = "end a piece where a tile is full, and at the end of each row."
            if any(begin >= end for pieces_of_tile in pieces for _, begin, end in pieces_of_tile):
                advice = "leave out pieces without edges: return only pieces with first < end."
            raise refused(fault, words, wanted, advice)
        loads = [sum(end - begin for _, begin, end in pieces_of_tile) for pieces_of_tile in pieces]
        mean = offsets[-1] / tiles
        maximum = max(loads)
        limit = int(max(FAIR * mean, np.ceil(mean)))
        if maximum > limit:
            advice = "give each tile at most that many edges, and continue with the next tile."
            words = f"tile {loads.index(maximum)} has {counted(maximum, 'edge')}"
            bars = Bars(limit, maximum, "edges")
            draws = partial(_drawn, offsets, pieces)
            raise refused(fault, words, f"{limit} at most", advice, bars=bars, draws=draws)
        if not message:
            continue
        cycles = cycles_of_wave(rows, pieces)
        most = int(FEW * cycles_of_wave(rows, filled(offsets, tiles)))
        yours = yours + cycles
        budget = budget + most
        if cycles > most:
            count = sum(map(len, pieces))
            advice = "cut a row only where a tile is full, which gives fewer pieces."
            words = f"{counted(count, 'piece')}, and {cycles:,} modelled cycles in a wave"
            bars = Bars(most, cycles, "modelled cycles")
            raise refused(fault, words, f"{most:,} at most", advice, bars=bars)
    return Bars(budget, yours, "modelled cycles"), actual


# Each item is (ends, neighbours, distance, level, hit), the values of one run. Some mistakes are
# visible in one of the runs only.
LOOKS = (
    ([0, 3, 3, 5, 7, 8], [1, 4, 2, 1, 2, 0, 4, 3], [0, 1, 2, -1, 1], 1, [1, 0, 1, 1, 0]),
    ([2, 4, 4, 5, 7, 8], [2, 2, 1, 4, 2, 0, 3, 2], [0, 3, 2, 1, 4], 2, [0, 0, 1, 0, 1]),
    ([0, 1, 4, 6, 6, 8], [3, 0, 1, 4, 4, 2, 0, 1], [-1, -1, 0, 2, 1], 0, [0, 0, 1, 0, 0]),
    ([0, 0, 2, 5, 8, 8], [4, 1, 0, 2, 3, 1, 1, 4], [5, 3, 2, 3, 0], 3, [0, 1, 1, 1, 0]),
    ([1, 3, 5, 5, 6, 8], [0, 3, 4, 2, 1, 0, 3, 0], [1, 0, -1, 2, 0], 1, [0, 0, 0, 1, 1]),
)
LISTS = [[np.array(part) for part in parts] for parts in zip(*LOOKS, strict=True)]
LOOKED = {
    name: Var(INT, values[0].shape, 0, values)
    for name, values in zip(("ends", "neighbours", "distance", "level"), LISTS, strict=False)
}
LOOKED["hit"] = Var(INT, 5, 0, right=LISTS[-1])
FIVE_ROWS = Trial("5 rows of neighbours, some of them empty", LOOKED, form=codelet, tiles=1)
FIVE_ROWS = replace(FIVE_ROWS, runs=len(LOOKS))


def _looks(answer: Answer) -> Passed:
    codelet_of(answer, 'check("14.w2")')
    run = FIVE_ROWS.of(answer)
    if difference := run.wrong("hit"):
        names = ("ends", "neighbours", "distance", "level")
        values = zip(names, LOOKS[difference.run], strict=False)
        case = ", ".join(f"{name} {value}" for name, value in values)
        right = quoted(difference.right)
        advice = "which k belong to the row of that hit? Look up the distances of those neighbours."
        refused = run.refused("14.w2", difference.words, right, advice)
        message = dict(refused.rows)
        raise NotYet(case, message["came"], right, message["why"], message["next"])
    return Passed(FIVE_ROWS.tried, evidence=run.engine.report)


LESSON = lesson(
    "14",
    question("14.0", (PredictedValue("", "times"),)),
    exercise(
        "14.w1",
        warmups.formula(
            "14.w1",
            lambda rows, columns: 2 * (rows + columns) + 4,
            (5, 8),
            (24, 24),
            (1, 7),
            (1, 1),
            (12, 3),
            more=product(range(1, 16), range(1, 16)),
        ),
    ),
    exercise("14.1", _heat),
    question("14.2", (PredictedValue("", "times"),)),
    exercise("14.2", _cut),
    exercise("14.w2", _looks, takes=("a codelet",)),
    exercise("14.3", _search),
    exercise("14.4", _triangles, takes=("a codelet",)),
    exercise("14.5", _deal),
)
