"""What tensors, compute sets and graphs show, and the graph's other ways of making things: names,
virtual graphs, drawings."""

from __future__ import annotations

import io
import pydoc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ipu_teach import (
    FLOAT,
    HALF,
    DebugContext,
    Engine,
    Executable,
    Graph,
    Input,
    IPUModel,
    IPUTeachError,
    Output,
    Tensor,
    VariableMappingMethod,
    Vector,
    Vertex,
    compile_graph,
    concat,
)
from ipu_teach.poplibs import popops, poputil
from ipu_teach.program import Call, Copy, Execute, Repeat, Sequence


class Scale(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]
    factor: FLOAT = 2.0

    def compute(self) -> None:
        self.out = self.x * self.factor


class Rows(Vertex):
    rows: Input[Vector[Vector[FLOAT]]]
    out: Output[FLOAT]

    def compute(self) -> None:
        self.out = self.rows[0][0]


def new_graph(tiles: int = 4, **fields: Any) -> Graph:
    return Graph(IPUModel(tiles_per_ipu=tiles, **fields).create_device())


def said(call: Callable[[], Any]) -> str:
    with pytest.raises(IPUTeachError) as error:
        call()
    return str(error.value)


# --- a line ---------------------------------------------------------------------------------------


class Printer:
    """As much of IPython's printer as a repr uses."""

    def __init__(self) -> None:
        self.said = ""

    def text(self, words: str) -> None:
        self.said += words


def test_a_tensor_says_what_it_is_and_where() -> None:
    graph = new_graph()
    x = graph.add_variable(FLOAT, (4, 3), "x")
    assert str(x) == "Tensor('x', FLOAT, shape (4, 3), 48 bytes on no tile)"
    graph.set_tile_mapping(x[0], 2)
    assert str(x) == "Tensor('x', FLOAT, shape (4, 3), 48 bytes on tile 2, 36 of them on none)"
    graph.set_tile_mapping(x[1:], 3)
    assert str(x) == "Tensor('x', FLOAT, shape (4, 3), 48 bytes on 2 tiles)"
    assert str(x[1].broadcast(5)) == "Tensor(a view of 'x', FLOAT, shape (15,), 12 bytes on tile 3)"
    assert str(x[:0]) == "Tensor(empty tensor, FLOAT, shape (0, 3), 0 bytes)"
    assert repr(x) == "Tensor('x', FLOAT, shape (4, 3))"
    printer = Printer()
    x._repr_pretty_(printer, False)
    assert printer.said == str(x)


def test_variables_and_named_vertices() -> None:
    graph = new_graph()
    x = graph.add_variable(FLOAT, (4, 3), "x")
    graph.add_constant(HALF, 2, 1, "two")
    assert repr(graph.variables) == (
        "[Variable('x', FLOAT, shape (4, 3), 48 bytes), Constant('two', HALF, shape (2,), 4 bytes)]"
    )
    v = graph.add_vertex(
        graph.add_compute_set("cs"),
        Scale,
        x=x[0],
        out=x[1],
        debug_context=DebugContext("head", "layer"),
    )
    assert repr(v) == "vertex 0 'layer/head' (Scale) of compute set 'cs'"
    assert graph.num_vertices == 1


# --- tables ---------------------------------------------------------------------------------------


def test_a_tensors_table() -> None:
    graph = new_graph()
    x = graph.add_variable(FLOAT, 10, "a<b>&'c'")
    graph.set_tile_mapping(x[:4], 3)
    graph.set_tile_mapping(x[4:6], 0)
    assert x._repr_html_() == (
        "<table><caption>Tensor(&quot;a&lt;b&gt;&amp;&#x27;c&#x27;&quot;, FLOAT, shape (10,), 40 "
        "bytes on 2 tiles, 16 of them "
        'on none)</caption><thead><tr><th scope="col">tile</th><th scope="col">elements</th><th '
        'scope="col">bytes</th></tr>'
        "</thead><tbody><tr><td>0</td><td>2</td><td>8</td></tr><tr><td>3</td><td>4</td><td>16</td></tr>"
        "<tr><td>none</td><td>4</td><td>16</td></tr></tbody></table>"
    )


