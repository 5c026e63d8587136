"""Give damaged and hostile files to everything in the kit that reads a file.

A mutant is a good file in which some bytes, texts or values are changed. A reader must either read
it or raise an error of the kit that names the file and gives a next step. Any other error, a hang,
or a loss of the learner's data is a failure. No code in a file may run: each mutant carries code
that would leave a mark.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import pickle
import re
import signal
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import numpy as np
import pytest
from codelets import Sum
from damage import lied, parts, whole
from dataset_files import use_digits, use_small_mnist

from ipu_course import hint, lab
from ipu_course.checking import gaps, learner, notebooks, overview, state
from ipu_course.classroom import board, roster
from ipu_course.classroom.fresh import begin_afresh
from ipu_teach import (
    FLOAT,
    UNSIGNED_INT,
    Engine,
    Executable,
    Graph,
    IPUModel,
    Report,
    datasets,
    print_profile_summary,
)
from ipu_teach.errors import IPUTeachError
from ipu_teach.frontends import ir
from ipu_teach.frontends.ir.saved import graph_to_bytes
from ipu_teach.program import Copy, Execute, Repeat, Sequence

ROOT = Path(__file__).resolve().parents[2]
LONGEST = 60  # seconds for one file, also on a busy machine
MARK = "was_run"  # the file that code in a mutant would write
HOSTILE: list[Any] = [
    *(
        -1,
        0,
        1,
        2,
        10**6,
        2**31,
        2**40,
        2**63,
        2**70,
        1.5,
        1e400,
        None,
        True,
        "",
        "x",
        "=",
        "u1",
        "FLOAT",
        "code",
        [],
        {},
    ),
    *(
        [1],
        [[]],
        [None],
        ["x", 1],
        {"x": 1},
        ["=", 3, 2**27],
        [2**40] * 2,
        "\ud800",
        "\0",
        "a\nb",
        "<<<<<<< HEAD\n=======\n",
    ),
]


class Hung(BaseException):
    """Reading a file took longer than `LONGEST`."""


# Faults in bytes, in texts, and in the content of files


def bitten(data: bytes, rng: Random) -> bytes:
    """Return the data with some bytes changed, removed, doubled or added."""
    made = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 8])):
        at, most = rng.randrange(len(made) + 1), rng.choice([1, 4, 64, 4096])
        match rng.randrange(6):
            case 0 if made:
                made[min(at, len(made) - 1)] ^= 1 << rng.randrange(8)
            case 1:
                del made[at:]
            case 2:
                del made[at : at + most]
            case 3:
                made[at:at] = made[at : at + most]
            case 4:
                made[at:at] = rng.randbytes(rng.randrange(most))
            case _:
                made[at : at + 4] = rng.choice(
                    [b"\0\0\0\0", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x01\0\0\0"]
                )
    return bytes(made)


NONSENSE = [
    *(
        "[" * 100_000,
        '{"a":' * 900 + "1" + "}" * 900,
        "[" * 400 + "]" * 400,
        "NaN",
        "1e400",
        "9" * 5000,
    ),
    *(
        '"\\ud800"',
        '"\\u0000"',
        "null",
        "[]",
        "{}",
        "//",
        "<<<<<<< HEAD",
        '"\\',
        "\0",
        "\ufeff",
        "-",
    ),
]


def misspelt(text: str, rng: Random) -> bytes:
    """Return JSON with nonsense in place of one of its values, or in another encoding."""
    if rng.randrange(8) == 0:
        return text.encode(rng.choice(["utf-16", "utf-8-sig", "utf-32", "cp037"]), "replace")
    places = list(re.finditer(r'"(?:[^"\\]|\\.)*"|-?\d+|null|true|false|[\[\]{},:]', text))
    hit = rng.choice(places)
    return (text[: hit.start()] + rng.choice(NONSENSE) + text[hit.end() :]).encode("utf-8")


def damaged_json(value: dict[str, Any], rng: Random) -> bytes:
    """Return a JSON file with a fault."""
    way = rng.randrange(6)
    if way == 0:
        return bitten(json.dumps(value).encode(), rng)
    if way == 1:
        return misspelt(json.dumps(value), rng)
    for _ in range(rng.choice([1, 1, 2, 3])):
        value = lied(value, HOSTILE, rng) if value else value
    return json.dumps(value).encode()


def damaged_file(data: bytes, rng: Random) -> bytes:
    """Return a damaged report or executable: damaged JSON in a good container, or vice versa."""
    if rng.randrange(3) == 0:
        return bitten(data, rng)
    header, arrays = parts(data)
    if arrays and rng.randrange(4) == 0:
        name = rng.choice(list(arrays))
        arrays[name] = rng.choice(
            [bitten(arrays[name], rng), claims((2**50,), "<i8"), claims((0,), "|O") + explosive()]
        )
    text = damaged_json(header, rng).decode("utf-8", "replace")
    return whole(text, arrays, rng.choice([zipfile.ZIP_STORED] * 4 + [zipfile.ZIP_DEFLATED]))


def explosive() -> bytes:
    """Return a pickle that leaves a mark when it is loaded."""

    class Bomb:
        def __reduce__(self) -> Any:
            return os.mkdir, (MARK,)

    return pickle.dumps(Bomb())


def claims(shape: tuple[int, ...], dtype: str) -> bytes:
    """Return the header of an array file with this shape and dtype, without values."""
    text = f"{{'descr': {dtype!r}, 'fortran_order': False, 'shape': {shape!r}}}\n".encode()
    return b"\x93NUMPY\x01\0" + struct.pack("<H", len(text)) + text


# Good files and their mutants


@cache
def digits() -> dict[str, np.ndarray[Any, Any]]:
    """Return the arrays of the digits."""
    with np.load(ROOT / "datasets" / "digits8.npz") as file:
        return {name: file[name] for name in file.files}


def member(array: np.ndarray[Any, Any]) -> bytes:
    """Return an array as a file."""
    out = io.BytesIO()
    np.save(out, array, allow_pickle=False)
    return out.getvalue()


@cache
def compressed_zeros() -> bytes:
    """Return 64 MB of zeros, compressed as in a zip file."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return b"".join(packer.compress(bytes(1 << 20)) for _ in range(64)) + packer.flush()


