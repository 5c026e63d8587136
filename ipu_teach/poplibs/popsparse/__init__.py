"""Sparse matrices times dense ones: containers on the host, and two products.

`static`: the pattern is compiled in, the values may change. `dynamic`: one program for any pattern
up to a budget, for training that prunes and regrows.

The following parts of PopLibs' popsparse are missing, because no lesson or figure needs them: dense
times sparse (transpose both), CSC, sparse embeddings, groups, the partitioning by zoltan, and the
experimental block-sparse products (dsd, dds, sdd).
"""

import typing as _typing

from ipu_teach.poplibs.face import offered as _offered
from ipu_teach.poplibs.popsparse import dynamic as dynamic, static as static
from ipu_teach.poplibs.popsparse.matrices import *

if not _typing.TYPE_CHECKING:  # a list that is worked out would hide every name from mypy
    __all__ = _offered(globals(), "dynamic", "static")
