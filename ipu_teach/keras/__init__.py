"""The public package with Keras' names: models, layers, losses, optimisers, callbacks and data."""

from __future__ import annotations

import sys
from types import SimpleNamespace

from ipu_teach.frontends.keras.data import to_categorical
from ipu_teach.frontends.keras.layers import Input, set_global_policy, set_random_seed
from ipu_teach.frontends.keras.model import Model, Sequential
from ipu_teach.keras import callbacks, data, ipu, layers, losses, optimizers

# Programs for TensorFlow write `tf.keras`. After `from ipu_teach import keras as tf`, it is this
# module.
keras = sys.modules[__name__]
mixed_precision = SimpleNamespace(
    set_global_policy=set_global_policy, LossScaleOptimizer=optimizers.LossScaleOptimizer
)
utils = SimpleNamespace(to_categorical=to_categorical, set_random_seed=set_random_seed)

__all__ = ["Input", "Model", "Sequential", "callbacks", "data", "ipu", "keras", "layers"]
__all__ += ["losses", "mixed_precision", "optimizers", "utils"]
