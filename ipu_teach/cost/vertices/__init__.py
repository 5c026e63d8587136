"""Modelled cycles of the library's vertices: one function for each vertex that PopLibs estimates,
named after it.

One module for each of PopLibs' libraries. Every formula is PopLibs' own estimator, restated; each
says in which file it stands. Those in `order` count instructions, because PopLibs has no vertex
that merges sorted runs. Sizes are ints or int64 arrays, as in `parts`. A function says whether
it gives tile cycles, where PopLibs runs the vertex on all six workers, or worker cycles, where it
runs on one.
"""

from ipu_teach.cost.vertices.order import *
from ipu_teach.cost.vertices.poplin import *
from ipu_teach.cost.vertices.popnn import *
from ipu_teach.cost.vertices.popops import *
from ipu_teach.cost.vertices.poprand import *
from ipu_teach.cost.vertices.reduce import *
from ipu_teach.cost.vertices.slices import *
