"""Schedules: the order of work as a plain list, from which a program is built.

A program is built by a loop over the list, and checks and pictures read the same list. There are
two kinds of schedule:

- `recompute` is for a chain of layers that recomputes some activations instead of keeping them;
- `pipeline_schedule` is for a pipeline, whose stages are on different IPUs and work on different
  micro-batches at the same time. `pipeline` builds the program of such a schedule.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Annotated, NamedTuple

import numpy as np

from ipu_teach._support.flags import flagged
from ipu_teach.arguments import Between, check_calls
from ipu_teach.errors import ControlProgramError, InvalidOptionError, counted, shown
from ipu_teach.graph import Graph, Tensor, concat
from ipu_teach.graph.layouts import is_whole
from ipu_teach.graph.outline import bytes_by_tile
from ipu_teach.graph.tile_map import joined
from ipu_teach.program import Copy, Execute, Program, Repeat, Sequence as Programs

FORWARD, RECOMPUTE, BACKWARD = "forward", "recompute", "backward"
MOST = 2**20  # layers, stages or micro-batches
LIMITS = f"1 to {MOST:,}"
SCHEDULES = GROUPED, INTERLEAVED, SEQUENTIAL = "grouped", "interleaved", "sequential"


def _misuse(problem: str, advice: str) -> InvalidOptionError:
    return InvalidOptionError(problem, next_step=advice)


class Step(NamedTuple):
    """A step of a schedule for layers: a tuple of its kind and its layer, counted from 0.

    The kind is `FORWARD`, `RECOMPUTE` or `BACKWARD`.
    """

    kind: str
    layer: int


def recompute(layers: int, keep: Collection[int]) -> list[Step]:
    """Return the steps of a chain of layers that keeps only the inputs of the layers in `keep`.

    The backward pass of a layer needs the layer's input. The input of layer 0 is always available.
    An input that is not kept is recomputed once, from the nearest kept input before it, just before
    the backward passes that need it. The inputs after the last kept one are still in memory when
    the backward pass begins, and are not recomputed. A chain of L equal layers that keeps every
    k-th input holds at most L / k + k - 1 inputs, and recomputes (L / k - 1) (k - 1) layers.

        for kind, layer in recompute(16, keep=range(0, 16, 4)):
            ...

    Raises `InvalidOptionError` if `keep` is a number, is empty, or names a layer that does not
    exist.
    """
    if not is_whole(layers) or not 1 <= layers <= MOST:
        raise InvalidOptionError(f"""recompute() was given {shown(layers)} layers.
            next:  give their number, a whole number of {LIMITS}.""")
    is_array = isinstance(keep, np.ndarray) and not keep.ndim
    if not isinstance(keep, Collection) or isinstance(keep, (str, bytes)) or is_array:
        every = keep if is_whole(keep) and 1 <= keep <= layers else 2
        raise InvalidOptionError(f"""recompute() was given keep={shown(keep)}, which names no
            layers.
            next:  list those whose inputs are kept; one in {every} is keep=range(0, {layers},
            {every}).""")
    if not len(keep):
        raise InvalidOptionError(f"""recompute() was given an empty keep, but the input of layer
            0 is always kept.
            next:  write keep=[0] for that input alone, or keep=range({layers}) for all inputs.""")
    for layer in keep:
        if not is_whole(layer) or not 0 <= layer < layers:
            raise InvalidOptionError(f"""recompute() was given layer {shown(layer)} to
                keep, but there {"is" if layers == 1 else "are"}
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
    """The work of a stage in one tick: a tuple of its kind, its stage and its micro-batch.

    The kind is `FORWARD` or `BACKWARD`. Stages and micro-batches are counted from 0.
    """

    kind: str
    stage: int
    micro_batch: int


Ticks = list[list[Work]]
Given = Iterable[Iterable[tuple[str, int, int]]]


