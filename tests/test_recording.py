"""`Engine.record`: what tensors held after every step, beside a plain loop over the program, and
what it refuses."""

from __future__ import annotations

import re
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from engine_parts import machine_of
from recorded_programs import CELLS, TILES, smoothed_by_hand, smoothing_program

from ipu_teach import (
    BOOL,
    FLOAT,
    HALF,
    INT,
    Engine,
    Graph,
    InOut,
    Input,
    IPUModel,
    Output,
    Vector,
    Vertex,
)
from ipu_teach.errors import (
    ApplicationRuntimeError,
    InvalidOptionError,
    PoplarIndexError,
    TensorIOStateError,
)
from ipu_teach.program import Abort, Copy, Execute, Program, RepeatWhileTrue, Sequence, WriteUndef
from ipu_teach.report import Recording
from ipu_teach.types import Array


class Down(Vertex):
    """Counts down; whether something is left."""

    count: InOut[INT]
    left: Output[BOOL]

    def compute(self) -> None:
        self.count -= 1
        self.left = self.count > 0


class Twice(Vertex):
    """Doubles what is positive, and leaves the rest unwritten."""

    values: Input[Vector[HALF]]
    out: Output[Vector[HALF]]

    def compute(self) -> None:
        for i in range(len(self.values)):
            if self.values[i] > 0:
                self.out[i] = self.values[i] * 2


def same(ours: Array, theirs: Array) -> None:
    assert ours.dtype == theirs.dtype and ours.tobytes() == theirs.tobytes()


@pytest.mark.parametrize("how", [{}, {"vertex_loop": True}, {"strict": False}])
def test_every_value_is_that_of_a_plain_loop(how: dict[str, Any]) -> None:
    engine, u, v, device = smoothing_program(**how)
    recording = engine.record(u, v)
    engine.load(device)
    engine.run()
    for step, (its_u, its_v) in enumerate(smoothed_by_hand(5)):
        same(recording.values(u, step), its_u)
        same(recording.values(v, step), its_v)
    assert recording.report is not None and recording.report.num_steps == 10 == len(recording.steps)
    assert recording.steps == recording.report.step_numbers.tolist()
    assert not recording.tracks[1].first_written.any() and recording.tracks[0].first_written.all()
    assert all(written.all() for _, _, _, written in recording.tracks[1].changes)
    assert repr(recording).startswith("Recording of 'u', 'v': 10 steps, ")


def test_on_a_gpu_arrays_come_to_the_host(stand_in: ModuleType) -> None:
    engine, u, v, device = smoothing_program(backend="cupy")
    recording = engine.record(u, v)
    engine.load(device)
    engine.run()
    for step, (its_u, _) in enumerate(smoothed_by_hand(5)):
        assert type(recording.values(u, step)) is np.ndarray
        same(recording.values(u, step), its_u)


def test_a_later_run_goes_on_and_what_the_host_wrote_between_is_seen() -> None:
    engine, u, _, device = smoothing_program(2)
    engine.load(device)
    engine.run()
    recording = engine.record(u)  # of a run that has begun: from here on
    assert recording.report is None and recording.steps == []
    engine.run()
    engine.write_tensor("u", np.arange(CELLS))
    engine.run()
    assert recording.first == 4 and len([s for s in recording.steps if s >= 0]) == 8
    for step, (its, _) in enumerate(smoothed_by_hand(2, np.arange(CELLS))):
        same(recording.values(u, 8 + step), its)
    engine.load(device)
    assert recording.steps == [] and recording.report is None
    engine.run()
    same(recording.values(u, 3), smoothed_by_hand(2)[3][0])


def test_recording_again_replaces() -> None:
    engine, u, v, device = smoothing_program(2)
    engine.load(device)
    before = engine.record(u)
    engine.run()
    after = engine.record(v)
    engine.run()
    assert (len(before.steps), len(after.steps), before.tensors, after.tensors) == (
        4,
        4,
        (u,),
        (v,),
    )


def test_who_does_not_record_pays_nothing() -> None:
    """The functions that a run calls are those of an engine that knows nothing of recording."""
    engine, u, _, device = smoothing_program(2)
    engine.load(device)
    function_of = machine_of(engine)._leaf
    assert function_of(0).__qualname__ == "Machine._leaf.<locals>.run"
    engine.record(u)
    assert not hasattr(function_of(0), "__qualname__")


