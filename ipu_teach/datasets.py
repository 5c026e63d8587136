"""Handwritten digits to train on: a small set that is part of the kit, and MNIST.

`digits()` needs only the kit. `mnist()` reads the four files of MNIST (LeCun, Cortes and Burges,
1998) from `$IPU_TEACH_DATA/mnist` or from the user's cache folder, and downloads them into the
cache folder if neither has them. Both return a `Dataset` of 28x28 images, so a program can use
either without a change.

Design choices:

* The first folder that has MNIST is used, and `IPU_TEACH_DATA` comes first. A folder with only the
  test set is enough: its first 8,000 images then become the training set, and its last 2,000 the
  test set.
* Files on disk are checked for format and size, but not by md5, as users may have unpacked or
  repacked them. A download is checked by md5 before the file gets its final name.
* A missing connection is not an error: `mnist()` prints a line and returns the digits. It is an
  error if a server answers with an error or with wrong bytes, or stops answering, as the user can
  then do something about it.
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

It is the mirror that torchvision uses.
"""

TIMEOUT = 20.0
"""Seconds without any data after which a download counts as stalled."""

# The md5 of each packed file, from torchvision's list. The training set comes first, so that an
# interrupted download never leaves a folder with only the test set, which is a valid folder.
_MD5 = {
    "train-images-idx3-ubyte": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "train-labels-idx1-ubyte": "d53e105ee54ea40749a09fcbcd1e9432",
    "t10k-images-idx3-ubyte": "9fb629c4189551a2d022fa330f9573f3",
    "t10k-labels-idx1-ubyte": "ec29112dd5afa0611ce80d1b7f02629c",
}
_npy: Any = np.lib.format  # typed in some versions of numpy only
_COUNTS = {"train": 60_000, "t10k": 10_000}
_HALF_SPLIT = 8_000

_DIGITS_FILE = bundled("datasets") / "digits8.npz"
# the dtype, shape and largest number of each array in that file
_DIGITS = {"images": ("u1", (1797, 8, 8), 16), "labels": ("u1", (1797,), 9)}
_DIGITS |= {"train_index": ("<u2", (1500,), 1796), "test_index": ("<u2", (297,), 1796)}
_RESTORE = "Restore the file with `git checkout datasets/digits8.npz`, or install the kit again."

_ATTEMPTS = 3
_CHUNK = 1 << 16
_LARGEST_DOWNLOAD = 1 << 26  # the largest of the four files is 9.9 MB
_LARGEST_ARRAY = 1 << 30
_IDX_TYPES = {0x09: "int8", 0x0B: "int16", 0x0C: "int32", 0x0D: "float32", 0x0E: "float64"}

_REPLACE = (
    "Put a fresh copy in its place; if it is in the cache folder, delete it and datasets.mnist() "
    "downloads it again."
)


@dataclass(frozen=True, repr=False, eq=False)
class Dataset:
    """Images of handwritten digits with their labels, in a training set and a test set.

    name:          "digits", "mnist", or "mnist-t10k" if the test set of MNIST was split in two
    train_images:  uint8, shape (n, 28, 28), 0 is background and 255 is ink
    train_labels:  uint8, shape (n,), 0 to 9
    test_images:   uint8, shape (m, 28, 28)
    test_labels:   uint8, shape (m,)

    Each call of `digits` or `mnist` returns new arrays, which the caller may change.
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
    split is stored in the file; both sets have each class in the same proportion (see
    datasets/SOURCE.md).

    The images are scaled from 8x8 by bilinear interpolation, with the outer edges aligned. It uses
    only integers, so every machine gets the same bytes. Along each axis, pixel i of 28 is at
    position (4i - 5) / 14 of the original, clipped to 0 and 7. With q = (4i - 5) div 14 and
    r = (4i - 5) mod 14, its neighbours q and q + 1 have the weights 14 - r and r. The products of
    the weights of both axes add up to 196. With S, the weighted sum of the four neighbours, at most
    16 * 196 = 3136, the pixel is (255 * S + 1568) div 3136: 255 S / 3136, rounded half up.

    Raises DatasetError if the file is missing or damaged.
    """
    try:
        with zipfile.ZipFile(_DIGITS_FILE) as file:
            images, labels, train, test = (_member(file, name) for name in _DIGITS)
        if len(np.unique(np.concatenate([train, test]))) < len(images):
            raise ValueError("train_index and test_index hold a number twice")
    except FileNotFoundError:
        raise DatasetError(f"""The digits that come with the kit are not where they should be:
            digits8.npz is missing.
            where: {_DIGITS_FILE}
            next:  {_RESTORE}""") from None
    # damaged bytes raise many kinds of error in the readers
    except Exception as error:
        raise DatasetError(f"""The digits that come with the kit cannot be read: digits8.npz is
            damaged ({_one_line(error)}).
            where: {_DIGITS_FILE}
            next:  {_RESTORE}""") from error
    scaled = _scale(images)
    return Dataset("digits", scaled[train], labels[train], scaled[test], labels[test])


