"""Executables: compiled once, saved to one file without pickle, and read back with every number
checked."""

from __future__ import annotations

import importlib
import io
import os
import subprocess
import sys
import textwrap
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import numpy as np
import pytest
from damage import lied, parts, refuses_truncated, survives_flips, whole
from graphs import Space, differences, random_copy, random_superstep

from ipu_teach import (
    BOOL,
    FLOAT,
    INT,
    Engine,
    Executable,
    Graph,
    InOut,
    Input,
    IPUModel,
    Output,
    Vector,
    Vertex,
    compile_graph,
)
from ipu_teach.errors import (
    ControlProgramError,
    ExecutableLoadError,
    InvalidOptionError,
    NotOfferedError,
)
from ipu_teach.graph.vertex import template
from ipu_teach.poplibs import popnn, popops
from ipu_teach.program import (
    Abort,
    AbortOnCondition,
    Block,
    Call,
    Copy,
    ErrorProgram,
    Execute,
    If,
    PrintTensor,
    PrintTensorFmt,
    Program,
    Repeat,
    RepeatWhileTrue,
    Sequence,
    Switch,
    Sync,
    SyncType,
    WriteUndef,
    cycle_count,
)
from ipu_teach.saving.writer import EXECUTABLE

DAMAGED = "The executable is damaged"


class AddTo(Vertex):
    x: Input[Vector[FLOAT]]
    y: Input[Vector[FLOAT]]
    z: Output[Vector[FLOAT]]
    scale: FLOAT = 1.0

    def compute(self) -> None:
        self.z = self.scale * (self.x + self.y)


class CountUp(Vertex):
    x: InOut[INT]
    limit: Input[INT]
    go: Output[BOOL]

    def compute(self) -> Any:
        self.x += 1
        self.go = self.x < self.limit
        return self.x < 4


def adder() -> tuple[Graph, Program]:
    """z = x + y over four elements: 1, 2, 3, 4 plus 4, 3, 2, 1."""
    graph = Graph(IPUModel(tiles_per_ipu=2).create_device())
    x, y = graph.add_variable(FLOAT, (4,), "x"), graph.add_constant(FLOAT, (4,), [4, 3, 2, 1], "y")
    z = graph.add_variable(FLOAT, (4,), "z")
    for tensor in (x, y, z):
        graph.set_tile_mapping(tensor, 1)
    graph.set_initial_value(x, [1, 2, 3, 4])
    step = graph.add_compute_set("add")
    vertex = graph.add_vertex(step, AddTo, x=x, y=y[::1], z=z)
    graph.set_tile_mapping(vertex, 0)
    graph.set_perf_estimate(vertex, 25)
    graph.create_host_read("z", z)
    graph.create_host_write("x", x)
    return graph, Execute(step)


def loaded(executable: Executable) -> Engine:
    engine = Engine(executable)
    engine.load(IPUModel(tiles_per_ipu=executable.target.tiles_per_ipu).create_device())
    return engine


# --- compile once ---------------------------------------------------------------------------------


def test_an_executable_runs_in_many_engines() -> None:
    executable = compile_graph(*adder())
    assert repr(executable) == "Executable(1 program, 2 tiles)"
    for _ in range(2):
        engine = loaded(executable)
        engine.run()
        assert engine.read_tensor("z").tolist() == [5, 5, 5, 5]
        assert engine.executable is executable


def test_later_changes_of_the_graph_are_not_in_it() -> None:
    graph, program = adder()
    executable = compile_graph(graph, program)
    before = executable.serialize()
    graph.set_initial_value(graph.host_accesses["x"].tensor, 0)
    graph.add_compute_set("more")
    engine = loaded(executable)
    engine.run()
    assert engine.read_tensor("z").tolist() == [5, 5, 5, 5]
    assert executable.serialize() == before


def test_progress_goes_from_nothing_to_the_end() -> None:
    seen: list[tuple[int, int]] = []
    compile_graph(*adder(), progress=lambda step, total: seen.append((step, total)))
    assert seen == [(0, 3), (1, 3), (2, 3), (3, 3)]


