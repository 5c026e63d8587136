"""What joins a graph to its host: streams, and tensors that the host reads or writes whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from ipu_teach.errors import GraphObjectCreationError, shown
from ipu_teach.graph.debug import scoped
from ipu_teach.types import DType, as_dtype

if TYPE_CHECKING:
    from ipu_teach.graph.tensor import Tensor

HasHandle = TypeVar("HasHandle", bound="DataStream | HostAccess")


@dataclass(frozen=True, eq=False)
class DataStream:
    """A channel between host and device of `num_elements` elements a transfer. Connect it with `Engine.connect_stream`."""

    handle: str
    dtype: type[DType]
    num_elements: int
    to_device: bool

    def __repr__(self) -> str:
        way = "host to device" if self.to_device else "device to host"
        return f"DataStream({self.handle!r}, {way}, {self.num_elements:,} {self.dtype.__name__})"


@dataclass(frozen=True, eq=False)
class HostAccess:
    """A tensor that the host reads or writes whole, outside any program, under `handle`."""

    handle: str
    tensor: Tensor
    write: bool

    def __repr__(self) -> str:
        return f"the handle by which the host {'writes' if self.write else 'reads'} {self.tensor!r}"


def scoped_handle(handle: str, debug_context: str | None) -> str:
    """A stream's handle within a scope; what is no name is left for `new_stream` to refuse."""
    return handle if not isinstance(handle, str) else scoped(handle, debug_context) or ""


def new_stream(handle: str, dtype: type[DType], num_elements: int, to_device: bool) -> DataStream:
    """A stream from checked arguments."""
    check_handle(handle, f"add_{'host_to_device' if to_device else 'device_to_host'}_fifo()")
    dtype = as_dtype(dtype, f"The stream {handle!r}")
    if not isinstance(num_elements, (int, np.integer)) or isinstance(num_elements, bool) or num_elements < 1:
        raise GraphObjectCreationError(
            f"The stream {handle!r} was given the size {shown(num_elements)}.",
            next_step="give the elements of one transfer, a whole number of 1 or more.",
        )
    return DataStream(handle, dtype, int(num_elements), to_device)


def register(known: dict[str, HasHandle], item: HasHandle) -> HasHandle:
    """Add `item` under its handle, which must be new."""
    if item.handle in known:
        raise GraphObjectCreationError(
            f"There is already a handle {item.handle!r}.", where=repr(known[item.handle]), next_step="choose another name."
        )
    known[item.handle] = item
    return item


def check_handle(handle: object, call: str) -> None:
    """A handle is text."""
    if not isinstance(handle, str):
        raise GraphObjectCreationError(
            f"{call} was given the handle {shown(handle)}.", next_step="a handle is a name, as in 'weights'."
        )
