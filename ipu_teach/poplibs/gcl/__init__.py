"""gcl: collectives, which combine or exchange the values of several IPUs or replicas.

Every function appends its program to the Sequence `prog`; the programs consist of copies and
functions of popops. The module `ring` contains the algorithms that move data around a ring, `ranks`
the collectives built from them, and `groups` the division of replicas into groups.
"""

import typing as _typing

from ipu_teach.poplibs.face import offered as _offered
from ipu_teach.poplibs.gcl.collectives import *
from ipu_teach.poplibs.gcl.groups import *
from ipu_teach.poplibs.gcl.io_tiles import *

if not _typing.TYPE_CHECKING:  # mypy cannot evaluate this `__all__`, and would see no public names
    __all__ = _offered(globals())
