"""Functions for neural networks: non-linearities, softmax, losses with their gradients, counting
correct answers. In modules of their own: `pooling`, and the norms `bn` (batch), `gn` (group), `ln`
(layer) and `in_` (instance)."""

import typing as _typing

from ipu_teach.poplibs.checks import add_codelets as add_codelets
from ipu_teach.poplibs.face import offered as _offered
from ipu_teach.poplibs.popnn import bn as bn, gn as gn, in_ as in_, ln as ln, pooling as pooling
from ipu_teach.poplibs.popnn.kinds import *
from ipu_teach.poplibs.popnn.loss import *
from ipu_teach.poplibs.popnn.nonlinearity import *
from ipu_teach.poplibs.popnn.softmax import *
from ipu_teach.poplibs.popops.sorting import (
    arg_max as arg_max,
    arg_min as arg_min,
    max_and_arg_max as max_and_arg_max,
    min_and_arg_min as min_and_arg_min,
)

if not _typing.TYPE_CHECKING:  # a list that is worked out would hide every name from mypy
    __all__ = _offered(globals(), "bn", "gn", "in_", "ln", "pooling")
