"""Modelled cycles of one vertex.

In this order: the vertex's own `set_perf_estimate`; the estimator registered for its codelet; the
codelet's own `cycles(self, target)`; the operations that were written down when it was traced.
Units: worker cycles (a worker issues once every six tile cycles), for a SupervisorVertex and a
MultiVertex tile cycles: of a MultiVertex, six times its slowest worker.

The counts of a trace become cycles by the table in docs/model.md:

- A vertex costs `VERTEX_OVERHEAD` to start (5: tut5 and tut6 of graphcore/examples guess the same),
  and one that has the tile to itself what a supervisor spends around its workers.
- Work on single elements issues one instruction a cycle: each load, each store, each operation of
  weight 1 is one cycle. A loop costs nothing more: the chip repeats instructions without a branch
  (`rpt`), and loads step their own addresses.
- Work on vectors moves a data path of elements an instruction (2 FLOAT, 4 HALF).
- What is more than one instruction costs what the inner loop of PopLibs' vertex does
  (`vertices.rates`).

`target.codelet_prices` says who wrote the instructions. "compiled": a C++ compiler. Loads,
arithmetic and stores follow each other, every loop over vectors has its start, and arrays that the
registers cannot hold are written to memory. "by hand": loads and stores go beside the arithmetic
(dual issue), two loads and one store a cycle (`ld2xst64pace`), so that a codelet's vector part
takes the longer of the two; and a product and a sum are one instruction where the chip has one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ipu_teach.compile.checks import vertex_name
from ipu_teach.compile.groups import Group
from ipu_teach.compile.scalar.writer import (
    AGAIN,
    BEYOND,
    COLUMN,
    FUSED,
    LOOP,
    OF_PRODUCT,
    PRODUCT,
    TALL,
    WIDE,
    PieceRate,
    PricedPiece,
)
from ipu_teach.compile.trace import Op, Ref, Trace, upper
from ipu_teach.cost.vertices.parts import COUNTERS, STARTS, SUPERVISOR_OVERHEAD, WORDS
from ipu_teach.cost.vertices.rates import BINARY, UNARY
from ipu_teach.graph.codelet_registry import said_cycles
from ipu_teach.graph.vertex import Vertex
from ipu_teach.target import BY_HAND, COMPILED, Target
from ipu_teach.types import FLOAT, HALF, INT, Array

VERTEX_OVERHEAD = 5
COMPILED_PRODUCT = 4  # instructions for a data path of a @ b: two loads, a product, a sum
# cycles before each loop over vectors: PopLibs' HadamardProd and Select have as many before each
# region
LOOP_START = 6
# data paths that a worker's arithmetic registers hold: 16 words, less the pair that reads as zero
REGISTERS = 7
UNKNOWN = -1

# numpy's functions that are more than one instruction, and the operations of PopLibs that they are
# made of.
OPERATIONS: dict[str, tuple[str, ...]] = {
    "divide": ("DIVIDE",),
    "reciprocal": ("INVERSE",),
    "sqrt": ("SQRT",),
    "exp": ("EXPONENT",),
    "exp2": ("EXPONENT2",),
    "log": ("LOGARITHM",),
    "log1p": ("LOGARITHM_ONE_PLUS",),
    "expm1": ("EXPONENT_MINUS_ONE",),
    "tanh": ("TANH",),
    "sin": ("SIN",),
    "cos": ("COS",),
    "tan": ("TAN",),
    "arcsin": ("ASIN",),
    "arctan2": ("ATAN2",),
    "power": ("POWER",),
    "remainder": ("REMAINDER",),
    "fmod": ("REMAINDER",),
    "floor_divide": ("DIVIDE", "FLOOR"),
    "cbrt": ("CBRT",),
    "floor": ("FLOOR",),
    "ceil": ("CEIL",),
    "rint": ("ROUND",),
    "trunc": ("TRUNC",),
    "sign": ("SIGNUM",),
}
_WHOLE_OPERATIONS = {
    "divide": "DIVIDE",
    "floor_divide": "DIVIDE",
    "remainder": "REMAINDER",
    "power": "POWER",
    "sqrt": "SQRT",
    "sign": "SIGNUM",
}
_POWERS = {2: "square", 0.5: "sqrt", -1: "reciprocal"}
_SELECT_WEIGHT = 5  # cycles an element of PopLibs' Select, which np.where is
_CLIP_WEIGHT = 2  # a minimum and a maximum, for a data path
# functions without a row of their own: the three cycles an element of PopLibs' argmax
_EACH_WEIGHT = 3


# Functions of an n x n matrix cost what the loops over single elements do that docs/codelets.md
# shows: instructions for each of the n rows, for each of the n (n - 1) / 2 pairs of them, and for
# each of the n (n * n - 1) / 6 turns of a loop over the rows from one of a pair on. A name stands
# for an operation, "move" for the load or store of an element, "decide" for what data decide.
_UPDATE = "move move move multiply fused"  # m[i, j] -= f * m[k, j]
_SWAP = "move move move move"
# Householder's reflections: of one column and an element below it, or a column behind it, or both
_BELOW = "move multiply fused move divide move move multiply move move"
_BESIDE = "move subtract multiply add move"
_REFLECTION = f"move move multiply fused {_UPDATE}"
# Elimination, with the largest element of each column as its pivot: in an update the later two
# loops have both the same ends, which are twice the turns above less the pairs.
_ELIMINATION = (
    f"move absolute {_SWAP}",
    f"move absolute greater decide {_SWAP} move move divide",
    f"{_UPDATE} {_UPDATE}",
)
_LOOPS: dict[str, tuple[str, str, str]] = {
    "solve": _ELIMINATION,
    "inv": (f"{_ELIMINATION[0]} move", *_ELIMINATION[1:]),  # of the columns of 1
    "det": (f"{_ELIMINATION[0]} move equal decide multiply multiply", *_ELIMINATION[1:]),
    "cholesky": ("move sqrt move", "move move divide move move move", _UPDATE),
    # of what is solved for: its swaps, and the two ways through the triangles
    COLUMN: (f"{_SWAP} move move divide move", f"{_UPDATE} {_UPDATE} move", ""),
    # of the square part: each column's reflection, of the columns behind it and of what comes out
    "qr": (
        "move multiply sqrt greater decide greater decide multiply subtract divide move move"
        " move subtract move",
        f"{_BELOW} {_BESIDE} multiply move",
        f"{_REFLECTION} {_REFLECTION} {_REFLECTION} {_REFLECTION}",
    ),
    TALL: (_BELOW, f"{_REFLECTION} {_REFLECTION}", ""),  # a row more than columns
    WIDE: (_BESIDE, _REFLECTION, ""),  # a column more than rows
}


def dense_cycles(name: str, dtype: np.dtype[Any], target: Target) -> str:
    """Cycles of one of the loops for functions of `{n}` x `{n}` matrices, as a text, in units of
    `UNIT`."""

    def units(names: str) -> int:
        plain = {"move": "", "decide": "", "fused": FUSED}
        found = (plain.get(one, one) for one in names.split())
        return sum(
            round(UNIT * single_cycles(one, dtype, target)) if one else UNIT for one in found
        )

    row, pair, turn = map(units, _LOOPS[name])
    if _LOOPS[name][2].count("fused") > 1:  # a square and not its half
        pair -= turn // 2
    return (
        f"({row} * ({{n}}) + {pair} * (({{n}}) * ({{n}} - 1) // 2)"
        f" + {turn} * (({{n}}) * (({{n}}) * ({{n}}) - 1) // 6))"
    )


def array_cycles(name: str, dtype: np.dtype[Any], elements: int, target: Target) -> float:
    """Issue cycles of numpy's function `name` for so many elements of `dtype`, side by side in an
    array.

    PopLibs' loops take two or four elements a turn where the data path holds as many; a wider one
    would not change those.
    """
    if name == "where":
        return _SELECT_WEIGHT * elements
    if dtype.kind != "f":  # integers have no vectors
        rate = (UNARY | BINARY).get((_WHOLE_OPERATIONS.get(name, ""), INT))
        return elements * (
            rate.cycles / rate.elements if rate else _CLIP_WEIGHT if name == "clip" else 1
        )
    paths = -(-elements // _width(dtype, target))
    if name == "clip":
        return _CLIP_WEIGHT * paths
    kind = HALF if dtype.itemsize == 2 else FLOAT
    rates = [(UNARY | BINARY)[op, kind] for op in OPERATIONS.get(name, ())]
    return (
        sum(
            rate.cycles * (-(-elements // rate.elements) if rate.elements else paths)
            for rate in rates
        )
        or paths
    )


class Tally:
    """The instructions of a trace, by what they are.

    `charges`: what each of its steps is charged, and on which of the `COUNTERS`.
    """

    def __init__(self, trace: Trace, target: Target) -> None:
        self.trace, self.target, self.by_hand = trace, target, target.codelet_prices == BY_HAND
        self.charges: list[tuple[str, Op, float]] = []
        self.loops = 0  # over vectors, those that are over
        self.loaded: set[Any] = set()  # by the loop at hand
        self.made: dict[int, int] = {}  # by temporary array: the loop that works it out
        self.written: set[int] = set()  # temporary arrays that went to memory
        stored = {trace.roots[op.args[0].id] for op in trace.ops if op.kind == "store"}
        known = {n for n, f in trace.codelet.fields.items() if f.kind == "state" and not f.depth}
        self.constants = {
            root for root, (name, _) in trace.regions.items() if name in known
        } - stored
        self.users = Counter(a.id for op in trace.ops for a in op.args if isinstance(a, Ref))
        self.products = {
            op.result: op for op in trace.ops if op.kind == "ufunc" and _name(op) == "multiply"
        }
        for op in trace.ops:
            self._add(op)

    def _add(self, op: Op) -> None:
        samples = self.trace.samples
        if op.kind == "read":
            self._charge("scalar", op, self.trace.roots[op.args[0].id] not in self.constants)
        elif op.kind == "store":
            into, value = op.args
            if samples[into.id].ndim == 0:
                self._charge("scalar", op, 1)
                self._charge(WORDS, op, store_cycles(samples[into.id].dtype) - 1)
                return
            if isinstance(value, Ref) and not self.by_hand:
                self._charge("loads", op, self._load(value, op))
            outside = self.trace.roots[into.id] in self.trace.regions
            self._charge(
                "stores",
                op,
                _paths(samples[into.id], self.target)
                if outside
                else self._beyond(samples[into.id]),
            )
            self._end_loop(op)
        elif op.kind not in ("region", "view", "local"):
            self._work(op)

    def _work(self, op: Op) -> None:
        result = self.trace.samples[op.result]
        if op.fn is upper:  # what the function before it made, too
            self.made[op.result] = self.loops
            return
        work = 0.0 if self.by_hand and self._fused(op) else _work(self.trace, op, self.target)
        sources = [a for a in op.args if isinstance(a, Ref)]
        if not np.ndim(result) and not any(np.ndim(self.trace.samples[a.id]) for a in sources):
            self._charge("scalar", op, work)
            return
        compiled_product = op.kind == "product" and not self.by_hand
        self._charge("vector", op, COMPILED_PRODUCT * work if compiled_product else work)
        self._charge("loads", op, sum(self._load(a, op) for a in sources if not compiled_product))
        if op.kind in ("product", "reduce", "dense", "each"):
            self._end_loop(op, np.size(result) if op.kind == "product" else 1)
        self.made[op.result] = self.loops

    def _load(self, argument: Ref, op: Op) -> float:
        """Data paths that are read of an operand."""
        trace, sample = self.trace, np.asarray(self.trace.samples[argument.id])
        root, paths = trace.roots[argument.id], _paths(sample, self.target)
        if self.by_hand:
            times = 1
            if (
                op.kind == "product"
                and sample.ndim < 2 < 2 * sample.ndim
                and np.ndim(trace.samples[op.result])
            ):
                # a vector that meets a matrix is read once for each result
                times = np.size(trace.samples[op.result])
            return paths * times if root in trace.regions else 0
        place = sample.__array_interface__["data"][0], sample.shape, sample.strides
        if not sample.ndim or place in self.loaded or self.made.get(root) == self.loops:
            return 0
        self.loaded.add(place)
        if root in trace.regions:
            return paths
        if root in self.made and root not in self.written:
            self.written.add(root)
            self._charge("stores", op, self._beyond(trace.samples[root]))
        return self._beyond(sample)

    def _beyond(self, sample: Any) -> float:
        """Data paths of a temporary array that the registers cannot hold."""
        return 0 if self.by_hand else max(0, _paths(sample, self.target) - REGISTERS)

    def _end_loop(self, op: Op, times: int = 1) -> None:
        self.loops += times
        self.loaded.clear()
        if not self.by_hand:
            self._charge(STARTS, op, LOOP_START * times)

    def _charge(self, counter: str, op: Op, cycles: float) -> None:
        if cycles:
            self.charges.append((counter, op, cycles))

    def _fused(self, op: Op) -> bool:
        """True for a sum or difference that is one instruction with a product, which nothing else
        takes."""
        samples = self.trace.samples
        kind = np.asarray(samples[op.result]).dtype
        if op.kind not in ("ufunc", "reduce") or _name(op) not in ("add", "subtract"):
            return False
        for a in op.args:
            product = (
                self.products.get(a.id) if isinstance(a, Ref) and self.users[a.id] == 1 else None
            )
            if (
                product is not None
                and np.asarray(samples[product.result]).dtype == kind
                and kind.kind == "f"
            ):
                if op.kind == "reduce":  # f32v2mac, f16v4cmac
                    return True
                if np.ndim(samples[op.result]):  # f32v2axpy, f16v4mix: of a number and a vector
                    return any(
                        np.ndim(samples[x.id] if isinstance(x, Ref) else x) == 0
                        for x in product.args
                    )
                return bool(kind.itemsize >= 4)  # f32mac
        return False

    @property
    def cycles(self) -> int:
        """Worker cycles of one vertex."""
        total = dict.fromkeys(COUNTERS, 0.0)
        for counter, _, cycles in self.charges:
            total[counter] += UNIT * cycles
        *single, vector, loads, stores = total.values()
        return int(
            VERTEX_OVERHEAD
            + np.ceil((sum(single) + together((vector, loads, stores), self.target)) / UNIT)
        )


def trace_cycles(trace: Trace, target: Target) -> int:
    """Worker cycles of one vertex, counted from its trace."""
    return Tally(trace, target).cycles


def store_cycles(dtype: np.dtype[Any]) -> int:
    """Cycles of storing one element: memory is written by the word, and the rest of a word must be
    read first."""
    return 1 if dtype.itemsize >= 4 else 3


def _width(dtype: np.dtype[Any], target: Target) -> int:
    """Elements of `dtype` that fill the data path."""
    return max(1, target.data_path_width // (8 * dtype.itemsize))


def _paths(sample: Any, target: Target) -> float:
    """Data paths that an array fills: 64-bit loads, stores or operations."""
    sample = np.asarray(sample)
    return float(-(-sample.size // _width(sample.dtype, target)))


def _work(trace: Trace, op: Op, target: Target) -> float:
    """Issue cycles of one operation: data paths (or single elements) times weight."""
    result = np.asarray(trace.samples[op.result])
    sources = [np.asarray(trace.samples[a.id]) for a in op.args if isinstance(a, Ref)]
    if op.kind == "product":
        return float(result.size * -(-sources[0].shape[-1] // _width(result.dtype, target)))
    name = _name(op)
    if op.kind == "dense":
        m, n = sources[0].shape
        more = {"solve": (COLUMN, result.size // max(1, n)), "inv": (COLUMN, n)}
        rest, times = more.get(name, (TALL, m - n) if m > n else (WIDE, n - m))
        texts = (dense_cycles(one, result.dtype, target) for one in (name, rest))
        once, each = (eval(text.format(n=min(m, n))) for text in texts)
        return float((once + times * each) / UNIT)
    if op.kind == "each" and name not in ("power", *_POWERS.values()):
        return float(_EACH_WEIGHT * max(s.size for s in sources))
    work = sources[0] if op.kind == "reduce" else result
    if work.ndim == 0:
        return single_cycles(name, work.dtype, target)
    return array_cycles(name, work.dtype, work.size, target)


def _name(op: Op) -> str:
    """The function of an operation, as numpy calls it. Three powers have instructions of their
    own."""
    name = str(getattr(op.fn, "__name__", ""))
    if name not in ("pow", "power"):
        return name
    exponent = op.args[1]
    return (
        "power"
        if isinstance(exponent, Ref) or np.ndim(exponent)
        else _POWERS.get(exponent, "power")
    )


def single_cycles(name: str, dtype: np.dtype[Any], target: Target) -> float:
    """Issue cycles of one operation, by numpy's name for it, whose result is a single element of a
    numpy dtype."""
    if name == FUSED:
        return 0.0 if target.codelet_prices == BY_HAND else 1.0
    width = _width(dtype, target)
    return max(1.0, array_cycles(name, dtype, width, target) / width)


UNIT = 16  # of a cycle: scalar loops count in these, so that 5.25 cycles are a whole number
# What work on whole regions takes, as the texts of scalar loops say it: the one place where that
# stands.
TOGETHER = {COMPILED: "vec + loads + stores", BY_HAND: "max(vec, loads // 2, stores)"}
_TOGETHER = {prices: compile(text, "together", "eval") for prices, text in TOGETHER.items()}


def together(beside: Sequence[float], target: Target) -> float:
    """What work on whole regions, its loads and its stores take: of each so many, in units of
    `UNIT`."""
    return float(
        eval(
            _TOGETHER[target.codelet_prices],
            {},
            dict(zip(("vec", "loads", "stores"), beside, strict=True)),
        )
    )


def piece_cycles(piece: PricedPiece, target: Target) -> int:
    """Cycles of a straight piece of a scalar loop, in units of `UNIT`."""
    by_hand = target.codelet_prices == BY_HAND

    def units(name: str, kind: str) -> int:
        if name == LOOP:
            return 0 if by_hand else UNIT * LOOP_START
        return round(UNIT * single_cycles(name, np.dtype(kind), target)) if name else UNIT

    return sum(times * units(name, kind) for (name, kind, _), times in piece)


def rate_cycles(rate: PieceRate, target: Target) -> list[tuple[int, int, int]]:
    """Cycles of an operation on a whole region of a scalar loop, in units of `UNIT`.

    Each entry: so many for every so many elements, beyond the first of these.
    """
    name, dtype = rate[0], np.dtype(rate[1])
    width, by_hand = _width(dtype, target), target.codelet_prices == BY_HAND
    if (
        name in (BEYOND, LOOP)
        and by_hand
        or name in (AGAIN, OF_PRODUCT)
        and not by_hand
        or name == FUSED
        and by_hand
    ):
        return []
    if name == BEYOND:
        return [(UNIT, width, REGISTERS)]
    if name == LOOP:
        return [(UNIT * LOOP_START, 1, 0)]
    if name == PRODUCT:
        return [(UNIT * (1 if by_hand else COMPILED_PRODUCT), width, 0)]
    if name in ("", AGAIN, OF_PRODUCT):
        return [(UNIT, width, 0)]
    if name in ("each", "where"):
        return [(UNIT * (_EACH_WEIGHT if name == "each" else _SELECT_WEIGHT), 1, 0)]
    if name == "clip" and dtype.kind == "f":
        return [(UNIT * _CLIP_WEIGHT, width, 0)]
    if dtype.kind != "f":
        return [(round(UNIT * single_cycles(name, dtype, target)), 1, 0)]
    kind = HALF if dtype.itemsize == 2 else FLOAT
    rates = [(UNARY | BINARY)[op, kind] for op in OPERATIONS.get(name, ())]
    return [(round(UNIT * r.cycles), r.elements or width, 0) for r in rates] or [(UNIT, width, 0)]


def priced_for(codelet: type[Vertex], target: Target) -> Target:
    """`target` with the prices of a codelet: the library's are by hand."""
    return replace(target, codelet_prices=BY_HAND) if of_library(codelet) else target


