"""The floating-point behaviour of one vertex in a loop: stochastic rounding and traps."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from ipu_teach.engine.fp.stochastic import StoredHalf
from ipu_teach.engine.site import Site


class VertexFloats:
    """Stochastic rounding and traps of one vertex.

    `number` is the vertex's number in the group of `site`. `traps` are the exceptions that stop the
    vertex, or None.
    """

    def __init__(self, site: Site, number: int) -> None:
        rounding = site.rounding
        watch = site.watch
        self._keys = (
            None if rounding is None or not rounding.chosen[number] else rounding.keys[number]
        )
        self.traps = None if watch is None else watch.of(number)
        self._watched = watch is not None
        # The random stream of the running worker: (key, index of the next word).
        self._stream = np.zeros(2, np.uint64)
        # The overflows since the last store to a half.
        self._overflows: list[str] = []

    def stored(self, region: Any) -> Any:
        """Return a region of the vertex; for HALF, it is an array that checks and rounds stores."""
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
        """Prepare the run of a worker, and return the context in which the worker must run.

        In this context, numpy raises the exceptions that stop the vertex.
        """
        if self._keys is not None:
            self._stream[...] = self._keys[worker], 0
        self._overflows.clear()
        if self.traps is not None:
            return self.traps.watch(self._overflows)
        return np.errstate(all="ignore") if self._watched else nullcontext()
