"""The matrix products of a vision transformer (SigLIP, 729 tokens), measured on a chip.

The chip has 1,472 tiles. For each product, the recordings have the cycles of the slowest tile in
the compute set that multiplies. Poplar's plans for the products are not published. The kit uses the
plans that `poplin.plan_mat_mul` chooses.
"""

from __future__ import annotations

from ipu_teach.poplibs.poplin import plan_mat_mul
from ipu_teach.types import HALF, QUARTER, DType, QuarterFormat
from validation.programs import machine
from validation.row import PROGRAMS, SILICON, TOLERANCES, Row, Source

RECORDINGS = Source(
    SILICON,
    "osmarks/ipu-stack, docs/SDK_ONNX_PROFILE_ANALYSIS.md, recordings of Poplar's SDK on a C600",
)

# Each item is (name, sizes (groups, m, k, n), cycles with operands of HALF, cycles with 8-bit
# floats).
PRODUCTS = (
    ("query, key and value", (1, 729, 1_152, 3_456), 37_277, 22_415),
    ("query times key", (16, 729, 72, 729), 8_488, 5_502),
    ("weights times value", (16, 729, 729, 72), 12_900, 7_377),
    ("output of attention", (1, 729, 1_152, 1_152), 14_153, 8_178),
    ("up", (1, 729, 1_152, 4_304), 48_248, 26_425),
    ("down", (1, 729, 4_304, 1_152), 52_187, 28_265),
)


def products() -> list[Row]:
    """Return a row for each of six products, with operands of HALF and of 8-bit floats."""
    target = machine("ipu2")
    rows = []
    types: tuple[type[DType], ...] = HALF, QUARTER[QuarterFormat.F143, 0]
    for name, (groups, m, k, n), *published in PRODUCTS:
        for dtype, figure in zip(types, published, strict=True):
            plan = plan_mat_mul(m, k, n, target, groups=groups, dtype=dtype, partials_type=HALF)
            shape = (f"{groups} x " if groups > 1 else "") + f"[{m:,}, {k:,}] x [{k:,}, {n:,}]"
            blocks = plan.group_blocks, plan.row_blocks, plan.inner_blocks, plan.column_blocks
            why = (
                "PopLibs' plan is not published; the kit's plan has {} x {} x {} x {} blocks "
                "of groups, rows, inner and columns"
            )
            name_of = (
                f"transformer, {name}, {shape} {'half' if dtype is HALF else 'F143'}: multiplying "
                "(cycles)"
            )
            rows.append(
                RECORDINGS.row(
                    name_of,
                    figure,
                    modelled=dict(plan.parts)["multiply"],
                    tolerance=TOLERANCES[PROGRAMS],
                    why=why.format(*blocks),
                    explained=True,
                )
            )
    return rows
