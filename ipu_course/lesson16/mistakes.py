# %% given
"""Known mistakes of lesson 16; what this file is: mistakes.py."""

from math import ceil


# %% 16.w1: rounded down
# clause: at least `batch` images
# why:  this rounds down, so a step can have fewer images than `batch`.
# next: round up: -(-a // b), or math.ceil(a / b).
def accumulation(batch, micro_batch, replicas):
    return batch // (micro_batch * replicas)


# %% 16.w1: not rounded
# why:  this is not a whole number, but a replica processes whole micro-batches.
# next: round up: -(-a // b), or math.ceil(a / b).
def accumulation(batch, micro_batch, replicas):
    return batch / (micro_batch * replicas)


# %% 16.w1: rounded to the nearest
# why:  this rounds to the nearest number, so a step can have fewer images than `batch`.
# next: round up: -(-a // b), or math.ceil(a / b).
def accumulation(batch, micro_batch, replicas):
    return round(batch / (micro_batch * replicas))


# %% 16.w1: one replica
# clause: Each of `replicas` IPUs
# why:  this leaves out the other replicas, which process micro-batches at the same time.
# next: divide by micro_batch * replicas.
def accumulation(batch, micro_batch, replicas):
    return ceil(batch / micro_batch)


# %% 16.w1: one too many
# clause: Return the smallest number
# why:  this is one too many where the batch is a multiple of micro_batch * replicas.
# next: round up with -(-a // b), which adds nothing to a whole quotient.
def accumulation(batch, micro_batch, replicas):
    return batch // (micro_batch * replicas) + 1


# %% 16.1: rounded down
# clause: The last step of an epoch takes as long as the others
# why:  this rounds the number of steps down, so the last images of an epoch are left out.
# next: round up, with -(-images // images_of_step).
def minutes(images, epochs, micro_batch, micro_batches, replicas, micro_batch_cycles,
            update_cycles, clock):  # fmt: skip
    steps = images // (micro_batch * micro_batches * replicas) * epochs
    return steps * (micro_batches * micro_batch_cycles + update_cycles) / clock / 60


# %% 16.1: parts of a step
# clause: Each epoch begins with a new step
# why:  this counts a part of a step at the end of an epoch, but it takes as long as a whole one.
# next: round the steps of an epoch up before you multiply by `epochs`.
def minutes(images, epochs, micro_batch, micro_batches, replicas, micro_batch_cycles,
            update_cycles, clock):  # fmt: skip
    steps = images / (micro_batch * micro_batches * replicas) * epochs
    return steps * (micro_batches * micro_batch_cycles + update_cycles) / clock / 60


# %% 16.1: epochs without a border
# why:  this rounds up once for the whole run, but each epoch begins with a new step.
# next: round the steps of one epoch up, and then multiply by `epochs`.
def minutes(images, epochs, micro_batch, micro_batches, replicas, micro_batch_cycles,
            update_cycles, clock):  # fmt: skip
    steps = ceil(images * epochs / (micro_batch * micro_batches * replicas))
    return steps * (micro_batches * micro_batch_cycles + update_cycles) / clock / 60


