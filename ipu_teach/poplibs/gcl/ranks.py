"""Who takes part in a collective, and what each of them does: the same for the IPUs of a replica
and for replicas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ipu_teach.errors import counted
from ipu_teach.graph import Graph, Tensor, concat
from ipu_teach.graph.layouts import is_whole
from ipu_teach.poplibs import popops
from ipu_teach.poplibs.gcl.groups import STEPS, CollectiveOperator, operator_of
from ipu_teach.poplibs.gcl.ring import choose, gather, ring_order, scatter
from ipu_teach.poplibs.library import as_given, refused
from ipu_teach.poplibs.poputil import take, tile_pieces
from ipu_teach.program import Copy, Sequence as Program

__all__: list[str] = []
Value = Any  # what is given and comes back: a list of tensors, or a tensor of a replicated graph


class Ranks:
    """As many as there are rows, in `groups` that have nothing to do with each other. `ipus`: the
    first IPU of each rank, which has so many `each`."""

    def __init__(
        self,
        graph: Graph,
        groups: list[list[int]],
        ipus: Sequence[int],
        each: int,
        name: str,
        method: str,
    ) -> None:
        self.graph, self.groups, self.size = graph, groups, len(groups[0])
        along = (sorted(group, key=ipus.__getitem__) for group in groups)
        self.rings = [[ring[i] for i in ring_order(self.size)] for ring in along]
        self.each, self.name, self.method = each, name, method

    def rows(self, value: Value) -> list[Tensor]:
        """The elements that each rank has, in one dimension."""
        raise NotImplementedError

    def like(self, value: Value) -> Value:
        """New tensors, each element on the tile of its original."""
        raise NotImplementedError

    def linear(self, value: Value, count: int) -> Value:
        """New tensors of `count` elements, over all tiles of each rank."""
        raise NotImplementedError

    def stacked(self, values: list[Value]) -> Value:
        """Several as one, with another dimension in front."""
        raise NotImplementedError

    # --- what they do -----------------------------------------------------------------------------

    def all_reduce(self, values: list[Value], op: object, to: list[Value], prog: Program) -> None:
        """`values` of all, as one tensor, combined into `to`, which may be the same.

        A chunk has a share of each tile's elements, so that all tiles send at once.
        """
        rows, out = (
            [concat(r) for r in zip(*map(self.rows, v), strict=True)] for v in (values, to)
        )
        how = operator_of(op, rows[0].dtype)
        if self.size == 1 or not rows[0].num_elements:
            if to is not values:
                prog.add(Copy(concat(rows), concat(out)))
            return
        shares = _shares(self.graph, rows[0], self.size)
        mine: list[dict[int, Tensor]] = [{} for _ in rows]
        whole: list[dict[int, Tensor]] = [{} for _ in rows]
        for rank, home, number in self._homes():
            mine[rank][home] = _taken(rows[rank], shares[number])
            whole[rank][home] = _taken(out[rank], shares[number])
        in_place = to is values
        found = self._reduced(mine, how, rows[0], prog, in_place)
        gather(found, whole, prog, self.rings, self._method(found[0], True), in_place)

    def reduce_scatter(self, value: Value, op: object, prog: Program) -> Value:
        """To each its share of `value`, combined, with zeros behind the end."""
        rows = self.rows(value)
        how = operator_of(op, rows[0].dtype)
        n, m = rows[0].num_elements, -(-rows[0].num_elements // self.size)
        made = self.linear(value, m)
        chunks: list[dict[int, Tensor]] = [{} for _ in rows]
        for rank, home, number in self._homes():
            chunks[rank][home] = rows[rank][min(n, number * m) : min(n, number * m + m)]
        found = self._reduced(chunks, how, rows[0], prog) if n else []
        ends = list(zip(found, self.rows(made), strict=False))
        over = [row[chunk.num_elements :] for chunk, row in ends]
        _copy([(chunk, row[: chunk.num_elements]) for chunk, row in ends], prog)
        if any(row.num_elements for row in over):
            popops.zero(self.graph, concat(over), prog, f"{self.name}/padding")
        return made

    def all_gather(self, value: Value, prog: Program) -> Value:
        """What all of a group have, to each of it."""
        made = [self.like(value) for _ in range(self.size)]
        to, rows = [self.rows(one) for one in made], self.rows(value)
        whole: list[dict[int, Tensor]] = [{} for _ in rows]
        for rank, home, number in self._homes():
            whole[rank][home] = to[number][rank]
        gather(rows, whole, prog, self.rings, self._method(rows[0], True))
        return self.stacked(made)

    def all_to_all(self, value: Value, prog: Program) -> Value:
        """Part j of the rank i of a group becomes part i of its rank j."""
        made = self.like(value)
        rows, to = self.rows(value), self.rows(made)
        m = rows[0].num_elements // self.size
        parts = [
            (rows[source][j * m : j * m + m], to[end][i * m : i * m + m])
            for group in self.groups
            for i, source in enumerate(group)
            for j, end in enumerate(group)
        ]
        _copy(parts, prog)
        return made

    def broadcast(self, value: Value, root: int, prog: Program) -> Value:
        """What the rank `root` of a group has, to each of it."""
        made = self.like(value)
        rows, to = self.rows(value), self.rows(made)
        _copy([(rows[group[root]], to[rank]) for group in self.groups for rank in group], prog)
        return made

    def root(self, given: object, argument: str, what: str) -> int:
        """`given` as the number of one of a group. Raises `PoplibsError`."""
        if is_whole(given) and 0 <= given < self.size:
            return int(given)
        raise as_given(given, argument, f"there are {counted(self.size, what)}, from 0.")

    def check_parts(self, tensor: Tensor) -> None:
        """Raise `PoplibsError` unless a tensor has a part for each of a group."""
        if not tensor.rank or tensor.shape[0] != self.size:
            raise refused(f"""was given a tensor of shape {tensor.shape}; it goes to {self.size}.
                where: {tensor!r}
                next:  reshape it to ({self.size}, …): a part for each of them.""")

    def _reduced(
        self,
        chunks: list[dict[int, Tensor]],
        op: CollectiveOperator,
        row: Tensor,
        prog: Program,
        in_place: bool = False,
    ) -> list[Tensor]:
        """What all have of the chunk that is at home on each rank, combined."""
        method, name = self._method(row), self.name
        found = scatter(self.graph, chunks, STEPS[op], prog, self.rings, method, name, in_place)
        if op is CollectiveOperator.MEAN and self.size > 1:
            popops.mul_in_place(self.graph, concat(found), 1 / self.size, prog, f"{name}/mean")
        return found

    def _method(self, row: Tensor, gathers: bool = False) -> str:
        return choose(self.method, self.size, row.num_elements * row.dtype.size, self.each, gathers)

    def _homes(self) -> list[tuple[int, int, int]]:
        """(rank, another of its group, that one's number in it) for all pairs, and for itself."""
        return [(a, b, i) for group in self.groups for i, b in enumerate(group) for a in group]


def _copy(pairs: list[tuple[Tensor, Tensor]], prog: Program) -> None:
    """All of them in one exchange."""
    some = [pair for pair in pairs if pair[0].num_elements]
    if some:
        prog.add(Copy(concat([a for a, _ in some]), concat([b for _, b in some])))


def _taken(row: Tensor, intervals: list[tuple[int, int]]) -> Tensor:
    return take(row, intervals) if intervals else row[:0]


def _shares(graph: Graph, row: Tensor, count: int) -> list[list[tuple[int, int]]]:
    """For each chunk its intervals of a row: a part of what each tile holds. What does not come out
    even goes to other chunks on the next tile."""
    shares: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    turn = 0
    for _, pieces in tile_pieces(graph, row):
        for begin, end in pieces:
            for i in range(count):
                low, high = (begin + (end - begin) * cut // count for cut in (i, i + 1))
                if low < high:
                    shares[(i + turn) % count].append((low, high))
            turn += 1
    return shares
