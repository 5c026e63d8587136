"""xoroshiro128aox, the random number generator that every worker of the chip has in hardware.

A state is 128 bits, two uint64 (s0, s1) on an array's last axis; in front of it may stand any axes,
such as (tile, worker), each with a stream of its own. Functions that draw advance the state in
place.

The generator, its three shifts and its output function are published: James Hanlon, "The hardware
pseudorandom number generator of the Graphcore IPU" (2022), with the code in
jameshanlon/prng-testing. How a seed becomes a state: the register $PRNG_SEED in
graphcore/ipu_assembly_support. How bits become a uniform or a normal number is not published for
the hardware; what stands here is said at each function.
"""

from __future__ import annotations

from functools import cache
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ipu_teach.types.rounding import Array

WARM_UP = 12  # draws thrown away after seeding, as jameshanlon/prng-testing does
STREAM_BITS = 64  # the streams of two workers start 2**64 draws apart

_GOLDEN = np.uint64(0x9E37_79B9_7F4A_7C15)  # SplitMix64's step
_SHIFT_A, _SHIFT_B, _SHIFT_C = 55, 14, 36
_MOST_LOOPED = 64  # draws of one stream beyond which its pieces are drawn side by side


def seeded(value: ArrayLike) -> Array:
    """The state that a worker has after `value` (whole numbers of 32 bits, any shape) was put into
    $PRNG_SEED."""
    low = np.asarray(value, np.uint32).astype(np.uint64)
    mask = np.uint64(0xFFFF_FFFF)
    inverse = ~low & mask
    s0 = low | inverse << 32
    s1 = ((low << 13 | inverse >> 19) & mask) | ((inverse << 13 | low >> 19) & mask) << 32
    return np.stack([s0, s1], -1)


def worker_states(seed: int, tiles: int, workers: int) -> Array:
    """States for all workers of a machine: uint64 (tiles, workers, 2). `workers`: of one tile, six
    on every IPU.

    Worker w of tile t starts (workers t + w) * 2**64 draws behind the first, so that no two streams
    meet and the stream of a worker does not depend on how many tiles there are. That is this kit's
    choice; PopLibs' is not published.
    """
    first = advance(seeded(seed), WARM_UP)
    return _spaced(first, 1 << STREAM_BITS, tiles * workers).reshape(tiles, workers, 2)


def keyed(*keys: ArrayLike) -> Array:
    """A state for each combination of keys: whole numbers of at most 64 bits, broadcast against
    each other.

    For streams that are found by what they are for, not by a worker. Each key in turn is added to
    the bits so far and mixed by SplitMix64 (Steele, Lea and Flood, 2014), whose next two words are
    the state, as Vigna advises for this family.
    """
    bits = key(*keys)
    return np.stack([_mixed(bits), _mixed(bits + _GOLDEN)], -1)


def key(*keys: ArrayLike) -> Array:
    """The bits that `keys` are mixed to: uint64, of the shape they have together, at least one
    axis."""
    bits: Array = np.zeros(1, np.uint64)
    for part in keys:
        bits = _mixed(bits + np.asarray(part).astype(np.uint64))
    return bits


