"""PopLibs: functions that add variables, vertices and programs to a graph. Calling one runs
nothing.

Beside `tiny`, in which each vertex is written by hand: what one writes once and for all. Layouts
for operands, plans that weigh cycles against memory, codelets priced as their counterparts in
PopLibs are; arithmetic on any shape, reductions, slices, sorting, products of matrices, pooling,
norms, losses, optimisers, random numbers; collectives over several IPUs. A library builds graphs
and never runs one.

Every function has the form `fn(graph, inputs…, prog, debug_context="")`: it appends what it needs
to the Sequence `prog`, makes and maps its own temporaries, and returns the output tensor. Wrong
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

_own = gcl, optim, poplin, popnn, popops, poprand, popsparse, poputil, unit_scaling
_parts = popnn.bn, popnn.gn, popnn.in_, popnn.ln, popnn.pooling, popsparse.dynamic, popsparse.static
for _library in (*_own, *_parts, _modules[__name__]):
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
