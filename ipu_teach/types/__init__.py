"""The numbers a tile machine has: element types, rounding, 8-bit floats, and the workers' random
numbers.

Beside `tiny`, whose elements are numpy's: dtypes with Poplar's names, sizes and ranges; casts and
rounding as the chip does them, stochastic rounding among them; half and 8-bit floats with their
scales; the workers' generator, bit for bit. All of it is plain arithmetic on arrays, which a lesson
can call by itself.

`dtypes` is what graphs use. `half`, `quarter` and `generator` are plain functions on numpy arrays,
to try a format by itself; `numbers` says what a dtype would lose of some values, and with which
scale it loses least.
"""

from ipu_teach.types.dtypes import (
    ALL,
    BOOL,
    CHAR,
    FLOAT,
    HALF,
    INT,
    LONGLONG,
    QUARTER,
    SHORT,
    SIGNED_CHAR,
    UNSIGNED_CHAR,
    UNSIGNED_INT,
    UNSIGNED_LONGLONG,
    UNSIGNED_SHORT,
    DType,
    as_dtype,
    dtype_named,
    metadata_of,
    poison,
    to_host_array,
)
from ipu_teach.types.half import to_half
from ipu_teach.types.quarter import QuarterFormat, QuarterMetadata, from_quarter, to_quarter
from ipu_teach.types.rounding import Array, Overflow

__all__ = [
    "ALL",
    "BOOL",
    "CHAR",
    "FLOAT",
    "HALF",
    "INT",
    "LONGLONG",
    "QUARTER",
    "SHORT",
    "SIGNED_CHAR",
    "UNSIGNED_CHAR",
    "UNSIGNED_INT",
    "UNSIGNED_LONGLONG",
    "UNSIGNED_SHORT",
    "Array",
    "DType",
    "Overflow",
    "QuarterFormat",
    "QuarterMetadata",
    "as_dtype",
    "dtype_named",
    "from_quarter",
    "metadata_of",
    "poison",
    "to_half",
    "to_host_array",
    "to_quarter",
]