@flagged
def pipeline_schedule(
    stages: int, micro_batches: int, schedule: str = GROUPED, training: bool = True
) -> Ticks:
    """Return the ticks of a pipeline: for each tick, the list of the `Work` of its busy stages.

    - "grouped": ticks in which all busy stages run forward alternate with ticks in which all of
      them run backward.
    - "interleaved": a stage runs backward as soon as it can, while others run forward. It stores
      half as many micro-batches as "grouped", and more ticks last as long as a backward pass.
    - "sequential": only one stage works at a time, which helps to find errors.

    The names are those of Graphcore's `PipelineSchedule` (graphcore/tensorflow). Without `training`
    there are only forward passes: stage s works on micro-batch b in tick b + s.

    Raises `InvalidOptionError` if a number is not a positive integer, if the schedule is unknown,
    or if there are too few micro-batches to fill the pipeline. A pipeline needs one micro-batch for
    each stage (PopTorch, deviceIterations), or two to train (popxl-addons,
    transforms/pipelining.py). "sequential" accepts any number.
    """
    for many, noun in ((stages, "stages"), (micro_batches, "micro-batches")):
        if not is_whole(many) or not 1 <= many <= MOST:
            raise InvalidOptionError(f"""pipeline_schedule() was given {shown(many)} {noun}.
                next:  give their number, a whole number of {LIMITS}.""")
    if not isinstance(schedule, str) or schedule not in SCHEDULES:
        raise InvalidOptionError(f"""pipeline_schedule() was given the schedule {shown(schedule)}.
            next:  use {" or ".join(map(repr, SCHEDULES))}.""")
    minimum, rule = (
        (2 * stages, "two a stage where it trains (popxl-addons, transforms/pipelining.py)")
        if training
        else (stages, "one a stage (PopTorch, deviceIterations)")
    )
    if schedule != SEQUENTIAL and micro_batches < minimum:
        raise InvalidOptionError(f"""pipeline_schedule() was given
            {counted(micro_batches, "micro-batch", "micro-batches")} for
            {counted(stages, "stage")}. A pipeline needs {rule}.
            next:  give {minimum} or more; {SEQUENTIAL!r} takes any number.""")
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
    """Yield the ticks of the interleaved schedule.

    A stage runs backward if it can. Else it runs forward, as long as it stores at most as many
    micro-batches as there are stages from it to the last one.
    """
    done: set[Work] = set()
    forward = [0] * stages
    backward = [0] * stages
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
    """Return, for each stage, the largest number of micro-batches that it stores at once.

    A stage stores a micro-batch from its forward pass to its backward pass; the one that it works
    on counts too. Besides that one, stage s stores 2 (stages - 1 - s) micro-batches in a grouped
    schedule, half as many in an interleaved one, and none in a sequential one
    (graphcore/tensorflow, pipeline_util.cc). A forward pass without a backward pass is not stored.
    Raises `InvalidOptionError` if the ticks have a stage beyond `stages`.
    """
    every = [[Work(*entry) for entry in now] for now in ticks]
    back = {(s, b) for now in every for kind, s, b in now if kind == BACKWARD}
    for _, s, _ in (work for now in every for work in now):
        if not 0 <= s < stages:
            raise InvalidOptionError(f"""stash() was given {counted(stages, "stage")}, but
                ticks of stage {s}.
                next:  give the number of stages that the ticks were made for.""")
    in_flight = [0] * stages
    peak = [0] * stages
    for now in every:
        for kind, s, b in now:
            if kind == FORWARD:
                peak[s] = max(peak[s], in_flight[s] + 1)
                in_flight[s] += (s, b) in back
        for kind, s, _ in now:
            in_flight[s] -= kind == BACKWARD
    return peak


