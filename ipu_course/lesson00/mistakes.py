# %% given
from math import isqrt


# %% 00.1: one chip's figures
# why:  these are the figures of one chip, 1,472 tiles of 6 workers, whatever chip was asked for.
# next: use tiles and workers in place of the numbers.
def chip_figures(tiles, workers, megabytes):
    return 8832, megabytes * 1_000_000 // 1472


# %% 00.1: a MiB for a MB
# why:  a MB was taken as 1,048,576 bytes. That is a MiB; the sheet says MB.
# next: multiply by 1,000,000.
def chip_figures(tiles, workers, megabytes):
    return tiles * workers, megabytes * 2**20 // tiles


# %% 00.1: 1,000 and 1,024 mixed
# why:  1,000 and 1,024 are mixed: a MB is 1,000 times 1,000 bytes.
# next: multiply by 1,000,000.
def chip_figures(tiles, workers, megabytes):
    return tiles * workers, megabytes * 1000 * 1024 // tiles


# %% 00.1: a part of a byte
# clause: how many whole bytes
# why:  a part of a byte came out, and no tile can hold one.
# next: round down: // divides to a whole number.
def chip_figures(tiles, workers, megabytes):
    return tiles * workers, megabytes * 1_000_000 / tiles


# %% 00.1: rounded up
# why:  the bytes of a tile were rounded up. All tiles together would then hold more than the chip
#   has.
# next: round down: // divides to a whole number.
def chip_figures(tiles, workers, megabytes):
    import math

    return tiles * workers, math.ceil(megabytes * 1_000_000 / tiles)


# %% 00.1: memory of a worker
# clause: each tile has
# why:  this is the memory of one worker. The workers of a tile share its memory.
# next: divide by the tiles alone.
def chip_figures(tiles, workers, megabytes):
    return tiles * workers, megabytes * 1_000_000 // tiles // workers


# %% 00.1: memory of the chip
# why:  this is the memory of the whole chip.
# next: divide it by the tiles.
def chip_figures(tiles, workers, megabytes):
    return tiles * workers, megabytes * 1_000_000


# %% 00.1: megabytes divided
# why:  the megabytes were divided, and what is less than one of them was lost.
# next: make bytes of them first: 1 MB is 1,000,000 bytes.
def chip_figures(tiles, workers, megabytes):
    return tiles * workers, megabytes // tiles


# %% 00.1: the other order
# clause: as (threads, bytes)
# why:  both numbers are right, and in the other order.
# next: return the threads first.
def chip_figures(tiles, workers, megabytes):
    return megabytes * 1_000_000 // tiles, tiles * workers


# %% 00.1: threads of a tile
# clause: how many threads run on the chip
# why:  these are the threads of one tile.
# next: multiply by the tiles.
def chip_figures(tiles, workers, megabytes):
    return workers, megabytes * 1_000_000 // tiles


# %% 00.1: a tile for a thread
# clause: one for each worker
# why:  a tile was counted as one thread. It has several workers, and each runs a program of its
#   own.
# next: multiply by the workers.
def chip_figures(tiles, workers, megabytes):
    return tiles, megabytes * 1_000_000 // tiles