def test_what_belongs_to_compiling_is_not_given_again() -> None:
    graph, program = adder()
    executable = compile_graph(graph, program)
    with pytest.raises(ControlProgramError) as caught:
        Engine(executable, program)
    assert str(caught.value) == (
        "Engine was given an executable, but also Execute(add) as its programs.\n"
        "  next:  write Engine(executable): an executable has its own programs."
    )
    for name in ("strict", "merge_copies"):
        with pytest.raises(InvalidOptionError) as refused:
            Engine(executable, **{name: False})
        assert str(refused.value) == (
            f"Engine was given {name}=False for an executable, which is already compiled.\n"
            f"  next:  set {name} when the graph is compiled: compile_graph(graph, programs, {name}=…)."
        )
    with pytest.raises(InvalidOptionError) as odd:
        compile_graph(graph, program, progress=3)  # type: ignore[arg-type]
    assert str(odd.value) == (
        "compile_graph() was given 3 as its progress, which is not a function.\n"
        "  next:  give a function of (step, total)."
    )
    assert Engine(executable, {"debug.instrument": False}).options["debug.instrument"] is False


# --- there and back -------------------------------------------------------------------------------


def test_a_saved_executable_gives_the_same_in_another_process(tmp_path: Path) -> None:
    script = """
        import sys
        from ipu_teach import *
        from ipu_teach.program import Execute

        class AddTo(Vertex):
            x: Input[Vector[FLOAT]]
            y: Input[Vector[FLOAT]]
            z: Output[Vector[FLOAT]]

            def compute(self):
                self.z = self.x + self.y

        if sys.argv[1] == "save":
            graph = Graph(IPUModel(tiles_per_ipu=2).create_device())
            x, y = graph.add_constant(FLOAT, (4,), [1, 2, 3, 4]), graph.add_constant(FLOAT, (4,), [4, 3, 2, 1])
            z = graph.add_variable(FLOAT, (4,), "z")
            for tensor in (x, y, z):
                graph.set_tile_mapping(tensor, 1)
            step = graph.add_compute_set("add")
            graph.set_tile_mapping(graph.add_vertex(step, AddTo, x=x, y=y, z=z), 0)
            graph.create_host_read("z", z)
            compile_graph(graph, Execute(step)).save(sys.argv[2])
        executable = Executable.load(sys.argv[2])
        engine = Engine(executable)
        engine.load(IPUModel(tiles_per_ipu=2).create_device())
        engine.run()
        print(engine.read_tensor("z").tolist(), engine.report.total_cycles)
    """
    code = tmp_path / "program.py"
    code.write_text(textwrap.dedent(script), encoding="utf-8")
    said = [
        subprocess.run(
            [sys.executable, str(code), what, str(tmp_path / "adder.ipu")],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])},
        ).stdout
        for what in ("save", "load")
    ]
    assert said[0].startswith("[5.0, 5.0, 5.0, 5.0] ") and said[1] == said[0]
    assert sorted(os.listdir(tmp_path)) == ["adder.ipu", "program.py"]


