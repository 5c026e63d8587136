"""popops: elementwise operations, reductions, slices, sorting, constants and casts.

A function that computes appends its program to the Sequence `prog`; an `Engine` runs it later. The
docstring of the function or of its module describes the tile mapping of the result and the cost.

Terms that the package uses throughout:

* A *codelet* is a vertex class. Some codelets are templates, whose dtypes are type variables.
* An *edge* connects a field of a vertex to the tensor elements that it reads or writes.
* A slice or a reduction along some dimensions views a tensor as a matrix. The *rows* of the matrix
  are the positions in these dimensions, and the *columns* are the positions in all other
  dimensions.
* A tensor is mapped *linearly* if its elements are distributed over the tiles in order, in about
  equal numbers.

The modules:

    elementwise, ternary   operations with one, two and three operands; `operations` contains the
                           table of all operations, and `forms` the code that they share
    expr, fused            `map`: expressions of several operations in one vertex
    reductions             `reduce`; `reduction_plan` and `reduction_places` plan it
    scaled                 a = a + k b, in place
    casts, fills           conversions; constants, ranges of numbers, one-hot rows
    dynamic, multi         slices whose offsets are known only at run time; `rows` contains the code
                           that they share
    gathering              `gather` and `scatter`, with XLA's dimension numbers
    sorting, extremes      sorting along a dimension: planned by `sort_plan`, built by `ordering`
    questions              tests of all elements of a tensor
    padding, rearranging   larger tensors and other memory orders
    loops, images          counted loops, and functions of images
"""

import typing as _typing

from ipu_teach.poplibs.checks import add_codelets as add_codelets
from ipu_teach.poplibs.face import offered as _offered
from ipu_teach.poplibs.popops import expr as expr
from ipu_teach.poplibs.popops.casts import *
from ipu_teach.poplibs.popops.circ_buf import *
from ipu_teach.poplibs.popops.dynamic import *
from ipu_teach.poplibs.popops.elementwise import *
from ipu_teach.poplibs.popops.fills import *
from ipu_teach.poplibs.popops.fused import *
from ipu_teach.poplibs.popops.gathering import *
from ipu_teach.poplibs.popops.host_slices import *
from ipu_teach.poplibs.popops.images import *
from ipu_teach.poplibs.popops.loops import *
from ipu_teach.poplibs.popops.multi import *
from ipu_teach.poplibs.popops.padding import *
from ipu_teach.poplibs.popops.questions import *
from ipu_teach.poplibs.popops.rearranging import *
from ipu_teach.poplibs.popops.reduction_plan import *
from ipu_teach.poplibs.popops.reduction_vertices import *
from ipu_teach.poplibs.popops.reductions import *
from ipu_teach.poplibs.popops.scaled import *
from ipu_teach.poplibs.popops.sequence_slices import *
from ipu_teach.poplibs.popops.slice_plans import *
from ipu_teach.poplibs.popops.sorting import *
from ipu_teach.poplibs.popops.ternary import *

if not _typing.TYPE_CHECKING:  # mypy cannot evaluate this `__all__`, and would see no public names
    __all__ = _offered(globals(), "expr")
