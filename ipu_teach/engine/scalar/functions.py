"""The texts of scalar loops, made into functions as they are asked for, and when it pays to compile
one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from ipu_teach.compile.scalar import ScalarCode
from ipu_teach.engine.fp.vertex_floats import VertexFloats
from ipu_teach.engine.scalar import compiled
from ipu_teach.engine.scalar.function_text import python_text
from ipu_teach.target import Target
from ipu_teach.types import Array

Caller = Callable[[], int]
FOREVER = 1 << 62  # more cycles than a loop may ever count
# CPU seconds until a compiled loop runs, beside the time that it then takes. Measured on a server,
# over the 43 codelets of `tests/student_codelets.py` that numba compiles: texts of 1,500 to 8,000
# characters took 0.26 to 2.1 seconds, and the line below is 0.44 to 1.73 times that. IMPORT: numba,
# and what it does once before its first loop.
IMPORT, COMPILE, COMPILE_CHARACTER, READ = 1.4, 0.25, 0.000133, 0.02


class CodeletFunctions:
    """The functions of one codelet on one target. `spent`: CPU seconds that CPython's has taken."""

    def __init__(self, code: ScalarCode, target: Target) -> None:
        self.code, self.target, self.spent = code, target, 0.0
        space: dict[str, Any] = {}
        name = code.codelet.__name__
        exec(compile(python_text(code, target), f"<{name}, counted>", "exec"), space)
        self.python: Callable[..., int] = space["vertex"]
        self._loops: Array | None = None
        self.compiles = not code.uncompiled and compiled.numba_is_here()  # as far as is known

    def addresses(self) -> Array:
        """Where numpy's own loops lie that it calls. Where one is not as it should be, it cannot be
        compiled."""
        if self._loops is None:
            self._loops = compiled.addresses(self.code.loops)
            self.compiles = self.compiles and self._loops is not None
        return np.zeros(1, np.int64) if self._loops is None else self._loops

    def caller(
        self,
        workers: int,
        regions: list[Any],
        numbers: VertexFloats | None,
        most: int,
        longer: Any = int,
    ) -> Caller:
        """What runs a vertex by CPython's text, and gives what its slowest worker counts; ~ of that
        for an answer of no."""
        each = [
            partial(self.python, worker, workers, most, longer, *regions)
            for worker in range(workers)
        ]
        if numbers is None and workers == 1:
            return each[0]

        def call() -> int:
            spent = []
            for worker, run in enumerate(each):
                if numbers is None:
                    spent.append(run())
                else:
                    with numbers.begin(worker):
                        spent.append(run())
            if min(spent) >= 0:
                return max(spent)
            return ~max(max(cycles, ~cycles) for cycles in spent)

        return call

    def seconds_to_compile(self, text: str) -> float:
        """Return the CPU seconds until `text` runs, about."""
        if compiled.known(text):
            return 0.0
        is_kept = compiled.kept(text, compiled.cache_folder())
        to_compile = READ if is_kept else COMPILE + COMPILE_CHARACTER * len(text)
        return to_compile + (0 if "numba" in sys.modules else IMPORT)

    def compiled(self, text: str, arguments: Callable[[], Sequence[Any]]) -> compiled.Loop | None:
        """The loop of `text`; None if it cannot be compiled here. `arguments()`: such that nothing
        is run with them."""
        self.addresses()
        found = compiled.loop_of(text, arguments) if self.compiles else None
        self.compiles = found is not None
        return found


@lru_cache(1024)
def program_of(code: ScalarCode, target: Target) -> CodeletFunctions:
    """The functions of `code`, made once."""
    return CodeletFunctions(code, target)
