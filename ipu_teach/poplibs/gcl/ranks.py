"""The collectives, written once for both kinds of participants: IPUs and replicas.

A *rank* is a participant of a collective: an IPU of a replica, or a replica of a graph. The *row*
of a rank is the tensor that the rank contributes, flattened to one dimension. An all-reduce divides
each row into as many chunks as a group has ranks. The *home* of a chunk is the rank that combines
this chunk for its group.
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
# The type of a collective's argument and result: a list of tensors, one on each IPU, or a tensor of
# a replicated graph.
V = TypeVar("V")


class Ranks(ABC, Generic[V]):
    """The base class of the participants (ranks) of a collective, in independent groups.

    `values` is a list of items, and an item contains a tensor for every rank. If `several` is
    false, the list has one item. `ipus` contains the index of the first IPU of each rank, and
    `each` is the number of IPUs of a rank.
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
        sorted_groups = (sorted(members, key=ipus.__getitem__) for members in self.groups)
        self.rings = [
            [ring[position] for position in ring_order(self.size)] for ring in sorted_groups
        ]

    @abstractmethod
    def rows(self, value: V) -> list[Tensor]:
        """Return a list with a row for each rank: the rank's tensor in `value`, flattened."""

    @abstractmethod
    def like(self, value: V) -> V:
        """Return new tensors with the shape, dtype and tile mapping of the tensors in `value`."""

    @abstractmethod
    def linear(self, value: V, count: int) -> V:
        """Return a new tensor of `count` elements for each rank, mapped to the tiles of the rank.

        The mapping is linear: the elements are distributed over the tiles in order, in nearly equal
        numbers. Small tensors use only some tiles.
        """

    @abstractmethod
    def stacked(self, values: list[V]) -> V:
        """Return for each rank a stack of the rank's tensors in `values`, along a new dimension."""

    def one(self) -> V:
        """Return the only item of `values`.

        :raises PoplibsError: if the caller gave a list of tensors per rank.
        """
        if self.several:
            raise as_given(self.values, "data", "give one tensor; only all_reduce takes several.")
        return self.values[0]

    def all_reduce(
        self, op: CollectiveOperator | str, prog: Program, in_place: bool = False
    ) -> V | Sequence[V]:
        """Combine the tensors of each group of ranks elementwise; return the results on all ranks.

        The elements are divided into chunks, one for each rank of a group. Each chunk contains some
        elements of every tile, so that all tiles send at the same time.
        """
        values = self.values
        rows = self._joined(values)
        collective = operator_of(op, rows[0].dtype)
        results = values if in_place else [self.like(value) for value in values]
        result_rows = rows if in_place else self._joined(results)
        if self.size > 1 and rows[0].num_elements:
            shares = _shares(self.top, rows[0], self.size)
            local_shares, output_shares = (
                self._by_home(partial(_share, tensors, shares)) for tensors in (rows, result_rows)
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
            side_by_side(list(zip(rows, result_rows, strict=True)), prog)
        return results if self.several else results[0]

    def all_reduce_in_place(self, op: CollectiveOperator | str, prog: Program) -> None:
        """Combine the tensors of each group of ranks elementwise, in place."""
        self.all_reduce(op, prog, True)

    def reduce_scatter(self, op: CollectiveOperator | str, prog: Program) -> V:
        """Combine the tensors of each group of ranks elementwise; return one part on each rank.

        The combined tensor is divided into as many parts of equal length as the group has ranks. If
        the division is not exact, zeros are appended to the last parts.

        :raises PoplibsError: if the caller gave more than one tensor per rank.
        """
        rows = self.rows(value := self.one())
        collective = operator_of(op, rows[0].dtype)
        length = rows[0].num_elements
        share_length = -(-length // self.size)
        result = self.linear(value, share_length)

        def share(rank: int, member: int) -> Tensor:
            begin = member * share_length
            return rows[rank][min(length, begin) : min(length, begin + share_length)]

        scattered = self._combined(self._by_home(share), collective, rows[0], prog)
        result_rows = self.rows(result)
        filled = [chunk.num_elements for chunk in scattered]
        side_by_side(
            [(chunk, result_rows[rank][: filled[rank]]) for rank, chunk in enumerate(scattered)],
            prog,
        )
        if min(filled) < share_length:
            padding = concat([result_rows[rank][end:] for rank, end in enumerate(filled)])
            popops.zero(self.top, padding, prog, f"{self.name}/padding")
        return result

    def all_gather(self, prog: Program) -> V:
        """Return, on each rank, the tensors of the rank's group, stacked along a new dimension.

        :raises PoplibsError: if the caller gave more than one tensor per rank.
        """
        rows = self.rows(value := self.one())
        results = [self.like(value) for _ in range(self.size)]
        rows_of_results = [self.rows(result) for result in results]
        by_home = self._by_home(lambda rank, member: rows_of_results[member][rank])
        gather(rows, by_home, prog, self.rings, method=self._method(rows[0], True))
        return self.stacked(results)

    def all_to_all(self, prog: Program) -> V:
        """Return new tensors, with one part from each rank.

        Each tensor is divided into as many equal parts as the group has ranks. Rank j gets part j
        of the tensor of every rank, in the order of the ranks.

        :raises PoplibsError: if the elements cannot be divided into equal parts, or if the caller
            gave more than one tensor per rank.
        """
        rows = self.rows(value := self.one())
        part_length, num_left_over = divmod(rows[0].num_elements, self.size)
        if num_left_over:
            raise refused(f"""was given {rows[0].num_elements:,} elements, which cannot be divided
                into {self.size} equal parts.
                next:  pad the data to a multiple of {self.size} elements, for example with
                popops.pad.""")
        result_rows = self.rows(result := self.like(value))
        side_by_side(
            [
                (
                    rows[source][
                        target_member * part_length : target_member * part_length + part_length
                    ],
                    result_rows[target][
                        source_member * part_length : source_member * part_length + part_length
                    ],
                )
                for group in self.groups
                for source_member, source in enumerate(group)
                for target_member, target in enumerate(group)
            ],
            prog,
        )
        return result

    def broadcast(self, root: int, prog: Program) -> V:
        """Return, on each rank, a copy of the tensor of rank number `root` of its group.

        :raises PoplibsError: if a group has no such rank, or if the caller gave more than one
            tensor per rank.
        """
        if not is_whole(root) or not 0 <= root < self.size:
            raise as_given(root, "root_replica", f"give a number from 0 to {self.size - 1}.")
        rows = self.rows(value := self.one())
        result_rows = self.rows(result := self.like(value))
        side_by_side(
            [(rows[group[root]], result_rows[rank]) for group in self.groups for rank in group],
            prog,
        )
        return result

    def _joined(self, values: Sequence[V]) -> list[Tensor]:
        """Return a tensor for each rank: the rank's rows of all items in `values`, concatenated."""
        return [concat(list(same_rows)) for same_rows in zip(*map(self.rows, values), strict=True)]

    def _combined(
        self,
        chunks: list[dict[int, Tensor]],
        op: CollectiveOperator,
        row: Tensor,
        prog: Program,
        in_place: bool = False,
    ) -> list[Tensor]:
        """Append the scatter half of an all-reduce; return a combined chunk for each rank.

        Each rank combines one chunk for its group, and is the *home* of this chunk.
        `chunks[rank][home]` is the part of the rank's row that belongs to the chunk of `home`.
        """
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
        """Return, for each rank, a dict {home: `chunk(rank, member)`} for all members of its group.

        `member` is a position in the group, and `home` is the rank at this position.
        """
        ranks_with_group = sorted((rank, group) for group in self.groups for rank in group)
        return [
            {home: chunk(rank, member) for member, home in enumerate(group)}
            for rank, group in ranks_with_group
        ]


class Ipus(Ranks[Sequence[Tensor]]):
    """The IPUs of a replica as ranks: an item is a list with a tensor on each IPU.

    The tensors are in the order of the ranks.
    """

    # `data` comes from the user. This method checks its type, so the annotation is Any.
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
        tiles_per_ipu = top.target.tiles_per_ipu
        self.parts = [
            top.create_virtual_graph(ipu * tiles_per_ipu, ipu * tiles_per_ipu + tiles_per_ipu)
            for ipu in ipus
        ]

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
    """The replicas of a graph as ranks: an item is a tensor, of which each replica has a copy."""

    # `data` comes from the user. This method checks its type, so the annotation is Any.
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
    """Return the index of the IPU on which each tensor in `tensors` is.

    `previous` is the result for another list of tensors, or empty. If it is not empty, both results
    must be equal.

    :raises PoplibsError: unless each tensor is on a different IPU, and all have the same dtype and
        length.
    """
    if not isinstance(tensors, (list, tuple)) or not tensors:
        raise as_given(tensors, "data", "give a list of tensors, one on each IPU.")
    ipus_so_far: list[int] = []
    for index, tensor in enumerate(tensors):
        check_tensor(graph, f"data[{index}]", tensor)
        check_mapped(tensor.graph, f"data[{index}]", tensor)
        _check_alike("dtypes", tensors[0].dtype.__name__, tensor.dtype.__name__, tensor)
        _check_alike("lengths", tensors[0].num_elements, tensor.num_elements, tensor)
        tiles_per_ipu = tensor.graph.target.tiles_per_ipu
        ipus = sorted({tile // tiles_per_ipu for tile, _ in tile_pieces(tensor.graph, tensor)}) or [
            index
        ]
        if len(ipus) > 1 or ipus[0] in ipus_so_far:
            fault = f"is on IPU {ipus[0]}, as is an earlier tensor of the list"
            if len(ipus) > 1:
                fault = f"is on more than one IPU: {ipus[0]} and {ipus[1]}"
            raise refused(
                f"was given a list in which data[{index}] {fault}.",
                tensor,
                "give a list with one tensor on each IPU.",
            )
        ipus_so_far += ipus
    if previous and ipus_so_far != previous:
        raise refused(
            f"was given a list of tensors on IPUs {previous} and another on IPUs {ipus_so_far}.",
            next_step="give the tensors of both lists in the same order of IPUs.",
        )
    return ipus_so_far


def _check_alike(subject: str, first: str | int, second: str | int, tensor: Tensor) -> None:
    check_same(subject, first, second, repr(tensor), advice="use popops.cast or popops.pad.")


def _share(
    rows: list[Tensor], shares: list[list[tuple[int, int]]], rank: int, chunk_number: int
) -> Tensor:
    return take(rows[rank], shares[chunk_number]) if shares[chunk_number] else rows[rank][:0]


def _shares(graph: Graph, row: Tensor, num_chunks: int) -> list[list[tuple[int, int]]]:
    """Return a list of intervals (begin, end) for each of `num_chunks` chunks of `row`.

    Every contiguous piece of `row` on a tile is divided into `num_chunks` nearly equal parts, one
    for each chunk. The assignment of parts to chunks is shifted by one for each further piece, so
    that the larger parts are distributed over all chunks.
    """
    shares: list[list[tuple[int, int]]] = [[] for _ in range(num_chunks)]
    intervals = [
        interval for _, pieces_of_tile in tile_pieces(graph, row) for interval in pieces_of_tile
    ]
    for piece_number, (begin, end) in enumerate(intervals):
        for part in range(num_chunks):
            share_begin, share_end = (
                begin + (end - begin) * bound // num_chunks for bound in (part, part + 1)
            )
            if share_begin < share_end:
                shares[(part + piece_number) % num_chunks].append((share_begin, share_end))
    return shares
