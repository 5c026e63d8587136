"""Encode integers as short text, which is the same on every machine.

The data of a picture must be small, and equal for equal runs. So no compressor is used, because its
output depends on its version. There are four forms, of which the shortest is chosen:

- a single number, if all numbers are equal;
- groups of equal numbers: "3*5,4" is five threes and a four. A repeated sequence of groups is
  written once, after the number of its repetitions: "12(1*15,-15,)";
- differences: "d", followed by the differences between neighbours in the form of groups; the first
  difference is that between the first number and 0;
- bits: "b", the lowest number, ":", the number of bits w, ":", and the differences from the lowest
  number with w bits each; a character encodes six of these bits.
"""

from __future__ import annotations

import re

import numpy as np

from ipu_teach.types import Array

AGAIN = re.compile(r"(?<![^,])((?:[-*\d]+,){2,6}?)\1+")
LONGEST = 4000  # In strings of this length or more, no repeated sequences are searched for.

ALPHABET = np.frombuffer(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8
)


def pack(values: Array) -> int | str:
    """Return integers as a string in the shortest form; an int if all are equal; "" for none.

    An array of any shape is read row by row.
    """
    flat_values = np.asarray(values, np.int64).reshape(-1)
    if not len(flat_values):
        return ""
    lowest, highest = int(flat_values.min()), int(flat_values.max())
    if lowest == highest:
        return lowest
    return min(
        _runs(flat_values),
        "d" + _runs(np.diff(flat_values, prepend=0)),
        _bits(flat_values, lowest, highest),
        key=len,
    )


def _runs(flat_values: Array) -> str:
    run_starts = np.flatnonzero(np.append(True, flat_values[1:] != flat_values[:-1]))
    run_lengths = np.diff(np.append(run_starts, len(flat_values)))
    text = ",".join(
        f"{value}*{length}" if length > 1 else f"{value}"
        for value, length in zip(
            flat_values[run_starts].tolist(), run_lengths.tolist(), strict=True
        )
    )
    return AGAIN.sub(_again, text) if len(text) < LONGEST else text


def _again(match: re.Match[str]) -> str:
    return min(match[0], f"{len(match[0]) // len(match[1])}({match[1]})", key=len)


def _bits(flat_values: Array, lowest: int, highest: int) -> str:
    width = (highest - lowest).bit_length()
    bits = ((flat_values - lowest)[:, None] >> np.arange(width)[::-1]) & 1
    stream = bits.reshape(-1).astype(np.uint8)
    groups_of_six = np.append(stream, np.zeros(-len(stream) % 6, np.uint8)).reshape(-1, 6)
    six_bit_numbers = groups_of_six @ np.array([32, 16, 8, 4, 2, 1], np.uint8)
    return f"b{lowest}:{width}:{ALPHABET[six_bit_numbers].tobytes().decode('ascii')}"
