"""The measures of the painter and the player, in units of the drawing.

`static/make_scripts.py` writes them to static/measures.js.
"""

from __future__ import annotations

GAP = 0.6  # the space between blocks of cells, in cells
NAME = 6.4  # the approximate width of a letter of a name
SMALLEST_LABEL = 13.0  # smaller cells and lanes have no labels
TWO_LINES = 2.6  # a cell this many times as high as that shows both its name and its letter
MOST_RECTANGLES = 64  # more items of a mark are drawn as a raster, with a pixel for each value
MOST_SPOKES = 24  # if a message has more receivers, each receiver gets a dot instead of an arrow
TICK = 92.0  # the width for the name of a step below a curve
NAMED = 40.0  # a narrower step has no name above its lanes
BAR = 150.0  # the smallest width of a tree's column of bars
# A matrix
MARGIN = 26.0  # the height of the bars above it, and the width of the bars beside it
MOST_PARTNERS = 12  # a picture of a tile shows at most this many partners
LINK = 16.0  # the width of a link between IPUs
# A zoom
SIDE = 232.0  # the side of its square
SLOT = 58.0  # the height of a pipe with its texts
THICK = 24.0  # the thickness of the widest pipe
# A board
GUTTER = 72.0  # the space for links between IPUs
MOST_PACKETS = 12  # more messages than this are drawn as arrows
MOST_ARROWS = 256  # of more messages than this, only those of the focused tile are drawn
HEAD = 20.0  # the height of the name of a box
ROW = 18.0  # the height of a row of cells, which has the elements of a tensor
BETWEEN = 6.0  # the space between boxes
CELL = 14.0  # the height of a cell
BROADEST = 44.0  # the largest width of a cell
DIGITS = 24.0  # a narrower cell shows no digits
LINE = 17.0  # the height of a line in the list of a box
OF_LETTER = 6.3  # the width of a digit
