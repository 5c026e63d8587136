"""Measure how close the rows of scalar loops can come to their floors: python -m bench.limits

It changes the loops by hand and the codelets' own code mechanically, so that they do exactly the
work that any implementation must do:

* s1: the loops by hand also count (an addition in each straight piece, a number stored for each
  vertex), check in every iteration of a `while` whether they must stop, save what they overwrite,
  and run in a thread next to the one that waits.
* s2: the code of compute() on Python's own numbers in memoryviews, without a machine, with the
  counting and the marks. The result of an operation on numbers from memory is converted to their
  type: single precision by a store and a load; an integer is compared with the limits of its 32
  bits (or masked, where it wraps).
* s2b: the time to read and parse the code of compute() and to compile the same amount of code, and
  everything that an Engine does for the same graph with an empty codelet; and then s2.

Each figure is the median and the worst of the codelets, relative to the floor of the row.
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

WRAPS = ("XorShift",)  # codelets whose integers overflow
ROUNDS = 3
SEEN = 5  # vertices whose results are compared


def _lines(text: str) -> list[ast.stmt]:
    return ast.parse(text).body


class _Counted(ast.NodeTransformer):
    """Adds to `cyc` at the start of each straight piece; each iteration of a `while` first runs the
    statement `asked`."""

    def __init__(self, asked: str = "") -> None:
        self.asked = asked

    def piece(self, body: list[ast.stmt], first: str = "") -> list[ast.stmt]:
        return [*_lines(f"{first}\ncyc += 32"), *body]

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
    """Return the loops by hand with `cycles, stop` after their other parameters."""
    (whole,) = _lines(dedent(inspect.getsource(loops.by_hand)))
    assert isinstance(whole, ast.FunctionDef)
    for function in whole.body:
        if isinstance(function, ast.FunctionDef) and function.args.args[0].arg == "n":
            function.args.args += [ast.arg("cycles"), ast.arg("stop")]
            (vertices,) = function.body
            assert isinstance(vertices, ast.For)
            body = [_Counted("if stopped(stop): return").visit(node) for node in vertices.body]
            vertices.body = [*_lines("cyc = 80"), *body, *_lines("cycles[v] = cyc >> 4")]
    from ipu_teach.engine.scalar.native import stopped

    space = {**vars(loops), "stopped": stopped}
    exec(compile(ast.fix_missing_locations(ast.Module([whole], [])), "<counted>", "exec"), space)
    found: dict[type[Vertex], Callable[..., None]] = space["by_hand"]()
    return found


def _compiled(
    codelet: type[Vertex],
    hand: Callable[..., None],
    counted: Callable[..., None],
    pool: ThreadPoolExecutor,
) -> float:
    """Return the time of a loop by hand with the work that any implementation must do, relative to
    the same loop without it."""
    placed = Placed(codelet, MANY, 1472)
    arrays = placed.arrays()
    marks = [
        np.zeros(arrays[n].shape, bool) for n, f in codelet.fields.items() if f.kind == "output"
    ]
    written = [
        (arrays[n], np.empty_like(arrays[n])) for n, f in codelet.fields.items() if f.written
    ]
    plain = (MANY, *arrays.values(), *marks)
    more = (*plain, np.zeros(MANY, np.int64), np.zeros(1, np.int64))

    def fresh() -> None:
        for name in placed.changed:
            arrays[name][...] = placed.given[name]

    def whole(_: None) -> None:
        for array, before in written:
            before[...] = array
        pool.submit(counted, *more).result()

    fresh()
    hand(*plain)
    fresh()
    counted(*more)
    return median(
        seconds(fresh, whole) / seconds(fresh, lambda _: hand(*plain)) for _ in range(ROUNDS)
    )


def compiled() -> dict[str, float]:
    """Return the limit of s1 for each codelet."""
    counted, pool = counted_by_hand(), ThreadPoolExecutor(1)
    return {
        codelet.__name__: _compiled(codelet, hand, counted[codelet], pool)
        for codelet, hand in loops.by_hand().items()
    }


class _Own(_Counted):
    """Turns compute() into a function of its fields, on Python's own numbers."""

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
            plain = field.depth or field.kind == "input"
            name = f"f_{node.attr}"
            return (
                ast.Name(name, node.ctx)
                if plain
                else ast.Subscript(ast.Name(name, ast.Load()), ast.Constant(0), node.ctx)
            )
        if node.attr == "shape" and isinstance(node.value, ast.Name):
            return ast.parse(f"(len({node.value.id}), len({node.value.id}[0]))", mode="eval").body
        return node

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        self.generic_visit(node)
        if isinstance(node.slice, ast.Tuple):  # a matrix is a list of rows
            row, column = node.slice.elts
            return ast.Subscript(ast.Subscript(node.value, row, ast.Load()), column, node.ctx)
        return node

    def visit_Return(self, node: ast.Return) -> Any:
        return _lines("return cyc")[0]

    def visit_Assign(self, node: ast.Assign) -> Any:
        """Return a statement followed by the mark of the element that it stores."""
        self.generic_visit(node)
        outputs = [
            f"f_{n}" for n, f in self.codelet.fields.items() if f.kind == "output" and f.depth < 2
        ]
        text = ast.unparse(node.targets[0])
        return [
            node,
            *(
                _lines(f"m_{text} = 1")
                if any(text.startswith(f"{name}[") for name in outputs)
                else []
            ),
        ]

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        read = ast.parse(ast.unparse(node.target), mode="eval").body
        return self.visit(ast.Assign([node.target], ast.BinOp(read, node.op, node.value)))


