"""Expressions: from a piece of the learner's text to what it is, with the statements written that it needs."""

from __future__ import annotations

import ast
import inspect
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

from ipu_teach.compile.scalar.arithmetic import BINARY
from ipu_teach.compile.scalar.calls import Calls
from ipu_teach.compile.scalar.values import Arr, Const, Num, Unreached, Vec, in_words, is_number
from ipu_teach.compile.scalar.writer import Price


class Expressions(Calls):
    """One method for each kind of expression."""

    def fork(self, test: ast.expr, yes: Callable[[], None], no: Callable[[], None]) -> None:
        """A branch."""
        raise NotImplementedError

    def value(self, node: ast.expr) -> Any:
        method = getattr(self, "v_" + type(node).__name__, None)
        if method is None:
            self.refuse(node, in_words(node))
        return method(node)

    def num(self, node: ast.expr) -> Num:
        return self.single(self.value(node), node)

    def single(self, value: Any, node: ast.expr) -> Num:
        """`value`, which must be a number."""
        if isinstance(value, Const) and is_number(value.value):
            return self.constant(value.value)
        if not isinstance(value, Num):
            self.refuse(node, f"`{ast.unparse(node)}` is no single number")
        return value

    def nums(self, nodes: list[ast.expr]) -> list[Num]:
        return self.operands(nodes, self.num)

    def operands(self, nodes: list[ast.expr], read: Callable[[ast.expr], Any]) -> list[Any]:
        """Values from left to right; one whose CPython text would be read too late is put into a variable."""
        found: list[Any] = []
        for node in nodes:
            at = len(self.pyl)
            found.append(read(node))
            if len(self.pyl) > at:  # statements came: what stands left of them goes ahead of them
                for k, old in enumerate(found[:-1]):
                    if isinstance(old, (Num, Vec)) and not old.py.isidentifier() and getattr(old, "const", None) is None:
                        name = self.new("p")
                        self.pyl.insert(at, "    " * self.depth + f"{name} = {old.py}")
                        found[k] = replace(old, py=name)
                        at += 1
        return found

    def v_Constant(self, node: ast.Constant) -> Any:
        return self.constant(node.value) if is_number(node.value) else Const(node.value)

    def v_Name(self, node: ast.Name) -> Any:
        scope = self.scope
        if node.id not in scope.local:
            if node.id not in scope.names:
                self.refuse(node, f"{node.id} is not known")
            if node.id != scope.me:
                self.seen[scope.function, node.id] = scope.names[node.id]
            return Const(scope.names[node.id])
        found = self.state.get(scope.prefix + node.id)
        if found is None:
            if self.dry:
                raise Unreached
            self.refuse(node, f"{node.id} is not assigned")
        if isinstance(found, Num) and found.maybe:
            self.bail(f"{scope.prefix}{node.id}_tag == -1", node)
        return found

    def v_Attribute(self, node: ast.Attribute) -> Any:
        owner = self.value(node.value)
        if isinstance(owner, Const) and owner.value is self.codelet and self._is_me(node.value):
            return self._own(node)
        if isinstance(owner, Const) and isinstance(owner.value, (ModuleType, type)) and hasattr(owner.value, node.attr):
            self.seen[owner.value, node.attr] = inspect.getattr_static(owner.value, node.attr, None)
            return Const(getattr(owner.value, node.attr))
        if isinstance(owner, Arr):
            if node.attr == "shape":
                return [self.length(owner, k, node) for k in range(len(owner.dims))]
            if node.attr == "size" and len(owner.dims) == 1:
                return self.length(owner, 0, node)
            if node.attr == "ndim":
                return self.constant(len(owner.dims))
            if node.attr == "sum":
                return Const(("sum", owner))
        self.refuse(node, f".{node.attr}")

    def _is_me(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id == self.scope.me

    def _own(self, node: ast.Attribute) -> Any:
        """self.name: a field, or what the class holds."""
        if node.attr == "num_workers" and self.multi:
            return Num({"wi": "workers"}, "workers", bound=64)
        declared = self.codelet.fields.get(node.attr)
        if declared is not None:
            region = self.region(node.attr, declared)
            return region if declared.depth else self.load(region, [], node)
        found = self.seen[self.codelet, node.attr] = inspect.getattr_static(self.codelet, node.attr, None)
        if found is None or isinstance(found, (property, classmethod)):
            self.refuse(node, f"self.{node.attr}")
        return Const(found.__func__ if isinstance(found, staticmethod) else found)

    def v_Subscript(self, node: ast.Subscript) -> Any:
        owner = self.value(node.value)
        if isinstance(owner, list):
            key = self.num(node.slice)
            if not isinstance(key.const, int) or not -len(owner) <= key.const < len(owner):
                self.refuse(node, "an index into a tuple that is no constant")
            return owner[key.const]
        if isinstance(owner, Const) and isinstance(owner.value, (list, tuple)):
            return self.table(owner.value, node)
        if not isinstance(owner, Arr):
            self.refuse(node, "an index into what is no array")
        if isinstance(node.slice, ast.Slice):
            return self.sliced(owner, node.slice, node)
        keys = self.keys(owner, node.slice)
        return self.load(owner, keys, node) if len(keys) == len(owner.dims) else self.row(owner, keys, node)

    def keys(self, owner: Arr, node: ast.expr) -> list[Num]:
        """The numbers of an index."""
        parts = node.elts if isinstance(node, ast.Tuple) else [node]
        if any(isinstance(p, ast.Slice) for p in parts) or len(parts) > len(owner.dims):
            self.refuse(node, "this slice")
        return self.nums(list(parts))

    def v_BinOp(self, node: ast.BinOp) -> Any:
        if isinstance(node.op, ast.Mult) and (isinstance(node.left, ast.List) or isinstance(node.right, ast.List)):
            self.refuse(node, "a list", "np.zeros(n)")
        a, b = self.operands([node.left, node.right], self.value)
        if isinstance(node.op, ast.MatMult):
            return self.product(a, b, node)
        if isinstance(a, (Arr, Vec)) or isinstance(b, (Arr, Vec)):
            return self.vector(type(node.op), a, b, node)
        return self.binary(type(node.op), self.single(a, node.left), self.single(b, node.right), node)

    def v_UnaryOp(self, node: ast.UnaryOp) -> Num:
        a = self.num(node.operand)
        if isinstance(node.op, ast.Not):
            return Num({"wb": self.named(f"not {self.truth(a)}")}, f"(not {a.py})", data=a.data)
        return self.unary(type(node.op), a, node)

    def v_Compare(self, node: ast.Compare) -> Any:
        for op in node.ops:
            if type(op) not in BINARY:
                self.refuse(node, "`in` or `is`")
        if len(node.ops) == 1:
            a, b = self.operands([node.left, node.comparators[0]], self.value)
            if isinstance(a, (Arr, Vec)) or isinstance(b, (Arr, Vec)):
                return self.vector(type(node.ops[0]), a, b, node)
            a, b = self.single(a, node.left), self.single(b, node.comparators[0])
            return self.binary(type(node.ops[0]), a, b, node)
        held = [self.fixed(self.num(node.left))]

        def part(k: int) -> Callable[[], Num]:
            def test() -> Num:
                held.append(self.fixed(self.num(node.comparators[k])))
                return self.binary(type(node.ops[k]), held[k], held[k + 1], node)

            return test

        return self._logic([part(k) for k in range(len(node.ops))], True, node)

    def v_BoolOp(self, node: ast.BoolOp) -> Any:
        def part(k: int) -> Callable[[], Num]:
            return lambda: self.num(node.values[k])

        return self._logic([part(k) for k in range(len(node.values))], isinstance(node.op, ast.And), node)

    def _logic(self, parts: list[Callable[[], Num]], both: bool, node: ast.AST) -> Num:
        """`and`, `or`: what stands further right is worked out only where it is come to."""
        var = "." + self.new("l")
        self.assign(var, parts[0](), node)
        skipped: list[Counter[Price]] = []  # what there is to count where the rest is not come to
        data = False
        for part in parts[1:]:
            a: Num = self.state[var]
            data = data or a.data
            self.spend(data=a.data)
            skipped.append(Counter(self.cost))
            x = self.truth(a)
            self.emit(f"if {x if both else f'not {x}'}:", f"if {'' if both else 'not '}{a.py}:")
            self.depth += 1
            before = dict(self.state)
            self.control += data
            self.assign(var, part(), node)
            self.control -= data
            self.state = self.joined(before, self.state)
        while skipped:
            rest = self.meet(skipped.pop())
            self.both("pass")
            for lines, more in zip((self.nb, self.pyl), rest, strict=True):
                if more:
                    lines += ["    " * (self.depth - 1) + "else:", *more]
            self.depth -= 1
        found: Num = self.state.pop(var)
        return found

    def v_IfExp(self, node: ast.IfExp) -> Any:
        var = "." + self.new("l")
        self.fork(
            node.test,
            lambda: self.assign(var, self.num(node.body), node),
            lambda: self.assign(var, self.num(node.orelse), node),
        )
        return self.state.pop(var)

    def v_Tuple(self, node: ast.Tuple) -> list[Any]:
        return self.operands(list(node.elts), self.value)