def depends_on_data(group: Group) -> bool:
    """True if the cycles of a vertex of `group` are known only when it has run."""
    if (
        group.scalar is None
        or not group.trace.stopped
        or group.estimator is not None
        or hasattr(group.table.codelet, "cycles")
    ):
        return False
    return bool(np.any(group.table.estimates[group.rows] < 0))


def rate_text(rate: PieceRate, target: Target) -> str:
    """As a text: those cycles for `{n}` elements."""

    if rate[0] in _LOOPS:
        return dense_cycles(rate[0], np.dtype(rate[1]), target)

    def part(cycles: int, width: int, kept: int) -> str:
        paths = f"({{n}} + {width - 1}) // {width}"
        return f"{cycles} * max(0, {paths} - {kept})" if kept else f"{cycles} * ({paths})"

    return " + ".join(part(*each) for each in rate_cycles(rate, target)) or "0"


def launch_cycles(codelet: type[Vertex]) -> int:
    """Tile cycles that a supervisor spends around its workers: of a vertex that has the tile to
    itself."""
    return 0 if codelet.context == "worker" else SUPERVISOR_OVERHEAD


def of_library(codelet: type[Vertex]) -> bool:
    """True for the vertices of the kit's libraries, templates among them."""
    return any(base.__module__.startswith("ipu_teach.poplibs") for base in codelet.__mro__)