@dataclass(frozen=True, eq=False)
class Stage:
    """A stage of a pipeline, on IPUs that no other stage uses.

    `forward` is a program that reads `into` and writes its result to `out`. To train, `backward`
    reads `grad_out`, the gradient of `out`, and writes `grad_into`, the gradient of `into`. It
    may read only those tensors of the forward pass that are in `keep`. The same programs run for
    all micro-batches.

    Some fields may be left out:

    - `into` of the first stage, which may get its data from anywhere, and `out` of the last one;
    - `grad_into` of a stage if no stage before it is trained, and `grad_out` of the stage before;
    - `backward` of a stage that trains nothing and passes no gradient on.

    If `out` is a view of `into`, `forward` need not do any work.
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
    """Build the program of `ticks`: in each tick the programs of the stages, then one exchange.

    All results of a tick move to the next stages at once, even if one result arrives in memory that
    another one leaves. The tensors in `keep` are stored from the forward to the backward pass of a
    micro-batch, in as many copies as `stash` returns. Equal ticks in a row become a Repeat. All
    schedules give the same bits if each stage processes its micro-batches in order and the stages
    share no memory.

    Raises `InvalidOptionError` for a stage without work, on an IPU of another stage, or with a
    gradient that arrives in a tensor of `keep`. Raises `ControlProgramError` for a tick in which
    the input of a stage is missing, or would be overwritten before it is read.
    """
    every = [[Work(*entry) for entry in now] for now in ticks]
    is_training = any(work.kind == BACKWARD for now in every for work in now)
    _check_stages(graph, stages, is_training)
    for kind, s, _ in (work for now in every for work in now):
        if kind not in (FORWARD, BACKWARD) or s not in range(len(stages)):
            raise InvalidOptionError(f"""pipeline() was given the step {shown(kind)} of stage
                {shown(s)}.
                next:  there are {counted(len(stages), "stage")}, from 0; their steps are
                {FORWARD!r} and {BACKWARD!r}.""")
    # a stage that stores only one micro-batch needs no copies: its tensors keep their values
    slots: list[list[list[Tensor]]] = [
        [
            [graph.clone(tensor, f"{name}/stored{s}") for tensor in stages[s].keep]
            for _ in range(many)
        ]
        if many > 1
        else [[]]
        for s, many in enumerate(stash(every, len(stages)))
    ]
    builder = _Ticks(graph, stages, slots, is_training=is_training, name=name)
    by_tick: dict[tuple[tuple[str, int, int], ...], Programs] = {}
    rows = []
    for key in _in_slots(every, [len(slots_of_stage) for slots_of_stage in slots]):
        if key not in by_tick:
            by_tick[key] = builder.tick(key)
        rows.append(by_tick[key])
    all_programs = Programs(name=name)
    for tick, same in groupby(rows):
        all_programs.add(tick if (count := len(list(same))) == 1 else Repeat(count, tick))
    return all_programs


class _Ticks:
    """A builder of the programs of ticks, and of the variables that their copies need."""

    def __init__(
        self,
        graph: Graph,
        stages: Sequence[Stage],
        slots: list[list[list[Tensor]]],
        is_training: bool,
        name: str,
    ) -> None:
        self.graph = graph
        self.stages = stages
        self.slots = slots
        self.name = name
        self._departures: dict[tuple[str, int], tuple[Copy, Tensor]] = {}
        # The tensors in which each input and each gradient arrive. They are separate variables if
        # the stage may write into the memory of `into` or `grad_out` before it reads the arrived
        # data.
        self.into = [stage.into for stage in stages]
        self.grad_out = [stage.grad_out for stage in stages]
        for s, stage in enumerate(stages if is_training else ()):
            used = (*stage.keep, stage.grad_out, stage.grad_into)
            if s and stage.into is not None and _shares_memory(stage.into, used):
                self.into[s] = graph.clone(stage.into, f"{name}/arrives{s}")
            used = (stage.into, stage.out)
            last = s + 1 == len(stages)
            if not last and stage.grad_out is not None and _shares_memory(stage.grad_out, used):
                self.grad_out[s] = graph.clone(stage.grad_out, f"{name}/gradient{s}")

    def tick(self, key: Iterable[tuple[str, int, int]]) -> Programs:
        """Return the program of a tick: restore tensors, run the stages, store, copy results.

        `key` has (kind, stage, slot of the stored tensors) for each busy stage; see `_in_slots`.
        """
        back: list[Program] = []
        work: list[Program] = []
        stored: list[Program] = []
        moves: dict[tuple[str, int], tuple[Tensor, Tensor]] = {}
        for kind, s, slot in key:
            stage = self.stages[s]
            stored_pairs = list(
                zip(stage.keep, self.slots[s][slot] if slot >= 0 else [], strict=False)
            )
            if kind == FORWARD:
                back += _brought(self.into[s], stage.into)
                work.append(stage.forward)
                stored += [Copy(tensor, into) for tensor, into in stored_pairs]
            else:
                back += [Copy(source, tensor) for tensor, source in stored_pairs]
                back += _brought(self.grad_out[s], stage.grad_out)
                work += [stage.backward] if stage.backward else []
            if (ends := self._ends(kind, s)) is not None:
                moves[kind, s] = ends
        copies: list[Program] = []
        for (kind, s), (source, place) in moves.items():
            others = [ends[1] for move, ends in moves.items() if move != (kind, s)]
            if _shares_memory(source, others):
                save, source = self._departure(kind, s, source)
                stored.append(save)
            copies.append(Copy(source, place))
        # the copies within an IPU come first, so that one exchange between all IPUs follows
        return Programs(back, work, stored, copies)

    def _ends(self, kind: str, s: int) -> tuple[Tensor, Tensor] | None:
        """Return the (source, destination) of the copy of a stage's result; None without one."""
        to = s + 1 if kind == FORWARD else s - 1
        if to not in range(len(self.stages)):
            return None
        stage = self.stages[s]
        source = stage.out if kind == FORWARD else stage.grad_into
        place = self.into[to] if kind == FORWARD else self.grad_out[to]
        return None if source is None or place is None else (source, place)

    def _departure(self, kind: str, s: int, source: Tensor) -> tuple[Copy, Tensor]:
        """Return a copy that saves the part of a result that arriving data would overwrite.

        The second value is the flat result, in which the saved elements replace that part. Without
        this copy, the copies of a tick would conflict, and each would need its own exchange.
        """
        if (kind, s) not in self._departures:
            ends = {
                (way, t): self._ends(way, t)
                for way in (FORWARD, BACKWARD)
                for t in range(len(self.stages))
            }
            places = [both[1] for move, both in ends.items() if both and move != (kind, s)]
            pieces, is_shared = _pieces(source.flatten(), places)
            shared = [piece for piece, shares in zip(pieces, is_shared, strict=True) if shares]
            leaving = concat(shared)
            saved = self.graph.clone(leaving, f"{self.name}/leaves{s}")
            begin = 0
            for i, piece in enumerate(pieces):
                if is_shared[i]:
                    pieces[i] = saved[begin : begin + piece.num_elements]
                    begin += piece.num_elements
            self._departures[kind, s] = Copy(leaving, saved), concat(pieces)
        return self._departures[kind, s]


