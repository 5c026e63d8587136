"""popnn: non-linearities, softmax, losses with their gradients, and counting correct answers.

The modules `pooling`, `bn` (batch norm), `gn` (group norm), `ln` (layer norm) and `in_` (instance
norm) have functions of their own. Functions that work on the rows of a batch [batch, classes] give
each worker thread some complete rows. If there are only a few long rows, each row is divided among
several workers, provided that the model then counts fewer cycles.
"""

import typing as _typing

from ipu_teach.poplibs.checks import add_codelets as add_codelets
from ipu_teach.poplibs.face import offered as _offered
from ipu_teach.poplibs.popnn import (
    bn as bn,
    ctc_loss as ctc_loss,
    gn as gn,
    gru as gru,
    in_ as in_,
    ln as ln,
    lstm as lstm,
    pooling as pooling,
)
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

if not _typing.TYPE_CHECKING:  # mypy cannot evaluate this `__all__`, and would see no public names
    __all__ = _offered(globals(), "bn", "ctc_loss", "gn", "gru", "in_", "ln", "lstm", "pooling")
