# %% given
"""Known mistakes of lesson 09; what this file is: mistakes.py."""


# %% 09.w1: batches and layers swapped
# why:  this counts as if each micro-batch had its layers side by side.
# next: how many rows stand before the first one of the layer?
def row_of(layer, batch, batches):
    return batch * batches + layer
