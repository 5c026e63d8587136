"""The container of a saved executable: one JSON header and a few columns of numbers, in an uncompressed zip file.

Members are `header.json` and `NAME.npy`, one-dimensional arrays that need no pickle. Nothing is compressed, so that no file
unpacks to more than its own size. Everything read back is checked before it is used; a fault is an `ExecutableLoadError`.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

import numpy as np

from ipu_teach.errors import ExecutableLoadError, shown
from ipu_teach.types import Array

FORMAT = "ipu_teach executable"
VERSION = 2
MOST_NODES = 10**6  # parts of a program, each counted as often as it stands in the tree
_npy: Any = np.lib.format  # typed in some versions of numpy only

KINDS: dict[str, np.dtype[Any]] = {"int64": np.dtype("<i8"), "uint8": np.dtype("u1")}
_DATE = (1980, 1, 1, 0, 0, 0)  # so that equal executables are equal files


def pack(header: Mapping[str, Any], arrays: Mapping[str, Array]) -> bytes:
    """The file that holds `header` and `arrays` (int64 or uint8, one-dimensional)."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as file:
        whole = {"format": FORMAT, "version": VERSION, **header}
        text = json.dumps(whole, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
        file.writestr(zipfile.ZipInfo("header.json", _DATE), text)
        for name, array in arrays.items():
            member = io.BytesIO()
            little = np.ascontiguousarray(array, KINDS[array.dtype.name])
            _npy.write_array(member, little, (1, 0), allow_pickle=False)
            file.writestr(zipfile.ZipInfo(f"{name}.npy", _DATE), member.getvalue())
    return buffer.getvalue()


def unpack(data: bytes) -> tuple[Part, dict[str, Array]]:
    """The header and the arrays in `data`. Raises `ExecutableLoadError`."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            members = _members(file, len(data))
            arrays = {n[:-4]: _array(n, content) for n, content in members.items() if n.endswith(".npy")}
            header = json.loads(members.get("header.json", b"null"))
    except ExecutableLoadError:
        raise
    except Exception as error:  # damaged bytes fail in as many ways as there are lines in the readers
        raise ExecutableLoadError(
            f"This is no executable, or it is damaged: {type(error).__name__}: {shown(str(error))}.",
            next_step="load a file that Executable.save wrote; if it was copied, copy it again.",
        ) from None
    part = Part(header, "header")
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ExecutableLoadError(
            "This is a zip file, and no executable of this kit.", next_step="load a file that Executable.save wrote."
        )
    version = part.whole("version", 1, 10**6)
    if version > VERSION:
        raise ExecutableLoadError(
            f"The executable has format version {version}; this kit reads up to version {VERSION}.",
            next_step="update ipu_teach, or save the executable again with this version.",
        )
    return part, arrays


def _members(file: zipfile.ZipFile, size: int) -> dict[str, bytes]:
    infos = file.infolist()
    names = [info.filename for info in infos]
    plain = all(i.compress_type == zipfile.ZIP_STORED and i.compress_size == i.file_size for i in infos)
    if not plain or len(set(names)) < len(names) or sum(i.file_size for i in infos) > size:
        raise ExecutableLoadError(
            "This zip file was not written by the kit: its members are compressed, doubled or overlap.",
            next_step="load a file that Executable.save wrote.",
        )
    return {name: file.read(name) for name in names}


def _array(name: str, content: bytes) -> Array:
    stream = io.BytesIO(content)
    if _npy.read_magic(stream) != (1, 0):
        raise ValueError(f"{name} has another version")
    shape, fortran, dtype = _npy.read_array_header_1_0(stream)
    rest = len(content) - stream.tell()
    if dtype not in KINDS.values() or len(shape) != 1 or fortran and shape[0] > 1 or shape[0] * dtype.itemsize != rest:
        raise ValueError(f"{name} holds {shape} {dtype}")
    return np.frombuffer(content, dtype, offset=stream.tell()).astype(dtype.newbyteorder("="))


class Part:
    """A value of the header, read with its type checked. `where` is its place, as an error names it."""

    def __init__(self, value: Any, where: str) -> None:
        self.value = value
        self.where = where

    def fail(self, wanted: str) -> NoReturn:
        """Say that the value is not `wanted`."""
        raise ExecutableLoadError(
            f"The executable is damaged: {shown(self.value)} is not {wanted}.",
            where=self.where,
            next_step="save it again; a file that was changed by hand cannot be loaded.",
        )

    def __getitem__(self, key: str | int) -> Part:
        kind = dict if isinstance(key, str) else list
        place = f"{self.where}.{key}" if isinstance(key, str) else f"{self.where}[{key}]"
        if not isinstance(self.value, kind):
            self.fail("an object" if kind is dict else "a list")
        if isinstance(key, str) and key not in self.value or isinstance(key, int) and not 0 <= key < len(self.value):
            raise ExecutableLoadError(
                "The executable is damaged: something is missing.", where=place, next_step="save it again."
            )
        return Part(self.value[key], place)  # type: ignore[index]

    def items(self, key: str) -> Iterator[Part]:
        """The values of the list `key`."""
        part = self[key]
        if not isinstance(part.value, list):
            part.fail("a list")
        return (Part(value, f"{part.where}[{i}]") for i, value in enumerate(part.value))

    def entries(self, key: str) -> Iterator[tuple[str, Part]]:
        """The names and values of the object `key`."""
        part = self[key]
        if not isinstance(part.value, dict):
            part.fail("an object")
        return ((name, Part(value, f"{part.where}.{name}")) for name, value in part.value.items())

    def whole(self, key: str | int, least: int, most: int) -> int:
        """The whole number `key`, from `least` to `most`."""
        part = self[key]
        if type(part.value) is not int or not least <= part.value <= most:
            part.fail(f"a whole number from {least:,} to {most:,}")
        return int(part.value)

    def text(self, key: str | int) -> str:
        """The text `key`."""
        part = self[key]
        if not isinstance(part.value, str):
            part.fail("text")
        return str(part.value)

    def flag(self, key: str | int) -> bool:
        """True or false."""
        part = self[key]
        if not isinstance(part.value, bool):
            part.fail("true or false")
        return bool(part.value)

    def numbers(self, key: str | int, least: int, most: int, longest: int) -> tuple[int, ...]:
        """A list of at most `longest` whole numbers, each from `least` to `most`."""
        part = self[key]
        if not isinstance(part.value, list) or len(part.value) > longest:
            part.fail(f"a list of at most {longest:,} numbers")
        return tuple(part.whole(i, least, most) for i in range(len(part.value)))
