"""popops: operations on elements, reductions, slices, order, fills and casts.

Every function appends to the Sequence `prog` and runs nothing. Its docstring and the head of its
module say to which tiles results are mapped, and what they cost:

    elementwise, ternary   operations of one, two and three operands; `operations` has their table,
                           and `forms` their common part
    expr, fused            expressions of several operations in one vertex: `map`
    reductions             `reduce` and its plans
    scaled                 a = a + k b, in place
    casts, fills           conversions; constants, counting numbers, one-hot rows
    dynamic, multi         slices whose place is data; `rows` has their common part
    gathering              `gather` and `scatter`, with XLA's dimension numbers
    sorting, extremes      order along a dimension: `sort_plan` plans it, and `ordering` builds it
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

if not _typing.TYPE_CHECKING:  # a list that is worked out would hide every name from mypy
    __all__ = _offered(globals(), "expr")
