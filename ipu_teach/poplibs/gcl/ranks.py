"""The ranks of a collective, which are the IPUs of a replica or replicas, and their operations.

Each rank has a row: the elements that it contributes, in one dimension.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

from ipu_teach.cost.links import ring_order
from ipu_teach.graph import Graph, Tensor, concat
from ipu_teach.graph.layouts import is_whole
from ipu_teach.poplibs import popops
from ipu_teach.poplibs.gcl.groups import STEPS, CollectiveOperator, CommGroup, operator_of
from ipu_teach.poplibs.gcl.ring import METHOD, choose, gather, scatter, side_by_side
from ipu_teach.poplibs.laying import linear
from ipu_teach.poplibs.library import (
    as_given,
    check_mapped,
    check_same,
    check_tensor,
    refused,
)
from ipu_teach.poplibs.options import Options, settled
from ipu_teach.poplibs.poputil import like, take, tile_pieces
from ipu_teach.program import Sequence as Program

__all__: list[str] = []
# the form of arguments and results: a list of tensors, or a tensor of a replicated graph
V = TypeVar("V")


class Ranks(ABC, Generic[V]):
    """The ranks of independent groups, and the collectives on them.

    `values` are the data: one value, or several if `several`. `ipus` are the first IPU of each
    rank, and `each` is the number of IPUs of a rank.
    """

    def __init__(
        self,
        top: Graph,
        values: Sequence[V],
        *,
        several: bool,
        ipus: Sequence[int],
        each: int,
        group: CommGroup,
        name: str,
        options: Options | None,
    ) -> None:
        self.name = name
        self.method: str = settled(METHOD, options)["method"]
        self.top = top
        self.values = values
        self.several = several
        self.each = each
        self.groups = group.of(len(ipus))
        self.size = len(self.groups[0])
        along = (sorted(members, key=ipus.__getitem__) for members in self.groups)
        self.rings = [[ring[i] for i in ring_order(self.size)] for ring in along]

    @abstractmethod
    def rows(self, value: V) -> list[Tensor]:
        """Return the row of each rank."""

    @abstractmethod
    def like(self, value: V) -> V:
        """Return new tensors like `value`, with the same tile mapping."""

    @abstractmethod
    def linear(self, value: V, count: int) -> V:
        """Return new tensors of `count` elements, mapped linearly to all tiles of each rank."""

    @abstractmethod
    def stacked(self, values: list[V]) -> V:
        """Return the values as one, with a new first dimension."""

    def one(self) -> V:
        """Return the only value. Raises `PoplibsError` if there are several."""
        if self.several:
            raise as_given(self.values, "data", "give one tensor; all_reduce takes several.")
        return self.values[0]

    def all_reduce(
        self, op: CollectiveOperator | str, prog: Program, in_place: bool = False
    ) -> V | Sequence[V]:
        """Return the combined values, for each rank of a group.

        A chunk contains a share of each tile's elements, so that all tiles send at once.
        """
        values = self.values
        rows = self._joined(values)
        collective = operator_of(op, rows[0].dtype)
        results = values if in_place else [self.like(value) for value in values]
        out = rows if in_place else self._joined(results)
        if self.size > 1 and rows[0].num_elements:
            shares = _shares(self.top, rows[0], self.size)
            local_shares, output_shares = (
                self._by_home(partial(_share, tensors, shares)) for tensors in (rows, out)
            )
            scattered = self._combined(local_shares, collective, rows[0], prog, in_place=in_place)
            gather(
                scattered,
                output_shares,
                prog,
                self.rings,
                method=self._method(scattered[0], True),
                in_place=in_place,
            )
        elif not in_place:
            side_by_side(list(zip(rows, out, strict=True)), prog)
        return results if self.several else results[0]

    def all_reduce_in_place(self, op: CollectiveOperator | str, prog: Program) -> None:
        """Combine the values as `all_reduce` does, in place."""
        self.all_reduce(op, prog, True)

    def reduce_scatter(self, op: CollectiveOperator | str, prog: Program) -> V:
        """Return, for each rank, its share of the combined values, padded with zeros."""
        rows = self.rows(value := self.one())
        collective = operator_of(op, rows[0].dtype)
        n = rows[0].num_elements
        m = -(-rows[0].num_elements // self.size)
        result = self.linear(value, m)

        def share(rank: int, i: int) -> Tensor:
            return rows[rank][min(n, i * m) : min(n, i * m + m)]

        scattered = self._combined(self._by_home(share), collective, rows[0], prog)
        to = self.rows(result)
        ends = [chunk.num_elements for chunk in scattered]
        side_by_side([(chunk, to[r][: ends[r]]) for r, chunk in enumerate(scattered)], prog)
        if min(ends) < m:
            padding = concat([to[r][end:] for r, end in enumerate(ends)])
            popops.zero(self.top, padding, prog, f"{self.name}/padding")
        return result

    def all_gather(self, prog: Program) -> V:
        """Return, for each rank, the values of all ranks of its group, stacked."""
        rows = self.rows(value := self.one())
        results = [self.like(value) for _ in range(self.size)]
        to = [self.rows(result) for result in results]
        by_home = self._by_home(lambda r, i: to[i][r])
        gather(rows, by_home, prog, self.rings, method=self._method(rows[0], True))
        return self.stacked(results)

    def all_to_all(self, prog: Program) -> V:
        """Return, for each rank j of a group, part j of every rank i as its part i.

        Raises `PoplibsError` if the elements cannot be divided into equal parts.
        """
        rows = self.rows(value := self.one())
        m, over = divmod(rows[0].num_elements, self.size)
        if over:
            raise refused(f"""was given {rows[0].num_elements:,} elements for {self.size} parts.
                next:  pad them to a multiple of {self.size}; member i gets part i.""")
        to = self.rows(result := self.like(value))
        side_by_side(
            [
                (rows[source][j * m : j * m + m], to[end][i * m : i * m + m])
                for group in self.groups
                for i, source in enumerate(group)
                for j, end in enumerate(group)
            ],
            prog,
        )
        return result

    def broadcast(self, root: int, prog: Program) -> V:
        """Return, for each rank, the value of rank number `root` of its group.

        Raises `PoplibsError` if there is no such rank.
        """
        if not is_whole(root) or not 0 <= root < self.size:
            raise as_given(root, "root_replica", f"a group has {self.size}, from 0.")
        rows = self.rows(value := self.one())
        to = self.rows(result := self.like(value))
        side_by_side(
            [(rows[group[root]], to[rank]) for group in self.groups for rank in group], prog
        )
        return result

    def _joined(self, values: Sequence[V]) -> list[Tensor]:
        """Return the rows of several values, concatenated for each rank."""
        return [concat(list(same_rows)) for same_rows in zip(*map(self.rows, values), strict=True)]

    def _combined(
        self,
        chunks: list[dict[int, Tensor]],
        op: CollectiveOperator,
        row: Tensor,
        prog: Program,
        in_place: bool = False,
    ) -> list[Tensor]:
        """Return, for each rank, the chunk whose home it is, combined over its group."""
        method = self._method(row)
        name = self.name
        scattered = scatter(
            self.top,
            chunks,
            STEPS[op],
            prog,
            rings=self.rings,
            method=method,
            name=name,
            in_place=in_place,
        )
        if op is CollectiveOperator.MEAN and self.size > 1 and row.num_elements:
            popops.mul_in_place(
                self.top, concat(scattered), 1 / self.size, prog, debug_context=f"{name}/mean"
            )
        return scattered

    def _method(self, row: Tensor, gathers: bool = False) -> str:
        return choose(
            self.method, self.size, row.num_elements * row.dtype.size, self.each, gather=gathers
        )

    def _by_home(self, chunk: Callable[[int, int], Tensor]) -> list[dict[int, Tensor]]:
        """Return, for each rank, its chunks by home: `chunk(rank, number of the home)`."""
        of = sorted((r, group) for group in self.groups for r in group)
        return [{home: chunk(r, i) for i, home in enumerate(group)} for r, group in of]


class Ipus(Ranks[Sequence[Tensor]]):
    """The IPUs of a replica, in the order of a list with a tensor on each."""

    # The argument is checked here, so it may be anything.
    def __init__(
        self, graph: Graph, data: Any, group: CommGroup, *, name: str, options: Options | None
    ) -> None:
        several = bool(isinstance(data, (list, tuple)) and data) and not isinstance(data[0], Tensor)
        values = data if several else [data]
        ipus: list[int] = []
        for tensors in values:
            ipus = _ipu_of_each(graph, tensors, ipus)
        top = values[0][0].graph
        super().__init__(
            top,
            values,
            several=several,
            ipus=ipus,
            each=1,
            group=group,
            name=name,
            options=options,
        )
        n = top.target.tiles_per_ipu
        self.parts = [top.create_virtual_graph(ipu * n, ipu * n + n) for ipu in ipus]

    def rows(self, value: Sequence[Tensor]) -> list[Tensor]:
        return [tensor.flatten() for tensor in value]

    def like(self, value: Sequence[Tensor]) -> Sequence[Tensor]:
        return [like(self.top, tensor, f"{self.name}/out") for tensor in value]

    def linear(self, value: Sequence[Tensor], count: int) -> Sequence[Tensor]:
        return [linear(part, value[0].dtype, (count,), f"{self.name}/out") for part in self.parts]

    def stacked(self, values: list[Sequence[Tensor]]) -> Sequence[Tensor]:
        by_ipu = zip(*values, strict=True)
        return [concat([tensor.expand([0]) for tensor in tensors]) for tensors in by_ipu]


class Replicas(Ranks[Tensor]):
    """The replicas of a graph. A tensor has a row for each in the top-level graph."""

    # The argument is checked here, so it may be anything.
    def __init__(
        self, graph: Graph, data: Any, group: CommGroup, *, name: str, options: Options | None
    ) -> None:
        several = isinstance(data, (list, tuple))
        tensors = data if several else [data]
        if not tensors:
            raise as_given(data, "data", "give a tensor, or a list of tensors.")
        for tensor in tensors:
            check_tensor(graph, "data", tensor)
            check_mapped(graph, "data", tensor)
            _check_alike("dtypes", tensors[0].dtype.__name__, tensor.dtype.__name__, tensor)
        self.graph = graph
        num_ipus = tensors[0].graph.target.num_ipus
        ipus = range(0, num_ipus * graph.get_replication_factor(), num_ipus)
        super().__init__(
            graph.get_top_level_graph(),
            tensors,
            several=several,
            ipus=ipus,
            each=num_ipus,
            group=group,
            name=name,
            options=options,
        )

    def rows(self, value: Tensor) -> list[Tensor]:
        all_replicas = self.top.get_non_replicated_tensor(value)
        return [all_replicas[i].flatten() for i in range(all_replicas.shape[0])]

    def like(self, value: Tensor) -> Tensor:
        return like(value.graph, value, f"{self.name}/out")

    def linear(self, value: Tensor, count: int) -> Tensor:
        return linear(self.graph, value.dtype, (count,), f"{self.name}/out")

    def stacked(self, values: list[Tensor]) -> Tensor:
        return concat([value.expand([0]) for value in values])


def _ipu_of_each(graph: Graph, tensors: Sequence[Tensor], previous: list[int]) -> list[int]:
    """Return the IPU of each tensor in a list.

    `previous` are the IPUs of the list before, which must be the same; it is empty for the first
    list. Raises `PoplibsError`.
    """
    if not isinstance(tensors, (list, tuple)) or not tensors:
        raise as_given(tensors, "data", "give a list of tensors, one on each IPU.")
    at: list[int] = []
    for i, tensor in enumerate(tensors):
        check_tensor(graph, f"data[{i}]", tensor)
        check_mapped(tensor.graph, f"data[{i}]", tensor)
        _check_alike("dtypes", tensors[0].dtype.__name__, tensor.dtype.__name__, tensor)
        _check_alike("lengths", tensors[0].num_elements, tensor.num_elements, tensor)
        n = tensor.graph.target.tiles_per_ipu
        ipus = sorted({tile // n for tile, _ in tile_pieces(tensor.graph, tensor)}) or [i]
        if len(ipus) > 1 or ipus[0] in at:
            where = f"IPU {ipus[0]}, which already has one"
            if len(ipus) > 1:
                where = f"IPUs {ipus[0]} and {ipus[1]}"
            raise refused(
                f"was given data[{i}] on {where}.",
                tensor,
                "give one tensor on each IPU.",
            )
        at += ipus
    if previous and at != previous:
        raise refused(
            f"was given lists on the IPUs {previous} and {at}.",
            next_step="give the tensors of both lists in the same order of IPUs.",
        )
    return at


def _check_alike(subject: str, first: str | int, second: str | int, tensor: Tensor) -> None:
    check_same(
        subject, first, second, repr(tensor), advice="popops.cast and popops.pad make them alike."
    )


def _share(rows: list[Tensor], shares: list[list[tuple[int, int]]], r: int, i: int) -> Tensor:
    return take(rows[r], shares[i]) if shares[i] else rows[r][:0]


def _shares(graph: Graph, row: Tensor, count: int) -> list[list[tuple[int, int]]]:
    """Return, for each chunk, its intervals of a row: a share of the elements on each tile.

    A remainder goes to a different chunk on the next tile.
    """
    shares: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    pieces = [piece for _, pieces_of_tile in tile_pieces(graph, row) for piece in pieces_of_tile]
    for turn, (begin, end) in enumerate(pieces):
        for i in range(count):
            low, high = (begin + (end - begin) * cut // count for cut in (i, i + 1))
            if low < high:
                shares[(i + turn) % count].append((low, high))
    return shares
