"""Ring algorithms: the two halves of an all-reduce, and the directions in which chunks move.

Each member of a ring (an IPU or a replica) contributes a tensor, which is divided into as many
chunks as the ring has members. Each member is the *home* of one chunk. In the *scatter* half, the
partial sums of a chunk move along the ring to the chunk's home. Every member on the path adds its
own values, so at the end each member has one complete chunk. In the *gather* half, the complete
chunks move along the ring until every member has all of them. The method determines the direction
of the chunks and the length of their paths. A round is one copy, in which all links are used at the
same time.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain

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
# Pairs (members, bytes) for the method "auto" of a scatter. A ring of up to `members` members uses
# PAIR for `bytes` bytes or more, and MEET for fewer bytes. PopLibs' authors measured the thresholds
# (lib/popops/Collectives.cpp). For a gather, the thresholds are half as many bytes.
THRESHOLDS = ((4, 1_245_184), (8, 4_980_736), (2**62, 39_845_888))


def choose(method: str, count: int, num_bytes: int, ipus: int = 1, gather: bool = False) -> str:
    """Return `method`, or if it is "auto", the name of the faster method for this amount of data.

    The ring has `count` members of `ipus` IPUs each, and each member contributes `num_bytes` bytes.
    If `gather` is true, the method is for the gather half of an all-reduce, and otherwise for the
    scatter half.
    """
    if method != "auto":
        return method
    if ipus > 1 or count <= 2:
        return CLOCKWISE
    threshold = next(size for places, size in THRESHOLDS if count <= places)
    if gather:
        threshold //= 2
    return MEET if num_bytes < threshold else PAIR


def ways(method: str, count: int) -> list[list[tuple[int, int, int]]]:
    """Return lists of paths (part, direction, hops) on which `method` moves a chunk along a ring.

    The ring has `count` members. `part` is the index of a part of the chunk: PAIR divides a chunk
    into two parts, and the other methods do not divide it. `direction` is 1 or -1. `hops` is the
    number of members that the path visits after its start. The paths in one inner list never bring
    the same part of a chunk to the same member twice.
    """
    max_hops = count - 1
    return {
        CLOCKWISE: [[(0, 1, max_hops)]],
        ANTICLOCKWISE: [[(0, -1, max_hops)]],
        PAIR: [[(0, 1, max_hops), (1, -1, max_hops)]],
        MEET: [[(0, 1, max_hops // 2)], [(0, -1, count // 2)]],
    }[method]


def part(tensor: Tensor, number: int, of: int) -> Tensor:
    """Return part number `number` of a flat tensor that is divided into `of` nearly equal parts."""
    num_elements = tensor.num_elements
    return (
        tensor
        if of == 1
        else tensor[num_elements * number // of : num_elements * (number + 1) // of]
    )


def side_by_side(pairs: list[tuple[Tensor, Tensor]], prog: Program) -> None:
    """Append one copy of all (source, destination) pairs, so that they share one exchange."""
    nonempty = [pair for pair in pairs if pair[0].num_elements]
    if nonempty:
        prog.add(
            Copy(
                concat([source for source, _ in nonempty]),
                concat([destination for _, destination in nonempty]),
            )
        )


def scatter(
    graph: Graph,
    chunks: list[dict[int, Tensor]],
    combine: Callable[..., None],
    prog: Program,
    rings: list[list[int]],
    method: str,
    name: str,
    in_place: bool,
) -> list[Tensor]:
    """Append the scatter half of an all-reduce; return the complete chunk of each ring member.

    Each member is the *home* of one chunk: the sums of this chunk move to it.
    `chunks[member][home]` is the tensor that a member contributes to the chunk of `home`. A member
    adds its contribution to the partial sum that arrives, in a new tensor, so `chunks` is not
    changed. If `in_place` is true, the last sum at the home is written to `chunks[home][home]`
    instead.
    """
    num_places = len(rings[0])
    parts_per_chunk = 2 if method == PAIR else 1
    # The keys are (index of a part of a chunk, the member that finally gets the chunk, the member
    # that has the partial sum).
    partial_sums: dict[tuple[int, int, int], Tensor] = {}

    def local(part_number: int, home: int, place: int) -> Tensor:
        partial_sum = partial_sums.get((part_number, home, place))
        return (
            part(chunks[place][home], part_number, parts_per_chunk)
            if partial_sum is None
            else partial_sum
        )

    for round_number in range(num_places - 1):
        sources = list[Tensor]()
        inboxes = list[Tensor]()
        sum_pairs = list[tuple[Tensor, Tensor]]()
        for paths in ways(method, num_places):
            moves = [
                (part_number, home, source, target)
                for part_number, home, source, target in _moves(rings, paths, round_number)
                if local(part_number, home, target).num_elements
            ]
            if not moves:
                continue
            sources += [local(part_number, home, source) for part_number, home, source, _ in moves]
            targets = [local(part_number, home, target) for part_number, home, _, target in moves]
            inbox = like(graph, concat(targets), f"{name}/inbox{round_number}")
            box_end = 0
            pairs = []
            for (part_number, home, _, target), tensor in zip(moves, targets, strict=True):
                box = inbox[box_end : (box_end := box_end + tensor.num_elements)]
                pairs.append((tensor, box) if in_place and target == home else (box, tensor))
                partial_sums[part_number, home, target] = pairs[-1][0]
            inboxes.append(inbox)
            sum_pairs.append(
                (concat([augend for augend, _ in pairs]), concat([addend for _, addend in pairs]))
            )
        if sources:
            prog.add(Copy(concat(sources), concat(inboxes)))
        # Each sum is added separately, because two sums may write to the same tensor.
        for augend, addend in sum_pairs:
            combine(graph, augend, addend, prog, f"{name}/round{round_number}")
    return [
        concat([local(part_number, home, home) for part_number in range(parts_per_chunk)])
        for home in range(len(chunks))
    ]


def _moves(
    rings: list[list[int]], paths: list[tuple[int, int, int]], round_number: int
) -> list[tuple[int, int, int, int]]:
    """Return a tuple (part, home, source, target) for each copy in a round of the scatter half.

    Part number `part` of a chunk is copied from `source` to `target`, which are neighbours on the
    same ring. `home` is the ring member to which the chunk moves. `paths` is one of the lists that
    `ways` returns.
    """
    moves = []
    for part_number, direction, hops in paths:
        remaining_hops = hops - round_number
        for ring in rings if remaining_hops > 0 else []:
            for position, home in enumerate(ring):
                source = ring[(position - direction * remaining_hops) % len(ring)]
                target = ring[(position - direction * (remaining_hops - 1)) % len(ring)]
                moves.append((part_number, home, source, target))
    return moves


def gather(
    chunks: list[Tensor],
    to: list[dict[int, Tensor]],
    prog: Program,
    rings: list[list[int]],
    method: str,
    in_place: bool = False,
) -> None:
    """Append the gather half of an all-reduce: copy each member's chunk to all members of its ring.

    `chunks[home]` is the complete chunk of the ring member `home`, and is copied to
    `to[member][home]` for every member of the ring. If `in_place` is true, `to[home][home]` already
    contains the chunk.
    """
    num_places = len(rings[0])
    parts_per_chunk = 2 if method == PAIR else 1
    for round_number in range(max(1, num_places - 1)):
        pairs = (
            []
            if round_number or in_place
            else [(chunk, to[place][place]) for place, chunk in enumerate(chunks)]
        )
        for part_number, direction, hops in chain(*ways(method, num_places)):
            for ring in rings if round_number < hops else []:
                for position, home in enumerate(ring):
                    source = ring[(position + direction * round_number) % num_places]
                    target = ring[(position + direction * (round_number + 1)) % num_places]
                    chunk_pair = (
                        to[source][home] if round_number else chunks[home],
                        to[target][home],
                    )
                    pairs.append(
                        (
                            part(chunk_pair[0], part_number, parts_per_chunk),
                            part(chunk_pair[1], part_number, parts_per_chunk),
                        )
                    )
        side_by_side(pairs, prog)
