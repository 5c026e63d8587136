"""Compare the tile engine with other ways to run tile kernels: `python3 run.py bench --peers`.

The other programs, the peers, run only a small part of each workload, because the whole workload
would take them too long. Their time is divided by the part's fraction of the workload. Numba and
Triton are in the extra `bench`. If a peer is not installed, its row reports this.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable

from bench import codelets, kernels, symbolic
from bench.measure import ROOT, Ratios, Row, Work

OURS: dict[str, Callable[[], Work]] = {
    "w1a": lambda: kernels.matvec(codelets.Dot, codelets.Sum, 1)[0],
    "w1b": lambda: kernels.matvec(codelets.DotLoop, codelets.SumLoop, 1)[0],
    "w2": lambda: kernels.elementwise()[0],
    "w3": lambda: kernels.product(False)[0],
    "w3x": lambda: kernels.product(True)[0],
    "w4a": lambda: kernels.small(False)[0],
    "w4ax": lambda: kernels.small(True)[0],
    "w5a": lambda: kernels.pictures(codelets.Stencil, 8)[0],
    "w5b": lambda: kernels.pictures(codelets.Stencil, 64)[0],
    "w6i": lambda: kernels.collatz()[0],
}
CALLS = 5
EXTRA = "python -m pip install -e '.[bench]'"

# Maps each workload to (the seconds that the measured part takes, the part's fraction of the whole
# workload).
Parts = dict[str, tuple[float, float]]


def _seconds(work: Work) -> float:
    """Return the processor time of the quickest of some calls, after one call to warm up."""
    work()
    taken = []
    for _ in range(CALLS):
        begin = time.process_time()
        work()
        taken.append(time.process_time() - begin)
    return min(taken)


def _program(name: str, switch: str) -> Parts | str:
    """Return the results of another benchmark program, or the last line of its error.

    The program runs with the environment variable `switch` set.
    """
    command = [sys.executable, "-m", f"bench.{name}"]
    done = subprocess.run(
        command, cwd=ROOT, env=dict(os.environ, **{switch: "1"}), capture_output=True, text=True
    )
    if done.returncode:
        return f"{switch}=1 does not run: {(done.stderr.strip().splitlines() or ['no word'])[-1]}"
    parts: Parts = json.loads(done.stdout)
    return parts


def _beside(peer: Callable[[], Parts | str], names: list[str]) -> Ratios:
    """Return a function that measures {workload: our seconds relative to the peer's}."""
    ours = {name: OURS[name]() for name in names}

    def one_round() -> dict[str, float] | str:
        parts = peer()
        if isinstance(parts, str):
            return parts
        return {
            name: _seconds(work) * parts[name][1] / parts[name][0] for name, work in ours.items()
        }

    return one_round


def _beside_triton(names: list[str]) -> Ratios | str:
    if importlib.util.find_spec("triton") is None:
        return f"Triton is not installed, which there is for Linux only: {EXTRA}"
    if importlib.util.find_spec("torch") is None:
        return (
            "PyTorch is not installed, from which Triton takes its arrays: python -m pip install "
            "-e '.[torch]'"
        )
    return _beside(lambda: _program("interpreted", "TRITON_INTERPRET"), names)


def _beside_numba(names: list[str]) -> Ratios | str:
    if importlib.util.find_spec("numba") is None:
        return f"Numba is not installed: {EXTRA}"
    return _beside(lambda: _program("simulated", "NUMBA_ENABLE_CUDASIM"), names)


NUMBA = "Numba's CUDA simulator, scaled up from a part"
ROWS = [
    Row(
        "t1",
        "w1a, w2, w3, w3x, w4a, w4ax, w5a and w5b, the worst",
        "Triton's interpreter, scaled up from a part",
        0.004,
        lambda: _beside_triton(["w1a", "w2", "w3", "w3x", "w4a", "w4ax", "w5a", "w5b"]),
    ),
    Row(
        "t2",
        "w1b, w2, w3, w3x, w4a, w4ax and w5a, the worst",
        NUMBA,
        0.001,
        lambda: _beside_numba(["w1b", "w2", "w3", "w3x", "w4a", "w4ax", "w5a"]),
    ),
    Row("t2w6", "divergent integer codelet (Collatz)", NUMBA, 0.07, lambda: _beside_numba(["w6i"])),
    Row(
        "t3",
        "w1b and w2, the worst",
        "a symbolic run without values, scaled up from a part",
        0.001,
        lambda: _beside(symbolic.parts, ["w1b", "w2"]),
    ),
]
