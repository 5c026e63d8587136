"""Arrays that write down which of their elements are read and stored: how the judge knows what
workers of a vertex touch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ipu_teach import Vertex
from ipu_teach.errors import ComputeSetRaceError
from ipu_teach.graph import VectorList
from ipu_teach.types import Array


class Record:
    """Who touched what: for each worker the numbers of the elements that it `read` and `stored`."""

    def __init__(self) -> None:
        self.read, self.stored = list[set[int]](), list[set[int]]()
        self._numbered = 0

    def of(self, region: Any) -> Any:
        """The same memory, recorded."""
        if isinstance(region, list):
            return VectorList([self.of(part) for part in region])
        first, self._numbered = self._numbered, self._numbered + region.size
        return _recorded(region, np.arange(first, self._numbered).reshape(region.shape), self)

    def worker(self, compute: Callable[..., Any], *number: int) -> Any:
        """What a worker's `compute(*number)` returns."""
        self.read.append(set())
        self.stored.append(set())
        with np.errstate(all="ignore"):
            return compute(*number)

    def refuse_races(self, codelet: type[Vertex]) -> None:
        """Raise `ComputeSetRaceError` if an element that one worker stored was read or stored by
        another one."""
        touched = [read | stored for read, stored in zip(self.read, self.stored, strict=True)]
        if any(s & t for i, s in enumerate(self.stored) for j, t in enumerate(touched) if i != j):
            raise ComputeSetRaceError(
                f"two workers of {codelet.__name__} meet in an element that one of them stores"
            )


class Recorded(np.ndarray):
    """What indexing gives is recorded too. What else is made of it has read all of it."""

    ids: Array
    record: Record

    def _note(self, touched: list[set[int]], ids: Any) -> None:
        touched[-1].update(np.ravel(ids).tolist())

    def __array_finalize__(self, made_of: Any) -> None:
        if isinstance(made_of, Recorded) and hasattr(made_of, "record"):
            made_of._note(made_of.record.read, made_of.ids)

    def __getitem__(self, key: Any) -> Any:
        found, ids = _plain(self)[key], self.ids[key]
        if isinstance(found, np.ndarray):
            return _recorded(found, ids, self.record)
        self._note(self.record.read, ids)
        return found

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
    made = array.view(Recorded)
    made.ids, made.record = ids, record
    return made


def _read(value: Any) -> None:
    """All of what is recorded in `value` is read."""
    if isinstance(value, Recorded):
        value._note(value.record.read, value.ids)
    elif isinstance(value, (list, tuple)):
        for part in value:
            _read(part)


def _plain(value: Any) -> Any:
    """The same without records."""
    if isinstance(value, Recorded):
        return value.view(np.ndarray)
    return type(value)(map(_plain, value)) if type(value) in (list, tuple) else value
