"""The form of values in a saved file, declared once for writing and for reading.

A `Codec` writes a value as JSON and columns, and reads it back with checks. A format consists of a
`Format` (its name, version and errors) and a record, whose type hints declare the contents of the
file:

    class Lap:
        name: str                                   # text
        tile: Annotated[int, whole(below="tiles")]  # below a number or length that `told` recorded
        times: tuple[float, ...]                    # a list
        note: Annotated[str, since(2)] = ""         # not in files of version 1

`row(Lap)` stores a record as a list of its fields, `keyed(Lap)` as an object. `FORMAT.pack(
codec.write(laps, out), out.arrays())` is a file with some laps, where `out = Columns()`, and
`load(data, FORMAT, codec.read)` reads it. If a hint is not enough, write a `Codec` by hand.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from math import ceil, prod
from types import UnionType
from typing import (
    Annotated,
    Any,
    NamedTuple,
    NoReturn,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np
from numpy.typing import ArrayLike

from ipu_teach.errors import IPUTeachError, shown
from ipu_teach.saving.archive import Format, unpack
from ipu_teach.target import BY_HAND, Target, make_target
from ipu_teach.types import Array

MOST = 2**56  # the limit of any number, so that sums of many stay exact
LONGEST = 10**6  # the most entries of a list of numbers
MOST_NUMBERS = 2**27  # the most numbers in the columns of a file: 1 GB
# the dtypes of columns, smallest first; a column has the smallest that holds its numbers
COLUMNS = {kind: np.dtype(kind) for kind in ("u1", "u2", "u4", "i8")}
RANGES = {kind: (np.iinfo(dtype).min, np.iinfo(dtype).max) for kind, dtype in COLUMNS.items()}

# A part of a file, in the form that json reads and writes.
Json: TypeAlias = Any
# A value that a codec writes and reads; each codec has its own type, which JSON does not record.
Value: TypeAlias = Any
Make: TypeAlias = Callable[..., Value]  # builds a record from its fields
Bound: TypeAlias = int | str  # a name stands for a number or length recorded by `told`
T = TypeVar("T")


class Codec(NamedTuple):
    """A pair of functions that write and read a value.

    `write(value, columns)` returns the form in the file. `read(part)` returns the value, or raises
    the error of the file. For a field, `since` is the first version of the format that has it, and
    `key` its name in the file, "" for the name of the field.
    """

    write: Callable[[Value, Columns], Json]
    read: Callable[[HeaderValue], Value]
    since: int = 1
    key: str = ""


class Columns:
    """The columns of a file that is being written, and the tables of values that are stored once.

    A column is the concatenation of all arrays of one dtype.
    """

    def __init__(self, kinds: Mapping[str, np.dtype[np.generic]] = COLUMNS) -> None:
        self._parts = {kind: [np.zeros(0, dtype)] for kind, dtype in kinds.items()}
        self._sizes = dict.fromkeys(kinds, 0)
        self._known: dict[tuple[str, bytes], int] = {}
        self.tables: dict[str, dict[Hashable, tuple[int, Json]]] = {}

    def put(self, kind: str, values: Array) -> int:
        """Append `values` to the column `kind`, and return the index of the first one."""
        flat = np.ascontiguousarray(values).reshape(-1).view(self._parts[kind][0].dtype)
        self._parts[kind].append(flat)
        self._sizes[kind] += flat.size
        return self._sizes[kind] - flat.size

    def add(self, values: ArrayLike) -> list[Json]:
        """Store integers in the smallest kind for them, and return (kind, first index, length).

        Equal arrays are stored once. For an array of equal numbers, return ("=", that number,
        length).
        """
        array = np.asarray(values).reshape(-1)
        low, high = (int(array.min()), int(array.max())) if array.size else (0, 0)
        if low == high:
            return ["=", low, array.size]
        kind = next(
            k for k, (lowest, highest) in RANGES.items() if lowest <= low and high <= highest
        )
        narrow = np.ascontiguousarray(array, COLUMNS[kind])
        key = (kind, hashlib.sha256(narrow.tobytes()).digest())
        if key not in self._known:
            self._known[key] = self.put(kind, narrow)
        return [kind, self._known[key], array.size]

    def table(self, name: str) -> list[Json]:
        """Return the values in table `name`, which are stored once, in order."""
        return [entry for _, entry in self.tables.get(name, {}).values()]

    def arrays(self) -> dict[str, Array]:
        """Return the columns, one array for each kind."""
        return {kind: np.concatenate(parts) for kind, parts in self._parts.items()}


class Known(dict[str, Value]):
    """The state of a file that is being read.

    It maps names to the values recorded so far, for use as bounds, and has the arrays of the file.
    """

    def __init__(self, form: Format, arrays: Mapping[str, Array], version: int = 1) -> None:
        self.form = form
        self.arrays = arrays
        self.version = version
        self._made: dict[tuple[str, int, int], Array] = {}
        self._left = MOST_NUMBERS

    def bound(self, bound: Bound) -> int:
        """Return the number that a bound is, or that its name stands for."""
        limit = self[bound] if isinstance(bound, str) else bound
        return limit if isinstance(limit, int) else len(limit)

    def column(self, place: HeaderValue, count: int | None, least: int, most: int) -> Array:
        """Return int64[count], a column of the file whose numbers must be from `least` to `most`.

        If `count` is None, the column may have any length.
        """
        kind = TEXT.read(place[0])
        length = place[2].whole(0, MOST_NUMBERS)
        if count is not None and length != count:
            place.fail(f"a column of {count:,} numbers")
        if kind == "=":
            self._charge(place, length if count is None else 0)
            # without numbers, none is out of range
            same = kind, place[1].whole(least, most if length else MOST), length
            if same not in self._made:
                self._made[same] = np.broadcast_to(np.int64(same[1]), (length,))
            return self._made[same]
        stored = self.arrays.get(kind) if kind in COLUMNS else None
        if stored is None:
            place.fail("a column of this file")
        start = place[1].whole(0, len(stored))
        if start + length > len(stored):
            place.fail("a column that ends within the file")
        if (kind, start, length) not in self._made:
            self._charge(place, length)
            self._made[kind, start, length] = stored[start : start + length].astype(np.int64)
            self._made[kind, start, length].flags.writeable = False
        cached = self._made[kind, start, length]
        if length and (int(cached.min()) < least or int(cached.max()) > most):
            place.fail(f"a column of numbers from {least:,} to {most:,}")
        return cached

    def _charge(self, place: HeaderValue, length: int) -> None:
        """Count the numbers read so far.

        Columns may overlap, so a file could ask for more than it has.
        """
        self._left -= length
        if self._left < 0:
            place.fail(f"one of the first {MOST_NUMBERS:,} numbers of a {self.form.noun}")


class HeaderValue:
    """A value of the header: `key` is its name or index in `above`, `known` the file's state."""

    __slots__ = ("above", "key", "known", "value")

    def __init__(
        self, value: Json, key: str | int, known: Known, above: HeaderValue | None = None
    ) -> None:
        self.value = value
        self.key = key
        self.known = known
        self.above = above

    @property
    def where(self) -> str:
        """The place of the value, as errors name it."""
        if self.above is None:
            return str(self.key)
        key = f".{self.key}" if isinstance(self.key, str) else f"[{self.key}]"
        return self.above.where + key

    def fail(self, wanted: str) -> NoReturn:
        """Raise the error of the file: the value is not `wanted`."""
        raise self.known.form.error(
            f"The {self.known.form.noun} is damaged: {shown(self.value)} is not {wanted}.",
            where=self.where,
            next_step="save it again; a file that was changed by hand cannot be loaded.",
        )

    def __getitem__(self, key: str | int) -> HeaderValue:
        if not isinstance(self.value, dict if isinstance(key, str) else list):
            self.fail("an object" if isinstance(key, str) else "a list")
        try:
            return HeaderValue(self.value[key], key, self.known, self)  # type: ignore[index]
        except LookupError:
            form = self.known.form
            place = HeaderValue(None, key, self.known, self).where
        raise form.error(
            f"The {form.noun} is damaged: something is missing.",
            where=place,
            next_step="save it again.",
        )

    def items(self, wanted: str = "a list") -> Iterator[HeaderValue]:
        """Yield the values of a list."""
        if not isinstance(self.value, list):
            self.fail(wanted)
        return (HeaderValue(value, i, self.known, self) for i, value in enumerate(self.value))

    def entries(self) -> Iterator[tuple[str, HeaderValue]]:
        """Yield the names and values of an object."""
        if not isinstance(self.value, dict):
            self.fail("an object")
        return (
            (name, HeaderValue(value, name, self.known, self)) for name, value in self.value.items()
        )

    def whole(self, least: int, most: int) -> int:
        """Return the value, which must be an integer from `least` to `most`."""
        if type(self.value) is not int or not least <= self.value <= most:
            self.fail(f"a whole number from {least:,} to {most:,}")
        return int(self.value)


