"""Orders of work as plain lists: what a program does, layer by layer, before anybody builds it.

Beside `tiny`, which runs what it is told in the order in which it is told, this says which order to
tell it. A schedule is a list of steps; a loop over it builds the program, and checks and pictures
read the same list. So with a chain of layers that computes some of them again, and with a pipeline:
stages on IPUs of their own, each at work on another micro-batch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Annotated, Any, NamedTuple

import numpy as np

from ipu_teach.arguments import Between, check_calls
from ipu_teach.errors import ControlProgramError, InvalidOptionError, counted, shown
from ipu_teach.flags import flagged
from ipu_teach.graph import Graph, Tensor
from ipu_teach.graph.layouts import is_whole
from ipu_teach.graph.outline import bytes_by_tile
from ipu_teach.program import Copy, Execute, Program, Repeat, Sequence as Programs

FORWARD, RECOMPUTE, BACKWARD = "forward", "recompute", "backward"
MOST = 2**20  # layers, stages or micro-batches
LIMITS = f"1 to {MOST:,}"
SCHEDULES = GROUPED, INTERLEAVED, SEQUENTIAL = "grouped", "interleaved", "sequential"


def _misuse(problem: str, advice: str) -> InvalidOptionError:
    return InvalidOptionError(problem, next_step=advice)


class Step(NamedTuple):
    """Something that is done with a layer: `FORWARD`, `RECOMPUTE` or `BACKWARD`. A tuple of its
    kind and its layer, counted from 0."""

    kind: str
    layer: int


def recompute(layers: int, keep: Collection[int]) -> list[Step]:
    """A chain of so many layers, forward and backward, where only the inputs of the layers in
    `keep` are kept.

    A layer's backward needs its input. The input of layer 0 is there whatever `keep` says. All
    others that are not kept are computed again, each once, from the last kept one before it, just
    before their backward; those after the last kept one are alive still. So a chain of L equal
    layers of which every k-th is kept holds L / k + k - 1 inputs at most, and computes
    (L / k - 1) (k - 1) layers again.

        for kind, layer in recompute(16, keep=range(0, 16, 4)):
            ...

    Raises `InvalidOptionError` for a number in the place of `keep`, for an empty one, and for a
    layer that there is not.
    """
    if not is_whole(layers) or not 1 <= layers <= MOST:
        raise InvalidOptionError(f"""recompute() was given {shown(layers)} layers.
            next:  give how many there are, a whole number of {LIMITS}.""")
    is_array = isinstance(keep, np.ndarray) and not keep.ndim
    if not isinstance(keep, Collection) or isinstance(keep, (str, bytes)) or is_array:
        every = keep if is_whole(keep) and 1 <= keep <= layers else 2
        raise InvalidOptionError(f"""recompute() was given keep={shown(keep)}, which names no
            layers.
            next:  list those whose inputs are kept; one in {every} is keep=range(0, {layers},
            {every}).""")
    if not len(keep):
        raise InvalidOptionError(f"""recompute() was given an empty keep. The input of layer 0 is
            always there.
            next:  keep=[0] keeps nothing else; keep=range({layers}) keeps all of them.""")
    for layer in keep:
        if not is_whole(layer) or not 0 <= layer < layers:
            raise InvalidOptionError(f"""recompute() was told to keep the input of layer
                {shown(layer)}, and there {"is" if layers == 1 else "are"}
                {counted(layers, "layer")}.
                next:  name layers from 0 to {layers - 1}.""")
    steps = [Step(FORWARD, layer) for layer in range(layers)]
    starts = sorted({0, *map(int, keep)})
    for start, end in reversed(list(zip(starts, [*starts[1:], layers], strict=True))):
        if end < layers:
            steps += [Step(RECOMPUTE, layer) for layer in range(start, end - 1)]
        steps += [Step(BACKWARD, layer) for layer in reversed(range(start, end))]
    return steps


class Work(NamedTuple):
    """What a stage of a pipeline does in a tick: `FORWARD` or `BACKWARD`, which stage, and with
    which micro-batch, both counted from 0."""

    kind: str
    stage: int
    micro_batch: int


Ticks = list[list[Work]]
Given = Iterable[Iterable[tuple[str, int, int]]]


@flagged
def pipeline_schedule(
    stages: int, micro_batches: int, schedule: str = GROUPED, training: bool = True
) -> Ticks:
    """Who does what when: a list of ticks, each the `Work` of the stages that are busy in it.

    - "grouped": all stages go forward, then all go backward, by turns.
    - "interleaved": a stage goes backward as soon as it can, while others go forward. It stores
      half as much, and a tick lasts as long as a backward more often.
    - "sequential": one stage at a time, to find out what is wrong.

    The names are those of Graphcore's `PipelineSchedule` (graphcore/tensorflow). Without `training`
    there is nothing but forwards: micro-batch b is in stage s in tick b + s.

    Raises `InvalidOptionError` for numbers that are none, another schedule, and fewer micro-batches
    than a pipeline wants to fill: one a stage (PopTorch, deviceIterations), and two where it trains
    (popxl-addons, transforms/pipelining.py). "sequential" fills nothing, and takes any number.
    """
    for many, what in ((stages, "stages"), (micro_batches, "micro-batches")):
        if not is_whole(many) or not 1 <= many <= MOST:
            raise InvalidOptionError(f"""pipeline_schedule() was given {shown(many)} {what}.
                next:  give how many there are, a whole number of {LIMITS}.""")
    if not isinstance(schedule, str) or schedule not in SCHEDULES:
        raise InvalidOptionError(f"""pipeline_schedule() was given the schedule {shown(schedule)}.
            next:  use {" or ".join(map(repr, SCHEDULES))}.""")
    least, rule = (
        (2 * stages, "two a stage where it trains (popxl-addons, transforms/pipelining.py)")
        if training
        else (stages, "one a stage (PopTorch, deviceIterations)")
    )
    if schedule != SEQUENTIAL and micro_batches < least:
        raise InvalidOptionError(f"""pipeline_schedule() was given
            {counted(micro_batches, "micro-batch", "micro-batches")} for
            {counted(stages, "stage")}. A pipeline wants {rule}.
            next:  give {least} or more; {SEQUENTIAL!r} takes any number.""")
    if schedule == SEQUENTIAL:
        way = [(FORWARD, s) for s in range(stages)]
        way += [(BACKWARD, s) for s in reversed(range(stages))] if training else []
        return [[Work(kind, s, b)] for b in range(micro_batches) for kind, s in way]
    if training and schedule == INTERLEAVED:
        return list(_interleaved(stages, micro_batches))
    ticks = []
    last = 2 * (stages - 1) if training else stages - 1
    for t in range(micro_batches + last):
        begun = ((s, t - s) for s in range(stages))
        ticks.append([Work(FORWARD, s, b) for s, b in begun if 0 <= b < micro_batches])
        back = ((s, t - last + s) for s in range(stages if training else 0))
        ticks.append([Work(BACKWARD, s, b) for s, b in back if 0 <= b < micro_batches])
    return [now for now in ticks if now]


def _interleaved(stages: int, micro_batches: int) -> Iterator[list[Work]]:
    """A stage goes backward if it can, and else forward, as long as it holds no more than there are
    stages from it on."""
    done: set[Work] = set()
    forward, backward = [0] * stages, [0] * stages
    while backward[0] < micro_batches:
        now = []
        for s, (f, b) in enumerate(zip(forward, backward, strict=True)):
            from_next = s == stages - 1 or Work(BACKWARD, s + 1, b) in done
            if Work(FORWARD, s, b) in done and from_next:
                now.append(Work(BACKWARD, s, b))
            elif f < min(micro_batches, b + stages - s) and (
                s == 0 or Work(FORWARD, s - 1, f) in done
            ):
                now.append(Work(FORWARD, s, f))
        for kind, s, _ in now:
            (forward if kind == FORWARD else backward)[s] += 1
        done.update(now)
        yield now


def stash(ticks: Given, stages: Annotated[int, Between(1, MOST)]) -> list[int]:
    """How many micro-batches each stage holds at most from their forward to their backward, the one
    at work included.

    Those that it stores besides are 2 (stages - 1 - s) for stage s of a grouped schedule, half as
    many of an interleaved one, and none of a sequential one (graphcore/tensorflow,
    pipeline_util.cc). A forward that no backward follows is not stored.
    """
    every = [[Work(*one) for one in now] for now in ticks]
    back = {(s, b) for now in every for kind, s, b in now if kind == BACKWARD}
    for _, s, _ in (work for now in every for work in now):
        if not 0 <= s < stages:
            raise InvalidOptionError(f"""stash() was given {counted(stages, "stage")}, and ticks of
                stage {s}.
                next:  give the number of stages that the ticks were made for.""")
    held, most = [0] * stages, [0] * stages
    for now in every:
        for kind, s, b in now:
            if kind == FORWARD:
                most[s] = max(most[s], held[s] + 1)
                held[s] += (s, b) in back
        for kind, s, _ in now:
            held[s] -= kind == BACKWARD
    return most


@dataclass(frozen=True, eq=False)
class Stage:
    """A stage of a pipeline, on an IPU of its own.

    `forward`: a program that reads `into` and leaves `out`. To train also `backward`, which reads
    `grad_out`, the gradient of `out`, and leaves `grad_into`, that of `into`; of what the forward
    had or made, it may read the tensors in `keep`. The first stage takes its data from where it
    likes and needs no `into`, the last one no `out`. The same program serves all micro-batches.
    """

    forward: Program
    into: Tensor | None = None
    out: Tensor | None = None
    backward: Program | None = None
    grad_out: Tensor | None = None
    grad_into: Tensor | None = None
    keep: Sequence[Tensor] = ()


def pipeline(
    graph: Graph,
    stages: Sequence[Stage],
    ticks: Given,
    name: str = "pipeline",
) -> Programs:
    """A program that does what `ticks` says: in each tick the programs of the stages in it, and
    then one exchange of all that moves on.

    What a backward reads of its forward is stored meanwhile, as often as `stash` says. Ticks that
    are alike and follow each other are a Repeat. Any schedule gives the same bits, as long as a
    stage takes its micro-batches in order.

    Raises `InvalidOptionError` for a stage without work, or on an IPU of another's; and
    `ControlProgramError` for a tick in which a stage lacks what it reads, or would lose it.
    """
    every = [[Work(*one) for one in now] for now in ticks]
    _check_stages(graph, stages, any(w.kind == BACKWARD for now in every for w in now))
    for kind, s, _ in (work for now in every for work in now):
        if kind not in (FORWARD, BACKWARD) or s not in range(len(stages)):
            raise InvalidOptionError(f"""pipeline() was told to take stage {shown(s)} {shown(kind)}.
                next:  there are {counted(len(stages), "stage")}, from 0; they go {FORWARD!r} and
                {BACKWARD!r}.""")
    slots: list[list[list[Tensor]]] = [  # what one micro-batch at a time keeps stays where it is
        [[graph.clone(kept, f"{name}/stored{s}") for kept in stages[s].keep] for _ in range(many)]
        if many > 1
        else [[]]
        for s, many in enumerate(stash(every, len(stages)))
    ]
    # what arrives must not take the place of an input that is still wanted
    lands = [
        graph.clone(stage.into, f"{name}/arrives{s}")
        if s and stage.into is not None and any(stage.into is kept for kept in stage.keep)
        else stage.into
        for s, stage in enumerate(stages)
    ]
    made: dict[tuple[tuple[str, int, int], ...], Programs] = {}
    rows = []
    for key in _in_slots(every, [len(some) for some in slots]):
        if key not in made:
            made[key] = _tick(stages, slots, lands, key)
        rows.append(made[key])
    whole = Programs(name=name)
    for tick, same in groupby(rows):
        whole.add(tick if (count := len(list(same))) == 1 else Repeat(count, tick))
    return whole


def _tick(
    stages: Sequence[Stage],
    slots: list[list[list[Tensor]]],
    lands: list[Any],
    key: Iterable[tuple[str, int, int]],
) -> Programs:
    """What was stored comes back, the programs run, what they leave is stored, and moves on."""
    back: list[Program] = []
    work: list[Program] = []
    stored: list[Program] = []
    moves: list[tuple[Any, Any]] = []  # the ends that _check_stages has asked for
    for kind, s, slot in key:
        stage, kept = stages[s], list(zip(stages[s].keep, slots[s][slot], strict=False))
        if kind == FORWARD:
            if stage.into is not None and stage.into is not lands[s]:
                back.append(Copy(lands[s], stage.into))
            work.append(stage.forward)
            stored += [Copy(tensor, into) for tensor, into in kept]
            moves += [(stage.out, lands[s + 1])] if s + 1 < len(stages) else []
        else:
            back += [Copy(source, tensor) for tensor, source in kept]
            work += [stage.backward] if stage.backward else []
            moves += [(stage.grad_into, stages[s - 1].grad_out)] if s else []
    # Side by side: what stays on an IPU first, and then one exchange between all of them.
    return Programs(back, work, stored, [Copy(a, b) for a, b in moves])


def _in_slots(
    every: list[list[Work]], slots: list[int]
) -> Iterator[tuple[tuple[str, int, int], ...]]:
    """For each tick its (kind, stage, slot of what is kept). Raises `ControlProgramError`."""
    free, last = [list(range(many)) for many in slots], len(slots) - 1
    slot_of: dict[tuple[int, int], int] = {}
    come: dict[tuple[str, int], int] = {}  # the micro-batch in a stage's `into` or `grad_out`
    for t, now in enumerate(every):
        used: dict[int, tuple[str, int, int]] = {}
        for work in now:
            kind, s, b = work
            has = come.pop((kind, s), None)
            if s in used:
                raise _no_tick(t, work, "it has something else to do in that tick")
            if s != (0 if kind == FORWARD else last) and has != b:
                what = "no micro-batch" if has is None else f"micro-batch {has}"
                raise _no_tick(t, work, f"{what} has come there")
            if kind == FORWARD:
                slot_of[s, b] = free[s].pop(0) if free[s] else 0
            elif (s, b) not in slot_of:
                raise _no_tick(t, work, "it has not gone forward with that one")
            used[s] = (kind, s, slot_of[s, b])
        for work in now:
            kind, s, b = work
            to = (kind, s + (1 if kind == FORWARD else -1))
            if to in come:
                raise _no_tick(t, work, f"stage {to[1]} has micro-batch {come[to]} still to read")
            if 0 <= to[1] <= last:
                come[to] = b
            if kind == BACKWARD:
                free[s].insert(0, slot_of.pop((s, b)))
        yield tuple(used.values())


def _no_tick(t: int, work: Work, why: str) -> ControlProgramError:
    kind, s, b = work
    return ControlProgramError(f"""Tick {t} takes stage {s} {kind} with micro-batch {b}, and {why}.
        next:  in the ticks of schedules.pipeline_schedule all have what they need.""")


def _check_stages(graph: Graph, stages: Sequence[Stage], training: bool) -> None:
    """Raise `InvalidOptionError` unless each stage has its programs, its tensors and its IPUs."""
    if not isinstance(stages, Sequence) or not all(isinstance(one, Stage) for one in stages):
        raise InvalidOptionError(f"""pipeline() was given {shown(stages)} as its stages.
            next:  give a list of schedules.Stage.""")
    of_ipu: dict[int, int] = {}
    each = graph.get_top_level_graph().target.tiles_per_ipu
    for s, stage in enumerate(stages):
        wanted = ["into"] * (s > 0) + ["out"] * (s + 1 < len(stages))
        for name in [*wanted, *(f"grad_{name}" for name in wanted if training)]:
            if not isinstance(getattr(stage, name), Tensor):
                raise InvalidOptionError(f"""Stage {s} of {len(stages)} has no tensor `{name}`.
                    next:  Stage(forward, into, out), and to train backward, grad_out and
                    grad_into, too.""")
        for name in ("forward", "backward") if training else ("forward",):
            tiles = set(_tiles(getattr(stage, name)))
            if not tiles:
                raise InvalidOptionError(f"""Stage {s} of {len(stages)} has no work to do {name}.
                    next:  give it a program that does something, or make fewer stages.""")
            for ipu in sorted({tile // each for tile in tiles if tile >= 0}):
                if of_ipu.setdefault(ipu, s) != s:
                    raise InvalidOptionError(f"""Stage {s} works on IPU {ipu}, which is the one of
                        stage {of_ipu[ipu]}.
                        next:  build each stage on IPUs of its own: graph.create_virtual_graph({s} *
                        tiles, {s + 1} * tiles).""")


def _tiles(program: Program | None) -> Iterator[int]:
    """The tiles on which a program has vertices, or tensors that are copied; -1 for other work."""
    if isinstance(program, Execute):
        for table in program.compute_set.tables.values():
            yield from table.tiles
    elif isinstance(program, Copy):
        for side in (program.source, program.destination):
            yield from bytes_by_tile(side)[0].tolist() if isinstance(side, Tensor) else [-1]
    elif program is not None and program.children():
        for child in program.children():
            yield from _tiles(child)
    elif program is not None and not isinstance(program, Programs):
        yield -1


check_calls(globals(), _misuse, without=("pipeline_schedule", "recompute"))
