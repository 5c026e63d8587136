"""Modelled cycles of library vertices, with a function for each vertex that PopLibs estimates.

Each function has the name of its vertex, and there is a module for each of PopLibs' libraries.
Every formula restates PopLibs' own estimator and names its file. The formulas in `order` count
instructions instead, because PopLibs has no vertex that merges sorted runs. Sizes are ints or int64
arrays, as in `parts`. If PopLibs runs a vertex on all six workers of a tile, its function returns
tile cycles. If the vertex runs on a single worker, its function returns worker cycles. The
docstring says which.
"""

from ipu_teach.cost.vertices.order import *
from ipu_teach.cost.vertices.poplin import *
from ipu_teach.cost.vertices.popnn import *
from ipu_teach.cost.vertices.popops import *
from ipu_teach.cost.vertices.poprand import *
from ipu_teach.cost.vertices.reduce import *
from ipu_teach.cost.vertices.slices import *
