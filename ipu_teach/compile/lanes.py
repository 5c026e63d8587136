"""Which codelets can run in masked lanes: those whose compute() is made of single numbers, branches and loops.

A codelet whose branches depend on data cannot be traced. If its text is at hand and holds nothing else than what
`engine.lanes` understands, it still runs for all vertices at once: each vertex is a lane, and where lanes go different ways
the others wait. This module reads the text and says what stands against it.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import math
from dataclasses import dataclass
from textwrap import dedent
from types import FunctionType
from typing import Any

import numpy as np

from ipu_teach.compile.trace import place
from ipu_teach.graph.vertex import Vertex

BUILTINS = {abs, bool, enumerate, float, int, len, max, min, range, reversed, zip}
MATHS = {
    math.acos, math.acosh, math.asin, math.asinh, math.atan, math.atan2, math.atanh, math.ceil, math.copysign, math.cos,
    math.cosh, math.erf, math.erfc, math.exp, math.expm1, math.fabs, math.floor, math.fmod, math.gamma, math.hypot, math.lgamma,
    math.log, math.log10, math.log1p, math.log2, math.pow, math.sin, math.sinh, math.sqrt, math.tan, math.tanh,
}  # fmt: skip
MAKERS = {np.zeros, np.ones, np.empty, np.full}
_STATEMENTS = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.If, ast.While, ast.For, ast.Break, ast.Continue, ast.Pass,
               ast.Return, ast.Expr, ast.Assert, ast.Raise)  # fmt: skip
_EXPRESSIONS = (ast.Constant, ast.Name, ast.Attribute, ast.Subscript, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare,
                ast.IfExp, ast.Call, ast.Tuple)  # fmt: skip
_NAMES = {ast.Slice: "a slice", ast.ListComp: "a list in brackets", ast.GeneratorExp: "a generator", ast.List: "a list",
          ast.JoinedStr: "a formatted text", ast.Lambda: "a lambda", ast.Try: "a try", ast.With: "a with",
          ast.FunctionDef: "a function inside compute()", ast.SetComp: "a set", ast.DictComp: "a dict"}  # fmt: skip


class NotForLanes(Exception):
    """What stands against lanes, with the line."""


@dataclass(frozen=True, eq=False)
class LaneCode:
    """The text of a codelet's compute() as a tree, fit to run in lanes. Lines count as in the file.

    `names`: what its global names stood for when it was compiled. `plain`: assignments whose name is read only after them
    in the same block, so that lanes that wait need not keep an older value.
    """

    codelet: type[Vertex]
    tree: ast.FunctionDef
    names: dict[str, Any]
    local: frozenset[str]
    plain: frozenset[ast.AST]


def lane_code(codelet: type[Vertex]) -> LaneCode | str:
    """The code of `codelet.compute` for lanes, or the line and the reason, if there is one, why it cannot run in them."""
    compute = codelet.compute
    if not isinstance(compute, FunctionType):
        return f"{codelet.__name__}.compute is no plain function"
    try:
        tree = ast.parse(dedent(inspect.getsource(compute))).body[0]
    except (OSError, TypeError, SyntaxError):  # typed at a prompt, or made by exec
        return f"the text of {codelet.__name__}.compute is not to be had"
    if not isinstance(tree, ast.FunctionDef) or tree.decorator_list:
        return f"{codelet.__name__}.compute is decorated"
    ast.increment_lineno(tree, compute.__code__.co_firstlineno - 1)
    names = {**vars(builtins), **compute.__globals__}
    for name, cell in zip(compute.__code__.co_freevars, compute.__closure__ or (), strict=True):
        try:
            names[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            names.pop(name, None)
    local = frozenset(compute.__code__.co_varnames[1:])
    try:
        check = _Check(codelet, names, local, tree.args.args[0].arg)
        check.statements(tree.body)
        if not any(check.parts_ways(node) for node in ast.walk(tree)):
            return ""  # nothing in it is for lanes, and what stopped the trace says it all
    except NotForLanes as found:
        return str(found)
    used = {node.id: names[node.id] for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id in names}
    return LaneCode(codelet, tree, used, local, frozenset(_plain_assignments(tree)))


class _Check:
    def __init__(self, codelet: type[Vertex], names: dict[str, Any], local: frozenset[str], me: str) -> None:
        self.codelet, self.names, self.local, self.me = codelet, names, local, me

    def refuse(self, node: ast.AST, what: str) -> None:
        line = getattr(node, "lineno", 0)
        raise NotForLanes(f"{place(self.codelet, line)}: {what} does not run in lanes")

    def parts_ways(self, node: ast.AST) -> bool:
        """True for what may differ from lane to lane although each is a number."""
        if isinstance(node, ast.Subscript):
            fixed = isinstance(node.slice, ast.Constant)
            return not fixed and isinstance(node.value, ast.Attribute) and self._is_me(node.value.value)
        if isinstance(node, ast.Call):
            function = self.known(node.func)
            return callable(function) and _hashable(function) and function in MATHS
        return isinstance(node, (ast.If, ast.While, ast.For, ast.IfExp, ast.BoolOp))

    def statements(self, body: list[ast.stmt]) -> None:
        for node in body:
            self.statement(node)

    def statement(self, node: ast.stmt) -> None:
        if not isinstance(node, _STATEMENTS):
            self.refuse(node, _NAMES.get(type(node), f"a {type(node).__name__.lower()}"))
        if isinstance(node, ast.Raise):  # a lane that comes here hands over to the plain loop, which raises it
            return
        if isinstance(node, ast.Return) and not (node.value is None or _is_none(node.value)):
            self.refuse(node, "a value that compute() returns")
        if isinstance(node, (ast.For, ast.While)) and node.orelse:
            self.refuse(node, "a loop's else")
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                self.target(target)
        if isinstance(node, ast.For):
            self.target(node.target)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt):
                self.statement(child)
            elif isinstance(child, ast.expr) and not (isinstance(node, ast.AnnAssign) and child is node.annotation):
                self.expression(child)

    def target(self, node: ast.expr) -> None:
        if isinstance(node, ast.Tuple):
            for part in node.elts:
                self.target(part)
        elif isinstance(node, ast.Attribute):
            field = self.codelet.fields.get(node.attr) if self._is_me(node.value) else None
            if field is None or field.depth:
                self.refuse(node, "an assignment to a whole Vector")
        elif isinstance(node, ast.Subscript):
            owner = node.value
            own = isinstance(owner, ast.Attribute) and self._is_me(owner.value) and owner.attr in self.codelet.fields
            if (
                not own
                and not isinstance(owner, ast.Subscript)
                and not (isinstance(owner, ast.Name) and owner.id in self.local)
            ):
                self.refuse(node, "a change of what all vertices share")
        elif not isinstance(node, ast.Name):
            self.refuse(node, "this assignment")

    def expression(self, node: ast.expr) -> None:
        if not isinstance(node, _EXPRESSIONS):
            self.refuse(node, _NAMES.get(type(node), f"a {type(node).__name__.lower()}"))
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            self.refuse(node, "@")
        if isinstance(node, ast.Compare) and any(isinstance(op, (ast.In, ast.NotIn, ast.Is, ast.IsNot)) for op in node.ops):
            self.refuse(node, "`in` or `is`")
        if isinstance(node, ast.Call):
            self.call(node)
        if isinstance(node, (ast.BinOp, ast.Compare, ast.UnaryOp)) and any(map(self._is_vector, ast.iter_child_nodes(node))):
            self.refuse(node, "an operation on a whole Vector")
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.expression(child)

    def call(self, node: ast.Call) -> None:
        function = self.known(node.func)
        good = function in BUILTINS | MAKERS | MATHS if callable(function) and _hashable(function) else False
        good = good or (isinstance(function, np.ufunc) and function.nout == 1)
        good = good or (isinstance(function, type) and issubclass(function, np.number))
        starred = any(isinstance(arg, ast.Starred) for arg in node.args) or any(k.arg is None for k in node.keywords)
        if not good or starred or (node.keywords and function not in MAKERS and function is not zip):
            self.refuse(node, f"{ast.unparse(node.func)}()")

    def known(self, node: ast.expr) -> Any:
        """What a name, or a module's attribute, stands for; None if that is not known ahead."""
        if isinstance(node, ast.Name) and node.id not in self.local:
            return self.names.get(node.id)
        if isinstance(node, ast.Attribute):
            owner = self.known(node.value)
            return getattr(owner, node.attr, None) if owner is not None else None
        return None

    def _is_vector(self, node: ast.AST) -> bool:
        field = self.codelet.fields.get(node.attr) if isinstance(node, ast.Attribute) and self._is_me(node.value) else None
        return field is not None and field.depth > 0

    def _is_me(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id == self.me


def _hashable(value: Any) -> bool:
    return type(value).__hash__ is not None


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _plain_assignments(tree: ast.FunctionDef) -> list[ast.AST]:
    """Assignments and for loops to a name that is read nowhere but further on in the same block, or in the loop."""
    reads: dict[str, set[ast.AST]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            reads.setdefault(node.id, set()).add(node)
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            reads.setdefault(node.target.id, set()).add(node.target)
    blocks = [block for node in ast.walk(tree) for block in (getattr(node, "body", []), getattr(node, "orelse", []))
              if isinstance(block, list)]  # fmt: skip
    # A loop's variable is its own if every read of the name is in a loop that sets it.
    loops: dict[str, set[ast.AST]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.For):
            for name in _names(node.target):
                loops.setdefault(name, set()).update(inner for line in node.body for inner in ast.walk(line))
    found: list[ast.AST] = []
    for block in blocks:
        for number, node in enumerate(block):
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                inside = {inner for line in block[number + 1 :] for inner in ast.walk(line)}
                if all(reads.get(name, set()) <= inside for name in _names(node.targets[0])):
                    found.append(node)
            elif isinstance(node, ast.For) and all(reads.get(n, set()) <= loops[n] for n in _names(node.target)):
                found.append(node)
    return found


def _names(target: ast.expr) -> list[str]:
    return [node.id for node in ast.walk(target) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
