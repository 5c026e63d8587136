"""Front ends, which translate models written for a framework to calls of PopLibs functions.

The package `ir` represents a model as a graph of operations. It computes gradients, transforms the
graph and compiles it for the device. Each framework has its own module or package, such as
`poptorch`. It provides the framework's names and builds an `ir` graph from a model that uses them.
"""

from __future__ import annotations
