# %% given
from functools import reduce
from math import floor, isqrt, sqrt


# %% 00.1: divmod
# passed: on 488 fixed sets of numbers
def chip_figures(tiles, workers, megabytes):
    size, left = divmod(megabytes * 10**6, tiles)
    return [workers * tiles, size]


# %% 00.1: numpy
# passed: on 488 fixed sets of numbers
def chip_figures(tiles, workers, megabytes):
    import numpy as np
    return np.array([np.int64(tiles) * workers, np.floor_divide(megabytes * 1_000_000, tiles)])


# %% 00.1: fractions, and one thread after the other
# passed: on 488 fixed sets of numbers
def chip_figures(tiles, workers, megabytes):
    from fractions import Fraction
    threads = sum(workers for tile in range(tiles))
    return threads, int(Fraction(megabytes * 1_000_000, tiles))


# %% 00.1: the GC200's figures in a table
# like: one chip's figures
def chip_figures(tiles, workers, megabytes):
    chip = {"tiles": 1472, "workers": 6}
    memory = megabytes * 10**6 // chip["tiles"]
    return [chip["tiles"] * chip["workers"], memory]


# %% 00.1: kibibytes of kibibytes
# like: a MiB for a MB
def chip_figures(tiles, workers, megabytes):
    size = megabytes << 20
    each, _ = divmod(size, tiles)
    return workers * tiles, each


# %% 00.1: kilobytes first
# like: 1,000 and 1,024 mixed
def chip_figures(tiles, workers, megabytes):
    kilobytes = 1000 * megabytes
    return tiles * workers, (kilobytes * 1024) // tiles


# %% 00.1: a true quotient
# like: a part of a byte
def chip_figures(tiles, workers, megabytes):
    total = float(megabytes * 1_000_000)
    threads = 0
    for _ in range(tiles):
        threads += workers
    return threads, total / tiles


# %% 00.1: divided by the threads
# like: memory of a worker
def chip_figures(tiles, workers, megabytes):
    threads = tiles * workers
    return threads, megabytes * 1_000_000 // threads


# %% 00.1: bytes first
# like: the other order
def chip_figures(tiles, workers, megabytes):
    answer = [tiles * workers]
    answer.insert(0, megabytes * 1_000_000 // tiles)
    return tuple(answer)


# %% 00.1: a byte more
# like: rounded up
def chip_figures(tiles, workers, megabytes):
    each, left = divmod(megabytes * 1_000_000, tiles)
    return tiles * workers, each + 1 if left else each


# %% 00.1: rounded with a half
# like: rounded to the nearest
def chip_figures(tiles, workers, megabytes):
    return workers * tiles, int(megabytes * 1e6 / tiles + 0.5)


# %% 00.1: divided first, in floats
# like: divided first, as floats
def chip_figures(tiles, workers, megabytes):
    share = megabytes / tiles
    return tiles * workers, int(share * 10**6)


# %% 00.w1: divmod
# passed: on 374 fixed sets of numbers
def tile_of(i, tiles):
    return divmod(i, tiles)[1]


# %% 00.w1: the bits below a power of two
# clause: After the last tile comes tile 0 again
# not yet: tile_of(13, 13) came: 12 expected: 0 next: run this call
def tile_of(i, tiles):
    return i & (tiles - 1)


# %% 00.3: pieces that follow each other
# passed: 33 arrays of several sizes
def spread(graph, tensor):
    tiles, n = graph.target.num_tiles, tensor.num_elements
    for tile in range(tiles):
        begin, end = n * tile // tiles, n * (tile + 1) // tiles
        if end > begin:
            graph.set_tile_mapping(tensor[begin:end], tile)


# %% 00.3: a mapping made of ranges
# passed: 33 arrays of several sizes
def spread(graph, tensor):
    import numpy as np
    parts = np.array_split(np.arange(tensor.num_elements), graph.target.num_tiles)
    graph.set_tile_mapping(tensor, [[(int(p[0]), int(p[-1]) + 1)] if len(p) else [] for p in parts])


# %% 00.3: slices with a step, from the last tile down
# passed: 33 arrays of several sizes
def spread(graph, tensor):
    tiles = graph.target.num_tiles
    for k in range(min(tiles, tensor.num_elements)):
        graph.set_tile_mapping(tensor[k::tiles], tiles - 1 - k)


# %% 00.3: the library's own
# passed: 33 arrays of several sizes
def spread(graph, tensor):
    from ipu_teach.poplibs import poputil
    poputil.map_tensor_linearly(graph, tensor, min_elements_per_tile=1, grain_size=1)


# %% 00.3: the share rounded up, so that the last tiles get less
# passed: 33 arrays of several sizes
def spread(graph, tensor):
    share = -(-tensor.num_elements // graph.target.num_tiles)
    for tile in range(-(-tensor.num_elements // share)):
        graph.set_tile_mapping(tensor[tile * share : (tile + 1) * share], tile)


# %% 00.3: the rest by itself
# like: the last tile gets the rest
def spread(graph, tensor):
    tiles = graph.target.num_tiles
    share = tensor.num_elements // tiles
    if share == 0:
        for i in range(tensor.num_elements):
            graph.set_tile_mapping(tensor[i], i)
        return
    for tile in range(tiles - 1):
        graph.set_tile_mapping(tensor[tile * share : (tile + 1) * share], tile)
    graph.set_tile_mapping(tensor[(tiles - 1) * share :], tiles - 1)


# %% 00.3: whole shares alone
# like: the tail left over
def spread(graph, tensor):
    tiles = graph.target.num_tiles
    begin, share = 0, tensor.num_elements // tiles
    for tile in range(tiles):
        end = begin + share
        graph.set_tile_mapping(tensor[begin:end], tile)
        begin = end


# %% 00.4: a loop
# passed: on 592 fixed sets of numbers
def largest_side(tiles, bytes_per_tile):
    n = 0
    while 2 * 2 * (n + 1) ** 2 <= tiles * bytes_per_tile:
        n += 1
    return n


# %% 00.4: floats
# passed: on 592 fixed sets of numbers
def largest_side(tiles, bytes_per_tile):
    return int((tiles * bytes_per_tile / 4) ** 0.5)


# %% 00.4: numpy
# passed: on 592 fixed sets of numbers
def largest_side(tiles, bytes_per_tile):
    import numpy as np
    return np.floor(np.sqrt(tiles * bytes_per_tile) / 2)


# %% 00.4: room for one
# like: once
def largest_side(tiles, bytes_per_tile):
    low, high = 0, tiles * bytes_per_tile
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if 2 * middle**2 <= tiles * bytes_per_tile else (low, middle)
    return low


# %% 00.4: four bytes an element
# like: FLOAT for HALF
def largest_side(tiles, bytes_per_tile):
    memory = tiles * bytes_per_tile
    elements = memory // 2 // 4
    return floor(sqrt(elements))


# %% 00.4: one of its tiles
# like: one tile
def largest_side(tiles, bytes_per_tile):
    half = bytes_per_tile / 2
    return int(sqrt(half // 2))


# %% 00.4: half of a side
# like: half the side
def largest_side(tiles, bytes_per_tile):
    total = reduce(lambda memory, tile: memory + bytes_per_tile, range(tiles), 0)
    side = isqrt(total // 4)
    return side >> 1


# %% 00.4: to the nearest
# like: rounded to the nearest
def largest_side(tiles, bytes_per_tile):
    return int(sqrt(tiles * bytes_per_tile / 4) + 0.5)
