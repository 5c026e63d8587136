"""The ways in which the vertices of a group can run, such as array calls or loops.

A group runs in the first of `WAYS` that can run it. A way has a method `bind(site)`, which prepares
views and buffers once, and returns calls that run the vertices. These calls are made each time that
the group runs. Anything that an array call cannot do, such as floating-point traps or a switch to
another way, is done around the call: see `Batch`.
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
from ipu_teach.engine.batch.threads import run_parallel, shares
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
    """A way to run the vertices of a group, such as array calls or a loop."""

    def can_run(self, site: Site) -> bool:
        """Return whether this way can run the group of a site."""

    def can_stay(self, site: Site) -> bool:
        """Return whether this way can run in the machine's own memory, even if it is GPU memory.

        If not, the group runs in the host's copy of the memory.
        """
        return False

    def bind(self, site: Site) -> list[Call]:
        """Return the calls that run `compute()` for every vertex of the group."""


class Bulk(Way):
    """A single call of `compute()` for all vertices, for codelets that access registers."""

    def can_run(self, site: Site) -> bool:
        return site.group.is_bulk

    def can_stay(self, site: Site) -> bool:
        return True

    def bind(self, site: Site) -> list[Call]:
        return [(OnRegisters(site).run, ())]


class Batch(Way):
    """Array calls over all vertices, created from the codelet's trace.

    If a vertex may trap, the plain vertex loop is also prepared, because only this loop can find
    the vertex that traps. If the codelet loops over single elements, later runs may use a compiled
    loop (see `tiers`).
    """

    def can_run(self, site: Site) -> bool:
        return site.group.way == "batch"

    def can_stay(self, site: Site) -> bool:
        xp = site.memory.backend
        is_plain = site.rounding is None and site.watch is None
        return (xp.on_host or is_plain) and all(map(xp.runs, site.group.traces))

    def bind(self, site: Site) -> list[Call]:
        is_plain = site.rounding is None and site.watch is None and site.memory.backend.on_host
        is_shared = is_plain and site.pool is not None and site.returned is None
        calls_by_share = [bind(share) for share in (shares(site) if is_shared else [site])]
        calls = (
            [(run_parallel, (site.pool, calls_by_share))]
            if len(calls_by_share) > 1
            else calls_by_share[0]
        )
        if site.watch is not None:
            return [(Guarded([site], calls, Loop().bind(site)).run, ())]
        if is_plain and loops_over_elements(site.group):
            return [(Tiers(calls, partial(_compiled_loop, site)).run, ())]
        return calls


def _compiled_loop(site: Site) -> ScalarRun | None:
    """Return a compiled scalar loop that can replace a batch, or None if it cannot be compiled."""
    group = site.group
    code = scalar_code(site.group.table.codelet)
    if isinstance(code, str) or not program_of(code, site.target).compiles:
        return None
    # The loop runs the vertices in the order of their addresses. It may do so because no vertex
    # depends on another, and no vertex can raise an error.
    widest = max(
        (Region(group, site.graph, name) for name in group.shapes),
        key=lambda r: np.ptp(r.starts) * r.bytes,
    )
    return ScalarRun(
        replace(site, group=replace(group, scalar=code, rows=group.rows[np.argsort(widest.starts)]))
    )


class Scalar(Way):
    """Loops over elements, created from the source of `compute()`."""

    def can_run(self, site: Site) -> bool:
        return site.group.way == "scalar"

    def bind(self, site: Site) -> list[Call]:
        return [(ScalarRun(site).run, ())]


class Loop(Way):
    """The plain vertex loop, which can run every group and is the reference for all other ways.

    If the codelet has a scalar loop, the scalar loop also runs, on copies of the regions. It counts
    the cycles, the stores, and the elements that workers access.
    """

    def can_run(self, site: Site) -> bool:
        return True

    def bind(self, site: Site) -> list[Call]:
        has_count = site.group.scalar is not None and site.group.trace.stopped
        return [(run_loop, (site, Counting(site) if has_count else None))]


WAYS: tuple[Way, ...] = (Bulk(), Batch(), Scalar(), Loop())
# The ways in which vertices run with vertex_loop=True.
REFEREE: tuple[Way, ...] = (Bulk(), Loop())


def bind_across(sites: Sequence[Site]) -> list[Call] | None:
    """Return the calls that run all groups of a vertex table as a few long regions, or None.

    The result is None unless the codelet is elementwise, because for any other codelet the
    boundaries between vertices matter.
    """
    watched = any(site.watch is not None for site in sites)
    if any(site.group.is_bulk or site.rounding is not None for site in sites):
        return None
    if watched and not sites[0].memory.backend.on_host:
        return None
    calls = bind_across_vertices(sites)
    if calls is None or not watched:
        return calls
    loops = [call for site in sites for call in Loop().bind(site)]
    return [(Guarded(sites, calls, loops).run, ())]
