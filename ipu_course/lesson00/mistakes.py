# %% given
from math import isqrt


# %% 00.1: one chip's figures
# why:  these are the figures of one chip, with 1,472 tiles of 6 workers. Your function is also
#   called for other chips.
# next: use the arguments `tiles` and `workers` in place of the numbers.
def chip_figures(tiles, workers, megabytes):
    return 8832, megabytes * 1_000_000 // 1472


# %% 00.1: a MiB for a MB
# why:  a MB is 1,000,000 bytes here. This answer takes 1,048,576 bytes, which is a MiB.
# next: multiply `megabytes` by 1,000,000.
def chip_figures(tiles, workers, megabytes):
    return tiles * workers, megabytes * 2**20 // tiles


# %% 00.1: a MiB for a MB, and a fraction
# why:  a MB is 1,000,000 bytes here. This answer takes 1,048,576 bytes, which is a MiB. It also has
#   a fraction of a byte.
# next: multiply `megabytes` by 1,000,000, and divide with //.
def chip_figures(tiles, workers, megabytes):
    return tiles * workers, megabytes * 2**20 / tiles


# %% 00.1: 1,000 and 1,024 mixed
# why:  a MB is 1,000 times 1,000 bytes here. This answer takes 1,000 times 1,024.
# next: multiply `megabytes` by 1,000,000.
def chip_figures(tiles, workers, megabytes):
    return tiles * workers, megabytes * 1000 * 1024 // tiles


# %% 00.1: a part of a byte
# clause: how many whole bytes
# why:  the second number has a fraction, but the exercise asks for whole bytes.
# next: divide with //, which rounds down.
def chip_figures(tiles, workers, megabytes):
    return tiles * workers, megabytes * 1_000_000 / tiles


# %% 00.1: rounded up
# why:  the bytes of a tile are rounded up. Then all tiles together have more bytes than the chip.
# next: round down: divide with //.
def chip_figures(tiles, workers, megabytes):
    import math

    return tiles * workers, math.ceil(megabytes * 1_000_000 / tiles)


# %% 00.1: memory of a worker
# clause: each tile has
# why:  this divides the memory by `workers`, too. The workers of a tile share the memory of the
#   tile.
# next: divide the bytes of the chip by `tiles` only.
def chip_figures(tiles, workers, megabytes):
    return tiles * workers, megabytes * 1_000_000 // tiles // workers


# %% 00.1: memory of the chip
# why:  the second number is the memory of the whole chip. The exercise asks for the memory of one
#   tile.
# next: divide the second number by `tiles`, with //.
def chip_figures(tiles, workers, megabytes):
    return tiles * workers, megabytes * 1_000_000


# %% 00.1: megabytes divided
# why:  the second number is in megabytes. The exercise asks for bytes.
# next: convert `megabytes` to bytes before you divide.
def chip_figures(tiles, workers, megabytes):
    return tiles * workers, megabytes // tiles


# %% 00.1: the other order
# clause: as (threads, bytes)
# why:  both numbers are right, but in the wrong order.
# next: return the threads first, and then the bytes.
def chip_figures(tiles, workers, megabytes):
    return megabytes * 1_000_000 // tiles, tiles * workers


# %% 00.1: threads of a tile
# clause: how many threads run on the chip
# why:  the first number is the threads of one tile. The exercise asks for the threads of the chip.
# next: multiply `workers` by `tiles`.
def chip_figures(tiles, workers, megabytes):
    return workers, megabytes * 1_000_000 // tiles


# %% 00.1: a tile for a thread
# clause: one for each worker
# why:  this counts one thread for each tile. A tile runs one thread for each of its workers.
# next: multiply `tiles` by `workers`.
def chip_figures(tiles, workers, megabytes):
    return tiles, megabytes * 1_000_000 // tiles