def test_tables_are_short() -> None:
    graph = new_graph(20)
    x = graph.add_variable(FLOAT, (20, 8), "x")
    for row in range(15):
        graph.set_tile_mapping(x[row], row)
    assert x[:15]._repr_html_().count("<tr>") == 16 and "more" not in x[:15]._repr_html_()
    for row in range(15, 20):
        graph.set_tile_mapping(x[row], row)
    table = x._repr_html_()
    assert table.count("<tr>") == 16 and '<tr><td colspan="3">and 6 more tiles</td></tr>' in table
    for _ in range(100):
        graph.add_variable(FLOAT, 1)
        graph.add_compute_set()
    table = graph._repr_html_()
    assert (
        table.count("<tr>") == 32
        and "and 87 more variables" in table
        and "and 86 more compute sets" in table
    )
    assert len(table) < 4000 and "0x" not in table


def test_tables_of_compute_sets_and_graphs() -> None:
    graph = new_graph()
    x = graph.add_variable(FLOAT, (4, 3), "x")
    y = graph.add_constant(FLOAT, (4, 3), 1, "y")
    graph.set_tile_mapping(x, 1)
    cs = graph.add_compute_set("scale")
    graph.add_vertices(cs, Scale, [0, 0, 1], x=y[:3], out=x[:3])
    graph.add_vertex(cs, Rows, rows=y, out=x[3, 0])
    assert cs._repr_html_() == (
        "<table><caption>ComputeSet(&#x27;scale&#x27;, 3 Scale, 1 Rows)</caption><thead><tr>"
        '<th scope="col">codelet</th><th scope="col">vertices</th><th scope="col">tiles</th><th '
        'scope="col">fields</th></tr>'
        "</thead><tbody><tr><td>Scale</td><td>3</td><td>2</td><td>x: Input[Vector[FLOAT]], out: "
        "Output[Vector[FLOAT]], factor: FLOAT</td></tr>"
        "<tr><td>Rows</td><td>1</td><td>none</td><td>rows: Input[Vector[Vector[FLOAT]]], out: "
        "Output[FLOAT]</td></tr></tbody></table>"
    )
    table = graph._repr_html_()
    assert "<td>x</td><td>variable</td><td>FLOAT</td><td>(4, 3)</td><td>48</td><td>1</td>" in table
    assert (
        "<td>y</td><td>constant</td><td>FLOAT</td><td>(4, 3)</td><td>48</td><td>none</td>" in table
    )
    assert "<td>scale</td><td>4</td><td>Scale, Rows</td>" in table
    assert "<tbody></tbody>" in new_graph()._repr_html_()


def test_help_reads_well() -> None:
    for kind in (Graph, Tensor):
        page = pydoc.plain(pydoc.render_doc(kind))
        assert "0x" not in page and " at 0" not in page
        public = [
            name
            for name, value in vars(kind).items()
            if callable(value) and not name.startswith("_")
        ]
        assert [name for name in public if not (getattr(kind, name).__doc__ or "").strip()] == []


def test_a_function_and_its_call() -> None:
    function = new_graph().add_function(Sequence(), "update")
    assert (repr(function), repr(Call(function))) == ("Function('update')", "Call(update)")


# --- names in scopes ------------------------------------------------------------------------------


def test_scopes() -> None:
    graph = new_graph()
    scope = DebugContext("heads", DebugContext("attention"))
    assert (scope, scope.path_name, f"{scope}/x", DebugContext(), DebugContext("", "a")) == (
        "attention/heads",
        "attention/heads",
        "attention/heads/x",
        "",
        "a",
    )
    graph.add_variable(FLOAT, 1, "w", debug_context=scope)
    graph.add_variable(FLOAT, 1, debug_context=scope)
    graph.add_variable(FLOAT, 1, "plain", debug_context="")
    graph.add_constant(FLOAT, 1, 1, "c", debug_context="net")
    graph.clone(graph.add_variable(FLOAT, 1), debug_context="net")
    graph.clone(graph.add_variable(FLOAT, 1))
    names = [v.name for v in graph.variables]
    assert names == [
        "attention/heads/w",
        "attention/heads",
        "plain",
        "net/c",
        "variable4",
        "net",
        "variable6",
        "clone",
    ]
    assert graph.add_compute_set("cs", debug_context="net").name == "net/cs"
    assert graph.add_compute_set(debug_context=scope).name == "attention/heads"
    assert (
        graph.add_host_to_device_fifo("in", FLOAT, 1, debug_context=scope).handle
        == "attention/heads/in"
    )
    deep = graph.add_host_to_device_fifo(
        "deep", FLOAT, 1, options={"bufferingDepth": 2}, debug_context="net"
    )
    back = graph.add_device_to_host_fifo(
        "out", FLOAT, 1, {"buffering_depth": 3}, debug_context=scope
    )
    assert (deep.handle, deep.buffering_depth, back.buffering_depth) == ("net/deep", 2, 3)
    assert list(graph.streams) == ["attention/heads/in", "net/deep", "attention/heads/out"]
    assert said(lambda: graph.clone(graph.add_variable(FLOAT, 1), 3)) == (  # type: ignore[arg-type]
        "clone() was given the name 3, which is not text.\n  next:  a name must be a string, as in "
        "'weights'."
    )
    assert said(lambda: graph.add_variable(FLOAT, 1, "x", debug_context=3)) == (  # type: ignore[arg-type]
        '3 was given as debug_context, which must be text.\n  next:  give a name, or DebugContext("name", parent).'
    )
    assert said(lambda: DebugContext("a", 3)) == (  # type: ignore[arg-type]
        'DebugContext was given 3, which is not text.\n  next:  give names: DebugContext("layer1", parent).'
    )


