"""The host's side of a run: streams, callbacks that prefetch, engines and the device they share,
and the profile's window."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ipu_teach import (
    FLOAT,
    Device,
    Engine,
    Graph,
    InOut,
    IPUModel,
    IPUTeachError,
    ReplicatedStreamMode,
    StreamCallback,
    Vector,
    Vertex as BaseVertex,
)
from ipu_teach.errors import (
    InvalidOptionError,
    ProfilingDisabledError,
    StreamConnectionError,
    TensorIOStateError,
)
from ipu_teach.program import Copy, Execute, Repeat, Sequence
from ipu_teach.types import Array

SIZE, REPEAT = 8, 5
SUCCESS, NOT_AVAILABLE = StreamCallback.Result.SUCCESS, StreamCallback.Result.NOT_AVAILABLE


class AddOne(BaseVertex):
    x: InOut[Vector[FLOAT]]

    def compute(self) -> None:
        self.x += 1


def increment(
    depth: int = 1, device: Device | None = None, repeat: int = REPEAT
) -> tuple[Engine, Device]:
    """An engine whose program takes `repeat` transfers from "in" and sends each, plus one, to
    "out"."""
    device = device or IPUModel(tiles_per_ipu=3).create_device()
    graph = Graph(device)
    x = graph.add_variable(FLOAT, (SIZE,), "x")
    graph.set_tile_mapping(x, 0)
    step = graph.add_compute_set("add one")
    graph.set_tile_mapping(graph.add_vertex(step, AddOne, x=x), 1)
    source = graph.add_host_to_device_fifo("in", FLOAT, SIZE, buffering_depth=depth)
    sink = graph.add_device_to_host_fifo("out", FLOAT, SIZE)
    graph.create_host_read("x", x)
    engine = Engine(graph, Repeat(repeat, Sequence(Copy(source, x), Execute(step), Copy(x, sink))))
    engine.load(device)
    return engine, device


class Numbers(StreamCallback):
    """Sends 0, 1, 2, …; of the prefetches, those that `refuse` names by number find nothing."""

    def __init__(self, refuse: Callable[[int], bool] = lambda number: False) -> None:
        self.refuse = refuse
        self.log: list[str] = []
        self.next = 0.0
        self.prefetches = 0

    def fill(self, array: Array) -> None:
        array[:] = self.next
        self.next += 1

    def prefetch(self, array: Array) -> StreamCallback.Result:
        self.prefetches += 1
        if self.refuse(self.prefetches):
            self.log.append("none")
            return NOT_AVAILABLE
        self.log.append(f"prefetch {self.next:.0f}")
        self.fill(array)
        return SUCCESS

    def fetch(self, array: Array) -> None:
        self.log.append(f"fetch {self.next:.0f}")
        self.fill(array)

    def complete(self) -> None:
        self.log.append("complete")

    def invalidate_prefetched(self) -> None:
        self.log.append("invalidate")


# --- callbacks ------------------------------------------------------------------------------------


def test_poplars_prefetch_example() -> None:
    """A new callback whenever the value changes: what the old one had prefetched is never used."""

    class Fill(StreamCallback):
        def __init__(self, value: float) -> None:
            self.value = value
            self.turn = 0

        def prefetch(self, array: Array) -> StreamCallback.Result:
            self.turn += 1
            array[:] = self.value
            return NOT_AVAILABLE if self.turn % 3 == 0 else SUCCESS

        def fetch(self, array: Array) -> None:
            array[:] = self.value

    engine, _ = increment(depth=2)
    out = np.zeros(SIZE, np.float32)
    engine.connect_stream("out", out)
    before = None
    for value in (1, 3, 3, 9, 9):
        if value != before:
            engine.connect_stream_to_callback("in", Fill(value))
        engine.run()
        np.testing.assert_array_equal(out, np.full(SIZE, value + 1))
        before = value


@pytest.mark.parametrize(
    ("depth", "log"),
    [
        (
            1,
            [
                "fetch 0",
                "complete",
                "prefetch 1",
                "complete",
                "prefetch 2",
                "complete",
                "prefetch 3",
            ],
        ),
        (
            3,
            [
                "fetch 0",
                "complete",
                "prefetch 1",
                "prefetch 2",
                "prefetch 3",
                "complete",
                "prefetch 4",
                "complete",
                "prefetch 5",
            ],
        ),
    ],
)
def test_a_stream_prefetches_up_to_its_depth(depth: int, log: list[str]) -> None:
    engine, _ = increment(depth, repeat=3)
    numbers, got = Numbers(), []
    engine.connect_stream("in", numbers)
    engine.connect_stream("out", got)
    engine.run()
    assert numbers.log == log
    assert [int(a[0]) for a in got] == [1, 2, 3]


@pytest.mark.parametrize("depth", [1, 2, 5])
@pytest.mark.parametrize(
    "refuse", [lambda n: True, lambda n: n % 2 == 0, lambda n: n % 3 == 1, lambda n: False]
)
def test_transfers_come_in_order_whatever_was_prefetched(
    depth: int, refuse: Callable[[int], bool]
) -> None:
    engine, _ = increment(depth)
    numbers, got = Numbers(refuse), []
    engine.connect_stream("in", numbers)
    engine.connect_stream("out", got)
    engine.run()
    engine.run()
    assert [int(a[0]) for a in got] == list(range(1, 2 * REPEAT + 1))
    assert numbers.log.count("complete") == 2 * REPEAT


def test_what_was_prefetched_goes_when_the_engine_is_loaded_or_the_stream_connected_anew() -> None:
    engine, device = increment(2, repeat=1)
    numbers, got = Numbers(), []
    engine.connect_stream("in", numbers)
    engine.connect_stream("out", got)
    engine.run()
    engine.load(device)
    engine.run()
    engine.connect_stream("in", np.zeros(SIZE, np.float32))
    assert [int(a[0]) for a in got] == [1, 4]  # 1 and 2 were prefetched, and thrown away
    assert [word for word in numbers.log if word == "invalidate"] == ["invalidate"] * 2


def test_a_callback_may_take_what_comes_from_the_device() -> None:
    class Take(StreamCallback):
        log: list[Any] = []

        def fetch(self, array: Array) -> None:
            self.log.append(array.tolist())

        def complete(self) -> None:
            self.log.append("complete")

    engine, _ = increment(repeat=2)
    engine.connect_stream("in", np.arange(2 * SIZE, dtype=np.float32))
    engine.connect_stream_to_callback("out", Take())
    engine.run()
    assert Take.log == [[*range(1, 9)], "complete", [*range(9, 17)], "complete"]


def test_functions_that_return_and_functions_that_fill() -> None:
    def fill(array: Array) -> None:
        array[:] = 4

    engine, _ = increment(repeat=1)
    got: list[Array] = []
    engine.connect_stream_to_callback("out", got.append)
    for function in (lambda: np.full(SIZE, 4.0), fill, lambda value=4.0: [value] * SIZE):
        engine.connect_stream_to_callback("in", function)
        engine.run()
    assert [a.tolist() for a in got] == [[5.0] * SIZE] * 3


@pytest.mark.parametrize("end", ["in", "out"])
def test_an_error_in_a_connected_function_names_the_stream(end: str) -> None:
    def broken(*values: Any) -> Any:
        raise ZeroDivisionError("nothing to divide by")

    engine, _ = increment()
    engine.connect_stream("in", np.zeros(SIZE, np.float32))
    engine.connect_stream("out", [])
    engine.connect_stream_to_callback(end, broken)
    with pytest.raises(StreamConnectionError) as caught:
        engine.run()
    assert str(caught.value) == (
        "The connected function failed: ZeroDivisionError: nothing to divide by.\n"
        f"  where: stream '{end}'\n"
        "  next:  look at the error above this one, which shows the line."
    )
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_an_interrupt_passes_through() -> None:
    def interrupted() -> Array:
        raise KeyboardInterrupt

    engine, _ = increment()
    engine.connect_stream("in", interrupted)
    engine.connect_stream("out", [])
    with pytest.raises(KeyboardInterrupt):
        engine.run()
    engine.connect_stream("in", np.zeros(SIZE, np.float32))
    engine.run()


def test_a_callback_that_answers_wrongly_or_has_no_fetch() -> None:
    class Yes(StreamCallback):
        def fetch(self, array: Array) -> None:
            array[:] = 0

        def prefetch(self, array: Array) -> Any:
            return True

    engine, _ = increment()
    engine.connect_stream("out", [])
    engine.connect_stream("in", Yes())
    with pytest.raises(StreamConnectionError) as caught:
        engine.run()
    assert str(caught.value) == (
        "Yes.prefetch() returned True, which is not a StreamCallback.Result.\n"
        "  where: stream 'in'\n"
        "  next:  return StreamCallback.Result.SUCCESS or StreamCallback.Result.NOT_AVAILABLE."
    )
    engine.connect_stream("in", StreamCallback())
    with pytest.raises(
        StreamConnectionError,
        match=r"StreamCallback has no fetch\(\)\.\n  next:  write `def fetch\(self, arr",
    ):
        engine.run()


# --- arrays ---------------------------------------------------------------------------------------


def test_without_wrap_each_transfer_is_at_the_start() -> None:
    engine, _ = increment(repeat=3)
    source, out = np.arange(20, dtype=np.float32), np.zeros(2 * SIZE, np.float32)
    engine.connect_stream("in", source, wrap=False)
    engine.connect_stream("out", out, wrap=False)
    engine.run()
    assert out.tolist() == [*range(1, 9)] + [0] * SIZE
    source[:] = 7
    engine.run()
    assert out.tolist() == [8] * SIZE + [0] * SIZE


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (
            np.zeros(3, np.float32),
            "The stream 'in' moves 8 elements in each transfer, but was connected to an array of 3.\n"
            "  next:  connect at least 8 elements: each transfer uses the first 8.",
        ),
        (
            range(3),
            "The stream 'in' was connected to range(0, 3) with wrap=False, which needs an array.\n"
            "  next:  leave out wrap=False, or connect an array, of which each transfer then uses the first elements.",
        ),
    ],
)
def test_without_wrap_only_arrays_will_do(data: Any, text: str) -> None:
    engine, _ = increment()
    with pytest.raises(StreamConnectionError) as caught:
        engine.connect_stream("in", data, wrap=False)
    assert str(caught.value) == text


def test_the_streams_are_listed() -> None:
    engine, _ = increment(depth=4)
    assert [
        (s.handle, s.to_device, s.num_elements, s.buffering_depth) for s in engine.list_streams()
    ] == [
        ("in", True, SIZE, 4),
        ("out", False, SIZE, 1),
    ]


def test_options_of_a_stream() -> None:
    graph = Graph(IPUModel(tiles_per_ipu=1).create_device())
    both = ReplicatedStreamMode.BROADCAST
    assert (
        graph.add_host_to_device_fifo("a", FLOAT, 1, both, {"bufferingDepth": "3"}).buffering_depth
        == 3
    )
    assert (
        graph.add_host_to_device_fifo("b", FLOAT, 1, options={"buffering_depth": 2}).buffering_depth
        == 2
    )
    assert graph.add_device_to_host_fifo("c", FLOAT, 1, {"buffering_depth": 2}).buffering_depth == 2


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            {"options": {"bufferDepth": 2}},
            "A stream has no option 'bufferDepth'.\n  where: stream 'a'\n"
            "  next:  did you mean 'buffering_depth'? Its only option is 'buffering_depth'.",
        ),
        (
            {"buffering_depth": 0},
            "The stream 'a' was given the buffering depth 0, which is not valid.\n"
            "  next:  give the number of transfers to prefetch, a whole number from 1 to 1,024.",
        ),
        (
            {"options": 2},
            "The stream 'a' was given the options 2, which are not a dict.\n  next:  give a dict: "
            "options={'buffering_depth': 2}.",
        ),
    ],
)
def test_wrong_options_of_a_stream(given: dict[str, Any], text: str) -> None:
    graph = Graph(IPUModel(tiles_per_ipu=1).create_device())
    with pytest.raises(InvalidOptionError) as caught:
        graph.add_host_to_device_fifo("a", FLOAT, 1, **given)
    assert str(caught.value) == text
    assert not graph.streams


# --- engines and devices --------------------------------------------------------------------------


def connected(engine: Engine) -> list[Array]:
    got: list[Array] = []
    engine.connect_stream("in", np.zeros(SIZE, np.float32))
    engine.connect_stream("out", got)
    return got


def test_a_device_holds_the_program_that_was_loaded_last() -> None:
    first, device = increment()
    connected(first)
    first.run()
    second, _ = increment(device=device)
    connected(second)
    text = (
        "Another engine has since been loaded on this device, but a device holds only one "
        "program.\n  where: "
        "Device(ipu2 model, 1 IPU, 3 tiles)\n  next:  call engine.load(device) again, which starts "
        "from the initial values. Or give each engine its own device."
    )
    for use in (first.run, lambda: first.read_tensor("x")):
        with pytest.raises(TensorIOStateError) as caught:
            use()
        assert str(caught.value) == text
    assert first.report.num_steps == 15
    second.run()
    first.load(device)
    first.run()
    with pytest.raises(TensorIOStateError):
        second.run()


def test_loading_twice_starts_again() -> None:
    engine, device = increment()
    got = connected(engine)
    engine.run()
    engine.load(device)
    assert engine.report.num_steps == 0
    engine.run()
    assert len(got) == 2 * REPEAT and engine.report.num_steps == 3 * REPEAT


def test_no_run_inside_a_run() -> None:
    engine, device = increment()
    engine.connect_stream("out", [])
    for call, name in ((engine.run, "run()"), (lambda: engine.load(device), "load()")):

        def again(call: Any = call) -> Array:
            call()
            return np.zeros(SIZE)

        engine.connect_stream("in", again)
        with pytest.raises(TensorIOStateError) as caught:
            engine.run()
        assert str(caught.value) == (
            f"{name} was called while the engine runs, by a function that is connected to a "
            "stream.\n  next:  wait until the run has ended."
        )


# --- the profile's window -------------------------------------------------------------------------


def test_the_profile_can_be_reset_and_switched_off() -> None:
    engine, _ = increment()
    connected(engine)
    engine.run(0, "warm up")
    one = engine.report
    engine.reset_execution_profile()
    assert engine.report.num_steps == 0
    engine.run()
    assert engine.get_report().total_cycles == one.total_cycles
    engine.disable_execution_profiling()
    engine.run()
    engine.enable_execution_profiling()
    engine.run(0, "last")
    report = engine.report
    assert (report.num_steps, report.unrecorded_steps) == (30, 15)
    assert [(r.program, r.name, r.first, r.last) for r in report.runs] == [
        (0, "", 0, 15),
        (0, "last", 15, 30),
    ]
    assert report.total_cycles == 2 * one.total_cycles
    assert [(r.name, r.last) for r in one.runs] == [("warm up", 15)]


def test_a_report_of_an_unrecorded_run_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    engine, _ = increment()
    connected(engine)
    engine.disable_execution_profiling()
    engine.run()
    for ask in (lambda r: r.total_cycles, lambda r: r.steps(), lambda r: r.cycles_by_codelet()):
        with pytest.raises(ProfilingDisabledError) as caught:
            ask(engine.report)
        assert str(caught.value) == (
            "The execution was not recorded: 15 steps ran while profiling was disabled.\n  next:  "
            "call engine.enable_execution_profiling(), or set the option debug.instrument, then "
            "run again."
        )
    engine.print_profile_summary(["Execution", "Cycles by vertex type"], show_execution_steps=True)
    assert capsys.readouterr().out.count("15 steps ran unrecorded, with profiling disabled.") == 3
    assert engine.report.memory.variable_bytes_per_tile.tolist() == [32, 0, 0]


def test_a_run_that_fails_is_recorded_as_far_as_it_came() -> None:
    engine, _ = increment()
    engine.connect_stream("in", iter([np.zeros(SIZE)] * 2))
    engine.connect_stream("out", [])
    with pytest.raises(StreamConnectionError, match="ran dry"):
        engine.run()
    assert (engine.report.num_steps, engine.report.runs[0].last) == (6, 6)


def test_a_name_of_a_run_is_text() -> None:
    engine, _ = increment()
    with pytest.raises(InvalidOptionError) as caught:
        engine.run(0, 3)  # type: ignore[arg-type]
    assert str(caught.value) == (
        'run() was given the name 3, which is not text.\n  next:  give text: run(0, "training").'
    )
    assert isinstance(caught.value, IPUTeachError)