# %% 00.1: printed
# not yet: nothing: is there a `return`?
def chip_figures(tiles, workers, megabytes):
    print(tiles * workers, megabytes * 1_000_000 // tiles)


# %% 00.1: the threads alone
# clause: return both
# not yet: which is not a list or array of numbers
def chip_figures(tiles, workers, megabytes):
    return f"{tiles * workers} threads"


# %% 00.1: the supervisor counted
# why:  this counts one more thread on each tile. The exercise asks for the threads of the workers
#   only, without the supervisor.
# next: multiply `tiles` by `workers`.
def chip_figures(tiles, workers, megabytes):
    return tiles * (workers + 1), megabytes * 1_000_000 // tiles


# %% 00.1: tiles and workers added
# why:  this adds `tiles` and `workers`. But every single tile has that many workers.
# next: multiply `tiles` by `workers`.
def chip_figures(tiles, workers, megabytes):
    return tiles + workers, megabytes * 1_000_000 // tiles


# %% 00.1: a thousand bytes for a MB
# why:  a MB is 1,000,000 bytes. This answer takes 1,000 bytes, which is a kB.
# next: multiply `megabytes` by 1,000,000.
def chip_figures(tiles, workers, megabytes):
    return tiles * workers, megabytes * 1000 // tiles


# %% 00.1: a GB for a MB
# why:  a MB is 1,000,000 bytes. This answer takes 1,000,000,000 bytes, which is a GB.
# next: multiply `megabytes` by 1,000,000.
def chip_figures(tiles, workers, megabytes):
    return tiles * workers, megabytes * 1_000_000_000 // tiles


# %% 00.1: rounded to the nearest
# why:  the bytes of a tile are rounded to the nearest whole number, which can be one byte too many.
# next: round down: divide with //.
def chip_figures(tiles, workers, megabytes):
    return tiles * workers, round(megabytes * 1_000_000 / tiles)


# %% 00.3: the last tile gets the rest
# clause: the fullest tile has as few elements as possible
# why:  each tile gets n // tiles elements, and the last tile also gets all that remain.
# next: deal the elements like cards, as in the warm-up.
def spread(graph, tensor):
    tiles, n = graph.target.num_tiles, tensor.num_elements
    share = n // tiles
    for i in range(n):
        graph.set_tile_mapping(tensor[i], min(i // share, tiles - 1) if share else i)


# %% 00.1: divided first
# why:  this divides the megabytes first, and // drops the fraction of a megabyte.
# next: multiply `megabytes` by 1,000,000 first, and then divide by `tiles`.
def chip_figures(tiles, workers, megabytes):
    return tiles * workers, megabytes // tiles * 1_000_000


# %% 00.1: divided first, as floats
# why:  the division comes first here, and its quotient is a float. Rounding this quotient loses a
#   byte if the division has no remainder.
# next: multiply by 1,000,000 first, and divide the product with //.
def chip_figures(tiles, workers, megabytes):
    return tiles * workers, int(megabytes / tiles * 1_000_000)


# %% 00.3: everything on tile 0
# clause: the fullest tile gets as few as possible
# not yet: tile 0 has 347 elements, and tile 1 has 0
def spread(graph, tensor):
    graph.set_tile_mapping(tensor, 0)


# %% 00.3: the tail left over
# clause: map every element.
# not yet: dividing with // drops the remainder
def spread(graph, tensor):
    share = tensor.num_elements // graph.target.num_tiles
    for tile in range(graph.target.num_tiles):
        graph.set_tile_mapping(tensor[tile * share : (tile + 1) * share], tile)


# %% 00.3: one tile too far
# not yet: the last of 13 tiles is tile 12, and this answer goes on to 13.
def spread(graph, tensor):
    for i in range(tensor.num_elements):
        graph.set_tile_mapping(tensor[i], i % (graph.target.num_tiles + 1))


# %% 00.3: thirteen tiles in any case
# not yet: the last of 4 tiles is tile 3, and this answer goes on to 4.
def spread(graph, tensor):
    for i in range(tensor.num_elements):
        graph.set_tile_mapping(tensor[i], i % 13)


# %% 00.3: the first 101 elements
# not yet: 246 elements not mapped to any tile
def spread(graph, tensor):
    for i in range(min(101, tensor.num_elements)):
        graph.set_tile_mapping(tensor[i], i % graph.target.num_tiles)


# %% 00.3: nothing mapped
# not yet: no element is on a tile
def spread(graph, tensor):
    return [i % graph.target.num_tiles for i in range(tensor.num_elements)]


# %% 00.3: tile 0 is left out
# not yet: and tile 0 has room for more
def spread(graph, tensor):
    for i in range(tensor.num_elements):
        graph.set_tile_mapping(tensor[i], 1 + i % (graph.target.num_tiles - 1))


# %% 00.3: right but for few elements
# clause: There may be fewer elements than tiles.
# not yet: Special in this case: there are fewer elements than tiles
def spread(graph, tensor):
    tiles, n = graph.target.num_tiles, tensor.num_elements
    for i in range(n):
        graph.set_tile_mapping(tensor[i], i % tiles if n >= tiles else 0)


# %% 00.3: every second tile
# not yet: there are 4 tiles
def spread(graph, tensor):
    for i in range(tensor.num_elements):
        graph.set_tile_mapping(tensor[i], 2 * i % graph.target.num_tiles)


# %% 00.4: once
# clause: two n x n matrices
# why:  this is the side of one matrix of HALF, or of two matrices whose elements have 1 byte. There
#   are two matrices, and an element of HALF has 2 bytes.
# next: work out how many bytes one matrix can have, and how many elements fit into these bytes.
def largest_side(tiles, bytes_per_tile):
    return isqrt(tiles * bytes_per_tile // 2)


# %% 00.4: FLOAT for HALF
# clause: of HALF
# why:  this counts 4 bytes for an element, as in FLOAT. An element of HALF has 2 bytes.
# next: count the bytes of an element of HALF, not of FLOAT.
def largest_side(tiles, bytes_per_tile):
    return isqrt(tiles * bytes_per_tile // 8)


# %% 00.4: bytes for elements
# why:  this takes the square root of all bytes. But there are two matrices, and each element has 2
#   bytes.
# next: work out how many elements one matrix can have, and take the square root of that number.
def largest_side(tiles, bytes_per_tile):
    return isqrt(tiles * bytes_per_tile)


# %% 00.4: no root
# clause: Return the number of rows
# why:  this is the number of elements of each matrix. The exercise asks for the number of rows.
# next: return isqrt of it: the square root, rounded down.
def largest_side(tiles, bytes_per_tile):
    return tiles * bytes_per_tile // 4


# %% 00.4: one tile
# clause: fit into the memory of all tiles
# why:  this uses the memory of one tile only. The matrices can be spread over all tiles.
# next: multiply bytes_per_tile by tiles first.
def largest_side(tiles, bytes_per_tile):
    return isqrt(bytes_per_tile // 4)


# %% 00.4: each tile by itself
# why:  this divides the bytes of each tile by 4 and rounds down, so it drops some bytes on each
#   tile.
# next: multiply by tiles first, and then divide by 4.
def largest_side(tiles, bytes_per_tile):
    return isqrt(tiles * (bytes_per_tile // 4))


# %% 00.4: half the side
# clause: the largest n
# why:  this halves the number of rows. With half the rows, a matrix has only a quarter of the
#   elements.
# next: halve the number of bytes before the square root, not the number of rows.
def largest_side(tiles, bytes_per_tile):
    return isqrt(tiles * bytes_per_tile // 4) // 2


# %% 00.4: rounded up
# clause: the memory of all tiles
# why:  this rounds up, so the two matrices are a little too large for the memory.
# next: round down: math.isqrt does that.
def largest_side(tiles, bytes_per_tile):
    import math

    return math.ceil((tiles * bytes_per_tile / 4) ** 0.5)


# %% 00.4: rounded to the nearest
# why:  this rounds to the nearest number, so the two matrices can be a little too large for the
#   memory.
# next: round down: math.isqrt does that.
def largest_side(tiles, bytes_per_tile):
    return round((tiles * bytes_per_tile / 4) ** 0.5)


# %% 00.4: a part of a row
# why:  the number has a fraction, but a matrix has whole rows.
# next: round down: math.isqrt does that.
def largest_side(tiles, bytes_per_tile):
    return (tiles * bytes_per_tile / 4) ** 0.5


# %% 00.4: the GC200's
# not yet: the function returned the same number for all arguments
def largest_side(tiles, bytes_per_tile):
    return 15334


# %% 00.4: three matrices
# why:  this keeps memory for three matrices. There are two.
# next: divide the bytes by 2, not by 3, for the number of matrices.
def largest_side(tiles, bytes_per_tile):
    return isqrt(tiles * bytes_per_tile // 3 // 2)


# %% 00.4: sixteen bytes for sixteen bits
# why:  this counts 16 bytes for an element of HALF. It has 16 bits, which are 2 bytes.
# next: divide by 2 for the bytes of an element, not by 16.
def largest_side(tiles, bytes_per_tile):
    return isqrt(tiles * bytes_per_tile // 2 // 16)


# %% 00.4: half the tiles for each
# clause: fit into the memory of all tiles
# why:  this uses tiles // 2 tiles for each matrix. With an odd number of tiles, one tile is not
#   used.
# next: divide the bytes of all tiles by 2, not the number of tiles.
def largest_side(tiles, bytes_per_tile):
    return isqrt(tiles // 2 * bytes_per_tile // 2)


# %% 00.w1: divided instead of the rest
# clause: like cards to players
# why:  this is the number of full rounds before element i. The exercise asks for the tile.
# next: return what remains of i after the full rounds, not the number of rounds.
def tile_of(i, tiles):
    return i // tiles


# %% 00.w1: one too far
# why:  this places element 0 on tile 1. It belongs on tile 0.
# next: leave out the + 1.
def tile_of(i, tiles):
    return (i + 1) % tiles


# %% 00.w1: counted from 1
# clause: element 0 to tile 0
# why:  this places element 0 on tile 1. The first tile is tile 0.
# next: leave out the + 1.
def tile_of(i, tiles):
    return i % tiles + 1


# %% 00.w1: the last tile takes the rest
# clause: After the last tile comes tile 0 again
# why:  this places all later elements on the last tile. After the last tile comes tile 0 again.
# next: start again at tile 0: return what remains of i after all full rounds.
def tile_of(i, tiles):
    return min(i, tiles - 1)


# %% 00.w1: from the last tile on
# why:  this deals from the last tile to the first. Element 0 belongs on tile 0.
# next: count up from tile 0: return the remainder itself.
def tile_of(i, tiles):
    return tiles - 1 - i % tiles


# %% 00.w1: the last tile left out
# why:  this divides by tiles - 1, so the last tile gets no element.
# next: divide by the number of all tiles.
def tile_of(i, tiles):
    return i % (tiles - 1)


# %% 00.w1: a round counted as one element
# why:  this subtracts 1 for each full round. But in a round, every tile gets an element.
# next: subtract `tiles` for each full round.
def tile_of(i, tiles):
    return i - i // tiles


# %% 00.w1: one round only
# clause: After the last tile comes tile 0 again
# why:  this subtracts `tiles` at most once, but there can be several full rounds before element i.
# next: leave out all full rounds, not just one.
def tile_of(i, tiles):
    return i - tiles if i >= tiles else i
