"""Compare random collectives with numpy, across replicas and within one.

Shapes, dtypes, operators, groups, methods and layouts are random.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from ipu_teach import BOOL, FLOAT, HALF, INT, UNSIGNED_INT, Device, Engine, Graph, IPUModel, Tensor
from ipu_teach.poplibs import gcl
from ipu_teach.poplibs.gcl.ring import METHODS
from ipu_teach.program import Sequence

OPERATORS: dict[str, Any] = {
    "ADD": np.add.reduce,
    "MEAN": lambda rows: rows.astype(np.float64).mean(0),
    "MUL": np.multiply.reduce,
    "MIN": np.minimum.reduce,
    "MAX": np.maximum.reduce,
    "LOGICAL_AND": np.logical_and.reduce,
    "LOGICAL_OR": np.logical_or.reduce,
}
KINDS = {
    "all_reduce": True,
    "all_reduce_in_place": True,
    "reduce_scatter": True,
    "all_gather": False,
    "all_to_all": False,
    "broadcast": False,
}


@dataclass(frozen=True)
class Drawn:
    """A collective: `ranks` replicas of `each` IPUs, or `ranks` IPUs, in groups of `size`."""

    seed: int
    kind: str
    across: bool
    ranks: int
    each: int
    tiles: int
    size: int
    group: gcl.CommGroup
    shape: tuple[int, ...]
    several: int
    dtype: Any
    op: str
    method: str
    root: int


def draw(seed: int) -> Drawn:
    rng = Random(seed)
    ranks, across = rng.randint(1, 9), rng.random() < 0.6
    size = rng.choice([n for n in range(1, ranks + 1) if ranks % n == 0])
    kinds = [gcl.CommGroupType.CONSECUTIVE, gcl.CommGroupType.ORTHOGONAL]
    group = gcl.CommGroup() if size == ranks else gcl.CommGroup(rng.choice(kinds), size)
    kind = rng.choice(list(KINDS))
    shape = rng.choice([(rng.randint(0, 40),), (rng.randint(1, 200),), (2, 3), (), (3, 1, 5)])
    dtype = rng.choice([FLOAT, HALF, INT, UNSIGNED_INT, BOOL])
    op = rng.choice(
        ["LOGICAL_AND", "LOGICAL_OR"]
        if dtype is BOOL
        else ["ADD", "MUL", "MIN", "MAX", *(["MEAN"] if dtype in (FLOAT, HALF) else [])]
    )
    return Drawn(
        seed,
        kind,
        across,
        ranks,
        rng.choice([1, 1, 2]) if across else 1,
        rng.randint(1, 4),
        size,
        group,
        (size, *shape) if kind == "all_to_all" else shape,
        rng.choice([1, 1, 2, 3]) if kind.startswith("all_reduce") else 1,
        dtype,
        op,
        rng.choice(["auto", *METHODS]),
        rng.randrange(size),
    )


def _placed(graph: Graph, drawn: Drawn, name: str, first: int, tiles: int, rng: Any) -> Tensor:
    """Return a tensor with a random layout on some tiles."""
    made = graph.add_variable(drawn.dtype, drawn.shape, name)
    flat = made.flatten()
    graph.set_tile_mapping(flat, first + np.sort(rng.integers(0, tiles, flat.num_elements)))
    graph.create_host_write(f"write {name}", made)
    return made


def expected(drawn: Drawn, values: Any) -> Any:
    """Return the result of each rank: [ranks, …] for values [ranks, …]."""
    rows = [None] * drawn.ranks
    many = drawn.ranks // drawn.size
    for r in range(drawn.ranks):
        if drawn.group.kind is gcl.CommGroupType.ORTHOGONAL:
            members = [m for m in range(drawn.ranks) if m % many == r % many]
        else:
            members = [m for m in range(drawn.ranks) if m // drawn.size == r // drawn.size]
        place, of = members.index(r), values[members]
        if KINDS[drawn.kind]:
            rows[r] = OPERATORS[drawn.op](of)
        if drawn.kind == "reduce_scatter":
            flat = np.ravel(rows[r])
            m = -(-flat.size // drawn.size)
            rows[r] = np.pad(flat, (0, m * drawn.size - flat.size))[place * m : place * m + m]
        elif drawn.kind == "all_gather":
            rows[r] = of
        elif drawn.kind == "all_to_all":
            rows[r] = of[:, place]
        elif drawn.kind == "broadcast":
            rows[r] = of[drawn.root]
    return np.array(rows)


def differs(drawn: Drawn) -> str:
    """Return how a collective differs from numpy, or ""."""
    rng = np.random.default_rng(drawn.seed)
    tiles = drawn.tiles
    target = IPUModel("ipu2", tiles_per_ipu=tiles, num_ipus=drawn.ranks * drawn.each).target
    graph, prog = Graph(target, drawn.ranks if drawn.across else 1), Sequence()
    span = tiles * drawn.each
    data: list[Any] = []
    for k in range(drawn.several):
        if drawn.across:
            data.append(_placed(graph, drawn, f"{k}", 0, span, rng))
        else:
            data.append(
                [_placed(graph, drawn, f"{k} {r}", r * span, span, rng) for r in range(drawn.ranks)]
            )
    call = getattr(gcl, f"{drawn.kind}_{'cross' if drawn.across else 'within'}_replica")
    given: Any = data if drawn.several > 1 else data[0]
    options = {} if drawn.kind in ("all_to_all", "broadcast") else {"method": drawn.method}
    more: dict[str, Any] = {"root_replica": drawn.root} if drawn.kind == "broadcast" else {}
    if drawn.kind != "broadcast":
        more["options"] = options
    if KINDS[drawn.kind]:
        found = call(graph, given, drawn.op, prog, drawn.group, **more)
    else:
        found = call(graph, given, prog, drawn.group, **more)
    found = given if drawn.kind == "all_reduce_in_place" else found
    results = found if drawn.several > 1 else [found]
    for k, result in enumerate(results):
        for r, tensor in enumerate([result] if drawn.across else result):
            graph.create_host_read(f"read {k} {r}", tensor)
    engine = Engine(graph, prog)
    engine.load(Device(target))
    top = 2 if drawn.op == "MUL" or drawn.dtype is BOOL else 9  # small, so that sums are exact
    low = 1 if drawn.op == "MUL" else 0
    values = rng.integers(
        low, top + (drawn.dtype is not BOOL), (drawn.several, drawn.ranks, *drawn.shape)
    )
    values = values.astype(drawn.dtype.numpy)
    for k in range(drawn.several):
        for r in range(1 if drawn.across else drawn.ranks):
            name = f"write {k}" + ("" if drawn.across else f" {r}")
            engine.write_tensor(name, values[k] if drawn.across else values[k, r])
    engine.run()
    for k in range(drawn.several):
        got = np.array(
            engine.read_tensor(f"read {k} 0")
            if drawn.across
            else [engine.read_tensor(f"read {k} {r}") for r in range(drawn.ranks)]
        )
        want = expected(drawn, values[k])
        got = got.reshape(want.shape)  # one replica has no axis for replicas
        # A mean of three is rounded once more.
        loose = drawn.op == "MEAN" and KINDS[drawn.kind]
        within = (1e-6 if drawn.dtype is FLOAT else 2e-3) if loose else 0
        if not np.allclose(got.astype(np.float64), want.astype(np.float64), within, 0):
            return f"{drawn}: {got.tolist()} in place of {want.tolist()}"
    return ""
