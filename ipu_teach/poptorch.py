"""PyTorch's modules on the modelled IPU: see `ipu_teach.frontends.poptorch`. Needs the extra
`torch`."""

from ipu_teach.frontends.poptorch import *  # noqa: F403
from ipu_teach.frontends.poptorch import __all__ as __all__
