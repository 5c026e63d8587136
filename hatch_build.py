"""What a wheel carries from beside the package: notebooks, pages, digits and captured graphs, where
`ipu_teach/places.py` looks for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PATTERNS = (
    "notebooks/*.ipynb",
    "notebooks/solutions/*.ipynb",
    "docs/*.md",
    "docs/*.html",
    "datasets/digits8.npz",
    "datasets/*.model",
    "datasets/SOURCE.md",
)


class CourseHook(BuildHookInterface):
    """Adds them to a wheel. An editable installation finds them in the checkout."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before it writes a wheel; `version` is "standard" or "editable"."""
        if version == "standard":
            root = Path(self.root)
            found = {
                path: path.relative_to(root).as_posix()
                for pattern in PATTERNS
                for path in root.glob(pattern)
            }
            build_data["force_include"].update(
                {str(path): f"ipu_teach/course/{name}" for path, name in found.items()}
            )
