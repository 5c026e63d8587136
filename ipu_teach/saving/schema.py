"""The form of values in a saved file, declared once: a `Codec` writes a value as JSON and columns,
and reads it back checked.

A format is declared, not written. It is a `Format` (its name, version and errors) and a record,
whose type hints declare the content of the file:

    class Lap:
        name: str                                   # text
        tile: Annotated[int, whole(below="tiles")]  # below a number or length that `told` recorded
        times: tuple[float, ...]                    # a list
        note: Annotated[str, since(2)] = ""         # files of version 1 have none

`row(Lap)` is a list of its fields, `keyed(Lap)` an object. `FORMAT.pack(codec.write(laps, out),
out.arrays())` is the file of some laps, with `out = Columns()`, and `load(data, FORMAT,
codec.read)` reads it. Where a hint is not enough, a `Codec` is written by hand.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import asdict, fields, is_dataclass
from functools import reduce
from math import ceil, prod
from types import UnionType
from typing import (
    Annotated,
    Any,
    NamedTuple,
    NoReturn,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np

from ipu_teach.errors import IPUTeachError, shown
from ipu_teach.saving.archive import Format, unpack
from ipu_teach.target import BY_HAND, Target, make_target
from ipu_teach.types import Array

MOST = 2**56  # of any one number: sums of many stay numbers
LONGEST = 10**6  # of a list of numbers
MOST_NUMBERS = 2**27  # in the columns of a file, all together: 1 GB
# they stand in a file as these, the smallest that do
COLUMNS = {kind: np.dtype(kind) for kind in ("u1", "u2", "u4", "i8")}
RANGES = {kind: (np.iinfo(dtype).min, np.iinfo(dtype).max) for kind, dtype in COLUMNS.items()}

Bound = int | str  # a name: that of what was told
T = TypeVar("T")


class Codec(NamedTuple):
    """A pair of functions: `write(value, columns)` returns the form in the file, `read(part)`
    returns the value, or raises the error of the file.

    For a field, `since` is the first version of the format that has it, and `key` its name in the
    file, "" for its own.
    """

    write: Callable[[Any, Columns], Any]
    read: Callable[[HeaderValue], Any]
    since: int = 1
    key: str = ""


class Columns:
    """The content of a file besides its header: arrays of numbers end to end, by kind, and lists of
    values that are stored once."""

    def __init__(self, kinds: Mapping[str, np.dtype[Any]] = COLUMNS) -> None:
        self._parts = {kind: [np.zeros(0, dtype)] for kind, dtype in kinds.items()}
        self._sizes = dict.fromkeys(kinds, 0)
        self._known: dict[tuple[str, bytes], int] = {}
        self.tables: dict[str, dict[Hashable, tuple[int, Any]]] = {}

    def put(self, kind: str, values: Array) -> int:
        """Append `values`, of that kind's dtype, and return where they begin."""
        flat = np.ascontiguousarray(values).reshape(-1).view(self._parts[kind][0].dtype)
        self._parts[kind].append(flat)
        self._sizes[kind] += flat.size
        return self._sizes[kind] - flat.size

    def add(self, values: Iterable[Any]) -> list[Any]:
        """Store whole numbers in the smallest kind that holds them, and return (kind, place,
        length).

        Equal arrays are stored once, and an array of one number throughout is ("=", that number,
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

    def table(self, name: str) -> list[Any]:
        """Return the values of a list that are stored once, in order."""
        return [entry for _, entry in self.tables.get(name, {}).values()]

    def arrays(self) -> dict[str, Array]:
        """Return one array for each kind."""
        return {kind: np.concatenate(parts) for kind, parts in self._parts.items()}


class Known(dict[str, Any]):
    """The file that is being read: the values recorded so far, by their names for bounds, and its
    arrays."""

    def __init__(self, form: Format, arrays: Mapping[str, Array], version: int = 1) -> None:
        self.form = form
        self.arrays = arrays
        self.version = version
        self._made: dict[tuple[str, int, int], Array] = {}
        self._left = MOST_NUMBERS

    def bound(self, bound: Bound) -> int:
        """Return the number that a bound is, or stands for."""
        limit = self[bound] if isinstance(bound, str) else bound
        return limit if isinstance(limit, int) else len(limit)

    def column(self, place: HeaderValue, count: int | None, least: int, most: int) -> Array:
        """Return int64[count], each number from `least` to `most`: a column of the file. Any number
        of them if `count` is None."""
        kind = TEXT.read(place[0])
        length = place[2].whole(0, MOST_NUMBERS)
        if count is not None and length != count:
            place.fail(f"a column of {count:,} numbers")
        if kind == "=":
            self._charge(place, length if count is None else 0)
            # nothing is within all bounds
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
        """Columns may overlap in the file, so that it could ask for more numbers than it holds."""
        self._left -= length
        if self._left < 0:
            place.fail(f"one of the first {MOST_NUMBERS:,} numbers of a {self.form.noun}")


class HeaderValue:
    """A value of the header: `key` is its name or number in `above`, and `known` the file's."""

    __slots__ = ("above", "key", "known", "value")

    def __init__(
        self, value: Any, key: str | int, known: Known, above: HeaderValue | None = None
    ) -> None:
        self.value = value
        self.key = key
        self.known = known
        self.above = above

    @property
    def where(self) -> str:
        """Its place, as an error names it."""
        if self.above is None:
            return str(self.key)
        key = f".{self.key}" if isinstance(self.key, str) else f"[{self.key}]"
        return self.above.where + key

    def fail(self, wanted: str) -> NoReturn:
        """Say that the value is not `wanted`."""
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
        """Return the value, a whole number from `least` to `most`."""
        if type(self.value) is not int or not least <= self.value <= most:
            self.fail(f"a whole number from {least:,} to {most:,}")
        return int(self.value)


