"""The fuzzer of record on three seeds of each kind, and that it finds, makes small and prints what
is wrong."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from fuzz import compare, files, loops, shrink, suite, writer
from fuzz.__main__ import (
    main,
    one_codelet,
    one_cost,
    one_program,
    one_replicated,
    run,
    smaller,
    tried,
)

from ipu_teach import Engine
from ipu_teach.compile.freeze import FrozenGraph
from ipu_teach.cost.exchange import Traffic
from ipu_teach.engine.machine import Machine
from ipu_teach.engine.scalar.compiled import numba_is_here
from ipu_teach.errors import ComputeSetRaceError, DatasetError, UninitialisedReadError
from ipu_teach.graph.layouts import Layout
from ipu_teach.program import CrossReplicaCopy

needs_numba = pytest.mark.skipif(not numba_is_here(), reason="numba is not installed")
FUZZ = Path(__file__).parent / "fuzz"
SEEDS = range(3)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_programs_on_every_way(seed: int) -> None:
    _, wrong = one_program(seed, compiled=False)
    assert not wrong, (seed, wrong)


TWO_MISTAKES = """
device = IPUModel(tiles_per_ipu=2).create_device()
graph = Graph(device)
program = Sequence()
feeds = {}
t1 = graph.add_variable(INT, (3,), "t1")
t2 = graph.add_variable(INT, (3,), "t2")
t3 = graph.add_variable(FLOAT, (3,), "t3")
t4 = graph.add_variable(FLOAT, (3,), "t4")
for k, t in enumerate((t1, t2, t3, t4)): graph.set_tile_mapping(t, k % 2)
graph.set_initial_value(t1, 99)
graph.set_initial_value(t2, 1)
c1 = graph.add_compute_set("c1")
v1 = graph.add_vertex(c1, Racing, x=t1, w=t2)
graph.set_tile_mapping(v1, 1)
program.add(Execute(c1))
program.add(Copy(t4, t3))
"""


def test_of_a_race_and_a_copy_of_what_nothing_wrote_either_may_be_told_first() -> None:
    lines = TWO_MISTAKES.strip().splitlines()
    assert compare.difference(lines, "batched") == ("ComputeSetRaceError", None)
    names = compare.built(lines)
    for merge, expected in ((False, ComputeSetRaceError), (True, UninitialisedReadError)):
        engine = Engine(
            names["graph"], names["program"], strict={"estimates": False}, merge_copies=merge
        )
        engine.load(names["device"])
        with pytest.raises(expected):
            engine.run()


def test_random_programs_end_in_all_the_ways_they_may() -> None:
    ends = Counter(
        compare.difference(writer.Writer(seed).lines, "batched")[0] for seed in range(50)
    )
    errors = {
        "ComputeSetRaceError",
        "UninitialisedReadError",
        "ApplicationRuntimeError",
        "CodeletError",
    }
    assert ends.keys() >= {"", *errors} and ends[""] >= 25, ends


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=needs_numba)])
def test_random_codelets_by_cpython_and_by_numba(
    compiled: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IPU_TEACH_CACHE", str(tmp_path))
    for seed in SEEDS:
        _, wrong = one_codelet(seed, compiled)
        assert not wrong, (seed, wrong)


def test_the_model_of_time_keeps_its_laws_on_random_programs_and_machines() -> None:
    for seed in SEEDS:
        assert not one_cost(seed, compiled=False)[1], seed


def test_a_law_that_does_not_hold_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exchange that is faster by a cycle with each byte."""
    monkeypatch.setattr(
        Traffic, "duration", lambda self, target: 100_000 - int(self.received.sum())
    )
    assert {"a longer message", "a further receiver"} <= {
        line.partition(":")[0]
        for seed in range(12)
        for line in one_cost(seed, compiled=False)[1].splitlines()
    }


def test_a_replica_that_gets_what_is_for_another_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [one_replicated(seed, compiled=False)[1] for seed in SEEDS] == [""] * len(SEEDS)
    seed = next(s for s in range(20) if not one_replicated(s, compiled=False)[0].endswith("Error"))
    monkeypatch.setattr(CrossReplicaCopy, "sources", property(lambda self: [*self.replica_map]))
    _, text = one_replicated(seed, compiled=False)
    assert "program.add(CrossReplicaCopy(" in text and ": values: t0: " in text.splitlines()[-1]


