"""The function `add_codelets`, which several libraries share."""

from __future__ import annotations

from ipu_teach.graph import Graph
from ipu_teach.poplibs.library import library


@library
def add_codelets(graph: Graph) -> None:
    """Do nothing; it exists for programs ported from C++, where a library's codelets must be added.

    Here, every library call adds its own codelets.
    """