def test_a_library_takes_a_scope() -> None:
    graph = new_graph()
    x = graph.add_variable(FLOAT, 8, "x", VariableMappingMethod.LINEAR)
    out = popops.add(graph, x, x, Sequence(), debug_context=DebugContext("sum", "net"))
    assert out.get_debug_str().startswith("net/sum")


# --- mapping --------------------------------------------------------------------------------------


def test_linear_variables() -> None:
    for shape, dtype in [
        ((1000,), FLOAT),
        ((7, 31), HALF),
        ((), FLOAT),
        ((0, 3), FLOAT),
        ((100_000,), HALF),
    ]:
        graph = new_graph()
        x = graph.add_variable(dtype, shape, "x", VariableMappingMethod.LINEAR)
        assert graph.get_tile_mapping(x) == poputil.calc_linear_tile_mapping(graph, shape, dtype)
    y = graph.add_variable(FLOAT, 4, mapping=VariableMappingMethod.NONE)
    assert graph.get_tile_mapping(y, require_complete=False) == [[]] * 4
    assert said(lambda: graph.add_variable(FLOAT, 4, "z", 3)) == (  # type: ignore[arg-type]
        "add_variable() was given 3 as mapping, which is not a VariableMappingMethod.\n  next:  use VariableMappingMethod.LINEAR or "
        "NONE; for a tile, call graph.set_tile_mapping(tensor, tile)."
    )


def test_perf_estimates_can_be_asked_for() -> None:
    graph = new_graph()
    x = graph.add_variable(FLOAT, (2, 3), "x")
    cs = graph.add_compute_set("cs")
    first, second = (graph.add_vertex(cs, Scale, x=x[0], out=x[1]) for _ in range(2))
    graph.set_perf_estimate(first, 12)
    assert graph.get_perf_estimate(first) == 12
    assert said(lambda: graph.get_perf_estimate(second)).startswith(
        "Scale has no estimate of its cycles."
    )
    part = graph.create_virtual_graph(1)
    part.register_perf_estimator(Scale, lambda shapes, target: shapes["x"][0] * target.num_tiles)
    assert (
        graph.get_perf_estimate(second)
        == part.get_perf_estimate(second)
        == 3 * graph.target.num_tiles
    )
    assert said(lambda: new_graph().get_perf_estimate(first)) == (
        "get_perf_estimate() was given vertex 0 (Scale) of compute set 'cs', which is not a vertex of this graph.\n  next:  give a "
        "vertex that add_vertex returned."
    )


def test_estimators_can_be_registered() -> None:
    device = IPUModel(tiles_per_ipu=1).create_device()

    def cycles(estimator: Any, own: int | None = None) -> int:
        graph = Graph(device)
        x = graph.add_variable(FLOAT, (2, 30), "x")
        graph.set_tile_mapping(x, 0)
        cs = graph.add_compute_set("cs")
        v = graph.add_vertex(cs, Scale, x=x[0], out=x[1])
        graph.set_tile_mapping(v, 0)
        graph.set_initial_value(x, 1)
        graph.register_perf_estimator(Scale, estimator)
        if own is not None:
            graph.set_perf_estimate(v, own)
        engine = Engine(graph, Execute(cs))
        engine.load(device)
        engine.run()
        return int(engine.report.compute_cycles_per_tile[0])

    def by_size(shapes: Any, target: Any) -> int:
        return int(shapes["x"][0] * target.num_worker_contexts)

    assert cycles(lambda shapes, target: 2) - cycles(lambda shapes, target: 1) == 6
    assert cycles(by_size) - cycles(lambda shapes, target: 0) == 6 * 180
    assert cycles(by_size, own=7) == cycles(lambda shapes, target: 7)
    assert said(lambda: cycles(lambda shapes, target: "many")) == (
        "The perf estimator of Scale returned 'many'.\n  where: vertex 0 (Scale, tile 0)\n"
        "  next:  return a whole number from 0 to 1,000,000,000,000."
    )
    assert said(lambda: cycles(5)).endswith(
        "was given 5 for Scale, which is not a function.\n"
        "  next:  give a function of (shapes, target) that returns cycles."
    )


