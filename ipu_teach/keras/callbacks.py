"""Callbacks, called before and after a training and each of its epochs."""

from ipu_teach.frontends.keras.callbacks import *  # noqa: F403
