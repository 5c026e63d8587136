"""Write tables of a class as comma-separated text that spreadsheets open."""

from __future__ import annotations

import sys
from pathlib import Path

from ipu_teach.errors import LessonError


def cell_text(text: str) -> str:
    """Return a text with a quote before it, if a spreadsheet would read it as a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text


def write_csv(file: Path, rows: str) -> None:
    """Write CSV text to a file, with the byte order mark by which Excel recognises UTF-8.

    :raises LessonError: if the name does not end in .csv, or the file cannot be written.
    """
    if file.suffix.lower() != ".csv":  # Do not overwrite a learner's file by accident.
        raise LessonError(
            f"--csv was given {str(file)!r}, whose name does not end in .csv.",
            next_step="write the folders first, then --csv and a file: class homes --csv day1.csv.",
        )
    try:
        file.write_text(rows, encoding="utf-8-sig", newline="\r\n", errors="replace")
    except OSError as error:
        raise LessonError(
            f"{file} could not be written: {error.strerror}.",
            next_step="give a file in a folder that you may write.",
        ) from None
    print(f"{file} has the table; Excel and LibreOffice open it", file=sys.stderr)
