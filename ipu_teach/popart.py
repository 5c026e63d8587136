"""`ipu_teach.popart`: PopART's names, where its users look for them."""

from ipu_teach.frontends.popart import *  # noqa: F403
