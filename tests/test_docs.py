"""The pages for people who come from Poplar: every name in the table exists and can be called,
every block of code runs."""

from __future__ import annotations

import ast
import builtins
import inspect
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest

import ipu_teach
from ipu_course.checking import comparing, exercise, mistakes, trial, verdict_panel
from ipu_teach import (
    BOOL,
    FLOAT,
    INT,
    UNSIGNED_INT,
    Engine,
    Graph,
    Input,
    IPUModel,
    Output,
    Vector,
    Vertex,
    program as programs,
    schedules,
)
from ipu_teach.device import DeviceManager
from ipu_teach.poplibs import gcl, graphfn, poplin, popnn, popops, poprand, popsparse, poputil
from ipu_teach.show import panels, scene, shapes

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS))
import make_poplar_table as table  # noqa: E402
import make_your_own as written  # noqa: E402
from poplar_rows import SECTIONS, Row  # noqa: E402
from poplibs_rows import LIBRARIES as TABLES  # noqa: E402

pytestmark = pytest.mark.usefixtures("marked_codelets")

ROWS = [row for rows in (*SECTIONS.values(), *TABLES.values()) for row in rows]
LAYERS = (
    popnn.bn,
    popnn.ctc_loss,
    popnn.gn,
    popnn.gru,
    popnn.in_,
    popnn.ln,
    popnn.lstm,
    popnn.pooling,
)
NAMED = [row for row in ROWS if row.ours]
MISSING = [row for row in ROWS if not row.ours]


def named(row: Row) -> str:
    return row.cpp


# The table


def test_every_name_is_there_and_says_what_it_does() -> None:
    assert len(NAMED) > 400
    for row in NAMED:
        table.resolve(row.ours)
        assert table.signature(row.ours), row
        words = table.does(row)
        assert words.endswith(".") and "\n" not in words, row


@pytest.mark.parametrize("row", MISSING, ids=named)
def test_what_is_not_here_says_what_to_use_instead(row: Row) -> None:
    assert row.differs and not row.does and not row.example


@pytest.mark.parametrize("row", MISSING, ids=named)
def test_what_is_said_not_to_be_here_is_not_here(row: Row) -> None:
    """Unless all it does is to say so."""
    owner, _, method = row.cpp.partition("::")
    for name in re.findall(r"\w+", method or owner):
        path = ".".join(
            ([owner] if method else []) + [re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()]
        )
        try:
            found = table.resolve(path)
        except AttributeError:
            continue
        source = (
            inspect.getsource(found) if inspect.isroutine(found) or inspect.isclass(found) else ""
        )
        assert "NotOfferedError" in source, f"{path} exists: give its row a name"


@pytest.mark.parametrize(
    "library",
    [popops, poplin, popnn, *LAYERS, popsparse.static, popsparse.dynamic, poputil, graphfn],
    ids=lambda module: module.__name__.split(".")[-1],
)
def test_every_function_of_a_library_has_a_row(library: Any) -> None:
    """Named by it, or by its other form: `add_in_place` beside `add`."""
    listed = getattr(library, "__all__", None) or [
        n for n, f in vars(library).items() if inspect.isfunction(f)
    ]
    own = [
        n
        for n in listed
        if inspect.isfunction(getattr(library, n))
        and getattr(library, n).__module__.startswith(library.__name__)
    ]
    page = table.page(table.LIBRARIES_HEAD, table.LIBRARIES)
    internal = {"reduce_rows", "tile_pieces", "take", "clone"}
    missing = [
        n
        for n in own
        if not n.startswith(("_", "check_"))
        and n not in internal
        and not re.search(rf"[.`]{n}\b", page)
    ]
    assert missing == [], "add it to docs/poplibs_rows, and run docs/make_poplar_table.py"


def test_no_name_stands_twice() -> None:
    names = [row.cpp for row in ROWS]
    assert sorted(set(names)) == sorted(names)


LIBRARIES = {
    "ipu_teach": ipu_teach,
    "gcl": gcl,
    "popops": popops,
    "poplin": poplin,
    "popsparse": popsparse,
    "popnn": popnn,
    "poprand": poprand,
    "poputil": poputil,
    "graphfn": graphfn,
    "schedules": schedules,
}


