"""What is asked after each epoch."""

from ipu_teach.frontends.keras.callbacks import *  # noqa: F403
