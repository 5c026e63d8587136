"""Check the laws of the cost model on a random program and a random machine.

* One IPU takes the sum of its steps. Cycles are integers and not negative.
* The parts of each tile's time are not negative and add up to the total, at other rates, too.
* Additional work or a slower rate never makes a step faster.
* Merging copies changes no value.
* No tile holds more than the bound by which programs are accepted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
from engine_parts import peek
from graphs import Space, View, add, random_copy, random_superstep

from ipu_teach import BOOL, FLOAT, HALF, INT, Device, Engine, IPUModel, Report, compile_graph
from ipu_teach.cost import CostModel, StepCost
from ipu_teach.cost.ledger import at_most
from ipu_teach.program import Copy, Execute, Program, Repeat, Sequence

QUICK: dict[str, Any] = {
    "exchange_bytes_per_cycle": 16,
    "host_bytes_per_second": 50e9,
    "link_bytes_per_cycle": 1e6,
    "rail_bytes_per_cycle": 1e6,
    "memcpy_bytes_per_cycle": 32,
    "min_ipu_sync_delay": 0,
    "auto_sync_delay": 0,
    "relative_sync_delay": "NO_DELAY",
    "global_sync_cycles": 0,
    "exchange_latency_cycles": 0,
    "exchange_cycles_per_row": 0,
    "exchange_setup_instructions": 0,
    "shared_bus_speedup": 4,
    "data_path_width": 256,
    "global_sync_seconds_per_hop": 0.0,
    "sync_pattern": "SINGLE_PIPELINE",
}
LINK_RATES = ("host_bytes_per_second", "streaming_bytes_per_second")
LARGE = {  # each makes one part of a tile's memory its largest
    "data_path_width": 10**7,
    "worker_stack_bytes": 10**6,
    "supervisor_stack_bytes": 10**6,
    "pointer_bytes": 10**6,
    "vertex_code_bytes": 10**6,
    "instruction_bytes": 10**6,
    "control_code_bytes_per_step": 10**7,
    "host_packet_bytes": 1,
    "host_packet_header_bytes": 10**6,
    "exchange_setup_instructions": 10**6,
    "exchange_send_words": 1,
}


def some_machine(rng: Random) -> Device:
    """Return one to three IPUs of up to 24 tiles, with random columns and random rates."""
    tiles = rng.choice([1, 2, 3, 5, 8, 24])
    return IPUModel(
        rng.choice(["ipu1", "ipu2"]),
        tiles_per_ipu=tiles,
        io_tiles=rng.choice([0, 0, rng.randrange(tiles)]),
        num_ipus=rng.choice([1, 1, 1, 2, 3]),
        num_worker_contexts=rng.choice([6, 6, 1, 4]),
        exchange_rows=rng.randint(1, 5),
        exchange_bytes_per_cycle=rng.choice([4, 4, 1, 2, 8]),
        exchange_setup_instructions=rng.choice([3, 3, 0, 7]),
        auto_sync_delay=rng.randrange(200),
        relative_sync_delay=rng.choice(["AUTO", "NO_DELAY"]),
        codelet_prices=rng.choice(["compiled", "by hand"]),
        sync_pattern=rng.choice(["FULL", "FULL", "SINGLE_PIPELINE"]),
    ).create_device()


def broken(seed: int) -> Iterator[str]:
    """Yield the laws that do not hold, in words."""
    rng = Random(seed)
    space = Space(some_machine(rng), rng)
    for _ in range(rng.randint(1, 4)):
        space.variable(
            rng.choice([FLOAT, FLOAT, HALF, INT, BOOL]),
            [rng.choice([1, 2, 3, 5, 8, 13]) for _ in range(rng.randint(1, 3))],
        )
    sets = [random_superstep(rng, space, most=3) for _ in range(rng.randint(1, 2))]
    parts: list[Program] = [random_copy(rng, space)[0] for _ in range(rng.randrange(6))]
    for step in sets:
        parts.insert(rng.randrange(len(parts) + 1), Execute(step.compute_set))
    x, y = space.variable(FLOAT, (60,)), [space.variable(FLOAT, (60,)) for _ in range(3)]
    for number in range(rng.randrange(3)):
        buffer = space.graph.add_remote_buffer(f"rows{number}", FLOAT, 60)
        store, load = Copy(rng.choice(y).tensor, buffer), Copy(buffer, rng.choice(y).tensor)
        parts.insert(rng.randrange(len(parts) + 1), Sequence(store, load))
    pairs = [("a further vertex", *_without_last(space, step)) for step in sets]
    pairs += [("a longer message", *_longer(rng, x, y[0], step)) for step in (1, 2, 3)]
    pairs.append(("a further receiver", *_further_receiver(rng, x, y)))
    yield from _slower(space, pairs)
    yield from _ran(rng, space, parts)


def _slower(space: Space, pairs: list[tuple[str, Program, Program]]) -> Iterator[str]:
    """Yield the pairs in which the second program, which does more, is faster.

    Each program is one step.
    """
    executable = compile_graph(
        space.graph, [program for _, *pair in pairs for program in pair], strict=False
    )
    costs = [
        executable.cost.step(next(program.leaves()).step)
        for program in executable.compiled.programs
    ]
    for (what, *_), less, more in zip(pairs, costs[::2], costs[1::2], strict=True):
        for name in ("cycles", "exchange_duration", "global_exchange_cycles", "compute_duration"):
            if getattr(more, name) < getattr(less, name):
                yield f"{what}: {name} from {getattr(less, name)} to {getattr(more, name)}"


def _without_last(space: Space, step: Any) -> tuple[Program, Program]:
    fewer = space.graph.add_compute_set()
    for placed in step.vertices[:-1]:
        add(space, fewer, placed, placed.cycles)
    return Execute(fewer), Execute(step.compute_set)


def _longer(rng: Random, x: View, y: View, step: int) -> tuple[Program, Program]:
    # The longest one ends within the 60 elements.
    a, b, n = rng.randrange(6), rng.randrange(6), rng.randint(1, 15)
    both = (slice(a, a + step * size, step) for size in (n, n + rng.randint(1, 3)))
    return tuple(  # type: ignore[return-value]
        Copy(x[part].tensor, y[slice(b, b + part.stop - part.start, step)].tensor) for part in both
    )


def _further_receiver(rng: Random, x: View, y: list[View]) -> tuple[Program, Program]:
    part = slice(rng.randrange(10), rng.randint(11, 60))
    copies = [Copy(x[part].tensor, other[part].tensor) for other in y]
    count = rng.randint(1, len(y) - 1)
    return Sequence(*copies[:count]), Sequence(*copies[: count + 1])


def _ran(rng: Random, space: Space, parts: list[Program]) -> Iterator[str]:
    into = space.variable(FLOAT, (rng.randint(1, 9),))
    stream = space.graph.add_host_to_device_fifo("in", FLOAT, into.tensor.num_elements)
    results = space.graph.add_device_to_host_fifo("out", FLOAT, into.tensor.num_elements)
    transfers = [Copy(stream, into.tensor), Copy(into.tensor, results)]
    body = list(parts)
    for transfer in transfers[: rng.randrange(3)]:
        body.insert(rng.randrange(len(body) + 1), transfer)
    program = Sequence(parts[0], *transfers, Repeat(rng.randint(1, 3), Sequence(*body)))
    memories, reports = [], []
    for merge in (True, False):
        executable = compile_graph(space.graph, program, merge_copies=merge, strict=False)
        yield from _overfull(executable.cost)
        engine = Engine(executable)
        engine.load(space.device)
        engine.connect_stream("in", np.ones(into.tensor.num_elements, np.float32))
        engine.connect_stream("out", np.empty(into.tensor.num_elements, np.float32))
        engine.run()
        memories.append({name: peek(engine, name).tobytes() for name in space.variables})
        reports.append(engine.report)
    yield from (
        f"merging changes {name}" for name in memories[0] if memories[0][name] != memories[1][name]
    )
    for report in reports:
        yield from _sums(report)
        yield from laws(report)
        yield from _parts(report.what_if(**{rng.choice(LINK_RATES): 10.0 ** rng.randint(6, 13)}))
    name = rng.choice(sorted(QUICK))
    quick = _quicker(reports[0], name)
    yield from _parts(quick)
    if quick.total_cycles > reports[0].total_cycles:
        yield f"{name} of {QUICK[name]}: {reports[0].total_cycles} to {quick.total_cycles} in all"
    for before, after in zip(reports[0].steps(), quick.steps(), strict=True):
        if after.cycles > before.cycles:
            yield (
                f"{name} of {QUICK[name]} makes {before.name!r} slower: {before.cycles} to "
                f"{after.cycles}"
            )


def _overfull(cost: CostModel) -> Iterator[str]:
    for name, value in LARGE.items():
        other = cost.at(replace(cost.target, **{name: value}))
        held, bound = int(other.memory.held_per_tile.max()), at_most(other.compiled, other.target)
        if bound < held:
            yield f"{name} of {value}: {held} bytes on a tile, and {bound} at most"


def _quicker(report: Report, name: str) -> Report:
    now = getattr(report.target, name)
    return report.what_if(
        **{
            name: QUICK[name]
            if isinstance(now, str) or QUICK[name] < now
            else max(now, QUICK[name])
        }
    )


def laws(report: Report) -> Iterator[str]:
    """Yield the laws that a report breaks.

    Read from its file, it gives the same answers; and it is not faster if all IPUs wait for the
    transfers of one.
    """
    told = [report, report.what_if(), Report.deserialize(report.serialize())]
    if len({one.digest() for one in told}) > 1 or len({tuple(one.ipus) for one in told}) > 1:
        yield "what_if() or a file changes the report"
    full, alone = (report.what_if(sync_pattern=p) for p in ("FULL", "SINGLE_PIPELINE"))
    if alone.total_cycles > full.total_cycles:
        yield f"SINGLE_PIPELINE: {alone.total_cycles}, and FULL {full.total_cycles}"
    clocks = [(row.busy_cycles, row.waiting_cycles) for row in report.ipus]
    for rated in (*told, full, alone):
        yield from _parts(rated)
    if any(busy + waiting != report.overlap.total for busy, waiting in clocks):
        yield f"work and waiting are {clocks} in {report.overlap.total}"


def _parts(report: Report) -> Iterator[str]:
    """Yield what is wrong with the parts of each tile's time, their sum and the waiting time."""
    links = report.link_cycles_per_tile
    parts = {
        "compute": report.compute_cycles_per_tile,
        "exchange": report.exchange_cycles_per_tile,
        **links,
        "sync and waiting": report.sync_cycles_per_tile,
    }
    yield from (
        f"{name} takes {cycles.min()} cycles" for name, cycles in parts.items() if cycles.min() < 0
    )
    totals = set(np.sum(list(parts.values()), axis=0).tolist())
    if totals != {report.total_cycles}:
        yield f"the parts of a tile's time are {totals} in all, and the total {report.total_cycles}"
    if not report.num_steps:
        return
    total = report.total_cycles or 1
    waits = _waits_of(report)
    most = float(parts["sync and waiting"].mean())
    if not 0 <= waits <= most + 0.001 * total:
        yield f"why() finds {waits} cycles of waiting, of at most {most}"


