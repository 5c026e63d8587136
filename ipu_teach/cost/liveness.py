"""The liveness of variables: at which leaves of the programs a variable is still needed.

A leaf is a program node that executes a step. A variable is always live in five cases:

- the host reads or writes it;
- it is a constant;
- it is a vertex's state;
- no program uses it;
- some program may read it before writing all of it, so that its value remains from one run to the
  next.

Any other variable is live from a step that writes all of it to the last step that reads this value.
Before and after that, other variables may use its bytes. Only a step that writes all elements of a
variable makes its old value unneeded. If several steps write a variable part by part before it is
read, its old value still counts as needed, so the variable is always live (the last case). A
compute set counts as writing all elements of its Output fields. At a branch of a program, a
variable is live if any branch needs it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from ipu_teach.compile.freeze import FrozenGraph
from ipu_teach.compile.programs import Node, Side, Step, extent_of, parts, touched
from ipu_teach.graph.tile_map import covered, joined
from ipu_teach.types import Array

if TYPE_CHECKING:
    from ipu_teach.compile import Compiled


@dataclass(frozen=True, eq=False)
class VariableUse:
    """The use of each variable by a step: whether the step reads, writes or completely writes it.

    Each attribute is bool[variables].
    """

    reads: Array
    writes: Array
    fills: Array


@dataclass(frozen=True, eq=False)
class Liveness:
    """The liveness of the variables of a compiled program.

    - `always` (bool[variables]) says which variables are always live.
    - `places` contains the leaves of all programs in order.
    - `live` (bool[leaves, variables]) says whether a variable is needed before, during or after a
      leaf. It does not cover variables that are always live.
    """

    always: Array
    places: tuple[Node, ...]
    live: Array


class Accesses:
    """The variables that each step of a compiled program reads and writes."""

    def __init__(self, compiled: Compiled) -> None:
        self.compiled = compiled
        self.graph: FrozenGraph = compiled.graph
        self.start = np.array([v.start for v in self.graph.variables], np.int64)
        self.stop = np.array([v.stop for v in self.graph.variables], np.int64)
        self._found: dict[int, VariableUse] = {}

    def none(self) -> Array:
        """Return a mask that selects no variable: bool[variables], all False."""
        return np.zeros(len(self.start), bool)

    def of(self, number: int) -> VariableUse:
        """Return how compiled step `number` uses each variable."""
        if number not in self._found:
            self._found[number] = self._access(self.compiled.steps[number])
        return self._found[number]

    def touched(self, *tensors: Side) -> Array:
        """Return which variables contain an element of any of the tensors: bool[variables].

        Objects that are not tensors are ignored, because they are not in tile memory.
        """
        return self._touched(*extent_of(tensors))

    def _access(self, step: Step) -> VariableUse:
        sources, destinations = zip(*map(touched, parts(step)), strict=True)
        reads = self.touched(*chain(*sources))
        written_intervals = [extent_of(chain(*destinations))]
        writes = self._touched(*written_intervals[0])
        for table in self.graph.executed(step):
            for name, field in table.fields.items():
                if field.kind != "state":
                    intervals = self.graph.touched(table, name)
                    is_touched = self._touched(intervals.start, intervals.stop)
                    if field.kind != "output":
                        reads |= is_touched
                    if field.written:
                        writes |= is_touched
                        written_intervals.append((intervals.start, intervals.stop))
        start, stop = map(np.concatenate, zip(*written_intervals, strict=True))
        return VariableUse(reads, writes, self._filled(start, stop))

    def _touched(self, start: Array, stop: Array) -> Array:
        is_nonempty = stop > start
        # Most fields of a compute set are inside a single variable. Try this case first, because
        # the general search below takes longer.
        if is_nonempty.all() and len(is_nonempty):
            contains_all: Array = (self.start <= start.min()) & (stop.max() <= self.stop)
            if contains_all.any():
                return contains_all
        first_variables = np.searchsorted(self.start, start[is_nonempty], "right") - 1
        end_variables = np.searchsorted(self.start, stop[is_nonempty], "left")
        changes = np.bincount(first_variables, minlength=len(self.start) + 1) - np.bincount(
            end_variables, minlength=len(self.start) + 1
        )
        is_touched: Array = np.cumsum(changes)[:-1] > 0
        return is_touched

    def _filled(self, start: Array, stop: Array) -> Array:
        start, stop = joined(start, stop)
        written = covered(start, stop, self.stop) - covered(start, stop, self.start)
        filled: Array = (written == self.stop - self.start) & (written > 0)
        return filled


class _Place:
    """A node of a program, with the variables that it uses.

    `uses` (bool[variables]) selects the variables whose old values the node needs. `fills` selects
    the variables that the node always overwrites completely before it reads them.
    """

    def __init__(self, node: Node, accesses: Accesses) -> None:
        self.node = node
        self.children = tuple(_Place(child, accesses) for child in node.children)
        self.predicate = accesses.touched(node.predicate)
        # If the leaf never runs, `live` stays empty.
        self.live = accesses.none()
        if node.step >= 0:
            access = accesses.of(node.step)
            self.uses = access.reads
            self.fills = access.fills & ~access.reads
            self.writes = access.writes
        else:
            self.uses, self.fills = self._together(accesses)

    def _together(self, accesses: Accesses) -> tuple[Array, Array]:
        kind = self.node.kind
        children = self.children
        if kind == "Repeat" and self.node.count == 0:
            return accesses.none(), accesses.none()
        if kind in ("If", "Switch"):
            return self.predicate | np.any([child.uses for child in children], axis=0), np.all(
                [child.fills for child in children], axis=0
            )
        if kind in ("RepeatWhileTrue", "RepeatWhileFalse"):
            condition, _ = children
            return condition.uses | (self._after_condition() & ~condition.fills), condition.fills
        uses = accesses.none()
        fills = accesses.none()
        for child in reversed(children):
            uses = child.uses | (uses & ~child.fills)
            fills = fills | child.fills
        return uses, fills

    def _after_condition(self) -> Array:
        """Return which variables a while loop needs when it reads its predicate: bool[variables].

        Variables that are needed only after the loop are left out.
        """
        condition, body = self.children
        needed: Array = self.predicate | body.uses | (condition.uses & ~body.fills)
        return needed

    def flow(self, live_after: Array) -> None:
        """Store at each leaf below this node which variables are live there.

        `live_after` (bool[variables]) selects the variables that are needed after the node.
        """
        kind = self.node.kind
        children = self.children
        if self.node.step >= 0:
            self.live = live_after | self.uses | self.writes
        elif kind in ("If", "Switch"):
            for child in children:
                child.flow(live_after)
        elif kind in ("RepeatWhileTrue", "RepeatWhileFalse"):
            condition, body = children
            live_between = live_after | self._after_condition()
            condition.flow(live_between)
            body.flow(condition.uses | (live_between & ~condition.fills))
        elif kind != "Repeat" or self.node.count > 0:
            if kind == "Repeat" and self.node.count > 1:
                live_after = live_after | self.uses
            for child in reversed(children):
                child.flow(live_after)
                live_after = child.uses | (live_after & ~child.fills)

    def leaves(self) -> list[_Place]:
        """Return the leaves of this node in program order. A leaf returns itself."""
        if self.node.step >= 0:
            return [self]
        return [leaf for child in self.children for leaf in child.leaves()]


def liveness(compiled: Compiled) -> Liveness:
    """Return the liveness of all variables of a compiled program."""
    accesses = Accesses(compiled)
    roots = [_Place(program, accesses) for program in compiled.programs]
    always = np.array([v.constant or v.state for v in compiled.graph.variables], bool)
    always |= accesses.touched(*(access.tensor for access in compiled.host_accesses.values()))
    used = accesses.none()
    for root in roots:
        always |= root.uses
        for place in root.leaves():
            used |= place.uses | place.writes
    always |= ~used
    leaves: list[_Place] = []
    for root in roots:
        root.flow(always)
        leaves += root.leaves()
    live = np.array([leaf.live & ~always for leaf in leaves], bool).reshape(
        len(leaves), len(always)
    )
    return Liveness(always, tuple(leaf.node for leaf in leaves), live)