class Sum(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        self.out = self.x.sum()


class Total(Vertex):
    parts: Vector[Input[Vector[FLOAT]]]
    out: Output[FLOAT]

    def compute(self):
        self.out = sum(part.sum() for part in self.parts)


def sandbox() -> dict[str, Any]:
    """The names that the rows' examples use: a small graph with one of everything, and an engine
    that has run it."""
    device = IPUModel("ipu2", tiles_per_ipu=4).create_device()
    graph = Graph(device)

    def variable(shape: Any, dtype: Any = FLOAT, value: Any = 0) -> Any:
        tensor = graph.add_variable(dtype, shape)
        graph.set_tile_mapping(tensor, 0)
        graph.set_initial_value(tensor, value)
        return tensor

    t, t2, vec, one = variable((4, 6)), variable((4, 6)), variable(6), variable(())
    loss = variable(4)
    flag, number, labels = variable((), BOOL), variable((), INT), variable(4, UNSIGNED_INT)
    cs = graph.add_compute_set("sum")
    vertex = graph.add_vertex(cs, Sum, x=vec, out=one)
    graph.set_tile_mapping(vertex, 1)
    stream = graph.add_host_to_device_fifo("in", FLOAT, 24)
    rows = graph.add_remote_buffer("rows", FLOAT, 24, 3)
    graph.create_host_write("w", vec)
    graph.create_host_read("r", one)
    prog = programs.Sequence(programs.Execute(cs))
    engine = Engine(graph, [prog, programs.Copy(stream, t)])
    engine.load_and_run(device)
    engine.copy_to_remote_buffer(np.ones(24), "rows", 1)
    names = {name: getattr(programs, name) for name in dir(programs) if not name.startswith("_")}
    names |= {name: getattr(ipu_teach, name) for name in ipu_teach.__all__}
    here = {name: value for name, value in locals().items() if name not in ("names", "variable")}
    names |= {"types": ipu_teach.types}
    return (
        names
        | here
        | {
            "target": device.target,
            "manager": DeviceManager(),
            "Sum": Sum,
            "Total": Total,
            "np": np,
            "io": io,
        }
        | LIBRARIES
    )


@pytest.mark.parametrize("row", [row for row in NAMED if row.example], ids=named)
def test_every_example_runs(row: Row) -> None:
    last = row.ours.split(".")[-1].strip("_")
    assert last in row.example or row.example.startswith(("t[", "Sum.call")), (
        "the example does not use the name"
    )
    eval(row.example, sandbox())


def test_every_function_has_an_example() -> None:
    missing = [
        row
        for row in NAMED
        if table.signature(row.ours).endswith(")") and "errors." not in row.ours and not row.example
    ]
    assert missing == []


# The pages


def test_the_table_is_up_to_date() -> None:
    assert table.PAGE.read_text(encoding="utf-8") == table.page(), "run docs/make_poplar_table.py"
    libraries = table.page(table.LIBRARIES_HEAD, table.LIBRARIES)
    assert table.LIBRARIES_PAGE.read_text(encoding="utf-8") == libraries, (
        "run docs/make_poplar_table.py"
    )


def test_the_check_says_when_the_table_is_not(
    tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    monkeypatch.setattr(table, "PAGE", tmp_path / "poplar.md")
    assert table.main(["--check"]) == 1
    assert not (tmp_path / "poplar.md").exists()
    assert (
        capsys.readouterr().err
        == "docs/poplar.md is not what docs/make_poplar_table.py makes; run it.\n"
    )
    monkeypatch.setattr(table, "LIBRARIES_PAGE", tmp_path / "poplibs.md")
    assert table.main([]) == 0
    assert table.main(["--check"]) == 0


def test_the_check_runs_from_a_shell() -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, str(DOCS / "make_poplar_table.py"), "--check"], env=env, timeout=120
    )
    assert done.returncode == 0


PAGES = [
    path
    for path in [DOCS.parent / "README.md", *sorted(DOCS.glob("*.md"))]
    if written.BLOCK.search(path.read_text(encoding="utf-8"))
]
PAGES.remove(DOCS / "frameworks.md")  # test_faces runs it: a block of it wants PyTorch


def samples(path: Path) -> Iterator[ast.Module]:
    """The indented blocks of a page that are Python."""
    for block in re.findall(r"(?:^ {4,}\S.*\n|^\n(?= {4}))+", path.read_text("utf-8"), re.M):
        with suppress(SyntaxError):  # a command, or the text of a list
            yield ast.parse(dedent(block))


def test_samples_call_what_there_is() -> None:
    """What docs/authoring.md shows of an exercise and of a view has the names and arguments of today."""
    there = {
        k: v
        for module in (exercise, comparing, mistakes, trial, verdict_panel)
        for k, v in vars(module).items()
    }
    there |= {k: v for module in (panels, scene, shapes) for k, v in vars(module).items()}
    called = set()
    for node in (n for block in samples(DOCS / "authoring.md") for n in ast.walk(block)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            name = node.func.id
            if not name.startswith("_") and not hasattr(builtins, name):
                taken = {word.arg: None for word in node.keywords if word.arg}
                given = [None] * sum(not isinstance(a, ast.Starred) for a in node.args)
                inspect.signature(there[name]).bind_partial(*given, **taken)
                called.add(name)
    assert {"Trial", "Var", "compare", "painted", "Boxes", "Stroke", "Words", "Lanes"} <= called


RECIPES = (DOCS / "recipes.md").read_text(encoding="utf-8").split("\n## ")[1:]


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.splitlines()[0])
def test_a_recipe_is_one_screen_and_names_files_that_exist(recipe: str) -> None:
    """`NN` is a lesson's number, and what is called NAME is the reader's own."""
    named = re.findall(r"\b(?:ipu_teach|tests|docs|notebooks)/[\w./*-]+|README\.md", recipe)
    assert len(recipe.splitlines()) <= 35 and len({*named}) >= 5 and "*We tried " in recipe
    for name in named:
        assert any(ROOT.glob(name.rstrip(".").replace("NN", "01").replace("NAME", "*"))), name


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_the_code_on_a_page_runs(path: Path) -> None:
    """From top to bottom, in one namespace, as a reader would, and says what the page says."""
    text = path.read_text(encoding="utf-8")
    here = text if find_spec("torch") else text.partition("import torch\n")[0]
    assert written.page(path, here) == here, "your-own.md: run docs/make_your_own.py"
    if here != text:
        pytest.skip("the rest of the page needs PyTorch")


