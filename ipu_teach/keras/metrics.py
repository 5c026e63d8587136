"""The metrics that `Model.compile` accepts."""

from ipu_teach.frontends.keras.metrics import *  # noqa: F403
