"""A machine without a GPU, and one with a stand-in for it; Ctrl-C, wherever the tests were
started."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from types import ModuleType

import fake_cupy
import pytest

from ipu_teach.engine import backend

# Failed assertions in these libraries are explained as those in tests are.
pytest.register_assert_rewrite("poplibs_bench", "random_codelets")

# A job in the background of a shell begins with SIGINT ignored, and so would all that it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No CUDA driver, whatever this machine has."""
    monkeypatch.delenv("IPU_TEACH_GPU", raising=False)
    monkeypatch.setattr(backend, "cuda_devices", lambda: 0)
    backend._working_cupy.cache_clear()
    yield
    backend._working_cupy.cache_clear()


@pytest.fixture
def stand_in(no_gpu: None, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """One device, and `tests/fake_cupy.py` for CuPy."""
    monkeypatch.setattr(backend, "cuda_devices", lambda: 1)
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy)
    return fake_cupy
