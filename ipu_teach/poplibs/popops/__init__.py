"""popops: elementwise operations, reductions, slices, sorting, constants and casts.

Every function appends to the Sequence `prog` and runs nothing. Its docstring, or that of its
module, describes on which tiles the result is, and what it costs. The modules:

    elementwise, ternary   operations with one, two and three operands; their table is in
                           `operations`, and their common part in `forms`
    expr, fused            `map`: expressions of several operations in one vertex
    reductions             `reduce` and its plans
    scaled                 a = a + k b, in place
    casts, fills           conversions; constants, ranges of numbers, one-hot rows
    dynamic, multi         slices whose offsets are data; their common part is in `rows`
    gathering              `gather` and `scatter`, with XLA's dimension numbers
    sorting, extremes      order along a dimension: planned by `sort_plan`, built by `ordering`
    questions, padding, loops, rearranging, images
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

if not _typing.TYPE_CHECKING:  # mypy would not see any name in a list that is computed
    __all__ = _offered(globals(), "expr")
