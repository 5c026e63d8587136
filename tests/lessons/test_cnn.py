"""What lesson 07b expects of answers, beside the library and the definitions; and that its check
trains the network of the notebook."""

from __future__ import annotations

import ast

import numpy as np
from answers import SOLUTIONS

from ipu_course.checking.gaps import read_notebook, source_of
from ipu_course.lesson07b import Cnn, checks as lesson, small
from ipu_teach import FLOAT, HALF, Engine, Graph, IPUModel
from ipu_teach.cost.vertices.poplin import conv_units, panel_depth
from ipu_teach.poplibs import poputil
from ipu_teach.poplibs.popnn import pooling
from ipu_teach.program import Sequence


def test_slopes_are_those_of_a_sum_that_is_linear() -> None:
    """Of the sum of y * dy, with y linear in x and in w: what another x or w would make of it."""
    draw = np.random.default_rng(1)
    for batch, rows, columns, ins, outs, k, padding in lesson.LAYERS:
        x, other = draw.normal(size=(2, batch, rows, columns, ins))
        w = draw.normal(size=(k, k, ins, outs))
        sides = (0, 0), (padding, padding), (padding, padding), (0, 0)

        def y(x: np.ndarray, w: np.ndarray, sides: tuple = sides, k: int = k) -> np.ndarray:  # type: ignore[type-arg]
            return lesson.patches_of(np.pad(x, sides), k, 1) @ w.reshape(-1, w.shape[-1])

        shape = (batch, rows + 2 * padding - k + 1, columns + 2 * padding - k + 1, outs)
        dy = draw.normal(size=shape)
        dx, dw, db = lesson.slopes_of(x, w, dy, padding)
        flat = dy.reshape(-1, outs)
        np.testing.assert_allclose((dx * other).sum(), (y(other, w) * flat).sum(), atol=1e-9)
        np.testing.assert_allclose((dw * w).sum(), (y(x, w) * flat).sum(), atol=1e-9)
        np.testing.assert_allclose(db, flat.sum(0))


def test_a_maximum_goes_back_as_in_the_library() -> None:
    draw = np.random.default_rng(2)
    for k, stride in ((2, 2), (3, 2), (3, 1)):
        x = draw.integers(0, 4, (7, 7)).astype(np.float32)
        size = (7 - k) // stride + 1
        dy = draw.integers(1, 9, (size, size)).astype(np.float32) * 12
        device = IPUModel("ipu2", tiles_per_ipu=2).create_device()
        graph, program = Graph(device), Sequence()
        field = [k] * 2, [stride] * 2, [0] * 2, [0] * 2
        params = pooling.PoolParams("MAX", [7, 7], *field, 1, 1, FLOAT)
        tensors = [graph.add_variable(FLOAT, (1, 1, *a.shape)) for a in (x, dy)]
        for tensor, values in zip(tensors, (x, dy), strict=True):
            poputil.map_tensor_linearly(graph, tensor)
            graph.set_initial_value(tensor, values[None, None])
        out = pooling.pool(graph, params, tensors[0], program)
        given = tensors[0], out, tensors[1]
        dx = pooling.pool_input_gradient(graph, params, *given, program, use_scaled_gradient=True)
        graph.create_host_read("dx", dx)
        engine = Engine(graph, program)
        engine.load(device)
        engine.run()
        right = lesson.pool_slopes(x, dy, k, stride)
        np.testing.assert_allclose(engine.read_tensor("dx")[0, 0], right, rtol=1e-6)


def test_a_panel_is_that_of_the_machine() -> None:
    target = IPUModel("ipu2").create_device().target
    assert panel_depth(HALF, target) == lesson.DEEP
    assert conv_units(HALF, HALF, target) == lesson.ACROSS
    assert lesson.units_busy(9, 64, 64, 64) == 9 / 16 / 16


def test_the_check_trains_the_network_of_the_notebook() -> None:
    (path,) = SOLUTIONS.glob("07b_*.ipynb")
    code = "\n".join(
        source_of(cell) for cell in read_notebook(path)["cells"] if cell["cell_type"] == "code"
    )
    nodes = list(ast.walk(ast.parse(code)))
    imported = {
        name.name
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module == "ipu_course.lesson07b"
        for name in node.names
    }
    defined = {node.name for node in nodes if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    network = {"Cnn", "small"}
    assert network <= imported and not network & defined
    assert vars(lesson)["Cnn"] is Cnn and vars(lesson)["small"] is small