def column_of(group: Group, column: Array) -> Array:
    """The entries of a column of the group's table that belong to the group. What is all of it is
    not copied."""
    return column if len(group.rows) == len(column) else column[group.rows]


def vertex_cycles(group: Group, target: Target, measured: Array | None = None) -> Array:
    """int64, one entry for each vertex of `group`: its modelled cycles, or `UNKNOWN`.

    `measured`: worker cycles of each vertex in one execution, where they depend on data. Raises
    `InvalidPerfEstimateError` if an estimator, or the codelet's own `cycles`, fails or gives no
    number of cycles.
    """
    given = column_of(group, group.table.estimates)
    if np.all(given >= 0):
        return given
    codelet = group.table.codelet
    target = priced_for(codelet, target)
    start = launch_cycles(codelet)
    modelled: int | Array
    said = said_cycles(
        codelet, group.estimator, group.shapes, target, vertex_name(group.table, int(group.rows[0]))
    )
    if said is not None:
        modelled = said
    elif measured is not None:
        modelled = (
            measured * target.num_worker_contexts if codelet.context == "supervisor" else measured
        )
        modelled = np.where(measured < 0, UNKNOWN, modelled + start)
    elif group.trace.stopped:
        modelled = UNKNOWN
    elif group.workers:
        # The tile is done when its slowest worker is; a worker issues once in as many cycles as
        # there are workers.
        modelled = (
            len(group.workers) * max(trace_cycles(trace, target) for _, trace in group.workers)
            + start
        )
    else:
        modelled = trace_cycles(group.trace, target)
        if codelet.context == "supervisor":
            # one worker of six does it all
            modelled = modelled * target.num_worker_contexts + start
    return np.where(given >= 0, given, modelled)