def _member(file: zipfile.ZipFile, name: str) -> NDArray[Any]:
    """Return an array of the digits, and check it against its entry in `_DIGITS`.

    Its header may be damaged, so it is checked before the values are read. Raises `ValueError`.
    """
    kind, shape, maximum = _DIGITS[name]
    dtype = np.dtype(kind)
    member = file.getinfo(f"{name}.npy")
    if member.file_size > 2 * dtype.itemsize * math.prod(shape):
        raise ValueError(f"{name} is {member.file_size:,} bytes long")
    stream = io.BytesIO(file.read(member))
    _npy.read_magic(stream)
    *actual, actual_dtype = _npy.read_array_header_1_0(stream)
    if (*actual, actual_dtype) != (shape, False, dtype):
        raise ValueError(
            f"{name} has shape {shown(actual[0])} and dtype {shown(actual_dtype.str)}, and "
            f"not {shape} and "
            f"{dtype.str!r}"
        )
    values = np.frombuffer(stream.read(), dtype).reshape(shape)
    if values.max() > maximum:
        raise ValueError(f"{name} holds {values.max()}, and {maximum:,} is the most")
    return values


def _scale(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Scale uint8[n, 8, 8] from 0 to 16 to uint8[n, 28, 28] from 0 to 255, see `digits`."""
    weights = np.zeros((28, 8), dtype=np.int32)
    for i in range(28):
        low, rest = divmod(min(max(4 * i - 5, 0), 98), 14)
        weights[i, low] += 14 - rest
        weights[i, min(low + 1, 7)] += rest
    sums: NDArray[np.int32] = weights @ images.astype(np.int32) @ weights.T
    return ((255 * sums + 1568) // 3136).astype(np.uint8)


# --- MNIST ----------------------------------------------------------------------------------------


@flagged
def mnist(download: bool = True, *, timeout: float = TIMEOUT) -> Dataset:
    """Return MNIST: 60,000 images to train on and 10,000 to test on.

    The four files may be packed (`train-images-idx3-ubyte.gz` and so on) or unpacked (without
    `.gz`). They are read from `$IPU_TEACH_DATA/mnist`, or else from the cache folder. That is
    `$XDG_CACHE_HOME/ipu_teach/mnist`; without that variable it is `~/.cache/ipu_teach/mnist`, on
    macOS `~/Library/Caches/ipu_teach/mnist`, on Windows `%LOCALAPPDATA%/ipu_teach/mnist`. A folder
    with only the test set is split: the first 8,000 images are for training and the last 2,000 for
    testing, and a line is printed.

    If neither folder has the files, they are downloaded into the cache folder, about 11 MB, with a
    progress bar. The address is that in `IPU_TEACH_MNIST_URL` or else `DEFAULT_URL`. An interrupted
    download continues where it stopped, if the server supports that. `timeout` is how many seconds
    a server may be silent. Without a connection, a line is printed and `digits()` is returned. With
    `download=False` nothing is downloaded.

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
    base = _base_url()
    try:
        for stem in _MD5:
            if stem not in _find(cache):
                _download(f"{base}{stem}.gz", cache / f"{stem}.gz", _MD5[stem], timeout)
    except _OfflineError as offline:
        print(
            f"MNIST is not in {searched} and cannot be downloaded from {base} ({offline}): "
            "using the 1,797 digits that come with the kit instead."
        )
        return digits()
    return _whole(_find(cache))


def _folders() -> list[Path]:
    """Return the folders that may have MNIST. Only the last one, the cache folder, is written."""
    chosen = os.environ.get("IPU_TEACH_DATA", "")
    return ([Path(chosen).expanduser() / "mnist"] if chosen else []) + [
        cache_folder() / "ipu_teach" / "mnist"
    ]


def cache_folder() -> Path:
    """Return this system's folder for data that programs can download again."""
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    if xdg and Path(xdg).is_absolute():  # the XDG standard says to ignore a relative path
        return Path(xdg)
    try:
        home = Path.home()
    except RuntimeError:  # a container's user may have no home at all
        import tempfile

        return Path(tempfile.gettempdir())
    platform: str = sys.platform
    if platform == "darwin":
        return home / "Library" / "Caches"
    if platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    return home / ".cache"


def _find(folder: Path) -> dict[str, Path]:
    """Return the paths of the files of MNIST that are in `folder`, by name without `.gz`.

    A packed file takes precedence, as it has a checksum.
    """
    by_name = {}
    for stem in _MD5:
        for path in (folder / f"{stem}.gz", folder / stem):
            # unlike Path.is_file, this raises no error for an unreadable folder
            if os.path.isfile(path):
                by_name[stem] = path
                break
    return by_name


def _whole(files: Mapping[str, Path]) -> Dataset:
    return Dataset("mnist", *_read_half(files, "train"), *_read_half(files, "t10k"))


def _split_test_half(folder: Path, files: Mapping[str, Path]) -> Dataset:
    images, labels = _read_half(files, "t10k")
    print(
        f"MNIST: {folder} holds the test half only, so its first {_HALF_SPLIT:,} images are to "
        f"train on and its last {len(images) - _HALF_SPLIT:,} to test on."
    )
    cut = _HALF_SPLIT
    # copies, so that neither set keeps the memory of the other alive
    return Dataset(
        "mnist-t10k",
        images[:cut].copy(),
        labels[:cut].copy(),
        images[cut:].copy(),
        labels[cut:].copy(),
    )


def _read_half(files: Mapping[str, Path], half: str) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    image_file, label_file = files[f"{half}-images-idx3-ubyte"], files[f"{half}-labels-idx1-ubyte"]
    images, labels = read_idx(image_file), read_idx(label_file)
    if images.ndim != 3 or images.shape[1:] != (28, 28):
        raise _refused(
            image_file,
            f"holds an array of shape {images.shape}; images of MNIST have shape (n, 28, 28).",
        )
    if labels.ndim != 1:
        raise _refused(
            label_file, f"holds an array of shape {labels.shape}; labels of MNIST have shape (n,)."
        )
    if len(images) != len(labels):
        raise _refused(
            label_file,
            f"holds {len(labels):,} labels for the {len(images):,} images of {image_file.name}.",
        )
    if len(images) != _COUNTS[half]:
        raise _refused(
            image_file, f"holds {len(images):,} images; this half of MNIST has {_COUNTS[half]:,}."
        )
    if np.max(labels) > 9:
        first = int(np.argmax(labels > 9))
        raise _refused(
            label_file, f"holds labels that are not digits: label {first:,} is {labels[first]}."
        )
    return images, labels


# --- IDX files ------------------------------------------------------------------------------------


def read_idx(path: str | os.PathLike[str]) -> NDArray[np.uint8]:
    """Return the array in an IDX file of unsigned bytes, packed with gzip or not.

    An IDX file is a header and the values. The header has two zero bytes, the code of the dtype
    (0x08: unsigned byte), the number of dimensions, and each dimension as a big-endian 32-bit
    integer. The first two bytes show whether the file is packed. Source: LeCun, Cortes and Burges,
    "The MNIST database", 1998.

    The result is a new uint8 array of the shape in the header. Memory use grows with the data that
    is read, whatever size the header claims.

    Raises DatasetError, which names the file,

    - if it is missing, empty, cut short or damaged, or named .gz but not packed;
    - if it is longer than its header says, or larger than 1 GiB by its header;
    - if it is not an IDX file, or of another dtype.
    """
    file = Path(path)
    try:
        with open(file, "rb") as raw:
            start = raw.read(2)
            raw.seek(0)
            if not start:
                raise _refused(file, "is empty.")
            if start == b"\x1f\x8b":
                with gzip.GzipFile(fileobj=raw) as unpacked:
                    return _parse(file, unpacked)
            if file.suffix == ".gz":
                raise _refused(
                    file,
                    f"is named .gz but is not packed with gzip: it begins with {start.hex(' ')}.",
                )
            return _parse(file, raw)
    except EOFError:
        raise _refused(file, "is cut short: its packed data have no end.") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise _refused(file, f"is damaged: it does not unpack ({_one_line(error)}).") from error
    except FileNotFoundError:
        raise DatasetError(f"""The file {file.name} does not exist.
            where: {file}
            next:  Check the path; datasets.mnist() finds or downloads the files of MNIST by
            itself.""") from None
    except OSError as error:
        raise DatasetError(f"""The file {file.name} cannot be read:
            {error.strerror or _one_line(error)}.
            where: {file}
            next:  Check that it is a file and that you may read it.""") from error


def _parse(file: Path, stream: IO[bytes] | gzip.GzipFile) -> NDArray[np.uint8]:
    head = stream.read(4)
    if len(head) < 4:
        raise _refused(file, f"is cut short: its header has {len(head)} of at least 8 bytes.")
    zeros, code, dimensions = struct.unpack(">HBB", head)
    if zeros != 0 or dimensions == 0:
        raise _refused(
            file,
            f"is not an IDX file: it begins with {head.hex(' ')}, not with 00 00 08 and a rank.",
        )
    if code != 0x08:
        meaning = _IDX_TYPES.get(code, "which IDX does not define")
        raise _refused(
            file, f"has dtype code 0x{code:02x} ({meaning}); only 0x08, unsigned byte, can be read."
        )
    sizes = stream.read(4 * dimensions)
    if len(sizes) < 4 * dimensions:
        raise _refused(
            file, f"is cut short: its header has {4 + len(sizes)} of {4 + 4 * dimensions} bytes."
        )
    shape = struct.unpack(f">{dimensions}I", sizes)
    count = math.prod(shape)
    claim = f"{' x '.join(map(str, shape[:4]))}{' x ...' if dimensions > 4 else ''} values"
    if count == 0:
        raise _refused(file, f"holds nothing: its header says {claim}.")
    if count > _LARGEST_ARRAY or dimensions > 32:
        raise _refused(
            file,
            f"cannot be what its header claims: {claim}, but at most 1 GiB in 32 dimensions is "
            "possible.",
        )
    body = bytearray()
    # read in pieces, as read(count) would allocate the size that the header claims
    while len(body) <= count and (piece := stream.read(min(1 << 20, count + 1 - len(body)))):
        body += piece
    if len(body) < count:
        raise _refused(
            file,
            f"is cut short: its header says {claim}, {count:,} bytes, and {len(body):,} are there.",
        )
    if len(body) > count:
        raise _refused(
            file,
            f"continues after its end: its header says {claim}, {count:,} bytes, and more are "
            "there.",
        )
    return np.frombuffer(body, dtype=np.uint8).reshape(shape)


def _refused(file: Path, problem: str) -> DatasetError:
    return DatasetError(f"The file {file.name} {problem}", where=str(file), next_step=_REPLACE)


def _one_line(error: object) -> str:
    return " ".join(str(error).split()) or type(error).__name__


# --- download -------------------------------------------------------------------------------------


class _OfflineError(Exception):
    """There is no connection to the server."""


class _DroppedError(Exception):
    """The transfer ended early; another attempt may continue it."""


def _base_url() -> str:
    from urllib.parse import urlsplit

    base = os.environ.get("IPU_TEACH_MNIST_URL", "").strip() or DEFAULT_URL
    try:
        parts = urlsplit(base)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or not base.isascii() or not base.isprintable() or " " in base:
        raise DatasetError(f"""MNIST cannot be downloaded from {base!r}, which is not an address of
            the form http://... or https://...
            where: the environment variable IPU_TEACH_MNIST_URL
            next:  Set it to the folder on a server that holds the four .gz files, or unset it to
            use the default address.""")
    return base.rstrip("/") + "/"


def _download(url: str, final: Path, md5: str, timeout: float) -> None:
    """Download `url` to `final`; the file gets that name only once it is complete and checked."""
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        part = _claim(final, timeout)
        try:
            _fill(url, part, md5, timeout)
            os.replace(part, final)
        finally:
            # if an error or an interrupt left a partial file, a later call continues it
            with contextlib.suppress(OSError):
                os.replace(part, final.with_name(f"{final.name}.part"))
    except OSError as error:
        raise DatasetError(f"""The download of {final.name} cannot be stored:
            {error.strerror or _one_line(error)}.
            where: {final.parent}
            next:  Make room there or set XDG_CACHE_HOME to a folder that you may write; or use
            datasets.digits(), which comes with the kit.""") from error


def _claim(final: Path, timeout: float) -> Path:
    """Return a path for partial data that only this call uses.

    If an earlier download was not finished, its data are moved to that path. Two programs may
    download at once, but only one of them can rename the earlier file. A running download writes at
    least once in `timeout` seconds, so a file that is older than twice that time was abandoned.
    """
    part_file = final.with_name(f"{final.name}.{os.getpid()}-{os.urandom(4).hex()}.part")
    for old_part in sorted(final.parent.glob(f"{final.name}.*part")):
        try:
            if (
                old_part.name == f"{final.name}.part"
                or time.time() - old_part.stat().st_mtime > 2 * timeout
            ):
                os.rename(old_part, part_file)
                os.utime(part_file)
                break
        except OSError:  # another program was faster
            continue
    return part_file


def _fill(url: str, part: Path, md5: str, timeout: float) -> None:
    """Download the rest of `part` until its md5 is `md5`, or raise `DatasetError`."""
    problem = ""
    for _ in range(_ATTEMPTS):
        resumed = part.exists() and part.stat().st_size > 0
        # the earlier call was interrupted between the last byte and the rename
        if resumed and _md5(part) == md5:
            return
        try:
            _fetch(url, part, timeout)
        except _DroppedError as dropped:
            problem = str(dropped)
            continue
        if (digest := _md5(part)) == md5:
            return
        part.unlink()
        if not resumed:
            raise DatasetError(f"""The download of
                {url.rpartition("/")[2]} is not the file of MNIST: its md5 is {digest} and should be
                {md5}.
                where: {url}
                next:  Try again; if it happens again, something between you and the server changes
                it (a log-in page, a proxy) or the address is wrong: set IPU_TEACH_MNIST_URL to
                another mirror.""")
        problem = "what an earlier download had left was not the beginning of this file"
    raise DatasetError(f"""The download of {url.rpartition("/")[2]} broke off {_ATTEMPTS} times:
        {problem}.
        where: {url}
        next:  Call datasets.mnist() again, which continues where it stopped; or use
        datasets.digits(), which comes with the kit.""")


def _md5(path: Path) -> str:
    import hashlib

    digest = hashlib.md5(usedforsecurity=False)
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def _fetch(url: str, part: Path, timeout: float) -> None:
    """Send one request, and append the rest of the file to `part`.

    If the server cannot continue in the middle, `part` is written from its beginning.
    """
    import http.client
    import urllib.error
    import urllib.request

    from tqdm import tqdm

    name = url.rpartition("/")[2]
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        response: HTTPResponse = urllib.request.urlopen(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        error.close()
        # the file has no bytes after `have`, so `part` was not the beginning of this file
        if error.code == 416 and have:
            part.unlink()
            raise _DroppedError(
                "what an earlier download had left was longer than the file"
            ) from None
        raise DatasetError(f"""The server refused to send {name}: {error.code} {error.reason}.
            where: {url}
            next:  Check the address in IPU_TEACH_MNIST_URL (unset it to use the default); or use
            datasets.digits(), which comes with the kit.""") from None
    except urllib.error.URLError as error:
        raise _OfflineError(_one_line(error.reason)) from None
    except TimeoutError:
        raise _stalled(url, have, timeout) from None
    except (OSError, http.client.HTTPException) as error:
        raise _DroppedError(_one_line(error)) from None

    with response:
        middle = response.status == 206
        if middle and not response.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            part.unlink(missing_ok=True)
            raise _DroppedError("the server sent another range than the one it was asked for")
        if not middle:
            have = 0
        length = response.headers.get("Content-Length", "")
        total = have + int(length) if length.isdecimal() else None
        with (
            open(part, "ab" if middle else "wb") as file,
            tqdm(desc=name, total=total, initial=have, unit="B", unit_scale=True) as bar,
        ):
            while total is None or have < total:
                try:
                    piece = response.read1(_CHUNK)
                except TimeoutError:
                    raise _stalled(url, have, timeout) from None
                except (OSError, http.client.HTTPException) as error:
                    raise _DroppedError(_one_line(error)) from None
                if not piece:
                    break
                file.write(piece)
                # the time of the last write shows other programs that this download is running
                file.flush()
                have += len(piece)
                bar.update(len(piece))
                # no file of MNIST is so long, and its md5 will be wrong
                if have > _LARGEST_DOWNLOAD:
                    total = None
                    break
    if total is not None and have < total:
        raise _DroppedError(f"the connection closed after {have:,} of {total:,} bytes")


def _stalled(url: str, have: int, timeout: float) -> DatasetError:
    return DatasetError(f"""The download of {url.rpartition("/")[2]} stalled: no byte came for
        {timeout:g} s, after {have:,}.
        where: {url}
        next:  Call datasets.mnist() again, which continues where it stopped; or use
        datasets.digits(), which comes with the kit.""")