def load(data: bytes, form: Format, read: Callable[[HeaderValue], T]) -> T:
    """Return `read(header)` for the header of a file.

    If anything is wrong with the file, raise the error of `form`.
    """
    value, arrays = unpack(data, form)
    header = HeaderValue(value, "header", Known(form, arrays))
    header.known.version = version = header["version"].whole(1, 10**6)
    if version > form.version:
        raise form.error(
            f"The {form.noun} has format version {version}; this kit reads up to version "
            f"{form.version}.",
            next_step=f"update ipu_teach, or save the {form.noun} again with this version.",
        )
    for kind in arrays.keys() & COLUMNS.keys():
        if arrays[kind].dtype != COLUMNS[kind]:
            header.fail(f"beside {kind}.npy of {COLUMNS[kind]}")
    try:
        return read(header)
    except form.error:
        raise
    except IPUTeachError as error:
        raise form.error(
            f"The {form.noun} is damaged: {error.tried}",
            where=error.where,
            next_step="save it again.",
        ) from error
    except Exception as error:  # an error that the checks did not find is damage too
        raise form.error(f"""The {form.noun} is damaged: {type(error).__name__}:
            {shown(str(error))}.
            next:  save it again.""") from error


# Single values


def plain(kind: type, wanted: str) -> Codec:
    """Return the codec of values that JSON has a type for."""

    def read(part: HeaderValue) -> Value:
        return part.value if type(part.value) is kind else part.fail(wanted)

    return Codec(lambda v, _: v, read)


