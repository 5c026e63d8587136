"""A graph as a file: JSON, with the numbers of its variables beside it."""

from __future__ import annotations

from collections.abc import Collection
from os import PathLike
from typing import Any

import numpy as np

from ipu_teach.arguments import check_calls
from ipu_teach.errors import IPUTeachError, ModelLoadError
from ipu_teach.frontends.ir.values import (
    CONSTANT,
    DTYPES,
    INPUT,
    MADE,
    OPS,
    PARTS,
    VARIABLE,
    Ir,
    Op,
    Unfit,
    Value,
    misuse,
)
from ipu_teach.saving import schema as s
from ipu_teach.saving.archive import Format, read_whole, write_whole
from ipu_teach.schedules import SCHEDULES
from ipu_teach.types import BOOL, DType

MODEL = Format("model", 1, "ir.save", ModelLoadError, ModelLoadError)
MOST_SIZE = 2**24  # of a dimension
MOST_ELEMENTS = 2**32
MOST_STAGES = 4096
DEEPEST = 4  # lists within lists of an attribute, and graphs within graphs


def save(ir: Ir, path: str | PathLike[str]) -> None:
    """Write a graph, with the initial values of its variables. Custom operations are saved by
    name."""
    write_whole(path, written(ir), "save()", "model")


def load(path: str | PathLike[str]) -> Ir:
    """The graph that `save` wrote. Every operation is checked by its row again. Raises
    `ModelLoadError`."""
    return read_whole(path, "load()", MODEL, loaded)


def written(ir: Ir) -> bytes:
    """The file of a graph."""
    out = s.Columns()
    header = _GRAPH.write(ir, out)
    return MODEL.pack({"values": out.table("values"), **header}, out.arrays())


def loaded(data: bytes) -> Ir:
    """The graph of a file. Raises `ModelLoadError`."""
    return s.load(data, MODEL, _read)


def _among(names: Collection[str], wanted: str) -> s.Codec:
    return s.checked(s.TEXT, lambda text: text in names, wanted)


def _dtype() -> s.Codec:
    name = _among(DTYPES, f"one of {', '.join(DTYPES)}")
    return s.Codec(lambda v, _: v.__name__, lambda p: DTYPES[name.read(p)])


def _attribute(part: s.HeaderValue, depth: int = DEEPEST) -> Any:
    value = part.value
    if isinstance(value, list) and depth and len(value) <= s.LONGEST:
        return tuple(_attribute(each, depth - 1) for each in part.items())
    if isinstance(value, dict) and "graph" in value:
        if part.where.count(".graph") >= DEEPEST:
            part.fail(f"a graph in {DEEPEST} others at most")
        return _graph(part["graph"])
    if isinstance(value, dict):
        return DTYPE.read(part["dtype"])
    if type(value) is int and abs(value) >= MOST_ELEMENTS:
        part.fail(f"a number below {MOST_ELEMENTS:,}")
    if value is not None and type(value) not in (int, float, bool, str):
        part.fail("an attribute of an operation")
    return value


def _as_json(value: Any, out: Any = None) -> Any:
    if isinstance(value, type) and issubclass(value, DType):
        return {"dtype": value.__name__}
    if isinstance(value, Ir):
        return {"graph": _GRAPH.write(value, out)}
    if isinstance(value, (list, tuple)):
        return [_as_json(each) for each in value]
    return value.item() if isinstance(value, np.generic) else value


def _write_initial(array: Any, out: s.Columns) -> Any:
    bits = np.ascontiguousarray(array).reshape(-1).view(f"u{array.dtype.itemsize}")
    return [list(array.shape), out.add(bits)]


def _value(initial: Any, **given: Any) -> Value:
    """A value of the file, whose initial value is as long as its shape says."""
    made = Value(**given)
    shape, bits = initial or ((), np.zeros(1, np.int64))
    most = 2 if made.dtype is BOOL else 2 ** (8 * made.dtype.size)
    faults = {
        "is too large": made.size > MOST_ELEMENTS,
        f"is {made.kind}, of which no values are kept, or all": (initial is not None)
        != (made.kind in (VARIABLE, CONSTANT)),
        "has values of another shape": shape not in ((), made.shape)
        or bits.size != np.prod(shape, dtype=int),
        "has values that are none of its dtype": bits.size and int(bits.max()) >= most,
    }
    for fault, found in faults.items():
        if found:
            raise ModelLoadError(
                f"The model is damaged: {made!r} {fault}.", next_step="save it again."
            )
    if initial is not None:
        bits = bits.astype(f"u{made.dtype.size}").view(made.dtype.numpy)
        made.initial = bits.reshape(shape)
    return made


