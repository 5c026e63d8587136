"""PopLibs: functions that add variables, vertices and programs to a graph. Calling one runs nothing.

Every function has the form `fn(graph, inputs…, prog, debug_context="")`: it appends what it needs to the Sequence `prog`,
makes and maps its own temporaries, and returns the output tensor. Wrong arguments raise `PoplibsError`.
"""

from ipu_teach.poplibs import poplin, popnn, popops, poprand, poputil, unit_scaling
from ipu_teach.poplibs.face import answer as _answer

for _library in (poplin, popnn, popops, poprand, poputil, unit_scaling):
    _answer(_library)

__all__ = ["poplin", "popnn", "popops", "poprand", "poputil", "unit_scaling"]
