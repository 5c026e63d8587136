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
from ipu_teach.compile.scalar.expressions import Expressions, is_constant, made_at
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
from ipu_teach.compile.scalar.variable_walk import alike, same
from ipu_teach.compile.scalar.writer import Price

# sum() of Python's own floats makes up for what is rounded away
COMPENSATED = sys.version_info >= (3, 12)
MOST_UNROLLED = 64  # names that one assignment unpacks a generator into
MOST_WALKS = 12  # of one loop, until what is known at its head no longer changes


class Statements(Expressions):
    """One method for each kind of statement."""

    def block(self, body: list[ast.stmt]) -> None:
        for node in body:
            if not self.live:
                break
            method = getattr(self, "s_" + type(node).__name__, None)
            line, self.line = self.line, node.lineno
            if method is None:
                self.refuse(node, *in_words(node))
            if not isinstance(node, (ast.For, ast.While, ast.FunctionDef)) and not _is_text(node):
                self.ran(node)
            try:
                if not self.reached(lambda method=method, node=node: method(node)):  # type: ignore[misc]
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
        """True for print(), which the plain loop does, and which costs nothing: a tile has no
        screen."""
        if (
            not isinstance(node, ast.Call)
            or not isinstance(node.func, ast.Name)
            or self.value(node.func) != StaticValue(print)
        ):
            return False
        for part in ast.walk(node):
            called = part.func if isinstance(part, ast.Call) else None
            own = isinstance(called, ast.Name) and not hasattr(builtins, called.id)
            if (
                own
                or isinstance(part, ast.NamedExpr)
                or (isinstance(called, ast.Attribute) and self._is_me(called.value))
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
        target, kind = node.target, type(node.op)
        if isinstance(target, ast.Subscript):
            array, keys = self._aim(target, node)
            if keys is None:
                self._change(array, node)
                return
            keys = [self.fixed(k) for k in keys]
            old = self.fixed(self.load(array, keys, node))
            self.write(array, keys, self.binary(kind, old, self.num(node.value), node), node)
            return
        read: Any = ast.copy_location(type(target)(**{**vars(target), "ctx": ast.Load()}), target)
        old = self.value(read)
        if isinstance(old, Arr):
            self._change(old, node)
            return
        old = self.single(old, target)
        a, b = (
            self.nums([read, node.value])
            if isinstance(target, ast.Name)
            else (self.fixed(old), self.num(node.value))
        )
        self.store(target, self.binary(kind, a, b, node), node)

    def _aim(self, target: ast.Subscript, node: ast.AST) -> tuple[Arr, list[Num] | None]:
        """Where x[k] = value is stored: an array and the numbers of an index, or a part of one."""
        array = self.value(target.value)
        self.refuse_if(not isinstance(array, Arr), node, "this assignment")
        keys = self.keys(array, target.slice)
        return (self.view(array, target.slice, node), None) if keys is None else (array, keys)

    def _change(self, array: Arr, node: ast.AugAssign) -> None:
        """A whole region += value."""
        value = self.vector(type(node.op), array, self.value(node.value), node)
        self.refuse_if(
            not np.can_cast(value.type, array.type, "same_kind"),
            node,
            f"{value.type} stored in {array.type}",
        )
        self.fill(array, value, node)

    def store(self, target: ast.expr, value: Any, node: ast.AST) -> None:
        """Give a value to what stands left of the `=`."""
        if isinstance(target, ast.Name):
            if (
                isinstance(value, StaticValue)
                and isinstance(value.value, (list, dict, set, np.ndarray))
                and self._changes(target.id)
            ):
                known = np.array(value.value, object)
                if not isinstance(getattr(node, "value", None), ast.List):
                    self.refuse(node, "a list that all vertices share", "a copy of it")
                if not known.size or not all(map(is_number, known.flat)):
                    self.refuse(node, "a list that grows", "np.zeros(n), and a counter,")
                value = self.list_of(
                    [self.constant(x) for x in known.reshape(-1).tolist()], node, known.shape
                )
            self.bind(target.id, value, node)
        elif isinstance(target, (ast.Tuple, ast.List)):
            for part, item in zip(
                target.elts, self.unpacked(value, len(target.elts), node), strict=True
            ):
                self.store(part, item, node)
        elif isinstance(target, ast.Attribute):
            declared = self.codelet.fields.get(target.attr) if self._is_me(target.value) else None
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
            array, keys = self._aim(target, node)
            if keys is None:
                self.fill(array, value, node)
            else:
                self.write(array, keys, value, node)
        else:
            self.refuse(node, "this assignment")

    def unrolled(self, node: ast.expr) -> ast.expr:
        """Return a generator, a comprehension or a map() over constants as the tuple of its
        elements, for an assignment to as many names; any other expression as it is.

        The elements cost what they cost when they are written one after the other.
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
            simple = len(node.generators) == 1 and not part.ifs and not part.is_async
            items = self._constants(part.iter) if simple else None
            if items is None or not _is_flat(node.elt):
                return node
            given = [_matched(part.target, item) for item in items]
            elements = [_Put(names).visit(deepcopy(node.elt)) for names in given if names]
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
        """What several names are given at once."""
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
        """True if a list of that name is stored into somewhere, or may be: it is used as more than
        a table."""
        nodes = list(ast.walk(self.trees.get(self.scope.function, self.scope.function)))  # type: ignore[arg-type]
        stored = {
            n.value
            for n in nodes
            if isinstance(n, ast.Subscript) and not isinstance(n.ctx, ast.Load)
        }
        read = {
            n.value
            for n in nodes
            if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Load) and n not in stored
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
        a = self.num(test)
        self.spend(data=a.data)
        self.branch(a, yes, no)

    def branch(self, a: Num, yes: Callable[[], None], no: Callable[[], None]) -> None:
        """One way or the other, by the truth of a number."""
        self.control += a.data
        if a.const is not None:  # known ahead
            (yes if a.const else no)()
            self.control -= a.data
            return
        x = self.truth(a)
        before, spent = dict(self.state), self.cost
        ends = []
        # what the first way has to count, and where
        first: tuple[Counter[Price], list[Operation]] | None = None
        for line, way in (("if {}:", yes), ("else:", no)):
            self.state, self.live, self.cost = dict(before), True, Counter(spent)
            self.loaded.clear()
            with self.under(line.format(x), line.format(a.py)):
                self.live = self.reached(way) and self.live
                if self.live:
                    ends.append(self.state)
                    if first is not None:
                        first[1].extend(self.meet(first[0]))
                    first = self.cost, self.operations
        self.cost = first[0] if first is not None else Counter()
        self.loaded.clear()
        self.control -= a.data
        self.live = bool(ends)
        self.state = self.joined(*ends) if ends else before

    def s_If(self, node: ast.If) -> None:
        self.fork(node.test, lambda: self.block(node.body), lambda: self.block(node.orelse))

    def s_Break(self, node: ast.Break) -> None:
        self._leave(0)

    def s_Continue(self, node: ast.Continue) -> None:
        self._leave(1)

    def _leave(self, how: int) -> None:
        self.flush()
        if self.control and not how:
            self.scope.parted = True
        self.scope.loops[-1][0][how].append(dict(self.state))
        self.leave("continue" if how else "break")

    def leave(self, word: str = "break") -> None:
        """Out of a loop, or on to its next turn."""
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
        """compute() is over. `answer`: what it returns; None, as nothing, counts as true."""
        self.flush()
        returned = None
        if answer is not None and "no" not in answer.alts and not answer.const:
            self.answers, returned = True, (self.truth(answer), answer.py)
        elif answer is not None and len(answer.alts) > 1:
            self.refuse(
                ast.Pass(), "compute() that returns None or a number", "return True or False"
            )
        self.operations.append(Finish(returned))
        self.live = False

    # Loops

    def loop(self, head: Callable[[list[State]], bool], node: ast.For | ast.While) -> None:
        """A loop: walked until what is known at its head no longer changes; the text of the last
        walk is kept.

        `head` writes what begins it, notes what is known where it leaves the loop, and says if data
        decide how often it turns.
        """
        if node.orelse:
            self.refuse(node.orelse[0], "a loop's else", "a flag that is set before the break")
        self.flush()
        scope = self.scope
        before = entry = dict(self.state)
        settled = self.settled.setdefault((node, self.control > 0), [])
        known = next((met for walked, met in settled if alike(walked, before)), None)
        if known is not None:  # it was walked with as much known before
            entry = {
                n: before[n] if n in before and same(v, before[n]) else v for n, v in known.items()
            }
        parted, dry, lenient = scope.parted, self.dry, True
        at = len(self.operations), self.count, self.missed
        for _ in range(MOST_WALKS):
            scope.parted, self.dry = False, dry or lenient
            after, left = self._round(head, node, dict(entry))
            self.dry = dry
            met = self.joined(entry, after) if after is not None else entry
            for name, v in met.items():  # a bound that grows has none
                old = entry.get(name)
                if isinstance(v, Num) and isinstance(old, Num) and v.bound != old.bound:
                    met[name] = replace(v, bound=None)
            done = alike(met, entry)
            if done and (dry or not lenient or self.missed == at[2]):
                break
            lenient = not done  # what no turn assigns is refused at last
            del self.operations[at[0] :]
            _, self.count, self.missed = at  # so that names come out the same again
            self.cost.clear()
            entry = met
        else:
            self.refuse(node, "a loop whose variables change their types")
        if known is None:
            settled.append((before, entry))
        self.state, self.live = self.joined(*left), bool(left)
        for name in (scope.prefix + name for name in stored_names(node) if scope.parted):
            if isinstance(self.state.get(name), Num):  # how far it came depends on data
                self.state[name] = replace(self.state[name], data=True)
        scope.parted = parted

    def _round(
        self, head: Callable[[list[State]], bool], node: ast.For | ast.While, state: State
    ) -> tuple[Any, list[State]]:
        """One walk of a loop. Returns (what is known at its end, what is known where it is
        left)."""
        scope, flag = self.scope, self.new("q")
        breaks: list[State] = [] if isinstance(node, ast.While) else [dict(state)]
        continues: list[State] = []
        self.loaded.clear()
        scope.loops.append(((breaks, continues), flag))
        self.state, self.live = state, True
        through = bool(scope.returns) and _returns(node.body)
        if through:
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
        self.tell(f"left({self.head()})")
        scope.loops.pop()
        if through:  # of a function in place of its call: leave what is around this loop, too
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
            self.ran(node)
            a = self.num(node.test)
            self.spend(data=a.data)
            self._may_stop(node)
            if a.const is None or not a.const:
                spent = Counter(self.cost)
                with self.under(f"if not {self.truth(a)}:", f"if not {a.py}:"):
                    self.flush()
                    self.tell("failed()")
                    self.operations.append(Leave("break", "break"))
                self.cost = spent
                breaks.append(dict(self.state))
            return a.data

        self.loop(head, node)

    def head(self) -> int:
        """The number of the loop that is being walked."""
        return self.heads.setdefault(
            (self.spot, self.scope.prefix, self.scope.loops[-1][1]), len(self.heads)
        )

    def _may_stop(self, node: ast.stmt, endless: bool = True) -> None:
        """At a loop's head. An `endless` one: the compiled text asks if it is to end. CPython's may
        be too slow for it."""
        if endless:
            self.endless = True
            self.emit(f"if stopped(stop): return -{node.lineno}")
        self.emit(None, "if cyc > most: most = longer(cyc)")

    def s_For(self, node: ast.For) -> None:
        self.over(self._sequence(node.iter), node)

    def over(self, seq: LoopSequence, node: ast.For) -> None:
        """The loop of a `for`."""
        counter = self.new("i")

        def head(breaks: list[State]) -> bool:
            target, bounds = (
                self._target(node.target),
                seq.bounds if isinstance(node.target, ast.Name) else None,
            )
            self.ahead[counter] = set()
            turns = f"for {counter} in range({', '.join(bounds or [seq.count])}):"
            each, items = (counter, f"range({seq.size})") if seq.counted else (target, seq.py)
            python, watched = (
                f"for {each} in {over}:" for over in (items, f"watch.over({self.head()}, {items})")
            )
            self.begin(Block(turns, python, watched, counter=counter))
            self.ran(node)
            self.spend(times=2, data=seq.data)
            endless = seq.data or not seq.short
            if endless or len(self.scope.loops) == 1:
                self._may_stop(node, endless)
            with self.compiled_alone(self.alone or not seq.counted):
                item = (
                    Num({"wi": counter}, target, bound=SMALL, affine=(counter, 0))
                    if bounds
                    else seq.item(counter)
                )
                self.ranges.pop(counter, None)
                if bounds and isinstance(bounds[0], Known) and bounds[2] == "1":
                    self.ranges[counter] = bounds[:2]
                control, self.control = self.control, 0  # a counter of a loop is the chip's
                self.store(node.target, item, node)
                self.control = control
            return seq.data

        self.loop(head, node)

    def v_ListComp(self, node: ast.ListComp) -> Arr:
        (part,), elt, own = node.generators[:1], node.elt, self.new("g_")
        self.refuse_if(
            len(node.generators) > 1 or part.ifs,
            node,
            "a list that grows",
            "np.zeros(n), and a counter,",
        )
        whole = (
            isinstance(elt, ast.BinOp)
            and isinstance(elt.op, ast.Mult)
            and isinstance(elt.left, ast.List)
        )
        if (
            whole
            and isinstance(part.iter, ast.Call)
            and ast.unparse(part.iter.func) == "range"
            and len(part.iter.args) == 1
        ):
            return self.filled(elt, part.iter.args[0])  # type: ignore[arg-type]
        seq = self._sequence(part.iter)
        array = self.listed(
            [Num({"wi": self.named(seq.count)}, seq.size)], f"[0] * ({seq.size})", node
        )
        given, _ = _own_names(node, own, "KL")
        (loop,) = self.made("for K, T in I:\n    L[K] = E", given, node).body
        self.bind(own + "L", array, node)
        self.over(_numbered(seq, "0"), loop)  # type: ignore[arg-type]
        found: Arr = self.state[self.scope.prefix + own + "L"]
        return found

    def made(self, text: str, given: dict[str, ast.expr], node: ast.AST) -> ast.Module:
        """Statements with expressions in place of names; the variables that they assign are the
        function's."""
        put = _Put(given)
        found = ast.Module([put.visit(part) for part in ast.parse(text).body], [])
        placed(found, node)
        self.scope.local |= stored_names(found)
        self.scope.local |= {
            n.id for name, n in given.items() if name == "L" and isinstance(n, ast.Name)
        }
        return found

    def over_all(self, f: Any, node: ast.Call, named: dict[str, ast.expr]) -> Num:
        what, own = node.args[0], self.new("g_")
        if isinstance(what, ast.ListComp) and f in (any, all):
            self.refuse(node, f"{f.__name__}() of a list", "a generator")
        if not isinstance(what, (ast.GeneratorExp, ast.ListComp)):
            item = ast.Name("T", ast.Load())
            what = ast.GeneratorExp(item, [ast.comprehension(item, what, [], 0)])
        allowed = {"default", "key"} if f in (max, min) else {"start"} if f is sum else set()
        if len(what.generators) > 1 or named.keys() - allowed:
            self.refuse(node, f"{f.__name__}() of this", "a loop")
        given, tests = _own_names(what, own, "ABFKX")
        given |= {"M": node.func, "D": named.get("default", ast.Constant(0))}
        given["S"] = [*node.args[1:], named.get("start", ast.Constant(0))][0]
        given["G"] = (
            ast.Call(named["key"], [ast.Name(own + "X", ast.Load())], [])
            if "key" in named
            else ast.Constant(0)
        )
        made = self.made(
            _LOOPS[f] if "key" not in named else _BY_KEY.format("><"[f is min]), given, node
        )
        loop = made.body[-1]
        assert isinstance(loop, ast.For)
        self.known.add(own + "F")
        place, total = made_at(node), f"{self.scope.prefix}{own}A"
        if place in self.summed:
            made.body.insert(1, _Line(f"{own}l = [{total}]"))
            collected = _Line(f"{own}l.append({self.scope.prefix}{own}X)")
            loop.body = [
                *self.made("X = E", given, node).body,
                collected,
                *self.made("A = A + X", given, node).body,
            ]
        for test in reversed(tests):
            loop.body = [ast.If(test, loop.body, [])]
        if "default" in named:
            made.body += self.made("if F:\n    A = D", given, node).body
        placed(made, node)
        self.block(made.body)
        found = self.num(ast.copy_location(ast.Name(own + "A", ast.Load()), node))
        if f is sum and "wf" in found.alts and COMPENSATED:
            self.summed.add(place)
            self.by_python(node)
            self.emit(None, f"{total} = sum({own}l)")
        return found

    def s__Line(self, node: _Line) -> None:
        self.emit(None, node.text)

    def _target(self, node: ast.expr) -> str:
        """A loop's variables in CPython's text."""
        if isinstance(node, ast.Name):
            return self.scope.prefix + node.id
        if isinstance(node, ast.Tuple):
            return "(" + ", ".join(self._target(part) for part in node.elts) + ",)"
        self.refuse(node, "this loop variable")

    def _sequence(self, node: ast.expr) -> LoopSequence:
        """What a `for` runs over."""
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
                inner, n = self._sequence(node.args[0]), self.new("n")
                self.emit(f"{n} = {inner.count}", f"{n} = {inner.size}")
                back = inner.item

                def item(k: str) -> Any:
                    turned = self.new()
                    self.both(f"{turned} = {n} - 1 - {k}")
                    return back(turned)

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
        for other in inner if strict else ():
            self.bail(f"{other.count} != {n}", node)
            self.emit(None, f"assert {other.size} == {size}")
        text = f"zip({', '.join(i.py for i in inner)})"
        data, counted = any(i.data for i in inner), any(i.counted for i in inner)
        return LoopSequence(n, lambda k: [i.item(k) for i in inner], text, size, data, counted)

    def _range(self, node: ast.Call) -> LoopSequence:
        args, names = [self.present(a) for a in self.nums(node.args)], []
        py = f"range({', '.join(a.py for a in args)})"
        args = [self.constant(0)] * (len(args) == 1) + args + [self.constant(1)] * (len(args) < 3)
        for a in args:
            self.refuse_if(
                not set(a.alts) <= INTS - {"u8"} | BOOLS, node, "range() of what is no whole number"
            )
            text = self.whole(a)
            # A length stays as it is, so that an index below it is known to be within.
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
        """The elements of an array, or its rows."""
        if isinstance(array, list):
            array = self.list_of([self.single(x, node) for x in array], node)
        self.refuse_if(not isinstance(array, Arr), node, "a loop over what is no array")
        self.refuse_if(not array.sized, node, "a loop over a ONE_PTR field")
        if isinstance(node, ast.Name):
            array = self.fixed(array)
        (n, s), size = array.dims[0], f"len({array.py})"

        def item(k: str) -> Any:
            if len(array.dims) == 1:
                self.ranges[k] = "0", n
                return self.load(array, [Num({"wi": k}, k, affine=(k, 0))], node)
            off = self.further(array, array.off, k, s)
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
# What Python's functions of many are, as loops.
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
# of lists, which they leave as they are
READERS = ("len", "max", "min", "sum", "any", "all", "enumerate", "zip", "reversed")


def placed(made: ast.AST, node: ast.AST) -> None:
    """Let statements of the walk's own stand where `node` does."""
    for part in ast.walk(made):
        ast.copy_location(part, node)
        if isinstance(part, ast.stmt):
            vars(part)["made"] = True


def _numbered(inner: LoopSequence, start: str) -> LoopSequence:
    """What enumerate makes of a sequence."""

    def item(k: str) -> list[Any]:
        number = k if start == "0" else f"({k} + {start})"
        return [Num({"wi": number}, number, bound=SMALL), inner.item(k)]

    return replace(
        inner,
        item=item,
        py=f"enumerate({inner.py}{'' if start == '0' else ', ' + start})",
        bounds=None,
    )


def _own_names(
    what: ast.GeneratorExp | ast.ListComp, own: str, more: str
) -> tuple[dict[str, ast.expr], list[ast.expr]]:
    """Its variables T, elements E and what it runs over, I, and its conditions: with names of its
    own, and `more` of them."""
    (part,) = what.generators
    rename = _Put(
        {
            n.id: ast.Name(f"{own}_{n.id}", ast.Load())
            for n in ast.walk(part.target)
            if isinstance(n, ast.Name)
        }
    )
    target, element, *tests = (
        rename.visit(deepcopy(x)) for x in (part.target, what.elt, *part.ifs)
    )
    return {
        "T": target,
        "E": element,
        "I": part.iter,
        **{name: ast.Name(own + name, ast.Load()) for name in more},
    }, tests


def _matched(target: ast.expr, item: Any) -> dict[str, ast.expr] | None:
    """Return what the names of a loop's target stand for in the turn of one constant item; None if
    the item does not fit the target."""
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
    """Return whether an element binds no names of its own and makes no list."""
    inner = (ast.Lambda, ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp, ast.List)
    return not any(isinstance(part, (*inner, ast.NamedExpr)) for part in ast.walk(element))


class _Line(ast.stmt):
    """A line of CPython's text alone."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class _Put(ast.NodeTransformer):
    """Puts expressions in place of names."""

    def __init__(self, given: dict[str, ast.expr]) -> None:
        self.given = given

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id not in self.given:
            return node
        found = deepcopy(self.given[node.id])
        for part in ast.walk(found):
            if isinstance(part, (ast.Name, ast.Tuple)) and isinstance(node.ctx, ast.Store):
                part.ctx = ast.Store()
        return found


def _is_text(node: ast.stmt) -> bool:
    """True for a docstring."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _returns(body: list[ast.stmt]) -> bool:
    return any(isinstance(n, ast.Return) for s in body for n in ast.walk(s))
