"""Losses."""

from ipu_teach.frontends.keras.losses import *  # noqa: F403
