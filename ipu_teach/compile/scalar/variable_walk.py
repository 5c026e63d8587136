"""Assign local variables, and merge what is known about them after branches and loops."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Any

from ipu_teach.compile.scalar.arithmetic import Arithmetic
from ipu_teach.compile.scalar.kinds import CODES, SLOT, ZERO
from ipu_teach.compile.scalar.operations import Line
from ipu_teach.compile.scalar.values import Arr, Num, Refused, State, Value, Vec


class VariableWalk(Arithmetic):
    """Translates assignments to names, and merges what is known about variables after branches."""

    def assign(self, name: str, value: Value, node: ast.AST) -> None:
        """Write an assignment to a generated variable, and record the variable's value in `state`.

        A variable with several possible types becomes one numba variable for each slot of these
        types. It also has a tag, which is a numba variable that contains the code of the present
        type.
        """
        if isinstance(value, Vec):
            value = self._materialised(value)
            self.temporaries[value.py] = self.loops_over
        if isinstance(value, Arr):
            self.state[name] = self._array(slot_of(name), value)
        elif isinstance(value, Num):
            self.state[name] = self._number(name, slot_of(name), value)
        else:
            self.state[name] = value

    def _number(self, name: str, text_prefix: str, value: Num) -> Num:
        """Write the assignment of a number to a variable, and return the variable as a `Num`.

        The generated names of the variable begin with `text_prefix`.
        """
        has_tag = len(value.alts) > 1
        for slot, text in {SLOT[type_code]: text for type_code, text in value.alts.items()}.items():
            self.emit(f"{text_prefix}_{slot} = {text}")
            self.slots[f"{text_prefix}_{slot}"] = ZERO[slot]
        tag_text = value.tag if has_tag else CODES[value.only[0]]
        self.operations.append(Line(f"{text_prefix}_tag = {tag_text}", tag=f"{text_prefix}_tag"))
        self.emit(None, f"{text_prefix} = {value.py}")
        if has_tag:
            self.tagged.add(f"{slot_of(name)}_tag")
        alts = {type_code: f"{text_prefix}_{SLOT[type_code]}" for type_code in value.alts}
        return Num(
            alts,
            text_prefix,
            f"{text_prefix}_tag",
            value.data or self.control > 0,
            bound=value.bound,
            affine=value.affine,
        )

    def _array(self, text_prefix: str, value: Arr) -> Arr:
        """Write the assignment of an array to a variable, and return the variable as an `Arr`.

        The generated names of the variable begin with `text_prefix`.
        """
        self.emit(f"{text_prefix}_o = {value.off}", f"{text_prefix} = {value.py}")
        dims = []
        for axis, (length, stride) in enumerate(value.dims):
            self.emit(f"{text_prefix}_n{axis} = {length}")
            if stride != "1":
                self.emit(f"{text_prefix}_s{axis} = {stride}")
            dims.append(
                (f"{text_prefix}_n{axis}", stride if stride == "1" else f"{text_prefix}_s{axis}")
            )
        is_local = value.local and not value.free
        for suffix in self.parts(value) if is_local else ():
            self.emit(f"{text_prefix}_a{suffix} = {value.buf}{suffix}")
        if value.mark:
            self.emit(None, f"{text_prefix}_m = {value.mark}")
        if value.mark and self.multi:
            self.emit(None, f"r_{text_prefix}_m = r_{value.mark}")
        buf = f"{text_prefix}_a" if is_local else value.buf
        mark = value.mark and f"{text_prefix}_m"
        if value.py in self.temporaries:
            self.temporaries[text_prefix] = self.temporaries[value.py]
        return replace(
            value, off=f"{text_prefix}_o", dims=tuple(dims), py=text_prefix, mark=mark, buf=buf
        )

    def parts(self, value: Arr) -> list[str]:
        """Return the suffixes of an array's buffers, whose names are `buf` plus a suffix."""
        if not value.box:
            return [""]
        types = self.boxes[value.box]
        suffixes = [f"_{slot}" for slot in sorted({SLOT[type_code] for type_code in types})]
        return [*suffixes, "_tag"] if len(types) > 1 else suffixes

    def _materialised(self, value: Vec, python: bool = True) -> Arr:
        """Write the code that stores an array expression in a new local array; return the array.

        If `python` is False, the array exists only in the numba code.
        """
        array_name = self.new("a")
        index = self.new("i")
        length_names = [self.named(length) for length in value.dims]
        if python:
            self.emit(None, f"{array_name} = {value.py}")
        self.empty(array_name, " * ".join(length_names), value.type)
        with self.under(f"for {index} in range({' * '.join(length_names)}):"):
            self.emit(f"{array_name}[{index}] = {value.item(index)}")
        return Arr(
            array_name,
            value.type,
            dims=tuple(zip(length_names, (*length_names[1:], "1"), strict=True)),
            off="0",
            py=array_name,
            local=True,
        )

    def bind(self, name: str, value: Value, node: ast.AST) -> None:
        """Write an assignment to a name of the function that is being translated."""
        self.assign(self.scope.prefix + name, value, node)

    def fixed(self, a: Any) -> Any:
        """Return a value, or a copy if a later assignment to a variable could change the value."""
        if isinstance(a, Arr) and not a.free:
            return self._array(self.new("p"), a)
        if not isinstance(a, Num) or a.const is not None:
            return a
        name = self.new("p")
        self.emit(None, f"{name} = {a.py}")
        slots, tag = self.dispatch([a], lambda types, texts: (types[0], texts[0]), none=True)
        return replace(a, alts=slots, tag=tag, py=name)

    def joined(self, *states: State) -> State:
        """Return the variables' values after branches that end in these states.

        :raises Refused: if a name has different arrays in these states.
        """
        result: State = {}
        for name in dict.fromkeys(variable for state in states for variable in state):
            values = [state[name] for state in states if name in state]
            first_knowledge = values[0]
            is_complete = len(values) == len(states) and not getattr(values[0], "maybe", True)
            if (
                is_complete
                and len(first_knowledge.alts) == 1
                and all(knowledge is first_knowledge for knowledge in values)
            ):
                result[name] = first_knowledge
            elif all(isinstance(knowledge, Num) for knowledge in values):
                result[name] = self._joined_number(name, values, len(values) < len(states))
            elif all(knowledge == values[0] for knowledge in values):
                if len(values) == len(states):
                    result[name] = values[0]
            elif all(
                isinstance(knowledge, Arr)
                and knowledge.box
                and replace(knowledge, box="") == replace(values[0], box="")
                for knowledge in values
            ):
                boxes = sorted({knowledge.box for knowledge in values})
                # From now on, all lists in `boxes` share one set of types.
                self.boxes |= dict.fromkeys(boxes, set().union(*(self.boxes[box] for box in boxes)))
                result[name] = replace(values[0], box=boxes[0])
            else:
                problem = (
                    "a choice of arrays"
                    if name[0] == "."
                    else f"{name.partition('_')[2]}, which holds different arrays,"
                )
                raise Refused(problem, 0, "an if with the statements for each array")
        return result

    def _joined_number(self, name: str, numbers: list[Num], is_missing: bool) -> Num:
        """Return the value of a variable after branches that assign these numbers to it.

        `is_missing` is True if at least one branch does not assign the variable.
        """
        alts = {
            type_code: number_text
            for number in numbers
            for type_code, number_text in number.alts.items()
        }
        may_be_missing = is_missing or any(number.maybe for number in numbers)
        bounds = [number.bound for number in numbers]
        if len(alts) > 1 or may_be_missing:
            self.tagged.add(f"{slot_of(name)}_tag")
        bound = (
            None
            if any(number_bound is None for number_bound in bounds)
            else max(number_bound for number_bound in bounds if number_bound is not None)
        )
        depends_on_data = any(number.data for number in numbers)
        affine = (
            numbers[0].affine
            if all(number.affine == numbers[0].affine for number in numbers)
            else None
        )
        return Num(
            dict(sorted(alts.items())),
            numbers[0].py,
            numbers[0].tag,
            data=depends_on_data,
            bound=bound,
            maybe=may_be_missing,
            affine=affine,
        )


def slot_of(name: str) -> str:
    """Return a variable's name in the generated code."""
    return name.replace(".", "")


def is_same_state(a: State, b: State) -> bool:
    """Return whether two states have the same variables, each with the same types and bounds.

    See `is_same_knowledge` for all properties that are compared.
    """
    return a.keys() == b.keys() and all(
        is_same_knowledge(value, b[name]) for name, value in a.items()
    )


def _knowledge(a: Num) -> tuple[object, ...]:
    """Return those properties of a number on which the translation of later code depends.

    They are (possible types, whether it depends on data, bound, whether it may be unassigned,
    affine form).
    """
    return a.alts.keys(), a.data, a.bound, a.maybe, a.affine


def is_same_knowledge(a: Value, b: Value) -> bool:
    """Return whether two values have the same types, bounds and other properties.

    The expressions of two numbers may differ; any other values must be equal.
    """
    if isinstance(a, Num) and isinstance(b, Num):
        return _knowledge(a) == _knowledge(b)
    return bool(a == b)