def test_a_loop_and_small_dtypes() -> None:
    device = IPUModel("ipu2", tiles_per_ipu=TILES).create_device()
    graph = Graph(device.target)
    count, left = graph.add_variable(INT, (), "count"), graph.add_variable(BOOL, (), "left")
    values, out = graph.add_variable(HALF, (5,), "values"), graph.add_variable(HALF, (5,), "out")
    graph.set_initial_value(count, 3)
    graph.set_initial_value(values, [1, -1, 0.1, 0, 65504])
    down, twice = graph.add_compute_set("down"), graph.add_compute_set("twice")
    vertices = (
        graph.add_vertex(down, Down, count=count, left=left),
        graph.add_vertex(twice, Twice, values=values, out=out),
    )
    for thing in (count, left, values, out, *vertices):
        graph.set_tile_mapping(thing, 1)
    engine = Engine(
        graph, RepeatWhileTrue(Execute(down), left, Sequence(Execute(twice), WriteUndef(out)))
    )
    recording = engine.record(count, left, out, out)
    engine.load(device)
    engine.run()
    assert len(recording.tensors) == 3
    assert recording.report is not None and len(recording.steps) == recording.report.num_steps == 7
    assert [int(recording.values(count, s)) for s in range(7)] == [2, 2, 2, 1, 1, 1, 0]
    assert [bool(recording.values(left, s)) for s in range(7)] == [True] * 6 + [False]
    expected = np.array([2, np.nan, np.float16(0.1) * 2, np.nan, np.inf], np.float16)
    written = {place: bits.tolist() for place, _, _, bits in recording.tracks[2].changes}
    for step in (1, 4):
        np.testing.assert_array_equal(recording.values(out, step), expected)
        assert written[step] == [True] * 3 and written[step + 1] == [False] * 3
        assert np.isnan(recording.values(out, step + 1)).all()


@pytest.mark.parametrize("stop", ["abort", "interrupt"])
def test_a_run_that_is_stopped_is_kept_up_to_there(stop: str) -> None:
    device = IPUModel("ipu2", tiles_per_ipu=TILES).create_device()
    graph = Graph(device.target)
    u, v = graph.add_variable(FLOAT, (2,), "u"), graph.add_variable(FLOAT, (2,), "v")
    graph.set_initial_value(u, [0.5, 0.75])
    graph.set_tile_mapping(u, 0)
    graph.set_tile_mapping(v, 1)
    out = graph.add_device_to_host_fifo("out", FLOAT, 2)
    programs: list[Program] = [
        Copy(u, v),
        Copy(v, out) if stop == "interrupt" else Abort("enough"),
        Copy(v, u),
    ]
    engine = Engine(graph, Sequence(*programs))
    recording = engine.record(u, v)
    engine.load(device)
    if stop == "interrupt":

        def interrupted(values: Array) -> None:
            with pytest.raises(
                TensorIOStateError, match=r"record\(\) was called while the engine runs"
            ):
                engine.record(u)
            raise KeyboardInterrupt

        engine.connect_stream("out", interrupted)
    with pytest.raises((ApplicationRuntimeError, KeyboardInterrupt)):
        engine.run()
    assert len(recording.steps) == 1
    assert recording.values(v, 0).tolist() == [0.5, 0.75] and recording.report is not None


def test_a_full_recording_says_so() -> None:
    engine, u, _, device = smoothing_program(50)
    recording = engine.record(u, most=20)
    engine.load(device)
    engine.run()
    kept = len(recording.steps)
    assert recording.missed == 100 - kept and repr(recording).endswith(
        f"; {recording.missed} steps after it was full"
    )
    for step, (its, _) in enumerate(smoothed_by_hand(50)[:kept]):
        same(recording.values(u, step), its)
    with pytest.raises(
        PoplarIndexError,
        match=rf"^values\(\) was given step {kept}, which is not recorded\.\n  where: the recording "
        f"has {kept} steps; the first is step 0\n",
    ):
        recording.values(u, kept)


def refused(call: Any, *said: str) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        call()
    text = str(caught.value)
    assert re.search(r"\n  next:  \S", text)
    for part in said:
        assert part in text


def test_what_cannot_be_recorded() -> None:
    engine, u, v, device = smoothing_program()
    _, foreign, *_ = smoothing_program()
    graph = u.graph
    late = graph.add_variable(FLOAT, (3,), "late")
    refused(engine.record, "record() was given nothing to record", "engine.record(a, b)")
    refused(lambda: engine.record(3), "record() was given 3, which is not a tensor")  # type: ignore[arg-type]
    refused(lambda: engine.record([u]), "which is not a tensor", "one after the other")  # type: ignore[arg-type]
    refused(
        lambda: engine.record(foreign),
        "which is not in this engine's graph",
        "engine's own graph, made before the engine",
    )
    refused(lambda: engine.record(u, late), "which is not in this engine's graph")
    refused(lambda: engine.record(u[3:3]), "which has no elements")
    refused(lambda: engine.record(u, most=0), "record() was given most=0", "from 1 to 1,000,000")
    device = IPUModel("ipu2", tiles_per_ipu=TILES).create_device()
    graph = Graph(device.target)
    one, large = (
        graph.add_constant(FLOAT, (2,), 1.0, "one"),
        graph.add_variable(FLOAT, (70_000,), "large"),
    )
    for tensor in (one, large):
        graph.set_tile_mapping(tensor, 0)
    other = Engine(graph, Copy(one, large[:2]))
    refused(lambda: other.record(one), "but 'one' is a constant, which never changes")
    refused(
        lambda: other.record(large),
        "70,000 elements",
        "at most 65,536: a slice, as in engine.record(a[:100])",
    )
    recording = other.record(large[:9])
    assert isinstance(recording, Recording)
    refused(lambda: recording.values(large, 0), "which is not recorded", "a view of 'large'")
