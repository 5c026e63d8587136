"""Images of handwritten digits for training: a small set that is part of the kit, and MNIST.

`digits()` needs only the kit. `mnist()` reads the four files of MNIST (LeCun, Cortes and Burges,
1998) from `$IPU_TEACH_DATA/mnist` or from the user's cache folder. If neither folder has these
files, `mnist()` downloads them into the cache folder. Both functions return a `Dataset` of 28x28
images, so a program can use either without a change.

Design choices:

* The first folder that has MNIST is used, and `IPU_TEACH_DATA` comes first. A folder that has only
  the test set of MNIST is also used: the first 8,000 images become the training set, and the last
  2,000 the test set.
* For files on disk, the format and the size are checked, but not the md5, because users may have
  unpacked or repacked them. For a download, the md5 is checked before the file gets its final name.
* Without a connection to the network, `mnist()` prints a line and returns the digits of the kit.
  But if a server answers with an error or with wrong bytes, or stops answering, `mnist()` raises an
  error, because the user can fix that.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import math
import os
import struct
import sys
import time
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ipu_teach._support.flags import flagged
from ipu_teach._support.places import bundled
from ipu_teach.errors import DatasetError, shown

if TYPE_CHECKING:
    from collections.abc import Mapping
    from http.client import HTTPResponse

__all__ = ["Dataset", "digits", "load", "mnist", "read_idx"]

DEFAULT_URL = "https://ossci-datasets.s3.amazonaws.com/mnist/"
"""The address from which `mnist()` downloads, unless `IPU_TEACH_MNIST_URL` is set.

