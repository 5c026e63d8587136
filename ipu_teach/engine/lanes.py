"""Run a codelet in masked lanes: its branches and loops for all vertices at once, each vertex in a lane of its own.

Where lanes go different ways, those that do not go there wait: a mask says which are at work, and what is assigned reaches
only those. When half of a loop's lanes have left it, the others go on by themselves in shorter arrays. Every field lies with
the vertices side by side, so that one element of all lanes is one row. Fields are copied in before and out after; where the
lanes must stop (see `lane_values`), nothing has been written, and the plain loop takes over.

Cycles are counted as they are in a trace, per lane: one for each load, store, branch and operation on single elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ipu_teach.engine.chance import Chance
from ipu_teach.engine.floating import alarm, doubtful
from ipu_teach.engine.lane_values import (
    LaneStop,
    Mixed,
    Weak,
    calculate,
    choose,
    is_lanes,
    is_number,
    spread,
    take,
    to_place,
    widened,
)
from ipu_teach.types import Array

Weigh = Callable[[str, Any], float]

LEAST_LANES = 64  # fewer go on as they are, waiting lanes included


class Field:
    """A field, or a local array, of every vertex: `data` has the vertex's own axes first and all vertices last."""

    def __init__(
        self, lanes: Lanes, data: Array, readable: bool = True, writable: bool = True, sized: bool = True, rounds: bool = False
    ) -> None:
        self.lanes, self.data, self.readable, self.writable, self.sized = lanes, data, readable, writable, sized
        self.rounds = rounds  # what is stored here is rounded by chance

    @property
    def shape(self) -> tuple[int, ...]:
        return self.data.shape[:-1]

    @property
    def ndim(self) -> int:
        return self.data.ndim - 1

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def dtype(self) -> Any:
        return self.data.dtype

    def __len__(self) -> int:
        if not self.sized:
            raise LaneStop("the length of a ONE_PTR field")
        return int(self.data.shape[0])

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __reversed__(self) -> Iterator[Any]:
        return (self[i] for i in reversed(range(len(self))))

    def __getitem__(self, key: Any) -> Any:
        lanes, keys = self.lanes, key if isinstance(key, tuple) else (key,)
        if any(is_lanes(k) for k in keys):
            return self._spend(self.data[self._places(keys)])
        row = self._row(keys)
        if row.ndim > 1:
            return Field(lanes, row, self.readable, self.writable, rounds=self.rounds)
        if lanes.ids is not None:
            return self._spend(row[lanes.ids])
        return self._spend(row.copy() if self.writable else row)

    def __setitem__(self, key: Any, value: Any) -> None:
        lanes, keys = self.lanes, key if isinstance(key, tuple) else (key,)
        lanes.pending += 1
        if not self.writable:
            raise LaneStop("a write to an Input")
        placed = to_place(value, self.dtype, lanes.mask)
        if self.rounds:
            placed = lanes.rounded(value, placed)
        if any(is_lanes(k) for k in keys):
            places = self._places(keys)
            if lanes.mask is not None:
                places = tuple(p[lanes.mask] if isinstance(p, np.ndarray) else p for p in places)
                placed = placed[lanes.mask] if placed.ndim else placed
            self.data[places] = placed
            return
        row = self._row(keys)
        if row.ndim > 1:
            raise LaneStop("a whole row is assigned")
        if lanes.ids is None:
            np.copyto(row, placed, where=True if lanes.mask is None else lanes.mask)
        elif lanes.mask is None:
            row[lanes.ids] = placed
        else:
            row[lanes.ids[lanes.mask]] = placed[lanes.mask] if placed.ndim else placed

    def _spend(self, values: Array) -> Array:
        self.lanes.pending += 1
        if not self.readable:
            raise LaneStop("an Output is read")
        return values

    def _row(self, keys: tuple[Any, ...]) -> Array:
        if len(keys) > self.ndim or any(isinstance(k, bool) or not isinstance(k, (int, np.integer)) for k in keys):
            raise LaneStop("an index that is no whole number")
        try:
            row: Array = self.data[keys]
        except IndexError as error:
            raise LaneStop(str(error)) from None
        return row

    def _places(self, keys: tuple[Any, ...]) -> tuple[Any, ...]:
        """An index that differs from lane to lane, for the lanes at work within its bounds; for the others anything."""
        if len(keys) != self.ndim:
            raise LaneStop("a row that differs from vertex to vertex")
        places: list[Any] = []
        for key, length in zip(keys, self.shape, strict=True):
            index = key.array if isinstance(key, Weak) else key
            dtype = getattr(index, "dtype", np.dtype(int) if isinstance(index, int) else np.dtype(float))
            if isinstance(key, Mixed) or dtype.kind not in "iu":
                raise LaneStop("an index that is no whole number")
            bad = (index < -length) | (index >= length)
            if np.any(bad if self.lanes.mask is None else bad & self.lanes.mask):
                raise LaneStop("an index beyond the end")
            index = np.where(bad, 0, index) if np.ndim(index) else index
            places.append(np.where(index < 0, index + length, index) if np.ndim(index) else index)
        everyone = np.arange(self.data.shape[-1]) if self.lanes.ids is None else self.lanes.ids
        return (*places, everyone)


