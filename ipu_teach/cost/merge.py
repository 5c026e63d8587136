"""Copies that do not disturb each other are one superstep: one sync, one exchange.

A run of copies that stand side by side in one Sequence is merged up to the first that reads or writes what one of them
writes, or writes what one of them reads: that one begins a new run. So the order in which a program lists its copies matters,
and values never depend on it. Only copies within one IPU take part; everything else ends a run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np

from ipu_teach.compile import Compiled
from ipu_teach.compile.checks import meet
from ipu_teach.compile.freeze import FrozenGraph
from ipu_teach.compile.programs import CopyStep, MergedStep, Node, Step, moves
from ipu_teach.graph.tensor import Tensor
from ipu_teach.types import Array

Pieces = tuple[Array, Array, Array]  # of several tensors: where the pieces of each begin in the other two, starts, stops


def merged(compiled: Compiled) -> Compiled:
    """The same programs with their copies merged, and the steps that are left, numbered anew."""
    merger = _Merger(compiled.graph, compiled.steps)
    programs = tuple(merger.node(program) for program in compiled.programs)
    return replace(compiled, programs=programs, steps=tuple(merger.kept))


def several(count: int, first: str) -> str:
    """What a step of `count` copies is called, after the first of them."""
    return first if count == 1 else f"{count:,} copies: {first}, …"


class _Merger:
    def __init__(self, graph: FrozenGraph, steps: Sequence[Step]) -> None:
        self.graph, self.steps = graph, steps
        self.kept: list[Step] = []
        self._numbers: dict[tuple[int, ...], int] = {}

    def node(self, node: Node) -> Node:
        if node.step >= 0:
            return replace(node, step=self._number((node.step,)))
        parts = self._parts(node.children) if node.kind == "Sequence" else map(self.node, node.children)
        return replace(node, children=tuple(parts))

    def _number(self, members: tuple[int, ...]) -> int:
        if members not in self._numbers:
            self._numbers[members] = len(self.kept)
            copies = tuple(step for step in map(self.steps.__getitem__, members) if isinstance(step, CopyStep))
            self.kept.append(MergedStep(copies) if len(members) > 1 else self.steps[members[0]])
        return self._numbers[members]

    def _parts(self, children: Sequence[Node]) -> Iterator[Node]:
        """The parts of a Sequence, runs of copies as one."""
        for may, found in groupby(children, self._may_merge):
            if not may:
                yield from map(self.node, found)
                continue
            copies = list(found)
            sides = [moves(self.steps[copy.step])[0] for copy in copies]
            read, written = (_pieces([pair[side] for pair in sides]) for side in (0, 1))
            first = 0
            while first < len(copies):
                count = _apart(read, written, first, len(copies))
                run, first = copies[first : first + count], first + count
                yield self._together(run) if count > 1 else self.node(run[0])

    def _together(self, run: list[Node]) -> Node:
        number = self._number(tuple(copy.step for copy in run))
        return Node("Copy", several(len(run), run[0].name), tuple(replace(copy, step=-1) for copy in run), step=number)

    def _may_merge(self, node: Node) -> bool:
        """True for a copy whose two sides lie on one IPU."""
        if node.step < 0 or not moves(self.steps[node.step]):
            return False
        _, start, stop = _pieces(moves(self.steps[node.step])[0])
        target = self.graph.target
        ipus = self.graph.tile_map.split(start, stop)[3] // target.tiles_per_ipu if target.num_ipus > 1 else start[:0]
        return bool(np.all(ipus == ipus[:1]))


def _pieces(tensors: Sequence[Tensor]) -> Pieces:
    start, stop = zip(*(tensor.byte_extent() for tensor in tensors), strict=True)
    return np.cumsum([0, *map(len, start)]), np.concatenate(start), np.concatenate(stop)


def _apart(read: Pieces, written: Pieces, first: int, end: int) -> int:
    """How many copies, from number `first` on, do not disturb each other: found in strides that grow, then shrink."""

    def fits(count: int) -> bool:
        (r_start, r_stop), (start, stop) = (
            [ends[at[first] : at[first + count]] for ends in both] for at, *both in (read, written)
        )
        order = np.argsort(start, kind="stable")
        start, stop = start[order], stop[order]
        return not np.any(start[1:] < stop[:-1]) and not meet(start, stop, r_start, r_stop)

    count, stride = 1, 1
    while first + count + stride <= end and fits(count + stride):
        count, stride = count + stride, 2 * stride
    while stride := stride // 2:
        if first + count + stride <= end and fits(count + stride):
            count += stride
    return count
