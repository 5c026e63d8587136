"""A sweep whose machines run side by side: on threads, in other processes, on a Dask cluster; what
fails, and Ctrl-C."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import runpy
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from libraries import product

from ipu_teach import Device, Graph, show, sweep
from ipu_teach.errors import InvalidOptionError
from ipu_teach.program import Program

ROOT = Path(__file__).resolve().parents[1]


class Mailed(Executor):
    """What is sent to it, and what comes back, goes through a pickle, as to another process and
    from there."""

    def submit(self, function: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:  # type: ignore[override]
        mailed, future = pickle.dumps((function, args, kwargs)), Future[Any]()
        try:
            function, args, kwargs = pickle.loads(mailed)
            future.set_result(pickle.loads(pickle.dumps(function(*args, **kwargs))))
        except Exception as error:
            future.set_exception(error)
        return future


class Peculiar(Exception):
    """One that cannot be made again from what it holds."""

    def __init__(self, one: int, other: int) -> None:
        super().__init__(f"{one} and {other}")


def particular(device: Device) -> tuple[Graph, Program]:
    count = device.target.num_tiles
    if count == 2:
        raise ValueError("two is not a number")
    if count == 3:
        raise Peculiar(3, 4)
    return product(device)


def forked() -> ProcessPoolExecutor:
    if "fork" not in multiprocessing.get_all_start_methods():
        pytest.skip("processes are not forked there")
    return ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork"))


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("made", [Mailed, lambda: ThreadPoolExecutor(3), forked])
def test_a_sweep_on_an_executor_is_the_same(made: Callable[[], Executor]) -> None:
    counts = [4, 2, 1, 16, 3]
    here = sweep(particular, counts, memory_bytes_per_tile=40_000, progress=False)
    with made() as executor:
        there = sweep(
            particular, counts, memory_bytes_per_tile=40_000, progress=False, executor=executor
        )
    assert there.num_tiles == here.num_tiles == (4, 1, 16) and there.fits == here.fits == (
        True,
        False,
        True,
    )
    assert [r.digest() for r in there.reports] == [r.digest() for r in here.reports]
    assert here.rows() == there.rows() and (here.left, there.left) == ((), ())
    for found in (here, there):
        assert list(found.failed) == [2, 3] and isinstance(found.failed[2], ValueError)
        assert "  host and streaming  " in repr(found).splitlines()[0]
        assert repr(found).splitlines()[-2] == "2 tiles failed: ValueError: two is not a number"
        assert (
            "Peculiar" in repr(found).splitlines()[-1]
            and "<p>2 tiles failed: ValueError" in found._repr_html_()
        )
    if made is not ThreadPoolExecutor and there.failed[2].__cause__ is not None:
        assert "in particular" in str(there.failed[2].__cause__)  # the traceback


def test_a_sweep_of_which_nothing_comes_raises_what_came_first() -> None:
    for executor in (None, Mailed()):
        with pytest.raises(ValueError, match="two is not a number"):
            sweep(particular, [2, 3], progress=False, executor=executor)


@pytest.mark.parametrize("executor", [None, "threads"])
def test_ctrl_c_keeps_what_is_done(executor: str | None) -> None:
    stopped = threading.Event()

    def build(device: Device) -> tuple[Graph, Program]:
        if device.target.num_tiles == 3:
            signal.raise_signal(signal.SIGINT) if executor is None else os.kill(
                os.getpid(), signal.SIGINT
            )
            stopped.wait(10)  # only beside the main thread
        return product(device)

    with ThreadPoolExecutor(1) as pool:
        found = sweep(build, [1, 2, 3, 4, 5], progress=False, executor=pool if executor else None)
        stopped.set()
    assert found.num_tiles == (1, 2) and found.left == (3, 4, 5) and not found.failed
    assert repr(found).splitlines()[-1] == "stopped before 5 tiles were done"


def test_what_cannot_travel_is_named() -> None:
    pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
    told = (
        (lambda device: None, {}, "The function cannot be sent to another process: Can't pickle"),
        (
            product,
            {"relative_sync_delay": lambda: 1},
            "relative_sync_delay cannot be sent to another process: Can't pickle",
        ),
    )
    for build, fields, text in told:
        with pytest.raises(InvalidOptionError) as caught:
            sweep(build, [1], executor=pool, **fields)  # type: ignore[arg-type]
        assert str(caught.value).startswith(text) and " at 0x" not in str(caught.value)
        assert "\n  where: sweep(), <function " in str(caught.value)
        assert (
            "\n  next:  put it into a file such as build.py and import it: from build import build. "
            "Or" in str(caught.value)
        )
    pool.shutdown()
    with pytest.raises(InvalidOptionError) as caught:
        sweep(product, [1], executor=pool)
    assert str(caught.value) == (
        "The executor does not accept calls: cannot schedule new futures after shutdown.\n"
        "  next:  create a new executor, and call sweep() before you shut it down."
    )
    with pytest.raises(InvalidOptionError) as caught:
        sweep(product, [1], executor=4)  # type: ignore[arg-type]
    assert str(caught.value) == (
        "sweep() was given 4, which is not an executor.\n  next:  give one of concurrent.futures, "
        "such as ProcessPoolExecutor(4), or client.get_executor() of a Dask client."
    )


def test_a_function_of_a_notebook_is_no_function_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    def typed(device: Device) -> tuple[Graph, Program]:
        return product(device)

    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))
    typed.__module__, typed.__qualname__ = "__main__", "typed"
    monkeypatch.setattr(sys.modules["__main__"], "typed", typed, raising=False)
    with (
        ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool,
        pytest.raises(
            InvalidOptionError,
            match="The function cannot be sent to another process: it is defined in a notebook",
        ),
    ):
        sweep(typed, [1], executor=pool)


def test_a_sweep_over_ipus() -> None:
    here = sweep(product, num_ipus=[1, 2, 4], tiles_per_ipu=3, progress=False)
    there = sweep(product, num_ipus=[1, 2, 4], tiles_per_ipu=3, executor=Mailed(), progress=False)
    assert (here.num_ipus, here.num_tiles) == ((1, 2, 4), (3, 3, 3)) and here.what == "IPU"
    assert [r.digest() for r in there.reports] == [r.digest() for _, r in here]
    assert [r.target.num_tiles for r in here.reports] == [3, 6, 12]
    assert repr(here).split()[:2] == ["IPUs", "modelled"] and here.rows()[2][0] == "4"
    view = show.sweep(here)
    assert [row["run"].split(",")[0] for row in view.data] == ["1 IPU", "2 IPUs", "4 IPUs"]
    first = here.reports[0].total_cycles
    assert [row["ideal, the same"] for row in show.sweep(here, weak=True).data] == [
        f"{first:,}"
    ] * 3
    both = sweep(product, [2, 3], num_ipus=2, progress=False)
    assert (both.num_ipus, both.num_tiles) == ((2, 2), (2, 3))
    with pytest.raises(InvalidOptionError) as caught:
        sweep(product, num_ipus=[1, 0])
    assert str(caught.value) == (
        "sweep() was given [1, 0] as the numbers of IPUs.\n"
        "  next:  give a list of whole numbers from 1, as in num_ipus=[1, 2, 4]."
    )
    with pytest.raises(InvalidOptionError, match="several numbers of tiles and of IPUs"):
        sweep(product, [1], num_ipus=[1])


@pytest.mark.parametrize("name", ["heat_strong", "heat_weak", "product_strong", "product_weak"])
def test_the_page_of_scaling_has_what_its_script_makes(name: str) -> None:
    """Two of its rows; the picture says which of all are the quickest and the slowest."""
    made = runpy.run_path(str(ROOT / "docs" / "make_scaling.py"))
    text = (ROOT / "docs" / "scaling.md").read_text(encoding="utf-8")
    told = text.split(f"<!-- {name} -->\n")[1].split("\n<!-- end -->")[0].splitlines()
    curve = made["found"](name, [1, 2])
    assert made["table"](curve, made["CURVES"][name][1]).splitlines() == told[:4]
    picture = (ROOT / "docs" / f"scaling_{name}.svg").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in told[2:]]
    assert [int(row[0]) for row in rows] == list(made["IPUS"])
    took = [int(row[1].replace(",", "")) for row in rows]
    assert f"quickest, {min(took):,}" in picture and f"slowest, {max(took):,}" in picture
    assert f"<title>Quickest: {rows[took.index(min(took))][0]} IPU" in picture


def test_the_page_of_scaling_has_the_estimates_of_resnet50(tmp_path: Path) -> None:
    made = runpy.run_path(str(ROOT / "docs" / "make_scaling.py"))
    runs = made["training"]()
    text = (ROOT / "docs" / "scaling.md").read_text(encoding="utf-8")
    assert text.split("<!-- resnet50 -->\n")[1].split("\n<!-- end -->")[0] == (
        made["training_table"](runs)
    )
    made["training_picture"](runs).save(tmp_path / "picture.svg")
    picture = (tmp_path / "picture.svg").read_text(encoding="utf-8")
    assert picture == (ROOT / "docs" / "scaling_resnet50.svg").read_text(encoding="utf-8")
    # The update is the same on both machines, and a step of the first has 7 micro-batches more.
    steps = [run.replicas * 20 * run.accumulation / run.published * 1330 for run, _ in runs]
    micro_batch = (steps[0] - steps[1]) / 7
    update, *rests = steps[1] - 3 * micro_batch, *(step - 2 * micro_batch for step in steps[2:])
    words = " ".join(text.split())
    assert f"takes {micro_batch:.1f} million cycles, and an update takes {update:.1f} mill" in words
    assert f"The rest of a step is {rests[0]:.1f} and {rests[1]:.1f} million cycles" in words
    # 25.6 million gradients in HALF, over 2 x 100 Gbit/s of each of the 16 boxes of a rack.
    gradients = 25_557_032 * 2 / (16 * 2 * 100e9 / 8) * 1330
    between = [f"{gradients * 2 * (racks - 1) / racks:.2f} million" for racks in (2, 4)]
    assert f"needs {between[0]} cycles on" in words and f"and {between[1]} between" in words


def test_a_sweep_on_a_dask_cluster_is_the_same() -> None:
    distributed = pytest.importorskip(
        "distributed", reason="dask.distributed is missing: pip install distributed"
    )
    # A scheduler, a worker and a client as of any cluster, and no processes, which take seconds to
    # begin.
    where = {"processes": False, "n_workers": 1, "threads_per_worker": 2, "dashboard_address": None}
    with distributed.LocalCluster(**where) as cluster, distributed.Client(cluster) as client:
        with pytest.raises(
            InvalidOptionError,
            match=r"which is not an executor.\n  next:  .*client.get_executor\(\)",
        ):
            sweep(product, [1], executor=client)
        built = lambda device: particular(device)  # noqa: E731  # Dask sends functions as they are
        found = sweep(built, [4, 2, 1], progress=False, executor=client.get_executor())
    here = sweep(particular, [4, 1], progress=False)
    assert found.failed.keys() == {2} and isinstance(found.failed[2], ValueError), found.failed
    assert found.num_tiles == (4, 1)
    assert [r.digest() for r in found.reports] == [r.digest() for r in here.reports]
