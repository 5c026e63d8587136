"""How values stand in files: every maker writes, reads what it wrote, and refuses what it could not
have written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import pytest
from damage import parts, whole as file_of

from ipu_teach.errors import ReportLoadError, ReportNotFoundError
from ipu_teach.saving import schema as s
from ipu_teach.saving.archive import Format
from ipu_teach.target import make_target
from ipu_teach.types import Array

LAPS = Format("lap", 3, "a test", ReportLoadError, ReportNotFoundError)


def part(
    value: Any, known: dict[str, Any] | None = None, out: s.Columns | None = None, version: int = 1
) -> s.HeaderValue:
    """A value as it stands in a file, with what was told before and the columns in `out`."""
    found = s.Known(LAPS, out.arrays() if out else {}, version)
    found.update(known or {})
    return s.HeaderValue(value, "header", found)


def refusal(read: Callable[[], Any]) -> str:
    with pytest.raises(ReportLoadError) as caught:
        read()
    return str(caught.value)


def is_not(value: str, wanted: str, where: str = "header") -> str:
    return (
        f"The lap is damaged: {value} is not {wanted}.\n  where: {where}\n"
        "  next:  save it again; a file that was changed by hand cannot be loaded."
    )


def missing(where: str) -> str:
    return f"The lap is damaged: an entry is missing.\n  where: {where}\n  next:  save it again."


@dataclass(frozen=True)
class Point:
    x: int
    y: Annotated[int, s.whole(-5, 5)] = 0


@dataclass(frozen=True)
class Everything:
    name: str
    good: bool
    share: float
    points: tuple[Point, ...]
    both: tuple[int, str]
    best: Point | None
    line: Annotated[str, s.NOTE] = "not here"
    more: Annotated[int, s.since(2), s.key("extra")] = 7


SOME = Everything("a", True, 0.5, (Point(1, -2), Point(3)), (4, "b"), None, "not here", 9)
ROW = ["a", True, 0.5, [[1, -2], [3, 0]], [4, "b"], None, 9]
KEYS = ("name", "good", "share", "points", "both", "best", "extra")
SIZES = {"three": [1, 2, 3], "seven": 7}


@pytest.mark.parametrize(
    ("codec", "value", "stands"),
    [
        (s.TEXT, "é", "é"),
        (s.FLAG, False, False),
        (s.whole(), 0, 0),
        (s.whole(-3, "seven"), 7, 7),
        (s.whole(below="three"), 2, 2),
        (s.real(), 2.5, 2.5),
        (s.many(s.TEXT), ("a", "b"), ["a", "b"]),
        (s.numbers(), (1, 2), [1, 2]),
        (s.maybe(s.TEXT), None, None),
        (s.maybe(s.TEXT), "a", "a"),
        (s.pair(s.TEXT, s.whole()), ("a", 1), ["a", 1]),
        (s.named(s.whole()), {"a": 1}, {"a": 1}),
        (s.named(s.whole(), ("a", "b")), {"b": 1}, {"b": 1}),
        (s.checked(s.whole(), lambda n: n % 2 == 0, "even"), 4, 4),
        (s.told("name", s.TEXT), "a", "a"),
        (s.row(Everything), SOME, ROW),
        (s.keyed(Everything), SOME, dict(zip(KEYS, ROW, strict=True))),
        (
            s.by_column(Point, "points", x=s.many(s.whole()), y=s.many(s.whole())),
            (Point(1, 2), Point(3, 4)),
            [[1, 3], [2, 4]],
        ),
        (
            s.tagged({"Point": s.keyed(Point)}, lambda p: type(p).__name__, "a shape"),
            Point(1, 2),
            {"kind": "Point", "x": 1, "y": 2},
        ),
        (s.row(Point, x=s.whole(), y=s.whole()), Point(1, 2), [1, 2]),
    ],
)
def test_what_is_written_is_read(codec: s.Codec, value: Any, stands: Any) -> None:
    assert codec.write(value, s.Columns()) == stands
    assert codec.read(part(stands, SIZES, version=3)) == value


@pytest.mark.parametrize(
    ("codec", "value", "text"),
    [
        (s.TEXT, 3, is_not("3", "text")),
        (s.FLAG, 1, is_not("1", "true or false")),
        (s.whole(), -1, is_not("-1", "a whole number from 0 to 72,057,594,037,927,936")),
        (s.whole(), True, is_not("True", "a whole number from 0 to 72,057,594,037,927,936")),
        (s.whole(1, "seven"), 8, is_not("8", "a whole number from 1 to 7")),
        (s.whole(below="three"), 3, is_not("3", "a whole number from 0 to 2")),
        (s.real(), float("nan"), is_not("nan", "a number from 0 to 1e+18")),
        (s.real(-1, 1), "x", is_not("'x'", "a number from -1 to 1")),
        (s.many(s.TEXT), {}, is_not("{}", "a list")),
        (s.many(s.TEXT), ["a", 3], is_not("3", "text", "header[1]")),
        (s.many(s.TEXT, 1, "one"), ["a", "b"], is_not("['a', 'b']", "one")),
        (s.numbers(longest=1), [1, 2], is_not("[1, 2]", "a list of at most 1 numbers")),
        (s.numbers(), None, is_not("None", "a list of at most 1,000,000 numbers")),
        (s.numbers(s.index("three")), [3], is_not("3", "a whole number from 0 to 2", "header[0]")),
        (s.maybe(s.TEXT), 3, is_not("3", "text")),
        (s.pair(s.TEXT, s.TEXT), ["a"], missing("header[1]")),
        (s.pair(s.TEXT), "a", is_not("'a'", "a list")),
        (s.named(s.TEXT), [], is_not("[]", "an object")),
        (s.named(s.TEXT, ("a",), "an a"), {"b": "x"}, is_not("{'b': 'x'}", "an a")),
        (s.named(s.TEXT), {"a": 3}, is_not("3", "text", "header.a")),
        (s.checked(s.whole(), lambda n: n % 2 == 0, "even"), 3, is_not("3", "even")),
        (s.row(Point), [1], missing("header[1]")),
        (s.row(Point), [1, 6], is_not("6", "a whole number from -5 to 5", "header[1]")),
        (s.keyed(Point), {"x": 1}, missing("header.y")),
        (s.keyed(Point), [], is_not("[]", "an object")),
        (
            s.by_column(Point, "points", x=s.many(s.whole()), y=s.many(s.whole())),
            [[1], []],
            is_not("[[1], []]", "points"),
        ),
        (
            s.tagged({"Point": s.keyed(Point)}, repr, "a shape"),
            {"kind": "x"},
            is_not("'x'", "a shape", "header.kind"),
        ),
        (s.TARGET, {"version": 3, "fields": {}}, is_not("3", "text", "header.version")),
    ],
)
def test_what_was_not_written_is_refused(codec: s.Codec, value: Any, text: str) -> None:
    assert refusal(lambda: codec.read(part(value, SIZES))) == text


def test_a_number_stands_for_what_was_told() -> None:
    assert s.numbers(s.index("three")).read(part([0, 2], SIZES)) == (1, 3)


def test_some_attributes_of_what_is_no_record() -> None:
    codec = s.keyed(dict, real=s.real(), imag=s.real())
    assert (
        codec.write(1 + 2j, s.Columns())
        == {"real": 1, "imag": 2}
        == codec.read(part({"real": 1, "imag": 2}))
    )


def test_older_files_lack_a_field_and_newer_ones_never() -> None:
    row, keyed = s.row(Everything), s.keyed(Everything)
    old, named = ROW[:-1], dict(zip(KEYS, ROW[:-1], strict=False))
    assert row.read(part(old, version=1)).more == keyed.read(part(named, version=1)).more == 7
    assert refusal(lambda: row.read(part(old, version=2))) == missing("header[6]")
    assert refusal(lambda: keyed.read(part(named, version=2))) == missing("header.extra")


def test_a_bound_may_be_told_before() -> None:
    span = s.pair(s.told("first", s.whole(most=9)), s.whole("first", 9))
    assert span.read(part([3, 3])) == (3, 3)
    assert refusal(lambda: span.read(part([3, 2]))) == is_not(
        "2", "a whole number from 3 to 9", "header[1]"
    )


def test_a_machine_is_written_down() -> None:
    target = make_target("ipu1", tiles_per_ipu=3)
    assert s.TARGET.read(part(s.TARGET.write(target, s.Columns()))) == target


# --- columns --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([3, 3], "="),
        ([], "="),
        ([0, 255], "u1"),
        ([0, 256], "u2"),
        ([0, 2**16], "u4"),
        ([-1, 0], "i8"),
    ],
)
def test_columns_take_the_smallest_numbers(values: list[int], kind: str) -> None:
    out, codec = s.Columns(), s.column(least=-1)
    place = codec.write(values, out)
    assert place == [kind, values[0] if kind == "=" and values else 0, len(values)]
    assert codec.write(list(values), out) == place  # equal ones stand once
    found = codec.read(part(place, out=out))
    assert found.dtype == np.int64 and found.tolist() == values and not found.flags.writeable


def test_columns_have_the_shape_that_was_told() -> None:
    out, codec = s.Columns(), s.column("three", "two")
    place = codec.write(np.arange(6), out)
    assert codec.read(part(place, {**SIZES, "two": 2}, out)).tolist() == [[0, 1], [2, 3], [4, 5]]


@pytest.mark.parametrize(
    ("place", "text"),
    [
        (["u1", 0, 2], is_not("['u1', 0, 2]", "a column of 3 numbers")),
        (["=", 9, 3], is_not("9", "a whole number from 0 to 5", "header[1]")),
        (["i4", 0, 3], is_not("['i4', 0, 3]", "a column of this file")),
        (["u1", 2, 3], is_not("['u1', 2, 3]", "a column that ends within the file")),
        (["u1", 0, 3], is_not("['u1', 0, 3]", "a column of numbers from 0 to 5")),
        (["u1", -1, 3], is_not("-1", "a whole number from 0 to 4", "header[1]")),
        (3, is_not("3", "a list")),
        ([], missing("header[0]")),
    ],
)
def test_columns_that_lie(place: Any, text: str) -> None:
    out = s.Columns()
    out.add([1, 2, 200, 1])
    assert refusal(lambda: s.column("three", below=6).read(part(place, SIZES, out))) == text


def test_columns_cannot_ask_for_more_than_a_machine_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s, "MOST_NUMBERS", 5)
    text = is_not("['=', 1, 3]", "among the first 5 numbers of a lap", "header[1]")
    assert refusal(lambda: s.many(s.column()).read(part([["=", 1, 3], ["=", 1, 3]]))) == text


def test_arrays_lie_end_to_end() -> None:
    out = s.Columns({"numbers": np.dtype("i8"), "bytes": np.dtype("u1")})
    assert (out.put("numbers", np.arange(3)), out.put("bytes", np.float32([1, 2]))) == (0, 0)
    assert out.put("numbers", np.eye(2, dtype="i8")) == 3
    assert {name: len(array) for name, array in out.arrays().items()} == {"numbers": 7, "bytes": 8}


# --- what stands once -----------------------------------------------------------------------------


def test_what_comes_often_stands_once() -> None:
    out, twice = s.Columns(), s.once("points", s.row(Point))
    assert [s.ONCE.write(text, out) for text in "aba"] == [0, 1, 0] and out.table("texts") == [
        "a",
        "b",
    ]
    assert [twice.write(p, out) for p in (Point(1), Point(2), Point(1))] == [0, 1, 0]
    assert out.table("points") == [[1, 0], [2, 0]] and out.table("none") == []
    assert s.ONCE.read(part(1, {"texts": ("a", "b")})) == "b"
    assert refusal(lambda: s.ONCE.read(part(2, {"texts": ("a", "b")}))) == is_not(
        "2", "a whole number from 0 to 1"
    )


def test_what_has_one_key_is_written_once() -> None:
    out, written = s.Columns(), []
    codec = s.once("points", s.Codec(lambda v, _: written.append(v) or v.x, s.TEXT.read), id)
    first, second = Point(1), Point(1)
    assert [codec.write(p, out) for p in (first, second, first)] == [0, 1, 0] and written == [
        first,
        second,
    ]


# --- a format of one's own ------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Laps:
    tiles: Annotated[int, s.told("tiles", s.whole(1))]
    cycles: s.PerTile
    notes: tuple[str, ...]
    place: Annotated[str, s.since(3)] = "nowhere"


def saved(laps: Laps) -> bytes:
    out = s.Columns()
    header = s.keyed(Laps).write(laps, out)
    return LAPS.pack(header, out.arrays())


def test_a_format_is_declared() -> None:
    cycles: Array = np.array([5, 6, 7])
    found = s.load(saved(Laps(3, cycles, ("a",), "here")), LAPS, s.keyed(Laps).read)
    assert (found.tiles, found.cycles.tolist(), found.notes, found.place) == (
        3,
        [5, 6, 7],
        ("a",),
        "here",
    )


def test_a_damaged_format_is_refused() -> None:
    def lie(**changes: Any) -> str:
        header, arrays = parts(saved(Laps(3, np.array([5, 6, 7]), (), "here")))
        header.update(changes)
        return refusal(
            lambda: s.load(
                file_of({k: v for k, v in header.items() if v is not None}, arrays), LAPS, read
            )
        )

    read = s.keyed(Laps).read
    assert lie(tiles=2) == is_not("['u1', 0, 3]", "a column of 2 numbers", "header.cycles")
    assert lie(place=None) == missing("header.place")
    assert lie(version=2.5) == is_not("2.5", "a whole number from 1 to 1,000,000", "header.version")
    assert lie(version=4).startswith(
        "The lap has format version 4, but this kit reads only up to version 3.\n"
    )
    header, arrays = parts(saved(Laps(3, np.array([5, 6, 7]), (), "here")))
    del header["place"]
    header["version"] = 2
    assert s.load(file_of(header, arrays), LAPS, read).place == "nowhere"
    wrong = LAPS.pack({}, {"u1": np.zeros(3, np.int64)})
    assert "is not the header of a file in which u1.npy has dtype uint8" in refusal(
        lambda: s.load(wrong, LAPS, read)
    )


def test_whatever_goes_wrong_is_damage() -> None:
    data = saved(Laps(3, np.array([5, 6, 7]), ()))
    text = "The lap is damaged: KeyError: \"'gone'\".\n  next:  save it again."
    assert refusal(lambda: s.load(data, LAPS, lambda p: {}["gone"])) == text
    other = refusal(lambda: s.load(data, LAPS, lambda p: make_target("ipu9")))
    assert other.startswith("The lap is damaged: There is no machine 'ipu9'.") and other.endswith(
        "\n  next:  save it again."
    )
