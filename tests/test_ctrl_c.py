"""Ctrl-C at any moment of a compile, a load and a run: what is left agrees with itself, what comes
next with a fresh run."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count

import numpy as np
import pytest

from ipu_teach import (
    FLOAT,
    UNSIGNED_INT,
    Device,
    Engine,
    Graph,
    InOut,
    IPUModel,
    Tensor,
    Vector,
    Vertex,
)
from ipu_teach._support.interrupts import Interrupts
from ipu_teach.program import Copy, Execute, Program, Repeat, Sequence

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="Windows sends Ctrl-C to consoles, not to processes"
)


class Added(Vertex):
    x: InOut[Vector[FLOAT]]

    def compute(self) -> None:
        self.x[:] = self.x + 1


class Turned(Vertex):
    x: InOut[Vector[FLOAT]]

    def compute(self) -> None:
        for i in range(len(self.x)):
            if self.x[i] >= 0:
                self.x[i] += 1


class Never(Vertex):
    x: InOut[Vector[FLOAT]]

    def compute(self) -> None:
        while self.x[0] >= 0:
            self.x[0] += 1
            self.x[0] -= 1


@pytest.fixture(autouse=True)
def heard() -> Iterator[None]:
    """Ctrl-C is heard, whatever a test before did to its handler."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupted(work: Callable[[], object], after: float) -> str:
    """Do the work, and press Ctrl-C after so many seconds, a real SIGINT, with which it ends. What
    is said then.

    Python drops one that arrives in a finalizer or a callback of the collector of garbage, which
    `sys.unraisablehook` hears: who was not heard presses again.
    """
    done, missed = threading.Event(), threading.Event()

    def press() -> None:
        pause = after
        while not done.wait(pause):
            os.kill(os.getpid(), signal.SIGINT)
            missed.wait(2.0)
            missed.clear()
            pause = 0.01  # until the hook is left

    def dropped(what: sys.UnraisableHookArgs) -> None:
        if what.exc_type is KeyboardInterrupt:
            missed.set()
        else:
            before(what)

    presses, before = threading.Thread(target=press, daemon=True), sys.unraisablehook
    sys.unraisablehook = dropped
    with pytest.raises(KeyboardInterrupt) as caught:
        try:
            # returns when the thread has begun, and may already meet its first press
            presses.start()
            work()
        finally:
            done.set()
            missed.set()
            sys.unraisablehook = before
    presses.join()
    return str(caught.value)


def made(
    second: type[Vertex], times: int = 1_000_000
) -> tuple[Device, Graph, Program, list[Tensor]]:
    """Two variables on four tiles, to which each step adds 1; the second by another codelet, in
    regions of two lengths."""
    device = IPUModel(tiles_per_ipu=4).create_device()
    graph = Graph(device)
    tensors = [graph.add_variable(FLOAT, (4, 30 + k), f"x{k}") for k in range(2)]
    compute_set = graph.add_compute_set("add")
    for tensor, codelet in zip(tensors, (Added, second), strict=True):
        graph.set_initial_value(tensor, 0)
        graph.create_host_read(f"x{tensor.shape[1] - 30}", tensor)
        for tile in range(4):
            graph.set_tile_mapping(tensor[tile], tile)
            graph.set_tile_mapping(graph.add_vertex(compute_set, codelet, x=tensor[tile]), tile)
    return device, graph, Repeat(times, Execute(compute_set)), tensors


def steps_in(engine: Engine) -> int:
    """How many steps the values have seen, which all agree in that."""
    values = np.concatenate([engine.read_tensor(f"x{k}").reshape(-1) for k in range(2)])
    assert (values == values[0]).all(), np.unique(values)
    return int(values[0])


