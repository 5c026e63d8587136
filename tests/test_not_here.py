"""What Poplar has and the kit has not, asked for by its name, says what to use instead. And
programs as text."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

import ipu_teach.program
from ipu_teach import BOOL, FLOAT, Engine, Graph, IPUModel, Report
from ipu_teach.errors import NotOfferedError, PoplarError, UnknownNameError
from ipu_teach.poplibs.face import NOT_HERE
from ipu_teach.program import Block, Copy, If, Repeat, RepeatWhileTrue, Sequence, Sync


@pytest.fixture
def graph() -> Graph:
    return Graph(IPUModel(tiles_per_ipu=2).create_device())


def test_names_of_poplar_that_are_not_here_say_what_to_use(graph: Graph) -> None:
    tensor = graph.add_variable(FLOAT, 4, "x")
    graph.set_tile_mapping(tensor, 0)
    engine = Engine(graph, Sequence())
    for owner, name, text in (
        (
            graph,
            "reorder_to_simplify",
            "Graph.reorder_to_simplify is not offered by this kit.\n"
            "  next:  use instead: nothing: regions are found by the kit, in whatever order a view "
            "has.",
        ),
        (
            tensor,
            "associate_metadata",
            "Tensor.associate_metadata is not offered by this kit.\n  next:  use instead: "
            "tensor.reinterpret(QUARTER[format, scale]): format and scale are a part of the dtype.",
        ),
        (
            engine,
            "prepare",
            "Engine.prepare is not offered by this kit.\n  next:  use instead: load(device) does "
            "all of it.",
        ),
        (
            ipu_teach.program,
            "Loop",
            "ipu_teach.program.Loop is not offered by this kit.\n"
            "  next:  use instead: Repeat, RepeatWhileTrue or RepeatWhileFalse.",
        ),
    ):
        with pytest.raises(NotOfferedError) as caught:
            getattr(owner, name)
        assert str(caught.value) == text
        assert not hasattr(owner, name)


def test_every_advice_ends_in_a_full_stop_and_its_name_is_really_not_here(graph: Graph) -> None:
    for owner, table in (
        (Graph, Graph.not_here),
        (type(graph.add_variable(FLOAT, 1)), None),
        (Engine, Engine.not_here),
    ):
        for name, advice in (table if table is not None else owner.not_here).items():
            assert advice.endswith(".") and not hasattr(owner, name), name
    for name, advice in ipu_teach.program.NOT_HERE.items():
        assert advice.endswith(".") and name not in vars(ipu_teach.program)


def test_a_name_that_nobody_has_is_answered_with_the_nearest(graph: Graph) -> None:
    report = Report.sample("products")
    for owner, name, text in (
        (
            graph,
            "add_variabel",
            "Graph has no attribute 'add_variabel'.\n  next:  did you mean 'add_variable'?",
        ),
        (
            graph.add_variable(FLOAT, 2),
            "addd",
            "Tensor has no attribute 'addd'.\n  next:  help(Tensor) lists what it has.",
        ),
        (
            report,
            "cycles",
            "Report has no attribute 'cycles'.\n  next:  did you mean 'total_cycles'?",
        ),
        (
            report.execution,
            "cycles",
            "Execution has no attribute 'cycles'.\n  next:  did you mean 'total_cycles'?",
        ),
        (
            report.compilation,
            "tile",
            "Compilation has no attribute 'tile'.\n  next:  did you mean 'tiles'?",
        ),
        (
            ipu_teach.program,
            "Repeats",
            "ipu_teach.program has no attribute 'Repeats'.\n  next:  did you mean 'Repeat'?",
        ),
    ):
        with pytest.raises(UnknownNameError) as caught:
            getattr(owner, name)
        assert str(caught.value) == text
    with pytest.raises(ImportError):
        from ipu_teach.program import Nonsense  # type: ignore[attr-defined]  # noqa: F401


def test_what_python_and_jupyter_ask_for_is_answered_as_they_expect(graph: Graph) -> None:
    for name in ("_repr_png_", "__array__", "_ipython_display_"):
        with pytest.raises(AttributeError) as caught:
            getattr(graph, name)
        assert type(caught.value) is AttributeError


def test_a_program_as_text(graph: Graph) -> None:
    x, y = graph.add_variable(FLOAT, 4, "x"), graph.add_variable(FLOAT, 4, "y")
    flag = graph.add_variable(BOOL, (), "flag")
    copy = Copy(x, y)
    program = Sequence(
        Repeat(3, Sequence(copy, Sync(), name="inner")),
        If(flag, copy),
        RepeatWhileTrue(Sequence(), flag, Block(copy, "b")),
    )
    assert program.to_string() == "\n".join(
        [
            "Sequence()",
            "  Repeat(3)",
            "    Sequence(inner)",
            "      Copy('x' to 'y')",
            "      Sync(INTERNAL)",
            "  If('flag')",
            "    Copy('x' to 'y')",
            "    Sequence()",
            "  RepeatWhileTrue('flag')",
            "    Sequence()",
            "    Block('b')",
            "      Copy('x' to 'y')",
        ]
    )


def test_flops_are_not_counted(graph: Graph) -> None:
    with pytest.raises(NotOfferedError) as caught:
        graph.set_perf_estimate(None, 10, 20)  # type: ignore[arg-type]
    assert str(caught.value) == (
        "set_perf_estimate() was given flops, which this kit does not count.\n  next:  give only "
        "cycles."
    )


def test_modules_of_the_package_are_still_found() -> None:
    from ipu_teach import datasets, show

    assert datasets.digits and show.images
    with pytest.raises(UnknownNameError, match="did you mean 'Graph'"):
        ipu_teach.Grahp  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize(
    ("module", "name", "next_step"),
    [
        ("ipu_teach", "popops", "write from ipu_teach.poplibs import popops."),
        ("ipu_teach", "Copy", "write from ipu_teach.program import Copy."),
        ("ipu_teach", "DOUBLE", "use instead: FLOAT; no tile computes in 64 bits."),
        ("ipu_teach", "While", "use instead: Repeat, RepeatWhileTrue or RepeatWhileFalse."),
        ("ipu_teach", "poplar", "use instead: import ipu_teach as poplar."),
        ("ipu_teach", "check", "write from ipu_course import check."),
        ("ipu_teach", "nonsense", "help(ipu_teach) lists what it has."),
        (
            "ipu_teach.program",
            "While",
            "use instead: Repeat, RepeatWhileTrue or RepeatWhileFalse.",
        ),
        ("ipu_teach.program", "FLOAT", "write from ipu_teach import FLOAT."),
        ("ipu_teach.program", "Abortt", "did you mean 'Abort'?"),
        ("ipu_teach.poplibs", "expr", "write from ipu_teach.poplibs.popops import expr."),
        (
            "ipu_teach.poplibs.popops",
            "matMul",
            "write from ipu_teach.poplibs.poplin import mat_mul.",
        ),
        ("ipu_teach", "stamp", "help(ipu_teach) lists what it has."),
        ("ipu_teach.poplibs.popops", "scan", "help(popops) lists what it has."),
        ("ipu_teach.poplibs.popops", "addInPlace", "did you mean 'add_in_place'?"),
        (
            "ipu_teach.poplibs.popnn",
            "augru",
            "use instead: popops and poplin, of which they can be composed.",
        ),
    ],
)
def test_a_name_of_another_module_is_answered_by_the_line_to_write(
    module: str, name: str, next_step: str
) -> None:
    asked = import_module(module)
    with pytest.raises(PoplarError) as imported:
        exec(f"from {module} import {name}")
    assert isinstance(imported.value, ImportError)
    with pytest.raises(PoplarError) as got:
        getattr(asked, name)
    assert isinstance(got.value, AttributeError)
    for caught in (imported, got):
        assert caught.value.next_step == next_step
    assert not hasattr(asked, name)
    assert getattr(asked, name, "else") == "else"
    if next_step.startswith("write "):  # what is advised is true
        exec(next_step.removeprefix("write ").removesuffix("."))


def test_what_a_library_has_not_stands_on_its_page_too() -> None:
    page = (Path(__file__).parents[1] / "docs" / "poplibs.md").read_text(encoding="utf-8")
    for module, table in NOT_HERE.items():
        for name, advice in table.items():
            assert f"Instead: {advice}" in page.replace("`", ""), (module, name)
            assert name not in vars(import_module(module)), (module, name)
