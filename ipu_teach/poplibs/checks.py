"""What several libraries share: the call that loads nothing."""

from __future__ import annotations

from ipu_teach.graph import Graph
from ipu_teach.poplibs.library import library


@library
def add_codelets(graph: Graph) -> None:
    """For programs that come from C++, where the library's codelets are loaded first: here each
    call finds its own."""
