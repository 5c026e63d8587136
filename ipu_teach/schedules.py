"""Schedules: lists that give the order of work, and from which programs are built.

A loop over the list builds the program, and checks and pictures read the same list. There are two
kinds of schedule:

- `recompute` is for a chain of layers that recomputes some activations instead of keeping them.
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
MOST = 2**20  # The maximum number of layers, stages or micro-batches.
LIMITS = f"1 to {MOST:,}"
SCHEDULES = GROUPED, INTERLEAVED, SEQUENTIAL = "grouped", "interleaved", "sequential"


def _misuse(problem: str, advice: str) -> InvalidOptionError:
    return InvalidOptionError(problem, next_step=advice)


class Step(NamedTuple):
    """A step of a schedule for layers: a tuple of its kind and its layer.

    `kind` is `FORWARD`, `RECOMPUTE` or `BACKWARD`. Layers are counted from 0.
    """

    kind: str
    layer: int


def recompute(layers: int, keep: Collection[int]) -> list[Step]:
    """Return the steps of a chain of layers that keeps only the inputs of the layers in `keep`.

    The backward pass of a layer needs the layer's input. The input of layer 0 is always available.
    An input that is not kept is recomputed once, starting from the nearest kept input before it,
    just before the backward passes that need the recomputed input. The inputs after the last kept
    input are still in memory when the backward pass begins, so they are not recomputed. A chain of
    L equal layers that keeps every k-th input stores at most L / k + k - 1 inputs, and recomputes
    (L / k - 1) (k - 1) layers.

        for kind, layer in recompute(16, keep=range(0, 16, 4)):
            ...

    Raises `InvalidOptionError` if `layers` is not a positive integer, or if `keep` is a number, is
    empty, or contains the number of a layer that does not exist.
    """
    if not is_whole(layers) or not 1 <= layers <= MOST:
        raise InvalidOptionError(f"""recompute() was given {shown(layers)} as the number of
            layers.
            next:  give a whole number from {LIMITS}.""")
    is_array = isinstance(keep, np.ndarray) and not keep.ndim
    if not isinstance(keep, Collection) or isinstance(keep, (str, bytes)) or is_array:
        spacing = keep if is_whole(keep) and 1 <= keep <= layers else 2
        raise InvalidOptionError(f"""recompute() was given keep={shown(keep)}, which is not a list
            of layers.
            next:  list the layers whose inputs are kept. To keep one layer in {spacing}, give
            keep=range(0, {layers}, {spacing}).""")
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
    kept_layers = sorted({0, *map(int, keep)})
    for kept_layer, end_layer in reversed(
        list(zip(kept_layers, [*kept_layers[1:], layers], strict=True))
    ):
        if end_layer < layers:
            steps += [Step(RECOMPUTE, layer) for layer in range(kept_layer, end_layer - 1)]
        steps += [Step(BACKWARD, layer) for layer in reversed(range(kept_layer, end_layer))]
    return steps


class Work(NamedTuple):
    """The work of a stage in one tick: a tuple of its kind, its stage and its micro-batch.

    `kind` is `FORWARD` or `BACKWARD`. Stages and micro-batches are counted from 0.
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
    """Return the ticks of a pipeline: a list with the `Work` of each busy stage for each tick.

    `schedule` is one of these names, which Graphcore's `PipelineSchedule` also uses
    (graphcore/tensorflow):

    - "grouped": ticks in which all busy stages run forward alternate with ticks in which all of
      them run backward.
    - "interleaved": a stage runs backward as soon as it can, while other stages run forward. Stages
      store about half as many micro-batches as with "grouped", but more ticks last as long as a
      backward pass.
    - "sequential": only one stage works at a time, which helps to find errors.

    If `training` is False, there are only forward passes: with "grouped" and "interleaved", stage s
    works on micro-batch b in tick b + s.

    Raises `InvalidOptionError` if a number is not a positive integer, if the schedule is unknown,
    or if there are too few micro-batches to fill the pipeline. A pipeline needs at least one
    micro-batch for each stage (PopTorch, deviceIterations), and for training at least two for each
    stage (popxl-addons, transforms/pipelining.py). "sequential" accepts any number of
    micro-batches.
    """
    for count, noun in ((stages, "stages"), (micro_batches, "micro-batches")):
        if not is_whole(count) or not 1 <= count <= MOST:
            raise InvalidOptionError(f"""pipeline_schedule() was given {shown(count)} as the
                number of {noun}.
                next:  give a whole number from {LIMITS}.""")
    if not isinstance(schedule, str) or schedule not in SCHEDULES:
        raise InvalidOptionError(f"""pipeline_schedule() was given the schedule {shown(schedule)}.
            next:  use {" or ".join(map(repr, SCHEDULES))}.""")
    minimum, rule = (
        (2 * stages, "two for each stage in training (popxl-addons, transforms/pipelining.py)")
        if training
        else (stages, "one for each stage (PopTorch, deviceIterations)")
    )
    if schedule != SEQUENTIAL and micro_batches < minimum:
        raise InvalidOptionError(f"""pipeline_schedule() was given
            {counted(micro_batches, "micro-batch", "micro-batches")} for
            {counted(stages, "stage")}, but a pipeline needs {rule}.
            next:  give at least {minimum} micro-batches, or use the schedule {SEQUENTIAL!r}, which
            accepts any number.""")
    if schedule == SEQUENTIAL:
        stage_order = [(FORWARD, stage) for stage in range(stages)]
        stage_order += [(BACKWARD, stage) for stage in reversed(range(stages))] if training else []
        return [
            [Work(kind, stage, micro_batch)]
            for micro_batch in range(micro_batches)
            for kind, stage in stage_order
        ]
    if training and schedule == INTERLEAVED:
        return list(_interleaved(stages, micro_batches))
    ticks = []
    delay = 2 * (stages - 1) if training else stages - 1
    for tick in range(micro_batches + delay):
        forward_pairs = ((stage, tick - stage) for stage in range(stages))
        ticks.append(
            [
                Work(FORWARD, stage, micro_batch)
                for stage, micro_batch in forward_pairs
                if 0 <= micro_batch < micro_batches
            ]
        )
        backward_pairs = (
            (stage, tick - delay + stage) for stage in range(stages if training else 0)
        )
        ticks.append(
            [
                Work(BACKWARD, stage, micro_batch)
                for stage, micro_batch in backward_pairs
                if 0 <= micro_batch < micro_batches
            ]
        )
    return [works for works in ticks if works]