The server is the mirror that torchvision uses.
"""

TIMEOUT = 20.0
"""The number of seconds without data after which a download counts as stalled."""

# The md5 of each packed file, from torchvision's list. The training set is downloaded first. If the
# test set came first, an interrupted download could leave a folder with only the test set, and the
# next call would split that set into two.
_MD5 = {
    "train-images-idx3-ubyte": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "train-labels-idx1-ubyte": "d53e105ee54ea40749a09fcbcd1e9432",
    "t10k-images-idx3-ubyte": "9fb629c4189551a2d022fa330f9573f3",
    "t10k-labels-idx1-ubyte": "ec29112dd5afa0611ce80d1b7f02629c",
}
_npy: Any = np.lib.format  # Only some versions of numpy have types for this module.
# The numbers of images in the training set and in the test set.
_COUNTS = {"train": 60_000, "t10k": 10_000}
# The number of training images that are taken from the test set if a folder has only that set.
_HALF_SPLIT = 8_000

_DIGITS_FILE = bundled("datasets") / "digits8.npz"
# The dtype, the shape and the largest allowed value of each array in the file of digits.
_DIGITS = {"images": ("u1", (1797, 8, 8), 16), "labels": ("u1", (1797,), 9)}
_DIGITS |= {"train_index": ("<u2", (1500,), 1796), "test_index": ("<u2", (297,), 1796)}
_RESTORE = "Restore the file with `git checkout datasets/digits8.npz`, or install the kit again."

_ATTEMPTS = 3  # The number of requests for a file before the download fails.
_CHUNK = 1 << 16  # The number of bytes that are read from the server at once.
# The number of bytes after which a download is ended. The largest of the four files has 9.9 MB.
_LARGEST_DOWNLOAD = 1 << 26
_LARGEST_ARRAY = 1 << 30  # The maximum number of bytes of values in an IDX file.
_IDX_TYPES = {0x09: "int8", 0x0B: "int16", 0x0C: "int32", 0x0D: "float32", 0x0E: "float64"}

_REPLACE = (
    "Replace it with a new copy. If it is in the cache folder, delete it; datasets.mnist() then "
    "downloads it again."
)


@dataclass(frozen=True, repr=False, eq=False)
class Dataset:
    """Images of handwritten digits with their labels, in a training set and a test set.

    name:          "digits", "mnist", or "mnist-t10k" (made from the test set of MNIST alone)
    train_images:  uint8, shape (n, 28, 28), 0 is background and 255 is ink
    train_labels:  uint8, shape (n,), 0 to 9
    test_images:   uint8, shape (m, 28, 28)
    test_labels:   uint8, shape (m,)

    Each call of `digits` or `mnist` returns new arrays, so the caller may change them.
    """

    name: str
    train_images: NDArray[np.uint8]
    train_labels: NDArray[np.uint8]
    test_images: NDArray[np.uint8]
    test_labels: NDArray[np.uint8]

    def __repr__(self) -> str:
        height, width = self.train_images.shape[1:]
        return (
            f"Dataset({self.name!r}: {len(self.train_images):,} images to train on and "
            f"{len(self.test_images):,} to test on, {height}x{width} {self.train_images.dtype})"
        )


def load(name: str) -> Dataset:
    """Return the dataset `name`: "digits" (see `digits`) or "mnist" (see `mnist`).

    Raises DatasetError for any other name.
    """
    if name == "digits":
        return digits()
    if name == "mnist":
        return mnist()
    raise DatasetError(f"""There is no dataset called {name!r}.
        where: datasets.load
        next:  Ask for 'digits', which comes with the kit, or for 'mnist', which is downloaded
        once.""")


# --- the digits -----------------------------------------------------------------------------------


def digits() -> Dataset:
    """Return the 1,797 digits of the kit, 1,500 to train on and 297 to test on, as 28x28 images.

    Source: the test set of "Optical Recognition of Handwritten Digits", Alpaydin and Kaynak, UCI,
    1998. A pixel of the 8x8 originals is the number of ink pixels in a block of 4x4, 0 to 16. The
    kit's file also stores which images are in which set. Both sets have nearly the same proportion
    of each class (see datasets/SOURCE.md).

    The images are scaled from 8x8 by bilinear interpolation, with the outer edges aligned. The
    interpolation uses only integers, so every machine computes the same bytes. Along each axis,
    pixel i of 28 is at position p / 14 of the original, where p = 4i - 5, clipped to 0 and 98. With
    q = p div 14 and r = p mod 14, the original pixels q and q + 1 are the neighbours, with the
    weights 14 - r and r. In two dimensions, a pixel has four neighbours. Their weights are products
    of the weights along the two axes, and add up to 196. Let S be the weighted sum of the four, at
    most 16 * 196 = 3136. Then the pixel is (255 * S + 1568) div 3136, which is 255 S / 3136 rounded
    half up.

    Raises DatasetError if the file is missing or damaged.
    """
    try:
        with zipfile.ZipFile(_DIGITS_FILE) as file:
            images, labels, train_rows, test_rows = (_member(file, name) for name in _DIGITS)
        if len(np.unique(np.concatenate([train_rows, test_rows]))) < len(images):
            raise ValueError("train_index and test_index contain an image number twice")
    except FileNotFoundError:
        raise DatasetError(f"""The digits that come with the kit are not where they should be:
            digits8.npz is missing.
            where: {_DIGITS_FILE}
            next:  {_RESTORE}""") from None
    # Damaged bytes can raise any error in zipfile and numpy.
    except Exception as error:
        raise DatasetError(f"""The digits that come with the kit cannot be read: digits8.npz is
            damaged ({_one_line(error)}).
            where: {_DIGITS_FILE}
            next:  {_RESTORE}""") from error
    scaled_images = _scale(images)
    return Dataset(
        "digits",
        scaled_images[train_rows],
        labels[train_rows],
        scaled_images[test_rows],
        labels[test_rows],
    )


def _member(file: zipfile.ZipFile, name: str) -> NDArray[Any]:
    """Return the array `name` of the digits, after a check against its entry in `_DIGITS`.

    The header is checked before the values are read, because it may be damaged. Raises `ValueError`
    if the array does not match its entry.
    """
    dtype_code, shape, maximum = _DIGITS[name]
    dtype = np.dtype(dtype_code)
    member = file.getinfo(f"{name}.npy")
    if member.file_size > 2 * dtype.itemsize * math.prod(shape):
        raise ValueError(f"{name} is {member.file_size:,} bytes long")
    stream = io.BytesIO(file.read(member))
    _npy.read_magic(stream)
    *stored_header, stored_dtype = _npy.read_array_header_1_0(stream)
    if (*stored_header, stored_dtype) != (shape, False, dtype):
        raise ValueError(
            f"{name} has shape {shown(stored_header[0])} and dtype {shown(stored_dtype.str)}, but "
            f"needs {shape} and {dtype.str!r}"
        )
    values = np.frombuffer(stream.read(), dtype).reshape(shape)
    if values.max() > maximum:
        raise ValueError(
            f"{name} has the value {values.max()}, but the largest allowed value is {maximum:,}"
        )
    return values


def _scale(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return 8x8 images (pixels from 0 to 16) as uint8[n, 28, 28] (pixels from 0 to 255)."""
    weights = np.zeros((28, 8), dtype=np.int32)
    for pixel in range(28):
        neighbour, remainder = divmod(min(max(4 * pixel - 5, 0), 98), 14)
        weights[pixel, neighbour] += 14 - remainder
        weights[pixel, min(neighbour + 1, 7)] += remainder
    sums: NDArray[np.int32] = weights @ images.astype(np.int32) @ weights.T
    return ((255 * sums + 1568) // 3136).astype(np.uint8)


# --- MNIST ----------------------------------------------------------------------------------------


@flagged
def mnist(download: bool = True, *, timeout: float = TIMEOUT) -> Dataset:
    """Return MNIST: 60,000 images to train on and 10,000 to test on.

    The four files may be packed (`train-images-idx3-ubyte.gz` and so on) or unpacked (without
    `.gz`). They are read from `$IPU_TEACH_DATA/mnist`, or else from the cache folder. The cache
    folder is `$XDG_CACHE_HOME/ipu_teach/mnist`. Without that variable it is
    `~/.cache/ipu_teach/mnist`, on macOS `~/Library/Caches/ipu_teach/mnist`, and on Windows
    `%LOCALAPPDATA%/ipu_teach/mnist`. If a folder has only the test set, `mnist` prints a line and
    splits the set: the first 8,000 images are for training and the last 2,000 for testing.

    If neither folder has the files, they are downloaded into the cache folder (about 11 MB), with a
    progress bar. They come from the address in `IPU_TEACH_MNIST_URL`, or else from `DEFAULT_URL`.
    An interrupted download continues where it stopped, if the server supports that. `timeout` is
    the maximum number of seconds without data from the server. Without a network connection,
    `mnist` prints a line and returns `digits()`. With `download=False` nothing is downloaded.

    Raises DatasetError

    - if a file is damaged or its contents do not match its name;
    - if the files are missing and `download` is False;
    - if the server answers with an error or with wrong bytes, or stops answering;
    - if the cache folder cannot be written.
    """
    folders = _folders()
    for folder in folders:
        files = _find(folder)
        if len(files) == len(_MD5):
            return _whole(files)
        if sorted(files) == ["t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"]:
            return _split_test_half(folder, files)
    searched = " or ".join(str(folder) for folder in folders)
    if not download:
        raise DatasetError(f"""The four files of MNIST are not on this machine, and download=False
            forbids the download.
            where: {searched}
            next:  Call datasets.mnist() to download them, copy them into one of these folders, or
            use datasets.digits(), which comes with the kit.""")
    cache = folders[-1]
    server = _base_url()
    try:
        for stem in _MD5:
            if stem not in _find(cache):
                _download(f"{server}{stem}.gz", cache / f"{stem}.gz", _MD5[stem], timeout)
    except _OfflineError as offline:
        print(
            f"MNIST is not in {searched} and cannot be downloaded from {server} ({offline}): "
            "using the 1,797 digits that come with the kit instead."
        )
        return digits()
    return _whole(_find(cache))


def _folders() -> list[Path]:
    """Return the folders that may contain MNIST. The last folder is the cache folder."""
    data_folder = os.environ.get("IPU_TEACH_DATA", "")
    return ([Path(data_folder).expanduser() / "mnist"] if data_folder else []) + [
        cache_folder() / "ipu_teach" / "mnist"
    ]


def cache_folder() -> Path:
    """Return the user's cache folder, for data that can be downloaded again."""
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG standard says that a relative path must be ignored.
    if xdg and Path(xdg).is_absolute():
        return Path(xdg)
    try:
        home = Path.home()
    except RuntimeError:  # The user of a container may have no home folder.
        import tempfile

        return Path(tempfile.gettempdir())
    platform: str = sys.platform
    if platform == "darwin":
        return home / "Library" / "Caches"
    if platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    return home / ".cache"


def _find(folder: Path) -> dict[str, Path]:
    """Return the paths of the MNIST files in `folder`, keyed by their names without `.gz`.

    A packed file takes precedence over an unpacked one, because it has a checksum.
    """
    path_by_stem = {}
    for stem in _MD5:
        for path in (folder / f"{stem}.gz", folder / stem):
            # Unlike Path.is_file, os.path.isfile raises no error for an unreadable folder.
            if os.path.isfile(path):
                path_by_stem[stem] = path
                break
    return path_by_stem


def _whole(files: Mapping[str, Path]) -> Dataset:
    return Dataset("mnist", *_read_half(files, "train"), *_read_half(files, "t10k"))


def _split_test_half(folder: Path, files: Mapping[str, Path]) -> Dataset:
    images, labels = _read_half(files, "t10k")
    print(
        f"MNIST: {folder} holds the test half only, so its first {_HALF_SPLIT:,} images are to "
        f"train on and its last {len(images) - _HALF_SPLIT:,} to test on."
    )
    split = _HALF_SPLIT
    # Slices are copied, so that neither set keeps the memory of the other alive.
    return Dataset(
        "mnist-t10k",
        images[:split].copy(),
        labels[:split].copy(),
        images[split:].copy(),
        labels[split:].copy(),
    )


def _read_half(
    files: Mapping[str, Path], prefix: str
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    image_file, label_file = (
        files[f"{prefix}-images-idx3-ubyte"],
        files[f"{prefix}-labels-idx1-ubyte"],
    )
    images, labels = read_idx(image_file), read_idx(label_file)
    if images.ndim != 3 or images.shape[1:] != (28, 28):
        raise _refused(
            image_file,
            f"holds an array of shape {images.shape}, but images of MNIST have shape (n, 28, 28).",
        )
    if labels.ndim != 1:
        raise _refused(
            label_file,
            f"holds an array of shape {labels.shape}, but labels of MNIST have shape (n,).",
        )
    if len(images) != len(labels):
        raise _refused(
            label_file,
            f"holds {len(labels):,} labels for the {len(images):,} images of {image_file.name}.",
        )
    if len(images) != _COUNTS[prefix]:
        raise _refused(
            image_file,
            f"holds {len(images):,} images, but this half of MNIST has {_COUNTS[prefix]:,}.",
        )
    if np.max(labels) > 9:
        first_wrong = int(np.argmax(labels > 9))
        raise _refused(
            label_file,
            f"holds labels that are not digits: label {first_wrong:,} is {labels[first_wrong]}.",
        )
    return images, labels


# --- IDX files ------------------------------------------------------------------------------------


def read_idx(path: str | os.PathLike[str]) -> NDArray[np.uint8]:
    """Return the array in an IDX file of unsigned bytes, packed with gzip or not.

    An IDX file is a header and the values. The header has two zero bytes, the code of the dtype
    (0x08: unsigned byte), the number of dimensions, and each dimension as a big-endian 32-bit
    integer. The first two bytes show whether the file is packed. Source: LeCun, Cortes and Burges,
    "The MNIST database", 1998.

    The result is a new uint8 array of the shape in the header. Memory is allocated only for data
    that really are in the file, even if the header claims more.

    Raises DatasetError, which names the file,

    - if it is missing, empty, cut short or damaged, or named .gz but not packed;
    - if it is longer than its header says, or if its header claims more than 1 GiB;
    - if it is not an IDX file, or of another dtype.
    """
    file = Path(path)
    try:
        with open(file, "rb") as packed_file:
            first_bytes = packed_file.read(2)
            packed_file.seek(0)
            if not first_bytes:
                raise _refused(file, "is empty.")
            if first_bytes == b"\x1f\x8b":
                with gzip.GzipFile(fileobj=packed_file) as unpacked_file:
                    return _parse(file, unpacked_file)
            if file.suffix == ".gz":
                raise _refused(
                    file,
                    "is named .gz but is not packed with gzip: it begins with "
                    f"{first_bytes.hex(' ')}.",
                )
            return _parse(file, packed_file)
    except EOFError:
        raise _refused(file, "is cut short: its packed data have no end.") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise _refused(file, f"is damaged: it does not unpack ({_one_line(error)}).") from error
    except FileNotFoundError:
        raise DatasetError(f"""The file {file.name} does not exist.
            where: {file}
            next:  Check the path. To find or download the files of MNIST, call
            datasets.mnist().""") from None
    except OSError as error:
        raise DatasetError(f"""The file {file.name} cannot be read:
            {error.strerror or _one_line(error)}.
            where: {file}
            next:  Check that it is a file and that you may read it.""") from error


def _parse(file: Path, stream: IO[bytes] | gzip.GzipFile) -> NDArray[np.uint8]:
    first_header = stream.read(4)
    if len(first_header) < 4:
        raise _refused(
            file, f"is cut short: its header has {len(first_header)} of at least 8 bytes."
        )
    zero_bytes, dtype_code, num_dimensions = struct.unpack(">HBB", first_header)
    if zero_bytes != 0 or num_dimensions == 0:
        raise _refused(
            file,
            f"is not an IDX file: it begins with {first_header.hex(' ')}, not with 00 00 08 and a "
            "rank.",
        )
    if dtype_code != 0x08:
        dtype_name = _IDX_TYPES.get(dtype_code, "which IDX does not define")
        raise _refused(
            file,
            f"has dtype code 0x{dtype_code:02x} ({dtype_name}), but this function reads only 0x08, "
            "unsigned bytes.",
        )
    stored_shape = stream.read(4 * num_dimensions)
    if len(stored_shape) < 4 * num_dimensions:
        raise _refused(
            file,
            f"is cut short: its header has {4 + len(stored_shape)} of {4 + 4 * num_dimensions} "
            "bytes.",
        )
    shape = struct.unpack(f">{num_dimensions}I", stored_shape)
    num_values = math.prod(shape)
    claimed_size = (
        f"{' x '.join(map(str, shape[:4]))}{' x ...' if num_dimensions > 4 else ''} values"
    )
    if num_values == 0:
        raise _refused(file, f"holds nothing: its header says {claimed_size}.")
    if num_values > _LARGEST_ARRAY or num_dimensions > 32:
        raise _refused(
            file,
            f"is too large: its header says {claimed_size}, but this function reads at most 1 GiB "
            "in 32 dimensions.",
        )
    values = bytearray()
    # The values are read in chunks: one read would allocate all bytes that the header claims.
    while len(values) <= num_values and (
        chunk := stream.read(min(1 << 20, num_values + 1 - len(values)))
    ):
        values += chunk
    if len(values) < num_values:
        raise _refused(
            file,
            f"is cut short: its header says {claimed_size} ({num_values:,} bytes), but "
            f"the file has only {len(values):,} of them.",
        )
    if len(values) > num_values:
        raise _refused(
            file,
            f"is too long: its header says {claimed_size} ({num_values:,} bytes), but "
            "the file has more.",
        )
    return np.frombuffer(values, dtype=np.uint8).reshape(shape)


def _refused(file: Path, problem: str) -> DatasetError:
    return DatasetError(f"The file {file.name} {problem}", where=str(file), next_step=_REPLACE)


def _one_line(error: object) -> str:
    return " ".join(str(error).split()) or type(error).__name__


# --- download -------------------------------------------------------------------------------------


class _OfflineError(Exception):
    """There is no connection to the server."""


class _DroppedError(Exception):
    """The transfer ended early, and another attempt may continue it."""


def _base_url() -> str:
    from urllib.parse import urlsplit

    address = os.environ.get("IPU_TEACH_MNIST_URL", "").strip() or DEFAULT_URL
    try:
        url = urlsplit(address)
        is_usable = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        is_usable = False
    if not is_usable or not address.isascii() or not address.isprintable() or " " in address:
        raise DatasetError(f"""MNIST cannot be downloaded from {address!r}, which is not an address
            of the form http://... or https://...
            where: the environment variable IPU_TEACH_MNIST_URL
            next:  Set it to the folder on a server that holds the four .gz files, or unset it to
            use the default address.""")
    return address.rstrip("/") + "/"


def _download(url: str, final_path: Path, md5: str, timeout: float) -> None:
    """Download `url`. The file gets the name `final_path` only when it is complete and checked."""
    try:
        final_path.parent.mkdir(parents=True, exist_ok=True)
        part_path = _claim(final_path, timeout)
        try:
            _fill(url, part_path, md5, timeout)
            os.replace(part_path, final_path)
        finally:
            # If an error or an interrupt leaves a partial file, rename the file, so that a later
            # call can continue it.
            with contextlib.suppress(OSError):
                os.replace(part_path, final_path.with_name(f"{final_path.name}.part"))
    except OSError as error:
        raise DatasetError(f"""The download of {final_path.name} cannot be stored:
            {error.strerror or _one_line(error)}.
            where: {final_path.parent}
            next:  Make room there, or set XDG_CACHE_HOME to a folder that you may write.
            Without MNIST, use datasets.digits(), which comes with the kit.""") from error


def _claim(final_path: Path, timeout: float) -> Path:
    """Return a path for partial data that only this call uses.

    If an earlier download was not finished, its partial file is renamed to this path. If two
    programs download at the same time, only one of them can rename the earlier file. A running
    download writes at least once in `timeout` seconds, so a file that is older than twice that time
    was abandoned.
    """
    part_path = final_path.with_name(f"{final_path.name}.{os.getpid()}-{os.urandom(4).hex()}.part")
    for old_path in sorted(final_path.parent.glob(f"{final_path.name}.*part")):
        try:
            if (
                old_path.name == f"{final_path.name}.part"
                or time.time() - old_path.stat().st_mtime > 2 * timeout
            ):
                os.rename(old_path, part_path)
                os.utime(part_path)
                break
        except OSError:  # Another program has already renamed the file.
            continue
    return part_path


def _fill(url: str, part_path: Path, md5: str, timeout: float) -> None:
    """Download the rest of the file `part_path` until its md5 is `md5`.

    Raises `DatasetError` if the download fails `_ATTEMPTS` times, or if the server has a different
    file.
    """
    last_problem = ""
    for _ in range(_ATTEMPTS):
        is_resumed = part_path.exists() and part_path.stat().st_size > 0
        # The partial file may already be complete, if an earlier call was interrupted between the
        # end of the download and the renaming.
        if is_resumed and _md5(part_path) == md5:
            return
        try:
            _fetch(url, part_path, timeout)
        except _DroppedError as dropped:
            last_problem = str(dropped)
            continue
        if (digest := _md5(part_path)) == md5:
            return
        part_path.unlink()
        if not is_resumed:
            raise DatasetError(f"""The download of
                {url.rpartition("/")[2]} is not the file of MNIST: its md5 is {digest} and should be
                {md5}.
                where: {url}
                next:  Try again. If it happens again, a proxy or a log-in page changes the file, or
                the address is wrong. Then set IPU_TEACH_MNIST_URL to another mirror.""")
        last_problem = "the partial file of an earlier download was not the beginning of this file"
    raise DatasetError(f"""The download of {url.rpartition("/")[2]} broke off {_ATTEMPTS} times:
        {last_problem}.
        where: {url}
        next:  Call datasets.mnist() again, which continues where it stopped. Without MNIST, use
        datasets.digits(), which comes with the kit.""")


def _md5(path: Path) -> str:
    import hashlib

    digest = hashlib.md5(usedforsecurity=False)
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def _fetch(url: str, part_path: Path, timeout: float) -> None:
    """Send one request for the rest of the file `url`, and append it to the file `part_path`.

    If the server cannot send only the rest, `part_path` is written again from its beginning. Raises
    `_OfflineError`, `_DroppedError` or, if another attempt is useless, `DatasetError`.
    """
    num_bytes = part_path.stat().st_size if part_path.exists() else 0
    with _response(url, part_path, num_bytes, timeout) as response:
        is_partial = response.status == 206
        if is_partial and not response.headers.get("Content-Range", "").startswith(
            f"bytes {num_bytes}-"
        ):
            part_path.unlink(missing_ok=True)
            raise _DroppedError("the server sent a range of bytes that was not requested")
        if not is_partial:
            num_bytes = 0
        with open(part_path, "ab" if is_partial else "wb") as file:
            _receive(response, file, url=url, num_bytes=num_bytes, timeout=timeout)


def _response(url: str, part_path: Path, num_bytes: int, timeout: float) -> HTTPResponse:
    """Return the server's answer to a request for the file `url` from byte `num_bytes` on.

    Raises the errors of `_fetch`.
    """
    import http.client
    import urllib.error
    import urllib.request

    headers = {"Range": f"bytes={num_bytes}-"} if num_bytes else {}
    request = urllib.request.Request(url, headers=headers)
    try:
        response: HTTPResponse = urllib.request.urlopen(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        error.close()
        # Status 416 means that the server's file has no byte `num_bytes`, so `part_path` is too
        # long.
        if error.code == 416 and num_bytes:
            part_path.unlink()
            raise _DroppedError(
                "the partial file of an earlier download was longer than the file"
            ) from None
        name = url.rpartition("/")[2]
        raise DatasetError(f"""The server refused to send {name}: {error.code} {error.reason}.
            where: {url}
            next:  Check the address in IPU_TEACH_MNIST_URL, or unset it to use the default.
            Without MNIST, use datasets.digits(), which comes with the kit.""") from None
    except urllib.error.URLError as error:
        raise _OfflineError(_one_line(error.reason)) from None
    except TimeoutError:
        raise _stalled(url, num_bytes, timeout) from None
    except (OSError, http.client.HTTPException) as error:
        raise _DroppedError(_one_line(error)) from None
    return response


def _receive(
    response: HTTPResponse, file: IO[bytes], *, url: str, num_bytes: int, timeout: float
) -> None:
    """Append the content of a response to `file`, which has `num_bytes` bytes, with a progress bar.

    Raises `_DroppedError` if the connection fails or the content is shorter than the server said,
    and `DatasetError` if the server sends nothing for `timeout` seconds.
    """
    import http.client

    from tqdm import tqdm

    content_length = response.headers.get("Content-Length", "")
    total_bytes = num_bytes + int(content_length) if content_length.isdecimal() else None
    name = url.rpartition("/")[2]
    with tqdm(desc=name, total=total_bytes, initial=num_bytes, unit="B", unit_scale=True) as bar:
        while total_bytes is None or num_bytes < total_bytes:
            try:
                chunk = response.read1(_CHUNK)
            except TimeoutError:
                raise _stalled(url, num_bytes, timeout) from None
            except (OSError, http.client.HTTPException) as error:
                raise _DroppedError(_one_line(error)) from None
            if not chunk:
                break
            file.write(chunk)
            # Each write updates the file's modification time, which shows other programs that this
            # download is still running.
            file.flush()
            num_bytes += len(chunk)
            bar.update(len(chunk))
            # No file of MNIST is this long, so end the download. The md5 check will then fail.
            if num_bytes > _LARGEST_DOWNLOAD:
                return
    if total_bytes is not None and num_bytes < total_bytes:
        raise _DroppedError(f"the connection closed after {num_bytes:,} of {total_bytes:,} bytes")


def _stalled(url: str, num_bytes: int, timeout: float) -> DatasetError:
    return DatasetError(f"""The download of {url.rpartition("/")[2]} stalled: the server sent
        nothing for {timeout:g} s, after {num_bytes:,} bytes.
        where: {url}
        next:  Call datasets.mnist() again, which continues where it stopped. Without MNIST, use
        datasets.digits(), which comes with the kit.""")
