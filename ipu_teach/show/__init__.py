"""Pictures for a notebook. Each says in words what it shows, for readers who do not see it."""

from ipu_teach.show.plot import Picture, images, picture

__all__ = ["Picture", "images", "picture"]
