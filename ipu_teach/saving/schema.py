"""Codecs for saved files: a codec declares the form of a value once, for writing and for reading.

A `Codec` writes a value as JSON and columns of numbers. It reads the value with checks. A file
format consists of a `Format` (its name, version and errors) and a record, whose type hints declare
the contents of the file:

    class Lap:
        name: str                                   # text
        tile: Annotated[int, whole(below="tiles")]  # below a number or length that `told` recorded
        times: tuple[float, ...]                    # a list
        note: Annotated[str, since(2)] = ""         # not in files of version 1

`row(Lap)` is the codec that stores a record as a list of its fields, and `keyed(Lap)` stores it as
an object. With `columns = Columns()`, `FORMAT.pack(codec.write(laps, columns), columns.arrays())`
returns the bytes of a file that contains some laps, and `load(data, FORMAT, codec.read)` reads it.
If a type hint is not enough, write a `Codec` by hand.
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

MOST = 2**56  # The largest number allowed in a file; with it, sums of many numbers fit in int64.
LONGEST = 10**6  # The maximum number of entries in a list of numbers.
# The maximum number of numbers in the columns of a file, which take 1 GB.
MOST_NUMBERS = 2**27
# The dtypes of columns, smallest first. A column has the first of these dtypes that can contain its
# numbers.
COLUMNS = {kind: np.dtype(kind) for kind in ("u1", "u2", "u4", "i8")}
RANGES = {kind: (np.iinfo(dtype).min, np.iinfo(dtype).max) for kind, dtype in COLUMNS.items()}

# A part of a file, in the form that json reads and writes.
Json: TypeAlias = Any
# A value that a codec writes and reads. Each codec has its own type of values.
Value: TypeAlias = Any
# A function that builds a record from its fields.
Make: TypeAlias = Callable[..., Value]
# A bound is a number, or the name under which `told` recorded a number or a list. If it recorded a
# list, the bound is the length of the list.
Bound: TypeAlias = int | str
T = TypeVar("T")


class Codec(NamedTuple):
    """A pair of functions that write and read a value.

    `write(value, columns)` returns the value in the form that the file contains. `read(stored)`
    converts this form back to the value, or raises the error of the file format.

    If the codec belongs to a field of a record, `since` is the first version of the format that has
    the field. `key` is the name of the field in the file, or "" if the field has the same name
    there as in the record.
    """

    write: Callable[[Value, Columns], Json]
    read: Callable[[HeaderValue], Value]
    since: int = 1
    key: str = ""


class Columns:
    """The columns of a file that is being written, with tables that store equal values only once.

    A column is the concatenation of all stored arrays of one dtype. `kinds` maps the name of each
    column to its dtype.
    """

    def __init__(self, kinds: Mapping[str, np.dtype[np.generic]] = COLUMNS) -> None:
        self._parts = {kind: [np.zeros(0, dtype)] for kind, dtype in kinds.items()}
        self._sizes = dict.fromkeys(kinds, 0)
        self._known: dict[tuple[str, bytes], int] = {}
        self.tables: dict[str, dict[Hashable, tuple[int, Json]]] = {}

    def put(self, kind: str, values: Array) -> int:
        """Append `values` to the column `kind`, and return the index of the first value."""
        flat_values = np.ascontiguousarray(values).reshape(-1).view(self._parts[kind][0].dtype)
        self._parts[kind].append(flat_values)
        self._sizes[kind] += flat_values.size
        return self._sizes[kind] - flat_values.size

    def add(self, values: ArrayLike) -> list[Json]:
        """Store integers in the column of the smallest dtype that can contain them.

        Return [name of the column, first index, length]. Equal arrays are stored once. An array in
        which all numbers are equal is not stored in a column; for such an array, return ["=", the
        number, length].
        """
        array = np.asarray(values).reshape(-1)
        lowest_value, highest_value = (int(array.min()), int(array.max())) if array.size else (0, 0)
        if lowest_value == highest_value:
            return ["=", lowest_value, array.size]
        kind = next(
            candidate
            for candidate, (minimum, maximum) in RANGES.items()
            if minimum <= lowest_value and highest_value <= maximum
        )
        narrow_array = np.ascontiguousarray(array, COLUMNS[kind])
        key = (kind, hashlib.sha256(narrow_array.tobytes()).digest())
        if key not in self._known:
            self._known[key] = self.put(kind, narrow_array)
        return [kind, self._known[key], array.size]

    def table(self, name: str) -> list[Json]:
        """Return the entries of the table `name`, in the order in which they were added."""
        return [entry for _, entry in self.tables.get(name, {}).values()]

    def arrays(self) -> dict[str, Array]:
        """Return the columns as arrays, by name."""
        return {kind: np.concatenate(parts) for kind, parts in self._parts.items()}


class Known(dict[str, Value]):
    """The values that codecs have recorded while a file is read, by name.

    Other codecs use these values as bounds and tables. `form` is the format of the file, `arrays`
    has the columns of the file, and `version` is the version of its format.
    """

    def __init__(self, form: Format, arrays: Mapping[str, Array], version: int = 1) -> None:
        self.form = form
        self.arrays = arrays
        self.version = version
        self._columns: dict[tuple[str, int, int], Array] = {}
        self._left = MOST_NUMBERS

    def bound(self, bound: Bound) -> int:
        """Return the number that `bound` stands for.

        If `bound` is a string, it is the name of a value that `told` has recorded. This value is
        either the number itself, or a list whose length is the number.
        """
        limit = self[bound] if isinstance(bound, str) else bound
        return limit if isinstance(limit, int) else len(limit)

    def column(self, stored: HeaderValue, count: int | None, least: int, most: int) -> Array:
        """Return the column to which `stored` refers, as a read-only array int64[count].

        `stored` is a list that `Columns.add` has returned. All numbers must be from `least` to
        `most`. If `count` is None, the column may have any length. The error of the file format is
        raised if the column is not valid.
        """
        kind = TEXT.read(stored[0])
        length = stored[2].whole(0, MOST_NUMBERS)
        if count is not None and length != count:
            stored.fail(f"a column of {count:,} numbers")
        if kind == "=":
            self._charge(stored, length if count is None else 0)
            # In an empty column, the repeated number is never used, so it may be outside `least` to
            # `most`.
            cache_key = kind, stored[1].whole(least, most if length else MOST), length
            if cache_key not in self._columns:
                self._columns[cache_key] = np.broadcast_to(np.int64(cache_key[1]), (length,))
            return self._columns[cache_key]
        file_column = self.arrays.get(kind) if kind in COLUMNS else None
        if file_column is None:
            stored.fail("a column of this file")
        start = stored[1].whole(0, len(file_column))
        if start + length > len(file_column):
            stored.fail("a column that ends within the file")
        if (kind, start, length) not in self._columns:
            self._charge(stored, length)
            self._columns[kind, start, length] = file_column[start : start + length].astype(
                np.int64
            )
            self._columns[kind, start, length].flags.writeable = False
        cached = self._columns[kind, start, length]
        if length and (int(cached.min()) < least or int(cached.max()) > most):
            stored.fail(f"a column of numbers from {least:,} to {most:,}")
        return cached

    def _charge(self, stored: HeaderValue, length: int) -> None:
        """Count `length` more numbers, and raise the error of the file format if they are too many.

        The limit is `MOST_NUMBERS`. Columns in a file may overlap, so without this limit a small
        file could require a huge amount of memory.
        """
        self._left -= length
        if self._left < 0:
            stored.fail(f"among the first {MOST_NUMBERS:,} numbers of a {self.form.noun}")


class HeaderValue:
    """A value in the header of a file, with its position in the header.

    `above` is the object or list that contains the value, or None for the header itself. `key` is
    the name or index of the value in `above`. `known` has the values that codecs have recorded
    while the file is read.
    """

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
        """The position of the value as errors name it, such as `header.steps[3]`."""
        if self.above is None:
            return str(self.key)
        key = f".{self.key}" if isinstance(self.key, str) else f"[{self.key}]"
        return self.above.where + key

    def fail(self, expected: str) -> NoReturn:
        """Raise the error of the file format, which says that the value is not `expected`."""
        raise self.known.form.error(
            f"The {self.known.form.noun} is damaged: {shown(self.value)} is not {expected}.",
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
            missing_place = HeaderValue(None, key, self.known, self).where
        raise form.error(
            f"The {form.noun} is damaged: an entry is missing.",
            where=missing_place,
            next_step="save it again.",
        )

    def items(self, expected: str = "a list") -> Iterator[HeaderValue]:
        """Yield the entries of a list. If the value is not a list, call `fail(expected)`."""
        if not isinstance(self.value, list):
            self.fail(expected)
        return (HeaderValue(value, i, self.known, self) for i, value in enumerate(self.value))

    def entries(self) -> Iterator[tuple[str, HeaderValue]]:
        """Yield (name, value) for the entries of an object."""
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
    """Return `read(header)` for the header of a file whose contents are the bytes `data`.

    If anything is wrong with the file, the error of the file format (`form.error`) is raised.
    """
    header_value, arrays = unpack(data, form)
    header = HeaderValue(header_value, "header", Known(form, arrays))
    header.known.version = version = header["version"].whole(1, 10**6)
    if version > form.version:
        raise form.error(
            f"The {form.noun} has format version {version}, but this kit reads only up to version "
            f"{form.version}.",
            next_step=f"update ipu_teach, or save the {form.noun} again with this version.",
        )
    for kind in arrays.keys() & COLUMNS.keys():
        if arrays[kind].dtype != COLUMNS[kind]:
            header.fail(f"the header of a file in which {kind}.npy has dtype {COLUMNS[kind]}")
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
    except Exception as error:  # Damage that no check notices can raise any error.
        raise form.error(f"""The {form.noun} is damaged: {type(error).__name__}:
            {shown(str(error))}.
            next:  save it again.""") from error


# Codecs of single values


def plain(kind: type, expected: str) -> Codec:
    """Return the codec of JSON values of type `kind`.

    `expected` describes such values in errors.
    """

    def read(stored: HeaderValue) -> Value:
        return stored.value if type(stored.value) is kind else stored.fail(expected)

    return Codec(lambda value, _: value, read)


def whole(least: Bound = 0, most: Bound = MOST, below: Bound | None = None) -> Codec:
    """Return the codec of an integer from `least` to `most`, or below `below` if it is given."""
    bounds = _bounds(least, most, below)
    return Codec(lambda value, _: value, lambda stored: stored.whole(*bounds(stored.known)))


def _bounds(least: Bound, most: Bound, below: Bound | None) -> Callable[[Known], tuple[int, int]]:
    """Return a function that gets the state of a file and returns the bounds `(minimum, maximum)`.

    The function looks up the bounds that are names of recorded values; see `Known.bound`. If
    `below` is not None, it replaces `most`, and the maximum is one less than `below`.
    """
    if isinstance(least, int) and isinstance(most, int) and below is None:
        return lambda _, fixed=(least, most): fixed  # type: ignore[misc]

    def bounds(known: Known) -> tuple[int, int]:
        return known.bound(least), known.bound(most) if below is None else known.bound(below) - 1

    return bounds


def real(least: float = 0, most: float = 1e18) -> Codec:
    """Return the codec of a number from `least` to `most`."""

    def read(stored: HeaderValue) -> float:
        is_valid = type(stored.value) in (int, float) and least <= stored.value <= most
        return (
            float(stored.value) if is_valid else stored.fail(f"a number from {least:,} to {most:,}")
        )

    return Codec(lambda value, _: value, read)


def rounded_up() -> Codec:
    """Return the codec of an integer. It rounds up fractions, which older files contain."""
    return Codec(lambda value, _: value, lambda stored: ceil(real().read(stored)))


def column(
    *shape: Bound, least: Bound = 0, most: Bound = MOST, below: Bound | None = None
) -> Codec:
    """Return the codec of an array of integers, which is stored as a column.

    The integers are from `least` to `most`, or below `below` if it is given. `shape` is the shape
    of the array. If `shape` is not given, the array has one dimension of any length.
    """
    bounds = _bounds(least, most, below)

    def read(stored: HeaderValue) -> Array:
        lengths = [stored.known.bound(bound) for bound in shape]
        values = stored.known.column(
            stored, prod(lengths) if lengths else None, *bounds(stored.known)
        )
        return values.reshape(lengths) if len(lengths) > 1 else values

    return Codec(lambda value, columns: columns.add(value), read)


# Codecs of several values


def many(item_codec: Codec, most: int | None = None, expected: str = "a list") -> Codec:
    """Return the codec of a list of at most `most` items, or of any length if `most` is None.

    `item_codec` is the codec of the items. `expected` describes the list in errors.
    """

    def read(stored: HeaderValue) -> tuple[Value, ...]:
        if most is not None and isinstance(stored.value, list) and len(stored.value) > most:
            stored.fail(expected)
        return tuple(map(item_codec.read, stored.items(expected)))

    return Codec(lambda values, columns: [item_codec.write(item, columns) for item in values], read)


def numbers(number_codec: Codec | None = None, longest: int = LONGEST) -> Codec:
    """Return the codec of a list of at most `longest` numbers.

    `number_codec` is the codec of the numbers, by default that of integers of at least 0.
    """
    return many(number_codec or whole(), longest, f"a list of at most {longest:,} numbers")


def maybe(value_codec: Codec) -> Codec:
    """Return the codec of a value that may be None. `value_codec` is the codec of other values."""

    def write(value: Value, columns: Columns) -> Json:
        return None if value is None else value_codec.write(value, columns)

    def read(stored: HeaderValue) -> Value:
        return None if stored.value is None else value_codec.read(stored)

    return Codec(write, read)


def pair(*codecs: Codec) -> Codec:
    """Return the codec of a list with one entry for each of `codecs`, in order."""

    def write(values: Iterable[Value], columns: Columns) -> list[Json]:
        return [
            entry_codec.write(value, columns)
            for entry_codec, value in zip(codecs, values, strict=True)
        ]

    def read(stored: HeaderValue) -> tuple[Value, ...]:
        return tuple(entry_codec.read(stored[index]) for index, entry_codec in enumerate(codecs))

    return Codec(write, read)


def named(
    value_codec: Codec, permitted: Iterable[str] | None = None, expected: str = "an object"
) -> Codec:
    """Return the codec of a dict whose keys are strings.

    If `permitted` is not None, it must contain all keys. `expected` describes the dict in errors.
    """

    def read(stored: HeaderValue) -> dict[str, Value]:
        if (
            not isinstance(stored.value, dict)
            or permitted is not None
            and not set(stored.value) <= set(permitted)
        ):
            stored.fail(expected)
        return {name: value_codec.read(entry) for name, entry in stored.entries()}

    def write(values: Mapping[str, Value], columns: Columns) -> dict[str, Json]:
        return {name: value_codec.write(value, columns) for name, value in values.items()}

    return Codec(write, read)


def checked(value_codec: Codec, is_valid: Callable[[Value], bool], expected: str) -> Codec:
    """Return `value_codec` with an additional check of the values that it reads.

    A value is refused if `is_valid(value)` is False. `expected` describes valid values in errors.
    """

    def read(stored: HeaderValue) -> Value:
        value = value_codec.read(stored)
        return value if is_valid(value) else stored.fail(expected)

    return Codec(value_codec.write, read)


def told(name: str, value_codec: Codec) -> Codec:
    """Return a codec like `value_codec` that also records each value that it reads.

    The value is recorded under `name`. Other codecs can use it as a bound or a table.
    """

    def read(stored: HeaderValue) -> Value:
        stored.known[name] = value = value_codec.read(stored)
        return value

    return Codec(value_codec.write, read)


def index(table: str) -> Codec:
    """Return the codec of an entry of the recorded list `table`; a file contains its index.

    When reading, the codec looks up the entry with the stored index. When writing, the value must
    already be the index.
    """
    index_codec = whole(below=table)
    return Codec(
        lambda value, _: value, lambda stored: stored.known[table][index_codec.read(stored)]
    )


def once(table: str, value_codec: Codec, key: Callable[[Value], Hashable] | None = None) -> Codec:
    """Return the codec of an object that is stored in a table, once for all equal objects.

    `table` is the name of the table. Objects are equal if `key` returns equal keys for them.
    Without `key`, objects are equal if they have the same form in the file.
    """

    def write(value: Value, columns: Columns) -> int:
        entries = columns.tables.setdefault(table, {})
        stored_form = None if key and key(value) in entries else value_codec.write(value, columns)
        return entries.setdefault(
            key(value) if key else repr(stored_form), (len(entries), stored_form)
        )[0]

    return Codec(write, index(table).read)


TEXT = plain(str, "text")
FLAG = plain(bool, "true or false")
ONCE = once("texts", TEXT, str)  # The codec of strings that occur often: each is stored once.
# The codec of fields that `row` and `keyed` leave out, because they are stored elsewhere or not at
# all.
NOTE = Codec(lambda v, out: None, lambda p: None)
PLAIN: dict[Value, Codec] = {str: TEXT, bool: FLAG, int: whole(), float: real()}
PerTile = Annotated[Array, column("tiles")]
PerIpu = Annotated[Array, column("ipus")]


# Files of earlier versions of the kit do not contain these fields of a target.
YOUNGER = (
    "machine",
    "conv_units_fp16_sums_fp32",
    "sync_pattern",
    "io_tiles",
    "streaming_bytes",
    "streaming_bytes_per_second",
)


def _read_target(stored: HeaderValue) -> Target:
    field_values = {name: field.value for name, field in stored["fields"].entries()}
    # Older files do not name the prices of codelets, because only `BY_HAND` existed.
    return make_target(TEXT.read(stored["version"]), **{"codelet_prices": BY_HAND, **field_values})


def _write_target(target: Target, _: Columns) -> dict[str, Json]:
    values = asdict(target)
    # The fields in YOUNGER are left out if they have their default values. With default values, the
    # file and its digest are then the same as those of an earlier version of the kit.
    for name in YOUNGER:
        if values[name] == Target.__dataclass_fields__[name].default:
            del values[name]
    return {"version": values.pop("ipu_version"), "fields": values}


TARGET = Codec(_write_target, _read_target)


# Codecs of records


def by_column(make: Make, expected: str, **columns: Codec) -> Codec:
    """Return the codec of a list of objects, stored as one column for each attribute.

    `columns` maps the name of each attribute to the codec of its column. `make` builds an object
    from its attributes. `expected` describes the list in errors.
    """
    columns_codec = pair(*columns.values())

    def read(stored: HeaderValue) -> tuple[Value, ...]:
        attribute_columns = columns_codec.read(stored)
        return (
            tuple(map(make, *attribute_columns))
            if len({*map(len, attribute_columns)}) == 1
            else stored.fail(expected)
        )

    def write(records: Sequence[Value], file_columns: Columns) -> Json:
        return columns_codec.write(
            [[getattr(record, name) for record in records] for name in columns], file_columns
        )

    return Codec(write, read)


def since(version: int) -> Callable[[Codec], Codec]:
    """Return a function that marks a field of a record as missing from files before `version`.

    Use the function in the type hint of the field. When an older file is read, the field gets its
    default value. In a `row`, such fields must come last.
    """
    return lambda field_codec: field_codec._replace(since=version)


def key(name: str) -> Callable[[Codec], Codec]:
    """Return a function that sets the name of a field in the file.

    It is used in the type hint of the field: with `sync_cycles: Annotated[int, key("sync")]`, the
    file stores the field as "sync". Without `key`, the file stores the field under its own name.
    """
    return lambda field_codec: field_codec._replace(key=name)


def codec(hint: Value) -> Codec:
    """Return the codec for a type hint, including its annotations such as `since(2)`."""
    origin: Value = get_origin(hint)
    arguments = get_args(hint)
    if origin is Annotated:
        marks = arguments[1:]
        marked_codec = next((mark for mark in marks if isinstance(mark, Codec)), None) or codec(
            arguments[0]
        )
        for mark in marks:
            if not isinstance(mark, Codec):
                marked_codec = mark(marked_codec)
        return marked_codec
    if origin is tuple:
        return many(codec(arguments[0])) if arguments[-1] is ... else pair(*map(codec, arguments))
    if origin in (Union, UnionType):
        return maybe(codec(arguments[0]))
    return PLAIN[hint] if hint in PLAIN else row(hint)


def schema(record: Make) -> dict[str, Codec]:
    """Return the codecs of a dataclass's fields by name, in order; {} for any other class.

    Fields whose codec is `NOTE` are left out.
    """
    if not is_dataclass(record):
        return {}
    hints = get_type_hints(record, include_extras=True)
    codecs = {field.name: codec(hints[field.name]) for field in fields(record)}
    return {name: field_codec for name, field_codec in codecs.items() if field_codec != NOTE}


def row(make: Make, **parts: Codec) -> Codec:
    """Return the codec of an object that is stored as a list of its fields.

    `make` is a dataclass, whose type hints declare the codecs. If `parts` is given, `make` is a
    function that builds the object from attributes, and `parts` maps the name of each attribute to
    its codec.
    """
    codec_by_field = parts or schema(make)

    def read(stored: HeaderValue) -> Value:
        entries = enumerate(codec_by_field.items())
        version = stored.known.version
        return make(
            **{
                name: field_codec.read(stored[index])
                for index, (name, field_codec) in entries
                if field_codec.since <= version
            }
        )

    def write(record: Value, columns: Columns) -> list[Json]:
        return [
            field_codec.write(getattr(record, name), columns)
            for name, field_codec in codec_by_field.items()
        ]

    return Codec(write, read)


def keyed(make: Make, **parts: Codec) -> Codec:
    """Return the codec of an object that is stored as a JSON object with the names of its fields.

    `make` is a dataclass, whose type hints declare the codecs. If `parts` is given, `make` is a
    function that builds the object from attributes, and `parts` maps the name of each attribute to
    its codec.
    """
    codec_by_field = parts or schema(make)

    def read(stored: HeaderValue) -> Value:
        entries = codec_by_field.items()
        version = stored.known.version
        return make(
            **{
                name: field_codec.read(stored[field_codec.key or name])
                for name, field_codec in entries
                if field_codec.since <= version
            }
        )

    def write(record: Value, columns: Columns) -> dict[str, Json]:
        return {
            field_codec.key or name: field_codec.write(getattr(record, name), columns)
            for name, field_codec in codec_by_field.items()
        }

    return Codec(write, read)


def tagged(kinds: Mapping[str, Codec], kind: Callable[[Value], str], expected: str) -> Codec:
    """Return the codec of values of several kinds, stored as objects with the name of their kind.

    `kinds` maps the name of each kind to its codec, and `kind(value)` returns the name of a value's
    kind. `expected` describes the known kinds in errors.
    """

    def read(stored: HeaderValue) -> Value:
        tag = TEXT.read(stored["kind"])
        return kinds[tag].read(stored) if tag in kinds else stored["kind"].fail(expected)

    def write(value: Value, columns: Columns) -> dict[str, Json]:
        return {"kind": kind(value), **kinds[kind(value)].write(value, columns)}

    return Codec(write, read)
