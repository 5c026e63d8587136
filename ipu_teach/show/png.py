"""PNG files of a few flat colours, one pixel a value, without compression: their bytes are the same
on every machine."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

import numpy as np

from ipu_teach.types import Array

LONGEST_BLOCK = 65_535  # bytes of a stored block (RFC 1951, 3.2.4)


def indexed_png(codes: Array, colours: Sequence[str]) -> bytes:
    """Return a PNG file whose pixel (row, column) has the colour `colours[codes[row, column]]`.
    There are at most 16 colours, given as "#rrggbb"."""
    height, width = codes.shape
    nibbles = np.zeros((height, -(-width // 2) * 2), np.uint8)
    nibbles[:, :width] = codes
    # each row begins with its filter: 0, none
    rows = np.zeros((height, 1 + nibbles.shape[1] // 2), np.uint8)
    rows[:, 1:] = nibbles[:, 0::2] << 4 | nibbles[:, 1::2]
    palette = b"".join(bytes.fromhex(colour[1:]) for colour in colours)
    header = struct.pack(">IIBBBBB", width, height, 4, 3, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        _chunk(kind, data)
        for kind, data in (
            (b"IHDR", header),
            (b"PLTE", palette),
            (b"IDAT", _stored(rows.tobytes())),
            (b"IEND", b""),
        )
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _stored(data: bytes) -> bytes:
    """Return a zlib stream that contains its data uncompressed."""
    blocks = [data[i : i + LONGEST_BLOCK] for i in range(0, len(data), LONGEST_BLOCK)] or [b""]
    stream = b"".join(
        struct.pack("<BHH", i == len(blocks) - 1, len(block), len(block) ^ 0xFFFF) + block
        for i, block in enumerate(blocks)
    )
    return b"\x78\x01" + stream + struct.pack(">I", zlib.adler32(data))
