# %% given
"""Mistakes of lesson 16 written otherwise."""

from math import ceil


# %% 16.w1: math.ceil
# passed: sets of numbers
def accumulation(batch, micro_batch, replicas):
    return ceil(batch / (micro_batch * replicas))


# %% 16.w1: counted
# passed: sets of numbers
def accumulation(batch, micro_batch, replicas):
    count = 0
    while count * micro_batch * replicas < batch:
        count += 1
    return count


# %% 16.w1: int of a quotient
# like: rounded down
def accumulation(batch, micro_batch, replicas):
    return int(batch / micro_batch / replicas)


# %% 16.w1: without replicas, counted
# like: one replica
def accumulation(batch, micro_batch, replicas):
    count = 0
    while count * micro_batch < batch:
        count += 1
    return count


# %% 16.1: with ceil
# passed: sets of numbers
def minutes(images, epochs, micro_batch, micro_batches, replicas, micro_batch_cycles,
            update_cycles, clock):  # fmt: skip
    each = ceil(images / (micro_batch * micro_batches * replicas))
    return each * epochs * (micro_batches * micro_batch_cycles + update_cycles) / (60 * clock)


# %% 16.1: counted in a loop
# passed: sets of numbers
def minutes(images, epochs, micro_batch, micro_batches, replicas, micro_batch_cycles,
            update_cycles, clock):  # fmt: skip
    cycles = 0
    for _ in range(0, images, micro_batch * micro_batches * replicas):
        cycles += update_cycles
        for _ in range(micro_batches):
            cycles += micro_batch_cycles
    return cycles * epochs / clock / 60


# %% 16.1: seconds first
# passed: sets of numbers
def minutes(images, epochs, micro_batch, micro_batches, replicas, micro_batch_cycles,
            update_cycles, clock):  # fmt: skip
    seconds = micro_batches * micro_batch_cycles / clock + update_cycles / clock
    whole, rest = divmod(images, micro_batch * micro_batches * replicas)
    return (whole + (rest > 0)) * seconds * epochs / 60


# %% 16.1: int of a quotient
# like: rounded down
def minutes(images, epochs, micro_batch, micro_batches, replicas, micro_batch_cycles,
            update_cycles, clock):  # fmt: skip
    steps = int(images / micro_batch / micro_batches / replicas)
    step = (micro_batches * micro_batch_cycles + update_cycles) / clock
    return epochs * steps * step / 60


# %% 16.1: by throughput
# like: parts of a step
def minutes(images, epochs, micro_batch, micro_batches, replicas, micro_batch_cycles,
            update_cycles, clock):  # fmt: skip
    step = (micro_batches * micro_batch_cycles + update_cycles) / clock
    throughput = micro_batch * micro_batches * replicas / step
    return images * epochs / throughput / 60


# %% 16.1: a single IPU
# like: one replica
def minutes(images, epochs, micro_batch, micro_batches, replicas, micro_batch_cycles,
            update_cycles, clock):  # fmt: skip
    steps = ceil(images / (micro_batch * micro_batches))
    cycles = micro_batches * micro_batch_cycles + update_cycles
    return epochs * steps * cycles / clock / 60


# %% 16.1: an update in the loop
# like: an update after each micro-batch
def minutes(images, epochs, micro_batch, micro_batches, replicas, micro_batch_cycles,
            update_cycles, clock):  # fmt: skip
    cycles = 0
    for _ in range(micro_batches):
        cycles += micro_batch_cycles + update_cycles
    return ceil(images / (micro_batch * micro_batches * replicas)) * epochs * cycles / clock / 60


# %% 16.1: not divided by 60
# like: seconds
def minutes(images, epochs, micro_batch, micro_batches, replicas, micro_batch_cycles,
            update_cycles, clock):  # fmt: skip
    steps = epochs * ceil(images / (micro_batch * micro_batches * replicas))
    return (micro_batches * micro_batch_cycles + update_cycles) / clock * steps


# %% 16.2: with floats
# passed: sets of numbers
def largest(small, bytes_small, large, bytes_large, limit):
    per_image = (bytes_large - bytes_small) / (large - small)
    fixed = bytes_small - small * per_image
    return max(0, int((limit - fixed + 1e-6) / per_image))


