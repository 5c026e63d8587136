"""Rings: in which order chunks go round, and the two halves of an all-reduce.

A ring of R places; at home in each place is one chunk. *Scatter*: the pieces of a chunk walk home,
and every place on the way adds its own; then each place has one whole chunk. *Gather*: the whole
chunks walk on, until all places have all. A method says which way they walk, and how far. In a
round all links work at once: it is one copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ipu_teach.graph import Graph, Tensor, concat
from ipu_teach.poplibs.options import Option
from ipu_teach.poplibs.poputil import like
from ipu_teach.program import Copy, Sequence as Program

__all__: list[str] = []
CLOCKWISE, ANTICLOCKWISE, PAIR, MEET = METHODS = (
    "clockwise_ring",
    "anticlockwise_ring",
    "bidirectional_ring_pair",
    "meet_in_middle_ring",
)
METHOD = (Option("method", ("auto", *METHODS), "auto"),)
# (places at most, bytes from which on the pair of rings is taken): lib/popops/Collectives.cpp,
# found by experiment, as it says; for a scatter, and half of it for what each brings to a gather
THRESHOLDS = ((4, 1_245_184), (8, 4_980_736), (2**62, 39_845_888))


def ring_order(count: int) -> list[int]:
    """IPUs clockwise round the ladder, as PopLibs' createRing has them: up one rail, 0 2 4, and
    down the other, 5 3 1. Every hop is one link."""
    return [*range(0, count, 2), *reversed(range(1, count, 2))]


def choose(method: str, count: int, num_bytes: int, ipus: int = 1, gather: bool = False) -> str:
    """The method meant by "auto": for `num_bytes` that each of `count` places, of so many IPUs,
    brings."""
    if method != "auto":
        return method
    if ipus > 1 or count <= 2:
        return CLOCKWISE
    most = next(size for places, size in THRESHOLDS if count <= places)
    return MEET if num_bytes < (most // 2 if gather else most) else PAIR


def ways(method: str, count: int) -> list[list[tuple[int, int]]]:
    """For each part of a chunk (a pair of rings cuts it in two) the ways on which it goes: which
    way round, 1 or -1, and how many hops."""
    far = count - 1
    return {
        CLOCKWISE: [[(1, far)]],
        ANTICLOCKWISE: [[(-1, far)]],
        PAIR: [[(1, far)], [(-1, far)]],
        MEET: [[(1, far // 2), (-1, count // 2)]],
    }[method]


def part(tensor: Tensor, number: int, of: int) -> Tensor:
    """Part `number` of a tensor that is cut into `of` parts, as equal as may be."""
    n = tensor.num_elements
    return tensor[n * number // of : n * (number + 1) // of]


def side_by_side(pairs: list[tuple[Tensor, Tensor]], prog: Program) -> None:
    """Copies in one exchange."""
    some = [pair for pair in pairs if pair[0].num_elements]
    if some:
        prog.add(Copy(concat([a for a, _ in some]), concat([b for _, b in some])))


def _all(parts: list[list[tuple[int, int]]]) -> Iterator[tuple[int, int, int, int]]:
    """(part, number of the way in it, turn, hops)."""
    return ((p, w, *way) for p, some in enumerate(parts) for w, way in enumerate(some))


def scatter(
    graph: Graph,
    chunks: list[dict[int, Tensor]],
    combine: Callable[..., Any],
    prog: Program,
    rings: list[list[int]],
    method: str,
    name: str,
    in_place: bool,
) -> list[Tensor]:
    """What all of a ring have of a chunk, combined where it is at home.

    `chunks`: for each place what it has of the chunk of each place of its ring. They stay; sums are
    made where the pieces arrive. Or, `in_place`, at home in the chunk itself.
    """
    count = len(rings[0])
    parts = ways(method, count)
    held: dict[tuple[int, int, int], Tensor] = {}  # by part, home, place: the sum so far

    def own(p: int, home: int, place: int) -> Tensor:
        return held.get((p, home, place), part(chunks[place][home], p, len(parts)))

    for k in range(max(hops for some in parts for _, hops in some)):
        sent, inboxes, sums = list[Tensor](), list[Tensor](), list[list[tuple[Tensor, Tensor]]]()
        for p, way, turn, hops in _all(parts):
            sums += [[] for _ in range(way + 1 - len(sums))]
            for ring in rings if k < hops else []:
                for at, home in enumerate(ring):
                    here = ring[(at - turn * (hops - k)) % count]
                    there = ring[(at - turn * (hops - k - 1)) % count]
                    mine = own(p, home, there)
                    if mine.num_elements:
                        sent.append(own(p, home, here))
                        inboxes.append(like(graph, mine, f"{name}/inbox{k}"))
                        pair = (inboxes[-1], mine)
                        sums[way].append(pair[::-1] if in_place and there == home else pair)
                        held[p, home, there] = sums[way][-1][0]
        if sent:
            prog.add(Copy(concat(sent), concat(inboxes)))
        # way by way: two may end in one place
        for pairs in filter(None, sums):
            ends = [concat(list(some)) for some in zip(*pairs, strict=True)]
            combine(graph, *ends, prog, f"{name}/round{k}")
    return [
        concat([own(p, place, place) for p in range(len(parts))]) for place in range(len(chunks))
    ]


def gather(
    chunks: list[Tensor],
    to: list[dict[int, Tensor]],
    prog: Program,
    rings: list[list[int]],
    method: str,
    in_place: bool = False,
) -> None:
    """The chunk of each place to all places of its ring: to[place][home]. `in_place`: at home it
    lies there."""
    count = len(rings[0])
    parts = ways(method, count)
    for k in range(max(1, *(hops for some in parts for _, hops in some))):
        pairs = [] if k or in_place else [(c, to[i][i]) for i, c in enumerate(chunks)]
        for p, _, turn, hops in _all(parts):
            for ring in rings if k < hops else []:
                for at, home in enumerate(ring):
                    here = ring[(at + turn * k) % count]
                    there = ring[(at + turn * (k + 1)) % count]
                    ends = (to[here][home] if k else chunks[home], to[there][home])
                    pairs.append((part(ends[0], p, len(parts)), part(ends[1], p, len(parts))))
        side_by_side(pairs, prog)
