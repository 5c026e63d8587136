"""Front ends: models written for a framework become calls of the libraries.

`ir` represents a model as data, with gradients, transforms and lowering. Beside it, one module for
each framework provides the framework's names, without rules for operations.
"""

from __future__ import annotations
