"""Views of random reports: every number that one says in words or in its table, and every share
that it draws, is the report's.

What the numbers may be is worked out here from the report's phases, transfers and ledger, by
nothing of `show`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from ipu_teach import FLOAT, Engine, Graph, InOut, IPUModel, Report, Vertex, show
from ipu_teach.cost.phases import Phase
from ipu_teach.program import Block, Copy, Execute, Repeat, Sequence
from ipu_teach.show.memory import parts
from ipu_teach.show.scene import Cells, Curve, Flame, Lanes, Matrix, Painted, Scene, Tape, Tree
from ipu_teach.show.view import View

SEEDS = range(8)
NAMES = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta")


class Work(Vertex):
    """Adds one; how long that takes is set."""

    value: InOut[FLOAT]

    def compute(self) -> None:
        self.value = self.value + 1


@cache
def chance(seed: int) -> Report:
    """A random program on a random machine: data from the host, compute sets of random work, copies
    to and fro, a loop."""
    rng = np.random.default_rng(seed)
    tiles = int(rng.choice([1, 2, 5, 13, 40, 64, 150]))
    device = IPUModel("ipu2", tiles_per_ipu=tiles).create_device()
    graph = Graph(device.target)
    parts = []
    for name in NAMES[: int(rng.integers(2, 5))]:
        part = graph.add_variable(FLOAT, (int(rng.integers(1, 4)) * 60,), name)
        graph.set_initial_value(part, 1.0)
        for first in range(0, part.num_elements, 20):
            graph.set_tile_mapping(part[first : first + 20], int(rng.integers(tiles)))
        parts.append(part)
    body: list[Any] = []
    for name in ("kappa", "lambda", "sigma")[: int(rng.integers(1, 4))]:
        work = graph.add_compute_set(name)
        for _ in range(int(rng.integers(1, 60))):
            part = parts[int(rng.integers(len(parts)))]
            vertex = graph.add_vertex(work, Work, value=part[int(rng.integers(part.num_elements))])
            graph.set_tile_mapping(vertex, int(rng.integers(tiles)))
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


def busy_of(phase: Phase, tiles: int) -> Any:
    return np.full(tiles, phase.cycles) if phase.busy is None else phase.busy


@cache
def facts(report: Report) -> set[float]:
    """Every number that a view may say: counts and tiles, cycles and bytes, and shares in per
    cent."""
    tiles, total = report.target.num_tiles, report.total_cycles
    steps = report.steps()
    ran = {n: int(times) for n, times in enumerate(report.executions.tolist()) if times}
    amounts: set[float] = {
        *range(max(tiles, 200) + 1),
        total,
        report.target.bytes_per_tile,
        report.host_bytes,
        len(steps),
    }
    amounts |= {report.host_exchange_cycles, report.num_steps}
    shares: set[float] = set(report.proportions.values())
    kinds: dict[str, float] = {}
    waiting, moved = 0.0, 0
    for n, times in ran.items():
        cost, phases = report.step_cost(n), report.phases(n)
        amounts |= {
            cost.cycles,
            times * cost.cycles,
            cost.host_bytes,
            cost.compute_duration,
            times * cost.host_cycles,
        }
        shares.add(times * cost.cycles / total)
        lost = 0.0
        for phase in phases:
            busy = busy_of(phase, tiles)
            kinds[phase.kind] = kinds.get(phase.kind, 0) + times * phase.cycles
            waits = phase.cycles - float(busy.mean())
            lost += waits
            amounts |= {phase.cycles, times * phase.cycles, float(np.median(busy)), *busy.tolist()}
            shares |= {
                phase.cycles / total,
                times * phase.cycles / total,
                waits / phase.cycles,
                phase.cycles / cost.cycles,
            }
        together: dict[str, int] = {}
        for phase in phases:
            together[phase.kind] = together.get(phase.kind, 0) + phase.cycles
        amounts |= {cycles * factor for cycles in together.values() for factor in (1, times)}
        waiting += times * lost
        amounts.add(round(cost.cycles - lost))
        shares |= {lost / cost.cycles} if cost.cycles else set()
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
            amounts |= {round(len(pairs) / len({s for s, _ in pairs}), 1)} if pairs else set()
            for array in (
                traffic.received,
                traffic.sent,
                traffic.stayed,
                traffic.pieces,
                sent.size,
            ):
                amounts |= set(array.tolist())
    shares |= {waiting / total, *(cycles / total for cycles in kinds.values())}
    amounts |= {moved, *kinds.values()}
    amounts |= {
        share * total // 1 + more for share in report.proportions.values() for more in (-1, 0, 1)
    }  # rounded with others
    for block in report.execution.blocks(0):
        amounts |= {round(block.cycles), round(block.cycles_from), round(block.cycles_to)}
    amounts.add(round(sum(block.cycles for block in report.execution.blocks(0))))
    amounts |= {size for sizes in parts_of_programs(report) for size in sizes}
    shares |= {size / total for sizes in parts_of_programs(report) for size in sizes}
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
    return {round(a, 1) for a in amounts} | {round(100 * s, 1) for s in shares}


def parts_of_programs(report: Report) -> list[list[float]]:
    """Cycles of every part of the program by kind of phase and in all: of the stream's copy, the
    rest, and all together."""
    found: list[list[float]] = []
    steps = report.steps()
    for chosen in (steps, steps[1:]):
        kinds: dict[str, float] = {}
        for step in chosen:
            for phase in report.phases(step.step):
                kinds[phase.kind] = kinds.get(phase.kind, 0) + phase.cycles
        found.append([*kinds.values(), sum(kinds.values())])
    return found


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
        for name in ("bsp", "timeline", "balance", "memory", "liveness", "program", "host")
    },
    "blocks": lambda report: show.timeline(report, blocks=0),
    "two balances": lambda report: show.balance(report, report),
    "sweep": lambda report: show.sweep({"one": report, "again": report}),
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", [*VIEWS, "exchange"])
def test_every_number_in_words_and_tables_is_the_reports(name: str, seed: int) -> None:
    report = chance(seed)
    known = facts(report)
    if name == "exchange":
        if not any(
            len(sent) for n in set(report.step_numbers.tolist()) for sent in report.transfers(n)
        ):
            return
        view = show.exchange(report)
    else:
        view = VIEWS[name](report)
    scene = view.scene
    texts = [text for still in scene.stills for text in (still.label, still.note)]
    # whose seconds are no figures of the report
    sentence = scene.sentence.split(" of the host, measured")[0]
    texts += [
        re.sub(r"\d+ events?$", "", sentence),
        scene.title,
        *(cell for row in scene.table[1] for cell in row),
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


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", ["bsp", "timeline", "balance"])
def test_lanes_have_the_shares_of_the_phases(name: str, seed: int) -> None:
    report = chance(seed)
    scene = VIEWS[name](report).scene
    mark = next(
        m
        for m in scene.marks
        if isinstance(m, (Lanes, Tape)) and m.name in ("lanes", "tiles", "run")
    )
    firsts = [s for s in (scene.stills[i] for i in scene.frames.tolist()) if s.first]
    assert len(firsts) == report.num_steps
    for step, still in zip(report.steps(), firsts, strict=True):
        truth: dict[str, float] = {}
        for phase in report.phases(step.step):
            busy = float(busy_of(phase, report.target.num_tiles).mean())
            for kind, cycles in ((phase.kind, busy), ("waiting", phase.cycles - busy)):
                truth[kind] = truth.get(kind, 0) + cycles / step.cycles
        drawn = shares_of(scene, still.lanes[mark.name][0], mark.count)
        for kind in {*truth, *drawn}:
            assert drawn.get(kind, 0) == pytest.approx(truth.get(kind, 0), abs=3 / step.cycles), (
                kind
            )


@pytest.mark.parametrize("seed", SEEDS)
def test_the_matrix_has_the_bytes_of_the_messages(seed: int) -> None:
    report = chance(seed)
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


@pytest.mark.parametrize("seed", SEEDS)
def test_blocks_last_as_long_as_the_reports(seed: int) -> None:
    report = chance(seed)
    flame = VIEWS["blocks"](report).scene.marks[0]
    assert isinstance(flame, Flame) and flame.timed
    drawn = sorted(
        (flame.names[int(t)], round(float(b - a)))
        for t, a, b in zip(flame.title, flame.first, flame.last, strict=True)
    )
    assert [d for d in drawn if d[0] == "the loop"] == sorted(
        (b.name, round(b.cycles)) for b in report.execution.blocks(0) if b.name == "the loop"
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_curves_stacks_cells_and_trees_have_the_reports_bytes_and_cycles(seed: int) -> None:
    report = chance(seed)
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
    histograms = [still.about["histogram"][1]["n"] for still in waits.stills]
    assert histograms and all(many.sum() == report.target.num_tiles for many in histograms)
