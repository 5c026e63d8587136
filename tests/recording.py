"""Arrays that record which of their elements are read and stored.

With these the judge finds races between the workers of a vertex.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ipu_teach import Vertex
from ipu_teach.errors import ComputeSetRaceError
from ipu_teach.graph import VectorList
from ipu_teach.types import Array


class Record:
    """The elements that each worker touched: the sets of those that it `read` and `stored`."""

    def __init__(self) -> None:
        self.read, self.stored = list[set[int]](), list[set[int]]()
        self._numbered = 0

    def of(self, region: Any) -> Any:
        """Return an array, or a list of arrays, that shares the memory of `region` and records uses."""
        if isinstance(region, list):
            return VectorList([self.of(part) for part in region])
        first, self._numbered = self._numbered, self._numbered + region.size
        return _recorded(region, np.arange(first, self._numbered).reshape(region.shape), self)

    def worker(self, compute: Callable[..., Any], *number: int) -> Any:
        """Return what `compute(*number)` returns; from now on, elements belong to a new worker."""
        self.read.append(set())
        self.stored.append(set())
        with np.errstate(all="ignore"):
            return compute(*number)

    def refuse_races(self, codelet: type[Vertex]) -> None:
        """Check that no worker read or stored an element that another one stored.

        :raises ComputeSetRaceError: if one did.
        """
        touched = [read | stored for read, stored in zip(self.read, self.stored, strict=True)]
        if any(s & t for i, s in enumerate(self.stored) for j, t in enumerate(touched) if i != j):
            raise ComputeSetRaceError(
                f"two workers of {codelet.__name__} meet in an element that one of them stores"
            )


class Recorded(np.ndarray):
    """An array whose uses are recorded. Its views by index are recorded, too.

    Any other array that numpy makes from it counts as a read of all its elements.
    """

    ids: Array
    record: Record

    def _note(self, touched: list[set[int]], ids: Any) -> None:
        touched[-1].update(np.ravel(ids).tolist())

    def __array_finalize__(self, source: Any) -> None:
        if isinstance(source, Recorded) and hasattr(source, "record"):
            source._note(source.record.read, source.ids)

    def __getitem__(self, key: Any) -> Any:
        value = _plain(self)[key]
        ids = self.ids[key]
        if isinstance(value, np.ndarray):
            return _recorded(value, ids, self.record)
        self._note(self.record.read, ids)
        return value

    def __setitem__(self, key: Any, value: Any) -> None:
        _read(value)
        self._note(self.record.stored, self.ids[key])
        _plain(self)[key] = _plain(value)

    def __array_ufunc__(
        self, ufunc: Any, method: str, *inputs: Any, out: tuple[Any, ...] = (), **kwargs: Any
    ) -> Any:
        _read(inputs)
        for into in out:
            if isinstance(into, Recorded):
                into._note(into.record.stored, into.ids)
        if out:
            kwargs["out"] = _plain(out)
        result = getattr(ufunc, method)(*_plain(inputs), **kwargs)
        return out[0] if len(out) == 1 else result

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        _read(args)
        _read(list(kwargs.values()))
        return function(*_plain(args), **{name: _plain(value) for name, value in kwargs.items()})


def _recorded(array: Array, ids: Array, record: Record) -> Recorded:
    """Return the array as one whose elements, with the numbers `ids`, are recorded."""
    view = array.view(Recorded)
    view.ids = ids
    view.record = record
    return view


def _read(value: Any) -> None:
    """Record a read of all elements of the recorded arrays in `value`."""
    if isinstance(value, Recorded):
        value._note(value.record.read, value.ids)
    elif isinstance(value, (list, tuple)):
        for part in value:
            _read(part)


def _plain(value: Any) -> Any:
    """Return `value` with plain arrays in place of recorded ones."""
    if isinstance(value, Recorded):
        return value.view(np.ndarray)
    return type(value)(map(_plain, value)) if type(value) in (list, tuple) else value
