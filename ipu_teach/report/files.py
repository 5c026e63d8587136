"""Methods of `Report` that write reports to files and read them back.

Reading checks all data of a file, and does not execute any code in it.
"""

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
    """Write the report to one file, such as `run.ipureport`.

    An existing file is replaced only when the new file is complete. `host=False` leaves out the
    events and times of the host, so that equal runs give equal files.

    :raises NotOfferedError: if the report is too large.
    """
    write_whole(path, report.serialize(host=host), "save()", REPORT.noun)


def serialize(report: Report, *, host: bool = True) -> bytes:
    """Return the report as the bytes that `save` writes to a file.

    :raises NotOfferedError: if the report is too large.
    """
    names = (node.name for program in report.profile.programs for _, node in program.walk())
    settings = report.instrumentation_settings.written(names)
    events = report.host.written() if host else None
    return writer.serialize(
        report.profile,
        report._ran,
        Besides(str(report.poplar_version), settings, events, report._ran.rows),
    )


def open(cls: type[Report], path: str | os.PathLike[str]) -> Report:
    """Read a report from a file that `save` wrote. Reading executes no code of the file.

    The report gives the same answers as the saved report, except where an answer needs the
    vertices, which the file does not contain: `what_if` cannot change fields that affect vertices,
    and the chains of `why` are shorter.

    :raises ReportLoadError: if the file does not exist or is not a valid report.
    """
    return read_whole(path, "open()", REPORT, cls.deserialize)


def deserialize(cls: type[Report], data: bytes) -> Report:
    """Return the report that is stored in the bytes `data`, as `serialize` returns them.

    :raises ReportLoadError: if the bytes are not a valid report.
    """
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise ReportLoadError(f"""deserialize() was given {shown(data)}, which is not bytes.
            next:  give the bytes that serialize() returned.""")
    return cls(*read(bytes(data)))


def sample(cls: type[Report], name: str = "products") -> Report:
    """Return one of the sample reports that come with the kit.

    `name` is "products", "spread" (the same product, but with each row divided between two
    vertices) or "too_large" (a program that does not fit).

    :raises InvalidOptionError: if there is no sample report with this name.
    """
    folder = resources.files("ipu_teach.report").joinpath("samples")
    known = sorted(file.name.removesuffix(".ipureport") for file in folder.iterdir())
    if name not in known:
        raise InvalidOptionError(f"""There is no sample report {shown(name)}.
            next:  {did_you_mean(name, known)}choose one of {", ".join(map(repr, known))}.""")
    return cls.deserialize(folder.joinpath(f"{name}.ipureport").read_bytes())


def digest(report: Report) -> str:
    """Return 64 hexadecimal digits that are equal for equal programs and runs.

    The digits are the same in every process and on every computer. They depend on the target, the
    memory, the program tree, the modelled cycles and bytes of every step, and the steps that ran.
    They do not depend on paths, lines of code or the host's times.
    """
    return writer.digest(report.profile, report._ran)
