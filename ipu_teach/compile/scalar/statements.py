"""Statements: assignments, branches, and the ends of functions."""

from __future__ import annotations

import ast
import builtins
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np

from ipu_teach.arguments import Function
from ipu_teach.compile.scalar.expressions import Expressions, is_constant
from ipu_teach.compile.scalar.kinds import is_number
from ipu_teach.compile.scalar.operations import Finish, Leave, Operation
from ipu_teach.compile.scalar.values import (
    Arr,
    Inner,
    Num,
    Refused,
    StaticValue,
    Value,
    in_words,
)
from ipu_teach.compile.scalar.writer import Price

MOST_UNROLLED = 64  # The maximum number of items of a range in an assignment.


class Statements(Expressions):
    """Translates statements, with one method for each kind of statement, such as `s_Assign`."""

    def block(self, body: list[ast.stmt]) -> None:
        """Translate statements in order, but not those that cannot be reached."""
        for node in body:
            if not self.live:
                break
            method = getattr(self, "s_" + type(node).__name__, None)
            line, self.line = self.line, node.lineno
            if method is None:
                self.refuse(node, *in_words(node))
            if not isinstance(node, (ast.For, ast.While, ast.FunctionDef)) and not _is_text(node):
                self.count_statement(node)
            try:
                if not self.is_reached(lambda method=method, node=node: method(node)):  # type: ignore[misc]
                    self.live = False
            except Refused as refused:
                refused.line = refused.line or node.lineno
                raise
            self.line = line

    def s_Pass(self, node: ast.Pass) -> None:
        pass

    def s_Expr(self, node: ast.Expr) -> None:
        if not _is_text(node) and not self._prints(node.value):
            value = self.value(node.value)
            if isinstance(value, Num):
                self.emit(None, value.py)

    def _prints(self, node: ast.expr) -> bool:
        """Return whether a call is print(), which costs nothing because a tile has no screen.

        Only the plain vertex loop prints. A print() that calls the learner's functions is refused.
        """
        if (
            not isinstance(node, ast.Call)
            or not isinstance(node.func, ast.Name)
            or self.value(node.func) != StaticValue(print)
        ):
            return False
        for part in ast.walk(node):
            called = part.func if isinstance(part, ast.Call) else None
            is_own = isinstance(called, ast.Name) and not hasattr(builtins, called.id)
            if (
                is_own
                or isinstance(part, ast.NamedExpr)
                or (isinstance(called, ast.Attribute) and self._is_vertex(called.value))
            ):
                self.refuse(
                    node, "print() of the result of your own function", "print(…) of a variable"
                )
        return True

    def s_Assert(self, node: ast.Assert) -> None:
        a = self.num(node.test)
        self.bail(f"not {self.truth(a)}", node)
        self.emit(None, f"assert {a.py}")

    def s_Raise(self, node: ast.Raise) -> None:
        self.flush()
        self.emit(f"return {node.lineno}", "raise ValueError")
        self.live = False

    def s_Assign(self, node: ast.Assign) -> None:
        source = node.value
        if all(isinstance(target, (ast.Tuple, ast.List)) for target in node.targets):
            source = self.unrolled(source)
        value = self.value(source)
        if isinstance(value, list) and isinstance(node.targets[0], ast.Tuple):
            value = [self.fixed(v) for v in value]
        elif len(node.targets) > 1:
            value = self.fixed(value)
        for target in node.targets:
            self.store(target, value, node)

    def s_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.store(node.target, self.value(node.value), node)

    def s_AugAssign(self, node: ast.AugAssign) -> None:
        target = node.target
        kind = type(node.op)
        if isinstance(target, ast.Subscript):
            array, keys = self._store_target(target, node)
            if keys is None:
                self._augment_region(array, node)
                return
            keys = [self.fixed(index) for index in keys]
            current_value = self.fixed(self.load(array, keys, node))
            self.write(
                array, keys, self.binary(kind, current_value, self.num(node.value), node), node
            )
            return
        loaded_target: Any = ast.copy_location(
            type(target)(**{**vars(target), "ctx": ast.Load()}), target
        )
        current_value = self.value(loaded_target)
        if isinstance(current_value, Arr):
            self._augment_region(current_value, node)
            return
        current_value = self.single(current_value, target)
        left, right = (
            self.nums([loaded_target, node.value])
            if isinstance(target, ast.Name)
            else (self.fixed(current_value), self.num(node.value))
        )
        self.store(target, self.binary(kind, left, right, node), node)

    def _store_target(self, target: ast.Subscript, node: ast.AST) -> tuple[Arr, list[Num] | None]:
        """Return the target of an assignment such as x[k] = value, as (array, index).

        The array is x, and the index contains a number for each axis. But if `target` is a row or a
        slice, the array is this part of x, and the index is None.
        """
        array = self.value(target.value)
        self.refuse_if(not isinstance(array, Arr), node, "this assignment")
        keys = self.keys(array, target.slice)
        return (self.view(array, target.slice, node), None) if keys is None else (array, keys)

    def _augment_region(self, array: Arr, node: ast.AugAssign) -> None:
        """Translate `array += value` and similar statements."""
        value = self.vector(type(node.op), array, self.value(node.value), node)
        self.refuse_if(
            not np.can_cast(value.type, array.type, "same_kind"),
            node,
            f"{value.type} stored in {array.type}",
        )
        self.fill(array, value, node)

    def store(self, target: ast.expr, value: Value, node: ast.AST) -> None:
        """Assign a value to the target of an assignment."""
        if isinstance(target, ast.Name):
            if (
                isinstance(value, StaticValue)
                and isinstance(value.value, (list, dict, set, np.ndarray))
                and self._changes(target.id)
            ):
                constants = np.array(value.value, object)
                if not isinstance(getattr(node, "value", None), ast.List):
                    self.refuse(node, "a list that all vertices share", "a copy of it")
                if not constants.size or not all(map(is_number, constants.flat)):
                    self.refuse(node, "a list that grows", "np.zeros(n), and a counter,")
                numbers = [self.constant(constant) for constant in constants.reshape(-1).tolist()]
                value = self.list_of(numbers, node, constants.shape)
            self.bind(target.id, value, node)
        elif isinstance(target, (ast.Tuple, ast.List)):
            for target_part, item_value in zip(
                target.elts, self.unpacked(value, len(target.elts), node), strict=True
            ):
                self.store(target_part, item_value, node)
        elif isinstance(target, ast.Attribute):
            declared = (
                self.codelet.fields.get(target.attr) if self._is_vertex(target.value) else None
            )
            if declared is None:
                self.refuse(
                    node, f"an assignment to {ast.unparse(target)}", "a field, or a local variable"
                )
            region = self.region(target.attr, declared)
            if declared.depth:
                self.fill(region, value, node)
            else:
                self.write(region, [], value, node)
        elif isinstance(target, ast.Subscript):
            if isinstance(value, Num) and not isinstance(target.slice, (ast.Constant, ast.Name)):
                value = self.fixed(value)
            array, keys = self._store_target(target, node)
            if keys is None:
                self.fill(array, value, node)
            else:
                self.write(array, keys, value, node)
        else:
            self.refuse(node, "this assignment")

    def unrolled(self, node: ast.expr) -> ast.expr:
        """Return the elements of a generator, comprehension or map() over constants as a tuple.

        It is used on the right side of an assignment to several names. The elements cost the same
        as if the learner had written them one after another. Any other expression is returned
        unchanged.
        """
        if (
            isinstance(node, ast.Call)
            and len(node.args) == 1
            and not node.keywords
            and self._calls(node, tuple, list)
        ):
            return self.unrolled(node.args[0])
        if isinstance(node, (ast.GeneratorExp, ast.ListComp)):
            (clause,) = node.generators[:1]
            is_simple = len(node.generators) == 1 and not clause.ifs and not clause.is_async
            items = self._constants(clause.iter) if is_simple else None
            if items is None or not _is_flat(node.elt):
                return node
            bindings = [_bindings(clause.target, item) for item in items]
            elements = [
                Substitution(names).visit(deepcopy(node.elt)) for names in bindings if names
            ]
            if len(elements) != len(items):
                return node
        elif isinstance(node, ast.Call) and len(node.args) == 2 and self._calls(node, map):
            items = self._constants(node.args[1])
            if items is None or node.keywords:
                return node
            function = node.args[0]
            elements = [ast.Call(deepcopy(function), [ast.Constant(item)], []) for item in items]
        else:
            return node
        result = ast.Tuple(elements, ast.Load())
        mark_generated(ast.Expression(result), node)
        return result

    def _calls(self, node: ast.Call, *functions: Function) -> bool:
        """Return whether `node` is a call of one of the builtins `functions`."""
        if not isinstance(node.func, ast.Name) or node.func.id in self.scope.local:
            return False
        return any(self.value(node.func) == StaticValue(function) for function in functions)

    def _constants(self, node: ast.expr) -> list[Any] | None:
        """Return the items of a range or a sequence of constants.

        Return None for anything else, and for a range of more than `MOST_UNROLLED` items.
        """
        if isinstance(node, (ast.Tuple, ast.List)) and is_constant(node):
            return list(ast.literal_eval(node))
        if not isinstance(node, ast.Call) or node.keywords or not self._calls(node, range):
            return None
        try:
            items = range(*(ast.literal_eval(argument) for argument in node.args))
        # Perhaps an argument of range() is not a constant, or not an integer.
        except (TypeError, ValueError):
            return None
        return list(items) if len(items) <= MOST_UNROLLED else None

    def unpacked(self, value: Any, count: int, node: ast.AST) -> list[Value]:
        """Return the `count` values that an assignment to `count` names gets from one value."""
        if isinstance(value, StaticValue) and isinstance(value.value, (list, tuple)):
            value = self.table(value.value, node)
        if isinstance(value, Arr) and len(value.dims) == 1:
            self.bail(f"{value.dims[0][0]} != {count}", node)
            return [self.fixed(self.load(value, [self.constant(k)], node)) for k in range(count)]
        self.refuse_if(
            not isinstance(value, list) or len(value) != count,
            node,
            "an assignment to several names",
        )
        return list(value)

    def _changes(self, name: str) -> bool:
        """Return whether the function may change the list called `name`.

        The list counts as unchanged if the function only indexes it, iterates over it, or passes it
        to one of READERS.
        """
        nodes = list(ast.walk(self.trees.get(self.scope.function, self.scope.function)))  # type: ignore[arg-type]
        written = {
            n.value
            for n in nodes
            if isinstance(n, ast.Subscript) and not isinstance(n.ctx, ast.Load)
        }
        read = {
            n.value
            for n in nodes
            if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Load) and n not in written
        }
        read |= {n.iter for n in nodes if isinstance(n, (ast.For, ast.comprehension))}
        calls = (
            n
            for n in nodes
            if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id in READERS
        )
        read |= {arg for n in calls for arg in n.args}
        return any(
            isinstance(n, ast.Name)
            and n.id == name
            and isinstance(n.ctx, ast.Load)
            and n not in read
            for n in nodes
        )

    # --- branches ---

    def fork(self, test: ast.expr, yes: Callable[[], None], no: Callable[[], None]) -> None:
        """Write an `if` statement whose condition is the expression `test`.

        `yes` translates the first branch, and `no` the second.
        """
        a = self.num(test)
        self.spend(data=a.data)
        self.branch(a, yes, no)

    def branch(self, number: Num, yes: Callable[[], None], no: Callable[[], None]) -> None:
        """Write an `if` statement whose condition is the truth of `number`.

        `yes` translates the first branch, and `no` the second. If the value of the condition is
        known, only one branch is translated, without an `if`.
        """
        self.control += number.data
        if number.const is not None:
            (yes if number.const else no)()
            self.control -= number.data
            return
        truth_text = self.truth(number)
        state_before = dict(self.state)
        cost_before = self.cost
        end_states = []
        # The tuple (uncounted cost, operations) of the first branch, or None until the branch is
        # translated.
        first_branch: tuple[Counter[Price], list[Operation]] | None = None
        for line_format, walk_branch in (("if {}:", yes), ("else:", no)):
            self.state = dict(state_before)
            self.live = True
            self.cost = Counter(cost_before)
            self.loaded.clear()
            with self.under(line_format.format(truth_text), line_format.format(number.py)):
                self.live = self.is_reached(walk_branch) and self.live
                if self.live:
                    end_states.append(self.state)
                    if first_branch is not None:
                        first_branch[1].extend(self.join_costs(first_branch[0]))
                    first_branch = self.cost, self.operations
        self.cost = first_branch[0] if first_branch is not None else Counter()
        self.loaded.clear()
        self.control -= number.data
        self.live = bool(end_states)
        self.state = self.joined(*end_states) if end_states else state_before

    def s_If(self, node: ast.If) -> None:
        self.fork(node.test, lambda: self.block(node.body), lambda: self.block(node.orelse))

    def s_Break(self, node: ast.Break) -> None:
        self._leave(is_continue=False)

    def s_Continue(self, node: ast.Continue) -> None:
        self._leave(is_continue=True)

    def _leave(self, is_continue: bool) -> None:
        """Translate a break or a continue, from the learner's source or from a generated loop."""
        self.flush()
        if self.control and not is_continue:
            self.scope.parted = True
        self.scope.loops[-1][0][int(is_continue)].append(dict(self.state))
        self.leave("continue" if is_continue else "break")

    def leave(self, word: str = "break") -> None:
        """Write a `break` or a `continue`. The code after it cannot be reached."""
        self.operations.append(Leave(word, word))
        self.live = False

    def s_Return(self, node: ast.Return) -> None:
        scope = self.scope
        if not scope.returns:
            self.finish(None if node.value is None else self.num(node.value))
            return
        if node.value is not None:
            self.assign(scope.returns, self.value(node.value), node)
        self.flush()
        scope.exits.append(dict(self.state))
        if scope.loops:
            self.both(f"{scope.loops[-1][1]} = True")
        self.leave()

    def s_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.bind(node.name, Inner(node, self.scope), node)

    def finish(self, answer: Num | None = None) -> None:
        """Write the end of compute().

        `answer` is the return value. A return value of None, or a missing return statement, counts
        as true.
        """
        self.flush()
        returned = None
        if answer is not None and "no" not in answer.alts and not answer.const:
            self.answers = True
            returned = (self.truth(answer), answer.py)
        elif answer is not None and len(answer.alts) > 1:
            self.refuse(
                ast.Pass(), "compute() that returns None or a number", "return True or False"
            )
        self.operations.append(Finish(returned))
        self.live = False


