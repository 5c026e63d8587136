"""Scalar loops as machine code: compiled by numba where that is installed, and kept in the user's
cache folder.

numba is imported when a loop is first compiled, and not before. Whatever goes wrong with the cache
(a full disk, a home that cannot be written, another process in between), the loop is compiled
without one. A text holds no addresses and no data, so that its name can be a hash of it; numba
itself looks whether the processor is the same.

`IPU_TEACH_NUMBA=0` leaves numba alone; `IPU_TEACH_CACHE` names another folder.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from ipu_teach import datasets
from ipu_teach._support.places import write_whole
from ipu_teach._support.progress import working
from ipu_teach.types import Array

Loop = Callable[..., int]

# Of CPython's object and numpy's PyUFuncObject (numpy/ufuncobject.h): the places of its counts and
# of its tables.
_POINTER = ctypes.sizeof(ctypes.c_void_p)
_NIN = 2 * _POINTER
_FUNCTIONS = 32 if _POINTER == 8 else 0
_NTYPES = _FUNCTIONS + 2 * _POINTER


@cache
def numba_is_here() -> bool:
    """True if loops can be compiled."""
    return (
        os.environ.get("IPU_TEACH_NUMBA") != "0"
        and _POINTER == 8
        and importlib.util.find_spec("numba") is not None
    )


def cache_folder() -> Path:
    """Where compiled loops are kept."""
    chosen = os.environ.get("IPU_TEACH_CACHE")
    return (Path(chosen) if chosen else datasets.cache_folder() / "ipu_teach") / "loops"


_loaded: dict[str, Loop] = {}


def known(text: str) -> bool:
    """True if this process has compiled or loaded `text`."""
    return text in _loaded


@cache
def kept(text: str, folder: Path) -> bool:
    """True if it was in the cache when this was first asked, compiled for some processor."""
    try:
        return any(folder.glob(f"**/{_name(text)}.run-*.nbi"))
    except OSError:
        return False


def loop_of(text: str, arguments: Callable[[], Sequence[Any]]) -> Loop | None:
    """The `run` of `text`, compiled; None where that cannot be. `arguments()`: such that nothing is
    run with them."""
    if text not in _loaded:
        with working("numba compiles a loop"):
            made = _made(text, True, arguments) or _made(text, False, arguments)
        if made is None:
            return None
        _loaded[text] = made
    return _loaded[text]


def _made(text: str, cached: bool, arguments: Callable[[], Sequence[Any]]) -> Loop | None:
    try:
        module = _imported(text) if cached else _executed(text)
        run: Loop = module.run
        run(*arguments())  # compiled here, or read from the cache
        return run
    except (OSError, RuntimeError, EOFError, ImportError, ValueError):
        return None
    except Exception as error:  # numba's own, which cannot be named without importing it
        if type(error).__module__.partition(".")[0] not in (
            "numba",
            "llvmlite",
            "pickle",
            "_pickle",
        ):
            raise
        return None


def _imported(text: str) -> ModuleType:
    """The module of `text`, in a file of the cache, which is there whole or not at all."""
    folder, name = cache_folder(), _name(text)
    path = folder / f"{name}.py"
    source = text.replace("CACHED", "True")
    if not path.is_file() or path.read_text(encoding="utf-8") != source:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(path, source)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # numba looks for it there
    spec.loader.exec_module(module)
    return module


def _executed(text: str) -> ModuleType:
    module = ModuleType(_name(text))
    exec(compile(text.replace("CACHED", "False"), f"<{module.__name__}>", "exec"), module.__dict__)
    return module


@cache
def _version() -> str:
    """What a compiled loop depends on beside its text."""
    from importlib.metadata import version

    native = Path(__file__).with_name("native.py").read_bytes()
    return (
        f"{version('numba')} {version('numpy')} {sys.version_info[:2]} "
        f"{hashlib.sha256(native).hexdigest()}"
    )


def _name(text: str) -> str:
    return f"loop_{hashlib.sha256((_version() + text).encode()).hexdigest()[:24]}"


# numpy's own loops


def addresses(loops: Sequence[tuple[Any, str]]) -> Array | None:
    """int64: where numpy's inner loops lie, each with its data; None where they are not as they are
    taken to be."""
    found = [_address(ufunc, types) for ufunc, types in loops]
    if any(pair is None for pair in found):
        return None
    return np.array(
        [number for pair in found if pair is not None for number in pair] or [0], np.int64
    )


_callbacks: list[Any] = []  # which live as long as compiled loops may call them


def _in_c(function: Callable[..., float], count: int) -> int:
    """Return the address of a C function of `count` doubles that calls one of Python's.

    Such a function must be written in C, as those of `math` are: no Python code runs in the call,
    so that no interruption is raised there. What it raises would be lost.
    """
    double = ctypes.c_double
    _callbacks.append(ctypes.CFUNCTYPE(double, *[double] * count)(function))
    return int(ctypes.cast(_callbacks[-1], ctypes.c_void_p).value or 0)


@cache
def _address(ufunc: Any, types: str) -> tuple[int, int] | None:
    """(function, data) of the loop of `ufunc` for `types`, if the object's fields hold what Python
    says of it; a function that is no ufunc is called by way of C."""
    if not isinstance(ufunc, np.ufunc):
        return _in_c(ufunc, len(types) - len("->d")), 0
    counts = [ctypes.c_int.from_address(id(ufunc) + _NIN + 4 * k).value for k in range(3)]
    ntypes = ctypes.c_int.from_address(id(ufunc) + _NTYPES).value
    if (
        counts != [ufunc.nin, ufunc.nout, ufunc.nargs]
        or ntypes != ufunc.ntypes
        or types not in ufunc.types
    ):
        return None
    number = ufunc.types.index(types)
    functions, data = (
        ctypes.c_void_p.from_address(id(ufunc) + _FUNCTIONS + k * _POINTER).value for k in range(2)
    )
    if not functions:
        return None
    function = ctypes.c_void_p.from_address(functions + number * _POINTER).value
    own = ctypes.c_void_p.from_address(data + number * _POINTER).value if data else 0
    if not function or not _agrees(ufunc, types, function, own or 0):
        return None
    return function, own or 0


def _agrees(ufunc: Any, types: str, function: int, data: int) -> bool:
    """True if the loop gives what numpy gives, for some numbers."""
    dtype = np.dtype(types[-1])
    x = np.array([3, 1, 2] if dtype.kind in "iu" else [0.75, 0.25, 0.5], dtype)
    out, given = np.zeros(3, dtype), [x, x[::-1].copy()][: ufunc.nin]
    steps, counts = [dtype.itemsize] * ufunc.nargs, [3]
    if ufunc.signature:  # a vector by a vector, as matrices of one row and one column
        steps, counts = [0] * ufunc.nargs + [dtype.itemsize] * 6, [1, 1, 3, 1]
    if ufunc.signature and ufunc is not np.matmul:  # or matrices of one number
        given, counts = [a[:1, None] for a in given], [1] * 4
    expected = np.asarray(ufunc(*given))
    call = ctypes.CFUNCTYPE(
        None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
    )(function)
    pointers = (ctypes.c_void_p * ufunc.nargs)(*(end.ctypes.data for end in (*given, out)))
    call(
        pointers,
        (ctypes.c_ssize_t * len(counts))(*counts),
        (ctypes.c_ssize_t * len(steps))(*steps),
        data,
    )
    return out[: expected.size].tobytes() == expected.tobytes()
