"""Several of the host's threads for one compute set: the same bits, the same errors, and nothing
goes on after Ctrl-C."""

from __future__ import annotations

import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from codelets import Sum
from graphs import same_bits
from vertex_loop import DEVICE, line_of, normal

from ipu_teach import INT, Engine, Graph, InOut, Input, Output, Vector, Vertex
from ipu_teach.compile.tracer import trace_codelet
from ipu_teach.engine import ways
from ipu_teach.engine.batch import threads
from ipu_teach.errors import CodeletError
from ipu_teach.program import Execute
from ipu_teach.types import Array


class Total(Vertex):
    x: Input[Vector[INT]]
    out: Output[INT]

    def compute(self):
        self.out = np.sum(self.x)


def engine_of(codelet: type[Vertex], x: Array, number: int) -> Engine:
    graph = Graph(DEVICE.target)
    dtype = codelet.fields["x"].dtype
    given, out = graph.add_variable(dtype, x.shape), graph.add_variable(dtype, x.shape[:1])
    graph.set_initial_value(given, x)
    for tensor in (given, out):
        graph.set_tile_mapping(tensor, 0)
    graph.create_host_read("out", out)
    compute_set = graph.add_compute_set()
    graph.add_vertices(compute_set, codelet, np.arange(len(x)) % 3, x=given, out=out)
    engine = Engine(graph, Execute(compute_set), threads=number)
    engine.load(DEVICE)
    return engine


@pytest.mark.parametrize("number", [2, 3, 7])
def test_threads_share_a_large_batch(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[int] = []
    plain = threads.run_parallel
    monkeypatch.setattr(
        ways, "run_parallel", lambda pool, lists: (used.append(len(lists)), plain(pool, lists))
    )
    x = normal(threads.LEAST_SHARE * 7, 33)
    engine = engine_of(Sum, x, number)
    engine.run()
    assert used == [number]
    shared = engine.read_tensor("out")
    alone = engine_of(Sum, x, 1)
    alone.run()
    assert same_bits(shared, alone.read_tensor("out"))


def test_a_small_batch_is_left_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ways, "run_parallel", None)
    engine = engine_of(Sum, normal(threads.LEAST_SHARE * 2 - 1, 4), 2)
    engine.run()


@pytest.mark.parametrize("bad", [[3], [700], [3, 700], [900, 901]])
def test_an_error_in_a_thread_names_the_vertex_that_the_loop_would_name(bad: list[int]) -> None:
    x = np.zeros((1024, 2), np.int64)
    x[bad] = 2**30
    engine = engine_of(Total, x, 2)
    with pytest.raises(
        CodeletError, match="OverflowError: 2147483648 does not fit into int32"
    ) as caught:
        engine.run()
    assert f"vertex {bad[0]} (Total, tile {bad[0] % 3})" in caught.value.where
    assert f"test_threads.py, line {line_of(Total, 'np.sum')} (Total.compute)" in caught.value.where
    fine = engine_of(Total, np.ones((1024, 2), np.int64), 2)  # the pool of one engine is its own
    fine.run()
    assert fine.read_tensor("out").tolist() == [2] * 1024


@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends no signal to one thread")
def test_an_interruption_waits_for_the_threads() -> None:
    """What still wrote to memory after Ctrl-C would spoil the next run."""
    begun, done = threading.Barrier(3), []

    def work(number: int) -> None:
        begun.wait(10)
        time.sleep(0.3)
        done.append(number)

    def interrupt() -> None:
        begun.wait(10)
        time.sleep(0.1)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        threads.run_parallel(ThreadPoolExecutor(2), [[(work, (0,))], [(work, (1,))]])
    assert sorted(done) == [0, 1]


class Stops(Vertex):
    x: InOut[Vector[INT]]

    def compute(self):
        if self.x[0] > 0:
            self.x[0] = 1


class Unrolled(Vertex):
    x: InOut[Vector[INT]]

    def compute(self):
        for i in range(len(self.x)):
            self.x[i] = self.x[i] * 2 + 1


def test_engines_made_in_several_threads_do_not_meddle_with_each_other() -> None:
    """What ends the trace of one codelet is nothing that the trace of another one, in another
    thread, has hidden."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(3) as pool:
            asked = [
                pool.submit(trace_codelet, c, {"x": (20,)}, "vertex 0", 6)
                for _ in range(100)
                for c in (Stops, Unrolled)
            ]
            stopped = [found.result().stopped for found in asked]
    finally:
        sys.setswitchinterval(before)
    assert all("a branch" in reason for reason in stopped[::2]) and not any(stopped[1::2])
