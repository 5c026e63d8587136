"""The rows that want a CUDA GPU: the engine on CuPy, beside numpy and beside CuPy alone. Not run on a device yet."""

from __future__ import annotations

from ipu_teach.bench.kernels import floats, large_step, product
from ipu_teach.bench.measure import Row, Work
from ipu_teach.engine.backend import cupy_module


def _step() -> tuple[Work, Work] | str:
    cupy, why = cupy_module()
    return f"needs a CUDA GPU: {why}" if cupy is None else large_step(backend="cupy")


def _matmul() -> tuple[Work, Work] | str:
    cupy, why = cupy_module()
    if cupy is None:
        return f"needs a CUDA GPU: {why}"
    a, b = (cupy.asarray(floats(4096, 4096)) for _ in range(2))
    out = cupy.empty_like(a)

    def floor() -> None:
        cupy.matmul(a, b, out=out)
        cupy.cuda.get_current_stream().synchronize()

    return product(False, 4096, 128, backend="cupy")[0], floor


ROWS = [
    Row("g1", "logistic step, batch 60,000, on a GPU", "numpy", 0.25, _step, threads=True),
    Row("g2", "matmul 4096 on a GPU", "the same in CuPy", 1.2, _matmul, threads=True),
]
