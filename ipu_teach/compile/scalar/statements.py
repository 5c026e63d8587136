"""Statements: assignments, branches and loops."""

from __future__ import annotations

import ast
import builtins
import sys
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np

from ipu_teach.compile.scalar.calls import stored_names
from ipu_teach.compile.scalar.expressions import Expressions, is_constant, place_of
from ipu_teach.compile.scalar.kinds import BOOLS, INTS, is_number
from ipu_teach.compile.scalar.operations import Block, Finish, Leave, Operation
from ipu_teach.compile.scalar.values import (
    LENGTH,
    SHORT,
    SMALL,
    Arr,
    Fixed,
    Inner,
    Known,
    LoopSequence,
    Num,
    Refused,
    State,
    StaticValue,
    in_words,
)
from ipu_teach.compile.scalar.variable_walk import is_same_knowledge, is_same_state
from ipu_teach.compile.scalar.writer import Price

# since Python 3.12, sum() of floats compensates for rounding errors
COMPENSATED = sys.version_info >= (3, 12)
MOST_UNROLLED = 64  # items of a generator that one assignment unpacks
MOST_WALKS = 12  # of one loop, until the knowledge at its head no longer changes


class Statements(Expressions):
    """One method for each kind of statement."""

    def block(self, body: list[ast.stmt]) -> None:
        """Walk statements, until one that the end of is not reached."""
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
        """Return whether a call is print(), which costs nothing, because a tile has no screen.

        The plain loop prints. A print() that calls the learner's functions is refused.
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
                    node, "print() of what a function of your own gives", "print(…) of a variable"
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
            keys = [self.fixed(k) for k in keys]
            old = self.fixed(self.load(array, keys, node))
            self.write(array, keys, self.binary(kind, old, self.num(node.value), node), node)
            return
        read: Any = ast.copy_location(type(target)(**{**vars(target), "ctx": ast.Load()}), target)
        old = self.value(read)
        if isinstance(old, Arr):
            self._augment_region(old, node)
            return
        old = self.single(old, target)
        a, b = (
            self.nums([read, node.value])
            if isinstance(target, ast.Name)
            else (self.fixed(old), self.num(node.value))
        )
        self.store(target, self.binary(kind, a, b, node), node)

    def _store_target(self, target: ast.Subscript, node: ast.AST) -> tuple[Arr, list[Num] | None]:
        """Return the target of x[k] = value: (array, the index's numbers), or (its part, None)."""
        array = self.value(target.value)
        self.refuse_if(not isinstance(array, Arr), node, "this assignment")
        keys = self.keys(array, target.slice)
        return (self.view(array, target.slice, node), None) if keys is None else (array, keys)

    def _augment_region(self, array: Arr, node: ast.AugAssign) -> None:
        """Walk `region += value` and the like."""
        value = self.vector(type(node.op), array, self.value(node.value), node)
        self.refuse_if(
            not np.can_cast(value.type, array.type, "same_kind"),
            node,
            f"{value.type} stored in {array.type}",
        )
        self.fill(array, value, node)

    def store(self, target: ast.expr, value: Any, node: ast.AST) -> None:
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
                numbers = [self.constant(x) for x in constants.reshape(-1).tolist()]
                value = self.list_of(numbers, node, constants.shape)
            self.bind(target.id, value, node)
        elif isinstance(target, (ast.Tuple, ast.List)):
            for part, item in zip(
                target.elts, self.unpacked(value, len(target.elts), node), strict=True
            ):
                self.store(part, item, node)
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

        It is for an assignment to several names. Any other expression is returned unchanged. The
        elements cost the same as if they were written one after the other.
        """
        if (
            isinstance(node, ast.Call)
            and len(node.args) == 1
            and not node.keywords
            and self._calls(node, tuple, list)
        ):
            return self.unrolled(node.args[0])
        if isinstance(node, (ast.GeneratorExp, ast.ListComp)):
            (part,) = node.generators[:1]
            is_simple = len(node.generators) == 1 and not part.ifs and not part.is_async
            items = self._constants(part.iter) if is_simple else None
            if items is None or not _is_flat(node.elt):
                return node
            bindings = [_matched(part.target, item) for item in items]
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
        placed(ast.Expression(result), node)
        return result

    def _calls(self, node: ast.Call, *functions: object) -> bool:
        """Return whether a call is one of these builtins."""
        if not isinstance(node.func, ast.Name) or node.func.id in self.scope.local:
            return False
        return any(self.value(node.func) == StaticValue(function) for function in functions)

    def _constants(self, node: ast.expr) -> list[Any] | None:
        """Return the items of a range or a sequence of constants; None for anything else."""
        if isinstance(node, (ast.Tuple, ast.List)) and is_constant(node):
            return list(ast.literal_eval(node))
        if not isinstance(node, ast.Call) or node.keywords or not self._calls(node, range):
            return None
        try:
            items = range(*(ast.literal_eval(argument) for argument in node.args))
        except (TypeError, ValueError):  # an argument is no constant, or no whole number
            return None
        return list(items) if len(items) <= MOST_UNROLLED else None

    def unpacked(self, value: Any, count: int, node: ast.AST) -> list[Any]:
        """Return the values that an assignment to `count` names unpacks."""
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
        """Return whether a list of that name may be changed: it is used as more than a table."""
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

    # Branches

    def fork(self, test: ast.expr, yes: Callable[[], None], no: Callable[[], None]) -> None:
        """Walk one branch or the other, by the truth of an expression."""
        a = self.num(test)
        self.spend(data=a.data)
        self.branch(a, yes, no)

    def branch(self, a: Num, yes: Callable[[], None], no: Callable[[], None]) -> None:
        """Walk one branch or the other, by the truth of a number."""
        self.control += a.data
        if a.const is not None:  # known ahead
            (yes if a.const else no)()
            self.control -= a.data
            return
        x = self.truth(a)
        before = dict(self.state)
        spent = self.cost
        ends = []
        # after the first branch: its uncounted cost, and its operations
        first: tuple[Counter[Price], list[Operation]] | None = None
        for line, way in (("if {}:", yes), ("else:", no)):
            self.state = dict(before)
            self.live = True
            self.cost = Counter(spent)
            self.loaded.clear()
            with self.under(line.format(x), line.format(a.py)):
                self.live = self.is_reached(way) and self.live
                if self.live:
                    ends.append(self.state)
                    if first is not None:
                        first[1].extend(self.join_costs(first[0]))
                    first = self.cost, self.operations
        self.cost = first[0] if first is not None else Counter()
        self.loaded.clear()
        self.control -= a.data
        self.live = bool(ends)
        self.state = self.joined(*ends) if ends else before

    def s_If(self, node: ast.If) -> None:
        self.fork(node.test, lambda: self.block(node.body), lambda: self.block(node.orelse))

    def s_Break(self, node: ast.Break) -> None:
        self._leave(is_continue=False)

    def s_Continue(self, node: ast.Continue) -> None:
        self._leave(is_continue=True)

    def _leave(self, is_continue: bool) -> None:
        """Walk a break or a continue of the learner's."""
        self.flush()
        if self.control and not is_continue:
            self.scope.parted = True
        self.scope.loops[-1][0][int(is_continue)].append(dict(self.state))
        self.leave("continue" if is_continue else "break")

    def leave(self, word: str = "break") -> None:
        """Leave a loop, or go on to its next iteration."""
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
        """End compute(). `answer` is what it returns; None, as no return at all, counts as true."""
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

    # Loops

    def loop(self, head: Callable[[list[State]], bool], node: ast.For | ast.While) -> None:
        """Walk a loop until the knowledge at its head no longer changes.

        The text of the last walk is kept.

        `head` writes the loop's first line, records the states in which it leaves the loop, and
        returns whether data decide the number of iterations.
        """
        if node.orelse:
            self.refuse(node.orelse[0], "a loop's else", "a flag that is set before the break")
        self.flush()
        scope = self.scope
        before = entry = dict(self.state)
        settled = self.settled.setdefault((node, self.control > 0), [])
        cached = next(
            (at_head for walked, at_head in settled if is_same_state(walked, before)), None
        )
        if cached is not None:  # it was walked before, with the same knowledge
            entry = {
                n: before[n] if n in before and is_same_knowledge(v, before[n]) else v
                for n, v in cached.items()
            }
        parted = scope.parted
        dry = self.dry
        lenient = True
        start = len(self.operations), self.count, self.missed
        for _ in range(MOST_WALKS):
            scope.parted = False
            self.dry = dry or lenient
            after, exits = self._walk_once(head, node, dict(entry))
            self.dry = dry
            merged = self.joined(entry, after) if after is not None else entry
            for name, v in merged.items():  # a bound that grows is dropped
                old = entry.get(name)
                if isinstance(v, Num) and isinstance(old, Num) and v.bound != old.bound:
                    merged[name] = replace(v, bound=None)
            done = is_same_state(merged, entry)
            if done and (dry or not lenient or self.missed == start[2]):
                break
            lenient = not done  # in the last walk, a name that no iteration assigns is refused
            del self.operations[start[0] :]
            _, self.count, self.missed = start  # so that generated names are the same again
            self.cost.clear()
            entry = merged
        else:
            self.refuse(node, "a loop whose variables change their types")
        if cached is None:
            settled.append((before, entry))
        self.state = self.joined(*exits)
        self.live = bool(exits)
        for name in (scope.prefix + name for name in stored_names(node) if scope.parted):
            # the number of completed iterations depends on data
            if isinstance(self.state.get(name), Num):
                self.state[name] = replace(self.state[name], data=True)
        scope.parted = parted

    def _walk_once(
        self, head: Callable[[list[State]], bool], node: ast.For | ast.While, state: State
    ) -> tuple[Any, list[State]]:
        """Walk a loop once.

        Return (state at its end or None, states in which it is left).
        """
        scope = self.scope
        flag = self.new("q")
        breaks: list[State] = [] if isinstance(node, ast.While) else [dict(state)]
        continues: list[State] = []
        self.loaded.clear()
        scope.loops.append(((breaks, continues), flag))
        self.state = state
        self.live = True
        has_return = bool(scope.returns) and _returns(node.body)
        if has_return:
            self.both(f"{flag} = False")
        data = head(breaks)
        self.control += data
        self.block(node.body)
        self.flush()
        self.loaded.clear()
        ends = ([self.state] if self.live else []) + continues
        self.control -= data
        self.open.pop()
        if data and isinstance(node, ast.For):
            self.spend(times=2)
            with self.under("else:", "else:"):
                self.flush()
        self.notify_watch(f"leave({self.head()})")
        scope.loops.pop()
        if has_return:  # a return of an inlined function leaves the enclosing loops too
            with self.under(f"if {flag}:", f"if {flag}:"):
                if scope.loops:
                    self.both(f"{scope.loops[-1][1]} = True")
                self.operations.append(Leave("break", "break"))
        after = self.joined(*ends) if ends else None
        if after is not None and isinstance(node, ast.For):
            breaks.insert(1, after)
        return after, breaks

    def s_While(self, node: ast.While) -> None:
        def head(breaks: list[State]) -> bool:
            watched = f"while watch.over({self.head()}, True):"
            self.begin(Block("while True:", "while True:", watched))
            self.count_statement(node)
            a = self.num(node.test)
            self.spend(data=a.data)
            self._may_stop(node)
            if a.const is None or not a.const:
                spent = Counter(self.cost)
                with self.under(f"if not {self.truth(a)}:", f"if not {a.py}:"):
                    self.flush()
                    self.notify_watch("end_while()")
                    self.operations.append(Leave("break", "break"))
                self.cost = spent
                breaks.append(dict(self.state))
            return a.data

        self.loop(head, node)

    def head(self) -> int:
        """Return the number of the loop that is being walked."""
        return self.heads.setdefault(
            (self.spot, self.scope.prefix, self.scope.loops[-1][1]), len(self.heads)
        )

    def _may_stop(self, node: ast.stmt, endless: bool = True) -> None:
        """Write the checks at a loop's head.

        The compiled text of an `endless` loop asks whether it is to stop. CPython's text asks
        whether it has become too slow for the vertex.
        """
        if endless:
            self.endless = True
            self.emit(f"if stopped(stop): return -{node.lineno}")
        self.emit(None, "if cyc > most: most = longer(cyc)")

    def s_For(self, node: ast.For) -> None:
        self.for_loop(self._sequence(node.iter), node)

    def for_loop(self, seq: LoopSequence, node: ast.For) -> None:
        """Walk a `for` loop over a sequence."""
        counter = self.new("i")

        def head(breaks: list[State]) -> bool:
            target = self._target(node.target)
            bounds = seq.bounds if isinstance(node.target, ast.Name) else None
            self.ahead[counter] = set()
            line = f"for {counter} in range({', '.join(bounds or [seq.count])}):"
            variable, items = (counter, f"range({seq.size})") if seq.counted else (target, seq.py)
            python = f"for {variable} in {items}:"
            watched = f"for {variable} in watch.over({self.head()}, {items}):"
            self.begin(Block(line, python, watched, counter=counter))
            self.count_statement(node)
            self.spend(times=2, data=seq.data)
            endless = seq.data or not seq.short
            if endless or len(self.scope.loops) == 1:
                self._may_stop(node, endless)
            with self.compiled_alone(self.is_compiled_only or not seq.counted):
                item = (
                    Num({"wi": counter}, target, bound=SMALL, affine=(counter, 0))
                    if bounds
                    else seq.item(counter)
                )
                self.ranges.pop(counter, None)
                if bounds and isinstance(bounds[0], Known) and bounds[2] == "1":
                    self.ranges[counter] = bounds[:2]
                # a loop counter is control flow of the chip, and no data
                control, self.control = self.control, 0
                self.store(node.target, item, node)
                self.control = control
            return seq.data

        self.loop(head, node)

    def v_ListComp(self, node: ast.ListComp) -> Arr:
        (part,) = node.generators[:1]
        elt = node.elt
        prefix = self.new("g_")
        self.refuse_if(
            len(node.generators) > 1 or part.ifs,
            node,
            "a list that grows",
            "np.zeros(n), and a counter,",
        )
        is_filled = (
            isinstance(elt, ast.BinOp)
            and isinstance(elt.op, ast.Mult)
            and isinstance(elt.left, ast.List)
        )
        if (
            is_filled
            and isinstance(part.iter, ast.Call)
            and ast.unparse(part.iter.func) == "range"
            and len(part.iter.args) == 1
        ):
            return self.filled(elt, part.iter.args[0])  # type: ignore[arg-type]
        seq = self._sequence(part.iter)
        array = self.listed(
            [Num({"wi": self.named(seq.count)}, seq.size)], f"[0] * ({seq.size})", node
        )
        names, _ = _renamed_parts(node, prefix, "KL")
        (loop,) = self.generated("for K, T in I:\n    L[K] = E", names, node).body
        self.bind(prefix + "L", array, node)
        self.for_loop(_numbered(seq, "0"), loop)  # type: ignore[arg-type]
        result: Arr = self.state[self.scope.prefix + prefix + "L"]
        return result

    def generated(self, text: str, names: dict[str, ast.expr], node: ast.AST) -> ast.Module:
        """Return statements from `text`, with expressions in place of names.

        The variables that they assign become those of the walked function.
        """
        substitution = Substitution(names)
        module = ast.Module([substitution.visit(part) for part in ast.parse(text).body], [])
        placed(module, node)
        self.scope.local |= stored_names(module)
        self.scope.local |= {
            n.id for name, n in names.items() if name == "L" and isinstance(n, ast.Name)
        }
        return module

    def reduction_loop(self, f: Any, node: ast.Call, named: dict[str, ast.expr]) -> Num:
        """Return sum, any, all, max or min of an iterable, written as a loop."""
        generator = node.args[0]
        prefix = self.new("g_")
        if isinstance(generator, ast.ListComp) and f in (any, all):
            self.refuse(node, f"{f.__name__}() of a list", "a generator")
        if not isinstance(generator, (ast.GeneratorExp, ast.ListComp)):
            item = ast.Name("T", ast.Load())
            generator = ast.GeneratorExp(item, [ast.comprehension(item, generator, [], 0)])
        allowed = {"default", "key"} if f in (max, min) else {"start"} if f is sum else set()
        if len(generator.generators) > 1 or named.keys() - allowed:
            self.refuse(node, f"{f.__name__}() of this", "a loop")
        names, tests = _renamed_parts(generator, prefix, "ABFKX")
        names |= {"M": node.func, "D": named.get("default", ast.Constant(0))}
        names["S"] = [*node.args[1:], named.get("start", ast.Constant(0))][0]
        names["G"] = (
            ast.Call(named["key"], [ast.Name(prefix + "X", ast.Load())], [])
            if "key" in named
            else ast.Constant(0)
        )
        module = self.generated(
            _LOOPS[f] if "key" not in named else _BY_KEY.format("><"[f is min]), names, node
        )
        loop = module.body[-1]
        assert isinstance(loop, ast.For)
        self.known.add(prefix + "F")
        place = place_of(node)
        total = f"{self.scope.prefix}{prefix}A"
        if place in self.summed:
            module.body.insert(1, _Line(f"{prefix}l = [{total}]"))
            collected = _Line(f"{prefix}l.append({self.scope.prefix}{prefix}X)")
            loop.body = [
                *self.generated("X = E", names, node).body,
                collected,
                *self.generated("A = A + X", names, node).body,
            ]
        for test in reversed(tests):
            loop.body = [ast.If(test, loop.body, [])]
        if "default" in named:
            module.body += self.generated("if F:\n    A = D", names, node).body
        placed(module, node)
        self.block(module.body)
        result = self.num(ast.copy_location(ast.Name(prefix + "A", ast.Load()), node))
        if f is sum and "wf" in result.alts and COMPENSATED:
            self.summed.add(place)
            self.require_python(node)
            self.emit(None, f"{total} = sum({prefix}l)")
        return result

    def s__Line(self, node: _Line) -> None:
        self.emit(None, node.text)

    def _target(self, node: ast.expr) -> str:
        """Return a loop's variables in CPython's text."""
        if isinstance(node, ast.Name):
            return self.scope.prefix + node.id
        if isinstance(node, ast.Tuple):
            return "(" + ", ".join(self._target(part) for part in node.elts) + ",)"
        self.refuse(node, "this loop variable")

    def _sequence(self, node: ast.expr) -> LoopSequence:
        """Return the sequence that a `for` iterates over."""
        if isinstance(node, ast.Call):
            f = self.value(node.func)
            f = f.value if isinstance(f, StaticValue) else None
            if f is range and not node.keywords and 1 <= len(node.args) <= 3:
                return self._range(node)
            start = [*node.args[1:], *(k.value for k in node.keywords if k.arg == "start")]
            if (
                f is enumerate
                and node.args
                and len(start) == len(node.args) - 1 + len(node.keywords) <= 1
            ):
                first = self.num(start[0]) if start else self.constant(0)
                self.refuse_if(
                    not isinstance(first.const, int),
                    node,
                    "enumerate() from a number that is no constant",
                )
                return _numbered(self._sequence(node.args[0]), str(first.const))
            strict = [
                k for k in node.keywords if k.arg == "strict" and isinstance(k.value, ast.Constant)
            ]
            if f is zip and node.args and len(strict) == len(node.keywords):
                return self._zip(node, any(k.value.value for k in strict))  # type: ignore[attr-defined]
            if f is reversed and len(node.args) == 1:
                inner = self._sequence(node.args[0])
                n = self.new("n")
                self.emit(f"{n} = {inner.count}", f"{n} = {inner.size}")
                item_of = inner.item

                def item(k: str) -> Any:
                    index = self.new()
                    self.both(f"{index} = {n} - 1 - {k}")
                    return item_of(index)

                return replace(
                    inner, count=n, size=n, item=item, py=f"reversed({inner.py})", bounds=None
                )
        return self._items(self.array(node), node)

    def _zip(self, node: ast.Call, strict: bool) -> LoopSequence:
        inner = [self._sequence(a) for a in node.args]
        n = self.new("n")
        self.emit(
            f"{n} = {inner[0].count}"
            if len(inner) == 1
            else f"{n} = min({', '.join(i.count for i in inner)})"
        )
        size = f"min({', '.join(i.size for i in inner)})" if len(inner) > 1 else inner[0].size
        for sequence in inner if strict else ():
            self.bail(f"{sequence.count} != {n}", node)
            self.emit(None, f"assert {sequence.size} == {size}")
        text = f"zip({', '.join(i.py for i in inner)})"
        data, counted = any(i.data for i in inner), any(i.counted for i in inner)
        return LoopSequence(n, lambda k: [i.item(k) for i in inner], text, size, data, counted)

    def _range(self, node: ast.Call) -> LoopSequence:
        args = [self.not_none(a) for a in self.nums(node.args)]
        names = []
        py = f"range({', '.join(a.py for a in args)})"
        if len(args) == 1:
            args = [self.constant(0), *args]
        if len(args) == 2:
            args = [*args, self.constant(1)]
        for a in args:
            self.refuse_if(
                not set(a.alts) <= INTS - {"u8"} | BOOLS, node, "range() of what is no whole number"
            )
            text = self.int64_text(a)
            # A length keeps its name, so that an index below it is known to be in range.
            names.append(text if isinstance(text, Fixed) else self.named(text))
        first, end, step = names
        if not isinstance(step, Known) or step == "0":
            self.bail(f"{step} == 0", node)

        def item(k: str) -> Num:
            name = self.named(f"{first} + {k} * {step}")
            self.emit(None, f"{name} = {args[0].py} + {k} * {args[2].py}")
            return Num({"wi": name}, name, bound=SMALL)

        count = f"range_len({first}, {end}, {step})"
        short = all(
            abs(x.const) <= SHORT if isinstance(x.const, int) else (x.bound or SMALL) <= 2 * LENGTH
            for x in args
        )
        return LoopSequence(
            count,
            item,
            py,
            f"len({py})",
            any(x.data for x in args),
            bounds=(first, end, step),
            short=short,
        )

    def _items(self, array: Any, node: ast.expr) -> LoopSequence:
        """Return the sequence of an array's elements, or of its rows."""
        if isinstance(array, list):
            array = self.list_of([self.single(x, node) for x in array], node)
        self.refuse_if(not isinstance(array, Arr), node, "a loop over what is no array")
        self.refuse_if(not array.sized, node, "a loop over a ONE_PTR field")
        if isinstance(node, ast.Name):
            array = self.fixed(array)
        (n, s) = array.dims[0]
        size = f"len({array.py})"

        def item(k: str) -> Any:
            if len(array.dims) == 1:
                self.ranges[k] = "0", n
                return self.load(array, [Num({"wi": k}, k, affine=(k, 0))], node)
            off = self.offset_of(array, array.off, k, s)
            return self.part(array, off, k, array.dims[1:], f"[{k}]")

        counted = bool(array.mark) and (len(array.dims) > 1 or self.multi)
        return LoopSequence(n, item, array.py, size, counted=counted)


_BEST = """
F = True
for T in I:
    if F:
        A = E
        F = False
    else:
        A = M(A, E)
"""
# Python's reductions, as loops.
_LOOPS = {
    sum: "A = S\nfor T in I:\n    A = A + E",
    any: "A = False\nfor T in I:\n    if E:\n        A = True\n        break",
    all: "A = True\nfor T in I:\n    if not E:\n        A = False\n        break",
    max: _BEST,
    min: _BEST,
}
_BY_KEY = """
F = True
for T in I:
    X = E
    K = G
    if F:
        A = X
        B = K
        F = False
    elif K {} B:
        A = X
        B = K
"""
# Functions that read lists without changing them.
READERS = ("len", "max", "min", "sum", "any", "all", "enumerate", "zip", "reversed")


def placed(module: ast.AST, node: ast.AST) -> None:
    """Mark generated statements as such, at the place of `node`."""
    for part in ast.walk(module):
        ast.copy_location(part, node)
        if isinstance(part, ast.stmt):
            vars(part)["generated"] = True


def _numbered(inner: LoopSequence, start: str) -> LoopSequence:
    """Return enumerate() of a sequence."""

    def item(k: str) -> list[Any]:
        number = k if start == "0" else f"({k} + {start})"
        return [Num({"wi": number}, number, bound=SMALL), inner.item(k)]

    return replace(
        inner,
        item=item,
        py=f"enumerate({inner.py}{'' if start == '0' else ', ' + start})",
        bounds=None,
    )


def _renamed_parts(
    generator: ast.GeneratorExp | ast.ListComp, prefix: str, letters: str
) -> tuple[dict[str, ast.expr], list[ast.expr]]:
    """Return (names, conditions) of a comprehension or generator.

    `names` maps T to its variables, E to its element, I to its iterable, and each letter of `more`
    to a new variable. New variables and its own ones begin with `own`.
    """
    (part,) = generator.generators
    rename = Substitution(
        {
            n.id: ast.Name(f"{prefix}_{n.id}", ast.Load())
            for n in ast.walk(part.target)
            if isinstance(n, ast.Name)
        }
    )
    target, element, *tests = (
        rename.visit(deepcopy(x)) for x in (part.target, generator.elt, *part.ifs)
    )
    return {
        "T": target,
        "E": element,
        "I": part.iter,
        **{letter: ast.Name(prefix + letter, ast.Load()) for letter in letters},
    }, tests


def _matched(target: ast.expr, item: Any) -> dict[str, ast.expr] | None:
    """Return the names' values in a loop's target for a constant item; None if it does not fit."""
    if isinstance(target, ast.Name):
        return {target.id: ast.Constant(item)} if is_number(item) else None
    if not isinstance(target, (ast.Tuple, ast.List)) or not isinstance(item, (tuple, list)):
        return None
    if len(target.elts) != len(item):
        return None
    names: dict[str, ast.expr] = {}
    for part, value in zip(target.elts, item, strict=True):
        inner = _matched(part, value)
        if inner is None:
            return None
        names |= inner
    return names


def _is_flat(element: ast.expr) -> bool:
    """Return whether an element binds no names and makes no list."""
    inner = (ast.Lambda, ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp, ast.List)
    return not any(isinstance(part, (*inner, ast.NamedExpr)) for part in ast.walk(element))


class _Line(ast.stmt):
    """A line of CPython's text only."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class Substitution(ast.NodeTransformer):
    """Substitutes expressions for names."""

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
    """Return whether a statement is a docstring."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _returns(body: list[ast.stmt]) -> bool:
    return any(isinstance(n, ast.Return) for s in body for n in ast.walk(s))
