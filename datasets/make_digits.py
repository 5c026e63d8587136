"""Make digits8.npz, the digits that the kit carries, from scikit-learn's copy of them.

    python datasets/make_digits.py [output]      # output: digits8.npz beside this file if not given

scikit-learn is needed to make the file, never to use it. The arrays do not depend on the machine or
on any version of numpy, and the file's order, time stamps and attributes are fixed, so a second run
writes the same bytes. Another build of zlib may compress the same arrays to other bytes; the
printed checksum of the arrays then still agrees.
"""

from __future__ import annotations

import hashlib
import io
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

TRAIN = 1_500
SEED = 0


def split(
    labels: np.ndarray[Any, Any], train: int
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Two sorted index arrays (uint16): `train` of the samples and the rest, each class in
    proportion.

    Each class gives the whole part of its share; what is still missing comes from the classes with
    the largest remainders, the lower digit first where two are equal.
    """
    counts = np.bincount(labels, minlength=10)
    shares = counts * train // labels.size
    remainders = counts * train % labels.size
    order = sorted(range(10), key=lambda digit: (-remainders[digit], digit))
    for digit in order[: train - int(shares.sum())]:
        shares[digit] += 1
    # numpy promises that the stream of RandomState never changes; default_rng makes no such
    # promise.
    random = np.random.RandomState(SEED)
    chosen = [
        random.permutation(np.flatnonzero(labels == digit))[: shares[digit]] for digit in range(10)
    ]
    train_index = np.sort(np.concatenate(chosen)).astype("<u2")
    test_index = np.setdiff1d(np.arange(labels.size), train_index).astype("<u2")
    return train_index, test_index


def make() -> dict[str, np.ndarray[Any, Any]]:
    """The four arrays: images (1797, 8, 8) uint8 0..16, labels (1797,) uint8, train_index and
    test_index uint16."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = bunch.images.astype(np.uint8)
    labels = bunch.target.astype(np.uint8)
    if (
        images.shape != (1797, 8, 8)
        or images.max() != 16
        or not np.array_equal(images, bunch.images)
    ):
        raise SystemExit(
            "scikit-learn's digits are not the 1,797 pictures of 8x8 integers 0..16 that were "
            "expected."
        )
    train_index, test_index = split(labels, TRAIN)
    return {
        "images": images,
        "labels": labels,
        "train_index": train_index,
        "test_index": test_index,
    }


def pack(arrays: dict[str, np.ndarray[Any, Any]]) -> bytes:
    """The bytes of an .npz file with every time stamp and attribute fixed."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, array in arrays.items():
            body = io.BytesIO()
            np.lib.format.write_array(
                body, np.ascontiguousarray(array), version=(1, 0), allow_pickle=False
            )
            entry = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3  # otherwise Windows writes another number here
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, body.getvalue(), compresslevel=9)
    return packed.getvalue()


def arrays_sha256(arrays: dict[str, np.ndarray[Any, Any]]) -> str:
    """One checksum of the arrays' contents, which no compressor can change (all are uint8 or
    little-endian uint16)."""
    digest = hashlib.sha256()
    for array in arrays.values():
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def main() -> None:
    output = (
        Path(sys.argv[1])
        if len(sys.argv) > 1
        else Path(__file__).resolve().with_name("digits8.npz")
    )
    arrays = make()
    content = pack(arrays)
    output.write_bytes(content)
    print(f"{output.name}: {len(content):,} bytes")
    print(f"sha256 of the file:   {hashlib.sha256(content).hexdigest()}")
    print(f"sha256 of the arrays: {arrays_sha256(arrays)}")


if __name__ == "__main__":
    main()
