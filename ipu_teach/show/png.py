"""Write PNG files with a few flat colours, in which each pixel stands for one value.

The files are not compressed, so that their bytes are the same on every machine.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

import numpy as np

from ipu_teach.types import Array

LONGEST_BLOCK = 65_535  # The maximum number of bytes in a stored block (RFC 1951, 3.2.4).


def indexed_png(codes: Array, colours: Sequence[str]) -> bytes:
    """Return the bytes of a PNG file: pixel (i, j) has the colour `colours[codes[i, j]]`.

    `codes` is int[rows, columns]. There are at most 16 colours, in the form "#rrggbb".
    """
    height, width = codes.shape
    pixels = np.zeros((height, -(-width // 2) * 2), np.uint8)
    pixels[:, :width] = codes
    # Each byte contains two pixels. Each row begins with the number of its filter; 0 means no
    # filter.
    packed_rows = np.zeros((height, 1 + pixels.shape[1] // 2), np.uint8)
    packed_rows[:, 1:] = pixels[:, 0::2] << 4 | pixels[:, 1::2]
    palette = b"".join(bytes.fromhex(colour[1:]) for colour in colours)
    header = struct.pack(">IIBBBBB", width, height, 4, 3, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        _chunk(kind, data)
        for kind, data in (
            (b"IHDR", header),
            (b"PLTE", palette),
            (b"IDAT", _stored(packed_rows.tobytes())),
            (b"IEND", b""),
        )
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _stored(data: bytes) -> bytes:
    """Return a zlib stream that contains `data` without compression."""
    blocks = [
        data[index : index + LONGEST_BLOCK] for index in range(0, len(data), LONGEST_BLOCK)
    ] or [b""]
    stream = b"".join(
        struct.pack("<BHH", index == len(blocks) - 1, len(block), len(block) ^ 0xFFFF) + block
        for index, block in enumerate(blocks)
    )
    return b"\x78\x01" + stream + struct.pack(">I", zlib.adler32(data))
