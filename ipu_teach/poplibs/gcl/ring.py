"""Ring algorithms: the two halves of an all-reduce, and the directions in which chunks move.

The data is divided into chunks, one for each of the R places of a ring, which is its home. In the
*scatter* half, the partial sums of a chunk move towards its home, and every place on the way adds
its own values; at the end each place has one complete chunk. In the *gather* half, complete chunks
move on until every place has all of them. The method decides in which direction and how far they
move. In a round all links work at the same time: a round is one copy.
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
# For methods "auto": (maximum number of places, bytes from which the pair of rings is used), for a
# scatter. They are measurements, according to lib/popops/Collectives.cpp. In a gather, each place
# contributes a share, and half as many bytes are the threshold.
THRESHOLDS = ((4, 1_245_184), (8, 4_980_736), (2**62, 39_845_888))


def choose(method: str, count: int, num_bytes: int, ipus: int = 1, gather: bool = False) -> str:
    """Return `method`, or the method that "auto" stands for.

    Each of `count` places, which consist of `ipus` IPUs, contributes `num_bytes` bytes.
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

    `part` numbers the parts of a chunk, of which a pair of rings has two. `direction` is 1 or -1.
    No two paths of one inner list end in the same place with the same part.
    """
    far = count - 1
    return {
        CLOCKWISE: [[(0, 1, far)]],
        ANTICLOCKWISE: [[(0, -1, far)]],
        PAIR: [[(0, 1, far), (1, -1, far)]],
        MEET: [[(0, 1, far // 2)], [(0, -1, count // 2)]],
    }[method]


def part(tensor: Tensor, number: int, of: int) -> Tensor:
    """Return part `number` of a tensor that is divided into `of` nearly equal parts."""
    n = tensor.num_elements
    return tensor if of == 1 else tensor[n * number // of : n * (number + 1) // of]


def side_by_side(pairs: list[tuple[Tensor, Tensor]], prog: Program) -> None:
    """Append one copy for all (source, destination) pairs, so that they share one exchange."""
    nonempty = [pair for pair in pairs if pair[0].num_elements]
    if nonempty:
        prog.add(Copy(concat([a for a, _ in nonempty]), concat([b for _, b in nonempty])))


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
    """Append the scatter half; return, for each place, its complete chunk.

    `chunks[place][home]` is what a place contributes to the chunk of that home. These tensors are
    unchanged, and sums are computed in new tensors where the pieces arrive. With `in_place`, the
    last sum is computed in the chunk itself at its home.
    """
    count = len(rings[0])
    parts = 2 if method == PAIR else 1
    partial_sums: dict[tuple[int, int, int], Tensor] = {}  # by part, home and place

    def local(p: int, home: int, place: int) -> Tensor:
        partial_sum = partial_sums.get((p, home, place))
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
                        if local(p, home, target).num_elements:
                            moves.append((p, home, source, target))
            if not moves:
                continue
            sent += [local(p, home, source) for p, home, source, _ in moves]
            targets = [local(p, home, target) for p, home, _, target in moves]
            inbox = like(graph, concat(targets), f"{name}/inbox{k}")
            end = 0
            boxes = []
            for (p, home, _, target), tensor in zip(moves, targets, strict=True):
                box = inbox[end : (end := end + tensor.num_elements)]
                boxes.append((tensor, box) if in_place and target == home else (box, tensor))
                partial_sums[p, home, target] = boxes[-1][0]
            arrived.append(inbox)
            sums.append(
                (concat([into for into, _ in boxes]), concat([addend for _, addend in boxes]))
            )
        if sent:
            prog.add(Copy(concat(sent), concat(arrived)))
        for into, addend in sums:  # one after the other, because two sums may be in the same place
            combine(graph, into, addend, prog, f"{name}/round{k}")
    return [concat([local(p, home, home) for p in range(parts)]) for home in range(len(chunks))]


def gather(
    chunks: list[Tensor],
    to: list[dict[int, Tensor]],
    prog: Program,
    rings: list[list[int]],
    method: str,
    in_place: bool = False,
) -> None:
    """Append the gather half: copy the chunk of each place to all places of its ring.

    The destinations are `to[place][home]`. With `in_place`, the chunk is already there at its home.
    """
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
