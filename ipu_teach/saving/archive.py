"""The container of saved executables and reports: an uncompressed zip file.

The members of the zip file are `header.json`, and `NAME.npy` files with one-dimensional arrays that
need no pickle. Nothing is compressed, so that a small file cannot unpack to a large one. The module
`schema` declares the contents of a header and checks them.

This module imports no high-level packages, because the packages `report` and `engine` both save
their files with it.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np

from ipu_teach._support import places
from ipu_teach.errors import InvalidOptionError, IPUTeachError, shown
from ipu_teach.types import Array

T = TypeVar("T")
MOST_NODES = 10**6  # The maximum number of nodes in a program, counting equal nodes separately.
_npy: Any = np.lib.format  # Only some versions of numpy have types for this module.

Header: TypeAlias = dict[str, Any]  # The contents of `header.json`.
# The dtypes that arrays in a file may have, by numpy's names.
KINDS: dict[str, np.dtype[np.generic]] = {
    "int64": np.dtype("<i8"),
    "uint8": np.dtype("u1"),
    "uint16": np.dtype("<u2"),
    "uint32": np.dtype("<u4"),
    "float64": np.dtype("<f8"),
}
# All members of the archive have this date, so that equal contents give equal files.
_DATE = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class Format:
    """A kind of file that the kit saves.

    - `noun` is the name of the contents, such as "report".
    - `version` is the newest version of the format.
    - `writer` is the call that writes such a file, for error messages.
    - `error` is the class of the error for a damaged file, and `missing` is the class for a missing
      file.
    """

    noun: str
    version: int
    writer: str
    error: type[IPUTeachError]
    missing: type[IPUTeachError]

    @property
    def name(self) -> str:
        """The name of the format in the header of a file, such as "ipu_teach report"."""
        return f"ipu_teach {self.noun}"

    def pack(self, header: Header, arrays: Mapping[str, Array]) -> bytes:
        """Return the bytes of a file with `header` and `arrays`.

        The name and the version of this format are added to the header. The arrays must be
        one-dimensional, with dtypes in `KINDS`.
        """
        header = {"format": self.name, "version": self.version, **header}
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as file:
            header_text = json.dumps(
                header, separators=(",", ":"), ensure_ascii=True, allow_nan=False
            )
            file.writestr(zipfile.ZipInfo("header.json", _DATE), header_text)
            for name, array in arrays.items():
                member = io.BytesIO()
                little_endian = np.ascontiguousarray(array, KINDS[array.dtype.name])
                _npy.write_array(member, little_endian, (1, 0), allow_pickle=False)
                file.writestr(zipfile.ZipInfo(f"{name}.npy", _DATE), member.getvalue())
        return buffer.getvalue()


def unpack(data: bytes, form: Format) -> tuple[Header, dict[str, Array]]:
    """Return `(header, arrays)` of a file of format `form` whose contents are the bytes `data`.

    Errors of the class `form.error` are raised if the bytes are not such a file.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            members = _members(file, len(data), form)
            arrays = {
                name[:-4]: _array(name, content)
                for name, content in members.items()
                if name.endswith(".npy")
            }
            header = json.loads(members.get("header.json", b"null"))
    except form.error:
        raise
    # For damaged bytes, zipfile, json and numpy may raise any error.
    except Exception as error:
        raise form.error(
            f"The file is not a valid {form.noun}, or it is damaged: {type(error).__name__}: "
            f"{shown(str(error))}.",
            next_step=f"load a file that {form.writer} wrote; if it was copied, copy it again.",
        ) from None
    if not isinstance(header, dict) or header.get("format") != form.name:
        raise form.error(
            f"The file is a zip file, but contains no {form.noun} of this kit.",
            next_step=f"load a file that {form.writer} wrote.",
        )
    return header, arrays


def _members(file: zipfile.ZipFile, size: int, form: Format) -> dict[str, bytes]:
    members = file.infolist()
    names = [info.filename for info in members]
    is_plain = all(
        member.compress_type == zipfile.ZIP_STORED and member.compress_size == member.file_size
        for member in members
    )
    if (
        not is_plain
        or len(set(names)) < len(names)
        or sum(member.file_size for member in members) > size
    ):
        raise form.error(
            "The zip file was not written by this kit: its members are compressed, duplicated or "
            "overlapping.",
            next_step=f"load a file that {form.writer} wrote.",
        )
    return {name: file.read(name) for name in names}


def _array(name: str, content: bytes) -> Array:
    stream = io.BytesIO(content)
    if _npy.read_magic(stream) != (1, 0):
        raise ValueError(f"{name} has another version of the npy format")
    shape, is_fortran, dtype = _npy.read_array_header_1_0(stream)
    num_data_bytes = len(content) - stream.tell()
    if (
        dtype not in KINDS.values()
        or len(shape) != 1
        or is_fortran
        and shape[0] > 1
        or shape[0] * dtype.itemsize != num_data_bytes
    ):
        raise ValueError(f"{name} has the wrong shape {shape} or dtype {dtype}")
    return np.frombuffer(content, dtype, offset=stream.tell()).astype(dtype.newbyteorder("="))


def path_of(argument: str | os.PathLike[str], call: str) -> Path:
    """Return `argument` as a path.

    :raises InvalidOptionError: if `argument` is not a path. The message names the caller, `call`.
    """
    try:
        path = Path(os.fsdecode(argument))
    except TypeError:
        path = Path()
    if path.name and "\0" not in str(path):
        return path
    raise InvalidOptionError(
        f"{call} was given {shown(argument)}, which is not the path of a file.",
        next_step="give the path of a file.",
    )


def read_whole(
    path: str | os.PathLike[str], call: str, form: Format, read: Callable[[bytes], T]
) -> T:
    """Return `read(contents)` for the contents of a file of format `form`.

    If the file does not exist, an error of the class `form.missing` is raised. If the file cannot
    be read, the error is of the class `form.error`. Both errors contain the path of the file.

    :raises InvalidOptionError: if `path` is not a path. The message names the caller, `call`.
    """
    file_path = path_of(path, call)
    try:
        return read(file_path.read_bytes())
    except OSError as error:
        raise (form.missing if isinstance(error, FileNotFoundError) else form.error)(
            f"The file {shown(str(file_path))} cannot be read: {error.strerror or error}.",
            next_step=f"give the path of a file that {form.writer} wrote.",
        ) from None
    except form.error as error:
        error_place = f"{file_path}, {error.where}" if error.where else str(file_path)
        raise form.error(
            error.tried, where=error_place, line=error.line, next_step=error.next_step
        ) from error.__cause__


def write_whole(path: str | os.PathLike[str], data: bytes, call: str, noun: str) -> None:
    """Write the file `path`; an existing file is replaced only when the new file is complete.

    :raises InvalidOptionError: if the file cannot be written. If `path` is not a path, the message
        names the caller, `call`. Otherwise it contains `noun`, a word for the contents of the file.
    """
    file_path = path_of(path, call)
    try:
        places.write_whole(file_path, data)
    except OSError as error:
        raise InvalidOptionError(f"""The {noun} cannot be written to {shown(str(file_path))}:
            {error.strerror or error}.
            next:  give the path of a file in a folder that exists and may be written
            to.""") from None