# --- virtual graphs -------------------------------------------------------------------------------


def test_a_virtual_graph_numbers_its_tiles_from_0() -> None:
    device = IPUModel(tiles_per_ipu=8).create_device()
    graph = Graph(device)
    part = graph.create_virtual_graph(4, 8)
    odd = part.create_virtual_graph([3, 1])
    assert (part.target.num_tiles, odd.target.num_tiles, graph.target.num_tiles) == (4, 2, 8)
    assert (
        part.get_top_level_graph()
        is odd.get_top_level_graph()
        is graph.get_top_level_graph()
        is graph
    )
    x = part.add_variable(FLOAT, (2, 3), "x")
    y = odd.add_variable(FLOAT, (2, 3), "y")
    part.set_tile_mapping(x, 2)
    odd.set_tile_mapping(y, [[(0, 3)], [(3, 6)]])
    cs = odd.add_compute_set("cs")
    odd.set_tile_mapping(odd.add_vertex(cs, Scale, x=x[0], out=y[0]), 1)
    odd.add_codelets(Scale)  # known to the whole graph
    assert graph.has_codelet("Scale")
    odd.add_vertices(cs, "Scale", [0], x=x[1:], out=y[1:])
    assert list(cs.tables[Scale].tiles) == [5, 7]
    assert str(y) == "Tensor('y', FLOAT, shape (2, 3), 24 bytes on 2 tiles)"
    assert graph.get_tile_mapping(x)[6] == [(0, 6)] and part.get_tile_mapping(x) == [
        [],
        [],
        [(0, 6)],
        [],
    ]
    assert graph.get_tile_mapping(y)[5] == [(3, 6)] and part.get_tile_mapping(y) == [
        [],
        [(3, 6)],
        [],
        [(0, 3)],
    ]
    assert odd.get_tile_mapping(y) == [[(0, 3)], [(3, 6)]]
    assert odd.get_tile_mapping(x, allow_external=True) == [[], []]
    assert said(lambda: odd.get_tile_mapping(x)) == (
        "6 of the 6 elements of 'x' are on tiles outside the virtual graph.\n  next:  ask the "
        "top-level graph: graph.get_top_level_graph(), or pass allow_external=True."
    )
    assert said(lambda: odd.set_tile_mapping(x, 2)) == (
        "There is no tile 2.\n  where: Tensor('x', FLOAT, shape (2, 3))\n  next:  use a "
        "tile from 0 to 1."
    )
    # Libraries build in it, and what was built runs with the whole.
    z = part.add_variable(FLOAT, (2, 3), "z", VariableMappingMethod.LINEAR)
    program = Sequence(Execute(cs))
    popops.add_in_place(part, z, x, program)
    assert set(np.flatnonzero([bool(pieces) for pieces in graph.get_tile_mapping(z)])) <= {
        4,
        5,
        6,
        7,
    }
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    graph.set_initial_value(x, values)
    odd.set_initial_value(z, 1)
    odd.create_host_read("y", y)
    graph.create_host_read("z", z)
    engine = Engine(part, program)
    engine.load(device)
    engine.run()
    assert np.array_equal(engine.read_tensor("y"), values * 2) and np.array_equal(
        engine.read_tensor("z"), values + 1
    )
    assert repr(odd) == f"VirtualGraph(2 tiles of {graph!r})"
    again = Engine(Executable.deserialize(compile_graph(part, program).serialize(), [Scale]))
    again.load(device)
    again.run()
    assert np.array_equal(again.read_tensor("y"), values * 2) and np.array_equal(
        again.read_tensor("z"), values + 1
    )


def test_the_first_tiles_of_each_ipu() -> None:
    graph = new_graph(3, num_ipus=2)
    part = graph.create_virtual_graph(2)
    assert (part.target.num_ipus, part.target.tiles_per_ipu) == (2, 2)
    x = part.add_variable(FLOAT, 4)
    part.set_tile_mapping(x, [[(i, i + 1)] for i in range(4)])
    assert graph.get_tile_mapping(x) == [[(0, 1)], [(1, 2)], [], [(2, 3)], [(3, 4)], []]
    second = graph.create_virtual_graph(3, 6)
    assert (second.target.num_ipus, second.target.tiles_per_ipu) == (1, 3)