class _Exact(ast.NodeTransformer):
    """Converts the result of each operation to its type, in statements ahead of the original one.

    `kinds`: by name, "f" for single precision and "i" for 32 bits; a name without a kind is a
    constant or a loop counter.
    """

    def __init__(self, codelet: type[Vertex], body: list[ast.stmt]) -> None:
        self.kinds = {
            f"f_{name}": "f" if f.dtype is FLOAT else "i" for name, f in codelet.fields.items()
        }
        self.wraps, self.ahead, self.count = codelet.__name__ in WRAPS, list[ast.stmt](), 0
        nodes = [node for part in body for node in ast.walk(part)]
        given = [(n.targets[0], n.value) for n in nodes if isinstance(n, ast.Assign)]
        given += [
            (n.target, n.iter)
            for n in nodes
            if isinstance(n, ast.For) and isinstance(n.iter, ast.Name)
        ]
        for _ in range(3):  # the kind of one name may determine that of another
            for target, value in given:
                pairs = (
                    zip(target.elts, value.elts, strict=True)  # type: ignore[attr-defined]
                    if isinstance(value, ast.Tuple)
                    else [(target, value)]
                )
                for one, its in pairs:
                    if isinstance(one, ast.Name):
                        self.kinds[one.id] = self.widest([one, its])

    def widest(self, nodes: Iterable[ast.expr]) -> str:
        return max(map(self.kind, nodes), key=("", "i", "f").index, default="")

    def kind(self, node: ast.expr) -> str:
        """Return the type of an expression's value."""
        parts: list[ast.expr] = []
        match node:
            case ast.Name():
                return self.kinds.get(node.id, "")
            case ast.Subscript():
                parts = [node.value]
            case ast.BinOp():
                parts = [node.left, node.right]
            case ast.UnaryOp():
                parts = [node.operand]
            case ast.Call(func=ast.Name(id="max" | "min" | "abs")):
                parts = node.args
            case ast.Call(func=ast.Attribute(attr="zeros")):
                return "f"
        return self.widest(parts)

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
        """Return the statements, each preceded by its conversions; the condition of a `while` is
        evaluated in its body."""
        found: list[ast.stmt] = []
        for node in body:
            for part in ("body", "orelse"):
                if getattr(node, part, None):
                    setattr(node, part, self.block(getattr(node, part)))
            keep, self.ahead = self.ahead, []
            for name, value in ast.iter_fields(node):
                if name not in ("body", "orelse") and isinstance(value, ast.expr):
                    setattr(node, name, self.visit(value))
                elif name == "targets":
                    node.targets = [self.visit(target) for target in value]  # type: ignore[attr-defined]
            ahead, self.ahead = self.ahead, keep
            if ahead and isinstance(node, ast.While):
                node.body = [
                    *ahead,
                    ast.If(ast.UnaryOp(ast.Not(), node.test), [ast.Break()], []),
                    *node.body,
                ]
                node.test, ahead = ast.Constant(True), []
            found += [*ahead, node]
        return found


def own_numbers(codelet: type[Vertex]) -> Callable[..., int]:
    """Return compute() of one vertex as a function of (vertex, its worker if any, fields, marks of
    Outputs) that returns its count."""
    (tree,) = _lines(dedent(inspect.getsource(codelet.compute)))
    assert isinstance(tree, ast.FunctionDef)
    body = [
        part
        for node in tree.body
        for part in np.atleast_1d(np.array(_Own(codelet).visit(node), object))
    ]
    marks = [f"m_f_{name}" for name, f in codelet.fields.items() if f.kind == "output"]
    worker = [arg.arg for arg in tree.args.args[1:]]
    (made,) = _lines(
        f"def vertex({', '.join(['self', *worker, *(f'f_{n}' for n in codelet.fields), *marks])}): "
        "pass"
    )
    assert isinstance(made, ast.FunctionDef)
    made.body = [*_lines("cyc = 80"), *_Exact(codelet, body).block(body), *_lines("return cyc")]
    numpy = SimpleNamespace(zeros=lambda n, dtype: [0.0] * n, float32=None)
    space: dict[str, Any] = {"np": numpy, "single": np.zeros(1, np.float32).data}
    exec(compile(ast.fix_missing_locations(ast.Module([made], [])), "<own numbers>", "exec"), space)
    function: Callable[..., int] = space["vertex"]
    return function


