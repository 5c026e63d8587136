"""How the numbers of one vertex behave while the plain loop runs it: what rounds by chance, and
what stops."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from ipu_teach.engine.fp.stochastic import StoredHalf
from ipu_teach.engine.site import Site


class VertexFloats:
    """How those of vertex `number` of a site's group behave. `traps`: what stops it, if something
    does."""

    def __init__(self, site: Site, number: int) -> None:
        rounding, watch = site.rounding, site.watch
        self._keys = (
            None if rounding is None or not rounding.chosen[number] else rounding.keys[number]
        )
        self.traps, self._watched = None if watch is None else watch.of(number), watch is not None
        self._stream = np.zeros(2, np.uint64)  # of the worker that runs now
        self._overflows: list[str] = []  # since the last store in a half

    def stored(self, region: Any) -> Any:
        """A field of the vertex, such that stores in it are looked at if it is of HALF."""
        if self._keys is None and self.traps is None:
            return region
        if isinstance(region, list):
            return [self.stored(part) for part in region]
        if region.dtype != np.float16:
            return region
        stored = region.view(StoredHalf)
        stored.stream = None if self._keys is None else self._stream
        stored.overflows = (
            self._overflows if self.traps is not None and self.traps.looks_at_stores else None
        )
        stored.stops = self.traps is not None and (self.traps.oflo or self.traps.stops)
        return stored

    def begin(self, worker: int) -> AbstractContextManager[object]:
        """A worker of the vertex begins: in here numpy raises what stops it."""
        if self._keys is not None:
            self._stream[...] = self._keys[worker], 0
        self._overflows.clear()
        if self.traps is not None:
            return self.traps.watch(self._overflows)
        return np.errstate(all="ignore") if self._watched else nullcontext()
