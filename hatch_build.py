"""Add to a wheel the files next to the packages, and to the metadata README and the links.

The files are notebooks, pages, digits and captured graphs. `ipu_teach/_support/places.py` looks for
them in the folder `carried` of each package.
"""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

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


class LinksHook(MetadataHookInterface):
    """Add README and the project's links, for the public address of the repository."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add `readme`, with absolute links, and `urls` to the metadata of the project."""
        links = runpy.run_path(str(Path(self.root, "docs", "make_links.py")))
        public = links["address"]()
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        text = links["absolute"](public, metadata["version"], text)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        metadata["urls"] = links["project_urls"](public)
