"""Measure how close the rows of scalar loops can come to their floors: python -m bench.limits

A row of the benchmark compares the engine's time with a floor, the time of a simpler program. Here
the handwritten loops and the codelets' own code are transformed so that they do exactly the work
that any implementation must do. Their time, relative to the floor, is a lower limit of the row.

* s1: the handwritten loops also count cycles (one addition in each block of statements, one number
  stored per vertex), check in every iteration of a `while` whether they must stop, and save the
  values that they overwrite. They run in a thread, and another thread waits for them.
* s2: compute() runs on plain Python numbers in memoryviews, without a simulated machine. It counts
  cycles, and marks the elements that it stores. The result of each operation on numbers from
  memory is converted to their type. A float is stored and loaded in single precision. An integer is
  compared with the limits of 32 bits (or masked, if the codelet's integers wrap).
* s2b: the time to read, parse and compile the code of compute(), the time of everything that an
  Engine does for the same graph with an empty codelet, and the time of s2.

The median and the maximum over the codelets are printed, relative to the floor of the row.
"""

from __future__ import annotations

import ast
import inspect
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from textwrap import dedent
from types import SimpleNamespace
from typing import Any

import numpy as np

from bench import loops
from bench.loops import CASES
from bench.measure import ROOT
from bench.scalar import FEW, MANY, Placed, bare, seconds
from ipu_teach.graph.vertex import Vertex, run_on
from ipu_teach.types import FLOAT

WRAPS = ("XorShift",)  # Codelets whose integers wrap when they overflow.
ROUNDS = 3  # The number of measurements of which the median is reported.
SEEN = 5  # The number of vertices, from the first one, whose results are compared with right ones.


def _lines(text: str) -> list[ast.stmt]:
    return ast.parse(text).body


class _Counted(ast.NodeTransformer):
    """A transformer that makes code count cycles: each block of statements adds to `cyc`.

    A block is a sequence of statements without a branch or loop. The body of a `while` begins with
    the statement `stop_check`, if it is not "".
    """

    def __init__(self, stop_check: str = "") -> None:
        self.asked = stop_check

    def piece(self, body: list[ast.stmt], first_statement: str = "") -> list[ast.stmt]:
        return [*_lines(f"{first_statement}\ncyc += 32"), *body]

    def visit_If(self, node: ast.If) -> Any:
        self.generic_visit(node)
        node.body, node.orelse = (
            self.piece(node.body),
            self.piece(node.orelse) if node.orelse else [],
        )
        return node

    def visit_For(self, node: ast.For) -> Any:
        self.generic_visit(node)
        node.body = self.piece(node.body)
        return node

    def visit_While(self, node: ast.While) -> Any:
        self.generic_visit(node)
        node.body = self.piece(node.body, self.asked)
        return node


def counted_by_hand() -> dict[type[Vertex], Callable[..., None]]:
    """Return {codelet: handwritten loop}, where the loops also count cycles.

    The loops have two further parameters: `cycles` receives the count of each vertex, and `stop` is
    checked in each iteration of a `while`.
    """
    (by_hand_function,) = _lines(dedent(inspect.getsource(loops.by_hand)))
    assert isinstance(by_hand_function, ast.FunctionDef)
    for function in by_hand_function.body:
        if isinstance(function, ast.FunctionDef) and function.args.args[0].arg == "n":
            function.args.args += [ast.arg("cycles"), ast.arg("stop")]
            (vertices,) = function.body
            assert isinstance(vertices, ast.For)
            body = [_Counted("if stopped(stop): return").visit(node) for node in vertices.body]
            vertices.body = [*_lines("cyc = 80"), *body, *_lines("cycles[v] = cyc >> 4")]
    from ipu_teach.engine.scalar.native import stopped

    namespace = {**vars(loops), "stopped": stopped}
    exec(
        compile(ast.fix_missing_locations(ast.Module([by_hand_function], [])), "<counted>", "exec"),
        namespace,
    )
    counted_loops: dict[type[Vertex], Callable[..., None]] = namespace["by_hand"]()
    return counted_loops