def load(data: bytes, form: Format, read: Callable[[HeaderValue], T]) -> T:
    """Return what `read` makes of the header of a file. Raises the error of `form`, whatever is
    wrong with the file."""
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
    except Exception as error:  # a fault that passed the checks is damage too
        raise form.error(f"""The {form.noun} is damaged: {type(error).__name__}:
            {shown(str(error))}.
            next:  save it again.""") from error


# Single values


def plain(kind: type, wanted: str) -> Codec:
    """Return what JSON has a type for."""
    return Codec(lambda v, _: v, lambda p: p.value if type(p.value) is kind else p.fail(wanted))


def whole(least: Bound = 0, most: Bound = MOST, below: Bound | None = None) -> Codec:
    """Return a whole number from `least` to `most`, or `below` something."""
    bounds = _bounds(least, most, below)
    return Codec(lambda v, _: v, lambda p: p.whole(*bounds(p.known)))


def _bounds(least: Bound, most: Bound, below: Bound | None) -> Callable[[Known], tuple[int, int]]:
    """Return the function from recorded values to (minimum, maximum)."""
    if isinstance(least, int) and isinstance(most, int) and below is None:
        return lambda _, fixed=(least, most): fixed  # type: ignore[misc]
    return lambda known: (
        known.bound(least),
        known.bound(most) if below is None else known.bound(below) - 1,
    )


def real(least: float = 0, most: float = 1e18) -> Codec:
    """Return a number from `least` to `most`."""

    def read(part: HeaderValue) -> float:
        good = type(part.value) in (int, float) and least <= part.value <= most
        return float(part.value) if good else part.fail(f"a number from {least:,} to {most:,}")

    return Codec(lambda v, _: v, read)


def rounded_up() -> Codec:
    """Return a whole number; older files have fractions, which are rounded up."""
    return Codec(lambda v, _: v, lambda part: ceil(real().read(part)))


def column(
    *shape: Bound, least: Bound = 0, most: Bound = MOST, below: Bound | None = None
) -> Codec:
    """Return an array of whole numbers among the columns, of that shape; without one, of any
    length."""
    bounds = _bounds(least, most, below)

    def read(part: HeaderValue) -> Array:
        sizes = [part.known.bound(n) for n in shape]
        values = part.known.column(part, prod(sizes) if sizes else None, *bounds(part.known))
        return values.reshape(sizes) if len(sizes) > 1 else values

    return Codec(lambda v, out: out.add(v), read)


