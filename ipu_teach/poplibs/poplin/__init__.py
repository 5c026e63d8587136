"""poplin: matrix products, convolutions and transposes, planned for a tile machine.

Two words are used throughout:

* A plan divides a product into blocks, one per tile. `plan_mat_mul` compares only plans that fit
  into memory with the fewest possible steps, and chooses the fastest of them.
* If the inner dimension of a product is divided into blocks, each tile computes *partial sums* for
  its block, and the tiles add them at the end. `partials_type` is the dtype of the sums.
"""

import typing as _typing

from ipu_teach.poplibs.checks import add_codelets as add_codelets
from ipu_teach.poplibs.face import offered as _offered
from ipu_teach.poplibs.poplin.conv import *
from ipu_teach.poplibs.poplin.conv_params import *
from ipu_teach.poplibs.poplin.matmul import *
from ipu_teach.poplibs.poplin.operands import *
from ipu_teach.poplibs.poplin.plan import *
from ipu_teach.poplibs.poplin.transposes import *

if not _typing.TYPE_CHECKING:  # mypy cannot evaluate this `__all__`, and would see no public names
    __all__ = _offered(globals())
