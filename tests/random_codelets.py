"""Random codelets on random regions: the fast paths must give the bits of the vertex loop."""

from __future__ import annotations

from random import Random

from codelets import BRANCHING, SHAPES, random_branching, random_codelet, random_elementwise
from graphs import Placed, Space, View, add, differences, random_fields, regions
from vertex_loop import DEVICE, Outcome, contents_or_error, small_limits

from ipu_teach import BOOL, FLOAT, HALF, INT, UNSIGNED_INT
from ipu_teach.errors import CodeletError
from ipu_teach.program import Execute, Repeat


def check_random_codelet(rng: Random) -> None:
    """Check one random codelet, on up to three sets of vertices of equal size."""
    dtype = rng.choice([FLOAT, FLOAT, FLOAT, HALF, HALF, INT, INT, UNSIGNED_INT, BOOL])
    codelet, source = random_codelet(rng, dtype, rng.randrange(1, 9))
    space = Space(DEVICE, rng)
    compute_set = space.graph.add_compute_set()
    placed: list[Placed] = []
    for _ in range(rng.choice([1, 1, 1, 2, 3])):  # sizes that vertices side by side have
        n, k, count = (
            rng.choice([0, 1, 2, 3, 5, 7, 8, 9, 16, 17, 33]),
            rng.choice([1, 2, 3, 5, 8]),
            rng.choice([1, 2, 3, 7, 20]),
        )
        sizes: dict[str, tuple[int, ...]] = {"n": (n,), "k": (k,), "kn": (k, n), "": ()}
        shapes = {name: sizes[size] for name, size in SHAPES.items()}
        fields = random_fields(rng, space, codelet, shapes, count)
        placed += [
            Placed(codelet, rng.randrange(3), {f: [v[i]] for f, v in fields.items()})
            for i in range(count)
        ]
    rng.shuffle(placed)
    for vertex in placed:
        add(space, compute_set, vertex)
    program = Repeat(2, Execute(compute_set))
    with small_limits(rng):
        fast = contents_or_error(
            space, program, shuffle=rng.choice([None, 1]), threads=rng.choice([1, 1, 3])
        )
        slow = contents_or_error(space, program, vertex_loop=True)
    _check_equal(fast, slow, source)


def check_random_elementwise(rng: Random) -> None:
    """Check one random elementwise codelet, on adjacent vertices of uneven sizes.

    In each field, the vertices are in the same order or not, and have gaps between them or not.
    """
    dtype = rng.choice([FLOAT, FLOAT, HALF, INT, UNSIGNED_INT, BOOL])
    codelet, source = random_elementwise(rng, dtype, rng.randrange(1, 7))
    lengths = [rng.choice([0, 1, 2, 7, 8, 33, 34]) for _ in range(rng.randint(1, 20))]
    space = Space(DEVICE, rng)
    order, gap = rng.sample(range(len(lengths)), len(lengths)), rng.choice([0, 0, 0, 3])
    pieces: list[dict[str, list[View]]] = [{} for _ in lengths]
    for name, field in codelet.fields.items():
        whole = space.variable(field.dtype, (sum(lengths) + gap * len(lengths),))
        begin = 0
        for place in range(len(lengths)) if rng.randrange(6) else order:
            pieces[place][name] = [whole[begin : begin + lengths[place]]]
            begin += lengths[place] + (gap if rng.randrange(2) else 0)
    compute_set = space.graph.add_compute_set()
    for fields in pieces:
        add(space, compute_set, Placed(codelet, rng.randrange(3), fields))
    program = Repeat(2, Execute(compute_set))
    with small_limits(rng):
        fast, slow = (contents_or_error(space, program, vertex_loop=way) for way in (False, True))
    _check_equal(fast, slow, source)


def check_random_branches(rng: Random) -> None:
    """Check one codelet of random branches and loops, on vertices in any order."""
    dtype = rng.choice([FLOAT, FLOAT, HALF, INT])
    size, count = rng.choice([1, 2, 3, 5]), rng.choice([1, 2, 7, 90])
    codelet, source = random_branching(rng, dtype, rng.randint(1, 3), size)
    space = Space(DEVICE, rng)
    sizes: dict[str, tuple[int, ...]] = {"n": (size,), "": ()}
    fields = {
        f: regions(rng, space, codelet.fields[f].dtype, sizes[s], count, codelet.fields[f].written)
        for f, s in BRANCHING.items()
    }
    compute_set = space.graph.add_compute_set()
    for i in range(count):
        add(
            space,
            compute_set,
            Placed(codelet, rng.randrange(3), {f: [views[i]] for f, views in fields.items()}),
        )
    program = Repeat(2, Execute(compute_set))
    with small_limits(rng):
        fast = contents_or_error(
            space,
            program,
            vertex_loop=False,
            shuffle=rng.choice([None, 3]),
            threads=rng.choice([1, 1, 3]),
        )
        slow = contents_or_error(space, program, vertex_loop=True)
    _check_equal(fast, slow, source)


def _check_equal(fast: Outcome, slow: Outcome, source: str) -> None:
    """Check that both runs failed, or that their variables have the same bits."""
    if isinstance(slow, CodeletError):
        assert isinstance(fast, CodeletError), source
    else:
        assert not isinstance(fast, CodeletError), f"{fast}\n{source}"
        assert differences(fast, slow) == [], source
