"""Rings: in which order chunks go round, and the two halves of an all-reduce.

A ring of R places; at home in each place is one chunk. *Scatter*: the pieces of a chunk walk home,
and every place on the way adds its own; then each place has one whole chunk. *Gather*: the whole
chunks walk on, until all places have all. A method says which way they walk, and how far. In a
round all links work at once: it is one copy.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
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


def choose(method: str, count: int, num_bytes: int, ipus: int = 1, gather: bool = False) -> str:
    """Return the method that "auto" stands for, if each of `count` places, of `ipus` IPUs
    each, contributes `num_bytes`."""
    if method != "auto":
        return method
    if ipus > 1 or count <= 2:
        return CLOCKWISE
    threshold = next(size for places, size in THRESHOLDS if count <= places)
    return MEET if num_bytes < (threshold // 2 if gather else threshold) else PAIR


def ways(method: str, count: int) -> list[list[tuple[int, int, int]]]:
    """Return the ways that chunks go: (part of the chunk, turn, hops), where a pair of rings cuts
    it in two, and the turn is 1 or -1. No two of one list end in the same place with the same
    part."""
    far = count - 1
    return {
        CLOCKWISE: [[(0, 1, far)]],
        ANTICLOCKWISE: [[(0, -1, far)]],
        PAIR: [[(0, 1, far), (1, -1, far)]],
        MEET: [[(0, 1, far // 2)], [(0, -1, count // 2)]],
    }[method]


def part(tensor: Tensor, number: int, of: int) -> Tensor:
    """Return the part `number` of a tensor that is cut into `of` parts, as equal as may be."""
    n = tensor.num_elements
    return tensor if of == 1 else tensor[n * number // of : n * (number + 1) // of]


def side_by_side(pairs: list[tuple[Tensor, Tensor]], prog: Program) -> None:
    """Copies in one exchange."""
    nonempty = [pair for pair in pairs if pair[0].num_elements]
    if nonempty:
        prog.add(Copy(concat([a for a, _ in nonempty]), concat([b for _, b in nonempty])))


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
    """Return what all of a ring have of a chunk, combined where it is at home.

    `chunks`: for each place what it has of the chunk of each place of its ring. They stay; sums are
    made where the pieces arrive. Or, `in_place`, at home in the chunk itself.
    """
    count = len(rings[0])
    parts = 2 if method == PAIR else 1
    sums_so_far: dict[tuple[int, int, int], Tensor] = {}  # the sums so far, by part, home and place

    def own(p: int, home: int, place: int) -> Tensor:
        partial_sum = sums_so_far.get((p, home, place))
        return part(chunks[place][home], p, parts) if partial_sum is None else partial_sum

    for k in range(count - 1):
        sent = list[Tensor]()
        arrived = list[Tensor]()
        sums = list[tuple[Tensor, Tensor]]()
        for way in ways(method, count):
            moves = []
            for p, turn, hops in way:
                for ring in rings if k < hops else []:
                    for at, home in enumerate(ring):
                        source = ring[(at - turn * (hops - k)) % count]
                        target = ring[(at - turn * (hops - k - 1)) % count]
                        if own(p, home, target).num_elements:
                            moves.append((p, home, source, target))
            if not moves:
                continue
            sent += [own(p, home, source) for p, home, source, _ in moves]
            targets = [own(p, home, target) for p, home, _, target in moves]
            inbox = like(graph, concat(targets), f"{name}/inbox{k}")
            end = 0
            boxes = []
            for (p, home, _, target), tensor in zip(moves, targets, strict=True):
                box = inbox[end : (end := end + tensor.num_elements)]
                boxes.append((tensor, box) if in_place and target == home else (box, tensor))
                sums_so_far[p, home, target] = boxes[-1][0]
            arrived.append(inbox)
            sums.append(
                (concat([into for into, _ in boxes]), concat([addend for _, addend in boxes]))
            )
        if sent:
            prog.add(Copy(concat(sent), concat(arrived)))
        for into, addend in sums:  # one after the other, because two sums may be in one place
            combine(graph, into, addend, prog, f"{name}/round{k}")
    return [concat([own(p, home, home) for p in range(parts)]) for home in range(len(chunks))]


def gather(
    chunks: list[Tensor],
    to: list[dict[int, Tensor]],
    prog: Program,
    rings: list[list[int]],
    method: str,
    in_place: bool = False,
) -> None:
    """Copy the chunk of each place to all places of its ring: to[place][home]. With `in_place`, it
    is at home already."""
    count = len(rings[0])
    parts = 2 if method == PAIR else 1
    for k in range(max(1, count - 1)):
        pairs = [] if k or in_place else [(c, to[i][i]) for i, c in enumerate(chunks)]
        for p, turn, hops in chain(*ways(method, count)):
            for ring in rings if k < hops else []:
                for at, home in enumerate(ring):
                    source = ring[(at + turn * k) % count]
                    target = ring[(at + turn * (k + 1)) % count]
                    ends = (to[source][home] if k else chunks[home], to[target][home])
                    pairs.append((part(ends[0], p, parts), part(ends[1], p, parts)))
        side_by_side(pairs, prog)
