"""From the text of a compute() to functions that run it in lanes: one nested function for each statement and expression."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ipu_teach.compile.lanes import LaneCode
from ipu_teach.compile.trace import place
from ipu_teach.compile.weak import PYTHON
from ipu_teach.engine.lane_calls import CountedByLanes, call, looked_up
from ipu_teach.engine.lane_values import (
    LaneStop,
    Weak,
    choose,
    is_lanes,
    is_number,
    truth,
)
from ipu_teach.engine.lanes import GONE, Field, Lanes, Loop, united

Expression = Callable[[Lanes], Any]
Statement = Callable[[Lanes], None]

BRANCH = 1.0  # cycles
_OPERATORS: dict[type[ast.AST], Any] = {
    ast.Add: np.add, ast.Sub: np.subtract, ast.Mult: np.multiply, ast.Div: np.divide, ast.FloorDiv: np.floor_divide,
    ast.Mod: np.remainder, ast.Pow: np.power, ast.LShift: np.left_shift, ast.RShift: np.right_shift,
    ast.BitAnd: np.bitwise_and, ast.BitOr: np.bitwise_or, ast.BitXor: np.bitwise_xor, ast.Lt: np.less,
    ast.LtE: np.less_equal, ast.Gt: np.greater, ast.GtE: np.greater_equal, ast.Eq: np.equal, ast.NotEq: np.not_equal,
    ast.USub: np.negative, ast.UAdd: np.positive, ast.Invert: np.invert,
}  # fmt: skip


class Builder:
    """Turns the text of compute() into functions of a `Lanes`."""

    def __init__(self, code: LaneCode) -> None:
        self.code = code
        self.me = code.tree.args.args[0].arg
        self.run = self.block(code.tree.body)

    def block(self, body: list[ast.stmt]) -> Statement:
        steps = [self.statement(node) for node in body]
        lines = [node.lineno for node in body]

        def run(lanes: Lanes) -> None:
            number = 0
            try:
                for number, step in enumerate(steps):  # noqa: B007
                    step(lanes)
                    if lanes.mask is GONE:
                        return
            except LaneStop as stop:
                stop.line = stop.line or place(self.code.codelet, lines[number])
                raise

        return run

    def statement(self, node: ast.stmt) -> Statement:
        match node:
            case ast.Assign():
                value = self.expression(node.value)
                targets = [self.target(target, node in self.code.plain) for target in node.targets]

                def assign(lanes: Lanes) -> None:
                    given = value(lanes)
                    for target in targets:
                        target(lanes, given)

                return assign
            case ast.AnnAssign():
                return self.statement(ast.Assign([node.target], node.value)) if node.value is not None else _nothing
            case ast.AugAssign():
                return self.change(node)
            case ast.If():
                return self.branch(node)
            case ast.While():
                return self.repeat(node)
            case ast.For():
                return self.count(node)
            case ast.Break():
                return _leave
            case ast.Continue():
                return _continue
            case ast.Return():
                return _return
            case ast.Assert():
                return self.insist(node)
            case ast.Raise():
                return _stop
            case ast.Expr():
                inner = self.expression(node.value)
                return lambda lanes: inner(lanes) and None
        return _nothing

    def target(self, node: ast.expr, plain: bool) -> Callable[[Lanes, Any], None]:
        match node:
            case ast.Name():
                name = node.id
                return lambda lanes, value: lanes.assign(name, value, plain)
            case ast.Tuple():
                parts = [self.target(part, plain) for part in node.elts]

                def unpack(lanes: Lanes, value: Any) -> None:
                    values = tuple(value) if isinstance(value, (tuple, Field)) else ()
                    if len(values) != len(parts):
                        raise LaneStop("an assignment to several names")
                    for part, item in zip(parts, values, strict=True):
                        part(lanes, item)

                return unpack
            case ast.Attribute():
                field = node.attr

                def store(lanes: Lanes, value: Any) -> None:
                    if not (is_lanes(value) or is_number(value)):
                        raise LaneStop(f"a {type(value).__name__} in a field")
                    lanes.fields[field][()] = value

                return store
            case ast.Subscript():
                owner, key = self.expression(node.value), self.expression(node.slice)

                def put(lanes: Lanes, value: Any) -> None:
                    array = owner(lanes)
                    if not isinstance(array, Field) or not (is_lanes(value) or is_number(value)):
                        raise LaneStop("an assignment to an element of this")
                    array[key(lanes)] = value

                return put
        return lambda lanes, value: _stop(lanes, "this assignment")

    def change(self, node: ast.AugAssign) -> Statement:
        place: Any = type(node.target)(**{**vars(node.target), "ctx": ast.Load()})
        old, by, ufunc = self.expression(place), self.expression(node.value), _OPERATORS[type(node.op)]
        put = self.target(node.target, False)

        def run(lanes: Lanes) -> None:
            put(lanes, _binary(lanes, ufunc, old(lanes), by(lanes)))

        return run

    def branch(self, node: ast.If) -> Statement:
        test, body, other = self.expression(node.test), self.block(node.body), self.block(node.orelse)
        assigned = _assigned(node)

        def run(lanes: Lanes) -> None:
            condition = truth(test(lanes))
            if not isinstance(condition, np.ndarray):
                (body if condition else other)(lanes)
                return
            lanes.part_ways(assigned)
            lanes.pending += BRANCH
            lanes.book()
            before = lanes.mask
            yes = lanes.narrowed(condition)
            no = before if yes is GONE else GONE if yes is before or yes is None else lanes.narrowed(~condition)
            after_yes, after_no = yes, no
            if yes is not GONE:
                lanes.mask = yes
                body(lanes)
                lanes.book()
                after_yes = lanes.mask
            if no is not GONE:
                lanes.mask = no
                other(lanes)
                lanes.book()
                after_no = lanes.mask
            lanes.mask = before if after_yes is yes and after_no is no else united(after_yes, after_no)

        return run

    def repeat(self, node: ast.While) -> Statement:
        test, body, assigned = self.expression(node.test), self.block(node.body), _assigned(node)

        def run(lanes: Lanes) -> None:
            loop = Loop(lanes, assigned)
            while True:
                condition = truth(test(lanes))
                if isinstance(condition, np.ndarray):
                    lanes.part_ways(assigned)
                    lanes.pending += BRANCH
                lanes.book()
                lanes.mask = lanes.narrowed(condition)
                if lanes.mask is GONE:
                    break
                loop.compact()
                if not _once(lanes, body):
                    break
            loop.leave()

        return run

    def count(self, node: ast.For) -> Statement:
        over, body, assigned = self.expression(node.iter), self.block(node.body), _assigned(node)
        target = self.target(node.target, node in self.code.plain)

        def run(lanes: Lanes) -> None:
            items = over(lanes)
            counted = items if isinstance(items, CountedByLanes) else None
            names = assigned if counted is None else assigned | {counted.name}
            loop = Loop(lanes, names)
            if counted is not None:
                lanes.part_ways(assigned)
            going = _counting(lanes, counted) if counted is not None else _items(items)
            while lanes.mask is not GONE:
                loop.compact()  # ahead of the item, which comes for the lanes that are there
                item = next(going, GONE)
                if item is GONE or lanes.mask is GONE:
                    break
                target(lanes, item)
                _once(lanes, body)
            loop.leave()

        return run

    def insist(self, node: ast.Assert) -> Statement:
        test = self.expression(node.test)

        def run(lanes: Lanes) -> None:
            holds = truth(test(lanes))
            if not (np.all(holds) if lanes.mask is None else np.all(holds | ~lanes.mask)):
                raise LaneStop("an assert fails")

        return run

    # Expressions

    def expression(self, node: ast.expr) -> Expression:
        match node:
            case ast.Constant():
                value = node.value
                return lambda lanes: value
            case ast.Name():
                return self.name(node.id)
            case ast.Attribute():
                return self.attribute(node)
            case ast.Subscript():
                owner, key = self.expression(node.value), self.expression(node.slice)
                return lambda lanes: _item(lanes, owner(lanes), key(lanes))
            case ast.Tuple():
                parts = [self.expression(part) for part in node.elts]
                return lambda lanes: tuple(part(lanes) for part in parts)
            case ast.BinOp():
                ufunc, a, b = _OPERATORS[type(node.op)], self.expression(node.left), self.expression(node.right)
                return lambda lanes: _binary(lanes, ufunc, a(lanes), b(lanes))
            case ast.UnaryOp():
                return self.unary(node)
            case ast.Compare():
                return self.compare(node)
            case ast.BoolOp():
                return self.logic([self.expression(part) for part in node.values], isinstance(node.op, ast.And))
            case ast.IfExp():
                return self.either(node)
            case ast.Call():
                return self.call(node)
        raise LaneStop(ast.dump(node))

    def name(self, name: str) -> Expression:
        if name in self.code.local:
            return lambda lanes: lanes.read(name)
        value = self.code.names.get(name, self)
        return lambda lanes: value if value is not self and not is_lanes(value) else _stop(lanes, name)

    def attribute(self, node: ast.Attribute) -> Expression:
        attribute = node.attr
        if isinstance(node.value, ast.Name) and node.value.id == self.me:
            declared = self.code.codelet.fields.get(attribute)
            if declared is None:
                constant = getattr(self.code.codelet, attribute, None)
                listed = isinstance(constant, (list, tuple)) and all(map(is_number, constant))
                return lambda lanes: constant if listed or is_number(constant) else _stop(lanes, f"self.{attribute}")
            if declared.depth:
                return lambda lanes: lanes.fields[attribute]
            return lambda lanes: lanes.fields[attribute][()]
        owner = self.expression(node.value)

        def run(lanes: Lanes) -> Any:
            value = owner(lanes)
            if is_lanes(value) or (isinstance(value, Field) and attribute not in ("shape", "ndim", "size", "dtype")):
                raise LaneStop(f".{attribute}")
            found = getattr(value, attribute)
            return found if not is_lanes(found) else _stop(lanes, f".{attribute}")

        return run

    def unary(self, node: ast.UnaryOp) -> Expression:
        inner = self.expression(node.operand)
        if isinstance(node.op, ast.Not):

            def negate(lanes: Lanes) -> Any:
                value = truth(inner(lanes))
                return Weak(~value) if isinstance(value, np.ndarray) else not value

            return negate
        ufunc = _OPERATORS[type(node.op)]
        return lambda lanes: _unary(lanes, ufunc, inner(lanes))

    def compare(self, node: ast.Compare) -> Expression:
        operands = [self.expression(part) for part in (node.left, *node.comparators)]
        ufuncs = [_OPERATORS[type(op)] for op in node.ops]
        if len(ufuncs) == 1:
            (ufunc,), (a, b) = ufuncs, operands
            return lambda lanes: _binary(lanes, ufunc, a(lanes), b(lanes))

        def run(lanes: Lanes) -> Any:
            held = [operands[0](lanes)]

            def link(number: int) -> Expression:
                def test(inner: Lanes) -> Any:
                    held.append(operands[number + 1](inner))
                    return _binary(inner, ufuncs[number], held[-2], held[-1])

                return test

            return self.logic([link(number) for number in range(len(ufuncs))], True)(lanes)

        return run

    def logic(self, parts: list[Expression], both: bool) -> Expression:
        """`and`, `or`: what stands further right is worked out only in the lanes that come to it."""

        def run(lanes: Lanes) -> Any:
            value, before = parts[0](lanes), lanes.mask
            try:
                for part in parts[1:]:
                    known = truth(value)
                    if not isinstance(known, np.ndarray):
                        if known is not both:
                            return value
                        value = part(lanes)
                        continue
                    lanes.pending += BRANCH
                    lanes.book()
                    lanes.mask = lanes.narrowed(known if both else ~known)
                    if lanes.mask is GONE:
                        return value
                    more = part(lanes)
                    lanes.book()
                    value = more if lanes.mask is None else choose(lanes.mask, more, value)
            finally:
                lanes.mask = before
            return value

        return run

    def either(self, node: ast.IfExp) -> Expression:
        test, yes, no = (self.expression(part) for part in (node.test, node.body, node.orelse))

        def run(lanes: Lanes) -> Any:
            condition = truth(test(lanes))
            if not isinstance(condition, np.ndarray):
                return yes(lanes) if condition else no(lanes)
            lanes.pending += BRANCH
            lanes.book()
            before, values = lanes.mask, []
            for part, way in ((yes, condition), (no, ~condition)):
                lanes.mask = lanes.narrowed(way)
                if lanes.mask is not GONE:
                    values.append(part(lanes))
                    lanes.book()
                lanes.mask = before
            return values[0] if len(values) == 1 else choose(condition, *values)

        return run

    def call(self, node: ast.Call) -> Expression:
        function, args = self.expression(node.func), [self.expression(arg) for arg in node.args]
        named = {k.arg: self.expression(k.value) for k in node.keywords if k.arg is not None}
        where = f"range at line {node.lineno}"

        def run(lanes: Lanes) -> Any:
            given = [arg(lanes) for arg in args]
            return call(lanes, function(lanes), given, {k: v(lanes) for k, v in named.items()}, where)

        return run


def _once(lanes: Lanes, body: Statement) -> bool:
    """Run a loop's body for the lanes at work; false if none of them comes round again."""
    lanes.continued.append(GONE)
    body(lanes)
    lanes.book()
    lanes.mask = united(lanes.mask, lanes.continued.pop())
    return lanes.mask is not GONE


