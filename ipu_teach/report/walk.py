"""Find the program node to which each step of a run belongs, by a walk through the programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ipu_teach.report.profile import Profile, ProgramNode

if TYPE_CHECKING:
    from ipu_teach.report.report import Report


def joints(report: Report) -> list[int]:
    """Return the indices of the steps before which all IPUs wait for each other without a sync.

    All IPUs wait at the beginning of a run. They also wait where the program reads a predicate,
    which is the tensor that decides what an If, a Switch or a while loop executes.
    """
    nodes = (node for program in report.profile.programs for _, node in program.walk())
    first_steps = [run.first for run in report.runs]
    if any(node.predicate for node in nodes):
        return first_steps + Walk(report, keep=lambda _: False).read
    return first_steps


@dataclass(eq=False)
class WalkPlace:
    """A node of a program tree, with the number and the cycles of its executions.

    - `length` is the number of steps of one execution, or -1 if it depends on data.
    - `first` has the numbers of all compiled steps with which an execution can begin.
    - `idle` is True if it is possible to execute the node without running any step.
    - `role` is the role of the node in its parent, such as "then" or "case 3".
    - `runs` is the number of executions of the node, and `cycles` is the sum of the cycles of these
      executions. A `Walk` sets both.
    """

    node: ProgramNode
    depth: int
    children: tuple[WalkPlace, ...]
    length: int
    first: frozenset[int]
    idle: bool
    role: str = ""
    runs: int = 0
    cycles: float = 0.0

    @property
    def title(self) -> str:
        """A short description of the node: its role, its kind, its name and its predicate."""
        node = self.node
        text = node.name if node.name.startswith(node.kind) else f"{node.kind} {node.name}".strip()
        if node.predicate:
            text += f" {node.predicate}"
        return f"{self.role}: {text}" if self.role else text

    def walk(self) -> Iterator[WalkPlace]:
        """Yield this object and the objects of all nodes below it, in program order."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True, eq=False)
class Span:
    """One execution of a program node: the steps of the run from index `first` to before `last`."""

    place: WalkPlace
    first: int
    last: int


class Walk:
    """A walk that assigns the steps of a run to the nodes of the programs.

    The steps show which branch an If, a Switch or a while loop took. If two branches can begin with
    the same step, the walk assumes that the first one ran.

    `roots` has a `WalkPlace` for the top node of each program, and its children are the `WalkPlace`
    objects of the nodes below. The walk sets `runs` and `cycles` of all these objects. The list
    `spans` has executions of nodes:

    - If `most` is given, the walk ends at that index of the run, and `spans` has all executions of
      all nodes.
    - If `keep` is given, `spans` has only the executions of nodes for which `keep(place)` is True.
    - If neither is given, `spans` is empty.
    """

    def __init__(
        self,
        report: Report,
        most: int | None = None,
        keep: Callable[[WalkPlace], bool] | None = None,
    ) -> None:
        self.report = report
        named_steps = _own_steps(report.profile)
        self.roots = tuple(_place(node, 0, named_steps) for node in report.profile.programs)
        self.spans: list[Span] = []
        # If the cycles of a step depend on data, each measurement has its own step number. In
        # `_steps`, the step number of the leaf replaces the step number of each measurement.
        self._varies = bool(named_steps)
        self._numbers = report.step_numbers
        self._steps = (
            [named_steps.get(number, number) for number in self._numbers.tolist()]
            if named_steps
            else self._numbers
        )
        places = [place for root in self.roots for place in root.walk()]
        self._kept = {
            place for place in places if (most is not None if keep is None else keep(place))
        }
        # The walk visits the steps of these nodes one by one. For any other node, if the number of
        # its steps is known, the walk skips all of its steps at once.
        self._entered = {
            place
            for place in places
            if self._varies or any(descendant in self._kept for descendant in place.walk())
        }
        self._at = 0
        self._end = 0
        end_index = len(self._steps) if most is None else min(most, len(self._steps))
        runs = [(run.program, run.first, run.last) for run in report.runs] or [(0, 0, end_index)]
        self.read: list[int] = []  # The indices of the steps before which a predicate was read.
        self.unplaced = 0  # The number of steps that the walk could not assign to a node.
        for program_number, run_start, run_end in runs:
            self._at = run_start
            self._end = end_index if run_end is None else min(run_end, end_index)
            if self._at < self._end:
                self._enter(self.roots[program_number])
                self.unplaced += self._end - self._at
        for root in self.roots:
            self._sum(root)

    def _enter(self, place: WalkPlace, times: int = 1) -> None:
        num_steps = place.length * times
        if place not in self._entered and place.length >= 0 and self._at + num_steps <= self._end:
            self._add(place, times)
            self._at += num_steps
            return
        for _ in range(times if place.length else 0):
            if self._at >= self._end:
                return
            first_step = self._at
            span_index = len(self.spans)
            place.runs += 1
            self._inside(place)
            if place in self._kept and self._at > first_step:
                self.spans.insert(span_index, Span(place, first_step, self._at))

    def _inside(self, place: WalkPlace) -> None:
        node = place.node
        children = place.children
        if node.step >= 0:
            if self._steps[self._at] in place.first:
                if self._varies:
                    place.cycles += self.report.step_cost(int(self._numbers[self._at])).cycles
                self._at += 1
                for copy in children:
                    copy.runs += 1
            else:
                place.runs -= 1
        elif node.kind in ("If", "Switch"):
            self.read.append(self._at)
            branch = self._taken(children)
            if branch is not None:
                self._enter(branch)
        elif node.kind in ("RepeatWhileTrue", "RepeatWhileFalse"):
            condition, body = children
            self._enter(condition)
            self.read.append(self._at)
            last_position = -1
            while last_position < self._at < self._end and self._steps[self._at] in body.first:
                last_position = self._at
                self._enter(body)
                self._enter(condition)
                self.read.append(self._at)
        else:
            for child in children:
                self._enter(child, node.count if node.kind == "Repeat" else 1)

    def _taken(self, children: tuple[WalkPlace, ...]) -> WalkPlace | None:
        """Return the branch in `children` to which the next recorded step belongs.

        The result is the first branch that can begin with this step. If there is no such branch,
        the result is the first branch that can execute without running a step. If there is none of
        these either, the result is None.
        """
        next_step = self._steps[self._at] if self._at < self._end else -1
        return next(
            (child for child in children if next_step in child.first),
            next((child for child in children if child.idle), None),
        )

    def _add(self, place: WalkPlace, times: int) -> None:
        place.runs += times
        for child in place.children:
            self._add(child, times * place.node.count if place.node.kind == "Repeat" else times)

    def _sum(self, place: WalkPlace) -> float:
        if place.node.step < 0:
            place.cycles = sum(self._sum(child) for child in place.children)
        elif place.runs and not self._varies:
            place.cycles = place.runs * self.report.step_cost(place.node.step).cycles
        return place.cycles