def _views(array: np.ndarray[Any, Any], depth: int, number: bool) -> list[Any]:
    """Return a field of each vertex: a number, a memoryview, or a list of memoryviews of rows."""
    if number:
        return list(array.tolist())
    rows = array.reshape(len(array), -1) if depth < 2 else array
    return [[row.data for row in part] if depth == 2 else part.data for part in rows]


def with_own_numbers(placed: Placed) -> Callable[[], Callable[[], None]]:
    """Return a function that makes the loop over all vertices, with the results of some compared
    with the plain vertex loop."""
    codelet, function = placed.codelet, own_numbers(placed.codelet)
    plain: Any = type(codelet.__name__, (), {**vars(codelet), "num_workers": 6, "__dict__": {}})
    calls = [(worker,) for worker in range(6)] if codelet.context == "multi" else [()]

    def made(arrays: Any = None) -> Callable[[], None]:
        arrays, me, cycles = arrays or placed.arrays(), plain.__new__(plain), [0] * placed.count
        columns = [
            _views(arrays[n], f.depth, f.kind == "input" and not f.depth)
            for n, f in codelet.fields.items()
        ]
        columns += [
            _views(np.zeros(arrays[n].shape, np.uint8), f.depth, False)
            for n, f in codelet.fields.items()
            if f.kind == "output"
        ]
        given = list(zip(*columns, strict=True))

        def run() -> None:
            for number, fields in enumerate(given):
                cycles[number] = (
                    max([function(me, *worker, *fields) for worker in calls])
                    if len(calls) > 1
                    else function(me, *fields)
                )

        return run

    mine, theirs = placed.arrays(), placed.arrays()
    made(mine)()
    for number in range(SEEN):
        run_on(codelet, {name: array[number, ...] for name, array in theirs.items()})
    for name, array in theirs.items():
        assert np.allclose(mine[name][:SEEN], array[:SEEN], 1e-5), (codelet, name)
    return made


def _first(codelet: type[Vertex]) -> float:
    """Return the seconds to read, parse and compile the code of compute(), and those of an Engine
    with an empty codelet."""

    def text(_: None) -> None:
        source = dedent(inspect.getsource(codelet.compute))
        compile(ast.parse(source), "<text>", "exec")

    def idle() -> Placed:
        nothing = type(
            codelet.__name__,
            (codelet,),
            {"compute": lambda self, *worker: None, "cycles": lambda self, target: 1},
        )
        CASES[nothing] = CASES[codelet]
        try:
            return Placed(nothing, FEW, 13)
        finally:
            del CASES[nothing]

    return seconds(lambda: None, text) + seconds(idle, lambda placed: placed.engine().run())


def by_python() -> dict[str, dict[str, float]]:
    """Return a round of the limits of s2 and s2b, by codelet."""
    found: dict[str, dict[str, float]] = {"s2": {}, "s2b": {}}
    for codelet in list(CASES):
        placed = Placed(codelet, FEW, 13)
        floor = seconds(bare(placed), lambda run: run())
        found["s2"][codelet.__name__] = seconds(with_own_numbers(placed), lambda run: run()) / floor
        found["s2b"][codelet.__name__] = found["s2"][codelet.__name__] + _first(codelet) / floor
    return found


def main() -> None:
    env = {**os.environ, "IPU_TEACH_NUMBA": "0"}
    command = [sys.executable, "-m", "bench.limits", "python"]
    done = [
        subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True)
        for _ in range(ROUNDS)
    ]
    rounds = [json.loads(one.stdout) for one in done]
    limits = {
        row: {name: median(found[row][name] for found in rounds) for name in rounds[0][row]}
        for row in ("s2", "s2b")
    }
    for row, ratios in {"s1": compiled(), **limits}.items():
        each = ", ".join(f"{name} {ratio:.2g}" for name, ratio in ratios.items())
        print(
            f"{row:<5}median {median(ratios.values()):.2f}, worst {max(ratios.values()):.2f} "
            f"({each})"
        )


if __name__ == "__main__":
    if sys.argv[1:] == ["python"]:
        print(json.dumps(by_python()))
    else:
        main()
