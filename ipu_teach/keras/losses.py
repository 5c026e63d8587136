"""The loss functions that `Model.compile` accepts."""

from ipu_teach.frontends.keras.losses import *  # noqa: F403