def damaged_digits(rng: Random) -> bytes:
    """Return the digits with a fault.

    They have another shape, dtype, value or count, a member that is not an array, or a container
    with a wrong header.
    """
    arrays = dict(digits())
    name = rng.choice(list(arrays))
    old = arrays[name]
    odd: list[Callable[[], Any]] = [
        lambda: old[: rng.randrange(len(old))],
        lambda: np.concatenate([old, old[: rng.choice([1, len(old)])]]),
        lambda: old.reshape(rng.choice([(-1, 1), (1, -1), (-1,)])),
        lambda: old.astype(
            rng.choice(["f4", "f8", "i8", "u8", "c16", "?", "S3", "U2", "M8[s]", "i1"])
        ),
        lambda: np.full_like(old, rng.choice([0, 10, 17, 255])),
        lambda: np.where(
            rng.randrange(len(old)) == np.arange(old.size).reshape(old.shape),
            rng.choice([10, 99, 200]),
            old,
        ),
        lambda: old[::-1],
        lambda: rng.choice(list(digits().values())),
        lambda: np.zeros(rng.choice([(), (0,), (1,) * 32])),
        lambda: old.astype([("a", old.dtype)]),
    ]
    arrays[name] = np.asarray(rng.choice(odd)())
    members = {
        f"{key}.npy": member(array)
        for key, array in (arrays if rng.randrange(2) else digits()).items()
    }
    way = rng.randrange(8)
    if way == 0:
        huge = [
            (2**40,),
            (2**62, 2**62),
            (1797, 8, 2**30),
            (-1,),
            (2**70,),
            (297, 1.5),
            (True,),
            (10**9,),
        ]
        members[f"{name}.npy"] = claims(
            rng.choice(huge), rng.choice(["|u1", "<f8", "|O", "<U99999", "V9"])
        ) + bytes(rng.randrange(99))  # type: ignore[arg-type]
    elif way == 1:
        members[f"{name}.npy"] = rng.choice(
            [explosive(), claims((1797, 8, 8), "|O") + explosive(), b"", b"no array"]
        )
    elif way == 2:
        members[f"{name}.npy"] = bitten(members[f"{name}.npy"], rng)
    elif way == 3:
        del members[f"{name}.npy"]
        members[rng.choice(["../x.npy", "/x.npy", name, f"{name}.NPY", "x" * 999])] = b"x"
    kind = rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", kind, compresslevel=1) as file:
        for key, content in members.items():
            file.writestr(key, content)
    data = bytearray(out.getvalue())
    way = rng.randrange(10)
    if way == 0:  # marked as encrypted, with an unknown compression, or with another size
        offset, content = rng.choice(
            [(6, b"\1\0"), (8, b"\x63\0"), (22, b"\xff\xff\xff\x7f"), (18, b"\xff\xff\xff\x7f")]
        )
        for sign, shift in (b"PK\3\4", 0), (b"PK\1\2", 2):
            for hit in list(re.finditer(re.escape(sign), bytes(data))):
                data[hit.start() + offset + shift : hit.start() + offset + shift + len(content)] = (
                    content
                )
    elif way == 1:
        return bitten(bytes(data), rng)
    elif way == 2 and rng.randrange(20) == 0:
        return zip_bomb(f"{name}.npy")
    elif way == 3:
        return rng.choice([member(old), explosive(), b"", b"PK\5\6" + bytes(18)])
    return bytes(data)


