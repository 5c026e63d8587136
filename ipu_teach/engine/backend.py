"""Which array module the engine computes with."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController


def cuda_devices() -> int:
    """How many CUDA devices the driver shows; 0 without a driver. Imports nothing big, takes under a millisecond."""
    name = {"win32": "nvcuda.dll", "darwin": ""}.get(sys.platform, "libcuda.so.1")
    if not name:
        return 0
    try:
        driver = ctypes.CDLL(name)
        count = ctypes.c_int(0)
        working = driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0
    except (OSError, AttributeError):  # no such library, or one without these entries
        return 0
    return count.value if working else 0


class Backend:
    """The array functions the engine uses for tile data, by the names under which it uses them.

    No other module of the engine calls the array module on tile data, so that another one with the same functions can take
    its place.
    """

    name = "numpy"

    def __init__(self) -> None:
        self.as_strided: Any = np.lib.stride_tricks.as_strided
        self.zeros: Any = np.zeros
        self.empty: Any = np.empty
        self.copyto: Any = np.copyto
        self.take: Any = np.take
        self.matmul: Any = np.matmul
        self.vecdot: Any = np.vecdot
        self.clip: Any = np.clip
        self.may_share_memory: Any = np.may_share_memory


def one_blas_thread() -> ThreadpoolController:
    """A controller whose `limit(limits=1)` keeps BLAS at one thread: many small products stall with more."""
    return ThreadpoolController()
