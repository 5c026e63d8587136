"""No answer makes a check raise or go on for ever, whatever it is or does; and what it rebinds is
put back."""

from __future__ import annotations

import builtins
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from answers import Names
from fuzz.threads import still_printing

import ipu_teach
from ipu_course import check, share
from ipu_course.checking import printed, quoting, time_limit
from ipu_course.checking.state import learned
from ipu_course.checking.verdict_panel import Bars
from ipu_course.checking.verdicts import Kind
from ipu_teach import FLOAT, Graph
from ipu_teach.program import Copy, Execute, Repeat, RepeatWhileTrue, Sequence


def right(work: list[int], bytes_in: list[int], bytes_out: list[int], sync: int) -> int:
    return sync + -(-max([*bytes_in, *bytes_out]) // 4) + max(work)


def refuse(*_: Any) -> Any:
    raise SystemExit("no")


class Hostile:
    """Refuses everything that Python asks of an object."""

    __repr__ = __str__ = __float__ = __int__ = __eq__ = __array__ = __len__ = __iter__ = (
        __bool__
    ) = __hash__ = refuse  # type: ignore[assignment]
    __getattr__ = refuse


class Nonsense:
    """Gives nonsense."""

    __signature__ = 7
    __name__ = 7
    __code__ = 7

    def __array__(self, *_: Any, **__: Any) -> Any:
        return "x"

    def __float__(self) -> Any:
        return "x"

    def __repr__(self) -> Any:
        return 7

    def __call__(self, *_: Any) -> Any:
        return self


class Number(float):
    """A number that is none when asked."""

    def __float__(self) -> Any:
        raise ValueError("no")

    def __abs__(self) -> Any:
        raise GeneratorExit


class Untold(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


class UntoldValue(Untold, ValueError):
    pass


class UntoldType(Untold, TypeError):
    pass


def raises(error: BaseException) -> Callable[..., Any]:
    def answer(*_: Any) -> Any:
        raise error

    return answer


def itself() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


def deep(*_: Any) -> Any:
    return deep(*_)


def changes_its_list(work: list[Any], *_: Any) -> int:
    work[0] = Hostile()
    return 1


class Answer:
    __getattr__ = refuse

    def __call__(self, *_: Any) -> Any:
        return 1


ODD = {
    "SystemExit": (raises(SystemExit(3)), "exit() ends the whole program"),
    "GeneratorExit": (raises(GeneratorExit()), "GeneratorExit"),
    "StopIteration": (raises(StopIteration()), "StopIteration"),
    "an error without words": (raises(Untold()), "came: Untold line: test_hostile.py"),
    "a ValueError without words": (
        raises(UntoldValue()),
        "came: UntoldValue line: test_hostile.py",
    ),
    "a TypeError without words": (raises(UntoldType()), "came: UntoldType line: test_hostile.py"),
    "an error of the kit, half made": (
        raises(ipu_teach.errors.PoplarError.__new__(ipu_teach.errors.PoplarError)),
        "judge",
    ),
    "deep recursion": (deep, "RecursionError"),
    "hostile": (lambda *_: Hostile(), "no"),
    "nonsense": (lambda *_: Nonsense(), "<Nonsense>, which is not a number"),
    "nonsense that is called": (Nonsense(), "not a number"),
    "a number that is none": (lambda *_: Number(1), ""),
    "a list that holds itself": (lambda *_: itself(), "[[...]], which is not a number"),
    "an argument made hostile": (changes_its_list, ""),
    "no attributes": (Answer(), "came: SystemExit: no"),
    "no function": (7, "takes a function, but was given 7"),
    "a class": (Hostile, ""),
    "a C function": (max, "TypeError"),
}


@pytest.mark.parametrize("name", ["01.1", "01.2"])
@pytest.mark.parametrize(("answer", "says"), ODD.values(), ids=ODD)
def test_an_odd_answer_gets_a_verdict(name: str, answer: Any, says: str) -> None:
    verdict = check(name, answer)
    assert not verdict and verdict.kind is not Kind.NOT_ATTEMPTED
    assert "Traceback" not in repr(verdict) and verdict._repr_html_()
    assert name != "01.1" or says in " ".join(repr(verdict).split()), repr(verdict)
    assert learned().record(name)["attempts"] == 1


def test_a_right_answer_whose_code_cannot_be_read_passes() -> None:
    def answer(*given: Any) -> Any:
        return right(*given)

    answer.__wrapped__ = answer  # type: ignore[attr-defined]
    assert check("01.1", answer)
    assert "cannot be read" in repr(share("01.1"))


def test_a_check_without_an_answer_gets_a_verdict() -> None:
    assert "was given 0 answers; it takes 1." in repr(check("01.1"))
    assert "was given 2 answers; it takes 1." in repr(check("01.1", right, 5))
    assert repr(check("01.5", ("thirds", 3, 4))) == (
        "01.5 Point at the race: not yet\n"
        "  tried: nothing yet\n"
        "  came:  check('01.5') was given 1 answer; it takes 2.\n"
        "  next:  give it a value and a graph."
    )


def countdown_of_itself(graph: Graph, left: Any, ticks: Any) -> Any:
    program = Sequence()
    program.add(Repeat(2, program))
    return program


def taken_names(graph: Graph, left: Any, ticks: Any) -> Any:
    stream = graph.add_device_to_host_fifo("check/rounds0", left.dtype, 1)
    graph.create_host_read('it\'s "left"', left)
    compute_set = graph.add_compute_set("a 'quoted' compute set '")
    return RepeatWhileTrue(Sequence(Copy(left, stream)), left, Execute(compute_set))


def grown(graph: Graph, left: Any, ticks: Any) -> Any:
    program = Sequence(Copy(left, ticks))
    for _ in range(40):
        program = Sequence(program, program)
    return program


def the_checks_own_handle(graph: Graph, a: Any, b: Any) -> None:
    graph.create_host_read("b", b)
    graph.set_tile_mapping(b, 0)


@pytest.mark.parametrize(
    ("name", "answer", "says"),
    [
        ("02.4", countdown_of_itself, "contains itself"),
        ("02.4", taken_names, "still running after 1,000 iterations"),
        ("02.4", grown, "after 0.5 seconds it was stopped"),
        ("02.3", the_checks_own_handle, "all of `b` is on one tile"),
    ],
)
def test_an_odd_program_gets_a_verdict(
    name: str, answer: Any, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time_limit, "LIMIT", 0.5 if "stopped" in says else 8)
    text = " ".join(repr(check(name, answer)).split())
    assert says in text


def test_names_with_quotes_in_the_lessons_own_graph(names_of: Callable[[str], Names]) -> None:
    names = names_of("01")
    graph = Graph(names["device"])
    variable = graph.add_variable(FLOAT, (4,), "it's")
    compute_set = graph.add_compute_set("a 'quoted' one")
    for _ in range(2):
        graph.set_tile_mapping(graph.add_vertex(compute_set, names["Fill"], out=variable), 0)
    graph.set_tile_mapping(variable, 0)
    assert "the race in another" in repr(check("01.5", ("shift", 0, 1), graph))
    assert check("01.5", ("a 'quoted' one", 0, 1), graph)


# --- answers that come to no end ------------------------------------------------------------------


def turns(*_: Any) -> Any:
    while True:
        pass


def calls(*_: Any) -> Any:
    while True:
        len(())


def catches(*_: Any) -> Any:
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass


def catches_asleep(*_: Any) -> Any:
    while True:
        try:
            time.sleep(0.01)
        except BaseException:
            continue


def swallows(*_: Any) -> Any:
    try:
        while True:
            pass
    except BaseException:
        return right(*_)


def becomes_another(*_: Any) -> Any:
    try:
        turns()
    finally:
        raise ValueError


class Endless:
    def __repr__(self) -> str:
        return turns()  # type: ignore[no-any-return]


def endless_repr(*_: Any) -> Any:
    return Endless()


def endless_program(graph: Any, readings: Any, doubled: Any, pairs: Any, flipped: Any) -> Any:
    one = graph.add_constant(ipu_teach.INT, (), 1)
    graph.set_tile_mapping(one, 0)
    return RepeatWhileTrue(Sequence(), one, Sequence())


@pytest.mark.parametrize(
    "answer",
    [
        turns,
        calls,
        catches,
        catches_asleep,
        swallows,
        becomes_another,
        endless_repr,
        endless_program,
    ],
    ids=lambda f: f.__name__,
)
def test_what_has_no_end_is_stopped_and_spoils_nothing(
    answer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "01.4" if answer is endless_program else "01.1"
    monkeypatch.setattr(time_limit, "LIMIT", 0.2)
    monkeypatch.setattr(time_limit, "AGAIN", (0.1, 0.1))
    begin = time.perf_counter()
    text = repr(check(name, answer))
    assert time.perf_counter() - begin < 8
    assert "after 0.2 seconds it was stopped" in text
    assert learned().record(name)["attempts"] == 1
    end = time.perf_counter() + 0.05
    while time.perf_counter() < end:  # nothing comes late
        len(())
    monkeypatch.undo()
    assert time_limit.within(8, lambda: 3) == 3


def test_a_call_that_cannot_be_stopped_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(time_limit, "LIMIT", 0.1)
    monkeypatch.setattr(time_limit, "AGAIN", (0.05, 0.05))
    assert "it was stopped" in repr(check("01.1", lambda *_: time.sleep(1)))
    assert capsys.readouterr().err.count("Interrupt the kernel") == 1


@pytest.mark.skipif(
    os.name != "posix", reason="sends this process what an interruption by hand sends"
)
def test_a_call_that_cannot_be_stopped_is_interrupted_by_hand(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A lock that nobody lets go: the interruption wakes it, and the check ends in its verdict."""
    monkeypatch.setattr(time_limit, "LIMIT", 0.1)
    monkeypatch.setattr(time_limit, "AGAIN", (0.05, 0.05))
    lock = threading.Lock()
    lock.acquire()
    by_hand = threading.Timer(0.6, os.kill, (os.getpid(), signal.SIGINT))
    by_hand.start()
    begin = time.perf_counter()
    assert "after 0.1 seconds it was stopped" in repr(check("01.1", lambda *_: lock.acquire()))
    assert 0.5 < time.perf_counter() - begin < 8
    by_hand.join()


def test_hostile_answers_in_a_notebooks_own_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nbclient = pytest.importorskip("nbclient", reason="the extra lab is not installed")
    nbformat = pytest.importorskip("nbformat", reason="the extra lab is not installed")
    monkeypatch.setenv("IPU_TEACH_WORK", str(tmp_path))
    cells = [
        "import threading, time\nfrom ipu_course import check, share\nfrom ipu_course.checking import time_limit\n"
        "time_limit.LIMIT, time_limit.AGAIN = 0.3, (0.1, 0.1)",
        "def turns(*_):\n    while True: pass\ncheck('01.1', turns)",
        "def leaves(*_): exit()\ncheck('01.1', leaves)",
        "def asks(*_): return input()\ncheck('01.1', asks)",
        "def sleeps(*_): time.sleep(1)\ncheck('01.1', sleeps)",
        "def right(work, i, o, sync): return sync + -(-max([*i, *o]) // 4) + max(work)\n"
        "time_limit.LIMIT = 8\ncheck('01.1', right)",
    ]
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source) for source in cells]
    )
    nbclient.NotebookClient(notebook, timeout=60, kernel_name="python3").execute()
    said = [" ".join(str(output) for output in cell.outputs) for cell in notebook.cells]
    assert (
        "after 0.3 seconds it was stopped" in said[1]
        and "after 0.3 seconds it was stopped" in said[4]
    )
    assert "exit() ends the whole program; an answer ends with `return`." in said[2]
    assert "01.1 The time of a superstep: " in said[3] and "passed" not in said[3]
    assert "Interrupt the kernel" in said[4] and "passed" in said[5]
    assert not any(
        output.output_type == "error" for cell in notebook.cells for output in cell.outputs
    )


def test_no_exception_comes_late() -> None:
    """Work that ends at the very moment at which its time is over."""
    for number in range(60):
        seconds = 0.001 + number * 1e-5
        end = time.perf_counter() + seconds
        try:
            while time.perf_counter() < end:
                pass
            time_limit.within(
                seconds,
                lambda end=end: [None for _ in iter(lambda: time.perf_counter() < end, False)],
            )
        except time_limit.TooLong:
            pass


def test_all_of_it_is_over_within_ten_seconds() -> None:
    assert time_limit.LIMIT + sum(time_limit.AGAIN) + time_limit.BURST < 10


# --- what is rebound ------------------------------------------------------------------------------


def test_what_an_answer_rebinds_is_put_back_before_it_is_judged() -> None:
    was = (
        np.max,
        np.asarray,
        quoting.difference,
        ipu_teach.Engine.run,
        builtins.max,
        Graph.add_vertex,
    )

    def patches(work: Any, bytes_in: Any, bytes_out: Any, sync: Any) -> Any:
        np.max = np.asarray = lambda *_: 0  # type: ignore[assignment]
        quoting.difference = lambda *_: ""  # type: ignore[assignment]
        ipu_teach.Engine.run = Graph.add_vertex = builtins.max = None  # type: ignore[assignment, method-assign]
        ipu_teach.Tensor.__add__ = lambda *_: 0  # type: ignore[assignment, method-assign]
        np.seterr(all="raise")
        return 0

    assert "expected: " in repr(check("01.1", patches))
    assert was == (
        np.max,
        np.asarray,
        quoting.difference,
        ipu_teach.Engine.run,
        builtins.max,
        Graph.add_vertex,
    )
    assert np.geterr()["divide"] == "warn"
    assert check("01.1", right)


def test_an_engine_that_was_patched_judges_nothing() -> None:
    def patches(graph: Graph, left: Any, ticks: Any) -> Any:
        ipu_teach.Engine.read_tensor = ipu_teach.Engine.run = lambda *_: 0  # type: ignore[assignment, method-assign]
        return Sequence()

    assert "`left` and `ticks` do not change" in repr(check("02.4", patches))


def loud(work: list[int], bytes_in: list[int], bytes_out: list[int], sync: int) -> int:
    for line in range(5):
        print("line", line)
    return right(work, bytes_in, bytes_out, sync)


def test_an_answer_that_prints_is_heard_at_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert check("01.1", loud).kind is Kind.PASSED
    *first, last = capsys.readouterr().out.splitlines()
    assert first == [f"line {line}" for line in range(5)] * (printed.MOST_LINES // 5)
    count = int(last.split()[2].replace(",", ""))
    assert (
        last == f"… and {count:,} more lines that your answer printed while it was checked"
        and count % 5 == 0
    )


def test_a_line_without_end_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    with printed.first_lines():
        print("x" * 10**6, end="")
        print("y\nz")
    assert (
        capsys.readouterr().out
        == "x" * printed.MOST_CHARACTERS
        + "\n… and 2 more lines that your answer printed while it was checked\n"
    )
    with printed.first_lines():
        print("few", flush=True)
        assert not sys.stdout.isatty()
    assert capsys.readouterr().out == "few\n"


# --- what tells a mutant from a right codelet -----------------------------------------------------


@pytest.mark.parametrize(
    "tell",
    [
        lambda codelet: codelet.__name__,
        lambda codelet: codelet.__doc__,
        lambda codelet: codelet.__mro__[1:],
        lambda codelet: codelet.compute.__qualname__,
        lambda codelet: list(vars(codelet)),
        lambda codelet, seen=[0]: seen.append(0) or len(seen) % 8 < 3,
    ],
    ids=["name", "docstring", "classes", "compute", "attributes", "order"],
)
def test_a_mutant_is_found_by_running_it_and_by_nothing_else(tell: Any) -> None:
    """A test that knows each of the nine codelets by such a mark does not pass: the marks are one,
    or in another order each time."""
    marks: list[Any] = []
    check("04.4", lambda codelet: marks.append(tell(codelet)) or True)
    assert len(marks) == 9
    verdicts = [
        bool(check("04.4", lambda codelet, mark=mark: tell(codelet) == mark))
        for mark in (marks[0], True)
        for _ in range(4)
    ]
    assert not all(verdicts) and len({repr(mark) for mark in marks}) <= 2


class Agreeable:
    """Equal to whatever it is compared with, and never unequal."""

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    def __hash__(self) -> int:
        return 0


class Whole(Agreeable, int):
    pass


class Real(Agreeable, float):
    pass


class Word(Agreeable, str):
    pass


class Disguised(Agreeable):
    __class__ = int  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("name", "gives"),
    [
        ("00.1", (Whole(1), Real(2))),
        ("00.w1", Whole(-1)),
        ("00.w1", Disguised()),
        ("00.w1", Agreeable()),
        ("01.3", Real(-1)),
        ("06.1", (Whole(99), Whole(99), [Word("x")])),
        ("06.2", (Whole(1), Real(2))),
        ("06.4", (Word("x"), Word("y"), Word("type"))),
        ("06.w2", Word("x")),
    ],
    ids=lambda part: part if isinstance(part, str) else type(part).__name__,
)
def test_what_calls_itself_equal_is_compared_as_what_it_is(name: str, gives: Any) -> None:
    verdict = check(name, lambda *given: gives)
    assert verdict.kind is Kind.NOT_YET, repr(verdict)


@pytest.mark.parametrize("says", [10**400, np.inf])
def test_cycles_beyond_all_numbers_are_no_estimate(says: Any, names_of: Any) -> None:
    verdict = check("04.5", lambda length, new: says, names_of("04")["Peaks"])
    assert verdict.kind is Kind.NOT_YET and "worker cycles, a number" in repr(verdict)


def test_an_estimate_is_of_the_pages_own_codelet(names_of: Any) -> None:
    names = names_of("04")
    verdict = check("04.5", names["estimate"], names["RunningSum"])
    assert verdict.kind is Kind.NOT_YET and "the lesson's Peaks" in repr(verdict)


def test_a_thread_that_prints_on_ends_nothing() -> None:
    """Two processes; python3 run.py fuzz --threads 50 takes more."""
    assert [still_printing() for _ in range(2)] == [0] * 2


class OwnInterruption(KeyboardInterrupt):
    pass


class Nameless(Exception):
    def __str__(self) -> str:
        raise KeyboardInterrupt


class Bare(BaseException):
    pass


@pytest.mark.parametrize("kind", [OwnInterruption, Nameless, Bare])
def test_an_answers_own_kinds_of_errors_are_its_errors(kind: type[BaseException]) -> None:
    def answer(*given: Any) -> Any:
        raise kind

    verdict = check("01.1", answer)
    assert verdict.kind is Kind.ERROR and kind.__name__ in dict(verdict.rows)["came"]


def test_one_is_no_plural() -> None:
    assert Bars(2, 1, "supersteps").text()[1][1].endswith("| 1 superstep, 50 % under")
    assert Bars(1, 2, "bytes exchanged").text()[0][1].endswith("| 1 byte exchanged")