def zip_bomb(name: str) -> bytes:
    """Return a zip file whose single member unpacks to 64 MB."""
    packed, long = compressed_zeros(), zlib.crc32(bytes(64 << 20))
    fields = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 33, long, len(packed), 64 << 20, len(name), 0)
    local = b"PK\3\4" + fields + name.encode() + packed
    central = (
        b"PK\1\2"
        + struct.pack("<H", 20)
        + fields
        + struct.pack("<HHHII", 0, 0, 0, 0, 0)
        + name.encode()
    )
    end = b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(central), len(local), 0)
    return local + central + end


def idx(array: np.ndarray[Any, Any]) -> bytes:
    """Return an IDX file of unsigned bytes."""
    return (
        bytes([0, 0, 8, array.ndim])
        + struct.pack(f">{array.ndim}I", *array.shape)
        + array.astype(np.uint8).tobytes()
    )


IMAGES, LABELS = "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"


def damaged_idx(rng: Random) -> bytes:
    """Return damaged images of a small MNIST: another header, other values or other bytes.

    They are packed or not.
    """
    shape = rng.choice(
        [(20, 28, 28)] * 3 + [(19, 28, 28), (20, 28), (20, 27, 28), (0, 28, 28), (1,) * 32]
    )
    data = idx(np.zeros(shape))
    if rng.randrange(2):
        at = rng.randrange(4 * len(shape) + 4)
        data = (
            data[:at]
            + rng.choice([b"\xff", b"\0", b"\x0d", b"\x7f\xff\xff\xff", b"\3"])
            + data[at + 1 :]
        )
    if rng.randrange(2):
        data = gzip.compress(data + (bytes(rng.choice([0, 1, 1 << 20]))), 1)
    return bitten(data, rng) if rng.randrange(3) else data


def cell(kind: str, source: Any, **besides: Any) -> dict[str, Any]:
    """Return a cell of a notebook."""
    code = {"outputs": [], "execution_count": 1} if kind == "code" else {}
    return {
        "cell_type": kind,
        "id": f"c{zlib.crc32(repr(source).encode())}",
        "metadata": {},
        "source": source,
        **code,
        **besides,
    }


GAP = (
    "def f(x):\n    # BEGIN SOLUTION 01.1: return it\n    y = x\n    return y\n    # END SOLUTION\n"
)
SOLVED = {
    "cells": [
        cell("markdown", ["# A lesson\n", "of few words"]),
        cell(
            "code",
            f"import os\nos.mkdir({MARK!r})",
            outputs=[{"output_type": "stream", "name": "stdout", "text": ["1\n"]}],
        ),
        cell("code", GAP.splitlines(keepends=True)),
        cell("code", ['check("01.1", f)']),
        cell("markdown", "The end."),
    ],
    "metadata": {
        "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}
    },
    "nbformat": 4,
    "nbformat_minor": 5,
}
SPOILT_LINES = [
    *(
        "    # BEGIN SOLUTION 01.2: again",
        "# END SOLUTION",
        "# BEGIN SOLUTION",
        "<<<<<<< ours",
        "=======",
        ">>>>>>> theirs",
    ),
    *(
        "def (",
        "    ",
        "x = '",
        "\0",
        "\ud800",
        "é = \ud83d",
        "(" * 300,
        "-" * 5000 + "1",
        "%matplotlib",
        "return",
        "\t1",
    ),
    *("class C:", "x = 1" * 9999),
]


