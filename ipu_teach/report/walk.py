"""The steps of a run, assigned to the places of the programs that they belong to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ipu_teach.report.profile import Profile, ProgramNode

if TYPE_CHECKING:
    from ipu_teach.report.report import Report


def joints(report: Report) -> list[int]:
    """Return the steps of a run before which all IPUs wait for each other without a sync.

    That is where a run begins, and where the program reads a predicate.
    """
    nodes = (node for program in report.profile.programs for _, node in program.walk())
    begins = [run.first for run in report.runs]
    if any(node.predicate for node in nodes):
        return begins + Walk(report, keep=lambda _: False).read
    return begins


@dataclass(eq=False)
class WalkPlace:
    """A node of a program, with its executions in a run.

    - `length` is the number of steps of one execution, -1 if it depends on data.
    - `first` has the steps with which it can begin; `idle` is True if it may run no step at all.
    - `role` is its role in the node around it, such as "then" or "case 3".
    - `runs` and `cycles` (of all runs together) are set by a `Walk`.
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
        """A short description of the node: its role, its kind, and its name if that adds to it."""
        node = self.node
        text = node.name if node.name.startswith(node.kind) else f"{node.kind} {node.name}".strip()
        if node.predicate:
            text += f" {node.predicate}"
        return f"{self.role}: {text}" if self.role else text

    def walk(self) -> Iterator[WalkPlace]:
        """Yield this place and all places below it, in program order."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True, eq=False)
class Span:
    """One execution of a place: the steps of the run from `first` to before `last`."""

    place: WalkPlace
    first: int
    last: int


class Walk:
    """A walk that follows the steps of a run through the programs.

    The steps show which branch an If, a Switch or a while loop took. If two branches begin with the
    same step, the first is assumed. With `most`, `spans` has every execution of every place up to
    that step of the run. With `keep`, it has those of the places for which `keep(place)` is True.
    Without both, only sums are computed.
    """

    def __init__(
        self,
        report: Report,
        most: int | None = None,
        keep: Callable[[WalkPlace], bool] | None = None,
    ) -> None:
        self.report = report
        own_steps = _own_steps(report.profile)
        self.roots = tuple(_place(node, 0, own_steps) for node in report.profile.programs)
        self.spans: list[Span] = []
        # if cycles depend on data, a step has a number for each of its costs
        self._varies = bool(own_steps)
        self._numbers = report.step_numbers
        self._steps = (
            [own_steps.get(n, n) for n in self._numbers.tolist()] if own_steps else self._numbers
        )
        places = [place for root in self.roots for place in root.walk()]
        self._kept = {p for p in places if (most is not None if keep is None else keep(p))}
        # A place of known length is skipped in one go if no span inside it is kept.
        self._entered = {
            p for p in places if self._varies or any(below in self._kept for below in p.walk())
        }
        self._at = 0
        self._end = 0
        last = len(self._steps) if most is None else min(most, len(self._steps))
        runs = [(run.program, run.first, run.last) for run in report.runs] or [(0, 0, last)]
        self.read: list[int] = []  # the steps of the run before which a predicate was read
        self.unplaced = 0  # the number of steps that belong to no place of the compiled programs
        for program, start, stop in runs:
            self._at = start
            self._end = last if stop is None else min(stop, last)
            if self._at < self._end:
                self._enter(self.roots[program])
                self.unplaced += self._end - self._at
        for root in self.roots:
            self._sum(root)

    def _enter(self, place: WalkPlace, times: int = 1) -> None:
        length = place.length * times
        if place not in self._entered and place.length >= 0 and self._at + length <= self._end:
            self._add(place, times)
            self._at += length
            return
        for _ in range(times if place.length else 0):
            if self._at >= self._end:
                return
            start = self._at
            slot = len(self.spans)
            place.runs += 1
            self._inside(place)
            if place in self._kept and self._at > start:
                self.spans.insert(slot, Span(place, start, self._at))

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
            taken = self._taken(children)
            if taken is not None:
                self._enter(taken)
        elif node.kind in ("RepeatWhileTrue", "RepeatWhileFalse"):
            condition, body = children
            self._enter(condition)
            self.read.append(self._at)
            before = -1
            while before < self._at < self._end and self._steps[self._at] in body.first:
                before = self._at
                self._enter(body)
                self._enter(condition)
                self.read.append(self._at)
        else:
            for child in children:
                self._enter(child, node.count if node.kind == "Repeat" else 1)

    def _taken(self, children: tuple[WalkPlace, ...]) -> WalkPlace | None:
        """Return the branch that begins with the next step, or else one that may run no step."""
        step = self._steps[self._at] if self._at < self._end else -1
        return next(
            (c for c in children if step in c.first), next((c for c in children if c.idle), None)
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


def _place(node: ProgramNode, depth: int, own_steps: dict[int, int], role: str = "") -> WalkPlace:
    children = tuple(
        _place(child, depth + 1, own_steps, part)
        for child, part in zip(node.children, _roles(node), strict=True)
    )
    if node.step >= 0:
        return WalkPlace(
            node,
            depth,
            children=children,
            length=1,
            first=frozenset((own_steps.get(node.step, node.step),)),
            idle=False,
            role=role,
        )
    if node.kind in ("If", "Switch"):
        first = frozenset[int]().union(*(c.first for c in children))
        return WalkPlace(
            node,
            depth,
            children=children,
            length=-1,
            first=first,
            idle=any(c.idle for c in children),
            role=role,
        )
    if node.kind in ("RepeatWhileTrue", "RepeatWhileFalse"):
        condition, body = children
        first = condition.first | body.first if condition.idle else condition.first
        return WalkPlace(
            node, depth, children=children, length=-1, first=first, idle=condition.idle, role=role
        )
    if node.kind == "Repeat" and node.count == 0:
        return WalkPlace(
            node, depth, children=children, length=0, first=frozenset(), idle=True, role=role
        )
    first = frozenset()
    idle = True
    length = 0
    for child in children:
        if idle:
            first |= child.first
        idle = idle and child.idle
        length = -1 if length < 0 or child.length < 0 else length + child.length
    if node.kind == "Repeat" and length > 0:
        length *= node.count
    return WalkPlace(
        node, depth, children=children, length=length, first=first, idle=idle, role=role
    )


def _own_steps(profile: Profile) -> dict[int, int]:
    """Return, for each measured step that no program names, the first step of its compute set.

    A compute set has such steps if its cycles depend on data.
    """
    sets = [step.compute_set for step in profile.steps]
    varied = {sets[number] for number in set(range(len(sets))) - profile.own_steps} - {-1}
    return {number: sets.index(which) for number, which in enumerate(sets) if which in varied}
