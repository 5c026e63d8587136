"""Orders of work as plain lists: what a program does, layer by layer, before anybody builds it.

Beside `tiny`, which runs what it is told in the order in which it is told, this says which order to
tell it. A schedule is a list of steps; a loop over it builds the program, and checks and pictures
read the same list.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from ipu_teach.errors import InvalidOptionError, counted, shown
from ipu_teach.graph.layouts import is_whole

FORWARD, RECOMPUTE, BACKWARD = "forward", "recompute", "backward"


class Step(NamedTuple):
    """Something that is done with a layer: `FORWARD`, `RECOMPUTE` or `BACKWARD`. A tuple of its
    kind and its layer, counted from 0."""

    kind: str
    layer: int


def recompute(layers: int, keep: Collection[int]) -> list[Step]:
    """A chain of so many layers, forward and backward, where only the inputs of the layers in
    `keep` are kept.

    A layer's backward needs its input. The input of layer 0 is there whatever `keep` says. All
    others that are not kept are computed again, each once, from the last kept one before it, just
    before their backward; those after the last kept one are alive still. So a chain of L equal
    layers of which every k-th is kept holds L / k + k - 1 inputs at most, and computes
    (L / k - 1) (k - 1) layers again.

        for kind, layer in recompute(16, keep=range(0, 16, 4)):
            ...

    Raises `InvalidOptionError` for a number in the place of `keep`, for an empty one, and for a
    layer that there is not.
    """
    if not is_whole(layers) or layers < 1:
        raise InvalidOptionError(f"""recompute() was given {shown(layers)} layers.
            next:  give how many there are, a whole number of 1 or more.""")
    if not isinstance(keep, Collection) or isinstance(keep, (str, bytes)):
        every = keep if is_whole(keep) and 1 <= keep <= layers else 2
        raise InvalidOptionError(f"""recompute() was given keep={shown(keep)}, which names no
            layers.
            next:  list those whose inputs are kept; one in {every} is keep=range(0, {layers},
            {every}).""")
    if not len(keep):
        raise InvalidOptionError(f"""recompute() was given an empty keep. The input of layer 0 is
            always there.
            next:  keep=[0] keeps nothing else; keep=range({layers}) keeps all of them.""")
    for layer in keep:
        if not is_whole(layer) or not 0 <= layer < layers:
            raise InvalidOptionError(f"""recompute() was told to keep the input of layer
                {shown(layer)}, and there {"is" if layers == 1 else "are"}
                {counted(layers, "layer")}.
                next:  name layers from 0 to {layers - 1}.""")
    steps = [Step(FORWARD, layer) for layer in range(layers)]
    starts = sorted({0, *map(int, keep)})
    for start, end in reversed(list(zip(starts, [*starts[1:], layers], strict=True))):
        if end < layers:
            steps += [Step(RECOMPUTE, layer) for layer in range(start, end - 1)]
        steps += [Step(BACKWARD, layer) for layer in reversed(range(start, end))]
    return steps
