"""Numbers as short text, the same text everywhere: a picture's data must be small, and equal for
equal runs.

Of four forms the shortest is used: one number if all are equal; runs, as in "3*5,4" for five threes
and a four; steps, "d" and then the runs of the differences between neighbours, the first of them
from zero; or bits, "b" + lowest + ":" + bits for each + ":" + the differences from the lowest, six
bits a character. A repeated sequence of runs is written once, with its count: "12(1*15,-15,)". No
compressor is used, because their output changes from build to build.
"""

from __future__ import annotations

import re

import numpy as np

from ipu_teach.types import Array

AGAIN = re.compile(r"(?<![^,])((?:[-*\d]+,){2,6}?)\1+")
LONGEST = 4000  # letters in which such runs are looked for

ALPHABET = np.frombuffer(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8
)


def pack(values: Array) -> int | str:
    """Return whole numbers of any shape, read row by row, as a string in the shortest of the
    forms; "" for none."""
    flat = np.asarray(values, np.int64).reshape(-1)
    if not len(flat):
        return ""
    lowest, highest = int(flat.min()), int(flat.max())
    if lowest == highest:
        return lowest
    return min(
        _runs(flat), "d" + _runs(np.diff(flat, prepend=0)), _bits(flat, lowest, highest), key=len
    )


def _runs(flat: Array) -> str:
    first = np.flatnonzero(np.append(True, flat[1:] != flat[:-1]))
    length = np.diff(np.append(first, len(flat)))
    text = ",".join(
        f"{v}*{n}" if n > 1 else f"{v}"
        for v, n in zip(flat[first].tolist(), length.tolist(), strict=True)
    )
    return AGAIN.sub(_again, text) if len(text) < LONGEST else text


def _again(match: re.Match[str]) -> str:
    return min(match[0], f"{len(match[0]) // len(match[1])}({match[1]})", key=len)


def _bits(flat: Array, lowest: int, highest: int) -> str:
    width = (highest - lowest).bit_length()
    bits = ((flat - lowest)[:, None] >> np.arange(width)[::-1]) & 1
    stream = bits.reshape(-1).astype(np.uint8)
    padded = np.append(stream, np.zeros(-len(stream) % 6, np.uint8)).reshape(-1, 6)
    sixes = padded @ np.array([32, 16, 8, 4, 2, 1], np.uint8)
    return f"b{lowest}:{width}:{ALPHABET[sixes].tobytes().decode('ascii')}"