def _compiled(
    codelet: type[Vertex],
    plain_loop: Callable[..., None],
    counted_loop: Callable[..., None],
    pool: ThreadPoolExecutor,
) -> float:
    """Return how many times as long a handwritten loop takes with the necessary extra work.

    The extra work is to count cycles, to check for a stop, to save what is overwritten, and to run
    in a thread.
    """
    placed = Placed(codelet, MANY, 1472)
    arrays = placed.arrays()
    written_marks = [
        np.zeros(arrays[name].shape, bool)
        for name, field in codelet.fields.items()
        if field.kind == "output"
    ]
    overwritten = [
        (arrays[name], np.empty_like(arrays[name]))
        for name, field in codelet.fields.items()
        if field.written
    ]
    plain_arguments = (MANY, *arrays.values(), *written_marks)
    counted_arguments = (*plain_arguments, np.zeros(MANY, np.int64), np.zeros(1, np.int64))

    def reset() -> None:
        for name in placed.changed:
            arrays[name][...] = placed.given[name]

    def run_counted(_: None) -> None:
        for array, saved in overwritten:
            saved[...] = array
        pool.submit(counted_loop, *counted_arguments).result()

    reset()
    plain_loop(*plain_arguments)
    reset()
    counted_loop(*counted_arguments)
    return median(
        seconds(reset, run_counted) / seconds(reset, lambda _: plain_loop(*plain_arguments))
        for _ in range(ROUNDS)
    )


def compiled() -> dict[str, float]:
    """Return {codelet name: smallest possible ratio} for s1, the row of compiled loops."""
    counted, pool = counted_by_hand(), ThreadPoolExecutor(1)
    return {
        codelet.__name__: _compiled(codelet, plain_loop, counted[codelet], pool)
        for codelet, plain_loop in loops.by_hand().items()
    }


class _Own(_Counted):
    """A transformer that turns compute() into a function of the fields, without a machine.

    The fields are Python's own numbers and memoryviews. The function returns the count of cycles.
    """

    def __init__(self, codelet: type[Vertex]) -> None:
        super().__init__()
        self.codelet = codelet

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        self.generic_visit(node)
        if (
            isinstance(node.value, ast.Name)
            and node.value.id == "self"
            and node.attr in self.codelet.fields
        ):
            field = self.codelet.fields[node.attr]
            is_whole_field = field.depth or field.kind == "input"
            name = f"f_{node.attr}"
            return (
                ast.Name(name, node.ctx)
                if is_whole_field
                else ast.Subscript(ast.Name(name, ast.Load()), ast.Constant(0), node.ctx)
            )
        if node.attr == "shape" and isinstance(node.value, ast.Name):
            return ast.parse(f"(len({node.value.id}), len({node.value.id}[0]))", mode="eval").body
        return node

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        self.generic_visit(node)
        # The translated code stores a matrix as a list of rows, so `x[i, j]` becomes `x[i][j]`.
        if isinstance(node.slice, ast.Tuple):
            row, column = node.slice.elts
            return ast.Subscript(ast.Subscript(node.value, row, ast.Load()), column, node.ctx)
        return node

    def visit_Return(self, node: ast.Return) -> Any:
        return _lines("return cyc")[0]

    def visit_Assign(self, node: ast.Assign) -> Any:
        """Return the assignment, followed by a mark if it stores an element of an Output."""
        self.generic_visit(node)
        outputs = [
            f"f_{name}"
            for name, field in self.codelet.fields.items()
            if field.kind == "output" and field.depth < 2
        ]
        target_text = ast.unparse(node.targets[0])
        return [
            node,
            *(
                _lines(f"m_{target_text} = 1")
                if any(target_text.startswith(f"{name}[") for name in outputs)
                else []
            ),
        ]

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        read = ast.parse(ast.unparse(node.target), mode="eval").body
        return self.visit(ast.Assign([node.target], ast.BinOp(read, node.op, node.value)))


