"""Fixtures that several test modules share, and a handler for Ctrl-C."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from types import ModuleType
from typing import Any
from unittest import mock

import fake_cupy
import pytest

from ipu_teach.engine import backend
from ipu_teach.engine.scalar import run as scalar_run
from ipu_teach.engine.scalar.run import ScalarRun
from ipu_teach.graph import codelet_registry

# Failed assertions in these libraries are explained as those in tests are.
pytest.register_assert_rewrite(
    *("all_reduces", "engine_parts", "ir_cases", "ir_torch", "pages", "poplibs_bench"),
    *("random_codelets", "scalar_vertices", "two_tile_ipus"),
)

# A background job of a shell ignores SIGINT, and so would every process that it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This machine has no CUDA driver, for the kit."""
    monkeypatch.delenv("IPU_TEACH_GPU", raising=False)
    monkeypatch.setattr(backend, "cuda_devices", lambda: 0)
    forget_cupy = backend._working_cupy.cache_clear
    forget_cupy()
    yield
    forget_cupy()


@pytest.fixture
def stand_in(no_gpu: None, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """This machine has one CUDA device, for the kit, and `tests/fake_cupy.py` stands in for CuPy."""
    monkeypatch.setattr(backend, "cuda_devices", lambda: 1)
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy)
    return fake_cupy


@pytest.fixture(scope="module")
def compiled_loops_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Compiled scalar loops are cached in a folder of the test module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IPU_TEACH_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def vertices_by_python(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Every scalar loop is compiled at its first run. A list of the vertices that fall back.

    Each run appends the numbers of the vertices that CPython runs instead of the compiled loop.
    """
    plain = ScalarRun._by_python
    numbers: list[int] = []

    def recorded(self: ScalarRun, first: int, last: int, *wait: Any) -> int:
        numbers.extend(range(first, last))
        return plain(self, first, last, *wait)

    monkeypatch.setattr(scalar_run, "CHOSEN", ContextVar("chosen", default="compiled"))
    monkeypatch.setattr(ScalarRun, "_by_python", recorded)
    return numbers


@pytest.fixture
def compiled_runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list of the first vertex of each run of a compiled loop; each run appends its own."""
    plain = ScalarRun._by_compiled
    numbers: list[int] = []

    def recorded(self: ScalarRun, first: int) -> None:
        numbers.append(first)
        plain(self, first)

    monkeypatch.setattr(ScalarRun, "_by_compiled", recorded)
    return numbers


@pytest.fixture
def marked_codelets() -> Iterator[None]:
    """The codelets that the test marks with @codelet are forgotten after it."""
    with mock.patch.dict(codelet_registry._marked):
        yield
