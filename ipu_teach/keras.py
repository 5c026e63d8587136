"""`ipu_teach.keras`: Keras' words, where its users look for them."""

from __future__ import annotations

import sys

from ipu_teach.frontends import keras as _face
from ipu_teach.frontends.keras import (
    Input,
    Model,
    Sequential,
    callbacks,
    data,
    ipu,
    layers,
    losses,
    optimizers,
    utils,
)

keras = sys.modules[__name__]  # for programs that say tf.keras, where tf was imported
for _name in ("callbacks", "data", "ipu", "layers", "losses", "optimizers"):
    sys.modules[f"{__name__}.{_name}"] = getattr(_face, _name)

__all__ = [
    "Input",
    "Model",
    "Sequential",
    "callbacks",
    "data",
    "ipu",
    "keras",
    "layers",
    "losses",
    "optimizers",
    "utils",
]
