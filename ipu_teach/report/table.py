"""Tables of records, which can be counted, filtered and passed to other tools."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from ipu_teach.errors import InvalidOptionError, NotOfferedError, PoplarIndexError, shown

T = TypeVar("T")
Finds = Callable[[str], bool]


class Table(tuple[T, ...]):
    """A tuple of records, which can be filtered and exported.

    Its columns are the `COLUMNS` of the records' class, or else the fields that their repr shows.
    """

    __slots__ = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns. A table without rows has no columns."""
        if not self or not is_dataclass(self[0]):
            return ()
        return getattr(self[0], "COLUMNS", None) or tuple(
            field.name for field in fields(self[0]) if field.repr
        )

    if not TYPE_CHECKING:  # type checkers know the method of tuples

        def __getitem__(self, index: Any) -> Any:
            try:
                return super().__getitem__(index)
            except IndexError:
                raise PoplarIndexError(
                    f"There is no row {shown(index)}.",
                    next_step=f"there are {len(self):,} rows, from 0."
                    if self
                    else "test first whether the table has rows: `if rows:`.",
                ) from None

    def records(self) -> list[dict[str, Any]]:
        """Return every row as a dict of plain values."""
        return [{name: getattr(row, name) for name in self.columns} for row in self]

    data = property(records, doc="The rows as dicts, as `records()` returns them.")

    def named(self, pattern: str) -> Table[T]:
        """Return the rows whose name matches the regular expression `pattern`, at any place.

        Raises `InvalidOptionError` if `pattern` is not a regular expression.
        """
        regex = expression(pattern, "named()")
        return Table(row for row in self if regex.search(getattr(row, "name", "")))

    def where(self, condition: Callable[[T], object]) -> Table[T]:
        """Return the rows for which `condition` returns a true value."""
        return Table(row for row in self if condition(row))

    def largest(self, column: str, count: int = 10) -> Table[T]:
        """Return the `count` rows with the largest values in `column`, largest first.

        Raises `InvalidOptionError` if there is no such column.
        """
        if column not in self.columns and self:
            raise InvalidOptionError(f"""There is no column {shown(column)}.
                next:  the columns are {", ".join(self.columns)}.""")
        return Table(sorted(self, key=lambda row: -getattr(row, column))[:count])

    def to_csv(self) -> str:
        """Return the rows as comma-separated text, with a line of headings."""
        text = io.StringIO()
        writer = csv.DictWriter(text, self.columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.records())
        return text.getvalue()

    def to_dataframe(self) -> Any:
        """Return the rows as a pandas DataFrame. Raises `NotOfferedError` without pandas."""
        try:
            import pandas
        except ImportError:
            raise NotOfferedError("""to_dataframe() needs pandas, which is not installed.
                next:  install pandas, or use records() or to_csv().""") from None
        return pandas.DataFrame.from_records(self.records(), columns=list(self.columns))

    def _repr_html_(self) -> str:
        from ipu_teach.report.html import table_page  # not at the top: html imports this module

        return table_page(self)

    def __repr__(self) -> str:
        return f"Table of {len(self):,} rows" + (f": {', '.join(self.columns)}" if self else "")


def expression(pattern: object, call: str) -> re.Pattern[str]:
    """Return the compiled regular expression `pattern`.

    Raises `InvalidOptionError`, in which `call` names the caller, if it is not one.
    """
    try:
        return re.compile(pattern)  # type: ignore[call-overload, no-any-return]
    except (re.error, TypeError) as error:
        raise InvalidOptionError(f"""{call} was given
            {shown(pattern)}, which is not a regular expression: {error}.
            next:  give text such as "^m4/".""") from None


def finds(pattern: object, call: str, empty: bool = True) -> Finds:
    """Return a function that returns whether a regular expression matches a name, at any place.

    An empty pattern matches every name, or no name if `empty` is False. Raises
    `InvalidOptionError`, in which `call` names the caller, if `pattern` is not one.
    """
    regex = expression(pattern, call)
    return lambda name: (empty or bool(pattern and name)) and regex.search(name) is not None


def plain(text: str) -> str:
    """Return `text` with "\\ufffd" for each character that a terminal might interpret."""
    return "".join(character if character.isprintable() else "\ufffd" for character in text)