def damaged_notebook(rng: Random) -> bytes:
    """Return a damaged solved notebook.

    It is not JSON, or has a cell of the wrong type, or text that is not a program.
    """
    if rng.randrange(3):
        return damaged_json(SOLVED, rng)
    made = json.loads(json.dumps(SOLVED))
    for _ in range(rng.choice([1, 1, 3])):
        chosen = rng.choice(made["cells"])
        lines = "".join(chosen["source"]).splitlines(keepends=True)
        at = rng.randrange(len(lines) + 1)
        lines[at : at + rng.randrange(2)] = [rng.choice(SPOILT_LINES) + "\n"]
        chosen["source"] = rng.choice([lines, "".join(lines)])
    return json.dumps(made).encode()


def good_notebook() -> bytes:
    """Return the undamaged solved notebook."""
    return json.dumps(SOLVED).encode()


def edited(rng: Random) -> bytes:
    """Return a learner's copy after a day's work.

    Cells are deleted, split, doubled, merged, moved, filled, or of another type.
    """
    book = json.loads(
        rng.choice(sorted((ROOT / "notebooks").glob("0*.ipynb"))).read_text(encoding="utf-8")
    )
    cells = book["cells"]
    for _ in range(rng.randrange(1, 12)):
        at = rng.randrange(len(cells))
        source = "".join(cells[at]["source"])
        cut = rng.randrange(len(source) + 1)
        match rng.randrange(7):
            case 0 if len(cells) > 1:
                del cells[at]
            case 1:
                cells[at : at + 1] = [
                    {**cells[at], "source": source[:cut]},
                    {**cells[at], "source": source[cut:]},
                ]
            case 2:
                cells[at] = cell(rng.choice(["code", "markdown", "raw"]), source)
            case 3:
                # with the same id, as some editors do
                cells.insert(rng.randrange(len(cells) + 1), cells[at])
            case 4:
                cells[at : at + 2] = [
                    {
                        **cells[at],
                        "source": "\n".join("".join(one["source"]) for one in cells[at : at + 2]),
                    }
                ]
            case 5:
                cells.append(cells.pop(at))
            case _:
                cells[at] = {
                    **cells[at],
                    "source": source[:cut] + rng.choice(SPOILT_LINES[6:]) + source[cut:],
                }
    return json.dumps(book).encode()


RECORDS: dict[str, Any] = {
    "01.0": {"prediction": [250]},
    "01.1": {
        "state": "not yet",
        "attempts": 4,
        "kinds": {"not yet": 3, "error": 1},
        "said": {"too small": 2},
        "hints": 1,
        "shared": {
            "line": "01.1 digest 1f0c2a77d3b9, code 8e4d0f2b61aa",
            "code": f"__import__('os').mkdir({MARK!r})",
        },
    },
    "02.1": {"state": "solved", "attempts": 1, "kinds": {"passed": 1}},
}
PROGRESS = {"format": 1, "name": "Ada", "records": RECORDS}


@cache
def compiled() -> tuple[bytes, bytes]:
    """Return a small report and a small executable."""
    graph = Graph(IPUModel(tiles_per_ipu=2).create_device().target)
    values, out = (
        graph.add_variable(FLOAT, (4, 3), "values"),
        graph.add_variable(FLOAT, (4,), "out"),
    )
    cs = graph.add_compute_set("sums")
    for row in range(4):
        graph.set_tile_mapping(values[row], row % 2)
        graph.set_tile_mapping(out[row], (row + 1) % 2)
        graph.set_tile_mapping(graph.add_vertex(cs, Sum, x=values[row], out=out[row]), row % 2)
    graph.set_initial_value(values, np.arange(12, dtype=np.float32).reshape(4, 3))
    graph.create_host_read("out", out)
    engine = Engine(graph, Sequence(Repeat(2, Execute(cs)), Copy(out, values[:, 0])))
    engine.load(IPUModel(tiles_per_ipu=2).create_device())
    engine.run()
    return engine.report.serialize(), engine.executable.serialize()


# Readers


def forget_progress() -> None:
    """Let the course read the learner's progress from its file again."""
    state._kept.cache_clear()


