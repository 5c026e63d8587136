"""Front ends, which turn models written for a framework into calls of PopLibs functions.

The package `ir` represents a model as a graph of operations. It computes gradients, transforms the
graph and compiles it for the device. Each framework has a module or package of its own, such as
`poptorch`, which provides the framework's names and builds an `ir` graph from them.
"""

from __future__ import annotations
