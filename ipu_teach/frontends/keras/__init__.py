"""Keras' names: models that run on the simulated device, without Keras or TensorFlow.

from ipu_teach import keras
from ipu_teach.keras import ipu

config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()
with ipu.ipu_strategy.IPUStrategy().scope():
    model = keras.Sequential([...])
"""

from __future__ import annotations