# %% 16.2: by a loop
# passed: sets of numbers
def largest(small, bytes_small, large, bytes_large, limit):
    n = 0
    while bytes_small * (large - small) + (n + 1 - small) * (bytes_large - bytes_small) <= limit * (
        large - small
    ):
        n += 1
    return n


# %% 16.2: as a fraction
# passed: sets of numbers
def largest(small, bytes_small, large, bytes_large, limit):
    from fractions import Fraction
    from math import floor

    per_image = Fraction(bytes_large - bytes_small, large - small)
    return max(0, floor(small + (limit - bytes_small) / per_image))


# %% 16.2: bytes of an image from one size
# like: in proportion
def largest(small, bytes_small, large, bytes_large, limit):
    from fractions import Fraction

    per_image = Fraction(bytes_large, large)
    return int(limit / per_image)


# %% 16.2: limit by the slope
# like: without the fixed bytes
def largest(small, bytes_small, large, bytes_large, limit):
    from fractions import Fraction

    return int(limit / Fraction(bytes_large - bytes_small, large - small))


# %% 16.2: int of a negative number
# like: negative sizes
def largest(small, bytes_small, large, bytes_large, limit):
    from fractions import Fraction
    from math import floor

    per_image = Fraction(bytes_large - bytes_small, large - small)
    return floor(small + (limit - bytes_small) / per_image)


# %% 16.2: room divided by an image
# like: only the additional images
def largest(small, bytes_small, large, bytes_large, limit):
    from fractions import Fraction
    from math import floor

    per_image = Fraction(bytes_large - bytes_small, large - small)
    return max(0, floor((limit - bytes_small) / per_image))


# %% 16.3: with fractions
# passed: sets of numbers
def break_even(n, fixed, per_image, fixed_recompute, per_image_recompute):
    from fractions import Fraction

    saved = Fraction(fixed, n) + per_image - per_image_recompute
    return ceil(fixed_recompute / saved) if saved > 0 else 0


# %% 16.3: with floats
# passed: sets of numbers
def break_even(n, fixed, per_image, fixed_recompute, per_image_recompute):
    goal = fixed / n + per_image
    if per_image_recompute >= goal:
        return 0
    return ceil(fixed_recompute / (goal - per_image_recompute))


# %% 16.3: by a loop
# passed: sets of numbers
def break_even(n, fixed, per_image, fixed_recompute, per_image_recompute):
    for m in range(1, 100_000):
        cycles = fixed_recompute + per_image_recompute * m
        if cycles * n <= (fixed + per_image * n) * m:
            return m
    return 0


# %% 16.3: floor of the quotient
# like: rounded down
def break_even(n, fixed, per_image, fixed_recompute, per_image_recompute):
    from fractions import Fraction
    from math import floor

    saved = Fraction(fixed, n) + per_image - per_image_recompute
    return max(1, floor(fixed_recompute / saved)) if saved > 0 else 0


# %% 16.3: a loop with a smaller sign
# like: strictly faster
def break_even(n, fixed, per_image, fixed_recompute, per_image_recompute):
    for m in range(1, 100_000):
        cycles = fixed_recompute + per_image_recompute * m
        if cycles * n < (fixed + per_image * n) * m:
            return m
    return 0


