"""Long tasks show their progress where somebody looks: on a terminal and below a cell.

Nowhere else do they show anything. Some tests look at the private state of `progress`: whether its
thread ended, and which tasks it still shows.
"""

from __future__ import annotations

import io
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from types import SimpleNamespace

import numpy as np
import pytest
import tqdm  # noqa: F401  which the first line would wait for

from ipu_teach import FLOAT, INT, Engine, Graph, Input, IPUModel, Output, Vector, Vertex
from ipu_teach._support import progress
from ipu_teach.program import Execute, If, Program, Repeat, Sequence


class Screen(io.StringIO):
    """A terminal that remembers."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Screen]:
    shown = Screen()
    monkeypatch.setattr(progress, "AFTER", 0.1)
    monkeypatch.setattr(progress, "EVERY", 0.02)
    # Not sys.stderr itself, which pytest puts back between a fixture and its test.
    monkeypatch.setattr(
        progress, "sys", SimpleNamespace(stderr=shown, stdout=shown, modules=sys.modules)
    )
    yield shown
    progress._end_growth()


def lines(screen: Screen) -> list[str]:
    return [line.strip() for line in screen.getvalue().split("\r") if line.strip()]


def wait(done: Callable[[], bool], shows: Callable[[], str] = str) -> None:
    end = time.monotonic() + 20
    while not done():
        assert time.monotonic() < end, repr(shows())[-300:]
        time.sleep(0.01)


def until(screen: Screen, words: str) -> None:
    """Wait until a line has these words."""
    wait(lambda: words in screen.getvalue(), screen.getvalue)


def test_work_says_how_far_it_is_and_what_it_does(screen: Screen) -> None:
    with progress.working("load") as work:
        until(screen, "load: 00:0")
        for number in work.each(range(4), 4):
            work.words = f"step {'abcd'[number]}"
            until(screen, f"{number}/4 steps")
        # within: the outermost has the line, the innermost the words
        with progress.working("numba compiles"):
            until(screen, "3/4 steps [00:0")
            until(screen, "numba compiles]")
    assert all(line.startswith("load: ") for line in lines(screen))
    assert any("step b]" in line and " 25%|" in line for line in lines(screen))
    assert (
        screen.getvalue().endswith("\r")
        and not screen.getvalue().rpartition("\r")[0].rpartition("\r")[2].strip()
    )


class Clock:
    """The time as `progress` sees it, which stands still until a test sets it on: what is to be
    quick is quick on a busy machine too."""

    def __init__(self) -> None:
        self.now, self.looks = 0.0, 0

    def perf_counter(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
        self.looks += 1

    def seen(self) -> Callable[[], bool]:
        """Whether somebody has looked, and is done with it, since this was asked for."""
        enough = self.looks + 2
        return lambda: self.looks >= enough


@pytest.fixture
def clock(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


def test_what_is_quick_shows_nothing(screen: Screen, clock: Clock) -> None:
    for _ in range(5):
        with progress.working("run"):
            clock.now += progress.AFTER * 0.9
            wait(clock.seen())
    assert screen.getvalue() == ""


@pytest.mark.parametrize("how", ["hidden", "switched off", "in a thread", "in a log"])
def test_where_nothing_is_shown(how: str, screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    def long() -> None:
        with progress.working("sweep", hidden=how == "hidden"), progress.working("run"):
            time.sleep(0.2)

    if how == "switched off":
        monkeypatch.setenv("IPU_TEACH_PROGRESS", "0")
    if how == "in a log":
        monkeypatch.setattr(screen, "isatty", lambda: False)
    job = threading.Thread(target=long) if how == "in a thread" else None
    if job is None:
        long()
    else:
        job.start()
        job.join()
    assert screen.getvalue() == ""


def test_a_line_that_cannot_be_drawn_stops_nothing(
    screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = threading.Event()
    monkeypatch.setattr(screen, "write", lambda text: tried.set() or 1 / 0)
    with progress.working("load"):
        assert tried.wait(20)
    with progress.working("load"):
        time.sleep(0.3)


def test_the_line_below_a_cell_is_one_output_that_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    display = pytest.importorskip("IPython.display")
    shown: list[tuple[str, str]] = []

    class Handle:
        def display(self, data: dict[str, str], raw: bool) -> None:
            shown.append(("display", data["text/plain"]))

        def update(self, data: dict[str, str], raw: bool) -> None:
            shown.append(("update", data["text/plain"]))

    monkeypatch.setattr(display, "DisplayHandle", Handle)
    cell = progress._Cell(Screen(), SimpleNamespace())
    for text in ("\r", "\rload: 1 of 2", "\rload: 2 of 2\x1b[A", "\r"):
        cell.write(text)
    assert shown == [("display", "load: 1 of 2"), ("update", "load: 2 of 2"), ("update", "")]


def test_an_error_takes_the_line_away(screen: Screen) -> None:
    with pytest.raises(KeyError), progress.working("load"):
        until(screen, "load: ")
        raise KeyError
    assert not progress._under_way and screen.getvalue().endswith("\r")


class InterruptingLock:
    """A lock that raises KeyboardInterrupt, once, when the main thread is to end its first work.

    The main thread enters it for the third time then.
    """

    def __init__(self, lock: threading.Lock) -> None:
        self.lock = lock
        self.times = 0

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            self.times += 1
            if self.times == 3:
                raise KeyboardInterrupt
        self.lock.acquire()

    def __exit__(self, *_: object) -> None:
        self.lock.release()


def test_a_line_is_shown_after_work_that_was_interrupted_at_its_end(
    screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = InterruptingLock(progress._lock)
    with monkeypatch.context() as patch:
        patch.setattr(progress, "_lock", lock)
        with pytest.raises(KeyboardInterrupt), progress.working("load"):
            pass
    assert lock.times == 3
    with progress.working("compile"):
        until(screen, "compile: ")


def test_a_thread_that_never_started_is_replaced(screen: Screen) -> None:
    """Ctrl-C may stop the start of the thread, too."""
    wait(lambda: progress._watcher is None)
    progress._watcher = threading.Thread(target=str)
    with progress.working("load"):
        until(screen, "load: ")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked there")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_begins_anew(screen: Screen) -> None:
    with progress.working("sweep"):
        until(screen, "sweep: ")
        child = os.fork()
        if child == 0:
            try:
                with progress._lock:  # which the thread of the parent may have held
                    os._exit(len(progress._under_way) + (progress._watcher is not None))
            finally:
                os._exit(9)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


class Slow(Vertex):
    out: Output[Vector[FLOAT]]

    def compute(self) -> None:
        time.sleep(0.02)
        self.out[:] = 1


def repeated(graph: Graph, inner: Program) -> Program:
    return Repeat(2, Sequence(inner, Repeat(10, inner)))


def depending(graph: Graph, inner: Program) -> Program:
    flag = graph.add_constant(INT, (), 1)
    graph.set_tile_mapping(flag, 0)
    return Sequence(Repeat(20, inner), If(flag, inner, inner))


@pytest.mark.parametrize(("form", "said"), [(repeated, "/22 steps"), (depending, " steps [")])
def test_a_run_counts_its_steps(form, said: str, screen: Screen) -> None:  # type: ignore[no-untyped-def]
    device = IPUModel(tiles_per_ipu=1).create_device()
    graph = Graph(device)
    out = graph.add_variable(FLOAT, (3,), "out")
    graph.set_tile_mapping(out, 0)
    compute_set = graph.add_compute_set("slowly")
    vertex = graph.add_vertex(compute_set, Slow, out=out)
    graph.set_tile_mapping(vertex, 0)
    graph.set_perf_estimate(vertex, 10)
    engine = Engine(graph, form(graph, Execute(compute_set)), vertex_loop=True)
    engine.load(device)
    engine.run()
    drawn = [line for line in lines(screen) if line.startswith("run 0: ")]
    counted = [line for line in drawn if said in line]
    # There is nothing to count before the run begins its steps and, without a total, until the first
    # step has ended.
    assert counted and drawn[-len(counted) :] == counted
    assert not any("step" in line for line in drawn[: -len(counted)])
    assert all("slowly]" in line for line in counted) is (form is repeated)
    counts = [int(line.split(said)[0].split()[-1]) for line in counted]
    assert counts == sorted(counts) and 0 < counts[-1] <= engine.report.num_steps


def test_steps_are_counted_as_they_run() -> None:
    """`length` and `leaf_at` of random trees, beside a walk over them."""
    from ipu_teach.compile.programs import Node

    source = np.random.default_rng(3)

    def tree(depth: int) -> Node:
        if depth == 0 or source.random() < 0.3:
            return Node("Execute", f"{source.integers(1000)}", step=int(source.integers(9)))
        children = tuple(tree(depth - 1) for _ in range(source.integers(0, 4)))
        if children and source.random() < 0.5:
            return Node("Repeat", "", children[:1], count=int(source.integers(0, 4)))
        return Node("Sequence", "", children)

    def walk(node: Node) -> list[Node]:
        return (
            [node]
            if node.step >= 0
            else node.count * [leaf for child in node.children for leaf in walk(child)]
        )

    for _ in range(300):
        node = tree(4)
        ran = walk(node)
        assert node.length == len(ran)
        assert [node.leaf_at(number) for number in range(len(ran))] == ran


class Copied(Vertex):
    x: Input[FLOAT]
    out: Output[FLOAT]

    def compute(self) -> None:
        self.out = self.x


class Building:
    """A learner's own loop, one vertex at a time."""

    def __init__(self) -> None:
        self.graph = Graph(IPUModel(tiles_per_ipu=1).create_device())
        self.x = self.graph.add_variable(FLOAT, (4,), "x")
        self.compute_set = self.graph.add_compute_set("copies")

    def until(self, done: Callable[[], bool]) -> None:
        end = time.monotonic() + 20
        while not done():
            assert time.monotonic() < end
            self.graph.add_vertex(self.compute_set, Copied, x=self.x[0], out=self.x[1])