def whole(least: Bound = 0, most: Bound = MOST, below: Bound | None = None) -> Codec:
    """Return the codec of an integer from `least` to `most`, or from `least` to below `below`."""
    bounds = _bounds(least, most, below)
    return Codec(lambda v, _: v, lambda p: p.whole(*bounds(p.known)))


def _bounds(least: Bound, most: Bound, below: Bound | None) -> Callable[[Known], tuple[int, int]]:
    """Return a function from the state of a file to (minimum, maximum)."""
    if isinstance(least, int) and isinstance(most, int) and below is None:
        return lambda _, fixed=(least, most): fixed  # type: ignore[misc]

    def bounds(known: Known) -> tuple[int, int]:
        return known.bound(least), known.bound(most) if below is None else known.bound(below) - 1

    return bounds


def real(least: float = 0, most: float = 1e18) -> Codec:
    """Return the codec of a number from `least` to `most`."""

    def read(part: HeaderValue) -> float:
        good = type(part.value) in (int, float) and least <= part.value <= most
        return float(part.value) if good else part.fail(f"a number from {least:,} to {most:,}")

    return Codec(lambda v, _: v, read)


def rounded_up() -> Codec:
    """Return the codec of an integer; older files have fractions, which are rounded up."""
    return Codec(lambda v, _: v, lambda part: ceil(real().read(part)))


def column(
    *shape: Bound, least: Bound = 0, most: Bound = MOST, below: Bound | None = None
) -> Codec:
    """Return the codec of an array of integers, stored as a column.

    `shape` is its shape; without it, the array has one dimension of any length.
    """
    bounds = _bounds(least, most, below)

    def read(part: HeaderValue) -> Array:
        sizes = [part.known.bound(n) for n in shape]
        values = part.known.column(part, prod(sizes) if sizes else None, *bounds(part.known))
        return values.reshape(sizes) if len(sizes) > 1 else values

    return Codec(lambda v, out: out.add(v), read)


# Codecs of several values


