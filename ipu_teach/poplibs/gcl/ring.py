"""Ring algorithms: the two halves of an all-reduce, and the directions in which chunks move.

The members of a ring are called places. The data is divided into as many chunks as there are
places, and each place is the home of one chunk. In the *scatter* half, the partial sums of a chunk
move towards its home, and every place on the path adds its own values; at the end, each place has
one complete chunk. In the *gather* half, complete chunks move on until every place has all of them.
The method decides in which direction and how far the chunks move. A round is one copy, in which all
links work at the same time.
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
# Pairs (number of places, bytes) for the method "auto" of a scatter. Rings of up to that number of
# places use PAIR for that number of bytes or more, and MEET for fewer bytes. PopLibs' authors
# measured the thresholds (lib/popops/Collectives.cpp). For a gather, they are half as many bytes.
THRESHOLDS = ((4, 1_245_184), (8, 4_980_736), (2**62, 39_845_888))


def choose(method: str, count: int, num_bytes: int, ipus: int = 1, gather: bool = False) -> str:
    """Return `method`, or if it is "auto" the method that is faster for this amount of data.

    The ring has `count` places of `ipus` IPUs each, and each place contributes `num_bytes` bytes.
    The method is for the gather half if `gather` is true, and otherwise for the scatter half.
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
    """Return the paths of chunks on a ring of `count` places: lists of (part, direction, hops).

    `part` is the number of a part of the chunk; with PAIR there are two parts, and otherwise one.
    `direction` is 1 or -1, and `hops` is the length of the path. The paths of one inner list never
    bring the same part of a chunk to the same place twice.
    """
    max_hops = count - 1
    return {
        CLOCKWISE: [[(0, 1, max_hops)]],
        ANTICLOCKWISE: [[(0, -1, max_hops)]],
        PAIR: [[(0, 1, max_hops), (1, -1, max_hops)]],
        MEET: [[(0, 1, max_hops // 2)], [(0, -1, count // 2)]],
    }[method]


def part(tensor: Tensor, number: int, of: int) -> Tensor:
    """Return part number `number` of a tensor that is divided into `of` nearly equal parts."""
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
    """Append the scatter half of an all-reduce; return, for each place, its complete chunk.

    `chunks[place][home]` is the tensor that a place contributes to the chunk of a home. These
    tensors are not changed, because sums are computed in new tensors where data arrives. If
    `in_place` is true, the last sum at the home is computed in `chunks[home][home]` instead.
    """
    num_places = len(rings[0])
    parts_per_chunk = 2 if method == PAIR else 1
    partial_sums: dict[tuple[int, int, int], Tensor] = {}  # the keys are (part, home, place)

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
        # The sums are separate steps, because two of them may be in the same tensor.
        for augend, addend in sum_pairs:
            combine(graph, augend, addend, prog, f"{name}/round{round_number}")
    return [
        concat([local(part_number, home, home) for part_number in range(parts_per_chunk)])
        for home in range(len(chunks))
    ]


def _moves(
    rings: list[list[int]], paths: list[tuple[int, int, int]], round_number: int
) -> list[tuple[int, int, int, int]]:
    """Return a tuple (part, home, source, target) for each part of a chunk that moves in a round.

    `source` and `target` are places on the same ring; `paths` is a list that `ways` returns.
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
    """Append the gather half of an all-reduce: copy each place's chunk to all places of its ring.

    The chunk of a home is copied to `to[place][home]` on every place. If `in_place` is true,
    `to[home][home]` contains the chunk already.
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
