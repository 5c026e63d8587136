"""Statements: assignments, branches and loops."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

from ipu_teach.compile.scalar.expressions import Expressions
from ipu_teach.compile.scalar.values import BOOLS, INTS, SMALL, Arr, Const, Num, Refused, Run, State, Unreached, in_words
from ipu_teach.compile.scalar.variables import alike, same
from ipu_teach.compile.scalar.writer import Price

SHORT = 2**20  # turns of a loop during which nobody need be able to stop it
MOST_WALKS = 12  # of one loop, until what is known at its head no longer changes


@dataclass
class Head:
    """What begins a loop: `data` decide how often it turns; `end()` writes what follows it.

    `left(after)`: what is known where it is left, besides at a break; `after` is what is known at the end of its body.
    """

    data: bool
    end: Callable[[], None]
    left: Callable[[State | None], list[State]]


class Statements(Expressions):
    """One method for each kind of statement."""

    def block(self, body: list[ast.stmt]) -> None:
        for node in body:
            if not self.live:
                break
            method = getattr(self, "s_" + type(node).__name__, None)
            line, self.line = self.line, node.lineno
            if method is None:
                self.refuse(node, in_words(node))
            scope, at = self.scope, (self.depth, self.control, len(self.scopes), len(self.scope.loops))
            try:
                method(node)
            except Unreached:
                self.depth, self.control = at[:2]
                del self.scopes[at[2] :], scope.loops[at[3] :]
                self.live = False
            except Refused as refused:
                refused.line = refused.line or node.lineno
                raise
            self.line = line

    def s_Pass(self, node: ast.Pass) -> None:
        pass

    def s_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            value = self.value(node.value)
            if isinstance(value, Num):
                self.emit(None, value.py)

    def s_Assert(self, node: ast.Assert) -> None:
        a = self.num(node.test)
        self.bail(f"not {self.truth(a)}", node)
        self.emit(None, f"assert {a.py}")

    def s_Raise(self, node: ast.Raise) -> None:
        self.flush()
        self.emit(f"return {node.lineno}", "raise Bail()")
        self.live = False

    def s_Assign(self, node: ast.Assign) -> None:
        value = self.value(node.value)
        if isinstance(value, list) and isinstance(node.targets[0], ast.Tuple):
            value = [self.fixed(v) if isinstance(v, Num) else v for v in value]
        elif len(node.targets) > 1 and isinstance(value, Num):
            value = self.fixed(value)
        for target in node.targets:
            self.store(target, value, node)

    def s_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.store(node.target, self.value(node.value), node)

    def s_AugAssign(self, node: ast.AugAssign) -> None:
        target, kind = node.target, type(node.op)
        if isinstance(target, ast.Subscript):
            self._augment(target, node)
            return
        read: Any = ast.copy_location(type(target)(**{**vars(target), "ctx": ast.Load()}), target)
        old = self.value(read)
        if isinstance(old, Arr) and len(old.dims) == 1:
            self.fill(old, self.vector(kind, old, self.value(node.value), node), node)
            return
        if not isinstance(old, Num):
            self.refuse(node, "an assignment to a whole array")
        a, b = self.nums([read, node.value]) if isinstance(target, ast.Name) else (self.fixed(old), self.num(node.value))
        self.store(target, self.binary(kind, a, b, node), node)

    def _augment(self, target: ast.Subscript, node: ast.AugAssign) -> None:
        """x[k] += value: the index is worked out once."""
        array = self.value(target.value)
        if not isinstance(array, Arr):
            self.refuse(node, "this assignment")
        if isinstance(target.slice, ast.Slice):
            part = self.sliced(array, target.slice, node)
            self.fill(part, self.vector(type(node.op), part, self.value(node.value), node), node)
            return
        keys = [self.fixed(k) for k in self.keys(array, target.slice)]
        if len(keys) != len(array.dims):
            self.refuse(node, "an assignment to a row", "a loop over its elements")
        old = self.fixed(self.load(array, keys, node))
        self.write(array, keys, self.binary(type(node.op), old, self.num(node.value), node), node)

    def store(self, target: ast.expr, value: Any, node: ast.AST) -> None:
        """Give a value to what stands left of the `=`."""
        if isinstance(target, ast.Name):
            if isinstance(value, Const) and isinstance(value.value, (list, dict, set)):
                self.refuse(node, "a list that all vertices share")
            self.bind(target.id, value, node)
        elif isinstance(target, (ast.Tuple, ast.List)):
            if not isinstance(value, list) or len(value) != len(target.elts):
                self.refuse(node, "an assignment to several names")
            for part, item in zip(target.elts, value, strict=True):
                self.store(part, item, node)
        elif isinstance(target, ast.Attribute):
            declared = self.codelet.fields.get(target.attr) if self._is_me(target.value) else None
            if declared is not None and declared.depth == 1:
                self.fill(self.region(target.attr, declared), value, node)
                return
            if declared is None or declared.depth:
                self.refuse(node, "an assignment to a whole Vector", "a loop over its elements")
            self.write(self.region(target.attr, declared), [], value, node)
        elif isinstance(target, ast.Subscript):
            self._store_at(target, value, node)
        else:
            self.refuse(node, "this assignment")

    def _store_at(self, target: ast.Subscript, value: Any, node: ast.AST) -> None:
        if isinstance(value, Num) and not isinstance(target.slice, (ast.Constant, ast.Name)):
            value = self.fixed(value)
        array = self.value(target.value)
        if not isinstance(array, Arr):
            self.refuse(node, "this assignment")
        if isinstance(target.slice, ast.Slice):
            self.fill(self.sliced(array, target.slice, node), value, node)
            return
        keys = self.keys(array, target.slice)
        if len(keys) != len(array.dims):
            self.refuse(node, "an assignment to a row", "a loop over its elements")
        self.write(array, keys, value, node)

    # Branches

    def fork(self, test: ast.expr, yes: Callable[[], None], no: Callable[[], None]) -> None:
        a = self.num(test)
        x = self.truth(a)
        self.spend(data=a.data)
        before, inside, spent = dict(self.state), dict(self.scope.inside), self.cost
        self.control += a.data
        ends = []
        first: tuple[Counter[Price], int, int] | None = None  # what the first way has to count, and where it ends
        for line, way in (("if {}:", yes), ("else:", no)):
            self.emit(line.format(x), line.format(a.py))
            self.depth += 1
            self.state, self.live, self.cost = dict(before), True, Counter(spent)
            self.scope.inside = dict(inside)
            way()
            if self.live:
                ends.append(self.state)
                if first is not None:
                    cost, *places = first
                    for lines, at, rest in zip((self.nb, self.pyl), places, self.meet(cost), strict=True):
                        lines[at:at] = rest
                first = self.cost, len(self.nb), len(self.pyl)
            self.both("pass")
            self.depth -= 1
        self.cost = first[0] if first is not None else Counter()
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
        self.both("continue" if how else "break")
        self.live = False

    def s_Return(self, node: ast.Return) -> None:
        scope = self.scope
        if not scope.returns:
            if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
                self.refuse(node, "a value that compute() returns")
            self.finish()
            return
        if node.value is not None:
            self.assign(scope.returns, self.value(node.value), node)
        self.flush()
        scope.exits.append(dict(self.state))
        if scope.loops:
            self.both(f"{scope.loops[-1][1]} = True")
        self.both("break")
        self.live = False

    def finish(self) -> None:
        """compute() is over."""
        self.settle()
        self.emit("cycles[v] = max(cycles[v], cyc)" if self.multi else "cycles[v] = cyc", "return cyc")
        self.emit("return 0")
        self.live = False

    # Loops

    def loop(self, head: Callable[[list[State]], Head], node: ast.For | ast.While) -> None:
        """A loop: walked without keeping the text until what is known at its head no longer changes, and then for good."""
        if node.orelse:
            self.refuse(node.orelse[0], "a loop's else")
        self.flush()
        scope = self.scope
        before = entry = dict(self.state)
        known = next((met for e, met in self.settled.get((node, self.control > 0), ()) if alike(e, entry)), None)
        if known is not None:  # it was walked with as much known before
            entry = {n: entry[n] if n in entry and same(v, entry[n]) else v for n, v in known.items()}
        for _ in range(MOST_WALKS if known is None else 0):
            at = len(self.nb), len(self.pyl), self.count, self.depth, self.control
            self.dry += 1
            after, _ = self._round(head, node, dict(entry))
            self.dry -= 1
            met = self.joined(entry, after) if after is not None else entry
            for name, v in met.items():  # a bound that grows has none
                old = entry.get(name)
                if isinstance(v, Num) and isinstance(old, Num) and v.bound != old.bound:
                    met[name] = replace(v, bound=None)
            del self.nb[at[0] :], self.pyl[at[1] :]
            _, _, self.count, self.depth, self.control = at  # so that names come out the same again
            self.cost.clear()
            if alike(met, entry):
                break
            entry = met
        else:
            if known is None:
                self.refuse(node, "types that do not settle")
        if known is None:
            self.settled.setdefault((node, self.control > 0), []).append((before, entry))
        parted, scope.parted = scope.parted, False
        _, left = self._round(head, node, dict(entry))
        self.state, self.live = self.joined(*left), bool(left)
        for name in self._assigned(node) if scope.parted else ():
            if isinstance(self.state.get(name), Num):  # how far it came depends on data
                self.state[name] = replace(self.state[name], data=True)
        scope.parted = parted

    def _round(
        self, head: Callable[[list[State]], Head], node: ast.For | ast.While, state: State
    ) -> tuple[State | None, list[State]]:
        """One walk of a loop. Returns (what is known at its end, what is known where it is left)."""
        scope, flag = self.scope, self.new("q")
        breaks: list[State] = []
        continues: list[State] = []
        scope.loops.append(((breaks, continues), flag))
        inside, stored = dict(scope.inside), self._assigned(node)
        scope.inside = {k: v for k, v in inside.items() if k not in stored}
        self.state, self.live = state, True
        through = bool(scope.returns) and _returns(node.body)
        if through:
            self.both(f"{flag} = False")
        begun = head(breaks)
        self.control += begun.data
        self.block(node.body)
        self.flush()
        self.both("pass")
        ends = ([self.state] if self.live else []) + continues
        self.control -= begun.data
        self.depth -= 1
        begun.end()
        scope.loops.pop()
        scope.inside = inside
        if through:  # of a function in place of its call: leave what is around this loop, too
            self.both(f"if {flag}:")
            if scope.loops:
                self.both(f"    {scope.loops[-1][1]} = True")
            self.both("    break")
        after = self.joined(*ends) if ends else None
        return after, [*begun.left(after), *breaks]

    def _assigned(self, *nodes: ast.AST) -> set[str]:
        """The variables that are assigned somewhere in pieces of the text."""
        for node in nodes:
            if node not in self.stores:
                names = (n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
                self.stores[node] = set(names)
        return {self.scope.prefix + name for node in nodes for name in self.stores[node]}

    def s_While(self, node: ast.While) -> None:
        def head(breaks: list[State]) -> Head:
            self.both("while True:")
            self.depth += 1
            a = self.num(node.test)
            self.spend(data=a.data)
            self._may_stop(node)
            if a.const is None or not a.const:
                self.emit(f"if not {self.truth(a)}:", f"if not {a.py}:")
                spent = Counter(self.cost)
                self.depth += 1
                self.flush()
                self.both("break")
                self.depth -= 1
                self.cost = spent
                breaks.append(dict(self.state))
            return Head(a.data, lambda: None, lambda after: [])

        self.loop(head, node)

    def _may_stop(self, node: ast.stmt, endless: bool = True) -> None:
        """At a loop's head. An `endless` one: the compiled text asks if it is to end. CPython's may be too slow for it."""
        if endless:
            self.emit("if stopped(stop):")
            self.emit(f"    return -{node.lineno}")
        self.emit(None, "if cyc > most:")
        self.emit(None, "    most = longer(cyc)")

    def s_For(self, node: ast.For) -> None:
        seq = self._sequence(node.iter)
        counter = self.new("i")

        def head(breaks: list[State]) -> Head:
            entry = dict(self.state)
            target, plain = self._target(node.target), seq.bounds is not None and isinstance(node.target, ast.Name)
            over = f"range({', '.join(seq.bounds)})" if plain and seq.bounds else f"range({seq.count})"
            self.emit(f"for {counter} in {over}:", f"for {target} in {seq.py}:")
            self.depth += 1
            self.spend(times=2, data=seq.data)
            endless = seq.data or not all(map(_is_short, (seq.bounds or ())[:2]))
            if endless or len(self.scope.loops) == 1:
                self._may_stop(node, endless)
            keep, self.pyl = self.pyl, []
            item = Num({"wi": counter}, target, bound=SMALL) if plain else seq.item(counter)
            control, self.control = self.control, 0  # a counter of a loop is the chip's
            self.give(node.target, item, node)
            self.control, self.pyl = control, keep
            if plain and seq.bounds is not None and target not in self._assigned(*node.body):
                first, end, step = seq.bounds
                if first.isdigit() and step == "1" and end.startswith("f_"):
                    self.scope.inside[target] = end

            def end_of_loop() -> None:
                if seq.data:
                    self.cost.clear()
                    self.spend(times=2)
                    self.both("else:")
                    self.depth += 1
                    self.flush()
                    self.depth -= 1

            return Head(seq.data, end_of_loop, lambda after: [entry, *([after] if after is not None else [])])

        self.loop(head, node)

    def over_all(self, f: Any, node: ast.Call) -> Num:
        (what,), own = node.args, self.new("g_")
        plain = not isinstance(what, (ast.GeneratorExp, ast.ListComp))
        if isinstance(what, ast.ListComp) and f in (any, all):
            self.refuse(node, f"{f.__name__}() of a list", "a generator")
        parts = [] if plain else what.generators  # type: ignore[attr-defined]
        if len(parts) > 1 or (plain and isinstance(what, (ast.List, ast.Tuple))):
            self.refuse(node, f"{f.__name__}() of this", "a loop")
        target: ast.expr = ast.Name(own + "_T", ast.Load()) if plain else parts[0].target
        element: ast.expr = target if plain else what.elt  # type: ignore[attr-defined]
        names = {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}
        rename = _Put({name: ast.Name(f"{own}_{name}", ast.Load()) for name in names})
        given = {
            "T": rename.visit(deepcopy(target)),
            "I": what if plain else parts[0].iter,
            "E": rename.visit(deepcopy(element)),
        }
        given |= {name: ast.Name(own + name, ast.Load()) for name in "AF"}
        body = ast.parse(_LOOPS[f]).body
        loop = body[-1]
        assert isinstance(loop, ast.For)
        for test in reversed([] if plain else parts[0].ifs):
            loop.body = [ast.If(rename.visit(deepcopy(test)), loop.body, [])]
        put = _Put(given)
        made = ast.Module([put.visit(part) for part in body], [])
        for part in ast.walk(made):
            ast.copy_location(part, node)
        self.scope.local |= {n.id for n in ast.walk(made) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        names_before = self.scope.names
        self.scope.names = {**names_before, "max": max, "min": min}
        self.block(made.body)
        self.scope.names = names_before
        found = self.num(ast.copy_location(ast.Name(own + "A", ast.Load()), node))
        if f is sum and "wf" in found.alts:
            self.refuse(node, "sum() of Python's floats", "a loop that adds")
        return found

    def give(self, target: ast.expr, item: Any, node: ast.AST) -> None:
        """Give a loop's variables their values."""
        if isinstance(target, ast.Name):
            self.bind(target.id, item, node)
        elif isinstance(target, ast.Tuple) and isinstance(item, list) and len(item) == len(target.elts):
            for part, one in zip(target.elts, item, strict=True):
                self.give(part, one, node)
        else:
            self.refuse(target, "this loop variable")

    def _target(self, node: ast.expr) -> str:
        """A loop's variables in CPython's text."""
        if isinstance(node, ast.Name):
            return self.scope.prefix + node.id
        if isinstance(node, ast.Tuple):
            return "(" + ", ".join(self._target(part) for part in node.elts) + ",)"
        self.refuse(node, "this loop variable")

    def _sequence(self, node: ast.expr) -> Run:
        """What a `for` runs over."""
        if isinstance(node, ast.Call):
            f = self.value(node.func)
            f = f.value if isinstance(f, Const) else None
            if f is range and not node.keywords and 1 <= len(node.args) <= 3:
                return self._range(node)
            if f is enumerate and len(node.args) == 1 and not node.keywords:
                inner = self._sequence(node.args[0])
                item = inner.item
                return Run(
                    inner.count, lambda k: [Num({"wi": k}, "", bound=SMALL), item(k)], f"enumerate({inner.py})", inner.data
                )
            strict = [k for k in node.keywords if k.arg == "strict" and isinstance(k.value, ast.Constant)]
            if f is zip and node.args and len(strict) == len(node.keywords):
                return self._zip(node, any(k.value.value for k in strict))  # type: ignore[attr-defined]
            if f is reversed and len(node.args) == 1:
                inner = self._sequence(node.args[0])
                n = self.new("n")
                self.emit(f"{n} = {inner.count}")
                back = inner.item
                return Run(n, lambda k: back(self.named(f"{n} - 1 - {k}")), f"reversed({inner.py})", inner.data)
        return self._items(self.value(node), node)

    def _zip(self, node: ast.Call, strict: bool) -> Run:
        inner = [self._sequence(a) for a in node.args]
        n = self.new("n")
        self.emit(f"{n} = {inner[0].count}" if len(inner) == 1 else f"{n} = min({', '.join(i.count for i in inner)})")
        for other in inner if strict else ():
            self.bail(f"{other.count} != {n}", node)
        text = f"zip({', '.join(i.py for i in inner)}{', strict=True' if strict else ''})"
        return Run(n, lambda k: [i.item(k) for i in inner], text, any(i.data for i in inner))

    def _range(self, node: ast.Call) -> Run:
        args = self.nums(node.args)
        names = []
        for a in args:
            if not set(a.alts) <= INTS - {"u8"} | BOOLS:
                self.refuse(node, "range() of what is no whole number")
            text = self.whole(a)
            # A length stays as it is, so that an index below it is known to be within.
            names.append(text if text.lstrip("-").isdigit() or text.startswith("f_") else self.named(text))
        first, end, step = ("0", names[0], "1") if len(names) == 1 else (*names, "1") if len(names) == 2 else names
        if not step.lstrip("-").isdigit() or step == "0":
            self.bail(f"{step} == 0", node)
        py = f"range({', '.join(x.py for x in args)})"

        def item(k: str) -> Num:
            return Num({"wi": self.named(f"{first} + {k} * {step}")}, "", bound=SMALL)

        return Run(f"range_len({first}, {end}, {step})", item, py, any(x.data for x in args), (first, end, step))

    def _items(self, array: Any, node: ast.expr) -> Run:
        """The elements of an array, or its rows."""
        if isinstance(array, Const) and isinstance(array.value, (tuple, list)):
            self.refuse(node, "a loop over a list", "a loop over range(len(…))")
        if not isinstance(array, Arr):
            self.refuse(node, "a loop over what is no array")
        if not array.sized:
            self.refuse(node, "a loop over a ONE_PTR field")
        n, s = array.dims[0]
        if len(array.dims) > 1:
            if array.writable or self.multi:
                self.refuse(node, "a loop over rows that are written", "a loop over their numbers")
            return Run(
                n,
                lambda k: replace(array, dims=array.dims[1:], off=self.named(f"{array.off} + {k} * {s}"), py="", mark=""),
                array.py,
            )
        if self.multi and not array.local:
            self.refuse(node, "a loop over elements in a MultiVertex", "a loop over range(worker_id, n, self.num_workers)")
        return Run(n, lambda k: self.load(replace(array, dims=(), off=f"{array.off} + {k} * {s}"), [], node), array.py)


# What Python's functions of many are, as loops. In Python 3.12 a sum of Python's own floats makes up for what is rounded away.
_LOOPS = {
    sum: "A = 0\nfor T in I:\n    A = A + E",
    any: "A = False\nfor T in I:\n    if E:\n        A = True\n        break",
    all: "A = True\nfor T in I:\n    if not E:\n        A = False\n        break",
    max: "F = True\nfor T in I:\n    if F:\n        A = E\n        F = False\n    else:\n        A = max(A, E)",
    min: "F = True\nfor T in I:\n    if F:\n        A = E\n        F = False\n    else:\n        A = min(A, E)",
}


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


def _is_short(end: str) -> bool:
    """True if a range that begins or ends there is soon over: at a field's length, or at no large number."""
    return end.startswith("f_") or (end.lstrip("-").isdigit() and abs(int(end)) <= SHORT)


def _returns(body: list[ast.stmt]) -> bool:
    return any(isinstance(n, ast.Return) for s in body for n in ast.walk(s))
