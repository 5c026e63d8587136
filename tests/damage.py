"""Take saved reports and executables apart, put them together again, and damage them."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import Any

import pytest

from ipu_teach.errors import IPUTeachError

Load = Callable[[bytes], Any]  # returns an object with `serialize()` from the content of a file


def parts(data: bytes) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the header and the arrays of a file."""
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        members = {name: file.read(name) for name in file.namelist()}
    return json.loads(members.pop("header.json")), members


def whole(header: Any, arrays: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    """Return a file with this header and these arrays; a header of text is stored unchanged."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as file:
        file.writestr("header.json", header if isinstance(header, str) else json.dumps(header))
        for name, content in arrays.items():
            file.writestr(name, content)
    return buffer.getvalue()


def lied(header: dict[str, Any], hostile: list[Any], rng: Random) -> dict[str, Any]:
    """Return a copy of the header in which one value is changed or missing.

    The new value is near the old one, or one of `hostile`.
    """

    def places(value: Any) -> Iterator[tuple[Any, Any]]:
        entries: Iterable[tuple[Any, Any]] = ()
        if isinstance(value, dict):
            entries = value.items()
        elif isinstance(value, list):
            entries = enumerate(value)
        for key, inner in entries:
            yield value, key
            yield from places(inner)

    changed: dict[str, Any] = json.loads(json.dumps(header))
    part = rng.choice(list(changed))
    place, key = rng.choice([(changed, part), *places(changed[part])])
    if isinstance(place, dict) and rng.randrange(10) == 0:
        del place[key]
    elif type(place[key]) is int and rng.randrange(2):
        place[key] += rng.choice([-1, 1, 4, 64])
    else:
        place[key] = rng.choice(hostile)
    return changed


def refuses_truncated(data: bytes, load: Load, error: type[IPUTeachError], step: int) -> None:
    """Check that `load` raises `error` for the file cut after every `step` bytes."""
    for end in range(0, len(data), step):
        with pytest.raises(error):
            load(data[:end])


def survives_flips(
    data: bytes, load: Load, error: type[IPUTeachError], seed: int, times: int = 150
) -> None:
    """Check that `load` raises `error` for files with one flipped bit.

    Or the flip is in a part of the container that carries nothing: then the content is the same.
    """
    rng = Random(seed)
    for _ in range(times):
        changed = bytearray(data)
        changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        try:
            assert load(bytes(changed)).serialize() == data
        except error as refused:
            assert str(refused)