def test_codelets_of_templates_are_made_again_in_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They exist only once a call has made them, with plain values and functions of numpy: who
    loads a file has made none."""
    text = """if True:
        from ipu_teach import FLOAT, Input, Output, Vector, Vertex

        class Fold(Vertex):
            x: Input[Vector[FLOAT]]
            out: Output[FLOAT]

            def compute(self):
                self.out = self.by.reduce(self.x) * self.times
    """
    (tmp_path / "folding.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    fold = template(
        importlib.import_module("folding").Fold, "Fold<maximum>", {}, by=np.maximum, times=2.5
    )
    graph = Graph(IPUModel(tiles_per_ipu=2).create_device())
    x = graph.add_constant(FLOAT, (4,), [1, 2, 3, 4])
    graph.set_tile_mapping(x, 1)
    prog, folded = Sequence(), graph.add_variable(FLOAT, (), "folded")
    step = graph.add_compute_set("fold")
    for part in (folded, graph.add_vertex(step, fold, x=x, out=folded)):
        graph.set_tile_mapping(part, 0)
    prog.add(Execute(step))
    graph.create_host_read("folded", folded)
    graph.create_host_read(
        "y", popops.sqrt(graph, popnn.relu(graph, popops.mul(graph, x, 4.0, prog), prog), prog)
    )
    compile_graph(graph, prog).save(tmp_path / "roots.ipu")
    code = f"""if True:
        import folding
        from ipu_teach import Engine, Executable, IPUModel
        from ipu_teach.poplibs.popnn import nonlinearity
        from ipu_teach.poplibs.popops import elementwise_codelets as codelets
        engine = Engine(Executable.load({str(tmp_path / "roots.ipu")!r}))
        engine.load_and_run(IPUModel(tiles_per_ipu=2).create_device())
        print(engine.read_tensor("y").tolist(), engine.read_tensor("folded"))
    """
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    ).stdout
    assert said == f"{np.sqrt(4 * np.arange(1, 5, dtype=np.float32)).tolist()} 10.0\n"


def everything() -> tuple[Graph, list[Program]]:
    """A graph and programs that use every kind of program."""
    graph = Graph(IPUModel(tiles_per_ipu=3).create_device())
    x, limit = graph.add_variable(INT, (), "x"), graph.add_variable(INT, (), "limit")
    go, ok = graph.add_variable(BOOL, (), "go"), graph.add_variable(BOOL, (), "ok")
    spare = graph.add_variable(FLOAT, (3, 4), "spare")
    for tensor in (x, limit, go, ok, spare):
        graph.set_tile_mapping(tensor, 1)
    graph.set_initial_value(x, 0)
    graph.set_initial_value(limit, 5)
    graph.set_initial_value(spare, np.arange(12).reshape(3, 4))
    step = graph.add_compute_set("count up")
    graph.set_tile_mapping(graph.add_vertex(step, CountUp, x=x, limit=limit, go=go), 2)
    for tensor, name in ((x, "x"), (go, "go"), (ok, "ok"), (spare, "spare")):
        graph.create_host_read(name, tensor)
    stream = graph.add_host_to_device_fifo("in", FLOAT, 6, buffering_depth=2)
    bump = graph.add_function(Sequence(Execute(step, ok)), "bump")
    counted = Sequence(RepeatWhileTrue(Call(bump), go, Sequence()), name="counted")
    graph.create_host_read("cycles", cycle_count(graph, counted, 0))
    shown = PrintTensor("spare", spare.transpose(), PrintTensorFmt(digits=2, separator=", "))
    first = Sequence(
        counted,
        If(go, Abort("no"), shown),
        Switch(x, [(5, Block(shown, "five")), (-1, Abort("never"))]),
        Repeat(2, Copy(stream, spare.flatten()[::2])),
        Copy(spare[0], spare[1]),
        Sync(SyncType.GLOBAL),
        WriteUndef(go),
    )
    return graph, [
        first,
        AbortOnCondition(ok, "ok"),
        ErrorProgram("boom", shown),
        Switch.switch_with_bounds_checking(x, []),
    ]


def played(executable: Executable) -> list[Any]:
    engine = loaded(executable)
    engine.connect_stream("in", np.arange(12, dtype=np.float32))
    printed = io.StringIO()
    engine.set_print_tensor_stream(printed)
    found: list[Any] = []
    for index in range(4):
        try:
            engine.run(index)
        except Exception as error:
            found.append(str(error))
    names = ("x", "ok", "spare", "cycles")
    found += [engine.read_tensor(n).tolist() for n in names]
    found += [printed.getvalue(), [(s.kind, s.name, s.cycles) for s in engine.report.steps()]]
    return found


def test_every_kind_of_program_comes_back() -> None:
    executable = compile_graph(*everything())
    data = executable.serialize()
    again = Executable.deserialize(io.BytesIO(data))
    assert again.serialize() == data
    assert played(again) == played(executable)
    assert [(s.handle, s.buffering_depth) for s in Engine(again).list_streams()] == [("in", 2)]


@pytest.mark.parametrize("seed", range(12))
def test_random_graphs_come_back(seed: int) -> None:
    rng = Random(seed)
    space = Space(IPUModel(tiles_per_ipu=5).create_device(), rng)
    steps: list[Program] = []
    for _ in range(3):
        steps += [Execute(random_superstep(rng, space).compute_set), random_copy(rng, space)[0]]
    executable = compile_graph(
        space.graph, [Sequence(*steps), Repeat(2, Sequence(*steps[:2]))], strict=False
    )
    data = executable.serialize()
    used = {codelet for cs in space.graph.compute_sets for codelet in cs.tables}
    again = Executable.deserialize(data, codelets=used)
    assert again.serialize() == data
    found = []
    for made in (executable, again):
        engine = Engine(made)
        engine.load(space.device)
        engine.run(0)
        engine.run(1)
        report = engine.report
        memory = {name: engine.read_tensor(name) for name in space.variables}
        steps_run = [(s.kind, s.name, s.cycles) for s in report.steps()]
        found.append(
            (memory, steps_run, report.memory.bytes_per_tile.tolist(), report.graph_size())
        )
    assert not differences(found[0][0], found[1][0])
    assert found[0][1:] == found[1][1:]


def test_the_library_comes_back() -> None:
    from ipu_teach.poplibs import poplin, popops, poputil

    graph = Graph(IPUModel(tiles_per_ipu=4).create_device())
    a, b = graph.add_variable(FLOAT, (6, 8), "a"), graph.add_variable(FLOAT, (8, 3), "b")
    for number, tensor in enumerate((a, b)):
        poputil.map_tensor_linearly(graph, tensor)
        graph.set_initial_value(tensor, np.random.default_rng(number).standard_normal(tensor.shape))
    program = Sequence()
    result = popops.reduce(
        graph, popops.mul(graph, poplin.mat_mul(graph, a, b, program), 2.5, program), [0], program
    )
    graph.create_host_read("result", result)
    executable = compile_graph(graph, program)
    engines = [loaded(executable), loaded(Executable.deserialize(executable.serialize()))]
    for engine in engines:
        engine.run()
    assert engines[0].read_tensor("result").tobytes() == engines[1].read_tensor("result").tobytes()
    assert engines[0].report.cycles_by_codelet() == engines[1].report.cycles_by_codelet()


def test_options_and_checks_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "archive.ipu"
    graph, program = adder()
    Engine(
        graph,
        program,
        {"target.saveArchive": str(path), "debug.instrument": False},
        strict={"uninitialised": False},
    )
    executable = Executable.load(path)
    assert executable.checks == {"races": True, "uninitialised": False, "estimates": True}
    assert Engine(executable).options["debug.instrument"] is False
    assert Engine(executable).options["target.saveArchive"] == ""
    assert Engine(executable, {"debug.instrument": True}).options["debug.instrument"] is True


# --- codelets -------------------------------------------------------------------------------------


def saved_with(codelet: type[Vertex]) -> bytes:
    graph = Graph(IPUModel(tiles_per_ipu=1).create_device())
    x = graph.add_variable(FLOAT, (2,), "x")
    graph.set_tile_mapping(x, 0)
    graph.set_initial_value(x, 1)
    step = graph.add_compute_set()
    graph.set_tile_mapping(graph.add_vertex(step, codelet, x=x), 0)
    graph.create_host_read("x", x)
    return compile_graph(graph, Execute(step)).serialize()


def double(factor: int = 2, kind: str = "same") -> type[Vertex]:
    """Classes of one name: with another method, another constant, or another field."""
    if kind == "method":

        class Double(Vertex):
            x: InOut[Vector[FLOAT]]
            factor: ClassVar[int] = 2

            def compute(self) -> None:
                self.x += self.x
    elif kind == "field":

        class Double(Vertex):  # type: ignore[no-redef]
            x: InOut[Vector[INT]]
            factor: ClassVar[int] = 2

            def compute(self) -> None:
                self.x *= self.factor
    else:

        class Double(Vertex):  # type: ignore[no-redef]
            x: InOut[Vector[FLOAT]]
            factor: ClassVar[int]

            def compute(self) -> None:
                self.x *= self.factor

        Double.factor = factor  # type: ignore[misc]
    return Double


def test_the_newest_of_equal_classes_is_taken() -> None:
    data = saved_with(double())
    again = double()
    engine = loaded(Executable.deserialize(data))
    assert engine.executable.compiled.graph.compute_sets[0].tables[0].codelet is again
    engine.run()
    assert engine.read_tensor("x").tolist() == [2, 2]


@pytest.mark.parametrize(
    ("other", "where"),
    [
        ({"kind": "method"}, "the text of its methods has changed"),
        ({"factor": 3}, "the text of its methods has changed"),
        ({"kind": "field"}, "its field 'x' was inout Vector[FLOAT] and is inout Vector[INT]"),
    ],
)
def test_another_codelet_of_that_name_is_refused(other: dict[str, Any], where: str) -> None:
    data = saved_with(double())
    with pytest.raises(ExecutableLoadError) as caught:
        Executable.deserialize(data, codelets=[double(**other)])
    assert str(caught.value) == (
        "The codelet double.<locals>.Double has changed since the executable was saved.\n"
        f"  where: {where}\n"
        "  next:  load it with the code that saved it, or compile the graph again."
    )


def test_a_codelet_that_is_not_here_is_named() -> None:
    header, arrays = parts(compile_graph(*adder()).serialize())
    header["codelets"][0].update(name="Subtract", module="tutorial")
    with pytest.raises(ExecutableLoadError) as caught:
        Executable.deserialize(whole(header, arrays))
    assert str(caught.value) == (
        "The executable uses the codelet Subtract, but this process has not defined it.\n"
        "  where: the executable was saved with Subtract of module tutorial\n"
        "  next:  import tutorial, or pass it: Executable.load(path, codelets=[…])."
    )


def test_codelets_of_two_modules_that_both_fit() -> None:
    first = double(5)
    data = saved_with(first)
    second = double(5)
    second.__module__ = "elsewhere"
    with pytest.raises(ExecutableLoadError) as caught:
        Executable.deserialize(data)
    assert str(caught.value) == (
        "Several codelets named double.<locals>.Double match the executable.\n"
        f"  where: modules elsewhere, {first.__module__}\n"
        "  next:  pass the right one: Executable.load(path, codelets=[…])."
    )
    assert (
        loaded(Executable.deserialize(data, [second]))
        .executable.compiled.graph.compute_sets[0]
        .tables[0]
        .codelet
        is second
    )


@pytest.mark.parametrize("codelets", ["Double", Vertex, [3], 7])
def test_codelets_are_a_list_of_classes(codelets: Any) -> None:
    with pytest.raises(
        ExecutableLoadError, match="next:  give a list of vertex classes: codelets="
    ):
        Executable.deserialize(compile_graph(*adder()).serialize(), codelets)


# --- files ----------------------------------------------------------------------------------------


def test_saving_replaces_a_file_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.ipu"
    executable = compile_graph(*adder())
    executable.save(path)
    before = path.read_bytes()
    assert before == executable.serialize() and os.listdir(tmp_path) == ["a.ipu"]

    def full(*names: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(InvalidOptionError) as caught:
        executable.save(path)
    assert str(caught.value).startswith("The executable cannot be written to ")
    assert str(caught.value).endswith(
        ": No space left on device.\n  next:  give the path of a file in a folder that exists and "
        "may be written to."
    )
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["a.ipu"]


@pytest.mark.parametrize("path", ["", 3, None, "a\0b", "no/such/folder/a.ipu"])
def test_paths_that_are_none(path: Any) -> None:
    with pytest.raises(InvalidOptionError):
        compile_graph(*adder()).save(path)
    with pytest.raises((InvalidOptionError, ExecutableLoadError)):
        Executable.load(path)


def test_a_file_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ExecutableLoadError) as caught:
        Executable.load("gone.ipu")
    assert str(caught.value) == (
        "The file 'gone.ipu' cannot be read: No such file or directory.\n"
        "  next:  give the path of a file that Executable.save wrote."
    )


# --- files that are wrong -------------------------------------------------------------------------


def refusal(data: bytes) -> str:
    with pytest.raises(ExecutableLoadError) as caught:
        Executable.deserialize(data)
    return str(caught.value)


def test_what_is_no_executable() -> None:
    again = "\n  next:  load a file that Executable.save wrote; if it was copied, copy it again."
    assert refusal(b"GIF89a") == (
        f"The file is not a valid executable, or it is damaged: BadZipFile: 'File is not a zip file'.{again}"
    )
    assert refusal(b"") == refusal(b"GIF89a")
    assert refusal(whole({"format": "other"}, {})) == (
        "The file is a zip file, but contains no executable of this kit.\n  next:  load a file that "
        "Executable.save wrote."
    )
    assert refusal(whole("{", {})).startswith(
        "The file is not a valid executable, or it is damaged: JSONDecodeError: "
    )
    assert refusal(whole("[" * 10**6, {})).startswith(
        "The file is not a valid executable, or it is damaged: RecursionError: "
    )
    for odd in (3, None, "x.ipu"):
        with pytest.raises(ExecutableLoadError, match=r"^deserialize\(\) was given "):
            Executable.deserialize(odd)  # type: ignore[arg-type]


def test_a_newer_format() -> None:
    assert refusal(whole({"format": EXECUTABLE.name, "version": EXECUTABLE.version + 1}, {})) == (
        f"The executable has format version {EXECUTABLE.version + 1}, but this kit reads only up to version "
        f"{EXECUTABLE.version}.\n  next:  update ipu_teach, or save the executable again with this "
        "version."
    )


def test_a_zip_bomb() -> None:
    header, arrays = parts(compile_graph(*adder()).serialize())
    text = (
        "The zip file was not written by this kit: its members are compressed, duplicated or "
        "overlapping.\n  next:  load a file that Executable.save wrote."
    )
    assert (
        refusal(whole(header, {**arrays, "values.npy": bytes(10**7)}, zipfile.ZIP_DEFLATED)) == text
    )
    stored = whole(header, arrays)
    with (
        zipfile.ZipFile(buffer := io.BytesIO(stored), "a") as file,
        pytest.warns(UserWarning, match="Duplicate"),
    ):
        file.writestr("values.npy", b"")
    assert refusal(buffer.getvalue()) == text


def test_truncated_files() -> None:
    refuses_truncated(
        compile_graph(*everything()).serialize(), Executable.deserialize, ExecutableLoadError, 97
    )


def test_flipped_bits() -> None:
    """A checksum covers what is stored; elsewhere in the container a flip may change nothing."""
    survives_flips(
        compile_graph(*everything()).serialize(), Executable.deserialize, ExecutableLoadError, 3
    )


Change = Callable[[dict[str, Any]], None]


def _set(*path: Any) -> Change:
    *way, last, value = path

    def change(header: dict[str, Any]) -> None:
        place: Any = header
        for key in way:
            place = place[key]
        place[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            _set("tensors", 0, 1, 10**9),
            f"{DAMAGED}: ['FLOAT', 1000000000, 0] is not a view of the variables.",
        ),
        (
            _set("tensors", 0, 1, -1),
            f"{DAMAGED}: -1 is not a whole number from 0 to 281,474,976,710,656.",
        ),
        (_set("tensors", 0, 2, 99), f"{DAMAGED}: 99 is not a whole number from 0 to 1."),
        (
            _set("tensors", 0, 0, "DOUBLE"),
            f"{DAMAGED}: 'DOUBLE' is not a dtype (known are FLOAT, HALF, BOOL, ",
        ),
        (_set("layouts", 1, "shape", [2**40]), f"{DAMAGED}: "),
        (_set("layouts", 1, "strides", [2**47]), f"{DAMAGED}: "),
        (
            _set("layouts", 1, {"parts": [[0, 1]]}),
            f"{DAMAGED}: 1 is not a whole number from 0 to 0.",
        ),
        (
            _set("variables", 0, 2, [2**50]),
            f"{DAMAGED}: 1125899906842624 is not a whole number from 0 to 281,474,976,710,656.",
        ),
        (
            _set("variables", 0, 2, [2**47]),
            f"{DAMAGED}: The variable 'x' of shape (140737488355328,) is too large.",
        ),
        (
            _set("variables", 0, 2, [64]),
            f"{DAMAGED}: 192 is not the size of its variables, 384 bytes.",
        ),
        (_set("variables", 0, 3, 1), f"{DAMAGED}: 1 is not true or false."),
        (_set("mapping", 1, 2**60), f"{DAMAGED}: "),
        (_set("compute_sets", 0, "tables", 0, "vertices", 2**60), f"{DAMAGED}: "),
        (
            _set("compute_sets", 0, "tables", 0, "codelet", 1),
            f"{DAMAGED}: 1 is not a whole number from 0 to 0.",
        ),
        (
            _set("codelets", 0, "fields", 0, 3, 2**40),
            f"{DAMAGED}: 1099511627776 is not a whole number from 0 to 2.",
        ),
        (_set("steps", 0, "kind", "Fly"), f"{DAMAGED}: 'Fly' is not a step that this kit knows."),
        (_set("nodes", 0, "step", 7), f"{DAMAGED}: 7 is not a whole number from 0 to 0."),
        (_set("programs", []), f"{DAMAGED}: [] is not a list of at least one program."),
        (_set("programs", {}), f"{DAMAGED}: {{}} is not a list."),
        (_set("host_accesses", 0, 0, 3), f"{DAMAGED}: 3 is not text."),
        (_set("initial_values", 0, 2, 3), f"{DAMAGED}: "),
        (
            _set("target", "fields", {"tiles_per_ipu": 2**40}),
            f"{DAMAGED}: A model cannot have tiles_per_ipu = 1099511627776.",
        ),
        (_set("target", "version", "ipu9"), f"{DAMAGED}: There is no machine 'ipu9'."),
        (
            _set("options", {"debug.fly": True}),
            f"{DAMAGED}: There is no engine option 'debug.fly'.",
        ),
        (_set("alignment", 32), f"{DAMAGED}: 32 is not the alignment of this kit, 64."),
        (_set("checks", {}), f"{DAMAGED}: an entry is missing."),
        (_set("version", 0), f"{DAMAGED}: 0 is not a whole number from 1 to 1,000,000."),
    ],
)
def test_headers_that_lie(change: Change, text: str) -> None:
    header, arrays = parts(compile_graph(*adder()).serialize())
    change(header)
    assert refusal(whole(header, arrays)).startswith(text)


def test_an_error_names_its_place() -> None:
    header, arrays = parts(compile_graph(*adder()).serialize())
    header["variables"][1][1] = 3
    assert refusal(whole(header, arrays)) == (
        "The executable is damaged: 3 is not text.\n"
        "  where: header.variables[1][1]\n"
        "  next:  save it again; a file that was changed by hand cannot be loaded."
    )


def test_a_program_that_unfolds_without_end() -> None:
    header, arrays = parts(compile_graph(*adder()).serialize())
    header["nodes"] += [{"kind": "Sequence", "name": "", "children": [i, i]} for i in range(60)]
    header["programs"] = [60]
    assert "is not a program of at most 1,000,000 nodes.\n  where: header.nodes[19]" in refusal(
        whole(header, arrays)
    )
    header["nodes"] = header["nodes"][:1] + [
        {"kind": "Sequence", "name": "", "children": [i]} for i in range(5000)
    ]
    header["programs"] = [5000]
    assert refusal(whole(header, arrays)).startswith(
        "The executable contains a program that does not compile: "
    )


def test_a_graph_that_does_not_compile() -> None:
    header, arrays = parts(compile_graph(*adder()).serialize())
    header["mapping"][1] = 0
    assert refusal(whole(header, arrays)) == (
        "The executable contains a program that does not compile: The variable 'x' is not mapped to any tile.\n"
        "  next:  save it again, from a graph that compiles."
    )


def test_a_file_whose_program_does_not_fit_is_named(tmp_path: Path) -> None:
    header, arrays = parts(compile_graph(*adder()).serialize())
    header["target"]["fields"]["control_code_bytes_per_step"] = 2**40
    file = tmp_path / "huge.ipu"
    file.write_bytes(whole(header, arrays))
    with pytest.raises(ExecutableLoadError) as caught:
        Executable.load(file)
    assert str(caught.value).startswith(
        "The executable contains a program that does not compile: Out of memory: "
    )
    assert f"\n  where: {file}, the fullest is tile 0: " in str(caught.value)


HOSTILE = [
    -1,
    0,
    1,
    2,
    10**6,
    2**31,
    2**40,
    2**63,
    2**70,
    None,
    True,
    "x",
    "FLOAT",
    [],
    {},
    [1],
    [[]],
    1.5,
    [2**40] * 2,
]


@pytest.mark.parametrize("seed", range(4))
def test_random_lies_are_refused_or_harmless(seed: int) -> None:
    rng = Random(seed)
    header, arrays = parts(compile_graph(*everything()).serialize())
    for _ in range(100):
        changed = lied(header, HOSTILE, rng)
        numbers = bytearray(arrays["numbers.npy"])
        if rng.randrange(3) == 0:
            at = 128 + 8 * rng.randrange((len(numbers) - 128) // 8)
            numbers[at : at + 8] = rng.choice(
                [-1, 0, 1, 5, 2**31, 2**40, -(2**63), 10**6]
            ).to_bytes(8, "little", signed=True)
        try:
            Executable.deserialize(whole(changed, {**arrays, "numbers.npy": bytes(numbers)}))
        except (ExecutableLoadError, NotOfferedError) as error:
            assert str(error)


def test_a_program_that_cannot_be_written_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ipu_teach.saving.writer.MOST_NODES", 3)
    with pytest.raises(NotOfferedError) as caught:
        compile_graph(*everything()).serialize()
    assert str(caught.value) == (
        "A program of more than 3 nodes cannot be saved in an executable.\n"
        "  next:  build the graph and run it in the same process: Engine(graph, program)."
    )