class Lanes:
    """The state of a run: which lanes there are, which of them are at work, and what their local variables hold.

    `ids`: for each lane its vertex, None if they are all there. `mask`: the lanes at work, None for all, `GONE` for none.
    """

    def __init__(self, count: int, weigh: Weigh, chance: Chance | None = None, watched: bool = False) -> None:
        self.home, self.weigh, self.chance, self.watched = count, weigh, chance, watched
        self.drawn = np.zeros(count, np.int64)  # words that each vertex has taken to round by chance
        self.ids: Array | None = None
        self.width = count
        self.mask: Any = None
        self.values: dict[str, Any] = {}
        self.missing: dict[str, Array] = {}
        self.fields: dict[str, Any] = {}
        self.pending = 0.0  # cycles of the lanes at work that are not booked yet
        self.cycles = np.zeros(count, np.float64)
        self.spent = self.cycles  # of every vertex
        self.returned: Array | None = None
        self.continued: list[Any] = []

    # Cycles

    def book(self) -> None:
        """Book what was spent since the lanes at work last changed."""
        if self.pending and self.mask is not GONE:
            if self.mask is None:
                self.cycles += self.pending
            else:
                self.cycles += self.mask * self.pending
        self.pending = 0.0

    # Rounding by chance

    def rounded(self, value: Any, placed: Any) -> Any:
        """`value` as halves; `placed` is the same rounded to nearest, as what is Python's own stays."""
        wide = value.strong if isinstance(value, Mixed) else value
        if self.chance is None or isinstance(wide, Weak) or not isinstance(wide, (np.ndarray, np.floating)):
            return placed
        if wide.dtype.kind != "f" or wide.dtype.itemsize <= 2:
            return placed
        everyone = np.arange(self.home) if self.ids is None else self.ids
        own = np.broadcast_to(value.tag, len(everyone)) if isinstance(value, Mixed) else np.zeros(len(everyone), bool)
        lanes = np.flatnonzero(~own if self.mask is None else ~own & self.mask)
        result = np.array(np.broadcast_to(placed, len(everyone)))
        vertices = everyone[lanes]
        result[lanes] = self.chance.rounded(np.broadcast_to(wide, len(everyone))[lanes], vertices, 0, self.drawn[vertices])
        self.drawn[vertices] += 1
        return result

    # Local variables

    def assign(self, name: str, value: Any, plain: bool) -> None:
        """Give a local variable a value in the lanes at work. `plain`: no other lane will look."""
        if isinstance(value, (tuple, list, dict)) or not (is_lanes(value) or is_number(value) or isinstance(value, Field)):
            raise LaneStop(f"a {type(value).__name__} in a variable")
        mask = self.mask
        if mask is None or plain:
            self.values[name] = value
            self.missing.pop(name, None)
            return
        if name not in self.values:
            self.values[name] = value
            self.missing[name] = ~mask
            return
        old = self.values[name]
        if isinstance(value, Field) or isinstance(old, Field):
            if value is not old:
                raise LaneStop("an array that differs from vertex to vertex")
            return
        self.values[name] = choose(mask, value, old)
        if name in self.missing:
            self.missing[name] = self.missing[name] & ~mask

    def read(self, name: str) -> Any:
        """A local variable. What a lane at work has not assigned is for the plain loop to complain of."""
        if name not in self.values:
            raise LaneStop(f"{name} is not assigned")
        if name in self.missing:
            unset = self.missing[name]
            if np.any(unset if self.mask is None else unset & self.mask):
                raise LaneStop(f"{name} is not assigned")
        return self.values[name]

    def part_ways(self, names: frozenset[str]) -> None:
        """From here on these variables may differ from lane to lane. What counts in one lane does not depend on the others."""
        for name in names & self.values.keys():
            if is_number(self.values[name]):
                self.values[name] = spread(self.values[name], self.width)

    # Masks

    def narrowed(self, condition: Any) -> Any:
        """The mask of those lanes at work in which `condition` (True, False or an array) holds."""
        if not isinstance(condition, np.ndarray):
            return self.mask if condition else GONE
        mask = condition if self.mask is None else condition & self.mask
        count = np.count_nonzero(mask)
        return GONE if count == 0 else None if count == self.width else mask

    def compute(self, ufunc: Any, *args: Any) -> Any:
        """An operation on single elements, of which at least one is lanes."""
        result = calculate(ufunc, args, self.mask)
        if self.watched and doubtful(ufunc):
            alarm(result.array if isinstance(result, Weak) else getattr(result, "strong", result))
        dtype = result.array.dtype if isinstance(result, Weak) else getattr(result, "strong", result).dtype
        self.pending += self.weigh(ufunc.__name__, dtype)
        return result