def test_a_loop_that_adds_vertices_says_how_many_there_are(screen: Screen) -> None:
    b = Building()
    b.until(lambda: screen.getvalue().count("vertices so far") > 2)
    built = b.graph.num_vertices
    found = [
        re.fullmatch(r"build: \d\d:\d\d, ([\d,]+) vertices so far", line) for line in lines(screen)
    ]
    counts = [int(match[1].replace(",", "")) for match in found if match is not None]
    assert len(counts) == len(found)
    assert counts == sorted(counts) and 0 < counts[0] < counts[-1] <= built
    wait(lambda: screen.getvalue().endswith("  \r"), screen.getvalue)  # nothing more comes
    shown = screen.getvalue()
    time.sleep(0.1)
    assert screen.getvalue() == shown and progress.sys.stdout is screen
    b.until(lambda: len(screen.getvalue()) > len(shown))  # and then there come more


def test_a_loop_that_is_quick_or_hidden_shows_nothing(
    screen: Screen, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build(lasts: float) -> None:
        b = Building()
        b.until(lambda: b.graph.num_vertices == 50)
        clock.now += lasts * progress.AFTER
        end = time.monotonic() + 5 * progress.EVERY
        b.until(lambda: time.monotonic() > end)
        # A look that came after the next step of the clock would still find that this grew.
        wait(lambda: not (growth := progress._grows) or growth.still > 0)

    for _ in range(5):
        build(0.9)
    with progress.working("sweep", hidden=True):
        build(2)
    job = threading.Thread(target=build, args=[2])
    job.start()
    job.join()
    monkeypatch.setenv("IPU_TEACH_PROGRESS", "0")
    build(2)
    assert screen.getvalue() == ""
    monkeypatch.delenv("IPU_TEACH_PROGRESS")  # and where nothing of that is so, it is shown
    build(2)
    assert "vertices so far" in screen.getvalue()


def test_other_work_takes_the_place_of_the_count(screen: Screen) -> None:
    Building().until(lambda: "vertices so far" in screen.getvalue())
    with progress.working("compile"):
        until(screen, "compile: ")
        time.sleep(0.1)
    assert "vertices so far" not in screen.getvalue().partition("compile: ")[2]


def test_what_is_printed_takes_the_count_away_first(screen: Screen) -> None:
    b = Building()
    b.until(lambda: "vertices so far" in screen.getvalue())
    out = progress.sys.stdout
    out.write("so far so good\n")
    before, _, rest = screen.getvalue().rpartition("so far so good\n")
    assert before.endswith("  \r") and out.isatty()
    b.until(lambda: "vertices so far" in screen.getvalue().rpartition("good")[2])
    out.write("...")  # and no line begins within another
    shown = screen.getvalue()
    begun = time.monotonic()
    b.until(lambda: time.monotonic() > begun + 0.2)
    assert screen.getvalue() == shown and shown.endswith("  \r...")


def test_the_count_ends_with_its_cell(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[Callable[..., None]] = []
    events = SimpleNamespace(
        register=lambda name, call: ends.append(call),
        unregister=lambda name, call: ends.remove(call),
    )
    monkeypatch.setattr(
        progress, "_screen", lambda: progress._Cell(screen, SimpleNamespace(events=events))
    )
    shown: list[str] = []
    note = lambda self, data, raw: shown.append(data["text/plain"])  # noqa: E731
    monkeypatch.setattr(
        "IPython.display.DisplayHandle", type("Handle", (), {"display": note, "update": note})
    )
    b = Building()
    b.until(lambda: any("vertices so far" in line for line in shown))
    (end,) = ends
    end("what ran")
    assert not ends and shown[-1] == "" and progress._grows is None


ON_A_TERMINAL = """
import time
from ipu_teach._support import progress
with progress.working("compile") as work:
    while work._bar is None:
        time.sleep(0.01)
    time.sleep(0.2)
print("done")
"""
BUILT_ON_A_TERMINAL = """
import sys, time
from ipu_teach import FLOAT, Graph, IPUModel, Output, Vertex
class One(Vertex):
    out: Output[FLOAT]
    def compute(self): self.out = 1
graph = Graph(IPUModel(tiles_per_ipu=1).create_device())
x, cs, own = graph.add_variable(FLOAT, (), "x"), graph.add_compute_set("cs"), sys.stdout
begun = time.monotonic()
while sys.stdout is own or time.monotonic() < begun + 1.5:
    graph.add_vertex(cs, One, out=x)
print("done", 1, "\\n", end="")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such terminals there")
def on_a_terminal(program: str) -> bytes:
    """What a program shows on a terminal, its output and its errors there."""
    import fcntl
    import pty
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    job = Popen(
        [sys.executable, "-c", program],
        stdin=DEVNULL,
        stdout=theirs,
        stderr=theirs,
        cwd=Path(__file__).parents[1],
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # Linux's way to say that nothing more comes
            part = b""
        if not part:
            break
        shown += part
    os.close(ours)
    assert job.wait(60) == 0, shown
    return shown


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such terminals there")
def test_on_a_real_terminal_the_count_of_vertices_gives_way() -> None:
    shown = on_a_terminal(BUILT_ON_A_TERMINAL)
    count, blanks, done = shown.rpartition(b"\r")[0].rpartition(b" \r")
    assert (
        re.search(rb"\rbuild: 00:0[1-9], ", count) and count.endswith(b" ") and done == b"done 1 "
    ), shown


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such terminals there")
def test_on_a_real_terminal_it_comes_after_a_second() -> None:
    import fcntl
    import pty
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    begun = time.monotonic()
    job = Popen(
        [sys.executable, "-c", ON_A_TERMINAL],
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=theirs,
        cwd=Path(__file__).parents[1],
    )
    os.close(theirs)
    first = os.read(ours, 4096)
    seen = time.monotonic() - begun
    assert job.communicate(timeout=60)[0] == b"done\n"
    assert re.search(rb"compile: 00:0[1-9]", first + os.read(ours, 4096)) and seen > 1
    os.close(ours)
