"""How vertices run: the ways, and what they are bound with. Of those in `WAYS` the first that takes
a group runs it.

A way is an object with `bind(site)`, which returns prebound calls; to run the vertices is to make
those calls. What an array call does not know how to do (floating-point traps, going on as another
way) is done around it, see `Batch`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

import numpy as np

from ipu_teach.compile.scalar import scalar_code
from ipu_teach.engine.backend import Call
from ipu_teach.engine.batch.across_vertices import bind_across_vertices
from ipu_teach.engine.batch.batch_plan import bind
from ipu_teach.engine.batch.threads import shares, together
from ipu_teach.engine.fp.traps import Guarded
from ipu_teach.engine.loop import run_loop
from ipu_teach.engine.register_vertices import OnRegisters
from ipu_teach.engine.scalar.count import Counting
from ipu_teach.engine.scalar.functions import program_of
from ipu_teach.engine.scalar.run import ScalarRun
from ipu_teach.engine.site import Site
from ipu_teach.engine.tiers import Tiers, loops_over_elements
from ipu_teach.engine.views import Region


class Way(Protocol):
    """One way to run the vertices of a group."""

    def takes(self, site: Site) -> bool:
        """True if it can run the group of a site."""

    def stays(self, site: Site) -> bool:
        """True if it can do so in the machine's own memory, wherever that is; else it needs the
        host's."""
        return False

    def bind(self, site: Site) -> list[Call]:
        """The calls that run `compute()` for every vertex of the group."""


class AtOnce(Way):
    """One call of `compute()` for all vertices: codelets that are written so."""

    def takes(self, site: Site) -> bool:
        return site.group.at_once

    def stays(self, site: Site) -> bool:
        return True

    def bind(self, site: Site) -> list[Call]:
        return [(OnRegisters(site).run, ())]


class Batch(Way):
    """Array calls over all vertices, made from a trace.

    Where something may trap the loop stands beside them, which finds the vertex that did. Those
    that are loops over single elements go on as compiled loops once that pays.
    """

    def takes(self, site: Site) -> bool:
        return site.group.way == "batch"

    def stays(self, site: Site) -> bool:
        xp, plain = site.memory.backend, site.rounding is None and site.watch is None
        return (xp.on_host or plain) and all(map(xp.runs, site.group.traces))

    def bind(self, site: Site) -> list[Call]:
        plain = site.rounding is None and site.watch is None and site.memory.backend.on_host
        shared = plain and site.pool is not None and site.returned is None
        parts = [bind(part) for part in (shares(site) if shared else [site])]
        calls = [(together, (site.pool, parts))] if len(parts) > 1 else parts[0]
        if site.watch is not None:
            return [(Guarded([site], calls, Loop().bind(site)).run, ())]
        if plain and loops_over_elements(site.group):
            return [(Tiers(calls, partial(_compiled_loop, site)).run, ())]
        return calls


def _compiled_loop(site: Site) -> ScalarRun | None:
    """The scalar loop of vertices that run as a batch; None if it cannot be compiled."""
    group, code = site.group, scalar_code(site.group.table.codelet)
    if isinstance(code, str) or not program_of(code, site.target).compiles:
        return None
    # From one end of memory to the other: no vertex sees another, and none of these raises.
    widest = max(
        (Region(group, site.graph, name) for name in group.shapes),
        key=lambda r: np.ptp(r.starts) * r.bytes,
    )
    return ScalarRun(
        replace(site, group=replace(group, scalar=code, rows=group.rows[np.argsort(widest.starts)]))
    )


class Scalar(Way):
    """Loops over elements, made from the text of `compute()`."""

    def takes(self, site: Site) -> bool:
        return site.group.way == "scalar"

    def bind(self, site: Site) -> list[Call]:
        return [(ScalarRun(site).run, ())]


class Loop(Way):
    """Vertex by vertex in plain Python: takes everything, and is what the others are compared with.

    What a scalar loop would count is counted beside it, on copies: cycles, what is stored, and what
    workers touch.
    """

    def takes(self, site: Site) -> bool:
        return True

    def bind(self, site: Site) -> list[Call]:
        counted = site.group.scalar is not None and site.group.trace.stopped
        return [(run_loop, (site, Counting(site) if counted else None))]


WAYS: tuple[Way, ...] = (AtOnce(), Batch(), Scalar(), Loop())
REFEREE: tuple[Way, ...] = (AtOnce(), Loop())  # with vertex_loop=True


def bind_across(sites: Sequence[Site]) -> list[Call] | None:
    """The calls that run all groups of one table as one long region, where it is elementwise: such
    vertices have no ends."""
    watched = any(site.watch is not None for site in sites)
    if any(site.group.at_once or site.rounding is not None for site in sites):
        return None
    if watched and not sites[0].memory.backend.on_host:
        return None
    calls = bind_across_vertices(sites)
    if calls is None or not watched:
        return calls
    loops = [call for site in sites for call in Loop().bind(site)]
    return [(Guarded(sites, calls, loops).run, ())]
