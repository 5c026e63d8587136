"""Saved files taken apart, put together again, and damaged, for the tests of reports and of
executables."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from ipu_teach.errors import IPUTeachError

Load = Callable[[bytes], Any]  # a file's content to what is in it, which has `serialize()`


def parts(data: bytes) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The header and the arrays of a file."""
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        found = {name: file.read(name) for name in file.namelist()}
    return json.loads(found.pop("header.json")), found


def whole(header: Any, arrays: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    """A file of these parts; a header that is text goes in as it is."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as file:
        file.writestr("header.json", header if isinstance(header, str) else json.dumps(header))
        for name, content in arrays.items():
            file.writestr(name, content)
    return buffer.getvalue()


def lied(header: dict[str, Any], hostile: list[Any], rng: Random) -> dict[str, Any]:
    """A copy of a header in which one value somewhere is another, or gone."""

    def places(value: Any) -> Iterator[tuple[Any, Any]]:
        entries = (
            value.items()
            if isinstance(value, dict)
            else enumerate(value)
            if isinstance(value, list)
            else ()
        )
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
    """Every beginning of a file is refused."""
    for end in range(0, len(data), step):
        with pytest.raises(error):
            load(data[:end])


def survives_flips(
    data: bytes, load: Load, error: type[IPUTeachError], seed: int, times: int = 150
) -> None:
    """A file with a bit flipped is refused, or the flip was where it changes nothing, in the
    container."""
    rng = Random(seed)
    for _ in range(times):
        changed = bytearray(data)
        changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        try:
            assert load(bytes(changed)).serialize() == data
        except error as refused:
            assert str(refused)
