"""The measures of the painter and the player. `static/make_scripts.py` writes them to
static/measures.js. Lengths are in units of the drawing."""

from __future__ import annotations

GAP = 0.6  # between blocks of cells, in cells
NAME = 6.4  # approximate width of one letter of a name
SMALLEST_LABEL = 13.0  # cells and lanes smaller than this are not labelled
TWO_LINES = 2.6  # a cell so many times as high has its name and its letter
MOST_RECTANGLES = 64  # of one group of marks; more become a raster of one pixel a value
MOST_SPOKES = 24  # of a message to many; beyond that each receiver gets a dot
TICK = 92.0  # for the name of a step below a curve
NAMED = 40.0  # a step narrower than this has no name above its lanes
BAR = 150.0  # width of a tree's column of bars
# height of the bars above a matrix, width of those beside it; tiles beside another; how wide a link
# between IPUs is drawn
MARGIN = 26.0
MOST_PARTNERS = 12
LINK = 16.0
# of a zoom: its square; height of a pipe with its words; its most width
SIDE = 232.0
SLOT = 58.0
THICK = 24.0
# Of a board's box: its name, the cells of a tensor, and between boxes; of a cell its height, its
# most width, and the least that has digits; the height of a line of its list, and the width of a
# digit.
# Links between IPUs stand in its gutter. More messages than are packets become arrows; of more than
# are arrows, those of the tile in question.
GUTTER = 72.0
MOST_PACKETS = 12
MOST_ARROWS = 256
HEAD = 20.0
ROW = 18.0
BETWEEN = 6.0
CELL = 14.0
BROADEST = 44.0
DIGITS = 24.0
LINE = 17.0
OF_LETTER = 6.3