def _assigned(node: ast.For | ast.While | ast.If) -> frozenset[str]:
    stored = (n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    calls = (f"range at line {n.lineno}" for n in ast.walk(node) if isinstance(n, ast.Call))
    return frozenset((*stored, *calls))


def _items(value: Any) -> Iterator[Any]:
    if is_lanes(value) or is_number(value):
        raise LaneStop("a loop over a number")
    return iter(value)


def _counting(lanes: Lanes, counted: CountedByLanes) -> Iterator[int]:
    """0, 1, 2 and on, for the lanes that have not come to their end."""
    number = counted.start
    while True:
        more = truth(lanes.compute(np.greater, lanes.values[counted.name], number))
        lanes.pending += BRANCH
        lanes.book()
        lanes.mask = lanes.narrowed(more)
        yield number
        number += 1


def _item(lanes: Lanes, owner: Any, key: Any) -> Any:
    if isinstance(owner, (list, tuple)) and is_lanes(key):
        return looked_up(lanes, owner, key)
    if isinstance(owner, Field) or not is_lanes(owner) and not is_lanes(key):
        try:
            return owner[key]
        except (IndexError, KeyError, TypeError) as error:
            raise LaneStop(str(error)) from None
    raise LaneStop("an index into this")


def _binary(lanes: Lanes, ufunc: Any, a: Any, b: Any) -> Any:
    if is_lanes(a) or is_lanes(b):
        if not (is_lanes(a) or is_number(a)) or not (is_lanes(b) or is_number(b)):
            raise LaneStop(f"{ufunc.__name__}() of what is no number")
        return lanes.compute(ufunc, a, b)
    if not is_number(a) or not is_number(b):
        raise LaneStop(f"{ufunc.__name__}() of what is no number")
    try:
        return PYTHON[ufunc](a, b)
    except Exception as error:  # what it would raise in every lane at work
        raise LaneStop(str(error)) from None


def _unary(lanes: Lanes, ufunc: Any, a: Any) -> Any:
    if is_lanes(a):
        return lanes.compute(ufunc, a)
    if not is_number(a):
        raise LaneStop(f"{ufunc.__name__}() of what is no number")
    return PYTHON[ufunc](a)


def _nothing(lanes: Lanes) -> None:
    pass


def _stop(lanes: Lanes, what: str = "an exception that is raised") -> Any:
    raise LaneStop(what)


def _leave(lanes: Lanes) -> None:
    lanes.book()
    lanes.mask = GONE


def _continue(lanes: Lanes) -> None:
    lanes.book()
    lanes.continued[-1] = united(lanes.continued[-1], lanes.mask)
    lanes.mask = GONE


def _return(lanes: Lanes) -> None:
    lanes.book()
    if lanes.returned is None:
        lanes.returned = np.zeros(lanes.home, bool)
    if lanes.ids is None:
        lanes.returned |= True if lanes.mask is None else lanes.mask
    else:
        lanes.returned[lanes.ids if lanes.mask is None else lanes.ids[lanes.mask]] = True
    lanes.mask = GONE
