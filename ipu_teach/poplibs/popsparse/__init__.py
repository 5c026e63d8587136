"""popsparse: products of sparse and dense matrices, and sparse matrices on the host.

In `static`, the pattern is compiled into the program, and the values may change. In `dynamic`, one
program works for any pattern up to a budget, for training that prunes and regrows weights.

The following parts of PopLibs' popsparse are missing, because no lesson or figure needs them: dense
times sparse (transpose both), CSC, sparse embeddings, groups, the partitioning by zoltan, and the
experimental block-sparse products (dsd, dds, sdd).
"""

import typing as _typing

from ipu_teach.poplibs.face import offered as _offered
from ipu_teach.poplibs.popsparse import dynamic as dynamic, static as static
from ipu_teach.poplibs.popsparse.matrices import *

if not _typing.TYPE_CHECKING:  # mypy would not see any name in a list that is computed
    __all__ = _offered(globals(), "dynamic", "static")
