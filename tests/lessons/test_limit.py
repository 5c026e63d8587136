"""An answer that never ends is stopped, and the check says so."""

from __future__ import annotations

import time
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest

from ipu_course import check
from ipu_course.checking import calling, notebooks, time_limit
from ipu_teach import INT, Engine, Graph, InOut, IPUModel, Vertex
from ipu_teach.engine.scalar import run as scalar_run
from ipu_teach.engine.scalar.compiled import numba_is_here
from ipu_teach.program import Execute

needs_numba = pytest.mark.skipif(not numba_is_here(), reason="numba is not installed")


def right(work: list[int], bytes_in: list[int], bytes_out: list[int], sync: int) -> int:
    return sync + -(-max([*bytes_in, *bytes_out]) // 4) + max(work)


class Turns(Vertex):
    """As many turns as it is told, which may be too many for any number."""

    n: InOut[INT]

    def compute(self) -> None:
        k = 0
        while k != self.n:
            k += 1 if k < 1000 else 0
        self.n = k


@pytest.mark.parametrize("way", ["plain", "python", pytest.param("compiled", marks=needs_numba)])
def test_an_answer_that_comes_to_no_end_is_stopped(
    way: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In Python, and in a loop over elements, by CPython and by numba; the check goes on with the
    next answer."""
    monkeypatch.setenv("IPU_TEACH_CACHE", str(tmp_path))
    monkeypatch.setattr(scalar_run, "CHOSEN", ContextVar("chosen", default=way))
    device = IPUModel(tiles_per_ipu=1).create_device()
    graph = Graph(device)
    n, compute_set = graph.add_variable(INT, (), "n"), graph.add_compute_set()
    graph.set_tile_mapping(n, 0)
    graph.create_host_write("turns", n)
    graph.create_host_read("n", n)
    graph.set_tile_mapping(graph.add_vertex(compute_set, Turns, n=n), 0)
    engine = Engine(graph, Execute(compute_set))
    engine.load(device)
    engine.write_tensor("turns", 5)
    engine.run()  # compiled by now
    engine.write_tensor("turns", 5000)

    def endless(work: Any, bytes_in: Any, bytes_out: Any, sync: Any) -> Any:
        while way == "plain":
            pass
        engine.run()

    monkeypatch.setattr(time_limit, "LIMIT", 0.5)
    assert repr(check("01.1", endless)) == (
        "01.1 The time of a superstep: not yet\n"
        "  tried: endless([479, 25, 113], [198, 68, 504], [891, 198, 543], 138)\n"
        "  came:  no result: after 0.5 seconds it was stopped\n"
        "  next:  look for a loop that never ends, or for much more work than the exercise needs."
    )
    assert engine.read_tensor("n") == 5000
    monkeypatch.setattr(time_limit, "LIMIT", 60)
    assert check("01.1", right)
    engine.write_tensor("turns", 7)
    engine.run()
    assert engine.read_tensor("n") == 7


def works(seconds: float) -> float:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass
    return seconds


def test_on_a_busy_machine_an_answer_has_its_time_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As if the processor were others' three quarters of the time."""
    monkeypatch.setattr(time_limit, "process_time", lambda: time.perf_counter() / 4)
    assert time_limit.within(0.2, lambda: works(0.6)) == 0.6
    with pytest.raises(time_limit.TooLong):
        time_limit.within(0.2, lambda: works(60))


@pytest.mark.parametrize("worked", [0.0, 0.39])
def test_what_sleeps_is_stopped_by_the_clock(
    worked: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if it slept at once, and just before its time is over: what it did before that counts for
    nothing, and gets it none of the time that it sleeps."""
    began = time.perf_counter()
    monkeypatch.setattr(time_limit, "queued_time", lambda: 0.0)  # a sleeping thread does not queue
    monkeypatch.setattr(
        time_limit, "process_time", lambda: min(time.perf_counter() - began, worked)
    )
    with pytest.raises(time_limit.TooLong):
        time_limit.within(0.4, lambda: works(3))


def test_no_check_loads_a_compiler() -> None:
    """Stopped halfway it would stay half loaded, and every later loop of the kernel would fail."""
    seen: list[str] = []

    def answer(*numbers: Any) -> int:
        seen.append(scalar_run.CHOSEN.get())
        return 0

    check("01.1", answer)
    assert set(seen) == {"python"} and scalar_run.CHOSEN.get() == ""


def test_what_is_bound_between_two_checks_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a check noted is put back within that check, and by nothing that runs after it."""
    with monkeypatch.context() as while_checked:
        while_checked.setattr(notebooks, "NOTEBOOKS", Path("elsewhere"))
        check("01.3", lambda work: 0.0)
    before = notebooks.NOTEBOOKS
    assert before != Path("elsewhere")
    calling.call(abs, -1)  # as checks call what a learner gives them
    assert before == notebooks.NOTEBOOKS


@pytest.mark.parametrize(
    ("waited", "worked", "queued", "over"),
    [
        (5, 1, 0, False),
        (5, 4.5, 0, True),
        (70, 3, 0, True),
        (70, 3, 60, False),
        (3, 0, 0, False),
    ],
)
def test_half_of_the_time_is_processor_time(
    waited: float, worked: float, queued: float, over: bool
) -> None:
    """On a busy machine a check waits for its turn; where it sleeps, the clock counts."""
    clock, processor, queue = time_limit.times()
    began = time_limit.BEGAN.set((clock - waited, processor - worked, queue - queued))
    try:
        assert time_limit.half_is_over() is over
    finally:
        time_limit.BEGAN.reset(began)


@pytest.mark.parametrize("queues", [True, False])
def test_a_thread_that_waits_for_a_processor_does_not_sleep(
    queues: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine under load the limit stays one of processor time."""
    monkeypatch.setattr(time_limit, "queued_time", time.perf_counter if queues else lambda: 0.0)

    def answer() -> str:
        time.sleep(1.0)
        return "done"

    if queues:
        assert time_limit.within(0.4, answer) == "done"
    else:
        with pytest.raises(time_limit.TooLong):
            time_limit.within(0.4, answer)


def test_the_time_in_the_queue_only_grows() -> None:
    before = time_limit.queued_time()
    assert 0 <= before <= time_limit.queued_time()
