"""The descriptions of remote buffers: rows of elements in streaming memory."""

from __future__ import annotations

from dataclasses import dataclass

from ipu_teach.errors import GraphObjectCreationError, counted, shown
from ipu_teach.graph.layouts import is_whole
from ipu_teach.graph.variable_table import MOST_BYTES
from ipu_teach.types import DType, as_dtype


@dataclass(frozen=True, eq=False)
class RemoteBuffer:
    """A buffer of `repeats` rows of `num_elements` elements in streaming memory.

    `Graph.add_remote_buffer` creates it. A program copies rows with `Copy(tensor, buffer, offset)`
    and `Copy(buffer, tensor, offset)`, and the host copies rows with `Engine.copy_to_remote_buffer`
    and `copy_from_remote_buffer`. Each of `replicas` replicas has its own rows.
    """

    handle: str
    dtype: type[DType]
    num_elements: int
    repeats: int = 1
    replicas: int = 1

    @property
    def bytes(self) -> int:
        """The total bytes in streaming memory, over all replicas."""
        return self.num_elements * self.repeats * self.replicas * self.dtype.size

    @property
    def rows(self) -> str:
        """The size as text, such as "10 rows of 128 elements"."""
        return f"{counted(self.repeats, 'row')} of {counted(self.num_elements, 'element')}"

    def __repr__(self) -> str:
        return f"RemoteBuffer({self.handle!r}, {self.dtype.__name__}, {self.rows})"


def make_remote_buffer(
    handle: str, dtype: type[DType], num_elements: int, repeats: int, replicas: int = 1
) -> RemoteBuffer:
    """Return the description of a remote buffer. Raises `GraphObjectCreationError`."""
    dtype = as_dtype(dtype, f"The remote buffer {handle!r}")
    for name, value, label in (
        ("num_elements", num_elements, "the elements of one row"),
        ("repeats", repeats, "the number of rows"),
    ):
        if not is_whole(value) or value < 1:
            raise GraphObjectCreationError(f"""The remote buffer {handle!r} was given {shown(value)}
                as {name}, which is not valid.
                next:  give {label}, a whole number of 1 or more.""")
    buffer = RemoteBuffer(
        handle, dtype, num_elements=int(num_elements), repeats=int(repeats), replicas=replicas
    )
    if buffer.bytes > MOST_BYTES:
        raise GraphObjectCreationError(f"""The remote buffer {handle!r} is too large.
            where: {shown(num_elements)} elements in each of {shown(repeats)} rows; a buffer may
            have {MOST_BYTES:,} bytes
            next:  check num_elements and repeats.""")
    return buffer
