"""Create the functions of translated codelets, and estimate when compiling one is worthwhile."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from ipu_teach.compile.scalar import ScalarCode
from ipu_teach.engine.fp.vertex_floats import VertexFloats
from ipu_teach.engine.scalar import compiled
from ipu_teach.engine.scalar.fields import TextArgument
from ipu_teach.engine.scalar.function_text import python_text
from ipu_teach.target import Target
from ipu_teach.types import Array

Caller = Callable[[], int]
# A number of cycles that no loop reaches.
FOREVER = 1 << 62
# The CPU seconds for numba's import and for its work before its first loop. The constants below
# estimate the time until a compiled loop runs. They were measured on a server, with the 43 codelets
# of `tests/student_codelets.py` that numba compiles: numba code of 1,500 to 8,000 characters took
# 0.26 to 2.1 seconds, and the estimates are 0.44 to 1.73 times the measured times.
IMPORT = 1.4
COMPILE = 0.25
COMPILE_CHARACTER = 0.000133
READ = 0.02


class CodeletFunctions:
    """The Python function and the compiled loop of a codelet, which count cycles for a target.

    `spent` is the CPU time that the Python function has used, in seconds.
    """

    def __init__(self, code: ScalarCode, target: Target) -> None:
        self.code = code
        self.target = target
        self.spent = 0.0
        space: dict[str, Any] = {}
        name = code.codelet.__name__
        exec(compile(python_text(code, target), f"<{name}, counted>", "exec"), space)
        self.python: Callable[..., int] = space["vertex"]
        self._loops: Array | None = None
        # Becomes False if compiling fails.
        self.compiles = not code.uncompiled and compiled.numba_is_here()

    def addresses(self) -> Array:
        """Return the addresses of numpy's inner loops that the numba code calls.

        The result is [0] if the code calls no such loops. It is also [0] if numpy's data for one of
        these loops are not as expected; in this case, `compiles` is set to False.
        """
        if self._loops is None:
            self._loops = compiled.addresses(self.code.loops)
            self.compiles = self.compiles and self._loops is not None
        return np.zeros(1, np.int64) if self._loops is None else self._loops

    def caller(
        self,
        workers: int,
        regions: Sequence[TextArgument],
        numbers: VertexFloats | None,
        limit: int,
        longer: Callable[[int], int] = int,
    ) -> Caller:
        """Return a function that runs one vertex by the Python code.

        The function returns the cycles of the slowest worker, in units of 1/16 cycle, inverted (~)
        if compute() returns false. `regions` are the arguments that `Fields.arguments` returns.
        `limit` and `longer` are passed as `most` and `longer` to the function that `python_text`
        describes.
        """
        call_of_worker = [
            partial(self.python, worker, workers, limit, longer, *regions)
            for worker in range(workers)
        ]
        if numbers is None and workers == 1:
            return call_of_worker[0]

        def call() -> int:
            worker_cycles = []
            for worker, run in enumerate(call_of_worker):
                if numbers is None:
                    worker_cycles.append(run())
                else:
                    with numbers.begin(worker):
                        worker_cycles.append(run())
            if min(worker_cycles) >= 0:
                return max(worker_cycles)
            return ~max(max(cycles, ~cycles) for cycles in worker_cycles)

        return call

    def seconds_to_compile(self, text: str) -> float:
        """Return an estimate of the CPU seconds until the numba code `text` is ready to run."""
        if compiled.is_loaded(text):
            return 0.0
        is_cached = compiled.is_cached(text, compiled.cache_folder())
        to_compile = READ if is_cached else COMPILE + COMPILE_CHARACTER * len(text)
        return to_compile + (0 if "numba" in sys.modules else IMPORT)

    def compiled(self, text: str, arguments: compiled.Arguments) -> compiled.Loop | None:
        """Return the compiled function `run` of the numba code `text`, or None if that fails.

        `arguments()` returns arguments with which `run` can be called for compilation; with them,
        `run` runs no vertex.
        """
        self.addresses()
        loop = compiled.loop_of(text, arguments) if self.compiles else None
        self.compiles = loop is not None
        return loop


@lru_cache(1024)
def program_of(code: ScalarCode, target: Target) -> CodeletFunctions:
    """Return the `CodeletFunctions` of a translated codelet, which are created only once."""
    return CodeletFunctions(code, target)
