"""popsparse: products of sparse and dense matrices, and sparse matrices on the host.

In `static`, the pattern (the positions of the stored blocks) is compiled into the program, and only
the values may change. In `dynamic`, one program works for all patterns with up to a fixed number of
blocks, as needed for training that prunes and regrows weights.

The following parts of PopLibs' popsparse are missing, because no lesson or figure needs them: dense
times sparse (transpose both), CSC, sparse embeddings, groups, the partitioning by zoltan, and the
experimental block-sparse products (dsd, dds, sdd).
"""

import typing as _typing

from ipu_teach.poplibs.face import offered as _offered
from ipu_teach.poplibs.popsparse import dynamic as dynamic, static as static
from ipu_teach.poplibs.popsparse.matrices import *

if not _typing.TYPE_CHECKING:  # mypy cannot evaluate this `__all__`, and would see no public names.
    __all__ = _offered(globals(), "dynamic", "static")
