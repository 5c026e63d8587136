"""Loops: `for` and `while`, and the sequences over which a `for` iterates."""

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

# The maximum number of translations of a loop. They are repeated until the types and bounds of the
# variables at the start of an iteration no longer change.
MOST_WALKS = 12


class Loops(Statements):
    """Translates loops, with one method for each kind of loop."""

    def loop(self, head: Callable[[list[State]], bool], node: ast.For | ast.While) -> None:
        """Translate a loop until the types and bounds of its variables no longer change.

        Only the code of the last translation remains. `head(exits)` writes the first line of the
        loop, and returns whether the number of iterations depends on data. The loop can also end at
        this line, so `head` appends the variables' state at this line to `exits`.
        """
        if node.orelse:
            self.refuse(node.orelse[0], "a loop's else", "a flag that is set before the break")
        self.flush()
        scope = self.scope
        state_before = entry_state = dict(self.state)
        settled = self.settled.setdefault((node, self.control > 0), [])
        cached = next(
            (
                at_head
                for walked_state, at_head in settled
                if is_same_state(walked_state, state_before)
            ),
            None,
        )
        # The loop may have been translated before with variables of the same types and bounds. In
        # this case, the translation begins with the result of the earlier one.
        if cached is not None:
            entry_state = _with_known(cached, state_before)
        was_parted = scope.parted
        was_dry = self.dry
        lenient = True
        counters_before = len(self.operations), self.count, self.missed
        for _ in range(MOST_WALKS):
            scope.parted = False
            self.dry = was_dry or lenient
            state_after, exits = self._walk_once(head, node, dict(entry_state))
            self.dry = was_dry
            merged = (
                self.joined(entry_state, state_after) if state_after is not None else entry_state
            )
            _drop_growing_bounds(merged, entry_state)
            is_settled = is_same_state(merged, entry_state)
            if is_settled and (was_dry or not lenient or self.missed == counters_before[2]):
                break
            # A name that no iteration assigns is refused only in the last translation.
            lenient = not is_settled
            del self.operations[counters_before[0] :]
            # Restore the counter of names, so that all translations generate the same names.
            _, self.count, self.missed = counters_before
            self.cost.clear()
            entry_state = merged
        else:
            self.refuse(node, "a loop whose variables change their types")
        if cached is None:
            settled.append((state_before, entry_state))
        self.state = self.joined(*exits)
        self.live = bool(exits)
        for name in (scope.prefix + name for name in stored_names(node) if scope.parted):
            # The values of these variables depend on data, because the number of completed
            # iterations depends on data.
            if isinstance(self.state.get(name), Num):
                self.state[name] = replace(self.state[name], data=True)
        scope.parted = was_parted

    def _walk_once(
        self, head: Callable[[list[State]], bool], node: ast.For | ast.While, state: State
    ) -> tuple[State | None, list[State]]:
        """Translate a loop once; return (state at its end, states in which the loop is left).

        The first state is that at the end of the loop's body. It is None if no iteration reaches
        this end.
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
        depends_on_data = head(breaks)
        self.control += depends_on_data
        self.block(node.body)
        self.flush()
        self.loaded.clear()
        ends = ([self.state] if self.live else []) + continues
        self.control -= depends_on_data
        self.open.pop()
        if depends_on_data and isinstance(node, ast.For):
            self.spend(times=2)
            with self.under("else:", "else:"):
                self.flush()
        self.notify_watch(f"leave({self.head()})")
        scope.loops.pop()
        if has_return:  # A return in an inlined function also ends the loops around this one.
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
        """Return the index in `heads` of the loop that is being translated."""
        return self.heads.setdefault(
            (self.spot, self.scope.prefix, self.scope.loops[-1][1]), len(self.heads)
        )

    def _may_stop(self, node: ast.stmt, endless: bool = True) -> None:
        """Write the checks at the start of an iteration.

        In the numba code of an `endless` loop, the vertex checks whether it must stop. In the
        Python code, it checks whether it has run so long that the numba code should run instead.
        """
        if endless:
            self.endless = True
            self.emit(f"if stopped(stop): return -{node.lineno}")
        self.emit(None, "if cyc > most: most = longer(cyc)")

    def s_For(self, node: ast.For) -> None:
        self.for_loop(self._sequence(node.iter), node)

    def for_loop(self, seq: LoopSequence, node: ast.For) -> None:
        """Translate a `for` loop over a sequence."""
        counter = self.new("i")

        def head(breaks: list[State]) -> bool:
            target = self._target(node.target)
            bounds = seq.bounds if isinstance(node.target, ast.Name) else None
            self.ahead[counter] = set()
            compiled_line = f"for {counter} in range({', '.join(bounds or [seq.count])}):"
            variable, items = (counter, f"range({seq.size})") if seq.counted else (target, seq.py)
            python_line = f"for {variable} in {items}:"
            watched_line = f"for {variable} in watch.over({self.head()}, {items}):"
            self.begin(Block(compiled_line, python_line, watched_line, counter=counter))
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
                # On the chip, a loop counter belongs to the control flow, and is not data.
                outer_control, self.control = self.control, 0
                self.store(node.target, item, node)
                self.control = outer_control
            return seq.data

        self.loop(head, node)

    def _target(self, node: ast.expr) -> str:
        """Return the variables of a `for` loop as Python code, such as "v_x" or "(v_x, v_y,)"."""
        if isinstance(node, ast.Name):
            return self.scope.prefix + node.id
        if isinstance(node, ast.Tuple):
            return "(" + ", ".join(self._target(part) for part in node.elts) + ",)"
        self.refuse(node, "this loop variable")

    def _sequence(self, node: ast.expr) -> LoopSequence:
        """Return the sequence over which a `for` iterates."""
        if isinstance(node, ast.Call):
            function = self.value(node.func)
            function = function.value if isinstance(function, StaticValue) else None
            if function is range and not node.keywords and 1 <= len(node.args) <= 3:
                return self._range(node)
            start_nodes = [
                *node.args[1:],
                *(position.value for position in node.keywords if position.arg == "start"),
            ]
            if (
                function is enumerate
                and node.args
                and len(start_nodes) == len(node.args) - 1 + len(node.keywords) <= 1
            ):
                start_number = self.num(start_nodes[0]) if start_nodes else self.constant(0)
                self.refuse_if(
                    not isinstance(start_number.const, int),
                    node,
                    "enumerate() from a number that is not a constant",
                )
                return numbered(self._sequence(node.args[0]), str(start_number.const))
            strict = [
                position
                for position in node.keywords
                if position.arg == "strict" and isinstance(position.value, ast.Constant)
            ]
            if function is zip and node.args and len(strict) == len(node.keywords):
                return self._zip(node, any(position.value.value for position in strict))  # type: ignore[attr-defined]
            if function is reversed and len(node.args) == 1:
                inner_sequence = self._sequence(node.args[0])
                length_name = self.new("n")
                self.emit(
                    f"{length_name} = {inner_sequence.count}",
                    f"{length_name} = {inner_sequence.size}",
                )
                item_of = inner_sequence.item

                def item(position: str) -> Value:
                    index = self.new()
                    self.both(f"{index} = {length_name} - 1 - {position}")
                    return item_of(index)

                return replace(
                    inner_sequence,
                    count=length_name,
                    size=length_name,
                    item=item,
                    py=f"reversed({inner_sequence.py})",
                    bounds=None,
                )
        return self._items(self.array(node), node)

    def _zip(self, node: ast.Call, strict: bool) -> LoopSequence:
        sequences = [self._sequence(a) for a in node.args]
        length_name = self.new("n")
        self.emit(
            f"{length_name} = {sequences[0].count}"
            if len(sequences) == 1
            else f"{length_name} = min({', '.join(zipped.count for zipped in sequences)})"
        )
        python_length = (
            f"min({', '.join(zipped.size for zipped in sequences)})"
            if len(sequences) > 1
            else sequences[0].size
        )
        for sequence in sequences if strict else ():
            self.bail(f"{sequence.count} != {length_name}", node)
            self.emit(None, f"assert {sequence.size} == {python_length}")
        text = f"zip({', '.join(zipped.py for zipped in sequences)})"
        depends_on_data = any(zipped.data for zipped in sequences)
        counted = any(zipped.counted for zipped in sequences)
        return LoopSequence(
            length_name,
            lambda position: [zipped.item(position) for zipped in sequences],
            py=text,
            size=python_length,
            data=depends_on_data,
            counted=counted,
        )

    def _range(self, node: ast.Call) -> LoopSequence:
        bounds = [self.not_none(bound) for bound in self.nums(node.args)]
        bound_texts = []
        python_text = f"range({', '.join(bound.py for bound in bounds)})"
        if len(bounds) == 1:
            bounds = [self.constant(0), *bounds]
        if len(bounds) == 2:
            bounds = [*bounds, self.constant(1)]
        for bound in bounds:
            self.refuse_if(
                not set(bound.alts) <= INTS - {"u8"} | BOOLS,
                node,
                "range() of what is not a whole number",
            )
            text = self.int64_text(bound)
            # Keep the name of a length, so that an index below this length is known to be in range.
            bound_texts.append(text if isinstance(text, Fixed) else self.named(text))
        first_text, end_text, step_text = bound_texts
        if not isinstance(step_text, Known) or step_text == "0":
            self.bail(f"{step_text} == 0", node)

        def item(position: str) -> Num:
            name = self.named(f"{first_text} + {position} * {step_text}")
            self.emit(None, f"{name} = {bounds[0].py} + {position} * {bounds[2].py}")
            return Num({"wi": name}, name, bound=SMALL)

        count = f"range_len({first_text}, {end_text}, {step_text})"
        is_short = all(
            abs(bound_number.const) <= SHORT
            if isinstance(bound_number.const, int)
            else (bound_number.bound or SMALL) <= 2 * LENGTH
            for bound_number in bounds
        )
        return LoopSequence(
            count,
            item,
            py=python_text,
            size=f"len({python_text})",
            data=any(bound_number.data for bound_number in bounds),
            bounds=(first_text, end_text, step_text),
            short=is_short,
        )

    def _items(self, array: Any, node: ast.expr) -> LoopSequence:
        """Return the sequence of an array's elements, or of its rows if it has several axes."""
        if isinstance(array, list):
            array = self.list_of([self.single(x, node) for x in array], node)
        self.refuse_if(
            not isinstance(array, Arr), node, "a loop over something other than an array"
        )
        self.refuse_if(not array.sized, node, "a loop over a ONE_PTR field")
        if isinstance(node, ast.Name):
            array = self.fixed(array)
        (length, stride) = array.dims[0]
        python_length = f"len({array.py})"

        def item(position: str) -> Value:
            if len(array.dims) == 1:
                self.ranges[position] = "0", length
                return self.load(
                    array, [Num({"wi": position}, position, affine=(position, 0))], node
                )
            row_offset = self.offset_of(array, array.off, position, stride)
            return self.part(array, row_offset, position, dims=array.dims[1:], key=f"[{position}]")

        counted = bool(array.mark) and (len(array.dims) > 1 or self.multi)
        return LoopSequence(length, item, array.py, python_length, counted=counted)


