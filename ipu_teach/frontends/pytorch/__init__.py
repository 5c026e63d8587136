"""PyTorch modules as graphs of `frontends.ir`: capture, operations, optimisers and data loading.

A capture runs a module on tensors without elements and records the operations that torch
executes. It runs the module once, or up to three times if `forward` changes attributes or draws
random numbers of Python or numpy. A lowering function then translates each operation of torch into
operations of `frontends.ir`.

Importing this package imports torch. The import raises `NotHereImportError` if torch is not
installed or is too old.
"""

from __future__ import annotations

from ipu_teach.errors import NotHereImportError

OLDEST = (2, 13)  # Keep equal to pyproject.toml, environment.yml and docs/frameworks.md.

try:
    import torch
except ImportError as error:
    raise NotHereImportError(
        "ipu_teach.poptorch needs torch, which is not installed: its CPU build is a download of "
        "192 MB, and takes 754 MB on disk.",
        next_step="python -m pip install torch --index-url https://download.pytorch.org/whl/cpu",
    ) from error


def check_version(version: str) -> None:
    """Raise `NotHereImportError` if `version`, the version of torch, is older than `OLDEST`."""
    numbers = tuple(int(part) for part in version.split(".")[:2])
    if numbers < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise NotHereImportError(
            f"ipu_teach.poptorch needs torch {oldest} or newer, but torch {version} is installed.",
            next_step=f'python -m pip install "torch>={oldest}" --index-url '
            "https://download.pytorch.org/whl/cpu",
        )


check_version(torch.__version__)
