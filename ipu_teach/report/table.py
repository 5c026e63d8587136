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
    """A tuple of records.

    The columns are the `COLUMNS` of the records' class, or else the fields that their repr shows.
    """

    __slots__ = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns; none if there are no rows."""
        if not self or not is_dataclass(self[0]):
            return ()
        return getattr(self[0], "COLUMNS", None) or tuple(f.name for f in fields(self[0]) if f.repr)

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

    data = property(records, doc="`records()`, by the name that the views have for it.")

    def named(self, pattern: str) -> Table[T]:
        """Return the rows whose name matches the regular expression `pattern`, at any place.

        Raises `InvalidOptionError`.
        """
        wanted = expression(pattern, "named()")
        return Table(row for row in self if wanted.search(getattr(row, "name", "")))

    def where(self, condition: Callable[[T], object]) -> Table[T]:
        """Return the rows for which `condition` returns a true value."""
        return Table(row for row in self if condition(row))

    def largest(self, column: str, count: int = 10) -> Table[T]:
        """Return the `count` rows with the largest values in a column, largest first."""
        if column not in self.columns and self:
            raise InvalidOptionError(f"""There is no column {shown(column)}.
                next:  the columns are {", ".join(self.columns)}.""")
        return Table(sorted(self, key=lambda row: -getattr(row, column))[:count])

    def to_csv(self) -> str:
        """Return the rows as comma-separated text, with a line of headings."""
        out = io.StringIO()
        writer = csv.DictWriter(out, self.columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.records())
        return out.getvalue()

    def to_dataframe(self) -> Any:
        """Return the rows as a pandas DataFrame. Raises `NotOfferedError` without pandas."""
        try:
            import pandas
        except ImportError:
            raise NotOfferedError("""to_dataframe() needs pandas, which is not installed.
                next:  install pandas, or use records() or to_csv().""") from None
        return pandas.DataFrame.from_records(self.records(), columns=list(self.columns))

    def _repr_html_(self) -> str:
        from ipu_teach.report.html import table_page  # imported here, as html imports this module

        return table_page(self)

    def __repr__(self) -> str:
        return f"Table of {len(self):,} rows" + (f": {', '.join(self.columns)}" if self else "")


def expression(pattern: object, call: str) -> re.Pattern[str]:
    """Return a compiled regular expression. Raises `InvalidOptionError`, which names `call`."""
    try:
        return re.compile(pattern)  # type: ignore[call-overload, no-any-return]
    except (re.error, TypeError) as error:
        raise InvalidOptionError(f"""{call} was given
            {shown(pattern)}, which is not a regular expression: {error}.
            next:  give text such as "^m4/".""") from None


def finds(pattern: object, call: str, empty: bool = True) -> Finds:
    """Return a function that returns whether a regular expression matches a name, at any place.

    An empty pattern matches every name, or no name if `empty` is False. Raises
    `InvalidOptionError`.
    """
    wanted = expression(pattern, call)
    return lambda name: (empty or bool(pattern and name)) and wanted.search(name) is not None


def plain(text: str) -> str:
    """Return `text` without control characters that a terminal or a page would interpret."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text)
