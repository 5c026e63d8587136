"""Save a graph to a file and load it.

The file contains the graph as JSON, and the initial values of variables as arrays.
"""

from __future__ import annotations

from collections.abc import Collection
from os import PathLike
from typing import TYPE_CHECKING, TypeAlias, TypedDict

import numpy as np

from ipu_teach.arguments import check_calls
from ipu_teach.errors import IPUTeachError, ModelLoadError
from ipu_teach.frontends.ir.attributes import Attribute
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
from ipu_teach.types import BOOL, Array, DType

MODEL = Format("model", 2, "ir.save", error=ModelLoadError, missing=ModelLoadError)
if TYPE_CHECKING:
    from typing_extensions import Unpack

MAX_SIZE = 2**24  # The maximum length of a dimension.
MAX_ELEMENTS = 2**32
MAX_STAGES = 4096
MAX_DEPTH = 4  # The maximum depth of nested lists in an attribute, and of nested graphs.
Json: TypeAlias = "str | float | list[Json] | dict[str, Json] | None"


class _Fields(TypedDict):
    """The attributes of a `Value` that a file contains, except the initial value."""

    name: str
    kind: str
    dtype: type[DType]
    shape: tuple[int, ...]
    below: int | None
    ignored: int | None
    from_end: bool
    remote: bool
    sharded: bool


def save(ir: Ir, path: str | PathLike[str]) -> None:
    """Write a graph to the file `path`, with the initial values of its variables.

    For an operation that a user has registered, the file contains only the operation's name. Raises
    an error if the file cannot be written.
    """
    write_whole(path, graph_to_bytes(ir), "save()", "model")


def load(path: str | PathLike[str]) -> Ir:
    """Return the graph that `save` has written to the file `path`.

    The shapes and dtypes of every operation are checked.

    :raises ModelLoadError: if the file is damaged or is not a graph, or if an operation is not in
        the table `OPS`.
    """
    return read_whole(path, "load()", MODEL, graph_from_bytes)


def graph_to_bytes(ir: Ir) -> bytes:
    """Return the contents of the file that `save` writes for a graph."""
    out = s.Columns()
    header = _GRAPH.write(ir, out)
    return MODEL.pack({"values": out.table("values"), **header}, out.arrays())


def graph_from_bytes(data: bytes) -> Ir:
    """Return the graph from the contents of a file that `save` has written.

    :raises ModelLoadError: if the contents are damaged or unsuitable, as for `load`.
    """
    return s.load(data, MODEL, _read)


def _among(names: Collection[str], wanted: str) -> s.Codec:
    """Return a codec for a string that must be in `names`.

    A codec converts a value to JSON and back. `wanted` describes the permitted strings in error
    messages.
    """
    return s.checked(s.TEXT, lambda text: text in names, wanted)


def _dtype() -> s.Codec:
    """Return a codec that converts a dtype to its name and back."""
    name = _among(DTYPES, f"one of {', '.join(DTYPES)}")
    return s.Codec(lambda v, _: v.__name__, lambda p: DTYPES[name.read(p)])


def _attribute(part: s.HeaderValue, depth: int = MAX_DEPTH) -> Attribute:
    """Return the attribute of an operation that `part` describes.

    `part` is JSON in the header of a file. Lists may be nested up to `depth` levels deep.

    :raises ModelLoadError: for a value that no attribute can have.
    """
    value = part.value
    if isinstance(value, list) and depth and len(value) <= s.LONGEST:
        return tuple(_attribute(item, depth - 1) for item in part.items())
    if isinstance(value, dict) and "graph" in value:
        if part.where.count(".graph") >= MAX_DEPTH:
            part.fail(f"a graph inside at most {MAX_DEPTH} others")
        return _graph(part["graph"])
    if isinstance(value, dict):
        return DTYPE.read(part["dtype"])
    if type(value) is int and abs(value) >= MAX_ELEMENTS:
        part.fail(f"a number below {MAX_ELEMENTS:,}")
    if value is not None and type(value) not in (int, float, bool, str):
        part.fail("an attribute of an operation")
    return value


def _as_json(value: Attribute, out: s.Columns) -> Json:
    """Return an attribute of an operation as JSON.

    If the attribute is a graph, the elements of its constants and variables are added to `out`.
    """
    if isinstance(value, type) and issubclass(value, DType):
        return {"dtype": value.__name__}
    if isinstance(value, Ir):
        return {"graph": _GRAPH.write(value, out)}
    if isinstance(value, (list, tuple)):
        return [_as_json(item, out) for item in value]
    plain: Json = value.item() if isinstance(value, np.generic) else value
    return plain


def _write_initial(array: Array, out: s.Columns) -> list[Json]:
    """Return `[shape, column]` for an initial value.

    The elements are added to the file as an array of unsigned integers with the same bits. `column`
    refers to this array.
    """
    bits = np.ascontiguousarray(array).reshape(-1).view(f"u{array.dtype.itemsize}")
    return [list(array.shape), out.add(bits)]


