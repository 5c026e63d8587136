"""How vertices run: the ways, and what they are bound with. Of those in `WAYS` the first that takes a group runs it.

A way is an object with `bind(group, site)`, which returns prebound calls; to run the vertices is to make those calls. What a
way does not know how to do (floating-point traps, going on as another one) is done around it, see `Trapping`.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Protocol

from ipu_teach.compile.groups import Group
from ipu_teach.compile.scalar import scalar_code
from ipu_teach.engine.chance import Chance
from ipu_teach.engine.flat import bind_flat
from ipu_teach.engine.floating import Guarded, Watch
from ipu_teach.engine.hosted import traces_of
from ipu_teach.engine.kernels import Call
from ipu_teach.engine.loop import run_loop
from ipu_teach.engine.memory import Memory
from ipu_teach.engine.plan import bind
from ipu_teach.engine.registers import OnRegisters
from ipu_teach.engine.scalar.count import Counting
from ipu_teach.engine.scalar.run import ScalarRun
from ipu_teach.engine.threads import shares, together
from ipu_teach.engine.tiers import Tiers, loops_over_elements
from ipu_teach.graph.registers import Registers
from ipu_teach.target import Target
from ipu_teach.types import Array


@dataclass(frozen=True, eq=False)
class Site:
    """Where a group of vertices is bound, and with what.

    `memory`: where its fields lie: the machine's, or the host's copy of that for a way that does not stay on a GPU.
    `watch` and `chance`: what traps, and what rounds stochastically, as numbers behave now. `returned`: bool[vertices],
    receives what each `compute()` returned; nothing counts as true. `cycles`: int64[vertices], receives the worker cycles of
    each vertex where they depend on data. `defined`: of each byte of memory whether something was written there; scalar loops
    say so of what they store. `races`: workers that meet in an element are an error.
    """

    memory: Memory
    layouts: tuple[Any, ...]
    target: Target
    compute_set: str
    registers: Registers
    watch: Watch
    chance: Chance | None
    exact: bool
    threads: int
    pool: ThreadPoolExecutor | None
    defined: Array
    races: bool
    returned: Array | None = None
    cycles: Array | None = None

    @property
    def watched(self) -> bool:
        """True if something traps on one of the vertices' tiles."""
        return bool(self.watch.kinds)


class Way(Protocol):
    """One way to run the vertices of a group."""

    def takes(self, group: Group, site: Site) -> bool:
        """True if it can run `group`."""

    def stays(self, group: Group, site: Site) -> bool:
        """True if it can do so in the machine's own memory, wherever that is; else it needs the host's."""

    def bind(self, group: Group, site: Site) -> list[Call]:
        """The calls that run `compute()` for every vertex of `group`."""


class AtOnce:
    """One call of `compute()` for all vertices: codelets that are written so."""

    def takes(self, group: Group, site: Site) -> bool:
        return group.at_once

    def stays(self, group: Group, site: Site) -> bool:
        return True

    def bind(self, group: Group, site: Site) -> list[Call]:
        return [(OnRegisters(group, site.layouts, site.memory, site.registers, site.chance).run, ())]


class Batch:
    """Array calls over all vertices, made from a trace."""

    def takes(self, group: Group, site: Site) -> bool:
        return group.way == "batch"

    def stays(self, group: Group, site: Site) -> bool:
        xp = site.memory.backend
        return (xp.on_host or (site.chance is None and not site.watched)) and not any(map(xp.lacks, traces_of(group)))

    def bind(self, group: Group, site: Site) -> list[Call]:
        memory, returned = site.memory, site.returned
        alone = site.chance is None and not site.watched and returned is None and memory.backend.on_host
        if site.pool is not None and alone:
            parts = [bind(part, site.layouts, memory) for part in shares(group, site.threads)]
            return [(together, (site.pool, parts))] if len(parts) > 1 else parts[0]
        return bind(group, site.layouts, memory, returned, exact=site.exact, chance=site.chance)