def read_digits(file: Path) -> None:
    """Read the digits, as every lesson that trains does."""
    with pytest.MonkeyPatch.context() as patch:
        use_digits(patch, file)
        found = datasets.digits()
    assert found.train_images.shape == (1500, 28, 28) and found.test_images.shape == (
        297,
        28,
        28,
    ), "wrong shape"
    assert found.train_labels.max() <= 9 and len(found.test_labels) == 297, "wrong labels"


def read_images(file: Path) -> None:
    """Read images of MNIST, with matching labels."""
    labels = file.with_name(LABELS)
    labels.write_bytes(idx(np.arange(20) % 10))
    with pytest.MonkeyPatch.context() as patch:
        use_small_mnist(patch)
        images, _ = datasets._read_half({IMAGES: file, LABELS: labels}, "t10k")
    assert images.shape == (20, 28, 28) and images.dtype == np.uint8, "wrong shape"


def read_solved(file: Path) -> None:
    """Read a solved notebook, as `learner`, `learner --check` and `given` do.

    If it is refused, the learner's notebook must stay unchanged.
    """
    target, before = file.parents[1] / file.name, b"the notebook of a learner"
    target.write_bytes(before)
    try:
        with mock.patch.object(notebooks, "NOTEBOOKS", file.parents[1]):
            gaps._references.cache_clear()  # the solved notebook is another one now
            gaps.reference("01.1")
            learner.write()
            assert learner.check() == 0, "what was just written is refused"
    except IPUTeachError:
        assert target.read_bytes() == before or json.loads(target.read_bytes()), (
            "the learner's notebook is lost"
        )
        raise
    finally:
        assert not [p for p in target.parent.iterdir() if p.name.endswith(".part")], (
            "half a file is left"
        )


def read_learners(file: Path) -> None:
    """Read a notebook that somebody edited, as `learner --check` does."""
    (file.parent / "solutions").mkdir(exist_ok=True)
    (file.parent / "solutions" / file.name).write_text(json.dumps(SOLVED), encoding="utf-8")
    with mock.patch.object(notebooks, "NOTEBOOKS", file.parent):
        learner.check()


def keep_copy(file: Path) -> None:
    """Check that no command loses the learner's work.

    These are `lab`, `reset`, `learner`, `progress()` and `class --fresh`.
    """
    book, work, mine = file.parents[1] / "notebooks", file.parent, file.read_bytes()
    (book / "solutions").mkdir(parents=True)
    (book / "solutions" / file.name).write_text(json.dumps(SOLVED), encoding="utf-8")
    (work / "progress.json").write_text(json.dumps(PROGRESS), encoding="utf-8")
    started: list[list[str]] = []
    with (
        mock.patch.object(notebooks, "NOTEBOOKS", book),
        mock.patch.object(notebooks, "_trust"),
        mock.patch.object(lab, "become", lambda command, env: started.append(command)),
        mock.patch.dict(os.environ, {"IPU_TEACH_WORK": str(work)}),
    ):
        learner.write()
        lab.lab("01", [])
        assert file.read_bytes() == mine, "lab changed the copy"
        assert any(word.endswith(file.name) for word in started[0]), "lab opens another copy"
        assert learner.reset("01") == 0 and learner.check() == 0, "reset or learner does not go on"
        assert file.read_bytes() == (book / file.name).read_bytes(), "the fresh copy is not fresh"
        lab.lab("01", [])
        forget_progress()
        assert repr(overview.progress()).startswith("1 of "), "progress is lost"
        begin_afresh([str(work)], True)
    kept = [path.read_bytes() for path in work.rglob("*.ipynb")]
    assert mine in kept, "the learner's copy is lost"


def read_progress(file: Path) -> None:
    """Read progress, as a lesson and the class page do.

    A file that is not progress is kept under another name; unchanged entries stay in the file.
    """
    before = file.read_bytes()
    found = roster.called([str(file.parent)])
    shown = board.text(board.tables(found)) + board.html(board.tables(found)) + board.to_csv(found)
    assert shown.encode("utf-8", "replace"), "nothing is shown"
    with mock.patch.dict(os.environ, {"IPU_TEACH_WORK": str(file.parent)}):
        forget_progress()
        repr(overview.progress())
        overview.progress()._repr_html_().encode("utf-8", "replace")
        hint("01.1")
    kept = [p.read_bytes() for p in file.parent.glob("progress.damaged-*.json")]
    if before in kept:
        return
    was, now = json.loads(before), json.loads(file.read_bytes())
    if was["format"] > state.FORMAT:
        assert file.read_bytes() == before, "a newer file was changed"
        return
    hint_of = now["records"].pop("01.1")
    old = was["records"].pop("01.1", {})
    assert now == was, "records of other exercises are lost"
    assert not isinstance(old, dict) or {**old, "hints": 0} == {**hint_of, "hints": 0}, (
        "the record of the exercise is lost"
    )


