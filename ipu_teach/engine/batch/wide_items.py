"""Gather and scatter several elements at once, where their positions are consecutive.

numpy moves an item of up to 32 bytes as fast as an item of 4 bytes. Elements that are neighbours in
both source and destination are therefore moved as one wide item. The values are the same either
way.
"""

from __future__ import annotations

import numpy as np

from ipu_teach.types import Array

WIDEST = 32  # in bytes; numpy moves items of up to this size by one or two instructions
LEAST_PUT = 16  # in bytes; for narrower items, np.put takes longer than an assignment by index


def wide_items(
    flat: Array, index: Array, buffer: Array, least: int = 1
) -> tuple[Array, Array, Array] | None:
    """Return (`flat` as wide items, the positions of items, `buffer` as items), or None.

    `index` contains the positions in `flat` of the elements of `buffer`, in the order of its
    memory. The result is None if the positions do not form equal runs, or if items would have fewer
    than `least` bytes.
    """
    size = flat.itemsize
    index = index.reshape(-1)
    if not buffer.flags.c_contiguous or not len(index):
        return None
    follows = index[1:] == index[:-1] + 1
    width = WIDEST // size
    while width > 1 and width * size >= least:
        phase = int(index[0]) % width
        if (
            len(index) % width == 0
            and all(follows[i::width].all() for i in range(width - 1))
            and (index[::width] % width == phase).all()
        ):
            item = np.dtype((np.void, width * size))
            count = (len(flat) - phase) // width
            items = flat[phase : phase + count * width].view(item)
            return items, index[::width] // width, buffer.reshape(-1).view(item)
        width //= 2
    return None