@pytest.mark.parametrize("kind", files.PARSERS)
def test_damaged_files_are_read_or_refused_by_name(kind: str, tmp_path: Path) -> None:
    for seed in SEEDS:
        _, wrong = files.one_file(kind, seed, tmp_path / str(seed))
        assert not wrong, (seed, wrong)


def test_what_goes_wrong_with_a_file_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers that run what stands in a file, take for ever, fail in a way of their own, or do not
    say which file it is."""

    def tried(read: Callable[[Path], object]) -> str:
        monkeypatch.setitem(files.PARSERS, "new", ("new.txt", lambda rng: b"text", read))
        return files.one_file("new", 0, Path(tempfile.mkdtemp(dir=tmp_path)))[1]

    def refuse(file: Path) -> None:
        raise DatasetError("This file is damaged.", next_step="take another")

    monkeypatch.setattr(files, "LONGEST", 0.05)
    assert tried(lambda file: (file.parent / files.MARK).mkdir()).endswith(
        "what stands in the file was run"
    )
    assert tried(lambda file: time.sleep(5)).endswith("takes more than 0.05 s") or not hasattr(
        signal, "setitimer"
    )
    assert tried(lambda file: int(file.read_text())).endswith(
        "ValueError: invalid literal for int() with base 10: 'text'"
    )
    assert "does not name the file, or what to do: This file is damaged." in tried(refuse)


def test_a_program_that_differs_is_made_small_and_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that forgets the last byte that a copy brings."""
    right = compare.ran

    def wrong(*given: Any) -> compare.Outcome:
        came = right(*given)
        for step in came.received:
            if step:
                step[next(iter(step))] -= 1
        return came

    monkeypatch.setattr(compare, "ran", wrong)
    seed = next(
        s
        for s in range(100)
        if compare.difference(writer.Writer(s).lines, "batched")[1] is not None
    )
    lines = writer.Writer(seed).lines
    found = compare.difference(lines, "batched")[1]
    assert found is not None and found.kind == "batched: bytes"
    text = smaller(lines, found, ["batched"])
    assert len(text.splitlines()) < len(lines) and len(text.splitlines()) <= 25
    assert "program.add(" in text and text.splitlines()[-1].startswith("# batched: bytes")
    code = [line for line in text.splitlines() if line in lines]
    assert tried(code, ["batched"]) is not None


def test_an_error_that_is_not_the_kits_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the way, while a program is built, and while it is compiled; but not what a spoiled
    program does to itself."""

    def broken(*given: Any, **named: Any) -> None:
        raise ZeroDivisionError("broken")

    lines = [
        "device = IPUModel(tiles_per_ipu=1).create_device()",
        "graph = Graph(device)",
        "feeds = {}",
        "program = Sequence()",
    ]
    lines += ["t1 = graph.add_variable(FLOAT, (2,), 't1')", "graph.set_tile_mapping(t1, 0)"]
    assert compare.difference(lines, "batched") == ("", None)
    for owner, name in ((Machine, "run"), (FrozenGraph, "__init__"), (Layout, "__init__")):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, broken)
            for spoiled in (False, True):
                wrong = compare.difference(lines, "batched", spoiled=spoiled)[1]
                assert wrong is not None and wrong.kind.endswith(
                    "ZeroDivisionError leaves the kit"
                ), wrong
    assert compare.difference([*lines, "t1 = 1 / 0"], "batched", spoiled=True) == (
        "ZeroDivisionError",
        None,
    )
    assert compare.difference([*lines, "t1 = t1[3]"], "batched", spoiled=True) == (
        "PoplarIndexError",
        None,
    )


def test_a_codelet_that_differs_is_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text of CPython's that costs a cycle more."""
    right = loops.outcome_of

    def wrong(*given: Any, **how: Any) -> loops.Ran:
        came = right(*given, **how)
        return came if how or came.error else came._replace(cycles=())

    monkeypatch.setattr(loops, "outcome_of", wrong)
    _, text = one_codelet(2, compiled=False)
    assert "def compute(self)" in text and text.splitlines()[-1].startswith("# python: cycles")
    assert len(text.splitlines()) < len(loops.source_of(2).splitlines())


