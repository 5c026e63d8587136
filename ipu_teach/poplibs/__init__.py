"""PopLibs: libraries of functions that add variables, vertices and programs to a graph.

Compared with `tiny`, where you write every vertex by hand, the libraries choose the tile mappings
of operands, and plans that weigh cycles against memory. Their codelets have the modelled costs of
their counterparts in PopLibs.

They cover:

* arithmetic on any shape, reductions, slices and sorting;
* dense and sparse matrix products, convolutions, pooling, norms, losses and optimisers;
* random numbers, and collectives over several IPUs.

A function that computes has the form `fn(graph, inputs…, prog, debug_context="…")`. It appends
programs to the Sequence `prog`, and creates and maps its own temporaries. It returns the output
tensor, or None if it writes to an operand. The functions only build the graph, and an `Engine` runs
it. Most wrong arguments raise `PoplibsError`. Numbers that are out of range of their dtype raise
`TensorCreationError`, and tensors without a tile mapping raise `InvalidTileMappingError`.
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
