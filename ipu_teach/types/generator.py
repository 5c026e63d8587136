"""xoroshiro128aox, the random number generator that each worker thread of the chip has in hardware.

A state has 128 bits: two uint64 (s0, s1) on the last axis of an array. The other axes, such as
(tile, worker), are independent streams. Functions that draw numbers advance the state in place.

The generator, its three shifts and its output function are published: James Hanlon, "The hardware
pseudorandom number generator of the Graphcore IPU" (2022), with the code in
jameshanlon/prng-testing. A seed is converted to a state as by the register $PRNG_SEED in
graphcore/ipu_assembly_support. How the hardware converts bits to uniform and normal numbers is not
published; the docstring of each function describes the conversion used here.
"""

from __future__ import annotations

from functools import cache
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ipu_teach.types.rounding import Array

# The number of draws that are discarded after seeding, as in jameshanlon/prng-testing.
WARM_UP = 12
STREAM_BITS = 64  # The streams of two neighbouring workers start 2**64 draws apart.

# The constant that SplitMix64 adds to its state in each step.
_GOLDEN = np.uint64(0x9E37_79B9_7F4A_7C15)
_SHIFT_A = 55
_SHIFT_B = 14
_SHIFT_C = 36
# The number of draws above which a stream is divided into pieces that are drawn in parallel.
_MOST_LOOPED = 64


def seeded(value: ArrayLike) -> Array:
    """Return the state of a worker after `value` was written to $PRNG_SEED: uint64[..., 2].

    `value` contains 32-bit integers, of any shape.
    """
    low = np.asarray(value, np.uint32).astype(np.uint64)
    mask = np.uint64(0xFFFF_FFFF)
    inverse = ~low & mask
    s0 = low | inverse << 32
    s1 = ((low << 13 | inverse >> 19) & mask) | ((inverse << 13 | low >> 19) & mask) << 32
    return np.stack([s0, s1], -1)


def worker_states(seed: int, tiles: int, workers: int) -> Array:
    """Return the states of all workers of a machine: uint64[tiles, workers, 2].

    `workers` is the number of workers on each tile: six on every IPU. The stream of worker w on
    tile t starts (workers * t + w) * 2**64 draws after that of the first worker. Therefore, no two
    streams overlap, and the stream of a worker does not depend on the number of tiles. PopLibs does
    not publish where its streams start, so they differ from these.
    """
    first = advance(seeded(seed), WARM_UP)
    return _spaced(first, 1 << STREAM_BITS, tiles * workers).reshape(tiles, workers, 2)


def keyed(*keys: ArrayLike) -> Array:
    """Return a state for each combination of keys: uint64[..., 2].

    The keys are integers of at most 64 bits, which are broadcast. For example, the numbers of a
    seed, a tile and a worker identify the worker's stream for this seed. Each key in turn is added
    to the bits so far, and the sum is mixed by SplitMix64 (Steele, Lea and Flood, 2014).
    SplitMix64's next two words are the state, as Vigna advises for this family of generators. Two
    of these streams may overlap, unlike those of `worker_states`, but that is extremely improbable.
    """
    bits = key(*keys)
    return np.stack([_mixed(bits), _mixed(bits + _GOLDEN)], -1)


def key(*keys: ArrayLike) -> Array:
    """Mix the keys into 64 bits: uint64 of the common shape of `keys`, with at least one axis."""
    bits: Array = np.zeros(1, np.uint64)
    for part in keys:
        bits = _mixed(bits + np.asarray(part).astype(np.uint64))
    return bits


