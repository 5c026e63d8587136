"""Loops: for and while, and the sequences over which a for iterates."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ipu_teach.compile.scalar.calls import stored_names
from ipu_teach.compile.scalar.kinds import BOOLS, INTS
from ipu_teach.compile.scalar.operations import Block, Leave
from ipu_teach.compile.scalar.statements import Statements
from ipu_teach.compile.scalar.values import (
    LENGTH,
    SHORT,
    SMALL,
    Arr,
    Fixed,
    Known,
    LoopSequence,
    Num,
    State,
    StaticValue,
    Value,
)
from ipu_teach.compile.scalar.variable_walk import is_same_knowledge, is_same_state

# maximum number of walks of a loop, until the knowledge at its head no longer changes
MOST_WALKS = 12


class Loops(Statements):
    """Statements that iterate."""

    def loop(self, head: Callable[[list[State]], bool], node: ast.For | ast.While) -> None:
        """Walk a loop until the knowledge at its head no longer changes.

        The text of the last walk remains. `head` writes the loop's first line, appends the states
        in which it leaves the loop to its argument, and returns whether the number of iterations
        depends on data.
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
        if cached is not None:  # true if the loop was walked before with the same knowledge
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
            for name, v in merged.items():  # drops bounds that grow
                old = entry.get(name)
                if isinstance(v, Num) and isinstance(old, Num) and v.bound != old.bound:
                    merged[name] = replace(v, bound=None)
            done = is_same_state(merged, entry)
            if done and (dry or not lenient or self.missed == start[2]):
                break
            lenient = not done  # the last walk refuses a name that no iteration assigns
            del self.operations[start[0] :]
            _, self.count, self.missed = start  # keeps the generated names the same
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
    ) -> tuple[State | None, list[State]]:
        """Walk a loop once, and return (state at its end, states in which it is left).

        The state at its end is None if no iteration ends.
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
        if has_return:  # a return of an inlined function also leaves the enclosing loops
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

        The compiled text of an `endless` loop checks whether it must stop. CPython's text checks
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
                # a loop counter is control flow on the chip, and not data
                control, self.control = self.control, 0
                self.store(node.target, item, node)
                self.control = control
            return seq.data

        self.loop(head, node)

    def _target(self, node: ast.expr) -> str:
        """Return a loop's variables in CPython's text."""
        if isinstance(node, ast.Name):
            return self.scope.prefix + node.id
        if isinstance(node, ast.Tuple):
            return "(" + ", ".join(self._target(part) for part in node.elts) + ",)"
        self.refuse(node, "this loop variable")

    def _sequence(self, node: ast.expr) -> LoopSequence:
        """Return the sequence over which a `for` iterates."""
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
                    "enumerate() from a number that is not a constant",
                )
                return numbered(self._sequence(node.args[0]), str(first.const))
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

                def item(k: str) -> Value:
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
        data = any(i.data for i in inner)
        counted = any(i.counted for i in inner)
        return LoopSequence(
            n, lambda k: [i.item(k) for i in inner], py=text, size=size, data=data, counted=counted
        )

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
                not set(a.alts) <= INTS - {"u8"} | BOOLS,
                node,
                "range() of what is not a whole number",
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
            py=py,
            size=f"len({py})",
            data=any(x.data for x in args),
            bounds=(first, end, step),
            short=short,
        )

    def _items(self, array: Any, node: ast.expr) -> LoopSequence:
        """Return the sequence of an array's elements, or of its rows."""
        if isinstance(array, list):
            array = self.list_of([self.single(x, node) for x in array], node)
        self.refuse_if(not isinstance(array, Arr), node, "a loop over what is not an array")
        self.refuse_if(not array.sized, node, "a loop over a ONE_PTR field")
        if isinstance(node, ast.Name):
            array = self.fixed(array)
        (n, s) = array.dims[0]
        size = f"len({array.py})"

        def item(k: str) -> Value:
            if len(array.dims) == 1:
                self.ranges[k] = "0", n
                return self.load(array, [Num({"wi": k}, k, affine=(k, 0))], node)
            off = self.offset_of(array, array.off, k, s)
            return self.part(array, off, k, dims=array.dims[1:], key=f"[{k}]")

        counted = bool(array.mark) and (len(array.dims) > 1 or self.multi)
        return LoopSequence(n, item, array.py, size, counted=counted)


def numbered(inner: LoopSequence, start: str) -> LoopSequence:
    """Return the sequence of enumerate(inner, start)."""

    def item(k: str) -> list[Value]:
        number = k if start == "0" else f"({k} + {start})"
        return [Num({"wi": number}, number, bound=SMALL), inner.item(k)]

    return replace(
        inner,
        item=item,
        py=f"enumerate({inner.py}{'' if start == '0' else ', ' + start})",
        bounds=None,
    )


def _returns(body: list[ast.stmt]) -> bool:
    return any(isinstance(n, ast.Return) for s in body for n in ast.walk(s))
