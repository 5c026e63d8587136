"""Add to a wheel the files next to the packages: notebooks, pages, digits and captured graphs.

`ipu_teach/_support/places.py` looks for them in the folder `carried` of each package.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

CARRIED = {
    "ipu_teach": ("datasets/digits8.npz", "datasets/*.model", "datasets/SOURCE.md"),
    "ipu_course": (
        "notebooks/*.ipynb",
        "notebooks/solutions/*.ipynb",
        "docs/*.md",
        "docs/*.html",
        "validation/*.py",
        "validation/*.csv",
    ),
}


class CourseHook(BuildHookInterface):
    """Add these files to a wheel. An editable installation finds them in the checkout."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the files before hatchling writes a wheel; `version` is "standard" or "editable"."""
        if version == "standard":
            root = Path(self.root)
            build_data["force_include"].update(
                {
                    str(path): f"{package}/carried/{path.relative_to(root).as_posix()}"
                    for package, patterns in CARRIED.items()
                    for pattern in patterns
                    for path in root.glob(pattern)
                }
            )