def _brought(arrival: Tensor | None, read: Tensor | None) -> list[Program]:
    """Return a copy into the tensor that a stage reads, or [] if its data arrived there."""
    return [] if arrival is None or read is None or arrival is read else [Copy(arrival, read)]


def _shares_memory(tensor: Tensor, tensors: Iterable[Tensor | None]) -> bool:
    return any(peer is not None and tensor.intersects_with(peer) for peer in tensors)


def _pieces(tensor: Tensor, places: Sequence[Tensor]) -> tuple[list[Tensor], list[bool]]:
    """Return the pieces of a flat tensor, and whether each shares memory with one of `places`."""
    start, stop = joined(*map(np.concatenate, zip(*(t.byte_extent() for t in places), strict=True)))
    low = tensor.positions() * tensor.dtype.size
    high = low + tensor.dtype.size
    is_shared = np.searchsorted(start, high, "left") > np.searchsorted(stop, low, "right")
    cuts = [0, *(np.flatnonzero(np.diff(is_shared)) + 1).tolist(), tensor.num_elements]
    pairs = list(zip(cuts, cuts[1:], strict=False))
    return [tensor[i:j] for i, j in pairs], [bool(is_shared[i]) for i, _ in pairs]


def _in_slots(
    every: list[list[Work]], slots: list[int]
) -> Iterator[tuple[tuple[str, int, int], ...]]:
    """Yield (kind, stage, slot of the stored tensors) for the work of each tick.

    `slots` is the number of slots of each stage. The slot is -1 for a forward pass without a
    backward pass, which stores nothing. Raises `ControlProgramError`.
    """
    free = [list(range(many)) for many in slots]
    last = len(slots) - 1
    slot_of: dict[tuple[int, int], int] = {}
    back = {(s, b) for now in every for kind, s, b in now if kind == BACKWARD}
    # the micro-batch that waits in a stage's `into` or `grad_out`
    come: dict[tuple[str, int], int] = {}
    for t, now in enumerate(every):
        used: dict[int, tuple[str, int, int]] = {}
        for work in now:
            kind, s, b = work
            has = come.pop((kind, s), None)
            if s in used:
                raise _no_tick(t, work, "the stage has another step in that tick")
            if s != (0 if kind == FORWARD else last) and has != b:
                subject = "no micro-batch" if has is None else f"micro-batch {has}"
                raise _no_tick(t, work, f"{subject} has arrived there")
            if kind == FORWARD:
                slot_of[s, b] = free[s].pop(0) if (s, b) in back and free[s] else -1
            elif (s, b) not in slot_of:
                raise _no_tick(t, work, "the stage has not run it forward")
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
    return ControlProgramError(f"""Tick {t} runs stage {s} {kind} with micro-batch {b}, but {why}.
        next:  use the ticks of schedules.pipeline_schedule, in which each step has its input.""")