def counted(keys: Array, first: ArrayLike, count: int) -> Array:
    """`count` words of 32 bits for each key, from its stream's 64-bit word number `first` on:
    uint32 (..., count).

    Word i of a key is SplitMix64's after i steps from it, its low half first. So a word is found by
    its number alone, whoever draws it. `keys`: uint64 of any shape, as `key` makes them; `first`:
    one number, or one for each key.
    """
    steps = np.arange(-(-count // 2), dtype=np.uint64)
    bits = (keys + np.asarray(first, np.uint64) * _GOLDEN)[..., None] + steps * _GOLDEN
    return _mixed(bits).astype("<u8", copy=False).view("<u4")[..., :count]


def advance(state: Array, steps: int) -> Array:
    """The states that `steps` draws lead to, 0 to 2**128 - 1 of them, without drawing. `state`
    stays as it is."""
    for bit in range(steps.bit_length()):
        if steps >> bit & 1:
            state = _apply(_doubled(bit), state)
    return state


def draw(state: Array, count: int) -> Array:
    """The next `count` words of every stream, uint64 (..., count). Advances `state`."""
    if count > _MOST_LOOPED:
        length = isqrt(count - 1) + 1
        pieces = _spaced(state, length, -(-count // length))
        words = np.moveaxis(_loop(pieces, length), 0, -2)
        state[...] = advance(state, count)
        return words.reshape(*state.shape[:-1], -1)[..., :count]
    return _loop(state, count)


def uniform(state: Array, count: int, low: ArrayLike = 0.0, high: ArrayLike = 1.0) -> Array:
    """The next `count` numbers of every stream, evenly distributed from `low` to below `high`:
    float32 (..., count).

    Two numbers a word, its low half first, as in jameshanlon/prng-testing. Each is the upper 24 of
    32 bits, which single precision holds exactly; how the hardware rounds is not published. Where
    `high - low` is no power of two, the result is rounded and may be `high`.
    """
    halves = draw(state, -(-count // 2)).astype("<u8").view("<u4")[..., :count]
    fraction = (halves >> 8).astype(np.float32) * np.float32(2.0**-24)
    numbers: Array = fraction * _single(np.subtract(high, low)) + _single(low)
    return numbers


def normal(state: Array, count: int, mean: ArrayLike = 0.0, deviation: ArrayLike = 1.0) -> Array:
    """The next `count` numbers of every stream, close to normally distributed: float32 (...,
    count).

    A word gives one number: the sum of its lowest twelve groups of 5 bits, less 186, divided by 32.
    So it is a multiple of 1/32 from -5.8125 to 5.8125 with a standard deviation of sqrt(1023) / 32
    = 0.9995. That is how an early PopLibs stands in for the hardware's f32v2grand (found by text
    search in copies of poprand's codelets), and says that it is no exact model.
    """
    words = draw(state, count)
    total = np.zeros(words.shape, np.int64)
    for group in range(12):
        total += (words >> np.uint64(5 * group) & np.uint64(31)).astype(np.int64)
    unit = (total - 186).astype(np.float32) / np.float32(32)
    numbers: Array = unit * _single(deviation) + _single(mean)
    return numbers


def bernoulli(state: Array, count: int, probability: ArrayLike) -> Array:
    """The next `count` answers of every stream, each true with `probability`: bool (..., count).

    A word gives four, from its 16-bit parts: true where one is below probability * 65536, rounded
    to a whole number. So the chip's f16v4rmask keeps elements (graphcore/ipu_assembly_support);
    which part is for which element is not published, here the lowest is first.
    """
    parts = draw(state, -(-count // 4)).astype("<u8").view("<u2")[..., :count]
    answers: Array = parts < np.rint(np.multiply(probability, 65536)).astype(np.uint32)
    return answers


def _single(value: ArrayLike) -> Array:
    return np.asarray(value, np.float32)


def _mixed(bits: Array) -> Array:
    """SplitMix64's word for each state."""
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
    s0, s1 = state[..., 0].copy(), state[..., 1].copy()
    for i in range(count):
        mixed, both = s0 ^ s1, s0 & s1
        words[..., i] = mixed ^ (_rotated(both, 1) | _rotated(both, 2))
        s0 = _rotated(s0, _SHIFT_A) ^ mixed ^ mixed << _SHIFT_B
        s1 = _rotated(mixed, _SHIFT_C)
    state[..., 0], state[..., 1] = s0, s1
    return words


def _rotated(words: Array, by: int) -> Array:
    rotated: Array = words << by | words >> (64 - by)
    return rotated


# A draw is linear in the bits of the state, if its output is left aside: a matrix over {0, 1},
# whose powers skip ahead. A matrix is kept as the 128 states that the single bits lead to, uint64
# (128, 2).


@cache
def _doubled(bit: int) -> Array:
    """The matrix of 2**`bit` draws."""
    if bit:
        return _apply(_doubled(bit - 1), _doubled(bit - 1))
    states: Array = np.zeros((2, 64, 2), np.uint64)
    states[(0, 1), :, (0, 1)] = np.uint64(1) << np.arange(64, dtype=np.uint64)
    matrix: Array = states.reshape(128, 2)
    _loop(matrix, 1)
    return matrix


def _apply(matrix: Array, state: Array) -> Array:
    """Where `matrix` leads each state."""
    bits = (state[..., None] >> np.arange(64, dtype=np.uint64) & np.uint64(1)).reshape(
        *state.shape[:-1], 128
    )
    xor: Any = np.bitwise_xor  # whose type stubs differ from release to release
    result: Array = xor.reduce(bits[..., None] * matrix, axis=-2)
    return result


def _spaced(state: Array, steps: int, count: int) -> Array:
    """The states after 0, `steps`, 2 `steps`, … draws: uint64 (count, ..., 2)."""
    found = state[None]
    while len(found) < count:
        found = np.concatenate([found, advance(found[: count - len(found)], steps * len(found))])
    return found[:count]