class _Exact(ast.NodeTransformer):
    """A transformer that converts the result of each operation to its type, float or integer.

    The conversions are statements before the original statement. `kinds` maps each name to its
    type: "f" for single precision, and "i" for an integer of 32 bits. A name without a type is a
    constant or a loop counter.
    """

    def __init__(self, codelet: type[Vertex], body: list[ast.stmt]) -> None:
        self.kinds = {
            f"f_{name}": "f" if field.dtype is FLOAT else "i"
            for name, field in codelet.fields.items()
        }
        self.wraps, self.ahead, self.count = codelet.__name__ in WRAPS, list[ast.stmt](), 0
        nodes = [node for part in body for node in ast.walk(part)]
        assignments = [
            (node.targets[0], node.value) for node in nodes if isinstance(node, ast.Assign)
        ]
        assignments += [
            (node.target, node.iter)
            for node in nodes
            if isinstance(node, ast.For) and isinstance(node.iter, ast.Name)
        ]
        # The type of a name may depend on the type of another name, so repeat the search.
        for _ in range(3):
            for target, value in assignments:
                target_pairs = (
                    zip(target.elts, value.elts, strict=True)  # type: ignore[attr-defined]
                    if isinstance(value, ast.Tuple)
                    else [(target, value)]
                )
                for element, source in target_pairs:
                    if isinstance(element, ast.Name):
                        self.kinds[element.id] = self.widest([element, source])

    def widest(self, nodes: Iterable[ast.expr]) -> str:
        return max(map(self.kind, nodes), key=("", "i", "f").index, default="")

    def kind(self, node: ast.expr) -> str:
        """Return the type of an expression's value: "f", "i", or "" if it has none."""
        operands: list[ast.expr] = []
        match node:
            case ast.Name():
                return self.kinds.get(node.id, "")
            case ast.Subscript():
                operands = [node.value]
            case ast.BinOp():
                operands = [node.left, node.right]
            case ast.UnaryOp():
                operands = [node.operand]
            case ast.Call(func=ast.Name(id="max" | "min" | "abs")):
                operands = node.args
            case ast.Call(func=ast.Attribute(attr="zeros")):
                return "f"
        return self.widest(operands)

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        kind = self.kind(node)
        self.generic_visit(node)
        if not kind or not isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.LShift)):
            return node
        self.count += 1
        name, text = f"z{self.count}", ast.unparse(node)
        self.kinds[name] = kind
        if kind == "f":
            self.ahead += _lines(f"single[0] = {text}\n{name} = single[0]")
        elif self.wraps:
            self.ahead += _lines(f"{name} = {text} & 4294967295")
        else:
            self.ahead += _lines(
                f"{name} = {text}\nif not -2147483648 <= {name} <= 2147483647: raise OverflowError"
            )
        return ast.Name(name, ast.Load())

    def block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """Return the statements of a block, each preceded by its conversions.

        If the condition of a `while` has conversions, it is evaluated in the body instead.
        """
        statements: list[ast.stmt] = []
        for node in body:
            for part_name in ("body", "orelse"):
                if getattr(node, part_name, None):
                    setattr(node, part_name, self.block(getattr(node, part_name)))
            outer_conversions, self.ahead = self.ahead, []
            for name, value in ast.iter_fields(node):
                if name not in ("body", "orelse") and isinstance(value, ast.expr):
                    setattr(node, name, self.visit(value))
                elif name == "targets":
                    node.targets = [self.visit(target) for target in value]  # type: ignore[attr-defined]
            conversions, self.ahead = self.ahead, outer_conversions
            if conversions and isinstance(node, ast.While):
                node.body = [
                    *conversions,
                    ast.If(ast.UnaryOp(ast.Not(), node.test), [ast.Break()], []),
                    *node.body,
                ]
                node.test, conversions = ast.Constant(True), []
            statements += [*conversions, node]
        return statements


def own_numbers(codelet: type[Vertex]) -> Callable[..., int]:
    """Return compute() of a codelet as a function that works on plain Python numbers.

    The function returns the cycles that it counted. Its parameters are the vertex, the number of
    the worker (for a MultiVertex only), the fields, and the marks of the Outputs' elements.
    """
    (tree,) = _lines(dedent(inspect.getsource(codelet.compute)))
    assert isinstance(tree, ast.FunctionDef)
    body = [
        statement
        for node in tree.body
        for statement in np.atleast_1d(np.array(_Own(codelet).visit(node), object))
    ]
    marks = [f"m_f_{name}" for name, f in codelet.fields.items() if f.kind == "output"]
    worker_parameter = [arg.arg for arg in tree.args.args[1:]]
    fields = [f"f_{name}" for name in codelet.fields]
    parameters = ", ".join(["self", *worker_parameter, *fields, *marks])
    (vertex_function,) = _lines(f"def vertex({parameters}): pass")
    assert isinstance(vertex_function, ast.FunctionDef)
    vertex_function.body = [
        *_lines("cyc = 80"),
        *_Exact(codelet, body).block(body),
        *_lines("return cyc"),
    ]
    numpy = SimpleNamespace(zeros=lambda n, dtype: [0.0] * n, float32=None)
    namespace: dict[str, Any] = {"np": numpy, "single": np.zeros(1, np.float32).data}
    exec(
        compile(
            ast.fix_missing_locations(ast.Module([vertex_function], [])), "<own numbers>", "exec"
        ),
        namespace,
    )
    function: Callable[..., int] = namespace["vertex"]
    return function


