"""The machine, and which part of a model is on which IPU."""

from ipu_teach.frontends.keras.ipu import (
    config as config,
    ipu_strategy as ipu_strategy,
    keras as keras,
)