# These functions read lists without changing them.
READERS = ("len", "max", "min", "sum", "any", "all", "enumerate", "zip", "reversed")


def mark_generated(module: ast.AST, node: ast.AST) -> None:
    """Mark statements as generated, and give them the position of `node`."""
    for part in ast.walk(module):
        ast.copy_location(part, node)
        if isinstance(part, ast.stmt):
            vars(part)["generated"] = True


def _bindings(target: ast.expr, item: Any) -> dict[str, ast.expr] | None:
    """Return the expressions that replace a loop's variables for a constant item, keyed by name.

    `target` is the loop's target, such as `x` or `(x, y)`. Return None if the item does not fit the
    target.
    """
    if isinstance(target, ast.Name):
        return {target.id: ast.Constant(item)} if is_number(item) else None
    if not isinstance(target, (ast.Tuple, ast.List)) or not isinstance(item, (tuple, list)):
        return None
    if len(target.elts) != len(item):
        return None
    names: dict[str, ast.expr] = {}
    for target_part, value in zip(target.elts, item, strict=True):
        part_bindings = _bindings(target_part, value)
        if part_bindings is None:
            return None
        names |= part_bindings
    return names


def _is_flat(element: ast.expr) -> bool:
    """Return whether an expression contains no lambda, comprehension, list or `:=`."""
    inner = (ast.Lambda, ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp, ast.List)
    return not any(isinstance(part, (*inner, ast.NamedExpr)) for part in ast.walk(element))


class Substitution(ast.NodeTransformer):
    """Replaces names by expressions."""

    def __init__(self, names: dict[str, ast.expr]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id not in self.names:
            return node
        expression = deepcopy(self.names[node.id])
        for part in ast.walk(expression):
            if isinstance(part, (ast.Name, ast.Tuple)) and isinstance(node.ctx, ast.Store):
                part.ctx = ast.Store()
        return expression


def _is_text(node: ast.stmt) -> bool:
    """Return whether a statement is only a constant, such as a docstring."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
