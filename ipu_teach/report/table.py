"""Tables of records, which users can filter, sort and export."""

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
    """A tuple of records (the rows), which can be filtered and exported.

    The column names are `COLUMNS` of the records' class. If the class has no `COLUMNS`, the columns
    are the fields that the records' repr shows.
    """

    __slots__ = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, or () if the table has no rows."""
        if not self or not is_dataclass(self[0]):
            return ()
        return getattr(self[0], "COLUMNS", None) or tuple(
            field.name for field in fields(self[0]) if field.repr
        )

    if not TYPE_CHECKING:  # Type checkers see the `__getitem__` of tuples.

        def __getitem__(self, index: Any) -> Any:
            try:
                return super().__getitem__(index)
            except IndexError:
                raise PoplarIndexError(
                    f"There is no row {shown(index)} in this table.",
                    next_step=f"give a row from 0 to {len(self) - 1:,}."
                    if self
                    else "test first whether the table has rows: `if rows:`.",
                ) from None

    def records(self) -> list[dict[str, Any]]:
        """Return every row as a dict of plain values."""
        return [{name: getattr(row, name) for name in self.columns} for row in self]

    data = property(records, doc="The rows as dicts, as `records()` returns them.")

    def named(self, pattern: str) -> Table[T]:
        """Return the rows whose name contains a match of the regular expression `pattern`.

        :raises InvalidOptionError: if `pattern` is not a regular expression.
        """
        regex = expression(pattern, "named()")
        return Table(row for row in self if regex.search(getattr(row, "name", "")))

    def where(self, condition: Callable[[T], object]) -> Table[T]:
        """Return the rows for which `condition` returns a true value."""
        return Table(row for row in self if condition(row))

    def largest(self, column: str, count: int = 10) -> Table[T]:
        """Return the `count` rows with the largest values in `column`, largest first.

        :raises InvalidOptionError: if there is no such column.
        """
        if column not in self.columns and self:
            raise InvalidOptionError(f"""The table has no column {shown(column)}.
                next:  choose one of {", ".join(self.columns)}.""")
        return Table(sorted(self, key=lambda row: -getattr(row, column))[:count])

    def to_csv(self) -> str:
        """Return the rows as comma-separated text, with a line of headings."""
        text = io.StringIO()
        writer = csv.DictWriter(text, self.columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.records())
        return text.getvalue()

    def to_dataframe(self) -> Any:
        """Return the rows as a pandas DataFrame.

        :raises NotOfferedError: if pandas is not installed.
        """
        try:
            import pandas
        except ImportError:
            raise NotOfferedError("""to_dataframe() needs pandas, which is not installed.
                next:  install pandas, or use records() or to_csv().""") from None
        return pandas.DataFrame.from_records(self.records(), columns=list(self.columns))

    def _repr_html_(self) -> str:
        # Importing this at the top would be circular: `html` imports this module.
        from ipu_teach.report.html import table_page

        return table_page(self)

    def __repr__(self) -> str:
        return f"Table of {len(self):,} rows" + (f": {', '.join(self.columns)}" if self else "")


def expression(pattern: object, call: str) -> re.Pattern[str]:
    """Compile the regular expression `pattern`; errors name the call or option `call`.

    :raises InvalidOptionError: if `pattern` is not a regular expression.
    """
    try:
        return re.compile(pattern)  # type: ignore[call-overload, no-any-return]
    except (re.error, TypeError) as error:
        raise InvalidOptionError(f"""{call} was given
            {shown(pattern)}, which is not a regular expression: {error}.
            next:  give a regular expression such as "^m4/".""") from None


def finds(pattern: object, call: str, empty: bool = True) -> Finds:
    """Return a function that tests whether a name matches the regular expression `pattern`.

    The match may be anywhere in the name. If `pattern` is empty, every name matches if `empty` is
    True, and no name matches otherwise. Error messages name the call or option `call`.

    :raises InvalidOptionError: if `pattern` is not a regular expression.
    """
    regex = expression(pattern, call)
    return lambda name: (empty or bool(pattern and name)) and regex.search(name) is not None


def plain(text: str) -> str:
    r"""Return `text` with "\ufffd" in place of each unprintable character.

    A terminal might interpret such a character as a command.
    """
    return "".join(character if character.isprintable() else "\ufffd" for character in text)
