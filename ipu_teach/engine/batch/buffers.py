"""Memory for the values of a chunk of vertices: what one value needs no longer serves the next
one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ipu_teach.compile.trace import Op, Ref, Trace, layout_independent
from ipu_teach.types import Array


def by_stride(strides: Iterable[int]) -> list[int]:
    """The axes, those with the longest strides first."""
    steps = list(strides)
    return sorted(range(len(steps)), key=lambda axis: -steps[axis])


class Buffers:
    """Buffers for values of at most `most` vertices. `side_by_side`: one element of all vertices
    after the other."""

    def __init__(self, xp: Any, trace: Trace, last: dict[int, int], side_by_side: bool) -> None:
        self._xp, self._trace, self._last, self._side_by_side = xp, trace, last, side_by_side
        self.most = 1
        self.pool: dict[Any, list[Array]] = defaultdict(list)
        self._held: dict[int, tuple[Any, Array]] = {}
        self._released: dict[int, list[int]] = defaultdict(list)
        for root, number in last.items():
            self._released[number].append(root)
        # from one element of a value to the next, where vertices lie between
        self.spread: dict[int, int] = {}

    def take(self, value: int, lead: tuple[int, ...], order: list[int]) -> Array:
        """A buffer for one value of every vertex, with the axes in the order in which the sample
        has them in memory.

        `order`: another order of all axes, for values that have as many.
        """
        sample = np.asarray(self._trace.samples[value])
        inner = by_stride(sample.strides)
        shape = tuple(sample.shape[a] for a in inner)
        size = (
            1 << (sample.size - 1).bit_length() if self.most == 1 and sample.size else sample.size
        )
        # one vertex's values, of all lengths, share those of a power of two
        key = (sample.dtype, size)
        free = self.pool[key]
        whole = free.pop() if free else self._xp.empty(self.most * size, sample.dtype)
        self._held[value] = (key, whole)
        axes, count = len(lead), int(np.prod(lead, dtype=np.int64))
        used, inverse = whole[: count * sample.size], _undone(inner)
        if len(order) == axes + sample.ndim:
            all_axes = (*lead, *sample.shape)
            buffer, turned = used.reshape([all_axes[a] for a in order]), _undone(order)
        elif self._side_by_side:
            self.spread[value] = count
            buffer = used.reshape(*shape, *lead)
            turned = [*range(sample.ndim, sample.ndim + axes), *inverse]
        else:
            buffer = used.reshape(*lead, *shape)
            turned = [*range(axes), *(axes + i for i in inverse)]
        view: Array = buffer.transpose(turned)
        return view

    def hand_over(
        self,
        number: int,
        op: Op,
        values: dict[int, Array],
        lead: tuple[int, ...],
        down: Mapping[int, int],
    ) -> None:
        """Give back the buffer of an operand that dies here: element by element, the result may
        take its place. `down`: values in an order of their own; see `GroupPlacement`."""
        sample = np.asarray(self._trace.samples[op.result])
        if op.kind != "ufunc" or not layout_independent(op.fn, sample.dtype):
            return
        for root in {
            a.id for a in op.args if isinstance(a, Ref)
        } & self._held.keys() - self._trace.regions.keys():
            own = np.asarray(self._trace.samples[root])
            alike = (
                own.shape == sample.shape
                and own.strides == sample.strides
                and own.dtype == sample.dtype
                and down.get(root) == down.get(op.result)
            )
            if alike and self._last[root] == number and values[root].shape[: len(lead)] == lead:
                self._give_back(root)
                return

    def release(self, number: int) -> None:
        """Give back the buffers of which op `number` was the last use; those of regions stay until
        the end."""
        for root in self._released.get(number, ()):
            if root in self._held and root not in self._trace.regions:
                self._give_back(root)

    def release_all(self) -> None:
        """The chunk is over."""
        for root in list(self._held):
            self._give_back(root)
        self.spread.clear()

    def _give_back(self, root: int) -> None:
        key, buffer = self._held.pop(root)
        self.pool[key].append(buffer)


def _undone(order: list[int]) -> list[int]:
    """What leads from an order of axes back to their own."""
    return sorted(range(len(order)), key=order.__getitem__)
