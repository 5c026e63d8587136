"""The numbers of a tile machine: element types, rounding, 8-bit floats and random numbers.

Compared with `tiny`, which uses numpy's element types, this package has the module `dtypes`, whose
types have Poplar's names, sizes and ranges. All graphs except those of `tiny` use these types. The
other modules contain functions on numpy arrays, and do not depend on graphs:

* `rounding`: rounding to a format with few bits, to nearest or stochastically
* `half`: rounding to half precision as the chip does it
* `quarter`: 8-bit floats and their scales
* `generator`: the random number generator of the worker threads, bit for bit
* `numbers`: the values that a dtype would lose, and the best scale for them
* `regions`: vertex regions that plain numpy arrays cannot represent
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
