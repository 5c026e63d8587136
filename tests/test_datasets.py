"""datasets.py: the bundled digits, IDX files, and the download of MNIST against a server on this
machine."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import re
import shutil
import struct
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dataset_files import use_digits, use_md5s, use_small_mnist

from ipu_teach import datasets
from ipu_teach.errors import DatasetError

ROOT = Path(datasets.__file__).resolve().parent.parent
REAL_DATA = os.environ.get("IPU_TEACH_DATA", "")  # read before the fixture below takes it away
FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
REPLACE = (
    "  next:  Replace it with a new copy. If it is in the cache folder, delete it; "
    "datasets.mnist() then downloads it again."
)
AGAIN = (
    "  next:  Call datasets.mnist() again, which continues where it stopped. Without "
    "MNIST, use datasets.digits(), which comes with the kit."
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of the test's own; nothing of the user's is read or written."""
    monkeypatch.delenv("IPU_TEACH_DATA", raising=False)
    monkeypatch.delenv("IPU_TEACH_MNIST_URL", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "127.0.0.1,localhost")
    return tmp_path / "cache" / "ipu_teach" / "mnist"


def idx(array: np.ndarray[Any, Any], code: int = 0x08) -> bytes:
    header = struct.pack(f">HBB{array.ndim}I", 0, code, array.ndim, *array.shape)
    return header + array.tobytes()


# ------------------------------------------------------------------------------------------ the
# digits


def test_digits_have_the_promised_form() -> None:
    data = datasets.digits()
    assert (
        repr(data) == "Dataset('digits': 1,500 images to train on and 297 to test on, 28x28 uint8)"
    )
    assert data.name == "digits"
    assert data.train_images.shape == (1500, 28, 28) and data.train_labels.shape == (1500,)
    assert data.test_images.shape == (297, 28, 28) and data.test_labels.shape == (297,)
    for array in (data.train_images, data.train_labels, data.test_images, data.test_labels):
        assert array.dtype == np.uint8 and array.flags.c_contiguous and array.flags.writeable
    assert data.train_images.max() == 255 and data.train_images.min() == 0
    with pytest.raises(AttributeError):
        data.name = "other"  # type: ignore[misc]


def test_scaling_equals_a_plain_loop_over_pixels() -> None:
    """Bilinear with centres aligned: pixel i lies at (i + 1/2) 8/28 - 1/2; fractions, so that
    nothing is rounded."""
    from fractions import Fraction

    def along(i: int) -> list[tuple[int, Fraction]]:
        at = min(max((i + Fraction(1, 2)) * 8 / 28 - Fraction(1, 2), Fraction(0)), Fraction(7))
        low = int(at)
        return [(low, 1 - (at - low)), (min(low + 1, 7), at - low)]

    with np.load(ROOT / "datasets" / "digits8.npz") as file:
        small, train = file["images"], file["train_index"]
    data = datasets.digits()
    for k in (0, 1, 777, 1499):
        source = small[train[k]].tolist()
        for i in range(28):
            for j in range(28):
                value = sum(wi * wj * source[a][b] for a, wi in along(i) for b, wj in along(j))
                assert data.train_images[k, i, j] == int(value * 255 / 16 + Fraction(1, 2)), (
                    k,
                    i,
                    j,
                )