# What is made of others


def many(inner: Codec, most: int | None = None, wanted: str = "a list") -> Codec:
    """Return the codec of a list of at most `most` items, if that is given; errors call it
    `wanted`."""

    def read(part: HeaderValue) -> tuple[Any, ...]:
        if most is not None and isinstance(part.value, list) and len(part.value) > most:
            part.fail(wanted)
        return tuple(map(inner.read, part.items(wanted)))

    return Codec(lambda v, out: [inner.write(x, out) for x in v], read)


def numbers(inner: Codec | None = None, longest: int = LONGEST) -> Codec:
    """Return the codec of a list that is stored as numbers, whole ones by default."""
    return many(inner or whole(), longest, f"a list of at most {longest:,} numbers")


def maybe(inner: Codec) -> Codec:
    """Nothing, or `inner`."""
    return Codec(
        lambda v, out: None if v is None else inner.write(v, out),
        lambda p: None if p.value is None else inner.read(p),
    )


def pair(*inner: Codec) -> Codec:
    """Return a list with one entry for each of `inner`."""
    return Codec(
        lambda v, out: [c.write(x, out) for c, x in zip(inner, v, strict=True)],
        lambda p: tuple(c.read(p[i]) for i, c in enumerate(inner)),
    )


def named(inner: Codec, among: Iterable[str] | None = None, wanted: str = "an object") -> Codec:
    """Return a dict with text for keys, which are some `among`."""

    def read(part: HeaderValue) -> dict[str, Any]:
        if (
            not isinstance(part.value, dict)
            or among is not None
            and not set(part.value) <= set(among)
        ):
            part.fail(wanted)
        return {name: inner.read(entry) for name, entry in part.entries()}

    return Codec(lambda v, out: {name: inner.write(x, out) for name, x in v.items()}, read)


def checked(inner: Codec, good: Callable[[Any], bool], wanted: str) -> Codec:
    """Return `inner`, for which `good` says true."""

    def read(part: HeaderValue) -> Any:
        value = inner.read(part)
        return value if good(value) else part.fail(wanted)

    return Codec(inner.write, read)


def told(name: str, inner: Codec) -> Codec:
    """Return `inner`, whose value is recorded: the bounds of values read later may refer to it by
    `name`."""

    def read(part: HeaderValue) -> Any:
        part.known[name] = value = inner.read(part)
        return value

    return Codec(inner.write, read)


def index(table: str) -> Codec:
    """Return the codec of an index into the objects recorded in `table`."""
    number = whole(below=table)
    return Codec(lambda v, _: v, lambda p: p.known[table][number.read(p)])


def once(table: str, inner: Codec, key: Callable[[Any], Hashable] | None = None) -> Codec:
    """Return a codec like `index`, for values stored once in the list `table` of the file. Values
    are equal if they have the same `key`, or the same form in the file."""

    def write(value: Any, out: Columns) -> int:
        rows = out.tables.setdefault(table, {})
        entry = None if key and key(value) in rows else inner.write(value, out)
        return rows.setdefault(key(value) if key else repr(entry), (len(rows), entry))[0]

    return Codec(write, index(table).read)


TEXT, FLAG = plain(str, "text"), plain(bool, "true or false")
ONCE = once("texts", TEXT, str)  # a text, of those that come often
# a field that stands elsewhere in the file, or nowhere
NOTE = Codec(lambda v, out: None, lambda p: None)
PLAIN: dict[Any, Codec] = {str: TEXT, bool: FLAG, int: whole(), float: real()}
PerTile = Annotated[Array, column("tiles")]
PerIpu = Annotated[Array, column("ipus")]


YOUNGER = (
    "machine",
    "conv_units_fp16_sums_fp32",
    "sync_pattern",
    "io_tiles",
    "streaming_bytes",
    "streaming_bytes_per_second",
)  # fields of a machine that older files lack


