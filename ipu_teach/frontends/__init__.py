"""Front ends: how a model that was written for a framework becomes calls of the libraries.

`ir` is the model as data, with its gradients and transforms, and its lowering. The faces, which
have the names of a framework and no rule of any operation, stand beside it.
"""

from __future__ import annotations