@pytest.mark.parametrize(
    ("second", "loop"),
    [(Added, False), (Turned, False), (Turned, True)],
    ids=["batch", "scalar", "loop"],
)
def test_a_run_ends_between_two_steps(second: type[Vertex], loop: bool) -> None:
    device, graph, program, _ = made(second)
    engine = Engine(graph, [program, Repeat(3, program.children()[0])], vertex_loop=loop)
    source = np.random.default_rng(5)
    for _ in range(12):
        engine.load(device)
        interrupted(engine.run, source.uniform(0.001, 0.04))
        report = engine.report
        assert steps_in(engine) == report.num_steps == len(report.step_numbers)
        assert [run.last for run in report.runs] in ([], [report.num_steps])
        engine.run(1, "more")  # it goes on from there
        assert steps_in(engine) == engine.report.num_steps == report.num_steps + 3
    engine.load(device)
    engine.run(1)
    fresh = Engine(*made(second)[1:3]).executable  # compiles again, untouched
    assert steps_in(engine) == engine.report.num_steps == 3 and fresh.report.num_steps == 0
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_phased_run_says_how_far_it_got_and_its_buffers_are_readable() -> None:
    """Rows are loaded, worked on and stored, one after the other, for ever and a day."""
    device = IPUModel(tiles_per_ipu=2, io_tiles=1).create_device()
    graph, rows = Graph(device), 5
    here, there = (graph.add_variable(FLOAT, (40,), name) for name in ("here", "there"))
    for tile, tensor in enumerate((here, there)):
        graph.set_tile_mapping(tensor, tile)
    compute_set = graph.add_compute_set("work")
    graph.set_tile_mapping(graph.add_vertex(compute_set, Added, x=there), 1)
    buffer = graph.add_remote_buffer("rows", FLOAT, 40, rows)
    numbers = graph.add_constant(UNSIGNED_INT, (rows,), list(range(rows)))
    graph.set_tile_mapping(numbers, 0)
    phases = [
        [Copy(buffer, here, number), Copy(here, there), Execute(compute_set), Copy(there, here)]
        + [Copy(here, buffer, number)]
        for number in (numbers[n : n + 1] for n in range(rows))
    ]
    engine = Engine(graph, Repeat(10**6, Sequence(*(step for phase in phases for step in phase))))
    for pause in (0.02, 0.05):
        engine.load(device)
        for row in range(rows):
            engine.copy_to_remote_buffer(np.zeros(40), "rows", row)
        said = interrupted(engine.run, pause)
        done = engine.report.num_steps
        assert said.startswith(f"stopped after {done:,} of 25,000,000 supersteps, before ")
        whole, part = divmod(done, 5 * rows)
        for row in range(rows):
            stored = whole + (part >= 5 * row + 5)
            assert engine.copy_from_remote_buffer("rows", row).tolist() == [stored] * 40


@pytest.mark.parametrize("loop", [False, True], ids=["scalar", "loop"])
def test_what_never_ends_is_stopped(loop: bool) -> None:
    device, graph, program, _ = made(Never)
    engine = Engine(graph, program, strict={"estimates": False}, vertex_loop=loop)
    engine.load(device)
    # where both codelets are loops the first may be done: who asks twice is heard
    interrupted(engine.run, 0.2)
    assert engine.report.num_steps == 0 and (loop or steps_in(engine) == 0)
    engine.load(device)
    assert steps_in(engine) == 0


@pytest.mark.parametrize("what", ["compile", "load"])
def test_compiling_and_loading_can_be_done_again(what: str) -> None:
    device, graph, program, _ = made(Turned, times=5)
    wanted = Engine(graph, program)
    wanted.load_and_run(device)
    engine = Engine(graph, program)
    engine.load_and_run(device)
    doing = partial(Engine, graph, program) if what == "compile" else partial(engine.load, device)
    source = np.random.default_rng(7)
    for _ in range(8):
        interrupted(lambda: [doing() for _ in count()], source.uniform(0.0005, 0.012))
        engine.load_and_run(device)
        assert steps_in(engine) == 5 and engine.report.digest() == wanted.report.digest()


def test_a_stream_that_waits_can_be_left() -> None:
    device = IPUModel(tiles_per_ipu=1).create_device()
    graph = Graph(device)
    x = graph.add_variable(FLOAT, (3,), "x")
    graph.set_tile_mapping(x, 0)
    stream = graph.add_host_to_device_fifo("in", FLOAT, 3)
    graph.create_host_read("x", x)
    engine = Engine(graph, Repeat(2, Sequence(Copy(stream, x))))
    engine.load(device)
    waiting = threading.Event()
    engine.connect_stream(
        "in", lambda: [1, 2, 3] if not engine.report.num_steps or not waiting.wait(60) else []
    )
    interrupted(engine.run, 0.2)
    assert engine.report.num_steps == 1 and engine.read_tensor("x").tolist() == [1, 2, 3]


def test_whose_handler_it_is() -> None:
    """Another handler than Python's own stays, a second Ctrl-C is heard at once, and a late one is
    not lost."""
    interrupts, heard = Interrupts(), []
    own: Callable[..., None] = lambda *_: heard.append(1)  # noqa: E731
    signal.signal(signal.SIGINT, own)
    try:
        with interrupts:
            signal.raise_signal(signal.SIGINT)
        assert heard == [1] and not interrupts.asked and signal.getsignal(signal.SIGINT) is own
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    done = []
    with pytest.raises(KeyboardInterrupt), interrupts:
        signal.raise_signal(signal.SIGINT)
        done.append(1)  # put off
        signal.raise_signal(signal.SIGINT)
        done.append(2)
    with pytest.raises(KeyboardInterrupt), interrupts:
        signal.raise_signal(signal.SIGINT)
        done.append(3)
    assert done == [1, 3] and signal.getsignal(signal.SIGINT) is signal.default_int_handler
