"""The IPUs that a Keras model runs on, and the pipeline stages of its layers."""

from ipu_teach.frontends.keras.ipu import (
    config as config,
    ipu_strategy as ipu_strategy,
    keras as keras,
)
