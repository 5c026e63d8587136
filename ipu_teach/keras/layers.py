"""Layers."""

from ipu_teach.frontends.keras.layers import *  # noqa: F403
