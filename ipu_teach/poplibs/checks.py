"""The call that several libraries share, which loads nothing."""

from __future__ import annotations

from ipu_teach.graph import Graph
from ipu_teach.poplibs.library import library


@library
def add_codelets(graph: Graph) -> None:
    """Do nothing: every call finds its own codelets.

    It is here for programs ported from C++, where a library's codelets have to be loaded first.
    """
