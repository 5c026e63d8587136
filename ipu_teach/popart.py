"""The public module with PopART's names: see `ipu_teach.frontends.popart`."""

from ipu_teach.frontends.popart import *  # noqa: F403
