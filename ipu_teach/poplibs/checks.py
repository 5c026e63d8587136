"""The function `add_codelets`, which several library packages contain."""

from __future__ import annotations

from ipu_teach.graph import Graph
from ipu_teach.poplibs.library import library


@library
def add_codelets(graph: Graph) -> None:
    """Do nothing; the function exists for programs ported from C++, which must add codelets.

    Here, every library call adds its own codelets.
    """