class _Gone:
    """The mask of nobody."""


GONE = _Gone()


def united(a: Any, b: Any) -> Any:
    """The lanes of two masks, neither of which is everybody."""
    return b if a is GONE else a if b is GONE else None if a is None or b is None else a | b


class Loop:
    """A loop that lanes leave one by one: when half of them are gone, it goes on with the others alone."""

    def __init__(self, lanes: Lanes, assigned: frozenset[str]) -> None:
        self.lanes, self.assigned = lanes, assigned
        self.mask, self.ids, self.width, self.cycles = lanes.mask, lanes.ids, lanes.width, lanes.cycles
        self.values, self.missing = lanes.values, lanes.missing
        self.where: Array | None = None  # the lanes that are left, among those at the start

    def compact(self) -> None:
        """Let the lanes at work go on alone if they are half of all lanes or less."""
        lanes = self.lanes
        mask = lanes.mask
        if mask is None or mask is GONE or lanes.width < LEAST_LANES or 2 * np.count_nonzero(mask) > lanes.width:
            return
        left = np.flatnonzero(mask)
        self._keep()
        if self.where is None:
            self.values, self.missing = dict(lanes.values), dict(lanes.missing)
        lanes.values = {name: take(value, left) for name, value in lanes.values.items()}
        lanes.missing = {name: unset[left] for name, unset in lanes.missing.items()}
        self.where = left if self.where is None else self.where[left]
        lanes.ids = left if lanes.ids is None else lanes.ids[left]
        lanes.width, lanes.mask, lanes.cycles = len(left), None, np.zeros(len(left), np.float64)

    def leave(self) -> None:
        """The loop is over: bring all of its lanes together again."""
        lanes = self.lanes
        lanes.book()
        self._keep()
        if self.where is not None:
            lanes.ids, lanes.width, lanes.cycles = self.ids, self.width, self.cycles
            lanes.values, lanes.missing = self.values, self.missing
        lanes.mask = self.mask
        if lanes.returned is not None:
            here = lanes.returned if lanes.ids is None else lanes.returned[lanes.ids]
            lanes.mask = lanes.narrowed(~here)

    def _keep(self) -> None:
        """Bring what the lanes hold now to those that wait outside."""
        lanes, where = self.lanes, self.where
        if where is None:
            return
        self.cycles[where] += lanes.cycles
        inside = np.zeros(self.width, bool)
        inside[where] = True
        for name in self.assigned & lanes.values.keys():
            value = widened(lanes.values[name], where, self.width)
            unset = np.zeros(self.width, bool)
            if name in lanes.missing:
                unset[where] = lanes.missing[name]
            if name in self.values:
                old = self.values[name]
                same = isinstance(value, Field) or isinstance(old, Field)
                if same and value is not old:
                    raise LaneStop("an array that differs from vertex to vertex")
                self.values[name] = old if same else choose(inside, value, old)
                unset |= self.missing.get(name, False) & ~inside
            else:
                self.values[name] = value
                unset |= ~inside
            self.missing[name] = unset
            if not unset.any():
                del self.missing[name]
