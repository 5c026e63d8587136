"""Optimisers."""

from ipu_teach.frontends.keras.optimizers import *  # noqa: F403
