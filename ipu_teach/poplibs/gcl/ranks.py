"""The ranks of a collective, and the work of each: the IPUs of a replica, or replicas.

Each rank has a row: the elements that it contributes, in one dimension.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ipu_teach.cost.links import ring_order
from ipu_teach.graph import Graph, Tensor, concat
from ipu_teach.graph.layouts import is_whole
from ipu_teach.poplibs import popops
from ipu_teach.poplibs.gcl.groups import STEPS, CollectiveOperator, operator_of
from ipu_teach.poplibs.gcl.ring import METHOD, choose, gather, scatter, side_by_side
from ipu_teach.poplibs.laying import linear
from ipu_teach.poplibs.library import (
    as_given,
    check_mapped,
    check_same,
    check_tensor,
    refused,
)
from ipu_teach.poplibs.options import settled
from ipu_teach.poplibs.poputil import like, take, tile_pieces
from ipu_teach.program import Sequence as Program

__all__: list[str] = []
Value = Any  # arguments and results: a list of tensors, or a tensor of a replicated graph


class Ranks(ABC):
    """Ranks in independent `groups`. `given` is the tensor that they work on, or several, `ipus`
    the first IPU of each rank, and `each` the number of IPUs of a rank."""

    def __init__(
        self, top: Graph, given: object, several: bool, ipus: Sequence[int], each: int, *how: Any
    ) -> None:
        group, self.name, options = how
        self.method: str = settled(METHOD, options)["method"]
        self.top = top
        self.given = given
        self.several = several
        self.each = each
        self.groups = group.of(len(ipus))
        self.size = len(self.groups[0])
        along = (sorted(members, key=ipus.__getitem__) for members in self.groups)
        self.rings = [[ring[i] for i in ring_order(self.size)] for ring in along]

    @abstractmethod
    def rows(self, value: Value) -> list[Tensor]:
        """Return the row of each rank."""

    @abstractmethod
    def like(self, value: Value) -> Value:
        """Return the new tensors, each element on the tile of its original."""

    @abstractmethod
    def linear(self, value: Value, count: int) -> Value:
        """Return the new tensors of `count` elements, over all tiles of each rank."""

    @abstractmethod
    def stacked(self, values: list[Value]) -> Value:
        """Return the several as one, with another dimension in front."""

    def one(self) -> Value:
        """Return what is given, where it may not be several. Raises `PoplibsError`."""
        if self.several:
            raise as_given(self.given, "data", "give one tensor; all_reduce takes several.")
        return self.given

    # --- what they do -----------------------------------------------------------------------------

    def all_reduce(self, op: object, prog: Program, in_place: bool = False) -> Value:
        """Return what all have, combined, for each of them. A chunk has a share of each tile's
        elements, so that all tiles send at once."""
        values: Any = self.given if self.several else [self.given]
        rows = self._joined(values)
        collective = operator_of(op, rows[0].dtype)
        results = values if in_place else [self.like(value) for value in values]
        out = rows if in_place else self._joined(results)
        if self.size > 1 and rows[0].num_elements:
            shares = _shares(self.top, rows[0], self.size)
            local_shares, output_shares = (
                self._by_home(partial(_share, tensors, shares)) for tensors in (rows, out)
            )
            scattered = self._combined(local_shares, collective, rows[0], prog, in_place)
            gather(
                scattered,
                output_shares,
                prog,
                self.rings,
                self._method(scattered[0], True),
                in_place,
            )
        elif not in_place:
            side_by_side(list(zip(rows, out, strict=True)), prog)
        return results if self.several else results[0]

    def all_reduce_in_place(self, op: object, prog: Program) -> None:
        """As `all_reduce`, into what is given."""
        self.all_reduce(op, prog, True)

    def reduce_scatter(self, op: object, prog: Program) -> Value:
        """To each its share, combined, with zeros behind the end."""
        rows = self.rows(value := self.one())
        collective = operator_of(op, rows[0].dtype)
        n = rows[0].num_elements
        m = -(-rows[0].num_elements // self.size)
        result = self.linear(value, m)
        chunks = self._by_home(lambda r, i: rows[r][min(n, i * m) : min(n, i * m + m)])
        scattered = self._combined(chunks, collective, rows[0], prog)
        to = self.rows(result)
        ends = [chunk.num_elements for chunk in scattered]
        side_by_side([(chunk, to[r][: ends[r]]) for r, chunk in enumerate(scattered)], prog)
        if min(ends) < m:
            padding = concat([to[r][end:] for r, end in enumerate(ends)])
            popops.zero(self.top, padding, prog, f"{self.name}/padding")
        return result

    def all_gather(self, prog: Program) -> Value:
        """Return what all of a group have, to each of it."""
        rows = self.rows(value := self.one())
        results = [self.like(value) for _ in range(self.size)]
        to = [self.rows(result) for result in results]
        by_home = self._by_home(lambda r, i: to[i][r])
        gather(rows, by_home, prog, self.rings, self._method(rows[0], True))
        return self.stacked(results)

    def all_to_all(self, prog: Program) -> Value:
        """Return the part j of the rank i of a group becomes part i of its rank j. Raises
        `PoplibsError`."""
        rows = self.rows(value := self.one())
        m, over = divmod(rows[0].num_elements, self.size)
        if over:
            raise refused(f"""was given {rows[0].num_elements:,} elements for {self.size} parts.
                next:  pad them to a multiple of {self.size}; part i goes to number i.""")
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

    def broadcast(self, root: object, prog: Program) -> Value:
        """Return what number `root` of a group has, to each of it. Raises `PoplibsError`."""
        if not is_whole(root) or not 0 <= root < self.size:
            raise as_given(root, "root_replica", f"a group has {self.size}, from 0.")
        rows = self.rows(value := self.one())
        to = self.rows(result := self.like(value))
        side_by_side(
            [(rows[group[root]], to[rank]) for group in self.groups for rank in group], prog
        )
        return result

    def _joined(self, values: list[Value]) -> list[Tensor]:
        """Return the rows of several, one behind the other."""
        return [concat(list(same_rows)) for same_rows in zip(*map(self.rows, values), strict=True)]

    def _combined(
        self,
        chunks: list[dict[int, Tensor]],
        op: CollectiveOperator,
        row: Tensor,
        prog: Program,
        in_place: bool = False,
    ) -> list[Tensor]:
        """Return what all have of the chunk that is at home on each rank, combined."""
        method = self._method(row)
        name = self.name
        scattered = scatter(self.top, chunks, STEPS[op], prog, self.rings, method, name, in_place)
        if op is CollectiveOperator.MEAN and self.size > 1 and row.num_elements:
            popops.mul_in_place(self.top, concat(scattered), 1 / self.size, prog, f"{name}/mean")
        return scattered

    def _method(self, row: Tensor, gathers: bool = False) -> str:
        return choose(self.method, self.size, row.num_elements * row.dtype.size, self.each, gathers)

    def _by_home(self, chunk: Callable[[int, int], Tensor]) -> list[dict[int, Tensor]]:
        """For each rank r, by the rank where it is at home: chunk(r, number of that in the
        group)."""
        of = sorted((r, group) for group in self.groups for r in group)
        return [{home: chunk(r, i) for i, home in enumerate(group)} for r, group in of]


class Ipus(Ranks):
    """A tensor on each IPU of a replica: ranks in the order of the list."""

    def __init__(self, graph: Graph, given: Any, *how: Any) -> None:
        several = bool(isinstance(given, (list, tuple)) and given) and not isinstance(
            given[0], Tensor
        )
        at: list[int] = []
        for tensors in given if several else [given]:
            at = _one_each(graph, tensors, at)
        top = (given[0][0] if several else given[0]).graph
        super().__init__(top, given, several, at, 1, *how)
        n = top.target.tiles_per_ipu
        self.parts = [top.create_virtual_graph(ipu * n, ipu * n + n) for ipu in at]

    def rows(self, value: Value) -> list[Tensor]:
        return [tensor.flatten() for tensor in value]

    def like(self, value: Value) -> Value:
        return [like(self.top, tensor, f"{self.name}/out") for tensor in value]

    def linear(self, value: Value, count: int) -> Value:
        return [linear(part, value[0].dtype, (count,), f"{self.name}/out") for part in self.parts]

    def stacked(self, values: list[Value]) -> Value:
        return [concat([t.expand([0]) for t in of]) for of in zip(*values, strict=True)]


class Replicas(Ranks):
    """A tensor of a replicated graph: ranks are its replicas. In the top-level graph it has a row
    for each."""

    def __init__(self, graph: Graph, given: Any, *how: Any) -> None:
        several = isinstance(given, (list, tuple))
        tensors = list(given) if several else [given]
        if not tensors:
            raise as_given(given, "data", "give a tensor, or a list of tensors.")
        for tensor in tensors:
            check_tensor(graph, "data", tensor)
            check_mapped(graph, "data", tensor)
            _check_alike("dtypes", tensors[0].dtype.__name__, tensor.dtype.__name__, tensor)
        self.graph = graph
        num_ipus = tensors[0].graph.target.num_ipus
        ipus = range(0, num_ipus * graph.get_replication_factor(), num_ipus)
        super().__init__(graph.get_top_level_graph(), given, several, ipus, num_ipus, *how)

    def rows(self, value: Value) -> list[Tensor]:
        all_replicas = self.top.get_non_replicated_tensor(value)
        return [all_replicas[i].flatten() for i in range(all_replicas.shape[0])]

    def like(self, value: Value) -> Value:
        return like(value.graph, value, f"{self.name}/out")

    def linear(self, value: Value, count: int) -> Value:
        return linear(self.graph, value.dtype, (count,), f"{self.name}/out")

    def stacked(self, values: list[Value]) -> Value:
        return concat([value.expand([0]) for value in values])


def _one_each(graph: Graph, tensors: Any, before: list[int]) -> list[int]:
    """Return the IPU of each of a list of tensors; of a further list that of each of the first.
    Raises `PoplibsError`."""
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
            where = f"IPUs {ipus[0]} and {ipus[1]}" if len(ipus) > 1 else f"IPU {ipus[0]}"
            raise refused(
                f"was given data[{i}] on {where}{', which already has one' * (len(ipus) == 1)}.",
                tensor,
                "give one tensor on each IPU.",
            )
        at += ipus
    if before and at != before:
        raise refused(
            f"was given lists on the IPUs {before} and {at}.",
            next_step="give the tensors of both lists in the same order of IPUs.",
        )
    return at


def _check_alike(subject: str, first: object, second: object, tensor: Tensor) -> None:
    check_same(subject, first, second, repr(tensor), "popops.cast and popops.pad make them alike.")


def _share(rows: list[Tensor], shares: list[list[tuple[int, int]]], r: int, i: int) -> Tensor:
    return take(rows[r], shares[i]) if shares[i] else rows[r][:0]


def _shares(graph: Graph, row: Tensor, count: int) -> list[list[tuple[int, int]]]:
    """Return, for each chunk, its intervals of a row: a part of the elements on each tile. A
    remainder goes to other chunks on the next tile."""
    shares: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    pieces = [piece for _, pieces_of_tile in tile_pieces(graph, row) for piece in pieces_of_tile]
    for turn, (begin, end) in enumerate(pieces):
        for i in range(count):
            low, high = (begin + (end - begin) * cut // count for cut in (i, i + 1))
            if low < high:
                shares[(i + turn) % count].append((low, high))
    return shares
