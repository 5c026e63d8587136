"""The tile engine beside other ways to run kernels for a tile machine without one: `ipu-teach bench --peers`.

The peers run a small part of each workload, for they would not come to the end of the whole, and their time is scaled up by
the share. They are in the extra `bench`; a row whose peer is not installed says so.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable

from ipu_teach.bench import codelets, kernels
from ipu_teach.bench.measure import Row, Work

OURS: dict[str, Callable[[], Work]] = {
    "w1": lambda: kernels.matvec(codelets.DotLoop, codelets.SumLoop, 1)[0],
    "w2": lambda: kernels.elementwise()[0],
    "w5": lambda: kernels.pictures(codelets.Stencil, 8)[0],
    "w6": lambda: kernels.collatz()[0],
}
CALLS = 5


def _seconds(work: Work) -> float:
    """Of the processor, for the quickest of some calls; the first one warms up."""
    work()
    taken = []
    for _ in range(CALLS):
        begin = time.process_time()
        work()
        taken.append(time.process_time() - begin)
    return min(taken)


def _beside_the_simulator(names: list[str]) -> float | str:
    """The worst ratio over some workloads: our seconds for the whole, by the simulator's, scaled up to the whole."""
    if importlib.util.find_spec("numba") is None:
        return "Numba is not installed: python -m pip install -e '.[bench]'"
    env = dict(os.environ, NUMBA_ENABLE_CUDASIM="1")
    command = [sys.executable, "-m", "ipu_teach.bench.simulated"]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    if done.returncode:
        return f"Numba's simulator does not run: {(done.stderr.strip().splitlines() or ['no word'])[-1]}"
    parts: dict[str, tuple[float, float]] = json.loads(done.stdout)
    return max(_seconds(OURS[name]()) / (parts[name][0] / parts[name][1]) for name in names)


ROWS = [
    Row("t2", "w1b, w2 and w5a, the worst of them", "Numba's CUDA simulator, scaled up from a part", 0.001,
        lambda: _beside_the_simulator(["w1", "w2", "w5"]), 1),
    Row("t2w6", "divergent integer codelet (Collatz)", "Numba's CUDA simulator, scaled up from a part", 0.07,
        lambda: _beside_the_simulator(["w6"]), 1),
]  # fmt: skip
