"""The measures that Python's drawings and the JavaScript player share, in units of the drawing.

`static/make_scripts.py` writes them to static/measures.js.
"""

from __future__ import annotations

GAP = 0.6  # The space between blocks of cells, in cells.
NAME = 6.4  # The approximate width of a letter of a name.
SMALLEST_LABEL = 13.0  # Cells and lanes that are smaller than this have no labels.
# A cell shows both its name and its letter if its height is at least SMALLEST_LABEL times this.
TWO_LINES = 2.6
# A mark with more items than this is drawn as a raster, with a pixel for each value.
MOST_RECTANGLES = 64
# If a message has more receivers than this, dots are drawn at the receivers instead of arrows.
MOST_SPOKES = 24
TICK = 92.0  # The width for the name of a step below a curve.
NAMED = 40.0  # A step that is narrower than this has no name above its lanes.
BAR = 150.0  # The smallest width of a tree's column of bars.
# The height of the bars above a matrix, and the width of the bars beside it.
MARGIN = 26.0
MOST_PARTNERS = 12  # A picture of a tile shows at most this many partners.
LINK = 16.0  # The width of a link between IPUs.
SIDE = 232.0  # The side of the square in which the view `machine` draws each size of machine.
SLOT = 58.0  # The height of a pipe with its texts.
THICK = 24.0  # The thickness of the widest pipe.
# The following measures are those of a board. A board has a box for each tile.
GUTTER = 72.0  # The space for links between IPUs.
# The maximum number of messages drawn as packets; more messages are drawn as arrows.
MOST_PACKETS = 12
# If there are more arrows than this, only the arrows of the focused tile are drawn.
MOST_ARROWS = 256
HEAD = 20.0  # The height of the name of a box.
# The height of a row of cells, which show the elements of a tensor.
ROW = 18.0
BETWEEN = 6.0  # The space between boxes.
CELL = 14.0  # The height of a cell.
BROADEST = 44.0  # The largest width of a cell.
DIGITS = 24.0  # A cell that is narrower than this shows no digits.
LINE = 17.0  # The height of a line in the list of the numbers of the focused box.
OF_LETTER = 6.3  # The approximate width of a digit or a letter.
