"""The public package with Keras' names: models, layers, losses, optimisers, callbacks and data."""

from __future__ import annotations

import sys
from types import SimpleNamespace

from ipu_teach.frontends.keras import ops
from ipu_teach.frontends.keras.batches import PyDataset
from ipu_teach.frontends.keras.data import to_categorical
from ipu_teach.frontends.keras.layers import Input
from ipu_teach.frontends.keras.layers.base import set_global_policy
from ipu_teach.frontends.keras.layers.initializers import set_random_seed
from ipu_teach.frontends.keras.model import Model, Sequential
from ipu_teach.frontends.keras.saving import load_model
from ipu_teach.keras import callbacks, data, ipu, layers, losses, metrics, optimizers

# Programs for TensorFlow write `tf.keras`. After `from ipu_teach import keras as tf`, `tf.keras` is
# this module.
keras = sys.modules[__name__]
mixed_precision = SimpleNamespace(
    set_global_policy=set_global_policy, LossScaleOptimizer=optimizers.LossScaleOptimizer
)
models = SimpleNamespace(Model=Model, Sequential=Sequential, load_model=load_model)
saving = SimpleNamespace(load_model=load_model)
utils = SimpleNamespace(
    PyDataset=PyDataset,
    Sequence=PyDataset,
    set_random_seed=set_random_seed,
    to_categorical=to_categorical,
)

__all__ = ["Input", "Model", "Sequential", "callbacks", "data", "ipu", "keras", "layers"]
__all__ += [
    "losses",
    "metrics",
    "mixed_precision",
    "models",
    "ops",
    "optimizers",
    "saving",
    "utils",
]
