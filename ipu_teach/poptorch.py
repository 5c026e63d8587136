"""The public module with PopTorch's names: see `ipu_teach.frontends.poptorch`.

The module needs the extra `torch`.
"""

from ipu_teach.frontends.poptorch import *  # noqa: F403
from ipu_teach.frontends.poptorch import __all__ as __all__
