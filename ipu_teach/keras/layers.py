"""The layers that a Keras model may contain."""

from ipu_teach.frontends.keras.layers import *  # noqa: F403