def many(inner: Codec, most: int | None = None, wanted: str = "a list") -> Codec:
    """Return the codec of a list of at most `most` items, by default of any number.

    Errors call the list `wanted`.
    """

    def read(part: HeaderValue) -> tuple[Value, ...]:
        if most is not None and isinstance(part.value, list) and len(part.value) > most:
            part.fail(wanted)
        return tuple(map(inner.read, part.items(wanted)))

    return Codec(lambda v, out: [inner.write(x, out) for x in v], read)


def numbers(inner: Codec | None = None, longest: int = LONGEST) -> Codec:
    """Return the codec of a list of at most `longest` numbers, integers by default."""
    return many(inner or whole(), longest, f"a list of at most {longest:,} numbers")


def maybe(inner: Codec) -> Codec:
    """Return the codec of an optional value: None, or a value of `inner`."""

    def write(value: Value, out: Columns) -> Json:
        return None if value is None else inner.write(value, out)

    def read(part: HeaderValue) -> Value:
        return None if part.value is None else inner.read(part)

    return Codec(write, read)


def pair(*inner: Codec) -> Codec:
    """Return the codec of a list with one entry for each of `inner`."""

    def write(values: Iterable[Value], out: Columns) -> list[Json]:
        return [c.write(value, out) for c, value in zip(inner, values, strict=True)]

    def read(part: HeaderValue) -> tuple[Value, ...]:
        return tuple(c.read(part[i]) for i, c in enumerate(inner))

    return Codec(write, read)


def named(inner: Codec, among: Iterable[str] | None = None, wanted: str = "an object") -> Codec:
    """Return the codec of a dict whose keys are text, with `among` only those."""

    def read(part: HeaderValue) -> dict[str, Value]:
        if (
            not isinstance(part.value, dict)
            or among is not None
            and not set(part.value) <= set(among)
        ):
            part.fail(wanted)
        return {name: inner.read(entry) for name, entry in part.entries()}

    def write(values: Mapping[str, Value], out: Columns) -> dict[str, Json]:
        return {name: inner.write(value, out) for name, value in values.items()}

    return Codec(write, read)


def checked(inner: Codec, good: Callable[[Value], bool], wanted: str) -> Codec:
    """Return the codec `inner`, which refuses values for which `good` is False."""

    def read(part: HeaderValue) -> Value:
        value = inner.read(part)
        return value if good(value) else part.fail(wanted)

    return Codec(inner.write, read)


def told(name: str, inner: Codec) -> Codec:
    """Return the codec `inner`, which records the value that it reads under `name`, as a bound."""

    def read(part: HeaderValue) -> Value:
        part.known[name] = value = inner.read(part)
        return value

    return Codec(inner.write, read)


def index(table: str) -> Codec:
    """Return the codec of an object in the recorded `table`, stored as its index."""
    number = whole(below=table)
    return Codec(lambda v, _: v, lambda p: p.known[table][number.read(p)])


def once(table: str, inner: Codec, key: Callable[[Value], Hashable] | None = None) -> Codec:
    """Return the codec of an object in `table`, whose values are stored once.

    Values are equal if they have the same `key`, or without `key` the same form in the file.
    """

    def write(value: Value, out: Columns) -> int:
        rows = out.tables.setdefault(table, {})
        entry = None if key and key(value) in rows else inner.write(value, out)
        return rows.setdefault(key(value) if key else repr(entry), (len(rows), entry))[0]

    return Codec(write, index(table).read)


TEXT = plain(str, "text")
FLAG = plain(bool, "true or false")
ONCE = once("texts", TEXT, str)  # a text that may occur often
# a field that is stored in another part of the file, or not at all
NOTE = Codec(lambda v, out: None, lambda p: None)
PLAIN: dict[Value, Codec] = {str: TEXT, bool: FLAG, int: whole(), float: real()}
PerTile = Annotated[Array, column("tiles")]
PerIpu = Annotated[Array, column("ipus")]


YOUNGER = (
    "machine",
    "conv_units_fp16_sums_fp32",
    "sync_pattern",
    "io_tiles",
    "streaming_bytes",
    "streaming_bytes_per_second",
)  # fields of a machine that older files do not have


def _read_target(part: HeaderValue) -> Target:
    fields = {name: p.value for name, p in part["fields"].entries()}
    # older files have only these prices
    return make_target(TEXT.read(part["version"]), **{"codelet_prices": BY_HAND, **fields})


