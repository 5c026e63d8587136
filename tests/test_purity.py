"""What a compute() reaches beside its fields: the fast path gives what the plain vertex loop gives,
or leaves it to that."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from random import gauss
from types import SimpleNamespace

import numpy as np
import pytest
from vertex_loop import line_of, run_codelet

from ipu_teach import FLOAT, Engine, Graph, Input, IPUModel, Output, Vertex
from ipu_teach.compile.purity import random_state, set_random_state
from ipu_teach.errors import CodeletError
from ipu_teach.program import Execute

GENERATOR = np.random.default_rng(3)
SEEN: list[int] = []
TABLE = np.zeros(3)
COUNTS = {"calls": 0}
LIMIT = 2.0
clock = SimpleNamespace(ticks=0)
calls = 0


def helped() -> float:
    """A helper that draws a number by itself."""
    return float(np.random.rand())


def noted() -> int:
    SEEN.append(len(SEEN))
    return len(SEEN)


class NumpysRandom(Vertex):
    x: Input[FLOAT]
    out: Output[FLOAT]

    def compute(self):
        self.out = self.x + np.random.rand()  # the line


class PythonsRandom(Vertex):
    x: Input[FLOAT]
    out: Output[FLOAT]

    def compute(self):
        self.out = self.x + random.random()  # the line


class Imported(Vertex):
    x: Input[FLOAT]
    out: Output[FLOAT]

    def compute(self):
        self.out = self.x + gauss(0, 1)  # the line


class OwnGenerator(Vertex):
    x: Input[FLOAT]
    out: Output[FLOAT]

    def compute(self):
        self.out = self.x + GENERATOR.standard_normal()  # the line


class ByAHelper(Vertex):
    x: Input[FLOAT]
    out: Output[FLOAT]

    def compute(self):
        self.out = self.x + helped()


class Appends(Vertex):
    x: Input[FLOAT]
    out: Output[FLOAT]

    def compute(self):
        SEEN.append(1)
        self.out = self.x + len(SEEN)


class ByAHelperToo(Vertex):
    x: Input[FLOAT]
    out: Output[FLOAT]

    def compute(self):
        self.out = self.x + noted()


class Tabulates(Vertex):
    x: Input[FLOAT]
    out: Output[FLOAT]

    def compute(self):
        TABLE[0] += 1
        self.out = self.x + TABLE[0].item()


class CountsInADict(Vertex):
    x: Input[FLOAT]
    out: Output[FLOAT]

    def compute(self):
        COUNTS["calls"] += 1
        self.out = self.x + COUNTS["calls"]


class CountsInItsClass(Vertex):
    x: Input[FLOAT]
    out: Output[FLOAT]
    CALLS = [0]

    def compute(self):
        self.CALLS[0] += 1
        self.out = self.x + self.CALLS[0]


class Rebinds(Vertex):
    x: Input[FLOAT]
    out: Output[FLOAT]

    def compute(self):
        global calls
        calls += 1
        self.out = self.x + calls


DRAWS = "a random number is drawn, which differs in every vertex and run"
REASONS: dict[type[Vertex], str] = {
    NumpysRandom: DRAWS,
    PythonsRandom: DRAWS,
    Imported: DRAWS,
    OwnGenerator: DRAWS,
    ByAHelper: DRAWS,
    Appends: "SEEN is changed, and all vertices share it",
    ByAHelperToo: "SEEN is changed, and all vertices share it",
    Tabulates: "TABLE is changed, and all vertices share it",
    CountsInADict: "COUNTS['calls'] is changed, and all vertices share it",
    CountsInItsClass: "CALLS is changed, and all vertices share it",
    Rebinds: "calls is assigned, and all vertices share it",
}


def start_again() -> None:
    global GENERATOR, calls
    GENERATOR = np.random.default_rng(3)
    calls = 0
    SEEN.clear()
    TABLE[:] = 0
    COUNTS["calls"] = CountsInItsClass.CALLS[0] = 0
    random.seed(5)
    np.random.seed(5)


DRAWING = [codelet for codelet, reason in REASONS.items() if reason is DRAWS]


class DrawsInALoop(Vertex):
    """A trace stops at the loop, before a number is drawn."""

    x: Input[FLOAT]
    out: Output[FLOAT]

    def compute(self):
        total = self.x
        while total < 1:
            total = total + np.random.rand()
        self.out = total


@pytest.mark.parametrize("codelet", [*DRAWING, DrawsInALoop])
@pytest.mark.parametrize("estimated", [False, True])
def test_a_random_number_in_a_codelet_is_refused(codelet: type[Vertex], estimated: bool) -> None:
    graph = Graph(IPUModel(tiles_per_ipu=1).create_device())
    x, out = (graph.add_variable(FLOAT, (), name) for name in ("x", "out"))
    graph.set_initial_value(x, 0)
    work = graph.add_compute_set("work")
    vertex = graph.add_vertex(work, codelet, x=x, out=out)
    for mapped in (x, out, vertex):
        graph.set_tile_mapping(mapped, 0)
    if estimated:
        graph.set_perf_estimate(vertex, 100)
    with pytest.raises(CodeletError) as error:
        Engine(graph, Execute(work))
    first, *rest = str(error.value).splitlines()
    assert first == (
        f"{codelet.__name__}.compute() draws random numbers from the host, and each load would give "
        "other values."
    )
    assert "test_purity.py, line" in rest[0] and "of compute set 'work'" in rest[0]
    assert rest[-1] == (
        "  next:  draw them on the device, with poprand.normal or poprand.uniform, into a tensor "
        "that is an Input of the vertex. To run it as it is: Engine(…, strict=False)."
    )


@pytest.mark.parametrize("codelet", REASONS)
def test_what_differs_from_vertex_to_vertex_is_left_to_the_loop(codelet: type[Vertex]) -> None:
    """Every vertex and every run gets a number of its own, the one that the plain vertex loop gives
    it."""
    start_again()
    got = run_codelet(codelet, False, strict=False, runs=2, x=[0, 0, 0, 0], out=[9, 9, 9, 9])
    reason = got.report.unbatched()[codelet.__name__]
    assert REASONS[codelet] in reason and "test_purity.py, line" in reason
    if REASONS[codelet] is DRAWS and codelet is not ByAHelper:
        assert (
            f"test_purity.py, line {line_of(codelet, '# the line')} ({codelet.__name__}.compute)"
            in reason
        )
    start_again()
    plain = run_codelet(codelet, True, strict=False, runs=2, x=[0, 0, 0, 0], out=[9, 9, 9, 9])
    assert got.out.tolist() == plain.out.tolist()
    assert len(set(got.out.tolist())) == 4


class Counter:
    """A count that its own method, or another function, changes."""

    calls = 0

    def __init__(self) -> None:
        self.number = 0

    def add(self) -> int:
        self.number += 1
        return self.number


class SlottedCounter:
    __slots__ = ("number",)

    def __init__(self) -> None:
        self.number = 0


def in_a_list_of_lists() -> Callable[[], int]:
    numbers = [[0]]

    def count() -> int:
        numbers[0][0] += 1
        return numbers[0][0]

    return count


def in_a_tuple_of_dicts() -> Callable[[], int]:
    numbers = ({"calls": 0},)

    def count() -> int:
        numbers[0]["calls"] += 1
        return numbers[0]["calls"]

    return count


def in_a_deque() -> Callable[[], int]:
    numbers = deque([0])

    def count() -> int:
        numbers.append(numbers.pop() + 1)
        return numbers[0]

    return count


def in_an_array_of_one_number() -> Callable[[], int]:
    number = np.array(0)

    def count() -> int:
        number[...] += 1
        return int(number)

    return count


def in_an_array_of_lists() -> Callable[[], int]:
    numbers = np.empty(2, object)
    numbers[0] = [0]

    def count() -> int:
        numbers[0][0] += 1
        return int(numbers[0][0])

    return count


def by_an_objects_method() -> Callable[[], int]:
    counter = Counter()

    def count() -> int:
        return counter.add()

    return count


def in_a_slot() -> Callable[[], int]:
    counter = SlottedCounter()

    def count() -> int:
        counter.number += 1
        return counter.number

    return count


def in_a_class() -> Callable[[], int]:
    class Here(Counter):
        pass

    def count() -> int:
        Here.calls += 1
        return Here.calls

    return count


def in_a_namespace() -> Callable[[], int]:
    names = SimpleNamespace(numbers=[0])

    def count() -> int:
        names.numbers[0] += 1
        return int(names.numbers[0])

    return count


def in_an_attribute_of_a_function() -> Callable[[], int]:
    def count() -> int:
        count.number += 1  # type: ignore[attr-defined]
        return count.number  # type: ignore[attr-defined,no-any-return]

    count.number = 0  # type: ignore[attr-defined]
    return count


def in_a_default_value() -> Callable[[], int]:
    def count(numbers: list[int] = [0]) -> int:  # noqa: B006
        numbers[0] += 1
        return numbers[0]

    return count


def with_an_iterator() -> Callable[[], int]:
    numbers = itertools.count(1)

    def count() -> int:
        return next(numbers)

    return count


def with_a_generator() -> Callable[[], int]:
    numbers = (number for number in range(1, 1000))

    def count() -> int:
        return next(numbers)

    return count


def beside_a_large_table() -> Callable[[], int]:
    table = [[0] for _ in range(5000)]
    numbers = [0]

    def count() -> int:
        numbers[0] += 1 + table[0][0]
        return numbers[0]

    return count


def behind_an_own_assignment() -> Callable[[], int]:
    """The object has its own assignment, which is not the way to restore it."""

    class Doubling(Counter):
        def __setattr__(self, name: str, value: int) -> None:
            object.__setattr__(self, name, 2 * value)

    counter = Doubling()

    def count() -> int:
        counter.number = (counter.number + 2) // 2
        return counter.number // 2

    return count


PLACES = [
    beside_a_large_table,
    behind_an_own_assignment,
    in_a_list_of_lists,
    in_a_tuple_of_dicts,
    in_a_deque,
    in_an_array_of_one_number,
    in_an_array_of_lists,
    by_an_objects_method,
    in_a_slot,
    in_a_class,
    in_a_namespace,
    in_an_attribute_of_a_function,
    in_a_default_value,
    with_an_iterator,
    with_a_generator,
]


@pytest.mark.parametrize("place", PLACES)
def test_every_vertex_counts_wherever_the_count_is_kept(
    place: Callable[[], Callable[[], int]],
) -> None:
    """The vertices count on from each other, as a plain loop over them does, and the trace leaves no
    count behind."""

    def outputs(loop: bool) -> tuple[list[float], dict[str, str]]:
        count = place()

        class Counts(Vertex):
            x: Input[FLOAT]
            out: Output[FLOAT]

            def compute(self):
                self.out = self.x + count()

        got = run_codelet(Counts, loop, strict=False, x=[0, 0, 0, 0], out=[9, 9, 9, 9])
        return got.out.tolist(), {} if loop else got.report.unbatched()

    values, reasons = outputs(False)
    assert values == [1, 2, 3, 4] == outputs(True)[0]
    iterator = "numbers is an iterator, which every vertex advances"
    shared = "is changed, and all vertices share it"
    assert (iterator if place in (with_an_iterator, with_a_generator) else shared) in (
        reasons["Counts"]
    )


class AsksTheTime(Vertex):
    x: Input[FLOAT]
    out: Output[FLOAT]

    def compute(self):
        self.out = self.x + (time.perf_counter() > 0)


def test_the_time_is_asked_for_in_every_vertex() -> None:
    with pytest.raises(CodeletError, match="reads the clock of the host"):
        run_codelet(AsksTheTime, False, x=[1, 2], out=[0, 0])
    got = run_codelet(AsksTheTime, False, strict=False, x=[1, 2], out=[0, 0])
    assert got.out.tolist() == [2, 3]
    assert "the time is read" in got.report.unbatched()["AsksTheTime"]


class Looks(Vertex):
    """What is only looked at stays in the batch."""

    x: Input[FLOAT]
    out: Output[FLOAT]

    def compute(self):
        self.out = self.x * LIMIT + len(SEEN) + TABLE[1] + COUNTS["calls"] + clock.ticks


def test_what_is_only_looked_at_is_batched_and_compiling_draws_no_number() -> None:
    before = random.getstate(), np.random.get_state()[1].tolist()
    got = run_codelet(Looks, False, x=[1, 2], out=[0, 0])
    assert got.report.ways() == {"Looks": "batch"} and got.out.tolist() == [2, 4]
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before


def test_another_kind_of_generator_is_put_back_too() -> None:
    before = np.random.get_bit_generator()
    np.random.set_bit_generator(np.random.PCG64(5))
    try:
        state = random_state()
        drawn = random.random(), np.random.rand()
        assert random_state() != state
        set_random_state(state)
        assert random_state() == state and (random.random(), np.random.rand()) == drawn
    finally:
        np.random.set_bit_generator(before)


others: SimpleQueue[threading.Thread] = SimpleQueue()


def meanwhile() -> float:
    """A helper in whose time another thread works, once for each that is waiting."""
    if not others.empty():
        thread = others.get()
        thread.start()
        thread.join()
    return 1.0


class MeetsOthers(Vertex):
    x: Input[FLOAT]
    out: Output[FLOAT]

    def compute(self):
        self.out = self.x + meanwhile()


@pytest.mark.parametrize("draw", [random.random, np.random.rand])
def test_what_another_thread_draws_meanwhile_is_not_the_codelets(draw: Callable[[], float]) -> None:
    """A codelet is not a random one because of it, and the other thread's generator goes on from where
    it is."""
    start_again()
    wanted = [draw() for _ in range(4)][-1]
    start_again()
    for _ in range(3):
        others.put(threading.Thread(target=draw))
    got = run_codelet(MeetsOthers, False, x=[1, 2], out=[0, 0])
    assert got.report.ways() == {"MeetsOthers": "batch"} and got.out.tolist() == [2, 3]
    assert draw() == wanted and others.empty()