def _interleaved(stages: int, micro_batches: int) -> Iterator[list[Work]]:
    """Yield the ticks of the interleaved schedule.

    A stage runs backward if its gradient has arrived. Otherwise it runs forward, unless it would
    then store too many micro-batches. The limit is the number of stages from this stage to the last
    one, both included.
    """
    finished: set[Work] = set()
    num_forward = [0] * stages
    num_backward = [0] * stages
    while num_backward[0] < micro_batches:
        works = []
        for stage, (next_forward, next_backward) in enumerate(
            zip(num_forward, num_backward, strict=True)
        ):
            has_gradient = (
                stage == stages - 1 or Work(BACKWARD, stage + 1, next_backward) in finished
            )
            if Work(FORWARD, stage, next_backward) in finished and has_gradient:
                works.append(Work(BACKWARD, stage, next_backward))
            elif next_forward < min(micro_batches, next_backward + stages - stage) and (
                stage == 0 or Work(FORWARD, stage - 1, next_forward) in finished
            ):
                works.append(Work(FORWARD, stage, next_forward))
        for kind, stage, _ in works:
            (num_forward if kind == FORWARD else num_backward)[stage] += 1
        finished.update(works)
        yield works


def stash(ticks: Given, stages: Annotated[int, Between(1, MOST)]) -> list[int]:
    """Return the maximum number of micro-batches that each stage stores at the same time.

    A stage stores a micro-batch from its forward pass to its backward pass. The micro-batch on
    which the stage works is also counted. In addition to this micro-batch, stage s stores
    2 (stages - 1 - s) micro-batches with the schedule "grouped", half as many with "interleaved",
    and none with "sequential" (graphcore/tensorflow, pipeline_util.cc). Micro-batches without a
    backward pass are not stored. Raises `InvalidOptionError` if `ticks` has a stage that is not
    below `stages`.
    """
    ticks_of_work = [[Work(*entry) for entry in works] for works in ticks]
    backward_pairs = {
        (stage, micro_batch)
        for works in ticks_of_work
        for kind, stage, micro_batch in works
        if kind == BACKWARD
    }
    for _, stage, _ in (work for works in ticks_of_work for work in works):
        if not 0 <= stage < stages:
            raise InvalidOptionError(f"""stash() was given {counted(stages, "stage")}, but
                the ticks contain work of stage {stage}.
                next:  give the number of stages of the ticks, as for pipeline_schedule().""")
    num_stored = [0] * stages
    max_stored = [0] * stages
    for works in ticks_of_work:
        for kind, stage, micro_batch in works:
            if kind == FORWARD:
                max_stored[stage] = max(max_stored[stage], num_stored[stage] + 1)
                num_stored[stage] += (stage, micro_batch) in backward_pairs
        for kind, stage, _ in works:
            num_stored[stage] -= kind == BACKWARD
    return max_stored


