"""Front ends: models written for a framework become calls of the libraries.

`ir` represents a model as data, with gradients, transforms and lowering. Each framework has a
module or package with its names, which contains no rules for operations.
"""

from __future__ import annotations
