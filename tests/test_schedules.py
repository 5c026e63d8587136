"""Orders of work as lists: what a chain of layers keeps, computes again and needs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from programs import recompute as chain

from ipu_teach.errors import InvalidOptionError
from ipu_teach.schedules import BACKWARD, FORWARD, RECOMPUTE, recompute


def held(layers: int, keep: Any) -> tuple[int, int]:
    """(inputs alive at most, layers computed again), walked through by hand: an input is dropped
    where nothing further on reads it before it is made anew."""
    steps = recompute(layers, keep)
    reads = [{layer} for _, layer in steps]  # every kind reads its layer's input
    makes = [
        layer + 1 if kind != BACKWARD and layer + 1 < layers else None for kind, layer in steps
    ]
    most, alive = 0, {0}
    for now in range(len(steps)):
        assert reads[now] <= alive, (now, steps[now])
        here = alive | ({makes[now]} - {None})
        most = max(most, len(here))
        needed = set()
        for one in here:
            later = range(now + 1, len(steps))
            read = next((i for i in later if one in reads[i]), None)
            made = next((i for i in later if makes[i] == one), None)
            if read is not None and (made is None or read <= made):
                needed.add(one)
        alive = needed
    return most, sum(kind == RECOMPUTE for kind, _ in steps)


def test_a_short_chain_by_hand() -> None:
    forward = [(FORWARD, i) for i in range(5)]
    assert recompute(5, [0, 2]) == [
        *forward,
        *[(BACKWARD, 4), (BACKWARD, 3), (BACKWARD, 2)],
        *[(RECOMPUTE, 0), (BACKWARD, 1), (BACKWARD, 0)],
    ]
    assert recompute(1, [0]) == [(FORWARD, 0), (BACKWARD, 0)]
    assert recompute(5, {4, 2}) == recompute(5, (0, 2, 4, 2)) and recompute(3, np.arange(3)) == [
        *forward[:3],
        *[(BACKWARD, i) for i in (2, 1, 0)],
    ]


@pytest.mark.parametrize(
    ("layers", "every"), [(16, 1), (16, 2), (16, 4), (16, 8), (16, 16), (9, 3)]
)
def test_equal_layers_hold_and_repeat_what_the_formula_says(layers: int, every: int) -> None:
    assert held(layers, range(0, layers, every)) == (
        layers // every + every - 1,
        (layers // every - 1) * (every - 1),
    )


def test_each_backward_is_done_once_and_each_layer_again_at_most_once() -> None:
    rng = np.random.default_rng(3)
    for _ in range(50):
        layers = int(rng.integers(1, 20))
        keep = rng.integers(0, layers, rng.integers(1, layers + 1)).tolist()
        steps = recompute(layers, keep)
        backward = [layer for kind, layer in steps if kind == BACKWARD]
        again = [layer for kind, layer in steps if kind == RECOMPUTE]
        assert backward == list(reversed(range(layers))) and len(again) == len(set(again))
        held(layers, keep)  # reads nothing that is not there


def test_gradients_have_the_same_bits_and_memory_falls() -> None:
    rng = np.random.default_rng(1)
    layers, n = 16, 3900
    weights, x0 = rng.standard_normal((layers, n), np.float32), rng.standard_normal(n, np.float32)
    results = [chain.main(range(0, layers, every), weights, x0) for every in (1, 4)]
    (all_kept, first), (some, second) = results
    assert np.array_equal(all_kept, some)
    # in float64, by a plain loop
    x = [x0.astype(np.float64)]
    for w in weights:
        x.append(np.tanh(x[-1] * w))
    slope = np.ones(n)
    for i in reversed(range(layers)):
        slope = slope * (1 - x[i + 1] ** 2)
        assert all_kept[i] == pytest.approx(slope * x[i], abs=1e-5)
        slope = slope * weights[i]
    peaks = [int(report.memory.bytes_per_tile.max()) for report in (first, second)]
    # nine inputs fewer of 1,200 bytes a tile, and some code more
    assert 0.9 * 9 * 1200 < peaks[0] - peaks[1] < 9 * 1200
    assert 1 < second.total_cycles / first.total_cycles < 4 / 3


@pytest.mark.parametrize(
    ("layers", "keep", "words"),
    [
        (0, [0], "recompute() was given 0 layers.\n  next:  give how many there are"),
        (2.5, [0], "recompute() was given 2.5 layers."),
        (
            8,
            4,
            "given keep=4, which names no layers.\n  next:  list those whose inputs are kept; "
            "one in 4 is keep=range(0, 8, 4).",
        ),
        (8, "03", "given keep='03', which names no layers."),
        (
            8,
            [],
            "given an empty keep. The input of layer 0 is always there.\n  next:  keep=[0] keeps",
        ),
        (
            8,
            [0, 8],
            "told to keep the input of layer 8, and there are 8 layers.\n  next:  name "
            "layers from 0 to 7.",
        ),
        (1, [-1], "the input of layer -1, and there is 1 layer."),
        (8, [1.5], "the input of layer 1.5, and there are 8 layers."),
    ],
)
def test_what_names_no_layers_is_refused(layers: Any, keep: Any, words: str) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        recompute(layers, keep)
    assert words in str(caught.value)