def _read_target(part: HeaderValue) -> Target:
    fields = {name: p.value for name, p in part["fields"].entries()}
    # older files had no other
    return make_target(TEXT.read(part["version"]), **{"codelet_prices": BY_HAND, **fields})


def _write_target(target: Target, _: Columns) -> dict[str, Any]:
    values = asdict(target)
    for name in YOUNGER:  # at its default it says nothing, and older digests hold
        if values[name] == Target.__dataclass_fields__[name].default:
            del values[name]
    return {"version": values.pop("ipu_version"), "fields": values}


TARGET = Codec(_write_target, _read_target)


# Records


def by_column(make: Any, wanted: str, **columns: Codec) -> Codec:
    """Return a list of what `make` makes of attributes, as a list with a column for each; an error
    calls it `wanted`."""
    inner = pair(*columns.values())

    def read(part: HeaderValue) -> tuple[Any, ...]:
        value = inner.read(part)
        return tuple(map(make, *value)) if len({*map(len, value)}) == 1 else part.fail(wanted)

    return Codec(
        lambda v, out: inner.write([[getattr(x, name) for x in v] for name in columns], out), read
    )


def since(version: int) -> Callable[[Codec], Codec]:
    """Mark a field, in its hint, that older files lack; they have its default. In a `row` such
    fields come last."""
    return lambda c: c._replace(since=version)


def key(name: str) -> Callable[[Codec], Codec]:
    """Give a field, in its hint, its name in the file."""
    return lambda c: c._replace(key=name)


def codec(hint: Any) -> Codec:
    """Return the codec that a type hint stands for."""
    inner = get_args(hint)
    if get_origin(hint) is Annotated:
        codec_found = next((mark for mark in inner[1:] if isinstance(mark, Codec)), None) or codec(
            inner[0]
        )
        return reduce(
            lambda c, mark: c if isinstance(mark, Codec) else mark(c), inner[1:], codec_found
        )
    if get_origin(hint) is tuple:
        return many(codec(inner[0])) if inner[-1] is ... else pair(*map(codec, inner))
    if get_origin(hint) in (Union, UnionType):
        return maybe(codec(inner[0]))
    return PLAIN[hint] if hint in PLAIN else row(hint)


def schema(record: type) -> dict[str, Codec]:
    """Return the codecs of a record's fields by name, in order; empty if the class is not a
    record."""
    if not is_dataclass(record):
        return {}
    hints = get_type_hints(record, include_extras=True)
    codecs = {f.name: codec(hints[f.name]) for f in fields(record)}
    return {name: c for name, c in codecs.items() if c != NOTE}


def row(make: Any, **parts: Codec) -> Codec:
    """Return a record as the list of its fields; or what `make` makes of attributes that are
    written by `parts`."""
    of = parts or schema(make)

    def read(part: HeaderValue) -> Any:
        entries = enumerate(of.items())
        version = part.known.version
        return make(**{name: c.read(part[i]) for i, (name, c) in entries if c.since <= version})

    return Codec(lambda v, out: [c.write(getattr(v, name), out) for name, c in of.items()], read)


def keyed(make: Any, **parts: Codec) -> Codec:
    """As `row`, as an object with a name for each field."""
    of = parts or schema(make)

    def read(part: HeaderValue) -> Any:
        entries = of.items()
        version = part.known.version
        return make(
            **{name: c.read(part[c.key or name]) for name, c in entries if c.since <= version}
        )

    return Codec(
        lambda v, out: {c.key or name: c.write(getattr(v, name), out) for name, c in of.items()},
        read,
    )


def tagged(kinds: Mapping[str, Codec], kind: Callable[[Any], str], wanted: str) -> Codec:
    """Return an object that says in `kind` which of `kinds` it is: objects all of them. `kind` says
    it of a value."""

    def read(part: HeaderValue) -> Any:
        tag = TEXT.read(part["kind"])
        return kinds[tag].read(part) if tag in kinds else part["kind"].fail(wanted)

    return Codec(lambda v, out: {"kind": kind(v), **kinds[kind(v)].write(v, out)}, read)