def _value(initial: tuple[tuple[int, ...], Array] | None, **fields: Unpack[_Fields]) -> Value:
    """Return a `Value` with the attributes that a file contains.

    `initial` is the initial value as (shape, bits). `bits` contains the elements as unsigned
    integers, or a single element if all are equal.

    :raises ModelLoadError: if the attributes contradict each other.
    """
    value = Value(**fields)
    shape, initial_bits = initial or ((), np.zeros(1, np.int64))
    bits_end = 2 if value.dtype is BOOL else 2 ** (8 * value.dtype.size)
    needs_initial = value.kind in (VARIABLE, CONSTANT)
    faults = {
        "is too large": value.size > MAX_ELEMENTS,
        f"is of the kind {value.kind}, but has "
        f"{'no initial value' if needs_initial else 'an initial value'}": (initial is not None)
        != needs_initial,
        "has an initial value of another shape": shape not in ((), value.shape)
        or initial_bits.size != np.prod(shape, dtype=int),
        "has numbers out of the range of its dtype": initial_bits.size
        and int(initial_bits.max()) >= bits_end,
    }
    for fault, is_present in faults.items():
        if is_present:
            raise ModelLoadError(
                f"The model is damaged: {value!r} {fault}.", next_step="save it again."
            )
    if initial is not None:
        initial_bits = initial_bits.astype(f"u{value.dtype.size}").view(value.dtype.numpy)
        value.initial = initial_bits.reshape(shape)
    return value


DTYPE = _dtype()
_SIZE = s.many(s.whole(0, MAX_SIZE), 16, "a shape of at most 16 dimensions")
_BITS = s.pair(_SIZE, s.column())
_INTEGER = s.whole(-(2**32), 2**32)
VALUE = s.row(
    _value,
    name=s.TEXT,
    kind=_among((MADE, VARIABLE, INPUT, CONSTANT), "a kind of value"),
    dtype=DTYPE,
    shape=_SIZE,
    initial=s.maybe(s.Codec(_write_initial, _BITS.read)),
    below=s.maybe(_INTEGER),
    ignored=s.maybe(_INTEGER),
    remote=s.FLAG,
    sharded=s.FLAG,
    from_end=s.Codec(s.FLAG.write, s.FLAG.read, since=2),
)
_ONE = s.once("values", VALUE, key=id)
_SEVERAL = s.many(_ONE)
_OP = s.row(
    Op,
    kind=s.TEXT,
    inputs=_SEVERAL,
    outs=_SEVERAL,
    attrs=s.named(s.Codec(_as_json, _attribute)),
    stage=s.whole(0, MAX_STAGES),
    part=_among(PARTS, "forward, backward or update"),
    phase=s.whole(0, MAX_STAGES),
    path=s.TEXT,
)
_GRAPH = s.keyed(
    Ir,
    variables=s.named(_ONE),
    inputs=s.named(_ONE),
    ops=s.Codec(s.many(_OP).write, lambda p: list(s.many(_OP).read(p))),
    outputs=s.named(_ONE),
    replicas=s.whole(1, MAX_STAGES),
    accumulation=s.whole(1, MAX_SIZE),
    schedule=_among(("", *SCHEDULES), "a schedule"),
)


def _read(header: s.HeaderValue) -> Ir:
    """Return the graph in the header of a file, or raise `ModelLoadError`."""
    s.told("values", s.many(VALUE)).read(header["values"])
    return _graph(header)


def _graph(header: s.HeaderValue) -> Ir:
    """Check a graph whose values have been read, and return it.

    :raises ModelLoadError: for contradictions, such as an operation that reads a later result.
    """
    ir: Ir = _GRAPH.read(header)
    ir.result_count = sum(len(op.outs) for op in ir.ops)
    for kind, named in ((VARIABLE, ir.variables), (INPUT, ir.inputs)):
        for name, value in named.items():
            if value.name != name or value.kind != kind or not name:
                key = "variables" if kind == VARIABLE else "inputs"
                header[key].fail(f"a {kind} with this name")
    if ir.variables.keys() & ir.inputs.keys():
        header["inputs"].fail("names that differ from those of the variables")
    known_values = {*ir.variables.values(), *ir.inputs.values()}
    for op_number, op in enumerate(ir.ops):
        op_place = header["ops"][op_number]
        if op.kind not in OPS:
            raise ModelLoadError(
                f"The model contains the operation {op.kind!r}, which is not in the table of "
                "operations.",
                where=op_place.where,
                next_step=f"call ir.register({op.kind!r}, Row(shape, lower, grad)) before "
                "ir.load().",
            )
        if not all(v in known_values or v.kind == CONSTANT for v in op.inputs):
            op_place[1].fail("variables, inputs, constants and results of earlier operations")
        if any(v in known_values or v.kind != MADE for v in op.outs) or len({*op.outs}) < len(
            op.outs
        ):
            op_place[2].fail("values that only this operation makes")
        known_values.update(op.outs)
        _check_by_row(op, op_place)
    if not known_values.issuperset(ir.outputs.values()):
        header["outputs"].fail("values of the graph")
    return ir


def _check_by_row(op: Op, place: s.HeaderValue) -> None:
    """Raise `ModelLoadError` if `op` does not fit its definition, a `Row`.

    The results must have the shapes and dtypes that `Row.shape` computes from the inputs. `place`
    is the description of the operation in the header of the file.
    """
    row = OPS[op.kind]
    try:
        expected = row.shape(*op.inputs, **op.attrs)
    except (Unfit, IPUTeachError, TypeError, ValueError, LookupError) as error:
        place.fail(f"inputs that the operation takes: {str(error).splitlines()[0]}")
    expected_outs = expected if isinstance(expected, list) else [expected]
    if row.in_place:
        expected_outs = []
    if [(tuple(out.shape), out.dtype) for out in expected_outs] != [
        (value.shape, value.dtype) for value in op.outs
    ]:
        place[2].fail("results with the shapes and dtypes of this operation")
    if row.in_place and op.inputs[0].kind != VARIABLE:
        place[1].fail("a variable as the first input of an operation that changes it")


check_calls(globals(), misuse)
