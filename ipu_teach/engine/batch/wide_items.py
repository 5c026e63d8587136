"""Gather and scatter several elements at once if their positions are consecutive.

numpy moves an item of up to 32 bytes as fast as an item of 4 bytes. Elements that are neighbours in
both source and destination are therefore moved as one wide item. The values do not change.
"""

from __future__ import annotations

import numpy as np

from ipu_teach.types import Array

WIDEST = 32  # The bytes of the largest item that numpy moves with one or two instructions.
LEAST_PUT = 16  # The bytes from which np.put is faster than an assignment by index.


def wide_items(
    flat: Array, index: Array, buffer: Array, minimum_bytes: int = 1
) -> tuple[Array, Array, Array] | None:
    """Return (items of `flat`, positions of the items to move, items of `buffer`), or None.

    An item consists of several adjacent elements. `index` contains the position in `flat` of each
    element of `buffer`, in the memory order of `buffer`. The result is None if the elements cannot
    be divided into groups of equal length that consist of adjacent elements. It is also None if an
    item would have fewer than `minimum_bytes`.
    """
    itemsize = flat.itemsize
    index = index.reshape(-1)
    if not buffer.flags.c_contiguous or not len(index):
        return None
    is_next = index[1:] == index[:-1] + 1
    elements_per_item = WIDEST // itemsize
    while elements_per_item > 1 and elements_per_item * itemsize >= minimum_bytes:
        first_in_item = int(index[0]) % elements_per_item
        if (
            len(index) % elements_per_item == 0
            and all(
                is_next[position::elements_per_item].all()
                for position in range(elements_per_item - 1)
            )
            and (index[::elements_per_item] % elements_per_item == first_in_item).all()
        ):
            item_dtype = np.dtype((np.void, elements_per_item * itemsize))
            num_items = (len(flat) - first_in_item) // elements_per_item
            items = flat[first_in_item : first_in_item + num_items * elements_per_item].view(
                item_dtype
            )
            return (
                items,
                index[::elements_per_item] // elements_per_item,
                buffer.reshape(-1).view(item_dtype),
            )
        elements_per_item //= 2
    return None
