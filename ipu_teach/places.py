"""Where the files lie that come with the kit beside its code: the lessons' notebooks, the pages,
the digits.

In a checkout they lie beside the package. A wheel carries them in the package's folder `course`:
hatch_build.py puts them there."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
COURSE = PACKAGE / "course"


def checkout() -> Path | None:
    """The checkout that this kit runs from; None if it was installed from a wheel."""
    return None if COURSE.is_dir() else PACKAGE.parent


def bundled(name: str) -> Path:
    """The folder `notebooks`, `docs` or `datasets`, wherever it lies."""
    return (checkout() or COURSE) / name
