"""Callbacks: objects whose methods a model calls before and after training and each epoch."""

from ipu_teach.frontends.keras.callbacks import *  # noqa: F403