def _roles(node: ProgramNode) -> tuple[str, ...]:
    match node.kind:
        case "If":
            return ("then", "else")
        case "Switch":
            return (*(f"case {number}" for number in node.cases), "default")
        case "RepeatWhileTrue" | "RepeatWhileFalse":
            return ("condition", "body")
    return ("",) * len(node.children)


def _place(node: ProgramNode, depth: int, named_steps: dict[int, int], role: str = "") -> WalkPlace:
    children = tuple(
        _place(child, depth + 1, named_steps, child_role)
        for child, child_role in zip(node.children, _roles(node), strict=True)
    )
    length, first_steps, may_be_idle = _extent(node, children, named_steps)
    return WalkPlace(
        node,
        depth,
        children=children,
        length=length,
        first=first_steps,
        idle=may_be_idle,
        role=role,
    )


def _extent(
    node: ProgramNode, children: tuple[WalkPlace, ...], named_steps: dict[int, int]
) -> tuple[int, frozenset[int], bool]:
    """Return `(length, first, idle)`, the attributes of a program node's `WalkPlace`.

    - `length` is the number of steps of one execution, or -1 if it depends on data.
    - `first` has the numbers of all compiled steps with which an execution can begin.
    - `idle` is True if it is possible to execute the node without running any step.

    `children` are the `WalkPlace` objects of the nodes directly below. `named_steps` maps the step
    number of each measurement to the step number of its leaf.
    """
    if node.step >= 0:
        return 1, frozenset((named_steps.get(node.step, node.step),)), False
    if node.kind in ("If", "Switch"):
        first_steps = frozenset[int]().union(*(child.first for child in children))
        return -1, first_steps, any(child.idle for child in children)
    if node.kind in ("RepeatWhileTrue", "RepeatWhileFalse"):
        condition, body = children
        first_steps = condition.first | body.first if condition.idle else condition.first
        return -1, first_steps, condition.idle
    if node.kind == "Repeat" and node.count == 0:
        return 0, frozenset(), True
    first_steps = frozenset()
    may_be_idle = True
    num_steps = 0
    for child in children:
        if may_be_idle:
            first_steps |= child.first
        may_be_idle = may_be_idle and child.idle
        num_steps = -1 if num_steps < 0 or child.length < 0 else num_steps + child.length
    if node.kind == "Repeat" and num_steps > 0:
        num_steps *= node.count
    return num_steps, first_steps, may_be_idle


def _own_steps(profile: Profile) -> dict[int, int]:
    """Map each compiled step whose cycles depend on data to the compiled step of its leaf.

    If the cycles of a compute set depend on data, it has a compiled step for each measurement. A
    leaf of the programs executes only the first of these steps.
    """
    set_of_step = [step.compute_set for step in profile.steps]
    varying_sets = {
        set_of_step[number] for number in set(range(len(set_of_step))) - profile.own_steps
    } - {-1}
    return {
        number: set_of_step.index(set_number)
        for number, set_number in enumerate(set_of_step)
        if set_number in varying_sets
    }