class Scalar:
    """Loops over elements, made from the text of `compute()`."""

    def takes(self, group: Group, site: Site) -> bool:
        # What traps, and what rounds by chance, goes vertex by vertex.
        return group.way == "scalar" and site.chance is None and not site.watched

    def stays(self, group: Group, site: Site) -> bool:
        return False

    def bind(self, group: Group, site: Site) -> list[Call]:
        return [(self.run_of(group, site).run, ())]

    def run_of(self, group: Group, site: Site) -> ScalarRun:
        """The vertices of a group that has a scalar loop, ready to run."""

        def plainly(v: int) -> None:
            answer = None if site.returned is None else site.returned[v : v + 1]
            some = replace(group, rows=group.rows[v : v + 1])
            run_loop(some, site.layouts, site.memory, answer, compute_set=site.compute_set)

        told = site.defined, site.cycles, site.races, plainly, site.returned
        return ScalarRun(group, site.layouts, site.memory, site.target, *told)


class Loop:
    """Vertex by vertex in plain Python: takes everything, and is what the others are compared with.

    What a scalar loop would count is counted beside it, on copies: cycles, what is stored, and what workers touch.
    """

    def takes(self, group: Group, site: Site) -> bool:
        return True

    def stays(self, group: Group, site: Site) -> bool:
        return False

    def bind(self, group: Group, site: Site) -> list[Call]:
        watch = site.watch if site.watched else None
        count = None
        if group.scalar is not None and group.trace.stopped:
            count = Counting(group, site.target, site.defined, site.cycles, site.races)
        return [(run_loop, (group, site.layouts, site.memory, site.returned, site.chance, watch, site.compute_set, count))]


class Trapping:
    """A way of many vertices at a time, with the loop beside it, which finds the one that trapped."""

    def __init__(self, way: Way) -> None:
        self._way, self._loop = way, Loop()

    def takes(self, group: Group, site: Site) -> bool:
        return self._way.takes(group, site)

    def stays(self, group: Group, site: Site) -> bool:
        return self._way.stays(group, site)

    def bind(self, group: Group, site: Site) -> list[Call]:
        calls = self._way.bind(group, site)
        if not site.watched:
            return calls
        loop = self._loop.bind(group, site)
        return [(Guarded(site.memory, [group], site.layouts, [site.watch], calls, loop).run, ())]


class Tiered:
    """A way of array calls, of which those that are loops over single elements go on as compiled loops once that pays."""

    def __init__(self, way: Way) -> None:
        self._way, self._scalar = way, Scalar()

    def takes(self, group: Group, site: Site) -> bool:
        return self._way.takes(group, site)

    def stays(self, group: Group, site: Site) -> bool:
        return self._way.stays(group, site)

    def bind(self, group: Group, site: Site) -> list[Call]:
        calls = self._way.bind(group, site)
        plain = site.chance is None and not site.watched and site.memory.backend.on_host
        if not plain or not loops_over_elements(group):
            return calls

        def loop() -> ScalarRun | None:
            code = scalar_code(group.table.codelet)
            return None if isinstance(code, str) else self._scalar.run_of(replace(group, scalar=code), site)

        return [(Tiers(calls, loop).run, ())]


WAYS: tuple[Way, ...] = (AtOnce(), Trapping(Tiered(Batch())), Scalar(), Loop())
REFEREE: tuple[Way, ...] = (AtOnce(), Loop())  # with vertex_loop=True


def bind_across(groups: Sequence[Group], sites: Sequence[Site]) -> list[Call] | None:
    """The calls that run all groups of one table as one long region, if `flat` can: what is elementwise has no vertices."""
    memory, layouts, watched = sites[0].memory, sites[0].layouts, any(site.watched for site in sites)
    if any(group.at_once for group in groups) or any(site.chance is not None for site in sites):
        return None
    if watched and not memory.backend.on_host:
        return None
    calls = bind_flat(groups, layouts, memory)
    if calls is None or not watched:
        return calls
    loops = [call for group, site in zip(groups, sites, strict=True) for call in Loop().bind(group, site)]
    return [(Guarded(memory, groups, layouts, [site.watch for site in sites], calls, loops).run, ())]
