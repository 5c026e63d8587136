"""The optimisers that `Model.compile` accepts."""

from ipu_teach.frontends.keras.optimizers import *  # noqa: F403