# %% 16.1: one replica
# clause: All replicas work at the same time.
# why:  this is the time on one IPU, because it does not divide the images among the replicas.
# next: a step has micro_batch * micro_batches * replicas images.
def minutes(images, epochs, micro_batch, micro_batches, replicas, micro_batch_cycles,
            update_cycles, clock):  # fmt: skip
    steps = -(-images // (micro_batch * micro_batches)) * epochs
    return steps * (micro_batches * micro_batch_cycles + update_cycles) / clock / 60


# %% 16.1: an update after each micro-batch
# clause: The update at the end of a step takes
# why:  this adds the cycles of the update after each micro-batch, but a step has only one.
# next: multiply only micro_batch_cycles by micro_batches.
def minutes(images, epochs, micro_batch, micro_batches, replicas, micro_batch_cycles,
            update_cycles, clock):  # fmt: skip
    steps = -(-images // (micro_batch * micro_batches * replicas)) * epochs
    return steps * micro_batches * (micro_batch_cycles + update_cycles) / clock / 60


# %% 16.1: one micro-batch in a step
# why:  this counts the cycles of one micro-batch in a step, but a step has several.
# next: multiply micro_batch_cycles by micro_batches.
def minutes(images, epochs, micro_batch, micro_batches, replicas, micro_batch_cycles,
            update_cycles, clock):  # fmt: skip
    steps = -(-images // (micro_batch * micro_batches * replicas)) * epochs
    return steps * (micro_batch_cycles + update_cycles) / clock / 60


# %% 16.1: cycles of an image
# clause: A whole micro-batch takes
# why:  this multiplies by the images of a micro-batch, but micro_batch_cycles has all of
#   them.
# next: leave out micro_batch in the cycles of a step.
def minutes(images, epochs, micro_batch, micro_batches, replicas, micro_batch_cycles,
            update_cycles, clock):  # fmt: skip
    steps = -(-images // (micro_batch * micro_batches * replicas)) * epochs
    cycles = micro_batches * micro_batch * micro_batch_cycles + update_cycles
    return steps * cycles / clock / 60


# %% 16.1: seconds
# clause: How many **minutes**
# why:  this is the time in seconds.
# next: divide by 60.
def minutes(images, epochs, micro_batch, micro_batches, replicas, micro_batch_cycles,
            update_cycles, clock):  # fmt: skip
    steps = -(-images // (micro_batch * micro_batches * replicas)) * epochs
    return steps * (micro_batches * micro_batch_cycles + update_cycles) / clock


# %% 16.1: one epoch
# clause: `epochs` epochs of `images` images
# why:  this is the time of one epoch.
# next: multiply the steps of an epoch by `epochs`.
def minutes(images, epochs, micro_batch, micro_batches, replicas, micro_batch_cycles,
            update_cycles, clock):  # fmt: skip
    steps = -(-images // (micro_batch * micro_batches * replicas))
    return steps * (micro_batches * micro_batch_cycles + update_cycles) / clock / 60


# %% 16.1: seconds, and parts of a step
# why:  this is the time in seconds, and it counts a part of a step at the end of an epoch.
# next: divide by 60, and round the steps of an epoch up.
def minutes(images, epochs, micro_batch, micro_batches, replicas, micro_batch_cycles,
            update_cycles, clock):  # fmt: skip
    steps = images / (micro_batch * micro_batches * replicas) * epochs
    return steps * (micro_batches * micro_batch_cycles + update_cycles) / clock


# %% 16.1: seconds, and rounded down
# why:  this is the time in seconds, and it leaves out the last images of an epoch.
# next: divide by 60, and round the steps of an epoch up.
def minutes(images, epochs, micro_batch, micro_batches, replicas, micro_batch_cycles,
            update_cycles, clock):  # fmt: skip
    steps = images // (micro_batch * micro_batches * replicas) * epochs
    return steps * (micro_batches * micro_batch_cycles + update_cycles) / clock


# %% 16.1: seconds on one replica
# why:  this is the time in seconds, and it does not divide the images among the replicas.
# next: divide by 60. A step has micro_batch * micro_batches * replicas images.
def minutes(images, epochs, micro_batch, micro_batches, replicas, micro_batch_cycles,
            update_cycles, clock):  # fmt: skip
    steps = -(-images // (micro_batch * micro_batches)) * epochs
    return steps * (micro_batches * micro_batch_cycles + update_cycles) / clock


# %% 16.1: one replica, and parts of a step
# why:  this does not divide the images among the replicas, and it counts a part of a step at the
#   end of an epoch.
# next: divide by micro_batch * micro_batches * replicas, and round up.
def minutes(images, epochs, micro_batch, micro_batches, replicas, micro_batch_cycles,
            update_cycles, clock):  # fmt: skip
    steps = images / (micro_batch * micro_batches) * epochs
    return steps * (micro_batches * micro_batch_cycles + update_cycles) / clock / 60


# %% 16.2: in proportion
# clause: on a line through both points
# why:  this assumes that all bytes grow with the micro-batch, but a part is the same for all.
# next: take the bytes of one image from the difference of both sizes.
def largest(small, bytes_small, large, bytes_large, limit):
    return limit * large // bytes_large


# %% 16.2: without the fixed bytes
# why:  this divides the whole memory by the bytes of an image, but a part of the memory is
#   already full without any image.
# next: subtract the fixed bytes first, which are bytes_small - small * per_image.
def largest(small, bytes_small, large, bytes_large, limit):
    return limit * (large - small) // (bytes_large - bytes_small)


# %% 16.2: rounded up
# clause: that fits
# why:  this rounds up, and the result needs more bytes than the limit.
# next: round down, with // or int().
def largest(small, bytes_small, large, bytes_large, limit):
    per_image = (bytes_large - bytes_small) / (large - small)
    return max(0, ceil(small + (limit - bytes_small) / per_image))


# %% 16.2: rounded to the nearest
# why:  this rounds to the nearest number, and half of these need more bytes than the limit.
# next: round down, with // or int().
def largest(small, bytes_small, large, bytes_large, limit):
    per_image = (bytes_large - bytes_small) / (large - small)
    return max(0, round(small + (limit - bytes_small) / per_image))


# %% 16.2: only the additional images
# why:  this is the number of images that fit in addition to `small`.
# next: add `small`.
def largest(small, bytes_small, large, bytes_large, limit):
    return max(0, (limit - bytes_small) * (large - small) // (bytes_large - bytes_small))


# %% 16.2: only the additional images, and negative
# why:  this is the number of images that fit in addition to `small`.
# next: add `small`.
def largest(small, bytes_small, large, bytes_large, limit):
    return (limit - bytes_small) * (large - small) // (bytes_large - bytes_small)


# %% 16.2: from the larger one
# why:  this adds the images to `large`, but the room is that above `bytes_small`.
# next: use one of the two points for both: small and bytes_small.
def largest(small, bytes_small, large, bytes_large, limit):
    return max(0, large + (limit - bytes_small) * (large - small) // (bytes_large - bytes_small))


# %% 16.2: negative sizes
# clause: Return 0
# why:  the result is negative where not even one image fits.
# next: return max(0, …).
def largest(small, bytes_small, large, bytes_large, limit):
    return small + (limit - bytes_small) * (large - small) // (bytes_large - bytes_small)


# %% 16.2: negative sizes, cut off
# clause: Return 0
# why:  the result is negative where not even one image fits.
# next: return max(0, …).
def largest(small, bytes_small, large, bytes_large, limit):
    per_image = (bytes_large - bytes_small) / (large - small)
    return int((limit - (bytes_small - small * per_image)) / per_image)


# %% 16.2: a rounded slope without the fixed bytes
# why:  this divides the whole memory by the bytes of an image, but a part of the memory is
#   already full without any image.
# next: subtract the fixed bytes first, which are bytes_small - small * per_image.
def largest(small, bytes_small, large, bytes_large, limit):
    return limit // ((bytes_large - bytes_small) // (large - small))


# %% 16.2: a rounded slope
# why:  this rounds down the bytes that one image needs, so more images seem to fit than really do.
# next: divide with /, or multiply before you divide.
def largest(small, bytes_small, large, bytes_large, limit):
    per_image = (bytes_large - bytes_small) // (large - small)
    return max(0, small + (limit - bytes_small) // per_image)


# %% 16.2: fewer than the limit
# clause: may use all `limit` bytes
# why:  this leaves out the size that needs exactly `limit` bytes, which fits.
# next: compare with <= instead of <.
def largest(small, bytes_small, large, bytes_large, limit):
    per_image = (bytes_large - bytes_small) / (large - small)
    n = 0
    while bytes_small + (n + 1 - small) * per_image < limit:
        n += 1
    return n


# %% 16.3: not rounded
# why:  this is not a whole number of images.
# next: round up, with -(-a // b).
def break_even(n, fixed, per_image, fixed_recompute, per_image_recompute):
    saved = fixed / n + per_image - per_image_recompute
    return fixed_recompute / saved if saved > 0 else 0


# %% 16.3: rounded down
# why:  this rounds down, and the result is slower than without recomputation.
# next: round up, with -(-a // b).
def break_even(n, fixed, per_image, fixed_recompute, per_image_recompute):
    saved = fixed + n * (per_image - per_image_recompute)
    return 0 if saved <= 0 else max(1, fixed_recompute * n // saved)


# %% 16.3: strictly faster
# clause: at most as many cycles
# why:  this asks for fewer cycles, but as many are enough.
# next: compare with <= instead of <.
def break_even(n, fixed, per_image, fixed_recompute, per_image_recompute):
    saved = fixed + n * (per_image - per_image_recompute)
    return 0 if saved <= 0 else fixed_recompute * n // saved + 1


# %% 16.3: the whole micro-batch
# clause: cycles **for each image**
# why:  this compares the cycles of two whole micro-batches, but these have different numbers of
#   images.
# next: divide the cycles of each micro-batch by its number of images.
def break_even(n, fixed, per_image, fixed_recompute, per_image_recompute):
    return max(0, (fixed + n * per_image - fixed_recompute) // per_image_recompute)


# %% 16.3: the whole micro-batch, by trying
# clause: cycles **for each image**
# why:  this compares the cycles of two whole micro-batches, but these have different numbers of
#   images.
# next: divide the cycles of each micro-batch by its number of images.
def break_even(n, fixed, per_image, fixed_recompute, per_image_recompute):
    for m in range(1, 1000):
        if fixed_recompute + per_image_recompute * m <= fixed + per_image * n:
            return m
    return 0


# %% 16.3: without the fixed cycles
# why:  this leaves out the fixed cycles of the micro-batch of n images.
# next: an image takes fixed / n + per_image cycles without recomputation.
def break_even(n, fixed, per_image, fixed_recompute, per_image_recompute):
    saved = per_image - per_image_recompute
    return 0 if saved <= 0 else ceil(fixed_recompute / saved)


# %% 16.3: the fixed cycles whole
# why:  this counts all fixed cycles for each image, but n images share them.
# next: divide `fixed` by n.
def break_even(n, fixed, per_image, fixed_recompute, per_image_recompute):
    saved = fixed + per_image - per_image_recompute
    return 0 if saved <= 0 else ceil(fixed_recompute / saved)


# %% 16.3: never 0
# clause: Return 0
# why:  the result is negative where no micro-batch is large enough.
# next: return 0 if an image takes longer with recomputation, however large m is.
def break_even(n, fixed, per_image, fixed_recompute, per_image_recompute):
    saved = fixed + n * (per_image - per_image_recompute)
    return -(-fixed_recompute * n // saved) if saved else 0


# %% 16.3: divided by nothing
# clause: Return 0
# why:  where no micro-batch is large enough, this divides by 0.
# next: return 0 if an image takes at least as long with recomputation as without it, however large
#   m is.
def break_even(n, fixed, per_image, fixed_recompute, per_image_recompute):
    saved = fixed + n * (per_image - per_image_recompute)
    return max(0, -(-fixed_recompute * n // saved))


# %% 16.3: divided by nothing, and negative
# clause: Return 0
# why:  where no micro-batch is large enough, this divides by 0.
# next: return 0 if an image takes at least as long with recomputation as without it, however large
#   m is.
def break_even(n, fixed, per_image, fixed_recompute, per_image_recompute):
    saved = fixed + n * (per_image - per_image_recompute)
    return -(-fixed_recompute * n // saved)


# %% 16.3: n for all
# why:  this returns n, but with recomputation, another number of images has to share the
#   fixed cycles.
# next: find m with fixed_recompute / m + per_image_recompute <= fixed / n + per_image.
def break_even(n, fixed, per_image, fixed_recompute, per_image_recompute):
    return n if fixed_recompute + n * per_image_recompute <= fixed + n * per_image else 0


# %% 16.3: divided by the difference
# why:  this compares only the additional cycles, but n images share the fixed
#   cycles of their micro-batch.
# next: solve fixed_recompute / m + per_image_recompute = fixed / n + per_image for m.
def break_even(n, fixed, per_image, fixed_recompute, per_image_recompute):
    more = per_image_recompute - per_image
    return 0 if more <= 0 else ceil((fixed_recompute - fixed) / more)


# %% 16.4: too many images
# clause: the network fits
# not yet: choose a smaller micro-batch.
settings = {"micro_batch": 40, "recompute": "six checkpoints", "byte_inputs": True}


# %% 16.4: more images than fit without recomputation
# not yet: change a setting that saves memory, or choose a smaller micro-batch.
settings = {"micro_batch": 35, "byte_inputs": True}


# %% 16.4: standard recomputation
# not yet: the standard recomputation makes the run longer.
settings = {"micro_batch": 26, "recompute": "standard", "byte_inputs": True}


# %% 16.4: float partials
# not yet: the dtype of the partials makes the run longer.
settings = {"micro_batch": 8, "partials": "float", "byte_inputs": True}


# %% 16.4: float partials that do not fit
# not yet: use HALF partials, which need fewer bytes.
settings = {"micro_batch": 12, "partials": "float", "byte_inputs": True}


# %% 16.4: as many images as fit without recomputation
# clause: **less than 25 modelled minutes**
# not yet: a larger micro-batch would be faster, but it does not fit with these settings.
settings = {"micro_batch": 12, "byte_inputs": True}


# %% 16.4: a small micro-batch
# not yet: the small micro-batch makes the run longer.
settings = {"micro_batch": 8, "recompute": "six checkpoints", "byte_inputs": True}


# %% 16.4: two bytes for each value
# not yet: 16-bit input makes the run longer.
settings = {"micro_batch": 35, "recompute": "six checkpoints"}


# %% 16.4: a proportion that is too small
# not yet: the small proportion makes the run longer.
settings = {"micro_batch": 12, "proportion": 0.02, "byte_inputs": True}


# %% 16.4: the accumulation as well
# clause: the arguments of `resnet` that you choose
# not yet: 'accumulation' is not one of the settings.
settings = {"micro_batch": 12, "accumulation": 17, "byte_inputs": True}


# %% 16.4: a list
# clause: Write a dictionary
# not yet: the settings should be a dictionary.
settings = ["micro_batch", 13, "byte_inputs", True]


# %% 16.w2: not rounded
# why:  this is not a whole number, but a step has whole micro-batches.
# next: round up: -(-a // b), or math.ceil(a / b).
def enough(micro_batch_cycles, update_cycles, percent):
    return update_cycles * (100 - percent) / (percent * micro_batch_cycles)


# %% 16.w2: rounded down
# clause: Return the smallest number
# why:  this rounds down, and then the update takes a larger share.
# next: round up: -(-a // b), or math.ceil(a / b).
def enough(micro_batch_cycles, update_cycles, percent):
    return max(1, update_cycles * (100 - percent) // (percent * micro_batch_cycles))


# %% 16.w2: rounded down to nothing
# why:  this rounds down, and then the update takes a larger share.
# next: round up: -(-a // b), or math.ceil(a / b).
def enough(micro_batch_cycles, update_cycles, percent):
    return update_cycles * (100 - percent) // (percent * micro_batch_cycles)


# %% 16.w2: of the micro-batches
# clause: of the cycles of the step
# why:  this compares the update with the micro-batches alone, but the step also has the update.
# next: compare it with n * micro_batch_cycles + update_cycles.
def enough(micro_batch_cycles, update_cycles, percent):
    return ceil(100 * update_cycles / (percent * micro_batch_cycles))


# %% 16.w2: a share instead of percent
# clause: percent
# why:  this treats `percent` as a share between 0 and 1, but 100 percent is the whole step.
# next: divide `percent` by 100 first.
def enough(micro_batch_cycles, update_cycles, percent):
    return ceil(update_cycles * (1 - percent) / (percent * micro_batch_cycles))


# %% 16.w2: one too many
# clause: at most
# why:  this is one too many where the update takes exactly `percent` percent.
# next: round up with -(-a // b), which adds nothing to a whole quotient.
def enough(micro_batch_cycles, update_cycles, percent):
    return update_cycles * (100 - percent) // (percent * micro_batch_cycles) + 1


# %% 16.5: divided by the first
# why:  this divides the difference by `first`, but it belongs to first - second micro-batches.
# next: divide by first - second.
def parts_of(first, first_cycles, second, second_cycles):
    micro_batch = (first_cycles - second_cycles) / first
    return micro_batch, first_cycles - first * micro_batch


# %% 16.5: whole numbers
# why:  this rounds the cycles of a micro-batch down.
# next: divide with / instead of //.
def parts_of(first, first_cycles, second, second_cycles):
    micro_batch = (first_cycles - second_cycles) // (first - second)
    return micro_batch, first_cycles - first * micro_batch


# %% 16.5: without an update
# clause: including the update
# why:  this divides a whole step by its micro-batches, but a step also contains the update.
# next: subtract one step from the other first, because both contain one update.
def parts_of(first, first_cycles, second, second_cycles):
    micro_batch = first_cycles / first
    return micro_batch, second_cycles - second * micro_batch


# %% 16.5: one micro-batch subtracted
# why:  this subtracts one micro-batch from the step, but the step has `first` of them.
# next: subtract first * micro_batch.
def parts_of(first, first_cycles, second, second_cycles):
    micro_batch = (first_cycles - second_cycles) / (first - second)
    return micro_batch, first_cycles - micro_batch


# %% 16.5: steps mixed up
# why:  this subtracts the micro-batches of the second run from the step of the first run.
# next: use `first` with `first_cycles`, or `second` with `second_cycles`.
def parts_of(first, first_cycles, second, second_cycles):
    micro_batch = (first_cycles - second_cycles) / (first - second)
    return micro_batch, first_cycles - second * micro_batch


# %% 16.5: the other order
# clause: as a tuple: (cycles of a micro-batch
# why:  the numbers are right, but their order is not.
# next: return the cycles of a micro-batch first.
def parts_of(first, first_cycles, second, second_cycles):
    micro_batch = (first_cycles - second_cycles) / (first - second)
    return first_cycles - first * micro_batch, micro_batch


# %% 16.5: an update after each micro-batch
# clause: Two runs have the same micro-batches and the same update
# why:  this divides the update by the micro-batches, but a step has one update.
# next: return the whole rest of the step as the update.
def parts_of(first, first_cycles, second, second_cycles):
    micro_batch = (first_cycles - second_cycles) / (first - second)
    return micro_batch, (first_cycles - first * micro_batch) / first


# %% 16.6: equal numbers of layers
# clause: **at least 2,400 sequences per second**
# not yet: stage 3 is the slowest, with 3 layers and the head.
starts = [0, 4, 7, 10]


# %% 16.6: the head like a layer
# not yet: stage 3 is the slowest, with 2 layers and the head.
starts = [0, 4, 8, 11]


# %% 16.6: the embedding for nothing
# not yet: stage 0 is the slowest, with the embedding and 4 layers.
starts = [0, 5, 9, 12]


# %% 16.6: the head alone
# not yet: stage 0 is the slowest, with the embedding and 4 layers.
starts = [0, 5, 9, 13]


# %% 16.6: the embedding alone
# not yet: stage 3 is the slowest, with 4 layers and the head.
starts = [0, 1, 5, 9]


# %% 16.6: both ends alone
# not yet: stage 2 is the slowest, with 6 layers.
starts = [0, 1, 7, 13]


# %% 16.6: numbers of parts
# clause: the **first part** of each stage
# not yet: these are numbers of parts, and not first parts.
starts = [4, 4, 4, 2]


# %% 16.6: without the embedding
# clause: the stages together have all parts in order
# not yet: no stage has the parts before the first start.
starts = [1, 4, 8, 12]


# %% 16.6: an empty stage
# clause: Each stage needs at least one part
# not yet: stage 2 has no part, because the starts do not increase.
starts = [0, 5, 9, 9]


# %% 16.6: three stages
# clause: Write a list of four numbers
# not yet: the pipeline has 4 stages, and this has 3.
starts = [4, 8, 12]
