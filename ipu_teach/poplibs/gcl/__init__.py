"""gcl: collectives, in which IPUs or replicas make one of what each of them has.

Every function appends to the Sequence `prog` and runs nothing; each is a program of copies and
popops alone. `ring` has the rounds, `ranks` what is done with them, `groups` who talks to whom.
"""

import typing as _typing

from ipu_teach.poplibs.face import offered as _offered
from ipu_teach.poplibs.gcl.collectives import *
from ipu_teach.poplibs.gcl.groups import *
from ipu_teach.poplibs.gcl.io_tiles import *

if not _typing.TYPE_CHECKING:  # a list that is worked out would hide every name from mypy
    __all__ = _offered(globals())
