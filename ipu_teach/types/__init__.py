"""The numbers a tile machine has."""

from ipu_teach.types.dtypes import (
    ALL,
    BOOL,
    CHAR,
    FLOAT,
    HALF,
    INT,
    LONGLONG,
    SHORT,
    SIGNED_CHAR,
    UNSIGNED_CHAR,
    UNSIGNED_INT,
    UNSIGNED_LONGLONG,
    UNSIGNED_SHORT,
    Array,
    DType,
    as_dtype,
    poison,
    to_host_array,
)

__all__ = [
    "ALL", "BOOL", "CHAR", "FLOAT", "HALF", "INT", "LONGLONG", "SHORT", "SIGNED_CHAR", "UNSIGNED_CHAR", "UNSIGNED_INT",
    "UNSIGNED_LONGLONG", "UNSIGNED_SHORT", "Array", "DType", "as_dtype",
    "poison", "to_host_array",
]  # fmt: skip