def numbered(sequence: LoopSequence, start: str) -> LoopSequence:
    """Return a sequence whose items are those of `enumerate(sequence, start)`.

    `start` is a string with the digits of an integer.
    """

    def item(position: str) -> list[Value]:
        number_text = position if start == "0" else f"({position} + {start})"
        return [Num({"wi": number_text}, number_text, bound=SMALL), sequence.item(position)]

    return replace(
        sequence,
        item=item,
        py=f"enumerate({sequence.py}{'' if start == '0' else ', ' + start})",
        bounds=None,
    )


def _returns(body: list[ast.stmt]) -> bool:
    return any(isinstance(n, ast.Return) for s in body for n in ast.walk(s))


def _with_known(at_head: State, state: State) -> State:
    """Return the cached state of a loop, with the present values of unchanged variables.

    `at_head` is the cached state at the start of an iteration, from an earlier translation. A
    variable is unchanged if its types, bounds and other properties in `at_head` and in `state` are
    the same.
    """
    return {
        name: state[name]
        if name in state and is_same_knowledge(knowledge, state[name])
        else knowledge
        for name, knowledge in at_head.items()
    }


def _drop_growing_bounds(state: State, entry_state: State) -> None:
    """Replace a bound in `state` by None if it is not the bound at the start of the iteration."""
    for name, knowledge in state.items():
        entry_knowledge = entry_state.get(name)
        if (
            isinstance(knowledge, Num)
            and isinstance(entry_knowledge, Num)
            and knowledge.bound != entry_knowledge.bound
        ):
            state[name] = replace(knowledge, bound=None)
