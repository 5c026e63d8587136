"""PopLibs: functions that add variables, vertices and programs to a graph. No call runs anything.

Compared with `tiny`, where each vertex is written by hand, these libraries have layouts for
operands, plans that weigh cycles against memory, and codelets priced as their counterparts in
PopLibs. They offer arithmetic on any shape, reductions, slices, sorting, matrix products, pooling,
norms, losses, optimisers, random numbers, and collectives over several IPUs. No library runs a
graph.

Every function has the form `fn(graph, inputs…, prog, debug_context="")`: it appends what it needs
to the Sequence `prog`, creates and maps its own temporaries, and returns the output tensor. Wrong
arguments raise `PoplibsError`.
"""

from sys import modules as _modules

from ipu_teach.poplibs import (
    gcl,
    optim,
    poplin,
    popnn,
    popops,
    poprand,
    popsparse,
    poputil,
    unit_scaling,
)
from ipu_teach.poplibs.face import answer as _answer

_libraries = gcl, optim, poplin, popnn, popops, poprand, popsparse, poputil, unit_scaling
_parts = popnn.bn, popnn.gn, popnn.in_, popnn.ln, popnn.pooling, popsparse.dynamic, popsparse.static
for _library in (*_libraries, *_parts, _modules[__name__]):
    _answer(_library)

__all__ = [
    "gcl",
    "optim",
    "poplin",
    "popnn",
    "popops",
    "poprand",
    "popsparse",
    "poputil",
    "unit_scaling",
]
