"""Translate expressions: each becomes a value, and the code that computes this value."""

from __future__ import annotations

import ast
import inspect
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import ModuleType
from typing import Any, TypeVar

import numpy as np

from ipu_teach.compile.scalar.arithmetic import BINARY, UNARY
from ipu_teach.compile.scalar.calls import Calls
from ipu_teach.compile.scalar.kinds import CODES, HELD, INTS, SLOT, is_number
from ipu_teach.compile.scalar.operations import Block, Line
from ipu_teach.compile.scalar.regions import nested_text
from ipu_teach.compile.scalar.values import (
    INSTEAD,
    Arr,
    Constant,
    Factors,
    Inner,
    Known,
    Num,
    StaticValue,
    Unreached,
    Value,
    Vec,
    in_words,
)
from ipu_teach.compile.scalar.writer import Price
from ipu_teach.compile.trace import METHODS

Item = TypeVar("Item")


class Lists(Calls):
    """Creates lists of numbers, which the numba code stores as arrays."""

    def list_of(self, values: list[Num], node: ast.AST, shape: tuple[int, ...] = ()) -> Arr:
        """Write the code of a new list of these numbers, and return the list as an `Arr`.

        `shape` has the lengths of nested lists, outermost first; by default, the list is not
        nested.
        """
        values = [self.fixed(number) for number in values]
        self.boxes.setdefault(place_of(node), set()).update(*(number.alts for number in values))
        array = self.listed([self.constant(length) for length in shape or (len(values),)], "", node)
        flat_array = replace(array, dims=((Known(len(values)), "1"),))
        self.store_all(
            flat_array,
            values,
            nested_text([number.py for number in values], shape or (len(values),), "[]"),
            node,
        )
        return array

    def filled(self, node: ast.BinOp, rows: ast.expr | None = None) -> Arr:
        """Return the list `[a] * n`, or a list of such lists with `rows` rows."""
        fill = self.fixed(self.num(node.left.elts[0]))  # type: ignore[attr-defined]
        sizes = [
            self.not_none(size)
            for size in self.nums([node.right] if rows is None else [rows, node.right])
        ]
        self.refuse_if(
            any(not set(size.alts) <= INTS - {"u8"} for size in sizes), node, "this size of a list"
        )
        row_text = f"[{fill.py}] * {sizes[-1].py}"
        self.boxes.setdefault(place_of(node), set()).update(fill.alts)
        return self.listed(
            sizes,
            row_text if rows is None else f"[{row_text} for _ in range({sizes[0].py})]",
            node,
            fill,
        )

    def listed(self, sizes: list[Num], py: str, node: ast.AST, fill: Num | None = None) -> Arr:
        """Write the code of a new list, and return the list as an `Arr`.

        `sizes` contains the length of the list, followed by the lengths of the lists inside it,
        outermost first. `py` is the Python expression of the list. `fill` is the common value of
        all its numbers, if they have one.
        """
        list_place = place_of(node)
        name = self.new("a")
        self.boxes.setdefault(list_place, set())
        length_texts = [
            size.only[1]
            if isinstance(size.const, int) and size.const >= 0
            else self.named(f"max(0, {self.int64_text(size)})")
            for size in sizes
        ]
        array = Arr(
            name,
            "?",
            dims=tuple(zip(length_texts, (*length_texts[1:], "1"), strict=True)),
            off="0",
            py=name,
            local=True,
            box=list_place,
        )
        initial_texts: dict[str, str] = {}
        if fill is not None:
            initial_texts = {
                f"_{SLOT[type_code]}": number_text for type_code, number_text in fill.alts.items()
            }
            initial_texts["_tag"] = fill.tag if len(fill.alts) > 1 else str(CODES[fill.only[0]])
        for suffix in self.parts(array):
            dtype_text = HELD[suffix[1]] if suffix != "_tag" else "np.int8"
            self.emit(
                f"{name}{suffix} = np.full({' * '.join(length_texts)}, "
                f"{dtype_text}({initial_texts.get(suffix, 0)}))"
            )
        if py:
            self.emit(None, f"{name} = {py}")
        return array