# %% 00.1: printed
# not yet: nothing: is there a `return`?
def chip_figures(tiles, workers, megabytes):
    print(tiles * workers, megabytes * 1_000_000 // tiles)


# %% 00.1: the threads alone
# clause: return both
# not yet: is not a row of numbers
def chip_figures(tiles, workers, megabytes):
    return f"{tiles * workers} threads"


# %% 00.1: the supervisor counted
# why:  the supervisor was counted as a seventh worker. The sheet's workers are all there are.
# next: multiply tiles by workers.
def chip_figures(tiles, workers, megabytes):
    return tiles * (workers + 1), megabytes * 1_000_000 // tiles


# %% 00.1: tiles and workers added
# why:  each tile has so many workers: they are multiplied, and not added.
# next: multiply tiles by workers.
def chip_figures(tiles, workers, megabytes):
    return tiles + workers, megabytes * 1_000_000 // tiles


# %% 00.1: a thousand bytes for a MB
# why:  a MB was taken as 1,000 bytes. That is a kB.
# next: multiply by 1,000,000.
def chip_figures(tiles, workers, megabytes):
    return tiles * workers, megabytes * 1000 // tiles


# %% 00.1: a GB for a MB
# why:  a MB was taken as a thousand million bytes. That is a GB.
# next: multiply by 1,000,000.
def chip_figures(tiles, workers, megabytes):
    return tiles * workers, megabytes * 1_000_000_000 // tiles


# %% 00.1: rounded to the nearest
# why:  the bytes of a tile were rounded to the nearest whole number, which may be one too many.
# next: round down: //.
def chip_figures(tiles, workers, megabytes):
    return tiles * workers, round(megabytes * 1_000_000 / tiles)


# %% 00.3: the last tile gets the rest
# clause: the fullest tile holds as few elements as possible
# why:  the share of a tile was rounded down, and the last tile got all that remained.
# next: deal the elements out one by one, as cards: element i to tile i % tiles.
def spread(graph, tensor):
    tiles, n = graph.target.num_tiles, tensor.num_elements
    share = n // tiles
    for i in range(n):
        graph.set_tile_mapping(tensor[i], min(i // share, tiles - 1) if share else i)


# %% 00.1: divided first
# why:  the megabytes were divided by the tiles, and rounded, before they became bytes.
# next: multiply by 1,000,000 first, and divide then.
def chip_figures(tiles, workers, megabytes):
    return tiles * workers, megabytes // tiles * 1_000_000


# %% 00.1: divided first, as floats
# why:  the division comes first here, and its quotient is a float. Rounding it loses a byte where
#   the bytes come out even.
# next: multiply by 1,000,000 first, and divide the product with //.
def chip_figures(tiles, workers, megabytes):
    return tiles * workers, int(megabytes / tiles * 1_000_000)


# %% 00.3: everything on tile 0
# clause: as evenly as can be
# not yet: tile 0 holds 347 elements, and tile 1 holds 0
def spread(graph, tensor):
    graph.set_tile_mapping(tensor, 0)


# %% 00.3: the tail left over
# clause: map every element.
# not yet: dividing with // drops what does not come out even
def spread(graph, tensor):
    share = tensor.num_elements // graph.target.num_tiles
    for tile in range(graph.target.num_tiles):
        graph.set_tile_mapping(tensor[tile * share : (tile + 1) * share], tile)


# %% 00.3: one tile too far
# error in the answer: graph.set_tile_mapping(tensor[i], i % (graph.target.num_tiles + 1))
def spread(graph, tensor):
    for i in range(tensor.num_elements):
        graph.set_tile_mapping(tensor[i], i % (graph.target.num_tiles + 1))


# %% 00.3: thirteen tiles in any case
# error in the answer: use a tile from 0 to 3
def spread(graph, tensor):
    for i in range(tensor.num_elements):
        graph.set_tile_mapping(tensor[i], i % 13)


# %% 00.3: the first 101 elements
# not yet: 246 elements on no tile
def spread(graph, tensor):
    for i in range(min(101, tensor.num_elements)):
        graph.set_tile_mapping(tensor[i], i % graph.target.num_tiles)


# %% 00.3: nothing mapped
# not yet: no element is on a tile
def spread(graph, tensor):
    return [i % graph.target.num_tiles for i in range(tensor.num_elements)]


# %% 00.3: tile 0 is left out
# not yet: would be full while there is room on tile 0
def spread(graph, tensor):
    for i in range(tensor.num_elements):
        graph.set_tile_mapping(tensor[i], 1 + i % (graph.target.num_tiles - 1))


# %% 00.3: right but for few elements
# clause: There may be fewer elements than tiles, too.
# not yet: what is special here: there are fewer elements than tiles
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
# why:  this is the side of one matrix of HALF, or of two whose elements have 1 byte each. Asked are
#   two, and an element of HALF has 2 bytes.
# next: divide the bytes by 2 * 2 before the root: two matrices, 2 bytes an element.
def largest_side(tiles, bytes_per_tile):
    return isqrt(tiles * bytes_per_tile // 2)


# %% 00.4: FLOAT for HALF
# clause: of HALF
# why:  that is the side for elements of 4 bytes, as in FLOAT. In HALF an element takes 2.
# next: divide the bytes by 2 * 2 before the root: two matrices, 2 bytes an element.
def largest_side(tiles, bytes_per_tile):
    return isqrt(tiles * bytes_per_tile // 8)


# %% 00.4: bytes for elements
# why:  a byte was counted as an element, and one matrix as two.
# next: an element of HALF takes 2 bytes, and there are two matrices.
def largest_side(tiles, bytes_per_tile):
    return isqrt(tiles * bytes_per_tile)


# %% 00.4: no root
# clause: Return the number of rows
# why:  this is how many elements each may have. Asked is the side of the square.
# next: take the square root, rounded down.
def largest_side(tiles, bytes_per_tile):
    return tiles * bytes_per_tile // 4


# %% 00.4: one tile
# clause: the memory of all tiles together
# why:  this is what fits into one tile. The matrices may lie on all of them.
# next: multiply the bytes of a tile by the tiles.
def largest_side(tiles, bytes_per_tile):
    return isqrt(bytes_per_tile // 4)


# %% 00.4: each tile by itself
# why:  what remains of each tile's bytes was dropped, and taken together the tiles hold more.
# next: multiply first, and divide all of the bytes at the end.
def largest_side(tiles, bytes_per_tile):
    return isqrt(tiles * (bytes_per_tile // 4))


# %% 00.4: half the side
# clause: The largest n
# why:  the side was halved. Half the side is a quarter of the matrix.
# next: halve the memory, and not the side.
def largest_side(tiles, bytes_per_tile):
    return isqrt(tiles * bytes_per_tile // 4) // 2


# %% 00.4: rounded up
# clause: fit into the memory
# why:  the side was rounded up, and such a matrix is a little too large.
# next: round down: math.isqrt does, and never errs.
def largest_side(tiles, bytes_per_tile):
    import math

    return math.ceil((tiles * bytes_per_tile / 4) ** 0.5)


# %% 00.4: rounded to the nearest
# why:  the side was rounded to the nearest number, and such a matrix may be a little too large.
# next: round down: math.isqrt does, and never errs.
def largest_side(tiles, bytes_per_tile):
    return round((tiles * bytes_per_tile / 4) ** 0.5)


# %% 00.4: a part of a row
# why:  a part of a row came out.
# next: round down: math.isqrt does, and never errs.
def largest_side(tiles, bytes_per_tile):
    return (tiles * bytes_per_tile / 4) ** 0.5


# %% 00.4: the GC200's
# not yet: it gives the same whatever it is given
def largest_side(tiles, bytes_per_tile):
    return 15334


# %% 00.4: three matrices
# why:  this has room for three matrices. Asked are two.
# next: divide by 2.
def largest_side(tiles, bytes_per_tile):
    return isqrt(tiles * bytes_per_tile // 3 // 2)


# %% 00.4: sixteen bytes for sixteen bits
# why:  an element was counted as 16 bytes. A HALF has 16 bits, which are 2 bytes.
# next: divide by 2 bytes an element.
def largest_side(tiles, bytes_per_tile):
    return isqrt(tiles * bytes_per_tile // 2 // 16)


# %% 00.w1: divided instead of the rest
# clause: like cards to players
# why:  this is how often all tiles had one before. Asked is what remains.
# next: % gives the rest of a division.
def tile_of(i, tiles):
    return i // tiles


# %% 00.w1: one too far
# why:  the first element goes to tile 0, and this begins at tile 1.
# next: tiles count from 0, and so does i.
def tile_of(i, tiles):
    return (i + 1) % tiles


# %% 00.w1: counted from 1
# clause: element 0 to tile 0
# why:  tiles are counted from 0: element 0 goes to tile 0.
# next: leave out the 1.
def tile_of(i, tiles):
    return i % tiles + 1


# %% 00.w1: the last tile takes the rest
# clause: after the last tile again from tile 0 on
# why:  here the last tile takes all that comes after it. After it comes tile 0 again.
# next: return what remains when i is divided by tiles: i % tiles.
def tile_of(i, tiles):
    return min(i, tiles - 1)


# %% 00.w1: from the last tile on
# why:  this deals from the last tile to the first.
# next: element 0 goes to tile 0.
def tile_of(i, tiles):
    return tiles - 1 - i % tiles


# %% 00.w1: the last tile left out
# why:  the remainder by tiles - 1 is at most tiles - 2, so the last tile gets nothing.
# next: divide by tiles itself: i % tiles.
def tile_of(i, tiles):
    return i % (tiles - 1)


# %% 00.w1: a round counted as one element
# why:  this subtracts 1 for each full round, but in a round every tile gets an element.
# next: subtract tiles for each round. i % tiles does that.
def tile_of(i, tiles):
    return i - i // tiles