@dataclass(frozen=True, eq=False)
class Stage:
    """A stage of a pipeline, on IPUs that no other stage uses.

    `forward` is a program that reads `into` and writes its result to `out`. For training,
    `backward` is a program that reads `grad_out`, the gradient of `out`, and writes `grad_into`,
    the gradient of `into`. `backward` may read only those tensors of the forward pass that are in
    `keep`. The same programs run for all micro-batches.

    Some fields may be left out:

    - `into` of the first stage, which may get its data from anywhere, and `out` of the last stage;
    - `grad_into` of a stage, and `grad_out` of the previous stage, if no earlier stage is trained;
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
    """Return the program of `ticks`: in each tick the programs of the stages, then one exchange.

    All results of a tick are copied to the next stages at the same time. So a result may even be
    copied to memory that is the source of another copy in the same tick. The tensors in
    `Stage.keep` are stored from the forward to the backward pass of a micro-batch. If a stage
    stores more than one micro-batch (see `stash`), the program contains a copy of these tensors for
    each micro-batch. Consecutive equal ticks become a Repeat. All schedules give the same bits if
    each stage processes its micro-batches in order and the stages share no memory. `name` is the
    name of the program and of its variables.

    :raises InvalidOptionError: if a tick has an unknown kind of work or an unknown stage. The same
        error is raised if a stage has no work, is on an IPU of another stage, or gets its gradient
        in a tensor of `keep`.
    :raises ControlProgramError: if the input of a stage is missing in a tick, or would be
        overwritten before it is read.
    """
    ticks_of_work = [[Work(*entry) for entry in works] for works in ticks]
    is_training = any(work.kind == BACKWARD for works in ticks_of_work for work in works)
    _check_stages(graph, stages, is_training)
    for kind, stage_number, _ in (work for works in ticks_of_work for work in works):
        if kind not in (FORWARD, BACKWARD) or stage_number not in range(len(stages)):
            raise InvalidOptionError(f"""pipeline() was given a tick with work of kind
                {shown(kind)} for stage {shown(stage_number)}.
                next:  use the kinds {FORWARD!r} and {BACKWARD!r}, and number the
                {counted(len(stages), "stage")} from 0.""")
    # A stage that stores only one micro-batch needs no copies, because nothing overwrites its
    # tensors before its backward pass.
    slots: list[list[list[Tensor]]] = [
        [
            [
                graph.clone(tensor, f"{name}/stored{stage_number}")
                for tensor in stages[stage_number].keep
            ]
            for _ in range(num_slots)
        ]
        if num_slots > 1
        else [[]]
        for stage_number, num_slots in enumerate(stash(ticks_of_work, len(stages)))
    ]
    builder = _Ticks(graph, stages, slots, is_training=is_training, name=name)
    program_by_key: dict[tuple[tuple[str, int, int], ...], Programs] = {}
    tick_programs = []
    for key in _in_slots(ticks_of_work, [len(slots_of_stage) for slots_of_stage in slots]):
        if key not in program_by_key:
            program_by_key[key] = builder.tick(key)
        tick_programs.append(program_by_key[key])
    all_programs = Programs(name=name)
    for tick, equal_ticks in groupby(tick_programs):
        all_programs.add(
            tick if (num_equal := len(list(equal_ticks))) == 1 else Repeat(num_equal, tick)
        )
    return all_programs


class _Ticks:
    """A builder of the program of each tick.

    The builder also creates the variables that copies between stages use to save or receive data.
    """

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
        # The input and the gradient of each stage arrive in the tensors of these lists. Such a
        # tensor is usually `into` or `grad_out` of the stage. It is a separate variable if the
        # stage could overwrite `into` or `grad_out` before it reads the arrived data.
        self.into = [stage.into for stage in stages]
        self.grad_out = [stage.grad_out for stage in stages]
        for stage_number, stage in enumerate(stages if is_training else ()):
            backward_tensors = (*stage.keep, stage.grad_out, stage.grad_into)
            if (
                stage_number
                and stage.into is not None
                and _shares_memory(stage.into, backward_tensors)
            ):
                self.into[stage_number] = graph.clone(stage.into, f"{name}/arrives{stage_number}")
            forward_tensors = (stage.into, stage.out)
            is_last = stage_number + 1 == len(stages)
            if (
                not is_last
                and stage.grad_out is not None
                and _shares_memory(stage.grad_out, forward_tensors)
            ):
                self.grad_out[stage_number] = graph.clone(
                    stage.grad_out, f"{name}/gradient{stage_number}"
                )

    def tick(self, key: Iterable[tuple[str, int, int]]) -> Programs:
        """Return the program of one tick.

        The program restores stored tensors, runs the stages that are busy in the tick, stores
        tensors for their backward passes, and copies results to other stages. `key` has `(kind,
        stage, slot)` for each busy stage. A stage may have several copies of the tensors that it
        stores. `slot` is the index of the copy to use, or -1 if the stage stores nothing.
        """
        restoring: list[Program] = []
        working: list[Program] = []
        storing: list[Program] = []
        ends_by_move: dict[tuple[str, int], tuple[Tensor, Tensor]] = {}
        for kind, stage_number, slot in key:
            stage = self.stages[stage_number]
            slot_pairs = list(
                zip(stage.keep, self.slots[stage_number][slot] if slot >= 0 else [], strict=False)
            )
            if kind == FORWARD:
                restoring += _brought(self.into[stage_number], stage.into)
                working.append(stage.forward)
                storing += [Copy(tensor, slot_tensor) for tensor, slot_tensor in slot_pairs]
            else:
                restoring += [Copy(source, tensor) for tensor, source in slot_pairs]
                restoring += _brought(self.grad_out[stage_number], stage.grad_out)
                working += [stage.backward] if stage.backward else []
            if (ends := self._ends(kind, stage_number)) is not None:
                ends_by_move[kind, stage_number] = ends
        copies: list[Program] = []
        for (kind, stage_number), (source, destination) in ends_by_move.items():
            other_destinations = [
                ends[1] for move, ends in ends_by_move.items() if move != (kind, stage_number)
            ]
            if _shares_memory(source, other_destinations):
                saving_copy, source = self._departure(kind, stage_number, source)
                storing.append(saving_copy)
            copies.append(Copy(source, destination))
        # The copies within an IPU come first, so that all copies between IPUs share one exchange.
        return Programs(restoring, working, storing, copies)

    def _ends(self, kind: str, stage_number: int) -> tuple[Tensor, Tensor] | None:
        """Return `(source, destination)`: the result of a stage, and the tensor that receives it.

        Return None if no other stage receives the result. `kind` is `FORWARD` or `BACKWARD`.
        """
        receiver = stage_number + 1 if kind == FORWARD else stage_number - 1
        if receiver not in range(len(self.stages)):
            return None
        stage = self.stages[stage_number]
        source = stage.out if kind == FORWARD else stage.grad_into
        destination = self.into[receiver] if kind == FORWARD else self.grad_out[receiver]
        return None if source is None or destination is None else (source, destination)

    def _departure(self, kind: str, stage_number: int, source: Tensor) -> tuple[Copy, Tensor]:
        """Return `(copy, result)` to send a result that arriving data partly overwrite.

        Results are sent and received at the same time, in one exchange. Before this exchange,
        `copy` saves the elements of `source` that arriving data would overwrite. `result` is
        `source` as a flat tensor in which the saved elements replace the overwritten elements.
        Without `copy`, the copies between IPUs would conflict, and each would need its own
        exchange.
        """
        if (kind, stage_number) not in self._departures:
            ends_by_move = {
                (other_kind, other_stage): self._ends(other_kind, other_stage)
                for other_kind in (FORWARD, BACKWARD)
                for other_stage in range(len(self.stages))
            }
            destinations = [
                ends[1]
                for move, ends in ends_by_move.items()
                if ends and move != (kind, stage_number)
            ]
            pieces, is_shared = _pieces(source.flatten(), destinations)
            shared_pieces = [
                piece
                for piece, is_piece_shared in zip(pieces, is_shared, strict=True)
                if is_piece_shared
            ]
            overwritten = concat(shared_pieces)
            saved = self.graph.clone(overwritten, f"{self.name}/leaves{stage_number}")
            saved_start = 0
            for index, piece in enumerate(pieces):
                if is_shared[index]:
                    pieces[index] = saved[saved_start : saved_start + piece.num_elements]
                    saved_start += piece.num_elements
            self._departures[kind, stage_number] = Copy(overwritten, saved), concat(pieces)
        return self._departures[kind, stage_number]


def _brought(arrival: Tensor | None, tensor_read: Tensor | None) -> list[Program]:
    """Return the program that moves arrived data to the tensor that a stage reads.

    The result is a list with one Copy. It is empty if the data already arrive in the tensor that
    the stage reads.
    """
    return (
        []
        if arrival is None or tensor_read is None or arrival is tensor_read
        else [Copy(arrival, tensor_read)]
    )


def _shares_memory(tensor: Tensor, tensors: Iterable[Tensor | None]) -> bool:
    return any(peer is not None and tensor.intersects_with(peer) for peer in tensors)


def _pieces(tensor: Tensor, destinations: Sequence[Tensor]) -> tuple[list[Tensor], list[bool]]:
    """Divide a flat tensor into slices, and return `(pieces, is_shared)`.

    `pieces` are contiguous slices, in order, which together contain all elements of `tensor`.
    `is_shared` has an entry for each slice: True if all of its elements share memory with tensors
    of `destinations`, and False if none of its elements does.
    """
    starts, ends = joined(
        *map(
            np.concatenate,
            zip(*(destination.byte_extent() for destination in destinations), strict=True),
        )
    )
    element_starts = tensor.positions() * tensor.dtype.size
    element_ends = element_starts + tensor.dtype.size
    is_shared = np.searchsorted(starts, element_ends, "left") > np.searchsorted(
        ends, element_starts, "right"
    )
    bounds = [0, *(np.flatnonzero(np.diff(is_shared)) + 1).tolist(), tensor.num_elements]
    pairs = list(zip(bounds, bounds[1:], strict=False))
    return [tensor[begin:end] for begin, end in pairs], [
        bool(is_shared[begin]) for begin, _ in pairs
    ]


def _in_slots(
    ticks_of_work: list[list[Work]], num_slots: list[int]
) -> Iterator[tuple[tuple[str, int, int], ...]]:
    """Yield for each tick a tuple with `(kind, stage, slot)` for each busy stage.

    A slot is a copy of the tensors that a stage stores for a backward pass. `num_slots` is the
    number of slots of each stage. `slot` is -1 for a forward pass without a backward pass, which
    stores nothing. Raises `ControlProgramError` if a stage would work on two micro-batches in a
    tick, or if the input of a stage is missing or would be overwritten.
    """
    free_slots = [list(range(count)) for count in num_slots]
    last_stage = len(num_slots) - 1
    slot_of: dict[tuple[int, int], int] = {}
    backward_pairs = {
        (stage, micro_batch)
        for works in ticks_of_work
        for kind, stage, micro_batch in works
        if kind == BACKWARD
    }
    # Maps (kind, stage) to the micro-batch that waits in `into` or `grad_out` of the stage.
    arrived: dict[tuple[str, int], int] = {}
    for tick, works in enumerate(ticks_of_work):
        entry_by_stage: dict[int, tuple[str, int, int]] = {}
        for work in works:
            kind, stage, micro_batch = work
            waiting = arrived.pop((kind, stage), None)
            if stage in entry_by_stage:
                raise _no_tick(tick, work, "the stage has another step in that tick")
            if stage != (0 if kind == FORWARD else last_stage) and waiting != micro_batch:
                subject = "no micro-batch" if waiting is None else f"micro-batch {waiting}"
                raise _no_tick(tick, work, f"{subject} has arrived there")
            if kind == FORWARD:
                slot_of[stage, micro_batch] = (
                    free_slots[stage].pop(0)
                    if (stage, micro_batch) in backward_pairs and free_slots[stage]
                    else -1
                )
            elif (stage, micro_batch) not in slot_of:
                raise _no_tick(tick, work, "the stage has not run it forward")
            entry_by_stage[stage] = (kind, stage, slot_of[stage, micro_batch])
        for work in works:
            kind, stage, micro_batch = work
            receiver = (kind, stage + (1 if kind == FORWARD else -1))
            if receiver in arrived:
                raise _no_tick(
                    tick,
                    work,
                    f"stage {receiver[1]} has not yet read micro-batch {arrived[receiver]}",
                )
            if 0 <= receiver[1] <= last_stage:
                arrived[receiver] = micro_batch
            if kind == BACKWARD:
                free_slots[stage].insert(0, slot_of.pop((stage, micro_batch)))
        yield tuple(entry_by_stage.values())


def _no_tick(tick: int, work: Work, why: str) -> ControlProgramError:
    kind, stage, micro_batch = work
    return ControlProgramError(f"""Tick {tick} runs stage {stage} {kind} with micro-batch
        {micro_batch}, but {why}.
        next:  use the ticks of schedules.pipeline_schedule, in which each step has its input.""")


def _check_stages(graph: Graph, stages: Sequence[Stage], training: bool) -> None:
    """Raise `InvalidOptionError` unless each stage has its own programs, tensors and IPUs."""
    if not isinstance(stages, Sequence) or not all(isinstance(stage, Stage) for stage in stages):
        raise InvalidOptionError(f"""pipeline() was given {shown(stages)} as its stages.
            next:  give a list of schedules.Stage.""")
    stage_of_ipu: dict[int, int] = {}
    tiles_per_ipu = graph.get_top_level_graph().target.tiles_per_ipu
    for stage_number, stage in enumerate(stages):
        previous = stages[stage_number - 1] if stage_number else Stage(stage.forward)
        following = (
            stages[stage_number + 1] if stage_number + 1 < len(stages) else Stage(stage.forward)
        )
        connections = [("into", previous.out), ("out", following.into)]
        if training:
            connections += [("grad_out", following.grad_into), ("grad_into", previous.grad_out)]
        for name, peer_tensor in connections:
            if peer_tensor is not None and not isinstance(getattr(stage, name), Tensor):
                raise InvalidOptionError(f"""Stage {stage_number} of {len(stages)} has no tensor
                    `{name}`.
                    next:  write Stage(forward, into, out). For training, give backward, grad_out
                    and grad_into, too.""")
        for name in ("forward", "backward") if training else ("forward",):
            tiles = _work(stage, name)
            is_left_out = name == "backward" and stage.grad_out is stage.grad_into is None
            if not tiles and not is_left_out:
                raise _no_work(stage_number, len(stages), name)
            for ipu in sorted({tile // tiles_per_ipu for tile in tiles if tile >= 0}):
                if stage_of_ipu.setdefault(ipu, stage_number) != stage_number:
                    raise InvalidOptionError(f"""Stage {stage_number} uses IPU {ipu}, but stage
                        {stage_of_ipu[ipu]} already uses this IPU.
                        next:  build each stage on IPUs of its own:
                        graph.create_virtual_graph({stage_number} * tiles, {stage_number + 1} *
                        tiles).""")
        if training and stage.grad_out is not None and _shares_memory(stage.grad_out, stage.keep):
            raise InvalidOptionError(f"""The gradient of stage {stage_number} arrives in `grad_out`,
                which shares memory with a tensor in `keep`.
                next:  make a variable of its own for it: grad_out=graph.clone(out).""")
    if training and not any(_work(stage, "backward") for stage in stages):
        raise _no_work(len(stages) - 1, len(stages), "backward")


def _work(stage: Stage, name: str) -> set[int]:
    """Return the tiles of a stage's program `name`, which is "forward" or "backward".

    If the program does nothing because its result is a view of its input, return the tiles of the
    result.
    """
    tiles = set(_tiles(getattr(stage, name)))
    ends_of_pass = (
        (stage.into, stage.out) if name == "forward" else (stage.grad_out, stage.grad_into)
    )
    source, result = ends_of_pass
    if not tiles and source is not None and result is not None and source.intersects_with(result):
        tiles = set(bytes_by_tile(result)[0].tolist())
    return tiles


def _no_work(stage_number: int, num_stages: int, name: str) -> InvalidOptionError:
    return InvalidOptionError(f"""Stage {stage_number} of {num_stages} does no work in its {name}
        pass.
        next:  give it a {name} program that computes or copies something, or make fewer stages.""")


def _tiles(program: Program | None) -> Iterator[int]:
    """Yield the tiles on which a program works: the tiles of its vertices and copied tensors.

    Yield -1 for everything else that a program does, such as a transfer of a stream or a sync.
    """
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
