"""Write reports to files and read them. Nothing in a file is run, and everything is checked."""

from __future__ import annotations

import os
from importlib import resources
from typing import TYPE_CHECKING

from ipu_teach.errors import InvalidOptionError, ReportLoadError, did_you_mean, shown
from ipu_teach.report import writer
from ipu_teach.report.reader import read
from ipu_teach.report.writer import REPORT, Besides
from ipu_teach.saving.archive import read_whole, write_whole

if TYPE_CHECKING:
    from ipu_teach.report.report import Report


def save(report: Report, path: str | os.PathLike[str], *, host: bool = True) -> None:
    """Write one file, `run.ipureport` say. An old one is replaced when the new one is complete,
    or not at all.

    `host=False` leaves out the host's times, so that equal runs are equal files.
    """
    write_whole(path, report.serialize(host=host), "save()", REPORT.noun)


def serialize(report: Report, *, host: bool = True) -> bytes:
    """Return the report as bytes, the same as `save` writes. Raises `NotOfferedError` for one that
    is too large."""
    names = (node.name for program in report.profile.programs for _, node in program.walk())
    settings = report.instrumentation_settings.written(names)
    events = report.host.written() if host else None
    return writer.serialize(
        report.profile,
        report._ran,
        Besides(str(report.poplar_version), settings, events, report._ran.rows),
    )


def open(cls: type[Report], path: str | os.PathLike[str]) -> Report:
    """Read a file that `save` wrote. It answers what the live report answers, except `what_if`
    of what would need the vertices, and chains of `why` end before them. Nothing in the file is
    run, and everything is checked. Raises `ReportLoadError`."""
    return read_whole(path, "open()", REPORT, cls.deserialize)


def deserialize(cls: type[Report], data: bytes) -> Report:
    """Return the report in `data`, as `open`."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise ReportLoadError(f"""deserialize() was given {shown(data)}.
            next:  give the bytes that serialize() returned.""")
    return cls(*read(bytes(data)))


def sample(cls: type[Report], name: str = "products") -> Report:
    """Return one of the reports that come with the kit, to look at: `products`, `spread` (the same
    product with its rows cut in two) or `too_large` (a program that does not fit). Raises
    `InvalidOptionError`."""
    folder = resources.files("ipu_teach.report").joinpath("samples")
    known = sorted(file.name.removesuffix(".ipureport") for file in folder.iterdir())
    if name not in known:
        raise InvalidOptionError(f"""There is no sample report {shown(name)}.
            next:  {did_you_mean(name, known)}There are {", ".join(map(repr, known))}.""")
    return cls.deserialize(folder.joinpath(f"{name}.ipureport").read_bytes())


def digest(report: Report) -> str:
    """Return 64 hexadecimal digits, equal for equal programs and runs in every process and on every
    machine.

    The machine, the memory, the program tree, the modelled cycles and bytes of every step and the
    steps that ran go into it; paths, lines and the host's times do not.
    """
    return writer.digest(report.profile, report._ran)