def _check_stages(graph: Graph, stages: Sequence[Stage], training: bool) -> None:
    """Raise `InvalidOptionError` unless each stage has its programs, its tensors and its IPUs."""
    if not isinstance(stages, Sequence) or not all(isinstance(stage, Stage) for stage in stages):
        raise InvalidOptionError(f"""pipeline() was given {shown(stages)} as its stages.
            next:  give a list of schedules.Stage.""")
    of_ipu: dict[int, int] = {}
    tiles_per_ipu = graph.get_top_level_graph().target.tiles_per_ipu
    for s, stage in enumerate(stages):
        before = stages[s - 1] if s else Stage(stage.forward)
        behind = stages[s + 1] if s + 1 < len(stages) else Stage(stage.forward)
        ends = [("into", before.out), ("out", behind.into)]
        if training:
            ends += [("grad_out", behind.grad_into), ("grad_into", before.grad_out)]
        for name, end in ends:
            if end is not None and not isinstance(getattr(stage, name), Tensor):
                raise InvalidOptionError(f"""Stage {s} of {len(stages)} has no tensor `{name}`.
                    next:  Stage(forward, into, out), and to train backward, grad_out and
                    grad_into, too.""")
        for name in ("forward", "backward") if training else ("forward",):
            tiles = _work(stage, name)
            is_left_out = name == "backward" and stage.grad_out is stage.grad_into is None
            if not tiles and not is_left_out:
                raise _no_work(s, len(stages), name)
            for ipu in sorted({tile // tiles_per_ipu for tile in tiles if tile >= 0}):
                if of_ipu.setdefault(ipu, s) != s:
                    raise InvalidOptionError(f"""Stage {s} works on IPU {ipu}, which is the one of
                        stage {of_ipu[ipu]}.
                        next:  build each stage on IPUs of its own: graph.create_virtual_graph({s} *
                        tiles, {s + 1} * tiles).""")
        if training and stage.grad_out is not None and _shares_memory(stage.grad_out, stage.keep):
            raise InvalidOptionError(f"""The gradient of stage {s} arrives in `grad_out`, which
                shares memory with a tensor in `keep`.
                next:  make a variable of its own for it: grad_out=graph.clone(out).""")
    if training and not any(_work(stage, "backward") for stage in stages):
        raise _no_work(len(stages) - 1, len(stages), "backward")


def _work(stage: Stage, name: str) -> set[int]:
    """Return the tiles of a stage's program `name`, "forward" or "backward".

    If the program does nothing, because the result is a view of the input, the tiles are those of
    the result.
    """
    tiles = set(_tiles(getattr(stage, name)))
    ends = (stage.into, stage.out) if name == "forward" else (stage.grad_out, stage.grad_into)
    source, result = ends
    if not tiles and source is not None and result is not None and source.intersects_with(result):
        tiles = set(bytes_by_tile(result)[0].tolist())
    return tiles


def _no_work(s: int, stages: int, name: str) -> InvalidOptionError:
    return InvalidOptionError(f"""Stage {s} of {stages} has no work to do {name}.
        next:  give it a program that does something, or make fewer stages.""")


def _tiles(program: Program | None) -> Iterator[int]:
    """Yield the tiles of a program's vertices and copied tensors, and -1 for other work."""
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