def counted(keys: Array, first: ArrayLike, count: int) -> Array:
    """Return `count` 32-bit words of the stream of each key: uint32[..., count].

    The words begin with 64-bit word number `first` of the stream. `first` is one number for all
    keys, or an array with a number for each key. `keys` is uint64 of any shape, as `key` returns
    it. 64-bit word number i of a key is the word of SplitMix64 after i steps from the key, so it
    depends only on the key and on i. The low half of each 64-bit word comes first.
    """
    word_numbers = np.arange(-(-count // 2), dtype=np.uint64)
    bits = (keys + np.asarray(first, np.uint64) * _GOLDEN)[..., None] + word_numbers * _GOLDEN
    return _mixed(bits).astype("<u8", copy=False).view("<u4")[..., :count]


def advance(state: Array, steps: int) -> Array:
    """Return the states after `steps` draws, without drawing. `state` does not change.

    `steps` is at least 0 and below 2**128.
    """
    for bit in range(steps.bit_length()):
        if steps >> bit & 1:
            state = _apply(_doubled(bit), state)
    return state


def draw(state: Array, count: int) -> Array:
    """Return the next `count` words of every stream, uint64[..., count], and advance `state`."""
    if count > _MOST_LOOPED:
        words_per_piece = isqrt(count - 1) + 1
        piece_states = _spaced(state, words_per_piece, -(-count // words_per_piece))
        words = np.moveaxis(_loop(piece_states, words_per_piece), 0, -2)
        state[...] = advance(state, count)
        return words.reshape(*state.shape[:-1], -1)[..., :count]
    return _loop(state, count)


def uniform(state: Array, count: int, low: ArrayLike = 0.0, high: ArrayLike = 1.0) -> Array:
    """Return the next `count` uniform numbers of every stream, from `low` to below `high`.

    The result is float32[..., count], and `state` is advanced. Each word gives two numbers, the
    first of them from the low half, as in jameshanlon/prng-testing. A number is the upper 24 of 32
    bits, which single precision represents exactly; the rounding of the hardware is not published.
    If the range is not 0 to 1, the results are rounded and can equal `high`.
    """
    half_words = draw(state, -(-count // 2)).astype("<u8").view("<u4")[..., :count]
    fraction = (half_words >> 8).astype(np.float32) * np.float32(2.0**-24)
    numbers: Array = fraction * _single(np.subtract(high, low)) + _single(low)
    return numbers


def normal(state: Array, count: int, mean: ArrayLike = 0.0, deviation: ArrayLike = 1.0) -> Array:
    """Return the next `count` nearly normal numbers of every stream: float32[..., count].

    `state` is advanced. Each word gives one number: the sum of its twelve lowest groups of 5 bits,
    minus 186, divided by 32. It is a multiple of 1/32 from -5.8125 to 5.8125, and the standard
    deviation is sqrt(1023) / 32 = 0.9995. An early version of PopLibs models the hardware's
    f32v2grand in this way, and states that the model is not exact (copies of poprand's codelets).
    """
    words = draw(state, count)
    sums = np.zeros(words.shape, np.int64)
    for bit_group in range(12):
        sums += (words >> np.uint64(5 * bit_group) & np.uint64(31)).astype(np.int64)
    standard_normal = (sums - 186).astype(np.float32) / np.float32(32)
    numbers: Array = standard_normal * _single(deviation) + _single(mean)
    return numbers


def bernoulli(state: Array, count: int, probability: ArrayLike) -> Array:
    """Return `count` booleans of every stream, True with `probability`: bool[..., count].

    `state` is advanced. Each word gives four booleans, one for each of its 16-bit parts: True if
    the part is below probability * 65536, rounded to an integer. The chip's f16v4rmask selects
    elements in this way (graphcore/ipu_assembly_support). The order of the parts is not published;
    here the lowest is first.
    """
    parts = draw(state, -(-count // 4)).astype("<u8").view("<u2")[..., :count]
    answers: Array = parts < np.rint(np.multiply(probability, 65536)).astype(np.uint32)
    return answers


def _single(value: ArrayLike) -> Array:
    return np.asarray(value, np.float32)


def _mixed(bits: Array) -> Array:
    """Return the word of SplitMix64 that follows each state in `bits`."""
    mixed: Array = bits + _GOLDEN
    shifted = mixed >> 30
    for factor, shift in (
        (np.uint64(0xBF58_476D_1CE4_E5B9), 27),
        (np.uint64(0x94D0_49BB_1331_11EB), 31),
    ):
        mixed ^= shifted
        mixed *= factor
        np.right_shift(mixed, shift, out=shifted)
    mixed ^= shifted
    return mixed


def _loop(state: Array, count: int) -> Array:
    words = np.empty((*state.shape[:-1], count), np.uint64)
    s0 = state[..., 0].copy()
    s1 = state[..., 1].copy()
    for i in range(count):
        mixed = s0 ^ s1
        both = s0 & s1
        words[..., i] = mixed ^ (_rotated(both, 1) | _rotated(both, 2))
        s0 = _rotated(s0, _SHIFT_A) ^ mixed ^ mixed << _SHIFT_B
        s1 = _rotated(mixed, _SHIFT_C)
    state[..., 0] = s0
    state[..., 1] = s1
    return words


def _rotated(words: Array, by: int) -> Array:
    rotated: Array = words << by | words >> (64 - by)
    return rotated


# The next state is a linear function of the bits of the state, so a matrix over {0, 1} advances the
# state. A power of this matrix advances it by many draws. A matrix is stored as uint64[128, 2]: row
# i is the state that follows the state in which only bit i is set.


@cache
def _doubled(bit: int) -> Array:
    """Return the matrix that advances a state by 2**`bit` draws."""
    if bit:
        return _apply(_doubled(bit - 1), _doubled(bit - 1))
    states: Array = np.zeros((2, 64, 2), np.uint64)
    states[(0, 1), :, (0, 1)] = np.uint64(1) << np.arange(64, dtype=np.uint64)
    matrix: Array = states.reshape(128, 2)
    _loop(matrix, 1)
    return matrix


def _apply(matrix: Array, state: Array) -> Array:
    """Return the product of `matrix` and each state."""
    bits = (state[..., None] >> np.arange(64, dtype=np.uint64) & np.uint64(1)).reshape(
        *state.shape[:-1], 128
    )
    xor: Any = np.bitwise_xor  # The type stubs differ between versions of numpy.
    result: Array = xor.reduce(bits[..., None] * matrix, axis=-2)
    return result


def _spaced(state: Array, steps: int, count: int) -> Array:
    """Return the states after 0, `steps`, 2 `steps`, … draws: uint64[count, ..., 2]."""
    states = state[None]
    while len(states) < count:
        states = np.concatenate(
            [states, advance(states[: count - len(states)], steps * len(states))]
        )
    return states[:count]