@pytest.mark.parametrize(
    ("tiles", "text"),
    [
        (
            (0,),
            "create_virtual_graph(0) chooses no tiles of the graph.\n  next:  give a number "
            "from 1 to 4, the number of tiles of an IPU.",
        ),
        (
            (2, 5),
            "create_virtual_graph(2, 5) chooses no tiles of the graph.\n  next:  use 0 <= first < "
            "end <= 4.",
        ),
        (
            ([1, 1],),
            "create_virtual_graph([1, 1]) chooses no tiles of the graph.\n  next:  give a list of "
            "different whole numbers, at least one.",
        ),
        (
            ([1, 4],),
            "There is no tile 4.\n  where: create_virtual_graph(), number 1\n  "
            "next:  use a tile from 0 to 3.",
        ),
        (
            ("a",),
            "create_virtual_graph() was given ('a',), which does not choose tiles.\n  next:  give a number of tiles, the first "
            "and the end of a range, or a list of tiles.",
        ),
    ],
)
def test_no_such_tiles(tiles: tuple[Any, ...], text: str) -> None:
    assert said(lambda: new_graph().create_virtual_graph(*tiles)) == text


# --- drawings -------------------------------------------------------------------------------------


def drawn() -> tuple[Graph, Any]:
    graph = new_graph()
    x = graph.add_variable(FLOAT, (2, 3), 'the "x"')
    y = graph.add_variable(FLOAT, (2, 3), "y")
    stream = graph.add_host_to_device_fifo("in", FLOAT, 6)
    cs, other = graph.add_compute_set("scale"), graph.add_compute_set("other")
    graph.set_tile_mapping(graph.add_vertex(cs, Scale, x=x[0], out=y[0]), 1)
    graph.add_vertex(cs, Rows, rows=[x[1], y[1]], out=y[1, 2], debug_context="rows")
    graph.add_vertex(other, Scale, x=y[0])
    return graph, Sequence(Copy(stream, x), Repeat(2, Execute(cs)), Copy(concat(x, y)[0:2], y))


def test_vertex_graph(tmp_path: Path) -> None:
    graph, program = drawn()
    graph.output_vertex_graph(tmp_path / "v.dot", program)
    assert (
        (tmp_path / "v.dot").read_text()
        == r"""digraph {
  v0_0 [shape=box, label="scale 0\nScale\ntile 1"];
  v0_1 [shape=box, label="rows\nRows\nno tile"];
  t0 [shape=ellipse, label="the \"x\"\nFLOAT (2, 3)"];
  t1 [shape=ellipse, label="y\nFLOAT (2, 3)"];
  t0 -> v0_0 [label="x"];
  v0_0 -> t1 [label="out"];
  t0 -> v0_1 [label="rows"];
  t1 -> v0_1 [label="rows"];
  v0_1 -> t1 [label="out"];
}
"""
    )
    everything = io.StringIO()
    graph.output_vertex_graph(everything)
    assert 'v1_0 [shape=box, label="other 0' in everything.getvalue()


def test_compute_graph() -> None:
    graph, program = drawn()
    out = io.StringIO()
    graph.output_compute_graph(out, [program])
    assert (
        out.getvalue()
        == r"""digraph {
  c0 [shape=box, label="scale\n2 vertices"];
  t0 [shape=ellipse, label="the \"x\"\nFLOAT (2, 3)"];
  t1 [shape=ellipse, label="y\nFLOAT (2, 3)"];
  s0 [shape=note, label="in"];
  t0 -> c0;
  c0 -> t1;
  t1 -> c0;
  s0 -> t0 [style=dashed];
  t0 -> t1 [style=dashed];
}
"""
    )


def test_drawings_that_cannot_be(tmp_path: Path) -> None:
    graph, _ = drawn()
    text = said(lambda: graph.output_vertex_graph(tmp_path / "no" / "v.dot"))
    assert text.startswith("output_vertex_graph() could not write ") and text.endswith(
        "No such file or directory.\n  next:  give the path of a file in a folder that exists and "
        "may be written to."
    )
    assert said(lambda: graph.output_compute_graph(3)) == (  # type: ignore[arg-type]
        "output_compute_graph() was given 3, which cannot be written to.\n  next:  give a path, or an open text file."
    )
    assert said(lambda: graph.output_compute_graph(io.StringIO(), 3)) == (
        "3 cannot be drawn as a program.\n  next:  give a program, or a list of them."
    )
