"""The machine that a model runs on, and the stages of its layers."""

from ipu_teach.frontends.keras.ipu import (
    config as config,
    ipu_strategy as ipu_strategy,
    keras as keras,
)