def _views(array: np.ndarray[Any, Any], depth: int, is_number: bool) -> list[Any]:
    """Return a field's value for each vertex: a number, a memoryview, or a list of one per row."""
    if is_number:
        return list(array.tolist())
    rows = array.reshape(len(array), -1) if depth < 2 else array
    return [[row.data for row in part] if depth == 2 else part.data for part in rows]


def with_own_numbers(placed: Placed) -> Callable[[], Callable[[], None]]:
    """Return a function that prepares a loop over all vertices and returns the loop as a function.

    The results of the first `SEEN` vertices are compared with those of the plain vertex loop.
    """
    codelet, function = placed.codelet, own_numbers(placed.codelet)
    plain: Any = type(codelet.__name__, (), {**vars(codelet), "num_workers": 6, "__dict__": {}})
    calls = [(worker,) for worker in range(6)] if codelet.context == "multi" else [()]

    def make_run(arrays: Any = None) -> Callable[[], None]:
        arrays, instance, cycles = (
            arrays or placed.arrays(),
            plain.__new__(plain),
            [0] * placed.count,
        )
        columns = [
            _views(arrays[name], field.depth, field.kind == "input" and not field.depth)
            for name, field in codelet.fields.items()
        ]
        columns += [
            _views(np.zeros(arrays[name].shape, np.uint8), field.depth, False)
            for name, field in codelet.fields.items()
            if field.kind == "output"
        ]
        fields_of_vertices = list(zip(*columns, strict=True))

        def run() -> None:
            for vertex, fields in enumerate(fields_of_vertices):
                cycles[vertex] = (
                    max([function(instance, *worker, *fields) for worker in calls])
                    if len(calls) > 1
                    else function(instance, *fields)
                )

        return run

    own_arrays, reference_arrays = placed.arrays(), placed.arrays()
    make_run(own_arrays)()
    for vertex in range(SEEN):
        run_on(codelet, {name: array[vertex, ...] for name, array in reference_arrays.items()})
    for name, array in reference_arrays.items():
        assert np.allclose(own_arrays[name][:SEEN], array[:SEEN], 1e-5), (codelet, name)
    return make_run


def _first(codelet: type[Vertex]) -> float:
    """Return the seconds of everything in a first run except compute() itself.

    They are the time to read, parse and compile the code of compute(), and the time of an Engine
    with an empty codelet.
    """

    def compile_text(_: None) -> None:
        source = dedent(inspect.getsource(codelet.compute))
        compile(ast.parse(source), "<text>", "exec")

    def empty_engine() -> Placed:
        empty_codelet = type(
            codelet.__name__,
            (codelet,),
            {"compute": lambda self, *worker: None, "cycles": lambda self, target: 1},
        )
        CASES[empty_codelet] = CASES[codelet]
        try:
            return Placed(empty_codelet, FEW, 13)
        finally:
            del CASES[empty_codelet]

    return seconds(lambda: None, compile_text) + seconds(
        empty_engine, lambda placed: placed.engine().run()
    )


def by_python() -> dict[str, dict[str, float]]:
    """Return the smallest possible ratios, measured once, keyed by row and then by codelet.

    The row s2 is for runs of loops that are not compiled, and s2b for their first runs.
    """
    ratios: dict[str, dict[str, float]] = {"s2": {}, "s2b": {}}
    for codelet in list(CASES):
        placed = Placed(codelet, FEW, 13)
        floor = seconds(bare(placed), lambda run: run())
        ratios["s2"][codelet.__name__] = (
            seconds(with_own_numbers(placed), lambda run: run()) / floor
        )
        ratios["s2b"][codelet.__name__] = ratios["s2"][codelet.__name__] + _first(codelet) / floor
    return ratios


def main() -> None:
    env = {**os.environ, "IPU_TEACH_NUMBA": "0"}
    command = [sys.executable, "-m", "bench.limits", "python"]
    processes = [
        subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True)
        for _ in range(ROUNDS)
    ]
    rounds = [json.loads(process.stdout) for process in processes]
    limits = {
        row: {
            name: median(round_ratios[row][name] for round_ratios in rounds)
            for name in rounds[0][row]
        }
        for row in ("s2", "s2b")
    }
    for row, ratios in {"s1": compiled(), **limits}.items():
        ratio_texts = ", ".join(f"{name} {ratio:.2g}" for name, ratio in ratios.items())
        print(
            f"{row:<5}median {median(ratios.values()):.2f}, worst {max(ratios.values()):.2f} "
            f"({ratio_texts})"
        )


if __name__ == "__main__":
    if sys.argv[1:] == ["python"]:
        print(json.dumps(by_python()))
    else:
        main()
