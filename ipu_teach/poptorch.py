"""PyTorch modules on the modelled IPU: see `ipu_teach.frontends.poptorch`.

It needs the extra `torch`.
"""

from ipu_teach.frontends.poptorch import *  # noqa: F403
from ipu_teach.frontends.poptorch import __all__ as __all__