def test_smallest_leaves_out_all_that_can_go() -> None:
    lines = [str(number) for number in range(40)]
    assert shrink.smallest(lines, lambda rest: {"3", "17", "39"} <= set(rest)) == ["3", "17", "39"]
    assert shrink.smallest(["1"], lambda rest: True) == ["1"]


def test_the_command_says_what_it_did(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for what, noun in (
        ("--graphs", "programs"),
        ("--codelets", "codelets"),
        ("--costs", "programs"),
        ("--replicas", "programs"),
        ("--tests", "tests"),
    ):
        words = ["--seed", "5", what, "3"]
        if what == "--graphs":
            said = subprocess.run(
                [sys.executable, str(FUZZ), *words], capture_output=True, text=True, timeout=200
            )
            status, out, err = said.returncode, said.stdout, said.stderr
        else:
            monkeypatch.setattr(sys, "argv", ["fuzz", *words])
            status = main()
            out, err = capsys.readouterr()
        assert status == 0, out + err
        assert out.splitlines()[0] == "seed 5"
        assert ("none fails" if noun == "tests" else "none differs") in out
        assert f"3 {noun} from seed 5" in out and f"{noun}, of 3" in err


@pytest.mark.parametrize("option", ["layers", "operations", "faces", "torch-samples"])
def test_an_option_that_needs_torch_says_so(
    option: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("fuzz.__main__.find_spec", lambda name: None)
    monkeypatch.setattr(sys, "argv", ["fuzz", f"--{option}", "3"])
    assert main() == 2
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err == (
        "fuzz: this option compares with torch, which is not installed; `python3 run.py doctor` "
        "prints the command that installs it\n"
    )


def test_usual_goes_with_samples(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["fuzz", "--usual"])
    with pytest.raises(SystemExit):
        main()
    assert capsys.readouterr().err.endswith("error: --usual goes with --torch-samples\n")


def test_the_option_that_needs_onnx_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("fuzz.__main__.find_spec", lambda name: None)
    monkeypatch.setattr(sys, "argv", ["fuzz", "--onnx-nodes"])
    assert main() == 2
    assert capsys.readouterr().err == (
        "fuzz: this option compares with onnx, which is not installed; "
        "`.venv/bin/python -m pip install onnx` installs it\n"
    )


def test_node_tests_of_onnx_are_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of the tests of mod, those of integers are equal and others refused; a wrong result is named."""
    pytest.importorskip("onnx", reason="onnx is not installed: the extra `onnx` adds it")
    monkeypatch.setattr(sys, "argv", ["fuzz", "--onnx-nodes", "--only", "test_mod_mixed_sign_"])
    assert main() == 0
    text = capsys.readouterr().out
    equal, refused = (int(re.search(rf"(\d+) {end}", text)[1]) for end in ("equal", "refused,"))
    assert equal >= 3 and f"{equal + refused} tests of onnx" in text and "0 differ" in text
    monkeypatch.setattr("ipu_teach.popart.InferenceSession.run", lambda self, io: None)
    assert main() == 1
    text = capsys.readouterr().out
    assert "DIFFERS test_mod_mixed_sign_int32: [0.0, 0.0," in text and " 0 equal" in text


def test_a_random_test_that_fails_on_a_seed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(rng: Random) -> None:
        print("not to be seen")
        assert rng.random() < 0, "no draw is"

    names = list(suite.random_tests())
    assert len(names) > 20 and "test_exact.py::test_random_graphs_equal_the_vertex_loop" in names

    def raises_nothing(rng: Random) -> None:
        with pytest.raises(ZeroDivisionError):
            rng.random()

    for test, reason in ((fails, "AssertionError: no draw is"), (raises_nothing, "DID NOT RAISE")):
        monkeypatch.setattr(suite, "random_tests", lambda test=test: {"test_a.py::test_b": test})
        name, text = suite.one_test(7)
        assert name == "test_a.py::test_b" and text.startswith(name) and reason in text


def test_ctrl_c_ends_it_with_what_was_done(capsys: pytest.CaptureFixture[str]) -> None:
    def one(seed: int) -> tuple[str, str]:
        if seed == 12:
            raise KeyboardInterrupt
        return "fine", ""

    assert run(one, "programs", 10, 100, 100) == 0
    assert "2 programs from seed 10" in capsys.readouterr().out
