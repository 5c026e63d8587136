"""Keras' words for the kit's graph: models that run on the simulated device. It needs neither Keras
nor TensorFlow.

    from ipu_teach import keras
    from ipu_teach.keras import ipu

    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    with ipu.ipu_strategy.IPUStrategy().scope():
        model = keras.Sequential([...])
"""

from __future__ import annotations

from types import SimpleNamespace

from ipu_teach.frontends.keras import callbacks, data, ipu, layers, training
from ipu_teach.frontends.keras.layers import Input, set_random_seed
from ipu_teach.frontends.keras.model import Model, Sequential

losses = optimizers = training
utils = SimpleNamespace(to_categorical=data.to_categorical, set_random_seed=set_random_seed)

__all__ = [
    "Input",
    "Model",
    "Sequential",
    "callbacks",
    "data",
    "ipu",
    "layers",
    "losses",
    "optimizers",
    "utils",
]