def _write_target(target: Target, _: Columns) -> dict[str, Json]:
    values = asdict(target)
    # a default value is left out, so that digests of earlier versions still hold
    for name in YOUNGER:
        if values[name] == Target.__dataclass_fields__[name].default:
            del values[name]
    return {"version": values.pop("ipu_version"), "fields": values}


TARGET = Codec(_write_target, _read_target)


# Records


def by_column(make: Make, wanted: str, **columns: Codec) -> Codec:
    """Return the codec of a list of objects, stored as one column for each attribute.

    `make` builds an object from its attributes, and errors call the list `wanted`.
    """
    inner = pair(*columns.values())

    def read(part: HeaderValue) -> tuple[Value, ...]:
        value = inner.read(part)
        return tuple(map(make, *value)) if len({*map(len, value)}) == 1 else part.fail(wanted)

    def write(records: Sequence[Value], out: Columns) -> Json:
        return inner.write([[getattr(record, name) for record in records] for name in columns], out)

    return Codec(write, read)


def since(version: int) -> Callable[[Codec], Codec]:
    """Return a mark for the hint of a field that files before `version` do not have.

    The field then has its default. In a `row`, such fields come last.
    """
    return lambda c: c._replace(since=version)


def key(name: str) -> Callable[[Codec], Codec]:
    """Return a mark for the hint of a field that has the name `name` in the file."""
    return lambda c: c._replace(key=name)


def codec(hint: Value) -> Codec:
    """Return the codec of a type hint."""
    origin: Value = get_origin(hint)
    inner = get_args(hint)
    if origin is Annotated:
        marks = inner[1:]
        marked = next((mark for mark in marks if isinstance(mark, Codec)), None) or codec(inner[0])
        for mark in marks:
            if not isinstance(mark, Codec):
                marked = mark(marked)
        return marked
    if origin is tuple:
        return many(codec(inner[0])) if inner[-1] is ... else pair(*map(codec, inner))
    if origin in (Union, UnionType):
        return maybe(codec(inner[0]))
    return PLAIN[hint] if hint in PLAIN else row(hint)


def schema(record: Make) -> dict[str, Codec]:
    """Return the codecs of a record's fields by name, in order; {} if the class is not a record."""
    if not is_dataclass(record):
        return {}
    hints = get_type_hints(record, include_extras=True)
    codecs = {f.name: codec(hints[f.name]) for f in fields(record)}
    return {name: c for name, c in codecs.items() if c != NOTE}


def row(make: Make, **parts: Codec) -> Codec:
    """Return the codec of a record, stored as a list of its fields.

    With `parts`, it is the codec of an object that `make` builds from attributes with these codecs.
    """
    of = parts or schema(make)

    def read(part: HeaderValue) -> Value:
        entries = enumerate(of.items())
        version = part.known.version
        return make(**{name: c.read(part[i]) for i, (name, c) in entries if c.since <= version})

    def write(record: Value, out: Columns) -> list[Json]:
        return [c.write(getattr(record, name), out) for name, c in of.items()]

    return Codec(write, read)


def keyed(make: Make, **parts: Codec) -> Codec:
    """Return the codec of a record as `row` does, but stored as an object with names."""
    of = parts or schema(make)

    def read(part: HeaderValue) -> Value:
        entries = of.items()
        version = part.known.version
        return make(
            **{name: c.read(part[c.key or name]) for name, c in entries if c.since <= version}
        )

    def write(record: Value, out: Columns) -> dict[str, Json]:
        return {c.key or name: c.write(getattr(record, name), out) for name, c in of.items()}

    return Codec(write, read)


def tagged(kinds: Mapping[str, Codec], kind: Callable[[Value], str], wanted: str) -> Codec:
    """Return the codec of values of several `kinds`, stored as objects with the name of their kind.

    `kind(value)` returns that name.
    """

    def read(part: HeaderValue) -> Value:
        tag = TEXT.read(part["kind"])
        return kinds[tag].read(part) if tag in kinds else part["kind"].fail(wanted)

    def write(value: Value, out: Columns) -> dict[str, Json]:
        return {"kind": kind(value), **kinds[kind(value)].write(value, out)}

    return Codec(write, read)
