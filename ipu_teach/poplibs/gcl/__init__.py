"""gcl: collectives, which combine or exchange the values of several IPUs or replicas.

Every function appends its program to the Sequence `prog`; the programs consist of copies and
functions of popops. The module `ring` contains the rounds of the ring algorithms, `ranks` the
collectives built from them, and `groups` the sets of replicas that take part.
"""

import typing as _typing

from ipu_teach.poplibs.face import offered as _offered
from ipu_teach.poplibs.gcl.collectives import *
from ipu_teach.poplibs.gcl.groups import *
from ipu_teach.poplibs.gcl.io_tiles import *

if not _typing.TYPE_CHECKING:  # mypy would not see any name in a list that is computed
    __all__ = _offered(globals())
