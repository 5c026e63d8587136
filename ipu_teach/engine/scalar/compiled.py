"""Scalar loops as machine code: compiled by numba, if it is installed, and cached in a folder.

numba is imported when a loop is first compiled. If the cache fails (a full disk, a read-only home,
another process at the same time), the loop is compiled without it. The numba code of a loop (`text`
in this module) contains no addresses and no data, so the name of its file can be a hash of the
code. numba itself checks that cached machine code is for the present processor.

The environment variable `IPU_TEACH_NUMBA=0` switches numba off, and `IPU_TEACH_CACHE` sets another
cache folder.
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
from ipu_teach.arguments import Function
from ipu_teach.types import Array

Loop = Callable[..., int]
Arguments = Callable[[], Sequence[int | Array]]  # A function that returns arguments for a loop.

# The constants below are the offsets of counts and tables in CPython's object struct and in numpy's
# PyUFuncObject (numpy/ufuncobject.h).
_POINTER = ctypes.sizeof(ctypes.c_void_p)
_NIN = 2 * _POINTER
_FUNCTIONS = 32 if _POINTER == 8 else 0
_NTYPES = _FUNCTIONS + 2 * _POINTER


@cache
def numba_is_here() -> bool:
    """Return whether numba is installed and may compile loops."""
    return (
        os.environ.get("IPU_TEACH_NUMBA") != "0"
        and _POINTER == 8
        and importlib.util.find_spec("numba") is not None
    )


def cache_folder() -> Path:
    """Return the folder in which compiled loops are cached."""
    chosen = os.environ.get("IPU_TEACH_CACHE")
    return (Path(chosen) if chosen else datasets.cache_folder() / "ipu_teach") / "loops"


_loaded: dict[str, Loop] = {}


def is_loaded(text: str) -> bool:
    """Return whether this process has already compiled the numba code `text`, or loaded it."""
    return text in _loaded


@cache
def is_cached(text: str, folder: Path) -> bool:
    """Return whether the cache contained the numba code `text` at the first call with this code.

    The cached machine code may be for another processor.
    """
    try:
        return any(folder.glob(f"**/{_name(text)}.run-*.nbi"))
    except OSError:
        return False


def loop_of(text: str, arguments: Arguments) -> Loop | None:
    """Return the compiled function `run` of the numba code `text`, or None if that is impossible.

    `arguments()` returns arguments with which `run` can be called for compilation; with them, `run`
    runs no vertex.
    """
    if text not in _loaded:
        with working("numba compiles a loop"):
            run = _compiled(text, True, arguments) or _compiled(text, False, arguments)
        if run is None:
            return None
        _loaded[text] = run
    return _loaded[text]


def _compiled(text: str, cached: bool, arguments: Arguments) -> Loop | None:
    """Return the compiled function `run` of the numba code `text`, or None if compiling fails.

    If `cached` is True, the machine code is read from the cache or written to it.
    """
    try:
        module = _imported(text) if cached else _executed(text)
        run: Loop = module.run
        # This call compiles the numba code, or reads the machine code from the cache.
        run(*arguments())
        return run
    except (OSError, RuntimeError, EOFError, ImportError, ValueError):
        return None
    # numba raises its own classes of errors, which cannot be named here without importing numba.
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in (
            "numba",
            "llvmlite",
            "pickle",
            "_pickle",
        ):
            raise
        return None


def _imported(text: str) -> ModuleType:
    """Write the numba code `text` to a file in the cache folder, and import it as a module.

    The file is written atomically.
    """
    folder = cache_folder()
    name = _name(text)
    path = folder / f"{name}.py"
    source = text.replace("CACHED", "True")
    if not path.is_file() or path.read_text(encoding="utf-8") != source:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(path, source)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Add the module to sys.modules, because numba looks for it there.
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _executed(text: str) -> ModuleType:
    """Execute the numba code `text` as a new module, without a file, and return the module."""
    module = ModuleType(_name(text))
    exec(compile(text.replace("CACHED", "False"), f"<{module.__name__}>", "exec"), module.__dict__)
    return module


@cache
def _version() -> str:
    """Return the versions of software on which a compiled loop depends, in addition to its code."""
    from importlib.metadata import version

    native = Path(__file__).with_name("native.py").read_bytes()
    return (
        f"{version('numba')} {version('numpy')} {sys.version_info[:2]} "
        f"{hashlib.sha256(native).hexdigest()}"
    )


def _name(text: str) -> str:
    return f"loop_{hashlib.sha256((_version() + text).encode()).hexdigest()[:24]}"


# Functions for the addresses of numpy's inner loops


def addresses(loops: Sequence[tuple[Function, str]]) -> Array | None:
    """Return the addresses of numpy's inner loops, each followed by the address of its data.

    Each of `loops` is (ufunc, type letters). The result is an int64 array, which is [0] if `loops`
    is empty, or None if numpy's objects do not have the expected contents.
    """
    pairs = [_address(ufunc, types) for ufunc, types in loops]
    if any(pair is None for pair in pairs):
        return None
    return np.array(
        [number for pair in pairs if pair is not None for number in pair] or [0], np.int64
    )


# Keeps the callbacks alive, because compiled loops may call them at any time.
_callbacks: list[Any] = []


def _in_c(function: Callable[..., float], count: int) -> int:
    """Return the address of a C function of `count` doubles that calls the function `function`.

    `function` must be written in C, like the functions of `math`. So no Python code runs during the
    call, and no interruption is raised. If `function` raises an error, the error is lost.
    """
    double = ctypes.c_double
    _callbacks.append(ctypes.CFUNCTYPE(double, *[double] * count)(function))
    return int(ctypes.cast(_callbacks[-1], ctypes.c_void_p).value or 0)


@cache
def _address(ufunc: Function, types: str) -> tuple[int, int] | None:
    """Return (address of a ufunc's inner loop, address of the loop's data), or None.

    `types` are the type letters of the loop. The addresses are read from the ufunc's C object. The
    result is None if the ufunc has no such loop, or if other fields of the object differ from the
    values that Python reports for them. It is also None if calling the loop by its address gives a
    different result than the ufunc. If `ufunc` is not a ufunc but another Python function, the
    returned address is that of a C function that calls it.
    """
    if not isinstance(ufunc, np.ufunc):
        return _in_c(ufunc, len(types) - len("->d")), 0
    field_counts = [
        ctypes.c_int.from_address(id(ufunc) + _NIN + 4 * field_index).value
        for field_index in range(3)
    ]
    ntypes = ctypes.c_int.from_address(id(ufunc) + _NTYPES).value
    if (
        field_counts != [ufunc.nin, ufunc.nout, ufunc.nargs]
        or ntypes != ufunc.ntypes
        or types not in ufunc.types
    ):
        return None
    loop_number = ufunc.types.index(types)
    functions, data = (
        ctypes.c_void_p.from_address(id(ufunc) + _FUNCTIONS + field_index * _POINTER).value
        for field_index in range(2)
    )
    if not functions:
        return None
    function = ctypes.c_void_p.from_address(functions + loop_number * _POINTER).value
    loop_data = ctypes.c_void_p.from_address(data + loop_number * _POINTER).value if data else 0
    if not function or not _agrees(ufunc, types, function, loop_data or 0):
        return None
    return function, loop_data or 0


def _agrees(ufunc: np.ufunc, types: str, function: int, data: int) -> bool:
    """Return whether a call of an inner loop by its address gives the same result as the ufunc.

    `function` and `data` are the addresses of the loop and its data. The test uses a few example
    numbers as operands.
    """
    dtype = np.dtype(types[-1])
    numbers = np.array([3, 1, 2] if dtype.kind in "iu" else [0.75, 0.25, 0.5], dtype)
    out = np.zeros(3, dtype)
    inputs = [numbers, numbers[::-1].copy()][: ufunc.nin]
    strides = [dtype.itemsize] * ufunc.nargs
    loop_counts = [3]
    # The operands of a product are a matrix of one row and a matrix of one column.
    if ufunc.signature:
        strides = [0] * ufunc.nargs + [dtype.itemsize] * 6
        loop_counts = [1, 1, 3, 1]
    # The operands are matrices with one row and one column.
    if ufunc.signature and ufunc is not np.matmul:
        inputs = [operand[:1, None] for operand in inputs]
        loop_counts = [1] * 4
    expected = np.asarray(ufunc(*inputs))
    call = ctypes.CFUNCTYPE(
        None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
    )(function)
    pointers = (ctypes.c_void_p * ufunc.nargs)(*(array.ctypes.data for array in (*inputs, out)))
    call(
        pointers,
        (ctypes.c_ssize_t * len(loop_counts))(*loop_counts),
        (ctypes.c_ssize_t * len(strides))(*strides),
        data,
    )
    return out[: expected.size].tobytes() == expected.tobytes()
