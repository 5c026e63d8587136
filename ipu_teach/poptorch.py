"""The public module with PopTorch's names: see `ipu_teach.frontends.poptorch`.

The module needs the extra `torch`.
"""

from typing import TYPE_CHECKING, NoReturn

from ipu_teach.frontends.poptorch import *  # noqa: F403
from ipu_teach.frontends.poptorch import NOT_HERE, __all__ as __all__, missing_with_page

if not TYPE_CHECKING:

    def __getattr__(name: str) -> NoReturn:
        raise missing_with_page("poptorch", name, NOT_HERE, __all__)