def _waits_of(report: Report) -> float:
    """Return the cycles that a tile waits for others, as why() gives them in percent."""
    text = report.why("waiting").causes[0].text
    return float(text.partition(" %")[0]) / 100 * report.total_cycles


def _sums(report: Report) -> Iterator[str]:
    each = [step.cycles for step in report.steps()]
    low, high = (
        (sum(each), sum(each)) if report.target.num_sets == 1 else (max(each, default=0), sum(each))
    )
    if not low <= report.total_cycles <= high:
        yield f"a total of {report.total_cycles} for steps of {each}"
    for step in report.steps():
        yield from (
            f"{step.name!r} has {name} {value}"
            for name, value in _numbers(step.cost)
            if not _counts(value)
        )


def _numbers(cost: StepCost) -> Iterator[tuple[str, Any]]:
    for name in (
        "sync_cycles",
        "exchange_duration",
        "global_exchange_cycles",
        "compute_duration",
        "host_cycles",
        "cycles",
        "exchange_cycles",
        "compute_cycles",
        "active_cycles",
        "host_bytes",
    ):
        yield name, getattr(cost, name)
    for traffic in cost.exchange:
        yield from vars(traffic).items()


def _counts(value: Any) -> bool:
    array = np.asarray(value)
    return array.dtype.kind in "iu" and bool(np.all(array >= 0))
