"""Decode the numbers in pictures, as the player does in JavaScript."""

from __future__ import annotations

import re

import numpy as np

from ipu_teach.show.pack import ALPHABET
from ipu_teach.types import Array


def unpack(text: int | str, count: int) -> Array:
    """Return int64[count]: the numbers that `pack` encoded as `text`."""
    if isinstance(text, int):
        return np.full(count, text, np.int64)
    if text.startswith("d"):
        return np.cumsum(unpack(text[1:], count))
    if not text.startswith("b"):
        text = re.sub(r"(\d+)\((.*?)\)", lambda m: int(m[1]) * m[2], text)
        parts = [part.split("*") for part in text.split(",") if part]
        repeats = [int(p[1]) if len(p) > 1 else 1 for p in parts]
        return np.repeat(np.array([int(p[0]) for p in parts], np.int64), repeats)
    lowest, width, letters = text[1:].split(":")
    value = np.zeros(256, np.uint8)
    value[ALPHABET] = np.arange(64)
    sixes = value[np.frombuffer(letters.encode("ascii"), np.uint8)]
    flat = np.unpackbits(sixes[:, None], axis=1)[:, 2:].reshape(-1)[: count * int(width)]
    weights = np.int64(1) << np.arange(int(width))[::-1].astype(np.int64)
    result: Array = flat.reshape(count, int(width)).astype(np.int64) @ weights + int(lowest)
    return result