DTYPE = _dtype()
_SIZE = s.many(s.whole(0, MOST_SIZE), 16, "a shape of at most 16 dimensions")
_BITS = s.pair(_SIZE, s.column())
_WHOLE = s.whole(-(2**32), 2**32)
VALUE = s.row(
    _value,
    name=s.TEXT,
    kind=_among((MADE, VARIABLE, INPUT, CONSTANT), "a kind of value"),
    dtype=DTYPE,
    shape=_SIZE,
    initial=s.maybe(s.Codec(_write_initial, _BITS.read)),
    below=s.maybe(_WHOLE),
    ignored=s.maybe(_WHOLE),
    remote=s.FLAG,
    sharded=s.FLAG,
)
_ONE = s.once("values", VALUE, key=id)
_SEVERAL = s.many(_ONE)
_OP = s.row(
    Op,
    kind=s.TEXT,
    inputs=_SEVERAL,
    outs=_SEVERAL,
    attrs=s.named(s.Codec(_as_json, _attribute)),
    stage=s.whole(0, MOST_STAGES),
    part=_among(PARTS, "forward, backward or update"),
    phase=s.whole(0, MOST_STAGES),
    path=s.TEXT,
)
_GRAPH = s.keyed(
    Ir,
    variables=s.named(_ONE),
    inputs=s.named(_ONE),
    ops=s.Codec(s.many(_OP).write, lambda p: list(s.many(_OP).read(p))),
    outputs=s.named(_ONE),
    replicas=s.whole(1, MOST_STAGES),
    accumulation=s.whole(1, MOST_SIZE),
    schedule=_among(("", *SCHEDULES), "a schedule"),
)


def _read(header: s.HeaderValue) -> Ir:
    s.told("values", s.many(VALUE)).read(header["values"])
    return _graph(header)


def _graph(header: s.HeaderValue) -> Ir:
    ir: Ir = _GRAPH.read(header)
    ir.made = sum(len(op.outs) for op in ir.ops)
    for kind, named in ((VARIABLE, ir.variables), (INPUT, ir.inputs)):
        for name, value in named.items():
            if value.name != name or value.kind != kind or not name:
                header["variables" if kind == VARIABLE else "inputs"].fail(f"a {kind} of its name")
    if ir.variables.keys() & ir.inputs.keys():
        header["inputs"].fail("names of which no variable has one")
    known = {*ir.variables.values(), *ir.inputs.values()}
    for number, op in enumerate(ir.ops):
        place = header["ops"][number]
        if op.kind not in OPS:
            raise ModelLoadError(
                f"The model has the operation {op.kind!r}, which is not in the table.",
                where=place.where,
                next_step=f"register it before: ir.register({op.kind!r}, …).",
            )
        if not all(v in known or v.kind == CONSTANT for v in op.inputs):
            place[1].fail("values that are there by then")
        if any(v in known or v.kind != MADE for v in op.outs) or len({*op.outs}) < len(op.outs):
            place[2].fail("values that only this operation makes")
        known.update(op.outs)
        _check_by_row(op, place)
    if not known.issuperset(ir.outputs.values()):
        header["outputs"].fail("values of the graph")
    return ir


def _check_by_row(op: Op, place: s.HeaderValue) -> None:
    """What the row says of the inputs is what the file says of the outputs."""
    row = OPS[op.kind]
    try:
        found = row.shape(*op.inputs, **op.attrs)
    except (Unfit, IPUTeachError, TypeError, ValueError, LookupError) as error:
        place.fail(f"an operation that can be: {str(error).splitlines()[0]}")
    outs = [] if row.in_place else found if isinstance(found, list) else [found]
    if [(tuple(o.shape), o.dtype) for o in outs] != [(v.shape, v.dtype) for v in op.outs]:
        place[2].fail("what its row makes")
    if row.in_place and op.inputs[0].kind != VARIABLE:
        place[1].fail("a variable, and what changes it")


check_calls(globals(), misuse)
