"""How vertices run: the ways, and what they are bound with. Of those in `WAYS` the first that takes a group runs it.

A way is an object with `bind(group, site)`, which returns prebound calls; to run the vertices is to make those calls. What a
way does not know how to do (floating-point traps, going on as another one) is done around it, see `Trapping`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from ipu_teach.compile.groups import Group
from ipu_teach.compile.scalar import scalar_code
from ipu_teach.engine.batch.across_vertices import bind_across_vertices
from ipu_teach.engine.batch.kernels import Call
from ipu_teach.engine.batch.plan import bind
from ipu_teach.engine.batch.threads import shares, together
from ipu_teach.engine.fp.traps import Guarded
from ipu_teach.engine.host_fallback import traces_of
from ipu_teach.engine.loop import run_loop
from ipu_teach.engine.register_vertices import OnRegisters
from ipu_teach.engine.scalar.count import Counting
from ipu_teach.engine.scalar.program import program_of
from ipu_teach.engine.scalar.run import ScalarRun
from ipu_teach.engine.site import Site
from ipu_teach.engine.tiers import Tiers, loops_over_elements
from ipu_teach.engine.views import Region


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
        return [(OnRegisters(group, site).run, ())]


class Batch:
    """Array calls over all vertices, made from a trace."""

    def takes(self, group: Group, site: Site) -> bool:
        return group.way == "batch"

    def stays(self, group: Group, site: Site) -> bool:
        xp = site.memory.backend
        return (xp.on_host or (site.rounding is None and not site.watched)) and not any(map(xp.lacks, traces_of(group)))

    def bind(self, group: Group, site: Site) -> list[Call]:
        alone = site.rounding is None and not site.watched and site.returned is None and site.memory.backend.on_host
        parts = [bind(part, site) for part in (shares(group, site.threads) if alone else [group])]
        return [(together, (site.pool, parts))] if len(parts) > 1 else parts[0]


class Scalar:
    """Loops over elements, made from the text of `compute()`."""

    def takes(self, group: Group, site: Site) -> bool:
        return group.way == "scalar"

    def stays(self, group: Group, site: Site) -> bool:
        return False

    def bind(self, group: Group, site: Site) -> list[Call]:
        return [(ScalarRun(group, site).run, ())]


class Loop:
    """Vertex by vertex in plain Python: takes everything, and is what the others are compared with.

    What a scalar loop would count is counted beside it, on copies: cycles, what is stored, and what workers touch.
    """

    def takes(self, group: Group, site: Site) -> bool:
        return True

    def stays(self, group: Group, site: Site) -> bool:
        return False

    def bind(self, group: Group, site: Site) -> list[Call]:
        counted = group.scalar is not None and group.trace.stopped
        return [(run_loop, (group, site, Counting(group, site) if counted else None))]


class Around:
    """A way around another one, which takes the same groups."""

    def __init__(self, way: Way) -> None:
        self._way = way

    def takes(self, group: Group, site: Site) -> bool:
        return self._way.takes(group, site)

    def stays(self, group: Group, site: Site) -> bool:
        return self._way.stays(group, site)


class Trapping(Around):
    """A way of many vertices at a time, with the loop beside it, which finds the one that trapped."""

    def bind(self, group: Group, site: Site) -> list[Call]:
        calls = self._way.bind(group, site)
        if not site.watched:
            return calls
        loop = Loop().bind(group, site)
        return [(Guarded([group], [site], calls, loop).run, ())]


class Tiered(Around):
    """A way of array calls, of which those that are loops over single elements go on as compiled loops once that pays."""

    def bind(self, group: Group, site: Site) -> list[Call]:
        calls = self._way.bind(group, site)
        plain = site.rounding is None and not site.watched and site.memory.backend.on_host
        if not plain or not loops_over_elements(group):
            return calls

        def loop() -> ScalarRun | None:
            code = scalar_code(group.table.codelet)
            if isinstance(code, str) or not program_of(code, site.target).compiles:
                return None
            # From one end of memory to the other: no vertex sees another, and none of these raises.
            widest = max(
                (Region(group, site.layouts, name, 0) for name in group.shapes), key=lambda r: np.ptp(r.starts) * r.bytes
            )
            return ScalarRun(replace(group, scalar=code, rows=group.rows[np.argsort(widest.starts)]), site)

        return [(Tiers(calls, loop).run, ())]


WAYS: tuple[Way, ...] = (AtOnce(), Trapping(Tiered(Batch())), Scalar(), Loop())
REFEREE: tuple[Way, ...] = (AtOnce(), Loop())  # with vertex_loop=True


def bind_across(groups: Sequence[Group], sites: Sequence[Site]) -> list[Call] | None:
    """The calls that run all groups of one table as one long region, where it is elementwise: such vertices have no ends."""
    memory, layouts, watched = sites[0].memory, sites[0].layouts, any(site.watched for site in sites)
    if any(group.at_once for group in groups) or any(site.rounding is not None for site in sites):
        return None
    if watched and not memory.backend.on_host:
        return None
    calls = bind_across_vertices(groups, layouts, memory)
    if calls is None or not watched:
        return calls
    loops = [call for group, site in zip(groups, sites, strict=True) for call in Loop().bind(group, site)]
    return [(Guarded(groups, sites, calls, loops).run, ())]
