"""Published cycles of single vertices, each as a row next to the kit's figure.

The vertices are products by AMP units on a Bow, and the dot product of the tutorials. Rows for a
C600 have the launch of workers, a copy and a sync.
"""

from __future__ import annotations

from dataclasses import replace

from ipu_teach.cost import vertices
from ipu_teach.cost.vertices.parts import SUPERVISOR_OVERHEAD
from ipu_teach.graph import Vertex
from ipu_teach.target import BY_HAND
from ipu_teach.types import HALF
from validation.programs import machine, one_vertex
from validation.row import MODEL, SILICON, Row, Source
from validation.tut6 import DotProduct, dot_cycles

NOTEBOOK = Source(SILICON, "graphcore-research/tessellate-ipu, notebook IPU Peak Flops")
TUTORIALS = Source(
    MODEL, "graphcore/examples, tutorials/poplar/tut5_matrix_vector and tut6_matrix_vector_opt"
)
C600 = Source(SILICON, "osmarks/ipu-stack, crates/ipu-codegen/src/cost.rs, measured on a C600")

# {N: TFLOP/s measured on 1,472 tiles}. Each tile multiplies [N, 16] x [16, 16] in HALF.
MEASURED = {16: 55.494, 64: 152.798, 256: 264.005, 512: 299.776, 1024: 322.726, 2048: 334.94}


def amp() -> list[Row]:
    """Return a row for each size N in `MEASURED`: the measured and the modelled TFLOP/s.

    The measurement at N = 64 fixed the model's rate of loading weights, so its row calibrates the
    model and does not test it.
    """
    target = machine("bow")
    rows = []
    for n, published in MEASURED.items():
        cycles = float(vertices.conv_partial_1x1(n, 16, 16, HALF, target))
        rate = 2 * n * 16 * 16 * target.num_tiles * target.tile_clock_frequency / cycles / 1e12
        fixed = n == 64
        why = "PopLibs' estimate, with weights loaded at 8 bytes a cycle"
        why = "fixed conv_unit_coeff_load_bytes_per_cycle: 8, not 16" if fixed else why
        rows.append(
            NOTEBOOK.row(
                f"ConvPartial1x1 half, {n} x 16 by 16 x 16, Bow chip (TFLOP/s)",
                published,
                modelled=rate,
                tolerance=0.002 if n >= 512 else 0.02,
                why=why,
                calibrates=fixed,
            )
        )
    return rows


def traced_cycles(codelet: type[Vertex], elements: int, prices: str = BY_HAND) -> int:
    """Return the worker cycles of one vertex, counted from its trace.

    Each vector of the vertex has `elements` numbers.
    """
    shapes = {field.name: (elements,) * field.depth for field in codelet.fields.values()}
    return one_vertex(codelet, shapes, codelet_prices=prices) // machine("ipu2").num_worker_contexts


def guesses() -> list[Row]:
    """Return the table rows for the tutorials' formula for a dot product.

    The formula is compared with the counted operations of `self.a @ self.b`.
    """
    why = (
        "counted: a start of 5, two elements a cycle, and the store of the result, which the guess "
        "leaves out"
    )
    return [
        TUTORIALS.row(
            f"dot product of {n} float, the tutorials' guess (worker cycles)",
            dot_cycles(n),
            modelled=traced_cycles(DotProduct, n),
            tolerance=0.05,
            why=why,
        )
        for n in (143, 1000)
    ]


def launches() -> list[Row]:
    """Return the table rows for a C600 chip: a launch of workers, a copy by workers, and a sync."""
    return [
        C600.row(
            "launch of six workers, C600 chip (cycles)",
            11,
            modelled=SUPERVISOR_OVERHEAD,
            tolerance=0,
            why="PopLibs' estimators say the same",
        ),
        C600.unmodelled(
            "local copy by six workers, C600 chip (cycles)",
            288,
            "the size that was copied is not given",
        ),
        replace(C600, kind=MODEL).row(
            "sync of several IPUs, SDK value for a C600 (cycles)",
            600,
            modelled=machine("ipu2").global_sync_cycles,
            tolerance=0,
            why="is global_sync_cycles of ipu2",
            calibrates=True,
        ),
    ]