def test_a_block_that_fails_says_what_to_do_next_or_is_no_example() -> None:
    for code in ("x = 1", "from ipu_teach.errors import PoplarError\nraise PoplarError('no')"):
        with pytest.raises(AssertionError, match="ends in no error that says what to do next"):
            written.page(DOCS / "a.md", f"```python fails\n{code}\n```\n")
    with pytest.raises(ipu_teach.errors.PoplarError):
        written.page(DOCS / "a.md", f"```python\n{code}\n```\n")


def headings(page: Path) -> set[str]:
    """The anchors of a page: its headings as the web writes them, and those set by hand."""
    text = page.read_text(encoding="utf-8")
    found = {re.sub(r"[^\w -]", "", h.lower()) for h in re.findall(r"^#+ (.*)$", text, re.M)}
    return {h.replace(" ", "-") for h in found} | set(re.findall(r'<a name="([^"]+)"', text))


@pytest.mark.parametrize("path", sorted(DOCS.glob("*.md")), ids=lambda path: path.name)
def test_links_between_pages_lead_somewhere(path: Path) -> None:
    for target, heading in re.findall(
        r"\]\(([^)#:\s]*)#?([^)\s]*)\)", path.read_text(encoding="utf-8")
    ):
        if heading.startswith("://"):  # somebody else's page
            continue
        page = path.parent / target if target else path
        assert page.exists(), target
        assert not heading or page.suffix != ".md" or heading in headings(page), (target, heading)


def defined(path: Path) -> set[str]:
    """The functions, classes and methods of a module, by qualified name."""

    def within(nodes: list[ast.stmt], prefix: str) -> Iterator[str]:
        for node in nodes:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                yield prefix + node.name
                yield from within(node.body, f"{prefix}{node.name}.")

    return set(within(ast.parse(path.read_text(encoding="utf-8")).body, ""))


def test_links_into_the_code_name_what_stands_there() -> None:
    page = (DOCS / "inside.md").read_text(encoding="utf-8")
    links = re.findall(r"\[([^]]+)\]\(([^)#]+\.py)#([\w.]+)\)", page)
    assert len(links) > 30 and page.count(".py#") == len(links)
    for words, file, name in links:
        assert name in defined(DOCS / file), f"{file} has no {name}"
        assert words.replace("\\", "") in (name, Path(file).name), words


def test_the_page_for_those_who_come_from_poplar_has_code_that_was_run() -> None:
    assert DOCS / "coming-from-poplar.md" in PAGES


# What it was used for

USED_FOR = DOCS / "what_it_was_used_for.md"
LIST = (ROOT / "tests/data/what_it_was_used_for.txt").read_text(encoding="utf-8")
NAMES = [line for line in LIST.splitlines() if line and not line.startswith("#")]
TOLD, REFERENCES = " ".join(USED_FOR.read_text(encoding="utf-8").split()).split(" ## References ")


def test_whatever_has_a_name_is_in_a_lesson_or_on_the_page() -> None:
    cells = [
        "".join(cell["source"])
        for path in sorted((ROOT / "notebooks/solutions").glob("*.ipynb"))
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]
        if cell["cell_type"] == "markdown"
    ]
    said = " ".join([TOLD, REFERENCES, *" ".join(cells).replace("> ", "").split()])
    missing = [n for n in NAMES if not re.search(rf"(?<!\w){re.escape(n)}(?!\w)", said)]
    assert len(NAMES) > 130 and missing == []


def test_a_use_is_told_in_two_sentences_with_where_one_meets_it_and_a_reference() -> None:
    uses = re.findall(r" \* \*\*(.+?)\*\* (.+?) \*In this kit:\* (.+?)(?= \* \*\*| ## |$)", TOLD)
    assert len(uses) == TOLD.count(" * **") > 60
    for name, told, here in uses:
        assert len(re.findall(r"[.?](?= |$)", told)) == 2, name
        assert here.endswith(".") and ("](" in here or "to come" in here or name == "ITX"), name
    given = re.findall(r" \* \*([^*]+)\*: (.+?)(?= \* \*| \*\*|$)", REFERENCES)
    assert [name for name, _ in given] == [name for name, _, _ in uses]
    assert all(reference.endswith(".") for _, reference in given)


def test_the_uses_are_read_in_twelve_minutes() -> None:
    """At 200 words a minute; fields, and where to look further, are not read but chosen from."""
    read = re.sub(r"\]\([^)]*\)", "]", TOLD[TOLD.index(" ## ") :])
    assert len(re.findall(r"\w[\w'-]*", read)) <= 2400
