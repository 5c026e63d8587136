"""Views of four programs as people write them, and of random ones on one, two and four IPUs: every
number that one says in words or in its table, every length and share that it draws, is the report's.

What the numbers may be is worked out here from the report's phases, transfers and ledger, by
nothing of `show`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import pytest

from ipu_teach import FLOAT, Engine, Graph, InOut, IPUModel, Report, Vertex, show
from ipu_teach.cost.phases import Phase
from ipu_teach.program import Block, Copy, Execute, Repeat, Sequence
from ipu_teach.show.memory import parts
from ipu_teach.show.paint import paint
from ipu_teach.show.scene import Cells, Curve, Flame, Lanes, Matrix, Painted, Scene, Tape, Tree
from ipu_teach.show.shapes import Words
from ipu_teach.show.view import View
from tests.four_programs import PROGRAMS, Mean, Twice

NAMES = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta")


class Work(Vertex):
    """Adds one; how long that takes is set."""

    value: InOut[FLOAT]

    def compute(self) -> None:
        self.value = self.value + 1


@cache
def chance(seed: int, ipus: int = 1) -> Report:
    """A random program on a random machine: data from the host, compute sets of random work, copies
    to and fro, a loop."""
    rng = np.random.default_rng(seed)
    tiles = int(rng.choice([1, 2, 5, 13, 40, 64, 150]))
    device = IPUModel("ipu2", num_ipus=ipus, tiles_per_ipu=tiles).create_device()
    graph, tiles = Graph(device.target), tiles * ipus
    parts, homes = [], list[list[int]]()
    for name in NAMES[: int(rng.integers(2, 5))]:
        part = graph.add_variable(FLOAT, (int(rng.integers(1, 4)) * 60,), name)
        graph.set_initial_value(part, 1.0)
        homes.append([int(rng.integers(tiles)) for _ in range(part.num_elements // 20)])
        for k, tile in enumerate(homes[-1]):
            graph.set_tile_mapping(part[20 * k : 20 * k + 20], tile)
        parts.append(part)
    body: list[Any] = []
    for name in ("kappa", "lambda", "sigma")[: int(rng.integers(1, 4))]:
        work = graph.add_compute_set(name)
        for _ in range(int(rng.integers(1, 60))):
            which = int(rng.integers(len(parts)))
            element, tile = (int(rng.integers(n)) for n in (parts[which].num_elements, tiles))
            if ipus > 1:  # where its number lies, so that IPUs go through steps of their own
                tile = homes[which][element // 20]
            vertex = graph.add_vertex(work, Work, value=parts[which][element])
            graph.set_tile_mapping(vertex, tile)
            graph.set_perf_estimate(vertex, int(rng.integers(5, 500)))
        body.append(Execute(work))
    for _ in range(int(rng.integers(1, 4))):
        a, b = (parts[int(i)] for i in rng.integers(len(parts), size=2))
        if a is not b:
            count = int(rng.integers(1, min(a.num_elements, b.num_elements)))
            body.append(Copy(a[:count], b[-count:]))
    stream = graph.add_host_to_device_fifo("stream", FLOAT, parts[0].num_elements)
    program = Sequence(
        Copy(stream, parts[0]), Repeat(int(rng.integers(1, 5)), Block(Sequence(*body), "the loop"))
    )
    engine = Engine(graph, program, strict=False)
    engine.load(device)
    engine.connect_stream("stream", np.ones(parts[0].num_elements, np.float32))
    engine.run()
    return engine.report


RUNS: dict[str, Callable[[], Report]] = {
    **{f"chance {seed}": partial(chance, seed) for seed in range(8)},
    **{
        f"chance {seed} on {ipus} IPUs": partial(chance, seed, ipus)
        for ipus in (2, 4)
        for seed in range(3)
    },
    **{name: lambda made=made: made().report for name, made in PROGRAMS.items()},
}
every_run = pytest.mark.parametrize("run", RUNS)


@dataclass
class Stretch:
    """What the IPUs do between two moments at which all wait for each other: (compiled step, IPU or
    None for all, when it begins), and when each IPU is done."""

    parts: list[tuple[int, int | None, int]]
    ends: list[int]

    @property
    def cycles(self) -> int:
        return max(self.ends)


@cache
def stretches(report: Report) -> list[Stretch]:
    """A run by the clocks of its IPUs."""
    ipus, found, alone = report.target.num_ipus, list[Stretch](), False
    for n in report.step_numbers.tolist():
        if ipus == 1 or report.profile.external[n]:
            long = sum(phase.cycles for phase in report.phases(n))
            ends = [long * bool(own) for own in takes_part(report, n).reshape(ipus, -1)[:, 0]]
            found.append(Stretch([(n, None, 0)], ends))
            alone = False
            continue
        found += [] if alone else [Stretch([], [0] * ipus)]
        alone = True
        for ipu in range(ipus):
            if long := sum(phase.cycles for phase in report.phases(n, ipu)):
                found[-1].parts.append((n, ipu, found[-1].ends[ipu]))
                found[-1].ends[ipu] += long
    return found


def takes_part(report: Report, n: int) -> Any:
    """bool[tiles]: those of the IPUs that have a part in a step of all."""
    own = report.profile.at_work(n) if report.profile.external[n] else np.ones(1, bool)
    return np.resize(
        np.repeat(own | ~own.any(), report.target.tiles_per_ipu), report.target.num_tiles
    )


def busy_of(phase: Phase, report: Report, n: int, ipu: int | None = None) -> Any:
    """How long each tile of an IPU, or of all that take part in a step, is at work in a phase."""
    each = report.target.tiles_per_ipu
    own = takes_part(report, n) if ipu is None else slice(ipu * each, (ipu + 1) * each)
    whole = np.full(report.target.num_tiles, phase.cycles) if phase.busy is None else phase.busy
    return whole[own]


def spent(report: Report, stretch: Stretch) -> dict[str, float]:
    """By kind of phase, how much of a stretch the average tile is at work, and how long it
    waits."""
    found: dict[str, float] = {}
    tiles, each = report.target.num_tiles, report.target.tiles_per_ipu
    for n, ipu, _ in stretch.parts:
        for phase in report.phases(n, ipu):
            busy = busy_of(phase, report, n, ipu)
            for kind, cycles in (
                (phase.kind, busy.sum()),
                ("waiting", (phase.cycles - busy).sum()),
            ):
                found[kind] = found.get(kind, 0) + float(cycles) / tiles
    found["waiting"] += sum(stretch.cycles - end for end in stretch.ends) * each / tiles
    return found


def times_of(report: Report) -> tuple[set[float], set[float]]:
    """(amounts, shares) that follow from the clocks."""
    total = report.total_cycles
    amounts, shares = set[float](), set[float]()
    whole: dict[str, float] = {}
    of_ipus = Counter[str]()  # the cycles of all IPUs together, by kind of phase
    ipus = report.target.num_ipus
    for stretch in stretches(report):
        of_ipus["waiting"] += sum(stretch.cycles - end for end in stretch.ends)
        for n, ipu, _ in stretch.parts:
            own = takes_part(report, n).reshape(-1, report.target.tiles_per_ipu)[:, 0].sum()
            for phase in report.phases(n, ipu):
                of_ipus[phase.kind] += phase.cycles * (int(own) if ipu is None else 1)
        kinds, long = spent(report, stretch), stretch.cycles
        for kind, cycles in kinds.items():
            whole[kind] = whole.get(kind, 0) + cycles
        amounts |= {long, *stretch.ends, round(long - kinds["waiting"]), len(stretch.parts)}
        amounts |= {float(len({n for n, *_ in stretch.parts}))}
        amounts |= {float(long - end) for end in stretch.ends}  # how long each IPU waits
        shares |= {kinds["waiting"] / long, long / total}
    shares |= {part / total for part in whole.values()}
    shares |= {part / total / ipus for part in of_ipus.values()}
    amounts.add(len(stretches(report)))
    for row in report.ipus:
        amounts |= {row.busy_cycles, row.waiting_cycles, row.held_cycles}
        shares |= {row.busy, row.waiting_cycles / total}
    return amounts, shares


def shown_of(report: Report, n: int) -> Iterator[int | None]:
    """Whose time a step is shown as: that of all IPUs, or of each that has a part in it."""
    several = report.target.num_ipus > 1 and not report.profile.external[n]
    yield from (
        (ipu for ipu in range(report.target.num_ipus) if report.phases(n, ipu))
        if (several)
        else (None,)
    )


@cache
def facts(report: Report) -> set[float]:
    """Every number that a view may say: counts and tiles, cycles and bytes, and shares in per
    cent."""
    tiles, total = report.target.num_tiles, report.total_cycles
    steps = report.steps()
    ran = {n: int(times) for n, times in enumerate(report.executions.tolist()) if times}
    amounts, shares = times_of(report)
    amounts |= {
        *range(max(tiles, 200) + 1),
        total,
        report.target.bytes_per_tile,
        report.host_bytes,
        len(steps),
        report.host_exchange_cycles,
        report.num_steps,
    }
    shares |= set(report.proportions.values())
    moved = 0
    for n, times in ran.items():
        cost = report.step_cost(n)
        amounts |= {cost.compute_duration, times * cost.host_cycles}
        amounts |= {cost.host_bytes, times * cost.host_bytes}
        for ipu in shown_of(report, n):
            phases, lost = report.phases(n, ipu), 0.0
            long = sum(phase.cycles for phase in phases)
            amounts |= {long, times * long}
            shares.add(times * long / total)
            together: dict[str, int] = {}
            for phase in phases:
                busy = busy_of(phase, report, n, ipu)
                together[phase.kind] = together.get(phase.kind, 0) + phase.cycles
                waits = phase.cycles - float(busy.mean())
                lost += waits
                amounts |= {phase.cycles, times * phase.cycles, *busy.tolist()}
                amounts |= {float(np.median(busy)), float((busy == busy.max()).sum() - 1)}
                # how long the tiles wait for the slowest: the longest and the shortest wait
                behind = busy.max() - busy[busy < busy.max()]
                amounts |= {float(behind.max(initial=0)), float(behind.min(initial=busy.max()))}
                shares |= {
                    part / whole
                    for part in (phase.cycles, times * phase.cycles, waits)
                    for whole in (total, phase.cycles, long)
                }
            amounts |= {cycles * factor for cycles in together.values() for factor in (1, times)}
            amounts.add(round(long - lost))
            shares |= {lost / long} if long else set()
        for traffic, sent in zip(cost.exchange, report.transfers(n), strict=True):
            heard = [len(to) for to in sent.receivers]
            moved += times * traffic.total
            amounts.add(times * traffic.total)
            amounts |= {
                traffic.total,
                len(sent),
                sum(heard),
                float(np.median(traffic.received)),
                float(np.median(traffic.sent)),
            }
            pairs = {
                (s, int(t))
                for s, to in zip(sent.source.tolist(), sent.receivers, strict=True)
                for t in to
            }
            delivered = np.bincount(np.repeat(sent.source, heard), np.repeat(sent.size, heard))
            amounts |= {int(sent.size.sum()), int(delivered.max(initial=0))}
            amounts |= {*Counter(s for s, _ in pairs).values()}  # how many tiles a tile sends to
            ipu_of = np.arange(tiles) // report.target.tiles_per_ipu
            links = zip(sent.source, sent.size, sent.receivers, strict=True)
            far = sum(int(size) * (ipu_of[to] != ipu_of[s]).sum() for s, size, to in links)
            amounts |= {len(pairs), int(far)}
            for array in (
                traffic.received,
                traffic.sent,
                traffic.stayed,
                traffic.pieces,
                sent.size,
            ):
                amounts |= set(array.tolist())
    amounts.add(moved)
    amounts |= {
        share * total // 1 + more for share in report.proportions.values() for more in (-1, 0, 1)
    }  # rounded with others
    for block in report.execution.blocks(0):
        amounts |= {round(block.cycles), round(block.cycles_from), round(block.cycles_to)}
    amounts.add(round(sum(block.cycles for block in report.execution.blocks(0))))
    for sizes in [*parts_of_programs(report), *parts_of_one_name(report)]:
        amounts |= {float(size) for size in sizes}
        shares |= {size / whole for size in sizes for whole in (total, sizes[-1]) if whole}
    memory = report.memory
    by_category = memory.bytes_per_tile_by_category
    always, held = memory.always_live_bytes_per_tile, memory.held_per_tile
    for array in (held, always, memory.gaps_per_tile, memory.bytes_per_tile, *by_category.values()):
        amounts |= {*array.tolist(), int(array.sum()), round(float(array.mean()))}
    constant = memory.always_live_variables_per_tile
    passing = by_category["Variables"] - constant
    for array in (constant, passing):
        amounts |= {*array.tolist(), int(array.sum())}
    amounts |= {int(held.sum()), *(int(v) for v in memory.size), *memory.by_variable().values()}
    shares |= {float(h) / report.target.bytes_per_tile for h in held.tolist()}
    for place in live_by_hand(report):
        amounts |= set(place)
        always_live, _, _, everything, _ = place
        shares |= {always_live / everything} if everything else set()
    return {round(a, 1) for a in amounts} | {round(100 * s, 1) for s in shares}


def parts_of_programs(report: Report) -> list[list[float]]:
    """Cycles of every part of the programs by kind of phase and in all, as each IPU has them to
    do."""
    found: list[list[float]] = []
    runs = report.executions.tolist()
    for program in report.profile.programs:
        for _, node in program.walk():
            for ipu in range(report.target.num_ipus):
                kinds: dict[str, float] = {}
                for step in {leaf.step for leaf in node.leaves()}:
                    if report.overlap.idle[step, ipu]:  # a step of all in which it has no part
                        continue
                    for phase in report.phases(step, ipu):
                        kinds[phase.kind] = kinds.get(phase.kind, 0) + runs[step] * phase.cycles
                found.append([*kinds.values(), sum(kinds.values())])
    return found


def parts_of_one_name(report: Report) -> list[list[float]]:
    """Cycles of all steps with one name together, on each IPU."""
    runs = report.executions.tolist()
    found: dict[tuple[str, int], float] = {}
    for step, times in enumerate(runs):
        for ipu in range(report.target.num_ipus):
            if times and not report.overlap.idle[step, ipu]:
                key = report.step_cost(step).name, ipu
                cycles = sum(phase.cycles for phase in report.phases(step, ipu))
                found[key] = found.get(key, 0) + times * cycles
    return [[cycles] for cycles in found.values()]


def live_by_hand(report: Report) -> list[tuple[int, ...]]:
    """Of each place of the programs: bytes of all tiles always live, of variables that come and go,
    of buffers, all of them; and what the fullest tile holds, gaps included."""
    memory = report.memory
    path = report.target.data_path_width // 8
    found = []
    for place in range(len(memory.liveness.places)):
        live = memory.liveness.live[place, memory.variable]
        buffers = np.sum(
            [np.zeros(memory.num_tiles, np.int64), *memory.passing[place].values()], axis=0
        )
        tile = int(memory.fullest_tile_by_place[place])
        there = (live | memory.liveness.always[memory.variable]) & (memory.tile == tile)
        gaps = int((-memory.size[there] % path).sum())
        coming = int(memory.size[live].sum())
        always = int(memory.always_live_bytes_per_tile.sum())
        one = (
            int(
                memory.always_live_bytes_per_tile[tile]
                + memory.size[live & (memory.tile == tile)].sum()
                + buffers[tile]
            )
            + gaps
        )
        found.append(
            (always, coming, int(buffers.sum()), always + coming + int(buffers.sum()), one)
        )
    return found


def numbers_in(text: str) -> list[float]:
    """The numbers in a text, as they are said. Those of a count, as in "lane 3", are among them."""
    return [float(word.replace(",", "")) for word in re.findall(r"\d[\d,]*(?:\.\d+)?", text)]


VIEWS: dict[str, Callable[[Report], View]] = {
    **{
        name: getattr(show, name)
        for name in (
            *("bsp", "timeline", "balance", "memory", "liveness", "program", "host", "exchange"),
        )
    },
    "blocks": lambda report: show.timeline(report, blocks=0),
    "two balances": lambda report: show.balance(report, report),
    "sweep": lambda report: show.sweep({"one": report, "again": report}),
}


def fits(name: str, report: Report) -> bool:
    """Whether a view has something to show of a report."""
    numbers = set(report.step_numbers.tolist())
    moves = any(len(sent) for n in numbers for sent in report.transfers(n))
    blocks = len(report.execution.blocks(0)) > 0
    return {"exchange": moves, "host": report.host_bytes > 0, "blocks": blocks}.get(name, True)


@every_run
@pytest.mark.parametrize("name", VIEWS)
def test_every_number_in_words_and_tables_is_the_reports(name: str, run: str) -> None:
    report = RUNS[run]()
    known = facts(report)
    if not fits(name, report):
        return
    always = int(report.memory.always_live_bytes_per_tile.sum())
    peak = always + max(size for _, size in report.memory.bytes_by_place())
    known |= {round(100 * always / peak, 1)}
    scene = VIEWS[name](report).scene
    texts = [text for still in scene.stills for text in (still.label, still.note)]
    # Times that were measured on the host are not figures of the report.
    sentence = scene.sentence.split(" of the host, measured")[0]
    columns, rows = scene.table
    texts += [
        re.sub(r"\d+ events?$", "", sentence),
        scene.title,
        *(
            cell
            for row in rows
            for column, cell in zip(columns, row, strict=False)
            if not column.startswith("measured")
        ),
    ]
    wrong = {
        value: text for text in texts for value in numbers_in(text) if round(value, 1) not in known
    }
    assert not wrong, f"{len(wrong)} numbers that the report does not have"


def shares_of(scene: Scene, drawing: int, lanes: int) -> dict[str, float]:
    """By the name of its code, the share of the lanes and of the drawing's time that each bar
    has."""
    found: dict[str, float] = {}
    whole = scene.drawings[drawing].span * lanes or 1
    for bar in scene.drawings[drawing].bars:
        assert isinstance(bar.code, int)
        length, start = (np.broadcast_to(v, lanes).astype(float) for v in (bar.length, bar.start))
        for code, part in ((bar.code, length.sum()), (bar.rest, (bar.end - start - length).sum())):
            if code >= 0:
                found[scene.codes[code].name] = found.get(scene.codes[code].name, 0) + part / whole
    return found


@every_run
@pytest.mark.parametrize("name", ["bsp", "timeline", "balance"])
def test_lanes_have_the_shares_of_the_phases(name: str, run: str) -> None:
    report = RUNS[run]()
    scene = VIEWS[name](report).scene
    mark = next(
        m
        for m in scene.marks
        if isinstance(m, (Lanes, Tape)) and m.name in ("lanes", "tiles", "run")
    )
    firsts = [s for s in (scene.stills[i] for i in scene.frames.tolist()) if s.first]
    assert len(firsts) == len(stretches(report))
    for stretch, still in zip(stretches(report), firsts, strict=True):
        truth, long = spent(report, stretch), stretch.cycles
        drawn = shares_of(scene, still.lanes[mark.name][0], mark.count)
        for kind in {*truth, *drawn}:
            assert drawn.get(kind, 0) == pytest.approx(truth.get(kind, 0) / long, abs=3 / long), (
                kind
            )


@every_run
def test_every_picture_of_a_run_is_as_long_as_the_run(run: str) -> None:
    """By the clocks: no IPU waits in it for a sum."""
    report = RUNS[run]()
    total = sum(stretch.cycles for stretch in stretches(report))
    assert total == report.total_cycles
    for name in ("bsp", "timeline", "balance"):
        scene = VIEWS[name](report).scene
        assert sum(scene.stills[i].cycles for i in scene.frames.tolist()) == total, name
        assert f"{total:,} modelled cycles" in scene.sentence, name
    host = show.host(report).scene if report.host_bytes else None
    assert host is None or host.drawings[0].span == total
    tree, table = show.program(report).scene, show.program(report).data
    assert f" {max(int(row['modelled cycles'].replace(',', '')) for row in table):,} modelled" in (
        tree.sentence
    )
    trend = show.sweep({"this": report}).scene.table[1][0]
    parts = [int(cell.replace(",", "")) for cell in trend[1:]]
    assert parts[0] == total == sum(parts[1:])


@pytest.mark.parametrize("name", PROGRAMS)
def test_pictures_of_values_tiles_and_code_are_as_long_as_the_run(name: str) -> None:
    """What is about one tile, one codelet, or numbers: lengths, counts, and cycles."""
    ran = PROGRAMS[name]()
    report, scene = ran.report, show.run(ran.recording).scene
    long = f"{report.total_cycles:,} modelled cycles"
    assert long in scene.sentence
    assert long in {w.text for w in paint(scene, scene.poster) if isinstance(w, Words)}
    for tensor in ran.tensors.values():
        mapping = ran.graph.get_tile_mapping(tensor)
        rows = dict(row for row in show.tiles(tensor).scene.table[1])
        for tile, intervals in enumerate(mapping):
            held = sum(end - begin for begin, end in intervals)
            assert rows.get(f"{tile}", "0") == f"{4 * held:,}"
    for tile in (0, report.target.num_tiles - 1):
        scene = show.tile(report, tile).scene
        worked = [
            int(report.step_cost(n).compute_cycles[tile])
            for n in dict.fromkeys(report.step_numbers.tolist())
        ]
        told = [numbers_in(still.note.split("it takes ")[1])[0] for still in scene.stills]
        assert told == [cycles for cycles in worked if cycles]
    codelet = {"stencil": Mean, "pipeline and ring": Twice}.get(name)
    if codelet is None:
        return
    runs = [  # these have one vertex on a tile, so that it has the tile's time but for its workers
        report.step_cost(n).compute_cycles // 6
        for n in report.step_numbers.tolist()
        for part in report.profile.parts(n)
        if report.profile.codelets[part.codelet].name == codelet.__name__
    ]
    row = show.code(report, codelet).data[0]
    assert row["times"] == f"{sum((each > 0).sum() for each in runs):,}"
    assert row["compiled"] == f"{sum(each.sum() for each in runs):,}"


@every_run
def test_the_matrix_has_the_bytes_of_the_messages(run: str) -> None:
    report = RUNS[run]()
    moved = []
    for n in sorted(set(report.step_numbers.tolist())):
        for phase in report.phases(n):
            sent = report.transfers(n)[phase.exchange] if phase.exchange >= 0 else ()
            if len(sent):
                moved.append(sent)
    if not moved:
        return
    scene = show.exchange(report).scene
    matrix = scene.marks[0]
    assert isinstance(matrix, Matrix) and len(scene.stills) == len(moved)
    for still, sent in zip(scene.stills, moved, strict=True):
        truth = np.zeros((matrix.bins, matrix.bins), np.int64)
        for source, size, to in zip(sent.source, sent.size, sent.receivers, strict=True):
            for receiver in to:
                truth[receiver // matrix.each, source // matrix.each] += size
        assert still.values["bytes"].tolist() == truth.reshape(-1).tolist()


@every_run
def test_blocks_last_as_long_as_the_reports(run: str) -> None:
    report = RUNS[run]()
    if not fits("blocks", report):
        return
    flame = VIEWS["blocks"](report).scene.marks[0]
    assert isinstance(flame, Flame) and flame.timed
    drawn = sorted(
        (flame.names[int(t)], round(float(b - a)))
        for t, a, b in zip(flame.title, flame.first, flame.last, strict=True)
    )
    assert [d for d in drawn if d[0] == "the loop"] == sorted(
        (b.name, round(b.cycles)) for b in report.execution.blocks(0) if b.name == "the loop"
    )


@every_run
def test_curves_stacks_cells_and_trees_have_the_reports_bytes_and_cycles(run: str) -> None:
    report = RUNS[run]()
    held, limit = report.memory.held_per_tile, report.target.bytes_per_tile
    curve = show.liveness(report).scene.marks[0]
    assert isinstance(curve, Curve)
    by_hand = live_by_hand(report)
    assert curve.series[-1].values.tolist() == [place[3] for place in by_hand] and curve.top == max(
        p[3] for p in by_hand
    )
    scene = show.memory(report).scene
    stack, found = next(m for m in scene.marks if isinstance(m, Painted)), parts(report)
    told = scene.stills[0].about["stack"][1] if stack.count < len(held) else scene.stills[0].values
    drawn = np.sum(
        [np.broadcast_to(told[f"part{i}"], stack.count) for i in range(len(found))], axis=0
    )
    assert drawn.sum() / stack.count == pytest.approx(held.mean(), abs=len(found))
    cells = next(m for m in scene.marks if isinstance(m, Cells))
    code = np.broadcast_to(scene.stills[0].cells["tiles"][0], cells.count)
    for number, here in zip(code.tolist(), held.tolist(), strict=True):
        fifth, most = int(scene.codes[number].letter), numbers_in(scene.codes[number].name)[0]
        assert (fifth - 1) / fifth * most < 100 * here / limit <= most
    tree = show.program(report).scene.marks[0]
    assert isinstance(tree, Tree)
    assert sum(part[0] for part in tree.parts.values()) == 1000  # of the whole program
    waits = show.balance(report).scene
    for still in waits.stills:  # of a step in which no tile waits there is none
        many = still.about["histogram"][1]["n"].sum()
        assert many == report.target.num_tiles or "no tile waits for another" in still.note