def read_report(file: Path) -> None:
    """Read a report, as `ipu-teach report` does."""
    report = Report.open(file)
    if report.target.num_tiles < 1000 and report.num_steps < 1000:
        print_profile_summary(
            report, show_execution_steps=True, show_var_storage=True, file=io.StringIO()
        )
        report.insights()
        report.digest()


def read_executable(file: Path) -> None:
    """Read an executable, as `Executable.load` does."""
    repr(Executable.load(file, codelets=[Sum]))


@cache
def model() -> bytes:
    """Return a file of a small network with its training."""
    graph = ir.Ir()
    x, y = graph.input((2, 2, 6, 6), "x"), graph.input((2,), "y", UNSIGNED_INT)
    h = ir.conv(graph, x, graph.variable(np.ones((4, 2, 3, 3), np.float32), "w"), lower=1)
    h = ir.norm(graph, "group", graph.op("relu", h), groups=2)
    h = graph.op("reshape", ir.dropout(graph, ir.pool(graph, "max_pool", h, 2)), shape=(2, -1))
    loss = graph.output("loss", ir.cross_entropy(graph, h, y))
    step, grads = ir.autodiff(graph, loss)
    return graph_to_bytes(ir.off_chip(ir.optimise(step, grads, "adam", 0.1)))


def read_model(file: Path) -> None:
    """Read a model, as `ir.load` does, and write it again."""
    graph_to_bytes(ir.load(file))


# the path of the file, its mutants, and its reader
Parser = tuple[str, Callable[[Random], bytes], Callable[[Path], None]]
PARSERS: dict[str, Parser] = {
    "digits": ("digits8.npz", damaged_digits, read_digits),
    "IDX": (f"{IMAGES}.gz", damaged_idx, read_images),
    "solved notebook": ("solutions/01_x.ipynb", damaged_notebook, read_solved),
    "learner's notebook": ("01_x.ipynb", damaged_notebook, read_learners),
    "learner's copy": ("work/01_x.ipynb", edited, keep_copy),
    "progress": ("progress.json", lambda rng: damaged_json(PROGRESS, rng), read_progress),
    "report": ("run.ipureport", lambda rng: damaged_file(compiled()[0], rng), read_report),
    "executable": ("run.ipu", lambda rng: damaged_file(compiled()[1], rng), read_executable),
    "model": ("net.ipumodel", lambda rng: damaged_file(model(), rng), read_model),
}


@contextlib.contextmanager
def bounded(seconds: float) -> Iterator[None]:
    """Raise `Hung` if the block takes longer, on systems with alarms."""

    def ring(*_: object) -> None:
        raise Hung

    if not hasattr(signal, "setitimer"):
        yield
        return
    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def one_file(name: str, seed: int, folder: Path) -> tuple[str, str]:
    """Read mutant number `seed` of a kind of file in an empty `folder`.

    Return how it ended, and what is wrong with that ("" if nothing).
    """
    path, mutant, read = PARSERS[name]
    content = mutant(Random(seed))
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    ended, wrong, here = f"{name} read", "", os.getcwd()
    os.chdir(folder)  # code that runs would leave its mark here
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            with bounded(LONGEST):
                read(file)
        except IPUTeachError as error:
            ended = f"{name} refused"
            if (
                not re.search(rf"{re.escape(file.name)}|exercise|of 01\.1", str(error))
                or not error.next_step
            ):
                wrong = f"does not name the file, or what to do: {error}"
        except Hung:
            wrong = f"takes more than {LONGEST} s"
        except AssertionError as error:
            wrong = str(error) or "AssertionError"
        except Exception as error:
            wrong = f"{type(error).__name__}: {str(error)[:300]}"
        finally:
            os.chdir(here)
    if (folder / MARK).exists():
        wrong = "what stands in the file was run"
    return (
        ended,
        wrong and f"{name}, {len(content):,} bytes beginning with {content[:60]!r}: {wrong}",
    )
