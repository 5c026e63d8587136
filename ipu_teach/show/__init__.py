"""Pictures for a notebook. Each says in words what it shows, for readers who do not see it.

`bsp(report)` is a run as an animation of its supersteps, `tiles(tensor)` says where each element lives, `explore(build, …)`
puts sliders to either. `picture` and `images` are ordinary plots.
"""

from ipu_teach.show.bsp import bsp
from ipu_teach.show.explore import Explore, explore
from ipu_teach.show.plot import Picture, images, picture
from ipu_teach.show.tiles import tiles
from ipu_teach.show.view import View

__all__ = ["Explore", "Picture", "View", "bsp", "explore", "images", "picture", "tiles"]
