"""The numbers of a tile machine: element types, rounding, 8-bit floats, and random numbers.

Beside `tiny`, whose elements are numpy's, this package has the element types of graphs (`dtypes`),
with Poplar's names, sizes and ranges. `half`, `quarter` and `generator` are plain functions on
numpy arrays: rounding as the chip does it, also stochastic, 8-bit floats with their scales, and
the random number generator of the workers, bit for bit. `numbers` shows which of some values a
dtype would lose, and finds the best scale.
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