def test_scaling_of_flat_images_is_flat_and_covers_the_range() -> None:
    """The subject is the private scaling function, on flat images."""
    flat = np.broadcast_to(np.arange(17, dtype=np.uint8)[:, None, None], (17, 8, 8))
    scaled = datasets._scale(flat)
    for level in range(17):
        assert (scaled[level] == (255 * level + 8) // 16).all()


def test_split_is_disjoint_complete_and_stratified() -> None:
    with np.load(ROOT / "datasets" / "digits8.npz") as file:
        assert file.files == ["images", "labels", "train_index", "test_index"]
        images, labels, train, test = (file[name] for name in file.files)
    assert (
        images.shape == (1797, 8, 8)
        and images.dtype == labels.dtype == np.uint8
        and images.max() == 16
    )
    assert sorted([*train.tolist(), *test.tolist()]) == list(range(1797))
    assert (np.diff(train.astype(int)) > 0).all() and (np.diff(test.astype(int)) > 0).all()
    for digit in range(10):
        share = (labels == digit).sum() * 1500 / 1797
        assert abs((labels[train] == digit).sum() - share) < 1
    data = datasets.digits()
    assert (data.train_labels == labels[train]).all() and (data.test_labels == labels[test]).all()


def test_digits_are_the_bytes_that_source_md_describes() -> None:
    text = (ROOT / "datasets" / "SOURCE.md").read_text(encoding="utf-8")
    sums = re.findall(r"`([0-9a-f]{64})`", text)
    assert hashlib.sha256((ROOT / "datasets" / "digits8.npz").read_bytes()).hexdigest() == sums[0]
    with np.load(ROOT / "datasets" / "digits8.npz") as file:
        assert (
            hashlib.sha256(b"".join(file[name].tobytes() for name in file.files)).hexdigest()
            == sums[1]
        )


def test_scaled_digits_never_change() -> None:
    data = datasets.digits()
    content = data.train_images.tobytes() + data.test_images.tobytes()
    assert (
        hashlib.sha256(content).hexdigest()
        == "a620894fa961a9e9e419c1cf445a4ba9163af746b6d887283973c65f00cceeef"
    )


def test_digits_script_reproduces_the_arrays(tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is needed only to make digits8.npz again")
    made = tmp_path / "made.npz"
    subprocess.run(
        [sys.executable, str(ROOT / "datasets" / "make_digits.py"), str(made)], check=True
    )
    with np.load(made) as new, np.load(ROOT / "datasets" / "digits8.npz") as old:
        assert new.files == old.files
        for name in old.files:
            assert new[name].dtype == old[name].dtype and (new[name] == old[name]).all()


def test_every_call_returns_new_arrays() -> None:
    datasets.digits().train_images[:] = 0
    assert datasets.digits().train_images.max() == 255


def test_missing_digits_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "digits8.npz"
    use_digits(monkeypatch, file)
    with pytest.raises(DatasetError) as caught:
        datasets.digits()
    assert str(caught.value) == (
        "The digits that come with the kit are not where they should be: digits8.npz is missing.\n"
        f"  where: {file}\n  next:  Restore the file with `git checkout datasets/digits8.npz`, or "
        "install the kit again."
    )


def test_damaged_digits_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "digits8.npz"
    use_digits(monkeypatch, file)
    whole = (ROOT / "datasets" / "digits8.npz").read_bytes()
    flipped = whole[:5000] + bytes([whole[5000] ^ 255]) + whole[5001:]
    other = io.BytesIO()
    np.savez(other, images=np.zeros(3))
    for content in (b"", b"hello", whole[:20_000], flipped, other.getvalue()):
        file.write_bytes(content)
        with pytest.raises(DatasetError) as caught:
            datasets.digits()
        assert re.fullmatch(
            r"The digits that come with the kit cannot be read: digits8\.npz is damaged \(.+\)\.\n"
            rf"  where: {re.escape(str(file))}\n"
            r"  next:  Restore the file with `git checkout datasets/digits8\.npz`, or install the kit again\.",
            str(caught.value),
        )


def header(text: str) -> bytes:
    """The beginning of an array in a file."""
    return b"\x93NUMPY\x01\0" + struct.pack("<H", len(text)) + text.encode()


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        (
            "labels",
            lambda a: a[:1500],
            "labels has shape (1500,) and dtype '|u1', but needs (1797,) and '|u1'",
        ),
        (
            "images",
            lambda a: a.reshape(1797, 64),
            "images has shape (1797, 64) and dtype '|u1', but needs (1797, 8, 8) and '|u1'",
        ),
        (
            "train_index",
            lambda a: a.astype("u1"),
            "train_index has shape (1500,) and dtype '|u1', but needs (1500,) and '<u2'",
        ),
        ("images", lambda a: a.astype("f8"), "images is 920,192 bytes long"),
        ("images", lambda a: a + 1, "images has the value 17, but the largest allowed value is 16"),
        (
            "labels",
            lambda a: np.where(a == 9, 11, a).astype("u1"),
            "labels has the value 11, but the largest allowed value is 9",
        ),
        (
            "test_index",
            lambda a: a + 4,
            "test_index has the value 1797, but the largest allowed value is 1,796",
        ),
        (
            "test_index",
            lambda a: np.zeros_like(a),
            "train_index and test_index contain an image number twice",
        ),
        (
            "labels",
            lambda a: header(f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({2**40},)}}"),
            "labels has shape (1099511627776,) and dtype '|u1', but needs (1797,) and '|u1'",
        ),
        (
            "labels",
            lambda a: header("{'descr': '|u1', 'fortran_order': False, 'shape': (1797,)}"),
            "cannot reshape array of size 0 ",
        ),
    ],
)
def test_digits_that_are_no_digits_are_refused_by_field(
    name: str,
    change: Callable[[Any], Any],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use_digits(monkeypatch, tmp_path / "digits8.npz")
    with (
        np.load(ROOT / "datasets" / "digits8.npz") as file,
        zipfile.ZipFile(tmp_path / "digits8.npz", "w") as made,
    ):
        for key in file.files:
            member = change(file[key]) if key == name else file[key]
            np.save(out := io.BytesIO(), member)
            made.writestr(f"{key}.npy", member if isinstance(member, bytes) else out.getvalue())
    with pytest.raises(DatasetError, match=rf"digits8\.npz is damaged \({re.escape(says)}"):
        datasets.digits()


# ------------------------------------------------------------------------------------------- the
# names


def test_load_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert datasets.load("digits").name == "digits"
    monkeypatch.setattr(datasets, "mnist", lambda: "the other")
    loaded: object = datasets.load("mnist")
    assert loaded == "the other"
    with pytest.raises(DatasetError) as caught:
        datasets.load("fashion")
    assert str(caught.value) == (
        "There is no dataset called 'fashion'.\n  where: datasets.load\n  next:  Ask for 'digits', "
        "which comes with the kit, or for 'mnist', which is downloaded once."
    )


def test_import_is_cheap() -> None:
    """The module alone, without the package around it, loads nothing that only a download needs."""
    code = (
        "import sys, types\npackage = types.ModuleType('ipu_teach'); package.__path__ = "
        f"[{str(ROOT / 'ipu_teach')!r}]\nsys.modules['ipu_teach'] = package\nimport "
        "ipu_teach.datasets\nprint([name for name in ('urllib.request', 'http.client', 'tqdm', "
        "'ssl', 'sklearn') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"


# ------------------------------------------------------------------------------------------- IDX
# files


@pytest.mark.parametrize("shape", [(1,), (7,), (3, 5), (2, 28, 28), (2, 1, 3, 1)])
@pytest.mark.parametrize("packed", [False, True])
def test_read_idx(tmp_path: Path, shape: tuple[int, ...], packed: bool) -> None:
    array = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    file = tmp_path / ("a.gz" if packed else "a")
    file.write_bytes(gzip.compress(idx(array)) if packed else idx(array))
    for path in (file, str(file)):
        read = datasets.read_idx(path)
        assert (
            read.dtype == np.uint8
            and read.shape == shape
            and (read == array).all()
            and read.flags.writeable
        )


def test_read_idx_sees_gzip_without_the_ending(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(gzip.compress(idx(np.arange(3, dtype=np.uint8))))
    assert datasets.read_idx(file).tolist() == [0, 1, 2]


GOOD = idx(np.arange(12, dtype=np.uint8).reshape(3, 4))
PACKED = gzip.compress(GOOD, mtime=0)
HUGE = struct.pack(">HBB3I", 0, 8, 3, 4_000_000_000, 28, 28)
UNREADABLE = [
    ("empty", "a", b"", "is empty."),
    ("empty.gz", "a.gz", b"", "is empty."),
    ("one byte", "a", b"\0", "is cut short: its header has 1 of at least 8 bytes."),
    ("half a header", "a", GOOD[:9], "is cut short: its header has 9 of 12 bytes."),
    (
        "no values",
        "a",
        GOOD[:12],
        "is cut short: its header says 3 x 4 values (12 bytes), but the file has only 0 of them.",
    ),
    (
        "truncated",
        "a",
        GOOD[:-1],
        "is cut short: its header says 3 x 4 values (12 bytes), but the file has only 11 of them.",
    ),
    (
        "truncated inside",
        "a.gz",
        gzip.compress(GOOD[:-1]),
        "is cut short: its header says 3 x 4 values (12 bytes), but the file has only 11 of them.",
    ),
    ("truncated.gz", "a.gz", PACKED[:-9], "is cut short: its packed data have no end."),
    ("two bytes.gz", "a.gz", PACKED[:2], "is cut short: its packed data have no end."),
    (
        "trailing",
        "a",
        GOOD + b"\0",
        "is too long: its header says 3 x 4 values (12 bytes), but the file has more.",
    ),
    (
        "trailing inside",
        "a.gz",
        gzip.compress(GOOD + bytes(9)),
        "is too long: its header says 3 x 4 values (12 bytes), but the file has more.",
    ),
    (
        "not gzip",
        "a.gz",
        b"<html>",
        "is named .gz but is not packed with gzip: it begins with 3c 68.",
    ),
    (
        "unpacked but named .gz",
        "a.gz",
        GOOD,
        "is named .gz but is not packed with gzip: it begins with 00 00.",
    ),
    (
        "not IDX",
        "a",
        b"<html>",
        "is not an IDX file: it begins with 3c 68 74 6d, not with 00 00 08 and a rank.",
    ),
    (
        "not IDX inside",
        "a.gz",
        gzip.compress(b"hello, world"),
        "is not an IDX file: it begins with 68 65 6c 6c, not with 00 00 08 and a rank.",
    ),
    (
        "rank 0",
        "a",
        b"\0\0\x08\0\x01",
        "is not an IDX file: it begins with 00 00 08 00, not with 00 00 08 and a rank.",
    ),
    (
        "floats",
        "a",
        idx(np.zeros(2, np.float32), code=0x0D),
        "has dtype code 0x0d (float32), but this function reads only 0x08, unsigned bytes.",
    ),
    (
        "unknown dtype",
        "a",
        idx(np.zeros(2, np.uint8), code=0x07),
        "has dtype code 0x07 (which IDX does not define), but this function reads only 0x08, "
        "unsigned bytes.",
    ),
    (
        "zero",
        "a",
        struct.pack(">HBB2I", 0, 8, 2, 0, 4),
        "holds nothing: its header says 0 x 4 values.",
    ),
    (
        "absurd",
        "a",
        HUGE,
        "is too large: its header says 4000000000 x 28 x 28 values, but this function "
        "reads at most 1 GiB in 32 dimensions.",
    ),
    (
        "absurd inside",
        "a.gz",
        gzip.compress(HUGE),
        "is too large: its header says 4000000000 x 28 x 28 values, but this function "
        "reads at most 1 GiB in 32 dimensions.",
    ),
    (
        "absurd rank",
        "a",
        struct.pack(">HBB200I", 0, 8, 200, *[1] * 200) + b"\0",
        "is too large: its header says 1 x 1 x 1 x 1 x ... values, but this function "
        "reads at most 1 GiB in 32 dimensions.",
    ),
]


@pytest.mark.parametrize(
    ("name", "content", "text"), [case[1:] for case in UNREADABLE], ids=[c[0] for c in UNREADABLE]
)
def test_read_idx_refuses(tmp_path: Path, name: str, content: bytes, text: str) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(DatasetError) as caught:
        datasets.read_idx(file)
    assert str(caught.value) == f"The file {name} {text}\n  where: {file}\n{REPLACE}"


# inside the packed data, and in the checksum behind them
@pytest.mark.parametrize("at", [12, 20, -6])
def test_read_idx_refuses_damaged_gzip(tmp_path: Path, at: int) -> None:
    damaged = bytearray(PACKED)
    damaged[at] ^= 255
    file = tmp_path / "a.gz"
    file.write_bytes(damaged)
    with pytest.raises(DatasetError) as caught:
        datasets.read_idx(file)
    assert re.fullmatch(
        r"The file a\.gz is damaged: it does not unpack \([^\n]+\)\.\n"
        rf"  where: {re.escape(str(file))}\n{re.escape(REPLACE)}",
        str(caught.value),
    )


def test_read_idx_refuses_every_truncation(tmp_path: Path) -> None:
    file = tmp_path / "a.gz"
    for length in range(len(PACKED)):
        file.write_bytes(PACKED[:length])
        with pytest.raises(DatasetError, match=r"^The file a\.gz is (empty|cut short|named \.gz)"):
            datasets.read_idx(file)


def test_a_claim_takes_no_memory(tmp_path: Path) -> None:
    import tracemalloc

    file = tmp_path / "a.gz"
    file.write_bytes(gzip.compress(struct.pack(">HBB2I", 0, 8, 2, 1 << 15, 1 << 15) + bytes(10)))
    tracemalloc.start()
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    try:
        with pytest.raises(
            DatasetError, match=r"\(1,073,741,824 bytes\), but the file has only 10 of"
        ):
            datasets.read_idx(file)
        assert tracemalloc.get_traced_memory()[1] - before < 8 << 20
    finally:
        tracemalloc.stop()


def test_read_idx_on_what_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(DatasetError) as caught:
        datasets.read_idx(tmp_path / "none")
    assert str(caught.value) == (
        "The file none does not exist.\n"
        f"  where: {tmp_path / 'none'}\n"
        "  next:  Check the path. To find or download the files of MNIST, call datasets.mnist()."
    )
    with pytest.raises(DatasetError) as caught:
        datasets.read_idx(tmp_path)
    assert re.fullmatch(
        rf"The file {re.escape(tmp_path.name)} cannot be read: [^\n]+\.\n"
        rf"  where: {re.escape(str(tmp_path))}\n"
        r"  next:  Check that it is a file and that you may read it\.",
        str(caught.value),
    )


# ----------------------------------------------------------------------------------- files on the
# disk


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """The files of a small MNIST, whose md5 sums are expected: contents by name with `.gz`."""
    use_small_mnist(monkeypatch)
    random = np.random.default_rng(1)
    content = {}
    for half, count in (("train", 60), ("t10k", 20)):
        images = random.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        content[f"{half}-images-idx3-ubyte.gz"] = gzip.compress(idx(images), mtime=0)
        content[f"{half}-labels-idx1-ubyte.gz"] = gzip.compress(
            idx(np.arange(count, dtype=np.uint8) % 10), mtime=0
        )
    sums = {
        name[:-3]: hashlib.md5(packed, usedforsecurity=False).hexdigest()
        for name, packed in content.items()
    }
    use_md5s(monkeypatch, sums)
    return content


def fill(folder: Path, content: dict[str, bytes], *, packed: bool = True) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in content.items():
        (folder / (name if packed else name[:-3])).write_bytes(
            data if packed else gzip.decompress(data)
        )


def check_small(data: datasets.Dataset, small: dict[str, bytes]) -> None:
    assert repr(data) == "Dataset('mnist': 60 images to train on and 20 to test on, 28x28 uint8)"
    for name, array in zip(
        FILES,
        (data.train_images, data.train_labels, data.test_images, data.test_labels),
        strict=True,
    ):
        assert gzip.decompress(small[f"{name}.gz"]).endswith(array.tobytes())


@pytest.mark.parametrize("packed", [False, True])
def test_mnist_from_the_named_folder(
    tmp_path: Path,
    small: dict[str, bytes],
    monkeypatch: pytest.MonkeyPatch,
    capfd: Any,
    packed: bool,
) -> None:
    fill(tmp_path / "data" / "mnist", small, packed=packed)
    monkeypatch.setenv("IPU_TEACH_DATA", str(tmp_path / "data"))
    check_small(datasets.mnist(download=False), small)
    assert capfd.readouterr() == ("", "")


def test_mnist_from_the_cache(
    cache: Path, small: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(cache, small)
    check_small(datasets.mnist(download=False), small)
    monkeypatch.setenv("IPU_TEACH_DATA", str(cache / "nothing"))
    check_small(datasets.mnist(download=False), small)


def test_test_half_alone_is_split(
    tmp_path: Path,
    cache: Path,
    small: dict[str, bytes],
    monkeypatch: pytest.MonkeyPatch,
    capfd: Any,
) -> None:
    folder = tmp_path / "data" / "mnist"
    fill(folder, {name: data for name, data in small.items() if name.startswith("t10k")})
    fill(cache, small)  # the named folder comes first all the same
    monkeypatch.setenv("IPU_TEACH_DATA", str(tmp_path / "data"))
    data = datasets.mnist()
    assert (
        repr(data) == "Dataset('mnist-t10k': 16 images to train on and 4 to test on, 28x28 uint8)"
    )
    whole = datasets.read_idx(folder / "t10k-images-idx3-ubyte.gz")
    assert (data.train_images == whole[:16]).all() and (data.test_images == whole[16:]).all()
    assert data.train_labels.tolist() == [
        i % 10 for i in range(16)
    ] and data.test_labels.tolist() == [6, 7, 8, 9]
    assert capfd.readouterr() == (
        f"MNIST: {folder} holds the test half only, so its first 16 images are to train on and its "
        "last 4 to test on.\n",
        "",
    )


def test_no_download_says_where_it_looked(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IPU_TEACH_DATA", str(tmp_path / "data"))
    with pytest.raises(DatasetError) as caught:
        datasets.mnist(download=False)
    assert str(caught.value) == (
        "The four files of MNIST are not on this machine, and download=False forbids the "
        f"download.\n  where: {tmp_path / 'data' / 'mnist'} or {cache}\n  next:  Call datasets.mnist() "
        "to download them, copy them into one of these folders, or use datasets.digits(), which "
        "comes with the kit."
    )


def images_of(*shape: int) -> bytes:
    return idx(np.zeros(shape, np.uint8))


WRONG = [
    (
        "train-images-idx3-ubyte",
        images_of(60),
        "holds an array of shape (60,), but images of MNIST have shape (n, 28, 28).",
    ),
    (
        "train-images-idx3-ubyte",
        images_of(60, 14, 56),
        "holds an array of shape (60, 14, 56), but images of MNIST have shape (n, 28, 28).",
    ),
    (
        "t10k-labels-idx1-ubyte",
        images_of(20, 28, 28),
        "holds an array of shape (20, 28, 28), but labels of MNIST have shape (n,).",
    ),
    (
        "t10k-labels-idx1-ubyte",
        images_of(19),
        "holds 19 labels for the 20 images of t10k-images-idx3-ubyte.",
    ),
    (
        "train-labels-idx1-ubyte",
        images_of(61),
        "holds 61 labels for the 60 images of train-images-idx3-ubyte.",
    ),
    (
        "train-labels-idx1-ubyte",
        idx(np.array([9] * 7 + [10] * 53, np.uint8)),
        "holds labels that are not digits: label 7 is 10.",
    ),
    ("t10k-images-idx3-ubyte", b"", "is empty."),
]


@pytest.mark.parametrize(("name", "content", "text"), WRONG)
def test_wrong_files_are_refused_by_name(
    cache: Path, small: dict[str, bytes], name: str, content: bytes, text: str
) -> None:
    fill(cache, small, packed=False)
    (cache / name).write_bytes(content)
    with pytest.raises(DatasetError) as caught:
        datasets.mnist()
    assert str(caught.value) == f"The file {name} {text}\n  where: {cache / name}\n{REPLACE}"


def test_exchanged_halves_are_refused(cache: Path, small: dict[str, bytes]) -> None:
    fill(
        cache,
        {
            name.replace("t10k", "?").replace("train", "t10k").replace("?", "train"): small[name]
            for name in small
        },
    )
    with pytest.raises(DatasetError) as caught:
        datasets.mnist()
    assert str(caught.value) == (
        "The file train-images-idx3-ubyte.gz holds 20 images, but this half of MNIST has 60.\n"
        f"  where: {cache / 'train-images-idx3-ubyte.gz'}\n{REPLACE}"
    )


def test_cache_folder_of_each_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    monkeypatch.setattr(Path, "home", lambda: home)
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    for platform, folder in (
        ("linux", home / ".cache"),
        ("darwin", home / "Library" / "Caches"),
        ("win32", tmp_path / "local"),
    ):
        monkeypatch.setattr(sys, "platform", platform)
        assert datasets.cache_folder() == folder
    monkeypatch.setenv("LOCALAPPDATA", "")
    assert datasets.cache_folder() == home / "AppData" / "Local"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert datasets.cache_folder() == tmp_path / "xdg"

    def no_home() -> Path:
        raise RuntimeError("no home")

    monkeypatch.setattr(Path, "home", no_home)
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert datasets.cache_folder().is_dir()


# --------------------------------------------------------------------------------------------
# download


class Server(ThreadingHTTPServer):
    """Serves `content`; `mode` per file name, or "*" for all, says how it misbehaves."""

    daemon_threads = True

    def __init__(self, content: dict[str, bytes]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content = content
        self.mode: dict[str, str] = {}
        self.asked: list[tuple[str, str | None]] = []
        self.closing = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/some/mnist"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is part of these tests."""


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        name = self.path.rpartition("/")[2]
        asked = self.headers.get("Range")
        self.server.asked.append((name, asked))
        mode = self.server.mode.get(name, self.server.mode.get("*", ""))
        body = self.server.content.get(name)
        if body is None or mode == "404" or not self.path.startswith("/some/mnist/"):
            self.send_error(404)
            return
        if mode == "silent":
            self.server.closing.wait(5)
            return
        if mode == "hang up":
            return
        start = int(asked[len("bytes=") : -1]) if asked and mode != "no range" else 0
        if start >= len(body):
            self.send_error(416)
            return
        sent = b"<html>log in</html>" if mode == "other bytes" else body[start:]
        if mode == "flip":
            sent = sent[:-1] + bytes([sent[-1] ^ 1])
        self.send_response(206 if start else 200)
        if start:
            wrong = 1 if mode == "wrong range" else 0
            self.send_header("Content-Range", f"bytes {start + wrong}-{len(body) - 1}/{len(body)}")
        if mode != "no length":
            self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        if mode == "endless":
            while not self.server.closing.is_set():
                self.wfile.write(bytes(1 << 16))
        if mode in ("stall", "truncate", "truncate once"):
            sent = sent[: len(sent) // 2]
            if mode == "truncate once":
                self.server.mode[name] = ""
        self.wfile.write(sent)
        self.wfile.flush()
        if mode == "stall":
            self.server.closing.wait(5)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def server(small: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    running = Server(dict(small))
    thread = threading.Thread(
        target=running.serve_forever, kwargs={"poll_interval": 0.005}, daemon=True
    )
    thread.start()
    monkeypatch.setenv("IPU_TEACH_MNIST_URL", running.url)
    yield running
    running.closing.set()
    running.shutdown()
    running.server_close()
    thread.join()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_download(server: Server, cache: Path, small: dict[str, bytes], capfd: Any) -> None:
    check_small(datasets.mnist(), small)
    assert names(cache) == sorted(small)
    assert all((cache / name).read_bytes() == data for name, data in small.items())
    assert server.asked == [(f"{name}.gz", None) for name in FILES]
    out, progress = capfd.readouterr()
    assert out == "" and all(f"{name}.gz: 100%" in progress for name in FILES)
    check_small(datasets.mnist(), small)
    assert len(server.asked) == 4  # the second call found them in the cache
    assert capfd.readouterr() == ("", "")


def test_download_fetches_only_what_is_missing(
    server: Server, cache: Path, small: dict[str, bytes]
) -> None:
    fill(cache, {"train-labels-idx1-ubyte.gz": small["train-labels-idx1-ubyte.gz"]}, packed=False)
    check_small(datasets.mnist(), small)
    assert ("train-labels-idx1-ubyte.gz", None) not in server.asked and len(server.asked) == 3


def test_address_with_a_slash_and_no_length(
    server: Server, small: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IPU_TEACH_MNIST_URL", server.url + "/")
    server.mode["*"] = "no length"
    check_small(datasets.mnist(), small)


FIRST = "train-images-idx3-ubyte.gz"


def test_broken_transfer_goes_on_by_itself(server: Server, small: dict[str, bytes]) -> None:
    server.mode[FIRST] = "truncate once"
    check_small(datasets.mnist(), small)
    half = len(small[FIRST]) // 2
    assert server.asked[:2] == [(FIRST, None), (FIRST, f"bytes={half}-")]


def test_truncating_server(server: Server, cache: Path, small: dict[str, bytes]) -> None:
    size = len(small[FIRST])
    server.mode[FIRST] = "truncate"
    with pytest.raises(DatasetError) as caught:
        datasets.mnist()
    have = 0
    for _ in range(3):  # each attempt gets half of what is missing
        have += (size - have) // 2
    assert str(caught.value) == (
        f"The download of {FIRST} broke off 3 times: the connection closed after {have:,} of "
        f"{size:,} bytes.\n  where: {server.url}/{FIRST}\n{AGAIN}"
    )
    assert names(cache) == [f"{FIRST}.part"] and (cache / f"{FIRST}.part").stat().st_size == have
    server.mode.clear()
    server.asked.clear()
    check_small(datasets.mnist(), small)
    assert server.asked[0] == (FIRST, f"bytes={have}-")
    assert names(cache) == sorted(small)


@pytest.mark.parametrize("mode", ["no range", "wrong range"])
def test_server_that_cannot_go_on_in_the_middle(
    server: Server, cache: Path, small: dict[str, bytes], mode: str
) -> None:
    cache.mkdir(parents=True)
    (cache / f"{FIRST}.part").write_bytes(small[FIRST][:1000])
    server.mode["*"] = mode
    check_small(datasets.mnist(), small)
    assert server.asked[0] == (FIRST, "bytes=1000-") and names(cache) == sorted(small)


@pytest.mark.parametrize("left", ["other", "longer", "whole", "empty"])
def test_what_an_earlier_call_left(
    server: Server, cache: Path, small: dict[str, bytes], left: str
) -> None:
    content = {"other": bytes(1000), "longer": bytes(99_000), "whole": small[FIRST], "empty": b""}[
        left
    ]
    cache.mkdir(parents=True)
    (cache / f"{FIRST}.part").write_bytes(content)
    check_small(datasets.mnist(), small)
    asked = [range_ for name, range_ in server.asked if name == FIRST]
    assert (
        asked
        == {
            "other": ["bytes=1000-", None],
            "longer": ["bytes=99000-", None],
            "whole": [],
            "empty": [None],
        }[left]
    )
    assert names(cache) == sorted(small)


def test_part_of_a_killed_program_is_used_and_of_a_running_one_is_not(
    server: Server, cache: Path, small: dict[str, bytes]
) -> None:
    cache.mkdir(parents=True)
    killed, running = cache / f"{FIRST}.1-aa.part", cache / "t10k-images-idx3-ubyte.gz.2-bb.part"
    killed.write_bytes(small[FIRST][:1000])
    os.utime(killed, (time.time() - 100,) * 2)
    running.write_bytes(small["t10k-images-idx3-ubyte.gz"][:1000])
    check_small(datasets.mnist(), small)
    assert [asked for asked in server.asked if asked[1]] == [(FIRST, "bytes=1000-")]
    assert names(cache) == sorted([*small, running.name])


def test_two_at_once(server: Server, cache: Path, small: dict[str, bytes]) -> None:
    results: list[datasets.Dataset] = []
    threads = [threading.Thread(target=lambda: results.append(datasets.mnist())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 3
    for data in results:
        check_small(data, small)
    assert names(cache) == sorted(small)


@pytest.mark.parametrize("mode", ["other bytes", "flip"])
def test_other_bytes_are_refused(
    server: Server, cache: Path, small: dict[str, bytes], mode: str
) -> None:
    server.mode[FIRST] = mode
    data = small[FIRST]
    sent = b"<html>log in</html>" if mode == "other bytes" else data[:-1] + bytes([data[-1] ^ 1])
    with pytest.raises(DatasetError) as caught:
        datasets.mnist()
    seen, right = (
        hashlib.md5(content, usedforsecurity=False).hexdigest() for content in (sent, data)
    )
    assert str(caught.value) == (
        f"The download of {FIRST} is not the file of MNIST: its md5 is {seen} and should be "
        f"{right}.\n  where: {server.url}/{FIRST}\n  next:  Try again. If it happens again, a "
        "proxy or a log-in page changes the file, or the address is wrong. Then set "
        "IPU_TEACH_MNIST_URL to another mirror."
    )
    assert names(cache) == []
    server.mode.clear()
    check_small(datasets.mnist(), small)


def test_endless_answer_is_stopped(
    server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasets, "_LARGEST_DOWNLOAD", 1 << 18)
    server.content[FIRST] = bytes(1 << 19)
    server.mode[FIRST] = "endless"
    with pytest.raises(DatasetError, match="is not the file of MNIST"):
        datasets.mnist()
    assert names(cache) == []


def test_stall_times_out_and_a_later_call_goes_on(
    server: Server, cache: Path, small: dict[str, bytes]
) -> None:
    half = len(small[FIRST]) // 2
    server.mode[FIRST] = "stall"
    with pytest.raises(DatasetError) as caught:
        datasets.mnist(timeout=0.2)
    assert str(caught.value) == (
        f"The download of {FIRST} stalled: the server sent nothing for 0.2 s, after {half:,} bytes.\n  where: "
        f"{server.url}/{FIRST}\n{AGAIN}"
    )
    assert names(cache) == [f"{FIRST}.part"]
    server.mode.clear()
    check_small(datasets.mnist(), small)
    assert server.asked[1] == (FIRST, f"bytes={half}-")


def test_server_that_never_answers(server: Server, cache: Path) -> None:
    server.mode["*"] = "silent"
    with pytest.raises(DatasetError) as caught:
        datasets.mnist(timeout=0.2)
    assert str(caught.value) == (
        f"The download of {FIRST} stalled: the server sent nothing for 0.2 s, after 0 bytes.\n  where: "
        f"{server.url}/{FIRST}\n{AGAIN}"
    )
    assert names(cache) == []


def test_server_that_hangs_up(server: Server) -> None:
    server.mode["*"] = "hang up"
    with pytest.raises(DatasetError) as caught:
        datasets.mnist()
    assert str(caught.value) == (
        f"The download of {FIRST} broke off 3 times: Remote end closed connection without "
        f"response.\n  where: {server.url}/{FIRST}\n{AGAIN}"
    )


def test_server_that_refuses(server: Server, cache: Path) -> None:
    server.mode["t10k-images-idx3-ubyte.gz"] = "404"
    with pytest.raises(DatasetError) as caught:
        datasets.mnist()
    assert str(caught.value) == (
        "The server refused to send t10k-images-idx3-ubyte.gz: 404 Not Found.\n"
        f"  where: {server.url}/t10k-images-idx3-ubyte.gz\n"
        "  next:  Check the address in IPU_TEACH_MNIST_URL, or unset it to use the "
        "default. Without MNIST, use datasets.digits(), which comes with the kit."
    )
    assert names(cache) == ["train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"]


def test_interrupt_leaves_no_half_file(
    server: Server, cache: Path, small: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    import tqdm

    class Interrupted(tqdm.tqdm):  # type: ignore[type-arg]
        def update(self, n: float | None = 1) -> bool | None:
            raise KeyboardInterrupt

    monkeypatch.setattr(datasets, "_CHUNK", 1000)
    with monkeypatch.context() as patch:
        patch.setattr(tqdm, "tqdm", Interrupted)
        with pytest.raises(KeyboardInterrupt):
            datasets.mnist()
    assert names(cache) == [f"{FIRST}.part"]
    have = (cache / f"{FIRST}.part").stat().st_size
    assert 0 < have <= 1000
    check_small(datasets.mnist(), small)
    assert server.asked[1] == (FIRST, f"bytes={have}-") and names(cache) == sorted(small)


def test_offline_says_so_in_one_line(
    server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    server.closing.set()
    server.shutdown()
    server.server_close()  # nobody listens at this port any more
    data = datasets.mnist()
    assert repr(data) == repr(datasets.digits())
    out, progress = capfd.readouterr()
    assert progress == ""
    assert re.fullmatch(
        rf"MNIST is not in {re.escape(str(cache))} and cannot be downloaded from {re.escape(server.url)}/ \([^\n]+\): "
        r"using the 1,797 digits that come with the kit instead\.\n",
        out,
    )


@pytest.mark.parametrize(
    "address",
    [
        "ftp://host/mnist",
        "mnist",
        "http://",
        "http://host:port/",
        "http://a b/",
        "http://host/ö",
        "http://[::",
    ],
)
def test_unusable_address(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv("IPU_TEACH_MNIST_URL", address)
    with pytest.raises(DatasetError) as caught:
        datasets.mnist()
    assert str(caught.value) == (
        f"MNIST cannot be downloaded from {address!r}, which is not an address of the form "
        "http://... or https://...\n  where: the environment variable IPU_TEACH_MNIST_URL\n  "
        "next:  Set it to the folder on a server that holds the four .gz files, or unset it to use "
        "the default address."
    )


def test_cache_that_cannot_be_written(server: Server, cache: Path) -> None:
    cache.parent.mkdir(parents=True)
    cache.write_bytes(b"")  # a file where the folder should be
    with pytest.raises(DatasetError) as caught:
        datasets.mnist()
    assert re.fullmatch(
        rf"The download of {re.escape(FIRST)} cannot be stored: [^\n]+\.\n"
        rf"  where: {re.escape(str(cache))}\n"
        r"  next:  Make room there, or set XDG_CACHE_HOME to a folder that you may write\. "
        r"Without MNIST, use datasets\.digits\(\), which comes with the kit\.",
        str(caught.value),
    )
    assert server.asked == []


def test_the_real_md5s_and_address() -> None:
    """The other tests replace these private constants."""
    assert datasets.DEFAULT_URL == "https://ossci-datasets.s3.amazonaws.com/mnist/"
    assert tuple(datasets._MD5) == FILES
    assert datasets._COUNTS == {"train": 60_000, "t10k": 10_000} and datasets._HALF_SPLIT == 8_000


# -------------------------------------------------------------------------------------- the real
# MNIST


@pytest.mark.skipif(
    not REAL_DATA, reason="IPU_TEACH_DATA is unset: no MNIST on this machine to test with"
)
def test_real_test_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    folder = tmp_path / "data" / "mnist"
    folder.mkdir(parents=True)
    for stem in FILES[2:]:
        file = Path(REAL_DATA) / "mnist" / f"{stem}.gz"
        if not file.exists():
            file = file.with_suffix("")
        assert file.exists(), (
            f"IPU_TEACH_DATA is {REAL_DATA}, and {REAL_DATA}/mnist does not hold {stem}.gz"
        )
        copy = Path(shutil.copy(file, folder))
        digest = hashlib.md5(copy.read_bytes(), usedforsecurity=False).hexdigest()
        assert copy.suffix != ".gz" or digest == datasets._MD5[stem]
    monkeypatch.setenv("IPU_TEACH_DATA", str(tmp_path / "data"))
    data = datasets.mnist(download=False)
    assert (
        repr(data)
        == "Dataset('mnist-t10k': 8,000 images to train on and 2,000 to test on, 28x28 uint8)"
    )
    assert capfd.readouterr().out == (
        f"MNIST: {folder} holds the test half only, so its first 8,000 images are to train on and "
        "its last 2,000 to test on.\n"
    )
    assert data.train_labels[:10].tolist() == [7, 2, 1, 0, 4, 1, 4, 9, 5, 9]
    counts = np.bincount(np.concatenate([data.train_labels, data.test_labels]))
    assert counts.tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert data.train_images.max() == 255 and data.test_images.max() == 255