# %% 16.3: the slopes only
# like: without the fixed cycles
def break_even(n, fixed, per_image, fixed_recompute, per_image_recompute):
    if per_image_recompute >= per_image:
        return 0
    return -(-fixed_recompute // (per_image - per_image_recompute))


# %% 16.3: infinity
# clause: Return 0 if there is none.
# not yet: inf
def break_even(n, fixed, per_image, fixed_recompute, per_image_recompute):
    saved = fixed + n * (per_image - per_image_recompute)
    return float("inf") if saved <= 0 else -(-fixed_recompute * n // saved)


# %% 16.4: all settings written down
# passed: under
settings = dict(
    micro_batch=35, recompute="six checkpoints", partials="half", proportion=0.6, byte_inputs=True
)


# %% 16.4: another micro-batch
# passed: under
settings = {"micro_batch": 33, "byte_inputs": True, "recompute": "six checkpoints"}


# %% 16.4: Graphcore's proportion
# passed: under
settings = {"micro_batch": 35, "recompute": "six checkpoints", "byte_inputs": True, "proportion": 0.15}


# %% 16.4: Graphcore's micro-batch
# not yet: choose a larger one that fits.
settings = {"micro_batch": 20, "recompute": "six checkpoints", "byte_inputs": True}


# %% 16.4: a small proportion with six checkpoints
# not yet: the small proportion makes the run longer.
settings = {"micro_batch": 24, "recompute": "six checkpoints", "proportion": 0.05, "byte_inputs": True}


# %% 16.4: a small proportion with more images
# not yet: the small proportion makes the run longer.
settings = {"micro_batch": 38, "recompute": "six checkpoints", "proportion": 0.05, "byte_inputs": True}


# %% 16.4: thirty images
# not yet: choose a larger one that fits.
settings = {"micro_batch": 30, "recompute": "six checkpoints", "byte_inputs": True}


# %% 16.4: a small proportion instead of recomputation
# not yet: find the setting that saves most memory.
settings = {"micro_batch": 13, "proportion": 0.05, "byte_inputs": True}


# %% 16.4: another word
# not yet: give recompute None, "standard" or "six checkpoints".
settings = {"micro_batch": 35, "recompute": True, "byte_inputs": True}


# %% 16.4: a size as text
# not yet: micro_batch is '12'.
settings = {"micro_batch": "12", "byte_inputs": True}


# %% 16.4: nothing chosen
# not yet: the small micro-batch makes the run longer.
settings = {}


# %% 16.w2: counted
# passed: sets of numbers
def enough(micro_batch_cycles, update_cycles, percent):
    n = 1
    while update_cycles * 100 > percent * (n * micro_batch_cycles + update_cycles):
        n += 1
    return n


# %% 16.w2: the whole step
# passed: sets of numbers
def enough(micro_batch_cycles, update_cycles, percent):
    from fractions import Fraction

    step = Fraction(100 * update_cycles, percent)
    return ceil((step - update_cycles) / micro_batch_cycles)


# %% 16.w2: a quotient without the update
# like: of the micro-batches
def enough(micro_batch_cycles, update_cycles, percent):
    return -(-update_cycles * 100 // percent // micro_batch_cycles)


# %% 16.5: from the second run
# passed: sets of numbers
def parts_of(first, first_cycles, second, second_cycles):
    each = (second_cycles - first_cycles) / (second - first)
    return each, second_cycles - second * each


# %% 16.5: as a list
# passed: sets of numbers
def parts_of(first, first_cycles, second, second_cycles):
    each = (first_cycles - second_cycles) / (first - second)
    return [each, first_cycles - each * first]


# %% 16.5: by a formula
# passed: sets of numbers
def parts_of(first, first_cycles, second, second_cycles):
    gap = first - second
    update = (first * second_cycles - second * first_cycles) / gap
    return (first_cycles - second_cycles) / gap, update


# %% 16.5: the update first
# like: the other order
def parts_of(first, first_cycles, second, second_cycles):
    gap = first - second
    update = (first * second_cycles - second * first_cycles) / gap
    return update, (first_cycles - second_cycles) / gap


# %% 16.5: no update at all
# like: without an update
def parts_of(first, first_cycles, second, second_cycles):
    each = first_cycles / first
    update = second_cycles - each * second
    return [each, update]


# %% 16.6: as a tuple
# passed: modelled sequences per second
starts = 0, 4, 8, 12


# %% 16.6: as an array
# passed: modelled sequences per second
import numpy as np

starts = np.array([0, 4, 8, 12])


# %% 16.6: in steps of four
# passed: modelled sequences per second
starts = list(range(0, 14, 4))


# %% 16.6: layers counted from 0
# not yet: stage 3 is the slowest, with 2 layers and the head.
starts = [0, 3, 7, 11]


# %% 16.6: five layers in the middle
# not yet: stage 2 is the slowest, with 5 layers.
starts = [0, 4, 8, 13]


# %% 16.6: out of order
# not yet: stage 1 has no part, because the starts do not increase.
starts = [0, 8, 4, 12]


# %% 16.6: a part too many
# not yet: the parts are 0 to 13.
starts = [0, 4, 8, 14]


# %% 16.6: the ends as well
# not yet: the pipeline has 4 stages, and this has 5.
starts = [0, 4, 8, 12, 14]


# %% 16.6: fractions
# not yet: not all starts are whole numbers.
starts = [0, 3.5, 7, 10.5]