class Expressions(Lists):
    """Translates expressions, with one method for each kind of expression, such as `v_BinOp`."""

    def value(self, node: ast.expr) -> Any:
        """Return the value of an expression."""
        method = getattr(self, "v_" + type(node).__name__, None)
        if method is None:
            self.refuse(node, *in_words(node))
        try:
            return method(node)
        # No error is raised yet, because the plain vertex loop raises none if the vertex never
        # reaches the expression.
        except (TypeError, ValueError, ArithmeticError, LookupError) as error:
            self.refuse(node, f"`{ast.unparse(node)}`, which ends with {type(error).__name__},")

    def num(self, node: ast.expr) -> Num:
        """Return the value of an expression that must be a number.

        :raises Refused: if the value is not a number.
        """
        return self.single(self.value(node), node)

    def single(self, value: Value, node: ast.expr) -> Num:
        """Return `value` if it is a number.

        :raises Refused: if `value` is not a number.
        """
        if not isinstance(value, Num):
            instead = "an element of it" if isinstance(value, Arr) else ""
            if isinstance(value, Vec):
                instead = "np.where(…)"
            self.refuse(node, f"`{ast.unparse(node)}`, which is not a single number,", instead)
        return value

    def nums(self, nodes: list[ast.expr]) -> list[Num]:
        """Return the values of expressions that must be numbers, evaluated from left to right."""
        return self.operands(nodes, self.num)

    def operands(self, nodes: list[ast.expr], read: Callable[[ast.expr], Item]) -> list[Item]:
        """Return the values of expressions, evaluated from left to right.

        `read` returns the value of one expression. If the Python code of a later expression needs
        statements of its own, the earlier values are stored in variables first.
        """
        values: list[Any] = []
        for node in nodes:
            at = len(self.operations)
            values.append(read(node))
            # If a later operand needs statements, the earlier operands must be evaluated before
            # them.
            if not all(
                isinstance(operation, Line) and operation.python is None
                for operation in self.operations[at:]
            ):
                for k, value in enumerate(values[:-1]):
                    if (
                        isinstance(value, (Num, Vec))
                        and not value.py.isidentifier()
                        and getattr(value, "const", None) is None
                    ):
                        name = self.new("p")
                        self.operations.insert(at, Line(None, f"{name} = {value.py}"))
                        values[k] = replace(value, py=name)
                        at += 1
        return values

    def v_Constant(self, node: ast.Constant) -> Value:
        return self.known_ahead(node.value)

    def v_Name(self, node: ast.Name) -> Value:
        scope = self.scope
        while node.id not in scope.local and scope.outer is not None:
            scope = scope.outer
        if node.id not in scope.local:
            self.refuse_if(node.id not in scope.names, node, f"{node.id} is not known")
            if node.id != scope.me:
                self.outer_values[scope.function, node.id] = scope.names[node.id]
            return self.known_ahead(scope.names[node.id])
        value = self.state.get(scope.prefix + node.id)
        if value is None:
            if self.dry:
                raise Unreached
            self.refuse(node, f"the name {node.id}, which is not assigned,")
        if isinstance(value, Num) and value.maybe:
            self.bail(f"{scope.prefix}{node.id}_tag == -1", node)
        return value if node.id not in self.known else replace(value, data=False)

    def v_Attribute(self, node: ast.Attribute) -> Value:
        owner = self.value(node.value)
        if (
            isinstance(owner, StaticValue)
            and owner.value is self.codelet
            and self._is_vertex(node.value)
        ):
            return self._vertex_attribute(node)
        if (
            isinstance(owner, StaticValue)
            and isinstance(owner.value, (ModuleType, type))
            and hasattr(owner.value, node.attr)
        ):
            self.outer_values[owner.value, node.attr] = inspect.getattr_static(
                owner.value, node.attr, None
            )
            return self.known_ahead(getattr(owner.value, node.attr))
        if isinstance(owner, StaticValue) and isinstance(owner.value, np.ndarray):
            owner = self.table(owner.value, node)
        if isinstance(owner, Arr) and not owner.rows and (owner.free or not owner.box):
            if node.attr == "shape":
                return [self.length(owner, k, node) for k in range(len(owner.dims))]
            if node.attr == "size" and len(owner.dims) == 1:
                return self.length(owner, 0, node)
            if node.attr == "ndim":
                return self.constant(len(owner.dims))
            if node.attr == "T":
                mark = owner.mark and f"{owner.mark}.T"
                return replace(owner, dims=owner.dims[::-1], py=f"{owner.py}.T", mark=mark)
        if isinstance(owner, (Arr, Vec)) and (
            node.attr in METHODS or node.attr in ("copy", "astype", "reshape")
        ):
            return StaticValue((getattr(np, node.attr), owner))
        if isinstance(owner, Factors) and node.attr in ("Q", "R"):
            return owner["QR".index(node.attr)]
        self.refuse(node, f".{node.attr}", INSTEAD.get(node.attr, ""))

    def _is_vertex(self, node: ast.expr) -> bool:
        """Return whether an expression is the name of the vertex."""
        return isinstance(node, ast.Name) and node.id == self.scope.me

    def _vertex_attribute(self, node: ast.Attribute) -> Value:
        """Return the value of self.name, which is a field or an attribute of the class."""
        if node.attr == "num_workers" and self.multi:
            return Num({"wi": "workers"}, "workers", bound=64)
        declared = self.codelet.fields.get(node.attr)
        if declared is not None:
            region = self.region(node.attr, declared)
            return region if declared.depth else self.load(region, [], node)
        attribute = self.outer_values[self.codelet, node.attr] = inspect.getattr_static(
            self.codelet, node.attr, None
        )
        self.refuse_if(
            attribute is None or isinstance(attribute, (property, classmethod)),
            node,
            f"self.{node.attr}",
        )
        return self.known_ahead(
            attribute.__func__ if isinstance(attribute, staticmethod) else attribute
        )

    def v_Subscript(self, node: ast.Subscript) -> Any:
        owner = self.array(node.value)
        if isinstance(owner, list):
            key = self.num(node.slice)
            if isinstance(key.const, int) and -len(owner) <= key.const < len(owner):
                return owner[key.const]
            owner = self.list_of([self.single(x, node) for x in owner], node)
            return self.load(owner, [key], node)
        if isinstance(owner, Vec):
            owner = self._materialised(owner)
        self.refuse_if(not isinstance(owner, Arr), node, "an index into what is not an array")
        keys = self.keys(owner, node.slice)
        return self.view(owner, node.slice, node) if keys is None else self.load(owner, keys, node)

    def array(self, node: ast.expr) -> Any:
        """Return the value of an expression; a sequence of constants is returned as a table."""
        value = (
            StaticValue(ast.literal_eval(node))
            if isinstance(node, ast.Tuple) and is_constant(node)
            else self.value(node)
        )
        if isinstance(value, StaticValue) and isinstance(value.value, (list, tuple, np.ndarray)):
            return self.table(value.value, node)
        return value

    def v_BinOp(self, node: ast.BinOp) -> Value:
        if (
            isinstance(node.op, ast.Mult)
            and isinstance(node.left, ast.List)
            and len(node.left.elts) == 1
        ):
            return self.filled(node)
        return self._operator(type(node.op), node.left, node.right, node)

    def _operator(self, kind: type, left: ast.expr, right: ast.expr, node: ast.AST) -> Value:
        """Return the value of an operator between two expressions (numbers or whole arrays).

        `kind` is the class of the operator in `ast`.
        """
        a, b = self.operands([left, right], self.value)
        if kind is ast.MatMult:
            return self.product(a, b, "({} @ {})", node)
        if isinstance(a, (Arr, Vec)) or isinstance(b, (Arr, Vec)):
            return self.vector(kind, a, b, node)
        return self.binary(kind, self.single(a, left), self.single(b, right), node)

    def v_UnaryOp(self, node: ast.UnaryOp) -> Value:
        a = self.value(node.operand)
        if isinstance(a, (Arr, Vec)) and not isinstance(node.op, ast.Not):
            sign, fn, name = UNARY[type(node.op)]
            return self.mapped(
                fn,
                [a],
                make=self.signed(sign, fn, node),
                name=name,
                text_format=f"({sign}{{}})",
                node=node,
            )
        a = self.single(a, node.operand)
        return self._not(a) if isinstance(node.op, ast.Not) else self.unary(type(node.op), a, node)

    def _not(self, a: Num) -> Num:
        """Return the value of `not a` as a `Num`."""
        return Num({"wb": self.named(f"not {self.truth(a)}")}, f"(not {a.py})", data=a.data)

    def v_Compare(self, node: ast.Compare) -> Value:
        if len(node.ops) == 1 and isinstance(node.ops[0], (ast.Is, ast.IsNot, ast.In, ast.NotIn)):
            return (
                self._is(node)
                if isinstance(node.ops[0], (ast.Is, ast.IsNot))
                else self._is_in(node)
            )
        for op in node.ops:
            self.refuse_if(type(op) not in BINARY, node, "`in` or `is` in a chain")
        if len(node.ops) == 1:
            return self._operator(type(node.ops[0]), node.left, node.comparators[0], node)
        values = [self.fixed(self.num(node.left))]

        def part(k: int) -> Callable[[], Num]:
            def test() -> Num:
                values.append(self.fixed(self.num(node.comparators[k])))
                return self.binary(type(node.ops[k]), values[k], values[k + 1], node)

            return test

        return self._logic([part(k) for k in range(len(node.ops))], True, node)

    def _is(self, node: ast.Compare) -> Num:
        """Return the value of `a is None` or `a is not None` as a `Num`."""
        left = self.value(node.left)
        right = node.comparators[0]
        is_positive = isinstance(node.ops[0], ast.Is)
        self.refuse_if(
            not isinstance(right, ast.Constant) or right.value is not None, node, "`is`", "=="
        )
        if not isinstance(left, Num):
            return self.constant(not is_positive)
        self.spend(data=left.data)
        python_text = f"({left.py} is {'' if is_positive else 'not '}None)"
        if "no" not in left.alts or len(left.alts) == 1:
            return replace(
                self.constant(("no" in left.alts) == is_positive), py=python_text, data=left.data
            )
        return Num(
            {"wb": self.named(f"{left.tag} {'==' if is_positive else '!='} {CODES['no']}")},
            python_text,
            data=left.data,
        )

    def _is_in(self, node: ast.Compare) -> Num:
        """Return the value of `a in (1, 2, 3)` as a `Num`.

        The items are compared one by one, until an item is equal to `a`.
        """
        (constants_node,) = node.comparators
        is_positive = isinstance(node.ops[0], ast.In)
        values = (
            ast.literal_eval(constants_node)
            if isinstance(constants_node, (ast.Tuple, ast.List)) and is_constant(constants_node)
            else ()
        )
        self.refuse_if(
            not values or not all(map(is_number, values)) or None in values,
            node,
            "`in`",
            "any(v == a for v in …)",
        )
        left = self.fixed(self.num(node.left))

        def is_equal(value: Constant) -> Num:
            return self.binary(ast.Eq, left, self.constant(value), node)

        result = self._logic([partial(is_equal, value) for value in values], False, node)
        return result if is_positive else self._not(result)

    def v_BoolOp(self, node: ast.BoolOp) -> Value:
        parts: list[Callable[[], Num]] = [partial(self.num, value) for value in node.values]
        return self._logic(parts, isinstance(node.op, ast.And), node)

    def _logic(self, operands: list[Callable[[], Num]], is_and: bool, node: ast.AST) -> Num:
        """Return the value of `and` or `or` between `operands` as a `Num`.

        An operand is evaluated only if the earlier operands do not determine the result.
        """
        variable = "." + self.new("l")
        value = operands[0]()
        self.assign(variable, value, node)
        # For each operand at which the evaluation may end: the costs up to and including this
        # operand.
        skipped: list[Counter[Price]] = []
        depends_on_data = False
        for operand in operands[1:]:
            current: Num = self.state[variable]
            depends_on_data = depends_on_data or current.data
            self.spend(data=current.data)
            if value.const is not None and bool(value.const) is not is_and:
                break
            skipped.append(Counter(self.cost))
            truth_text = self.truth(current)
            negation = "" if is_and else "not "
            self.begin(Block(f"if {negation}{truth_text}:", f"if {negation}{current.py}:"))
            state_before = dict(self.state)
            results = list[Num]()
            self.control += depends_on_data
            if self.is_reached(partial(_append_result, results, operand)):
                (value,) = results
                self.assign(variable, value, node)
            self.control -= depends_on_data
            self.state = self.joined(state_before, self.state)
        while skipped:
            costs_of_else = self.join_costs(skipped.pop())
            self.open.pop()
            if costs_of_else:
                self.operations.append(Block("else:", "else:", body=costs_of_else))
        result: Num = self.state.pop(variable)
        return result

    def v_IfExp(self, node: ast.IfExp) -> Value:
        var = "." + self.new("l")

        def assign(part: ast.expr) -> None:
            self.assign(var, self.value(part), node)

        self.fork(node.test, partial(assign, node.body), partial(assign, node.orelse))
        if var not in self.state:
            raise Unreached
        result: Value = self.state.pop(var)
        return result

    def v_NamedExpr(self, node: ast.NamedExpr) -> Any:
        self.bind(node.target.id, self.value(node.value), node)
        return self.value(ast.copy_location(ast.Name(node.target.id, ast.Load()), node))

    def v_Lambda(self, node: ast.Lambda) -> Inner:
        body: list[ast.stmt] = [ast.copy_location(ast.Return(node.body), node.body)]
        if node not in self.lambdas:
            vars(body[0])["generated"] = True
            function = ast.FunctionDef("lambda", node.args, body, [])  # type: ignore[call-overload, unused-ignore]
            self.lambdas[node] = ast.copy_location(function, node)
        return Inner(self.lambdas[node], self.scope)

    # Methods for tuples and lists

    def v_Tuple(self, node: ast.Tuple) -> list[Value]:
        return self.operands(list(node.elts), self.value)

    def v_List(self, node: ast.List) -> Value:
        if is_constant(node):
            return StaticValue(ast.literal_eval(node))
        return self.list_of(
            [self.single(x, node) for x in self.operands(node.elts, self.value)], node
        )


def _append_result(results: list[Num], part: Callable[[], Num]) -> None:
    results.append(part())


def is_constant(node: ast.List | ast.Tuple) -> bool:
    """Return whether all items of a list or tuple are literals."""
    inner = [
        x
        for x in ast.walk(node)
        if not isinstance(x, (ast.List, ast.Tuple, ast.USub, ast.UnaryOp, ast.Load))
    ]
    return all(isinstance(x, ast.Constant) for x in inner)


def place_of(node: ast.AST) -> str:
    """Return the place in the source where a list is created, as "line:column:source code"."""
    return f"{getattr(node, 'lineno', 0)}:{getattr(node, 'col_offset', 0)}:{ast.unparse(node)}"
