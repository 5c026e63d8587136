"""Let `ipu_teach.datasets` read other files than those that come with the kit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from ipu_teach import datasets


def use_digits(patch: pytest.MonkeyPatch, file: Path) -> None:
    """Let `datasets.digits()` read `file`."""
    patch.setattr(datasets, "_DIGITS_FILE", file)


def use_small_mnist(
    patch: pytest.MonkeyPatch, *, train: int = 60, test: int = 20, half_split: int = 16
) -> None:
    """Let MNIST have `train` images to train on and `test` images to test on.

    Of a test half alone, the first `half_split` images are to train on.
    """
    patch.setattr(datasets, "_COUNTS", {"train": train, "t10k": test})
    patch.setattr(datasets, "_HALF_SPLIT", half_split)


def use_md5s(patch: pytest.MonkeyPatch, md5s: Mapping[str, str]) -> None:
    """Let `datasets.mnist()` expect these md5 sums, by name of a file without `.gz`."""
    patch.setattr(datasets, "_MD5", dict(md5s))
